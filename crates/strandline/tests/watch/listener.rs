//! What a store tells its listener, end to end.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::common::{TempDir, ends, heap, noise, numbered, scattered, small_store as options};
use ssd::{Call, Failure, Faulty, Fs, Memory, Rule};
use strandline::events::{CompactionReason, FoundBy, StallReason};
use strandline::{
    Db, ErrorKind, Event, Hooks, KeyspaceOptions, Level0Form, Listener, Options, PmSource,
    SsdSource, WalIo, steps,
};

/// Remembers all events.
#[derive(Default)]
struct Heard(Mutex<Vec<Event>>);

impl Listener for Heard {
    fn on_event(&self, event: &Event) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event.clone());
    }
}

impl Heard {
    fn new() -> (Arc<Heard>, Hooks) {
        let heard = Arc::new(Heard::default());
        (Arc::clone(&heard), Hooks::default().listener(heard))
    }

    /// The events since the last call.
    fn take(&self) -> Vec<Event> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn fill(db: &Db, count: u64) {
    (0..count).for_each(|i| db.put(scattered(i), noise(i, 0)).expect("put"));
}

fn names(events: &[Event]) -> Vec<&'static str> {
    events.iter().map(Event::name).collect()
}

/// Each job begins once and then ends once.
#[track_caller]
fn assert_pairs(events: &[Event]) {
    let mut open = Vec::new();
    for event in events {
        match event {
            Event::FlushBegun(begun) => open.push(begun.job),
            Event::CompactionBegun(begun) => open.push(begun.job),
            Event::FlushCompleted(ended) => take(&mut open, ended.begun.job),
            Event::CompactionCompleted(ended) => take(&mut open, ended.begun.job),
            _ => {}
        }
    }
    assert!(open.is_empty(), "jobs {open:?} have no end");
}

#[track_caller]
fn take(open: &mut Vec<u64>, job: u64) {
    let at = open.iter().position(|each| *each == job);
    open.remove(at.expect("it began, and has not ended"));
}

#[test]
fn a_flush_and_a_compaction_are_told_from_begin_to_end() {
    let dir = TempDir::new("listener");
    let (heard, hooks) = Heard::new();
    let db = Db::open_with(dir.path(), options(), hooks).expect("open");
    db.put("apple", "red").expect("put");
    db.put("pear", "green").expect("put");
    db.flush().expect("flush");
    let events = heard.take();
    assert_eq!(names(&events), ["flush_begun", "flush_completed"]);
    assert_pairs(&events);
    let [Event::FlushBegun(begun), Event::FlushCompleted(ended)] = &events[..] else { panic!() };
    assert_eq!((&begun.keyspace[..], begun.entries), ("default", 2));
    assert!(begun.bytes >= 128 && ended.begun.bytes == begun.bytes);
    let run = ended.outcome.as_ref().expect("well").as_ref().expect("a run");
    assert!(run.entries == 2 && run.bytes > 0);

    db.compact().expect("compact");
    let events = heard.take();
    assert_eq!(names(&events), ["compaction_begun", "table_created", "compaction_completed"]);
    let [Event::CompactionBegun(begun), Event::TableCreated(made), Event::CompactionCompleted(end)] =
        &events[..]
    else {
        panic!()
    };
    assert_eq!((begun.reason, begun.from, begun.runs), (CompactionReason::Manual, 0, 1));
    assert_eq!((begun.entries, begun.tables, made.level), (2, 0, begun.to));
    assert!(made.path.as_ref().expect("a file").exists());
    let output = end.outcome.as_ref().expect("well");
    assert_eq!((output.tables, output.bytes), (1, made.bytes));

    // Another, onto the same keys: the table goes.
    let first = made.id;
    db.put("apple", "yellow").expect("put");
    db.compact().expect("compact");
    db.work(1).expect("work");
    let events = heard.take();
    assert_pairs(&events);
    let gone = |event: &Event| matches!(event, Event::TableDeleted(gone) if gone.id == first);
    assert!(events.iter().any(gone), "{events:?}");
    // They are printed as names and values.
    assert!(events[0].to_string().starts_with("flush_begun job=3 keyspace=default bytes="));
}

