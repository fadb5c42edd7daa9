//! Tables of this project read by RocksDB 11, and its tables, up to the newest version of the format, read here.

use std::path::Path;
use std::sync::Arc;

use rocksdb::statistics::Ticker;
use rocksdb::{BlockBasedOptions, DB, DBCompressionType, Options, SstFileWriter};
use sst::{EntryKind, FileReader, FileSink, Layout, Table, Uncached, Writer, WriterOptions};
use strandline::Seq;

fn key(number: u64) -> Vec<u8> {
    format!("key {number:010}").into_bytes()
}

/// Lies behind the key of the same number.
fn absent(number: u64) -> Vec<u8> {
    format!("key {number:010}-").into_bytes()
}

fn value(number: u64) -> Vec<u8> {
    format!("{number} ").repeat(number as usize % 9).into_bytes()
}

#[test]
fn rocksdb_finds_every_key_and_uses_the_filter() {
    const KEYS: u64 = 1_000_000;
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("ours.sst");
    let options = WriterOptions { external: true, ..WriterOptions::default() };
    let mut writer = Writer::new(FileSink::create(&path).expect("create"), options);
    for number in 0..KEYS {
        writer.add(&key(number), Seq::ZERO, EntryKind::Value, &value(number)).expect("add");
    }
    writer.finish().expect("finish").0.sync().expect("sync");

    let mut table = BlockBasedOptions::default();
    table.set_bloom_filter(10.0, false);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&table);
    options.enable_statistics();
    let db = DB::open(&options, folder.path().join("db")).expect("open");
    db.ingest_external_file(vec![path]).expect("ingest");
    for number in 0..KEYS {
        let found = db.get_pinned(key(number)).expect("get");
        assert_eq!(found.as_deref(), Some(&value(number)[..]), "{number}");
    }
    assert_eq!(options.get_ticker_count(Ticker::BloomFilterUseful), 0);
    for number in 0..KEYS {
        assert!(db.get_pinned(absent(number)).expect("get").is_none(), "{number}");
    }
    // The last lies behind the table, and one in a hundred passes.
    let useful = options.get_ticker_count(Ticker::BloomFilterUseful);
    assert!(useful > KEYS * 98 / 100, "{useful}");
}

#[test]
fn tables_of_rocksdb_are_read_in_every_version() {
    let folder = tempfile::tempdir().expect("folder");
    for version in 2..=7 {
        for compression in [DBCompressionType::None, DBCompressionType::Lz4] {
            let path = folder.path().join(format!("{version}-{compression:?}.sst"));
            theirs(&path, version, compression);
            let file = FileReader::open(&path).expect("open");
            let layout = Layout::open(&file).expect("layout");
            let table = Arc::new(Table::new(Arc::new(layout), Uncached(file)));
            assert_eq!(table.verify().expect("verify"), vec![], "version {version}");
            let mut cursor = table.cursor();
            cursor.first().expect("first");
            for number in 0..THEIR_KEYS {
                assert!(cursor.valid(), "version {version}");
                assert_eq!(cursor.key(), key(number), "version {version}");
                assert_eq!(cursor.value(), value(number), "version {version}");
                cursor.next().expect("next");
            }
            assert!(!cursor.valid());
            let mut passed = 0;
            for number in (0..THEIR_KEYS).step_by(7) {
                let hit = table.get(&key(number), sst::SEQ_MAX).expect("get").expect("found");
                assert_eq!(hit.value(), value(number), "version {version}");
                passed += u64::from(table.may_contain(&absent(number)).expect("filter"));
            }
            assert!(passed < THEIR_KEYS / 7 / 25, "version {version}: {passed} pass the filter");
        }
    }
}

const THEIR_KEYS: u64 = 30_000;

fn theirs(path: &Path, version: i32, compression: DBCompressionType) {
    let mut table = BlockBasedOptions::default();
    table.set_format_version(version);
    table.set_bloom_filter(10.0, false);
    let mut options = Options::default();
    options.set_block_based_table_factory(&table);
    options.set_compression_type(compression);
    let mut writer = SstFileWriter::create(&options);
    writer.open(path).expect("open");
    for number in 0..THEIR_KEYS {
        writer.put(key(number), value(number)).expect("put");
    }
    writer.finish().expect("finish");
}
