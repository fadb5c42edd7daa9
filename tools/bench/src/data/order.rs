//! Orders in which key numbers come.

use super::rng::{Rng, mix};

/// Yields key numbers below a bound, without end.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    /// 0, 1, 2 and so on, then 0 again.
    Sequential { bound: u64, next: u64 },
    /// Any, with replacement, as db_bench draws them.
    Random { bound: u64, rng: Rng },
    /// Each once, in random order, then the same again; with a `share`, only those of one of several.
    Permuted { permutation: Permutation, next: u64, share: Share },
}

/// One of `of` equal shares.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub no: u64,
    pub of: u64,
}

impl Share {
    pub(crate) const ALL: Share = Share { no: 0, of: 1 };

    /// How many of `0..bound` are in the share: every `of`th, from `no` on.
    pub(crate) fn len(self, bound: u64) -> u64 {
        bound.saturating_sub(self.no).div_ceil(self.of)
    }
}

impl Order {
    pub(crate) fn sequential(bound: u64) -> Order {
        Order::Sequential { bound: bound.max(1), next: 0 }
    }

    pub(crate) fn random(bound: u64, seed: u64) -> Order {
        Order::Random { bound: bound.max(1), rng: Rng::new(seed) }
    }

    pub(crate) fn permuted(bound: u64, seed: u64) -> Order {
        Order::shared_out(bound, seed, Share::ALL)
    }

    /// A share of one permutation: the shares of a seed have nothing in common, and all keys between them.
    pub(crate) fn shared_out(bound: u64, seed: u64, share: Share) -> Order {
        let permutation = Permutation::new(bound.max(1), seed);
        Order::Permuted { permutation, next: 0, share }
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        match self {
            Order::Sequential { bound, next } => advance(next, *bound),
            Order::Random { bound, rng } => rng.below(*bound),
            Order::Permuted { permutation, next, share } => {
                let turn = advance(next, share.len(permutation.bound).max(1));
                permutation.at((share.no + turn * share.of) % permutation.bound)
            }
        }
    }
}

#[inline]
fn advance(next: &mut u64, bound: u64) -> u64 {
    let number = *next;
    *next = if number + 1 == bound { 0 } else { number + 1 };
    number
}

/// A random permutation of `0..bound` that needs no memory: a Feistel network over the next even number of
/// bits, walked until it lands below the bound (fewer than four steps on average).
#[derive(Clone, Debug)]
pub(crate) struct Permutation {
    bound: u64,
    half: u32,
    keys: [u64; 4],
}

impl Permutation {
    pub(crate) fn new(bound: u64, seed: u64) -> Permutation {
        let bits = u64::BITS - (bound - 1).leading_zeros();
        let mut rng = Rng::new(seed);
        Permutation { bound, half: bits.div_ceil(2).max(1), keys: [(); 4].map(|()| rng.next()) }
    }

    #[inline]
    pub(crate) fn at(&self, place: u64) -> u64 {
        let mut number = place;
        loop {
            number = self.shuffle(number);
            if number < self.bound {
                return number;
            }
        }
    }

    #[inline]
    fn shuffle(&self, number: u64) -> u64 {
        let mask = (1 << self.half) - 1;
        let (mut left, mut right) = (number >> self.half, number & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix(right ^ key) & mask));
        }
        left << self.half | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_yields_each_number_once() {
        for bound in [1, 2, 3, 64, 1000, 4097] {
            let mut order = Order::permuted(bound, 7);
            let mut seen: Vec<u64> = (0..bound).map(|_| order.next()).collect();
            assert!(bound < 64 || seen.windows(2).any(|pair| pair[0] > pair[1]), "{bound}");
            seen.sort_unstable();
            assert!(seen.iter().copied().eq(0..bound), "{bound}");
        }
    }

    #[test]
    fn shares_of_a_permutation_make_the_whole() {
        for (bound, of) in [(10, 3), (64, 2), (1000, 7)] {
            let mut seen = Vec::new();
            for no in 0..of {
                let share = Share { no, of };
                let mut order = Order::shared_out(bound, 7, share);
                seen.extend((0..share.len(bound)).map(|_| order.next()));
            }
            seen.sort_unstable();
            assert!(seen.iter().copied().eq(0..bound), "{bound} in {of}");
        }
    }

    #[test]
    fn orders_stay_below_their_bound() {
        let mut random = Order::random(10, 1);
        assert!((0..1000).all(|_| random.next() < 10));
        let mut sequential = Order::sequential(3);
        assert_eq!([(); 5].map(|()| sequential.next()), [0, 1, 2, 0, 1]);
    }
}