#[test]
fn background_threads_tell_in_order_too() {
    ends(|| {
        let dir = TempDir::new("listener-threads");
        let (heard, hooks) = Heard::new();
        let db = Db::open_with(dir.path(), options().background_threads(2), hooks).expect("open");
        fill(&db, 40_000);
        db.compact().expect("compact");
        db.close().expect("close");
        let events = heard.take();
        assert_pairs(&events);
        for name in ["flush_completed", "compaction_completed", "table_created", "table_deleted"] {
            assert!(names(&events).contains(&name), "{name} is missing");
        }
    });
}

#[test]
fn index_runs_that_become_one_are_a_compaction() {
    let (heard, hooks) = Heard::new();
    let options = options().pm(PmSource::Heap).ssd(SsdSource::None);
    let db = Db::open_with("unused-for-heap", options, hooks).expect("open");
    for round in 0..2_u8 {
        db.put("key", [round]).expect("put");
        db.flush().expect("flush");
    }
    heard.take();
    db.compact().expect("compact");
    let events = heard.take();
    assert_eq!(names(&events), ["compaction_begun", "compaction_completed"]);
    let Event::CompactionBegun(begun) = &events[0] else { panic!() };
    assert_eq!(begun.reason, CompactionReason::MergeRuns);
    assert_eq!((begun.from, begun.to, begun.runs, begun.entries), (0, 0, 2, 2));
}

/// Writers that are ahead of background work are slowed: that begins, has a reason, and ends.
#[test]
fn a_stall_begins_and_ends() {
    let (heard, hooks) = Heard::new();
    let options = options().pm(PmSource::Heap).ssd(SsdSource::None).pm_size(2 << 20);
    let db = Db::open_with("unused-for-heap", options, hooks).expect("open");
    for i in 0..40_000 {
        db.put(numbered(i % 500), noise(i, 0)).expect("put");
    }
    let events = heard.take();
    let stalls = |events: &[Event]| -> Vec<Event> {
        let is_one = |event: &&Event| matches!(event, Event::StallBegun(_) | Event::StallEnded(_));
        events.iter().filter(is_one).cloned().collect()
    };
    let began = stalls(&events);
    let [Event::StallBegun(first), ..] = &began[..] else { panic!("no stall: {began:?}") };
    assert_ne!(first.reason, StallReason::Level0, "runs are merged at once");

    db.delete_range(b"", b"z").expect("delete");
    db.compact().expect("compact");
    while !db.work(1 << 20).expect("work").is_idle() {}
    let all: Vec<Event> = began.into_iter().chain(stalls(&heard.take())).collect();
    for pair in all.chunks(2) {
        let [Event::StallBegun(begun), Event::StallEnded(ended)] = pair else { panic!("{pair:?}") };
        assert!(begun.reason == ended.reason && !ended.duration.is_zero());
    }
}

/// Of a store that is full, and where a writer was refused, the stall ends with the store.
#[test]
fn a_full_store_stalls_for_space() {
    let (heard, hooks) = Heard::new();
    let options = options().pm(PmSource::Heap).ssd(SsdSource::None).pm_size(1 << 20);
    let db = Db::open_with("unused-for-heap", options, hooks).expect("open");
    let full = (0..).find_map(|i| db.put(scattered(i), noise(i, 0)).err()).expect("full");
    assert_eq!(full.kind(), ErrorKind::NoSpace);
    db.close().expect("close");
    let events = heard.take();
    assert_pairs(&events);
    let begun = names(&events).iter().filter(|name| **name == "stall_begun").count();
    let ended = names(&events).iter().filter(|name| **name == "stall_ended").count();
    assert!(begun > 0 && begun == ended, "{begun} {ended}");
}

#[test]
fn what_the_device_refuses_is_told_once_and_the_compaction_ends() {
    let fs = Arc::new(Faulty::new(Memory::default()));
    let dir = Path::new("/sst");
    fs.create_dir_all(dir).expect("made");
    let (heard, hooks) = Heard::new();
    let shelf = Some((Arc::clone(&fs) as Arc<dyn Fs>, dir));
    let db = steps::open(heap(8 << 20), shelf, options(), hooks).expect("open");
    db.put("apple", "red").expect("put");
    fs.set_rules(vec![Rule::new(1, Failure::Io).of(Call::Create).for_ever()]);
    for _ in 0..2 {
        assert_eq!(db.compact().expect_err("refused").kind(), ErrorKind::Io);
    }
    let events = heard.take();
    assert_pairs(&events);
    let failed: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::BackgroundError(failed) => Some(failed),
            _ => None,
        })
        .collect();
    let [failed] = &failed[..] else { panic!("{events:?}") };
    assert!(failed.error.kind() == ErrorKind::Io && !failed.refuses_writes);
    let ended = events.iter().find_map(|event| match event {
        Event::CompactionCompleted(ended) => Some(&ended.outcome),
        _ => None,
    });
    assert_eq!(ended.expect("told").as_ref().expect_err("failed").kind(), ErrorKind::Io);
    fs.set_rules(Vec::new());
    db.compact().expect("the device works again");
}

