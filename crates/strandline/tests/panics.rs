//! Code of the application that panics, at every call in turn, and then every step of background work: one error for the
//! caller, and a store that goes on, or that says why it takes no more writes.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Once, PoisonError};

use base::planted;
use common::{TempDir, dump, numbered, small_levels};
use strandline::{
    CompactionFilter, Db, Decision, Error, ErrorKind, Hooks, MergeOperator, Options, PmSource,
    ReadOptions, RecoveryProgress, RecoveryStep, Result, SsdSource, steps,
};

/// What is meant to panic says so.
const MEANT: &str = "application code";
const PLANTED: &str = "a planted panic";

/// Runs `what`, which must end. Panics that are meant are not printed.
fn ends(what: impl FnOnce() + Send + 'static) {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let said = panic.payload().downcast_ref::<String>();
            if said.is_none_or(|said| !said.contains(MEANT) && !said.contains(PLANTED)) {
                print(panic);
            }
        }));
    });
    // One after the other: a planted panic is for the thread that comes to it.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    common::ends(what);
}

/// Appends operands, keeps all values; one call in its turn panics.
struct Fragile {
    left: AtomicI64,
}

impl Fragile {
    /// Panics at call `at`, from 1 on; never for 0.
    fn new(at: i64) -> Arc<Fragile> {
        Arc::new(Fragile { left: AtomicI64::new(at) })
    }

    fn hooks(self: &Arc<Fragile>) -> Hooks {
        Hooks::default()
            .merge_operator(Arc::clone(self) as _)
            .compaction_filter(Arc::clone(self) as _)
            .recovery_progress(Arc::clone(self) as _)
    }

    fn call(&self) {
        assert!(self.left.fetch_sub(1, Relaxed) != 1, "{MEANT}");
    }

    fn has_panicked(&self) -> bool {
        self.left.load(Relaxed) <= 0
    }
}

impl MergeOperator for Fragile {
    fn merge(
        &self,
        _keyspace: &str,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>> {
        self.call();
        let mut all = existing.unwrap_or_default().to_vec();
        for operand in operands {
            if operand == b"refused" {
                return None;
            }
            all.extend_from_slice(operand);
        }
        Some(all)
    }
}

impl CompactionFilter for Fragile {
    fn decide(&self, _keyspace: &str, _level: usize, _key: &[u8], _value: &[u8]) -> Decision {
        self.call();
        Decision::Keep
    }
}

impl RecoveryProgress for Fragile {
    fn advanced(&self, _step: RecoveryStep, _done: u64, _total: u64) {
        self.call();
    }
}

/// Checks that a failed call says which hook failed.
#[track_caller]
fn names_the_hook(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Hook, "{error}");
    assert!(error.context().contains("hook ") && error.context().contains(MEANT), "{error}");
}

/// `None` once the call's hook panicked.
#[track_caller]
fn unless_panicked<T>(result: Result<T>) -> Option<T> {
    result.inspect_err(|error| names_the_hook(error)).ok()
}

/// One operand that the operator returned `None` for failed the compaction, after which the keyspace was merged no more
/// until the store was opened again: `compact` said Ok, nothing left persistent memory, and puts to other keys ended in
/// `NoSpace`.
#[test]
fn a_key_that_the_operator_refuses_does_not_keep_the_others_in_memory() {
    for background_threads in [0, 2] {
        ends(move || {
            let dir = TempDir::new("refused");
            let options = small_levels().background_threads(background_threads);
            let fragile = Fragile::new(0);
            let db = Db::open_with(dir.path(), options.clone(), fragile.hooks()).expect("open");
            db.put(b"bad", b"base ").expect("put");
            for _ in 0..3 {
                db.merge(b"bad", b"refused").expect("merge");
            }
            db.compact().expect("the others are compacted");
            let figures = db.properties();
            assert!(figures.hook_failures > 0 && figures.damage_met.is_none());
            let said = figures.hook_failure.expect("the first failure");
            assert!(said.contains("merge_operator") && said.contains("default"), "{said}");
            // Three times what persistent memory has.
            for round in 0..3 {
                for i in 0..10_000 {
                    db.put(numbered(i), [b'a' + round; 300]).expect("put");
                }
            }
            db.compact().expect("compact");
            let keyspace = &db.properties().keyspaces[0];
            assert!(keyspace.levels.iter().any(|level| level.entries() >= 10_000), "they left");
            assert_eq!(db.get(b"bad").expect_err("refused").kind(), ErrorKind::Hook);
            assert_eq!(db.get(numbered(7)).expect("get"), Some(vec![b'c'; 300]));
            drop(db);
            // Nothing of the key was lost: an operator that can combines it.
            let hooks = Hooks::default().merge_operator(Arc::new(Any));
            let db = Db::open_with(dir.path(), options, hooks).expect("open");
            assert_eq!(db.get(b"bad").expect("get").as_deref(), Some(&b"base 3 operands"[..]));
            db.compact().expect("compact");
            assert_eq!(db.get(b"bad").expect("get").as_deref(), Some(&b"base 3 operands"[..]));
            assert_eq!(db.properties().hook_failures, 0);
        });
    }
}

