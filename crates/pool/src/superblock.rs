//! The superblock: what a pool is, where the log areas are, and which of them is the current one. It is kept twice.
//!
//! Magic, version and checksum keep their places in every format version, so that any version can tell
//! another version from damage.

use std::collections::BTreeSet;
use std::ops::Range;

use base::checksum::sum64;
use base::codec::Reader;
use base::{Error, ErrorKind, PmOffset, Result};
use pmem::{Durable, Region, Site};

use crate::geometry::{Format, Geometry};
use crate::space::Extent;
use crate::zones;

/// The format version that this build writes.
pub const FORMAT_VERSION: u32 = 4;
/// The oldest that it reads. Every log that it begins has the newest, so a pool that is written becomes one of that.
const OLDEST_VERSION: u32 = 3;

/// Bytes in a slot.
pub(crate) const SLOT_LEN: usize = 128;
/// Offsets of slots A and B. Far apart, so that one failing media block does not take both.
pub(crate) const SLOTS: [PmOffset; 2] = [PmOffset::ZERO, PmOffset::new(2048)];

const MAGIC: u64 = u64::from_le_bytes(*b"strandln");
/// Stands in slot A's magic while a pool is being created.
const FORMATTING: u64 = u64::from_le_bytes(*b"strandft");
const SUM_AT: usize = 120;
const SUM_SEED: u64 = MAGIC;
/// How much of a region with a blank header must be zero too, to count as never used.
const BLANK_LEN: u64 = 1 << 20;

/// The content of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    /// Format version of what was written so far.
    pub version: u32,
    pub pool_id: u64,
    pub pool_len: u64,
    pub zone_len: u64,
    pub grain_len: u64,
    pub manifest_len: u64,
    /// Raised by every change; the valid slot with the higher one wins.
    pub generation: u64,
    /// Where the log areas are.
    pub areas: Areas,
    /// Log area in use: 0 or 1.
    pub area: u32,
    /// Life of that area; never used twice.
    pub incarnation: u64,
}

/// What a slot turns out to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    Valid(Superblock),
    /// Intact, written by another format version.
    Version(u32),
    /// A creation began and did not finish.
    Formatting,
    /// No magic, as in fresh memory.
    Blank,
    /// A pool's slot that fails its check.
    Damaged,
    /// Nothing of ours.
    Foreign,
}

/// The two log areas: those in front of the data, with which a pool begins, or extents of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Areas {
    /// Bytes in each.
    pub len: u64,
    pub at: [PmOffset; 2],
}

impl Areas {
    /// Those in front of the data.
    pub fn fixed(geometry: &Geometry) -> Areas {
        let at = [geometry.area(0).start, geometry.area(1).start];
        Areas { len: geometry.manifest_len(), at }
    }

    pub fn range(&self, area: u32) -> Range<PmOffset> {
        let start = self.at[usize::from(area != 0)];
        start..start + self.len
    }

    /// The extents that they are, if they are no longer those in front of the data.
    pub fn extents(&self, geometry: &Geometry) -> Option<[Extent; 2]> {
        let moved = *self != Areas::fixed(geometry);
        moved.then(|| self.at.map(|at| Extent { at, len: self.len }))
    }

    /// Whether they lie where areas may. That no other owner has these extents, claims prove.
    pub fn are_sound(&self, geometry: &Geometry) -> bool {
        let data = geometry.data();
        let inside = |at: &PmOffset| {
            *at >= data.start && at.checked_add(self.len).is_some_and(|end| end <= data.end)
        };
        *self == Areas::fixed(geometry) || self.len > 0 && self.at.iter().all(inside)
    }
}

type SlotBytes = [u8; SLOT_LEN];

impl Superblock {
    pub fn geometry(&self) -> Result<Geometry, String> {
        let format = Format { zone_len: self.zone_len, manifest_len: self.manifest_len };
        let geometry = Geometry::new(format, self.pool_len)?;
        if geometry.grain_len() != self.grain_len {
            return Err(format!("grains of {} bytes in such a pool", self.grain_len));
        }
        Ok(geometry)
    }

