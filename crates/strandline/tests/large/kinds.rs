//! What a large commit may hold: everything that a small one may, to the same effect.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Combines, Contents, Joined, TempDir, dump, numbered, small_levels};
use strandline::{
    Batch, Clock, Db, Hooks, KeyspaceOptions, Level0Form, Options, ReadOptions, SsdSource,
};
use testkit::Rng;

/// A clock that stands still.
struct Noon;

impl Clock for Noon {
    fn now(&self) -> Duration {
        Duration::from_secs(1000)
    }
}

/// A change, to be put in batches of any length.
enum Change {
    Put(usize, Vec<u8>, Vec<u8>),
    Delete(usize, Vec<u8>),
    Range(usize, Vec<u8>, Vec<u8>),
    Merge(usize, Vec<u8>, Vec<u8>),
}

const SPACES: [&str; 3] = ["default", "other", "timed"];

fn changes(rng: &mut Rng, count: usize) -> Vec<Change> {
    let key = |rng: &mut Rng| numbered(rng.below(400));
    let one = |rng: &mut Rng| {
        let space = rng.below(3) as usize;
        match rng.below(12) {
            0 => Change::Delete(space, key(rng)),
            1 => {
                let (a, b) = (key(rng), key(rng));
                Change::Range(space, a.clone().min(b.clone()), a.max(b))
            }
            2 | 3 if space < 2 => {
                Change::Merge(space, key(rng), vec![b'm'; 1 + rng.below(5) as usize])
            }
            // Some lie in extents of their own.
            4 => Change::Put(space, key(rng), vec![rng.next() as u8; 3000]),
            _ => Change::Put(space, key(rng), vec![rng.next() as u8; rng.below(300) as usize]),
        }
    };
    (0..count).map(|_| one(rng)).collect()
}

fn write(db: &Db, changes: &[Change], each: usize) {
    let spaces = SPACES.map(|name| db.keyspace(name).expect("keyspace"));
    for some in changes.chunks(each) {
        let mut batch = Batch::new();
        for change in some {
            match change {
                Change::Put(space, key, value) => batch.put(&spaces[*space], key, value),
                Change::Delete(space, key) => batch.delete(&spaces[*space], key),
                Change::Range(space, begin, end) => batch.delete_range(&spaces[*space], begin, end),
                Change::Merge(space, key, operand) => batch.merge(&spaces[*space], key, operand),
            }
        }
        db.write(&batch).expect("write");
    }
}

fn all(db: &Db) -> Vec<Contents> {
    let dumped = SPACES.map(|name| db.keyspace(name).expect("keyspace"));
    dumped.iter().map(|space| dump(space, &ReadOptions::default())).collect()
}

fn open(dir: &TempDir, options: &Options) -> Db {
    let operator = Arc::new(Joined(Combines::Operands));
    let hooks = Hooks::default().merge_operator(operator).clock(Arc::new(Noon));
    let db = Db::open_with(dir.path(), options.clone(), hooks).expect("open");
    let ttl = KeyspaceOptions::new().ttl(Duration::from_secs(60));
    if db.keyspace("other").is_err() {
        db.create_keyspace("other").expect("create");
        db.create_keyspace_with("timed", ttl).expect("create");
    }
    db
}

#[test]
fn one_large_batch_does_what_many_small_ones_do() {
    let sets = [
        small_levels().pm_size(16 << 20),
        small_levels().pm_size(16 << 20).subranges(4).value_files_min(1000),
        small_levels().pm_size(16 << 20).level0(Level0Form::Sst),
        small_levels().pm_size(16 << 20).ssd(SsdSource::None),
    ];
    for (no, options) in sets.iter().enumerate() {
        let (dir, other) = (TempDir::new("large-kinds"), TempDir::new("large-kinds-small"));
        let mut rng = Rng::new(no as u64);
        for round in 0..5 {
            let (db, small) = (open(&dir, options), open(&other, options));
            assert!(all(&db) == all(&small), "set {no} round {round}, after an open");
            let changes = changes(&mut rng, 1200);
            write(&db, &changes, usize::MAX);
            write(&small, &changes, 1);
            assert_eq!(db.properties().large_commits.committed, 1);
            assert_eq!(small.properties().large_commits.committed, 0);
            let (found, wanted) = (all(&db), all(&small));
            assert!(found == wanted, "set {no} round {round}");
            for (name, wanted) in SPACES.iter().zip(&wanted) {
                let space = db.keyspace(name).expect("keyspace");
                for i in 0..400 {
                    let key = numbered(i);
                    let found = space.get(&key).expect("get");
                    assert!(found.as_ref() == wanted.get(&key), "set {no} round {round}, {name}");
                }
            }
            if round % 2 == 1 {
                db.flush().expect("flush");
                assert!(all(&db) == wanted, "set {no} round {round}, after a flush");
                db.compact().expect("compact");
                assert!(all(&db) == wanted, "set {no} round {round}, after a compaction");
            }
            assert!(db.check().expect("check").damage.is_empty());
        }
    }
}

/// A scan that had found a range empty does not jump over what a large commit put there.
#[test]
fn what_was_vacant_is_found() {
    let dir = TempDir::new("large-vacant");
    let db = Db::open(dir.path(), small_levels()).expect("open");
    let space = db.default_keyspace();
    for round in 0..3_u8 {
        let mut batch = Batch::new();
        (0..2000).for_each(|i| batch.put(space, numbered(i), [round; 20]));
        db.write(&batch).expect("write");
        assert_eq!(dump(space, &ReadOptions::default()).len(), 2000, "round {round}");
        let mut batch = Batch::new();
        batch.delete_range(space, numbered(0), numbered(3000));
        // Changes of the same batch that come later stay.
        (500..1000).for_each(|i| batch.put(space, numbered(i), [round; 100]));
        db.write(&batch).expect("write");
        for _ in 0..2 {
            assert_eq!(dump(space, &ReadOptions::default()).len(), 500, "round {round}");
        }
        db.delete_range(numbered(0), numbered(3000)).expect("delete");
        for _ in 0..2 {
            assert_eq!(dump(space, &ReadOptions::default()).len(), 0, "round {round}");
        }
    }
    assert!(db.properties().large_commits.committed >= 6);
}

#[test]
fn snapshots_and_iterators_see_what_was_before() {
    let dir = TempDir::new("large-snapshot");
    let db = Db::open(dir.path(), small_levels()).expect("open");
    let space = db.default_keyspace();
    (0..100).for_each(|i| db.put(numbered(i), b"old").expect("put"));
    let snapshot = db.snapshot();
    let mut iter = space.cursor(&ReadOptions::at(&snapshot)).expect("cursor");
    iter.seek_to_first().expect("first");
    let mut batch = Batch::new();
    batch.delete_range(space, numbered(0), numbered(50));
    (25..2000).for_each(|i| batch.put(space, numbered(i), b"new"));
    db.write(&batch).expect("write");
    let old = dump(space, &ReadOptions::at(&snapshot));
    assert_eq!(old.len(), 100);
    assert!(old.values().all(|value| value == b"old"));
    let mut seen = 0;
    while iter.valid() {
        assert_eq!(iter.value().expect("value"), Some(&b"old"[..]));
        seen += 1;
        iter.next().expect("next");
    }
    assert_eq!(seen, 100);
    db.flush().expect("flush");
    assert_eq!(dump(space, &ReadOptions::at(&snapshot)), old);
    let new = dump(space, &ReadOptions::default());
    assert_eq!(new.len(), 1975);
    assert!(new.values().all(|value| value == b"new"));
}
