//! Value files in persistent memory: what lies there, that every answer is the same, and what becomes of it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::{
    Contents, Place, TempDir, assert_nothing_leaked, covers, dump, flip, heap, kind_of,
    numbered as key, wait_until,
};
use base::planted::{self, Bug};
use ssd::Memory;
use strandline::{
    Compression, Db, ErrorKind, Options, Owner, PmSource, ReadOptions, Site, SsdSource,
    ValueFileProperties, steps,
};
use testkit::Rng;

const MIB: u64 = 1 << 20;
const ZONE: u64 = 32 << 10;
/// Bytes from which on values lie apart.
const MIN: u64 = 500;

fn options() -> Options {
    Options::default()
        .pm_size(6 * MIB)
        .zone_size(ZONE)
        .memtable_bytes(64 << 10)
        .table_bytes(64 << 10)
        .value_files_min(MIN)
        .pm_values(50)
        .block_cache(MIB)
        .background_threads(0)
        .recovery_threads(1)
}

fn place() -> Place {
    Place::new(options().pm_size, Memory::default())
}

/// A value of a length on either side of the bound; it compresses to about half.
fn value(i: u64, round: u64) -> Vec<u8> {
    let lens = [20, 400, MIN as usize, 900, 1500, 2500];
    let mut rng = Rng::new(round << 32 | i);
    let len = lens[(i + round) as usize % lens.len()];
    let mut bytes: Vec<u8> = std::iter::repeat_with(|| rng.next() as u8).take(len / 2).collect();
    bytes.resize(len, 7);
    bytes
}

fn put(db: &Db, model: &mut Contents, i: u64, round: u64) {
    db.put(key(i), value(i, round)).expect("put");
    model.insert(key(i), value(i, round));
}

/// Values of `count` keys, in tables and value files.
fn fill(db: &Db, count: u64, round: u64) -> Contents {
    let mut model = Contents::new();
    (0..count).for_each(|i| put(db, &mut model, i, round));
    db.compact().expect("compact");
    model
}

fn work(db: &Db) {
    while !db.work(1 << 20).expect("work").is_idle() {}
}

fn files(db: &Db) -> Vec<ValueFileProperties> {
    db.properties().keyspaces.into_iter().flat_map(|space| space.value_files).collect()
}

/// Bytes of value files in persistent memory, and in files.
fn bytes(db: &Db) -> (u64, u64) {
    let (there, files): (Vec<_>, Vec<_>) =
        files(db).into_iter().partition(|file| file.pm_at.is_some());
    let sum = |files: &[ValueFileProperties]| files.iter().map(|file| file.bytes).sum();
    (sum(&there), sum(&files))
}

fn on_disk(place: &Place) -> BTreeSet<String> {
    let names = place.fs.list(Path::new("/sst")).expect("list").into_iter();
    names.filter(|name| name.ends_with(".blob")).collect()
}

/// Every way to read says the same.
#[track_caller]
fn assert_reads(db: &Db, at: &ReadOptions<'_>, model: &Contents) {
    let space = db.default_keyspace();
    assert!(dump(space, at) == *model, "a scan differs");
    let keys: Vec<&[u8]> = model.keys().map(|key| &key[..]).collect();
    let many = space.multi_get_with(&keys, at).expect("multi_get");
    for ((key, value), together) in model.iter().zip(many) {
        assert!(together.as_ref() == Some(value), "{} with others", key.escape_ascii());
        assert!(space.get_with(key, at).expect("get").as_ref() == Some(value), "a get");
        let pinned = space.get_pinned_with(key, at).expect("get").expect("a value");
        assert!(*pinned == value[..], "a pinned get");
    }
}

#[track_caller]
fn assert_sound(db: &Db) {
    work(db);
    let report = db.check().expect("check");
    assert!(report.damage.is_empty(), "{:?}", report.damage);
    let owned = report.space.owned.iter();
    let values = owned.filter(|owned| matches!(owned.owner, Owner::Values { .. })).count();
    assert_eq!((values as u64, values), (report.value_files, files(db).len()));
    assert_nothing_leaked(db, "a sound store");
}

