//! Prepared transactions: whole at every moment, and locked until they have ended, over crashes.

use std::sync::Arc;
use std::time::Duration;

use base::planted::{self, Bug};
use sim::{Mode, SimPm};
use strandline::{
    CompactionFilter, Db, Decision, ErrorKind, Hooks, Isolation, LockMode, Options,
    PreparedTransaction, Region, Result, SsdSource, Transaction, TransactionOptions, repair, steps,
};
use testkit::Rng;

use crate::common::{TempDir, small_levels};
use crate::conflicts::{lost, open};
use crate::locks::{begin, elsewhere, open_shared};

fn hasty(db: &Db) -> Transaction {
    let options = TransactionOptions::pessimistic().lock_timeout(Duration::from_millis(5));
    db.begin(options).expect("begin")
}

/// Whether the key is locked by others.
fn is_locked(db: &Db, key: &str) -> bool {
    match hasty(db).put(db.default_keyspace(), key, "") {
        Ok(()) => false,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
            true
        }
    }
}

fn names(db: &Db) -> Vec<String> {
    db.prepared_transactions().iter().map(|prepared| prepared.name().to_owned()).collect()
}

fn found(db: &Db, name: &str) -> PreparedTransaction {
    let mut all = db.prepared_transactions().into_iter();
    all.find(|prepared| prepared.name() == name).expect("it is prepared")
}

#[test]
fn a_prepared_transaction_is_unseen_and_locked_until_it_is_decided() {
    let (_dir, db) = open_shared("decided");
    let space = db.default_keyspace();
    db.put("b", "old").expect("put");
    for commits in [true, false] {
        for isolation in [Isolation::Snapshot, Isolation::Serializable] {
            for locks in [true, false] {
                let options = TransactionOptions::new().isolation(isolation);
                let mut transaction = match locks {
                    true => begin(&db),
                    false => db.begin(options).expect("begin"),
                };
                transaction.put(space, "a", "new").expect("put");
                transaction.delete_range(space, "b", "c").expect("delete range");
                transaction.merge(space, "m", "x").expect("merge");
                let before = db.get("m").expect("get");
                let prepared = transaction.prepare("one").expect("prepared");
                assert_eq!(names(&db), ["one"]);
                assert_eq!(db.get("b").expect("get").as_deref(), Some(&b"old"[..]));
                for key in ["a", "b", "b5", "m"] {
                    assert!(is_locked(&db, key), "{key}");
                }
                assert!(!is_locked(&db, "c"));
                let error = elsewhere({
                    let db = Arc::clone(&db);
                    db.set_option("lock_timeout", "10ms").expect("set");
                    move || db.put("a", "other").expect_err("it is locked")
                });
                let error = error.ends();
                assert!(error.to_string().contains("prepared transaction one"), "{error}");
                if commits {
                    prepared.commit().expect("commit");
                    assert_eq!(db.get("a").expect("get").as_deref(), Some(&b"new"[..]));
                    assert_eq!(db.get("b").expect("get"), None);
                } else {
                    prepared.rollback().expect("rollback");
                    assert_eq!(db.get("b").expect("get").as_deref(), Some(&b"old"[..]));
                }
                let longer = usize::from(commits);
                let len = |value: &Option<Vec<u8>>| value.as_ref().map_or(0, Vec::len);
                assert!(len(&db.get("m").expect("get")) >= len(&before) + longer);
                assert_eq!((names(&db).len(), db.locks(9).count), (0, 0));
                db.put("b", "old").expect("it is free");
                db.delete("a").expect("it is free");
            }
        }
    }
}

#[test]
fn what_it_relies_on_is_locked_too() {
    let (_dir, db) = open("relied-on");
    let space = db.default_keyspace();
    let options = TransactionOptions::new().isolation(Isolation::Serializable);
    let mut transaction = db.begin(options).expect("begin");
    transaction.get(space, "read").expect("get");
    transaction.range(space, "s".."t").for_each(drop);
    transaction.put(space, "a", "new").expect("put");
    let prepared = transaction.prepare("one").expect("prepared");
    assert!(is_locked(&db, "read") && is_locked(&db, "s7") && !is_locked(&db, "t"));
    // Others may read it for share.
    hasty(&db).get_for_share(space, "read").expect("get");
    prepared.rollback().expect("rollback");
}

#[test]
fn a_conflict_is_found_when_it_is_prepared() {
    let (_dir, db) = open("conflict");
    let space = db.default_keyspace();
    let mut transaction = db.begin(TransactionOptions::new()).expect("begin");
    transaction.put(space, "key", "mine").expect("put");
    db.put("key", "other").expect("put");
    let error = transaction.prepare("one").err().expect("it was written");
    assert_eq!(lost(Err(error)).0, b"key");
    assert_eq!((names(&db).len(), db.locks(9).count), (0, 0));
}

