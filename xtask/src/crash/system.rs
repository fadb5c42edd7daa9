//! The engine as a system that the explorer can crash.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use base::planted::{self, Bug};
use base::{Error, ErrorKind, Result};
use bumpalo::Bump;
use pmem::Region;
use sim::{Op, Probe, Progress, Show, System, Write as Change};
use ssd::{Disk, Fs};
use strandline::steps::{self, Read, Step, Stepped, Write};
use strandline::{Compression, Db, Keyspace, Options, ReadOptions, Snapshot};

/// Every key of every workload.
const KEYS: [&[u8]; 8] = [b"k0", b"k1", b"k2", b"k3", b"k4", b"k5", b"k6", b"k7"];
/// Keyspaces of every store.
const NAMES: [&str; 2] = ["default", "other"];
/// Kinds of background work; see [`Engine::background`].
pub const KINDS: u8 = 4;
/// The same of a store with tables.
pub const KINDS_OF_LEVELS: u8 = 5;

/// The engine in a pool so small that zones switch and are granted anew all the time.
#[derive(Clone, Copy, Debug)]
pub struct Engine {
    /// Zones in the pool.
    pub zones: u64,
    /// Bytes of records at which a memtable is frozen.
    pub memtable_bytes: u64,
    /// Bytes at which tables on SSD are cut; where there is none, everything stays in memory.
    pub table_bytes: Option<u64>,
    /// A logic fault that is switched on.
    pub planted: Option<Bug>,
}

/// Zones hold at most eight records of two lines.
const ZONE_LEN: u64 = 1024;
const MANIFEST_LEN: u64 = 2048;
/// Where there are tables, the manifest names them.
const MANIFEST_LEN_OF_LEVELS: u64 = 4096;
/// The directory of tables.
const SST: &str = "/sst";
/// Bytes that a power cut keeps or takes whole: some of them make a table.
const SECTOR: usize = 512;

/// An open store.
pub struct Store {
    spaces: Vec<Keyspace>,
    db: Option<Db>,
    region: Arc<Region>,
    /// Keys and values of operations under way.
    bytes: Bump,
    probe: RefCell<Probe>,
    turns: Cell<u8>,
    /// Commits behind W2 that are not published.
    in_flight: Cell<u32>,
}

impl Store {
    /// Which of `ways` an operation takes: each in its turn.
    fn turn(&self, ways: u8) -> u8 {
        let turn = self.turns.get();
        self.turns.set(turn.wrapping_add(1));
        turn % ways
    }

    /// A commit is published, or given up.
    fn lands(&self) {
        self.in_flight.set(self.in_flight.get() - 1);
    }
}

