//! Figures about an open store.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use base::Seq;
use pmem::{Durability, JournalFigures, ModelFigures, StatsSnapshot};
use ssd::DeviceFigures;

use crate::cache::{CacheFigures, PmCacheFigures};
use crate::compaction::policy::pick::targets;
use crate::compaction::under_way::figures::CompactionFigures;
use crate::engine::Engine;
use crate::engine::large_turn::LargeCommitFigures;
use crate::engine::transactions::TransactionFigures;
use crate::keyspace::subrange::Subrange;
use crate::keyspace::{KeyspaceState, ViewSources};
use crate::locks::status::LockFigures;
use crate::machine::{MachineMemory, PmChoice};
use crate::observe::basis::Basis;
use crate::observe::dram::DramUse;
use crate::observe::places::MemoryPlaces;
use crate::options::KeyspaceOptions;
use crate::stream::slots::StreamFigures;
use crate::tracer::TraceSummary;
use crate::tree::Tree;
use crate::tree::desc::LEVELS;
use crate::tree::table::Table;
use crate::tree::tables::Tables;
use crate::tree::tiers::Tier;
use crate::tree::value_file::LiveValues;

/// Figures about an open store.
///
/// ```
/// # use strandline::{Db, Options, PmSource};
/// # let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
/// # let db = Db::open("unused-for-heap", options)?;
/// db.put("apple", "red")?;
/// let properties = db.properties();
/// println!("{} of {} bytes are free", properties.pm_free, properties.pm_capacity);
/// assert_eq!(properties.keyspaces[0].memtable_records, 1);
/// # Ok::<(), strandline::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Properties {
    /// What the figures rest on.
    pub basis: Basis,
    /// What a completed write survives.
    pub durability: Durability,
    /// Why it is not more.
    pub durability_note: String,
    /// Where persistent memory comes from.
    pub pm: String,
    /// How that was chosen, at this open.
    pub pm_choice: PmChoice,
    /// The log, if that is what keeps the bytes.
    pub wal: Option<JournalFigures>,
    /// Instruction that flushes a line.
    pub flush_instruction: String,
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
    /// Deleted entries that scans have passed since the store was opened: what they walked and did not show.
    pub scans_passed: u64,
    /// What became of transactions.
    pub transactions: TransactionFigures,
    /// What became of their locks.
    pub locks: LockFigures,
    /// Change streams, by name.
    pub streams: Vec<StreamFigures>,
    /// Bytes of persistent memory that nothing but change streams needs; writers that find no other get it.
    pub pm_held_by_streams: u64,
    /// What became of commits that no zone takes.
    pub large_commits: LargeCommitFigures,
    /// Writes, flushes and fences since the store was opened.
    pub persisted: StatsSnapshot,
    /// What the model of persistent memory counted since then, if the pool has one.
    pub pm_model: Option<ModelFigures>,
    /// Where memtables and the block cache are, and what they take.
    pub places: MemoryPlaces,
    /// What went to and from the device of tables and log since then.
    pub ssd_device: DeviceFigures,
    /// DRAM that the store holds: indexes, caches and buffers.
    pub dram_bytes: u64,
    /// Who holds it.
    pub dram: DramUse,
    /// DRAM that it may hold.
    pub dram_budget: u64,
    /// The memory that the process could use when the store was opened: a `dram_budget` that is not given follows from it.
    pub memory: MachineMemory,
    /// Memory of the whole process that maps no file, as the system counts it: what indexes and buffers really
    /// take, the application's own and a pool in the heap included. Unknown where `/proc` does not tell.
    pub anonymous_bytes: Option<u64>,
    /// How much writers are slowed, in thousandths.
    pub debt: u32,
    /// Subranges that upkeep of the whole store has looked at since it was opened.
    pub upkeep_looks: u64,
    /// Time that writers were slowed, all together.
    pub slowed: Duration,
    /// Why writes are refused, if they are.
    pub refusing_writes: Option<String>,
    /// The levels of tables, if the store has any.
    pub ssd: Option<SsdProperties>,
    /// Damage that a background merge met, if one did: the keyspace is merged no more, reads and writes go on.
    pub damage_met: Option<String>,
    /// Calls of merge operators and compaction filters that failed in compactions since the store was opened: what they
    /// were called for is as it was.
    pub hook_failures: u64,
    /// What the first of them said.
    pub hook_failure: Option<String>,
    /// The socket by which other processes look at the store, if it has one.
    pub inspected_at: Option<PathBuf>,
    /// Why it has none, though `inspect` asks for it.
    pub inspect_failure: Option<String>,
    /// The trace that is taken, if one is, or was ended by an error or its length and not by a call.
    pub trace: Option<TraceSummary>,
    /// Each keyspace.
    pub keyspaces: Vec<KeyspaceProperties>,
}

