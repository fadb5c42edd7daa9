//! What stores are, and with which options they are opened: a seed chooses. The form is the same for all lives of a store; whatever an
//! open may change differs from life to life.

use std::path::{Path, PathBuf};

use strandline::{
    CacheOutputs, CachePolicy, Compression, FastBlocks, IndexKind, KeyspaceOptions, KeyspaceTiers,
    Level0Form, MemorySource, Options, PmSource, TierSource, TierSpec, WalSync,
};
use testkit::Rng;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Keyspaces of a store. The first is the default one and stays; others are dropped and made anew.
pub const SPACES: [&str; 3] = ["default", "one", "two"];
/// Keys of a keyspace.
pub const KEYS: usize = 4_000;
/// Threads that write. Keys of the default keyspace are divided among them; each other keyspace is one's.
pub const LANES: usize = 2;

/// What a store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachedForm {
    /// Records in a pool, tables, and a cache in persistent memory below the block cache.
    Pool,
    /// Records in DRAM with a log.
    Logged,
    /// The same; memtables and cached blocks are in volatile persistent memory.
    Volatile,
    /// Tables on two devices, one of them much faster.
    Tiered,
    /// Two stores with one block cache, each with a pool.
    Shared,
}

impl CachedForm {
    /// In the order in which they come.
    pub const ALL: [CachedForm; 5] = [
        CachedForm::Pool,
        CachedForm::Shared,
        CachedForm::Volatile,
        CachedForm::Tiered,
        CachedForm::Logged,
    ];

    fn has_pool(self) -> bool {
        matches!(self, CachedForm::Pool | CachedForm::Shared)
    }

    pub fn stores(self) -> usize {
        if self == CachedForm::Shared { 2 } else { 1 }
    }

    /// Keyspaces of all stores.
    pub fn seats(self) -> usize {
        self.stores() * SPACES.len()
    }
}

/// How large the block cache is, beside about 4 MiB in tables of each store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheSize {
    Small,
    Middling,
    Large,
}

impl CacheSize {
    pub fn bytes(self) -> u64 {
        match self {
            CacheSize::Small => 384 * KIB,
            CacheSize::Middling => 2 * MIB,
            CacheSize::Large => 24 * MIB,
        }
    }
}

/// One life of a store: from an open to the kill.
#[derive(Clone, Copy, Debug)]
pub struct CacheShape {
    pub form: CachedForm,
    pub level0: Level0Form,
    pub cache: CacheSize,
    pub records: bool,
    /// Percent of the pool.
    pub pm_cache: u32,
    pub policy: CachePolicy,
    pub fast_blocks: FastBlocks,
    pub value_files_min: u64,
    pub outputs: CacheOutputs,
    two_level: bool,
    hash_index: bool,
    block_bytes: u32,
    compression: Compression,
    memtable_bytes: u64,
    background_threads: u32,
    filter_bits: u32,
    synced: bool,
    /// Options change while it is open.
    pub restless: bool,
    /// Changes in a row of a thread that writes, and how long it rests then, in ms.
    pub pace: (u64, u64),
    /// How often ranges are deleted and files taken in: each drops all cached records of its keyspace.
    pub sweeps: u32,
    /// How long the upkeep rests at most, in ms.
    pub upkeep_ms: u64,
}

impl CacheShape {
    /// What `seed` chooses for a store of `form`.
    pub fn new(form: CachedForm, seed: u64) -> CacheShape {
        let mut rng = Rng::fork(seed, 0x6869_7473);
        let levels0 = [Level0Form::GlobalIndex, Level0Form::IndexRuns, Level0Form::Sst];
        let sizes = [CacheSize::Small, CacheSize::Small, CacheSize::Middling, CacheSize::Large];
        CacheShape {
            form,
            level0: *rng.pick(&levels0),
            cache: *rng.pick(&sizes),
            records: form != CachedForm::Volatile && rng.chance(2, 3),
            pm_cache: if form.has_pool() { *rng.pick(&[0, 10, 40, 40]) } else { 0 },
            policy: *rng.pick(&CachePolicy::ALL),
            fast_blocks: *rng.pick(&FastBlocks::ALL),
            value_files_min: *rng.pick(&[0, 500, 900, 900]),
            two_level: rng.chance(1, 3),
            hash_index: rng.chance(1, 4),
            block_bytes: *rng.pick(&[512, 1024, 4096]),
            compression: *rng.pick(&[Compression::None, Compression::Lz4]),
            memtable_bytes: *rng.pick(&[128 * KIB, 512 * KIB, 2 * MIB]),
            background_threads: 1 + rng.below(2) as u32,
            filter_bits: *rng.pick(&[0, 10, 10]),
            synced: rng.chance(1, 2),
            restless: rng.chance(1, 3),
            pace: *rng.pick(&[(20, 40), (20, 150), (100, 20), (300, 20), (1_000, 400)]),
            sweeps: *rng.pick(&[1, 1, 10]),
            upkeep_ms: *rng.pick(&[30, 30, 100, 300, 1_000]),
            outputs: *rng.pick(&CacheOutputs::ALL),
        }
    }

