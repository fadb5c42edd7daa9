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
    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.0.create_dir_all(dir)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.0.list(dir)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.0.exists(path)
    }

    fn create(&self, path: &Path) -> Result<Box<dyn Append>> {
        self.0.create(path)
    }

    fn overwrite(&self, path: &Path) -> Result<Box<dyn Overwrite>> {
        Ok(Box::new(Durable { file: self.0.overwrite(path)?, has_written: false }))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn Read>> {
        self.0.open(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.0.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.0.link(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.0.remove(path)
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        self.0.remove_dir(path)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.0.sync_dir(dir)
    }

    fn free_bytes(&self, dir: &Path) -> Result<u64> {
        self.0.free_bytes(dir)
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}