#[test]
fn names_and_keyspaces_are_kept_until_the_end() {
    let (_dir, db) = open("names");
    let space = db.create_keyspace("other").expect("create");
    let begun = |key: &str| {
        let mut transaction = begin(&db);
        transaction.put(&space, key, "1").expect("put");
        transaction
    };
    let kind = |done: Result<PreparedTransaction>| done.err().map(|error| error.kind());
    assert_eq!(kind(begun("a").prepare("")), Some(ErrorKind::InvalidArgument));
    assert_eq!(kind(begun("a").prepare(&"n".repeat(300))), Some(ErrorKind::LimitExceeded));
    let prepared = begun("a").prepare("one").expect("prepared");
    assert_eq!(kind(begun("b").prepare("one")), Some(ErrorKind::Exists));
    let busy = db.drop_keyspace("other").expect_err("it is wanted").kind();
    assert_eq!(busy, ErrorKind::Busy);
    space.put("c", "1").expect("it is still there");
    // Its own keyspace is none for others.
    assert_eq!(db.keyspaces(), ["default", "other"]);
    for name in ["strandline:prepared", "strandline:mine"] {
        let refused =
            [db.keyspace(name).err(), db.create_keyspace(name).err(), db.drop_keyspace(name).err()];
        for error in refused {
            assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::InvalidArgument));
        }
    }
    let again = found(&db, "one");
    prepared.commit().expect("commit");
    assert_eq!(again.commit().expect_err("it has ended").kind(), ErrorKind::NotFound);
    begun("a").prepare("one").expect("the name is free").rollback().expect("rollback");
    db.drop_keyspace("other").expect("dropped");
}

#[test]
fn a_reopened_store_has_it_locked() {
    let dir = TempDir::new("reopened");
    for commits in [true, false] {
        let path = dir.join(if commits { "commits" } else { "rolls-back" });
        let db = Db::open(&path, small_levels()).expect("open");
        db.put("read", "1").expect("put");
        let options = TransactionOptions::new().isolation(Isolation::Serializable);
        let mut transaction = db.begin(options).expect("begin");
        transaction.get(db.default_keyspace(), "read").expect("get");
        transaction.put(db.default_keyspace(), "key", vec![7; 3000]).expect("put");
        transaction.prepare("one").expect("prepared");
        db.close().expect("close");
        // It may be looked at, and stays.
        let reader = Db::open_read_only(&path, small_levels()).expect("open");
        assert_eq!(names(&reader), ["one"]);
        drop(reader);
        for _ in 0..2 {
            let db = Db::open(&path, small_levels()).expect("open");
            assert_eq!(names(&db), ["one"]);
            assert!(is_locked(&db, "key") && is_locked(&db, "read") && !is_locked(&db, "l"));
            db.flush().expect("flush");
            db.compact().expect("compact");
        }
        let db = Db::open(&path, small_levels()).expect("open");
        let prepared = found(&db, "one");
        match commits {
            true => drop(prepared.commit().expect("commit")),
            false => prepared.rollback().expect("rollback"),
        }
        let value = db.get("key").expect("get");
        assert_eq!(value, commits.then(|| vec![7; 3000]));
        assert!(names(&db).is_empty() && !is_locked(&db, "key"));
        drop(db);
        let db = Db::open(&path, small_levels()).expect("open");
        assert!(names(&db).is_empty() && !is_locked(&db, "key"));
        assert_eq!(db.get("key").expect("get").is_some(), commits);
    }
}

#[test]
fn an_open_that_forgets_what_was_locked_loses_updates() {
    let loses = || {
        let dir = TempDir::new("forgets");
        let db = Db::open(dir.join("store"), small_levels()).expect("open");
        let mut transaction = begin(&db);
        transaction.put(db.default_keyspace(), "key", "mine").expect("put");
        transaction.prepare("one").expect("prepared");
        drop(db);
        let options = small_levels().lock_timeout(Duration::from_millis(5));
        let db = Db::open(dir.join("store"), options).expect("open");
        db.put("key", "other").is_ok()
    };
    assert!(!loses());
    planted::plant(Some(Bug::PreparedForgotten));
    assert!(loses(), "the locks of an open are idle");
    planted::plant(None);
}

