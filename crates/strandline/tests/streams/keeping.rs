//! What a stream keeps from being freed, and what becomes free when it is acknowledged.

use std::sync::Arc;

use ssd::Memory;
use strandline::{Batch, Db, Level0Form, Options, Owner, Region, Seq, Site, StreamOptions, steps};

use crate::common::{Place, assert_nothing_leaked, heap, noise, numbered, small, small_levels};
use crate::replica::Replica;

const MIB: u64 = 1 << 20;

/// Pieces of space that only streams have.
fn held(db: &Db) -> usize {
    let report = db.check().expect("check");
    assert!(report.damage.is_empty(), "{:?}", report.damage);
    assert!(report.space.whole, "{:?}", report.space);
    assert!(
        report.space.leaked.is_empty() && report.space.doubled.is_empty(),
        "{:?}",
        report.space
    );
    report.space.owned.iter().filter(|owned| owned.owner == Owner::Streams).count()
}

fn rest(db: &Db) {
    db.flush().expect("flush");
    db.compact().expect("compact");
    while !db.work(1000).expect("work").is_idle() {}
}

/// Writes the same keys again and again, with long values now and then; all but the newest versions go.
fn overwrite(db: &Db, rounds: std::ops::Range<u64>) {
    for round in rounds {
        for no in 0..100 {
            db.put(numbered(no), noise(no, round)).expect("put");
        }
        db.put("long", vec![round as u8; 9000]).expect("put");
        db.delete_range(numbered(90), numbered(95)).expect("delete");
        rest(db);
    }
}

fn keeps_and_lets_go(options: &Options) {
    let place = Place::new(8 * MIB, Memory::default());
    let mut db = place.open(options.clone());
    drop(db.create_stream("copy", StreamOptions::new().max_bytes(3 * MIB)).expect("create"));
    let mut replica = Replica::new();
    for cycle in 0..3 {
        overwrite(&db, cycle * 10..cycle * 10 + 6);
        assert!(held(&db) > 3, "cycle {cycle}");
        let figures = &db.streams()[0];
        assert!(figures.held_bytes > 100_000, "{figures:?}");
        assert!(figures.backlog_bytes >= figures.held_bytes, "{figures:?}");
        assert_eq!(db.properties().pm_held_by_streams, figures.held_bytes);
        assert_nothing_leaked(&db, "with a backlog");
        let held_before = figures.held_bytes;
        if cycle > 0 {
            // What was kept is found again.
            drop(db);
            db = place.open(options.clone());
            let figures = &db.streams()[0];
            assert!(figures.held_bytes >= held_before / 2, "{figures:?}");
            assert_nothing_leaked(&db, "opened with a backlog");
            overwrite(&db, cycle * 10 + 6..cycle * 10 + 9);
        }
        let mut stream = db.stream("copy").expect("stream");
        assert!(replica.follow(&mut stream) > 600);
        replica.assert_equals(&db);
        // Half of it, then all.
        let middle = Seq::new(stream.acked().get().midpoint(replica.upto.get()));
        let before = db.streams()[0].held_bytes;
        stream.ack(middle).expect("ack");
        let half = db.streams()[0].held_bytes;
        assert!(half < before, "{half} of {before}");
        stream.ack(replica.upto).expect("ack");
        rest(&db);
        assert_eq!((held(&db), db.streams()[0].held_bytes), (0, 0));
        assert_eq!(db.streams()[0].backlog_bytes, 0);
        assert_nothing_leaked(&db, "acknowledged");
    }
}

#[test]
fn zones_of_runs() {
    keeps_and_lets_go(&small_levels().pm_size(0));
}

#[test]
fn zones_of_memtables_that_become_tables() {
    keeps_and_lets_go(&small_levels().pm_size(0).level0(Level0Form::Sst));
}

#[test]
fn zones_of_several_subranges() {
    keeps_and_lets_go(&small_levels().pm_size(0).subranges(4));
}

#[test]
fn zones_where_nothing_leaves_persistent_memory() {
    let region = heap(8 * MIB);
    let open = || Db::open_region(region.clone(), small(16 << 10)).expect("open");
    let mut db = open();
    drop(db.create_stream("copy", StreamOptions::new().max_bytes(3 * MIB)).expect("create"));
    let mut replica = Replica::new();
    for cycle in 0..3 {
        overwrite(&db, cycle * 10..cycle * 10 + 8);
        steps::reclaim(db.default_keyspace());
        rest(&db);
        assert!(held(&db) > 3);
        drop(db);
        db = open();
        let mut stream = db.stream("copy").expect("stream");
        assert!(replica.follow(&mut stream) > 600);
        replica.assert_equals(&db);
        stream.ack(replica.upto).expect("ack");
        assert_eq!(held(&db), 0);
        assert_nothing_leaked(&db, "acknowledged");
    }
}

