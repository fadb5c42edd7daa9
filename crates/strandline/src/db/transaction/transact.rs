//! Transactions that are begun anew until they get through.

use std::sync::Arc;

use base::Result;

use super::{Transaction, TransactionMode, TransactionOptions};
use crate::db::{Db, Handle};

impl Db {
    /// Runs `body` in a transaction, and commits that. After a conflict or a deadlock it begins anew: `body` is called once more, until
    /// it gets through. It changes nothing but the transaction, and gives its errors on. An optimistic one that has lost three times
    /// locks from then on: so it has its turn, too, where many change the same keys.
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
    /// Those of `body`, which ends the transaction without its changes, and of [`Transaction::commit`], but for `Conflict` and
    /// `Deadlock` of the transaction.
    pub fn transact<T>(
        &self,
        options: TransactionOptions,
        body: impl FnMut(&mut Transaction) -> Result<T>,
    ) -> Result<T> {
        transact(&self.handle, options, body)
    }
}

/// As [`Db::transact`]. What a conflict was lost against is visible already, so that the next attempt sees it.
pub(in crate::db) fn transact<T>(
    handle: &Arc<Handle>,
    options: TransactionOptions,
    mut body: impl FnMut(&mut Transaction) -> Result<T>,
) -> Result<T> {
    let (mut age, mut options, mut losses) = (None, options, 0_u32);
    loop {
        // Where others lock, one that does not would come too late each time.
        if losses == LOSSES_MAX {
            options.mode = TransactionMode::Pessimistic;
        }
        let mut transaction = Transaction::begin(handle, options.clone(), age)?;
        age = transaction.age();
        losses = losses.saturating_add(1);
        let result = match body(&mut transaction) {
            Err(_) if transaction.is_lost() => continue,
            result => result?,
        };
        match transaction.commit() {
            // A deadlock with itself would come again.
            Err(error) if error.conflict().is_some() || error.deadlock().is_some() => {}
            committed => return committed.map(|_| result),
        }
    }
}

/// How often a transaction of [`Db::transact`] loses before it locks.
const LOSSES_MAX: u32 = 3;
