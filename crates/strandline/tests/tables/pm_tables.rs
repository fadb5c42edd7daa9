//! Tables of upper levels in persistent memory: what lies there, what it costs, and what becomes of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::common::{
    Place, TempDir, assert_nothing_leaked, covers, dump, flip, heap, kind_of, noise, scattered,
};
use base::planted::{self, Bug};
use ssd::Memory;
use strandline::{Db, ErrorKind, Level0Form, Options, PmSource, ReadOptions, SsdSource, steps};
use testkit::Rng;

const MIB: u64 = 1 << 20;
const ZONE: u64 = 32 << 10;

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

fn options() -> Options {
    Options::default()
        .pm_size(4 * MIB)
        .zone_size(ZONE)
        .memtable_bytes(64 << 10)
        .table_bytes(128 << 10)
        .pm_tables(40)
        .block_cache(MIB)
        .background_threads(0)
        .recovery_threads(1)
}

/// Puts, overwrites and deletes of `keys` keys.
fn churn(db: &Db, model: &mut Contents, keys: u64, count: u64) {
    let mut rng = Rng::new(keys ^ count);
    for round in 0..count {
        let i = rng.below(keys);
        if rng.below(6) == 0 {
            db.delete(scattered(i)).expect("delete");
            model.remove(&scattered(i));
        } else {
            db.put(scattered(i), noise(i, round)).expect("put");
            model.insert(scattered(i), noise(i, round));
        }
    }
}

#[track_caller]
fn assert_same(db: &Db, model: &Contents) {
    let space = db.default_keyspace();
    assert!(dump(space, &ReadOptions::default()) == *model, "a scan differs");
    for (key, value) in model.iter().step_by(7) {
        assert_eq!(space.get(key).expect("get").as_ref(), Some(value));
    }
}

#[track_caller]
fn assert_sound(db: &Db) {
    while !db.work(1 << 20).expect("work").is_idle() {}
    let report = db.check().expect("check");
    assert!(report.damage.is_empty(), "{:?}", report.damage);
    assert_nothing_leaked(db, "a sound store");
}

/// Bytes of tables in persistent memory, and in files.
fn bytes(db: &Db) -> (u64, u64) {
    let levels = &db.properties().keyspaces[0].levels;
    let in_memory = levels.iter().map(|level| level.pm_bytes()).sum::<u64>();
    (in_memory, levels.iter().map(|level| level.bytes()).sum::<u64>() - in_memory)
}

/// Offset in the pool and bytes of the tables in persistent memory.
fn in_memory(db: &Db) -> Vec<(u64, u64)> {
    let levels = db.properties().keyspaces.swap_remove(0).levels;
    let tables = levels.into_iter().flat_map(|level| level.tables);
    tables.filter_map(|table| Some((table.pm_at?, table.bytes))).collect()
}

/// Writes until tables lie in persistent memory, and in files below them.
fn filled(place: &Place, options: Options) -> (Db, Contents) {
    let db = place.open(options);
    let mut model = Contents::new();
    for round in 1..100 {
        churn(&db, &mut model, 20_000, 5_000 + round);
        if bytes(&db).0 > 4 * ZONE && bytes(&db).1 > 0 {
            return (db, model);
        }
    }
    panic!("{:?} after all that", bytes(&db));
}

