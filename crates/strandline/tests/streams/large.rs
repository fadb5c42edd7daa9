//! Large commits in a stream: whole, in their place among others, across flushes and crashes.

use std::sync::Arc;

use base::planted;
use ssd::Memory;
use strandline::{Batch, Db, ErrorKind, Options, Owner, StreamOptions, TransactionOptions};

use crate::common::{Place, assert_nothing_leaked, heap, noise, numbered, small, small_levels};
use crate::replica::Replica;

const MIB: u64 = 1 << 20;

/// More than any zone takes, of all kinds; with a long value.
fn large(db: &Db, round: u64) -> Batch {
    let (space, mut batch) = (db.default_keyspace(), Batch::new());
    batch.delete_range(space, numbered(50), numbered(70));
    for no in 0..300 {
        batch.put(space, numbered(no), noise(no, round));
        if no % 7 == round % 7 {
            batch.delete(space, numbered(no / 2));
        }
    }
    batch.put(space, "long", vec![round as u8; 20_000]);
    batch
}

fn rest(db: &Db) {
    db.flush().expect("flush");
    db.compact().expect("compact");
    while !db.work(1000).expect("work").is_idle() {}
}

fn held(db: &Db) -> usize {
    let report = db.check().expect("check");
    assert!(report.damage.is_empty() && report.space.whole, "{report:?}");
    report.space.owned.iter().filter(|owned| owned.owner == Owner::Streams).count()
}

fn come_whole(options: &Options) {
    let place = Place::new(16 * MIB, Memory::default());
    let mut db = place.open(options.clone());
    drop(db.create_stream("copy", StreamOptions::new().max_bytes(6 * MIB)).expect("create"));
    let mut replica = Replica::new();
    for round in 0..4 {
        db.put("before", [round as u8]).expect("put");
        let before = db.properties().large_commits.committed;
        db.write(&large(&db, round)).expect("write");
        assert_eq!(db.properties().large_commits.committed, before + 1, "it is no large one");
        db.put("after", [round as u8]).expect("put");
        if round % 2 == 1 {
            rest(&db);
            assert!(held(&db) > 3, "round {round}");
        }
        // What was not acknowledged comes again, to another.
        let mut again = replica.clone();
        let mut stream = db.stream("copy").expect("stream");
        assert_eq!(again.follow(&mut stream), 3, "round {round}");
        again.assert_equals(&db);
        assert_nothing_leaked(&db, "with a backlog");
        drop((stream, db));
        db = place.open(options.clone());
        assert_nothing_leaked(&db, "opened with a backlog");
        rest(&db);
        let mut stream = db.stream("copy").expect("stream");
        assert_eq!(replica.follow(&mut stream), 3, "round {round}");
        replica.assert_equals(&db);
        stream.ack(replica.upto).expect("ack");
        rest(&db);
        assert_eq!((held(&db), db.streams()[0].held_bytes), (0, 0));
    }
}

#[test]
fn a_large_commit_comes_whole_among_others() {
    come_whole(&small_levels().pm_size(16 * MIB));
    come_whole(&small(16 << 10));
}

/// It has staged its zones when it loses.
#[test]
fn one_that_never_got_a_number_leaves_nothing() {
    let db = Arc::new(Db::open_region(heap(16 << 20), small(16 << 10)).expect("open"));
    drop(db.create_stream("copy", StreamOptions::new()).expect("create"));
    let space = db.default_keyspace();
    let mut transaction = db.begin(TransactionOptions::new()).expect("begin");
    for no in 0..3000 {
        transaction.put(space, numbered(no), noise(no, 1)).expect("put");
    }
    let other = Arc::clone(&db);
    planted::meanwhile("stage a large commit", move || {
        other.put(numbered(7), "other").expect("put");
    });
    let error = transaction.commit().expect_err("another has written");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let mut stream = db.stream("copy").expect("stream");
    let mut replica = Replica::new();
    assert_eq!(replica.follow(&mut stream), 1);
    replica.assert_equals(&db);
    stream.ack(replica.upto).expect("ack");
    rest(&db);
    assert_eq!(held(&db), 0);
    assert_nothing_leaked(&db, "after a conflict");
}
