//! TPC-C, revision 5.11, clauses 1 to 5, over transactions: wholesale orders, in nine tables.
//!
//! | part | what it does |
//! |---|---|
//! | `tables` | the tables of a store, and what is done to them |
//! | `terminal`, `transactions` | asks for transactions; what the five kinds ask for and do |
//! | `load` | makes the tables |
//! | `consistency` | the twelve conditions that hold between rows |
//! | `figures` | what a run tells |
//! | `schema`, `rows`, `ids`, `codec` | tables, their rows and keys, as bytes |
//! | `store`, `engine` | what all that asks of a store; this engine as one |
//! | `chance`, `scale` | random numbers of the standard; how large the tables are |
//!
//! It is no audited result, and simpler than one: docs/guide/workloads.md says what is left out.

mod chance;
mod codec;
mod consistency;
mod engine;
mod figures;
mod ids;
mod load;
mod rows;
mod scale;
mod schema;
mod store;
mod tables;
mod terminal;
mod transactions;

use std::sync::Mutex;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;
use strandline::{Db, Isolation, TransactionOptions};

pub use engine::{StrandlineTables, StrandlineTransaction};
pub use figures::{KindFigures, TpccFigures};
pub use load::LoadedRows;
pub use scale::Scale;
pub use schema::TABLES;
pub use store::{Entry, Failure, TableStore, TableTransaction};
pub use tables::TpccTables;
pub use terminal::{AskedTransaction, Completion, Terminal};
pub use transactions::{Kind, Verdict};

use crate::bench::{Bench, Crew};
use crate::config::Config;
use crate::data::rng::Rng;
use crate::report::outcome::Outcome;
use crate::report::{self, say};
use crate::work::done::Done;
use crate::worker::Worker;

/// The benchmark that runs the transactions.
pub(crate) const TPCC: &str = "tpcc";

/// Makes the tables, if they are not there, runs transactions, and looks whether all is consistent.
pub(crate) fn tpcc(bench: &mut Bench) -> Result<Done, String> {
    load(bench)?;
    let (db, scale) = (bench.store.db()?, bench.config.tpcc);
    let store = StrandlineTables::new(&db, options(&bench.config));
    let tables = TpccTables::open(&store, scale)?;
    let crew = Crew { threads: bench.config.threads, aside: None };
    let figures = Mutex::new(TpccFigures::new()?);
    let mut outcome = bench.measure(TPCC, crew, &|worker| {
        let counted = run(worker, &tables)?;
        figures.lock().map_err(|error| error.to_string())?.add(&counted);
        Ok(())
    })?;
    // Bytes that are read are not counted.
    outcome.bytes = None;
    let figures = figures.into_inner().map_err(|error| error.to_string())?;
    figures.tell(&mut outcome);
    let rows = check(&db, scale)?;
    without_flags(&mut outcome);
    outcome.note("warehouses", scale.warehouses);
    outcome.note("scale_percent", scale.percent);
    outcome.note("rows_checked", rows);
    report::tell(&bench.config, &outcome)?;
    if !bench.config.json {
        say(figures.table().trim_end())?;
    }
    Ok(Done::Told)
}

fn options(config: &Config) -> TransactionOptions {
    let isolation = match config.transaction_serializable {
        true => Isolation::Serializable,
        false => Isolation::Snapshot,
    };
    TransactionOptions::new().isolation(isolation)
}

/// A thread is a terminal.
fn run(
    worker: &mut Worker<'_>,
    tables: &TpccTables<'_, StrandlineTables>,
) -> Result<TpccFigures, String> {
    let mut terminal = tables.terminal(worker.tid as u32, Rng::new(worker.seed(18)));
    let mut figures = TpccFigures::new()?;
    let mut limit = worker.limit(worker.config.writes());
    while worker.goes_on(&mut limit) {
        let asked = terminal.ask();
        let begun = Instant::now();
        let completion = worker.meter.time(|| tables.complete(&asked))?;
        figures.count(asked.kind(), completion, begun.elapsed());
        worker.wrote(completion.bytes);
        worker.tally.ops += 1;
    }
    Ok(figures)
}

