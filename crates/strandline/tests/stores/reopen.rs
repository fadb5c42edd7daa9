//! A store that goes away without a word a thousand times keeps what it acknowledged and leaks nothing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{
    TempDir, assert_nothing_leaked, dump, ends, heap, kind_of, numbered, small, small_levels,
};
use strandline::{
    Batch, CompactionFilter, Db, Decision, ErrorKind, Hooks, Options, PmSource, ReadOptions,
    RecoveryProgress, RecoveryStep, Seq, steps,
};
use testkit::Rng;

fn cycle(options: Options, pool: u64, cycles: u64, puts: u64) {
    let region = heap(pool);
    let open = || Db::open_region(Arc::clone(&region), options.clone()).expect("open");
    let empty = open().properties().pm_free;
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut rng = Rng::new(cycles);
    let mut last_seq = Seq::ZERO;
    for cycle in 0..cycles {
        let db = open();
        assert_nothing_leaked(&db, &format!("cycle {cycle}"));
        assert!(db.recovery().damage.is_empty());
        let seq = db.properties().visible_seq;
        assert!(seq >= last_seq, "cycle {cycle}: the sequence went from {last_seq} to {seq}");
        for _ in 0..puts {
            let key = format!("{:04}", rng.below(400)).into_bytes();
            let context = |error| panic!("cycle {cycle}: {error}: {:?}", db.properties());
            match rng.below(8) {
                0 => {
                    db.delete(&key).unwrap_or_else(context);
                    model.remove(&key);
                }
                1 => {
                    let value = vec![cycle as u8; 3000];
                    db.put(&key, &value).unwrap_or_else(context);
                    model.insert(key, value);
                }
                2 => {
                    let mut batch = Batch::new();
                    for i in 0..4_u8 {
                        let key = [&key[..], &[i]].concat();
                        batch.put(db.default_keyspace(), &key, &key);
                        model.insert(key.clone(), key);
                    }
                    db.write(&batch).unwrap_or_else(context);
                }
                _ => {
                    let value = cycle.to_le_bytes().repeat(1 + rng.below(12) as usize);
                    db.put(&key, &value).unwrap_or_else(context);
                    model.insert(key, value);
                }
            }
        }
        last_seq = db.properties().visible_seq;
        if cycle % 50 == 0 {
            assert!(dump(db.default_keyspace(), &ReadOptions::default()) == model, "cycle {cycle}");
        }
    }
    let db = open();
    assert!(dump(db.default_keyspace(), &ReadOptions::default()) == model);
    model.keys().for_each(|key| db.delete(key).expect("delete"));
    db.compact().expect("compact");
    db.compact().expect("compact");
    assert_nothing_leaked(&db, "leaks");
    // What an empty store holds: nothing, or the zones that stand ready for the next put, one in each subrange.
    let properties = db.properties();
    let kept = empty.saturating_sub(properties.pm_free);
    let ready = properties.keyspaces[0].subranges.len() as u64 * properties.zone_bytes;
    let allowed = properties.pm_capacity / 1000 + ready;
    assert!(kept <= allowed, "{kept} bytes of {} did not come back", properties.pm_capacity);
    drop(db);
    let db = open();
    let kept = empty.saturating_sub(db.properties().pm_free);
    assert!(kept <= allowed, "{kept} bytes did not come back after a reopen");
    assert!(dump(db.default_keyspace(), &ReadOptions::default()).is_empty());
}

#[test]
fn a_thousand_openings() {
    cycle(small(16 << 10), 16 << 20, 1000, 20);
}

#[test]
fn a_thousand_openings_with_background_work() {
    cycle(small(16 << 10).background_threads(1), 16 << 20, 1000, 20);
}

#[test]
fn openings_with_small_memtables() {
    let options = small(16 << 10).memtable_bytes(16 << 10).recovery_threads(2);
    cycle(options, 16 << 20, 400, 100);
}

/// More openings than zones, one put in each: every opening leaves a zone that is nearly empty.
#[test]
fn more_openings_than_zones() {
    for background_threads in [0, 1] {
        let region = heap(2 << 20);
        let options = small(16 << 10).background_threads(background_threads);
        let open = || Db::open_region(Arc::clone(&region), options.clone()).expect("open");
        let zones = u64::from(open().properties().zones);
        assert!(zones < 200);
        for i in 0..zones * 4 {
            let db = open();
            db.put((i % 50).to_be_bytes(), i.to_le_bytes())
                .unwrap_or_else(|error| panic!("opening {i} of {zones} zones: {error}"));
            assert_nothing_leaked(&db, "leaks");
        }
        let db = open();
        for i in zones * 4 - 50..zones * 4 {
            let found = db.get((i % 50).to_be_bytes()).expect("get");
            assert_eq!(found, Some(i.to_le_bytes().to_vec()));
        }
    }
}

