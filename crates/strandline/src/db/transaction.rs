//! Transactions.

mod cursor;
mod options;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::{ErrorKind, Result, Seq};

pub use cursor::{TransactionCursor, TransactionIter};
pub use options::{Isolation, TransactionOptions};

use super::batch::Tracking;
use super::indexed_batch::{IndexedBatch, Own};
use super::range::{KeyRange, prefixed};
use super::snapshot::PinnedSeq;
use super::{Db, Handle, IntoRange, Keyspace, Slice};
use crate::engine::Engine;
use crate::keyspace::KeyspaceState;
use crate::keyspace::usage::HoldKind;
use crate::open::close::StoreHold;
use crate::record::format::Kind;
use crate::snapshot::Reader;
use crate::span::Span;
use crate::transaction::certificate::{Certificate, CheckedKey, CheckedRange};
use crate::transaction::key_ranges::KeyRanges;
use crate::write::op::check_range;

/// Reads and changes that take effect as one, or not at all.
///
/// It reads what was visible when it began, and its own changes. These are seen by no other until [`Transaction::commit`],
/// which fails with [`Conflict`](ErrorKind::Conflict) if another commit, of a transaction or not, wrote what it relies on:
/// with [`Isolation::Snapshot`] the keys that it changes or has read [for update](Transaction::get_for_update), with
/// [`Isolation::Serializable`] everything that it read, too. Nothing waits, and there are no locks: of two transactions that
/// change a key, the first to commit wins. [`Db::transact`] begins anew after a conflict.
///
/// Dropped without a commit it is rolled back. It may be sent to other threads. Versions that it may read are kept until it
/// ends, and the store cannot be closed before.
///
/// ```
/// # use strandline::{Db, ErrorKind, Options, PmSource, TransactionOptions};
/// # let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
/// # let db = Db::open("unused-for-heap", options)?;
/// let accounts = db.default_keyspace();
/// db.put("ada", "90")?;
/// let mut transfer = db.begin(TransactionOptions::new())?;
/// assert_eq!(transfer.get(accounts, "ada")?.as_deref(), Some(&b"90"[..]));
/// transfer.put(accounts, "ada", "70")?;
/// transfer.put(accounts, "bob", "20")?;
/// db.put("ada", "80")?; // another writer
/// let lost = transfer.commit().expect_err("ada was written");
/// assert_eq!(lost.kind(), ErrorKind::Conflict);
/// assert_eq!(lost.conflict().map(|conflict| &conflict.key[..]), Some(&b"ada"[..]));
/// assert!(!db.contains_key("bob")?);
/// # Ok::<(), strandline::Error>(())
/// ```
pub struct Transaction {
    changes: IndexedBatch,
    /// What must not be written by others, besides the keys that are changed.
    read: RefCell<ReadSet>,
    options: TransactionOptions,
    // In this order: what lets others open the store goes last.
    moment: PinnedSeq,
    _hold: StoreHold,
}

/// What was read that counts.
#[derive(Default)]
struct ReadSet {
    keys: Vec<(Arc<KeyspaceState>, Slice)>,
    /// By the keyspace's identifier.
    ranges: BTreeMap<u32, (Arc<KeyspaceState>, KeyRanges)>,
}

impl Transaction {
    pub(super) fn begin(handle: &Arc<Handle>, options: TransactionOptions) -> Result<Transaction> {
        let engine = &handle.engine;
        let hold = engine.hold(HoldKind::Transaction)?;
        let seq = engine.sequence.snapshots.take(&engine.sequence.ring, Reader::Transaction);
        Ok(Transaction {
            changes: IndexedBatch::new(),
            read: RefCell::default(),
            options,
            moment: PinnedSeq { handle: Arc::clone(handle), seq, reader: Reader::Transaction },
            _hold: hold,
        })
    }

    /// The number at which it reads: of the newest commit that it sees.
    pub fn seq(&self) -> Seq {
        self.moment.seq
    }

    /// The changes so far.
    pub fn changes(&self) -> &IndexedBatch {
        &self.changes
    }

