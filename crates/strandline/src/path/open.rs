//! Opening, making and closing a store: where its pool is, who holds it, and what runs beside it.
//!
//! A store is a directory with a file `STORE` that names the pool. The pool is made first and named last, by
//! a rename, so a creation that was killed leaves either nothing or a pool that the next open finishes.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Error, ErrorKind, Result};
use pmem::{OpenMode, PoolFile, Prefault, Region};
use pool::{Format, Pool};

use super::admin::ZONE_CHANGE_BYTES;
use super::recover::recover;
use crate::engine::Engine;
use crate::manifest::State;
use crate::media::Media;
use crate::options::{Options, PmSource};

const IDENTITY: &str = "STORE";
const POOL: &str = "pool";
const HEADER: &str = "strandline store 1";
/// Smallest memtable: below it every write would freeze one.
const MEMTABLE_BYTES_MIN: u64 = 256;
/// Smallest budget: the indexes of two empty memtables take some of it.
const DRAM_BUDGET_MIN: u64 = 1 << 20;
/// Smallest pool that an open makes: room for a few zones and runs.
const POOL_LEN_MIN: u64 = 1 << 20;

/// Whether a store may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Write,
    Read,
}

/// Opens the store at `path`, making it if the options allow that.
pub(crate) fn open(path: &Path, options: Options, access: Access) -> Result<Arc<Engine>> {
    check_options(&options)?;
    let (region, lazy) = match &options.pm {
        PmSource::Heap if access == Access::Read => {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "open",
                "a heap store has nothing to open read-only; give pm a path",
            ));
        }
        PmSource::Heap => {
            let region = Arc::new(Region::heap(options.pm_size, None)?);
            format_if_new(&region, &options)?;
            (region, false)
        }
        PmSource::Auto | PmSource::Path(_) => open_file(path, &options, access)?,
    };
    assemble(region, options, access, lazy)
}

fn check_options(options: &Options) -> Result<()> {
    for (name, value, least) in [
        ("memtable_bytes", options.memtable_bytes, MEMTABLE_BYTES_MIN),
        ("dram_budget", options.dram_budget, DRAM_BUDGET_MIN),
    ] {
        if value < least {
            let text = format!("{name}={value}: at least {least}");
            return Err(Error::new(ErrorKind::InvalidArgument, "open", text));
        }
    }
    let zone = options.zone_size;
    if zone != 0 && !(zone.is_power_of_two() && (1 << 10..=64 << 20).contains(&zone)) {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            "open",
            format!("zone_size={zone}: a power of two from 1K to 64M, or 0"),
        ));
    }
    Ok(())
}

/// Maps the pool of the store at `path`, making it if need be; tells whether its pages are yet to be mapped.
fn open_file(path: &Path, options: &Options, access: Access) -> Result<(Arc<Region>, bool)> {
    let named = read_identity(path)?;
    if let (Some(named), PmSource::Path(given)) = (&named, &options.pm)
        && !same_file(&path.join(named), given)
    {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            "open",
            format!(
                "store {} keeps its pool at {}, not at {}; leave pm out or open another store",
                path.display(),
                path.join(named).display(),
                given.display()
            ),
        ));
    }
    if let Some(named) = named {
        let mode = if access == Access::Read { OpenMode::ReadOnly } else { OpenMode::ReadWrite };
        let file =
            PoolFile::open(&path.join(&named), mode).map_err(|error| missing(path, error))?;
        return Ok((Arc::new(file.map(Prefault::Lazy)?), true));
    }
    if access == Access::Read || !options.create_if_missing {
        return Err(Error::new(
            ErrorKind::NotFound,
            "open",
            format!("no store at {}; open it for writing with create_if_missing", path.display()),
        ));
    }
    Ok((create_file(path, options)?, false))
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

fn create_file(path: &Path, options: &Options) -> Result<Arc<Region>> {
    let failed = |what: &Path, error: std::io::Error| {
        Error::io("open", format!("making {}; choose a writable directory", what.display()), error)
    };
    if options.pm_size < POOL_LEN_MIN {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            "open",
            format!("pm_size={}: at least {POOL_LEN_MIN}", options.pm_size),
        ));
    }
    std::fs::create_dir_all(path).map_err(|error| failed(path, error))?;
    let named = match &options.pm {
        PmSource::Path(given) => {
            std::path::absolute(given).map_err(|error| failed(given, error))?
        }
        _ => PathBuf::from(POOL),
    };
    let at = path.join(&named);
    // A device has its own size. A file that a killed creation left begins with zeroes as long as nothing
    // was formatted; anything else is opened as it is, so that what is not ours is told and not touched.
    let file = match std::fs::metadata(&at) {
        Ok(meta) if !meta.is_file() => PoolFile::open(&at, OpenMode::ReadWrite)?,
        Ok(_) if !begins_blank(&at).map_err(|error| failed(&at, error))? => {
            PoolFile::open(&at, OpenMode::ReadWrite)?
        }
        Ok(meta) if meta.len() >= options.pm_size => PoolFile::open(&at, OpenMode::ReadWrite)?,
        _ => PoolFile::create(&at, options.pm_size)?,
    };
    let region = Arc::new(file.map(Prefault::Now)?);
    format_if_new(&region, options)?;
    write_identity(path, &named).map_err(|error| failed(&path.join(IDENTITY), error))?;
    Ok(region)
}

