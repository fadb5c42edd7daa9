//! Writers and readers at once, on real threads.
#![cfg(not(loom))]

mod common;

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use art::{Art, Direction, Records, Versions};
use base::random::Rng;
use common::Table;

const WRITERS: u64 = 4;
const PER_WRITER: u64 = if cfg!(miri) { 60 } else { 100_000 };

/// Key of a writer's `i`-th insert. Half of them only this writer makes, half all of them make.
fn key(writer: u64, i: u64, shape: u64) -> Vec<u8> {
    let mixed = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut key = match shape {
        0 => mixed.to_be_bytes().to_vec(),
        1 => [&i.to_be_bytes()[..], b"00000000"].concat(),
        _ => format!("/some/longer/path/{:03}/and/{:x}", i % 100, i / 100).into_bytes(),
    };
    match i % 4 {
        0 | 1 => key.push(writer as u8),
        2 => key.truncate(key.len() - 1),
        _ => (),
    }
    key
}

struct World {
    tree: Art,
    table: Table,
    /// Inserts of each writer that have returned.
    acked: [AtomicU64; WRITERS as usize],
    done: AtomicBool,
    shape: u64,
}

impl World {
    fn leaf(writer: u64, i: u64) -> u64 {
        writer * PER_WRITER + i
    }

    /// Seqs are distinct, and their order across writers is not that of the inserts.
    fn seq(writer: u64, i: u64) -> u64 {
        1 + i * WRITERS + (writer + i) % WRITERS
    }

    fn write(&self, writer: u64) {
        for i in 0..PER_WRITER {
            let (key, leaf) = (key(writer, i, self.shape), Self::leaf(writer, i));
            self.table.write(leaf, &key, Self::seq(writer, i));
            self.tree.insert(&self.table, &key, Self::seq(writer, i), leaf).expect("readable");
            self.acked[writer as usize].store(i + 1, Ordering::Release);
        }
    }

    fn read(&self, mut random: Rng) {
        while !self.done.load(Ordering::Acquire) {
            let writer = random.below(WRITERS);
            let acked = self.acked[writer as usize].load(Ordering::Acquire);
            if acked == 0 {
                std::thread::yield_now();
                continue;
            }
            let i = random.below(acked);
            self.check_get(writer, i);
            let direction = match random.below(2) {
                0 => Direction::Forward,
                _ => Direction::Backward,
            };
            self.check_scan(writer, i, direction);
        }
    }

    fn check_get(&self, writer: u64, i: u64) {
        let (key, seq) = (key(writer, i, self.shape), Self::seq(writer, i));
        let newest = self.tree.get(&key, u64::MAX).expect("an acknowledged key is found");
        assert_eq!(self.table.key(newest), key);
        assert!(self.table.seq(newest) >= seq);
        let exact = self.tree.get(&key, seq).expect("an acknowledged version is found");
        if self.table.seq(exact) <= seq {
            assert_eq!(exact, Self::leaf(writer, i));
        } else {
            panic!("{key:?} at {seq} gave {}", self.table.seq(exact));
        }
    }

    /// A scan from an acknowledged key: finds it first, in strict order, each version in order.
    fn check_scan(&self, writer: u64, i: u64, direction: Direction) {
        let key = key(writer, i, self.shape);
        let mut found = Vec::new();
        let from = Bound::Included(key.as_slice());
        self.tree.scan(&self.table, from, direction, Versions::All, 20, &mut found);
        assert_eq!(self.table.key(found[0]), key);
        assert!(found.contains(&Self::leaf(writer, i)));
        for pair in found.windows(2) {
            let of = |leaf: u64| (self.table.key(leaf), std::cmp::Reverse(self.table.seq(leaf)));
            let (a, b) = (of(pair[0]), of(pair[1]));
            let ascends = direction == Direction::Forward || a.0 == b.0;
            assert!(if ascends { a < b } else { a.0 > b.0 }, "{a:?} then {b:?}");
        }
    }

    /// A whole scan holds every key that was acknowledged before it began.
    fn check_whole(&self) {
        let acked = self.acked.each_ref().map(|acked| acked.load(Ordering::Acquire));
        let mut found = Vec::new();
        let all = (Bound::Unbounded, Direction::Forward, Versions::All);
        assert!(self.tree.scan(&self.table, all.0, all.1, all.2, usize::MAX, &mut found));
        let mut seen = vec![false; (WRITERS * PER_WRITER) as usize];
        found.iter().for_each(|leaf| seen[*leaf as usize] = true);
        for (writer, acked) in acked.into_iter().enumerate() {
            let missing = (0..acked).find(|i| !seen[Self::leaf(writer as u64, *i) as usize]);
            assert_eq!(missing, None, "of writer {writer}");
        }
    }
}

fn run(shape: u64) {
    let world = World {
        tree: Art::new(),
        table: Table::new((WRITERS * PER_WRITER) as usize),
        acked: Default::default(),
        done: AtomicBool::new(false),
        shape,
    };
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let world = &world;
            scope.spawn(move || world.read(Rng::new(reader + 1)));
        }
        scope.spawn(|| {
            while !world.done.load(Ordering::Acquire) {
                world.check_whole();
            }
        });
        let writers: Vec<_> = (0..WRITERS)
            .map(|w| {
                scope.spawn({
                    let world = &world;
                    move || world.write(w)
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        world.done.store(true, Ordering::Release);
    });
    world.check_whole();
    for writer in 0..WRITERS {
        (0..PER_WRITER).for_each(|i| world.check_get(writer, i));
    }
    assert_eq!(world.tree.len() as u64, WRITERS * PER_WRITER);
}

#[test]
fn sparse_keys() {
    run(0);
}

#[test]
fn dense_keys() {
    run(1);
}

#[test]
fn long_prefixes() {
    run(2);
}
