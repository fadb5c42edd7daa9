//! LMDB, through heed. The only file with `unsafe` here: mapping a file that others could change is.
#![allow(unsafe_code)]

use std::ops::Bound;

use heed::types::Bytes;
use heed::{CommitOrAbort, Env, EnvFlags, EnvOpenOptions, WithoutTls};

use super::{Engine, Maker, Result, Setup, Written, of, pages_offer};
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
    items: heed::Database<'static, Bytes, Bytes>,
    synced: bool,
}

fn open(setup: &Setup<'_>) -> Result<Box<dyn Engine>> {
    let dir = setup.dir.join("lmdb");
    std::fs::create_dir_all(&dir).map_err(of("lmdb"))?;
    let synced = setup.survives == Survives::Power;
    let mut flags = EnvFlags::NO_READ_AHEAD | EnvFlags::NO_MEM_INIT;
    flags.set(EnvFlags::NO_SYNC, !synced);
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    options.map_size(MAP).max_readers(128);
    // SAFETY: the flags only lower what a commit survives, and the folder is known to this process only, so that no
    // other process changes the file or opens it with other flags.
    let env = unsafe { options.flags(flags).open(&dir) }.map_err(of("lmdb"))?;
    let transaction = env.write_txn().map_err(of("lmdb"))?;
    let items = env
        .create_databases_and_commit(transaction, |opener, transaction| {
            opener.create_database(transaction, None).map(CommitOrAbort::<_, ()>::Commit)
        })
        .map_err(of::<heed::Error>("lmdb"))?
        .unwrap_commit();
    Ok(Box::new(Lmdb { env, items, synced }))
}

impl Engine for Lmdb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut transaction = self.env.write_txn().map_err(of("lmdb"))?;
        self.items.put(&mut transaction, key, value).map_err(of("lmdb"))?;
        transaction.commit().map_err(of("lmdb"))
    }

    fn put_batch(&self, batch: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        let mut transaction = self.env.write_txn().map_err(of("lmdb"))?;
        for (key, value) in batch {
            self.items.put(&mut transaction, key, value).map_err(of("lmdb"))?;
        }
        transaction.commit().map_err(of("lmdb"))
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        let mut transaction = self.env.write_txn().map_err(of("lmdb"))?;
        self.items.delete(&mut transaction, key).map_err(of("lmdb"))?;
        transaction.commit().map_err(of("lmdb"))
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let transaction = self.env.read_txn().map_err(of("lmdb"))?;
        let found = self.items.get(&transaction, key).map_err(of("lmdb"))?;
        found.iter().for_each(|bytes| value.extend_from_slice(bytes));
        Ok(found.is_some())
    }

    fn scan(&self, from: &[u8], count: usize, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let transaction = self.env.read_txn().map_err(of("lmdb"))?;
        // Keys of LMDB are not empty.
        let lower = if from.is_empty() { Bound::Unbounded } else { Bound::Included(from) };
        let range = (lower, Bound::Unbounded);
        for entry in self.items.range(&transaction, &range).map_err(of("lmdb"))?.take(count) {
            let (key, value) = entry.map_err(of("lmdb"))?;
            each(key, value);
        }
        Ok(())
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