    pub fn encode(&self) -> SlotBytes {
        let mut slot = [0; SLOT_LEN];
        put(&mut slot, 0, MAGIC);
        put(&mut slot, 8, u64::from(self.version));
        put(&mut slot, 16, self.pool_id);
        put(&mut slot, 24, self.pool_len);
        put(&mut slot, 32, self.zone_len);
        put(&mut slot, 40, self.grain_len);
        put(&mut slot, 48, self.manifest_len);
        put(&mut slot, 56, self.generation);
        put(&mut slot, 64, u64::from(self.area));
        put(&mut slot, 72, self.incarnation);
        put(&mut slot, 80, self.areas.len);
        put(&mut slot, 88, self.areas.at[0].get());
        put(&mut slot, 96, self.areas.at[1].get());
        let sum = checksum(&slot);
        put(&mut slot, SUM_AT, sum);
        slot
    }

    fn parse(slot: &SlotBytes) -> Option<Superblock> {
        let mut fields = Reader::new(slot);
        fields.take(8)?;
        Some(Superblock {
            version: u32::try_from(fields.u64()?).ok()?,
            pool_id: fields.u64()?,
            pool_len: fields.u64()?,
            zone_len: fields.u64()?,
            grain_len: fields.u64()?,
            manifest_len: fields.u64()?,
            generation: fields.u64()?,
            area: u32::try_from(fields.u64()?).ok().filter(|area| *area < 2)?,
            incarnation: fields.u64()?,
            areas: Areas {
                len: fields.u64()?,
                at: [PmOffset::new(fields.u64()?), PmOffset::new(fields.u64()?)],
            },
        })
    }

    /// The log area in use.
    pub fn log(&self) -> Range<PmOffset> {
        self.areas.range(self.area)
    }

    /// Makes the slot at `at` hold this content, durably.
    pub fn write(&self, region: &Region, site: Site, at: PmOffset) -> Result<Durable> {
        region.try_fence(region.flush(region.copy(site, at.get(), &self.encode())))
    }
}

/// Marks the region as being formatted, whatever it held. Two words: as long as only one of them is
/// durable, a pool that was here before is still whole.
pub fn begin_format(region: &Region) -> Durable {
    let slot_a = region.flush(region.store_u64(Site::Format, SLOTS[0].get(), FORMATTING));
    let slot_b = region.flush(region.store_u64(Site::Format, SLOTS[1].get(), 0));
    region.fence(slot_a.and(slot_b))
}

/// Reads slot 0 or 1; what lies beyond the region reads as zero.
pub(crate) fn read(region: &Region, slot: usize) -> Slot {
    let mut bytes = [0; SLOT_LEN];
    let present = region.len().saturating_sub(SLOTS[slot].get()).min(SLOT_LEN as u64) as usize;
    if present > 0 {
        bytes[..present].copy_from_slice(region.bytes(SLOTS[slot].get(), present));
    }
    decode(&bytes)
}

/// Refuses a region with a pool of another version.
///
/// # Errors
/// `NotSupported`. Whatever else the region holds is not looked at.
pub fn check_version(region: &Region) -> Result<()> {
    for slot in [read(region, 0), read(region, 1)] {
        let Slot::Version(version) = slot else { continue };
        let remedy = if version > FORMAT_VERSION {
            "open it with the strandline that wrote it, or a newer one"
        } else {
            "make a checkpoint with the strandline that wrote it, and restore that"
        };
        let text = format!(
            "{} has pool format {version}, this build reads {OLDEST_VERSION} to {FORMAT_VERSION}; {remedy}",
            region.describe()
        );
        return Err(Error::new(ErrorKind::NotSupported, "open pool", text));
    }
    Ok(())
}

