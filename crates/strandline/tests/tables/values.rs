//! Values apart from their keys: what lies in value files, that every answer is the same, and that the files go.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use crate::common::{Combines, Contents, Joined, Place, dump, heap, numbered as key, small_levels};
use ssd::{Call, Failure, Faulty, Fs, Memory, Rule};
use strandline::{
    Clock, CompactionFilter, Compression, Db, Decision, Hooks, Keyspace, KeyspaceOptions, Options,
    Owner, ReadOptions, steps,
};
use testkit::Rng;

/// Bytes from which on values lie apart.
const MIN: usize = 1000;
/// Bytes before each record of a value file, and of a value file without any.
const RECORD: usize = 32;
const BARE_FILE: u64 = 62;

fn options() -> Options {
    small_levels().value_files_min(MIN as u64)
}

fn place() -> Place {
    Place::new(options().pm_size, Memory::default())
}

fn open_with(place: &Place, hooks: Hooks) -> Db {
    let tables = Some((Arc::clone(&place.fs), Path::new("/sst")));
    steps::open(Arc::clone(&place.region), tables, options(), hooks).expect("open")
}

/// A value of `len` bytes that does not compress.
fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    std::iter::repeat_with(|| rng.next() as u8).take(len).collect()
}

/// Puts a value of some length on either side of the bound.
fn put(space: &Keyspace, model: &mut Contents, i: u64, seed: u64) {
    let lens = [0, 100, MIN - 1, MIN, MIN + 1, 1500, 2500, 6000];
    let value = bytes(seed << 32 | i, lens[(i + seed) as usize % lens.len()]);
    space.put(key(i), &value).expect("put");
    model.insert(key(i), value);
}

/// Puts long values of `count` keys.
fn fill(space: &Keyspace, count: u64, round: u64) -> Contents {
    let all = (0..count).map(|i| (key(i), bytes(round << 32 | i, 1500)));
    all.inspect(|(key, value)| space.put(key, value).expect("put")).collect()
}

fn work(db: &Db) {
    while !db.work(1 << 20).expect("work").is_idle() {}
}

