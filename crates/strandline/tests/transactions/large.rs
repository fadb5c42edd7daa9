//! Large commits, which no zone takes, keep to locks and conditions as others do.

use std::sync::Arc;

use base::planted::{self, Bug};
use strandline::{
    Batch, Db, ErrorKind, Isolation, Keyspace, LockMode, Result, Transaction, TransactionOptions,
    WriteOptions, steps,
};

use crate::common::numbered;
use crate::conflicts::{begin as optimistic, open};
use crate::locks::{await_waits, begin, elsewhere, open_shared, pessimistic};
use crate::locks_of_writes::{loses, needs};

/// Enough for a large commit.
const KEYS: u64 = 2000;

/// A batch that puts the numbered keys.
pub fn large_batch(db: &Db, value: &str) -> Batch {
    let mut batch = Batch::new();
    (0..KEYS).for_each(|i| batch.put(db.default_keyspace(), numbered(i), value));
    batch
}

fn fill(transaction: &mut Transaction, db: &Db, value: &str) -> Result<()> {
    (0..KEYS).try_for_each(|i| transaction.put(db.default_keyspace(), numbered(i), value))
}

/// Zones that are free once nothing waits to be freed.
fn free_zones(db: &Db) -> u32 {
    while !db.work(1000).expect("work").is_idle() {}
    db.properties().zones_free
}

/// That all numbered keys have this value, and how many commits were large.
#[track_caller]
fn all_are(db: &Db, value: &str, large_commits: u64) {
    for i in 0..KEYS {
        assert_eq!(db.get(numbered(i)).expect("get").as_deref(), Some(value.as_bytes()), "{i}");
    }
    assert_eq!(db.properties().large_commits.committed, large_commits);
    assert_eq!(db.locks(9).count, 0);
}

#[test]
fn a_large_batch_asks_for_locks() {
    let write = |db: &Db| {
        let mut batch = large_batch(db, "other");
        batch.put(db.default_keyspace(), "key", "other");
        db.write(&batch).expect("write");
    };
    needs(Bug::PutPassesLocks, || loses(write, |_| {}));
}

/// What a large batch is about to write is locked, alone and with all the others: keys, ranges, shared, and what it deletes as a range.
#[test]
fn a_large_batch_waits_for_each_lock() {
    type Lock = fn(&mut Transaction, &Keyspace) -> Result<()>;
    let locks: [Lock; 5] = [
        |transaction, space| transaction.put(space, "deleted", "locked"),
        |transaction, space| transaction.lock(space, numbered(7), LockMode::Shared),
        |transaction, space| transaction.put(space, numbered(1500), "locked"),
        |transaction, space| {
            transaction.lock_range(space, numbered(10)..numbered(20), LockMode::Exclusive)
        },
        |transaction, space| {
            transaction.lock_range(space, numbered(400)..numbered(410), LockMode::Shared)
        },
    ];
    for (round, locks) in (1..).zip(locks.chunks(1).chain([&locks[..]])) {
        let (_dir, db) = open_shared("large-waits");
        let space = db.default_keyspace();
        db.put("deleted", "1").expect("put");
        // What it does not write is not in its way.
        let mut beside = begin(&db);
        beside.put(space, "beside", "locked").expect("put");
        let range = numbered(KEYS)..numbered(KEYS + 9);
        beside.lock_range(space, range, LockMode::Exclusive).expect("lock");
        let mut transactions: Vec<Transaction> = locks.iter().map(|_| begin(&db)).collect();
        for (lock, transaction) in locks.iter().zip(&mut transactions) {
            lock(transaction, space).expect("lock");
        }
        let write = elsewhere({
            let db = Arc::clone(&db);
            move || {
                let mut batch = large_batch(&db, "large");
                batch.delete_range(db.default_keyspace(), "a", "b");
                batch.delete_range(db.default_keyspace(), "d", "e");
                db.write(&batch)
            }
        });
        await_waits(&db, 1);
        for transaction in transactions {
            write.waits();
            // It keeps no others out, and is seen by none.
            db.put("other", "1").expect("put");
            assert_eq!(db.get(numbered(0)).expect("get"), None, "{round}");
            transaction.commit().expect("commit");
        }
        write.ends().expect("write");
        assert_eq!(db.get("deleted").expect("get"), None, "{round}");
        beside.commit().expect("commit");
        all_are(&db, "large", 1);
    }
}

#[test]
fn what_a_large_batch_took_goes_back_if_it_waits_in_vain() {
    let (_dir, db) = open_shared("large-times-out");
    let space = db.default_keyspace();
    let mut transaction = begin(&db);
    transaction.put(space, numbered(KEYS / 2), "locked").expect("put");
    let free = free_zones(&db);
    db.set_option("lock_timeout", "30ms").expect("set");
    let write = elsewhere({
        let db = Arc::clone(&db);
        move || db.write(&large_batch(&db, "large"))
    });
    let error = write.ends().expect_err("it is locked");
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    let at_once = elsewhere({
        let db = Arc::clone(&db);
        move || db.write_with(&large_batch(&db, "large"), &WriteOptions::new().no_slowdown(true))
    });
    assert_eq!(at_once.ends().expect_err("it would wait").kind(), ErrorKind::Busy);
    let error = db.write(&large_batch(&db, "large")).expect_err("its own thread has the lock");
    assert_eq!(error.kind(), ErrorKind::Deadlock, "{error}");
    assert_eq!(free_zones(&db), free);
    assert_eq!(steps::leaked_zones(space), 0);
    assert_eq!(db.get(numbered(0)).expect("get"), None);
    transaction.commit().expect("commit");
    db.write(&large_batch(&db, "large")).expect("write");
    all_are(&db, "large", 1);
}

