//! Transactions.

mod cursor;
mod locking;
mod options;
pub(super) mod prepared;
mod transact;

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::{Conflict, Error, ErrorKind, LockMode, Result, Seq};

pub use cursor::{TransactionCursor, TransactionIter};
use locking::{Age, Locking};
pub use options::{Isolation, TransactionMode, TransactionOptions};
pub use prepared::PreparedTransaction;
pub(super) use transact::transact;

use super::batch::{BatchEntry, Tracking};
use super::indexed_batch::{IndexedBatch, Own};
use super::range::{KeyRange, prefixed, spanned};
use super::snapshot::PinnedSeq;
use super::{Db, Handle, IntoRange, Keyspace, Slice};
use crate::engine::Engine;
use crate::keyspace::KeyspaceState;
use crate::keyspace::usage::HoldKind;
use crate::keyspace::write_head::Permit;
use crate::locks::space::What;
use crate::locks::status::LockReport;
use crate::open::close::StoreHold;
use crate::record::format::Kind;
use crate::snapshot::Reader;
use crate::span::Span;
use crate::transaction::certificate::{Certificate, CheckedKey, CheckedRange};
use crate::transaction::key_ranges::KeyRanges;
use crate::write::op::check_range;

/// Reads and changes that take effect as one, or not at all.
///
/// It reads what was visible at one moment, when it began, and its own changes. These are seen by no other until [`Transaction::commit`],
/// which fails with [`Conflict`](ErrorKind::Conflict) if another commit, of a transaction or not, wrote what it relies on:
/// with [`Isolation::Snapshot`] the keys that it changes or has read [for update](Transaction::get_for_update), with
/// [`Isolation::Serializable`] everything that it read, too. Nothing waits, and there are no locks: of two transactions that
/// change a key, the first to commit wins. [`Db::transact`] begins anew after a conflict.
///
/// A [pessimistic](TransactionMode::Pessimistic) one locks keys when it changes them or reads them for update. Others wait for it then,
/// and it fails where it stands ([`Deadlock`](ErrorKind::Deadlock), [`TimedOut`](ErrorKind::TimedOut), `Conflict`); what it has locked is
/// its own until it ends.
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
    locking: Option<Locking>,
    moment: OnceCell<PinnedSeq>,
    handle: Arc<Handle>,
    _hold: StoreHold,
}

/// What was read that counts.
#[derive(Default)]
struct ReadSet {
    keys: Vec<(Arc<KeyspaceState>, Slice)>,
    /// By the keyspace's identifier.
    ranges: BTreeMap<u32, (Arc<KeyspaceState>, KeyRanges)>,
}

/// What a certificate is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checks {
    /// What was changed, and what was read that counts.
    All,
    /// What was read: what was changed is locked.
    Reads,
}

impl ReadSet {
    /// What others must leave alone.
    fn relied_on(&self) -> impl Iterator<Item = (Arc<KeyspaceState>, What)> {
        let key = |(space, key): &(Arc<KeyspaceState>, Slice)| {
            (Arc::clone(space), What::Key(Arc::from(&key[..])))
        };
        let ranges = self.ranges.values().flat_map(|(space, ranges)| {
            let range = |span| (Arc::clone(space), What::Range(Arc::new(span)));
            ranges.disjoint().into_iter().map(range)
        });
        self.keys.iter().map(key).chain(ranges)
    }
}

impl Transaction {
    fn begin(
        handle: &Arc<Handle>,
        options: TransactionOptions,
        age: Option<Age>,
    ) -> Result<Transaction> {
        options.check()?;
        let hold = handle.engine.hold(HoldKind::Transaction)?;
        let transaction = Transaction {
            changes: IndexedBatch::new(),
            read: RefCell::default(),
            locking: Locking::begin(handle, &options, age),
            options,
            moment: OnceCell::new(),
            handle: Arc::clone(handle),
            _hold: hold,
        };
        if transaction.locking.is_none() {
            transaction.pinned();
        }
        Ok(transaction)
    }

