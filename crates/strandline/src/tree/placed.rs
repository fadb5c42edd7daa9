//! Data blocks of a table in persistent memory, read where they lie: they are not copied, and the block cache does not have
//! them (ADR 23).

use std::sync::Arc;

use base::Result;
use sst::{Block, Handle, Layout, Role};

use super::memory::PmFile;

/// The data blocks of one table.
pub(crate) struct PlacedBlocks(pub(crate) Arc<PmFile>);

impl PlacedBlocks {
    /// A block, verified: all of it is read.
    pub(crate) fn get(&self, layout: &Layout, handle: Handle) -> Result<Arc<Block>> {
        let lent = self.0.lend(handle.offset, layout.stored_len(handle)?)?;
        layout.lend(handle, lent, Role::Data).map(Arc::new)
    }
}

#[cfg(test)]
mod tests {
    use crate::tree::names::FilePlace;
    use std::path::Path;
    use std::sync::Arc;

    use base::{ErrorKind, Seq};
    use pmem::{Region, Site};
    use pool::{Format, Pool};
    use ssd::{Fs, Memory};
    use sst::{Compression, EntryKind, SEQ_MAX, Writer, WriterOptions};

    use super::super::blocks::Reading;
    use super::super::desc::TableDesc;
    use super::super::memory::{PmPercent, PmRooms};
    use super::super::room::{FileRoom, Writes};
    use super::super::space::{NewTable, TableSpace};
    use super::super::table::Table;
    use super::super::tables::{TableDir, Tables};
    use crate::cache::StoreCache;
    use crate::record::store::Media;
    use crate::record::zone::PendingFree;

    const ZONE: u64 = 64 << 10;
    const KEYS: u32 = 400;

    /// A table in persistent memory, and what it lies in.
    struct Made {
        region: Arc<Region>,
        tables: Arc<Tables>,
        table: Table,
    }

    fn value(number: u32) -> Vec<u8> {
        vec![number as u8; 20 + number as usize % 60]
    }

    /// A table with some blocks, each compressed as a store may have done that read them like files.
    fn placed(compression: Compression) -> Made {
        let region = Arc::new(Region::heap(25 * ZONE, None).expect("region"));
        let format = Format { zone_len: ZONE, manifest_len: 512 };
        let pool = Pool::create(Arc::clone(&region), format, 7, b"").expect("pool");
        let media = Arc::new(Media::new(pool, Arc::clone(&region), None));
        let percent = PmPercent { tables: 100, values: 0 };
        let memory = PmRooms::new(&media, &Arc::new(PendingFree::default()), percent, 512);
        memory.restrict(12 * ZONE, 2);
        let fs: Arc<dyn Fs> = Arc::new(Memory::default());
        fs.create_dir_all(Path::new("/sst")).expect("directory");
        let table_dir = TableDir { fs, dir: "/sst".into() };
        let room = FileRoom::unlimited();
        let tables = Tables::new(table_dir, room, StoreCache::own(1 << 20)).with_memory(memory);
        let tables = Arc::new(tables);
        let id = tables.take_id();
        let options =
            WriterOptions { compression, block_bytes: 512, file_number: id, ..Default::default() };
        let mut writer = Writer::new(Vec::new(), options);
        for number in 0..KEYS {
            let key = number.to_be_bytes();
            writer.add(&key, Seq::new(1), EntryKind::Value, &value(number)).expect("add");
        }
        let (bytes, summary) = writer.finish().expect("finish");
        let memory = tables.memory.as_ref().expect("memory");
        let extent = memory.tables.write(&bytes, Writes::Levels).expect("room");
        let desc = TableDesc {
            tier: 0,
            id,
            extent: Some(extent.extent()),
            keyspace: 0,
            level: 1,
            len: summary.len,
            sum: 0,
            range_deletes: 0,
            ends_before: false,
            global_seq: Seq::ZERO,
            entries: summary.entries,
            deletions: 0,
            min_seq: Seq::new(1),
            max_seq: Seq::new(1),
            smallest: summary.smallest,
            largest: summary.largest,
            values: Vec::new(),
        };
        let space = TableSpace::file(&tables, FilePlace::own_table(id)).with_memory(extent);
        Made {
            region,
            tables,
            table: Table::new(NewTable {
                desc,
                space,
                values: Vec::new(),
                reads: 0,
                warm: Vec::new(),
            }),
        }
    }

    fn walk(table: &Table) -> base::Result<Vec<Vec<u8>>> {
        let (mut cursor, mut values) = (table.scanned(Reading::Alone)?.cursor(), Vec::new());
        cursor.first()?;
        while cursor.valid() {
            values.push(cursor.value().to_vec());
            cursor.next()?;
        }
        Ok(values)
    }

    #[test]
    fn data_is_neither_copied_nor_cached() {
        for compression in [Compression::None, Compression::Lz4] {
            let placed = placed(compression);
            let table = placed.table.open().expect("open");
            let pool = placed.region.bytes(0, placed.region.len() as usize).as_ptr_range();
            for number in 0..KEYS {
                let hit = table.get(&number.to_be_bytes(), SEQ_MAX).expect("get").expect("there");
                assert_eq!(hit.value(), value(number));
                let lies_there = pool.contains(&hit.value().as_ptr());
                assert_eq!(lies_there, compression == Compression::None);
            }
            let expected: Vec<_> = (0..KEYS).map(value).collect();
            assert_eq!(walk(&placed.table).expect("scan"), expected);
            let figures = placed.tables.cache.cache.figures();
            assert_eq!((figures.inserts, figures.hits, figures.misses), (0, 0, 0));
            assert!(figures.held > 0, "index and filter are in DRAM");
        }
    }

    #[test]
    fn a_block_keeps_the_extent_of_its_table() {
        let Made { region: _, tables, table } = placed(Compression::None);
        let hit = table.open().expect("open").get(&7_u32.to_be_bytes(), SEQ_MAX).expect("get");
        let taken = || tables.memory.as_ref().expect("memory").tables.taken();
        let before = taken();
        table.set_dropped();
        drop(table);
        assert_eq!(taken(), before, "it is read");
        assert_eq!(hit.as_ref().expect("there").value(), value(7));
        drop(hit);
        assert_eq!(taken(), 0);
    }

    #[test]
    fn damage_is_found_whenever_it_happened() {
        let placed = placed(Compression::None);
        let table = placed.table.open().expect("open");
        let get = |number: u32| table.get(&number.to_be_bytes(), SEQ_MAX);
        assert!(get(200).expect("get").is_some(), "it is whole");
        let start = placed.table.start();
        let at = start + placed.table.desc.len / 3;
        let byte = placed.region.bytes(at, 1)[0] ^ 4;
        let _durable =
            placed.region.fence(placed.region.flush(placed.region.copy(Site::Table, at, &[byte])));
        let failed = (0..KEYS).filter_map(|number| get(number).err());
        let failed: Vec<_> = failed.map(|error| error.kind()).collect();
        assert!((2..20).contains(&failed.len()), "a block: {failed:?}");
        assert!(failed.iter().all(|kind| *kind == ErrorKind::Corruption));
        assert_eq!(walk(&placed.table).expect_err("its block").kind(), ErrorKind::Corruption);
    }
}
