//! Versions of one key: a list of links, newest first, that only gains links.
//!
//! A key with one version is a bare leaf; the second version turns the slot into a chain. A version newer
//! than the head becomes the head, through the slot's owner; any other is linked in behind its successor by
//! compare-exchange, which needs no lock because a link is never removed, copied or changed in any other
//! way.
//!
//! - **I-ART-3** Along a chain, seqs strictly fall.

use crate::slot::{Child, Slot, Word};
use crate::sync::Sealed;

/// One version of a key that has several.
pub(crate) struct Version {
    seq: u64,
    leaf: u64,
    /// The next older version.
    next: Slot,
    sealed: Sealed,
}

impl Version {
    pub(crate) fn new(seq: u64, leaf: u64, older: Option<&Version>) -> Self {
        let next = Slot::new(older.map_or(Word::EMPTY, Word::chain));
        Self { seq, leaf, next, sealed: Sealed::new() }
    }

    pub(crate) fn seq(&self) -> u64 {
        self.sealed.read();
        self.seq
    }

    pub(crate) fn leaf(&self) -> u64 {
        self.sealed.read();
        self.leaf
    }

    /// The next older version.
    pub(crate) fn older(&self) -> Option<&Version> {
        match self.next.child() {
            Child::Chain(version) => Some(version),
            _ => None,
        }
    }

    /// This and all older versions.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Version> {
        std::iter::successors(Some(self), |version| version.older())
    }

    /// The newest version with a seq of at most `at`.
    pub(crate) fn newest(&self, at: u64) -> Option<u64> {
        self.all().find(|version| version.seq() <= at).map(Version::leaf)
    }

    /// Links in a version older than this one. `link` makes it, given the version that it precedes; it may
    /// run more than once. A seq that the chain already has is left as it is. Returns how many versions were passed.
    pub(crate) fn insert_older<'a>(
        &'a self,
        seq: u64,
        link: impl Fn(Option<&Version>) -> &'a Version,
    ) -> u64 {
        debug_assert!(seq < self.seq());
        let mut newer = self;
        let mut passed = 1;
        loop {
            let word = newer.next.load();
            let older = match newer.next.resolve(word) {
                Child::Chain(version) => Some(version),
                _ => None,
            };
            match older {
                Some(version) if version.seq() > seq => (newer, passed) = (version, passed + 1),
                Some(version) if version.seq() == seq => return passed,
                _ => {
                    if newer.next.exchange(word, Word::chain(link(older))) {
                        return passed;
                    }
                }
            }
        }
    }
}
