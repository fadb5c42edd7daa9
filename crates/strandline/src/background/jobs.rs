//! Background work in bounded quanta, so that the background thread and writers in debt can share it.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use base::planted::{self, Bug};
use base::{Error, ErrorKind, Result};

use crate::caught::{self, caught, panicked};
use crate::engine::job::{Job, Jobs, WaitingJob};
use crate::engine::{Access, Engine};
use crate::keyspace::KeyspaceState;
use crate::keyspace::subrange::Subrange;
use crate::level0::flush::FlushJob;
use crate::level0::merge::RunMerge;
use crate::level0::policy::pick_runs::{Need, RUNS_ABOVE_LEVELS, RUNS_MAX, pick_runs};
use crate::memtable::Memtable;
use crate::options::Level0Form;
use crate::quantum::{Progress, Worked};

/// Entries that a merge is carried on by while memtables wait for commits, which come any moment.
const MEANWHILE: usize = 4096;

/// Whose turn it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Flush,
    Merge,
}

/// What is to be done with the jobs.
enum Chosen {
    /// The job whose turn it is goes on.
    Job(Turn),
    /// No job; the call came to this.
    Nothing(Worked),
}

impl Jobs {
    /// Sees to it that there is a job whose turn it is, if there is work at all.
    fn turn(&mut self, engine: &Engine) -> Option<Turn> {
        // What could not be flushed for want of space may fit once a merge has freed some.
        if engine.background.out_of_space.load(Relaxed) && self.ensure_merge(engine) {
            return Some(Turn::Merge);
        }
        if self.flush.is_none() {
            self.flush = engine.choose_flush().map(|flush| Box::new(flush) as Box<dyn Job>);
        }
        if self.flush.is_some() {
            Some(Turn::Flush)
        } else {
            self.ensure_merge(engine).then_some(Turn::Merge)
        }
    }

    fn ensure_merge(&mut self, engine: &Engine) -> bool {
        let next = match self.merges.last() {
            Some(last) => engine.choose_merge_beside(&**last),
            None => engine.choose_merge(),
        };
        self.merges.extend(next.map(|merge| Box::new(merge) as Box<dyn WaitingJob>));
        !self.merges.is_empty()
    }

    /// Carries the job on; it is gone when it is done or failed. A panic in it comes back as an error: what the job has
    /// written is named by nothing, and what it has marked is released as it goes; where it panicked behind its edit, the
    /// store is poisoned.
    fn step(&mut self, turn: Turn, engine: &Engine, quantum: usize) -> JobStep {
        let stepped = caught(|| match turn {
            Turn::Flush => self.flush.as_mut().map(|flush| flush.step(engine, quantum)),
            Turn::Merge => self.merges.last_mut().map(|merge| merge.step(engine, quantum)),
        });
        let (progress, panicked) = match stepped {
            Ok(stepped) => (stepped.unwrap_or(Ok(Progress::Done)), false),
            Err(said) => (Err(caught::panicked("index", &said)), true),
        };
        if matches!(progress, Ok(Progress::Done) | Err(_)) {
            match turn {
                Turn::Flush => self.flush = None,
                Turn::Merge => self.end_merge(engine, progress.as_ref().err()),
            }
        }
        self.tell(engine);
        match progress {
            Err(error) if panicked => JobStep::Panicked(error),
            progress => JobStep::Ended(progress),
        }
    }

    /// Lets go of the merge whose turn it was.
    fn end_merge(&mut self, engine: &Engine, error: Option<&Error>) {
        let Some(merge) = self.merges.pop() else { return };
        self.merges.iter_mut().for_each(|waited| waited.leave_out(merge.elapsed()));
        if let Some(waited) = self.merges.last_mut() {
            waited.has_let_by(merge.entries());
        }
        if let Some(error) = error.filter(|error| error.kind() == ErrorKind::Corruption) {
            // Merging on would meet the same damage. Reads go on, and writes as long as there is space.
            engine.leave_alone(merge.keyspace(), error);
            self.merges.clear();
        }
    }

