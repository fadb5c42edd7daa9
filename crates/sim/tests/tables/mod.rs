//! A store with its data in files and its decisions in memory, and the ways in which that can be wrong.
//!
//! ```text
//! memory   line 0: magic      line 1: number of the table that counts
//! disk     db/NUMBER.tab: checksum | entries ...
//! ```
//!
//! Each commit writes everything anew: a table under a temporary name, synced, renamed, its directory
//! synced; then its number goes to memory. While it does, the last table but one is removed.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Error, ErrorKind, Result};
use pmem::{Region, Site};
use sim::{Op, Progress, Show, System, Write};
use ssd::{Append, Disk, Fs};

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// The table is not synced.
    NoSync,
    /// The directory of the table is not synced.
    NoDirSync,
    /// The directory is synced before the table has its name.
    DirSyncTooEarly,
    /// The number is in memory before the table is synced.
    CommitBeforeSync,
    /// The number is in memory before the directory is synced.
    CommitBeforeDirSync,
    /// The table that still counts is removed.
    RemoveTooEarly,
    /// The directory of all tables is not made durable.
    NoParentSync,
    /// Tables are not checked.
    NoChecksum,
    /// Recovery leaves tables that do not count.
    NoSweep,
    /// Recovery serves a number that may not be durable.
    NoFlush,
}

/// The store's code.
#[derive(Clone, Copy, Debug)]
pub struct Tables {
    pub bug: Option<Bug>,
}

const MAGIC: u64 = 0x7461_626c_6573;
const NUMBER: u64 = 64;
const DIR: &str = "db";

/// One step of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Create,
    Write,
    Sync,
    Rename,
    SyncDir,
    Commit,
    Fence,
    Remove,
    Publish,
}

type State = BTreeMap<(u8, Vec<u8>), Vec<u8>>;

pub struct Open {
    region: Region,
    fs: Arc<dyn Fs>,
    cut: u64,
    leaks: u64,
    /// Tables that stay, the new one included.
    keeps: u64,
    inner: RefCell<Inner>,
}

struct Inner {
    number: u64,
    state: State,
    writing: bool,
}

pub enum Task<'s> {
    Start(Op),
    Writing(Box<Writing<'s>>),
    Finished,
}

pub struct Writing<'s> {
    number: u64,
    state: State,
    stages: VecDeque<Stage>,
    rest: VecDeque<u8>,
    file: Option<Box<dyn Append>>,
    flight: Option<pmem::InFlight<'s>>,
}

fn table(number: u64) -> PathBuf {
    Path::new(DIR).join(format!("{number}.tab"))
}

fn temporary(number: u64) -> PathBuf {
    Path::new(DIR).join(format!("{number}.tmp"))
}

fn encode(state: &State) -> Vec<u8> {
    let mut entries = Vec::new();
    for ((keyspace, key), value) in state {
        entries.extend_from_slice(&[*keyspace, key.len() as u8, value.len() as u8]);
        entries.extend_from_slice(key);
        entries.extend_from_slice(value);
    }
    let mut bytes = sim::hash::bytes(7, &entries).to_le_bytes().to_vec();
    bytes.extend_from_slice(&entries);
    bytes
}

fn decode(bytes: &[u8], bug: Option<Bug>) -> Option<State> {
    let (sum, mut rest) = bytes.split_first_chunk::<8>()?;
    if bug != Some(Bug::NoChecksum) && u64::from_le_bytes(*sum) != sim::hash::bytes(7, rest) {
        return None;
    }
    let mut state = State::new();
    while let Some((head, tail)) = rest.split_first_chunk::<3>() {
        let (key, tail) = tail.split_at_checked(head[1].into())?;
        let (value, tail) = tail.split_at_checked(head[2].into())?;
        rest = tail;
        state.insert((head[0], key.to_vec()), value.to_vec());
    }
    Some(state)
}

