//! Exports that come back.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use strandline::{Batch, Db, ErrorKind, Rewritten, RocksdbImportOptions, SsdSource};

use crate::common::{TempDir, kind_of, numbered};
use crate::sample::{assert_same, everything, hooks, imported, options, store};

#[test]
fn what_is_exported_comes_back_from_import() {
    for seed in 1..4 {
        let dir = TempDir::new("rocksdb-round-trip");
        let db = store(&dir, seed);
        let expected = everything(&db);
        let figures = db.properties();
        let levels = &figures.keyspaces[0].levels;
        assert!(levels.iter().filter(|level| !level.tables.is_empty()).count() > 1, "levels");
        let export = db.export_rocksdb(dir.join("rdb")).expect("export");
        assert!(export.families[0].value_files > 0 && export.families[0].tables > 2);
        let rewritten = |name: &str| {
            let family = export.families.iter().find(|family| family.name == name).expect(name);
            family.rewritten.clone()
        };
        assert_eq!(rewritten("expiring"), Some(Rewritten::TimeToLive));
        for kept in ["default", "plain", "sums", "lists", "tops"] {
            assert_eq!(rewritten(kept), None, "{kept}");
        }
        let nothing = RocksdbImportOptions::new();
        let back = imported(&dir.join("rdb"), dir.join("back"), &nothing);
        assert_same(&everything(&back), &expected, "imported");
        // What came can be written to, compacted, and exported again.
        back.put(numbered(0), "new").expect("put");
        back.keyspace("sums").expect("sums").merge("more", 1_u64.to_le_bytes()).expect("merge");
        back.compact_range(back.default_keyspace(), None, None).expect("compact");
        let expected = everything(&back);
        back.export_rocksdb(dir.join("again")).expect("export");
        back.close().expect("close");
        let last = imported(&dir.join("again"), dir.join("last"), &nothing);
        assert_same(&everything(&last), &expected, "imported again");
        // The first store goes on where it was.
        db.put("z", "z").expect("put");
        assert!(db.check().expect("check").damage.is_empty());
    }
}

#[test]
fn operands_that_rocksdb_lacks_are_combined_and_others_stay() {
    let dir = TempDir::new("rocksdb-operands");
    let db = store(&dir, 9);
    // The value lies deep, operands above other keys: no merge of memory meets both.
    for name in ["lows", "long", "sums"] {
        let space = db.keyspace(name).expect(name);
        let number = 7_u64.to_le_bytes();
        space.put("key000500", number).expect("put");
        db.compact_range(&space, None, None).expect("compact");
        for i in 0..2_000 {
            space
                .put(numbered(i % 400), number.repeat(1 + 12 * (name != "sums") as usize))
                .expect("put");
        }
        space.merge("key000500", [1, 0, 0, 0, 0, 0, 0, 0]).expect("merge");
    }
    let expected = everything(&db);
    db.export_rocksdb(dir.join("rdb")).expect("export");
    let back = imported(&dir.join("rdb"), dir.join("back"), &RocksdbImportOptions::new());
    assert_same(&everything(&back), &expected, "imported");
    let names = |name: &str| back.keyspace(name).expect(name).options().merge_operator;
    assert_eq!(names("sums").as_deref(), Some("add"));
    assert_eq!(names("lists").as_deref(), Some("append:/"));
    assert_eq!(names("lows"), None);
}

#[test]
fn an_export_is_whole_or_not_there() {
    let dir = TempDir::new("rocksdb-whole");
    let db = store(&dir, 5);
    db.export_rocksdb(dir.join("rdb")).expect("export");
    assert_eq!(kind_of(db.export_rocksdb(dir.join("rdb"))), ErrorKind::Exists);
    assert_eq!(kind_of(db.export_rocksdb(dir.join("no/rdb"))), ErrorKind::NotFound);
    // What a call that was killed left there goes; what it did not leave stays.
    fs::create_dir(dir.join("next.staging")).expect("made");
    for name in ["000007.sst", "000008.blob", "CURRENT", "MANIFEST-000009", "OPTIONS-000010"] {
        fs::write(dir.join("next.staging").join(name), "half").expect("written");
    }
    db.export_rocksdb(dir.join("next")).expect("export");
    assert!(!dir.join("next.staging").exists());
    fs::create_dir(dir.join("other.staging")).expect("made");
    fs::write(dir.join("other.staging/letter.txt"), "dear").expect("written");
    assert_eq!(kind_of(db.export_rocksdb(dir.join("other"))), ErrorKind::Exists);
    assert!(dir.join("other.staging/letter.txt").exists() && !dir.join("other").exists());
}

#[test]
fn a_store_in_persistent_memory_alone_and_one_without_data_are_exported() {
    let dir = TempDir::new("rocksdb-memory");
    let db = Db::open(dir.join("db"), options().ssd(SsdSource::None)).expect("open");
    db.export_rocksdb(dir.join("empty")).expect("export");
    for i in 0..500 {
        db.put(numbered(i), numbered(i)).expect("put");
    }
    db.export_rocksdb(dir.join("rdb")).expect("export");
    let empty = imported(&dir.join("empty"), dir.join("a"), &RocksdbImportOptions::new());
    assert!(empty.iter().next().is_none());
    let back = imported(&dir.join("rdb"), dir.join("b"), &RocksdbImportOptions::new());
    assert_same(&everything(&back), &everything(&db), "imported");
}

#[test]
fn a_reader_exports_what_it_sees_and_a_writer_goes_on_meanwhile() {
    let dir = TempDir::new("rocksdb-reader");
    let db = store(&dir, 6);
    let expected = everything(&db);
    db.close().expect("close");
    let reader = Db::open_read_only_with(dir.join("db"), options(), hooks()).expect("open");
    reader.export_rocksdb(dir.join("rdb")).expect("export");
    drop(reader);
    let db = Db::open_with(dir.join("db"), options(), hooks()).expect("open");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut round = 0_u64;
            while !done.load(Relaxed) {
                // Two keys of one batch: an export has both of a round or none.
                let mut batch = Batch::new();
                batch.put(db.default_keyspace(), "pair-a", round.to_le_bytes());
                batch.put(db.default_keyspace(), "pair-b", round.to_le_bytes());
                db.write(&batch).expect("write");
                round += 1;
            }
        });
        for name in ["during", "again"] {
            db.export_rocksdb(dir.join(name)).expect("export");
        }
        done.store(true, Relaxed);
        writer.join().expect("writer");
    });
    let nothing = RocksdbImportOptions::new();
    assert_same(
        &everything(&imported(&dir.join("rdb"), dir.join("a"), &nothing)),
        &expected,
        "reader",
    );
    for name in ["during", "again"] {
        let back = imported(&dir.join(name), dir.join(&format!("{name}-back")), &nothing);
        assert_eq!(back.get("pair-a").expect("get"), back.get("pair-b").expect("get"));
    }
}
