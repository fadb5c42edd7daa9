//! The atomics of the ring: the standard ones, or loom's when its model runs.

#[cfg(loom)]
pub(super) use loom::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread::yield_now,
};
#[cfg(not(loom))]
pub(super) use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread::yield_now,
};

/// Tells the processor, or the model's scheduler, that the caller waits for another thread.
#[inline]
pub(super) fn relax(spins: &mut u32) {
    *spins += 1;
    // Who is waited for may have lost its time slice; ours would be burnt.
    if cfg!(loom) || spins.is_multiple_of(64) { yield_now() } else { std::hint::spin_loop() }
}
