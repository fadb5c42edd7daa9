//! A run: an immutable sorted index over records that stay in their zones (R3).

pub(crate) mod block;
pub(crate) mod build;
pub(crate) mod filter;
pub(crate) mod pieces;
mod versions;

/// Entries of one index block.
pub(crate) const BLOCK_ENTRIES: usize = 15;
/// Bytes of one index block.
pub(crate) const BLOCK_LEN: usize = 256;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use art::Direction;
use base::checksum::{mix, sum64};
use base::codec::{Reader, put_varint};
use base::planted::{self, Bug};
use base::{Error, LINE, PmOffset, Result, Seq};
use pool::Extent;
use sst::RangeDelete;

use crate::busy::Busy;
use crate::fences::{Fences, FencesBuilder, Side};
use crate::level0::run::block::{Block, Position};
use crate::level0::run::pieces::Pieces;
use crate::memtable::is_skipped;
use crate::ranges::Ranges;
use crate::record::extent::ExtentHold;
use crate::record::store::{Entry, Leaf, Media};
use crate::record::zone::Zone;
use crate::span::{BoundsRef, KeyBounds, Span};

/// Blocks behind the first in which a look-up looks for its version one after the other.
const HOT_BLOCKS: usize = 4;

/// What the manifest stores about a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunDesc {
    /// Never reused; seeds the run's checksums.
    pub id: u64,
    pub keyspace: u32,
    /// Age: greater is newer.
    pub order: u64,
    pub entries: u64,
    pub min_seq: Seq,
    pub max_seq: Seq,
    pub blocks: Pieces,
    pub filter: Pieces,
    pub meta: Pieces,
    pub meta_sum: u64,
}

impl RunDesc {
    /// Bytes in persistent memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.extents().map(|extent| extent.len).sum()
    }

    pub(crate) fn extents(&self) -> impl Iterator<Item = &Extent> {
        self.blocks.extents.iter().chain(&self.filter.extents).chain(&self.meta.extents)
    }
}

/// A zone that a run points into.
#[derive(Clone)]
pub(crate) struct ZoneUse {
    pub zone: Arc<Zone>,
    /// Bytes of records that the run names.
    pub live_bytes: u64,
}

/// Entries of a run that are read together: those of some blocks, from one entry on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockBatch {
    pub from: u64,
    pub direction: Direction,
    pub blocks: u64,
    /// The blocks of so many more entries are sent for.
    pub ahead: usize,
}

impl BlockBatch {
    /// The entries of `blocks` blocks, from entry `from` on.
    pub(crate) fn forward(from: u64, blocks: u64) -> BlockBatch {
        BlockBatch { from, direction: Direction::Forward, blocks, ahead: 0 }
    }
}

/// What a run's meta stream holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Meta {
    /// Zone number, incarnation, live bytes.
    pub zones: Vec<(u32, u64, u64)>,
    pub extents: Vec<Extent>,
    pub ranges: Ranges,
}

/// An open run.
pub(crate) struct Run {
    pub desc: RunDesc,
    pub fences: Fences,
    /// By their numbers.
    pub zones: Vec<ZoneUse>,
    /// Of values, by their places.
    pub extents: Vec<Arc<ExtentHold>>,
    pub ranges: Ranges,
    /// What it lies in.
    space: Vec<ExtentHold>,
    /// A merge or compaction under way reads it.
    pub busy: Busy,
    bounds: OnceLock<KeyBounds>,
    /// Whether a durable edit names this run; else its extents go when the last holder does.
    installed: AtomicBool,
    seed: u64,
    zone_shift: u32,
}

/// Seed of all checksums of a run.
pub(crate) fn run_seed(media: &Media, id: u64) -> u64 {
    mix(media.pool.id(), id)
}

pub(crate) fn block_seed(seed: u64, block: u64) -> u64 {
    mix(seed, block)
}

pub(crate) fn line_seed(seed: u64, line: u64) -> u64 {
    mix(seed ^ 0xF117, line)
}

