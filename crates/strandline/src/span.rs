//! A range of keys, from one key on up to before another.

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

    pub(crate) fn holds(&self, key: &[u8]) -> bool {
        key >= &self.lower[..] && self.before().is_none_or(|upper| key < upper)
    }

    /// The part from `key` on.
    pub(crate) fn tail(&self, key: Option<&[u8]>) -> Span {
        let lower = key.map_or(&self.lower[..], |key| key.max(&self.lower));
        Span { lower: lower.to_vec(), upper: self.upper.clone() }
    }

    /// Whether any key from `low` to `high`, both included, may be in it.
    pub(crate) fn overlaps(&self, low: &[u8], high: &[u8]) -> bool {
        high >= &self.lower[..] && self.before().is_none_or(|upper| low < upper)
    }
}
