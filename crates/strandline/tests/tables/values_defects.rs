//! Values apart from their keys: copies, damage and repair, and what goes wrong with such values elsewhere. pmem-rocksdb, which
//! keeps long values in pools of persistent memory, has six defects; none of them is here.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::{
    Contents, Place, TempDir, covers, dump, heap, kind_of, numbered as key, small_levels,
    write_file,
};
use ssd::{Call, Failure, Faulty, Fs, Memory, Rule};
use sst::{EntryKind, Writer, WriterOptions};
use strandline::{
    Compression, Db, ErrorKind, IngestOptions, Keyspace, KeyspaceOptions, Options, ReadOptions,
    Seq, Site, repair, steps,
};
use testkit::Rng;

fn options() -> Options {
    small_levels().compression(Compression::None).value_files_min(1000)
}

/// Bytes that do not compress, and that no other key or round has.
fn long(i: u64, round: u64) -> Vec<u8> {
    let mut rng = Rng::new(i | round << 32);
    std::iter::repeat_with(|| rng.next() as u8).take(1500).collect()
}

fn fill(space: &Keyspace, count: u64, round: u64) -> Contents {
    let all = (0..count).map(|i| (key(i), long(i, round)));
    all.inspect(|(key, value)| space.put(key, value).expect("put")).collect()
}

fn work(db: &Db) {
    while !db.work(1 << 20).expect("work").is_idle() {}
}

fn on_disk(fs: &dyn Fs) -> BTreeSet<String> {
    let names = fs.list(Path::new("/sst")).expect("list").into_iter();
    names.filter(|name| name.ends_with(".blob")).collect()
}

fn named(db: &Db) -> BTreeSet<String> {
    let files = db.properties().keyspaces.into_iter().flat_map(|space| space.value_files);
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    files.map(|file| name(&file.path)).collect()
}

fn live_values(db: &Db, space: &str) -> u64 {
    let spaces = db.properties().keyspaces;
    let space = spaces.iter().find(|each| each.name == space).expect("a keyspace");
    space.value_files.iter().map(|file| file.live_values).sum()
}

fn all(space: &Keyspace) -> Contents {
    dump(space, &ReadOptions::default())
}

#[track_caller]
fn sound(db: &Db) {
    let report = db.check().expect("check");
    assert!(report.damage.is_empty(), "{:?}", report.damage);
    assert!(report.space.leaked.is_empty(), "{:?}", report.space.leaked);
}

/// A place whose file system can be told to fail.
fn faulty() -> (Place, Arc<Faulty<Memory>>) {
    let fs = Arc::new(Faulty::new(Memory::default()));
    fs.create_dir_all(Path::new("/sst")).expect("directory");
    (Place { region: heap(options().pm_size), fs: Arc::clone(&fs) as Arc<dyn Fs> }, fs)
}

/// What a process that is killed now leaves.
fn killed(place: &Place, memory: &Memory) -> Place {
    let left = Place { region: heap(place.region.len()), fs: Arc::new(Memory::new(memory.disk())) };
    let bytes = place.region.bytes(0, place.region.len() as usize);
    let _durable = left.region.fence(left.region.flush(left.region.copy(Site::Format, 0, bytes)));
    left
}

/// A value that was stored before its commit leaked for ever after a crash.
#[test]
fn defect_1_values_written_before_a_crash_do_not_leak() {
    let (place, fs) = faulty();
    let db = place.open(options());
    let mut model = fill(db.default_keyspace(), 300, 1);
    db.compact().expect("compact");
    model.extend(fill(db.default_keyspace(), 300, 2));
    let mut unnamed = 0;
    steps::reclaim(db.default_keyspace());
    loop {
        let idle = db.work(16).expect("work").is_idle();
        if !on_disk(&*fs).is_subset(&named(&db)) {
            unnamed += 1;
            let left = killed(&place, fs.inner());
            let open = left.open(options());
            assert_eq!(on_disk(&*left.fs), named(&open));
            assert!(all(open.default_keyspace()) == model);
            sound(&open);
        }
        if idle {
            break;
        }
    }
    assert!(unnamed > 2, "{unnamed} times a file was there that no edit named");
    // As well where the edit that would name them fails, and the process ends.
    fs.set_rules(vec![Rule::new(1, Failure::Io).of(Call::SyncDir).for_ever()]);
    model.extend(fill(db.default_keyspace(), 50, 3));
    assert!(db.compact().is_err());
    let left = killed(&place, fs.inner());
    let open = left.open(options());
    assert_eq!(on_disk(&*left.fs), named(&open));
    assert!(all(open.default_keyspace()) == model);
    sound(&open);
}

