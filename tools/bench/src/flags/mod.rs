//! The command line of benchmarks, parsed. The options of the engine are flags, too.

mod mix;
mod rocksdb;
mod table;
mod unheeded;
mod ycsb;

use strandline::{OPTIONS, Options, WalSync};

use crate::config::{Config, REPLAY};
use crate::data::draw::Draw;
pub(crate) use mix::{MIX, MIX_FLAGS, MIXES};
pub(crate) use rocksdb::MAPPED;
use table::{BOOLEAN, boolean};
pub(crate) use table::{FLAGS, Flag, OPTION, OPTION_TAKES, PRESET};
pub(crate) use unheeded::UNHEEDED;
pub(crate) use ycsb::YCSB_FLAGS;

/// Flags that have no meaning here.
pub(crate) type Unknown = Vec<String>;

/// The flags that are not options of the engine.
pub(crate) fn all() -> impl Iterator<Item = &'static Flag> {
    FLAGS.iter().chain(MIX_FLAGS).chain(YCSB_FLAGS).chain(MAPPED).chain(UNHEEDED)
}

/// Parses `--flag=value`, `--flag value`, `-flag=value`, and `--flag` or `--noflag` where it takes true or
/// false.
///
/// # Errors
/// A value that a flag does not take, and what is no flag at all; in words.
pub(crate) fn parse(args: &[String]) -> Result<(Config, Unknown), String> {
    let (mut config, mut unknown) = (Config::default(), Unknown::new());
    let mut args = args.iter().map(String::as_str).peekable();
    while let Some(arg) = args.next() {
        let Some(body) =
            arg.strip_prefix("--").or_else(|| arg.strip_prefix('-')).filter(|b| !b.is_empty())
        else {
            return Err(format!("{arg}: expected a flag such as --num=1000"));
        };
        let (name, value) = match body.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (body, None),
        };
        // The rest of the command writes dashes, and papers write flags as they begin a sentence.
        let name = name.replace('-', "_").to_lowercase();
        let name = name.as_str();
        let (name, value) = match (value, name.strip_prefix("no")) {
            (None, Some(positive)) if takes(positive) == Some(BOOLEAN) => (positive, Some("false")),
            _ => (name, value),
        };
        let Some(takes) = takes(name) else {
            // Its value, if it stands apart, goes with it.
            if value.is_none() {
                args.next_if(|next| !next.starts_with('-'));
            }
            unknown.push(format!("--{name}"));
            continue;
        };
        let value = match value {
            Some(value) => value,
            None if takes == BOOLEAN => {
                args.next_if(|next| boolean(next).is_some()).unwrap_or("true")
            }
            None => args.next().ok_or_else(|| format!("--{name}: a value is missing ({takes})"))?,
        };
        let (name, value) = match (name, value.split_once('=')) {
            (OPTION, Some((name, value))) if OPTIONS.iter().any(|row| row.name == name) => {
                (name, value)
            }
            (OPTION, Some((name, _))) => {
                return Err(format!("--{OPTION} {value}: the engine has no option {name}"));
            }
            (OPTION, None) => return Err(format!("--{OPTION} {value}: expected {OPTION_TAKES}")),
            _ => (name, value),
        };
        config.given.push((name.into(), value.into()));
    }
    set_all(&mut config)?;
    if let (Some(_), true) = (&config.preset_report, config.benchmarks.is_empty()) {
        config.benchmarks = ["persistlimit", "spingap", "steps", "recovery", "overwrite_full"]
            .map(Into::into)
            .to_vec();
    }
    Ok((config, unknown))
}

