//! Records of one line each in a pool file, as the engine's are for short values: what a memtable's index points to.

use std::path::Path;

use base::LINE;
use base::checksum::sum64;
use pmem::{OpenMode, PoolFile, Prefault, Region, Site};

use crate::data::rng::mix;
use crate::words::told;

/// Bytes of a key and of a value.
pub(crate) const KEY: usize = 8;
pub(crate) const VALUE: usize = 32;

/// Where the parts of a record stand: its number, the key, the value, the checksum of what is before it.
const KEY_AT: usize = 8;
const VALUE_AT: usize = KEY_AT + KEY;
const SUM_AT: usize = VALUE_AT + VALUE;
const END: usize = SUM_AT + 8;

/// The order in which keys come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyOrder {
    /// 64-bit numbers at random, all different.
    Random,
    /// Numbers that ascend one by one.
    Ascending,
}

impl KeyOrder {
    /// The key that comes as the `number`th.
    pub(crate) fn key(self, number: u64) -> u64 {
        match self {
            KeyOrder::Random => mix(number),
            KeyOrder::Ascending => number,
        }
    }
}

/// The value that belongs to a key.
pub(crate) fn value(key: u64) -> [u8; VALUE] {
    let mut value = [0; VALUE];
    for (i, word) in value.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&mix(key ^ i as u64).to_le_bytes());
    }
    value
}

/// What is looked at of a value that was found.
pub(crate) fn taste(value: &[u8]) -> u64 {
    word(value, VALUE - 8).unwrap_or(0)
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
}

/// The records, in the order in which their keys came. A leaf of the index is a record's number.
pub(crate) struct Records {
    region: Region,
}

impl Records {
    /// Writes `count` records to the file at `path`, made if need be, durably, as a store's writers do.
    pub(crate) fn write(path: &Path, keys: KeyOrder, count: u64) -> Result<Records, String> {
        let file = match path.exists() {
            true => PoolFile::open(path, OpenMode::ReadWrite),
            false => PoolFile::create(path, count * LINE as u64),
        };
        let region = file.and_then(|file| file.map(Prefault::Now)).map_err(told)?;
        let mut line = [0; LINE];
        for number in 0..count {
            let key = keys.key(number);
            line[..KEY_AT].copy_from_slice(&(number + 1).to_le_bytes());
            line[KEY_AT..VALUE_AT].copy_from_slice(&key.to_be_bytes());
            line[VALUE_AT..SUM_AT].copy_from_slice(&value(key));
            let sum = sum64(number, &line[..SUM_AT]);
            line[SUM_AT..END].copy_from_slice(&sum.to_le_bytes());
            let _durable = region.fence(region.copy_nt(Site::Record, number * LINE as u64, &line));
        }
        Ok(Records { region })
    }

    /// Where they are, and what they survive.
    pub(crate) fn place(&self) -> String {
        format!("{}, {}", self.region.describe(), self.region.durability())
    }

    /// The record if its checksum holds, which every read makes sure of.
    #[inline]
    fn verified(&self, leaf: u64) -> Option<&[u8]> {
        let record = self.region.bytes(leaf * LINE as u64, LINE);
        (word(record, SUM_AT)? == sum64(leaf, &record[..SUM_AT])).then_some(record)
    }

    /// Key and value as they are.
    #[inline]
    pub(crate) fn unverified(&self, leaf: u64) -> (&[u8], &[u8]) {
        let record = self.region.bytes(leaf * LINE as u64, LINE);
        (&record[KEY_AT..VALUE_AT], &record[VALUE_AT..SUM_AT])
    }

    /// What is looked at of the value, if the record is there and belongs to `key`.
    #[inline]
    pub(crate) fn taste_of(&self, leaf: u64, key: &[u8]) -> Option<u64> {
        let record = self.verified(leaf)?;
        (&record[KEY_AT..VALUE_AT] == key).then(|| taste(&record[VALUE_AT..SUM_AT]))
    }

    /// The same of a record whatever its key.
    #[inline]
    pub(crate) fn taste_at(&self, leaf: u64) -> Option<u64> {
        self.verified(leaf).map(|record| taste(&record[VALUE_AT..SUM_AT]))
    }

    /// Brings a record towards the cache.
    #[inline]
    pub(crate) fn prefetch(&self, leaf: u64) {
        self.region.prefetch(leaf * LINE as u64, 1);
    }
}

impl art::Records for Records {
    #[inline]
    fn key(&self, leaf: u64) -> Option<&[u8]> {
        self.verified(leaf).map(|record| &record[KEY_AT..VALUE_AT])
    }

    #[inline]
    fn seq(&self, leaf: u64) -> u64 {
        self.region.load_u64(leaf * LINE as u64)
    }
}
