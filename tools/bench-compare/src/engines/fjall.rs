//! fjall.

use std::ops::RangeFrom;
use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::{Engine, Maker, Result, Setup, Written, of};
use crate::promise::Promise;
use crate::stages::{PageCache, Survives};

pub(super) const MAKER: Maker = Maker {
    name: "fjall",
    version: "fjall 3.1.13",
    settings: "cache_size = cache, worker_threads 2, memtables of 64 MiB or an eighth of the memory, LZ4 below the first \
               two levels, Bloom by default; journal set to 64 MiB ahead, flushed to the system at each put, or synced \
               (SyncData), or left in memory",
    has_log: true,
    offers: |_, case| case.cache != PageCache::Past,
    open,
};

struct Fjall {
    db: Database,
    items: Keyspace,
    survives: Survives,
    journal: &'static str,
}

/// What fjall sets a new journal to.
const JOURNAL: u64 = 64 << 20;

fn open(setup: &Setup<'_>) -> Result<Box<dyn Engine>> {
    let survives = setup.survives;
    let lazy = survives == Survives::Nothing;
    let dir = setup.dir.join("fjall");
    let db = Database::builder(&dir)
        .cache_size(setup.dram.cache)
        .worker_threads(2)
        .manual_journal_persist(lazy)
        .open()
        .map_err(of("fjall"))?;
    let options = || {
        KeyspaceCreateOptions::default()
            .manual_journal_persist(lazy)
            .max_memtable_size(setup.dram.buffer)
    };
    let items = db.keyspace("items", options).map_err(of("fjall"))?;
    let journal = match holds_journal(&dir) {
        true => "its file set to 64 MiB ahead",
        false => "its file not made ahead",
    };
    Ok(Box::new(Fjall { db, items, survives, journal }))
}

/// Whether a journal in `dir` has its full length from the begin.
fn holds_journal(dir: &Path) -> bool {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut files = entries.filter_map(|entry| entry.metadata().ok());
    files.any(|file| file.is_file() && file.len() >= JOURNAL)
}

impl Fjall {
    fn persist(&self) -> Result<()> {
        match self.survives {
            Survives::Power => self.db.persist(PersistMode::SyncData).map_err(of("fjall")),
            Survives::Kill | Survives::Nothing => Ok(()),
        }
    }
}

impl Engine for Fjall {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.items.insert(key, value).map_err(of("fjall"))?;
        self.persist()
    }

    fn put_batch(&self, batch: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        let mut changes = self.db.batch();
        for (key, value) in batch {
            changes.insert(&self.items, key.as_slice(), value.as_slice());
        }
        changes.commit().map_err(of("fjall"))?;
        self.persist()
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.items.remove(key).map_err(of("fjall"))?;
        self.persist()
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let found = self.items.get(key).map_err(of("fjall"))?;
        found.iter().for_each(|bytes| value.extend_from_slice(bytes));
        Ok(found.is_some())
    }

    fn scan(&self, from: &[u8], count: usize, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let range: RangeFrom<&[u8]> = from..;
        for guard in self.items.range(range).take(count) {
            let (key, value) = guard.into_inner().map_err(of("fjall"))?;
            each(&key, &value);
        }
        Ok(())
    }

    fn compact(&self) -> Result<()> {
        self.items.rotate_memtable_and_wait().map_err(of("fjall"))?;
        self.items.major_compact().map_err(of("fjall"))
    }

    fn written(&self) -> Option<Written> {
        None
    }

    fn promise(&self) -> Promise {
        super::promise(self.survives)
    }

    fn durability(&self) -> Result<String> {
        let journal = self.journal;
        Ok(match self.survives {
            Survives::Nothing => "journal in a buffer of the process".into(),
            Survives::Kill => "journal written, not synced".into(),
            Survives::Power => {
                format!("PersistMode::SyncData of the journal after each put, {journal}")
            }
        })
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
