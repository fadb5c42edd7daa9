//! How long a block takes that is read again, of each tier: what its model says, or about what half of its reads took. Blocks of tiers that
//! are much faster than the slowest have low priority in the block cache.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use ssd::Device;

use super::tiers::TierDir;
use crate::cache::Refetch;

/// A tier is much faster than another that takes so many times as long.
const MUCH_FASTER: u64 = 4;
/// One read of so many is timed.
const TIMED: u64 = 8;
/// Nanoseconds of a miss besides, about: the block is verified and taken in, and another makes room.
const MISS: u64 = 2000;
/// What is known moves by such a part with each.
const STEP: u64 = 16;

/// Of all tiers of a store.
pub(crate) struct ReadTimes {
    tiers: Vec<TierTime>,
}

/// The tier that a file lies in.
#[derive(Clone)]
pub(crate) struct TierOfFile {
    times: Arc<ReadTimes>,
    no: u32,
}

struct TierTime {
    no: u32,
    modelled: Option<u64>,
    /// Nanoseconds in which half of the reads were done; 0: not known yet.
    median: AtomicU64,
    /// One that was never read has no say in what is slow.
    reads: AtomicU64,
}

impl ReadTimes {
    /// Of these; those without a device of their own lie on that of the store, if that is known.
    pub(crate) fn new<'d>(
        dirs: impl Iterator<Item = &'d TierDir>,
        store: Option<&Device>,
    ) -> ReadTimes {
        let time = |dir: &TierDir| {
            let modelled = dir.device.as_deref().or(store).and_then(Device::read_time);
            TierTime {
                no: dir.no,
                modelled: modelled.map(nanos),
                median: AtomicU64::new(0),
                reads: AtomicU64::new(0),
            }
        };
        ReadTimes { tiers: dirs.map(time).collect() }
    }

    /// The tier of a file.
    pub(crate) fn of_file(self: &Arc<ReadTimes>, no: u32) -> TierOfFile {
        TierOfFile { times: Arc::clone(self), no }
    }

    /// Reads so many blocks of a tier at once: each takes its part of the time.
    #[inline]
    pub(crate) fn timed<T>(&self, no: u32, blocks: u32, read: impl FnOnce() -> T) -> T {
        let Some(tier) = self.tier(no) else { return read() };
        let earlier = tier.reads.fetch_add(blocks.into(), Relaxed);
        let is_due = earlier.next_multiple_of(TIMED) < earlier + u64::from(blocks);
        if tier.modelled.is_some() || !is_due {
            return read();
        }
        let began = Instant::now();
        let got = read();
        tier.learn(began.elapsed() / blocks);
        got
    }

    /// What reading a block of a tier again costs.
    pub(crate) fn refetch(&self, no: u32) -> Refetch {
        let ns = self.tier(no).map_or(0, TierTime::ns);
        let read = self.tiers.iter().filter(|tier| tier.reads.load(Relaxed) > 0);
        let slowest = read.map(TierTime::ns).max().unwrap_or(0);
        let cost = if ns > 0 { ns.saturating_add(MISS) } else { 0 };
        Refetch {
            ns: cost,
            is_fast: ns > 0 && ns.saturating_mul(MUCH_FASTER) <= slowest,
            is_passing: false,
        }
    }

    fn tier(&self, no: u32) -> Option<&TierTime> {
        self.tiers.iter().find(|tier| tier.no == no)
    }
}

impl TierOfFile {
    /// Reads so many blocks of it at once.
    #[inline]
    pub(crate) fn timed<T>(&self, blocks: u32, read: impl FnOnce() -> T) -> T {
        self.times.timed(self.no, blocks, read)
    }

    /// What reading a block of it again costs.
    pub(crate) fn refetch(&self) -> Refetch {
        self.times.refetch(self.no)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1)
}

impl TierTime {
    fn ns(&self) -> u64 {
        self.modelled.unwrap_or_else(|| self.median.load(Relaxed))
    }

    /// A step to the side that the read lies on, so that no single read counts for much, however long it waited.
    fn learn(&self, took: Duration) {
        let (took, known) = (nanos(took), self.median.load(Relaxed));
        let step = (known / STEP).max(1);
        let next = match known {
            0 => took,
            known if took > known => known + step,
            known => known.saturating_sub(step).max(1),
        };
        self.median.store(next, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tables::TableDir;

    fn times(models: &[Option<&str>], store: Option<&str>) -> ReadTimes {
        let fs: Arc<dyn ssd::Fs> = Arc::new(ssd::Memory::default());
        let device = |model: &str| Device::new(Some(model.parse().expect("model")));
        let dirs: Vec<TierDir> = models
            .iter()
            .enumerate()
            .map(|(no, model)| TierDir {
                no: no as u32,
                device: model.map(|model| Arc::new(device(model))),
                ..TierDir::own(TableDir { fs: Arc::clone(&fs), dir: format!("/{no}").into() })
            })
            .collect();
        ReadTimes::new(dirs.iter(), store.map(device).as_ref())
    }

    fn is_fast(times: &ReadTimes) -> Vec<bool> {
        times.tiers.iter().map(|tier| times.refetch(tier.no).is_fast).collect()
    }

    #[test]
    fn modelled_tiers_are_as_fast_as_their_models_once_a_slower_one_is_read() {
        let times = times(&[Some("optane-dax"), Some("optane-ssd"), None], Some("nvme-tlc"));
        times.timed(0, 1, || ());
        assert_eq!(is_fast(&times), [false; 3], "no slower one is read");
        times.timed(1, 1, || ());
        assert_eq!(is_fast(&times), [true, false, false]);
        times.timed(2, 3, || ());
        assert_eq!(is_fast(&times), [true, true, false]);
        assert_eq!([0, 2, 9].map(|no| times.refetch(no).ns), [2930, 87_000, 0]);
    }

    /// Of reads of several blocks as many are timed as of blocks that are read alone, about: those in which a multiple of eight lies.
    #[test]
    fn blocks_that_are_read_together_are_timed_too() {
        let is_timed = |earlier: u64, blocks: u32| {
            let times = times(&[None], None);
            times.tiers[0].reads.store(earlier, Relaxed);
            times.timed(0, blocks, || ());
            assert_eq!(times.tiers[0].reads.load(Relaxed), earlier + u64::from(blocks));
            times.tiers[0].median.load(Relaxed) > 0
        };
        assert!(
            is_timed(0, 1) && is_timed(0, 5) && is_timed(8, 1) && is_timed(5, 4) && is_timed(1, 90)
        );
        assert!(!is_timed(1, 1) && !is_timed(1, 7) && !is_timed(5, 3) && !is_timed(3, 0));
    }

    #[test]
    fn others_are_as_fast_as_half_of_their_reads() {
        let times = times(&[None, None], None);
        assert_eq!(is_fast(&times), [false; 2], "nothing is known");
        let learn = |no: usize, us: u64| times.tiers[no].learn(Duration::from_micros(us));
        times.tiers.iter().for_each(|tier| tier.reads.store(1, Relaxed));
        learn(0, 5000);
        // One of four waits for long.
        (0..400).for_each(|read| learn(0, if read % 4 == 0 { 4000 } else { 10 }));
        (0..400).for_each(|read| learn(1, if read % 4 == 0 { 10 } else { 100 }));
        assert!((11_000..14_000).contains(&times.refetch(0).ns), "{}", times.refetch(0).ns);
        assert_eq!(is_fast(&times), [true, false]);
    }
}
