//! Opening, making and closing a store: where its pool is, who holds it, and what runs beside it.
//!
//! A store is a directory with a file `STORE` that names the pool and the directory of tables. The pool is made first
//! and named last, by a rename, so a creation that was killed leaves either nothing or a pool that the next open
//! finishes.
//!
//! A checkpoint is a directory of tables with a manifest file among them. Opened for writing it becomes a store: a pool
//! is made that begins with what the file says, and named as above; then the file goes. Opened for reading it stays
//! as it is, and the pool is in DRAM.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Error, ErrorKind, Result};
use pmem::{OpenMode, PoolFile, Prefault, Region};
use pool::{Format, Pool};

use super::admin::ZONE_CHANGE_BYTES;
use super::identity::{IDENTITY, Identity, Memory};
use super::open_dram;
use super::recover::{Damage, recover};
use super::remains;
use crate::engine::Engine;
use crate::hooks::Hooks;
use crate::manifest::{State, file as manifest_file};
use crate::media::Media;
use crate::memtable::zone::Graveyard;
use crate::options::check::{check, check_level0, check_pm_tables, check_threads};
use crate::options::{Options, PmSource, SsdSource};
use crate::tree::memory::PmTables;
use crate::tree::owner;
use crate::tree::tables::{Shelf, Tables};

pub(super) const POOL: &str = "pool";
pub(super) const SST: &str = "sst";
/// Smallest pool that an open makes: room for a few zones and runs.
const POOL_LEN_MIN: u64 = 1 << 20;

/// Bytes of the pool in DRAM behind a checkpoint that is open for reading, its manifest aside.
const READ_POOL_LEN: u64 = 4 << 20;

/// Whether a store may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Write,
    Read,
}

/// The parts of a store, before anything is recovered.
pub(super) struct Opened {
    pub region: Arc<Region>,
    /// Its pages are yet to be mapped.
    pub lazy: bool,
    pub shelf: Option<Shelf>,
    /// What of the region is lost.
    pub damage: Vec<Damage>,
}

impl Opened {
    pub fn whole(region: Arc<Region>, lazy: bool, shelf: Option<Shelf>) -> Opened {
        Opened { region, lazy, shelf, damage: Vec::new() }
    }
}

/// Opens the store at `path`, making it if the options allow that.
pub(crate) fn open(
    path: &Path,
    options: Options,
    hooks: Hooks,
    access: Access,
) -> Result<Arc<Engine>> {
    check(&options)?;
    let opened = match &options.pm {
        PmSource::Heap if access == Access::Read => {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "open",
                "a heap store has nothing to open read-only; give pm a path",
            ));
        }
        PmSource::Heap => {
            remains::refuse_heap(path)?;
            let region = Arc::new(Region::heap(options.pm_size, None)?);
            format_if_new(&region, &options, || Ok(State::fresh()))?;
            Opened::whole(region, false, heap_shelf(&options)?)
        }
        PmSource::Auto | PmSource::Path(_) | PmSource::Dram => open_file(path, &options, access)?,
    };
    assemble(opened, (options, hooks), access)
}

/// Where a store in memory of this process puts its tables: nobody finds them again, so they must be the only ones.
fn heap_shelf(options: &Options) -> Result<Option<Shelf>> {
    let SsdSource::Path(dir) = &options.ssd else { return Ok(None) };
    let shelf = open_shelf(dir.clone(), options)?;
    if !shelf.present()?.is_empty() {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            "open",
            format!(
                "{} holds tables, and a store with pm=heap begins with none; name an empty directory",
                dir.display()
            ),
        ));
    }
    Ok(Some(shelf))
}

/// The directory of tables, made if need be.
fn open_shelf(dir: PathBuf, options: &Options) -> Result<Shelf> {
    let shelf = Shelf { fs: ssd::best(options.ssd_direct), dir };
    shelf.make()?;
    Ok(shelf)
}

