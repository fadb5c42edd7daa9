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

/// A key that says its hash itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Hashed {
    group: u32,
    hash: u64,
}

impl Key for Hashed {
    type Group = u32;

    fn hash(&self) -> u64 {
        self.hash
    }

    fn group(&self) -> u32 {
        self.group
    }
}

/// Counts the pages that are out; no more than it is told may be.
#[derive(Clone)]
struct Heap {
    out: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

struct HeapPage(Box<[u8]>, Arc<AtomicUsize>);

impl Default for Heap {
    fn default() -> Heap {
        Heap { out: Arc::default(), most: Arc::new(AtomicUsize::new(usize::MAX)) }
    }
}

impl Heap {
    fn out(&self) -> usize {
        self.out.load(Relaxed)
    }
}

impl PageMemory for Heap {
    type Page = HeapPage;

    fn page(&self) -> Option<HeapPage> {
        if self.out() >= self.most.load(Relaxed) {
            return None;
        }
        self.out.fetch_add(1, Relaxed);
        Some(HeapPage(vec![0; PAGE_BYTES].into(), Arc::clone(&self.out)))
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

fn cache<K: Key>(budget: u64, shards: usize) -> (Packed<K, Heap>, Heap) {
    let heap = Heap::default();
    let cache = Packed::new(heap.clone(), shards);
    cache.set_budget(budget);
    (cache, heap)
}

fn has<K: Key>(cache: &Packed<K, Heap>, key: K) -> bool {
    cache.get(key, |_| Some(())).is_some()
}

fn audit<K: Key>(cache: &Packed<K, Heap>, heap: &Heap) {
    let (mut pages, mut charged) = (0, 0);
    for no in 0..cache.shards.len() {
        let shard = cache.shard(no);
        shard.audit();
        pages += shard.page_count();
        charged += shard.charged;
    }
    assert_eq!((pages, charged), (heap.out(), cache.charged()));
}

#[test]
fn what_is_found_is_what_came_last_whatever_leaves_meanwhile() {
    let (cache, heap) = cache(64 << 10, 4);
    let mut versions = BTreeMap::<u64, u64>::new();
    let mut state = 5_u64;
    let mut found = 0;
    let mut without_page = 0;
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
            2 => heap.most.store((state >> 20) as usize % 25, Relaxed),
            3 => cache.drop_pages(|page| page.0[0].is_multiple_of(8)),
            4..30 => {
                cache.remove(Row(key));
                versions.remove(&key);
            }
            30..70 => {
                let bytes = value(key, step);
                let (front, back) = bytes.split_at(9);
                let done = cache.insert_if(Row(key), &[front, back], || step % 10 != 0);
                match done {
                    Some(Insert::Kept | Insert::Returned) => {
                        assert!(step % 10 != 0);
                        versions.insert(key, step);
                    }
                    Some(Insert::Present) => assert!(versions.contains_key(&key)),
                    Some(_) => {}
                    None => without_page += 1,
                }
            }
            _ => {
                let bytes = cache.get(Row(key), |bytes| Some(bytes.to_vec()));
                found += u64::from(bytes.is_some());
                if let Some(bytes) = bytes {
                    assert_eq!(bytes, value(key, versions[&key]));
                }
            }
        }
        assert!(cache.charged() <= cache.budget(), "step {step}");
        audit(&cache, &heap);
    }
    assert!(found > 3000 && without_page > 300, "{found} found, {without_page} without a page");
    cache.set_budget(0);
    assert_eq!((heap.out(), cache.charged()), (0, 0));
    assert_eq!(cache.insert_if(Row(1), &[b"x"], || true), Some(Insert::Refused));
}

#[test]
fn what_is_used_again_and_again_stays_through_a_scan() {
    let (cache, _) = cache(256 << 10, 1);
    let put = |key: u64| cache.insert_if(Row(key), &[&value(key, 0)], || true).expect("a page");
    for round in 0..50_u64 {
        for key in 0..200 {
            if !has(&cache, Row(key)) {
                put(key);
            }
        }
        // Ten times what it has room for, once each.
        (0..2000).for_each(|no| {
            put(1000 + round * 2000 + no);
        });
    }
    let left = (0..200).filter(|key| has(&cache, Row(*key))).count();
    assert!(left > 190, "{left} of 200");
}

#[test]
fn what_is_removed_is_gone_and_what_may_not_come_stays_away() {
    let (cache, _) = cache(64 << 10, 2);
    let offer = |may: bool| cache.insert_if(Row(7), &[b"seven"], || may).expect("a page");
    assert_eq!(offer(false), Insert::Refused);
    assert!(!has(&cache, Row(7)));
    assert_eq!(offer(true), Insert::Kept);
    assert_eq!((offer(true), offer(false)), (Insert::Present, Insert::Present));
    assert!(cache.remove(Row(7)) && !cache.remove(Row(7)));
    assert!(!has(&cache, Row(7)));
    assert_eq!(cache.asked(), Asked { hits: 0, misses: 2 });
}

#[test]
fn what_left_probation_lately_is_told_as_it_returns() {
    let (cache, _) = cache(64 << 10, 1);
    let put = |key: u64| cache.insert_if(Row(key), &[&value(key, 0)], || true).expect("a page");
    assert!((0..2000).all(|key| put(key) == Insert::Kept));
    let gone: Vec<u64> = (0..2000).filter(|key| !has(&cache, Row(*key))).collect();
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
    assert!(heap.out() > 300);
    cache.set_budget(64 << 10);
    assert!(cache.charged() <= 64 << 10);
    let kept = (0..20_000).filter(|key| has(&cache, Row(*key))).count();
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

/// All values of some groups, one after the other.
fn fill(cache: &Packed<Row, Heap>, groups: std::ops::Range<u64>) {
    for group in groups {
        for no in 0..500 {
            let key = no * 8 + group;
            let done = cache.insert_if(Row(key), &[&value(key, 0)], || true);
            assert_eq!(done, Some(Insert::Kept));
        }
    }
}

#[test]
fn pages_of_purged_values_go_back() {
    let (cache, heap) = cache(4 << 20, 2);
    fill(&cache, 0..8);
    let (all, charged) = (heap.out(), cache.charged());
    for group in 1..7 {
        assert_eq!(cache.purge(group).values, 500);
        audit(&cache, &heap);
    }
    // Two of eight groups are left, and what was purged last and is less than an eighth of all.
    assert!(heap.out() < all * 3 / 8 + 4, "{} of {all} pages", heap.out());
    assert!(cache.charged() < charged / 2, "{} of {charged}: room in tables, too", cache.charged());
    for no in 0..500 {
        for group in 0..8 {
            let (key, stays) = (no * 8 + group, group == 0 || group == 7);
            let found = cache.get(Row(key), |bytes| Some(bytes.to_vec()));
            assert_eq!(found, stays.then(|| value(key, 0)));
        }
    }
    // Values that are purged with their last neighbours leave nothing, whichever way those went.
    (0..500).for_each(|no| assert!(cache.remove(Row(no * 8 + 7))));
    audit(&cache, &heap);
    cache.purge(0);
    assert_eq!((heap.out(), cache.charged()), (0, 0));
}

#[test]
fn the_last_value_takes_purged_ones_along() {
    let (cache, heap) = cache(4 << 20, 1);
    // In every page there is some of both; what is purged is little.
    for no in 0..4000 {
        let key = no * 8 + u64::from(no % 20 == 0);
        assert_eq!(cache.insert_if(Row(key), &[&[1; 100]], || true), Some(Insert::Kept));
    }
    let all = heap.out();
    assert_eq!(cache.purge(1).values, 200);
    assert_eq!(heap.out(), all);
    (0..4000).filter(|no| no % 20 != 0).for_each(|no| assert!(cache.remove(Row(no * 8))));
    assert_eq!(heap.out(), 0);
    audit(&cache, &heap);
}

#[test]
fn what_was_purged_makes_room_before_what_is_used() {
    let (cache, heap) = cache::<Hashed>(1 << 20, 1);
    let hash = |no: u64| (no + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    let key = |group: u32, no: u64| Hashed { group, hash: hash(u64::from(group) << 32 | no) };
    let put = |key: Hashed| {
        let done = cache.insert_if(key, &[&[7; 300]], || true);
        assert_eq!(done, Some(Insert::Kept));
    };
    let put_used = |no: u64, used: Hashed| {
        put(used);
        assert!(has(&cache, used));
        put(key(3, no));
    };
    let count = |group, all| (0..all).filter(|no| has(&cache, key(group, *no))).count();
    // In the main queue: first what stays, then what is purged, with one in twelve beside it that stays, too.
    (0..1000).for_each(|no| put_used(no, key(1, no)));
    for no in 1000..2300 {
        put_used(no, key(if no % 12 == 0 { 1 } else { 2 }, no));
    }
    (2300..4000).for_each(|no| put(key(3, no)));
    let used = count(1, 2300);
    assert_eq!((used, count(2, 2300)), (1000 + 108, 1300 - 108));
    assert_eq!(cache.purge(2).values, 1300 - 108);
    audit(&cache, &heap);
    (0..1500).for_each(|no| put(key(4, no)));
    audit(&cache, &heap);
    assert_eq!(count(1, 2300), used, "nothing that is used made room");
    let new = count(4, 1500);
    assert!(new > 1300, "{new} of 1500 have the room of what was purged");
}

#[test]
fn purges_cost_as_much_as_what_they_purge_however_many_groups_there_are() {
    let (cache, heap) = cache::<Hashed>(16 << 20, 1);
    let hash = |no: u64| (no + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    for no in 0..40_000_u64 {
        let key = Hashed { group: no as u32 % 4000, hash: hash(no) };
        assert_eq!(cache.insert_if(key, &[&[1; 50]], || true), Some(Insert::Kept));
    }
    let purged: u64 = (0..4000).map(|group| cache.purge(group).values).sum();
    assert_eq!((purged, heap.out()), (40_000, 0));
    let swept = cache.shard(0).swept;
    assert!((1..10 * 40_000).contains(&swept), "{swept} places were looked at");
}

#[test]
fn two_keys_with_one_hash_are_told_apart_by_their_values() {
    let (cache, heap) = cache::<Hashed>(64 << 10, 2);
    let key = |group| Hashed { group, hash: 77 << 32 | 5 };
    // A value that tells whose it is.
    let put = |key: Hashed, whose: &[u8]| cache.insert_if(key, &[whose], || true).expect("a page");
    let get = |key: Hashed, whose: &[u8]| {
        cache.get(key, |bytes| (bytes == whose).then(|| bytes.to_vec()))
    };
    assert_eq!(put(key(1), b"first"), Insert::Kept);
    assert_eq!(put(key(1), b"second"), Insert::Present, "the one that came first stays");
    assert_eq!(get(key(1), b"second"), None);
    assert_eq!(get(key(1), b"first").as_deref(), Some(&b"first"[..]));
    assert_eq!(cache.asked(), Asked { hits: 1, misses: 1 }, "another key's value is no hit");
    // In another group it is another key, and so is one with half of the hash.
    assert_eq!(put(key(2), b"other"), Insert::Kept);
    let half = Hashed { group: 1, hash: 78 << 32 | 5 };
    assert_eq!(get(half, b"first"), None);
    assert_eq!(put(half, b"half"), Insert::Kept);
    assert_eq!(get(key(2), b"other").as_deref(), Some(&b"other"[..]));
    assert_eq!(get(half, b"half").as_deref(), Some(&b"half"[..]));
    assert_eq!(cache.purge(1).values, 2);
    assert_eq!((get(key(1), b"first"), get(half, b"half")), (None, None));
    assert!(get(key(2), b"other").is_some());
    audit(&cache, &heap);
}

#[test]
fn where_there_is_no_page_nothing_is_left_of_what_was_to_come() {
    let (cache, heap) = cache(64 << 10, 1);
    heap.most.store(0, Relaxed);
    assert_eq!(cache.insert_if(Row(1), &[b"one"], || true), None);
    assert_eq!((cache.shard(0).group_count(), cache.charged()), (0, 0));
    heap.most.store(2, Relaxed);
    let put = |key: u64| cache.insert_if(Row(key), &[&[key as u8; 1200]], || true);
    (0..8).for_each(|no| assert_eq!(put(no * 8), (no < 6).then_some(Insert::Kept)));
    // The same group, and one that has nothing yet.
    assert_eq!((put(6 * 8), put(3)), (None, None));
    assert_eq!(cache.shard(0).group_count(), 1);
    let is_there = |no: u64| cache.get(Row(no * 8), |bytes| Some(bytes == [no as u8 * 8; 1200]));
    (0..6).for_each(|no| assert_eq!(is_there(no), Some(true)));
    audit(&cache, &heap);
    // A page that has gone makes room for another.
    (0..3).for_each(|no| assert!(cache.remove(Row(no * 8))));
    assert_eq!((put(3), cache.shard(0).group_count()), (Some(Insert::Kept), 2));
    audit(&cache, &heap);
}

#[test]
fn what_returns_and_finds_no_page_is_known_the_next_time() {
    let (cache, heap) = cache(64 << 10, 1);
    let put = |key: u64| cache.insert_if(Row(key), &[&value(key, 0)], || true);
    (0..2000).for_each(|key| assert_eq!(put(key), Some(Insert::Kept)));
    let last = (0..2000).rfind(|key| !has(&cache, Row(*key))).expect("some left");
    heap.most.store(0, Relaxed);
    assert_eq!((put(last), put(last)), (None, None));
    heap.most.store(usize::MAX, Relaxed);
    assert_eq!(put(last), Some(Insert::Returned));
    audit(&cache, &heap);
}

#[test]
fn tables_of_pages_shrink_with_the_budget() {
    let (cache, heap) = cache(8 << 20, 1);
    fill(&cache, 0..8);
    let pages = cache.shard(0).page_numbers();
    assert!(pages > 100);
    cache.set_budget(64 << 10);
    let (now, left) = (cache.shard(0).page_numbers(), heap.out());
    assert!(now <= 4 * left, "{now} numbers for {left} pages, {pages} before");
    audit(&cache, &heap);
    let kept: Vec<u64> = (0..4000).filter(|key| has(&cache, Row(*key))).collect();
    assert!(kept.len() > 200, "{}", kept.len());
    for key in kept {
        let found = cache.get(Row(key), |bytes| Some(bytes.to_vec()));
        assert_eq!(found, Some(value(key, 0)));
    }
}
