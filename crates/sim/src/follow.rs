//! What follows a recovery: the store is worked with, and crashes again.

use std::sync::Arc;

use crate::beside::{End, Fact};
use crate::case::Case;
use crate::check::{Accepted, Expect, Outcome, Rule, Violation};
use crate::explore::{Explorer, Point, Rig, Start, guard};
use crate::files::Survivor;
use crate::history::History;
use crate::log::Log;
use crate::media::{Media, patch, unpatch};
use crate::op::{Op, Value, Write};
use crate::run::run_ops;
use crate::system::System;
use base::random::Rng;

/// A recorded recovery and what was done after it, to be crashed in its turn.
pub(crate) struct Dive<'h> {
    start: Start,
    log: Log,
    history: History,
    before: Expect<'h>,
    crash: String,
    end: End,
}

/// What a power cut left.
#[derive(Clone, Copy)]
pub(crate) struct Image<'i> {
    /// What became of each doubt.
    pub(crate) choice: &'i [u16],
    /// Tells it from others.
    pub(crate) hash: u64,
    pub(crate) files: &'i Survivor,
}

/// A store that a recovery opened, and what that showed.
pub(crate) struct Recovered<T> {
    pub(crate) store: T,
    pub(crate) accepted: Accepted,
    pub(crate) outcome: Outcome,
    pub(crate) facts: Vec<Fact>,
}

/// Where the values written after a recovery begin to be numbered, times the depth.
const IDS_PER_DEPTH: u32 = 10_000;

/// Puts that a recovered store is asked to take one of, each behind some background work.
const INSIST: u32 = 32;
/// Their values are numbered from here on.
const INSIST_IDS: u32 = 1 << 30;
/// Kinds of background work that every system with background work has.
const INSIST_KINDS: u8 = 4;

