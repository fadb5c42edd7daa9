//! The memtable's index: an adaptive radix tree in DRAM from byte keys to record locations.
//!
//! The tree maps any bytes, from the empty key to 64 KiB, to 62-bit words of the caller's, called leaves. It
//! is shared by any number of writers and readers, only grows, and is freed at once. It does not store
//! keys: a leaf names a record, and [`Records`] finds the record's key and seq. Records live in persistent
//! memory, where a look costs a cache miss, so the tree asks for one only
//!
//! - when an insert meets another leaf at its position, to tell how far the two keys agree;
//! - when a scan's bound ends at a leaf, to tell on which side of the bound it lies.
//!
//! # Shape
//!
//! As in Leis et al., "The Adaptive Radix Tree" (ICDE 2013): a node per byte at which keys part, in four
//! sizes, with the bytes that all keys below share kept once as the node's prefix. A key's leaf hangs where
//! its path parts from all others, and the key's remaining bytes are not in the tree. A key that is a
//! prefix of others hangs at the `end` of the node where it stops.
//!
//! # Steps of a write
//!
//! 1. The record is written and durable; its leaf is known. (The caller's part.)
//! 2. [`Art::insert`] descends without locks.
//! 3. It locks the one node that it changes, and its parent if the node must be replaced, and checks that
//!    what it saw still holds.
//! 4. One Release store makes the record findable.
//!
//! # Why readers need nothing
//!
//! Synchronisation follows Leis et al., "The ART of Practical Synchronization" (DaMoN 2016), the variant
//! with read-optimised write exclusion, and is simpler still because nothing is ever removed. Readers take
//! no lock, check no version and never start over, because every state of every node that they can reach
//! is a correct one. The invariants that make it so stand where they are kept:
//!
//! - **I-ART-1**, **I-ART-2** (`slot.rs`): what a slot names is initialised and alive.
//! - **I-ART-3** (`versions.rs`): versions are in order.
//! - **I-ART-4** to **I-ART-6** (`node/mod.rs`): tables only gain, replaced nodes stay readable, writers
//!   exclude each other.
//! - **I-ART-A1** (`arena.rs`): memory is handed out once and freed together.
//!
//! # What is absent
//!
//! No removal: a delete is a record like any other. No reclamation of outgrown nodes: a reader may be in
//! one, and finding out would cost every reader a write. They stay until the tree goes, and
//! [`Art::bytes`] counts them.

mod arena;
mod counter;
mod get;
mod insert;
mod node;
mod prefetch;
mod scan;
mod slot;
mod sync;
mod versions;

use std::sync::atomic::{AtomicU64, Ordering};

use arena::Arena;
use counter::Counter;
use slot::{Slot, Word};

/// The greatest leaf.
pub const LEAF_MAX: u64 = (1 << 62) - 1;

/// The length of the longest key, in bytes.
pub const KEY_MAX: usize = 64 << 10;

/// Resolves a leaf to the key and the sequence number of the record that it names.
///
/// The answers must never change for a leaf that was inserted.
pub trait Records {
    /// The record's key; `None` if the record cannot be read any more.
    fn key(&self, leaf: u64) -> Option<&[u8]>;
    /// The record's sequence number.
    fn seq(&self, leaf: u64) -> u64;
}

/// An insert met a record whose key cannot be told, so that the new key cannot be set apart from it. Nothing was
/// inserted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unreadable {
    /// The record's leaf.
    pub leaf: u64,
}

/// Which way a scan goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From smaller keys to greater ones.
    Forward,
    /// From greater keys to smaller ones.
    Backward,
}

impl Direction {
    /// The other one.
    pub fn opposite(self) -> Direction {
        match self {
            Direction::Forward => Direction::Backward,
            Direction::Backward => Direction::Forward,
        }
    }
}

/// Which versions of each key a scan yields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Versions {
    /// The newest with at most this seq.
    At(u64),
    /// All, newest first.
    All,
}

/// The tree.
pub struct Art {
    root: Slot,
    arena: Arena,
    inserted: Counter,
    passed: AtomicU64,
}

impl Art {
    /// An empty tree. It takes memory with the first insert that needs a node.
    pub fn new() -> Self {
        Self {
            root: Slot::new(Word::EMPTY),
            arena: Arena::new(),
            inserted: Counter::default(),
            passed: AtomicU64::new(0),
        }
    }

    /// Bytes of memory that the tree holds: whole chunks, outgrown nodes included.
    pub fn bytes(&self) -> usize {
        self.arena.bytes()
    }

    /// Bytes of that memory that were handed out, outgrown nodes included.
    pub fn used_bytes(&self) -> usize {
        self.arena.used_bytes()
    }

    /// Versions inserted, of all keys. Exact while no insert is running.
    pub fn len(&self) -> usize {
        self.inserted.sum()
    }

    /// Newer versions of their keys that inserts had to pass: what it costs to insert versions out of order.
    pub fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }

    /// True if nothing was inserted.
    pub fn is_empty(&self) -> bool {
        self.root.load().is_empty()
    }
}

impl Default for Art {
    fn default() -> Self {
        Self::new()
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Art>();
};
