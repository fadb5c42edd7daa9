//! A key for each zone, and which zones have the smallest: a tree whose nodes hold the least key below them.
//!
//! Sixteen children make a node's keys one cache line; a million zones are five levels.

use std::ops::Range;

const CHILDREN: usize = 16;

pub(crate) struct Least {
    /// Keys of zones first, then the levels above; the last has one node's children. Filled up with [`Least::NONE`].
    levels: Vec<Vec<u32>>,
}

impl Least {
    /// The key of a zone that is not to be found.
    pub const NONE: u32 = u32::MAX;

    /// No zone is to be found yet.
    pub fn new(zones: u32) -> Self {
        let mut levels = Vec::new();
        let mut nodes = zones as usize;
        loop {
            levels.push(vec![Self::NONE; nodes.next_multiple_of(CHILDREN)]);
            if nodes <= CHILDREN {
                return Self { levels };
            }
            nodes = nodes.div_ceil(CHILDREN);
        }
    }

    /// Gives `zones` their keys.
    pub fn update(&mut self, zones: Range<u32>, key: impl Fn(u32) -> u32) {
        let mut changed = zones.start as usize..zones.end as usize;
        for (slot, no) in self.levels[0][changed.clone()].iter_mut().zip(zones) {
            *slot = key(no);
        }
        for level in 1..self.levels.len() {
            let (below, above) = self.levels.split_at_mut(level);
            changed = changed.start / CHILDREN..changed.end.div_ceil(CHILDREN);
            let mut same = true;
            for node in changed.clone() {
                let children = &below[level - 1][node * CHILDREN..][..CHILDREN];
                let least = least_of(children);
                same &= above[0][node] == least;
                above[0][node] = least;
            }
            if same {
                return;
            }
        }
    }

    /// The smallest key.
    pub fn least(&self) -> u32 {
        least_of(&self.levels[self.levels.len() - 1])
    }

    /// The lowest zone among those with the smallest key.
    pub fn first(&self) -> Option<u32> {
        let least = self.least();
        (least != Self::NONE)
            .then(|| self.descend(|children| children.iter().position(|key| *key == least)))
    }

    /// The highest zone whose key is not above `most`.
    pub fn last_up_to(&self, most: u32) -> Option<u32> {
        let most = most.min(Self::NONE - 1);
        (self.least() <= most)
            .then(|| self.descend(|children| children.iter().rposition(|key| *key <= most)))
    }

    fn descend(&self, choose: impl Fn(&[u32]) -> Option<usize>) -> u32 {
        let down = self.levels.iter().rev();
        // A node has the key of one of its children, so each choice finds one.
        down.fold(0, |node, level| {
            let first = node * CHILDREN;
            first + choose(&level[first..first + CHILDREN]).unwrap_or(0)
        }) as u32
    }
}

fn least_of(keys: &[u32]) -> u32 {
    keys.iter().fold(Least::NONE, |least, key| least.min(*key))
}

#[cfg(test)]
mod tests {
    use base::random::Rng;

    use super::*;

    #[test]
    fn it_finds_what_a_scan_finds() {
        for zones in [1, 16, 17, 300, 5000] {
            let mut least = Least::new(zones);
            let mut plain = vec![Least::NONE; zones as usize];
            assert_eq!((least.first(), least.last_up_to(Least::NONE)), (None, None));
            let mut rng = Rng::new(u64::from(zones));
            for _ in 0..2000 {
                let no = rng.below(zones.into()) as u32;
                let end = (no + 1 + rng.below(40) as u32).min(zones);
                let key = rng.below(5) as u32;
                let key = if key == 4 { Least::NONE } else { key };
                least.update(no..end, |_| key);
                plain[no as usize..end as usize].fill(key);
                let smallest = plain.iter().copied().min().unwrap();
                assert_eq!(least.least(), smallest);
                let found = |at: Option<usize>| at.map(|at| at as u32);
                let first = plain.iter().position(|key| *key == smallest);
                let first = first.filter(|_| smallest != Least::NONE);
                assert_eq!(least.first(), found(first));
                for most in [0, 2, 3] {
                    let last = plain.iter().rposition(|key| *key <= most);
                    assert_eq!(least.last_up_to(most), found(last));
                }
            }
        }
    }
}
