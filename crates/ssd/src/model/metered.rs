//! [`Metered`]: a file system whose device is counted and, if it has a model, slow.

use std::num::NonZeroU64;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use base::Result;

use super::device::{Device, Due, blocks};
use crate::fs::{Append, Fs, Overwrite, PendingRead, Read};

/// Ranges of a file that were announced and not read yet, at most; the oldest is forgotten.
const ANNOUNCED: usize = 16;

/// A file system on a [`Device`].
pub struct Metered {
    inner: Arc<dyn Fs>,
    device: Arc<Device>,
}

impl Metered {
    /// `inner`, whose files are on `device`.
    pub fn new(inner: Arc<dyn Fs>, device: Arc<Device>) -> Metered {
        Metered { inner, device }
    }
}

struct MeteredAppend {
    inner: Box<dyn Append>,
    device: Arc<Device>,
    written: Due,
}

impl Append for MeteredAppend {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let now = self.device.now();
        self.inner.append(bytes)?;
        let len = bytes.len() as u64;
        self.written = self.written.later(self.device.write(now, len, len));
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        let now = self.device.now();
        self.inner.sync()?;
        self.device.sync(now, std::mem::take(&mut self.written));
        Ok(())
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn advise_written(&mut self) {
        self.inner.advise_written();
    }
}

struct MeteredOverwrite {
    inner: Box<dyn Overwrite>,
    device: Arc<Device>,
    written: Due,
    bypasses: bool,
    /// Blocks that are in the page cache since the last sync. What is written there again goes to the device with them.
    cached: Range<u64>,
}

impl MeteredOverwrite {
    /// Bytes of blocks that the device has to write for a range, beside those that it has to anyway.
    fn media(&mut self, at: u64, len: u64) -> u64 {
        let blocks = blocks(at, len);
        let bytes = blocks.end - blocks.start;
        if self.bypasses {
            return bytes;
        }
        let cached = &mut self.cached;
        if blocks.end < cached.start || cached.end < blocks.start {
            *cached = blocks;
            return bytes;
        }
        let before = cached.end - cached.start;
        *cached = cached.start.min(blocks.start)..cached.end.max(blocks.end);
        cached.end - cached.start - before
    }
}

impl Overwrite for MeteredOverwrite {
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        let now = self.device.now();
        self.inner.write_at(at, bytes)?;
        let len = bytes.len() as u64;
        let media = self.media(at, len);
        let due = self.device.write(now, len, media);
        if self.bypasses {
            due.wait();
        } else {
            self.written = self.written.later(due);
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        let now = self.device.now();
        self.inner.sync()?;
        self.cached = 0..0;
        self.device.sync(now, std::mem::take(&mut self.written));
        Ok(())
    }

    fn map(&mut self, len: u64) -> bool {
        self.inner.map(len)
    }

    fn bypass(&mut self) -> Result<Option<NonZeroU64>> {
        let block = self.inner.bypass()?;
        self.bypasses |= block.is_some();
        Ok(block)
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        self.inner.truncate(len)
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn advise_written(&mut self, range: Range<u64>) {
        self.inner.advise_written(range);
    }
}

/// A range that the device has begun to read.
struct Announced {
    range: Range<u64>,
    due: Due,
}

struct MeteredRead {
    inner: Arc<dyn Read>,
    device: Arc<Device>,
    announced: Mutex<Vec<Announced>>,
}

impl MeteredRead {
    /// When a range is there that is read now: it may have been announced.
    fn due(&self, at: u64, len: u64) -> Due {
        if self.device.is_modelled() {
            let mut announced = self.announced.lock().unwrap_or_else(PoisonError::into_inner);
            let holds = |each: &Announced| {
                each.range.start <= at && at.saturating_add(len) <= each.range.end
            };
            if let Some(place) = announced.iter().position(holds) {
                let due = announced[place].due;
                // What is behind may still be asked for.
                announced[place].range.start = at + len;
                if announced[place].range.is_empty() {
                    announced.remove(place);
                }
                return due;
            }
        }
        self.device.read(at, len)
    }
}

impl Read for MeteredRead {
    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let due = self.due(at, out.len() as u64);
        self.inner.read_at(at, out)?;
        due.wait();
        Ok(())
    }

