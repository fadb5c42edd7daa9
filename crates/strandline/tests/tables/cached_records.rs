//! Records in the block cache: that each answer is the newest version, whatever comes between a look-up and its record's way into the
//! cache, and how blocks and records divide the budget.
//!
//! Each schedule is run again with the rule it is about switched off, and must then fail.

use std::cell::Cell;
use std::sync::Arc;

use crate::common::{Contents, TempDir, dump, external, numbered as key, small_levels as options};
use base::planted::{self, Bug};
use strandline::{
    CacheFigures, CompactionFilter, Db, Decision, IngestOptions, KeyspaceOptions, Level0Form,
    ProbeSource, ReadOptions, Runtime, RuntimeOptions, SsdSource,
};
use testkit::Rng;

type Shown = Result<(), String>;

thread_local! {
    /// The form of level 0 in which stores are opened.
    static FORM: Cell<Level0Form> = const { Cell::new(Level0Form::GlobalIndex) };
}

const FORMS: [Level0Form; 3] = [Level0Form::GlobalIndex, Level0Form::IndexRuns, Level0Form::Sst];

fn open(name: &str) -> (TempDir, Arc<Db>) {
    let dir = TempDir::new(name);
    let options = options().background_threads(0).level0(FORM.get());
    let db = Db::open(dir.join("store"), options).expect("open");
    (dir, Arc::new(db))
}

/// A version in the tables.
fn settle(db: &Db, value: &str) {
    db.put("key", value).expect("put");
    db.compact().expect("compact");
}

fn expect(db: &Db, value: Option<&str>) -> Shown {
    let found = db.get("key").expect("get");
    let found = found.map(|found| String::from_utf8(found).expect("text"));
    if found.as_deref() == value { Ok(()) } else { Err(format!("{found:?}, not {value:?}")) }
}

fn figures(db: &Db) -> CacheFigures {
    db.properties().ssd.expect("levels").cache
}

/// The schedule shows nothing wrong in any form of level 0, and would without the rule that `bug` breaks.
#[track_caller]
fn needs(bug: Bug, schedule: fn() -> Shown) {
    for form in FORMS {
        FORM.set(form);
        assert_eq!(schedule(), Ok(()), "{form:?}");
        planted::plant(Some(bug));
        let without = schedule();
        planted::plant(None);
        assert!(without.is_err(), "the rule that {bug:?} breaks is idle in {form:?}");
    }
}

/// The record that is cached is newer than a snapshot.
fn a_snapshot_looks_at_a_newer_record() -> Shown {
    let (_dir, db) = open("records-snapshot");
    settle(&db, "old");
    let snapshot = db.snapshot();
    settle(&db, "new");
    expect(&db, Some("new"))?;
    expect(&db, Some("new"))?;
    assert!(figures(&db).record_hits > 0, "{:?}", figures(&db));
    let found = db.default_keyspace().get_with("key", &ReadOptions::at(&snapshot)).expect("get");
    if found.as_deref() == Some(b"old") { Ok(()) } else { Err(format!("{found:?}")) }
}

#[test]
fn a_record_answers_only_those_who_see_its_number() {
    needs(Bug::RecordOfAnyNumber, a_snapshot_looks_at_a_newer_record);
}

/// Keys with the same hash, which can be turned around for keys of eight bytes.
const TWINS: [[&[u8]; 2]; 3] = [
    [b"first", &[168, 77, 137, 37, 218, 49, 232, 79]],
    [b"second", &[129, 128, 12, 156, 227, 247, 219, 241]],
    [b"key-one", &[146, 70, 149, 249, 118, 248, 120, 106]],
];

