//! Code of the application that a store calls.

use std::sync::Arc;

use base::{Error, ErrorKind, Result};

/// What an application plugs into a store. None of it is stored: every open must bring it again.
#[derive(Clone, Default)]
pub struct Hooks {
    /// Combines values with operands; needed to read or compact keys that were merged into.
    pub merge_operator: Option<Arc<dyn MergeOperator>>,
    /// Looks at values as they are compacted.
    pub compaction_filter: Option<Arc<dyn CompactionFilter>>,
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
