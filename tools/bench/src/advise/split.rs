//! Splits of a cache between DRAM and persistent memory: what each costs and how fast it is.

use super::curve::MissCurve;
use super::device::ReadTimes;

const GIB: f64 = (1_u64 << 30) as f64;
/// Sizes of each cache: halves of all data and of these, so many times, with so many steps in each half.
const HALVES: u32 = 12;
const STEPS_IN_HALF: u32 = 4;

/// What a GiB costs, in any currency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// Of DRAM.
    pub dram: f64,
    /// Of persistent memory.
    pub pm: f64,
    /// Of SSD.
    pub ssd: f64,
}

/// What is to be reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// So many reads a second, of one thread.
    Throughput(f64),
    /// A mean of so many seconds of a read.
    Latency(f64),
}

impl Goal {
    /// The longest mean that reaches it.
    pub fn seconds(self) -> f64 {
        match self {
            Goal::Throughput(rate) => 1.0 / rate,
            Goal::Latency(seconds) => seconds,
        }
    }
}

/// How much DRAM and persistent memory cache the data, which is on SSD as a whole; and what that comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CacheSplit {
    /// Bytes of DRAM.
    pub dram: f64,
    /// Bytes of persistent memory below it.
    pub pm: f64,
    /// Shares of reads that each answers; SSD the rest.
    pub dram_hits: f64,
    /// That of persistent memory.
    pub pm_hits: f64,
    /// Mean seconds of a read.
    pub seconds: f64,
    /// What all of it costs.
    pub price: f64,
}

impl CacheSplit {
    /// Reads a second of one thread.
    pub fn rate(&self) -> f64 {
        1.0 / self.seconds
    }
}

/// What splits are judged by.
pub(super) struct Judge<'c> {
    pub curve: &'c MissCurve,
    /// Bytes of all data.
    pub bytes: f64,
    pub times: ReadTimes,
    pub prices: Prices,
}

impl Judge<'_> {
    /// The lower cache has what the upper has no room for. As both replace the least recently used, they answer together what one of
    /// both sizes would.
    fn split(&self, dram: f64, pm: f64) -> CacheSplit {
        let missed = [dram, dram + pm].map(|bytes| self.curve.miss_ratio(bytes));
        let (dram_hits, pm_hits, misses) = (1.0 - missed[0], missed[0] - missed[1], missed[1]);
        let ReadTimes { dram: in_dram, pm: in_pm, ssd: in_ssd } = self.times;
        let seconds = dram_hits * in_dram + pm_hits * in_pm + misses * in_ssd;
        let Prices { dram: of_dram, pm: of_pm, ssd: of_ssd } = self.prices;
        let price = (dram * of_dram + pm * of_pm + self.bytes * of_ssd) / GIB;
        CacheSplit { dram, pm, dram_hits, pm_hits, seconds, price }
    }

    /// All splits that are tried, the cheapest first.
    pub(super) fn splits(&self) -> Vec<CacheSplit> {
        let steps = HALVES * STEPS_IN_HALF;
        let size = |step| self.bytes * (-f64::from(step) / f64::from(STEPS_IN_HALF)).exp2();
        let sizes: Vec<f64> = std::iter::once(0.0).chain((0..=steps).rev().map(size)).collect();
        let pairs = sizes.iter().flat_map(|dram| sizes.iter().map(|pm| (*dram, *pm)));
        // More than all data is no use.
        let pairs = pairs.filter(|(dram, pm)| dram + pm <= self.bytes * 1.0001);
        let mut splits: Vec<CacheSplit> = pairs.map(|(dram, pm)| self.split(dram, pm)).collect();
        splits.sort_by(|a, b| a.price.total_cmp(&b.price).then(a.seconds.total_cmp(&b.seconds)));
        splits
    }
}

