//! Inner nodes: a header and one of four sizes of child tables.
//!
//! Readers never lock and never validate. What lets them:
//!
//! - **I-ART-4** A table only gains children: a child is stored before the lane, index byte or count that
//!   makes it findable, and its slot is never emptied.
//! - **I-ART-5** Kind and prefix never change. A node that must grow or lose part of its prefix is replaced
//!   by a copy in the slot that names it; the old node is marked obsolete, is changed no more and stays
//!   readable. A reader inside it misses only what was inserted after the reader came by.
//! - **I-ART-6** Slots of a node are changed by the holder of its lock, and only while it is not obsolete.
//!   The exception: a node that is never replaced (see `NodeRef::is_permanent`) needs no lock, its slots
//!   change by compare-exchange.

mod lanes;
mod large;
mod prefix;
mod small;

pub(crate) use large::{Node48, Node256};
pub(crate) use prefix::{Prefix, common};
pub(crate) use small::{Node4, Node16};

use crate::Direction;
use crate::arena::Arena;
use crate::slot::{NodeRef, Slot, Word};
use crate::sync::{AtomicU16, AtomicU32, Ordering, Sealed, relax};

/// Values of a key byte. The model checker uses few, and small tables, to reach every size quickly.
pub(crate) const FANOUT: usize = if cfg!(loom) { 8 } else { 256 };

const LOCKED: u32 = 1;
const OBSOLETE: u32 = 2;

/// The size of a node's child table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    N4 = 0,
    N16 = 1,
    N48 = 2,
    N256 = 3,
}

impl Kind {
    /// The next larger size.
    pub(crate) fn larger(self) -> Self {
        match self {
            Kind::N4 => Kind::N16,
            Kind::N16 => Kind::N48,
            Kind::N48 | Kind::N256 => Kind::N256,
        }
    }
}

/// The start of every node: 24 bytes.
#[repr(C)]
pub(crate) struct Header {
    lock: AtomicU32,
    /// Children in the table; unused in the largest size.
    count: AtomicU16,
    prefix_len: u16,
    prefix: [u8; 8],
    /// The key that ends at this node, right after its prefix.
    pub(crate) end: Slot,
    sealed: Sealed,
}

impl Header {
    fn new(prefix: Prefix, end: Word) -> Self {
        let (prefix_len, prefix) = prefix.parts();
        Self {
            lock: AtomicU32::new(0),
            count: AtomicU16::new(0),
            prefix_len,
            prefix,
            end: Slot::new(end),
            sealed: Sealed::new(),
        }
    }

    #[inline(always)]
    pub(crate) fn prefix(&self) -> Prefix {
        self.sealed.read();
        Prefix::from_parts(self.prefix_len, self.prefix)
    }

    /// Children that readers may look at.
    #[inline(always)]
    fn count(&self) -> usize {
        self.count.load(Ordering::Acquire).into()
    }

    /// Makes one more child findable. The caller holds the lock.
    fn publish(&self, count: usize) {
        self.count.store(count as u16, Ordering::Release);
    }

    /// Waits for the lock; `None` once the node is obsolete.
    pub(crate) fn lock(&self) -> Option<Lock<'_>> {
        let mut turn = 0;
        loop {
            // Acquire pairs with the Release of `Lock::retire`: who sees the mark sees the replacement.
            match self.lock.load(Ordering::Acquire) {
                OBSOLETE => return None,
                LOCKED => relax(&mut turn),
                _ => {
                    let order = (Ordering::Acquire, Ordering::Relaxed);
                    if self.lock.compare_exchange_weak(0, LOCKED, order.0, order.1).is_ok() {
                        return Some(Lock { header: self });
                    }
                }
            }
        }
    }
}

/// The right to change a node. No foreign code runs while one is held.
pub(crate) struct Lock<'a> {
    header: &'a Header,
}

impl Lock<'_> {
    /// Releases the lock and marks the node obsolete: its replacement is in place.
    pub(crate) fn retire(self) {
        self.header.lock.store(OBSOLETE, Ordering::Release);
        std::mem::forget(self);
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        self.header.lock.store(0, Ordering::Release);
    }
}

