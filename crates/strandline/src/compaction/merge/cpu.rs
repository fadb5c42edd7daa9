//! The merge engine that every machine has: the calling thread.

use std::sync::atomic::Ordering::Relaxed;

use base::bytes::compare;
use base::{Result, planted};

use crate::compaction::merge::engine::{Caps, Estimate, Merge, MergeEngine, MergeTask, Poll};
use crate::compaction::merge::output::Output;
use crate::compaction::merge::versions::Versions;
use crate::iter::merging::MergingIterator;
use crate::iter::source::{Source, StoreSource, Warmth};
use crate::tree::ahead::Probing;

/// Seconds for an entry, and for a byte, until they were measured: an order of magnitude.
const ENTRY_S: f64 = 300e-9;
const BYTE_S: f64 = 2e-9;

/// Merges on the calling thread.
pub(crate) struct Cpu;

struct CpuTask {
    merge: Merge,
    merging: MergingIterator<StoreSource>,
    versions: Versions,
    output: Output,
    passed: u64,
}

impl MergeEngine for Cpu {
    fn caps(&self) -> Caps {
        Caps { tasks_max: usize::MAX }
    }

    fn estimate(&self, merge: &Merge) -> Estimate {
        let tables = merge.levels.iter().flatten();
        let (mut entries, mut bytes) = (0, 0);
        for table in tables {
            entries += table.desc.entries;
            bytes += table.desc.len;
        }
        for (memtable, _) in &merge.memtables {
            entries += memtable.index.len() as u64;
            bytes += memtable.bytes.load(Relaxed);
        }
        for (run, span) in &merge.runs {
            entries += run.entries_within(span);
            bytes += run.record_bytes_within(span);
        }
        Estimate { entries, bytes, seconds: entries as f64 * ENTRY_S + bytes as f64 * BYTE_S }
    }

    fn submit(&self, merge: Merge) -> Result<Box<dyn MergeTask>> {
        let from = merge.from.as_deref();
        let mut sources = Vec::new();
        for (memtable, span) in &merge.memtables {
            let upto = merge.retention.horizon.newest();
            sources.push(StoreSource::memtable(&merge.media, memtable, &span.tail(from), upto)?);
        }
        for (run, span) in &merge.runs {
            sources.push(StoreSource::run(&merge.media, run, &span.tail(from))?);
        }
        let probing =
            if merge.output.warm_most > 0 { Probing::EachBlock } else { Probing::Nothing };
        for tables in &merge.levels {
            sources.push(StoreSource::tables(tables.clone(), from, probing)?);
        }
        let ranges = merge.retention.ranges().clip(from, merge.before.as_deref());
        let (tables, output, below) = (&merge.tables, merge.output.clone(), merge.below.clone());
        Ok(Box::new(CpuTask {
            merging: MergingIterator::new(&*merge.media, sources),
            versions: Versions::default(),
            output: Output::new(
                tables,
                output,
                below,
                merge.limits(),
                ranges,
                merge.values.clone(),
            ),
            passed: 0,
            merge,
        }))
    }
}

impl MergeTask for CpuTask {
    fn poll(&mut self, entries: usize) -> Result<Poll> {
        planted::step("compact");
        let begun = self.passed;
        while self.passed - begun < entries as u64 {
            if !self.next_key()? {
                return Ok(Poll::Done(self.output.end()?));
            }
            if self.output.is_ahead_of_rate() {
                break;
            }
        }
        Ok(Poll::Working)
    }

    fn passed(&self) -> u64 {
        self.passed
    }

    fn cancel(&mut self) {
        self.output.abandon();
    }
}

impl CpuTask {
    /// Merges the versions of the next key; `false` if there is none.
    fn next_key(&mut self) -> Result<bool> {
        let CpuTask { merge, merging, versions, output, passed } = self;
        let (media, retention) = (&*merge.media, &merge.retention);
        let Some(head) = merging.source().and_then(|source| source.head(media)) else {
            return Ok(false);
        };
        if merge.before.as_ref().is_some_and(|before| compare(head.key, before).is_ge()) {
            return Ok(false);
        }
        versions.begin(head.key);
        let mut seq = head.seq;
        let (mut in_level0, mut warmth) = (false, Warmth::Unknown);
        while let Some(source) = merging.source() {
            in_level0 |= source.is_level0();
            warmth = warmth.max(source.warmth());
            let kind = source.kind();
            if versions.wants(seq, kind, retention) {
                versions.take(seq, kind, source.value(media)?, retention);
            }
            merging.advance(media)?;
            *passed += 1;
            match merging.source().and_then(|source| source.head(media)) {
                Some(next) if compare(next.key, &versions.key).is_eq() => seq = next.seq,
                _ => break,
            }
        }
        if in_level0 && merge.tables.cache.has_records() {
            merge.tables.cache.drop_record(merge.output.keyspace, &versions.key);
        }
        let (keyspace, level) = (&merge.output.keyspace_name, usize::from(merge.output.level));
        let values = &mut output.values;
        versions.combine(retention, media, &merge.hooks, keyspace, values)?;
        versions.filter(retention, &merge.hooks, keyspace, level, values)?;
        versions.drop_idle_deletions(retention, media);
        let mut begun = false;
        for (seq, kind, value) in versions.iter() {
            // All versions of a key lie in one table (I-TREE-1).
            if !std::mem::replace(&mut begun, true) {
                output.cut_before(&versions.key)?;
            }
            output.add(&versions.key, seq, kind, value, warmth)?;
        }
        Ok(true)
    }
}