    fn engine(&self) -> &Arc<Engine> {
        &self.moment.handle.engine
    }

    /// The inside of a keyspace, if it is one of the transaction's store.
    fn own<'k>(&self, keyspace: &'k Keyspace) -> Result<&'k Arc<KeyspaceState>> {
        keyspace.in_store(self.engine(), "transaction")
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// As [`Db::get`]; `InvalidArgument` for another store's keyspace.
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        self.own(keyspace)?;
        self.note_read(keyspace, key);
        self.read(keyspace, key)
    }

    /// As [`Transaction::get`]. If another commit writes the key before this one does, that is a conflict, whatever the isolation and
    /// even if this transaction changes other keys only.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn get_for_update(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        self.own(keyspace)?;
        self.note_key(keyspace, key);
        self.read(keyspace, key)
    }

    fn read(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let moment = Some(self.moment.seq);
        self.changes.over(keyspace, key, || keyspace.get_at(key, moment))
    }

    /// The values of several keys, in their order.
    ///
    /// # Errors
    /// As [`Transaction::get`], if any of them fails.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        self.own(keyspace)?;
        let keys: Vec<K> = keys.into_iter().collect();
        let keys: Vec<&[u8]> = keys.iter().map(K::as_ref).collect();
        keys.iter().for_each(|key| self.note_read(keyspace, key));
        // Those that it has not changed are looked up together.
        let unchanged = |key: &&[u8]| self.changes.own(keyspace, key) == Own::Nothing;
        let of_store: Vec<&[u8]> = keys.iter().copied().filter(unchanged).collect();
        let mut of_store = keyspace.multi_get_at(&of_store, Some(self.moment.seq))?.into_iter();
        let value = |key: &&[u8]| match self.changes.own(keyspace, key) {
            Own::Nothing => Ok(of_store.next().flatten()),
            _ => self.read(keyspace, key),
        };
        keys.iter().map(value).collect()
    }

    /// Whether `key` has a value.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn contains_key(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        self.own(keyspace)?;
        self.note_read(keyspace, key);
        match self.changes.own(keyspace, key) {
            Own::Nothing => keyspace.contains_at(key, Some(self.moment.seq)),
            own => Ok(own != Own::Deleted),
        }
    }

    /// All keys with their values, in order.
    ///
    /// # Errors
    /// Items are errors of the kinds that [`Transaction::get`] has.
    pub fn iter<'t>(&'t self, keyspace: &Keyspace) -> TransactionIter<'t> {
        self.range(keyspace, ..)
    }

    /// The keys in `range` with their values, in order.
    ///
    /// # Errors
    /// As [`Transaction::iter`].
    pub fn range<'t>(&'t self, keyspace: &Keyspace, range: impl IntoRange) -> TransactionIter<'t> {
        TransactionIter::new(self, keyspace, range.bounds())
    }

    /// The keys that begin with `prefix` with their values, in order.
    ///
    /// # Errors
    /// As [`Transaction::iter`].
    pub fn prefix<'t>(
        &'t self,
        keyspace: &Keyspace,
        prefix: impl AsRef<[u8]>,
    ) -> TransactionIter<'t> {
        TransactionIter::new(self, keyspace, prefixed(prefix.as_ref()))
    }

    /// A cursor over the keys in `range`. Positioned nowhere.
    ///
    /// # Errors
    /// `Closed`; `InvalidArgument` for another store's keyspace.
    pub fn cursor<'t>(
        &'t self,
        keyspace: &Keyspace,
        range: impl IntoRange,
    ) -> Result<TransactionCursor<'t>> {
        self.cursor_in(keyspace, range.bounds())
    }

    fn cursor_in(&self, keyspace: &Keyspace, range: KeyRange) -> Result<TransactionCursor<'_>> {
        self.own(keyspace)?;
        TransactionCursor::new(self, keyspace, range)
    }

    /// Sets `key` to `value`.
    ///
    /// # Errors
    /// `InvalidArgument` for another store's keyspace. Limits are checked by the commit.
    pub fn put(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.change(keyspace, Kind::Put, key.as_ref(), value.as_ref())
    }

    /// As [`Transaction::put`]; that another commit writes the key is no conflict. If both do, this value stays.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn put_untracked(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.own(keyspace)?;
        let (key, value) = (key.as_ref(), value.as_ref());
        self.changes.change_as(keyspace, Kind::Put, key, value, Tracking::Untracked);
        Ok(())
    }

    /// Deletes `key`; no error if it is not there.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        self.change(keyspace, Kind::Delete, key.as_ref(), &[])
    }

    /// Merges `operand` into `key`; see [`Keyspace::merge`].
    ///
    /// # Errors
    /// As [`Transaction::put`]; those of [`Keyspace::merge`] for the operand.
    pub fn merge(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        let (key, operand) = (key.as_ref(), operand.as_ref());
        self.own(keyspace)?.check_operand(key, operand)?;
        self.change(keyspace, Kind::Merge, key, operand)
    }

    /// Deletes all keys from `begin` up to before `end`; later changes of the transaction are not affected. That another commit
    /// writes one of these keys is a conflict.
    ///
    /// # Errors
    /// As [`Transaction::put`]; `InvalidArgument` if `end` lies before `begin`.
    pub fn delete_range(
        &mut self,
        keyspace: &Keyspace,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) -> Result<()> {
        let (begin, end) = (begin.as_ref(), end.as_ref());
        check_range(begin, end, "transaction")?;
        self.change(keyspace, Kind::RangeDelete, begin, end)
    }

    fn change(&mut self, keyspace: &Keyspace, kind: Kind, key: &[u8], value: &[u8]) -> Result<()> {
        self.own(keyspace)?;
        self.changes.change_as(keyspace, kind, key, value, Tracking::Tracked);
        Ok(())
    }

    /// Sets a savepoint here, on top of those that are set.
    pub fn set_savepoint(&mut self) {
        self.changes.set_savepoint();
    }

    /// Takes back all changes since the last savepoint, which is gone then. What was read since counts as before.
    ///
    /// # Errors
    /// `NotFound` if no savepoint is set; the transaction is as before.
    pub fn rollback_to_savepoint(&mut self) -> Result<()> {
        self.changes.rollback_to_savepoint()
    }

    /// Forgets the last savepoint; the changes stay.
    ///
    /// # Errors
    /// `NotFound` if no savepoint is set.
    pub fn pop_savepoint(&mut self) -> Result<()> {
        self.changes.pop_savepoint()
    }

    /// Makes the changes visible and durable, as one. Tells the number of the last of them; where there are none, the number at which
    /// the transaction has read.
    ///
    /// # Errors
    /// `Conflict` if another commit wrote what the transaction relies on ([`Error::conflict`] tells the key); those of
    /// [`Db::write_with`]. Nothing is written then.
    pub fn commit(self) -> Result<Seq> {
        if self.changes.is_empty() {
            // It is valid where it has read.
            return Ok(self.moment.seq);
        }
        let ops = self.changes.batch().ops();
        let read = self.read.borrow();
        let mut certificate = self.certificate(&read);
        let way = self.options.write.way();
        let counts = &self.engine().transactions;
        let seq = self.engine().commit_if(ops, way, &mut certificate).inspect_err(|error| {
            let lost = u64::from(error.kind() == ErrorKind::Conflict);
            counts.conflicts.fetch_add(lost, Relaxed);
        })?;
        counts.committed.fetch_add(1, Relaxed);
        self.changes.batch().note();
        Ok(seq)
    }

    /// Ends the transaction without its changes, as a drop does.
    pub fn rollback(self) {
        drop(self);
    }

    /// What is to be checked: what was changed, and what was read that counts.
    fn certificate<'t>(&'t self, read: &'t ReadSet) -> Certificate<'t> {
        let batch = self.changes.batch();
        let mut keys: Vec<CheckedKey<'t>> = Vec::with_capacity(batch.len() + read.keys.len());
        keys.extend(read.keys.iter().map(|(space, key)| CheckedKey { space, key }));
        let of_read = read.ranges.iter().map(|(id, (space, read))| (*id, (space, read.clone())));
        let mut ranges: BTreeMap<u32, (&'t Arc<KeyspaceState>, KeyRanges)> = of_read.collect();
        let tracked = batch.changes.iter().filter(|change| change.tracking == Tracking::Tracked);
        for change in tracked {
            let (space, key) = (&change.keyspace.space, batch.key(change));
            if change.kind == Kind::RangeDelete {
                let (lower, upper) = (key.to_vec(), Some(batch.value(change).to_vec()));
                let (_, ranges) =
                    ranges.entry(space.id).or_insert_with(|| (space, KeyRanges::default()));
                ranges.add(Span { lower, upper });
            } else {
                keys.push(CheckedKey { space, key });
            }
        }
        let of_space = |(space, ranges): (&'t Arc<KeyspaceState>, KeyRanges)| {
            let ranges = ranges.disjoint().into_iter();
            ranges.map(move |span| CheckedRange { space, span })
        };
        let ranges = ranges.into_values().flat_map(of_space).collect();
        Certificate::new(self.engine(), self.moment.seq, keys, ranges)
    }

    /// No other may write `key`.
    fn note_key(&self, keyspace: &Keyspace, key: &[u8]) {
        self.read.borrow_mut().keys.push((Arc::clone(&keyspace.space), Slice::new(key)));
    }

    /// No other may write `key`, if reads count.
    fn note_read(&self, keyspace: &Keyspace, key: &[u8]) {
        if self.counts_reads() {
            self.note_key(keyspace, key);
        }
    }

    /// No other may write a key of `range`, if reads count.
    fn note_range(&self, keyspace: &Keyspace, range: Span) {
        if self.counts_reads() {
            let mut read = self.read.borrow_mut();
            let fresh = || (Arc::clone(&keyspace.space), KeyRanges::default());
            read.ranges.entry(keyspace.space.id).or_insert_with(fresh).1.add(range);
        }
    }

    /// Whether others must not write what it has read.
    fn counts_reads(&self) -> bool {
        self.options.isolation == Isolation::Serializable
    }
}

