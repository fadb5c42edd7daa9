//! Reads and writes of the default keyspace, and batches.

use std::sync::Arc;

use base::Result;

use super::{Batch, Db, IntoRange, Iter, Keys, Keyspace, WriteOptions};
use crate::keyspace::KeyspaceState;
use crate::record::format::Kind;
use crate::write::op::Op;
use crate::write::way::WriteWay;

impl Db {
    /// Sets `key` to `value` in the default keyspace; durable and visible when it returns.
    ///
    /// ```
    /// # use strandline::{Db, Options, PmSource};
    /// # let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
    /// # let db = Db::open("unused-for-heap", options)?;
    /// db.put("apple", "red")?;
    /// db.put(7_u32.to_be_bytes(), vec![1, 2, 3])?;
    /// assert_eq!(db.get("apple")?.as_deref(), Some(&b"red"[..]));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::write`].
    #[inline]
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.default_keyspace().put(key, value)
    }

    /// The value of `key` in the default keyspace.
    ///
    /// # Errors
    /// `Corruption` if its bytes fail their checksum, or damage may hide a newer version; `Closed`.
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.default_keyspace().get(key)
    }

    /// Whether `key` has a value in the default keyspace; see [`Keyspace::contains_key`].
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.default_keyspace().contains_key(key)
    }

    /// The values of several keys of the default keyspace, in their order, all as of one moment.
    ///
    /// ```
    /// # use strandline::{Db, Options, PmSource};
    /// # let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
    /// # let db = Db::open("unused-for-heap", options)?;
    /// db.put("apple", "red")?;
    /// assert_eq!(db.multi_get(["apple", "pear"])?, [Some(b"red".to_vec()), None]);
    /// assert!(db.contains_key("apple")? && !db.contains_key("pear")?);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::get`], if any of them fails.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        self.default_keyspace().multi_get(keys)
    }

    /// All keys of the default keyspace with their values, in order, as of now; see [`Iter`].
    pub fn iter(&self) -> Iter {
        self.default_keyspace().iter()
    }

    /// The keys of the default keyspace in `range` with their values, in order, as of now.
    pub fn range(&self, range: impl IntoRange) -> Iter {
        self.default_keyspace().range(range)
    }

    /// The keys of the default keyspace that begin with `prefix` with their values, in order, as of now.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        self.default_keyspace().prefix(prefix)
    }

    /// All keys of the default keyspace, in order, as of now.
    pub fn keys(&self) -> Keys {
        self.default_keyspace().keys()
    }

    /// Deletes `key` from the default keyspace; no error if it is not there.
    ///
    /// # Errors
    /// As [`Db::write`].
    #[inline]
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.default_keyspace().delete(key)
    }

    /// Merges `operand` into `key` of the default keyspace; see [`Keyspace::merge`].
    ///
    /// # Errors
    /// As [`Db::write`]; `InvalidArgument` without a merge operator.
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.default_keyspace().merge(key, operand)
    }

    /// Deletes all keys from `begin` up to before `end` from the default keyspace, by one record.
    ///
    /// # Errors
    /// As [`Db::write`]; `InvalidArgument` if `end` lies before `begin`.
    pub fn delete_range(&self, begin: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        self.default_keyspace().delete_range(begin, end)
    }

    /// Commits all changes of `batch` as one; durable and visible when it returns.
    ///
    /// # Errors
    /// `LimitExceeded` for keys and values beyond their limits; `NoSpace` if live data fills the pool, or a batch is more than it has room for;
    /// `ReadOnly`; `InvalidArgument` for another store's keyspace; `Closed` after a close, a drop of the
    /// keyspace, or a failure that made the store refuse writes. Nothing is written then.
    pub fn write(&self, batch: &Batch) -> Result<()> {
        self.engine().commit(&mut self.ops(batch)?, WriteWay::default())?;
        batch.note();
        Ok(())
    }

    /// As [`Db::write`], in the way that `options` say.
    ///
    /// ```
    /// # use strandline::{Batch, Db, Options, PmSource, WriteDurability, WriteOptions};
    /// # let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
    /// # let db = Db::open("unused-for-heap", options)?;
    /// let mut batch = Batch::new();
    /// batch.put(db.default_keyspace(), "apple", "red");
    /// batch.delete(db.default_keyspace(), "pear");
    /// db.write_with(&batch, &WriteOptions::new().durability(WriteDurability::Synced))?;
    /// assert!(db.contains_key("apple")?);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::write`]; `Busy` with [`no_slowdown`](WriteOptions::no_slowdown) if the write would be slowed, and nothing is
    /// written then; those of the device that has the log, which end all writing.
    pub fn write_with(&self, batch: &Batch, options: &WriteOptions) -> Result<()> {
        options.commit(self.engine(), &mut self.ops(batch)?)?;
        batch.note();
        Ok(())
    }

    /// The changes of a batch, if they are of this store.
    pub(crate) fn ops<'b>(&self, batch: &'b Batch) -> Result<Vec<Op<'b>>> {
        for change in &batch.changes {
            let space = self.own(&change.keyspace, "write")?;
            if change.kind == Kind::Merge {
                space.check_operand(batch.key(change), batch.value(change))?;
            }
        }
        Ok(batch.ops())
    }

    /// The inside of a keyspace, if it is one of this store.
    pub(super) fn own<'k>(
        &self,
        keyspace: &'k Keyspace,
        operation: &'static str,
    ) -> Result<&'k Arc<KeyspaceState>> {
        keyspace.in_store(self.engine(), operation)
    }
}
