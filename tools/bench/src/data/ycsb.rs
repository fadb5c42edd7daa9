//! How YCSB chooses records: Cooper, Silberstein, Tam, Ramakrishnan and Sears, "Benchmarking Cloud Serving Systems with
//! YCSB", SoCC 2010. Names are those of its source.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::rng::Rng;
use super::zipf::Zipf;

/// Which records are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestDistribution {
    /// By Zipf's law; the hot ones lie all over the store.
    Zipfian,
    /// By Zipf's law, the newest most of all.
    Latest,
    /// Each as often as any other.
    Uniform,
}

impl RequestDistribution {
    pub(crate) const ALL: [RequestDistribution; 3] =
        [RequestDistribution::Zipfian, RequestDistribution::Latest, RequestDistribution::Uniform];

    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            RequestDistribution::Zipfian => "zipfian",
            RequestDistribution::Latest => "latest",
            RequestDistribution::Uniform => "uniform",
        }
    }

    /// The one of this name.
    pub(crate) fn named(name: &str) -> Option<RequestDistribution> {
        RequestDistribution::ALL.into_iter().find(|distribution| distribution.name() == name)
    }
}

/// FNV-1a of the eight bytes of a number, without its sign: what YCSB makes keys of, and scatters hot records by.
#[inline]
pub(crate) fn fnv_hash64(number: u64) -> u64 {
    let octets = number.to_le_bytes();
    let hash = octets.iter().fold(0xCBF2_9CE4_8422_2325, |hash: u64, octet| {
        (hash ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01B3)
    });
    hash.cast_signed().unsigned_abs()
}

/// Items that YCSB's zipfian generator draws from, whatever the number of records, before it hashes them.
const ITEM_COUNT: u64 = 10_000_000_000;

/// Chooses records, without end.
pub(crate) struct KeyChooser {
    rng: Rng,
    ranks: RankChooser,
    constant: f64,
}

/// YCSB draws ranks by the approximation of Gray et al. (SIGMOD 1994); here they follow the law exactly.
enum RankChooser {
    /// Each rank is hashed to one of the records there will be, so that hot ones stay hot while others are inserted.
    ScrambledZipfian {
        ranks: Zipf,
        records: u64,
    },
    SkewedLatest {
        ranks: Zipf,
    },
    Uniform,
}

impl KeyChooser {
    /// Chooses among `records`, which is not 0: those that are there, and those that are expected.
    pub(crate) fn new(
        distribution: RequestDistribution,
        constant: f64,
        records: u64,
        rng: Rng,
    ) -> KeyChooser {
        let ranks = match distribution {
            RequestDistribution::Zipfian => {
                RankChooser::ScrambledZipfian { ranks: Zipf::new(constant, ITEM_COUNT), records }
            }
            RequestDistribution::Latest => {
                RankChooser::SkewedLatest { ranks: Zipf::new(constant, records) }
            }
            RequestDistribution::Uniform => RankChooser::Uniform,
        };
        KeyChooser { rng, ranks, constant }
    }

    /// A record below `there`, which is not 0. One that is not there yet is drawn again.
    #[inline]
    pub(crate) fn next(&mut self, there: u64) -> u64 {
        loop {
            let record = match &self.ranks {
                RankChooser::ScrambledZipfian { ranks, records } => {
                    fnv_hash64(ranks.draw(&mut self.rng)) % records
                }
                RankChooser::SkewedLatest { ranks } => {
                    (there - 1).wrapping_sub(ranks.draw(&mut self.rng))
                }
                RankChooser::Uniform => self.rng.below(there),
            };
            if record < there {
                return record;
            }
        }
    }
}

impl fmt::Display for KeyChooser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ranks {
            RankChooser::ScrambledZipfian { .. } => write!(f, "zipfian {}", self.constant),
            RankChooser::SkewedLatest { .. } => write!(f, "latest {}", self.constant),
            RankChooser::Uniform => f.write_str("uniform"),
        }
    }
}

/// Numbers records as they are inserted, and knows below which number all are there, so that no thread reads one that
/// another has still to put.
#[derive(Debug)]
pub struct AcknowledgedCounter {
    next: AtomicU64,
    acknowledged: AtomicU64,
    /// Those that are there while a lower one is not.
    early: Mutex<BTreeSet<u64>>,
}

impl AcknowledgedCounter {
    /// All records below `records` are there.
    pub fn new(records: u64) -> AcknowledgedCounter {
        AcknowledgedCounter {
            next: AtomicU64::new(records),
            acknowledged: AtomicU64::new(records),
            early: Mutex::default(),
        }
    }