/// Opening and closing alone changes nothing that can be seen.
#[test]
fn opening_alone_takes_no_space() {
    let region = heap(4 << 20);
    let open = || Db::open_region(Arc::clone(&region), small(16 << 10)).expect("open");
    let db = open();
    (0..200_u64).for_each(|i| db.put(i.to_be_bytes(), [1; 100]).expect("put"));
    db.flush().expect("flush");
    (0..200_u64).for_each(|i| db.put(i.to_be_bytes(), [2; 5000]).expect("put"));
    drop(db);
    let (free, seq) = {
        let properties = open().properties();
        (properties.pm_free, properties.visible_seq)
    };
    for _ in 0..300 {
        let db = open();
        assert_eq!(db.properties().pm_free, free);
        assert_eq!(db.properties().visible_seq, seq);
        assert_eq!(db.recovery().zones_swept, 0);
    }
}

/// Writes that are given up at every step leave records that are void, whatever their lengths: recovery walks
/// over them and reports no damage.
#[test]
fn abandoned_writes_of_all_lengths() {
    let region = heap(4 << 20);
    let open = || Db::open_region(Arc::clone(&region), small(0)).expect("open");
    let db = open();
    let space = db.default_keyspace().clone();
    for key_len in (0..300).step_by(3) {
        for value_len in [0, 40, 57, 100, 127, 128, 129, 300, 301, 313] {
            let (key, value) = (vec![1; key_len], vec![2; value_len]);
            let change = steps::Change::Put { key: &key, value: &value };
            for records in [1, 2] {
                let mut write =
                    steps::Write::admit(&vec![(&space, change); records]).expect("admit");
                while !matches!(
                    write.step().expect("step"),
                    steps::Stepped::Did(steps::Step::Reserve { .. })
                ) {}
                write.abandon();
            }
        }
        db.put([9, key_len as u8], b"kept").expect("put");
    }
    drop((space, db));
    let db = open();
    assert!(db.recovery().damage.is_empty(), "{:?}", db.recovery().damage);
    assert_eq!(dump(db.default_keyspace(), &ReadOptions::default()).len(), 100);
}

/// Keeps what it is told.
#[derive(Default)]
struct Heard(Mutex<Vec<(RecoveryStep, u64, u64)>>);

impl RecoveryProgress for Heard {
    fn advanced(&self, step: RecoveryStep, done: u64, total: u64) {
        self.0.lock().expect("no panic").push((step, done, total));
    }
}

#[test]
fn an_open_tells_its_progress_zone_by_zone() {
    let dir = TempDir::new("progress");
    let options = Options::default().pm_size(8 << 20).zone_size(16 << 10);
    let db = Db::open(dir.path(), options.clone()).expect("open");
    (0..200_u32).for_each(|i| db.put(i.to_be_bytes(), [7; 900]).expect("put"));
    db.close().expect("close");
    for recovery_threads in [1, 4] {
        let heard = Arc::new(Heard::default());
        let told: Arc<dyn RecoveryProgress> = Arc::clone(&heard) as _;
        let hooks = Hooks::default().recovery_progress(told);
        let options = options.clone().recovery_threads(recovery_threads);
        let db = Db::open_read_only_with(dir.path(), options, hooks).expect("open");
        let report = db.recovery();
        assert_eq!(report.records, 200);
        assert!(report.scan + report.rebuild <= report.elapsed, "{report:?}");
        let heard = heard.0.lock().expect("no panic");
        for step in [RecoveryStep::Scan, RecoveryStep::Rebuild] {
            let mut of: Vec<u64> =
                heard.iter().filter(|(told, ..)| *told == step).map(|(_, done, _)| *done).collect();
            of.sort_unstable();
            of.dedup();
            assert_eq!(of.len() as u64, report.zones_scanned, "{heard:?}");
            assert_eq!(of.last(), Some(&report.bytes_scanned), "{heard:?}");
        }
        assert!(report.zones_scanned > 10 && heard.len() as u64 == 2 * report.zones_scanned);
        assert!(heard.iter().all(|(_, _, total)| *total == report.bytes_scanned), "{heard:?}");
    }
}

