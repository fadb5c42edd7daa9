//! What a read may see.

use std::ops::Bound;

use super::Snapshot;
use super::range::prefixed;

/// What a read may see and where a scan may go.
#[derive(Clone, Default)]
pub struct ReadOptions<'s> {
    /// Read at this moment rather than now.
    pub snapshot: Option<&'s Snapshot>,
    /// A scan yields no key below this.
    pub lower: KeyBound,
    /// A scan yields no key above this.
    pub upper: KeyBound,
}

/// A bound on keys.
pub type KeyBound = Option<Bound<Vec<u8>>>;

impl ReadOptions<'_> {
    /// Bounds that admit exactly the keys beginning with `prefix`.
    pub fn prefix(prefix: impl AsRef<[u8]>) -> ReadOptions<'static> {
        let (lower, upper) = prefixed(prefix.as_ref());
        ReadOptions { snapshot: None, lower: Some(lower), upper: Some(upper) }
    }
}
