//! Prepared transactions: the first half of a commit in two phases.
//!
//! - **I-2PC-1** A prepared transaction is a record in a keyspace of its own. The commit that writes it has the certificate of the
//!   transaction as its condition. Its changes come in one commit with the deletion of the record. So at every moment it is
//!   open, prepared or ended as a whole, and recovery knows no more of it than of any other record.
//! - **I-2PC-2** From before its record has a number until it has ended, what it changes and relies on is locked. An open locks it
//!   anew before the store can be used.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::limits::check_name;
use base::planted::{self, Bug};
use base::{Error, ErrorKind, Result, Seq};
use pmem::Promise;

use super::locking::Locking;
use super::{Checks, Transaction};
use crate::db::{Db, Handle};
use crate::engine::{Access, Engine};
use crate::keyspace::write_head::Permit;
use crate::keyspace::{KeyspaceState, dropped};
use crate::locks::table::{OwnerId, OwnerKind};
use crate::options::KeyspaceOptions;
use crate::record::format::Kind;
use crate::transaction::prepared_record::{PreparedChange, PreparedRecord, ReliedOn};
use crate::write::condition::Unconditional;
use crate::write::op::{Op, check_fits};
use crate::write::way::{SpaceFrom, WriteWay};

/// The keyspace that has the records; made with the first.
const PREPARED_SPACE: &str = "strandline:prepared";

/// A transaction that was [prepared](Transaction::prepare): it can be committed whatever happens to the process, and what it has
/// changed or relies on stays locked until it has ended.
///
/// Dropped it stays prepared; [`Db::prepared_transactions`] finds it again, also after the store was opened anew.
pub struct PreparedTransaction {
    name: String,
    handle: Arc<Handle>,
}

impl Transaction {
    /// First half of a commit in two phases: checks all that the commit would check, and makes the changes durable under `name`, unseen
    /// by others. What the transaction changes, and what it has read that counts, is locked until it has ended; an optimistic
    /// one takes these locks now. Without changes it may be prepared, too.
    ///
    /// Space for the changes is set aside until then, so that the commit finds it in a store that others have filled.
    ///
    /// The decision is made with [`PreparedTransaction::commit`] or [`PreparedTransaction::rollback`], by this process or, after
    /// a crash, by the next.
    ///
    /// ```
    /// # use strandline::{Db, Options, PmSource, TransactionOptions};
    /// # let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
    /// # let db = Db::open("unused-for-heap", options)?;
    /// let accounts = db.default_keyspace();
    /// let mut transfer = db.begin(TransactionOptions::new())?;
    /// transfer.put(accounts, "ada", "70")?;
    /// let prepared = transfer.prepare("transfer 17")?;
    /// assert_eq!(db.get("ada")?, None);
    /// prepared.commit()?;
    /// assert_eq!(db.get("ada")?.as_deref(), Some(&b"70"[..]));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Transaction::commit`]; `TimedOut` and `Deadlock` for locks that it takes now; `Exists` if a transaction of
    /// this name is prepared; `InvalidArgument` and `LimitExceeded` for names that are empty or longer than those of keyspaces;
    /// `LimitExceeded` where changes and what is relied on are beyond what a value may have. The transaction is rolled back then.
    pub fn prepare(mut self, name: &str) -> Result<PreparedTransaction> {
        check_name(name, "prepare")?;
        let engine = Arc::clone(self.engine());
        let records = records_made(&engine)?;
        let (checks, locking) = match self.locking.take() {
            Some(locking) => (Checks::Reads, locking),
            None => (Checks::All, Locking::begin_late(&self.handle, &self.options, None)),
        };
        locking.commits()?;
        let read = self.read.borrow();
        let locked = engine.locks.open().held_by(locking.owner);
        let relied_on = || read.relied_on().chain(locked.iter().cloned());
        let batch = self.changes.batch();
        let changed = batch.changes.iter().map(|change| &change.keyspace.space);
        let all = changed.cloned().chain(relied_on().map(|(space, _)| space));
        let spaces: BTreeMap<u32, Arc<KeyspaceState>> =
            all.map(|space| (space.id, space)).collect();
        let place: BTreeMap<u32, u32> = spaces.keys().copied().zip(0..).collect();
        let changes = batch.changes.iter().map(|change| PreparedChange {
            keyspace: place[&change.keyspace.space.id],
            kind: change.kind,
            key: batch.key(change),
            value: batch.value(change),
        });
        let relied_on =
            relied_on().map(|(space, what)| ReliedOn { keyspace: place[&space.id], what });
        let spaces: Vec<Arc<KeyspaceState>> = spaces.into_values().collect();
        let keyspaces = spaces.iter().map(|space| &space.name[..]).collect();
        let record = PreparedRecord::new(keyspaces, changes.collect(), relied_on);
        for change in &record.changes {
            let PreparedChange { kind, key, value, .. } = *change;
            let op = Op::given(&spaces[change.keyspace as usize], kind, key, value);
            check_fits(&op, engine.media.pool.geometry().zone_len())?;
        }
        for (keyspace, what, mode) in record.locks() {
            locking.lock(&spaces[keyspace as usize], &what, mode)?;
        }
        let needed = record.space_needed();
        let set_aside = engine.set_aside(needed)?;
        let ids = spaces.iter().map(|space| space.id).collect();
        let naming = Naming::begin(&engine, name, locking.owner, ids)?;
        // A drop that has not seen the name yet is seen here.
        let gone = spaces.iter().find(|space| space.dropped.load(Relaxed));
        let bytes = record.encode();
        let written = match gone {
            Some(gone) => Err(dropped(gone)),
            None => {
                let ops = vec![Op::given(&records, Kind::Put, name.as_bytes(), &bytes)];
                let mut certificate = self.certificate(&read, checks);
                engine.commit_if(ops, synced(Permit::ToBeAsked), &mut certificate)
            }
        };
        if let Err(error) = written {
            let lost = u64::from(error.kind() == ErrorKind::Conflict);
            engine.transactions.conflicts.fetch_add(lost, Relaxed);
            return Err(error);
        }
        naming.keep(needed);
        set_aside.keep();
        locking.keep();
        Ok(PreparedTransaction { name: name.to_owned(), handle: Arc::clone(&self.handle) })
    }
}

