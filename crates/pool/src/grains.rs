//! Which grains are in use: one bit each, in words of 64, never stored. A zone is 4, 8 or 16 grains, so
//! it lies within one word.
//!
//! Searches begin at hints, which make the usual call touch a few words: below `zone_hint` no zone
//! is wholly free, and at or above `run_hints[k]` no run of `size(k)` free grains begins. The second
//! kind never rises with k, since a long run holds shorter ones.

use std::ops::Range;

const WORD: u64 = 64;
/// Up to this many grains each length has a hint of its own; beyond, each power of two has one.
const EXACT: u64 = 64;
const HINTS: usize = 96;
/// How far around released grains a run is followed, in words each way.
const FOLLOW: u64 = 16;

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

pub(crate) struct Grains {
    /// Set bits are in use; those beyond the last grain are always set.
    used: Vec<u64>,
    /// One bit per zone: its grains are in use as a zone.
    zones_taken: Vec<u64>,
    grains: u64,
    zones: u32,
    per_zone: u32,
    free: u64,
    free_zones: u32,
    zone_hint: u32,
    run_hints: [u64; HINTS],
}

impl Grains {
    pub fn new(zones: u32, per_zone: u32) -> Self {
        debug_assert!([4, 8, 16].contains(&per_zone));
        let grains = u64::from(zones) * u64::from(per_zone);
        let mut used = vec![0; grains.div_ceil(WORD) as usize];
        if let (Some(last), rest) = (used.last_mut(), grains % WORD)
            && rest > 0
        {
            *last = u64::MAX << rest;
        }
        Self {
            used,
            zones_taken: vec![0; (zones as usize).div_ceil(WORD as usize)],
            grains,
            zones,
            per_zone,
            free: grains,
            free_zones: zones,
            zone_hint: 0,
            run_hints: [grains; HINTS],
        }
    }

    pub fn free(&self) -> u64 {
        self.free
    }

    pub fn free_zones(&self) -> u32 {
        self.free_zones
    }

