//! A child slot: one atomic word that is empty, a leaf, a version chain or an inner node.
//!
//! ```text
//! bit  63 62 61 ............ 48 47 ................................ 2 1 0
//!       1  0 leaf word, 62 bits                                            leaf
//!       0  1 0                  address of the newest version, 48 bits     chain
//!       0  0 prefix length      address of the node               | kind   inner node
//!       0                                                                  empty
//! ```
//!
//! The kind and the prefix length (of prefixes shorter than 16383 bytes) travel in the word, so a descent
//! knows which line of a node it needs before it has touched the node.
//!
//! - **I-ART-1** A slot holds only words made by [`Word`]'s constructors, and a word that names a node or
//!   a version names one that the arena of the same tree owns. So a caller that may borrow a slot of the tree
//!   may borrow what the slot names: both live until the arena drops.
//! - **I-ART-2** A slot is filled by Release operations and read by Acquire operations, after the node or
//!   version that it names was initialised. So a reader of a word sees what it names initialised.

use std::marker::PhantomData;

use crate::LEAF_MAX;
use crate::node::{Header, Kind, Node, Node4, Node16, Node48, Node256};
use crate::sync::{AtomicU64, Ordering};
use crate::versions::Version;

const LEAF: u64 = 1 << 63;
const CHAIN: u64 = 1 << 62;
const KIND: u64 = 0b11;
const ADDRESS: u64 = (1 << 48) - 1;
const PREFIX_SHIFT: u32 = 48;
/// The prefix length that stands for itself and every greater one.
const PREFIX_LONG: u64 = (1 << 14) - 1;

/// The content of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Word(u64);

impl Word {
    pub(crate) const EMPTY: Word = Word(0);

    pub(crate) fn leaf(leaf: u64) -> Self {
        debug_assert!(leaf <= LEAF_MAX);
        Self(LEAF | leaf)
    }

    pub(crate) fn chain(version: &Version) -> Self {
        Self(CHAIN | std::ptr::from_ref(version).expose_provenance() as u64)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// What a slot holds.
pub(crate) enum Child<'a> {
    Empty,
    Leaf(u64),
    Chain(&'a Version),
    Node(NodeRef<'a>),
}

/// An atomic [`Word`].
#[repr(transparent)]
pub(crate) struct Slot(AtomicU64);

impl Slot {
    pub(crate) fn new(word: Word) -> Self {
        Self(AtomicU64::new(word.0))
    }

    pub(crate) fn load(&self) -> Word {
        Word(self.0.load(Ordering::Acquire))
    }

    /// What the slot holds now.
    #[inline(always)]
    pub(crate) fn child(&self) -> Child<'_> {
        self.resolve(self.load())
    }

    /// What a word that was loaded from this slot names.
    #[inline(always)]
    pub(crate) fn resolve(&self, word: Word) -> Child<'_> {
        if word.0 & LEAF != 0 {
            Child::Leaf(word.0 & LEAF_MAX)
        } else if word.0 & CHAIN != 0 {
            let version = std::ptr::with_exposed_provenance::<Version>((word.0 & ADDRESS) as usize);
            // SAFETY: the word names a version of the arena that owns or outlives this slot (I-ART-1),
            // initialised before the Acquire load (I-ART-2); versions are only shared.
            Child::Chain(unsafe { &*version })
        } else if word.is_empty() {
            Child::Empty
        } else {
            Child::Node(NodeRef { word, tree: PhantomData })
        }
    }

    /// Fills the slot. The caller holds the lock of the slot's owner, or has not shared it yet.
    pub(crate) fn store(&self, word: Word) {
        self.0.store(word.0, Ordering::Release);
    }

    /// Replaces `old` by `new`; false if the slot held something else.
    pub(crate) fn exchange(&self, old: Word, new: Word) -> bool {
        self.0.compare_exchange(old.0, new.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// An inner node, known by the word that names it.
#[derive(Clone, Copy)]
pub(crate) struct NodeRef<'a> {
    word: Word,
    tree: PhantomData<&'a Header>,
}

impl<'a> NodeRef<'a> {
    /// Names a node that the arena owns.
    pub(crate) fn new(node: Node<'a>) -> Self {
        let header = node.header();
        let address = match node {
            Node::N4(node) => std::ptr::from_ref(node).expose_provenance(),
            Node::N16(node) => std::ptr::from_ref(node).expose_provenance(),
            Node::N48(node) => std::ptr::from_ref(node).expose_provenance(),
            Node::N256(node) => std::ptr::from_ref(node).expose_provenance(),
        };
        let prefix = (header.prefix().len() as u64).min(PREFIX_LONG) << PREFIX_SHIFT;
        Self { word: Word(prefix | address as u64 | node.kind() as u64), tree: PhantomData }
    }

    pub(crate) fn word(self) -> Word {
        self.word
    }

    pub(crate) fn address(self) -> usize {
        (self.word.0 & ADDRESS & !KIND) as usize
    }

    pub(crate) fn kind(self) -> Kind {
        match self.word.0 & KIND {
            0 => Kind::N4,
            1 => Kind::N16,
            2 => Kind::N48,
            _ => Kind::N256,
        }
    }

    #[inline(always)]
    pub(crate) fn get(self) -> Node<'a> {
        let address = self.address();
        // SAFETY: a `NodeRef` is made by `new` from a node of the arena, or by `Slot::resolve` from a word
        // that `new` made (I-ART-1), in which case the node was initialised before the word was read
        // (I-ART-2). The kind bits tell its type. Nodes live until the arena drops, which 'a precedes.
        unsafe {
            match self.kind() {
                Kind::N4 => Node::N4(&*std::ptr::with_exposed_provenance::<Node4>(address)),
                Kind::N16 => Node::N16(&*std::ptr::with_exposed_provenance::<Node16>(address)),
                Kind::N48 => Node::N48(&*std::ptr::with_exposed_provenance::<Node48>(address)),
                Kind::N256 => Node::N256(&*std::ptr::with_exposed_provenance::<Node256>(address)),
            }
        }
    }

    /// True if no writer ever replaces this node by a copy: it cannot grow and has no prefix to split. Its
    /// slots may change without its lock, by compare-exchange.
    #[inline(always)]
    pub(crate) fn is_permanent(self) -> bool {
        self.word.0 & KIND == Kind::N256 as u64 && self.has_no_prefix()
    }

    #[inline(always)]
    pub(crate) fn has_no_prefix(self) -> bool {
        self.word.0 >> PREFIX_SHIFT == 0
    }

    /// Bytes of the prefix. Touches the node only if the prefix is very long.
    #[inline(always)]
    pub(crate) fn prefix_len(self) -> usize {
        match self.word.0 >> PREFIX_SHIFT {
            PREFIX_LONG => self.get().header().prefix().len(),
            len => len as usize,
        }
    }
}
