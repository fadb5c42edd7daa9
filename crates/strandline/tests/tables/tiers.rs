//! Tiers of files: which directory a table goes to, that it moves, that every answer is the same, and what happens where a directory
//! is missing, full, or no longer named.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{
    self, Contents, Place, TempDir, assert_nothing_leaked, dump, noise, numbered as key, scattered,
    small_levels,
};
use ssd::{Call, Failure, Faulty, Fs, Memory, Rule};
use strandline::{
    Db, ErrorKind, Hooks, Options, Placement, PmSource, ReadOptions, TableProperties, TierSource,
    TierSpec, steps,
};

const FAST: &str = "/fast";
const COLD: &str = "/cold";

fn tiered(tiers: &[(&str, u64)]) -> Options {
    let dirs = tiers.iter().map(|(dir, size)| TierSpec::new(*dir, *size)).collect();
    small_levels().tiers(TierSource::Dirs(dirs))
}

fn work(db: &Db) {
    while !db.work(1 << 20).expect("work").is_idle() {}
}

fn place() -> Place {
    Place::new(small_levels().pm_size, Memory::default())
}

/// Writes `count` keys in no order, so that levels have something to merge, and compacts as it comes.
fn fill(db: &Db, count: u64, round: u64) {
    for i in 0..count {
        db.put(scattered(i), noise(i, round)).expect("put");
        if i % 500 == 0 {
            work(db);
        }
    }
    db.compact().expect("compact");
    work(db);
}

fn contents(db: &Db) -> Contents {
    dump(db.default_keyspace(), &ReadOptions::default())
}

fn tables(db: &Db) -> Vec<(usize, TableProperties)> {
    let levels = db.properties().keyspaces.into_iter().flat_map(|space| space.levels);
    levels
        .flat_map(|level| level.tables.into_iter().map(move |table| (level.level, table)))
        .collect()
}

/// Bytes of tables in each directory.
fn bytes_in(db: &Db) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (_, table) in tables(db) {
        let dir = table.path.parent().expect("a directory").display().to_string();
        *sums.entry(dir).or_insert(0) += table.bytes;
    }
    sums
}

/// The tables that the store names are those that are there, each in its directory.
fn assert_files(place: &Place, db: &Db, dirs: &[&str]) {
    assert_nothing_leaked(db, "now");
    let named: BTreeSet<String> =
        tables(db).iter().map(|(_, table)| table.path.display().to_string()).collect();
    let mut there = BTreeSet::new();
    for dir in dirs {
        let names = place.fs.list(Path::new(dir)).unwrap_or_default().into_iter();
        there.extend(
            names.filter(|name| name.ends_with(".sst")).map(|name| format!("{dir}/{name}")),
        );
    }
    assert_eq!(named, there);
    let sizes = db.properties().ssd.expect("tables").tiers;
    for (dir, bytes) in bytes_in(db) {
        let tier = sizes.iter().find(|tier| tier.dir == Path::new(&dir)).expect("a tier");
        assert_eq!(tier.bytes, bytes, "{dir}");
    }
}

#[test]
fn upper_levels_fill_the_fastest_tier() {
    let place = place();
    let options = tiered(&[(FAST, 2600 << 10)]).placement(Placement::Level);
    let db = place.open(options.clone());
    fill(&db, 20_000, 1);
    for i in 0..14_000 {
        db.put(scattered(i), noise(i, 2)).expect("put");
        work(&db);
    }
    let all = tables(&db);
    let deepest = all.iter().map(|(level, _)| *level).max().expect("levels");
    let (deep, upper): (Vec<_>, Vec<_>) = all.iter().partition(|(level, _)| *level == deepest);
    assert!(!upper.is_empty() && upper.iter().all(|(_, table)| table.tier != 0), "{upper:?}");
    let slow = deep.iter().filter(|(_, table)| table.tier == 0).count();
    assert!(slow > deep.len() / 2, "{slow} of {}", deep.len());
    assert_files(&place, &db, &["/sst", FAST]);
    let before = contents(&db);
    db.close().expect("close");
    let db = place.open(options);
    assert!(contents(&db) == before);
    assert!(db.check().expect("check").damage.is_empty());
}

