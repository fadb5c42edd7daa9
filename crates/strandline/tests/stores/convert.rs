//! Moving a store to other memory: what is in it stays, what it leaves goes, and a killed move is finished or undone.
//! Power failure is the matter of the campaign `moves`.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

use crate::common::{TempDir, heap, kind_of};
use base::planted::{self, Bug};
use pmem::Storage;
use ssd::{Call, Disk, Failure, Faulty, Fs, Heed, Memory, Rule, Watch};
use strandline::steps::{self, Given};
use strandline::{
    Batch, Db, ErrorKind, Hooks, KeyspaceOptions, Options, PmSource, ReadOptions, Region, SsdSource,
};

fn options() -> Options {
    Options::default()
        .pm_size(16 << 20)
        .memtable_bytes(64 << 10)
        .table_bytes(64 << 10)
        .background_threads(0)
        .recovery_threads(1)
}

/// Something of everything that a store may hold, in tables, runs and memtables.
fn fill(db: &Db) {
    let sums = KeyspaceOptions::new().merge_operator("add");
    let sums = db.create_keyspace_with("sums", sums).expect("keyspace");
    for round in 0..3_u32 {
        for i in 0..300_u32 {
            db.put((i * 7 % 500).to_be_bytes(), [(i + round) as u8; 300]).expect("put");
        }
        db.put("long", vec![round as u8; 1 << 20]).expect("put");
        sums.merge("sum", 5_u64.to_le_bytes()).expect("merge");
        match round {
            0 => db.compact().expect("compact"),
            1 => db.flush().expect("flush"),
            _ => {}
        }
        let mut batch = Batch::new();
        batch.delete(db.default_keyspace(), (round * 7).to_be_bytes());
        let (from, to) = ((20 * round + 100).to_be_bytes(), (20 * round + 110).to_be_bytes());
        batch.delete_range(db.default_keyspace(), from, to);
        db.write(&batch).expect("write");
    }
}

/// Keys, behind the names of their keyspaces, and values.
type Contents = Vec<(Vec<u8>, Vec<u8>)>;

fn contents(db: &Db) -> Contents {
    let mut all = Vec::new();
    for name in db.keyspaces() {
        let space = db.keyspace(&name).expect("keyspace");
        let mut cursor = space.cursor(&ReadOptions::default()).expect("cursor");
        cursor.seek_to_first().expect("first");
        while let Some(key) = cursor.key() {
            let key = [name.as_bytes(), b"/", key].concat();
            all.push((key, cursor.value().expect("value").expect("there").to_vec()));
            cursor.next().expect("next");
        }
    }
    all
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .expect("list")
        .map(|entry| entry.expect("entry").file_name().into_string().expect("text"))
        .collect();
    names.sort();
    names
}

fn convert(at: &Path, pm: PmSource) -> strandline::Result<strandline::Conversion> {
    Db::convert(at, &options().pm(pm), Hooks::default())
}

#[test]
fn a_store_moves_from_each_memory_to_each_other() {
    let dir = TempDir::new("convert");
    let at = dir.join("db");
    let (inside, outside) = (at.join("pool"), dir.join("a-pool"));
    let db = Db::open(&at, options().pm(PmSource::Path(inside.clone()))).expect("made");
    fill(&db);
    let before = contents(&db);
    assert!(before.len() > 100);
    assert_eq!(kind_of(convert(&at, PmSource::Dram)), ErrorKind::Busy);
    drop(db);
    let places = [
        (PmSource::Dram, ["STORE", "sst", "wal"].as_slice()),
        (PmSource::Path(outside.clone()), &["STORE", "sst"]),
        (PmSource::Path(inside), &["STORE", "pool", "sst"]),
        (PmSource::Path(outside.clone()), &["STORE", "sst"]),
        (PmSource::Dram, &["STORE", "sst", "wal"]),
    ];
    for (pm, left) in places {
        let moved = convert(&at, pm.clone()).expect("moved");
        assert_ne!(moved.from, moved.to);
        assert_eq!(names(&at), left, "{pm:?}");
        assert_eq!(outside.exists(), pm == PmSource::Path(outside.clone()));
        let again = convert(&at, pm).expect("nothing to do");
        assert_eq!(again.from, moved.to);
        assert_eq!(again.to, moved.to);
        let db = Db::open(&at, options()).expect("opened");
        assert!(contents(&db) == before, "{moved:?}");
        assert!(db.check().expect("check").damage.is_empty());
        let sums = db.keyspace("sums").expect("keyspace");
        assert_eq!(sums.get("sum").expect("get").as_deref(), Some(&15_u64.to_le_bytes()[..]));
        db.put("after", moved.to.as_bytes()).expect("put");
        assert_eq!(db.get("after").expect("get").as_deref(), Some(moved.to.as_bytes()));
        db.delete("after").expect("delete");
    }
    Db::destroy(&at, &options()).expect("destroyed");
}

