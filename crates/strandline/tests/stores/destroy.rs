//! Removing a store: what goes, what stays, what is refused, and what a killed call leaves.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::common::{TempDir, heap, kind_of};
use pmem::{Durability, Storage};
use ssd::{Call, Disk, Fs, Heed, Memory, Watch};
use strandline::steps::{self, Given};
use strandline::{Db, ErrorKind, Hooks, Options, PmSource, SsdSource};

fn options() -> Options {
    Options::default()
        .pm_size(4 << 20)
        .memtable_bytes(64 << 10)
        .table_bytes(64 << 10)
        .background_threads(0)
        .recovery_threads(1)
}

/// A store with tables.
fn fill(db: &Db) {
    for i in 0..400_u32 {
        db.put(i.to_be_bytes(), [i as u8; 500]).expect("put");
    }
    db.compact().expect("compact");
    db.put("last", "in a memtable").expect("put");
}

fn kinds(dir: &Path) -> [PmSource; 2] {
    [PmSource::Path(dir.join("pool")), PmSource::Dram]
}

#[test]
fn nothing_is_left_of_a_store() {
    let dir = TempDir::new("destroy");
    for pm in kinds(&dir.join("db")) {
        let options = options().pm(pm);
        let db = Db::open(dir.join("db"), options.clone()).expect("made");
        fill(&db);
        assert_eq!(kind_of(Db::destroy(dir.join("db"), &options)), ErrorKind::Busy);
        assert!(db.get("last").expect("get").is_some());
        drop(db);
        let reader = Db::open_read_only(dir.join("db"), options.clone()).expect("read");
        assert_eq!(kind_of(Db::destroy(dir.join("db"), &options)), ErrorKind::Busy);
        drop(reader);
        Db::destroy(dir.join("db"), &options).expect("destroyed");
        assert!(!dir.join("db").exists());
        assert_eq!(kind_of(Db::destroy(dir.join("db"), &options)), ErrorKind::NotFound);
    }
}

#[test]
fn what_is_not_the_stores_stays() {
    let dir = TempDir::new("destroy-foreign");
    let (at, tables, pool) = (dir.join("db"), dir.join("tables"), dir.join("a-pool"));
    for pm in [PmSource::Path(pool.clone()), PmSource::Dram] {
        let with = options().pm(pm).ssd(SsdSource::Path(tables.clone()));
        let db = Db::open(&at, with.clone()).expect("made");
        fill(&db);
        drop(db);
        let foreign: [PathBuf; 3] =
            [at.join("notes.txt"), at.join("wal/notes.txt"), tables.join("notes.txt")];
        fs::create_dir_all(at.join("wal")).expect("there");
        for file in &foreign {
            fs::write(file, "mine").expect("written");
        }
        let elsewhere = options().ssd(SsdSource::Path(dir.join("elsewhere")));
        assert_eq!(kind_of(Db::destroy(&at, &elsewhere)), ErrorKind::InvalidArgument);
        Db::destroy(&at, &with).expect("destroyed");
        for file in &foreign {
            assert_eq!(fs::read_to_string(file).expect("it stays"), "mine");
        }
        for dir in [&at, &at.join("wal"), &tables] {
            let left = fs::read_dir(dir).expect("list").count();
            assert_eq!(left, if *dir == at { 2 } else { 1 }, "{}", dir.display());
        }
        assert!(!pool.exists());
        fs::remove_dir_all(&at).expect("removed");
        fs::remove_dir_all(&tables).expect("removed");
    }
}

/// Directories that are no store, or whose tables are another's.
#[test]
fn other_directories_are_refused_or_left() {
    let dir = TempDir::new("destroy-other");
    for name in ["empty", "tables", "checkpoint", "nothing"] {
        let at = dir.join(name);
        match name {
            "nothing" => {}
            "checkpoint" => {
                let db = Db::open(dir.join("source"), options()).expect("made");
                fill(&db);
                db.checkpoint(&at).expect("copied");
            }
            _ => fs::create_dir(&at).expect("folder"),
        }
        if name == "tables" {
            fs::write(at.join("000001.sst"), "a table").expect("written");
        }
        assert_eq!(kind_of(Db::destroy(&at, &options())), ErrorKind::NotFound, "{name}");
    }
    assert!(dir.join("tables/000001.sst").exists());
    assert!(
        Db::open_read_only(dir.join("checkpoint"), options()).expect("whole").get("last").is_ok()
    );
    // A copy of the file STORE names tables of the other store.
    let named = options().ssd(SsdSource::Path(dir.join("shared")));
    for name in ["one", "two"] {
        let with = if name == "one" { named.clone() } else { options() };
        fill(&Db::open(dir.join(name), with).expect("made"));
    }
    let text = fs::read_to_string(dir.join("two/STORE")).expect("read");
    let other = text.replace("ssd sst", &format!("ssd {}", dir.join("shared").display()));
    fs::write(dir.join("two/STORE"), other).expect("written");
    Db::destroy(dir.join("two"), &options()).expect("destroyed");
    let db = Db::open(dir.join("one"), named).expect("whole");
    assert_eq!(db.get("last").expect("get").as_deref(), Some(&b"in a memtable"[..]));
    assert!(db.check().expect("check").damage.is_empty());
}

