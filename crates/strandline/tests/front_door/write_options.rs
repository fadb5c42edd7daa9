//! A service that acknowledges some of its writes only when they survive power failure, and never lets a request wait for the
//! store's background work.

use std::sync::Arc;
use std::time::Duration;

use ssd::{Disk, Memory};
use strandline::operators::BuiltInOperator;
use strandline::steps::{self, Given};
use strandline::{
    Batch, Db, ErrorKind, Hooks, Options, PmSource, WalSync, WriteDurability, WriteOptions,
};

use crate::common::{heap, kind_of, numbered, small};

/// What power failure may leave of a disk, at most so many.
const SURVIVORS: usize = 24;

/// Opens the store in DRAM whose log is on `disk`.
fn open(disk: &Memory, wal_sync: WalSync) -> Db {
    let memory = heap(1 << 20);
    let format = pool::Format::for_len(memory.len());
    let given = Given {
        fs: Arc::new(disk.clone()),
        memory,
        format,
        id: 77,
        storage: pmem::Storage::Device,
    };
    let options = Options::default()
        .pm(PmSource::Dram)
        .wal_sync(wal_sync)
        .background_threads(0)
        .recovery_threads(1);
    let hooks = Hooks::default().merge_operator(Arc::new(BuiltInOperator::Add));
    steps::open_at(&given, "/store".as_ref(), options, hooks).expect("open")
}

fn one() -> [u8; 8] {
    1_u64.to_le_bytes()
}

/// Each way to write with a sync.
type SyncedWrite = fn(&Db, &WriteOptions) -> strandline::Result<()>;
const WAYS: [(&str, SyncedWrite); 4] = [
    ("put", |db, options| db.default_keyspace().put_with("synced", one(), options)),
    ("merge", |db, options| db.default_keyspace().merge_with("synced", one(), options)),
    ("delete", |db, options| db.default_keyspace().delete_with("gone", options)),
    ("write", |db, options| {
        let mut batch = Batch::new();
        batch.put(db.default_keyspace(), "synced", one());
        batch.delete(db.default_keyspace(), "gone");
        db.write_with(&batch, options)
    }),
];

/// What is asked of a write in which store.
const WORTH: [(WalSync, WriteDurability); 6] = [
    (WalSync::Never, WriteDurability::Synced),
    (WalSync::Never, WriteDurability::Buffered),
    (WalSync::Never, WriteDurability::Store),
    (WalSync::Always, WriteDurability::Synced),
    (WalSync::Always, WriteDurability::Buffered),
    (WalSync::Always, WriteDurability::Store),
];

fn survives_power(store: WalSync, durability: WriteDurability) -> bool {
    match durability {
        WriteDurability::Store => store == WalSync::Always,
        durability => durability == WriteDurability::Synced,
    }
}

#[test]
fn a_synced_write_survives_power_failure_with_all_before_it() {
    for (way, write) in WAYS {
        for (store, durability) in WORTH {
            let sync = survives_power(store, durability);
            let disk = Memory::default();
            let db = open(&disk, store);
            for key in ["gone", "before"] {
                db.put(key, one()).expect("put");
            }
            if !sync {
                // Without this, the put of the key that is deleted could be lost, too.
                db.sync_wal().expect("sync");
            }
            write(&db, &WriteOptions::new().durability(durability)).expect(way);
            let buffered = WriteOptions::new().durability(WriteDurability::Buffered);
            db.default_keyspace().put_with("after", one(), &buffered).expect("put");
            let left: Vec<Disk> = disk.disk().survivors(SURVIVORS, 1).collect();
            drop(db);
            let (mut without_last, mut without_it) = (0, 0);
            for disk in left {
                let db = open(&Memory::new(disk), store);
                let get = |key: &str| db.get(key).expect("get");
                assert_eq!(get("before").as_deref(), Some(&one()[..]), "{way}");
                let written = match way {
                    "delete" => get("gone").is_none(),
                    "write" => {
                        assert_eq!(get("gone").is_none(), get("synced").is_some(), "half a batch");
                        get("synced").is_some()
                    }
                    _ => get("synced").as_deref() == Some(&one()[..]),
                };
                without_it += u32::from(!written);
                without_last += u32::from(get("after").is_none());
            }
            assert!(without_last > 0, "{way}: power failure loses what is not synced");
            assert_eq!(without_it == 0, sync, "{way}: lost by {without_it} survivors");
        }
    }
}

