//! The public face: a store, its keyspaces, snapshots and iterators. Methods that take keys and values in any form are
//! shells of a line over others that take bytes, so that nothing is compiled twice.

mod batch;
mod cursor;
mod data;
mod indexed_batch;
mod inspect;
mod iter;
mod keyspace;
mod overlay;
mod pinned;
mod range;
mod read_options;
mod runtime;
mod slice;
mod snapshot;
mod stream;
mod trace;
mod transaction;
mod update;
mod upkeep;
mod write_options;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Error, ErrorKind, Result};
use pmem::Region;
use ssd::Fs;

pub use batch::Batch;
pub use cursor::Cursor;
pub use indexed_batch::IndexedBatch;
pub use iter::{Iter, Keys};
pub use keyspace::Keyspace;
pub use pinned::PinnedValue;
pub use range::IntoRange;
pub use read_options::{KeyBound, ReadOptions};
pub use slice::Slice;
pub use snapshot::Snapshot;
pub use stream::Stream;
pub use transaction::{
    Isolation, PreparedTransaction, Transaction, TransactionCursor, TransactionIter,
    TransactionMode, TransactionOptions,
};
pub use write_options::{WriteDurability, WriteOptions};

use crate::engine::{Access, Engine};
use crate::hooks::Hooks;
use crate::keyspace::{KeyspaceState, is_own_name};
use crate::machine::MachineMemory;
use crate::open;
use crate::open::convert::Conversion;
use crate::open::ground::Machine;
use crate::options::KeyspaceOptions;
use crate::options::Options;
use crate::tree::tables::TableDir;

/// An open store. Clones share it; it is closed by [`Db::close`] or when the last handle goes.
///
/// ```
/// use strandline::{Db, Options, PmSource};
///
/// # fn main() -> strandline::Result<()> {
/// let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
/// let db = Db::open("unused-for-heap", options)?;
/// let other = db.clone();
/// std::thread::spawn(move || other.put("apple", "red")).join().expect("no panic")?;
/// assert!(db.contains_key("apple")?);
/// # Ok(()) }
/// ```
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
        if self.engine.lifetime.process.holds() {
            // Listeners are told of an error.
            let _no_caller = self.engine.close();
            return;
        }
        // A fork: threads are not there to be joined, and mapping, lock and files are the other process's. What memory
        // this takes goes with the process.
        std::mem::forget(Arc::clone(&self.engine));
    }
}

