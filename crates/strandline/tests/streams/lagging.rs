//! A stream that lags: what it may not keep, or keeps from writers, is lost to it, and it says so.

use std::time::Duration;

use ssd::Memory;
use strandline::{Db, ErrorKind, Seq, StreamOptions};

use crate::common::{Place, assert_nothing_leaked, heap, noise, numbered, small, small_levels};
use crate::replica::Replica;

const MIB: u64 = 1 << 20;

/// Reads what is left, and begins anew where something is lost.
fn catch_up(db: &Db, replica: &mut Replica) -> u32 {
    let mut stream = db.stream("copy").expect("stream");
    let mut losses = 0;
    loop {
        match stream.wait(Duration::ZERO) {
            Ok(Some(batch)) => replica.apply(&batch),
            Ok(None) => return losses,
            Err(error) if error.kind() == ErrorKind::ChangesLost => {
                let oldest = error.oldest().expect("a number");
                assert!(oldest > stream.given(), "{error}");
                assert!(error.context().contains("max_bytes"), "{error}");
                *replica = Replica::of(db);
                assert!(replica.upto >= oldest.previous());
                stream.ack(replica.upto).expect("ack");
                losses += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn write(db: &Db, rounds: std::ops::Range<u64>) {
    for round in rounds {
        for no in 0..200 {
            db.put(numbered(no), noise(no, round)).expect("writers are never held up");
        }
        db.put("long", vec![round as u8; 9000]).expect("put");
        while !db.work(1000).expect("work").is_idle() {}
    }
}

#[test]
fn beyond_its_bytes_the_oldest_changes_are_lost() {
    let place = Place::new(8 * MIB, Memory::default());
    let options = || small_levels().pm_size(0);
    let mut db = place.open(options());
    let max_bytes = 20 * (16 << 10);
    drop(db.create_stream("copy", StreamOptions::new().max_bytes(max_bytes)).expect("create"));
    let mut replica = Replica::new();
    write(&db, 0..4);
    assert_eq!(catch_up(&db, &mut replica), 0, "so much it may keep");
    replica.assert_equals(&db);
    for round in 1..4 {
        write(&db, round * 10..round * 10 + 30);
        let figures = &db.streams()[0];
        assert!(figures.lost > figures.acked, "{figures:?}");
        assert!(figures.backlog_bytes <= max_bytes, "{figures:?}");
        if round == 2 {
            // It is still known after a restart.
            let lost = figures.lost;
            drop(db);
            db = place.open(options());
            assert_eq!(db.streams()[0].lost, lost);
        }
        assert_nothing_leaked(&db, "behind a loss");
        assert_eq!(catch_up(&db, &mut replica), 1);
        replica.assert_equals(&db);
    }
}

/// What is behind the loss is whole: who needs no more than that may go on there.
#[test]
fn a_stream_goes_on_behind_what_it_lost() {
    let place = Place::new(8 * MIB, Memory::default());
    let db = place.open(small_levels().pm_size(0));
    let options = StreamOptions::new().max_bytes(20 * (16 << 10));
    let mut stream = db.create_stream("copy", options).expect("create");
    write(&db, 0..30);
    let error = stream.poll().expect_err("lost");
    let oldest = error.oldest().expect("a number");
    assert_eq!(stream.poll().expect_err("still").oldest(), Some(oldest));
    stream.ack(Seq::new(oldest.get() - 2)).expect("ack");
    assert_eq!(stream.poll().expect_err("one less").oldest(), Some(oldest));
    stream.ack(oldest.previous()).expect("ack");
    let mut given = oldest.previous();
    while let Some(batch) = stream.poll().expect("reads") {
        assert!(batch.number > given, "{batch:?}");
        given = batch.last;
    }
    assert_eq!(given, db.properties().visible_seq);
}

/// A store that is full takes from streams before it refuses a write.
fn a_full_store_takes_from_a_stream(value_len: usize, follows_at_first: bool) {
    // Nothing leaves this memory, and live data take most of it.
    let db = Db::open_region(heap(4 * MIB), small(16 << 10)).expect("open");
    // Most that it may be: space is short before the stream has too much.
    drop(db.create_stream("copy", StreamOptions::new().max_bytes(2_000_000)).expect("create"));
    let value = |round: u64| vec![round as u8; value_len];
    let mut live = 0;
    // As much as there is room for with room to work in.
    while db.properties().pm_headroom > MIB {
        db.put(numbered(live), value(0)).expect("put");
        live += 1;
    }
    if follows_at_first {
        let mut stream = db.stream("copy").expect("stream");
        let mut replica = Replica::new();
        let _losses = catch_up(&db, &mut replica);
        stream.ack(replica.upto).expect("ack");
        assert_eq!(stream.poll().expect("poll"), None);
        // What was being filled is full only now, and all of it is passed.
        db.flush().expect("flush");
    }
    for round in 1..6 {
        for no in 0..live {
            db.put(numbered(no), value(round)).expect("a stream keeps no writer waiting");
        }
        assert_nothing_leaked(&db, "full");
    }
    assert!(db.streams()[0].lost > Seq::ZERO);
    let mut replica = Replica::new();
    assert!(catch_up(&db, &mut replica) > 0);
    replica.assert_equals(&db);
    assert!(db.check().expect("check").damage.is_empty());
}

#[test]
fn writers_get_what_streams_hold() {
    a_full_store_takes_from_a_stream(1000, false);
}

#[test]
fn writers_get_zones_that_are_passed_first() {
    a_full_store_takes_from_a_stream(1000, true);
}

#[test]
fn writers_get_long_values_that_streams_hold() {
    a_full_store_takes_from_a_stream(5000, false);
}

/// Long values count, and go.
#[test]
fn long_values_are_given_up_too() {
    let place = Place::new(8 * MIB, Memory::default());
    let db = place.open(small_levels().pm_size(0));
    let options = StreamOptions::new().max_bytes(512 << 10);
    drop(db.create_stream("copy", options).expect("create"));
    for no in 0..400_u64 {
        db.put(numbered(no % 3), vec![no as u8; 10_000]).expect("put");
        while !db.work(1000).expect("work").is_idle() {}
    }
    let figures = &db.streams()[0];
    assert!(figures.lost > Seq::ZERO && figures.backlog_bytes <= 600 << 10, "{figures:?}");
    // A quarter at a time, though hardly any zone is full.
    assert!(figures.backlog_bytes >= 300 << 10, "{figures:?}");
    let mut replica = Replica::new();
    assert_eq!(catch_up(&db, &mut replica), 1);
    replica.assert_equals(&db);
    assert_nothing_leaked(&db, "at the end");
}
