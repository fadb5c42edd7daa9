//! The space of a table or value file: a file, or an extent of the pool. It is one owned value, from the first byte that is written, over
//! the compaction that installs it, to the table itself. Its drop frees the space once, after the last holder
//! (I-TREE-4). A [`TableDesc`] only names it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::Result;
use base::planted::{self, Bug};
use pool::Extent;
use sst::Handle;

use super::desc::TableDesc;
use super::memory::PmExtent;
use super::names::{FileName, FilePlace};
use super::room::Writes;
use super::tables::Tables;
use super::tiers::{FileSite, Tier};
use super::value_file::ValueFile;

/// Bytes that a file claims at most: where nothing says at what length tables are cut, sums of claims must not wrap.
const CLAIM_MOST: u64 = 1 << 40;

/// A table that is written and durable, and that no edit names yet.
pub(crate) struct NewTable {
    pub desc: TableDesc,
    pub space: TableSpace,
    /// What it refers to, in the order of `desc.values`.
    pub values: Vec<Arc<ValueFile>>,
    /// Blocks of its inputs that were read lately, its share of them.
    pub reads: u64,
    /// Its data blocks that are to take the place of blocks of its inputs that are cached.
    pub warm: Vec<Handle>,
}

/// The file or extent of a table or of values.
pub(crate) struct TableSpace {
    place: FilePlace,
    tables: Arc<Tables>,
    /// Bytes of the file that are counted.
    counted: u64,
    /// Bytes that it is yet to take of its tier.
    coming: u64,
    /// Its extent in persistent memory; none: it is a file.
    memory: Option<PmExtent>,
    /// An edit names the table, so a drop frees nothing.
    named: AtomicBool,
    /// An edit named it once.
    going: AtomicBool,
}

impl TableSpace {
    /// A file that is being written or about to be.
    pub(crate) fn file(tables: &Arc<Tables>, place: FilePlace) -> TableSpace {
        tables.owners.begin();
        tables.use_place(place);
        TableSpace {
            place,
            tables: Arc::clone(tables),
            counted: 0,
            coming: 0,
            memory: None,
            named: AtomicBool::new(false),
            going: AtomicBool::new(false),
        }
    }

    /// As [`TableSpace::file`], in persistent memory.
    pub(crate) fn with_memory(mut self, memory: PmExtent) -> TableSpace {
        self.memory = Some(memory);
        self
    }

    /// As [`TableSpace::file`], in the tier where it belongs or the next with room for the `len` bytes that it will have, about: nothing
    /// else takes them there.
    pub(crate) fn claimed(
        tables: &Arc<Tables>,
        name: FileName,
        site: &FileSite,
        len: u64,
    ) -> TableSpace {
        let len = len.min(CLAIM_MOST);
        let tier = tables.tiers.claim_place(site, len).no();
        let mut space = TableSpace::file(tables, FilePlace { tier, name });
        space.coming = len;
        space
    }

    /// Claims so many bytes more of its tier.
    pub(crate) fn expect(&mut self, len: u64) {
        let len = len.min(CLAIM_MOST);
        self.tier().into_iter().for_each(|tier| tier.claim(len));
        self.coming += len;
    }

    /// The same, if its tier has room for them.
    pub(crate) fn try_expect(&mut self, len: u64) -> bool {
        let claimed = self.tier().is_none_or(|tier| tier.try_claim(len));
        if claimed {
            self.coming += len;
        }
        claimed
    }

    fn tier(&self) -> Option<&Tier> {
        self.tables.tiers.get(self.place.tier)
    }

    /// Takes room in files for so many more bytes.
    pub(crate) fn take(&mut self, len: u64, writes: Writes) -> Result<()> {
        self.tables.take_room(self.place.tier, len, writes)?;
        self.counted += len;
        self.expect_less(len);
        Ok(())
    }

    /// Bytes that it is yet to take of what was expected.
    pub(crate) fn coming(&self) -> u64 {
        self.coming
    }

    /// Expects so many bytes less; none, once the file is whole.
    pub(crate) fn expect_less(&mut self, len: u64) {
        let less = len.min(self.coming);
        self.coming -= less;
        self.tier().into_iter().for_each(|tier| tier.unclaim(less));
    }

    /// Counts the bytes of the file, which is there.
    pub(crate) fn count(&mut self, len: u64) {
        self.counted += len;
        self.tables.room.count(len);
        self.tier().into_iter().for_each(|tier| tier.count(len));
    }

    pub(crate) fn tables(&self) -> &Arc<Tables> {
        &self.tables
    }

    /// Where the file is, or would be.
    pub(crate) fn place(&self) -> FilePlace {
        self.place
    }

    /// Its extent in persistent memory.
    pub(crate) fn extent(&self) -> Option<Extent> {
        self.memory.as_ref().map(PmExtent::extent)
    }

    /// Marks that a durable edit names the table.
    pub(crate) fn set_named(&self) {
        self.named.store(true, Ordering::Release);
    }

    /// Marks that no durable edit names it any more; tells whether one did.
    pub(crate) fn set_dropped(&self) -> bool {
        let named = self.named.swap(false, Ordering::AcqRel);
        if named && !self.going.swap(true, Ordering::AcqRel) {
            self.tier().into_iter().for_each(|tier| tier.note_going(self.counted));
        }
        if named && frees_early(self.place.name) {
            self.memory.iter().for_each(PmExtent::plant_free);
        }
        named
    }
}

impl Drop for TableSpace {
    fn drop(&mut self) {
        self.expect_less(u64::MAX);
        let memory = self.memory.take();
        if *self.named.get_mut() {
            memory.into_iter().for_each(PmExtent::leave);
        } else {
            let going = if *self.going.get_mut() { self.counted } else { 0 };
            self.tables.add_dead(self.place, self.counted, going);
            if frees_early(self.place.name) {
                memory.into_iter().for_each(PmExtent::leave);
            }
        }
        self.tables.owners.end();
    }
}

/// Planted bugs: an extent goes when what is in it is marked, not with the last reader.
fn frees_early(name: FileName) -> bool {
    match name {
        FileName::Table(_) => {
            planted::is(Bug::FreePmTableBeforeEdit) || planted::is(Bug::FreeMovedPmTable)
        }
        FileName::Values(_) => {
            planted::is(Bug::FreePmValuesBeforeEdit) || planted::is(Bug::FreeReadPmValues)
        }
    }
}
