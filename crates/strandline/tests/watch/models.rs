//! Models of slower devices: what a store with them does, tells and refuses.

use strandline::{Basis, Db, ErrorKind, Options, PmSource, SsdSource};

fn options() -> Options {
    Options::default().pm_size(16 << 20).background_threads(0)
}

fn filled(db: &Db) {
    for number in 0..2000 {
        db.put(format!("key{number:05}"), [7; 100]).expect("put");
    }
}

fn read(db: &Db) {
    for number in 0..2000 {
        assert!(db.get(format!("key{number:05}")).expect("get").is_some());
    }
}

#[test]
fn a_pool_with_a_model_counts_and_says_so() {
    let mut options = options().pm(PmSource::Heap);
    options.set("pm_model", "zero,cache=32768").expect("a model");
    let db = Db::open("unused", options).expect("open");
    filled(&db);
    let before = db.properties().pm_model.expect("a model");
    read(&db);
    let told = db.properties();
    let after = told.pm_model.expect("a model");
    assert_eq!(told.basis, Basis::Emulated("pm: zero,cache=32768".into()));
    assert!(after.written_bytes >= 2000 * 128 && after.written_media_bytes >= 2000 * 128);
    assert!(after.lines_read - before.lines_read >= 2000, "each record is read");
    assert!(after.read_bytes - before.read_bytes >= 2000 * 100);
    assert_eq!(after.waited_ns, 0);
}

#[test]
fn a_slow_pool_is_waited_for() {
    let mut options = options().pm(PmSource::Heap);
    options.set("pm_model", "zero,cache=32768,read=20000ns,near=20000ns").expect("a model");
    let db = Db::open("unused", options).expect("open");
    filled(&db);
    let waited = |db: &Db| db.properties().pm_model.expect("a model").waited_ns;
    let before = waited(&db);
    read(&db);
    assert!(waited(&db) > before);
}

#[test]
fn files_are_counted_with_a_model_and_without() {
    for model in ["none", "nvme-tlc,read=1us,write=1us"] {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("directory");
        let mut options = options().pm(PmSource::Dram);
        options.set("ssd_model", model).expect("a model");
        let db = Db::open(dir.path(), options).expect("open");
        filled(&db);
        db.compact().expect("compact");
        read(&db);
        let told = db.properties();
        let (device, log) = (told.ssd_device, told.wal.expect("a log"));
        assert!(device.written_bytes >= log.written_bytes, "log and tables: {device:?}");
        assert!(device.syncs >= log.syncs && device.read_bytes > 0, "{device:?}");
        assert!(device.read_media_bytes >= device.read_bytes);
        assert_eq!(device.model.is_some(), model != "none");
        assert_eq!(told.basis.to_string().contains("ssd: nvme-tlc"), model != "none");
        db.close().expect("close");
        let read_only = Db::open_read_only(dir.path(), Options::default()).expect("open");
        read(&read_only);
        assert_eq!(read_only.properties().ssd_device.written_bytes, 0);
    }
}

#[test]
fn a_model_of_persistent_memory_needs_some() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("directory");
    let mut with_model = options().pm(PmSource::Dram);
    with_model.set("pm_model", "optane-100x6-delta").expect("a model");
    let error = Db::open(dir.path(), with_model.clone()).err().expect("records are in DRAM");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("leave pm_model out"), "{error}");
    assert!(!dir.path().join("STORE").exists());
    // The same of a store that is there already.
    Db::open(dir.path(), options().pm(PmSource::Dram)).expect("open").close().expect("close");
    let error =
        Db::open(dir.path(), with_model.pm(PmSource::Auto)).err().expect("a store with a log");
    assert!(error.to_string().contains("leave pm_model out"), "{error}");
}

#[test]
fn models_that_are_not_there_are_refused() {
    let mut options = options().ssd(SsdSource::None);
    for (name, text) in [
        ("pm_model", "optane"),
        ("pm_model", "optane-100x6"),
        ("pm_model", "optane-100x6-delta,read=fast"),
        ("ssd_model", "disk"),
        ("ssd_model", "nvme-tlc,read=85"),
    ] {
        let error = options.set(name, text).expect_err(text);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(text), "{error}");
    }
    options.set("pm_model", "none").expect("none");
    assert_eq!(options.pm_model, None);
}
