//! The steps of a write and of a read, one call each, so that a scheduler can interleave several writers and
//! readers under test. Programs use [`Db`] instead.

use std::path::Path;
use std::sync::Arc;

use base::{Result, Seq};
use pmem::{Durability, InFlight, Region, Submitted};
use ssd::Fs;

use crate::engine::{Access, Engine};
use crate::keyspace::write_head::{Lack, Permit};
use crate::open;
pub use crate::open::ground::Given;
use crate::open::ground::Machine;
use crate::read::get::{AsOfNow, Pinning, SearchDepth};
use crate::record::format::Kind;
use crate::tree::tables::TableDir;
use crate::wal::{self, DurableFiles, LogMedium, LogMode, LogOwner, MemoryWorth, Setting};
use crate::write::acknowledge::Published;
use crate::write::commit::{Commit, NotAdmitted};
use crate::write::condition::Unconditional;
use crate::write::large::{LargeCommit, StagedSoFar};
use crate::write::numbering::Numbering;
use crate::write::op::{Op, Ops};
use crate::write::way::WriteWay;
use crate::{Batch, Conversion, Db, Hooks, Keyspace, MachineMemory, Options, WriteOptions};

/// A change of a key, or of a range of them.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Change<'a> {
    Put {
        key: &'a [u8],
        value: &'a [u8],
    },
    Delete {
        key: &'a [u8],
    },
    /// In a keyspace with a time to live: a value that has expired as it is written. Elsewhere as `Delete`.
    Expire {
        key: &'a [u8],
    },
    Merge {
        key: &'a [u8],
        operand: &'a [u8],
    },
    DeleteRange {
        begin: &'a [u8],
        end: &'a [u8],
    },
}

/// What a step of a write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stepped {
    /// The named step is done.
    Did(Step),
    /// W2 lacked something that W1 provides; it will try again.
    Waited,
    /// The commit is visible: this is where a caller would be told.
    Acknowledged,
    /// An older commit must become visible first.
    Unpublished,
}

/// Steps of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Step {
    Admit,
    /// Records of a large commit are written and fenced. It has no number yet.
    Stage,
    Reserve {
        number: Seq,
        switched_zone: bool,
    },
    Copy,
    /// The fence, or the place in the queue of the log.
    Submit,
    Index,
    Publish,
    /// The log is written, for all that wait.
    Settle,
}

/// A write that is carried on step by step. Dropping it between W2 and W5 makes it void.
pub struct Write<'a> {
    engine: &'a Engine,
    state: StepState<'a>,
}

