//! A small seeded generator: one `u64` reproduces everything.

/// xoshiro256++, seeded by splitmix64.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

/// One step of splitmix64: a bijection that mixes well.
#[inline]
pub fn splitmix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl Rng {
    /// The generator for `seed`.
    pub fn new(seed: u64) -> Self {
        let mut x = seed;
        let mut next = || {
            x = splitmix(x);
            x
        };
        Self { state: [next(), next(), next(), next()] }
    }

    /// A generator of its own for `purpose`, so that one use does not shift another.
    pub fn fork(seed: u64, purpose: u64) -> Self {
        Self::new(splitmix(seed) ^ splitmix(purpose.wrapping_mul(0xd6e8_feb8_6659_fd93)))
    }

    /// The next 64 bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number below `bound`, which is not zero.
    #[inline]
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.bits()) * bound as u128) >> 64) as usize
    }

    /// Whether an event of one in `n` happens; never for zero.
    #[inline]
    pub fn one_in(&mut self, n: u32) -> bool {
        n != 0 && self.below(n as usize) == 0
    }

    /// Whether an event of `percent` in 100 happens.
    #[inline]
    pub fn percent(&mut self, percent: u32) -> bool {
        (self.below(100) as u32) < percent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_numbers() {
        let (mut a, mut b) = (Rng::new(7), Rng::new(7));
        assert!((0..100).all(|_| a.bits() == b.bits()));
        assert_ne!(Rng::fork(7, 1).bits(), Rng::fork(7, 2).bits());
        assert!((0..1000).all(|_| a.below(3) < 3));
    }
}
