//! Inputs of a merge as ordered streams: keys ascend, versions of a key descend.

use std::ops::Bound;
use std::sync::Arc;

use art::{Direction, Versions};
use base::bytes::compare;
use base::{Result, Seq};
use sst::EntryKind;

use crate::level0::run::Run;
use crate::memtable::{Memtable, is_skipped};
use crate::record::store::{Entry, Leaf, Media, NEAR};
use crate::span::Span;
use crate::tree::ahead::Ahead;
use crate::tree::table::Table;

/// Index blocks read from a run at a time.
const BATCH_BLOCKS: u64 = 16;
/// Keys read from a memtable at a time.
const BATCH_KEYS: usize = 256;
/// Records prefetched ahead of the one that is read.
const AHEAD: usize = 12;

/// An ordered input.
pub(crate) enum Stream {
    Memtable(MemtableStream),
    Run(RunStream),
    Tables(Box<TableStream>),
}

/// Walks the versions in a memtable that may be taking writes, up to a number that is published.
pub(crate) struct MemtableStream {
    memtable: Arc<Memtable>,
    upto: Seq,
    /// The first key behind those that count.
    before: Option<Vec<u8>>,
    /// What was read ahead, the next last.
    batch: Vec<Entry>,
    /// The index has no more.
    ended: bool,
    head: Option<Entry>,
}

/// Walks the entries of a run.
pub(crate) struct RunStream {
    run: Arc<Run>,
    /// The first key behind those that count.
    before: Option<Vec<u8>>,
    next: u64,
    batch: Vec<u64>,
    at: usize,
    head: Option<Entry>,
}

/// Walks disjoint tables one after the other.
pub(crate) struct TableStream {
    rest: std::vec::IntoIter<Arc<Table>>,
    cursor: Option<sst::Cursor<Ahead>>,
}

impl Stream {
    /// A stream over the keys of a memtable that are in `span`, of versions not younger than `upto`.
    pub(crate) fn memtable(
        media: &Media,
        memtable: &Arc<Memtable>,
        span: &Span,
        upto: Seq,
    ) -> Result<Stream> {
        let mut stream = MemtableStream {
            memtable: Arc::clone(memtable),
            upto,
            before: span.upper.clone(),
            batch: Vec::new(),
            ended: false,
            head: None,
        };
        stream.read(media, span.from().map_or(Bound::Unbounded, Bound::Included))?;
        stream.advance(media)?;
        Ok(Stream::Memtable(stream))
    }

    /// A stream over the keys of a run that are in `span`.
    pub(crate) fn run(media: &Media, run: &Arc<Run>, span: &Span) -> Result<Stream> {
        let mut batch = Vec::new();
        let first = match span.from() {
            Some(key) => run.first_after(media, key, true, &mut batch)?,
            None => 0,
        };
        let next = first + batch.len() as u64;
        let (run, before) = (Arc::clone(run), span.upper.clone());
        let mut stream = RunStream { run, before, next, batch, at: 0, head: None };
        stream.advance(media)?;
        Ok(Stream::Run(stream))
    }

    /// A stream over disjoint tables in key order, from key `from` on.
    pub(crate) fn tables(tables: Vec<Arc<Table>>, from: Option<&[u8]>) -> Result<Stream> {
        let mut stream = TableStream { rest: tables.into_iter(), cursor: None };
        stream.next_table(from)?;
        Ok(Stream::Tables(Box::new(stream)))
    }

    /// The user key of the entry it stands on; `None` at the end.
    #[inline]
    pub(crate) fn key<'s>(&'s self, media: &'s Media) -> Option<&'s [u8]> {
        match self {
            Stream::Memtable(MemtableStream { head, .. }) | Stream::Run(RunStream { head, .. }) => {
                head.as_ref().map(|head| media.key(head))
            }
            Stream::Tables(stream) => stream.cursor.as_ref().map(|cursor| cursor.key()),
        }
    }

    /// Sequence number of the entry it stands on; 0 at the end.
    #[inline]
    pub(crate) fn seq(&self) -> Seq {
        match self {
            Stream::Memtable(MemtableStream { head, .. }) | Stream::Run(RunStream { head, .. }) => {
                head.map_or(0, |head| head.seq)
            }
            Stream::Tables(stream) => stream.cursor.as_ref().map_or(0, |cursor| cursor.seq()),
        }
    }

