//! The cache in persistent memory: what goes there by each policy, that every answer is right, that others get its space, and what is left of
//! it after an open, a kill and damage.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::common::{
    Contents, Place, TempDir, assert_nothing_leaked, dump, heap, kind_of, numbered as key,
    wait_until,
};
use base::planted::{self, Bug};
use ssd::{Call, Failure, Faulty, Fs, Memory, Rule};
use strandline::{
    CachePolicy, Db, ErrorKind, Options, Owner, PmCacheFigures, ReadOptions, Runtime,
    RuntimeOptions, Site, SsdSource,
};
use testkit::Rng;

const MIB: u64 = 1 << 20;
const ZONE: u64 = 32 << 10;

fn options() -> Options {
    Options::default()
        .pm_size(8 * MIB)
        .zone_size(ZONE)
        .memtable_bytes(64 << 10)
        .table_bytes(64 << 10)
        .value_files_min(900)
        .pm_cache(40)
        .block_cache(320 << 10)
        .background_threads(0)
        .recovery_threads(1)
}

fn place() -> Place {
    Place::new(options().pm_size, Memory::default())
}

/// A value that tells its key and round; some are long enough to lie apart.
fn value(i: u64, round: u64) -> Vec<u8> {
    let mut rng = Rng::new(round << 32 | i);
    let len = [60, 300, 700, 1100][(i + round) as usize % 4];
    let mut bytes = format!("{i} in round {round}: ").into_bytes();
    bytes.extend(std::iter::repeat_with(|| rng.next() as u8).take(len));
    bytes
}

fn fill(db: &Db, count: u64, round: u64) -> Contents {
    for i in 0..count {
        db.put(key(i), value(i, round)).expect("put");
    }
    db.compact().expect("compact");
    (0..count).map(|i| (key(i), value(i, round))).collect()
}

fn work(db: &Db) {
    while !db.work(1 << 20).expect("work").is_idle() {}
}

fn figures(db: &Db) -> PmCacheFigures {
    db.properties().ssd.expect("levels").pm_cache.expect("a cache in persistent memory")
}

/// Gets of some keys far more often than of others.
fn gets(db: &Db, model: &Contents, count: u64, seed: u64) {
    let mut rng = Rng::new(seed);
    let keys: Vec<&Vec<u8>> = model.keys().collect();
    for _ in 0..count {
        let bound = 1 + rng.below(keys.len() as u64);
        let key = keys[rng.below(bound) as usize];
        assert_eq!(db.get(key).expect("get").as_ref(), model.get(key), "{}", key.escape_ascii());
    }
}

#[track_caller]
fn assert_sound(db: &Db) {
    work(db);
    let report = db.check().expect("check");
    assert!(report.damage.is_empty(), "{:?}", report.damage);
    assert!(report.space.whole && report.space.leaked.is_empty(), "{:?}", report.space.leaked);
    assert!(report.space.doubled.is_empty(), "{:?}", report.space.doubled);
    let owned = report.space.owned.iter();
    let zones = owned.filter(|owned| matches!(owned.owner, Owner::Cache { .. })).count() as u64;
    assert_eq!(zones * ZONE, figures(db).taken);
    assert_nothing_leaked(db, "a sound store");
}

/// What a process that is killed now leaves.
fn killed(place: &Place, memory: &Memory) -> Place {
    let left = Place { region: heap(place.region.len()), fs: Arc::new(Memory::new(memory.disk())) };
    let bytes = place.region.bytes(0, place.region.len() as usize);
    let _durable = left.region.fence(left.region.flush(left.region.copy(Site::Format, 0, bytes)));
    left
}

#[test]
fn blocks_move_as_the_policy_says_and_every_answer_is_right() {
    for policy in CachePolicy::ALL {
        let db = place().open(options().pm_cache_policy(policy));
        let model = fill(&db, 5000, 1);
        let before = db.properties().ssd.expect("levels").cache;
        gets(&db, &model, 20_000, 3);
        let (cache, below) = (db.properties().ssd.expect("levels").cache, figures(&db));
        println!("{}: {cache:?} {below:?}", policy.name());
        assert!(below.hits > 1000 && below.inserts > 100, "{below:?}");
        assert!(below.taken > MIB && below.taken <= below.limit, "{below:?}");
        assert!(cache.charged <= cache.budget && below.dram_bytes > 0);
        let to_dram = cache.inserts - before.inserts;
        match policy {
            // What is read from a file goes to DRAM, what is found below does not.
            CachePolicy::DramFirst => {
                assert!(to_dram <= below.misses && below.inserts <= cache.evictions);
            }
            // What goes to DRAM was found below first; each block that was read went there.
            CachePolicy::PmFirst => assert!(to_dram <= below.hits && below.inserts >= 300),
            CachePolicy::BothWays => assert!(to_dram > below.misses),
            _ => assert!(below.inserts <= cache.evictions),
        }
        assert!(dump(db.default_keyspace(), &ReadOptions::default()) == model);
        let keys: Vec<&[u8]> = model.keys().map(|key| &key[..]).collect();
        let many = db.default_keyspace().multi_get_with(&keys, &ReadOptions::default());
        for (value, found) in model.values().zip(many.expect("multi_get")) {
            assert_eq!(found.as_ref(), Some(value));
        }
        assert_sound(&db);
    }
}

