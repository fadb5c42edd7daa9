//! Open stores, and the keyspaces that threads write and read. A keyspace has a seat: its place among all of them, which stays when it is
//! dropped and made anew.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};

use strandline::{Db, ErrorKind, Keyspace, Runtime, RuntimeOptions};

use super::failure::HitFailure;
use super::imprint::Imprint;
use super::ledger::{Effect, HitLedger, VersionBounds};
use super::shape::{CacheShape, KEYS, LANES, SPACES};
use super::tally::{HitCount, HitCounts, HitSums};

/// Keys that a change of a new store puts.
const FILL: usize = 50;

/// Where a keyspace is.
pub struct SpaceSeat {
    /// Odd while the keyspace is dropped and made anew: what is read through an older handle then does not count.
    pub generation: AtomicU64,
    pub space: Mutex<Keyspace>,
    /// The change that made it.
    pub born: AtomicU64,
    /// The place of its store.
    pub store: usize,
    pub name: &'static str,
}

impl SpaceSeat {
    pub fn handle(&self) -> Keyspace {
        self.space.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Keys of a seat.
#[derive(Clone, Debug)]
pub struct OwnKeys {
    pub seat: usize,
    pub keys: Range<usize>,
}

/// What all threads of a life share from an open to the close.
pub struct HitWorld<'l> {
    pub ledger: &'l HitLedger,
    pub counts: &'l HitCounts,
    pub shape: CacheShape,
    pub dir: PathBuf,
    pub dbs: Vec<Db>,
    runtime: Option<Runtime>,
    pub seats: Vec<SpaceSeat>,
    /// Bytes of all keys, in order.
    pub keys: Vec<Vec<u8>>,
    pub stop: AtomicBool,
}

/// The bytes of a key: its number, and more behind it.
pub fn key_bytes(number: usize) -> Vec<u8> {
    format!("{number:08}{}", "/".repeat(number % 5 * 7)).into_bytes()
}

/// The number of a key that a scan found.
pub fn key_number(bytes: &[u8]) -> Option<usize> {
    std::str::from_utf8(bytes.get(..8)?).ok()?.parse().ok()
}

/// Where the numbers of a key are.
#[inline]
pub fn slot(seat: usize, key: usize) -> usize {
    seat * KEYS + key
}

/// Where the numbers of a keyspace itself are, of so many.
pub fn seat_slot(seats: usize, seat: usize) -> usize {
    seats * KEYS + seat
}

impl<'l> HitWorld<'l> {
    /// Opens the stores of `shape` below `dir`.
    pub fn open(
        shape: CacheShape,
        dir: &Path,
        ledger: &'l HitLedger,
        counts: &'l HitCounts,
    ) -> Result<HitWorld<'l>, HitFailure> {
        let path = |store: usize| dir.join(format!("store{store}"));
        let stores = shape.form.stores();
        let options = RuntimeOptions::default().block_cache(shape.cache.bytes());
        let runtime = (stores > 1)
            .then(|| Runtime::new(options.dram_budget(8 * shape.cache.bytes().max(8 << 20))));
        let runtime = runtime.transpose()?;
        let open = |store: usize| {
            let (path, options) = (path(store), shape.options(&path(store))?);
            let db = match &runtime {
                Some(runtime) => runtime.open(path, options)?,
                None => Db::open(path, options)?,
            };
            Ok(db)
        };
        let dbs: Vec<Db> = (0..stores).map(open).collect::<Result<_, HitFailure>>()?;
        let mut seats = Vec::new();
        for (store, db) in dbs.iter().enumerate() {
            for name in SPACES {
                let options = shape.keyspace(&path(store), name);
                let space = db.keyspace_or_create(name, options)?;
                seats.push(SpaceSeat {
                    generation: AtomicU64::new(0),
                    space: Mutex::new(space),
                    born: AtomicU64::new(0),
                    store,
                    name,
                });
            }
        }
        Ok(HitWorld {
            ledger,
            counts,
            shape,
            dir: dir.into(),
            dbs,
            runtime,
            seats,
            keys: (0..=KEYS).map(key_bytes).collect(),
            stop: AtomicBool::new(false),
        })
    }

    pub fn is_over(&self) -> bool {
        self.stop.load(SeqCst)
    }

    /// Where the numbers of `keys` of a seat are.
    pub fn slots(seat: usize, keys: &Range<usize>) -> Range<usize> {
        slot(seat, keys.start)..slot(seat, keys.end)
    }

    /// What a lane alone writes.
    pub fn own(&self, lane: usize) -> Vec<OwnKeys> {
        let all = self.seats.iter().enumerate();
        all.filter_map(|(seat, SpaceSeat { name, .. })| {
            let place = SPACES.iter().position(|space| space == name)?;
            let keys = match place {
                0 => KEYS * lane / LANES..KEYS * (lane + 1) / LANES,
                _ if place % LANES == lane => 0..KEYS,
                _ => return None,
            };
            Some(OwnKeys { seat, keys })
        })
        .collect()
    }

    /// Compares what an answer says with what it may say.
    pub fn judge(
        &self,
        of: (usize, usize),
        born: u64,
        bounds: VersionBounds,
        found: Option<&[u8]>,
    ) -> Result<Option<u64>, HitFailure> {
        let version = self.version(of, born, found)?;
        if bounds.allow(version) {
            return Ok(version);
        }
        Err(self.wrong(of, &format!("{version:?} is not within {bounds:?}")))
    }

