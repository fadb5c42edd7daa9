//! Which data blocks of a new table take the place of cached ones: those that enough of the entries lie in whose blocks readers had
//! left in the block cache.

use sst::Handle;

use crate::iter::source::Warmth;

/// A block is warm if one of so many of its entries is, of those that came from tables. So the blocks of a compaction that are put in the cache
/// have at most so many times the entries of those that they replace.
const SHARE: u32 = 4;

/// The blocks of the table that is being written.
pub(crate) struct BlockNotes {
    /// Bytes of blocks that may yet be noted.
    left: u64,
    /// Where the block begins that is being written, its entries that came from tables, and how many of these are warm.
    begun: u64,
    known: u32,
    warm: u32,
    blocks: Vec<Handle>,
}

impl BlockNotes {
    /// None yet, and at most `most` bytes of them.
    pub(crate) fn new(most: u64) -> BlockNotes {
        BlockNotes { left: most, begun: 0, known: 0, warm: 0, blocks: Vec::new() }
    }

    /// An entry was added, after which `written` bytes of the table are whole blocks: it is in the block behind these.
    pub(crate) fn note(&mut self, warmth: Warmth, written: u64) {
        if written > self.begun {
            self.end_block(written);
        }
        self.known += u32::from(warmth != Warmth::Unknown);
        self.warm += u32::from(warmth == Warmth::Warm);
    }

    fn end_block(&mut self, end: u64) {
        let block = Handle::until(self.begun, end);
        if self.warm > 0 && self.warm * SHARE >= self.known && block.size <= self.left {
            self.left -= block.size;
            self.blocks.push(block);
        }
        (self.begun, self.known, self.warm) = (end, 0, 0);
    }

    /// The warm blocks of the table, whose data ends at `end`.
    pub(crate) fn end(mut self, end: u64) -> Vec<Handle> {
        if end > self.begun {
            self.end_block(end);
        }
        self.blocks
    }
}

#[cfg(test)]
mod tests {
    use Warmth::{Cold, Unknown, Warm};

    use super::*;

    /// Blocks of 105 bytes, each with entries of these kinds: the offsets of those that are warm.
    fn warm(blocks: &[&[Warmth]], most: u64) -> Vec<u64> {
        let mut notes = BlockNotes::new(most);
        for (number, block) in (0..).zip(blocks) {
            block.iter().for_each(|warmth| notes.note(*warmth, number * 105));
        }
        let warm = notes.end(blocks.len() as u64 * 105);
        assert!(warm.iter().all(|block| block.size == 100 && block.end() % 105 == 0));
        warm.iter().map(|block| block.offset).collect()
    }

    #[test]
    fn a_block_is_warm_if_a_quarter_of_what_was_in_tables_is() {
        let blocks: [&[Warmth]; 6] = [
            &[Warm],
            &[Cold, Cold, Cold, Cold, Cold, Warm, Cold, Cold],
            &[Cold, Warm, Cold, Cold],
            &[Unknown, Unknown, Unknown, Unknown, Unknown],
            &[Unknown, Unknown, Unknown, Unknown, Warm],
            &[Cold],
        ];
        assert_eq!(warm(&blocks, 1000), [0, 210, 420]);
        assert_eq!(warm(&blocks[3..5], 1000), [105]);
    }

    #[test]
    fn no_more_bytes_are_noted_than_may_be() {
        let blocks: [&[Warmth]; 4] = [&[Warm]; 4];
        assert_eq!(warm(&blocks, 250), [0, 105]);
        assert_eq!(warm(&blocks, 99), [] as [u64; 0]);
        assert_eq!(warm(&[], 250), [] as [u64; 0]);
    }
}
