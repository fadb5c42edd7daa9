//! Writes the tables that a merge yields: begun when needed, cut at a size, synced, read back and compared.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use base::bytes::compare;
use base::planted::{self, Bug};
use base::{Result, Seq};
use sst::{EntryKind, RangeDelete, Writer, WriterOptions};

use crate::compaction::merge::sink::{FileTier, SinkOptions, TableSink};
use crate::compaction::merge::values::{MergeValues, ValueOutput};
use crate::compaction::merge::warm::BlockNotes;
use crate::compaction::policy::pick::OVERLAP_MAX;
use crate::compaction::policy::placement::OutputTier;
use crate::fences::Side;
use crate::iter::source::Warmth;
use crate::ranges::Ranges;
use crate::throttle::rate::RateLimit;
use crate::tree::bounds;
use crate::tree::desc::{TableDesc, ValueShares};
use crate::tree::level::Level;
use crate::tree::names::FileName;
use crate::tree::room::Writes;
use crate::tree::space::NewTable;
use crate::tree::tables::Tables;
use crate::tree::tiers::{FileSite, OWN};
use crate::tree::verify;

/// A table is cut, too, when it refers to so many times its size in value files: then a collection rewrites few references beside
/// the values.
const VALUES_FOR_TABLE: u64 = 4;

/// The tier and the form of tables.
#[derive(Clone)]
pub(crate) struct OutputOptions {
    pub keyspace: u32,
    pub keyspace_name: String,
    pub level: u8,
    pub tier: OutputTier,
    /// That of its value files.
    pub values_tier: OutputTier,
    /// The tier that its files belong in.
    pub site: FileSite,
    /// The purpose of the room in files that it takes.
    pub writes: Writes,
    /// The same of the room in persistent memory that value files take.
    pub values_for: Writes,
    /// Bytes at which a table is cut.
    pub table_bytes: u64,
    /// Bytes of what is read, of all files that are written together.
    pub inputs: u64,
    /// Keys at which a table ends, whatever its size, in order: the first keys of subranges, which so get their own tables.
    pub cuts: Arc<[Vec<u8>]>,
    /// What a table looks like; whose it is and its number are filled in.
    pub writer: WriterOptions,
    /// Shared by all that is written.
    pub rate: Option<Arc<RateLimit>>,
    /// Bytes of blocks that may take the place of cached ones, of all tables of a merge; 0: none do. The parts of a compaction share
    /// what it may note.
    pub warm_most: u64,
}

/// Limits of the bounds of all tables of a merge: keys beyond them belong to other tables. Without limits the bounds are the
/// keys themselves.
pub(crate) struct OutputLimits {
    pub floor: Option<Vec<u8>>,
    pub ceiling: Option<Bound<Vec<u8>>>,
}

/// The tables of one merge.
pub(crate) struct Output {
    tables: Arc<Tables>,
    options: OutputOptions,
    below: Option<Arc<Level>>,
    /// What the bounds of tables to come keep to: the floor rises with each.
    limits: OutputLimits,
    open: Option<OpenOutput>,
    done: Vec<NewTable>,
    pub values: ValueOutput,
    /// Range deletions that are not in a table yet, in key order. A table takes those that begin before the next one
    /// does, cut off there, so that tables stay disjoint.
    ranges: VecDeque<RangeDelete>,
    last_key: Vec<u8>,
    /// Cuts that lie behind.
    cuts_passed: usize,
}

struct OpenOutput {
    id: u64,
    writer: Writer<TableSink>,
    /// Bytes at which it is cut.
    full_at: u64,
    /// Table of the level below that the next key is compared with, and bytes of it overlapped so far.
    overlap_from: usize,
    /// What it refers to in value files, by their numbers, and bytes of all of that.
    shares: ValueShares,
    value_bytes: u64,
    notes: BlockNotes,
}

impl OutputOptions {
    /// Where its tables go.
    fn sink(&self) -> SinkOptions {
        let OutputOptions { tier, writes, table_bytes, inputs, .. } = *self;
        let to = FileTier::Site(self.site.clone());
        let memory = Writes::Levels;
        let expected = table_bytes.min(inputs.max(1));
        SinkOptions { tier, to, expected, writes, memory, rate: self.rate.clone() }
    }
}

impl Output {
    pub(crate) fn new(
        tables: &Arc<Tables>,
        options: OutputOptions,
        below: Option<Arc<Level>>,
        limits: OutputLimits,
        ranges: Ranges,
        values: MergeValues,
    ) -> Output {
        let (tier, memory) = (options.values_tier, options.values_for);
        let sink = SinkOptions { tier, memory, ..options.sink() };
        Output {
            values: ValueOutput::new(tables, options.keyspace, sink, values),
            tables: Arc::clone(tables),
            options,
            below,
            limits,
            open: None,
            done: Vec::new(),
            ranges: ranges.deletes().collect(),
            last_key: Vec::new(),
            cuts_passed: 0,
        }
    }

