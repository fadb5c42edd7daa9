//! A store as a database of RocksDB 11, and back, at a size that has levels: `cargo test --release -p strandline-bench-compare
//! --test rocksdb`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rocksdb::{
    BottommostLevelCompaction, ColumnFamilyDescriptor, CompactOptions, DB, DBCompressionType,
    Options as RocksOptions, ReadOptions, WriteBatch,
};
use sst::{EntryKind, FileSink, Writer, WriterOptions};
use strandline::{
    Batch, Db, ErrorKind, IngestOptions, KeyspaceOptions, Options, PmSource, RocksdbImportOptions,
    Seq, SsdSource, import_rocksdb,
};

/// So many that a million are left.
const KEYS: u64 = 1_100_000;
/// Prime to it: its multiples are all keys in another order.
const STRIDE: u64 = 611_953;
/// Values from this size on lie in value files.
const APART: u64 = 500;

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

fn key(number: u64) -> Vec<u8> {
    format!("key {number:010}").into_bytes()
}

/// Every eighth is long.
fn value(number: u64, round: u64) -> Vec<u8> {
    let len = if number % 8 == 3 { 800 } else { 60 };
    format!("{round} {number} ").into_bytes().into_iter().cycle().take(len).collect()
}

/// A number that looks random.
fn mixed(number: u64) -> u64 {
    let mut word = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word ^= word >> 29;
    word.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20
}

/// A store of a million keys: value files with much garbage, range deletions, ingested tables, operands.
fn fill(folder: &Path) -> (Db, Contents, Contents) {
    let sst = folder.join("sst");
    std::fs::create_dir(&sst).expect("made");
    let options = Options::default()
        .pm(PmSource::Heap)
        .pm_size(64 << 20)
        .ssd(SsdSource::Path(sst))
        .table_bytes(4 << 20)
        .value_files_min(APART);
    let db = Db::open("unused-for-heap", options).expect("open");
    let sums = db.create_keyspace_with("sums", KeyspaceOptions::new().merge_operator("add"));
    let (sums, mut model, mut totals) = (sums.expect("create"), Contents::new(), Contents::new());
    let mut batch = Batch::new();
    for round in 0..2_u64 {
        let count = if round == 0 { KEYS } else { KEYS / 4 };
        let number = |at: u64| if round == 0 { at * STRIDE % KEYS } else { mixed(at) % KEYS };
        for number in (0..count).map(number) {
            batch.put(db.default_keyspace(), key(number), value(number, round));
            model.insert(key(number), value(number, round));
            if batch.len() >= 200 {
                db.write(&batch).expect("write");
                batch.clear();
            }
        }
        db.write(&batch).expect("write");
        batch.clear();
        for part in 0..10 {
            let from = mixed(part * 7 + round) % (KEYS - 5_000);
            ingest(&db, folder, &mut model, from, 100 * round + part);
        }
        for at in 0..400 {
            let from = mixed(at * 31 + round) % (KEYS - 200);
            let (begin, end) = (key(from), key(from + 10 + at % 150));
            db.delete_range(&begin, &end).expect("delete range");
            let gone: Vec<Vec<u8>> = model.range(begin..end).map(|(key, _)| key.clone()).collect();
            gone.iter().for_each(|key| drop(model.remove(key)));
        }
        for at in 0..200_000 {
            let number = mixed(at) % 30_000;
            sums.merge(key(number), 1_u64.to_le_bytes()).expect("merge");
            let total = totals.entry(key(number)).or_insert_with(|| vec![0; 8]);
            let sum = u64::from_le_bytes(total[..].try_into().expect("a number")) + 1;
            *total = sum.to_le_bytes().to_vec();
        }
    }
    (db, model, totals)
}

fn ingest(db: &Db, folder: &Path, model: &mut Contents, from: u64, tag: u64) {
    let path = folder.join(format!("{tag}.sst"));
    let options = WriterOptions { external: true, ..WriterOptions::default() };
    let mut writer = Writer::new(FileSink::create(&path).expect("create"), options);
    for number in (from..from + 2_000).step_by(2) {
        let value = format!("ingested {tag}").into_bytes();
        writer.add(&key(number), Seq::ZERO, EntryKind::Value, &value).expect("add");
        model.insert(key(number), value);
    }
    let (begin, end) = (key(from + 3_000), key(from + 3_100));
    writer.add_range_delete(&begin, &end, Seq::ZERO).expect("add");
    let gone: Vec<Vec<u8>> = model.range(begin..end).map(|(key, _)| key.clone()).collect();
    gone.iter().for_each(|key| drop(model.remove(key)));
    writer.finish().expect("finish").0.sync().expect("sync");
    let options = IngestOptions::default().move_files(true);
    db.ingest(db.default_keyspace(), &[path], options).expect("ingest");
}

/// Sums numbers, under the name of RocksDB's own.
fn with_sums(mut options: RocksOptions) -> RocksOptions {
    options.set_merge_operator_associative("UInt64AddOperator", |_, existing, operands| {
        let all = existing.into_iter().chain(operands.iter());
        let numbers = all.map(|bytes| u64::from_le_bytes(bytes.try_into().expect("a number")));
        Some(numbers.sum::<u64>().to_le_bytes().to_vec())
    });
    options
}

fn options() -> RocksOptions {
    let mut options = RocksOptions::default();
    options.set_paranoid_checks(true);
    options.set_enable_blob_files(true);
    options.set_min_blob_size(APART);
    options.set_enable_blob_gc(true);
    options.set_blob_gc_age_cutoff(1.0);
    options.set_blob_gc_force_threshold(0.0);
    options.set_compression_type(DBCompressionType::Lz4);
    with_sums(options)
}

