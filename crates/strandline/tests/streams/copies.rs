//! Streams beside what else is done with a whole store.

use base::planted::{self, Bug};
use pmem::Site;
use ssd::Memory;
use strandline::{
    Batch, Db, ErrorKind, Hooks, Options, Owner, PmSource, StreamOptions, TransactionOptions,
    repair,
};

use crate::common::{
    Place, TempDir, assert_nothing_leaked, kind_of, noise, numbered, small_levels,
};
use crate::replica::Replica;

const MIB: u64 = 1 << 20;

fn write(db: &Db, rounds: std::ops::Range<u64>) {
    for round in rounds {
        for no in 0..100 {
            db.put(numbered(no), noise(no, round)).expect("put");
        }
        db.flush().expect("flush");
        db.compact().expect("compact");
    }
}

/// A slot belongs to the store that it was made in: its consumer follows that.
#[test]
fn copies_of_a_store_have_no_streams() {
    let dir = TempDir::new("streams-copies");
    let options = || small_levels().pm_size(8 * MIB);
    let db = Db::open(dir.join("db"), options()).expect("open");
    drop(db.create_stream("copy", StreamOptions::new()).expect("create"));
    write(&db, 0..5);
    db.put("newest", "1").expect("put");
    let now = Replica::of(&db);
    db.checkpoint(dir.join("copied")).expect("checkpoint");
    drop(db);
    repair(dir.join("db"), dir.join("repaired"), options()).expect("repair");
    for name in ["copied", "repaired"] {
        let db = Db::open(dir.join(name), options()).expect("open");
        assert!(db.streams().is_empty(), "{name}");
        now.assert_equals(&db);
        assert_eq!(kind_of(db.stream("copy")), ErrorKind::NotFound);
        drop(db.create_stream("copy", StreamOptions::new()).expect("create"));
        assert_nothing_leaked(&db, name);
    }
    // The first has what it had.
    let db = Db::open(dir.join("db"), options()).expect("open");
    let mut replica = Replica::new();
    replica.follow(&mut db.stream("copy").expect("stream"));
    replica.assert_equals(&db);
}

#[test]
fn a_store_with_streams_is_not_moved_to_other_memory() {
    let dir = TempDir::new("streams-convert");
    let options = || Options::default().pm_size(16 * MIB).background_threads(0);
    let to = || options().pm(PmSource::Dram);
    let db = Db::open(dir.path(), options().pm(PmSource::Path(dir.join("pool")))).expect("open");
    drop(db.create_stream("copy", StreamOptions::new()).expect("create"));
    db.put("key", "value").expect("put");
    drop(db);
    let refused = Db::convert(dir.path(), &to(), Hooks::default()).expect_err("refused");
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(refused.context().contains("drop them first: copy"), "{refused}");
    let db = Db::open(dir.path(), options()).expect("open");
    assert!(db.stream("copy").expect("stream").poll().expect("poll").is_some());
    db.drop_stream("copy").expect("drop");
    drop(db);
    Db::convert(dir.path(), &to(), Hooks::default()).expect("moved");
    let db = Db::open(dir.path(), options()).expect("open");
    assert_eq!(db.get("key").expect("get").as_deref(), Some(&b"value"[..]));
}

/// What only a stream has is verified, too; and a damaged commit is never passed over.
#[test]
fn damage_of_what_is_kept_is_found() {
    let place = Place::new(8 * MIB, Memory::default());
    let db = place.open(small_levels().pm_size(0));
    drop(db.create_stream("copy", StreamOptions::new().max_bytes(3 * MIB)).expect("create"));
    write(&db, 0..5);
    let report = db.check().expect("check");
    assert!(report.damage.is_empty(), "{:?}", report.damage);
    let is_kept = |owner: &Owner| *owner == Owner::Streams;
    let kept = report.space.owned.iter().find(|owned| is_kept(&owned.owner)).expect("kept");
    let strandline::Place::Pool(extent) = kept.place else { panic!("{kept:?}") };
    // The head of its first record.
    let at = extent.at.get();
    let bytes: Vec<u8> = place.region.bytes(at, 64).iter().map(|byte| !byte).collect();
    let _durable =
        place.region.fence(place.region.flush(place.region.copy(Site::Record, at, &bytes)));
    let damage = db.check().expect("check").damage;
    assert_eq!(damage.len(), 1, "{damage:?}");
    assert!(
        damage[0].what.contains("is not whole in the zones that are held for stream copy"),
        "{damage:?}"
    );
    let mut stream = db.stream("copy").expect("stream");
    let read = |stream: &mut strandline::Stream| loop {
        match stream.poll() {
            Ok(batch) => assert!(batch.is_some(), "passed over"),
            Err(error) => return error,
        }
    };
    let error = read(&mut stream);
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    let given = stream.given();
    assert_eq!(read(&mut stream).kind(), ErrorKind::Corruption);
    assert_eq!(stream.given(), given);
    // The consumer reads the store anew and goes on behind it.
    let mut replica = Replica::of(&db);
    stream.ack(replica.upto).expect("ack");
    assert!(db.check().expect("check").damage.is_empty());
    db.put("behind", "it").expect("put");
    replica.follow(&mut stream);
    replica.assert_equals(&db);
}