/// Versions of a key went back in whatever order threads met their zones, each past all newer ones: 400,000 overwrites of one
/// key took 5 s to come back with two threads, and four times that for twice as many. One thread took zones by their
/// numbers, which is another order once zones are taken again.
#[test]
fn a_hot_key_comes_back_in_order_on_any_number_of_threads() {
    const OVERWRITES: u64 = 30_000;
    for threads in [1, 2, 4] {
        let region = heap(8 << 20);
        let options = small(16 << 10).recovery_threads(threads);
        let open = || Db::open_region(Arc::clone(&region), options.clone()).expect("open");
        let db = open();
        // Zones in the middle are worn, so that others are taken first.
        let other = db.create_keyspace("other").expect("create");
        (0..15_000_u32).for_each(|no| other.put(no.to_be_bytes(), [7; 150]).expect("put"));
        db.drop_keyspace("other").expect("drop");
        let mut snapshot = None;
        for no in 0..OVERWRITES {
            db.put(b"hot", no.to_be_bytes()).expect("put");
            if no % 10 == 0 {
                db.put(no.to_be_bytes(), b"cold").expect("put");
            }
            if no == OVERWRITES / 2 {
                snapshot = Some(db.snapshot());
            }
        }
        drop((snapshot, other));
        let records = db.properties().keyspaces[0].memtable_records;
        db.close().expect("close");
        let db = open();
        let report = db.recovery();
        assert_eq!((report.records, report.versions_passed), (records, 0), "{threads} threads");
        let newest = (OVERWRITES - 1).to_be_bytes().to_vec();
        assert_eq!(db.get(b"hot").expect("get"), Some(newest));
        for no in (0..OVERWRITES).step_by(10) {
            assert!(db.get(no.to_be_bytes()).expect("get").is_some(), "{no}");
        }
        db.flush().expect("flush");
        assert!(db.check().expect("check").damage.is_empty());
    }
}

/// A store that was closed stayed locked as long as any handle of it was left: a keyspace, a batch that names one, a snapshot.
/// A server that kept one could not reopen what it had closed.
#[test]
fn a_store_that_is_closed_can_be_opened_whatever_handles_are_left() {
    for pm in [PmSource::Auto, PmSource::Dram] {
        let dir = TempDir::new("closed");
        let options = Options::default().pm(pm).pm_size(8 << 20).zone_size(16 << 10);
        let open = || Db::open(dir.path(), options.clone());
        let db = open().expect("open");
        let long = vec![5; 40 << 10];
        for (key, value) in [(b"a", &b"1"[..]), (b"b", &long), (b"c", b"3")] {
            db.put(key, value).expect("put");
        }
        let (other, space) = (db.clone(), db.default_keyspace().clone());
        let mut batch = Batch::new();
        batch.put(&space, b"a", b"late");
        db.close().expect("close");
        let db = open().expect("open again");
        // All that the pool has is written over.
        for i in 0..40_000 {
            db.put(numbered(i % 64), [9; 400]).expect("put");
        }
        let late = other.snapshot();
        let at = ReadOptions::at(&late);
        assert_eq!(kind_of(other.write(&batch)), ErrorKind::Closed);
        assert_eq!(kind_of(space.get_with(b"a", &at)), ErrorKind::Closed);
        assert_eq!(kind_of(space.get_pinned(b"a").map(drop)), ErrorKind::Closed);
        assert_eq!(kind_of(space.cursor(&at).map(drop)), ErrorKind::Closed);
        assert_eq!(kind_of(space.iter().next().expect("an error")), ErrorKind::Closed);
        drop(late);
        drop((batch, space, other));
        assert_eq!(db.get(b"c").expect("get").as_deref(), Some(&b"3"[..]));
        assert!(db.check().expect("check").damage.is_empty());
        assert_eq!(kind_of(open().map(drop)), ErrorKind::Busy);
    }
}

/// What a cursor shows lies in memory that the next process to open the store would write.
#[test]
fn a_store_is_not_closed_under_a_cursor() {
    for pm in [PmSource::Auto, PmSource::Dram] {
        let dir = TempDir::new("closed-iterator");
        let options = Options::default().pm(pm).pm_size(8 << 20).zone_size(16 << 10);
        let open = || Db::open(dir.path(), options.clone());
        let db = open().expect("open");
        let long = vec![5; 40 << 10];
        db.put(b"a", b"1").expect("put");
        db.put(b"b", &long).expect("put");
        let mut iter = db.default_keyspace().cursor(&ReadOptions::default()).expect("iter");
        iter.seek_to_first().expect("seek");
        assert_eq!(kind_of(db.close()), ErrorKind::Busy);
        assert_eq!(kind_of(open().map(drop)), ErrorKind::Busy);
        assert_eq!(iter.key(), Some(&b"a"[..]));
        iter.next().expect("next");
        assert_eq!(iter.value().expect("value"), Some(&long[..]));
        iter.seek_to_first().expect("the store goes on");
        db.put(b"c", b"3").expect("put");
        drop(iter);
        db.close().expect("close");
        let db = open().expect("open again");
        assert_eq!(db.get(b"a").expect("get").as_deref(), Some(&b"1"[..]));
    }
}

