//! Stores that share threads, memory and a block cache.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::{TempDir, ends};
use pmem::in_fork;
use strandline::{
    CompactionFilter, Db, Decision, ErrorKind, Event, Hooks, Listener, Options, PmSource, Runtime,
    RuntimeOptions, WriteOptions,
};

const MIB: u64 = 1 << 20;

fn runtime(threads: u32) -> Runtime {
    let options = RuntimeOptions::default().threads(threads).dram_budget(64 * MIB);
    Runtime::new(options).expect("a runtime")
}

fn small() -> Options {
    Options::default().pm(PmSource::Dram).pm_size(2 * MIB).memtable_bytes(16 << 10)
}

fn key(i: usize) -> String {
    format!("key {i:06}")
}

/// Waits for what background work does; [`ends`] bounds it.
fn until(mut what: impl FnMut() -> bool) {
    while !what() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn many_stores_flush_compact_and_come_back() {
    ends(|| {
        let dir = TempDir::new("runtime-many");
        let runtime = runtime(2);
        let paths: Vec<_> = (0..30).map(|i| dir.path().join(i.to_string())).collect();
        for round in 0..2 {
            let opened = paths.iter().map(|path| runtime.open(path, small()).expect("open"));
            let stores: Vec<Db> = opened.collect();
            assert_eq!(runtime.figures().stores, paths.len());
            for (number, db) in stores.iter().enumerate() {
                for i in 0..2000 {
                    let value = format!("{number} {round} {i} {}", "x".repeat(100));
                    db.put(key(i), value).expect("put");
                }
            }
            // Each has written several memtables, and threads that none of them has flush those.
            for (number, db) in stores.iter().enumerate() {
                until(|| {
                    let levels = db.properties();
                    levels.keyspaces[0].subranges.iter().any(|subrange| !subrange.runs.is_empty())
                        || levels.ssd.is_some_and(|ssd| ssd.bytes > 0)
                });
                let value = db.get(key(1999)).expect("get").expect("there");
                assert!(value.starts_with(format!("{number} {round} 1999 ").as_bytes()));
            }
            if round == 0 {
                stores.iter().for_each(|db| db.compact().expect("compact"));
            }
            // Tables of all stores have the same numbers, and lie in one cache.
            for (number, db) in stores.iter().enumerate() {
                for i in (0..2000).step_by(17) {
                    let value = db.get(key(i)).expect("get").expect("there");
                    assert!(value.starts_with(format!("{number} {round} {i} ").as_bytes()));
                }
            }
            drop(stores);
            let figures = runtime.figures();
            assert_eq!((figures.stores, figures.cache.held), (0, 0));
            // Blocks make room for others in time.
            assert_eq!(figures.dram_bytes, figures.cache.charged);
        }
    });
}

#[test]
fn memory_that_idle_stores_hold_goes_to_those_that_write() {
    ends(|| {
        let options = RuntimeOptions::default().threads(1).dram_budget(4 * MIB).block_cache(0);
        let runtime = Runtime::new(options).expect("a runtime");
        let dir = TempDir::new("runtime-budget");
        // Memtables that nothing but want of memory would flush.
        let options = || small().pm_size(16 * MIB).memtable_bytes(64 * MIB);
        let mut stores = Vec::new();
        let mut most = 0;
        for number in 0..16 {
            let db = runtime.open(dir.path().join(number.to_string()), options()).expect("open");
            for i in 0..10_000 {
                db.put(key(i), "value").expect("put");
            }
            stores.push(db);
            most = most.max(runtime.figures().dram_bytes);
        }
        let runs = |db: &Db| db.properties().keyspaces[0].subranges[0].runs.len();
        // Of the first stores, which have not been written to for long, some were flushed.
        until(|| stores[..8].iter().any(|db| runs(db) > 0));
        until(|| runtime.figures().dram_bytes < 4 * MIB);
        for db in &stores {
            assert_eq!(db.get(key(9_999)).expect("get").as_deref(), Some(&b"value"[..]));
        }
    });
}

/// What all stores hold, blocks of tables apart.
fn indexes(runtime: &Runtime) -> u64 {
    let figures = runtime.figures();
    figures.dram_bytes - figures.cache.charged
}

#[test]
fn memtables_that_hold_little_are_not_flushed_for_others() {
    ends(|| {
        let options = RuntimeOptions::default().threads(1).dram_budget(4 * MIB).block_cache(0);
        let runtime = Runtime::new(options).expect("a runtime");
        let dir = TempDir::new("runtime-little");
        let options = || small().pm_size(16 * MIB).memtable_bytes(64 * MIB);
        let open = |name: &str| runtime.open(dir.path().join(name), options()).expect("open");
        let many = open("many");
        // Together they hold more than any one memtable.
        let spaces: Vec<_> = (0..30)
            .map(|number| many.create_keyspace(&number.to_string()).expect("create"))
            .collect();
        spaces.iter().for_each(|space| space.put("key", "value").expect("put"));
        let other = open("other");
        for i in 0..100_000 {
            other.put(key(i), "value").expect("put");
        }
        let runs = |db: &Db| {
            let spaces = db.properties().keyspaces;
            let subranges = spaces.iter().flat_map(|space| &space.subranges);
            subranges.map(|subrange| subrange.runs.len()).sum::<usize>()
        };
        until(|| runs(&other) > 0);
        assert_eq!(runs(&many), 0, "each would lose the rest of a zone");
        for space in &spaces {
            assert_eq!(space.get("key").expect("get").as_deref(), Some(&b"value"[..]));
        }
    });
}

#[test]
fn what_a_store_holds_is_known_as_it_grows_and_gone_when_it_is_closed() {
    ends(|| {
        let runtime = runtime(1);
        let dir = TempDir::new("runtime-grows");
        let options = small().pm_size(64 * MIB).memtable_bytes(64 * MIB);
        let db = runtime.open(dir.path(), options).expect("open");
        // All of it fits the first zone, so that nothing else calls for a look.
        for i in 0..12_000 {
            db.put(key(i), "").expect("put");
        }
        let held = db.properties().keyspaces[0].index_dram_bytes;
        assert!(held > 4 * (64 << 10), "{held}");
        assert!(indexes(&runtime) >= held / 2, "{} of {held}", indexes(&runtime));
        // A handle keeps its memory; the others do not make up for that.
        let handle = db.clone();
        db.close().expect("close");
        let figures = runtime.figures();
        assert_eq!((figures.stores, figures.dram_bytes - figures.cache.charged), (0, 0));
        let _closed = handle.put("late", "value").expect_err("closed");
        assert_eq!(indexes(&runtime), 0);
    });
}

/// Fills another store when its own is flushed.
#[derive(Default)]
struct WritesElsewhere {
    other: Mutex<Option<Db>>,
    written: AtomicUsize,
}

impl Listener for WritesElsewhere {
    fn on_event(&self, event: &Event) {
        let here = std::thread::current();
        let is_pool = here.name().is_some_and(|name| name.starts_with("strandline-bg"));
        if !is_pool || !matches!(event, Event::FlushCompleted(_)) {
            return;
        }
        let Some(other) = self.other.lock().expect("whole").take() else { return };
        // More than its memory, so that it must be flushed and merged, or brought to tables, meanwhile.
        for i in 0..200 {
            other.put(key(i % 10), [3; 50_000]).expect("put");
        }
        self.written.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_listener_may_write_to_another_store_of_the_only_thread() {
    ends(|| {
        let dir = TempDir::new("runtime-elsewhere");
        let runtime = runtime(1);
        let writes = Arc::new(WritesElsewhere::default());
        let hooks = Hooks::default().listener(Arc::clone(&writes) as Arc<dyn Listener>);
        let first = runtime.open_with(dir.path().join("first"), small(), hooks).expect("open");
        let second = runtime.open(dir.path().join("second"), small()).expect("open");
        *writes.other.lock().expect("whole") = Some(second.clone());
        let mut number = 0;
        until(|| {
            // Flushes that this thread ends do not count.
            first.put(key(number), [7; 1000]).expect("put");
            number += 1;
            writes.written.load(SeqCst) > 0
        });
        for i in 0..10 {
            assert_eq!(second.get(key(i)).expect("get").as_deref(), Some(&[3; 50_000][..]));
        }
    });
}

/// Panics when its store lets it go.
struct PanicsAtItsEnd(Arc<AtomicBool>);

impl CompactionFilter for PanicsAtItsEnd {
    fn decide(&self, _: &str, _: usize, _: &[u8], _: &[u8]) -> Decision {
        Decision::Keep
    }
}

impl Drop for PanicsAtItsEnd {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
        panic!("at its end");
    }
}

#[test]
fn a_panic_as_a_store_goes_on_a_thread_of_the_runtime_leaves_that_thread_to_the_others() {
    ends(|| {
        let dir = TempDir::new("runtime-panic");
        let runtime = runtime(1);
        let (ended, dropping) = (Arc::<AtomicBool>::default(), Arc::new(Dropping::default()));
        let hooks = Hooks::default()
            .listener(Arc::clone(&dropping) as Arc<dyn Listener>)
            .compaction_filter(Arc::new(PanicsAtItsEnd(Arc::clone(&ended))));
        let first = runtime.open_with(dir.path().join("first"), small(), hooks).expect("open");
        let second = runtime.open(dir.path().join("second"), small()).expect("open");
        *dropping.db.lock().expect("whole") = Some(first);
        let mut number = 0;
        until(|| {
            let db = {
                let db = dropping.db.lock().expect("whole");
                dropping.used.store(db.is_some(), SeqCst);
                db.clone()
            };
            if let Some(db) = db {
                db.put(key(number), [8; 1000]).expect("put");
                number += 1;
            }
            // The last handle goes on the runtime's thread.
            dropping.used.store(false, SeqCst);
            ended.load(SeqCst)
        });
        for i in 0..600 {
            second.put(key(i), [7; 100]).expect("put");
        }
        // Only the thread does that.
        until(|| !second.properties().keyspaces[0].subranges[0].runs.is_empty());
    });
}

/// Knows whether a compaction has begun.
#[derive(Default)]
struct Begun(AtomicBool);

impl Listener for Begun {
    fn on_event(&self, event: &Event) {
        self.0.fetch_or(matches!(event, Event::CompactionBegun(_)), SeqCst);
    }
}

#[test]
fn a_compaction_that_keeps_to_a_rate_leaves_its_thread_to_other_stores() {
    ends(|| {
        let dir = TempDir::new("runtime-rate");
        let runtime = runtime(1);
        // What it writes is paid for in years.
        let options = small().table_bytes(16 << 10).compaction_rate(1);
        let begun = Arc::new(Begun::default());
        let hooks = Hooks::default().listener(Arc::clone(&begun) as Arc<dyn Listener>);
        let slow = runtime.open_with(dir.path().join("slow"), options, hooks).expect("open");
        let second = runtime.open(dir.path().join("second"), small()).expect("open");
        let mut number = 0;
        until(|| {
            let options = WriteOptions::default().no_slowdown(true);
            let _busy = slow.default_keyspace().put_with(key(number), [8; 1000], &options);
            number += 1;
            begun.0.load(SeqCst)
        });
        for i in 0..600 {
            second.put(key(i), [7; 100]).expect("put");
        }
        until(|| !second.properties().keyspaces[0].subranges[0].runs.is_empty());
    });
}

#[test]
fn a_fork_opens_nothing_with_the_runtime_of_its_parent() {
    let dir = TempDir::new("runtime-fork");
    let runtime = runtime(2);
    let db = runtime.open(dir.path().join("parent"), small()).expect("open");
    let (mut handles, path) = (Some((runtime.clone(), db.clone())), dir.path().join("child"));
    let child = || {
        let refused = runtime.open(&path, small());
        drop(handles.take());
        refused.is_err_and(|error| {
            error.kind() == ErrorKind::Closed && error.context().contains("forked")
        })
    };
    assert!(in_fork(child));
    // Where the last handles go, no thread is waited for that is not there.
    let mut own = Some((Runtime::new(RuntimeOptions::default()).expect("a runtime"), 0));
    assert!(in_fork(|| {
        own.take();
        true
    }));
    for i in 0..600 {
        db.put(key(i), [7; 100]).expect("put");
    }
    db.flush().expect("flush");
}

#[test]
fn stores_share_the_rings_by_which_they_reach_files() {
    let dir = TempDir::new("runtime-rings");
    let runtime = runtime(1);
    let open = |number: usize| {
        let db = runtime.open(dir.path().join(number.to_string()), small()).expect("open");
        db.put("key", "value").expect("put");
        db
    };
    let stores: Vec<Db> = (0..100).map(open).collect();
    let links = std::fs::read_dir("/proc/self/fd").expect("descriptors").flatten();
    let links = links.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let rings = links.filter(|link| link.to_string_lossy().contains("io_uring")).count();
    // Those of stores that other tests open, and of as many threads as read at once.
    assert!(rings < stores.len(), "{rings}");
}

/// Stops in a call until it is told to go on.
#[derive(Default)]
struct Stuck {
    entered: AtomicBool,
    over: AtomicBool,
}

impl Listener for Stuck {
    fn on_event(&self, event: &Event) {
        if matches!(event, Event::FlushBegun(_)) {
            self.entered.store(true, SeqCst);
            while !self.over.load(SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

#[test]
fn a_store_that_holds_a_thread_leaves_the_others_to_the_rest() {
    ends(|| {
        let dir = TempDir::new("runtime-stuck");
        let runtime = runtime(2);
        let stuck = Arc::new(Stuck::default());
        let hooks = Hooks::default().listener(Arc::clone(&stuck) as Arc<dyn Listener>);
        let first = runtime.open_with(dir.path().join("stuck"), small(), hooks).expect("open");
        let second = runtime.open(dir.path().join("free"), small()).expect("open");
        let fill = |db: &Db| (0..600).for_each(|i| db.put(key(i), [7; 100]).expect("put"));
        std::thread::scope(|scope| {
            // It may be this thread that tells.
            scope.spawn(|| fill(&first));
            until(|| stuck.entered.load(SeqCst));
            fill(&second);
            second.flush().expect("flush");
            stuck.over.store(true, SeqCst);
        });
        first.flush().expect("flush");
    });
}

/// Drops the last handle of its store when that is flushed.
#[derive(Default)]
struct Dropping {
    db: Mutex<Option<Db>>,
    /// Another handle is there.
    used: AtomicBool,
    dropped: AtomicUsize,
}

impl Listener for Dropping {
    fn on_event(&self, event: &Event) {
        let here = std::thread::current();
        let is_pool = here.name().is_some_and(|name| name.starts_with("strandline-bg"));
        if is_pool && matches!(event, Event::FlushCompleted(_)) {
            let db = self.db.lock().expect("whole").take();
            if db.is_some() {
                until(|| !self.used.load(SeqCst));
                drop(db);
                self.dropped.fetch_add(1, SeqCst);
            }
        }
    }
}

#[test]
fn the_last_handle_may_go_on_a_thread_of_the_runtime() {
    ends(|| {
        let dir = TempDir::new("runtime-last");
        for threads in [1, 2] {
            let path = dir.path().join(threads.to_string());
            let runtime = runtime(threads);
            let dropping = Arc::new(Dropping::default());
            let hooks = Hooks::default().listener(Arc::clone(&dropping) as Arc<dyn Listener>);
            let db = runtime.open_with(&path, small(), hooks).expect("open");
            for i in 0..600 {
                db.put(key(i), [7; 100]).expect("put");
            }
            // The runtime goes with it: its last thread ends by itself.
            drop(runtime);
            *dropping.db.lock().expect("whole") = Some(db);
            let begun = Instant::now();
            while dropping.dropped.load(SeqCst) == 0 {
                // A flush ends on a thread of the runtime, or had ended before the handle was there.
                let db = dropping.db.lock().expect("whole").clone();
                if let Some(db) = db {
                    let _closed = db.put(key(begun.elapsed().as_micros() as usize), [8; 4000]);
                }
            }
            until(|| match Db::open(&path, small()) {
                Ok(db) => db.contains_key(key(599)).expect("get"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
                    false
                }
            });
        }
    });
}

#[test]
fn options_out_of_bounds_are_refused() {
    for options in [
        RuntimeOptions::default().threads(0),
        RuntimeOptions::default().threads(65),
        RuntimeOptions::default().dram_budget(1000),
    ] {
        let refused = Runtime::new(options).err().expect("refused");
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
    }
}
