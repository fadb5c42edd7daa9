//! A keyspace of an open store.

use std::sync::Arc;

use base::{Error, ErrorKind, Result, Seq};

use super::range::{Bounds, prefixed};
use super::{Cursor, Handle, IntoRange, Iter, Keys, ReadOptions, Snapshot, WriteOptions};
use crate::engine::Engine;
use crate::hooks::events::FoundBy;
use crate::keyspace::KeyspaceState;
use crate::keyspace::usage::HoldKind;
use crate::options::KeyspaceOptions;
use crate::probe::Explained;
use crate::read::scan::Scan;
use crate::record::format::Kind;
use crate::ttl::Expiry;
use crate::write::op::Op;
use crate::write::way::WriteWay;

/// A keyspace of an open store: a named set of keys with an order of its own. Clones are of the same keyspace.
///
/// ```
/// # use strandline::{Db, Options, PmSource};
/// # let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
/// # let db = Db::open("unused-for-heap", options)?;
/// let stock = db.create_keyspace("stock")?;
/// stock.put("apple", "12")?;
/// assert_eq!(stock.get("apple")?.as_deref(), Some(&b"12"[..]));
/// assert_eq!(db.get("apple")?, None); // that is another keyspace: "default"
/// assert_eq!(db.keyspaces(), ["default", "stock"]);
/// # Ok::<(), strandline::Error>(())
/// ```
#[derive(Clone)]
pub struct Keyspace {
    pub(super) handle: Arc<Handle>,
    pub(super) space: Arc<KeyspaceState>,
}

impl Keyspace {
    /// The keyspace's name.
    pub fn name(&self) -> &str {
        &self.space.name
    }

    /// The number by which zone headers name the keyspace.
    pub fn id(&self) -> u32 {
        self.space.id
    }

    /// Its options: those that it was made with, and where its files go now.
    pub fn options(&self) -> KeyspaceOptions {
        self.space.options_now(self.engine().tables.as_deref())
    }