#[test]
fn a_tier_takes_no_more_than_it_may() {
    let place = place();
    let db = place.open(tiered(&[(FAST, 300 << 10), (COLD, 600 << 10)]));
    for round in 0..3 {
        fill(&db, 8_000, round);
        let sums = bytes_in(&db);
        let of = |dir: &str| sums.get(dir).copied().unwrap_or(0);
        assert!(of(FAST) <= 300 << 10 && of(COLD) <= 600 << 10, "{sums:?}");
        if round == 0 {
            assert!(of(FAST) >= 150 << 10 && of("/sst") > 0, "{sums:?}");
        }
        assert_files(&place, &db, &["/sst", FAST, COLD]);
    }
}

/// Reads keys of a stretch, past the cache.
fn read(db: &Db, from: u64, count: u64) {
    for i in from..from + count {
        assert!(db.get(key(i)).expect("get").is_some());
    }
}

/// Bytes of tables that have keys of a stretch: all, and in the fast tier.
fn of_stretch(db: &Db, from: u64, count: u64) -> (u64, u64) {
    let (low, high) = (key(from), key(from + count));
    let within = |table: &TableProperties| table.smallest <= high && table.largest >= low;
    let all = tables(db).into_iter().map(|(_, table)| table).filter(within);
    all.fold((0, 0), |(all, fast), table| {
        let is_fast = table.path.starts_with(FAST);
        (all + table.bytes, fast + if is_fast { table.bytes } else { 0 })
    })
}

#[test]
fn what_is_read_most_moves_to_the_fastest_tier() {
    let place = place();
    let options = tiered(&[(FAST, 600 << 10)]).block_cache(0);
    let db = place.open(options);
    for i in 0..20_000 {
        db.put(key(i), noise(i, 0)).expect("put");
        if i % 500 == 0 {
            work(&db);
        }
    }
    db.compact().expect("compact");
    work(&db);
    let before = contents(&db);
    for from in [16_000, 2_000, 9_000] {
        for _ in 0..12 {
            read(&db, from, 2_000);
            work(&db);
        }
        let (all, fast) = of_stretch(&db, from, 1_999);
        assert!(fast * 10 >= all * 8, "{from}: {fast} of {all}");
        assert!(bytes_in(&db)[FAST] <= 600 << 10);
    }
    let moved = db.properties().ssd.expect("tables").compactions;
    assert!(moved.tier_moves > 10 && moved.tier_move_bytes > 600 << 10, "{moved:?}");
    // What was hot once has cooled.
    let (_, fast) = of_stretch(&db, 16_000, 1_999);
    assert!(fast < 300 << 10, "{fast}");
    assert!(contents(&db) == before);
    assert_files(&place, &db, &["/sst", FAST]);
    // Nothing moves for nothing.
    work(&db);
    let settled = db.properties().ssd.expect("tables").compactions.tier_moves;
    work(&db);
    assert_eq!(db.properties().ssd.expect("tables").compactions.tier_moves, settled);
}

#[test]
fn a_tier_is_known_by_what_lies_in_it() {
    let place = place();
    let db = place.open(tiered(&[(FAST, 400 << 10), (COLD, 400 << 10)]));
    fill(&db, 8_000, 1);
    let (before, sums) = (contents(&db), bytes_in(&db));
    assert_eq!(sums.len(), 3, "{sums:?}");
    db.close().expect("close");
    // In another order it is the same directories.
    let db = place.open(tiered(&[(COLD, 400 << 10), (FAST, 400 << 10)]));
    assert_eq!(bytes_in(&db), sums);
    assert!(contents(&db) == before);
    fill(&db, 2_000, 2);
    db.close().expect("close");
    // The own directory may be the fastest.
    let db = place.open(tiered(&[("/sst", 400 << 10), (FAST, 400 << 10), (COLD, 0)]));
    assert_eq!(db.properties().ssd.expect("tables").tiers[0].dir, Path::new("/sst"));
    fill(&db, 2_000, 3);
    assert!(bytes_in(&db).get("/sst").is_none_or(|bytes| *bytes <= 400 << 10));
    db.close().expect("close");
    // One that is not named is missed.
    let refused = place.try_open(tiered(&[(FAST, 400 << 10)])).err().expect("a tier is missing");
    assert_eq!(refused.kind(), ErrorKind::Corruption);
    assert!(refused.context().contains("tiers"), "{refused}");
    let twice = place.try_open(tiered(&[(FAST, 1 << 20), (FAST, 1 << 20), (COLD, 0)]));
    assert_eq!(twice.err().expect("named twice").kind(), ErrorKind::InvalidArgument);
    // Another store's directory is not taken.
    let other = Place { region: common::heap(small_levels().pm_size), fs: Arc::clone(&place.fs) };
    let other_dir = Path::new("/other");
    other.fs.create_dir_all(other_dir).expect("directory");
    let refused = Db::open_on(
        Arc::clone(&other.region),
        Arc::clone(&other.fs),
        "/other",
        tiered(&[(FAST, 1 << 20)]),
    );
    let refused = refused.err().expect("another store's");
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(refused.context().contains("another store"), "{refused}");
    let db = place.open(tiered(&[(FAST, 0), (COLD, 0)]));
    assert!(db.check().expect("check").damage.is_empty());
}

