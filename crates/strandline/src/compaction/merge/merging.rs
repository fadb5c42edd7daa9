//! Several ordered streams as one: a binary heap of streams, the one with the next entry on top.

use base::Result;
use base::bytes::compare;

use crate::compaction::merge::stream::Stream;
use crate::record::store::Media;

/// Streams in heap order; those that have ended are gone.
pub(crate) struct MergingIterator {
    heap: Vec<Stream>,
}

impl MergingIterator {
    /// Merges `streams`, each positioned on its first entry.
    pub(crate) fn new(media: &Media, streams: Vec<Stream>) -> MergingIterator {
        let heap = streams.into_iter().filter(|stream| stream.key(media).is_some()).collect();
        let mut merging = MergingIterator { heap };
        for at in (0..merging.heap.len() / 2).rev() {
            merging.sift_down(media, at);
        }
        merging
    }

    /// The stream that stands on the next entry.
    #[inline]
    pub(crate) fn head(&self) -> Option<&Stream> {
        self.heap.first()
    }

    /// Passes the next entry.
    pub(crate) fn advance(&mut self, media: &Media) -> Result<()> {
        let Some(top) = self.heap.first_mut() else { return Ok(()) };
        top.advance(media)?;
        if top.key(media).is_none() {
            self.heap.swap_remove(0);
        }
        self.sift_down(media, 0);
        Ok(())
    }

    fn sift_down(&mut self, media: &Media, mut at: usize) {
        loop {
            let mut least = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.heap.len() && self.precedes(media, child, least) {
                    least = child;
                }
            }
            if least == at {
                return;
            }
            self.heap.swap(at, least);
            at = least;
        }
    }

    /// Lower keys first; of equal keys, newer versions.
    fn precedes(&self, media: &Media, a: usize, b: usize) -> bool {
        let (a, b) = (&self.heap[a], &self.heap[b]);
        // None in the heap has ended.
        let (Some(key), Some(other)) = (a.key(media), b.key(media)) else { return false };
        compare(key, other).then_with(|| b.seq().cmp(&a.seq())).is_lt()
    }
}
