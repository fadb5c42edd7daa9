//! How much data a store gets, how much memory each engine is given, and for what.

use crate::stages::{Fit, Place};

/// Memtables that the others may have at once, and the largest.
pub const BUFFERS: u64 = 4;
const BUFFER_MAX: u64 = 64 << 20;
/// The least and the most of this engine's records, where they share memory with all else: what it chooses by itself.
const RECORDS: (u64, u64) = (4 << 20, 256 << 20);
/// Smallest pool in tmpfs that is chosen.
const POOL_MIN: u64 = 4 << 20;
/// Least memory where commits alone are measured: batches of large values must fit the smallest parts of a pool.
const COMMITS_MIN: u64 = 512 << 20;
/// Times the memory of a store on a disk: data that spills, and data for long runs.
pub const SPILL: u64 = 8;
pub const LONG: u64 = 10;
/// The same where few keys are read most of the time.
pub const SKEWED: u64 = 4;

/// Data of a store all in memtables: a million keys with values of 100 B; and the memory for it and what is put, in times that.
const MEMTABLE_DATA: u64 = 116_000_000;
const MEMTABLE_ROOM: u64 = 32;
/// Least memory of tables of TPC-C: a Delivery is one commit.
const ORDERS_MIN: u64 = 16 << 20;
/// The same of a pool in tmpfs.
const ORDERS_POOL_MIN: u64 = 32 << 20;

/// Sizes that the user chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Memory of a store on a disk, with less than its data needs.
    pub memory: u64,
    /// Data of a store in tmpfs, or with its pool there.
    pub data: u64,
    /// Tables of TPC-C.
    pub orders: u64,
}

/// The parts of an engine's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dram {
    /// All of it, where all engines have the same; none where this engine's pool emulates persistent memory in tmpfs.
    pub total: Option<u64>,
    /// This engine's records: its pool.
    pub pool: u64,
    /// This engine's `dram_budget`: indexes, and its cache out of that.
    pub indexes: u64,
    /// This engine's cache, where it is not left to the engine.
    pub block_cache: Option<u64>,
    /// The others' cache for blocks or pages.
    pub cache: u64,
    /// One of the others' [`BUFFERS`] memtables.
    pub buffer: u64,
}

impl Sizes {
    /// Bytes of keys and values of a store.
    pub fn data(&self, place: Place, fit: Fit) -> u64 {
        match (place, fit) {
            (_, Fit::Memtables) => self.data.min(MEMTABLE_DATA),
            (_, Fit::Orders) => self.orders,
            (Place::Disk, Fit::Spill | Fit::Cold | Fit::Ample) => SPILL * self.memory,
            (Place::Disk, Fit::Long) => LONG * self.memory,
            (Place::Disk, Fit::Skewed) | (Place::Hybrid, _) => SKEWED * self.memory,
            (Place::Disk, Fit::Pool | Fit::Tables | Fit::Commits) => 2 * self.memory,
            (Place::Tmpfs | Place::Split, _) => self.data,
        }
    }

    /// The memory of a store's engine.
    pub fn dram(&self, place: Place, fit: Fit) -> Dram {
        let data = self.data(place, fit);
        match (place, fit) {
            (_, Fit::Memtables) => Dram::for_memtables(place, MEMTABLE_ROOM * data),
            (Place::Disk, Fit::Orders) => Dram::shared_out(self.memory.max(ORDERS_MIN)),
            (Place::Disk, Fit::Spill | Fit::Cold | Fit::Long | Fit::Ample) => {
                Dram::shared_out(self.memory)
            }
            (Place::Disk, Fit::Commits) => Dram::shared_out((SPILL * self.memory).max(COMMITS_MIN)),
            (Place::Disk, Fit::Skewed) => Dram::read_mostly(self.memory),
            (Place::Hybrid, _) => Dram::with_second(self.memory),
            (Place::Disk, Fit::Pool) => {
                let dram = Dram::shared_out(4 * data);
                // With what records have beside keys and values, index runs, and space to merge them.
                let pool = (3 * data).max(4 * RECORDS.0);
                Dram { pool, indexes: 4 * data - pool, ..dram }
            }
            (Place::Disk, Fit::Tables) => {
                let dram = Dram::shared_out(8 * data);
                Dram { block_cache: Some(2 * data), cache: 2 * data, ..dram }
            }
            (Place::Tmpfs | Place::Split, _) => Dram::beside_pool(fit, data),
        }
    }
}

impl Dram {
    /// All engines have `total`: half is for what is written, this one's records and the others' memtables, and half for the
    /// cache, of this one for indexes, too.
    fn shared_out(total: u64) -> Dram {
        let pool = (total / 2).clamp(RECORDS.0, RECORDS.1);
        Dram {
            total: Some(total),
            pool,
            indexes: total - pool,
            block_cache: None,
            cache: total / 2,
            buffer: (total / 2 / BUFFERS).min(BUFFER_MAX),
        }
    }

