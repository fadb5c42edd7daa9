//! Taking a store away: its tables, then its memory, and its name last.
//!
//! ```text
//! STORE ─► hold the memory, as an open for writing does ─► tables, OWNER ─► pool or log ─► STORE ─► empty directories
//! ```
//!
//! What a killed call leaves has its file `STORE` still: no other store is made there, and the next call goes on. Each
//! part is gone durably before the next, so that nothing rises again where another store may be made.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Error, ErrorKind, Result};
use pmem::{FileLock, OpenMode, Region};
use pool::Pool;
use ssd::Fs;

use crate::engine::Access;
use crate::manifest::file as manifest_file;
use crate::open::ground::{Ground, Named};
use crate::open::move_file::{self, MOVE_STAGED};
use crate::open::store_file::{IDENTITY, IDENTITY_STAGED, Identity, Memory, hold_named};
use crate::open::{check_place, open_memory};
use crate::options::{Options, SsdSource};
use crate::socket::SOCKET;
use crate::tree::names::FileName;
use crate::tree::owner;
use crate::wal;

const DESTROY: &str = "destroy";

/// Removes the store at `path`. Files that are not its own stay, and directories that have some.
pub(crate) fn destroy(ground: &dyn Ground, path: &Path, options: &Options) -> Result<()> {
    let names = ground.names();
    let held =
        hold_named(&*names, path, |named| HeldMemory::of(ground, path, &named.memory, options))?;
    let Some((named, held)) = held else {
        let text = format!("no store at {}: it has no file {IDENTITY}", path.display());
        return Err(Error::new(ErrorKind::NotFound, DESTROY, text));
    };
    let tables = own_tables(ground, path, &named, options, &held)?;
    move_file::remove_other(ground, path, &named.memory, held.pool_id())?;
    for dir in &tables {
        remove_tables(&*ground.tables(options), dir)?;
    }
    remove_memory(&*names, path, &named.memory)?;
    drop(held);
    for name in [SOCKET, IDENTITY_STAGED, MOVE_STAGED] {
        remove_if_there(&*names, &path.join(name))?;
    }
    names.remove(&path.join(IDENTITY))?;
    names.sync_dir(path)?;
    // What others put there keeps its directory.
    for dir in tables.iter().map(PathBuf::as_path).chain([path]) {
        let _others_may_use_it = names.remove_dir(dir);
    }
    Ok(())
}

/// The memory of a store, kept from others.
struct HeldMemory {
    region: Option<Arc<Region>>,
    /// Of memory that cannot be read.
    _lock: Option<FileLock>,
}

impl HeldMemory {
    fn of(
        ground: &dyn Ground,
        path: &Path,
        memory: &Memory,
        options: &Options,
    ) -> Result<HeldMemory> {
        let at = match memory {
            Memory::Pool(pool) => path.join(pool),
            Memory::Wal(dir) => path.join(dir).join(wal::LOCK),
        };
        let found = ground.what_is(&at)?;
        if found == Named::Device && matches!(memory, Memory::Pool(_)) {
            let text = format!(
                "the pool of the store, {}, is a device, which stays; overwrite its first megabyte with zeroes, then \
                 remove {}",
                at.display(),
                path.join(IDENTITY).display()
            );
            return Err(Error::new(ErrorKind::InvalidArgument, DESTROY, text));
        }
        match open_memory(ground, path, memory, options, Access::Write) {
            Ok(opened) => Ok(HeldMemory { region: Some(opened.region), _lock: None }),
            Err(error) if [ErrorKind::Busy, ErrorKind::InvalidArgument].contains(&error.kind()) => {
                Err(error)
            }
            // A call that was killed has removed it.
            Err(_) if found == Named::Nothing => Ok(HeldMemory { region: None, _lock: None }),
            // Damaged as it may be, it goes.
            Err(_) => {
                Ok(HeldMemory { region: None, _lock: ground.lock(&at, OpenMode::ReadWrite)? })
            }
        }
    }

