//! Checkpoints: what they hold, what they survive, and what is left when making one fails.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{
    Contents, TempDir, dump, heap, kind_of, numbered as key, remove_copy, small_levels as options,
};
use ssd::{Disk, Failure, Faulty, Fs, Memory, Rule};
use strandline::{Batch, Db, ErrorKind, ReadOptions};
use testkit::Rng;

/// Puts, deletes and range deletions; the model goes along.
fn churn(db: &Db, space: &str, model: &mut Contents, seed: u64, count: u64) {
    let keyspace = db.keyspace(space).expect("keyspace");
    let mut rng = Rng::new(seed);
    for round in 0..count {
        let i = rng.below(count);
        match rng.below(40) {
            0 => {
                let (from, to) = (key(i), key(i + 1 + rng.below(20)));
                keyspace.delete_range(&from, &to).expect("delete range");
                model.retain(|key, _| *key < from || *key >= to);
            }
            1..10 => {
                keyspace.delete(key(i)).expect("delete");
                model.remove(&key(i));
            }
            _ => {
                let mut value = format!("{seed}/{round} ").into_bytes();
                value.resize(40 + rng.below(120) as usize, b'v');
                keyspace.put(key(i), &value).expect("put");
                model.insert(key(i), value);
            }
        }
    }
}

fn all(db: &Db, space: &str) -> Contents {
    dump(&db.keyspace(space).expect("keyspace"), &ReadOptions::default())
}

#[test]
fn a_checkpoint_is_a_store_of_its_own() {
    let dir = TempDir::new("checkpoint");
    let place = dir.join("db");
    let db = Db::open(&place, options()).expect("open");
    db.create_keyspace("other").expect("keyspace");
    db.create_keyspace("empty").expect("keyspace");
    let (mut model, mut other) = (BTreeMap::new(), BTreeMap::new());
    churn(&db, "default", &mut model, 1, 20_000);
    churn(&db, "other", &mut other, 2, 500);
    let snapshot = db.snapshot();
    churn(&db, "default", &mut model, 3, 2000);
    let (then, other_then) = (model.clone(), other.clone());
    let cut = db.checkpoint(dir.join("copy")).expect("checkpoint");
    assert_eq!(cut, db.properties().visible_seq);
    let linked = std::fs::read_dir(dir.join("copy/sst")).expect("tables").count();
    assert!(linked > 5, "{linked}");
    drop(snapshot);
    churn(&db, "default", &mut model, 4, 20_000);
    db.compact().expect("compact");
    assert!(all(&db, "default") == model && all(&db, "other") == other);
    assert_eq!(kind_of(db.checkpoint(dir.join("copy"))), ErrorKind::Exists);
    assert_eq!(kind_of(db.checkpoint(dir.join("no/copy"))), ErrorKind::NotFound);
    drop(db);
    // It does not need the original.
    std::fs::remove_dir_all(&place).expect("removed");
    std::fs::rename(dir.join("copy"), dir.join("moved")).expect("moved");
    let wrong = options().ssd(strandline::SsdSource::None);
    assert_eq!(kind_of(Db::open(dir.join("moved"), wrong)), ErrorKind::InvalidArgument);
    for _ in 0..2 {
        let copy = Db::open_read_only(dir.join("moved"), options()).expect("open for reading");
        assert!(all(&copy, "default") == then && all(&copy, "other") == other_then);
        assert!(all(&copy, "empty").is_empty());
        assert!(copy.check().expect("check").damage.is_empty());
        // Nor does a checkpoint of it.
        drop(std::fs::remove_dir_all(dir.join("again")));
        assert_eq!(copy.checkpoint(dir.join("again")).expect("checkpoint"), cut);
    }
    assert!(!dir.join("moved/pool").exists() && !dir.join("moved/STORE").exists());
    let (mut model, mut other) = (then, other_then);
    for name in ["moved", "again"] {
        let options = options().create_if_missing(false);
        let copy = Db::open(dir.join(name), options.clone()).expect("open");
        assert!(!dir.join(name).join("sst/MANIFEST").exists());
        assert!(all(&copy, "default") == model && all(&copy, "other") == other);
        if name == "moved" {
            continue;
        }
        assert!(copy.snapshot().seq() >= cut, "numbers go on");
        churn(&copy, "default", &mut model, 5, 20_000);
        churn(&copy, "other", &mut other, 6, 1000);
        drop(copy);
        let copy = Db::open(dir.join(name), options).expect("open again");
        assert!(all(&copy, "default") == model && all(&copy, "other") == other);
        assert!(copy.check().expect("check").damage.is_empty());
    }
}

