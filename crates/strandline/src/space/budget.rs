//! The space of a store as a budget: a pure function from figures to limits and reserves. Every rule about how much
//! persistent memory, and room in files, one use leaves to the others is here.

use crate::tree::room::bytes_in_files;

/// Zones that only cleaning may take: two targets.
const CLEAN_ZONES: u32 = 2;
/// Zones that only cleaning and deletes may take: a zone of tombstones and its index table, twice, because a
/// memtable that was flushed for want of space still holds the first.
const DELETE_ZONES: u32 = 4;
/// Tables lie in part of a zone each, so that whole zones come and go with every merge: one zone of so many.
const PARTED_SHARE: u32 = 64;
/// Level 0 always gets one part of so many of the capacity.
const LEVEL0_SHARE: u64 = 16;

/// The purpose of a zone: the reserves differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Commits with values.
    Put,
    /// Commits that only delete, which leads to free space, and those whose space was set aside.
    Delete,
    /// Cleaning, which frees more than it takes.
    Clean,
}

/// How persistent memory is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FreedBy {
    /// Merges of runs, which clean zones: all data stays in persistent memory.
    Merges,
    /// Compactions, which move records to tables. Then merges only keep runs few, and nothing is cleaned.
    Compactions,
}

/// Bytes that index tables may come to need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IndexNeeds {
    /// The tables of all memtables, those to come included.
    pub flushes: u64,
    /// The longest of these.
    pub longest_flush: u64,
    /// The table that the longest merge writes.
    pub longest_merge: u64,
}

/// Bytes of tables, or of value files, in persistent memory: the present limit, and those taken.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PmRoomFigures {
    pub limit: u64,
    pub taken: u64,
    /// Those of the extents that are taken and stay.
    pub bytes: u64,
}

impl PmRoomFigures {
    /// Bytes that may yet be taken.
    fn unused(self) -> u64 {
        self.limit.saturating_sub(self.taken)
    }

    /// Bytes that no one else may have. More than the limit may be taken after a change of options.
    fn held(self) -> u64 {
        self.limit.max(self.taken)
    }
}

/// Bytes of zones that the cache in persistent memory may have, and has. It gives them back when others need them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CacheRoomFigures {
    pub share: u64,
    pub taken: u64,
}

/// Bytes of zones that change streams may keep, and of those that nothing else needs. They are given up when others need them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StreamRoomFigures {
    pub share: u64,
    pub held: u64,
}

/// Room in files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileFigures {
    /// Bytes that files may take, with those that persistent memory will move to them, before writers are refused.
    pub for_writers: u64,
    pub taken: u64,
    /// Bytes of granted zones that do not count as coming to files.
    pub slack: u64,
    /// Bytes at which a table is cut.
    pub cut_at: u64,
}

/// The state that a budget is made for. Bytes, unless said otherwise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpaceFigures {
    pub zone_len: u64,
    pub zones: u32,
    pub free_zones: u32,
    pub capacity: u64,
    /// Bytes of the pool that are taken.
    pub used: u64,
    pub freed_by: FreedBy,
    /// Their number, empty ones included.
    pub subranges: u64,
    /// Largest memtable that the options allow.
    pub memtable_bytes: u64,
    pub indexes: IndexNeeds,
    /// Tables in persistent memory.
    pub pm_tables: PmRoomFigures,
    /// Set aside for prepared transactions.
    pub set_aside: u64,
    /// Value files there.
    pub pm_values: PmRoomFigures,
    pub pm_cache: CacheRoomFigures,
    pub streams: StreamRoomFigures,
    /// If there are files.
    pub files: Option<FileFigures>,
    /// How urgently space has to be freed, in thousandths.
    pub urgency: u32,
}