/// Figures about the levels of tables.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SsdProperties {
    /// Where the tables are.
    pub dir: PathBuf,
    /// How files are read and written.
    pub fs: String,
    /// Bytes of all files, those that readers still hold included.
    pub bytes: u64,
    /// Bytes that they may take; 0: what the device has.
    pub limit: u64,
    /// The directories of tables, fastest first; one, if no others were given.
    pub tiers: Vec<TierProperties>,
    /// Bytes of persistent memory that tables of upper levels take; one that fills more than half of a zone counts for
    /// all of it.
    pub pm_bytes: u64,
    /// Bytes that these may take.
    pub pm_limit: u64,
    /// Bytes of persistent memory that value files take, counted in the same way.
    pub pm_value_bytes: u64,
    /// Bytes that these may take.
    pub pm_value_limit: u64,
    /// The block cache.
    pub cache: CacheFigures,
    /// The cache in persistent memory below it, if the store has one.
    pub pm_cache: Option<PmCacheFigures>,
    /// What compactions did since the store was opened.
    pub compactions: CompactionFigures,
    /// What the last compaction failed of, unless one has succeeded since.
    pub trouble: Option<String>,
}

/// Figures about a tier: a directory of tables.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TierProperties {
    /// Names it in the manifest and in the file `OWNER` there; 0: the store's own directory.
    pub no: u32,
    /// Where it is.
    pub dir: PathBuf,
    /// Bytes of its files.
    pub bytes: u64,
    /// Bytes that they may take, by the option; 0: what the device has.
    pub limit: u64,
    /// It is being emptied, as an option leaves it out.
    pub leaving: bool,
    /// What went to and from its device since the store was opened, if it has one of its own; else it counts in
    /// [`Properties::ssd_device`].
    pub device: Option<DeviceFigures>,
}

/// Figures about a keyspace.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KeyspaceProperties {
    /// Its name.
    pub name: String,
    /// Its own options.
    pub options: KeyspaceOptions,
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
    /// Subranges, in key order.
    pub subranges: Vec<SubrangeProperties>,
    /// Range deletions in memtables.
    pub memtable_range_deletes: usize,
    /// Bytes that runs may take until some of level 0 is compacted, if its subranges are equal.
    pub level0_target: u64,
    /// Levels that have tables, from the top.
    pub levels: Vec<LevelProperties>,
    /// Files with the values that tables refer to, by their numbers.
    pub value_files: Vec<ValueFileProperties>,
}

/// A file with values that lie apart from their keys.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ValueFileProperties {
    /// Its number; no table has it.
    pub id: u64,
    /// The file, or the pool that it lies in.
    pub path: PathBuf,
    /// Its tier; 0: the store's own directory of tables.
    pub tier: u32,
    /// Blocks of 4 KiB that were read of it lately, past the caches, where there are several tiers.
    pub reads: u64,
    /// Offset in the pool, if it lies in persistent memory.
    pub pm_at: Option<u64>,
    /// Bytes of the file.
    pub bytes: u64,
    /// Values in it.
    pub values: u64,
    /// Values that tables refer to; the others are garbage.
    pub live_values: u64,
    /// Bytes of these, with keys and checksums.
    pub live_bytes: u64,
    /// Tables that refer to it.
    pub tables: u64,
}

