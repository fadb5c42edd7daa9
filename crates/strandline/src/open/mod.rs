//! Opening and closing a store: where its pool is, who holds it, and what runs beside it.
//!
//! A store is a directory with a file `STORE` that names the pool and the directory of tables. The pool is made first
//! and named last, by a rename, so a creation that was killed leaves either nothing or a pool that the next open
//! finishes.
//!
//! A checkpoint is a directory of tables with a manifest file among them. Opened for writing it becomes a store: a pool
//! is made that begins with what the file says, and named as above; then the file goes. Opened for reading it stays
//! as it is, and the pool is in DRAM.

mod choose;
pub(crate) mod close;
pub(crate) mod convert;
mod create;
pub(crate) mod destroy;
pub(crate) mod ground;
mod move_file;
pub(crate) mod open_dram;
mod remains;
pub(crate) mod store_file;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Error, ErrorKind, Result};
use pmem::{OpenMode, Owner, Prefault, Region};
use pool::{Pool, Replay};
use ssd::Fs;

use crate::cache::StoreCache;
use crate::engine::{Access, Engine, Means, Surroundings};
use crate::hooks::Hooks;
use crate::hooks::events::{CorruptionFound, Event, FoundBy};
use crate::inspect;
use crate::keyspace::KeyspaceState;
use crate::keyspace::plugged::StoreHooks;
use crate::machine::{ChosenBy, MachineMemory, PmChoice};
use crate::manifest::{ManifestState, file as manifest_file};
use crate::open::create::{
    Beginning, check_size, create, first_state, format_if_new, make_table_dir,
};
use crate::open::ground::{Ground, Machine};
use crate::open::store_file::{IDENTITY, Identity, Memory, hold_named};
use crate::options::check::{StoreParts, check, check_level0, check_pm_tables, check_threads};
use crate::options::{Options, PmSource, SsdSource};
use crate::record::store::Media;
use crate::record::zone::PendingFree;
use crate::recovery::recover::{Damage, RecoveryInput, recover};
use crate::tree::memory::PmTables;
use crate::tree::owner;
use crate::tree::room::FileRoom;
use crate::tree::tables::{TableDir, Tables};

pub(crate) const POOL: &str = "pool";
pub(crate) const SST: &str = "sst";
/// Bytes of the pool in DRAM behind a checkpoint that is open for reading, its manifest aside.
const READ_POOL_LEN: u64 = 4 << 20;

/// The parts of a store, before anything is recovered.
pub(crate) struct OpenedParts {
    pub region: Arc<Region>,
    /// Whether its pages are mapped, or yet to be.
    pub prefault: Prefault,
    pub table_dir: Option<TableDir>,
    /// What of the region is lost.
    pub damage: Vec<Damage>,
    /// How it came that the records are there.
    pub choice: PmChoice,
}

impl OpenedParts {
    pub fn whole(
        region: Arc<Region>,
        prefault: Prefault,
        table_dir: Option<TableDir>,
    ) -> OpenedParts {
        let choice = PmChoice::by(ChosenBy::Store);
        OpenedParts { region, prefault, table_dir, damage: Vec::new(), choice }
    }
}

/// Opens the store at `path` on `machine`, making it if the options allow that.
pub(crate) fn open(
    machine: &Machine<'_>,
    path: &Path,
    options: Options,
    hooks: Hooks,
    access: Access,
) -> Result<Arc<Engine>> {
    let opened = open_at(machine, path, options, hooks, access);
    let engine = opened.map_err(|error| match (access, error.kind()) {
        (Access::Read, ErrorKind::Busy) => inspect::client::held_by_writer(path, &error),
        _ => error,
    })?;
    if access == Access::Write && engine.options.inspect {
        inspect::server::start(&engine, path);
    }
    engine.events.tell();
    Ok(engine)
}

/// The same, wherever the store is.
pub(crate) fn open_at(
    ground: &dyn Ground,
    path: &Path,
    options: Options,
    hooks: Hooks,
    access: Access,
) -> Result<Arc<Engine>> {
    check(&options)?;
    let means = ground.means();
    let opened = match &options.pm {
        PmSource::Heap if access == Access::Read => {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "open",
                "a heap store has nothing to open read-only; give pm a path",
            ));
        }
        PmSource::Heap => {
            remains::refuse_heap(ground, path)?;
            check_size(&options)?;
            let len = ground.memory_len(&options, &Memory::Pool(PathBuf::new()));
            let region = Arc::new(Region::heap(len, None)?);
            format_if_new(ground, &region, &options, || {
                Ok(Beginning::of_new_store(ManifestState::fresh()))
            })?;
            let table_dir = heap_table_dir(ground, &options)?;
            let choice = PmChoice::by(ChosenBy::Option);
            OpenedParts { choice, ..OpenedParts::whole(region, Prefault::Now, table_dir) }
        }
        PmSource::Auto | PmSource::Path(_) | PmSource::Dram => {
            open_file(ground, path, &options, access)?
        }
    };
    assemble(opened, options, hooks, access, means)
}

