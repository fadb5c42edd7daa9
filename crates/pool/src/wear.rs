//! Wear: how much each zone has been written, by what was granted in it. A grant of a zone counts as one filling, an
//! extent as its part of one.
//!
//! Each zone has a word in the wear table. It is written and flushed with what is granted, and made durable by a fence
//! that follows anyway: that of the zone's header, or that of the extent's content. So a power cut loses what was granted
//! last and never used, and nothing waits for a count.
//!
//! Counts decide where space is taken, never whether. A word that does not verify (it rotted, or power was cut in
//! the middle of formatting) counts as the mean of the others: its zone is neither spared nor worn out.

use base::checksum::mix;
use pmem::{InFlight, Region, Site};

use crate::geometry::{Geometry, WEAR_WORD};
use crate::pool::Pool;

const SUM_SEED: u64 = u64::from_le_bytes(*b"zonewear");

/// How evenly the zones of a pool are worn, in fillings of a whole zone.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Wear {
    /// Of the zone that was written least.
    pub least: f64,
    /// Of all zones.
    pub mean: f64,
    /// Of the zone that was written most.
    pub most: f64,
    /// Zones whose words do not verify; they were taken for the mean when the pool was opened.
    pub unknown: u32,
}

impl Wear {
    /// The most worn zone in terms of the mean: 1 if all are equal, or nothing was ever granted.
    pub fn spread(&self) -> f64 {
        if self.mean > 0.0 { self.most / self.mean } else { 1.0 }
    }
}

impl Pool {
    /// How often zone `no` was filled since the pool was created, extents in it by their part of a zone.
    ///
    /// # Panics
    /// If there is no such zone.
    pub fn zone_wear(&self, no: u32) -> f64 {
        let grains = self.space.lock().grains.wear(no);
        f64::from(grains) / f64::from(self.geometry().grains_per_zone())
    }

    /// How evenly the zones are worn. Looks at each of them.
    pub fn wear(&self) -> Wear {
        let zones = self.geometry().zones();
        let (mut least, mut most, mut sum, mut unknown) = (f64::MAX, 0.0_f64, 0.0, 0);
        for no in 0..zones {
            let wear = self.zone_wear(no);
            (least, most, sum) = (least.min(wear), most.max(wear), sum + wear);
            let word = self.region().load_u64(self.geometry().wear_at(no).get());
            unknown += u32::from(decode(seed(self.id()), no, word).is_none());
        }
        Wear { least, mean: sum / f64::from(zones), most, unknown }
    }

    /// Writes the counts of `zones` to the table, to be covered by the next fence of this thread. Called under the lock
    /// of the grains, so that words change in the order of their counts. What does not wear keeps the counts it has.
    pub(crate) fn save_wear(
        &self,
        zones: std::ops::Range<u32>,
        wear: impl Fn(u32) -> u32,
    ) -> InFlight<'_> {
        if self.region().is_private() {
            return self.region().flush_range(Site::ZoneGrant, 0, 0);
        }
        let (first, len) = (self.geometry().wear_at(zones.start), zones.len() * WEAR_WORD as usize);
        let seed = seed(self.id());
        for no in zones {
            let word = encode(seed, no, wear(no));
            let _flushed_below =
                self.region().store_u64(Site::ZoneGrant, self.geometry().wear_at(no).get(), word);
        }
        self.region().flush_range(Site::ZoneGrant, first.get(), len)
    }
}

/// The wear table of a pool in which nothing was granted yet.
pub(crate) fn format<'r>(region: &'r Region, geometry: &Geometry, pool_id: u64) -> InFlight<'r> {
    let table = geometry.wear_table();
    let mut bytes = Vec::with_capacity((table.end - table.start) as usize);
    let seed = seed(pool_id);
    (0..geometry.zones()).for_each(|no| bytes.extend(encode(seed, no, 0).to_le_bytes()));
    bytes.resize(bytes.capacity(), 0);
    region.copy_nt(Site::Format, table.start.get(), &bytes)
}

/// What the wear table says, in grains.
pub(crate) fn load(region: &Region, geometry: &Geometry, pool_id: u64) -> Vec<u32> {
    let (zones, seed) = (0..geometry.zones(), seed(pool_id));
    let counts: Vec<Option<u32>> =
        zones.map(|no| decode(seed, no, region.load_u64(geometry.wear_at(no).get()))).collect();
    let known = counts.iter().flatten();
    let sum: u64 = known.clone().map(|count| u64::from(*count)).sum();
    let mean = sum / (known.count() as u64).max(1);
    counts.into_iter().map(|count| count.unwrap_or(mean as u32)).collect()
}

/// Binds words to their pool.
fn seed(pool_id: u64) -> u64 {
    mix(SUM_SEED, pool_id)
}

fn encode(seed: u64, no: u32, count: u32) -> u64 {
    let sum = mix(seed, u64::from(no) << 32 | u64::from(count));
    sum >> 32 << 32 | u64::from(count)
}

fn decode(seed: u64, no: u32, word: u64) -> Option<u32> {
    let count = word as u32;
    (encode(seed, no, count) == word).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_of_format_version_3() {
        assert_eq!(encode(seed(1), 2, 0), 0x48F2_5E35_0000_0000);
        assert_eq!(encode(seed(1), 2, 300), 0xE110_EB3D_0000_012C);
    }

    #[test]
    fn a_word_counts_for_its_own_pool_and_zone_only() {
        let word = encode(seed(1), 2, 300);
        assert_eq!(decode(seed(1), 2, word), Some(300));
        assert_eq!(decode(seed(2), 2, word), None);
        assert_eq!(decode(seed(1), 3, word), None);
        assert_eq!(decode(seed(1), 2, 0), None);
        for bit in 0..64 {
            assert_eq!(decode(seed(1), 2, word ^ 1 << bit), None, "bit {bit}");
        }
    }
}