#[test]
fn a_tier_that_is_full_before_its_time_is_gone_around() {
    let faults = Arc::new(Faulty::new(Memory::default()));
    faults.create_dir_all(Path::new("/sst")).expect("directory");
    let fs: Arc<dyn Fs> = Arc::clone(&faults) as Arc<dyn Fs>;
    let place = Place { region: common::heap(small_levels().pm_size), fs };
    let db = place.open(tiered(&[(FAST, 0)]));
    let full = Rule::new(1, Failure::NoSpace).of(Call::Append).on(FAST).for_ever();
    faults.set_rules(vec![full]);
    fill(&db, 8_000, 1);
    let sums = bytes_in(&db);
    assert!(sums["/sst"] > 500 << 10 && !sums.contains_key(FAST), "{sums:?}");
    faults.set_rules(Vec::new());
    fill(&db, 8_000, 2);
    assert!(bytes_in(&db)[FAST] > 0);
    assert_files(&place, &db, &["/sst", FAST]);
}

#[test]
fn readers_keep_what_moves_under_them() {
    let place = place();
    let options = tiered(&[(FAST, 300 << 10), (COLD, 500 << 10)]).block_cache(64 << 10);
    let db = place.open(options.background_threads(2));
    for i in 0..4_000 {
        db.put(key(i), noise(i, 0)).expect("put");
    }
    let before = contents(&db);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut walks = 0;
            while !stop.load(Ordering::Relaxed) || walks == 0 {
                assert!(contents(&db) == before, "a walk while tables move");
                walks += 1;
            }
        });
        let hot = scope.spawn(|| {
            for round in 0..40 {
                read(&db, round % 4 * 1000, 900);
            }
        });
        // The same values again: tables come and go, answers stay.
        for round in 0..5 {
            for i in (round..4_000).step_by(5) {
                db.put(key(i), noise(i, 0)).expect("put");
            }
        }
        hot.join().expect("reads");
        stop.store(true, Ordering::Relaxed);
        reader.join().expect("walks");
    });
    assert!(contents(&db) == before);
    assert_nothing_leaked(&db, "after all");
}

fn on_disk(options: Options) -> Options {
    options.pm(PmSource::Dram).create_if_missing(true)
}

fn spec(dir: &TempDir, name: &str, size: u64) -> TierSpec {
    TierSpec::new(dir.join(name), size)
}

