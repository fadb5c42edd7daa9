//! Room for files of tables: a limit, and a reserve in it for work that frees space.
//!
//! A merge writes its output before its inputs are removed, so files at their limit could never shrink. Refused are first
//! writers of values and ingested files, while files still have room for all data in persistent memory, and for deletions;
//! then level 0 and merges of whole levels. The merge of one table with the tables that it overlaps in the next level may take
//! all the room: it frees what was deleted and overwritten. If level 0 could take that room, too, deletions could fill files
//! with tables that have no room to be merged.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Tables, as large as they are cut, that each part of the reserve holds: one, and what it overlaps of the level below.
const RESERVED_TABLES: u64 = 12;
/// If there is little room, tables are so small that each part of the reserve is one of so many of all room.
const RESERVE_SHARE: u64 = 16;
/// No part of the reserve is more than one of so many of all room. It is that much if tables would otherwise be smaller than
/// `TABLE_BYTES_LIGHT`.
const RESERVE_SHARE_MAX: u64 = 4;
/// Tables from this size on have little overhead beside their entries.
const TABLE_BYTES_LIGHT: u64 = 8 * TABLE_OVERHEAD;
/// Bytes at which the smallest tables are cut.
const TABLE_BYTES_MIN: u64 = 1 << 10;
/// Bytes of a table beside its entries: its index, filter, properties and footer.
const TABLE_OVERHEAD: u64 = 1 << 10;

/// The purpose of room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writes {
    /// Compactions of level 0 and of whole levels, and ingested files.
    Levels,
    /// Work that frees space: the merge of one table with those that it overlaps, or the collection of value files. Persistent memory keeps
    /// room for that, too.
    Relief,
}

/// Room beyond the limit, in bytes, of a store whose files took more when it was opened. All are 0 in others.
#[derive(Default)]
struct Over {
    /// Bytes that files may take. It falls as they take less.
    most: AtomicU64,
    /// How much `most` is above what they take.
    margin: AtomicU64,
    /// The part of the margin that is kept for relief, since tables may be larger than new ones.
    reserve: AtomicU64,
}

/// Room for files.
pub(crate) struct FileRoom {
    /// Bytes that the options allow.
    given: u64,
    /// Bytes at which a table is cut if there is room enough.
    table_bytes: u64,
    /// Bytes that the device had for files, present ones included, when it was asked last.
    device: AtomicU64,
    /// Bytes of files that tables or dead tables have.
    taken: AtomicU64,
    over: Over,
    /// Bytes of the largest table at the open.
    largest: AtomicU64,
}

impl FileRoom {
    /// Room for `limit` bytes, or, if that is 0, for what the device has, in tables cut at `table_bytes`.
    pub(crate) fn new(limit: u64, table_bytes: u64) -> FileRoom {
        FileRoom {
            given: if limit == 0 { u64::MAX } else { limit },
            table_bytes,
            device: AtomicU64::new(u64::MAX),
            taken: AtomicU64::new(0),
            over: Over::default(),
            largest: AtomicU64::new(0),
        }
    }

    /// As much as the device has.
    pub(crate) fn unlimited() -> FileRoom {
        FileRoom::new(0, u64::MAX)
    }

    /// Notes how many bytes more the device takes.
    pub(super) fn note_device(&self, free: u64) {
        self.device.store(self.taken().saturating_add(free), Relaxed);
    }

    /// Called at an open, once all tables are counted; `coming` bytes will become files. If files take more than merges of
    /// levels may, because an earlier open allowed more, merges go beyond the limit as far as they would in a full store.
    /// Otherwise none would have room, and deletions would never free anything.
    pub(crate) fn note_found(&self, coming: u64) {
        let taken = self.taken();
        if taken <= self.limit().saturating_sub(self.reserve()) {
            return;
        }
        // With few tables, the merge of one may read most of them.
        let largest = RESERVED_TABLES.saturating_mul(self.largest.load(Relaxed));
        let reserve = largest.min(taken).max(self.reserve());
        // All data may be rewritten in smaller tables, whose overhead is larger.
        let margin = coming + self.in_files(taken) - taken + self.reserve() + reserve;
        self.over.reserve.store(reserve, Relaxed);
        self.over.margin.store(margin, Relaxed);
        self.over.most.store(taken + margin, Relaxed);
    }