/// A store that cannot be opened any more is one that is to be removed.
#[test]
fn a_damaged_store_goes() {
    let dir = TempDir::new("destroy-damaged");
    for pm in kinds(&dir.join("db")) {
        let with = options().pm(pm.clone());
        fill(&Db::open(dir.join("db"), with.clone()).expect("made"));
        let memory = match &pm {
            PmSource::Dram => fs::read_dir(dir.join("db/wal"))
                .expect("list")
                .map(|entry| entry.expect("entry").path())
                .find(|path| path.extension().is_some())
                .expect("a segment"),
            _ => dir.join("db/pool"),
        };
        let len = fs::metadata(&memory).expect("there").len();
        fs::write(&memory, vec![0x5a; len as usize]).expect("damaged");
        assert!(Db::open(dir.join("db"), with.clone()).is_err());
        Db::destroy(dir.join("db"), &with).expect("destroyed");
        assert!(!dir.join("db").exists(), "{pm:?}");
    }
}

/// The disk after each call that changed it.
#[derive(Default)]
struct Seen(Mutex<Vec<Disk>>);

impl Watch for Seen {
    fn before(&self, _: Call, _: &Path) -> Heed {
        Heed::Whole
    }

    fn changed(&self, _: Call, _: &Path, disk: &Disk) {
        self.0.lock().expect("alone").push(disk.clone());
    }
}

const STORE: &str = "/above/store";

fn ground(fs: Arc<dyn Fs>, storage: Storage) -> Given {
    let memory = heap(4 << 20);
    Given { fs, format: pool::Format::for_len(memory.len()), memory, id: 77, storage }
}

/// Power fails, or the process is killed, behind each call that a removal does: the store is there and the next removal
/// takes it, or it is not there, and one can be made in its place.
#[test]
fn a_removal_that_is_cut_short_is_gone_on_with() {
    for storage in [Storage::Device, Storage::Persistent(Durability::PowerFailAdr)] {
        let seen = Arc::new(Seen::default());
        let made = Memory::default();
        let given = ground(Arc::new(made.clone()), storage);
        let db = steps::open_at(&given, STORE.as_ref(), options(), Hooks::default()).expect("made");
        fill(&db);
        drop(db);
        let watched = Memory::watched(made.disk(), Arc::clone(&seen) as Arc<dyn Watch>);
        let given = Given { fs: Arc::new(watched), ..given };
        steps::destroy_at(&given, STORE.as_ref(), &options()).expect("destroyed");
        let disks = std::mem::take(&mut *seen.0.lock().expect("alone"));
        assert!(disks.len() > 8, "{} calls", disks.len());
        let (mut there, mut gone) = (0, 0);
        for (at, disk) in disks.iter().enumerate() {
            for disk in disk.survivors(8, 1).chain([disk.clone()]) {
                let fs = Memory::new(disk);
                let given =
                    Given { fs: Arc::new(fs.clone()), memory: Arc::clone(&given.memory), ..given };
                match steps::destroy_at(&given, STORE.as_ref(), &options()) {
                    Ok(()) => there += 1,
                    Err(error) => {
                        gone += 1;
                        assert_eq!(error.kind(), ErrorKind::NotFound, "call {at}: {error}");
                    }
                }
                let given = ground(Arc::new(fs), storage);
                let db = steps::open_at(&given, STORE.as_ref(), options(), Hooks::default());
                let db = db.unwrap_or_else(|error| panic!("call {at}: made again: {error}"));
                assert_eq!(db.get("last").expect("get"), None, "call {at}");
            }
        }
        assert!(there > 8 && gone > 0, "{there} there, {gone} gone");
    }
}
