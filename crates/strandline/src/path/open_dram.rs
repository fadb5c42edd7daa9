//! Opening and making a store without persistent memory: its records are in DRAM, and its log is in the directory `wal`.
//!
//! The log gives back the memory that the last fences promised; recovery then goes over it as over any other. A store is
//! named last, as one with a pool is, so that the next open finishes a creation that was killed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Error, ErrorKind, Result};
use pmem::{FileLock, OpenMode, Region};
use ssd::Fs;

use super::identity::{Identity, Memory};
use super::open::{self, Access, Opened};
use super::recover::Damage;
use crate::engine::Engine;
use crate::journal::{self, LOCK, Setting};
use crate::options::Options;

/// Name of the directory of the log, in that of the store.
pub(super) const WAL: &str = "wal";

/// Opens the memory of the store that has its log in `dir`.
pub(super) fn open_memory(dir: &Path, options: &Options, access: Access) -> Result<Opened> {
    let nothing = || {
        Error::new(
            ErrorKind::NotFound,
            "open",
            format!(
                "there is no log in {}, which holds the store's records; put it back, or remove the directory of the \
                 store to begin anew",
                dir.display()
            ),
        )
    };
    if access == Access::Read {
        let (region, damage) = read_memory(dir, options)?.ok_or_else(nothing)?;
        return Ok(Opened { region, lazy: false, shelf: None, damage });
    }
    let region = journal::open(setting(dir, options, OpenMode::ReadWrite)?, || Ok(None))?;
    Ok(Opened::whole(region.ok_or_else(nothing)?, false, None))
}

/// Reads what the log in `dir` tells, and what of it is lost.
pub(super) fn read_memory(
    dir: &Path,
    options: &Options,
) -> Result<Option<(Arc<Region>, Vec<Damage>)>> {
    let Some((region, lost)) = journal::read(setting(dir, options, OpenMode::ReadOnly)?)? else {
        return Ok(None);
    };
    let damage = lost.into_iter().map(|lost| Damage {
        file: Some(lost.file),
        zone: None,
        at: lost.at,
        len: lost.len,
        what: lost.what,
    });
    Ok(Some((region, damage.collect())))
}

fn setting(dir: &Path, options: &Options, mode: OpenMode) -> Result<Setting> {
    // Through the page cache: what is written must outlive the process.
    let fs = Arc::new(ssd::Posix::new(false));
    let lock = Some(FileLock::acquire(&dir.join(LOCK), mode)?);
    Ok(Setting { fs, dir: dir.to_owned(), sync: options.wal_sync, lock })
}

/// Makes the store at `path`, or finishes one that was being made.
pub(super) fn create(path: &Path, options: &Options) -> Result<Opened> {
    open::check_pool_len(options)?;
    let dir = path.join(WAL);
    let fs = ssd::Posix::new(false);
    fs.create_dir_all(&dir)?;
    fs.sync_dir(path)?;
    let (ssd, shelf) = open::new_shelf(path, options)?;
    let setting = setting(&dir, options, OpenMode::ReadWrite)?;
    let begins = !journal::is_in(&dir);
    // Before anything is made: what is damaged stays as it is.
    let first = begins.then(|| open::first_state(shelf.as_ref())).transpose()?;
    let fresh = || Ok(Some((open::fresh_id()?, options.pm_size)));
    let region = journal::open(setting, fresh)?.ok_or_else(|| {
        Error::new(ErrorKind::Internal, "open", "a new log gave no memory; report this")
    })?;
    let first = || first.map_or_else(|| open::first_state(shelf.as_ref()), Ok);
    let id = open::format_if_new(&region, options, first)?;
    region.sync_journal()?;
    shelf.as_ref().map_or(Ok(()), |shelf| shelf.claim(id))?;
    Identity { memory: Memory::Wal(PathBuf::from(WAL)), ssd }.write(path)?;
    Ok(Opened::whole(region, false, shelf))
}

impl Engine {
    /// Makes everything acknowledged survive whatever the device survives that has the log; at once if there is none.
    pub(crate) fn sync_wal(&self) -> Result<()> {
        self.check_writable("sync")?;
        self.media.region.sync_journal().inspect_err(|error| self.poison.set(error))
    }
}
