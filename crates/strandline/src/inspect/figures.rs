//! The fields of all figures that go over the socket.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use base::{Deadlock, ErrorKind, LockMode, LockTarget, LockWait};
use pmem::{Durability, Field, JournalFigures, ModelFigures, Pages, StatsSnapshot};
use pool::Wear;
use serde_json::Value;
use ssd::DeviceFigures;

use super::wire::{Sink, Wire, wire, wire_open};
use crate::cache::{CacheFigures, PmCacheFigures};
use crate::compaction::under_way::figures::CompactionFigures;
use crate::engine::large_turn::LargeCommitFigures;
use crate::engine::transactions::TransactionFigures;
use crate::locks::status::{LockFigures, LockOwner, LockOwnerKind, LockReport, LockStatus};
use crate::machine::{ChosenBy, MachineMemory, PmChoice};
use crate::observe::basis::Basis;
use crate::observe::dram::DramUse;
use crate::observe::pages::MemoryPages;
use crate::observe::places::{HeldBytes, MemoryPlaces};
use crate::observe::properties::{
    KeyspaceProperties, LevelProperties, Properties, RunProperties, SsdProperties,
    SubrangeProperties, TableProperties, TierProperties, ValueFileProperties,
};
use crate::options::{Compression, KeyspaceOptions, KeyspacePlacement, KeyspaceTiers, Placement};
use crate::probe::{Probe, ProbeSource, TimedProbe};
use crate::recovery::recover::{Damage, Report};
use crate::stream::slots::StreamFigures;
use crate::tracer::TraceSummary;

wire! {
    Properties {
        basis, durability, durability_note, pm, pm_choice, wal, flush_instruction, pm_capacity, pm_free, pm_headroom,
        zone_bytes, zones_free, zones, visible_seq, snapshots, scans_passed, transactions, locks, large_commits, streams, pm_held_by_streams, persisted, pm_model, places, ssd_device, dram_bytes, dram,
        dram_budget, memory, anonymous_bytes, debt, upkeep_looks, slowed, refusing_writes, ssd, damage_met,
        hook_failures, hook_failure, inspected_at, inspect_failure, trace, keyspaces,
    }
    LockFigures { held, bytes, waits, wait_micros, timeouts, deadlocks, expired }
    StreamFigures { name, acked, lost, behind, backlog_bytes, held_bytes, max_bytes }
    LargeCommitFigures { committed, bytes, zones }
    TransactionFigures { open, committed, conflicts, looks, holds }
    LockReport { locks, count, bytes, deadlocks }
    LockStatus { keyspace, target, mode, holders, waiting }
    LockOwner { number, kind, name }
    Deadlock { at, cycle, victim }
    LockWait { transaction, keyspace, target, mode, held_by }
    MemoryPlaces { memtables, block_cache }
    HeldBytes { dir, dram, volatile }
    DramUse { memtables, runs, building, writing, tables, blocks, records, pm_cache, cache_spare }
    TraceSummary { path, records, bytes, ended }
    MachineMemory { bytes, limited_by }
    PmChoice { by, found }
    MemoryPages { records, anonymous }
    Pages { size, resident, huge }
    SsdProperties { dir, fs, bytes, limit, tiers, pm_bytes, pm_limit, pm_value_bytes, pm_value_limit, cache, pm_cache, compactions, trouble }
    TierProperties { no, dir, bytes, limit, leaving, device }
    KeyspaceProperties {
        name, options, memtable_records, memtables, memtable_bytes, index_dram_bytes, fences_dram_bytes, runs,
        subranges, memtable_range_deletes, level0_target, levels, value_files,
    }
    KeyspaceOptions {
        compression, compression_level, filter_bits, memtable_bytes, value_files_min, placement, tiers, ttl,
        merge_operator, compaction_filter,
    }
    SubrangeProperties {
        id, from, before, memtables, memtable_bytes, runs, record_bytes, other_bytes, heat,
    }
    LevelProperties { level, target, tables }
    TableProperties {
        id, path, tier, reads, pm_at, bytes, entries, deletions, range_deletes, smallest, largest, min_seq, max_seq,
    }
    ValueFileProperties { id, path, tier, reads, pm_at, bytes, values, live_values, live_bytes, tables }
    RunProperties {
        id, entries, index_bytes, record_bytes, range_deletes, zones, min_seq, max_seq,
    }
    JournalFigures {
        segments, bytes, live_bytes, written_bytes, kept_bytes, writes, syncs, recycled, made_ahead, direct,
        zeroed_bytes, streamed_bytes,
    }
    Field { name, wanted, effect }
    PmCacheFigures {
        limit, taken, bytes, entries, dram_bytes, hits, misses, inserts, carried_over, written_bytes, refused, failed, zones_given_back, warm,
    }
    CacheFigures {
        budget, charged, volatile, held, hits, misses, inserts, evictions, purged, refused, record_bytes, record_hits, record_misses, record_inserts,
        records_dropped, low, low_share, low_hits, low_misses, bypassed, warmed, warmed_bytes, warm_failed,
    }
    CompactionFigures {
        level0, levels, parted, moves, failed, entries, read_bytes, written_bytes, pm_written_bytes,
        collected, value_bytes, pm_value_bytes, tier_moves, tier_move_bytes, time,
    }
    Wear { least, mean, most, unknown }
    Report {
        zones_scanned, bytes_scanned, scan, rebuild, records, versions_passed, survivors_dropped,
        zones_swept, tables_swept, cut, damage, edits_lost, elapsed,
    }
    Damage { file, zone, at, len, what }
    TimedProbe { probe, ns }
    Probe { source, passed_filter, found, versions, bytes }
}

