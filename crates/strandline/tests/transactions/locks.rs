//! Locks of pessimistic transactions: which wait for which, and how a wait ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use base::planted::{self, Bug};
use strandline::{
    Db, Error, ErrorKind, Isolation, LockMode, LockTarget, Options, Result, Transaction,
    TransactionOptions, steps,
};

use crate::common::{TempDir, small_levels, wait_until};
use crate::conflicts::{lost, open};

/// Long enough for whatever a thread has to do before it waits.
const MOMENT: Duration = Duration::from_millis(50);

pub fn pessimistic() -> TransactionOptions {
    TransactionOptions::pessimistic().lock_timeout(Duration::from_secs(60))
}

pub fn begin(db: &Db) -> Transaction {
    db.begin(pessimistic()).expect("begin")
}

/// Something that another thread does.
pub struct Elsewhere<T> {
    thread: JoinHandle<()>,
    done: Receiver<T>,
}

pub fn elsewhere<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Elsewhere<T> {
    let (tell, done) = channel();
    let heritage = planted::heritage();
    let thread = std::thread::spawn(move || {
        heritage.accept();
        tell.send(work()).expect("heard");
    });
    Elsewhere { thread, done }
}

impl<T> Elsewhere<T> {
    #[track_caller]
    pub fn waits(&self) {
        assert!(self.done.recv_timeout(MOMENT).is_err(), "it does not wait");
    }

    #[track_caller]
    pub fn ends(self) -> T {
        let done = self.done.recv_timeout(Duration::from_secs(30)).expect("it still waits");
        self.thread.join().expect("no panic");
        done
    }
}

/// Waits until so many locks were waited for since the store was opened.
pub fn await_waits(db: &Db, waits: u64) {
    wait_until("it waits", || db.properties().locks.waits >= waits);
}

fn value(db: &Db, key: &str) -> Option<String> {
    let value = db.get(key).expect("get");
    value.map(|value| String::from_utf8(value).expect("text"))
}

pub fn open_shared(name: &str) -> (TempDir, Arc<Db>) {
    let (dir, db) = open(name);
    (dir, Arc::new(db))
}

#[test]
fn who_wants_a_key_for_update_waits_for_the_other() {
    let (_dir, db) = open_shared("waits");
    db.put("key", "0").expect("put");
    let mut first = begin(&db);
    first.get_for_update(db.default_keyspace(), "key").expect("get");
    let second = elsewhere({
        let db = Arc::clone(&db);
        move || {
            let space = db.default_keyspace();
            let mut second = begin(&db);
            let seen = second.get_for_update(space, "key").expect("get").expect("a value");
            second.put(space, "key", [&seen[..], b"2"].concat()).expect("put");
            second.commit().expect("commit");
        }
    });
    second.waits();
    // Who only reads does not wait.
    assert_eq!(value(&db, "key").as_deref(), Some("0"));
    first.put(db.default_keyspace(), "key", "01").expect("put");
    first.commit().expect("commit");
    second.ends();
    assert_eq!(value(&db, "key").as_deref(), Some("012"), "it sees what the first wrote");
    let properties = db.properties();
    assert_eq!((properties.locks.held, properties.locks.bytes, properties.locks.waits), (0, 0, 1));
    assert_eq!(properties.transactions.conflicts, 0);
}

#[test]
fn locks_go_with_the_transaction_however_it_ends() {
    let (_dir, db) = open_shared("ends");
    let space = db.default_keyspace();
    let none = || assert_eq!(db.locks(9).count, 0);
    let mut transaction = begin(&db);
    transaction.put(space, "key", "1").expect("put");
    assert_eq!(db.locks(9).count, 1);
    transaction.rollback();
    none();
    let mut transaction = begin(&db);
    transaction.lock_range(space, "a".."b", LockMode::Shared).expect("lock");
    drop(transaction);
    none();
    let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut transaction = begin(&db);
        transaction.delete(space, "key").expect("delete");
        panic!("as the application's code may");
    }));
    assert!(panics.is_err());
    none();
    assert_eq!(value(&db, "key"), None);
    // One without changes that has locked, too.
    let mut transaction = begin(&db);
    transaction.lock(space, "key", LockMode::Exclusive).expect("lock");
    transaction.commit().expect("commit");
    none();
}

