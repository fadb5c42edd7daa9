//! Flushing, streaming and fencing: one portable form for now.

use crate::durability::Durability;

pub(crate) struct Flusher;

impl Flusher {
    pub(crate) fn detect(_durability: Durability) -> Self {
        Self
    }

    pub(crate) fn name(&self) -> &'static str {
        "none"
    }

    /// # Safety
    /// `at..at + len` is mapped.
    pub(crate) unsafe fn flush(&self, at: *const u8, len: usize) -> usize {
        let first = at as usize / 64;
        let last = (at as usize + len - 1) / 64;
        last - first + 1
    }

    /// # Safety
    /// Both ranges are mapped and do not overlap.
    pub(crate) unsafe fn copy_nt(&self, src: *const u8, dst: *mut u8, len: usize) {
        // SAFETY: by this function's contract.
        unsafe { std::ptr::copy_nonoverlapping(src, dst, len) }
    }

    pub(crate) fn fence(&self) {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    }
}

#[inline]
pub(crate) fn prefetch(_at: *const u8) {}
