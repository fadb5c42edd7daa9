//! Making a store while power fails: what is left is no store, or a whole one.

use std::path::Path;
use std::sync::{Arc, Mutex};

use pmem::{Durability, Storage};
use ssd::{Call, Disk, Fs, Heed, Memory, Watch};
use strandline::steps::{self, Given};
use strandline::{Db, ErrorKind, Hooks, Options, PmSource, ReadOptions, Region};

const STORE: &str = "/above/it/store";
/// Survivors of one disk that are tried.
const MOST: usize = 24;

fn options(pm: PmSource) -> Options {
    Options::default().pm(pm).background_threads(0).recovery_threads(1)
}

/// A disk, and memory as a power cut leaves it that takes nothing of what is fenced.
fn ground(disk: Disk, memory: &Arc<Region>) -> Given {
    Given {
        fs: Arc::new(Memory::new(disk)),
        memory: Arc::clone(memory),
        format: pool::Format::for_len(memory.len()),
        id: 77,
        storage: Storage::Device,
    }
}

fn heap() -> Arc<Region> {
    Arc::new(Region::heap(1 << 20, None).expect("memory"))
}

/// What power failure may leave of a disk.
fn survivors(disk: &Disk) -> Vec<Disk> {
    disk.survivors(MOST, 1).collect()
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

/// The directories that an open makes were not synced in those above them: a power cut, any time later, took them away
/// with every record that was acknowledged.
#[test]
fn what_was_acknowledged_is_there_after_power_failure_although_the_store_is_new() {
    let persistent = Storage::Persistent(Durability::PowerFailAdr);
    for (pm, storage) in [
        (PmSource::Dram, persistent),
        (PmSource::Auto, persistent),
        (PmSource::Auto, Storage::Volatile),
        (PmSource::Auto, Storage::Device),
    ] {
        let (memory, fs) = (heap(), Memory::default());
        let on = ground(Disk::default(), &memory);
        let given = Given { fs: Arc::new(fs.clone()), storage, ..on };
        let db = steps::open_at(&given, STORE.as_ref(), options(pm.clone()), Hooks::default());
        let db = db.expect("made");
        db.put(b"key", b"value").expect("put");
        let has_log = pm == PmSource::Dram || storage == Storage::Device;
        assert_eq!(db.properties().wal.is_some(), has_log, "{storage:?}");
        let left = survivors(&fs.disk());
        drop((db, given));
        for (no, disk) in left.into_iter().enumerate() {
            let never = options(pm.clone()).create_if_missing(false);
            let given = ground(disk, &memory);
            let db = steps::open_at(&given, STORE.as_ref(), never, Hooks::default());
            let db = db.unwrap_or_else(|error| panic!("{pm:?}, survivor {no}: {error}"));
            assert_eq!(db.get(b"key").expect("get").as_deref(), Some(&b"value"[..]));
        }
    }
}

/// Power fails behind each call that making a store with a log does: an open then finds no store, and one can be made, or
/// it finds a whole one.
#[test]
fn a_creation_that_loses_power_leaves_no_store_or_a_whole_one() {
    let seen = Arc::new(Seen::default());
    let fs: Arc<dyn Fs> =
        Arc::new(Memory::watched(Disk::default(), Arc::clone(&seen) as Arc<dyn Watch>));
    let given = Given { fs, ..ground(Disk::default(), &heap()) };
    let make = |given: &Given, create_if_missing: bool| -> strandline::Result<Db> {
        let options = options(PmSource::Auto).create_if_missing(create_if_missing);
        steps::open_at(given, STORE.as_ref(), options, Hooks::default())
    };
    drop(make(&given, true).expect("made"));
    let disks = std::mem::take(&mut *seen.0.lock().expect("alone"));
    assert!(disks.len() > 15, "{} calls", disks.len());
    let (mut whole, mut none) = (0, 0);
    for (at, disk) in disks.iter().enumerate() {
        // What a killed process leaves, and what power failure leaves.
        for disk in survivors(disk).into_iter().chain([disk.clone()]) {
            let given = ground(disk, &heap());
            match make(&given, false) {
                Ok(db) => {
                    whole += 1;
                    db.put(b"key", b"value").expect("a whole store is written");
                }
                Err(error) => {
                    none += 1;
                    assert_eq!(error.kind(), ErrorKind::NotFound, "call {at}: {error}");
                    let db = make(&given, true);
                    let db = db.unwrap_or_else(|error| panic!("call {at}: made again: {error}"));
                    assert_eq!(db.get(b"key").expect("get"), None);
                }
            }
        }
    }
    assert!(whole > 0 && none > 20, "{whole} whole, {none} none");
}

/// An open is killed behind any of its calls, the next goes on, and power fails after that one: all that is needed is
/// durable, also what the first had made and not synced.
#[test]
fn what_a_killed_creation_left_is_made_durable_by_the_next() {
    let seen = Arc::new(Seen::default());
    let fs: Arc<dyn Fs> =
        Arc::new(Memory::watched(Disk::default(), Arc::clone(&seen) as Arc<dyn Watch>));
    let given = Given { fs, ..ground(Disk::default(), &heap()) };
    let open = |given: &Given| {
        let db = steps::open_at(given, STORE.as_ref(), options(PmSource::Auto), Hooks::default());
        db.and_then(|db| db.put(b"key", b"value"))
    };
    open(&given).expect("made");
    let disks = std::mem::take(&mut *seen.0.lock().expect("alone"));
    for (at, disk) in disks.into_iter().enumerate() {
        let fs = Memory::new(disk);
        let next = Given { fs: Arc::new(fs.clone()), ..ground(Disk::default(), &heap()) };
        open(&next).unwrap_or_else(|error| panic!("killed behind call {at}: {error}"));
        for disk in survivors(&fs.disk()) {
            let given = ground(disk, &heap());
            let db = steps::read_at(&given, STORE.as_ref(), options(PmSource::Auto));
            let db = db.unwrap_or_else(|error| panic!("killed behind call {at}: {error}"));
            assert_eq!(db.get(b"key").expect("get").as_deref(), Some(&b"value"[..]), "call {at}");
        }
    }
}

/// Every file below `dir`, with its bytes.
fn files(disk: &Disk, dir: &str) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    disk.visit(&mut |path, bytes| {
        let bytes = bytes.filter(|_| path.starts_with(dir));
        files.extend(bytes.map(|bytes| (path.to_owned(), bytes.to_vec())));
    });
    files
}