#[test]
fn tables_in_persistent_memory_and_stores_without_tables_move_too() {
    let dir = TempDir::new("convert-tables");
    for (name, with) in [
        ("pm-tables", options().pm_size(32 << 20).pm_tables(50)),
        ("pm-values", options().pm_size(32 << 20).pm_values(50).value_files_min(100)),
        ("pm-cache", options().pm_size(32 << 20).pm_cache(50)),
        ("none", options().ssd(SsdSource::None)),
        ("elsewhere", options().ssd(SsdSource::Path(dir.join("tables")))),
    ] {
        let at = dir.join(name);
        let pool = PmSource::Path(at.join("pool"));
        let db = Db::open(&at, with.clone().pm(pool.clone())).expect("made");
        fill(&db);
        let before = contents(&db);
        drop(db);
        if name == "none" {
            let without = with.clone().pm(PmSource::Dram);
            let refused = Db::convert(&at, &without, Hooks::default());
            assert_eq!(kind_of(refused), ErrorKind::InvalidArgument);
        }
        convert(&at, PmSource::Dram).expect("moved");
        let db = Db::open(&at, options()).expect("opened");
        assert!(contents(&db) == before, "{name}");
        drop(db);
        // And back, to where tables may lie in persistent memory again.
        let with = with.ssd(SsdSource::Auto).pm(pool);
        Db::convert(&at, &with, Hooks::default()).expect("moved back");
        let db = Db::open(&at, with).expect("opened");
        assert!(contents(&db) == before, "{name}");
        assert!(db.check().expect("check").damage.is_empty());
    }
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let dir = TempDir::new("convert-refused");
    let at = dir.join("db");
    let db = Db::open(&at, options().pm(PmSource::Path(at.join("pool")))).expect("made");
    fill(&db);
    let before = contents(&db);
    drop(db);
    let (taken, other) = (dir.join("taken"), dir.join("other"));
    fs::write(&taken, "something").expect("written");
    drop(Db::open(&other, options().pm(PmSource::Path(other.join("pool")))).expect("made"));
    let tight = options().pm(PmSource::Dram).pm_size(1 << 50);
    let nameless = PathBuf::from(OsStr::from_bytes(b"\xff"));
    for (to, kind) in [
        (options().pm(PmSource::Heap), ErrorKind::InvalidArgument),
        // What cannot be looked at is not free.
        (options().pm(PmSource::Path(taken.join("pool"))), ErrorKind::Io),
        (options().pm(PmSource::Path(taken)), ErrorKind::Exists),
        (options().pm(PmSource::Path(dir.join("none/pool"))), ErrorKind::NotFound),
        (options().pm(PmSource::Path(dir.path().to_owned())), ErrorKind::InvalidArgument),
        (options().pm(PmSource::Path(dir.join("two\nlines"))), ErrorKind::InvalidArgument),
        (options().pm(PmSource::Path(dir.path().join(&nameless))), ErrorKind::InvalidArgument),
        (options().pm(PmSource::Path(other.join("pool"))), ErrorKind::Exists),
        (options().pm(PmSource::Path("/dev/null".into())), ErrorKind::InvalidArgument),
        (options().pm(PmSource::Dram).pm_tables(50), ErrorKind::InvalidArgument),
        (options().pm(PmSource::Dram).pm_size(1), ErrorKind::InvalidArgument),
        (tight, ErrorKind::NoSpace),
    ] {
        let refused = Db::convert(&at, &to, Hooks::default());
        assert_eq!(kind_of(refused), kind, "{:?}", to.pm);
        assert_eq!(names(&at), ["STORE", "pool", "sst"]);
    }
    let refused = convert(&at, PmSource::Path(dir.path().to_owned())).expect_err("refused");
    assert!(refused.context().contains("is a directory"), "{refused}");
    // No store could name it either.
    let made = Db::open(dir.join("new"), options().pm(PmSource::Path(dir.path().join(nameless))));
    assert_eq!(kind_of(made), ErrorKind::InvalidArgument);
    let missing = Db::convert(dir.join("none"), &options(), Hooks::default());
    assert_eq!(kind_of(missing), ErrorKind::NotFound);
    assert!(contents(&Db::open(&at, options()).expect("opened")) == before);
    assert_eq!(fs::read_to_string(dir.join("taken")).expect("it stays"), "something");
}

