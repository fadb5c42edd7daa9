//! The store that benchmarks run on: where it is, opened anew, opened again, gone at the end.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pmem::{Probe, Storage};
use strandline::{Db, Hooks, MachineMemory, Options, PmSource, SsdSource, TierSource, WalDir};

use crate::claim::{Places, holds_bytes, is_of_tables, log_files, owner_of};
use crate::config::Config;
use crate::events::{EventForm, EventPrinter};
use crate::operators;
use crate::scratch::{MEMORY, Scratch};
use crate::tpcc::TPCC;
use crate::words::told;

/// Files of a store, as the engine names them.
const FILES: [&str; 4] = ["pool", "inspect.sock", "STORE.new", STORE];
/// The file that names the parts of a store.
const STORE: &str = "STORE";
/// Smallest pool that is chosen.
const POOL_MIN: u64 = 1 << 30;

/// A store by its folder, open or not.
pub(crate) struct Store {
    path: PathBuf,
    options: Options,
    hooks: Hooks,
    db: Option<Db>,
    /// Bytes of keys and values written since it was opened.
    user_bytes: u64,
    marker: Marker,
    /// Removes the folder at the end; none where the user named one.
    _scratch: Option<Scratch>,
}

/// Whether the folder says that bench made the store.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Marker {
    /// It need not: the store is kept, or in memory.
    No,
    /// Once there is a new store, or an earlier one was opened.
    Due,
    Done,
}

impl Store {
    /// Finds a place for the store; an earlier one at `--db` goes, unless it is to be kept.
    pub(crate) fn prepare(config: &Config) -> Result<Store, String> {
        let mut options = config.engine.clone();
        if !config.pm_size_given && !becomes_log(config) {
            options.pm_size = pool_len(config);
        }
        let (path, scratch) = match (&config.db, &config.engine.pm) {
            (Some(path), _) => (path.clone(), None),
            (None, PmSource::Heap) => (PathBuf::from("unused-for-heap"), None),
            (None, PmSource::Path(_)) => Store::in_scratch(0)?,
            // A log in memory would be no log.
            (None, PmSource::Dram) => {
                let parents = [std::env::temp_dir()];
                let wanted = 3 * options.pm_size.max(MachineMemory::find().record_bytes());
                let scratch = Scratch::within(&parents, wanted).map_err(with_remedy)?;
                (scratch.path().join("db"), Some(scratch))
            }
            (None, _) => Store::in_scratch(options.pm_size)?,
        };
        let mut store = Store {
            path,
            options,
            hooks: hooks(config),
            db: None,
            user_bytes: 0,
            marker: Marker::No,
            _scratch: scratch,
        };
        match config.use_existing_db {
            true => {
                store.must_be_there()?;
                // An open that changes its tiers writes anew what tells it from other stores.
                if !store.is_heap() && store.places().is_of_bench()? {
                    store.marker = Marker::Due;
                }
            }
            false => {
                store.claim(config)?;
                store.remove()?;
            }
        }
        Ok(store)
    }

    /// Refuses a folder without a store: a mistyped one is not to become a store.
    fn must_be_there(&self) -> Result<(), String> {
        if self.is_heap() || self.path.join(STORE).exists() {
            return Ok(());
        }
        Err(format!(
            "--use_existing_db: no store at {}; check --db, or leave --use_existing_db out to make one",
            self.path.display()
        ))
    }

    /// Refuses places that hold what bench did not make, unless that may be lost.
    fn claim(&mut self, config: &Config) -> Result<(), String> {
        if self.is_heap() {
            return Ok(());
        }
        if !config.overwrite_existing {
            self.places().check()?;
        }
        self.places().check_owner()?;
        self.marker = Marker::Due;
        let shown = self.path.display();
        std::fs::create_dir_all(&self.path)
            .map_err(|error| format!("{shown}: {error}; name a folder with --db"))?;
        self.places().begin()
    }