/// Opens what the store at `path` has its records in, making it if need be.
fn open_file(path: &Path, options: &Options, access: Access) -> Result<Opened> {
    if let Some(named) = Identity::read(path)? {
        let mut opened = open_memory(path, &named.memory, options, access)?;
        let dir = match (&named.ssd, &options.ssd) {
            (_, SsdSource::None) | (None, SsdSource::Auto) => None,
            (Some(dir), SsdSource::Auto) => Some(path.join(dir)),
            (Some(dir), SsdSource::Path(given)) => {
                check_place(path, "ssd", &path.join(dir), given)?;
                Some(path.join(dir))
            }
            (None, SsdSource::Path(_)) if access == Access::Read => None,
            (None, SsdSource::Path(given)) => {
                // From now on the store has tables there.
                let dir = absolute(given)?;
                let shelf = open_shelf(dir.clone(), options)?;
                claim(&shelf, &opened.region)?;
                Identity { ssd: Some(dir), ..named }.write(path)?;
                return Ok(Opened { shelf: Some(shelf), ..opened });
            }
        };
        // One that is gone is not made before it is known that nothing was in it.
        opened.shelf = dir.map(|dir| Shelf { fs: ssd::best(options.ssd_direct), dir });
        return Ok(opened);
    }
    let is_checkpoint = path.join(SST).join(manifest_file::NAME).exists();
    if is_checkpoint && options.ssd != SsdSource::Auto {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            "open",
            format!("{} is a checkpoint, whose tables are in it; leave ssd out", path.display()),
        ));
    }
    if is_checkpoint && access == Access::Read {
        return open_checkpoint(path, options);
    }
    if access == Access::Read || !(options.create_if_missing || is_checkpoint) {
        return Err(Error::new(
            ErrorKind::NotFound,
            "open",
            format!("no store at {}; open it for writing with create_if_missing", path.display()),
        ));
    }
    remains::refuse_to_hide(path, options)?;
    match options.pm {
        PmSource::Dram => open_dram::create(path, options),
        _ => create_file(path, options),
    }
}

/// Maps the pool that the store at `path` names, or reads its log.
fn open_memory(path: &Path, memory: &Memory, options: &Options, access: Access) -> Result<Opened> {
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
        Memory::Wal(dir) => return open_dram::open_memory(&path.join(dir), options, access),
        Memory::Pool(pool) => path.join(pool),
    };
    let mode = if access == Access::Read { OpenMode::ReadOnly } else { OpenMode::ReadWrite };
    let file = PoolFile::open(&pool, mode).map_err(|error| missing(path, error))?;
    Ok(Opened::whole(Arc::new(file.map(Prefault::Lazy)?), true, None))
}

fn other_memory(store: &Path, is: &str, given: &str) -> Error {
    let store = store.display();
    let text = format!("store {store} has {is}, and pm={given} was asked for; leave pm out");
    Error::new(ErrorKind::InvalidArgument, "open", text)
}

/// A checkpoint for reading: its manifest goes to a pool in DRAM.
fn open_checkpoint(path: &Path, options: &Options) -> Result<Opened> {
    let shelf = open_shelf(path.join(SST), options)?;
    let manifest = std::fs::metadata(shelf.dir.join(manifest_file::NAME)).map_or(0, |m| m.len());
    let region = Arc::new(Region::heap(READ_POOL_LEN + 64 * manifest.next_power_of_two(), None)?);
    format_if_new(&region, &Options { zone_size: 0, ..options.clone() }, || {
        first_state(Some(&shelf))
    })?;
    Ok(Opened::whole(region, false, Some(shelf)))
}

/// Where the parts of a damaged store are, or should be.
pub(super) struct Places {
    pub memory: Memory,
    pub tables: PathBuf,
}

impl Places {
    /// The memory, for reading, and what of it is lost.
    pub fn memory(&self, options: &Options) -> Result<(Arc<Region>, Vec<Damage>)> {
        let missing = |dir: &Path| {
            let text = format!("{} holds no log; put it back", dir.display());
            Error::new(ErrorKind::NotFound, "open", text)
        };
        match &self.memory {
            Memory::Pool(pool) => {
                let file = PoolFile::open(pool, OpenMode::ReadOnly)?;
                Ok((Arc::new(file.map(Prefault::Lazy)?), Vec::new()))
            }
            Memory::Wal(dir) => open_dram::read_memory(dir, options)?.ok_or_else(|| missing(dir)),
        }
    }