#[test]
fn values_fill_their_share_and_the_rest_goes_to_files() {
    for (threads, percent, tables) in [(0, 50, 0), (2, 50, 0), (0, 30, 40), (1, 10, 0)] {
        let place = place();
        let options = options().background_threads(threads).pm_values(percent).pm_tables(tables);
        let mut db = place.open(options.clone());
        let (mut model, mut rng, mut most) = (Contents::new(), Rng::new(3), 0);
        for round in 0..12_000 {
            let i = rng.below(6000);
            if round % 9 == 0 {
                db.delete(key(i)).expect("delete");
                model.remove(&key(i));
            } else {
                put(&db, &mut model, i, round);
            }
            if round % 500 == 0 {
                let ssd = db.properties().ssd.expect("levels");
                let share = db.properties().pm_capacity * u64::from(percent) / 100;
                assert!(ssd.pm_value_bytes <= share && ssd.pm_value_limit <= share, "{ssd:?}");
                most = most.max(ssd.pm_value_bytes);
            }
        }
        work(&db);
        let (in_memory, in_files) = bytes(&db);
        println!("{threads} threads, {percent} %: at most {most}, {in_memory} and {in_files} now");
        assert!(in_memory > 0 && in_files > 0);
        assert!(db.properties().persisted.site_bytes(Site::Values) >= in_memory);
        // A compaction is counted just after readers find what it wrote.
        wait_until("all that was written is counted", || {
            let (in_memory, in_files) = bytes(&db);
            let written = db.properties().ssd.expect("levels").compactions;
            written.pm_value_bytes >= in_memory && written.value_bytes >= in_files
        });
        let written = db.properties().ssd.expect("levels").compactions;
        assert!(files(&db).iter().all(|file| file.pm_at.is_none() || file.bytes <= ZONE));
        let ssd = db.properties().ssd.expect("levels");
        let of_tables: u64 = db.properties().keyspaces[0]
            .levels
            .iter()
            .map(|level| level.bytes() - level.pm_bytes())
            .sum();
        if threads == 0 {
            assert_eq!(ssd.bytes, of_tables + in_files, "what the pool has is not on SSD");
            assert_eq!(tables > 0, written.pm_written_bytes > written.pm_value_bytes);
        }
        let (then, snapshot) = (model.clone(), db.snapshot());
        (0..6000).step_by(7).for_each(|i| put(&db, &mut model, i, 1 << 20));
        assert_reads(&db, &ReadOptions::default(), &model);
        assert_reads(&db, &ReadOptions::at(&snapshot), &then);
        drop((snapshot, db));
        db = place.open(options);
        assert!(bytes(&db).0 > 0);
        assert_reads(&db, &ReadOptions::default(), &model);
        assert_sound(&db);
        db.delete_range(b"", b"\xff").expect("delete");
        db.compact().expect("compact");
        assert_sound(&db);
        assert_eq!(bytes(&db), (0, 0));
        assert_eq!(db.properties().ssd.expect("levels").pm_value_bytes, 0);
    }
}

#[test]
fn they_are_read_where_they_lie() {
    let place = place();
    let db = place.open(options().cache_records(false));
    let model = fill(&db, 600, 1);
    let (in_memory, in_files) = bytes(&db);
    assert!(in_memory > 0 && in_files == 0, "{in_files} in files");
    // Not compressed: each has its own bytes, of a key of 9 and 32 before it.
    let apart = model.values().filter(|value| value.len() as u64 >= MIN);
    let records: u64 = apart.map(|value| value.len() as u64 + 41).sum();
    assert_eq!(in_memory, records + 62 * files(&db).len() as u64);
    let cache = |db: &Db| db.properties().ssd.expect("levels").cache;
    // Index, filter and references come to the cache.
    assert_reads(&db, &ReadOptions::default(), &model);
    let before = cache(&db);
    assert!(before.charged < in_memory / 8, "{before:?}");
    assert_reads(&db, &ReadOptions::default(), &model);
    assert_eq!(cache(&db).inserts, before.inserts);
    let pool = place.region.bytes(0, place.region.len() as usize).as_ptr_range();
    for (key, value) in &model {
        let pinned = db.get_pinned(key).expect("get").expect("a value");
        let lies_there = pool.contains(&pinned.as_ptr());
        assert_eq!(lies_there, value.len() as u64 >= MIN, "{}", value.len());
    }
    assert_sound(&db);
}

