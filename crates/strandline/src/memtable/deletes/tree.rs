//! Which deletion is the newest where: a tree of edges. From each edge on a deletion is the newest, up to the next
//! edge. To change a tree makes another one, which shares with it all but the way to what changed, so that a tree
//! stays as it is for its readers.
//!
//! It is a treap: a search tree by keys in which no node has a greater rank than the one above it. Ranks are as good as
//! random, so that ways are short whatever the order of inserts.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use base::checksum::mix;

use super::chunks::Chunks;

/// The number of a node; 0: an empty tree.
pub(super) type Root = u32;

/// An edge, and what lies below it in the tree.
///
/// A node changes only until a root that leads to it is published, which orders its words for readers.
#[derive(Default)]
struct Node {
    /// Left in the high half, right in the low one.
    children: AtomicU64,
    /// The key's number in the high half, the deletion in the low one.
    edge: AtomicU64,
}

fn pair(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn parts(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

/// Where another deletion, or none, is the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Boundary {
    /// The key's number.
    pub key: u32,
    /// The newest deletion from here on; 0: none.
    pub newest: u32,
}

/// Keys by their numbers.
pub(super) trait KeysByNumber {
    fn key(&self, no: u32) -> &[u8];
}

/// All trees of one memtable.
#[derive(Default)]
pub(super) struct Trees {
    nodes: Chunks<Node>,
}

impl Trees {
    fn node(&self, no: u32) -> &Node {
        #[cfg(test)]
        steps::count();
        // There is no node 0.
        self.nodes.at(no - 1)
    }

    fn children(&self, no: u32) -> (Root, Root) {
        parts(self.node(no).children.load(Relaxed))
    }

    fn edge(&self, no: u32) -> Boundary {
        let (key, newest) = parts(self.node(no).edge.load(Relaxed));
        Boundary { key, newest }
    }

    /// The last edge that is not behind `key`, and the first that is.
    pub(super) fn around(
        &self,
        keys: &impl KeysByNumber,
        root: Root,
        key: &[u8],
    ) -> (Option<Boundary>, Option<Boundary>) {
        let (mut last, mut next, mut at) = (None, None, root);
        while at != 0 {
            let edge = self.edge(at);
            let (left, right) = self.children(at);
            if keys.key(edge.key) <= key {
                (last, at) = (Some(edge), right);
            } else {
                (next, at) = (Some(edge), left);
            }
        }
        (last, next)
    }

    /// The first edge and the last.
    pub(super) fn ends(&self, root: Root) -> Option<(Boundary, Boundary)> {
        let end = |down: fn((Root, Root)) -> Root| {
            let mut at = root;
            while at != 0 {
                match down(self.children(at)) {
                    0 => return Some(self.edge(at)),
                    below => at = below,
                }
            }
            None
        };
        end(|(left, _)| left).zip(end(|(_, right)| right))
    }

    /// Bytes that `nodes` nodes take.
    pub(super) fn bytes(nodes: u32) -> u64 {
        Chunks::<Node>::bytes(nodes)
    }
}

/// Makes one tree out of another. Nodes above `shared` are its own and may still change.
pub(super) struct TreeEdit<'t, K> {
    pub trees: &'t Trees,
    pub keys: &'t K,
    pub shared: u32,
    /// How many nodes there are.
    pub nodes: u32,
}

impl<K: KeysByNumber> TreeEdit<'_, K> {
    /// The tree in which `newest` is the newest deletion from key `begin` up to before key `end`.
    pub(super) fn cover(&mut self, root: Root, begin: u32, end: u32, newest: u32) -> Root {
        let (begin_key, end_key) = (self.keys.key(begin), self.keys.key(end));
        let (under, _) = self.trees.around(self.keys, root, end_key);
        let before = self.before(root, begin_key);
        let behind = self.from(root, end_key);
        let begins = self.leaf(Boundary { key: begin, newest });
        let tree = self.join(before, begins);
        if under.is_some_and(|edge| self.keys.key(edge.key) == end_key) {
            return self.join(tree, behind);
        }
        // What covers the end goes on there.
        let newest = under.map_or(0, |edge| edge.newest);
        let ends = self.leaf(Boundary { key: end, newest });
        let tree = self.join(tree, ends);
        self.join(tree, behind)
    }

    fn leaf(&mut self, edge: Boundary) -> Root {
        self.nodes += 1;
        let node = self.trees.node(self.nodes);
        node.children.store(0, Relaxed);
        node.edge.store(pair(edge.key, edge.newest), Relaxed);
        self.nodes
    }

    /// Node `no` with these children: itself if it may change, else a copy.
    fn with(&mut self, no: u32, left: Root, right: Root) -> Root {
        let own = if no > self.shared { no } else { self.leaf(self.trees.edge(no)) };
        self.trees.node(own).children.store(pair(left, right), Relaxed);
        own
    }

    /// The part before `key`.
    fn before(&mut self, root: Root, key: &[u8]) -> Root {
        if root == 0 {
            return 0;
        }
        let (left, right) = self.trees.children(root);
        if self.keys.key(self.trees.edge(root).key) < key {
            let right = self.before(right, key);
            self.with(root, left, right)
        } else {
            self.before(left, key)
        }
    }

    /// The part from `key` on.
    fn from(&mut self, root: Root, key: &[u8]) -> Root {
        if root == 0 {
            return 0;
        }
        let (left, right) = self.trees.children(root);
        if self.keys.key(self.trees.edge(root).key) >= key {
            let left = self.from(left, key);
            self.with(root, left, right)
        } else {
            self.from(right, key)
        }
    }

    /// One tree of two; `behind` has the greater keys.
    fn join(&mut self, before: Root, behind: Root) -> Root {
        if before == 0 {
            behind
        } else if behind == 0 {
            before
        } else if self.rank(before) > self.rank(behind) {
            let (left, right) = self.trees.children(before);
            let right = self.join(right, behind);
            self.with(before, left, right)
        } else {
            let (left, right) = self.trees.children(behind);
            let left = self.join(before, left);
            self.with(behind, left, right)
        }
    }

    fn rank(&self, no: u32) -> u64 {
        mix(0, u64::from(self.trees.edge(no).key))
    }
}

/// Counts the nodes that this thread looks at.
#[cfg(test)]
pub(super) mod steps {
    use std::cell::Cell;

    thread_local! {
        static STEPS: Cell<u64> = const { Cell::new(0) };
    }

    pub(super) fn count() {
        STEPS.set(STEPS.get() + 1);
    }

    pub(in super::super) fn of(work: impl FnOnce()) -> u64 {
        let before = STEPS.get();
        work();
        STEPS.get() - before
    }
}
