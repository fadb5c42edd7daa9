//! Stores whose log is synced as time passes: which threads do it, and who is told where that fails.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use pmem::{Promise, Site};
use ssd::{Call, Disk, Failure, Faulty, Fs, Heed, Memory, Rule, Watch};

use super::worker;
use crate::engine::Engine;
use crate::keyspace::usage::HoldKind;
use crate::runtime::RuntimeOptions;
use crate::{
    Db, ErrorKind, Event, Hooks, Listener, Options, PmSource, Runtime, WalIo, WalSync, steps,
};

const HOUR: Duration = Duration::from_secs(3600);

/// A device whose syncs stall when it is told.
#[derive(Default)]
struct StallingSyncs {
    stalled: Mutex<bool>,
    goes_on: Condvar,
    /// Syncs that wait.
    waiting: Mutex<u32>,
}

impl StallingSyncs {
    fn set(&self, stalled: bool) {
        *self.stalled.lock().expect("alone") = stalled;
        self.goes_on.notify_all();
    }

    fn waiting(&self) -> u32 {
        *self.waiting.lock().expect("alone")
    }
}

impl Watch for StallingSyncs {
    fn before(&self, call: Call, _: &Path) -> Heed {
        if call == Call::Sync {
            *self.waiting.lock().expect("alone") += 1;
            let stalled = self.stalled.lock().expect("alone");
            drop(self.goes_on.wait_while(stalled, |stalled| *stalled).expect("alone"));
            *self.waiting.lock().expect("alone") -= 1;
        }
        Heed::Whole
    }
}

/// Remembers failures, with whether they end writes.
#[derive(Default)]
struct Failures(Mutex<Vec<(ErrorKind, bool)>>);

impl Listener for Failures {
    fn on_event(&self, event: &Event) {
        if let Event::BackgroundError(failed) = event {
            self.0.lock().expect("alone").push((failed.error.kind(), failed.refuses_writes));
        }
    }
}

impl Failures {
    fn hooks() -> (Arc<Failures>, Hooks) {
        let heard = Arc::new(Failures::default());
        (Arc::clone(&heard), Hooks::default().listener(heard))
    }

    fn count(&self) -> usize {
        self.0.lock().expect("alone").len()
    }
}

fn prepared(disk: Memory) -> Memory {
    disk.create_dir_all(Path::new("/wal")).expect("directory");
    disk.sync_dir(Path::new("/")).expect("sync");
    disk
}

fn open(fs: Arc<dyn Fs>, sync: WalSync, threads: u32, hooks: Hooks) -> Db {
    let region = steps::journaled(
        fs,
        Path::new("/wal"),
        &Options::default().wal_sync(sync).wal_io(WalIo::Cached),
        Some((77, 256 << 10)),
    );
    let region = region.expect("open").expect("a region");
    if steps::formatted(&region).is_err() {
        let format = pool::Format { zone_len: 4 << 10, manifest_len: 16 << 10 };
        steps::format(&region, format, 77).expect("format");
    }
    let options = Options::default()
        .pm(PmSource::Dram)
        .memtable_bytes(64 << 10)
        .background_threads(threads)
        .recovery_threads(1);
    steps::open(region, None, options, hooks).expect("open")
}

/// Waits until `holds`, a minute at most.
#[track_caller]
fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether power failure takes nothing that was acknowledged.
fn is_synced(engine: &Engine) -> bool {
    let journal = engine.media.region.journal().expect("a log");
    journal.reached(Promise::Synced) >= journal.reached(Promise::Written)
}

/// Whether the key is there after a power failure that keeps least.
fn is_kept(disk: &Disk) -> bool {
    disk.survivors(3, 1).all(|survivor| {
        let db = open(Arc::new(Memory::new(survivor)), WalSync::Never, 0, Hooks::default());
        db.get("key").expect("get").is_some()
    })
}

/// Writes what is there once more, as a commit does that was under way when writes came to be refused.
fn write_on(engine: &Engine) {
    let region = &engine.media.region;
    let bytes = region.bytes(0, base::LINE).to_vec();
    drop(region.try_fence(region.copy_nt(Site::Record, 0, &bytes)).expect("fence"));
}

#[test]
fn a_sync_in_time_that_fails_ends_writes_and_is_told() {
    for threads in [0, 1] {
        let fs = Arc::new(Faulty::new(prepared(Memory::default())));
        let (heard, hooks) = Failures::hooks();
        let every = WalSync::Interval(Duration::from_millis(100));
        let db = open(Arc::clone(&fs) as Arc<dyn Fs>, every, threads, hooks);
        // Else the put may be the one that syncs.
        db.sync_wal().expect("sync");
        fs.set_rules(vec![Rule::new(1, Failure::Io).of(Call::Sync).on("wal").for_ever()]);
        db.put("key", "value").expect("put");
        wait_until("told", || {
            if threads == 0 {
                let _refused_then = db.work(1);
            }
            heard.count() > 0
        });
        assert_eq!(*heard.0.lock().expect("alone"), [(ErrorKind::Closed, true)]);
        assert_eq!(db.put("key", "value").expect_err("refused").kind(), ErrorKind::Closed);
        // No thread tries again.
        let engine = db.engine();
        assert_eq!((engine.wal_sync_due_in(), engine.sync_wal_if_due()), (None, None));
        assert_eq!(db.close().expect_err("it is not durable").kind(), ErrorKind::Io);
    }
}

