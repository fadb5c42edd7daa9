//! aarch64: clean to the point of persistence where the processor has one, else to the point of coherency.

use std::arch::{asm, is_aarch64_feature_detected};
use std::sync::atomic::{Ordering, compiler_fence};

use super::LINE;
use crate::durability::Durability;

/// Fenced lines reach the persistence domain on this architecture.
pub(crate) const CAN_PERSIST: bool = true;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Flush {
    /// Caches are inside the persistence domain, or nothing is durable anyway.
    None,
    /// To the point of coherency, which memory that matters lies behind.
    Cvac,
    /// To the point of persistence.
    Cvap,
}

#[derive(Clone, Copy)]
pub(crate) struct Flusher {
    flush: Flush,
    /// Bytes from one flush to the next: a line of this project, or of the processor if that is shorter.
    step: usize,
    volatile: bool,
}

/// The shortest line of any data cache, in bytes.
fn shortest_line() -> usize {
    let ctr: u64;
    // SAFETY: reads the cache type register, which Linux lets user space do.
    unsafe { asm!("mrs {}, ctr_el0", out(reg) ctr, options(nomem, nostack, preserves_flags)) };
    4 << (ctr >> 16 & 0xF)
}

fn best() -> Flusher {
    let flush = if is_aarch64_feature_detected!("dpb") { Flush::Cvap } else { Flush::Cvac };
    Flusher { flush, step: shortest_line().min(LINE), volatile: false }
}

/// Runs one flush instruction on every line of a range.
macro_rules! each_line {
    ($instruction:literal, $step:expr, $at:expr, $len:expr) => {{
        let end = $at.addr() + $len;
        let mut line = $at.addr() & !($step - 1);
        while line < end {
            // SAFETY: the line holds a mapped byte (contract of `flush`), so it is mapped as a whole;
            // the instruction changes no byte. Memory counts as clobbered, so that the compiler moves
            // no store across.
            unsafe { asm!($instruction, in(reg) line, options(nostack, preserves_flags)) };
            line += $step;
        }
    }};
}

impl Flusher {
    pub(crate) fn detect(durability: Durability) -> Self {
        match durability {
            Durability::None | Durability::Synced => {
                Self { flush: Flush::None, step: LINE, volatile: true }
            }
            // A process crash needs no flush either, but such memory stands in for persistent memory, and
            // is to cost what that costs.
            Durability::ProcessCrash | Durability::PowerFailAdr => best(),
            Durability::PowerFailEadr => Self { flush: Flush::None, ..best() },
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self.flush {
            Flush::None => "none",
            Flush::Cvac => "dc cvac",
            Flush::Cvap => "dc cvap",
        }
    }

    pub(crate) fn stream_name(&self) -> &'static str {
        "copy"
    }

    /// # Safety
    /// `at..at + len` is mapped.
    #[inline]
    pub(crate) unsafe fn flush(&self, at: *const u8, len: usize) {
        match self.flush {
            Flush::None => {}
            // `dc cvap`, spelled so that an assembler for plain ARMv8.0 takes it.
            Flush::Cvap => each_line!("sys #3, c7, c12, #1, {}", self.step, at, len),
            Flush::Cvac => each_line!("dc cvac, {}", self.step, at, len),
        }
    }

    /// # Safety
    /// `src..src + len` can be read and `dst..dst + len` written; they do not overlap. `dst` is aligned to
    /// a line and `len` is a multiple of one.
    #[inline]
    pub(crate) unsafe fn copy_nt(&self, src: *const u8, dst: *mut u8, len: usize) {
        debug_assert!((dst.addr() | len).is_multiple_of(LINE));
        // SAFETY: by this function's contract; `dst` is mapped because it was just written.
        unsafe {
            std::ptr::copy_nonoverlapping(src, dst, len);
            self.flush(dst.cast_const(), len);
        }
    }

    #[inline]
    pub(crate) fn fence(&self) {
        if self.volatile {
            compiler_fence(Ordering::SeqCst);
        } else {
            // SAFETY: a barrier that waits for the flushes before it; only a dsb does.
            unsafe { asm!("dsb osh", options(nostack, preserves_flags)) };
        }
    }
}

/// A hint; any address is allowed.
#[inline]
pub(crate) fn prefetch(at: *const u8) {
    // SAFETY: a prefetch never faults and reads nothing that the program can see.
    unsafe {
        asm!("prfm pldl1keep, [{}]", in(reg) at, options(nostack, preserves_flags, readonly))
    };
}

/// Every combination of instructions that this processor can run.
#[cfg(test)]
pub(super) fn available() -> Vec<Flusher> {
    let mut all =
        vec![Flusher::detect(Durability::None), Flusher::detect(Durability::PowerFailEadr)];
    all.push(Flusher { flush: Flush::Cvac, ..best() });
    all.extend((best().flush == Flush::Cvap).then(best));
    all
}