/// Where a store in memory of this process puts its tables: no open finds them again, so they must be the only ones.
fn heap_table_dir(ground: &dyn Ground, options: &Options) -> Result<Option<TableDir>> {
    let SsdSource::Path(dir) = &options.ssd else { return Ok(None) };
    let table_dir = make_table_dir(ground, dir.clone(), options)?;
    if !table_dir.present()?.is_empty() {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            "open",
            format!(
                "{} holds tables, and a store with pm=heap begins with none; name an empty directory",
                dir.display()
            ),
        ));
    }
    Ok(Some(table_dir))
}

/// Opens what the store at `path` has its records in, making it if need be.
fn open_file(
    ground: &dyn Ground,
    path: &Path,
    options: &Options,
    access: Access,
) -> Result<OpenedParts> {
    let names = ground.names();
    let held = hold_named(&*names, path, |named| {
        open_memory(ground, path, &named.memory, options, access)
    })?;
    if let Some((named, mut opened)) = held {
        if access == Access::Write {
            // A process that was killed may have named the store and not made that durable.
            names.sync_dir(path)?;
            let left = move_file::finish(ground, path, &named.memory, &opened.region)?;
            let could_be = choose::could_be(ground, path, &named.memory, &opened.region, options);
            opened.choice.found = left.unwrap_or(could_be);
        }
        let dir = match (&named.ssd, &options.ssd) {
            (_, SsdSource::None) | (None, SsdSource::Auto) => None,
            (Some(dir), SsdSource::Auto) => Some(path.join(dir)),
            (Some(dir), SsdSource::Path(given)) => {
                check_place(path, "ssd", &path.join(dir), given)?;
                Some(path.join(dir))
            }
            (None, SsdSource::Path(_)) if access == Access::Read => None,
            (None, SsdSource::Path(given)) => {
                let dir = choose::within(path, given)?;
                let table_dir = begin_tables(ground, path, named, dir, options, &opened.region)?;
                return Ok(OpenedParts { table_dir: Some(table_dir), ..opened });
            }
        };
        // One that is gone is not made before it is known that nothing was in it.
        opened.table_dir = dir.map(|dir| TableDir { fs: ground.tables(options), dir });
        return Ok(opened);
    }
    let is_checkpoint = is_checkpoint(&*names, path)?;
    if is_checkpoint && options.ssd != SsdSource::Auto {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            "open",
            format!("{} is a checkpoint, whose tables are in it; leave ssd out", path.display()),
        ));
    }
    if is_checkpoint && access == Access::Read {
        return open_checkpoint(ground, path, options);
    }
    if access == Access::Read || !(options.create_if_missing || is_checkpoint) {
        return Err(Error::new(
            ErrorKind::NotFound,
            "open",
            format!("no store at {}; open it for writing with create_if_missing", path.display()),
        ));
    }
    create(ground, path, options)
}

/// From now on the store at `path` has tables in `dir`.
fn begin_tables(
    ground: &dyn Ground,
    path: &Path,
    named: Identity,
    dir: PathBuf,
    options: &Options,
    region: &Arc<Region>,
) -> Result<TableDir> {
    let table_dir = make_table_dir(ground, path.join(&dir), options)?;
    claim(&table_dir, region)?;
    Identity { ssd: Some(dir), ..named }.write(&*ground.names(), path)?;
    Ok(table_dir)
}

/// Whether a checkpoint lies at `path` that was not made a store yet.
fn is_checkpoint(names: &dyn Fs, path: &Path) -> Result<bool> {
    names.exists(&path.join(SST).join(manifest_file::NAME))
}

