//! The index while it is gathered: it is written behind the data.

use base::Result;

use super::output::Output;
use crate::block::build::BlockBuilder;
use crate::handle::Handle;
use crate::io::Sink;

/// Where the index came to lie.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Written {
    /// The block to begin at.
    pub root: Handle,
    /// Bytes of all blocks before compression, without trailers.
    pub bytes: u64,
    /// Parts below the root; 0: none.
    pub parts: u64,
    /// Bytes of the root, where there are parts.
    pub root_bytes: u64,
}

/// Separators and handles of data blocks.
#[derive(Debug)]
pub(super) struct IndexBuilder {
    block: BlockBuilder,
    /// Parts that are complete, each with its last key. None for an index of one block.
    parts: Vec<(Vec<u8>, Vec<u8>)>,
    /// Bytes of a part; `None`: one block.
    part_bytes: Option<usize>,
    restart_interval: usize,
    len: usize,
    value: Vec<u8>,
}

impl IndexBuilder {
    pub fn new(restart_interval: usize, part_bytes: Option<usize>) -> Self {
        Self {
            block: BlockBuilder::new(restart_interval),
            parts: Vec::new(),
            part_bytes,
            restart_interval,
            len: 0,
            value: Vec::new(),
        }
    }

    /// About how many bytes the index has now.
    pub fn len(&self) -> usize {
        self.len + self.block.len()
    }

    /// All keys up to `separator`, an internal key, that are behind the separator before are in the block
    /// at `handle`.
    pub fn add(&mut self, separator: &[u8], handle: Handle) {
        let full = self.part_bytes.is_some_and(|bytes| self.block.len() >= bytes);
        if full && !self.block.is_empty() {
            self.cut();
        }
        self.value.clear();
        handle.put(&mut self.value);
        self.block.add(separator, &self.value);
    }

    fn cut(&mut self) {
        let last_key = self.block.last_key().to_vec();
        let mut bytes = Vec::new();
        self.block.finish(&mut bytes);
        self.len += bytes.len() + last_key.len() + 16;
        self.parts.push((last_key, bytes));
    }

    pub fn write<S: Sink>(mut self, out: &mut Output<S>) -> Result<Written> {
        let mut written = Written::default();
        let mut root = Vec::new();
        if self.part_bytes.is_some() {
            if !self.block.is_empty() {
                self.cut();
            }
            let mut top = BlockBuilder::new(self.restart_interval);
            for (last_key, bytes) in &self.parts {
                let handle = out.compressed(bytes)?;
                written.bytes += bytes.len() as u64;
                self.value.clear();
                handle.put(&mut self.value);
                top.add(last_key, &self.value);
            }
            top.finish(&mut root);
            written.parts = self.parts.len() as u64;
            written.root_bytes = root.len() as u64;
        } else {
            self.block.finish(&mut root);
        }
        written.bytes += root.len() as u64;
        written.root = out.compressed(&root)?;
        Ok(written)
    }
}