    fn is_there(&self) -> bool {
        match &self.memory {
            Memory::Pool(at) | Memory::Wal(at) => at.exists(),
        }
    }
}

/// The places that a store names, or, where what it names is not there, those of the options, or the usual ones.
pub(super) fn places_left(path: &Path, options: &Options) -> Result<Places> {
    let named = Identity::read(path).ok().flatten();
    let (memory, tables) = match named {
        Some(named) => (Some(named.memory), named.ssd),
        None => (None, None),
    };
    let there = |named: Option<PathBuf>| named.map(|at| path.join(at)).filter(|at| at.exists());
    let wal = path.join(open_dram::WAL);
    let memory = match (memory, &options.pm) {
        (Some(Memory::Wal(dir)), _) => Memory::Wal(path.join(dir)),
        (Some(Memory::Pool(pool)), _) if path.join(&pool).exists() => Memory::Pool(path.join(pool)),
        (_, PmSource::Path(given)) => Memory::Pool(absolute(given)?),
        (None, PmSource::Dram) => Memory::Wal(wal),
        (None, _) if !path.join(POOL).exists() && wal.exists() => Memory::Wal(wal),
        (_, _) => Memory::Pool(path.join(POOL)),
    };
    let tables = match (there(tables), &options.ssd) {
        (Some(dir), _) => dir,
        (None, SsdSource::Path(given)) => absolute(given)?,
        (None, _) => path.join(SST),
    };
    Ok(Places { memory, tables })
}

/// Opens for reading what is left of a store or checkpoint, whatever its tables are like.
pub(super) fn open_what_is_left(
    path: &Path,
    places: &Places,
    options: &Options,
) -> Result<Arc<Engine>> {
    check(options)?;
    let is_checkpoint = path.join(SST).join(manifest_file::NAME).exists();
    let with = (options.clone(), Hooks::default());
    if is_checkpoint && !places.is_there() {
        return assemble(open_checkpoint(path, options)?, with, Access::Read);
    }
    let (region, damage) = places.memory(options)?;
    let shelf = Some(shelf_left(places.tables.clone()));
    assemble(Opened { region, lazy: true, shelf, damage }, with, Access::Read)
}