/// Both of the first twins have values, of the others one.
fn keys_with_one_hash_are_read() -> Shown {
    let (_dir, db) = open("records-twins");
    let [both, [alone, absent], [deleted, stays]] = TWINS;
    let there = [both[0], both[1], alone, deleted, stays];
    there.iter().for_each(|key| db.put(key, key).expect("put"));
    db.compact().expect("compact");
    let look = |key: &[u8], is_there: bool| {
        let wanted = is_there.then(|| key.to_vec());
        let found = db.multi_get([key]).expect("get").pop().flatten();
        let found = [db.get(key).expect("get"), found];
        let is_right = found.iter().all(|found| *found == wanted)
            && db.contains_key(key).expect("get") == is_there;
        if is_right { Ok(()) } else { Err(format!("{key:?}: {found:?}")) }
    };
    for _ in 0..3 {
        there.iter().try_for_each(|key| look(key, true))?;
        look(absent, false)?;
    }
    let told = figures(&db);
    assert!(told.record_hits > 10 && told.record_inserts == 3, "one of each: {told:?}");
    // The record of the one goes with the other, at most.
    db.delete(deleted).expect("delete");
    db.put(both[0], "new").expect("put");
    db.compact().expect("compact");
    for _ in 0..3 {
        look(deleted, false)?;
        look(stays, true)?;
        look(both[1], true)?;
        let found = db.get(both[0]).expect("get");
        if found.as_deref() != Some(b"new") {
            return Err(format!("{found:?}"));
        }
    }
    Ok(())
}

#[test]
fn keys_with_one_hash_never_answer_for_each_other() {
    for [one, other] in TWINS {
        assert!(one != other && base::checksum::key_hash(one) == base::checksum::key_hash(other));
    }
    needs(Bug::RecordOfAnyKey, keys_with_one_hash_are_read);
}

fn a_newer_version_comes_to_the_tables() -> Shown {
    let (_dir, db) = open("records-newer");
    settle(&db, "old");
    expect(&db, Some("old"))?;
    db.put("key", "new").expect("put");
    expect(&db, Some("new"))?;
    db.compact().expect("compact");
    expect(&db, Some("new"))?;
    db.delete("key").expect("delete");
    db.compact().expect("compact");
    expect(&db, None)
}

#[test]
fn a_compaction_drops_the_records_of_its_keys() {
    needs(Bug::RecordKept, a_newer_version_comes_to_the_tables);
}

/// A reader at a snapshot finds the older version in the tables, after a compaction has passed the key.
fn a_reader_comes_between_merge_and_view() -> Shown {
    let (_dir, db) = open("records-gate");
    settle(&db, "old");
    let snapshot = db.snapshot();
    db.put("key", "new").expect("put");
    let reader = Arc::clone(&db);
    planted::meanwhile("before the edit of a compaction", move || {
        let found =
            reader.default_keyspace().get_with("key", &ReadOptions::at(&snapshot)).expect("get");
        assert_eq!(found.as_deref(), Some(&b"old"[..]));
    });
    db.compact().expect("compact");
    expect(&db, Some("new"))
}

#[test]
fn no_record_comes_while_a_compaction_drops_some() {
    needs(Bug::RecordPastGate, a_reader_comes_between_merge_and_view);
}

/// A reader sleeps between its look-up and its record.
fn a_reader_sleeps() -> Shown {
    let (_dir, db) = open("records-sleeps");
    settle(&db, "old");
    let writer = Arc::clone(&db);
    planted::meanwhile("cache a record", move || settle(&writer, "new"));
    // It began before the put.
    expect(&db, Some("old"))?;
    expect(&db, Some("new"))
}

#[test]
fn a_reader_of_an_old_view_leaves_no_record() {
    needs(Bug::RecordOfOldView, a_reader_sleeps);
}

#[test]
fn a_reader_that_slept_gives_records_no_room_where_none_are_taken_any_more() {
    let (_dir, db) = open("records-off");
    settle(&db, "value");
    let other = Arc::clone(&db);
    planted::meanwhile("cache a record", move || {
        other.set_option("cache_records", "false").expect("set");
    });
    assert_eq!(expect(&db, Some("value")), Ok(()));
    let told = figures(&db);
    assert_eq!((told.record_inserts, told.record_bytes), (0, 0), "{told:?}");
    db.set_option("cache_records", "true").expect("set");
    assert_eq!(expect(&db, Some("value")), Ok(()));
    assert_eq!(figures(&db).record_inserts, 1);
}

