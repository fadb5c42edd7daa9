//! Value files: values apart from their keys, which tables refer to. Each is written whole, in key order, by one part of a
//! compaction, and never changed. It is a file, or lies in persistent memory, where its values are read in their place.
//!
//! **I-VALUE-1** An edit that names a table comes after the value files that the table refers to are whole, synced and
//! verified, and so is their directory, or fenced and verified; the first such edit names them.
//! **I-VALUE-2** What is live in a value file is what tables refer to, and counted from them alone.
//! **I-VALUE-3** A value file is removed, and its extent is free, only after the edit that drops the last table that refers to it is durable and the
//! last reader of all such tables left. So references need no reader's rule of their own.
//! **I-VALUE-4** One that moves to another tier (I-TIER-2) stays the same value in memory, and has another [`ValueSite`]: no table, no
//! reference and no count changes. Its old file goes once the edit that says so is durable and the last reader of that file left.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use base::planted::{self, Bug};
use base::{Error, Result, Seq};
use sst::{Block, EntryKind, Hit, Role, ValueRef};

use super::desc::{ValueFileDesc, ValueShare};
use super::heat::{BLOCK, Heat};
use super::memory::{PmFile, PmRoom};
use super::space::TableSpace;
use super::table::Table;
use super::tables::Tables;
use super::tiers::OWN;
use super::value_site::{ValueBytes, ValueSite};
use crate::busy::Busy;
use crate::cache::pm::TableHold;
use crate::cache::{BlockKey, BlockSource, Refetch};
use crate::record::found::Found;
use crate::ttl::value_of;

/// A value file; it goes with its last holder once no table that an edit names refers to it (I-VALUE-3).
pub(crate) struct ValueFile {
    /// Its tier is that which it was written or opened in; see [`ValueFile::desc_now`].
    pub desc: ValueFileDesc,
    /// Itself in persistent memory, opened when first read there: what lies there does not move.
    placed: OnceLock<Arc<PmFile>>,
    /// Keeps it known to the cache in persistent memory. It goes before the file does.
    _known: Option<TableHold>,
    site: ArcSwap<ValueSite>,
    /// The tables of the store.
    store: Arc<Tables>,
    /// Tables that durable edits name and that refer to it.
    tables: AtomicU64,
    /// It moves to another tier.
    pub busy: Busy,
    /// How much it is read, where there are several tiers.
    pub heat: Heat,
}

/// A value that is not in DRAM.
struct ValueBlock<'v> {
    file: &'v ValueFile,
    key: &'v [u8],
    of: &'v ValueRef,
}

impl BlockSource for ValueBlock<'_> {
    fn restore(&self, bytes: Vec<u8>) -> Result<Block> {
        Ok(self.of.restore(bytes))
    }

    fn refetch(&self) -> Refetch {
        self.file.refetch()
    }

    fn load(self) -> Result<Block> {
        self.file.note_read(self.of.len);
        self.file.timed(1, || self.file.load(self.key, self.of))
    }
}

impl ValueFile {
    pub(crate) fn new(desc: ValueFileDesc, space: TableSpace) -> ValueFile {
        let store = Arc::clone(space.tables());
        let site = ArcSwap::from_pointee(ValueSite::new(space));
        let (placed, tables) = (OnceLock::new(), AtomicU64::new(0));
        let (busy, heat) = (Busy::default(), Heat::default());
        let in_file = desc.extent.is_none();
        let _known = in_file.then(|| store.cache.know(desc.id, desc.sum, || false)).flatten();
        ValueFile { desc, _known, site, placed, store, tables, busy, heat }
    }

    /// What the manifest says of it.
    pub(crate) fn desc_now(&self) -> ValueFileDesc {
        let tier = match self.desc.extent {
            Some(_) => OWN,
            None => self.site.load().place().tier,
        };
        ValueFileDesc { tier, ..self.desc.clone() }
    }

    /// Where it lies now; it stays there as long as this is held.
    pub(crate) fn site(&self) -> Arc<ValueSite> {
        self.site.load_full()
    }

    /// A durable edit says that it lies there now. Its old place goes with the last reader (I-VALUE-4).
    pub(crate) fn move_to(&self, site: ValueSite) {
        site.space.set_named();
        let before = self.site.swap(Arc::new(site));
        let _was_named = before.space.set_dropped();
    }

    /// A durable edit names one more table that refers to it.
    pub(crate) fn add_table(&self) {
        self.tables.fetch_add(1, Ordering::AcqRel);
        self.site.load().space.set_named();
    }

    /// No durable edit names a table any more that refers to it.
    pub(crate) fn drop_table(&self) {
        let with_first = planted::is(Bug::DropValuesWithFirstTable);
        if self.tables.fetch_sub(1, Ordering::AcqRel) == 1 || with_first {
            let _was_named = self.site.load().space.set_dropped();
            if with_first {
                self.plant_remove();
            }
        }
    }

