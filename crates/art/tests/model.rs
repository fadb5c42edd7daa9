//! The tree against a map of maps.
#![cfg(not(loom))]

mod common;

use std::collections::BTreeMap;
use std::ops::Bound;

use art::{Art, Direction, KEY_MAX, Records, Versions};
use base::random::Rng;
use common::Table;
use proptest::prelude::*;

/// Key to (seq to leaf).
type Model = BTreeMap<Vec<u8>, BTreeMap<u64, u64>>;

struct Pair {
    tree: Art,
    table: Table,
    model: Model,
    next: u64,
}

impl Pair {
    fn new(capacity: usize) -> Self {
        Self { tree: Art::new(), table: Table::new(capacity), model: Model::new(), next: 0 }
    }

    fn insert(&mut self, key: &[u8], seq: u64) {
        let leaf = self.next;
        self.next += 1;
        self.table.write(leaf, key, seq);
        self.tree.insert(&self.table, key, seq, leaf).expect("readable");
        self.model.entry(key.to_vec()).or_default().entry(seq).or_insert(leaf);
    }

    /// What a caller makes of a candidate.
    fn judge(&self, candidate: Option<u64>, key: &[u8], at: u64) -> Option<u64> {
        candidate.filter(|leaf| self.table.key(*leaf) == key && self.table.seq(*leaf) <= at)
    }

    fn check_get(&self, key: &[u8], at: u64) {
        let expected = self.model.get(key).and_then(|seqs| seqs.range(..=at).next_back());
        let found = self.judge(self.tree.get(key, at), key, at);
        assert_eq!(found, expected.map(|(_, leaf)| *leaf), "get {key:?} at {at}");
        let versions =
            self.tree.versions(key, at).filter_map(|leaf| self.judge(Some(leaf), key, at));
        let expected = self.model.get(key).into_iter().flat_map(|seqs| seqs.range(..=at).rev());
        assert!(versions.eq(expected.map(|(_, leaf)| *leaf)), "versions of {key:?} at {at}");
    }

    fn check_gets(&self, keys: &[&[u8]], at: u64) {
        self.tree.warm(keys);
        let mut many = Vec::new();
        self.tree.get_many(keys, at, &mut many);
        assert_eq!(many.len(), keys.len());
        for (key, candidate) in keys.iter().zip(many) {
            assert_eq!(candidate, self.tree.get(key, at));
            self.check_get(key, at);
        }
    }

    fn expected(&self, from: Bound<&[u8]>, direction: Direction, versions: Versions) -> Vec<u64> {
        let above = match direction {
            Direction::Forward => (from, Bound::Unbounded),
            Direction::Backward => (Bound::Unbounded, from),
        };
        let range = self.model.range::<[u8], _>(above);
        let of_key = |seqs: &BTreeMap<u64, u64>| -> Vec<u64> {
            match versions {
                Versions::At(at) => {
                    seqs.range(..=at).next_back().map(|(_, leaf)| *leaf).into_iter().collect()
                }
                Versions::All => seqs.values().rev().copied().collect(),
            }
        };
        match direction {
            Direction::Forward => range.flat_map(|(_, seqs)| of_key(seqs)).collect(),
            Direction::Backward => range.rev().flat_map(|(_, seqs)| of_key(seqs)).collect(),
        }
    }

    /// Scans to the end in steps of `limit` keys.
    fn check_scan(
        &self,
        from: Bound<&[u8]>,
        direction: Direction,
        versions: Versions,
        limit: usize,
    ) {
        let mut found = Vec::new();
        let mut bound = from.map(<[u8]>::to_vec);
        loop {
            let mut part = Vec::new();
            let as_ref = bound.as_ref().map(Vec::as_slice);
            let end = self.tree.scan(&self.table, as_ref, direction, versions, limit, &mut part);
            let mut keys: Vec<&[u8]> = part.iter().map(|leaf| self.table.key(*leaf)).collect();
            keys.dedup();
            assert!(if end { keys.len() <= limit } else { keys.len() == limit });
            if let Some(last) = keys.last() {
                bound = Bound::Excluded(last.to_vec());
            }
            found.extend(part);
            if end {
                break;
            }
        }
        if let Versions::At(at) = versions {
            found.retain(|leaf| self.table.seq(*leaf) <= at);
        }
        let expected = self.expected(from, direction, versions);
        assert_eq!(found, expected, "{from:?} {direction:?} {versions:?} by {limit}");
    }

    fn check_scans_from(&self, key: &[u8], at: u64, limit: usize) {
        for direction in [Direction::Forward, Direction::Backward] {
            for versions in [Versions::At(at), Versions::All] {
                for from in [Bound::Included(key), Bound::Excluded(key), Bound::Unbounded] {
                    self.check_scan(from, direction, versions, limit);
                }
            }
        }
    }
}

fn a_key() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![4 => Just(b'a'), 3 => Just(b'b'), 2 => Just(0u8), 1 => any::<u8>()];
    let tail = prop::collection::vec(byte, 0..7);
    let head = prop_oneof![
        8 => Just(Vec::new()),
        2 => Just(b"/table/0000".to_vec()),
        2 => Just(b"/table/0001/with/a/long/shared/path/".to_vec()),
        1 => Just(vec![0xff; 20]),
    ];
    (head, tail).prop_map(|(head, tail)| [head, tail].concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 3 } else { 400 }))]

    #[test]
    fn agrees_with_the_model(
        entries in prop::collection::vec((a_key(), 0u64..12), 0..if cfg!(miri) { 30 } else { 400 }),
        probes in prop::collection::vec((a_key(), 0u64..13, 1usize..9), 1..6),
    ) {
        let mut pair = Pair::new(entries.len());
        for (key, seq) in &entries {
            pair.insert(key, *seq);
        }
        prop_assert_eq!(pair.tree.len(), entries.len());
        let keys: Vec<&[u8]> = entries.iter().map(|(key, _)| key.as_slice()).collect();
        for (key, at, limit) in &probes {
            pair.check_gets(&keys, *at);
            pair.check_gets(&[key], *at);
            pair.check_scans_from(key, *at, *limit);
            if let Some(known) = keys.get(limit * 17 % keys.len().max(1)) {
                pair.check_scans_from(known, *at, *limit);
            }
        }
    }
}