#[test]
fn an_empty_batch_with_sync_syncs_what_came_before() {
    let disk = Memory::default();
    let db = open(&disk, WalSync::Never);
    db.put("before", one()).expect("put");
    db.write_with(&Batch::new(), &WriteOptions::new().durability(WriteDurability::Synced))
        .expect("sync");
    let left: Vec<Disk> = disk.disk().survivors(SURVIVORS, 1).collect();
    drop(db);
    for disk in left {
        assert!(open(&Memory::new(disk), WalSync::Never).contains_key("before").expect("get"));
    }
}

/// Keys that are written to over and over: background work has something to free.
const KEYS: u64 = 50;

/// A store of 1 MiB whose background work is the caller's, written to until one write more would be slowed. Tells the
/// keys that are there.
fn filled_until_busy(value: &[u8]) -> (Db, u64) {
    let db = Db::open_region(heap(1 << 20), small(16 << 10)).expect("open");
    let at_once = WriteOptions::new().no_slowdown(true);
    for count in 0..10_000 {
        let put = db.default_keyspace().put_with(numbered(count % KEYS), value, &at_once);
        if let Err(error) = put {
            assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
            assert!(error.context().contains("no_slowdown"), "{error}");
            return (db, count.min(KEYS));
        }
    }
    panic!("ten times the pool was written without work");
}

#[test]
fn a_write_that_would_be_slowed_is_refused_whole_and_done_later() {
    // Values in records, and values in extents of their own.
    for len in [1000, 6000] {
        let value = vec![1; len];
        let (db, keys) = filled_until_busy(&value);
        let space = db.default_keyspace();
        let at_once = WriteOptions::new().no_slowdown(true);
        let mut batch = Batch::new();
        batch.put(space, "new/1", &value);
        batch.put(space, "new/2", &value);
        batch.delete(space, numbered(0));
        let stalled = db.properties();
        assert_eq!(kind_of(db.write_with(&batch, &at_once)), ErrorKind::Busy);
        assert_eq!(db.prefix("new/").count(), 0, "nothing of a refused batch is visible");
        assert_eq!(db.keys().count() as u64, keys);
        assert_eq!(db.properties().visible_seq, stalled.visible_seq, "and none of it has a number");
        while !db.work(1000).expect("work").is_idle() {}
        db.write(&batch).expect("a write that may wait");
        assert_eq!(db.prefix("new/").count(), 2);
        assert_eq!(db.keys().count() as u64, keys + 1);
        assert_eq!(db.check().expect("check").damage, []);
    }
}

#[test]
fn refused_writes_are_taken_once_background_work_has_caught_up() {
    let options = small(16 << 10).background_threads(1);
    let db = Db::open_region(heap(1 << 20), options).expect("open");
    let at_once = WriteOptions::new().no_slowdown(true);
    let mut refused = 0;
    for count in 0..4000_u64 {
        let value = vec![count as u8; 1000];
        while let Err(error) =
            db.default_keyspace().put_with(numbered(count % 100), &value, &at_once)
        {
            assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
            refused += 1;
            assert!(refused < 100_000, "never taken: {error}");
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    assert!(refused > 0, "four times the pool, and no write would have waited");
    assert_eq!(db.keys().count(), 100);
    for no in 0..100 {
        let value = db.get(numbered(no)).expect("get").expect("there");
        assert_eq!(value, vec![(3900 + no) as u8; 1000]);
    }
}
