//! Scans over values apart from their keys: what lies in several files is read at the same time.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use crate::common::{Contents, Place, heap, numbered as key, small_levels};
use ssd::{Append, Call, Failure, Faulty, Fs, Memory, Overwrite, PendingRead, Read, Rule};
use strandline::{Db, Options, ReadOptions, Result};
use testkit::Rng;

const KEYS: u64 = 1200;

fn options() -> Options {
    // Nothing is collected, so that values stay in the files that they were written to.
    small_levels().value_files_min(1000).value_space(1000)
}

/// Reads of value files: those that a thread waits for, and those that are begun ahead.
#[derive(Default)]
struct Reads {
    alone: AtomicU64,
    begun: AtomicU64,
    /// The system's page cache has all files.
    cached: AtomicBool,
}

/// Files whose reads are counted.
struct Counting {
    fs: Arc<dyn Fs>,
    reads: Arc<Reads>,
}

struct CountedFile {
    file: Arc<dyn Read>,
    /// Of a value file.
    reads: Option<Arc<Reads>>,
}

impl Read for CountedFile {
    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()> {
        self.reads.iter().for_each(|reads| _ = reads.alone.fetch_add(1, SeqCst));
        self.file.read_at(at, out)
    }

    fn read_cached(&self, at: u64, out: &mut [u8]) -> bool {
        let is_cached = self.reads.as_ref().is_some_and(|reads| reads.cached.load(SeqCst));
        is_cached && self.file.read_at(at, out).is_ok()
    }

    fn begin(&self, at: u64, len: usize) -> Option<Box<dyn PendingRead>> {
        self.reads.iter().for_each(|reads| _ = reads.begun.fetch_add(1, SeqCst));
        self.file.begin(at, len)
    }

    fn len(&self) -> u64 {
        self.file.len()
    }

    fn path(&self) -> &Path {
        self.file.path()
    }
}

impl Fs for Counting {
    ssd::forward_names!(fs);

    fn create(&self, path: &Path) -> Result<Box<dyn Append>> {
        self.fs.create(path)
    }

    fn overwrite(&self, path: &Path) -> Result<Box<dyn Overwrite>> {
        self.fs.overwrite(path)
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn Read>> {
        let of_values = path.extension().is_some_and(|extension| extension == "blob");
        let reads = of_values.then(|| Arc::clone(&self.reads));
        Ok(Arc::new(CountedFile { file: self.fs.open(path)?, reads }))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.fs.sync_dir(dir)
    }

    fn describe(&self) -> String {
        self.fs.describe()
    }
}

/// A store whose reads of values are counted, and may fail.
struct Scanned {
    place: Place,
    faults: Arc<Faulty<Memory>>,
    reads: Arc<Reads>,
}

impl Scanned {
    fn new() -> Scanned {
        let (faults, reads) = (Arc::new(Faulty::new(Memory::default())), Arc::default());
        let fs = Counting { fs: Arc::clone(&faults) as _, reads: Arc::clone(&reads) };
        fs.create_dir_all(Path::new("/sst")).expect("directory");
        let place = Place { region: heap(options().pm_size), fs: Arc::new(fs) };
        Scanned { place, faults, reads }
    }

    /// Opened anew, so that nothing is cached.
    fn open(&self) -> Db {
        self.place.open(options())
    }

    /// Puts all keys, and then so many times a part of them again; each round has value files of its own.
    fn fill(&self, rounds: u64) -> Contents {
        let (db, mut model, mut random) = (self.open(), Contents::new(), Rng::new(rounds));
        for round in 0..=rounds {
            for i in (0..KEYS).filter(|_| round == 0 || random.below(rounds) == 0) {
                let mut rng = Rng::new(round << 32 | i);
                let value: Vec<u8> =
                    std::iter::repeat_with(|| rng.next() as u8).take(1500).collect();
                db.put(key(i), &value).expect("put");
                model.insert(key(i), value);
            }
            db.compact().expect("compact");
        }
        model
    }