/// A snapshot finds an older version of the tables.
fn a_snapshot_finds_what_is_not_the_newest() -> Shown {
    let (_dir, db) = open("records-below");
    settle(&db, "old");
    let snapshot = db.snapshot();
    settle(&db, "new");
    let found = db.default_keyspace().get_with("key", &ReadOptions::at(&snapshot)).expect("get");
    assert_eq!(found.as_deref(), Some(&b"old"[..]));
    expect(&db, Some("new"))
}

#[test]
fn a_reader_that_does_not_see_all_of_the_tables_leaves_no_record() {
    needs(Bug::RecordBelowTables, a_snapshot_finds_what_is_not_the_newest);
}

fn a_range_deletion_comes_to_the_tables() -> Shown {
    let (_dir, db) = open("records-ranges");
    db.put("zzz", "stays").expect("put");
    settle(&db, "old");
    expect(&db, Some("old"))?;
    db.delete_range("a", "z").expect("delete range");
    expect(&db, None)?;
    db.compact().expect("compact");
    expect(&db, None)
}

#[test]
fn range_deletions_drop_records() {
    needs(Bug::RecordsKeptOverRanges, a_range_deletion_comes_to_the_tables);
}

fn a_table_is_ingested() -> Shown {
    let (dir, db) = open("records-ingest");
    settle(&db, "old");
    expect(&db, Some("old"))?;
    let file = dir.join("in.sst");
    let table = external(&[(b"key".to_vec(), Some(b"new".to_vec()))], &[]);
    std::fs::write(&file, table).expect("write");
    db.ingest(db.default_keyspace(), &[file], IngestOptions::default()).expect("ingest");
    expect(&db, Some("new"))
}

#[test]
fn an_ingest_drops_records() {
    needs(Bug::RecordsKeptOverIngest, a_table_is_ingested);
}

/// Keys of whose values one in five is changed by each round, in some way.
fn churn(db: &Db, model: &mut Contents, rng: &mut Rng, file: &TempDir) {
    for _ in 0..60 {
        let at = key(rng.below(300));
        match rng.below(40) {
            0 => {
                let low = rng.below(300);
                let (low, high) = (key(low), key(low + rng.below(60)));
                db.delete_range(&low, &high).expect("delete range");
                model.retain(|key, _| *key < low || *key >= high);
            }
            1 => {
                let changes: Vec<_> = (0..20)
                    .map(|i| (key(i * 15), Some(format!("ingested {}", rng.next()).into_bytes())))
                    .collect();
                let path = file.join("in.sst");
                std::fs::write(&path, external(&changes, &[])).expect("write");
                db.ingest(db.default_keyspace(), &[path], IngestOptions::default())
                    .expect("ingest");
                model.extend(changes.into_iter().filter_map(|(key, value)| Some((key, value?))));
            }
            2..8 => {
                db.delete(&at).expect("delete");
                model.remove(&at);
            }
            _ => {
                let value = format!("{} {}", rng.next(), "v".repeat(rng.below(200) as usize));
                db.put(&at, &value).expect("put");
                model.insert(at, value.into_bytes());
            }
        }
    }
}