#[test]
fn a_store_remembers_its_tiers_and_empties_those_that_it_is_to_leave() {
    let dir = TempDir::new("tiers");
    let store = dir.join("store");
    let both = TierSource::Dirs(vec![spec(&dir, "fast", 200 << 10), spec(&dir, "cold", 400 << 10)]);
    let options = on_disk(small_levels());
    let db = Db::open(&store, options.clone().tiers(both)).expect("open");
    fill(&db, 8_000, 1);
    let before = contents(&db);
    assert_eq!(bytes_in(&db).len(), 3);
    db.close().expect("close");
    for _ in 0..2 {
        let db = Db::open_read_only(&store, options.clone()).expect("read");
        assert!(contents(&db) == before);
        db.close().expect("close");
        let db = Db::open(&store, options.clone()).expect("reopened as it was");
        assert_eq!(db.properties().ssd.expect("tables").tiers.len(), 3);
        assert!(contents(&db) == before);
        db.close().expect("close");
    }
    let one = TierSource::Dirs(vec![spec(&dir, "fast", 200 << 10)]);
    let db = Db::open(&store, options.clone().tiers(one)).expect("without the cold one");
    let tiers = db.properties().ssd.expect("tables").tiers;
    assert!(tiers.iter().any(|tier| tier.leaving && tier.dir == dir.join("cold")), "{tiers:?}");
    work(&db);
    assert!(!bytes_in(&db).contains_key(&dir.join("cold").display().to_string()));
    assert!(contents(&db) == before);
    db.close().expect("close");
    let db = Db::open(&store, options.clone()).expect("open");
    assert_eq!(db.properties().ssd.expect("tables").tiers.len(), 2, "it is forgotten");
    db.close().expect("close");
    assert_eq!(std::fs::read_dir(dir.join("cold")).expect("still there").count(), 0);
    let db = Db::open(&store, options.clone().tiers(TierSource::Dirs(Vec::new()))).expect("none");
    work(&db);
    assert_eq!(bytes_in(&db).len(), 1);
    db.close().expect("close");
    let db = Db::open(&store, options).expect("open");
    assert!(contents(&db) == before);
    assert_eq!(db.properties().ssd.expect("tables").tiers.len(), 1);
    drop(db);
    assert!(!std::fs::read_to_string(store.join("STORE")).expect("STORE").contains("cold"));
}

/// A tier with a model counts what goes there; the device of the store has the rest, and another open does not know the model.
#[test]
fn a_tier_with_a_model_counts_what_goes_there() {
    let dir = TempDir::new("tiers-model");
    let store = dir.join("store");
    let model = "optane-ssd,read=1us,write=0us,buffer=0";
    let fast = spec(&dir, "fast", 300 << 10);
    let slow = TierSpec::new(store.join("sst"), 0);
    let with =
        |fast: &TierSpec, slow: &TierSpec| TierSource::Dirs(vec![fast.clone(), slow.clone()]);
    let options = on_disk(small_levels()).placement(Placement::Level);
    let modelled = fast.clone().model(model.parse().expect("a model"));
    let db = Db::open(&store, options.clone().tiers(with(&modelled, &slow))).expect("open");
    fill(&db, 8_000, 1);
    let told = db.properties();
    let tiers = &told.ssd.as_ref().expect("tables").tiers;
    let of_fast = tiers[0].device.clone().expect("a device of its own");
    assert_eq!(of_fast.model.as_deref(), Some(model));
    assert!(tiers[1].device.is_none() && told.ssd_device.model.is_none(), "{tiers:?}");
    assert!(of_fast.written_bytes >= tiers[0].bytes && tiers[0].bytes > 0, "{of_fast:?}");
    assert!(told.ssd_device.written_bytes >= tiers[1].bytes && tiers[1].bytes > 0);
    let named = format!("{}: {model}", dir.join("fast").display());
    assert!(db.basis().to_string().contains(&named), "{}", db.basis());
    let device = |db: &Db, at: usize| db.properties().ssd.expect("tables").tiers[at].device.clone();
    let all = |db: &Db| (device(db, 0).expect("a device"), db.properties().ssd_device);
    let before = all(&db);
    (0..8_000).for_each(|i| drop(db.get(scattered(i)).expect("get").expect("there")));
    let after = all(&db);
    assert!(after.0.reads > before.0.reads && after.1.reads > before.1.reads, "{after:?}");
    let counted = db.properties().prometheus();
    let line = format!("{}\"}} {}", dir.join("fast").display(), after.0.read_bytes);
    assert!(counted.contains(&line), "{line} in {counted}");
    db.close().expect("close");
    // The own directory may have a model too; and what no option says is not remembered.
    let modelled = slow.clone().model(model.parse().expect("a model"));
    let db = Db::open(&store, options.clone().tiers(with(&fast, &modelled))).expect("open");
    (0..8_000).for_each(|i| drop(db.get(scattered(i)).expect("get").expect("there")));
    assert!(device(&db, 0).is_none() && device(&db, 1).expect("its own").reads > 0);
    db.close().expect("close");
    let db = Db::open(&store, options).expect("open");
    assert!(device(&db, 0).is_none() && device(&db, 1).is_none());
}

