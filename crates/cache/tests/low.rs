//! Values of low priority: what they may have follows from what misses cost.

use std::sync::Arc;

use cache::{Cache, Key, Place};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Page {
    no: u64,
    group: u64,
}

impl Key for Page {
    type Group = u64;

    fn hash(&self) -> u64 {
        let mixed = (self.no + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
        (mixed ^ mixed >> 31).wrapping_mul(0xD6E8_FEB8_6659_FD93)
    }

    fn group(&self) -> u64 {
        self.group
    }
}

const BYTES: u64 = 4096;

/// Numbers below a bound, the smaller the likelier (Zipf's law) or all alike.
struct Draws {
    state: u64,
    sums: Vec<f64>,
}

impl Draws {
    fn new(count: u64, exponent: f64) -> Draws {
        let mut sum = 0.0;
        let weigh = |rank: u64| {
            sum += ((rank + 1) as f64).powf(-exponent);
            sum
        };
        Draws { state: 7, sums: (0..count).map(weigh).collect() }
    }

    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.state ^ self.state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        let part = (mixed >> 11) as f64 / (1_u64 << 53) as f64;
        let wanted = part * self.sums.last().copied().unwrap_or(1.0);
        self.sums.partition_point(|sum| *sum < wanted) as u64
    }
}

/// What values of the faster device are to the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fast {
    Low,
    Equal,
    Bypassed,
}

/// Half of the pages are brought in `times[0]` nanoseconds, the others in `times[1]`.
#[derive(Clone, Copy)]
struct Plan {
    pages: u64,
    room: u64,
    exponent: f64,
    times: [u64; 2],
    fast: Fast,
}

impl Plan {
    /// Nanoseconds of misses for a look-up, and percent of the cache that pages of the faster device may have.
    fn cost(self) -> (f64, u64) {
        let cache = Cache::<Page, u64>::new(self.room * (Cache::<Page, u64>::cost(BYTES) + 15));
        let mut draws = Draws::new(self.pages, self.exponent);
        let lookups = self.pages * 60;
        let mut sum = 0;
        for step in 0..lookups {
            let no = draws.draw();
            let page = Page { no, group: no % 2 };
            if cache.get(page).is_some() {
                continue;
            }
            let is_fast = no.is_multiple_of(2);
            let ns = self.times[usize::from(!is_fast)];
            if step > lookups / 2 {
                sum += ns;
            }
            let place = match self.fast {
                Fast::Low if is_fast => Place::Low,
                Fast::Bypassed if is_fast && cache.is_nearly_full() => continue,
                _ => Place::Probation,
            };
            let _kept = cache.insert_brought(page, Arc::new(no), BYTES, place, ns);
        }
        (sum as f64 / (lookups - lookups / 2) as f64, 100 * cache.low().share / cache.budget())
    }
}

/// Of each kind of priority, what a look-up costs, and the share that was found.
fn costs(exponent: f64, times: [u64; 2], percent: u64) -> ([f64; 3], u64) {
    let pages = 4000;
    let of = |fast| Plan { pages, room: pages * percent / 100, exponent, times, fast }.cost();
    let ((low, share), (equal, _), (bypassed, _)) =
        (of(Fast::Low), of(Fast::Equal), of(Fast::Bypassed));
    ([low, equal, bypassed], share)
}

#[test]
fn where_all_are_read_alike_the_slower_device_has_the_cache() {
    for (percent, times) in [(8, [1000, 85_000]), (27, [1000, 85_000]), (27, [2000, 8000])] {
        let ([low, equal, _], share) = costs(0.0, times, percent);
        let (c, [fast, slow]) = (percent as f64 / 100.0, times.map(|ns| ns as f64));
        let best = (1.0 - c) * (fast + slow) / (fast + (1.0 - 2.0 * c) * slow);
        let gained = (equal / low - 1.0) / (best - 1.0);
        assert!(gained > 0.9 && share == 0, "{percent} {times:?}: {gained}, share {share}");
    }
}

#[test]
fn it_is_never_much_worse_than_no_priority_and_as_a_rule_better_than_none_kept() {
    for exponent in [0.6, 0.99, 1.2] {
        for (times, least) in [([1000, 1000], 0.95), ([2000, 8000], 1.02), ([1000, 85_000], 1.1)] {
            let ([low, equal, bypassed], share) = costs(exponent, times, 20);
            assert!(equal / low > least, "{exponent} {times:?}: {low} of {equal}, share {share}");
            let is_better = times[0] * 4 < times[1] || times[0] == times[1];
            assert!(!is_better || low < bypassed, "{exponent} {times:?}: {low} of {bypassed}");
        }
    }
}

#[test]
fn a_share_grows_where_misses_of_low_priority_are_dear() {
    let (_, dear) = costs(0.8, [85_000, 1000], 20);
    let (_, alike) = costs(0.8, [1000, 1000], 20);
    assert!(dear > 90 && (25..75).contains(&alike), "{dear} and {alike}");
}

#[test]
fn while_there_is_room_anyone_has_it() {
    let cost = Cache::<Page, u64>::cost(BYTES) + 40;
    let cache = Cache::<Page, u64>::new(2000 * cost);
    let insert = |no: u64, place| {
        let page = Page { no, group: no % 2 };
        cache.insert_brought(page, Arc::new(no), BYTES, place, 1000);
    };
    (0..1500).for_each(|no| insert(no, Place::Low));
    assert_eq!((cache.len(), cache.evictions()), (1500, 0));
    (10_000..11_800).for_each(|no| insert(no, Place::Probation));
    let usual = (10_000..11_800).filter(|no| cache.contains(Page { no: *no, group: no % 2 }));
    // In each shard by itself.
    assert!(usual.count() > 1700, "what is of low priority made room");
    assert!(cache.low().bytes <= 360 * cost && cache.low().bytes > 0);
    // Purges and charges take away what they take away.
    let before = cache.low().bytes;
    let gone = cache.purge(0);
    assert!(gone.values >= 900 && cache.low().bytes < before);
    assert!(cache.charge(1000 * cost));
    cache.purge(1);
    assert_eq!((cache.low().bytes, cache.charged()), (0, 1000 * cost));
    cache.discharge(1000 * cost);
    assert!(cache.is_empty() && cache.charged() == 0);
}
