//! strandline.

use bench::tpcc::StrandlineTables;
use strandline::{
    Batch, Db, Durability, ErrorKind, Keyspace, KeyspaceOptions, Options, PmSource, ReadOptions,
    SsdSource, Transaction, TransactionOptions, WalSync,
};

use super::rocks::has_long_values;
use super::{Change, Engine, Keyspaces, LONG_VALUE, Maker, Result, Setup, Written, failed};
use crate::promise::Promise;
use crate::stages::{Fit, Place, Survives};
use crate::work::orders::{TablesJob, TablesOutcome};

pub(super) const MAKER: Maker = Maker {
    name: "strandline",
    version: concat!("strandline ", env!("CARGO_PKG_VERSION")),
    settings: "in tmpfs a pool there, block_cache = cache, dram_budget = 2 caches + 256 MiB; on a disk Options::default() (so \
               that records are in DRAM, with a log beside the tables), pm_size half of the memory and dram_budget \
               the rest, but pm_size for all data in disk-get-memory and disk-scan-memory, block_cache for all in \
               disk-get-cached and disk-scan-cached; where keys are drawn by Zipf's law pm_size an eighth of the memory and \
               block_cache three quarters, dram_budget twice that, or with persistent memory pm_size all of that, and pm_cache \
               75; where all is in memtables memtable_bytes half of pm_size; wal_sync = never where the others do not sync; \
               value_files_min 0; transactions are optimistic, of snapshot isolation; Db::transact locks once it has lost three times",
    has_log: true,
    offers: |_, _| true,
    open: |setup| open(setup, ValueFiles::Off, TransactionOptions::new()),
};

pub(super) const PESSIMISTIC: Maker = Maker {
    name: "strandline-pessimistic",
    version: concat!("strandline ", env!("CARGO_PKG_VERSION"), ", transactions with locks"),
    settings: "as strandline, and transactions lock (TransactionOptions::pessimistic), of snapshot isolation; of TPC-C get_for_update of \
               each row that is put",
    offers: |stage, _| stage.group.wants_transactions(),
    open: |setup| open(setup, ValueFiles::Off, TransactionOptions::pessimistic()),
    ..MAKER
};

pub(super) const APART: Maker = Maker {
    name: "strandline-apart",
    version: concat!("strandline ", env!("CARGO_PKG_VERSION"), ", values apart"),
    settings: "as strandline, and value_files_min 512, value_space 150 (default)",
    has_log: true,
    offers: has_long_values,
    open: |setup| apart(setup, 150),
};

pub(super) const APART_130: Maker = Maker {
    name: "strandline-apart-130",
    settings: "as strandline-apart, and value_space 130",
    open: |setup| apart(setup, 130),
    ..APART
};

pub(super) const APART_155: Maker = Maker {
    name: "strandline-apart-155",
    settings: "as strandline-apart, and value_space 155",
    open: |setup| apart(setup, 155),
    ..APART
};

pub(super) const APART_200: Maker = Maker {
    name: "strandline-apart-200",
    settings: "as strandline-apart, and value_space 200",
    open: |setup| apart(setup, 200),
    ..APART
};

/// Whether values lie apart from their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueFiles {
    Off,
    /// With this `value_space`.
    Space(u32),
}

/// The most that the cache may have of the pool, in percent.
const PM_CACHE: u32 = 75;

struct Ours {
    db: Db,
    /// The first is the usual one.
    keyspaces: Vec<Keyspace>,
    sync: WalSync,
    rest: Rest,
    /// What its transactions are like.
    transactions: TransactionOptions,
}

/// Where a compaction brings everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// What fits stays in memory.
    Memory,
    /// Into tables, all of it.
    Tables,
}

/// With values apart, in so much space.
fn apart(setup: &Setup<'_>, space: u32) -> Result<Box<dyn Engine>> {
    open(setup, ValueFiles::Space(space), TransactionOptions::new())
}

fn open(
    setup: &Setup<'_>,
    values: ValueFiles,
    transactions: TransactionOptions,
) -> Result<Box<dyn Engine>> {
    let dram = setup.dram;
    let sync = match setup.survives {
        Survives::Power => WalSync::Always,
        Survives::Kill | Survives::Nothing => WalSync::Never,
    };
    let mut options = Options::default()
        .pm_size(dram.pool)
        .dram_budget(dram.indexes)
        .wal_sync(sync)
        .value_files_min(0)
        .ssd_direct(setup.direct);
    if let ValueFiles::Space(space) = values {
        options = options.value_files_min(LONG_VALUE as u64).value_space(space);
    }
    if let Some(cache) = dram.block_cache {
        options = options.block_cache(cache);
    }
    if let Some(memory) = setup.memory {
        let tables = SsdSource::Path(setup.dir.join("sst"));
        options = options.pm(PmSource::Path(memory.join("pool"))).ssd(tables);
    }
    if setup.place == Place::Hybrid {
        options = options.pm_cache(PM_CACHE);
    }
    if setup.fit == Fit::Memtables {
        options = options.memtable_bytes(dram.pool / 2);
    }
    if setup.fit == Fit::Pool {
        // Else a compaction would move records to tables.
        options = options.ssd(SsdSource::None);
    }
    let db = Db::open(setup.dir.join("store"), options).map_err(failed)?;
    // What is compared is a log on the disk: of other memory the row would tell something else.
    if setup.place == Place::Disk && db.properties().wal.is_none() {
        return Err(format!("strandline: no log on the disk: {}", db.pm_choice()));
    }
    let tables = setup.place.shares_disk() && setup.fit != Fit::Pool;
    let rest = if tables { Rest::Tables } else { Rest::Memory };
    let named = setup.keyspaces.iter();
    let named = named.map(|name| db.keyspace_or_create(name, KeyspaceOptions::new()));
    let mut keyspaces: Vec<Keyspace> =
        named.collect::<std::result::Result<_, _>>().map_err(failed)?;
    if keyspaces.is_empty() {
        keyspaces.push(db.default_keyspace().clone());
    }
    Ok(Box::new(Ours { db, keyspaces, sync, rest, transactions }))
}