#[test]
fn overwrites_keep_them_within_their_space() {
    for threads in [0, 2] {
        let place = place();
        let db = place.open(options().background_threads(threads).value_space(110));
        let mut model = fill(&db, 1000, 1);
        let before = bytes(&db).0;
        let mut rng = Rng::new(5);
        for round in 0..10_000 {
            put(&db, &mut model, rng.below(1000), round);
        }
        db.compact().expect("compact");
        work(&db);
        // A background thread may be at a collection.
        let mut waits = 0;
        let (live, all) = loop {
            let files = files(&db);
            let live: u64 = files.iter().map(|file| file.live_bytes).sum();
            let all: u64 = files.iter().map(|file| file.bytes - 62).sum();
            if all * 100 <= live * 110 || threads == 0 || waits == 500 {
                break (live, all);
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
            waits += 1;
        };
        assert!(all * 100 <= live * 110, "{live} of {all} live");
        // Where a writer waits for persistent memory, which other threads may bring about, values go to files.
        let least = if threads == 0 { before / 2 } else { 0 };
        assert!(bytes(&db).0 > least, "most of them lie where they did: {:?}", bytes(&db));
        assert!(db.properties().ssd.expect("levels").compactions.collected > 0);
        assert_reads(&db, &ReadOptions::default(), &model);
        drop(db);
        assert_sound(&place.open(options()));
    }
}

/// Garbage goes from persistent memory although files have no room for what is live beside it.
#[test]
fn with_full_files_garbage_in_persistent_memory_still_goes() {
    for threads in [0, 2] {
        let place = place();
        let options = options().background_threads(threads).ssd_size(3 * MIB / 2);
        let db = place.open(options.clone());
        let (mut model, mut rng) = (Contents::new(), Rng::new(11));
        // Each takes as much as any other, wherever it lies.
        let long = |i: u64, round: u64| -> Vec<u8> {
            let mut rng = Rng::new(round << 32 | i);
            let half: Vec<u8> = std::iter::repeat_with(|| rng.next() as u8).take(1250).collect();
            [half, vec![7; 1250]].concat()
        };
        let mut live = 0;
        // As much as there is room for.
        for i in 0.. {
            let value = long(i, 0);
            match db.put(key(i), &value) {
                Ok(()) => model.insert(key(i), value),
                Err(error) if error.kind() == ErrorKind::NoSpace => break,
                Err(error) => panic!("{error}"),
            };
            live = i + 1;
        }
        // With a quarter deleted each of the others can be written anew, as often as one likes.
        for i in (0..live).step_by(4) {
            db.delete(key(i)).expect("delete");
            model.remove(&key(i));
        }
        for round in 1..2 * live {
            let i = rng.below(live);
            if i % 4 != 0 {
                let value = long(i, round);
                if let Err(error) = db.put(key(i), &value) {
                    panic!("{round} of {}: {error}: {:?}", 2 * live, db.properties().ssd);
                }
                model.insert(key(i), value);
            }
        }
        assert_reads(&db, &ReadOptions::default(), &model);
        drop(db);
        assert_sound(&place.open(options));
    }
}

#[test]
fn a_share_that_is_taken_back_is_left_and_one_that_is_given_is_used() {
    let place = place();
    let db = place.open(options());
    let mut model = fill(&db, 1500, 1);
    let before = bytes(&db);
    assert!(before.0 > MIB && before.1 == 0, "{before:?}");
    drop(db);
    // Half of it.
    let db = place.open(options().pm_values(15));
    work(&db);
    let share = db.properties().pm_capacity * 15 / 100;
    let taken = db.properties().ssd.expect("levels").pm_value_bytes;
    assert!(taken <= share + share / 8 && taken > share / 2, "{taken} of {share}");
    assert!(bytes(&db).1 > 0);
    assert_reads(&db, &ReadOptions::default(), &model);
    drop(db);
    let db = place.open(options().pm_values(0));
    assert_reads(&db, &ReadOptions::default(), &model);
    work(&db);
    let (in_memory, in_files) = bytes(&db);
    assert_eq!(in_memory, 0);
    assert!(in_files < before.0 * 3 / 4, "files are compressed: {in_files} of {}", before.0);
    assert_reads(&db, &ReadOptions::default(), &model);
    assert_sound(&db);
    drop(db);
    let db = place.open(options());
    (0..1500).step_by(2).for_each(|i| put(&db, &mut model, i, 9));
    db.compact().expect("compact");
    assert!(bytes(&db).0 > before.0 / 4, "what is written goes back: {:?}", bytes(&db));
    assert_reads(&db, &ReadOptions::default(), &model);
    assert_sound(&db);
    drop(db);
    // Values that come back to their tables leave persistent memory with their files.
    let db = place.open(options().value_files_min(0));
    db.compact().expect("compact");
    assert_eq!((bytes(&db), db.properties().ssd.expect("levels").pm_value_bytes), ((0, 0), 0));
    assert_reads(&db, &ReadOptions::default(), &model);
    assert_sound(&db);
}

#[test]
fn one_that_outgrows_a_zone_lies_in_a_file() {
    let place = place();
    let db = place.open(options().compression(Compression::None));
    let mut model = Contents::new();
    // A zone has room for header, footer, one record of a key of 9, and no more than this.
    let fits = ZONE as usize - 62 - 41;
    for (i, len) in [fits - 1, fits, fits + 1, 3 * ZONE as usize, 700, fits / 2].iter().enumerate()
    {
        let value = vec![i as u8; *len];
        db.put(key(i as u64), &value).expect("put");
        model.insert(key(i as u64), value);
    }
    db.compact().expect("compact");
    let (in_memory, in_files) = bytes(&db);
    assert_eq!(in_files, 2 * (62 + 41) + fits as u64 + 1 + 3 * ZONE, "{:?}", files(&db));
    let [last, half] = [700, fits as u64 / 2].map(|len| len + 41);
    assert_eq!(in_memory, 2 * ZONE - 1 + 62 + last + half, "{:?}", files(&db));
    assert_reads(&db, &ReadOptions::default(), &model);
    assert_sound(&db);
}

/// Values are pinned where they lie, their files are collected, and others write over all space that is free. Whether the values
/// stay as they were.
fn pinned_values_stay() -> bool {
    let place = place();
    let db = place.open(options());
    let model = fill(&db, 600, 1);
    let pinned: Vec<_> =
        model.keys().step_by(20).map(|key| db.get_pinned(key).expect("get").expect("it")).collect();
    fill(&db, 600, 2);
    let leaked = steps::leaked_tables(db.default_keyspace()).expect("list");
    let mut others = Contents::new();
    (0..6000).for_each(|i| put(&db, &mut others, 10_000 + i % 2000, i));
    let same = pinned.iter().zip(model.values().step_by(20)).all(|(one, other)| **one == *other);
    drop(pinned);
    if same {
        assert!(leaked > 0, "values held them");
        assert_sound(&db);
    }
    same
}

#[test]
fn an_extent_stays_for_those_who_read_it() {
    assert!(pinned_values_stay());
    planted::plant(Some(Bug::FreeReadPmValues));
    let stay = std::panic::catch_unwind(pinned_values_stay);
    planted::plant(None);
    assert!(!stay.is_ok_and(|same| same), "the extents are written over");
}

#[test]
fn copies_have_files_only() {
    let place = place();
    let db = place.open(options());
    let model = fill(&db, 600, 1);
    (600..700).for_each(|i| put(&db, &mut model.clone(), i, 1));
    let model: Contents = dump(db.default_keyspace(), &ReadOptions::default());
    db.checkpoint("/copy").expect("checkpoint");
    let copy = Db::open_on(heap(8 * MIB), Arc::clone(&place.fs), "/copy/sst", options());
    let copy = copy.expect("open");
    assert_reads(&copy, &ReadOptions::default(), &model);
    assert!(bytes(&copy).0 == 0 && bytes(&copy).1 > 0);
    assert_sound(&copy);
    let export = db.export_rocksdb("/rdb").expect("export");
    let blobs = place.fs.list(Path::new("/rdb")).expect("list").into_iter();
    let blobs = blobs.filter(|name| name.ends_with(".blob")).count() as u64;
    assert!(blobs > 0 && export.families[0].value_files == blobs);
    assert_eq!(on_disk(&place), BTreeSet::new());
    assert_sound(&db);
}

#[test]
fn a_keyspace_goes_with_its_value_files() {
    let place = place();
    let db = place.open(options());
    let model = fill(&db, 300, 1);
    let own = bytes(&db).0;
    let space = db.create_keyspace("spare").expect("create");
    (0..300).for_each(|i| space.put(key(i), value(i, 2)).expect("put"));
    db.compact().expect("compact");
    assert!(bytes(&db).0 > own);
    db.drop_keyspace("spare").expect("drop");
    drop(space);
    assert_sound(&db);
    assert_eq!(bytes(&db).0, own);
    assert_reads(&db, &ReadOptions::default(), &model);
}

#[test]
fn what_ssd_size_says_is_of_files_only() {
    let place = place();
    let db = place.open(options().pm_size(6 * MIB).ssd_size(2 * MIB));
    let model = fill(&db, 1500, 1);
    assert!(bytes(&db).0 > MIB && bytes(&db).1 == 0, "{:?}", bytes(&db));
    let ssd = db.properties().ssd.expect("levels");
    assert!(ssd.bytes < MIB, "{ssd:?}");
    // More comes: values in the pool do not stand for room in files.
    let mut model = model;
    (2000..2600).for_each(|i| put(&db, &mut model, i, 2));
    assert_reads(&db, &ReadOptions::default(), &model);
    assert_sound(&db);
}

#[test]
fn what_cannot_be_is_refused() {
    let dir = TempDir::new("pm-values-refused");
    for (name, options, says) in [
        ("dram", options().pm(PmSource::Dram), "leave pm_values out"),
        ("none", options().ssd(SsdSource::None), "leave pm_values out"),
        ("much", options().pm_values(76), "pm_values=76: at most 75 percent"),
        ("both", options().pm_tables(26), "pm_tables=26 and pm_values=50: together at most 75"),
        ("overflow", options().pm_tables(u32::MAX), "together at most 75"),
        ("log", options().pm_tables(20).pm(PmSource::Dram), "leave both out"),
    ] {
        let path = dir.join(name);
        let refused = Db::open(&path, options).err().expect(name);
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{name}");
        assert!(refused.context().contains(says), "{name}: {refused}");
        assert!(!path.exists(), "{name}");
    }
    // What the store is counts, too.
    let path = dir.join("logged");
    drop(Db::open(&path, options().pm(PmSource::Dram).pm_values(0)).expect("open"));
    assert_eq!(kind_of(Db::open(&path, options())), ErrorKind::InvalidArgument);
}

#[test]
fn a_model_of_persistent_memory_is_charged_with_whole_records() {
    let dir = TempDir::new("pm-values-model");
    let mut options = options();
    options.set("pm_model", "zero,cache=32768").expect("a model");
    let db = Db::open(dir.join("store"), options).expect("open");
    let model = fill(&db, 400, 1);
    assert_eq!(bytes(&db).1, 0);
    let read = || db.properties().pm_model.expect("a model").read_bytes;
    let before = read();
    let apart = model.iter().filter(|(_, value)| value.len() as u64 >= MIN);
    let mut records = 0;
    for (key, value) in apart {
        assert_eq!(db.get(key).expect("get").as_ref(), Some(value));
        records += (32 + key.len() + value.len()) as u64;
    }
    let charged = read() - before;
    assert!((records..records * 5 / 4).contains(&charged), "{charged} for {records}");
}

/// A store in a directory, with values in its pool; closed.
fn stored(dir: &TempDir) -> (PathBuf, Contents, Vec<(u64, u64)>) {
    let path = dir.join("store");
    let db = Db::open(&path, options()).expect("open");
    let model = fill(&db, 400, 1);
    let values = files(&db).into_iter().map(|file| (file.pm_at.expect("there"), file.bytes));
    let values = values.collect();
    drop(db);
    (path, model, values)
}

#[test]
fn damage_to_one_concerns_its_key_only() {
    let dir = TempDir::new("pm-values-damage");
    let (path, model, values) = stored(&dir);
    let (at, len) = values[values.len() / 2];
    flip(&path.join("pool"), at + len / 2);
    let db = Db::open_read_only(&path, Options::default()).expect("open");
    let damage = db.check().expect("check").damage;
    let within =
        |damage: &strandline::Damage| damage.file.is_none() && (at..at + len).contains(&damage.at);
    assert!(!damage.is_empty() && damage.iter().all(within), "{damage:?}");
    drop(db);
    let db = Db::open(&path, options()).expect("opens: values are read when they are asked for");
    let failed: Vec<_> = model.keys().filter_map(|key| db.get(key).err()).collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!(failed[0].kind(), ErrorKind::Corruption);
    assert!(failed[0].context().contains("value file"), "{}", failed[0]);
    drop(db);

    let report = strandline::repair(&path, dir.join("saved"), options()).expect("repair");
    let db = Db::open(dir.join("saved"), options()).expect("open");
    let saved = dump(db.default_keyspace(), &ReadOptions::default());
    let inside = |key: &[u8]| report.lost.iter().any(|lost| covers(lost, key));
    let differs = model.iter().filter(|(key, value)| saved.get(*key) != Some(value));
    let differs: Vec<_> = differs.map(|(key, _)| key).collect();
    assert!(differs.len() == 1 && inside(differs[0]), "{} keys differ", differs.len());
}

/// Without a manifest nothing tells what lies in an extent: its values are lost, and that is said.
#[test]
fn with_the_manifest_they_are_lost() {
    let dir = TempDir::new("pm-values-lost");
    let (path, model, _) = stored(&dir);
    // Both slots of the superblock.
    (0..8192).step_by(64).for_each(|at| flip(&path.join("pool"), at));
    let report = strandline::repair(&path, dir.join("saved"), options()).expect("repair");
    let said = report.lost.iter().any(|lost| lost.reason.contains("value files in the pool"));
    assert!(said, "{:?}", report.lost.iter().map(|lost| &lost.reason).collect::<Vec<_>>());
    let db = Db::open(dir.join("saved"), options()).expect("open");
    let saved = dump(db.default_keyspace(), &ReadOptions::default());
    let short = model.iter().filter(|(_, value)| (value.len() as u64) < MIN);
    assert_eq!(saved.len(), short.clone().count());
    assert!(short.clone().all(|(key, value)| saved.get(key) == Some(value)));
    let inside = |key: &[u8]| report.lost.iter().any(|lost| covers(lost, key));
    assert!(model.keys().all(|key| saved.contains_key(key) || inside(key)));
}
