//! The flags of db_bench's mixgraph, by its names and with its defaults, and mixes by name.

use std::time::Duration;

use super::table::{BOOLEAN, Flag, boolean, number, positive, put, size};

/// The flag that sets many of the others at once.
pub(crate) const MIX: &str = "mix";

/// A mix by name: what it sets, which other flags override.
pub(crate) struct NamedMix {
    pub name: &'static str,
    pub doc: &'static str,
    pub flags: &'static [(&'static str, &'static str)],
}

/// The mixes of three services of Facebook, as far as figures are public. docs/guide/workloads.md says which are guesses.
pub(crate) const MIXES: &[NamedMix] = &[
    NamedMix {
        name: "udb",
        doc: "the social graph, in MySQL on RocksDB",
        flags: &[
            ("key_size", "27"),
            ("value_size", "127"),
            ("mix_get_ratio", "0.75"),
            ("mix_put_ratio", "0.2"),
            ("mix_seek_ratio", "0.05"),
            ("key_dist_a", "0.002312"),
            ("key_dist_b", "0.3467"),
            ("value_k", "0.923"),
            ("value_sigma", "226.409"),
            ("iter_k", "0.0819"),
            ("iter_sigma", "1.747"),
            ("sine_a", "147.9"),
            ("sine_b", "0.000083"),
            ("sine_c", "-1.734"),
            ("sine_d", "1064.2"),
        ],
    },
    NamedMix {
        name: "zippydb",
        doc: "a distributed key-value store, here the metadata of objects",
        flags: &[
            ("key_size", "48"),
            ("value_size", "43"),
            ("mix_get_ratio", "0.78"),
            ("mix_put_ratio", "0.13"),
            ("mix_seek_ratio", "0.03"),
            ("mix_delete_ratio", "0.06"),
            ("key_dist_a", "0.002312"),
            ("key_dist_b", "0.3467"),
            ("keyrange_dist_a", "14.18"),
            ("keyrange_dist_b", "-2.917"),
            ("keyrange_dist_c", "0.0164"),
            ("keyrange_dist_d", "-0.08082"),
            ("keyrange_num", "30"),
            ("value_k", "0.2615"),
            ("value_sigma", "25.45"),
            ("iter_k", "2.517"),
            ("iter_sigma", "14.236"),
            ("sine_a", "1000"),
            ("sine_b", "0.000073"),
            ("sine_d", "4500"),
        ],
    },
    NamedMix {
        name: "up2x",
        doc: "counters about users, for services of machine learning",
        flags: &[
            ("key_size", "10"),
            ("value_size", "48"),
            ("mix_get_ratio", "0.0746"),
            ("mix_merge_ratio", "0.9253"),
            ("value_theta", "48"),
            ("value_sigma", "0"),
            ("key_dist_a", "0.002312"),
            ("key_dist_b", "0.3467"),
        ],
    },
];

/// The mix called `name`.
pub(super) fn named(name: &str) -> Result<&'static NamedMix, String> {
    let known = || MIXES.iter().map(|mix| mix.name).collect::<Vec<_>>().join(", ");
    let found = MIXES.iter().find(|mix| mix.name == name);
    found.ok_or_else(|| format!("--{MIX}={name}: no such mix; there are {}", known()))
}

const RATIO: &str = "a number, 0 or above";
const NUMBER: &str = "a number";
const POSITIVE: &str = "count, 1 or more";