/// A log that cannot be written: no more writes are taken, and the writer's thread tells it.
#[test]
fn a_store_that_takes_no_more_writes_says_so() {
    let fs = Arc::new(Faulty::new(Memory::default()));
    let dir = Path::new("/sst");
    fs.create_dir_all(dir).expect("made");
    fs.create_dir_all(Path::new("/wal")).expect("made");
    let log = Path::new("/wal");
    let region = steps::journaled(
        fs.clone(),
        log,
        &Options::default().wal_io(WalIo::Cached),
        Some((7, 256 << 10)),
    );
    let region = region.expect("begins").expect("a region");
    let format = pool::Format { zone_len: 4 << 10, manifest_len: 16 << 10 };
    steps::format(&region, format, 7).expect("format");
    let (heard, hooks) = Heard::new();
    let shelf = Some((Arc::clone(&fs) as Arc<dyn Fs>, dir));
    let options = options().memtable_bytes(16 << 10);
    let db = steps::open(region, shelf, options, hooks).expect("open");
    db.put("apple", "red").expect("put");
    assert!(heard.take().is_empty());
    fs.set_rules(vec![Rule::new(1, Failure::Io).of(Call::Write).on("wal").for_ever()]);
    db.put("pear", "green").expect_err("refused");
    let events = heard.take();
    let [Event::BackgroundError(failed)] = &events[..] else { panic!("{events:?}") };
    assert!(failed.refuses_writes && failed.error.context().contains("/wal"), "{failed:?}");
    assert_eq!(db.put("pear", "green").expect_err("refused").kind(), ErrorKind::Closed);
    assert!(heard.take().is_empty(), "told once");
}

#[test]
fn damage_is_told_with_file_offset_and_finder() {
    let dir = TempDir::new("listener-damage");
    let path = {
        let (heard, hooks) = Heard::new();
        let db = Db::open_with(dir.path(), options(), hooks).expect("open");
        fill(&db, 200);
        db.compact().expect("compact");
        let made = heard.take().into_iter().find_map(|event| match event {
            Event::TableCreated(made) => made.path,
            _ => None,
        });
        made.expect("a table")
    };
    let file = OpenOptions::new().write(true).open(&path).expect("open");
    file.write_all_at(&[0x5a; 8], 100).expect("written");
    let (heard, hooks) = Heard::new();
    let db = Db::open_with(dir.path(), options(), hooks).expect("open");
    let found = |events: Vec<Event>, by: FoundBy| {
        let found = events.into_iter().find_map(|event| match event {
            Event::CorruptionFound(found) if found.by == by => Some(found),
            _ => None,
        });
        let found = found.unwrap_or_else(|| panic!("not told: {by}"));
        assert_eq!(found.file.as_deref(), path.to_str(), "{found:?}");
        assert!(found.offset.is_some_and(|offset| offset <= 100), "{found:?}");
        found
    };
    let failures = (0..200).filter(|i| db.get(scattered(*i)).is_err()).count();
    assert!(failures > 0);
    let read = found(heard.take(), FoundBy::Read);
    assert_eq!(read.keyspace.as_deref(), Some("default"));
    let failed = db.iter().find_map(Result::err).expect("damaged");
    assert_eq!(failed.kind(), ErrorKind::Corruption);
    found(heard.take(), FoundBy::Read);
    assert!(!db.check().expect("check").damage.is_empty());
    found(heard.take(), FoundBy::Check);
    fill(&db, 200);
    assert_eq!(db.compact().expect_err("damaged").kind(), ErrorKind::Corruption);
    let events = heard.take();
    assert_pairs(&events);
    found(events, FoundBy::Compaction);
}

