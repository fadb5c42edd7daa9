//! Repair: what damage of every kind leaves, and that what it takes is told.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::common::{
    Contents, TempDir, covers, dump, external, kind_of, numbered as key, small_levels,
};
use strandline::operators::BuiltInOperator;
use strandline::{
    Db, ErrorKind, Hooks, IngestOptions, KeyspaceOptions, Options, Placement, PmSource,
    ReadOptions, RepairReport, repair,
};
use testkit::Rng;

fn options() -> Options {
    small_levels().compression(strandline::Compression::None)
}

/// A store with tables, runs, a memtable and a second keyspace. Tables hold at least what was
/// written until two thirds of the rounds.
fn store(place: &Path) -> (Contents, Contents) {
    let db = Db::open(place, options()).expect("open");
    let other = db.create_keyspace("other").expect("keyspace");
    let mut model = BTreeMap::new();
    let mut rng = Rng::new(5);
    for round in 0..24_000_u64 {
        let i = rng.below(20_000);
        if round == 16_000 {
            db.compact().expect("compact");
        }
        match rng.below(30) {
            0 => {
                let (from, to) = (key(i), key(i + 5));
                db.delete_range(&from, &to).expect("delete range");
                model.retain(|key, _| *key < from || *key >= to);
            }
            1..5 => {
                db.delete(key(i)).expect("delete");
                model.remove(&key(i));
            }
            _ => {
                let mut value = format!("{round} ").into_bytes();
                value.resize(130, b'v');
                db.put(key(i), &value).expect("put");
                model.insert(key(i), value);
            }
        }
    }
    db.put(b"long", [7; 5000]).expect("put");
    model.insert(b"long".to_vec(), vec![7; 5000]);
    other.put(b"a", b"b").expect("put");
    let levels = &db.properties().keyspaces[0].levels;
    assert!(levels.iter().map(|level| level.tables.len()).sum::<usize>() > 5);
    assert!(!db.properties().keyspaces[0].runs.is_empty());
    (model, BTreeMap::from([(b"a".to_vec(), b"b".to_vec())]))
}

fn tables(place: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(place.join("sst")).expect("tables");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("entry").path()).collect();
    paths.sort();
    paths
}

fn all(place: &Path, space: &str) -> Contents {
    let db = Db::open(place, options()).expect("open");
    assert!(db.check().expect("check").damage.is_empty());
    match db.keyspace(space) {
        Ok(keyspace) => dump(&keyspace, &ReadOptions::default()),
        Err(_) => BTreeMap::new(),
    }
}

/// Every key that is wrong or missing lies in a range that was told.
fn assert_told(report: &RepairReport, model: &Contents, saved: &Contents) {
    let covered = |key: &Vec<u8>| report.lost.iter().any(|lost| covers(lost, key));
    for (key, value) in model {
        assert!(saved.get(key) == Some(value) || covered(key), "{}", key.escape_ascii());
    }
    for key in saved.keys().filter(|key| !model.contains_key(*key)) {
        assert!(covered(key), "{} came back", key.escape_ascii());
    }
    assert_eq!(report.lost.iter().filter(|lost| lost.reason.len() < 10).count(), 0);
}

fn same_files(place: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut files = tables(place);
    files.push(place.join("pool"));
    files.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap_or_default())).collect()
}

#[test]
fn a_sound_store_is_copied() {
    let dir = TempDir::new("repair-sound");
    let (model, other) = store(&dir.join("db"));
    let before = same_files(&dir.join("db"));
    let report = repair(dir.join("db"), dir.join("new"), options()).expect("repair");
    assert!(before == same_files(&dir.join("db")), "the old store is as it was");
    assert_eq!((report.lost.len(), report.records), (0, model.len() as u64 + 1), "{report:?}");
    assert_eq!(report.keyspaces, ["default", "other"]);
    assert!(all(&dir.join("new"), "default") == model && all(&dir.join("new"), "other") == other);
    assert_eq!(kind_of(repair(dir.join("db"), dir.join("new"), options())), ErrorKind::Exists);
    assert_eq!(kind_of(repair(dir.join("no"), dir.join("no2"), options())), ErrorKind::NotFound);
    assert!(!dir.join("no2").exists());
    let held = Db::open(dir.join("db"), options()).expect("open");
    assert_eq!(kind_of(repair(dir.join("db"), dir.join("new2"), options())), ErrorKind::Busy);
    drop(held);
}

