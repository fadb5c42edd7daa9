//! Building a run (F, G): entries arrive in order, blocks stream out to persistent memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::checksum::sum64;
use base::planted::{self, Bug};
use base::{Error, ErrorKind, LINE, Result, Seq};
use pmem::Durable;

use crate::fences::FencesBuilder;
use crate::level0::run::filter::{FilterBuilder, lines_for};
use crate::level0::run::pieces::PieceWriter;
use crate::level0::run::{BLOCK_ENTRIES, BLOCK_LEN, block};
use crate::level0::run::{
    Meta, Run, RunDesc, ZoneUse, block_seed, encode_meta, line_seed, run_seed,
};
use crate::ranges::Ranges;
use crate::record::extent::ExtentHold;
use crate::record::store::{Entry, Leaf, Media, hash};
use crate::record::zone::{PendingFree, Zone};

/// Blocks gathered before they are written.
const BATCH_BLOCKS: usize = 32;

/// Which run is being built.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunName {
    pub id: u64,
    pub keyspace: u32,
    pub order: u64,
}

/// A run being built. Nothing names it until its descriptor is in the manifest, so dropping a builder
/// leaves nothing behind.
pub(crate) struct RunBuilder {
    media: Arc<Media>,
    pending_free: Arc<PendingFree>,
    name: RunName,
    seed: u64,
    entries: u64,
    min_seq: Seq,
    max_seq: Seq,
    pending: Vec<(Entry, Leaf)>,
    last_key: Option<Entry>,
    batch: Vec<u8>,
    blocks: PieceWriter,
    blocks_written: u64,
    fences: FencesBuilder,
    filter: FilterBuilder,
    live: BTreeMap<u32, u64>,
    extents: Vec<Arc<ExtentHold>>,
}

impl RunBuilder {
    /// A builder for at most `entries_max` entries.
    pub(crate) fn new(
        media: &Arc<Media>,
        pending_free: &Arc<PendingFree>,
        name: RunName,
        entries_max: u64,
    ) -> RunBuilder {
        let blocks = entries_max.div_ceil(BLOCK_ENTRIES as u64);
        RunBuilder {
            media: Arc::clone(media),
            pending_free: Arc::clone(pending_free),
            name,
            seed: run_seed(media, name.id),
            entries: 0,
            min_seq: Seq::MAX,
            max_seq: Seq::ZERO,
            pending: Vec::with_capacity(BLOCK_ENTRIES),
            last_key: None,
            batch: Vec::with_capacity(BATCH_BLOCKS * BLOCK_LEN),
            blocks: PieceWriter::new(media, pending_free, blocks * BLOCK_LEN as u64),
            blocks_written: 0,
            fences: FencesBuilder::default(),
            filter: FilterBuilder::new(entries_max),
            live: BTreeMap::new(),
            extents: Vec::new(),
        }
    }

    /// DRAM held: fences and filter.
    pub(crate) fn dram_bytes(&self) -> usize {
        self.fences.dram_bytes() + self.filter.dram_bytes()
    }

    /// Appends an entry; keys ascend, versions of a key descend. The key of `entry` was verified.
    pub(crate) fn push(&mut self, entry: Entry, extent: Option<Arc<ExtentHold>>) -> Result<()> {
        let key = self.media.key(&entry);
        let key_hash = hash(key);
        let leaf = Leaf::new(entry.at, u64::from(entry.len), key_hash);
        self.filter.add(key_hash);
        self.extents.extend(extent);
        self.entries += 1;
        self.min_seq = self.min_seq.min(entry.seq);
        self.max_seq = self.max_seq.max(entry.seq);
        if let Some(no) = self.media.pool.geometry().zone_of(entry.at) {
            *self.live.entry(no).or_default() += u64::from(entry.len);
        }
        self.pending.push((entry, leaf));
        if self.pending.len() == BLOCK_ENTRIES { self.end_block() } else { Ok(()) }
    }

    fn end_block(&mut self) -> Result<()> {
        let media = &self.media;
        let keyed: Vec<(&[u8], Leaf)> =
            self.pending.iter().map(|(entry, leaf)| (media.key(entry), *leaf)).collect();
        let last_key = self.last_key.as_ref().map(|entry| media.key(entry));
        self.fences.push(last_key, keyed[0].0);
        self.batch
            .extend_from_slice(&block::encode(block_seed(self.seed, self.blocks_written), &keyed));
        self.blocks_written += 1;
        self.last_key = self.pending.last().map(|(entry, _)| *entry);
        self.pending.clear();
        if self.batch.len() == BATCH_BLOCKS * BLOCK_LEN {
            self.write_batch().map(|_durable| ())
        } else {
            Ok(())
        }
    }

