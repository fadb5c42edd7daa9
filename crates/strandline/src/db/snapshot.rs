//! Snapshots.

use std::sync::Arc;

use base::{Result, Seq};

use super::range::{Bounds, prefixed};
use super::{Db, Handle, IntoRange, Iter, Keys, Keyspace, ReadOptions};
use crate::keyspace::usage::HoldKind;
use crate::open::close::StoreHold;
use crate::snapshot::Reader;

/// A moment of the store: reads through it see what was visible when it was taken, in every keyspace. Versions that it needs
/// are kept until it is dropped, and the store cannot be closed before.
///
/// Its own methods read the default keyspace; others are read with [`ReadOptions::at`].
///
/// ```
/// # use strandline::{Db, Options, PmSource, ReadOptions};
/// # let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
/// # let db = Db::open("unused-for-heap", options)?;
/// let stock = db.create_keyspace("stock")?;
/// db.put("apple", "red")?;
/// stock.put("apple", "12")?;
/// let snapshot = db.snapshot();
/// db.delete("apple")?;
/// stock.delete("apple")?;
/// assert_eq!(snapshot.get("apple")?.as_deref(), Some(&b"red"[..]));
/// let then = ReadOptions::at(&snapshot);
/// assert_eq!(stock.get_with("apple", &then)?.as_deref(), Some(&b"12"[..]));
/// # Ok::<(), strandline::Error>(())
/// ```
pub struct Snapshot {
    // In this order: what lets others open the store goes last.
    pub(super) moment: PinnedSeq,
    pub(super) default: Keyspace,
    /// `None` if the store was closed before.
    _hold: Option<StoreHold>,
}

/// A sequence number at which versions of keys are kept readable.
pub(super) struct PinnedSeq {
    pub(super) handle: Arc<Handle>,
    pub(super) seq: Seq,
    pub(super) reader: Reader,
}

impl Db {
    /// Takes a snapshot.
    pub fn snapshot(&self) -> Snapshot {
        let engine = self.engine();
        let moment = PinnedSeq::take(&self.handle, Reader::Snapshot);
        let hold = engine.hold(HoldKind::Snapshot).ok();
        Snapshot { moment, default: self.default_keyspace().clone(), _hold: hold }
    }
}

impl Snapshot {
    /// The last sequence number that reads through this snapshot see.
    pub fn seq(&self) -> Seq {
        self.moment.seq
    }

    /// The value that `key` of the default keyspace had.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.default.get_with(key, &ReadOptions::at(self))
    }

    /// Whether `key` of the default keyspace had a value.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.default.contains_key_with(key, &ReadOptions::at(self))
    }

    /// The values that several keys of the default keyspace had, in their order.
    ///
    /// # Errors
    /// As [`Db::get`], if any of them fails.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        self.default.multi_get_with(keys, &ReadOptions::at(self))
    }

    /// All keys that the default keyspace had, with their values, in order. The iterator may outlive the snapshot.
    pub fn iter(&self) -> Iter {
        self.range(..)
    }

    /// The keys in `range` that the default keyspace had, with their values, in order.
    pub fn range(&self, range: impl IntoRange) -> Iter {
        Iter::new(&self.default, Some(self), range.bounds())
    }

    /// The keys beginning with `prefix` that the default keyspace had, with their values, in order.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        Iter::new(&self.default, Some(self), prefixed(prefix.as_ref()))
    }

    /// All keys that the default keyspace had, in order; values are not copied.
    pub fn keys(&self) -> Keys {
        Keys::new(&self.default, Some(self), (..).bounds())
    }
}

impl PinnedSeq {
    /// What is visible now.
    pub(super) fn take(handle: &Arc<Handle>, reader: Reader) -> PinnedSeq {
        let sequence = &handle.engine.sequence;
        let seq = sequence.snapshots.take(&sequence.ring, reader);
        PinnedSeq { handle: Arc::clone(handle), seq, reader }
    }
}

impl Drop for PinnedSeq {
    fn drop(&mut self) {
        self.handle.engine.sequence.snapshots.release(self.seq, self.reader);
    }
}