/// Combines whatever it gets.
struct Any;

impl MergeOperator for Any {
    fn merge(
        &self,
        _keyspace: &str,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>> {
        let existing = existing.unwrap_or_default();
        let count = format!("{} operands", operands.len());
        Some([existing, count.as_bytes()].concat())
    }
}

const KEYS: u64 = 12;

/// Values, operands, flushes and compactions, and every kind of read. Each failed call names its hook.
fn merge_and_read(db: &Db) {
    let space = db.default_keyspace();
    for round in 0..4_u8 {
        for i in 0..KEYS {
            if i % 4 == 0 && round % 2 == 0 {
                db.put(numbered(i), [b'a' + round; 20]).expect("put");
            } else if i < 6 || round == 1 {
                db.merge(numbered(i), [b'a' + round; 3]).expect("merge");
            }
        }
        for i in 0..KEYS {
            let _value = unless_panicked(db.get(numbered(i)));
        }
        let keys: Vec<Vec<u8>> = (0..KEYS).map(numbered).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let _values = unless_panicked(space.multi_get(&keys));
        let _told = unless_panicked(space.explain_get(numbered(1)));
        let mut iter = space.cursor(&ReadOptions::default()).expect("iter");
        let mut whole = unless_panicked(iter.seek_to_first());
        while whole.is_some() && iter.valid() {
            whole = unless_panicked(iter.value().map(drop)).and(unless_panicked(iter.next()));
        }
        let mut whole = unless_panicked(iter.seek_to_last());
        while whole.is_some() && iter.valid() {
            whole = unless_panicked(iter.value().map(drop)).and(unless_panicked(iter.prev()));
        }
        drop(iter);
        db.flush().expect("flush");
        if round % 2 == 1 {
            db.compact().expect("compact");
        }
    }
}

/// What `merge_and_read` comes to.
fn model() -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for round in 0..4_u8 {
        for i in 0..KEYS {
            if i % 4 == 0 && round % 2 == 0 {
                model.insert(numbered(i), vec![b'a' + round; 20]);
            } else if i < 6 || round == 1 {
                model.entry(numbered(i)).or_default().extend([b'a' + round; 3]);
            }
        }
    }
    model
}

/// Opens a store; where the listener panics, it can be opened the next time.
fn open(dir: &Path, options: &Options, fragile: &Arc<Fragile>) -> Db {
    let open = || Db::open_with(dir, options.clone(), fragile.hooks());
    unless_panicked(open()).unwrap_or_else(|| open().expect("opened again"))
}

