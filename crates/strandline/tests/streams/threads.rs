//! Streams beside writers, background work and each other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ssd::Memory;
use strandline::{Batch, Db, Options, StreamOptions};

use crate::common::{Place, assert_nothing_leaked, noise, scattered};
use crate::replica::Replica;

const MIB: u64 = 1 << 20;

fn options() -> Options {
    Options::default()
        .zone_size(16 << 10)
        .memtable_bytes(32 << 10)
        .table_bytes(64 << 10)
        .block_cache(MIB)
        .background_threads(2)
}

/// Writes puts, batches over two keyspaces, deletions, and long values.
fn write(db: &Db, thread: u64, count: u64) {
    let other = db.keyspace("other").expect("keyspace");
    for i in 0..count {
        let no = i % 500 * 4 + thread;
        match i % 7 {
            0 => db.delete(scattered(no)).expect("delete"),
            1 => other.put(scattered(no), vec![i as u8; 5000]).expect("put"),
            2 | 3 => {
                let mut batch = Batch::new();
                for k in 0..5 {
                    batch.put(&other, scattered(no + 4 * k), noise(i, thread));
                    batch.put(db.default_keyspace(), scattered(no + 4 * k), noise(i, thread));
                }
                db.write(&batch).expect("write");
            }
            _ => db.put(scattered(no), noise(i, thread)).expect("put"),
        }
    }
}

/// Follows until `ended`, and all is there; acknowledges now and then.
fn follow(db: &Db, name: &str, every: u64, ended: &AtomicBool) -> Replica {
    let mut replica = Replica::new();
    replica.spaces.insert("other".into(), Default::default());
    let mut stream = db.stream(name).expect("stream");
    let mut count = 0;
    loop {
        let over = ended.load(Ordering::Acquire);
        match stream.wait(Duration::from_millis(1)).expect("reads") {
            Some(batch) => {
                assert_eq!(batch.number, replica.upto.max(stream.acked()).next().max(batch.number));
                replica.apply(&batch);
                count += 1;
                if count % every == 0 {
                    stream.ack(batch.last).expect("ack");
                }
            }
            None if over => return replica,
            None => {}
        }
    }
}

#[test]
fn streams_follow_writers() {
    let place = Place::new(64 * MIB, Memory::default());
    let db = place.open(options());
    db.create_keyspace("other").expect("keyspace");
    for name in ["all", "some"] {
        drop(db.create_stream(name, StreamOptions::new().max_bytes(30 * MIB)).expect("create"));
    }
    let ended = AtomicBool::new(false);
    let (all, some) = std::thread::scope(|scope| {
        let all = scope.spawn(|| follow(&db, "all", 1, &ended));
        let some = scope.spawn(|| follow(&db, "some", 97, &ended));
        let writers: Vec<_> = (0..3)
            .map(|thread| {
                scope.spawn({
                    let db = &db;
                    move || write(db, thread, 3000)
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().expect("writer"));
        ended.store(true, Ordering::Release);
        (all.join().expect("all"), some.join().expect("some"))
    });
    assert_eq!(all.spaces, some.spaces);
    all.assert_equals(&db);
    let figures = db.streams();
    assert_eq!(figures[0].behind, 0);
    db.drop_stream("all").expect("drop");
    db.drop_stream("some").expect("drop");
    assert_nothing_leaked(&db, "at the end");
    let report = db.check().expect("check");
    assert!(report.damage.is_empty(), "{:?}", report.damage);
}

/// A stream that is made while others write begins with a whole commit, and misses none.
#[test]
fn a_stream_that_is_made_beside_writers_misses_nothing() {
    let place = Place::new(64 * MIB, Memory::default());
    let db = place.open(options());
    db.create_keyspace("other").expect("keyspace");
    for round in 0..20 {
        let ended = AtomicBool::new(false);
        let replica = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..2)
                .map(|thread| {
                    scope.spawn({
                        let db = &db;
                        move || write(db, thread, 300)
                    })
                })
                .collect();
            std::thread::sleep(Duration::from_micros(300 * round));
            let stream = db.create_stream("copy", StreamOptions::new().max_bytes(30 * MIB));
            let acked = stream.expect("create").acked();
            let mut replica = Replica::of(&db);
            assert!(replica.upto >= acked);
            let mut stream = db.stream("copy").expect("stream");
            writers.into_iter().for_each(|writer| writer.join().expect("writer"));
            ended.store(true, Ordering::Release);
            replica.follow(&mut stream);
            replica
        });
        replica.assert_equals(&db);
        db.drop_stream("copy").expect("drop");
    }
    assert_nothing_leaked(&db, "at the end");
}
