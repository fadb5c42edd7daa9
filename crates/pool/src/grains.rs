//! Which grains are in use, and which are to be used next. Of what is kept here a pool stores the wear only.
//!
//! The truth is one bit for each grain, in words of 64. A zone is 4, 8 or 16 grains, so it lies within one word. Beside
//! the bits stand answers to three questions, each kept up at every change and found in a few steps, however many
//! zones there are and however full they are:
//!
//! - which wholly free zone is the least worn: [`Least`];
//! - which broken zone has room for a short extent: a set of zones for each length of their longest run;
//! - where the highest run is that holds a long extent: [`Runs`].
//!
//! # What goes where
//!
//! A zone goes to the **lowest** of the least worn free zones, an extent to the **highest**. Zones count as equally
//! worn while they differ by less than [`EQUAL`] fillings. So zones gather at one end and extents at the other, and what
//! is free between them stays in one piece; as the zones that are used most grow worn, the place where they gather
//! moves on through the pool. Were the very least worn zone taken each time, free zones would lie scattered.
//!
//! A **short** extent, no longer than a zone, lies in a single zone that is broken already, if one has room: no whole
//! zone is broken for it. Only where extents come and go, that zone would be worn out before others are touched; so a
//! zone that is two classes above the least worn whole one **rests**, until that has caught up or the zone is whole again.
//! A **long** extent begins its search at the highest zone that is not worn above a level, which rises when nothing is
//! found. When all else fails, any run that is long enough will do: wear never makes an allocation fail.

mod least;
mod numbers;
mod runs;

use std::collections::BTreeSet;
use std::ops::Range;

use least::Least;
pub(crate) use numbers::Numbers;
use runs::Runs;

const WORD: u64 = 64;
/// Zones whose wear differs by less than so many fillings are as good as each other.
const EQUAL: u32 = 8;
/// Zones that go to rest, or come back, in one call: the rest do in the next, and no call takes long.
const LISTED_AT_ONCE: u32 = 64;

/// How a zone's bytes are used, apart from what its header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ZoneUse {
    /// No grain is in use.
    Free,
    /// Taken or claimed as a zone.
    Zone,
    /// Some grains belong to extents.
    Partial,
    /// All grains belong to extents.
    Extents,
}

/// What a change of grains does to the wear of their zones.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WearChange {
    Kept,
    Added,
    TakenBack,
}

/// What becomes of memory that is written often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    /// It wears, so that its zones are to be used evenly.
    Wears,
    /// It lasts, so that the lowest zones are used again and again, and others need no pages.
    Lasts,
}

/// Whether grains have an owner.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GrainState {
    Free,
    Taken,
}

/// Whether anything was written to grains that are given back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    Written,
    Unwritten,
}

impl GrainState {
    fn other(self) -> GrainState {
        match self {
            GrainState::Free => GrainState::Taken,
            GrainState::Taken => GrainState::Free,
        }
    }
}

pub(crate) struct Grains {
    /// Set bits are in use; those beyond the last grain are always set.
    used: Vec<u64>,
    /// One bit per zone: its grains are in use as a zone.
    zones_taken: Vec<u64>,
    medium: Medium,
    /// Grains granted in each zone, ever.
    wear: Vec<u32>,
    grains: u64,
    zones: u32,
    per_zone: u32,
    free: u64,
    free_zones: u32,
    /// Classes of the wholly free zones.
    whole: Least,
    /// Broken zones by their longest run of free grains; of those that rest, none.
    rooms: Vec<Numbers>,
    /// Broken zones that rest, the least worn first.
    resting: BTreeSet<(u32, u32)>,
    runs: Runs,
    /// Class up to which long extents take zones.
    long_class: u32,
}

impl Grains {
    /// All grains are free; each zone has the wear that is given.
    pub fn new(medium: Medium, wear: Vec<u32>, per_zone: u32) -> Self {
        debug_assert!([4, 8, 16].contains(&per_zone));
        let zones = wear.len() as u32;
        let grains = u64::from(zones) * u64::from(per_zone);
        let mut used = vec![0; grains.div_ceil(WORD) as usize];
        if let (Some(last), rest) = (used.last_mut(), grains % WORD)
            && rest > 0
        {
            *last = u64::MAX << rest;
        }
        let mut empty = Self {
            runs: Runs::new(&used),
            used,
            zones_taken: vec![0; (zones as usize).div_ceil(WORD as usize)],
            medium,
            wear,
            grains,
            zones,
            per_zone,
            free: grains,
            free_zones: zones,
            whole: Least::new(zones),
            rooms: (1..per_zone).map(|_| Numbers::new(zones)).collect(),
            resting: BTreeSet::new(),
            long_class: 0,
        };
        empty.list_whole(0..zones);
        empty
    }