/// Encodes a meta stream, padded to whole lines.
pub(crate) fn encode_meta(fences: &Fences, meta: &Meta) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, fences.len() as u64);
    for i in 0..fences.len() {
        let separator = fences.separator(i);
        put_varint(&mut out, separator.len() as u64);
        out.extend_from_slice(separator);
    }
    put_varint(&mut out, meta.zones.len() as u64);
    for (no, incarnation, live_bytes) in &meta.zones {
        put_varint(&mut out, u64::from(*no));
        put_varint(&mut out, *incarnation);
        put_varint(&mut out, *live_bytes);
    }
    put_varint(&mut out, meta.extents.len() as u64);
    for extent in &meta.extents {
        put_varint(&mut out, extent.at.get());
        put_varint(&mut out, extent.len);
    }
    let deletes: Vec<RangeDelete> = meta.ranges.deletes().collect();
    put_varint(&mut out, deletes.len() as u64);
    for delete in deletes {
        put_varint(&mut out, delete.seq.get());
        for key in [delete.begin, delete.end] {
            put_varint(&mut out, key.len() as u64);
            out.extend_from_slice(&key);
        }
    }
    out.resize(out.len().next_multiple_of(LINE), 0);
    out
}

/// Decodes a meta stream whose checksum holds.
pub(crate) fn decode_meta(bytes: &[u8]) -> Option<(Fences, Meta)> {
    let mut reader = Reader::new(bytes);
    let mut fences = FencesBuilder::default();
    let mut before: &[u8] = &[];
    for _ in 0..reader.varint()? {
        let len = usize::try_from(reader.varint()?).ok()?;
        let separator = reader.take(len)?;
        // The search over them relies on their order.
        if separator < before {
            return None;
        }
        fences.push_raw(separator);
        before = separator;
    }
    let mut meta = Meta::default();
    for _ in 0..reader.varint()? {
        let no = u32::try_from(reader.varint()?).ok()?;
        meta.zones.push((no, reader.varint()?, reader.varint()?));
    }
    for _ in 0..reader.varint()? {
        let at = PmOffset::new(reader.varint()?);
        meta.extents.push(Extent { at, len: reader.varint()? });
    }
    let mut deletes = Vec::new();
    for _ in 0..reader.varint()? {
        let seq = Seq::new(reader.varint()?);
        let mut key = || -> Option<Vec<u8>> {
            let len = usize::try_from(reader.varint()?).ok()?;
            Some(reader.take(len)?.to_vec())
        };
        deletes.push(RangeDelete { begin: key()?, end: key()?, seq });
    }
    meta.ranges = Ranges::new(&deletes);
    Some((fences.finish(), meta))
}

/// Reads and checks a stored run's meta stream.
pub(crate) fn load_meta(media: &Media, desc: &RunDesc) -> Result<(Fences, Meta)> {
    let zone_len = media.pool.geometry().zone_len();
    let damaged = |what: &str| {
        Error::corruption(
            "open",
            format!("{what} of index run {} in {}", desc.id, media.region.describe()),
        )
    };
    let sound = [&desc.blocks, &desc.filter, &desc.meta].iter().all(|p| p.is_sound(zone_len))
        && desc.blocks.len == desc.entries.div_ceil(BLOCK_ENTRIES as u64) * BLOCK_LEN as u64;
    if !sound {
        return Err(damaged("extent list"));
    }
    let bytes = desc.meta.read(&media.region, zone_len);
    if sum64(run_seed(media, desc.id), &bytes) != desc.meta_sum {
        return Err(damaged("fences"));
    }
    let (fences, meta) = decode_meta(&bytes).ok_or_else(|| damaged("fences"))?;
    if fences.len() as u64 != desc.blocks.len / BLOCK_LEN as u64 {
        return Err(damaged("number of fences"));
    }
    if desc.entries == 0 && meta.ranges.is_empty() {
        return Err(damaged("number of entries"));
    }
    Ok((fences, meta))
}

impl Run {
    pub(crate) fn new(
        media: &Media,
        desc: RunDesc,
        fences: Fences,
        mut zones: Vec<ZoneUse>,
        mut extents: Vec<Arc<ExtentHold>>,
        ranges: Ranges,
        space: Vec<ExtentHold>,
    ) -> Run {
        zones.sort_unstable_by_key(|used| used.zone.no);
        extents.sort_unstable_by_key(|hold| hold.extent().at);
        Run {
            seed: run_seed(media, desc.id),
            zone_shift: media.pool.geometry().zone_len().trailing_zeros(),
            desc,
            fences,
            zones,
            extents,
            ranges,
            space,
            busy: Busy::default(),
            bounds: OnceLock::new(),
            installed: AtomicBool::new(false),
        }
    }

    /// Notes that a durable edit names this run.
    pub(crate) fn set_installed(&self) {
        self.installed.store(true, Ordering::Release);
        self.zones.iter().for_each(|used| used.zone.name());
    }