    /// A planted bug: the file goes now.
    pub(crate) fn plant_remove(&self) {
        self.store.cache.purge(self.desc.id);
        let _gone = self.desc_now().place().map(|place| self.store.remove(place));
    }

    /// A planted bug: its extent goes although an edit names it.
    pub(crate) fn plant_free(&self) {
        let _was_named = self.site.load().space.set_dropped();
    }

    /// Tables that durable edits name and that refer to it.
    pub(crate) fn tables(&self) -> u64 {
        self.tables.load(Ordering::Acquire)
    }

    /// Whether a durable edit names it.
    pub(crate) fn is_named(&self) -> bool {
        self.tables() > 0
    }

    /// Its file, if it is one.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        self.desc_now().place().map(|place| self.store.path(place))
    }

    /// Its file, or the pool.
    pub(crate) fn lies_in(&self) -> PathBuf {
        let pool = self.room().map(|room| room.pool());
        self.path().or(pool).unwrap_or_default()
    }

    /// Offset of its first byte in its file, or in the pool.
    pub(crate) fn start(&self) -> u64 {
        self.desc.extent.map_or(0, |extent| extent.at.get())
    }

    /// Whether it lies in persistent memory.
    #[inline]
    pub(crate) fn is_in_memory(&self) -> bool {
        self.desc.extent.is_some()
    }

    fn room(&self) -> Option<&Arc<PmRoom>> {
        self.store.memory.as_ref().map(|memory| &memory.values)
    }

    /// Its bytes, where they lie now.
    ///
    /// # Errors
    /// As [`ValueSite::bytes`].
    pub(crate) fn file(&self) -> Result<ValueBytes> {
        self.site.load_full().bytes(&self.desc)
    }

    /// Itself in persistent memory, if it lies there; what is read of it keeps it there.
    #[inline]
    fn placed(&self) -> Result<Option<&Arc<PmFile>>> {
        match self.placed.get() {
            Some(placed) => Ok(Some(placed)),
            None => self.place_now(),
        }
    }

    #[cold]
    fn place_now(&self) -> Result<Option<&Arc<PmFile>>> {
        let (Some(extent), Some(room)) = (self.desc.extent, self.room()) else { return Ok(None) };
        let hold = Some(Arc::clone(&self.site.load().space));
        let placed = room.open(self.desc.id, extent, self.desc.len, hold)?;
        Ok(Some(self.placed.get_or_init(|| placed)))
    }

    /// Where in the file the record of a value lies.
    ///
    /// # Errors
    /// `Corruption` if it cannot lie there.
    pub(crate) fn record(&self, key: &[u8], of: &ValueRef) -> Result<Range<u64>> {
        let range = of.record(key.len()).filter(|range| range.end <= self.desc.len);
        range.ok_or_else(|| of.damaged(key, &self.name(), "no record lies there"))
    }

    /// The value of `key` where it lies, if that is persistent memory: the block cache does not have it, and it is copied only if
    /// it is compressed. All of its record is read and verified.
    pub(crate) fn in_place(&self, key: &[u8], of: &ValueRef) -> Result<Option<StoredValue>> {
        let Some(placed) = self.placed()? else { return Ok(None) };
        let record = self.record(key, of)?;
        let lent = placed.lend(record.start, (record.end - record.start) as usize)?;
        let block = of.lend(key, lent, || self.name())?;
        Ok(Some(StoredValue::in_block(key, of, Arc::new(block))))
    }

    /// The record of the value of `key` where it lies, if that is persistent memory.
    pub(crate) fn record_in_place(&self, key: &[u8], of: &ValueRef) -> Result<Option<&[u8]>> {
        let Some(placed) = self.placed()? else { return Ok(None) };
        let record = self.record(key, of)?;
        placed.read(record.start, (record.end - record.start) as usize).map(Some)
    }

    /// The value of `key`, where it lies, or from the block cache or through it.
    pub(crate) fn get(&self, key: &[u8], of: &ValueRef) -> Result<StoredValue> {
        if self.is_in_memory()
            && let Some(value) = self.in_place(key, of)?
        {
            return Ok(value);
        }
        let source = ValueBlock { file: self, key, of };
        let block = self.store.cache.get(self.cache_key(of), Role::Value, source)?;
        Ok(StoredValue::in_block(key, of, block))
    }

    /// A hint that the value of `key` will be read.
    fn will_need(&self, key: &[u8], of: &ValueRef) {
        if let (Ok(file), Some(record)) = (self.file(), of.record(key.len())) {
            file.0.will_need(record.start, record.end - record.start);
        }
    }

    /// Whether a record that an entry refers to is to be read from the device.
    pub(crate) fn is_to_be_read(&self, of: &ValueRef, record: &Range<u64>) -> bool {
        let lies_there = record.end <= self.desc.len && !self.is_in_memory();
        lies_there && !self.store.cache.has(self.cache_key(of))
    }

    /// The value of `key`, if a cache has it.
    pub(crate) fn cached(&self, key: &[u8], of: &ValueRef) -> Option<StoredValue> {
        let restore = |bytes| Ok(of.restore(bytes));
        let block = self.store.cache.find(self.cache_key(of), Role::Value, restore)?;
        Some(StoredValue::in_block(key, of, block))
    }

    /// Takes a record that was read into the block cache.
    ///
    /// # Errors
    /// As [`ValueRef::open`].
    pub(crate) fn keep(&self, key: &[u8], of: &ValueRef, record: Vec<u8>) -> Result<StoredValue> {
        let block = of.open(key, record, || self.name())?;
        let block = self.store.cache.keep(self.cache_key(of), Role::Value, block, self.refetch());
        Ok(StoredValue::in_block(key, of, block))
    }

    /// The value of `key`, past the block cache.
    pub(crate) fn get_past_cache(&self, key: &[u8], of: &ValueRef) -> Result<StoredValue> {
        Ok(StoredValue::in_block(key, of, Arc::new(self.load(key, of)?)))
    }

    /// The value of `key` in its record, which was read.
    ///
    /// # Errors
    /// As [`ValueRef::open`].
    pub(crate) fn open(&self, key: &[u8], of: &ValueRef, record: Vec<u8>) -> Result<StoredValue> {
        let block = of.open(key, record, || self.name())?;
        Ok(StoredValue::in_block(key, of, Arc::new(block)))
    }

    /// Verifies the record of the value of `key`.
    ///
    /// # Errors
    /// As [`ValueRef::open`].
    pub(crate) fn verify(&self, key: &[u8], of: &ValueRef, record: &[u8]) -> Result<()> {
        of.verify(key, record, || self.name()).map(drop)
    }

    fn cache_key(&self, of: &ValueRef) -> BlockKey {
        self.store.cache.key(self.desc.id, of.at)
    }

    /// What reading a value of it again costs.
    fn refetch(&self) -> Refetch {
        self.store.tiers.times.refetch(self.site.load().place().tier)
    }

    /// Notes that so many bytes were read of the device, where a faster one may have them.
    pub(crate) fn note_read(&self, bytes: u64) {
        if bytes > 0 && self.store.tiers.are_several() {
            self.heat.add(bytes.div_ceil(BLOCK));
        }
    }

    /// Reads so many values of it at once.
    fn timed<T>(&self, values: usize, read: impl FnOnce() -> T) -> T {
        let tier = self.site.load().place().tier;
        self.store.tiers.times.timed(tier, values as u32, read)
    }

    fn load(&self, key: &[u8], of: &ValueRef) -> Result<Block> {
        let range = self.record(key, of)?;
        let mut record = vec![0; (range.end - range.start) as usize];
        self.file()?.0.read_at(range.start, &mut record)?;
        of.open(key, record, || self.name())
    }

    /// What messages call it.
    pub(crate) fn name(&self) -> String {
        match (self.desc.extent, self.room()) {
            (Some(extent), Some(room)) => room.name(self.desc.id, extent),
            _ => self.store.path(self.site.load().place()).display().to_string(),
        }
    }
}