    pub fn free(&self) -> u64 {
        self.free
    }

    pub fn free_zones(&self) -> u32 {
        self.free_zones
    }

    /// Grains granted in zone `no`, ever.
    pub fn wear(&self, no: u32) -> u32 {
        self.wear[no as usize]
    }

    /// Takes the lowest of the least worn zones that are wholly free. That it was granted is another matter.
    pub fn take_zone(&mut self) -> Option<u32> {
        let no = self.whole.first()?;
        self.claim_zone(no);
        Some(no)
    }

    /// Takes zone `no`, if all of it is free.
    pub fn claim_zone(&mut self, no: u32) -> bool {
        let free = no < self.zones && self.claim(self.zone_grains(no));
        if free {
            self.zones_taken[(no / 64) as usize] |= 1 << (no % 64);
        }
        free
    }

    /// Counts that zone `no`, which is taken, was granted.
    pub fn wear_zone(&mut self, no: u32) {
        debug_assert!(self.is_zone(no), "only what is free is listed by its wear");
        if self.medium == Medium::Lasts {
            return;
        }
        let wear = &mut self.wear[no as usize];
        *wear = wear.saturating_add(self.per_zone);
    }

    /// Frees zone `no`, if it is taken as a zone.
    pub fn release_zone(&mut self, no: u32) -> bool {
        let taken = no < self.zones && self.is_zone(no);
        if taken {
            self.zones_taken[(no / 64) as usize] &= !(1 << (no % 64));
            self.set(self.zone_grains(no), GrainState::Free, WearChange::Kept);
        }
        taken
    }

    /// Takes `count` grains in a row and counts them as granted; the first of them.
    pub fn take(&mut self, count: u64) -> Option<u64> {
        if count == 0 || count > self.free {
            return None;
        }
        let short = count <= u64::from(self.per_zone);
        let chosen = if short { self.place_short(count as u32) } else { self.place_long(count) };
        let first = chosen.or_else(|| self.place_anywhere(count))?;
        self.set(first..first + count, GrainState::Taken, WearChange::Added);
        Some(first)
    }

    /// Takes these grains, if they exist and are free.
    pub fn claim(&mut self, grains: Range<u64>) -> bool {
        let free = self.are_free(grains.clone());
        if free {
            self.set(grains, GrainState::Taken, WearChange::Kept);
        }
        free
    }

    /// Frees these grains, if all are in use and none of them as part of a zone. Those to which nothing was
    /// written count as never granted.
    pub fn release(&mut self, grains: Range<u64>, content: Content) -> bool {
        let wear = match content {
            Content::Written => WearChange::Kept,
            Content::Unwritten => WearChange::TakenBack,
        };
        let taken = grains.end <= self.grains
            && self.all(grains.clone(), GrainState::Taken)
            && self.zones_of(&grains).all(|no| !self.is_zone(no));
        if taken {
            self.set(grains, GrainState::Free, wear);
        }
        taken
    }