#[test]
fn a_wait_ends_in_time_and_says_who_has_the_lock() {
    let (_dir, db) = open_shared("timeout");
    let space = db.default_keyspace();
    let mut first = begin(&db);
    first.put(space, "key", "1").expect("put");
    let hasty = TransactionOptions::pessimistic().lock_timeout(Duration::from_millis(20));
    let mut second = db.begin(hasty).expect("begin");
    let error = second.put(space, "key", "2").expect_err("it is locked");
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    let number = first.number().expect("it locks");
    for told in ["key key of keyspace default", &format!("transaction {number}"), "lock_timeout"] {
        assert!(error.to_string().contains(told), "{error}");
    }
    // It may go on.
    second.put(space, "other", "2").expect("put");
    first.commit().expect("commit");
    let error = second.put(space, "key", "2").expect_err("it was written since");
    assert_eq!(lost(Err(error)).0, b"key");
    drop(second);
    assert_eq!((db.properties().locks.timeouts, db.properties().locks.held), (1, 0));
}

#[test]
fn the_youngest_of_a_cycle_is_given_up() {
    let (_dir, db) = open_shared("deadlock");
    let space = db.default_keyspace();
    let mut old = begin(&db);
    let mut young = begin(&db);
    let (old_no, young_no) = (old.number().expect("locks"), young.number().expect("locks"));
    old.put(space, "a", "old").expect("put");
    young.put(space, "b", "young").expect("put");
    let thread = elsewhere({
        let db = Arc::clone(&db);
        move || {
            let error = young.put(db.default_keyspace(), "a", "young").expect_err("a cycle");
            // Its locks are free, and it takes none any more.
            let again = young.put(db.default_keyspace(), "c", "young").expect_err("it is over");
            let commit = young.commit().expect_err("it is over");
            assert_eq!((again.kind(), commit.kind()), (error.kind(), error.kind()));
            error
        }
    });
    await_waits(&db, 1);
    old.put(space, "b", "old").expect("it gets the lock of the other");
    let error: Error = thread.ends();
    assert_eq!(error.kind(), ErrorKind::Deadlock, "{error}");
    let deadlock = error.deadlock().expect("it is told");
    assert_eq!(deadlock.victim, young_no);
    assert_eq!(deadlock.cycle.len(), 2);
    for wait in &deadlock.cycle {
        let key = if wait.transaction == old_no { "b" } else { "a" };
        assert_eq!(wait.target, LockTarget::Key(key.into()));
        assert_eq!(wait.held_by, old_no + young_no - wait.transaction);
    }
    old.commit().expect("commit");
    assert_eq!(value(&db, "b").as_deref(), Some("old"));
    let report = db.locks(9);
    assert_eq!((report.count, report.deadlocks.len()), (0, 1));
    assert_eq!(&report.deadlocks[0], deadlock);
}

#[test]
fn shared_locks_go_together_and_keep_writers_out() {
    let (_dir, db) = open_shared("shared");
    let space = db.default_keyspace();
    db.put("key", "0").expect("put");
    let (mut first, mut second) = (begin(&db), begin(&db));
    for reader in [&mut first, &mut second] {
        assert_eq!(reader.get_for_share(space, "key").expect("get").as_deref(), Some(&b"0"[..]));
    }
    let report = db.locks(9);
    assert_eq!((report.locks[0].mode, report.locks[0].holders.len()), (LockMode::Shared, 2));
    let writer = elsewhere({
        let db = Arc::clone(&db);
        move || {
            let mut writer = begin(&db);
            writer.put(db.default_keyspace(), "key", "1").expect("put");
            writer.commit().expect("commit");
        }
    });
    await_waits(&db, 1);
    // Fair: who comes later does not pass the one that waits.
    let late = elsewhere({
        let db = Arc::clone(&db);
        move || {
            let mut late = begin(&db);
            late.get_for_share(db.default_keyspace(), "key").expect("get")
        }
    });
    late.waits();
    // One that has the lock may want more of it.
    drop(second);
    first.put(space, "key", "2").expect("it alone has the lock");
    writer.waits();
    first.commit().expect("commit");
    writer.ends();
    assert_eq!(late.ends().as_deref(), Some(&b"1"[..]));
}

