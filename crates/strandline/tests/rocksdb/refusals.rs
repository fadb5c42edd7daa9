//! What is refused, by name, and leaves nothing behind.

use std::fs;
use std::path::Path;

use strandline::{Db, ErrorKind, Options, Rewritten, RocksdbImportOptions, import_rocksdb};

use crate::by_hand::operands;
use crate::common::{TempDir, kind_of, numbered};
use crate::sample::{hooks, options};

/// An import that must fail, and leave nothing.
#[track_caller]
fn refused(dir: &TempDir, from: &Path, part: &str) -> ErrorKind {
    let import = || import_rocksdb(from, dir.join("to"), &options(), &RocksdbImportOptions::new());
    let error = import().expect_err(part);
    assert!(error.to_string().contains(part), "{error} lacks {part}");
    assert!(!dir.join("to").exists() && !dir.join("to.staging").exists(), "{error}");
    error.kind()
}

/// The file of that beginning in a database.
fn file(dir: &Path, head: &str) -> std::path::PathBuf {
    let names = fs::read_dir(dir).expect("directory").map(|entry| entry.expect("entry").path());
    let is_it = |path: &std::path::PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(head))
    };
    names.into_iter().find(is_it).expect(head)
}

/// A small database.
fn database(dir: &TempDir) -> std::path::PathBuf {
    let db = Db::open(dir.join("db"), options()).expect("open");
    for i in 0..200 {
        db.put(numbered(i), format!("{i} ").repeat(i as usize)).expect("put");
    }
    db.export_rocksdb(dir.join("rdb")).expect("export");
    dir.join("rdb")
}

#[test]
fn a_log_that_may_have_writes_is_refused_and_one_that_is_done_with_is_not() {
    let dir = TempDir::new("rocksdb-log");
    let rdb = database(&dir);
    fs::write(rdb.join("000099.log"), "writes").expect("written");
    assert_eq!(refused(&dir, &rdb, "000099.log may have writes"), ErrorKind::Busy);
    fs::write(rdb.join("000099.log"), "").expect("written");
    fs::create_dir(dir.join("logs")).expect("made");
    fs::write(dir.join("logs/000100.log"), "writes").expect("written");
    let text = format!("[DBOptions]\n  wal_dir={}\n", dir.join("logs").display());
    fs::write(rdb.join("OPTIONS-000500"), text).expect("written");
    assert_eq!(refused(&dir, &rdb, "000100.log may have writes"), ErrorKind::Busy);
    fs::remove_file(rdb.join("OPTIONS-000500")).expect("removed");
    import_rocksdb(&rdb, dir.join("to"), &options(), &RocksdbImportOptions::new()).expect("import");
}

#[test]
fn what_is_no_database_or_not_whole_is_refused() {
    let dir = TempDir::new("rocksdb-damage");
    assert_eq!(refused(&dir, &dir.join("nowhere"), "no database of RocksDB"), ErrorKind::NotFound);
    let rdb = database(&dir);
    let to_there = import_rocksdb(&rdb, &rdb, &options(), &RocksdbImportOptions::new());
    assert_eq!(kind_of(to_there), ErrorKind::Exists);
    for (head, cut) in [("CURRENT", 3), ("MANIFEST", 20), ("0", 40)] {
        let path = file(&rdb, head);
        let whole = fs::read(&path).expect("read");
        fs::write(&path, &whole[..whole.len() - cut]).expect("written");
        assert_eq!(refused(&dir, &rdb, &path.display().to_string()), ErrorKind::Corruption);
        fs::write(&path, &whole).expect("written");
    }
    // A table, then a value file, that are gone or have another byte.
    for ending in ["sst", "blob"] {
        let mut paths: Vec<_> = fs::read_dir(&rdb)
            .expect("directory")
            .map(|entry| entry.expect("entry").path())
            .filter(|path| path.extension().is_some_and(|found| found == ending))
            .collect();
        paths.sort();
        let path = &paths[0];
        // The file in the store is another name of the same one: write anew, so that it stays.
        let whole = fs::read(path).expect("read");
        fs::remove_file(path).expect("removed");
        assert_eq!(refused(&dir, &rdb, ending), ErrorKind::NotFound);
        let mut bad = whole.clone();
        bad[100] ^= 1;
        fs::write(path, bad).expect("written");
        assert_eq!(refused(&dir, &rdb, ending), ErrorKind::Corruption);
        fs::write(path, whole).expect("written");
    }
    import_rocksdb(&rdb, dir.join("to"), &options(), &RocksdbImportOptions::new()).expect("import");
}

#[test]
fn operands_without_an_operator_are_refused_both_ways() {
    let dir = TempDir::new("rocksdb-operators");
    let rdb = dir.join("rdb");
    operands().write(&rdb, "");
    assert_eq!(refused(&dir, &rdb, "--merge-operator default=OPERATOR"), ErrorKind::NotSupported);
    let theirs = "[CFOptions \"default\"]\n  merge_operator=TheirOperator\n";
    fs::write(rdb.join("OPTIONS-000005"), theirs).expect("written");
    assert_eq!(refused(&dir, &rdb, "TheirOperator"), ErrorKind::NotSupported);
    let hints = RocksdbImportOptions::new().merge_operator("default", "longest");
    import_rocksdb(&rdb, dir.join("to"), &options(), &hints).expect("import");
    // An open that does not know the application's operator cannot combine its operands.
    let stranger = Db::open(dir.join("to"), options()).expect("open");
    let refused = stranger.export_rocksdb(dir.join("other")).expect_err("no operator");
    assert_eq!(refused.kind(), ErrorKind::NotSupported);
    assert!(refused.to_string().contains("the merge operator longest"), "{refused}");
    assert!(!dir.join("other").exists() && !dir.join("other.staging").exists());
    stranger.close().expect("close");
    let knows = Db::open_with(dir.join("to"), options(), hooks()).expect("open");
    let export = knows.export_rocksdb(dir.join("other")).expect("export");
    let operator = Some("longest".to_owned());
    assert_eq!(export.families[0].rewritten, Some(Rewritten::Operands { operator }));
}

#[test]
fn options_that_make_no_store_are_refused_first() {
    let dir = TempDir::new("rocksdb-options");
    let bad = Options::default().table_bytes(1);
    let import = import_rocksdb(dir.join("x"), dir.join("to"), &bad, &RocksdbImportOptions::new());
    assert_eq!(kind_of(import), ErrorKind::InvalidArgument);
}
