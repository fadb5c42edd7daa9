//! Iterators whose items are owned.
//!
//! An iterator reads ahead in batches, each through a scan of its own, and keeps only the copies: between two steps it holds
//! no memory of the store, however long it is left alone. Batches grow, so that a step costs the same however many there
//! are. Both ends read out of one range of keys that no batch has covered yet, so they never meet a key twice.

use std::collections::VecDeque;
use std::iter::FusedIterator;
use std::ops::Bound;
use std::sync::Arc;

use art::Direction;
use base::{Error, Result};

use super::range::KeyRange;
use super::snapshot::PinnedSeq;
use super::{Keyspace, Slice, Snapshot};
use crate::keyspace::usage::HoldKind;
use crate::open::close::StoreHold;
use crate::read::scan::Scan;
use crate::snapshot::Reader;
use crate::tracer::TracedSeek;
use crate::ttl::{Expiry, Now};

/// Items of the first batch, and of the longest.
const ITEMS: (usize, usize) = (16, 512);
/// Bytes for each item of a batch. A batch of fewer, longer ones ends there.
const ITEM_BYTES: usize = 256;

/// An iterator over keys and values, in key order, from both ends: [`Keyspace::iter`], [`Keyspace::range`],
/// [`Keyspace::prefix`].
///
/// It shows the moment when it was made, whatever is written meanwhile. An item is an error if its value cannot be read: it is
/// damaged, or the merge operator refuses its operands. The iterator goes on behind that key. Where reading cannot go on, the
/// error is the last item. The items are copies and may be kept; for reading values without copying them there is
/// [`Keyspace::cursor`].
///
/// Versions of keys that it may still read are kept until it is dropped, and the store cannot be closed before.
///
/// ```
/// # use strandline::{Db, Options, PmSource};
/// # let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
/// # let db = Db::open("unused-for-heap", options)?;
/// for key in ["a", "b", "c"] {
///     db.put(key, "value")?;
/// }
/// let mut iter = db.iter();
/// let (first, _) = iter.next().expect("an item")?;
/// let (last, _) = iter.next_back().expect("an item")?;
/// assert_eq!((first, last), ("a".into(), "c".into()));
/// let rest: Result<Vec<_>, _> = iter.collect();
/// assert_eq!(rest?.len(), 1);
/// # Ok::<(), strandline::Error>(())
/// ```
pub struct Iter(Ends);

/// An iterator over keys, as [`Iter`]: [`Keyspace::keys`]. Values are not copied.
///
/// ```
/// # use strandline::{Db, Options, PmSource};
/// # let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
/// # let db = Db::open("unused-for-heap", options)?;
/// db.put("a", vec![0; 1000])?;
/// assert_eq!(db.keys().next().expect("a key")?, "a");
/// # Ok::<(), strandline::Error>(())
/// ```
pub struct Keys(Ends);

impl Iter {
    pub(super) fn new(keyspace: &Keyspace, at: Option<&Snapshot>, range: KeyRange) -> Iter {
        Iter(Ends::new(keyspace, at, range, Copied::Entries))
    }
}

impl Keys {
    pub(super) fn new(keyspace: &Keyspace, at: Option<&Snapshot>, range: KeyRange) -> Keys {
        Keys(Ends::new(keyspace, at, range, Copied::Keys))
    }
}

impl Iterator for Iter {
    type Item = Result<(Slice, Slice)>;

    fn next(&mut self) -> Option<Result<(Slice, Slice)>> {
        self.0.take(Direction::Forward)
    }
}

impl DoubleEndedIterator for Iter {
    fn next_back(&mut self) -> Option<Result<(Slice, Slice)>> {
        self.0.take(Direction::Backward)
    }
}

impl FusedIterator for Iter {}

impl Iterator for Keys {
    type Item = Result<Slice>;

    fn next(&mut self) -> Option<Result<Slice>> {
        self.0.take(Direction::Forward).map(|item| item.map(|(key, _)| key))
    }
}

impl DoubleEndedIterator for Keys {
    fn next_back(&mut self) -> Option<Result<Slice>> {
        self.0.take(Direction::Backward).map(|item| item.map(|(key, _)| key))
    }
}

impl FusedIterator for Keys {}

/// What is copied of an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Copied {
    Entries,
    Keys,
}

/// What was copied of an entry, or why its value was not.
struct CopiedEntry {
    key: Slice,
    value: Result<Slice>,
}

impl CopiedEntry {
    fn item(self) -> Result<(Slice, Slice)> {
        self.value.map(|value| (self.key, value))
    }
}

/// Both ends of an iterator.
///
/// **I-ITER-1** `front`, the range between, and `back` are disjoint and in key order. Their keys are those that were not
/// given out yet.
struct Ends {
    keyspace: Keyspace,
    copied: Copied,
    /// Read from the front, in key order.
    front: VecDeque<CopiedEntry>,
    /// Read from the back, the highest key first.
    back: VecDeque<CopiedEntry>,
    /// Keys that are not read yet; none once all are, or reading has failed.
    between: Option<Between>,
    /// What reading failed of, until it is given out.
    failure: Option<Error>,
    /// Items of the next batch at most.
    batch: usize,
    /// Bytes of all batches that were read from the front.
    shown: usize,
    /// The seek that it stands for, while entries are counted for a trace: those that were read, in batches.
    traced: Option<Box<TracedSeek>>,
}

