//! Scans of a transaction, which see its own changes.

use std::cmp::Ordering;
use std::iter::FusedIterator;
use std::ops::Bound;

use art::Direction;
use base::Result;

use super::Transaction;
use crate::db::overlay::Overlay;
use crate::db::range::{KeyRange, spanned};
use crate::db::snapshot::PinnedSeq;
use crate::db::{Keyspace, Slice};
use crate::read::scan::{as_slice, tighter};
use crate::snapshot::Reader;

/// A position among the keys that a transaction sees: [`Transaction::cursor`]. It moves both ways, as [`Cursor`](crate::Cursor)
/// does, and lends keys and values where they lie. The transaction can be changed again when it is dropped.
///
/// With [`Isolation::Serializable`](crate::Isolation) what it passes counts as read, between a seek and where it gets from there.
///
/// ```
/// # use strandline::{Db, Options, PmSource, TransactionOptions};
/// # let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
/// # let db = Db::open("unused-for-heap", options)?;
/// let fruit = db.default_keyspace();
/// db.put("apple", "red")?;
/// let mut transaction = db.begin(TransactionOptions::new())?;
/// transaction.put(fruit, "pear", "green")?;
/// let mut cursor = transaction.cursor(fruit, ..)?;
/// cursor.seek_to_last()?;
/// assert_eq!(cursor.key(), Some(&b"pear"[..]));
/// cursor.prev()?;
/// assert_eq!(cursor.value()?, Some(&b"red"[..]));
/// # Ok::<(), strandline::Error>(())
/// ```
pub struct TransactionCursor<'t> {
    transaction: &'t Transaction,
    keyspace: Keyspace,
    range: KeyRange,
    overlay: Overlay<'t>,
    /// Keys that it has passed since the last seek, where that counts.
    passed: Option<Passed>,
    /// Its own moment, where the transaction has none.
    _own: Option<PinnedSeq>,
}

/// Keys from one bound to the other, both as far as the cursor got.
struct Passed {
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
}

impl<'t> TransactionCursor<'t> {
    pub(super) fn new(
        transaction: &'t Transaction,
        keyspace: &Keyspace,
        range: KeyRange,
    ) -> Result<TransactionCursor<'t>> {
        let own = match transaction.moment() {
            Some(_) => None,
            None => Some(PinnedSeq::take(&transaction.handle, Reader::Snapshot)),
        };
        let seq = own.as_ref().unwrap_or_else(|| transaction.pinned()).seq;
        let overlay = Overlay::new(keyspace, &transaction.changes, seq, range.clone())?;
        Ok(TransactionCursor {
            transaction,
            keyspace: keyspace.clone(),
            range,
            overlay,
            passed: None,
            _own: own,
        })
    }

    fn seek_to(&mut self, from: Bound<&[u8]>, direction: Direction) -> Result<()> {
        self.note_passed();
        let sought = self.overlay.seek(from, direction);
        if self.transaction.counts_reads() {
            let (lower, upper) = &self.range;
            let near = match direction {
                Direction::Forward => lower,
                Direction::Backward => upper,
            };
            let near = tighter(from, as_slice(near), direction).map(<[u8]>::to_vec);
            let reached = self.overlay.key().map(|key| Bound::Included(key.to_vec()));
            self.passed = Some(match direction {
                Direction::Forward => {
                    Passed { lower: near, upper: reached.unwrap_or_else(|| upper.clone()) }
                }
                Direction::Backward => {
                    Passed { lower: reached.unwrap_or_else(|| lower.clone()), upper: near }
                }
            });
        }
        sought.map_err(|error| self.overlay.unread(error))
    }

    fn step(&mut self, direction: Direction) -> Result<()> {
        if !self.valid() {
            return Ok(());
        }
        let stepped = self.overlay.step(direction);
        self.widen(direction);
        stepped.map_err(|error| self.overlay.unread(error))
    }

    /// It has passed the key that it stands on, or all up to the end. What it passed before stays passed when it turns back.
    fn widen(&mut self, direction: Direction) {
        let Some(passed) = &mut self.passed else { return };
        let (bound, end, outside) = match direction {
            Direction::Forward => (&mut passed.upper, &self.range.1, Ordering::Greater),
            Direction::Backward => (&mut passed.lower, &self.range.0, Ordering::Less),
        };
        match (self.overlay.key(), as_slice(bound)) {
            (None, _) => *bound = end.clone(),
            (Some(key), Bound::Included(last) | Bound::Excluded(last))
                if key.cmp(last) == outside =>
            {
                *bound = Bound::Included(key.to_vec());
            }
            _ => {}
        }
    }

    /// Positions on the first key not less than `key`.
    ///
    /// # Errors
    /// As [`Cursor::seek`](crate::Cursor::seek).
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.seek_to(Bound::Included(key.as_ref()), Direction::Forward)
    }

    /// Positions on the last key not greater than `key`.
    ///
    /// # Errors
    /// As [`Cursor::seek`](crate::Cursor::seek).
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.seek_to(Bound::Included(key.as_ref()), Direction::Backward)
    }

    /// Positions on the first key.
    ///
    /// # Errors
    /// As [`Cursor::seek`](crate::Cursor::seek).
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.seek_to(Bound::Unbounded, Direction::Forward)
    }

    /// Positions on the last key.
    ///
    /// # Errors
    /// As [`Cursor::seek`](crate::Cursor::seek).
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.seek_to(Bound::Unbounded, Direction::Backward)
    }

    /// Moves to the next key; nothing happens if the cursor is not valid.
    ///
    /// # Errors
    /// As [`Cursor::next`](crate::Cursor::next).
    #[expect(
        clippy::should_implement_trait,
        reason = "a cursor that may fail, as RocksDB's users know it"
    )]
    pub fn next(&mut self) -> Result<()> {
        self.step(Direction::Forward)
    }

    /// Moves to the previous key; nothing happens if the cursor is not valid.
    ///
    /// # Errors
    /// As [`Cursor::next`](crate::Cursor::next).
    pub fn prev(&mut self) -> Result<()> {
        self.step(Direction::Backward)
    }

    /// Whether the cursor stands on a key.
    pub fn valid(&self) -> bool {
        self.overlay.key().is_some()
    }

    /// The key, if the cursor stands on one.
    pub fn key(&self) -> Option<&[u8]> {
        self.overlay.key()
    }

    /// The value, if the cursor stands on a key.
    ///
    /// # Errors
    /// As [`Cursor::value`](crate::Cursor::value).
    pub fn value(&self) -> Result<Option<&[u8]>> {
        self.overlay.value().map_err(|error| self.overlay.unread(error))
    }

    /// Tells the transaction what was read since the last seek.
    fn note_passed(&mut self) {
        if let Some(Passed { lower, upper }) = self.passed.take() {
            self.transaction.note_range(&self.keyspace, spanned((lower, upper)));
        }
    }
}

