//! A table of the tree: what the manifest says of it, and its file or extent, opened when first read.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use base::planted::{self, Bug};
use base::{Error, ErrorKind, Result, Seq};
use sst::{Handle, Layout};

use super::ahead::{Ahead, Probing};
use super::blocks::{CachedBlocks, File, Reading};
use super::desc::TableDesc;
use super::heat::Heat;
use super::memory::PmFile;
use super::placed::PlacedBlocks;
use super::scanned::ScannedBlocks;
use super::space::{NewTable, TableSpace};
use super::tables::Tables;
use super::value_file::ValueFile;
use crate::busy::Busy;
use crate::cache::pm::TableHold;
use crate::ranges::Ranges;
use crate::tree::facts::TableFacts;
use crate::tree::verify::verify;

/// A table; its file or extent goes with its last holder once an edit dropped it (I-TREE-4).
pub(crate) struct Table {
    /// Its level is the one that it was opened in; see [`Table::desc_at`].
    pub desc: TableDesc,
    /// What it refers to, in the order of `desc.values`.
    pub values: Vec<Arc<ValueFile>>,
    /// Keeps it known to the cache in persistent memory. It goes before the file does.
    _known: Option<TableHold>,
    space: Arc<TableSpace>,
    open: OnceLock<OpenTable>,
    /// A compaction under way reads it.
    pub busy: Arc<Busy>,
    /// How much it is read, where there are several tiers.
    pub heat: Arc<Heat>,
}

struct OpenTable {
    table: Arc<sst::Table<CachedBlocks>>,
    ranges: Ranges,
}

impl Table {
    /// A table that a durable edit names.
    pub(crate) fn new(NewTable { desc, space, values, reads, .. }: NewTable) -> Table {
        space.set_named();
        values.iter().for_each(|file| file.add_table());
        let (space, open, busy) = (Arc::new(space), OnceLock::new(), Arc::<Busy>::default());
        let replaced = Arc::clone(&busy);
        let is_leaving = move || replaced.is_taken();
        let cache = &space.tables().cache;
        let in_file = desc.extent.is_none();
        let _known = in_file.then(|| cache.know(desc.id, desc.sum, is_leaving)).flatten();
        let heat = Arc::new(Heat::default());
        heat.add(reads);
        Table { desc, values, _known, space, open, busy, heat }
    }

    fn tables(&self) -> &Arc<Tables> {
        self.space.tables()
    }

