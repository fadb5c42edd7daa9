//! Many threads at once: none loses a write, sees half a batch, or reads backwards in time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::common::{self, Contents, assert_nothing_leaked, dump, heap};
use strandline::{Batch, Db, ErrorKind, Keyspace, Options, ReadOptions, Region, Snapshot};
use testkit::{Rng, stamp, stamped};

fn options(memtable_bytes: u64, background_threads: u32) -> Options {
    Options::default()
        .zone_size(16 << 10)
        .memtable_bytes(memtable_bytes)
        .background_threads(background_threads)
        .recovery_threads(2)
}

fn open(region: &Arc<Region>, options: &Options) -> Db {
    Db::open_region(Arc::clone(region), options.clone()).expect("open")
}

/// Sets a flag when it goes, so that helpers stop also when a check fails.
struct Finish<'a>(&'a AtomicBool);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn at(snapshot: &Snapshot) -> ReadOptions<'_> {
    ReadOptions::at(snapshot)
}

fn disjoint_and_overlapping(threads: u64, rounds: u64, background_threads: u32) {
    let region = heap(64 << 20);
    let options = options(512 << 10, background_threads);
    let db = open(&region, &options);
    let own = |thread: u64, i: u64| format!("own/{thread:02}/{:04}", i % 500).into_bytes();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let db = &db;
            scope.spawn(move || {
                let mut rng = Rng::new(thread);
                for i in 0..rounds {
                    let key = own(thread, i);
                    db.put(&key, stamp(thread, i % 500, i, 40 + i as usize % 60)).expect("put");
                    // A thread reads what it wrote, and no other thread's value.
                    let seen = db.get(&key).expect("get").expect("was put");
                    assert_eq!(stamped(&seen), Some((thread, i % 500, i)));
                    let shared = rng.below(64);
                    let key = format!("shared/{shared:02}").into_bytes();
                    if rng.chance(1, 8) {
                        db.delete(&key).expect("delete");
                    } else {
                        db.put(&key, stamp(thread, shared, i, 24 + shared as usize)).expect("put");
                    }
                    if let Some(seen) = db.get(&key).expect("get") {
                        let (writer, of, _) = stamped(&seen).expect("a value that was written");
                        assert!(writer < threads && of == shared);
                    }
                }
            });
        }
    });
    let check = |db: &Db| {
        let all = dump(db.default_keyspace(), &ReadOptions::default());
        for thread in 0..threads {
            for i in rounds.saturating_sub(500)..rounds {
                let value = &all[&own(thread, i)];
                assert_eq!(stamped(value), Some((thread, i % 500, i)));
            }
        }
        assert!(db.check().expect("check").damage.is_empty());
        all
    };
    let before = check(&db);
    db.compact().expect("compact");
    assert!(check(&db) == before);
    drop(db);
    assert!(check(&open(&region, &options)) == before);
}

#[test]
fn eight_writers_on_disjoint_and_overlapping_keys() {
    disjoint_and_overlapping(8, 6_000, 1);
    disjoint_and_overlapping(8, 3_000, 0);
}

#[test]
fn sixteen_writers() {
    disjoint_and_overlapping(16, 2_500, 1);
}

const ACCOUNTS: u64 = 64;
const START: u64 = 1000;

fn balance(space: &Keyspace, account: u64, options: &ReadOptions<'_>) -> u64 {
    let value = space.get_with(account.to_be_bytes(), options).expect("get").expect("an account");
    u64::from_le_bytes(value.try_into().expect("8 bytes"))
}

fn audit(spaces: &[Keyspace], snapshot: &Snapshot) {
    let mut total = 0;
    for space in spaces {
        let by_scan = dump(space, &at(snapshot));
        assert_eq!(by_scan.len() as u64, ACCOUNTS);
        for (account, value) in &by_scan {
            let account = u64::from_be_bytes(account[..].try_into().expect("8 bytes"));
            let amount = u64::from_le_bytes(value[..].try_into().expect("8 bytes"));
            assert_eq!(balance(space, account, &at(snapshot)), amount, "scan and get differ");
            total += amount;
        }
    }
    assert_eq!(total, ACCOUNTS * START * spaces.len() as u64, "money was made or lost");
}