fn open(path: &Path) -> DB {
    let names = DB::list_cf(&options(), path).expect("column families");
    let families = names.into_iter().map(|name| ColumnFamilyDescriptor::new(name, options()));
    DB::open_cf_descriptors(&options(), path, families).expect("open")
}

/// Everything in a column family, in order and key by key.
#[track_caller]
fn assert_shows(db: &DB, family: &str, expected: &Contents, what: &str) {
    let handle = db.cf_handle(family).expect(family);
    let mut read = ReadOptions::default();
    read.set_verify_checksums(true);
    let mut entries = db.iterator_cf_opt(handle, read, rocksdb::IteratorMode::Start);
    for (key, value) in expected {
        let (found, stored) = entries.next().expect("an entry").expect("read");
        assert!(*found == key[..] && *stored == value[..], "{what}: {}", key.escape_ascii());
    }
    assert!(entries.next().is_none(), "{what}: {family} has more");
    for (key, value) in expected.iter().step_by(37) {
        let found = db.get_pinned_cf(handle, key).expect("get");
        assert!(found.as_deref() == Some(&value[..]), "{what}: {}", key.escape_ascii());
    }
}

#[track_caller]
fn assert_same(db: &Db, family: &str, expected: &Contents) {
    let keyspace = db.keyspace(family).expect(family);
    let mut entries = keyspace.iter();
    for (key, value) in expected {
        let (found, stored) = entries.next().expect("an entry").expect("read");
        assert!(*found == key[..] && *stored == value[..], "{family}: {}", key.escape_ascii());
    }
    assert!(entries.next().is_none(), "{family} has more");
}

/// Imports and opens.
fn imported(from: &Path, to: PathBuf) -> Db {
    let options = Options::default().pm_size(64 << 20);
    import_rocksdb(from, &to, &options, &RocksdbImportOptions::new()).expect("import");
    let db = Db::open(to, options).expect("open");
    assert!(db.check().expect("check").damage.is_empty());
    db
}

#[test]
fn rocksdb_reads_an_export_of_a_million_keys_and_compacts_it() {
    let folder = tempfile::tempdir().expect("folder");
    let (store, model, totals) = fill(folder.path());
    let path = folder.path().join("export");
    let export = store.export_rocksdb(&path).expect("export");
    println!("{export:?}: {} and {} keys", model.len(), totals.len());
    assert!(model.len() >= 1_000_000, "{} keys", model.len());
    assert!(export.families[0].value_files > 10 && export.families[0].tables > 10);
    assert!(export.families.iter().all(|family| family.rewritten.is_none()));
    let db = open(&path);
    assert_shows(&db, "default", &model, "opened");
    assert_shows(&db, "sums", &totals, "opened");
    let mut force = CompactOptions::default();
    force.set_bottommost_level_compaction(BottommostLevelCompaction::ForceOptimized);
    for family in ["default", "sums"] {
        let handle = db.cf_handle(family).expect(family);
        db.compact_range_cf_opt(handle, None::<&[u8]>, None::<&[u8]>, &force);
    }
    drop(db);
    let db = open(&path);
    assert_shows(&db, "default", &model, "compacted");
    assert_shows(&db, "sums", &totals, "compacted");
    drop(db);
    // The store has lost nothing by it, and what RocksDB made of it comes back.
    assert_same(&store, "default", &model);
    assert!(store.check().expect("check").damage.is_empty());
    let back = imported(&path, folder.path().join("back"));
    assert_same(&back, "default", &model);
    assert_same(&back, "sums", &totals);
}

#[test]
fn a_database_of_rocksdb_comes_in_key_by_key() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("theirs");
    let (mut create, names) = (options(), ["default", "one", "two words"]);
    create.create_if_missing(true);
    create.create_missing_column_families(true);
    create.set_write_buffer_size(1 << 20);
    create.set_target_file_size_base(1 << 20);
    create.set_max_bytes_for_level_base(4 << 20);
    let families = names.map(|name| ColumnFamilyDescriptor::new(name, create.clone()));
    let db = DB::open_cf_descriptors(&create, &path, families).expect("open");
    for at in 0..300_000_u64 {
        let handle = db.cf_handle(names[(mixed(at) % 3) as usize]).expect("a family");
        let number = mixed(at + 17) % 100_000;
        // Numbers of their own for operands.
        let counter = format!("sum {number:06}");
        match mixed(at + 5) % 40 {
            0..28 => db.put_cf(handle, key(number), value(number, at)).expect("put"),
            28..33 => db.delete_cf(handle, key(number)).expect("delete"),
            33..39 => db.merge_cf(handle, counter, 1_u64.to_le_bytes()).expect("merge"),
            _ => {
                let mut batch = WriteBatch::default();
                batch.delete_range_cf(handle, key(number), key(number + at % 50));
                db.write(batch).expect("delete range");
            }
        }
    }
    let shown = names.map(|name| {
        let handle = db.cf_handle(name).expect(name);
        let entries = db.iterator_cf(handle, rocksdb::IteratorMode::Start);
        let all = entries.map(|entry| entry.expect("read"));
        (name, all.map(|(key, value)| (key.to_vec(), value.to_vec())).collect::<Contents>())
    });
    drop(db);
    // What is in no table yet is in the log.
    let refused = import_rocksdb(
        &path,
        folder.path().join("back"),
        &Options::default(),
        &RocksdbImportOptions::new(),
    );
    assert_eq!(refused.expect_err("a log").kind(), ErrorKind::Busy);
    let db = open(&path);
    names.iter().for_each(|name| db.flush_cf(db.cf_handle(name).expect(name)).expect("flush"));
    drop(db);
    let back = imported(&path, folder.path().join("back"));
    for (name, expected) in &shown {
        assert!(expected.len() > 10_000, "{name}: {}", expected.len());
        assert_same(&back, name, expected);
    }
}