/// A panic of an operator or a filter went through the store: on a caller's thread it left a compaction under way for
/// ever, with its inputs marked and a lock poisoned, so that the next compaction or flush never returned; on a background
/// thread it made the store refuse writes.
#[test]
fn whichever_call_of_a_hook_panics_the_store_goes_on() {
    for background_threads in [0, 2] {
        ends(move || {
            for at in 1.. {
                let dir = TempDir::new("hooks");
                let options = small_levels().background_threads(background_threads);
                let fragile = Fragile::new(at);
                let db = open(dir.path(), &options, &fragile);
                merge_and_read(&db);
                assert!(
                    dump(db.default_keyspace(), &ReadOptions::default()) == model(),
                    "call {at}"
                );
                db.compact().expect("compact");
                assert_eq!(db.properties().refusing_writes, None, "call {at}");
                drop(db);
                let db = open(dir.path(), &options, &fragile);
                assert!(
                    dump(db.default_keyspace(), &ReadOptions::default()) == model(),
                    "call {at}"
                );
                if !fragile.has_panicked() {
                    break;
                }
            }
        });
    }
}

/// A listener that panicked while a store was opened took the process, or left a thread's panic as all there was to see.
#[test]
fn an_open_whose_listener_panics_says_so_and_can_be_done_again() {
    ends(|| {
        let dir = TempDir::new("listener");
        let options = small_levels().recovery_threads(2);
        let db = Db::open(dir.path(), options.clone()).expect("open");
        for i in 0..500 {
            db.put(numbered(i), [b'v'; 100]).expect("put");
        }
        drop(db);
        for at in 1.. {
            let fragile = Fragile::new(at);
            match Db::open_with(dir.path(), options.clone(), fragile.hooks()) {
                Ok(db) => {
                    assert!(!fragile.has_panicked() && at > 4, "call {at}");
                    assert_eq!(dump(db.default_keyspace(), &ReadOptions::default()).len(), 500);
                    break;
                }
                Err(error) => {
                    names_the_hook(&error);
                    assert!(error.context().contains("recovery_progress"), "{error}");
                }
            }
        }
    });
}

/// What each key of a keyspace may hold: what was written last, or, where writes failed behind it, any of these.
struct Followed {
    name: &'static str,
    may_hold: BTreeMap<Vec<u8>, Vec<Option<Vec<u8>>>>,
}

impl Followed {
    fn put(&mut self, db: &Db, key: Vec<u8>, value: &[u8]) -> bool {
        let may_hold = self.may_hold.entry(key.clone()).or_insert_with(|| vec![None]);
        let done = told(db.keyspace(self.name).expect("keyspace").put(&key, value));
        if done {
            may_hold.clear();
        }
        may_hold.push(Some(value.to_vec()));
        done
    }

    #[track_caller]
    fn check(&self, db: &Db, what: &str) {
        let space = db.keyspace(self.name).expect("keyspace");
        let there = dump(&space, &ReadOptions::default());
        assert!(there.keys().all(|key| self.may_hold.contains_key(key)), "{what}: a key too many");
        for (key, may_hold) in &self.may_hold {
            assert!(may_hold.contains(&there.get(key).cloned()), "{what}: {}", key.escape_ascii());
        }
    }
}

/// Whether a call did what it was asked. If not it says that something panicked, or that the store is poisoned.
#[track_caller]
fn told<T>(result: Result<T>) -> bool {
    if let Err(error) = &result {
        let kind = matches!(error.kind(), ErrorKind::Internal | ErrorKind::Closed);
        assert!(kind && error.context().contains("please report this"), "{error}");
    }
    result.is_ok()
}

/// Overwrites keys of all keyspaces; `false` if some write was refused.
fn fill(db: &Db, all: &mut [Followed], round: u8) -> bool {
    let mut done = true;
    for i in 0..70 {
        for each in all.iter_mut() {
            done &= each.put(db, numbered(i), &[b'a' + round; 150]);
        }
    }
    done
}

#[track_caller]
fn check(db: &Db, all: &[Followed], what: &str) {
    all.iter().for_each(|each| each.check(db, what));
}

#[track_caller]
fn nothing_leaks(db: &Db, what: &str) {
    while !db.work(1000).expect(what).is_idle() {}
    let space = db.default_keyspace();
    assert_eq!(steps::leaked_zones(space), 0, "zones, {what}");
    assert_eq!(steps::leaked_tables(space).expect("tables"), 0, "tables, {what}");
}

/// Where a panic leaves memory and manifest apart, or a log with an unknown end.
const POISONS: [&str; 3] = ["after the edit", "free space", "write the log"];