    /// Tells how far the merges under way have come.
    fn tell(&self, engine: &Engine) {
        let passed = self.merges.iter().map(|merge| merge.passed()).sum();
        let dram: usize = self.merges.iter().map(|merge| merge.dram_bytes()).sum();
        engine.background.throttle.merging(passed, dram as u64);
    }

    /// Gives up what is under way in `space`; nothing names what it has written.
    pub(crate) fn abandon(&mut self, engine: &Engine, space: &Arc<KeyspaceState>) {
        self.flush.take_if(|flush| Arc::ptr_eq(flush.keyspace(), space));
        self.merges.retain(|merge| !Arc::ptr_eq(merge.keyspace(), space));
        self.tell(engine);
    }

    /// Ends what is under way.
    pub(crate) fn finish(&mut self, engine: &Engine) -> Result<()> {
        while self.flush.is_some() {
            self.step(Turn::Flush, engine, usize::MAX).progress()?;
        }
        while !self.merges.is_empty() {
            self.step(Turn::Merge, engine, usize::MAX).progress()?;
        }
        Ok(())
    }
}

/// What became of a step of a job.
enum JobStep {
    /// The job goes on, is done, or failed.
    Ended(Result<Progress>),
    /// It panicked, and was given up.
    Panicked(Error),
}

impl JobStep {
    fn progress(self) -> Result<Progress> {
        match self {
            JobStep::Ended(progress) => progress,
            JobStep::Panicked(error) => Err(error),
        }
    }
}

impl Engine {
    /// Does up to `quantum` entries of background work: on indexes in persistent memory first, because immutable memtables
    /// hold DRAM; on the levels if there is no such work, or another thread does it.
    pub(crate) fn work(&self, quantum: usize) -> Result<Worked> {
        if self.lifetime.access == Access::Read {
            return Ok(Worked::Idle);
        }
        self.check_writable("work")?;
        let worked = self.work_somewhere(quantum);
        self.events.tell();
        worked
    }

    /// Looks for what the cache had before the open, in every other turn, and in none while space has to be freed: what is found early
    /// is worth more, but writers must not wait for it.
    fn warm_cache(&self) -> bool {
        let Some(cache) = self.pm_cache() else { return false };
        let is_urgent = self.background.throttle.urgency() > 0;
        !is_urgent && self.background.warms.fetch_not(Relaxed) && cache.warm_one()
    }

    fn work_somewhere(&self, quantum: usize) -> Result<Worked> {
        if self.warm_cache() {
            return Ok(Worked::Did);
        }
        let indexes = self.work_on_indexes(quantum);
        if matches!(indexes, Ok(Worked::Did)) {
            return indexes;
        }
        // A failure there must not stop compactions, which free space.
        let levels = self.work_on_levels(quantum)?;
        if levels == Worked::Did {
            return Ok(levels);
        }
        let indexes = indexes?;
        if (indexes, levels) == (Worked::Idle, Worked::Idle) {
            if self.look_for_expired() || self.pm_cache().is_some_and(|cache| cache.warm_one()) {
                return Ok(Worked::Did);
            }
            self.give_memory_back();
            self.background.throttle.asked.store(false, Relaxed);
        }
        Ok(match (indexes, levels) {
            (Worked::Idle, other) | (other, Worked::Idle) => other,
            (_, Worked::Short) => Worked::Short,
            (indexes, _) => indexes,
        })
    }