/// The disk after each call that changed it, with the memory of the pool.
struct Seen(Mutex<Vec<(Disk, Vec<u8>)>>, Arc<Region>);

impl Watch for Seen {
    fn before(&self, _: Call, _: &Path) -> Heed {
        Heed::Whole
    }

    fn changed(&self, _: Call, _: &Path, disk: &Disk) {
        let memory = self.1.bytes(0, self.1.len() as usize).to_vec();
        self.0.lock().expect("alone").push((disk.clone(), memory));
    }
}

const STORE: &str = "/above/it/store";
const POOL_LEN: u64 = 4 << 20;

fn ground(fs: Arc<dyn Fs>, memory: Arc<Region>) -> Given {
    let format = pool::Format::for_len(POOL_LEN);
    Given { fs, memory, format, id: 77, storage: Storage::Device }
}

/// Memory that holds `bytes`.
fn memory(bytes: &[u8]) -> Arc<Region> {
    let region = heap(POOL_LEN);
    let dirty = region.copy(pmem::Site::Format, 0, bytes);
    let _held = region.fence(region.flush(dirty));
    region
}

/// A store with tables and a memtable, on the ground of [`ground`].
fn made(with: Options) -> (Memory, Arc<Region>, Contents) {
    let (disk, region) = (Memory::default(), memory(&[]));
    let given = ground(Arc::new(disk.clone()), Arc::clone(&region));
    let has_tables = with.ssd != SsdSource::None;
    let db = steps::open_at(&given, STORE.as_ref(), with, Hooks::default()).expect("made");
    for i in 0..200_u32 {
        db.put(i.to_be_bytes(), [i as u8; 400]).expect("put");
    }
    if has_tables {
        db.compact().expect("compact");
    }
    db.put("last", "in a memtable").expect("put");
    let before = contents(&db);
    (disk, region, before)
}

fn small(pm: &PmSource) -> Options {
    options().memtable_bytes(16 << 10).pm(pm.clone())
}

fn pool() -> PmSource {
    PmSource::Path(PathBuf::from(STORE).join("pool"))
}

/// Survivors of a power failure behind a move to a pool that cannot be opened.
fn lost_after_a_move() -> usize {
    let (disk, region, _) = made(small(&PmSource::Dram));
    let given = ground(Arc::new(disk.clone()), Arc::clone(&region));
    steps::convert_at(&given, STORE.as_ref(), &small(&pool()), Hooks::default()).expect("moved");
    let bytes = region.bytes(0, region.len() as usize).to_vec();
    let is_lost = |survivor: &Disk| {
        let given = ground(Arc::new(Memory::new(survivor.clone())), memory(&bytes));
        steps::open_at(&given, STORE.as_ref(), small(&PmSource::Auto), Hooks::default()).is_err()
    };
    disk.disk().survivors(16, 1).filter(is_lost).count()
}

#[test]
fn a_new_pool_is_synced_before_a_move_names_it() {
    assert_eq!(lost_after_a_move(), 0);
    planted::plant(Some(Bug::MovePoolUnsynced));
    assert!(lost_after_a_move() > 0, "its name lasts, its bytes do not");
    planted::plant(None);
}