/// A scan of all once passes by: what is read all the time stays, and little is written.
#[test]
fn once_it_is_full_auto_takes_what_comes_again_only() {
    let written = |policy| {
        let db = place().open(options().pm_cache(15).pm_cache_policy(policy));
        let model = fill(&db, 5000, 1);
        gets(&db, &model, 20_000, 3);
        let before = figures(&db);
        assert!(before.taken + ZONE > before.limit, "{before:?}");
        for _ in 0..3 {
            assert!(dump(db.default_keyspace(), &ReadOptions::default()) == model);
        }
        figures(&db).written_bytes - before.written_bytes
    };
    let (both_ways, auto) = (written(CachePolicy::BothWays), written(CachePolicy::Auto));
    assert!(auto * 3 < both_ways * 2, "{auto} to {both_ways} bytes");
}

/// Fills level 0 while the device takes nothing more, until writers are refused. How many puts that takes, and what the cache had
/// before and behind.
fn puts_until_refused() -> (u64, PmCacheFigures, PmCacheFigures) {
    let fs = Arc::new(Faulty::new(Memory::default()));
    fs.create_dir_all(Path::new("/sst")).expect("directory");
    let region = heap(options().pm_size);
    let place = Place { region, fs: Arc::clone(&fs) as Arc<dyn Fs> };
    let db = place.open(options());
    let mut model = fill(&db, 4000, 1);
    gets(&db, &model, 20_000, 3);
    let before = figures(&db);
    fs.set_rules(vec![Rule::new(1, Failure::Io).of(Call::SyncDir).for_ever()]);
    let mut puts = 0;
    let refused = loop {
        match db.put(key(puts), value(puts, 2)) {
            Ok(()) => model.insert(key(puts), value(puts, 2)),
            Err(error) => break error,
        };
        puts += 1;
    };
    println!("{puts} puts: {refused}");
    let after = figures(&db);
    gets(&db, &model, 2000, 3);
    fs.set_rules(Vec::new());
    db.compact().expect("compact");
    gets(&db, &model, 20_000, 4);
    assert!(figures(&db).taken > MIB, "it comes back: {:?}", figures(&db));
    assert_sound(&db);
    (puts, before, after)
}

#[test]
fn level_0_gets_its_space_back_before_writers_are_refused() {
    let (puts, before, after) = puts_until_refused();
    assert!(before.taken > MIB && after.taken < before.taken / 2, "{before:?}, {after:?}");
    assert!(after.zones_given_back > 0, "{after:?}");
    planted::plant(Some(Bug::CacheZonesKept));
    let (less, before, after) = puts_until_refused();
    planted::plant(None);
    assert!(less < puts && after.taken == before.taken, "{less} puts, {puts} without the bug");
}

#[test]
fn a_value_of_several_zones_in_a_row_gets_them() {
    let place = place();
    let db = place.open(options().pm_cache(60).value_files_min(0));
    let model = fill(&db, 4000, 1);
    gets(&db, &model, 30_000, 3);
    let long = vec![7; 40 * ZONE as usize];
    db.put("long", &long).expect("put");
    assert_eq!(db.get("long").expect("get").as_ref(), Some(&long));
    gets(&db, &model, 2000, 4);
    assert_sound(&db);
}

