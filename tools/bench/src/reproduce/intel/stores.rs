//! Stores of RocksDB's form, and what is asked of each.

use strandline::{Compression, Db, Level0Form, Options, PmSource, WalSync};

use crate::report::outcome::Outcome;
use crate::words::told;

/// Memtables in DRAM, a log that is not synced, and level 0 in tables as large as memtables; no values apart, and nothing is compressed.
pub(in super::super) fn rocksdb_form(memtable: u64, block_cache: u64) -> Options {
    Options::default()
        .pm(PmSource::Dram)
        .pm_size((32 * memtable).max(16 << 20))
        .memtable_bytes(memtable)
        .wal_sync(WalSync::Never)
        .level0(Level0Form::Sst)
        .subranges(1)
        .table_bytes(memtable)
        .value_files_min(0)
        .compression(Compression::None)
        .block_cache(block_cache)
        // The papers' systems cache blocks.
        .cache_records(false)
        .dram_budget(1 << 30)
}

/// Works until there is nothing left to do.
pub(in super::super) fn rest(db: &Db) -> Result<(), String> {
    while !db.work(1 << 20).map_err(told)?.is_idle() {}
    Ok(())
}

/// Microseconds of the 99th percentile.
pub(super) fn p99_us(outcome: &Outcome) -> f64 {
    outcome.percentile_us(99.0).unwrap_or(0.0)
}

/// Fails where some of the keys that were read were not there.
pub(super) fn all_found(name: &str, gets: &Outcome) -> Result<(), String> {
    if gets.found == gets.reads {
        return Ok(());
    }
    Err(format!("{name}: {} of {} keys are lost", gets.reads - gets.found, gets.reads))
}
