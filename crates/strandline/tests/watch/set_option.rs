//! Options that change while a store is open: each changes what it is about, what cannot change is refused, and writers and readers beside see
//! no difference but that.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::common::{TempDir, kind_of, noise, numbered as key, small_levels, wait_until};
use strandline::{
    CacheFigures, Compression, Db, ErrorKind, Inspector, OPTIONS, Options, Placement, Runtime,
    RuntimeOptions,
};

const MIB: u64 = 1 << 20;

fn options() -> Options {
    small_levels().background_threads(0).dram_budget(32 * MIB).block_cache(4 * MIB)
}

fn open(name: &str, options: Options) -> (TempDir, Db) {
    let dir = TempDir::new(name);
    let db = Db::open(dir.join("store"), options).expect("open");
    (dir, db)
}

fn cache(db: &Db) -> CacheFigures {
    db.properties().ssd.expect("levels").cache
}

fn fill(db: &Db, count: u64, round: u64) {
    (0..count).for_each(|i| db.put(key(i), noise(i, round)).expect("put"));
    db.compact().expect("compact");
}

fn read_all(db: &Db, count: u64, round: u64) {
    (0..count).for_each(|i| assert_eq!(db.get(key(i)).expect("get"), Some(noise(i, round))));
}

#[test]
fn every_option_either_changes_or_says_that_it_does_not() {
    let (_dir, db) = open("set-all", options());
    let values = [
        ("immutable_memtables_max", "3"),
        ("placement", "level"),
        ("pm_cache_policy", "pm-first"),
        ("compression", "snappy"),
        ("compression_level", "3"),
        ("checksum", "crc32c"),
        ("value_files_min", "1K"),
        ("value_space", "170"),
        ("block_bytes", "8K"),
        ("filter_bits", "12"),
        ("index", "two-level"),
        ("hash_index", "true"),
        ("block_cache", "2M"),
        ("cache_records", "false"),
        ("cache_outputs", "warm"),
        ("lock_timeout", "70ms"),
        ("lock_memory", "1M"),
        ("compaction_rate", "100M"),
    ];
    let mut expected = db.options();
    for (name, text) in values {
        assert_ne!(db.options(), {
            expected.set(name, text).expect("set");
            expected.clone()
        });
        db.set_option(name, text).expect(name);
        assert_eq!(db.options(), expected, "{name}");
    }
    assert_eq!(OPTIONS.iter().filter(|row| row.changes_while_open()).count(), values.len());
    for row in OPTIONS.iter().filter(|row| !row.changes_while_open()) {
        let text = if row.name == "subranges" { "4" } else { row.default };
        let error = db.set_option(row.name, text).expect_err(row.name);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{}", row.name);
        assert!(error.context().contains("from an open to the close"), "{error}");
    }
    for (name, text) in [
        ("no_such_option", "1"),
        ("block_cache", "much"),
        ("cache_outputs", "all"),
        ("value_space", "1"),
        ("filter_bits", "1000"),
        ("compression", "rot13"),
    ] {
        assert_eq!(kind_of(db.set_option(name, text)), ErrorKind::InvalidArgument, "{name}");
    }
    assert_eq!(db.options(), expected);
    assert_eq!(expected.placement, Placement::Level);
    fill(&db, 500, 1);
    read_all(&db, 500, 1);
}

#[test]
fn new_tables_follow_and_old_ones_stay() {
    let (_dir, db) = open("set-tables", options().compression(Compression::None));
    let compressible = |round: u64| format!("{round}").repeat(300);
    let put = |from: u64| {
        (from..from + 300).for_each(|i| db.put(key(i), compressible(i)).expect("put"));
        db.compact().expect("compact");
        db.properties().ssd.expect("levels").bytes
    };
    let plain = put(0);
    db.set_option("compression", "lz4").expect("set");
    let both = put(1000);
    assert!(both - plain < plain / 4, "{plain} bytes, then {both}");
    db.set_option("value_files_min", "500").expect("set");
    put(2000);
    assert!(!db.properties().keyspaces[0].value_files.is_empty());
    for i in (0..300).chain(1000..1300).chain(2000..2300) {
        assert_eq!(db.get(key(i)).expect("get"), Some(compressible(i).into_bytes()));
    }
}