#[test]
fn two_that_want_more_of_a_shared_lock_are_a_cycle() {
    let (_dir, db) = open_shared("upgrade");
    let space = db.default_keyspace();
    let (mut old, mut young) = (begin(&db), begin(&db));
    old.get_for_share(space, "key").expect("get");
    young.get_for_share(space, "key").expect("get");
    let thread = elsewhere({
        let db = Arc::clone(&db);
        move || young.put(db.default_keyspace(), "key", "young").expect_err("a cycle").kind()
    });
    await_waits(&db, 1);
    old.put(space, "key", "old").expect("put");
    assert_eq!(thread.ends(), ErrorKind::Deadlock);
    old.commit().expect("commit");
}

#[test]
fn a_locked_range_is_locked_where_it_has_no_keys() {
    let (_dir, db) = open_shared("range");
    let space = db.default_keyspace();
    db.put("b1", "0").expect("put");
    let mut scan = begin(&db);
    let seen = scan.range_for_update(space, "b".."c").expect("lock").count();
    assert_eq!(seen, 1);
    let hasty = || {
        let options = TransactionOptions::pessimistic().lock_timeout(Duration::from_millis(10));
        db.begin(options).expect("begin")
    };
    let kind = |done: Result<()>| done.err().map(|error| error.kind());
    for (key, refused) in [("a", false), ("b", true), ("b9", true), ("c", false)] {
        let kind = kind(hasty().put(space, key, "1"));
        assert_eq!(kind, refused.then_some(ErrorKind::TimedOut), "{key}");
    }
    // Ranges that meet it, too, and ranges of others meet keys.
    assert!(kind(hasty().lock_range(space, "bb"..="c", LockMode::Shared)).is_some());
    assert!(kind(hasty().delete_range(space, "", "b0")).is_some());
    assert!(kind(hasty().lock_range(space, "c".., LockMode::Exclusive)).is_none());
    assert!(kind(hasty().lock_range(space, ..="a", LockMode::Exclusive)).is_none());
    assert!(kind(hasty().lock_range(space, "z".."a", LockMode::Exclusive)).is_none(), "no keys");
    // Its own are no obstacle.
    scan.put(space, "b5", "1").expect("put");
    scan.lock_range(space, "b".."b7", LockMode::Shared).expect("lock");
    scan.delete_range(space, "a", "b2").expect("delete range");
    assert!(kind(hasty().put(space, "a5", "1")).is_some());
    scan.commit().expect("commit");
    assert_eq!(db.locks(9).count, 0);
    assert_eq!((value(&db, "b1"), value(&db, "b5").as_deref()), (None, Some("1")));
    let mut key = begin(&db);
    key.put(space, "m", "1").expect("put");
    assert!(kind(hasty().lock_range(space, .., LockMode::Shared)).is_some());
    assert!(kind(hasty().lock_range(space, "n".., LockMode::Shared)).is_none());
}

/// A range that waits gets its turn although others go on to lock keys in it.
#[test]
fn a_range_that_waits_keeps_others_from_its_keys() {
    let (_dir, db) = open_shared("range-waits");
    let space = db.default_keyspace();
    let mut key = begin(&db);
    key.put(space, "b", "1").expect("put");
    let range = elsewhere({
        let db = Arc::clone(&db);
        move || {
            let mut range = begin(&db);
            range.lock_range(db.default_keyspace(), "a".."d", LockMode::Exclusive).expect("lock");
            range.put(db.default_keyspace(), "c", "range").expect("put");
            range.commit().expect("commit")
        }
    });
    await_waits(&db, 1);
    let late = elsewhere({
        let db = Arc::clone(&db);
        move || {
            let mut late = begin(&db);
            let seen = late.get_for_update(db.default_keyspace(), "c").expect("get");
            (seen, late.number())
        }
    });
    await_waits(&db, 2);
    let report = db.locks(9);
    assert_eq!(report.locks.len(), 2, "{report:?}");
    assert_eq!(report.locks[0].waiting.len(), 1);
    assert_eq!((report.locks[1].holders.len(), report.locks[1].waiting.len()), (0, 2));
    key.commit().expect("commit");
    range.ends();
    assert_eq!(late.ends().0.as_deref(), Some(&b"range"[..]));
}

