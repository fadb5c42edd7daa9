//! Tables from elsewhere: what they hide and what hides them, what is refused, what failure leaves.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{
    Contents, TempDir, dump, external, heap, kind_of, numbered as key, small_levels as options,
    write_file,
};
use ssd::{Call, Disk, Failure, Faulty, Fs, Memory, Rule};
use sst::{EntryKind, Writer, WriterOptions};
use strandline::{Batch, Db, ErrorKind, IngestOptions, ReadOptions, Seq, SsdSource};
use testkit::Rng;

/// One entry of a table: a value, or a deletion.
type Change = (Vec<u8>, Option<Vec<u8>>);

/// A table of every `step`th key from `from` on, with its changes to the model.
fn some(model: &mut Contents, from: u64, count: u64, step: u64, tag: u64) -> Vec<u8> {
    let changes: Vec<Change> = (0..count)
        .map(|i| {
            let value = (i % 7 != 3).then(|| format!("ingested {tag} {i}").into_bytes());
            (key(from + i * step), value)
        })
        .collect();
    for (key, value) in &changes {
        match value {
            Some(value) => drop(model.insert(key.clone(), value.clone())),
            None => drop(model.remove(key)),
        }
    }
    external(&changes, &[])
}

fn churn(db: &Db, model: &mut Contents, seed: u64, count: u64) {
    let mut rng = Rng::new(seed);
    for round in 0..count {
        let i = rng.below(3000);
        if rng.below(5) == 0 {
            db.delete(key(i)).expect("delete");
            model.remove(&key(i));
        } else {
            let value = format!("{seed}/{round} {}", "v".repeat(100)).into_bytes();
            db.put(key(i), &value).expect("put");
            model.insert(key(i), value);
        }
    }
}

/// A file with a table of the first hundred keys, which says in what round they are ingested.
fn hundred(dir: &TempDir, round: u64) -> PathBuf {
    let value = format!("ingested {round}").into_bytes();
    let changes: Vec<Change> = (0..100).map(|i| (key(i), Some(value.clone()))).collect();
    let path = dir.join(&format!("{round}.sst"));
    std::fs::write(&path, external(&changes, &[])).expect("write");
    path
}

fn all(db: &Db) -> Contents {
    dump(db.default_keyspace(), &ReadOptions::default())
}

fn ingest(db: &Db, paths: &[PathBuf]) -> strandline::Result<Seq> {
    db.ingest(db.default_keyspace(), paths, IngestOptions::default())
}

#[test]
fn ingested_tables_are_of_one_moment() {
    let dir = TempDir::new("ingest");
    let mut db = Db::open(dir.join("db"), options()).expect("open");
    let mut model = BTreeMap::new();
    let mut rng = Rng::new(7);
    for round in 0..24_u64 {
        churn(&db, &mut model, round, rng.below(3000));
        let snapshot = db.snapshot();
        let then = model.clone();
        let mut paths = Vec::new();
        for part in 0..3 {
            let (from, step) = (part * 1000 + rng.below(300), 1 + rng.below(3));
            let bytes = some(&mut model, from, 200, step, round);
            let path = dir.join(&format!("{round}-{part}.sst"));
            std::fs::write(&path, bytes).expect("write");
            paths.push(path);
        }
        let before = db.properties().visible_seq;
        let how = IngestOptions::default().move_files(round % 2 == 0);
        let seq = db.ingest(db.default_keyspace(), &paths, how).expect("ingest");
        assert!(seq > before);
        assert!(paths.iter().all(|path| path.exists() != how.move_files));
        assert!(all(&db) == model, "round {round}");
        let at = ReadOptions::at(&snapshot);
        assert!(dump(db.default_keyspace(), &at) == then, "round {round}: an older snapshot");
        // What is written later is newer.
        let i = rng.below(3000);
        db.put(key(i), b"later").expect("put");
        model.insert(key(i), b"later".to_vec());
        assert_eq!(db.get(key(i)).expect("get").as_deref(), Some(&b"later"[..]));
        drop(snapshot);
        match round % 5 {
            1 => db.compact().expect("compact"),
            3 => {
                drop(db);
                db = Db::open(dir.join("db"), options()).expect("open again");
            }
            4 => {
                let copy = dir.join(&format!("copy{round}"));
                db.checkpoint(&copy).expect("checkpoint");
                let copy = Db::open(&copy, options()).expect("open the copy");
                assert!(all(&copy) == model, "round {round}: a checkpoint");
            }
            _ => {}
        }
        assert!(all(&db) == model, "round {round}");
    }
    assert!(db.check().expect("check").damage.is_empty());
    db.compact().expect("compact");
    assert!(all(&db) == model);
}