fn refuse_own_name(name: &str, operation: &'static str) -> Result<()> {
    if is_own_name(name) {
        let text = format!(
            "{name}: keyspaces whose names begin with strandline: are the store's own; take another name"
        );
        return Err(Error::new(ErrorKind::InvalidArgument, operation, text));
    }
    Ok(())
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
        Db::from_engine(open::open(
            &Machine::standing_for(&options),
            path.as_ref(),
            options,
            hooks,
            Access::Write,
        )?)
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
        Db::from_engine(open::open(
            &Machine::standing_for(&options),
            path.as_ref(),
            options,
            hooks,
            Access::Read,
        )?)
    }

    /// Removes the store at `path`, which no one may have open: its tables, its pool or log, and last its file `STORE`. Files
    /// that are not its own stay, and so do directories that have some. A call that is cut short leaves a store that cannot
    /// be opened, and that the next call removes. `options` say how files are reached, and where parts are if they say so.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("strandline-destroy-{}", std::process::id()));
    /// # use strandline::{Db, Options};
    /// let options = Options::default().pm_size(16 << 20);
    /// Db::open(&dir, options.clone())?.close()?;
    /// Db::destroy(&dir, &options)?;
    /// assert!(!dir.exists());
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Busy` if it is open, here or elsewhere; `NotFound` if there is none, or a directory of its tables is not there; `InvalidArgument` where `options` name other
    /// places than the store does, or its pool is a device; `Corruption` where it cannot be told whose the tables in another
    /// directory are; `Io`.
    pub fn destroy(path: impl AsRef<Path>, options: &Options) -> Result<()> {
        open::destroy::destroy(&Machine::here(), path.as_ref(), options)
    }

    /// Moves the store at `path`, which no one may have open, to the memory that `options.pm` says: from a pool to DRAM with a
    /// log ([`PmSource::Dram`](crate::PmSource::Dram)), from there to a pool, to a pool elsewhere, or with
    /// [`PmSource::Auto`](crate::PmSource::Auto) to what its directory can do.
    /// `options.pm_size` is the size of the new memory; `hooks` are those that the store is opened with.
    ///
    /// What is in the old memory becomes tables first, so the call takes as long as a checkpoint, and as much room in the
    /// store's directory as the records take. Power failure at any moment leaves the store as it was, or moved; the next open for
    /// writing removes what is left of the other memory.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("strandline-convert-{}", std::process::id()));
    /// # use strandline::{Db, Hooks, Options, PmSource};
    /// let options = Options::default().pm_size(16 << 20);
    /// Db::open(&dir, options.clone().pm(PmSource::Path(dir.join("pool"))))?.put("key", "value")?;
    /// Db::convert(&dir, &options.clone().pm(PmSource::Dram), Hooks::default())?;
    /// let db = Db::open(&dir, options.clone())?;
    /// assert!(db.get("key")?.is_some());
    /// assert!(db.properties().wal.is_some(), "records are in DRAM, with a log");
    /// # drop(db);
    /// # Db::destroy(&dir, &options)?;
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Db::open`]; `Exists` if there is something in the new place already; `NoSpace`; `InvalidArgument` where
    /// either memory is a device: take a checkpoint there, and open that; the same of a checkpoint, which has no memory yet.
    /// Of a move that fails nothing stays, but for the directory of tables of a store that had none.
    pub fn convert(path: impl AsRef<Path>, options: &Options, hooks: Hooks) -> Result<Conversion> {
        open::convert::convert(&Machine::here(), path.as_ref(), options, hooks)
    }

    /// Opens the store in a region that the caller made, formatting it if nothing was ever in it. All data stays in
    /// the region.
    pub fn open_region(region: Arc<Region>, options: Options) -> Result<Db> {
        Db::open_with_tables(region, None, options, Hooks::default(), MachineMemory::find())
    }

    /// As [`Db::open_region`], with tables in directory `dir`, which exists, of the file system `fs`. A new store begins
    /// with the tables of a checkpoint if `dir` is the directory `sst` of one.
    pub fn open_on(
        region: Arc<Region>,
        fs: Arc<dyn Fs>,
        dir: impl Into<PathBuf>,
        options: Options,
    ) -> Result<Db> {
        let table_dir = TableDir { fs, dir: dir.into() };
        let memory = MachineMemory::find();
        Db::open_with_tables(region, Some(table_dir), options, Hooks::default(), memory)
    }

    pub(crate) fn open_with_tables(
        region: Arc<Region>,
        table_dir: Option<TableDir>,
        options: Options,
        hooks: Hooks,
        memory: MachineMemory,
    ) -> Result<Db> {
        Db::from_engine(open::open_region(region, table_dir, options, hooks, memory)?)
    }

    pub(crate) fn from_engine(engine: Arc<Engine>) -> Result<Db> {
        let handle = Arc::new(Handle { engine });
        let space = handle.engine.keyspaces.named("default").ok_or_else(|| {
            Error::corruption("open", "keyspace default is missing; restore a copy of the pool")
        })?;
        let default = Keyspace { handle: Arc::clone(&handle), space };
        transaction::prepared::restore(&handle)?;
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
        refuse_own_name(name, "keyspace")?;
        let space = self.engine().keyspaces.named(name).ok_or_else(|| {
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
        self.create_keyspace_with(name, KeyspaceOptions::default())
    }

    /// Makes a keyspace with options of its own, which the store keeps. Durable when it returns.
    ///
    /// # Errors
    /// `Exists` if there is one of that name; `InvalidArgument` for options out of bounds, names of hooks that this open
    /// does not know, or directories that are not among the store's; `NotSupported` for compression that this build has not; `LimitExceeded` if the manifest is full.
    pub fn create_keyspace_with(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        let _call = self.engine().call("create keyspace")?;
        refuse_own_name(name, "create keyspace")?;
        self.engine().hooks.check_known(&options)?;
        Ok(self.keyspace_of(self.engine().create_space(name, &options)?))
    }

    /// The keyspace called `name`, made with `options` if there is none. One that is there keeps the options it has.
    ///
    /// # Errors
    /// Those of [`Db::create_keyspace_with`], but for `Exists`, and of [`Db::keyspace`], but for `NotFound`.
    ///
    /// ```
    /// # use strandline::{Db, KeyspaceOptions, Options, PmSource};
    /// # let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
    /// # let db = Db::open("unused-for-heap", options)?;
    /// let hits = db.keyspace_or_create("hits", KeyspaceOptions::new().merge_operator("add"))?;
    /// let again = db.keyspace_or_create("hits", KeyspaceOptions::new())?;
    /// assert_eq!(again.options().merge_operator.as_deref(), Some("add"));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    pub fn keyspace_or_create(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        match self.keyspace(name) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            found => return found,
        }
        match self.create_keyspace_with(name, options) {
            // Another thread was faster.
            Err(error) if error.kind() == ErrorKind::Exists => self.keyspace(name),
            made => made,
        }
    }

    /// Names of all keyspaces, in order of their making.
    pub fn keyspaces(&self) -> Vec<String> {
        let all = self.engine().keyspaces.all();
        let names = all.iter().map(|space| &space.name).filter(|name| !is_own_name(name));
        names.cloned().collect()
    }

    /// Drops a keyspace with everything in it; later use of its handles fails with `Closed`. `Busy` while a prepared transaction changes it.
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        let _call = self.engine().call("drop keyspace")?;
        refuse_own_name(name, "drop keyspace")?;
        self.engine().drop_space(name)
    }

    /// Ends use of the store: calls through handles that are left, of the store, of keyspaces or of batches, get `Closed` from
    /// now on; calls under way end. Nothing needs to be written. The store can be opened again when this returns; only a call
    /// of another thread that does not end within ten seconds keeps it until it ends. Closing it once more does nothing.
    ///
    /// With [`WalSync::Interval`](crate::WalSync) it syncs the log. That takes as long as the device does, as does a sync that a
    /// background thread is at.
    ///
    /// A store is also closed when its last handle of any kind is dropped.
    ///
    /// ```
    /// # use strandline::{Db, ErrorKind, Options, PmSource};
    /// # let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
    /// # let db = Db::open("unused-for-heap", options)?;
    /// db.put("apple", "red")?;
    /// let iter = db.iter();
    /// let refused = db.close().expect_err("an iterator is left");
    /// assert_eq!(refused.kind(), ErrorKind::Busy);
    /// drop(iter);
    /// db.close()?;
    /// assert_eq!(db.get("apple").expect_err("closed").kind(), ErrorKind::Closed);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Busy` as long as there are iterators, cursors, snapshots or pinned values, whose bytes or versions others could change;
    /// the message counts them by kind. Nothing is closed then: drop them, and close again. `Io` and others of the device, with
    /// `WalSync::Interval`, if not all that returned could be synced: the store is closed, and power failure may take the last
    /// writes. Where the last handle is dropped instead, listeners are told.
    pub fn close(&self) -> Result<()> {
        self.handle.engine.close_unless_held()
    }
}
