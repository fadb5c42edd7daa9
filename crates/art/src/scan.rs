//! Ordered scans.
//!
//! A scan keeps the path from the root to where it is as a stack of frames, one per node. A frame of a
//! small node holds the set of its bytes at the time the scan entered it; a frame of a large node looks at
//! the table as it goes. Either way a frame's children come in strict byte order, so keys come in strict
//! order whatever writers do meanwhile.
//!
//! The descent to the bound pushes, for every node on the path, a frame of what lies beyond the path, and
//! reads at most one record: the one where the path ends.

use std::ops::Bound;

use crate::node::{FANOUT, Node};
use crate::slot::{Child, NodeRef, Slot};
use crate::versions::Version;
use crate::{Art, Direction, Records, Versions, prefetch};

/// Frames that a scan has room for from the start.
const USUAL_DEPTH: usize = 16;
/// A scan for fewer keys fetches no node ahead.
const SHORT: usize = 16;

impl Art {
    /// Appends to `out` the leaves of up to `limit` keys, in order, starting at the bound `from` and going
    /// in `direction`. True if no key was left beyond the last one appended; false if the limit came first.
    ///
    /// - [`Versions::At`]: a key with several versions yields its newest version of at most that seq, or
    ///   nothing, and then does not count towards the limit. An only leaf is always yielded: the caller
    ///   checks its seq.
    /// - [`Versions::All`]: a key yields all its versions, newest first, and counts once.
    ///
    /// To continue, scan again from `Bound::Excluded` of the last key yielded.
    ///
    /// Every key whose insert returned before the scan began is found; keys inserted meanwhile may be.
    pub fn scan(
        &self,
        records: &impl Records,
        from: Bound<&[u8]>,
        direction: Direction,
        versions: Versions,
        limit: usize,
        out: &mut Vec<u64>,
    ) -> bool {
        if limit == 0 {
            return false;
        }
        let stack = Vec::with_capacity(USUAL_DEPTH);
        let mut scan = Scan { direction, versions, left: limit, stack };
        match scan.seek(&self.root, records, from) {
            Child::Empty => (),
            Child::Leaf(leaf) => scan.leaf(leaf, out),
            Child::Chain(version) => scan.chain(version, out),
            Child::Node(node) => scan.enter(node),
        }
        scan.run(out)
    }
}

struct Scan<'a> {
    direction: Direction,
    versions: Versions,
    /// Keys still wanted.
    left: usize,
    stack: Vec<Frame<'a>>,
}

impl<'a> Scan<'a> {
    /// Pushes a frame for every node on the path to the bound, and returns what comes first of all.
    fn seek(&mut self, root: &'a Slot, records: &impl Records, from: Bound<&[u8]>) -> Child<'a> {
        let (key, itself) = match from {
            Bound::Unbounded => return root.child(),
            Bound::Included(key) => (key, Itself::Ahead),
            Bound::Excluded(key) => (key, Itself::Passed),
        };
        let mut slot = root;
        let mut depth = 0;
        loop {
            // A key at the end of the path counts if it lies on this side of the bound.
            let child = slot.child();
            let node = match child {
                Child::Empty => return child,
                Child::Leaf(leaf) => {
                    return if self.is_within(records.key(leaf), key, itself) {
                        child
                    } else {
                        Child::Empty
                    };
                }
                Child::Chain(version) => {
                    let other = records.key(version.leaf());
                    return if self.is_within(other, key, itself) { child } else { Child::Empty };
                }
                Child::Node(node) => node,
            };
            // Where a prefix leaves the bound, all of the node lies on one side of it.
            let inner = node.get();
            if self.left > SHORT {
                ask(node);
            }
            let prefix = inner.header().prefix();
            let rest = &key[depth..];
            let matched = prefix.matched(rest);
            if matched < prefix.len() {
                let above = rest.get(matched).is_none_or(|byte| prefix.bytes()[matched] > *byte);
                let within = above == (self.direction == Direction::Forward);
                return if within { child } else { Child::Empty };
            }
            // What lies beyond the bound's byte comes when the rest of the path is done.
            depth += prefix.len();
            let Some(&byte) = key.get(depth) else {
                self.stack.push(Frame::from_end(inner, itself, self.direction));
                return Child::Empty;
            };
            self.stack.push(Frame::beyond(inner, byte, self.direction));
            self.ask_ahead();
            let Some(next) = inner.slot(byte) else { return Child::Empty };
            slot = next;
            depth += 1;
        }
    }

    /// True if the record's key lies on the scanned side of the bound, or cannot be told: the reader of the
    /// record will learn that.
    fn is_within(&self, key: Option<&[u8]>, bound: &[u8], itself: Itself) -> bool {
        let Some(key) = key else { return true };
        match key.cmp(bound) {
            std::cmp::Ordering::Equal => itself == Itself::Ahead,
            std::cmp::Ordering::Less => self.direction == Direction::Backward,
            std::cmp::Ordering::Greater => self.direction == Direction::Forward,
        }
    }

    /// Empties the stack; true if it got to the end before the limit.
    fn run(&mut self, out: &mut Vec<u64>) -> bool {
        while self.left > 0 {
            let Some(frame) = self.stack.last_mut() else { return true };
            match frame.next(self.direction).map(Slot::child) {
                None => _ = self.stack.pop(),
                Some(Child::Empty) => (),
                Some(Child::Leaf(leaf)) => self.leaf(leaf, out),
                Some(Child::Chain(version)) => self.chain(version, out),
                Some(Child::Node(node)) => self.enter(node),
            }
        }
        false
    }

    /// Asks for the node that follows in the last frame, if the scan is long enough to get there.
    fn ask_ahead(&self) {
        if self.left > SHORT
            && let Some(frame) = self.stack.last()
            && let Some(Child::Node(next)) = frame.peek(self.direction)
        {
            ask(next);
        }
    }

    /// Pushes a frame for a whole node.
    fn enter(&mut self, node: NodeRef<'a>) {
        ask(node);
        self.ask_ahead();
        self.stack.push(Frame::whole(node.get(), self.direction));
    }

    #[inline(always)]
    fn leaf(&mut self, leaf: u64, out: &mut Vec<u64>) {
        out.push(leaf);
        self.left -= 1;
    }

    fn chain(&mut self, version: &Version, out: &mut Vec<u64>) {
        match self.versions {
            Versions::At(seq) => {
                if let Some(leaf) = version.newest(seq) {
                    self.leaf(leaf, out);
                }
            }
            Versions::All => {
                out.extend(version.all().map(Version::leaf));
                self.left -= 1;
            }
        }
    }
}

/// Asks for the lines of a node that a frame will read; the largest nodes are read too far apart.
#[inline(always)]
fn ask(node: NodeRef<'_>) {
    match node.get() {
        Node::N4(node) => prefetch::all(node),
        Node::N16(node) => prefetch::all(node),
        Node::N48(node) => prefetch::all(node),
        Node::N256(_) => (),
    }
}

/// A key, beside what lies beyond it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Itself {
    /// To be visited.
    Ahead,
    /// Visited, or not wanted.
    Passed,
}

