//! Which key numbers come: all alike, or a few of them most of the time.

use std::fmt;

use super::order::Permutation;
use super::rng::Rng;
use super::zipf::Zipf;

/// How numbers are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Draw {
    /// Each as often as any other.
    #[default]
    Uniform,
    /// By Zipf's law; the hot ones lie all over the store.
    Zipf,
    /// Some are hot, all alike, and the others are cold, all alike; the hot ones lie all over the store.
    HotSet,
}

/// How much hotter hot numbers are than others. The defaults are those of YCSB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Skew {
    /// The exponent of Zipf's law, above 0.
    pub exponent: f64,
    /// The share of numbers that are in the hot set.
    pub hot_keys: f64,
    /// The share of draws that go there.
    pub hot_reads: f64,
}

impl Default for Skew {
    fn default() -> Self {
        Skew { exponent: 0.99, hot_keys: 0.2, hot_reads: 0.8 }
    }
}

/// The permutation that says which numbers are hot: the same in each benchmark, so that what is read is what is overwritten.
const SCRAMBLE: u64 = 0x21bf;

impl Draw {
    /// All of them.
    pub const ALL: [Draw; 3] = [Draw::Uniform, Draw::Zipf, Draw::HotSet];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Draw::Uniform => "uniform",
            Draw::Zipf => "zipf",
            Draw::HotSet => "hot-set",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Draw> {
        Draw::ALL.into_iter().find(|draw| draw.name() == name)
    }
}

/// Numbers below a bound, with replacement, without end.
#[derive(Clone, Debug)]
pub struct Draws {
    rng: Rng,
    ranks: Ranks,
    places: Permutation,
}

/// Numbers before they are scattered: the hottest first.
#[derive(Clone, Debug)]
enum Ranks {
    /// None is hotter than others, so that there is nothing to scatter.
    Uniform {
        bound: u64,
    },
    Zipf {
        ranks: Zipf,
        exponent: f64,
    },
    HotSet {
        hot: u64,
        bound: u64,
        skew: Skew,
    },
}

impl Draws {
    /// Numbers below `bound`, which is not 0.
    pub fn new(draw: Draw, bound: u64, rng: Rng) -> Draws {
        Draws::skewed(draw, Skew::default(), bound, rng)
    }

    /// The same with another skew than the usual one.
    pub fn skewed(draw: Draw, skew: Skew, bound: u64, rng: Rng) -> Draws {
        let ranks = match draw {
            Draw::Uniform => Ranks::Uniform { bound },
            Draw::Zipf => {
                Ranks::Zipf { ranks: Zipf::new(skew.exponent, bound), exponent: skew.exponent }
            }
            Draw::HotSet => {
                let hot = (bound as f64 * skew.hot_keys).round() as u64;
                Ranks::HotSet { hot: hot.clamp(1, bound), bound, skew }
            }
        };
        Draws { rng, ranks, places: Permutation::new(bound, SCRAMBLE) }
    }

    /// The next number.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        let rank = match &self.ranks {
            Ranks::Uniform { bound } => return self.rng.below(*bound),
            Ranks::Zipf { ranks, .. } => ranks.draw(&mut self.rng),
            Ranks::HotSet { hot, bound, skew } => {
                let is_hot = self.rng.part() < skew.hot_reads || hot == bound;
                if is_hot { self.rng.below(*hot) } else { hot + self.rng.below(bound - hot) }
            }
        };
        self.places.at(rank)
    }
}

impl fmt::Display for Draws {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.ranks {
            Ranks::Uniform { .. } => f.write_str("uniform"),
            Ranks::Zipf { exponent, .. } => write!(f, "zipf {exponent}"),
            Ranks::HotSet { skew, .. } => {
                write!(f, "hot set, {} of draws from {} of keys", skew.hot_reads, skew.hot_keys)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWN: usize = 400_000;

    /// How often each number below `bound` came.
    fn counts(draw: Draw, skew: Skew, bound: u64) -> Vec<usize> {
        let mut draws = Draws::skewed(draw, skew, bound, Rng::new(5));
        let mut counts = vec![0; bound as usize];
        (0..DRAWN).for_each(|_| counts[draws.draw() as usize] += 1);
        counts
    }

    #[test]
    fn hot_numbers_lie_all_over_and_are_the_same_for_every_seed() {
        for (draw, hottest_few) in [(Draw::Zipf, 8), (Draw::HotSet, 100)] {
            let skew = Skew { hot_keys: 0.01, ..Skew::default() };
            let hottest = |seed| {
                let mut draws = Draws::skewed(draw, skew, 10_000, Rng::new(seed));
                let mut counts = vec![0; 10_000];
                (0..100_000).for_each(|_| counts[draws.draw() as usize] += 1);
                let mut numbers: Vec<usize> = (0..10_000).collect();
                numbers.sort_unstable_by_key(|number| std::cmp::Reverse(counts[*number]));
                numbers.truncate(hottest_few);
                numbers
            };
            let hot = hottest(1);
            match draw {
                Draw::HotSet => assert!(hottest(2).iter().all(|number| hot.contains(number))),
                _ => assert_eq!(hot[..3], hottest(2)[..3]),
            }
            let (low, high) = (hot.iter().min().unwrap(), hot.iter().max().unwrap());
            assert!(high - low > 5_000, "{hot:?}");
        }
    }

    #[test]
    fn a_hot_set_has_its_share_of_numbers_and_of_draws() {
        for (hot_keys, hot_reads) in [(0.2, 0.8), (0.01, 0.5), (0.5, 0.5), (0.1, 1.0)] {
            let skew = Skew { hot_keys, hot_reads, ..Skew::default() };
            let mut counts = counts(Draw::HotSet, skew, 1000);
            counts.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
            let hot = (1000.0 * hot_keys) as usize;
            let (first, others) = counts.split_at(hot);
            let share = first.iter().sum::<usize>() as f64 / DRAWN as f64;
            // Where hot and cold are drawn alike, sorting takes the ones that came more often for hot.
            let tolerance = if hot_keys == hot_reads { 0.03 } else { 0.004 };
            assert!((share - hot_reads).abs() < tolerance, "{hot_keys} {hot_reads}: {share}");
            for (part, whole) in [(first, hot_reads), (others, 1.0 - hot_reads)] {
                let wanted = whole * DRAWN as f64 / part.len() as f64;
                let most = 6.0 * wanted.sqrt() + 1.0;
                assert!(part.iter().all(|count| (*count as f64 - wanted).abs() < most));
            }
        }
        let all = Skew { hot_keys: 1.0, hot_reads: 0.3, ..Skew::default() };
        assert!(counts(Draw::HotSet, all, 10).iter().all(|count| *count > DRAWN / 11));
        let few = Skew { hot_keys: 1e-9, hot_reads: 0.5, ..Skew::default() };
        assert!(counts(Draw::HotSet, few, 10).iter().any(|count| *count > DRAWN * 9 / 20));
    }

    #[test]
    fn uniform_draws_come_alike() {
        let counts = counts(Draw::Uniform, Skew::default(), 100);
        assert!(counts.iter().all(|count| (3_600..4_400).contains(count)), "{counts:?}");
        assert_eq!(Draw::ALL.map(|draw| Draw::named(draw.name())), Draw::ALL.map(Some));
    }

    #[test]
    fn draws_say_what_they_are() {
        let told = |draw| Draws::new(draw, 10, Rng::new(1)).to_string();
        let wanted = ["uniform", "zipf 0.99", "hot set, 0.8 of draws from 0.2 of keys"];
        assert_eq!(Draw::ALL.map(told), wanted);
    }
}
