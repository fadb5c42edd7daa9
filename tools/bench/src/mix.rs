//! What the benchmark mixgraph does, and how often.

use std::fmt;

use crate::data::draw::Draws;
use crate::data::models::{KeyRanges, Pareto, PowerLaw, TwoTermExp};
use crate::data::rng::Rng;
use crate::pace::Steps;

/// The parameters of mixgraph.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mix {
    /// That of the mix that was chosen by name, if one was.
    pub name: Option<&'static str>,
    pub ratios: Ratios,
    pub values: Pareto,
    /// The longest value.
    pub value_max: u64,
    pub scans: Pareto,
    /// Scans are shorter than this.
    pub scan_max: u64,
    /// How hot keys are, within their range if there are ranges.
    pub keys: PowerLaw,
    pub ranges: TwoTermExp,
    pub range_count: u64,
    /// Whether the rate follows the wave, and how.
    pub paced: bool,
    pub steps: Steps,
}

/// What db_bench has.
impl Default for Mix {
    fn default() -> Self {
        Mix {
            name: None,
            ratios: Ratios { get: 1.0, put: 0.0, seek: 0.0, delete: 0.0, merge: 0.0 },
            values: Pareto { theta: 0.0, k: 0.2615, sigma: 25.45 },
            value_max: 1024,
            scans: Pareto { theta: 0.0, k: 2.517, sigma: 14.236 },
            scan_max: 10_000,
            keys: PowerLaw { a: 0.0, b: 0.0 },
            ranges: TwoTermExp::NONE,
            range_count: 1,
            paced: false,
            steps: Steps::default(),
        }
    }
}

/// How many operations of each kind there are among all, in any unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ratios {
    pub get: f64,
    pub put: f64,
    pub seek: f64,
    pub delete: f64,
    pub merge: f64,
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Query {
    Get,
    Put,
    Seek,
    Delete,
    Merge,
}

impl Ratios {
    /// The kind at this part of 1. db_bench rounds each share up to a thousandth.
    fn at(self, part: f64) -> Query {
        let [get, put, seek, delete] = [self.get, self.put, self.seek, self.delete];
        let mut left = part * (get + put + seek + delete + self.merge);
        let kinds =
            [(get, Query::Get), (put, Query::Put), (seek, Query::Seek), (delete, Query::Delete)];
        for (ratio, query) in kinds {
            if left < ratio {
                return query;
            }
            left -= ratio;
        }
        Query::Merge
    }
}

impl Mix {
    /// Shortest value, as in db_bench.
    const VALUE_MIN: u64 = 10;

    /// Refuses what cannot be drawn from `num` keys.
    pub(crate) fn check(&self, num: u64) -> Result<(), String> {
        let Ratios { get, put, seek, delete, merge } = self.ratios;
        if get + put + seek + delete + merge <= 0.0 {
            return Err(
                "--mix_get_ratio: with it all ratios of the mix are 0; give one of them".into()
            );
        }
        if self.range_count > num {
            let count = self.range_count;
            return Err(format!(
                "--keyrange_num={count}: more than {num} keys; lower it or raise --num"
            ));
        }
        if self.ranges != TwoTermExp::NONE && self.key_ranges(num).is_none() {
            return Err("--keyrange_dist_a: with b, c and d it gives no range a weight, or one without an end; the \
                        weight of range x is a*exp(b*x)+c*exp(d*x)"
                .into());
        }
        Ok(())
    }

    fn key_ranges(&self, num: u64) -> Option<KeyRanges> {
        KeyRanges::new(self.ranges, self.range_count, num)
    }

    /// Bytes of a value.
    fn value_len(&self, rng: &mut Rng) -> usize {
        let len = self.values.draw(rng);
        let len = if len > self.value_max { len % self.value_max } else { len };
        len.clamp(Mix::VALUE_MIN.min(self.value_max), self.value_max) as usize
    }

    /// Entries of a scan.
    fn scan_len(&self, rng: &mut Rng) -> u64 {
        self.scans.draw(rng) % self.scan_max
    }
}

/// The operations of one thread, without end. db_bench takes key, length and kind from one random number, so that its hottest
/// keys have the longest values; here each has its own.
pub(crate) struct Queries<'m> {
    mix: &'m Mix,
    keys: MixKeys,
    num: u64,
    rng: Rng,
}

/// Where keys come from.
enum MixKeys {
    /// The mix says nothing of keys.
    Drawn(Draws),
    Law,
    Ranges(KeyRanges),
}

