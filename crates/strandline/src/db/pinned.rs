//! Values that are read without a copy.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use base::{Result, Seq};

use super::{Db, Handle, Keyspace, ReadOptions, Snapshot};
use crate::keyspace::usage::HoldKind;
use crate::open::close::StoreHold;
use crate::read::pinned::HeldValue;

/// A value where it lies, in persistent memory or in the block cache: [`Keyspace::get_pinned`]. It reads as a `&[u8]`, and its
/// bytes do not change, whatever is written, deleted or compacted meanwhile.
///
/// As long as it lives it keeps the zone, the extent or the block that it is in, and the store cannot be closed. So it is for
/// values that are soon let go: many of them, in as many zones, leave writers no space, and writes fail with `NoSpace`. A value
/// that a merge operator made of operands is a copy.
///
/// ```
/// # use strandline::{Db, Options, PmSource};
/// # let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
/// # let db = Db::open("unused-for-heap", options)?;
/// db.put("photo", vec![7; 100_000])?;
/// let photo = db.get_pinned("photo")?.expect("it is there");
/// db.delete("photo")?;
/// assert_eq!((photo.len(), photo[99_999]), (100_000, 7));
/// # Ok::<(), strandline::Error>(())
/// ```
pub struct PinnedValue {
    // In this order: what lets others open the store goes last.
    value: HeldValue,
    _handle: Arc<Handle>,
    _hold: StoreHold,
}

impl Deref for PinnedValue {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.value.bytes()
    }
}

impl AsRef<[u8]> for PinnedValue {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for PinnedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}

impl Keyspace {
    /// The value of `key` where it lies, verified.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn get_pinned(&self, key: impl AsRef<[u8]>) -> Result<Option<PinnedValue>> {
        self.pinned(key.as_ref(), None)
    }

    /// The value of `key` as of `options.snapshot`, where it lies, verified.
    ///
    /// # Errors
    /// As [`Keyspace::get_with`].
    pub fn get_pinned_with(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions<'_>,
    ) -> Result<Option<PinnedValue>> {
        self.pinned(key.as_ref(), self.moment_of(options)?)
    }

    fn pinned(&self, key: &[u8], snapshot: Option<Seq>) -> Result<Option<PinnedValue>> {
        let hold = self.engine().hold(HoldKind::Value)?;
        let found = self.engine().get_pinned(&self.space, key, snapshot);
        let found = found.map_err(|error| self.unread(error))?;
        self.note_get(key, found.as_ref().map(|value| value.bytes().len()));
        let handle = || Arc::clone(&self.handle);
        Ok(found.map(|value| PinnedValue { value, _handle: handle(), _hold: hold }))
    }
}

impl Db {
    /// The value of `key` in the default keyspace, where it lies; see [`PinnedValue`].
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn get_pinned(&self, key: impl AsRef<[u8]>) -> Result<Option<PinnedValue>> {
        self.default_keyspace().get_pinned(key)
    }
}

impl Snapshot {
    /// The value that `key` of the default keyspace had, where it lies. It may outlive the snapshot.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn get_pinned(&self, key: impl AsRef<[u8]>) -> Result<Option<PinnedValue>> {
        self.default.get_pinned_with(key, &ReadOptions::at(self))
    }
}