    /// The runs of free grains, in order.
    pub fn free_runs(&self) -> impl Iterator<Item = Range<u64>> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let in_use = |grain: u64| self.used[(grain / WORD) as usize] >> (grain % WORD) & 1 == 1;
            let start = (at..self.grains).find(|grain| !in_use(*grain))?;
            at = (start..self.grains).find(|grain| in_use(*grain)).unwrap_or(self.grains);
            Some(start..at)
        })
    }

    /// Whether all of these grains exist and are free.
    pub fn are_free(&self, grains: Range<u64>) -> bool {
        grains.end <= self.grains && self.all(grains, GrainState::Free)
    }

    pub fn zone_use(&self, no: u32) -> ZoneUse {
        match self.free_of(no) {
            _ if self.is_zone(no) => ZoneUse::Zone,
            0 => ZoneUse::Extents,
            free if free == self.all_of_zone() => ZoneUse::Free,
            _ => ZoneUse::Partial,
        }
    }

    /// Zones that hold some of `grains`.
    pub fn zones_of(&self, grains: &Range<u64>) -> Range<u32> {
        let per_zone = u64::from(self.per_zone);
        (grains.start / per_zone) as u32..grains.end.div_ceil(per_zone) as u32
    }

    /// A place in a single zone: one that is broken and has room, or else the highest of the least worn.
    fn place_short(&mut self, count: u32) -> Option<u64> {
        self.wake();
        let broken = self.roomy(count);
        let no = broken.or_else(|| self.whole.last_up_to(self.whole.least()))?;
        let free = self.free_of(no);
        // Where `count` free grains begin.
        let begins = (1..count).fold(free, |begins, more| begins & (free >> more));
        Some(self.grain_of(no) + u64::from(begins.ilog2()))
    }

    /// The highest broken zone among those whose longest run is the shortest that holds `count` grains.
    fn roomy(&mut self, count: u32) -> Option<u32> {
        for _ in 0..LISTED_AT_ONCE {
            let no = self.rooms[count as usize - 1..].iter().find_map(Numbers::last)?;
            if !self.is_tired(no) {
                return Some(no);
            }
            // Since it was listed, a zone less worn became free.
            self.unlist(no);
            self.list(no);
        }
        None
    }

    /// Lists zones that need rest no more.
    fn wake(&mut self) {
        // Without a whole zone nothing is broken for want of them.
        if self.whole.least() == Least::NONE {
            return;
        }
        for _ in 0..LISTED_AT_ONCE {
            let Some((_, no)) = self.resting.first().copied() else { return };
            if self.is_tired(no) {
                return;
            }
            self.unlist(no);
            self.list(no);
        }
    }

    /// The highest run that ends with a zone of the classes that are in use.
    fn place_long(&mut self, count: u64) -> Option<u64> {
        let no = self.whole.last_up_to(self.long_class)?;
        // The run goes on into a broken zone above, or each such extent would leave a gap.
        let end = self.grain_of(no + 1);
        let above = if no + 1 < self.zones { self.free_of(no + 1) } else { 0 };
        let broken = above != self.all_of_zone();
        let more = if broken { u64::from(above.trailing_ones()) } else { 0 };
        self.runs.highest(&self.used, count, end + more)
    }

    fn place_anywhere(&mut self, count: u64) -> Option<u64> {
        let first = self.runs.highest(&self.used, count, self.grains)?;
        if count > u64::from(self.per_zone) {
            let last = (first + count - 1) / u64::from(self.per_zone);
            self.long_class = self.long_class.max(self.class(last as u32));
        }
        Some(first)
    }

    fn is_zone(&self, no: u32) -> bool {
        self.zones_taken[(no / 64) as usize] >> (no % 64) & 1 == 1
    }

    fn grain_of(&self, zone: u32) -> u64 {
        u64::from(zone) * u64::from(self.per_zone)
    }

    fn zone_grains(&self, no: u32) -> Range<u64> {
        self.grain_of(no)..self.grain_of(no) + u64::from(self.per_zone)
    }

    fn all_of_zone(&self) -> u64 {
        span(0, u64::from(self.per_zone))
    }

    /// The free grains of zone `no`, as bits.
    fn free_of(&self, no: u32) -> u64 {
        free_of(&self.used, self.per_zone, no)
    }

    /// Zones of a class are equally worn.
    fn class(&self, no: u32) -> u32 {
        class(&self.wear, self.per_zone, no)
    }

    fn is_tired(&self, no: u32) -> bool {
        // Without a whole zone there is no choice, and the least class is beyond all others.
        self.class(no) > self.whole.least().saturating_add(1)
    }

    /// The longest run of free grains of zone `no`, if it is broken.
    fn room(&self, no: u32) -> Option<usize> {
        let free = self.free_of(no);
        (free != 0 && free != self.all_of_zone()).then(|| runs::longest(free) as usize)
    }

    fn unlist(&mut self, no: u32) {
        if let Some(room) = self.room(no) {
            self.rooms[room - 1].remove(no);
            if !self.resting.is_empty() {
                self.resting.remove(&(self.class(no), no));
            }
        }
    }

    fn list(&mut self, no: u32) {
        if let Some(room) = self.room(no) {
            if self.is_tired(no) {
                self.resting.insert((self.class(no), no));
            } else {
                self.rooms[room - 1].insert(no);
            }
        }
    }

    /// Brings grains that are all in the other state into this one, and keeps everything that is derived from them.
    fn set(&mut self, grains: Range<u64>, state: GrainState, wear: WearChange) {
        let zones = self.zones_of(&grains);
        // Zones between the first and the last change as a whole, and are not broken before or after.
        let (first, last) = (zones.start, zones.end - 1);
        self.unlist(first);
        self.unlist(last);
        let whole_before = self.whole_among(&zones, state.other());
        self.count(&grains, zones.clone(), wear);
        for (word, mask) in masks(grains.clone()) {
            debug_assert_eq!(self.used[word] & mask, bits(state.other(), mask));
            self.used[word] ^= mask;
        }
        let changed = grains.end - grains.start;
        self.free = match state {
            GrainState::Free => self.free + changed,
            GrainState::Taken => self.free - changed,
        };
        self.free_zones = self.free_zones + self.whole_among(&zones, state) - whole_before;
        let words = (grains.start / WORD) as usize..grains.end.div_ceil(WORD) as usize;
        self.runs.update(&self.used, words);
        self.list_whole(zones);
        self.list(first);
        self.list(last);
    }

    /// Wholly free zones among `zones`; all grains of those between the first and the last are in this state.
    fn whole_among(&self, zones: &Range<u32>, between: GrainState) -> u32 {
        let (first, last) = (zones.start, zones.end - 1);
        let edges = self.is_whole(first) as u32 + (last > first && self.is_whole(last)) as u32;
        match between {
            GrainState::Free => edges + (last - first).saturating_sub(1),
            GrainState::Taken => edges,
        }
    }

    fn is_whole(&self, no: u32) -> bool {
        self.free_of(no) == self.all_of_zone()
    }

    /// Counts `grains` of `zones` as granted, or takes that back.
    fn count(&mut self, grains: &Range<u64>, zones: Range<u32>, wear: WearChange) {
        if wear == WearChange::Kept || self.medium == Medium::Lasts {
            return;
        }
        for no in zones {
            let zone = self.zone_grains(no);
            let part = (zone.end.min(grains.end) - zone.start.max(grains.start)) as u32;
            let count = &mut self.wear[no as usize];
            *count = match wear {
                WearChange::TakenBack => count.saturating_sub(part),
                _ => count.saturating_add(part),
            };
        }
    }

    /// Brings the keys of `zones` up to date.
    fn list_whole(&mut self, zones: Range<u32>) {
        let Self { whole, used, wear, per_zone, .. } = self;
        let all = span(0, u64::from(*per_zone));
        whole.update(zones, |no| {
            let free = free_of(used, *per_zone, no) == all;
            if free { class(wear, *per_zone, no) } else { Least::NONE }
        });
    }

    fn all(&self, grains: Range<u64>, state: GrainState) -> bool {
        masks(grains).all(|(word, mask)| self.used[word] & mask == bits(state, mask))
    }
}