/// Panics at each event.
struct Fragile;

impl Listener for Fragile {
    fn on_event(&self, _event: &Event) {
        panic!("application code");
    }
}

#[test]
fn a_listener_that_panics_harms_nothing() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let meant = panic.payload().downcast_ref::<&str>() == Some(&"application code");
        if !meant {
            print(panic);
        }
    }));
    ends(|| {
        for threads in [0, 1] {
            let dir = TempDir::new("listener-panics");
            let (heard, hooks) = Heard::new();
            let hooks = hooks.listener(Arc::new(Fragile));
            let options = options().background_threads(threads);
            let db = Db::open_with(dir.path(), options, hooks).expect("open");
            fill(&db, 2000);
            db.compact().expect("compact");
            db.close().expect("close");
            let told = heard.take().len() as u64;
            let properties = db.properties();
            assert_eq!(properties.hook_failures, told, "each is counted, and others go on");
            let first = properties.hook_failure.expect("one");
            assert!(first.contains("hook listener panicked at event"), "{first}");
            let db = Db::open(dir.path(), self::options()).expect("open");
            assert_eq!(db.keys().count(), 2000);
        }
    });
}

/// Events at which [`Busy`] does anything.
const EVENTS_MAX: u64 = 300;

/// Reads and writes the store at each event, and flushes it now and then.
#[derive(Default)]
struct Busy {
    db: OnceLock<Db>,
    count: Mutex<u64>,
}

impl Listener for Busy {
    fn on_event(&self, event: &Event) {
        let Some(db) = self.db.get() else { return };
        let count = {
            let mut count = self.count.lock().expect("whole");
            *count += 1;
            *count
        };
        // Each write sets off other events.
        if count > EVENTS_MAX {
            return;
        }
        // A store that is full, or closed, refuses; that ends, too.
        let _full = db.put(format!("event{}", count % 50), noise(count, 1));
        let _closed = db.get("event1");
        let _properties = db.properties();
        assert!(db.iter().take(3).count() <= 3);
        if matches!(event, Event::CompactionCompleted(_)) && count % 5 == 0 {
            let _full = db.flush();
        }
    }
}

#[test]
fn a_listener_may_use_the_store() {
    ends(|| {
        for threads in [0, 1, 2] {
            for form in [Level0Form::GlobalIndex, Level0Form::Sst] {
                let dir = TempDir::new("listener-busy");
                let busy = Arc::new(Busy::default());
                let hooks = Hooks::default().listener(busy.clone());
                // So little room that writers, the listener among them, wait for space.
                let options = options().pm_size(2 << 20).background_threads(threads).level0(form);
                let db = Db::open_with(dir.path(), options, hooks).expect("open");
                assert!(busy.db.set(db.clone()).is_ok());
                fill(&db, 30_000);
                db.compact().expect("compact");
                let other = db.create_keyspace_with("other", KeyspaceOptions::new());
                other.expect("create").put("key", "value").expect("put");
                db.drop_keyspace("other").expect("drop");
                close(&db);
                assert!(*busy.count.lock().expect("whole") > 20);
                let db = Db::open(dir.path(), self::options()).expect("open");
                assert!(db.get(scattered(29_999)).expect("get").is_some());
            }
        }
    });
}

/// Closes a store that its listener may be using in a background thread at this moment.
fn close(db: &Db) {
    while let Err(error) = db.close() {
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        std::thread::yield_now();
    }
}

/// As [`Busy`], in a store without SSD that is filled until it refuses.
#[test]
fn a_listener_may_write_to_a_full_store() {
    ends(|| {
        for threads in [0, 1] {
            let busy = Arc::new(Busy::default());
            let hooks = Hooks::default().listener(busy.clone());
            let options = options()
                .pm(PmSource::Heap)
                .ssd(SsdSource::None)
                .pm_size(1 << 20)
                .background_threads(threads);
            let db = Db::open_with("unused-for-heap", options, hooks).expect("open");
            assert!(busy.db.set(db.clone()).is_ok());
            let full = (0..).find_map(|i| db.put(scattered(i), noise(i, 0)).err()).expect("full");
            assert_eq!(full.kind(), ErrorKind::NoSpace);
            close(&db);
        }
    });
}

