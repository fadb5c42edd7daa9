//! Read-ahead of a table's data: a compaction or a check reads all of it in order, and one call to the device for each block
//! would be most of its time. While one piece is worked on, the device reads the next, where the back end can do that.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use base::Result;
use ssd::PendingRead;
use sst::{Block, Blocks, Handle, Layout, ReadAt, Role};

use super::blocks::{CachedBlocks, File};

/// Bytes read at a time.
const AHEAD: usize = 256 << 10;

/// The blocks of a table, past the cache. Data is read in larger pieces than are asked for.
pub(crate) struct Ahead {
    file: File,
    /// Where its data ends.
    end: u64,
    held: Mutex<FilePiece>,
    probed: Option<ProbedTable>,
}

/// Whether a walk past the cache looks which blocks the cache has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probing {
    Nothing,
    EachBlock,
}

/// The table as readers see it.
struct ProbedTable {
    table: Arc<sst::Table<CachedBlocks>>,
    /// The data block that was asked for last is in the cache.
    is_cached: AtomicBool,
}

/// A piece of the file.
#[derive(Default)]
pub(super) struct FilePiece {
    at: u64,
    bytes: Vec<u8>,
    /// The piece behind it, which is being read.
    next: Option<NextPiece>,
    /// A piece failed; up to here only blocks that are asked for are read.
    exact_until: u64,
}

struct NextPiece {
    len: usize,
    read: Box<dyn PendingRead>,
}

impl Ahead {
    /// The blocks of `file`, which has data up to `end`.
    pub(crate) fn new(file: File, end: u64) -> Ahead {
        let end = end.min(file.len());
        Ahead { file, end, held: Mutex::default(), probed: None }
    }

    /// The same, which looks for each data block of `table` in the cache.
    pub(crate) fn probing(self, table: &Arc<sst::Table<CachedBlocks>>) -> Ahead {
        let (table, is_cached) = (Arc::clone(table), AtomicBool::new(false));
        Ahead { probed: Some(ProbedTable { table, is_cached }), ..self }
    }

    /// Whether the data block that was asked for last was in the cache then; none if it does not look.
    pub(crate) fn is_cached(&self) -> Option<bool> {
        self.probed.as_ref().map(|probed| probed.is_cached.load(Relaxed))
    }
}

impl Blocks for Ahead {
    fn get(&self, layout: &Layout, handle: Handle, role: Role) -> Result<Arc<Block>> {
        if role != Role::Data {
            return layout.load(&self.file, handle, role).map(Arc::new);
        }
        if let Some(ProbedTable { table, is_cached }) = &self.probed {
            is_cached.store(table.blocks().has(handle.offset), Relaxed);
        }
        let mut piece = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        piece.advance(&self.file, self.end, handle.offset..handle.end());
        layout.load(&FileAhead { file: &self.file, piece: &piece }, handle, role).map(Arc::new)
    }
}

/// A file, with a piece of it that is here. What is not here is read by itself: bytes that cannot be read may lie behind a block.
pub(super) struct FileAhead<'p> {
    pub(super) file: &'p File,
    pub(super) piece: &'p FilePiece,
}

impl ReadAt for FileAhead<'_> {
    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()> {
        match self.piece.get(at, out.len()) {
            Some(bytes) => out.copy_from_slice(bytes),
            None => self.file.read_at(at, out)?,
        }
        Ok(())
    }

    fn len(&self) -> u64 {
        self.file.len()
    }

    fn name(&self) -> String {
        self.file.name()
    }
}

impl FilePiece {
    /// The bytes of a range, if all of them are here.
    pub(super) fn get(&self, at: u64, len: usize) -> Option<&[u8]> {
        let from = usize::try_from(at.checked_sub(self.at)?).ok()?;
        self.bytes.get(from..from.checked_add(len)?)
    }

    /// Reads another piece. If that fails nothing is here, and up to its end none is read any more.
    pub(super) fn read(&mut self, file: &File, at: u64, len: usize) {
        self.fill(at, len, |bytes| file.read_at(at, bytes));
    }

    /// The same by a read that was begun.
    pub(super) fn take(&mut self, at: u64, len: usize, begun: Box<dyn PendingRead>) {
        self.fill(at, len, |bytes| begun.finish(bytes));
    }

    /// Takes another piece from the system's page cache, if all of it is there; else nothing is here.
    pub(super) fn take_cached(&mut self, file: &File, at: u64, len: usize) -> bool {
        self.replace(at, len, |bytes| file.0.read_cached(at, bytes))
    }

    fn fill(&mut self, at: u64, len: usize, read: impl FnOnce(&mut [u8]) -> Result<()>) {
        if at >= self.exact_until && !self.replace(at, len, |bytes| read(bytes).is_ok()) {
            self.exact_until = at + len as u64;
        }
    }

    /// Has another piece read; if that fails nothing is here.
    fn replace(&mut self, at: u64, len: usize, read: impl FnOnce(&mut [u8]) -> bool) -> bool {
        self.next = None;
        self.at = at;
        self.bytes.resize(len, 0);
        let is_read = read(&mut self.bytes);
        if !is_read {
            self.bytes.clear();
        }
        is_read
    }

