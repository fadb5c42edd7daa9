//! Timing of pairs: one thing given back, another taken, again and again.

use std::hint::black_box;
use std::time::Instant;

use hdrhistogram::Histogram;

use crate::data::rng::Rng;

/// Bytes of what is taken.
pub(crate) const SIZES: [u64; 10] =
    [64, 256, 1 << 10, 4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20];
/// Nanoseconds of the pairs of one kind; a look at the clock is part of each.
#[derive(Clone, Copy)]
pub(crate) struct PairLatency {
    pub median: u64,
    pub p99: u64,
}

impl PairLatency {
    /// As `strandline reproduce` prints it.
    pub fn text(self) -> String {
        format!("{} / {}", self.median, self.p99)
    }
}

/// Times `count` pairs with `held` things held; `None` if nothing can be had. Which one is given back is left to chance.
pub(crate) fn pairs<T>(
    count: u64,
    held: u64,
    mut take: impl FnMut() -> Option<T>,
    mut give: impl FnMut(T),
) -> Option<PairLatency> {
    let mut things: Vec<T> = (0..held).map_while(|_| take()).collect();
    let mut histogram = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).ok()?;
    let mut rng = Rng::new(held);
    for _ in 0..count {
        if things.is_empty() {
            return None;
        }
        let thing = things.swap_remove(rng.below(things.len() as u64) as usize);
        let began = Instant::now();
        give(black_box(thing));
        let taken = black_box(take());
        histogram.saturating_record(began.elapsed().as_nanos() as u64);
        // What was there before is there again, if others do not take it.
        things.extend(taken);
    }
    things.into_iter().for_each(give);
    Some(PairLatency {
        median: histogram.value_at_quantile(0.5),
        p99: histogram.value_at_quantile(0.99),
    })
}

/// What a pair of nothing takes: two looks at the clock.
pub(crate) fn nothing(count: u64) -> Option<PairLatency> {
    pairs(count, 1, || Some(()), drop)
}
