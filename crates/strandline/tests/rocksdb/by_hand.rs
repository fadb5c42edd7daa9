//! Databases made by hand, one table at a time: what no tool here can be told to make.

use std::fs;
use std::path::Path;

use sst::manifest::{LevelFile, NewFile, VersionEdit, write_log};
use sst::{EntryKind, Writer, WriterOptions};
use strandline::{ErrorKind, RocksdbImportOptions, Seq};

use crate::common::TempDir;
use crate::sample::{everything, imported};

/// A database with one column family.
#[derive(Default)]
pub struct Made {
    tables: Vec<Vec<u8>>,
    files: Vec<NewFile>,
}

/// A table, in the making.
pub struct MadeTable {
    writer: Writer<Vec<u8>>,
    ends: Vec<Vec<u8>>,
}

/// An internal key.
fn internal(key: &str, seq: u64, kind: u8) -> Vec<u8> {
    [key.as_bytes(), &(seq << 8 | u64::from(kind)).to_le_bytes()].concat()
}

impl MadeTable {
    fn new(options: WriterOptions) -> MadeTable {
        MadeTable { writer: Writer::new(Vec::new(), options), ends: Vec::new() }
    }

    fn add(mut self, key: &str, seq: u64, kind: EntryKind, value: &[u8]) -> MadeTable {
        self.writer.add(key.as_bytes(), Seq::new(seq), kind, value).expect("add");
        self.ends.push(internal(key, seq, kind as u8));
        self
    }

    fn delete_range(mut self, begin: &str, end: &str, seq: u64) -> MadeTable {
        let (from, to) = (begin.as_bytes(), end.as_bytes());
        self.writer.add_range_delete(from, to, Seq::new(seq)).expect("add");
        self
    }
}

impl Made {
    /// Puts a table into a level; its bounds are its first and last entry.
    fn with(mut self, level: u32, seqs: (u64, u64), table: MadeTable) -> Made {
        let bytes = table.writer.finish().expect("finish").0;
        let at = LevelFile { level, number: 10 + self.files.len() as u64 };
        self.files.push(NewFile {
            at,
            path: 0,
            len: bytes.len() as u64,
            smallest: table.ends.first().expect("an entry").clone(),
            largest: table.ends.last().expect("an entry").clone(),
            min_seq: seqs.0,
            max_seq: seqs.1,
            oldest_blob_file: None,
        });
        self.tables.push(bytes);
        self
    }

    /// Writes it to the new directory `dir`, with an OPTIONS file.
    pub fn write(&self, dir: &Path, options: &str) {
        fs::create_dir(dir).expect("made");
        for (file, bytes) in self.files.iter().zip(&self.tables) {
            fs::write(dir.join(format!("{:06}.sst", file.at.number)), bytes).expect("written");
        }
        let edit = VersionEdit {
            log_number: Some(0),
            next_file: Some(100),
            last_seq: Some(50),
            new_files: self.files.clone(),
            ..VersionEdit::default()
        };
        let record = edit.encode();
        fs::write(dir.join("MANIFEST-000004"), write_log([&record[..]])).expect("written");
        fs::write(dir.join("CURRENT"), "MANIFEST-000004\n").expect("written");
        fs::write(dir.join("OPTIONS-000005"), options).expect("written");
    }
}

fn table() -> MadeTable {
    MadeTable::new(WriterOptions::default())
}

fn number(value: u64) -> Vec<u8> {
    value.to_le_bytes().to_vec()
}

/// Operands above a value, above nothing, and above a deletion.
pub fn operands() -> Made {
    let deep = table()
        .add("a", 5, EntryKind::Value, &number(1))
        .add("b", 0, EntryKind::Merge, &number(10))
        .add("c", 6, EntryKind::Value, &number(100));
    let upper = table()
        .add("a", 9, EntryKind::Merge, &number(3))
        .add("a", 7, EntryKind::Merge, &number(2))
        .add("b", 8, EntryKind::Merge, &number(20))
        .add("c", 11, EntryKind::Merge, &number(7))
        .add("c", 10, EntryKind::SingleDelete, b"");
    Made::default().with(6, (0, 6), deep).with(0, (7, 11), upper)
}

const ADDS: &str = "[CFOptions \"default\"]\n  merge_operator=uint64add\n";