    fn read_many(&self, ranges: &mut [(u64, &mut [u8])]) -> Result<()> {
        let dues = ranges.iter().map(|(at, out)| self.due(*at, out.len() as u64));
        let due = dues.fold(Due::default(), Due::later);
        self.inner.read_many(ranges)?;
        due.wait();
        Ok(())
    }

    fn begin(&self, at: u64, len: usize) -> Option<Box<dyn PendingRead>> {
        let begun = self.inner.begin(at, len);
        if begun.is_none() && !self.device.is_modelled() {
            return None;
        }
        let due = self.due(at, len as u64);
        let file = Arc::clone(&self.inner);
        Some(Box::new(MeteredPending { begun, file, at, due }))
    }

    /// A modelled device has no page cache before it.
    fn read_cached(&self, at: u64, out: &mut [u8]) -> bool {
        let is_read = !self.device.is_modelled() && self.inner.read_cached(at, out);
        if is_read {
            self.due(at, out.len() as u64).wait();
        }
        is_read
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn will_need(&self, at: u64, len: u64) {
        self.inner.will_need(at, len);
        let len = len.min(self.len().saturating_sub(at));
        if self.device.is_modelled() && len > 0 {
            let due = self.device.read(at, len);
            let mut announced = self.announced.lock().unwrap_or_else(PoisonError::into_inner);
            if announced.len() == ANNOUNCED {
                announced.remove(0);
            }
            announced.push(Announced { range: at..at + len, due });
        }
    }
}

/// A read that the host has begun, or makes when it is waited for.
struct MeteredPending {
    begun: Option<Box<dyn PendingRead>>,
    file: Arc<dyn Read>,
    at: u64,
    due: Due,
}

impl PendingRead for MeteredPending {
    fn finish(self: Box<Self>, out: &mut [u8]) -> Result<()> {
        match self.begun {
            Some(begun) => begun.finish(out)?,
            None => self.file.read_at(self.at, out)?,
        }
        self.due.wait();
        Ok(())
    }
}

impl Fs for Metered {
    crate::forward_names!(inner);

    fn create(&self, path: &Path) -> Result<Box<dyn Append>> {
        let inner = self.inner.create(path)?;
        let device = Arc::clone(&self.device);
        Ok(Box::new(MeteredAppend { inner, device, written: Due::default() }))
    }

    fn overwrite(&self, path: &Path) -> Result<Box<dyn Overwrite>> {
        let inner = self.inner.overwrite(path)?;
        let device = Arc::clone(&self.device);
        Ok(Box::new(MeteredOverwrite {
            inner,
            device,
            written: Due::default(),
            bypasses: false,
            cached: 0..0,
        }))
    }

    fn keeps_blocks(&self, dir: &Path) -> bool {
        self.inner.keeps_blocks(dir)
    }

