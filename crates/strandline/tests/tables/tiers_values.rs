//! Value files that move from tier to tier: up when they are read, down when a tier is full, home, and out of a tier that the store
//! leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{
    self, Contents, Place, TempDir, assert_nothing_leaked, dump, noise, numbered as key,
    small_levels,
};
use ssd::{Call, Failure, Faulty, Fs, Memory, Rule};
use strandline::{
    Db, KeyspaceOptions, KeyspaceTiers, Options, Placement, PmSource, ReadOptions, TierSource,
    TierSpec, steps,
};

const FAST: &str = "/fast";
const COLD: &str = "/cold";
const OWN: &str = "/sst";

fn tiered(tiers: &[(&str, u64)]) -> Options {
    let dirs = tiers.iter().map(|(dir, size)| TierSpec::new(*dir, *size)).collect();
    // What is read is read from the files.
    small_levels().tiers(TierSource::Dirs(dirs)).value_files_min(500).block_cache(0)
}

fn place() -> Place {
    Place::new(small_levels().pm_size, Memory::default())
}

fn faulty() -> (Arc<Faulty<Memory>>, Place) {
    let faults = Arc::new(Faulty::new(Memory::default()));
    faults.create_dir_all(Path::new(OWN)).expect("directory");
    let fs: Arc<dyn Fs> = Arc::clone(&faults) as Arc<dyn Fs>;
    (faults, Place { region: common::heap(small_levels().pm_size), fs })
}

fn work(db: &Db) {
    while !db.work(1 << 20).expect("work").is_idle() {}
}

fn within(dirs: &[&str]) -> KeyspaceOptions {
    KeyspaceOptions::new().tiers(KeyspaceTiers::Dirs(dirs.iter().map(Into::into).collect()))
}

/// A value of some hundred bytes for each part, which do not compress.
fn long(i: u64, round: u64, parts: u64) -> Vec<u8> {
    let parts: Vec<Vec<u8>> = (0..parts).map(|part| noise(i * 40 + part, round)).collect();
    parts.concat()
}

/// Values of some 4000 bytes each, in key order.
fn fill(db: &Db, count: u64, round: u64) -> Contents {
    for i in 0..count {
        db.put(key(i), long(i, round, 40)).expect("put");
        if i % 50 == 0 {
            work(db);
        }
    }
    db.compact().expect("compact");
    work(db);
    contents(db)
}

fn contents(db: &Db) -> Contents {
    dump(db.default_keyspace(), &ReadOptions::default())
}

/// Bytes of value files in each directory.
fn values_in(db: &Db) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for file in db.properties().keyspaces.into_iter().flat_map(|space| space.value_files) {
        let dir = file.path.parent().expect("a directory").display().to_string();
        *sums.entry(dir).or_insert(0) += file.bytes;
    }
    sums
}

fn dirs(db: &Db) -> Vec<String> {
    values_in(db).into_keys().collect()
}

fn moves(db: &Db) -> u64 {
    db.properties().ssd.expect("tables").compactions.tier_moves
}

/// The value files that the store names are those that are there, each in its directory, and nothing is damaged.
fn assert_files(place: &Place, db: &Db) {
    work(db);
    assert_nothing_leaked(db, "now");
    let spaces = db.properties().keyspaces;
    let named: BTreeSet<String> = spaces
        .iter()
        .flat_map(|space| &space.value_files)
        .map(|file| file.path.display().to_string())
        .collect();
    let mut there = BTreeSet::new();
    for dir in [OWN, FAST, COLD] {
        let names = place.fs.list(Path::new(dir)).unwrap_or_default().into_iter();
        let names = names.filter(|name| name.ends_with(".blob"));
        there.extend(names.map(|name| format!("{dir}/{name}")));
    }
    assert_eq!(named, there);
    assert!(db.check().expect("check").damage.is_empty());
}