    /// Its file, if it is one.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        self.desc.place().map(|place| self.tables().path(place))
    }

    /// Its file, or the pool.
    pub(crate) fn lies_in(&self) -> PathBuf {
        let pool = self.tables().memory.as_ref().map(|memory| memory.tables.pool());
        self.path().or(pool).unwrap_or_default()
    }

    /// Offset of its first byte in its file, or in the pool.
    pub(crate) fn start(&self) -> u64 {
        self.desc.extent.map_or(0, |extent| extent.at.get())
    }

    /// Whether it lies in persistent memory.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.space.extent().is_some()
    }

    /// A planted bug: its extent goes although an edit names it.
    pub(crate) fn plant_free(&self) {
        let _was_named = self.space.set_dropped();
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> Result<Arc<dyn ssd::Read>> {
        self.tables().open(&self.desc, Some(Arc::clone(&self.space)))
    }

    /// Itself in persistent memory, if it lies there; what is read of it keeps it there.
    fn in_memory(&self) -> Result<Option<Arc<PmFile>>> {
        let (Some(extent), Some(memory)) = (self.desc.extent, &self.tables().memory) else {
            return Ok(None);
        };
        let is_kept = !planted::is(Bug::FreeLentPmTable);
        let hold = is_kept.then(|| Arc::clone(&self.space));
        memory.tables.open(self.desc.id, extent, self.desc.len, hold).map(Some)
    }

    /// What the manifest says of it where it stands in `level`.
    pub(crate) fn desc_at(&self, level: usize) -> TableDesc {
        let mut desc = TableDesc { level: level as u8, ..self.desc.clone() };
        if planted::is(Bug::MoveForgetsValues) {
            desc.values.clear();
        }
        desc
    }

    /// What the pick of compactions looks at.
    pub(crate) fn facts(&self) -> TableFacts<'_> {
        TableFacts {
            bytes: self.desc.len,
            weight: self.desc.weight(),
            bounds: self.desc.bounds(),
            busy: self.busy.is_taken(),
            deletes: match self.desc {
                TableDesc { range_deletes: 1.., .. } => 1000,
                TableDesc { deletions, entries, .. } => (deletions * 1000 / entries.max(1)) as u32,
            },
        }
    }

    /// Marks that no durable edit names this table.
    pub(crate) fn set_dropped(&self) {
        self.busy.spend();
        if self.space.set_dropped() {
            self.values.iter().for_each(|file| file.drop_table());
        }
    }

    /// The open table.
    ///
    /// # Errors
    /// `Corruption` if the file is missing, has another length, or its ends do not decode.
    #[inline]
    pub(crate) fn open(&self) -> Result<&Arc<sst::Table<CachedBlocks>>> {
        match self.open.get() {
            Some(open) => Ok(&open.table),
            None => Ok(&self.open_now()?.table),
        }
    }

    /// Its range deletions.
    ///
    /// # Errors
    /// As [`Table::open`].
    pub(crate) fn ranges(&self) -> Result<&Ranges> {
        match self.open.get() {
            Some(open) => Ok(&open.ranges),
            None => Ok(&self.open_now()?.ranges),
        }
    }

    #[cold]
    fn open_now(&self) -> Result<&OpenTable> {
        let lost = |what: &str| {
            Error::corruption(
                "open",
                format!(
                    "{} of keyspace {} {what}; restore it, or save the rest with `strandline repair`",
                    self.name(),
                    self.desc.keyspace
                ),
            )
        };
        // The file is there, has its length, and its ends decode.
        let file = self.bytes().map_err(|error| match error.kind() {
            ErrorKind::NotFound => lost("is missing"),
            _ => error,
        })?;
        if file.len() != self.desc.len {
            return Err(lost(&format!("has {} bytes instead of {}", file.len(), self.desc.len)));
        }
        let file = File(file);
        let layout = Layout::open(&file).map_err(|error| match error.kind() {
            // The process that wrote its name into the manifest could read it.
            ErrorKind::NotSupported if verify(&*file.0, self.desc.len, self.desc.sum).is_err() => {
                lost("fails its checksum")
            }
            _ => error,
        })?;
        // It is the table that the manifest names. Ingested ones do not know their number.
        let numbered = self.desc.global_seq == Seq::ZERO;
        let properties = layout.properties();
        if (numbered && properties.file_number != self.desc.id)
            || properties.entries != self.desc.entries + self.desc.range_deletes
        {
            return Err(lost("is not the table that the manifest names"));
        }
        let layout = match self.desc.global_seq {
            Seq::ZERO => layout,
            seq => layout.with_global_seq(seq),
        };
        let ranges = Ranges::new(&layout.range_deletes(&file)?);
        let blocks = CachedBlocks::new(self.desc.id, file, &self.tables().cache);
        let blocks = match self.is_in_memory() {
            true => blocks,
            false => blocks.in_tier(self.tables().tiers.times.of_file(self.desc.tier)),
        };
        let blocks = match self.tables().tiers.are_several() {
            true => blocks.with_heat(&self.heat),
            false => blocks,
        };
        let blocks = match self.in_memory()? {
            Some(memory) => blocks.with_placed(PlacedBlocks(memory)),
            None => blocks,
        };
        let table = Arc::new(sst::Table::new(Arc::new(layout), blocks));
        Ok(self.open.get_or_init(|| OpenTable { table, ranges }))
    }

    fn name(&self) -> String {
        match self.path() {
            Some(path) => path.display().to_string(),
            None => format!(
                "table {} at offset {} of {}",
                self.desc.id,
                self.start(),
                self.lies_in().display()
            ),
        }
    }

    /// The same table for one walk, which reads ahead, and reads blocks as `reading` says until it is long.
    pub(crate) fn scanned(&self, reading: Reading) -> Result<Arc<sst::Table<ScannedBlocks>>> {
        let open = self.open()?;
        let blocks = match self.is_in_memory() {
            true => ScannedBlocks::of_memory(open),
            false => ScannedBlocks::of_file(open, reading),
        };
        Ok(Arc::new(sst::Table::new(Arc::clone(open.layout()), blocks)))
    }

    /// The same table, read past the cache: for reading all of it once, from front to back.
    pub(crate) fn uncached(&self, probing: Probing) -> Result<Arc<sst::Table<Ahead>>> {
        let open = self.open()?;
        let file = File(Arc::clone(&open.blocks().file().0));
        let end = open.layout().properties().data_size;
        let ahead = match probing {
            Probing::EachBlock if !self.is_in_memory() => Ahead::new(file, end).probing(open),
            Probing::EachBlock | Probing::Nothing => Ahead::new(file, end),
        };
        Ok(Arc::new(sst::Table::new(Arc::clone(open.layout()), ahead)))
    }

    /// Puts those of its data blocks at `handles` in the cache that are not there, and has at hand what leads to them.
    ///
    /// # Errors
    /// As [`Table::open`], and those of reading them.
    pub(crate) fn warm(&self, handles: &[Handle]) -> Result<()> {
        if self.is_in_memory() {
            return Ok(());
        }
        let open = self.open()?;
        open.read_roots()?;
        open.blocks().warm(open.layout(), handles)
    }
}