    /// Whether a cut lies between the last key and `key`.
    fn passes_cut(&mut self, key: &[u8]) -> bool {
        let ahead = &self.options.cuts[self.cuts_passed..];
        let passed = ahead.iter().take_while(|cut| compare(cut, key).is_le()).count();
        self.cuts_passed += passed;
        passed > 0
    }

    /// Ends the table under way if `key`, which is not in it, should begin another.
    pub(crate) fn cut_before(&mut self, key: &[u8]) -> Result<()> {
        let cut = self.passes_cut(key);
        let Some(open) = &self.open else { return Ok(()) };
        let full = open.writer.estimated_len() >= open.full_at
            || open.value_bytes >= VALUES_FOR_TABLE.saturating_mul(open.full_at);
        let ends = cut || full || self.overlaps_much(open, key);
        if ends { self.end_table(Some(key)) } else { Ok(()) }
    }

    fn overlaps_much(&self, open: &OpenOutput, key: &[u8]) -> bool {
        let Some(below) = &self.below else { return false };
        let most = OVERLAP_MAX * self.options.table_bytes;
        let mut overlapped = 0;
        for table in &below.tables[open.overlap_from..] {
            if compare(&table.desc.largest, key).is_ge() {
                break;
            }
            overlapped += table.desc.len;
            if overlapped > most {
                return true;
            }
        }
        false
    }

    /// Whether more was written than what the rate of compactions allows.
    pub(crate) fn is_ahead_of_rate(&self) -> bool {
        self.options.rate.as_ref().is_some_and(|rate| rate.owed().is_some())
    }

