//! [`Resident`]: which memory of a pool in DRAM may have pages, so that what nothing uses for a while goes back to the system.
//!
//! Memory goes back in blocks as long as a huge page: a part of one would be given back at the price of the rest. A block
//! goes when it was free at two looks in a row and nothing was taken from it between them. So a store that writes steadily
//! keeps what it takes again and again, and one that has written much holds it for two looks at most.

use std::ops::Range;

use base::PmOffset;

/// Bytes of a block: those of a huge page where others have 4 KiB.
const BLOCK: u64 = 2 << 20;

/// What is known of the pages of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pages {
    /// There are none: nothing was taken from it since they were given back.
    None,
    /// Something of it was in use at the last look, or was taken since.
    Used,
    /// It was free at the last look, and nothing was taken since.
    Unused,
}

/// The blocks that lie wholly in the data of a pool.
pub(crate) struct Resident {
    first: u64,
    blocks: Vec<Pages>,
}

impl Resident {
    /// All blocks may have pages: what an open has put there is not known.
    pub fn new(data: Range<PmOffset>) -> Self {
        let (first, end) = (data.start.get().div_ceil(BLOCK), data.end.get() / BLOCK);
        Self { first, blocks: vec![Pages::Used; end.saturating_sub(first) as usize] }
    }

    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// The bytes of block `no`.
    pub fn bytes(&self, no: usize) -> Range<u64> {
        let start = (self.first + no as u64) * BLOCK;
        start..start + BLOCK
    }

    /// Something in these bytes has an owner now.
    pub fn take(&mut self, bytes: Range<u64>) {
        let block = |at: u64| (at / BLOCK).saturating_sub(self.first) as usize;
        let (from, to) = (block(bytes.start), block(bytes.end + BLOCK - 1).min(self.blocks.len()));
        if let Some(blocks) = self.blocks.get_mut(from..to) {
            blocks.fill(Pages::Used);
        }
    }

    /// A look at block `no`, whose bytes are all free, or not. Tells whether its pages are to be given back now.
    pub fn look(&mut self, no: usize, is_free: bool) -> bool {
        let before = self.blocks[no];
        self.blocks[no] = match before {
            Pages::Used if is_free => Pages::Unused,
            Pages::Unused if is_free => Pages::None,
            other => other,
        };
        is_free && before == Pages::Unused
    }

    /// Whether block `no` has pages, as far as is known.
    pub fn has_pages(&self, no: usize) -> bool {
        self.blocks[no] != Pages::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resident(start: u64, end: u64) -> Resident {
        Resident::new(PmOffset::new(start)..PmOffset::new(end))
    }

    #[test]
    fn a_block_goes_when_it_was_free_at_two_looks_and_not_taken_between_them() {
        let mut resident = resident(1, 4 * BLOCK - 1);
        assert_eq!(resident.len(), 2, "whole ones");
        assert_eq!(resident.bytes(0), BLOCK..2 * BLOCK);
        let looks =
            |resident: &mut Resident, free: [bool; 2]| [0, 1].map(|no| resident.look(no, free[no]));
        assert_eq!(looks(&mut resident, [true, false]), [false, false]);
        assert_eq!(looks(&mut resident, [true, true]), [true, false]);
        assert!(!resident.has_pages(0) && resident.has_pages(1));
        // Taken for a moment from the end of one to the begin of the next.
        resident.take(2 * BLOCK - 1..2 * BLOCK + 1);
        assert_eq!(looks(&mut resident, [true, true]), [false, false]);
        assert_eq!(looks(&mut resident, [true, true]), [true, true]);
        assert_eq!(looks(&mut resident, [true, true]), [false, false], "they are gone already");
    }

    #[test]
    fn what_lies_beside_the_blocks_is_none_of_them() {
        let mut resident = resident(BLOCK + 1, 3 * BLOCK + 5);
        for look in 0..2 {
            assert_eq!(resident.look(0, true), look == 1);
        }
        resident.take(BLOCK..2 * BLOCK);
        resident.take(3 * BLOCK..3 * BLOCK + 4);
        assert!(!resident.has_pages(0));
        resident.take(BLOCK..4 * BLOCK);
        assert!(resident.has_pages(0));
        let none = self::resident(1, BLOCK);
        assert_eq!(none.len(), 0);
    }
}
