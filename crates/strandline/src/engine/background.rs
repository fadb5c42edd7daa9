//! The state of background work: what is under way, who does it, what went wrong, and what writers owe.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::compaction::merge::cpu::Cpu;
use crate::compaction::merge::engine::MergeEngine;
use crate::compaction::under_way::Compactions;
use crate::compaction::under_way::warm::WarmQueue;
use crate::engine::errors::LastErrors;
use crate::engine::job::Jobs;
use crate::engine::member::Member;
use crate::engine::memory_looks::MemoryLooks;
use crate::hooks::events::queue::Events;
use crate::options::Options;
use crate::throttle::Throttle;
use crate::throttle::rate::RateLimit;
use crate::ttl::Ages;

/// Looks for what holds nothing but expired values.
#[derive(Default)]
pub(crate) struct ExpiryLooks {
    pub ages: Ages,
    /// When the next one is due, in milliseconds of the store's clock.
    pub next: u64,
}

pub(crate) struct Background {
    /// The flush and the merges under way; the thread that holds the lock carries one on.
    jobs: Mutex<Jobs>,
    compactions: Mutex<Compactions>,
    /// Carries out what compactions merge.
    pub merge_engine: Box<dyn MergeEngine>,
    pub throttle: Throttle,
    /// What is known of values that have expired.
    pub expiry_looks: Mutex<ExpiryLooks>,
    pub memory_looks: MemoryLooks,
    /// What compactions may write.
    pub rate: Arc<RateLimit>,
    pub errors: LastErrors,
    /// The last job failed for want of space.
    pub out_of_space: AtomicBool,
    /// Whether the next turn begins with what the cache had before the open.
    pub warms: AtomicBool,
    /// Blocks of new tables that are yet to be put in the cache.
    pub warm: WarmQueue,
    /// Whether the next turn at the levels begins with some of these.
    pub warms_outputs: AtomicBool,
    /// Whose threads do the work.
    pub member: Member,
    /// The thread that answers other processes.
    pub answering: Mutex<Option<std::thread::JoinHandle<()>>>,
    /// Bytes of the pool that are mapped ahead; 0 if the pool was mapped whole.
    pub prefault_to: u64,
    /// Commits are carried on step by step, perhaps by the thread that would wait for them: no thread waits.
    #[cfg(feature = "steps")]
    pub stepped: AtomicBool,
}

impl Background {
    pub(crate) fn new(options: &Options, prefault_to: u64, events: &Arc<Events>) -> Background {
        Background {
            jobs: Mutex::default(),
            compactions: Mutex::default(),
            merge_engine: Box::new(Cpu),
            throttle: Throttle::new(options.memtable_bytes),
            expiry_looks: Mutex::default(),
            memory_looks: MemoryLooks::new(),
            rate: Arc::new(RateLimit::new(options.compaction_rate)),
            errors: LastErrors::new(events),
            out_of_space: AtomicBool::new(false),
            warms: AtomicBool::new(true),
            warm: WarmQueue::default(),
            warms_outputs: AtomicBool::new(true),
            member: Member::default(),
            answering: Mutex::default(),
            prefault_to,
            #[cfg(feature = "steps")]
            stepped: AtomicBool::new(false),
        }
    }

    /// Waits for the flush or merge that another thread carries on.
    pub(crate) fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The jobs, unless another thread is at one.
    pub(crate) fn try_jobs(&self) -> Option<MutexGuard<'_, Jobs>> {
        match self.jobs.try_lock() {
            Ok(jobs) => Some(jobs),
            Err(std::sync::TryLockError::Poisoned(jobs)) => Some(jobs.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn compactions(&self) -> MutexGuard<'_, Compactions> {
        self.compactions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether commits are carried on step by step, so that waiting for one would be waiting for oneself.
    pub(crate) fn is_stepped(&self) -> bool {
        #[cfg(feature = "steps")]
        return self.stepped.load(std::sync::atomic::Ordering::Relaxed);
        #[cfg(not(feature = "steps"))]
        false
    }
}
