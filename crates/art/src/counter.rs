//! A counter that threads seldom share.

use std::sync::atomic::{AtomicUsize, Ordering};

const SHARDS: usize = 8;

#[derive(Default)]
#[repr(align(64))]
struct Shard(AtomicUsize);

/// Counts events of many threads, each on the cache line of its shard.
#[derive(Default)]
pub(crate) struct Counter {
    shards: [Shard; SHARDS],
}

thread_local! {
    static SHARD: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS
    };
}

impl Counter {
    #[inline]
    pub(crate) fn add(&self) {
        let shard = SHARD.try_with(|shard| *shard).unwrap_or(0);
        self.shards[shard].0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn sum(&self) -> usize {
        self.shards.iter().map(|shard| shard.0.load(Ordering::Relaxed)).sum()
    }
}
