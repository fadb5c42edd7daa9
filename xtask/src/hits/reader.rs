//! A thread that reads, in every way there is, and compares each answer with what it may be (I-HITS-1).

use std::collections::VecDeque;
use std::sync::atomic::Ordering::SeqCst;

use strandline::{Db, Error, ErrorKind, Keyspace, PinnedValue, ReadOptions, Snapshot};
use testkit::Rng;

use super::failure::HitFailure;
use super::imprint::Imprint;
use super::ledger::VersionBounds;
use super::shape::KEYS;
use super::tally::{HitCount, HitSums};
use super::world::{HitWorld, key_number, slot};

/// Gets in a row.
const ROUND: usize = 64;
/// Keys of a get of several.
const SEVERAL: usize = 16;
/// Keys of a scan.
const SCANNED: usize = 40;
/// Keys that are read of a snapshot, again and again.
const LOOKED_AT: usize = 48;
/// How often.
const LOOKS: u32 = 6;
/// Snapshots that are held.
const SNAPSHOTS: usize = 2;
/// Values that are held where they lie.
const PINS: usize = 24;
/// Most reads are of one key in so many, side by side.
const HOT_OF: usize = 8;
/// Rounds after which other keys are read most.
const MOVES_AFTER: u64 = 2_000;
/// Of eight reads in a round so many are of hot keys.
const HOT: u64 = 7;

/// A keyspace as this reader knows it.
struct SeenSeat {
    generation: u64,
    space: Keyspace,
    born: u64,
}

/// A key of a snapshot.
struct LookedAt {
    key: usize,
    bounds: VersionBounds,
    /// What was found there, once it was read.
    found: Option<Option<u64>>,
}

/// A snapshot, and some keys as of then.
struct SnapshotLook {
    snapshot: Snapshot,
    seat: usize,
    generation: u64,
    keys: Vec<LookedAt>,
    left: u32,
}

/// A value that is held.
struct HeldPin {
    value: PinnedValue,
    is: Imprint,
}

pub struct HitReader<'w> {
    world: &'w HitWorld<'w>,
    rng: Rng,
    seen: Vec<SeenSeat>,
    looks: VecDeque<SnapshotLook>,
    pins: VecDeque<HeldPin>,
    /// Where keys that are read most begin.
    hot: usize,
    value: Vec<u8>,
    counts: HitSums,
}

/// The outcome of a read that may have met a keyspace that was dropped.
enum ReadOutcome<T> {
    Found(T),
    Dropped,
}

