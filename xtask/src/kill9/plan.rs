//! What writers do: commit `n` of a lane is a function of the seed, the lane and `n` alone, so the parent knows
//! every byte of what its child was about to write.
//!
//! A lane is one writer thread's own sequence of commits. Most keys belong to one lane, and are therefore
//! changed in a known order; a few are shared by all.

use testkit::{Rng, stamp, stamped};

/// Keyspaces that are written.
pub const SPACES: [&str; 2] = ["default", "other"];
/// Own keys of a lane in each keyspace, whose values fit records.
const SHORT_KEYS: u64 = 300;
/// Own keys of a lane in each keyspace, whose values mostly need extents.
const LONG_KEYS: u64 = 8;
/// Own keys of a lane in each keyspace.
pub const OWN_KEYS: u64 = SHORT_KEYS + LONG_KEYS;
/// Keys in each keyspace that every lane writes.
pub const SHARED_KEYS: u64 = 24;
/// Places of a commit, in which versions count. The last is that of a change which is a commit of its own.
const PLACES: u64 = 16;
const ALONE: usize = PLACES as usize - 1;
/// A value of this length needs an extent in a store of [`ZONE_BYTES`].
const LONG_BYTES: u64 = ZONE_BYTES / 8 + 1;
/// Bytes per zone of the store.
pub const ZONE_BYTES: u64 = 64 << 10;

/// A key that may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub space: usize,
    /// The only lane that writes it; `None` if all do.
    pub lane: Option<usize>,
    pub number: u64,
}

impl Key {
    /// Its bytes. Lengths vary, and many share long prefixes.
    pub fn bytes(&self) -> Vec<u8> {
        let filler = "/".repeat((self.number % 5 * 7) as usize);
        match self.lane {
            Some(lane) => format!("lane{lane}{filler}{:04}", self.number),
            None => format!("shared{filler}{:04}", self.number),
        }
        .into_bytes()
    }

    /// How values name it.
    fn id(&self) -> u64 {
        let lane = self.lane.map_or(0, |lane| lane as u64 + 1);
        lane << 32 | (self.space as u64) << 24 | self.number
    }

    fn is_long(&self) -> bool {
        self.lane.is_some() && self.number >= SHORT_KEYS
    }
}

/// The change, and the commit of a lane, that wrote a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(u64);

impl Version {
    /// The lane's commit.
    pub fn commit(self) -> u64 {
        self.0 / PLACES
    }

    fn is_alone(self) -> bool {
        self.0 % PLACES == ALONE as u64
    }
}

/// A change of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    pub key: Key,
    /// `None` deletes.
    pub put: Option<Version>,
}

/// The whole workload.
#[derive(Clone, Copy, Debug)]
pub struct KillPlan {
    pub seed: u64,
    pub lanes: usize,
}

impl KillPlan {
    fn rng(&self, lane: usize, number: u64) -> Rng {
        let mut rng = Rng::new(self.seed ^ (lane as u64) << 56 ^ number.wrapping_mul(0x9E37_79B9));
        // Neighbouring states give related first numbers.
        rng.next();
        rng
    }

    /// The changes of commit `number` of `lane`, in order. A commit of several begins with a put of an own
    /// key, so that whether it is there can always be told.
    pub fn commit(&self, lane: usize, number: u64) -> Vec<Change> {
        let mut rng = self.rng(lane, number);
        let mut changes = Vec::new();
        let version = |place: usize| Some(Version(number * PLACES + place as u64));
        let own = |rng: &mut Rng, from: u64, to: u64| Key {
            space: rng.below(SPACES.len() as u64) as usize,
            lane: Some(lane),
            number: from + rng.below(to - from),
        };
        match rng.weighted(&[10, 4, 7, 1]) {
            0 => changes.push(Change { key: own(&mut rng, 0, SHORT_KEYS), put: version(ALONE) }),
            1 => changes.push(Change { key: own(&mut rng, 0, OWN_KEYS), put: None }),
            2 => {
                changes.push(Change { key: own(&mut rng, 0, SHORT_KEYS), put: version(0) });
                for place in 1..2 + rng.below(PLACES - 2) as usize {
                    let key = if rng.chance(1, 4) {
                        let space = rng.below(SPACES.len() as u64) as usize;
                        Key { space, lane: None, number: rng.below(SHARED_KEYS) }
                    } else {
                        let to = if rng.chance(1, 20) { OWN_KEYS } else { SHORT_KEYS };
                        own(&mut rng, 0, to)
                    };
                    let put = if rng.chance(1, 5) { None } else { version(place) };
                    // The first change has to stay the last word on its key.
                    if key != changes[0].key {
                        changes.push(Change { key, put });
                    }
                }
            }
            _ => changes
                .push(Change { key: own(&mut rng, SHORT_KEYS, OWN_KEYS), put: version(ALONE) }),
        }
        changes
    }