/// Calls are under way on several threads when the store is closed, and it is opened at once.
#[test]
fn a_store_is_closed_under_readers_and_writers_and_opened_at_once() {
    ends(|| closed_under_its_users(PmSource::Auto));
}

/// The writer was at the log when the store was closed, and wrote on into a log that was another open's.
#[test]
fn a_store_with_a_log_is_closed_under_readers_and_writers_and_opened_at_once() {
    ends(|| closed_under_its_users(PmSource::Dram));
}

fn closed_under_its_users(pm: PmSource) {
    let dir = TempDir::new("closed-under");
    let small = small_levels().pm(pm);
    let options = small.clone().memtable_bytes(8 << 10);
    let mut written = 0_u64;
    for round in 0..12_u64 {
        let options = options.clone().background_threads((round % 3) as u32);
        let db = Db::open(dir.path(), options).expect("open");
        let there = dump(db.default_keyspace(), &ReadOptions::default());
        assert_eq!(there.len() as u64, written + round, "round {round}");
        let space = db.default_keyspace().clone();
        let until_closed = |result: strandline::Result<()>| match result {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
                false
            }
        };
        written += std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let put = |i: &u64| until_closed(space.put(numbered(written + i), [7; 100]));
                (0..).take_while(put).count() as u64
            });
            let reader = scope.spawn(|| {
                for i in 0.. {
                    let got = space.get(numbered(i % (written + 1)));
                    let right = |got: Option<Vec<u8>>| assert!(got.is_none_or(|v| v == [7; 100]));
                    if !until_closed(got.map(right)) {
                        return;
                    }
                }
            });
            let flusher = scope.spawn(|| while until_closed(db.clone().flush()) {});
            std::thread::sleep(std::time::Duration::from_millis(10));
            db.close().expect("close");
            // Handles of all of them are left.
            let again = Db::open(dir.path(), small.clone()).expect("open at once");
            again.put(format!("again {round}"), "there").expect("put");
            drop(again);
            reader.join().expect("reads");
            flusher.join().expect("flushes");
            writer.join().expect("writes")
        });
    }
}

/// Keeps background threads in a compaction until it is told.
#[derive(Default)]
struct Holdup {
    entered: AtomicBool,
    over: AtomicBool,
}

impl CompactionFilter for Holdup {
    fn decide(&self, _keyspace: &str, _level: usize, _key: &[u8], _value: &[u8]) -> Decision {
        let thread = std::thread::current();
        if thread.name().is_some_and(|name| name.starts_with("strandline-bg")) {
            self.entered.store(true, SeqCst);
            while !self.over.load(SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Decision::Keep
    }
}

/// A close waited for background threads. A call that ended meanwhile through another handle let others in, and the
/// compaction then wrote its edit into a store that was theirs.
#[test]
fn a_store_is_not_let_go_before_its_background_work_has_ended() {
    ends(|| {
        let dir = TempDir::new("closed-over-work");
        let options = || small_levels().memtable_bytes(8 << 10);
        let holdup = Arc::new(Holdup::default());
        let filter = Arc::clone(&holdup) as Arc<dyn CompactionFilter>;
        let hooks = Hooks::default().compaction_filter(filter);
        let background = options().background_threads(1);
        let db = Db::open_with(dir.path(), background, hooks).expect("open");
        std::thread::scope(|scope| {
            scope.spawn(|| (0..).take_while(|i| db.put(numbered(*i), [7; 100]).is_ok()).count());
            while !holdup.entered.load(SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
            scope.spawn(|| db.close().expect("close"));
            while db.get(b"key").is_ok() {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(kind_of(db.flush()), ErrorKind::Closed);
            assert_eq!(kind_of(Db::open(dir.path(), options()).map(drop)), ErrorKind::Busy);
            holdup.over.store(true, SeqCst);
        });
        drop(Db::open(dir.path(), options()).expect("open again"));
    });
}