/// A name that is given, unless the transaction is prepared in the end.
struct Naming<'e> {
    engine: &'e Engine,
    name: &'e str,
    is_prepared: bool,
}

impl<'e> Naming<'e> {
    fn begin(
        engine: &'e Engine,
        name: &'e str,
        owner: OwnerId,
        spaces: Vec<u32>,
    ) -> Result<Naming<'e>> {
        engine.locks.open().name(name, owner, spaces)?;
        Ok(Naming { engine, name, is_prepared: false })
    }

    fn keep(mut self, set_aside: u64) {
        self.engine.locks.open().is_prepared(self.name, set_aside);
        self.is_prepared = true;
    }
}

impl Drop for Naming<'_> {
    fn drop(&mut self) {
        if !self.is_prepared {
            self.engine.locks.open().forget_name(self.name);
        }
    }
}

/// A prepared transaction that is about to end, unless that fails.
struct Ending<'e> {
    engine: &'e Engine,
    name: &'e str,
    owner: OwnerId,
    has_ended: bool,
}

impl<'e> Ending<'e> {
    fn begin(engine: &'e Engine, name: &'e str, operation: &'static str) -> Result<Ending<'e>> {
        let owner = engine.locks.open().ends(name, operation)?;
        Ok(Ending { engine, name, owner, has_ended: false })
    }

    fn end(mut self) {
        self.has_ended = true;
        let set_aside = self.engine.locks.open().forget_name(self.name);
        self.engine.locks.end(self.owner);
        self.engine.give_up_set_aside(set_aside);
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.engine.locks.open().has_not_ended(self.name);
        }
    }
}

impl PreparedTransaction {
    /// The name that it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes the changes visible and durable, as one. Tells the number of the last of them.
    ///
    /// # Errors
    /// `NotFound` if it has ended; `Busy` if another thread ends it; those of [`Db::write`]. It stays prepared then.
    pub fn commit(self) -> Result<Seq> {
        self.end("commit", |engine, records| {
            let mut bytes = Vec::new();
            if !engine.get_into(records, self.name.as_bytes(), None, &mut bytes)? {
                return Err(unreadable(&self.name));
            }
            let record = PreparedRecord::decode(&bytes).ok_or_else(|| unreadable(&self.name))?;
            let spaces = spaces_of(engine, &self.name, &record)?;
            let changes = record.changes.iter().map(|change| {
                let PreparedChange { keyspace, kind, key, value } = *change;
                Op::given(&spaces[keyspace as usize], kind, key, value)
            });
            let mut ops: Vec<Op<'_>> = changes.collect();
            ops.push(Op::new(records, Kind::Delete, self.name.as_bytes(), &[]));
            let way = WriteWay { space: SpaceFrom::SetAside, ..synced(Permit::Given) };
            engine.commit_if(ops, way, &mut Unconditional)
        })
    }