#[test]
fn a_lost_name_loses_nothing() {
    let dir = TempDir::new("repair-name");
    let (model, _) = store(&dir.join("db"));
    std::fs::remove_file(dir.join("db/STORE")).expect("removed");
    let report = repair(dir.join("db"), dir.join("new"), options()).expect("repair");
    assert!(report.lost.is_empty(), "{report:?}");
    assert!(all(&dir.join("new"), "default") == model);
}

#[test]
fn a_missing_table_takes_its_keys() {
    let dir = TempDir::new("repair-missing");
    let (model, _) = store(&dir.join("db"));
    let gone = tables(&dir.join("db")).swap_remove(2);
    std::fs::remove_file(&gone).expect("removed");
    let report = repair(dir.join("db"), dir.join("new"), options()).expect("repair");
    assert_eq!(report.lost.len(), 1, "{report:?}");
    let lost = &report.lost[0];
    assert_eq!(lost.keyspace.as_deref(), Some("default"));
    assert!(lost.from.is_some() && lost.to.is_some() && lost.reason.contains("missing"));
    let saved = all(&dir.join("new"), "default");
    assert!(saved.len() < model.len() && saved.len() > model.len() / 2);
    assert_told(&report, &model, &saved);
}

#[test]
fn damaged_blocks_take_only_their_keys() {
    let dir = TempDir::new("repair-blocks");
    let (model, _) = store(&dir.join("db"));
    let path = tables(&dir.join("db")).swap_remove(1);
    let mut bytes = std::fs::read(&path).expect("table");
    for at in [100, 20_000] {
        bytes[at] ^= 1;
    }
    std::fs::write(&path, &bytes).expect("written");
    let report = repair(dir.join("db"), dir.join("new"), options()).expect("repair");
    assert_eq!(report.lost.len(), 2, "{report:?}");
    let saved = all(&dir.join("new"), "default");
    assert!(model.len() - saved.len() < 100, "{} of {}", saved.len(), model.len());
    assert_told(&report, &model, &saved);
}

#[test]
fn flipped_bits_of_the_pool_are_told() {
    let dir = TempDir::new("repair-pool");
    let (model, _) = store(&dir.join("db"));
    let pool = dir.join("db/pool");
    let good = std::fs::read(&pool).expect("pool");
    let used: Vec<usize> = (0..good.len()).filter(|at| good[*at] != 0).collect();
    let mut rng = Rng::new(11);
    let mut saved_most = 0;
    for round in 0..25 {
        let mut bytes = good.clone();
        for _ in 0..1 + round % 3 {
            bytes[used[rng.below(used.len() as u64) as usize]] ^= 1 << rng.below(8);
        }
        std::fs::write(&pool, &bytes).expect("written");
        let new = dir.join(&format!("new{round}"));
        let report = repair(dir.join("db"), &new, options()).expect("repair");
        let saved = all(&new, "default");
        assert_told(&report, &model, &saved);
        saved_most += u64::from(saved.len() + 50 > model.len());
        std::fs::remove_dir_all(&new).expect("removed");
    }
    assert!(saved_most > 15, "{saved_most}");
}

#[test]
fn without_a_pool_the_tables_are_left() {
    let dir = TempDir::new("repair-no-pool");
    let (model, _) = store(&dir.join("db"));
    let pool = std::fs::read(dir.join("db/pool")).expect("pool");
    for (name, bytes) in [("cut", &pool[..pool.len() / 2]), ("foreign", b"foreign"), ("gone", b"")]
    {
        std::fs::write(dir.join("db/pool"), bytes).expect("written");
        if bytes.is_empty() {
            std::fs::remove_file(dir.join("db/pool")).expect("removed");
        }
        let report = repair(dir.join("db"), dir.join(name), options()).expect("repair");
        assert!(report.lost[0].reason.contains("pool"), "{report:?}");
        let saved = all(&dir.join(name), "default");
        assert!(saved.len() > model.len() / 2, "{name}: {}", saved.len());
        assert_told(&report, &model, &saved);
    }
}

#[test]
fn a_checkpoint_is_repaired_too() {
    let dir = TempDir::new("repair-checkpoint");
    let (model, other) = store(&dir.join("db"));
    let db = Db::open(dir.join("db"), options()).expect("open");
    let copy = dir.join("copy");
    db.checkpoint(&copy).expect("checkpoint");
    let report = repair(&copy, dir.join("new"), options()).expect("repair");
    assert!(report.lost.is_empty(), "{report:?}");
    assert!(all(&dir.join("new"), "default") == model && all(&dir.join("new"), "other") == other);
    std::fs::write(copy.join("sst/MANIFEST"), b"gone").expect("written");
    let report = repair(&copy, dir.join("new2"), options()).expect("repair");
    assert!(report.lost[0].reason.contains("MANIFEST"), "{report:?}");
    assert!(all(&dir.join("new2"), "default") == model);
}

