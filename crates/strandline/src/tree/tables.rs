//! All tables of a store: their numbers, the names of their files, and their end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use base::planted::{self, Bug};
use base::{Error, ErrorKind, Result};
use ssd::{Append, Fs};

use super::desc::{TableDesc, ValueFileDesc};
use super::memory::PmTables;
use super::names::FileName;
use super::owner;
use super::room::{FileRoom, Writes};
use super::space::{NewTable, TableSpace};
use super::value_file::{ValueFile, ValueFiles};
use crate::cache::StoreCache;
use crate::caught::{caught, panicked};
use crate::count::Count;

/// Where the tables of a store are.
#[derive(Clone)]
pub(crate) struct TableDir {
    pub fs: Arc<dyn Fs>,
    pub dir: PathBuf,
}

impl TableDir {
    /// Makes the directory, if it is not there; its name lasts then.
    pub(crate) fn make(&self) -> Result<()> {
        ssd::durable_dir(&*self.fs, &self.dir)
    }

    /// The tables and value files that are there.
    pub(crate) fn present(&self) -> Result<Vec<FileName>> {
        match self.fs.list(&self.dir) {
            Ok(names) => Ok(names.iter().filter_map(|name| FileName::parse(name)).collect()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Makes the store of `pool` the only one that has tables here; makes the directory, if it is not there.
    pub(crate) fn claim(&self, pool: u64) -> Result<()> {
        if !self.fs.exists(&self.dir)? {
            self.make()?;
        }
        owner::claim(&*self.fs, &self.dir, pool)
    }

    /// Leaves the directory to others, if it is empty: no open finds the tables of `pool` again.
    pub(crate) fn give_up(&self, pool: u64) {
        if self.present().is_ok_and(|present| present.is_empty()) {
            owner::give_up(&*self.fs, &self.dir, pool);
        }
    }
}

/// The directory of tables, what of persistent memory is theirs, and the cache over both.
pub(crate) struct Tables {
    pub table_dir: TableDir,
    /// Tables in persistent memory, if there may be any.
    pub memory: Option<Arc<PmTables>>,
    pub cache: StoreCache,
    /// Room for files.
    pub room: FileRoom,
    next: AtomicU64,
    dead: Mutex<VecDeque<DeadFile>>,
    /// Number of owners of tables' space.
    pub owners: Count,
    /// Threads that take a dead table from the list, but have yet to remove its file.
    pub moving: Count,
    /// Bytes of files that were removed since the directory was synced for that.
    removed: AtomicU64,
}

/// A table or value file whose file is to be removed.
#[derive(Clone, Copy)]
struct DeadFile {
    name: FileName,
    /// Bytes that were counted.
    counted: u64,
}

impl Tables {
    /// Tables in `table_dir`, with `room` for files, read through `cache`.
    pub(crate) fn new(table_dir: TableDir, room: FileRoom, cache: StoreCache) -> Tables {
        Tables {
            table_dir,
            memory: None,
            room,
            cache,
            next: AtomicU64::new(1),
            dead: Mutex::default(),
            owners: Count::default(),
            moving: Count::default(),
            removed: AtomicU64::new(0),
        }
    }

    /// The same, with tables in persistent memory.
    pub(crate) fn with_memory(self, memory: PmTables) -> Tables {
        Tables { memory: Some(Arc::new(memory)), ..self }
    }

    /// Numbers tables from `next` on at least.
    pub(crate) fn number_from(&self, next: u64) {
        self.next.fetch_max(next, Relaxed);
    }

    /// Where a file is.
    pub(crate) fn path(&self, name: FileName) -> PathBuf {
        self.table_dir.dir.join(name.text())
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.table_dir.dir
    }

    /// Asks the device how much more it takes.
    pub(crate) fn look_at_device(&self) {
        // A device that does not tell its free space is found full by a write.
        let ask = || self.table_dir.fs.free_bytes(&self.table_dir.dir).unwrap_or(u64::MAX);
        let (mut free, removed) = (ask(), self.removed.load(Relaxed));
        // Removed files may take room until their directory is synced, which matters if room is short.
        if removed > free / 8 && self.sync_dir().is_ok() {
            self.removed.fetch_sub(removed, Relaxed);
            free = ask();
        }
        self.room.note_device(free);
    }

    /// Takes room in files for `len` bytes.
    ///
    /// # Errors
    /// `NoSpace`, where there is none for what is written.
    pub(super) fn take_room(&self, len: u64, writes: Writes) -> Result<()> {
        self.room.take(len, writes).map_err(|taken| {
            let text = format!(
                "{len} bytes more have no room: tables in {} take {taken} of {} bytes; a part is kept for work that frees \
                 space; raise ssd_size, or delete keys and compact",
                self.table_dir.dir.display(),
                self.room.limit()
            );
            Error::new(ErrorKind::NoSpace, "compact", text)
        })
    }

    /// Makes a new file; room for it is taken as it is written.
    pub(crate) fn create(&self, name: FileName) -> Result<Box<dyn Append>> {
        self.table_dir.fs.create(&self.path(name))
    }

    /// Opens a table for reading, wherever it lies; `hold` keeps it there.
    pub(crate) fn open(
        &self,
        desc: &TableDesc,
        hold: Option<Arc<TableSpace>>,
    ) -> Result<Arc<dyn ssd::Read>> {
        match (desc.extent, &self.memory) {
            (Some(extent), Some(memory)) => Ok(memory.open(desc.id, extent, desc.len, hold)?),
            _ => self.table_dir.fs.open(&self.path(FileName::Table(desc.id))),
        }
    }

    /// Counts, at an open, a value file that the manifest names.
    pub(crate) fn claim_values(self: &Arc<Tables>, desc: &ValueFileDesc) -> Arc<ValueFile> {
        let mut space = TableSpace::file(self, FileName::Values(desc.id));
        space.set_named();
        space.count(desc.len);
        Arc::new(ValueFile::new(desc.clone(), space))
    }

    /// All value files that are there, where no manifest tells of them. None is removed.
    pub(crate) fn loose_values(self: &Arc<Tables>) -> Result<ValueFiles> {
        let mut files = Vec::new();
        for name in self.table_dir.present()? {
            let FileName::Values(id) = name else { continue };
            // One that cannot be opened takes its values only.
            let Ok(file) = self.table_dir.fs.open(&self.path(name)) else { continue };
            let len = file.len();
            files.push(self.claim_values(&ValueFileDesc { id, len, sum: 0, values: 0 }));
        }
        Ok(ValueFiles::loose(files))
    }

    /// Counts, at an open, a table that the manifest names, and that refers to some of `values`.
    pub(crate) fn claim(
        self: &Arc<Tables>,
        desc: &TableDesc,
        values: &BTreeMap<u64, Arc<ValueFile>>,
    ) -> Result<NewTable> {
        let mut space = TableSpace::file(self, FileName::Table(desc.id));
        space.set_named();
        match (desc.extent, &self.memory) {
            (Some(extent), Some(memory)) => space = space.with_memory(memory.claim(extent)?),
            _ => space.count(desc.len),
        }
        // The manifest names no table without the value files that it refers to.
        let values = desc.values.iter().filter_map(|share| values.get(&share.file).cloned());
        Ok(NewTable { desc: desc.clone(), space, values: values.collect() })
    }

    /// A number that no table has had.
    pub(crate) fn take_id(&self) -> u64 {
        self.next.fetch_add(1, Relaxed)
    }

    /// Makes the names of new files durable.
    pub(crate) fn sync_dir(&self) -> Result<()> {
        self.table_dir.fs.sync_dir(&self.table_dir.dir)
    }

    /// Puts a table or value file on the list of dead ones; `counted` bytes of its file were counted. A table without a file
    /// only loses its cached blocks.
    pub(super) fn add_dead(&self, name: FileName, counted: u64) {
        let mut dead = self.dead.lock().unwrap_or_else(PoisonError::into_inner);
        dead.push_back(DeadFile { name, counted });
    }

    /// Files that are to be removed.
    pub(crate) fn dead_names(&self) -> BTreeSet<FileName> {
        let dead = self.dead.lock().unwrap_or_else(PoisonError::into_inner);
        dead.iter().map(|file| file.name).collect()
    }

    /// Removes the files of dead tables and values and returns their names. A file that cannot be removed stays on the list, and counts, until the next call or the
    /// sweep of the next open.
    ///
    /// # Errors
    /// A panic in it; the rest stays on the list.
    pub(crate) fn remove_dead(&self) -> Result<Vec<FileName>> {
        caught(|| self.remove_each()).map_err(|said| panicked("remove tables", &said))
    }

    fn remove_each(&self) -> Vec<FileName> {
        let mut gone = Vec::new();
        let _moving = self.moving.raised();
        let dead = || self.dead.lock().unwrap_or_else(PoisonError::into_inner);
        let count = dead().len();
        // One at a time: if one panics, the others stay on the list.
        for _ in 0..count {
            planted::step("remove a table");
            let Some(file) = dead().pop_front() else { break };
            self.cache.purge(file.name.id());
            let removed = self.table_dir.fs.remove(&self.path(file.name));
            if removed.is_err_and(|error| error.kind() != ErrorKind::NotFound) {
                dead().push_back(file);
            } else {
                self.room.give_back(file.counted);
                self.removed.fetch_add(file.counted, Relaxed);
                gone.push(file.name);
            }
        }
        gone
    }

    /// Whether files wait to be removed.
    pub(crate) fn has_dead(&self) -> bool {
        !self.dead.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Removes files of tables and values that the manifest does not name, and numbers new ones above all that are found. Returns
    /// how many were removed; those that cannot be removed now are dead.
    pub(crate) fn sweep(&self, named: &BTreeSet<u64>) -> Result<u64> {
        let sweeps_named = planted::is(Bug::SweepNamedTable);
        let skips = planted::is(Bug::SkipTableSweep);
        let sweeps_values = planted::is(Bug::SweepNamedValues);
        let skips_values = planted::is(Bug::SkipValueSweep);
        let mut swept = 0;
        for name in self.table_dir.present()? {
            let id = name.id();
            self.next.fetch_max(id + 1, Relaxed);
            let is_values = matches!(name, FileName::Values(_));
            let remove = match named.contains(&id) {
                true => sweeps_named && named.last() == Some(&id) || sweeps_values && is_values,
                false => !(skips || skips_values && is_values),
            };
            if remove {
                match self.table_dir.fs.remove(&self.path(name)) {
                    Ok(()) => swept += 1,
                    Err(_) => self.add_dead(name, 0),
                }
            }
        }
        Ok(swept)
    }
}
