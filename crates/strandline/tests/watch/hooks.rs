//! Merge operators and compaction filters.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::{TempDir, dump, kind_of};
use strandline::{
    Batch, CompactionFilter, Db, Decision, ErrorKind, Hooks, MergeOperator, Options, ReadOptions,
};
use testkit::Rng;

/// Appends operands, with a comma before each.
struct Append;

impl MergeOperator for Append {
    fn merge(
        &self,
        _keyspace: &str,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>> {
        let mut all = existing.unwrap_or(b"-").to_vec();
        for operand in operands {
            if operand == b"nonsense" {
                return None;
            }
            all.push(b',');
            all.extend_from_slice(operand);
        }
        Some(all)
    }
}

fn hooks() -> Hooks {
    Hooks::default().merge_operator(Arc::new(Append))
}

fn options() -> Options {
    Options::default()
        .pm_size(4 << 20)
        .zone_size(16 << 10)
        .memtable_bytes(32 << 10)
        .table_bytes(64 << 10)
        .background_threads(0)
}

#[test]
fn merges_come_to_the_same_wherever_they_lie() {
    for background_threads in [0, 2] {
        let dir = TempDir::new("merge");
        let options = options().background_threads(background_threads);
        let mut db = Db::open_with(dir.path(), options.clone(), hooks()).expect("open");
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let mut rng = Rng::new(1);
        let mut then = BTreeMap::new();
        let mut snapshot = None;
        for round in 0..60_000_u64 {
            let key = format!("key{:05}", rng.below(3000)).into_bytes();
            match rng.below(20) {
                0..12 => {
                    let operand = format!("{}", round % 977).into_bytes();
                    db.merge(&key, &operand).expect("merge");
                    let value = model.entry(key).or_insert_with(|| b"-".to_vec());
                    value.push(b',');
                    value.extend_from_slice(&operand);
                }
                12..16 => {
                    db.put(&key, [b'p'; 60]).expect("put");
                    model.insert(key, vec![b'p'; 60]);
                }
                16..18 => {
                    db.delete(&key).expect("delete");
                    model.remove(&key);
                }
                18 => {
                    let mut end = key.clone();
                    end.push(b'5');
                    db.delete_range(&key, &end).expect("delete range");
                    model.remove(&key);
                }
                _ => assert_eq!(db.get(&key).expect("get").as_ref(), model.get(&key)),
            }
            if round % 7000 == 6999 {
                if let Some(snapshot) = snapshot.take() {
                    let at = ReadOptions::at(&snapshot);
                    assert!(dump(db.default_keyspace(), &at) == then, "round {round}");
                }
                snapshot = Some(db.snapshot());
                then.clone_from(&model);
            }
            if round % 20_000 == 19_999 {
                snapshot = None;
                db.compact().expect("compact");
                assert!(dump(db.default_keyspace(), &ReadOptions::default()) == model);
                drop(db);
                db = Db::open_with(dir.path(), options.clone(), hooks()).expect("open");
            }
        }
        assert!(dump(db.default_keyspace(), &ReadOptions::default()) == model);
        let mut iter = db.default_keyspace().cursor(&ReadOptions::default()).expect("iter");
        iter.seek_to_last().expect("last");
        for (key, value) in model.iter().rev() {
            assert_eq!(iter.key(), Some(&key[..]));
            assert_eq!(iter.value().expect("value"), Some(&value[..]));
            iter.prev().expect("prev");
        }
        drop((iter, snapshot));
        db.compact().expect("compact");
        let levels = &db.properties().keyspaces[0].levels;
        assert_eq!(levels.iter().map(|level| level.entries()).sum::<u64>(), model.len() as u64);
        assert!(dump(db.default_keyspace(), &ReadOptions::default()) == model);
    }
}

#[test]
fn operands_without_an_operator() {
    let dir = TempDir::new("operator");
    let db = Db::open_with(dir.path(), options(), hooks()).expect("open");
    let mut batch = Batch::new();
    batch.put(db.default_keyspace(), b"a", b"1");
    batch.merge(db.default_keyspace(), b"a", b"2");
    batch.merge(db.default_keyspace(), b"b", b"nonsense");
    db.write(&batch).expect("write");
    assert_eq!(db.get(b"a").expect("get").as_deref(), Some(&b"1,2"[..]));
    assert_eq!(kind_of(db.get(b"b")), ErrorKind::Hook);
    assert_eq!(kind_of(db.merge(b"c", [0; 4096])), ErrorKind::LimitExceeded);
    db.put(b"b", b"anew").expect("put");
    assert_eq!(db.get(b"b").expect("get").as_deref(), Some(&b"anew"[..]));
    drop((batch, db));
    let db = Db::open(dir.path(), options()).expect("open");
    assert_eq!(kind_of(db.merge(b"a", b"3")), ErrorKind::InvalidArgument);
    assert_eq!(kind_of(db.get(b"a")), ErrorKind::NotSupported);
    assert_eq!(db.get(b"b").expect("get").as_deref(), Some(&b"anew"[..]));
    // Compacted without an operator, operands stay operands.
    db.compact().expect("compact");
    drop(db);
    let db = Db::open_read_only_with(dir.path(), options(), hooks()).expect("open");
    assert_eq!(db.get(b"a").expect("get").as_deref(), Some(&b"1,2"[..]));
}

/// Removes what ends in an odd digit, marks the rest.
struct Odd;

impl CompactionFilter for Odd {
    fn decide(&self, _keyspace: &str, level: usize, key: &[u8], value: &[u8]) -> Decision {
        assert!(level > 0);
        match key.last() {
            Some(last) if last % 2 == 1 => Decision::Remove,
            _ if value.starts_with(b"kept") => Decision::Keep,
            _ => Decision::Change([b"kept ", value].concat()),
        }
    }
}

#[test]
fn a_filter_decides_over_what_all_readers_see() {
    let dir = TempDir::new("filter");
    let with = Hooks::default().compaction_filter(Arc::new(Odd));
    let db = Db::open_with(dir.path(), options(), with).expect("open");
    for i in 0..1000 {
        db.put(format!("{i:04}").as_bytes(), b"value").expect("put");
    }
    let snapshot = db.snapshot();
    for i in 0..1000 {
        db.put(format!("{i:04}").as_bytes(), b"newer").expect("put");
    }
    db.compact().expect("compact");
    // Some reader still sees the older versions: nothing was decided.
    assert_eq!(db.get(b"0001").expect("get").as_deref(), Some(&b"newer"[..]));
    let at = ReadOptions::at(&snapshot);
    let old = db.default_keyspace().get_with(b"0001", &at).expect("get");
    assert_eq!(old.as_deref(), Some(&b"value"[..]));
    drop(snapshot);
    // By hand it looks at what lies deepest, too.
    db.compact().expect("compact");
    for i in 0..1000 {
        let kept = (i % 2 == 0).then(|| b"kept newer".to_vec());
        assert_eq!(db.get(format!("{i:04}").as_bytes()).expect("get"), kept, "{i}");
    }
    for i in 0..1000 {
        db.put(format!("{i:04}").as_bytes(), b"last").expect("put");
    }
    // Not in a copy, which shows the store as it is at that moment.
    let beside = TempDir::new("filter-copy");
    let copy = beside.path().join("copy");
    db.checkpoint(&copy).expect("checkpoint");
    let copy = Db::open_read_only(&copy, options()).expect("open");
    assert_eq!(copy.get(b"0001").expect("get").as_deref(), Some(&b"last"[..]));
    drop(copy);
    db.compact().expect("compact");
    for i in 0..1000 {
        let kept = (i % 2 == 0).then(|| b"kept last".to_vec());
        assert_eq!(db.get(format!("{i:04}").as_bytes()).expect("get"), kept, "{i}");
    }
    let levels = &db.properties().keyspaces[0].levels;
    assert_eq!(levels.iter().map(|level| level.entries()).sum::<u64>(), 500);
}