/// Figures about a subrange. Several may share a memtable or a run from the time when their keys were one's.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SubrangeProperties {
    /// Identifier; greater is newer.
    pub id: u32,
    /// Its lowest key; empty: from the first key on.
    pub from: Vec<u8>,
    /// The first key behind it; `None`: to the last key.
    pub before: Option<Vec<u8>>,
    /// Memtables, the active one included.
    pub memtables: usize,
    /// Bytes of records in memtables.
    pub memtable_bytes: u64,
    /// Identifiers of its index runs, newest first.
    pub runs: Vec<u64>,
    /// Bytes of records in runs, about.
    pub record_bytes: u64,
    /// Bytes in the zones of its runs that no run of it names: dead, or of other subranges.
    pub other_bytes: u64,
    /// Its share of what was written to the store lately, in thousandths; 0 until enough was written to tell.
    pub heat: u32,
}

/// Figures about a level.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LevelProperties {
    /// Its number.
    pub level: usize,
    /// Bytes beyond which its tables move down; 0: it gathers outputs of level 0, until several levels are compacted
    /// together; `None`: there is no limit.
    pub target: Option<u64>,
    /// Its tables, in key order.
    pub tables: Vec<TableProperties>,
}

/// A live table, as the store knows it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TableProperties {
    /// Number of the table.
    pub id: u64,
    /// Its file, or the pool that it lies in.
    pub path: PathBuf,
    /// The tier of its file; 0: the store's own directory.
    pub tier: u32,
    /// Blocks of it that were read from its device lately, past the caches; counted where there are several tiers.
    pub reads: u64,
    /// Offset in the pool, if it lies in persistent memory.
    pub pm_at: Option<u64>,
    /// Its bytes.
    pub bytes: u64,
    /// Entries, deletions included.
    pub entries: u64,
    /// Deletions.
    pub deletions: u64,
    /// Range deletions.
    pub range_deletes: u64,
    /// A string that no key is below: the lowest key, if it is not long.
    pub smallest: Vec<u8>,
    /// A string that no key is above: the highest key, if it is not long.
    pub largest: Vec<u8>,
    /// Lowest sequence number of the entries.
    pub min_seq: Seq,
    /// Highest sequence number of the entries.
    pub max_seq: Seq,
}

impl LevelProperties {
    /// Bytes of all its tables.
    pub fn bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.bytes).sum()
    }

    /// Bytes of those in persistent memory.
    pub fn pm_bytes(&self) -> u64 {
        let in_memory = self.tables.iter().filter(|table| table.pm_at.is_some());
        in_memory.map(|table| table.bytes).sum()
    }

    /// Entries of all its tables.
    pub fn entries(&self) -> u64 {
        self.tables.iter().map(|table| table.entries).sum()
    }
}