#[test]
fn what_was_ingested_keeps_its_age() {
    let dir = TempDir::new("repair-ingested");
    let db = Db::open(dir.join("db"), options()).expect("open");
    db.put(b"k1", b"older").expect("put");
    db.put(b"k2", b"older").expect("put");
    let changes = [b"k1", b"k2"].map(|key| (key.to_vec(), Some(b"ingested".to_vec())));
    let path = dir.join("x.sst");
    std::fs::write(&path, external(&changes, &[])).expect("written");
    db.ingest(db.default_keyspace(), &[path], IngestOptions::default()).expect("ingest");
    db.put(b"k2", b"newer").expect("put");
    drop(db);
    repair(dir.join("db"), dir.join("new"), options()).expect("repair");
    let saved = all(&dir.join("new"), "default");
    assert_eq!(saved[&b"k1"[..]], b"ingested");
    assert_eq!(saved[&b"k2"[..]], b"newer");
}

#[test]
fn the_places_of_every_keyspace_are_kept() {
    let dir = TempDir::new("repair-places");
    let options = options().pm(PmSource::Dram);
    let db = Db::open(dir.join("db"), options.clone()).expect("open");
    let own = |placement| KeyspaceOptions::new().placement(placement);
    db.default_keyspace().set_options(&own(Placement::Level)).expect("set");
    let hot = db.create_keyspace_with("hot", own(Placement::Benefit)).expect("made");
    hot.put("k", "v").expect("put");
    db.close().expect("close");
    repair(dir.join("db"), dir.join("saved"), options.clone()).expect("repaired");
    let saved = Db::open(dir.join("saved"), options).expect("open");
    for (name, placement) in [("default", Placement::Level), ("hot", Placement::Benefit)] {
        let placed = saved.keyspace(name).expect("there").options().placement;
        assert_eq!(placed, Some(placement.into()), "{name}");
    }
    let nothing = repair(dir.join("nothing"), dir.join("more"), Options::default());
    let error = nothing.expect_err("nothing there");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("nothing of a store is there"), "{error}");
}

/// Operands over a value, over a deletion, over nothing, and under both; in tables, runs and a memtable. A repair has no
/// operator: it carries them over as they are.
#[test]
fn operands_of_merges_are_carried_over() {
    let dir = TempDir::new("repair-merge");
    let open = |name: &str| {
        let joined = BuiltInOperator::named("append:+").expect("built in");
        let hooks = Hooks::default().merge_operator(Arc::new(joined));
        Db::open_with(dir.join(name), options(), hooks).expect("open")
    };
    let db = open("db");
    let merge = |i: u64, text: &str| db.merge(key(i), text.as_bytes()).expect("merge");
    for i in 0..200 {
        merge(i, "lost under what follows");
        db.put(key(i), b"0").expect("put");
        if i % 5 == 0 {
            db.delete(key(i)).expect("delete");
        }
        merge(i, "table");
    }
    db.delete_range(key(90), key(95)).expect("delete range");
    db.compact().expect("compact");
    (0..200).step_by(2).for_each(|i| merge(i, "run"));
    db.flush().expect("flush");
    (0..200).step_by(3).for_each(|i| merge(i, "memtable"));
    merge(300, "alone");
    let expected = dump(db.default_keyspace(), &ReadOptions::default());
    assert_eq!(expected[&key(6)], b"0+table+run+memtable");
    assert_eq!((&expected[&key(90)][..], expected.get(&key(91))), (&b"run+memtable"[..], None));
    drop(db);
    let report = repair(dir.join("db"), dir.join("new"), options()).expect("repair");
    assert!(report.lost.is_empty(), "{report:?}");
    assert!(dump(open("new").default_keyspace(), &ReadOptions::default()) == expected);
    assert_eq!(
        kind_of(Db::open(dir.join("new"), options()).expect("open").get(key(6))),
        ErrorKind::NotSupported
    );

    // An operand is lost: its key is told, and no other key is wrong.
    let pool = dir.join("db/pool");
    let mut bytes = std::fs::read(&pool).expect("pool");
    let record = [&key(6)[..], b"memtable"].concat();
    let at = bytes.windows(record.len()).position(|part| part == record).expect("is there");
    bytes[at + 8] ^= 1;
    std::fs::write(&pool, bytes).expect("written");
    let report = repair(dir.join("db"), dir.join("part"), options()).expect("repair");
    assert!(!report.lost.is_empty());
    assert_told(
        &report,
        &expected,
        &dump(open("part").default_keyspace(), &ReadOptions::default()),
    );
}
