//! The public face: a store, its keyspaces, snapshots and iterators. Every method is a line or two over
//! [`crate::path`].

mod batch;
mod iterator;
mod views;

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Error, ErrorKind, Result, Seq};
use pmem::{Durability, Region};
use ssd::Fs;

pub use iterator::Iter;

use crate::backup::ingest::IngestOptions;
use crate::engine::Engine;
use crate::hooks::Hooks;
use crate::keyspace::KeyspaceState;
use crate::observe::properties::Properties;
use crate::open::{self, Access};
use crate::options::Options;
use crate::probe::{Recorder, TimedProbe};
use crate::quantum::Worked;
use crate::read::scan::Scan;
use crate::record::format::Kind;
use crate::recovery::recover::Report;
use crate::tree::tables::TableDir;
use crate::write::op::Op;
pub use batch::Batch;

/// An open store. Clones share it; it is closed by [`Db::close`] or when the last handle goes.
#[derive(Clone)]
pub struct Db {
    handle: Arc<Handle>,
    default: Keyspace,
}

/// Closes the engine when the last handle of any kind goes.
struct Handle {
    engine: Arc<Engine>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.engine.process.holds() {
            return self.engine.close();
        }
        // A fork: threads are not there to be joined, and mapping, lock and files are the other process's. What memory
        // this takes goes with the process.
        std::mem::forget(Arc::clone(&self.engine));
    }
}

/// A keyspace of an open store: a named set of keys with an order of its own.
#[derive(Clone)]
pub struct Keyspace {
    handle: Arc<Handle>,
    space: Arc<KeyspaceState>,
}

/// A moment of the store: reads through it see what was visible when it was taken.
pub struct Snapshot {
    handle: Arc<Handle>,
    seq: Seq,
}

/// What a read may see and where a scan may go.
#[derive(Clone, Default)]
pub struct ReadOptions<'s> {
    /// Read at this moment rather than now.
    pub snapshot: Option<&'s Snapshot>,
    /// A scan yields no key below this.
    pub lower: KeyBound,
    /// A scan yields no key above this.
    pub upper: KeyBound,
}

/// A bound on keys.
pub type KeyBound = Option<Bound<Vec<u8>>>;

impl ReadOptions<'_> {
    /// Bounds that admit exactly the keys beginning with `prefix`.
    pub fn prefix(prefix: &[u8]) -> ReadOptions<'static> {
        let mut upper = prefix.to_vec();
        while upper.last() == Some(&0xff) {
            upper.pop();
        }
        let upper = upper.pop().map(|last| {
            upper.push(last + 1);
            Bound::Excluded(upper)
        });
        ReadOptions { snapshot: None, lower: Some(Bound::Included(prefix.to_vec())), upper }
    }
}

