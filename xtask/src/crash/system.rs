//! The engine as a system that the explorer can crash.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use base::planted::{self, Bug};
use base::{Error, ErrorKind, Result};
use bumpalo::Bump;
use pmem::Region;
use sim::{Beside, Keys, Op, Probe, Progress, Show, System, Write as Change};
use ssd::{Disk, Fs};
use strandline::steps::{self, Given, Read, Step, Stepped, Write};
use strandline::{
    Compression, Db, Keyspace, Level0Form, Options, PmSource, ReadOptions, Snapshot, SsdSource,
    WalSync,
};

use super::whole::{self, BESIDE, Incoming, Spaces};

/// Keyspaces by number.
pub const NAMES: [&str; 3] = ["default", "other", "spare"];
/// The one that comes and goes; the others are always there.
pub const SPARE: usize = 2;
/// The one that has a time to live, where one has.
pub const EXPIRING: usize = 1;
/// Kinds of background work; see [`Engine::background`].
pub const KINDS: u8 = 4;
/// The same of a store with tables.
pub const KINDS_OF_LEVELS: u8 = 5;
/// The same where subranges are split and joined, too.
pub const KINDS_OF_CUTS: u8 = 8;
/// Subranges of a keyspace at most: each takes two zones.
const SUBRANGES_MAX: usize = 3;

/// The engine in a pool so small that zones switch and are granted anew all the time.
#[derive(Clone, Copy, Debug)]
pub struct Engine {
    /// Keys of every keyspace of the workload.
    pub keys: Keys,
    /// Zones in the pool, and bytes of one.
    pub zones: u64,
    pub zone_len: u64,
    /// Bytes of one of the two areas of the manifest, which names zones, runs and tables.
    pub manifest_len: u64,
    /// Bytes of records at which a memtable is flushed.
    pub memtable_bytes: u64,
    /// Bytes at which tables on SSD are cut; where there is none, everything stays in memory.
    pub table_bytes: Option<u64>,
    /// What level 0 is made of.
    pub level0: Level0Form,
    /// Percent of the pool that tables may take; then a zone must hold one.
    pub pm_tables: u32,
    /// Bytes that the store may take; 0 is as much as there is.
    pub ssd_size: u64,
    /// Records are in DRAM, which power failure takes, with a log on the disk.
    pub journaled: bool,
    /// The store is a directory with a file `STORE`, made and opened as a user's is, and not bare parts.
    pub named: bool,
    /// One keyspace has a time to live; what is deleted there is a value that has expired as it is written.
    pub expires: bool,
    /// A logic fault that is switched on.
    pub planted: Option<Bug>,
}

/// The directory of tables.
pub const SST: &str = "/sst";
/// The directory of the log.
pub const WAL: &str = "/wal";
/// The directory of a store that is one, below another that is made with it.
const STORE: &str = "/deep/store";
/// Identifier of every store.
pub const ID: u64 = 0x5eed;
/// What the clock says when a store is made. At later opens it has fallen to nothing, and what had expired must stay so.
pub const NOON: Duration = Duration::from_secs(1_000_000);
/// Bytes that a power cut keeps or takes whole: some of them make a table.
const SECTOR: usize = 512;

/// An open store.
pub struct Store {
    pub spaces: Spaces,
    db: Db,
    region: Arc<Region>,
    /// The memory that a store with a log does without.
    unused: Option<Region>,
    pub fs: Arc<dyn Fs>,
    /// Keys and values of operations under way.
    bytes: Bump,
    pub probe: RefCell<Probe>,
    turns: Cell<u8>,
    /// Commits behind W2 that are not published.
    pub in_flight: Cell<u32>,
}

impl Store {
    /// Which of `ways` an operation takes: each in its turn.
    fn turn(&self, ways: u8) -> u8 {
        let turn = self.turns.get();
        self.turns.set(turn.wrapping_add(1));
        turn % ways
    }

