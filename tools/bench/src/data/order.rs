//! Orders in which key numbers come.

use super::draw::{Draw, Draws};
use super::rng::{Rng, mix};

/// Yields key numbers below a bound, without end.
#[derive(Clone, Debug)]
pub enum Order {
    /// 0, 1, 2 and so on, then 0 again.
    Sequential {
        /// Numbers are below this.
        bound: u64,
        /// The next one.
        next: u64,
    },
    /// Any, with replacement.
    Drawn(Draws),
    /// Each once, in random order, then the same again; with a `share`, only those of one of several.
    Permuted {
        /// The order of all.
        permutation: Permutation,
        /// Place in the share that is next.
        next: u64,
        /// Whose they are.
        share: Share,
    },
}

/// One of `of` equal shares.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Which one.
    pub no: u64,
    /// How many there are.
    pub of: u64,
}

impl Share {
    /// Everything.
    pub const ALL: Share = Share { no: 0, of: 1 };

    /// How many of `0..bound` are in the share: every `of`th, from `no` on.
    pub fn len(self, bound: u64) -> u64 {
        bound.saturating_sub(self.no).div_ceil(self.of)
    }
}

impl Order {
    /// See [`Order::Sequential`].
    pub fn sequential(bound: u64) -> Order {
        Order::Sequential { bound: bound.max(1), next: 0 }
    }

    /// Any, all as often, as db_bench draws them.
    pub fn random(bound: u64, seed: u64) -> Order {
        Order::Drawn(Draws::new(Draw::Uniform, bound.max(1), Rng::new(seed)))
    }

    /// See [`Order::Permuted`].
    pub fn permuted(bound: u64, seed: u64) -> Order {
        Order::shared_out(bound, seed, Share::ALL)
    }

    /// A share of one permutation: the shares of a seed have nothing in common, and all keys between them.
    pub fn shared_out(bound: u64, seed: u64, share: Share) -> Order {
        let permutation = Permutation::new(bound.max(1), seed);
        Order::Permuted { permutation, next: 0, share }
    }

    /// The next number.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        match self {
            Order::Sequential { bound, next } => advance(next, *bound),
            Order::Drawn(draws) => draws.draw(),
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
pub struct Permutation {
    bound: u64,
    half: u32,
    keys: [u64; 4],
}

impl Permutation {
    /// The permutation of `0..bound` that `seed` names; `bound` is not 0.
    pub fn new(bound: u64, seed: u64) -> Permutation {
        let bits = u64::BITS - (bound - 1).leading_zeros();
        let mut rng = Rng::new(seed);
        Permutation { bound, half: bits.div_ceil(2).max(1), keys: [(); 4].map(|()| rng.next()) }
    }

    /// The number at `place`, which is below the bound.
    #[inline]
    pub fn at(&self, place: u64) -> u64 {
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
