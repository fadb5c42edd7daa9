//! What a stream gives: whole commits, in order, each at least once.

use std::time::Duration;

use ssd::Memory;
use strandline::{
    Batch, Changed, Db, ErrorKind, KeyspaceOptions, Options, Seq, Stream, StreamBatch,
    StreamOptions, steps,
};

use crate::common::{Place, heap, kind_of, numbered, small};
use crate::replica::Replica;

const MIB: u64 = 1 << 20;

fn next(stream: &mut Stream) -> StreamBatch {
    stream.wait(Duration::ZERO).expect("reads").expect("there is one")
}

fn step(write: &mut steps::Write<'_>) {
    let _how_far = write.step().expect("step");
}

fn put(key: &str, value: &str) -> Changed {
    Changed::Put { key: key.into(), value: value.into(), expires: None }
}

fn changes(batch: &StreamBatch) -> Vec<(&str, Changed)> {
    batch.changes.iter().map(|change| (&*change.keyspace, change.what.clone())).collect()
}

#[test]
fn commits_come_whole_and_in_order() {
    let db = Db::open_region(heap(4 * MIB), small(16 << 10)).expect("open");
    db.put("before", "the stream").expect("put");
    let stock = db.create_keyspace_with("stock", KeyspaceOptions::new().merge_operator("append"));
    let stock = stock.expect("keyspace");
    let mut stream = db.create_stream("index", StreamOptions::new()).expect("create");
    assert_eq!((stream.name(), stream.acked()), ("index", Seq::new(1)));
    assert_eq!(stream.poll().expect("reads"), None, "nothing came behind it");

    db.put("apple", "red").expect("put");
    let mut batch = Batch::new();
    batch.put(&stock, "apple", "12");
    batch.put(db.default_keyspace(), "pear", "green");
    batch.merge(&stock, "apple", "!");
    batch.delete_range(&stock, "a", "b");
    batch.delete(db.default_keyspace(), "apple");
    db.write(&batch).expect("write");
    let long = "x".repeat(70_000);
    stock.put("long", &long).expect("put");

    let first = next(&mut stream);
    assert_eq!((first.number, first.last), (Seq::new(2), Seq::new(2)));
    assert_eq!(changes(&first), [("default", put("apple", "red"))]);
    let second = next(&mut stream);
    assert_eq!((second.number, second.last), (Seq::new(3), Seq::new(7)));
    let expected = [
        ("stock", put("apple", "12")),
        ("default", put("pear", "green")),
        ("stock", Changed::Merge { key: "apple".into(), operand: "!".into() }),
        ("stock", Changed::DeleteRange { begin: "a".into(), end: "b".into() }),
        ("default", Changed::Delete { key: "apple".into() }),
    ];
    assert_eq!(changes(&second), expected);
    let numbers: Vec<u64> = second.changes.iter().map(|change| change.seq.get()).collect();
    assert_eq!(numbers, [3, 4, 5, 6, 7]);
    assert_eq!(changes(&next(&mut stream)), [("stock", put("long", &long))]);
    assert_eq!(stream.poll().expect("reads"), None);
    assert_eq!((stream.given(), stream.acked()), (Seq::new(8), Seq::new(1)));

    // Another reader begins behind what was acknowledged, and one that lags goes on there.
    let mut slow = db.stream("index").expect("stream");
    assert_eq!(next(&mut slow), first);
    stream.ack(second.last).expect("ack");
    assert_eq!(next(&mut slow).number, Seq::new(8));
    assert_eq!(next(&mut db.stream("index").expect("stream")).number, Seq::new(8));
    // Back again is nothing, and ahead is refused.
    stream.ack(Seq::new(3)).expect("nothing");
    assert_eq!(stream.acked(), second.last);
    assert_eq!(kind_of(stream.ack(Seq::new(9))), ErrorKind::InvalidArgument);
}

