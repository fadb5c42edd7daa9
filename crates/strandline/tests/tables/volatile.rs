//! Memtables and block cache in volatile persistent memory: that every answer is right, what lies there and what it costs, that nothing
//! is left of it, and which directories are refused.

use std::path::Path;

use crate::common::{Contents, TempDir, dump, kind_of, numbered as key};
use base::ErrorKind;
use strandline::{
    Db, MemorySource, Options, PmSource, Properties, ReadOptions, Runtime, RuntimeOptions, WalSync,
};
use testkit::Rng;

const KIB: u64 = 1 << 10;
const CACHE: u64 = 256 * KIB;

fn options() -> Options {
    Options::default()
        .pm(PmSource::Dram)
        .pm_size(8 << 20)
        .wal_sync(WalSync::Never)
        .memtable_bytes(128 * KIB)
        .table_bytes(64 * KIB)
        .value_files_min(900)
        .block_cache(CACHE)
        .background_threads(0)
        .recovery_threads(1)
}

fn in_dir(dir: &TempDir) -> MemorySource {
    MemorySource::Dir(dir.path().to_owned())
}

/// With both places in `dir`.
fn placed(dir: &TempDir) -> Options {
    options().memtable_memory(in_dir(dir)).block_cache_memory(in_dir(dir))
}

fn value(i: u64, round: u64) -> Vec<u8> {
    let mut rng = Rng::new(round << 32 | i);
    let len = [60, 300, 700, 1100][(i + round) as usize % 4];
    std::iter::repeat_with(|| rng.next() as u8).take(len).collect()
}

fn work(db: &Db) {
    while !db.work(1 << 20).expect("work").is_idle() {}
}

fn is_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).expect("directory").next().is_none()
}

/// Mappings of files below `dir` that this process has.
fn mappings(dir: &Path) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    maps.lines().filter(|line| line.contains(&dir.display().to_string())).count()
}

#[track_caller]
fn assert_places(told: &Properties, dir: &Path) {
    let (memtables, cache) = (&told.places.memtables, &told.places.block_cache);
    assert_eq!(memtables.dir.as_deref(), Some(dir));
    assert_eq!(cache.dir.as_deref(), Some(dir));
    assert!(memtables.volatile > 0 && memtables.volatile <= told.pm_capacity, "{memtables:?}");
    let figures = told.ssd.as_ref().expect("tables").cache;
    assert!(figures.charged <= figures.budget && figures.budget == CACHE, "{figures:?}");
    assert!(cache.volatile > 0 && cache.volatile <= CACHE, "{cache:?}");
    assert!(cache.dram > 0 && cache.dram <= CACHE, "indexes and filters: {cache:?}");
}

#[test]
fn answers_are_right_through_fills_compactions_reads_and_opens() {
    let (store, memory) = (TempDir::new("store"), TempDir::new("memory"));
    let mut model = Contents::new();
    let mut rng = Rng::new(1);
    for round in 0..4_u64 {
        let db = Db::open(store.path(), placed(&memory)).expect("open");
        assert_eq!(dump(db.default_keyspace(), &ReadOptions::default()), model, "round {round}");
        for i in 0..3000 {
            let i = (i * 7 + round * 500) % 5000;
            if i % 11 == round {
                db.delete(key(i)).expect("delete");
                model.remove(&key(i));
            } else {
                db.put(key(i), value(i, round)).expect("put");
                model.insert(key(i), value(i, round));
            }
            if i % 64 == 0 {
                work(&db);
            }
            let read = key(rng.below(5000));
            assert_eq!(db.get(&read).expect("get"), model.get(&read).cloned());
        }
        if round == 2 {
            db.compact().expect("compact");
        }
        for _ in 0..3000 {
            let read = key(rng.below(5000));
            assert_eq!(db.get(&read).expect("get"), model.get(&read).cloned());
        }
        assert_eq!(dump(db.default_keyspace(), &ReadOptions::default()), model, "round {round}");
        db.put(b"last", b"one").expect("put");
        model.insert(b"last".to_vec(), b"one".to_vec());
        let told = db.properties();
        assert_places(&told, memory.path());
        let figures = told.ssd.expect("tables").cache;
        assert!(figures.hits > 100 && figures.evictions > 100, "{figures:?}");
        assert!(is_empty(memory.path()), "the files have no names");
        assert_eq!(mappings(memory.path()), 2);
        let report = db.check().expect("check");
        assert!(report.damage.is_empty(), "{:?}", report.damage);
        db.close().expect("close");
        drop(db);
        assert_eq!(mappings(memory.path()), 0, "they went with the store");
    }
    // The same store without them, and for reading with them.
    let db = Db::open(store.path(), options()).expect("open");
    assert_eq!(dump(db.default_keyspace(), &ReadOptions::default()), model);
    let places = db.properties().places;
    assert_eq!((places.memtables.dir, places.memtables.volatile), (None, 0));
    drop(db);
    let reader = Db::open_read_only(store.path(), placed(&memory)).expect("open");
    assert_eq!(dump(reader.default_keyspace(), &ReadOptions::default()), model);
}

