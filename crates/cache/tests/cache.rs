//! What a cache promises, seen from outside: its budget, its contents, and how well it chooses.

use std::collections::HashMap;
use std::sync::Arc;

use cache::{Cache, Gone, Insert, Key, Place, Shelf};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
struct Page(u64);

impl Key for Page {
    type Group = u64;

    fn hash(&self) -> u64 {
        mix(self.0)
    }

    fn group(&self) -> u64 {
        self.0 % 64
    }
}

fn mix(key: u64) -> u64 {
    let wide = u128::from(key ^ 0x9E37_79B9_7F4A_7C15) * 0xA076_1D64_78BD_642F_u128;
    let folded = (wide as u64) ^ ((wide >> 64) as u64);
    folded.wrapping_mul(0xD6E8_FEB8_6659_FD93).rotate_left(31).wrapping_mul(0xA076_1D64_78BD_642F)
}

/// Numbers that look random.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 += 1;
        mix(self.0)
    }

    /// From 0 to 1.
    fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A cache for so many values of 1000 bytes.
fn with_room_for(values: u64) -> Cache<Page, u64> {
    Cache::new(values * Cache::<Page, u64>::cost(1000))
}

/// Whether the value was here; now it is.
fn ask(cache: &Cache<Page, u64>, page: u64) -> bool {
    match cache.get(Page(page)) {
        Some(value) => {
            assert_eq!(*value, page);
            true
        }
        None => {
            let (value, _) = cache.insert(Page(page), Arc::new(page), 1000, Place::Probation);
            assert_eq!(*value, page);
            false
        }
    }
}

/// The least recently used goes first: what others do.
struct Lru {
    room: usize,
    used: HashMap<u64, u64>,
    order: std::collections::VecDeque<(u64, u64)>,
    now: u64,
}

impl Lru {
    fn with_room_for(room: usize) -> Lru {
        Lru { room, used: HashMap::new(), order: Default::default(), now: 0 }
    }

    fn ask(&mut self, page: u64) -> bool {
        self.now += 1;
        self.order.push_back((page, self.now));
        let was_here = self.used.insert(page, self.now).is_some();
        while self.used.len() > self.room {
            let (oldest, at) = self.order.pop_front().expect("more than none");
            if self.used.get(&oldest) == Some(&at) {
                self.used.remove(&oldest);
            }
        }
        was_here
    }
}

const PAGES: usize = 20_000;
const ROOM: u64 = 1000;

/// Hits of a thousand under these accesses, which are made known one by one: ours, and those of LRU.
fn hits(mut next: impl FnMut(u64) -> (u64, bool)) -> (u64, u64) {
    let (cache, mut lru) = (with_room_for(ROOM), Lru::with_room_for(ROOM as usize));
    let (mut asked, mut ours, mut others) = (0, 0, 0);
    for step in 0..400_000_u64 {
        let (page, counts) = next(step);
        let hit = (ask(&cache, page), lru.ask(page));
        if counts && step > 100_000 {
            (asked, ours, others) = (asked + 1, ours + u64::from(hit.0), others + u64::from(hit.1));
        }
    }
    (ours * 1000 / asked, others * 1000 / asked)
}

/// Pages as Zipf's law with exponent 0.99 draws them.
fn zipf() -> impl FnMut() -> u64 {
    let mut sums: Vec<f64> = (1..=PAGES).map(|rank| (rank as f64).powf(-0.99)).collect();
    for rank in 1..sums.len() {
        sums[rank] += sums[rank - 1];
    }
    let mut numbers = Numbers(1);
    move || {
        let at = numbers.part() * sums[PAGES - 1];
        mix(sums.partition_point(|sum| *sum < at) as u64) >> 20
    }
}

#[test]
fn skewed_reads_hit_more_often_than_with_lru() {
    let mut zipf = zipf();
    let (ours, lru) = hits(|_| (zipf(), true));
    assert!(ours > lru + 30 && lru > 500, "{ours} and {lru} of 1000");
}