/// A file deleted a range and put a key in it. Walks showed the key, since nothing newer deletes it; point reads took the
/// deletion, which has the same number, for newer.
#[test]
fn a_range_deletion_spares_the_keys_of_its_own_file() {
    let dir = TempDir::new("spares");
    let db = Db::open(dir.join("db"), options()).expect("open");
    (0..10).for_each(|i| db.put(key(i), b"older").expect("put"));
    let path = dir.join("in.sst");
    let bytes = external(&[(key(5), Some(b"its own".to_vec()))], &[(key(2), key(8))]);
    std::fs::write(&path, bytes).expect("write");
    ingest(&db, &[path]).expect("ingest");
    let look = |db: &Db| {
        for (i, found) in
            [(1, Some(&b"older"[..])), (4, None), (5, Some(b"its own")), (8, Some(b"older"))]
        {
            assert_eq!(db.get(key(i)).expect("get").as_deref(), found, "{i}");
            assert_eq!(all(db).get(&key(i)).map(Vec::as_slice), found, "{i} in a walk");
        }
    };
    look(&db);
    db.compact().expect("compact");
    look(&db);
    drop(db);
    look(&Db::open(dir.join("db"), options()).expect("open again"));
}

#[test]
fn range_deletions_come_along() {
    let dir = TempDir::new("ranges");
    let db = Db::open(dir.join("db"), options()).expect("open");
    for i in 0..100 {
        db.put(key(i), b"old").expect("put");
    }
    let bytes = external(&[(key(50), Some(b"new".to_vec()))], &[(key(20), key(30))]);
    std::fs::write(dir.join("x.sst"), bytes).expect("write");
    ingest(&db, &[dir.join("x.sst")]).expect("ingest");
    let expected = |db: &Db| {
        assert_eq!(all(db).len(), 90);
        assert_eq!(db.get(key(20)).expect("get"), None);
        assert_eq!(db.get(key(30)).expect("get").as_deref(), Some(&b"old"[..]));
        assert_eq!(db.get(key(50)).expect("get").as_deref(), Some(&b"new"[..]));
    };
    expected(&db);
    drop(db);
    let db = Db::open(dir.join("db"), options()).expect("open again");
    expected(&db);
    db.compact().expect("compact");
    expected(&db);
}

#[test]
fn what_cannot_be_taken_is_refused_without_effect() {
    let dir = TempDir::new("refused");
    let db = Db::open(dir.join("db"), options()).expect("open");
    db.put(b"a", b"1").expect("put");
    let file = |name: &str, bytes: &[u8]| {
        let path = dir.join(name);
        std::fs::write(&path, bytes).expect("write");
        path
    };
    let fine = file("fine.sst", &some(&mut BTreeMap::new(), 0, 50, 1, 0));
    let overlapping = file("overlapping.sst", &some(&mut BTreeMap::new(), 49, 5, 1, 0));
    let bytes = std::fs::read(&fine).expect("read");
    let mut flipped = bytes.clone();
    flipped[20] ^= 1;
    let plain = {
        let mut writer = Writer::new(Vec::new(), WriterOptions::default());
        writer.add(b"k", Seq::new(7), EntryKind::Value, b"v").expect("add");
        writer.finish().expect("finish").0
    };
    let merge = {
        let options = WriterOptions { external: true, ..WriterOptions::default() };
        let mut writer = Writer::new(Vec::new(), options);
        writer.add(b"k", Seq::ZERO, EntryKind::Merge, b"v").expect("add");
        writer.finish().expect("finish").0
    };
    let long = external(&[(vec![b'k'; (64 << 10) + 1], None)], &[]);
    // The file OWNER is there, too.
    let tables = || std::fs::read_dir(dir.join("db/sst")).expect("list").count() - 1;
    for (bad, kind) in [
        (file("cut.sst", &bytes[..bytes.len() / 2]), ErrorKind::Corruption),
        (file("flipped.sst", &flipped), ErrorKind::Corruption),
        (file("foreign.sst", b"PNG"), ErrorKind::Corruption),
        (file("plain.sst", &plain), ErrorKind::InvalidArgument),
        (file("merge.sst", &merge), ErrorKind::NotSupported),
        (file("empty.sst", &external(&[], &[])), ErrorKind::InvalidArgument),
        (file("long.sst", &long), ErrorKind::LimitExceeded),
        (overlapping, ErrorKind::InvalidArgument),
        (dir.join("missing.sst"), ErrorKind::NotFound),
    ] {
        let error = ingest(&db, &[fine.clone(), bad.clone()]).expect_err("refused");
        let name = bad.file_name().expect("name").to_string_lossy().into_owned();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(&name), "{error} lacks {name}");
        assert_eq!((all(&db).len(), tables()), (1, 0), "{name}");
    }
    assert_eq!(kind_of(ingest(&db, &[])), ErrorKind::InvalidArgument);
    ingest(&db, std::slice::from_ref(&fine)).expect("ingest");
    let none = options().ssd(SsdSource::None);
    let flat = Db::open(dir.join("flat"), none).expect("open");
    assert_eq!(kind_of(ingest(&flat, std::slice::from_ref(&fine))), ErrorKind::InvalidArgument);
    let other = flat.ingest(db.default_keyspace(), &[fine], IngestOptions::default());
    assert_eq!(kind_of(other), ErrorKind::InvalidArgument);
}

