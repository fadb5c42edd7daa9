//! Tables that RocksDB 9.8.4 wrote (`golden/make.py`), of every version and kind that it writes.

mod common;

use std::cmp::Reverse;
use std::path::Path;

use base::{ErrorKind, Seq};
use common::{Key, MemTable, Model, all, entry, open};
use sst::{Checksum, Compression, EntryKind, Layout, RangeDelete, SEQ_MAX};

const COUNT: u64 = 150;

fn key(i: u64) -> Vec<u8> {
    format!("key{:05}", i * 3).into()
}

fn value(i: u64, life: u64) -> Vec<u8> {
    format!("value {i} of life {life} {}", "x".repeat(i as usize % 50)).into()
}

/// What `make.py` wrote. A compaction sets numbers to 0 where no reader needs them, so they are not compared.
fn wanted() -> Vec<(Vec<u8>, EntryKind, Vec<u8>)> {
    let mut model = Model::new();
    for i in 0..COUNT {
        model.insert((key(i), Reverse(Seq::new(1))), (EntryKind::Value, value(i, 1)));
        if i % 7 == 0 {
            model.insert((key(i), Reverse(Seq::new(2))), (EntryKind::Value, value(i, 2)));
        }
        if i % 11 == 0 {
            // No reader sees an overwrite between snapshot and deletion.
            model.remove(&(key(i), Reverse(Seq::new(2))));
            model.insert((key(i), Reverse(Seq::new(3))), (EntryKind::Delete, Vec::new()));
        }
    }
    model.into_iter().map(|((key, _), (kind, value))| (key, kind, value)).collect()
}

fn read(name: &str) -> Vec<u8> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    std::fs::read(dir.join(name).with_extension("sst")).unwrap()
}

