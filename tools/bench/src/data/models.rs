//! The models of db_bench's mixgraph, from Cao, Dong, Vemuri and Du, "Characterizing, Modeling, and Benchmarking RocksDB
//! Key-Value Workloads at Facebook", FAST 2020, as `tools/db_bench_tool.cc` of RocksDB takes their parameters.

use super::order::Permutation;
use super::rng::{Rng, mix};

/// Lengths by the generalized Pareto distribution: of values, and of scans.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pareto {
    pub theta: f64,
    pub k: f64,
    pub sigma: f64,
}

impl Pareto {
    /// A length, rounded up.
    pub(crate) fn draw(self, rng: &mut Rng) -> u64 {
        // Above 0, where the distribution has no end.
        let part = 1.0 - rng.part();
        let beyond = if self.k == 0.0 { -part.ln() } else { (part.powf(-self.k) - 1.0) / self.k };
        (self.theta + self.sigma * beyond).ceil() as u64
    }
}

/// Which keys are hot: `a * x^b` is the share of accesses that go to the `x` hottest. Uniform if either is 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PowerLaw {
    pub a: f64,
    pub b: f64,
}

impl PowerLaw {
    pub(crate) fn is_uniform(self) -> bool {
        self.a == 0.0 || self.b == 0.0
    }

    /// A number below `bound`. Ranks are scattered by a hash, as in db_bench: the law need not end at the last key.
    pub(crate) fn draw(self, bound: u64, rng: &mut Rng) -> u64 {
        if self.is_uniform() {
            return rng.below(bound);
        }
        Rng::new(mix(self.rank(rng.part()))).below(bound)
    }

    /// The rank up to which accesses have this share, the hottest being 1.
    fn rank(self, share: f64) -> u64 {
        ((share / self.a).powf(1.0 / self.b).ceil() as u64).max(1)
    }
}

/// How hot ranges of keys are: the `x`th hottest has a weight of `a * exp(b * x) + c * exp(d * x)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TwoTermExp {
    pub a: f64,
    pub b: f64,
    pub c: f64,
    pub d: f64,
}

impl TwoTermExp {
    /// All parameters are 0: there are no ranges.
    pub(crate) const NONE: TwoTermExp = TwoTermExp { a: 0.0, b: 0.0, c: 0.0, d: 0.0 };
    /// What is less is taken for none, as in db_bench.
    const LEAST: f64 = 1e-16;

    fn weight(self, x: u64) -> f64 {
        let x = x as f64;
        let weight = self.a * (self.b * x).exp() + self.c * (self.d * x).exp();
        if weight < TwoTermExp::LEAST { 0.0 } else { weight }
    }
}

/// Ranges of keys, all as long, some hotter than others. Hot ones lie anywhere, the same for each seed.
#[derive(Clone, Debug)]
pub(crate) struct KeyRanges {
    /// The sum of weights up to the end of each range.
    ends: Vec<f64>,
    /// Keys in each.
    len: u64,
}

impl KeyRanges {
    /// The permutation that says which ranges are hot.
    const SCATTER: u64 = 0x7e57;

    /// `count` ranges below `bound`, which is not less; none if there is no weight, or one without an end.
    pub(crate) fn new(hotness: TwoTermExp, count: u64, bound: u64) -> Option<KeyRanges> {
        let ranks = Permutation::new(count, KeyRanges::SCATTER);
        let mut sum = 0.0;
        let ends = (0..count).map(|range| {
            sum += hotness.weight(ranks.at(range) + 1);
            sum
        });
        let ends: Vec<f64> = ends.collect();
        (sum > 0.0 && sum.is_finite()).then(|| KeyRanges { ends, len: bound / count })
    }

