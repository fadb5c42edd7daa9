//! What the cache is compared with: rules of replacement over numbers alone, and a library.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use quick_cache::UnitWeighter;
use quick_cache::sync::DefaultLifecycle;

/// A cache for so many values.
pub(super) trait Policy {
    /// Whether the value was there; now it is.
    fn ask(&mut self, number: u64) -> bool;
}

/// A hand goes round: what has not been used since it came by goes, in up to three rounds.
pub(super) struct Clock {
    room: usize,
    slots: Vec<(u64, u8)>,
    places: HashMap<u64, usize>,
    hand: usize,
}

impl Clock {
    pub(super) fn with_room_for(values: u64) -> Clock {
        let room = values.max(1) as usize;
        Clock { room, slots: Vec::new(), places: HashMap::new(), hand: 0 }
    }
}

impl Policy for Clock {
    fn ask(&mut self, number: u64) -> bool {
        if let Some(place) = self.places.get(&number) {
            let uses = &mut self.slots[*place].1;
            *uses = (*uses + 1).min(3);
            return true;
        }
        if self.slots.len() < self.room {
            self.places.insert(number, self.slots.len());
            self.slots.push((number, 1));
            return false;
        }
        while self.slots[self.hand].1 > 0 {
            self.slots[self.hand].1 -= 1;
            self.hand = (self.hand + 1) % self.room;
        }
        self.places.remove(&self.slots[self.hand].0);
        self.places.insert(number, self.hand);
        self.slots[self.hand] = (number, 1);
        self.hand = (self.hand + 1) % self.room;
        false
    }
}

/// What was used longest ago goes.
pub(super) struct Lru {
    room: usize,
    used: HashMap<u64, u64>,
    /// Uses in their order; only the last one of a value counts.
    order: VecDeque<(u64, u64)>,
    now: u64,
}

impl Lru {
    pub(super) fn with_room_for(values: u64) -> Lru {
        let room = values.max(1) as usize;
        Lru { room, used: HashMap::new(), order: VecDeque::new(), now: 0 }
    }
}

impl Policy for Lru {
    fn ask(&mut self, number: u64) -> bool {
        self.now += 1;
        let was_there = self.used.insert(number, self.now).is_some();
        self.order.push_back((number, self.now));
        while self.used.len() > self.room {
            let Some((oldest, at)) = self.order.pop_front() else { break };
            if self.used.get(&oldest) == Some(&at) {
                self.used.remove(&oldest);
            }
        }
        was_there
    }
}

/// A hand goes from old to new and back to old: what was not used since goes, what was stays in its place (Zhang et al., NSDI 2024).
pub(super) struct Sieve {
    room: usize,
    used: HashMap<u64, bool>,
    /// Before the hand, the oldest first; and what it has passed.
    ahead: VecDeque<u64>,
    passed: VecDeque<u64>,
}

impl Sieve {
    pub(super) fn with_room_for(values: u64) -> Sieve {
        let room = values.max(1) as usize;
        Sieve { room, used: HashMap::new(), ahead: VecDeque::new(), passed: VecDeque::new() }
    }
}

impl Policy for Sieve {
    fn ask(&mut self, number: u64) -> bool {
        if let Some(used) = self.used.get_mut(&number) {
            *used = true;
            return true;
        }
        while self.used.len() >= self.room {
            match self.ahead.pop_front() {
                None => std::mem::swap(&mut self.ahead, &mut self.passed),
                Some(next) => match self.used.get_mut(&next) {
                    Some(used) if *used => {
                        *used = false;
                        self.passed.push_back(next);
                    }
                    _ => _ = self.used.remove(&next),
                },
            }
        }
        self.used.insert(number, false);
        self.ahead.push_back(number);
        false
    }
}

/// The library `quick_cache`: a clock with a list of what left, as CLOCK-Pro and S3-FIFO have.
pub(super) struct Library(pub(super) LibraryCache);

type LibraryCache = quick_cache::sync::Cache<u64, Arc<u64>, UnitWeighter, Hash>;
type Hash = BuildHasherDefault<Mixed>;

/// The hash that ours is asked with.
#[derive(Default)]
pub(super) struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = base::checksum::mix(number, self.0);
    }
}

impl Library {
    pub(super) fn with_room_for(values: u64) -> Library {
        let room = values.max(1);
        let lifecycle = DefaultLifecycle::default();
        Library(LibraryCache::with(room as usize, room, UnitWeighter, Hash::default(), lifecycle))
    }
}

impl Policy for Library {
    fn ask(&mut self, number: u64) -> bool {
        let was_there = self.0.get(&number).is_some();
        if !was_there {
            self.0.insert(number, Arc::new(number));
        }
        was_there
    }
}