/// A table that sank without being rewritten was put back to the level that it was first written to, where newer tables
/// of its keys may be by then.
#[test]
fn tables_that_moved_stay_where_they_are() {
    let dir = TempDir::new("moved");
    let options = options().compression(strandline::Compression::None);
    let db = Db::open(dir.join("db"), options.clone()).expect("open");
    let mut model = BTreeMap::new();
    let mut fill = |keys: std::ops::Range<u64>| {
        for i in keys {
            let value = format!("{i:0100}").into_bytes();
            db.put(key(i), &value).expect("put");
            model.insert(key(i), value);
        }
    };
    fill(0..10_000);
    db.compact().expect("compact");
    // What overlaps the deepest level lies above it; tables of the rest need not stay there.
    fill(0..20_000);
    let space = db.default_keyspace();
    db.compact_range(space, Some(&key(15_000)), Some(&key(19_000))).expect("compact");
    let moves = db.properties().ssd.expect("levels").compactions.moves;
    assert!(moves > 0, "tables moved");
    let levels = |db: &Db| -> BTreeMap<u64, usize> {
        let levels = db.properties().keyspaces[0].levels.clone();
        let placed = |level: strandline::LevelProperties| {
            let number = level.level;
            level.tables.into_iter().map(move |table| (table.id, number))
        };
        levels.into_iter().flat_map(placed).collect()
    };
    let before = levels(&db);
    db.checkpoint(dir.join("copy")).expect("checkpoint");
    let copy = Db::open_read_only(dir.join("copy"), options).expect("open");
    let after = levels(&copy);
    let linked = after.iter().filter(|(id, _)| before.contains_key(id));
    let placed: Vec<_> = linked.map(|(id, level)| (*level, before[id])).collect();
    assert!(placed.len() > 5);
    assert!(placed.iter().all(|(here, there)| here == there), "{placed:?}");
    assert!(all(&copy, "default") == model);
}

#[test]
fn an_opening_that_was_cut_off_is_finished() {
    let dir = TempDir::new("cut-off");
    let db = Db::open(dir.join("db"), options()).expect("open");
    let mut model = BTreeMap::new();
    churn(&db, "default", &mut model, 1, 3000);
    db.checkpoint(dir.join("copy")).expect("checkpoint");
    drop(db);
    let copy = Db::open(dir.join("copy"), options()).expect("open");
    drop(copy);
    // As if the process had died before the store was named.
    std::fs::remove_file(dir.join("copy/STORE")).expect("removed");
    let copy = Db::open(dir.join("copy"), options()).expect("open");
    assert!(all(&copy, "default") == model);
}

#[test]
fn a_damaged_manifest_is_refused() {
    let dir = TempDir::new("damaged");
    let db = Db::open(dir.join("db"), options()).expect("open");
    db.put(b"a", b"b").expect("put");
    db.checkpoint(dir.join("copy")).expect("checkpoint");
    let manifest = dir.join("copy/sst/MANIFEST");
    let mut bytes = std::fs::read(&manifest).expect("manifest");
    *bytes.last_mut().expect("bytes") ^= 1;
    std::fs::write(&manifest, &bytes).expect("written");
    assert_eq!(kind_of(Db::open_read_only(dir.join("copy"), options())), ErrorKind::Corruption);
    assert_eq!(kind_of(Db::open(dir.join("copy"), options())), ErrorKind::Corruption);
    assert!(!dir.join("copy/STORE").exists());
}

#[test]
fn a_store_without_levels_has_checkpoints_too() {
    let dir = TempDir::new("no-levels");
    let none = options().ssd(strandline::SsdSource::None);
    let db = Db::open(dir.join("db"), none).expect("open");
    let mut model = BTreeMap::new();
    churn(&db, "default", &mut model, 1, 3000);
    db.checkpoint(dir.join("copy")).expect("checkpoint");
    let copy = Db::open(dir.join("copy"), options()).expect("open");
    assert!(all(&copy, "default") == model);
}

#[test]
fn what_is_in_the_way_stays() {
    let dir = TempDir::new("in-the-way");
    let db = Db::open(dir.join("db"), options()).expect("open");
    db.put(b"a", b"b").expect("put");
    let staging = dir.join("copy.staging");
    std::fs::create_dir_all(&staging).expect("made");
    std::fs::write(staging.join("thesis"), b"dear").expect("written");
    assert_eq!(kind_of(db.checkpoint(dir.join("copy"))), ErrorKind::Exists);
    assert!(staging.join("thesis").exists());
    std::fs::remove_file(staging.join("thesis")).expect("removed");
    std::fs::create_dir_all(staging.join("sst")).expect("made");
    std::fs::write(staging.join("sst/000007.sst"), b"left").expect("written");
    db.checkpoint(dir.join("copy")).expect("what a checkpoint left is removed");
    assert!(!staging.exists() && !dir.join("copy/sst/000007.sst").exists());
}

