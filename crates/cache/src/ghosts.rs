//! Keys that left lately, as fingerprints of 32 bits. Two keys may share one: then a new key is taken for an old one, which changes
//! an order and nothing else.

/// Fingerprints that are looked at for a key.
const WAYS: usize = 4;

#[derive(Clone, Copy, Default)]
struct Ghost {
    fingerprint: u32,
    /// Which departure it was; 0: none.
    departure: u32,
}

/// Fingerprints of keys, forgotten in the order in which they came, but for a few that go before their time.
#[derive(Default)]
pub(crate) struct Ghosts {
    /// As many as a power of two; none before the first key.
    sets: Vec<[Ghost; WAYS]>,
    departures: u32,
}

impl Ghosts {
    /// Bytes for each key that there is room for.
    pub(crate) const BYTES: usize = size_of::<Ghost>();

    /// Whether there is room for none.
    pub(crate) fn is_without_room(&self) -> bool {
        self.sets.is_empty()
    }

    /// Makes room for the fingerprints of `keys` keys, a power of two. It forgets what it has.
    pub(crate) fn resize(&mut self, keys: usize) {
        self.sets = vec![[Ghost::default(); WAYS]; (keys / WAYS).max(1)];
    }

    /// The key with this hash leaves.
    pub(crate) fn add(&mut self, hash: u64) {
        let departure = self.departures.wrapping_add(1).max(1);
        self.departures = departure;
        let Some(set) = self.set(hash) else { return };
        let age = |ghost: &Ghost| match ghost.departure {
            0 => u32::MAX,
            at => departure.wrapping_sub(at),
        };
        let Some(oldest) = set.iter_mut().max_by_key(|ghost| age(ghost)) else { return };
        *oldest = Ghost { fingerprint: fingerprint(hash), departure };
    }

    /// Whether the key with this hash is among the last `among` that left; it is forgotten by that.
    pub(crate) fn take(&mut self, hash: u64, among: usize) -> bool {
        self.find(hash, among).is_some_and(|ghost| std::mem::take(ghost).departure != 0)
    }

    /// The same; if not, it is added.
    pub(crate) fn offer(&mut self, hash: u64, among: usize) -> bool {
        let is_known = self.take(hash, among);
        if !is_known {
            self.add(hash);
        }
        is_known
    }

    /// As [`Self::take`], and it is not forgotten.
    pub(crate) fn has(&mut self, hash: u64, among: usize) -> bool {
        self.find(hash, among).is_some()
    }

    fn find(&mut self, hash: u64, among: usize) -> Option<&mut Ghost> {
        let now = self.departures;
        let is_it = |ghost: &&mut Ghost| {
            ghost.departure != 0
                && ghost.fingerprint == fingerprint(hash)
                && (now.wrapping_sub(ghost.departure) as usize) < among
        };
        self.set(hash)?.iter_mut().find(is_it)
    }

    fn set(&mut self, hash: u64) -> Option<&mut [Ghost; WAYS]> {
        let mask = self.sets.len().wrapping_sub(1);
        self.sets.get_mut(hash as usize & mask)
    }
}

/// Bits that neither choose the set nor the shard.
fn fingerprint(hash: u64) -> u32 {
    (hash >> 28) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spreads small numbers.
    fn hash(key: u64) -> u64 {
        key.wrapping_add(1)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(29)
            .wrapping_mul(0xD6E8_FEB8_6659_FD93)
    }

    #[test]
    fn what_left_lately_is_known_once() {
        let mut ghosts = Ghosts::default();
        assert!(!ghosts.take(hash(0), 100), "it has room for none");
        ghosts.add(hash(0));
        ghosts.resize(1024);
        (0..600).for_each(|key| ghosts.add(hash(key)));
        assert!(!(600..1200).any(|key| ghosts.take(hash(key), 512)), "never here");
        assert!(!(0..88).any(|key| ghosts.take(hash(key), 512)), "too long ago");
        let known = (88..600).filter(|key| ghosts.take(hash(*key), 512)).count();
        assert!(known > 500, "{known} of 512: full sets forget a few");
        assert!(!(0..600).any(|key| ghosts.take(hash(key), 512)), "taken");
    }
}
