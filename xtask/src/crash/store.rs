//! An open store of a campaign: made and opened on bare parts, or by its name as users do.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base::{Error, ErrorKind, Result};
use bumpalo::Bump;
use pmem::{Durability, Region, Storage};
use sim::Probe;
use ssd::Fs;
use strandline::steps::{self, Given};
use strandline::{
    CachePolicy, Compression, Db, Options, PmSource, SsdSource, TierSource, TierSpec, WalSync,
};

use super::consumer::Consumer;
use super::sites::Sites;
use super::system::{EXPIRING, Engine, SimLog, refused};
use super::whole::{self, Spaces};

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

/// What an open by name does where there is no store.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum IfMissing {
    Create,
    Fail,
}

/// The memory of a store.
pub struct StoreMemory {
    pub region: Arc<Region>,
    /// Persistent memory that a store with a log does without.
    pub unused: Option<Region>,
}

/// An open store.
pub struct Store {
    pub spaces: Spaces,
    pub db: Db,
    pub memory: StoreMemory,
    pub fs: Arc<dyn Fs>,
    /// Keys and values of operations under way.
    pub bytes: Bump,
    pub probe: RefCell<Probe>,
    turns: Cell<u8>,
    /// Commits behind W2 that are not published.
    pub in_flight: Cell<u32>,
    /// The consumer of its stream, where it has one.
    pub consumer: RefCell<Consumer>,
}

impl Store {
    /// Which of `ways` an operation takes: each in its turn.
    pub fn turn(&self, ways: u8) -> u8 {
        let turn = self.turns.get();
        self.turns.set(turn.wrapping_add(1));
        turn % ways
    }

    /// Whether an operation is turned away: for want of space, or since its keyspace went away meanwhile.
    pub fn refuses(&self, error: &Error) -> bool {
        let dropped = error.kind() == ErrorKind::Closed && self.probe.borrow().spaces_dropped > 0;
        refused(error) || dropped && self.db.sync().is_ok()
    }

    /// A commit is published, or given up.
    pub fn lands(&self) {
        self.in_flight.set(self.in_flight.get() - 1);
    }
}

impl Engine {
    pub fn options(&self) -> Options {
        Options::default()
            .memtable_bytes(self.memtable_bytes)
            .level0(self.level0)
            // Cut by hand only.
            .subranges(1)
            .table_bytes(self.table_bytes.unwrap_or(1 << 20))
            .value_files_min(self.value_files_min)
            .value_space(self.value_space)
            .pm_tables(self.pm_tables)
            .pm_values(self.pm_values)
            .pm_cache(self.pm_cache)
            .pm_cache_policy(CachePolicy::PmFirst)
            .ssd_size(self.ssd_size)
            .placement(self.placement)
            // What is read of tiers is read from them, and what goes to persistent memory is found there.
            .block_cache(if self.tiers.is_empty() && self.pm_cache == 0 { 64 << 10 } else { 0 })
            .compression(Compression::None)
            .wal_sync(WalSync::Always)
            .wal_io(self.wal_io)
            .background_threads(0)
            .recovery_threads(1)
    }

    /// The memory that the store is in.
    pub fn memory(
        &self,
        region: Region,
        fs: &Arc<dyn Fs>,
        fresh: Option<(u64, u64)>,
    ) -> Result<StoreMemory> {
        if !self.log.is_some() {
            return Ok(StoreMemory { region: Arc::new(region), unused: None });
        }
        let open = if self.log == SimLog::Memory { steps::streamed } else { steps::journaled };
        match open(Arc::clone(fs), WAL.as_ref(), &self.options(), fresh)? {
            Some(journaled) => Ok(StoreMemory { region: journaled, unused: Some(region) }),
            None => Err(Error::new(ErrorKind::NotFound, "open", "there is no log")),
        }
    }

