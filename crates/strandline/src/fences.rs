//! Fences: for each index block the shortest string that is greater than every smaller key before the block and
//! not greater than its first (a key's versions may fill several blocks). A static search tree of 64-way pages over them stands in DRAM.

use std::cmp::Ordering;

use base::bytes::{common_prefix, head8};

const PAGE: usize = 64;

/// A place beside a key, among keys in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Before the key and all that equal it.
    Before,
    /// Behind the key and all that equal it.
    Behind,
}

/// Search structure over the separators of a run's blocks.
pub(crate) struct Fences {
    bytes: Vec<u8>,
    /// Start of each separator in `bytes`, and the end of the last.
    starts: Vec<u64>,
    /// From the separators themselves up to one page.
    levels: Vec<FenceLevel>,
}

struct FenceLevel {
    /// Eight bytes of each separator behind its page's prefix.
    heads: Vec<u64>,
    /// Common prefix length of the separators of each page.
    prefixes: Vec<u32>,
}

/// Collects separators in order.
#[derive(Default)]
pub(crate) struct FencesBuilder {
    bytes: Vec<u8>,
    starts: Vec<u64>,
}

impl FencesBuilder {
    /// DRAM held.
    pub(crate) fn dram_bytes(&self) -> usize {
        self.bytes.capacity() + self.starts.capacity() * 8
    }

    /// Adds the separator between `last`, the last key of the block before, and `first`, the first key of
    /// the next one. The first block's is empty.
    pub(crate) fn push(&mut self, last: Option<&[u8]>, first: &[u8]) {
        self.starts.push(self.bytes.len() as u64);
        if let Some(last) = last {
            let shared = common_prefix(last, first);
            self.bytes.extend_from_slice(&first[..(shared + 1).min(first.len())]);
        }
    }

    /// Adds a separator read back from a run.
    pub(crate) fn push_raw(&mut self, separator: &[u8]) {
        self.starts.push(self.bytes.len() as u64);
        self.bytes.extend_from_slice(separator);
    }

    pub(crate) fn finish(mut self) -> Fences {
        self.starts.push(self.bytes.len() as u64);
        self.bytes.shrink_to_fit();
        let mut fences = Fences { bytes: self.bytes, starts: self.starts, levels: Vec::new() };
        let mut step = 1;
        loop {
            let level = fences.level(step);
            let pages = level.prefixes.len();
            fences.levels.push(level);
            if pages <= 1 {
                return fences;
            }
            step *= PAGE;
        }
    }
}

impl Fences {
    fn level(&self, step: usize) -> FenceLevel {
        let members: Vec<usize> = (0..self.len()).step_by(step).collect();
        let mut level =
            FenceLevel { heads: Vec::with_capacity(members.len()), prefixes: Vec::new() };
        for page in members.chunks(PAGE) {
            let prefix =
                common_prefix(self.separator(page[0]), self.separator(page[page.len() - 1]));
            level.prefixes.push(prefix as u32);
            level.heads.extend(page.iter().map(|i| head8(&self.separator(*i)[prefix..])));
        }
        level
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    pub(crate) fn separator(&self, i: usize) -> &[u8] {
        &self.bytes[self.starts[i] as usize..self.starts[i + 1] as usize]
    }

    /// DRAM held.
    pub(crate) fn dram_bytes(&self) -> usize {
        let levels: usize =
            self.levels.iter().map(|l| l.heads.capacity() * 8 + l.prefixes.capacity() * 4).sum();
        self.bytes.capacity() + self.starts.capacity() * 8 + levels
    }

    /// Number of separators before this side of `key`.
    #[inline]
    pub(crate) fn rank(&self, key: &[u8], side: Side) -> usize {
        if self.len() == 0 {
            return 0;
        }
        let mut page = 0;
        let mut step = PAGE.pow(self.levels.len() as u32 - 1);
        for level in self.levels.iter().rev() {
            let count = self.rank_in_page(level, page, step, key, side);
            if step == 1 {
                return page * PAGE + count;
            }
            if count == 0 {
                return 0;
            }
            page = page * PAGE + count - 1;
            step /= PAGE;
        }
        0
    }

    #[inline]
    fn rank_in_page(
        &self,
        level: &FenceLevel,
        page: usize,
        step: usize,
        key: &[u8],
        side: Side,
    ) -> usize {
        let first = page * PAGE;
        let heads = &level.heads[first..(first + PAGE).min(level.heads.len())];
        let prefix_len = level.prefixes[page] as usize;
        if prefix_len > 0 {
            let prefix = &self.separator(first * step)[..prefix_len];
            match key[..key.len().min(prefix_len)].cmp(prefix) {
                Ordering::Less => return 0,
                Ordering::Greater => return heads.len(),
                Ordering::Equal => {}
            }
        }
        let tail = &key[prefix_len..];
        let head = head8(tail);
        let mut count = heads.partition_point(|other| *other < head);
        while count < heads.len() && heads[count] == head {
            let separator = &self.separator((first + count) * step)[prefix_len..];
            let below = separator < tail || (side == Side::Behind && separator == tail);
            if !below {
                break;
            }
            count += 1;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(keys: &[Vec<u8>], probes: &[Vec<u8>]) {
        let mut builder = FencesBuilder::default();
        for (i, key) in keys.iter().enumerate() {
            builder.push(i.checked_sub(1).map(|before| &keys[before][..]), key);
        }
        let fences = builder.finish();
        let separators: Vec<&[u8]> = (0..fences.len()).map(|i| fences.separator(i)).collect();
        for (i, separator) in separators.iter().enumerate() {
            assert!(*separator <= &keys[i][..]);
            assert!(i == 0 || *separator > &keys[i - 1][..] || keys[i] == keys[i - 1]);
        }
        for probe in probes {
            let less = separators.partition_point(|s| *s < &probe[..]);
            let not_greater = separators.partition_point(|s| *s <= &probe[..]);
            assert_eq!(fences.rank(probe, Side::Before), less, "{probe:?}");
            assert_eq!(fences.rank(probe, Side::Behind), not_greater, "{probe:?}");
        }
    }

    #[test]
    fn ranks_equal_those_of_the_plain_list() {
        for count in [1_usize, 2, 63, 64, 65, 4096, 5000] {
            let dense: Vec<Vec<u8>> =
                (0..count as u64).map(|i| (i * 3).to_be_bytes().to_vec()).collect();
            let mut probes = dense.clone();
            probes.extend((0..count as u64).map(|i| (i * 3 + 1).to_be_bytes().to_vec()));
            probes.extend([vec![], vec![0xff; 9]]);
            check(&dense, &probes);
        }
        let mut paths: Vec<Vec<u8>> = (0..9000)
            .map(|i| format!("/usr/lib/{}/long-common-part/{i:05}/x", i % 7).into_bytes())
            .collect();
        paths.sort();
        let mut probes = paths.clone();
        probes.extend(paths.iter().map(|path| path[..path.len() / 2].to_vec()));
        probes.extend(paths.iter().map(|path| [&path[..], b"\0"].concat()));
        check(&paths, &probes);
    }

    #[test]
    fn zero_bytes_and_equal_keys_keep_their_order() {
        let keys: Vec<Vec<u8>> =
            [&b""[..], b"", b"\0", b"\0\0", b"\0\0", b"a", b"a\0", b"a\0\0\0\0\0\0\0\0\0"]
                .iter()
                .map(|key| key.to_vec())
                .collect();
        let probes: Vec<Vec<u8>> =
            keys.iter().flat_map(|key| [key.clone(), [&key[..], b"\0"].concat()]).collect();
        check(&keys, &probes);
    }
}