#[test]
fn what_was_not_acknowledged_comes_again_after_a_reopen() {
    let place = Place::new(8 * MIB, Memory::default());
    let options = || small(16 << 10);
    let db = place.open(options());
    drop(db.create_stream("copy", StreamOptions::new()).expect("create"));
    let mut replica = Replica::new();
    drop(db);
    for round in 0..6_u64 {
        let db = place.open(options());
        for no in 0..300 {
            db.put(numbered(no % 40), format!("{no} of {round}")).expect("put");
        }
        let mut stream = db.stream("copy").expect("stream");
        let (acked, kept) = (stream.acked(), replica.clone());
        assert!(replica.follow(&mut stream) >= 300);
        replica.assert_equals(&db);
        match round % 3 {
            // Nothing is acknowledged, and the consumer forgets: the next reader gives it again.
            0 => replica = kept,
            1 => stream.ack(Seq::new(acked.get() + 100)).expect("ack"),
            _ => stream.ack(replica.upto).expect("ack"),
        }
        assert!(db.check().expect("check").damage.is_empty());
    }
}

#[test]
fn commits_that_are_given_up_are_passed_over() {
    let db = Db::open_region(heap(4 * MIB), small(16 << 10)).expect("open");
    let mut stream = db.create_stream("index", StreamOptions::new()).expect("create");
    db.put("a", "1").expect("put");
    for steps in 1..5 {
        let changes = [
            (db.default_keyspace(), steps::Change::Put { key: b"given", value: b"up" }),
            (db.default_keyspace(), steps::Change::Delete { key: b"a" }),
        ];
        let mut write = steps::Write::admit(&changes).expect("admit");
        (0..steps).for_each(|_| step(&mut write));
        write.abandon();
    }
    db.put("b", "2").expect("put");
    assert_eq!(changes(&next(&mut stream)), [("default", put("a", "1"))]);
    let last = next(&mut stream);
    assert_eq!(changes(&last), [("default", put("b", "2"))]);
    assert!(last.number > Seq::new(9), "numbers of those that were given up are not given again");
    assert_eq!(stream.poll().expect("reads"), None);
}

/// What is on its way is not given, and what is behind it waits.
#[test]
fn nothing_is_given_before_it_is_visible() {
    let db = Db::open_region(heap(4 * MIB), small(16 << 10)).expect("open");
    let mut stream = db.create_stream("index", StreamOptions::new()).expect("create");
    let space = db.default_keyspace();
    let write = |value| {
        steps::Write::admit(&[(space, steps::Change::Put { key: b"k", value })]).expect("admit")
    };
    let (mut first, mut second) = (write(b"first"), write(b"second"));
    let step = |write: &mut steps::Write<'_>, count| (0..count).for_each(|_| step(write));
    step(&mut first, 1);
    step(&mut second, 6);
    assert_eq!(stream.poll().expect("reads"), None, "an older one is open");
    step(&mut first, 4);
    assert_eq!(next(&mut stream).changes[0].what, put("k", "first"));
    assert_eq!(next(&mut stream).changes[0].what, put("k", "second"));
}

#[test]
fn values_that_expire_come_with_their_time() {
    let db = Db::open_region(heap(4 * MIB), small(16 << 10)).expect("open");
    let ttl = KeyspaceOptions::new().ttl(Duration::from_secs(3600));
    let space = db.create_keyspace_with("sessions", ttl).expect("keyspace");
    let mut stream = db.create_stream("index", StreamOptions::new()).expect("create");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("time");
    space.put("k", "v").expect("put");
    space.put("long", "v".repeat(5000)).expect("put");
    let batch = next(&mut stream);
    let Changed::Put { value, expires: Some(expires), .. } = &batch.changes[0].what else {
        panic!("{batch:?}");
    };
    assert_eq!(value, b"v");
    let in_secs = expires.as_secs() - now.as_secs();
    assert!((3599..3700).contains(&in_secs), "{in_secs}");
    match &next(&mut stream).changes[0].what {
        Changed::Put { value, expires: Some(_), .. } => assert_eq!(value.len(), 5000),
        other => panic!("{other:?}"),
    }
}

