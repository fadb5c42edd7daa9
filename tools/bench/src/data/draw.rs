//! Which key numbers come: all alike, or a few of them most of the time.

use super::order::Permutation;
use super::rng::Rng;

/// How numbers are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Draw {
    /// Each as often as any other.
    #[default]
    Uniform,
    /// By Zipf's law with an exponent of 0.99, as YCSB does; the hot ones lie all over the store.
    Zipf,
}

/// The exponent of YCSB.
const THETA: f64 = 0.99;
/// The permutation that says which numbers are hot: the same in each benchmark, so that what is read is what is overwritten.
const SCRAMBLE: u64 = 0x21bf;

impl Draw {
    /// All of them.
    pub const ALL: [Draw; 2] = [Draw::Uniform, Draw::Zipf];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Draw::Uniform => "uniform",
            Draw::Zipf => "zipf",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Draw> {
        Draw::ALL.into_iter().find(|draw| draw.name() == name)
    }
}

/// Numbers below a bound, with replacement, without end.
#[derive(Debug)]
pub struct Draws {
    rng: Rng,
    bound: u64,
    skew: Option<Skew>,
}

#[derive(Debug)]
struct Skew {
    ranks: Zipf,
    places: Permutation,
}

impl Draws {
    /// Numbers below `bound`, which is not 0.
    pub fn new(draw: Draw, bound: u64, rng: Rng) -> Draws {
        let skew = || Skew { ranks: Zipf::new(bound), places: Permutation::new(bound, SCRAMBLE) };
        Draws { rng, bound, skew: (draw == Draw::Zipf).then(skew) }
    }

    /// The next number.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        match &self.skew {
            None => self.rng.below(self.bound),
            Some(skew) => skew.places.at(skew.ranks.draw(&mut self.rng)),
        }
    }
}

/// Ranks by Zipf's law, the most frequent first. By inverting the integral of the law and rejecting what lies above it
/// (Hörmann and Derflinger, 1996): exact, and with nothing to sum up before, however many ranks there are.
#[derive(Debug)]
struct Zipf {
    bound: u64,
    /// The integral at the first rank and behind the last.
    ends: [f64; 2],
    /// What is so near to its rank needs no look at the law.
    near: f64,
}

impl Zipf {
    fn new(bound: u64) -> Zipf {
        let ends = [integral(1.5) - 1.0, integral(bound as f64 + 0.5)];
        Zipf { bound, ends, near: 2.0 - inverse(integral(2.5) - law(2.0)) }
    }

    /// A rank below the bound.
    fn draw(&self, rng: &mut Rng) -> u64 {
        let [first, last] = self.ends;
        loop {
            let part = (rng.next() >> 11) as f64 / (1_u64 << 53) as f64;
            let area = last + part * (first - last);
            let place = inverse(area);
            let rank = (place + 0.5).floor().clamp(1.0, self.bound as f64);
            if rank - place <= self.near || area >= integral(rank + 0.5) - law(rank) {
                return rank as u64 - 1;
            }
        }
    }
}

/// How often a rank comes, not divided by the sum of all.
fn law(rank: f64) -> f64 {
    (-THETA * rank.ln()).exp()
}

/// Of the law, from 1.
fn integral(rank: f64) -> f64 {
    ((1.0 - THETA) * rank.ln()).exp_m1() / (1.0 - THETA)
}

/// The rank up to which the integral is `area`.
fn inverse(area: f64) -> f64 {
    ((area * (1.0 - THETA)).max(-1.0).ln_1p() / (1.0 - THETA)).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWN: usize = 400_000;

    /// How often each number below `bound` came.
    fn counts(draw: Draw, bound: u64) -> Vec<usize> {
        let (mut draws, mut counts) =
            (Draws::new(draw, bound, Rng::new(5)), vec![0; bound as usize]);
        (0..DRAWN).for_each(|_| counts[draws.draw() as usize] += 1);
        counts
    }

    #[test]
    fn zipf_draws_each_rank_as_often_as_its_law_says() {
        for bound in [1, 2, 3, 1000] {
            let sum: f64 = (1..=bound).map(|rank| law(rank as f64)).sum();
            let mut counts = counts(Draw::Zipf, bound);
            counts.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
            for rank in [1, 2, 3, 10, 100].into_iter().filter(|rank| *rank <= bound) {
                let wanted = law(rank as f64) / sum * DRAWN as f64;
                let found = counts[rank as usize - 1] as f64;
                // Some four standard deviations, and those of the neighbours that sorting exchanges.
                assert!(
                    (found - wanted).abs() < 6.0 * wanted.sqrt() + 1.0,
                    "{bound} {rank} {found} {wanted}"
                );
            }
        }
    }

    #[test]
    fn hot_numbers_lie_all_over_and_are_the_same_for_every_seed() {
        let hottest = |seed| {
            let mut draws = Draws::new(Draw::Zipf, 10_000, Rng::new(seed));
            let mut counts = vec![0; 10_000];
            (0..100_000).for_each(|_| counts[draws.draw() as usize] += 1);
            let mut numbers: Vec<usize> = (0..10_000).collect();
            numbers.sort_unstable_by_key(|number| std::cmp::Reverse(counts[*number]));
            numbers.truncate(8);
            numbers
        };
        let hot = hottest(1);
        assert_eq!(hot[..3], hottest(2)[..3]);
        let (low, high) = (hot.iter().min().unwrap(), hot.iter().max().unwrap());
        assert!(high - low > 5_000, "{hot:?}");
    }

    #[test]
    fn uniform_draws_come_alike() {
        let counts = counts(Draw::Uniform, 100);
        assert!(counts.iter().all(|count| (3_600..4_400).contains(count)), "{counts:?}");
        assert_eq!(Draw::ALL.map(|draw| Draw::named(draw.name())), Draw::ALL.map(Some));
    }
}