/// Waits until background threads have nothing left to do.
fn settle(place: &Place, db: &Db) {
    for _ in 0..2000 {
        work(db);
        if db.check().expect("check").space.whole && on_disk(place) == named(db) {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("background work does not end");
}

/// Names of value files in the directory of tables.
fn on_disk(place: &Place) -> BTreeSet<String> {
    let names = place.fs.list(Path::new("/sst")).expect("list").into_iter();
    names.filter(|name| name.ends_with(".blob")).collect()
}

/// Names of the value files that tables refer to.
fn named(db: &Db) -> BTreeSet<String> {
    let files = db.properties().keyspaces.into_iter().flat_map(|space| space.value_files);
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    files.map(|file| name(&file.path)).collect()
}

/// Value files of a keyspace, by figures: bytes of records, bytes that are live, values that are live.
fn figures(db: &Db, space: &str) -> (u64, u64, u64) {
    let spaces = db.properties().keyspaces;
    let space = spaces.iter().find(|each| each.name == space).expect("a keyspace");
    space.value_files.iter().fold((0, 0, 0), |(all, bytes, values), file| {
        assert!(file.tables > 0 && file.live_bytes + BARE_FILE <= file.bytes, "{file:?}");
        (all + file.bytes - BARE_FILE, bytes + file.live_bytes, values + file.live_values)
    })
}

/// Values from `min` on, and the bytes of their records.
fn apart(model: &Contents, min: usize) -> (u64, u64) {
    let long = model.iter().filter(|(_, value)| value.len() >= min);
    long.fold((0, 0), |(values, bytes), (key, value)| {
        (values + 1, bytes + (RECORD + key.len() + value.len()) as u64)
    })
}

/// No damage, no leak, and every file has its owner; values that tables refer to.
#[track_caller]
fn sound(db: &Db) -> u64 {
    let report = db.check().expect("check");
    assert!(report.damage.is_empty(), "{:?}", report.damage);
    assert!(report.space.whole && report.space.leaked.is_empty(), "{:?}", report.space.leaked);
    assert!(report.space.doubled.is_empty(), "{:?}", report.space.doubled);
    let owns = |owner: &Owner| matches!(owner, Owner::Values { .. });
    let owned = report.space.owned.iter().filter(|owned| owns(&owned.owner)).count();
    assert_eq!((owned as u64, owned), (report.value_files, named(db).len()));
    report.values
}

/// Every way to read says the same.
#[track_caller]
fn assert_reads(space: &Keyspace, at: &ReadOptions<'_>, model: &Contents) {
    assert!(dump(space, at) == *model, "a forward walk differs");
    let mut iter = space.cursor(at).expect("cursor");
    iter.seek_to_last().expect("last");
    for (key, value) in model.iter().rev() {
        assert_eq!(iter.key(), Some(&key[..]));
        assert!(iter.value().expect("value") == Some(&value[..]), "a backward walk");
        iter.prev().expect("prev");
    }
    assert!(!iter.valid());
    let keys: Vec<&[u8]> = model.keys().map(|key| &key[..]).collect();
    let many = space.multi_get_with(&keys, at).expect("multi_get");
    for ((key, value), together) in model.iter().zip(many) {
        assert!(together.as_ref() == Some(value), "{} with others", key.escape_ascii());
        assert!(space.get_with(key, at).expect("get").as_ref() == Some(value), "a get");
        let pinned = space.get_pinned_with(key, at).expect("get").expect("a value");
        assert!(*pinned == value[..], "a pinned get");
    }
}

fn now() -> ReadOptions<'static> {
    ReadOptions::default()
}

#[test]
fn values_from_the_bound_on_lie_apart_and_every_read_gives_them() {
    let place = place();
    let mut db = place.open(options());
    let mut model = BTreeMap::new();
    for round in 0..4_u64 {
        let space = db.default_keyspace().clone();
        (0..1500).step_by(1 + round as usize).for_each(|i| put(&space, &mut model, i, round));
        let (then, snapshot) = (model.clone(), db.snapshot());
        (0..1500).step_by(7).for_each(|i| put(&space, &mut model, i, round + 10));
        work(&db);
        assert!(!on_disk(&place).is_empty());
        assert_reads(&space, &now(), &model);
        assert_reads(&space, &ReadOptions::at(&snapshot), &then);
        drop((space, snapshot, db));
        db = place.open(options());
        assert_reads(db.default_keyspace(), &now(), &model);
        sound(&db);
    }
    db.compact().expect("compact");
    let (values, bytes) = apart(&model, MIN);
    assert!(values > 500 && values < model.len() as u64);
    // One that were shorter would count here, too.
    assert_eq!(sound(&db), values);
    let (_, live_bytes, live_values) = figures(&db, "default");
    assert_eq!((live_values, live_bytes), (values, bytes));
    assert_reads(db.default_keyspace(), &now(), &model);
}

#[test]
fn a_keyspace_has_a_bound_of_its_own() {
    let place = place();
    let db = place.open(options());
    let bounds = [("lower", Some(50)), ("higher", Some(3000)), ("never", Some(0)), ("store", None)];
    let mut models = BTreeMap::new();
    for (name, min) in bounds {
        let own = KeyspaceOptions::new();
        let own = min.map_or(own.clone(), |min| own.value_files_min(min));
        let space = db.create_keyspace_with(name, own).expect("create");
        let mut model = BTreeMap::new();
        (0..300).for_each(|i| put(&space, &mut model, i, 1));
        models.insert(name, model);
    }
    for _ in 0..2 {
        db.compact().expect("compact");
        for (name, min) in bounds {
            let model = &models[name];
            let (values, bytes) = match min {
                Some(0) => (0, 0),
                min => apart(model, min.map_or(MIN, |min| min as usize)),
            };
            let (_, live_bytes, live_values) = figures(&db, name);
            assert_eq!((live_values, live_bytes), (values, bytes), "{name}");
            assert_reads(&db.keyspace(name).expect("keyspace"), &now(), model);
        }
        sound(&db);
    }
}

#[test]
fn overwrites_keep_value_files_within_their_space() {
    for (threads, percent) in [(0, 150), (2, 150), (0, 110), (0, 300)] {
        let place = place();
        let db = place.open(options().background_threads(threads).value_space(percent));
        let (mut model, mut rng) = (BTreeMap::new(), Rng::new(3));
        for round in 0..12_000 {
            put(db.default_keyspace(), &mut model, rng.below(1000), round);
        }
        work(&db);
        settle(&place, &db);
        let (all, live, _) = figures(&db, "default");
        assert!(live > 500_000 && all * 100 <= live * u64::from(percent), "{live} of {all} live");
        assert_eq!(on_disk(&place), named(&db));
        assert_reads(db.default_keyspace(), &now(), &model);
        sound(&db);
        // By hand tables are merged with what lies above them.
        for i in 0..1000 {
            put(db.default_keyspace(), &mut model, i, 7);
        }
        db.compact().expect("compact");
        settle(&place, &db);
        let (all, live, values) = figures(&db, "default");
        assert_eq!((values, live), apart(&model, MIN));
        assert!(all * 100 <= live * u64::from(percent), "{live} of {all} live");
        assert_eq!(on_disk(&place), named(&db));
        assert_eq!(sound(&db), values);
        assert_reads(db.default_keyspace(), &now(), &model);
    }
}

#[test]
fn readers_of_old_values_keep_their_files_until_they_leave() {
    let place = place();
    let db = place.open(options());
    let space = db.default_keyspace();
    let then = fill(space, 400, 1);
    db.compact().expect("compact");
    let old = on_disk(&place);
    assert!(old.len() > 1, "{old:?}");
    let snapshot = db.snapshot();
    let mut iter = space.cursor(&now()).expect("cursor");
    iter.seek_to_first().expect("first");
    let pinned = space.get_pinned(key(7)).expect("get").expect("a value");
    for round in 2..5 {
        let model = fill(space, 400, round);
        db.compact().expect("compact");
        work(&db);
        assert_reads(space, &now(), &model);
        assert_reads(space, &ReadOptions::at(&snapshot), &then);
    }
    drop(snapshot);
    fill(space, 400, 6);
    db.compact().expect("compact");
    work(&db);
    assert!(old.is_subset(&on_disk(&place)), "the iterator reads them still");
    for (key, value) in &then {
        assert_eq!(iter.key(), Some(&key[..]));
        assert!(iter.value().expect("value") == Some(&value[..]), "{}", key.escape_ascii());
        iter.next().expect("next");
    }
    assert!(!iter.valid() && *pinned == then[&key(7)][..]);
    drop(iter);
    let model = fill(space, 400, 7);
    db.compact().expect("compact");
    work(&db);
    assert!(old.is_disjoint(&on_disk(&place)), "nothing reads them");
    assert!(*pinned == then[&key(7)][..], "its bytes are in memory");
    drop(pinned);
    assert_eq!(on_disk(&place), named(&db));
    assert_reads(space, &now(), &model);
    sound(&db);
}

#[test]
fn what_is_deleted_frees_value_files() {
    let place = place();
    let db = place.open(options());
    let other = db.create_keyspace("other").expect("create");
    let kept = fill(&other, 200, 9);
    let mut model = fill(db.default_keyspace(), 600, 1);
    db.compact().expect("compact");
    let (before, live, _) = figures(&db, "default");
    assert_eq!(before, live);
    db.delete_range(key(100), key(400)).expect("delete range");
    (400..600).filter(|i| i % 2 == 0).for_each(|i| db.delete(key(i)).expect("delete"));
    let gone = |i: u64| (100..400).contains(&i) || (i >= 400 && i.is_multiple_of(2));
    (0..600).filter(|i| gone(*i)).for_each(|i| drop(model.remove(&key(i))));
    db.compact().expect("compact");
    work(&db);
    let (all, live, values) = figures(&db, "default");
    assert_eq!((values, live), apart(&model, MIN));
    assert!(all * 100 <= live * 150 && live < before / 2, "{live} of {all} live");
    assert_eq!(on_disk(&place), named(&db));
    assert_reads(db.default_keyspace(), &now(), &model);
    sound(&db);
    db.delete_range(b"", b"\xff").expect("delete range");
    db.compact().expect("compact");
    work(&db);
    assert_eq!(figures(&db, "default"), (0, 0, 0));
    assert_eq!(on_disk(&place), named(&db));
    assert_reads(&other, &now(), &kept);
    assert!(!on_disk(&place).is_empty());
    db.drop_keyspace("other").expect("drop");
    drop(other);
    work(&db);
    assert_eq!(on_disk(&place), BTreeSet::new(), "they went with their keyspace");
    sound(&db);
}

#[test]
fn operands_are_merged_with_a_base_that_lies_apart() {
    for combines in [Combines::Operands, Combines::Nothing] {
        let place = place();
        let hooks = Hooks::default().merge_operator(Arc::new(Joined(combines)));
        let db = open_with(&place, hooks);
        let space = db.default_keyspace();
        let mut model = fill(space, 200, 1);
        db.compact().expect("compact");
        assert_eq!(figures(&db, "default").2, 200);
        for round in 0..4_u64 {
            let snapshot = db.snapshot();
            let then = model.clone();
            for i in (round..230).step_by(3) {
                for operand in [&b"-first"[..], b"-second"] {
                    space.merge(key(i), operand).expect("merge");
                    model.entry(key(i)).or_default().extend_from_slice(operand);
                }
            }
            assert_reads(space, &now(), &model);
            db.flush().expect("flush");
            assert_reads(space, &now(), &model);
            db.compact().expect("compact");
            work(&db);
            assert_reads(space, &now(), &model);
            assert_reads(space, &ReadOptions::at(&snapshot), &then);
        }
        // Without a snapshot, what lies above is merged with what lies below.
        for i in 0..230 {
            space.merge(key(i), b"-last").expect("merge");
            model.entry(key(i)).or_default().extend_from_slice(b"-last");
        }
        db.compact().expect("compact");
        assert_reads(space, &now(), &model);
        let (_, live, values) = figures(&db, "default");
        assert_eq!((values, live), apart(&model, MIN), "merged values lie apart again");
        sound(&db);
    }
}

/// A clock in milliseconds.
struct Hand(AtomicU64);

impl Clock for Hand {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(SeqCst))
    }
}