fn count(db: &Db) -> usize {
    let mut iter = db.default_keyspace().cursor(&ReadOptions::default()).expect("iterate");
    let mut count = 0;
    iter.seek_to_first().expect("first");
    while iter.key().is_some() {
        count += 1;
        iter.next().expect("next");
    }
    count
}

/// A store is damaged, and then power fails while it is repaired. The new store got its name first and its records one
/// batch after the other: a part of what could be saved looked like all of it.
#[test]
fn a_repair_that_loses_power_leaves_no_store_or_all_that_could_be_saved() {
    const NEW: &str = "/above/it/new";
    let options = || options(PmSource::Auto).memtable_bytes(64 << 10);
    let fs = Memory::default();
    let given = Given { fs: Arc::new(fs.clone()), ..ground(Disk::default(), &heap()) };
    let db = steps::open_at(&given, STORE.as_ref(), options(), Hooks::default()).expect("made");
    for i in 0..300_u32 {
        db.put(i.to_be_bytes(), [i as u8; 500]).expect("put");
    }
    drop(db);
    let dir = Path::new(STORE).join("wal");
    let mut segments = fs.list(&dir).expect("list");
    // Of those that are full, whose middle is in a frame.
    segments.retain(|name| name.ends_with(".wal") && !name.starts_with("new-"));
    segments.pop();
    let damaged = dir.join(&segments[segments.len() / 2]);
    let file = fs.open(&damaged).expect("open");
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes).expect("read");
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs.remove(&damaged).expect("remove");
    let mut file = fs.create(&damaged).expect("create");
    file.append(&bytes).expect("append");
    file.sync().expect("sync");
    // All of it lasts, what was filled ahead for the next segment too.
    for name in fs.list(&dir).expect("list") {
        fs.overwrite(&dir.join(name)).and_then(|mut file| file.sync()).expect("sync");
    }
    fs.sync_dir(&dir).expect("sync");
    let before = files(&fs.disk(), STORE);

    let reader = Memory::new(fs.disk());
    let given = Given { fs: Arc::new(reader.clone()), ..ground(Disk::default(), &heap()) };
    drop(steps::read_at(&given, STORE.as_ref(), options()).expect("read"));
    assert!(reader.is_untouched(), "who reads changes nothing");

    let seen = Arc::new(Seen::default());
    let watched = Memory::watched(fs.disk(), Arc::clone(&seen) as Arc<dyn Watch>);
    let given = Given { fs: Arc::new(watched), ..ground(Disk::default(), &heap()) };
    let report = steps::repair_at(&given, STORE.as_ref(), NEW.as_ref(), options());
    let report = report.expect("repaired");
    assert!(!report.lost.is_empty() && report.records > 100, "{report:?}");
    let disks = std::mem::take(&mut *seen.0.lock().expect("alone"));
    let last = disks.len() - 1;
    let (mut whole, mut none) = (0, 0);
    for (at, disk) in disks.iter().enumerate() {
        for disk in disk.survivors(6, 1) {
            assert!(files(&disk, STORE) == before, "call {at}: the damaged store was changed");
            let given = ground(disk, &heap());
            let opened = steps::read_at(&given, NEW.as_ref(), options());
            match opened {
                Ok(db) => {
                    whole += 1;
                    assert_eq!(count(&db) as u64, report.records, "call {at} of {last}");
                    continue;
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "call {at}: {error}"),
            }
            none += 1;
            if none % 16 == 1 {
                let again = steps::repair_at(&given, STORE.as_ref(), NEW.as_ref(), options());
                assert_eq!(again.expect("again").records, report.records);
            }
        }
    }
    assert!(whole > 0 && none > 20, "{whole} whole, {none} none");
}