enum StepState<'a> {
    Admitted(Commit<'a, 'a>),
    Reserved(Commit<'a, 'a>),
    Copied(Commit<'a, 'a>, InFlight<'a>),
    Submitted(Commit<'a, 'a>, Submitted),
    Indexed(Commit<'a, 'a>, Submitted),
    /// A large commit whose turn has not come.
    Queued(Ops<'a>),
    Staging(Large<'a>),
    Staged(Large<'a>),
    LargeReserved(Large<'a>),
    LargeCopied(Large<'a>, InFlight<'a>),
    LargeSubmitted(Large<'a>, Submitted),
    LargeIndexed(Large<'a>, Submitted),
    Unsettled(Published),
    Published(Seq),
    Taken,
}

type Large<'a> = Box<LargeCommit<'a, 'a>>;

impl<'a> Write<'a> {
    /// W1. There must be a change, and all of them of one store.
    pub fn admit(changes: &[(&'a Keyspace, Change<'a>)]) -> Result<Write<'a>> {
        let engine = changes[0].0.engine_for_steps();
        engine.background.stepped.store(true, std::sync::atomic::Ordering::Relaxed);
        let op = |&(space, change): &(&'a Keyspace, Change<'a>)| {
            if let (Change::Expire { key }, Some(expiry)) = (change, &space.space().expiry) {
                let stored = expiry.stamp_expired(b"expired");
                return Op::new(space.space(), Kind::Put, key, b"").timed(stored);
            }
            let (kind, key, value) = match change {
                Change::Put { key, value } => (Kind::Put, key, value),
                Change::Delete { key } | Change::Expire { key } => (Kind::Delete, key, &[][..]),
                Change::Merge { key, operand } => (Kind::Merge, key, operand),
                Change::DeleteRange { begin, end } => (Kind::RangeDelete, begin, end),
            };
            Op::given(space.space(), kind, key, value)
        };
        let ops = Ops::Owned(changes.iter().map(op).collect());
        let state = match Commit::admit(engine, ops, WriteWay::default()) {
            Ok(commit) => StepState::Admitted(commit),
            Err(NotAdmitted::Large(ops)) => StepState::Queued(ops),
            Err(NotAdmitted::Failed(error)) => return Err(error),
        };
        Ok(Write { engine, state })
    }

    /// Does the next step.
    pub fn step(&mut self) -> Result<Stepped> {
        let (state, stepped) = match std::mem::replace(&mut self.state, StepState::Taken) {
            StepState::Admitted(mut commit) => match commit.reserve(&mut Unconditional) {
                Ok(()) => {
                    let step = Step::Reserve {
                        number: commit.number(),
                        switched_zone: commit.switched_zone(),
                    };
                    (StepState::Reserved(commit), Stepped::Did(step))
                }
                Err(lack) => {
                    if lack != Lack::Slot {
                        commit.mend(lack)?;
                    }
                    (StepState::Admitted(commit), Stepped::Waited)
                }
            },
            StepState::Reserved(mut commit) => {
                let flight = commit.copy();
                (StepState::Copied(commit, flight), Stepped::Did(Step::Copy))
            }
            StepState::Copied(mut commit, flight) => {
                let submitted = commit.submit(flight);
                (StepState::Submitted(commit, submitted), Stepped::Did(Step::Submit))
            }
            StepState::Submitted(mut commit, submitted) => {
                commit.index()?;
                (StepState::Indexed(commit, submitted), Stepped::Did(Step::Index))
            }
            StepState::Indexed(commit, submitted) => self.published(commit.publish(submitted)),
            StepState::Queued(ops) => match self.engine.try_large_turn(Permit::ToBeAsked) {
                Some(turn) => {
                    let commit = LargeCommit::admit(turn, ops, WriteWay::default())?;
                    (StepState::Staging(Box::new(commit)), Stepped::Did(Step::Admit))
                }
                None => (StepState::Queued(ops), Stepped::Waited),
            },
            StepState::Staging(mut commit) => match commit.stage()? {
                StagedSoFar::Part => (StepState::Staging(commit), Stepped::Did(Step::Stage)),
                StagedSoFar::All => (StepState::Staged(commit), Stepped::Did(Step::Stage)),
            },
            StepState::Staged(mut commit) => match commit.reserve(&mut Unconditional) {
                Ok(()) => {
                    let step = Step::Reserve { number: commit.number(), switched_zone: false };
                    (StepState::LargeReserved(commit), Stepped::Did(step))
                }
                Err(lack) => {
                    if lack != Lack::Slot {
                        commit.mend(lack)?;
                    }
                    (StepState::Staged(commit), Stepped::Waited)
                }
            },
            StepState::LargeReserved(mut commit) => {
                let flight = commit.copy();
                (StepState::LargeCopied(commit, flight), Stepped::Did(Step::Copy))
            }
            StepState::LargeCopied(mut commit, flight) => {
                let submitted = commit.submit(flight);
                (StepState::LargeSubmitted(commit, submitted), Stepped::Did(Step::Submit))
            }
            StepState::LargeSubmitted(mut commit, submitted) => {
                commit.index();
                (StepState::LargeIndexed(commit, submitted), Stepped::Did(Step::Index))
            }
            StepState::LargeIndexed(commit, submitted) => self.published(commit.publish(submitted)),
            StepState::Unsettled(published) => {
                self.engine.settle(published.needs)?;
                (StepState::Published(published.last_seq), Stepped::Did(Step::Settle))
            }
            StepState::Published(last_seq) => {
                let (ring, durable) =
                    (&self.engine.sequence.ring, self.engine.media.region.durable());
                if let Some(needs) = ring.awaits_log(&durable) {
                    self.engine.settle(needs)?;
                }
                let visible = ring.has_published(last_seq, &self.engine.media.region.durable());
                let stepped = if visible { Stepped::Acknowledged } else { Stepped::Unpublished };
                (StepState::Published(last_seq), stepped)
            }
            StepState::Taken => (StepState::Taken, Stepped::Waited),
        };
        self.state = state;
        Ok(stepped)
    }

    fn published(&self, published: Published) -> (StepState<'a>, Stepped) {
        let state = match self.engine.media.region.durable().covers(published.needs) {
            true => StepState::Published(published.last_seq),
            false => StepState::Unsettled(published),
        };
        (state, Stepped::Did(Step::Publish))
    }

    /// Gives the write up: if it was reserved, its records become void.
    pub fn abandon(&mut self) {
        self.state = StepState::Taken;
    }

    /// Last sequence number of the commit, once it is reserved.
    pub fn last_seq(&self) -> Option<Seq> {
        match &self.state {
            StepState::Reserved(commit)
            | StepState::Copied(commit, _)
            | StepState::Submitted(commit, _)
            | StepState::Indexed(commit, _) => Some(commit.last_seq()),
            StepState::LargeReserved(commit)
            | StepState::LargeCopied(commit, _)
            | StepState::LargeSubmitted(commit, _)
            | StepState::LargeIndexed(commit, _) => Some(commit.last_seq()),
            StepState::Unsettled(Published { last_seq, .. }) | StepState::Published(last_seq) => {
                Some(*last_seq)
            }
            StepState::Admitted(_)
            | StepState::Queued(_)
            | StepState::Staging(_)
            | StepState::Staged(_)
            | StepState::Taken => None,
        }
    }
}

/// As [`Db::write_with`], of one change at least; tells the number of the last.
pub fn write(db: &Db, batch: &Batch, options: &WriteOptions) -> Result<Seq> {
    options.commit(db.engine(), &mut db.ops(batch)?)
}

/// A point read that is carried on step by step.
pub struct Read<'a> {
    keyspace: &'a Keyspace,
    pinning: Option<Pinning>,
}

impl<'a> Read<'a> {
    /// The first half of R1, for a key.
    pub fn begin(keyspace: &'a Keyspace, key: &[u8]) -> Read<'a> {
        let pinning = Pinning::begin(keyspace.engine_for_steps(), keyspace.space(), key);
        Read { keyspace, pinning: Some(pinning) }
    }

    /// The rest, for the same key: the value, or `None` in the outer option if R1 has to begin again.
    pub fn finish(&mut self, key: &[u8]) -> Result<Option<Option<Vec<u8>>>> {
        let engine = self.keyspace.engine_for_steps();
        let space = self.keyspace.space();
        let Some(pinning) = self.pinning.take() else { return Ok(None) };
        let Some((view, seq)) = pinning.end(engine, space, key) else {
            let dropped = space.dropped.load(std::sync::atomic::Ordering::Relaxed);
            return if dropped { Err(crate::keyspace::dropped(space)) } else { Ok(None) };
        };
        let newest =
            engine.newest_version(space, &view, key, seq, SearchDepth::AllLevels, &mut ())?;
        let found = engine.resolve(&view, AsOfNow::of(space), key, newest, &mut ())?;
        let found = found.filter(|found| !found.deletes());
        found.map(|found| found.value(&engine.media).map(<[u8]>::to_vec)).transpose().map(Some)
    }
}

/// Makes an empty pool with these lengths and this identifier, where an open would choose them itself.
pub fn format(region: &Arc<Region>, format: pool::Format, pool_id: u64) -> Result<()> {
    let snapshot = crate::manifest::ManifestState::fresh().encode_snapshot();
    pool::Pool::create(Arc::clone(region), format, pool_id, &snapshot).map(drop)
}

/// As [`Db::open_on`], or without `tables` as [`Db::open_region`], with code of the application's own.
pub fn open(
    region: Arc<Region>,
    tables: Option<(Arc<dyn Fs>, &Path)>,
    options: Options,
    hooks: Hooks,
) -> Result<Db> {
    let table_dir = tables.map(|(fs, dir)| TableDir { fs, dir: dir.to_owned() });
    // What is simulated is the same on every machine.
    Db::open_with_tables(region, table_dir, options, hooks, MachineMemory::default())
}

/// As [`Db::open_with`], on ground that the caller made: directories and the file `STORE` are made and read there, too.
pub fn open_at(ground: &Given, path: &Path, options: Options, hooks: Hooks) -> Result<Db> {
    Db::from_engine(open::open_at(ground, path, options, hooks, Access::Write)?)
}

/// As [`Db::destroy`], on ground that the caller made.
pub fn destroy_at(ground: &Given, path: &Path, options: &Options) -> Result<()> {
    open::destroy::destroy(ground, path, options)
}

/// As [`Db::convert`], on ground that the caller made.
pub fn convert_at(
    ground: &Given,
    path: &Path,
    options: &Options,
    hooks: Hooks,
) -> Result<Conversion> {
    open::convert::convert(ground, path, options, hooks)
}

/// As [`Db::open`], on this machine with `/proc` and `/sys` as they lie under `root`.
pub fn open_under(root: &Path, path: &Path, options: Options) -> Result<Db> {
    let ground = Machine { root, ..Machine::here() };
    Db::from_engine(open::open_at(&ground, path, options, Hooks::default(), Access::Write)?)
}

/// As [`Db::open_read_only`], on ground that the caller made.
pub fn read_at(ground: &Given, path: &Path, options: Options) -> Result<Db> {
    Db::from_engine(open::open_at(ground, path, options, Hooks::default(), Access::Read)?)
}

/// As [`crate::repair`], on ground that the caller made.
pub fn repair_at(
    ground: &Given,
    path: &Path,
    to: &Path,
    options: Options,
) -> Result<crate::RepairReport> {
    crate::repair::repair_at(ground, path, to, options)
}

/// The region whose log is in directory `dir`, which exists, of the file system `fs`, written as `options` say. Where there is none,
/// one begins for the store with the identifier and the bytes of `fresh`; `None` if that says nothing. No other open may use the
/// log.
pub fn journaled(
    fs: Arc<dyn Fs>,
    dir: &Path,
    options: &Options,
    fresh: Option<(u64, u64)>,
) -> Result<Option<Arc<Region>>> {
    journaled_on(fs, dir, LogMedium::Device, options, fresh)
}

/// The same of a log in persistent memory, for which `fs` stands.
pub fn streamed(
    fs: Arc<dyn Fs>,
    dir: &Path,
    options: &Options,
    fresh: Option<(u64, u64)>,
) -> Result<Option<Arc<Region>>> {
    let (durability, why) = (Durability::PowerFailAdr, "simulated".into());
    let worth = MemoryWorth { durability, why, model: None };
    let fs = Arc::new(DurableFiles(fs));
    journaled_on(fs, dir, LogMedium::Memory(worth), options, fresh)
}

fn journaled_on(
    fs: Arc<dyn Fs>,
    dir: &Path,
    medium: LogMedium,
    options: &Options,
    fresh: Option<(u64, u64)>,
) -> Result<Option<Arc<Region>>> {
    let (dir, mode) = (dir.to_owned(), LogMode::of(options));
    let accepts = |_: &Region| Ok(());
    let setting = Setting { fs, dir, medium, mode, memory: None, entropy: 0, accepts, lock: None };
    wal::open(setting, || Ok(fresh.map(|(id, region_len)| LogOwner { id, region_len })))
}

/// Last sequence number that readers see.
pub fn visible(keyspace: &Keyspace) -> Seq {
    keyspace.engine_for_steps().sequence.ring.visible()
}

/// Switches the active memtables of the keyspace; background work turns them into runs.
pub fn switch_memtable(keyspace: &Keyspace) {
    let space = keyspace.space();
    let _admin = space.admin.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for subrange in space.subranges() {
        if subrange.write_head.bytes() > 0 {
            keyspace.engine_for_steps().switch_memtable(&subrange);
            keyspace.engine_for_steps().update_reserve();
        }
    }
}

/// How many subranges there are.
pub fn subranges(keyspace: &Keyspace) -> usize {
    keyspace.space().routes.load().subranges.len()
}

/// Splits the subrange of `key` there; `false` if it begins there, or a job is at it.
pub fn split(keyspace: &Keyspace, key: &[u8]) -> Result<bool> {
    let (engine, space) = (keyspace.engine_for_steps(), keyspace.space());
    let old = space.subrange_of(key);
    if old.span.lower == key {
        return Ok(false);
    }
    engine.replace_by_hand(space, &[old], &[key.to_vec()])
}

/// Joins the subrange of `key` with the next; `false` if there is none, a job is at them, or they share too much.
pub fn join(keyspace: &Keyspace, key: &[u8]) -> Result<bool> {
    let (engine, space) = (keyspace.engine_for_steps(), keyspace.space());
    let old = space.subrange_of(key);
    let Some(upper) = old.span.before() else { return Ok(false) };
    let next = space.subrange_of(upper);
    engine.replace_by_hand(space, &[old, next], &[])
}

/// Finds all that the cache in persistent memory had before the open.
pub fn warm_cache(keyspace: &Keyspace) {
    if let Some(cache) = keyspace.engine_for_steps().pm_cache() {
        while cache.warm_one() {}
    }
}

/// Zones whose headers say that they are granted but which nothing holds.
pub fn leaked_zones(keyspace: &Keyspace) -> u64 {
    keyspace.engine_for_steps().leaked_zones()
}

/// Pieces of space that have no owner, or two. Nothing else may have space in hand.
pub fn misplaced(keyspace: &Keyspace) -> Result<u64> {
    let engine = keyspace.engine_for_steps();
    let _call = engine.call("check")?;
    let space = engine.owners()?;
    // A store at rest in which something is held that nothing leads to has misplaced that.
    Ok((space.leaked.len() + space.doubled.len()) as u64 + u64::from(!space.whole))
}

/// Files of tables that the manifest does not name.
pub fn leaked_tables(keyspace: &Keyspace) -> Result<u64> {
    keyspace.engine_for_steps().leaked_tables()
}

/// Bytes of tiers that files which are being written have yet to take.
pub fn claimed_bytes(keyspace: &Keyspace) -> u64 {
    let tables = keyspace.engine_for_steps().tables.as_ref();
    tables.map_or(0, |tables| tables.tiers.iter().map(|tier| tier.coming()).sum())
}

/// What compactions have done since the store was opened.
pub fn compactions(keyspace: &Keyspace) -> crate::CompactionFigures {
    keyspace.engine_for_steps().compaction_figures()
}

/// Large commits since the store was opened.
pub fn large_commits(keyspace: &Keyspace) -> u64 {
    keyspace.engine_for_steps().large.figures().committed
}

/// Zones granted since the store was opened that had held records before.
pub fn zones_regranted(keyspace: &Keyspace) -> u64 {
    keyspace.engine_for_steps().space.zones_regranted()
}

/// Asks background work to free as much space as it can: everything is flushed, merged and cleaned.
pub fn reclaim(keyspace: &Keyspace) {
    let engine = keyspace.engine_for_steps();
    engine.background.throttle.asked.store(true, std::sync::atomic::Ordering::Relaxed);
    engine.end_round();
}

/// Whether the region holds a pool; an error says why not. Nothing is written.
pub fn formatted(region: &Arc<Region>) -> Result<()> {
    pool::Pool::open(Arc::clone(region)).map(drop)
}
