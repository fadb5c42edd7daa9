//! Keys that are traced: all, or one of so many by a hash of the key.
//!
//! All operations on a key are in a sample, or none. So how often other keys were used between two uses of one can be told from
//! it (Waldspurger, Park, Garthwaite and Ahmad, "Efficient MRC Construction with SHARDS", FAST 2015). Samples by one hash are nested:
//! one of 100 keys is also one of the 10 times as many that one of 10 takes.

use base::checksum::sum64;

/// Other than those of filters and memtables, so that a sample is no part of a filter.
const SEED: u64 = u64::from_le_bytes(*b"tracekey");

/// One of so many keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The greatest hash that is taken.
    threshold: u64,
}

impl Sample {
    /// All keys.
    pub const ALL: Sample = Sample { threshold: u64::MAX };

    /// One of `count` keys; all for 0 and 1.
    pub fn one_of(count: u32) -> Sample {
        Sample { threshold: u64::MAX / u64::from(count.max(1)) }
    }

    /// Those whose hash is at most this.
    pub fn up_to(threshold: u64) -> Sample {
        Sample { threshold }
    }

    /// The greatest hash that is taken; never 0 for a sample of [`Sample::one_of`].
    pub fn threshold(self) -> u64 {
        self.threshold
    }

    /// The share of keys that it takes.
    pub fn share(self) -> f64 {
        (self.threshold as f64 + 1.0) / (u64::MAX as f64 + 1.0)
    }

    /// Whether a key is in it.
    pub fn takes(self, keyspace: u32, key: &[u8]) -> bool {
        Sample::hash(keyspace, key) <= self.threshold
    }

    /// What decides whether a key is taken.
    pub fn hash(keyspace: u32, key: &[u8]) -> u64 {
        sum64(SEED ^ u64::from(keyspace), key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_their_share_of_keys_and_are_nested() {
        let (all, tenth, hundredth) = (Sample::one_of(1), Sample::one_of(10), Sample::one_of(100));
        assert_eq!((all, Sample::one_of(0)), (Sample::ALL, Sample::ALL));
        assert!((tenth.share() - 0.1).abs() < 1e-9 && (all.share() - 1.0).abs() < 1e-9);
        let keys: Vec<[u8; 4]> = (0..100_000_u32).map(u32::to_be_bytes).collect();
        let count = |sample: Sample| keys.iter().filter(|key| sample.takes(1, &key[..])).count();
        assert!(count(tenth).abs_diff(10_000) < 500 && count(hundredth).abs_diff(1_000) < 150);
        assert_eq!(count(all), keys.len());
        for key in &keys {
            assert!(tenth.takes(1, key) || !hundredth.takes(1, key));
        }
    }
}
