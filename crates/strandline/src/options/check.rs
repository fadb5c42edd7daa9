//! Which options make a store.

use std::ops::RangeInclusive;

use base::{Error, ErrorKind, Result};

use super::{
    Checksum, Level0Form, MemorySource, Options, PmSource, SsdSource, TierSource, WalSync,
};
use crate::machine::STORE_BYTES_MIN;

/// Smallest memtable: below it every write would flush one.
pub(super) const MEMTABLE_BYTES_MIN: u64 = 256;
/// The highest level of Zstandard.
pub(super) const COMPRESSION_LEVEL_MAX: i32 = 22;
/// Bits of a Bloom filter for each key at most.
pub(super) const FILTER_BITS_MAX: u32 = 100;
/// Percent of persistent memory beyond which tables and value files would leave too little for records.
pub(super) const PM_PERCENT_MAX: u32 = 75;
/// Data blocks of tables in persistent memory: smaller ones than a block of the media gain nothing.
pub(super) const PM_BLOCK_BYTES: RangeInclusive<u64> = 256..=4096;

/// Smallest and largest tables: of smaller ones the manifest soon names as many as it can, and a part of one is kept in
/// DRAM while it is written.
const TABLE_BYTES: RangeInclusive<u64> = 1 << 10..=64 << 30;
/// Percent of live values: with less, collection would write the same values over and over.
const VALUE_SPACE: RangeInclusive<u64> = 110..=10_000;
/// Directories of tables besides the own one.
const TIERS_MAX: usize = 16;
/// Threads of one kind at most: beyond that the system may refuse them, or take the process.
pub(crate) const THREADS_MAX: u32 = 64;

/// What a store has, or is to have, of what some options need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreParts {
    /// Its memory is DRAM, with a log.
    pub has_log: bool,
    pub has_tables: bool,
}

/// Refuses values that make no store.
pub(crate) fn check(options: &Options) -> Result<()> {
    let budget = match options.dram_budget {
        0 => STORE_BYTES_MIN,
        given => given,
    };
    for (name, value, bounds) in [
        ("memtable_bytes", options.memtable_bytes, MEMTABLE_BYTES_MIN..=u64::MAX),
        ("dram_budget", budget, STORE_BYTES_MIN..=u64::MAX),
        ("table_bytes", options.table_bytes, TABLE_BYTES),
        ("value_space", options.value_space.into(), VALUE_SPACE),
        ("pm_block_bytes", options.pm_block_bytes.into(), PM_BLOCK_BYTES),
    ] {
        check_bounds(name, value, &bounds)?;
    }
    check_threads(options)?;
    if let WalSync::Interval(every) = options.wal_sync {
        let bounds = 1..=3_600_000;
        check_bounds(
            "wal_sync in ms",
            u64::try_from(every.as_millis()).unwrap_or(u64::MAX),
            &bounds,
        )?;
    }
    if !matches!(options.checksum, Checksum::Xxh3 | Checksum::Crc32c) {
        let text =
            format!("checksum={:?}: tables are written with Xxh3 or Crc32c", options.checksum);
        return Err(Error::new(ErrorKind::InvalidArgument, "open", text));
    }
    options.compression.require("open")?;
    let zone = options.zone_size;
    if zone != 0 && !(zone.is_power_of_two() && (1 << 10..=64 << 20).contains(&zone)) {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            "open",
            format!("zone_size={zone}: a power of two from 1K to 64M, or 0"),
        ));
    }
    if let TierSource::Dirs(dirs) = &options.tiers
        && dirs.len() > TIERS_MAX
    {
        let text = format!("tiers: {} directories; at most {TIERS_MAX}", dirs.len());
        return Err(Error::new(ErrorKind::InvalidArgument, "open", text));
    }
    let has_log = options.pm == PmSource::Dram;
    let parts = StoreParts { has_log, has_tables: options.ssd != SsdSource::None };
    check_pm_rooms(options, parts)
}

/// Refuses more threads than a store has use for.
pub(crate) fn check_threads(options: &Options) -> Result<()> {
    let bounds = 0..=u64::from(THREADS_MAX);
    check_bounds("background_threads", options.background_threads.into(), &bounds)?;
    check_bounds("recovery_threads", options.recovery_threads.into(), &bounds)
}

fn check_bounds(name: &str, value: u64, bounds: &RangeInclusive<u64>) -> Result<()> {
    let (least, most) = (bounds.start(), bounds.end());
    let remedy = match value {
        value if value < *least => format!("at least {least}"),
        value if value > *most => format!("at most {most}"),
        _ => return Ok(()),
    };
    Err(Error::new(ErrorKind::InvalidArgument, "open", format!("{name}={value}: {remedy}")))
}

/// Refuses forms of level 0 that need tables where there are none.
pub(crate) fn check_level0(options: &Options, parts: StoreParts) -> Result<()> {
    let name = match options.level0 {
        Level0Form::GlobalIndex => return Ok(()),
        Level0Form::IndexRuns => "index-runs",
        Level0Form::Sst => "sst",
    };
    if parts.has_tables {
        return Ok(());
    }
    let text = format!("level0={name} needs tables; give ssd a directory, or leave level0 out");
    Err(Error::new(ErrorKind::InvalidArgument, "open", text))
}

/// Refuses a model of persistent memory where there is none.
pub(crate) fn refuse_pm_model(options: &Options) -> Result<()> {
    let places = [&options.memtable_memory, &options.block_cache_memory];
    let has_places = places.iter().any(|place| **place != MemorySource::Dram);
    match &options.pm_model {
        Some(model) if !has_places => {
            let text = format!(
                "pm_model={model}: the records of this store are in DRAM, with a log on a device; leave pm_model out, or make a \
                 store with a pool, or its log (wal_dir), memtables (memtable_memory) or block cache (block_cache_memory), on persistent \
                 memory or tmpfs"
            );
            Err(Error::new(ErrorKind::InvalidArgument, "open", text))
        }
        _ => Ok(()),
    }
}

/// Refuses tables, value files and a cache in persistent memory where that is DRAM with a log, where there are no tables, or where they
/// would leave too little for records.
pub(crate) fn check_pm_rooms(options: &Options, parts: StoreParts) -> Result<()> {
    let shares = [
        ("pm_tables", options.pm_tables),
        ("pm_values", options.pm_values),
        ("pm_cache", options.pm_cache),
    ];
    let given = shares.iter().filter(|(_, percent)| *percent > 0);
    let given: Vec<String> = given.map(|(name, percent)| format!("{name}={percent}")).collect();
    let (which, names) = match &given[..] {
        [] => return Ok(()),
        [one] => (one.clone(), one.split('=').next().unwrap_or_default().to_owned()),
        [_, _] => (given.join(" and "), "both".to_owned()),
        _ => (given.join(", "), "all of them".to_owned()),
    };
    let sum: u64 = shares.iter().map(|(_, percent)| u64::from(*percent)).sum();
    let why = if sum > u64::from(PM_PERCENT_MAX) {
        let together = if given.len() > 1 { "together " } else { "" };
        format!("{together}at most {PM_PERCENT_MAX} percent")
    } else if parts.has_log {
        format!("with pm=dram the log would have them too, on SSD; leave {names} out")
    } else if !parts.has_tables {
        format!("the store has no tables; name a directory with ssd, or leave {names} out")
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::InvalidArgument, "open", format!("{which}: {why}")))
}
