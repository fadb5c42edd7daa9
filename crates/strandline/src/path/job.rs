//! Background work in bounded quanta, so that the background thread and writers in debt can share it.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

use base::Result;

use super::freeze::FreezeJob;
use super::merge::MergeJob;
use crate::engine::Engine;
use crate::level0::pick::{Need, pick_runs};

/// The work under way.
pub(crate) enum Job {
    Freeze(FreezeJob),
    Merge(MergeJob),
}

/// Whether a job wants more quanta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    More,
    /// Must wait for commits that are still on their way.
    Blocked,
    Done,
}

impl Engine {
    /// Does up to `quantum` entries of background work. Returns `true` when there is nothing to do, or
    /// somebody else is doing it.
    pub(crate) fn work(&self, quantum: usize) -> Result<bool> {
        let Ok(mut slot) = self.job.try_lock() else { return Ok(true) };
        if slot.is_none() {
            *slot = self.choose()?;
        }
        let progress = match slot.as_mut() {
            None => return Ok(true),
            Some(Job::Freeze(freeze)) => freeze.step(self, quantum),
            Some(Job::Merge(merge)) => merge.step(self, quantum),
        };
        match progress {
            Ok(Progress::More) => Ok(false),
            Ok(Progress::Blocked) => Ok(true),
            Ok(Progress::Done) => {
                *slot = None;
                drop(slot);
                self.bury();
                self.update_reserve();
                self.update_debt();
                Ok(false)
            }
            Err(error) => {
                *slot = None;
                Err(error)
            }
        }
    }

    /// The most urgent work: the oldest frozen memtable, else a merge if one is worth it.
    fn choose(&self) -> Result<Option<Job>> {
        let spaces = self.spaces();
        for space in &spaces {
            if let Some(memtable) = space.view.load().oldest_frozen() {
                return Ok(Some(Job::Freeze(FreezeJob::new(self, space, memtable))));
            }
        }
        for space in &spaces {
            let view = space.view.load();
            let entries: Vec<u64> = view.runs.iter().map(|run| run.entries()).collect();
            let need =
                Need { space: self.throttle.debt() > 0, reclaimed: space.reclaimed.load(Relaxed) };
            if let Some(choice) = pick_runs(&entries, need) {
                return Ok(Some(Job::Merge(MergeJob::new(self, space, &view, choice)?)));
            }
        }
        Ok(None)
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
        self.throttle.rounds.fetch_add(1, Relaxed);
    }
}