impl Keyspaces for Ours {
    fn put_in(&self, keyspace: usize, key: &[u8], value: &[u8]) -> Result<()> {
        self.keyspaces[keyspace].put(key, value).map_err(failed)
    }

    fn get_in(&self, keyspace: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.keyspaces[keyspace].get_into(key, value).map_err(failed)
    }

    fn scan_in(
        &self,
        keyspace: usize,
        from: &[u8],
        count: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let mut iter = self.keyspaces[keyspace].cursor(&ReadOptions::default()).map_err(failed)?;
        iter.seek(from).map_err(failed)?;
        for step in 0..count {
            if step > 0 {
                iter.next().map_err(failed)?;
            }
            let (Some(key), Some(value)) = (iter.key(), iter.value().map_err(failed)?) else {
                break;
            };
            each(key, value);
        }
        Ok(())
    }
}

impl Engine for Ours {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_in(0, key, value)
    }

    fn batch_bytes(&self) -> u64 {
        // Half of what one commit may take, where small entries take twice their bytes.
        self.db.properties().zone_bytes / 16
    }

    fn put_batch(&self, batch: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        let mut changes = Batch::new();
        for (key, value) in batch {
            changes.put(&self.keyspaces[0], key, value);
        }
        self.db.write(&changes).map_err(failed)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.keyspaces[0].delete(key).map_err(failed)
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

    fn update(&self, key: &[u8], change: &mut dyn Change) -> Result<u64> {
        let (keyspace, mut attempts, mut wrong) = (&self.keyspaces[0], 0, None);
        let mut body = |transaction: &mut Transaction| {
            attempts += 1;
            let old = transaction.get_for_update(keyspace, key)?;
            match change.of(old.as_deref()) {
                Ok(new) => transaction.put(keyspace, key, new),
                // Nothing is changed then.
                Err(error) => {
                    wrong = Some(error);
                    Ok(())
                }
            }
        };
        loop {
            match self.db.transact(self.transactions.clone(), &mut body) {
                // It waited too long for a lock.
                Err(error) if error.kind() == ErrorKind::TimedOut => {}
                done => break done.map_err(failed)?,
            }
        }
        wrong.map_or(Ok(attempts - 1), Err)
    }

    fn tables(&self, job: &TablesJob) -> Result<TablesOutcome> {
        job.on(&StrandlineTables::new(&self.db, self.transactions.clone()))
    }

    fn compact(&self) -> Result<()> {
        self.db.compact().map_err(failed)?;
        if self.rest == Rest::Tables {
            for all in &self.keyspaces {
                self.db.compact_range(all, None, None).map_err(failed)?;
            }
        }
        Ok(())
    }

    fn written(&self) -> Option<Written> {
        let properties = self.db.properties();
        let tables = properties.ssd.map_or(0, |ssd| ssd.compactions.written_bytes);
        // Records in DRAM are written to the log.
        Some(match properties.wal {
            Some(log) => {
                Written { files: tables + log.written_bytes, pm: 0, syncs: Some(log.syncs) }
            }
            None => {
                let pm = self.db.region().stats().media_bytes();
                Written { files: tables, pm, syncs: None }
            }
        })
    }

    fn promise(&self) -> Promise {
        match self.db.durability() {
            // With a log, the option says whether it is synced.
            Durability::Synced if self.sync == WalSync::Always => Promise::Synced,
            Durability::Synced | Durability::ProcessCrash => Promise::ProcessCrash,
            Durability::PowerFailAdr | Durability::PowerFailEadr => Promise::Persistent,
            _ => Promise::Nothing,
        }
    }

    fn durability(&self) -> Result<String> {
        Ok(match (self.db.properties().wal, self.sync) {
            (None, _) => format!("durable on its device: {}", self.db.durability()),
            (Some(_), WalSync::Always) => "log synced, wal_sync=always".into(),
            (Some(_), _) => "log written, wal_sync=never".into(),
        })
    }

    fn close(self: Box<Self>) -> Result<()> {
        let Ours { db, keyspaces, .. } = *self;
        drop(keyspaces);
        db.close().map_err(failed)
    }
}