#[test]
fn operands_come_as_they_are_and_go_again() {
    let dir = TempDir::new("rocksdb-by-hand-operands");
    operands().write(&dir.join("rdb"), ADDS);
    let nothing = RocksdbImportOptions::new();
    let back = imported(&dir.join("rdb"), dir.join("back"), &nothing);
    let shown: Vec<(Vec<u8>, Vec<u8>)> = everything(&back)["default"].clone().into_iter().collect();
    let sums = [("a", 6), ("b", 30), ("c", 7)];
    assert_eq!(shown, sums.map(|(key, sum)| (key.into(), number(sum))));
    back.merge("a", number(1)).expect("merge");
    let export = back.export_rocksdb(dir.join("again")).expect("export");
    assert_eq!(export.families[0].rewritten, None, "RocksDB has the operator");
    let last = imported(&dir.join("again"), dir.join("last"), &nothing);
    assert_eq!(last.get("a").expect("get"), Some(number(7)));
    // `min` RocksDB lacks.
    let hints = RocksdbImportOptions::new().merge_operator("default", "min");
    let least = imported(&dir.join("rdb"), dir.join("least"), &hints);
    assert_eq!(least.get("a").expect("get"), Some(number(1)));
    let export = least.export_rocksdb(dir.join("combined")).expect("export");
    assert!(export.families[0].rewritten.is_some());
    let plain = imported(&dir.join("combined"), dir.join("plain"), &nothing);
    assert_eq!(everything(&plain), everything(&least));
    assert_eq!(plain.default_keyspace().options().merge_operator, None);
}

/// The bottom has forgotten its numbers, and a range deletion that it has dropped stands whole in the next table.
#[test]
fn a_range_deletion_ends_with_its_table() {
    let dir = TempDir::new("rocksdb-by-hand-ranges");
    let bottom =
        table().add("a", 0, EntryKind::Value, b"new").add("e", 0, EntryKind::Value, b"old");
    let upper = table()
        .add("d", 12, EntryKind::Value, b"beside")
        .add("f", 3, EntryKind::Value, b"older")
        .delete_range("a", "z", 9);
    Made::default().with(6, (0, 0), bottom).with(5, (3, 12), upper).write(&dir.join("rdb"), "");
    let back = imported(&dir.join("rdb"), dir.join("back"), &RocksdbImportOptions::new());
    let shown: Vec<(Vec<u8>, Vec<u8>)> = everything(&back)["default"].clone().into_iter().collect();
    assert_eq!(
        shown,
        [("a", "new"), ("d", "beside")].map(|(key, value)| (key.into(), value.into()))
    );
}

#[test]
fn an_ingested_table_has_the_number_that_the_manifest_says() {
    let dir = TempDir::new("rocksdb-by-hand-ingested");
    let external = MadeTable::new(WriterOptions { external: true, ..WriterOptions::default() })
        .add("a", 0, EntryKind::Value, b"ingested")
        .add("b", 0, EntryKind::Value, b"ingested")
        .add("c", 0, EntryKind::Delete, b"");
    let upper = table()
        .add("a", 30, EntryKind::Value, b"newer")
        .add("b", 10, EntryKind::Value, b"older")
        .add("c", 10, EntryKind::Value, b"older");
    let made = Made::default().with(0, (20, 20), external).with(0, (10, 30), upper);
    made.write(&dir.join("rdb"), "");
    let back = imported(&dir.join("rdb"), dir.join("back"), &RocksdbImportOptions::new());
    let shown: Vec<(Vec<u8>, Vec<u8>)> = everything(&back)["default"].clone().into_iter().collect();
    assert_eq!(
        shown,
        [("a", "newer"), ("b", "ingested")].map(|(key, value)| (key.into(), value.into()))
    );
}

/// A table that holds other keys than its place in the levels says.
#[test]
fn tables_out_of_order_are_damage() {
    let dir = TempDir::new("rocksdb-by-hand-order");
    let mut made = Made::default()
        .with(
            6,
            (1, 1),
            table().add("a", 1, EntryKind::Value, b"").add("p", 1, EntryKind::Value, b""),
        )
        .with(
            6,
            (1, 1),
            table().add("c", 1, EntryKind::Value, b"").add("d", 1, EntryKind::Value, b""),
        );
    made.files[0].largest = internal("b", 1, 1);
    made.write(&dir.join("rdb"), "");
    let import = strandline::import_rocksdb(
        dir.join("rdb"),
        dir.join("to"),
        &crate::sample::options(),
        &RocksdbImportOptions::new(),
    );
    let error = import.expect_err("out of order");
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(!dir.join("to").exists());
}
