//! Data that leaves persistent memory for levels on SSD: what is there, what it costs, what happens when the
//! device fails.

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use common::{Place, TempDir, assert_nothing_leaked, dump, heap, kind_of, noise, scattered};
use ssd::{Call, Disk, Faulty, Fs, Memory};
use strandline::{Compression, Db, ErrorKind, Keyspace, Options, PmSource, ReadOptions, SsdSource};
use testkit::Rng;

const MIB: u64 = 1 << 20;

fn options() -> Options {
    Options::default()
        .pm_size(2 * MIB)
        .zone_size(16 << 10)
        .memtable_bytes(64 << 10)
        .table_bytes(128 << 10)
        .block_cache(MIB)
        .background_threads(0)
        .recovery_threads(1)
}

/// Names of the files of tables.
fn files(place: &Place) -> Vec<String> {
    let mut names = place.fs.list(Path::new("/sst")).expect("list");
    names.retain(|name| name.ends_with(".sst"));
    names
}

fn assert_same(db: &Db, model: &BTreeMap<Vec<u8>, Vec<u8>>) {
    let space = db.default_keyspace();
    assert!(dump(space, &ReadOptions::default()) == *model, "a forward scan differs");
    let mut iter = space.cursor(&ReadOptions::default()).expect("iter");
    iter.seek_to_last().expect("last");
    for (key, value) in model.iter().rev() {
        assert_eq!(iter.key(), Some(&key[..]));
        assert_eq!(iter.value().expect("value"), Some(&value[..]));
        iter.prev().expect("prev");
    }
    assert!(!iter.valid());
    for (key, value) in model {
        assert_eq!(space.get(key).expect("get").as_ref(), Some(value));
    }
}

fn level_tables(db: &Db) -> usize {
    db.properties().keyspaces[0].levels.iter().map(|level| level.tables.len()).sum()
}

/// Puts, overwrites and deletes of several times the pool.
fn churn(db: &Db, model: &mut BTreeMap<Vec<u8>, Vec<u8>>, seed: u64, count: u64) {
    let mut rng = Rng::new(seed);
    for round in 0..count {
        let i = rng.below(count / 2);
        if rng.below(5) == 0 {
            db.delete(scattered(i)).expect("delete");
            model.remove(&scattered(i));
        } else {
            db.put(scattered(i), noise(i, round)).expect("put");
            model.insert(scattered(i), noise(i, round));
        }
    }
}

#[test]
fn many_times_the_pool_comes_back_exactly() {
    let last = *Compression::AVAILABLE.last().expect("some");
    for (threads, compression) in [(0, Compression::Lz4), (2, last), (1, Compression::None)] {
        let place = Place::new(options().pm_size, Memory::default());
        let options = options().background_threads(threads).compression(compression);
        let mut model = BTreeMap::new();
        let db = place.open(options.clone());
        churn(&db, &mut model, 1, 200_000);
        let figures = db.properties();
        let ssd = figures.ssd.as_ref().expect("levels");
        assert!(ssd.compactions.level0 > 5 && ssd.compactions.levels > 5, "{ssd:?}");
        assert_eq!((ssd.compactions.failed, &ssd.trouble), (0, &None));
        assert!(model.values().map(|v| v.len() as u64).sum::<u64>() > 8 * MIB);
        assert_same(&db, &model);
        assert!(ssd.cache.charged <= ssd.cache.budget);
        // A compaction that a close interrupts leaves tables to sweep; other threads may be in the middle of one.
        while !db.work(1 << 20).expect("work").is_idle() {}
        let tables = level_tables(&db);
        drop(db);
        let db = place.open(options.clone());
        assert!(threads > 0 || db.recovery().tables_swept == 0);
        assert_same(&db, &model);
        let before = db.properties().ssd.expect("levels").cache;
        assert!(before.hits > 0 && before.misses > 0 && before.charged <= before.budget);
        assert!(tables > 20 && level_tables(&db) > 20);
        // By hand: everything at the bottom, no deletion left, no file that is not named.
        db.compact().expect("compact");
        let levels = &db.properties().keyspaces[0].levels;
        assert_eq!(levels.len(), 1, "everything is in one level");
        assert_eq!(levels[0].entries(), model.len() as u64);
        assert_eq!(levels[0].tables.iter().map(|table| table.deletions).sum::<u64>(), 0);
        assert_same(&db, &model);
        while !db.work(1 << 20).expect("work").is_idle() {}
        assert_nothing_leaked(&db, "everything in one level");
        assert_eq!(files(&place).len(), level_tables(&db));
        assert!(db.check().expect("check").damage.is_empty());
    }
}