    /// The value that `version` of `lane` gave to `key`.
    pub fn value(&self, lane: usize, key: &Key, version: Version) -> Vec<u8> {
        let mut rng = self.rng(lane, version.0 ^ key.id() << 20);
        let (from, to) = match rng.weighted(&[12, 6, 1]) {
            _ if key.is_long() && rng.chance(7, 8) => (LONG_BYTES, 5 * LONG_BYTES),
            0 => (24, 120),
            1 => (120, 900),
            _ if version.is_alone() => (900, LONG_BYTES),
            _ => (24, 900),
        };
        stamp(lane as u64, key.id(), version.0, (from + rng.below(to - from)) as usize)
    }

    /// Who wrote `value` under `key`; `None` if no lane did.
    pub fn writer(&self, key: &Key, value: &[u8]) -> Option<(usize, Version)> {
        let (lane, id, version) = stamped(value)?;
        let (lane, version) = (usize::try_from(lane).ok()?, Version(version));
        let ours = id == key.id() && key.lane.is_none_or(|owner| owner == lane);
        let known = ours && lane < self.lanes;
        (known && self.value(lane, key, version) == value).then_some((lane, version))
    }

    /// Every key that may ever be written.
    pub fn keys(&self) -> impl Iterator<Item = Key> + use<> {
        let lanes = self.lanes;
        (0..SPACES.len()).flat_map(move |space| {
            let own = (0..lanes).flat_map(move |lane| {
                (0..OWN_KEYS).map(move |number| Key { space, lane: Some(lane), number })
            });
            own.chain((0..SHARED_KEYS).map(move |number| Key { space, lane: None, number }))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_and_values_name_their_writers() {
        let plan = KillPlan { seed: 3, lanes: 3 };
        let mut bytes: Vec<_> = plan.keys().map(|key| (key.space, key.bytes())).collect();
        let count = bytes.len();
        bytes.sort();
        bytes.dedup();
        assert_eq!(bytes.len(), count);
        let mut long = 0;
        for number in 0..500 {
            for change in plan.commit(1, number) {
                let Some(version) = change.put else { continue };
                let mut value = plan.value(1, &change.key, version);
                long += u64::from(value.len() as u64 >= LONG_BYTES);
                assert_eq!(plan.writer(&change.key, &value), Some((1, version)));
                if let Some(last) = value.last_mut() {
                    *last ^= 1;
                }
                assert_eq!(plan.writer(&change.key, &value), None);
            }
        }
        assert!(long > 10, "{long}");
    }

    #[test]
    fn batches_fit_a_commit() {
        let plan = KillPlan { seed: 4, lanes: 1 };
        for number in 0..2000 {
            let commit = plan.commit(0, number);
            assert!(commit.len() < PLACES as usize);
            let record = |change: &Change| {
                let put = |version| plan.value(0, &change.key, version).len() as u64;
                change.put.map_or(0, put)
            };
            let short = commit.iter().map(record).filter(|len| *len < LONG_BYTES);
            assert!(short.map(|len| len + 192).sum::<u64>() <= ZONE_BYTES / 4);
        }
    }
}
