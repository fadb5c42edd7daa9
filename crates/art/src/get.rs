//! Lookups: one key, or several at once.
//!
//! A lookup goes down by the key's bytes, comparing prefixes exactly, and stops at a leaf, at a chain or
//! where the path ends. It never looks at a record: between the last node and its leaf nothing is stored,
//! so the leaf found is the only candidate, and the caller compares its key anyway.
//!
//! Several lookups go down together, one level per round: a round first asks for the cache lines of every
//! node that it is about to read, then reads them.

use crate::node::Node;
use crate::slot::{Child, NodeRef, Slot, Word};
use crate::versions::Version;
use crate::{Art, prefetch};

/// Lookups that go down together: enough to keep the memory busy, few enough for their lines to stay.
const TOGETHER: usize = 16;

/// One step down: from `node` to the slot for `key`, whose bytes before `depth` led to the node.
#[inline(always)]
pub(crate) fn step<'a>(node: NodeRef<'a>, key: &[u8], depth: &mut usize) -> Option<&'a Slot> {
    let inner = node.get();
    if !node.has_no_prefix() {
        let prefix = inner.header().prefix();
        if !prefix.starts(&key[*depth..]) {
            return None;
        }
        *depth += prefix.len();
    }
    let Some(&byte) = key.get(*depth) else { return Some(&inner.header().end) };
    *depth += 1;
    inner.slot(byte)
}

/// Asks for the cache lines that `step` will read.
#[inline(always)]
fn ask(node: NodeRef<'_>, key: &[u8], depth: usize) {
    prefetch::line(std::ptr::without_provenance(node.address()));
    let Some(&byte) = key.get(depth + node.prefix_len()) else { return };
    match node.get() {
        Node::N4(_) => (),
        Node::N16(inner) => prefetch::all(inner),
        Node::N48(inner) => prefetch::line(inner.index_line(byte)),
        Node::N256(inner) => prefetch::line(std::ptr::from_ref(inner.slot(byte)).cast()),
    }
}

impl Art {
    /// The candidate for `key` as of `at`: the newest version with a seq of at most `at` if the key has
    /// several versions, else the only leaf at the key's position, if there is one.
    ///
    /// The candidate may belong to another key, and an only leaf may be newer than `at`: the caller
    /// compares both with the record.
    #[inline]
    pub fn get(&self, key: &[u8], at: u64) -> Option<u64> {
        let mut depth = 0;
        let mut slot = &self.root;
        loop {
            match slot.child() {
                Child::Empty => return None,
                Child::Leaf(leaf) => return Some(leaf),
                Child::Chain(version) => return version.newest(at),
                Child::Node(node) => slot = step(node, key, &mut depth)?,
            }
        }
    }

    /// The candidate for `key` as of `at` that [`Art::get`] finds, and behind it all older versions, newest first. The way
    /// down to the key is gone once, and each version is passed once.
    pub fn versions(&self, key: &[u8], at: u64) -> impl Iterator<Item = u64> + '_ {
        let mut depth = 0;
        let mut slot = Some(&self.root);
        let (only, newest) = loop {
            match slot.map_or(Child::Empty, Slot::child) {
                Child::Empty => break (None, None),
                Child::Leaf(leaf) => break (Some(leaf), None),
                Child::Chain(version) => break (None, Some(version)),
                Child::Node(node) => slot = step(node, key, &mut depth),
            }
        };
        let chain = std::iter::successors(newest, |version| version.older());
        let visible = chain.skip_while(move |version| version.seq() > at).map(Version::leaf);
        only.into_iter().chain(visible)
    }

    /// Appends the candidate of each key to `out`, as [`Art::get`] finds it, but overlaps the waits for
    /// memory.
    pub fn get_many(&self, keys: &[&[u8]], at: u64, out: &mut Vec<Option<u64>>) {
        for keys in keys.chunks(TOGETHER) {
            let walks = self.walk(keys);
            out.extend(walks[..keys.len()].iter().map(|walk| match walk.child() {
                Child::Leaf(leaf) => Some(leaf),
                Child::Chain(version) => version.newest(at),
                Child::Empty | Child::Node(_) => None,
            }));
        }
    }

    /// Brings the path of each key into the cache, overlapping the waits for memory, so that the inserts
    /// or lookups of the same keys that follow find it there.
    pub fn warm(&self, keys: &[&[u8]]) {
        for keys in keys.chunks(TOGETHER) {
            std::hint::black_box(self.walk(keys));
        }
    }

    /// Goes down for up to [`TOGETHER`] keys, one level per round.
    fn walk(&self, keys: &[&[u8]]) -> [Walk<'_>; TOGETHER] {
        let root = self.root.load();
        let mut walks = [Walk { slot: Some(&self.root), word: root, depth: 0 }; TOGETHER];
        loop {
            for (walk, key) in walks.iter().zip(keys) {
                if let Child::Node(node) = walk.child() {
                    ask(node, key, walk.depth);
                }
            }
            let mut going = false;
            for (walk, key) in walks.iter_mut().zip(keys) {
                if let Child::Node(node) = walk.child() {
                    walk.slot = step(node, key, &mut walk.depth);
                    walk.word = walk.slot.map_or(Word::EMPTY, Slot::load);
                    going = true;
                }
            }
            if !going {
                return walks;
            }
        }
    }
}

/// A lookup on its way: where it is and what it saw there.
#[derive(Clone, Copy)]
struct Walk<'a> {
    slot: Option<&'a Slot>,
    word: Word,
    depth: usize,
}

impl<'a> Walk<'a> {
    #[inline(always)]
    fn child(&self) -> Child<'a> {
        self.slot.map_or(Child::Empty, |slot| slot.resolve(self.word))
    }
}
