//! Records in DRAM with their log in persistent memory, for which tmpfs stands.

use std::path::{Path, PathBuf};

use strandline::{
    Db, Durability, ErrorKind, Hooks, Options, PmSource, WalDir, WalSync, WriteDurability,
    WriteOptions,
};

/// A directory in memory, and one for the store. None where there is no tmpfs.
fn places() -> Option<(tempfile::TempDir, tempfile::TempDir)> {
    let memory = Path::new("/dev/shm");
    let log = memory.is_dir().then(|| tempfile::tempdir_in(memory).expect("a folder"))?;
    Some((log, tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")))
}

fn options(log: &Path) -> Options {
    Options::default()
        .pm(PmSource::Dram)
        .pm_size(4 << 20)
        .wal_dir(WalDir::Path(log.to_owned()))
        .background_threads(0)
}

fn key(number: u64) -> String {
    format!("key{number:06}")
}

fn put(db: &Db, numbers: std::ops::Range<u64>, mark: u8) {
    for number in numbers {
        db.put(key(number), [mark; 500]).expect("put");
    }
}

fn assert_holds(db: &Db, numbers: std::ops::Range<u64>, mark: u8) {
    for number in numbers {
        let value = db.get(key(number)).expect("get");
        assert_eq!(value.as_deref(), Some(&[mark; 500][..]), "{number}");
    }
}

/// Those that are there; a store that goes removes the folder, too.
fn segments(log: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(log).into_iter().flatten();
    entries
        .map(|entry| entry.expect("entry").path())
        .filter(|path| path.extension().is_some_and(|end| end == "wal"))
        .collect()
}

#[test]
fn a_write_is_in_the_log_when_it_returns_and_comes_back() {
    let Some((log, dir)) = places() else { return };
    // A log on a device would be synced by no one.
    let options = options(log.path()).wal_sync(WalSync::Never);
    let db = Db::open(dir.path(), options.clone()).expect("open");
    put(&db, 0..2000, 1);
    let told = db.properties();
    assert_eq!(told.durability, Durability::ProcessCrash);
    assert!(told.durability_note.contains("streamed to memory"), "{}", told.durability_note);
    assert!(told.basis.to_string().contains("pm: DRAM"), "{}", told.basis);
    let figures = told.wal.expect("a log");
    assert!(figures.streamed_bytes >= 2000 * 500 && figures.segments > 1, "{figures:?}");
    assert!(!segments(log.path()).is_empty() && !dir.path().join("wal").exists());
    // The log as a process that is killed here would leave it, and the file that names it.
    let copy = tempfile::tempdir_in("/dev/shm").expect("a folder");
    for file in segments(log.path()).into_iter().chain([log.path().join("CHAIN")]) {
        std::fs::copy(&file, copy.path().join(file.file_name().expect("a name"))).expect("copy");
    }
    let other = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    std::fs::create_dir(other.path().join("sst")).expect("a folder");
    for entry in std::fs::read_dir(dir.path().join("sst")).expect("list") {
        let path = entry.expect("entry").path();
        let to = other.path().join("sst").join(path.file_name().expect("a name"));
        std::fs::copy(path, to).expect("copy");
    }
    let named = format!("strandline store 1\nwal {}\nssd sst\n", copy.path().display());
    std::fs::write(other.path().join("STORE"), named).expect("write");
    let again = Db::open(other.path(), Options::default().background_threads(0)).expect("open");
    assert_holds(&again, 0..2000, 1);
    drop(again);
    db.close().expect("close");
    // Where the log is the store knows itself.
    let db = Db::open(dir.path(), Options::default().background_threads(0)).expect("open");
    assert_holds(&db, 0..2000, 1);
    put(&db, 1000..3000, 2);
    db.close().expect("close");
    let db = Db::open_read_only(dir.path(), Options::default()).expect("open");
    assert!(db.basis().to_string().contains("pm: DRAM"), "{}", db.basis());
    assert_holds(&db, 0..1000, 1);
    assert_holds(&db, 1000..3000, 2);
}

#[test]
fn segments_are_used_again() {
    let Some((log, dir)) = places() else { return };
    let db = Db::open(dir.path(), options(log.path())).expect("open");
    for round in 0..40 {
        put(&db, 0..1000, round);
    }
    let figures = db.properties().wal.expect("a log");
    assert!(figures.recycled > 0, "{figures:?}");
    let synced = WriteOptions::default().durability(WriteDurability::Synced);
    db.default_keyspace().put_with("last", "synced", &synced).expect("put");
    db.close().expect("close");
    let db = Db::open(dir.path(), Options::default().background_threads(0)).expect("open");
    assert_holds(&db, 0..1000, 39);
    assert!(db.get("last").expect("get").is_some());
}

#[test]
fn a_log_can_stand_for_slower_memory() {
    let Some((log, dir)) = places() else { return };
    let mut options = options(log.path());
    options.set("pm_model", "zero,write=50000ns,write_bandwidth=2000000000").expect("a model");
    let db = Db::open(dir.path(), options).expect("open");
    put(&db, 0..200, 1);
    let told = db.properties();
    let model = told.pm_model.expect("a model");
    assert!(told.basis.to_string().contains("pm: zero,write=50000ns"), "{}", told.basis);
    assert!(model.written_bytes >= 200 * 500 && model.waited_ns > 0, "{model:?}");
}

#[test]
fn a_log_is_one_stores_and_stays_where_it_is() {
    let Some((log, dir)) = places() else { return };
    let db = Db::open(dir.path(), options(log.path())).expect("open");
    put(&db, 0..100, 1);
    let error = Db::open(dir.path(), options(log.path())).err().expect("it is open");
    assert_eq!(error.kind(), ErrorKind::Busy);
    db.close().expect("close");
    let elsewhere = tempfile::tempdir().expect("a folder");
    let error = Db::open(dir.path(), options(elsewhere.path())).err().expect("another place");
    assert!(error.to_string().contains("leave wal_dir out"), "{error}");
    // Where it is gone, readers are told what writers are.
    let away = log.path().with_extension("away");
    std::fs::rename(log.path(), &away).expect("renamed");
    for error in [
        Db::open(dir.path(), Options::default()),
        Db::open_read_only(dir.path(), Options::default()),
    ] {
        let error = error.err().expect("no log");
        assert!(error.to_string().contains("there is no log in"), "{error}");
    }
    std::fs::rename(&away, log.path()).expect("renamed back");
    let second = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let error = Db::open(second.path(), options(log.path())).err().expect("another's log");
    assert!(error.to_string().contains("name another wal_dir"), "{error}");
    assert!(!second.path().join("STORE").exists());
    for pm in [PmSource::Heap, PmSource::Path(second.path().join("pool"))] {
        let error = Db::open(second.path(), options(elsewhere.path()).pm(pm)).err();
        assert!(error.expect("no log").to_string().contains("leave wal_dir out"));
    }
    // To a pool, and back to a log in the same place.
    let pool = Options::default().pm_size(4 << 20).pm(PmSource::Path(dir.path().join("pool")));
    Db::convert(dir.path(), &pool, Hooks::default()).expect("convert");
    assert!(segments(log.path()).is_empty());
    Db::convert(dir.path(), &options(log.path()), Hooks::default()).expect("convert");
    let db = Db::open(dir.path(), Options::default().background_threads(0)).expect("open");
    assert_holds(&db, 0..100, 1);
    assert!(db.properties().wal.expect("a log").streamed_bytes > 0);
    db.close().expect("close");
    Db::destroy(dir.path(), &Options::default()).expect("destroy");
    assert!(segments(log.path()).is_empty());
}