/// Values were freed by a compaction before its tables were durable.
#[test]
fn defect_2_a_compaction_that_fails_frees_no_value() {
    let (place, fs) = faulty();
    let db = place.open(options());
    let mut model = fill(db.default_keyspace(), 200, 1);
    db.compact().expect("compact");
    let rule = |call: Call, part: &str| Rule::new(1, Failure::Io).of(call).on(part).for_ever();
    let rules = [
        rule(Call::Create, ".blob"),
        rule(Call::Append, ".blob"),
        rule(Call::Sync, ".blob"),
        rule(Call::Sync, ".sst"),
        rule(Call::SyncDir, "sst"),
    ];
    for (round, rule) in (2..).zip(rules) {
        let before = named(&db);
        assert!(!before.is_empty());
        fs.set_rules(vec![rule.clone()]);
        model.extend(fill(db.default_keyspace(), 40, round));
        db.delete(key(100 + round)).expect("delete");
        model.remove(&key(100 + round));
        let struck = fs.struck();
        assert!(db.compact().is_err(), "{rule}");
        assert!(fs.struck() > struck);
        assert_eq!(named(&db), before, "{rule}");
        assert!(all(db.default_keyspace()) == model, "{rule}");
        fs.set_rules(Vec::new());
        let left = killed(&place, fs.inner());
        assert!(all(left.open(options()).default_keyspace()) == model, "{rule}, then killed");
        db.compact().expect("compact");
        work(&db);
        assert!(all(db.default_keyspace()) == model, "{rule}, then not");
        assert_eq!(on_disk(&*fs), named(&db), "{rule}");
        sound(&db);
    }
}

/// Values of keys that were dropped were freed while an iterator still read them.
#[test]
fn defect_3_an_iterator_keeps_the_values_of_dropped_keys() {
    let (place, fs) = faulty();
    let db = place.open(options());
    let model = fill(db.default_keyspace(), 200, 1);
    let other = db.create_keyspace("other").expect("create");
    let dropped = fill(&other, 200, 2);
    db.compact().expect("compact");
    assert_eq!((live_values(&db, "default"), live_values(&db, "other")), (200, 200));
    let mut iters = [db.default_keyspace(), &other].map(|space| {
        let mut iter = space.cursor(&ReadOptions::default()).expect("cursor");
        iter.seek_to_first().expect("first");
        iter
    });
    db.delete_range(b"", b"\xff").expect("delete");
    db.drop_keyspace("other").expect("drop");
    db.compact().expect("compact");
    work(&db);
    assert!(all(db.default_keyspace()).is_empty());
    for (iter, model) in iters.iter_mut().zip([&model, &dropped]) {
        for (key, value) in model {
            assert_eq!(iter.key(), Some(&key[..]));
            assert!(iter.value().expect("value") == Some(&value[..]));
            iter.next().expect("next");
        }
        assert!(!iter.valid());
    }
    drop((iters, other));
    // The deletion goes down once nothing reads what it hides.
    db.delete_range(b"", b"\xff").expect("delete");
    db.compact().expect("compact");
    work(&db);
    assert_eq!(on_disk(&*fs), BTreeSet::new());
    sound(&db);
}

/// Pools of values belonged to the process: a second store used those of the first.
#[test]
fn defect_4_stores_and_keyspaces_have_files_of_their_own() {
    let places = [faulty().0, faulty().0];
    let dbs = [place_open(&places[0], 1000), place_open(&places[1], 100_000)];
    let mut models = Vec::new();
    for (no, db) in (0..).zip(&dbs) {
        let apart = db.create_keyspace("apart").expect("create");
        models.push([fill(db.default_keyspace(), 200, no), fill(&apart, 200, no + 10)]);
    }
    dbs.iter().for_each(|db| db.compact().expect("compact"));
    assert_eq!(dbs.each_ref().map(|db| live_values(db, "default")), [200, 0]);
    let in_both = |db: &Db| {
        let files = |space: usize| db.properties().keyspaces[space].value_files.clone();
        let ids = |space| files(space).iter().map(|file| file.id).collect::<BTreeSet<u64>>();
        assert!(!ids(0).is_empty() && ids(0).is_disjoint(&ids(1)));
    };
    in_both(&dbs[0]);
    dbs[0].drop_keyspace("apart").expect("drop");
    dbs[0].delete(key(0)).expect("delete");
    models[0][0].remove(&key(0));
    dbs[0].compact().expect("compact");
    work(&dbs[0]);
    assert!(all(dbs[0].default_keyspace()) == models[0][0]);
    assert!(all(dbs[1].default_keyspace()) == models[1][0]);
    assert!(all(&dbs[1].keyspace("apart").expect("keyspace")) == models[1][1]);
    for (place, db) in places.iter().zip(&dbs) {
        assert_eq!(on_disk(&*place.fs), named(db));
        sound(db);
    }
}

