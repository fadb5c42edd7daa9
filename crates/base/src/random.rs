//! Random numbers that a seed determines. All crates, tests and tools have theirs from here.

/// What SplitMix64 counts by: the golden ratio, in 64 bits.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// A stream of random numbers, by SplitMix64: two multiplications each, so that they do not show where something else is
/// measured. Equal seeds give equal streams, on every machine.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The stream that `seed` names.
    #[inline]
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// A stream of its own for `purpose`, so that one use does not shift another.
    pub fn fork(seed: u64, purpose: u64) -> Rng {
        Rng(mix(seed.wrapping_add(STEP)) ^ mix(purpose.wrapping_mul(0xD6E8_FEB8_6659_FD93)))
    }

    /// The next number.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number below `bound`, which is not 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// A part of 1, which is never reached.
    #[inline]
    pub fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// An index into `len` things, at least one.
    #[inline]
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Whether an event of probability `n / of` happens.
    #[inline]
    pub fn chance(&mut self, n: u64, of: u64) -> bool {
        self.below(of) < n
    }

    /// Whether an event of one in `n` happens; never for 0.
    #[inline]
    pub fn one_in(&mut self, n: u32) -> bool {
        n != 0 && self.chance(1, n.into())
    }

    /// Whether an event of `percent` in 100 happens.
    #[inline]
    pub fn percent(&mut self, percent: u32) -> bool {
        self.chance(percent.into(), 100)
    }

    /// One of `items`, which are not empty.
    pub fn pick<'i, T>(&mut self, items: &'i [T]) -> &'i T {
        &items[self.index(items.len())]
    }

    /// The index of one of `weights`, as often as its weight says.
    pub fn weighted(&mut self, weights: &[u32]) -> usize {
        let total: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
        let mut at = self.below(total);
        for (i, weight) in weights.iter().enumerate() {
            match at.checked_sub(u64::from(*weight)) {
                Some(rest) => at = rest,
                None => return i,
            }
        }
        0
    }

    /// So many random bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        std::iter::repeat_with(|| self.next() as u8).take(len).collect()
    }
}

/// A fixed random-looking number for each number, and another one for each: the last step of SplitMix64.
#[inline]
pub fn mix(number: u64) -> u64 {
    let mut x = number;
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the published generator for seed 1234567.
    #[test]
    fn it_is_splitmix64() {
        let mut rng = Rng::new(1_234_567);
        let wanted = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(wanted.map(|_| rng.next()), wanted);
    }

    #[test]
    fn numbers_keep_to_their_bounds_and_reach_them() {
        let mut rng = Rng::new(7);
        let mut seen = [0; 5];
        (0..1000).for_each(|_| seen[rng.index(5)] += 1);
        assert!(seen.iter().all(|times| (150..250).contains(times)), "{seen:?}");
        assert!(!rng.one_in(0) && rng.one_in(1) && rng.percent(100) && !rng.percent(0));
        assert!((0..100).all(|_| rng.weighted(&[0, 3, 0]) == 1));
        assert_eq!(rng.bytes(9).len(), 9);
    }

    #[test]
    fn parts_are_spread_evenly_below_1() {
        let mut rng = Rng::new(7);
        let parts: Vec<f64> = (0..10_000).map(|_| rng.part()).collect();
        assert!(parts.iter().all(|part| (0.0..1.0).contains(part)));
        let mean = parts.iter().sum::<f64>() / parts.len() as f64;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
    }

    #[test]
    fn purposes_have_streams_of_their_own() {
        let first = |seed, purpose| Rng::fork(seed, purpose).next();
        assert_eq!(first(7, 1), first(7, 1));
        assert_ne!(first(7, 1), first(7, 2));
        assert_ne!(first(7, 1), first(8, 1));
        assert_ne!(first(0, 0), first(0, 1));
    }
}
