//! Inserts.
//!
//! 1. Go down like a lookup, without locks, remembering the slot that led to the current node (`Place`).
//! 2. The path ends in one of five ways, and each is one change:
//!    - at an empty slot, which takes the leaf;
//!    - at a leaf or chain of another key: a new node with the bytes that both keys share as its prefix
//!      takes its place, the old content and the new leaf become its children;
//!    - at the key's own leaf or chain, which gains a version;
//!    - inside the prefix of a node: a new node with the part that matches takes its place; a copy of the
//!      node with the rest of the prefix and the new leaf become its children;
//!    - at a node without a child for the next byte, which gains one, growing to the next size if full.
//! 3. Each change is made under the lock of the node that owns the slot or table, after checking that what
//!    the descent saw still holds. If it does not, the insert starts over.
//!
//! Locks are taken from a node to its parent, never the other way. A parent's key position is above its
//! child's, so waiting threads cannot form a circle.
//!
//! Records are only read in step 2, before any lock is taken.

use std::sync::atomic::Ordering::Relaxed;

use crate::Unreadable;
use crate::get::step;
use crate::node::{Kind, Node, Prefix, common};
use crate::slot::{Child, NodeRef, Slot, Word};
use crate::versions::Version;
use crate::{Art, KEY_MAX, Records};

/// A slot and the node that it belongs to; none for the root.
#[derive(Clone, Copy)]
struct Place<'a> {
    slot: &'a Slot,
    owner: Option<NodeRef<'a>>,
}

impl Place<'_> {
    /// Replaces `old`, which is not a node, by `new`; false if the slot changed or its owner is obsolete.
    fn replace(self, old: Word, new: Word) -> bool {
        match self.owner {
            Some(owner) if !owner.is_permanent() => {
                let Some(_lock) = owner.get().header().lock() else { return false };
                let same = self.slot.load() == old;
                if same {
                    self.slot.store(new);
                }
                same
            }
            _ => self.slot.exchange(old, new),
        }
    }

    /// Replaces `node`, whose lock the caller holds, by what `make` returns; false if the owner of the
    /// slot is obsolete, and then `make` has not run.
    ///
    /// Only the holder of a node's lock changes the slot that names it. So if the owner is not obsolete,
    /// which its own lock or its permanence keeps true, the slot still names the node.
    fn replace_node(self, node: NodeRef<'_>, make: impl FnOnce() -> Word) -> bool {
        let lock = match self.owner {
            Some(owner) if !owner.is_permanent() => match owner.get().header().lock() {
                Some(lock) => Some(lock),
                None => return false,
            },
            _ => None,
        };
        assert!(self.slot.load() == node.word(), "I-ART-6: a node changed place without its lock");
        self.slot.store(make());
        drop(lock);
        true
    }
}

/// What an attempt to insert found.
enum Attempt<T> {
    Done,
    /// Another writer was here first: start over.
    Again,
    /// Nothing to change here: go on at this slot.
    GoOn(T),
}

/// The record to insert.
#[derive(Clone, Copy)]
struct New<'k> {
    key: &'k [u8],
    seq: u64,
    leaf: u64,
}

/// A version without its key.
#[derive(Clone, Copy)]
struct Stamped {
    seq: u64,
    leaf: u64,
}

/// The key of `leaf`, which shares the first `depth` bytes with `key`: that is how the leaf was reached.
#[inline]
fn readable<'r>(
    records: &'r impl Records,
    leaf: u64,
    key: &[u8],
    depth: usize,
) -> Result<&'r [u8], Unreadable> {
    let other = records.key(leaf).filter(|other| other.get(..depth) == key.get(..depth));
    other.ok_or(Unreadable { leaf })
}

impl Art {
    /// Adds version `seq` of `key`, whose record is `leaf`.
    ///
    /// Versions of a key are ordered by seq, newest first, whatever the order of inserts. A seq that the
    /// key already has keeps its first leaf.
    ///
    /// # Panics
    ///
    /// If `key` is longer than [`KEY_MAX`] or `leaf` is greater than [`LEAF_MAX`](crate::LEAF_MAX).
    ///
    /// # Errors
    ///
    /// [`Unreadable`] if the key must be set apart from a record that cannot be read.
    pub fn insert(
        &self,
        records: &impl Records,
        key: &[u8],
        seq: u64,
        leaf: u64,
    ) -> Result<(), Unreadable> {
        assert!(key.len() <= KEY_MAX, "a key of {} bytes", key.len());
        assert!(leaf <= crate::LEAF_MAX, "leaf {leaf:#x}");
        self.inserted.add();
        while !self.try_insert(records, New { key, seq, leaf })? {}
        Ok(())
    }

