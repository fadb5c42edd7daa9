//! What a key comes to whose newest version is an operand of a merge.
//!
//! The versions of the key are walked once: sources from new to old, by one cursor each, and in each source from the
//! newest visible version down, up to the first value or deletion. Point reads and scans both come here.

use std::ops::{ControlFlow, Range};

use base::{Result, Seq};
use sst::EntryKind;

use crate::engine::Engine;
use crate::hooks;
use crate::keyspace::Space;
use crate::media::{Entry, Media, hash};
use crate::observe::explain::{Probe, Source, Trace};
use crate::view::View;

/// The operands of a key so far, the newest first, and what they are merged into.
struct Chain<'m> {
    media: &'m Media,
    operands: Vec<Operand<'m>>,
    /// Operands of tables one behind the other: their blocks may leave the cache.
    copied: Vec<u8>,
    base: Option<Operand<'m>>,
    /// Nothing older counts.
    ended: bool,
    /// Versions and bytes of values of the source being walked.
    walked: (u64, u64),
}

/// Where the bytes of an operand are.
enum Operand<'m> {
    /// In persistent memory, which the pinned View keeps.
    Record(&'m [u8]),
    /// In [`Chain::copied`].
    Copied(Range<usize>),
}

impl Engine {
    /// What version `newest` of `key`, an operand, and those below it come to. No version that is visible is newer.
    #[cold]
    pub(super) fn merge_chain(
        &self,
        view: &View,
        space: &Space,
        key: &[u8],
        newest: Seq,
        trace: &mut impl Trace,
    ) -> Result<Vec<u8>> {
        let mut chain = Chain::new(&self.media);
        chain.walk(view, key, newest, trace)?;
        let operands: Vec<&[u8]> =
            chain.operands.iter().rev().map(|operand| chain.bytes(operand)).collect();
        let existing = chain.base.as_ref().map(|base| chain.bytes(base));
        hooks::merge(&self.hooks, &space.name, key, existing, &operands)
    }
}

impl<'m> Chain<'m> {
    fn new(media: &'m Media) -> Chain<'m> {
        let (operands, copied) = (Vec::new(), Vec::new());
        Chain { media, operands, copied, base: None, ended: false, walked: (0, 0) }
    }

    fn bytes<'c>(&'c self, operand: &'c Operand<'m>) -> &'c [u8] {
        match operand {
            Operand::Record(bytes) => bytes,
            Operand::Copied(range) => &self.copied[range.clone()],
        }
    }

    /// Takes in what the sources of `view` have of `key`, from version `newest` down.
    fn walk(&mut self, view: &View, key: &[u8], newest: Seq, trace: &mut impl Trace) -> Result<()> {
        let media = self.media;
        for memtable in &view.memtables {
            let deleted = memtable.deletes.newest(key, newest);
            memtable.walk(media, key, newest, |entry| self.record(&entry, deleted))?;
            self.leave(Source::Memtable { order: memtable.order }, true, trace);
            if self.is_over(deleted) {
                return Ok(());
            }
        }
        let hash = hash(key);
        for run in &view.runs {
            let deleted = run.ranges.newest(key, newest);
            let passes = run.may_hold(media, hash);
            if passes {
                run.walk(media, key, newest, |entry| self.record(&entry, deleted))?;
            }
            self.leave(Source::Run { id: run.desc.id, entries: run.entries() }, passes, trace);
            if self.is_over(deleted) {
                return Ok(());
            }
        }
        self.walk_levels(view, key, newest, trace)
    }

    fn walk_levels(
        &mut self,
        view: &View,
        key: &[u8],
        newest: Seq,
        trace: &mut impl Trace,
    ) -> Result<()> {
        for (number, level) in view.tree.levels() {
            let Some(table) = level.table_of(key) else { continue };
            let deleted = level.deleted_in(table, key, newest)?;
            let open = table.open()?;
            let passes = open.may_contain(key)?;
            if passes {
                let mut cursor = open.cursor();
                cursor.seek(key, newest)?;
                while cursor.valid() && cursor.key() == key {
                    let copy = |copied: &mut Vec<u8>| {
                        let from = copied.len();
                        copied.extend_from_slice(cursor.value());
                        Operand::Copied(from..copied.len())
                    };
                    if self.take(cursor.seq(), cursor.kind(), deleted, copy).is_break() {
                        break;
                    }
                    cursor.next()?;
                }
            }
            self.leave(Source::Table { level: number, id: table.desc.id }, passes, trace);
            if self.is_over(deleted) {
                return Ok(());
            }
        }
        Ok(())
    }

    fn record(&mut self, entry: &Entry, deleted: Seq) -> Result<ControlFlow<()>> {
        let value = self.media.value(entry)?;
        Ok(self.take(entry.seq, entry.kind.of_entry(), deleted, |_| Operand::Record(value)))
    }

    /// Takes the next older version in, from a source where a range deletion of number `deleted` covers the key.
    fn take(
        &mut self,
        seq: Seq,
        kind: EntryKind,
        deleted: Seq,
        hold: impl FnOnce(&mut Vec<u8>) -> Operand<'m>,
    ) -> ControlFlow<()> {
        // All that one file brought has one number: its range deletions spare its keys.
        self.ended = seq < deleted;
        if self.ended {
            return ControlFlow::Break(());
        }
        self.walked.0 += 1;
        match kind {
            EntryKind::Merge => {
                let operand = hold(&mut self.copied);
                self.walked.1 += self.bytes(&operand).len() as u64;
                self.operands.push(operand);
            }
            EntryKind::Value => {
                self.base = Some(hold(&mut self.copied));
                self.ended = true;
            }
            EntryKind::Delete | EntryKind::SingleDelete => self.ended = true,
        }
        if self.ended { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// A source has no more.
    fn leave(&mut self, source: Source, passed_filter: bool, trace: &mut impl Trace) {
        let (versions, bytes) = std::mem::take(&mut self.walked);
        trace.probe(|| Probe { source, passed_filter, found: versions > 0, versions, bytes });
    }

    fn is_over(&self, deleted: Seq) -> bool {
        self.ended || deleted > 0
    }
}