    /// Carries the flush or the merge on by up to `quantum` entries.
    pub(crate) fn work_on_indexes(&self, quantum: usize) -> Result<Worked> {
        let Some(mut jobs) = self.background.try_jobs() else { return Ok(Worked::Busy) };
        // Choose; a panic here loses only a job that was just begun.
        let known = jobs.count();
        let chosen = caught(|| self.choose_job(&mut jobs)).map_err(|said| panicked("index", &said));
        let turn =
            match chosen.inspect_err(|error| self.background.errors.set_flush(Some(error)))?? {
                Chosen::Job(turn) => turn,
                Chosen::Nothing(worked) => return Ok(worked),
            };
        if jobs.count() > known && self.events.are_heard() {
            // It is told of before it does anything.
            return Ok(Worked::Did);
        }
        // Advance it by one quantum, a short one if a memtable becomes ready for its flush meanwhile.
        let waits = turn == Turn::Merge && self.awaits_commits();
        let quantum = if waits { quantum.min(MEANWHILE) } else { quantum };
        let stepped = jobs.step(turn, self, quantum);
        let merging = !jobs.merges.is_empty();
        if let JobStep::Ended(Ok(Progress::More)) = stepped {
            self.update_debt();
            return Ok(Worked::Did);
        }
        // It ended: free what it released, and tell what came of it.
        drop(jobs);
        self.reclaim();
        self.update_reserve();
        self.update_debt();
        let progress = match stepped {
            JobStep::Ended(progress) => progress,
            JobStep::Panicked(error) => {
                self.background.errors.set_flush(Some(&error));
                return Err(error);
            }
        };
        match progress {
            Err(error) if error.kind() == ErrorKind::NoSpace => {
                self.background.out_of_space.store(true, Relaxed);
                // A merge under way may free what the flush wants.
                Ok(if merging { Worked::Did } else { Worked::Short })
            }
            Err(error) if error.kind() == ErrorKind::Corruption && turn == Turn::Merge => {
                Ok(Worked::Did)
            }
            Err(error) => {
                self.poison.set(&error);
                Err(error)
            }
            Ok(_) => {
                self.background.out_of_space.store(false, Relaxed);
                self.background.errors.set_flush(None);
                Ok(Worked::Did)
            }
        }
    }

    /// Splits or joins subranges at once if that is due; otherwise says which job goes on.
    fn choose_job(&self, jobs: &mut Jobs) -> Result<Chosen> {
        planted::step("choose a job");
        if !jobs.is_flushing() {
            let changed = self.split_or_join(jobs.merging());
            if changed.inspect_err(|error| self.poison.set(error))? {
                return Ok(Chosen::Nothing(Worked::Did));
            }
        }
        Ok(match jobs.turn(self) {
            Some(turn) => Chosen::Job(turn),
            None if self.awaits_commits() => Chosen::Nothing(Worked::Blocked),
            None => Chosen::Nothing(Worked::Idle),
        })
    }

    /// The oldest memtable that can be flushed: its commits are published, and no older immutable memtable shares its keys.
    /// One that cannot does not hold up the others: a thread that keeps a commit open may wait for their flush.
    fn choose_flush(&self) -> Option<FlushJob> {
        let unpublished = planted::is(Bug::FlushUnpublished);
        let spaces = self.space.holders.spaces();
        spaces.iter().filter(|space| !space.dropped.load(Relaxed)).find_map(|space| {
            let subranges = space.subranges();
            let views: Vec<_> = subranges.iter().map(|subrange| subrange.view.load()).collect();
            let oldest_of_all = |memtable: &Arc<Memtable>| {
                let is_it = |each: &Arc<Memtable>| Arc::ptr_eq(each, memtable);
                let mut readers = views.iter().filter(|view| view.memtables.iter().any(is_it));
                readers.all(|view| view.oldest_immutable().is_some_and(is_it))
            };
            let mut waiting: Vec<_> =
                views.iter().filter_map(|view| view.oldest_immutable()).collect();
            waiting.retain(|memtable| {
                (self.is_published(memtable) || unpublished)
                    && !self.is_flushed(space, memtable)
                    && oldest_of_all(memtable)
            });
            waiting.sort_by_key(|memtable| memtable.order);
            waiting.into_iter().find_map(|memtable| FlushJob::begin(&self.events, space, memtable))
        })
    }

