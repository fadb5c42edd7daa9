//! The machine's own pauses: the longest gap between two looks at the clock of a loop that does nothing else.
//!
//! No put can be promised to take less than this: while the gap lasts, the thread is not on a processor.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

/// Gaps above this are counted as pauses.
pub(crate) const PAUSE: Duration = Duration::from_micros(100);

/// What a spin loop saw.
pub(crate) struct Gaps {
    pub longest: Duration,
    /// Gaps longer than [`PAUSE`], and their sum.
    pub pauses: u64,
    pub lost: Duration,
    pub looks: u64,
    pub histogram: Option<Histogram<u64>>,
}

/// Spins for `time`.
pub(crate) fn longest_gap(time: Duration) -> Gaps {
    let histogram = Histogram::new_with_bounds(1, 1_000_000_000_000, 3).ok();
    let mut gaps =
        Gaps { longest: Duration::ZERO, pauses: 0, lost: Duration::ZERO, looks: 0, histogram };
    let began = Instant::now();
    let mut last = began;
    while last - began < time {
        let now = Instant::now();
        let gap = now - last;
        gaps.looks += 1;
        gaps.longest = gaps.longest.max(gap);
        if gap > PAUSE {
            gaps.pauses += 1;
            gaps.lost += gap;
        }
        if let Some(histogram) = &mut gaps.histogram {
            histogram.saturating_record(gap.as_nanos() as u64);
        }
        last = now;
    }
    gaps
}
