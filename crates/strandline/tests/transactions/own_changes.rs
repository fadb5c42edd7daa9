//! A transaction, and an indexed batch, beside a model: what they show is the store with their changes on top.

use std::collections::BTreeMap;
use std::ops::Bound;

use strandline::{Db, IndexedBatch, Isolation, Keyspace, ReadOptions, Transaction};
use testkit::Rng;

use crate::common::Contents;
use crate::conflicts::{begin, open};

const KEYS: u64 = 40;

fn key(rng: &mut Rng) -> Vec<u8> {
    format!("key/{:02}", rng.below(KEYS)).into_bytes()
}

/// A change.
enum Change {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    Merge(Vec<u8>, Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>),
}

fn draw(rng: &mut Rng, round: u64) -> Change {
    let value = |what: &str| format!("{what}{round},").into_bytes();
    match rng.below(8) {
        0..3 => Change::Put(key(rng), value("p")),
        3 => Change::Delete(key(rng)),
        4..7 => Change::Merge(key(rng), value("m")),
        _ => {
            let (a, b) = (key(rng), key(rng));
            Change::DeleteRange(a.clone().min(b.clone()), a.max(b))
        }
    }
}

impl Change {
    fn apply(&self, model: &mut Contents) {
        match self {
            Change::Put(key, value) => drop(model.insert(key.clone(), value.clone())),
            Change::Delete(key) => drop(model.remove(key)),
            Change::Merge(key, operand) => {
                model.entry(key.clone()).or_default().extend_from_slice(operand);
            }
            Change::DeleteRange(begin, end) => model.retain(|key, _| key < begin || key >= end),
        }
    }

    fn write(&self, db: &Db) {
        match self {
            Change::Put(key, value) => db.put(key, value),
            Change::Delete(key) => db.delete(key),
            Change::Merge(key, operand) => db.merge(key, operand),
            Change::DeleteRange(begin, end) => db.delete_range(begin, end),
        }
        .expect("write");
    }

    fn add(&self, transaction: &mut Transaction, space: &Keyspace) {
        match self {
            Change::Put(key, value) => transaction.put(space, key, value),
            Change::Delete(key) => transaction.delete(space, key),
            Change::Merge(key, operand) => transaction.merge(space, key, operand),
            Change::DeleteRange(begin, end) => transaction.delete_range(space, begin, end),
        }
        .expect("change");
    }
}

/// A store that has its keys in all places: memtables, runs, tables.
fn filled(rng: &mut Rng, name: &str) -> (crate::common::TempDir, Db, Contents) {
    let (dir, db) = open(name);
    let mut model = BTreeMap::new();
    for round in 0..60 {
        let change = draw(rng, 1000 + round);
        change.write(&db);
        change.apply(&mut model);
        match rng.below(12) {
            0 => db.flush().expect("flush"),
            1 => db.compact().expect("compact"),
            _ => {}
        }
    }
    (dir, db, model)
}

/// Compares everything that the transaction can show.
fn compare(rng: &mut Rng, transaction: &Transaction, space: &Keyspace, model: &Contents) {
    let probe = key(rng);
    let expected = model.get(&probe);
    assert_eq!(transaction.get(space, &probe).expect("get").as_ref(), expected);
    assert_eq!(transaction.contains_key(space, &probe).expect("get"), expected.is_some());
    let several: Vec<Vec<u8>> = (0..5).map(|_| key(rng)).collect();
    let found = transaction.multi_get(space, &several).expect("get");
    assert!(several.iter().zip(&found).all(|(key, value)| model.get(key) == value.as_ref()));

    let (a, b) = (key(rng), key(rng));
    let (low, high) = (a.clone().min(b.clone()), a.max(b));
    let range = (Bound::Included(low.clone()), Bound::Excluded(high.clone()));
    let expected: Vec<(&Vec<u8>, &Vec<u8>)> = match low < high {
        true => model.range(low..high).collect(),
        false => Vec::new(),
    };
    let mut iter = transaction.range(space, range.clone());
    let (mut front, mut back) = (0, expected.len());
    // From both ends, until they meet.
    loop {
        let (item, of_model) = match rng.below(2) {
            0 => (iter.next(), (front < back).then(|| expected[front])),
            _ => (iter.next_back(), (front < back).then(|| expected[back - 1])),
        };
        let item = item.map(|item| item.expect("an item"));
        let shown = item.as_ref().map(|(key, value)| (key.to_vec(), value.to_vec()));
        let Some((key, value)) = of_model else {
            assert_eq!(shown, None);
            break;
        };
        assert_eq!(shown, Some((key.clone(), value.clone())));
        if front < back && *key == *expected[front].0 { front += 1 } else { back -= 1 }
    }
    drop(iter);

    let mut cursor = transaction.cursor(space, range).expect("cursor");
    let mut at = None;
    for _ in 0..6 {
        match rng.below(4) {
            0 => {
                let to = key(rng);
                cursor.seek(&to).expect("seek");
                at = expected.iter().position(|(key, _)| **key >= to);
            }
            1 => {
                let to = key(rng);
                cursor.seek_for_prev(&to).expect("seek");
                at = expected.iter().rposition(|(key, _)| **key <= to);
            }
            2 => {
                cursor.next().expect("next");
                at = at.map(|at| at + 1).filter(|at| *at < expected.len());
            }
            _ => {
                cursor.prev().expect("prev");
                at = at.and_then(|at: usize| at.checked_sub(1));
            }
        }
        assert_eq!(cursor.key(), at.map(|at| &expected[at].0[..]));
        assert_eq!(cursor.value().expect("value"), at.map(|at| &expected[at].1[..]));
    }
}