/// A process is killed, or power fails, behind each call that a move does. The next open finds all that was there, in the one
/// memory or the other, and takes away what the other left; a move begins anew then.
#[test]
fn a_killed_move_is_undone_or_finished_by_the_next_open() {
    for (from, to, ssd) in [
        (pool(), PmSource::Dram, SsdSource::Auto),
        (PmSource::Dram, pool(), SsdSource::Auto),
        (pool(), PmSource::Dram, SsdSource::None),
    ] {
        let (disk, region, before) = made(small(&from).ssd(ssd));
        let seen = Arc::new(Seen(Mutex::default(), Arc::clone(&region)));
        let watched = Memory::watched(disk.disk(), Arc::clone(&seen) as Arc<dyn Watch>);
        let given = ground(Arc::new(watched), Arc::clone(&region));
        steps::convert_at(&given, STORE.as_ref(), &small(&to), Hooks::default()).expect("moved");
        drop(given);
        let (mut undone, mut finished) = (0, 0);
        for (at, (disk, bytes)) in seen.0.lock().expect("alone").drain(..).enumerate() {
            for disk in disk.survivors(3, at as u64).chain([disk.clone()]) {
                let disk = Memory::new(disk);
                let given = ground(Arc::new(disk.clone()), memory(&bytes));
                let open = |given: &Given| {
                    let never = small(&PmSource::Auto).create_if_missing(false);
                    let db = steps::open_at(given, STORE.as_ref(), never, Hooks::default());
                    db.unwrap_or_else(|error| panic!("cut behind call {at}: {error}"))
                };
                if at % 4 == 0 {
                    let given = ground(Arc::new(Memory::new(disk.disk())), memory(&bytes));
                    steps::convert_at(&given, STORE.as_ref(), &small(&to), Hooks::default())
                        .unwrap_or_else(|error| panic!("cut behind call {at}, again: {error}"));
                    assert!(contents(&open(&given)) == before, "call {at}, again");
                }
                let db = open(&given);
                assert!(contents(&db) == before, "cut behind call {at}");
                let has_log = db.properties().wal.is_some();
                drop(db);
                let there = |name| disk.exists(&Path::new(STORE).join(name)).expect("asked");
                assert_eq!((there("pool"), there("MOVE")), (!has_log, false), "call {at}");
                assert_eq!((there("wal"), there("MOVE.new")), (has_log, false), "call {at}");
                *if has_log == (to == PmSource::Dram) { &mut finished } else { &mut undone } += 1;
            }
        }
        assert!(undone > 40 && finished > 12, "{undone} undone, {finished} finished");
    }
}

/// Each call that a move makes fails once. A move that says that it failed has either left nothing of itself, or has
/// moved the store; the store is whole.
#[test]
fn a_move_that_fails_takes_back_what_it_did() {
    for (from, to) in [(pool(), PmSource::Dram), (PmSource::Dram, pool())] {
        let (disk, region, before) = made(small(&from));
        let bytes = region.bytes(0, region.len() as usize).to_vec();
        let list = |disk: &Memory, dir| {
            let mut names = disk.list(&Path::new(STORE).join(dir)).expect("list");
            names.sort();
            names
        };
        let (mut taken_back, mut moved) = (0, 0);
        for number in 1.. {
            let disk = Memory::new(disk.disk());
            let faulty = Arc::new(Faulty::new(disk.clone()));
            faulty.set_rules(vec![Rule::new(number, Failure::Io)]);
            let given = ground(Arc::clone(&faulty) as Arc<dyn Fs>, memory(&bytes));
            let done = steps::convert_at(&given, STORE.as_ref(), &small(&to), Hooks::default());
            if faulty.struck() == 0 {
                break;
            }
            faulty.set_rules(Vec::new());
            let text = disk.open(&Path::new(STORE).join("STORE")).expect("named");
            let mut named = vec![0; text.len() as usize];
            text.read_at(0, &mut named).expect("read");
            let has_log = String::from_utf8_lossy(&named).contains("\nwal ");
            let has_moved = has_log == (to == PmSource::Dram);
            match &done {
                Ok(_) => assert!(has_moved, "call {number}"),
                Err(error) if !has_moved => {
                    // But for what was removed, or kept, by the open that it begins with.
                    let names = list(&disk, "");
                    let left = ["MOVE", if has_log { "pool" } else { "wal" }];
                    let stays = left.iter().any(|left| names.iter().any(|name| name == left));
                    assert!(!stays, "call {number}: {error}: {names:?}");
                    taken_back += 1;
                }
                Err(_) => moved += 1,
            }
            let never = small(&PmSource::Auto).create_if_missing(false);
            let db = steps::open_at(&given, STORE.as_ref(), never, Hooks::default())
                .unwrap_or_else(|error| panic!("call {number}: {done:?}, then {error}"));
            assert!(contents(&db) == before, "call {number}");
            assert_eq!(db.check().expect("check").damage.len(), 0);
            drop(db);
            steps::convert_at(&given, STORE.as_ref(), &small(&to), Hooks::default())
                .unwrap_or_else(|error| panic!("call {number}, again: {error}"));
            assert!(!list(&disk, "").iter().any(|name| name.starts_with("MOVE")));
        }
        assert!(taken_back > 20 && moved > 1, "{taken_back} taken back, {moved} moved");
    }
}