/// Transfers between accounts in several keyspaces, each one batch, while auditors add up all accounts in
/// snapshots, and memtables are flushed and merged all the time.
#[test]
fn money_is_neither_made_nor_lost() {
    let region = heap(32 << 20);
    let options = options(64 << 10, 1);
    let db = open(&region, &options);
    let names = ["a", "b", "c"];
    let spaces: Vec<Keyspace> =
        names.iter().map(|name| db.create_keyspace(name).expect("create")).collect();
    let mut batch = Batch::new();
    for space in &spaces {
        for account in 0..ACCOUNTS {
            batch.put(space, account.to_be_bytes(), START.to_le_bytes());
            if batch.len() == 16 {
                db.write(&batch).expect("open accounts");
                batch.clear();
            }
        }
    }
    let done = AtomicBool::new(false);
    // Accounts are locked by number, as a program with transactions of its own would.
    let locks: Vec<std::sync::Mutex<()>> =
        (0..ACCOUNTS * 3).map(|_| std::sync::Mutex::new(())).collect();
    std::thread::scope(|scope| {
        let tellers: Vec<_> = (0..6_u64)
            .map(|teller| {
                let (db, spaces, locks) = (&db, &spaces, &locks);
                scope.spawn(move || {
                    let mut rng = Rng::new(teller);
                    for _ in 0..4000 {
                        let (from, to) = (rng.below(ACCOUNTS * 3), rng.below(ACCOUNTS * 3));
                        if from == to {
                            continue;
                        }
                        let _first = locks[from.min(to) as usize].lock().expect("lock");
                        let _second = locks[from.max(to) as usize].lock().expect("lock");
                        let read = |account: u64| {
                            let space = &spaces[(account % 3) as usize];
                            (
                                space,
                                account / 3,
                                balance(space, account / 3, &ReadOptions::default()),
                            )
                        };
                        let ((from, a, has), (to, b, gets)) = (read(from), read(to));
                        let amount = rng.below(50).min(has);
                        let mut batch = Batch::new();
                        batch.put(from, a.to_be_bytes(), (has - amount).to_le_bytes());
                        batch.put(to, b.to_be_bytes(), (gets + amount).to_le_bytes());
                        db.write(&batch).expect("transfer");
                    }
                })
            })
            .collect();
        for auditor in 0..2 {
            let (db, spaces, done) = (&db, &spaces, &done);
            scope.spawn(move || {
                let mut held = None;
                while !done.load(Ordering::Acquire) {
                    let snapshot = db.snapshot();
                    audit(spaces, &snapshot);
                    // An old snapshot goes on adding up.
                    if auditor == 1 {
                        held.get_or_insert_with(|| db.snapshot());
                    }
                    if let Some(held) = &held {
                        audit(spaces, held);
                    }
                }
            });
        }
        let (db, done) = (&db, &done);
        scope.spawn(move || {
            while !done.load(Ordering::Acquire) {
                db.flush().expect("flush");
                db.compact().expect("compact");
            }
        });
        let _finish = Finish(done);
        tellers.into_iter().for_each(|teller| teller.join().expect("teller"));
    });
    audit(&spaces, &db.snapshot());
    drop((batch, spaces, db));
    let db = open(&region, &options);
    let spaces: Vec<Keyspace> =
        names.iter().map(|name| db.keyspace(name).expect("keyspace")).collect();
    audit(&spaces, &db.snapshot());
}

/// What was read stays true: counters only grow, and a reader never sees one go back, whether it looks up,
/// scans or takes snapshots, across flushes and merges.
#[test]
fn readers_never_see_time_run_backwards() {
    let region = heap(16 << 20);
    let db = open(&region, &options(32 << 10, 1));
    const COUNTERS: u64 = 16;
    let acknowledged: Vec<AtomicU64> = (0..COUNTERS).map(|_| AtomicU64::new(0)).collect();
    for counter in 0..COUNTERS {
        db.put(counter.to_be_bytes(), stamp(0, counter, 0, 32)).expect("put");
    }
    let done = AtomicBool::new(false);
    let version = |value: &[u8], counter: u64| {
        let (_, of, version) = stamped(value).expect("a value that was written");
        assert_eq!(of, counter);
        version
    };
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4_u64)
            .map(|writer| {
                let (db, acknowledged) = (&db, &acknowledged);
                scope.spawn(move || {
                    for version in 1..=5000 {
                        for counter in (writer..COUNTERS).step_by(4) {
                            let value = stamp(writer, counter, version, 32 + version as usize % 50);
                            db.put(counter.to_be_bytes(), &value).expect("put");
                            acknowledged[counter as usize].store(version, Ordering::Release);
                        }
                    }
                })
            })
            .collect();
        for reader in 0..4_u64 {
            let (db, done, acknowledged) = (&db, &done, &acknowledged);
            scope.spawn(move || {
                let mut rng = Rng::new(reader);
                let mut least = [0_u64; COUNTERS as usize];
                let mut see = |counter: u64, floor: u64, value: &[u8]| {
                    let seen = version(value, counter);
                    let least = &mut least[counter as usize];
                    assert!(seen >= *least, "counter {counter} went from {least} back to {seen}");
                    assert!(seen >= floor, "acknowledged {floor} but read {seen}");
                    *least = seen;
                };
                while !done.load(Ordering::Acquire) {
                    let floors: Vec<u64> =
                        acknowledged.iter().map(|at| at.load(Ordering::Acquire)).collect();
                    match (reader + rng.below(2)) % 3 {
                        0 => {
                            let counter = rng.below(COUNTERS);
                            let value = db.get(counter.to_be_bytes()).expect("get").expect("there");
                            see(counter, floors[counter as usize], &value);
                        }
                        1 => {
                            let all = dump(db.default_keyspace(), &ReadOptions::default());
                            assert_eq!(all.len() as u64, COUNTERS);
                            for (counter, value) in (0..).zip(all.values()) {
                                see(counter, floors[counter as usize], value);
                            }
                        }
                        _ => {
                            let keys: Vec<[u8; 8]> = (0..COUNTERS).map(u64::to_be_bytes).collect();
                            let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
                            let all = db.default_keyspace().multi_get(&keys).expect("multi_get");
                            for (counter, value) in (0..).zip(&all) {
                                let value = value.as_ref().expect("there");
                                see(counter, floors[counter as usize], value);
                            }
                        }
                    }
                }
            });
        }
        let _finish = Finish(&done);
        writers.into_iter().for_each(|writer| writer.join().expect("writer"));
    });
}