/// Empties the store when writers are slowed for the first time, and remembers how much memory is free then.
#[derive(Default)]
struct Emptier {
    db: OnceLock<Db>,
    free: OnceLock<u64>,
}

/// Deletes all keys, lets background work free their memory, and tells how much is free.
fn emptied(db: &Db) -> u64 {
    db.delete_range(b"", b"z").expect("delete");
    db.compact().expect("compact");
    while !db.work(1 << 20).expect("work").is_idle() {}
    db.properties().pm_free
}

impl Listener for Emptier {
    fn on_event(&self, event: &Event) {
        if let (Event::StallBegun(_), Some(db)) = (event, self.db.get()) {
            self.free.get_or_init(|| emptied(db));
        }
    }
}

/// The put that is slowed does background work itself, and tells the listener. Were it to pin its View meanwhile, that would
/// hold the memory of all that the listener deletes.
#[test]
fn a_put_that_tells_a_listener_holds_no_view() {
    let emptier = Arc::new(Emptier::default());
    let hooks = Hooks::default().listener(emptier.clone());
    let options = options().pm(PmSource::Heap).ssd(SsdSource::None).pm_size(2 << 20);
    let db = Db::open_with("unused-for-heap", options, hooks).expect("open");
    assert!(emptier.db.set(db.clone()).is_ok());
    let mut puts = 0..40_000;
    let slowed = puts.any(|i| {
        db.put(numbered(i % 500), noise(i, 0)).expect("put");
        emptier.free.get().is_some()
    });
    assert!(slowed, "{:?}", db.properties().hook_failure);
    let (then, now) = (emptier.free.get().expect("told"), emptied(&db));
    assert!(then + (64 << 10) >= now, "{then} bytes were free in the listener, {now} are now");
    db.close().expect("close");
}

/// Tries to close the store at each flush that ends.
#[derive(Default)]
struct Closer {
    db: OnceLock<Db>,
    refused: Mutex<Vec<ErrorKind>>,
}

impl Listener for Closer {
    fn on_event(&self, event: &Event) {
        if let (Event::FlushCompleted(_), Some(db)) = (event, self.db.get()) {
            let refused = db.close().expect_err("refused");
            self.refused.lock().expect("whole").push(refused.kind());
        }
    }
}

/// The close would wait for the call in which the listener is told, or for its thread.
#[test]
fn a_listener_cannot_close_the_store() {
    ends(|| {
        for threads in [0, 1] {
            let dir = TempDir::new("listener-closes");
            let closer = Arc::new(Closer::default());
            let hooks = Hooks::default().listener(closer.clone());
            let options = options().background_threads(threads);
            let db = Db::open_with(dir.path(), options, hooks).expect("open");
            assert!(closer.db.set(db.clone()).is_ok());
            fill(&db, 2000);
            db.flush().expect("flush");
            db.close().expect("close");
            let refused = closer.refused.lock().expect("whole");
            assert!(!refused.is_empty() && refused.iter().all(|kind| *kind == ErrorKind::Busy));
        }
    });
}

/// What is under way when the store is closed was begun, and ends.
#[test]
fn a_flush_that_a_close_gives_up_has_an_end() {
    let dir = TempDir::new("listener-close");
    let (heard, hooks) = Heard::new();
    let db = Db::open_with(dir.path(), options(), hooks).expect("open");
    fill(&db, 300);
    steps::switch_memtable(db.default_keyspace());
    db.work(1).expect("it begins");
    assert_eq!(names(&heard.take()), ["flush_begun"]);
    db.close().expect("close");
    let events = heard.take();
    let [Event::FlushCompleted(ended)] = &events[..] else { panic!("{events:?}") };
    assert_eq!(ended.outcome.as_ref().expect_err("given up").kind(), ErrorKind::Closed);
}

#[test]
fn a_socket_that_cannot_be_made_is_told() {
    let dir = TempDir::new("listener-socket");
    std::fs::create_dir_all(dir.path()).expect("made");
    std::fs::write(dir.join("inspect.sock"), "mine").expect("written");
    let (heard, hooks) = Heard::new();
    let db = Db::open_with(dir.path(), options().inspect(true), hooks).expect("open");
    let events = heard.take();
    let [Event::InspectionFailed(failed)] = &events[..] else { panic!("{events:?}") };
    assert_eq!(Some(&failed.why), db.properties().inspect_failure.as_ref());
}
