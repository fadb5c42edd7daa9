//! Where everything in a pool is. Pure arithmetic over four numbers that the superblock holds.

use std::ops::Range;

use base::PmOffset;

/// The page that holds both superblock slots.
pub(crate) const HEADER_LEN: u64 = 4096;
/// The zone table is behind it.
pub(crate) const ZONE_TABLE: PmOffset = PmOffset::new(HEADER_LEN);
/// One line of the zone table.
pub(crate) const ZONE_LINE: u64 = 64;
/// One word of the wear table.
pub(crate) const WEAR_WORD: u64 = 8;
const ZONE_LEN: Range<u64> = 1 << 10..(64 << 20) + 1;
const MANIFEST_LEN: Range<u64> = 512..(1 << 30) + 1;
const GRAIN_LEN_MIN: u64 = 256;
const GRAINS_PER_ZONE_MAX: u64 = 16;
/// Fewer zones cannot hold a memtable, its successor and two targets of cleaning.
const ZONES_MIN: u32 = 4;

/// The two lengths that are chosen when a pool is created; everything else follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Bytes in a zone: a power of two from 1 KiB to 64 MiB.
    pub zone_len: u64,
    /// Bytes in each of the two manifest areas: a multiple of 64 from 512 B to 1 GiB.
    pub manifest_len: u64,
}

impl Format {
    /// Good lengths for a pool of `pool_len` bytes: a 256th each, within limits.
    pub fn for_len(pool_len: u64) -> Format {
        let share = 1_u64 << (pool_len / 256).max(1).ilog2();
        Format {
            zone_len: share.clamp(64 << 10, 4 << 20),
            manifest_len: share.clamp(64 << 10, 64 << 20),
        }
    }
}

/// Largest pool: locations of records are 40-bit line numbers.
const POOL_LEN_MAX: u64 = 1 << 46;

/// The places of a pool's parts, as offsets into its region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    pool_len: u64,
    format: Format,
    grain_len: u64,
    zones: u32,
    data: PmOffset,
}

impl Geometry {
    /// The layout of a pool of `pool_len` bytes, or what is wrong with it.
    pub(crate) fn new(format: Format, pool_len: u64) -> Result<Geometry, String> {
        let Format { zone_len, manifest_len } = format;
        if !zone_len.is_power_of_two() || !ZONE_LEN.contains(&zone_len) {
            return Err(format!(
                "a zone of {zone_len} bytes; a power of two, 1 KiB to 64 MiB, is needed"
            ));
        }
        if !manifest_len.is_multiple_of(64) || !MANIFEST_LEN.contains(&manifest_len) {
            return Err(format!(
                "a manifest area of {manifest_len} bytes; a multiple of 64, 512 bytes to 1 GiB, is needed"
            ));
        }
        let areas = HEADER_LEN + 2 * manifest_len;
        let most = pool_len.saturating_sub(areas) / (zone_len + ZONE_LINE + WEAR_WORD);
        let mut zones = u32::try_from(most)
            .map_err(|_| format!("{most} zones of {zone_len} bytes; use longer zones"))?;
        if pool_len > POOL_LEN_MAX {
            return Err(format!(
                "a pool of {pool_len} bytes; at most {POOL_LEN_MAX} can be addressed"
            ));
        }
        let data_end = |format: Format, zones: u32| {
            (Self::data_start(format, zones) + u64::from(zones) * zone_len).get()
        };
        // Aligning the data may cost a few zones.
        while zones > 0 && data_end(format, zones) > pool_len {
            zones -= 1;
        }
        if zones < ZONES_MIN {
            let needed = data_end(format, ZONES_MIN);
            return Err(format!(
                "a pool of {pool_len} bytes; zones of {zone_len} and manifest areas of {manifest_len} \
                 bytes need at least {needed}"
            ));
        }
        Ok(Geometry {
            pool_len,
            format,
            grain_len: (zone_len / GRAINS_PER_ZONE_MAX).max(GRAIN_LEN_MIN),
            zones,
            data: Self::data_start(format, zones),
        })
    }

    /// Zones start at multiples of their length, as far as pages go: of 4 KiB at least, so that a
    /// page never holds both metadata and data, and of a huge page at most.
    fn data_start(format: Format, zones: u32) -> PmOffset {
        let areas_end = wear_table(zones).end + 2 * format.manifest_len;
        areas_end.align_up(format.zone_len.clamp(4 << 10, 2 << 20))
    }

    /// Bytes in the pool; the region may be longer.
    pub fn pool_len(&self) -> u64 {
        self.pool_len
    }

    /// Bytes in a zone.
    pub fn zone_len(&self) -> u64 {
        self.format.zone_len
    }

    /// Bytes in a grain, the unit of extents.
    pub fn grain_len(&self) -> u64 {
        self.grain_len
    }

    /// Bytes in each manifest area.
    pub fn manifest_len(&self) -> u64 {
        self.format.manifest_len
    }

    /// Number of zones.
    pub fn zones(&self) -> u32 {
        self.zones
    }

    /// Bytes in all zones together.
    pub fn capacity(&self) -> u64 {
        u64::from(self.zones) * self.zone_len()
    }

    /// Offsets of all zones.
    pub fn data(&self) -> Range<PmOffset> {
        self.data..self.data + self.capacity()
    }

    /// Offset of zone `no`.
    ///
    /// # Panics
    /// If there is no such zone: numbers read from media are checked by [`Pool::claim_zone`](crate::Pool::claim_zone).
    #[inline]
    pub fn zone_at(&self, no: u32) -> PmOffset {
        assert!(no < self.zones, "zone {no} of {}", self.zones);
        self.data + u64::from(no) * self.zone_len()
    }

