//! The synchronisation primitives of the tree: the standard ones, or loom's when its model runs.

#[cfg(loom)]
pub(crate) use loom::{
    sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering},
    thread::yield_now,
};
#[cfg(not(loom))]
pub(crate) use std::{
    sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering},
    thread::yield_now,
};

/// Lets loom check that plain fields are written before, and only before, they are shared. Elsewhere it is
/// nothing: the fields next to it are initialised in place and never written again.
pub(crate) struct Sealed {
    #[cfg(loom)]
    cell: loom::cell::UnsafeCell<()>,
}

#[cfg(loom)]
// SAFETY: the cell holds nothing; loom itself reports accesses that are not ordered.
unsafe impl Sync for Sealed {}

impl Sealed {
    /// Marks the write of the plain fields.
    pub(crate) fn new() -> Self {
        #[cfg(loom)]
        {
            let cell = loom::cell::UnsafeCell::new(());
            cell.with_mut(|_| ());
            Self { cell }
        }
        #[cfg(not(loom))]
        Self {}
    }

    /// Marks a read of the plain fields.
    #[inline(always)]
    pub(crate) fn read(&self) {
        #[cfg(loom)]
        self.cell.with(|_| ());
    }
}

/// Tells the processor, or the model's scheduler, that the caller waits for another thread.
pub(crate) fn relax(turn: &mut u32) {
    *turn += 1;
    if cfg!(loom) || *turn > 64 {
        yield_now();
    } else {
        std::hint::spin_loop();
    }
}
