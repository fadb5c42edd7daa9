//! Background work in bounded quanta, so that the background thread and writers in debt can share it.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use base::{ErrorKind, Result};

use super::freeze::FreezeJob;
use super::merge::MergeJob;
use crate::engine::Engine;
use crate::keyspace::Space;
use crate::level0::pick::{Need, pick_runs};

/// The work under way.
pub(crate) enum Job {
    Freeze(FreezeJob),
    Merge(MergeJob),
}

impl Job {
    /// The keyspace whose runs are being merged, if any are.
    fn merging(&self) -> Option<Arc<Space>> {
        match self {
            Job::Freeze(_) => None,
            Job::Merge(merge) => Some(merge.space()),
        }
    }

    pub(crate) fn step(&mut self, engine: &Engine, quantum: usize) -> Result<Progress> {
        match self {
            Job::Freeze(freeze) => freeze.step(engine, quantum),
            Job::Merge(merge) => merge.step(engine, quantum),
        }
    }
}

/// Whether a job wants more quanta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    More,
    /// Must wait for commits that are still on their way.
    Blocked,
    Done,
}

/// What a call for background work came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worked {
    /// Something was done; there may be more.
    Did,
    /// There is nothing to do.
    Idle,
    /// Somebody else is at it.
    Busy,
    /// Commits that are on their way must finish first.
    Blocked,
    /// The work needs space that is not there now.
    Short,
}

impl Engine {
    /// Does up to `quantum` entries of background work.
    pub(crate) fn work(&self, quantum: usize) -> Result<Worked> {
        if self.read_only {
            return Ok(Worked::Idle);
        }
        let Ok(mut slot) = self.job.try_lock() else { return Ok(Worked::Busy) };
        if slot.is_none() {
            *slot = self.choose();
        }
        let (progress, merging) = match slot.as_mut() {
            None => {
                self.throttle.asked.store(false, Relaxed);
                return Ok(Worked::Idle);
            }
            Some(job) => (job.step(self, quantum), job.merging()),
        };
        match progress {
            Ok(Progress::More) => {
                self.update_debt();
                return Ok(Worked::Did);
            }
            Ok(Progress::Blocked) => return Ok(Worked::Blocked),
            Ok(Progress::Done) | Err(_) => *slot = None,
        }
        drop(slot);
        self.bury();
        self.update_reserve();
        self.update_debt();
        match progress {
            Err(error) if error.kind() == ErrorKind::NoSpace => {
                // What could not be frozen may fit once a merge has freed space.
                self.short.store(true, Relaxed);
                Ok(Worked::Short)
            }
            Err(error) if error.kind() == ErrorKind::Corruption && merging.is_some() => {
                // Reads go on, and writes too as long as there is space.
                merging.iter().for_each(|space| space.unmergeable.store(true, Relaxed));
                let _first_wins = self.damage_met.set(error.to_string());
                Ok(Worked::Did)
            }
            Err(error) => {
                self.poison.set(&error);
                Err(error)
            }
            Ok(_) => {
                self.short.store(false, Relaxed);
                Ok(Worked::Did)
            }
        }
    }

    /// The most urgent work: the oldest frozen memtable, else a merge if one is worth it.
    fn choose(&self) -> Option<Job> {
        if self.short.load(Relaxed) {
            self.choose_merge().or_else(|| self.choose_freeze())
        } else {
            self.choose_freeze().or_else(|| self.choose_merge())
        }
    }

    fn choose_freeze(&self) -> Option<Job> {
        self.spaces().iter().find_map(|space| {
            let view = space.view.load();
            view.oldest_frozen().map(|memtable| Job::Freeze(FreezeJob::new(space, memtable)))
        })
    }

    fn choose_merge(&self) -> Option<Job> {
        for space in self.spaces() {
            if space.unmergeable.load(Relaxed) {
                continue;
            }
            let view = space.view.load();
            let entries: Vec<u64> = view.runs.iter().map(|run| run.entries()).collect();
            let need =
                Need { debt: self.throttle.urgency(), reclaimed: space.reclaimed.load(Relaxed) };
            if let Some(choice) = pick_runs(&entries, need) {
                return Some(Job::Merge(MergeJob::new(self, &space, &view, choice)));
            }
        }
        None
    }

    /// Ends a reclaim round: freezes what is active, so that the next round reaches its dead records too.
    pub(crate) fn end_round(&self) {
        for space in self.spaces() {
            let _admin = space.admin.lock().unwrap_or_else(PoisonError::into_inner);
            if space.front.bytes() > 0 {
                self.rotate(&space);
            }
            space.reclaimed.store(false, Relaxed);
        }
        self.bury();
        self.throttle.unused.store(self.unused_bytes(), Relaxed);
        self.throttle.rounds.fetch_add(1, Relaxed);
    }
}