/// What is left to visit of a node.
struct Frame<'a> {
    node: Node<'a>,
    /// The bytes of a small node.
    set: Option<[u64; 4]>,
    /// The next byte to consider, plus one: zero if none is left backwards, above `FANOUT` if forwards.
    next: usize,
    /// The key that ends at the node.
    end: Itself,
}

impl<'a> Frame<'a> {
    fn new(node: Node<'a>, next: usize, end: Itself) -> Self {
        Self { node, set: node.byte_set(), next, end }
    }

    /// All of the node.
    fn whole(node: Node<'a>, direction: Direction) -> Self {
        match direction {
            Direction::Forward => Self::new(node, 1, Itself::Ahead),
            Direction::Backward => Self::new(node, FANOUT, Itself::Ahead),
        }
    }

    /// What lies beyond the key that ends at the node; that key too if it is ahead.
    fn from_end(node: Node<'a>, itself: Itself, direction: Direction) -> Self {
        match direction {
            Direction::Forward => Self::new(node, 1, itself),
            Direction::Backward => Self::new(node, 0, itself),
        }
    }

    /// What lies beyond the child of `byte`.
    fn beyond(node: Node<'a>, byte: u8, direction: Direction) -> Self {
        match direction {
            Direction::Forward => Self::new(node, usize::from(byte) + 2, Itself::Passed),
            Direction::Backward => Self::new(node, usize::from(byte), Itself::Ahead),
        }
    }

    /// The nearest child among the bytes from `from` on.
    #[inline(always)]
    fn find(&self, from: usize, direction: Direction) -> Option<(usize, &'a Slot)> {
        match &self.set {
            Some(set) => nearest(set, from, direction)
                .and_then(|byte| Some((byte, self.node.slot(byte as u8)?))),
            None => self.node.nearest(from, direction),
        }
    }

    /// What the next child in byte order is.
    fn peek(&self, direction: Direction) -> Option<Child<'a>> {
        let from = self.next.checked_sub(1).filter(|from| *from < FANOUT)?;
        self.find(from, direction).map(|(_, slot)| slot.child())
    }

    /// The next slot in order.
    #[inline]
    fn next(&mut self, direction: Direction) -> Option<&'a Slot> {
        if direction == Direction::Forward && self.end == Itself::Ahead {
            self.end = Itself::Passed;
            return Some(&self.node.header().end);
        }
        if let Some(from) = self.next.checked_sub(1).filter(|from| *from < FANOUT) {
            if let Some((byte, slot)) = self.find(from, direction) {
                self.next = match direction {
                    Direction::Forward => byte + 2,
                    Direction::Backward => byte,
                };
                return Some(slot);
            }
            self.next = 0;
        }
        if self.end == Itself::Passed {
            return None;
        }
        self.end = Itself::Passed;
        Some(&self.node.header().end)
    }
}

/// The member of `set` nearest to `from` in the direction, `from` included.
#[inline]
fn nearest(set: &[u64; 4], from: usize, direction: Direction) -> Option<usize> {
    let (mut i, bit) = (from / 64, from % 64);
    let mut word = set[i];
    word &= match direction {
        Direction::Forward => u64::MAX << bit,
        Direction::Backward => u64::MAX >> (63 - bit),
    };
    while word == 0 {
        i = match direction {
            Direction::Forward => i + 1,
            Direction::Backward => i.checked_sub(1)?,
        };
        word = *set.get(i)?;
    }
    Some(match direction {
        Direction::Forward => 64 * i + word.trailing_zeros() as usize,
        Direction::Backward => 64 * i + 63 - word.leading_zeros() as usize,
    })
}
