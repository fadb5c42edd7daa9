//! Read-ahead of a scan: a walk over a level that asks for one block after the other gets more of the file at once, first a
//! little, as most scans are short, and then more each time. Where reads go past the system's cache nothing else reads ahead.

use std::sync::{Arc, Mutex, PoisonError};

use base::Result;
use sst::{Block, Blocks, Handle, Layout, ReadAt, Role};

use super::ahead::{FileAhead, FilePiece};
use super::blocks::{CachedBlocks, File, Reading};

/// Bytes read for the second block in a row that the cache does not have; and at a time at most.
const AHEAD: (usize, usize) = (16 << 10, 128 << 10);

/// How blocks of a walk are read that goes on with a scan of so many bytes.
pub(crate) fn reading_behind(bytes: usize) -> Reading {
    if bytes < AHEAD.1 { Reading::Alone } else { Reading::Passing }
}

/// The blocks of a table for one walk.
pub(crate) struct ScannedBlocks {
    table: Arc<sst::Table<CachedBlocks>>,
    /// Until the walk is long itself.
    reading: Reading,
    /// None where a read is one of memory, whose lines are fetched ahead.
    ahead: Option<Mutex<ScanAhead>>,
}

#[derive(Default)]
struct ScanAhead {
    /// Where the block ends that was asked for last.
    next: Option<u64>,
    /// Bytes that were read at once last; 0 as long as blocks do not follow each other.
    len: usize,
    piece: FilePiece,
}

impl ScannedBlocks {
    /// The blocks of `table`, read ahead.
    pub(crate) fn of_file(
        table: &Arc<sst::Table<CachedBlocks>>,
        reading: Reading,
    ) -> ScannedBlocks {
        ScannedBlocks { table: Arc::clone(table), reading, ahead: Some(Mutex::default()) }
    }

    /// The blocks of a table in persistent memory.
    pub(crate) fn of_memory(table: &Arc<sst::Table<CachedBlocks>>) -> ScannedBlocks {
        ScannedBlocks { table: Arc::clone(table), reading: Reading::Alone, ahead: None }
    }
}

impl Blocks for ScannedBlocks {
    fn get(&self, layout: &Layout, handle: Handle, role: Role) -> Result<Arc<Block>> {
        let blocks = self.table.blocks();
        if role != Role::Data {
            return blocks.get(layout, handle, role);
        }
        let Some(ahead) = &self.ahead else {
            // The next one is mostly as long.
            blocks.will_need(handle.end(), handle.size);
            return blocks.get(layout, handle, role);
        };
        let mut ahead = ahead.lock().unwrap_or_else(PoisonError::into_inner);
        let follows = ahead.next == Some(handle.offset);
        ahead.next = Some(handle.end());
        if !follows {
            ahead.len = 0;
        }
        let is_long = follows && ahead.len == AHEAD.1;
        let reading = if is_long { Reading::Passing } else { self.reading };
        blocks.data_by(layout, handle, reading, |file| {
            let stored = (handle.end() - handle.offset) as usize;
            // A long block alone is as much as is ever read ahead.
            let gains = follows && stored < AHEAD.1;
            if gains && ahead.piece.get(handle.offset, stored).is_none() {
                ahead.read_more(file, handle.offset, stored);
            }
            layout.load(&FileAhead { file, piece: &ahead.piece }, handle, role)
        })
    }
}