/// One run, in which the step `at` panics: the panic comes out nowhere, every write that was acknowledged is there, before
/// and after the store is opened again, and the store goes on or says why it does not. Returns the step.
fn run_with_a_panic(options: &Options, at: i64) -> Option<&'static str> {
    let dir = TempDir::new("steps");
    let mut all = ["default", "other"].map(|name| Followed { name, may_hold: BTreeMap::new() });
    let db = Db::open(dir.path(), options.clone()).expect("open");
    db.create_keyspace("other").expect("keyspace");
    planted::panic_in(at);
    for round in 0..3 {
        fill(&db, &mut all, round);
        told(if round == 0 { db.flush() } else { db.compact() });
        told(db.work(50));
    }
    let panicked = planted::panicked_in();
    planted::panic_in(0);
    let what = panicked.unwrap_or("no panic");
    check(&db, &all, what);
    if what == "write the log" {
        // The next commit finds out.
        fill(&db, &mut all, 4);
    }
    if let Some(why) = db.properties().refusing_writes {
        assert!(POISONS.iter().any(|step| what.starts_with(step)), "{what} poisons: {why}");
        assert!(!fill(&db, &mut all, 4) && !told(db.flush()) && !told(db.compact()));
        assert!(!told(db.work(1)));
    } else {
        assert!(fill(&db, &mut all, 4), "{what}: writes go on");
        db.flush().expect(what);
        db.compact().expect(what);
        assert!(fill(&db, &mut all, 5), "{what}: writes go on");
        if options.background_threads == 0 {
            nothing_leaks(&db, what);
        }
    }
    check(&db, &all, what);
    drop(db);
    let db = Db::open(dir.path(), options.clone().background_threads(0));
    let db = db.expect("open again");
    check(&db, &all, what);
    assert!(fill(&db, &mut all, 6), "{what}: writes go on after an open");
    db.compact().expect(what);
    check(&db, &all, what);
    nothing_leaks(&db, what);
    panicked
}

/// Lets each step of background work panic in turn, on whichever thread comes to it.
fn every_step_panics(options: Options, expected: &[&str]) {
    for background_threads in [0, 2] {
        let options = options.clone().background_threads(background_threads);
        let mut seen = BTreeSet::new();
        for at in 1.. {
            let Some(step) = run_with_a_panic(&options, at) else { break };
            seen.insert(step);
        }
        for step in expected {
            assert!(background_threads > 0 || seen.contains(*step), "{step} is not among {seen:?}");
        }
    }
}

/// Two panics of background work ended in waits without end: one in a part of a compaction on a caller's thread left it
/// under way, so that no `compact` or `flush` returned any more, and one on a background thread poisoned the store, which
/// those who waited for what it had been at never looked at.
#[test]
fn whichever_step_of_a_store_with_tables_panics_it_goes_on_or_says_why_not() {
    ends(|| {
        let options = small_levels().subranges(2);
        every_step_panics(
            options,
            &[
                "begin a flush",
                "flush",
                "end a flush",
                "before the edit of a flush",
                "after the edit of a flush",
                "before the edit of a cut",
                "after the edit of a cut",
                "begin a compaction",
                "carry a compaction on",
                "compact",
                "end a table",
                "read a table back",
                "before the edit of a compaction",
                "after the edit of a compaction",
                "remove a table",
                "choose a job",
                "free space",
            ],
        );
    });
}

/// The same where nothing leaves memory.
#[test]
fn whichever_step_of_a_store_in_memory_panics_it_goes_on_or_says_why_not() {
    ends(|| {
        let options = small_levels().ssd(SsdSource::None);
        let merge =
            ["merge", "end a merge", "before the edit of a merge", "after the edit of a merge"];
        every_step_panics(options, &merge);
    });
}

/// The same with a log on SSD.
#[test]
fn whichever_step_of_a_store_with_a_log_panics_it_goes_on_or_says_why_not() {
    ends(|| {
        let options = small_levels().pm(PmSource::Dram);
        every_step_panics(options, &["write the log"]);
    });
}
