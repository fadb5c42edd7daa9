//! Code of the application that a store calls, and the one place where it is called.
//!
//! Such code may panic. The panic ends here and becomes an error of kind `Hook`: nothing of the store is borrowed for
//! change during a call, so all of it is whole afterwards.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use base::{Error, ErrorKind, Result};

use crate::caught::caught;

/// What an application plugs into a store. None of it is stored: every open must bring it again.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Hooks {
    /// Combines values with operands; needed to read or compact keys that were merged into.
    pub merge_operator: Option<Arc<dyn MergeOperator>>,
    /// Looks at values as they are compacted.
    pub compaction_filter: Option<Arc<dyn CompactionFilter>>,
    /// Is told how far the open has got.
    pub recovery_progress: Option<Arc<dyn RecoveryProgress>>,
}

impl Hooks {
    /// Combine values with operands by this.
    #[must_use]
    pub fn merge_operator(mut self, operator: Arc<dyn MergeOperator>) -> Hooks {
        self.merge_operator = Some(operator);
        self
    }

    /// Let this look at values as they are compacted.
    #[must_use]
    pub fn compaction_filter(mut self, filter: Arc<dyn CompactionFilter>) -> Hooks {
        self.compaction_filter = Some(filter);
        self
    }

    /// Tell this how far the open has got.
    #[must_use]
    pub fn recovery_progress(mut self, progress: Arc<dyn RecoveryProgress>) -> Hooks {
        self.recovery_progress = Some(progress);
        self
    }
}

/// Combines a key's value with operands that were merged into it, as RocksDB's `MergeOperator` does.
///
/// Called when a key is read and when it is compacted, any number of times, on any thread. The result must follow from
/// the arguments alone.
///
/// An operator that makes no sense of operands, or panics, fails the read with an error of kind `Hook`. A compaction
/// leaves the operands as they are, counts that in [`Properties::hook_failures`](crate::Properties::hook_failures), and
/// goes on with all other keys; the operands are combined later, by an operator that can.
pub trait MergeOperator: Send + Sync {
    /// The value that `existing`, if there was one, and `operands`, oldest first, come to; `None` if they make no
    /// sense, which a reader gets as an error of kind `Hook`.
    fn merge(
        &self,
        keyspace: &str,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>>;

    /// One operand that comes to the same as all `operands`, oldest first, whatever they are merged into; as RocksDB's
    /// `PartialMergeMulti`. `None` if there is none: operands then stay as they are until the value below them is at hand,
    /// and each read passes all of them.
    ///
    /// Called where that value lies deeper than what is merged. An operand is at most an eighth of a zone long: a longer
    /// one is not taken.
    fn merge_operands(&self, _keyspace: &str, _key: &[u8], _operands: &[&[u8]]) -> Option<Vec<u8>> {
        None
    }
}

/// Decides over values as compactions write them, as RocksDB's `CompactionFilter` does: for values that expire, say.
///
/// Called on some thread for the newest version of a key, once all readers see that or a newer one: when the key is
/// compacted out of level 0, and again each time it moves down a level.
///
/// A filter that panics has decided nothing: the value stays, and the panic is counted in
/// [`Properties::hook_failures`](crate::Properties::hook_failures).
pub trait CompactionFilter: Send + Sync {
    /// What becomes of `value` on its way to `level`.
    fn decide(&self, keyspace: &str, level: usize, key: &[u8], value: &[u8]) -> Decision;
}

/// What a [`CompactionFilter`] decides.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// The value stays.
    Keep,
    /// The key is deleted.
    Remove,
    /// The key has this value from now on.
    Change(Vec<u8>),
}

/// Is told how far an open has got with bringing memtables back, which is all of it that takes long.
///
/// Called after each zone, on any of the threads that recover: what it does, they wait for. If it panics, the open fails
/// with an error of kind `Hook`; nothing is lost, and the store can be opened again.
pub trait RecoveryProgress: Send + Sync {
    /// `step` is through with `done` of `total` bytes of zones. Of calls on several threads an earlier one may come
    /// later.
    fn advanced(&self, step: RecoveryStep, done: u64, total: u64);
}

/// What a recovery does with every zone, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RecoveryStep {
    /// Its records are found and verified.
    Scan,
    /// They are made durable and put into the index.
    Rebuild,
}

/// Counts the bytes that a step is through with.
pub(crate) struct Advance<'h> {
    told: Option<&'h dyn RecoveryProgress>,
    step: RecoveryStep,
    done: AtomicU64,
    total: u64,
    /// What the listener panicked of. It is told nothing more.
    failed: OnceLock<Error>,
}