/// Tables that a move has written go with it, at once: they may be as much as all that the store has. They are not in the way
/// of the next, also where the store had none.
#[test]
fn a_move_that_fails_leaves_no_tables() {
    for ssd in [SsdSource::None, SsdSource::Auto] {
        let (disk, region, before) = made(small(&pool()).ssd(ssd));
        let tables = || {
            let names = disk.list(&Path::new(STORE).join("sst")).unwrap_or_default();
            names.into_iter().filter(|name| name.ends_with(".sst")).collect::<BTreeSet<_>>()
        };
        let there = tables();
        let faulty = Arc::new(Faulty::new(disk.clone()));
        let no_log = Rule::new(1, Failure::NoSpace).of(Call::Create).on("wal").for_ever();
        faulty.set_rules(vec![no_log]);
        let given = ground(Arc::clone(&faulty) as Arc<dyn Fs>, region);
        let to = small(&PmSource::Dram);
        let refused = steps::convert_at(&given, STORE.as_ref(), &to, Hooks::default());
        assert_eq!(kind_of(refused), ErrorKind::NoSpace);
        let left = tables();
        faulty.set_rules(Vec::new());
        steps::convert_at(&given, STORE.as_ref(), &to, Hooks::default()).expect("moved");
        let db = steps::open_at(&given, STORE.as_ref(), small(&PmSource::Auto), Hooks::default());
        assert!(contents(&db.expect("opened")) == before);
        assert_eq!(left, there);
    }
}

/// Moves the store at the moment when another call, which has read what it names, goes for that.
struct Rival {
    fs: OnceLock<Memory>,
    memory: Arc<Region>,
    moved: AtomicBool,
}

impl Watch for Rival {
    fn before(&self, _: Call, path: &Path) -> Heed {
        if let Some(fs) = self.fs.get()
            && path.ends_with("pool")
            && !self.moved.swap(true, Relaxed)
        {
            let given = ground(Arc::new(fs.clone()), Arc::clone(&self.memory));
            let to = small(&PmSource::Dram);
            steps::convert_at(&given, STORE.as_ref(), &to, Hooks::default()).expect("moved");
        }
        Heed::Whole
    }
}

/// The store is moved between the look at its name and the look at what it names. It was told to be gone then, and its tables
/// were removed by a call that should have removed all of it.
#[test]
fn who_read_the_name_before_a_move_looks_again() {
    for call in ["open", "read", "destroy"] {
        let (disk, region, before) = made(small(&pool()));
        let rival = Rival { fs: OnceLock::new(), memory: Arc::clone(&region), moved: false.into() };
        let rival = Arc::new(rival);
        let fs = Memory::watched(disk.disk(), Arc::clone(&rival) as Arc<dyn Watch>);
        rival.fs.set(fs.clone()).unwrap_or_else(|_| panic!("set once"));
        let given = ground(Arc::new(fs.clone()), region);
        let with = small(&PmSource::Auto);
        match call {
            "open" => {
                let db = steps::open_at(&given, STORE.as_ref(), with, Hooks::default());
                assert!(contents(&db.expect("opened")) == before);
            }
            "read" => {
                let db = steps::read_at(&given, STORE.as_ref(), with);
                assert!(contents(&db.expect("opened")) == before);
            }
            _ => {
                steps::destroy_at(&given, STORE.as_ref(), &with).expect("destroyed");
                assert!(!fs.exists(STORE.as_ref()).expect("asked"), "something is left");
            }
        }
        assert!(rival.moved.load(Relaxed));
    }
}

/// Others that open the store while it is moved, as soon as they can, do not keep the move from its end.
#[test]
fn a_move_that_was_done_is_not_refused_for_who_comes_next() {
    let dir = TempDir::new("convert-next");
    let (at, outside) = (dir.join("db"), dir.join("a-pool"));
    drop(Db::open(&at, options().pm(PmSource::Path(outside.clone()))).expect("made"));
    for round in 0..20 {
        let pm = if round % 2 == 0 { PmSource::Dram } else { PmSource::Path(outside.clone()) };
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !at.join("MOVE").exists() && !ended.load(Relaxed) {}
                while at.join("MOVE").exists() {}
                while !ended.load(Relaxed) {
                    drop(Db::open(&at, options()));
                }
            });
            let moved = convert(&at, pm);
            ended.store(true, Relaxed);
            moved.unwrap_or_else(|error| panic!("round {round}: {error}"));
        });
    }
}

