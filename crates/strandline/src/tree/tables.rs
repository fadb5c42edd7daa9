//! All tables of a store: their numbers, the names of their files, and their end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::planted::{self, Bug};
use base::{Error, ErrorKind, Result};
use pool::Extent;
use ssd::{Append, Device, Fs};

use super::blocks::File;
use super::desc::{TableDesc, ValueFileDesc};
use super::memory::PmRooms;
use super::names::{FileName, FilePlace};
use super::owner::{self, DirClaim};
use super::room::{FileRoom, Writes};
use super::space::{NewTable, TableSpace};
use super::tiers::{OWN, TierDir, Tiers};
use super::value_file::{ValueFile, ValueFiles};
use super::write_buffers::WriteBuffers;
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

    /// Makes the store of `pool` the only one that has tables here, as its tier `no`; makes the directory, if it is not there.
    pub(crate) fn claim(&self, pool: u64, no: u32) -> Result<()> {
        // The own directory was made with the store. Of others a killed process may have made the name, and not made it last.
        if no != OWN || !self.fs.exists(&self.dir)? {
            self.make()?;
        }
        owner::claim(&*self.fs, &self.dir, DirClaim { pool, tier: no })
    }

    /// Leaves the directory to others, if it is empty: no open finds the tables of `pool` again.
    pub(crate) fn give_up(&self, pool: u64) {
        let is_empty = self.present().is_ok_and(|present| present.is_empty());
        // Files that were removed must not come back without an owner.
        if is_empty && self.fs.sync_dir(&self.dir).is_ok() {
            owner::give_up(&*self.fs, &self.dir, pool);
        }
    }
}

/// The directories of tables, what of persistent memory is theirs, and the cache over all.
pub(crate) struct Tables {
    /// The store's own directory: the only one of most stores.
    pub table_dir: TableDir,
    /// All directories, fastest first.
    pub tiers: Tiers,
    /// Room in persistent memory, if there may be any.
    pub memory: Option<PmRooms>,
    pub cache: StoreCache,
    /// Of tables that are being written.
    pub buffers: Arc<WriteBuffers>,
    /// Room for files.
    pub room: FileRoom,
    next: AtomicU64,
    dead: Mutex<VecDeque<DeadFile>>,
    /// How many owners, dead ones among them, each file has: where a file moves to, none must be left of one that was there
    /// before, whose end would take the new one.
    used: Mutex<BTreeMap<FilePlace, usize>>,
    /// Number of owners of tables' space.
    pub owners: Count,
    /// Threads that take a dead table from the list, but have yet to remove its file.
    pub moving: Count,
}

/// A table or value file whose file is to be removed.
#[derive(Clone, Copy)]
struct DeadFile {
    place: FilePlace,
    /// Bytes that were counted.
    counted: u64,
    /// Of these, bytes that an edit named.
    going: u64,
}

impl Tables {
    /// Tables in `table_dir`, with `room` for files, read through `cache`.
    pub(crate) fn new(table_dir: TableDir, room: FileRoom, cache: StoreCache) -> Tables {
        Tables {
            tiers: Tiers::new(vec![TierDir::own(table_dir.clone())]),
            table_dir,
            memory: None,
            room,
            cache,
            buffers: Arc::default(),
            next: AtomicU64::new(1),
            dead: Mutex::default(),
            used: Mutex::default(),
            owners: Count::default(),
            moving: Count::default(),
        }
    }

    /// The same, with room in persistent memory.
    pub(crate) fn with_memory(self, memory: PmRooms) -> Tables {
        Tables { memory: Some(memory), ..self }
    }

    /// The same, with its files in these directories, the own one among them.
    pub(crate) fn with_tiers(self, dirs: Vec<TierDir>) -> Tables {
        Tables { tiers: Tiers::new(dirs), ..self }
    }

    /// The same, with files on this device where they have none of their own.
    pub(crate) fn on(self, device: &Device) -> Tables {
        Tables { tiers: self.tiers.on(device), ..self }
    }

    /// Numbers tables from `next` on at least.
    pub(crate) fn number_from(&self, next: u64) {
        self.next.fetch_max(next, Relaxed);
    }

