//! What the store says it holds of DRAM, beside what its process has of the system: through a fill, reads, a compaction and an
//! open.
//!
//! The process has more than the store: threads, the harness, the allocator's own. What it has with an empty store, beyond
//! what that says it holds, is taken off. A store with records in DRAM cannot be measured so: these are `pm_size`, no part of `dram_budget`.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use strandline::Db;

use super::done::Done;
use super::find;
use crate::bench::Bench;

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(20);
const PHASES: [&str; 6] =
    ["fillrandom", "readrandom", "seekrandom", "compact", "readrandom", "recover"];

/// Bytes at one time.
#[derive(Clone, Copy, Default)]
struct DramLook {
    /// What the store says.
    held: u64,
    /// What the process has that maps no file, records apart.
    resident: u64,
}

/// What was seen in a phase.
#[derive(Clone, Copy, Default)]
struct DramSeen {
    looks: u64,
    /// When the store held most.
    most_held: DramLook,
    /// When the process had most.
    most_resident: DramLook,
    /// When they were furthest apart.
    furthest: DramLook,
    last: DramLook,
}

impl DramLook {
    fn now(db: &Db) -> Result<DramLook, String> {
        let told = db.properties();
        let anonymous = told.anonymous_bytes.ok_or("/proc/self/status: no RssAnon")?;
        Ok(DramLook { held: told.dram_bytes, resident: anonymous })
    }

    /// Percent by which the process has more than what is told, `base` of it apart.
    fn beyond(self, base: u64) -> f64 {
        let told = (self.held + base) as f64;
        100.0 * (self.resident as f64 / told.max(1.0) - 1.0)
    }
}

impl DramSeen {
    fn add(&mut self, look: DramLook, base: u64) {
        let is_first = self.looks == 0;
        self.looks += 1;
        self.last = look;
        if is_first || look.held > self.most_held.held {
            self.most_held = look;
        }
        if is_first || look.resident > self.most_resident.resident {
            self.most_resident = look;
        }
        if is_first || look.beyond(base).abs() >= self.furthest.beyond(base).abs() {
            self.furthest = look;
        }
    }
}

pub(super) fn budget(bench: &mut Bench) -> Result<Done, String> {
    let has_log = bench.store.db()?.properties().wal.is_some();
    if has_log || bench.store.is_heap() {
        return Ok(Done::Skipped("its records are in the process's own memory; give --pm"));
    }
    let empty = DramLook::now(&bench.store.db()?)?;
    let base = empty.resident - empty.held.min(empty.resident);
    let limit = bench.store.db()?.properties().dram_budget;
    let mut rows = vec![(
        "dram_budget".to_owned(),
        format!("{limit}; the process has {base} besides, with an empty store"),
    )];
    for phase in PHASES {
        let seen = watched(bench, phase, base)?;
        let text = |look: DramLook| {
            format!("{} held, {} resident ({:+.1} %)", look.held, look.resident, look.beyond(base))
        };
        rows.push((
            phase.to_owned(),
            format!(
                "most held: {}; most resident: {}; furthest apart: {}; at the end: {}; {} looks",
                text(seen.most_held),
                text(seen.most_resident),
                text(seen.furthest),
                text(seen.last),
                seen.looks
            ),
        ));
    }
    Ok(Done::Rows(rows))
}

/// What is seen while `phase` runs.
fn watched(bench: &mut Bench, phase: &str, base: u64) -> Result<DramSeen, String> {
    let benchmark = find(phase).ok_or_else(|| format!("no benchmark {phase}"))?;
    let mut seen = DramSeen::default();
    if phase != "recover" {
        let (db, ended) = (bench.store.db()?, AtomicBool::new(false));
        std::thread::scope(|scope| {
            let looks = scope.spawn(|| {
                let mut seen = DramSeen::default();
                while !ended.load(Relaxed) {
                    seen.add(DramLook::now(&db)?, base);
                    std::thread::sleep(LOOK);
                }
                Ok::<_, String>(seen)
            });
            let done = (benchmark.run)(bench);
            ended.store(true, Relaxed);
            let looked = looks.join().unwrap_or_else(|_| Err("a thread panicked".into()));
            seen = looked?;
            done.map(drop)
        })?;
    } else {
        (benchmark.run)(bench)?;
    }
    seen.add(DramLook::now(&bench.store.db()?)?, base);
    Ok(seen)
}