/// Figures about an index run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunProperties {
    /// Identifier.
    pub id: u64,
    /// Entries.
    pub entries: u64,
    /// Bytes of the index in persistent memory.
    pub index_bytes: u64,
    /// Bytes of the records it names.
    pub record_bytes: u64,
    /// Range deletions, cut into pieces that do not overlap.
    pub range_deletes: usize,
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
            engine.keyspaces.all().iter().map(|space| keyspace(engine, space)).collect();
        let dram = DramUse::of(engine, &keyspaces);
        let ssd = engine.tables.as_ref().map(|tables| ssd(engine, tables));
        let (hook_failures, hook_failure) = engine.hooks.failures().so_far();
        Properties {
            basis: Basis::of(engine),
            durability: region.durability(),
            durability_note: region.durability_note(),
            pm: region.describe(),
            pm_choice: engine.surroundings.choice.clone(),
            wal: region.journal().map(|journal| journal.figures()),
            flush_instruction: region.flush_instruction().to_owned(),
            pm_capacity: space.total,
            pm_free: space.free,
            pm_headroom: engine.budget().headroom,
            zone_bytes: engine.media.pool.geometry().zone_len(),
            zones_free: space.free_zones,
            zones: space.zones,
            visible_seq: engine.sequence.ring.visible(),
            snapshots: engine.sequence.snapshots.len(),
            scans_passed: engine.keyspaces.scans_passed.load(Relaxed),
            locks: engine.locks.figures(),
            large_commits: engine.large.figures(),
            transactions: engine.transactions.figures(engine.lifetime.usage.holds.transactions()),
            streams: engine.stream_figures(),
            pm_held_by_streams: engine.held_by_streams(),
            persisted: region.stats(),
            pm_model: model_figures(engine),
            places: MemoryPlaces::of(engine, dram.memtables + dram.runs),
            ssd_device: engine.surroundings.device.figures(),
            dram_bytes: dram.total(),
            dram,
            dram_budget: engine.options().dram_budget,
            memory: engine.surroundings.memory.clone(),
            anonymous_bytes: anonymous_bytes(),
            debt: engine.background.throttle.debt(),
            upkeep_looks: engine.space.holders.looked_at(),
            slowed: engine.background.throttle.slept(),
            ssd,
            damage_met: engine.background.errors.damage.get().cloned(),
            hook_failures,
            inspected_at: engine.window.path(),
            inspect_failure: engine.window.failure(),
            trace: engine.tracer.summary(),
            hook_failure: hook_failure.map(ToString::to_string),
            refusing_writes: engine.check_writable("write").err().map(|error| error.to_string()),
            keyspaces,
        }
    }
}

/// What the model of persistent memory counted: of the pool, of what is there instead of in DRAM, or else of the log that is streamed
/// there.
pub(crate) fn model_figures(engine: &Engine) -> Option<ModelFigures> {
    let region = &engine.media.region;
    let cache = || engine.tables.as_ref()?.cache.cache.memory().model_figures();
    region.model_figures().or_else(cache).or_else(|| region.journal()?.model_figures())
}

fn ssd(engine: &Engine, tables: &Tables) -> SsdProperties {
    let memory = tables.memory.as_ref();
    SsdProperties {
        dir: tables.dir().to_owned(),
        fs: tables.table_dir.fs.describe(),
        bytes: tables.room.taken(),
        limit: engine.options().ssd_size,
        tiers: tables.tiers.iter().map(tier).collect(),
        pm_bytes: memory.map_or(0, |memory| memory.tables.taken()),
        pm_limit: memory.map_or(0, |memory| memory.tables.limit()),
        pm_value_bytes: memory.map_or(0, |memory| memory.values.taken()),
        pm_value_limit: memory.map_or(0, |memory| memory.values.limit()),
        cache: tables.cache.cache.figures(),
        pm_cache: tables.cache.below().map(|cache| cache.figures()),
        compactions: engine.compaction_figures(),
        trouble: engine.background.errors.any().map(|error| error.to_string()),
    }
}

fn tier(tier: &Tier) -> TierProperties {
    TierProperties {
        no: tier.no(),
        dir: tier.dir.at.dir.clone(),
        bytes: tier.taken(),
        limit: tier.dir.size,
        leaving: !tier.is_open(),
        device: tier.dir.device.as_ref().map(|device| device.figures()),
    }
}

fn anonymous_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

