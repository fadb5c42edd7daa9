//! Ranges of keys, in the forms that Rust has for ranges.

use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use crate::span::Span;

/// The two bounds of a range of keys.
pub(super) type KeyRange = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// A range of keys: `a..b`, `a..=b`, `a..`, `..b`, `..=b`, `..`, or a pair of [`Bound`]s, of anything that reads as bytes.
///
/// ```
/// # use strandline::{Db, Options, PmSource};
/// # let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
/// # let db = Db::open("unused-for-heap", options)?;
/// # for key in ["a", "b", "c"] { db.put(key, "")?; }
/// assert_eq!(db.range("a".."c").count(), 2);
/// assert_eq!(db.range(vec![b'b']..=vec![b'c']).count(), 2);
/// assert_eq!(db.range(..).count(), 3);
/// # Ok::<(), strandline::Error>(())
/// ```
///
/// A range that ends before it begins has no keys. This trait cannot be implemented outside of this crate.
pub trait IntoRange: sealed::Bounds {}

mod sealed {
    /// What the crate makes of a range.
    pub trait Bounds {
        /// The bounds, as bytes.
        fn bounds(self) -> super::KeyRange;
    }
}

pub(super) use sealed::Bounds;

fn bytes(key: impl AsRef<[u8]>) -> Vec<u8> {
    key.as_ref().to_vec()
}

/// The keys of `range`.
pub(super) fn spanned(range: KeyRange) -> Span {
    let behind = |mut key: Vec<u8>| {
        key.push(0);
        key
    };
    let lower = match range.0 {
        Bound::Included(key) => key,
        Bound::Excluded(key) => behind(key),
        Bound::Unbounded => Vec::new(),
    };
    let upper = match range.1 {
        Bound::Included(key) => Some(behind(key)),
        Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    };
    Span { lower, upper }
}

impl IntoRange for RangeFull {}
impl Bounds for RangeFull {
    fn bounds(self) -> KeyRange {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

impl<K: AsRef<[u8]>> IntoRange for Range<K> {}
impl<K: AsRef<[u8]>> Bounds for Range<K> {
    fn bounds(self) -> KeyRange {
        (Bound::Included(bytes(self.start)), Bound::Excluded(bytes(self.end)))
    }
}

impl<K: AsRef<[u8]>> IntoRange for RangeInclusive<K> {}
impl<K: AsRef<[u8]>> Bounds for RangeInclusive<K> {
    fn bounds(self) -> KeyRange {
        let (start, end) = self.into_inner();
        (Bound::Included(bytes(start)), Bound::Included(bytes(end)))
    }
}

impl<K: AsRef<[u8]>> IntoRange for RangeFrom<K> {}
impl<K: AsRef<[u8]>> Bounds for RangeFrom<K> {
    fn bounds(self) -> KeyRange {
        (Bound::Included(bytes(self.start)), Bound::Unbounded)
    }
}

impl<K: AsRef<[u8]>> IntoRange for RangeTo<K> {}
impl<K: AsRef<[u8]>> Bounds for RangeTo<K> {
    fn bounds(self) -> KeyRange {
        (Bound::Unbounded, Bound::Excluded(bytes(self.end)))
    }
}

impl<K: AsRef<[u8]>> IntoRange for RangeToInclusive<K> {}
impl<K: AsRef<[u8]>> Bounds for RangeToInclusive<K> {
    fn bounds(self) -> KeyRange {
        (Bound::Unbounded, Bound::Included(bytes(self.end)))
    }
}

impl<K: AsRef<[u8]>> IntoRange for (Bound<K>, Bound<K>) {}
impl<K: AsRef<[u8]>> Bounds for (Bound<K>, Bound<K>) {
    fn bounds(self) -> KeyRange {
        (self.0.map(bytes), self.1.map(bytes))
    }
}

/// The range of the keys that begin with `prefix`.
pub(super) fn prefixed(prefix: &[u8]) -> KeyRange {
    let mut upper = prefix.to_vec();
    while upper.last() == Some(&0xff) {
        upper.pop();
    }
    let upper = upper.pop().map_or(Bound::Unbounded, |last| {
        upper.push(last + 1);
        Bound::Excluded(upper)
    });
    (Bound::Included(prefix.to_vec()), upper)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_where_its_keys_end() {
        let end = |prefix: &[u8]| prefixed(prefix).1;
        assert_eq!(end(b"ab"), Bound::Excluded(b"ac".to_vec()));
        assert_eq!(end(b"a\xff\xff"), Bound::Excluded(b"b".to_vec()));
        assert_eq!(end(b"\xff"), Bound::Unbounded);
        assert_eq!(end(b""), Bound::Unbounded);
    }
}
