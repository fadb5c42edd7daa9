//! What one real thread notes of its calls to a store.

use crate::check::Fold;
use crate::op::Write;

/// Between which marks of the tape a call was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct During {
    /// Before it.
    pub begun: usize,
    /// After it.
    pub done: usize,
}

/// A commit that was acknowledged.
#[derive(Clone, Debug)]
pub struct Commit {
    /// What it changed, in order.
    pub writes: Vec<Write>,
    /// The number of its last change.
    pub number: u64,
    /// When it was asked for, and acknowledged.
    pub during: During,
    /// It was asked for that the acknowledgement be good for a power failure, where the store does not promise that of each.
    pub synced: bool,
}

/// Something that an edit decides over. It counts behind all commits up to its number.
#[derive(Clone, Debug)]
pub struct Edit {
    /// What it changed.
    pub writes: Vec<Write>,
    /// Of an ingest its own number; else what was visible when it was done.
    pub number: u64,
    /// Whether the number is its own, so that the store may not fall below it.
    pub numbered: bool,
    /// When it was asked for, and done.
    pub during: During,
}

/// A key that was read, as of some moment of the read.
#[derive(Clone, Debug)]
pub struct Read {
    /// Which keyspace: one that is never dropped.
    pub keyspace: u8,
    /// The key.
    pub key: Vec<u8>,
    /// What was there.
    pub value: Option<Vec<u8>>,
    /// When.
    pub during: During,
}

/// Keyspaces that are never dropped, walked as of one moment.
#[derive(Clone, Debug)]
pub struct Walk {
    /// What each showed.
    pub folds: Vec<(u8, Fold)>,
    /// When the moment was fixed; the walk may have taken longer.
    pub during: During,
}

/// A copy of the store as of one moment.
#[derive(Clone, Copy, Debug)]
pub struct Copy {
    /// Its name.
    pub id: u32,
    /// The last number in it.
    pub number: u64,
    /// When it was made. No edit of the diary was under way.
    pub during: During,
}

/// What one thread did.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// Its commits.
    pub commits: Vec<Commit>,
    /// What it changed by edits.
    pub edits: Vec<Edit>,
    /// What it read.
    pub reads: Vec<Read>,
    /// What it walked.
    pub walks: Vec<Walk>,
    /// Copies that it made.
    pub copies: Vec<Copy>,
    /// Calls after which all that had been acknowledged before them is durable, where acknowledgements do not say that.
    pub syncs: Vec<During>,
    /// Writes that were turned away for want of space.
    pub refused: u64,
}