/// The bits of `mask` as they are when all their grains are in this state.
fn bits(state: GrainState, mask: u64) -> u64 {
    match state {
        GrainState::Free => 0,
        GrainState::Taken => mask,
    }
}

fn free_of(used: &[u64], per_zone: u32, no: u32) -> u64 {
    let first = u64::from(no) * u64::from(per_zone);
    !used[(first / WORD) as usize] >> (first % WORD) & span(0, u64::from(per_zone))
}

fn class(wear: &[u32], per_zone: u32, no: u32) -> u32 {
    wear[no as usize] / (EQUAL * per_zone)
}

/// The grains below `at` of one word, moved so that the highest is bit 63, and their number.
fn word_below(used: &[u64], at: u64) -> (u64, u64) {
    let last = (at - 1) % WORD;
    (used[((at - 1) / WORD) as usize] << (WORD - 1 - last), last + 1)
}

/// `count` set bits from bit `first` on; at least one.
fn span(first: u64, count: u64) -> u64 {
    (u64::MAX >> (WORD - count)) << first
}

/// The words that hold `grains`, with the bits they have in each.
fn masks(grains: Range<u64>) -> impl Iterator<Item = (usize, u64)> {
    let mut at = grains.start;
    std::iter::from_fn(move || {
        let count = (grains.end.checked_sub(at)?).min(WORD - at % WORD);
        if count == 0 {
            return None;
        }
        let item = ((at / WORD) as usize, span(at % WORD, count));
        at += count;
        Some(item)
    })
}