    /// Brings the bytes of a block, if they are not here, with what follows as far as `end`. From the second piece in a row on the
    /// device reads one more meanwhile.
    fn advance(&mut self, file: &File, end: u64, block: Range<u64>) {
        let (at, stored) = (block.start, (block.end - block.start) as usize);
        let left = end.saturating_sub(at).min(AHEAD as u64) as usize;
        if stored > left || self.get(at, stored).is_some() {
            return;
        }
        let follows = !self.bytes.is_empty() && (self.at..=self.end()).contains(&at);
        self.take_next(at);
        if self.get(at, stored).is_none() {
            self.read(file, at, left);
        }
        if follows {
            self.begin_next(file, end);
        }
    }

    fn end(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }

    /// Begins to read what is behind this piece.
    fn begin_next(&mut self, file: &File, end: u64) {
        let at = self.end();
        let len = end.saturating_sub(at).min(AHEAD as u64) as usize;
        if len > 0 && at >= self.exact_until {
            self.next = file.0.begin(at, len).map(|read| NextPiece { len, read });
        }
    }

    /// Takes the next piece, with the end of this one from `at` on, if that is in one of them. If it failed, nothing is here, as of
    /// [`read`](Self::read).
    fn take_next(&mut self, at: u64) {
        let (begin, end) = (self.at, self.end());
        let Some(NextPiece { len, read }) = self.next.take() else { return };
        if !(begin..end + len as u64).contains(&at) {
            return;
        }
        let from = (at.min(end) - begin) as usize;
        let kept = self.bytes.len() - from;
        self.bytes.copy_within(from.., 0);
        self.bytes.resize(kept + len, 0);
        self.at = at.min(end);
        if read.finish(&mut self.bytes[kept..]).is_err() {
            self.exact_until = self.end();
            self.bytes.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use base::random::Rng;
    use ssd::{Call, Failure, Faulty, Fs, Memory, Rule};

    use super::*;

    const LEN: usize = 7 * AHEAD / 2;

    fn bytes() -> Vec<u8> {
        (0..LEN).map(|at| (at ^ at >> 8 ^ at >> 16) as u8).collect()
    }

    fn file(fs: &Faulty<Memory>) -> File {
        let path = Path::new("/table");
        let mut file = fs.create(path).expect("create");
        file.append(&bytes()).expect("append");
        drop(file);
        File(fs.open(path).expect("open"))
    }

    /// Reads blocks of all lengths, some of them apart from the one before; tells which failed.
    fn walk(file: &File, random: &mut Rng) -> Vec<std::ops::Range<usize>> {
        let (bytes, mut piece, mut at) = (bytes(), FilePiece::default(), 0);
        let mut failed = Vec::new();
        loop {
            let len = match random.below(50) {
                0 => AHEAD + 1 + random.below(10) as usize,
                1 => AHEAD,
                _ => 1 + random.below(20_000) as usize,
            };
            if random.below(40) == 0 {
                at += random.below(2 * AHEAD as u64) as usize;
            }
            if at + len > LEN {
                return failed;
            }
            piece.advance(file, LEN as u64, at as u64..(at + len) as u64);
            let mut out = vec![0; len];
            match (FileAhead { file, piece: &piece }).read_at(at as u64, &mut out) {
                Ok(()) => assert!(out == bytes[at..at + len], "{at}, {len}"),
                Err(_) => failed.push(at..at + len),
            }
            at += len;
        }
    }

    #[test]
    fn blocks_are_what_the_file_has() {
        let fs = Faulty::new(Memory::default());
        let file = file(&fs);
        for seed in 0..50 {
            let failed = walk(&file, &mut Rng::new(seed));
            assert!(failed.is_empty(), "seed {seed}: {failed:?}");
        }
    }

    /// A piece that fails is no error of a block that can be read by itself.
    #[test]
    fn a_read_ahead_that_fails_fails_no_block() {
        let fs = Faulty::new(Memory::default());
        let file = file(&fs);
        for call in 1..12 {
            fs.set_rules(vec![Rule::new(call, Failure::Io).of(Call::Read)]);
            let failed = walk(&file, &mut Rng::new(call)).len();
            // The one that strikes may be that of a long block, which is read alone.
            assert!(failed <= 1, "read {call}");
        }
        fs.set_rules(vec![Rule::new(1, Failure::Io).of(Call::Read).for_ever()]);
        assert!(walk(&file, &mut Rng::new(1)).len() > 20);
    }

    #[test]
    fn one_read_is_enough_for_many_blocks() {
        let fs = Faulty::new(Memory::default());
        let (file, mut piece) = (file(&fs), FilePiece::default());
        let before = fs.calls(Call::Read);
        for at in (0..LEN - 4000).step_by(4000) {
            piece.advance(&file, LEN as u64, at as u64..at as u64 + 4000);
            assert!(piece.get(at as u64, 4000).is_some());
        }
        assert!(fs.calls(Call::Read) - before <= 5);
    }
}