#[test]
fn values_that_are_read_move_up_and_others_make_room() {
    let place = place();
    let options = tiered(&[(FAST, 600 << 10)]);
    let db = place.open(options.clone());
    let before = fill(&db, 500, 1);
    assert!(values_in(&db)[OWN] > 1 << 20, "{:?}", values_in(&db));
    for from in [400, 20, 200] {
        let of_stretch = || {
            let files = db.properties().keyspaces.remove(0).value_files;
            files.iter().filter(|file| file.path.starts_with(FAST)).map(|file| file.reads).sum()
        };
        for _ in 0..12 {
            for i in from..from + 60 {
                assert!(db.get(key(i)).expect("get").as_ref() == before.get(&key(i)));
            }
            work(&db);
        }
        let (hot, all): (u64, u64) = {
            let files = db.properties().keyspaces.remove(0).value_files;
            (of_stretch(), files.iter().map(|file| file.reads).sum())
        };
        assert!(hot * 10 >= all * 6, "{from}: {hot} of {all} reads");
        let fast: u64 = db.properties().ssd.expect("tables").tiers[0].bytes;
        assert!(fast <= 600 << 10, "{fast}");
        assert_files(&place, &db);
    }
    assert!(moves(&db) > 5);
    work(&db);
    let settled = moves(&db);
    work(&db);
    assert_eq!(moves(&db), settled, "nothing moves for nothing");
    assert!(contents(&db) == before);
    db.close().expect("close");
    let db = place.open(options);
    assert!(contents(&db) == before);
    assert_files(&place, &db);
}

#[test]
fn values_come_home_with_their_tables() {
    let place = place();
    let options = tiered(&[(FAST, 8 << 20), (COLD, 8 << 20)]);
    let db = place.open(options.clone());
    let before = fill(&db, 200, 1);
    for dir in [OWN, COLD, FAST, OWN, COLD] {
        db.default_keyspace().set_options(&within(&[dir])).expect("set");
        work(&db);
        assert_eq!(dirs(&db), [dir]);
        assert!(contents(&db) == before);
        assert_files(&place, &db);
    }
    // A copy has all in one directory, whichever each lies in.
    db.close().expect("close");
    let db = place.open(options);
    assert_eq!(dirs(&db), [COLD]);
    assert!(contents(&db) == before);
    // By hand, too.
    db.default_keyspace().set_options(&within(&[FAST])).expect("set");
    db.compact().expect("compact");
    assert_eq!(dirs(&db), [FAST]);
    assert_files(&place, &db);
}

#[test]
fn a_full_tier_gives_values_away() {
    let place = place();
    let db = place.open(tiered(&[(FAST, 8 << 20)]));
    let before = fill(&db, 400, 1);
    assert!(values_in(&db)[FAST] > 1 << 20);
    db.close().expect("close");
    let db = place.open(tiered(&[(FAST, 900 << 10)]));
    work(&db);
    let fast = db.properties().ssd.expect("tables").tiers[0].bytes;
    assert!(fast <= 900 << 10 && values_in(&db)[OWN] > 500 << 10, "{fast} {:?}", values_in(&db));
    assert!(contents(&db) == before);
    assert_files(&place, &db);
}

/// The most that a tier of `size` bytes has, looked at all the time, while so many values of `parts(i)` hundred bytes are put.
fn most_in_fast(size: u64, count: u64, parts: impl Fn(u64) -> u64) -> u64 {
    let place = place();
    let db = place.open(tiered(&[(FAST, size)]));
    let in_fast = || db.properties().ssd.expect("tables").tiers[0].bytes;
    let mut most = 0;
    for i in 0..count {
        db.put(key(i * 7 % count), long(i, 1, parts(i))).expect("put");
        let mut is_idle = false;
        while !is_idle {
            is_idle = db.work(1).expect("work").is_idle();
            most = in_fast().max(most);
        }
    }
    assert_files(&place, &db);
    most
}

/// Tables and value files that are written side by side do not fill a tier beyond its size: each claims what it is expected to take,
/// and a value file ends where its tier does.
#[test]
fn files_being_written_keep_within_a_tier() {
    const SIZE: u64 = 200 << 10;
    let most = most_in_fast(SIZE, 2000, |i| 8 + i % 20);
    assert!(most > SIZE / 2, "{most} bytes");
    // A table has its index beside what it is cut at.
    assert!(most < SIZE + (8 << 10), "{most} bytes");
}