    /// Reads `count` keys in order, the first being number `from`; how many could not be read.
    fn scan(&self, model: &Contents, from: u64, count: usize) -> usize {
        let db = self.open();
        let mut iter = db.default_keyspace().cursor(&ReadOptions::default()).expect("cursor");
        let mut failed = 0;
        iter.seek(key(from)).expect("seek");
        for (key, value) in model.range(key(from)..).take(count) {
            assert_eq!(iter.key(), Some(&key[..]));
            match iter.value() {
                Ok(found) => assert!(found == Some(&value[..]), "{}", key.escape_ascii()),
                Err(_) => failed += 1,
            }
            iter.next().expect("next");
        }
        failed
    }

    /// Reads that a scan waits for without having begun them, and those that it begins.
    fn reads_of_scan(&self, model: &Contents, from: u64, count: usize) -> (u64, u64) {
        let counted = || (self.reads.alone.load(SeqCst), self.reads.begun.load(SeqCst));
        let before = counted();
        assert_eq!(self.scan(model, from, count), 0);
        let after = counted();
        (after.0 - before.0, after.1 - before.1)
    }
}

#[test]
fn values_in_several_files_are_read_at_the_same_time() {
    let store = Scanned::new();
    let model = store.fill(8);
    for from in [0, 300, 900] {
        let (alone, begun) = store.reads_of_scan(&model, from, 100);
        assert!(alone <= 20 && begun >= 20, "from {from}: {alone}, {begun}");
    }
    // No device is waited for where the page cache has it.
    store.reads.cached.store(true, SeqCst);
    let (alone, begun) = store.reads_of_scan(&model, 300, 100);
    assert!(alone <= 1 && begun == 0, "{alone}, {begun}");
    store.reads.cached.store(false, SeqCst);
    // A short one begins nothing that it may not need.
    assert_eq!(store.reads_of_scan(&model, 300, 1), (1, 0));
    let (alone, begun) = store.reads_of_scan(&model, 0, KEYS as usize);
    assert!(alone <= 60 && begun > 100, "{alone}, {begun}");
    // Where the values of neighbours lie beside each other, a piece of one file has them.
    let store = Scanned::new();
    let model = store.fill(0);
    let (alone, begun) = store.reads_of_scan(&model, 0, KEYS as usize);
    assert!(alone <= 120 && begun <= 20, "{alone}, {begun}");
}

/// What was begun ahead and fails is read again by itself when the scan comes to it.
#[test]
fn a_read_ahead_that_fails_fails_no_value() {
    let store = Scanned::new();
    let model = store.fill(8);
    for call in 1..40 {
        let rule = Rule::new(call, Failure::Io).of(Call::Read).on(".blob");
        store.faults.set_rules(vec![rule]);
        let failed = store.scan(&model, 10 * call, 100);
        // The one that strikes may be that of a value alone.
        assert!(failed <= 1, "read {call}: {failed}");
    }
    store.faults.set_rules(vec![Rule::new(1, Failure::Io).of(Call::Read).on(".blob").for_ever()]);
    assert_eq!(store.scan(&model, 0, 100), 100);
    store.faults.set_rules(Vec::new());
}

/// What comes later in a file that is gone fails no value before it.
#[test]
fn a_file_that_is_gone_fails_its_own_values_only() {
    let store = Scanned::new();
    let model = store.fill(8);
    let dir = Path::new("/sst");
    let names = store.faults.list(dir).expect("list");
    let values: Vec<&String> = names.iter().filter(|name| name.ends_with(".blob")).collect();
    store.faults.remove(&dir.join(values[values.len() / 2])).expect("removed");
    let db = store.open();
    let mut iter = db.default_keyspace().cursor(&ReadOptions::default()).expect("cursor");
    iter.seek_to_first().expect("seek");
    let mut lost = 0;
    for (key, value) in &model {
        match db.get(key) {
            Ok(found) => {
                assert_eq!(found.as_ref(), Some(value));
                assert_eq!(iter.value().expect("read alone"), Some(&value[..]));
            }
            Err(_) => {
                lost += 1;
                iter.value().expect_err("it is gone");
            }
        }
        iter.next().expect("next");
    }
    assert!(lost > 10 && lost < KEYS / 2, "{lost}");
}