    /// The directory of a tier.
    ///
    /// # Errors
    /// `Corruption` if the store has no such tier: its directory is not among those that were given.
    fn tier_dir(&self, no: u32) -> Result<&TableDir> {
        match self.tiers.get(no) {
            Some(tier) => Ok(&tier.dir.at),
            None => Err(Error::corruption(
                "open",
                format!(
                    "files of the store lie in its tier {no}, which is none of its directories: {}; name the one whose file \
                     {} says `tier {no}` in `tiers`, or mount its device if it is one of these and empty",
                    self.numbered_dirs(),
                    owner::NAME
                ),
            )),
        }
    }

    /// All directories with their numbers, for messages.
    fn numbered_dirs(&self) -> String {
        let each =
            self.tiers.iter().map(|tier| format!("{} is {}", tier.dir.at.dir.display(), tier.no()));
        each.collect::<Vec<String>>().join(", ")
    }

    /// Where a file is.
    pub(crate) fn path(&self, place: FilePlace) -> PathBuf {
        match self.tiers.get(place.tier) {
            Some(tier) => tier.dir.at.dir.join(place.name.text()),
            None => format!("tier {}", place.tier).into(),
        }
    }

    /// Where files are, for messages.
    pub(crate) fn dirs(&self) -> String {
        let more = if self.tiers.are_several() { " and the directories of `tiers`" } else { "" };
        format!("{}{more}", self.table_dir.dir.display())
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.table_dir.dir
    }

    /// Asks the devices how much more they take.
    pub(crate) fn look_at_device(&self) {
        let mut all = 0_u64;
        for tier in self.tiers.iter() {
            let TableDir { fs, dir } = &tier.dir.at;
            // A device that does not tell its free space is found full by a write.
            let ask = || fs.free_bytes(dir).unwrap_or(u64::MAX);
            let (mut free, removed) = (ask(), tier.removed.load(Relaxed));
            // Removed files may take room until their directory is synced, which matters if room is short.
            if removed > free / 8 && fs.sync_dir(dir).is_ok() {
                tier.removed.fetch_sub(removed, Relaxed);
                free = ask();
            }
            tier.note_device(free);
            if tier.is_open() {
                all = all.saturating_add(tier.left());
            }
        }
        self.room.note_device(all);
    }

    /// Takes room in files for `len` bytes.
    ///
    /// # Errors
    /// `NoSpace`, where there is none for what is written.
    pub(super) fn take_room(&self, tier: u32, len: u64, writes: Writes) -> Result<()> {
        self.room.take(len, writes).map_err(|taken| {
            let sizes = if self.tiers.are_several() { " or sizes in tiers" } else { "" };
            let text = format!(
                "{len} bytes more have no room: files in {} take {taken} of {} bytes; a part is kept for work that frees \
                 space; raise ssd_size{sizes}, or delete keys and compact",
                self.dirs(),
                self.room.limit(),
            );
            Error::new(ErrorKind::NoSpace, "compact", text)
        })?;
        self.tiers.get(tier).into_iter().for_each(|tier| tier.count(len));
        Ok(())
    }

    /// Makes a new file; room for it is taken as it is written.
    pub(crate) fn create(&self, place: FilePlace) -> Result<Box<dyn Append>> {
        let at = self.tier_dir(place.tier)?;
        at.fs.create(&at.dir.join(place.name.text()))
    }

    /// Opens a file for reading.
    pub(crate) fn open_file(&self, place: FilePlace) -> Result<Arc<dyn ssd::Read>> {
        let at = self.tier_dir(place.tier)?;
        at.fs.open(&at.dir.join(place.name.text()))
    }

    /// Removes a file.
    pub(crate) fn remove(&self, place: FilePlace) -> Result<()> {
        let at = self.tier_dir(place.tier)?;
        at.fs.remove(&at.dir.join(place.name.text()))
    }