    /// The zone that holds `offset`, if it lies in the data.
    #[inline]
    pub fn zone_of(&self, offset: PmOffset) -> Option<u32> {
        let no = offset.checked_distance(self.data)? >> self.zone_len().trailing_zeros();
        (no < u64::from(self.zones)).then_some(no as u32)
    }

    /// Bytes that an extent for `len` bytes takes: whole grains, at least one.
    #[inline]
    pub fn extent_len(&self, len: u64) -> Option<u64> {
        len.max(1).checked_next_multiple_of(self.grain_len)
    }

    /// Grains in a zone: 4, 8 or 16, so that a zone's grains never straddle a 64-bit word.
    pub(crate) fn grains_per_zone(&self) -> u32 {
        (self.zone_len() / self.grain_len) as u32
    }

    /// Grains that hold some of these bytes, which lie in the data.
    pub(crate) fn grains_over(&self, bytes: &Range<u64>) -> Range<u64> {
        let start = self.data.get();
        (bytes.start - start) / self.grain_len..(bytes.end - start).div_ceil(self.grain_len)
    }

    /// Offset of the zone's line in the zone table.
    pub fn line_at(&self, no: u32) -> PmOffset {
        assert!(no < self.zones, "zone {no} of {}", self.zones);
        ZONE_TABLE + u64::from(no) * ZONE_LINE
    }

    /// Offsets of the zone table.
    pub(crate) fn zone_table(&self) -> Range<PmOffset> {
        ZONE_TABLE..ZONE_TABLE + u64::from(self.zones) * ZONE_LINE
    }

    /// Offset of the zone's word in the wear table.
    pub(crate) fn wear_at(&self, no: u32) -> PmOffset {
        assert!(no < self.zones, "zone {no} of {}", self.zones);
        self.wear_table().start + u64::from(no) * WEAR_WORD
    }

    /// Offsets of the wear table: a word for each zone, up to the end of the last line.
    pub fn wear_table(&self) -> Range<PmOffset> {
        wear_table(self.zones)
    }

    /// Offsets of manifest area 0 or 1.
    pub(crate) fn area(&self, area: u32) -> Range<PmOffset> {
        let start = self.wear_table().end + u64::from(area) * self.manifest_len();
        start..start + self.manifest_len()
    }
}

fn wear_table(zones: u32) -> Range<PmOffset> {
    let start = ZONE_TABLE + u64::from(zones) * ZONE_LINE;
    start..start + (u64::from(zones) * WEAR_WORD).next_multiple_of(base::LINE as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_inside_the_pool() {
        for zone_len in (10..=26).map(|shift| 1_u64 << shift) {
            for extra in [0, 1, 63, 4095, 5 * zone_len, 1000 * zone_len + 17] {
                let pool_len = 8 * zone_len + (256 << 10) + extra;
                let format = Format { zone_len, manifest_len: 4096 };
                let geometry = Geometry::new(format, pool_len).unwrap();
                assert_eq!(geometry.wear_table().start, geometry.zone_table().end);
                assert_eq!(geometry.area(0).start, geometry.wear_table().end);
                assert_eq!(geometry.area(1).start, geometry.area(0).end);
                assert!(geometry.data().start >= geometry.area(1).end);
                assert!(geometry.data().end.get() <= pool_len);
                assert!(geometry.data().start.is_aligned(geometry.grain_len().min(4096)));
                assert!([4, 8, 16].contains(&geometry.grains_per_zone()));
                let last = geometry.zones() - 1;
                assert_eq!(geometry.zone_of(geometry.zone_at(last)), Some(last));
                assert_eq!(
                    geometry.zone_of(PmOffset::new(geometry.data().end.get() - 1)),
                    Some(last)
                );
                assert_eq!(geometry.zone_of(geometry.data().end), None);
                assert_eq!(geometry.zone_of(PmOffset::new(geometry.data().start.get() - 1)), None);
            }
        }
    }

    #[test]
    fn small_pools_stay_small_and_default_pools_have_256_zones() {
        let tiny = Geometry::new(Format { zone_len: 1024, manifest_len: 4096 }, 32 << 10).unwrap();
        assert_eq!((tiny.zones(), tiny.grain_len()), (16, 256));
        for shift in 24..40 {
            let len = 1_u64 << shift;
            let geometry = Geometry::new(Format::for_len(len), len).unwrap();
            assert!(geometry.zones() >= 250, "{len}: {}", geometry.zones());
            assert!(geometry.capacity() > len / 100 * 97, "{len}: {}", geometry.capacity());
        }
    }

    #[test]
    fn impossible_lengths_are_refused_in_words() {
        let of = |zone_len, manifest_len, len| {
            Geometry::new(Format { zone_len, manifest_len }, len).unwrap_err()
        };
        assert!(of(1000, 4096, 1 << 20).contains("a zone of 1000 bytes"));
        assert!(of(512, 4096, 1 << 20).contains("a zone of 512 bytes"));
        assert!(of(128 << 20, 4096, 1 << 40).contains("a zone of"));
        assert!(of(1024, 100, 1 << 20).contains("a manifest area of 100 bytes"));
        assert!(of(1024, 64, 1 << 20).contains("a manifest area of 64 bytes"));
        assert!(of(1024, u64::MAX, 1 << 20).contains("a manifest area of"));
        assert!(of(1024, 4096, 0).contains("need at least 20480"));
        assert!(of(1024, 4096, u64::MAX).contains("use longer zones"));
        assert!(Geometry::new(Format { zone_len: 1024, manifest_len: 4096 }, 20480).is_ok());
        assert!(Geometry::new(Format { zone_len: 1024, manifest_len: 4096 }, 20479).is_err());
    }
}