/// A directory of tables that may be gone.
pub(super) fn shelf_left(dir: PathBuf) -> Shelf {
    Shelf { fs: ssd::best(false), dir }
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

pub(super) fn absolute(path: &Path) -> Result<PathBuf> {
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

fn create_file(path: &Path, options: &Options) -> Result<Opened> {
    let failed = |what: &Path, error: std::io::Error| {
        Error::io("open", format!("making {}; choose a writable directory", what.display()), error)
    };
    check_pool_len(options)?;
    std::fs::create_dir_all(path).map_err(|error| failed(path, error))?;
    let pool = match &options.pm {
        PmSource::Path(given) => absolute(given)?,
        _ => PathBuf::from(POOL),
    };
    let (ssd, shelf) = new_shelf(path, options)?;
    let at = path.join(&pool);
    // Before anything is made: what is damaged stays as it is.
    let is_new = || match std::fs::metadata(&at) {
        Ok(meta) if meta.is_file() => {
            remains::begins_blank(&at).map_err(|error| failed(&at, error))
        }
        found => Ok(found.is_err()),
    };
    let first = match is_new()?.then(|| first_state(shelf.as_ref())) {
        // Somebody else has made the pool meanwhile.
        Some(Err(_)) if !is_new()? => None,
        first => first.transpose()?,
    };
    let is_new = first.is_some();
    // A device has its own size. A file that a killed creation left begins with zeroes as long as nothing
    // was formatted; anything else is opened as it is, so that what is not ours is told and not touched.
    let file = match std::fs::metadata(&at) {
        Ok(meta) if !meta.is_file() => PoolFile::open(&at, OpenMode::ReadWrite)?,
        Ok(_) if !is_new => PoolFile::open(&at, OpenMode::ReadWrite)?,
        Ok(meta) if meta.len() >= options.pm_size => PoolFile::open(&at, OpenMode::ReadWrite)?,
        _ => PoolFile::create(&at, options.pm_size)?,
    };
    let region = Arc::new(file.map(Prefault::Now)?);
    let first = || first.map_or_else(|| first_state(shelf.as_ref()), Ok);
    let id = format_if_new(&region, options, first)?;
    shelf.as_ref().map_or(Ok(()), |shelf| shelf.claim(id))?;
    Identity { memory: Memory::Pool(pool), ssd }.write(path)?;
    Ok(Opened::whole(region, false, shelf))
}

pub(super) fn check_pool_len(options: &Options) -> Result<()> {
    if options.pm_size >= POOL_LEN_MIN {
        return Ok(());
    }
    let text = format!("pm_size={}: at least {POOL_LEN_MIN}", options.pm_size);
    Err(Error::new(ErrorKind::InvalidArgument, "open", text))
}

/// The directory of tables of a new store, as it is to be named and made.
pub(super) fn new_shelf(
    path: &Path,
    options: &Options,
) -> Result<(Option<PathBuf>, Option<Shelf>)> {
    let ssd = match &options.ssd {
        SsdSource::Auto => Some(PathBuf::from(SST)),
        SsdSource::Path(given) => Some(absolute(given)?),
        SsdSource::None => None,
    };
    let shelf = ssd.as_ref().map(|dir| open_shelf(path.join(dir), options)).transpose()?;
    Ok((ssd, shelf))
}

/// Formats what no pool was ever in; a creation that was killed is finished that way. Returns the pool's identifier.
pub(super) fn format_if_new(
    region: &Arc<Region>,
    options: &Options,
    first: impl FnOnce() -> Result<State>,
) -> Result<u64> {
    match Pool::open(Arc::clone(region)) {
        Ok((pool, _)) => return Ok(pool.id()),
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Err(_) => {}
    }
    let snapshot = first()?.encode_snapshot();
    let mut format = Format::for_len(region.len());
    let wanted = (4 * snapshot.len() as u64).next_power_of_two();
    format.manifest_len = format.manifest_len.max(wanted);
    if options.zone_size != 0 {
        format.zone_len = options.zone_size;
        // Half of the manifest may be taken by what it says of zones.
        let zones = region.len() / options.zone_size * ZONE_CHANGE_BYTES;
        format.manifest_len = format.manifest_len.max((2 * zones).next_power_of_two());
    }
    Pool::create(Arc::clone(region), format, fresh_id()?, &snapshot).map(|pool| pool.id())
}

/// What a new pool begins with: nothing, or what the manifest file beside the tables says. Tables that no manifest names
/// are all that is left of some store, and the new one would remove them.
pub(super) fn first_state(shelf: Option<&Shelf>) -> Result<State> {
    let Some(shelf) = shelf else { return Ok(State::fresh()) };
    if let Some(state) = manifest_file::read(&*shelf.fs, &shelf.dir)? {
        return Ok(state);
    }
    if shelf.present()?.is_empty() {
        owner::refuse_claimed(&*shelf.fs, &shelf.dir)?;
        return Ok(State::fresh());
    }
    Err(Error::corruption(
        "open",
        format!(
            "{} holds tables, but there is no pool and no {} to say what they are; put it back, save what they hold with \
             `strandline repair`, or name an empty directory",
            shelf.dir.display(),
            manifest_file::NAME
        ),
    ))
}

/// Claims a directory for a store that had no tables so far, and would remove those that are there.
fn claim(shelf: &Shelf, region: &Arc<Region>) -> Result<()> {
    let (fs, dir) = (&*shelf.fs, &shelf.dir);
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
    shelf.claim(pool.id())
}

/// An identifier that no pool had before: it seeds every checksum.
pub(super) fn fresh_id() -> Result<u64> {
    use std::io::Read;
    let mut bytes = [0; 8];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .map_err(|error| Error::io("open", "/dev/urandom", error))?;
    Ok(u64::from_le_bytes(bytes) | 1)
}

pub(super) fn same_file(a: &Path, b: &Path) -> bool {
    match (std::fs::canonicalize(a), std::fs::canonicalize(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

/// Opens the store in `region`, formatting it if nothing was ever in it.
pub(crate) fn open_region(
    region: Arc<Region>,
    shelf: Option<Shelf>,
    (options, hooks): (Options, Hooks),
    access: Access,
) -> Result<Arc<Engine>> {
    if access == Access::Write {
        format_if_new(&region, &options, || first_state(shelf.as_ref()))?;
    }
    assemble(Opened::whole(region, false, shelf), (options, hooks), access)
}

fn assemble(
    opened: Opened,
    (options, hooks): (Options, Hooks),
    access: Access,
) -> Result<Arc<Engine>> {
    check_threads(&options)?;
    let Opened { region, lazy, shelf, damage } = opened;
    if access == Access::Write {
        check_pm_tables(&options, region.journal().is_some(), shelf.is_some())?;
    }
    let prefault_to = if lazy { region.len() } else { 0 };
    let owner = match access {
        Access::Read => None,
        Access::Write => Some(region.own().ok_or_else(|| {
            Error::new(
                ErrorKind::Busy,
                "open",
                format!("{} is open in this process already; close that store", region.describe()),
            )
        })?),
    };
    let opened = Pool::open(Arc::clone(&region));
    let (pool, replay) = opened.map_err(|error| match damage.first() {
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
    })?;
    let media = Arc::new(Media::new(pool, region, owner));
    let threads = match options.recovery_threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads as usize,
    };
    let read_only = access == Access::Read;
    if !read_only {
        check_level0(&options, shelf.is_some())?;
    }
    let cache = options.block_cache.min(options.dram_budget / 2);
    let graveyard = Arc::new(Graveyard::default());
    let memory = PmTables::new(&media, &graveyard, options.pm_tables);
    let tables = shelf.map(|shelf| Tables::new(shelf, options.ssd_size, cache).with_memory(memory));
    let tables = tables.map(Arc::new);
    let progress = hooks.recovery_progress.as_deref();
    let recovered = recover(
        &media,
        (&replay.payloads, graveyard),
        (tables, damage),
        read_only,
        threads,
        progress,
    )?;
    let engine = Arc::new(Engine::new(media, options, hooks, read_only, prefault_to, recovered));
    #[cfg(feature = "planted")]
    engine.plant_old_tail();
    if !read_only {
        engine.update_debt();
        if engine.options.background_threads > 0 {
            crate::background::worker::start(&engine);
        }
    }
    Ok(engine)
}

impl Engine {
    #[cfg(feature = "planted")]
    /// A planted bug: the newest zone of a recovered memtable is filled on.
    fn plant_old_tail(&self) {
        use base::planted::{self, Bug};
        if !planted::is(Bug::AppendToOldTail) {
            return;
        }
        for (_, subrange) in self.subranges() {
            let view = subrange.view.load();
            let zone = view.memtables.get(1).and_then(|memtable| memtable.zones().pop());
            let Some(zone) = zone else { continue };
            let sealed = match self.manifest().state.zones.get(&zone.no) {
                Some((_, crate::manifest::edit::Fate::Live { sealed, .. })) => *sealed,
                _ => continue,
            };
            let pass = self.gate.enter_to_switch();
            subrange.front.set_spare_from(&pass, &zone, zone.start + sealed);
            drop(pass);
            view.active().push_zone(zone);
        }
    }

    /// Stops background work and refuses everything from now on. What is durable stays so; nothing needs
    /// to be written.
    pub(crate) fn close(&self) {
        self.closed.store(true, std::sync::atomic::Ordering::Release);
        self.rate.iter().for_each(|rate| rate.lift());
        self.signal.raise();
        let mut workers = self.workers.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for worker in workers.drain(..) {
            // The pool's lock goes with the threads, so that the store can be opened again at once. A panic
            // in one was caught and poisoned the store.
            let _ended = worker.join();
        }
        if let Some(tables) = &self.tables
            && !self.read_only
        {
            // What stays is removed by the next open.
            let _left = tables.remove_dead();
            if self.options.pm == PmSource::Heap {
                tables.shelf.give_up(self.media.pool.id());
            }
        }
    }
}