#[test]
fn refusals() {
    let region = heap(4 * MIB);
    let db = Db::open_region(region.clone(), small(16 << 10)).expect("open");
    let create = |name: &str, max_bytes| {
        db.create_stream(name, StreamOptions::new().max_bytes(max_bytes)).map(drop)
    };
    create("index", 0).expect("create");
    assert_eq!(kind_of(create("index", 0)), ErrorKind::Exists);
    assert_eq!(kind_of(create("", 0)), ErrorKind::InvalidArgument);
    assert_eq!(kind_of(create(&"n".repeat(256), 0)), ErrorKind::LimitExceeded);
    for max_bytes in [1, (64 << 10) - 1, 3 * MIB, u64::MAX] {
        assert_eq!(kind_of(create("other", max_bytes)), ErrorKind::InvalidArgument);
    }
    create("other", 64 << 10).expect("four zones");
    assert_eq!(kind_of(db.stream("none")), ErrorKind::NotFound);
    assert_eq!(kind_of(db.drop_stream("none")), ErrorKind::NotFound);

    let mut stream = db.stream("other").expect("stream");
    db.put("k", "v").expect("put");
    db.drop_stream("other").expect("drop");
    assert_eq!(kind_of(stream.poll()), ErrorKind::NotFound);
    assert_eq!(kind_of(stream.ack(Seq::new(1))), ErrorKind::NotFound);
    create("other", 0).expect("again");
    assert_eq!(kind_of(stream.poll()), ErrorKind::NotFound, "another one of that name");
    let names: Vec<String> = db.streams().into_iter().map(|stream| stream.name).collect();
    assert_eq!(names, ["index", "other"]);

    for no in 2..64 {
        create(&format!("stream {no}"), 0).expect("create");
    }
    assert_eq!(kind_of(create("one more", 0)), ErrorKind::LimitExceeded);
    let mut stream = db.stream("index").expect("stream");
    db.close().expect("streams do not keep a store open");
    assert_eq!(kind_of(stream.poll()), ErrorKind::Closed);
    assert_eq!(kind_of(stream.ack(Seq::new(1))), ErrorKind::Closed);
    drop((stream, db));
    let db = Db::open_region(region, small(16 << 10)).expect("open");
    assert_eq!(db.streams().len(), 64);
}

/// The store that only reads gives what there is, and acknowledges nothing.
#[test]
fn a_store_that_is_open_for_reading_gives_what_there_is() {
    let dir = crate::common::TempDir::new("streams-read-only");
    let options = || Options::default().pm_size(16 * MIB).background_threads(0);
    let db = Db::open(dir.path(), options()).expect("open");
    drop(db.create_stream("index", StreamOptions::new()).expect("create"));
    let long = "long".repeat(100_000);
    db.put("long", &long).expect("put");
    for no in 0..2000_u64 {
        db.put(numbered(no % 7), noise(no)).expect("put");
    }
    db.flush().expect("flush");
    db.compact().expect("compact");
    db.delete("long").expect("delete");
    db.compact().expect("compact");
    db.close().expect("close");
    drop(db);

    let db = Db::open_read_only(dir.path(), options()).expect("open");
    let mut stream = db.stream("index").expect("stream");
    let mut replica = Replica::new();
    assert_eq!(replica.follow(&mut stream), 2002);
    replica.assert_equals(&db);
    assert_eq!(kind_of(stream.ack(replica.upto)), ErrorKind::ReadOnly);
    assert_eq!(kind_of(db.create_stream("other", StreamOptions::new())), ErrorKind::ReadOnly);
    assert_eq!(kind_of(db.drop_stream("index")), ErrorKind::ReadOnly);
}

fn noise(no: u64) -> Vec<u8> {
    crate::common::noise(no, 0)
}
