//! A hint that a cache line will be needed.

/// Asks the processor to bring the line at `address` into the cache. Any address is fine.
#[inline(always)]
pub(crate) fn line(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing as far as the program can tell and cannot fault; it belongs to
        // SSE, which every x86_64 processor has.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

/// Asks for every line of `value`.
#[inline(always)]
pub(crate) fn all<T>(value: &T) {
    let start = std::ptr::from_ref(value).cast::<u8>();
    for offset in (0..size_of::<T>()).step_by(64) {
        line(start.wrapping_add(offset));
    }
}