/// A node of a known size.
#[derive(Clone, Copy)]
pub(crate) enum Node<'a> {
    N4(&'a Node4),
    N16(&'a Node16),
    N48(&'a Node48),
    N256(&'a Node256),
}

impl<'a> Node<'a> {
    /// A node without children.
    pub(crate) fn new(arena: &'a Arena, kind: Kind, prefix: Prefix, end: Word) -> Self {
        let header = Header::new(prefix, end);
        match kind {
            Kind::N4 => Node::N4(arena.node(Node4::new(header))),
            Kind::N16 => Node::N16(arena.node(Node16::new(header))),
            Kind::N48 => Node::N48(arena.node(Node48::new(header))),
            Kind::N256 => Node::N256(arena.node(Node256::new(header))),
        }
    }

    /// A copy of this node in another size or with another prefix. The caller holds this node's lock.
    pub(crate) fn copy(self, arena: &'a Arena, kind: Kind, prefix: Prefix) -> Self {
        let copy = Self::new(arena, kind, prefix, self.header().end.load());
        self.each(|byte, word| {
            let fits = copy.append(byte, word);
            debug_assert!(fits, "a copy is at least as large");
        });
        copy
    }

    pub(crate) fn kind(self) -> Kind {
        match self {
            Node::N4(_) => Kind::N4,
            Node::N16(_) => Kind::N16,
            Node::N48(_) => Kind::N48,
            Node::N256(_) => Kind::N256,
        }
    }

    #[inline(always)]
    pub(crate) fn header(self) -> &'a Header {
        match self {
            Node::N4(node) => &node.header,
            Node::N16(node) => &node.header,
            Node::N48(node) => &node.header,
            Node::N256(node) => &node.header,
        }
    }

    /// The slot of `byte`'s child. The largest size has one for every byte, perhaps empty.
    #[inline(always)]
    pub(crate) fn slot(self, byte: u8) -> Option<&'a Slot> {
        match self {
            Node::N4(node) => node.slot(byte),
            Node::N16(node) => node.slot(byte),
            Node::N48(node) => node.slot(byte),
            Node::N256(node) => Some(node.slot(byte)),
        }
    }

    /// Adds a child; false if the table is full. The caller holds the lock, or has not shared the node,
    /// and `byte` has no child yet.
    pub(crate) fn append(self, byte: u8, word: Word) -> bool {
        match self {
            Node::N4(node) => node.append(byte, word),
            Node::N16(node) => node.append(byte, word),
            Node::N48(node) => node.append(byte, word),
            Node::N256(node) => {
                node.slot(byte).store(word);
                true
            }
        }
    }

    /// Calls `visit` with every child, in no order.
    fn each(self, visit: impl FnMut(u8, Word)) {
        match self {
            Node::N4(node) => node.each(visit),
            Node::N16(node) => node.each(visit),
            Node::N48(node) => node.each(visit),
            Node::N256(node) => node.each(visit),
        }
    }

    /// The bytes of a small node's children, as a set. `None` for the larger sizes.
    pub(crate) fn byte_set(self) -> Option<[u64; 4]> {
        let mut set = [0; 4];
        let add = |byte: u8| set[usize::from(byte) / 64] |= 1 << (byte % 64);
        match self {
            Node::N4(node) => node.bytes().for_each(add),
            Node::N16(node) => node.bytes().for_each(add),
            _ => return None,
        }
        Some(set)
    }

    /// The child of a large node whose byte is nearest to `from` in the direction, `from` included.
    #[inline]
    pub(crate) fn nearest(self, from: usize, direction: Direction) -> Option<(usize, &'a Slot)> {
        match self {
            Node::N48(node) => node.nearest(from, direction),
            Node::N256(node) => node.nearest(from, direction),
            _ => None,
        }
    }

    pub(crate) fn reference(self) -> NodeRef<'a> {
        NodeRef::new(self)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_whole_lines() {
        assert_eq!(size_of::<Header>(), 24);
        assert_eq!(size_of::<Node4>(), 64);
        assert_eq!(size_of::<Node16>(), 192);
        assert_eq!(size_of::<Node48>(), 704);
        assert_eq!(size_of::<Node256>(), 2112);
    }

    #[test]
    fn a_node_keeps_its_children_through_every_size() {
        let arena = Arena::new();
        let mut node = Node::new(&arena, Kind::N4, Prefix::EMPTY, Word::leaf(999));
        let byte = |i: usize| (i * 101 + 7) as u8;
        for i in 0..256 {
            if !matches!(node, Node::N256(_)) {
                assert!(node.slot(byte(i)).is_none());
            }
            if !node.append(byte(i), Word::leaf(i as u64)) {
                node = node.copy(&arena, node.kind().larger(), Prefix::EMPTY);
                assert!(node.append(byte(i), Word::leaf(i as u64)));
            }
            for j in 0..=i {
                assert_eq!(node.slot(byte(j)).unwrap().load(), Word::leaf(j as u64));
            }
            assert_eq!(node.header().end.load(), Word::leaf(999));
        }
        assert_eq!(node.kind(), Kind::N256);
    }

    #[test]
    fn an_obsolete_node_cannot_be_locked() {
        let arena = Arena::new();
        let node = Node::new(&arena, Kind::N4, Prefix::EMPTY, Word::EMPTY);
        drop(node.header().lock().unwrap());
        node.header().lock().unwrap().retire();
        assert!(node.header().lock().is_none());
    }
}