    /// Notes that a durable edit named it no more.
    pub(crate) fn set_replaced(&self) {
        self.busy.spend();
        self.installed.store(false, Ordering::Release);
        self.zones.iter().for_each(|used| used.zone.unname());
    }

    pub(crate) fn entries(&self) -> u64 {
        self.desc.entries
    }

    /// Entries of keys within `span`, at most.
    pub(crate) fn entries_within(&self, span: &Span) -> u64 {
        // The block before the first that begins within may reach into it.
        let first =
            span.from().map_or(0, |key| self.fences.rank(key, Side::Before).saturating_sub(1));
        let behind =
            span.before().map_or(self.fences.len(), |key| self.fences.rank(key, Side::Before));
        (behind.saturating_sub(first) as u64 * BLOCK_ENTRIES as u64).min(self.entries())
    }

    /// Bytes of records of keys within `span`, about.
    pub(crate) fn record_bytes_within(&self, span: &Span) -> u64 {
        (self.record_bytes() as f64 * self.share(span)) as u64
    }

    /// Bytes of persistent memory that it takes for keys within `span`, about: its part of the zones that it names, live
    /// or not, long values, and its own tables.
    pub(crate) fn held_bytes_within(&self, span: &Span) -> u64 {
        let part = |used: &ZoneUse| {
            let zone = &used.zone;
            (zone.end - zone.start) / u64::from(zone.named_by().max(1))
        };
        let zones: u64 = self.zones.iter().map(part).sum();
        ((zones + self.desc.bytes()) as f64 * self.share(span)) as u64
            + self.value_bytes_within(span)
    }

    /// Bytes of the extents of values of keys within `span`; about.
    pub(crate) fn value_bytes_within(&self, span: &Span) -> u64 {
        let values: u64 = self.extents.iter().map(|hold| hold.extent().len).sum();
        (values as f64 * self.share(span)) as u64
    }

    /// What part of its entries lies within `span`.
    fn share(&self, span: &Span) -> f64 {
        self.entries_within(span) as f64 / self.entries().max(1) as f64
    }

    /// Bytes of records that it names.
    pub(crate) fn record_bytes(&self) -> u64 {
        self.zones.iter().map(|used| used.live_bytes).sum()
    }

    /// Its lowest and its highest key; range deletions reach up to the key behind them.
    pub(crate) fn bounds(&self, media: &Media) -> Result<&KeyBounds> {
        if let Some(bounds) = self.bounds.get() {
            return Ok(bounds);
        }
        let keys = self.bounds_of(media, 0..self.entries())?;
        let deleted = self.ranges.bounds();
        let deleted = deleted.map(|(smallest, largest)| BoundsRef { smallest, largest }.to_owned());
        let bounds = keys.into_iter().chain(deleted).reduce(KeyBounds::join);
        Ok(self.bounds.get_or_init(|| bounds.unwrap_or_default()))
    }

    /// Lowest and highest key of some entries; `None` if these are none.
    fn bounds_of(&self, media: &Media, entries: Range<u64>) -> Result<Option<KeyBounds>> {
        if entries.is_empty() {
            return Ok(None);
        }
        let (smallest, largest) =
            (self.key_of(media, entries.start)?, self.key_of(media, entries.end - 1)?);
        Ok(Some(KeyBounds { smallest, largest }))
    }

    /// The key of an entry.
    fn key_of(&self, media: &Media, entry: u64) -> Result<Vec<u8>> {
        let mut leaves = Vec::new();
        self.leaves(media, BlockBatch::forward(entry, 1), &mut leaves)?;
        let leaf = leaves.first().map_or(Leaf(0), |leaf| Leaf(*leaf));
        Ok(media.key(&media.entry(leaf)?).to_vec())
    }

    /// Whether a subrange of these keys is to read it. Where it is damaged the answer is yes: a read meets the damage.
    pub(crate) fn concerns(&self, media: &Media, span: &Span) -> bool {
        !matches!(self.bounds_within(media, span), Ok(None))
    }

    /// As [`Run::bounds`], of its keys within `span`, if there are any.
    pub(crate) fn bounds_within(&self, media: &Media, span: &Span) -> Result<Option<KeyBounds>> {
        let bounds = self.bounds(media)?;
        if span.holds(&bounds.smallest) && span.holds(&bounds.largest) {
            return Ok(Some(bounds.clone()));
        }
        let first = span
            .from()
            .map_or(Ok(0), |k| self.first_from(media, k, Side::Before, &mut Vec::new()))?;
        let behind = match span.before() {
            Some(upper) => self.first_from(media, upper, Side::Before, &mut Vec::new())?,
            None => self.entries(),
        };
        let keys = self.bounds_of(media, first..behind)?;
        let deleted = self.ranges.bounds_within(span.from(), span.before());
        let deleted = deleted.map(|(smallest, largest)| BoundsRef { smallest, largest }.to_owned());
        Ok(keys.into_iter().chain(deleted).reduce(KeyBounds::join))
    }

