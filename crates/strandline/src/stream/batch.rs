//! What a stream gives: commits as their changes.

use std::sync::Arc;
use std::time::Duration;

use base::Seq;

/// A commit as a change stream gives it: whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamBatch {
    /// The number of the commit, which is that of its first change.
    pub number: Seq,
    /// The number of its last change: once the batch has been dealt with, what to [acknowledge](crate::Stream::ack).
    pub last: Seq,
    /// What it changed, in order.
    pub changes: Vec<StreamedChange>,
}

/// A change of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamedChange {
    /// Its number; no other change has it.
    pub seq: Seq,
    /// The name of the keyspace.
    pub keyspace: Arc<str>,
    /// What was changed.
    pub what: Changed,
}

/// What a change does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Changed {
    /// A key has this value.
    Put {
        /// The key.
        key: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
        /// When the value expires, since 1970, in a keyspace with a time to live. A stream does not tell when that has come.
        expires: Option<Duration>,
    },
    /// A key is deleted.
    Delete {
        /// The key.
        key: Vec<u8>,
    },
    /// All keys of a range are deleted. One that reaches over several subranges comes in parts.
    DeleteRange {
        /// The first key that is deleted.
        begin: Vec<u8>,
        /// The first key behind it that is not.
        end: Vec<u8>,
    },
    /// An operand for the merge operator of the keyspace.
    Merge {
        /// The key.
        key: Vec<u8>,
        /// The operand.
        operand: Vec<u8>,
    },
    /// The keyspace was made. No change of it comes before.
    KeyspaceCreated,
    /// The keyspace was dropped, with everything in it. No change of it comes behind.
    KeyspaceDropped,
    /// Tables were taken in ([`Db::ingest`](crate::Db::ingest)): what they hold is not in the stream, and is to be read from the
    /// store, between these bounds.
    Ingested {
        /// How many tables.
        tables: u64,
        /// Entries in them, deletions included.
        entries: u64,
        /// No key of them is below it.
        smallest: Vec<u8>,
        /// No key of them is above it.
        largest: Vec<u8>,
    },
}