fn place_open(place: &Place, min: u64) -> Db {
    place.open(options().value_files_min(min))
}

/// A checkpoint copied the places of values, not the values.
#[test]
fn defect_5_a_checkpoint_has_its_values_whether_files_are_linked_or_copied() {
    for links in [true, false] {
        let dir = TempDir::new("values-checkpoint");
        let (place, fs) = faulty();
        let (db, opens) = match links {
            true => (Db::open(dir.join("db"), options()).expect("open"), None),
            false => (place.open(options()), Some(&place.fs)),
        };
        if !links {
            fs.set_rules(vec![Rule::new(1, Failure::Unsupported).of(Call::Link).for_ever()]);
        }
        let target = if links { dir.join("copy") } else { PathBuf::from("/copy") };
        let space = db.default_keyspace();
        let mut then = fill(space, 300, 1);
        db.compact().expect("compact");
        then.extend(fill(space, 50, 2));
        db.checkpoint(&target).expect("checkpoint");
        fill(space, 300, 3);
        db.compact().expect("compact");
        db.delete_range(b"", b"\xff").expect("delete");
        db.compact().expect("compact");
        work(&db);
        drop(db);
        if links {
            Db::destroy(dir.join("db"), &options()).expect("destroy");
        }
        for round in 0..2 {
            let copy = match opens {
                None => Db::open(&target, options()).expect("open"),
                Some(fs) if round == 0 => {
                    let memory = heap(options().pm_size);
                    Db::open_on(memory, Arc::clone(fs), "/copy/sst", options()).expect("open")
                }
                // Its memory went with it.
                Some(_) => break,
            };
            assert!(live_values(&copy, "default") > 200);
            assert!(all(copy.default_keyspace()) == then);
            sound(&copy);
            then.extend(fill(copy.default_keyspace(), 20, 4 + round));
            copy.compact().expect("compact");
            assert!(all(copy.default_keyspace()) == then);
            sound(&copy);
        }
    }
}

/// The bound was captured once in a static, at the first put of the process.
#[test]
fn defect_6_the_bound_is_that_of_each_open_and_keyspace() {
    let (place, other) = (faulty().0, faulty().0);
    let db = place_open(&place, 0);
    fill(db.default_keyspace(), 100, 1);
    db.compact().expect("compact");
    assert_eq!(live_values(&db, "default"), 0);
    let second = place_open(&other, 1000);
    fill(second.default_keyspace(), 100, 1);
    second.compact().expect("compact");
    assert_eq!(live_values(&second, "default"), 100);
    drop(db);
    let db = place_open(&place, 1500);
    let own = KeyspaceOptions::new().value_files_min(1501);
    let longer = db.create_keyspace_with("longer", own).expect("create");
    let model = fill(db.default_keyspace(), 100, 2);
    fill(&longer, 100, 2);
    db.compact().expect("compact");
    assert_eq!((live_values(&db, "default"), live_values(&db, "longer")), (100, 0));
    assert!(all(db.default_keyspace()) == model && all(&longer) == model);
}

/// Where the value of a key lies in a store in `dir`: the file, and its offset.
fn find(dir: &Path, value: &[u8]) -> (PathBuf, usize) {
    let entries = std::fs::read_dir(dir).expect("files").map(|entry| entry.expect("entry").path());
    let blobs = entries.filter(|path| path.extension().is_some_and(|kind| kind == "blob"));
    let mut found = blobs.filter_map(|path| {
        let bytes = std::fs::read(&path).expect("bytes");
        let at = bytes.windows(value.len()).position(|window| window == value)?;
        Some((path, at))
    });
    found.next().expect("in a value file")
}

