//! Counters of what was made durable. Relaxed: they are read for reports, never for decisions.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Default)]
pub(crate) struct Stats {
    stored: AtomicU64,
    streamed: AtomicU64,
    flushed_lines: AtomicU64,
    fences: AtomicU64,
}

/// Counters of a region since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatsSnapshot {
    /// Bytes written with ordinary stores.
    pub bytes_stored: u64,
    /// Bytes written with non-temporal stores.
    pub bytes_streamed: u64,
    /// Lines flushed.
    pub lines_flushed: u64,
    /// Fences.
    pub fences: u64,
}

impl StatsSnapshot {
    /// Bytes that reached the media: whole lines flushed or streamed.
    pub fn media_bytes(&self) -> u64 {
        self.bytes_streamed + self.lines_flushed * 64
    }
}

impl Stats {
    #[inline]
    pub(crate) fn stored(&self, bytes: usize) {
        self.stored.fetch_add(bytes as u64, Relaxed);
    }

    #[inline]
    pub(crate) fn streamed(&self, bytes: usize) {
        self.streamed.fetch_add(bytes as u64, Relaxed);
    }

    #[inline]
    pub(crate) fn flushed(&self, lines: usize) {
        self.flushed_lines.fetch_add(lines as u64, Relaxed);
    }

    #[inline]
    pub(crate) fn fenced(&self) {
        self.fences.fetch_add(1, Relaxed);
    }

    pub(crate) fn snapshot(&self) -> StatsSnapshot {
        StatsSnapshot {
            bytes_stored: self.stored.load(Relaxed),
            bytes_streamed: self.streamed.load(Relaxed),
            lines_flushed: self.flushed_lines.load(Relaxed),
            fences: self.fences.load(Relaxed),
        }
    }
}