/// A move to a pool elsewhere was cut short, and another store has its pool at that place since.
#[test]
fn a_pool_that_is_anothers_by_now_stays() {
    let dir = TempDir::new("convert-foreign");
    let (at, outside) = (dir.join("db"), dir.join("a-pool"));
    drop(Db::open(&at, options().pm(PmSource::Path(outside.clone()))).expect("made"));
    convert(&at, PmSource::Dram).expect("moved");
    let other = dir.join("other");
    drop(Db::open(&other, options().pm(PmSource::Path(outside.clone()))).expect("made"));
    let note = format!("strandline move 1\nfrom pool {}\nto wal wal\n", outside.display());
    fs::write(at.join("MOVE"), note).expect("written");
    drop(Db::open(&at, options()).expect("opened"));
    assert!(outside.exists() && !at.join("MOVE").exists());
    drop(Db::open(&other, options()).expect("whole"));
    // What cannot be understood is told, and nothing is removed for it.
    for text in ["strandline move 2\n", "strandline move 1\nfrom pool x\nto pool y\n", ""] {
        fs::write(at.join("MOVE"), text).expect("written");
        let refused = Db::open(&at, options());
        assert_eq!(kind_of(refused), ErrorKind::Corruption, "{text}");
    }
    fs::remove_file(at.join("MOVE")).expect("removed");
    assert!(Db::open(&at, options()).expect("opened").properties().wal.is_some());
    // Wherever it lies.
    for place in ["../other-pool", "spare"] {
        fs::copy(&outside, at.join(place)).expect("copied");
        cut_short(&at, "wal wal", &format!("pool {place}"));
        drop(Db::open(&at, options()).expect("opened"));
        assert!(at.join(place).exists() && !at.join("MOVE").exists(), "{place}");
    }
}

/// The store at `at`, which has a log, was to get the second memory, or has left it.
fn cut_short(at: &Path, has: &str, other: &str) {
    fs::write(at.join("MOVE"), format!("strandline move 1\nfrom {has}\nto {other}\n"))
        .expect("written");
}

/// A place beside the store is named through it: it is no place in it.
#[test]
fn a_pool_beside_the_store_is_not_in_it() {
    let dir = TempDir::new("convert-beside");
    let at = dir.join("db");
    drop(Db::open(&at, options().pm(PmSource::Dram)).expect("made"));
    let beside = at.join("../a-pool");
    convert(&at, PmSource::Path(beside.clone())).expect("moved");
    let text = fs::read_to_string(at.join("STORE")).expect("read");
    assert!(text.contains(&format!("\npool {}\n", beside.display())), "{text}");
    drop(Db::open(&at, options()).expect("opened"));
    convert(&at, PmSource::Dram).expect("moved back");
    assert_eq!(names(dir.path()), ["db"]);
}

/// What a killed move leaves of a pool elsewhere has no identifier yet.
#[test]
fn a_pool_that_was_being_made_goes() {
    let dir = TempDir::new("convert-begun");
    let (at, outside) = (dir.join("db"), dir.join("a-pool"));
    drop(Db::open(&at, options().pm(PmSource::Dram)).expect("made"));
    for len in [0, 16 << 20] {
        fs::File::create(&outside).expect("created").set_len(len).expect("sparse");
        cut_short(&at, "wal wal", &format!("pool {}", outside.display()));
        fs::write(at.join("MOVE.new"), "").expect("written");
        drop(Db::open(&at, options()).expect("opened"));
        assert!(!outside.exists(), "{len} bytes");
        assert_eq!(names(&at), ["STORE", "sst", "wal"]);
    }
    fs::write(&outside, "").expect("written");
    cut_short(&at, "wal wal", &format!("pool {}", outside.display()));
    fs::write(at.join("MOVE.new"), "").expect("written");
    Db::destroy(&at, &options()).expect("destroyed");
    assert!(!outside.exists() && !at.exists());
    // Nothing was moved yet, and what says so has its first name still.
    drop(Db::open(&at, options().pm(PmSource::Dram)).expect("made"));
    fs::write(at.join("MOVE.new"), "").expect("written");
    Db::destroy(&at, &options()).expect("destroyed");
    assert!(!at.exists());
}

