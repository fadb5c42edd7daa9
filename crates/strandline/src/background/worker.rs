//! The turns of a store in a pool of threads: flush, merge, compact, and map the pool ahead after an open.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, TryLockError, Weak};
use std::time::Duration;

use base::Result;

use crate::caught::{caught, panicked};
use crate::engine::Engine;
use crate::quantum::Worked;
use crate::runtime::{InTurns, NextTurn, Runtime, SyncPlaces, ThreadPool};

/// Entries between looks at whether the store was closed. Others may take a turn in between.
const QUANTUM: usize = 16 << 10;
/// Bytes mapped ahead at a time after an open.
const PREFAULT_STEP: u64 = 4 << 20;
/// While writers wait for space, or work waits for them, look again soon.
const PRESSED: Duration = Duration::from_millis(1);
/// Time until a failed job is tried again.
const RETRY: Duration = Duration::from_millis(200);
/// Time until a store without work is looked at that has threads of its own, or where something is due.
const IDLE: Duration = Duration::from_millis(200);
/// The same of a store that shares threads, while an iterator or a reader of it may hold what is to be removed.
const READERS_LEAVE: Duration = Duration::from_secs(3);

/// Gives the store to the threads of `runtime`, or to threads of its own, until it is closed or dropped.
///
/// # Errors
/// `Io` if the system gives no threads.
pub(crate) fn start(engine: &Arc<Engine>, runtime: Option<&Runtime>) -> Result<()> {
    let pool = match runtime {
        Some(runtime) => Arc::clone(&runtime.threads),
        None => Arc::new(ThreadPool::start(engine.options().background_threads)?),
    };
    let waker = engine.background.member.join(&pool, Arc::new(Worker::new(engine, &pool)));
    engine.share.iter().for_each(|share| share.wake_by(waker.clone()));
    if let Some(journal) = engine.media.region.journal() {
        journal.wake_by(Box::new(move || waker.wake()));
    }
    Ok(())
}

/// A store as the pool of threads sees it.
struct Worker {
    engine: Weak<Engine>,
    sync_places: Arc<SyncPlaces>,
    /// How far the pool has been mapped.
    prefaulted: Mutex<u64>,
}

impl InTurns for Worker {
    fn turn(&self) -> NextTurn {
        let Some(engine) = self.engine.upgrade() else { return NextTurn::Never };
        engine.events.tell();
        let mut next = caught(|| self.turn_of(&engine)).unwrap_or_else(|said| {
            // A panic outside a job, which would have been given up: the state is not known.
            engine.poison.set(panicked("work", &said));
            NextTurn::Never
        });
        let due = self.see_to_log(&engine);
        next = due.map_or(next, |due| next.or_within(due));
        if next == NextTurn::Never {
            if engine.check_open("work").is_ok() {
                // It is poisoned. Others are not to wait for what it would give back.
                engine.update_debt();
                if engine.syncs_wal_in_time() {
                    // What was acknowledged is synced all the same, and writes under way may yet be.
                    next = due.map_or(NextTurn::WhenWoken, NextTurn::Within);
                }
            }
            engine.events.tell();
        }
        next
    }
}

impl Worker {
    fn new(engine: &Arc<Engine>, pool: &ThreadPool) -> Worker {
        Worker {
            engine: Arc::downgrade(engine),
            sync_places: Arc::clone(&pool.sync_places),
            prefaulted: Mutex::new(0),
        }
    }

    /// Syncs the log if that is due, and does what writers need next, if the pool has a thread for it; tells when it is to be
    /// looked at again.
    fn see_to_log(&self, engine: &Engine) -> Option<Duration> {
        let due = engine.wal_sync_due_in();
        if due.is_none() {
            engine.look_at_log();
        }
        if due != Some(Duration::ZERO) && !engine.has_wal_upkeep() {
            return due;
        }
        let waker = engine.background.member.waker()?;
        let Some(_place) = self.sync_places.take(&waker) else { return Some(IDLE) };
        engine.keep_up_wal();
        engine.sync_wal_if_due()
    }

