//! Opening and closing a store: where its pool is, who holds it, and what runs beside it.
//!
//! A store is a directory with a file `STORE` that names the pool and the directory of tables. The pool is made first
//! and named last, by a rename, so a creation that was killed leaves either nothing or a pool that the next open
//! finishes.
//!
//! A checkpoint is a directory of tables with a manifest file among them. Opened for writing it becomes a store: a pool
//! is made that begins with what the file says, and named as above; then the file goes. Opened for reading it stays
//! as it is, and the pool is in DRAM.

mod assemble;
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
pub(crate) mod tiers;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Error, ErrorKind, Result};
use pmem::{OpenMode, Prefault, Region};
use pool::Pool;
use ssd::{Fs, Metered};

use crate::engine::{Access, Engine, Means};
use crate::hooks::Hooks;
use crate::inspect;
use crate::machine::{ChosenBy, MachineMemory, PmChoice};
use crate::manifest::{ManifestState, file as manifest_file};
use crate::open::assemble::assemble;
use crate::open::create::{
    Beginning, check_size, create, first_state, format_if_new, make_table_dir,
};
use crate::open::ground::{Ground, Machine};
use crate::open::store_file::{IDENTITY, Identity, Memory, hold_named};
use crate::open::tiers::{GivenTier, NamedTiers};
use crate::options::check::check;
use crate::options::{Options, PmSource, SsdSource, TierSource, WalDir};
use crate::recovery::recover::Damage;
use crate::tree::names::FileName;
use crate::tree::owner;
use crate::tree::tables::TableDir;
use crate::tree::tiers::{OWN, TierUse, same_file};
use crate::volatile::VolatilePlace;

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
    /// Directories of tables, fastest first; the own one may be among them, and is the only one if there are none.
    pub tiers: Vec<GivenTier>,
    /// What `STORE` is to say of them before anything is written there.
    pub renamed: Option<RenamedParts>,
    /// What of the region is lost.
    pub damage: Vec<Damage>,
    /// How it came that the records are there.
    pub choice: PmChoice,
}

/// A store whose parts are others than `STORE` says. An open that fails leaves the file as it was.
pub(crate) struct RenamedParts {
    names: Arc<dyn Fs>,
    path: PathBuf,
    identity: Identity,
}

impl RenamedParts {
    /// Says so durably.
    pub fn write(&self) -> Result<()> {
        self.identity.write(&*self.names, &self.path)
    }
}