    /// Whether an operation is turned away: for want of space, or since its keyspace went away meanwhile.
    fn refuses(&self, error: &Error) -> bool {
        let dropped = error.kind() == ErrorKind::Closed && self.probe.borrow().spaces_dropped > 0;
        refused(error) || dropped && self.db.sync().is_ok()
    }

    /// A commit is published, or given up.
    fn lands(&self) {
        self.in_flight.set(self.in_flight.get() - 1);
    }
}

/// An operation under way.
pub enum Task<'s> {
    /// Not begun: W1 is a step of its own.
    Asked(Vec<(&'s Keyspace, steps::Change<'s>)>, Option<u8>),
    /// A commit.
    Commit(Committing<'s>),
    /// A read of a key.
    Read(&'s Keyspace, &'s [u8], Reading<'s>),
    /// Background work, so many steps of it.
    Background(u8, u32),
    /// A keyspace is made or dropped.
    Keyspace(Change),
    /// A file is taken in.
    Ingest(Incoming),
    /// A checkpoint with this number.
    Checkpoint(u32),
    /// Its keyspace is not there.
    Nowhere,
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

/// Steps for which a reader sleeps: others flush and merge meanwhile.
const READER_NAP: u8 = 30;
/// Steps for which a writer sleeps before its fence: others have commits in flight meanwhile.
const WRITER_NAP: u8 = 10;

/// A commit is given up so many steps behind W2: after W4, at once, after the copy, after the fence.
const WAYS_TO_GIVE_UP: [u8; 4] = [3, 0, 1, 2];

impl Engine {
    pub fn options(&self) -> Options {
        Options::default()
            .memtable_bytes(self.memtable_bytes)
            .level0(self.level0)
            // Cut by hand only.
            .subranges(1)
            .table_bytes(self.table_bytes.unwrap_or(1 << 20))
            .pm_tables(self.pm_tables)
            .ssd_size(self.ssd_size)
            .block_cache(64 << 10)
            .compression(Compression::None)
            .background_threads(0)
            .recovery_threads(1)
    }

    /// The memory that the store is in, and what it does without.
    fn memory(
        &self,
        region: Region,
        fs: &Arc<dyn Fs>,
        fresh: Option<(u64, u64)>,
    ) -> Result<(Arc<Region>, Option<Region>)> {
        if !self.journaled {
            return Ok((Arc::new(region), None));
        }
        let log = (Arc::clone(fs), WAL.as_ref());
        match steps::journaled(log, WalSync::Always, fresh)? {
            Some(journaled) => Ok((journaled, Some(region))),
            None => Err(Error::new(ErrorKind::NotFound, "open", "there is no log")),
        }
    }

    fn open_on(
        &self,
        (region, unused): (Arc<Region>, Option<Region>),
        fs: Arc<dyn Fs>,
        time: Duration,
    ) -> Result<Store> {
        let tables = self.table_bytes.map(|_| (Arc::clone(&fs), SST.as_ref()));
        let db = steps::open(Arc::clone(&region), tables, self.options(), whole::hooks(time))?;
        self.opened(db, (region, unused), fs)
    }

    /// Opens the store by its name, making it first if that is asked for.
    fn open_named(
        &self,
        region: Region,
        fs: Arc<dyn Fs>,
        create_if_missing: bool,
    ) -> Result<Store> {
        let memory = Arc::new(region);
        let given = Given {
            fs: Arc::clone(&fs),
            memory: Arc::clone(&memory),
            format: self.format(),
            id: ID,
        };
        let options = self
            .options()
            .create_if_missing(create_if_missing)
            .pm(if self.journaled { PmSource::Dram } else { PmSource::Auto })
            .ssd(if self.table_bytes.is_some() { SsdSource::Auto } else { SsdSource::None })
            .wal_sync(WalSync::Always);
        let time = if create_if_missing { NOON } else { Duration::ZERO };
        let db = steps::open_at(&given, STORE.as_ref(), options, whole::hooks(time))?;
        drop(given);
        self.opened(db, (memory, None), fs)
    }

    fn format(&self) -> pool::Format {
        pool::Format { zone_len: self.zone_len, manifest_len: self.manifest_len }
    }

    fn opened(
        &self,
        db: Db,
        (region, unused): (Arc<Region>, Option<Region>),
        fs: Arc<dyn Fs>,
    ) -> Result<Store> {
        let spaces = Spaces::of(&db, self.expires.then_some(EXPIRING))?;
        let recovery = db.recovery();
        let probe = Probe {
            cuts_below_survivor: recovery.survivors_dropped,
            damage: recovery.damage.len() as u64,
            swept: recovery.zones_swept + recovery.tables_swept,
            ..Probe::default()
        };
        Ok(Store {
            spaces,
            db,
            region,
            unused,
            fs,
            bytes: Bump::new(),
            probe: RefCell::new(probe),
            turns: Cell::new(0),
            in_flight: Cell::new(0),
        })
    }

    /// Each key in its turn.
    fn turn_of_key(&self, store: &Store) -> Vec<u8> {
        self.keys.key(store.turn(self.keys.count as u8).into())
    }

    /// Joins subranges, in every keyspace two.
    fn join(&self, store: &Store) -> Result<()> {
        let key = self.turn_of_key(store);
        for (_, space) in store.spaces.each() {
            if steps::join(space, &key)? {
                store.probe.borrow_mut().joins += 1;
            }
        }
        Ok(())
    }

    /// One step of background work: flush the active memtable, or do a few entries of whatever is due.
    fn background(&self, store: &Store, kind: u8, step: u32) -> Result<Progress> {
        let Store { db, spaces, .. } = store;
        match (kind, step) {
            (0 | 1, 0) => {
                spaces.each().for_each(|(_, space)| steps::switch_memtable(space));
                store.probe.borrow_mut().flushes += 1;
            }
            (2, 0) => {
                // Merge everything; flushes come first, a few entries at a time.
                steps::reclaim(db.default_keyspace());
                store.probe.borrow_mut().merges += 1;
            }
            (5 | 6, 0) => {
                let key = self.turn_of_key(store);
                for (_, space) in spaces.each() {
                    if steps::subranges(space) < SUBRANGES_MAX && steps::split(space, &key)? {
                        store.probe.borrow_mut().splits += 1;
                    }
                }
            }
            // A compaction by hand waits for commits that are on their way, and this thread makes them.
            (4, 0) if store.in_flight.get() == 0 => match db.compact() {
                // There was no room for its output.
                Err(error) if refused(&error) => {}
                compacted => compacted?,
            },
            _ => {
                let idle = db.work(if self.table_bytes.is_some() { 1 } else { 3 })?;
                if idle || step > 40 {
                    if kind == 7 {
                        // Only what does not wait for anything is joined.
                        self.join(store)?;
                    }
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

/// Calls of background work after which a store is at rest.
const STEPS_TO_REST: u32 = 1000;

/// Whether space is short.
pub fn refused(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NoSpace | ErrorKind::LimitExceeded)
}

impl System for Engine {
    type Store = Store;
    type Task<'s> = Task<'s>;

    fn region_len(&self) -> u64 {
        let zones = self.zones * 64 + (self.zones * 8).next_multiple_of(64);
        let tables =
            (4096 + zones + 2 * self.manifest_len).next_multiple_of(4096.max(self.zone_len));
        tables + self.zones * self.zone_len
    }

    fn disk(&self) -> Disk {
        Disk::new(SECTOR)
    }

    fn create(&self, region: Region, fs: Arc<dyn Fs>) -> Result<Store> {
        planted::plant(self.planted);
        if self.named {
            return self.open_named(region, fs, true);
        }
        let dirs = [(SST, self.table_bytes.is_some()), (WAL, self.journaled)];
        for (dir, _) in dirs.iter().filter(|(_, wanted)| *wanted) {
            fs.create_dir_all(dir.as_ref())?;
            fs.sync_dir("/".as_ref())?;
        }
        let memory = self.memory(region, &fs, Some((ID, self.region_len())))?;
        steps::format(&memory.0, self.format(), ID)?;
        self.open_on(memory, fs, NOON)
    }

    fn open(&self, region: Region, fs: Arc<dyn Fs>) -> Result<Store> {
        planted::plant(self.planted);
        if self.named {
            return self.open_named(region, fs, false);
        }
        let memory = self.memory(region, &fs, None)?;
        steps::formatted(&memory.0)?;
        self.open_on(memory, fs, Duration::ZERO)
    }

    fn close(&self, store: Store) -> Option<Region> {
        let Store { spaces, db, region, unused, bytes, .. } = store;
        drop((spaces, db, bytes));
        unused.or_else(|| Arc::into_inner(region))
    }

    fn begin<'s>(&'s self, store: &'s Store, op: &Op) -> Result<Task<'s>> {
        let keep = |bytes: &[u8]| -> &'s [u8] { store.bytes.alloc_slice_copy(bytes) };
        Ok(match op {
            Op::Commit { writes, abandon, .. } => {
                let change = |write: &Change| {
                    let (space, change) = match write {
                        Change::Put { keyspace, key, value } => (
                            keyspace,
                            steps::Change::Put { key: keep(key), value: keep(&value.bytes()) },
                        ),
                        Change::Merge { keyspace, key, operand } => {
                            let operand = keep(&operand.bytes());
                            store.probe.borrow_mut().operands += 1;
                            (keyspace, steps::Change::Merge { key: keep(key), operand })
                        }
                        Change::Delete { keyspace, key } if self.expires => {
                            (keyspace, steps::Change::Expire { key: keep(key) })
                        }
                        Change::Delete { keyspace, key } => {
                            (keyspace, steps::Change::Delete { key: keep(key) })
                        }
                        Change::DeleteRange { keyspace, from, to } => {
                            store.probe.borrow_mut().range_deletes += 1;
                            let (begin, end) = (keep(from), keep(to));
                            (keyspace, steps::Change::DeleteRange { begin, end })
                        }
                        Change::Make { .. } | Change::Drop { .. } => return None,
                    };
                    Some((store.spaces.get(usize::from(*space))?, change))
                };
                let Some(changes) = writes.iter().map(change).collect::<Option<Vec<_>>>() else {
                    return Ok(Task::Nowhere);
                };
                let give_up = abandon.then(|| WAYS_TO_GIVE_UP[usize::from(store.turn(4))]);
                Task::Asked(changes, give_up)
            }
            Op::Read { keyspace, key, .. } => match store.spaces.get(usize::from(*keyspace)) {
                Some(space) => Task::Read(space, keep(key), Reading::Asked),
                None => Task::Nowhere,
            },
            Op::Keyspace { write, .. } => Task::Keyspace(write.clone()),
            Op::Ingest { writes, source, moves, .. } => Task::Ingest(Incoming {
                writes: writes.clone(),
                source: *source,
                moves: *moves,
                made: false,
            }),
            Op::Checkpoint { copy, .. } => Task::Checkpoint(*copy),
            Op::Background { kind, .. } => Task::Background(*kind, 0),
            Op::Reopen => Task::Background(u8::MAX, u32::MAX),
        })
    }

    fn step<'s>(&'s self, store: &'s Store, task: &mut Task<'s>) -> Result<Progress> {
        match task {
            Task::Asked(changes, give_up) => match Write::admit(changes) {
                Ok(write) => {
                    *task = Task::Commit(Committing { write, give_up: *give_up, nap: 0 });
                    Ok(Progress::More)
                }
                Err(error) if store.refuses(&error) => Ok(Progress::Refused),
                Err(error) => Err(error),
            },
            Task::Nowhere => Ok(Progress::Refused),
            Task::Keyspace(change) => whole::keyspace(store, &store.db, change),
            Task::Ingest(incoming) => whole::ingest(store, &store.db, incoming),
            Task::Checkpoint(number) => whole::checkpoint(store, &store.db, *number),
            Task::Commit(commit) => step_commit(store, commit),
            Task::Read(space, key, reading) => match step_read(store, space, key, reading) {
                Err(error) if store.refuses(&error) => Ok(Progress::Refused),
                progress => progress,
            },
            Task::Background(kind, step) => {
                let progress = self.background(store, *kind, *step)?;
                *step += 1;
                Ok(progress)
            }
        }
    }

    fn visit(&self, store: &Store, each: &mut Show<'_>) -> Result<()> {
        show(&store.spaces, self.keys, each)
    }

    fn beside_dir(&self) -> Option<&'static str> {
        self.table_bytes.map(|_| BESIDE)
    }

    fn beside(&self, disk: &Disk) -> Result<Vec<Beside>> {
        whole::beside(disk, self.keys, &self.options())
    }

    fn cut(&self, store: &Store) -> u64 {
        store.db.recovery().cut.get()
    }

    fn leaks(&self, store: &Store) -> u64 {
        let space = store.db.default_keyspace();
        steps::leaked_zones(space) + steps::leaked_tables(space).unwrap_or(1)
    }

    fn misplaced(&self, store: &Store) -> u64 {
        // A compaction that some thread was at holds space that nothing leads to yet: it goes on to its end.
        let at_rest = (0..STEPS_TO_REST).any(|_| store.db.work(usize::MAX).unwrap_or(true));
        if !at_rest {
            return 1;
        }
        steps::misplaced(store.db.default_keyspace()).unwrap_or(1)
    }

    fn probe(&self, store: &Store) -> Probe {
        let mut probe = *store.probe.borrow();
        let space = store.db.default_keyspace();
        probe.regrants = steps::zones_regranted(space);
        let compactions = steps::compactions(space);
        probe.drained = compactions.level0;
        probe.sunk = compactions.levels;
        probe.moved = compactions.moves;
        probe
    }
}

/// Shows every entry, and one with an empty key for the keyspace that comes and goes.
pub fn show(spaces: &Spaces, keys: Keys, each: &mut Show<'_>) -> Result<()> {
    for (number, space) in spaces.each() {
        if number == SPARE {
            each(number as u8, &[], &[]);
        }
        let mut iter = space.cursor(&ReadOptions::default())?;
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
        // A walk merges by sequence number, a point read stops at the first source: what one hides the other may
        // show.
        let mut found = 0;
        for number in 0..keys.count {
            found += u32::from(space.get(keys.key(number))?.is_some());
        }
        if found != shown {
            return Err(disagree(b"one that is absent"));
        }
    }
    Ok(())
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
            Ok(Progress::Reserved(number.get()))
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
        Err(error) if store.refuses(&error) => Ok(Progress::Refused),
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
            *reading = match store.turn(3) {
                0 => {
                    *reading = Reading::Snapshot(store.db.snapshot(), READER_NAP);
                    return Ok(Progress::Fixed);
                }
                1 => Reading::Pinning(Read::begin(space, key), READER_NAP),
                _ => Reading::Pinning(Read::begin(space, key), 0),
            };
        }
        Reading::Pinning(_, nap @ 1..) | Reading::Snapshot(_, nap @ 1..) => *nap -= 1,
        Reading::Pinning(read, _) => match read.finish(key)? {
            Some(value) => return Ok(Progress::Found(value)),
            None => *reading = Reading::Pinning(Read::begin(space, key), 0),
        },
        Reading::Snapshot(snapshot, _) => {
            let options = ReadOptions::at(&*snapshot);
            let value = space.get_with(key, &options)?;
            if walked(space, key, &options)? != value {
                return Err(disagree(key));
            }
            return Ok(Progress::Found(value));
        }
    }
    Ok(Progress::More)
}

/// The value of `key` that a scan from the first key on finds. What it passes, later scans jump over.
fn walked(space: &Keyspace, key: &[u8], options: &ReadOptions<'_>) -> Result<Option<Vec<u8>>> {
    let mut iter = space.cursor(options)?;
    iter.seek_to_first()?;
    while iter.key().is_some_and(|other| other < key) {
        iter.next()?;
    }
    if iter.key() == Some(key) { Ok(iter.value()?.map(<[u8]>::to_vec)) } else { Ok(None) }
}
