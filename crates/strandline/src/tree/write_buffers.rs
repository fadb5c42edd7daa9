//! Buffers of files that are being written. They are used again: an allocator that gets back a long piece of memory keeps more for itself
//! from then on.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a buffer that is kept.
pub(crate) const BUFFER: usize = 1 << 20;
/// So many are kept at most while no file needs them.
const SPARE_MAX: usize = 2;

/// The buffers of a store.
#[derive(Default)]
pub(crate) struct WriteBuffers {
    spare: Mutex<Vec<Vec<u8>>>,
    /// Bytes of all, in use or spare.
    bytes: AtomicU64,
}

/// Bytes of a file on their way to it.
pub(crate) struct WriteBuffer {
    bytes: Vec<u8>,
    /// What of the sum is this one's.
    counted: u64,
    home: Arc<WriteBuffers>,
}

impl WriteBuffers {
    fn spare(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of DRAM that they take.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// An empty one for a file of `expected` bytes, about.
    pub(crate) fn take(self: &Arc<Self>, expected: u64) -> WriteBuffer {
        let spare = if expected < BUFFER as u64 { None } else { self.spare().pop() };
        let counted = spare.as_ref().map_or(0, |bytes| bytes.capacity() as u64);
        let bytes = spare.unwrap_or_else(|| Vec::with_capacity(BUFFER.min(expected as usize)));
        let mut buffer = WriteBuffer { bytes, counted, home: Arc::clone(self) };
        buffer.count();
        buffer
    }
}

impl WriteBuffer {
    /// Counts what it takes now.
    fn count(&mut self) {
        let now = self.bytes.capacity() as u64;
        // Wraps where it is less than before, and is right all the same.
        self.home.bytes.fetch_add(now.wrapping_sub(self.counted), Relaxed);
        self.counted = now;
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) {
        let before = self.bytes.capacity();
        self.bytes.extend_from_slice(bytes);
        if self.bytes.capacity() != before {
            self.count();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }
}

impl Deref for WriteBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for WriteBuffer {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        let is_kept = (BUFFER..=2 * BUFFER).contains(&bytes.capacity());
        let mut spare = self.home.spare();
        if is_kept && spare.len() < SPARE_MAX {
            spare.push(bytes);
        } else {
            self.home.bytes.fetch_sub(self.counted, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_buffers_are_used_again_and_all_are_counted() {
        let buffers = Arc::new(WriteBuffers::default());
        let mut short = buffers.take(1000);
        short.append(&[1; 700]);
        assert_eq!((&short[..], buffers.bytes()), (&[1; 700][..], 1000));
        let many: Vec<WriteBuffer> = (0..4).map(|_| buffers.take(1 << 30)).collect();
        assert_eq!(buffers.bytes(), 1000 + 4 * BUFFER as u64);
        let at = many[0].bytes.as_ptr();
        drop(many);
        assert_eq!(buffers.bytes(), 1000 + 2 * BUFFER as u64);
        let again = [buffers.take(1 << 30), buffers.take(1 << 30)];
        assert!(again.iter().any(|buffer| buffer.bytes.as_ptr() == at && buffer.is_empty()));
        short.append(&vec![2; 4 * BUFFER]);
        drop((short, again));
        assert_eq!(buffers.bytes(), 2 * BUFFER as u64);
    }
}
