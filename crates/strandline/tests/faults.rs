//! The device refuses calls, one of them or all from one on, at every place where the engine makes any.
//!
//! Whatever fails: nothing panics, no answer is wrong, nothing acknowledged is lost, errors say what they are. Once the
//! device works again, so does the store, without being opened anew, and it holds exactly what was written to it.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{dump, ends, heap};
use ssd::{Call, Failure, Faulty, Fs, Memory, Rule};
use strandline::{Db, Error, ErrorKind, Options, ReadOptions, Region, steps};

const SST: &str = "/sst";
/// When background threads have done all there is to do.
const SETTLED: Duration = Duration::from_secs(10);
const ZONE_BYTES: u64 = 1 << 10;
const ZONES: u64 = 40;
const MANIFEST_BYTES: u64 = 8 << 10;
/// Writes of the workload: several times what the pool holds.
const WRITES: u64 = 700;
/// Keys written.
const KEYS: u64 = 150;
/// Writes refused one after the other, after which the workload waits for the device.
const PATIENCE: u32 = 2;

/// A store whose device can be made to fail.
struct Place {
    fs: Arc<Faulty<Memory>>,
    region: Arc<Region>,
    model: BTreeMap<Vec<u8>, Vec<u8>>,
    background_threads: u32,
    /// Writes refused.
    refused: u32,
    /// For messages.
    what: String,
}

fn key(i: u64) -> Vec<u8> {
    format!("key{:05}", i.wrapping_mul(7919) % KEYS).into_bytes()
}

fn value(i: u64) -> Vec<u8> {
    let mut value = format!("{i} ").into_bytes();
    value.resize(60 + i as usize % 50, b'0' + (i % 10) as u8);
    value
}

impl Place {
    fn new(what: String) -> Place {
        let region = heap(
            4096 + (ZONES * 72 + 2 * MANIFEST_BYTES).next_multiple_of(4096) + ZONES * ZONE_BYTES,
        );
        let format = pool::Format { zone_len: ZONE_BYTES, manifest_len: MANIFEST_BYTES };
        steps::format(&region, format, 7).expect("format");
        let fs = Arc::new(Faulty::new(Memory::default()));
        Place { fs, region, model: BTreeMap::new(), background_threads: 0, refused: 0, what }
    }

    fn try_open(&self) -> strandline::Result<Db> {
        let options = Options::default()
            .memtable_bytes(2 << 10)
            .table_bytes(3 << 10)
            .block_cache(8 << 10)
            .background_threads(self.background_threads)
            .recovery_threads(1);
        Db::open_on(Arc::clone(&self.region), Arc::clone(&self.fs) as Arc<dyn Fs>, SST, options)
    }

    /// Opens the store; if the device does not let it, once more without faults.
    fn open(&self) -> Db {
        self.try_open().unwrap_or_else(|error| {
            self.assert_told(&error);
            self.heal();
            self.try_open().unwrap_or_else(|error| panic!("{}: open: {error}", self.what))
        })
    }

    fn heal(&self) {
        self.fs.set_rules(Vec::new());
    }

    /// An error is what the device said, not what it is not: nothing is damaged, nothing is broken for good.
    fn assert_told(&self, error: &Error) {
        let device = matches!(error.kind(), ErrorKind::Io | ErrorKind::NoSpace);
        assert!(device && !error.context().is_empty(), "{}: {error}", self.what);
    }

    fn write(&mut self, db: &Db, i: u64) -> bool {
        let (key, value) = (key(i), value(i));
        let delete = i % 7 == 3;
        let written = if delete { db.delete(&key) } else { db.put(&key, &value) };
        match (written, delete) {
            (Ok(()), true) => drop(self.model.remove(&key)),
            (Ok(()), false) => drop(self.model.insert(key, value)),
            (Err(error), _) => {
                self.assert_told(&error);
                self.refused += 1;
                return false;
            }
        }
        true
    }

    /// A read says what was written, or that the device failed.
    fn read(&self, db: &Db, i: u64) {
        match db.get(key(i)) {
            Ok(found) => {
                assert_eq!(found.as_ref(), self.model.get(&key(i)), "{}: key {i}", self.what);
            }
            Err(error) => self.assert_told(&error),
        }
    }

    /// Everything from `from` to `to`; gives up early where every write is refused.
    fn load(&mut self, db: &Db, from: u64, to: u64) {
        let mut patience = PATIENCE;
        for i in from..to {
            patience = if self.write(db, i) { PATIENCE } else { patience - 1 };
            if patience == 0 {
                return;
            }
            if i % 8 == 0 {
                self.read(db, i / 3);
            }
        }
    }

