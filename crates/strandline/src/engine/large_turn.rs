//! Large commits take turns: one at a time has zones, memory and the cut of its keyspaces to itself.
//!
//! One that waits for locks lends its turn to a transaction that has locks, which may be those. It has taken all that it needs by then,
//! and a transaction that has locks waits for none.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::planted::{self, Bug};

use crate::engine::Engine;
use crate::keyspace::KeyspaceState;
use crate::keyspace::write_head::Permit;

/// What became of large commits since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LargeCommitFigures {
    /// Those that are visible.
    pub committed: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// Zones that they took.
    pub zones: u64,
}

/// Whose turn it is.
#[derive(Default)]
pub(crate) struct LargeTurns {
    now: Mutex<TurnsNow>,
    /// DRAM that the indexes on their way may take.
    dram: AtomicU64,
    committed: AtomicU64,
    bytes: AtomicU64,
    zones: AtomicU64,
}

#[derive(Default)]
struct TurnsNow {
    is_taken: bool,
    /// Who has the turn waits for locks.
    is_to_lend: bool,
    is_lent: bool,
    /// Keyspaces whose subranges stay as they are meanwhile.
    uncut: Vec<u32>,
}

impl LargeTurns {
    fn now(&self) -> MutexGuard<'_, TurnsNow> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the subranges of a keyspace must stay as they are. The caller holds its `admin`.
    pub(crate) fn keep_uncut(&self, keyspace: u32) -> bool {
        self.now().uncut.contains(&keyspace) && !planted::is(Bug::CutBesideStaged)
    }

    /// DRAM that indexes which no View has yet may take.
    pub(crate) fn dram(&self) -> u64 {
        self.dram.load(Ordering::Relaxed)
    }

    pub(crate) fn figures(&self) -> LargeCommitFigures {
        LargeCommitFigures {
            committed: self.committed.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            zones: self.zones.load(Ordering::Relaxed),
        }
    }
}

/// A large commit's turn, which ends with it.
pub(crate) struct LargeTurn<'e> {
    engine: &'e Engine,
    is_borrowed: bool,
    is_visible: bool,
    spaces: Vec<Arc<KeyspaceState>>,
    /// What it has reserved.
    dram: u64,
    run_bytes: u64,
}

impl Engine {
    /// Takes the turn of a commit with this permit, unless another large commit has it.
    pub(crate) fn try_large_turn(&self, permit: Permit) -> Option<LargeTurn<'_>> {
        let mut now = self.large.now();
        let is_free = !now.is_taken && !now.is_lent;
        let is_borrowed = !is_free;
        if is_free {
            now.is_taken = true;
        } else if now.is_to_lend && !now.is_lent && permit == Permit::Given {
            now.is_lent = true;
        } else {
            return None;
        }
        let (is_visible, spaces) = (false, Vec::new());
        Some(LargeTurn { engine: self, is_borrowed, is_visible, spaces, dram: 0, run_bytes: 0 })
    }
}

impl<'e> LargeTurn<'e> {
    pub(crate) fn engine(&self) -> &'e Engine {
        self.engine
    }

    /// It waits for locks from now on, and takes nothing more.
    pub(crate) fn lend(&self) {
        debug_assert!(!self.is_borrowed);
        self.engine.large.now().is_to_lend = true;
    }

    /// It goes on. Who has borrowed it goes on, too.
    pub(crate) fn take_back(&self) {
        self.engine.large.now().is_to_lend = false;
    }

    /// Keeps the subranges of `spaces` as they are. A cut that had begun is done then.
    pub(crate) fn keep_uncut(&mut self, spaces: Vec<Arc<KeyspaceState>>) {
        for space in &spaces {
            let _admin = space.admin.lock().unwrap_or_else(PoisonError::into_inner);
            self.engine.large.now().uncut.push(space.id);
        }
        self.spaces = spaces;
    }

    /// Reserves DRAM for the indexes, and room for the runs that they become, instead of what it had.
    pub(crate) fn reserve(&mut self, dram: u64, run_bytes: u64) {
        let change = |sum: &AtomicU64, had: &mut u64, has: u64| {
            sum.fetch_add(has, Ordering::Relaxed);
            sum.fetch_sub(std::mem::replace(had, has), Ordering::Relaxed);
        };
        change(&self.engine.large.dram, &mut self.dram, dram);
        change(&self.engine.space.staged_runs, &mut self.run_bytes, run_bytes);
        self.engine.update_reserve();
    }

    /// Notes that it is visible, and what it took.
    pub(crate) fn note(&mut self, bytes: u64, zones: usize) {
        self.is_visible = true;
        let large = &self.engine.large;
        large.committed.fetch_add(1, Ordering::Relaxed);
        large.bytes.fetch_add(bytes, Ordering::Relaxed);
        large.zones.fetch_add(zones as u64, Ordering::Relaxed);
    }
}

impl Drop for LargeTurn<'_> {
    fn drop(&mut self) {
        if !self.is_visible {
            // The zones that it took.
            self.engine.reclaim();
        }
        self.reserve(0, 0);
        let mut now = self.engine.large.now();
        for space in &self.spaces {
            if let Some(at) = now.uncut.iter().position(|id| *id == space.id) {
                now.uncut.swap_remove(at);
            }
            // What was put off may be due.
            space.split_or_join_due.store(true, Ordering::Relaxed);
        }
        if self.is_borrowed {
            now.is_lent = false;
        } else {
            (now.is_taken, now.is_to_lend) = (false, false);
        }
    }
}
