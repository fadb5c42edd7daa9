//! Code of the application that panics, at every call in turn: one error for the caller, and a store that goes on.

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Once};
use std::time::Duration;

use common::{TempDir, dump, numbered, small_levels};
use strandline::{
    CompactionFilter, Db, Decision, Error, ErrorKind, Hooks, MergeOperator, Options, ReadOptions,
    RecoveryProgress, RecoveryStep, Result,
};

/// How long a run may take before it counts as hanging; they take milliseconds.
const HANGS: Duration = Duration::from_secs(60);

/// What is meant to panic says so.
const MEANT: &str = "application code";

/// Runs `what` on a thread of its own, which must end. Panics that are meant are not printed.
fn ends(what: impl FnOnce() + Send + 'static) {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let said = panic.payload().downcast_ref::<String>();
            if said.is_none_or(|said| !said.contains(MEANT)) {
                print(panic);
            }
        }));
    });
    let (done, ended) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        what();
        let _heard = done.send(());
    });
    if ended.recv_timeout(HANGS) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
        panic!("it hangs");
    }
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
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
        Hooks {
            merge_operator: Some(Arc::clone(self) as _),
            compaction_filter: Some(Arc::clone(self) as _),
            recovery_progress: Some(Arc::clone(self) as _),
        }
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
            let options = Options { background_threads, ..small_levels() };
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
                    db.put(&numbered(i), &[b'a' + round; 300]).expect("put");
                }
            }
            db.compact().expect("compact");
            let keyspace = &db.properties().keyspaces[0];
            assert!(keyspace.levels.iter().any(|level| level.entries() >= 10_000), "they left");
            assert_eq!(db.get(b"bad").expect_err("refused").kind(), ErrorKind::Hook);
            assert_eq!(db.get(&numbered(7)).expect("get"), Some(vec![b'c'; 300]));
            drop(db);
            // Nothing of the key was lost: an operator that can combines it.
            let hooks = Hooks { merge_operator: Some(Arc::new(Any)), ..Hooks::default() };
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
                db.put(&numbered(i), &[b'a' + round; 20]).expect("put");
            } else if i < 6 || round == 1 {
                db.merge(&numbered(i), &[b'a' + round; 3]).expect("merge");
            }
        }
        for i in 0..KEYS {
            let _value = unless_panicked(db.get(&numbered(i)));
        }
        let keys: Vec<Vec<u8>> = (0..KEYS).map(numbered).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let _values = unless_panicked(space.multi_get(&keys));
        let _told = unless_panicked(space.explain_get(&numbered(1)));
        let mut iter = space.iter(&ReadOptions::default()).expect("iter");
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
                let options = Options { background_threads, ..small_levels() };
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
        let options = Options { recovery_threads: 2, ..small_levels() };
        let db = Db::open(dir.path(), options.clone()).expect("open");
        for i in 0..500 {
            db.put(&numbered(i), &[b'v'; 100]).expect("put");
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