    /// The number of a record that is to be inserted.
    pub fn next(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Says that record `number` is there.
    pub fn acknowledge(&self, number: u64) {
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        early.insert(number);
        let mut records = self.records();
        while early.first() == Some(&records) {
            early.pop_first();
            records += 1;
        }
        self.acknowledged.store(records, Ordering::Release);
    }

    /// Records that are there: all numbers below.
    #[inline]
    pub fn records(&self) -> u64 {
        self.acknowledged.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWN: usize = 400_000;
    const RECORDS: u64 = 10_000;

    fn chooser(distribution: RequestDistribution, records: u64) -> KeyChooser {
        KeyChooser::new(distribution, 0.99, records, Rng::new(5))
    }

    /// What part of all draws each record has, of [`RECORDS`] that are there.
    fn shares(distribution: RequestDistribution, records: u64) -> Vec<f64> {
        let mut chooser = chooser(distribution, records);
        let mut shares = vec![0.0; RECORDS as usize];
        (0..DRAWN).for_each(|_| shares[chooser.next(RECORDS) as usize] += 1.0 / DRAWN as f64);
        shares
    }

    #[test]
    fn hashes_are_those_of_ycsb() {
        // The first keys that it loads.
        let first =
            [6_284_781_860_667_377_211, 8_517_097_267_634_966_620, 1_820_151_046_732_198_393];
        assert_eq!([0, 1, 2].map(fnv_hash64), first);
    }

    #[test]
    fn hot_records_of_zipfian_lie_where_their_hash_says() {
        let shares = shares(RequestDistribution::Zipfian, RECORDS);
        // 26.469 is the sum of the law over all items, as YCSB has it, too. Others are hashed there by chance.
        for (rank, share) in [(0, 1.0 / 26.469), (1, 0.5_f64.powf(0.99) / 26.469)] {
            let found = shares[(fnv_hash64(rank) % RECORDS) as usize];
            assert!((found - share).abs() < 0.001, "{rank}: {found}, not {share}");
        }
        let (low, high) = shares.split_at(RECORDS as usize / 2);
        for half in [low, high] {
            let sum = half.iter().sum::<f64>();
            assert!((0.4..0.6).contains(&sum), "{sum} in a half: hot records lie together");
        }
    }

    #[test]
    fn latest_favours_the_newest() {
        // The same whether more records are expected or not: what is not there is drawn again.
        for records in [RECORDS, RECORDS + 1000] {
            let shares = shares(RequestDistribution::Latest, records);
            let sum: f64 = (1..=RECORDS).map(|rank| (rank as f64).powf(-0.99)).sum();
            let at = |rank: usize| shares[RECORDS as usize - rank];
            assert!((at(1) - 1.0 / sum).abs() < 0.003, "{}", at(1));
            assert!((at(2) - 0.5_f64.powf(0.99) / sum).abs() < 0.003, "{}", at(2));
            let newest: f64 = shares[RECORDS as usize * 9 / 10..].iter().sum();
            assert!(newest > 0.7, "{newest} of draws from the newest tenth");
        }
    }

    #[test]
    fn latest_follows_what_is_inserted() {
        let mut chooser = chooser(RequestDistribution::Latest, 200);
        for there in [1, 100, 150, 200] {
            let mut counts = vec![0; there as usize];
            (0..1000).for_each(|_| counts[chooser.next(there) as usize] += 1);
            let newest = counts.iter().rposition(|count| count == counts.iter().max().unwrap());
            assert_eq!(newest, Some(there as usize - 1), "{counts:?}");
        }
    }

    #[test]
    fn uniform_takes_all_alike() {
        let shares = shares(RequestDistribution::Uniform, RECORDS);
        assert!(shares.iter().all(|share| *share < 3.0 / RECORDS as f64));
    }

    #[test]
    fn a_record_counts_once_all_before_it_are_there() {
        let counter = AcknowledgedCounter::new(10);
        assert_eq!([(); 4].map(|()| counter.next()), [10, 11, 12, 13]);
        let seen = [11, 13, 10, 12].map(|number| {
            counter.acknowledge(number);
            counter.records()
        });
        assert_eq!(seen, [10, 10, 12, 14]);
    }

    #[test]
    fn threads_agree_on_what_is_there() {
        let counter = AcknowledgedCounter::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        let (number, before) = (counter.next(), counter.records());
                        assert!(before <= number);
                        counter.acknowledge(number);
                        assert!(counter.records() >= before);
                    }
                });
            }
        });
        assert_eq!(counter.records(), 4000);
    }
}
