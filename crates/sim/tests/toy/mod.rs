//! A store small enough to be obviously right, and the ways in which it can be wrong.
//!
//! ```text
//! line 0            magic
//! from line 1 on    records: checksum | number | payload length, writes | void | writes ...
//! ```
//!
//! A record begins at a line and takes whole lines. Its number is its position; recovery takes records
//! in order up to the first that does not check out, wipes what lies beyond, and flushes what it took.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use base::{Error, ErrorKind, Result};
use pmem::{Durable, InFlight, Region, Site};
use sim::{Op, Probe, Progress, Show, System, Write};
use ssd::Fs;

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Acknowledged before the fence.
    PublishBeforeFence,
    /// Acknowledged while an older commit is still being filled.
    PublishOutOfOrder,
    /// Records are not checked.
    NoChecksum,
    /// The checksum covers the first line only.
    ChecksumOfFirstLine,
    /// Recovery goes on behind a record that does not check out.
    AcceptOverHole,
    /// What lies beyond the cut stays there.
    NoWipe,
    /// What was accepted is not flushed.
    NoAcceptedFlush,
    /// Recovery forgets removals.
    ForgetDeletes,
    /// Recovery takes the first write of a batch only.
    FirstOfBatch,
    /// What lies beyond the cut is never free again.
    Leak,
    /// Recovery does not get past a record that does not check out.
    Endless,
    /// An abandoned commit is published before its void mark is durable.
    VoidNotDurable,
    /// Commits are visible to reads before they are durable.
    ReadBeforeDurable,
    /// After a recovery, numbers begin again at one.
    NumbersRestart,
}

/// The store's code.
#[derive(Clone, Copy, Debug)]
pub struct Toy {
    pub len: u64,
    pub bug: Option<Bug>,
}

const MAGIC: u64 = 0x746f_7921;
const HEAD: usize = 32;
/// What the records of three threads take at most.
const IN_FLIGHT: u64 = 768;

struct Inner {
    state: BTreeMap<(u8, Vec<u8>), Vec<u8>>,
    next_number: u64,
    next_at: u64,
    published: u64,
    /// Filled and waiting for their turn.
    filled: BTreeMap<u64, Vec<Write>>,
    leaked: u64,
}

pub struct Open {
    region: Region,
    cut: u64,
    probe: Probe,
    inner: RefCell<Inner>,
}

