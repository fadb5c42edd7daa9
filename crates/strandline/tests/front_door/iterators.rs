//! Iterators that own what they yield.

use std::collections::BTreeMap;
use std::ops::Bound;

use strandline::{Db, ErrorKind, Keyspace, Options, PmSource, Slice};
use testkit::Rng;

use crate::common::{TempDir, numbered, small_levels};

fn open() -> Db {
    let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
    Db::open("unused-for-heap", options).expect("open")
}

/// The first program that a user writes.
#[test]
fn loops_over_ranges_and_prefixes() -> strandline::Result<()> {
    let dir = TempDir::new("front-door");
    let db = Db::open(dir.path(), Options::default().pm_size(16 << 20))?;
    for (name, age) in [("user/ada", 36_u32), ("user/bob", 41), ("user/cid", 7), ("version", 1)] {
        db.put(name, age.to_le_bytes())?;
    }
    let mut names = Vec::new();
    for item in db.prefix("user/") {
        let (key, value) = item?;
        let age = u32::from_le_bytes(value[..].try_into().expect("four bytes"));
        names.push(format!("{} is {age}", key.escape_ascii()));
    }
    assert_eq!(names, ["user/ada is 36", "user/bob is 41", "user/cid is 7"]);
    let last = db.keys().next_back().expect("a key")?;
    assert_eq!(last, "version");
    let young: Vec<Slice> = db
        .range("user/".."user0")
        .filter_map(|item| item.ok().filter(|(_, age)| age[0] < 40))
        .map(|(key, _)| key)
        .collect();
    assert_eq!(young, ["user/ada", "user/cid"]);
    assert_eq!(db.range("user/b"..).rev().count(), 3);
    assert_eq!(db.range(..="user/bob").count(), 2);
    assert_eq!(db.range(b"user/cid".to_vec()..=b"user/cid".to_vec()).count(), 1);
    assert_eq!(db.range((Bound::Excluded("user/ada"), Bound::Unbounded)).count(), 3);
    Ok(())
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A keyspace with a part in tables, a part in runs and a part in memtables; some of it was deleted again.
fn spread(space: &Keyspace, db: &Db, rng: &mut Rng) -> Model {
    let mut model = Model::new();
    for round in 0..4 {
        for _ in 0..1500 {
            let key = numbered(rng.below(2500));
            if rng.below(4) == 0 {
                space.delete(&key).expect("delete");
                model.remove(&key);
            } else {
                let value = vec![round; rng.below(80) as usize];
                space.put(&key, &value).expect("put");
                model.insert(key, value);
            }
        }
        space.delete_range(numbered(700), numbered(720)).expect("delete range");
        model.retain(|key, _| !(numbered(700)..numbered(720)).contains(key));
        match round {
            0 => db.compact_range(space, None, None).expect("compact"),
            1 | 2 => db.flush().expect("flush"),
            _ => {}
        }
    }
    model
}

/// Both ends are taken from in turn, at random: they yield each key once, whatever batches were read before they met.
#[test]
fn both_ends_meet_without_gap_or_duplicate() {
    let dir = TempDir::new("both-ends");
    let db = Db::open(dir.path(), small_levels()).expect("open");
    let space = db.create_keyspace("space").expect("create");
    let mut rng = Rng::new(5);
    let model = spread(&space, &db, &mut rng);
    assert!(model.len() > 1000);
    for round in 0..60 {
        let (a, b) = (numbered(rng.below(2600)), numbered(rng.below(2600)));
        let mut expected: Vec<(Vec<u8>, Vec<u8>)> = match round {
            0..10 => model.clone().into_iter().collect(),
            _ if a > b => Vec::new(),
            _ => model.range(a.clone()..b.clone()).map(|(k, v)| (k.clone(), v.clone())).collect(),
        };
        let mut iter = if round < 10 { space.iter() } else { space.range(a..b) };
        let lean = rng.below(11);
        while !expected.is_empty() {
            let (item, wanted) = if rng.below(10) < lean {
                (iter.next(), expected.remove(0))
            } else {
                (iter.next_back(), expected.pop().expect("not empty"))
            };
            let (key, value) = item.expect("an item").expect("read");
            assert!(key == wanted.0 && value == wanted.1, "round {round}: {key:?}");
        }
        for _ in 0..3 {
            assert!(iter.next().is_none() && iter.next_back().is_none(), "round {round}");
        }
    }
    let keys: Vec<Slice> = space.keys().collect::<Result<_, _>>().expect("read");
    assert!(keys.iter().map(Slice::to_vec).eq(model.keys().cloned()));
    let back: Vec<Slice> = space.keys().rev().collect::<Result<_, _>>().expect("read");
    assert!(back.iter().rev().eq(&keys));
}

#[test]
fn an_iterator_shows_the_moment_when_it_was_made() {
    let db = open();
    (0..1000).for_each(|i| db.put(numbered(i), "before").expect("put"));
    let mut iter = db.iter();
    let first = iter.next().expect("an item").expect("read");
    (0..2000).for_each(|i| db.put(numbered(i), "after").expect("put"));
    db.delete_range("key", "kez").expect("delete");
    db.compact().expect("compact");
    let rest: Vec<_> = iter.collect::<Result<_, _>>().expect("read");
    assert_eq!(first.0, numbered(0));
    assert!(rest.iter().all(|(_, value)| *value == "before"));
    assert_eq!(rest.len(), 999);
    assert_eq!(db.iter().count(), 0);
}

/// A program that keeps iterators, and all that they yielded, holds no zones with them. When what is left to read is gone,
/// an iterator says so once, and ends.
#[test]
fn an_iterator_holds_no_space_and_ends_after_an_error() {
    let db = open();
    db.put("key", "value").expect("put");
    let empty = db.properties().pm_free;
    let space = db.create_keyspace("space").expect("create");
    (0..4000).for_each(|i| space.put(numbered(i), [7; 1000]).expect("put"));
    let mut iters: Vec<_> = (0..10).map(|_| space.iter()).collect();
    let items: Vec<_> = iters.iter_mut().map(|iter| iter.next().expect("an item")).collect();
    db.drop_keyspace("space").expect("drop");
    assert!(db.flush().is_ok());
    let kept = empty.saturating_sub(db.properties().pm_free);
    assert!(kept <= 2 * db.properties().zone_bytes, "{kept} bytes are held");
    for mut iter in iters {
        let read = iter.by_ref().filter(Result::is_ok).count();
        assert!(read < 200, "{read} items were read ahead");
        assert!(iter.next().is_none() && iter.next_back().is_none());
    }
    for item in items {
        let (key, value) = item.expect("read");
        assert!(key == numbered(0) && value == [7; 1000]);
    }
    let error = space.iter().next().expect("an item").expect_err("it was dropped");
    assert_eq!(error.kind(), ErrorKind::Closed);
    let mut ended = space.keys();
    assert!(ended.next_back().is_some_and(|key| key.is_err()) && ended.next().is_none());
}