    /// One descent; false if another writer interfered.
    fn try_insert(&self, records: &impl Records, new: New<'_>) -> Result<bool, Unreadable> {
        let mut place = Place { slot: &self.root, owner: None };
        let mut depth = 0;
        loop {
            // Anything but a node ends the descent: it is replaced, unless the slot has changed since it was read.
            let word = place.slot.load();
            let node = match place.slot.resolve(word) {
                Child::Empty => return Ok(place.replace(word, Word::leaf(new.leaf))),
                Child::Leaf(leaf) => {
                    let other = readable(records, leaf, new.key, depth)?;
                    if other == new.key {
                        let old = Stamped { seq: records.seq(leaf), leaf };
                        return Ok(self.second_version(place, word, old, new));
                    }
                    return Ok(self.part(place, word, other, depth, new));
                }
                Child::Chain(version) => {
                    let other = readable(records, version.leaf(), new.key, depth)?;
                    if other == new.key {
                        return Ok(self.next_version(place, word, version, new));
                    }
                    return Ok(self.part(place, word, other, depth, new));
                }
                Child::Node(node) => node,
            };
            // A node whose prefix differs is split above; one without the next byte gets it.
            let start = depth;
            let slot = match step(node, new.key, &mut depth) {
                Some(slot) => slot,
                None => {
                    let prefix = node.get().header().prefix();
                    let matched = prefix.matched(&new.key[start..]);
                    if matched < prefix.len() {
                        return Ok(self.split(place, node, matched, start, new));
                    }
                    match self.add(place, node, new.key[start + matched], new.leaf) {
                        Attempt::Done => return Ok(true),
                        Attempt::Again => return Ok(false),
                        Attempt::GoOn(slot) => slot,
                    }
                }
            };
            place = Place { slot, owner: Some(node) };
        }
    }

    /// Puts a node in place of the leaf or chain of `other`, a different key with the same first `depth`
    /// bytes.
    fn part(&self, place: Place<'_>, old: Word, other: &[u8], depth: usize, new: New<'_>) -> bool {
        let (old_rest, new_rest) = (&other[depth..], &new.key[depth..]);
        let shared = common(old_rest, new_rest);
        let prefix = Prefix::new(&self.arena, &new_rest[..shared]);
        let node = Node::new(&self.arena, Kind::N4, prefix, Word::EMPTY);
        hang(node, old_rest.get(shared), old);
        hang(node, new_rest.get(shared), Word::leaf(new.leaf));
        place.replace(old, node.reference().word())
    }

    /// Puts a node with the first `matched` bytes of its prefix in place of `node`.
    fn split(
        &self,
        place: Place<'_>,
        node: NodeRef<'_>,
        matched: usize,
        start: usize,
        new: New,
    ) -> bool {
        let inner = node.get();
        let Some(lock) = inner.header().lock() else { return false };
        let replaced = place.replace_node(node, || {
            let prefix = inner.header().prefix();
            let above = Node::new(&self.arena, Kind::N4, prefix.slice(0..matched), Word::EMPTY);
            let below = inner_copy(&self.arena, inner, prefix.slice(matched + 1..prefix.len()));
            hang(above, prefix.bytes().get(matched), below);
            hang(above, new.key.get(start + matched), Word::leaf(new.leaf));
            above.reference().word()
        });
        if replaced {
            lock.retire();
        }
        replaced
    }

    /// Adds a child to `node`, whose place is `place`.
    fn add<'a>(
        &'a self,
        place: Place<'a>,
        node: NodeRef<'a>,
        byte: u8,
        leaf: u64,
    ) -> Attempt<&'a Slot> {
        let inner = node.get();
        let Some(lock) = inner.header().lock() else { return Attempt::Again };
        if let Some(slot) = inner.slot(byte) {
            return Attempt::GoOn(slot);
        }
        if inner.append(byte, Word::leaf(leaf)) {
            return Attempt::Done;
        }
        let replaced = place.replace_node(node, || {
            let prefix = inner.header().prefix();
            let larger = inner.copy(&self.arena, inner.kind().larger(), prefix);
            let fits = larger.append(byte, Word::leaf(leaf));
            debug_assert!(fits, "a larger node has room");
            larger.reference().word()
        });
        if replaced {
            lock.retire();
            return Attempt::Done;
        }
        Attempt::Again
    }

    /// Turns the leaf `old` of the key into a chain with the new version.
    fn second_version(&self, place: Place<'_>, word: Word, old: Stamped, new: New<'_>) -> bool {
        let new = Stamped { seq: new.seq, leaf: new.leaf };
        let (newer, older) = match new.seq.cmp(&old.seq) {
            std::cmp::Ordering::Equal => return true,
            std::cmp::Ordering::Greater => (new, old),
            std::cmp::Ordering::Less => (old, new),
        };
        let older = self.arena.small(Version::new(older.seq, older.leaf, None));
        let newer = self.arena.small(Version::new(newer.seq, newer.leaf, Some(older)));
        place.replace(word, Word::chain(newer))
    }

    /// Adds a version to the key's chain.
    fn next_version(&self, place: Place<'_>, word: Word, head: &Version, new: New<'_>) -> bool {
        let link =
            |older: Option<&Version>| self.arena.small(Version::new(new.seq, new.leaf, older));
        if new.seq > head.seq() {
            return place.replace(word, Word::chain(link(Some(head))));
        }
        if new.seq < head.seq() {
            self.passed.fetch_add(head.insert_older(new.seq, link), Relaxed);
        }
        true
    }
}

/// Hangs a word below a fresh node: at a byte, or at its end.
fn hang(node: Node<'_>, byte: Option<&u8>, word: Word) {
    match byte {
        Some(&byte) => {
            let fits = node.append(byte, word);
            debug_assert!(fits, "a fresh node has room for two");
        }
        None => node.header().end.store(word),
    }
}

/// A copy of `node` with a shorter prefix.
fn inner_copy<'a>(arena: &'a crate::arena::Arena, node: Node<'a>, prefix: Prefix) -> Word {
    node.copy(arena, node.kind(), prefix).reference().word()
}