    fn write_batch(&mut self) -> Result<Option<Durable>> {
        if self.batch.is_empty() {
            return Ok(None);
        }
        let durable = self.blocks.push(&self.batch)?;
        self.batch.clear();
        Ok(Some(durable))
    }

    /// Writes what is left, with the range deletions of the run. `None` if there is nothing. All of the run is durable
    /// afterwards.
    pub(crate) fn finish(
        mut self,
        ranges: Ranges,
        zones: &BTreeMap<u32, Arc<Zone>>,
    ) -> Result<Option<(Run, Durable)>> {
        if planted::is(Bug::LoseLastEntry) && self.entries > 1 && self.pending.pop().is_some() {
            self.entries -= 1;
        }
        // The last block, and what the range deletions add to the run's numbers.
        if !self.pending.is_empty() {
            self.end_block()?;
        }
        if self.entries == 0 && ranges.is_empty() {
            return Ok(None);
        }
        if let Some((low, high)) = ranges.seqs() {
            self.min_seq = self.min_seq.min(low);
            self.max_seq = self.max_seq.max(high);
        }
        let _durable = self.write_batch()?;
        let media = Arc::clone(&self.media);
        let uses = self.zone_uses(zones)?;
        // Filter and metadata are made whole in DRAM, then written; the last push fences for both.
        let fences = self.fences.finish();
        let meta = Meta {
            zones: uses.iter().map(|u| (u.zone.no, u.zone.incarnation, u.live_bytes)).collect(),
            extents: self.extents.iter().map(|hold| hold.extent()).collect(),
            ranges,
        };
        let meta_bytes = encode_meta(&fences, &meta);
        let filter_bytes = self.filter.finish(|line| line_seed(self.seed, line));
        let mut filter = PieceWriter::new(&media, &self.pending_free, filter_bytes.len() as u64);
        let mut meta_pieces = PieceWriter::new(&media, &self.pending_free, meta_bytes.len() as u64);
        let _durable = filter.push(&filter_bytes)?;
        let durable = meta_pieces.push(&meta_bytes)?;
        // The run owns the space of its pieces from here on.
        let mut space = Vec::new();
        let desc = RunDesc {
            id: self.name.id,
            keyspace: self.name.keyspace,
            order: self.name.order,
            entries: self.entries,
            min_seq: self.min_seq,
            max_seq: self.max_seq,
            blocks: self.blocks.finish(&mut space),
            filter: filter.finish(&mut space),
            meta: meta_pieces.finish(&mut space),
            meta_sum: sum64(self.seed, &meta_bytes),
        };
        let run = Run::new(&media, desc, fences, uses, self.extents, meta.ranges, space);
        Ok(Some((run, durable)))
    }

    /// The zones that entries lie in, each held (I-ZONE-1).
    fn zone_uses(&self, zones: &BTreeMap<u32, Arc<Zone>>) -> Result<Vec<ZoneUse>> {
        let uses = self.live.iter().map(|(no, live_bytes)| {
            let zone = zones.get(no).ok_or_else(|| {
                let text = format!("an entry lies in zone {no}, which no run holds; reopen the store and report this");
                Error::new(ErrorKind::Internal, "index", text)
            })?;
            Ok(ZoneUse { zone: Arc::clone(zone), live_bytes: *live_bytes })
        });
        uses.collect()
    }
}

/// Bytes in persistent memory that a run over `entries` entries takes, given the bytes of its fences'
/// separators: what must be kept free so that a memtable can always be flushed.
pub(crate) fn run_bytes_max(entries: u64, separators: u64, grain_len: u64) -> u64 {
    // Two bytes for a separator's length, and a share of the zones and extents that are listed.
    let blocks = entries.div_ceil(BLOCK_ENTRIES as u64) * (BLOCK_LEN as u64 + 8);
    blocks + separators + lines_for(entries) * LINE as u64 + 4 * grain_len
}

/// Bytes of separators to expect for `bytes` of records: one key in a block's worth, if keys made up all of
/// the records.
pub(crate) fn separator_bytes(bytes: u64) -> u64 {
    bytes / BLOCK_ENTRIES as u64
}