#[test]
fn a_transaction_that_lasts_too_long_loses_its_locks() {
    let (_dir, db) = open_shared("expired");
    let space = db.default_keyspace();
    let short = pessimistic().expiration(Duration::from_millis(30));
    let mut slow = db.begin(short.clone()).expect("begin");
    slow.put(space, "key", "slow").expect("put");
    slow.put(space, "key2", "slow").expect("put");
    let mut other = begin(&db);
    other.put(space, "key", "other").expect("it waits for that time, and no longer");
    other.put(space, "key2", "other").expect("all its locks are free");
    let error = slow.put(space, "key3", "slow").expect_err("too late");
    assert_eq!(error.kind(), ErrorKind::Expired, "{error}");
    assert_eq!(slow.commit().expect_err("too late").kind(), ErrorKind::Expired);
    other.commit().expect("commit");
    // No other wanted them, and still it is late.
    let mut slow = db.begin(short.clone()).expect("begin");
    slow.put(space, "key", "slow").expect("put");
    std::thread::sleep(Duration::from_millis(40));
    assert_eq!(slow.commit().expect_err("too late").kind(), ErrorKind::Expired);
    let mut quick = db.begin(short).expect("begin");
    quick.put(space, "key", "quick").expect("put");
    quick.commit().expect("in time");
    assert_eq!(value(&db, "key").as_deref(), Some("quick"));
    assert_eq!((db.properties().locks.expired, db.properties().locks.held), (2, 0));
}

#[test]
fn locks_keep_to_their_memory() {
    let dir = TempDir::new("lock-memory");
    let options: Options = small_levels().background_threads(0).lock_memory(20_000);
    let db = Db::open(dir.join("store"), options).expect("open");
    let space = db.default_keyspace();
    let mut many = begin(&db);
    let locked = (0..).map(|no| many.lock(space, format!("{no}"), LockMode::Exclusive));
    let locked: Vec<Result<()>> = locked.take_while(Result::is_ok).collect();
    assert!((50..200).contains(&locked.len()), "{}", locked.len());
    let error = many.lock(space, "more", LockMode::Exclusive).expect_err("too many");
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    assert!(error.to_string().contains("lock_memory"), "{error}");
    many.lock(space, "7", LockMode::Exclusive).expect("it has that");
    assert!(db.properties().locks.bytes <= 20_000);
    // As it says, it can be raised.
    db.set_option("lock_memory", "1M").expect("set");
    many.lock(space, "more", LockMode::Exclusive).expect("lock");
    drop(many);
    assert_eq!(db.properties().locks.bytes, 0);
}

#[test]
fn read_committed_sees_each_time_what_there_is() {
    let (_dir, db) = open_shared("read-committed");
    let space = db.default_keyspace();
    let optimistic = TransactionOptions::new().isolation(Isolation::ReadCommitted);
    let refused = db.begin(optimistic).err().expect("it does not lock").kind();
    assert_eq!(refused, ErrorKind::InvalidArgument);
    db.put("key", "1").expect("put");
    let mut transaction =
        db.begin(pessimistic().isolation(Isolation::ReadCommitted)).expect("begin");
    assert_eq!(transaction.get(space, "key").expect("get").as_deref(), Some(&b"1"[..]));
    let mut seen = transaction.iter(space);
    assert!(seen.next().is_some());
    db.put("key", "2").expect("put");
    db.put("key2", "2").expect("put");
    assert!(seen.next().is_none(), "a scan sees one moment");
    drop(seen);
    assert_eq!(transaction.get(space, "key").expect("get").as_deref(), Some(&b"2"[..]));
    assert_eq!(transaction.iter(space).count(), 2);
    // What was written meanwhile is no conflict.
    transaction.put(space, "key", "3").expect("put");
    let own = transaction.get_for_update(space, "key").expect("get");
    assert_eq!(own.as_deref(), Some(&b"3"[..]));
    transaction.commit().expect("commit");
    assert_eq!(value(&db, "key").as_deref(), Some("3"));
}

