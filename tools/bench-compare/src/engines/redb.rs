//! redb.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use redb::{
    Database, Durability, ReadTransaction, ReadableDatabase, TableDefinition, WriteTransaction,
};

use super::{Engine, Keyspaces, Maker, Result, Setup, Written, of, pages_offer};
use crate::promise::Promise;
use crate::stages::Survives;

pub(super) const MAKER: Maker = Maker {
    name: "redb",
    version: "redb 4.5.0",
    settings: "set_cache_size = cache, or all of the memory where all have the same; unsynced: Durability::None with every \
               1024th commit durable, so that space comes back; no compression, no filters",
    has_log: false,
    offers: pages_offer,
    open,
};

type Definition = TableDefinition<'static, &'static [u8], &'static [u8]>;
/// Commits from one durable one to the next where puts are not synced.
const DURABLE_EVERY: u64 = 1024;

struct Redb {
    db: Database,
    /// The first is the usual one.
    tables: Vec<Definition>,
    synced: bool,
    commits: AtomicU64,
}

fn open(setup: &Setup<'_>) -> Result<Box<dyn Engine>> {
    let mut builder = Database::builder();
    builder.set_cache_size(setup.dram.total.unwrap_or(setup.dram.cache) as usize);
    let db = builder.create(setup.dir.join("redb")).map_err(of("redb"))?;
    let names = if setup.keyspaces.is_empty() { &["items"] } else { setup.keyspaces };
    let redb = Redb {
        db,
        tables: names.iter().map(|name| TableDefinition::new(name)).collect(),
        synced: setup.survives == Survives::Power,
        commits: AtomicU64::new(0),
    };
    (0..redb.tables.len()).try_for_each(|table| redb.commit(table, |_| Ok(())))?;
    Ok(Box::new(redb))
}

type Table<'t> = redb::Table<'t, &'static [u8], &'static [u8]>;

impl Redb {
    fn commit(
        &self,
        table: usize,
        change: impl FnOnce(&mut Table<'_>) -> std::result::Result<(), redb::StorageError>,
    ) -> Result<()> {
        let mut transaction: WriteTransaction = self.db.begin_write().map_err(of("redb"))?;
        let durable =
            self.synced || self.commits.fetch_add(1, Relaxed).is_multiple_of(DURABLE_EVERY);
        let durability = if durable { Durability::Immediate } else { Durability::None };
        transaction.set_durability(durability).map_err(of("redb"))?;
        {
            let mut table = transaction.open_table(self.tables[table]).map_err(of("redb"))?;
            change(&mut table).map_err(of("redb"))?;
        }
        transaction.commit().map_err(of("redb"))
    }

    fn read(&self) -> Result<ReadTransaction> {
        self.db.begin_read().map_err(of("redb"))
    }
}

impl Keyspaces for Redb {
    fn put_in(&self, keyspace: usize, key: &[u8], value: &[u8]) -> Result<()> {
        self.commit(keyspace, |table| table.insert(key, value).map(drop))
    }

    fn get_in(&self, keyspace: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let table = self.read()?.open_table(self.tables[keyspace]).map_err(of("redb"))?;
        let found = table.get(key).map_err(of("redb"))?;
        found.iter().for_each(|bytes| value.extend_from_slice(bytes.value()));
        Ok(found.is_some())
    }

    fn scan_in(
        &self,
        keyspace: usize,
        from: &[u8],
        count: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let table = self.read()?.open_table(self.tables[keyspace]).map_err(of("redb"))?;
        for entry in table.range(from..).map_err(of("redb"))?.take(count) {
            let (key, value) = entry.map_err(of("redb"))?;
            each(key.value(), value.value());
        }
        Ok(())
    }
}

impl Engine for Redb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_in(0, key, value)
    }

    fn put_batch(&self, batch: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        self.commit(0, |table| {
            for (key, value) in batch {
                table.insert(key.as_slice(), value.as_slice())?;
            }
            Ok(())
        })
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.commit(0, |table| table.remove(key).map(drop))
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
        // Nothing is left to do behind a commit.
        Ok(())
    }

    fn written(&self) -> Option<Written> {
        None
    }

    fn promise(&self) -> Promise {
        match self.synced {
            true => Promise::Synced,
            false => Promise::Nothing,
        }
    }

    fn durability(&self) -> Result<String> {
        Ok(match self.synced {
            true => "Durability::Immediate".into(),
            false => "Durability::None until every 1024th commit".into(),
        })
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.db.close().map_err(of("redb"))
    }
}