/// Writers move amounts between accounts in two keyspaces: every checkpoint has the same sum.
#[test]
fn checkpoints_beside_writers_are_of_one_moment() {
    const ACCOUNTS: u64 = 200;
    const EACH: i64 = 1000;
    let dir = TempDir::new("writers");
    let options = options().background_threads(1);
    let db = Db::open(dir.join("db"), options.clone()).expect("open");
    let spaces = [db.default_keyspace().clone(), db.create_keyspace("b").expect("keyspace")];
    let filler = db.create_keyspace("filler").expect("keyspace");
    for i in 0..ACCOUNTS {
        for space in &spaces {
            space.put(key(i), EACH.to_le_bytes()).expect("put");
        }
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..2_u64 {
            let (db, spaces, filler, stop) = (&db, &spaces, &filler, &stop);
            scope.spawn(move || {
                let mut rng = Rng::new(writer);
                // Each writer has accounts of its own.
                let pick = |rng: &mut Rng| key(rng.below(ACCOUNTS / 2) * 2 + writer);
                while !stop.load(Ordering::Relaxed) {
                    let (from, to) = (pick(&mut rng), pick(&mut rng));
                    let read = |space: usize, key: &[u8]| {
                        let value = spaces[space].get(key).expect("get").expect("an account");
                        i64::from_le_bytes(value[..8].try_into().expect("8 bytes"))
                    };
                    let amount = rng.below(100) as i64;
                    let pad = |n: i64| {
                        let mut value = n.to_le_bytes().to_vec();
                        value.resize(300, 0);
                        value
                    };
                    let mut batch = Batch::new();
                    batch.put(&spaces[0], &from, pad(read(0, &from) - amount));
                    batch.put(&spaces[1], &to, pad(read(1, &to) + amount));
                    // Fills persistent memory, so that data leaves it meanwhile.
                    batch.put(filler, rng.next().to_be_bytes(), [0; 400]);
                    db.write(&batch).expect("write");
                }
            });
        }
        let mut round = 0;
        let compacted = || db.properties().ssd.expect("levels").compactions.level0 > 0;
        while round < 6 || (round < 100 && !compacted()) {
            round += 1;
            let copy = dir.join(&format!("copy{round}"));
            db.checkpoint(&copy).expect("checkpoint");
            let copy = Db::open_read_only(&copy, options.clone()).expect("open");
            let mut sum = 0;
            for space in ["default", "b"] {
                let accounts = all(&copy, space);
                assert_eq!(accounts.len() as u64, ACCOUNTS);
                let amounts = accounts.values().map(|value| &value[..8]);
                sum += amounts.map(|v| i64::from_le_bytes(v.try_into().expect("8"))).sum::<i64>();
            }
            assert_eq!(sum, 2 * EACH * ACCOUNTS as i64, "round {round}");
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(db.properties().ssd.expect("levels").compactions.level0 > 0);
}

/// The i-th call of the file system fails, for every i, once and for ever.
#[test]
fn a_checkpoint_that_fails_leaves_nothing() {
    let memory = Memory::new(Disk::default());
    let fs = Arc::new(Faulty::new(memory));
    fs.create_dir_all(Path::new("/db/sst")).expect("directory");
    let region = heap(options().pm_size);
    let as_fs: Arc<dyn Fs> = Arc::clone(&fs) as _;
    let open = |region, dir: &str| Db::open_on(region, Arc::clone(&as_fs), dir, options());
    let db = open(region, "/db/sst").expect("open");
    let mut model = BTreeMap::new();
    churn(&db, "default", &mut model, 1, 16_000);
    let (target, staging) = (Path::new("/copy"), Path::new("/copy.staging"));
    for (failure, for_ever) in Failure::ALL.iter().flat_map(|f| [(*f, false), (*f, true)]) {
        let (mut number, mut failed) = (1, 0);
        loop {
            db.put(b"number", number.to_string().as_bytes()).expect("writes go on");
            model.insert(b"number".to_vec(), number.to_string().into_bytes());
            let rule = Rule::new(number, failure);
            fs.set_rules(vec![if for_ever { rule.for_ever() } else { rule }]);
            let struck = fs.struck();
            let made = db.checkpoint(target);
            let was_struck = fs.struck() > struck;
            fs.set_rules(Vec::new());
            let there = fs.exists(target).expect("exists");
            assert!(made.is_err() || there, "call {number}");
            failed += u64::from(made.is_err());
            if there {
                let copy = open(heap(options().pm_size), "/copy/sst").expect("open");
                assert!(all(&copy, "default") == model, "call {number}");
                drop(copy);
                remove_copy(&*fs, target);
            }
            if !for_ever {
                assert!(
                    !fs.exists(staging).expect("exists"),
                    "{failure:?}, call {number}: rubbish"
                );
            }
            if !was_struck {
                break;
            }
            number += 1;
        }
        assert!(number > 20 && failed > 10, "{number} calls, {failed} failed");
    }
    assert!(!fs.exists(staging).expect("exists"), "the next one removed what was left");
    assert!(all(&db, "default") == model);
}