/// The place that a store has left, or was to have, cannot be looked at. The store opens and says so; a removal, which would
/// leave it for good, is refused.
#[test]
fn what_cannot_be_looked_at_is_left_to_a_later_open() {
    let dir = TempDir::new("convert-unseen");
    let (at, file) = (dir.join("db"), dir.join("file"));
    let db = Db::open(&at, options().pm(PmSource::Dram)).expect("made");
    db.put("key", "value").expect("put");
    drop(db);
    fs::write(&file, "").expect("written");
    cut_short(&at, "wal wal", &format!("pool {}", file.join("pool").display()));
    let db = Db::open(&at, options()).expect("opened");
    assert_eq!(db.get("key").expect("get").as_deref(), Some(&b"value"[..]));
    let choice = db.pm_choice().to_string();
    assert!(choice.contains(&*file.to_string_lossy()), "{choice}");
    drop(db);
    assert!(at.join("MOVE").exists());
    assert_eq!(kind_of(convert(&at, PmSource::Path(dir.join("other")))), ErrorKind::Io);
    let refused = Db::destroy(&at, &options()).expect_err("refused");
    assert_eq!(refused.kind(), ErrorKind::Io);
    assert!(refused.context().contains(&*at.join("MOVE").to_string_lossy()), "{refused}");
    assert!(Db::open(&at, options()).expect("opened").get("key").expect("get").is_some());
    fs::remove_file(&file).expect("removed");
    Db::destroy(&at, &options()).expect("destroyed");
    assert!(!at.exists());
}

/// Power failure took the pool that a store has moved to, as a page cache may that was not synced. What the store had stays.
#[test]
fn nothing_is_removed_for_a_memory_that_is_not_whole() {
    let dir = TempDir::new("convert-lost");
    let at = dir.join("db");
    let db = Db::open(&at, options().pm(PmSource::Dram)).expect("made");
    db.put("key", "value").expect("put");
    drop(db);
    let store = fs::read_to_string(at.join("STORE")).expect("read");
    fs::write(at.join("STORE"), store.replace("wal wal", "pool pool")).expect("written");
    cut_short(&at, "wal wal", "pool pool");
    fs::write(at.join("pool"), vec![0; 16 << 20]).expect("written");
    assert_eq!(kind_of(Db::open(&at, options())), ErrorKind::NotFound);
    fs::write(at.join("STORE"), store).expect("written");
    let db = Db::open(&at, options()).expect("opened");
    assert!(db.get("key").expect("get").is_some());
    assert_eq!(names(&at), ["STORE", "sst", "wal"]);
}

#[test]
fn a_checkpoint_stays_one() {
    let dir = TempDir::new("convert-checkpoint");
    let (at, copy) = (dir.join("db"), dir.join("copy"));
    let db = Db::open(&at, options().pm(PmSource::Dram)).expect("made");
    db.put("key", "value").expect("put");
    db.checkpoint(&copy).expect("checkpoint");
    let refused = convert(&copy, PmSource::Dram).expect_err("refused");
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(refused.context().contains("checkpoint"), "{refused}");
    assert_eq!(names(&copy), ["sst"]);
}

/// What an open says of a move is what the move would do: it goes by the directory of the store, not by that of its pool.
#[test]
fn the_move_that_an_open_names_is_one_that_moves() {
    let (memory, disk) = (TempDir::new("convert-hint"), tempfile::tempdir().expect("directory"));
    for (store, pool) in [(disk.path(), memory.path()), (memory.path(), disk.path())] {
        let (at, pool) = (store.join("db"), pool.join("a-pool"));
        let with = options().pm(PmSource::Path(pool));
        drop(Db::open(&at, with).expect("made"));
        let db = Db::open(&at, options()).expect("opened");
        let could = pmem::Probe::of(&at, Path::new("/sys")).storage == Storage::Device;
        let told = db.pm_choice().to_string();
        assert_eq!(told.contains("convert --pm dram"), could, "{told}");
        drop(db);
        convert(&at, PmSource::Dram).expect("moved");
        Db::destroy(&at, &options()).expect("destroyed");
    }
}