/// A snapshot answers the same however often it is asked, while everything under it is flushed, merged and
/// cleaned away.
#[test]
fn snapshots_stand_still() {
    for background_threads in [0, 1] {
        let region = heap(12 << 20);
        let db = open(&region, &options(64 << 10, background_threads));
        let keys = 1500_u64;
        let put = |key: u64, version: u64| {
            let value = stamp(0, key, version, 30 + (key ^ version) as usize % 80);
            db.put(key.to_be_bytes(), &value).expect("put");
        };
        (0..keys).for_each(|key| put(key, 0));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for watcher in 0..3_u64 {
                let (db, done) = (&db, &done);
                scope.spawn(move || {
                    let mut kept: Vec<(Snapshot, Contents)> = Vec::new();
                    let mut rng = Rng::new(watcher);
                    while !done.load(Ordering::Acquire) {
                        if kept.len() == 3 {
                            kept.remove(rng.below(3) as usize);
                        }
                        let snapshot = db.snapshot();
                        let seen = dump(db.default_keyspace(), &at(&snapshot));
                        kept.push((snapshot, seen));
                        for (snapshot, seen) in &kept {
                            assert!(dump(db.default_keyspace(), &at(snapshot)) == *seen);
                            let key = rng.below(keys).to_be_bytes();
                            let found = db.default_keyspace().get_with(key, &at(snapshot));
                            assert_eq!(found.expect("get").as_ref(), seen.get(&key[..]));
                        }
                    }
                });
            }
            let _finish = Finish(&done);
            let mut rng = Rng::new(77);
            for version in 1..60_000 {
                let key = rng.below(keys);
                if rng.chance(1, 6) {
                    db.delete(key.to_be_bytes()).expect("delete");
                } else {
                    put(key, version);
                }
                if version % 20_000 == 0 {
                    db.compact().expect("compact");
                }
            }
        });
    }
}

