//! A count that many threads raise: each has a line of its own, or shares it with few.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

const STRIPES: usize = 16;

/// Alone on its lines; processors fetch two together.
#[derive(Default)]
#[repr(align(128))]
struct Stripe(AtomicU64);

#[derive(Default)]
pub(crate) struct StripedCount([Stripe; STRIPES]);

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static OWN: usize = THREADS.fetch_add(1, Relaxed) % STRIPES;
}

impl StripedCount {
    #[inline]
    pub(crate) fn add_one(&self) {
        // A thread that is ending has none of its own any more.
        let own = OWN.try_with(|own| *own).unwrap_or(0);
        self.0[own].0.fetch_add(1, Relaxed);
    }

    pub(crate) fn sum(&self) -> u64 {
        self.0.iter().map(|stripe| stripe.0.load(Relaxed)).sum()
    }
}
