//! What the suites share: places to put stores, and a driver that holds a store against the model.
#![allow(dead_code, missing_docs)]

use std::collections::BTreeMap;
use std::ops::Bound;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ssd::Fs;
use sst::{EntryKind, Writer, WriterOptions};
use strandline::{
    Batch, Cursor, Db, ErrorKind, Hooks, IngestOptions, Keyspace, LostRange, MergeOperator,
    Options, ReadOptions, Region, Seq, Snapshot, steps,
};
use testkit::{Change, Model, Moment, Move, Op, Rng, Transcript, Value, Walk};

/// Subranges of a keyspace at most.
const SUBRANGES_MAX: usize = 5;

/// Whether a repair says that `key` may be lost.
pub fn covers(lost: &LostRange, key: &[u8]) -> bool {
    lost.from.as_deref().is_none_or(|from| from <= key)
        && lost.to.as_deref().is_none_or(|to| key <= to)
}

/// Waits until `holds`, which other threads bring about; a minute at most.
#[track_caller]
pub fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A directory that goes with its holder, in memory where there is some.
pub struct TempDir(tempfile::TempDir);

impl TempDir {
    pub fn new(name: &str) -> TempDir {
        let shm = Path::new("/dev/shm");
        let base = if shm.is_dir() { shm.to_owned() } else { std::env::temp_dir() };
        let prefix = format!("strandline-{name}-");
        let made = tempfile::Builder::new().prefix(&prefix).tempdir_in(base);
        TempDir(made.expect("temporary directory"))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }
}

/// How long a test that might hang may take; it takes seconds at most.
const HANGS: Duration = Duration::from_secs(120);

/// Runs `what` on a thread of its own, which must end.
pub fn ends(what: impl FnOnce() + Send + 'static) {
    let (done, ended) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        what();
        let _heard = done.send(());
    });
    if ended.recv_timeout(HANGS) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
        panic!("it hangs");
    }
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

pub fn heap(len: u64) -> Arc<Region> {
    Arc::new(Region::heap(len, None).expect("heap region"))
}

/// Options for small stores: no background, so that what happens is the test's doing.
pub fn small(zone_size: u64) -> Options {
    Options::default().zone_size(zone_size).background_threads(0).recovery_threads(1)
}

/// Options under which a few megabytes fill memtables, runs and several levels; the test does the background work.
pub fn small_levels() -> Options {
    Options::default()
        .pm_size(4 << 20)
        .zone_size(16 << 10)
        .memtable_bytes(32 << 10)
        .table_bytes(64 << 10)
        .block_cache(1 << 20)
        .background_threads(0)
        .recovery_threads(1)
}

/// Options under which a few hundred records fill a memtable and a table; the test does the background work.
pub fn small_store() -> Options {
    Options::default()
        .pm_size(8 << 20)
        .zone_size(16 << 10)
        .memtable_bytes(64 << 10)
        .table_bytes(64 << 10)
        .background_threads(0)
}

/// Keys in the order of their numbers.
pub fn numbered(i: u64) -> Vec<u8> {
    format!("key{i:06}").into_bytes()
}

#[track_caller]
pub fn kind_of<T>(result: strandline::Result<T>) -> ErrorKind {
    match result {
        Ok(_) => panic!("an error was expected"),
        Err(error) => {
            assert!(error.context().len() > 5, "an error without context: {error}");
            error.kind()
        }
    }
}

/// A store on a heap region and a file system in memory, which can be opened again and again.
pub struct Place {
    pub region: Arc<Region>,
    pub fs: Arc<dyn Fs>,
}

impl Place {
    pub fn new(pm_size: u64, fs: impl Fs) -> Place {
        let fs: Arc<dyn Fs> = Arc::new(fs);
        fs.create_dir_all(Path::new("/sst")).expect("directory");
        Place { region: heap(pm_size), fs }
    }

    pub fn open(&self, options: Options) -> Db {
        self.try_open(options).expect("open")
    }

    pub fn try_open(&self, options: Options) -> strandline::Result<Db> {
        Db::open_on(Arc::clone(&self.region), Arc::clone(&self.fs), "/sst", options)
    }
}

/// Keys whose order is not that of their numbers.
pub fn scattered(i: u64) -> Vec<u8> {
    format!("key{:013}", i.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 10_000_000_000_000).into_bytes()
}

