//! What is a conflict, and what is none.

use std::sync::Arc;

use strandline::{
    Batch, Db, Error, ErrorKind, Hooks, IngestOptions, Isolation, Keyspace, Result, Seq,
    Transaction, TransactionOptions, steps,
};

use crate::common::{Combines, Joined, TempDir, external, kind_of, small_levels};

const SERIALIZABLE: Isolation = Isolation::Serializable;
const SNAPSHOT: Isolation = Isolation::Snapshot;

pub fn open(name: &str) -> (TempDir, Db) {
    let dir = TempDir::new(name);
    let options = small_levels().background_threads(0);
    let hooks = Hooks::default().merge_operator(Arc::new(Joined(Combines::Operands)));
    let db = Db::open_with(dir.join("store"), options, hooks).expect("open");
    (dir, db)
}

pub fn begin(db: &Db, isolation: Isolation) -> Transaction {
    db.begin(TransactionOptions::new().isolation(isolation)).expect("begin")
}

/// What a commit lost against.
#[track_caller]
pub fn lost(commit: Result<Seq>) -> (Vec<u8>, Seq) {
    let error: Error = commit.expect_err("a conflict");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let conflict = error.conflict().expect("it is told");
    assert_eq!(conflict.keyspace, "default");
    (conflict.key.clone(), conflict.seq)
}

/// Others write `key` in some way; a table may stand at `dir`.
type Other = fn(&Db, &TempDir);

const OTHERS: [(&str, Other); 7] = [
    ("put", |db, _| db.put("key", "other").expect("put")),
    ("delete", |db, _| db.delete("key").expect("delete")),
    ("merge", |db, _| db.merge("key", "other").expect("merge")),
    ("delete range", |db, _| db.delete_range("key", "l").expect("delete range")),
    ("batch", |db, _| {
        let mut batch = Batch::new();
        batch.put(db.default_keyspace(), "zz", "other");
        batch.put(db.default_keyspace(), "key", "other");
        db.write(&batch).expect("write");
    }),
    ("ingest", |db, dir| {
        let path = dir.join("ingested.sst");
        let changes = [(b"key".to_vec(), Some(b"other".to_vec()))];
        std::fs::write(&path, external(&changes, &[])).expect("write");
        db.ingest(db.default_keyspace(), &[path], IngestOptions::default()).expect("ingest");
    }),
    ("transaction", |db, _| {
        let mut other = begin(db, SNAPSHOT);
        other.put(db.default_keyspace(), "key", "other").expect("put");
        other.commit().expect("commit");
    }),
];

type Move = fn(&Db);

/// What moves versions about, after others have written.
const MOVES: [(&str, Move); 3] = [
    ("nothing", |_| {}),
    ("flush", |db| db.flush().expect("flush")),
    ("compact", |db| db.compact().expect("compact")),
];

fn each(mut check: impl FnMut(&str, &Db, &dyn Fn())) {
    for (how, other) in OTHERS {
        for (moved, then) in MOVES {
            let (dir, db) = open("conflicts");
            db.put("key", "old").expect("put");
            check(&format!("{how}, {moved}"), &db, &|| {
                other(&db, &dir);
                then(&db);
            });
        }
    }
}

#[test]
fn every_kind_of_writer_counts() {
    each(|how, db, others_write| {
        let space = db.default_keyspace();
        let mut transaction = begin(db, SNAPSHOT);
        let read = transaction.get(space, "key").expect("get");
        assert_eq!(read.as_deref(), Some(&b"old"[..]), "{how}");
        others_write();
        // It still sees its own moment.
        assert_eq!(transaction.get(space, "key").expect("get"), read, "{how}");
        transaction.put(space, "key", "new").expect("put");
        transaction.put(space, "beside", "new").expect("put");
        let visible = db.properties().visible_seq;
        let (key, seq) = lost(transaction.commit());
        assert_eq!(key, b"key", "{how}");
        assert!(seq <= visible, "{how}: a transaction that begins now sees what won");
        assert_eq!(db.get("beside").expect("get"), None, "{how}: all of it or nothing");
        // Once more, it gets through.
        let mut again = begin(db, SNAPSHOT);
        assert!(again.seq() >= seq);
        again.put(space, "key", "new").expect("put");
        again.commit().expect("commit");
        assert_eq!(db.get("key").expect("get").as_deref(), Some(&b"new"[..]));
    });
}