#[test]
fn a_large_transaction_commits_under_its_own_locks() {
    let (_dir, db) = open_shared("large-own-locks");
    let mut large = begin(&db);
    fill(&mut large, &db, "large").expect("put");
    let put = elsewhere({
        let db = Arc::clone(&db);
        move || {
            let mut other = begin(&db);
            let space = db.default_keyspace();
            let seen = other.get_for_update(space, numbered(3)).expect("get");
            other.put(space, numbered(3), "large").expect("put");
            other.commit().expect("commit");
            seen
        }
    });
    put.waits();
    large.commit().expect("commit");
    assert_eq!(put.ends().as_deref(), Some(&b"large"[..]), "it sees all that was locked");
    all_are(&db, "large", 1);
}

/// The batch has the turn of large commits, and waits for the transaction, which wants it.
#[test]
fn who_waits_for_a_lock_lends_its_turn() {
    let (_dir, db) = open_shared("large-lends");
    db.set_option("lock_timeout", "60").expect("set");
    let mut large = begin(&db);
    fill(&mut large, &db, "transaction").expect("put");
    let batch = elsewhere({
        let db = Arc::clone(&db);
        move || db.write(&large_batch(&db, "batch"))
    });
    await_waits(&db, 1);
    let others = elsewhere({
        let db = Arc::clone(&db);
        move || db.write(&large_batch(&db, "batch"))
    });
    others.waits();
    let large = elsewhere(move || large.commit());
    let of_transaction = large.ends().expect("it need not wait for the batch");
    batch.ends().expect("write");
    others.ends().expect("write");
    all_are(&db, "batch", 3);
    assert!(db.properties().visible_seq > of_transaction);
}

/// Another writes a key while the records of an optimistic one are written.
#[test]
fn what_a_large_commit_took_goes_back_with_a_conflict() {
    let (_dir, db) = open_shared("large-conflict");
    let space = db.default_keyspace();
    db.put("key", "1").expect("put");
    let free = free_zones(&db);
    let mut large = optimistic(&db, Isolation::Snapshot);
    fill(&mut large, &db, "lost").expect("put");
    let (shared, (tell, taken)) = (Arc::clone(&db), std::sync::mpsc::channel());
    planted::meanwhile("stage a large commit", move || {
        tell.send(free - shared.properties().zones_free).expect("heard");
        shared.put(numbered(5), "other").expect("put");
    });
    let error = large.commit().expect_err("a conflict");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(error.conflict().expect("told").key, numbered(5));
    let taken = taken.recv().expect("it came to that");
    assert!(taken >= 8, "{taken} zones were taken");
    assert_eq!(free_zones(&db), free - 1, "one is the spare one of the write head");
    assert_eq!(steps::leaked_zones(space), 0);
    assert_eq!(db.get(numbered(0)).expect("get"), None);
    assert_eq!(db.properties().large_commits.committed, 0);
    db.transact(TransactionOptions::new(), |transaction| fill(transaction, &db, "won"))
        .expect("transact");
    all_are(&db, "won", 1);
}

/// Large commits of all kinds at the same keys. None is lost, and all get through.
#[test]
fn large_commits_of_all_kinds_get_through() {
    const ROUNDS: u64 = 8;
    let (_dir, db) = open("large-kinds");
    db.set_option("lock_timeout", "60").expect("set");
    let space = db.default_keyspace();
    let add = |transaction: &mut Transaction, large: bool| {
        let old = transaction.get_for_update(space, "sum")?;
        let old = old.map_or(0, |old| u64::from_be_bytes(old[..].try_into().expect("eight bytes")));
        if large {
            fill(transaction, &db, "filled")?;
        }
        transaction.put(space, "sum", (old + 1).to_be_bytes())
    };
    let work = |no: u64| {
        for _ in 0..ROUNDS {
            match no {
                0 | 1 => db.transact(pessimistic(), |transaction| add(transaction, true)),
                2 => db.transact(TransactionOptions::new(), |transaction| add(transaction, true)),
                3 => db.transact(pessimistic(), |transaction| add(transaction, false)),
                _ => db.write(&large_batch(&db, "filled")),
            }
            .expect("it gets through");
        }
    };
    std::thread::scope(|scope| (0..5).for_each(|no| drop(scope.spawn(move || work(no)))));
    let sum = db.get("sum").expect("get").expect("there");
    assert_eq!(sum, (4 * ROUNDS).to_be_bytes());
    all_are(&db, "filled", 4 * ROUNDS);
    assert!(db.check().expect("check").damage.is_empty());
}