/// Whether the first bytes of a file, as many as there are, are zeroes.
fn begins_blank(path: &Path) -> std::io::Result<bool> {
    use std::io::Read;
    let mut head = Vec::new();
    std::fs::File::open(path)?.take(4096).read_to_end(&mut head)?;
    Ok(head.iter().all(|byte| *byte == 0))
}

/// Formats what no pool was ever in; a creation that was killed is finished that way.
fn format_if_new(region: &Arc<Region>, options: &Options) -> Result<()> {
    match Pool::open(Arc::clone(region)) {
        Ok(_) => return Ok(()),
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Err(_) => {}
    }
    let mut format = Format::for_len(region.len());
    if options.zone_size != 0 {
        format.zone_len = options.zone_size;
        // Half of the manifest may be taken by what it says of zones.
        let zones = region.len() / options.zone_size * ZONE_CHANGE_BYTES;
        format.manifest_len = format.manifest_len.max((2 * zones).next_power_of_two());
    }
    Pool::create(Arc::clone(region), format, fresh_id()?, &State::fresh().encode_snapshot())
        .map(drop)
}

/// An identifier that no pool had before: it seeds every checksum.
fn fresh_id() -> Result<u64> {
    use std::io::Read;
    let mut bytes = [0; 8];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .map_err(|error| Error::io("open", "/dev/urandom", error))?;
    Ok(u64::from_le_bytes(bytes) | 1)
}

fn same_file(a: &Path, b: &Path) -> bool {
    match (std::fs::canonicalize(a), std::fs::canonicalize(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

/// The pool that the store's identity file names, relative to the store or absolute.
fn read_identity(path: &Path) -> Result<Option<PathBuf>> {
    let file = path.join(IDENTITY);
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("open", file.display().to_string(), error)),
    };
    let mut lines = text.lines();
    if lines.next() != Some(HEADER) {
        return Err(Error::new(
            ErrorKind::NotSupported,
            "open",
            format!(
                "{} does not begin with `{HEADER}`; use the release that wrote it",
                file.display()
            ),
        ));
    }
    let pool = lines.next().and_then(|line| line.strip_prefix("pool ")).ok_or_else(|| {
        Error::corruption(
            "open",
            format!("{} names no pool; write `pool PATH` into its second line", file.display()),
        )
    })?;
    Ok(Some(PathBuf::from(pool)))
}

/// Names the pool, durably and in one piece.
fn write_identity(path: &Path, pool: &Path) -> std::io::Result<()> {
    let staged = path.join(format!("{IDENTITY}.new"));
    let mut file = std::fs::File::create(&staged)?;
    writeln!(file, "{HEADER}\npool {}", pool.display())?;
    file.sync_all()?;
    std::fs::rename(&staged, path.join(IDENTITY))?;
    std::fs::File::open(path)?.sync_all()
}

/// Opens the store in `region`, formatting it if nothing was ever in it.
pub(crate) fn open_region(
    region: Arc<Region>,
    options: Options,
    access: Access,
) -> Result<Arc<Engine>> {
    if access == Access::Write {
        format_if_new(&region, &options)?;
    }
    assemble(region, options, access, false)
}

fn assemble(
    region: Arc<Region>,
    options: Options,
    access: Access,
    lazy: bool,
) -> Result<Arc<Engine>> {
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
    let (pool, replay) = Pool::open(Arc::clone(&region))?;
    let media = Arc::new(Media::new(pool, region, owner));
    let threads = match options.recovery_threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads as usize,
    };
    let read_only = access == Access::Read;
    let recovered = recover(&media, &replay.payloads, read_only, threads)?;
    let engine = Arc::new(Engine::new(media, options, read_only, prefault_to, recovered));
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
        for space in self.spaces() {
            let view = space.view.load();
            let zone = view.memtables.get(1).and_then(|memtable| memtable.zones().pop());
            let Some(zone) = zone else { continue };
            let sealed = match self.manifest().state.zones.get(&zone.no) {
                Some((_, crate::manifest::edit::Fate::Live { sealed, .. })) => *sealed,
                _ => continue,
            };
            let pass = self.gate.enter_to_switch();
            space.front.set_spare_from(&pass, &zone, zone.start + sealed);
            drop(pass);
            view.active().push_zone(zone);
        }
    }

    /// Stops background work and refuses everything from now on. What is durable stays so; nothing needs
    /// to be written.
    pub(crate) fn close(&self) {
        self.closed.store(true, std::sync::atomic::Ordering::Release);
        self.signal.raise();
        let worker = self.worker.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        if let Some(worker) = worker {
            // The pool's lock goes with the thread, so that the store can be opened again at once. A panic
            // in it was caught and poisoned the store.
            let _ended = worker.join();
        }
    }
}