    /// All engines have `total`, and nothing is put once all is compacted: caches alike have three quarters of it, and an eighth is
    /// for this engine's records, a quarter for the others' memtables. This engine has no more than half of its budget for blocks;
    /// the other half would be for the index of its records, which are few.
    fn read_mostly(total: u64) -> Dram {
        let cache = total / 4 * 3;
        Dram {
            total: Some(total),
            pool: (total / 8).clamp(RECORDS.0, RECORDS.1),
            indexes: 2 * cache,
            block_cache: Some(cache),
            cache,
            buffer: (total / 4 / BUFFERS).min(BUFFER_MAX),
        }
    }

    /// The same, and as much persistent memory: this engine's pool, and another's cache below its cache.
    fn with_second(total: u64) -> Dram {
        Dram { pool: total.max(4 * RECORDS.0), ..Dram::read_mostly(total) }
    }

    /// All engines have `total`, most of it for memtables, which nothing should leave: a quarter of it is the largest of this engine
    /// and of the others.
    fn for_memtables(place: Place, total: u64) -> Dram {
        let (pool, cache) = (total / 2, total / 8);
        let shared = place == Place::Disk;
        Dram {
            total: shared.then_some(total),
            pool,
            indexes: total - pool,
            block_cache: Some(cache),
            cache,
            buffer: total / 4,
        }
    }

    fn beside_pool(fit: Fit, data: u64) -> Dram {
        let (pool, cache) = match fit {
            Fit::Orders => ((data * 3).max(ORDERS_POOL_MIN), data * 2),
            Fit::Spill => (data / 4, data / 4),
            Fit::Long => (data / 10, data / 4),
            Fit::Pool | Fit::Commits | Fit::Ample | Fit::Memtables => (data * 3, data * 2),
            Fit::Tables => (data / 4, data * 2),
            Fit::Cold | Fit::Skewed => (data / 4, data / 8),
        };
        let pool = pool.next_multiple_of(1 << 20).max(POOL_MIN);
        Dram {
            total: None,
            pool,
            indexes: 2 * cache + (256 << 20),
            block_cache: Some(cache),
            cache,
            buffer: BUFFER_MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FITS: [Fit; 7] =
        [Fit::Spill, Fit::Long, Fit::Pool, Fit::Tables, Fit::Cold, Fit::Skewed, Fit::Commits];

    #[test]
    fn on_a_disk_all_have_the_same() {
        for memory in [8 << 20, 32 << 20, 64 << 20, 128 << 20, 1 << 30] {
            let sizes = Sizes { memory, data: 1 << 20, orders: 1 << 20 };
            for fit in FITS {
                let dram = sizes.dram(Place::Disk, fit);
                let total = dram.total.unwrap();
                let used = match fit {
                    // Of what is for indexes only the cache is used.
                    Fit::Skewed => dram.cache,
                    _ => dram.indexes,
                };
                match fit {
                    Fit::Skewed => assert!(dram.pool + used <= total.max(16 << 20)),
                    _ => assert_eq!(dram.pool + used, total),
                }
                assert!(dram.block_cache.is_none_or(|cache| cache <= dram.indexes / 2), "{fit:?}");
                assert!(dram.cache + BUFFERS * dram.buffer <= total);
            }
        }
    }

    #[test]
    fn data_is_so_many_times_the_memory() {
        for memory in [32 << 20, 64 << 20, 128 << 20, 1 << 30] {
            let sizes = Sizes { memory, data: 1 << 20, orders: 1 << 20 };
            for (fit, times) in [(Fit::Spill, 8), (Fit::Long, 10), (Fit::Skewed, 4)] {
                let total = sizes.dram(Place::Disk, fit).total.unwrap();
                assert_eq!(sizes.data(Place::Disk, fit), times * total, "{fit:?} {memory}");
            }
        }
        // Memtables hold a million keys, and both sides may fill the same of them.
        let usual = Sizes { memory: 64 << 20, data: 256 << 20, orders: 124 << 20 };
        for place in [Place::Disk, Place::Tmpfs] {
            let (data, dram) =
                (usual.data(place, Fit::Memtables), usual.dram(place, Fit::Memtables));
            assert_eq!(data / (16 + 100), 1_000_000);
            assert_eq!(dram.buffer, dram.pool / 2);
            assert!(dram.buffer > 7 * data && dram.total.is_none_or(|total| total < 4 << 30));
        }
        assert_eq!(usual.data(Place::Disk, Fit::Orders), 124 << 20);
        assert_eq!(usual.dram(Place::Disk, Fit::Orders).total, Some(64 << 20));
        // Persistent memory is not a part of the memory, and caches of it are alike.
        for memory in [32 << 20, 64 << 20, 1 << 30] {
            let sizes = Sizes { memory, data: 1 << 20, orders: 1 << 20 };
            let dram = sizes.dram(Place::Hybrid, Fit::Skewed);
            assert_eq!((dram.total, dram.pool), (Some(memory), memory));
            assert_eq!(dram.block_cache, Some(dram.cache));
            assert_eq!(sizes.data(Place::Hybrid, Fit::Skewed), 4 * memory);
        }
        let tmpfs = Sizes { memory: 1, data: 1 << 30, orders: 1 };
        assert_eq!(tmpfs.dram(Place::Tmpfs, Fit::Spill).pool, 256 << 20);
    }
}