#[test]
fn a_scan_beside_costs_little() {
    let mut alone = zipf();
    let (alone, _) = hits(|_| (alone(), true));
    let mut beside = zipf();
    let (scanned, lru) = hits(|step| match step % 2 {
        0 => (beside(), true),
        _ => (1 << 60 | step, false),
    });
    assert!(scanned + 20 > alone, "{scanned} and {alone} of 1000");
    assert!(scanned > lru + 100, "{scanned} and {lru} of 1000");
}

#[test]
fn what_only_passes_is_known_the_second_time() {
    let cache = with_room_for(1000);
    assert!(!cache.has_passed(Page(1)) && !cache.is_nearly_full(), "it is empty");
    assert!(!(0..1000).any(|page| ask(&cache, page)));
    assert!(cache.is_nearly_full() && !(2000..5000).any(|page| cache.has_passed(Page(page))));
    let again = (4400..5000).filter(|page| cache.has_passed(Page(*page))).count();
    assert!(again > 500, "{again} of 600 that passed just now");
    let again = (2000..3500).filter(|page| cache.has_passed(Page(*page))).count();
    assert!(again < 20, "{again} of 1500 that passed long ago");
    assert!((0..1000).all(|page| cache.contains(Page(page))), "nothing made room");
}

#[test]
fn of_a_loop_that_is_too_long_some_stays() {
    let (ours, lru) = hits(|step| (step % (ROOM * 6 / 5), true));
    assert!(ours > 300 && lru == 0, "{ours} and {lru} of 1000");
}

#[test]
fn what_is_read_changes_and_the_cache_follows() {
    let mut numbers = Numbers(9);
    let (ours, lru) = hits(|step| (step / 20_000 * 700 + numbers.next() % 700, true));
    assert!(ours > 900 && ours + 60 > lru, "{ours} and {lru} of 1000");
}

#[test]
fn the_budget_is_kept_and_every_value_is_its_own() {
    let cache = with_room_for(300);
    let shelves: Vec<_> = (0..64).map(|_| Arc::new(Shelf::new(32))).collect();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (cache, shelves) = (&cache, &shelves);
            scope.spawn(move || {
                let (mut numbers, mut held) = (Numbers(thread << 32), Vec::new());
                for step in 0..30_000_u64 {
                    let page = numbers.next() % 2000;
                    let (shelf, position) = (&shelves[(page % 64) as usize], (page / 64) as usize);
                    match cache.reach(shelf, position) {
                        Some(value) => assert_eq!(*value, page),
                        None => _ = ask(cache, page),
                    }
                    cache.shelve(Page(page), shelf, position);
                    match numbers.next() % 100 {
                        0 => _ = cache.purge(page % 64),
                        1 => held.extend(cache.get(Page(page))),
                        2 => held.clear(),
                        3 if cache.charge(5000) => cache.discharge(5000),
                        _ => {}
                    }
                    held.truncate(20);
                    // What others are about to take in, or to charge, at most.
                    assert!(cache.charged() <= cache.budget() + 4 * 6000, "step {step}");
                }
            });
        }
    });
    assert!(cache.charged() <= cache.budget());
    assert_eq!(cache.charged(), cache.len() * Cache::<Page, u64>::cost(1000));
    assert!(cache.evictions() > 1000 && cache.asked().hits > 1000);
    let gone = (0..64).map(|group| cache.purge(group)).fold(0, |sum, gone| sum + gone.bytes);
    assert!(gone > 0);
    assert_eq!((cache.charged(), cache.len(), cache.purge(1)), (0, 0, Gone::default()));
    let left = |shelf: &Arc<Shelf<u64>>| (0..32).any(|at| cache.reach(shelf, at).is_some());
    assert!(!shelves.iter().any(left), "nothing stands on a shelf that the cache does not have");
}

