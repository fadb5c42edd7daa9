//! Keys of many kilobytes: what they take of the manifest.

use crate::common::{Place, noise};
use ssd::Memory;
use strandline::{Options, ReadOptions};

const MIB: u64 = 1 << 20;

fn options() -> Options {
    Options::default()
        .pm_size(8 * MIB)
        .zone_size(64 << 10)
        .memtable_bytes(512 << 10)
        .table_bytes(256 << 10)
        .block_cache(MIB)
        .background_threads(0)
        .recovery_threads(1)
}

/// Keys that differ in their first bytes, and keys that differ in their last.
fn scattered_key(i: u64, len: usize) -> Vec<u8> {
    let mut key = (i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_be_bytes().to_vec();
    while key.len() < len {
        key.extend_from_slice(&noise(i, key.len() as u64));
    }
    key.truncate(len);
    key
}

fn padded_key(i: u64, len: usize) -> Vec<u8> {
    format!("{i:0len$}").into_bytes()
}

fn fill_and_read_back(len: usize, bytes: u64, key: fn(u64, usize) -> Vec<u8>) {
    let place = Place::new(options().pm_size, Memory::default());
    let count = bytes / len as u64;
    let mut db = place.open(options());
    for i in 0..count {
        db.put(key(i, len), i.to_le_bytes()).unwrap_or_else(|error| {
            panic!("key {i} of {count}, {len} bytes each: {error}");
        });
    }
    for reopened in [false, true] {
        if reopened {
            db.close().expect("close");
            db = place.open(options());
        }
        let mut iter = db.default_keyspace().cursor(&ReadOptions::default()).expect("iter");
        iter.seek_to_first().expect("first");
        let mut entries = 0;
        while iter.valid() {
            entries += 1;
            iter.next().expect("next");
        }
        assert_eq!(entries, count);
        for i in 0..count {
            let value = db.get(key(i, len)).expect("get");
            assert_eq!(value.as_deref(), Some(&i.to_le_bytes()[..]), "key {i}");
        }
    }
    db.close().expect("close");
}

/// The manifest had the lowest and the highest key of every table, whole. With keys of 16,000 bytes some tables filled it,
/// and every write was refused as if there were no space.
#[test]
fn long_keys_do_not_fill_the_manifest() {
    for (len, bytes) in [(4000, 16 * MIB), (16_000, 16 * MIB)] {
        fill_and_read_back(len, bytes, scattered_key);
        fill_and_read_back(len, bytes, padded_key);
    }
}

/// The manifest's two areas were as long as the pool was made with. When they were full, no compaction was installed any
/// more, and not even deleting everything helped.
#[test]
fn tables_beyond_the_first_areas_of_the_manifest_have_room_in_the_pool() {
    let options = options().table_bytes(1 << 10).zone_size(16 << 10);
    let place = Place::new(options.pm_size, Memory::default());
    let mut db = place.open(options.clone());
    for i in 0..2200_u64 {
        db.put(i.to_be_bytes(), noise(i, 0)).unwrap_or_else(|error| panic!("key {i}: {error}"));
    }
    db.compact().expect("compact");
    db.close().expect("close");
    db = place.open(options.clone());
    let levels = &db.properties().keyspaces[0].levels;
    let tables: usize = levels.iter().map(|level| level.tables.len()).sum();
    assert!(tables > 1400, "{tables} tables do not fill the first areas");
    for i in 0..2200_u64 {
        assert_eq!(db.get(i.to_be_bytes()).expect("get"), Some(noise(i, 0)));
    }
    db.delete_range(b"", [0xff; 9]).expect("delete");
    db.compact().expect("compact");
    db.close().expect("close");
    db = place.open(options);
    for i in 0..2000_u64 {
        db.put(i.to_be_bytes(), noise(i, 1)).expect("put");
    }
    assert_eq!(db.get(7_u64.to_be_bytes()).expect("get"), Some(noise(7, 1)));
}