#[test]
fn values_that_lie_apart_expire() {
    let (place, hand) = (place(), Arc::new(Hand(AtomicU64::new(1_000_000))));
    let hooks = || Hooks::default().clock(Arc::clone(&hand) as _);
    let mut db = open_with(&place, hooks());
    let own = KeyspaceOptions::new().ttl(Duration::from_millis(100));
    let cache = db.create_keyspace_with("cache", own).expect("create");
    let mut model = fill(&cache, 300, 1);
    db.compact().expect("compact");
    assert_eq!((figures(&db, "cache").2, on_disk(&place) == named(&db)), (300, true));
    assert_reads(&cache, &now(), &model);
    hand.0.fetch_add(60, SeqCst);
    // Collection takes the time of each of the others along.
    for round in 2..5 {
        model.extend(fill(&cache, 200, round));
        db.compact().expect("compact");
        work(&db);
        assert_reads(&cache, &now(), &model);
    }
    assert!(db.properties().ssd.expect("levels").compactions.value_bytes > 0);
    hand.0.fetch_add(39, SeqCst);
    assert_reads(&cache, &now(), &model);
    hand.0.fetch_add(1, SeqCst);
    drop(cache);
    model.retain(|each, _| *each < key(200));
    for _ in 0..2 {
        let cache = db.keyspace("cache").expect("keyspace");
        assert_reads(&cache, &now(), &model);
        assert!(cache.get(key(250)).expect("get").is_none());
        drop(cache);
        db.compact().expect("compact");
        assert_eq!(figures(&db, "cache").2, 200, "those that expired are gone");
        sound(&db);
        drop(db);
        db = open_with(&place, hooks());
    }
    hand.0.fetch_add(60, SeqCst);
    assert_eq!(db.keyspace("cache").expect("keyspace").iter().count(), 0);
    db.compact().expect("compact");
    work(&db);
    assert_eq!(on_disk(&place), BTreeSet::new(), "no value is left");
}