impl Db {
    /// Opens the store at the directory `path`, making it if `options` allow that.
    ///
    /// # Errors
    /// `Busy` if another process or handle has it open; `NotFound` if there is none and none may be made;
    /// `Corruption` if acknowledged data is damaged (open read-only to save the rest); `NotSupported`,
    /// `NoSpace`, `Io`, `InvalidArgument` as their messages say.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Db> {
        Db::open_with(path, options, Hooks::default())
    }

    /// As [`Db::open`], with code of the application's own.
    pub fn open_with(path: impl AsRef<Path>, options: Options, hooks: Hooks) -> Result<Db> {
        Db::from_engine(open::open(path.as_ref(), options, hooks, Access::Write)?)
    }

    /// Opens the store at `path` for reading only: nothing is written, recovery happens in DRAM, and
    /// several readers may do so at once, but not beside a writer.
    pub fn open_read_only(path: impl AsRef<Path>, options: Options) -> Result<Db> {
        Db::open_read_only_with(path, options, Hooks::default())
    }

    /// As [`Db::open_read_only`], with code of the application's own.
    pub fn open_read_only_with(
        path: impl AsRef<Path>,
        options: Options,
        hooks: Hooks,
    ) -> Result<Db> {
        Db::from_engine(open::open(path.as_ref(), options, hooks, Access::Read)?)
    }

    /// Opens the store in a region that the caller made, formatting it if nothing was ever in it. All data stays in
    /// the region.
    pub fn open_region(region: Arc<Region>, options: Options) -> Result<Db> {
        Db::open_on_shelf(region, None, options, Hooks::default())
    }

    /// As [`Db::open_region`], with tables in directory `dir`, which exists, of the file system `fs`. A new store begins
    /// with the tables of a checkpoint if `dir` is the directory `sst` of one.
    pub fn open_on(
        region: Arc<Region>,
        fs: Arc<dyn Fs>,
        dir: impl Into<PathBuf>,
        options: Options,
    ) -> Result<Db> {
        let shelf = TableDir { fs, dir: dir.into() };
        Db::open_on_shelf(region, Some(shelf), options, Hooks::default())
    }

    pub(crate) fn open_on_shelf(
        region: Arc<Region>,
        shelf: Option<TableDir>,
        options: Options,
        hooks: Hooks,
    ) -> Result<Db> {
        Db::from_engine(open::open_region(region, shelf, (options, hooks), Access::Write)?)
    }

    pub(crate) fn from_engine(engine: Arc<Engine>) -> Result<Db> {
        let handle = Arc::new(Handle { engine });
        let space = handle.engine.find_space("default").ok_or_else(|| {
            Error::corruption("open", "keyspace default is missing; restore a copy of the pool")
        })?;
        let default = Keyspace { handle: Arc::clone(&handle), space };
        Ok(Db { handle, default })
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.handle.engine
    }

    fn keyspace_of(&self, space: Arc<KeyspaceState>) -> Keyspace {
        Keyspace { handle: Arc::clone(&self.handle), space }
    }

    /// The keyspace that every store has.
    pub fn default_keyspace(&self) -> &Keyspace {
        &self.default
    }

    /// Opens the keyspace called `name`; `NotFound` if there is none, `Corruption` if damage may have taken it.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        let space = self.engine().find_space(name).ok_or_else(|| {
            let (kind, remedy) = match self.recovery().edits_lost {
                true => (
                    ErrorKind::Corruption,
                    "it may have been lost to damage, see `strandline check`",
                ),
                false => (ErrorKind::NotFound, "create it first"),
            };
            Error::new(kind, "keyspace", format!("no keyspace {name}; {remedy}"))
        })?;
        Ok(self.keyspace_of(space))
    }

    /// Makes a keyspace; `Exists` if there is one of that name. Durable when it returns.
    pub fn create_keyspace(&self, name: &str) -> Result<Keyspace> {
        let _call = self.engine().call("create keyspace")?;
        Ok(self.keyspace_of(self.engine().create_space(name)?))
    }

    /// Names of all keyspaces, in order of their making.
    pub fn keyspaces(&self) -> Vec<String> {
        self.engine().spaces().iter().map(|space| space.name.clone()).collect()
    }

    /// Drops a keyspace with everything in it; later use of its handles fails with `Closed`.
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        let _call = self.engine().call("drop keyspace")?;
        self.engine().drop_space(name)
    }

    /// Sets `key` to `value` in the default keyspace; durable and visible when it returns.
    ///
    /// # Errors
    /// As [`Db::write`].
    #[inline]
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.default.put(key, value)
    }

    /// The value of `key` in the default keyspace.
    ///
    /// # Errors
    /// `Corruption` if its bytes fail their checksum, or damage may hide a newer version; `Closed`.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.default.get(key)
    }

    /// Deletes `key` from the default keyspace.
    #[inline]
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        self.default.delete(key)
    }

    /// Merges `operand` into `key` of the default keyspace: the merge operator of [`Hooks`] combines it with what is
    /// there when the key is read.
    ///
    /// # Errors
    /// As [`Db::write`]; `InvalidArgument` without a merge operator.
    pub fn merge(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        self.default.merge(key, operand)
    }

    /// Deletes all keys from `begin` up to before `end` from the default keyspace, by one record.
    ///
    /// # Errors
    /// As [`Db::write`]; `InvalidArgument` if `end` lies before `begin`.
    pub fn delete_range(&self, begin: &[u8], end: &[u8]) -> Result<()> {
        self.default.delete_range(begin, end)
    }

    /// Commits all changes of `batch` as one; durable and visible when it returns.
    ///
    /// # Errors
    /// `LimitExceeded` for keys, values or batches beyond their limits; `NoSpace` if live data fills the pool;
    /// `ReadOnly`; `InvalidArgument` for another store's keyspace; `Closed` after a close, a drop of the
    /// keyspace, or a failure that made the store refuse writes. Nothing is written then.
    pub fn write(&self, batch: &Batch) -> Result<()> {
        self.engine().commit(&mut self.ops(batch)?)
    }

    /// The changes of a batch, if they are of this store.
    pub(crate) fn ops<'b>(&self, batch: &'b Batch) -> Result<Vec<Op<'b>>> {
        let mut ops = Vec::with_capacity(batch.len());
        for change in &batch.changes {
            let space = self.own(&change.keyspace, "write")?;
            if change.kind == Kind::Merge {
                self.engine().check_operator()?;
            }
            ops.push(Op::new(space, change.kind, batch.key(change), batch.value(change)));
        }
        Ok(ops)
    }

    /// The inside of a keyspace, if it is one of this store.
    fn own<'k>(
        &self,
        keyspace: &'k Keyspace,
        operation: &'static str,
    ) -> Result<&'k Arc<KeyspaceState>> {
        if Arc::ptr_eq(&keyspace.handle.engine, &self.handle.engine) {
            return Ok(&keyspace.space);
        }
        Err(Error::new(
            ErrorKind::InvalidArgument,
            operation,
            format!("keyspace {} belongs to another store", keyspace.name()),
        ))
    }

    /// Takes a snapshot. Versions that it needs are kept until it is dropped.
    pub fn snapshot(&self) -> Snapshot {
        let engine = self.engine();
        Snapshot { handle: Arc::clone(&self.handle), seq: engine.snapshots.take(&engine.ring) }
    }

    /// Returns when everything acknowledged is as durable as [`Db::durability`] says: at once. `ReadOnly` or `Closed` if the
    /// store takes no writes.
    pub fn sync(&self) -> Result<()> {
        self.engine().check_writable("sync")
    }

    /// As [`Db::sync`], and with `wal_sync = never` makes all of that survive power failure. If the device that has the log
    /// refuses, the store takes no more writes.
    pub fn sync_wal(&self) -> Result<()> {
        let _call = self.engine().call("sync")?;
        self.engine().sync_wal()
    }

    /// Flushes the memtables of all keyspaces into index runs, or with `level0=sst` writes them out as tables, and returns
    /// when that is done.
    ///
    /// # Errors
    /// `NoSpace` if an index run or table does not fit: what is written stays in memtables; `Corruption` if a record
    /// fails its checksum; with `level0=sst` those of the device that holds the tables; `ReadOnly`; `Closed`.
    pub fn flush(&self) -> Result<()> {
        let _call = self.engine().call("flush")?;
        self.engine().flush()
    }

    /// Merges the index runs of each keyspace into one; records are not moved unless space is short.
    ///
    /// # Errors
    /// As [`Db::flush`].
    pub fn compact(&self) -> Result<()> {
        let _call = self.engine().call("compact")?;
        self.engine().flush()?;
        self.engine().compact()
    }

    /// Brings the keys from `from` to `to`, both included, or from the first or to the last, down to the deepest level
    /// that has any of them, those in memtables included. Where all data stays in persistent memory, the keyspace's
    /// runs are merged into one. Tables and runs are taken whole, so that more keys than these may move.
    ///
    /// # Errors
    /// As [`Db::flush`]; `InvalidArgument` for another store's keyspace; those of the device that holds the tables.
    pub fn compact_range(
        &self,
        keyspace: &Keyspace,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> Result<()> {
        let _call = self.engine().call("compact")?;
        self.engine().compact_range(self.own(keyspace, "compact")?, (from, to))
    }

    /// Copies the store as of one moment to the new directory `target`: its tables are linked, or copied where that does
    /// not work, and what is in persistent memory is written as tables. Writers go on meanwhile; what they free is
    /// held until the part of its keyspace is done. Returns the last sequence number in the copy.
    ///
    /// The checkpoint is whole and durable, or not there. It can be opened by itself with [`Db::open`], which makes
    /// a store of it, or [`Db::open_read_only`], and it can be moved.
    ///
    /// # Errors
    /// `Exists` if there is something at `target`; `NotFound` if the directory that should hold it is missing;
    /// `Corruption` if a record or table is damaged, or damage took records; `NoSpace`, `Io`; `Closed`.
    pub fn checkpoint(&self, target: impl AsRef<Path>) -> Result<Seq> {
        let _call = self.engine().call("checkpoint")?;
        self.engine().checkpoint(target.as_ref())
    }

    /// Adds tables from elsewhere to `keyspace`: external tables in RocksDB's format, as its SstFileWriter writes them.
    /// All of them or none; durable and visible, as of one moment, when it returns. Their entries are newer than
    /// everything written before, older than everything written after: writers of all keyspaces may wait while the last
    /// older data of these keys leaves persistent memory. Returns the sequence number of the entries.
    ///
    /// # Errors
    /// Nothing changes then. `Corruption`, `NotSupported`, `LimitExceeded` or `InvalidArgument` for a file that cannot
    /// be taken, for files that overlap each other, and where the store has no levels on SSD; `NotFound`; `Busy` if
    /// writes to the same keys never pause; `NoSpace`, `Io`, `ReadOnly`, `Closed`.
    pub fn ingest(
        &self,
        keyspace: &Keyspace,
        paths: &[PathBuf],
        options: IngestOptions,
    ) -> Result<Seq> {
        let _call = self.engine().call("ingest")?;
        self.engine().ingest(self.own(keyspace, "ingest")?, paths, options)
    }

    /// Does a bounded amount of background work on this thread; `true` if there is nothing to do, or nothing that
    /// can be done now. For stores opened with `background_threads = 0`.
    pub fn work(&self, entries: usize) -> Result<bool> {
        let _call = self.engine().call("work")?;
        Ok(self.engine().work(entries)? != Worked::Did)
    }

    /// What a completed write survives on this store, as detected when it was opened.
    pub fn durability(&self) -> Durability {
        self.engine().media.region.durability()
    }

    /// Figures about the store.
    pub fn properties(&self) -> Properties {
        Properties::gather(self.engine())
    }

    /// What the open found and did.
    pub fn recovery(&self) -> &Report {
        &self.handle.engine.recovery
    }

    /// The memory under the pool, with its counters.
    pub fn region(&self) -> &Region {
        &self.handle.engine.media.region
    }

    /// Verifies every record, value, index block, filter line, zone header and table in use, whose the tables are,
    /// that of every key newer versions lie above older ones, and that each piece of space has one owner; returns what is
    /// damaged, leaked or owned twice, and what the open found.
    pub fn check(&self) -> Result<crate::check::CheckReport> {
        let _call = self.engine().call("check")?;
        crate::check::check(self.engine())
    }

    /// Ends use of the store: calls through other handles get `Closed` from now on, calls under way end. Nothing needs to be
    /// written. The store can be opened again when this returns, whatever handles are left; only an iterator, or a call that
    /// does not end within ten seconds, keeps it until it ends. Iterators go on over what they hold.
    pub fn close(self) {
        self.handle.engine.close();
    }
}