#[test]
fn upper_levels_fill_their_share_and_the_rest_goes_to_ssd() {
    for (threads, percent) in [(0, 40), (2, 40), (0, 75), (1, 10)] {
        let place = Place::new(options().pm_size, Memory::default());
        let options = options().background_threads(threads).pm_tables(percent);
        let db = place.open(options.clone());
        let mut model = Contents::new();
        let mut most = 0;
        for round in 0..20 {
            churn(&db, &mut model, 40_000, 6_000 + round);
            let ssd = db.properties().ssd.expect("levels");
            // The limit falls when more is kept for indexes; what lies there already stays.
            let share = db.properties().pm_capacity * u64::from(percent) / 100;
            assert!(ssd.pm_bytes <= share && ssd.pm_limit <= share, "{ssd:?}");
            most = most.max(ssd.pm_bytes);
        }
        let (in_memory, on_ssd) = bytes(&db);
        let limit = db.properties().ssd.expect("levels").pm_limit;
        println!(
            "{threads} threads, {percent} %: at most {most} of {limit}, {in_memory} now, {on_ssd} on SSD"
        );
        assert!(most > 0 && on_ssd > 0);
        assert!(db.properties().persisted.site_bytes(strandline::Site::Table) > 0);
        assert_same(&db, &model);
        drop(db);

        let db = place.open(options.clone());
        assert_same(&db, &model);
        churn(&db, &mut model, 40_000, 5_000);
        assert_same(&db, &model);
        db.flush().expect("flush");
        assert_sound(&db);

        // All that is left lies in one level, the deepest, which belongs on SSD.
        let used = |db: &Db| db.properties().pm_capacity - db.properties().pm_free;
        db.compact().expect("compact");
        assert_same(&db, &model);
        assert_eq!(bytes(&db).0, 0);
        model.keys().for_each(|key| db.delete(key).expect("delete"));
        db.flush().expect("flush");
        db.compact().expect("compact");
        // What no thread reads any more is given time to go.
        assert_sound(&db);
        assert_eq!(db.properties().ssd.expect("levels").pm_bytes, 0);
        assert!(used(&db) < MIB, "{} of 4 MiB are not free", used(&db));
    }
}

#[test]
fn what_outgrows_a_zone_goes_to_a_file() {
    let place = Place::new(options().pm_size, Memory::default());
    let db = place.open(options().compression(strandline::Compression::None));
    let put = |from: u64, len: usize| {
        for i in from..from + 50 {
            db.put(scattered(i), vec![i as u8; len]).expect("put");
        }
        db.flush().expect("flush");
        db.compact_range(db.default_keyspace(), None, Some(b"a")).expect("nothing to compact");
    };
    // A level below, so that what comes next has one above it.
    put(0, 100);
    db.compact().expect("compact");
    let long = vec![7; 2 * ZONE as usize];
    for i in 0..4 {
        db.put(scattered(i), &long).expect("put");
        db.put(scattered(i), &long).expect("put");
    }
    put(10, 100);
    while !db.work(1000).expect("work").is_idle() {}
    let reads =
        |db: &Db| (0..4).all(|i| db.get(scattered(i)).expect("get").as_ref() == Some(&long));
    assert!(reads(&db));
    steps::reclaim(db.default_keyspace());
    db.compact_range(db.default_keyspace(), Some(&scattered(0)), Some(&scattered(3)))
        .expect("compact");
    assert!(reads(&db));
    for (_, len) in in_memory(&db) {
        assert!(len <= ZONE, "{len} bytes");
    }
    assert_sound(&db);
}

#[test]
fn less_for_tables_is_kept_to_and_more_is_used() {
    let place = Place::new(options().pm_size, Memory::default());
    let (db, mut model) = filled(&place, options());
    let before = bytes(&db).0;
    drop(db);
    let db = place.open(options().pm_tables(0));
    assert_same(&db, &model);
    assert!(bytes(&db).0 > 0, "tables stay where they are");
    churn(&db, &mut model, 20_000, 80_000);
    assert!(bytes(&db).0 < before, "and leave when they are written anew");
    assert_same(&db, &model);
    db.compact().expect("compact");
    assert_eq!(bytes(&db).0, 0);
    drop(db);
    let (db, _) = filled(&place, options().pm_tables(60));
    assert_sound(&db);
}

#[test]
fn a_table_stays_for_those_who_read_it() {
    let place = Place::new(options().pm_size, Memory::default());
    let (db, model) = filled(&place, options());
    let mut iter = db.default_keyspace().cursor(&ReadOptions::default()).expect("iter");
    iter.seek_to_first().expect("first");
    let snapshot = db.snapshot();
    let held = in_memory(&db).len() as u64;
    db.compact().expect("compact");
    let leaked = |db: &Db| steps::leaked_tables(db.default_keyspace()).expect("list");
    assert!(leaked(&db) >= held, "the iterator holds them");
    // What others write goes nowhere near.
    churn(&db, &mut Contents::new(), 20_000, 5_000);
    for (key, value) in &model {
        assert_eq!((iter.key(), iter.value().expect("value")), (Some(&key[..]), Some(&value[..])));
        iter.next().expect("next");
    }
    drop((iter, snapshot));
    assert_sound(&db);
}

