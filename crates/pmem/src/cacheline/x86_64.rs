//! x86-64: the best flush and the widest streaming store that the processor has.

use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count};
use std::sync::OnceLock;
use std::sync::atomic::{Ordering, compiler_fence};

use super::LINE;
use crate::durability::Durability;

/// Fenced lines reach the persistence domain on this architecture.
pub(crate) const CAN_PERSIST: bool = true;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Flush {
    /// Caches are inside the persistence domain, or nothing is durable anyway.
    None,
    /// Evicts, one line after the other.
    Clflush,
    /// Evicts, many lines at once.
    Clflushopt,
    /// Writes back and keeps the line.
    Clwb,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stream {
    /// Ordinary stores: for memory that is not durable.
    Copy,
    Sse2,
    Avx,
    Avx512,
}

#[derive(Clone, Copy)]
pub(crate) struct Flusher {
    flush: Flush,
    stream: Stream,
}

/// What the processor offers; asked once, because a virtual machine traps `cpuid`.
fn best() -> Flusher {
    static BEST: OnceLock<Flusher> = OnceLock::new();
    *BEST.get_or_init(|| {
        let features = extended_features();
        let flush = match (features >> 24 & 1, features >> 23 & 1) {
            (1, _) => Flush::Clwb,
            (_, 1) => Flush::Clflushopt,
            _ => Flush::Clflush,
        };
        // The macro also asks whether the operating system saves the wide registers.
        let stream = if is_x86_feature_detected!("avx512f") {
            Stream::Avx512
        } else if is_x86_feature_detected!("avx") {
            Stream::Avx
        } else {
            Stream::Sse2
        };
        Flusher { flush, stream }
    })
}

/// What `cpuid` tells of the flush instructions.
#[allow(unused_unsafe, reason = "newer toolchains hold the instruction to be safe")]
fn extended_features() -> u32 {
    // SAFETY: every processor of this architecture has the instruction; it touches no memory.
    unsafe { if __cpuid(0).eax >= 7 { __cpuid_count(7, 0).ebx } else { 0 } }
}

/// Runs one flush instruction on every line of a range.
macro_rules! each_line {
    ($instruction:literal, $at:expr, $len:expr) => {{
        let end = $at.addr() + $len;
        let mut line = $at.addr() & !(LINE - 1);
        while line < end {
            // SAFETY: the line holds a mapped byte (contract of `flush`), so it is mapped as a whole;
            // the instruction changes no byte. Memory counts as clobbered, so that the compiler moves
            // no store across.
            unsafe { asm!($instruction, in(reg) line, options(nostack, preserves_flags)) };
            line += LINE;
        }
    }};
}

/// Moves lines by these instructions for each of them, and ends with those of `then`. The vector registers that change are
/// declared as lost.
macro_rules! stream_lines {
    ($src:ident, $dst:ident, $lines:ident, { $($move:literal,)+ } then { $($last:literal,)* } changes { $($lost:tt)+ }) => {
        asm!(
            "2:",
            $($move,)+
            "add {src}, 64",
            "add {dst}, 64",
            "dec {lines}",
            "jnz 2b",
            $($last,)*
            src = inout(reg) $src => _,
            dst = inout(reg) $dst => _,
            lines = inout(reg) $lines => _,
            $(out($lost) _,)+
            options(nostack),
        )
    };
}

impl Flusher {
    pub(crate) fn detect(durability: Durability) -> Self {
        match durability {
            Durability::None | Durability::Synced => {
                Self { flush: Flush::None, stream: Stream::Copy }
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
            Flush::Clflush => "clflush",
            Flush::Clflushopt => "clflushopt",
            Flush::Clwb => "clwb",
        }
    }

    pub(crate) fn stream_name(&self) -> &'static str {
        match self.stream {
            Stream::Copy => "copy",
            Stream::Sse2 => "movntdq 16",
            Stream::Avx => "vmovntdq 32",
            Stream::Avx512 => "vmovntdq 64",
        }
    }

    /// # Safety
    /// `at..at + len` is mapped.
    #[inline]
    pub(crate) unsafe fn flush(&self, at: *const u8, len: usize) {
        match self.flush {
            Flush::None => {}
            Flush::Clwb => each_line!("clwb [{}]", at, len),
            Flush::Clflushopt => each_line!("clflushopt [{}]", at, len),
            Flush::Clflush => each_line!("clflush [{}]", at, len),
        }
    }

    /// # Safety
    /// `src..src + len` can be read and `dst..dst + len` written; they do not overlap. `dst` is aligned to
    /// a line and `len` is a multiple of one.
    #[inline]
    pub(crate) unsafe fn copy_nt(&self, src: *const u8, dst: *mut u8, len: usize) {
        debug_assert!((dst.addr() | len).is_multiple_of(LINE));
        if len == 0 {
            return;
        }
        let lines = len / LINE;
        match self.stream {
            // SAFETY: by this function's contract.
            Stream::Copy => unsafe { std::ptr::copy_nonoverlapping(src, dst, len) },
            // SAFETY: the loop runs `lines` times, not 0, and moves one line each time, so it stays inside
            // both ranges; the stores are aligned because `dst` is. `best` saw AVX-512F. Of the vector
            // registers only zmm16 changes, which, unlike the lower sixteen, needs no vzeroupper.
            Stream::Avx512 => unsafe {
                stream_lines!(src, dst, lines, {
                    "vmovdqu64 zmm16, [{src}]",
                    "vmovntdq [{dst}], zmm16",
                } then {} changes { "xmm16" })
            },
            // SAFETY: as above, with AVX; vzeroupper clears the upper half of all sixteen registers, so
            // all are declared as lost.
            Stream::Avx => unsafe {
                stream_lines!(src, dst, lines, {
                    "vmovdqu ymm0, [{src}]",
                    "vmovdqu ymm1, [{src} + 32]",
                    "vmovntdq [{dst}], ymm0",
                    "vmovntdq [{dst} + 32], ymm1",
                } then { "vzeroupper", } changes {
                    "xmm0" "xmm1" "xmm2" "xmm3" "xmm4" "xmm5" "xmm6" "xmm7"
                    "xmm8" "xmm9" "xmm10" "xmm11" "xmm12" "xmm13" "xmm14" "xmm15"
                })
            },
            // SAFETY: as above; SSE2 is part of x86-64.
            Stream::Sse2 => unsafe {
                stream_lines!(src, dst, lines, {
                    "movdqu xmm0, [{src}]",
                    "movdqu xmm1, [{src} + 16]",
                    "movdqu xmm2, [{src} + 32]",
                    "movdqu xmm3, [{src} + 48]",
                    "movntdq [{dst}], xmm0",
                    "movntdq [{dst} + 16], xmm1",
                    "movntdq [{dst} + 32], xmm2",
                    "movntdq [{dst} + 48], xmm3",
                } then {} changes { "xmm0" "xmm1" "xmm2" "xmm3" })
            },
        }
    }

    #[inline]
    pub(crate) fn fence(&self) {
        if self.stream == Stream::Copy {
            compiler_fence(Ordering::SeqCst);
        } else {
            // SAFETY: sfence only orders and waits.
            unsafe { asm!("sfence", options(nostack, preserves_flags)) };
        }
    }
}

/// A hint; any address is allowed.
#[inline]
pub(crate) fn prefetch(at: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch never faults and reads nothing that the program can see; SSE is part of x86-64.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
}

/// Every combination of instructions that this processor can run.
#[cfg(test)]
pub(super) fn available() -> Vec<Flusher> {
    let features = extended_features();
    let mut flushes = vec![Flush::None, Flush::Clflush];
    flushes.extend((features >> 23 & 1 == 1).then_some(Flush::Clflushopt));
    flushes.extend((features >> 24 & 1 == 1).then_some(Flush::Clwb));
    let mut streams = vec![Stream::Copy, Stream::Sse2];
    streams.extend(is_x86_feature_detected!("avx").then_some(Stream::Avx));
    streams.extend(is_x86_feature_detected!("avx512f").then_some(Stream::Avx512));
    flushes
        .into_iter()
        .flat_map(|flush| streams.iter().map(move |&stream| Flusher { flush, stream }))
        .collect()
}
