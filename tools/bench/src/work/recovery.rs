//! How long an open takes after kill -9: with a given amount of data in memtables, whose indexes are built
//! again from the records, and with everything in index runs, which are only opened.
//!
//! Beside the speed of its two steps stands what the machine allows: reading the same memory and doing nothing with it,
//! and puts of the same records. Each with as many threads as recovery uses.

use strandline::PmSource;

use super::done::Done;
use crate::bench::Bench;
use crate::child::fill;
use crate::machine::read;
use crate::report::outcome::Outcome;
use crate::words::{round, told};

/// Keys that are read back after the kill.
const SAMPLE: u64 = 1000;

pub(super) fn recovery(bench: &mut Bench) -> Result<Done, String> {
    if bench.store.is_heap() {
        return Ok(Done::Skipped("nothing on the heap outlives its process"));
    }
    if bench.store.options().pm == PmSource::Dram {
        return Ok(Done::Skipped("its pool is no file whose speed could be measured"));
    }
    let before = bench.store.options().clone();
    let measured = measure(bench);
    bench.store.close();
    *bench.store.options_mut() = before;
    measured
}

fn measure(bench: &mut Bench) -> Result<Done, String> {
    let record = bench.config.keys().mean_len(bench.config.num) + bench.config.value_size as f64;
    let records = ((bench.config.fill_bytes as f64 / record) as u64).max(1);
    bench.store.close();
    let options = bench.store.options_mut();
    // Nothing is flushed before its time.
    options.memtable_bytes = bench.config.fill_bytes.saturating_mul(4).max(64 << 20);
    options.dram_budget = 1 << 40;
    let filling = fill::fill_and_kill(bench, records)?;
    let threads = bench.store.recovery_threads();
    let memory = read::measure(&bench.store.pool(), bench.config.fill_bytes, threads)?;
    let unflushed = bench.store.reopen()?.as_secs_f64();
    let db = bench.store.db()?;
    let report = db.recovery().clone();
    check(bench, records)?;
    db.flush().map_err(told)?;
    drop(db);
    let flushed = bench.store.reopen()?.as_secs_f64();
    check(bench, records)?;
    let scan = report.bytes_scanned as f64 / report.scan.as_secs_f64().max(1e-9);
    let rebuild = report.records as f64 / report.rebuild.as_secs_f64().max(1e-9);
    let put = records as f64 / filling.max(1e-9);
    let mut outcome = Outcome::single("recovery", unflushed);
    outcome.message = format!(
        "({} of {records} records back in memtables: open took {unflushed:.3} s; all in runs: {flushed:.4} s; {threads} \
         threads: scanned and verified {:.2} GB/s, memory reads {:.2} GB/s when first touched, \
         {:.2} once mapped; indexes rebuilt {rebuild:.0} records/s, \
         puts {put:.0}/s)",
        report.records,
        scan / 1e9,
        memory.first / 1e9,
        memory.mapped / 1e9,
    );
    outcome.note("records", report.records);
    outcome.note("bytes", bench.config.fill_bytes);
    outcome.note("open_unflushed_s", round(unflushed, 6));
    outcome.note("open_flushed_s", round(flushed, 6));
    outcome.note("records_per_sec", round(report.records as f64 / unflushed.max(1e-9), 0));
    outcome.note("bytes_scanned", report.bytes_scanned);
    outcome.note("scan_s", round(report.scan.as_secs_f64(), 6));
    outcome.note("scan_bytes_per_sec", round(scan, 0));
    outcome.note("first_read_bytes_per_sec", round(memory.first, 0));
    outcome.note("mapped_read_bytes_per_sec", round(memory.mapped, 0));
    outcome.note("rebuild_s", round(report.rebuild.as_secs_f64(), 6));
    outcome.note("rebuild_records_per_sec", round(rebuild, 0));
    outcome.note("puts_per_sec", round(put, 0));
    let db = bench.store.db()?;
    bench.describe(&db, &mut outcome);
    Ok(outcome.into())
}

/// Every key that was acknowledged is there: a sample of them is read.
fn check(bench: &mut Bench, records: u64) -> Result<(), String> {
    let db = bench.store.db()?;
    let (keys, mut key) = (bench.config.keys(), Vec::new());
    let sample = SAMPLE.min(records);
    for i in 0..sample {
        let number = i * (records - 1) / sample.max(1);
        keys.write(number, &mut key);
        let value = db.get(&key).map_err(told)?;
        if value.is_none_or(|value| !bench.source.tells(number, &value)) {
            return Err(format!(
                "key {number} was acknowledged and is lost, or is not what was written"
            ));
        }
    }
    Ok(())
}