pub enum Task<'s> {
    Start(Op),
    Reserved { commit: Commit },
    Copied { commit: Commit, dirty: pmem::Dirty<'s> },
    Flushed { commit: Commit, flight: InFlight<'s> },
    Filled { commit: Commit, durable: Option<Durable> },
    Finished,
}

pub struct Commit {
    number: u64,
    at: u64,
    thread: u8,
    record: Vec<u8>,
    writes: Vec<Write>,
    abandon: bool,
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn encode(writes: &[Write]) -> Vec<u8> {
    let mut out = Vec::new();
    for write in writes {
        let (kind, keyspace, key, value) = match write {
            Write::Put { keyspace, key, value } => (1, keyspace, key, value.bytes()),
            Write::Delete { keyspace, key } => (2, keyspace, key, Vec::new()),
            _ => unreachable!("not offered"),
        };
        out.extend_from_slice(&[kind, *keyspace, key.len() as u8, value.len() as u8]);
        out.extend_from_slice(key);
        out.extend_from_slice(&value);
    }
    out
}

type Entry = ((u8, Vec<u8>), Option<Vec<u8>>);

/// None if the bytes make no sense, which only unchecked ones do.
fn decode(mut bytes: &[u8], count: usize) -> Option<Vec<Entry>> {
    let mut entries = Vec::new();
    for _ in 0..count {
        let (head, rest) = bytes.split_at_checked(4)?;
        let (key, rest) = rest.split_at_checked(head[2].into())?;
        let (value, rest) = rest.split_at_checked(head[3].into())?;
        bytes = rest;
        entries.push(((head[1], key.to_vec()), (head[0] == 1).then(|| value.to_vec())));
    }
    Some(entries)
}

impl Toy {
    fn is(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    fn checksum(&self, record: &[u8], at: u64) -> u64 {
        let covered = if self.is(Bug::ChecksumOfFirstLine) { 64 } else { record.len() };
        let head = sim::hash::bytes(at, &record[8..24]);
        sim::hash::bytes(head, &record[HEAD..covered]) | 1
    }

    fn record(&self, number: u64, at: u64, writes: &[Write]) -> Vec<u8> {
        let payload = encode(writes);
        let mut record = vec![0; (HEAD + payload.len()).next_multiple_of(64)];
        record[8..16].copy_from_slice(&number.to_le_bytes());
        let shape = payload.len() as u64 | (writes.len() as u64) << 32;
        record[16..24].copy_from_slice(&shape.to_le_bytes());
        record[HEAD..HEAD + payload.len()].copy_from_slice(&payload);
        let sum = self.checksum(&record, at);
        record[..8].copy_from_slice(&sum.to_le_bytes());
        record
    }

    /// The record at `at`, if it checks out: number, length, writes (none if void).
    fn check(&self, region: &Region, at: u64) -> Option<(u64, u64, Vec<Entry>)> {
        if at + 64 > region.len() || region.load_u64(at) == 0 {
            return None;
        }
        let shape = region.load_u64(at + 16);
        let (payload, count) = (shape & 0xffff_ffff, (shape >> 32) as usize);
        let len = (HEAD as u64).checked_add(payload)?.next_multiple_of(64);
        if len > region.len() - at || count > 3 {
            return None;
        }
        let record = region.bytes(at, len as usize);
        if word(record, 0) != self.checksum(record, at) && !self.is(Bug::NoChecksum) {
            return None;
        }
        let mut entries = decode(&record[HEAD..HEAD + payload as usize], count)?;
        if word(record, 24) != 0 {
            entries.clear();
        }
        if self.is(Bug::FirstOfBatch) {
            entries.truncate(1);
        }
        Some((word(record, 8), len, entries))
    }

    fn scan(&self, region: &Region, probe: &mut Probe) -> Inner {
        let mut inner = Inner {
            state: BTreeMap::new(),
            next_number: 1,
            next_at: 64,
            published: 0,
            filled: BTreeMap::new(),
            leaked: 0,
        };
        let mut at = 64;
        while at < region.len() {
            match self.check(region, at) {
                Some((number, len, entries))
                    if number == inner.next_number || self.is(Bug::AcceptOverHole) =>
                {
                    for (key, value) in entries {
                        match value {
                            Some(value) => drop(inner.state.insert(key, value)),
                            None if self.is(Bug::ForgetDeletes) => {}
                            None => drop(inner.state.remove(&key)),
                        }
                    }
                    at += len;
                    (inner.next_number, inner.next_at) = (number + 1, at);
                    inner.published = number;
                }
                Some(_) => return inner,
                None if self.is(Bug::AcceptOverHole) => at += 64,
                None if self.is(Bug::Endless) && region.load_u64(at) != 0 => {}
                None => break,
            }
        }
        let beyond = (at + 64..region.len().min(at + IN_FLIGHT)).step_by(64);
        let survivors = beyond.filter(|&at| region.load_u64(at) != 0).count();
        probe.cuts_below_survivor += u64::from(survivors > 0);
        if self.is(Bug::Leak) {
            inner.leaked = survivors as u64;
        }
        inner
    }

    fn reserve(&self, store: &Open, op: &Op) -> Option<Commit> {
        let Op::Commit { thread, writes, abandon } = op else { unreachable!("a commit") };
        let mut inner = store.inner.borrow_mut();
        let (number, at) = (inner.next_number, inner.next_at);
        let record = self.record(number, at, writes);
        if at + record.len() as u64 > store.region.len() {
            return None;
        }
        inner.next_number += 1;
        inner.next_at += record.len() as u64;
        let (thread, writes, abandon) = (*thread, writes.clone(), *abandon);
        Some(Commit { number, at, thread, record, writes, abandon })
    }

    /// W5: everything contiguous behind the published becomes visible.
    fn publish(&self, store: &Open, commit: &mut Commit) -> Progress {
        let mut inner = store.inner.borrow_mut();
        let writes = std::mem::take(&mut commit.writes);
        if inner.published < commit.number && !inner.filled.contains_key(&commit.number) {
            inner.filled.insert(commit.number, if commit.abandon { Vec::new() } else { writes });
        }
        loop {
            let next = inner.published + 1;
            let Some(writes) = inner.filled.remove(&next) else { break };
            inner.published = next;
            inner.show(&writes);
        }
        let told = inner.published >= commit.number || self.is(Bug::PublishOutOfOrder);
        match (told, commit.abandon) {
            (false, _) => Progress::Blocked,
            (true, true) => Progress::GaveUp,
            (true, false) => Progress::Done,
        }
    }
}

impl Inner {
    fn show(&mut self, writes: &[Write]) {
        for write in writes {
            match write {
                Write::Put { keyspace, key, value } => {
                    self.state.insert((*keyspace, key.clone()), value.bytes());
                }
                Write::Delete { keyspace, key } => {
                    self.state.remove(&(*keyspace, key.clone()));
                }
                _ => {}
            }
        }
    }
}

impl System for Toy {
    type Store = Open;
    type Task<'s> = Task<'s>;

    fn region_len(&self) -> u64 {
        self.len
    }

    fn create(&self, region: Region, fs: Arc<dyn Fs>) -> Result<Open> {
        let flushed = region.flush(region.store_u64(Site::Format, 0, MAGIC));
        let _ = region.fence(flushed);
        self.open(region, fs)
    }

    fn open(&self, region: Region, _fs: Arc<dyn Fs>) -> Result<Open> {
        if region.load_u64(0) != MAGIC {
            return Err(Error::new(ErrorKind::NotFound, "open", "no toy in this region"));
        }
        let mut probe = Probe::default();
        let mut inner = self.scan(&region, &mut probe);
        let end = inner.next_at;
        // A killed process leaves bytes that are visible and not durable, the magic included.
        let magic = region.flush_range(Site::RecoverManifest, 0, 8);
        let flight = if self.is(Bug::NoAcceptedFlush) || end == 64 {
            magic
        } else {
            magic.and(region.flush_range(Site::RecoverAccepted, 64, end as usize - 64))
        };
        let _ = region.fence(flight);
        let beyond = (region.len() - end).min(IN_FLIGHT);
        if beyond > 0 && !self.is(Bug::NoWipe) {
            let zeros = vec![0; beyond as usize];
            let flight = region.flush(region.copy(Site::RecoverManifest, end, &zeros));
            let _ = region.fence(flight);
        }
        if self.is(Bug::NumbersRestart) {
            (inner.next_number, inner.published) = (1, 0);
        }
        let cut = inner.published;
        Ok(Open { region, cut, probe, inner: RefCell::new(inner) })
    }

    fn close(&self, store: Open) -> Option<Region> {
        Some(store.region)
    }

    fn begin<'s>(&'s self, _store: &'s Open, op: &Op) -> Result<Task<'s>> {
        Ok(Task::Start(op.clone()))
    }

    fn step<'s>(&'s self, store: &'s Open, task: &mut Task<'s>) -> Result<Progress> {
        let region = &store.region;
        let (next, progress) = match std::mem::replace(task, Task::Finished) {
            Task::Start(Op::Read { keyspace, key, .. }) => {
                let found = store.inner.borrow().state.get(&(keyspace, key)).cloned();
                (Task::Finished, Progress::Found(found))
            }
            Task::Start(op) => match self.reserve(store, &op) {
                Some(commit) => {
                    let number = commit.number;
                    (Task::Reserved { commit }, Progress::Reserved(number))
                }
                None => (Task::Finished, Progress::Refused),
            },
            Task::Reserved { commit } => {
                if self.is(Bug::ReadBeforeDurable) && !commit.abandon {
                    store.inner.borrow_mut().show(&commit.writes);
                }
                let next = if commit.thread == 0 {
                    let flight = region.copy_nt(Site::Record, commit.at, &commit.record);
                    Task::Flushed { commit, flight }
                } else {
                    let dirty = region.copy(Site::Record, commit.at, &commit.record);
                    Task::Copied { commit, dirty }
                };
                (next, Progress::More)
            }
            Task::Copied { commit, dirty } => {
                (Task::Flushed { commit, flight: region.flush(dirty) }, Progress::More)
            }
            Task::Flushed { mut commit, flight } if self.is(Bug::PublishBeforeFence) => {
                let progress = self.publish(store, &mut commit);
                // The fence comes, too late.
                drop(flight);
                (Task::Filled { commit, durable: None }, progress)
            }
            Task::Flushed { commit, flight } => {
                let mut durable = region.fence(flight);
                if commit.abandon {
                    let void = region.flush(region.store_u64(Site::Void, commit.at + 24, 1));
                    if !self.is(Bug::VoidNotDurable) {
                        durable = region.fence(void);
                    }
                }
                (Task::Filled { commit, durable: Some(durable) }, Progress::More)
            }
            Task::Filled { mut commit, durable } => {
                let progress = self.publish(store, &mut commit);
                (Task::Filled { commit, durable }, progress)
            }
            Task::Finished => unreachable!("stepped after the end"),
        };
        *task = next;
        Ok(progress)
    }

    fn visit(&self, store: &Open, each: &mut Show<'_>) -> Result<()> {
        store.inner.borrow().state.iter().for_each(|((ks, key), value)| each(*ks, key, value));
        Ok(())
    }

    fn cut(&self, store: &Open) -> u64 {
        store.cut
    }

    fn makes_room(&self) -> bool {
        false
    }

    fn leaks(&self, store: &Open) -> u64 {
        store.inner.borrow().leaked
    }

    fn probe(&self, store: &Open) -> Probe {
        store.probe
    }
}