    /// Opens a table for reading, wherever it lies; `hold` keeps it there.
    pub(crate) fn open(
        &self,
        desc: &TableDesc,
        hold: Option<Arc<TableSpace>>,
    ) -> Result<Arc<dyn ssd::Read>> {
        match (desc.extent, &self.memory) {
            (Some(extent), Some(memory)) => {
                Ok(memory.tables.open(desc.id, extent, desc.len, hold)?)
            }
            _ => self.open_file(desc.file_place()),
        }
    }

    /// Counts, at an open, a value file that the manifest names.
    pub(crate) fn claim_values(self: &Arc<Tables>, desc: &ValueFileDesc) -> Result<Arc<ValueFile>> {
        let space = self.claim_space(desc.file_place(), desc.extent, desc.len)?;
        Ok(Arc::new(ValueFile::new(desc.clone(), space)))
    }

    /// Counts, at an open, what the manifest names.
    fn claim_space(
        self: &Arc<Tables>,
        place: FilePlace,
        extent: Option<Extent>,
        len: u64,
    ) -> Result<TableSpace> {
        let mut space = TableSpace::file(self, place);
        space.set_named();
        match (extent, &self.memory) {
            (Some(extent), Some(memory)) => {
                space = space.with_memory(memory.room_of(place.name).claim(extent)?);
            }
            _ => space.count(len),
        }
        Ok(space)
    }

    /// All files that are there, of all tiers.
    ///
    /// # Errors
    /// Those of listing the directories.
    pub(crate) fn present(&self) -> Result<Vec<FilePlace>> {
        let mut all = Vec::new();
        for tier in self.tiers.iter() {
            let names = tier.dir.at.present()?.into_iter();
            all.extend(names.map(|name| FilePlace { tier: tier.no(), name }));
        }
        Ok(all)
    }

    /// All value files that are there, where no manifest tells of them. None is removed.
    pub(crate) fn loose_values(self: &Arc<Tables>) -> Result<ValueFiles> {
        let mut files: BTreeMap<u64, ValueFileDesc> = BTreeMap::new();
        for place in self.present()? {
            let FilePlace { tier, name: FileName::Values(id) } = place else { continue };
            // One that cannot be opened takes its values only.
            let Ok(file) = self.open_file(place) else { continue };
            let len = file.len();
            let desc = ValueFileDesc { id, extent: None, tier, len, sum: 0, values: 0 };
            // Of one that was moving there may be two: the copy may be cut short, or not have all of its bytes.
            let is_better = files.get(&id).is_none_or(|other| {
                other.len < len || other.len == len && !self.is_whole(other.file_place())
            });
            if is_better {
                files.insert(id, desc);
            }
        }
        let files = files.values().map(|desc| self.claim_values(desc));
        Ok(ValueFiles::loose(files.collect::<Result<_>>()?))
    }

    /// Whether a value file reads as one to its end.
    fn is_whole(&self, place: FilePlace) -> bool {
        self.open_file(place).is_ok_and(|file| sst::walk_values(&File(file), |_| ()).is_ok())
    }

    /// Counts, at an open, a table that the manifest names, and that refers to some of `values`.
    pub(crate) fn claim(
        self: &Arc<Tables>,
        desc: &TableDesc,
        values: &BTreeMap<u64, Arc<ValueFile>>,
    ) -> Result<NewTable> {
        let space = self.claim_space(desc.file_place(), desc.extent, desc.len)?;
        // The manifest names no table without the value files that it refers to.
        let values = desc.values.iter().filter_map(|share| values.get(&share.file).cloned());
        Ok(NewTable {
            desc: desc.clone(),
            space,
            values: values.collect(),
            reads: 0,
            warm: Vec::new(),
        })
    }

    /// A number that no table has had.
    pub(crate) fn take_id(&self) -> u64 {
        self.next.fetch_add(1, Relaxed)
    }

    /// Makes the names of new files in these tiers durable.
    pub(crate) fn sync_dirs(&self, tiers: &BTreeSet<u32>) -> Result<()> {
        for no in tiers {
            let at = self.tier_dir(*no)?;
            at.fs.sync_dir(&at.dir)?;
        }
        Ok(())
    }