impl ScanAhead {
    /// Reads the piece that begins at `at`, `least` bytes and more.
    fn read_more(&mut self, file: &File, at: u64, least: usize) {
        self.len = (2 * self.len).clamp(AHEAD.0, AHEAD.1).max(least);
        let len = file.len().saturating_sub(at).min(self.len as u64) as usize;
        self.piece.read(file, at, len);
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::path::Path;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use base::random::Rng;
    use base::{Error, ErrorKind, Seq};
    use sst::{EntryKind, SEQ_MAX, Table, Writer, WriterOptions};

    use super::*;
    use crate::cache::StoreCache;

    /// With values of 128 bytes, so that about 30 are in a block.
    const KEYS: u32 = 4000;

    /// A table's file that counts its reads, and has some bytes that cannot be read.
    struct Counted {
        bytes: Vec<u8>,
        bad: Range<usize>,
        reads: AtomicUsize,
    }

    impl ssd::Read for Counted {
        fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()> {
            self.reads.fetch_add(1, Ordering::Relaxed);
            let range = at as usize..at as usize + out.len();
            if range.start < self.bad.end && self.bad.start < range.end {
                return Err(Error::new(ErrorKind::Io, "read", "a bad sector"));
            }
            out.copy_from_slice(&self.bytes[range]);
            Ok(())
        }

        fn len(&self) -> u64 {
            self.bytes.len() as u64
        }

        fn path(&self) -> &Path {
            Path::new("counted")
        }
    }

    struct Scanned {
        file: Arc<Counted>,
        table: Arc<Table<CachedBlocks>>,
    }

    fn key(number: u32) -> [u8; 4] {
        number.to_be_bytes()
    }

    /// A table with values of 128 bytes, as [`table_of`].
    fn table(bad: Range<usize>) -> Scanned {
        table_of(bad, 128, KEYS)
    }

    /// A table with nothing but its last block in the cache.
    fn table_of(bad: Range<usize>, value_len: usize, keys: u32) -> Scanned {
        table_in(&StoreCache::own(16 << 20), bad, value_len, keys)
    }

    fn table_in(store: &StoreCache, bad: Range<usize>, value_len: usize, keys: u32) -> Scanned {
        let (mut writer, mut random) =
            (Writer::new(Vec::new(), WriterOptions::default()), Rng::new(1));
        for number in 0..keys {
            let value: Vec<u8> = (0..value_len).map(|_| random.below(256) as u8).collect();
            writer.add(&key(number), Seq::new(1), EntryKind::Value, &value).expect("add");
        }
        let (bytes, _) = writer.finish().expect("finish");
        let layout = Layout::open(&bytes).expect("open");
        let file = Arc::new(Counted { bytes, bad, reads: AtomicUsize::new(0) });
        let blocks = CachedBlocks::new(1, File(Arc::clone(&file) as _), store);
        let table = Arc::new(Table::new(Arc::new(layout), blocks));
        table.get(&key(keys - 1), SEQ_MAX).expect("get").expect("found");
        Scanned { file, table }
    }

    impl Scanned {
        /// Seeks a key and steps over so many; tells how many reads that took.
        fn scan(&self, from: u32, count: u32) -> Result<usize> {
            let before = self.file.reads.load(Ordering::Relaxed);
            let blocks = ScannedBlocks::of_file(&self.table, Reading::Alone);
            let table = Arc::new(Table::new(Arc::clone(self.table.layout()), blocks));
            let mut cursor = table.cursor();
            cursor.seek(&key(from), SEQ_MAX)?;
            for number in from..from + count {
                assert_eq!(cursor.key(), key(number));
                cursor.next()?;
            }
            Ok(self.file.reads.load(Ordering::Relaxed) - before)
        }
    }

    #[test]
    fn the_longer_a_scan_the_more_is_read_at_once() {
        let reads = |from, count| table(0..0).scan(from, count).expect("scan");
        assert_eq!(reads(1000, 1), 1);
        assert_eq!(reads(1000, 40), 2);
        assert_eq!(reads(1000, 110), 2, "16 KiB behind the first block");
        assert_eq!(reads(1000, 300), 3, "and 32 KiB");
        // 64, and then 128 at a time.
        assert_eq!(reads(0, KEYS), 8);
        let table = table(0..0);
        assert_eq!(table.scan(0, KEYS).expect("scan"), 8);
        assert_eq!(table.scan(0, KEYS).expect("scan"), 0, "from the cache");
    }

    #[test]
    fn long_blocks_are_read_once() {
        let reads = |len| table_of(0..0, len, 20).scan(0, 20).expect("scan");
        // Longer than is ever read ahead; the last block is in the cache.
        assert_eq!(reads(200_000), 19);
        // Longer than the first piece is.
        assert_eq!(reads(30_000), 7);
    }

    /// Of a table of twelve times the cache a scan leaves what it read before it turned out to be long; that is some 30 blocks.
    #[test]
    fn a_long_scan_leaves_a_full_cache_as_it_is() {
        let keys = 10 * KEYS;
        let store = StoreCache::own(512 << 10);
        let table = table_in(&store, 0..0, 128, keys);
        for number in (0..keys).step_by(30) {
            table.table.get(&key(number), SEQ_MAX).expect("get").expect("found");
        }
        let before = store.cache.figures();
        assert!(before.evictions > 1000, "it is full: {before:?}");
        table.scan(0, keys).expect("scan");
        let inserts = store.cache.figures().inserts - before.inserts;
        assert!((20..80).contains(&inserts), "{inserts} blocks of some 1300 put in");
    }

    #[test]
    fn what_cannot_be_read_ahead_fails_no_scan() {
        let table = table(350_000..350_001);
        // That is about at key 2500, in a piece that is read for those before.
        table.scan(0, 2100).expect("scan");
        table.scan(2700, 1000).expect("scan");
        assert_eq!(table.scan(0, KEYS).expect_err("the bad block").kind(), ErrorKind::Io);
    }
}
