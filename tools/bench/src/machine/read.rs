//! How fast the machine reads the memory of a pool: every line once, and nothing done with it.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use crate::words::told;
use pmem::{OpenMode, PoolFile, Prefault};

/// Bytes that a thread reads in one place before it leaps over those of the others.
const PIECE: u64 = 4 << 20;

/// Bytes per second.
pub(crate) struct Read {
    /// Of the first pass, which maps the pages that it meets, as an open does.
    pub first: f64,
    /// Of the second, whose pages are mapped.
    pub mapped: f64,
}

/// Two passes over the first `len` bytes of the pool at `path`, which no process has open, with so many threads.
pub(crate) fn measure(path: &Path, len: u64, threads: u64) -> Result<Read, String> {
    let file = PoolFile::open(path, OpenMode::ReadOnly);
    let region = file.and_then(|file| file.map(Prefault::Lazy)).map_err(told)?;
    let pieces = len.min(region.len()) / PIECE;
    let read = |first: u64| {
        for piece in (first..pieces).step_by(threads as usize) {
            let bytes = region.bytes(piece * PIECE, PIECE as usize);
            let words = bytes.as_chunks::<8>().0;
            black_box(words.iter().fold(0, |sum, word| sum ^ u64::from_le_bytes(*word)));
        }
    };
    let pass = || {
        let began = Instant::now();
        std::thread::scope(|scope| {
            (0..threads).for_each(|first| _ = scope.spawn(move || read(first)));
        });
        (pieces * PIECE) as f64 / began.elapsed().as_secs_f64().max(1e-9)
    };
    Ok(Read { first: pass(), mapped: pass() })
}