    /// Makes the store of `pool` the only one that has tables in any of its directories, but for those that it leaves.
    pub(crate) fn claim_dirs(&self, pool: u64) -> Result<()> {
        self.tiers
            .iter()
            .filter(|tier| tier.is_open() || tier.no() == OWN)
            .try_for_each(|tier| tier.dir.at.claim(pool, tier.no()))
    }

    fn used(&self) -> MutexGuard<'_, BTreeMap<FilePlace, usize>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a file is there, or may yet be removed there.
    pub(crate) fn is_used(&self, place: FilePlace) -> bool {
        self.used().contains_key(&place)
    }

    /// Notes one more owner of a file.
    pub(super) fn use_place(&self, place: FilePlace) {
        *self.used().entry(place).or_insert(0) += 1;
    }

    /// Notes that an owner of a file is gone.
    fn leave_place(&self, place: FilePlace) {
        let mut used = self.used();
        if let Some(owners) = used.get_mut(&place) {
            *owners -= 1;
            if *owners == 0 {
                used.remove(&place);
            }
        }
    }

    /// Puts a table or value file on the list of dead ones; `counted` bytes of its file were counted, `going` of them as those
    /// of a file that an edit named. A table without a file only loses its cached blocks.
    pub(super) fn add_dead(&self, place: FilePlace, counted: u64, going: u64) {
        let mut dead = self.dead.lock().unwrap_or_else(PoisonError::into_inner);
        dead.push_back(DeadFile { place, counted, going });
    }

    /// Files that are to be removed.
    pub(crate) fn dead_places(&self) -> BTreeSet<FilePlace> {
        let dead = self.dead.lock().unwrap_or_else(PoisonError::into_inner);
        dead.iter().map(|file| file.place).collect()
    }

    /// Removes the files of dead tables and values and returns where they were. A file that cannot be removed stays on the list,
    /// and counts, until the next call or the sweep of the next open.
    ///
    /// # Errors
    /// A panic in it; the rest stays on the list.
    pub(crate) fn remove_dead(&self) -> Result<Vec<FilePlace>> {
        caught(|| self.remove_each()).map_err(|said| panicked("remove tables", &said))
    }

    fn remove_each(&self) -> Vec<FilePlace> {
        let mut gone = Vec::new();
        let _moving = self.moving.raised();
        let dead = || self.dead.lock().unwrap_or_else(PoisonError::into_inner);
        let count = dead().len();
        // One at a time: if one panics, the others stay on the list.
        for _ in 0..count {
            planted::step("remove a table");
            let Some(file) = dead().pop_front() else { break };
            // The blocks of one that moved are read again.
            self.cache.purge(file.place.name.id());
            let removed = self.remove(file.place);
            if removed.is_err_and(|error| error.kind() != ErrorKind::NotFound) {
                dead().push_back(file);
            } else {
                self.room.give_back(file.counted);
                if let Some(tier) = self.tiers.get(file.place.tier) {
                    tier.give_back(file.counted, file.going);
                    tier.removed.fetch_add(file.counted, Relaxed);
                }
                self.leave_place(file.place);
                gone.push(file.place);
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
    pub(crate) fn sweep(&self, named: &BTreeSet<FilePlace>) -> Result<u64> {
        let sweeps_named = planted::is(Bug::SweepNamedTable);
        let skips = planted::is(Bug::SkipTableSweep);
        let sweeps_values = planted::is(Bug::SweepNamedValues);
        let skips_values = planted::is(Bug::SkipValueSweep);
        let by_number = planted::is(Bug::SweepIgnoresTier);
        let mut swept = 0;
        for place in self.present()? {
            let id = place.name.id();
            self.next.fetch_max(id + 1, Relaxed);
            let is_values = matches!(place.name, FileName::Values(_));
            let is_named = match by_number {
                true => named.iter().any(|each| each.name == place.name),
                false => named.contains(&place),
            };
            let remove = match is_named {
                true => sweeps_named && named.last() == Some(&place) || sweeps_values && is_values,
                false => !(skips || skips_values && is_values),
            };
            if remove {
                match self.remove(place) {
                    Ok(()) => swept += 1,
                    Err(_) => {
                        self.use_place(place);
                        self.add_dead(place, 0, 0);
                    }
                }
            }
        }
        Ok(swept)
    }
}
