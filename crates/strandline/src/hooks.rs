//! Code of the application that a store calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use base::{Error, ErrorKind, Result};

/// What an application plugs into a store. None of it is stored: every open must bring it again.
#[derive(Clone, Default)]
pub struct Hooks {
    /// Combines values with operands; needed to read or compact keys that were merged into.
    pub merge_operator: Option<Arc<dyn MergeOperator>>,
    /// Looks at values as they are compacted.
    pub compaction_filter: Option<Arc<dyn CompactionFilter>>,
    /// Is told how far the open has got.
    pub recovery_progress: Option<Arc<dyn RecoveryProgress>>,
}

/// Combines a key's value with operands that were merged into it, as RocksDB's `MergeOperator` does.
///
/// Called when a key is read and when it is compacted, any number of times, on any thread. The result must follow from
/// the arguments alone.
pub trait MergeOperator: Send + Sync {
    /// The value that `existing`, if there was one, and `operands`, oldest first, come to; `None` if they make no
    /// sense, which a reader gets as `Corruption`.
    fn merge(
        &self,
        keyspace: &str,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>>;
}

/// Decides over values as compactions write them, as RocksDB's `CompactionFilter` does: for values that expire, say.
///
/// Called on some thread for the newest version of a key, once all readers see that or a newer one; not before the key
/// leaves persistent memory, and again each time it sinks.
pub trait CompactionFilter: Send + Sync {
    /// What becomes of `value` on its way to `level`.
    fn decide(&self, keyspace: &str, level: usize, key: &[u8], value: &[u8]) -> Decision;
}

/// What a [`CompactionFilter`] decides.
#[derive(Clone, Debug, PartialEq, Eq)]
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
/// Called after each zone, on any of the threads that recover: what it does, they wait for.
pub trait RecoveryProgress: Send + Sync {
    /// `step` is through with `done` of `total` bytes of zones. Of calls on several threads an earlier one may come
    /// later.
    fn advanced(&self, step: RecoveryStep, done: u64, total: u64);
}

/// What a recovery does with every zone, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
}

impl<'h> Advance<'h> {
    pub(crate) fn new(
        told: Option<&'h dyn RecoveryProgress>,
        step: RecoveryStep,
        total: u64,
    ) -> Advance<'h> {
        Advance { told, step, done: AtomicU64::new(0), total }
    }

    /// The step is through with `bytes` more.
    pub(crate) fn by(&self, bytes: u64) {
        if let Some(told) = self.told {
            told.advanced(self.step, self.done.fetch_add(bytes, Relaxed) + bytes, self.total);
        }
    }
}

/// Calls the merge operator.
///
/// # Errors
/// `NotSupported` if there is none; `Corruption` if it makes no sense of the operands.
pub(crate) fn merge(
    hooks: &Hooks,
    keyspace: &str,
    key: &[u8],
    existing: Option<&[u8]>,
    operands: &[&[u8]],
) -> Result<Vec<u8>> {
    let Some(operator) = &hooks.merge_operator else {
        return Err(Error::new(
            ErrorKind::NotSupported,
            "merge",
            format!(
                "key {} of keyspace {keyspace} was merged into; open the store with its merge operator",
                key.escape_ascii()
            ),
        ));
    };
    operator.merge(keyspace, key, existing, operands).ok_or_else(|| {
        Error::corruption(
            "merge",
            format!(
                "the merge operator makes no sense of {} operands of key {} in keyspace {keyspace}; put the key anew",
                operands.len(),
                key.escape_ascii()
            ),
        )
    })
}