/// Sets what was given: a preset and a mix first, wherever they stand, so that other flags override it.
fn set_all(config: &mut Config) -> Result<(), String> {
    let given = config.given.clone();
    let (presets, others): (Vec<_>, Vec<_>) = given.iter().partition(|(name, _)| name == PRESET);
    for (_, name) in presets {
        let options = Options::preset(name)
            .map_err(|error| format!("--{PRESET}={name}: {}", error.context()))?;
        config.engine = options.inspect(config.engine.inspect);
    }
    let (mixes, others): (Vec<_>, Vec<_>) = others.into_iter().partition(|(name, _)| name == MIX);
    for (_, name) in mixes {
        let named = mix::named(name)?;
        named.flags.iter().try_for_each(|(name, value)| set(config, name, value))?;
        config.mix.name = Some(named.name);
    }
    others.into_iter().try_for_each(|(name, value)| set(config, name, value))?;
    check_skew(config)?;
    check_rate(config)?;
    check_trace(config)?;
    if config.runs_ycsb() {
        ycsb::complete(config)?;
    }
    if config.runs("mixgraph") {
        config.mix.check(config.num)?;
        if config.verify && config.mix.ratios.merge > 0.0 {
            return Err("--verify: merges of mixgraph change values so that they tell their key no more; leave out \
                        one, or give --mix_merge_ratio=0"
                .into());
        }
    }
    if let Some(threads) = config.jobs.threads() {
        let text = threads.to_string();
        config
            .engine
            .set("background_threads", &text)
            .map_err(|error| format!("--max_background_compactions: {}", error.context()))?;
    }
    if config.disable_wal && config.sync == Some(true) {
        return Err("--disable_wal: no write is synced without a log; leave out --sync".into());
    }
    if config.disable_wal && !config.given.iter().any(|(name, _)| name == "wal_sync") {
        config.engine.wal_sync = WalSync::Never;
    }
    Ok(())
}

/// What flags come to that were given and change nothing.
pub(crate) fn unheeded(config: &Config) -> Vec<String> {
    let meaning = |(name, value): &(String, String)| {
        let flag = UNHEEDED.iter().find(|flag| flag.name == name)?;
        Some(format!("--{name}={value}: {}", flag.doc))
    };
    config.given.iter().filter_map(meaning).collect()
}

/// Refuses traces of nothing.
fn check_trace(config: &Config) -> Result<(), String> {
    match (&config.trace, config.runs(REPLAY)) {
        (None, true) => Err("--benchmarks=replay: no trace; name one with --trace".into()),
        (Some(_), false) if config.benchmarks.is_empty() => {
            Err("--trace: the tour is not traced; name what is with --benchmarks".into())
        }
        (_, true) if config.verify => {
            Err("--verify: values that replay puts do not tell their key; leave out one of them"
                .into())
        }
        _ => Ok(()),
    }
}

/// Refuses a rate at which nothing is ever done.
fn check_rate(config: &Config) -> Result<(), String> {
    let most = config.wave.a.abs() + config.wave.d;
    if (config.mix.paced || config.write_paced) && most <= 0.0 {
        return Err(format!(
            "--sine_d={}: with --sine_a={} the rate is never above 0; raise one of them",
            config.wave.d, config.wave.a
        ));
    }
    Ok(())
}

/// Refuses a skew that nothing draws by.
fn check_skew(config: &Config) -> Result<(), String> {
    let wanted =
        [("zipf_exponent", Draw::Zipf), ("hot_keys", Draw::HotSet), ("hot_reads", Draw::HotSet)];
    for (name, draw) in wanted {
        if config.draw != draw && config.given.iter().any(|(given, _)| given == name) {
            return Err(format!(
                "--{name}: only with --draw={}; add that, or leave it out",
                draw.name()
            ));
        }
    }
    Ok(())
}

/// What the flag or option called `name` takes, if there is one.
fn takes(name: &str) -> Option<&'static str> {
    let flag = all().find(|flag| flag.name == name).map(|flag| flag.takes);
    flag.or_else(|| [PRESET, MIX].contains(&name).then_some("name"))
        .or_else(|| (name == OPTION).then_some(OPTION_TAKES))
        .or_else(|| OPTIONS.iter().find(|row| row.name == name).map(|row| row.unit))
}