impl<'w> HitReader<'w> {
    pub fn new(world: &'w HitWorld<'w>, seed: u64) -> HitReader<'w> {
        let seen = world.seats.iter().map(|seat| SeenSeat {
            generation: seat.generation.load(SeqCst),
            space: seat.handle(),
            born: seat.born.load(SeqCst),
        });
        HitReader {
            world,
            rng: Rng::new(seed),
            seen: seen.collect(),
            looks: VecDeque::new(),
            pins: VecDeque::new(),
            hot: 0,
            value: Vec::new(),
            counts: HitSums::default(),
        }
    }

    /// Reads until all is over.
    pub fn run(mut self) -> Result<(), HitFailure> {
        let mut rounds = 0;
        while !self.world.is_over() {
            if rounds % MOVES_AFTER == 0 {
                self.hot = self.rng.index(KEYS);
            }
            rounds += 1;
            self.round().map_err(|failure| failure.met_by("a reader"))?;
            self.tell();
        }
        Ok(())
    }

    fn tell(&mut self) {
        let told = std::mem::take(&mut self.counts);
        for of in HitCount::ALL.iter().filter(|of| told.get(**of) > 0) {
            self.world.counts.add(*of, told.get(*of));
        }
    }

    fn count(&mut self, of: HitCount, more: usize) {
        self.counts.set(of, self.counts.get(of) + more as u64);
    }

    fn round(&mut self) -> Result<(), HitFailure> {
        let at = self.rng.index(self.seen.len());
        if !self.refresh(at) {
            std::thread::yield_now();
            return Ok(());
        }
        match self.rng.weighted(&[160, 24, 12, 4, 4]) {
            0 => self.gets(at),
            1 => self.pin(at),
            2 => self.several(at),
            3 => self.scan(at),
            _ => self.look(at),
        }
    }

    /// Takes the newest handle of a keyspace; `false` while it is being made anew.
    fn refresh(&mut self, at: usize) -> bool {
        let seat = &self.world.seats[at];
        let generation = seat.generation.load(SeqCst);
        if generation % 2 == 1 {
            return false;
        }
        if generation != self.seen[at].generation {
            let (space, born) = (seat.handle(), seat.born.load(SeqCst));
            self.seen[at] = SeenSeat { generation, space, born };
            // It may have been dropped once more meanwhile.
            return seat.generation.load(SeqCst) == generation;
        }
        true
    }

    fn key(&mut self) -> usize {
        if self.rng.below(8) < HOT {
            (self.hot + self.rng.index(KEYS / HOT_OF)) % KEYS
        } else {
            self.rng.index(KEYS)
        }
    }

    /// What a read brought, unless the keyspace was dropped since its handle was taken: then it may be anything.
    fn read<T>(&self, at: usize, outcome: Result<T, Error>) -> Result<ReadOutcome<T>, HitFailure> {
        if self.world.seats[at].generation.load(SeqCst) != self.seen[at].generation {
            return Ok(ReadOutcome::Dropped);
        }
        match outcome {
            Ok(found) => Ok(ReadOutcome::Found(found)),
            Err(error) => {
                let text = self.world.place((at, 0), &format!("a read failed: {error}"));
                Err(HitFailure::of(&error, text))
            }
        }
    }

    /// Judges and counts an answer.
    fn judge(
        &mut self,
        at: usize,
        key: usize,
        bounds: VersionBounds,
        found: Option<&[u8]>,
    ) -> Result<Option<u64>, HitFailure> {
        let min = self.world.shape.value_files_min;
        let is_long = found.is_some_and(|value| min > 0 && value.len() as u64 >= min);
        self.count(HitCount::Answers, 1);
        self.count(HitCount::Values, usize::from(is_long));
        self.count(HitCount::Absent, usize::from(found.is_none()));
        self.world.judge((at, key), self.seen[at].born, bounds, found)
    }

    /// Gets that copy, and some that only ask whether there is a value.
    fn gets(&mut self, at: usize) -> Result<(), HitFailure> {
        let mut value = std::mem::take(&mut self.value);
        let world = self.world;
        let ledger = world.ledger;
        for turn in 0..ROUND {
            let key = self.key();
            value.clear();
            let done = ledger.done(slot(at, key));
            let bytes = &world.keys[key];
            if turn == 0 {
                let is_there = self.read(at, self.seen[at].space.contains_key(bytes))?;
                let ReadOutcome::Found(is_there) = is_there else { break };
                let bounds = ledger.bounds(slot(at, key), done);
                let is_right = if is_there { bounds.allow_some() } else { bounds.allow(None) };
                if !is_right {
                    let what = format!("there is a value: {is_there}, {bounds:?}");
                    return Err(world.wrong((at, key), &what));
                }
                self.count(HitCount::Answers, 1);
                continue;
            }
            let got = self.seen[at].space.get_into(bytes, &mut value);
            let ReadOutcome::Found(is_there) = self.read(at, got)? else { break };
            let bounds = ledger.bounds(slot(at, key), done);
            self.judge(at, key, bounds, is_there.then_some(&value[..]))?;
        }
        self.value = value;
        Ok(())
    }

    /// Holds a value where it lies, and lets the oldest go: its bytes must be what they were.
    fn pin(&mut self, at: usize) -> Result<(), HitFailure> {
        for _ in 0..ROUND / 4 {
            let key = self.key();
            let done = self.world.ledger.done(slot(at, key));
            let got = self.seen[at].space.get_pinned(&self.world.keys[key]);
            let ReadOutcome::Found(pinned) = self.read(at, got)? else { return Ok(()) };
            let bounds = self.world.ledger.bounds(slot(at, key), done);
            let version = self.judge(at, key, bounds, pinned.as_deref())?;
            self.count(HitCount::Pinned, 1);
            if let (Some(value), Some(version)) = (pinned, version) {
                let is = Imprint { seat: at, key, born: self.seen[at].born, version };
                self.pins.push_back(HeldPin { value, is });
            }
            if self.pins.len() > PINS {
                self.unpin()?;
            }
        }
        Ok(())
    }

    fn unpin(&mut self) -> Result<(), HitFailure> {
        let Some(HeldPin { value, is }) = self.pins.pop_front() else { return Ok(()) };
        let now = Imprint::read(&value);
        if now == Some(is) {
            return Ok(());
        }
        let what = format!("a pinned value of {is:?} has become {now:?}");
        Err(self.world.wrong((is.seat, is.key), &what))
    }

    fn several(&mut self, at: usize) -> Result<(), HitFailure> {
        let world = self.world;
        let keys: Vec<usize> = (0..SEVERAL).map(|_| self.key()).collect();
        let done: Vec<u64> = keys.iter().map(|key| world.ledger.done(slot(at, *key))).collect();
        let got = self.seen[at].space.multi_get(keys.iter().map(|key| &world.keys[*key]));
        let ReadOutcome::Found(found) = self.read(at, got)? else { return Ok(()) };
        for ((key, done), found) in keys.into_iter().zip(done).zip(found) {
            let bounds = world.ledger.bounds(slot(at, key), done);
            self.judge(at, key, bounds, found.as_deref())?;
        }
        self.count(HitCount::Several, SEVERAL);
        Ok(())
    }

    /// Walks over keys that are side by side, one way or the other; each of them is there, or may be missing.
    fn scan(&mut self, at: usize) -> Result<(), HitFailure> {
        let world = self.world;
        let from = self.key().min(KEYS - SCANNED);
        let keys = from..from + SCANNED;
        let done: Vec<u64> = keys.clone().map(|key| world.ledger.done(slot(at, key))).collect();
        let is_forward = self.rng.chance(1, 2);
        let walked = walk(&self.seen[at].space, world, &keys, is_forward);
        let ReadOutcome::Found(mut found) = self.read(at, walked)? else { return Ok(()) };
        if !is_forward {
            found.reverse();
        }
        if !found.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(world.wrong((at, from), "a scan is out of order"));
        }
        let mut found = found.into_iter().peekable();
        for (key, done) in keys.zip(done) {
            let bounds = world.ledger.bounds(slot(at, key), done);
            let value = found.next_if(|(number, _)| *number == key).map(|(_, value)| value);
            self.judge(at, key, bounds, value.as_deref())?;
        }
        if let Some((key, _)) = found.next() {
            return Err(world.wrong((at, key), "a scan shows a key beyond its end"));
        }
        self.count(HitCount::Scanned, SCANNED);
        Ok(())
    }

    /// Reads keys as of a snapshot: the same each time.
    fn look(&mut self, at: usize) -> Result<(), HitFailure> {
        if self.looks.len() < SNAPSHOTS {
            let look = self.begin_look(at);
            self.looks.extend(look);
            return Ok(());
        }
        let Some(mut look) = self.looks.pop_front() else { return Ok(()) };
        // Dropped since: nothing can be said about it.
        if !self.refresh(look.seat) || look.generation != self.seen[look.seat].generation {
            return Ok(());
        }
        if let ReadOutcome::Dropped = self.look_again(&mut look)? {
            return Ok(());
        }
        look.left -= 1;
        if look.left > 0 {
            self.looks.push_back(look);
        }
        Ok(())
    }

    fn begin_look(&mut self, at: usize) -> Option<SnapshotLook> {
        let (world, generation) = (self.world, self.seen[at].generation);
        let keys: Vec<usize> = (0..LOOKED_AT).map(|_| self.key()).collect();
        let done: Vec<u64> = keys.iter().map(|key| world.ledger.done(slot(at, *key))).collect();
        let db: &Db = &world.dbs[world.seats[at].store];
        let snapshot = db.snapshot();
        let keys = keys.into_iter().zip(done).map(|(key, done)| {
            let bounds = world.ledger.bounds(slot(at, key), done);
            LookedAt { key, bounds, found: None }
        });
        let keys = keys.collect();
        let is_same = world.seats[at].generation.load(SeqCst) == generation;
        is_same.then_some(SnapshotLook { snapshot, seat: at, generation, keys, left: LOOKS })
    }

    fn look_again(&mut self, look: &mut SnapshotLook) -> Result<ReadOutcome<()>, HitFailure> {
        let (world, at) = (self.world, look.seat);
        let options = ReadOptions::at(&look.snapshot);
        let space = &self.seen[at].space;
        let found = if look.left.is_multiple_of(2) {
            let keys = look.keys.iter().map(|looked| &world.keys[looked.key]);
            space.multi_get_with(keys, &options)
        } else {
            let get = |looked: &LookedAt| space.get_with(&world.keys[looked.key], &options);
            look.keys.iter().map(get).collect()
        };
        let ReadOutcome::Found(found) = self.read(at, found)? else {
            return Ok(ReadOutcome::Dropped);
        };
        for (looked, found) in look.keys.iter_mut().zip(found) {
            let version = self.judge(at, looked.key, looked.bounds, found.as_deref())?;
            if let Some(before) = looked.found {
                if before != version {
                    let what = format!("a snapshot showed {before:?}, and now {version:?}");
                    return Err(world.wrong((at, looked.key), &what));
                }
                self.count(HitCount::Again, 1);
            }
            looked.found = Some(version);
        }
        Ok(ReadOutcome::Found(()))
    }
}

