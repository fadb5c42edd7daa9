//! Who holds DRAM of a store.

use crate::engine::Engine;
use crate::observe::properties::KeyspaceProperties;

/// Bytes of DRAM that a store holds of its `dram_budget`, by who holds them. Caches that several stores share are told whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DramUse {
    /// Indexes of memtables. Their records are in persistent memory, or in DRAM of `pm_size` beside the budget.
    pub memtables: u64,
    /// Fence keys and filters of the runs of level 0.
    pub runs: u64,
    /// The same of runs that are being built.
    pub building: u64,
    /// Buffers of tables and value files that are being written.
    pub writing: u64,
    /// Indexes and filters that stand with open tables.
    pub tables: u64,
    /// Cached blocks, values of value files among them.
    pub blocks: u64,
    /// Cached records.
    pub records: u64,
    /// What leads to the cache in persistent memory, as far as it is charged to `block_cache`.
    pub pm_cache: u64,
    /// Memory of the block cache that nothing is in now.
    pub cache_spare: u64,
}

impl DramUse {
    /// All of it.
    pub fn total(&self) -> u64 {
        let DramUse { memtables, runs, building, writing, tables, .. } = *self;
        let DramUse { blocks, records, pm_cache, cache_spare, .. } = *self;
        memtables + runs + building + writing + tables + blocks + records + pm_cache + cache_spare
    }

    pub(crate) fn of(engine: &Engine, keyspaces: &[KeyspaceProperties]) -> DramUse {
        let level0 = DramUse {
            memtables: keyspaces.iter().map(|space| space.index_dram_bytes).sum(),
            runs: keyspaces.iter().map(|space| space.fences_dram_bytes).sum(),
            building: engine.background.throttle.building(),
            ..DramUse::default()
        };
        let Some(store) = &engine.tables else { return level0 };
        let cache = store.cache.cache.figures();
        let pm_cache = store.cache.cache.charged_besides().saturating_sub(cache.held);
        let (tables, records) = (cache.held, cache.record_bytes);
        let blocks = cache.dram().saturating_sub(tables + records + pm_cache);
        let writing = store.buffers.bytes();
        let cache_spare = store.cache.cache.spare();
        DramUse { writing, tables, blocks, records, pm_cache, cache_spare, ..level0 }
    }
}