#[test]
fn a_transaction_shows_the_store_with_its_changes() {
    for seed in 0..30 {
        let mut rng = Rng::new(seed);
        let (_dir, db, before) = filled(&mut rng, "own-changes");
        let space = db.default_keyspace();
        let level = if rng.below(2) == 0 { Isolation::Snapshot } else { Isolation::Serializable };
        let mut transaction = begin(&db, level);
        let (mut model, mut saved) = (before.clone(), Vec::new());
        for round in 0..50 {
            match rng.below(10) {
                0 => {
                    transaction.set_savepoint();
                    saved.push(model.clone());
                }
                1 => {
                    assert_eq!(transaction.rollback_to_savepoint().is_ok(), !saved.is_empty());
                    model = saved.pop().unwrap_or(model);
                }
                2 => {
                    assert_eq!(transaction.pop_savepoint().is_ok(), saved.pop().is_some());
                }
                _ => {
                    let change = draw(&mut rng, round);
                    change.add(&mut transaction, space);
                    change.apply(&mut model);
                }
            }
            compare(&mut rng, &transaction, space, &model);
        }
        let stored: Contents = db.iter().map(|item| item.expect("an item")).map(owned).collect();
        assert_eq!(stored, before, "nothing is seen before the commit");
        transaction.commit().expect("commit");
        let stored: Contents = db.iter().map(|item| item.expect("an item")).map(owned).collect();
        assert_eq!(stored, model);
    }
}

fn owned((key, value): (strandline::Slice, strandline::Slice)) -> (Vec<u8>, Vec<u8>) {
    (key.into(), value.into())
}

/// What was taken back is not in the batch's index either.
#[test]
fn a_savepoint_takes_the_index_back_too() {
    let leaks = || {
        let (_dir, db) = open("savepoint");
        let space = db.default_keyspace();
        db.put("kept", "old").expect("put");
        let mut transaction = begin(&db, Isolation::Snapshot);
        transaction.put(space, "a", "1").expect("put");
        transaction.set_savepoint();
        transaction.put(space, "b", "2").expect("put");
        transaction.delete_range(space, "k", "l").expect("delete");
        transaction.rollback_to_savepoint().expect("a savepoint");
        // Something else stands at their places.
        transaction.put(space, "c", "3").expect("put");
        transaction.put(space, "d", "4").expect("put");
        transaction.get(space, "b").expect("get").is_some()
            || transaction.get(space, "kept").expect("get").is_none()
    };
    assert!(!leaks());
    base::planted::plant(Some(base::planted::Bug::SavepointKept));
    let planted = leaks();
    base::planted::plant(None);
    assert!(planted, "the rule is idle");
}

#[test]
fn an_indexed_batch_is_read_over_any_moment() {
    let (_dir, db) = open("indexed-batch");
    let space = db.default_keyspace();
    db.put("a", "1").expect("put");
    let snapshot = db.snapshot();
    db.put("a", "2").expect("put");
    let mut batch = IndexedBatch::new();
    batch.merge(space, "a", "+");
    batch.put(space, "b", "b");
    assert_eq!(batch.get(space, "a").expect("get").as_deref(), Some(&b"2+"[..]));
    let then = ReadOptions::at(&snapshot);
    let found = batch.get_with(space, "a", &then).expect("get");
    assert_eq!(found.as_deref(), Some(&b"1+"[..]));
    batch.set_savepoint();
    batch.delete_range(space, "a", "z");
    assert_eq!(batch.get(space, "a").expect("get"), None);
    batch.rollback_to_savepoint().expect("a savepoint");
    assert_eq!(batch.len(), 2);
    db.write(batch.batch()).expect("write");
    assert_eq!(db.get("a").expect("get").as_deref(), Some(&b"2+"[..]));
    batch.clear();
    assert!(batch.is_empty());
    assert_eq!(batch.get(space, "c").expect("get"), None);
}
