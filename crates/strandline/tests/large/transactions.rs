//! Transactions that are large: their conditions are asked in the step that gives their numbers.

use crate::common::{TempDir, kind_of, numbered, small_levels};
use strandline::{Db, ErrorKind, Isolation, Transaction, TransactionOptions};

fn open(name: &str) -> (TempDir, Db) {
    let dir = TempDir::new(name);
    let db = Db::open(dir.path(), small_levels()).expect("open");
    (dir, db)
}

fn begin(db: &Db, isolation: Isolation) -> Transaction {
    db.begin(TransactionOptions::new().isolation(isolation)).expect("begin")
}

fn fill(transaction: &mut Transaction, db: &Db, value: &[u8]) {
    for i in 0..2000 {
        transaction.put(db.default_keyspace(), numbered(i), value).expect("put");
    }
}

#[test]
fn a_key_that_another_wrote_is_a_conflict() {
    let (_dir, db) = open("large-conflict");
    let mut transaction = begin(&db, Isolation::Snapshot);
    fill(&mut transaction, &db, b"lost");
    db.put(numbered(1234), b"other").expect("put");
    let error = transaction.commit().expect_err("a conflict");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(error.conflict().expect("told").key, numbered(1234));
    assert_eq!(db.get(numbered(7)).expect("get"), None);
    // Neighbours make it look, and are none.
    let mut transaction = begin(&db, Isolation::Snapshot);
    fill(&mut transaction, &db, b"won");
    db.put(numbered(5000), b"other").expect("put");
    transaction.commit().expect("no conflict");
    assert_eq!(db.get(numbered(1234)).expect("get"), Some(b"won".to_vec()));
    assert_eq!(db.properties().large_commits.committed, 1);
    assert!(db.properties().transactions.looks > 0);
}

#[test]
fn a_large_commit_is_a_conflict_for_others() {
    let (_dir, db) = open("large-conflicts");
    let space = db.default_keyspace();
    db.put(numbered(7), b"old").expect("put");
    let mut small = begin(&db, Isolation::Snapshot);
    small.put(space, numbered(7), b"lost").expect("put");
    let mut ranges = begin(&db, Isolation::Serializable);
    assert_eq!(ranges.range(space, numbered(100)..numbered(200)).count(), 0);
    ranges.put(space, "elsewhere", "").expect("put");
    let mut beside = begin(&db, Isolation::Serializable);
    assert_eq!(beside.range(space, "z"..).count(), 0);
    beside.put(space, "beside", "").expect("put");
    let mut large = begin(&db, Isolation::Snapshot);
    fill(&mut large, &db, b"large");
    large.commit().expect("commit");
    assert_eq!(kind_of(small.commit()), ErrorKind::Conflict);
    assert_eq!(kind_of(ranges.commit()), ErrorKind::Conflict);
    beside.commit().expect("nothing there was written");
    assert_eq!(db.get(numbered(7)).expect("get"), Some(b"large".to_vec()));
}

#[test]
fn what_it_read_counts() {
    let (_dir, db) = open("large-reads");
    let space = db.default_keyspace();
    for (round, conflicts) in [(0, true), (1, false)] {
        let mut transaction = begin(&db, Isolation::Serializable);
        assert_eq!(transaction.get(space, "flag").expect("get").is_some(), round > 0);
        fill(&mut transaction, &db, &[round]);
        db.put(if conflicts { "flag" } else { "other" }, "set").expect("put");
        let committed = transaction.commit();
        assert_eq!(committed.is_err(), conflicts);
        if let Err(error) = committed {
            assert_eq!(error.kind(), ErrorKind::Conflict);
        }
    }
}

#[test]
fn one_that_begins_anew_gets_through() {
    let (_dir, db) = open("large-retried");
    let space = db.default_keyspace();
    db.put("sum", 0_u64.to_le_bytes()).expect("put");
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..4 {
                    let add = |transaction: &mut Transaction| {
                        let sum = transaction.get(space, "sum")?.expect("there");
                        let sum = u64::from_le_bytes(sum[..].try_into().expect("8 bytes")) + 1;
                        for i in 0..1500 {
                            transaction.put(space, numbered(i), sum.to_le_bytes())?;
                        }
                        transaction.put(space, "sum", sum.to_le_bytes())
                    };
                    let options = TransactionOptions::new().isolation(Isolation::Serializable);
                    db.transact(options, add).expect("transact");
                }
            });
        }
    });
    let sum = db.get("sum").expect("get").expect("there");
    assert_eq!(sum, 12_u64.to_le_bytes());
    for i in (0..1500).step_by(111) {
        assert_eq!(db.get(numbered(i)).expect("get"), Some(sum.clone()));
    }
}
