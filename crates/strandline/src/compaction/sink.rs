//! Where the bytes of a table go: to a file as they come, or, if it belongs in persistent memory, to a buffer that becomes
//! an extent when the table ends.
//!
//! An extent is so taken once, of the right length, and written and fenced by one thread, whichever threads carried the
//! merge on (I-PM-3). A table that outgrows the longest extent, or finds no room at its end, goes to a file after all.

use std::sync::Arc;

use base::Result;
use base::checksum::Sum;
use base::planted::{self, Bug};
use pool::Extent;
use ssd::Append;
use sst::Sink;

use super::placement::{self, Place};
use crate::background::rate::RateLimit;
use crate::tree::memory::PmTables;
use crate::tree::tables::Tables;

/// Bytes that a file is handed at once.
const BUFFER: usize = 1 << 20;

/// A table being written.
pub(crate) struct TableSink {
    tables: Arc<Tables>,
    id: u64,
    to: To,
    buffer: Vec<u8>,
    sum: Sum,
    rate: Option<Arc<RateLimit>>,
}

enum To {
    File(Box<dyn Append>),
    Memory(Arc<PmTables>),
}

/// A table that is durable.
pub(crate) struct Written {
    /// Checksum of all its bytes.
    pub sum: u64,
    /// Where in persistent memory it lies; none: it is a file.
    pub extent: Option<Extent>,
}

impl TableSink {
    /// Table `id`, which will have about `expected` bytes.
    pub(crate) fn new(
        tables: &Arc<Tables>,
        id: u64,
        (place, expected): (Place, u64),
        rate: Option<Arc<RateLimit>>,
    ) -> Result<TableSink> {
        let memory = tables.memory.as_ref().filter(|_| place == Place::Memory);
        let has_room = |memory: &&Arc<PmTables>| memory.has_room(expected.min(memory.len_max()));
        let to = match memory.filter(has_room) {
            Some(memory) => To::Memory(Arc::clone(memory)),
            None => To::File(tables.create(id, expected)?),
        };
        Ok(TableSink {
            tables: Arc::clone(tables),
            id,
            buffer: Vec::with_capacity(BUFFER.min(expected as usize)),
            to,
            sum: Sum::default(),
            rate,
        })
    }

    /// Bytes at which the table is cut that a file would be cut at `table_bytes`.
    pub(crate) fn cut_at(&self, table_bytes: u64) -> u64 {
        match &self.to {
            To::File(_) => table_bytes,
            To::Memory(memory) => placement::cut_at(table_bytes, memory.len_max()),
        }
    }

    fn flush(&mut self) -> Result<()> {
        if let To::Memory(_) = &self.to {
            self.to = To::File(self.tables.create(self.id, self.buffer.len() as u64)?);
        }
        self.take_rate();
        if let To::File(file) = &mut self.to {
            file.append(&self.buffer)?;
        }
        self.buffer.clear();
        Ok(())
    }

    fn take_rate(&self) {
        if let Some(rate) = &self.rate {
            rate.take(self.buffer.len() as u64);
        }
    }

    /// Makes all of it durable.
    pub(crate) fn end(mut self) -> Result<Written> {
        let sum = self.sum.value();
        if let To::Memory(memory) = &self.to {
            if let Some(extent) = memory.write(&self.buffer) {
                self.take_rate();
                return Ok(Written { sum, extent: Some(extent) });
            }
        }
        self.flush()?;
        if let To::File(file) = &mut self.to
            && !planted::is(Bug::SkipTableSync)
        {
            file.sync()?;
        }
        Ok(Written { sum, extent: None })
    }
}

impl Sink for TableSink {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.sum.update(bytes);
        self.buffer.extend_from_slice(bytes);
        let most = match &self.to {
            To::File(_) => BUFFER,
            To::Memory(memory) => memory.len_max() as usize + 1,
        };
        if self.buffer.len() >= most {
            self.flush()?;
            if let To::File(file) = &mut self.to {
                file.advise_written();
            }
        }
        Ok(())
    }
}