/// An operation under way.
pub enum Task<'s> {
    /// Not begun: W1 is a step of its own.
    Asked(Vec<(usize, steps::Change<'s>)>, Option<u8>),
    /// A commit.
    Commit(Committing<'s>),
    /// A read of a key.
    Read(&'s Keyspace, &'s [u8], Reading<'s>),
    /// Background work, so many steps of it.
    Background(u8, u32),
}

/// How far a commit is.
pub struct Committing<'s> {
    write: Write<'s>,
    /// After how many steps it is given up.
    give_up: Option<u8>,
    /// For how many steps the writer sleeps.
    nap: u8,
}

/// How far a read is.
pub enum Reading<'s> {
    Asked,
    /// The first half of R1 is done; the reader sleeps for so many steps.
    Pinning(Read<'s>, u8),
    /// It took a snapshot, and reads there after so many steps.
    Snapshot(Snapshot, u8),
}

/// Steps for which a reader sleeps: others freeze and merge meanwhile.
const READER_NAP: u8 = 30;
/// Steps for which a writer sleeps before its fence: others have commits in flight meanwhile.
const WRITER_NAP: u8 = 10;

/// A commit is given up so many steps behind W2: after W4, at once, after the copy, after the fence.
const WAYS_TO_GIVE_UP: [u8; 4] = [3, 0, 1, 2];

impl Engine {
    fn options(&self) -> Options {
        Options {
            memtable_bytes: self.memtable_bytes,
            table_bytes: self.table_bytes.unwrap_or(1 << 20),
            block_cache: 64 << 10,
            compression: Compression::None,
            background_threads: 0,
            recovery_threads: 1,
            ..Options::default()
        }
    }

    fn manifest_len(&self) -> u64 {
        if self.table_bytes.is_some() { MANIFEST_LEN_OF_LEVELS } else { MANIFEST_LEN }
    }

    fn open_on(&self, region: &Arc<Region>, fs: Arc<dyn Fs>) -> Result<Db> {
        let region = Arc::clone(region);
        match self.table_bytes {
            Some(_) => Db::open_on(region, fs, SST, self.options()),
            None => Db::open_region(region, self.options()),
        }
    }

    fn store(&self, region: Arc<Region>, db: Db) -> Result<Store> {
        let mut spaces = Vec::with_capacity(NAMES.len());
        for name in NAMES {
            spaces.push(match db.keyspace(name) {
                Err(error) if error.kind() == ErrorKind::NotFound => db.create_keyspace(name)?,
                opened => opened?,
            });
        }
        let recovery = db.recovery();
        let probe = Probe {
            cuts_below_survivor: recovery.survivors_dropped,
            damage: recovery.damage.len() as u64,
            swept: recovery.zones_swept + recovery.tables_swept,
            ..Probe::default()
        };
        Ok(Store {
            spaces,
            db: Some(db),
            region,
            bytes: Bump::new(),
            probe: RefCell::new(probe),
            turns: Cell::new(0),
            in_flight: Cell::new(0),
        })
    }

    /// One step of background work: freeze the active memtable, or do a few entries of whatever is due.
    fn background(&self, store: &Store, kind: u8, step: u32) -> Result<Progress> {
        let Some(db) = &store.db else { return Ok(Progress::Done) };
        match (kind, step) {
            (0 | 1, 0) => {
                store.spaces.iter().for_each(steps::rotate);
                store.probe.borrow_mut().freezes += 1;
            }
            (2, 0) => {
                // Merge everything; freezes come first, a few entries at a time.
                steps::reclaim(&store.spaces[0]);
                store.probe.borrow_mut().merges += 1;
            }
            // Whoever compacts by hand waits for commits that are on their way, and this thread makes them.
            (4, 0) if store.in_flight.get() == 0 => db.compact()?,
            _ => {
                let idle = db.work(if self.table_bytes.is_some() { 1 } else { 3 })?;
                if idle || step > 40 {
                    return Ok(Progress::Done);
                }
            }
        }
        Ok(Progress::More)
    }
}

#[cold]
fn disagree(key: &[u8]) -> Error {
    let key = String::from_utf8_lossy(key);
    Error::new(
        ErrorKind::Internal,
        "visit",
        format!("walk and point read disagree about key {key}"),
    )
}

fn refused(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NoSpace | ErrorKind::LimitExceeded)
}

impl System for Engine {
    type Store = Store;
    type Task<'s> = Task<'s>;

    fn region_len(&self) -> u64 {
        let tables = (4096 + self.zones * 64 + 2 * self.manifest_len()).next_multiple_of(4096);
        tables + self.zones * ZONE_LEN
    }

    fn disk(&self) -> Disk {
        Disk::new(SECTOR)
    }

    fn create(&self, region: Region, fs: Arc<dyn Fs>) -> Result<Store> {
        planted::plant(self.planted);
        let region = Arc::new(region);
        if self.table_bytes.is_some() {
            fs.create_dir_all(SST.as_ref())?;
            fs.sync_dir("/".as_ref())?;
        }
        let format = pool::Format { zone_len: ZONE_LEN, manifest_len: self.manifest_len() };
        steps::format(&region, format, 0x5eed)?;
        let db = self.open_on(&region, fs)?;
        self.store(region, db)
    }

    fn open(&self, region: Region, fs: Arc<dyn Fs>) -> Result<Store> {
        planted::plant(self.planted);
        let region = Arc::new(region);
        steps::formatted(&region)?;
        let db = self.open_on(&region, fs)?;
        self.store(region, db)
    }

    fn close(&self, store: Store) -> Option<Region> {
        let Store { spaces, db, region, bytes, .. } = store;
        drop((spaces, db, bytes));
        Arc::into_inner(region)
    }

    fn begin<'s>(&'s self, store: &'s Store, op: &Op) -> Result<Task<'s>> {
        let keep = |bytes: &[u8]| -> &'s [u8] { store.bytes.alloc_slice_copy(bytes) };
        Ok(match op {
            Op::Commit { writes, abandon, .. } => {
                let changes = writes.iter().filter_map(|write| match write {
                    Change::Put { keyspace, key, value } => {
                        let change =
                            steps::Change { key: keep(key), value: Some(keep(&value.bytes())) };
                        Some((usize::from(*keyspace), change))
                    }
                    Change::Delete { keyspace, key } => Some((
                        usize::from(*keyspace),
                        steps::Change { key: keep(key), value: None },
                    )),
                    Change::DeleteRange { .. } => None,
                });
                let changes: Vec<_> = changes.collect();
                let give_up = abandon.then(|| WAYS_TO_GIVE_UP[usize::from(store.turn(4))]);
                Task::Asked(changes, give_up)
            }
            Op::Read { keyspace, key, .. } => {
                Task::Read(&store.spaces[usize::from(*keyspace)], keep(key), Reading::Asked)
            }
            Op::Background { kind, .. } => Task::Background(*kind, 0),
            Op::Reopen => Task::Background(u8::MAX, u32::MAX),
        })
    }

    fn step<'s>(&'s self, store: &'s Store, task: &mut Task<'s>) -> Result<Progress> {
        match task {
            Task::Asked(changes, give_up) => match Write::admit(&store.spaces, changes) {
                Ok(write) => {
                    *task = Task::Commit(Committing { write, give_up: *give_up, nap: 0 });
                    Ok(Progress::More)
                }
                Err(error) if refused(&error) => Ok(Progress::Refused),
                Err(error) => Err(error),
            },
            Task::Commit(commit) => step_commit(store, commit),
            Task::Read(space, key, reading) => step_read(store, space, key, reading),
            Task::Background(kind, step) => {
                let progress = self.background(store, *kind, *step)?;
                *step += 1;
                Ok(progress)
            }
        }
    }

    fn visit(&self, store: &Store, each: &mut Show<'_>) -> Result<()> {
        for (number, space) in store.spaces.iter().enumerate() {
            let mut iter = space.iter(&ReadOptions::default())?;
            iter.seek_to_first()?;
            let mut shown = 0;
            while let Some(key) = iter.key() {
                if let Some(value) = iter.value()? {
                    each(number as u8, key, value);
                    shown += 1;
                    if space.get(key)?.as_deref() != Some(value) {
                        return Err(disagree(key));
                    }
                }
                iter.next()?;
            }
            // A walk merges by sequence number, a point read stops at the first source: what one hides the
            // other may show.
            let mut found = 0;
            for key in KEYS {
                found += u32::from(space.get(key)?.is_some());
            }
            if found != shown {
                return Err(disagree(b"one that is absent"));
            }
        }
        Ok(())
    }

    fn cut(&self, store: &Store) -> u64 {
        store.db.as_ref().map_or(0, |db| db.recovery().cut)
    }

    fn leaks(&self, store: &Store) -> u64 {
        let space = &store.spaces[0];
        steps::leaked_zones(space) + steps::leaked_tables(space).unwrap_or(1)
    }

    fn probe(&self, store: &Store) -> Probe {
        let mut probe = *store.probe.borrow();
        probe.regrants = steps::zones_regranted(&store.spaces[0]);
        let compactions = steps::compactions(&store.spaces[0]);
        probe.drained = compactions.level0;
        probe.sunk = compactions.levels;
        probe.moved = compactions.moves;
        probe
    }
}