#[test]
fn it_is_warm_after_an_open_and_after_a_kill() {
    let memory = Memory::default();
    let place = Place { region: heap(options().pm_size), fs: Arc::new(memory.clone()) };
    place.fs.create_dir_all(Path::new("/sst")).expect("directory");
    let db = place.open(options());
    let model = fill(&db, 4000, 1);
    gets(&db, &model, 20_000, 3);
    let before = figures(&db);
    let left = killed(&place, &memory);
    drop(db);
    for place in [place, left] {
        let db = place.open(options());
        assert_eq!(figures(&db).taken, before.taken);
        work(&db);
        let warm = figures(&db);
        // Some were written again to stay, and are found once.
        assert!(warm.warm == warm.entries && warm.entries > before.entries * 9 / 10, "{warm:?}");
        gets(&db, &model, 2000, 9);
        let after = figures(&db);
        assert!(after.hits > after.misses * 4 && after.failed == 0, "{after:?}");
        // Tables that were replaced are found no more.
        let model = fill(&db, 4000, 2);
        gets(&db, &model, 5000, 9);
        assert_sound(&db);
        drop(db);
        let db = place.open(options());
        work(&db);
        gets(&db, &model, 5000, 10);
        assert_sound(&db);
        drop(db);
        // Without the option its zones are free, and the next open begins anew.
        let db = place.open(options().pm_cache(0));
        assert!(db.properties().ssd.expect("levels").pm_cache.is_none());
        assert_nothing_leaked(&db, "without a cache");
        drop(db);
        let db = place.open(options());
        work(&db);
        assert_eq!((figures(&db).taken, figures(&db).warm), (0, 0));
    }
}

#[test]
fn a_smaller_share_keeps_the_newest_zones_and_a_reader_changes_nothing() {
    let dir = TempDir::new("pm-cache-smaller");
    let open = |percent| Db::open(dir.path(), options().pm_cache(percent)).expect("open");
    let db = open(40);
    let model = fill(&db, 4000, 1);
    gets(&db, &model, 20_000, 3);
    drop(db);
    let pool = || std::fs::read(dir.path().join("pool")).expect("read");
    let before = pool();
    let reader = Db::open_read_only(dir.path(), options()).expect("open");
    assert!(reader.properties().ssd.expect("levels").pm_cache.is_none());
    gets(&reader, &model, 2000, 3);
    let report = reader.check().expect("check");
    assert!(report.space.leaked.is_empty() && report.damage.is_empty(), "{:?}", report.space);
    drop(reader);
    assert!(pool() == before);
    let db = open(10);
    work(&db);
    let (less, share) = (figures(&db), 8 * MIB / 10);
    assert!(less.taken <= share && less.taken > share / 2 && less.warm > 0, "{less:?}");
    gets(&db, &model, 5000, 4);
    assert_sound(&db);
}

#[test]
fn damage_there_is_no_damage_of_the_store() {
    let place = place();
    let db = place.open(options());
    let model = fill(&db, 4000, 1);
    gets(&db, &model, 20_000, 3);
    let report = db.check().expect("check");
    let zones = report.space.owned.iter().filter_map(|owned| match (&owned.owner, owned.place) {
        (Owner::Cache { .. }, strandline::Place::Pool(extent)) => Some(extent),
        _ => None,
    });
    let mut rng = Rng::new(1);
    for extent in zones.collect::<Vec<_>>() {
        for _ in 0..40 {
            let at = extent.at.get() + rng.below(extent.len);
            let byte = place.region.bytes(at, 1)[0] ^ 1 << rng.below(8);
            let dirty = place.region.copy(Site::Format, at, &[byte]);
            let _durable = place.region.fence(place.region.flush(dirty));
        }
    }
    gets(&db, &model, 20_000, 3);
    let failed = figures(&db).failed;
    assert!(failed > 20, "{failed}");
    assert!(dump(db.default_keyspace(), &ReadOptions::default()) == model);
    assert_sound(&db);
    drop(db);
    let db = place.open(options());
    gets(&db, &model, 20_000, 3);
    assert_sound(&db);
}

/// Readers, writers, compactions and turnover at the same time; each value tells whose it is.
#[test]
fn threads_that_read_write_and_compact_find_no_wrong_block() {
    for policy in [CachePolicy::BothWays, CachePolicy::PmFirst] {
        let place = place();
        let db = place.open(options().pm_cache(12).background_threads(2).pm_cache_policy(policy));
        fill(&db, 3000, 0);
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for seed in 0..3 {
                let (db, ends) = (&db, &ends);
                scope.spawn(move || {
                    let mut rng = Rng::new(seed);
                    while !ends.load(Relaxed) {
                        let i = rng.below(3000);
                        let found = db.get(key(i)).expect("get").expect("a value");
                        let text = found.split(|byte| *byte == b':').next().unwrap_or_default();
                        let text = String::from_utf8(text.to_vec()).expect("text");
                        let (of, round) = text.split_once(" in round ").expect("a value");
                        let round = round.parse().expect("a round");
                        assert!(of == i.to_string() && found == value(i, round), "{text}");
                    }
                });
            }
            for round in 1..6 {
                (0..3000).for_each(|i| db.put(key(i), value(i, round)).expect("put"));
            }
            ends.store(true, Relaxed);
        });
        let below = figures(&db);
        assert!(below.hits > 100 && below.inserts > 100 && below.failed == 0, "{below:?}");
        wait_until("at rest", || db.check().expect("check").space.whole);
        drop(db);
        let db = place.open(options());
        work(&db);
        let model: Contents = (0..3000).map(|i| (key(i), value(i, 5))).collect();
        gets(&db, &model, 5000, 1);
        assert_sound(&db);
    }
}