#[test]
fn a_missing_tier_is_told_and_hides_nothing() {
    let dir = TempDir::new("tiers-missing");
    let store = dir.join("store");
    let tiers = TierSource::Dirs(vec![spec(&dir, "fast", 300 << 10)]);
    let options = on_disk(small_levels());
    let db = Db::open(&store, options.clone().tiers(tiers)).expect("open");
    fill(&db, 6_000, 1);
    // The deepest level is older: what is deleted above it must not come back.
    for i in 0..500 {
        db.delete(scattered(i)).expect("delete");
    }
    db.flush().expect("flush");
    work(&db);
    let before = contents(&db);
    assert!(bytes_in(&db).len() == 2);
    db.close().expect("close");
    std::fs::rename(dir.join("fast"), dir.join("away")).expect("unmounted");
    let refused = Db::open(&store, options.clone()).err().expect("a tier is missing");
    assert_eq!(refused.kind(), ErrorKind::Corruption);
    assert!(refused.context().contains("fast"), "{refused}");
    let db = Db::open_read_only(&store, options.clone()).expect("for reading");
    let mut refused = 0;
    for i in 0..6_000 {
        match db.get(scattered(i)) {
            Ok(found) => {
                assert_eq!(found.as_deref(), before.get(&scattered(i)).map(|value| &value[..]))
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption);
                refused += 1;
            }
        }
    }
    assert!(refused > 0, "some keys may lie there");
    drop(db);
    // It comes back elsewhere, and is known by what is in it.
    let moved = TierSource::Dirs(vec![spec(&dir, "away", 300 << 10)]);
    let db = Db::open(&store, options.tiers(moved)).expect("under another name");
    assert!(contents(&db) == before);
    assert!(db.check().expect("check").damage.is_empty());
}

#[test]
fn copies_repairs_and_removals_know_all_tiers() {
    let dir = TempDir::new("tiers-copies");
    let store = dir.join("store");
    let tiers =
        TierSource::Dirs(vec![spec(&dir, "fast", 150 << 10), spec(&dir, "cold", 300 << 10)]);
    let options = on_disk(small_levels()).value_files_min(1000);
    let db = Db::open(&store, options.clone().tiers(tiers)).expect("open");
    fill(&db, 5_000, 1);
    for i in 0..60 {
        db.put(key(i), [i as u8; 3000]).expect("put");
    }
    db.flush().expect("flush");
    work(&db);
    let before = contents(&db);
    let plain = small_levels();
    db.checkpoint(dir.join("copy")).expect("checkpoint");
    db.close().expect("close");
    let copy = Db::open_read_only(dir.join("copy"), plain.clone()).expect("copy");
    assert!(contents(&copy) == before);
    drop(copy);
    let report = strandline::repair(&store, dir.join("saved"), options.clone()).expect("repair");
    assert!(report.lost.is_empty(), "{report:?}");
    let saved = Db::open_read_only(dir.join("saved"), plain.clone()).expect("saved");
    assert!(contents(&saved) == before);
    drop(saved);
    let to_pool = options.clone().pm(PmSource::Path(store.join("pool")));
    Db::convert(&store, &to_pool, Hooks::default()).expect("convert");
    let as_it_is = small_levels().value_files_min(1000);
    let db = Db::open(&store, as_it_is.clone()).expect("converted");
    assert!(contents(&db) == before);
    work(&db);
    assert_nothing_leaked(&db, "converted");
    db.close().expect("close");
    Db::destroy(&store, &as_it_is).expect("destroy");
    for name in ["fast", "cold"] {
        let left: Vec<_> = std::fs::read_dir(dir.join(name)).into_iter().flatten().collect();
        assert!(left.is_empty(), "{name}: {left:?}");
    }
}

#[test]
fn value_files_follow_their_tables_and_leave_with_them() {
    let place = place();
    let values = |options: Options| options.value_files_min(500);
    let db = place.open(values(tiered(&[(FAST, 200 << 10), (COLD, 0)])));
    let mut model = Contents::new();
    for i in 0..600 {
        let value = [noise(i, 1), noise(i, 2), noise(i, 3), noise(i, 4), noise(i, 5)].concat();
        db.put(key(i), &value).expect("put");
        model.insert(key(i), value);
    }
    db.compact().expect("compact");
    work(&db);
    let files = |db: &Db| db.properties().keyspaces.remove(0).value_files;
    assert!(files(&db).iter().any(|file| file.tier != 0), "{:?}", files(&db));
    assert!(contents(&db) == model);
    assert_eq!(steps::leaked_tables(db.default_keyspace()).expect("list"), 0);
    db.close().expect("close");
    let db = place.open(values(tiered(&[(FAST, 200 << 10), (COLD, 0)])));
    assert!(contents(&db) == model);
    assert!(db.check().expect("check").damage.is_empty());
}