/// Tells by the number in the key what becomes of a value; not of every third.
#[derive(Default)]
struct ByKey {
    by_key: AtomicU64,
    by_value: AtomicU64,
}

const CHANGED: usize = 1234;

impl CompactionFilter for ByKey {
    fn decide(&self, _: &str, _: usize, _: &[u8], value: &[u8]) -> Decision {
        self.by_value.fetch_add(1, SeqCst);
        if value.len() == 1500 { Decision::Keep } else { Decision::Remove }
    }

    fn decide_by_key(&self, _: &str, _: usize, key: &[u8]) -> Option<Decision> {
        self.by_key.fetch_add(1, SeqCst);
        let number: usize = std::str::from_utf8(&key[3..]).ok()?.parse().ok()?;
        match number % 3 {
            0 => Some(Decision::Remove),
            1 => Some(Decision::Change(vec![b'c'; [CHANGED, 5][number % 2]])),
            _ => None,
        }
    }
}

#[test]
fn a_filter_is_asked_by_key_before_a_value_is_read() {
    let fs = Arc::new(Faulty::new(Memory::default()));
    fs.create_dir_all(Path::new("/sst")).expect("directory");
    let place = Place { region: heap(options().pm_size), fs: Arc::clone(&fs) as Arc<dyn Fs> };
    let db = place.open(options());
    let mut model = fill(db.default_keyspace(), 300, 1);
    db.compact().expect("compact");
    assert_eq!(figures(&db, "default").2, 300);
    drop(db);
    let filter = Arc::new(ByKey::default());
    let hooks = Hooks::default().compaction_filter(Arc::clone(&filter) as _);
    let db = open_with(&place, hooks);
    // Of every third the value is read.
    let reads = fs.calls(Call::Read);
    db.compact().expect("compact");
    assert!(fs.calls(Call::Read) > reads);
    assert_eq!((filter.by_key.load(SeqCst), filter.by_value.load(SeqCst)), (300, 100));
    for i in 0..300_usize {
        let one = key(i as u64);
        match i % 3 {
            0 => drop(model.remove(&one)),
            1 => drop(model.insert(one, vec![b'c'; [CHANGED, 5][i % 2]])),
            _ => {}
        }
    }
    assert_reads(db.default_keyspace(), &now(), &model);
    // Those that were changed lie where values of their length do; they compress.
    assert_eq!(figures(&db, "default").2, apart(&model, MIN).0);
    work(&db);
    assert_eq!(on_disk(&place), named(&db));
    sound(&db);
    // What can be told by the key reads no value, even if none can be read.
    db.delete_range(b"", b"\xff").expect("delete range");
    db.compact().expect("compact");
    (0..300).step_by(3).for_each(|i| db.put(key(i), bytes(i, 1500)).expect("put"));
    drop(db);
    let db = place.open(options());
    db.compact().expect("compact");
    assert_eq!(figures(&db, "default").2, 100);
    drop(db);
    let hooks = Hooks::default().compaction_filter(Arc::clone(&filter) as _);
    let db = open_with(&place, hooks);
    fs.set_rules(vec![Rule::new(1, Failure::Io).of(Call::Read).on(".blob").for_ever()]);
    assert!(db.get(key(3)).is_err());
    db.compact().expect("compact");
    fs.set_rules(Vec::new());
    assert_eq!(db.default_keyspace().iter().count(), 0);
}

