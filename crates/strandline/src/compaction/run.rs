//! C: level 0 is compacted to tables, and tables move down from level to level.
//!
//! - **C1** pick: level 0 as a whole, or one table ([`crate::compaction::policy::pick`])
//! - **C2** begin: claim the inputs, choose the tier of the outputs ([`crate::compaction::policy::placement`]), split the keys
//!   into parts, hand each to a merge engine
//! - **C3** merge the parts, on as many threads as come; tables are synced and read back
//! - **C4** install ([`crate::compaction::install`]): directory synced, then one edit, then a View without the inputs
//! - **C5** retire: zones, files and extents go when their last reader does
//!
//! The order never varies: table synced or fenced, directory synced, edit durable, persistent memory freed. A failed
//! compaction leaves its inputs as they are and is tried again.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use base::planted;
use base::{Error, ErrorKind, Result};

use crate::caught::{caught, panicked};
use crate::compaction::begin::{Compactable, SubrangeCandidate};
use crate::compaction::collect::Urgency;
use crate::compaction::merge::engine::Poll;
use crate::compaction::policy::pick::{Choice, PickerInput, pick, pick_level0, pick_unfit};
use crate::compaction::under_way::figures::CompactionFigures;
use crate::compaction::under_way::{Compaction, Compactions, WrittenBytes, lock};
use crate::engine::Engine;
use crate::hooks::events::{CompactionReason, FoundBy};
use crate::keyspace::KeyspaceState;
use crate::quantum::Worked;
use crate::span::KeyBounds;

/// The time of a compaction of deeper levels is spread over this many compactions of level 0.
const OTHERS_SPREAD: u32 = 3;
/// Time until a failed compaction is tried again.
const RETRY: Duration = Duration::from_millis(200);

/// The result of a look for due compactions.
pub(crate) enum DueWork {
    Begun(Arc<Compaction>),
    /// None is due, or none can begin now.
    Nothing,
    /// Some are due, and failed to begin.
    Failed,
}

