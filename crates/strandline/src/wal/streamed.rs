//! [`StreamedFiles`]: the files of a log that is in persistent memory. What is written there is durable when the call returns, by
//! one fence. A sync makes durable what a killed process left unfenced, if the handle has written nothing itself.

use std::path::Path;
use std::sync::Arc;

use base::Result;
use pmem::{Durability, PmDevice, StreamedFile};
use ssd::{Append, Fs, Overwrite, Read};

/// A file system in persistent memory, as far as a log needs one.
pub(crate) struct StreamedFiles {
    inner: Arc<dyn Fs>,
    promised: Durability,
    device: Option<PmDevice>,
}

impl StreamedFiles {
    /// `inner`, whose files are worth `promised`, in memory that `device` models, if that is not the host's own.
    pub fn new(
        inner: Arc<dyn Fs>,
        promised: Durability,
        device: Option<PmDevice>,
    ) -> StreamedFiles {
        StreamedFiles { inner, promised, device }
    }
}

struct Streamed {
    file: StreamedFile,
    /// A failure is final.
    failed: bool,
}

impl Streamed {
    fn once(&mut self, call: impl FnOnce(&mut StreamedFile) -> Result<()>) -> Result<()> {
        if self.failed {
            let text = "the file failed before; reopen the store";
            return Err(base::Error::new(base::ErrorKind::Closed, "write log", text));
        }
        let done = call(&mut self.file);
        self.failed = done.is_err();
        done
    }
}

impl Overwrite for Streamed {
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        self.once(|file| file.write_at(at, bytes))
    }

    fn sync(&mut self) -> Result<()> {
        self.once(StreamedFile::sync)
    }

    /// A failure changes no byte that counts.
    fn extend(&mut self, len: u64) -> Result<()> {
        self.once(|_| Ok(()))?;
        self.file.extend(len)?;
        self.once(StreamedFile::sync_blocks)
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        self.once(|file| file.truncate(len).and_then(|()| file.sync_blocks()))
    }

    fn len(&self) -> u64 {
        self.file.len()
    }
}

impl Fs for StreamedFiles {
    ssd::forward_names!(inner);

    fn create(&self, path: &Path) -> Result<Box<dyn Append>> {
        self.inner.create(path)
    }

    fn overwrite(&self, path: &Path) -> Result<Box<dyn Overwrite>> {
        let file = StreamedFile::open(path, self.promised, self.device.clone())?;
        Ok(Box::new(Streamed { file, failed: false }))
    }

    fn keeps_blocks(&self, dir: &Path) -> bool {
        self.inner.keeps_blocks(dir)
    }

    fn is_memory(&self, dir: &Path) -> bool {
        self.inner.is_memory(dir)
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn Read>> {
        self.inner.open(path)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.inner.sync_dir(dir)
    }

    fn describe(&self) -> String {
        format!("{}, streamed", self.inner.describe())
    }
}