/// Of splits in order of their price, those that are faster than every cheaper one.
pub(super) fn pareto_front(splits: &[CacheSplit]) -> Vec<CacheSplit> {
    let mut fastest = f64::INFINITY;
    let mut front = splits.to_vec();
    front.retain(|split| {
        let is_faster = split.seconds < fastest;
        fastest = fastest.min(split.seconds);
        is_faster
    });
    front
}

/// The best `count` splits, the best first: the cheapest that reach the goal; without one those with the least of price times time.
pub(super) fn best(splits: &[CacheSplit], goal: Option<Goal>, count: usize) -> Vec<CacheSplit> {
    let mut best = splits.to_vec();
    match goal {
        Some(goal) => best.retain(|split| split.seconds <= goal.seconds()),
        None => best.sort_by(|a, b| (a.price * a.seconds).total_cmp(&(b.price * b.seconds))),
    }
    best.truncate(count);
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: ReadTimes = ReadTimes { dram: 1e-7, pm: 4e-7, ssd: 1e-4 };
    const PRICES: Prices = Prices { dram: 8.0, pm: 2.0, ssd: 0.1 };

    /// 16 GiB: half of the reads go to 1 GiB of them, evenly, and the others to the rest.
    fn curve() -> MissCurve {
        let mut curve = MissCurve::default();
        for part in 0..1000 {
            let part = f64::from(part) / 1000.0;
            curve.add_hit((part * GIB) as u64, 1.0);
            curve.add_hit((GIB + part * 15.0 * GIB) as u64, 1.0);
        }
        curve
    }

    fn splits(prices: Prices) -> Vec<CacheSplit> {
        Judge { curve: &curve(), bytes: 16.0 * GIB, times: TIMES, prices }.splits()
    }

    #[test]
    fn shares_times_and_prices_add_up() {
        let curve = curve();
        let judge = Judge { curve: &curve, bytes: 16.0 * GIB, times: TIMES, prices: PRICES };
        let split = judge.split(GIB, 15.0 * GIB);
        assert!((split.dram_hits - 0.5).abs() < 0.01 && (split.pm_hits - 0.5).abs() < 0.01);
        assert!((split.price - (8.0 + 30.0 + 1.6)).abs() < 1e-9);
        assert!((split.seconds - 2.5e-7).abs() < 1e-8 && (split.rate() - 4e6).abs() < 2e5);
        assert_eq!(judge.split(0.0, 0.0).seconds, TIMES.ssd);
    }

    #[test]
    fn the_cheapest_that_reaches_the_goal_is_found() {
        let all = splits(PRICES);
        for goal in [Goal::Latency(5e-7), Goal::Latency(2e-5), Goal::Throughput(1e5)] {
            let best = best(&all, Some(goal), 10);
            assert!(best.iter().all(|split| split.seconds <= goal.seconds()));
            let reach = all.iter().filter(|split| split.seconds <= goal.seconds());
            let cheapest = reach.map(|split| split.price).fold(f64::INFINITY, f64::min);
            assert_eq!(best[0].price, cheapest, "{goal:?}");
            assert!(best[0].pm > best[0].dram, "PM is cheaper and nearly as fast: {goal:?}");
        }
        assert!(best(&all, Some(Goal::Latency(1e-9)), 10).is_empty());
        // Persistent memory that costs more than DRAM is not bought.
        let dear = splits(Prices { pm: 90.0, ..PRICES });
        assert_eq!(best(&dear, Some(Goal::Latency(2e-5)), 1)[0].pm, 0.0);
        assert_eq!(best(&all, None, 10).len(), 10);
    }

    #[test]
    fn the_front_has_no_split_that_another_beats() {
        let all = splits(PRICES);
        let front = pareto_front(&all);
        assert!(front.len() > 20 && front[0].price == all[0].price);
        for pair in front.windows(2) {
            assert!(pair[0].price <= pair[1].price && pair[0].seconds > pair[1].seconds);
        }
        for split in &all {
            let beaten = |of: &CacheSplit| of.price <= split.price && of.seconds <= split.seconds;
            assert!(front.iter().any(beaten));
        }
    }
}
