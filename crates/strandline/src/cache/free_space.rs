//! Which parts of a memory are free: the shortest that fits is taken, and what becomes free joins its neighbours.

use std::collections::{BTreeMap, BTreeSet};

/// The free parts of a memory. Places and lengths are in units of the caller.
pub(super) struct FreeSpace {
    /// Length by where a part begins.
    by_place: BTreeMap<u64, u64>,
    /// Length, and where it begins.
    by_len: BTreeSet<(u64, u64)>,
    free: u64,
}

impl FreeSpace {
    /// All of `len` units.
    pub fn new(len: u64) -> FreeSpace {
        let mut space = FreeSpace { by_place: BTreeMap::new(), by_len: BTreeSet::new(), free: 0 };
        space.give(0, len);
        space
    }

    /// Takes `len` units, which lie together; none if no part is as long.
    pub fn take(&mut self, len: u64) -> Option<u64> {
        let (found, at) = *self.by_len.range((len, 0)..).next()?;
        self.remove(at, found);
        if found > len {
            self.insert(at + len, found - len);
        }
        self.free -= len;
        Some(at)
    }

    /// Gives back what was taken at `at`.
    pub fn give(&mut self, at: u64, len: u64) {
        if len == 0 {
            return;
        }
        self.free += len;
        let (mut start, mut end) = (at, at + len);
        let before = self.by_place.range(..at).next_back().map(|(at, len)| (*at, *len));
        if let Some((other, len)) = before.filter(|(other, len)| other + len == at) {
            self.remove(other, len);
            start = other;
        }
        if let Some(len) = self.by_place.get(&end).copied() {
            self.remove(end, len);
            end += len;
        }
        self.insert(start, end - start);
    }

    /// Units of the longest free part.
    pub fn longest(&self) -> u64 {
        self.by_len.last().map_or(0, |(len, _)| *len)
    }

    /// Units that are free.
    pub fn free(&self) -> u64 {
        self.free
    }

    fn insert(&mut self, at: u64, len: u64) {
        self.by_place.insert(at, len);
        self.by_len.insert((len, at));
    }

    fn remove(&mut self, at: u64, len: u64) {
        self.by_place.remove(&at);
        self.by_len.remove(&(len, at));
    }
}

#[cfg(test)]
mod tests {
    use base::checksum::mix;

    use super::*;

    #[test]
    fn what_is_taken_overlaps_nothing_and_comes_back_whole() {
        const LEN: u64 = 1000;
        let mut space = FreeSpace::new(LEN);
        let mut owned = vec![false; LEN as usize];
        let mut held = Vec::new();
        let mut refused = 0;
        for step in 0..20_000_u64 {
            if mix(step, 1).is_multiple_of(3) && !held.is_empty() {
                let (at, len): (u64, u64) = held.swap_remove(mix(step, 2) as usize % held.len());
                owned[at as usize..(at + len) as usize].fill(false);
                space.give(at, len);
            } else {
                let len = 14 + mix(step, 3) % 5;
                match space.take(len) {
                    Some(at) => {
                        let part = &mut owned[at as usize..(at + len) as usize];
                        assert!(part.iter().all(|is_owned| !is_owned));
                        part.fill(true);
                        held.push((at, len));
                    }
                    None => refused += 1,
                }
            }
            let taken: u64 = held.iter().map(|(_, len)| len).sum();
            assert_eq!(space.free(), LEN - taken);
        }
        assert!(refused > 0 && held.len() > 10);
        for (at, len) in held.drain(..) {
            space.give(at, len);
        }
        assert_eq!((space.free(), space.take(LEN)), (LEN, Some(0)));
        assert_eq!(space.take(1), None);
    }
}