    /// The identifier of the pool in it, if it can be read.
    fn pool_id(&self) -> Option<u64> {
        let (pool, _) = Pool::open(Arc::clone(self.region.as_ref()?)).ok()?;
        Some(pool.id())
    }
}

/// The directories of tables that are the store's.
fn own_tables(
    ground: &dyn Ground,
    path: &Path,
    named: &Identity,
    options: &Options,
    held: &HeldMemory,
) -> Result<Vec<PathBuf>> {
    if let (Some(dir), SsdSource::Path(given)) = (&named.ssd, &options.ssd) {
        check_place(path, "ssd", &path.join(dir), given)?;
    }
    let fs = ground.tables(options);
    let elsewhere = named.ssd.iter().filter(|dir| dir.is_absolute());
    for dir in named.tiers.iter().map(|tier| &tier.dir).chain(elsewhere) {
        let dir = path.join(dir);
        // A call that was killed leaves the directories until the store has no name any more.
        if !fs.exists(&dir)? {
            let text = format!(
                "{} is not there, and tables of the store may be in it; put it back, or mount what it is on; if it is gone for \
                 good, make an empty directory in its place",
                dir.display()
            );
            return Err(Error::new(ErrorKind::NotFound, DESTROY, text));
        }
    }
    let dirs = named.tiers.iter().map(|tier| &tier.dir).chain(&named.ssd);
    let ours = dirs.map(|dir| if_own(&*fs, path, dir, held.pool_id()));
    ours.filter_map(Result::transpose).collect()
}

/// A directory of tables, if it is that of the store with this pool.
fn if_own(fs: &dyn Fs, path: &Path, dir: &Path, pool: Option<u64>) -> Result<Option<PathBuf>> {
    let at = path.join(dir);
    match pool {
        // Not claimed: a call that was killed has removed them, or none of them is the store's.
        Some(id) => Ok(matches!(owner::is_claimed(fs, &at, Some(id)), Ok(true)).then_some(at)),
        None if dir.is_relative() => Ok(Some(at)),
        None if !fs.exists(&at.join(owner::NAME))? => Ok(None),
        None => {
            let text = format!(
                "whose the tables in {} are cannot be told, since the memory of the store cannot be read; remove that \
                 directory yourself if they are this store's",
                at.display()
            );
            Err(Error::corruption(DESTROY, text))
        }
    }
}

/// Removes tables and what is said about them, and last whose they are.
fn remove_tables(fs: &dyn Fs, dir: &Path) -> Result<()> {
    let Ok(names) = fs.list(dir) else { return Ok(()) };
    let manifest = [manifest_file::NAME, manifest_file::STAGED];
    let is_ours =
        |name: &&String| FileName::parse(name).is_some() || manifest.contains(&name.as_str());
    for name in names.iter().filter(is_ours) {
        fs.remove(&dir.join(name))?;
    }
    fs.sync_dir(dir)?;
    remove_if_there(fs, &dir.join(owner::NAME))?;
    fs.sync_dir(dir)
}

/// Removes the pool, or the log and its directory if nothing else is in it.
pub(super) fn remove_memory(names: &dyn Fs, path: &Path, memory: &Memory) -> Result<()> {
    let at = match memory {
        Memory::Pool(pool) => {
            let pool = path.join(pool);
            remove_if_there(names, &pool)?;
            pool
        }
        Memory::Wal(dir) => {
            let dir = path.join(dir);
            for name in names.list(&dir).unwrap_or_default() {
                if wal::is_of_log(&name) {
                    names.remove(&dir.join(name))?;
                }
            }
            if names.exists(&dir)? {
                names.sync_dir(&dir)?;
                // Where something else is in it, it stays.
                let _empty = names.remove_dir(&dir);
            }
            dir
        }
    };
    let parent = at.parent().filter(|parent| names.exists(parent).unwrap_or(false));
    parent.map_or(Ok(()), |parent| names.sync_dir(parent))
}

pub(super) fn remove_if_there(fs: &dyn Fs, at: &Path) -> Result<()> {
    match fs.remove(at) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
