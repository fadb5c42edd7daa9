//! The stores that are damaged, and what each of them should say.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use strandline::{Batch, Compression, Db, Keyspace, Options};
use testkit::Value;

use crate::common::{Contents, TempDir};

pub const KEYSPACES: [&str; 2] = ["default", "other"];

pub fn options() -> Options {
    Options::default()
        .pm_size(1 << 20)
        .zone_size(16 << 10)
        .table_bytes(4 << 10)
        .block_cache(1 << 20)
        .compression(Compression::None)
        .background_threads(0)
        .recovery_threads(1)
}

/// What a keyspace should hold.
#[derive(Clone, Default)]
pub struct Known {
    pub live: Contents,
    /// Never there, deleted, or covered by a range deletion.
    pub absent: BTreeSet<Vec<u8>>,
    /// Every value that a key ever had.
    pub written: BTreeSet<(Vec<u8>, Vec<u8>)>,
}

/// A store that nothing is wrong with.
pub struct Golden {
    pub name: &'static str,
    pub dir: TempDir,
    pub known: BTreeMap<&'static str, Known>,
    /// The key of the last commit, if nothing later tells that it was acknowledged.
    pub doubtful: Option<Vec<u8>>,
    /// What stands in the records of range deletions that runs have copies of.
    pub copied_deletes: Vec<Vec<u8>>,
    /// Files by their path in the store, the pool among them.
    pub files: BTreeMap<PathBuf, Vec<u8>>,
    /// The pool as it once was.
    pub older_pool: Option<Vec<u8>>,
}

pub fn key(i: u64) -> Vec<u8> {
    format!("key/{i:04}").into_bytes()
}

/// A store under construction, beside what it should hold.
struct Making {
    db: Db,
    known: BTreeMap<&'static str, Known>,
    round: u64,
    /// Range deletions since the last look.
    deletes: Vec<Vec<u8>>,
    copied_deletes: Vec<Vec<u8>>,
}

impl Making {
    /// A new store with two keyspaces in `dir`.
    fn new(dir: &Path) -> Making {
        let db = Db::open(dir, options()).expect("open");
        db.create_keyspace("other").expect("keyspace");
        let (deletes, copied_deletes) = (Vec::new(), Vec::new());
        Making { db, known: BTreeMap::new(), round: 1000, deletes, copied_deletes }
    }

    fn space(&self, name: &str) -> Keyspace {
        self.db.keyspace(name).expect("keyspace")
    }

    fn known(&mut self, name: &'static str) -> &mut Known {
        self.known.entry(name).or_default()
    }

    /// Values of no zero bytes: a line of zeroes was never written.
    fn value(&mut self, len: u64) -> Vec<u8> {
        self.round += 1;
        let mut value = format!("{} ", self.round).into_bytes();
        let noise = Value::new(self.round, len as u32).bytes();
        value.extend(noise.into_iter().map(|byte| byte.max(1)));
        value
    }

    fn note(&mut self, name: &'static str, key: Vec<u8>, value: Vec<u8>) {
        let known = self.known(name);
        known.absent.remove(&key);
        known.written.insert((key.clone(), value.clone()));
        known.live.insert(key, value);
    }

    fn put(&mut self, name: &'static str, i: u64, len: u64) {
        let value = self.value(len);
        self.space(name).put(key(i), &value).expect("put");
        self.note(name, key(i), value);
    }

    fn delete(&mut self, name: &'static str, i: u64) {
        self.space(name).delete(key(i)).expect("delete");
        let known = self.known(name);
        known.live.remove(&key(i));
        known.absent.insert(key(i));
    }

    fn delete_range(&mut self, name: &'static str, from: u64, to: u64) {
        self.space(name).delete_range(key(from), key(to)).expect("delete range");
        let known = self.known(name);
        let gone: Vec<Vec<u8>> =
            known.live.range(key(from)..key(to)).map(|(k, _)| k.clone()).collect();
        gone.iter().for_each(|key| drop(known.live.remove(key)));
        known.absent.extend(gone);
        known.absent.extend([key(from), key(to - 1)]);
        self.deletes.push([key(from), key(to)].concat());
    }

    /// One commit that touches both keyspaces.
    fn batch(&mut self, numbers: impl Iterator<Item = u64>) {
        let mut batch = Batch::new();
        let mut puts = Vec::new();
        for i in numbers {
            let name = KEYSPACES[(i % 2) as usize];
            let value = self.value(40);
            batch.put(&self.space(name), key(i), &value);
            puts.push((name, key(i), value));
        }
        self.db.write(&batch).expect("write");
        puts.into_iter().for_each(|(name, key, value)| self.note(name, key, value));
    }

    fn reopen(&mut self, dir: &Path) {
        // The lock goes with the store.
        let scratch = TempDir::new("scratch");
        drop(std::mem::replace(&mut self.db, Db::open(scratch.path(), options()).expect("open")));
        self.db = Db::open(dir, options()).expect("open");
    }
}

/// Lengths of values: records of one line and of several.
fn len(i: u64) -> u64 {
    [1, 20, 90, 300, 5][(i % 5) as usize]
}