#[test]
fn the_block_cache_grows_and_shrinks_at_once() {
    let (_dir, db) = open("set-cache", options());
    fill(&db, 20_000, 1);
    read_all(&db, 20_000, 1);
    let before = cache(&db);
    assert!(before.charged > 3 * MIB && before.budget == 4 * MIB, "{before:?}");
    db.set_option("block_cache", "512K").expect("set");
    let small = cache(&db);
    assert!(small.charged <= MIB / 2 && small.budget == MIB / 2, "{small:?}");
    read_all(&db, 20_000, 1);
    assert!(cache(&db).charged <= MIB / 2);
    let least = db.set_option("block_cache", "1").expect_err("tables hold more");
    assert!(least.context().contains("at least"), "{least}");
    assert_eq!(cache(&db).budget, MIB / 2);
    // Beyond half of dram_budget there is none, as at an open.
    db.set_option("block_cache", "1G").expect("set");
    assert_eq!(cache(&db).budget, 16 * MIB);
    read_all(&db, 20_000, 1);
    assert!(cache(&db).charged > 3 * MIB, "{:?}", cache(&db));
}

#[test]
fn records_that_were_cached_before_are_right_when_they_count_again() {
    let (_dir, db) = open("set-records", options());
    fill(&db, 300, 1);
    read_all(&db, 300, 1);
    read_all(&db, 300, 1);
    let hits = cache(&db).record_hits;
    assert!(hits >= 300);
    db.set_option("cache_records", "false").expect("set");
    assert_eq!(cache(&db).record_bytes, 0);
    fill(&db, 300, 2);
    read_all(&db, 300, 2);
    assert_eq!(cache(&db).record_hits, hits);
    db.set_option("cache_records", "true").expect("set");
    (0..3).for_each(|_| read_all(&db, 300, 2));
    assert!(cache(&db).record_hits > hits);
}

/// At the first rate it would take minutes.
#[test]
fn a_rate_holds_compactions_back_until_it_is_lifted() {
    let (_dir, db) = open("set-rate", options().compaction_rate(1 << 10));
    (0..3000).for_each(|i| db.put(key(i), noise(i, 1)).expect("put"));
    std::thread::scope(|scope| {
        let compact = scope.spawn(|| db.compact());
        let begun = || db.properties().ssd.expect("levels").bytes > 0 || compact.is_finished();
        wait_until("a compaction writes", begun);
        assert!(!compact.is_finished(), "at 1 KiB a second");
        db.set_option("compaction_rate", "0").expect("set");
        compact.join().expect("ends").expect("compact");
    });
    read_all(&db, 3000, 1);
}

#[test]
fn a_cache_that_stores_share_belongs_to_their_runtime() {
    let runtime = Runtime::new(RuntimeOptions::default().threads(1)).expect("runtime");
    let dir = TempDir::new("set-shared");
    let db = runtime.open(dir.join("store"), options()).expect("open");
    let error = db.set_option("block_cache", "1M").expect_err("shared");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.context().contains("Runtime"), "{error}");
    db.set_option("filter_bits", "5").expect("its own");
}

#[test]
fn options_change_beside_readers_and_writers_and_from_another_process() {
    let (dir, db) = open("set-beside", options().background_threads(2).inspect(true));
    fill(&db, 3000, 1);
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Relaxed) {
                read_all(&db, 3000, 1);
            }
        });
        scope.spawn(|| {
            let mut i = 10_000;
            while !ends.load(Relaxed) {
                db.put(key(i), noise(i, 1)).expect("put");
                i += 1;
            }
        });
        let inspector = Inspector::connect(dir.join("store")).expect("connect");
        for round in 0..60 {
            let (cache, bits) = (["1M", "2M", "8M"][round % 3], ["0", "8", "16"][round % 3]);
            inspector.set_option("block_cache", cache).expect("set");
            db.set_option("filter_bits", bits).expect("set");
            db.set_option("cache_records", ["true", "false"][round % 2]).expect("set");
            db.set_option("index", ["binary", "two-level"][round % 2]).expect("set");
            let policy = ["dram-first", "both-ways", "auto"][round % 3];
            inspector.set_option("pm_cache_policy", policy).expect("set");
            db.flush().expect("flush");
        }
        let refused = inspector.set_option("pm_size", "1G").expect_err("stays");
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        ends.store(true, Relaxed);
    });
    assert_eq!(db.options().filter_bits, 16);
    drop(db);
    let db = Db::open(dir.join("store"), options()).expect("open");
    assert_eq!(db.options().filter_bits, 10, "as it is opened");
    read_all(&db, 3000, 1);
}