    fn places(&self) -> Places<'_> {
        let pool = match &self.options.pm {
            PmSource::Path(pool) => Some(&**pool),
            _ => None,
        };
        let tables = match &self.options.ssd {
            SsdSource::Path(folder) => Some(&**folder),
            _ => None,
        };
        Places { folder: &self.path, pool, tables, log: self.log_elsewhere() }
    }

    fn in_scratch(wanted: u64) -> Result<(PathBuf, Option<Scratch>), String> {
        let parents = [MEMORY.into(), std::env::temp_dir()];
        let scratch = Scratch::within(&parents, wanted).map_err(with_remedy)?;
        Ok((scratch.path().join("db"), Some(scratch)))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The options that it is opened with, for changes before the next [`Store::fresh`].
    pub(crate) fn options_mut(&mut self) -> &mut Options {
        &mut self.options
    }

    /// The options that it is opened with.
    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Threads that an open recovers with.
    pub(crate) fn recovery_threads(&self) -> u64 {
        match self.options.recovery_threads {
            0 => std::thread::available_parallelism().map_or(1, |threads| threads.get() as u64),
            threads => threads.into(),
        }
    }

    /// The file or device with its pool.
    pub(crate) fn pool(&self) -> PathBuf {
        match &self.options.pm {
            PmSource::Path(pool) => pool.clone(),
            _ => self.path.join("pool"),
        }
    }

    /// Whether it lives in memory of this process only.
    pub(crate) fn is_heap(&self) -> bool {
        self.options.pm == PmSource::Heap
    }

    /// The open store.
    pub(crate) fn db(&mut self) -> Result<Db, String> {
        match &self.db {
            Some(db) => Ok(db.clone()),
            None => {
                let db = Db::open_with(&self.path, self.options.clone(), self.hooks.clone())
                    .map_err(told)?;
                if self.marker == Marker::Due {
                    self.places().note()?;
                    self.marker = Marker::Done;
                }
                Ok(self.db.insert(db).clone())
            }
        }
    }

    /// Counts bytes of keys and values that were written.
    pub(crate) fn wrote(&mut self, bytes: u64) {
        self.user_bytes += bytes;
    }

    /// Bytes of keys and values written since it was opened.
    pub(crate) fn user_bytes(&self) -> u64 {
        self.user_bytes
    }

    /// Closes it, if it is open.
    pub(crate) fn close(&mut self) {
        if let Some(db) = self.db.take() {
            db.close().expect("readers end before the store is closed");
            self.user_bytes = 0;
        }
    }

    /// An empty store in place of the one that is there.
    pub(crate) fn fresh(&mut self) -> Result<(), String> {
        self.close();
        self.remove()?;
        if self.marker == Marker::Done {
            self.marker = Marker::Due;
        }
        self.db().map(drop)
    }

    /// Closes it and opens it again; how long the opening took.
    pub(crate) fn reopen(&mut self) -> Result<Duration, String> {
        self.close();
        let began = Instant::now();
        self.db()?;
        Ok(began.elapsed())
    }

    /// The files of its tables and values, in all its tiers, and behind them those that say whose they are.
    fn tables(&self) -> Result<Vec<PathBuf>, String> {
        let own = self.path.join("sst");
        let named = match &self.options.ssd {
            SsdSource::Path(folder) => Some(folder.clone()),
            _ => None,
        };
        let mut folders: Vec<PathBuf> = std::iter::once(own).chain(named).collect();
        // What another store has there stays, and the open says whose it is. An earlier run may have had other folders; they are
        // emptied only if the store that names them is of bench.
        let earlier =
            if self.places().is_of_bench()? { self.places().folders() } else { Vec::new() };
        let owner = earlier.iter().chain(&folders).find_map(|folder| owner_of(folder));
        let given = match &self.options.tiers {
            TierSource::Dirs(tiers) => tiers.iter().map(|tier| tier.dir.clone()).collect(),
            _ => Vec::new(),
        };
        let more = given.into_iter().chain(earlier);
        folders.extend(more.filter(|folder| owner.is_some() && owner_of(folder) == owner));
        let mut files = Vec::new();
        for folder in folders {
            let Ok(entries) = std::fs::read_dir(&folder) else { continue };
            for entry in entries {
                let entry =
                    entry.map_err(|error| format!("listing {}: {error}", folder.display()))?;
                files.extend(Some(entry.path()).filter(|path| is_of_tables(path)));
            }
        }
        // Those that say whose they are come last, that of the store's own folder behind those of others.
        files.reverse();
        files.sort_by_key(|path| path.extension().is_none());
        Ok(files)
    }

    /// The files of its log, if it has one.
    fn log(&self) -> Vec<PathBuf> {
        let elsewhere = self.log_elsewhere().into_iter().flat_map(log_files);
        log_files(&self.path.join("wal")).chain(elsewhere).collect()
    }

    /// The folder of its log, if it is not in that of the store.
    fn log_elsewhere(&self) -> Option<&Path> {
        match &self.options.wal_dir {
            WalDir::Path(folder) => Some(folder),
            _ => None,
        }
    }

    /// Removes the files of a closed store, and nothing else.
    fn remove(&self) -> Result<(), String> {
        if self.is_heap() {
            return Ok(());
        }
        let _locks = self.places().lock()?;
        // The file `STORE` goes last: what is left of a removal that fails is still a store of bench.
        let mut files = self.tables()?;
        files.extend(self.log());
        if let PmSource::Path(pool) = &self.options.pm
            && holds_bytes(pool)
        {
            if !pool.is_file() && pool.exists() {
                return Err(format!(
                    "{} is no file that could be removed for a fresh store; use --use_existing_db",
                    pool.display()
                ));
            }
            files.push(pool.clone());
        }
        files.extend(FILES.iter().map(|name| self.path.join(name)));
        for file in files {
            match std::fs::remove_file(&file) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(format!("removing {}: {error}", file.display()));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The operator that benchmarks merge with, and what prints events if that is asked for.
fn hooks(config: &Config) -> Hooks {
    let hooks = operators::hooks();
    if !config.events {
        return hooks;
    }
    let form = if config.json { EventForm::Json } else { EventForm::Text };
    hooks.listener(Arc::new(EventPrinter(form)))
}

/// Whether a new store has its records in DRAM. How much of that it takes is the engine's to say.
fn becomes_log(config: &Config) -> bool {
    let probed = config.db.as_deref().and_then(|db| {
        let there = db.ancestors().find(|folder| folder.is_dir())?;
        Some(Probe::of(there, "/sys".as_ref()).storage)
    });
    match &config.engine.pm {
        PmSource::Dram => true,
        PmSource::Auto => {
            let in_memory =
                config.engine.pm_tables + config.engine.pm_values + config.engine.pm_cache;
            probed == Some(Storage::Device) && in_memory == 0
        }
        _ => false,
    }
}

/// Room for the records three times over: they are replaced out of place, and tables lie beside them.
fn pool_len(config: &Config) -> u64 {
    let fill =
        if config.benchmarks.iter().any(|name| name == "recovery") { config.fill_bytes } else { 0 };
    let tables = if config.runs(TPCC) { config.tpcc.bytes() } else { 0 };
    (3 * config.raw_bytes().max(fill).max(tables)).next_multiple_of(64 << 20).max(POOL_MIN)
}

fn with_remedy(error: String) -> String {
    format!("{error}; lower num, or give pm_size or db")
}
