//! The shapes of the workloads: number and kinds of operations, and their keys.

use sim::{Keys, Shape};

use super::engines::{GAPS, PM_TABLES, SHORT_OF_ROOM};
use super::system::{KINDS, KINDS_OF_CUTS, KINDS_OF_LEVELS, KINDS_OF_STREAMS};

/// A little of everything that a store without tables does.
pub fn mixed() -> Shape {
    Shape {
        ops: 8,
        keys: Keys::short(4),
        keyspaces: 2,
        value_lens: vec![8, 16, 90],
        batches: 20,
        reads: 10,
        abandons: 5,
        background: 15,
        kinds: KINDS,
        reopens: 3,
        ..Shape::default()
    }
}

/// Many small overwrites with much background work: zones are retired, cleaned and granted anew.
pub fn churn() -> Shape {
    Shape {
        ops: 36,
        keys: Keys::short(5),
        value_lens: vec![8, 16, 90, 100],
        deletes: 12,
        batches: 10,
        reads: 6,
        abandons: 2,
        background: 28,
        reopens: 4,
        ..mixed()
    }
}

/// Batches that fill several zones, among other writes.
pub fn large() -> Shape {
    Shape { ops: 14, large: 30, batches: 10, range_deletes: 6, merges: 15, reads: 14, ..mixed() }
}

/// The same with much background work: what they filled is flushed, cleaned and granted anew.
pub fn large_churn() -> Shape {
    Shape { ops: 36, large: 18, range_deletes: 4, merges: 10, ..churn() }
}

/// The same with tables.
pub fn large_levels() -> Shape {
    Shape { large: 18, range_deletes: 4, merges: 10, ..levels() }
}

/// The same among everything that concerns the whole store.
pub fn large_whole() -> Shape {
    Shape { large: 15, ..whole() }
}

/// So much that the log wraps around several times: old segments go, and what counts of them is written again.
pub fn wraps() -> Shape {
    Shape { ops: 220, abandons: 8, reopens: 1, ..churn() }
}

/// Readers that sleep while what they read is overwritten, flushed and merged away.
pub fn readers() -> Shape {
    Shape {
        ops: 40,
        keys: Keys::short(3),
        reads: 30,
        background: 30,
        reopens: 0,
        abandons: 0,
        ..churn()
    }
}

/// Values that have expired hide others and are hidden, sink, and go.
pub fn expiring() -> Shape {
    Shape { keyspaces: 2, deletes: 30, range_deletes: 6, checkpoints: 4, ..levels() }
}

/// The same where all data stays in persistent memory.
pub fn expiring_runs() -> Shape {
    Shape { keyspaces: 2, deletes: 30, range_deletes: 4, ..churn() }
}

/// As much as there is room for, and more: what is deleted has to go to where it frees some.
pub fn short_of_room() -> Shape {
    Shape {
        ops: 120,
        keys: SHORT_OF_ROOM.keys,
        deletes: 25,
        range_deletes: 3,
        value_lens: vec![90, 100],
        reopens: 1,
        ..sink()
    }
}

/// Everything that moves: zones to tables, tables to tables below them.
pub fn levels() -> Shape {
    Shape {
        ops: 40,
        keys: Keys::short(6),
        value_lens: vec![8, 90, 100],
        deletes: 15,
        batches: 25,
        background: 30,
        kinds: KINDS_OF_LEVELS,
        ..churn()
    }
}

/// Many keys of one keyspace: levels outgrow their targets, and tables sink.
pub fn sink() -> Shape {
    Shape {
        ops: 60,
        keys: Keys::short(8),
        keyspaces: 1,
        value_lens: vec![90, 100],
        background: 35,
        ..levels()
    }
}

/// Values of their own files: overwritten, deleted, merged into, copied, so that files are collected.
pub fn values() -> Shape {
    Shape {
        ops: 70,
        value_lens: vec![8, 90, 100],
        deletes: 10,
        merges: 12,
        range_deletes: 4,
        checkpoints: 3,
        ..sink()
    }
}

/// Reads of values and tables that come and go, across opens.
pub fn cached() -> Shape {
    Shape { ops: 110, reads: 40, background: 40, reopens: 4, ..values() }
}

/// Readers that sleep while the files of what they read are collected.
pub fn values_readers() -> Shape {
    Shape { keys: Keys::short(3), value_lens: vec![90], background: 45, ops: 60, ..snapshots() }
}

/// Files of many values. Some of these are overwritten each time, and what is left is written anew.
pub fn values_many() -> Shape {
    Shape { keys: Keys::short(16), ops: 120, background: 45, reopens: 1, ..values() }
}

/// Values of persistent memory, overwritten until their extents are others'.
pub fn values_in_pm() -> Shape {
    Shape { keys: Keys::short(16), ops: 90, value_lens: vec![8, 90, 200], ..values() }
}