#[test]
fn keys_that_are_asked_for_together_are_read_together() {
    let fs = Arc::new(Faulty::new(Memory::default()));
    fs.create_dir_all(Path::new("/sst")).expect("directory");
    let options = options().block_cache(16 * MIB);
    let place = Place { region: heap(options.pm_size), fs: Arc::clone(&fs) as Arc<dyn Fs> };
    let mut model = BTreeMap::new();
    let db = place.open(options.clone());
    churn(&db, &mut model, 3, 20_000);
    db.compact().expect("compact");
    assert!(level_tables(&db) > 4);
    drop(db);

    let mut keys: Vec<Vec<u8>> = model.keys().step_by(23).cloned().collect();
    keys.extend([b"absent".to_vec(), keys[7].clone(), Vec::new()]);
    keys.reverse();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let wanted: Vec<_> = keys.iter().map(|key| model.get(*key).cloned()).collect();
    // With nothing in the cache.
    let reads = |values: &dyn Fn(&Keyspace) -> Vec<Option<Vec<u8>>>| {
        let db = place.open(options.clone());
        let before = fs.calls(Call::Read);
        assert!(values(db.default_keyspace()) == wanted);
        fs.calls(Call::Read) - before
    };
    let apart =
        reads(&|space| keys.iter().map(|key| space.get(key).expect("get")).collect::<Vec<_>>());
    let together = reads(&|space| space.multi_get(&keys).expect("multi_get"));
    assert!(together * 2 < apart, "{together} reads, one by one {apart}");
}

#[test]
fn snapshots_and_iterators_outlive_compactions() {
    let place = Place::new(options().pm_size, Memory::default());
    let db = place.open(options());
    let mut model = BTreeMap::new();
    churn(&db, &mut model, 2, 60_000);
    let snapshot = db.snapshot();
    let then = model.clone();
    let at = ReadOptions::at(&snapshot);
    let space = db.default_keyspace();
    let mut iter = space.cursor(&at).expect("iter");
    iter.seek_to_first().expect("first");
    for (key, value) in then.iter().take(1000) {
        assert_eq!((iter.key(), iter.value().expect("value")), (Some(&key[..]), Some(&value[..])));
        iter.next().expect("next");
    }
    churn(&db, &mut model, 3, 60_000);
    db.compact().expect("compact");
    for (key, value) in then.iter().skip(1000) {
        assert_eq!((iter.key(), iter.value().expect("value")), (Some(&key[..]), Some(&value[..])));
        iter.next().expect("next");
    }
    assert!(!iter.valid());
    assert!(dump(space, &at) == then);
    assert_same(&db, &model);
    drop((iter, snapshot));
    db.compact().expect("compact");
    assert_same(&db, &model);
    let prefix = &model.keys().nth(5).expect("keys")[..6];
    let within = ReadOptions::default().prefix(prefix);
    let expected: Vec<_> = model.keys().filter(|key| key.starts_with(prefix)).cloned().collect();
    assert_eq!(dump(space, &within).into_keys().collect::<Vec<_>>(), expected);
    let upto = ReadOptions::default().range(..prefix);
    assert!(
        dump(space, &upto).into_keys().eq(model.range(..prefix.to_vec()).map(|(k, _)| k.clone()))
    );
}

