//! The engine of a store whose parts are open: what they hold is recovered, and what runs beside it begins.

use std::sync::Arc;

use base::{Error, ErrorKind, Result};
use pmem::{Owner, PmDevice, Prefault, Region};
use pool::{Pool, Replay};

use crate::cache::{BlockMemory, PmCache, StoreCache};
use crate::engine::{Access, Engine, Means, Surroundings};
use crate::hooks::Hooks;
use crate::hooks::events::{CorruptionFound, Event, FoundBy};
use crate::keyspace::KeyspaceState;
use crate::keyspace::plugged::StoreHooks;
use crate::open::tiers::NamedTiers;
use crate::open::{OpenedParts, RenamedParts, tiers};
use crate::options::check::{StoreParts, check_level0, check_pm_rooms, check_threads};
use crate::options::{MemorySource, Options};
use crate::record::store::Media;
use crate::record::zone::PendingFree;
use crate::recovery::recover::{Damage, RecoveryInput, recover};
use crate::tree::memory::{PmPercent, PmRooms};
use crate::tree::room::FileRoom;
use crate::tree::tables::Tables;
use crate::tree::tiers::{OWN, TierDir, TierUse};
use crate::volatile::VolatilePlace;

/// The right to write, for an open that writes.
fn own(region: &Arc<Region>, access: Access) -> Result<Option<Owner>> {
    if access == Access::Read {
        return Ok(None);
    }
    let owner = region.own().ok_or_else(|| {
        Error::new(
            ErrorKind::Busy,
            "open",
            format!("{} is open in this process already; close that store", region.describe()),
        )
    })?;
    Ok(Some(owner))
}

/// O1, and O2's reading of the log. `damage` is what the region lacks.
fn open_pool(region: &Arc<Region>, damage: &[Damage]) -> Result<(Pool, Replay)> {
    Pool::open(Arc::clone(region)).map_err(|error| match damage.first() {
        // Nothing is there because the part of a log that had it is lost: that is what is to be told.
        Some(first) if error.kind() == ErrorKind::NotFound => {
            let file = first
                .file
                .as_ref()
                .map_or_else(|| region.describe(), |at| at.display().to_string());
            let text = format!(
                "{file} is damaged: {}, and it had the superblock; restore a copy of the store",
                first.what
            );
            Error::corruption("open", text)
        }
        _ => error,
    })
}

/// Recovers what was opened, and starts what runs beside it.
pub(super) fn assemble(
    opened: OpenedParts,
    options: Options,
    hooks: Hooks,
    access: Access,
    means: Means,
) -> Result<Arc<Engine>> {
    check_threads(&options)?;
    let OpenedParts { region, prefault, table_dir, tiers, renamed, damage, choice } = opened;
    let has_log = region.journal().is_some();
    let dram_budget = match options.dram_budget {
        0 => means.memory.index_bytes(if has_log { region.len() } else { 0 }),
        given => given,
    };
    let options = match &means.runtime {
        None => Options { dram_budget, ..options },
        Some(runtime) => Options {
            dram_budget: runtime.memory.budget(),
            background_threads: runtime.threads.threads(),
            ..options
        },
    };
    let parts = StoreParts { has_log, has_tables: table_dir.is_some() };
    if access == Access::Write {
        check_pm_rooms(&options, parts)?;
    }
    // Of many stores most are idle: their memory is mapped as it is touched.
    let is_mapped_ahead = prefault == Prefault::Lazy && means.runtime.is_none();
    let prefault_to = if is_mapped_ahead { region.len() } else { 0 };
    let owner = own(&region, access)?;
    let (pool, replay) = open_pool(&region, &damage)?;
    let media = Arc::new(Media::new(pool, region, owner));
    let threads = match options.recovery_threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads as usize,
    };
    let read_only = access == Access::Read;
    if !read_only {
        check_level0(&options, parts)?;
    }
    let pending_free = Arc::new(PendingFree::default());
    let percent = PmPercent { tables: options.pm_tables, values: options.pm_values };
    let pm_rooms = PmRooms::new(&media, &pending_free, percent, options.pm_block_bytes);
    let dirs = match &table_dir {
        Some(own) if !tiers.is_empty() => {
            let named = NamedTiers::of(&media.pool, &replay)?;
            let mut dirs = tiers::numbered(own, tiers, &named, access)?;
            // What ssd_size says is a limit of the own directory.
            let own = dirs.iter_mut().filter(|dir| dir.no == OWN && dir.size == 0);
            own.for_each(|dir| dir.size = options.ssd_size);
            dirs
        }
        own => own.iter().map(|own| TierDir::own((*own).clone())).collect(),
    };
    let room = FileRoom::new(room_given(&dirs, &options), options.table_bytes);
    let cache = || -> Result<StoreCache> {
        let cache = match &means.runtime {
            None => own_cache(&options, means.volatile_device.as_ref(), has_log)?,
            Some(_) if options.block_cache_memory != MemorySource::Dram => {
                let text =
                    "block_cache_memory: stores of a runtime share a cache in DRAM; leave it out";
                return Err(Error::new(ErrorKind::InvalidArgument, "open", text));
            }
            Some(runtime) => StoreCache::of(&runtime.memory.cache),
        };
        cache.take_records(options.takes_records());
        let cache = cache.with_fast(options.fast_blocks);
        let Options { pm_cache, pm_cache_policy, .. } = options;
        match access {
            Access::Write if pm_cache > 0 => {
                let dram = cache.dram_for_below();
                let below = PmCache::new(&media, &pending_free, pm_cache, pm_cache_policy, dram)?;
                Ok(cache.with_below(below))
            }
            _ => Ok(cache),
        }
    };
    let tables_in_memory = table_dir.as_ref().is_some_and(|at| at.fs.is_memory(&at.dir));
    let tables = match table_dir {
        Some(own) => Some(
            Tables::new(own, room, cache()?)
                .with_memory(pm_rooms)
                .with_tiers(dirs)
                .on(&means.device),
        ),
        None => None,
    };
    let tables = tables.map(Arc::new);
    let hooks = StoreHooks::new(hooks);
    let recovered = recover(RecoveryInput {
        media: &media,
        payloads: &replay.payloads,
        pending_free,
        tables,
        lost: damage,
        access,
        threads,
        hooks: &hooks,
    })?;
    if !read_only {
        // What compactions write must be read again.
        let named = |space: &Arc<KeyspaceState>| space.options.compression;
        let keyspaces = recovered.keyspaces.all();
        let kinds = keyspaces.iter().filter_map(named);
        kinds.into_iter().try_for_each(|kind| kind.require("open"))?;
    }
    // All that the manifest names was found. From here on something may be written where `STORE` does not say yet that it is.
    renamed.as_ref().map_or(Ok(()), RenamedParts::write)?;
    let Means { memory, runtime, device, .. } = means;
    let log = media.region.journal().filter(|journal| !journal.is_streamed());
    let has_files_in_memory = tables_in_memory || log.is_some_and(|journal| journal.is_in_memory());
    let surroundings = Surroundings { memory, choice, prefault_to, device, has_files_in_memory };
    let share = runtime.as_ref().map(|runtime| runtime.memory.share());
    let engine =
        Arc::new(Engine::new(media, options, surroundings, share, hooks, access, recovered)?);
    for damage in &engine.lifetime.recovered.damage {
        engine.note_place(damage, FoundBy::Open);
    }
    #[cfg(feature = "planted")]
    engine.plant_old_tail();
    if !read_only {
        if let Some(tables) = &engine.tables {
            tables.room.note_found(engine.budget().coming_to_files);
        }
        engine.update_debt();
        if engine.options().background_threads > 0 {
            crate::background::worker::start(&engine, runtime.as_ref())?;
        }
    }
    Ok(engine)
}