/// Maps the pool that the store at `path` names, or reads its log.
fn open_memory(
    ground: &dyn Ground,
    path: &Path,
    memory: &Memory,
    options: &Options,
    access: Access,
) -> Result<OpenedParts> {
    match (memory, &options.pm) {
        (Memory::Pool(pool), PmSource::Path(given)) => {
            check_place(path, "pm", &path.join(pool), given)?;
        }
        (Memory::Pool(pool), PmSource::Dram) => {
            return Err(other_memory(path, &format!("a pool, {}", pool.display()), "dram"));
        }
        (Memory::Wal(dir), PmSource::Path(given)) => {
            let is = format!("a log in {} (pm=dram)", dir.display());
            return Err(other_memory(path, &is, &given.display().to_string()));
        }
        _ => {}
    }
    let pool = match memory {
        Memory::Wal(dir) => {
            return open_dram::open_memory(ground, &path.join(dir), options, access);
        }
        Memory::Pool(pool) => path.join(pool),
    };
    let mode = if access == Access::Read { OpenMode::ReadOnly } else { OpenMode::ReadWrite };
    let region = ground.open_pool(&pool, mode).map_err(|error| missing(path, error))?;
    Ok(OpenedParts::whole(region, Prefault::Lazy, None))
}

fn other_memory(store: &Path, is: &str, given: &str) -> Error {
    let store = store.display();
    let text = format!("store {store} has {is}, and pm={given} was asked for; leave pm out");
    Error::new(ErrorKind::InvalidArgument, "open", text)
}

/// A checkpoint for reading: its manifest goes to a pool in DRAM.
fn open_checkpoint(ground: &dyn Ground, path: &Path, options: &Options) -> Result<OpenedParts> {
    let table_dir = TableDir { fs: ground.tables(options), dir: path.join(SST) };
    let manifest = table_dir.fs.open(&table_dir.dir.join(manifest_file::NAME))?.len();
    let region = Arc::new(Region::heap(READ_POOL_LEN + 64 * manifest.next_power_of_two(), None)?);
    let options = Options { zone_size: 0, ..options.clone() };
    format_if_new(ground, &region, &options, || {
        first_state(Some(&table_dir)).map(Beginning::of_new_store)
    })?;
    Ok(OpenedParts::whole(region, Prefault::Now, Some(table_dir)))
}

/// Where the parts of a damaged store are, or should be.
pub(crate) struct Places {
    pub memory: Memory,
    pub tables: PathBuf,
}

impl Places {
    /// The memory, for reading, and what of it is lost.
    pub fn memory(
        &self,
        ground: &dyn Ground,
        options: &Options,
    ) -> Result<(Arc<Region>, Vec<Damage>)> {
        let missing = |dir: &Path| {
            let text = format!("{} holds no log; put it back", dir.display());
            Error::new(ErrorKind::NotFound, "open", text)
        };
        match &self.memory {
            Memory::Pool(pool) => Ok((ground.open_pool(pool, OpenMode::ReadOnly)?, Vec::new())),
            Memory::Wal(dir) => {
                open_dram::read_memory(ground, dir, options)?.ok_or_else(|| missing(dir))
            }
        }
    }

    fn is_there(&self, names: &dyn Fs) -> bool {
        match &self.memory {
            Memory::Pool(at) | Memory::Wal(at) => is_there(names, at),
        }
    }
}

/// The places that a store names, or, where what it names is not there, those of the options, or the usual ones.
pub(crate) fn places_left(ground: &dyn Ground, path: &Path, options: &Options) -> Result<Places> {
    let names = ground.names();
    let is_there = |at: &Path| is_there(&*names, at);
    let named = Identity::read(&*names, path).ok().flatten();
    let (memory, tables) = match named {
        Some(named) => (Some(named.memory), named.ssd),
        None => (None, None),
    };
    let there = |named: Option<PathBuf>| named.map(|at| path.join(at)).filter(|at| is_there(at));
    let wal = path.join(open_dram::WAL);
    let memory = match (memory, &options.pm) {
        (Some(Memory::Wal(dir)), _) => Memory::Wal(path.join(dir)),
        (Some(Memory::Pool(pool)), _) if is_there(&path.join(&pool)) => {
            Memory::Pool(path.join(pool))
        }
        (_, PmSource::Path(given)) => Memory::Pool(absolute(given)?),
        (None, PmSource::Dram) => Memory::Wal(wal),
        (None, _) if !is_there(&path.join(POOL)) && is_there(&wal) => Memory::Wal(wal),
        (_, _) => Memory::Pool(path.join(POOL)),
    };
    let tables = match (there(tables), &options.ssd) {
        (Some(dir), _) => dir,
        (None, SsdSource::Path(given)) => absolute(given)?,
        (None, _) => path.join(SST),
    };
    Ok(Places { memory, tables })
}

/// Whether something has this name; who cannot be told takes it that nothing has.
fn is_there(names: &dyn Fs, at: &Path) -> bool {
    names.exists(at).unwrap_or(false)
}