impl Db {
    /// Begins a transaction.
    ///
    /// # Errors
    /// `Closed`.
    pub fn begin(&self, options: TransactionOptions) -> Result<Transaction> {
        Transaction::begin(&self.handle, options)
    }

    /// Runs `body` in a transaction, and commits that. After a conflict it begins anew: `body` is called once more, until it
    /// gets through. It changes nothing but the transaction, and gives its errors on.
    ///
    /// ```
    /// # use strandline::{Db, Options, PmSource, TransactionOptions};
    /// # let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
    /// # let db = Db::open("unused-for-heap", options)?;
    /// let counters = db.default_keyspace();
    /// let count = db.transact(TransactionOptions::new(), |transaction| {
    ///     let old = transaction.get(counters, "visits")?;
    ///     let new = 1 + old.map_or(0, |old| old[0]);
    ///     transaction.put(counters, "visits", [new])?;
    ///     Ok(new)
    /// })?;
    /// assert_eq!(count, 1);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of `body`, which ends the transaction without its changes, and of [`Transaction::commit`], but for `Conflict`.
    pub fn transact<T>(
        &self,
        options: TransactionOptions,
        body: impl FnMut(&mut Transaction) -> Result<T>,
    ) -> Result<T> {
        transact(&self.handle, options, body)
    }
}

/// As [`Db::transact`]. What a conflict was lost against is visible already, so that the next attempt sees it.
pub(super) fn transact<T>(
    handle: &Arc<Handle>,
    options: TransactionOptions,
    mut body: impl FnMut(&mut Transaction) -> Result<T>,
) -> Result<T> {
    loop {
        let mut transaction = Transaction::begin(handle, options.clone())?;
        let result = body(&mut transaction)?;
        match transaction.commit() {
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            committed => return committed.map(|_| result),
        }
    }
}
