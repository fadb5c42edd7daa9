//! Blocks of outputs that are put in the cache: that hot keys stay there over a compaction and cold ones do not come, that no answer is
//! ever wrong, and what becomes of blocks that wait when their table, the option or the store goes.
//!
//! Where a rule is shown (I-WARM-1), it is switched off once, and the schedule must then fail.

use std::path::Path;
use std::sync::Arc;

use crate::common::{
    Contents, TempDir, assert_nothing_leaked, external, heap, numbered as key, small_levels,
};
use base::planted::{self, Bug};
use ssd::{Call, Failure, Faulty, Fs, Memory, Rule};
use strandline::{
    CacheFigures, CacheOutputs, CachePolicy, Db, IngestOptions, Level0Form, Options, Region,
};
use testkit::Rng;

const KEYS: u64 = 4000;
/// Keys that are read.
const HOT: std::ops::Range<u64> = 1500..1900;
/// Data blocks that these are in, about.
const HOT_BLOCKS: u64 = 14;

/// The cache has room for all.
fn options(outputs: CacheOutputs) -> Options {
    small_levels().block_cache(4 << 20).cache_outputs(outputs)
}

fn value(i: u64, round: u64) -> Vec<u8> {
    crate::common::noise(i, round)
}

fn work(db: &Db) {
    while !db.work(1 << 20).expect("work").is_idle() {}
}

fn figures(db: &Db) -> CacheFigures {
    db.properties().ssd.expect("levels").cache
}

/// A device whose reads are counted, and a pool.
struct Place {
    fs: Arc<Faulty<Memory>>,
    region: Arc<Region>,
}

impl Place {
    fn new() -> Place {
        let fs = Arc::new(Faulty::new(Memory::default()));
        fs.create_dir_all(Path::new("/sst")).expect("directory");
        Place { fs, region: heap(small_levels().pm_size) }
    }

    fn open(&self, options: Options) -> Db {
        let fs = Arc::clone(&self.fs) as Arc<dyn Fs>;
        Db::open_on(Arc::clone(&self.region), fs, "/sst", options).expect("open")
    }

    /// With a first version of all keys in tables, and the hot ones read.
    fn filled(&self, options: Options) -> Db {
        let db = self.open(options);
        put(&db, 0..KEYS, 1, 1);
        db.compact().expect("compact");
        work(&db);
        read(&db, HOT, |_| 1);
        db
    }

    /// Device reads of gets of these keys, each of which is in the round that is told.
    fn reads(&self, db: &Db, keys: std::ops::Range<u64>, round: impl Fn(u64) -> u64) -> u64 {
        let before = self.fs.calls(Call::Read);
        read(db, keys, round);
        self.fs.calls(Call::Read) - before
    }
}

fn put(db: &Db, keys: std::ops::Range<u64>, step: usize, round: u64) {
    for i in keys.step_by(step) {
        db.put(key(i), value(i, round)).expect("put");
        if i.is_multiple_of(100) {
            work(db);
        }
    }
}

fn read(db: &Db, keys: std::ops::Range<u64>, round: impl Fn(u64) -> u64) {
    for i in keys {
        assert_eq!(db.get(key(i)).expect("get"), Some(value(i, round(i))), "{i}");
    }
}

/// One key in ten is overwritten, all over the store, and all of it is compacted; nothing waits for the cache before the background works.
fn overwrite(db: &Db) {
    (0..KEYS).step_by(10).for_each(|i| db.put(key(i), value(i, 2)).expect("put"));
    db.compact().expect("compact");
}

/// The round that a key is in then.
fn round(i: u64) -> u64 {
    if i.is_multiple_of(10) { 2 } else { 1 }
}

#[test]
fn hot_keys_are_read_from_the_device_once_and_cold_ones_do_not_come() {
    for form in [Level0Form::GlobalIndex, Level0Form::IndexRuns, Level0Form::Sst] {
        let run = |outputs| {
            let place = Place::new();
            let db = place.filled(options(outputs).level0(form));
            let before = figures(&db);
            overwrite(&db);
            work(&db);
            let warmed = figures(&db);
            assert_eq!(warmed.misses, before.misses, "no reader missed them");
            let hot = place.reads(&db, HOT, round);
            let cold = place.reads(&db, 0..200, round);
            read(&db, 0..KEYS, round);
            (hot, cold, warmed.warmed, warmed.warmed_bytes)
        };
        let (hot, cold, warmed, _) = run(CacheOutputs::Off);
        assert!(hot >= HOT_BLOCKS && cold > 4 && warmed == 0, "{form:?}: {hot} {cold} {warmed}");
        let (hot, cold, warmed, bytes) = run(CacheOutputs::Warm);
        assert!(hot == 0 && cold > 4, "{form:?}: {hot} {cold} {warmed}");
        assert!((HOT_BLOCKS..3 * HOT_BLOCKS).contains(&warmed), "{form:?}: {warmed}");
        assert!(bytes > warmed * 2000 && bytes < warmed * 5000, "{form:?}: {warmed} {bytes}");
    }
}