/// A commit in two zones, one of them damaged: no part of it is given.
#[test]
fn damage_of_a_part_of_a_commit_is_damage_of_the_commit() {
    let place = Place::new(4 * MIB, Memory::default());
    let db = place.open(small_levels().pm_size(0));
    let other = db.create_keyspace("other").expect("create");
    let mut stream = db.create_stream("copy", StreamOptions::new()).expect("create");
    let mut batch = Batch::new();
    batch.put(db.default_keyspace(), "key", "first half");
    batch.put(&other, "key", "second half");
    db.write(&batch).expect("write");
    let half = b"second half";
    let memory = place.region.bytes(0, place.region.len() as usize);
    let at = memory.windows(half.len()).position(|bytes| bytes == half).expect("there") as u64;
    let inverted: Vec<u8> = half.iter().map(|byte| !byte).collect();
    let _durable =
        place.region.fence(place.region.flush(place.region.copy(Site::Record, at, &inverted)));
    assert_eq!(stream.poll().expect_err("damaged").kind(), ErrorKind::Corruption);
    planted::plant(Some(Bug::StreamGivesPartial));
    let part = stream.poll();
    planted::plant(None);
    assert_eq!(part.expect("poll").expect("a part").changes.len(), 1, "what the rule is for");
}

/// Locks and streams: a commit of a transaction is one batch, and a keyspace can be made and dropped while keys are locked.
#[test]
fn transactions_that_lock_are_given_whole() {
    let place = Place::new(4 * MIB, Memory::default());
    let db = place.open(small_levels().pm_size(0));
    let mut stream = db.create_stream("copy", StreamOptions::new()).expect("create");
    let mut replica = Replica::new();
    let mut locking = db.begin(TransactionOptions::pessimistic()).expect("begin");
    locking.put(db.default_keyspace(), "a", "1").expect("put");
    locking.put(db.default_keyspace(), "", "first key").expect("put");
    db.create_keyspace("other").expect("create");
    db.put("b", "2").expect("put");
    db.drop_keyspace("other").expect("drop");
    assert_eq!(replica.follow(&mut stream), 3);
    locking.commit().expect("commit");
    let batch = stream.poll().expect("poll").expect("a batch");
    assert_eq!(batch.changes.len(), 2);
    replica.apply(&batch);
    replica.assert_equals(&db);
}

/// What a store writes for itself is not told of; what was prepared is, once it is committed.
#[test]
fn prepared_transactions_are_given_when_they_are_committed() {
    let place = Place::new(4 * MIB, Memory::default());
    let db = place.open(small_levels().pm_size(0));
    let mut stream = db.create_stream("copy", StreamOptions::new()).expect("create");
    let mut locking = db.begin(TransactionOptions::pessimistic()).expect("begin");
    locking.put(db.default_keyspace(), "a", "1").expect("put");
    let prepared = locking.prepare("transfer").expect("prepare");
    assert_eq!(stream.poll().expect("poll"), None);
    prepared.commit().expect("commit");
    let batch = stream.poll().expect("poll").expect("a batch");
    assert_eq!(batch.changes.len(), 1, "{batch:?}");
    assert_eq!(&*batch.changes[0].keyspace, "default");
    stream.ack(batch.last).expect("ack");
    assert_eq!(stream.poll().expect("poll"), None);
}
