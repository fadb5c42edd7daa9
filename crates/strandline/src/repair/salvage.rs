//! All entries of a source that can be read, in order; each stretch that cannot is one error or several.

use std::ops::Bound;
use std::sync::Arc;

use art::{Direction, Versions};
use base::{Result, Seq};
use sst::{Blocks, Cursor, EntryKind, Layout, RangeDelete, Uncached};

use crate::level0::run::{BLOCK_ENTRIES, BlockBatch, Run};
use crate::memtable::{Memtable, is_skipped};
use crate::record::format::Kind;
use crate::record::store::{Leaf, Media};
use crate::span::Span;
use crate::tree::blocks::File;
use crate::tree::names::FilePlace;
use crate::tree::tables::Tables;
use crate::tree::value_file::ValueFiles;
use crate::ttl::STAMP_LEN;

/// A version of a key.
#[derive(Clone)]
pub(crate) struct SalvagedEntry {
    pub key: Vec<u8>,
    pub seq: Seq,
    pub kind: EntryKind,
    pub value: Vec<u8>,
}

/// The entries of a source.
pub(crate) type SalvagedEntries = Box<dyn Iterator<Item = Result<SalvagedEntry>>>;

/// The records of a memtable.
pub(crate) fn memtable(media: &Arc<Media>, memtable: &Arc<Memtable>) -> SalvagedEntries {
    // All at once: a damaged record has no key from which a second look could go on.
    let (mut leaves, forward) = (Vec::new(), Direction::Forward);
    memtable.index.scan(
        &**media,
        Bound::Unbounded,
        forward,
        Versions::All,
        usize::MAX,
        &mut leaves,
    );
    let (media, held) = (Arc::clone(media), Arc::clone(memtable));
    Box::new(leaves.into_iter().filter_map(move |leaf| {
        // The memtable holds what the leaves lead to.
        let _held = &held;
        record(&media, Leaf(leaf)).transpose()
    }))
}

/// The records that a run names.
pub(crate) fn run(media: &Arc<Media>, run: &Arc<Run>) -> SalvagedEntries {
    let (media, run) = (Arc::clone(media), Arc::clone(run));
    let (mut next, mut leaves) = (0, Vec::new().into_iter());
    Box::new(std::iter::from_fn(move || {
        loop {
            if let Some(leaf) = leaves.next() {
                match record(&media, Leaf(leaf)).transpose() {
                    Some(entry) => return Some(entry),
                    None => continue,
                }
            }
            if next >= run.entries() {
                return None;
            }
            let mut block = Vec::new();
            if let Err(error) = run.leaves(&media, BlockBatch::forward(next, 1), &mut block) {
                next += BLOCK_ENTRIES as u64;
                return Some(Err(error));
            }
            next += block.len() as u64;
            leaves = block.into_iter();
        }
    }))
}

/// Those of `entries` whose keys are in `span`; what cannot be read may be anywhere.
pub(crate) fn within(span: &Span, entries: SalvagedEntries) -> SalvagedEntries {
    let span = span.clone();
    Box::new(
        entries.filter(move |entry| entry.as_ref().map_or(true, |entry| span.holds(&entry.key))),
    )
}

/// A record, unless readers pass over it.
pub(crate) fn record(media: &Media, leaf: Leaf) -> Result<Option<SalvagedEntry>> {
    let entry = media.entry(leaf)?;
    if is_skipped(&entry) {
        return Ok(None);
    }
    let (kind, value) = match entry.kind {
        Kind::Put | Kind::PutExtent => (EntryKind::Value, media.value(&entry)?.to_vec()),
        Kind::Merge => (EntryKind::Merge, media.value(&entry)?.to_vec()),
        Kind::Delete | Kind::Blank | Kind::RangeDelete | Kind::Adopt => {
            (EntryKind::Delete, Vec::new())
        }
    };
    Ok(Some(SalvagedEntry { key: media.key(&entry).to_vec(), seq: entry.seq, kind, value }))
}

