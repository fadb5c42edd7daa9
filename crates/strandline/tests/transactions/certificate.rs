//! The rules of the certificate, each by a schedule that fails without it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::time::Duration;

use base::planted::{self, Bug};
use strandline::{Db, IngestOptions, Isolation, steps};

use crate::common::{TempDir, external, wait_until};
use crate::conflicts::{begin, open};

/// The schedule loses no update, and would without the rule that `bug` breaks.
#[track_caller]
fn needs(bug: Bug, loses: fn() -> bool) {
    assert!(!loses(), "an update is lost");
    planted::plant(Some(bug));
    let without = loses();
    planted::plant(None);
    assert!(without, "the rule that {bug:?} breaks is idle");
}

/// The transaction reads and writes `key`; whether it commits although others wrote that.
fn commits_beside(db: &Db, others: impl FnOnce(&Db)) -> bool {
    let space = db.default_keyspace();
    let mut transaction = begin(db, Isolation::Snapshot);
    transaction.get(space, "key").expect("get");
    transaction.put(space, "key", "mine").expect("put");
    others(db);
    transaction.commit().is_ok()
}

#[test]
fn a_number_is_taken_only_behind_a_look() {
    needs(Bug::CertificateSkipped, || {
        let (_dir, db) = open("skipped");
        commits_beside(&db, |db| db.put("key", "other").expect("put"))
    });
}

/// A commit has its number, and is not visible.
#[test]
fn a_look_waits_for_those_in_flight() {
    needs(Bug::CertificateLooksEarly, || {
        let (_dir, db) = open("in-flight");
        let db = Arc::new(db);
        let space = db.default_keyspace();
        let mut transaction = begin(&db, Isolation::Snapshot);
        transaction.put(space, "key", "mine").expect("put");
        let change = steps::Change::Put { key: b"key", value: b"other" };
        let mut other = steps::Write::admit(&[(space, change)]).expect("admit");
        other.step().expect("reserve");
        let (done, committed) = channel();
        let heritage = planted::heritage();
        let thread = std::thread::spawn(move || {
            heritage.accept();
            done.send(transaction.commit().is_ok()).expect("heard");
        });
        // Either way it waits for the other one to become visible: to look, or to be visible itself.
        assert!(committed.recv_timeout(Duration::from_millis(50)).is_err(), "it does not wait");
        while other.step().expect("step") != steps::Stepped::Acknowledged {}
        thread.join().expect("no panic");
        committed.recv().expect("it ended")
    });
}

/// Others write each time after the transaction has looked.
fn beside_a_look(name: &'static str, others: impl FnOnce(&Db) + 'static) -> bool {
    let (_dir, db) = open(name);
    let db = Arc::new(db);
    let writer = Arc::clone(&db);
    planted::meanwhile("keys of a transaction were looked up", move || others(&writer));
    commits_beside(&db, |db| db.put("beside", "other").expect("put"))
}

#[test]
fn a_number_is_taken_only_where_nothing_came_since_the_look() {
    needs(Bug::CertificateNotAskedAgain, || {
        beside_a_look("not-asked-again", |db| db.put("key", "other").expect("put"))
    });
}

#[test]
fn a_new_memtable_keeps_the_newest_number() {
    needs(Bug::WriteHeadForgets, || {
        let (_dir, db) = open("forgets");
        commits_beside(&db, |db| {
            db.put("key", "other").expect("put");
            db.flush().expect("flush");
        })
    });
}

/// The subrange of a key that others wrote is cut, and nothing is written there since.
#[test]
fn subranges_that_replace_others_keep_the_newest_number() {
    needs(Bug::CutForgetsNewest, || {
        let (_dir, db) = open("cut-forgets");
        let is_cut = |db: &Db| db.properties().keyspaces[0].subranges.len() > 1;
        commits_beside(&db, |db| {
            db.put("key", "other").expect("put");
            for round in 0..20 {
                for i in 0..2000 {
                    db.put(format!("zzz{i:06}"), vec![round; 100]).expect("put");
                    // Others are not to be written in what replaces it.
                    if i % 50 == 0 && is_cut(db) {
                        return;
                    }
                }
                while !db.work(1000).expect("work").is_idle() {}
                if is_cut(db) {
                    return;
                }
            }
            panic!("not cut");
        })
    });
}