    pub fn open_on(&self, memory: StoreMemory, fs: Arc<dyn Fs>, time: Duration) -> Result<Store> {
        let tables = self.table_bytes.map(|_| (Arc::clone(&fs), SST.as_ref()));
        let mut tiers = self.tier_specs();
        if turns(&*fs, &tiers) {
            tiers.reverse();
        }
        let options = self.options().tiers(TierSource::Dirs(tiers));
        let db = steps::open(Arc::clone(&memory.region), tables, options, whole::hooks(time))?;
        self.opened(db, memory, fs)
    }

    /// Opens the store by its name.
    pub fn open_named(&self, region: Region, fs: Arc<dyn Fs>, missing: IfMissing) -> Result<Store> {
        let memory = Arc::new(region);
        let given = Given {
            fs: Arc::clone(&fs),
            memory: Arc::clone(&memory),
            format: self.format(),
            id: ID,
            storage: match self.log.is_some() {
                true => Storage::Device,
                false => Storage::Persistent(Durability::PowerFailAdr),
            },
        };
        let options = self
            .options()
            .create_if_missing(missing == IfMissing::Create)
            .ssd(if self.table_bytes.is_some() { SsdSource::Auto } else { SsdSource::None });
        let mut tiers = self.tier_specs();
        if missing == IfMissing::Fail && turns(&*fs, &tiers) {
            tiers.pop();
        }
        let options = match tiers.is_empty() {
            true => options,
            false => options.tiers(TierSource::Dirs(tiers)),
        };
        let time = match missing {
            IfMissing::Create => NOON,
            IfMissing::Fail => Duration::ZERO,
        };
        if self.moves && missing == IfMissing::Fail {
            let other = other_memory(&*fs)?;
            let options = options.clone().pm(other);
            steps::convert_at(&given, STORE.as_ref(), &options, whole::hooks(time))?;
        }
        let db = steps::open_at(&given, STORE.as_ref(), options, whole::hooks(time))?;
        drop(given);
        self.opened(db, StoreMemory { region: memory, unused: None }, fs)
    }

    /// Directories of tables besides the own one.
    fn tier_specs(&self) -> Vec<TierSpec> {
        self.tiers.iter().map(|(dir, size)| TierSpec::new(*dir, *size)).collect()
    }

    pub fn format(&self) -> pool::Format {
        pool::Format { zone_len: self.zone_len, manifest_len: self.manifest_len }
    }

    fn opened(&self, db: Db, memory: StoreMemory, fs: Arc<dyn Fs>) -> Result<Store> {
        let sites = if self.sited { Some(Sites::of(self.tiers)) } else { None };
        let spaces = Spaces::of(&db, self.expires.then_some(EXPIRING), sites)?;
        steps::warm_cache(db.default_keyspace());
        let consumer = match self.stream_zones {
            0 => Consumer::default(),
            _ => Consumer::of(&db, &*fs, self)?,
        };
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
            memory,
            fs,
            bytes: Bump::new(),
            probe: RefCell::new(probe),
            turns: Cell::new(0),
            in_flight: Cell::new(0),
            consumer: RefCell::new(consumer),
        })
    }
}

/// Whether an open differs from the one before: by what it finds, so that the same case always goes the same way.
fn turns(fs: &dyn Fs, tiers: &[TierSpec]) -> bool {
    let files = tiers.iter().map(|tier| fs.list(&tier.dir).map_or(0, |names| names.len()));
    files.sum::<usize>() % 2 == 1
}

/// The memory that the store does not have.
fn other_memory(fs: &dyn Fs) -> Result<PmSource> {
    let file = fs.open(&Path::new(STORE).join("STORE"))?;
    let mut text = vec![0; file.len() as usize];
    file.read_at(0, &mut text)?;
    let has_log = String::from_utf8_lossy(&text).contains("\nwal ");
    Ok(if has_log { PmSource::Path(Path::new(STORE).join("pool")) } else { PmSource::Dram })
}
