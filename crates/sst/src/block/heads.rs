//! Heads: eight bytes of the key at each restart, side by side, so that a search of an index block reads a few
//! lines of numbers instead of a key at every step.

use std::ops::Range;

use base::bytes::{common_prefix, head8};
use smallvec::SmallVec;

use super::{Block, Keys};
use crate::key::{Target, split};

/// Blocks with fewer restarts are searched as quickly without.
const RESTARTS_MIN: usize = 16;
/// Heads around a guess among which the right one mostly is.
const NEAR: usize = 8;

/// The first eight bytes of each restart's user key behind what all of these have in common, as numbers that sort as
/// the bytes do.
#[derive(Debug)]
pub(super) struct Heads {
    /// What all keys begin with.
    prefix: SmallVec<[u8; 24]>,
    heads: Vec<u64>,
    /// Whether every entry is a restart.
    every: bool,
}

impl Heads {
    /// Those of a block; none if it is small, or a restart has no key, which a search will then tell.
    pub fn of(block: &Block) -> Option<Box<Heads>> {
        if block.restarts() < RESTARTS_MIN {
            return None;
        }
        let key = |i: usize| block.restart_key(i).ok().map(|key| block.user_key(key));
        let (first, last) = (key(0)?, key(block.restarts() - 1)?);
        let prefix = SmallVec::from_slice(&first[..common_prefix(first, last)]);
        // Keys that do not ascend are damage, which may be anywhere.
        let head = |i: usize| key(i)?.strip_prefix(&prefix[..]).map(head8);
        let heads: Option<Vec<u64>> = (0..block.restarts()).map(head).collect();
        let heads = heads.filter(|heads| heads.is_sorted())?;
        let ends = (1..block.restarts()).map(|i| block.restart(i)).chain([block.entries_end]);
        let entries = (0..block.restarts()).map(|i| block.entry(block.restart(i)));
        let every = ends.zip(entries).all(|(end, entry)| entry.is_some_and(|e| e.next == end));
        Some(Box::new(Heads { prefix, heads, every }))
    }

    /// Bytes of heap, its own included.
    pub fn charge(&self) -> usize {
        size_of::<Self>() + self.heads.capacity() * size_of::<u64>()
    }

    /// The restarts whose heads equal that of `user`; all before are less than it, all behind are greater.
    #[inline]
    fn equal(&self, user: &[u8]) -> Option<Range<usize>> {
        let head = head8(user.strip_prefix(&self.prefix[..])?);
        let low = self.first_from(head);
        let equal = self.heads[low..].iter().take_while(|other| **other == head).count();
        Some(low..low + equal)
    }

    /// How many heads are less than `head`. Keys are often spread evenly, so the search begins where it would then be.
    #[inline]
    fn first_from(&self, head: u64) -> usize {
        let heads = &self.heads[..];
        let (Some(first), Some(last)) = (heads.first(), heads.last()) else { return 0 };
        let (span, into) = (last.saturating_sub(*first), head.saturating_sub(*first));
        if into >= span {
            return heads.partition_point(|other| *other < head);
        }
        let guess = (u128::from(into) * heads.len() as u128 / u128::from(span)) as usize;
        let low = guess.saturating_sub(NEAR).min(heads.len());
        let high = (guess + NEAR).min(heads.len());
        let below = |at: usize| heads.get(at).is_none_or(|other| *other < head);
        match (low == 0 || below(low - 1), high == heads.len() || !below(high)) {
            (true, true) => low + heads[low..high].partition_point(|other| *other < head),
            (true, false) => high + heads[high..].partition_point(|other| *other < head),
            (false, _) => heads[..low].partition_point(|other| *other < head),
        }
    }
}

impl Block {
    /// Where the last restart whose key is less than `target` is to be looked for, if there is any.
    #[inline]
    pub(super) fn narrow(&self, target: &Target<'_>) -> Range<usize> {
        let equal = self.heads.as_ref().and_then(|heads| heads.equal(target.user));
        equal.map_or(0..self.restarts, |equal| equal.start.saturating_sub(1)..equal.end)
    }