fn set(config: &mut Config, name: &str, value: &str) -> Result<(), String> {
    match all().find(|flag| flag.name == name) {
        Some(flag) => (flag.set)(config, value)
            .ok_or_else(|| format!("--{name}={value}: expected {}", flag.takes)),
        None => {
            config.pm_size_given |= name == "pm_size";
            config.engine.set(name, value).map_err(|error| format!("--{}", error.context()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Latency;
    use crate::data::keys::Form;

    fn parsed(args: &[&str]) -> Result<(Config, Unknown), String> {
        parse(&args.iter().map(|arg| (*arg).to_string()).collect::<Vec<_>>())
    }

    #[test]
    fn flags_come_in_every_usual_form() {
        let args = [
            "--num=5",
            "-value_size=7",
            "--threads",
            "3",
            "--histogram",
            "--nounique",
            "--json",
            "0",
        ];
        let (config, unknown) = parsed(&args).expect("flags");
        assert_eq!((config.num, config.value_size, config.threads), (5, 7, 3));
        assert_eq!((config.histogram, config.unique, config.json), (true, false, false));
        assert!(unknown.is_empty());
        assert_eq!(config.latency(), Latency::Every);
    }

    #[test]
    fn the_engines_options_are_flags() {
        let args =
            ["--write_buffer_size=8M", "--pm_size=32M", "--pm", "heap", "--background_threads=0"];
        let (config, _) = parsed(&args).expect("flags");
        assert_eq!((config.engine.memtable_bytes, config.engine.pm_size), (8 << 20, 32 << 20));
        assert!(config.pm_size_given);
        assert!(parsed(&["--pm_size=much"]).is_err());
    }

    #[test]
    fn flags_of_db_bench_set_the_options_that_do_the_same() {
        let engine = |args: &[&str]| parsed(args).expect("flags").0.engine;
        let same = |flag: &str, option: &str| {
            assert_eq!(engine(&[flag]), engine(&[option]), "{flag}");
            assert_ne!(engine(&[flag]), engine(&[]), "{flag}");
        };
        same("--cache_size=1M", "--block_cache=1M");
        same("--compression_type=snappy", "--compression=snappy");
        same("--bloom_bits=12.4", "--filter_bits=12");
        same("--bloom_bits=0", "--filter_bits=0");
        same("--block_size=16K", "--block_bytes=16K");
        same("--target_file_size_base=8M", "--table_bytes=8M");
        same("--checksum_type=1", "--checksum=crc32c");
        same("--partition_index", "--index=two-level");
        same("--use_data_block_hash_index=1", "--hash_index=true");
        same("--write_buffer_size=8M", "--memtable_bytes=8M");
        same("--max_write_buffer_number=3", "--immutable_memtables_max=2");
        same("--max_write_buffer_number=1", "--immutable_memtables_max=1");
        same("--max_background_jobs=7", "--background_threads=7");
        same("--max_background_compactions=5", "--background_threads=6");
        same("--rate_limiter_bytes_per_sec=1M", "--compaction_rate=1M");
        same("--sync", "--wal_sync=always");
        let both = ["--max_background_compactions=3", "--max_background_flushes=2"];
        assert_eq!(engine(&both).background_threads, 5);
        let large = engine(&["--cache_size=2G"]);
        assert_eq!((large.block_cache, large.dram_budget), (2 << 30, 4 << 30));
        for nothing in
            ["--cache_size=-1", "--bloom_bits=-1", "--max_background_flushes=-1", "--sync=0"]
        {
            assert_eq!(engine(&[nothing]), engine(&[]), "{nothing}");
        }
        assert_eq!(parsed(&["--compression_ratio=0.25"]).expect("flags").0.compression_ratio, 0.25);
    }

    #[test]
    fn draws_have_a_skew_of_their_own_and_no_other() {
        let (config, _) = parsed(&["--zipf_exponent=1.2", "--draw=zipf"]).expect("flags");
        assert_eq!((config.draw, config.skew.exponent), (Draw::Zipf, 1.2));
        let set = ["--draw=hot-set", "--hot-keys=0.01", "--hot_reads", "1"];
        let (config, _) = parsed(&set).expect("flags");
        let skew = (config.skew.hot_keys, config.skew.hot_reads);
        assert_eq!((config.draw, skew), (Draw::HotSet, (0.01, 1.0)));
        for wrong in ["--draw=latest", "--zipf_exponent=0", "--zipf_exponent=NaN", "--hot_keys=0"] {
            assert!(parsed(&["--draw=zipf", wrong]).is_err(), "{wrong}");
        }
        for (flag, draw) in [("--zipf_exponent=1.2", "zipf"), ("--hot_keys=0.5", "hot-set")] {
            let error = parsed(&[flag]).expect_err("nothing draws by it");
            let named = flag.split('=').next().expect("a name");
            assert!(error.starts_with(named) && error.contains(draw), "{error}");
        }
    }

    #[test]
    fn flags_of_mixgraph_are_those_of_db_bench() {
        // What RocksDB's wiki and others give, but for what concerns the store.
        let args = "-key_dist_a=0.002312 -key_dist_b=0.3467 -keyrange_dist_a=14.18 -keyrange_dist_b=-2.917 \
                    -keyrange_dist_c=0.0164 -keyrange_dist_d=-0.08082 -keyrange_num=30 -value_k=0.2615 -value_sigma=25.45 \
                    -value_theta=1 -iter_k=2.517 -iter_sigma=14.236 -iter_theta=2 -mix_get_ratio=0.83 -mix_put_ratio=0.14 \
                    -mix_seek_ratio=0.03 -mix_max_scan_len=100 -mix_max_value_size=2048 -sine_mix_rate=true \
                    -sine_mix_rate_interval_milliseconds=5000 -sine_mix_rate_noise=0.3 -sine_a=350 -sine_b=0.0105 -sine_c=4 \
                    -sine_d=50000 -sine_write_rate -sine_write_rate_interval_milliseconds=20 -benchmarks=mixgraph";
        let args: Vec<&str> = args.split_whitespace().collect();
        let (config, unknown) = parsed(&args).expect("flags");
        assert_eq!(unknown, Unknown::new());
        let mix = &config.mix;
        assert_eq!((mix.keys.b, mix.ranges.d, mix.range_count), (0.3467, -0.08082, 30));
        assert_eq!((mix.values.theta, mix.scans.theta, mix.value_max), (1.0, 2.0, 2048));
        assert_eq!((mix.paced, mix.steps.interval.as_millis(), mix.steps.noise), (true, 5000, 0.3));
        let wave = (config.wave.a, config.wave.b, config.wave.c, config.wave.d);
        assert_eq!(wave, (350.0, 0.0105, 4.0, 50_000.0));
        assert!(config.write_paced && config.write_steps.interval.as_millis() == 20);
        for wrong in
            ["--mix_get_ratio=-1", "--keyrange_num=0", "--sine_mix_rate_noise=2", "--value_k=inf"]
        {
            let error = parsed(&[wrong]).expect_err(wrong);
            assert!(error.starts_with(wrong) && error.contains("expected"), "{error}");
        }
    }

    /// Zhou's line (McGill), with its prose's spelling of two of them.
    #[test]
    fn flags_of_mcgill_are_those_of_db_bench() {
        let args = "--benchmarks=readrandomwriterandom --value_size=1024 --disable_wal=true --cache_size=512000000 \
                    --compression_ratio=1 --readwritepercent=50 --use_existing_db=0 --histogram=1 --statistics=1 \
                    --read_random_exp_range=0.0 --max_write_buffer_number=1 --memtable_use_huge_page=true \
                    --enable_pipelined_write=false --allow_concurrent_memtable_write=false --write_buffer_size=10485760 \
                    --num=1000000000 --duration=900 --stats_interval_seconds=1 --key_size=16 --threads=16 \
                    --use_cache_memkind_kmem_allocator --Memtable_use_huge_page=true \
                    --allow_concurrent_Memtable_write=false --preset=mcgill-both";
        let args: Vec<&str> = args.split_whitespace().collect();
        let (config, unknown) = parsed(&args).expect("flags");
        assert_eq!(unknown, Unknown::new());
        let engine = &config.engine;
        assert_eq!((engine.block_cache, engine.memtable_bytes), (512_000_000, 10_485_760));
        assert_eq!(
            (engine.wal_sync, engine.pm.clone()),
            (WalSync::Never, strandline::PmSource::Dram)
        );
        assert_eq!((config.num, config.threads, config.duration), (1_000_000_000, 16, Some(900.0)));
        assert_eq!((config.readwritepercent, config.stats_interval), (50, Some(1.0)));
        let notes = unheeded(&config);
        assert_eq!(notes.len(), 7, "{notes:?}");
        assert!(
            notes.iter().any(|note| note.contains("kmem_allocator=true: ")
                && note.contains("block_cache_memory"))
        );
    }

    #[test]
    fn mixes_are_known_by_name_and_overridden_by_flags() {
        let mix = |args: &[&str]| parsed(args).map(|(config, _)| config);
        for named in MIXES {
            let config = mix(&["--benchmarks=mixgraph", "--mix", named.name]).expect(named.name);
            assert_eq!(config.mix.name, Some(named.name));
            let ratios = config.mix.ratios;
            let sum = ratios.get + ratios.put + ratios.seek + ratios.delete + ratios.merge;
            // Rare kinds have no figure.
            assert!((sum - 1.0).abs() < 0.001, "{}: {sum}", named.name);
        }
        let config = mix(&["--key_size=20", "--mix=zippydb", "--mix_put_ratio=9"]).expect("flags");
        assert_eq!((config.key_size, config.value_size, config.mix.ratios.put), (20, 43, 9.0));
        let error = mix(&["--mix=tao"]).expect_err("no mix");
        assert!(error.contains("udb, zippydb, up2x"), "{error}");
        let merges = ["--benchmarks=mixgraph", "--mix=up2x", "--verify"];
        assert!(mix(&merges).expect_err("values change").contains("--mix_merge_ratio=0"));
        let still = ["--sine_mix_rate", "--sine_a=0", "--sine_d=0"];
        assert!(mix(&still).expect_err("no rate").contains("never above 0"));
        assert!(mix(&still[1..]).is_ok());
        let nothing = ["--benchmarks=mixgraph", "--mix_get_ratio=0"];
        assert!(mix(&nothing).is_err() && mix(&nothing[1..]).is_ok());
    }

    #[test]
    fn records_of_ycsb_have_its_keys_and_lengths_unless_flags_say_others() {
        let shape = |args: &[&str]| {
            let args = [&["--benchmarks=ycsb-load,ycsb-a"], args].concat();
            parsed(&args).map(|(config, _)| (config.key_form, config.key_size, config.value_size))
        };
        assert_eq!(shape(&[]), Ok((Form::User, 23, 1000)));
        assert_eq!(shape(&["--ycsb_fields=4", "--ycsb_field_bytes=64"]), Ok((Form::User, 23, 256)));
        let engine = ["--key_size=8", "--value_size=500"];
        assert_eq!(shape(&engine), Ok((Form::Number, 8, 500)));
        assert_eq!(shape(&["--key_size=32"]), Ok((Form::User, 32, 1000)));
        assert!(shape(&["--key_size=4"]).expect_err("no hash").contains("raise it"));
        assert!(shape(&["--keys=path"]).expect_err("no paths").contains("leave it out"));
        let (config, _) = parsed(&["--benchmarks=fillseq", "--ycsb_fields=4"]).expect("flags");
        assert_eq!((config.key_size, config.value_size), (16, 100), "of no benchmark of YCSB");
    }

    #[test]
    fn flags_override_a_preset_wherever_it_stands() {
        let (config, _) = parsed(&["--subranges=3", "--preset=classic"]).expect("flags");
        assert_eq!((config.engine.subranges, config.engine.pm), (3, strandline::PmSource::Dram));
        let error = parsed(&["--preset=fast"]).expect_err("no preset");
        assert!(error.starts_with("--preset=fast: ") && error.contains("log-free"), "{error}");
    }

    #[test]
    fn unknown_flags_are_named_and_wrong_values_refused() {
        let args = ["--mmap_read=1", "--prefix_size", "10", "--num=5", "--use_blob_db"];
        let (config, unknown) = parsed(&args).expect("flags");
        assert_eq!(unknown, ["--mmap_read", "--prefix_size", "--use_blob_db"]);
        assert_eq!(config.num, 5);
        for wrong in [
            &["--num=many"][..],
            &["--num=0"],
            &["--num"],
            &["fillseq"],
            &["--readwritepercent=101"],
            &["--duration=-1"],
            &["--histogram=perhaps"],
            &["--compression_type=zlib"],
            &["--checksum_type=2"],
            &["--compression_ratio=2"],
            &["--disable_wal", "--sync=1"],
            &["--read_random_exp_range=15.0"],
            &["--"],
        ] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
    }
}