#[test]
fn a_file_that_was_begun_goes_on_elsewhere() {
    let faults = Arc::new(Faulty::new(Memory::default()));
    faults.create_dir_all(Path::new("/sst")).expect("directory");
    let fs: Arc<dyn Fs> = Arc::clone(&faults) as Arc<dyn Fs>;
    let options = tiered(&[(FAST, 0)]).pm_size(32 << 20).table_bytes(8 << 20);
    let place = Place { region: common::heap(options.pm_size), fs };
    let db = place.open(options);
    for i in 0..30_000 {
        db.put(key(i), noise(i, 1)).expect("put");
    }
    let before = contents(&db);
    faults.set_rules(vec![Rule::new(3, Failure::NoSpace).of(Call::Append).on(FAST)]);
    db.compact().expect("compact");
    work(&db);
    assert_eq!(faults.struck(), 1);
    let sums = bytes_in(&db);
    assert!(sums["/sst"] > 3 << 20 && !sums.contains_key(FAST), "{sums:?}");
    assert!(contents(&db) == before);
    assert!(db.check().expect("check").damage.is_empty());
    assert_files(&place, &db, &["/sst", FAST]);
}

#[test]
fn files_of_others_are_left_alone() {
    let place = place();
    place.fs.create_dir_all(Path::new("/others")).expect("directory");
    common::write_file(&*place.fs, "/others/000007.sst", b"another program's");
    let refused = place.try_open(tiered(&[("/others", 0)])).err().expect("not empty");
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(refused.context().contains("/others"), "{refused}");
    assert_eq!(place.fs.list(Path::new("/others")).expect("list"), ["000007.sst"]);
}

#[test]
fn a_tier_with_values_alone_is_missed_too() {
    let dir = TempDir::new("tiers-values");
    let store = dir.join("store");
    let tiers = TierSource::Dirs(vec![spec(&dir, "fast", 0)]);
    let options = on_disk(small_levels()).value_files_min(500);
    let db = Db::open(&store, options.clone().tiers(tiers)).expect("open");
    for i in 0..300 {
        db.put(key(i), [i as u8; 2000]).expect("put");
    }
    db.compact().expect("compact");
    work(&db);
    let before = contents(&db);
    db.close().expect("close");
    std::fs::rename(dir.join("fast"), dir.join("away")).expect("unmounted");
    for tiers in [TierSource::Auto, TierSource::Dirs(vec![spec(&dir, "new", 0)])] {
        let refused = Db::open(&store, options.clone().tiers(tiers)).err().expect("missing");
        assert_eq!(refused.kind(), ErrorKind::Corruption, "{refused}");
    }
    std::fs::rename(dir.join("away"), dir.join("fast")).expect("mounted");
    let db = Db::open(&store, options.clone()).expect("open");
    assert!(contents(&db) == before);
    db.close().expect("close");
    // Another list is tried while it is there: what is left out is emptied, values too.
    let none = TierSource::Dirs(Vec::new());
    let db = Db::open(&store, options.clone().tiers(none)).expect("open");
    work(&db);
    assert!(contents(&db) == before);
    let values = db.properties().keyspaces.remove(0).value_files;
    assert!(!values.is_empty() && values.iter().all(|file| file.tier == 0), "{values:?}");
    db.close().expect("close");
    let given = TierSource::Dirs(vec![spec(&dir, "fast", 0)]);
    let report = strandline::repair(&store, dir.join("saved"), options.clone().tiers(given));
    assert!(report.expect("repair").lost.is_empty());
    let saved = Db::open_read_only(dir.join("saved"), options).expect("saved");
    assert!(contents(&saved) == before);
}

