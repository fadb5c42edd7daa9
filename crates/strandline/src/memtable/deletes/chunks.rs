//! A list that only grows. Its items never move, so threads read it while one appends.

use std::sync::OnceLock;

/// Items of a chunk.
const ITEMS: u32 = 128;
/// Lists of chunks, each twice as long as the one before: enough for every number of an item.
const LISTS: usize = 26;

type Chunk<T> = Box<[T]>;
type List<T> = Box<[OnceLock<Chunk<T>>]>;

pub(super) struct Chunks<T> {
    lists: [OnceLock<List<T>>; LISTS],
}

impl<T> Default for Chunks<T> {
    fn default() -> Chunks<T> {
        Chunks { lists: [const { OnceLock::new() }; LISTS] }
    }
}

impl<T: Default> Chunks<T> {
    /// Item `no`; it stands at its default until the writer changes it.
    #[inline]
    pub(super) fn at(&self, no: u32) -> &T {
        let chunk = no / ITEMS + 1;
        let list = chunk.ilog2();
        let chunks = self.lists[list as usize]
            .get_or_init(|| (0..1_u32 << list).map(|_| OnceLock::new()).collect());
        let items = chunks[(chunk - (1 << list)) as usize]
            .get_or_init(|| (0..ITEMS).map(|_| T::default()).collect());
        &items[(no % ITEMS) as usize]
    }

    /// Bytes that `len` items take.
    pub(super) fn bytes(len: u32) -> u64 {
        u64::from(len).next_multiple_of(u64::from(ITEMS)) * size_of::<T>() as u64
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use super::*;

    #[test]
    fn every_number_has_an_item_of_its_own() {
        let chunks: Chunks<AtomicU32> = Chunks::default();
        let numbers = (0..5000).chain([100_000, 9_999_999, 10_000_000]);
        numbers.clone().for_each(|no| chunks.at(no).store(no, Relaxed));
        assert!(numbers.clone().all(|no| chunks.at(no).load(Relaxed) == no));
    }
}