    fn is_memory(&self, dir: &Path) -> bool {
        self.inner.is_memory(dir)
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn Read>> {
        let inner = self.inner.open(path)?;
        let device = Arc::clone(&self.device);
        Ok(Arc::new(MeteredRead { inner, device, announced: Mutex::default() }))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let now = self.device.now();
        self.inner.sync_dir(dir)?;
        self.device.sync_names(now);
        Ok(())
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::memory::Memory;

    fn on(model: Option<&str>) -> (Metered, Arc<Device>, PathBuf) {
        let model = model.map(|text| text.parse().expect("model"));
        let device = Arc::new(Device::new(model));
        let inner: Arc<dyn Fs> = Arc::new(Memory::default());
        inner.create_dir_all(Path::new("/d")).expect("directory");
        (Metered::new(inner, Arc::clone(&device)), device, "/d/file".into())
    }

    fn filled(fs: &Metered, path: &Path) -> Arc<dyn Read> {
        let mut file = fs.create(path).expect("create");
        file.append(&[7; 64 << 10]).expect("append");
        file.sync().expect("sync");
        fs.sync_dir(Path::new("/d")).expect("sync");
        fs.open(path).expect("open")
    }

    #[test]
    fn all_that_goes_through_is_counted() {
        let (fs, device, path) = on(None);
        let file = filled(&fs, &path);
        let mut out = [0; 100];
        file.read_at(4090, &mut out).expect("read");
        let (mut a, mut b) = ([0; 10], [0; 20]);
        file.read_many(&mut [(0, &mut a), (9000, &mut b)]).expect("read");
        let mut over = fs.overwrite(&path).expect("open");
        over.write_at(100, &[1; 50]).expect("write");
        over.sync().expect("sync");
        let told = device.figures();
        assert_eq!((told.reads, told.read_bytes, told.read_media_bytes), (3, 130, 4 * 4096));
        assert_eq!((told.writes, told.written_bytes), (2, (64 << 10) + 50));
        assert_eq!((told.written_media_bytes, told.syncs), ((64 << 10) + 4096, 3));
    }

    #[test]
    fn a_block_that_is_written_again_before_its_sync_is_written_once() {
        let (fs, device, path) = on(None);
        filled(&fs, &path);
        let mut file = fs.overwrite(&path).expect("open");
        let before = device.figures().written_media_bytes;
        let mut written = |at, len| {
            file.write_at(at, &vec![1; len]).expect("write");
            if at == 20_000 {
                file.sync().expect("sync");
            }
            (device.figures().written_media_bytes - before) / 4096
        };
        assert_eq!([written(100, 50), written(150, 5000), written(5150, 10)], [1, 2, 2]);
        assert_eq!([written(20_000, 10), written(20_010, 10)], [3, 4], "synced between");
        assert_eq!([written(40_000, 10), written(20_010, 10)], [5, 6], "elsewhere between");
    }

    #[test]
    fn what_is_begun_ahead_is_there_when_it_was_said_to_be() {
        let read = Duration::from_millis(20);
        let (fs, device, path) =
            on(Some("nvme-tlc,read=20ms,read_iops=0,read_bandwidth=0,write=0ms"));
        filled(&fs, &path);
        let inner = fs.inner.open(&path).expect("open");
        let file = MeteredRead { inner, device, announced: Mutex::default() };
        let between = |due: Due, first: Instant, last: Instant| {
            let due = due.0.expect("a model");
            // The model's own clock has whole nanoseconds.
            due + Duration::from_nanos(1) >= first + read && due <= last + read
        };
        let began = Instant::now();
        file.will_need(4096, 8192);
        let (announced, _later) = (Instant::now(), std::thread::sleep(Duration::from_millis(5)));
        assert!(between(file.due(4096, 4096), began, announced));
        assert!(between(file.due(8192, 4096), began, announced), "the rest of it");
        let again = Instant::now();
        assert!(
            between(file.due(4096, 4096), again, Instant::now()),
            "it was read: no cache has it"
        );
        let began = Instant::now();
        let (mut a, mut b) = ([0; 10], [0; 20]);
        file.read_many(&mut [(0, &mut a), (9000, &mut b)]).expect("read");
        assert!(began.elapsed() >= read && (a, b) == ([7; 10], [7; 20]));
        let began = Instant::now();
        let pending = file.begin(0, 10).expect("a modelled device has something to begin");
        pending.finish(&mut a).expect("read");
        assert!(began.elapsed() >= read);
    }

    #[test]
    fn a_sync_waits_for_what_was_written() {
        let (fs, device, path) = on(Some("nvme-tlc,write=20ms,flush=10ms"));
        let began = Instant::now();
        filled(&fs, &path);
        assert!(began.elapsed() >= Duration::from_millis(60), "{:?}", began.elapsed());
        assert_eq!(device.figures().model.as_deref(), Some("nvme-tlc,write=20ms,flush=10ms"));
    }
}
