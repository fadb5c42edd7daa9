//! Random puts into a store of an experiment's own.

use crate::bench::Bench;
use crate::config::Config;
use crate::report::outcome::Outcome;
use crate::work;
use crate::work::done::Done;

/// What `fillrandom` measured in the store of `config`, for the experiment, or its step, called `name`.
pub(super) fn random_puts(name: &str, config: Config) -> Result<Outcome, String> {
    let mut bench = Bench::new(config)?;
    let outcome = measured(name, &mut bench, "fillrandom");
    bench.store.close();
    outcome
}

/// What `benchmark` measured in a store that is open.
pub(super) fn measured(name: &str, bench: &mut Bench, benchmark: &str) -> Result<Outcome, String> {
    let found = work::find(benchmark).ok_or_else(|| format!("no benchmark {benchmark}"))?;
    match (found.run)(bench).map_err(|error| format!("{name}: {error}"))? {
        Done::Measured(outcome) => Ok(*outcome),
        Done::Rows(_) | Done::Told | Done::Skipped(_) => Err(format!("{name}: no figures")),
    }
}
