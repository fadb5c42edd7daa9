//! Where the bytes of a table come from and go to.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Error, Result};

/// Bytes of a table, wherever they lie.
pub trait ReadAt: Send + Sync {
    /// Fills `out` with the bytes from offset `at` on. Fails where fewer are there.
    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()>;
    /// How many bytes there are.
    fn len(&self) -> u64;
    /// What messages call this file.
    fn name(&self) -> String;

    /// Whether there are no bytes at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Where a writer puts bytes, one after the other.
pub trait Sink {
    /// Puts `bytes` behind all bytes before.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;
}

fn read_slice(bytes: &[u8], at: u64, out: &mut [u8]) -> Result<()> {
    let from = usize::try_from(at).ok();
    let range = from.and_then(|from| bytes.get(from..from.checked_add(out.len())?));
    let Some(range) = range else {
        let what = format!(
            "{} bytes at offset {at} of a table in memory of {} bytes; the table is cut off",
            out.len(),
            bytes.len()
        );
        return Err(Error::corruption("read table", what));
    };
    out.copy_from_slice(range);
    Ok(())
}

impl ReadAt for Vec<u8> {
    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()> {
        read_slice(self, at, out)
    }
    fn len(&self) -> u64 {
        self.as_slice().len() as u64
    }
    fn name(&self) -> String {
        "table in memory".into()
    }
}

impl ReadAt for Arc<[u8]> {
    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()> {
        read_slice(self, at, out)
    }
    fn len(&self) -> u64 {
        <[u8]>::len(self) as u64
    }
    fn name(&self) -> String {
        "table in memory".into()
    }
}

impl<T: ReadAt + ?Sized> ReadAt for Arc<T> {
    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()> {
        (**self).read_at(at, out)
    }
    fn len(&self) -> u64 {
        (**self).len()
    }
    fn name(&self) -> String {
        (**self).name()
    }
}

impl Sink for Vec<u8> {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.extend_from_slice(bytes);
        Ok(())
    }
}

/// A table in a file of the operating system.
#[derive(Debug)]
pub struct FileReader {
    file: File,
    path: PathBuf,
    len: u64,
}

impl FileReader {
    /// Opens `path` for reading. Its length is taken now: a file that grows later is read as it was.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let failed = |error| Error::io("open table", path.display().to_string(), error);
        let file = File::open(path).map_err(failed)?;
        let len = file.metadata().map_err(failed)?.len();
        Ok(Self { file, path: path.into(), len })
    }
}

impl ReadAt for FileReader {
    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(out, at).map_err(|error| {
            let what = format!("{} bytes at offset {at} of {}", out.len(), self.path.display());
            Error::io("read table", what, error)
        })
    }
    fn len(&self) -> u64 {
        self.len
    }
    fn name(&self) -> String {
        self.path.display().to_string()
    }
}

/// A new file of the operating system that a writer fills.
#[derive(Debug)]
pub struct FileSink {
    file: std::io::BufWriter<File>,
    path: PathBuf,
}

impl FileSink {
    /// Creates `path`; fails where something of that name is there.
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = File::create_new(path)
            .map_err(|error| Error::io("create table", path.display().to_string(), error))?;
        Ok(Self { file: std::io::BufWriter::with_capacity(1 << 20, file), path: path.into() })
    }

    /// Makes all bytes durable. The name of the file is durable once its directory is synced too.
    pub fn sync(mut self) -> Result<()> {
        self.file
            .flush()
            .and_then(|()| self.file.get_ref().sync_data())
            .map_err(|error| Error::io("sync table", self.path.display().to_string(), error))
    }
}

impl Sink for FileSink {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file
            .write_all(bytes)
            .map_err(|error| Error::io("write table", self.path.display().to_string(), error))
    }
}