impl<'m> Queries<'m> {
    /// Of `num` keys; `draws` are those that keys come from if the mix does not say.
    pub(crate) fn new(mix: &'m Mix, num: u64, draws: Draws, rng: Rng) -> Queries<'m> {
        let keys = match mix.key_ranges(num) {
            Some(ranges) => MixKeys::Ranges(ranges),
            None if mix.keys.is_uniform() => MixKeys::Drawn(draws),
            None => MixKeys::Law,
        };
        Queries { mix, keys, num, rng }
    }

    /// The next one, and the number of its key.
    pub(crate) fn next(&mut self) -> (Query, u64) {
        let query = self.mix.ratios.at(self.rng.part());
        let number = match &mut self.keys {
            MixKeys::Drawn(draws) => draws.draw(),
            MixKeys::Law => self.mix.keys.draw(self.num, &mut self.rng),
            MixKeys::Ranges(ranges) => ranges.draw(self.mix.keys, &mut self.rng),
        };
        (query, number)
    }

    /// Bytes of the next value.
    pub(crate) fn value_len(&mut self) -> usize {
        self.mix.value_len(&mut self.rng)
    }

    /// Entries of the next scan.
    pub(crate) fn scan_len(&mut self) -> u64 {
        self.mix.scan_len(&mut self.rng)
    }
}

/// How keys are drawn.
impl fmt::Display for Queries<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PowerLaw { a, b } = self.mix.keys;
        if let MixKeys::Drawn(draws) = &self.keys {
            return draws.fmt(f);
        }
        if let MixKeys::Ranges(_) = self.keys {
            let TwoTermExp { a, b, c, d } = self.mix.ranges;
            write!(f, "{} ranges by {a}*exp({b}*x)+{c}*exp({d}*x), ", self.mix.range_count)?;
        }
        if self.mix.keys.is_uniform() {
            f.write_str("uniform within")
        } else {
            write!(f, "keys by {a}*x^{b}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::draw::Draw;

    const DRAWN: u32 = 200_000;

    fn queries(mix: &Mix) -> Queries<'_> {
        Queries::new(mix, 1000, Draws::new(Draw::Zipf, 1000, Rng::new(1)), Rng::new(2))
    }

    #[test]
    fn kinds_of_operations_have_their_shares() {
        // They need not add up to 1.
        let ratios = Ratios { get: 78.0, put: 13.0, seek: 3.0, delete: 6.0, merge: 0.0 };
        let mix = Mix { ratios, ..Mix::default() };
        let mut queries = queries(&mix);
        let kinds: Vec<Query> = (0..DRAWN).map(|_| queries.next().0).collect();
        for (query, share) in [
            (Query::Get, 0.78),
            (Query::Put, 0.13),
            (Query::Seek, 0.03),
            (Query::Delete, 0.06),
            (Query::Merge, 0.0),
        ] {
            let found = kinds.iter().filter(|kind| **kind == query).count() as f64;
            let wanted = share * f64::from(DRAWN);
            assert!((found - wanted).abs() <= 5.0 * wanted.sqrt(), "{query:?}: {found}");
        }
        let merges = Ratios { get: 0.0, put: 0.0, seek: 0.0, delete: 0.0, merge: 2.0 };
        assert_eq!(merges.at(0.0), Query::Merge);
    }

    #[test]
    fn lengths_keep_to_their_bounds() {
        let values = Pareto { theta: 0.0, k: 0.9, sigma: 200.0 };
        let mix = Mix { values, value_max: 300, scan_max: 50, ..Mix::default() };
        let mut queries = queries(&mix);
        let lengths: Vec<usize> = (0..DRAWN).map(|_| queries.value_len()).collect();
        assert_eq!((lengths.iter().min(), lengths.iter().max()), (Some(&10), Some(&300)));
        assert!((0..DRAWN).all(|_| queries.scan_len() < 50));
        let short = Mix { value_max: 4, ..mix.clone() };
        assert!((0..1000).all(|_| short.value_len(&mut Rng::new(1)) == 4));
    }

    #[test]
    fn keys_come_from_the_mix_and_else_as_drawn() {
        let ranges = TwoTermExp { a: 1.0, b: -1.0, c: 0.0, d: 0.0 };
        let law = PowerLaw { a: 0.1, b: 0.3 };
        let (plain, keys) = (Mix::default(), Mix { keys: law, ..Mix::default() });
        let uniform = Mix { ranges, range_count: 4, ..Mix::default() };
        let both = Mix { keys: law, ..uniform.clone() };
        for (mix, name) in [
            (plain, "zipf 0.99"),
            (keys, "keys by 0.1*x^0.3"),
            (uniform, "4 ranges by 1*exp(-1*x)+0*exp(0*x), uniform within"),
            (both, "4 ranges by 1*exp(-1*x)+0*exp(0*x), keys by 0.1*x^0.3"),
        ] {
            let mut queries = queries(&mix);
            assert_eq!(queries.to_string(), name);
            assert!((0..1000).all(|_| queries.next().1 < 1000), "{name}");
        }
    }

    #[test]
    fn what_cannot_be_drawn_is_refused() {
        let ok = Mix::default();
        assert_eq!(ok.check(1), Ok(()));
        let nothing = Ratios { get: 0.0, ..ok.ratios };
        let dense = TwoTermExp { b: 9.0, a: 1.0, ..TwoTermExp::NONE };
        for (wrong, flag) in [
            (Mix { ratios: nothing, ..ok.clone() }, "--mix_get_ratio"),
            (Mix { range_count: 11, ..ok.clone() }, "--keyrange_num=11"),
            (
                Mix { ranges: TwoTermExp { a: -1.0, ..TwoTermExp::NONE }, ..ok.clone() },
                "--keyrange_dist_a",
            ),
            (Mix { ranges: dense, range_count: 1000, ..ok.clone() }, "--keyrange_"),
        ] {
            let error = wrong.check(10).expect_err(flag);
            assert!(error.starts_with(flag) && error.contains("; "), "{error}");
        }
    }
}
