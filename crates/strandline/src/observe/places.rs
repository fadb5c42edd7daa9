//! Where memtables and the block cache are, and what they take there.

use std::path::PathBuf;

use crate::engine::Engine;
use crate::options::MemorySource;

/// What a part of a store takes of memory that nothing outlives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldBytes {
    /// The directory of its volatile memory; none where all of it is in DRAM.
    pub dir: Option<PathBuf>,
    /// Bytes of DRAM.
    pub dram: u64,
    /// Bytes of volatile memory.
    pub volatile: u64,
}

/// What memtables and the block cache take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryPlaces {
    /// Records that are not in tables, in a store with a log, and what leads to records: that is always in DRAM.
    pub memtables: HeldBytes,
    /// Blocks and values that are cached, and the indexes and filters of tables, which are always in DRAM.
    pub block_cache: HeldBytes,
}

impl MemoryPlaces {
    /// Those of a store whose indexes take `indexes` bytes.
    pub(crate) fn of(engine: &Engine, indexes: u64) -> MemoryPlaces {
        let space = engine.media.pool.space();
        let has_log = engine.media.region.journal().is_some();
        let records = if has_log { space.total - space.free } else { 0 };
        let memtables = match &engine.options().memtable_memory {
            MemorySource::Dir(dir) if has_log => {
                HeldBytes { dir: Some(dir.clone()), dram: indexes, volatile: records }
            }
            _ => HeldBytes { dir: None, dram: indexes + records, volatile: 0 },
        };
        let block_cache = engine.tables.as_ref().map_or_else(HeldBytes::default, |tables| {
            let (figures, memory) = (tables.cache.cache.figures(), tables.cache.cache.memory());
            HeldBytes {
                dir: memory.dir().map(ToOwned::to_owned),
                dram: figures.dram(),
                volatile: figures.volatile,
            }
        });
        MemoryPlaces { memtables, block_cache }
    }
}