#[test]
fn an_empty_tree_has_nothing() {
    let pair = Pair::new(0);
    assert!(pair.tree.is_empty());
    assert_eq!(pair.tree.get(b"", u64::MAX), None);
    pair.check_scans_from(b"", 0, 1);
    pair.check_scans_from(b"x", 0, 1);
    assert_eq!(pair.tree.bytes(), 0);
}

#[test]
fn every_byte_at_every_level_in_any_order() {
    let mut random = Rng::new(7);
    let mut keys: Vec<Vec<u8>> = vec![vec![]];
    // Nodes of all sizes, in Miri too.
    for a in (0..=255).step_by(if cfg!(miri) { 5 } else { 1 }) {
        keys.push(vec![a]);
        keys.push(vec![b'x', a]);
        keys.push(vec![b'x', b'y', a, 0, 0]);
    }
    for i in (1..keys.len()).rev() {
        keys.swap(i, random.below(i as u64 + 1) as usize);
    }
    let mut pair = Pair::new(keys.len());
    for key in &keys {
        pair.insert(key, 5);
    }
    for key in keys.iter().step_by(if cfg!(miri) { 97 } else { 3 }) {
        pair.check_get(key, 5);
        pair.check_get(key, 4);
        pair.check_scans_from(key, 5, 50);
    }
}

#[test]
fn keys_of_64_kib_share_long_prefixes() {
    let mut pair = Pair::new(100);
    let long = vec![b'q'; KEY_MAX];
    let mut keys = vec![long.clone(), vec![]];
    for cut in [1, 8, 9, 1000, 16_382, 16_383, 16_384, 16_385, 40_000, KEY_MAX - 1] {
        keys.push(long[..cut].to_vec());
        let mut parted = long.clone();
        parted[cut] = if cut % 2 == 0 { b'a' } else { b'z' };
        keys.push(parted[..=cut].to_vec());
        keys.push(parted);
    }
    // Two keys first whose common prefix is as long as can be.
    keys.swap(1, 29);
    for key in &keys {
        pair.insert(key, 1);
        pair.insert(key, 2);
    }
    for key in &keys {
        pair.check_get(key, 1);
        pair.check_get(key, 2);
        pair.check_get(key, 0);
    }
    for key in keys.iter().step_by(7) {
        pair.check_scans_from(key, 2, 4);
    }
}

#[test]
fn a_path_of_as_many_nodes_as_a_key_has_bytes() {
    let depth: usize = if cfg!(miri) { 300 } else { 20_000 };
    let mut pair = Pair::new(depth + 1);
    for len in 0..=depth {
        pair.insert(&vec![0; len], 1);
    }
    pair.check_get(&vec![0; depth], 1);
    for direction in [Direction::Forward, Direction::Backward] {
        let mut found = Vec::new();
        let (from, versions) = (Bound::Unbounded, Versions::All);
        assert!(pair.tree.scan(&pair.table, from, direction, versions, usize::MAX, &mut found));
        assert_eq!(found, pair.expected(from, direction, versions));
    }
}

#[test]
fn versions_come_newest_first_in_any_order_of_inserts() {
    let mut random = Rng::new(99);
    let mut pair = Pair::new(600);
    for _ in 0..100 {
        for key in [b"key".as_slice(), b"ke", b"key2"] {
            pair.insert(key, random.below(1000));
        }
    }
    for at in (0..1000).step_by(if cfg!(miri) { 50 } else { 1 }) {
        pair.check_gets(&[b"key", b"ke", b"key2", b"k"], at);
    }
    pair.check_scans_from(b"key", 300, 1);
}

#[test]
fn a_repeated_seq_keeps_its_first_leaf() {
    let mut pair = Pair::new(6);
    for seq in [7, 7, 3, 3, 7, 5] {
        pair.insert(b"k", seq);
    }
    pair.check_scans_from(b"k", 9, 1);
}

#[test]
fn keys_without_a_visible_version_do_not_end_a_scan() {
    let mut pair = Pair::new(2 * 301);
    for key in 0u16..300 {
        pair.insert(&key.to_be_bytes(), 100);
        pair.insert(&key.to_be_bytes(), 101);
    }
    pair.insert(&[0xff], 1);
    pair.insert(&[0xff], 2);
    let mut found = Vec::new();
    let (from, at) = (Bound::Unbounded, Versions::At(50));
    assert!(!pair.tree.scan(&pair.table, from, Direction::Forward, at, 1, &mut found));
    assert_eq!(found, [601]);
    pair.check_scan(from, Direction::Forward, at, 1);
    pair.check_scan(from, Direction::Backward, at, 1);
}

#[test]
fn small_trees_hold_little() {
    let mut pair = Pair::new(10);
    for key in 0..10u64 {
        pair.insert(&key.to_be_bytes(), key);
    }
    assert_eq!(pair.tree.bytes(), 16 << 10);
    assert!(pair.tree.used_bytes() < 512);
}
