//! Values of a merge that lie apart from their keys: those of its inputs, and the value files that it writes.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::planted::{self, Bug};
use base::{Error, Result};
use sst::{Compression, EntryKind, ValueRef, ValueWriter};

use crate::compaction::merge::sink::{SinkOptions, TableSink};
use crate::tree::desc::ValueFileDesc;
use crate::tree::names::FileName;
use crate::tree::tables::Tables;
use crate::tree::tiers::OWN;
use crate::tree::value_file::{StoredValue, ValueFile, ValueFiles};
use crate::tree::value_reader::{ValueReader, ValueUse};
use crate::tree::verify;
use crate::ttl::STAMP_LEN;

/// What a merge does with values that lie apart, or come to.
#[derive(Clone)]
pub(crate) struct MergeValues {
    /// The files that its inputs refer to.
    pub files: Arc<ValueFiles>,
    /// Numbers of those whose values are written anew.
    pub collected: Arc<BTreeSet<u64>>,
    /// Bytes of a value from which on it goes to a value file; 0: none does.
    pub from: u64,
    /// Bytes before each value that stay with the key: the time at which it expires.
    pub stamp: usize,
    /// How values are compressed.
    pub compression: Compression,
    pub compression_level: i32,
    /// Bytes at which a value file is cut.
    pub file_bytes: u64,
}

/// Writes value files, one after the other, in key order.
pub(crate) struct ValueOutput {
    tables: Arc<Tables>,
    keyspace: u32,
    sink: SinkOptions,
    merge: MergeValues,
    reader: ValueReader,
    open: Option<ValueWriter<TableSink>>,
    done: Vec<Arc<ValueFile>>,
    /// An entry as a table has it.
    entry: Vec<u8>,
}

/// An entry as a table has it, and what it refers to.
pub(crate) struct PlacedEntry<'e> {
    pub kind: EntryKind,
    pub stored: &'e [u8],
    pub refers: Option<ValueRef>,
}

impl ValueOutput {
    pub(crate) fn new(
        tables: &Arc<Tables>,
        keyspace: u32,
        sink: SinkOptions,
        merge: MergeValues,
    ) -> ValueOutput {
        ValueOutput {
            tables: Arc::clone(tables),
            keyspace,
            sink,
            merge,
            reader: ValueReader::new(ValueUse::Merge),
            open: None,
            done: Vec::new(),
            entry: Vec::new(),
        }
    }

    /// The value that an entry of the inputs refers to.
    pub(crate) fn fetch(&mut self, key: &[u8], reference: &[u8]) -> Result<StoredValue> {
        self.reader.read(&self.merge.files, key, reference)
    }

