//! A thread that writes: keys that are its own, in every way there is.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use sst::{EntryKind, Writer, WriterOptions};
use strandline::{Batch, ErrorKind, IngestOptions, Keyspace, Seq};
use testkit::Rng;

use super::failure::HitFailure;
use super::imprint::Imprint;
use super::ledger::Effect;
use super::shape::{KEYS, SPACES};
use super::tally::HitCount;
use super::world::{HitWorld, OwnKeys, seat_slot};

/// Keys of a batch, or of a file that is taken in, at most.
const ROW: u64 = 40;
/// Keys of a deleted range at most.
const RANGE: u64 = 150;
/// Changes of a lane for each time that it drops a keyspace, about.
const DROP_OF: u32 = 6_000;

pub struct HitLane<'w> {
    world: &'w HitWorld<'w>,
    own: Vec<OwnKeys>,
    file: PathBuf,
    rng: Rng,
    value: Vec<u8>,
}

impl<'w> HitLane<'w> {
    pub fn new(world: &'w HitWorld<'w>, number: usize, seed: u64) -> HitLane<'w> {
        let file = world.dir.join(format!("in{number}.sst"));
        let (own, rng) = (world.own(number), Rng::new(seed));
        HitLane { world, own, file, rng, value: Vec::new() }
    }

    /// Writes until all is over.
    pub fn run(mut self) -> Result<(), HitFailure> {
        let (burst, rest_ms) = self.world.shape.pace;
        while !self.world.is_over() {
            let mut changes = 0;
            for _ in 0..self.rng.below(2 * burst) {
                changes += self.step().map_err(|failure| failure.met_by("a change"))?;
                if self.world.is_over() {
                    break;
                }
            }
            self.world.counts.add(HitCount::Changes, changes);
            std::thread::sleep(Duration::from_millis(self.rng.below(2 * rest_ms)));
        }
        Ok(())
    }

    /// A row of own keys, at most so many.
    fn row(&mut self, most: u64) -> (usize, Range<usize>) {
        let at = self.rng.index(self.own.len());
        let OwnKeys { seat, keys } = &self.own[at];
        let len = 1 + self.rng.below(most.min(keys.len() as u64)) as usize;
        let from = keys.start + self.rng.index(keys.len() - len + 1);
        (*seat, from..from + len)
    }

    /// Keys that it has changed.
    fn step(&mut self) -> Result<u64, HitFailure> {
        if self.rng.one_in(DROP_OF) {
            return self.drop_space();
        }
        let sweeps = self.world.shape.sweeps;
        let kind = self.rng.weighted(&[6_000, 800, 600, 3 * sweeps, 4 * sweeps]);
        let (seat, keys) = match kind {
            0 | 1 => self.row(1),
            3 => self.row(RANGE),
            _ => self.row(ROW),
        };
        let len = keys.len() as u64;
        match kind {
            0 => self.put(seat, keys)?,
            1 => self.delete(seat, keys)?,
            2 => self.batch(seat, keys)?,
            3 => self.delete_range(seat, keys)?,
            _ => self.ingest(seat, keys)?,
        }
        Ok(len)
    }

    /// Makes a change: `issued`, then what `make` does, then `done`. `false`: it was refused and is not there.
    fn change(
        &mut self,
        seat: usize,
        keys: Range<usize>,
        effect: Effect,
        make: impl FnOnce(&mut Self, &Keyspace, u64) -> Result<bool, strandline::Error>,
    ) -> Result<bool, HitFailure> {
        let (ledger, slots) = (self.world.ledger, HitWorld::slots(seat, &keys));
        let space = self.world.seats[seat].handle();
        let version = ledger.number();
        ledger.issue(slots.clone(), version, effect)?;
        let is_there = make(self, &space, version)?;
        if is_there {
            ledger.acknowledge(slots, version)?;
        }
        Ok(is_there)
    }

    fn fill(&mut self, seat: usize, key: usize, version: u64) {
        let born = self.world.seats[seat].born.load(SeqCst);
        Imprint { seat, key, born, version }.write_to(&mut self.value);
    }

    fn put(&mut self, seat: usize, keys: Range<usize>) -> Result<(), HitFailure> {
        let key = keys.start;
        self.change(seat, keys, Effect::Puts, |lane, space, version| {
            lane.fill(seat, key, version);
            space.put(&lane.world.keys[key], &lane.value)?;
            Ok(true)
        })?;
        Ok(())
    }

    fn delete(&mut self, seat: usize, keys: Range<usize>) -> Result<(), HitFailure> {
        let key = keys.start;
        self.change(seat, keys, Effect::Deletes, |lane, space, _| {
            space.delete(&lane.world.keys[key])?;
            Ok(true)
        })?;
        Ok(())
    }

    /// Puts several keys at once; what is too long for a batch goes by itself.
    fn batch(&mut self, seat: usize, keys: Range<usize>) -> Result<(), HitFailure> {
        let own = keys.clone();
        self.change(seat, keys, Effect::Puts, |lane, space, version| {
            let mut batch = Batch::new();
            for key in own {
                lane.fill(seat, key, version);
                batch.put(space, &lane.world.keys[key], &lane.value);
                if batch.bytes() > 8 << 10 {
                    lane.world.dbs[lane.world.seats[seat].store].write(&batch)?;
                    batch.clear();
                }
            }
            lane.world.dbs[lane.world.seats[seat].store].write(&batch)?;
            Ok(true)
        })?;
        Ok(())
    }

    fn delete_range(&mut self, seat: usize, keys: Range<usize>) -> Result<(), HitFailure> {
        let ends = keys.clone();
        self.change(seat, keys, Effect::Deletes, |lane, space, _| {
            let all = &lane.world.keys;
            space.delete_range(&all[ends.start], &all[ends.end])?;
            Ok(true)
        })?;
        self.world.counts.add(HitCount::Ranges, 1);
        Ok(())
    }

    /// Takes in a file of puts, or of deletions.
    fn ingest(&mut self, seat: usize, keys: Range<usize>) -> Result<(), HitFailure> {
        let effect = if self.rng.chance(1, 6) { Effect::Deletes } else { Effect::Puts };
        let own = keys.clone();
        let is_there = self.change(seat, keys, effect, |lane, space, version| {
            let options = WriterOptions { external: true, ..WriterOptions::default() };
            let mut writer = Writer::new(Vec::new(), options);
            for key in own {
                lane.value.clear();
                let kind = match effect {
                    Effect::Deletes => EntryKind::Delete,
                    Effect::Puts => {
                        lane.fill(seat, key, version);
                        EntryKind::Value
                    }
                };
                writer.add(&lane.world.keys[key], Seq::ZERO, kind, &lane.value)?;
            }
            let path = lane.file.display().to_string();
            std::fs::write(&lane.file, writer.finish()?.0)
                .map_err(|error| strandline::Error::io("write", path, error))?;
            let db = &lane.world.dbs[lane.world.seats[seat].store];
            let options = IngestOptions::default().move_files(false);
            match db.ingest(space, std::slice::from_ref(&lane.file), options) {
                Err(error) if error.kind() == ErrorKind::Busy => Ok(false),
                done => done.map(|_| true),
            }
        })?;
        self.world.counts.add(HitCount::Ingests, u64::from(is_there));
        Ok(())
    }

    /// Drops a keyspace, and makes one of the same name with most of the keys.
    fn drop_space(&mut self) -> Result<u64, HitFailure> {
        let whole: Vec<usize> =
            self.own.iter().filter(|own| own.keys.len() == KEYS).map(|own| own.seat).collect();
        if whole.is_empty() {
            return Ok(0);
        }
        let at = *self.rng.pick(&whole);
        let (seat, ledger) = (&self.world.seats[at], self.world.ledger);
        let (db, dir) =
            (&self.world.dbs[seat.store], self.world.dir.join(format!("store{}", seat.store)));
        let (made, version) = (seat_slot(self.world.seats.len(), at), ledger.number());
        let slots = HitWorld::slots(at, &(0..KEYS));
        seat.generation.fetch_add(1, SeqCst);
        ledger.issue(made..made + 1, version, Effect::Puts)?;
        ledger.issue(slots.clone(), version, Effect::Deletes)?;
        db.drop_keyspace(seat.name)?;
        let again =
            db.create_keyspace_with(seat.name, self.world.shape.keyspace(&dir, seat.name))?;
        ledger.acknowledge(slots, version)?;
        ledger.acknowledge(made..made + 1, version)?;
        seat.born.store(version, SeqCst);
        *seat.space.lock().unwrap_or_else(PoisonError::into_inner) = again;
        seat.generation.fetch_add(1, SeqCst);
        self.world.counts.add(HitCount::Drops, 1);
        let put = ROW as usize - 5;
        for from in (0..KEYS).step_by(ROW as usize) {
            self.batch(at, from..from + put)?;
        }
        Ok((KEYS / ROW as usize * put) as u64)
    }
}

/// Each lane has a keyspace that it may drop.
const _: () = assert!(SPACES.len() > super::shape::LANES);