#[test]
fn what_stands_on_a_shelf_stays_by_being_used_there_and_leaves_with_the_cache() {
    let cache = with_room_for(100);
    let (shelf, page) = (Arc::new(Shelf::new(40)), |position: usize| position as u64 * 64 + 5);
    for position in 0..40 {
        assert!(cache.reach(&shelf, position).is_none());
        assert!(!ask(&cache, page(position)));
        cache.shelve(Page(page(position)), &shelf, position);
    }
    let before = cache.asked();
    let scan = |from: u64| {
        for other in from..from + 400 {
            ask(&cache, other * 64);
            for position in 0..20 {
                assert_eq!(cache.reach(&shelf, position).as_deref(), Some(&page(position)));
            }
        }
    };
    scan(1000);
    assert_eq!(cache.asked().hits - before.hits, 400 * 20, "found by position: look-ups that hit");
    assert!((0..20).all(|position| cache.contains(Page(page(position)))));
    for position in 20..40 {
        assert!(!cache.contains(Page(page(position))), "not used");
        assert!(cache.reach(&shelf, position).is_none());
    }
    // What a reader has from there is passed over, and charged.
    let held = cache.reach(&shelf, 7);
    for other in 0..4000 {
        // Used twice, they go where those of the shelf are.
        ask(&cache, other * 64);
        ask(&cache, other * 64);
    }
    assert!(cache.contains(Page(page(7))));
    drop(held);
    assert!(cache.reach(&shelf, 8).is_none());
    // The shelf that was made last counts, also once the one before is gone.
    let other = Arc::new(Shelf::new(40));
    for position in [8, 9] {
        ask(&cache, page(position));
        cache.shelve(Page(page(position)), &shelf, position);
        assert!(cache.reach(&shelf, position).is_some());
    }
    cache.shelve(Page(page(8)), &other, 8);
    assert!(cache.reach(&shelf, 8).is_none() && cache.reach(&other, 8).is_some());
    cache.shelve(Page(page(8)), &shelf, 8);
    assert!(cache.reach(&shelf, 8).is_none() && cache.reach(&other, 8).is_some());
    drop(other);
    let last = Arc::new(Shelf::new(40));
    for position in [8, 9] {
        cache.shelve(Page(page(position)), &last, position);
        assert!(cache.reach(&last, position).is_some());
    }
    cache.shelve(Page(page(8)), &last, 1 << 40);
    cache.purge(5);
    assert!((0..40).all(|position| cache.reach(&last, position).is_none()));
}

#[test]
fn where_all_is_held_nothing_new_is_kept() {
    let cache = with_room_for(20);
    let mut held = Vec::new();
    for page in 0.. {
        match cache.insert(Page(page), Arc::new(page), 1000, Place::Probation) {
            (value, Insert::Kept) => held.push(value),
            (value, outcome) => {
                assert_eq!((outcome, *value, page), (Insert::Refused, page, 20));
                break;
            }
        }
    }
    assert!(!cache.charge(1));
    // What would not fit an empty cache drives nothing out.
    let (_, outcome) = cache.insert(Page(99), Arc::new(99), cache.budget(), Place::Main);
    assert_eq!((outcome, cache.len()), (Insert::Refused, 20));
    let (value, outcome) = cache.insert(Page(3), Arc::new(99), 0, Place::Main);
    assert_eq!((*value, outcome), (99, Insert::Refused));
    drop(held);
    let (_, outcome) = cache.insert(Page(99), Arc::new(99), cache.budget(), Place::Main);
    assert_eq!((outcome, cache.len()), (Insert::Refused, 20));
    let (value, outcome) = cache.insert(Page(19), Arc::new(99), 1000, Place::Main);
    assert!(outcome == Insert::Kept || outcome == Insert::Present && *value == 19);
    assert!(cache.charge(1000));
}

#[test]
fn a_smaller_budget_makes_room_at_once_and_what_comes_back_is_told() {
    let cache = with_room_for(200);
    (0..200).for_each(|page| assert!(!ask(&cache, page)));
    let half = cache.budget() / 2;
    cache.set_budget(half);
    assert!(cache.charged() <= half && cache.len() >= 90, "{} left", cache.len());
    let gone: Vec<u64> = (0..200).filter(|page| !cache.contains(Page(*page))).collect();
    let returned = |page: u64| {
        cache.insert(Page(page), Arc::new(page), 1000, Place::Probation).1 == Insert::Returned
    };
    let came_back = gone.iter().rev().take(20).filter(|page| returned(**page)).count();
    assert!(came_back >= 5, "{came_back} of 20");
    assert!(!returned(10_000) && !returned(10_001));
    cache.set_budget(4 * half);
    for page in 0..200 {
        let _is_here_now = ask(&cache, page);
    }
    assert!((0..200).all(|page| cache.contains(Page(page))));
}