/// Keys that all lie in persistent memory, above others on SSD.
fn all_in_memory(place: &Place, keys: u64) -> (Db, Contents) {
    let db = place.open(options().level0(Level0Form::Sst).memtable_bytes(512 << 10).subranges(1));
    let settle = || {
        db.flush().expect("flush");
        while !db.work(1 << 20).expect("work").is_idle() {}
    };
    for i in keys..2 * keys {
        db.put(scattered(i), noise(i, 0)).expect("put");
    }
    settle();
    db.compact().expect("compact");
    let model: Contents = (0..keys).map(|i| (scattered(i), noise(i, 1))).collect();
    model.iter().for_each(|(key, value)| db.put(key, value).expect("put"));
    settle();
    let levels = db.properties().keyspaces.swap_remove(0).levels;
    let tables = levels.iter().flat_map(|level| &level.tables);
    let placed: u64 = tables.filter(|table| table.pm_at.is_some()).map(|table| table.entries).sum();
    assert_eq!(placed, keys, "all of them");
    (db, model)
}

#[test]
fn the_block_cache_has_no_data_of_tables_in_persistent_memory() {
    let place = Place::new(options().pm_size, Memory::default());
    let (db, model) = all_in_memory(&place, 1500);
    let cache = |db: &Db| db.properties().ssd.expect("levels").cache;
    let before = cache(&db);
    for _ in 0..2 {
        for (key, value) in &model {
            assert_eq!(db.get(key).expect("get").as_ref(), Some(value));
            assert_eq!(db.get_pinned(key).expect("get").as_deref(), Some(&value[..]));
        }
        let keys: Vec<_> = model.keys().collect();
        let found = db.multi_get(&keys).expect("get");
        assert!(
            found.iter().zip(model.values()).all(|(found, value)| found.as_ref() == Some(value))
        );
    }
    let after = cache(&db);
    assert_eq!((after.inserts, after.misses), (before.inserts, before.misses));
    assert!(after.held > 0);
    assert_sound(&db);
}

/// Values are pinned where they lie, their tables are compacted away, and others write over all space that is free. Whether the
/// values stay as they were.
fn pinned_values_stay() -> bool {
    let place = Place::new(options().pm_size, Memory::default());
    let (db, model) = all_in_memory(&place, 1500);
    let pin = |key: &Vec<u8>| db.get_pinned(key).expect("get").expect("there");
    let pinned: Vec<_> = model.keys().step_by(20).map(pin).collect();
    db.compact().expect("compact");
    assert_eq!(bytes(&db).0, 0, "the tables are gone");
    let leaked = steps::leaked_tables(db.default_keyspace()).expect("list");
    churn(&db, &mut Contents::new(), 20_000, 30_000);
    let same =
        pinned.iter().zip(model.values().step_by(20)).all(|(pinned, value)| **pinned == *value);
    drop(pinned);
    if same {
        assert!(leaked > 0, "values held them");
        assert_sound(&db);
    }
    same
}

#[test]
fn an_extent_stays_for_values_that_are_pinned_in_it() {
    assert!(pinned_values_stay());
    planted::plant(Some(Bug::FreeLentPmTable));
    let stay = std::panic::catch_unwind(pinned_values_stay);
    planted::plant(None);
    assert!(stay.is_ok_and(|same| !same), "the extent is written over");
}

#[test]
fn a_checkpoint_has_files_only() {
    let place = Place::new(options().pm_size, Memory::default());
    let (db, model) = filled(&place, options());
    db.checkpoint("/copy").expect("checkpoint");
    assert_same(&db, &model);
    let copy = Db::open_on(heap(8 * MIB), Arc::clone(&place.fs), "/copy/sst", options());
    let copy = copy.expect("open");
    assert_same(&copy, &model);
    assert_eq!(bytes(&copy).0, 0);
    assert_sound(&copy);
    assert_sound(&db);
}

#[test]
fn a_keyspace_goes_with_its_tables() {
    let place = Place::new(options().pm_size, Memory::default());
    let db = place.open(options());
    let space = db.create_keyspace("spare").expect("create");
    let mut model = Contents::new();
    churn(&db, &mut model, 10_000, 20_000);
    for round in 0..40_000 {
        space.put(scattered(round % 15_000), noise(round, round)).expect("put");
    }
    assert!(db.properties().ssd.expect("levels").pm_bytes > 0);
    db.drop_keyspace("spare").expect("drop");
    drop(space);
    db.compact().expect("compact");
    assert_eq!(db.properties().ssd.expect("levels").pm_bytes, 0);
    assert_same(&db, &model);
    assert_sound(&db);
}

