//! What a store takes of the memory of its machine where the options do not say.

use std::path::Path;

use strandline::{Db, Options, PmSource, WalSync, steps};

const MIB: u64 = 1 << 20;

/// A machine of 8 GiB whose container has 2 GiB.
fn container() -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder");
    let files = [
        ("proc/meminfo", "MemTotal:        8388608 kB\n"),
        ("proc/self/cgroup", "0::/box/app\n"),
        ("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
        ("sys/fs/cgroup/box/memory.max", "2147483648\n"),
        ("sys/fs/cgroup/box/app/memory.max", "max\n"),
    ];
    for (name, text) in files {
        let path = root.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        std::fs::write(path, text).expect("written");
    }
    root
}

fn open(path: &Path, options: Options) -> Db {
    steps::open_under(container().path(), path, options.background_threads(0)).expect("open")
}

/// Bytes of the budget, in MiB.
fn budget(db: &Db) -> u64 {
    db.properties().dram_budget / MIB
}

#[test]
fn a_store_in_a_container_follows_its_limit() {
    let dir = tempfile::tempdir().expect("a folder");
    for pm in [PmSource::Auto, PmSource::Heap, PmSource::Dram] {
        let path = dir.path().join(format!("{pm:?}"));
        let options = Options::default().pm(pm.clone()).pm_size(16 * MIB);
        let db = open(&path, options);
        let records = if db.properties().wal.is_some() { 16 } else { 0 };
        assert_eq!(budget(&db), 256 - records, "{pm:?}");
        let memory = db.properties().memory;
        assert_eq!(memory.bytes, Some(2048 * MIB));
        let file = Path::new("/sys/fs/cgroup/box/memory.max");
        assert_eq!(memory.limited_by.as_deref(), Some(file));
    }
}

/// The records of a new store took 1 GiB of DRAM, whatever the machine had.
#[test]
fn records_in_dram_take_a_quarter_of_what_a_store_may_have() {
    let dir = tempfile::tempdir().expect("a folder");
    for (pm, size) in [(PmSource::Dram, 0), (PmSource::Dram, 32 * MIB), (PmSource::Heap, 0)] {
        let db = open(
            &dir.path().join(format!("{pm:?}{size}")),
            Options::default().pm(pm.clone()).pm_size(size),
        );
        let expected = match (&pm, size) {
            (PmSource::Heap, _) => 1024,
            (_, 0) => 64,
            (_, size) => size / MIB,
        };
        let length = db.region().len() / MIB;
        assert_eq!(length, expected, "{pm:?}");
        let quarter = if pm == PmSource::Heap { 0 } else { expected };
        assert_eq!(budget(&db), 256 - quarter, "{pm:?}");
        // Nothing of it is taken before there is something in it.
        let properties = db.properties();
        assert!(properties.anonymous_bytes.is_none_or(|bytes| bytes < 512 * MIB), "{properties:?}");
    }
}

/// What a batch and an operand may have goes by the length of a zone: with records in a quarter of the memory it is that of
/// a pool of 1 GiB.
#[test]
fn batches_may_be_as_large_as_in_a_large_pool() {
    let dir = tempfile::tempdir().expect("a folder");
    let options = Options::default().pm(PmSource::Dram).background_threads(0);
    let db = Db::open(dir.path(), options.clone().pm_size(256 * MIB)).expect("open");
    assert_eq!(db.properties().zone_bytes, 4 * MIB);
    let mut batch = strandline::Batch::new();
    for i in 0..100_u32 {
        batch.put(db.default_keyspace(), i.to_be_bytes(), vec![1; 10_000]);
    }
    db.write(&batch).expect("a batch of a million bytes");
    db.put("a".repeat(64 << 10), "value").expect("the longest key");
    let small = Db::open(dir.path().join("small"), options.pm_size(16 * MIB)).expect("open");
    assert_eq!(small.properties().zone_bytes, 256 << 10);
}

#[test]
fn what_the_options_say_stands() {
    let options = Options::default().pm(PmSource::Heap).pm_size(16 * MIB);
    assert_eq!(budget(&open("unused".as_ref(), options.dram_budget(1024 * MIB))), 1024);
}

/// Memory that records took goes back to the system once they are in tables, and comes again with the next ones.
#[test]
fn memory_of_records_is_given_back() {
    let dir = tempfile::tempdir().expect("a folder");
    let options = Options::default().pm(PmSource::Dram).wal_sync(WalSync::Never);
    let options = options.pm_size(64 * MIB).background_threads(0);
    let mut db = Db::open(dir.path(), options.clone()).expect("open");
    let value = vec![7; 10_000];
    let resident = |db: &Db| db.pages().records.expect("told").resident;
    for round in 0..2_u32 {
        for key in 0..4_000_u32 {
            db.put(format!("{key}"), &value).expect("put");
        }
        let full = resident(&db);
        assert!(full > 32 * MIB, "round {round}: {full}");
        db.compact().expect("compact");
        let began = std::time::Instant::now();
        while resident(&db) > 8 * MIB {
            assert!(began.elapsed().as_secs() < 100, "{} of {full}", resident(&db));
            db.work(usize::MAX).expect("work");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        assert_eq!(db.get("3999").expect("get").as_deref(), Some(&value[..]));
        // What went back was of no use to the log either.
        drop(db);
        db = Db::open(dir.path(), options.clone()).expect("open");
        assert_eq!(db.get("0").expect("get").as_deref(), Some(&value[..]));
    }
}