impl Drop for Ends {
    fn drop(&mut self) {
        if let Some(seek) = &mut self.traced {
            // The seek itself leads to the first.
            seek.steps = seek.steps.saturating_sub(1);
            self.keyspace.engine().tracer.note_seek(seek);
        }
    }
}

/// A range of keys that is still to be read, and what keeps it readable.
struct Between {
    // In this order: what lets others open the store goes last.
    moment: PinnedSeq,
    /// When values are judged, where they expire.
    now: Option<Now>,
    range: KeyRange,
    _hold: StoreHold,
}

impl Ends {
    fn new(keyspace: &Keyspace, at: Option<&Snapshot>, range: KeyRange, copied: Copied) -> Ends {
        let begun = keyspace.engine().hold(HoldKind::Iterator).and_then(|hold| {
            let moment = keyspace.hold_moment(at)?;
            let now = keyspace.space.expiry.as_ref().map(Expiry::now);
            Ok(Between { moment, now, range, _hold: hold })
        });
        let (between, failure) = match begun {
            Ok(between) => (Some(between), None),
            Err(error) => (None, Some(error)),
        };
        Ends {
            keyspace: keyspace.clone(),
            copied,
            front: VecDeque::new(),
            back: VecDeque::new(),
            between,
            failure,
            batch: ITEMS.0,
            shown: 0,
            traced: None,
        }
    }

    /// The next item at the end from which `direction` leads into the range.
    #[inline]
    fn take(&mut self, direction: Direction) -> Option<Result<(Slice, Slice)>> {
        let own = match direction {
            Direction::Forward => &mut self.front,
            Direction::Backward => &mut self.back,
        };
        match own.pop_front() {
            Some(copy) => Some(copy.item().map_err(|error| self.keyspace.unread(error))),
            None => self.take_next(direction),
        }
    }

    #[cold]
    fn take_next(&mut self, direction: Direction) -> Option<Result<(Slice, Slice)>> {
        if let Err(error) = self.read(direction) {
            self.failure = Some(self.keyspace.unread(error));
            self.between = None;
        }
        let (own, other) = match direction {
            Direction::Forward => (&mut self.front, &mut self.back),
            Direction::Backward => (&mut self.back, &mut self.front),
        };
        if let Some(copy) = own.pop_front() {
            return Some(copy.item().map_err(|error| self.keyspace.unread(error)));
        }
        if let Some(error) = self.failure.take() {
            // What the other end has lies behind keys that cannot be read.
            other.clear();
            return Some(Err(error));
        }
        other.pop_back().map(CopiedEntry::item)
    }

    /// Reads a batch from one end of the range between.
    fn read(&mut self, direction: Direction) -> Result<()> {
        let Some(between) = &mut self.between else { return Ok(()) };
        let Between { moment, now, range: (lower, upper), .. } = between;
        let (engine, space) = (self.keyspace.engine(), &self.keyspace.space);
        let mut scan = Scan::new(engine, space, moment.seq, *now, lower.clone(), upper.clone())?;
        if self.batch == ITEMS.0 && self.traced.is_none() {
            let bound = match direction {
                Direction::Forward => &*lower,
                Direction::Backward => &*upper,
            };
            self.traced = scan.traced_seek(bound.as_ref().map(|key| &key[..]), direction);
        }
        if direction == Direction::Forward {
            scan = scan.behind(self.shown);
        }
        scan.seek(Bound::Unbounded, direction)?;
        let into = match direction {
            Direction::Forward => &mut self.front,
            Direction::Backward => &mut self.back,
        };
        let most = self.batch * ITEM_BYTES;
        let mut bytes = 0;
        while let Some(key) = scan.key().filter(|_| into.len() < self.batch && bytes < most) {
            let value = match self.copied {
                Copied::Entries => {
                    scan.value().map(|value| value.map(Slice::new).unwrap_or_default())
                }
                Copied::Keys => Ok(Slice::default()),
            };
            bytes += key.len() + value.as_ref().map_or(0, |value| value.len());
            into.push_back(CopiedEntry { key: Slice::new(key), value });
            if let Some(seek) = &mut self.traced {
                seek.steps += 1;
            }
            scan.step(direction)?;
        }
        if direction == Direction::Forward {
            self.shown += bytes;
        }
        match into.back().filter(|_| scan.valid()) {
            None => self.between = None,
            Some(last) => {
                let behind = Bound::Excluded(last.key.to_vec());
                match direction {
                    Direction::Forward => *lower = behind,
                    Direction::Backward => *upper = behind,
                }
                self.batch = (2 * self.batch).min(ITEMS.1);
            }
        }
        Ok(())
    }
}

impl Keyspace {
    /// The moment of `at`, or now, kept readable.
    pub(super) fn hold_moment(&self, at: Option<&Snapshot>) -> Result<PinnedSeq> {
        let engine = self.engine();
        let seq = match at {
            Some(snapshot) => engine.sequence.snapshots.again(self.moment(snapshot)?),
            None => engine.sequence.snapshots.take(&engine.sequence.ring, Reader::Snapshot),
        };
        Ok(PinnedSeq { handle: Arc::clone(&self.handle), seq, reader: Reader::Snapshot })
    }
}