#[test]
fn a_damaged_value_costs_one_key_and_a_lost_file_its_own() {
    let dir = TempDir::new("values-damage");
    let open = || Db::open(dir.join("db"), options()).expect("open");
    let db = open();
    fill(db.default_keyspace(), 300, 1);
    db.compact().expect("compact");
    // Both versions are in tables.
    let snapshot = db.snapshot();
    let mut model = fill(db.default_keyspace(), 300, 2);
    db.compact().expect("compact");
    assert_eq!(live_values(&db, "default"), 600);
    drop((snapshot, db));
    let (path, at) = find(&dir.join("db/sst"), &model[&key(77)]);
    let good = std::fs::read(&path).expect("bytes");
    let mut bad = good.clone();
    bad[at + 700] ^= 4;
    std::fs::write(&path, &bad).expect("written");
    let name = path.file_name().expect("a name").to_string_lossy().into_owned();
    let db = open();
    for (each, value) in &model {
        if *each == key(77) {
            let error = db.get(each).expect_err("damage");
            assert_eq!(error.kind(), ErrorKind::Corruption);
            assert!(error.context().contains(&name), "{error}");
        } else {
            assert!(db.get(each).expect("get").as_ref() == Some(value));
        }
    }
    let damage = db.check().expect("check").damage;
    let precise = damage.iter().any(|place| {
        let of = place.file.as_ref().is_some_and(|file| file.ends_with(&name));
        of && place.len < 2000 && (place.at..place.at + place.len).contains(&(at as u64 + 700))
    });
    assert!(precise, "{damage:?}");
    drop(db);
    let saved = |to: &str| {
        let report = repair(dir.join("db"), dir.join(to), options()).expect("repair");
        assert!(!report.lost.is_empty());
        let db = Db::open(dir.join(to), options()).expect("open");
        sound(&db);
        (report, all(db.default_keyspace()))
    };
    let (report, found) = saved("one");
    model.remove(&key(77));
    assert!(found == model, "all but one");
    assert!(report.lost.iter().all(|lost| lost.reason.contains(&name)), "{report:?}");
    assert!(report.lost.iter().any(|lost| covers(lost, &key(77))), "{report:?}");
    // The whole file: what was in it is lost, and older versions do not come back.
    std::fs::remove_file(&path).expect("removed");
    let (report, found) = saved("file");
    model.insert(key(77), long(77, 2));
    assert!(found.len() < model.len() && !found.is_empty(), "{} of {}", found.len(), model.len());
    for (each, value) in &model {
        let lost = report.lost.iter().any(|lost| covers(lost, each));
        match found.get(each) {
            Some(got) => assert!(got == value, "{} is an older one", each.escape_ascii()),
            None => assert!(lost, "{} is lost untold", each.escape_ascii()),
        }
        let was_there = good.windows(value.len()).any(|window| window == value);
        assert_eq!(found.contains_key(each), !was_there, "{}", each.escape_ascii());
    }
}

#[test]
fn tables_that_refer_to_value_files_are_not_ingested() {
    let (place, fs) = faulty();
    let db = place.open(options());
    let model = fill(db.default_keyspace(), 100, 1);
    db.compact().expect("compact");
    assert_eq!(live_values(&db, "default"), 100);
    let ingest = |path: PathBuf| {
        kind_of(db.ingest(db.default_keyspace(), &[path], IngestOptions::default()))
    };
    let own = db.properties().keyspaces[0].levels[0].tables[0].path.clone();
    assert_eq!(ingest(own), ErrorKind::InvalidArgument);
    let external = WriterOptions { external: true, ..WriterOptions::default() };
    let mut writer = Writer::new(Vec::new(), external);
    let value = long(0, 9);
    let file = db.properties().keyspaces[0].value_files[0].id;
    let of = sst::ValueRef { file, at: 70, len: value.len() as u64, compression: 0 };
    let mut reference = Vec::new();
    of.encode(&mut reference);
    writer.add(b"a", Seq::ZERO, EntryKind::Value, b"value").expect("add");
    writer.add(b"b", Seq::ZERO, EntryKind::ValueRef, &reference).expect("add");
    let table = writer.finish().expect("finish").0;
    let path = write_file(&*fs, "/refers.sst", &table);
    assert_eq!(ingest(path), ErrorKind::NotSupported);
    assert!(all(db.default_keyspace()) == model);
    work(&db);
    assert_eq!(on_disk(&*fs), named(&db));
    sound(&db);
}
