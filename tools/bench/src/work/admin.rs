//! Benchmarks of single calls.

use super::done::Done;
use crate::bench::Bench;
use crate::report::outcome::{Outcome, Written};
use crate::words::told;

pub(super) fn flush(bench: &mut Bench) -> Result<Done, String> {
    Ok(bench.measure_once("flush", |store| store.db()?.flush().map_err(told))?.into())
}

pub(super) fn compact(bench: &mut Bench) -> Result<Done, String> {
    Ok(bench.measure_once("compact", |store| store.db()?.compact().map_err(told))?.into())
}

pub(super) fn check(bench: &mut Bench) -> Result<Done, String> {
    let mut records = 0;
    let mut outcome = bench.measure_once("check", |store| {
        let report = store.db()?.check().map_err(told)?;
        records = report.records;
        match report.damage.first() {
            Some(damage) => Err(format!(
                "{} at {}; {} places in all",
                damage.what,
                damage.at,
                report.damage.len()
            )),
            None => Ok(()),
        }
    })?;
    outcome.message = format!("({records} records verified)");
    outcome.note("records", records);
    Ok(outcome.into())
}

/// Closing writes nothing, so that this is what an open after kill -9 takes, too.
pub(super) fn recover(bench: &mut Bench) -> Result<Done, String> {
    if bench.store.is_heap() {
        return Ok(Done::Skipped("nothing on the heap outlives its store"));
    }
    bench.store.db()?;
    let elapsed = bench.store.reopen()?;
    let db = bench.store.db()?;
    let report = db.recovery().clone();
    let mut outcome = Outcome::single("recover", elapsed.as_secs_f64());
    outcome.written = Written::by(&db.properties());
    bench.describe(&db, &mut outcome);
    outcome.message = format!("({} records back in memtables)", report.records);
    outcome.note("records", report.records);
    outcome.note("zones_scanned", report.zones_scanned);
    outcome.note("damage", report.damage.len());
    Ok(outcome.into())
}