fn keyspace(engine: &Engine, space: &KeyspaceState) -> KeyspaceProperties {
    let zone_bytes = engine.media.pool.geometry().zone_len();
    let ViewSources { memtables, runs } = ViewSources::of(space);
    let subranges = space.subranges();
    let immutable: u64 = memtables.iter().map(|memtable| memtable.bytes.load(Relaxed)).sum();
    let filling: u64 = subranges.iter().map(|subrange| subrange.write_head.bytes()).sum();
    let level0_share = engine.level0_share(subranges.len());
    let tree = space.tree();
    KeyspaceProperties {
        name: space.name.clone(),
        options: space.options_now(engine.tables.as_deref()),
        memtable_records: memtables.iter().map(|m| m.index.len() as u64).sum(),
        memtables: memtables.len(),
        memtable_bytes: immutable + filling,
        index_dram_bytes: memtables.iter().map(|m| m.dram_bytes()).sum(),
        fences_dram_bytes: runs.iter().map(|run| run.dram_bytes() as u64).sum(),
        runs: runs
            .iter()
            .map(|run| RunProperties {
                id: run.desc.id,
                entries: run.entries(),
                index_bytes: run.desc.bytes(),
                record_bytes: run.record_bytes(),
                range_deletes: run.ranges.len(),
                zones: run.zones.len(),
                min_seq: run.desc.min_seq,
                max_seq: run.desc.max_seq,
            })
            .collect(),
        subranges: subranges
            .iter()
            .map(|subrange| subrange_properties(subrange, zone_bytes))
            .collect(),
        memtable_range_deletes: memtables.iter().map(|m| m.deletes.len()).sum(),
        level0_target: engine.budget().level0_bytes.saturating_sub(level0_share),
        levels: levels(&tree, level0_share),
        value_files: tree.values.iter().map(value_file).collect(),
    }
}

fn subrange_properties(subrange: &Subrange, zone_bytes: u64) -> SubrangeProperties {
    let view = subrange.view.load();
    let record_bytes = subrange.level0_bytes(&view);
    let named = view.runs.iter().flat_map(|run| run.zones.iter().map(|used| used.zone.no));
    let zones: BTreeSet<u32> = named.collect();
    SubrangeProperties {
        id: subrange.id,
        from: subrange.span.lower.clone(),
        before: subrange.span.upper.clone(),
        memtables: view.memtables.len(),
        memtable_bytes: view.memtable_bytes(),
        runs: view.runs.iter().map(|run| run.desc.id).collect(),
        record_bytes,
        other_bytes: (zones.len() as u64 * zone_bytes).saturating_sub(record_bytes),
        heat: subrange.heat.load(Relaxed),
    }
}

fn levels(tree: &Tree, level0_bytes: u64) -> Vec<LevelProperties> {
    let mut bytes = [0; LEVELS];
    tree.tables().for_each(|(number, table)| bytes[number - 1] += table.desc.weight());
    let targets = targets(&bytes, level0_bytes, tree.content);
    let filled = tree.levels().filter(|(_, level)| !level.tables.is_empty());
    filled
        .map(|(number, level)| LevelProperties {
            level: number,
            target: Some(targets.bytes[number - 1]).filter(|bytes| *bytes != u64::MAX),
            tables: level.tables.iter().map(|table| properties(table)).collect(),
        })
        .collect()
}

fn value_file(live: &LiveValues) -> ValueFileProperties {
    let desc = live.file.desc_now();
    ValueFileProperties {
        id: desc.id,
        path: live.file.lies_in(),
        tier: desc.tier,
        reads: live.file.heat.get(),
        pm_at: live.file.is_in_memory().then(|| live.file.start()),
        bytes: desc.len,
        values: desc.values,
        live_values: live.values,
        live_bytes: live.bytes,
        tables: live.tables,
    }
}

fn properties(table: &Table) -> TableProperties {
    let desc = &table.desc;
    TableProperties {
        id: desc.id,
        path: table.lies_in(),
        tier: desc.tier,
        reads: table.heat.get(),
        pm_at: table.is_in_memory().then(|| table.start()),
        bytes: desc.len,
        entries: desc.entries,
        deletions: desc.deletions,
        range_deletes: desc.range_deletes,
        smallest: desc.smallest.clone(),
        largest: desc.largest.clone(),
        min_seq: desc.min_seq,
        max_seq: desc.max_seq,
    }
}