/// A value that is longer than what its file claimed goes where there is room for it, and one that is longer than the tier is not
/// there.
#[test]
fn long_values_keep_within_a_tier() {
    const SIZE: u64 = 200 << 10;
    let most = most_in_fast(SIZE, 200, |i| if i % 4 == 0 { 3000 } else { 20 + i });
    assert!((1..SIZE).contains(&most), "{most} bytes");
}

/// Two keyspaces whose files fill each other's tiers change places by way of the tier that is free.
#[test]
fn keyspaces_change_full_tiers() {
    const SIZE: u64 = 1 << 20;
    let place = place();
    let db = place.open(tiered(&[(FAST, SIZE), (COLD, SIZE)]));
    let spaces = [("one", FAST), ("two", COLD)];
    let spaces =
        spaces.map(|(name, dir)| db.create_keyspace_with(name, within(&[dir])).expect("create"));
    for i in 0..200 {
        spaces.iter().for_each(|space| space.put(key(i), long(i, 1, 30)).expect("put"));
        work(&db);
    }
    let compact = || {
        spaces.iter().for_each(|space| db.compact_range(space, None, None).expect("compact"));
        work(&db);
    };
    let dirs_of = |name: &str| -> BTreeSet<String> {
        let all = db.properties().keyspaces.into_iter().filter(|space| &*space.name == name);
        let files = all.flat_map(|space| space.value_files);
        files.map(|file| file.path.parent().expect("a directory").display().to_string()).collect()
    };
    compact();
    assert_eq!((dirs_of("one"), dirs_of("two")), ([FAST.into()].into(), [COLD.into()].into()));
    let sums = values_in(&db);
    assert!(sums[FAST].min(sums[COLD]) > SIZE / 2, "one has no room for both: {sums:?}");
    for (space, dir) in spaces.iter().zip([COLD, FAST]) {
        space.set_options(&within(&[dir])).expect("set");
    }
    compact();
    assert_eq!((dirs_of("one"), dirs_of("two")), ([COLD.into()].into(), [FAST.into()].into()));
    assert_files(&place, &db);
}

#[test]
fn values_follow_the_level_of_their_tables() {
    let place = place();
    let options = |fast| tiered(&[(FAST, fast)]).placement(Placement::Level);
    let db = place.open(options(64 << 10));
    let before = fill(&db, 300, 1);
    assert_eq!(dirs(&db), [OWN], "no whole level fits");
    db.close().expect("close");
    let db = place.open(options(16 << 20));
    work(&db);
    assert_eq!(dirs(&db), [FAST]);
    assert!(contents(&db) == before);
    assert_files(&place, &db);
}

#[test]
fn a_tier_that_is_left_is_emptied_by_moves() {
    let dir = TempDir::new("tiers-values-left");
    let store = dir.join("store");
    let fast = TierSource::Dirs(vec![TierSpec::new(dir.join("fast"), 0)]);
    let options = small_levels().pm(PmSource::Dram).create_if_missing(true).value_files_min(500);
    let db = Db::open(&store, options.clone().tiers(fast)).expect("open");
    let before = fill(&db, 200, 1);
    let ids = |db: &Db| -> Vec<u64> {
        let files = db.properties().keyspaces.remove(0).value_files;
        files.iter().map(|file| file.id).collect()
    };
    let (had, collected) = (ids(&db), db.properties().ssd.expect("tables").compactions.collected);
    assert!(!had.is_empty());
    db.close().expect("close");
    let none = TierSource::Dirs(Vec::new());
    let db = Db::open(&store, options.clone().tiers(none)).expect("open");
    work(&db);
    assert_eq!(ids(&db), had, "they are the same files");
    assert_eq!(dirs(&db), [store.join("sst").display().to_string()]);
    assert_eq!(db.properties().ssd.expect("tables").compactions.collected, collected);
    assert!(contents(&db) == before);
    db.close().expect("close");
    let db = Db::open(&store, options).expect("open");
    assert_eq!(db.properties().ssd.expect("tables").tiers.len(), 1, "it is forgotten");
    assert!(contents(&db) == before);
    assert!(std::fs::read_dir(dir.join("fast")).expect("there").next().is_none());
}