impl Tables {
    fn is(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    fn stages(&self) -> VecDeque<Stage> {
        use Stage::*;
        let order = if self.is(Bug::DirSyncTooEarly) {
            [Create, Write, Sync, SyncDir, Rename, Remove, Commit, Fence, Publish]
        } else if self.is(Bug::CommitBeforeSync) {
            [Create, Write, Rename, Remove, Commit, Fence, Sync, SyncDir, Publish]
        } else if self.is(Bug::CommitBeforeDirSync) {
            [Create, Write, Sync, Rename, Remove, Commit, Fence, SyncDir, Publish]
        } else {
            [Create, Write, Sync, Rename, SyncDir, Remove, Commit, Fence, Publish]
        };
        let left_out = match () {
            () if self.is(Bug::NoSync) => Some(Sync),
            () if self.is(Bug::NoDirSync) => Some(SyncDir),
            () => None,
        };
        order.into_iter().filter(|stage| Some(*stage) != left_out).collect()
    }

    fn load(&self, fs: &dyn Fs, number: u64) -> Result<State> {
        if number == 0 {
            return Ok(State::new());
        }
        let file = fs.open(&table(number)).map_err(|error| {
            Error::corruption("open", "the table that counts is missing").with_source(error)
        })?;
        let mut bytes = vec![0; file.len() as usize];
        file.read_at(0, &mut bytes)?;
        decode(&bytes, self.bug)
            .ok_or_else(|| Error::corruption("open", format!("table {number} is damaged")))
    }

    fn begin_commit<'s>(&'s self, store: &'s Open, writes: &[Write]) -> Option<Writing<'s>> {
        let mut inner = store.inner.borrow_mut();
        if inner.writing {
            return None;
        }
        inner.writing = true;
        let mut state = inner.state.clone();
        for write in writes {
            match write {
                Write::Put { keyspace, key, value } => {
                    state.insert((*keyspace, key.clone()), value.bytes());
                }
                Write::Delete { keyspace, key } => drop(state.remove(&(*keyspace, key.clone()))),
                _ => {}
            }
        }
        let rest = encode(&state).into();
        let stages = self.stages();
        Some(Writing { number: inner.number + 1, state, stages, rest, file: None, flight: None })
    }
}

fn step<'s>(store: &'s Open, writing: &mut Writing<'s>) -> Result<Progress> {
    let (fs, number) = (&store.fs, writing.number);
    let Some(stage) = writing.stages.front().copied() else { unreachable!("published last") };
    match stage {
        Stage::Create => writing.file = Some(fs.create(&temporary(number))?),
        Stage::Write => {
            let len = writing.rest.len().min(50);
            let part: Vec<u8> = writing.rest.drain(..len).collect();
            if let Some(file) = &mut writing.file {
                file.append(&part)?;
            }
            if !writing.rest.is_empty() {
                return Ok(Progress::More);
            }
        }
        Stage::Sync => writing.file.as_mut().map_or(Ok(()), |file| file.sync())?,
        Stage::Rename => fs.rename(&temporary(number), &table(number))?,
        Stage::SyncDir => fs.sync_dir(DIR.as_ref())?,
        Stage::Commit => {
            let region = &store.region;
            let dirty = region.store_u64(Site::ManifestEdit, NUMBER, number);
            writing.flight = Some(region.flush(dirty));
        }
        Stage::Fence => {
            if let Some(flight) = writing.flight.take() {
                let _ = store.region.fence(flight);
            }
        }
        Stage::Remove => {
            let old = table(number.saturating_sub(store.keeps));
            // Recovery may have swept it.
            if fs.exists(&old)? {
                fs.remove(&old)?;
            }
        }
        Stage::Publish => {
            let mut inner = store.inner.borrow_mut();
            inner.state = std::mem::take(&mut writing.state);
            (inner.number, inner.writing) = (number, false);
            return Ok(Progress::Done);
        }
    }
    writing.stages.pop_front();
    Ok(Progress::More)
}

impl System for Tables {
    type Store = Open;
    type Task<'s> = Task<'s>;

    fn region_len(&self) -> u64 {
        128
    }

    fn disk(&self) -> Disk {
        Disk::new(64)
    }

    fn create(&self, region: Region, fs: Arc<dyn Fs>) -> Result<Open> {
        fs.create_dir_all(DIR.as_ref())?;
        if !self.is(Bug::NoParentSync) {
            fs.sync_dir("/".as_ref())?;
        }
        let flushed = region.flush(region.store_u64(Site::Format, 0, MAGIC));
        let _ = region.fence(flushed);
        self.open(region, fs)
    }

    fn open(&self, region: Region, fs: Arc<dyn Fs>) -> Result<Open> {
        if region.load_u64(0) != MAGIC {
            return Err(Error::new(ErrorKind::NotFound, "open", "no tables here"));
        }
        let number = region.load_u64(NUMBER);
        if !self.is(Bug::NoFlush) {
            let _ = region.fence(region.flush_range(Site::RecoverManifest, 0, 128));
        }
        let state = self.load(fs.as_ref(), number)?;
        let counts = table(number);
        let names = fs.list(DIR.as_ref()).map_err(|error| {
            Error::corruption("open", "the directory of tables is missing").with_source(error)
        })?;
        let mut leaks = 0;
        for path in names.iter().map(|name| Path::new(DIR).join(name)).filter(|p| *p != counts) {
            match self.is(Bug::NoSweep) {
                true => leaks += 1,
                false => fs.remove(&path)?,
            }
        }
        let inner = RefCell::new(Inner { number, state, writing: false });
        let keeps = if self.is(Bug::RemoveTooEarly) { 1 } else { 2 };
        Ok(Open { region, fs, cut: number, leaks, keeps, inner })
    }

    fn close(&self, store: Open) -> Option<Region> {
        Some(store.region)
    }

    fn begin<'s>(&'s self, _store: &'s Open, op: &Op) -> Result<Task<'s>> {
        Ok(Task::Start(op.clone()))
    }

    fn step<'s>(&'s self, store: &'s Open, task: &mut Task<'s>) -> Result<Progress> {
        match task {
            Task::Start(Op::Read { keyspace, key, .. }) => {
                let found = store.inner.borrow().state.get(&(*keyspace, key.clone())).cloned();
                *task = Task::Finished;
                Ok(Progress::Found(found))
            }
            Task::Start(Op::Commit { writes, .. }) => {
                let Some(writing) = self.begin_commit(store, writes) else {
                    return Ok(Progress::Blocked);
                };
                let number = writing.number;
                *task = Task::Writing(Box::new(writing));
                Ok(Progress::Reserved(number))
            }
            Task::Writing(writing) => step(store, writing),
            Task::Start(_) | Task::Finished => unreachable!("neither offered nor stepped again"),
        }
    }

    fn visit(&self, store: &Open, each: &mut Show<'_>) -> Result<()> {
        store.inner.borrow().state.iter().for_each(|((ks, key), value)| each(*ks, key, value));
        Ok(())
    }

    fn cut(&self, store: &Open) -> u64 {
        store.cut
    }

    fn leaks(&self, store: &Open) -> u64 {
        store.leaks
    }
}
