//! Many keyspaces: what it takes to make and to drop each.

use std::time::{Duration, Instant};

use super::done::Done;
use crate::bench::Bench;
use crate::report::outcome::Outcome;
use crate::words::{round, told};

/// Makes num keyspaces, then drops them.
pub(super) fn keyspaces(bench: &mut Bench) -> Result<Done, String> {
    let (db, count) = (bench.store.db()?, bench.config.num);
    let names: Vec<String> = (0..count).map(|number| format!("keyspace-{number}")).collect();
    let each = |call: &dyn Fn(&str) -> strandline::Result<()>| {
        let (mut sum, mut longest) = (Duration::ZERO, Duration::ZERO);
        for name in &names {
            let began = Instant::now();
            call(name).map_err(told)?;
            let took = began.elapsed();
            sum += took;
            longest = longest.max(took);
        }
        let mean = sum.as_nanos() as f64 / 1e3 / count.max(1) as f64;
        Ok::<_, String>((round(mean, 2), round(longest.as_nanos() as f64 / 1e3, 2)))
    };
    let began = Instant::now();
    let (made, made_longest) = each(&|name| db.create_keyspace(name).map(drop))?;
    let (dropped, dropped_longest) = each(&|name| db.drop_keyspace(name))?;
    let mut outcome = Outcome::single("keyspaces", began.elapsed().as_secs_f64());
    outcome.message = format!(
        "({count} keyspaces: {made} us to make one, longest {made_longest}; {dropped} us to drop one, longest \
         {dropped_longest})"
    );
    outcome.note("make_mean_us", made);
    outcome.note("make_longest_us", made_longest);
    outcome.note("drop_mean_us", dropped);
    outcome.note("drop_longest_us", dropped_longest);
    bench.describe(&db, &mut outcome);
    Ok(outcome.into())
}
