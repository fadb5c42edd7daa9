//! An operation under way, step by step: a commit, a read, a step of background work.

use base::Result;
use sim::{Op, Progress, Write as Change};
use strandline::steps::{self, Read, Step, Stepped, Write};
use strandline::{Keyspace, ReadOptions, Snapshot};

use super::store::Store;
use super::system::{CONSUMER, Engine, disagree, refused};
use super::whole::{self, Incoming};

/// Subranges of a keyspace at most: each takes two zones.
const SUBRANGES_MAX: usize = 3;

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

impl<'s> Task<'s> {
    /// The task of an operation, not begun.
    pub fn of(engine: &Engine, store: &'s Store, op: &Op) -> Task<'s> {
        let keep = |bytes: &[u8]| -> &'s [u8] { store.bytes.alloc_slice_copy(bytes) };
        match op {
            Op::Commit { writes, abandon, .. } => {
                let change = |write: &Change| change_of(engine, store, write);
                let Some(changes) = writes.iter().map(change).collect::<Option<Vec<_>>>() else {
                    return Task::Nowhere;
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
        }
    }

    /// Its next step.
    pub fn step(&mut self, engine: &Engine, store: &'s Store) -> Result<Progress> {
        match self {
            Task::Asked(changes, give_up) => match Write::admit(changes) {
                Ok(write) => {
                    *self = Task::Commit(Committing { write, give_up: *give_up, nap: 0 });
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
                let progress = engine.background(store, *kind, *step)?;
                *step += 1;
                Ok(progress)
            }
        }
    }
}

impl Engine {
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
        if kind >= CONSUMER && self.stream_zones > 0 {
            return self.consume(store, step);
        }
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
                let worked = db.work(if self.table_bytes.is_some() { 1 } else { 3 })?;
                if worked.is_idle() || step > 40 {
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

/// A write as a change of its keyspace; none if that is not there.
fn change_of<'s>(
    engine: &Engine,
    store: &'s Store,
    write: &Change,
) -> Option<(&'s Keyspace, steps::Change<'s>)> {
    let keep = |bytes: &[u8]| -> &'s [u8] { store.bytes.alloc_slice_copy(bytes) };
    let (space, change) = match write {
        Change::Put { keyspace, key, value } => {
            (keyspace, steps::Change::Put { key: keep(key), value: keep(&value.bytes()) })
        }
        Change::Merge { keyspace, key, operand } => {
            let operand = keep(&operand.bytes());
            store.probe.borrow_mut().operands += 1;
            (keyspace, steps::Change::Merge { key: keep(key), operand })
        }
        Change::Delete { keyspace, key } if engine.expires => {
            (keyspace, steps::Change::Expire { key: keep(key) })
        }
        Change::Delete { keyspace, key } => (keyspace, steps::Change::Delete { key: keep(key) }),
        Change::DeleteRange { keyspace, from, to } => {
            store.probe.borrow_mut().range_deletes += 1;
            let (begin, end) = (keep(from), keep(to));
            (keyspace, steps::Change::DeleteRange { begin, end })
        }
        Change::Make { .. } | Change::Drop { .. } => return None,
    };
    Some((store.spaces.get(usize::from(*space))?, change))
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