impl OpenedParts {
    pub fn whole(
        region: Arc<Region>,
        prefault: Prefault,
        table_dir: Option<TableDir>,
    ) -> OpenedParts {
        let choice = PmChoice::by(ChosenBy::Store);
        let (tiers, renamed, damage) = (Vec::new(), None, Vec::new());
        OpenedParts { region, prefault, table_dir, tiers, renamed, damage, choice }
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
    if access == Access::Write && engine.options().inspect {
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
    VolatilePlace::check_all(&options)?;
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
            choose::refuse_wal_dir(path, &options, "memory of this process, which has no log")?;
            remains::refuse_heap(ground, path)?;
            check_size(&options)?;
            let len = ground.memory_len(&options, &Memory::Pool(PathBuf::new()));
            let region = Arc::new(ground.heap(len)?);
            format_if_new(ground, &region, &options, || {
                Ok(Beginning::of_new_store(ManifestState::fresh()))
            })?;
            let table_dir = heap_table_dir(ground, &options)?;
            let choice = PmChoice::by(ChosenBy::Option);
            let tiers = table_dir.as_ref().map_or_else(Vec::new, |own| {
                tiers::of_options(&own.fs, &options, |device| ground.tables_on(device, &options))
            });
            OpenedParts { choice, tiers, ..OpenedParts::whole(region, Prefault::Now, table_dir) }
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
    if let Some((mut named, mut opened)) = held {
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
                let table_dir =
                    begin_tables(ground, path, &mut named, dir, options, &opened.region)?;
                opened.table_dir = Some(table_dir);
                return with_tiers(opened, ground, path, named, options, access);
            }
        };
        // One that is gone is not made before it is known that nothing was in it.
        opened.table_dir = dir.map(|dir| TableDir { fs: ground.tables(options), dir });
        return with_tiers(opened, ground, path, named, options, access);
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

/// The parts of a store that is open, with its directories of tables.
fn with_tiers(
    opened: OpenedParts,
    ground: &dyn Ground,
    path: &Path,
    named: Identity,
    options: &Options,
    access: Access,
) -> Result<OpenedParts> {
    let mut identity = named.clone();
    let tiers = tiers_of(ground, path, &mut identity, options, access, &opened.region)?;
    let renamed = (identity.tiers != named.tiers).then(|| RenamedParts {
        names: ground.names(),
        path: path.to_owned(),
        identity,
    });
    Ok(OpenedParts { tiers, renamed, ..opened })
}

/// The directories of tables of a store, whose records are in `region`.
fn tiers_of(
    ground: &dyn Ground,
    path: &Path,
    named: &mut Identity,
    options: &Options,
    access: Access,
    region: &Arc<Region>,
) -> Result<Vec<GivenTier>> {
    let named_tiers = || {
        let (pool, replay) = Pool::open(Arc::clone(region))?;
        NamedTiers::of(&pool, &replay)
    };
    tiers::of_store(ground, path, named, options, access, named_tiers)
}

/// From now on the store at `path` has tables in `dir`.
fn begin_tables(
    ground: &dyn Ground,
    path: &Path,
    named: &mut Identity,
    dir: PathBuf,
    options: &Options,
    region: &Arc<Region>,
) -> Result<TableDir> {
    let table_dir = make_table_dir(ground, path.join(&dir), options)?;
    claim(&table_dir, region)?;
    named.ssd = Some(dir);
    named.write(&*ground.names(), path)?;
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
            if let WalDir::Path(given) = &options.wal_dir {
                check_place(path, "wal_dir", &path.join(dir), given)?;
            }
            return open_dram::open_memory(ground, path, dir, options, access);
        }
        Memory::Pool(pool) => {
            choose::refuse_wal_dir(path, options, "a pool, which has no log")?;
            path.join(pool)
        }
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
    let region = read_pool(ground, manifest, options, || first_state(Some(&table_dir)))?;
    Ok(OpenedParts::whole(region, Prefault::Now, Some(table_dir)))
}

/// A pool in DRAM that begins with a manifest of `len` bytes.
fn read_pool(
    ground: &dyn Ground,
    len: u64,
    options: &Options,
    state: impl FnOnce() -> Result<ManifestState>,
) -> Result<Arc<Region>> {
    let region = Arc::new(Region::heap(READ_POOL_LEN + 64 * len.next_power_of_two(), None)?);
    let options = Options { zone_size: 0, ..options.clone() };
    format_if_new(ground, &region, &options, || state().map(Beginning::of_new_store))?;
    Ok(region)
}

/// Opens for reading a copy of a store that has tables and no name yet: `state` is what its manifest would say.
pub(crate) fn open_copy(
    ground: &dyn Ground,
    table_dir: TableDir,
    state: ManifestState,
    options: &Options,
    hooks: Hooks,
) -> Result<Arc<Engine>> {
    let len = state.encode_snapshot().len() as u64;
    let region = read_pool(ground, len, options, || Ok(state))?;
    let opened = OpenedParts::whole(region, Prefault::Now, Some(table_dir));
    assemble(opened, options.clone(), hooks, Access::Read, Means::default())
}

/// Where the parts of a damaged store are, or should be.
pub(crate) struct Places {
    pub memory: Memory,
    pub tables: PathBuf,
    /// More directories of tables.
    pub tiers: Vec<PathBuf>,
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

    /// Neither memory nor tables are there.
    pub fn nothing_left(&self, why: Error) -> Error {
        let (Memory::Pool(memory) | Memory::Wal(memory)) = &self.memory;
        let text = format!(
            "nothing of a store is there: no records in {}, no tables in {}; check the path",
            memory.display(),
            self.tables.display()
        );
        Error::new(ErrorKind::NotFound, "repair", text).with_source(why)
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
    let (memory, tables, stored) = match named {
        Some(named) => (Some(named.memory), named.ssd, named.tiers),
        None => (None, None, Vec::new()),
    };
    let there = |named: Option<PathBuf>| named.map(|at| path.join(at)).filter(|at| is_there(at));
    let wal = match &options.wal_dir {
        WalDir::Auto => path.join(open_dram::WAL),
        WalDir::Path(given) => absolute(given)?,
    };
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
    let tiers = match &options.tiers {
        TierSource::Dirs(dirs) => dirs.iter().map(|given| given.dir.clone()).collect(),
        TierSource::Auto => stored.into_iter().map(|tier| path.join(tier.dir)).collect(),
    };
    Ok(Places { memory, tables, tiers })
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
        let tiers = places.tiers.iter().map(|dir| GivenTier {
            at: present_table_dir(ground, dir.clone()),
            size: 0,
            use_: TierUse::Open,
            device: None,
        });
        let tiers = tiers.collect();
        OpenedParts { damage, tiers, ..OpenedParts::whole(region, Prefault::Lazy, table_dir) }
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
        if names.iter().any(|name| FileName::parse(name).is_some() || name == manifest_file::NAME) {
            let text = format!(
                "{} holds tables of another store; name an empty directory with ssd",
                dir.display()
            );
            return Err(Error::new(ErrorKind::InvalidArgument, "open", text));
        }
    }
    table_dir.claim(pool.id(), OWN)
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
    let tiers = table_dir.as_ref().map_or_else(Vec::new, |own| {
        tiers::of_options(&own.fs, &options, |device| {
            Arc::new(Metered::new(Arc::clone(&own.fs), Arc::clone(device)))
        })
    });
    let opened =
        OpenedParts { choice, tiers, ..OpenedParts::whole(region, Prefault::Now, table_dir) };
    assemble(opened, options, hooks, Access::Write, Means { memory, ..Means::default() })
}