    /// Does a quantum of work, if there is any; nothing more once the store is closed or refuses writes.
    fn turn_of(&self, engine: &Engine) -> NextTurn {
        if engine.lifetime.closed.load(Ordering::Acquire) || engine.poison.is_set() {
            return NextTurn::Never;
        }
        engine.flush_if_asked();
        let worked = engine.work(QUANTUM);
        // Perhaps by a listener on this thread that dropped the last handle.
        if engine.lifetime.closed.load(Ordering::Acquire) {
            return NextTurn::Never;
        }
        // Work comes first: a step of prefaulting only when there is none.
        if matches!(worked, Ok(Worked::Did)) || worked.is_ok() && self.prefault(engine) {
            return NextTurn::Now;
        }
        let pressed = engine.background.throttle.has_waiters();
        if pressed && matches!(worked, Ok(Worked::Idle | Worked::Short) | Err(_)) {
            engine.end_round();
        }
        match worked {
            // The failed job is tried again, but not at once; meanwhile it frees nothing.
            Err(_noted) => NextTurn::NotBefore(RETRY),
            Ok(Worked::Busy) => NextTurn::Within(engine.owed_rate().unwrap_or(PRESSED)),
            Ok(Worked::Blocked) => NextTurn::Within(PRESSED),
            Ok(_) if pressed => NextTurn::Within(PRESSED),
            // Space may come that no thread tells of.
            Ok(Worked::Short) => NextTurn::Within(IDLE),
            Ok(Worked::Did | Worked::Idle) => {
                engine.next_look().map_or(NextTurn::WhenWoken, NextTurn::Within)
            }
        }
    }

    /// Maps a part of the pool ahead; tells whether it did.
    fn prefault(&self, engine: &Engine) -> bool {
        let end = engine.background.prefault_to;
        if end == 0 {
            return false;
        }
        let mut at = match self.prefaulted.try_lock() {
            Ok(at) => at,
            Err(TryLockError::Poisoned(at)) => at.into_inner(),
            // Another thread is at it.
            Err(TryLockError::WouldBlock) => return false,
        };
        if *at >= end {
            return false;
        }
        let more = engine.media.region.populate(*at, PREFAULT_STEP);
        *at = if more { *at + PREFAULT_STEP } else { end };
        true
    }
}

impl Engine {
    /// In which time a store without work is to be looked at although no thread wakes it, if at all. Of stores that share threads
    /// there are thousands: they are looked at where something comes by itself.
    fn next_look(&self) -> Option<Duration> {
        if self.share.is_none() {
            return Some(IDLE);
        }
        // What was written since the last turn counts.
        self.update_debt();
        // Tables whose readers leave are removed, and what has expired goes.
        let tables_go = self.tables.as_ref().is_some_and(|tables| tables.has_dead());
        let held = tables_go || !self.lifetime.usage.holds.is_zero();
        let held = held.then_some(READERS_LEAVE);
        // A writer waited for space in this turn, and does no more.
        let warm = self.background.warm.are_some().then_some(IDLE);
        let looks = held.into_iter().chain(warm);
        let looks = looks.chain(self.next_look_for_expired()).chain(self.next_give_back());
        looks.min().map(|wait| wait.max(IDLE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::RuntimeOptions;
    use crate::{Db, KeyspaceOptions, Options, PmSource};

    #[test]
    fn an_idle_store_is_looked_at_if_something_comes_by_itself() {
        let options = Options::default().pm(PmSource::Heap).pm_size(4 << 20);
        let runtime = Runtime::new(RuntimeOptions::default()).expect("a runtime");
        let shares = runtime.open("unused", options.clone()).expect("open");
        let look = |db: &Db| {
            // Whatever its threads are at ends.
            while !db.work(1000).expect("work").is_idle() {}
            db.engine().next_look()
        };
        shares.put("key", "value").expect("put");
        assert_eq!(look(&shares), None);
        let iter = shares.iter();
        assert_eq!(look(&shares), Some(READERS_LEAVE));
        drop(iter);
        assert_eq!(look(&shares), None);
        let expiring = KeyspaceOptions::default().ttl(Duration::from_secs(80));
        let expiring = shares.create_keyspace_with("expiring", expiring).expect("create");
        expiring.put("key", "value").expect("put");
        let next = look(&shares).expect("a look");
        assert!(next >= IDLE && next <= Duration::from_secs(10), "{next:?}");
        let own = Db::open("unused", options).expect("open");
        assert_eq!(look(&own), Some(IDLE));
    }
}