pub(crate) const MIX_FLAGS: &[Flag] = &[
    Flag {
        name: "mix_get_ratio",
        takes: RATIO,
        doc: "How many of the operations are gets, in proportion to the other ratios [1].",
        set: |config, text| put(&mut config.mix.ratios.get, ratio(text)),
    },
    Flag {
        name: "mix_put_ratio",
        takes: RATIO,
        doc: "How many are puts [0].",
        set: |config, text| put(&mut config.mix.ratios.put, ratio(text)),
    },
    Flag {
        name: "mix_seek_ratio",
        takes: RATIO,
        doc: "How many are seeks, with the steps of a scan [0].",
        set: |config, text| put(&mut config.mix.ratios.seek, ratio(text)),
    },
    Flag {
        name: "mix_delete_ratio",
        takes: RATIO,
        doc: "How many are deletes. Not of db_bench [0].",
        set: |config, text| put(&mut config.mix.ratios.delete, ratio(text)),
    },
    Flag {
        name: "mix_merge_ratio",
        takes: RATIO,
        doc: "How many are merges, which add to counters of 8 bytes each that fill the value. Not of db_bench [0].",
        set: |config, text| put(&mut config.mix.ratios.merge, ratio(text)),
    },
    Flag {
        name: "mix_max_scan_len",
        takes: POSITIVE,
        doc: "Scans are cut to less than this, by its remainder [10000].",
        set: |config, text| put(&mut config.mix.scan_max, positive(text)),
    },
    Flag {
        name: "mix_max_value_size",
        takes: "bytes, 1 to 1048576",
        doc: "Longer values are cut to less than this, by its remainder [1024].",
        set: |config, text| {
            let size = size(text).filter(|size| (1..=1 << 20).contains(size));
            put(&mut config.mix.value_max, size.map(|size| size as u64))
        },
    },
    Flag {
        name: "keyrange_num",
        takes: POSITIVE,
        doc: "Ranges that the keys are cut into, some hotter than others [1].",
        set: |config, text| put(&mut config.mix.range_count, positive(text)),
    },
    Flag {
        name: "keyrange_dist_a",
        takes: NUMBER,
        doc: "The xth hottest range has a weight of a*exp(b*x)+c*exp(d*x); no ranges if all four are 0 [0].",
        set: |config, text| put(&mut config.mix.ranges.a, number(text)),
    },
    Flag {
        name: "keyrange_dist_b",
        takes: NUMBER,
        doc: "See keyrange_dist_a [0].",
        set: |config, text| put(&mut config.mix.ranges.b, number(text)),
    },
    Flag {
        name: "keyrange_dist_c",
        takes: NUMBER,
        doc: "See keyrange_dist_a [0].",
        set: |config, text| put(&mut config.mix.ranges.c, number(text)),
    },
    Flag {
        name: "keyrange_dist_d",
        takes: NUMBER,
        doc: "See keyrange_dist_a [0].",
        set: |config, text| put(&mut config.mix.ranges.d, number(text)),
    },
    Flag {
        name: "key_dist_a",
        takes: RATIO,
        doc: "The x hottest keys, of a range if there are ranges, have a share of a*x^b. If a or b is 0, keys are uniform within \
              ranges, and without ranges as --draw says [0].",
        set: |config, text| put(&mut config.mix.keys.a, ratio(text)),
    },
    Flag {
        name: "key_dist_b",
        takes: "0 or above: the share a*x^b grows with x",
        doc: "See key_dist_a [0].",
        set: |config, text| put(&mut config.mix.keys.b, ratio(text)),
    },
    Flag {
        name: "value_theta",
        takes: RATIO,
        doc: "Bytes of values have a generalized Pareto distribution: of theta, of k, of sigma [0].",
        set: |config, text| put(&mut config.mix.values.theta, ratio(text)),
    },
    Flag {
        name: "value_k",
        takes: NUMBER,
        doc: "See value_theta [0.2615].",
        set: |config, text| put(&mut config.mix.values.k, number(text)),
    },
    Flag {
        name: "value_sigma",
        takes: RATIO,
        doc: "See value_theta [25.45].",
        set: |config, text| put(&mut config.mix.values.sigma, ratio(text)),
    },
    Flag {
        name: "iter_theta",
        takes: RATIO,
        doc: "Entries of scans have a generalized Pareto distribution: of theta, of k, of sigma [0].",
        set: |config, text| put(&mut config.mix.scans.theta, ratio(text)),
    },
    Flag {
        name: "iter_k",
        takes: NUMBER,
        doc: "See iter_theta [2.517].",
        set: |config, text| put(&mut config.mix.scans.k, number(text)),
    },
    Flag {
        name: "iter_sigma",
        takes: RATIO,
        doc: "See iter_theta [14.236].",
        set: |config, text| put(&mut config.mix.scans.sigma, ratio(text)),
    },
    Flag {
        name: "sine_mix_rate",
        takes: BOOLEAN,
        doc: "Hold mixgraph to a rate of a*sin(b*seconds+c)+d operations a second, of all threads, 1 at least [false].",
        set: |config, text| put(&mut config.mix.paced, boolean(text)),
    },
    Flag {
        name: "sine_mix_rate_interval_milliseconds",
        takes: POSITIVE,
        doc: "How often that rate is computed [10000].",
        set: |config, text| put(&mut config.mix.steps.interval, millis(text)),
    },
    Flag {
        name: "sine_mix_rate_noise",
        takes: "0 to 1",
        doc: "The part of sine_a that the rate varies by at random [0].",
        set: |config, text| {
            put(&mut config.mix.steps.noise, ratio(text).filter(|noise| *noise <= 1.0))
        },
    },
    Flag {
        name: "sine_write_rate",
        takes: BOOLEAN,
        doc: "Hold the puts of fills and overwrites to such a rate, in bytes a second [false].",
        set: |config, text| put(&mut config.write_paced, boolean(text)),
    },
    Flag {
        name: "sine_write_rate_interval_milliseconds",
        takes: POSITIVE,
        doc: "How often that rate is computed [10000].",
        set: |config, text| put(&mut config.write_steps.interval, millis(text)),
    },
    Flag {
        name: "sine_a",
        takes: NUMBER,
        doc: "See sine_mix_rate [1].",
        set: |config, text| put(&mut config.wave.a, number(text)),
    },
    Flag {
        name: "sine_b",
        takes: NUMBER,
        doc: "See sine_mix_rate [1].",
        set: |config, text| put(&mut config.wave.b, number(text)),
    },
    Flag {
        name: "sine_c",
        takes: NUMBER,
        doc: "See sine_mix_rate [0].",
        set: |config, text| put(&mut config.wave.c, number(text)),
    },
    Flag {
        name: "sine_d",
        takes: NUMBER,
        doc: "See sine_mix_rate [1].",
        set: |config, text| put(&mut config.wave.d, number(text)),
    },
];

fn ratio(text: &str) -> Option<f64> {
    number(text).filter(|ratio| *ratio >= 0.0)
}

fn millis(text: &str) -> Option<Duration> {
    positive(text).map(Duration::from_millis)
}
