//! `pm=auto`: what a new store is made of, by what its directory can do, and what becomes of what is there.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::common::{TempDir, heap, kind_of};
use pmem::Storage;
use ssd::{Disk, Memory};
use strandline::steps::{self, Given};
use strandline::{ChosenBy, Db, Durability, ErrorKind, Hooks, Options, PmSource};

const MIB: u64 = 1 << 20;

fn options() -> Options {
    Options::default().background_threads(0).recovery_threads(1)
}

fn small() -> Options {
    options().pm_size(4 * MIB)
}

/// A directory that is not in memory; it may be on persistent memory.
fn on_disk() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn store_file(dir: &Path) -> String {
    fs::read_to_string(dir.join("STORE")).expect("a store")
}

/// The default was a mapped pool everywhere, which on an ordinary file system survives no power failure.
#[test]
fn a_new_store_is_what_its_directory_can_be() {
    for in_memory in [true, false] {
        let (memory, disk) = (TempDir::new("auto"), on_disk());
        let dir = if in_memory { memory.join("db") } else { disk.path().join("db") };
        let db = Db::open(&dir, small()).expect("made");
        db.put("key", "value").expect("put");
        let (properties, choice) = (db.properties(), db.pm_choice().clone());
        assert_eq!((&properties.pm_choice, choice.by), (&choice, ChosenBy::Directory));
        assert_eq!(properties.durability_note, db.durability_note());
        let has_log = properties.wal.is_some();
        assert_eq!(store_file(&dir).contains("\nwal wal\n"), has_log, "{choice}");
        assert_eq!(store_file(&dir).contains("\npool pool\n"), !has_log, "{choice}");
        match db.durability() {
            Durability::ProcessCrash => {
                assert!(!has_log && choice.to_string().contains("emulates"), "{choice}");
                assert!(db.durability_note().contains("ends with the machine's power"));
            }
            Durability::Synced => {
                assert!(has_log && choice.to_string().contains("DRAM"), "{choice}")
            }
            safe => assert!(!has_log && safe > Durability::Synced, "{choice}"),
        }
        drop(db);
        // From then on the store says what it is.
        let db = Db::open(&dir, options().create_if_missing(false)).expect("open");
        assert_eq!(db.pm_choice().by, ChosenBy::Store);
        assert_eq!(db.properties().wal.is_some(), has_log);
        assert_eq!(db.get("key").expect("get").as_deref(), Some(&b"value"[..]));
    }
}

/// A store that was made with a pool on an ordinary file system is no other one after an update.
#[test]
fn an_old_store_keeps_its_pool() {
    let disk = on_disk();
    let dir = disk.path().join("db");
    let named = small().pm(PmSource::Path(dir.join("pool")));
    let db = Db::open(&dir, named).expect("made");
    assert_eq!(db.pm_choice().by, ChosenBy::Option);
    db.put("key", "value").expect("put");
    drop(db);
    assert!(store_file(&dir).contains("\npool pool\n"), "it moves with its directory");
    let moved = disk.path().join("moved");
    fs::rename(&dir, &moved).expect("moved");
    let db = Db::open(&moved, small()).expect("open");
    assert_eq!(db.pm_choice().by, ChosenBy::Store);
    assert!(db.properties().wal.is_none());
    assert_eq!(db.get("key").expect("get").as_deref(), Some(&b"value"[..]));
}

/// Where the directory would have had the other kind, a second memory was made beside the first, and nothing found that again.
#[test]
fn what_is_left_of_a_store_is_finished_as_what_it_is() {
    let (memory, disk) = (TempDir::new("auto-left"), on_disk());
    for parent in [memory.path(), disk.path()] {
        let pool = parent.join("pooled");
        for (dir, pm) in [
            (parent.join("logged"), PmSource::Dram),
            (pool.clone(), PmSource::Path(pool.join("pool"))),
        ] {
            let db = Db::open(&dir, small().pm(pm.clone())).expect("made");
            db.put("key", "value").expect("put");
            drop(db);
            fs::remove_file(dir.join("STORE")).expect("removed");
            let db = Db::open(&dir, small()).expect("finished");
            assert_eq!(db.pm_choice().by, ChosenBy::Remains);
            assert_eq!(db.properties().wal.is_some(), pm == PmSource::Dram);
            assert_eq!(db.get("key").expect("get").as_deref(), Some(&b"value"[..]), "{pm:?}");
        }
        // A creation that was killed early, too.
        let begun = parent.join("begun");
        fs::create_dir_all(begun.join("wal")).expect("folders");
        fs::write(begun.join("wal/LOCK"), "").expect("written");
        assert!(Db::open(&begun, small()).expect("finished").properties().wal.is_some());
        let begun = parent.join("begun-pool");
        fs::create_dir_all(&begun).expect("folder");
        fs::write(begun.join("pool"), [0; 4096]).expect("written");
        assert!(Db::open(&begun, small()).expect("finished").properties().wal.is_none());
    }
}

/// A log that does not fit its device would end in a store that takes no writes.
#[test]
fn a_log_without_room_is_refused() {
    let open = |capacity: u64| {
        let memory = heap(4 * MIB);
        let given = Given {
            fs: Arc::new(Memory::with_capacity(Disk::default(), capacity)),
            format: pool::Format::for_len(memory.len()),
            memory,
            id: 7,
            storage: Storage::Device,
        };
        steps::open_at(&given, "/store".as_ref(), options(), Hooks::default())
    };
    let error = open(8 * MIB).map(drop).expect_err("too little");
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    assert!(error.context().contains("pm_size"), "{error}");
    assert!(open(10 * MIB).expect("made").properties().wal.is_some());
}

/// A directory without its own opinion: tables or values in persistent memory are asked for, and have to be somewhere.
#[test]
fn tables_and_values_in_persistent_memory_get_a_pool() {
    for options in [small().pm_tables(40), small().pm_values(40), small().pm_cache(40)] {
        let disk = on_disk();
        let db = Db::open(disk.path().join("db"), options.clone()).expect("made");
        assert!(db.properties().wal.is_none(), "{}", db.pm_choice());
        let refused = Db::open(disk.path().join("log"), options.pm(PmSource::Dram));
        assert_eq!(kind_of(refused.map(drop)), ErrorKind::InvalidArgument);
    }
}

#[test]
fn a_size_that_holds_nothing_is_refused_before_anything_is_made() {
    let disk = on_disk();
    for pm in [PmSource::Auto, PmSource::Dram, PmSource::Heap] {
        let dir = disk.path().join("db");
        let refused = Db::open(&dir, options().pm_size(1000).pm(pm));
        assert_eq!(kind_of(refused.map(drop)), ErrorKind::InvalidArgument);
        assert!(!dir.exists());
    }
}