/// The limits and reserves of all uses. Bytes, unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpaceBudget {
    /// Zones that stay free when a put, or a delete, takes one. Cleaning may use the rest.
    pub put_reserve: u32,
    pub delete_reserve: u32,
    /// Bytes that stay free when writers take zones.
    pub kept_from_writers: u64,
    /// Bytes that writers may still take before space must be reclaimed: zones beyond all reserves and the shares of tables and
    /// value files.
    pub headroom: u64,
    /// Headroom below which space is reclaimed and writers begin to be slowed.
    pub soft_headroom: u64,
    /// Bytes that writers may take before files would have no room for all that is in persistent memory; no limit without
    /// files.
    pub file_room: u64,
    /// Bytes of files that the data in persistent memory will take.
    pub coming_to_files: u64,
    /// Records at which a memtable is flushed at the latest.
    pub memtable_bytes: u64,
    /// Bytes that level 0 of all keyspaces may take, inputs of compactions under way included.
    pub level0_bytes: u64,
    /// Bytes that tables and value files in persistent memory may take.
    pub pm_rooms: u64,
    /// Zones that stay free when the cache takes one, and the zones below that it gives some back.
    pub kept_from_cache: u64,
    pub cache_low: u64,
    /// Room for records that a merge moves.
    pub cleaning_room: u64,
    /// Bytes that it should free by moving them.
    pub cleaning_gain: u64,
}

impl SpaceBudget {
    /// Zones that must stay free when `claim` takes one.
    pub(crate) fn reserved_zones(&self, claim: Claim) -> u32 {
        match claim {
            Claim::Put => self.put_reserve,
            Claim::Delete => self.delete_reserve,
            // The reserves are for index tables, and a merge that cleans writes one itself.
            Claim::Clean => 0,
        }
    }
}

/// Decides the limits and reserves.
pub(crate) fn decide(figures: &SpaceFigures) -> SpaceBudget {
    let &SpaceFigures { zone_len, capacity, free_zones, .. } = figures;
    let compacts = figures.freed_by == FreedBy::Compactions;

    // Reserves: flushes and merges must always have space for their index tables, or no space would ever become free.
    let (for_puts, for_deletes) = index_reserves(figures);
    let zones = |bytes: u64| bytes.div_ceil(zone_len) as u32;
    let clean = if compacts { 0 } else { CLEAN_ZONES };
    // The table of a zone of tombstones is small, and the merge behind it frees more.
    let delete_reserve = zones(for_deletes) + clean;
    // A zone ends before it is quite full, and one is filled that was granted last.
    let set_aside = match figures.set_aside {
        0 => 0,
        bytes => zones(bytes + bytes / 3) + 1,
    };
    let for_writers = clean + DELETE_ZONES + figures.zones / PARTED_SHARE;
    let put_reserve = zones(for_puts) + for_writers + set_aside;
    let kept_from_writers = u64::from(put_reserve) * zone_len;

    // Files must have room for all that persistent memory holds (I-ROOM-1), but for value files, which stay there if nothing else
    // has room for them, and for part of the zones granted to writers: each subrange has one being filled and a spare one.
    let ready = 2 * figures.subranges * zone_len;
    let (coming_to_files, file_room) = match figures.files {
        None => (0, u64::MAX),
        Some(files) => {
            let stays = figures.pm_values.bytes
                + figures.pm_cache.taken
                + figures.streams.held
                + ready.min(files.slack);
            let coming = figures.used.saturating_sub(stays);
            let coming = bytes_in_files(coming + figures.set_aside, files.cut_at);
            (coming, files.for_writers.saturating_sub(files.taken + coming))
        }
    };

    // Writers get what is free beyond the reserves and the rest of the shares of tables and value files.
    let rooms = [figures.pm_tables, figures.pm_values];
    let free = u64::from(free_zones) * zone_len;
    let for_rooms: u64 = rooms.iter().map(|room| room.unused()).sum();
    // What the cache has, and what only streams need, counts as free: it is given back before any writer waits for it.
    let given_back = free + figures.pm_cache.taken + figures.streams.held;
    let headroom = given_back.saturating_sub(kept_from_writers + for_rooms).min(file_room);
    let soft_headroom = (capacity / 8).max(4 * zone_len);
    // The cache takes what is left of the space that writers may fill without being slowed, and gives back by itself before half of
    // that is gone.
    let kept_from_cache = (kept_from_writers + for_rooms + soft_headroom).div_ceil(zone_len);
    let cache_low = (kept_from_writers + for_rooms + soft_headroom / 2).div_ceil(zone_len);

    // Level 0 gets what memtables, their zones, tables, the cache and streams leave of the space that writers may fill without being
    // slowed. With more, writers would be slowed before any of level 0 is due. Memtables get space for one active and two immutable
    // ones, at least for the granted zones.
    let memtables = ready.max(3 * memtable_bytes(figures, FreedBy::Compactions));
    let level0_least = capacity / LEVEL0_SHARE;
    let kept = if compacts { kept_from_writers + soft_headroom } else { 0 };
    let lent = figures.pm_cache.share + figures.streams.share;
    let in_rooms = rooms.iter().map(|room| room.held()).sum::<u64>() + lent;
    let level0_bytes = capacity.saturating_sub(memtables + in_rooms + kept).max(level0_least);

    // Tables and value files in persistent memory get the rest; level 0 keeps its least, whatever they take.
    let others = kept_from_writers + soft_headroom + memtables + level0_least + lent;

    // Cleaning takes half of the free zones: writers need the other half until the merge ends.
    let for_cleaning = free_zones.saturating_sub(delete_reserve) / 2;
    let cleaning_zones = for_cleaning.max(free_zones.min(CLEAN_ZONES));
    SpaceBudget {
        put_reserve,
        delete_reserve,
        kept_from_writers,
        headroom,
        soft_headroom,
        file_room,
        coming_to_files,
        memtable_bytes: memtable_bytes(figures, figures.freed_by),
        level0_bytes,
        pm_rooms: capacity.saturating_sub(others),
        kept_from_cache,
        cache_low,
        cleaning_room: u64::from(cleaning_zones) * zone_len,
        cleaning_gain: if figures.urgency == 0 { 0 } else { 2 * soft_headroom },
    }
}

