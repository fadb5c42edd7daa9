//! Background threads: flush, merge, compact, and map the pool ahead after an open.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};

use base::planted;

use crate::caught::{caught, panicked};
use crate::engine::Engine;
use crate::quantum::Worked;

/// Entries between looks at whether the store was closed. Others may take a turn in between.
const QUANTUM: usize = 16 << 10;
/// Bytes mapped ahead at a time after an open.
const PREFAULT_STEP: u64 = 4 << 20;
/// How long the thread sleeps when there is nothing to do and no thread wakes it.
const IDLE: Duration = Duration::from_millis(200);
/// While writers wait for space, or work waits for them, look again soon.
const PRESSED: Duration = Duration::from_millis(1);
/// Time until a failed job is tried again.
const RETRY: Duration = Duration::from_millis(200);

/// Starts the threads. They end when the store is closed or dropped.
pub(crate) fn start(engine: &Arc<Engine>) {
    let mut workers = engine.background.workers.lock().unwrap_or_else(PoisonError::into_inner);
    for number in 0..engine.options.background_threads {
        let weak = Arc::downgrade(engine);
        let name = format!("strandline-bg{number}");
        let heritage = planted::heritage();
        let spawned = std::thread::Builder::new().name(name).spawn(move || {
            heritage.accept();
            run(&weak, number);
        });
        match spawned {
            Ok(thread) => workers.push(thread),
            // Writers would wait for work that no thread does.
            Err(error) => engine.poison.set(format!("no background thread: {error}")),
        }
    }
}

fn run(weak: &Weak<Engine>, number: u32) {
    // The first thread maps the pool ahead.
    let mut thread = Thread { seen: 0, prefaulted: if number == 0 { 0 } else { u64::MAX } };
    while let Some(engine) = weak.upgrade() {
        engine.events.tell();
        let goes_on = caught(|| thread.turn(&engine)).unwrap_or_else(|said| {
            // A panic outside a job, which would have been given up: the state is not known.
            engine.poison.set(panicked("work", &said));
            false
        });
        if !goes_on {
            return engine.events.tell();
        }
    }
}

/// What a thread remembers from turn to turn.
struct Thread {
    /// How often it saw the signal raised.
    seen: u64,
    /// How far it has mapped the pool.
    prefaulted: u64,
}

impl Thread {
    /// Does a quantum of work, or waits if there is none; `false` once the store is closed or refuses writes.
    fn turn(&mut self, engine: &Engine) -> bool {
        if engine.lifetime.closed.load(Ordering::Acquire) || engine.poison.is_set() {
            return false;
        }
        let worked = engine.work(QUANTUM).unwrap_or_else(|_noted| {
            // The failed job is tried again, but not at once; meanwhile it frees nothing.
            self.pause(engine);
            Worked::Short
        });
        if engine.lifetime.closed.load(Ordering::Acquire) {
            // Perhaps by a listener on this thread that dropped the last handle.
            return false;
        }
        let idle = worked != Worked::Did;
        if idle && self.prefaulted < engine.background.prefault_to {
            // Work comes first: a step of prefaulting only when there is none.
            let more = engine.media.region.populate(self.prefaulted, PREFAULT_STEP);
            self.prefaulted =
                if more { self.prefaulted + PREFAULT_STEP } else { engine.background.prefault_to };
        } else if idle {
            let pressed = engine.background.throttle.has_waiters();
            if pressed && matches!(worked, Worked::Idle | Worked::Short) {
                engine.end_round();
            }
            let soon = pressed || matches!(worked, Worked::Busy | Worked::Blocked);
            engine.background.signal.wait(&mut self.seen, if soon { PRESSED } else { IDLE });
        }
        true
    }

    /// Waits until a failed job is worth another try, or the store takes no more writes.
    fn pause(&mut self, engine: &Engine) {
        let until = Instant::now() + RETRY;
        while let Some(left) = until.checked_duration_since(Instant::now())
            && engine.check_writable("work").is_ok()
        {
            engine.background.signal.wait(&mut self.seen, left);
        }
    }
}