impl<'h> Advance<'h> {
    pub(crate) fn new(
        told: Option<&'h dyn RecoveryProgress>,
        step: RecoveryStep,
        total: u64,
    ) -> Advance<'h> {
        Advance { told, step, done: AtomicU64::new(0), total, failed: OnceLock::new() }
    }

    /// The step is through with `bytes` more.
    pub(crate) fn by(&self, bytes: u64) {
        let Some(told) = self.told.filter(|_| self.failed.get().is_none()) else { return };
        let done = self.done.fetch_add(bytes, Relaxed) + bytes;
        if let Err(said) = caught(|| told.advanced(self.step, done, self.total)) {
            let text = format!(
                "hook recovery_progress panicked in step {:?}: {said}; mend it, or open without it",
                self.step
            );
            let _first_wins = self.failed.set(Error::new(ErrorKind::Hook, "open", text));
        }
    }

    /// The step is over.
    ///
    /// # Errors
    /// `Hook` if the listener panicked.
    pub(crate) fn end(self) -> Result<()> {
        self.failed.into_inner().map_or(Ok(()), Err)
    }
}

/// The hooks of an open store.
#[derive(Default)]
pub(crate) struct Called {
    hooks: Hooks,
    /// Failures that compactions have passed over.
    passed_over: AtomicU64,
    first: OnceLock<Error>,
}

impl Called {
    pub(crate) fn new(hooks: Hooks) -> Called {
        Called { hooks, ..Called::default() }
    }

    /// The same code for what is no compaction of the store: no filter decides there.
    pub(crate) fn without_filter(&self) -> Called {
        Called::new(Hooks { compaction_filter: None, ..self.hooks.clone() })
    }

    pub(crate) fn has_operator(&self) -> bool {
        self.hooks.merge_operator.is_some()
    }

    pub(crate) fn has_filter(&self) -> bool {
        self.hooks.compaction_filter.is_some()
    }

    /// Notes a failure that a compaction passes over.
    #[cold]
    pub(crate) fn pass_over(&self, error: Error) {
        self.passed_over.fetch_add(1, Relaxed);
        let _first_wins = self.first.set(error);
    }

    /// How many failures compactions have passed over, and the first of them.
    pub(crate) fn failures(&self) -> (u64, Option<&Error>) {
        (self.passed_over.load(Relaxed), self.first.get())
    }

    /// Asks the compaction filter; `Keep` if there is none.
    ///
    /// # Errors
    /// `Hook` if it panics.
    pub(crate) fn decide(
        &self,
        keyspace: &str,
        level: usize,
        key: &[u8],
        value: &[u8],
    ) -> Result<Decision> {
        let Some(filter) = &self.hooks.compaction_filter else { return Ok(Decision::Keep) };
        caught(|| filter.decide(keyspace, level, key, value)).map_err(|said| {
            let key = key.escape_ascii();
            let text = format!(
                "hook compaction_filter panicked at key {key} of keyspace {keyspace}: {said}; mend it, or open without it"
            );
            Error::new(ErrorKind::Hook, "compact", text)
        })
    }
}

/// Calls the merge operator.
///
/// # Errors
/// `NotSupported` if there is none; `Hook` if it makes no sense of the operands, or panics.
pub(crate) fn merge(
    hooks: &Called,
    keyspace: &str,
    key: &[u8],
    existing: Option<&[u8]>,
    operands: &[&[u8]],
) -> Result<Vec<u8>> {
    let Some(operator) = &hooks.hooks.merge_operator else {
        return Err(Error::new(
            ErrorKind::NotSupported,
            "merge",
            format!(
                "key {} of keyspace {keyspace} was merged into; open the store with its merge operator",
                key.escape_ascii()
            ),
        ));
    };
    let failed = |how: &str| failed(how, keyspace, key, operands.len());
    match caught(|| operator.merge(keyspace, key, existing, operands)) {
        Ok(Some(merged)) => Ok(merged),
        Ok(None) => Err(failed("returned None")),
        Err(said) => Err(failed(&format!("panicked ({said})"))),
    }
}

/// One operand for several, if the merge operator can make it.
///
/// # Errors
/// `Hook` if it panics.
pub(crate) fn merge_operands(
    hooks: &Called,
    keyspace: &str,
    key: &[u8],
    operands: &[&[u8]],
) -> Result<Option<Vec<u8>>> {
    let Some(operator) = &hooks.hooks.merge_operator else { return Ok(None) };
    caught(|| operator.merge_operands(keyspace, key, operands))
        .map_err(|said| failed(&format!("panicked ({said})"), keyspace, key, operands.len()))
}

#[cold]
fn failed(how: &str, keyspace: &str, key: &[u8], count: usize) -> Error {
    let key = key.escape_ascii();
    let text = format!(
        "hook merge_operator {how} at {count} operands of key {key} in keyspace {keyspace}; mend it, or put the key anew"
    );
    Error::new(ErrorKind::Hook, "merge", text)
}