/// What cannot be a tier is refused before anything of a new store is made.
#[test]
fn a_new_store_with_unusable_tiers_leaves_nothing() {
    let dir = TempDir::new("tiers-unusable");
    std::fs::create_dir_all(dir.join("owned/OWNER")).expect("made");
    std::fs::write(dir.join("file"), "no directory").expect("written");
    let twice = vec![spec(&dir, "fast", 1 << 20), spec(&dir, "fast", 2 << 20)];
    let owned = vec![spec(&dir, "fast", 1 << 20), spec(&dir, "owned", 1 << 20)];
    let file = vec![spec(&dir, "file", 1 << 20)];
    for (tiers, word) in [(twice, "twice"), (owned, "OWNER"), (file, "file")] {
        let tiered = on_disk(small_levels()).tiers(TierSource::Dirs(tiers));
        let error = Db::open(dir.join("store"), tiered).err().expect("refused");
        assert!(error.to_string().contains(word), "{error}");
        assert!(!dir.join("store").exists(), "{error}");
    }
}

/// A removal that cannot reach a tier removes nothing.
#[test]
fn a_store_without_its_tier_is_not_removed() {
    let dir = TempDir::new("tiers-away");
    let (store, fast) = (dir.join("store"), dir.join("fast"));
    let tiers = TierSource::Dirs(vec![spec(&dir, "fast", 1 << 20)]);
    let options = on_disk(small_levels());
    let db = Db::open(&store, options.clone().tiers(tiers)).expect("open");
    fill(&db, 3_000, 1);
    let before = contents(&db);
    db.close().expect("close");
    std::fs::rename(&fast, dir.join("away")).expect("renamed");
    let error = Db::destroy(&store, &options).expect_err("refused");
    assert!(error.kind() == ErrorKind::NotFound && error.to_string().contains("fast"), "{error}");
    std::fs::rename(dir.join("away"), &fast).expect("renamed back");
    let db = Db::open(&store, options.clone()).expect("open");
    assert!(contents(&db) == before);
    db.close().expect("close");
    Db::destroy(&store, &options).expect("destroyed");
    assert!(std::fs::read_dir(&fast).into_iter().flatten().count() == 0);
    // Gone for good.
    let tiers = TierSource::Dirs(vec![spec(&dir, "fast", 1 << 20)]);
    let db = Db::open(&store, options.clone().tiers(tiers)).expect("open");
    fill(&db, 3_000, 1);
    db.close().expect("close");
    std::fs::remove_dir_all(&fast).expect("removed");
    std::fs::create_dir(&fast).expect("made");
    Db::destroy(&store, &options).expect("destroyed");
    assert!(!store.exists());
}

/// An open that fails says nothing for those after it.
#[test]
fn a_refused_list_of_tiers_is_not_remembered() {
    let dir = TempDir::new("tiers-refused");
    let store = dir.join("store");
    let options = on_disk(small_levels());
    let given = |dirs: &[&Path]| {
        let dirs = dirs.iter().map(|dir| TierSpec::new(*dir, 1 << 20)).collect();
        options.clone().tiers(TierSource::Dirs(dirs))
    };
    let (fast, cold) = (dir.join("fast"), dir.join("cold"));
    let db = Db::open(&store, given(&[&fast])).expect("open");
    fill(&db, 3_000, 1);
    assert!(bytes_in(&db).contains_key(&fast.display().to_string()));
    let before = contents(&db);
    db.close().expect("close");
    let said = std::fs::read(store.join("STORE")).expect("STORE");
    let assert_as_before = || {
        assert!(std::fs::read(store.join("STORE")).expect("STORE") == said);
        let db = Db::open(&store, options.clone()).expect("open as before");
        assert!(db.properties().ssd.expect("ssd").tiers.iter().all(|tier| !tier.leaving));
        assert!(contents(&db) == before);
        db.close().expect("close");
    };
    let refused = |options: Options| assert!(Db::open(&store, options).is_err());
    refused(given(&[&fast, &fast]));
    assert_as_before();
    std::fs::write(dir.join("file"), b"no directory").expect("write");
    refused(given(&[&fast, &cold, &dir.join("file/in")]));
    assert_as_before();
    // What is not there now, a list without it would leave.
    std::fs::rename(&fast, dir.join("away")).expect("rename");
    refused(options.clone().tiers(TierSource::Dirs(Vec::new())));
    std::fs::rename(dir.join("away"), &fast).expect("rename");
    assert_as_before();
    Db::open(&store, given(&[&cold, &fast])).expect("open").close().expect("close");
    assert!(std::fs::read(store.join("STORE")).expect("STORE") != said);
}