    /// Puts the value of an entry where it belongs.
    pub(crate) fn place<'e>(
        &'e mut self,
        key: &[u8],
        kind: EntryKind,
        stored: &'e [u8],
    ) -> Result<PlacedEntry<'e>> {
        let drops_live = planted::is(Bug::CollectWithoutRewrite);
        let loses_time = planted::is(Bug::CollectLosesTime);
        let stamp = self.merge.stamp.min(stored.len());
        let (time, rest) = stored.split_at(stamp);
        match kind {
            EntryKind::Value if self.belongs_apart(rest.len()) => {
                let of = self.add(key, rest)?;
                Ok(self.referring(time, of))
            }
            EntryKind::ValueRef => {
                let (_, of) = self.merge.files.find(key, rest)?;
                if !self.merge.collected.contains(&of.file) {
                    return Ok(PlacedEntry { kind, stored, refers: Some(of) });
                }
                if drops_live {
                    return Ok(PlacedEntry { kind, stored, refers: None });
                }
                // One that is compressed is longer than what is stored.
                let stays_apart = self.belongs_apart(of.len as usize) || of.compression != 0;
                if self.merge.from > 0
                    && stays_apart
                    && let Some(of) = self.take_over(key, rest)?
                {
                    let time = if loses_time { &[0; STAMP_LEN][..time.len()] } else { time };
                    return Ok(self.referring(time, of));
                }
                let value = self.fetch(key, rest)?;
                if self.belongs_apart(value.bytes().len()) {
                    let of = self.add(key, value.bytes())?;
                    return Ok(self.referring(time, of));
                }
                // The option was changed: it goes back to its key.
                self.entry.clear();
                self.entry.extend_from_slice(time);
                self.entry.extend_from_slice(value.bytes());
                Ok(PlacedEntry { kind: EntryKind::Value, stored: &self.entry, refers: None })
            }
            _ => Ok(PlacedEntry { kind, stored, refers: None }),
        }
    }

    fn belongs_apart(&self, len: usize) -> bool {
        self.merge.from > 0 && len as u64 >= self.merge.from
    }

    fn referring(&mut self, time: &[u8], of: ValueRef) -> PlacedEntry<'_> {
        self.entry.clear();
        self.entry.extend_from_slice(time);
        of.encode(&mut self.entry);
        PlacedEntry { kind: EntryKind::ValueRef, stored: &self.entry, refers: Some(of) }
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<ValueRef> {
        self.writer(key.len() + value.len())?.add(key, value)
    }

    /// Takes the record that an entry refers to over as it is, if its value is stored as those of the file under way are. The first
    /// of a file decides for all, so it is not taken over uncompressed: it may come from persistent memory, or have been meant for
    /// it, where nothing is compressed.
    fn take_over(&mut self, key: &[u8], reference: &[u8]) -> Result<Option<ValueRef>> {
        let (_, of) = self.merge.files.find(key, reference)?;
        let compresses = self.merge.compression != Compression::None;
        let writer = self.writer(key.len().saturating_add(of.len as usize))?;
        let decides = compresses && writer.is_empty() && !writer.sink().is_for_memory();
        if decides && of.compression == 0 {
            return Ok(None);
        }
        let (of, record) = self.reader.record(&self.merge.files, key, reference)?;
        self.open.as_mut().map_or(Ok(None), |writer| writer.add_record(&of, record))
    }

    /// The file under way, for a record with so many bytes of key and stored value.
    fn writer(&mut self, coming: usize) -> Result<&mut ValueWriter<TableSink>> {
        let coming = coming as u64;
        let is_full = |open: &mut ValueWriter<TableSink>| {
            // Where it counts for a zone anyway, it fills one.
            let long = open.len() >= self.merge.file_bytes && !open.sink().is_for_memory();
            let (len, with) = (open.len(), open.len_with(coming));
            let outgrows = open.sink().is_too_long(with);
            long || !open.is_empty() && (outgrows || !open.sink_mut().takes(with - len))
        };
        if self.open.as_mut().is_some_and(is_full) {
            self.end_file()?;
        }
        let writer = match self.open.take() {
            Some(writer) => writer,
            None => {
                let id = self.tables.take_id();
                let mut options = self.sink.clone();
                options.expected = options.expected.max(coming);
                let sink = TableSink::new(&self.tables, FileName::Values(id), options)?;
                let MergeValues { compression_level, .. } = self.merge;
                // What is read where it lies is what is stored.
                let compression = match sink.is_for_memory() {
                    true => Compression::None,
                    false => self.merge.compression,
                };
                ValueWriter::new(sink, id, self.keyspace, compression, compression_level)
            }
        };
        Ok(self.open.insert(writer))
    }

    /// Makes the file under way durable, and reads it back.
    fn end_file(&mut self) -> Result<()> {
        // One that was begun for a record that went elsewhere has no values: its file goes.
        let Some(writer) = self.open.take().filter(|writer| !writer.is_empty()) else {
            return Ok(());
        };
        planted::step("end a value file");
        let id = writer.file();
        let (sink, summary) = writer.finish()?;
        let written = sink.end()?;
        let extent = written.space.extent();
        let desc = ValueFileDesc {
            id,
            extent,
            tier: if extent.is_some() { OWN } else { written.space.place().tier },
            len: summary.len,
            sum: written.sum,
            values: summary.values,
        };
        let file = ValueFile::new(desc, written.space);
        planted::step("read a value file back");
        verify::verify(&*file.file()?.0, file.desc.len, file.desc.sum)?;
        self.done.push(Arc::new(file));
        Ok(())
    }

    /// Ends the last file and hands all of them over.
    pub(crate) fn end(&mut self) -> Result<Vec<Arc<ValueFile>>> {
        self.end_file()?;
        Ok(std::mem::take(&mut self.done))
    }

    /// The file of that number, among those `made` or those of the inputs.
    pub(crate) fn file(&self, made: &[Arc<ValueFile>], id: u64) -> Result<Arc<ValueFile>> {
        // Numbers ascend as files are made.
        let new = made.binary_search_by_key(&id, |file| file.desc.id).ok().map(|at| &made[at]);
        new.or_else(|| self.merge.files.get(id)).cloned().ok_or_else(|| {
            let text =
                format!("a table refers to value file {id}, which is not there; report this");
            Error::new(base::ErrorKind::Internal, "compact", text)
        })
    }

    /// Gives up what was written.
    pub(crate) fn abandon(&mut self) {
        self.open = None;
        self.done.clear();
    }
}