#[test]
fn it_needs_persistent_memory_and_tables() {
    let place = place();
    let refused = place.try_open(options().pm_cache(40).pm_tables(40));
    assert_eq!(kind_of(refused), ErrorKind::InvalidArgument);
    let mut options = options();
    assert!(options.set("pm_cache", "76").is_err());
    assert!(options.set("pm_cache_policy", "none").is_err());
    options.set("pm_cache_policy", "pm-first").expect("set");
    let dir = TempDir::new("pm-cache-alone");
    let options = options.ssd(SsdSource::None);
    assert_eq!(kind_of(Db::open(dir.path(), options)), ErrorKind::InvalidArgument);
}

/// A block cache that is too small to lead to much, and none at all; also after an open with a larger one.
#[test]
fn with_little_dram_persistent_memory_has_less() {
    for (block_cache, policy) in [
        (0, CachePolicy::DramFirst),
        (0, CachePolicy::PmFirst),
        (100 << 10, CachePolicy::PmFirst),
        (100 << 10, CachePolicy::Auto),
    ] {
        let place = place();
        // Each of sixteen parts of the directory has as much as it had at most, though not at the same time.
        let most = (block_cache / 2).max(64 << 10) * 3 / 2;
        let little = || options().pm_cache_policy(policy).block_cache(block_cache);
        let db = place.open(little());
        let model = fill(&db, 4000, 1);
        for round in 0..2 {
            gets(&db, &model, 10_000, round);
            let (cache, below) = (db.properties().ssd.expect("levels").cache, figures(&db));
            assert!(below.hits > 1000 && cache.charged <= cache.budget, "{cache:?} {below:?}");
            assert!(below.dram_bytes <= most && below.zones_given_back == 0, "{below:?}");
            assert_sound(&db);
        }
        drop(db);
        let db = place.open(options().pm_cache_policy(CachePolicy::PmFirst).block_cache(2 * MIB));
        gets(&db, &model, 10_000, 3);
        let much = figures(&db);
        assert!(much.entries * 110 > most, "{much:?}");
        drop(db);
        let db = place.open(little());
        work(&db);
        let warm = figures(&db);
        assert!(warm.entries > 200 && warm.dram_bytes <= most, "{warm:?}");
        gets(&db, &model, 10_000, 4);
        assert!(figures(&db).dram_bytes <= most, "{:?}", figures(&db));
        assert_sound(&db);
    }
}

/// One store is closed and opened again while another, which shares its block cache, goes on: blocks of the first make room and must
/// not go to where they went before.
#[test]
fn a_closed_store_is_left_alone_by_others_that_share_its_block_cache() {
    let runtime = RuntimeOptions::default().threads(1).dram_budget(8 * MIB);
    let runtime = Runtime::new(runtime).expect("a runtime");
    let dir = TempDir::new("pm-cache-shared");
    let [one, other] = ["one", "other"].map(|name| dir.path().join(name));
    let options = || options().pm_cache_policy(CachePolicy::BothWays);
    let db = runtime.open(&one, options()).expect("open");
    let model = fill(&db, 3000, 1);
    gets(&db, &model, 5000, 3);
    let held = db.default_keyspace().clone();
    db.close().expect("close");
    let again = Db::open(&one, options().pm_cache(0)).expect("open");
    let model = fill(&again, 3000, 2);
    let beside = runtime.open(&other, options()).expect("open");
    let of_other = fill(&beside, 20_000, 3);
    gets(&beside, &of_other, 40_000, 5);
    assert!(figures(&beside).inserts > 100);
    gets(&again, &model, 5000, 6);
    assert!(again.check().expect("check").damage.is_empty());
    drop((held, again));
    let again = Db::open(&one, options()).expect("open");
    assert!(dump(again.default_keyspace(), &ReadOptions::default()) == model);
}
