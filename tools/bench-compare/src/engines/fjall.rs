//! fjall.

use std::ops::RangeFrom;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::{Engine, Maker, Result, Setup, Survives, Written, of};

pub(super) const MAKER: Maker = Maker {
    name: "fjall",
    version: "fjall 3.1.13",
    settings: "cache_size = cache, worker_threads 2, memtables of 64 MiB, LZ4 below the first two levels, Bloom by \
               default; journal flushed to the system at each put, or synced, or left in memory",
    offers: |_, direct| !direct,
    open,
};

struct Fjall {
    db: Database,
    items: Keyspace,
    survives: Survives,
}

fn open(setup: &Setup<'_>) -> Result<Box<dyn Engine>> {
    let lazy = setup.survives == Survives::Nothing;
    let db = Database::builder(setup.dir.join("fjall"))
        .cache_size(setup.cache)
        .worker_threads(2)
        .manual_journal_persist(lazy)
        .open()
        .map_err(of("fjall"))?;
    let options = || KeyspaceCreateOptions::default().manual_journal_persist(lazy);
    let items = db.keyspace("items", options).map_err(of("fjall"))?;
    Ok(Box::new(Fjall { db, items, survives: setup.survives }))
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

    fn durability(&self) -> String {
        match self.survives {
            Survives::Nothing => "none: journal in a buffer of the process".into(),
            Survives::Kill => "process crash: journal written, not synced".into(),
            Survives::Power => "synced: PersistMode::SyncData after each put".into(),
        }
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
