//! [`OpenBlocks`]: blocks of the media that gather lines before they are written.

use std::sync::{Mutex, PoisonError};

use super::PmModel;
use crate::cacheline::LINE;

/// Bytes after which the next module follows.
const INTERLEAVE: u64 = 4096;

/// What a write comes to on the media.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moved {
    pub read: u64,
    pub written: u64,
}

/// A block that some lines have come of.
struct Open {
    block: u64,
    lines: u64,
}

/// Blocks of a module, the oldest first.
#[derive(Default)]
struct Module {
    open: Vec<Open>,
}

/// The buffers of all modules.
pub(super) struct OpenBlocks {
    modules: Box<[Mutex<Module>]>,
    capacity: usize,
    block: u64,
}

impl OpenBlocks {
    pub fn new(model: &PmModel) -> OpenBlocks {
        let modules = if model.open_blocks == 0 { 0 } else { model.modules };
        OpenBlocks {
            modules: (0..modules).map(|_| Mutex::default()).collect(),
            capacity: model.open_blocks as usize,
            block: model.block.into(),
        }
    }

    /// Bytes that may be on their way without being written.
    pub fn capacity(&self) -> u64 {
        (self.modules.len() * self.capacity) as u64 * self.block
    }

    /// Takes whole lines in, from `first` up to `end`.
    pub fn write(&self, first: u64, end: u64) -> Moved {
        let line = LINE as u64;
        let mut moved = Moved::default();
        if self.modules.is_empty() {
            moved.written = (end - first) * line;
            return moved;
        }
        let lines_of_block = self.block / line;
        let mut at = first;
        while at < end {
            let block = at / lines_of_block;
            let behind = ((block + 1) * lines_of_block).min(end);
            let lines = (at..behind).fold(0, |lines, line| lines | 1 << (line % lines_of_block));
            let module = (block * self.block / INTERLEAVE) as usize % self.modules.len();
            let mut module = self.modules[module].lock().unwrap_or_else(PoisonError::into_inner);
            module.add(block, lines, self, &mut moved);
            at = behind;
        }
        moved
    }

    /// All lines of a block.
    fn whole(&self) -> u64 {
        u64::MAX >> (64 - self.block / LINE as u64)
    }
}

impl Module {
    fn add(&mut self, block: u64, lines: u64, all: &OpenBlocks, moved: &mut Moved) {
        let found = self.open.iter().position(|open| open.block == block);
        let at = found.unwrap_or_else(|| {
            if self.open.len() == all.capacity {
                // The rest of a block that goes half full is read, so that it can be written whole.
                self.open.remove(0);
                moved.read += all.block;
                moved.written += all.block;
            }
            self.open.push(Open { block, lines: 0 });
            self.open.len() - 1
        });
        self.open[at].lines |= lines;
        if self.open[at].lines == all.whole() {
            self.open.remove(at);
            moved.written += all.block;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(modules: u32, open: u32) -> OpenBlocks {
        let text = format!("zero,block=256,modules={modules},open_blocks={open}");
        OpenBlocks::new(&text.parse().expect("model"))
    }

    #[test]
    fn whole_blocks_are_written_once_and_parts_are_read_first() {
        let all = blocks(1, 2);
        assert_eq!(all.capacity(), 512);
        assert_eq!(all.write(0, 8), Moved { read: 0, written: 512 }, "two whole blocks");
        assert_eq!(all.write(8, 9), Moved::default(), "one line waits for the others");
        assert_eq!(all.write(9, 12), Moved { read: 0, written: 256 }, "they come");
        assert_eq!(all.write(16, 17), Moved::default());
        assert_eq!(all.write(32, 33), Moved::default());
        assert_eq!(all.write(64, 65), Moved { read: 256, written: 256 }, "the oldest makes room");
        assert_eq!(all.write(32, 33), Moved::default(), "which that was not");
    }

    #[test]
    fn modules_have_blocks_of_their_own() {
        let all = blocks(2, 1);
        let of_next_module = INTERLEAVE / LINE as u64;
        for _ in 0..4 {
            assert_eq!(all.write(0, 1), Moved::default());
            assert_eq!(all.write(of_next_module, of_next_module + 1), Moved::default());
        }
        assert_eq!(blocks(0, 64).write(0, 3), Moved { read: 0, written: 192 });
    }
}