#[test]
fn merges_and_collections_go_on_while_values_move() {
    let place = place();
    let db = place.open(tiered(&[(FAST, 8 << 20), (COLD, 8 << 20)]).value_space(110));
    fill(&db, 150, 1);
    let mut model = contents(&db);
    for round in 2..40_u64 {
        let dir = [FAST, COLD, OWN][round as usize % 3];
        db.default_keyspace().set_options(&within(&[dir])).expect("set");
        for i in (round % 5..150).step_by(5) {
            let value = noise(i, round).repeat(40);
            db.put(key(i), &value).expect("put");
            model.insert(key(i), value);
            // A few steps of whatever is due: a move is under way now and then.
            for _ in 0..3 {
                db.work(8).expect("work");
            }
        }
        if round % 8 == 0 {
            db.compact().expect("compact");
        }
        assert!(contents(&db) == model, "round {round}");
    }
    assert!(moves(&db) > 20, "{}", moves(&db));
    assert_files(&place, &db);
    db.close().expect("close");
    let db = place.open(tiered(&[(FAST, 8 << 20), (COLD, 8 << 20)]));
    assert!(contents(&db) == model);
    assert_files(&place, &db);
}

#[test]
fn readers_and_copies_go_on_while_values_move() {
    let dir = TempDir::new("tiers-values-copies");
    let dir_of = |name: &str| dir.join(name);
    let specs = ["fast", "cold"].map(|name| TierSpec::new(dir_of(name), 8 << 20));
    let options = small_levels()
        .pm(PmSource::Dram)
        .create_if_missing(true)
        .value_files_min(500)
        .block_cache(0)
        .background_threads(2)
        .tiers(TierSource::Dirs(specs.into()));
    let db = Db::open(dir_of("store"), options).expect("open");
    let before = fill(&db, 200, 1);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                assert!(contents(&db) == before, "a walk while files move");
                let some = db.multi_get((0..200).map(key)).expect("get");
                assert!(some.iter().flatten().count() == 200);
            }
        });
        let copier = scope.spawn(|| {
            for no in 0..12 {
                let to = dir_of(&format!("copy-{no}"));
                db.checkpoint(&to).expect("checkpoint");
                let copy = Db::open_read_only(&to, small_levels()).expect("copy");
                assert!(dump(copy.default_keyspace(), &ReadOptions::default()) == before);
            }
        });
        let mut most = 0;
        while !copier.is_finished() && most < 2000 {
            let to = ["fast", "cold"][most % 2];
            let to = KeyspaceOptions::new().tiers(KeyspaceTiers::Dirs(vec![dir_of(to)]));
            db.default_keyspace().set_options(&to).expect("set");
            db.compact_range(db.default_keyspace(), None, None).expect("compact");
            most += 1;
        }
        copier.join().expect("copies");
        stop.store(true, Ordering::Relaxed);
        reader.join().expect("walks");
    });
    assert!(moves(&db) > 20, "{}", moves(&db));
    assert!(db.check().expect("check").damage.is_empty());
}

#[test]
fn a_move_that_fails_leaves_values_where_they_are() {
    let (faults, place) = faulty();
    let db = place.open(tiered(&[(FAST, 8 << 20), (COLD, 8 << 20)]));
    let before = fill(&db, 100, 1);
    db.default_keyspace().set_options(&within(&[OWN])).expect("set");
    work(&db);
    for (call, failure) in [
        (Call::Append, Failure::NoSpace),
        (Call::Create, Failure::Io),
        (Call::Sync, Failure::Io),
        (Call::SyncDir, Failure::Io),
    ] {
        faults.set_rules(vec![Rule::new(1, failure).of(call).on(FAST).for_ever()]);
        db.default_keyspace().set_options(&within(&[FAST])).expect("set");
        db.compact().expect("compact");
        assert_eq!(dirs(&db), [OWN], "{call:?}");
        assert!(contents(&db) == before);
        faults.set_rules(Vec::new());
        assert_files(&place, &db);
        db.compact().expect("compact");
        assert_eq!(dirs(&db), [FAST], "{call:?}");
        db.default_keyspace().set_options(&within(&[OWN])).expect("set");
        db.compact().expect("compact");
        assert_eq!(dirs(&db), [OWN]);
        assert_files(&place, &db);
    }
    assert_eq!(steps::leaked_tables(db.default_keyspace()).expect("list"), 0);
    assert!(contents(&db) == before);
}
