//! What a key comes to whose newest version is an operand of a merge.
//!
//! The versions of the key are walked once: sources from new to old, by one cursor each, and in each source from the
//! newest visible version down, up to the first value or deletion. Point reads and scans both come here.

use std::ops::ControlFlow;

use base::{Result, Seq};
use bumpalo::Bump;
use sst::EntryKind;

use crate::engine::Engine;
use crate::hooks;
use crate::keyspace::KeyspaceState;
use crate::keyspace::view::View;
use crate::probe::{Probe, ProbeSource, Trace};
use crate::record::store::{Entry, Media, hash};

/// The operands of a key so far, the newest first, and what they are merged into.
struct Chain<'m> {
    media: &'m Media,
    /// Values of tables, copied: their blocks may leave the cache. Records stay, since the View is pinned.
    copies: &'m Bump,
    operands: Vec<&'m [u8]>,
    base: Option<&'m [u8]>,
    /// Nothing older counts.
    ended: bool,
    walked: ChainWalk,
}

/// What was read of a source so far.
#[derive(Default)]
struct ChainWalk {
    versions: u64,
    /// Of operands.
    bytes: u64,
}

/// What operands came to, or why the operator made nothing of them: that concerns their key alone.
pub(crate) type Merged = Result<Vec<u8>>;

impl Engine {
    /// What version `newest` of `key`, an operand, and those below it come to. No version that is visible is newer.
    ///
    /// # Errors
    /// Those of reading the versions.
    #[cold]
    pub(crate) fn merge_chain(
        &self,
        view: &View,
        space: &KeyspaceState,
        key: &[u8],
        newest: Seq,
        trace: &mut impl Trace,
    ) -> Result<Merged> {
        let copies = Bump::new();
        let mut chain = Chain::new(&self.media, &copies);
        chain.walk(view, key, newest, trace)?;
        chain.operands.reverse();
        Ok(hooks::merge(&space.hooks, &space.name, key, chain.base, &chain.operands))
    }
}

impl<'m> Chain<'m> {
    fn new(media: &'m Media, copies: &'m Bump) -> Chain<'m> {
        let operands = Vec::new();
        Chain { media, copies, operands, base: None, ended: false, walked: ChainWalk::default() }
    }

    /// Takes in what the sources of `view` have of `key`, from version `newest` down.
    fn walk(&mut self, view: &View, key: &[u8], newest: Seq, trace: &mut impl Trace) -> Result<()> {
        let media = self.media;
        for memtable in &view.memtables {
            let deleted = memtable.deletes.newest(key, newest);
            memtable.walk(media, key, newest, |entry| self.record(&entry, deleted))?;
            self.leave(ProbeSource::Memtable { order: memtable.order }, trace);
            if self.is_over(deleted) {
                return Ok(());
            }
        }
        let hash = hash(key);
        for run in &view.runs {
            let deleted = run.ranges.newest(key, newest);
            let source = ProbeSource::Run { id: run.desc.id, entries: run.entries() };
            if run.may_hold(media, hash) {
                run.walk(media, key, newest, |entry| self.record(&entry, deleted))?;
                self.leave(source, trace);
            } else {
                pass_by(source, trace);
            }
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
            let source = ProbeSource::Table { level: number, id: table.desc.id };
            if open.may_contain(key)? {
                let mut cursor = open.cursor();
                cursor.seek(key, newest)?;
                while cursor.valid() && cursor.key() == key {
                    let copies = self.copies;
                    let (seq, kind) = (cursor.seq(), cursor.kind());
                    let taken = match kind {
                        EntryKind::ValueRef if seq >= deleted => {
                            let (file, of) = view.tree.values.find(key, cursor.value())?;
                            let value = file.get(key, &of)?;
                            let copy = || &*copies.alloc_slice_copy(value.bytes());
                            self.take(seq, EntryKind::Value, deleted, copy)
                        }
                        _ => {
                            let copy = || &*copies.alloc_slice_copy(cursor.value());
                            self.take(seq, kind, deleted, copy)
                        }
                    };
                    if taken.is_break() {
                        break;
                    }
                    cursor.next()?;
                }
                self.leave(source, trace);
            } else {
                pass_by(source, trace);
            }
            if self.is_over(deleted) {
                return Ok(());
            }
        }
        Ok(())
    }

    fn record(&mut self, entry: &Entry, deleted: Seq) -> Result<ControlFlow<()>> {
        let value = self.media.value(entry)?;
        Ok(self.take(entry.seq, entry.kind.of_entry(), deleted, || value))
    }

    /// Takes the next older version in, from a source where a range deletion of number `deleted` covers the key.
    fn take(
        &mut self,
        seq: Seq,
        kind: EntryKind,
        deleted: Seq,
        value: impl FnOnce() -> &'m [u8],
    ) -> ControlFlow<()> {
        // All that one file brought has one number: its range deletions spare its keys.
        self.ended = seq < deleted;
        if self.ended {
            return ControlFlow::Break(());
        }
        self.walked.versions += 1;
        match kind {
            EntryKind::Merge => {
                let operand = value();
                self.walked.bytes += operand.len() as u64;
                self.operands.push(operand);
            }
            EntryKind::Value | EntryKind::ValueRef => {
                self.base = Some(value());
                self.ended = true;
            }
            EntryKind::Delete | EntryKind::SingleDelete => self.ended = true,
        }
        if self.ended { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// A source has no more.
    fn leave(&mut self, source: ProbeSource, trace: &mut impl Trace) {
        let ChainWalk { versions, bytes } = std::mem::take(&mut self.walked);
        let found = versions > 0;
        trace.probe(|| Probe { source, passed_filter: true, found, versions, bytes });
    }

    fn is_over(&self, deleted: Seq) -> bool {
        self.ended || deleted > Seq::ZERO
    }
}

/// The filter of a source let nothing through.
fn pass_by(source: ProbeSource, trace: &mut impl Trace) {
    trace.probe(|| Probe { source, passed_filter: false, found: false, versions: 0, bytes: 0 });
}