    pub(crate) fn add(
        &mut self,
        key: &[u8],
        seq: Seq,
        kind: EntryKind,
        value: &[u8],
        warmth: Warmth,
    ) -> Result<()> {
        if self.open.is_none() {
            self.open = Some(self.begin_table(key)?);
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        let placed = self.values.place(key, kind, value)?;
        open.writer.add(key, seq, placed.kind, placed.stored)?;
        open.notes.note(warmth, open.writer.bytes_written());
        if let Some(of) = placed.refers {
            open.value_bytes += open.shares.add(&of, key.len());
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        Ok(())
    }

    fn begin_table(&self, key: &[u8]) -> Result<OpenOutput> {
        let table_bytes = self.options.table_bytes;
        let id = self.tables.take_id();
        let sink = TableSink::new(&self.tables, FileName::Table(id), self.options.sink())?;
        let full_at = sink.cut_at(table_bytes);
        let options = WriterOptions {
            column_family: (self.options.keyspace, self.options.keyspace_name.clone()),
            file_number: id,
            ..sink.form(self.options.writer.clone())
        };
        let overlap_from =
            self.below.as_ref().map_or(0, |below| below.first_from(key, Side::Before));
        let (writer, shares) = (Writer::new(sink, options), ValueShares::default());
        let notes = BlockNotes::new(self.options.warm_most);
        Ok(OpenOutput { id, writer, full_at, overlap_from, shares, value_bytes: 0, notes })
    }

    /// Ends the table; `next` is the first key of the next one.
    fn end_table(&mut self, next: Option<&[u8]>) -> Result<()> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        let next = next.map(|next| self.begin_of(next));
        self.add_ranges(&mut open, next.as_deref())?;
        let written = self.finish(open, next.as_deref())?;
        self.options.warm_most -= written.warm.iter().map(|block| block.size).sum::<u64>();
        self.done.push(written);
        if next.is_some() {
            self.limits.floor = next;
        }
        Ok(())
    }

    /// Where the table whose first key is `next` begins, behind the last key: at a cut, if there is one between them.
    fn begin_of(&self, next: &[u8]) -> Vec<u8> {
        let behind = [&self.last_key[..], &[0]].concat();
        match self.cut_below(next).filter(|cut| *cut >= &behind[..]) {
            Some(cut) => cut.to_vec(),
            None => bounds::lower(next, &behind),
        }
    }

    /// The highest cut that is not above `key`.
    fn cut_below(&self, key: &[u8]) -> Option<&[u8]> {
        let below = self.options.cuts.partition_point(|cut| &cut[..] <= key);
        self.options.cuts[..below].last().map(|cut| &cut[..])
    }

    /// The lowest cut above `key`.
    fn cut_above(&self, key: &[u8]) -> Option<&[u8]> {
        let below = self.options.cuts.partition_point(|cut| &cut[..] <= key);
        self.options.cuts.get(below).map(|cut| &cut[..])
    }

    /// A lower bound for the table whose lowest key is `key`. It lies on the same side of all cuts.
    fn lower_bound(&self, key: &[u8]) -> Vec<u8> {
        let Some(floor) = self.limits.floor.as_deref() else { return key.to_vec() };
        bounds::lower(key, self.cut_below(key).map_or(floor, |cut| floor.max(cut)))
    }

    /// An upper bound for the table whose highest key is `key`; the next one begins at `next`. It lies on the same side
    /// of all cuts.
    fn upper_bound(&self, key: &[u8], next: Option<&[u8]>) -> Vec<u8> {
        let limit =
            self.limits.ceiling.as_ref().map(|ceiling| ceiling.as_ref().map(|key| &key[..]));
        let Some(ceiling) = next.map(Bound::Excluded).or(limit) else { return key.to_vec() };
        match (ceiling, self.cut_above(key)) {
            (Bound::Included(top) | Bound::Excluded(top), Some(cut)) if cut > top => {
                bounds::upper(key, ceiling)
            }
            (_, Some(cut)) => bounds::upper(key, Bound::Excluded(cut)),
            (ceiling, None) => bounds::upper(key, ceiling),
        }
    }

    /// Adds the range deletions that begin before `next`, cut off there.
    fn add_ranges(&mut self, open: &mut OpenOutput, next: Option<&[u8]>) -> Result<()> {
        let ends_with_table = planted::is(Bug::RangeEndsWithTable);
        let mut rests = Vec::new();
        let begins = |delete: &RangeDelete| next.is_none_or(|next| &delete.begin[..] < next);
        while self.ranges.front().is_some_and(begins) {
            let Some(mut delete) = self.ranges.pop_front() else { break };
            match next {
                Some(next) if &delete.end[..] > next => {
                    open.writer.add_range_delete(&delete.begin, next, delete.seq)?;
                    delete.begin = next.to_vec();
                    rests.push(delete);
                }
                _ => open.writer.add_range_delete(&delete.begin, &delete.end, delete.seq)?,
            }
        }
        if !ends_with_table {
            // They are parts of one piece, the newest first.
            rests.into_iter().rev().for_each(|rest| self.ranges.push_front(rest));
        }
        Ok(())
    }

    fn finish(&self, open: OpenOutput, next: Option<&[u8]>) -> Result<NewTable> {
        planted::step("end a table");
        let id = open.id;
        let (sink, summary) = open.writer.finish()?;
        let written = sink.end()?;
        // Beyond its last key there is only what a range deletion ends before.
        let ends_before = summary.entries == 0 || summary.largest > self.last_key;
        let largest = match ends_before {
            true => summary.largest,
            false => self.upper_bound(&summary.largest, next),
        };
        let desc = TableDesc {
            id,
            extent: written.space.extent(),
            tier: match written.space.extent() {
                Some(_) => OWN,
                None => written.space.place().tier,
            },
            keyspace: self.options.keyspace,
            level: self.options.level,
            len: summary.len,
            sum: written.sum,
            entries: summary.entries,
            range_deletes: summary.range_deletes,
            ends_before,
            deletions: summary.deletions,
            min_seq: summary.min_seq,
            max_seq: summary.max_seq,
            global_seq: Seq::ZERO,
            smallest: self.lower_bound(&summary.smallest),
            largest,
            values: open.shares.into_vec(),
        };
        planted::step("read a table back");
        verify::verify(&*self.tables.open(&desc, None)?, desc.len, desc.sum)?;
        let warm = open.notes.end(summary.data_bytes);
        Ok(NewTable { desc, space: written.space, values: Vec::new(), reads: 0, warm })
    }

    /// Ends the last table and value file, and hands all tables over, each with the value files that it refers to.
    pub(crate) fn end(&mut self) -> Result<Vec<NewTable>> {
        if let (None, Some(first)) = (&self.open, self.ranges.front()) {
            self.open = Some(self.begin_table(&first.begin)?);
        }
        self.end_table(None)?;
        let made = self.values.end()?;
        for table in &mut self.done {
            let files = table.desc.values.iter().map(|share| self.values.file(&made, share.file));
            table.values = files.collect::<Result<_>>()?;
        }
        Ok(std::mem::take(&mut self.done))
    }

    /// Gives up what was written.
    pub(crate) fn abandon(&mut self) {
        self.open = None;
        self.done.clear();
        self.values.abandon();
    }
}