#[test]
fn what_no_one_read_does_not_come() {
    let place = Place::new();
    let db = place.open(options(CacheOutputs::Warm));
    put(&db, 0..KEYS, 1, 1);
    db.compact().expect("compact");
    overwrite(&db);
    work(&db);
    assert_eq!((figures(&db).warmed, figures(&db).inserts), (0, 0));
    read(&db, 0..KEYS, round);
}

#[test]
fn no_more_waits_than_half_of_the_cache() {
    let place = Place::new();
    // It has room for all blocks of tables, so that all that are written are warm: more than may wait.
    let given = options(CacheOutputs::Warm).block_cache(768 << 10).cache_records(false);
    let db = place.filled(given);
    read(&db, 0..KEYS, |_| 1);
    let merges = || {
        let of = db.properties().ssd.expect("levels").compactions;
        of.level0 + of.levels
    };
    let before = figures(&db);
    overwrite(&db);
    // All that is put in waits now.
    let (merged, waiting) = (merges(), figures(&db));
    work(&db);
    let after = figures(&db);
    assert_eq!((merges(), waiting.warmed), (merged, 0));
    assert!(after.warmed_bytes > after.budget / 4, "{after:?}");
    assert!(after.warmed_bytes <= after.budget / 2 && after.charged <= after.budget, "{after:?}");
    assert!(after.inserts - before.inserts >= after.warmed);
    read(&db, 0..KEYS, round);
}

#[test]
fn a_cache_in_persistent_memory_has_them_by_its_policy() {
    for policy in CachePolicy::ALL {
        let place = Place::new();
        let given = options(CacheOutputs::Warm).pm_cache(40).pm_cache_policy(policy);
        let db = place.filled(given);
        let below = || db.properties().ssd.expect("levels").pm_cache.expect("a cache").inserts;
        let (before, dram) = (below(), figures(&db).inserts);
        overwrite(&db);
        work(&db);
        let (goes_below, goes_to_dram) = (below() - before, figures(&db).inserts - dram);
        let is_pm_first = policy == CachePolicy::PmFirst;
        assert_eq!((goes_below > 0, goes_to_dram > 0), (is_pm_first, !is_pm_first), "{policy:?}");
        assert!(figures(&db).warmed >= HOT_BLOCKS, "{policy:?}: {:?}", figures(&db));
        assert_eq!(place.reads(&db, HOT, round), 0, "{policy:?}");
    }
}

#[test]
fn what_waits_goes_with_its_table_the_option_and_the_store() {
    // The table is replaced, while an iterator still holds it.
    let place = Place::new();
    let db = place.filled(options(CacheOutputs::Warm));
    overwrite(&db);
    let iter = db.iter();
    db.delete_range(key(0), key(KEYS)).expect("delete range");
    db.put(key(KEYS), "last").expect("put");
    db.compact().expect("compact");
    let reads = place.fs.calls(Call::Read);
    work(&db);
    assert_eq!((figures(&db).warmed, place.fs.calls(Call::Read)), (0, reads));
    assert_eq!(iter.count(), KEYS as usize);
    work(&db);
    assert_nothing_leaked(&db, "a table was replaced");
    // Its keyspace is dropped.
    let space = db.create_keyspace("dropped").expect("create");
    for (step, round) in [(1, 1), (10, 2)] {
        (0..KEYS).step_by(step).for_each(|i| space.put(key(i), value(i, round)).expect("put"));
        db.compact_range(&space, None, None).expect("compact");
        HOT.for_each(|i| assert!(space.get(key(i)).expect("get").is_some()));
    }
    drop(space);
    db.drop_keyspace("dropped").expect("drop");
    work(&db);
    assert_eq!(figures(&db).warmed, 0);
    assert_nothing_leaked(&db, "a keyspace was dropped");
    // It is switched off, and the store closed.
    let place = Place::new();
    let db = place.filled(options(CacheOutputs::Warm));
    overwrite(&db);
    db.set_option("cache_outputs", "off").expect("set");
    work(&db);
    assert_eq!(figures(&db).warmed, 0);
    db.set_option("cache_outputs", "warm").expect("set");
    read(&db, HOT, round);
    overwrite(&db);
    db.close().expect("close");
    let db = place.open(options(CacheOutputs::Warm));
    work(&db);
    assert_eq!(figures(&db).warmed, 0, "nothing waits after an open");
    read(&db, 0..KEYS, round);
}