impl Keyspace {
    /// The keyspace's name.
    pub fn name(&self) -> &str {
        &self.space.name
    }

    /// The number by which zone headers name the keyspace.
    pub fn id(&self) -> u32 {
        self.space.id
    }

    #[inline]
    fn engine(&self) -> &Arc<Engine> {
        &self.handle.engine
    }

    pub(crate) fn engine_for_steps(&self) -> &Engine {
        &self.handle.engine
    }

    pub(crate) fn space(&self) -> &Arc<KeyspaceState> {
        &self.space
    }

    /// Sets `key` to `value`; durable and visible when it returns.
    #[inline]
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.engine().commit(&mut [Op::new(&self.space, Kind::Put, key, value)])
    }

    /// Deletes `key`; no error if it is not there.
    #[inline]
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        self.engine().commit(&mut [Op::new(&self.space, Kind::Delete, key, &[])])
    }

    /// Merges `operand` into `key`: the merge operator of [`Hooks`] combines it with what is there when the key is read.
    pub fn merge(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        self.engine().check_operator()?;
        self.engine().commit(&mut [Op::new(&self.space, Kind::Merge, key, operand)])
    }

    /// Deletes all keys from `begin` up to before `end`, by one record however many there are.
    pub fn delete_range(&self, begin: &[u8], end: &[u8]) -> Result<()> {
        self.engine().commit(&mut [Op::new(&self.space, Kind::RangeDelete, begin, end)])
    }

    /// The value of `key`, copied out and verified.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.engine().get_into(&self.space, key, None, &mut value)?.then_some(value))
    }

    /// Appends the value of `key` to `out`; `false` if there is none.
    #[inline]
    pub fn get_into(&self, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        self.engine().get_into(&self.space, key, None, out)
    }

    /// The value of `key` as of `options.snapshot`.
    pub fn get_with(&self, key: &[u8], options: &ReadOptions<'_>) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        let at = options.snapshot.map(|snapshot| self.moment(snapshot)).transpose()?;
        Ok(self.engine().get_into(&self.space, key, at, &mut value)?.then_some(value))
    }

    /// The moment of a snapshot, if it is one of this store.
    fn moment(&self, snapshot: &Snapshot) -> Result<Seq> {
        if Arc::ptr_eq(&self.handle.engine, &snapshot.handle.engine) {
            return Ok(snapshot.seq);
        }
        Err(Error::new(
            ErrorKind::InvalidArgument,
            "read",
            "the snapshot belongs to another store; take one from this store",
        ))
    }

    /// The values of several keys, all as of one moment.
    ///
    /// # Errors
    /// As [`Db::get`], if any of them fails.
    pub fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        self.engine().multi_get(&self.space, keys)
    }

    /// An iterator over the keyspace as of `options.snapshot`, or of now. Positioned nowhere. Until it is moved
    /// or dropped it holds the space of what it may still read.
    ///
    /// # Errors
    /// `Closed`; `InvalidArgument` for another store's snapshot.
    pub fn iter(&self, options: &ReadOptions<'_>) -> Result<Iter> {
        let engine = self.engine();
        let seq = match options.snapshot {
            Some(snapshot) => engine.snapshots.again(self.moment(snapshot)?),
            None => engine.snapshots.take(&engine.ring),
        };
        let snapshot = Snapshot { handle: Arc::clone(&self.handle), seq };
        let unbounded = |bound: &KeyBound| bound.clone().unwrap_or(Bound::Unbounded);
        let (lower, upper) = (unbounded(&options.lower), unbounded(&options.upper));
        let iterating = engine.iterate()?;
        let scan = Scan::new(engine, &self.space, seq, lower, upper)?;
        Ok(Iter::new(scan, snapshot, iterating))
    }

    /// Looks `key` up, recording each probe; also tells the value's length, if there is one.
    pub fn explain_get(&self, key: &[u8]) -> Result<(Option<u64>, Vec<TimedProbe>)> {
        let engine = self.engine();
        engine.check_open("explain")?;
        let (view, seq) = engine.pin(&self.space, key)?;
        let mut recorder = Recorder::new();
        let found = engine.find_in(&view, &self.space, key, seq, &mut recorder)?;
        let found = found.filter(|found| !found.deletes());
        let len = found.map(|found| found.value(&engine.media).map(<[u8]>::len)).transpose()?;
        Ok((len.map(|len| len as u64), recorder.probes))
    }
}

impl Snapshot {
    /// The last sequence number that reads through this snapshot see.
    pub fn seq(&self) -> Seq {
        self.seq
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.handle.engine.snapshots.release(self.seq);
    }
}
