//! Copies a file to another tier, reads the copy back, and compares both with the checksum that the manifest has.

use std::sync::Arc;

use base::planted;
use base::{Error, ErrorKind, Result};

use crate::compaction::merge::engine::{MergeTask, Poll};
use crate::compaction::merge::sink::{FileTier, SinkOptions, TableSink};
use crate::compaction::policy::placement::OutputTier;
use crate::compaction::tiers::share_of;
use crate::compaction::under_way::value_move::ValueMove;
use crate::engine::Engine;
use crate::tree::desc::TableDesc;
use crate::tree::names::FileName;
use crate::tree::room::Writes;
use crate::tree::space::NewTable;
use crate::tree::table::Table;
use crate::tree::tables::Tables;
use crate::tree::value_file::ValueFile;
use crate::tree::verify;

/// Bytes that are copied at a time.
const CHUNK: u64 = 256 << 10;

/// What is copied.
pub(crate) enum CopiedFile {
    Table { table: Arc<Table>, level: usize },
    Values(Arc<ValueMove>),
}

/// What a file is to be.
struct Expected {
    name: FileName,
    len: u64,
    sum: u64,
    entries: u64,
}

impl CopiedFile {
    fn expected(&self) -> Expected {
        match self {
            CopiedFile::Table { table, .. } => {
                let TableDesc { id, len, sum, entries, .. } = table.desc;
                Expected { name: FileName::Table(id), len, sum, entries }
            }
            CopiedFile::Values(moves) => {
                let ValueFile { desc, .. } = &*moves.file;
                Expected {
                    name: FileName::Values(desc.id),
                    len: desc.len,
                    sum: desc.sum,
                    entries: 0,
                }
            }
        }
    }

    fn bytes(&self) -> Result<Arc<dyn ssd::Read>> {
        match self {
            CopiedFile::Table { table, .. } => table.bytes(),
            // The claim holds its place until the move ends.
            CopiedFile::Values(moves) => Ok(Arc::clone(&moves.file.file()?.0)),
        }
    }
}

/// A copy under way.
pub(crate) struct CopyTask {
    tables: Arc<Tables>,
    of: CopiedFile,
    expected: Expected,
    source: Arc<dyn ssd::Read>,
    sink: Option<TableSink>,
    at: u64,
}

impl CopyTask {
    pub(crate) fn new(
        tables: &Arc<Tables>,
        of: CopiedFile,
        to: u32,
        engine: &Engine,
    ) -> Result<CopyTask> {
        let (source, expected) = (of.bytes()?, of.expected());
        let options = SinkOptions {
            tier: OutputTier::Ssd,
            to: FileTier::Tier(to),
            expected: expected.len,
            writes: Writes::Levels,
            memory: Writes::Levels,
            rate: Some(Arc::clone(&engine.background.rate)),
        };
        let sink = Some(TableSink::new(tables, expected.name, options)?);
        Ok(CopyTask { tables: Arc::clone(tables), of, expected, source, sink, at: 0 })
    }

    fn end(&mut self, sink: TableSink) -> Result<Vec<NewTable>> {
        let Expected { len, sum, .. } = self.expected;
        let written = sink.end()?;
        if written.sum != sum {
            let text = format!(
                "{} has other bytes than were written; restore it, or save the rest with `strandline repair`",
                self.source.path().display()
            );
            return Err(Error::corruption("move file", text));
        }
        let place = written.space.place();
        planted::step("read a moved file back");
        verify::verify(&*self.tables.open_file(place)?, len, sum)?;
        Ok(match &self.of {
            CopiedFile::Table { table, level } => {
                let desc = TableDesc { tier: place.tier, ..table.desc_at(*level) };
                let values = table.values.clone();
                vec![NewTable { desc, space: written.space, values, reads: 0, warm: Vec::new() }]
            }
            CopiedFile::Values(moves) => {
                moves.put(written.space);
                Vec::new()
            }
        })
    }
}

impl MergeTask for CopyTask {
    fn poll(&mut self, _entries: usize) -> Result<Poll> {
        planted::step("move a file");
        let Some(mut sink) = self.sink.take() else {
            return Err(Error::new(ErrorKind::Internal, "move file", "the copy has ended"));
        };
        let left = self.expected.len - self.at;
        let mut chunk = vec![0; left.min(CHUNK) as usize];
        self.source.read_at(self.at, &mut chunk)?;
        sst::Sink::append(&mut sink, &chunk)?;
        self.at += chunk.len() as u64;
        if self.at < self.expected.len {
            self.sink = Some(sink);
            return Ok(Poll::Working);
        }
        self.end(sink).map(Poll::Done)
    }

    fn passed(&self) -> u64 {
        share_of(self.expected.entries, self.at, self.expected.len)
    }

    fn cancel(&mut self) {
        self.sink = None;
    }
}
