//! The engine with threads of its own, opened in memory and on a disk that are watched.

use std::sync::Arc;

use base::{Error, ErrorKind, Result};
use pmem::Region;
use sim::diary::{Promise, Shown};
use sim::state::{EntryKey, State};
use ssd::Fs;
use strandline::{Db, Options, WalSync, steps};

use crate::crash::store::{ID, NOON, SST, WAL};
use crate::crash::system::{Engine, SimLog, show};
use crate::crash::whole::{self, Spaces};

/// Whether background threads may have work in hand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Background {
    Quiet,
    Running,
}

/// An engine, and the threads that it has.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub engine: Engine,
    /// When its log is synced, if it has one.
    pub wal_sync: WalSync,
    /// Background threads, which are as many parts of a compaction.
    pub background: u32,
    /// Threads that recover.
    pub recovery: u32,
}

impl Setup {
    /// What an acknowledgement is worth.
    pub fn promise(&self) -> Promise {
        match (self.engine.log, self.wal_sync) {
            (SimLog::Device, WalSync::Interval(_) | WalSync::Never) => Promise::Prefix,
            _ => Promise::Each,
        }
    }

    pub fn options(&self, background: u32) -> Options {
        self.engine
            .options()
            // As it suits.
            .subranges(0)
            .background_threads(background)
            .recovery_threads(self.recovery)
    }

    /// Makes an empty store, with all the keyspaces that are always there, and opens it.
    pub fn create(&self, region: Region, fs: &Arc<dyn Fs>) -> Result<Db> {
        for (dir, wanted) in
            [(SST, self.engine.table_bytes.is_some()), (WAL, self.engine.log.is_some())]
        {
            if wanted {
                fs.create_dir_all(dir.as_ref())?;
                fs.sync_dir("/".as_ref())?;
            }
        }
        let len = region.len();
        let region = self.memory(region, fs, Some((ID, len)))?;
        let Engine { zone_len, manifest_len, .. } = self.engine;
        steps::format(&region, pool::Format { zone_len, manifest_len }, ID)?;
        let db = self.open_on(region, fs, self.background)?;
        let _made = Spaces::of(&db, None, None)?;
        // Where nothing else makes it durable: a prefix may be no store at all.
        db.sync_wal()?;
        Ok(db)
    }

    /// Recovers the store and opens it, with so many background threads.
    pub fn open(&self, region: Region, fs: &Arc<dyn Fs>, background: u32) -> Result<Db> {
        let region = self.memory(region, fs, None)?;
        steps::formatted(&region)?;
        self.open_on(region, fs, background)
    }

    fn open_on(&self, region: Arc<Region>, fs: &Arc<dyn Fs>, background: u32) -> Result<Db> {
        let tables = self.engine.table_bytes.map(|_| (Arc::clone(fs), SST.as_ref()));
        steps::open(region, tables, self.options(background), whole::hooks(NOON))
    }

    /// The memory that the store is in: the one that is watched, or, if it has a log, one of its own.
    fn memory(
        &self,
        region: Region,
        fs: &Arc<dyn Fs>,
        fresh: Option<(u64, u64)>,
    ) -> Result<Arc<Region>> {
        if !self.engine.log.is_some() {
            return Ok(Arc::new(region));
        }
        let options = self.engine.options().wal_sync(self.wal_sync);
        let open =
            if self.engine.log == SimLog::Memory { steps::streamed } else { steps::journaled };
        let journaled = open(Arc::clone(fs), WAL.as_ref(), &options, fresh)?;
        journaled.ok_or_else(|| Error::new(ErrorKind::NotFound, "open", "there is no log"))
    }

    /// What a store shows. Space that nothing reaches is counted only if no background thread has work in hand.
    pub fn shown(&self, db: &Db, background: Background) -> Result<Shown> {
        let spaces = Spaces::of(db, None, None)?;
        let mut state = State::new();
        show(&spaces, self.engine.keys, &mut |keyspace, key, value| {
            state.insert(EntryKey::new(keyspace, key), value.to_vec());
        })?;
        let space = db.default_keyspace();
        let leaks = match background {
            Background::Quiet => {
                steps::leaked_zones(space) + steps::leaked_tables(space)? + steps::misplaced(space)?
            }
            Background::Running => 0,
        };
        Ok(Shown { cut: db.recovery().cut.get(), state, leaks })
    }
}
