//! fjall.

use std::ops::RangeFrom;
use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::{Engine, Keyspaces, Maker, Result, Setup, Written, of};
use crate::dram::BUFFERS;
use crate::promise::Promise;
use crate::stages::{PageCache, Survives};

pub(super) const MAKER: Maker = Maker {
    name: "fjall",
    version: "fjall 3.1.13",
    settings: "cache_size = cache, worker_threads 2, memtables of 64 MiB or an eighth of the memory, or of a part of half of it for each of several keyspaces, LZ4 below the first \
               two levels, Bloom by default; journal set to 64 MiB ahead, flushed to the system at each put, or synced \
               (SyncData), or left in memory",
    has_log: true,
    offers: |stage, case| case.cache != PageCache::Past && !stage.group.wants_transactions(),
    open,
};

struct Fjall {
    db: Database,
    /// The first is the usual one.
    keyspaces: Vec<Keyspace>,
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
    let names = if setup.keyspaces.is_empty() { &["items"] } else { setup.keyspaces };
    // Of the same memory, however many there are.
    let part = BUFFERS * setup.dram.buffer / names.len() as u64;
    let options = || {
        KeyspaceCreateOptions::default()
            .manual_journal_persist(lazy)
            .max_memtable_size(setup.dram.buffer.min(part))
    };
    let keyspaces = names.iter().map(|name| db.keyspace(name, options).map_err(of("fjall")));
    let keyspaces = keyspaces.collect::<Result<_>>()?;
    let journal = match holds_journal(&dir) {
        true => "its file set to 64 MiB ahead",
        false => "its file not made ahead",
    };
    Ok(Box::new(Fjall { db, keyspaces, survives, journal }))
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

impl Keyspaces for Fjall {
    fn put_in(&self, keyspace: usize, key: &[u8], value: &[u8]) -> Result<()> {
        self.keyspaces[keyspace].insert(key, value).map_err(of("fjall"))?;
        self.persist()
    }

    fn get_in(&self, keyspace: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let found = self.keyspaces[keyspace].get(key).map_err(of("fjall"))?;
        found.iter().for_each(|bytes| value.extend_from_slice(bytes));
        Ok(found.is_some())
    }

    fn scan_in(
        &self,
        keyspace: usize,
        from: &[u8],
        count: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let range: RangeFrom<&[u8]> = from..;
        for guard in self.keyspaces[keyspace].range(range).take(count) {
            let (key, value) = guard.into_inner().map_err(of("fjall"))?;
            each(&key, &value);
        }
        Ok(())
    }
}

impl Engine for Fjall {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_in(0, key, value)
    }

    fn put_batch(&self, batch: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        let mut changes = self.db.batch();
        for (key, value) in batch {
            changes.insert(&self.keyspaces[0], key.as_slice(), value.as_slice());
        }
        changes.commit().map_err(of("fjall"))?;
        self.persist()
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.keyspaces[0].remove(key).map_err(of("fjall"))?;
        self.persist()
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.get_in(0, key, value)
    }

    fn scan(&self, from: &[u8], count: usize, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        self.scan_in(0, from, count, each)
    }

    fn keyspaces(&self) -> Result<Box<dyn Keyspaces + '_>> {
        Ok(Box::new(self))
    }

    fn compact(&self) -> Result<()> {
        self.keyspaces.iter().try_for_each(|keyspace| {
            keyspace.rotate_memtable_and_wait().map_err(of("fjall"))?;
            keyspace.major_compact().map_err(of("fjall"))
        })
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