fn step_commit(store: &Store, commit: &mut Committing<'_>) -> Result<Progress> {
    let Committing { write, give_up, nap } = commit;
    if *nap > 0 {
        *nap -= 1;
        return Ok(Progress::More);
    }
    if write.last_seq().is_some() {
        // Given up after W2, after the copy, after the fence, or after W4.
        match give_up {
            Some(0) => {
                write.abandon();
                store.lands();
                return Ok(Progress::GaveUp);
            }
            Some(left) => *left -= 1,
            None => {}
        }
    }
    match write.step() {
        Ok(Stepped::Did(Step::Reserve { number, switched_zone })) => {
            store.probe.borrow_mut().zone_switches += u64::from(switched_zone);
            store.in_flight.set(store.in_flight.get() + 1);
            Ok(Progress::Reserved(number))
        }
        Ok(Stepped::Did(Step::Copy)) => {
            *nap = if store.turn(2) == 0 { WRITER_NAP } else { 0 };
            Ok(Progress::More)
        }
        Ok(Stepped::Did(_) | Stepped::Waited) => Ok(Progress::More),
        Ok(Stepped::Acknowledged) => {
            store.lands();
            Ok(Progress::Done)
        }
        Ok(Stepped::Unpublished) => Ok(Progress::Blocked),
        Err(error) if refused(&error) => Ok(Progress::Refused),
        Err(error) => Err(error),
    }
}

fn step_read<'s>(
    store: &Store,
    space: &'s Keyspace,
    key: &[u8],
    reading: &mut Reading<'s>,
) -> Result<Progress> {
    match reading {
        Reading::Asked => {
            *reading = match (store.turn(3), &store.db) {
                (0, Some(db)) => {
                    *reading = Reading::Snapshot(db.snapshot(), READER_NAP);
                    return Ok(Progress::Fixed);
                }
                (1, _) => Reading::Pinning(Read::begin(space), READER_NAP),
                _ => Reading::Pinning(Read::begin(space), 0),
            };
        }
        Reading::Pinning(_, nap @ 1..) | Reading::Snapshot(_, nap @ 1..) => *nap -= 1,
        Reading::Pinning(read, _) => match read.finish(key)? {
            Some(value) => return Ok(Progress::Found(value)),
            None => *reading = Reading::Pinning(Read::begin(space), 0),
        },
        Reading::Snapshot(snapshot, _) => {
            let options = ReadOptions { snapshot: Some(snapshot), ..ReadOptions::default() };
            return Ok(Progress::Found(space.get_with(key, &options)?));
        }
    }
    Ok(Progress::More)
}