    /// Bytes that files may take.
    pub(crate) fn limit(&self) -> u64 {
        self.given.min(self.device.load(Relaxed))
    }

    /// Bytes that they take.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Relaxed)
    }

    /// Bytes at which a table is cut: with little room, the merge of one table must not need much of it.
    pub(crate) fn cut_at(&self) -> u64 {
        let of = |share| self.limit() / (RESERVED_TABLES * share);
        let light = TABLE_BYTES_LIGHT.min(of(RESERVE_SHARE_MAX));
        self.table_bytes.min(of(RESERVE_SHARE).max(light).max(TABLE_BYTES_MIN))
    }

    /// A figure that rises as files take less, whatever the limit. It means nothing by itself.
    pub(crate) fn untaken(&self) -> u64 {
        (u64::MAX / 2).saturating_sub(self.taken())
    }

    /// Bytes that `writes` may still take.
    pub(crate) fn left(&self, writes: Writes) -> u64 {
        self.most(writes).saturating_sub(self.taken())
    }

    /// Bytes that files, and data that will become files, may take before writers are refused.
    pub(crate) fn for_writers(&self) -> u64 {
        self.limit().saturating_sub(2 * self.reserve())
    }

    /// Bytes of files that `len` bytes of records take, about, where blocks are not compressed.
    pub(crate) fn in_files(&self, len: u64) -> u64 {
        bytes_in_files(len, self.cut_at())
    }

    /// Bytes of zones granted to writers that do not count as coming to files: otherwise a store with room for little more
    /// than those zones would refuse all writes.
    pub(crate) fn slack(&self) -> u64 {
        self.reserve() / 2
    }

    fn most(&self, writes: Writes) -> u64 {
        let over = self.over.most.load(Relaxed).min(self.device.load(Relaxed));
        match writes {
            Writes::Levels => {
                let kept = self.over.reserve.load(Relaxed);
                self.limit().saturating_sub(self.reserve()).max(over.saturating_sub(kept))
            }
            Writes::Relief => self.limit().max(over),
        }
    }

    fn reserve(&self) -> u64 {
        RESERVED_TABLES.saturating_mul(self.cut_at()).min(self.limit() / RESERVE_SHARE_MAX)
    }

    /// Takes `len` bytes; those that are taken, if there is no room for them.
    pub(super) fn take(&self, len: u64, writes: Writes) -> Result<(), u64> {
        let most = self.most(writes);
        let take = |taken: u64| taken.checked_add(len).filter(|sum| *sum <= most);
        self.taken.fetch_update(Relaxed, Relaxed, take).map(drop)
    }

    /// Counts `len` bytes of a table that is there.
    pub(super) fn count(&self, len: u64) {
        self.largest.fetch_max(len, Relaxed);
        self.taken.fetch_add(len, Relaxed);
    }

    /// Gives `len` bytes back.
    pub(super) fn give_back(&self, len: u64) {
        let left = self.taken.fetch_sub(len, Relaxed) - len;
        // With half of the writers' room free, merges need nothing beyond the limit.
        let most = match left < self.for_writers() / 2 {
            true => 0,
            false => left.saturating_add(self.over.margin.load(Relaxed)),
        };
        self.over.most.fetch_min(most, Relaxed);
    }
}