    /// Options of the store in `dir`.
    pub fn options(&self, dir: &Path) -> Result<Options, String> {
        let options = Options::default()
            .pm(if self.form.has_pool() { PmSource::Auto } else { PmSource::Dram })
            .pm_size(if self.form.has_pool() { 32 * MIB } else { 16 * MIB })
            .wal_sync(if self.synced { WalSync::Always } else { WalSync::Never })
            .zone_size(64 * KIB)
            .memtable_bytes(self.memtable_bytes)
            .level0(self.level0)
            .table_bytes(256 * KIB)
            .dram_budget(4 * CacheSize::Large.bytes())
            .block_cache(self.cache.bytes())
            .cache_records(self.records)
            .cache_outputs(self.outputs)
            .pm_cache(self.pm_cache)
            .pm_cache_policy(self.policy)
            .fast_blocks(self.fast_blocks)
            .value_files_min(self.value_files_min)
            .index(if self.two_level { IndexKind::TwoLevel } else { IndexKind::Binary })
            .hash_index(self.hash_index)
            .block_bytes(self.block_bytes)
            .compression(self.compression)
            .filter_bits(self.filter_bits)
            .background_threads(self.background_threads);
        match self.form {
            CachedForm::Volatile => {
                let place = dir.with_extension("volatile");
                std::fs::create_dir_all(&place).map_err(|error| error.to_string())?;
                let place = MemorySource::Dir(place);
                Ok(options.memtable_memory(place.clone()).block_cache_memory(place))
            }
            CachedForm::Tiered => tiered(options, dir),
            _ => Ok(options),
        }
    }

    /// Options of the keyspace `name` of the store in `dir`: one of them lies on the fast device.
    pub fn keyspace(&self, dir: &Path, name: &str) -> KeyspaceOptions {
        match self.form {
            CachedForm::Tiered if name == SPACES[1] => {
                KeyspaceOptions::new().tiers(KeyspaceTiers::Dirs(vec![fast(dir)]))
            }
            CachedForm::Tiered if name == SPACES[2] => {
                KeyspaceOptions::new().tiers(KeyspaceTiers::Dirs(vec![dir.join("sst")]))
            }
            _ => KeyspaceOptions::new(),
        }
    }
}

fn fast(dir: &Path) -> PathBuf {
    dir.with_extension("fast")
}

/// By their models one device is much faster than the other, so that no clock says which one is.
fn tiered(options: Options, dir: &Path) -> Result<Options, String> {
    let model = |text: &str| text.parse().map_err(|error| format!("{text}: {error}"));
    let dirs = vec![
        TierSpec::new(fast(dir), 0).model(model("optane-dax,read=1us,read_bandwidth=0")?),
        TierSpec::new(dir.join("sst"), 0)
            .model(model("nvme-tlc,read=20us,read_bandwidth=0,read_iops=0")?),
    ];
    Ok(options.tiers(TierSource::Dirs(dirs)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_of_every_form_can_be_opened() {
        let dir = tempfile::tempdir().expect("a folder");
        for (at, form) in CachedForm::ALL.into_iter().enumerate() {
            for seed in 0..40 {
                let shape = CacheShape::new(form, seed);
                let options = shape.options(&dir.path().join(format!("{at}"))).expect("options");
                assert!(options.dram_budget >= 2 * options.block_cache, "{shape:?}");
                assert!(form.has_pool() || options.pm_cache == 0, "{shape:?}");
            }
        }
    }
}