    /// The version of a value that is whole, and of this key and keyspace.
    fn version(
        &self,
        (seat, key): (usize, usize),
        born: u64,
        found: Option<&[u8]>,
    ) -> Result<Option<u64>, HitFailure> {
        let Some(value) = found else { return Ok(None) };
        match Imprint::read(value) {
            Some(imprint) if imprint == (Imprint { seat, key, born, ..imprint }) => {
                Ok(Some(imprint.version))
            }
            Some(other) => {
                Err(self
                    .wrong((seat, key), &format!("a value of {other:?}; it was made by {born}")))
            }
            None => {
                let head = &value[..value.len().min(32)];
                let what = format!("{} bytes that no thread wrote: {head:?}", value.len());
                Err(self.wrong((seat, key), &what))
            }
        }
    }

    /// An answer that must not be.
    pub fn wrong(&self, of: (usize, usize), what: &str) -> HitFailure {
        HitFailure::Violation(self.place(of, what))
    }

    /// What was seen of a key, with where it is.
    pub fn place(&self, (seat, key): (usize, usize), what: &str) -> String {
        let SpaceSeat { store, name, .. } = &self.seats[seat];
        format!("store {store}, keyspace {name}, key {key}: {what}\n{:?}", self.shape)
    }

    /// Compares all keys with what a kill, or a close, may have left; from then on that is what they hold. Returns how many have a value.
    pub fn settle(&self) -> Result<usize, HitFailure> {
        let (mut buffer, mut live) = (Vec::new(), 0);
        for (at, seat) in self.seats.iter().enumerate() {
            let (space, made) = (seat.handle(), seat_slot(self.seats.len(), at));
            let births = self.ledger.settled(made);
            let mut born = None;
            for key in 0..KEYS {
                buffer.clear();
                let is_there = space.get_into(&self.keys[key], &mut buffer)?;
                let found = is_there.then_some(&buffer[..]);
                live += usize::from(is_there);
                // Whether it was dropped, and made anew, is what its values say.
                let says = found.and_then(Imprint::read).map(|imprint| imprint.born);
                let known = says.filter(|born| [births.done, births.issued].contains(born));
                let of = (at, key);
                let version = self.version(of, known.unwrap_or(births.issued), found)?;
                if born.is_some_and(|born| says.is_some_and(|says| says != born)) {
                    return Err(self.wrong(of, "values of two keyspaces in one"));
                }
                born = born.or(says);
                let bounds = self.ledger.settled(slot(at, key));
                if !bounds.allow_left(version) {
                    let what = format!("{version:?} was left, not one of {bounds:?}");
                    return Err(self.wrong(of, &what));
                }
                self.ledger.settle(slot(at, key), version);
            }
            let born = born.unwrap_or(births.issued);
            self.ledger.settle(made, Some(born));
            seat.born.store(born, SeqCst);
        }
        self.counts.add(HitCount::Left, (self.seats.len() * KEYS) as u64);
        self.ledger.keep_all()?;
        Ok(live)
    }

    /// Puts all keys, where few have values.
    pub fn fill(&self) -> Result<(), HitFailure> {
        let mut value = Vec::new();
        for (at, seat) in self.seats.iter().enumerate() {
            let (space, born) = (seat.handle(), seat.born.load(SeqCst));
            for from in (0..KEYS).step_by(FILL) {
                let keys = from..from + FILL;
                let version = self.ledger.number();
                self.ledger.issue(HitWorld::slots(at, &keys), version, Effect::Puts)?;
                for key in keys.clone() {
                    Imprint { seat: at, key, born, version }.write_to(&mut value);
                    space.put(&self.keys[key], &value)?;
                }
                self.ledger.acknowledge(HitWorld::slots(at, &keys), version)?;
            }
        }
        self.dbs.iter().try_for_each(|db| Ok(db.compact()?))
    }

    /// Figures since the open.
    pub fn figures(&self) -> HitSums {
        let mut sums = HitSums::default();
        let mut add = |of, more| sums.set(of, sums.get(of) + more);
        let all: Vec<_> = self.dbs.iter().filter_map(|db| db.properties().ssd).collect();
        let shared = self.runtime.as_ref().map(|runtime| runtime.figures().cache);
        if let Some(cache) = shared.or(all.first().map(|ssd| ssd.cache)) {
            add(HitCount::BlockHits, cache.hits);
            add(HitCount::RecordHits, cache.record_hits);
            add(HitCount::LowHits, cache.low_hits);
            add(HitCount::Misses, cache.misses);
            add(HitCount::Warmed, cache.warmed);
        }
        for ssd in &all {
            let done = &ssd.compactions;
            add(HitCount::Compactions, done.level0 + done.levels);
            if let Some(below) = &ssd.pm_cache {
                add(HitCount::PmHits, below.hits);
            }
        }
        sums
    }

    /// Closes the stores.
    pub fn close(self) -> Result<(), HitFailure> {
        drop(self.seats);
        for db in self.dbs {
            match db.close() {
                Err(error) if error.kind() == ErrorKind::Busy => {
                    return Err(HitFailure::Other(format!("nothing is held, but: {error}")));
                }
                closed => closed?,
            }
        }
        Ok(())
    }
}
