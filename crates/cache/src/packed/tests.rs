use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Row(u64);

impl Key for Row {
    type Group = u64;

    fn hash(&self) -> u64 {
        (self.0 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
    }

    fn group(&self) -> u64 {
        self.0 % 8
    }
}

/// Counts the pages that are out.
#[derive(Clone, Default)]
struct Heap(Arc<AtomicUsize>);

struct HeapPage(Box<[u8]>, Arc<AtomicUsize>);

impl PageMemory for Heap {
    type Page = HeapPage;

    fn page(&self) -> Option<HeapPage> {
        self.0.fetch_add(1, Relaxed);
        Some(HeapPage(vec![0; PAGE_BYTES].into(), Arc::clone(&self.0)))
    }
}

impl PageBytes for HeapPage {
    fn read(&self, at: usize, len: usize) -> &[u8] {
        &self.0[at..at + len]
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

impl Drop for HeapPage {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Relaxed);
    }
}

/// A value that tells its key and its version.
fn value(key: u64, version: u64) -> Vec<u8> {
    let len = 20 + (key * 7) % 150;
    [key.to_le_bytes(), version.to_le_bytes()]
        .concat()
        .into_iter()
        .cycle()
        .take(len as usize)
        .collect()
}

fn cache(budget: u64, shards: usize) -> (Packed<Row, Heap>, Heap) {
    let heap = Heap::default();
    let cache = Packed::new(heap.clone(), shards);
    cache.set_budget(budget);
    (cache, heap)
}

#[test]
fn what_is_found_is_what_came_last_whatever_leaves_meanwhile() {
    let (cache, heap) = cache(64 << 10, 4);
    let mut versions = BTreeMap::<u64, u64>::new();
    let mut state = 5_u64;
    let mut found = 0;
    for step in 0..60_000_u64 {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = ((state >> 33) % 1000) * ((state >> 45) % 3) / 2;
        match (state >> 54) % 100 {
            0 => {
                cache.purge(key % 8);
                versions.retain(|other, _| other % 8 != key % 8);
            }
            1 => cache.set_budget((state >> 20) % (96 << 10)),
            2..30 => {
                cache.remove(Row(key));
                versions.remove(&key);
            }
            30..70 => {
                let bytes = value(key, step);
                let (front, back) = bytes.split_at(9);
                let done = cache.insert_if(Row(key), &[front, back], || step % 10 != 0);
                match done.expect("a page") {
                    Insert::Kept | Insert::Returned => {
                        assert!(step % 10 != 0);
                        versions.insert(key, step);
                    }
                    Insert::Present => assert!(versions.contains_key(&key)),
                    _ => {}
                }
            }
            _ => {
                let bytes = cache.get(Row(key), <[u8]>::to_vec);
                found += u64::from(bytes.is_some());
                if let Some(bytes) = bytes {
                    assert_eq!(bytes, value(key, versions[&key]));
                }
            }
        }
        assert!(cache.charged() <= cache.budget(), "step {step}");
        let pages = heap.0.load(Relaxed) as u64;
        assert!(pages * PAGE_COST <= cache.charged(), "step {step}: {pages} pages");
    }
    assert!(found > 3000, "{found}");
    cache.set_budget(0);
    assert_eq!((heap.0.load(Relaxed), cache.charged()), (0, 0));
    assert_eq!(cache.insert_if(Row(1), &[b"x"], || true), Some(Insert::Refused));
}

#[test]
fn what_is_used_again_and_again_stays_through_a_scan() {
    let (cache, _) = cache(256 << 10, 1);
    let put = |key: u64| cache.insert_if(Row(key), &[&value(key, 0)], || true).expect("a page");
    for round in 0..50_u64 {
        for key in 0..200 {
            if cache.get(Row(key), |_| ()).is_none() {
                put(key);
            }
        }
        // Ten times what it has room for, once each.
        (0..2000).for_each(|no| {
            put(1000 + round * 2000 + no);
        });
    }
    let left = (0..200).filter(|key| cache.get(Row(*key), |_| ()).is_some()).count();
    assert!(left > 190, "{left} of 200");
}

#[test]
fn what_is_removed_is_gone_and_what_may_not_come_stays_away() {
    let (cache, _) = cache(64 << 10, 2);
    let offer = |may: bool| cache.insert_if(Row(7), &[b"seven"], || may).expect("a page");
    assert_eq!(offer(false), Insert::Refused);
    assert!(cache.get(Row(7), |_| ()).is_none());
    assert_eq!(offer(true), Insert::Kept);
    assert_eq!((offer(true), offer(false)), (Insert::Present, Insert::Present));
    assert!(cache.remove(Row(7)) && !cache.remove(Row(7)));
    assert!(cache.get(Row(7), |_| ()).is_none());
    assert_eq!(cache.asked(), Asked { hits: 0, misses: 2 });
}

#[test]
fn what_left_probation_lately_is_told_as_it_returns() {
    let (cache, _) = cache(64 << 10, 1);
    let put = |key: u64| cache.insert_if(Row(key), &[&value(key, 0)], || true).expect("a page");
    assert!((0..2000).all(|key| put(key) == Insert::Kept));
    let gone: Vec<u64> = (0..2000).filter(|key| cache.get(Row(*key), |_| ()).is_none()).collect();
    let last = *gone.last().expect("some left");
    assert_eq!(put(last), Insert::Returned);
    assert_eq!(put(last), Insert::Present);
    assert_eq!(put(gone[0]), Insert::Kept, "too long ago");
}

#[test]
fn room_of_a_budget_that_was_larger_is_given_back() {
    let (cache, heap) = cache(4 << 20, 2);
    (0..20_000).for_each(|key| {
        cache.insert_if(Row(key), &[&value(key, 0)], || true);
    });
    assert!(heap.0.load(Relaxed) > 300);
    cache.set_budget(64 << 10);
    assert!(cache.charged() <= 64 << 10);
    let kept = (0..20_000).filter(|key| cache.get(Row(*key), |_| ()).is_some()).count();
    assert!(kept > 50, "{kept}: what leads to those that left is given back, too");
}

#[test]
fn a_small_value_takes_little_more_than_its_bytes() {
    let (cache, _) = cache(64 << 20, 4);
    for key in 0..50_000 {
        let done = cache.insert_if(Row(key), &[&[7; 100]], || true);
        assert_eq!(done, Some(Insert::Kept));
    }
    // Fourteen bytes before it, thirteen that lead to it in a table that is half full at least, and room for eight of a key that left.
    let each = cache.charged() / 50_000;
    assert!((100 + 14 + 13..100 + 14 + 26 + 24).contains(&each), "{each}");
}