/// The slowest counts.
#[test]
fn what_one_of_several_streams_needs_stays() {
    let place = Place::new(8 * MIB, Memory::default());
    let db = place.open(small_levels().pm_size(0));
    for name in ["fast", "slow"] {
        drop(db.create_stream(name, StreamOptions::new().max_bytes(3 * MIB)).expect("create"));
    }
    overwrite(&db, 0..8);
    let (mut fast, mut slow) = (Replica::new(), Replica::new());
    let mut stream = db.stream("fast").expect("stream");
    fast.follow(&mut stream);
    stream.ack(fast.upto).expect("ack");
    let figures = db.streams();
    assert_eq!((figures[0].held_bytes, figures[0].behind), (0, 0));
    assert!(figures[1].held_bytes > 100_000 && figures[1].behind > 600, "{figures:?}");
    slow.follow(&mut db.stream("slow").expect("stream"));
    assert_eq!(slow, fast);
    db.drop_stream("slow").expect("drop");
    assert_eq!(held(&db), 0);
    overwrite(&db, 8..10);
    fast.follow(&mut stream);
    fast.assert_equals(&db);
    db.drop_stream("fast").expect("drop");
    assert_eq!(held(&db), 0);
    // Without any, nothing is kept.
    overwrite(&db, 10..14);
    assert_eq!(held(&db), 0);
    assert_eq!(db.properties().pm_held_by_streams, 0);
    assert_nothing_leaked(&db, "without streams");
}

/// A number within a batch leaves the batch to be given again: whole, with its long values.
#[test]
fn a_batch_that_is_acknowledged_in_part_comes_again_whole() {
    let place = Place::new(8 * MIB, Memory::default());
    let options = || small_levels().pm_size(0).subranges(4);
    let mut db = place.open(options());
    let mut stream = db.create_stream("copy", StreamOptions::new()).expect("create");
    let mut batch = Batch::new();
    for no in 0..6 {
        batch.put(db.default_keyspace(), numbered(no * 40), vec![no as u8; 5000]);
    }
    db.write(&batch).expect("write");
    drop(batch);
    db.put("behind", "it").expect("put");
    let given = stream.poll().expect("poll").expect("a batch");
    assert_eq!(given.changes.len(), 6);
    stream.ack(given.changes[3].seq).expect("ack");
    drop(stream);
    for opens in 0..3 {
        overwrite(&db, opens..opens + 1);
        let mut stream = db.stream("copy").expect("stream");
        assert_eq!(stream.poll().expect("poll"), Some(given.clone()), "opened {opens} times");
        assert!(db.check().expect("check").damage.is_empty());
        drop(stream);
        drop(db);
        db = place.open(options());
    }
    let mut stream = db.stream("copy").expect("stream");
    stream.ack(given.last).expect("ack");
    assert_eq!(stream.poll().expect("poll").expect("a batch").number, given.last.next());
}

/// However often a store is opened while a stream lags.
#[test]
fn the_manifest_knows_no_more_opens_than_zones() {
    let place = Place::new(8 * MIB, Memory::default());
    let options = || small_levels().pm_size(0);
    let db = place.open(options());
    drop(db.create_stream("copy", StreamOptions::new()).expect("create"));
    overwrite(&db, 0..3);
    drop(db);
    let mut opens = Vec::new();
    for _ in 0..20 {
        let db = place.open(options());
        let text = db.manifest_view();
        opens.push(text.lines().filter(|line| line.ends_with("for streams")).count());
        let mut replica = Replica::new();
        replica.follow(&mut db.stream("copy").expect("stream"));
        replica.assert_equals(&db);
    }
    assert_eq!(opens, [1; 20]);
}

/// A process ends while a commit is on its way and a later one is whole. The open cuts both off, and gives their numbers again;
/// what they wrote stays in a zone that lives on.
#[test]
fn what_an_open_cut_off_is_never_given() {
    let region = heap(8 * MIB);
    let open =
        |region: &Arc<Region>| Db::open_region(Arc::clone(region), small(16 << 10)).expect("open");
    let killed = open(&region);
    drop(killed.create_stream("copy", StreamOptions::new()).expect("create"));
    for no in 0..20 {
        killed.put(numbered(no), "kept").expect("put");
    }
    let space = killed.default_keyspace();
    let admit = |value| {
        steps::Write::admit(&[(space, steps::Change::Put { key: b"cut", value })]).expect("admit")
    };
    let (mut older, mut newer) = (admit(b"older"), admit(b"newer"));
    let _reserved = older.step().expect("reserve");
    for _ in 0..5 {
        let _how_far = newer.step().expect("step");
    }
    let left = copy_of(&region);
    drop((older, newer));

    let db = open(&left);
    // The memtable becomes a run, so that its zones live on, and no seal says any more where they end.
    db.flush().expect("flush");
    let mut replica = Replica::new();
    replica.follow(&mut db.stream("copy").expect("stream"));
    replica.assert_equals(&db);
    for no in 0..200 {
        db.put(numbered(no), "behind").expect("put");
    }
    db.flush().expect("flush");
    db.compact().expect("compact");
    drop(db);
    for _ in 0..2 {
        let db = open(&left);
        let mut again = Replica::new();
        again.follow(&mut db.stream("copy").expect("stream"));
        again.assert_equals(&db);
        assert!(!again.spaces["default"].contains_key(&b"cut"[..]));
        assert_eq!(held(&db), 1);
    }
}

/// What a process that was killed left in memory.
fn copy_of(region: &Region) -> Arc<Region> {
    let bytes = region.bytes(0, region.len() as usize).to_vec();
    let copy = heap(region.len());
    let _durable = copy.fence(copy.flush(copy.copy(Site::Format, 0, &bytes)));
    copy
}