#[test]
fn what_cannot_be_read_is_counted_and_harms_no_one() {
    let place = Place::new();
    let db = place.filled(options(CacheOutputs::Warm));
    overwrite(&db);
    place.fs.set_rules(vec![Rule::new(1, Failure::Io).of(Call::Read).for_ever()]);
    work(&db);
    let failed = figures(&db);
    assert!(failed.warm_failed >= 1 && failed.warmed == 0, "{failed:?}");
    place.fs.set_rules(Vec::new());
    read(&db, 0..KEYS, round);
    overwrite(&db);
    work(&db);
    assert!(figures(&db).warmed >= HOT_BLOCKS, "it goes on");
    assert_eq!(figures(&db).warm_failed, failed.warm_failed);
}

type Shown = Result<(), String>;

/// The schedule shows nothing wrong, and would without the rule that `bug` breaks.
#[track_caller]
fn needs(bug: Bug, schedule: impl Fn() -> Shown) {
    assert_eq!(schedule(), Ok(()));
    planted::plant(Some(bug));
    let without = schedule();
    planted::plant(None);
    assert!(without.is_err(), "the rule that {bug:?} breaks is idle");
}

/// The edit of the compaction that follows on `others` is refused.
fn refuse_after(others: u32) {
    planted::meanwhile("before the edit of a compaction", move || match others {
        0 => planted::refuse_edits(true),
        _ => refuse_after(others - 1),
    });
}

/// Each compaction in turn is not installed: its tables never were. The first ones only have records of level 0.
fn a_compaction_is_not_installed() -> Shown {
    for others in 0.. {
        let place = Place::new();
        let db = place.filled(options(CacheOutputs::Warm));
        let before = figures(&db);
        (0..KEYS).step_by(10).for_each(|i| db.put(key(i), value(i, 2)).expect("put"));
        refuse_after(others);
        let compacted = db.compact();
        planted::refuse_edits(false);
        planted::meanwhile("no step", || {});
        let after = figures(&db);
        if after.inserts != before.inserts {
            return Err(format!("{others}: {after:?}"));
        }
        if compacted.is_ok() {
            assert!(others >= 2, "{others}");
            break;
        }
    }
    Ok(())
}

#[test]
fn nothing_comes_before_its_table_is_installed() {
    needs(Bug::WarmBeforeInstall, a_compaction_is_not_installed);
}

/// One of these happens to some keys; the model knows.
fn churn(db: &Db, model: &mut Contents, rng: &mut Rng, dir: &TempDir) {
    for _ in 0..60 {
        let at = rng.below(2000);
        match rng.below(60) {
            0 => {
                let (low, high) = (key(at), key(at + rng.below(100)));
                db.delete_range(&low, &high).expect("delete range");
                model.retain(|key, _| *key < low || *key >= high);
            }
            1 => {
                let changes: Vec<_> =
                    (0..20).map(|i| (key(at + i * 15), Some(value(i, rng.next())))).collect();
                let path = dir.join("in.sst");
                std::fs::write(&path, external(&changes, &[])).expect("write");
                db.ingest(db.default_keyspace(), &[path], IngestOptions::default())
                    .expect("ingest");
                let changes = changes.into_iter();
                model.extend(changes.map(|(key, value)| (key, value.expect("a value"))));
            }
            2..10 => {
                db.delete(key(at)).expect("delete");
                model.remove(&key(at));
            }
            _ => {
                let value = value(at, rng.next());
                db.put(key(at), &value).expect("put");
                model.insert(key(at), value);
            }
        }
    }
}

/// A store whose hot keys move, with compactions of all kinds in between, held against a model get by get.
fn every_get_tells_the_newest() -> Shown {
    let dir = TempDir::new("warm-model");
    for (seed, form) in (0..).zip([Level0Form::GlobalIndex, Level0Form::Sst]) {
        let given = options(CacheOutputs::Warm).level0(form).block_cache(256 << 10);
        let db = Db::open(dir.join(&format!("store{seed}")), given).expect("open");
        let (mut model, mut rng) = (Contents::new(), Rng::new(seed));
        let mut warmed = 0;
        for round in 0..120 {
            churn(&db, &mut model, &mut rng, &dir);
            match rng.below(4) {
                0 => db.compact().expect("compact"),
                1 => db.flush().expect("flush"),
                _ => {}
            }
            if rng.chance(1, 2) {
                work(&db);
            }
            let hot = round / 10 * 150;
            for _ in 0..150 {
                let at = key(hot + rng.below(200));
                let found = db.get(&at).map_err(|error| error.to_string())?;
                if found.as_ref() != model.get(&at) {
                    return Err(format!("{} in round {round}", at.escape_ascii()));
                }
            }
            warmed = figures(&db).warmed;
        }
        assert!(warmed > 100, "{form:?}: {warmed}");
    }
    Ok(())
}

#[test]
fn every_block_comes_as_itself() {
    needs(Bug::WarmAsNeighbours, every_get_tells_the_newest);
}
