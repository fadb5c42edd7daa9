//! [`StreamedFile`]: a file in persistent memory that is written as a log is, each write durable when it returns.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use base::{Error, ErrorKind, Result};
use rustix::fs::fstat;

use crate::backing::{Mapping, OpenMode};
use crate::durability::Durability;
use crate::model::PmDevice;
use crate::region::Region;
use crate::site::Site;

/// Pages are mapped so many bytes ahead of what is written, so that no write meets a page fault.
const AHEAD: u64 = 256 << 10;

/// A file whose bytes are streamed past the caches. Nothing locks it.
///
/// A completed [`write_at`](Self::write_at) is worth what was promised when the file was opened: one fence of the thread that wrote
/// has passed. Where a mapping of the file is worth less, or there can be none, and behind the end of the file, bytes are written by a
/// call and synced, which takes long: who writes often makes the file as long as it is to be, by [`extend`](Self::extend).
pub struct StreamedFile {
    path: PathBuf,
    file: File,
    len: u64,
    promised: Durability,
    device: Option<PmDevice>,
    mapped: Mapped,
    /// Bytes whose pages are mapped.
    ready: u64,
    /// Whether this handle has written anything.
    has_written: bool,
}

/// How the file can be reached.
enum Mapped {
    /// Not asked since it was opened, or became longer or shorter.
    NotYet,
    /// As long as the file is.
    Whole(Region),
    /// Not as was promised.
    Never,
}

impl StreamedFile {
    /// Opens a file that is there, on `device` if that is modelled. Nothing is mapped before the first write. `promised` is what
    /// files there are thought to be worth.
    ///
    /// # Errors
    /// `NotFound`, `Io`.
    pub fn open(
        path: &Path,
        promised: Durability,
        device: Option<PmDevice>,
    ) -> Result<StreamedFile> {
        let opened = OpenOptions::new().read(true).write(true).open(path);
        let file = opened.map_err(|error| failed("open", path, error))?;
        let len = file.metadata().map_err(|error| failed("open", path, error))?.len();
        let path = path.into();
        Ok(StreamedFile {
            path,
            file,
            len,
            promised,
            device,
            mapped: Mapped::NotYet,
            ready: 0,
            has_written: false,
        })
    }

    /// Bytes in the file.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the file is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts bytes at `at`, durably when it returns.
    ///
    /// # Errors
    /// `NoSpace`, `Io`. What of the bytes is in the file is not known then.
    pub fn write_at(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.has_written = true;
        let end = at + bytes.len() as u64;
        if end <= self.len
            && let Some(region) = self.region(end)
        {
            // Records of commits, as those of a pool.
            let _durable = region.fence(region.copy_nt(Site::Record, at, bytes));
            return Ok(());
        }
        let written = self.file.write_all_at(bytes, at).and_then(|()| self.file.sync_all());
        written.map_err(|error| failed("write", &self.path, error))?;
        if end > self.len {
            self.len = end;
            self.unmap();
        }
        Ok(())
    }

    /// Makes the file `len` bytes long by zeros, which have their blocks. They last once [`sync_blocks`](Self::sync_blocks) returns.
    ///
    /// # Errors
    /// `NoSpace`, `Io`.
    pub fn extend(&mut self, len: u64) -> Result<()> {
        static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
        while self.len < len {
            let part = (len - self.len).min(ZEROS.len() as u64);
            let write = || self.file.write_all_at(&ZEROS[..part as usize], self.len);
            let written = match &self.device {
                Some(device) => device.fill(part, write),
                None => write(),
            };
            written.map_err(|error| failed("extend", &self.path, error))?;
            self.len += part;
            self.unmap();
        }
        Ok(())
    }

    /// Makes the length and the blocks of the file durable.
    ///
    /// # Errors
    /// `NoSpace`, `Io`.
    pub fn sync_blocks(&mut self) -> Result<()> {
        self.file.sync_all().map_err(|error| failed("sync", &self.path, error))
    }

    /// Makes durable what is in the file. Nothing is done by a handle that has written to it, since what it wrote is. What a
    /// process left that was killed before its fence a handle flushes that has not.
    ///
    /// # Errors
    /// `Io`.
    pub fn sync(&mut self) -> Result<()> {
        if self.has_written || self.len == 0 {
            return Ok(());
        }
        let len = self.len;
        match self.region(0) {
            Some(region) => {
                let _durable =
                    region.fence(region.flush_range(Site::RecoverAccepted, 0, len as usize));
                Ok(())
            }
            None => self.sync_blocks(),
        }
    }

    /// Cuts off what is behind `len`. It lasts once [`sync_blocks`](Self::sync_blocks) returns.
    ///
    /// # Errors
    /// `Io`.
    pub fn truncate(&mut self, len: u64) -> Result<()> {
        if len < self.len {
            // What is behind the end must not be mapped: a store to it would end the process.
            self.unmap();
            self.file.set_len(len).map_err(|error| failed("cut short", &self.path, error))?;
            self.len = len;
        }
        Ok(())
    }