#[test]
fn what_was_written_since_the_first_lock_is_a_conflict_at_once() {
    let (_dir, db) = open_shared("since");
    let space = db.default_keyspace();
    let begun = || {
        let mut transaction = begin(&db);
        // No moment was chosen yet.
        db.put("a", "1").expect("put");
        let seen = transaction.get_for_update(space, "a").expect("get");
        assert_eq!(seen.as_deref(), Some(&b"1"[..]));
        db.put("b", "1").expect("put");
        db.put("m", "1").expect("put");
        transaction
    };
    let mut transaction = begun();
    let error = transaction.get_for_update(space, "b").expect_err("it would not see it");
    assert_eq!(lost(Err(error)).0, b"b");
    // It has the lock, and has not seen what was there: it cannot go on.
    let error = transaction.put(space, "b", "mine").expect_err("it is lost");
    assert_eq!(lost(Err(error)).0, b"b");
    assert_eq!(lost(transaction.commit()).0, b"b");
    let mut transaction = begun();
    let error = transaction.lock_range(space, "l".., LockMode::Exclusive).expect_err("nor that");
    assert_eq!(lost(Err(error)).0, b"m");
    drop(transaction);
    // A write that is to win whatever others wrote.
    let mut transaction = begun();
    transaction.lock_range(space, "x".., LockMode::Exclusive).expect("nothing came there");
    transaction.put_untracked(space, "b2", "mine").expect("put");
    db.put("c", "1").expect("put");
    transaction.put_untracked(space, "c", "mine").expect("put");
    transaction.commit().expect("commit");
    assert_eq!(value(&db, "c").as_deref(), Some("mine"));
    // If it counts later it is a conflict then.
    let mut transaction = begun();
    db.put("c", "2").expect("put");
    transaction.set_savepoint();
    transaction.put_untracked(space, "c", "mine").expect("put");
    transaction.rollback_to_savepoint().expect("taken back");
    let error = transaction.get_for_update(space, "c").expect_err("it was written since");
    assert_eq!(lost(Err(error)).0, b"c");
    assert_eq!(db.properties().transactions.conflicts, 3);
}

/// The application swallows the conflict of a lock; the transaction is begun anew all the same.
#[test]
fn a_lost_transaction_does_not_commit_whatever_its_body_says() {
    let (_dir, db) = open_shared("swallowed");
    let space = db.default_keyspace();
    let mut attempts = 0;
    db.transact(pessimistic(), |transaction| {
        attempts += 1;
        transaction.get(space, "other")?;
        if attempts == 1 {
            db.put("key", "1")?;
        }
        let _swallowed = transaction.put(space, "key", "mine");
        transaction.put(space, "key2", "mine").or(Ok(()))
    })
    .expect("transact");
    assert_eq!((attempts, value(&db, "key").as_deref()), (2, Some("mine")));
}

/// Its reads are checked when it commits: they lock nothing.
#[test]
fn a_serializable_transaction_that_locks_relies_on_what_it_read() {
    let (_dir, db) = open_shared("serializable");
    let space = db.default_keyspace();
    for (written, is_lost) in [("read", true), ("scanned5", true), ("beside", false)] {
        let options = pessimistic().isolation(Isolation::Serializable);
        let mut transaction = db.begin(options).expect("begin");
        transaction.get(space, "read").expect("get");
        transaction.range(space, "scanned".."scannee").for_each(drop);
        transaction.put(space, "key", "mine").expect("put");
        db.put(written, "other").expect("it does not wait");
        assert_eq!(transaction.commit().is_err(), is_lost, "{written}");
    }
}

/// A transaction that has been lost at a lock is begun anew, and grows old.
#[test]
fn transact_begins_anew_after_deadlocks() {
    let (_dir, db) = open_shared("transact");
    let threads: Vec<_> = (0..4_u64)
        .map(|no| {
            let db = Arc::clone(&db);
            elsewhere(move || {
                let space = db.default_keyspace();
                for round in 0..200 {
                    // In both orders: they meet in cycles.
                    let keys = if (no + round).is_multiple_of(2) { ["a", "b"] } else { ["b", "a"] };
                    let both = |transaction: &mut Transaction| {
                        for key in keys {
                            let old = transaction.get_for_update(space, key)?.unwrap_or_default();
                            transaction.put(space, key, vec![0; old.len() + 1])?;
                        }
                        Ok(())
                    };
                    db.transact(pessimistic(), both).expect("it gets through");
                }
            })
        })
        .collect();
    threads.into_iter().for_each(Elsewhere::ends);
    for key in ["a", "b"] {
        assert_eq!(db.get(key).expect("get").map(|value| value.len()), Some(800));
    }
    assert_eq!(db.locks(9).count, 0);
}