/// Writers, readers and scans go on while others flush, merge, and make and drop keyspaces.
#[test]
fn everything_at_once() {
    for background_threads in [0, 1] {
        let region = heap(32 << 20);
        let options = options(96 << 10, background_threads);
        let db = open(&region, &options);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..4_u64)
                .map(|writer| {
                    let db = &db;
                    scope.spawn(move || {
                        let name = format!("writer-{writer}");
                        let space = db.create_keyspace(&name).expect("create");
                        for i in 0..4000 {
                            let mut batch = Batch::new();
                            let key = (i % 300).to_string().into_bytes();
                            let value = stamp(writer, i % 300, i, 50);
                            batch.put(&space, &key, &value);
                            batch.put(
                                db.default_keyspace(),
                                [name.as_bytes(), &key].concat(),
                                &value,
                            );
                            db.write(&batch).expect("write");
                            if i % 100 == 0 {
                                let snapshot = db.snapshot();
                                for (key, value) in dump(&space, &at(&snapshot)) {
                                    let key = [name.as_bytes(), &key].concat();
                                    let other =
                                        db.default_keyspace().get_with(&key, &at(&snapshot));
                                    assert_eq!(other.expect("get"), Some(value), "half a batch");
                                }
                            }
                        }
                    })
                })
                .collect();
            for dropper in 0..2_u64 {
                let (db, done) = (&db, &done);
                scope.spawn(move || {
                    let mut round = 0_u64;
                    while !done.load(Ordering::Acquire) {
                        let name = format!("passing-{dropper}");
                        let space = db.create_keyspace(&name).expect("create");
                        assert_eq!(
                            space.get(b"k").expect("get"),
                            None,
                            "what was dropped came back"
                        );
                        (0..50_u64).for_each(|i| {
                            space.put(i.to_be_bytes(), stamp(9, i, round, 60)).expect("put");
                        });
                        space.put(b"k", b"v").expect("put");
                        db.drop_keyspace(&name).expect("drop");
                        let error = space.put(b"k", b"v").expect_err("dropped");
                        assert_eq!(error.kind(), ErrorKind::Closed);
                        round += 1;
                    }
                });
            }
            let (db, done) = (&db, &done);
            scope.spawn(move || {
                while !done.load(Ordering::Acquire) {
                    db.flush().expect("flush");
                    db.compact().expect("compact");
                    let _ = db.properties();
                    let _ = db.pool_view();
                }
            });
            let _finish = Finish(done);
            writers.into_iter().for_each(|writer| writer.join().expect("writer"));
        });
        let check = |db: &Db| {
            for writer in 0..4_u64 {
                let space = db.keyspace(&format!("writer-{writer}")).expect("keyspace");
                for i in 3700..4000_u64 {
                    let value = space.get((i % 300).to_string().as_bytes()).expect("get");
                    assert_eq!(stamped(&value.expect("there")), Some((writer, i % 300, i)));
                }
            }
            assert!(db.check().expect("check").damage.is_empty());
        };
        check(&db);
        assert_nothing_leaked(&db, "leaks");
        drop(db);
        check(&open(&region, &options));
    }
}

/// Writers race a drop: each put succeeds or says that the keyspace is gone, afterwards all say so, and
/// no zone stays behind.
#[test]
fn a_drop_under_writers_leaves_nothing_behind() {
    for background_threads in [0, 1] {
        let region = heap(8 << 20);
        // Zones of 1 KiB: nearly every put takes one.
        let options = Options::default()
            .zone_size(1 << 10)
            .memtable_bytes(4 << 10)
            .background_threads(background_threads);
        let db = open(&region, &options);
        let mut wrong = BTreeMap::<String, u32>::new();
        for _ in 0..150 {
            let space = db.create_keyspace("doomed").expect("create");
            std::thread::scope(|scope| {
                for writer in 0..4_u64 {
                    let space = &space;
                    scope.spawn(move || {
                        for i in 0_u64.. {
                            if let Err(error) = space.put(i.to_be_bytes(), stamp(writer, i, 0, 60))
                            {
                                assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
                                return;
                            }
                        }
                    });
                }
                std::thread::sleep(std::time::Duration::from_micros(300));
                db.drop_keyspace("doomed").expect("drop");
            });
            let mut note = |what: &str| *wrong.entry(what.to_owned()).or_default() += 1;
            for (what, result) in [
                ("put", space.put(b"a", b"b")),
                ("get", space.get(b"a").map(drop)),
                ("iter", space.cursor(&ReadOptions::default()).map(drop)),
            ] {
                match result {
                    Ok(()) => note(&format!("{what} on a dropped keyspace succeeds")),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Closed, "{what}"),
                }
            }
            drop(space);
            // The background thread may be looking at what was dropped.
            assert_nothing_leaked(&db, "drop");
        }
        assert!(wrong.is_empty(), "in so many of 150 rounds: {wrong:?}");
    }
}

/// Threads that open the same new directory at once: one gets it, the others are told who has it.
#[test]
fn many_open_at_once() {
    for _ in 0..10 {
        let dir = common::TempDir::new("race");
        let opened = AtomicU64::new(0);
        let options = options(64 << 10, 0).pm_size(1 << 20);
        let barrier = std::sync::Barrier::new(8);
        let dbs: Vec<Option<Db>> = std::thread::scope(|scope| {
            let open = || {
                barrier.wait();
                match Db::open(dir.path(), options.clone()) {
                    Ok(db) => {
                        opened.fetch_add(1, Ordering::Relaxed);
                        db.put(b"k", b"v").expect("put");
                        Some(db)
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
                        None
                    }
                }
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
            threads.into_iter().map(|thread| thread.join().expect("thread")).collect()
        });
        assert_eq!(opened.load(Ordering::Relaxed), 1);
        drop(dbs);
        let db = Db::open(dir.path(), options.clone()).expect("open");
        assert_eq!(db.get(b"k").expect("get"), Some(b"v".to_vec()));
    }
}
