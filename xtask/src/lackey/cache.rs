//! The cache that the model simulates, once more: `crates/pmem/src/model/tags.rs`.

use base::random::Rng;

const WAYS: usize = 8;

pub(super) struct Cache {
    sets: Vec<[Option<u64>; WAYS]>,
    random: Rng,
}

impl Cache {
    pub fn new(bytes: u64) -> Cache {
        let sets = (bytes as usize / super::LINE as usize / WAYS).max(1);
        Cache { sets: vec![[None; WAYS]; 1 << sets.ilog2()], random: Rng::new(1) }
    }

    /// Reads a line; tells whether it was held. From now on it is.
    pub fn read(&mut self, line: u64) -> bool {
        let at = (line ^ (line >> 16)) as usize & (self.sets.len() - 1);
        let set = &mut self.sets[at];
        if set.contains(&Some(line)) {
            return true;
        }
        let way = set.iter().position(Option::is_none).unwrap_or_else(|| self.random.index(WAYS));
        set[way] = Some(line);
        false
    }
}