/// The entries of a table, past the blocks that are damaged.
pub(crate) fn table<B: Blocks + 'static>(table: Arc<sst::Table<B>>) -> SalvagedEntries {
    let mut walk = TableWalk {
        // An index that is damaged itself may fail more often than there are blocks.
        failures_left: table.layout().properties().data_blocks + 2,
        cursor: table.cursor(),
        state: SalvageState::New,
    };
    Box::new(std::iter::from_fn(move || walk.next()))
}

struct TableWalk<B> {
    cursor: Cursor<B>,
    state: SalvageState,
    failures_left: u64,
}

/// What the last move came to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SalvageState {
    New,
    Moved,
    Failed,
}

impl<B: Blocks> TableWalk<B> {
    fn next(&mut self) -> Option<Result<SalvagedEntry>> {
        if self.failures_left == 0 {
            return None;
        }
        let moved = match self.state {
            SalvageState::New => self.cursor.first(),
            SalvageState::Moved => self.cursor.next(),
            SalvageState::Failed => self.cursor.skip_block(),
        };
        self.state = if moved.is_ok() { SalvageState::Moved } else { SalvageState::Failed };
        if let Err(error) = moved {
            self.failures_left -= 1;
            return Some(Err(error));
        }
        let cursor = &self.cursor;
        cursor.valid().then(|| {
            Ok(SalvagedEntry {
                key: cursor.key().to_vec(),
                seq: cursor.seq(),
                kind: cursor.kind(),
                value: cursor.value().to_vec(),
            })
        })
    }
}

/// Bytes that may stand before a value or a reference: the time at which it expires.
#[derive(Clone, Copy)]
pub(crate) enum Stamps {
    Known(usize),
    /// The manifest is gone.
    Unknown,
}

/// The same with the values themselves in the place of references. Where a value cannot be read its key is lost, older versions
/// included: they do not count any more.
pub(crate) fn fetched(
    values: Arc<ValueFiles>,
    stamps: Stamps,
    entries: SalvagedEntries,
) -> SalvagedEntries {
    Box::new(entries.flat_map(move |entry| match entry {
        Ok(entry) if entry.kind == EntryKind::ValueRef => match fetch(&values, stamps, &entry) {
            Ok(value) => vec![Ok(SalvagedEntry { kind: EntryKind::Value, value, ..entry })],
            Err(error) => {
                let lost = SalvagedEntry { kind: EntryKind::Delete, value: Vec::new(), ..entry };
                vec![Err(error), Ok(lost)]
            }
        },
        entry => vec![entry],
    }))
}

/// What stands before a reference, and the value behind it.
fn fetch(values: &ValueFiles, stamps: Stamps, entry: &SalvagedEntry) -> Result<Vec<u8>> {
    let at = |stamp: usize| {
        let (time, reference) = entry.value.split_at(stamp.min(entry.value.len()));
        let (file, of) = values.find(&entry.key, reference)?;
        let value = file.get_past_cache(&entry.key, &of)?;
        Ok([time, value.bytes()].concat())
    };
    match stamps {
        Stamps::Known(stamp) => at(stamp),
        Stamps::Unknown => at(0).or_else(|error| at(STAMP_LEN).map_err(|_| error)),
    }
}

/// A table that nothing is known of but what it says itself.
pub(crate) struct LoneTable {
    pub keyspace: String,
    /// The keyspace's number; 0 if it was written elsewhere.
    pub keyspace_id: u64,
    /// Its entries have a number that only the manifest knew.
    pub ingested: bool,
    pub deletes: Vec<RangeDelete>,
    pub entries: SalvagedEntries,
}

/// Opens a file as a table.
pub(crate) fn lone_table(tables: &Tables, place: FilePlace) -> Result<LoneTable> {
    let file = File(tables.open_file(place)?);
    let layout = Layout::open(&file)?;
    let deletes = layout.range_deletes(&file)?;
    let properties = layout.properties();
    let keyspace = match properties.column_family_name.as_str() {
        "" => "default".to_owned(),
        name => name.to_owned(),
    };
    let ingested = properties.external_version.is_some();
    let keyspace_id = properties.column_family_id;
    let open = Arc::new(sst::Table::new(Arc::new(layout), Uncached(file)));
    Ok(LoneTable { keyspace, keyspace_id, ingested, deletes, entries: table(open) })
}
