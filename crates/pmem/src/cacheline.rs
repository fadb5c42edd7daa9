//! Flushing, streaming and fencing lines, in one form per architecture.
//!
//! Every back end has the same [`Flusher`]: `detect` picks the instructions once, when a region is opened,
//! and the methods match on that small choice inline. Contract of all of them:
//!
//! - `flush` acts on every line that holds one of the bytes; `len` is not 0.
//! - `copy_nt` moves whole lines to a line-aligned destination; the source may have any alignment. Nothing
//!   is left in need of a flush.
//! - After `fence` returns, what this thread flushed or streamed before is in the persistence domain.
//! - On the heap none of that means anything: `flush` does nothing, `copy_nt` is a plain copy.
//!
//! | architecture | flush | stream | fence |
//! |---|---|---|---|
//! | x86-64 | clwb, else clflushopt, else clflush | vmovntdq of 64, else 32 bytes, else movntdq | sfence |
//! | aarch64 | dc cvap, else dc cvac | stores and flushes | dsb osh |
//! | others, miri | none | stores | sequentially consistent |

#[cfg(all(target_arch = "aarch64", not(miri)))]
mod aarch64;
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod portable;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86_64;

#[cfg(all(target_arch = "aarch64", not(miri)))]
use aarch64 as arch;
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
use portable as arch;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use x86_64 as arch;

pub(crate) use arch::{CAN_PERSIST, Flusher, prefetch};

/// Bytes in a line, the unit of flushing.
pub(crate) const LINE: usize = 64;

/// How many lines hold a byte of `at..at + len`; `len` is not 0.
#[inline]
pub(crate) fn lines(at: u64, len: usize) -> u64 {
    let line = LINE as u64;
    (at + len as u64 - 1) / line - at / line + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_at_edges() {
        for (at, len, expected) in [
            (0, 1, 1),
            (0, 64, 1),
            (0, 65, 2),
            (63, 1, 1),
            (63, 2, 2),
            (1, 64, 2),
            (64, 128, 2),
            (60, 72, 3),
        ] {
            assert_eq!(lines(at, len), expected, "{len} bytes at {at}");
        }
    }

    #[repr(align(64))]
    struct Lines([u8; 64 * 40]);

    /// Every instruction that this processor has gives the same bytes.
    #[test]
    fn every_available_instruction_copies_and_flushes() {
        let source: Vec<u8> = (0..64 * 40 + 64).map(|i| (i * 7 + i / 256) as u8).collect();
        for flusher in arch::available() {
            for shift in [0, 1, 31, 63] {
                for count in [1, 2, 3, 16, 40] {
                    let mut target = Box::new(Lines([0xEE; 64 * 40]));
                    let len = count * LINE;
                    // SAFETY: both ranges are inside their allocations, `target` is line-aligned, and the
                    // two do not overlap.
                    unsafe {
                        flusher.copy_nt(source.as_ptr().add(shift), target.0.as_mut_ptr(), len);
                        flusher.flush(target.0.as_ptr().add(shift), len - shift);
                    }
                    flusher.fence();
                    let name = (flusher.name(), flusher.stream_name());
                    assert_eq!(target.0[..len], source[shift..shift + len], "{name:?}");
                    assert!(target.0[len..].iter().all(|&b| b == 0xEE), "{name:?} ran over");
                }
            }
        }
    }

    #[test]
    fn heap_needs_no_instruction() {
        let flusher = Flusher::detect(crate::Durability::None);
        assert_eq!((flusher.name(), flusher.stream_name()), ("none", "copy"));
    }
}