#[test]
fn what_is_read_counts_where_it_was_promised() {
    type Read = fn(&mut Transaction, &Keyspace);
    let reads: [(&str, Read); 6] = [
        ("get", |transaction, space| drop(transaction.get(space, "key").expect("get"))),
        ("contains", |transaction, space| {
            transaction.contains_key(space, "key").expect("get");
        }),
        ("multi_get", |transaction, space| {
            transaction.multi_get(space, ["a", "key"]).expect("get");
        }),
        ("range", |transaction, space| assert!(transaction.range(space, "k".."l").count() <= 1)),
        ("backward", |transaction, space| {
            assert!(transaction.prefix(space, "ke").rev().count() <= 1);
        }),
        ("all", |transaction, space| assert!(transaction.iter(space).count() <= 1)),
    ];
    for (name, read) in reads {
        each(|how, db, others_write| {
            let space = db.default_keyspace();
            let [mut strict, mut loose] = [SERIALIZABLE, SNAPSHOT].map(|level| begin(db, level));
            for (transaction, into) in [(&mut strict, "strict"), (&mut loose, "loose")] {
                read(transaction, space);
                transaction.put(space, into, "written").expect("put");
            }
            others_write();
            assert_eq!(lost(strict.commit()).0, b"key", "{name} beside {how}");
            loose.commit().unwrap_or_else(|error| panic!("{name} beside {how}: {error}"));
        });
    }
}

#[test]
fn keys_that_were_not_there_count_too() {
    let (_dir, db) = open("phantoms");
    let space = db.default_keyspace();
    for (read, written, is_conflict) in
        [("b".."d", "c", true), ("b".."d", "d", false), ("b".."d", "a", false)]
    {
        let mut transaction = begin(&db, SERIALIZABLE);
        transaction.range(space, read.clone()).for_each(drop);
        transaction.put(space, "count", "0").expect("put");
        db.put(written, "new").expect("put");
        let committed = transaction.commit();
        assert_eq!(committed.is_err(), is_conflict, "{written} in {read:?}");
        db.delete(written).expect("delete");
    }
    let mut transaction = begin(&db, SERIALIZABLE);
    assert_eq!(transaction.get(space, "nothing").expect("get"), None);
    transaction.put(space, "count", "0").expect("put");
    db.put("nothing", "now").expect("put");
    assert_eq!(lost(transaction.commit()).0, b"nothing");
}

/// Deletions that hide nothing are not dropped while a transaction may ask for them.
#[test]
fn that_nothing_was_deleted_counts_too() {
    for (how, other) in OTHERS.iter().filter(|(how, _)| how.starts_with("delete")) {
        for (moved, then) in MOVES {
            for level in [SNAPSHOT, SERIALIZABLE] {
                let (dir, db) = open("idle-deletions");
                let space = db.default_keyspace();
                let mut transaction = begin(&db, level);
                assert_eq!(transaction.range(space, "a".."z").count(), 0);
                transaction.put(space, "key", "new").expect("put");
                other(&db, &dir);
                then(&db);
                assert_eq!(lost(transaction.commit()).0, b"key", "{how}, {moved}, {level:?}");
            }
        }
    }
}

