//! Many range deletions: what they cost, and what is left of what they cover.

use std::sync::mpsc;
use std::time::Duration;

use crate::common::*;
use ssd::Memory;
use strandline::{Db, Options, ReadOptions, Snapshot};

/// Runs `work`, which takes a moment, and fails if it does not end.
fn ends(work: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel();
    let worker = std::thread::spawn(move || {
        work();
        done.send(()).expect("the test waits");
    });
    let waited = ended.recv_timeout(Duration::from_secs(100));
    assert_ne!(waited, Err(mpsc::RecvTimeoutError::Timeout), "it takes for ever");
    worker.join().expect("it fails");
}

fn options() -> Options {
    Options::default().background_threads(0).recovery_threads(2)
}

/// The numbers of the keys that are there.
fn there(db: &Db, snapshot: Option<&Snapshot>, keys: u64) -> Vec<u64> {
    let at = ReadOptions::at(snapshot);
    let is = |no: &u64| db.default_keyspace().get_with(numbered(*no), &at).expect("get").is_some();
    (0..keys).step_by(7).filter(is).collect()
}

/// Each range deletion cut all that a memtable had anew, into pieces that named all deletions that cover them: 22 ms each
/// for 2,048 nested ones, and ever more. So 10,000 did not come to an end.
#[test]
fn nested_range_deletions_end_and_old_snapshots_see_through_them() {
    const KEYS: u64 = 40_000;
    const NESTED: u64 = 10_000;
    ends(|| {
        let place = Place::new(64 << 20, Memory::default());
        let db = place.open(options());
        (0..KEYS).for_each(|no| db.put(numbered(no), b"1").expect("put"));
        let all = (0..KEYS).step_by(7);
        // From the middle outwards: each covers all that came before it, and a key more on either side.
        let covered = |deletes: u64| KEYS / 2 - deletes..KEYS / 2 + deletes;
        let mut snapshots = Vec::new();
        for no in 1..=NESTED {
            let range = covered(no);
            db.delete_range(numbered(range.start), numbered(range.end)).expect("delete range");
            if no % 2500 == 0 {
                snapshots.push((no, db.snapshot()));
            }
        }
        assert_eq!(db.properties().keyspaces[0].memtable_range_deletes as u64, NESTED);
        let left = |deletes: u64| all.clone().filter(move |no| !covered(deletes).contains(no));
        let check = |db: &Db, snapshots: &[(u64, Snapshot)]| {
            for (no, snapshot) in snapshots {
                assert!(there(db, Some(snapshot), KEYS).into_iter().eq(left(*no)), "{no}");
            }
            assert!(there(db, None, KEYS).into_iter().eq(left(NESTED)));
        };
        check(&db, &snapshots);
        db.flush().expect("flush");
        check(&db, &snapshots);
        db.compact().expect("compact");
        check(&db, &snapshots);
        let tables = db.properties().keyspaces[0]
            .levels
            .iter()
            .flat_map(|l| l.tables.clone())
            .collect::<Vec<_>>();
        // Four snapshots tell the deletions apart: so many pieces, cut where tables end.
        let pieces: u64 = tables.iter().map(|table| table.range_deletes).sum();
        assert!(pieces <= 16 + 8 * tables.len() as u64, "{pieces} in {} tables", tables.len());
    });
}

/// The same by far for retention, where each deletion covers what the ones before it in its series did: 9,000 of them in 200
/// series took 90 s. They come back from memory at an open, from several zones at once.
#[test]
fn retention_in_many_series_ends_and_comes_back() {
    const SERIES: u64 = 200;
    const ROUNDS: u64 = 100;
    let key = |series: u64, time: u64| format!("{series:03}/{time:06}").into_bytes();
    ends(move || {
        let place = Place::new(64 << 20, Memory::default());
        let db = place.open(options());
        for round in 1..=ROUNDS {
            for series in 0..SERIES {
                db.put(key(series, round), b"value").expect("put");
                let (from, to) = (key(series, 0), key(series, round - round % 10));
                db.delete_range(&from, &to).expect("delete range");
            }
        }
        let deletes = db.properties().keyspaces[0].memtable_range_deletes as u64;
        // The first nine of each series cover nothing at all.
        assert_eq!(deletes, SERIES * (ROUNDS - 9));
        let check = |db: &Db| {
            for (series, time) in
                (0..SERIES).step_by(13).flat_map(|s| (1..=ROUNDS).map(move |t| (s, t)))
            {
                let there = db.get(key(series, time)).expect("get").is_some();
                assert_eq!(there, time == ROUNDS, "series {series}, time {time}");
            }
        };
        check(&db);
        db.close().expect("close");
        let db = place.open(options());
        assert_eq!(db.properties().keyspaces[0].memtable_range_deletes as u64, deletes);
        check(&db);
        db.flush().expect("flush");
        check(&db);
    });
}