/// What was locked beyond what is changed, after an open too.
#[test]
fn explicit_locks_are_there_again() {
    let dir = TempDir::new("explicit");
    let db = Db::open(dir.join("store"), small_levels()).expect("open");
    let space = db.default_keyspace();
    db.put("read", "1").expect("put");
    let mut transaction = begin(&db);
    transaction.get_for_update(space, "read").expect("get");
    transaction.get_for_share(space, "shared").expect("get");
    transaction.lock_range(space, "s".."t", LockMode::Exclusive).expect("lock");
    transaction.put(space, "key", "1").expect("put");
    drop(transaction.prepare("one").expect("prepared"));
    drop(db);
    let db = Db::open(dir.join("store"), small_levels()).expect("open");
    for key in ["read", "shared", "key", "s7"] {
        assert!(is_locked(&db, key), "{key}");
    }
    assert!(!is_locked(&db, "t"));
    found(&db, "one").commit().expect("commit");
    assert_eq!(db.locks(9).count, 0);
}

/// Removes all that it is asked of.
struct Nothing;

impl CompactionFilter for Nothing {
    fn decide(&self, keyspace: &str, _: usize, _: &[u8], _: &[u8]) -> Decision {
        assert!(!keyspace.starts_with("strandline:"), "{keyspace}");
        Decision::Remove
    }
}

#[test]
fn no_code_of_the_application_decides_over_it() {
    let dir = TempDir::new("filtered");
    let hooks = || Hooks::default().compaction_filter(Arc::new(Nothing));
    let open = || Db::open_with(dir.join("store"), small_levels(), hooks()).expect("open");
    let db = open();
    let mut transaction = begin(&db);
    transaction.put(db.default_keyspace(), "key", "1").expect("put");
    drop(transaction.prepare("one").expect("prepared"));
    db.flush().expect("flush");
    db.compact().expect("compact");
    drop(db);
    let db = open();
    found(&db, "one").commit().expect("commit");
    assert_eq!(db.get("key").expect("get").as_deref(), Some(&b"1"[..]));
}

/// Keyspaces have other numbers in a repaired store.
#[test]
fn a_repaired_store_has_it() {
    let dir = TempDir::new("repaired");
    let db = Db::open(dir.join("store"), small_levels()).expect("open");
    db.create_keyspace("gone").expect("create");
    let orders = db.create_keyspace("orders").expect("create");
    db.create_keyspace("accounts").expect("create");
    db.drop_keyspace("gone").expect("drop");
    let mut transaction = begin(&db);
    transaction.put(&orders, "key", "1").expect("put");
    drop(transaction.prepare("one").expect("prepared"));
    drop((orders, db));
    repair(dir.join("store"), dir.join("mended"), small_levels()).expect("repair");
    let db = Db::open(dir.join("mended"), small_levels()).expect("open");
    found(&db, "one").commit().expect("commit");
    let value = |name: &str| db.keyspace(name).expect("there").get("key").expect("get");
    assert_eq!(value("orders").as_deref(), Some(&b"1"[..]));
    assert_eq!(value("accounts"), None);
}

#[test]
fn what_no_commit_takes_is_refused_when_it_is_prepared() {
    let (_dir, db) = open("unfit");
    let space = db.default_keyspace();
    let mut transaction = db.begin(TransactionOptions::new()).expect("begin");
    transaction.put(space, vec![1; 70_000], "1").expect("put");
    let error = transaction.prepare("one").err().expect("no key is that long");
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    assert_eq!((names(&db).len(), db.locks(9).count), (0, 0));
}

/// A store without files: whether a prepared transaction commits once others have filled it.
fn commits_in_a_full_store(records: u64, len: usize) -> bool {
    let region = Arc::new(Region::heap(16 << 20, None).expect("heap"));
    let format = pool::Format { zone_len: 64 << 10, manifest_len: 256 << 10 };
    steps::format(&region, format, 0x5eed).expect("format");
    let full = Options::default().ssd(SsdSource::None).background_threads(0);
    let db = Db::open_region(region, full).expect("open");
    let space = db.default_keyspace();
    let mut transaction = begin(&db);
    for no in 0..records {
        transaction.put(space, format!("mine{no}"), vec![7; len]).expect("put");
    }
    let prepared = transaction.prepare("one").expect("prepared");
    let mut no = 0_u64;
    let kind = loop {
        no += 1;
        match db.put(format!("other{no}"), vec![no as u8; 700]) {
            Ok(()) => {}
            Err(error) => break error.kind(),
        }
    };
    assert_eq!(kind, ErrorKind::NoSpace);
    match prepared.commit() {
        Ok(_) => {
            let there = |no| db.get(format!("mine{no}")).expect("get") == Some(vec![7; len]);
            assert!((0..records).all(there) && names(&db).is_empty());
            true
        }
        Err(error) => {
            assert_eq!((error.kind(), names(&db).len()), (ErrorKind::NoSpace, 1), "{error}");
            false
        }
    }
}