/// A checkpoint with tables of two keyspaces, several levels of versions behind it.
fn make_copy(copy: &Path) -> Making {
    let dir = TempDir::new("before");
    let mut making = Making::new(dir.path());
    for name in KEYSPACES {
        (0..120).filter(|i| i % 3 != 1).for_each(|i| making.put(name, i, len(i)));
    }
    making.db.compact().expect("compact");
    for name in KEYSPACES {
        (0..120).step_by(9).for_each(|i| making.put(name, i, 30));
        (0..120).step_by(14).for_each(|i| making.delete(name, i));
        making.delete_range(name, 50, 58);
    }
    making.db.checkpoint(copy).expect("checkpoint");
    for name in KEYSPACES {
        let known = making.known(name);
        known.absent.extend(
            (0..130).step_by(3).map(|i| key(i + 1)).filter(|k| !known.live.contains_key(k)),
        );
        known.absent.extend([vec![], b"key/".to_vec(), b"z".to_vec()]);
    }
    making
}

/// What persistent memory holds above the tables: two runs, each with range deletions, a value in an extent.
fn fill_memory(making: &mut Making) {
    for (at, name) in KEYSPACES.into_iter().enumerate() {
        let at = at as u64;
        (0..30).for_each(|i| making.put(name, 3 * i + at, len(i)));
        (0..30).step_by(7).for_each(|i| making.delete(name, 3 * i + 2));
        making.delete_range(name, 100, 103);
    }
    making.put("default", 115, 3000);
    making.db.flush().expect("flush");
    making.batch([200, 201, 203, 205].into_iter());
    making.put("default", 97, 80);
    making.delete_range("default", 110, 112);
    making.db.flush().expect("flush");
    making.copied_deletes = std::mem::take(&mut making.deletes);
    (60..70).for_each(|i| making.put("default", i, len(i)));
    making.batch(70..76);
    making.delete("default", 3);
    making.delete_range("other", 20, 24);
}

fn finish(name: &'static str, dir: TempDir, making: Making) -> Golden {
    let Making { db, known, copied_deletes, .. } = making;
    drop(db);
    let mut golden = Golden {
        name,
        dir,
        known,
        doubtful: None,
        files: BTreeMap::new(),
        older_pool: None,
        copied_deletes,
    };
    golden.files = read_files(golden.dir.path());
    golden
}

/// All files of a directory, by their path in it.
pub fn read_files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut left = vec![PathBuf::new()];
    while let Some(at) = left.pop() {
        for entry in std::fs::read_dir(dir.join(&at)).expect("directory") {
            let entry = entry.expect("entry");
            let path = at.join(entry.file_name());
            match entry.file_type().expect("type").is_dir() {
                true => left.push(path),
                false => drop(files.insert(path, std::fs::read(entry.path()).expect("file"))),
            }
        }
    }
    files
}

pub fn write_files(dir: &Path, files: &BTreeMap<PathBuf, Vec<u8>>) {
    for (path, bytes) in files {
        let path = dir.join(path);
        std::fs::create_dir_all(path.parent().expect("parent")).expect("directory");
        std::fs::write(path, bytes).expect("written");
    }
}

/// Everything sealed by a second open: whatever is missing or changed is damage.
///
/// The pool is a new one over the tables of a checkpoint, so nothing in it is left over from what was merged away.
pub fn settled() -> Golden {
    let dir = TempDir::new("settled");
    std::fs::remove_dir(dir.path()).expect("removed");
    let mut making = make_copy(dir.path());
    making.reopen(dir.path());
    fill_memory(&mut making);
    let older = std::fs::read(dir.join("pool")).expect("pool");
    making.reopen(dir.path());
    Golden { older_pool: Some(older), ..finish("settled", dir, making) }
}

/// As a killed process leaves it: commits and edits behind the open that nothing has sealed.
pub fn busy() -> Golden {
    let dir = TempDir::new("busy");
    std::fs::remove_dir(dir.path()).expect("removed");
    let mut making = make_copy(dir.path());
    making.reopen(dir.path());
    let older = std::fs::read(dir.join("pool")).expect("pool");
    fill_memory(&mut making);
    making.db.put(b"the last commit", b"x").expect("put");
    making.note("default", b"the last commit".to_vec(), b"x".to_vec());
    let mut golden = finish("busy", dir, making);
    golden.doubtful = Some(b"the last commit".to_vec());
    golden.older_pool = Some(older);
    golden
}

/// A checkpoint: tables and a manifest file.
pub fn copy() -> Golden {
    let dir = TempDir::new("copy");
    std::fs::remove_dir(dir.path()).expect("removed");
    let making = make_copy(dir.path());
    finish("copy", dir, making)
}

/// A store whose log has an edit of every kind, and how many edits it had after each step.
pub fn edited() -> Golden {
    let dir = TempDir::new("edited");
    let mut making = Making::new(dir.path());
    for name in KEYSPACES {
        (0..60).for_each(|i| making.put(name, i, len(i)));
    }
    making.db.flush().expect("flush");
    (0..60).step_by(2).for_each(|i| making.put("default", i, 50));
    making.delete_range("default", 20, 30);
    making.db.compact().expect("compact");
    (0..60).step_by(3).for_each(|i| making.put("default", i, 70));
    (0..60).step_by(5).for_each(|i| making.delete("other", i));
    making.db.flush().expect("flush");
    (0..60).step_by(4).for_each(|i| making.put("default", i, 60));
    making.db.flush().expect("flush");
    making.db.compact().expect("compact");
    making.db.create_keyspace("late").expect("keyspace");
    (0..20).for_each(|i| making.put("late", i, len(i)));
    finish("edited", dir, making)
}

/// A store with tables of one length, next to each other.
pub fn alike() -> Golden {
    let dir = TempDir::new("alike");
    let mut making = Making::new(dir.path());
    for name in KEYSPACES {
        (0..200).for_each(|i| making.put(name, i, 90));
    }
    making.db.compact().expect("compact");
    finish("alike", dir, making)
}
