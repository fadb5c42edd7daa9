//! The protocol of nodes and chains under every interleaving that a bounded number of preemptions allows.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p strandline-art --release --test loom
//! ```
//!
//! Under the model a byte has 8 values and nodes hold 3, 4, 5 and 8 children, so that a handful of keys
//! reaches every size.
#![cfg(loom)]

use std::ops::Bound;

use art::{Art, Direction, Records, Versions};
use loom::sync::Arc;
use loom::thread;

/// A key and a seq.
type Entry = (&'static [u8], u64);

/// Entries by number; the leaf is the number.
struct Table(Vec<Entry>);

impl Records for Table {
    fn key(&self, leaf: u64) -> Option<&[u8]> {
        Some(self.0[leaf as usize].0)
    }

    fn seq(&self, leaf: u64) -> u64 {
        self.0[leaf as usize].1
    }
}

struct World {
    tree: Art,
    table: Table,
}

impl World {
    fn insert(&self, leaves: std::ops::Range<usize>) {
        for leaf in leaves {
            let (key, seq) = self.table.0[leaf];
            self.tree.insert(&self.table, key, seq, leaf as u64).expect("readable");
        }
    }

    /// Each of the first `count` entries is found.
    fn check_gets(&self, count: usize) {
        for (leaf, (key, seq)) in self.table.0.iter().enumerate().take(count) {
            assert_eq!(self.tree.get(key, *seq), Some(leaf as u64), "{key:?} at {seq}");
        }
    }

    /// A scan finds the first `count` entries, all in order; returns how many it found.
    fn check_scan(&self, count: usize, direction: Direction) -> usize {
        let mut found = Vec::new();
        let all = (Bound::Unbounded, Versions::All);
        assert!(self.tree.scan(&self.table, all.0, direction, all.1, usize::MAX, &mut found));
        assert!((0..count).all(|leaf| found.contains(&(leaf as u64))), "{found:?}");
        for pair in found.windows(2) {
            let of = |leaf: u64| self.table.0[leaf as usize];
            let (a, b) = (of(pair[0]), of(pair[1]));
            let right = match direction {
                Direction::Forward => a.0 < b.0,
                Direction::Backward => a.0 > b.0,
            };
            assert!(right || (a.0 == b.0 && a.1 > b.1), "{a:?} then {b:?}");
        }
        found.len()
    }
}

/// What the third thread does.
#[derive(Clone, Copy)]
enum Reader {
    Absent,
    Gets,
    Scan(Direction),
}

/// Runs two writers, each with some entries, and a reader on a tree that has the entries of `before`.
fn model(before: &[Entry], left: &[Entry], right: &[Entry], reader: Reader) {
    let entries = [before, left, right].concat();
    let (first, second) = (before.len(), before.len() + left.len());
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.max_branches = 100_000;
    builder.check(move || {
        let world = Arc::new(World { tree: Art::new(), table: Table(entries.clone()) });
        world.insert(0..first);
        let writer = {
            let world = world.clone();
            thread::spawn(move || world.insert(first..second))
        };
        let reading = {
            let world = world.clone();
            match reader {
                Reader::Absent => None,
                Reader::Gets => Some(thread::spawn(move || world.check_gets(first))),
                Reader::Scan(direction) => {
                    Some(thread::spawn(move || _ = world.check_scan(first, direction)))
                }
            }
        };
        world.insert(second..world.table.0.len());
        // What this thread inserted, it sees.
        for leaf in second..world.table.0.len() {
            let (key, seq) = world.table.0[leaf];
            assert_eq!(world.tree.get(key, seq), Some(leaf as u64));
        }
        writer.join().unwrap();
        if let Some(reading) = reading {
            reading.join().unwrap();
        }
        let count = world.table.0.len();
        world.check_gets(count);
        assert_eq!(world.check_scan(count, Direction::Forward), count);
    });
}

/// The same with every kind of reader.
fn model_all(before: &[Entry], left: &[Entry], right: &[Entry]) {
    model(before, left, right, Reader::Gets);
    model(before, left, right, Reader::Scan(Direction::Forward));
}

#[test]
fn two_first_inserts() {
    model(&[], &[(&[1], 1)], &[(&[2], 2)], Reader::Scan(Direction::Backward));
}

#[test]
fn two_children_of_one_node() {
    // No child has byte 0, which is what unused lanes hold.
    model_all(&[(&[], 1), (&[3], 2)], &[(&[1], 3)], &[(&[2], 4)]);
}

#[test]
fn growth_of_a_small_node() {
    model_all(&[(&[], 1), (&[0], 2), (&[4], 3)], &[(&[1], 4)], &[(&[2], 5)]);
}

#[test]
fn growth_of_a_middle_node() {
    let before: [Entry; 4] = [(&[3], 1), (&[0], 2), (&[4], 3), (&[6], 4)];
    model(&before, &[(&[1], 5)], &[(&[2], 6)], Reader::Scan(Direction::Forward));
}

#[test]
fn growth_to_the_largest_node_while_a_leaf_parts() {
    let before: [Entry; 5] = [(&[3], 1), (&[0], 2), (&[4], 3), (&[6], 4), (&[1], 5)];
    model(&before, &[(&[5], 6)], &[(&[0, 1], 7)], Reader::Gets);
    model(&before, &[(&[5], 6)], &[(&[0, 1], 7)], Reader::Scan(Direction::Backward));
}

#[test]
fn the_same_slot_of_a_permanent_node() {
    let before: [Entry; 6] = [(&[3], 1), (&[0], 2), (&[4], 3), (&[6], 4), (&[1], 5), (&[5], 6)];
    model_all(&before, &[(&[7, 1], 7)], &[(&[7, 2], 8)]);
}

#[test]
fn growth_below_a_permanent_node() {
    let before: [Entry; 8] = [
        (&[3], 1),
        (&[0], 2),
        (&[4], 3),
        (&[6], 4),
        (&[1], 5),
        (&[5], 6),
        (&[1, 1], 7),
        (&[1, 2], 8),
    ];
    model(&before, &[(&[1, 3], 9)], &[(&[1, 4], 10)], Reader::Gets);
}

#[test]
fn a_prefix_splits_while_its_node_gains() {
    let before: [Entry; 2] = [(&[1, 1, 1, 0], 1), (&[1, 1, 1, 1], 2)];
    model_all(&before, &[(&[1, 2], 3)], &[(&[1, 1, 1, 2], 4)]);
}

#[test]
fn a_prefix_splits_twice() {
    let before: [Entry; 2] = [(&[1, 1, 1, 0], 1), (&[1, 1, 1, 1], 2)];
    model_all(&before, &[(&[1], 3)], &[(&[1, 1, 2], 4)]);
}

#[test]
fn a_long_prefix_splits() {
    const A: &[u8] = &[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0];
    const B: &[u8] = &[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1];
    const C: &[u8] = &[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2];
    model(&[(A, 1), (B, 2)], &[(C, 3)], &[(&[1, 1], 4)], Reader::Gets);
}

#[test]
fn a_parent_and_its_child_grow() {
    let before: [Entry; 5] = [(&[0], 1), (&[2], 2), (&[1, 0], 3), (&[1, 1], 4), (&[1, 2], 5)];
    model(&before, &[(&[3], 6)], &[(&[1, 3], 7)], Reader::Gets);
    model(&before, &[(&[3], 6)], &[(&[1, 3], 7)], Reader::Scan(Direction::Forward));
}

#[test]
fn a_leaf_parts_twice() {
    model_all(&[(&[1, 1, 1], 1)], &[(&[1, 1, 2], 2)], &[(&[1, 3], 3)]);
}

#[test]
fn a_leaf_parts_while_its_key_gains_a_version() {
    model_all(&[(&[1, 1], 1)], &[(&[1, 1], 5)], &[(&[1, 2], 3)]);
}

#[test]
fn a_key_gains_two_versions() {
    model_all(&[(&[1], 5)], &[(&[1], 7)], &[(&[1], 3)]);
    model_all(&[(&[1], 5)], &[(&[1], 7)], &[(&[1], 6)]);
}

#[test]
fn a_chain_gains_old_versions() {
    model_all(&[(&[1], 9), (&[1], 2)], &[(&[1], 5), (&[1], 10)], &[(&[1], 4)]);
}

#[test]
fn a_chain_gains_while_its_node_grows() {
    let before: [Entry; 4] = [(&[0], 1), (&[1], 2), (&[2], 3), (&[1], 4)];
    model(&before, &[(&[1], 6)], &[(&[3], 5)], Reader::Gets);
    model(&before, &[(&[1], 3)], &[(&[3], 5)], Reader::Absent);
}