fn table(name: &str) -> MemTable {
    open(read(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Whether this build is without Zstandard, which the table has. It must say so then.
fn is_refused(name: &str) -> bool {
    if Compression::AVAILABLE.contains(&Compression::Zstd) {
        return false;
    }
    let refused = open(read(name)).and_then(|table| all(&table)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotSupported, "{name}");
    assert!(refused.context().contains("feature `zstd`"), "{name}: {refused}");
    true
}

/// Everything that a table can be asked, compared with what lies in it.
fn examine(name: &str, table: &MemTable, wanted: &[(Vec<u8>, EntryKind, Vec<u8>)]) {
    let found = all(table).unwrap();
    let plain: Vec<_> =
        found.iter().map(|((key, _), (kind, value))| (key.clone(), *kind, value.clone())).collect();
    assert_eq!(plain, wanted, "{name}");

    let mut cursor = table.cursor();
    cursor.last().unwrap();
    for wanted in found.iter().rev() {
        assert_eq!(entry(&cursor), *wanted, "{name}");
        cursor.prev().unwrap();
    }
    assert!(!cursor.valid());

    let model = Model::from_iter(found.clone());
    for ((key, seq), (kind, value)) in &found {
        assert!(table.may_contain(key).unwrap(), "{name}");
        let hit = table.get(key, seq.0).unwrap().unwrap();
        assert_eq!((hit.seq, hit.kind, hit.value()), (seq.0, *kind, value.as_slice()), "{name}");
    }
    let mut passed = 0;
    for i in 0..COUNT * 3 {
        let probe: Key = (format!("key{i:05}").into(), Reverse(SEQ_MAX));
        let behind = model.range(probe.clone()..).next();
        cursor.seek(&probe.0, SEQ_MAX).unwrap();
        let there = cursor.valid().then(|| entry(&cursor));
        assert_eq!(there, behind.map(|(k, v)| (k.clone(), v.clone())), "{name}");
        passed += u64::from(i % 3 != 0 && table.may_contain(&probe.0).unwrap());
    }
    // The hash of old filters hardly sees the last byte of a key.
    let few = if table.layout().version() < 5 { 150 } else { 15 };
    assert!(passed <= few, "{name}: {passed} of 300 absent keys passed the filter");
    assert_eq!(table.verify().unwrap(), [], "{name}");
}

#[test]
fn every_version_and_kind() {
    let wanted = wanted();
    for (name, version, checksum) in [
        ("v2-crc32c-snappy", 2, Checksum::Crc32c),
        ("v3-xxhash-none", 3, Checksum::XxHash),
        ("v4-xxhash64-lz4", 4, Checksum::XxHash64),
        ("v4-xxh3-parts", 4, Checksum::Xxh3),
        ("v5-xxh3-zstd", 5, Checksum::Xxh3),
        ("v5-none-lz4hc", 5, Checksum::None),
        ("v5-crc32c-parts", 5, Checksum::Crc32c),
        ("v5-hash-index", 5, Checksum::Xxh3),
        ("v5-hash-search", 5, Checksum::Xxh3),
        ("v5-zstd-dictionary", 5, Checksum::Xxh3),
        ("v5-lz4-dictionary", 5, Checksum::Xxh3),
        ("v6-xxh3-lz4", 6, Checksum::Xxh3),
        ("v6-crc32c-parts", 6, Checksum::Crc32c),
    ] {
        if name.contains("zstd") && is_refused(name) {
            continue;
        }
        let table = table(name);
        assert_eq!(table.layout().version(), version, "{name}");
        assert_eq!(table.layout().checksum(), checksum, "{name}");
        examine(name, &table, &wanted);
    }
}

#[test]
fn external_tables() {
    let wanted: Vec<_> = (0..COUNT).map(|i| (key(i), EntryKind::Value, value(i, 1))).collect();
    for name in ["v5-external", "v6-external"] {
        let table = table(name);
        assert_eq!(table.layout().global_seq(), Some(Seq::new(0)), "{name}");
        assert_eq!(table.layout().properties().external_version, Some(2), "{name}");
        examine(name, &table, &wanted);
    }
}

/// The hash of filters is right for every length: a wrong one would deny keys.
#[test]
fn filters_of_all_lengths() {
    if is_refused("v5-lengths") {
        return;
    }
    let table = table("v5-lengths");
    let long = [319, 320, 321, 1023, 1024, 1025, 1087, 1088, 1089, 2047, 2048, 2049, 3000];
    let (mut keys, mut others) = (0, 0);
    for n in (0..260_usize).chain(long) {
        let mut key: Vec<u8> = (0..n).map(|j| ((n * 7 + j * 31) % 251) as u8).collect();
        assert!(table.may_contain(&key).unwrap(), "length {n}");
        assert!(table.get(&key, SEQ_MAX).unwrap().is_some(), "length {n}");
        if let Some(last) = key.last_mut() {
            *last ^= 0x55;
            others += u64::from(table.may_contain(&key).unwrap());
        }
        keys += 1;
    }
    assert!(others <= 12, "{others} of {keys} passed");
    assert_eq!(table.verify().unwrap(), []);
}

#[test]
fn range_deletions() {
    let mut wanted = wanted();
    // RocksDB drops what a deletion covers and no snapshot sees.
    let covered = [11, 14, 21, 22, 28].map(key);
    let newest = |at: usize| at == 0 || wanted[at - 1].0 != wanted[at].0;
    let dropped: Vec<usize> =
        (0..wanted.len()).filter(|at| covered.contains(&wanted[*at].0) && newest(*at)).collect();
    dropped.into_iter().rev().for_each(|at| _ = wanted.remove(at));
    examine("v5-range-deletes", &table("v5-range-deletes"), &wanted);
    let bytes = read("v5-range-deletes");
    let found = Layout::open(&bytes).unwrap().range_deletes(&bytes).unwrap();
    // RocksDB cuts what overlaps into pieces before it writes.
    let ends = |range: &RangeDelete| (range.begin.clone(), range.end.clone());
    let found: Vec<_> = found.iter().map(ends).collect();
    let pieces = [(key(10), key(15)), (key(15), key(20)), (key(15), key(20)), (key(20), key(30))];
    let visible = [pieces[0].clone(), pieces[1].clone(), pieces[3].clone()];
    assert!(found == pieces || found == visible, "{found:?}");
}

/// What RocksDB calls a blob index.
#[test]
fn references_to_value_files_of_rocksdb_are_read() {
    let entries = all(&table("v5-blobs")).unwrap();
    let references = entries.iter().filter(|(_, (kind, _))| *kind == EntryKind::ValueRef);
    let decoded: Vec<_> = references.map(|(_, (_, value))| sst::ValueRef::decode(value)).collect();
    assert!(!decoded.is_empty() && decoded.iter().all(Option::is_some), "{decoded:?}");
}

#[test]
fn what_is_not_read_is_refused_by_name() {
    let error = common::open(read("v5-bzip2")).and_then(|table| all(&table)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
    assert!(error.context().contains("bzip2"), "{error}");
}

/// The filter of a table of RocksDB and our own for the same keys are the same bytes.
#[test]
fn filters_are_the_same_bytes() {
    let theirs = read("v5-external");
    let mut writer = sst::Writer::new(Vec::new(), sst::WriterOptions::default());
    for i in 0..COUNT {
        writer.add(&key(i), Seq::ZERO, EntryKind::Value, &value(i, 1)).unwrap();
    }
    let (ours, summary) = writer.finish().unwrap();
    // Ours stands right behind the data.
    let from = summary.data_bytes as usize;
    let filter = &ours[from..from + summary.filter_bytes as usize];
    assert_eq!(filter.len(), 192 + 5);
    assert!(theirs.windows(filter.len()).any(|window| window == filter));
}

/// What we write stays as it is, byte for byte. Where a change is meant, remove the file and run this twice.
#[test]
fn our_bytes() {
    let mut writer = sst::Writer::new(
        Vec::new(),
        sst::WriterOptions {
            block_bytes: 128,
            hash_index: true,
            column_family: (3, "fruit".into()),
            file_number: 12,
            db_id: "store".into(),
            session_id: "0123456789ABCDEFGHIJ".into(),
            creation_time: 1_700_000_000,
            ..sst::WriterOptions::default()
        },
    );
    for i in 0..20 {
        let kind = if i % 6 == 5 { EntryKind::Delete } else { EntryKind::Value };
        let value = if i % 6 == 5 { Vec::new() } else { value(i, 1) };
        writer.add(&key(i), Seq::new(100 + i), kind, &value).unwrap();
        if i % 6 == 5 {
            writer.add(&key(i), Seq::new(50 + i), EntryKind::Merge, b"operand").unwrap();
        }
    }
    writer.add_range_delete(&key(3), &key(5), Seq::new(90)).unwrap();
    let (bytes, _) = writer.finish().unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/ours.sst");
    if !path.exists() {
        std::fs::write(&path, &bytes).unwrap();
        panic!("{} was missing and is written; look at it and commit it", path.display());
    }
    assert!(std::fs::read(&path).unwrap() == bytes, "what we write has changed");
    assert_eq!(open(bytes).unwrap().verify().unwrap(), []);
}