    /// About `count` keys that cut its keys within `span` into pieces of about the same size.
    pub(crate) fn separators_within(&self, span: &Span, count: usize) -> Vec<Vec<u8>> {
        let first = span.from().map_or(0, |key| self.fences.rank(key, Side::Behind));
        let behind =
            span.before().map_or(self.fences.len(), |key| self.fences.rank(key, Side::Before));
        let blocks = behind.saturating_sub(first);
        let mut picked: Vec<usize> = (1..count).map(|i| first + i * blocks / count).collect();
        picked.dedup();
        picked.retain(|block| (first..behind).contains(block));
        picked.into_iter().map(|block| self.fences.separator(block).to_vec()).collect()
    }

    /// DRAM held.
    pub(crate) fn dram_bytes(&self) -> usize {
        self.fences.dram_bytes() + self.zones.capacity() * size_of::<ZoneUse>()
    }

    /// Whether the filter allows that a key with this hash is here.
    #[inline]
    pub(crate) fn may_hold(&self, media: &Media, hash: u64) -> bool {
        let (line, at) = self.filter_line(hash);
        filter::line_may_hold(media.region.bytes(at.get(), LINE), line_seed(self.seed, line), hash)
    }

    /// Number and place of the filter line for a key with this hash.
    #[inline]
    fn filter_line(&self, hash: u64) -> (u64, PmOffset) {
        let line = filter::line_of(hash, self.desc.filter.len / LINE as u64);
        (line, self.desc.filter.offset(self.zone_shift, line * LINE as u64))
    }