wire_open! {
    StatsSnapshot {
        bytes_stored, bytes_streamed, lines_flushed, fences, redundant_flushes, bytes_by_site,
    }
    ModelFigures {
        name, fields, block, read_ns, near_ns, write_ns, read_bandwidth, write_bandwidth, read_bytes, read_media_bytes,
        written_bytes, written_media_bytes, lines_read, waited_ns,
    }
    DeviceFigures {
        model, reads, read_bytes, read_media_bytes, writes, written_bytes, written_media_bytes, syncs,
    }
}

/// Words of an enum, each as its name in the code.
macro_rules! words {
    ($type:ty { $($word:ident),+ $(,)? }) => {
        impl Wire for $type {
            fn put(&self, out: &mut Sink) {
                out.string(&format!("{self:?}"));
            }

            fn take(value: &Value) -> Option<Self> {
                let all = [$(<$type>::$word),+];
                all.into_iter().find(|word| value.as_str() == Some(&format!("{word:?}")))
            }
        }
    };
}

words!(Durability { None, ProcessCrash, Synced, PowerFailAdr, PowerFailEadr });
words!(ChosenBy { Caller, Store, Option, Remains, Directory });
words!(Compression { None, Snappy, Lz4, Zstd });
words!(Placement { Benefit, Level });
words!(LockMode { Shared, Exclusive });
words!(LockOwnerKind { Transaction, Write });

/// A range as its two ends, the second perhaps null; a key by itself.
impl Wire for LockTarget {
    fn put(&self, out: &mut Sink) {
        match self {
            LockTarget::Key(key) => key.put(out),
            LockTarget::Range { lower, upper } => {
                out.raw("{");
                out.member("lower");
                lower.put(out);
                out.member("upper");
                upper.put(out);
                out.raw("}");
            }
        }
    }

    fn take(value: &Value) -> Option<Self> {
        match value.get("lower") {
            None => Vec::take(value).map(LockTarget::Key),
            Some(lower) => Some(LockTarget::Range {
                lower: Wire::take(lower)?,
                upper: Wire::take(value.get("upper")?)?,
            }),
        }
    }
}

/// Since the beginning of 1970.
impl Wire for SystemTime {
    fn put(&self, out: &mut Sink) {
        self.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().put(out);
    }

    fn take(value: &Value) -> Option<Self> {
        SystemTime::UNIX_EPOCH.checked_add(Duration::take(value)?)
    }
}

/// As what it has of its own.
impl Wire for KeyspacePlacement {
    fn put(&self, out: &mut Sink) {
        self.own().put(out);
    }

    fn take(value: &Value) -> Option<Self> {
        let own: Option<Placement> = Wire::take(value)?;
        Some(own.map_or(KeyspacePlacement::Store, KeyspacePlacement::As))
    }
}

/// All of them have no list.
impl Wire for KeyspaceTiers {
    fn put(&self, out: &mut Sink) {
        let dirs = match self {
            KeyspaceTiers::All => &Vec::new(),
            KeyspaceTiers::Dirs(dirs) => dirs,
        };
        dirs.put(out);
    }

    fn take(value: &Value) -> Option<Self> {
        let dirs: Vec<PathBuf> = Wire::take(value)?;
        Some(if dirs.is_empty() { KeyspaceTiers::All } else { KeyspaceTiers::Dirs(dirs) })
    }
}

impl Wire for Basis {
    fn put(&self, out: &mut Sink) {
        out.string(&self.to_string());
    }

    fn take(value: &Value) -> Option<Basis> {
        Basis::parse(value.as_str()?)
    }
}

impl Wire for ErrorKind {
    fn put(&self, out: &mut Sink) {
        out.string(&self.to_string());
    }

    fn take(value: &Value) -> Option<ErrorKind> {
        value.as_str()?.parse().ok()
    }
}

impl Wire for ProbeSource {
    fn put(&self, out: &mut Sink) {
        let (name, first, second) = match *self {
            ProbeSource::Memtable { order } => ("memtable", order, 0),
            ProbeSource::Run { id, entries } => ("run", id, entries),
            ProbeSource::CachedRecord => ("cached record", 0, 0),
            ProbeSource::Table { level, id } => ("table", id, level as u64),
        };
        out.raw("{");
        out.member(name);
        [first, second].put(out);
        out.raw("}");
    }

    fn take(value: &Value) -> Option<Self> {
        let of = |name: &str| <[u64; 2]>::take(value.get(name)?);
        if let Some([order, _]) = of("memtable") {
            return Some(ProbeSource::Memtable { order });
        }
        if let Some([id, entries]) = of("run") {
            return Some(ProbeSource::Run { id, entries });
        }
        if of("cached record").is_some() {
            return Some(ProbeSource::CachedRecord);
        }
        let [id, level] = of("table")?;
        Some(ProbeSource::Table { level: level.try_into().ok()?, id })
    }
}