    fn unmap(&mut self) {
        if !matches!(self.mapped, Mapped::Never) {
            self.mapped = Mapped::NotYet;
        }
        self.ready = 0;
    }

    /// The file as memory, with pages up to `end` and some ahead; none if it cannot be had as it was promised.
    fn region(&mut self, end: u64) -> Option<&Region> {
        if let Mapped::NotYet = self.mapped {
            self.mapped = self.map().map_or(Mapped::Never, Mapped::Whole);
        }
        let Mapped::Whole(region) = &self.mapped else { return None };
        if end > self.ready {
            let to = (end + AHEAD).min(self.len);
            // Where it does not work, writes map page by page.
            let _mapped = region.populate(self.ready, to - self.ready);
            self.ready = to;
        }
        Some(region)
    }

    fn map(&self) -> Option<Region> {
        let stat = fstat(&self.file).ok()?;
        let own = self.file.try_clone().ok()?;
        let (mapping, durability) =
            Mapping::new(self.path.clone(), own.into(), &stat, self.len, OpenMode::ReadWrite)
                .ok()?;
        // A file may be reached otherwise than others in its directory: one that is older than a flag of that is.
        let region = (durability >= self.promised)
            .then(|| Region::new(Box::new(mapping), durability, None))?;
        Some(match &self.device {
            Some(device) => region.on(device),
            None => region,
        })
    }
}

fn failed(operation: &'static str, path: &Path, source: std::io::Error) -> Error {
    let shown = path.display();
    let (kind, text) = match source.kind() {
        std::io::ErrorKind::NotFound => {
            (ErrorKind::NotFound, format!("{shown} does not exist; put it back"))
        }
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            (ErrorKind::NoSpace, format!("{shown}: its file system is full; free space there"))
        }
        _ => (ErrorKind::Io, format!("{shown}: {source}")),
    };
    Error::new(kind, operation, text).with_source(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(len: usize) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("file");
        std::fs::write(&path, vec![9; len]).expect("written");
        (dir, path)
    }

    #[test]
    fn writes_go_to_the_file_within_and_behind_its_end() {
        let (_dir, path) = file(1000);
        let mut streamed = StreamedFile::open(&path, Durability::ProcessCrash, None).expect("open");
        streamed.write_at(10, b"within").expect("write");
        streamed.write_at(998, b"across").expect("write");
        streamed.write_at(2000, b"behind").expect("write");
        streamed.write_at(0, &[1; 64]).expect("write");
        assert_eq!(streamed.len(), 2006);
        let bytes = std::fs::read(&path).expect("read");
        assert_eq!(
            (&bytes[..64], &bytes[998..1004], &bytes[2000..]),
            (&[1; 64][..], &b"across"[..], &b"behind"[..])
        );
        assert!(bytes[1004..2000].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn it_is_made_longer_and_shorter_while_it_is_written() {
        let (_dir, path) = file(0);
        let mut streamed = StreamedFile::open(&path, Durability::ProcessCrash, None).expect("open");
        streamed.extend(1 << 20).expect("extend");
        streamed.sync_blocks().expect("sync");
        for at in (0..1 << 20).step_by(4096) {
            streamed.write_at(at, &at.to_le_bytes()).expect("write");
        }
        streamed.truncate(8192).expect("cut");
        streamed.write_at(8184, &[7; 16]).expect("write");
        let bytes = std::fs::read(&path).expect("read");
        assert_eq!((bytes.len(), &bytes[4096..4104]), (8200, &4096_u64.to_le_bytes()[..]));
        assert!(
            StreamedFile::open(&path.with_extension("gone"), Durability::ProcessCrash, None)
                .is_err()
        );
    }

    #[test]
    fn a_modelled_device_is_told_of_zeros_and_writes() {
        let (_dir, path) = file(0);
        let device = PmDevice::new(&"zero".parse().expect("model"));
        let own = Some(device.clone());
        let mut streamed = StreamedFile::open(&path, Durability::ProcessCrash, own).expect("open");
        streamed.extend(100 << 10).expect("extend");
        assert_eq!(device.figures().written_media_bytes, 100 << 10);
        streamed.write_at(0, &[1; 512]).expect("write");
        let told = device.figures();
        assert_eq!((told.written_bytes, told.read_media_bytes), ((100 << 10) + 512, 0));
    }

    /// No file here is persistent memory.
    #[test]
    fn a_file_that_is_worth_less_than_was_promised_is_written_by_calls() {
        let (_dir, path) = file(4096);
        for promised in [Durability::ProcessCrash, Durability::PowerFailAdr] {
            let mut streamed = StreamedFile::open(&path, promised, None).expect("open");
            streamed.write_at(64, &[promised as u8; 64]).expect("write");
            let by_memory = matches!(streamed.mapped, Mapped::Whole(_));
            assert_eq!(by_memory, promised == Durability::ProcessCrash);
            assert_eq!(std::fs::read(&path).expect("read")[64..128], [promised as u8; 64]);
        }
    }
}