/// A value of a value file, verified and as it was put.
#[derive(Clone, Debug)]
pub(crate) struct StoredValue {
    pub block: Arc<Block>,
    pub range: Range<usize>,
}

impl StoredValue {
    fn in_block(key: &[u8], of: &ValueRef, block: Arc<Block>) -> StoredValue {
        StoredValue { range: of.within(key.len(), &block), block }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.block.part(self.range.clone())
    }

    /// As an entry of a table with the value in it.
    fn into_hit(self, seq: Seq) -> Hit {
        Hit { seq, kind: EntryKind::Value, block: self.block, range: self.range }
    }
}

/// The value files that the tables of a keyspace refer to, by their numbers.
#[derive(Default)]
pub(crate) struct ValueFiles {
    files: BTreeMap<u64, LiveValues>,
}

/// A value file, and what tables refer to in it.
pub(crate) struct LiveValues {
    pub file: Arc<ValueFile>,
    pub tables: u64,
    pub values: u64,
    pub bytes: u64,
}

impl ValueFiles {
    /// Those that `tables` refer to.
    pub(crate) fn of<'t>(tables: impl Iterator<Item = &'t Arc<Table>>) -> ValueFiles {
        let mut files = ValueFiles::default();
        for table in tables {
            for (share, file) in table.desc.values.iter().zip(&table.values) {
                files.add(share, file);
            }
        }
        files
    }

    /// These; it is not known what tables refer to.
    pub(crate) fn loose(files: Vec<Arc<ValueFile>>) -> ValueFiles {
        let live = |file| LiveValues { file, tables: 0, values: 0, bytes: 0 };
        ValueFiles { files: files.into_iter().map(|file| (file.desc.id, live(file))).collect() }
    }

    fn add(&mut self, share: &ValueShare, file: &Arc<ValueFile>) {
        let live = self.files.entry(share.file).or_insert_with(|| LiveValues {
            file: Arc::clone(file),
            tables: 0,
            values: 0,
            bytes: 0,
        });
        live.tables += 1;
        live.values += share.values;
        live.bytes += share.bytes;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &LiveValues> {
        self.files.values()
    }

    pub(crate) fn get(&self, id: u64) -> Option<&Arc<ValueFile>> {
        self.live(id).map(|live| &live.file)
    }

    pub(crate) fn live(&self, id: u64) -> Option<&LiveValues> {
        self.files.get(&id)
    }

    /// The file and the place that `stored`, the reference of `key`, leads to.
    ///
    /// # Errors
    /// `Corruption` if it leads nowhere.
    pub(crate) fn find(&self, key: &[u8], stored: &[u8]) -> Result<(&Arc<ValueFile>, ValueRef)> {
        let of = ValueRef::decode(stored);
        match of.and_then(|of| Some((self.get(of.file)?, of))) {
            Some(found) => Ok(found),
            None => Err(Error::corruption(
                "read value",
                format!(
                    "a table refers to a value of key {} in no value file of the store; restore a copy, or save the rest \
                     with `strandline repair`",
                    base::bytes::shown(key)
                ),
            )),
        }
    }

    /// The entry of `key` that `hit` is, with the value itself where it refers to one by `stored`.
    fn resolve(&self, key: &[u8], hit: &Hit, stored: &[u8]) -> Result<Hit> {
        let (file, of) = self.find(key, stored)?;
        Ok(file.get(key, &of)?.into_hit(hit.seq))
    }

    /// What was found of `key` with the value itself, where a table refers to one. Where values expire it was judged before.
    #[inline]
    pub(crate) fn fetched(&self, key: &[u8], found: Found) -> Result<Found> {
        match found {
            Found::Table(hit) if hit.kind == EntryKind::ValueRef => {
                self.resolve(key, &hit, hit.value()).map(Found::Table)
            }
            Found::TimedTable(hit) if hit.kind == EntryKind::ValueRef => {
                self.resolve(key, &hit, value_of(hit.value())).map(Found::Table)
            }
            found => Ok(found),
        }
    }

    /// Puts the values themselves in the place of references, those of keys that are looked up together. What the block cache
    /// does not have of one file is read at the same time; of several in persistent memory all are fetched ahead.
    pub(crate) fn fetch_many(&self, keys: &[&[u8]], found: &mut [Option<Found>]) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        // By file: the number of the key, and where its record is.
        let mut wanted: BTreeMap<u64, Vec<(usize, ValueRef)>> = BTreeMap::new();
        for (no, key) in keys.iter().enumerate() {
            if let Some(Found::Table(hit)) = &found[no]
                && hit.kind == EntryKind::ValueRef
            {
                let (file, of) = self.find(key, hit.value())?;
                if file.is_in_memory() {
                    file.will_need(key, &of);
                    continue;
                }
                match file.cached(key, &of) {
                    Some(value) => found[no] = Some(Found::Table(value.into_hit(hit.seq))),
                    None => wanted.entry(of.file).or_default().push((no, of)),
                }
            }
        }
        for (id, wanted) in wanted.iter().filter(|(_, wanted)| wanted.len() > 1) {
            let Some(file) = self.get(*id) else { continue };
            let records = wanted.iter().map(|(no, of)| file.record(keys[*no], of));
            let records = records.collect::<Result<Vec<Range<u64>>>>()?;
            let mut buffers: Vec<Vec<u8>> = records
                .iter()
                .map(|record| vec![0; (record.end - record.start) as usize])
                .collect();
            let ranges = records.iter().zip(&mut buffers);
            let mut ranges: Vec<(u64, &mut [u8])> =
                ranges.map(|(record, bytes)| (record.start, &mut bytes[..])).collect();
            // What fails together is read alone, and tells then which it is.
            let bytes = file.file()?;
            if file.timed(wanted.len(), || bytes.0.read_many(&mut ranges)).is_err() {
                continue;
            }
            for ((no, of), record) in wanted.iter().zip(buffers) {
                let Some(Found::Table(hit)) = &found[*no] else { continue };
                file.note_read(of.len);
                let value = file.keep(keys[*no], of, record)?;
                found[*no] = Some(Found::Table(value.into_hit(hit.seq)));
            }
        }
        Ok(())
    }
}
