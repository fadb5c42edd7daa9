//! [`OpenBlocks`]: blocks of the media that gather lines before they are written.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::PmModel;
use crate::cacheline::LINE;

/// Bytes after which the next module follows.
const INTERLEAVE: u64 = 4096;
const LINES_OF_TURN: u64 = INTERLEAVE / LINE as u64;

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

/// Groups into which the blocks of a module fall by their numbers.
const GROUPS: usize = 256;

/// Blocks of a module.
struct Module {
    /// The oldest first.
    open: VecDeque<Open>,
    /// How many of each group are open. Most blocks that come are of a group that has none, and need not be looked for.
    of_group: [u16; GROUPS],
}

impl Default for Module {
    fn default() -> Module {
        Module { open: VecDeque::new(), of_group: [0; GROUPS] }
    }
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
        let mut moved = Moved::default();
        if self.modules.is_empty() {
            moved.written = (end - first) * LINE as u64;
            return moved;
        }
        let mut at = first;
        while at < end {
            let turn = at / LINES_OF_TURN;
            let behind = ((turn + 1) * LINES_OF_TURN).min(end);
            let module = &self.modules[turn as usize % self.modules.len()];
            let mut module = module.lock().unwrap_or_else(PoisonError::into_inner);
            self.write_to(&mut module, at..behind, &mut moved);
            at = behind;
        }
        moved
    }

    /// The same where all lines are one module's.
    fn write_to(&self, module: &mut Module, lines: Range<u64>, moved: &mut Moved) {
        let lines_of_block = self.block / LINE as u64;
        let mut at = lines.start;
        while at < lines.end {
            let block = at / lines_of_block;
            let behind = ((block + 1) * lines_of_block).min(lines.end);
            module.add(block, first(behind - at) << (at % lines_of_block), self, moved);
            at = behind;
        }
    }
}

/// The first lines of a block, at least one.
fn first(lines: u64) -> u64 {
    u64::MAX >> (64 - lines)
}

/// Neighbours are of different groups.
fn group(block: u64) -> usize {
    (block ^ (block >> 8)) as usize % GROUPS
}

impl Module {
    fn add(&mut self, block: u64, lines: u64, all: &OpenBlocks, moved: &mut Moved) {
        let group = group(block);
        let is_it = |open: &Open| open.block == block;
        // What is written in sequence comes to the newest again.
        let find = || self.open.iter().rposition(is_it);
        let found = if self.of_group[group] > 0 { find() } else { None };
        let open = match found {
            Some(at) => self.open[at].lines | lines,
            None => {
                self.make_room(all, moved);
                lines
            }
        };
        let is_whole = open == first(all.block / LINE as u64);
        match found {
            Some(at) if is_whole => {
                self.open.remove(at);
                self.of_group[group] -= 1;
            }
            Some(at) => self.open[at].lines = open,
            None if is_whole => {}
            None => {
                self.open.push_back(Open { block, lines });
                self.of_group[group] += 1;
            }
        }
        moved.written += if is_whole { all.block } else { 0 };
    }

    /// For one more block.
    fn make_room(&mut self, all: &OpenBlocks, moved: &mut Moved) {
        if self.open.len() < all.capacity {
            return;
        }
        // The rest of a block that goes half full is read, so that it can be written whole.
        if let Some(oldest) = self.open.pop_front() {
            self.of_group[group(oldest.block)] -= 1;
            moved.read += all.block;
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
        let of_next_module = LINES_OF_TURN;
        for _ in 0..4 {
            assert_eq!(all.write(0, 1), Moved::default());
            assert_eq!(all.write(of_next_module, of_next_module + 1), Moved::default());
        }
        assert_eq!(blocks(0, 64).write(0, 3), Moved { read: 0, written: 192 });
    }
}
