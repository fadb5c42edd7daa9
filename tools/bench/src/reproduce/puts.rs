//! Random puts into a store of an experiment's own.

use crate::bench::Bench;
use crate::config::Config;
use crate::report::outcome::Outcome;
use crate::work;
use crate::work::done::Done;

/// What `fillrandom` measured in the store of `config`, for the experiment, or its step, called `name`.
pub(super) fn random_puts(name: &str, config: Config) -> Result<Outcome, String> {
    let mut bench = Bench::new(config)?;
    let fill = work::find("fillrandom").ok_or("no benchmark fillrandom")?;
    let done = (fill.run)(&mut bench).map_err(|error| format!("{name}: {error}"));
    bench.store.close();
    match done? {
        Done::Measured(outcome) => Ok(*outcome),
        Done::Rows(_) | Done::Told | Done::Skipped(_) => Err(format!("{name}: no figures")),
    }
}