impl<S: System> Explorer<'_, S> {
    /// Explores what was put off, one level further down.
    pub(crate) fn dive(
        &mut self,
        case: &Case,
        later: &mut Vec<Dive<'_>>,
        depth: usize,
    ) -> Result<(), Violation> {
        for dive in later.drain(..) {
            self.counters.totals.kills_cut += u64::from(dive.end == End::Kill && !self.spent());
            self.level(case, dive.start, &dive.log, &dive.history, Some(dive.before), depth + 1)
                .map_err(|v| v.after(dive.crash))?;
        }
        Ok(())
    }

    /// One in how many: rarer with every crash before, since each level multiplies the last.
    pub(crate) fn rate(&self, point: &Point<'_, '_>, one_in: u32) -> u32 {
        if point.case.eager {
            one_in.min(2)
        } else {
            one_in.saturating_mul(4u32.saturating_pow(point.depth as u32))
        }
    }

    /// Works with a recovered store, has that crashed later, or lets it be.
    pub(crate) fn follow<'h>(
        &mut self,
        rig: &mut Rig,
        point: &Point<'_, 'h>,
        image: Image<'_>,
        recovered: Recovered<S::Store>,
        later: &mut Vec<Dive<'h>>,
    ) -> Result<(), Violation> {
        let Image { choice, hash, files } = image;
        let Recovered { store, accepted, outcome, facts } = recovered;
        self.counters.probe.add(&self.system.probe(&store));
        let mut rng = Rng::fork(point.case.seed, hash);
        let dive = rng.one_in(self.rate(point, self.limits.dive_one_in));
        let dive = dive && point.depth + 1 < self.limits.levels;
        // What a recovery got wrong often shows only once new commits stand behind what it kept.
        let often = if dive { 2 } else { u32::MAX };
        let work = rng.one_in(self.rate(point, self.limits.continue_one_in).min(often));
        if !work && !dive {
            rig.spare = self.system.close(store);
            return Ok(());
        }
        let born = rig.pm.mark();
        let mut history = point.expect.history.branch(accepted, outcome.cut, born, facts);
        let ops = if work { self.afterwards(point, rng.next()) } else { Vec::new() };
        self.work(point.case, rig, &store, &ops, &mut history, &mut rng)
            .map_err(|v| v.after(point.describe_cut(choice) + &then(&ops)))?;
        let mut log = Log::default();
        rig.pm.swap_log(&mut log);
        rig.spare = self.system.close(store);
        if dive {
            patch(&mut rig.image, point.torn, choice);
            let media = Media::with_hash(point.case.mode, &rig.image, hash ^ files.hash);
            unpatch(&mut rig.image, point.torn);
            let before = point.expect.raised(accepted);
            let crash = point.describe_cut(choice) + &then(&ops);
            let start = Start { media, disk: Arc::clone(&files.disk) };
            later.push(Dive { start, log, history, before, crash, end: End::PowerCut });
        }
        Ok(())
    }

    fn afterwards(&mut self, point: &Point<'_, '_>, seed: u64) -> Vec<Op> {
        self.counters.totals.continuations += 1;
        let first_id = (point.depth as u32 + 1) * IDS_PER_DEPTH;
        point.case.afterwards.generate(&mut Rng::new(seed), first_id)
    }

    /// A few operations on a recovered store, and a look at what it shows then.
    fn work(
        &mut self,
        case: &Case,
        rig: &Rig,
        store: &S::Store,
        ops: &[Op],
        history: &mut History,
        rng: &mut Rng,
    ) -> Result<(), Violation> {
        let schedule: Vec<u8> = (0..ops.len() * 8).map(|_| rng.next() as u8).collect();
        guard(|| {
            run_ops(self.system, store, &rig.pm, ops, &schedule, history)?;
            if history.took_nothing() && self.system.makes_room() {
                self.insist(case, rig, store, history)?;
            }
            history.finish()?;
            if self.fold(store)? != history.final_fold() {
                let what = "a recovered store does not show what was written to it".to_string();
                return Err(Violation::new(Rule::N8, what));
            }
            self.check_space(store)
        })?;
        self.check_at_end(rig, history)
    }

    /// A recovered store that turned every commit away must take one once it has had time to make room: what power
    /// failure took from it is no reason.
    fn insist(
        &self,
        case: &Case,
        rig: &Rig,
        store: &S::Store,
        history: &mut History,
    ) -> Result<(), Violation> {
        for n in 0..INSIST {
            let value = Value { id: INSIST_IDS + n, len: 8 };
            let put = Write::Put { keyspace: 0, key: case.afterwards.keys.key(0), value };
            let ops = [
                Op::Background { thread: 0, kind: n as u8 % INSIST_KINDS },
                Op::Commit { thread: 0, writes: vec![put], abandon: false },
            ];
            run_ops(self.system, store, &rig.pm, &ops, &[], history)?;
            if !history.took_nothing() {
                return Ok(());
            }
        }
        let what =
            format!("a recovered store turns every commit away, {INSIST} puts of 8 bytes too");
        Err(Violation::new(Rule::N8, what))
    }

    /// The process dies, another one recovers from the memory it left, works, and then power fails.
    pub(crate) fn kill<'h>(
        &mut self,
        point: &Point<'_, 'h>,
        media: Media,
        later: &mut Vec<Dive<'h>>,
    ) -> Result<(), Violation> {
        self.counters.totals.kills += 1;
        let mut rig = self.take_rig(point.depth);
        let region = rig.pm.region(&media.visible(), rig.spare.take());
        // What was not durable still is not, and is older than anything that follows.
        rig.pm.set_begun(media.tick());
        let fs = rig.files.boot(point.disk, &rig.pm);
        rig.pm.set_fuel(self.limits.fuel);
        let (store, outcome) = match guard(|| self.open(region, fs)) {
            Ok(opened) => opened,
            Err(v) if !point.expect.created() && v.says_unmade() => {
                self.put_rig(point.depth, rig);
                return Ok(());
            }
            Err(v) => return Err(v),
        };
        let Some(accepted) = point.expect.check(&outcome) else {
            let region = rig.pm.region(&media.visible(), None);
            let fs = rig.files.boot(point.disk, &rig.pm);
            return Err(self.explain(point, region, fs));
        };
        self.counters.probe.add(&self.system.probe(&store));
        let beside = self.check_beside_now(&point.expect, accepted, point.disk)?;
        let facts = point.expect.facts_after(accepted, &beside, End::Kill);
        let born = rig.pm.mark();
        let mut history = point.expect.history.branch(accepted, outcome.cut, born, facts);
        let mut rng = Rng::fork(point.case.seed, media.hash());
        let ops = self.afterwards(point, rng.next());
        self.work(point.case, &rig, &store, &ops, &mut history, &mut rng)?;
        let mut log = Log::default();
        rig.pm.swap_log(&mut log);
        rig.spare = self.system.close(store);
        self.put_rig(point.depth, rig);
        let crash = point.describe("process kill") + &then(&ops);
        let start = Start { media, disk: Arc::clone(point.disk) };
        let before = point.expect;
        later.push(Dive { start, log, history, before, crash, end: End::Kill });
        Ok(())
    }
}

fn then(ops: &[Op]) -> String {
    ops.iter().map(|op| format!("\n    then {op}")).collect()
}