    /// A number; within its range by `law`.
    pub(crate) fn draw(&self, law: PowerLaw, rng: &mut Rng) -> u64 {
        let at = rng.part() * self.ends.last().copied().unwrap_or_default();
        let range = self.ends.partition_point(|end| *end <= at) as u64;
        range * self.len + law.draw(self.len, rng)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWN: usize = 400_000;
    /// What RocksDB's wiki gives for ZippyDB.
    const ZIPPY_KEYS: PowerLaw = PowerLaw { a: 0.002312, b: 0.3467 };
    const ZIPPY_RANGES: TwoTermExp = TwoTermExp { a: 14.18, b: -2.917, c: 0.0164, d: -0.08082 };

    #[test]
    fn lengths_have_the_mean_and_the_tail_of_their_distribution() {
        for (theta, k, sigma) in [(0.0, 0.2615, 25.45), (10.0, 0.0819, 1.747), (0.0, 0.0, 30.0)] {
            let (pareto, mut rng) = (Pareto { theta, k, sigma }, Rng::new(3));
            let lengths: Vec<u64> = (0..DRAWN).map(|_| pareto.draw(&mut rng)).collect();
            let mean = lengths.iter().sum::<u64>() as f64 / DRAWN as f64;
            // To round up adds a half, less where most lengths are near 0.
            let wanted = theta + sigma / (1.0 - k) + 0.5;
            assert!((mean - wanted).abs() < 0.01 * wanted, "{k} {sigma}: {mean}, {wanted}");
            for length in [20, 50, 100, 200] {
                let over = lengths.iter().filter(|drawn| **drawn > length).count() as f64;
                let scaled = (length as f64 - theta) / sigma;
                let share =
                    if k == 0.0 { (-scaled).exp() } else { (1.0 + k * scaled).powf(-1.0 / k) };
                let wanted = share * DRAWN as f64;
                assert!((over - wanted).abs() < 5.0 * wanted.sqrt() + 1.0, "{k} {length}: {over}");
            }
        }
        let (same, mut rng) = (Pareto { theta: 48.0, k: 0.3, sigma: 0.0 }, Rng::new(3));
        assert!((0..1000).all(|_| same.draw(&mut rng) == 48));
    }

    #[test]
    fn the_hottest_keys_have_the_share_that_the_power_law_gives_them() {
        let mut rng = Rng::new(4);
        let mut ranks: Vec<u64> = (0..DRAWN).map(|_| ZIPPY_KEYS.rank(rng.part())).collect();
        ranks.sort_unstable();
        for hottest in [1_u64, 10, 1000, 100_000, 10_000_000] {
            let found = ranks.partition_point(|rank| *rank <= hottest) as f64;
            let wanted = ZIPPY_KEYS.a * (hottest as f64).powf(ZIPPY_KEYS.b) * DRAWN as f64;
            assert!((found - wanted).abs() < 5.0 * wanted.sqrt(), "{hottest}: {found}, {wanted}");
        }
        let mut drawn = (0..DRAWN).map(|_| ZIPPY_KEYS.draw(1000, &mut rng));
        assert!(drawn.all(|number| number < 1000));
        let uniform = PowerLaw { a: 0.0, ..ZIPPY_KEYS };
        let mean = (0..DRAWN).map(|_| uniform.draw(1000, &mut rng)).sum::<u64>() / DRAWN as u64;
        assert!((495..505).contains(&mean), "{mean}");
    }

    #[test]
    fn ranges_are_as_hot_as_the_formula_says() {
        let (count, bound) = (30, 3_010);
        let ranges = KeyRanges::new(ZIPPY_RANGES, count, bound).expect("weights");
        for law in [ZIPPY_KEYS, PowerLaw { a: 0.0, b: 0.0 }] {
            let (mut counts, mut rng) = (vec![0.0; count as usize], Rng::new(6));
            (0..DRAWN).for_each(|_| counts[ranges.draw(law, &mut rng) as usize / 100] += 1.0);
            let is_sorted = counts.is_sorted_by(|one, next| one >= next);
            assert!(!is_sorted, "hot ranges lie anywhere");
            let sum: f64 = (1..=count).map(|x| ZIPPY_RANGES.weight(x)).sum();
            let wanted = (1..=count).map(|x| ZIPPY_RANGES.weight(x) / sum * DRAWN as f64);
            counts.sort_unstable_by(|one, other| f64::total_cmp(other, one));
            for (found, wanted) in counts.iter().zip(wanted) {
                assert!((found - wanted).abs() < 5.0 * wanted.sqrt(), "{found}, {wanted}");
            }
        }
    }

    #[test]
    fn ranges_without_a_weight_are_none() {
        assert!(KeyRanges::new(TwoTermExp::NONE, 3, 30).is_none());
        assert!(KeyRanges::new(TwoTermExp { b: 1.0, ..ZIPPY_RANGES }, 2000, 2000).is_none());
        assert!(KeyRanges::new(TwoTermExp { a: -1.0, ..TwoTermExp::NONE }, 3, 30).is_none());
    }
}