/// Of few records, of so many that their commit is a large one, and of a long value.
#[test]
fn space_is_set_aside_for_its_commit() {
    for (records, len) in [(10, 500), (800, 700), (1, 900_000)] {
        assert!(commits_in_a_full_store(records, len), "{records} of {len}");
    }
    planted::plant(Some(Bug::PreparedSpaceTaken));
    assert!(!commits_in_a_full_store(800, 700), "nothing needs to be set aside");
    planted::plant(None);
}

const ZONE_LEN: u64 = 4096;
const MANIFEST_LEN: u64 = 4096;
const ZONES: u64 = 24;
const REGION_LEN: u64 =
    (4096 + ZONES * 72 + 2 * MANIFEST_LEN).next_multiple_of(4096) + ZONES * ZONE_LEN;

fn options() -> Options {
    Options::default()
        .background_threads(0)
        .recovery_threads(1)
        .lock_timeout(Duration::from_millis(1))
}

/// Where a transaction is, at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Open,
    Prepared,
    Ended,
}

/// The power fails at every moment of a prepare and of the decision: the transaction is in one stage as a whole, and not before the
/// one that was acknowledged.
#[test]
fn it_is_whole_whenever_the_power_fails() {
    for commits in [true, false] {
        let (pm, region) = SimPm::new(Mode::Adr, REGION_LEN);
        let region = Arc::new(region);
        let format = pool::Format { zone_len: ZONE_LEN, manifest_len: MANIFEST_LEN };
        steps::format(&region, format, 0x5eed).expect("format");
        let db = Db::open_region(region, options()).expect("open");
        db.create_keyspace("other").expect("create");
        let spaces = [db.default_keyspace().clone(), db.keyspace("other").expect("there")];
        db.put("a", "old").expect("put");
        let begun = pm.events();
        let mut transaction = begin(&db);
        for (no, space) in spaces.iter().enumerate() {
            transaction.put(space, "a", "new").expect("put");
            transaction.put(space, format!("key{no}"), vec![1; 150]).expect("put");
        }
        let prepared = transaction.prepare("one").expect("prepared");
        let is_prepared = pm.events();
        let by_decision = |end: bool| if end { "new" } else { "old" };
        match commits {
            true => drop(prepared.commit().expect("commit")),
            false => prepared.rollback().expect("rollback"),
        }
        let has_ended = pm.events();
        let mut rng = Rng::new(1);
        let mut seen = [0; 3];
        for event in begun..=has_ended {
            let mut media = pm.media_at(event);
            let torn = media.torn();
            for round in 0..4 {
                let choice = |count: usize| match round {
                    0 => 0,
                    1 => count - 1,
                    _ => rng.below(count as u64) as usize,
                };
                let counts: Vec<usize> = torn.iter().map(|torn| torn.count()).collect();
                let mut choose = choice;
                let choices: Vec<u16> =
                    counts.into_iter().map(|count| choose(count) as u16).collect();
                let image = media.survivor(&torn, &choices);
                let (_pm, region) = SimPm::survivor(Mode::Adr, &image);
                let region: Arc<Region> = Arc::new(region);
                let db = Db::open_region(region, options()).expect("recovery");
                let a = db.get("a").expect("get");
                let others = [
                    db.keyspace("other").expect("there").get("a").expect("get").is_some(),
                    db.get("key0").expect("get").is_some(),
                    db.keyspace("other").expect("there").get("key1").expect("get").is_some(),
                ];
                let is_new = a.as_deref() == Some(b"new");
                assert!(others.iter().all(|other| *other == is_new), "at {event}: {others:?}");
                let stage = match (names(&db).is_empty(), is_new) {
                    (false, false) => {
                        assert!(db.put("a", "other").is_err(), "at {event}: it is not locked");
                        Stage::Prepared
                    }
                    (true, true) => Stage::Ended,
                    (true, false) if !commits && event > is_prepared => Stage::Ended,
                    (true, false) => Stage::Open,
                    (false, true) => panic!("at {event}: committed and prepared"),
                };
                let least = match event {
                    _ if event >= has_ended => Stage::Ended,
                    _ if event >= is_prepared => Stage::Prepared,
                    _ => Stage::Open,
                };
                assert!(stage >= least, "at {event}: {stage:?}, and {least:?} was acknowledged");
                seen[stage as usize] += 1;
                // What was decided can be decided again, and is.
                if stage == Stage::Prepared {
                    found(&db, "one").commit().expect("commit");
                    assert_eq!(
                        db.get("a").expect("get").as_deref(),
                        Some(by_decision(true).as_bytes())
                    );
                    assert!(names(&db).is_empty());
                }
            }
        }
        assert!(seen.iter().all(|seen| *seen > 4), "{seen:?}");
    }
}