    fn told<T>(&self, result: strandline::Result<T>) {
        if let Err(error) = result {
            self.assert_told(&error);
        }
    }

    fn assert_same(&self, db: &Db) {
        let found = dump(db.default_keyspace(), &ReadOptions::default());
        assert!(found == self.model, "{}: a scan differs", self.what);
        for i in 0..KEYS {
            let found = db.get(key(i)).unwrap_or_else(|error| panic!("{}: {error}", self.what));
            assert_eq!(found.as_ref(), self.model.get(&key(i)), "{}: key {i}", self.what);
        }
    }

    /// Files that the store does not name once work is done, that of background threads, too.
    fn orphans(&self, db: &Db) -> BTreeSet<String> {
        let begun = Instant::now();
        loop {
            let (there, named) = self.files(db);
            let left = &there - &named;
            let whole = there.is_superset(&named);
            let quiet =
                whole && !left.iter().any(|name| name.ends_with(".sst") || name.ends_with(".blob"));
            if quiet || self.background_threads == 0 || begun.elapsed() > SETTLED {
                assert!(whole, "{}", self.what);
                return left;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Files that are there, and those that the store names.
    fn files(&self, db: &Db) -> (BTreeSet<String>, BTreeSet<String>) {
        while !db
            .work(usize::MAX)
            .unwrap_or_else(|error| panic!("{}: {error}", self.what))
            .is_idle()
        {}
        let mut there: BTreeSet<String> =
            self.fs.list(Path::new(SST)).expect("list").into_iter().collect();
        assert!(there.remove("OWNER"), "{}: a directory without an owner", self.what);
        let properties = db.properties();
        let levels = properties.keyspaces.iter().flat_map(|space| &space.levels);
        let tables = levels.flat_map(|level| &level.tables).map(|table| &table.path);
        let values = properties.keyspaces.iter().flat_map(|space| &space.value_files);
        let named: BTreeSet<String> = tables
            .chain(values.map(|file| &file.path))
            .map(|path| path.file_name().expect("name").to_string_lossy().into_owned())
            .collect();
        (there, named)
    }

    /// The workload, under whatever rules hold; then without any.
    fn run(&mut self) {
        let db = self.open();
        self.load(&db, 0, WRITES / 2);
        self.told(db.compact());
        self.load(&db, WRITES / 2, WRITES * 3 / 4);
        drop(db);
        let db = self.open();
        self.load(&db, WRITES * 3 / 4, WRITES);
        self.told(db.compact());
        (0..KEYS).for_each(|i| self.read(&db, i));
        self.heal();
        self.recover(db);
    }

    /// The device works again.
    fn recover(&mut self, db: Db) {
        self.assert_same(&db);
        for i in WRITES..WRITES + 100 {
            assert!(self.write(&db, i), "{}: refused although nothing fails", self.what);
        }
        db.compact().unwrap_or_else(|error| panic!("{}: {error}", self.what));
        self.assert_same(&db);
        // What a claim could not remove, the next open does.
        let left = self.orphans(&db);
        assert!(left.iter().all(|name| name.starts_with("OWNER.")), "{}: {left:?}", self.what);
        assert!(db.check().expect("check").damage.is_empty(), "{}", self.what);
        drop(db);
        let db = self.try_open().unwrap_or_else(|error| panic!("{}: {error}", self.what));
        assert!(db.recovery().damage.is_empty());
        self.assert_same(&db);
        assert_eq!(self.orphans(&db), BTreeSet::new(), "{}", self.what);
    }
}

/// Calls of each kind that the workload makes if none fails.
fn calls() -> impl Fn(Call) -> u64 {
    let mut place = Place::new("no fault".into());
    place.run();
    let fs = Arc::clone(&place.fs);
    move |call| fs.calls(call)
}

/// All places where a call of this kind can fail, or `most` of them.
fn places(count: u64, most: u64) -> impl Iterator<Item = u64> {
    let stride = (count / most).max(1);
    (1..=count).step_by(stride as usize)
}

fn fail_everywhere(call: Call, failures: &[Failure], most: u64) {
    let count = calls()(call);
    let (mut runs, mut struck, mut refused) = (0, 0, 0);
    for number in places(count, most) {
        for failure in failures {
            for for_ever in [false, true] {
                let rule = Rule::new(number, *failure).of(call);
                let rule = if for_ever { rule.for_ever() } else { rule };
                let mut place = Place::new(rule.to_string());
                place.fs.set_rules(vec![rule]);
                place.run();
                // One failure is got over: what failed is done again before a writer is refused.
                assert!(for_ever || place.refused == 0, "{}", place.what);
                runs += 1;
                struck += place.fs.struck();
                refused += place.refused;
            }
        }
    }
    assert!(runs > 0 && struck > 0, "{call}: nothing failed");
    println!("{call}: {count} calls, {runs} runs, {struck} failures, {refused} writes refused");
}

const REFUSALS: [Failure; 4] =
    [Failure::Io, Failure::NoSpace, Failure::Quota, Failure::Interrupted];

fn third(call: Call) -> Rule {
    Rule::new(3, Failure::Io).of(call)
}

/// Here what failed is tried again by itself, after a pause, and writers wait for it.
#[test]
fn background_threads_go_on_when_the_device_does() {
    let calls = [Call::Create, Call::Append, Call::Sync, Call::SyncDir, Call::Read, Call::Remove];
    let once = calls.map(third);
    let from_then_on = [Call::Create, Call::SyncDir].map(|call| third(call).for_ever());
    for rule in once.into_iter().chain(from_then_on.clone()) {
        let mut place = Place::new(format!("two threads, {rule}"));
        place.background_threads = 2;
        place.fs.set_rules(vec![rule.clone()]);
        place.run();
        assert!(place.fs.struck() > 0, "{}", place.what);
        assert!(from_then_on.contains(&rule) || place.refused == 0, "{}", place.what);
    }
}

#[test]
fn creating_a_table_fails() {
    fail_everywhere(Call::Create, &REFUSALS, u64::MAX);
}

#[test]
fn writing_a_table_fails() {
    fail_everywhere(Call::Append, &[&REFUSALS[..], &[Failure::Short]].concat(), 60);
}

#[test]
fn syncing_a_table_fails() {
    fail_everywhere(Call::Sync, &[&REFUSALS[..], &[Failure::LosesPages]].concat(), u64::MAX);
}

#[test]
fn syncing_the_directory_fails() {
    fail_everywhere(Call::SyncDir, &REFUSALS, u64::MAX);
}

#[test]
fn opening_a_table_fails() {
    fail_everywhere(Call::Open, &[Failure::Io, Failure::Interrupted], 60);
}

#[test]
fn reading_a_table_fails() {
    fail_everywhere(Call::Read, &[Failure::Io, Failure::Interrupted], 60);
}

#[test]
fn removing_a_table_fails() {
    fail_everywhere(Call::Remove, &REFUSALS, u64::MAX);
}

#[test]
fn claiming_the_directory_fails() {
    for call in [Call::Exists, Call::CreateDir, Call::Link] {
        fail_everywhere(call, &REFUSALS, u64::MAX);
    }
}

#[test]
fn listing_and_renaming_fail() {
    fail_everywhere(Call::List, &REFUSALS, u64::MAX);
    assert_eq!(calls()(Call::Rename), 0, "tables are written under the name that they keep");
}

#[test]
fn a_check_lists_what_the_device_does_not_give() {
    let mut place = Place::new("check".into());
    let db = place.open();
    place.load(&db, 0, WRITES);
    db.compact().expect("compact");
    place.fs.set_rules(vec![Rule::new(1, Failure::Io).of(Call::Read).for_ever()]);
    let found = db.check().expect("goes on").damage;
    let files = found.iter().filter(|damage| damage.file.is_some()).count();
    assert!(files > 5, "{found:?}");
    assert!(found.iter().any(|damage| damage.what.contains("cannot be proven")), "{found:?}");
    place.heal();
    assert_eq!(db.check().expect("check").damage, []);
}

/// With hardly any descriptors a compaction could not even be begun, since its inputs could not be opened. That counted as
/// work that comes soon: a write that found no space slept for ever.
#[test]
fn a_write_ends_where_no_compaction_can_be_begun() {
    for background_threads in [0, 2] {
        ends(move || {
            let mut place = Place::new("no descriptors".into());
            place.background_threads = background_threads;
            let db = place.open();
            let mut writes = 0;
            let mut write = |most: u64| {
                let end = writes + most;
                while writes < end {
                    writes += 1;
                    db.put(key(writes), value(writes))?;
                }
                Ok(())
            };
            write(WRITES).expect("the device works");
            place
                .fs
                .set_rules(vec![Rule::new(1, Failure::Io).of(Call::Open).on(".sst").for_ever()]);
            let refused: Result<(), Error> = write(100 * WRITES);
            let refused = refused.expect_err("nothing leaves persistent memory");
            assert_eq!(refused.kind(), ErrorKind::Io, "{refused}");
            assert!(refused.context().contains("open"), "{refused}");
            place.fs.set_rules(Vec::new());
            write(WRITES).expect("the device works again");
        });
    }
}