#[test]
fn keyspaces_are_dropped_with_their_tables() {
    let place = Place::new(options().pm_size, Memory::default());
    let db = place.open(options());
    let other = db.create_keyspace("other").expect("create");
    for i in 0..30_000 {
        other.put(scattered(i), noise(i, 0)).expect("put");
    }
    db.compact().expect("compact");
    assert!(!files(&place).is_empty());
    let mut iter = other.cursor(&ReadOptions::default()).expect("iter");
    iter.seek_to_first().expect("first");
    db.drop_keyspace("other").expect("drop");
    drop((iter, other));
    while !db.work(1 << 20).expect("work").is_idle() {}
    assert_eq!(files(&place), Vec::<String>::new());
    drop(db);
    assert_eq!(place.open(options()).keyspaces(), ["default"]);
}

#[test]
fn files_that_nothing_names_are_swept() {
    let place = Place::new(options().pm_size, Memory::default());
    let db = place.open(options());
    for i in 0..30_000 {
        db.put(scattered(i), noise(i, 0)).expect("put");
    }
    drop(db);
    let named = files(&place);
    for name in ["000900.sst", "000901.sst"] {
        let mut file = place.fs.create(&Path::new("/sst").join(name)).expect("create");
        file.append(b"half a table").expect("append");
    }
    let db = place.open(options());
    assert!(db.recovery().tables_swept >= 2);
    assert!(files(&place).iter().all(|name| named.contains(name)));
    for i in 30_000..60_000 {
        db.put(scattered(i), noise(i, 0)).expect("put");
    }
    db.compact().expect("compact");
    for i in 0..60_000 {
        assert_eq!(db.get(scattered(i)).expect("get"), Some(noise(i, 0)));
    }
}

#[test]
fn missing_and_damaged_tables_are_told() {
    let place = Place::new(options().pm_size, Memory::default());
    let db = place.open(options());
    for i in 0..40_000 {
        db.put(scattered(i), noise(i, 0)).expect("put");
    }
    db.compact().expect("compact");
    let victim = db.properties().keyspaces[0].levels[0].tables[2].clone();
    drop(db);
    let file = place.fs.open(&victim.path).expect("open");
    let mut whole = vec![0; file.len() as usize];
    file.read_at(0, &mut whole).expect("read");
    place.fs.remove(&victim.path).expect("remove");
    let refused = place.try_open(options());
    assert_eq!(kind_of(refused), ErrorKind::Corruption);
    // What a power cut would leave of a table that was not synced: too short, or zeros.
    let half = whole.len() / 2;
    let zeros = vec![0; whole.len()];
    let tail_lost = [&whole[..half], &zeros[half..]].concat();
    for torn in [&whole[..half], &whole[..whole.len() - 1], &zeros[..], &tail_lost[..], &[]] {
        place.fs.create(&victim.path).and_then(|mut to| to.append(torn)).expect("write");
        assert_eq!(kind_of(place.try_open(options())), ErrorKind::Corruption);
        place.fs.remove(&victim.path).expect("remove");
    }
    place.fs.create(&victim.path).and_then(|mut to| to.append(&whole)).expect("write");
    let db = place.open(options());
    for i in 0..40_000 {
        assert_eq!(db.get(scattered(i)).expect("get"), Some(noise(i, 0)));
    }
}