/// Opens for reading what is left of a store or checkpoint, whatever its tables are like.
pub(crate) fn open_what_is_left(
    ground: &dyn Ground,
    path: &Path,
    places: &Places,
    options: &Options,
) -> Result<Arc<Engine>> {
    check(options)?;
    let means = ground.means();
    let names = ground.names();
    let is_checkpoint = is_checkpoint(&*names, path).unwrap_or(false);
    let opened = if is_checkpoint && !places.is_there(&*names) {
        open_checkpoint(ground, path, options)?
    } else {
        let (region, damage) = places.memory(ground, options)?;
        let table_dir = Some(present_table_dir(ground, places.tables.clone()));
        OpenedParts { damage, ..OpenedParts::whole(region, Prefault::Lazy, table_dir) }
    };
    assemble(opened, options.clone(), Hooks::default(), Access::Read, means)
}

/// A directory of tables that may be gone.
pub(crate) fn present_table_dir(ground: &dyn Ground, dir: PathBuf) -> TableDir {
    let buffered = Options { ssd_direct: false, ..Options::default() };
    TableDir { fs: ground.tables(&buffered), dir }
}

/// Refuses a place that is not the one that the store names.
fn check_place(store: &Path, option: &str, named: &Path, given: &Path) -> Result<()> {
    if same_file(named, given) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidArgument,
        "open",
        format!(
            "store {} has {option} at {}, not at {}; leave {option} out or open another store",
            store.display(),
            named.display(),
            given.display()
        ),
    ))
}

pub(crate) fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|error| Error::io("open", path.display().to_string(), error))
}

fn missing(path: &Path, error: Error) -> Error {
    if error.kind() != ErrorKind::NotFound {
        return error;
    }
    Error::new(
        ErrorKind::NotFound,
        "open",
        format!(
            "{} names a pool that is not there: {}; put it back, or remove the directory to begin anew",
            path.join(IDENTITY).display(),
            error.context()
        ),
    )
}

/// Claims a directory for a store that had no tables so far, and would remove those that are there.
fn claim(table_dir: &TableDir, region: &Arc<Region>) -> Result<()> {
    let (fs, dir) = (&*table_dir.fs, &table_dir.dir);
    let (pool, _) = Pool::open(Arc::clone(region))?;
    // An open that was killed may have claimed it.
    if !owner::is_claimed(fs, dir, Some(pool.id()))? {
        let names = fs.list(dir)?;
        if names.iter().any(|name| name.ends_with(".sst") || name == manifest_file::NAME) {
            let text = format!(
                "{} holds tables of another store; name an empty directory with ssd",
                dir.display()
            );
            return Err(Error::new(ErrorKind::InvalidArgument, "open", text));
        }
    }
    table_dir.claim(pool.id())
}

pub(crate) fn same_file(a: &Path, b: &Path) -> bool {
    match (std::fs::canonicalize(a), std::fs::canonicalize(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

/// Opens the store in `region`, formatting it if nothing was ever in it.
pub(crate) fn open_region(
    region: Arc<Region>,
    table_dir: Option<TableDir>,
    options: Options,
    hooks: Hooks,
    memory: MachineMemory,
) -> Result<Arc<Engine>> {
    format_if_new(&Machine::here(), &region, &options, || {
        first_state(table_dir.as_ref()).map(Beginning::of_new_store)
    })?;
    let choice = PmChoice::by(ChosenBy::Caller);
    let opened = OpenedParts { choice, ..OpenedParts::whole(region, Prefault::Now, table_dir) };
    assemble(opened, options, hooks, Access::Write, Means { memory, runtime: None })
}

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
fn assemble(
    opened: OpenedParts,
    options: Options,
    hooks: Hooks,
    access: Access,
    means: Means,
) -> Result<Arc<Engine>> {
    check_threads(&options)?;
    let OpenedParts { region, prefault, table_dir, damage, choice } = opened;
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
        check_pm_tables(&options, parts)?;
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
    let pm_tables = PmTables::new(&media, &pending_free, options.pm_tables);
    let room = FileRoom::new(options.ssd_size, options.table_bytes);
    let cache = || match &means.runtime {
        None => StoreCache::own(options.block_cache.min(options.dram_budget / 2)),
        Some(runtime) => StoreCache::of(&runtime.memory.cache),
    };
    let tables =
        table_dir.map(|table_dir| Tables::new(table_dir, room, cache()).with_memory(pm_tables));
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
    let Means { memory, runtime } = means;
    let surroundings = Surroundings { memory, choice, prefault_to };
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
        if engine.options.background_threads > 0 {
            crate::background::worker::start(&engine, runtime.as_ref())?;
        }
    }
    Ok(engine)
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