/// The block cache of a store that shares none. A store without a log has its memory as it is.
fn own_cache(options: &Options, device: Option<&PmDevice>, has_log: bool) -> Result<StoreCache> {
    let dram = options.dram_budget / 2;
    match VolatilePlace::of("block_cache_memory", &options.block_cache_memory, device) {
        Some(place) if has_log => {
            let memory = BlockMemory::volatile(&place, options.block_cache)?;
            Ok(StoreCache::own_in(memory, options.block_cache, dram))
        }
        _ => Ok(StoreCache::own(options.block_cache_bytes())),
    }
}

/// Bytes that files in all directories may take; 0: what the devices have. What ssd_size says counts for the own directory.
fn room_given(dirs: &[TierDir], options: &Options) -> u64 {
    let size = |dir: &TierDir| match (dir.no, dir.size) {
        (OWN, 0) => options.ssd_size,
        (_, size) => size,
    };
    let open = || dirs.iter().filter(|dir| dir.use_ == TierUse::Open);
    match open().any(|dir| size(dir) == 0) {
        true => 0,
        false => open().map(size).fold(0, u64::saturating_add),
    }
}

impl Engine {
    /// Notes a place that does not check out.
    pub(crate) fn note_place(&self, damage: &Damage, by: FoundBy) {
        self.events.note(|| {
            let file = damage.file.as_ref().map(|file| file.display().to_string());
            Event::CorruptionFound(CorruptionFound {
                by,
                keyspace: None,
                file: Some(file.unwrap_or_else(|| self.media.region.describe())),
                offset: Some(damage.at),
                what: damage.what.clone(),
            })
        });
    }

    #[cfg(feature = "planted")]
    /// A planted bug: the newest zone of a recovered memtable is filled on.
    fn plant_old_tail(&self) {
        if !base::planted::is(base::planted::Bug::AppendToOldTail) {
            return;
        }
        for (_, subrange) in self.keyspaces.subranges() {
            let view = subrange.view.load();
            let zone = view.memtables.get(1).and_then(|memtable| memtable.zones().pop());
            let Some(zone) = zone else { continue };
            let sealed = match self.manifest.lock().state.zones.get(&zone.no) {
                Some((_, crate::manifest::edit::Fate::Live { sealed, .. })) => *sealed,
                _ => continue,
            };
            let pass = self.sequence.sequencer.enter_to_switch();
            subrange.write_head.set_spare_from(&pass, &zone, zone.start + sealed);
            drop(pass);
            view.active().push_zone(zone);
        }
    }
}