impl Engine {
    /// Keeps compactions from beginning, if none of `space` is under way.
    pub(crate) fn hold_compactions(
        &self,
        space: &Arc<KeyspaceState>,
    ) -> Option<MutexGuard<'_, Compactions>> {
        let compactions = self.background.compactions();
        let under_way = compactions.under_way.iter().any(|each| Arc::ptr_eq(&each.space, space));
        (!under_way).then_some(compactions)
    }

    /// Carries some compaction on by up to `quantum` entries, beginning one if it is due.
    pub(crate) fn work_on_levels(&self, quantum: usize) -> Result<Worked> {
        let Some(tables) = &self.tables else { return Ok(Worked::Idle) };
        if let Err(error) = self.remove_dead_tables(tables) {
            self.background.errors.set_compaction(Some(&error));
        }
        tables.look_at_device();
        if self.warm_outputs_in_turn() {
            return Ok(Worked::Did);
        }
        match self.work_on_compactions(quantum)? {
            Worked::Did => Ok(Worked::Did),
            _ if self.warm_outputs() => Ok(Worked::Did),
            worked => Ok(worked),
        }
    }

    fn work_on_compactions(&self, quantum: usize) -> Result<Worked> {
        // Level 0 goes first: writers wait for it.
        let mut failed = false;
        let mut under_way = {
            let mut compactions = self.background.compactions();
            let level0 = compactions.under_way.iter().any(|each| each.inputs.is_level0());
            if !level0 {
                match self.begin_due(&mut compactions, pick_level0) {
                    DueWork::Begun(begun) => {
                        begun.tell_begin(&self.events, begun.reason);
                        compactions.under_way.insert(0, begun);
                        if self.events.are_heard() {
                            // It is told of before it does anything.
                            return Ok(Worked::Did);
                        }
                    }
                    DueWork::Failed => failed = true,
                    DueWork::Nothing => {}
                }
            }
            compactions.under_way.clone()
        };
        // Carry on what is under way, or else begin what is due; Busy if other threads are at all of it.
        loop {
            for compaction in &under_way {
                if let Some(worked) = self.carry_on(compaction, quantum)? {
                    return Ok(worked);
                }
            }
            let mut compactions = self.background.compactions();
            let most = self.threads() as usize;
            if compactions.under_way.len() >= most {
                return Ok(Worked::Busy);
            }
            // A writer that waits for space is refused only after the failed work was tried again. A begin that failed just
            // now is that try.
            let coming = !compactions.under_way.is_empty() || !failed && self.pauses(&compactions);
            let begun = match self.begin_any(&mut compactions) {
                DueWork::Begun(begun) => begun,
                _ if coming => return Ok(Worked::Busy),
                DueWork::Nothing if !failed => return Ok(Worked::Idle),
                DueWork::Nothing | DueWork::Failed => return Ok(Worked::Short),
            };
            begun.tell_begin(&self.events, begun.reason);
            compactions.under_way.push(Arc::clone(&begun));
            if self.events.are_heard() {
                return Ok(Worked::Did);
            }
            under_way = vec![begun];
        }
    }

    /// Carries on a part that no other thread carries on; `None` if there is none. A panic in it gives the compaction up, as
    /// an error does: inputs stay as they were, and nothing names the outputs. After the edit a panic poisons the store.
    pub(crate) fn carry_on(
        &self,
        compaction: &Arc<Compaction>,
        quantum: usize,
    ) -> Result<Option<Worked>> {
        match caught(|| self.carry_on_part(compaction, quantum)) {
            Ok(worked) => worked,
            Err(said) => self.fail(compaction, panicked("compact", &said)).map(Some),
        }
    }

    fn carry_on_part(
        &self,
        compaction: &Arc<Compaction>,
        quantum: usize,
    ) -> Result<Option<Worked>> {
        planted::step("carry a compaction on");
        if compaction.is_move() {
            let first = compaction.left.swap(0, Relaxed) == 1;
            return if first { self.end(compaction).map(Some) } else { Ok(None) };
        }
        if self.owed_rate().is_some() {
            return Ok(Some(Worked::Busy));
        }
        for part in &compaction.parts {
            // After a panic the lock of a part is poisoned, and only giving up takes it.
            let Ok(mut part) = part.try_lock() else { continue };
            let Some(task) = &mut part.task else { continue };
            match task.poll(quantum) {
                Ok(Poll::Working) => drop(part),
                Ok(Poll::Done(made)) => {
                    part.made = made;
                    part.task = None;
                    drop(part);
                    if compaction.left.fetch_sub(1, Relaxed) == 1 {
                        return self.end(compaction).map(Some);
                    }
                }
                Err(error) => {
                    // A task that failed may skip what it failed at: no thread may carry it on.
                    part.task.take().into_iter().for_each(|mut task| task.cancel());
                    drop(part);
                    return self.fail(compaction, error).map(Some);
                }
            }
            self.note_draining(compaction);
            self.update_debt();
            return Ok(Some(Worked::Did));
        }
        Ok(None)
    }

    /// How long compactions may write nothing more, if they keep to a rate.
    pub(crate) fn owed_rate(&self) -> Option<Duration> {
        self.background.rate.owed()
    }

    /// C4 and C5; gives the compaction up if they fail.
    fn end(&self, compaction: &Arc<Compaction>) -> Result<Worked> {
        if compaction.failure.get().is_some() {
            return Ok(Worked::Busy);
        }
        if let Err(error) = self.install(compaction) {
            return self.fail(compaction, error);
        }
        self.forget(compaction);
        // A move makes no room.
        if compaction.reason != CompactionReason::Tier {
            let mut compactions = self.background.compactions();
            (compactions.missed, compactions.collection_failed) = (false, false);
        }
        self.reclaim();
        self.update_reserve();
        self.update_debt();
        self.background.out_of_space.store(false, Relaxed);
        self.background.errors.set_compaction(None);
        Ok(Worked::Did)
    }

    fn forget(&self, compaction: &Arc<Compaction>) {
        if compaction.inputs.is_level0() {
            self.background.throttle.draining(None);
        }
        self.background.compactions().under_way.retain(|each| !Arc::ptr_eq(each, compaction));
    }

    /// Gives a compaction up: its outputs are removed, its inputs stay. After an error of the device it is tried again later;
    /// after damage it is not, since merging on would spread the damage.
    fn fail(&self, compaction: &Arc<Compaction>, error: Error) -> Result<Worked> {
        if compaction.failure.set(error.clone()).is_err() {
            return Ok(Worked::Busy);
        }
        compaction.tell_end(|| Err(error.clone()));
        // First of all, so that no thread waits for it any more.
        self.forget(compaction);
        self.give_up(compaction);
        {
            let mut compactions = self.background.compactions();
            compactions.figures.failed += 1;
            compactions.missed =
                compaction.inputs.is_level0() && error.kind() == ErrorKind::NoSpace;
            compactions.collection_failed |= !compaction.collected.is_empty();
        }
        self.background.errors.set_compaction(Some(&error));
        match error.kind() {
            _ if self.poison.is_set() => Err(error),
            ErrorKind::Corruption => {
                self.leave_alone(&compaction.space, &error);
                Ok(Worked::Did)
            }
            // Nothing waits for a move.
            _ if compaction.reason == CompactionReason::Tier => {
                self.background.compactions().tier_failed_at = Some(Instant::now());
                Ok(Worked::Did)
            }
            _ => {
                self.background.compactions().failed_at = Some(Instant::now());
                self.background.out_of_space.store(true, Relaxed);
                Ok(Worked::Short)
            }
        }
    }

    /// Merges no more in a keyspace that is damaged: that would spread the damage, or lose the rest.
    pub(crate) fn leave_alone(&self, space: &KeyspaceState, damage: &Error) {
        self.events.note_damage(damage, FoundBy::Compaction, &space.name);
        let _first_wins = space.damage.set(damage.clone());
        let _first_wins = self.background.errors.damage.set(damage.to_string());
    }

    /// Ends the parts of a compaction; what they made goes.
    fn give_up(&self, compaction: &Compaction) {
        for part in &compaction.parts {
            let mut part = lock(part);
            part.task.take().into_iter().for_each(|mut task| task.cancel());
            part.made.clear();
        }
        drop(compaction.moves.as_ref().and_then(|moves| moves.take()));
    }

    /// Gives up what is under way in `space`.
    pub(crate) fn abandon_compactions(&self, space: &Arc<KeyspaceState>) {
        let under_way = self.background.compactions().under_way.clone();
        for compaction in under_way.iter().filter(|each| Arc::ptr_eq(&each.space, space)) {
            let _first_wins = compaction.failure.set(crate::keyspace::dropped(space));
            self.forget(compaction);
            self.give_up(compaction);
        }
    }

    /// Whether a compaction failed lately. Without background threads no thread would come back to it.
    pub(crate) fn pauses(&self, compactions: &Compactions) -> bool {
        let lately = compactions.failed_at.is_some_and(|at| at.elapsed() < RETRY);
        lately && self.options().background_threads > 0
    }

    /// Begins a compaction that is due and fits. If there is none, and none under way may make room, tries one that may not fit,
    /// because a writer or a flush waits.
    fn begin_any(&self, compactions: &mut Compactions) -> DueWork {
        match self.begin_collection(compactions, Urgency::Urgent) {
            DueWork::Nothing => {}
            due => return due,
        }
        match self.begin_due(compactions, pick) {
            DueWork::Nothing => {}
            due => return due,
        }
        match self.begin_collection(compactions, Urgency::Due) {
            DueWork::Nothing
                if compactions.under_way.is_empty() && self.may_lack_room(compactions) =>
            {
                self.begin_due(compactions, pick_unfit)
            }
            DueWork::Nothing => self.begin_tier_move(compactions),
            due => due,
        }
    }

    /// Whether files have less room than a second copy of all data would take.
    fn may_lack_room(&self, compactions: &Compactions) -> bool {
        let space = self.media.pool.space();
        let Some(tables) = &self.tables else { return false };
        self.room_facts(compactions).levels < tables.room.taken() + space.total - space.free
    }

    /// Begins a compaction that `choose` finds for one of those that are due.
    fn begin_due(
        &self,
        compactions: &mut Compactions,
        choose: fn(&PickerInput<'_>) -> Option<Choice>,
    ) -> DueWork {
        if self.pauses(compactions) {
            return DueWork::Nothing;
        }
        let mut came = DueWork::Nothing;
        for SubrangeCandidate { space, subrange, view, level0, scope, due, .. } in self.candidates()
        {
            let begun = self.begin_noted(compactions, &space, |compactions| {
                let bounds = level0.bounds(&self.media, &subrange)?;
                let of = Compactable {
                    space: &space,
                    subrange: &subrange,
                    view: &view,
                    level0: &level0,
                    bounds: bounds.as_ref().map(KeyBounds::as_ref),
                    scope: &scope,
                    due: due.is_some(),
                };
                let input = self.picker_input(compactions, &of);
                choose(&input).map_or(Ok(None), |choice| self.begin(compactions, &of, choice))
            });
            match begun {
                DueWork::Begun(begun) => return DueWork::Begun(begun),
                DueWork::Failed => came = DueWork::Failed,
                DueWork::Nothing => {}
            }
        }
        came
    }

    /// Picks and begins a compaction of `space`. A failure is noted, and ends in no error: a keyspace that is damaged is left
    /// alone, and anything else is tried again. Inputs marked by a begin that fails are released by their drop.
    pub(crate) fn begin_noted(
        &self,
        compactions: &mut Compactions,
        space: &Arc<KeyspaceState>,
        begin: impl FnOnce(&Compactions) -> Result<Option<Arc<Compaction>>>,
    ) -> DueWork {
        let begun = caught(|| begin(compactions));
        match begun.unwrap_or_else(|said| Err(panicked("compact", &said))) {
            Ok(None) => DueWork::Nothing,
            Ok(Some(begun)) => {
                compactions.failed_at = None;
                if begun.parts.len() > 1 {
                    // Other threads may take parts.
                    self.background.member.wake();
                }
                DueWork::Begun(begun)
            }
            Err(error) if error.kind() == ErrorKind::Corruption => {
                self.leave_alone(space, &error);
                DueWork::Nothing
            }
            Err(error) => {
                self.background.errors.set_compaction(Some(&error));
                compactions.failed_at = Some(Instant::now());
                DueWork::Failed
            }
        }
    }

    /// Counts a compaction that was installed.
    pub(crate) fn count(&self, compaction: &Compaction, written: WrittenBytes, freed: u64) {
        let elapsed = compaction.begun.elapsed();
        let mut compactions = self.background.compactions();
        compaction.count(&mut compactions.figures, written, elapsed);
        if compaction.inputs.is_level0() {
            // The threads also work on deeper levels before they can begin the next one.
            let others = compactions.others / OTHERS_SPREAD;
            compactions.others -= others;
            self.background.throttle.drained(
                compaction.entries,
                freed,
                elapsed + others / self.threads(),
            );
        } else {
            compactions.others += elapsed;
        }
    }

    /// How many threads compactions may use.
    pub(crate) fn threads(&self) -> u32 {
        self.options().background_threads.max(1)
    }

    pub(crate) fn compaction_figures(&self) -> CompactionFigures {
        self.background.compactions().figures
    }

    /// Notes how far the compaction of level 0 under way has come, for the pace of writers.
    fn note_draining(&self, compaction: &Compaction) {
        if compaction.inputs.is_level0() {
            self.background
                .throttle
                .draining(Some(compaction.entries.saturating_sub(compaction.passed())));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use pmem::Region;
    use ssd::Memory;

    use super::*;
    use crate::Db;
    use crate::options::{Level0Form, Options};
    use crate::steps::{self, Change, Stepped, Write};

    thread_local! {
        /// A commit that goes on once a pick looks at what its memtable has.
        static LATE: RefCell<Option<Write<'static>>> = const { RefCell::new(None) };
    }

    fn go_on() {
        LATE.with_borrow_mut(|late| {
            if let Some(write) = late {
                while write.step().expect("step") != Stepped::Acknowledged {}
            }
        });
    }

    /// The choice of a level holds for the keys that were looked at: a table with one more overlapped others there.
    #[test]
    fn a_memtable_leaves_with_no_key_that_came_after_the_choice() {
        let region = Arc::new(Region::heap(4 << 20, None).expect("heap"));
        let options =
            Options { background_threads: 0, level0: Level0Form::Sst, ..Options::default() };
        let db = Db::open_on(region, Arc::new(Memory::default()), "sst", options).expect("open");
        // The commit that waits is kept beyond this function.
        let db: &'static Db = Box::leak(Box::new(db));
        db.put(b"m", b"1").expect("put");
        db.put(b"z", b"1").expect("put");
        db.compact().expect("compact");
        db.put(b"a", b"2").expect("put");
        let put = Change::Put { key: b"p", value: b"2" };
        let mut late = Write::admit(&[(db.default_keyspace(), put)]).expect("admit");
        for _ in ["reserve", "copy", "fence"] {
            late.step().expect("step");
        }
        LATE.set(Some(late));
        steps::switch_memtable(db.default_keyspace());
        let due = db.engine().begin_due(&mut db.engine().background.compactions(), |input| {
            go_on();
            pick(input)
        });
        if let DueWork::Begun(begun) = due {
            db.engine().background.compactions().under_way.push(begun);
        }
        go_on();
        while !db.work(64).expect("work").is_idle() {}
        assert_eq!(db.engine().compaction_figures().level0, 2, "it left once all of it was there");
        db.put(b"q", b"2").expect("the store goes on");
        for (key, value) in [(b"a", b"2"), (b"m", b"1"), (b"p", b"2"), (b"z", b"1")] {
            assert_eq!(db.get(key).expect("get").as_deref(), Some(&value[..]));
        }
    }
}
