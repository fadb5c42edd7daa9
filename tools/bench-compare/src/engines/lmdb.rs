//! LMDB, through heed. The only file with `unsafe` here: mapping a file that others could change is.
#![allow(unsafe_code)]

use std::ops::Bound;

use heed::types::Bytes;
use heed::{CommitOrAbort, Env, EnvFlags, EnvOpenOptions, WithoutTls};

use super::{Engine, Keyspaces, Maker, Result, Setup, Written, of, pages_offer};
use crate::promise::Promise;
use crate::stages::Survives;

pub(super) const MAKER: Maker = Maker {
    name: "lmdb",
    version: "LMDB 0.9 master (crate heed 0.23.1)",
    settings: "map of 64 GiB, NO_READ_AHEAD, NO_MEM_INIT, no TLS; unsynced: NO_SYNC; no compression, no filters; \
               its cache is the system's, without a bound",
    has_log: false,
    offers: pages_offer,
    open,
};

const MAP: usize = 64 << 30;

struct Lmdb {
    env: Env<WithoutTls>,
    /// The first is the usual one.
    databases: Vec<heed::Database<'static, Bytes, Bytes>>,
    synced: bool,
}

fn open(setup: &Setup<'_>) -> Result<Box<dyn Engine>> {
    let dir = setup.dir.join("lmdb");
    std::fs::create_dir_all(&dir).map_err(of("lmdb"))?;
    let synced = setup.survives == Survives::Power;
    let mut flags = EnvFlags::NO_READ_AHEAD | EnvFlags::NO_MEM_INIT;
    flags.set(EnvFlags::NO_SYNC, !synced);
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    options.map_size(MAP).max_readers(128).max_dbs(setup.keyspaces.len() as u32);
    // SAFETY: the flags only lower what a commit survives, and the folder is known to this process only, so that no
    // other process changes the file or opens it with other flags.
    let env = unsafe { options.flags(flags).open(&dir) }.map_err(of("lmdb"))?;
    let usual = setup.keyspaces.is_empty().then_some(None);
    let names = usual.into_iter().chain(setup.keyspaces.iter().map(|name| Some(*name)));
    let databases = names.map(|name| {
        let transaction = env.write_txn().map_err(of("lmdb"))?;
        let database = env.create_databases_and_commit(transaction, |opener, transaction| {
            opener.create_database(transaction, name).map(CommitOrAbort::<_, ()>::Commit)
        });
        Ok(database.map_err(of::<heed::Error>("lmdb"))?.unwrap_commit())
    });
    let databases = databases.collect::<Result<_>>()?;
    Ok(Box::new(Lmdb { env, databases, synced }))
}

impl Keyspaces for Lmdb {
    fn put_in(&self, keyspace: usize, key: &[u8], value: &[u8]) -> Result<()> {
        let mut transaction = self.env.write_txn().map_err(of("lmdb"))?;
        self.databases[keyspace].put(&mut transaction, key, value).map_err(of("lmdb"))?;
        transaction.commit().map_err(of("lmdb"))
    }

    fn get_in(&self, keyspace: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let transaction = self.env.read_txn().map_err(of("lmdb"))?;
        let found = self.databases[keyspace].get(&transaction, key).map_err(of("lmdb"))?;
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
        let transaction = self.env.read_txn().map_err(of("lmdb"))?;
        // Keys of LMDB are not empty.
        let lower = if from.is_empty() { Bound::Unbounded } else { Bound::Included(from) };
        let range = (lower, Bound::Unbounded);
        let entries = self.databases[keyspace].range(&transaction, &range).map_err(of("lmdb"))?;
        for entry in entries.take(count) {
            let (key, value) = entry.map_err(of("lmdb"))?;
            each(key, value);
        }
        Ok(())
    }
}

impl Engine for Lmdb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_in(0, key, value)
    }

    fn put_batch(&self, batch: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        let mut transaction = self.env.write_txn().map_err(of("lmdb"))?;
        for (key, value) in batch {
            self.databases[0].put(&mut transaction, key, value).map_err(of("lmdb"))?;
        }
        transaction.commit().map_err(of("lmdb"))
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        let mut transaction = self.env.write_txn().map_err(of("lmdb"))?;
        self.databases[0].delete(&mut transaction, key).map_err(of("lmdb"))?;
        transaction.commit().map_err(of("lmdb"))
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
        self.env.force_sync().map_err(of("lmdb"))
    }

    fn written(&self) -> Option<Written> {
        None
    }

    fn promise(&self) -> Promise {
        match self.synced {
            true => Promise::Synced,
            false => Promise::ProcessCrashOrStore,
        }
    }

    fn durability(&self) -> Result<String> {
        Ok(match self.synced {
            true => "each commit synced, data and root".into(),
            false => "NO_SYNC: a power failure may destroy the store".into(),
        })
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}