    /// Where the filter's lines are that fail their checksums.
    pub(crate) fn damaged_filter_lines<'m>(
        &'m self,
        media: &'m Media,
    ) -> impl Iterator<Item = PmOffset> + 'm {
        let lines = 0..self.desc.filter.len / LINE as u64;
        lines.filter_map(|line| {
            let at = self.desc.filter.offset(self.zone_shift, line * LINE as u64);
            let sound = filter::line_is_sound(
                media.region.bytes(at.get(), LINE),
                line_seed(self.seed, line),
            );
            (!sound).then_some(at)
        })
    }

    /// Where an index block is.
    #[inline]
    pub(crate) fn block_at(&self, block: u64) -> PmOffset {
        self.desc.blocks.offset(self.zone_shift, block * BLOCK_LEN as u64)
    }

    #[inline]
    pub(super) fn block<'m>(&self, media: &'m Media, block: u64) -> Result<Block<'m>> {
        let at = self.block_at(block);
        let bytes = media.region.bytes(at.get(), BLOCK_LEN);
        Block::verified(bytes, block_seed(self.seed, block)).ok_or_else(|| self.damaged(media, at))
    }

    #[cold]
    fn damaged(&self, media: &Media, at: PmOffset) -> Error {
        Error::corruption(
            "read",
            format!(
                "index block at offset {at} (run {}) of {} fails its checksum; `strandline check` \
                 lists what is affected",
                self.desc.id,
                media.region.describe()
            ),
        )
        .with_place(media.region.describe(), at.get())
    }

    /// The newest version of `key` that is not younger than `snapshot`.
    #[inline]
    pub(crate) fn get(
        &self,
        media: &Media,
        key: &[u8],
        hash: u64,
        snapshot: Seq,
    ) -> Result<Option<Entry>> {
        // A key's versions may fill several blocks: begin at the last block whose fence is below the key.
        let first = self.fences.rank(key, Side::Before).saturating_sub(1);
        for number in first..self.fences.len() {
            if number > first && self.fences.separator(number) > key {
                break;
            }
            if number > first + HOT_BLOCKS {
                return self.get_among_many(media, key, snapshot);
            }
            let block = self.block(media, number as u64)?;
            let mut candidates = block.tagged(hash);
            while candidates != 0 {
                let leaf = block.leaf(candidates.trailing_zeros() as usize);
                candidates &= candidates - 1;
                let entry = media.entry(leaf)?;
                if entry.seq <= snapshot && media.key(&entry) == key && !is_skipped(&entry) {
                    return Ok(Some(entry));
                }
            }
        }
        Ok(None)
    }

    /// Appends the locations of a batch; fewer at the end.
    pub(crate) fn leaves(
        &self,
        media: &Media,
        batch: BlockBatch,
        out: &mut Vec<u64>,
    ) -> Result<()> {
        let BlockBatch { from, direction, blocks, ahead } = batch;
        if from >= self.entries() {
            return Ok(());
        }
        let first = from / BLOCK_ENTRIES as u64;
        let within = (from % BLOCK_ENTRIES as u64) as usize;
        let reach = (ahead / BLOCK_ENTRIES) as u64 + 1;
        for step in 0..blocks {
            let at = |step| match direction {
                Direction::Forward => Some(first + step),
                Direction::Backward => first.checked_sub(step),
            };
            let Some(number) = at(step).filter(|number| *number < self.fences.len() as u64) else {
                break;
            };
            at(step + reach).into_iter().for_each(|block| self.prefetch_block(media, block));
            let block = self.block(media, number)?;
            match (direction, step) {
                (Direction::Forward, 0) => out.extend(block.leaves(within, block.len())),
                (Direction::Backward, 0) => {
                    out.extend(block.leaves(0, (within + 1).min(block.len())).rev())
                }
                (Direction::Forward, _) => out.extend(block.leaves(0, block.len())),
                (Direction::Backward, _) => out.extend(block.leaves(0, block.len()).rev()),
            }
        }
        Ok(())
    }

    /// Brings the filter line and the index block for `key` towards the cache.
    pub(crate) fn prefetch(&self, media: &Media, key: &[u8], hash: u64) {
        self.prefetch_filter(media, hash);
        self.prefetch_block(media, self.fences.rank(key, Side::Behind).saturating_sub(1) as u64);
    }

    /// Brings the filter line for a key with this hash towards the cache.
    #[inline]
    pub(crate) fn prefetch_filter(&self, media: &Media, hash: u64) {
        media.region.prefetch(self.filter_line(hash).1.get(), 1);
    }

    fn prefetch_block(&self, media: &Media, block: u64) {
        if block < self.fences.len() as u64 {
            media.region.prefetch(self.block_at(block).get(), BLOCK_LEN / LINE);
        }
    }

    /// Index of the first entry behind this side of `key`. Puts into `rest` the locations of it and of those behind it in
    /// its block, whose records are sent for.
    pub(crate) fn first_from(
        &self,
        media: &Media,
        key: &[u8],
        side: Side,
        rest: &mut Vec<u64>,
    ) -> Result<u64> {
        let Some(number) = self.fences.rank(key, side).checked_sub(1) else { return Ok(0) };
        let number = number as u64;
        self.prefetch_block(media, number + 1);
        let block = self.block(media, number)?;
        let within = self.position(media, &block, key, side)?;
        rest.extend(block.leaves(within, block.len()));
        Ok(number * BLOCK_ENTRIES as u64 + within as u64)
    }

    /// As [`Run::first_from`], within a block.
    fn position(&self, media: &Media, block: &Block<'_>, key: &[u8], side: Side) -> Result<usize> {
        let is_before = |entry: &Entry| {
            let other = media.key(entry);
            match side {
                Side::Before => other < key,
                Side::Behind => other <= key,
            }
        };
        if let Position::Heads { below, up_to } = block.position(key) {
            // What a scan from here reads first.
            block.leaves(below, block.len()).for_each(|leaf| media.prefetch(Leaf(leaf)));
            let record = |at: usize| media.entry(block.leaf(at.min(block.len() - 1)));
            let (mut at, mut entry) = (below, record(below)?);
            while at < up_to && is_before(&entry) {
                at += 1;
                entry = record(at)?;
            }
            // Two prefixes may share a hash: a record has the last word.
            let prefix = block.prefix_len();
            if media.key(&entry).get(..prefix) == key.get(..prefix) {
                return Ok(at);
            }
        }
        let mut at = 0;
        while at < block.len() && is_before(&media.entry(block.leaf(at))?) {
            at += 1;
        }
        block.leaves(at, block.len()).for_each(|leaf| media.prefetch(Leaf(leaf)));
        Ok(at)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if *self.installed.get_mut() || planted::is(Bug::RunIndexKept) {
            self.space.drain(..).for_each(ExtentHold::leave);
        }
        if planted::is(Bug::ValueExtentKept) {
            let last = self.extents.drain(..).filter_map(Arc::into_inner);
            last.for_each(ExtentHold::leave);
        }
    }
}
