//! A cache in front of a network: values are sent from where they lie, while they are written over.

use strandline::{Db, ErrorKind, Hooks, Options, PinnedValue, PmSource, SsdSource};
use testkit::Rng;

use crate::common::{
    Combines, Joined, TempDir, assert_nothing_leaked, kind_of, numbered, small_levels,
};

/// What value `no` is in a round: some are long enough to lie outside their records.
fn value(no: u64, round: u64) -> Vec<u8> {
    let len = if no.is_multiple_of(7) { 5000 } else { 20 + no as usize % 900 };
    let mut rng = Rng::new(no << 16 | round);
    (0..len).map(|_| rng.next() as u8).collect()
}

fn fill(db: &Db, keys: u64, round: u64) {
    for no in 0..keys {
        db.put(numbered(no), value(no, round)).unwrap_or_else(|error| panic!("{no}: {error}"));
    }
}

/// Values are pinned while they lie in memtables, in runs and in tables. Then all is written over, deleted, flushed, compacted
/// and cleaned several times: the bytes stay as they were, and what kept them comes back.
#[test]
fn pinned_bytes_stay_the_same_whatever_happens_around_them() {
    for (ssd, background_threads) in
        [(SsdSource::Auto, 0), (SsdSource::Auto, 2), (SsdSource::None, 0), (SsdSource::None, 2)]
    {
        let dir = TempDir::new("pinned");
        let options = small_levels().ssd(ssd).background_threads(background_threads);
        let db = Db::open(dir.path(), options.pm_size(8 << 20)).expect("open");
        let mut pinned: Vec<(u64, u64, PinnedValue)> = Vec::new();
        let mut pin = |round: u64, keys: &[u64]| {
            for no in keys {
                let found = db.get_pinned(numbered(*no)).expect("get").expect("it is there");
                pinned.push((*no, round, found));
            }
        };
        fill(&db, 400, 0);
        pin(0, &[1, 7, 100, 399]);
        db.flush().expect("flush");
        pin(0, &[2, 7, 14, 200]);
        db.compact_range(db.default_keyspace(), None, None).expect("compact");
        pin(0, &[3, 21, 350]);
        for round in 1..12 {
            fill(&db, 400, round);
            pin(round, &[round * 7, round * 20 + 1]);
            match round % 3 {
                0 => db.flush().expect("flush"),
                1 => db.compact_range(db.default_keyspace(), None, None).expect("compact"),
                _ => db.delete_range(numbered(0), numbered(300)).expect("delete"),
            }
        }
        db.delete_range(numbered(0), numbered(1000)).expect("delete");
        db.compact_range(db.default_keyspace(), None, None).expect("compact");
        for (no, round, bytes) in &pinned {
            assert!(**bytes == value(*no, *round), "key {no} of round {round}");
        }
        assert!(db.get_pinned(numbered(7)).expect("get").is_none());
        assert!(db.check().expect("check").damage.is_empty());
        drop(pinned);
        db.compact_range(db.default_keyspace(), None, None).expect("compact");
        assert_nothing_leaked(&db, "after all were let go");
    }
}

/// A program that never lets go of what it pins: writes end with `NoSpace`, and not a byte is wrong. Then it lets go.
#[test]
fn too_many_pinned_values_leave_no_space_and_all_their_bytes() {
    let dir = TempDir::new("pinned-full");
    let options = small_levels().ssd(SsdSource::None).pm_size(4 << 20);
    let db = Db::open(dir.path(), options).expect("open");
    let mut pinned = Vec::new();
    let refused = (0..100_000_u64).find_map(|i| {
        let (key, round) = (i % 50, i / 50);
        if let Err(error) = db.put(numbered(key), value(key, round)) {
            return Some(error);
        }
        pinned.push((key, round, db.get_pinned(numbered(key)).expect("get").expect("there")));
        None
    });
    assert_eq!(refused.expect("pinned values fill the pool").kind(), ErrorKind::NoSpace);
    assert!(pinned.len() > 1000);
    for (key, round, bytes) in &pinned {
        assert!(**bytes == value(*key, *round), "key {key} of round {round}");
    }
    drop(pinned);
    (0..1000_u64).for_each(|i| db.put(numbered(i % 50), value(i, 0)).expect("space came back"));
    assert!(db.check().expect("check").damage.is_empty());
}

#[test]
fn a_value_made_of_operands_can_be_pinned_too() -> strandline::Result<()> {
    let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
    let hooks = Hooks::default().merge_operator(std::sync::Arc::new(Joined(Combines::Nothing)));
    let db = Db::open_with("unused-for-heap", options, hooks)?;
    db.put("key", "a")?;
    db.merge("key", "b")?;
    let snapshot = db.snapshot();
    db.merge("key", "c")?;
    let (now, then) = (db.get_pinned("key")?, snapshot.get_pinned("key")?);
    assert!(db.contains_key("key")? && snapshot.contains_key("key")?);
    drop(snapshot);
    db.delete("key")?;
    assert_eq!(now.as_deref(), Some(&b"abc"[..]));
    assert_eq!(then.as_deref(), Some(&b"ab"[..]));
    assert!(db.get_pinned("key")?.is_none());
    Ok(())
}

/// Values of no bytes, and values in every place where others end.
#[test]
fn short_values_can_be_pinned() -> strandline::Result<()> {
    let dir = TempDir::new("pinned-short");
    let db = Db::open(dir.path(), small_levels())?;
    for len in 0..200_u8 {
        db.put([len], vec![len; len.into()])?;
    }
    for _ in 0..3 {
        for len in 0..200_u8 {
            let value = db.get_pinned([len])?.expect("there");
            assert!(*value == vec![len; len.into()][..], "{len}");
        }
        db.compact_range(db.default_keyspace(), None, None)?;
    }
    assert_eq!(kind_of(db.close().and_then(|()| db.get_pinned("key"))), ErrorKind::Closed);
    Ok(())
}