#[test]
fn a_close_tells_that_its_sync_failed_and_a_drop_tells_the_listener() {
    for drops in [false, true] {
        let fs = Arc::new(Faulty::new(prepared(Memory::default())));
        let (heard, hooks) = Failures::hooks();
        let db = open(Arc::clone(&fs) as Arc<dyn Fs>, WalSync::Interval(HOUR), 1, hooks);
        db.put("key", "value").expect("put");
        fs.set_rules(vec![Rule::new(1, Failure::Io).of(Call::Sync).on("wal").for_ever()]);
        // The log's upkeep may have synced the first one.
        if is_synced(db.engine()) {
            db.put("key", "value").expect("put");
        }
        if drops {
            drop(db);
        } else {
            let error = db.close().expect_err("not synced");
            assert_eq!(error.kind(), ErrorKind::Io);
            assert!(error.context().contains("/wal"), "{error}");
            db.close().expect("it is closed");
            assert_eq!(db.put("key", "").expect_err("closed").kind(), ErrorKind::Closed);
        }
        assert_eq!(heard.count(), 1);
        assert!(fs.struck() > 0);
    }
}

#[test]
fn a_close_of_what_is_synced_tells_no_failure() {
    let fs = Arc::new(Faulty::new(prepared(Memory::default())));
    let db = open(Arc::clone(&fs) as Arc<dyn Fs>, WalSync::Interval(HOUR), 1, Hooks::default());
    db.put("key", "value").expect("put");
    db.sync_wal().expect("sync");
    fs.set_rules(vec![Rule::new(1, Failure::Io).for_ever()]);
    db.close().expect("all is durable");
}

/// A store stays open with its last handle, of whatever kind that is, and is synced then.
#[test]
fn the_end_of_the_last_iterator_syncs_what_was_written() {
    for threads in [0, 1] {
        let fs = prepared(Memory::default());
        let every = WalSync::Interval(HOUR);
        let db = open(Arc::new(fs.clone()), every, threads, Hooks::default());
        db.put("key", "value").expect("put");
        let iter = db.iter();
        drop(db);
        assert!(!is_kept(&fs.disk()));
        drop(iter);
        assert!(is_kept(&fs.disk()));
    }
}

/// No thread syncs in time any more once the last handle goes, and a hold may stay; nor is what is written since forgotten.
#[test]
fn a_close_syncs_at_once_and_again_when_the_store_is_let_go() {
    let every = WalSync::Interval(HOUR);
    let fs = prepared(Memory::default());
    let db = open(Arc::new(fs.clone()), every, 1, Hooks::default());
    db.put("key", "value").expect("put");
    let engine = Arc::clone(db.engine());
    let hold = engine.hold(HoldKind::Value).expect("open");
    assert!(!is_kept(&fs.disk()));
    drop(db);
    assert!(is_kept(&fs.disk()) && is_synced(&engine));
    // By a call that was under way.
    write_on(&engine);
    assert!(!is_synced(&engine));
    drop(hold);
    assert!(is_synced(&engine));
}

/// A call of another thread that does not end keeps the store from being let go, but not from being synced.
#[test]
fn a_close_syncs_before_it_waits_for_calls() {
    let db =
        open(Arc::new(prepared(Memory::default())), WalSync::Interval(HOUR), 1, Hooks::default());
    db.put("key", "value").expect("put");
    let engine = db.engine();
    let call = engine.call("test").expect("open");
    std::thread::scope(|scope| {
        let began = Instant::now();
        let closes = scope.spawn(|| db.close());
        wait_until("synced", || is_synced(engine));
        assert!(began.elapsed() < Duration::from_secs(8), "the close waits for ten");
        drop(call);
        closes.join().expect("no panic").expect("closed");
    });
}

/// A job, not the log, has failed: the store refuses writes, and those that were under way are acknowledged.
#[test]
fn a_poisoned_store_is_synced_in_time_until_it_is_closed() {
    let every = WalSync::Interval(Duration::from_millis(2));
    let db = open(Arc::new(prepared(Memory::default())), every, 1, Hooks::default());
    db.engine().poison.set("planted");
    for _ in 0..3 {
        write_on(db.engine());
        wait_until("synced", || is_synced(db.engine()));
        std::thread::sleep(Duration::from_millis(5));
    }
    db.close().expect("close");
}

/// Two threads, and three stores whose device stalls: another store's memtables are flushed all the same.
#[test]
fn a_device_that_stalls_leaves_a_thread_to_the_stores_of_other_devices() {
    let runtime = Runtime::new(RuntimeOptions::default().threads(2)).expect("a runtime");
    let stalls = Arc::new(StallingSyncs::default());
    let stores = (0..3).map(|_| {
        let watch = Arc::clone(&stalls) as Arc<dyn Watch>;
        let fs = prepared(Memory::watched(Disk::new(512), watch));
        let every = WalSync::Interval(Duration::from_millis(100));
        open(Arc::new(fs), every, 0, Hooks::default())
    });
    let stores: Vec<Db> = stores.collect();
    // Else a put may be the one that syncs.
    stores.iter().for_each(|db| db.sync_wal().expect("sync"));
    stalls.set(true);
    for db in &stores {
        db.put("key", "value").expect("put");
        worker::start(db.engine(), Some(&runtime)).expect("start");
    }
    wait_until("a sync", || stalls.waiting() > 0);
    let options = Options::default().pm(PmSource::Heap).pm_size(4 << 20).memtable_bytes(16 << 10);
    let other = runtime.open("unused", options).expect("open");
    for i in 0..500 {
        other.put(format!("{i}"), [0; 100]).expect("put");
    }
    wait_until("a flush", || {
        other.properties().keyspaces[0].subranges.iter().any(|subrange| !subrange.runs.is_empty())
    });
    assert_eq!(stalls.waiting(), 1);
    stalls.set(false);
    for db in &stores {
        wait_until("synced", || is_synced(db.engine()));
        db.close().expect("close");
    }
}
