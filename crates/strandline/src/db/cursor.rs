//! Cursors: they lend keys and values where they lie.

use std::ops::Bound;

use base::Result;

use super::snapshot::PinnedSeq;
use crate::open::close::StoreHold;
use crate::read::scan::Scan;
use crate::tracer::TracedSeek;
use art::Direction;

/// A position among keys and values, which it lends where they lie: [`Keyspace::cursor`](super::Keyspace::cursor).
///
/// It moves both ways, and may be put at any key. After an error of a move its position is undefined until the next seek; a
/// value that cannot be read concerns its key alone, and the cursor may move on. Until it is
/// moved or dropped it holds the space of what it may still read, and the store cannot be closed before it is dropped. For
/// items that may be kept there is [`Keyspace::iter`](super::Keyspace::iter).
///
/// ```
/// # use strandline::{Db, Options, PmSource, ReadOptions};
/// # let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
/// # let db = Db::open("unused-for-heap", options)?;
/// db.put("apple", "red")?;
/// db.put("pear", "green")?;
/// let mut cursor = db.default_keyspace().cursor(&ReadOptions::default())?;
/// cursor.seek("b")?;
/// assert_eq!((cursor.key(), cursor.value()?), (Some(&b"pear"[..]), Some(&b"green"[..])));
/// cursor.prev()?;
/// assert_eq!(cursor.key(), Some(&b"apple"[..]));
/// # Ok::<(), strandline::Error>(())
/// ```
pub struct Cursor {
    /// The last seek, while its steps are counted for a trace.
    traced: Option<Box<TracedSeek>>,
    // In this order: the scan goes before the moment that keeps its versions, and what lets others open the store last.
    scan: Scan,
    _moment: PinnedSeq,
    _hold: StoreHold,
}

impl Cursor {
    pub(super) fn new(scan: Scan, moment: PinnedSeq, hold: StoreHold) -> Cursor {
        Cursor { traced: None, scan, _moment: moment, _hold: hold }
    }

    fn seek_to(&mut self, bound: Bound<&[u8]>, direction: Direction) -> Result<()> {
        self.note_seek();
        self.scan.seek(bound, direction).map_err(|error| self.scan.unread(error))?;
        self.traced = self.scan.traced_seek(bound, direction);
        Ok(())
    }

    /// Traces the last seek, whose steps have ended.
    fn note_seek(&mut self) {
        if let Some(seek) = self.traced.take() {
            self.scan.tracer().note_seek(&seek);
        }
    }

    #[inline]
    fn step(&mut self, direction: Direction) -> Result<()> {
        if let Some(seek) = &mut self.traced {
            seek.steps += 1;
        }
        self.scan.step(direction).map_err(|error| self.scan.unread(error))
    }

    /// Positions on the first key not less than `key`.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.seek_to(Bound::Included(key.as_ref()), Direction::Forward)
    }

    /// Positions on the last key not greater than `key`.
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.seek_to(Bound::Included(key.as_ref()), Direction::Backward)
    }

    /// Positions on the first key.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.seek_to(Bound::Unbounded, Direction::Forward)
    }

    /// Positions on the last key.
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.seek_to(Bound::Unbounded, Direction::Backward)
    }

    /// Moves to the next key; nothing happens if the cursor is not valid.
    #[inline]
    #[expect(
        clippy::should_implement_trait,
        reason = "a cursor that may fail, as RocksDB's users know it"
    )]
    pub fn next(&mut self) -> Result<()> {
        self.step(Direction::Forward)
    }

    /// Moves to the previous key; nothing happens if the cursor is not valid.
    #[inline]
    pub fn prev(&mut self) -> Result<()> {
        self.step(Direction::Backward)
    }

    /// Whether the cursor stands on a key.
    #[inline]
    pub fn valid(&self) -> bool {
        self.scan.valid()
    }

    /// The key, if the cursor stands on one.
    #[inline]
    pub fn key(&self) -> Option<&[u8]> {
        self.scan.key()
    }

    /// The value, if the cursor stands on a key. A value kept outside its record is verified here.
    ///
    /// # Errors
    /// `Corruption` if it is damaged; `Hook` if the merge operator makes nothing of its operands, `NotSupported` if there is no
    /// operator.
    #[inline]
    pub fn value(&self) -> Result<Option<&[u8]>> {
        self.scan.value().map_err(|error| self.scan.unread(error))
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.note_seek();
    }
}