    /// What the entry it stands on says of its key.
    pub(crate) fn kind(&self) -> EntryKind {
        match self {
            Stream::Memtable(MemtableStream { head, .. }) | Stream::Run(RunStream { head, .. }) => {
                head.map_or(EntryKind::Delete, |head| head.kind.of_entry())
            }
            Stream::Tables(stream) => {
                stream.cursor.as_ref().map_or(EntryKind::Delete, |cursor| cursor.kind())
            }
        }
    }

    /// Its value; one in an extent is checked here.
    pub(crate) fn value<'s>(&'s self, media: &'s Media) -> Result<&'s [u8]> {
        match self {
            Stream::Memtable(MemtableStream { head, .. }) | Stream::Run(RunStream { head, .. }) => {
                head.as_ref().map_or(Ok(&[][..]), |head| media.value(head))
            }
            Stream::Tables(stream) => {
                Ok(stream.cursor.as_ref().map_or(&[][..], |cursor| cursor.value()))
            }
        }
    }

    /// Moves on to the next entry.
    #[inline]
    pub(crate) fn advance(&mut self, media: &Media) -> Result<()> {
        match self {
            Stream::Memtable(stream) => stream.advance(media),
            Stream::Run(stream) => stream.advance(media),
            Stream::Tables(stream) => stream.advance(),
        }
    }
}

impl MemtableStream {
    /// Reads ahead from `from` on.
    fn read(&mut self, media: &Media, from: Bound<&[u8]>) -> Result<()> {
        let mut leaves = Vec::with_capacity(BATCH_KEYS);
        let (index, forward) = (&self.memtable.index, Direction::Forward);
        self.ended = index.scan(media, from, forward, Versions::All, BATCH_KEYS, &mut leaves);
        leaves.iter().for_each(|leaf| media.prefetch(Leaf(*leaf)));
        let entries = leaves.iter().rev().map(|leaf| media.entry(Leaf(*leaf)));
        self.batch = entries.collect::<Result<_>>()?;
        Ok(())
    }

    fn advance(&mut self, media: &Media) -> Result<()> {
        loop {
            let Some(entry) = self.batch.pop() else {
                self.head = None;
                return Ok(());
            };
            if self.batch.is_empty() && !self.ended {
                self.read(media, Bound::Excluded(media.key(&entry)))?;
            }
            if is_behind(media, &entry, self.before.as_deref()) {
                self.batch.clear();
                self.head = None;
                return Ok(());
            }
            if entry.seq <= self.upto && !is_skipped(&entry) {
                self.head = Some(entry);
                return Ok(());
            }
        }
    }
}

fn is_behind(media: &Media, entry: &Entry, before: Option<&[u8]>) -> bool {
    before.is_some_and(|before| compare(media.key(entry), before).is_ge())
}

impl RunStream {
    fn advance(&mut self, media: &Media) -> Result<()> {
        loop {
            if self.at == self.batch.len() {
                self.batch.clear();
                self.at = 0;
                self.run.leaves(media, self.next, false, BATCH_BLOCKS, 0, &mut self.batch)?;
                self.next += self.batch.len() as u64;
                self.batch.iter().take(AHEAD).for_each(|leaf| media.prefetch(Leaf(*leaf)));
            }
            let Some(leaf) = self.batch.get(self.at).map(|leaf| Leaf(*leaf)) else {
                self.head = None;
                return Ok(());
            };
            if let Some(ahead) = self.batch.get(self.at + AHEAD) {
                media.prefetch(Leaf(*ahead));
            }
            if let Some(near) = self.batch.get(self.at + NEAR) {
                media.prefetch_rest(Leaf(*near));
            }
            self.at += 1;
            let entry = media.entry(leaf)?;
            if is_behind(media, &entry, self.before.as_deref()) {
                self.head = None;
                return Ok(());
            }
            if !is_skipped(&entry) {
                self.head = Some(entry);
                return Ok(());
            }
        }
    }
}

impl TableStream {
    fn next_table(&mut self, from: Option<&[u8]>) -> Result<()> {
        self.cursor = None;
        for table in self.rest.by_ref() {
            let mut cursor = table.uncached()?.cursor();
            match from {
                Some(key) => cursor.seek(key, sst::SEQ_MAX)?,
                None => cursor.first()?,
            }
            if cursor.valid() {
                self.cursor = Some(cursor);
                return Ok(());
            }
        }
        Ok(())
    }

    fn advance(&mut self) -> Result<()> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        cursor.next()?;
        if cursor.valid() { Ok(()) } else { self.next_table(None) }
    }
}
