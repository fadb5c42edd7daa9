//! Buffers that a device can read and write directly.

/// What direct reads and writes must be aligned to in memory and in the file, in bytes. The largest
/// logical block of devices in use; most would do with 512.
pub(crate) const BLOCK: usize = 4096;

/// A fixed number of blocks of zeroed memory, aligned to a block.
pub(crate) struct Aligned {
    /// One block longer than asked for: the part that is used begins at the first aligned address.
    bytes: Vec<u8>,
    start: usize,
}

impl Aligned {
    /// At least `len` bytes, in whole blocks.
    pub(crate) fn new(len: usize) -> Self {
        let bytes = vec![0; len.next_multiple_of(BLOCK) + BLOCK];
        let start = bytes.as_ptr().align_offset(BLOCK);
        assert!(start < BLOCK, "byte pointers can be aligned");
        Self { bytes, start }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..][..self.bytes.len() - BLOCK]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let len = self.bytes.len() - BLOCK;
        &mut self.bytes[self.start..][..len]
    }
}

/// The blocks that hold `len` bytes at `at`: where they begin, and how many bytes they are.
pub(crate) fn blocks_of(at: u64, len: usize) -> (u64, usize) {
    let from = at / BLOCK as u64 * BLOCK as u64;
    (from, ((at - from) as usize + len).next_multiple_of(BLOCK))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_long_enough() {
        for len in [0, 1, BLOCK, BLOCK + 1] {
            let mut buffer = Aligned::new(len);
            assert!(buffer.bytes().as_ptr().addr().is_multiple_of(BLOCK));
            assert_eq!(buffer.bytes_mut().len(), len.next_multiple_of(BLOCK));
        }
        assert_eq!(blocks_of(0, 1), (0, BLOCK));
        assert_eq!(blocks_of(BLOCK as u64 - 1, 2), (0, 2 * BLOCK));
        assert_eq!(blocks_of(BLOCK as u64, BLOCK), (BLOCK as u64, BLOCK));
    }
}
