//! [`Bell`]: wakes threads that wait for a round of the log.

#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
#[cfg(not(loom))]
pub(super) use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

/// How many of the threads that listen are woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wake {
    One,
    All,
}

/// A count of rings, and threads that wait for the next.
pub(super) struct Bell {
    rings: AtomicU32,
    /// Threads that wait, or are about to.
    listening: AtomicU32,
    #[cfg(loom)]
    sleep: (loom::sync::Mutex<()>, loom::sync::Condvar),
}

impl Bell {
    pub(super) fn new() -> Bell {
        Bell {
            rings: AtomicU32::new(0),
            listening: AtomicU32::new(0),
            #[cfg(loom)]
            sleep: (loom::sync::Mutex::new(()), loom::sync::Condvar::new()),
        }
    }

    /// To be asked for before a last look at what is waited for.
    pub(super) fn rings(&self) -> u32 {
        self.rings.load(Ordering::Acquire)
    }

    /// Waits until the bell has rung since `heard`. It may return early.
    pub(super) fn wait(&self, heard: u32) {
        // Who rings counts first and looks for listeners then: one of both sees the other.
        self.listening.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.sleep(heard);
        self.listening.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn ring(&self, wake: Wake) {
        self.rings.fetch_add(1, Ordering::Release);
        fence(Ordering::SeqCst);
        if self.listening.load(Ordering::Relaxed) > 0 {
            self.wake(wake);
        }
    }
}

#[cfg(not(loom))]
impl Bell {
    fn sleep(&self, heard: u32) {
        use rustix::thread::futex::{Flags, wait};

        // Whatever it says: the caller looks again.
        let _rung_or_interrupted = wait(&self.rings, Flags::PRIVATE, heard, None);
    }

    fn wake(&self, wake: Wake) {
        use rustix::thread::futex::{Flags, wake as wake_up};

        let count = if wake == Wake::One { 1 } else { u32::MAX >> 1 };
        let _woken = wake_up(&self.rings, Flags::PRIVATE, count);
    }
}

/// The model has no futex. Its lock is what the kernel's is: between the look at the count and the sleep no thread rings.
#[cfg(loom)]
impl Bell {
    fn sleep(&self, heard: u32) {
        let guard = self.sleep.0.lock().unwrap();
        if self.rings.load(Ordering::Acquire) == heard {
            drop(self.sleep.1.wait(guard).unwrap());
        }
    }

    fn wake(&self, wake: Wake) {
        let _guard = self.sleep.0.lock().unwrap();
        match wake {
            Wake::One => self.sleep.1.notify_one(),
            Wake::All => self.sleep.1.notify_all(),
        }
    }
}
