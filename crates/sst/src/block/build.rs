//! Building a block.

use base::bytes::common_prefix;
use base::codec::put_varint;

use super::HASH_INDEX;
use super::hash::HashBuilder;
use crate::key::TRAILER_LEN;

/// Puts entries behind one another. Its buffers are used again for the next block.
#[derive(Debug)]
pub(crate) struct BlockBuilder {
    bytes: Vec<u8>,
    restarts: Vec<u32>,
    restart_interval: usize,
    /// Entries since the last restart.
    since: usize,
    last_key: Vec<u8>,
    hash: Option<HashBuilder>,
}

impl BlockBuilder {
    /// A block with a whole key at every `restart_interval`-th entry.
    pub fn new(restart_interval: usize) -> Self {
        Self {
            bytes: Vec::new(),
            restarts: Vec::new(),
            restart_interval: restart_interval.max(1),
            since: 0,
            last_key: Vec::new(),
            hash: None,
        }
    }

    /// The same with a hash index; keys must then be internal keys.
    pub fn with_hash_index(mut self) -> Self {
        self.hash = Some(HashBuilder::default());
        self
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes that [`Self::finish`] would give now.
    pub fn len(&self) -> usize {
        let hash = self.hash.as_ref().map_or(0, HashBuilder::len);
        self.bytes.len() + 4 * self.restarts.len().max(1) + 4 + hash
    }

    /// The key of the last entry since the last [`Self::finish`].
    pub fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Appends an entry. `key` is greater than all before; neither is 4 GiB.
    #[inline]
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        let shared = if self.since == 0 || self.since >= self.restart_interval {
            self.restarts.push(self.bytes.len() as u32);
            self.since = 0;
            0
        } else {
            common_prefix(&self.last_key, key)
        };
        self.since += 1;
        let unshared = key.len() - shared;
        if (shared | unshared | value.len()) < 0x80 {
            self.bytes.extend_from_slice(&[shared as u8, unshared as u8, value.len() as u8]);
        } else {
            put_varint(&mut self.bytes, shared as u64);
            put_varint(&mut self.bytes, unshared as u64);
            put_varint(&mut self.bytes, value.len() as u64);
        }
        self.bytes.extend_from_slice(&key[shared..]);
        self.bytes.extend_from_slice(value);
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(&key[shared..]);
        if let Some(hash) = &mut self.hash {
            hash.add(&key[..key.len() - TRAILER_LEN], self.restarts.len() - 1);
        }
    }

    /// Ends the block and moves its bytes to `out`, which is cleared first. The builder is empty again.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if self.restarts.is_empty() {
            self.restarts.push(0);
        }
        for restart in &self.restarts {
            self.bytes.extend_from_slice(&restart.to_le_bytes());
        }
        let mut footer = self.restarts.len() as u32;
        if self.hash.as_mut().is_some_and(|hash| hash.finish(&mut self.bytes)) {
            footer |= HASH_INDEX;
        }
        self.bytes.extend_from_slice(&footer.to_le_bytes());
        out.clear();
        std::mem::swap(out, &mut self.bytes);
        self.restarts.clear();
        self.since = 0;
    }
}