/// The superblock in force, or why there is none.
pub(crate) fn choose(region: &Region) -> Result<Superblock> {
    // Another version is told apart from damage first: its other slot may look like either.
    check_version(region)?;
    let slots = [read(region, 0), read(region, 1)];
    let what = region.describe();
    let fail = |kind, text: String| Err(Error::new(kind, "open pool", text));
    // One valid slot is enough; of two the newer one counts (I-POOL-4).
    match slots {
        [Slot::Valid(a), Slot::Valid(b)] => Ok(if b.generation > a.generation { b } else { a }),
        [Slot::Valid(one), _] | [_, Slot::Valid(one)] => Ok(one),
        [Slot::Formatting, _] => fail(ErrorKind::NotFound, unformatted(&what)),
        [Slot::Blank, Slot::Blank] if is_blank(region) => {
            fail(ErrorKind::NotFound, unformatted(&what))
        }
        [Slot::Foreign, Slot::Foreign | Slot::Blank] => fail(
            ErrorKind::InvalidArgument,
            format!(
                "{what} is not a strandline pool; name another file, or, if it was one, restore a copy of it or save what is left \
                 with `strandline repair`"
            ),
        ),
        _ => fail(
            ErrorKind::Corruption,
            format!(
                "both superblock slots of {what}, at offsets {} and {}, are damaged; restore a copy of the pool",
                SLOTS[0], SLOTS[1]
            ),
        ),
    }
}

/// What the superblock may have been, where none is in force: from what is left of the slots, as far as zone lines prove
/// the identity. Which of the lengths are right, only the content of the zones can tell.
pub(crate) fn guesses(region: &Region) -> Vec<Superblock> {
    if let Ok(superblock) = choose(region) {
        return vec![superblock];
    }
    let whole = |at: &&PmOffset| (**at + SLOT_LEN as u64).get() <= region.len();
    let slots: Vec<&[u8]> =
        SLOTS.iter().filter(whole).map(|at| region.bytes(at.get(), SLOT_LEN)).collect();
    // Each number is one that a slot has, or the default; zone lines bear witness to the identity alone.
    let default = Format::for_len(region.len());
    let values = |at: usize, or: u64| -> BTreeSet<u64> {
        slots.iter().map(|slot| word(slot, at)).chain([or]).collect()
    };
    let mut guesses = Vec::new();
    let ids = values(16, 0).into_iter().filter(|id| zones::stands_for(region, *id));
    for pool_id in ids {
        for zone_len in values(32, default.zone_len) {
            for manifest_len in values(48, default.manifest_len) {
                for pool_len in values(24, region.len()) {
                    let format = Format { zone_len, manifest_len };
                    let geometry = Geometry::new(format, pool_len).ok();
                    let Some(geometry) = geometry.filter(|_| pool_len <= region.len()) else {
                        continue;
                    };
                    let grain_len = geometry.grain_len();
                    let (generation, area, incarnation) = (0, 0, 0);
                    let areas = Areas::fixed(&geometry);
                    guesses.push(Superblock {
                        version: FORMAT_VERSION,
                        pool_id,
                        pool_len,
                        zone_len,
                        grain_len,
                        manifest_len,
                        generation,
                        areas,
                        area,
                        incarnation,
                    });
                }
            }
        }
    }
    guesses
}

fn unformatted(what: &str) -> String {
    format!(
        "{what} holds no pool: its creation never finished, or it was wiped; restore a copy of it, save what tables hold \
         with `strandline repair`, or begin anew elsewhere"
    )
}

/// A header wiped by a failing device is blank, too; the log behind it tells it from fresh memory.
fn is_blank(region: &Region) -> bool {
    let len = region.len().min(BLANK_LEN) as usize;
    region.bytes(0, len).iter().all(|byte| *byte == 0)
}