#[test]
fn every_answer_is_right_through_changes_of_all_kinds() {
    for seed in 0..6 {
        FORM.set(FORMS[seed as usize % 3]);
        let (dir, db) = open("records-model");
        let (mut model, mut rng) = (Contents::new(), Rng::new(seed));
        let mut kept = None;
        for round in 0..60 {
            churn(&db, &mut model, &mut rng, &dir);
            match rng.below(4) {
                0 => db.flush().expect("flush"),
                1 => db.compact().expect("compact"),
                _ => {}
            }
            for _ in 0..120 {
                let at = key(rng.below(300));
                assert_eq!(db.get(&at).expect("get").as_ref(), model.get(&at), "seed {seed}");
            }
            let keys: Vec<Vec<u8>> = (0..50).map(|_| key(rng.below(300))).collect();
            let found = db.multi_get(&keys).expect("get");
            for (key, found) in keys.iter().zip(found) {
                assert_eq!(found.as_ref(), model.get(key), "seed {seed}, round {round}");
                let pinned = db.default_keyspace().get_pinned(key).expect("get");
                assert_eq!(pinned.as_deref(), model.get(key).map(|value| &value[..]));
                assert_eq!(db.contains_key(key).expect("get"), model.contains_key(key));
            }
            if let Some((snapshot, then)) = &kept {
                let at = ReadOptions::at(snapshot);
                assert_eq!(&dump(db.default_keyspace(), &at), then);
                for _ in 0..60 {
                    let key = key(rng.below(300));
                    let found = db.default_keyspace().get_with(&key, &at).expect("get");
                    assert_eq!(found.as_ref(), then.get(&key), "seed {seed}, round {round}");
                }
            }
            if rng.below(8) == 0 {
                kept = Some((db.snapshot(), model.clone()));
            }
        }
        let figures = figures(&db);
        assert!(figures.record_hits > 500 && figures.records_dropped > 100, "{figures:?}");
        assert!(figures.charged <= figures.budget, "{figures:?}");
    }
}

/// Keeps all.
struct Keeps;

impl CompactionFilter for Keeps {
    fn decide(&self, _keyspace: &str, _level: usize, _key: &[u8], _value: &[u8]) -> Decision {
        Decision::Keep
    }
}

#[test]
fn what_is_no_plain_value_and_what_a_filter_may_change_is_not_cached() {
    let dir = TempDir::new("records-plain");
    let hooks = crate::common::merging().compaction_filter(Arc::new(Keeps));
    let given = options().background_threads(0).value_files_min(200);
    let db = Db::open_with(dir.join("filtered"), given.clone(), hooks).expect("open");
    settle(&db, "value");
    (0..3).for_each(|_| assert_eq!(expect(&db, Some("value")), Ok(())));
    assert_eq!(figures(&db).record_inserts, 0);
    drop(db);
    let db = Db::open_with(dir.join("merging"), given, crate::common::merging()).expect("open");
    // Held by a snapshot, the operand comes to the tables as it is.
    db.put("merged", "a").expect("put");
    let snapshot = db.snapshot();
    db.merge("merged", "b").expect("merge");
    db.put("long", "v".repeat(2000)).expect("put");
    db.compact().expect("compact");
    for key in ["merged", "long", "absent"] {
        (0..3).for_each(|_| drop(db.get(key).expect("get")));
    }
    assert_eq!(figures(&db).record_inserts, 0, "{:?}", figures(&db));
    drop(snapshot);
    assert!(db.get("merged").expect("get").is_some());
}

