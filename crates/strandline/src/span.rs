//! Ranges of keys: half-open, as subranges are, and closed, as the keys of tables, runs and memtables.

/// The keys from `lower` on, up to before `upper`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    /// Empty: from the first key on.
    pub lower: Vec<u8>,
    /// `None`: to the last key.
    pub upper: Option<Vec<u8>>,
}

impl Span {
    /// The first key, unless all keys from the first on belong to it.
    pub(crate) fn from(&self) -> Option<&[u8]> {
        Some(&self.lower[..]).filter(|lower| !lower.is_empty())
    }

    /// The first key behind it, if there is one.
    pub(crate) fn before(&self) -> Option<&[u8]> {
        self.upper.as_deref()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.before().is_some_and(|upper| upper <= &self.lower[..])
    }

    pub(crate) fn holds(&self, key: &[u8]) -> bool {
        key >= &self.lower[..] && self.before().is_none_or(|upper| key < upper)
    }

    /// The part from `key` on.
    pub(crate) fn tail(&self, key: Option<&[u8]>) -> Span {
        let lower = key.map_or(&self.lower[..], |key| key.max(&self.lower));
        Span { lower: lower.to_vec(), upper: self.upper.clone() }
    }

    /// The part that is also in `other`.
    pub(crate) fn within(&self, other: &Span) -> Span {
        let upper = match (self.before(), other.before()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Span {
            lower: self.lower.as_slice().max(&other.lower).to_vec(),
            upper: upper.map(<[u8]>::to_vec),
        }
    }

    /// Whether any key within `bounds` may be in it.
    pub(crate) fn overlaps(&self, bounds: BoundsRef<'_>) -> bool {
        bounds.largest >= &self.lower[..]
            && self.before().is_none_or(|upper| bounds.smallest < upper)
    }
}

/// The same keys in ranges that are in key order and do not touch.
pub(crate) fn disjoint(mut ranges: Vec<Span>) -> Vec<Span> {
    ranges.sort_by(|a, b| a.lower.cmp(&b.lower));
    let mut joined: Vec<Span> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(Span { upper: None, .. }) => break,
            Some(Span { upper: Some(upper), .. }) if range.lower <= *upper => match range.upper {
                Some(end) => *upper = std::mem::take(upper).max(end),
                None => joined.last_mut().into_iter().for_each(|last| last.upper = None),
            },
            _ => joined.push(range),
        }
    }
    joined
}

/// The lowest and the highest key of something, both included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyBounds {
    pub smallest: Vec<u8>,
    pub largest: Vec<u8>,
}

/// As [`KeyBounds`], of keys that lie elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BoundsRef<'k> {
    pub smallest: &'k [u8],
    pub largest: &'k [u8],
}

impl KeyBounds {
    pub(crate) fn as_ref(&self) -> BoundsRef<'_> {
        BoundsRef { smallest: &self.smallest, largest: &self.largest }
    }

    /// Bounds that enclose both.
    pub(crate) fn join(self, other: KeyBounds) -> KeyBounds {
        KeyBounds {
            smallest: self.smallest.min(other.smallest),
            largest: self.largest.max(other.largest),
        }
    }
}

impl<'k> BoundsRef<'k> {
    /// Bounds that enclose both.
    pub(crate) fn join(self, other: BoundsRef<'k>) -> BoundsRef<'k> {
        BoundsRef {
            smallest: self.smallest.min(other.smallest),
            largest: self.largest.max(other.largest),
        }
    }

    pub(crate) fn overlaps(self, other: BoundsRef<'_>) -> bool {
        self.smallest <= other.largest && self.largest >= other.smallest
    }

    pub(crate) fn to_owned(self) -> KeyBounds {
        KeyBounds { smallest: self.smallest.to_vec(), largest: self.largest.to_vec() }
    }
}

/// Keys from `smallest` to `largest`, both included; `None`: without an end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OptionalBounds<'k> {
    pub smallest: Option<&'k [u8]>,
    pub largest: Option<&'k [u8]>,
}

impl OptionalBounds<'_> {
    pub(crate) fn overlaps(self, bounds: BoundsRef<'_>) -> bool {
        self.largest.is_none_or(|key| bounds.smallest <= key)
            && self.smallest.is_none_or(|key| bounds.largest >= key)
    }
}