/// Others are always faster, until it locks.
#[test]
fn an_optimistic_transaction_that_loses_and_loses_locks_at_last() {
    let (_dir, db) = open_shared("locks-at-last");
    let space = db.default_keyspace();
    let mut attempts = 0;
    db.transact(TransactionOptions::new(), |transaction| {
        attempts += 1;
        let seen = transaction.get_for_update(space, "key")?.unwrap_or_default();
        if transaction.number().is_none() {
            assert!(attempts < 10, "it does not lock");
            db.put("key", format!("{attempts}"))?;
        }
        transaction.put(space, "key", [&seen[..], b"mine"].concat())
    })
    .expect("transact");
    assert_eq!((attempts, value(&db, "key").as_deref()), (4, Some("3mine")));
    assert_eq!(db.locks(9).count, 0);
}

#[test]
fn those_that_wait_are_served_in_order() {
    let (_dir, db) = open_shared("order");
    let mut first = begin(&db);
    first.put(db.default_keyspace(), "key", "").expect("put");
    let threads: Vec<_> = (0..8_u64)
        .map(|no| {
            let shared = Arc::clone(&db);
            let thread = elsewhere(move || {
                let space = shared.default_keyspace();
                let mut next = begin(&shared);
                let old = next.get_for_update(space, "key").expect("get").unwrap_or_default();
                next.put(space, "key", [&old[..], &[no as u8]].concat()).expect("put");
                next.commit().expect("commit");
            });
            await_waits(&db, no + 1);
            thread
        })
        .collect();
    first.commit().expect("commit");
    threads.into_iter().for_each(Elsewhere::ends);
    assert_eq!(db.get("key").expect("get"), Some((0..8).collect()));
}

/// A commit has its number and is not visible; a transaction gets the lock of its key behind it.
#[test]
fn who_gets_a_lock_sees_what_was_numbered_before() {
    let loses = || {
        let (_dir, db) = open_shared("numbered");
        let space = db.default_keyspace();
        db.put("key", "0").expect("put");
        let change = steps::Change::Put { key: b"key", value: b"other" };
        let mut other = steps::Write::admit(&[(space, change)]).expect("admit");
        other.step().expect("reserve");
        let (given, shared) = (Arc::new(AtomicBool::new(false)), Arc::clone(&db));
        let thread = elsewhere({
            let given = Arc::clone(&given);
            move || {
                let space = shared.default_keyspace();
                let mut transaction = begin(&shared);
                let seen = transaction.get_for_update(space, "key").expect("get");
                given.store(true, SeqCst);
                transaction.put(space, "key", "mine").expect("put");
                transaction.commit().expect("commit");
                seen
            }
        });
        std::thread::sleep(MOMENT);
        let early = given.load(SeqCst);
        while other.step().expect("step") != steps::Stepped::Acknowledged {}
        early || thread.ends().as_deref() != Some(&b"other"[..])
    };
    assert!(!loses());
    planted::plant(Some(Bug::LockLooksEarly));
    assert!(loses(), "the wait is idle");
    planted::plant(None);
}

#[test]
fn a_dropped_keyspace_has_no_locks() {
    let (_dir, db) = open_shared("dropped");
    let space = db.create_keyspace("other").expect("create");
    let mut transaction = begin(&db);
    transaction.put(&space, "key", "1").expect("put");
    db.drop_keyspace("other").expect("drop");
    let error = transaction.lock(&space, "key2", LockMode::Exclusive).expect_err("it is gone");
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    assert_eq!(transaction.commit().expect_err("it is gone").kind(), ErrorKind::Closed);
    assert_eq!(db.locks(9).count, 0);
}