/// Bytes that stay free for index tables when puts, and when deletes, take zones.
fn index_reserves(figures: &SpaceFigures) -> (u64, u64) {
    let &SpaceFigures { capacity, indexes, .. } = figures;
    match figures.freed_by {
        FreedBy::Merges => {
            let cap = capacity / 2;
            let all = indexes.flushes + indexes.longest_merge;
            (all.min(cap), indexes.longest_merge.min(cap))
        }
        // Memtables can be flushed one after the other, so not all need space at once: with many subranges in a small pool the
        // sum would leave writers almost none. Memtables of deletes are flushed first, too, so they need the longest.
        FreedBy::Compactions => {
            let cap = indexes.longest_flush.max(capacity / 4);
            (indexes.flushes.min(cap), indexes.longest_flush.min(cap))
        }
    }
}

/// Level 0 must have room beside the active and the immutable memtables: twice, if it is compacted to tables.
fn memtable_bytes(figures: &SpaceFigures, freed_by: FreedBy) -> u64 {
    let share = match freed_by {
        FreedBy::Compactions => 16,
        FreedBy::Merges => 4,
    };
    figures.memtable_bytes.min(figures.capacity / share)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A pool of 256 zones of 4 MiB, half of them free, without tables.
    fn in_memory() -> SpaceFigures {
        SpaceFigures {
            zone_len: 4 * MIB,
            zones: 256,
            free_zones: 128,
            capacity: 1024 * MIB,
            used: 512 * MIB,
            freed_by: FreedBy::Merges,
            subranges: 1,
            memtable_bytes: 64 * MIB,
            indexes: IndexNeeds {
                flushes: 10 * MIB,
                longest_flush: 6 * MIB,
                longest_merge: 30 * MIB,
            },
            set_aside: 0,
            pm_tables: PmRoomFigures::default(),
            pm_values: PmRoomFigures::default(),
            pm_cache: CacheRoomFigures::default(),
            streams: StreamRoomFigures::default(),
            files: None,
            urgency: 0,
        }
    }

    /// So much may be taken of a room, and so much is, in MiB.
    fn room(limit: u64, taken: u64) -> PmRoomFigures {
        PmRoomFigures { limit: limit * MIB, taken: taken * MIB, bytes: taken * MIB }
    }

    /// The same with files, and tables in both places.
    fn with_tables() -> SpaceFigures {
        SpaceFigures {
            freed_by: FreedBy::Compactions,
            pm_tables: room(200, 150),
            files: Some(FileFigures {
                for_writers: 10_000 * MIB,
                taken: 2000 * MIB,
                slack: 6 * MIB,
                cut_at: 32 * MIB,
            }),
            ..in_memory()
        }
    }

    #[test]
    fn reserves() {
        let needs = |flushes, longest_flush, longest_merge| {
            let mib = |count: u64| count * MIB;
            IndexNeeds {
                flushes: mib(flushes),
                longest_flush: mib(longest_flush),
                longest_merge: mib(longest_merge),
            }
        };
        // Zones kept from puts and from deletes. Of all 256 four are for parts of zones, four for deletes, two for cleaning.
        let table = [
            (in_memory(), needs(0, 0, 0), (10, 2)),
            (in_memory(), needs(10, 6, 30), (20, 10)),
            (in_memory(), needs(1, 1, 1), (11, 3)),
            // Half of the pool at most.
            (in_memory(), needs(900, 20, 30), (138, 10)),
            (in_memory(), needs(1, 1, 900), (138, 130)),
            // Merges need nothing; a quarter of the pool at most, or the longest flush.
            (with_tables(), needs(0, 0, 0), (8, 0)),
            (with_tables(), needs(10, 6, 30), (11, 2)),
            (with_tables(), needs(900, 20, 0), (72, 5)),
            (with_tables(), needs(900, 400, 0), (108, 100)),
        ];
        for (figures, indexes, expected) in table {
            let budget = decide(&SpaceFigures { indexes, ..figures });
            let reserves = (budget.put_reserve, budget.delete_reserve);
            assert_eq!(reserves, expected, "{indexes:?}, {:?}", figures.freed_by);
            assert_eq!(budget.kept_from_writers, u64::from(expected.0) * 4 * MIB);
            assert_eq!(budget.reserved_zones(Claim::Put), expected.0);
            assert_eq!(budget.reserved_zones(Claim::Delete), expected.1);
            assert_eq!(budget.reserved_zones(Claim::Clean), 0);
        }
    }

    #[test]
    fn what_is_set_aside_is_kept_from_puts() {
        for figures in [in_memory(), with_tables()] {
            let (before, with) =
                (decide(&figures), decide(&SpaceFigures { set_aside: 30 * MIB, ..figures }));
            assert_eq!(with.put_reserve, before.put_reserve + 11, "40 MiB, and a zone");
            assert_eq!(with.delete_reserve, before.delete_reserve);
            assert_eq!(with.headroom, before.headroom - 44 * MIB);
            let room = |budget: SpaceBudget| budget.file_room / MIB;
            assert!(figures.files.is_none() || room(with) < room(before) - 29);
        }
    }

    #[test]
    fn headroom() {
        let of = |figures: SpaceFigures| decide(&figures).headroom / MIB;
        assert_eq!(of(in_memory()), 512 - 20 * 4);
        assert_eq!(of(SpaceFigures { free_zones: 20, ..in_memory() }), 0);
        assert_eq!(of(SpaceFigures { free_zones: 0, ..in_memory() }), 0);
        assert_eq!(of(with_tables()), 512 - 11 * 4 - 50, "tables may take 50 MiB more");
        let greedy = SpaceFigures { pm_tables: room(100, 150), ..with_tables() };
        assert_eq!(of(greedy), 512 - 11 * 4);
        // What one has too much of is not the other's.
        let both = SpaceFigures { pm_values: room(80, 50), ..greedy };
        assert_eq!(of(both), 512 - 11 * 4 - 30);
        let soft = |capacity, zone_len| {
            decide(&SpaceFigures { capacity, zone_len, ..in_memory() }).soft_headroom
        };
        assert_eq!(soft(1024 * MIB, 4 * MIB), 128 * MIB);
        assert_eq!(soft(1024 * MIB, 64 * MIB), 256 * MIB, "four zones at least");
    }

    #[test]
    fn files_have_room_for_all_that_is_in_persistent_memory() {
        let full = with_tables().files.expect("files");
        let of = |files: FileFigures| {
            let budget = decide(&SpaceFigures { files: Some(files), ..with_tables() });
            (budget.coming_to_files, budget.file_room, budget.headroom)
        };
        // 512 MiB less 6 of zones that stand ready, in tables of 32 MiB with a KiB of their own each.
        let coming = 506 * MIB + 16 * 1024;
        let headroom = 418 * MIB;
        assert_eq!(of(full), (coming, 8000 * MIB - coming, headroom));
        // What stands ready is two zones, and so is what counts for nothing at most.
        let slack = FileFigures { slack: 100 * MIB, ..full };
        assert_eq!(of(slack).0, 504 * MIB + 16 * 1024);
        let short = FileFigures { taken: 9400 * MIB, ..full };
        assert_eq!(of(short), (coming, 600 * MIB - coming, 600 * MIB - coming));
        let none = FileFigures { taken: 9600 * MIB, ..full };
        assert_eq!(of(none), (coming, 0, 0));
        let budget = decide(&in_memory());
        assert_eq!((budget.coming_to_files, budget.file_room), (0, u64::MAX));
    }

    #[test]
    fn level_0_and_tables_share_what_is_left() {
        let of = |figures: SpaceFigures| {
            let budget = decide(&figures);
            (budget.level0_bytes / MIB, budget.pm_rooms / MIB)
        };
        // Three memtables of 64 MiB; with tables also their share, 44 MiB of reserves, and the soft headroom.
        assert_eq!(of(in_memory()).0, 1024 - 192);
        let tables = 1024 - 44 - 128 - 192 - 64;
        assert_eq!(of(with_tables()), (1024 - 192 - 200 - 44 - 128, tables));
        // What stands ready is more where there are many subranges.
        let many = SpaceFigures { subranges: 50, ..with_tables() };
        assert_eq!(of(many), (1024 - 400 - 200 - 44 - 128, tables + 192 - 400));
        // Tables take more than they may now: level 0 has its least.
        let greedy = SpaceFigures { pm_tables: room(200, 900), ..with_tables() };
        assert_eq!(of(greedy), (64, tables));
        let both = SpaceFigures { pm_values: room(100, 150), ..with_tables() };
        assert_eq!(of(both), (1024 - 192 - 200 - 150 - 44 - 128, tables));
        let crowded = SpaceFigures { subranges: 500, ..with_tables() };
        assert_eq!(of(crowded), (64, 0));
    }

    /// What streams hold is free for writers, comes to no file, and is not level 0's.
    #[test]
    fn streams_are_lent_what_they_hold() {
        let streams = StreamRoomFigures { share: 100 * MIB, held: 60 * MIB };
        let (without, with) =
            (decide(&with_tables()), decide(&SpaceFigures { streams, ..with_tables() }));
        assert_eq!(with.headroom, without.headroom + 60 * MIB);
        assert_eq!(with.level0_bytes, without.level0_bytes - 100 * MIB);
        assert_eq!(with.pm_rooms, without.pm_rooms - 100 * MIB);
        let fewer = without.coming_to_files - with.coming_to_files;
        assert!((60 * MIB..61 * MIB).contains(&fewer), "{fewer}");
        assert_eq!(with.kept_from_cache, without.kept_from_cache);
    }

    #[test]
    fn memtables_leave_room_for_level_0() {
        let of = |capacity, freed_by| {
            decide(&SpaceFigures { capacity, freed_by, ..in_memory() }).memtable_bytes / MIB
        };
        assert_eq!(of(1024 * MIB, FreedBy::Merges), 64);
        assert_eq!(of(128 * MIB, FreedBy::Merges), 32);
        assert_eq!(of(1024 * MIB, FreedBy::Compactions), 64);
        assert_eq!(of(128 * MIB, FreedBy::Compactions), 8);
    }

    #[test]
    fn cleaning() {
        let of = |free_zones, urgency| {
            let budget = decide(&SpaceFigures { free_zones, urgency, ..in_memory() });
            (budget.cleaning_room / MIB, budget.cleaning_gain / MIB)
        };
        // Half of what is beyond the ten zones that deletes leave.
        assert_eq!(of(128, 0), (59 * 4, 0));
        assert_eq!(of(128, 1), (59 * 4, 256));
        assert_eq!(of(11, 1000), (2 * 4, 256), "two targets, whatever is kept");
        assert_eq!(of(1, 1000), (4, 256));
        assert_eq!(of(0, 1000), (0, 256));
    }
}
