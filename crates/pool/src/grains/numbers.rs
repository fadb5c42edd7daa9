//! A set of numbers below a bound, in order: a bit each, and above each word of bits one that says whether any is set.
//! All it does takes a step for each factor of 64 in the bound.

const WORD: usize = 64;

pub(crate) struct Numbers {
    /// The members first, then the levels above; the last has one word.
    levels: Vec<Vec<u64>>,
}

impl Numbers {
    pub fn new(bound: u32) -> Self {
        let mut levels = Vec::new();
        let mut words = bound as usize;
        loop {
            words = words.div_ceil(WORD).max(1);
            levels.push(vec![0; words]);
            if words == 1 {
                return Self { levels };
            }
        }
    }

    pub fn insert(&mut self, no: u32) {
        let mut at = no as usize;
        for level in &mut self.levels {
            let word = &mut level[at / WORD];
            let known_above = *word != 0;
            *word |= 1 << (at % WORD);
            if known_above {
                return;
            }
            at /= WORD;
        }
    }

    pub fn remove(&mut self, no: u32) {
        let mut at = no as usize;
        for level in &mut self.levels {
            let word = &mut level[at / WORD];
            *word &= !(1 << (at % WORD));
            if *word != 0 {
                return;
            }
            at /= WORD;
        }
    }

    pub fn contains(&self, no: u32) -> bool {
        self.levels[0][no as usize / WORD] >> (no as usize % WORD) & 1 == 1
    }

    pub fn is_empty(&self) -> bool {
        self.levels[self.levels.len() - 1][0] == 0
    }

    pub fn last(&self) -> Option<u32> {
        if self.is_empty() {
            return None;
        }
        let highest = |word: u64| WORD - 1 - word.leading_zeros() as usize;
        let down = self.levels.iter().rev();
        Some(down.fold(0, |at, level| at * WORD + highest(level[at])) as u32)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use base::random::Rng;

    use super::*;

    #[test]
    fn it_holds_what_a_plain_set_holds() {
        for bound in [1, 64, 65, 4096, 4097, 300_000] {
            let (mut numbers, mut plain) = (Numbers::new(bound), BTreeSet::new());
            let mut rng = Rng::new(u64::from(bound));
            for _ in 0..2000 {
                let no = rng.below(bound.into()) as u32;
                // Runs of removals empty it now and then.
                if rng.one_in(4) && plain.len() < 40 {
                    numbers.insert(no);
                    plain.insert(no);
                } else if let Some(no) = plain.range(no..).next().or(plain.first()).copied() {
                    assert!(numbers.contains(no));
                    numbers.remove(no);
                    plain.remove(&no);
                }
                assert_eq!(numbers.contains(no), plain.contains(&no));
                assert_eq!(numbers.last(), plain.last().copied());
                assert_eq!(numbers.is_empty(), plain.is_empty());
            }
        }
    }
}
