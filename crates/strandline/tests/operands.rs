//! Keys with many versions: operands of merges, and overwrites that a snapshot keeps. Steps are counted, not timed: what a
//! look-up walks is what `explain_get` tells of it.

mod common;

use std::path::Path;
use std::sync::Arc;

use common::heap;
use strandline::{
    Db, Hooks, Iter, MergeOperator, Options, ReadOptions, Snapshot, SsdSource, TimedProbe, steps,
};

/// Adds numbers.
struct Sum;

fn number(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

impl MergeOperator for Sum {
    fn merge(
        &self,
        _keyspace: &str,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>> {
        let mut sum = existing.map_or(Some(0), number)?;
        for operand in operands {
            sum += number(operand)?;
        }
        Some(sum.to_le_bytes().to_vec())
    }
}

fn hooks() -> Hooks {
    Hooks { merge_operator: Some(Arc::new(Sum)), ..Hooks::default() }
}

fn options() -> Options {
    Options {
        pm_size: 32 << 20,
        zone_size: 64 << 10,
        memtable_bytes: 16 << 20,
        background_threads: 0,
        ssd: SsdSource::None,
        ..Options::default()
    }
}

fn store() -> Db {
    steps::open(heap(32 << 20), None, options(), hooks()).expect("open")
}

/// A store whose records go on to tables.
fn with_tables() -> Db {
    let fs: Arc<dyn ssd::Fs> = Arc::new(ssd::Memory::default());
    fs.create_dir_all(Path::new("/sst")).expect("directory");
    let options = Options { ssd: SsdSource::Auto, ..options() };
    let shelf = Some((fs, Path::new("/sst")));
    steps::open(heap(32 << 20), shelf, options, hooks()).expect("open")
}

fn merge_ones(db: &Db, key: &[u8], count: u64) {
    for _ in 0..count {
        db.merge(key, &1_u64.to_le_bytes()).expect("merge");
    }
}

fn sum(value: Option<&[u8]>) -> Option<u64> {
    value.and_then(number)
}

fn probes(db: &Db, key: &[u8]) -> Vec<TimedProbe> {
    db.default_keyspace().explain_get(key).expect("explain").1
}

fn versions(probes: &[TimedProbe]) -> u64 {
    probes.iter().map(|timed| timed.probe.versions).sum()
}

fn iter(db: &Db, snapshot: Option<&Snapshot>) -> Iter {
    let at = ReadOptions { snapshot, ..ReadOptions::default() };
    db.default_keyspace().iter(&at).expect("iter")
}

/// What all keys come to, both ways.
fn all(db: &Db, snapshot: Option<&Snapshot>) -> Vec<(Vec<u8>, u64)> {
    let mut iter = iter(db, snapshot);
    let mut found = Vec::new();
    let mut take = |iter: &Iter| {
        let value = sum(iter.value().expect("value")).expect("a number");
        found.push((iter.key().expect("key").to_vec(), value));
    };
    iter.seek_to_first().expect("seek");
    while iter.valid() {
        take(&iter);
        iter.next().expect("next");
    }
    iter.seek_to_last().expect("seek");
    while iter.valid() {
        take(&iter);
        iter.prev().expect("prev");
    }
    let behind = found.split_off(found.len() / 2);
    assert!(found.iter().eq(behind.iter().rev()), "both ways see the same");
    found
}

/// The versions of a key below an operand were looked up one by one, each by a search of its own through all sources, and
/// each search passed what the ones before had passed: a key with 65,000 operands took nine seconds to read, an iterator two
/// minutes.
#[test]
fn operands_of_a_key_are_walked_once_wherever_they_lie() {
    for (db, place) in [(store(), "pool"), (with_tables(), "tables")] {
        db.put(b"a", &7_u64.to_le_bytes()).expect("put");
        db.put(b"z", &8_u64.to_le_bytes()).expect("put");
        let held = db.snapshot();
        // A snapshot behind each operand: none of them may be combined.
        let mut snapshots = Vec::new();
        for _ in 0..1000 {
            merge_ones(&db, b"m", 1);
            snapshots.push(db.snapshot());
        }
        for stage in ["memtable", "run", "merged"] {
            let probes = probes(&db, b"m");
            assert!(probes.len() <= 4, "{place}, {stage}: {} searches", probes.len());
            assert!(versions(&probes) <= 1001, "{place}, {stage}: {} versions", versions(&probes));
            assert_eq!(sum(db.get(b"m").expect("get").as_deref()), Some(1000));
            let all = all(&db, None);
            let expected = [(&b"a"[..], 7), (b"m", 1000), (b"z", 8)];
            assert!(all.iter().map(|(key, sum)| (&key[..], *sum)).eq(expected), "{all:?}");
            for (count, snapshot) in (1..).zip(&snapshots).step_by(97) {
                let at = ReadOptions { snapshot: Some(snapshot), ..ReadOptions::default() };
                let found = db.default_keyspace().get_with(b"m", &at).expect("get");
                assert_eq!(sum(found.as_deref()), Some(count), "{place}, {stage}");
                let seen = self::all(&db, Some(snapshot));
                assert_eq!(seen[1], (b"m".to_vec(), count), "{place}, {stage}");
            }
            assert_eq!(all_keys(&db, &held), ["a", "z"], "{place}, {stage}");
            match stage {
                "memtable" => db.flush().expect("flush"),
                _ => db.compact().expect("compact"),
            }
        }
    }
}

fn all_keys(db: &Db, snapshot: &Snapshot) -> Vec<String> {
    let found = all(db, Some(snapshot)).into_iter();
    found.map(|(key, _)| String::from_utf8(key).expect("text")).collect()
}