    /// Takes the lowest zone that is wholly free.
    pub fn take_zone(&mut self) -> Option<u32> {
        if self.free_zones == 0 {
            return None;
        }
        let first = self.grain_of(self.zone_hint) / WORD;
        let (word, starts) = (first as usize..self.used.len())
            .map(|word| (word, self.free_zone_starts(word)))
            .find(|(_, starts)| *starts != 0)?;
        let grain = word as u64 * WORD + u64::from(starts.trailing_zeros());
        let no = (grain / u64::from(self.per_zone)) as u32;
        self.claim_zone(no);
        self.zone_hint = no + 1;
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

    /// Frees zone `no`, if it is taken as a zone.
    pub fn release_zone(&mut self, no: u32) -> bool {
        let taken = self.zone_use(no) == ZoneUse::Zone;
        if taken {
            self.zones_taken[(no / 64) as usize] &= !(1 << (no % 64));
            self.set(self.zone_grains(no), false);
        }
        taken
    }

    /// Takes the highest run of `count` free grains; its first grain.
    pub fn take(&mut self, count: u64) -> Option<u64> {
        if count == 0 || count > self.free {
            return None;
        }
        let found = self.highest_run(count, self.run_hints[hint_at_most(count)]);
        // None so long, nor longer, begins above.
        let above = found.unwrap_or(0);
        for hint in self.run_hints[hint_at_least(count)..].iter_mut() {
            if *hint <= above {
                break;
            }
            *hint = above;
        }
        let first = found?;
        self.set(first..first + count, true);
        Some(first)
    }

    /// Takes these grains, if they exist and are free.
    pub fn claim(&mut self, grains: Range<u64>) -> bool {
        let free = grains.end <= self.grains && self.all(grains.clone(), false);
        if free {
            self.set(grains, true);
        }
        free
    }

    /// Frees these grains, if all are in use and none of them as part of a zone.
    pub fn release(&mut self, grains: Range<u64>) -> bool {
        let taken = grains.end <= self.grains
            && self.all(grains.clone(), true)
            && self.zones_of(&grains).all(|no| !self.is_zone(no));
        if taken {
            self.set(grains, false);
        }
        taken
    }

    pub fn zone_use(&self, no: u32) -> ZoneUse {
        let grains = self.zone_grains(no);
        let mask = span(grains.start % WORD, u64::from(self.per_zone));
        match self.used[(grains.start / WORD) as usize] & mask {
            _ if self.is_zone(no) => ZoneUse::Zone,
            0 => ZoneUse::Free,
            all if all == mask => ZoneUse::Extents,
            _ => ZoneUse::Partial,
        }
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

    fn zones_of(&self, grains: &Range<u64>) -> Range<u32> {
        let per_zone = u64::from(self.per_zone);
        (grains.start / per_zone) as u32..grains.end.div_ceil(per_zone) as u32
    }

    /// The first grain of every wholly free zone of a word, as bits.
    fn free_zone_starts(&self, word: usize) -> u64 {
        let mut in_use = self.used[word];
        let mut shift = self.per_zone / 2;
        while shift > 0 {
            in_use |= in_use >> shift;
            shift /= 2;
        }
        let starts = match self.per_zone {
            4 => 0x1111_1111_1111_1111,
            8 => 0x0101_0101_0101_0101,
            _ => 0x0001_0001_0001_0001,
        };
        !in_use & starts
    }

    /// Flips grains, all of which are in the other state, and keeps counters and hints.
    fn set(&mut self, grains: Range<u64>, in_use: bool) {
        let freed = (!in_use).then(|| grains.clone());
        for (word, mask) in masks(grains) {
            let zones_before = self.free_zone_starts(word).count_ones();
            debug_assert_eq!(self.used[word] & mask, if in_use { 0 } else { mask });
            self.used[word] ^= mask;
            let zones_after = self.free_zone_starts(word).count_ones();
            self.free_zones = self.free_zones + zones_after - zones_before;
            let changed = u64::from(mask.count_ones());
            self.free = if in_use { self.free - changed } else { self.free + changed };
        }
        if let Some(freed) = freed {
            self.raise_hints(&freed);
        }
    }

    /// Every run that did not exist before holds some of these grains.
    fn raise_hints(&mut self, freed: &Range<u64>) {
        self.zone_hint = self.zone_hint.min(self.zones_of(freed).start);
        let (below, above) = (self.free_below(freed.start), self.free_above(freed.end));
        let far = FOLLOW * WORD;
        let run_start = if below < far { freed.start - below } else { 0 };
        let run_end = if above < far { freed.end + above } else { self.grains };
        for (hint, size) in self.run_hints.iter_mut().zip((0..).map(size)) {
            if size > run_end - run_start {
                break;
            }
            *hint = (*hint).max(freed.end.min(run_end - size + 1));
        }
    }

    /// Free grains that end at `at`, as far as they are followed.
    fn free_below(&self, at: u64) -> u64 {
        let mut free = 0;
        while free < at && free < FOLLOW * WORD {
            let (bits, rest) = self.word_below(at - free);
            let more = u64::from(bits.leading_zeros()).min(rest);
            free += more;
            if more < rest {
                break;
            }
        }
        free
    }

    /// Free grains that begin at `at`, as far as they are followed.
    fn free_above(&self, at: u64) -> u64 {
        let mut free = 0;
        while at + free < self.grains && free < FOLLOW * WORD {
            let first = (at + free) % WORD;
            let bits = self.used[((at + free) / WORD) as usize] >> first;
            let more = u64::from(bits.trailing_zeros()).min(WORD - first);
            free += more;
            if more < WORD - first {
                break;
            }
        }
        free
    }

    /// The grains below `at` of one word, moved so that the highest is bit 63, and their number.
    fn word_below(&self, at: u64) -> (u64, u64) {
        let last = (at - 1) % WORD;
        (self.used[((at - 1) / WORD) as usize] << (WORD - 1 - last), last + 1)
    }

    fn all(&self, grains: Range<u64>, in_use: bool) -> bool {
        masks(grains).all(|(word, mask)| self.used[word] & mask == if in_use { mask } else { 0 })
    }

    /// The highest start below `limit` of `count` free grains: from high to low, a run at a time.
    fn highest_run(&self, count: u64, limit: u64) -> Option<u64> {
        let mut at = (limit.checked_sub(1)? + count).min(self.grains);
        let mut run_end = at;
        while at > 0 {
            let (bits, rest) = self.word_below(at);
            let free = u64::from(bits.leading_zeros()).min(rest);
            at -= free;
            if run_end - at >= count {
                return Some(run_end - count);
            }
            if free < rest {
                at -= u64::from((bits << free).leading_ones());
                run_end = at;
            }
        }
        None
    }
}

/// The run length that hint `k` is about.
fn size(k: usize) -> u64 {
    (k as u64 + 1).min(EXACT) << (k as u64 + 1).saturating_sub(EXACT)
}

/// The hint about the longest run that is not longer than `count`.
fn hint_at_most(count: u64) -> usize {
    let exact = count.min(EXACT) - 1;
    (exact + u64::from((count / EXACT).max(1).ilog2())) as usize
}

/// The hint about the shortest run that is not shorter than `count`.
fn hint_at_least(count: u64) -> usize {
    let hint = hint_at_most(count);
    if size(hint) < count { hint + 1 } else { hint }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_about_the_lengths_next_to_a_count() {
        let sizes: Vec<u64> = (0..HINTS).map(size).collect();
        assert_eq!(sizes[62..66], [63, 64, 128, 256]);
        for count in (1..1000).chain([1 << 36, (1 << 36) - 1]) {
            let (most, least) = (hint_at_most(count), hint_at_least(count));
            assert_eq!(most, sizes.partition_point(|size| *size <= count) - 1, "{count}");
            assert_eq!(least, sizes.partition_point(|size| *size < count), "{count}");
        }
    }
}