    /// Ends the transaction without its changes.
    ///
    /// # Errors
    /// As [`PreparedTransaction::commit`].
    pub fn rollback(self) -> Result<()> {
        self.end("rollback", |engine, records| {
            let ops = vec![Op::new(records, Kind::Delete, self.name.as_bytes(), &[])];
            engine.commit_if(ops, synced(Permit::ToBeAsked), &mut Unconditional).map(|_| ())
        })
    }

    fn end<T>(
        &self,
        operation: &'static str,
        write: impl FnOnce(&Engine, &Arc<KeyspaceState>) -> Result<T>,
    ) -> Result<T> {
        let engine = &self.handle.engine;
        let ending = Ending::begin(engine, &self.name, operation)?;
        let records = engine.keyspaces.named(PREPARED_SPACE).ok_or_else(|| unreadable(&self.name));
        let done = write(engine, &records?)?;
        ending.end();
        Ok(done)
    }
}

impl Db {
    /// The transactions that are prepared, in the order of their names.
    pub fn prepared_transactions(&self) -> Vec<PreparedTransaction> {
        let names = self.engine().locks.open().prepared();
        let prepared = |name| PreparedTransaction { name, handle: Arc::clone(&self.handle) };
        names.into_iter().map(prepared).collect()
    }
}

/// Locks again what prepared transactions have locked, before the store can be used.
///
/// # Errors
/// `Corruption` if that is not known: then no one may write. An open for reading goes on.
pub(in crate::db) fn restore(handle: &Arc<Handle>) -> Result<()> {
    let reads = handle.engine.lifetime.access == Access::Read;
    match restore_all(handle) {
        Err(error) if reads && error.kind() == ErrorKind::Corruption => Ok(()),
        done => done,
    }
}

fn restore_all(handle: &Arc<Handle>) -> Result<()> {
    let engine = &handle.engine;
    let Some(space) = engine.keyspaces.named(PREPARED_SPACE) else { return Ok(()) };
    if planted::is(Bug::PreparedForgotten) {
        return Ok(());
    }
    let records = crate::db::Keyspace { handle: Arc::clone(handle), space };
    for record in records.iter() {
        let (name, bytes) = record?;
        let name = String::from_utf8_lossy(&name).into_owned();
        let record = PreparedRecord::decode(&bytes).ok_or_else(|| unreadable(&name))?;
        let spaces = spaces_of(engine, &name, &record)?;
        let owner = owner(engine);
        engine.locks.open().name(&name, owner, spaces.iter().map(|space| space.id).collect())?;
        for (keyspace, what, mode) in record.locks() {
            engine.lock_again(owner, &spaces[keyspace as usize], &what, mode)?;
        }
        let needed = record.space_needed();
        engine.set_aside_at_open(needed);
        engine.locks.open().is_prepared(&name, needed);
    }
    Ok(())
}

fn owner(engine: &Engine) -> OwnerId {
    let mut table = engine.locks.open();
    let age = table.next_owner();
    table.begin(OwnerKind::Transaction { age, expires: None })
}

/// The keyspaces that the record names.
fn spaces_of(
    engine: &Engine,
    name: &str,
    record: &PreparedRecord<'_>,
) -> Result<Vec<Arc<KeyspaceState>>> {
    let space = |space: &&str| {
        engine.keyspaces.named(space).ok_or_else(|| {
            let text = format!(
                "prepared transaction {name} changes keyspace {space}, which is not there; open the store read-only and see \
                 `strandline check`"
            );
            Error::corruption("prepared transaction", text)
        })
    };
    record.keyspaces.iter().map(space).collect()
}

/// The keyspace of the records, made if there is none.
fn records_made(engine: &Arc<Engine>) -> Result<Arc<KeyspaceState>> {
    loop {
        if let Some(space) = engine.keyspaces.named(PREPARED_SPACE) {
            return Ok(space);
        }
        match engine.create_space(PREPARED_SPACE, &KeyspaceOptions::default()) {
            // Another thread was first.
            Err(error) if error.kind() == ErrorKind::Exists => {}
            made => return made,
        }
    }
}

/// A decision that others rely on is durable when it is told.
fn synced(permit: Permit) -> WriteWay {
    WriteWay { promise: Some(Promise::Synced), permit, ..WriteWay::default() }
}

fn unreadable(name: &str) -> Error {
    let text = format!(
        "what is kept of prepared transaction {name} is not there, or of a later release; open the store with that release, or \
         read-only, and see `strandline check`"
    );
    Error::corruption("prepared transaction", text)
}