/// Bytes of files that `len` bytes of records take, about, in tables cut at `cut_at`.
pub(crate) fn bytes_in_files(len: u64, cut_at: u64) -> u64 {
    len + len.div_ceil(cut_at) * TABLE_OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_reserve_is_taken_by_what_frees_space_alone() {
        let room = FileRoom::new(192 * MIB, 32 * MIB);
        assert_eq!(room.cut_at(), MIB, "a table and ten that it overlaps are a sixteenth");
        assert_eq!(room.for_writers(), 168 * MIB);
        room.count(170 * MIB);
        assert_eq!((room.left(Writes::Levels), room.left(Writes::Relief)), (10 * MIB, 22 * MIB));
        assert_eq!(room.take(11 * MIB, Writes::Levels), Err(170 * MIB));
        assert_eq!(room.take(11 * MIB, Writes::Relief), Ok(()));
        assert_eq!(room.left(Writes::Levels), 0);
        room.give_back(100 * MIB);
        assert_eq!(room.left(Writes::Levels), 99 * MIB);
    }

    #[test]
    fn the_limit_is_what_the_device_has_or_less() {
        let room = FileRoom::new(0, 32 * MIB);
        assert_eq!((room.limit(), room.cut_at()), (u64::MAX, 32 * MIB));
        room.count(10 * MIB);
        room.note_device(90 * MIB);
        assert_eq!(room.limit(), 100 * MIB);
        let small = FileRoom::new(4 << 10, 32 * MIB);
        assert_eq!((small.cut_at(), small.for_writers()), (1 << 10, 2 << 10));
    }

    #[test]
    fn what_was_there_before_a_smaller_limit_is_merged_and_stays_gone() {
        let room = FileRoom::new(192 * MIB, 32 * MIB);
        (0..150).for_each(|_| room.count(2 * MIB));
        assert_eq!(room.left(Writes::Relief), 0);
        room.note_found(10 * MIB);
        assert_eq!((room.limit(), room.for_writers()), (192 * MIB, 168 * MIB));
        let margin = 10 * MIB + 300 * TABLE_OVERHEAD + (12 + 24) * MIB;
        assert_eq!(
            (room.left(Writes::Levels), room.left(Writes::Relief)),
            (margin - 24 * MIB, margin)
        );
        assert_eq!(room.take(10 * MIB, Writes::Levels), Ok(()));
        room.give_back(100 * MIB);
        assert_eq!(room.left(Writes::Relief), margin, "what went does not come back");
        room.give_back(130 * MIB);
        assert_eq!(room.left(Writes::Relief), 112 * MIB, "the limit is all there is");
    }

    /// Level 0 once had less than the limit leaves it, where old tables were large: writers were let in for what could not
    /// leave persistent memory.
    #[test]
    fn on_its_way_below_the_limit_no_merge_has_less_than_there() {
        let room = FileRoom::new(192 * MIB, 32 * MIB);
        (0..75).for_each(|_| room.count(4 * MIB));
        room.note_found(0);
        while room.taken() > 0 {
            room.give_back(5 * MIB);
            let least = |writes, most: u64| room.left(writes) >= most.saturating_sub(room.taken());
            assert!(least(Writes::Levels, 180 * MIB) && least(Writes::Relief, 192 * MIB));
        }
        assert_eq!(room.left(Writes::Relief), 192 * MIB);
    }

    /// What is full of its own accord has its reserve, and one large table changes nothing.
    #[test]
    fn a_store_that_is_full_at_its_limit_does_not_go_over_it() {
        let room = FileRoom::new(192 * MIB, 32 * MIB);
        room.count(80 * MIB);
        (0..100).for_each(|_| room.count(MIB));
        room.note_found(20 * MIB);
        assert_eq!((room.left(Writes::Levels), room.left(Writes::Relief)), (0, 12 * MIB));
    }

    /// A table of some kilobytes is to a good part what it has beside its entries.
    #[test]
    fn small_tables_are_bought_with_a_larger_reserve() {
        let room = FileRoom::new(768 << 10, 32 * MIB);
        assert_eq!((room.cut_at(), room.for_writers()), (8 << 10, 576 << 10));
        assert_eq!(room.in_files(9 << 10), 11 << 10, "two tables");
        let smaller = FileRoom::new(192 << 10, 32 * MIB);
        assert_eq!((smaller.cut_at(), smaller.for_writers()), (4 << 10, 96 << 10));
    }
}