/// The rows that were read. What a transaction reads counts for none here: it commits nothing.
fn check(db: &Db, scale: Scale) -> Result<u64, String> {
    let store = StrandlineTables::new(db, TransactionOptions::new());
    TpccTables::open(&store, scale)?.check()
}

/// Looks whether all is consistent.
pub(crate) fn tpcc_check(bench: &mut Bench) -> Result<Done, String> {
    let mut rows = 0;
    let mut outcome = bench.measure_once("tpcc-check", |store| {
        let db = store.db()?;
        let scale = schema::scale_of(&db)?.ok_or("no tables of TPC-C; run the benchmark tpcc")?;
        rows = check(&db, scale)?;
        Ok(())
    })?;
    outcome.message = format!("(consistency conditions 1 to 12 hold, {rows} rows)");
    without_flags(&mut outcome);
    outcome.note("rows_checked", rows);
    Ok(outcome.into())
}

/// Makes the tables, if they are not there, and tells what that took.
fn load(bench: &mut Bench) -> Result<(), String> {
    let (db, scale, seed) = (bench.store.db()?, bench.config.tpcc, bench.config.seed);
    if let Some(there) = schema::scale_of(&db)? {
        return same(there, scale);
    }
    // Those of a load that did not come to its end go.
    schema::drop_tables(&db)?;
    let store = StrandlineTables::new(&db, TransactionOptions::new());
    let tables = TpccTables::open(&store, scale)?;
    let bar = progress(scale);
    if bench.config.json {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let crew = Crew { threads: bench.config.threads, aside: None };
    let outcome = bench.measure("tpcc-load", crew, &|worker| {
        let loaded = tables.load(seed, worker.share(), &|rows| bar.inc(rows))?;
        worker.tally.ops = loaded.rows;
        worker.wrote(loaded.bytes as usize);
        Ok(())
    });
    bar.finish_and_clear();
    let mut outcome = outcome?;
    schema::note_scale(&db, scale)?;
    outcome.message = format!("({scale})");
    without_flags(&mut outcome);
    report::tell(&bench.config, &outcome)
}

/// Keys and rows have lengths of their own, whatever flags say.
fn without_flags(outcome: &mut Outcome) {
    outcome.note("key_size", Value::Null);
    outcome.note("value_size", Value::Null);
}

/// Shown on a terminal, and nowhere else.
fn progress(scale: Scale) -> ProgressBar {
    let template = "loading {bar:30} {human_pos} rows, {per_sec}; {eta} left";
    let style = ProgressStyle::with_template(template);
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(scale.rows()).with_style(style)
}

/// Refuses tables of another scale.
fn same(there: Scale, asked: Scale) -> Result<(), String> {
    if there == asked {
        return Ok(());
    }
    let Scale { warehouses, percent } = there;
    Err(format!(
        "the store has {there}, not {asked}; ask for --tpcc_warehouses={warehouses} \
         --tpcc_scale={percent}, or leave --use_existing_db out"
    ))
}

#[cfg(test)]
mod tests {
    use strandline::{Options, PmSource};

    use super::*;
    use crate::data::order::Share;

    #[test]
    fn tables_that_are_not_whole_do_not_count_and_go() {
        let options = Options::default().pm(PmSource::Heap).pm_size(64 << 20);
        let db = Db::open("unused-for-heap", options).expect("a store");
        let scale = Scale { percent: 1, ..Scale::default() };
        let store = StrandlineTables::new(&db, TransactionOptions::new());
        let load = |tables: &TpccTables<'_, StrandlineTables>| {
            tables.load(1, Share { no: 0, of: 2 }, &|_| ()).expect("half of the tables")
        };
        let tables = TpccTables::open(&store, scale).expect("tables");
        assert!(load(&tables).rows > 0);
        assert_eq!(schema::scale_of(&db), Ok(None));
        drop(tables);
        schema::drop_tables(&db).expect("dropped");
        let tables = TpccTables::open(&store, scale).expect("empty tables");
        let moment = store.begin(0).expect("a moment");
        assert!(tables.schema.item.prefix(&moment, []).next().is_none());
        drop(moment);
        load(&tables);
        schema::note_scale(&db, scale).expect("noted");
        assert_eq!(schema::scale_of(&db), Ok(Some(scale)));
        assert!(same(scale, scale).is_ok() && same(scale, Scale::default()).is_err());
    }
}