/// What a cursor shows of `keys`, in the order in which it goes.
fn walk(
    space: &Keyspace,
    world: &HitWorld<'_>,
    keys: &std::ops::Range<usize>,
    is_forward: bool,
) -> Result<Vec<(usize, Vec<u8>)>, Error> {
    let mut cursor = space.cursor(&ReadOptions::default())?;
    let (first, last) = (&world.keys[keys.start], &world.keys[keys.end - 1]);
    if is_forward {
        cursor.seek(first)?
    } else {
        cursor.seek_for_prev(last)?
    };
    let mut found = Vec::new();
    while let Some(key) = cursor.key() {
        if key < &first[..] || key > &last[..] {
            break;
        }
        let number =
            key_number(key).filter(|number| world.keys.get(*number).is_some_and(|is| is == key));
        let stranger = || Error::new(ErrorKind::Corruption, "scan", format!("a key {key:?}"));
        let number = number.ok_or_else(stranger)?;
        let value = cursor.value()?.unwrap_or_default().to_vec();
        found.push((number, value));
        if is_forward {
            cursor.next()?
        } else {
            cursor.prev()?
        };
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::ledger::HitLedger;
    use super::super::shape::{CacheShape, CachedForm};
    use super::super::tally::HitCounts;
    use super::super::world::seat_slot;
    use super::*;

    /// What readers say of a filled store that `change` changes behind the ledger's back.
    fn read_after(change: impl FnOnce(&HitWorld<'_>)) -> Result<(), HitFailure> {
        let dir = tempfile::tempdir().expect("a folder");
        let form = CachedForm::Logged;
        let slots = seat_slot(form.seats(), form.seats());
        let ledger = HitLedger::open(&dir.path().join("ledger"), slots)?;
        let counts = HitCounts::default();
        let shape = CacheShape::new(form, 3);
        let world = HitWorld::open(shape, dir.path(), &ledger, &counts)?;
        world.settle()?;
        world.fill()?;
        change(&world);
        let mut reader = HitReader::new(&world, 1);
        (0..600).try_for_each(|_| reader.round())
    }

    /// Writes a version to all keys of the first keyspace.
    fn put(world: &HitWorld<'_>, seat: usize, version: u64, born: u64) {
        let mut value = Vec::new();
        for key in 0..KEYS {
            Imprint { seat, key, born, version }.write_to(&mut value);
            world.dbs[0].put(&world.keys[key], &value).expect("put");
        }
    }

    #[test]
    fn what_is_right_passes_and_each_wrong_answer_is_caught() {
        assert_eq!(read_after(|_| {}), Ok(()));
        let all = |world: &HitWorld<'_>| world.seats[0].born.load(SeqCst);
        let caught = |change: &dyn Fn(&HitWorld<'_>), says: &str| {
            let failure = read_after(change).expect_err(says);
            let HitFailure::Violation(text) = failure else { panic!("{failure:?}") };
            assert!(text.contains(says), "{text}");
        };
        caught(&|world| put(world, 0, u64::MAX, all(world)), "is not within");
        caught(&|world| put(world, 0, 0, all(world)), "is not within");
        caught(&|world| put(world, 1, 1, all(world)), "a value of");
        caught(&|world| put(world, 0, 1, 7), "it was made by");
        caught(&|world| world.dbs[0].delete_range("", "z").expect("delete"), "VersionBounds");
        caught(
            &|world| {
                (0..KEYS).for_each(|key| world.dbs[0].put(&world.keys[key], "?").expect("put"))
            },
            "no thread wrote",
        );
    }

    #[test]
    fn a_snapshot_that_changes_its_answer_is_caught() {
        let dir = tempfile::tempdir().expect("a folder");
        let form = CachedForm::Logged;
        let slots = seat_slot(form.seats(), form.seats());
        let ledger = HitLedger::open(&dir.path().join("ledger"), slots).expect("ledger");
        let counts = HitCounts::default();
        let world = HitWorld::open(CacheShape::new(form, 4), dir.path(), &ledger, &counts);
        let world = world.expect("open");
        world.settle().expect("new");
        world.fill().expect("fill");
        let mut reader = HitReader::new(&world, 1);
        let mut look = reader.begin_look(0).expect("a snapshot");
        assert!(reader.look_again(&mut look).is_ok());
        assert!(reader.look_again(&mut look).is_ok());
        // As if a change had been under way when it was taken: both answers are within bounds.
        let before = look.keys[0].found.flatten().expect("a value");
        look.keys[0].found = Some(Some(before - 1));
        let text = reader.look_again(&mut look).err().expect("another answer");
        assert!(text.to_string().contains("a snapshot showed"), "{text}");
    }
}
