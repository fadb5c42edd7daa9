//! A thread is a terminal: it asks for one transaction after the other, without keying and think times.

use std::time::Instant;

use strandline::{Db, ErrorKind, Isolation, TransactionOptions};

use super::chance::Chance;
use super::figures::{Completion, TpccFigures};
use super::rows::DISTRICTS;
use super::scale::Scale;
use super::schema::{Failure, Schema};
use super::transactions::{Kind, Profile, Terminal, Verdict};
use crate::config::Config;
use crate::data::rng::Rng;
use crate::worker::Worker;

/// Asks for transactions until the end of the run.
pub(super) fn run(
    worker: &mut Worker<'_>,
    schema: &Schema,
    scale: Scale,
) -> Result<TpccFigures, String> {
    let mut terminal = terminal(worker, scale);
    let (options, mut figures) = (options(worker.config), TpccFigures::new()?);
    let mut limit = worker.limit(worker.config.writes());
    while worker.goes_on(&mut limit) {
        let kind = Kind::draw(&mut terminal.chance);
        let profile = kind.profile(&mut terminal);
        let (db, begun) = (worker.db, Instant::now());
        let completed = worker.meter.time(|| complete(db, schema, &options, &*profile));
        let completion = completed.map_err(|failure| format!("{}: {failure}", kind.name()))?;
        figures.count(kind, completion, begun.elapsed());
        worker.wrote(completion.bytes);
        worker.tally.ops += 1;
    }
    Ok(figures)
}

/// Terminals are spread over the warehouses, and those of a warehouse over its districts.
fn terminal(worker: &Worker<'_>, scale: Scale) -> Terminal {
    let no = worker.tid as u32;
    Terminal {
        warehouse: 1 + no % scale.warehouses,
        district: 1 + (no / scale.warehouses % u32::from(DISTRICTS)) as u8,
        chance: Chance::new(scale, Rng::new(worker.seed(18))),
    }
}

fn options(config: &Config) -> TransactionOptions {
    let isolation = match config.transaction_serializable {
        true => Isolation::Serializable,
        false => Isolation::Snapshot,
    };
    TransactionOptions::new().isolation(isolation)
}

/// Tries until no other commit is in the way.
fn complete(
    db: &Db,
    schema: &Schema,
    options: &TransactionOptions,
    profile: &dyn Profile,
) -> Result<Completion, Failure> {
    let mut conflicts = 0;
    loop {
        match attempt(db, schema, options, profile) {
            Err(Failure::Engine(error)) if error.kind() == ErrorKind::Conflict => conflicts += 1,
            Err(failure) => return Err(failure),
            Ok((verdict, bytes)) => return Ok(Completion { verdict, conflicts, bytes }),
        }
    }
}

/// How it ended, and the bytes that were written.
fn attempt(
    db: &Db,
    schema: &Schema,
    options: &TransactionOptions,
    profile: &dyn Profile,
) -> Result<(Verdict, usize), Failure> {
    let mut transaction = db.begin(options.clone())?;
    let verdict = profile.run(schema, &mut transaction)?;
    if verdict == Verdict::RollBack {
        transaction.rollback();
        return Ok((verdict, 0));
    }
    let bytes = transaction.changes().batch().bytes();
    transaction.commit()?;
    Ok((verdict, bytes))
}