impl Drop for TransactionCursor<'_> {
    fn drop(&mut self) {
        self.note_passed();
    }
}

/// An iterator over the keys and values that a transaction sees, in key order, from both ends: [`Transaction::iter`],
/// [`Transaction::range`], [`Transaction::prefix`]. The items are copies. An error of a value concerns its key alone; where reading
/// cannot go on, it is the last item.
///
/// ```
/// # use strandline::{Db, Options, PmSource, TransactionOptions};
/// # let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
/// # let db = Db::open("unused-for-heap", options)?;
/// let fruit = db.default_keyspace();
/// db.put("apple", "red")?;
/// let mut transaction = db.begin(TransactionOptions::new())?;
/// transaction.put(fruit, "pear", "green")?;
/// let keys: Result<Vec<_>, _> = transaction.iter(fruit).map(|item| item.map(|(key, _)| key)).collect();
/// assert_eq!(keys?, ["apple", "pear"]);
/// # Ok::<(), strandline::Error>(())
/// ```
pub struct TransactionIter<'t> {
    begun: Begun<'t>,
    front: Option<End<'t>>,
    back: Option<End<'t>>,
    ended: bool,
}

/// What cursors are made of.
struct Begun<'t> {
    transaction: &'t Transaction,
    keyspace: Keyspace,
    range: KeyRange,
}

/// An end of an iterator, and the last key that it gave out.
struct End<'t> {
    cursor: TransactionCursor<'t>,
    last: Slice,
}

impl<'t> TransactionIter<'t> {
    pub(super) fn new(
        transaction: &'t Transaction,
        keyspace: &Keyspace,
        range: KeyRange,
    ) -> TransactionIter<'t> {
        let begun = Begun { transaction, keyspace: keyspace.clone(), range };
        TransactionIter { begun, front: None, back: None, ended: false }
    }

    fn take(&mut self, direction: Direction) -> Option<Result<(Slice, Slice)>> {
        if self.ended {
            return None;
        }
        let (own, other) = match direction {
            Direction::Forward => (&mut self.front, &self.back),
            Direction::Backward => (&mut self.back, &self.front),
        };
        if let Err(error) = self.begun.move_on(own, direction) {
            self.ended = true;
            return Some(Err(error));
        }
        let end = own.as_mut()?;
        let before = match direction {
            Direction::Forward => Ordering::Less,
            Direction::Backward => Ordering::Greater,
        };
        // The ends have met where one comes to a key that the other gave out.
        let left =
            |key: &&[u8]| other.as_ref().is_none_or(|other| key.cmp(&&other.last[..]) == before);
        let Some(key) = end.cursor.key().filter(left).map(Slice::new) else {
            self.ended = true;
            return None;
        };
        end.last = key.clone();
        let value = end.cursor.value();
        Some(value.map(|value| (key, value.map(Slice::new).unwrap_or_default())))
    }
}

impl<'t> Begun<'t> {
    /// Moves an end on, to its first key if it has none yet.
    fn move_on(&self, end: &mut Option<End<'t>>, direction: Direction) -> Result<()> {
        if let Some(end) = end {
            return end.cursor.step(direction);
        }
        let mut cursor = self.transaction.cursor_in(&self.keyspace, self.range.clone())?;
        cursor.seek_to(Bound::Unbounded, direction)?;
        *end = Some(End { cursor, last: Slice::default() });
        Ok(())
    }
}

impl Iterator for TransactionIter<'_> {
    type Item = Result<(Slice, Slice)>;

    fn next(&mut self) -> Option<Result<(Slice, Slice)>> {
        self.take(Direction::Forward)
    }
}

impl DoubleEndedIterator for TransactionIter<'_> {
    fn next_back(&mut self) -> Option<Result<(Slice, Slice)>> {
        self.take(Direction::Backward)
    }
}

impl FusedIterator for TransactionIter<'_> {}