/// Blocks that iterators hold stay where they are, however full that is; the others are read as if nothing were cached.
#[test]
fn a_full_cache_gives_right_answers_and_gets_its_room_back() {
    let (store, memory) = (TempDir::new("store"), TempDir::new("memory"));
    let db = Db::open(store.path(), placed(&memory).block_cache(32 * KIB)).expect("open");
    for i in 0..2000 {
        db.put(key(i), value(i, 0)).expect("put");
    }
    db.compact().expect("compact");
    let options = ReadOptions::default();
    let mut held = Vec::new();
    for i in (0..2000).step_by(25) {
        let mut cursor = db.default_keyspace().cursor(&options).expect("cursor");
        cursor.seek(key(i)).expect("seek");
        held.push((i, cursor));
    }
    for i in 0..2000 {
        assert_eq!(db.get(key(i)).expect("get"), Some(value(i, 0)), "{i}");
    }
    for (i, cursor) in &held {
        assert_eq!(cursor.value().expect("value"), Some(&value(*i, 0)[..]), "{i}");
    }
    let figures = |db: &Db| db.properties().ssd.expect("tables").cache;
    let full = figures(&db);
    assert!(full.charged <= full.budget && full.volatile <= 32 * KIB, "{full:?}");
    drop(held);
    let refused = figures(&db).refused;
    for i in (0..200).chain(0..200) {
        assert_eq!(db.get(key(i)).expect("get"), Some(value(i, 0)), "{i}");
    }
    let now = figures(&db);
    assert!(now.refused < refused + 50 && now.evictions > full.evictions, "{now:?} {full:?}");
}

#[test]
fn reads_and_writes_there_go_through_the_model() {
    let (store, memory) = (TempDir::new("store"), TempDir::new("memory"));
    let mut options = placed(&memory).value_files_min(0).compression(strandline::Compression::None);
    options.set("pm_model", "zero,cache=65536").expect("model");
    let db = Db::open(store.path(), options.clone()).expect("open");
    let counted = |db: &Db| {
        let model = db.properties().pm_model.expect("a model");
        (model.read_bytes, model.written_bytes)
    };
    assert!(db.basis().to_string().contains("pm: zero"), "{}", db.basis());
    let before = counted(&db);
    db.put(key(1), value(1, 0)).expect("put");
    let put = counted(&db);
    assert!(put.1 >= before.1 + 300, "{put:?} {before:?}");
    db.get(key(1)).expect("get");
    assert!(counted(&db).0 >= put.0 + 300, "a record is read there");
    for i in 0..200 {
        db.put(key(i), value(i, 0)).expect("put");
    }
    db.compact().expect("compact");
    let get = |i: u64| assert_eq!(db.get(key(i)).expect("get"), Some(value(i, 0)));
    let before = counted(&db);
    get(6);
    let missed = counted(&db);
    let block = u64::from(options.block_bytes);
    assert!(missed.1 >= before.1 + block / 2, "the block is written: {missed:?} {before:?}");
    get(6);
    let read = counted(&db).0 - missed.0;
    assert!((700..block).contains(&read), "of {block} bytes a hit reads {read}");
    drop(db);
    // Without places there is nothing that the model is of.
    let refused = Db::open(
        store.path(),
        options.memtable_memory(MemorySource::Dram).block_cache_memory(MemorySource::Dram),
    );
    assert_eq!(kind_of(refused), ErrorKind::InvalidArgument);
}

#[test]
fn directories_that_will_not_do_are_refused_by_the_name_of_the_option() {
    type Set = fn(Options, MemorySource) -> Options;
    let both: [(&str, Set); 2] = [
        ("memtable_memory", |options, memory| options.memtable_memory(memory)),
        ("block_cache_memory", |options, memory| options.block_cache_memory(memory)),
    ];
    for (name, set) in both {
        let (store, memory) = (TempDir::new("store"), TempDir::new("memory"));
        let open = |options: Options| Db::open(store.join("db"), options);
        let file = memory.join("file");
        std::fs::write(&file, b"1").expect("write");
        let huge = options().block_cache(1 << 52);
        let device = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let mut cases = vec![
            (options(), memory.join("none"), ErrorKind::InvalidArgument, "does not exist"),
            (options(), file, ErrorKind::InvalidArgument, "not a directory"),
        ];
        if matches!(pmem::Probe::of(device, Path::new("/sys")).storage, pmem::Storage::Device) {
            cases.push((options(), device.to_owned(), ErrorKind::InvalidArgument, "tmpfs"));
        }
        if name == "block_cache_memory" {
            // So long a memory for records is refused before, since no log has room for it.
            cases.push((huge, memory.path().to_owned(), ErrorKind::NoSpace, "ask for less"));
        }
        for (options, dir, kind, remedy) in cases {
            let error = open(set(options, MemorySource::Dir(dir.clone()))).err().expect("refused");
            let told = error.to_string();
            assert_eq!(error.kind(), kind, "{told}");
            let named = format!("{name}={}", dir.display());
            assert!(told.contains(&named) && told.contains(remedy), "{told}");
            let is_left = store.join("db").join("STORE").exists();
            assert!(!is_left || kind == ErrorKind::NoSpace, "a store is left: {told}");
        }
        // A store that could not be opened so is opened without.
        open(options()).expect("open").put(b"a", b"1").expect("put");
        // Only a log keeps what is there.
        let pool = Options::default().pm_size(4 << 20).background_threads(0);
        for pm in [PmSource::Heap, PmSource::Path(store.join("own")), PmSource::Auto] {
            let made = set(pool.clone().pm(pm), in_dir(&memory));
            let error = Db::open(store.join("pool"), made).err().expect("refused");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            assert!(error.to_string().contains(name), "{error}");
        }
    }
    let (store, memory) = (TempDir::new("store"), TempDir::new("memory"));
    let runtime = Runtime::new(RuntimeOptions::default()).expect("runtime");
    let shared = options().block_cache_memory(in_dir(&memory));
    let error = runtime.open(store.path(), shared).err().expect("the cache is shared");
    assert!(error.to_string().contains("block_cache_memory"), "{error}");
    let own = options().memtable_memory(in_dir(&memory));
    let db = runtime.open(store.path(), own).expect("open");
    db.put(b"a", b"1").expect("put");
    assert!(db.properties().places.memtables.volatile > 0);
}