/// Readers that sleep while the extents of what they read are collected.
pub fn values_in_pm_readers() -> Shape {
    Shape { keys: Keys::short(6), ops: 90, value_lens: vec![90, 200], ..values_readers() }
}

/// Values of their own files, whose tables are parted by what is deleted in ranges.
pub fn values_ranges() -> Shape {
    Shape { range_deletes: 14, deletes: 4, background: 40, checkpoints: 0, ..values() }
}

/// Tables that are read, and move from tier to tier.
pub fn tiers() -> Shape {
    Shape { ops: 90, reads: 25, background: 40, reopens: 3, checkpoints: 2, ..sink() }
}

/// Readers that sleep while what they read moves to another tier.
pub fn tiers_readers() -> Shape {
    Shape {
        ops: 120,
        keys: Keys::short(8),
        value_lens: vec![150],
        reads: 40,
        background: 35,
        ..snapshots()
    }
}

/// Levels with gaps, into which tables move.
pub fn gaps() -> Shape {
    Shape {
        ops: 250,
        keys: GAPS.keys,
        deletes: 5,
        range_deletes: 6,
        background: 40,
        reopens: 1,
        ..sink()
    }
}

/// Readers that sleep while what they read goes to tables, and from table to table.
pub fn snapshots() -> Shape {
    Shape { kinds: KINDS_OF_LEVELS, keyspaces: 1, value_lens: vec![8, 90], ..readers() }
}

/// Values so long that level 0 is compacted every few writes: tables come and go in persistent memory.
pub fn pm_tables() -> Shape {
    Shape { ops: 90, keys: PM_TABLES.keys, value_lens: vec![90, 200], ..sink() }
}

/// Ranges deleted and operands merged, at every station of the way down.
pub fn ranges() -> Shape {
    Shape {
        keys: Keys::short(7),
        keyspaces: 1,
        value_lens: vec![8, 16, 40],
        deletes: 5,
        range_deletes: 12,
        merges: 50,
        batches: 20,
        background: 35,
        ..levels()
    }
}

/// Few keys with many operands, which are combined in memory by threads that take turns, and readers that tell some of
/// them apart.
pub fn folds() -> Shape {
    Shape {
        ops: 80,
        keys: Keys::short(4),
        keyspaces: 1,
        value_lens: vec![8],
        deletes: 2,
        range_deletes: 2,
        merges: 88,
        batches: 25,
        reads: 12,
        background: 30,
        kinds: KINDS,
        ..churn()
    }
}

/// Files taken in among other writes to the same keys.
pub fn ingests() -> Shape {
    Shape {
        ops: 30,
        keys: Keys::short(5),
        keyspaces: 2,
        ingests: 10,
        range_deletes: 5,
        merges: 20,
        ..ranges()
    }
}

/// Copies of the store, with commits in flight.
pub fn checkpoints() -> Shape {
    Shape { ops: 30, keys: Keys::short(5), keyspaces: 2, checkpoints: 10, merges: 30, ..ranges() }
}

/// A keyspace that comes and goes.
pub fn keyspaces() -> Shape {
    Shape {
        keys: Keys::short(5),
        keyspaces: 3,
        admin: 12,
        range_deletes: 4,
        merges: 15,
        ..ranges()
    }
}

/// Subranges that are split and joined while records in them are written, flushed and merged.
pub fn cuts() -> Shape {
    Shape {
        ops: 40,
        keys: Keys::short(6),
        keyspaces: 1,
        range_deletes: 4,
        batches: 30,
        background: 40,
        kinds: KINDS_OF_CUTS,
        ..churn()
    }
}

/// All of that at once.
pub fn whole() -> Shape {
    Shape { ingests: 5, checkpoints: 5, admin: 8, kinds: KINDS_OF_CUTS, ..keyspaces() }
}

/// Little more than that a store is made.
pub fn creation() -> Shape {
    Shape { ops: 3, keys: Keys::short(3), keyspaces: 1, background: 10, reopens: 1, ..levels() }
}

/// A store with something of everything, opened again and again.
pub fn moves() -> Shape {
    Shape { ops: 12, reopens: 3, ..keyspaces() }
}

/// Overwrites, batches and long values, background work that frees what they were in, and a consumer that comes now and then.
pub fn streams() -> Shape {
    Shape {
        ops: 44,
        keys: Keys::short(5),
        keyspaces: 2,
        value_lens: vec![8, 16, 90, 200],
        deletes: 10,
        range_deletes: 3,
        merges: 15,
        batches: 25,
        reads: 2,
        abandons: 5,
        background: 40,
        kinds: KINDS_OF_STREAMS,
        reopens: 4,
        ..mixed()
    }
}

/// The same with large commits.
pub fn streams_large() -> Shape {
    Shape { ops: 24, large: 15, ..streams() }
}

/// The same with keyspaces that come and go, and files that are taken in.
pub fn streams_whole() -> Shape {
    Shape { keyspaces: 3, admin: 8, ingests: 3, checkpoints: 2, ..streams() }
}