fn decode(slot: &SlotBytes) -> Slot {
    let magic = get(slot, 0);
    let version = get(slot, 8) as u32;
    if get(slot, SUM_AT) == checksum(slot) && magic == MAGIC {
        if !(OLDEST_VERSION..=FORMAT_VERSION).contains(&version) {
            return Slot::Version(version);
        }
        return Superblock::parse(slot).map_or(Slot::Damaged, Slot::Valid);
    }
    let mut mended = *slot;
    put(&mut mended, 0, MAGIC);
    match magic {
        FORMATTING => Slot::Formatting,
        MAGIC => Slot::Damaged,
        // Only the magic is wrong: a damaged slot, not a foreign file.
        _ if get(&mended, SUM_AT) == checksum(&mended) => Slot::Damaged,
        0 => Slot::Blank,
        _ => Slot::Foreign,
    }
}

/// Gives a slot the checksum that its bytes have.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn mend(slot: &mut [u8]) {
    if let Some(slot) = slot.first_chunk_mut() {
        let sum = checksum(slot);
        put(slot, SUM_AT, sum);
    }
}

fn checksum(slot: &SlotBytes) -> u64 {
    sum64(SUM_SEED, &slot[..SUM_AT])
}

fn put(slot: &mut SlotBytes, at: usize, value: u64) {
    slot[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn get(slot: &SlotBytes, at: usize) -> u64 {
    word(slot, at)
}

fn word(slot: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&slot[at..at + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: Superblock = Superblock {
        version: FORMAT_VERSION,
        pool_id: 0x0102_0304_0506_0708,
        pool_len: 32768,
        zone_len: 1024,
        grain_len: 256,
        manifest_len: 4096,
        generation: 9,
        area: 1,
        incarnation: 10,
        areas: Areas { len: 8192, at: [PmOffset::new(4096), PmOffset::new(12_288)] },
    };

    /// The bytes are a promise: a change here is a new format version.
    #[test]
    fn the_bytes_are_those_of_format_version_4() {
        let hex: Vec<String> =
            SAMPLE.encode().chunks(8).map(|word| format!("{:016x}", get(&pad(word), 0))).collect();
        assert_eq!(
            hex,
            [
                "6e6c646e61727473",
                "0000000000000004",
                "0102030405060708",
                "0000000000008000",
                "0000000000000400",
                "0000000000000100",
                "0000000000001000",
                "0000000000000009",
                "0000000000000001",
                "000000000000000a",
                "0000000000002000",
                "0000000000001000",
                "0000000000003000",
                "0000000000000000",
                "0000000000000000",
                "62b6e408055af297",
            ]
        );
    }

    fn pad(word: &[u8]) -> SlotBytes {
        let mut slot = [0; SLOT_LEN];
        slot[..8].copy_from_slice(word);
        slot
    }

    #[test]
    fn every_flipped_bit_is_damage() {
        let good = SAMPLE.encode();
        assert_eq!(decode(&good), Slot::Valid(SAMPLE));
        for at in 0..SLOT_LEN {
            for bit in 0..8 {
                let mut slot = good;
                slot[at] ^= 1 << bit;
                assert_eq!(decode(&slot), Slot::Damaged, "byte {at}, bit {bit}");
            }
        }
    }

    #[test]
    fn versions_blanks_and_strangers_are_told_apart() {
        let mut other = SAMPLE.encode();
        put(&mut other, 8, 7);
        let sum = checksum(&other);
        put(&mut other, SUM_AT, sum);
        assert_eq!(decode(&other), Slot::Version(7));
        let older = Superblock { version: OLDEST_VERSION, ..SAMPLE };
        assert_eq!(decode(&older.encode()), Slot::Valid(older));
        put(&mut other, 8, u64::from(OLDEST_VERSION) - 1);
        let sum = checksum(&other);
        put(&mut other, SUM_AT, sum);
        assert_eq!(decode(&other), Slot::Version(OLDEST_VERSION - 1));
        assert_eq!(decode(&[0; SLOT_LEN]), Slot::Blank);
        assert_eq!(decode(&[7; SLOT_LEN]), Slot::Foreign);
    }

    #[test]
    fn an_impossible_area_is_damage_even_if_the_checksum_holds() {
        assert_eq!(decode(&Superblock { area: 2, ..SAMPLE }.encode()), Slot::Damaged);
    }
}