/// A scan that ended early has read no more than it has passed.
#[test]
fn a_scan_counts_as_far_as_it_came() {
    let (_dir, db) = open("scans");
    let space = db.default_keyspace();
    let keys = ["b", "d", "f", "h"];
    keys.iter().for_each(|key| db.put(key, "value").expect("put"));
    type Scan = fn(&Transaction, &Keyspace);
    let forward: Scan = |transaction, space| {
        let first: Vec<_> = transaction.iter(space).take(2).collect();
        assert_eq!(first.len(), 2);
    };
    let backward: Scan = |transaction, space| {
        let last: Vec<_> = transaction.iter(space).rev().take(2).collect();
        assert_eq!(last.len(), 2);
    };
    let about: Scan = |transaction, space| {
        let mut cursor = transaction.cursor(space, ..).expect("cursor");
        cursor.seek("d").expect("seek");
        cursor.next().expect("next");
        cursor.prev().expect("prev");
        cursor.prev().expect("prev");
        assert_eq!(cursor.key(), Some(&b"b"[..]));
    };
    let and_back: Scan = |transaction, space| {
        let mut cursor = transaction.cursor(space, ..).expect("cursor");
        cursor.seek("b").expect("seek");
        cursor.next().expect("next");
        cursor.next().expect("next");
        cursor.prev().expect("prev");
        assert_eq!(cursor.key(), Some(&b"d"[..]));
    };
    let and_forth: Scan = |transaction, space| {
        let mut cursor = transaction.cursor(space, ..).expect("cursor");
        cursor.seek_for_prev("g").expect("seek");
        cursor.prev().expect("prev");
        cursor.prev().expect("prev");
        cursor.next().expect("next");
        assert_eq!(cursor.key(), Some(&b"d"[..]));
    };
    let within: Scan = |transaction, space| {
        let mut cursor = transaction.cursor(space, "d".."g").expect("cursor");
        cursor.seek("a").expect("seek");
        assert_eq!(cursor.key(), Some(&b"d"[..]));
    };
    for (scan, written, is_conflict) in [
        (and_back, "a", false),
        (and_back, "b", true),
        (and_back, "c", true),
        (and_back, "f", true),
        (and_back, "g", false),
        (and_forth, "b", true),
        (and_forth, "e", true),
        (and_forth, "g", true),
        (and_forth, "h", false),
        (within, "c", false),
        (within, "d", true),
        (within, "e", false),
        (forward, "a", true),
        (forward, "c", true),
        (forward, "d", true),
        (forward, "e", false),
        (backward, "i", true),
        (backward, "g", true),
        (backward, "e", false),
        (about, "a", false),
        (about, "c", true),
        (about, "e", true),
        (about, "g", false),
    ] {
        let mut transaction = begin(&db, SERIALIZABLE);
        scan(&transaction, space);
        transaction.put(space, "z", "0").expect("put");
        db.put(written, "new").expect("put");
        assert_eq!(transaction.commit().is_err(), is_conflict, "{written}");
        if !keys.contains(&written) {
            db.delete(written).expect("delete");
        }
        let mut clean = begin(&db, SNAPSHOT);
        clean.delete(space, "z").expect("delete");
        clean.commit().expect("commit");
    }
}

#[test]
fn write_skew_is_allowed_by_snapshots_and_not_by_serial_order() {
    for (level, both) in [(SNAPSHOT, true), (SERIALIZABLE, false)] {
        let (_dir, db) = open("skew");
        let space = db.default_keyspace();
        let [mut one, mut other] = [level; 2].map(|level| begin(&db, level));
        assert_eq!(one.get(space, "b").expect("get"), None);
        assert_eq!(other.get(space, "a").expect("get"), None);
        one.put(space, "a", "1").expect("put");
        other.put(space, "b", "1").expect("put");
        one.commit().expect("the first");
        assert_eq!(other.commit().is_ok(), both, "{level:?}");
    }
}

#[test]
fn only_the_keys_that_count_are_conflicts() {
    let (_dir, db) = open("beside");
    let space = db.default_keyspace();
    let another = db.create_keyspace("another").expect("create");
    let mut transaction = begin(&db, SNAPSHOT);
    transaction.put(space, "key", "1").expect("put");
    transaction.put_untracked(space, "log", "1").expect("put");
    db.put("kez", "near").expect("put");
    db.put("log", "other").expect("put");
    another.put("key", "same name").expect("put");
    transaction.commit().expect("commit");
    assert_eq!(db.get("log").expect("get").as_deref(), Some(&b"1"[..]));

    // A commit that is given up writes nothing.
    let mut transaction = begin(&db, SNAPSHOT);
    transaction.put(space, "key", "2").expect("put");
    let change = steps::Change::Put { key: b"key", value: b"void" };
    let mut other = steps::Write::admit(&[(space, change)]).expect("admit");
    other.step().expect("reserve");
    drop(other);
    transaction.commit().expect("commit");
    assert_eq!(db.get("key").expect("get").as_deref(), Some(&b"2"[..]));
}