/// Keys at both ends of a keyspace of several subranges.
fn cut(name: &str) -> (TempDir, Db) {
    let (dir, db) = open(name);
    for round in 0..4 {
        for i in 0..2000 {
            db.put(format!("key{i:06}"), vec![round; 100]).expect("put");
        }
        while !db.work(1000).expect("work").is_idle() {}
    }
    assert!(db.properties().keyspaces[0].subranges.len() > 1, "not cut");
    (dir, db)
}

#[test]
fn an_ingest_is_noted_wherever_its_keys_are() {
    needs(Bug::IngestNotedOnce, || {
        let (dir, db) = cut("ingest");
        let space = db.default_keyspace();
        let keys = [b"key000000", b"key001999"];
        let path = dir.join("ingested.sst");
        let changes = keys.map(|key| (key.to_vec(), Some(b"other".to_vec())));
        std::fs::write(&path, external(&changes, &[])).expect("write");
        let commits = |key: &&[u8; 9]| {
            let mut transaction = begin(&db, Isolation::Snapshot);
            transaction.put(space, key, "mine").expect("put");
            db.ingest(space, std::slice::from_ref(&path), IngestOptions::default())
                .expect("ingest");
            transaction.commit().is_ok()
        };
        keys.iter().any(commits)
    });
}

/// A subrange is cut while a transaction looks.
#[test]
fn subranges_that_replace_others_know_what_was_given() {
    let (_dir, db) = open("split");
    let db = Arc::new(db);
    let writer = Arc::clone(&db);
    let space = db.default_keyspace();
    let mut transaction = begin(&db, Isolation::Snapshot);
    transaction.put(space, "key000000", "mine").expect("put");
    transaction.put(space, "key001999", "mine").expect("put");
    db.put("key000001", "other").expect("put");
    planted::meanwhile("look keys of a transaction up", move || {
        for round in 0..4 {
            for i in 1..1999 {
                writer.put(format!("key{i:06}"), vec![round; 100]).expect("put");
            }
            while !writer.work(1000).expect("work").is_idle() {}
        }
        assert!(writer.properties().keyspaces[0].subranges.len() > 1, "not cut");
    });
    transaction.commit().expect("no other wrote these keys");
    assert_eq!(db.get("key001999").expect("get").as_deref(), Some(&b"mine"[..]));
}

/// However often others write beside it, it gets through at last: it keeps them out.
#[test]
fn a_transaction_that_always_finds_others_holds_them_off() {
    let (_dir, db) = open("holds");
    let space = db.default_keyspace();
    let (stop, written) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; 3]);
    std::thread::scope(|scope| {
        for (no, written) in written.iter().enumerate() {
            let (db, stop) = (&db, &stop);
            scope.spawn(move || {
                while !stop.load(Relaxed) {
                    db.put(format!("beside{no}"), "other").expect("put");
                    written.fetch_add(1, Relaxed);
                }
            });
        }
        wait_until("others write", || written.iter().all(|written| written.load(Relaxed) > 0));
        for round in 0_u64.. {
            assert!(round < 1_000_000, "it never came to that");
            let mut transaction = begin(&db, Isolation::Serializable);
            transaction.get(space, "key").expect("get");
            transaction.put(space, "key", round.to_be_bytes()).expect("put");
            transaction.commit().expect("no other writes the key");
            if db.properties().transactions.holds > 0 {
                break;
            }
        }
        let before = written.each_ref().map(|written| written.load(Relaxed));
        wait_until("others go on", || {
            written.iter().zip(before).all(|(written, before)| written.load(Relaxed) > before)
        });
        stop.store(true, Relaxed);
    });
    let transactions = db.properties().transactions;
    assert!(transactions.looks >= transactions.holds && transactions.conflicts == 0);
}