    /// The number at which it reads: of the newest commit that it sees. With [`Isolation::ReadCommitted`], of the newest that there is.
    /// A pessimistic transaction that has neither read nor locked chooses its moment now: better call it later.
    pub fn seq(&self) -> Seq {
        self.moment().unwrap_or_else(|| self.engine().sequence.ring.visible())
    }

    /// The moment at which it reads, which is kept readable; chosen now, if it was not before.
    fn pinned(&self) -> &PinnedSeq {
        self.moment.get_or_init(|| PinnedSeq::take(&self.handle, Reader::Transaction))
    }

    /// The moment at which all of it reads; `None` if each read has its own.
    fn moment(&self) -> Option<Seq> {
        (self.options.isolation != Isolation::ReadCommitted).then(|| self.pinned().seq)
    }

    /// The changes so far.
    pub fn changes(&self) -> &IndexedBatch {
        &self.changes
    }

    fn engine(&self) -> &Arc<Engine> {
        &self.handle.engine
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

    /// As [`Transaction::get`], of a key that no other commit is to write before this one does, whatever the isolation and even if this
    /// transaction changes other keys only. A pessimistic transaction locks it first; of an optimistic one it is a conflict when
    /// it commits.
    ///
    /// # Errors
    /// As [`Transaction::get`]; of a pessimistic transaction those of [`Transaction::lock`].
    pub fn get_for_update(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Vec<u8>>> {
        self.lock(keyspace, key.as_ref(), LockMode::Exclusive)?;
        self.read(keyspace, key.as_ref())
    }

    /// As [`Transaction::get_for_update`], of a key that others may read so, too, but that none may write.
    ///
    /// # Errors
    /// As [`Transaction::get_for_update`].
    pub fn get_for_share(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Vec<u8>>> {
        self.lock(keyspace, key.as_ref(), LockMode::Shared)?;
        self.read(keyspace, key.as_ref())
    }

    /// Keeps others from writing `key`, as [`Transaction::get_for_update`] does, without reading it. It need not have a value.
    ///
    /// # Errors
    /// `InvalidArgument` for another store's keyspace. Of a pessimistic transaction: `TimedOut` if others have the lock too long, and
    /// the transaction may go on or try again; `Deadlock` if it was given up, and `Expired` if it lasted too long, without its locks;
    /// `Conflict` if the key was written since the moment at which the transaction reads; `LimitExceeded` beyond `lock_memory`.
    pub fn lock(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        mode: LockMode,
    ) -> Result<()> {
        let (key, space) = (key.as_ref(), self.own(keyspace)?);
        match self.locking {
            Some(_) => self.lock_key(space, key, mode),
            None => {
                self.note_key(keyspace, key);
                Ok(())
            }
        }
    }

    /// As [`Transaction::lock`], of all keys in `range`, those that have no value included.
    ///
    /// # Errors
    /// As [`Transaction::lock`].
    pub fn lock_range(
        &mut self,
        keyspace: &Keyspace,
        range: impl IntoRange,
        mode: LockMode,
    ) -> Result<()> {
        let (space, span) = (self.own(keyspace)?, spanned(range.bounds()));
        if span.is_empty() {
            return Ok(());
        }
        match self.locking {
            Some(_) => self.lock_span(space, span, mode),
            None => {
                self.note_span(keyspace, span);
                Ok(())
            }
        }
    }

    /// As [`Transaction::range`], of keys that no other commit is to write: [`Transaction::lock_range`] before it.
    ///
    /// # Errors
    /// As [`Transaction::lock`]; of items as [`Transaction::iter`].
    pub fn range_for_update<'t>(
        &'t mut self,
        keyspace: &Keyspace,
        range: impl IntoRange,
    ) -> Result<TransactionIter<'t>> {
        let range = range.bounds();
        self.lock_range(keyspace, range.clone(), LockMode::Exclusive)?;
        Ok(TransactionIter::new(self, keyspace, range))
    }

    fn read(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.changes.over(keyspace, key, || keyspace.get_at(key, self.moment()))
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
        let mut of_store = keyspace.multi_get_at(&of_store, self.moment())?.into_iter();
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
            Own::Nothing => keyspace.contains_at(key, self.moment()),
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
    /// `InvalidArgument` for another store's keyspace; of a pessimistic transaction those of [`Transaction::lock`]. Limits are checked by
    /// the commit.
    pub fn put(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.change(keyspace, Kind::Put, key.as_ref(), value.as_ref())
    }

    /// As [`Transaction::put`]; that another commit has written the key is no conflict. If both do, this value stays.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn put_untracked(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.lock_untracked(self.own(keyspace)?, key)?;
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
        let space = self.own(keyspace)?;
        match kind {
            Kind::RangeDelete if key == value => {}
            Kind::RangeDelete => {
                let span = Span { lower: key.to_vec(), upper: Some(value.to_vec()) };
                self.lock_span(space, span, LockMode::Exclusive)?;
            }
            _ => self.lock_key(space, key, LockMode::Exclusive)?,
        }
        self.changes.change_as(keyspace, kind, key, value, Tracking::Tracked);
        Ok(())
    }

    /// Sets a savepoint here, on top of those that are set.
    pub fn set_savepoint(&mut self) {
        self.changes.set_savepoint();
    }

    /// Takes back all changes since the last savepoint, which is gone then. What was read since counts as before, and locks stay.
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
    /// `Conflict` if another commit wrote what the transaction relies on ([`Error::conflict`] tells the key); `Deadlock` and `Expired`
    /// of a pessimistic one that was given up before, or lasted too long; those of [`Db::write_with`]. Nothing is written then.
    pub fn commit(self) -> Result<Seq> {
        if let Some(locking) = &self.locking {
            locking.commits()?;
        }
        if self.changes.is_empty() {
            // It is valid where it has read.
            return Ok(self.seq());
        }
        let ops = self.changes.batch().ops();
        let read = self.read.borrow();
        let checks = if self.locking.is_some() { Checks::Reads } else { Checks::All };
        let mut certificate = self.certificate(&read, checks);
        let mut way = self.options.write.way();
        if self.locking.is_some() {
            way.permit = Permit::Given;
        }
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

    /// What is to be checked: what was changed, unless it is locked, and what was read that counts.
    fn certificate<'t>(&'t self, read: &'t ReadSet, checks: Checks) -> Certificate<'t> {
        let batch = self.changes.batch();
        let mut keys: Vec<CheckedKey<'t>> = Vec::with_capacity(batch.len() + read.keys.len());
        keys.extend(read.keys.iter().map(|(space, key)| CheckedKey { space, key }));
        let of_read = read.ranges.iter().map(|(id, (space, read))| (*id, (space, read.clone())));
        let mut ranges: BTreeMap<u32, (&'t Arc<KeyspaceState>, KeyRanges)> = of_read.collect();
        let is_checked =
            |change: &&BatchEntry| checks == Checks::All && change.tracking == Tracking::Tracked;
        let tracked = batch.changes.iter().filter(is_checked);
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
        Certificate::new(self.engine(), self.seq(), keys, ranges)
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
            self.note_span(keyspace, range);
        }
    }

    /// No other may write a key of `range`.
    fn note_span(&self, keyspace: &Keyspace, range: Span) {
        let mut read = self.read.borrow_mut();
        let fresh = || (Arc::clone(&keyspace.space), KeyRanges::default());
        read.ranges.entry(keyspace.space.id).or_insert_with(fresh).1.add(range);
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
    /// `Closed`; `InvalidArgument` for options that do not go together.
    pub fn begin(&self, options: TransactionOptions) -> Result<Transaction> {
        Transaction::begin(&self.handle, options, None)
    }

    /// The first `max` locks of transactions, and the latest deadlocks.
    pub fn locks(&self, max: usize) -> LockReport {
        self.engine().locks.report(max)
    }
}

/// Another commit wrote `key` in a transaction's way.
#[cold]
fn lost(operation: &'static str, space: &KeyspaceState, key: Vec<u8>, seq: Seq) -> Error {
    Error::lost(operation, Conflict { keyspace: space.name.clone(), key, seq })
}