/// Writers overwrite the same keys all the while, counting up: a key never goes back, but to what was ingested.
#[test]
fn writers_go_on_beside_an_ingest() {
    let dir = TempDir::new("beside");
    let options = options().background_threads(1);
    let db = Db::open(dir.join("db"), options).expect("open");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..2_u64 {
            let (db, stop) = (&db, &stop);
            scope.spawn(move || {
                let mut count = 0_u64;
                while !stop.load(Ordering::Relaxed) {
                    count += 1;
                    let key = key(writer * 50 + count % 50);
                    db.put(&key, format!("written {count}").as_bytes()).expect("put");
                    let value = db.get(&key).expect("get").expect("there");
                    let ingested = value.starts_with(b"ingested");
                    assert!(ingested || value == format!("written {count}").as_bytes());
                }
            });
        }
        for round in 0..8 {
            let path = hundred(&dir, round);
            match ingest(&db, &[path]) {
                Ok(_) => {
                    let value = db.get(key(99)).expect("get").expect("there");
                    let value = String::from_utf8(value).expect("text");
                    assert!(value == format!("ingested {round}") || value.starts_with("written"));
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::Busy, "{error}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(db.check().expect("check").damage.is_empty());
}

/// Memtables of other keys, flushed while the ingest holds its number, cannot become runs before its end: it must not
/// wait for them, but only for those of its own keys.
#[test]
fn an_ingest_does_not_wait_for_who_waits_for_it() {
    let dir = TempDir::new("waits");
    let options = options().memtable_bytes(16 << 10);
    let db = Db::open(dir.join("db"), options).expect("open");
    let space = db.create_keyspace("after the default one").expect("create");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..6_u64 {
            let (db, stop) = (&db, &stop);
            scope.spawn(move || {
                for round in 0_u64.. {
                    let mut batch = Batch::new();
                    for i in 0..3 {
                        batch.put(
                            db.default_keyspace(),
                            key(writer * 10 + i),
                            vec![round as u8; 1000],
                        );
                    }
                    db.write(&batch).expect("write");
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
        }
        let (other, halt) = (&space, &stop);
        scope.spawn(move || {
            for round in 0_u64.. {
                other.put(key(round % 100), [round as u8; 100]).expect("put");
                if halt.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        let mut taken = 0;
        for round in 0..300 {
            let path = hundred(&dir, round);
            match db.ingest(&space, &[path], IngestOptions::default().move_files(true)) {
                Ok(_) => taken += 1,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Busy, "{error}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(taken > 0);
    });
    assert!(db.check().expect("check").damage.is_empty());
}

/// The thread that drops a keyspace waits for commits that began before; an ingest among them must get on all the
/// while, and ends if it is its own keyspace that goes.
#[test]
fn an_ingest_beside_keyspaces_that_go() {
    let dir = TempDir::new("gone");
    let db = Db::open(dir.join("db"), options().memtable_bytes(16 << 10)).expect("open");
    let stop = AtomicBool::new(false);
    let (mut taken, mut gone) = (0, 0);
    std::thread::scope(|scope| {
        let (store, halt) = (&db, &stop);
        scope.spawn(move || {
            for round in 0_u64.. {
                let name = if round % 2 == 0 { "other" } else { "own" };
                let space = store.create_keyspace(name).expect("create");
                for i in 0..100 {
                    space.put(key(i), [round as u8; 200]).expect("put");
                }
                store.drop_keyspace(name).expect("drop");
                if halt.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        scope.spawn(move || {
            for round in 0_u64.. {
                store.put(key(round % 100), [round as u8; 200]).expect("put");
                if halt.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        for round in 0..200 {
            let path = hundred(&dir, round);
            let own = if round % 2 == 0 { None } else { db.keyspace("own").ok() };
            let space = own.as_ref().unwrap_or(db.default_keyspace());
            match db.ingest(space, &[path], IngestOptions::default()) {
                Ok(_) => taken += 1,
                Err(error) if error.kind() == ErrorKind::Closed => gone += 1,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Busy, "{error}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    println!("{taken} taken, {gone} into keyspaces that went");
    assert!(taken > 0);
    assert!(db.check().expect("check").damage.is_empty());
}

/// The i-th call of the file system fails, for every i, once and for ever.
#[test]
fn an_ingest_that_fails_leaves_nothing() {
    let fs = Arc::new(Faulty::new(Memory::new(Disk::default())));
    fs.create_dir_all(Path::new("/sst")).expect("directory");
    let region = heap(options().pm_size);
    let open =
        || Db::open_on(Arc::clone(&region), Arc::clone(&fs) as _, "/sst", options()).expect("open");
    let mut db = open();
    let mut model = BTreeMap::new();
    for (failure, for_ever) in Failure::ALL.iter().flat_map(|f| [(*f, false), (*f, true)]) {
        let (mut number, mut failed) = (1, 0);
        loop {
            churn(&db, &mut model, number, 50);
            let mut with = model.clone();
            let (a, b) = (some(&mut with, 0, 80, 3, number), some(&mut with, 1000, 80, 3, number));
            let paths = [write_file(&*fs, "/a.sst", &a), write_file(&*fs, "/b.sst", &b)];
            let rule = Rule::new(number, failure);
            fs.set_rules(vec![if for_ever { rule.for_ever() } else { rule }]);
            let struck = fs.struck();
            let done = ingest(&db, &paths);
            let was_struck = fs.struck() > struck;
            fs.set_rules(Vec::new());
            match done {
                Ok(_) => model = with,
                Err(_) => failed += 1,
            }
            paths.iter().for_each(|path| fs.remove(path).expect("remove"));
            assert!(all(&db) == model, "call {number}");
            if number % 4 == 0 {
                drop(db);
                db = open();
                assert!(all(&db) == model, "call {number}, opened again");
            }
            if !was_struck {
                break;
            }
            number += 1;
        }
        assert!(number > 20 && failed > 10, "{number} calls, {failed} failed");
    }
    // Nothing but what is named is left.
    drop(db);
    let db = open();
    let named: usize = db.properties().keyspaces[0].levels.iter().map(|l| l.tables.len()).sum();
    assert_eq!(fs.list(Path::new("/sst")).expect("list").len(), named + 1, "and who owns them");
    assert!(fs.calls(Call::Sync) > 0);
}

#[test]
fn what_rocksdb_wrote_is_taken() {
    let dir = TempDir::new("rocksdb");
    let db = Db::open(dir.join("db"), options()).expect("open");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sst/tests/golden/v5-external.sst");
    let layout =
        sst::Layout::open(&sst::FileReader::open(&golden).expect("golden")).expect("layout");
    let properties = layout.properties();
    let (merges, entries) = (properties.merges, properties.entries);
    let taken = ingest(&db, std::slice::from_ref(&golden));
    if merges > 0 {
        assert_eq!(kind_of(taken), ErrorKind::NotSupported);
        return;
    }
    taken.expect("ingest");
    let levels = &db.properties().keyspaces[0].levels;
    let table = &levels[0].tables[0];
    assert_eq!(table.entries + table.range_deletes, entries);
    assert_eq!(all(&db).len() as u64, table.entries - table.deletions);
    assert!(db.check().expect("check").damage.is_empty());
}

#[test]
fn a_range_is_compacted_and_the_rest_is_not() {
    let dir = TempDir::new("range");
    let db = Db::open(dir.join("db"), options()).expect("open");
    let mut model = BTreeMap::new();
    for part in 0..2 {
        churn(&db, &mut model, 1, 300);
        db.compact().expect("compact");
        let paths: Vec<PathBuf> = (0..4)
            .map(|i| {
                let path = dir.join(&format!("{part}-{i}.sst"));
                std::fs::write(&path, some(&mut model, i * 700, 100, 3, part)).expect("write");
                path
            })
            .collect();
        ingest(&db, &paths).expect("ingest");
    }
    let above = |db: &Db| {
        let levels = db.properties().keyspaces[0].levels.clone();
        let upper = levels.iter().filter(|level| level.level < 6);
        upper.map(|level| level.tables.len()).sum::<usize>()
    };
    assert_eq!(above(&db), 4);
    let space = db.default_keyspace();
    db.compact_range(space, Some(&key(710)), Some(&key(720))).expect("compact");
    assert_eq!(above(&db), 3);
    assert!(all(&db) == model);
    db.compact_range(space, Some(&key(1500)), None).expect("compact");
    assert_eq!(above(&db), 1);
    db.compact_range(space, None, None).expect("compact");
    assert_eq!(above(&db), 0);
    assert!(all(&db) == model);
}
