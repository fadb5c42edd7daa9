//! Blocks that lie in memory which is slower than DRAM, and is modelled: what is read there is told when it is read.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::Block;

/// Bytes of heap beside the owner of bytes: its count, and what drops it.
const OWNER: usize = 2 * size_of::<usize>();

/// Entries no further apart are read in one go: they share lines, or the block of the media that brings the next ones along.
const IN_ONE_GO: usize = 256;

/// Memory that blocks lie in, where reads take longer than those of DRAM.
pub trait SlowMemory: Send + Sync {
    /// Waits as long as a read of `len` bytes at `at` takes there.
    fn read(&self, at: u64, len: usize);
}

/// Where the bytes of a block lie in such memory.
pub(super) struct SlowPlace {
    memory: Arc<dyn SlowMemory>,
    at: u64,
}

impl SlowPlace {
    #[cold]
    #[inline(never)]
    fn read(&self, range: Range<usize>) {
        self.memory.read(self.at + range.start as u64, range.len());
    }
}

impl fmt::Debug for SlowPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlowPlace({})", self.at)
    }
}

/// Reads of a block one behind the other, those that are near each other in one go.
pub(super) struct Reads<'b> {
    place: Option<&'b SlowPlace>,
    range: Range<usize>,
}

impl Reads<'_> {
    #[inline]
    pub fn add(&mut self, range: Range<usize>) {
        if let Some(place) = self.place {
            if range.start > self.range.end + IN_ONE_GO && !self.range.is_empty() {
                place.read(std::mem::replace(&mut self.range, range));
            } else {
                let start = if self.range.is_empty() { range.start } else { self.range.start };
                self.range = start..range.end;
            }
        }
    }
}

impl Drop for Reads<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(place) = self.place.filter(|_| !self.range.is_empty()) {
            place.read(self.range.clone());
        }
    }
}

impl Block {
    /// The same block over a copy of its bytes that lies elsewhere; none of it is on the heap then but what leads through it.
    ///
    /// `copy` is asked for them once, and kept as long as the block is. `memory` is where reads are told, if they take longer there,
    /// and at which place of it the bytes are.
    #[must_use]
    pub fn moved_to<T>(self, copy: T, memory: Option<(Arc<dyn SlowMemory>, u64)>) -> Block
    where
        T: AsRef<[u8]> + Send + 'static,
    {
        let copy = Bytes::from_owner(copy);
        debug_assert_eq!(copy, self.bytes, "another block");
        let slow = memory.map(|(memory, at)| Box::new(SlowPlace { memory, at }));
        Block { bytes: copy, own: size_of::<T>() + OWNER, slow, ..self }
    }

    /// The block's bytes, for one that tells itself what of them is read, or reads none.
    #[inline]
    pub(crate) fn view(&self) -> &[u8] {
        &self.bytes
    }

    /// Tells that a part of the block is read.
    #[inline(always)]
    pub(crate) fn touch(&self, range: Range<usize>) {
        if let Some(slow) = &self.slow {
            slow.read(range);
        }
    }

    /// The same of parts that follow each other.
    #[inline(always)]
    pub(super) fn reads(&self) -> Reads<'_> {
        Reads { place: self.slow.as_deref(), range: 0..0 }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use base::Seq;

    use super::*;
    use crate::{EntryKind, SEQ_MAX, Table, Uncached, Writer, WriterOptions};

    #[derive(Default)]
    struct Noted(Mutex<Vec<Range<u64>>>);

    impl SlowMemory for Noted {
        fn read(&self, at: u64, len: usize) {
            self.0.lock().expect("reads").push(at..at + len as u64);
        }
    }

    /// A table of one block, and that block in memory whose reads are noted.
    fn moved(value: usize) -> (Arc<Table<One>>, Arc<Noted>) {
        let options = WriterOptions { block_bytes: 1 << 20, ..WriterOptions::default() };
        let mut writer = Writer::new(Vec::new(), options);
        for number in 0..40_u32 {
            let value = vec![number as u8; value];
            writer.add(&number.to_be_bytes(), Seq::new(1), EntryKind::Value, &value).expect("add");
        }
        let bytes: Arc<[u8]> = writer.finish().expect("finish").0.into();
        let layout = Arc::new(crate::Layout::open(&bytes).expect("open"));
        let plain = Arc::new(Table::new(Arc::clone(&layout), Uncached(bytes)));
        let hit = plain.get(&0_u32.to_be_bytes(), SEQ_MAX).expect("get").expect("there");
        let (noted, block) = (Arc::<Noted>::default(), hit.block.bytes().to_vec());
        drop(hit);
        let shape = layout.restore(0, block.clone(), crate::Role::Data).expect("block");
        let memory: Arc<dyn SlowMemory> = Arc::clone(&noted) as _;
        let block = shape.moved_to(block, Some((memory, 1000)));
        assert!(block.charge() < 400, "none of it is on the heap: {}", block.charge());
        let one = One { plain: Arc::clone(&plain), block: Arc::new(block) };
        (Arc::new(Table::new(layout, one)), noted)
    }

    /// The blocks of a table, with its only data block elsewhere.
    struct One {
        plain: Arc<Table<Uncached<Arc<[u8]>>>>,
        block: Arc<Block>,
    }

    impl crate::Blocks for One {
        fn get(
            &self,
            layout: &crate::Layout,
            handle: crate::Handle,
            role: crate::Role,
        ) -> base::Result<Arc<Block>> {
            match role {
                crate::Role::Data => Ok(Arc::clone(&self.block)),
                _ => self.plain.blocks().get(layout, handle, role),
            }
        }
    }

    #[test]
    fn a_get_reads_what_leads_to_the_entry_and_its_value() {
        for value in [20, 2000] {
            let (table, noted) = moved(value);
            let hit = table.get(&9_u32.to_be_bytes(), SEQ_MAX).expect("get").expect("there");
            assert_eq!(hit.value(), vec![9; value]);
            let reads = std::mem::take(&mut *noted.0.lock().expect("reads"));
            let at = 1000 + hit.range.start as u64;
            assert!(reads.contains(&(at..at + value as u64)), "the value: {reads:?}");
            let bytes: u64 = reads.iter().map(|range| range.end - range.start).sum();
            let len = hit.block.view().len() as u64;
            assert!(bytes < len / 2 && bytes >= value as u64 + 20, "{bytes} of {len}");
            // Heads of ten long entries are read one by one, those of short ones together.
            assert_eq!(reads.len() > 10, value == 2000, "{reads:?}");
        }
    }

    #[test]
    fn a_scan_reads_all_of_it() {
        let (table, noted) = moved(100);
        let mut cursor = table.cursor();
        cursor.first().expect("first");
        let mut count = 0;
        while cursor.valid() {
            count += usize::from(!cursor.value().is_empty());
            cursor.next().expect("next");
        }
        assert_eq!(count, 40);
        let reads = noted.0.lock().expect("reads");
        let bytes: u64 = reads.iter().map(|range| range.end - range.start).sum();
        assert!(bytes >= 40 * 100, "{bytes}");
    }
}