#[test]
fn stores_and_keyspaces_with_one_cache_see_their_own_records() {
    let runtime =
        Runtime::new(RuntimeOptions::default().threads(1).block_cache(4 << 20)).expect("runtime");
    let dir = TempDir::new("records-shared");
    let stores = ["one", "two"].map(|name| runtime.open(dir.join(name), options()).expect("open"));
    for (no, db) in stores.iter().enumerate() {
        let other = db.create_keyspace_with("other", KeyspaceOptions::new()).expect("create");
        db.put("key", format!("{no} default")).expect("put");
        other.put("key", format!("{no} other")).expect("put");
        db.compact().expect("compact");
    }
    for _ in 0..3 {
        for (no, db) in stores.iter().enumerate() {
            assert_eq!(expect(db, Some(&format!("{no} default"))), Ok(()));
            let other = db.keyspace("other").expect("keyspace");
            assert_eq!(other.get("key").expect("get"), Some(format!("{no} other").into_bytes()));
        }
    }
    let probes = stores[1].default_keyspace().explain_get("key").expect("explain").probes;
    let sources: Vec<_> = probes.iter().map(|timed| timed.probe.source).collect();
    assert!(sources.contains(&ProbeSource::CachedRecord), "{sources:?}");
    assert!(!sources.iter().any(|source| matches!(source, ProbeSource::Table { .. })));
    assert!(runtime.figures().cache.record_hits >= 8, "{:?}", runtime.figures().cache);
    // A keyspace of the same name is another one.
    stores[0].drop_keyspace("other").expect("drop");
    let again = stores[0].create_keyspace("other").expect("create");
    again.put("zzz", "in a table").expect("put");
    stores[0].compact().expect("compact");
    assert_eq!(again.get("key").expect("get"), None);
}

#[test]
fn where_few_keys_are_hot_their_records_take_most_of_the_budget() {
    let dir = TempDir::new("records-hot");
    let given = options().background_threads(0).dram_budget(8 << 20).block_cache(1 << 20);
    let given = given.memtable_bytes(256 << 10).table_bytes(256 << 10).ssd(SsdSource::Auto);
    let read = |records: bool| {
        let name = if records { "with" } else { "without" };
        let given = given.clone().cache_records(records);
        let db = Db::open(dir.join(name), given).expect("open");
        for i in 0..100_000_u64 {
            db.put(key(i), format!("{i:0100}")).expect("put");
        }
        db.compact().expect("compact");
        let mut rng = Rng::new(7);
        let before = figures(&db);
        for round in 0..200_000_u64 {
            // Most gets are of 3,000 keys, each in a block of its own.
            let i = if round % 8 == 0 { rng.below(100_000) } else { rng.below(3000) * 33 };
            assert_eq!(db.get(key(i)).expect("get"), Some(format!("{i:0100}").into_bytes()));
        }
        let after = figures(&db);
        assert!(after.charged <= after.budget, "{after:?}");
        (after.misses - before.misses, after)
    };
    let (without, told) = read(false);
    assert_eq!((told.record_hits, told.record_bytes), (0, 0));
    let (with, told) = read(true);
    assert!(told.record_bytes > told.budget / 2, "{told:?}");
    assert!(2 * with < without, "{with} blocks read, {without} without records");
}

/// Keys that are looked up together leave their records. Here any is taken in, wherever its block was; that each tells that is shown in
/// `read::get`.
#[test]
fn keys_that_are_looked_up_together_leave_records_as_single_ones_do() {
    // All blocks of a look-up are held at once, and fit.
    const KEYS: u64 = 40_000;
    let records = |together: usize| {
        let dir = TempDir::new("records-together");
        let given = options().background_threads(0).block_cache(1 << 20);
        let db = Db::open(dir.join("store"), given).expect("open");
        (0..KEYS).for_each(|i| db.put(key(i), format!("{i:0100}")).expect("put"));
        db.compact().expect("compact");
        (0..KEYS).for_each(|i| drop(db.get(key(i)).expect("get")));
        let before = figures(&db);
        let keys: Vec<_> = (0..KEYS).step_by(400).map(key).collect();
        for keys in keys.chunks(together.max(1)) {
            let found = match together {
                0 => vec![db.get(&keys[0]).expect("get")],
                _ => db.multi_get(keys).expect("get"),
            };
            assert!(found.iter().all(Option::is_some));
        }
        let after = figures(&db);
        (after.misses - before.misses, after.record_inserts - before.record_inserts)
    };
    for together in [0, 1, 10, 100] {
        let (misses, records) = records(together);
        assert!(misses > 40 && 2 * records > misses, "{together}: {misses} blocks, {records}");
    }
}