#[test]
fn the_option_may_change_at_every_open() {
    let place = place();
    let off = options().value_files_min(0);
    let mut model = BTreeMap::new();
    let tables = |db: &Db| {
        let levels = db.properties().keyspaces[0].levels.clone();
        levels.iter().flat_map(|level| &level.tables).map(|table| table.bytes).sum::<u64>()
    };
    for round in 0..2 {
        let db = place.open(off.clone());
        (0..400).for_each(|i| put(db.default_keyspace(), &mut model, i, 10 * round));
        db.compact().expect("compact");
        work(&db);
        assert_eq!((on_disk(&place), sound(&db)), (BTreeSet::new(), 0), "round {round}");
        let long: usize = model.values().map(Vec::len).filter(|len| *len >= MIN).sum();
        assert!(tables(&db) > long as u64, "values are in tables");
        assert_reads(db.default_keyspace(), &now(), &model);
        drop(db);
        let db = place.open(options());
        assert_reads(db.default_keyspace(), &now(), &model);
        // What lies over all keys takes what is below along.
        (0..400).step_by(9).for_each(|i| put(db.default_keyspace(), &mut model, i, 10 * round + 1));
        db.compact().expect("compact");
        assert_eq!(sound(&db), apart(&model, MIN).0);
        assert_reads(db.default_keyspace(), &now(), &model);
        drop(db);
        let db = place.open(off.clone());
        assert_reads(db.default_keyspace(), &now(), &model);
    }
    let db = place.open(off);
    assert_reads(db.default_keyspace(), &now(), &model);
}

