//! Buffers of files that are being written. They are used again: an allocator that gets back a long piece of memory keeps more for itself
//! from then on.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a buffer that is kept.
pub(crate) const BUFFER: usize = 1 << 20;
/// So many are kept at most while no file needs them: of all stores, as most of many are idle.
const SPARE_MAX: usize = 2;

static SPARE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// The buffers of a store.
#[derive(Default)]
pub(crate) struct WriteBuffers {
    /// Bytes of those in use.
    bytes: AtomicU64,
}

/// Bytes of a file on their way to it.
pub(crate) struct WriteBuffer {
    bytes: Vec<u8>,
    /// What of the sum is this one's.
    counted: u64,
    home: Arc<WriteBuffers>,
}

fn spare() -> MutexGuard<'static, Vec<Vec<u8>>> {
    SPARE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WriteBuffers {
    /// Bytes of DRAM that they take.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// An empty one for a file of `expected` bytes, about.
    pub(crate) fn take(self: &Arc<Self>, expected: u64) -> WriteBuffer {
        let spare = if expected < BUFFER as u64 { None } else { spare().pop() };
        let bytes = spare.unwrap_or_else(|| Vec::with_capacity(BUFFER.min(expected as usize)));
        let mut buffer = WriteBuffer { bytes, counted: 0, home: Arc::clone(self) };
        buffer.count();
        buffer
    }
}

impl WriteBuffer {
    /// Counts what it takes now.
    fn count(&mut self) {
        let now = self.bytes.capacity() as u64;
        self.home.bytes.fetch_add(now - self.counted, Relaxed);
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
        self.home.bytes.fetch_sub(self.counted, Relaxed);
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        if (BUFFER..=2 * BUFFER).contains(&bytes.capacity()) {
            let mut spare = spare();
            if spare.len() < SPARE_MAX {
                spare.push(bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_in_use_are_counted_and_a_few_long_ones_kept_for_later() {
        let buffers = Arc::new(WriteBuffers::default());
        let mut short = buffers.take(1000);
        short.append(&[1; 700]);
        assert_eq!((&short[..], buffers.bytes()), (&[1; 700][..], 1000));
        let mut many: Vec<WriteBuffer> = (0..4).map(|_| buffers.take(1 << 30)).collect();
        assert!((4..=8).contains(&((buffers.bytes() - 1000) / BUFFER as u64)));
        many[0].append(b"of an earlier file");
        drop(many);
        assert_eq!(buffers.bytes(), 1000);
        assert!(spare().len() <= SPARE_MAX);
        assert!(buffers.take(1 << 30).is_empty());
        short.append(&vec![2; 4 * BUFFER]);
        assert!(buffers.bytes() > 4 * BUFFER as u64);
        drop(short);
        assert_eq!(buffers.bytes(), 0);
    }
}
