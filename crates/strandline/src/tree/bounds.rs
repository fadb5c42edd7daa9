//! Bounds of tables: strings that enclose a table's keys, and are not longer than they need be.
//!
//! The manifest has two of them for each table, in memory and in every snapshot. A key of up to [`EXACT`] bytes is its own
//! bound. The bound of a longer one is a prefix that is long enough to separate the table from its neighbours; an upper bound
//! is raised in its last byte. No short key lies between such a bound and the key, so tables hardly ever seem to overlap that
//! do not.

use std::ops::Bound;

use base::bytes::common_prefix;

/// Bytes of a key that a bound keeps at least.
pub(crate) const EXACT: usize = 64;

/// A string that is not above `key` and not below `floor`, which is not above `key`.
pub(crate) fn lower(key: &[u8], floor: &[u8]) -> Vec<u8> {
    // The floor may be a prefix of the key; else they differ in the byte behind their common prefix.
    let needed = if key.starts_with(floor) { floor.len() } else { common_prefix(key, floor) + 1 };
    key[..needed.max(EXACT).min(key.len())].to_vec()
}

/// A string that is not below `key` and keeps to `ceiling`, as `key` does.
pub(crate) fn upper(key: &[u8], ceiling: Bound<&[u8]>) -> Vec<u8> {
    let shared = match ceiling {
        Bound::Unbounded => 0,
        Bound::Included(top) | Bound::Excluded(top) => common_prefix(key, top),
    };
    let keeps = |bound: &[u8]| match ceiling {
        Bound::Unbounded => true,
        Bound::Included(top) => bound <= top,
        Bound::Excluded(top) => bound < top,
    };
    // A byte of the common prefix must not be raised, or the bound would pass the ceiling. Any behind it may.
    let bound = (shared.max(EXACT - 1)..key.len().saturating_sub(1)).find_map(|at| {
        let raised = key[at].checked_add(1)?;
        let bound = [&key[..at], &[raised]].concat();
        keeps(&bound).then_some(bound)
    });
    bound.unwrap_or_else(|| key.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long(head: &str, tail: &str) -> Vec<u8> {
        [head.as_bytes(), &[b'm'; EXACT], tail.as_bytes(), &[b'z'; 1000]].concat()
    }

    #[test]
    fn bounds_enclose_keys_and_keep_apart_from_neighbours() {
        let keys = [
            long("a", "b"),
            long("a", "cc"),
            long("a", "cz"),
            long("a", "d"),
            long("b", "m"),
            long("b", "zzz"),
            [&[0xff; 200][..], b"a"].concat(),
            [0xff; 300].to_vec(),
        ];
        for pair in keys.windows(2) {
            let (last, next) = (&pair[0], &pair[1]);
            assert!(last < next);
            let begins = lower(next, &[last, &[0][..]].concat());
            let ends = upper(last, Bound::Excluded(&begins));
            assert!(*last <= ends && ends < begins && begins <= *next);
            if last[0] != 0xff {
                assert!(ends.len() <= EXACT + 4 && begins.len() <= EXACT + 4);
            }
        }
    }

    #[test]
    fn short_keys_are_their_own_bounds() {
        for key in [&b""[..], b"key", &[7; EXACT], &[0xff; EXACT]] {
            assert_eq!(lower(key, b""), key);
            assert_eq!(upper(key, Bound::Unbounded), key);
        }
    }

    #[test]
    fn a_bound_may_reach_what_limits_it_and_not_more() {
        let key = [7; 100].to_vec();
        assert_eq!(lower(&key, &key), key);
        assert_eq!(lower(&key, &key[..80]), key[..80]);
        assert_eq!(lower(&key, &[7, 6]), key[..EXACT]);
        assert_eq!(upper(&key, Bound::Included(&key)), key);
        let raised = [&[7; EXACT - 1][..], &[8]].concat();
        assert_eq!(upper(&key, Bound::Unbounded), raised);
        assert_eq!(upper(&key, Bound::Included(&raised)), raised);
        let further = [&[7; EXACT][..], &[8]].concat();
        assert_eq!(upper(&key, Bound::Excluded(&raised)), further);
        let longer = [7; 101].to_vec();
        assert_eq!(upper(&key, Bound::Excluded(&longer)), key, "nothing lies in between");
    }
}
