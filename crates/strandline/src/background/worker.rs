//! Background threads: freeze, merge, compact, and map the pool ahead after an open.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use crate::engine::Engine;
use crate::path::job::Worked;

/// Entries between looks at whether the store was closed. Others may take a turn in between.
const QUANTUM: usize = 16 << 10;
/// Bytes mapped ahead at a time after an open.
const PREFAULT_STEP: u64 = 4 << 20;
/// How long the thread sleeps when there is nothing to do and nobody wakes it.
const IDLE: Duration = Duration::from_millis(200);
/// While writers wait for space, or work waits for them, look again soon.
const PRESSED: Duration = Duration::from_millis(1);

/// Starts the threads. They end when the store is closed or dropped.
pub(crate) fn start(engine: &Arc<Engine>) {
    let mut workers = engine.workers.lock().unwrap_or_else(PoisonError::into_inner);
    for number in 0..engine.options.background_threads {
        let weak = Arc::downgrade(engine);
        let name = format!("strandline-bg{number}");
        let spawned = std::thread::Builder::new().name(name).spawn(move || run(&weak, number));
        match spawned {
            Ok(thread) => workers.push(thread),
            // Writers would wait for work that nobody does.
            Err(error) => engine.poison.set(format!("no background thread: {error}")),
        }
    }
}

fn run(weak: &Weak<Engine>, number: u32) {
    // The first thread maps the pool ahead.
    let mut seen = 0;
    let mut prefaulted = if number == 0 { 0 } else { u64::MAX };
    while let Some(engine) = weak.upgrade() {
        if engine.closed.load(Ordering::Acquire) || engine.poison.is_set() {
            return;
        }
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| engine.work(QUANTUM)));
        let worked = match outcome {
            Ok(Ok(worked)) => worked,
            // The store refuses writes from now on.
            Ok(Err(_)) => return,
            Err(_) => return engine.poison.set("a background step panicked"),
        };
        let idle = worked != Worked::Did;
        if idle && prefaulted < engine.prefault_to {
            // Work comes first: a step of prefaulting only when there is none.
            let more = engine.media.region.populate(prefaulted, PREFAULT_STEP);
            prefaulted = if more { prefaulted + PREFAULT_STEP } else { engine.prefault_to };
        } else if idle {
            let pressed = engine.throttle.has_waiters();
            if pressed && matches!(worked, Worked::Idle | Worked::Short) {
                engine.end_round();
            }
            let soon = pressed || matches!(worked, Worked::Busy | Worked::Blocked);
            engine.signal.wait(&mut seen, if soon { PRESSED } else { IDLE });
        }
    }
}
