//! [`DurableFiles`]: what [`StreamedFiles`](super::streamed::StreamedFiles) promises, on the files of a simulator: a write is
//! durable when it returns. Power that fails before keeps any of its words.

use std::path::Path;
use std::sync::Arc;

use base::Result;
use base::planted::{self, Bug};
use ssd::{Append, Fs, Overwrite, Read};

/// A file system that stands for one in persistent memory.
pub(crate) struct DurableFiles(pub Arc<dyn Fs>);

struct Durable {
    file: Box<dyn Overwrite>,
    has_written: bool,
}

impl Overwrite for Durable {
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        self.has_written = true;
        self.file.write_at(at, bytes)?;
        // The fence.
        if planted::is(Bug::WalStreamedUnfenced) { Ok(()) } else { self.file.sync() }
    }

    fn sync(&mut self) -> Result<()> {
        let is_done = self.has_written || planted::is(Bug::WalStreamedNotFlushed);
        if is_done { Ok(()) } else { self.file.sync() }
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        self.file.truncate(len)?;
        self.file.sync()
    }

    fn len(&self) -> u64 {
        self.file.len()
    }
}

impl Fs for DurableFiles {
    ssd::forward_names!(0);

    fn create(&self, path: &Path) -> Result<Box<dyn Append>> {
        self.0.create(path)
    }

    fn overwrite(&self, path: &Path) -> Result<Box<dyn Overwrite>> {
        Ok(Box::new(Durable { file: self.0.overwrite(path)?, has_written: false }))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn Read>> {
        self.0.open(path)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.0.sync_dir(dir)
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}
