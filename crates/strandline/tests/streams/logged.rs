//! Stores in DRAM with a log: the log keeps the slots, and the records behind them.

use std::path::Path;
use std::sync::Arc;

use ssd::{Disk, Fs, Memory};
use strandline::{Db, Hooks, Options, PmSource, StreamOptions, WalIo, WalSync, steps};
use testkit::Rng;

use crate::common::{TempDir, numbered, small_levels};
use crate::replica::Replica;

const ID: u64 = 77;

#[test]
fn what_was_not_acknowledged_comes_again_from_the_log() {
    let dir = TempDir::new("streams-logged");
    let mut replica = Replica::new();
    let mut rng = Rng::new(5);
    for round in 0..8_u64 {
        let sync = if round % 2 == 0 { WalSync::Always } else { WalSync::Never };
        let options = small_levels().pm(PmSource::Dram).wal_sync(sync);
        let db = Db::open(dir.path(), options).expect("open");
        if round == 0 {
            drop(
                db.create_stream("copy", StreamOptions::new().max_bytes(1 << 20)).expect("create"),
            );
        }
        let mut stream = db.stream("copy").expect("stream");
        assert!(stream.acked() <= replica.upto, "round {round}");
        if round % 3 == 1 {
            // What the last open left behind.
            assert!(replica.follow(&mut stream) >= 150, "round {round}");
            replica.assert_equals(&db);
            stream.ack(replica.upto).expect("ack");
        }
        for _ in 0..150 {
            let len = if rng.chance(1, 20) { 5000 } else { rng.below(1000) };
            db.put(numbered(rng.below(100)), vec![round as u8; len as usize]).expect("put");
        }
        db.delete(numbered(rng.below(100))).expect("delete");
        if round % 2 == 0 {
            db.flush().expect("flush");
            db.compact().expect("compact");
        }
        assert_eq!(db.check().expect("check").damage, []);
        assert!(db.streams()[0].behind > 150);
    }
    let db = Db::open(dir.path(), small_levels().pm(PmSource::Dram)).expect("open");
    replica.follow(&mut db.stream("copy").expect("stream"));
    replica.assert_equals(&db);
}

fn open(fs: &Arc<dyn Fs>) -> Db {
    let log = Options::default().wal_sync(WalSync::Never).wal_io(WalIo::Cached);
    let region = steps::journaled(Arc::clone(fs), Path::new("/wal"), &log, Some((ID, 256 << 10)));
    let region = region.expect("log").expect("a region");
    if steps::formatted(&region).is_err() {
        let format = pool::Format { zone_len: 4 << 10, manifest_len: 16 << 10 };
        steps::format(&region, format, ID).expect("format");
    }
    let options = small_levels().memtable_bytes(8 << 10).table_bytes(8 << 10).block_cache(16 << 10);
    let tables = Some((Arc::clone(fs), Path::new("/sst")));
    steps::open(region, tables, options.wal_sync(WalSync::Never), Hooks::default()).expect("open")
}

/// Nothing is synced by the writes. What a stream gave is there all the same, so that no copy has what the store has lost; and
/// what it gives from the last acknowledgement on leads to what the store has.
#[test]
fn power_failure_takes_nothing_that_was_given() {
    let mut lost = 0;
    for seed in 0..6 {
        let memory = Memory::new(Disk::new(512));
        let fs: Arc<dyn Fs> = Arc::new(memory.clone());
        for dir in ["/wal", "/sst"] {
            fs.create_dir_all(dir.as_ref()).expect("directory");
        }
        fs.sync_dir("/".as_ref()).expect("sync");
        let db = open(&fs);
        let mut stream =
            db.create_stream("copy", StreamOptions::new().max_bytes(96 << 10)).expect("create");
        let mut rng = Rng::new(seed);
        let mut replica = Replica::new();
        let mut acked = replica.clone();
        for i in 0..180_u64 {
            let value = i.to_le_bytes().repeat(1 + rng.below(40) as usize);
            db.put(numbered(rng.below(40)), value).expect("put");
            if i % 40 == 13 + seed {
                replica.follow(&mut stream);
                replica.assert_equals(&db);
            }
            if i % 60 == 50 {
                stream.ack(replica.upto).expect("ack");
                acked = replica.clone();
            }
        }
        let (disk, newest) = (memory.disk(), db.properties().visible_seq);
        drop((stream, db));
        for survivor in std::iter::once(disk.clone()).chain(disk.survivors(40, seed)) {
            let fs: Arc<dyn Fs> = Arc::new(Memory::new(survivor));
            let db = open(&fs);
            let found = db.properties().visible_seq;
            lost += u64::from(found < newest);
            assert!(found >= replica.upto, "seed {seed}: {found}, given {}", replica.upto);
            let mut stream = db.stream("copy").expect("stream");
            assert!(stream.acked() <= acked.upto, "seed {seed}");
            let mut again = replica.clone();
            again.follow(&mut stream);
            again.assert_equals(&db);
        }
    }
    assert!(lost > 0, "no power failure took anything");
}
