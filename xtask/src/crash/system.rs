//! The engine as a system that the explorer can crash.

use std::sync::Arc;
use std::time::Duration;

use base::planted::{self, Bug};
use base::{Error, ErrorKind, Result};
use pmem::Region;
use sim::{Beside, Keys, Op, Probe, Progress, Show, System};
use ssd::{Disk, Fs};
use strandline::{Level0Form, Placement, ReadOptions, WalIo, Work, steps};

use super::store::{ID, IfMissing, NOON, SST, Store, WAL};
use super::task::Task;
use super::whole::{self, BESIDE, Spaces};

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
/// Those from here on are turns of the consumer of a stream.
pub const CONSUMER: u8 = KINDS_OF_CUTS;
/// All of them.
pub const KINDS_OF_STREAMS: u8 = CONSUMER + 6;

/// The log of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimLog {
    /// None: records are in persistent memory.
    None,
    /// On the disk.
    Device,
    /// In persistent memory, for which the disk stands: power keeps or takes each word, see [`Engine::sector`].
    Memory,
}

impl SimLog {
    pub fn is_some(self) -> bool {
        self != SimLog::None
    }
}

/// The engine in a pool so small that zones switch and are granted anew all the time.
#[derive(Clone, Copy, Debug)]
pub struct Engine {
    /// Keys of every keyspace of the workload.
    pub keys: Keys,
    /// Bytes that a power cut keeps or takes whole.
    pub sector: usize,
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
    /// Bytes of a value from which on it lies apart, and percent of live values that their files may take; 0: none does.
    pub value_files_min: u64,
    pub value_space: u32,
    /// Percent of the pool that tables may take; then a zone must hold one.
    pub pm_tables: u32,
    /// The same of value files.
    pub pm_values: u32,
    /// The same of a cache, which then has all that is read of files.
    pub pm_cache: u32,
    /// Bytes that the store may take; 0 is as much as there is.
    pub ssd_size: u64,
    /// More directories of tables, with the bytes that each takes. Every other open has them in another order, or, where the
    /// store remembers them, leaves one out.
    pub tiers: &'static [(&'static str, u64)],
    pub placement: Placement,
    /// Keyspaces say which of these directories have their files; one says another thing at every other open.
    pub sited: bool,
    /// What keeps the records, if they are in DRAM, which power failure takes.
    pub log: SimLog,
    /// How a log on the disk is written.
    pub wal_io: WalIo,
    /// The store is a directory with a file `STORE`, made and opened as a user's is, and not bare parts.
    pub named: bool,
    /// Each open moves the store first: from a pool to DRAM with a log, or back.
    pub moves: bool,
    /// One keyspace has a time to live; what is deleted there is a value that has expired as it is written.
    pub expires: bool,
    /// Zones that a stream may keep, whose consumer is [`CONSUMER`]; 0: there is none.
    pub stream_zones: u64,
    /// A logic fault that is switched on.
    pub planted: Option<Bug>,
}

#[cold]
pub fn disagree(key: &[u8]) -> Error {
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
        Disk::new(self.sector)
    }

    fn create(&self, region: Region, fs: Arc<dyn Fs>) -> Result<Store> {
        planted::plant(self.planted);
        if self.named {
            return self.open_named(region, fs, IfMissing::Create);
        }
        let dirs = [(SST, self.table_bytes.is_some()), (WAL, self.log.is_some())];
        for (dir, _) in dirs.iter().filter(|(_, wanted)| *wanted) {
            fs.create_dir_all(dir.as_ref())?;
            fs.sync_dir("/".as_ref())?;
        }
        let memory = self.memory(region, &fs, Some((ID, self.region_len())))?;
        steps::format(&memory.region, self.format(), ID)?;
        self.open_on(memory, fs, NOON)
    }

    fn open(&self, region: Region, fs: Arc<dyn Fs>) -> Result<Store> {
        planted::plant(self.planted);
        if self.named {
            return self.open_named(region, fs, IfMissing::Fail);
        }
        let memory = self.memory(region, &fs, None)?;
        steps::formatted(&memory.region)?;
        self.open_on(memory, fs, Duration::ZERO)
    }

    fn close(&self, store: Store) -> Option<Region> {
        let Store { spaces, db, memory, bytes, .. } = store;
        drop((spaces, db, bytes));
        memory.unused.or_else(|| Arc::into_inner(memory.region))
    }

    fn begin<'s>(&'s self, store: &'s Store, op: &Op) -> Result<Task<'s>> {
        Ok(Task::of(self, store, op))
    }

    fn step<'s>(&'s self, store: &'s Store, task: &mut Task<'s>) -> Result<Progress> {
        task.step(self, store)
    }

    fn visit(&self, store: &Store, each: &mut Show<'_>) -> Result<()> {
        show(&store.spaces, self.keys, each)?;
        if self.stream_zones > 0 { self.check_stream(store) } else { Ok(()) }
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
        let at_rest =
            (0..STEPS_TO_REST).any(|_| store.db.work(usize::MAX).map_or(true, Work::is_idle));
        if !at_rest {
            return 1;
        }
        steps::misplaced(store.db.default_keyspace()).unwrap_or(1)
    }

    fn probe(&self, store: &Store) -> Probe {
        let mut probe = *store.probe.borrow();
        let space = store.db.default_keyspace();
        probe.regrants = steps::zones_regranted(space);
        if let Some(log) = store.memory.region.journal() {
            let log = log.figures();
            (probe.recycled, probe.made_ahead, probe.direct) =
                (log.recycled, log.made_ahead, log.direct);
        }
        probe.large = steps::large_commits(space);
        let compactions = steps::compactions(space);
        probe.drained = compactions.level0;
        probe.sunk = compactions.levels;
        probe.moved = compactions.moves;
        probe.collected = compactions.collected;
        probe.tier_moves = compactions.tier_moves;
        if let Some(cache) = store.db.properties().ssd.and_then(|ssd| ssd.pm_cache) {
            (probe.cached, probe.cached_before) = (cache.inserts, cache.warm);
        }
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