#[test]
fn a_full_device_stops_no_reads_and_space_freed_lets_writes_go_on() {
    for background_threads in [0, 2] {
        let place = Place::new(options().pm_size, Memory::with_capacity(Disk::default(), 3 * MIB));
        let db = place.open(options().background_threads(background_threads));
        let mut acknowledged = 0;
        let error = loop {
            match db.put(scattered(acknowledged), noise(acknowledged, 0)) {
                Ok(()) => acknowledged += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        assert!(error.context().contains("/sst"), "names what is full: {error}");
        for i in 0..acknowledged {
            assert_eq!(db.get(scattered(i)).expect("get"), Some(noise(i, 0)), "key {i}");
        }
        drop(db);
        // A larger device, the same files.
        let disk = Memory::default();
        disk.create_dir_all(Path::new("/sst")).expect("directory");
        for name in files(&place) {
            let path = Path::new("/sst").join(name);
            let from = place.fs.open(&path).expect("open");
            let mut bytes = vec![0; from.len() as usize];
            from.read_at(0, &mut bytes).expect("read");
            disk.create(&path).and_then(|mut to| to.append(&bytes)).expect("copy");
        }
        let place = Place { region: Arc::clone(&place.region), fs: Arc::new(disk) };
        let db = place.open(options().background_threads(background_threads));
        for i in acknowledged..acknowledged + 10_000 {
            db.put(scattered(i), noise(i, 0)).expect("put");
        }
        for i in 0..acknowledged + 10_000 {
            assert_eq!(db.get(scattered(i)).expect("get"), Some(noise(i, 0)), "key {i}");
        }
    }
}

#[test]
fn a_limit_on_tables_is_kept() {
    let place = Place::new(options().pm_size, Memory::default());
    let limited = options().ssd_size(3 * MIB);
    let db = place.open(limited);
    let mut count = 0;
    let error = loop {
        match db.put(scattered(count), noise(count, 0)) {
            Ok(()) => count += 1,
            Err(error) => break error,
        }
        let bytes = db.properties().ssd.expect("levels").bytes;
        assert!(bytes <= 3 * MIB + 256 * 1024, "{bytes}");
    };
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    assert!(error.to_string().contains("ssd_size"), "{error}");
}

#[test]
fn a_manifest_that_is_full_refuses_writes_and_opens_again() {
    let dir = TempDir::new("manifest");
    let tiny = options().table_bytes(1024);
    let db = Db::open(dir.path(), tiny.clone()).expect("open");
    let mut count = 0_u64;
    let error = loop {
        match db.put(count.to_be_bytes(), [7; 400]) {
            Ok(()) => count += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    assert!(error.to_string().contains("manifest"), "{error}");
    drop(db);
    let db = Db::open(dir.path(), tiny).expect("open");
    for i in 0..count {
        assert_eq!(db.get(i.to_be_bytes()).expect("get").as_deref(), Some(&[7; 400][..]));
    }
}

/// On a real file system, through the ordinary open.
#[test]
fn a_store_in_a_directory() {
    let dir = TempDir::new("levels");
    let options = options().background_threads(2);
    let mut model = BTreeMap::new();
    let db = Db::open(dir.path(), options.clone()).expect("open");
    churn(&db, &mut model, 7, 100_000);
    assert_same(&db, &model);
    drop(db);
    let db = Db::open_read_only(dir.path(), options.clone()).expect("open");
    assert_same(&db, &model);
    assert!(level_tables(&db) > 5);
    drop(db);
    let elsewhere = options.clone().ssd(strandline::SsdSource::Path("/nowhere".into()));
    assert_eq!(kind_of(Db::open(dir.path(), elsewhere)), ErrorKind::InvalidArgument);
    let without = options.clone().ssd(strandline::SsdSource::None);
    assert_eq!(kind_of(Db::open(dir.path(), without)), ErrorKind::InvalidArgument);
    let direct = options.ssd_direct(true);
    let db = Db::open(dir.path(), direct).expect("open");
    churn(&db, &mut model, 8, 50_000);
    assert_same(&db, &model);
}

#[test]
fn tables_of_another_store_are_not_taken_for_ones_own() {
    let (dir, other) = (TempDir::new("levels-none"), TempDir::new("levels-other"));
    let without = options().ssd(SsdSource::None);
    let db = Db::open(dir.path(), without).expect("open");
    db.put(b"mine", b"1").expect("put");
    drop(db);
    let mut model = BTreeMap::new();
    let db = Db::open(other.path(), options()).expect("open");
    churn(&db, &mut model, 7, 10_000);
    db.compact().expect("compact");
    drop(db);
    let at = |path: &Path| options().ssd(SsdSource::Path(path.into()));
    let theirs = at(&other.path().join("sst"));
    assert_eq!(kind_of(Db::open(dir.path(), theirs)), ErrorKind::InvalidArgument);
    let db = Db::open(other.path(), options()).expect("open");
    assert_same(&db, &model);
    // An empty one is fine, and is theirs from then on.
    let db = Db::open(dir.path(), at(&dir.path().join("tables"))).expect("open");
    db.compact().expect("compact");
    assert_eq!(level_tables(&db), 1);
    drop(db);
    let db = Db::open(dir.path(), options()).expect("open");
    assert_eq!(db.get(b"mine").expect("get").as_deref(), Some(&b"1"[..]));
}

/// No open finds the tables of a store in memory again; without any it leaves the directory as it was.
#[test]
fn stores_in_memory_take_turns_in_a_directory() {
    let dir = TempDir::new("levels-heap");
    let options = options().pm(PmSource::Heap).ssd(SsdSource::Path(dir.join("sst")));
    let open = || Db::open("unused", options.clone());
    for _ in 0..2 {
        let db = open().expect("open");
        db.put(b"k", b"v").expect("put");
        assert_eq!(kind_of(open()), ErrorKind::InvalidArgument);
    }
    let db = open().expect("open");
    db.put(b"k", b"v").expect("put");
    db.compact().expect("compact");
    drop(db);
    assert_eq!(kind_of(open()), ErrorKind::InvalidArgument);
}

/// Neither has a table yet, so nothing but its owner's name tells that the directory is taken.
#[test]
fn two_stores_share_no_directory() {
    let dir = TempDir::new("levels-shared");
    let (shared, store) = (dir.path().join("tables"), |name: &str| dir.path().join(name));
    let at = |pm: PmSource| options().pm(pm).ssd(SsdSource::Path(shared.clone()));
    let without = options().ssd(SsdSource::None);
    drop(Db::open(store("late"), without).expect("open"));
    let db = Db::open(store("first"), at(PmSource::Auto)).expect("open");
    let refuse_all_others = || {
        let others =
            [("second", PmSource::Auto), ("late", PmSource::Auto), ("heap", PmSource::Heap)];
        for (name, pm) in others {
            let refused = Db::open(store(name), at(pm)).map(drop).expect_err(name);
            // With tables there, it might be a store that lost its pool.
            let lost = name == "second" && refused.kind() == ErrorKind::Corruption;
            assert!(lost || refused.kind() == ErrorKind::InvalidArgument, "{refused}");
            let named = shared.display().to_string();
            assert!(refused.context().contains(&named), "{refused}");
        }
    };
    refuse_all_others();
    let mut model = BTreeMap::new();
    churn(&db, &mut model, 7, 10_000);
    db.compact().expect("compact");
    refuse_all_others();
    drop(db);
    refuse_all_others();
    let open = || Db::open(store("first"), options());
    let owner = shared.join("OWNER");
    let whole = std::fs::read_to_string(&owner).expect("read");
    // Lost: `check` says so, and it is written anew.
    std::fs::remove_file(&owner).expect("remove");
    let db = Db::open_read_only(store("first"), options()).expect("open");
    let found = db.check().expect("check").damage;
    assert!(found.iter().any(|damage| damage.file.as_ref() == Some(&owner)), "{found:?}");
    drop(db);
    assert_same(&open().expect("open"), &model);
    assert_eq!(std::fs::read_to_string(&owner).expect("read"), whole);
    // Damaged, or another's.
    let short = &whole[..whole.len() - 2];
    let other = format!("{short}{}\n", if whole.ends_with("0\n") { 1 } else { 0 });
    for (text, kind) in [(short, ErrorKind::Corruption), (&other, ErrorKind::InvalidArgument)] {
        std::fs::write(&owner, text).expect("write");
        assert_eq!(kind_of(open()), kind);
        let db = Db::open_read_only(store("first"), options()).expect("open");
        assert_same(&db, &model);
        assert_eq!(db.check().expect("check").damage.len(), 1);
    }
    std::fs::remove_file(&owner).expect("remove");
    assert_same(&open().expect("open"), &model);
    refuse_all_others();
}

/// The last buffer of each table is not waited for.
#[test]
fn compactions_keep_to_their_rate() {
    let rate = 2 * MIB;
    let place = Place::new(options().pm_size, Memory::default());
    let options = options().compaction_rate(rate);
    let db = place.open(options.clone());
    churn(&db, &mut BTreeMap::new(), 5, 20_000);
    let written = || db.properties().ssd.expect("levels").compactions.written_bytes;
    let (begun, before) = (Instant::now(), written());
    db.compact().expect("compact");
    let written = written() - before;
    assert!(written > 4 * options.table_bytes, "{written}");
    let least = (written - 2 * options.table_bytes) as f64 / rate as f64;
    assert!(begun.elapsed().as_secs_f64() >= least, "{written} bytes in {:?}", begun.elapsed());
}

/// A thread that begins a compaction may look at a View that a merge of runs has just replaced.
#[test]
fn compactions_by_hand_meet_merges_in_the_background() {
    let place = Place::new(options().pm_size, Memory::default());
    let db = place.open(options().memtable_bytes(8 << 10).background_threads(2));
    let mut model = BTreeMap::new();
    for round in 0..200 {
        for i in 0..3000 {
            db.put(scattered(i % 150), noise(i, round)).expect("put");
            model.insert(scattered(i % 150), noise(i, round));
        }
        db.compact().expect("compact");
    }
    assert_same(&db, &model);
}

/// Every byte of a table, flipped: a check finds it, reads are right or refused.
#[test]
fn damage_in_a_table_is_found_and_never_believed() {
    let place = Place::new(options().pm_size, Memory::default());
    let small = options().table_bytes(16 << 10);
    let db = place.open(small.clone());
    let mut model = BTreeMap::new();
    for i in 0..3000 {
        db.put(scattered(i), noise(i, 0)).expect("put");
        model.insert(scattered(i), noise(i, 0));
    }
    let (low, high) = (scattered(7).min(scattered(8)), scattered(7).max(scattered(8)));
    db.delete_range(&low, &high).expect("delete range");
    model.retain(|key, _| !(&low..&high).contains(&key));
    let snapshot = db.snapshot();
    db.compact().expect("compact");
    assert!(db.check().expect("check").damage.is_empty());
    let victim = db.properties().keyspaces[0].levels[0].tables[1].clone();
    drop((snapshot, db));
    let file = place.fs.open(&victim.path).expect("open");
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes).expect("read");
    drop(file);
    let mut rng = Rng::new(5);
    // Everything behind the data blocks, and a sample of those.
    let tail = bytes.len() - 3000;
    let places: Vec<usize> =
        (tail..bytes.len()).chain((0..300).map(|_| rng.below(tail as u64) as usize)).collect();
    let replace = |bytes: &[u8]| {
        place.fs.remove(&victim.path).expect("remove");
        place.fs.create(&victim.path).and_then(|mut to| to.append(bytes)).expect("write");
    };
    for at in places {
        let flip = 1 << rng.below(8);
        bytes[at] ^= flip;
        replace(&bytes);
        bytes[at] ^= flip;
        match Db::open_on(Arc::clone(&place.region), Arc::clone(&place.fs), "/sst", small.clone()) {
            Err(error) => assert!(
                matches!(error.kind(), ErrorKind::Corruption | ErrorKind::NotSupported),
                "byte {at}: {error}"
            ),
            Ok(db) => {
                let damage = db.check().expect("check").damage;
                assert!(damage.iter().any(|d| d.file.as_ref() == Some(&victim.path)), "byte {at}");
                for (key, value) in model.iter().step_by(7) {
                    match db.get(key) {
                        Ok(found) => assert_eq!(found.as_ref(), Some(value), "byte {at}"),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption),
                    }
                }
            }
        }
    }
}
