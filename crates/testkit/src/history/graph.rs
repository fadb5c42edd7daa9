//! Which transaction depends on which.

use std::fmt;
use std::ops::Range;

use super::Key;

/// Why a transaction comes after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Dependency {
    /// It overwrites the other's version.
    Ww = 1,
    /// It reads the other's version.
    Wr = 2,
    /// It overwrites the version that the other read.
    Rw = 4,
    /// It inserts what the other's scan did not see.
    PredicateRw = 8,
    /// It began when the other had ended.
    RealTime = 16,
    /// Its commit has a greater number.
    Number = 32,
}

impl Dependency {
    /// Whether it is an anti-dependency: the other one did not see this one's write.
    pub fn is_anti(self) -> bool {
        matches!(self, Dependency::Rw | Dependency::PredicateRw)
    }
}

/// A set of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dependencies(u8);

impl Dependencies {
    pub const fn of(all: &[Dependency]) -> Dependencies {
        let (mut bits, mut at) = (0, 0);
        while at < all.len() {
            bits |= all[at] as u8;
            at += 1;
        }
        Dependencies(bits)
    }

    pub fn contain(self, dependency: Dependency) -> bool {
        self.0 & dependency as u8 != 0
    }
}

/// `to` comes after `from`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub from: u32,
    pub to: u32,
    pub dependency: Dependency,
    /// Where it comes from; without a meaning for clock and numbers.
    pub key: Key,
}

/// All edges, by where they begin. Nodes are transactions, by their places in the history, and behind them moments of the
/// clock (see `order`).
pub(super) struct Graph {
    transactions: usize,
    /// Where the edges of each node begin; one more at the end.
    starts: Vec<u32>,
    edges: Vec<Edge>,
}

impl Graph {
    pub fn new(transactions: usize, moments: usize, mut edges: Vec<Edge>) -> Graph {
        edges.sort_unstable_by_key(|edge| (edge.from, edge.to));
        let mut starts = vec![0; transactions + moments + 1];
        edges.iter().for_each(|edge| starts[edge.from as usize + 1] += 1);
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        Graph { transactions, starts, edges }
    }

    pub fn nodes(&self) -> u32 {
        self.starts.len() as u32 - 1
    }

    pub fn is_transaction(&self, node: u32) -> bool {
        (node as usize) < self.transactions
    }

    /// The edges that begin at a node.
    pub fn edges_of(&self, node: u32) -> Range<u32> {
        self.starts[node as usize]..self.starts[node as usize + 1]
    }

    pub fn edge(&self, at: u32) -> &Edge {
        &self.edges[at as usize]
    }
}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Edge { from, to, dependency, key } = self;
        match dependency {
            Dependency::Ww => write!(f, "T{from} -ww-> T{to}: both write {key}, T{to} later"),
            Dependency::Wr => {
                write!(f, "T{from} -wr-> T{to}: T{to} sees {key} as T{from} wrote it")
            }
            Dependency::Rw => {
                write!(f, "T{from} -rw-> T{to}: T{from} sees {key} as it was before T{to} wrote it")
            }
            Dependency::PredicateRw => {
                write!(f, "T{from} -predicate rw-> T{to}: T{from} scans a range without {key}, ")?;
                write!(f, "which T{to} inserts")
            }
            Dependency::RealTime => {
                write!(f, "T{from} -real time-> T{to}: T{to} begins when T{from} has ended")
            }
            Dependency::Number => {
                write!(f, "T{from} -number-> T{to}: T{to} has a greater commit number")
            }
        }
    }
}
