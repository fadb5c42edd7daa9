//! No instruction known: enough for heap memory, for surviving a process crash, and for miri.

use std::sync::atomic::{Ordering, fence};

use super::LINE;
use crate::durability::Durability;

/// Without a flush instruction nothing may be promised beyond the process.
pub(crate) const CAN_PERSIST: bool = false;

#[derive(Clone, Copy)]
pub(crate) struct Flusher;

impl Flusher {
    pub(crate) fn detect(_durability: Durability) -> Self {
        Self
    }

    pub(crate) fn name(&self) -> &'static str {
        "none"
    }

    pub(crate) fn stream_name(&self) -> &'static str {
        "copy"
    }

    /// # Safety
    /// `at..at + len` is mapped.
    #[inline]
    pub(crate) unsafe fn flush(&self, _at: *const u8, _len: usize) {}

    /// # Safety
    /// `src..src + len` can be read and `dst..dst + len` written; they do not overlap. `dst` is aligned to
    /// a line and `len` is a multiple of one.
    #[inline]
    pub(crate) unsafe fn copy_nt(&self, src: *const u8, dst: *mut u8, len: usize) {
        debug_assert!((dst.addr() | len).is_multiple_of(LINE));
        // SAFETY: by this function's contract.
        unsafe { std::ptr::copy_nonoverlapping(src, dst, len) }
    }

    #[inline]
    pub(crate) fn fence(&self) {
        fence(Ordering::SeqCst);
    }
}

/// A hint; any address is allowed.
#[inline]
pub(crate) fn prefetch(_at: *const u8) {}

/// Every combination of instructions that this processor can run.
#[cfg(test)]
pub(super) fn available() -> Vec<Flusher> {
    vec![Flusher]
}
