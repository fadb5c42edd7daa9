//! Entries for tests, and a plain model of a table.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::sync::Arc;

use base::Seq;
use sst::{
    Checksum, Compression, Cursor, EntryKind, IndexKind, Layout, Summary, Table, Uncached, Writer,
    WriterOptions,
};

/// User key, then newest first.
pub type Key = (Vec<u8>, std::cmp::Reverse<Seq>);
/// All entries of a table in their order.
pub type Model = BTreeMap<Key, (EntryKind, Vec<u8>)>;
/// One of them.
pub type Entry = (Key, (EntryKind, Vec<u8>));
/// A table in memory.
pub type MemTable = Arc<Table<Uncached<Vec<u8>>>>;

pub fn write(model: &Model, options: WriterOptions) -> (Vec<u8>, Summary) {
    let mut writer = Writer::new(Vec::new(), options);
    for ((key, seq), (kind, value)) in model {
        writer.add(key, seq.0, *kind, value).unwrap();
    }
    writer.finish().unwrap()
}

pub fn open(bytes: Vec<u8>) -> base::Result<MemTable> {
    let layout = Arc::new(Layout::open(&bytes)?);
    Ok(Arc::new(Table::new(layout, Uncached(bytes))))
}

pub fn entry(cursor: &Cursor<Uncached<Vec<u8>>>) -> Entry {
    let key = (cursor.key().to_vec(), std::cmp::Reverse(cursor.seq()));
    (key, (cursor.kind(), cursor.value().to_vec()))
}

/// Every entry, front to back.
pub fn all(table: &MemTable) -> base::Result<Vec<Entry>> {
    let mut cursor = table.cursor();
    let mut found = Vec::new();
    cursor.first()?;
    while cursor.valid() {
        found.push(entry(&cursor));
        cursor.next()?;
    }
    Ok(found)
}

/// Options of every kind, the same for the same numbers.
pub fn options(pick: u64) -> WriterOptions {
    let of = |shift: u32, n: u64| (pick >> shift) % n;
    WriterOptions {
        checksum: [Checksum::Xxh3, Checksum::Crc32c][of(0, 2) as usize],
        compression: Compression::AVAILABLE[of(1, 4) as usize % Compression::AVAILABLE.len()],
        compression_level: [0, 9][of(3, 2) as usize],
        block_bytes: [1, 64, 256, 4096][of(4, 4) as usize],
        restart_interval: [1, 2, 16, 1000][of(6, 4) as usize],
        index_restart_interval: [1, 3][of(8, 2) as usize],
        hash_index: of(9, 2) == 1,
        index: [IndexKind::Binary, IndexKind::TwoLevel][of(10, 2) as usize],
        metadata_block_bytes: [1, 100, 4096][of(11, 3) as usize],
        filter_bits_per_key: [0.0, 10.0, 3.0][of(14, 3) as usize],
        ..WriterOptions::default()
    }
}
