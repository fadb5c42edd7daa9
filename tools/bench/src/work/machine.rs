//! Benchmarks of the machine itself.

use std::path::Path;
use std::time::Duration;

use super::done::Done;
use crate::bench::Bench;
use crate::machine::persist::{self, PersistLimit};
use crate::machine::spin::{PAUSE, longest_gap};
use crate::report::outcome::Outcome;
use crate::store::Store;
use crate::words::round;

/// What persisting costs beside the store, or on the heap for a store that is there.
pub(crate) fn persist_limit(store: &Store) -> Result<PersistLimit, String> {
    if store.is_heap() { persist::measure_heap() } else { persist::measure_in(beside(store)) }
}

/// The folder where the store's pool is.
fn beside(store: &Store) -> &Path {
    match &store.options().pm {
        strandline::PmSource::Path(pool) if pool.is_file() => {
            pool.parent().unwrap_or(Path::new("."))
        }
        _ => store.path(),
    }
}

pub(super) fn persistlimit(bench: &mut Bench) -> Result<Done, String> {
    let limit = persist_limit(&bench.store)?;
    let mut outcome = Outcome::single("persistlimit", limit.seconds);
    outcome.ops = limit.records;
    let [small, large] = limit.ns;
    outcome.message = format!(
        "(128 B: {small:.1} ns, {:.0} records/s; 1 KiB: {large:.1} ns, {:.0} records/s; {})",
        1e9 / small,
        1e9 / large,
        limit.place
    );
    outcome.durability = limit.durability;
    outcome.note("persist_128_ns", round(small, 2));
    outcome.note("persist_1024_ns", round(large, 2));
    Ok(outcome.into())
}

/// What devices do beside what their models say. The store itself is closed meanwhile.
pub(super) fn device(bench: &mut Bench) -> Result<Done, String> {
    crate::device::run(bench).map(|()| Done::Told)
}

pub(super) fn spingap(bench: &mut Bench) -> Result<Done, String> {
    let seconds = bench.config.duration.unwrap_or(5.0);
    let gaps = longest_gap(Duration::from_secs_f64(seconds));
    let mut outcome = Outcome::single("spingap", seconds);
    outcome.ops = gaps.looks;
    let longest = gaps.longest.as_nanos() as f64 / 1e3;
    outcome.message = format!(
        "(longest gap {longest:.1} us; {} gaps above {} us, {:.3} ms in all)",
        gaps.pauses,
        PAUSE.as_micros(),
        gaps.lost.as_secs_f64() * 1e3
    );
    outcome.histogram = gaps.histogram;
    outcome.durability = "not a store".into();
    outcome.note("longest_gap_us", longest);
    outcome.note("pauses", gaps.pauses);
    outcome.note("paused_ms", gaps.lost.as_secs_f64() * 1e3);
    outcome.note("latency_of_every", 1);
    Ok(outcome.into())
}