/// A value of some 130 bytes that hardly compresses.
pub fn noise(i: u64, round: u64) -> Vec<u8> {
    let mut rng = Rng::new(i ^ round << 32);
    let mut value = format!("{i}/{round} ").into_bytes();
    value.extend(std::iter::repeat_with(|| rng.next() as u8).take(120));
    value
}

/// Flips a bit of a file.
pub fn flip(path: &Path, at: u64) {
    let file = std::fs::File::options().read(true).write(true).open(path).expect("open");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("read");
    file.write_all_at(&[byte[0] ^ 0x10], at).expect("write");
}

/// Zones and tables that nothing holds. Background work may be writing or about to clear some: it is given time.
#[track_caller]
pub fn assert_nothing_leaked(db: &Db, when: &str) {
    let mut leaked = (0, 0, 0);
    for _ in 0..2000 {
        let space = db.default_keyspace();
        leaked = (
            steps::leaked_zones(space),
            steps::leaked_tables(space).expect("list"),
            steps::claimed_bytes(space),
        );
        if leaked == (0, 0, 0) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    panic!("{when}: {} zones, {} tables and {} claimed bytes leaked", leaked.0, leaked.1, leaked.2);
}

/// Keys with their values.
pub type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// Everything in a keyspace, by a forward scan.
pub fn dump(keyspace: &Keyspace, options: &ReadOptions<'_>) -> Contents {
    let mut iter = keyspace.cursor(options).expect("iter");
    let mut all = BTreeMap::new();
    iter.seek_to_first().expect("first");
    while iter.valid() {
        let value = iter.value().expect("value").expect("valid").to_vec();
        let before = all.insert(iter.key().expect("valid").to_vec(), value);
        assert!(before.is_none(), "a key was yielded twice");
        iter.next().expect("next");
    }
    all
}

pub fn kind_is<T>(result: &strandline::Result<T>, kind: ErrorKind) -> bool {
    result.as_ref().is_err_and(|error| error.kind() == kind)
}

fn name_of(space: u32) -> String {
    format!("space-{space}")
}

/// The operator that the model knows.
struct Merged;

impl MergeOperator for Merged {
    fn merge(
        &self,
        _keyspace: &str,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>> {
        let mut value = existing.map(<[u8]>::to_vec);
        for operand in operands {
            value = Some(Value::merged(value.as_deref(), operand).bytes());
        }
        value
    }
}

/// Puts operands behind the value, one behind the other.
pub struct Joined(pub Combines);

/// Whether an operator combines operands without the value below them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Combines {
    Operands,
    Nothing,
}

impl MergeOperator for Joined {
    fn merge(
        &self,
        _keyspace: &str,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>> {
        Some([existing.unwrap_or_default(), &operands.concat()].concat())
    }

    fn merge_operands(&self, _: &str, _: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        (self.0 == Combines::Operands).then(|| operands.concat())
    }
}

/// Keeps the longest.
pub struct Longest;

impl MergeOperator for Longest {
    fn merge(
        &self,
        _keyspace: &str,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>> {
        let all = existing.into_iter().chain(operands.iter().copied());
        all.max_by_key(|value| value.len()).map(<[u8]>::to_vec)
    }
}

/// What a store needs whose merges the model is to know.
pub fn merging() -> Hooks {
    Hooks::default().merge_operator(Arc::new(Merged))
}

/// Where a store has its tables, what is ingested, and its checkpoints.
pub struct Files {
    pub fs: Arc<dyn Fs>,
    /// Opens a checkpoint by its directory of tables.
    pub open: Box<dyn Fn(&Path) -> Db>,
}

/// The bytes of a table to be ingested: keys in order, each with its value or deleted, and ranges that are deleted.
pub fn external(changes: &[(Vec<u8>, Option<Vec<u8>>)], ranges: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let options = WriterOptions { external: true, ..WriterOptions::default() };
    let mut writer = Writer::new(Vec::new(), options);
    for (key, value) in changes {
        let kind = if value.is_some() { EntryKind::Value } else { EntryKind::Delete };
        writer.add(key, Seq::ZERO, kind, value.as_deref().unwrap_or_default()).expect("add");
    }
    for (from, to) in ranges {
        writer.add_range_delete(from, to, Seq::ZERO).expect("add");
    }
    writer.finish().expect("finish").0
}

/// Writes a new file.
pub fn write_file(fs: &dyn Fs, path: &str, bytes: &[u8]) -> PathBuf {
    let mut file = fs.create(Path::new(path)).expect("create");
    file.append(bytes).expect("append");
    file.sync().expect("sync");
    path.into()
}

/// Removes a checkpoint.
pub fn remove_copy(fs: &dyn Fs, copy: &Path) {
    let dir = copy.join("sst");
    for name in fs.list(&dir).expect("list") {
        fs.remove(&dir.join(&name)).expect("remove");
    }
    fs.remove_dir(&dir).expect("remove");
    fs.remove_dir(copy).expect("remove");
}

struct HeldIter {
    iter: Cursor,
    walk: Walk,
    /// The moment that the iterator sees, so that it can be made anew.
    snapshot: Rc<Snapshot>,
}

/// A store and the model side by side. Every answer is compared at once.
pub struct Driver {
    reopen: Box<dyn Fn() -> Db>,
    db: Option<Db>,
    spaces: BTreeMap<u32, Keyspace>,
    pub model: Model,
    /// Where there are levels.
    pub files: Option<Files>,
    snapshots: BTreeMap<usize, (Rc<Snapshot>, Moment)>,
    iters: BTreeMap<usize, HeldIter>,
    pub transcript: Transcript,
    pub ops: u64,
    /// Times that writes found no space until iterators let go of what they held.
    pub relieved: u64,
    scratch: Vec<u8>,
}

impl Driver {
    pub fn new(reopen: impl Fn() -> Db + 'static) -> Driver {
        let db = reopen();
        let spaces = BTreeMap::from([(0, db.default_keyspace().clone())]);
        Driver {
            reopen: Box::new(reopen),
            db: Some(db),
            spaces,
            model: Model::new(),
            files: None,
            snapshots: BTreeMap::new(),
            iters: BTreeMap::new(),
            transcript: Transcript::default(),
            ops: 0,
            relieved: 0,
            scratch: Vec::new(),
        }
    }

    /// A driver with all of keyspaces 0 to `spaces`, the last not included.
    pub fn with_spaces(spaces: u32, reopen: impl Fn() -> Db + 'static) -> Driver {
        let mut driver = Driver::new(reopen);
        (1..spaces).for_each(|space| driver.run(&Op::Create(space)));
        driver
    }

    pub fn db(&self) -> &Db {
        self.db.as_ref().expect("open")
    }

    pub fn run(&mut self, op: &Op) {
        self.ops += 1;
        match op {
            Op::Write(changes) => self.write(changes),
            Op::DeleteRange { space, begin, end } => self.delete_range(*space, begin, end),
            Op::Merge { space, key, operand } => self.merge(*space, key, *operand),
            Op::Ingest(changes) => self.ingest(changes),
            Op::Get { space, key, at } => self.get(*space, key, *at),
            Op::GetMany { space, keys } => self.get_many(*space, keys),
            Op::Snapshot(slot) => {
                self.release(*slot);
                let taken = (Rc::new(self.db().snapshot()), self.model.snapshot());
                self.snapshots.insert(*slot, taken);
            }
            Op::Release(slot) => self.release(*slot),
            Op::Iterate { slot, space, at, lower, upper } => {
                self.iterate(*slot, *space, *at, lower, upper);
            }
            Op::Walk { slot, moves } => self.walk(*slot, moves),
            Op::Flush => self.db().flush().expect("flush"),
            Op::Compact => self.db().compact().expect("compact"),
            Op::CompactRange { space, from, to } => {
                let Some(keyspace) = self.spaces.get(space) else { return };
                let (from, to) = (from.as_deref(), to.as_deref());
                self.db().compact_range(keyspace, from, to).expect("compact range");
            }
            Op::Split { space, key } => {
                let Some(keyspace) = self.spaces.get(space) else { return };
                // Each has zones of its own, and small pools have few.
                if steps::subranges(keyspace) < SUBRANGES_MAX {
                    let _busy = steps::split(keyspace, key).expect("split");
                }
            }
            Op::Join { space, key } => {
                let Some(keyspace) = self.spaces.get(space) else { return };
                let _busy = steps::join(keyspace, key).expect("join");
            }
            Op::Checkpoint => self.checkpoint(),
            Op::Work(entries) => drop(self.db().work(*entries).expect("work")),
            Op::Create(space) => {
                let created = self.db().create_keyspace(&name_of(*space));
                if self.model.create(*space) {
                    self.spaces.insert(*space, created.expect("create"));
                } else {
                    assert_eq!(kind_of(created), ErrorKind::Exists);
                }
            }
            Op::Drop(space) => self.drop_space(*space),
            Op::Reopen => self.reopen(),
            Op::CompareAll => self.compare_all(),
        }
    }

    /// Does what may find no space as long as iterators hold on to what is old.
    fn with_room(&mut self, attempt: impl Fn(&mut Driver) -> strandline::Result<()>) {
        let mut done = attempt(self);
        if kind_is(&done, ErrorKind::NoSpace) && !self.iters.is_empty() {
            self.relieved += 1;
            self.renew_iters();
            done = attempt(self);
        }
        done.unwrap_or_else(|error| panic!("op {}: {error}; {}", self.ops, self.situation()));
    }

    fn write(&mut self, changes: &[Change]) {
        self.with_room(|driver| driver.try_write(changes));
        self.model.write(changes);
    }

    fn merge(&mut self, space: u32, key: &[u8], operand: Value) {
        let Some(keyspace) = self.spaces.get(&space).cloned() else { return };
        self.with_room(|_| keyspace.merge(key, operand.bytes()));
        self.model.merge(space, key, operand);
    }

    /// Where there are no levels, the changes are written as a batch.
    fn ingest(&mut self, changes: &[Change]) {
        let Some(keyspace) = changes.first().and_then(|one| self.spaces.get(&one.space)).cloned()
        else {
            return;
        };
        let Some(files) = &self.files else { return self.write(changes) };
        let pairs =
            changes.iter().map(|one| (one.key.clone(), one.value.map(|value| value.bytes())));
        let table = external(&pairs.collect::<Vec<_>>(), &[]);
        let path = write_file(&*files.fs, &format!("/{}.sst", self.ops), &table);
        let options = IngestOptions::default().move_files(self.ops.is_multiple_of(2));
        self.with_room(|driver| {
            driver.db().ingest(&keyspace, std::slice::from_ref(&path), options).map(drop)
        });
        let fs = &self.files.as_ref().expect("there").fs;
        assert_eq!(fs.exists(&path).expect("exists"), !options.move_files);
        if !options.move_files {
            fs.remove(&path).expect("remove");
        }
        self.model.write(changes);
    }

    fn checkpoint(&mut self) {
        let Some(files) = &self.files else { return };
        let target = Path::new("/copy");
        self.db().checkpoint(target).expect("checkpoint");
        let copy = (files.open)(&target.join("sst"));
        assert_eq!(copy.keyspaces().len(), self.spaces.len());
        for space in self.spaces.keys() {
            let keyspace = match space {
                0 => copy.default_keyspace().clone(),
                _ => copy.keyspace(&name_of(*space)).expect("keyspace"),
            };
            self.compare(*space, &keyspace, None);
        }
        drop(copy);
        remove_copy(&*files.fs, target);
    }

    fn try_write(&mut self, changes: &[Change]) -> strandline::Result<()> {
        let known: Vec<&Change> =
            changes.iter().filter(|change| self.spaces.contains_key(&change.space)).collect();
        if let [one] = known[..] {
            let keyspace = &self.spaces[&one.space];
            let Some(value) = &one.value else { return keyspace.delete(&one.key) };
            self.scratch.clear();
            value.write_to(&mut self.scratch);
            return keyspace.put(&one.key, &self.scratch);
        }
        let mut batch = Batch::new();
        for change in known {
            let keyspace = &self.spaces[&change.space];
            match &change.value {
                Some(value) => batch.put(keyspace, &change.key, value.bytes()),
                None => batch.delete(keyspace, &change.key),
            }
        }
        self.db().write(&batch)
    }

    fn delete_range(&mut self, space: u32, begin: &[u8], end: &[u8]) {
        if let Some(keyspace) = self.spaces.get(&space) {
            let done = keyspace.delete_range(begin, end);
            done.unwrap_or_else(|error| panic!("op {}: {error}; {}", self.ops, self.situation()));
        }
        self.model.delete_range(space, begin, end);
    }

    /// Makes every held iterator anew where it stands, so that it holds nothing old.
    fn renew_iters(&mut self) {
        for held in self.iters.values_mut() {
            let options = ReadOptions::at(&*held.snapshot)
                .range((held.walk.lower.clone(), held.walk.upper.clone()));
            held.iter = self.spaces[&held.walk.space].cursor(&options).expect("iter");
            if let Some((key, _)) = &held.walk.current {
                held.iter.seek(key).expect("seek");
                assert_eq!(held.iter.key(), Some(&key[..]));
            }
        }
    }

    /// For messages: what is live, and what holds on to old versions.
    pub fn situation(&self) -> String {
        let (keys, bytes) = self.model.live();
        let (snapshots, iters) = (self.snapshots.len(), self.iters.len());
        let properties = self.db().properties();
        format!(
            "{keys} live keys of {bytes} bytes, {snapshots} snapshots, {iters} iterators, {} of {} free, \
             zones {} of {} free, {:?}",
            properties.pm_free,
            properties.pm_capacity,
            properties.zones_free,
            properties.zones,
            properties.keyspaces
        )
    }

    fn get(&mut self, space: u32, key: &[u8], at: Option<usize>) {
        let Some(keyspace) = self.spaces.get(&space) else { return };
        let at = at.and_then(|slot| self.snapshots.get(&slot));
        let options = ReadOptions::at(at.map(|at| &*at.0));
        let found = keyspace.get_with(key, &options).expect("get");
        let expected = self.model.get(space, key, at.map(|at| at.1));
        let same = match (&found, &expected) {
            (Some(found), Some(expected)) => expected.is(found),
            (None, None) => true,
            _ => false,
        };
        assert!(
            same,
            "op {}: key {key:?} of {space}: {:?} bytes, expected {expected:?}",
            self.ops,
            found.map(|found| found.len())
        );
        self.transcript.note(found.as_deref());
    }

    fn get_many(&mut self, space: u32, keys: &[Vec<u8>]) {
        let Some(keyspace) = self.spaces.get(&space) else { return };
        let slices: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let found = keyspace.multi_get(&slices).expect("multi_get");
        assert_eq!(found.len(), keys.len());
        for (key, found) in keys.iter().zip(&found) {
            let expected = self.model.get(space, key, None).map(|value| value.bytes());
            assert_eq!(found, &expected, "op {}: {key:?}", self.ops);
            self.transcript.note(found.as_deref());
        }
    }

    fn release(&mut self, slot: usize) {
        if let Some((_, moment)) = self.snapshots.remove(&slot) {
            self.model.release(moment);
        }
    }

    fn release_iter(&mut self, slot: usize) {
        if let Some(held) = self.iters.remove(&slot) {
            self.model.release(held.walk.at);
        }
    }

    fn iterate(
        &mut self,
        slot: usize,
        space: u32,
        at: Option<usize>,
        lower: &Bound<Vec<u8>>,
        upper: &Bound<Vec<u8>>,
    ) {
        self.release_iter(slot);
        let Some(keyspace) = self.spaces.get(&space) else { return };
        let at = at.and_then(|slot| self.snapshots.get(&slot));
        let (lower, upper) = (lower.clone(), upper.clone());
        let options = ReadOptions::at(at.map(|at| &*at.0)).range((lower.clone(), upper.clone()));
        let iter = keyspace.cursor(&options).expect("iter");
        let snapshot = match at {
            Some((snapshot, _)) => Rc::clone(snapshot),
            None => Rc::new(self.db().snapshot()),
        };
        assert!(!iter.valid() && iter.key().is_none(), "a new iterator stands nowhere");
        let moment = match at {
            Some((_, moment)) => self.model.again(*moment),
            None => self.model.snapshot(),
        };
        let walk = Walk::new(space, moment, lower, upper);
        self.iters.insert(slot, HeldIter { iter, walk, snapshot });
    }

    fn walk(&mut self, slot: usize, moves: &[Move]) {
        let Some(held) = self.iters.get_mut(&slot) else { return };
        let HeldIter { iter, walk, .. } = held;
        for to in moves {
            match to {
                Move::First => iter.seek_to_first(),
                Move::Last => iter.seek_to_last(),
                Move::Seek(key) => iter.seek(key),
                Move::SeekForPrev(key) => iter.seek_for_prev(key),
                Move::Next => iter.next(),
                Move::Prev => iter.prev(),
            }
            .expect("move");
            walk.go(&self.model, to);
            let expected = walk.current.as_ref().map(|(key, _)| &key[..]);
            assert_eq!(iter.key(), expected, "op {}: after {to:?} in {moves:?}", self.ops);
            assert_eq!(iter.valid(), expected.is_some());
            let value = iter.value().expect("value");
            match (&walk.current, value) {
                (Some((_, expected)), Some(value)) => assert!(expected.is(value)),
                (None, None) => break,
                _ => panic!("op {}: a key without a value", self.ops),
            }
            self.transcript.note(iter.key());
            self.transcript.note(value);
        }
    }

    fn drop_space(&mut self, space: u32) {
        let dropped = self.db().drop_keyspace(&name_of(space));
        if !self.model.has(space) {
            assert_eq!(kind_of(dropped), ErrorKind::NotFound);
            return;
        }
        dropped.expect("drop keyspace");
        let slots: Vec<usize> = self.iters.keys().copied().collect();
        for slot in slots {
            if self.iters[&slot].walk.space == space {
                self.release_iter(slot);
            }
        }
        let handle = self.spaces.remove(&space).expect("was known");
        assert_eq!(kind_of(handle.get(b"any")), ErrorKind::Closed);
        assert_eq!(kind_of(handle.put(b"any", b"")), ErrorKind::Closed);
        self.model.drop_space(space);
    }

    fn reopen(&mut self) {
        let snapshots: Vec<usize> = self.snapshots.keys().copied().collect();
        snapshots.into_iter().for_each(|slot| self.release(slot));
        let iters: Vec<usize> = self.iters.keys().copied().collect();
        iters.into_iter().for_each(|slot| self.release_iter(slot));
        self.spaces.clear();
        self.db = None;
        let db = (self.reopen)();
        assert!(db.recovery().damage.is_empty(), "{:?}", db.recovery().damage);
        for space in self.model.spaces() {
            let keyspace = match space {
                0 => db.default_keyspace().clone(),
                _ => db.keyspace(&name_of(space)).expect("keyspace"),
            };
            self.spaces.insert(space, keyspace);
        }
        assert_eq!(db.keyspaces().len(), self.spaces.len());
        self.db = Some(db);
    }

    /// Full scans both ways, now and at every open snapshot, and a look-up of every key.
    pub fn compare_all(&mut self) {
        for (space, keyspace) in &self.spaces {
            self.compare(*space, keyspace, None);
            self.snapshots.values().for_each(|at| self.compare(*space, keyspace, Some(at)));
        }
        let report = self.db().check().expect("check");
        assert!(report.damage.is_empty(), "op {}: {:?}", self.ops, report.damage);
    }

    /// Compares a keyspace of this store, or of a copy, with the model, now or at a snapshot.
    fn compare(&self, space: u32, keyspace: &Keyspace, at: Option<&(Rc<Snapshot>, Moment)>) {
        let moment = at.map(|at| at.1);
        let options = ReadOptions::at(at.map(|at| &*at.0));
        let mut iter = keyspace.cursor(&options).expect("iter");
        iter.seek_to_first().expect("first");
        for (key, value) in self.model.entries(space, moment) {
            assert_eq!(iter.key(), Some(key), "op {}: forward at {moment:?}", self.ops);
            assert!(value.is(iter.value().expect("value").expect("valid")));
            let found = keyspace.get_with(key, &options).expect("get");
            assert!(found.is_some_and(|found| value.is(&found)));
            iter.next().expect("next");
        }
        assert!(!iter.valid(), "op {}: {:?} should not be there", self.ops, iter.key());
        iter.seek_to_last().expect("last");
        for (key, _) in self.model.entries(space, moment).rev() {
            assert_eq!(iter.key(), Some(key), "op {}: backward at {moment:?}", self.ops);
            iter.prev().expect("prev");
        }
        assert!(!iter.valid());
    }

    /// The comparison that ends a run: everything, then once more after a reopen, and nothing leaked.
    pub fn finish(mut self) -> Transcript {
        self.compare_all();
        self.reopen();
        self.compare_all();
        assert_nothing_leaked(self.db(), "at the end");
        self.transcript
    }
}