#[test]
fn a_key_that_is_read_for_update_counts() {
    let (_dir, db) = open("for-update");
    let space = db.default_keyspace();
    let mut transaction = begin(&db, SNAPSHOT);
    assert_eq!(transaction.get_for_update(space, "key").expect("get"), None);
    transaction.put(space, "other", "1").expect("put");
    db.put("key", "now").expect("put");
    assert_eq!(lost(transaction.commit()).0, b"key");
}

#[test]
fn ranges_that_are_deleted_count() {
    let (_dir, db) = open("ranges");
    let space = db.default_keyspace();
    for (written, is_conflict) in [("b", true), ("c", false)] {
        let mut transaction = begin(&db, SNAPSHOT);
        transaction.delete_range(space, "a", "c").expect("delete");
        db.put(written, "now").expect("put");
        assert_eq!(transaction.commit().is_err(), is_conflict, "{written}");
    }
}

#[test]
fn a_transaction_that_only_reads_is_never_lost() {
    let (_dir, db) = open("reads");
    let space = db.default_keyspace();
    db.put("key", "old").expect("put");
    let mut transaction = begin(&db, SERIALIZABLE);
    let seq = transaction.seq();
    assert!(transaction.get_for_update(space, "key").expect("get").is_some());
    db.put("key", "new").expect("put");
    assert_eq!(transaction.commit().expect("commit"), seq);
}

#[test]
fn transactions_are_rolled_back_unless_they_commit() {
    let (_dir, db) = open("rollback");
    let space = db.default_keyspace();
    for end in [Transaction::rollback as fn(Transaction), drop] {
        let mut transaction = begin(&db, SNAPSHOT);
        transaction.put(space, "key", "value").expect("put");
        end(transaction);
        assert_eq!(db.get("key").expect("get"), None);
    }
    let transaction = begin(&db, SNAPSHOT);
    let error = db.close().expect_err("one is open");
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.to_string().contains("1 transaction"), "{error}");
    assert_eq!(db.properties().transactions.open, 1);
    drop(transaction);
    db.close().expect("close");
    assert_eq!(kind_of(db.begin(TransactionOptions::new())), ErrorKind::Closed);
}

#[test]
fn what_cannot_be_written_is_told() {
    let (_dir, db) = open("refused");
    let (_dir, other) = open("refused-other");
    let space = db.default_keyspace();
    let mut transaction = begin(&db, SNAPSHOT);
    let foreign = other.default_keyspace();
    assert_eq!(kind_of(transaction.put(foreign, "key", "")), ErrorKind::InvalidArgument);
    assert_eq!(kind_of(transaction.get(foreign, "key")), ErrorKind::InvalidArgument);
    let range = transaction.delete_range(space, "b", "a");
    assert_eq!(kind_of(range), ErrorKind::InvalidArgument);
    transaction.put(space, vec![0; 100_000], "").expect("put");
    assert_eq!(kind_of(transaction.commit()), ErrorKind::LimitExceeded);
    let dropped = db.create_keyspace("dropped").expect("create");
    let mut transaction = begin(&db, SNAPSHOT);
    transaction.put(&dropped, "key", "").expect("put");
    db.drop_keyspace("dropped").expect("drop");
    assert_eq!(kind_of(transaction.commit()), ErrorKind::Closed);
    // Also where it was only read.
    let read = db.create_keyspace("read").expect("create");
    let mut transaction = begin(&db, SERIALIZABLE);
    transaction.range(&read, "a".."b").for_each(drop);
    transaction.put(space, "key", "").expect("put");
    db.drop_keyspace("read").expect("drop");
    assert_eq!(kind_of(transaction.commit()), ErrorKind::Closed);
}
