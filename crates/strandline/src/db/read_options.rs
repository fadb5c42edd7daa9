//! What a read may see.

use std::ops::Bound;

use super::range::{KeyRange, prefixed};
use super::{IntoRange, Snapshot};

/// What a read sees and where a scan may go.
///
/// ```
/// # use strandline::{Db, Options, PmSource, ReadOptions};
/// # let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
/// # let db = Db::open("unused-for-heap", options)?;
/// db.put("user/ada", "36")?;
/// let snapshot = db.snapshot();
/// db.put("user/bob", "41")?;
/// let before = ReadOptions::at(&snapshot).prefix("user/");
/// assert_eq!(db.default_keyspace().iter_with(&before).count(), 1);
/// # Ok::<(), strandline::Error>(())
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
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

impl<'s> ReadOptions<'s> {
    /// Read at `snapshot`; `None` is now.
    pub fn at(snapshot: impl Into<Option<&'s Snapshot>>) -> ReadOptions<'s> {
        ReadOptions { snapshot: snapshot.into(), ..ReadOptions::default() }
    }

    /// A scan yields the keys in `range` only.
    #[must_use]
    pub fn range(self, range: impl IntoRange) -> ReadOptions<'s> {
        let (lower, upper) = range.bounds();
        ReadOptions { lower: Some(lower), upper: Some(upper), ..self }
    }

    /// A scan yields the keys that begin with `prefix` only.
    #[must_use]
    pub fn prefix(self, prefix: impl AsRef<[u8]>) -> ReadOptions<'s> {
        let (lower, upper) = prefixed(prefix.as_ref());
        ReadOptions { lower: Some(lower), upper: Some(upper), ..self }
    }

    /// Where a scan may go.
    pub(super) fn bounds(&self) -> KeyRange {
        let bound = |bound: &KeyBound| bound.clone().unwrap_or(Bound::Unbounded);
        (bound(&self.lower), bound(&self.upper))
    }
}
