//! Figures about an open store.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use base::Seq;
use pmem::{Durability, StatsSnapshot};

use crate::engine::Engine;

/// Figures about an open store.
#[derive(Clone, Debug)]
pub struct Properties {
    /// What a completed write survives.
    pub durability: Durability,
    /// Why it is not more.
    pub durability_note: String,
    /// Where persistent memory comes from.
    pub pm: String,
    /// Instruction that flushes a line.
    pub flush_instruction: &'static str,
    /// Bytes of persistent memory for data.
    pub pm_capacity: u64,
    /// Bytes of it that are free.
    pub pm_free: u64,
    /// Bytes that writers may still take before space is reclaimed.
    pub pm_headroom: u64,
    /// Bytes per zone.
    pub zone_bytes: u64,
    /// Zones wholly free.
    pub zones_free: u32,
    /// Zones.
    pub zones: u32,
    /// Last sequence number that readers see.
    pub visible_seq: Seq,
    /// Open snapshots and iterators.
    pub snapshots: usize,
    /// Writes, flushes and fences since the store was opened.
    pub persisted: StatsSnapshot,
    /// DRAM that indexes hold, about what a merge under way has built included.
    pub dram_bytes: u64,
    /// DRAM that indexes may hold.
    pub dram_budget: u64,
    /// Memory of the whole process that maps no file, as the system counts it: what indexes and buffers really
    /// take, the application's own and a pool in the heap included. Unknown where `/proc` does not tell.
    pub anonymous_bytes: Option<u64>,
    /// How much writers are slowed, in thousandths.
    pub debt: u32,
    /// Time that writers were slowed, all together.
    pub slowed: Duration,
    /// Why writes are refused, if they are.
    pub refusing_writes: Option<String>,
    /// Damage that a background merge met, if one did: the keyspace is merged no more, reads and writes go on.
    pub damage_met: Option<String>,
    /// Each keyspace.
    pub keyspaces: Vec<KeyspaceProperties>,
}

/// Figures about a keyspace.
#[derive(Clone, Debug)]
pub struct KeyspaceProperties {
    /// Its name.
    pub name: String,
    /// Versions in memtables.
    pub memtable_records: u64,
    /// Memtables, the active one included.
    pub memtables: usize,
    /// Bytes of records in memtables.
    pub memtable_bytes: u64,
    /// DRAM of the memtables' indexes.
    pub index_dram_bytes: u64,
    /// DRAM of the runs' fences.
    pub fences_dram_bytes: u64,
    /// Index runs, newest first.
    pub runs: Vec<RunProperties>,
}

/// Figures about an index run.
#[derive(Clone, Debug)]
pub struct RunProperties {
    /// Identifier.
    pub id: u64,
    /// Entries.
    pub entries: u64,
    /// Bytes of the index in persistent memory.
    pub index_bytes: u64,
    /// Bytes of the records it names.
    pub record_bytes: u64,
    /// Zones they lie in.
    pub zones: usize,
    /// Lowest sequence number of the entries.
    pub min_seq: Seq,
    /// Highest sequence number of the entries.
    pub max_seq: Seq,
}

impl Properties {
    pub(crate) fn gather(engine: &Engine) -> Properties {
        let region = &engine.media.region;
        let space = engine.media.pool.space();
        let keyspaces: Vec<KeyspaceProperties> =
            engine.spaces().iter().map(|space| keyspace(space)).collect();
        let held = keyspaces.iter().map(|k| k.index_dram_bytes + k.fences_dram_bytes).sum::<u64>();
        let dram_bytes = held + engine.throttle.building();
        Properties {
            durability: region.durability(),
            durability_note: region.durability_note(),
            pm: region.describe(),
            flush_instruction: region.flush_instruction(),
            pm_capacity: space.total,
            pm_free: space.free,
            pm_headroom: engine.headroom(),
            zone_bytes: engine.media.pool.geometry().zone_len(),
            zones_free: space.free_zones,
            zones: space.zones,
            visible_seq: engine.ring.visible(),
            snapshots: engine.snapshots.len(),
            persisted: region.stats(),
            dram_bytes,
            dram_budget: engine.options.dram_budget,
            anonymous_bytes: anonymous_bytes(),
            debt: engine.throttle.debt(),
            slowed: engine.throttle.slept(),
            damage_met: engine.damage_met.get().cloned(),
            refusing_writes: engine.check_writable("write").err().map(|error| error.to_string()),
            keyspaces,
        }
    }
}

fn anonymous_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

fn keyspace(space: &crate::keyspace::Space) -> KeyspaceProperties {
    let view = space.view.load();
    let frozen: u64 = view.memtables[1..].iter().map(|memtable| memtable.bytes.load(Relaxed)).sum();
    KeyspaceProperties {
        name: space.name.clone(),
        memtable_records: view.memtables.iter().map(|m| m.index.len() as u64).sum(),
        memtables: view.memtables.len(),
        memtable_bytes: frozen + space.front.bytes(),
        index_dram_bytes: view.memtables.iter().map(|m| m.index.bytes() as u64).sum(),
        fences_dram_bytes: view.runs.iter().map(|run| run.dram_bytes() as u64).sum(),
        runs: view
            .runs
            .iter()
            .map(|run| RunProperties {
                id: run.desc.id,
                entries: run.entries(),
                index_bytes: run.desc.bytes(),
                record_bytes: run.zones.iter().map(|used| used.live_bytes).sum(),
                zones: run.zones.len(),
                min_seq: run.desc.min_seq,
                max_seq: run.desc.max_seq,
            })
            .collect(),
    }
}