#[test]
fn once_the_option_is_off_a_compaction_brings_values_back() {
    let place = place();
    let db = place.open(options());
    let model = fill(db.default_keyspace(), 300, 1);
    db.compact().expect("compact");
    assert_eq!(figures(&db, "default").2, 300);
    drop(db);
    let db = place.open(options().value_files_min(0));
    db.compact().expect("compact");
    work(&db);
    assert_reads(db.default_keyspace(), &now(), &model);
    assert_eq!(on_disk(&place), BTreeSet::new(), "all values are back in tables");
}

/// A check takes tables and value files of one moment, however many compactions go on beside.
#[test]
fn a_check_beside_collections_finds_no_damage() {
    let place = place();
    let db = place.open(options().background_threads(2).value_space(100));
    let space = db.default_keyspace();
    let mut model = fill(space, 400, 0);
    for seed in 1..60 {
        (0..400).step_by(7).for_each(|i| put(space, &mut model, i, seed));
        let report = db.check().expect("check");
        assert!(report.damage.is_empty(), "{:?}", report.damage);
    }
    assert_reads(space, &now(), &model);
}

/// What was stored uncompressed is compressed once it is collected, if the options say so by then.
#[test]
fn collected_values_are_compressed_as_options_say_by_then() {
    let place = place();
    let plain = vec![7; 1500];
    let db = place.open(options().compression(Compression::None));
    (0..300).for_each(|i| db.put(key(i), &plain).expect("put"));
    db.compact().expect("compact");
    let (_, before, _) = figures(&db, "default");
    assert!(before > 300 * 1500);
    drop(db);
    let db = place.open(options().compression(Compression::Lz4).value_space(100));
    (0..300).step_by(3).for_each(|i| db.put(key(i), &plain).expect("put"));
    db.compact().expect("compact");
    work(&db);
    let (_, after, _) = figures(&db, "default");
    assert!(after < before / 4, "{after} of {before}");
    assert!((0..300).all(|i| db.get(key(i)).expect("get").as_deref() == Some(&plain[..])));
}