    /// Changes where its files go: [`placement`](KeyspaceOptions::placement) and [`tiers`](KeyspaceOptions::tiers), as far as
    /// `changed` sets them. Durable when it returns. New files go there from now on; those that are there move in the background,
    /// at [`compaction_rate`](crate::Options::compaction_rate).
    ///
    /// ```
    /// # use strandline::{Db, KeyspaceOptions, KeyspaceTiers, Options, PmSource, TierSource, TierSpec};
    /// # let dir = std::env::temp_dir().join(format!("strandline-sites-{}", std::process::id()));
    /// let (store, fast) = (dir.join("store"), dir.join("fast"));
    /// let tiers = TierSource::Dirs(vec![TierSpec::new(&fast, 64 << 20)]);
    /// let db = Db::open(&store, Options::default().pm(PmSource::Dram).pm_size(16 << 20).tiers(tiers))?;
    /// let hot = db.create_keyspace("hot")?;
    /// hot.set_options(&KeyspaceOptions::new().tiers(KeyspaceTiers::Dirs(vec![fast.clone()])))?;
    /// assert_eq!(hot.options().tiers, Some(KeyspaceTiers::Dirs(vec![fast])));
    /// # db.close()?;
    /// # std::fs::remove_dir_all(dir).expect("removed");
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` for directories that are not among the store's, and where `changed` sets other options, which stay as the
    /// keyspace was made; `Closed` if it was dropped; `LimitExceeded` if the manifest is full.
    pub fn set_options(&self, changed: &KeyspaceOptions) -> Result<()> {
        let _call = self.engine().call("set options")?;
        self.engine().set_options(&self.space, changed)
    }

    /// Its inside, if it is a keyspace of this store.
    pub(super) fn in_store(
        &self,
        engine: &Arc<Engine>,
        operation: &'static str,
    ) -> Result<&Arc<KeyspaceState>> {
        if Arc::ptr_eq(&self.handle.engine, engine) {
            return Ok(&self.space);
        }
        let text = format!("keyspace {} belongs to another store", self.name());
        Err(Error::new(ErrorKind::InvalidArgument, operation, text))
    }

    #[inline]
    pub(super) fn engine(&self) -> &Arc<Engine> {
        &self.handle.engine
    }

    #[cfg(feature = "steps")]
    pub(crate) fn engine_for_steps(&self) -> &Engine {
        &self.handle.engine
    }

    #[cfg(feature = "steps")]
    pub(crate) fn space(&self) -> &Arc<KeyspaceState> {
        &self.space
    }

    /// Sets `key` to `value`; durable and visible when it returns.
    ///
    /// # Errors
    /// As [`Db::write`](crate::Db::write).
    #[inline]
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.change(Kind::Put, key.as_ref(), value.as_ref())
    }

    /// Deletes `key`; no error if it is not there.
    ///
    /// # Errors
    /// As [`Db::write`](crate::Db::write).
    #[inline]
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.change(Kind::Delete, key.as_ref(), &[])
    }

    /// Merges `operand` into `key`: the merge operator of [`Hooks`](crate::Hooks) combines it with what is there when the
    /// key is read.
    ///
    /// # Errors
    /// As [`Db::write`](crate::Db::write); `InvalidArgument` without a merge operator, or for an operand that it
    /// [complains](crate::MergeOperator::complaint) about.
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        let (key, operand) = (key.as_ref(), operand.as_ref());
        self.space.check_operand(key, operand)?;
        self.change(Kind::Merge, key, operand)
    }

    /// Deletes all keys from `begin` up to before `end`, by one record however many there are.
    ///
    /// # Errors
    /// As [`Db::write`](crate::Db::write); `InvalidArgument` if `end` lies before `begin`.
    pub fn delete_range(&self, begin: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        self.change(Kind::RangeDelete, begin.as_ref(), end.as_ref())
    }

    #[inline]
    fn change(&self, kind: Kind, key: &[u8], value: &[u8]) -> Result<()> {
        let op = Op::given(&self.space, kind, key, value);
        self.engine().commit(&mut [op], WriteWay::default())?;
        self.note_change(kind, key, value);
        Ok(())
    }

    /// As [`Keyspace::put`], in the way that `options` say.
    ///
    /// # Errors
    /// As [`Db::write_with`](crate::Db::write_with).
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.change_with(Kind::Put, key.as_ref(), value.as_ref(), options)
    }

    /// As [`Keyspace::delete`], in the way that `options` say.
    ///
    /// # Errors
    /// As [`Db::write_with`](crate::Db::write_with).
    pub fn delete_with(&self, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<()> {
        self.change_with(Kind::Delete, key.as_ref(), &[], options)
    }

    /// As [`Keyspace::merge`], in the way that `options` say.
    ///
    /// # Errors
    /// As [`Keyspace::merge`] and [`Db::write_with`](crate::Db::write_with).
    pub fn merge_with(
        &self,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        let (key, operand) = (key.as_ref(), operand.as_ref());
        self.space.check_operand(key, operand)?;
        self.change_with(Kind::Merge, key, operand, options)
    }

    fn change_with(
        &self,
        kind: Kind,
        key: &[u8],
        value: &[u8],
        options: &WriteOptions,
    ) -> Result<()> {
        options.commit(self.engine(), &mut [Op::given(&self.space, kind, key, value)])?;
        self.note_change(kind, key, value);
        Ok(())
    }

    /// The value of `key`, copied out and verified.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    /// Appends the value of `key` to `out`; `false` if there is none.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    #[inline]
    pub fn get_into(&self, key: impl AsRef<[u8]>, out: &mut Vec<u8>) -> Result<bool> {
        self.get_into_at(key.as_ref(), None, out)
    }

    /// The value of `key` as of `options.snapshot`.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get); `InvalidArgument` for another store's snapshot.
    pub fn get_with(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions<'_>,
    ) -> Result<Option<Vec<u8>>> {
        self.get_at(key.as_ref(), self.moment_of(options)?)
    }

    /// The value of `key` as of `snapshot`, which the caller keeps registered.
    pub(super) fn get_at(&self, key: &[u8], snapshot: Option<Seq>) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into_at(key, snapshot, &mut value)?.then_some(value))
    }

    #[inline]
    fn get_into_at(&self, key: &[u8], snapshot: Option<Seq>, out: &mut Vec<u8>) -> Result<bool> {
        let before = out.len();
        let found = self.engine().get_into(&self.space, key, snapshot, out);
        let found = found.map_err(|error| self.unread(error))?;
        self.note_get(key, found.then_some(out.len() - before));
        Ok(found)
    }

    /// Whether `key` has a value. Nothing is copied, and of a value that is kept outside its record nothing is read.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.contains_at(key.as_ref(), None)
    }

    /// Traced as a get of a value without bytes: none are read.
    pub(super) fn contains_at(&self, key: &[u8], snapshot: Option<Seq>) -> Result<bool> {
        let found = self.engine().contains(&self.space, key, snapshot);
        let found = found.map_err(|error| self.unread(error))?;
        self.note_get(key, found.then_some(0));
        Ok(found)
    }

    /// Whether `key` has a value as of `options.snapshot`.
    ///
    /// # Errors
    /// As [`Keyspace::get_with`].
    pub fn contains_key_with(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions<'_>,
    ) -> Result<bool> {
        self.contains_at(key.as_ref(), self.moment_of(options)?)
    }

    pub(super) fn moment_of(&self, options: &ReadOptions<'_>) -> Result<Option<Seq>> {
        options.snapshot.map(|snapshot| self.moment(snapshot)).transpose()
    }

    /// Tells the listener of damage that a read met. The read holds no View any more.
    #[cold]
    #[inline(never)]
    pub(super) fn unread(&self, error: Error) -> Error {
        let events = &self.engine().events;
        events.note_damage(&error, FoundBy::Read, &self.space.name);
        events.tell();
        error
    }

    /// The moment of a snapshot, if it is one of this store.
    pub(super) fn moment(&self, snapshot: &Snapshot) -> Result<Seq> {
        if Arc::ptr_eq(&self.handle.engine, &snapshot.moment.handle.engine) {
            return Ok(snapshot.moment.seq);
        }
        Err(Error::new(
            ErrorKind::InvalidArgument,
            "read",
            "the snapshot belongs to another store; take one from this store",
        ))
    }

    /// The values of several keys, in their order, all as of one moment.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get), if any of them fails.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        self.multi_get_with(keys, &ReadOptions::default())
    }

    /// The values of several keys, in their order, as of `options.snapshot` or of now.
    ///
    /// # Errors
    /// As [`Keyspace::get_with`], if any of them fails.
    pub fn multi_get_with<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
        options: &ReadOptions<'_>,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let keys: Vec<K> = keys.into_iter().collect();
        let keys: Vec<&[u8]> = keys.iter().map(K::as_ref).collect();
        self.multi_get_at(&keys, self.moment_of(options)?)
    }

    /// The values of several keys as of `snapshot`, which the caller keeps registered.
    pub(super) fn multi_get_at(
        &self,
        keys: &[&[u8]],
        snapshot: Option<Seq>,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let found = self.engine().multi_get(&self.space, keys, snapshot);
        let found = found.map_err(|error| self.unread(error))?;
        keys.iter().zip(&found).for_each(|(key, value)| {
            self.note_get(key, value.as_ref().map(Vec::len));
        });
        Ok(found)
    }

    /// All keys with their values, in order, as of now.
    ///
    /// # Errors
    /// Items are errors of the kinds that [`Db::get`](crate::Db::get) has; `Closed` also if the keyspace is dropped
    /// meanwhile.
    pub fn iter(&self) -> Iter {
        self.range(..)
    }

    /// The keys in `range` with their values, in order, as of now.
    ///
    /// # Errors
    /// As [`Keyspace::iter`].
    pub fn range(&self, range: impl IntoRange) -> Iter {
        Iter::new(self, None, range.bounds())
    }

    /// The keys that begin with `prefix` with their values, in order, as of now.
    ///
    /// # Errors
    /// As [`Keyspace::iter`].
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        Iter::new(self, None, prefixed(prefix.as_ref()))
    }

    /// All keys, in order, as of now; values are not copied.
    ///
    /// # Errors
    /// As [`Keyspace::iter`].
    pub fn keys(&self) -> Keys {
        Keys::new(self, None, (..).bounds())
    }

    /// The keys in the bounds of `options` with their values, in order, as of `options.snapshot` or of now.
    ///
    /// # Errors
    /// As [`Keyspace::iter`]; `InvalidArgument` for another store's snapshot.
    pub fn iter_with(&self, options: &ReadOptions<'_>) -> Iter {
        Iter::new(self, options.snapshot, options.bounds())
    }

    /// As [`Keyspace::iter_with`], without the values.
    ///
    /// # Errors
    /// As [`Keyspace::iter_with`].
    pub fn keys_with(&self, options: &ReadOptions<'_>) -> Keys {
        Keys::new(self, options.snapshot, options.bounds())
    }

    /// A cursor over the keyspace as of `options.snapshot`, or of now. Positioned nowhere.
    ///
    /// # Errors
    /// `Closed`; `InvalidArgument` for another store's snapshot.
    pub fn cursor(&self, options: &ReadOptions<'_>) -> Result<Cursor> {
        let engine = self.engine();
        let moment = self.hold_moment(options.snapshot)?;
        let (lower, upper) = options.bounds();
        let hold = engine.hold(HoldKind::Cursor)?;
        let now = self.space.expiry.as_ref().map(Expiry::now);
        let scan = Scan::new(engine, &self.space, moment.seq, now, lower, upper)?;
        Ok(Cursor::new(scan, moment, hold))
    }

    /// Looks `key` up, recording each probe; also tells the value's length, if there is one.
    pub fn explain_get(&self, key: impl AsRef<[u8]>) -> Result<Explained> {
        self.engine().explain_get(&self.space, key.as_ref())
    }
}
