//! TPC-C, revision 5.11, clauses 1 to 5, over optimistic transactions: wholesale orders, in nine tables.
//!
//! | part | what it does |
//! |---|---|
//! | `terminals` | threads that ask for transactions, again after a conflict, and count |
//! | `transactions` | what the five kinds of transactions ask for and do |
//! | `load` | makes the tables |
//! | `consistency` | the twelve conditions that hold between rows |
//! | `figures` | what the run tells |
//! | `schema`, `rows`, `ids`, `codec` | tables, their rows and keys, as bytes |
//! | `chance`, `scale` | random numbers of the standard; how large the tables are |
//!
//! It is no audited result, and simpler than one: docs/guide/workloads.md says what is left out.

mod chance;
mod codec;
mod consistency;
mod figures;
mod ids;
mod load;
mod rows;
mod scale;
mod schema;
mod terminals;
mod transactions;

use std::sync::Mutex;

use strandline::Db;

pub(crate) use scale::Scale;

use crate::bench::{Bench, Crew};
use crate::report::{self, say};
use crate::work::done::Done;
use figures::TpccFigures;
use schema::Schema;

/// The benchmark that runs the transactions.
pub(crate) const TPCC: &str = "tpcc";

/// Makes the tables, if they are not there, runs transactions, and looks whether all is consistent.
pub(crate) fn tpcc(bench: &mut Bench) -> Result<Done, String> {
    load(bench)?;
    let (db, scale) = (bench.store.db()?, bench.config.tpcc);
    let schema = Schema::open(&db)?;
    let crew = Crew { threads: bench.config.threads, aside: None };
    let figures = Mutex::new(TpccFigures::new()?);
    let mut outcome = bench.measure(TPCC, crew, &|worker| {
        let counted = terminals::run(worker, &schema, scale)?;
        figures.lock().map_err(|error| error.to_string())?.add(&counted);
        Ok(())
    })?;
    // Bytes that are read are not counted.
    outcome.bytes = None;
    let figures = figures.into_inner().map_err(|error| error.to_string())?;
    figures.tell(&mut outcome);
    let rows = consistency::check(&db, &schema, scale)?;
    outcome.note("warehouses", scale.warehouses);
    outcome.note("scale_percent", scale.percent);
    outcome.note("rows_checked", rows);
    report::tell(&bench.config, &outcome)?;
    if !bench.config.json {
        say(figures.table().trim_end())?;
    }
    Ok(Done::Told)
}

/// Looks whether all is consistent.
pub(crate) fn tpcc_check(bench: &mut Bench) -> Result<Done, String> {
    let mut rows = 0;
    let mut outcome = bench.measure_once("tpcc-check", |store| {
        let db = store.db()?;
        let scale = schema::scale_of(&db)?.ok_or("no tables of TPC-C; run the benchmark tpcc")?;
        rows = consistency::check(&db, &Schema::open(&db)?, scale)?;
        Ok(())
    })?;
    outcome.message = format!("(consistency conditions 1 to 12 hold, {rows} rows)");
    outcome.note("rows_checked", rows);
    Ok(outcome.into())
}

/// Makes the tables, if they are not there, and tells what that took.
fn load(bench: &mut Bench) -> Result<(), String> {
    let (db, scale, seed) = (bench.store.db()?, bench.config.tpcc, bench.config.seed);
    if let Some(there) = schema::scale_of(&db)? {
        return same(there, scale);
    }
    let schema = emptied(&db)?;
    let bar = load::progress(scale);
    if bench.config.json {
        bar.set_draw_target(indicatif::ProgressDrawTarget::hidden());
    }
    let crew = Crew { threads: bench.config.threads, aside: None };
    let outcome = bench.measure("tpcc-load", crew, &|worker| {
        let loaded = load::load(&db, &schema, scale, seed, worker.share(), &bar)?;
        worker.tally.ops = loaded.rows;
        worker.wrote(loaded.bytes as usize);
        Ok(())
    });
    bar.finish_and_clear();
    let mut outcome = outcome?;
    schema::note_scale(&db, scale)?;
    outcome.message = format!("({scale})");
    report::tell(&bench.config, &outcome)
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

/// Tables without rows: those of a load that did not come to its end go.
fn emptied(db: &Db) -> Result<Schema, String> {
    Schema::drop(db)?;
    Schema::open(db)
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
        let schema = Schema::open(&db).expect("tables");
        let load = |schema: &Schema| {
            let (share, bar) = (Share { no: 0, of: 2 }, indicatif::ProgressBar::hidden());
            load::load(&db, schema, scale, 1, share, &bar).expect("half of the tables")
        };
        assert!(load(&schema).rows > 0);
        assert_eq!(schema::scale_of(&db), Ok(None));
        drop(schema);
        let schema = emptied(&db).expect("empty tables");
        let moment = db.snapshot();
        assert!(schema.item.at(&moment, []).next().is_none());
        load(&schema);
        schema::note_scale(&db, scale).expect("noted");
        assert_eq!(schema::scale_of(&db), Ok(Some(scale)));
        assert!(same(scale, scale).is_ok() && same(scale, Scale::default()).is_err());
    }
}