#[test]
fn what_cannot_be_is_refused() {
    let dir = TempDir::new("pm-tables-refused");
    for (name, options) in [
        ("dram", options().pm(PmSource::Dram)),
        ("none", options().ssd(SsdSource::None)),
        ("much", options().pm_tables(76)),
        ("heap", options().pm(PmSource::Heap)),
    ] {
        let path = dir.join(name);
        assert_eq!(kind_of(Db::open(&path, options)), ErrorKind::InvalidArgument, "{name}");
        assert!(!path.exists(), "{name}");
    }
    // What the store is counts, too.
    let path = dir.join("logged");
    drop(Db::open(&path, options().pm(PmSource::Dram).pm_tables(0)).expect("open"));
    assert_eq!(kind_of(Db::open(&path, options())), ErrorKind::InvalidArgument);
}

/// A store in a directory, with tables in its pool; closed.
fn stored(dir: &TempDir) -> (PathBuf, Contents, Vec<(u64, u64)>) {
    let path = dir.join("store");
    let db = Db::open(&path, options()).expect("open");
    let mut model = Contents::new();
    for round in 1..100 {
        churn(&db, &mut model, 20_000, 5_000 + round);
        if bytes(&db).0 > 4 * ZONE && bytes(&db).1 > 0 {
            break;
        }
    }
    let tables = in_memory(&db);
    assert!(!tables.is_empty());
    drop(db);
    (path, model, tables)
}

#[test]
fn an_open_for_reading_reads_them_where_they_are() {
    let dir = TempDir::new("pm-tables-read-only");
    let (path, model, tables) = stored(&dir);
    let pool = std::fs::read(path.join("pool")).expect("pool");
    let db = Db::open_read_only(&path, Options::default()).expect("open");
    assert_same(&db, &model);
    assert_eq!(in_memory(&db), tables);
    assert!(db.check().expect("check").damage.is_empty());
    drop(db);
    assert!(std::fs::read(path.join("pool")).expect("pool") == pool, "nothing is written");
}

#[test]
fn damage_to_a_table_concerns_its_keys_only() {
    let dir = TempDir::new("pm-tables-damage");
    let (path, model, tables) = stored(&dir);
    let (at, len) = tables[tables.len() / 2];
    flip(&path.join("pool"), at + len / 4);
    let db = Db::open(&path, options()).expect("opens: data is read when it is asked for");
    let damage = db.check().expect("check").damage;
    let within =
        |damage: &strandline::Damage| damage.file.is_none() && (at..at + len).contains(&damage.at);
    assert!(!damage.is_empty() && damage.iter().all(within), "{damage:?}");
    let mut refused = 0;
    for (key, value) in &model {
        match db.get(key) {
            Ok(found) => assert_eq!(found.as_ref(), Some(value)),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                assert!(error.context().contains("of "), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0 && refused < model.len() / 10, "{refused} of {}", model.len());
    drop(db);

    // Its end names all else: no open for writing goes past that.
    flip(&path.join("pool"), at + len - 4);
    assert_eq!(kind_of(Db::open(&path, options())), ErrorKind::Corruption);
    let db = Db::open_read_only(&path, Options::default()).expect("open");
    let broken = &db.recovery().damage;
    assert!(broken.iter().any(|damage| damage.at == at && damage.file.is_none()), "{broken:?}");
}

#[test]
fn a_repair_saves_what_is_in_them() {
    let dir = TempDir::new("pm-tables-repair");
    let (path, model, tables) = stored(&dir);
    flip(&path.join("pool"), tables[0].0 + tables[0].1 / 4);
    let report = strandline::repair(&path, dir.join("saved"), options()).expect("repair");
    assert!(!report.lost.is_empty());
    let db = Db::open(dir.join("saved"), options()).expect("open");
    let saved = dump(db.default_keyspace(), &ReadOptions::default());
    let inside = |key: &[u8]| report.lost.iter().any(|lost| covers(lost, key));
    let differs = model.iter().filter(|(key, value)| saved.get(*key) != Some(value));
    let differs: Vec<_> = differs.map(|(key, _)| key).collect();
    assert!(differs.iter().all(|key| inside(key)), "{} keys differ", differs.len());
    assert!(saved.len() > model.len() / 10 * 9);
}