    /// A merge, if one is worth it.
    fn choose_merge(&self) -> Option<RunMerge> {
        if self.options().level0 != Level0Form::GlobalIndex {
            return None;
        }
        for (space, subrange) in self.space.holders.now() {
            // Where there are levels, compactions free space; merges only keep runs few.
            let debt = if self.tables.is_some() { 0 } else { self.background.throttle.urgency() };
            let reclaimed = subrange.reclaimed.load(Relaxed);
            let need = if self.tables.is_none() && subrange.expired.load(Relaxed) {
                Need::everything(self.runs_max())
            } else {
                Need { debt, reclaimed, runs_max: self.runs_max() }
            };
            let merge = self.merge_free(&space, &subrange, need);
            if merge.is_some() {
                subrange.expired.store(false, Relaxed);
                return merge;
            }
        }
        None
    }

    fn runs_max(&self) -> usize {
        if self.tables.is_some() { RUNS_ABOVE_LEVELS } else { RUNS_MAX }
    }

    /// A merge of runs that arrived during another merge of their subrange. Where space is owed, the older one ends first:
    /// it frees more.
    fn choose_merge_beside(&self, other: &dyn WaitingJob) -> Option<RunMerge> {
        let space_is_owed =
            self.background.throttle.urgency() > 0 || self.background.out_of_space.load(Relaxed);
        if space_is_owed || !other.may_wait() {
            return None;
        }
        let need = Need { debt: 0, reclaimed: true, runs_max: self.runs_max() };
        self.merge_free(other.keyspace(), other.subrange(), need)
    }

    /// A merge of runs that no job has claimed.
    fn merge_free(
        &self,
        space: &Arc<KeyspaceState>,
        subrange: &Arc<Subrange>,
        need: Need,
    ) -> Option<RunMerge> {
        if space.damage.get().is_some() || space.dropped.load(Relaxed) {
            return None;
        }
        let view = subrange.view.load();
        // Runs that a merge or a compaction has taken are older than all others.
        let free = view.runs.iter().take_while(|run| !run.busy.is_taken());
        let entries: Vec<u64> = free.map(|run| run.entries()).collect();
        let choice = pick_runs(&entries, need)?;
        RunMerge::begin(self, space, subrange, &view, choice)
    }

    /// Flushes the memtables that are worth it if that was asked for: other stores need the memory of their indexes.
    pub(crate) fn flush_if_asked(&self) {
        let Some(share) = self.share.as_ref().filter(|share| share.take_asked()) else { return };
        for (space, subrange) in self.space.holders.now() {
            let _admin = space.admin.lock().unwrap_or_else(PoisonError::into_inner);
            let dram = subrange.view.load().active().dram_bytes();
            if subrange.write_head.bytes() > 0 && dram >= share.floor() {
                self.switch_memtable(&subrange);
            }
        }
        self.update_reserve();
        self.update_debt();
        share.answer();
    }

    /// Ends a reclaim round: switches active memtables, so that the next round reaches their dead records too. If files have
    /// no room, idle subranges give their spare zones back: the room in files that those may need counts as taken.
    pub(crate) fn end_round(&self) {
        let files_are_full = self.files_are_full();
        for (space, subrange) in self.space.holders.now() {
            let _admin = space.admin.lock().unwrap_or_else(PoisonError::into_inner);
            if subrange.write_head.bytes() > 0 {
                self.switch_memtable(&subrange);
            } else if files_are_full {
                self.give_spare_back(&subrange);
            }
            subrange.reclaimed.store(false, Relaxed);
        }
        self.update_reserve();
        self.reclaim();
        self.background.throttle.unused.store(self.space.unused_bytes(), Relaxed);
        self.background.throttle.rounds.fetch_add(1, Relaxed);
    }
}