    /// The restart of the first entry that is not less than `target`, where heads alone tell; the number of restarts if
    /// all are.
    #[inline]
    pub(crate) fn told_by_heads(&self, target: &Target<'_>) -> Option<usize> {
        let heads = self.heads.as_ref().filter(|heads| heads.every)?;
        heads.equal(target.user).filter(Range::is_empty).map(|equal| equal.start)
    }

    /// A stored key without its trailer, if it has one.
    #[inline]
    fn user_key<'k>(&self, stored: &'k [u8]) -> &'k [u8] {
        match self.keys {
            Keys::Internal => split(stored).0,
            Keys::Plain => stored,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use base::Seq;

    use super::super::build::BlockBuilder;
    use super::super::cursor::BlockCursor;
    use super::super::{Shape, Values};
    use super::*;
    use crate::key::trailer;

    fn internal(user: &[u8], seq: Seq) -> Vec<u8> {
        [user, &trailer(seq, 1).to_le_bytes()].concat()
    }

    fn check(mut users: Vec<Vec<u8>>) {
        users.sort();
        users.dedup();
        let mut builder = BlockBuilder::new(1);
        for user in &users {
            for seq in [9, 4].map(Seq::new) {
                builder.add(&internal(user, seq), b"");
            }
        }
        let mut bytes = Vec::new();
        builder.finish(&mut bytes);
        let shape = Shape::Entries(Keys::Internal, Values::Sized);
        let with = Arc::new(Block::parse(bytes.clone(), 0, shape).unwrap());
        assert_eq!(with.heads.as_ref().unwrap().heads.len(), with.restarts());
        let mut without = Block::parse(bytes, 0, shape).unwrap();
        without.heads = None;
        let without = Arc::new(without);
        let around = users.iter().flat_map(|user| {
            let cut = user[..user.len() / 2].to_vec();
            [user.clone(), [&user[..], b"\0"].concat(), [&user[..], b"\xff"].concat(), cut]
        });
        for user in around.chain([vec![], vec![0xff; 40]]) {
            for seq in [0, 4, 6, 9, 10].map(Seq::new) {
                let target = Target::at(&user, seq);
                let found = with.restart_before(&target).unwrap();
                assert_eq!(found, without.restart_before(&target).unwrap(), "{user:?} {seq}");
                let mut cursors = [&with, &without].map(|block| BlockCursor::new(block.clone()));
                cursors.iter_mut().for_each(|cursor| cursor.seek(&target).unwrap());
                let [with, without] = cursors.map(|cursor| (cursor.valid(), cursor.position()));
                assert_eq!(with, without, "{user:?} {seq}");
            }
        }
    }

    #[test]
    fn searches_end_where_they_end_without() {
        check((0..300_u64).map(|i| (i * 7).to_be_bytes().to_vec()).collect());
        check((0..500).map(|i| format!("/usr/share/{}/{i:04}/x", i % 3).into_bytes()).collect());
        check((0..40).map(|i| vec![0; i]).collect());
        check((0..40).map(|i| [vec![b'k'; 9], vec![0; i]].concat()).collect());
        check((0..64).map(|i| [b"the same eight bytes".to_vec(), vec![i]].concat()).collect());
    }

    /// Searching such a block must still tell what is wrong.
    #[test]
    fn damaged_keys_have_no_heads() {
        let mut builder = BlockBuilder::new(1);
        for i in 0..40_u64 {
            builder.add(&internal(&[b'k', i as u8], Seq::new(1)), b"");
        }
        let mut bytes = Vec::new();
        builder.finish(&mut bytes);
        let entry = bytes[..].windows(2).position(|pair| pair == [b'k', 20]).unwrap();
        let shape = Shape::Entries(Keys::Internal, Values::Sized);
        for (at, byte) in [(entry - 3, 1), (entry, b'j'), (entry + 1, 9)] {
            let mut damaged = bytes.clone();
            damaged[at] = byte;
            let block = Block::parse(damaged, 0, shape).unwrap();
            assert!(block.heads.is_none());
        }
    }
}
