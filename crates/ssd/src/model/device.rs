//! [`Device`]: what went through a device, and when what is asked for is done.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::SsdModel;
use super::sleep::sleep_until;

/// Bytes of a block, in which devices read and write.
const BLOCK: u64 = 4096;

/// What went through a device since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceFigures {
    /// The name of its model; none if it is the host's own.
    pub model: Option<String>,
    /// Ranges read.
    pub reads: u64,
    /// Bytes that were asked for. The system's page cache may have had them.
    pub read_bytes: u64,
    /// Bytes of the blocks that hold them.
    pub read_media_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes of the blocks that hold them; what is appended fills blocks.
    pub written_media_bytes: u64,
    /// Syncs of files and directories.
    pub syncs: u64,
}

impl Default for Device {
    fn default() -> Device {
        Device::new(None)
    }
}

/// A queue of the device: how much it has to do.
#[derive(Default)]
struct Queue {
    /// Nanoseconds behind the device's beginning.
    free_at: AtomicU64,
}

impl Queue {
    /// What takes `ns` comes behind what is there. Tells when it begins.
    fn take(&self, now: u64, ns: u64) -> u64 {
        let begin = |free: u64| free.max(now);
        let before =
            self.free_at.fetch_update(Relaxed, Relaxed, |free| Some(begin(free) + ns)).unwrap_or(0);
        begin(before)
    }
}

/// A device: counters and, with a model, its queues. Files of several file systems may be on one.
pub struct Device {
    model: Option<SsdModel>,
    began: Instant,
    reads: Queue,
    writes: Queue,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    read_media_bytes: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    written_media_bytes: AtomicU64,
    syncs: AtomicU64,
}

/// Nanoseconds since a device was opened; of one without a model no one asks.
#[derive(Clone, Copy)]
pub(super) struct Moment(u64);

/// When something is done; none: as soon as the host has done it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Due(pub(super) Option<Instant>);

impl Due {
    pub fn later(self, other: Due) -> Due {
        Due(self.0.max(other.0))
    }

    pub fn wait(self) {
        self.0.into_iter().for_each(sleep_until);
    }
}

/// Nanoseconds of one of so many a second; 0: none.
fn each(count: u64, per_second: u64) -> u64 {
    if per_second == 0 { 0 } else { (count as f64 * 1e9 / per_second as f64) as u64 }
}

/// The blocks that hold a range, as bytes of the file.
pub(super) fn blocks(at: u64, len: u64) -> Range<u64> {
    let end = at.saturating_add(len).checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX);
    at / BLOCK * BLOCK..end
}

/// Bytes of these.
fn block_bytes(at: u64, len: u64) -> u64 {
    let blocks = blocks(at, len);
    blocks.end - blocks.start
}

impl Device {
    /// The host's own, or one as slow as `model`.
    pub fn new(model: Option<SsdModel>) -> Device {
        Device {
            model,
            began: Instant::now(),
            reads: Queue::default(),
            writes: Queue::default(),
            counts: Counts::default(),
        }
    }

    /// What went through it.
    pub fn figures(&self) -> DeviceFigures {
        let counts = &self.counts;
        DeviceFigures {
            model: self.model.as_ref().map(SsdModel::to_string),
            reads: counts.reads.load(Relaxed),
            read_bytes: counts.read_bytes.load(Relaxed),
            read_media_bytes: counts.read_media_bytes.load(Relaxed),
            writes: counts.writes.load(Relaxed),
            written_bytes: counts.written_bytes.load(Relaxed),
            written_media_bytes: counts.written_media_bytes.load(Relaxed),
            syncs: counts.syncs.load(Relaxed),
        }
    }

    /// Whether it has a model.
    pub fn is_modelled(&self) -> bool {
        self.model.is_some()
    }

    /// How long a read of a block takes by its model, if it has one.
    pub fn read_time(&self) -> Option<Duration> {
        self.model.as_ref().map(|model| model.read)
    }

    /// The time at which something is asked for.
    pub(super) fn now(&self) -> Moment {
        Moment(if self.model.is_some() { self.began.elapsed().as_nanos() as u64 } else { 0 })
    }

    /// What is through at `ns`, with a latency that contains the transfer of one block.
    fn due(&self, ns: u64, latency: Duration, bandwidth: u64) -> Due {
        let latency = latency.saturating_sub(Duration::from_nanos(each(BLOCK, bandwidth)));
        Due(Some(self.began + Duration::from_nanos(ns) + latency))
    }

    /// A range is read from now on.
    pub(super) fn read(&self, at: u64, len: u64) -> Due {
        self.read_from(self.now(), at, len)
    }

    fn read_from(&self, now: Moment, at: u64, len: u64) -> Due {
        let media = block_bytes(at, len);
        self.counts.reads.fetch_add(1, Relaxed);
        self.counts.read_bytes.fetch_add(len, Relaxed);
        self.counts.read_media_bytes.fetch_add(media, Relaxed);
        let Some(model) = &self.model else { return Due::default() };
        let transfer = each(media, model.read_bandwidth);
        let begins = self.reads.take(now.0, transfer.max(each(1, model.read_iops)));
        self.due(begins + transfer, model.read, model.read_bandwidth)
    }

    /// Bytes were handed over at `now` to be written. Returns when the device has room for them; tells when they are durable.
    pub(super) fn write(&self, now: Moment, len: u64, media: u64) -> Due {
        self.counts.writes.fetch_add(1, Relaxed);
        self.counts.written_bytes.fetch_add(len, Relaxed);
        self.counts.written_media_bytes.fetch_add(media, Relaxed);
        let Some(model) = &self.model else { return Due::default() };
        let took = each(media, model.write_bandwidth);
        let through = self.writes.take(now.0, took) + took;
        let room = through.saturating_sub(each(model.buffer, model.write_bandwidth));
        if room > now.0 {
            self.due(room, Duration::ZERO, 0).wait();
        }
        self.due(through, model.write, model.write_bandwidth)
    }

    /// A file or directory is synced, from `now` on, whose bytes are durable at `written`.
    pub(super) fn sync(&self, now: Moment, written: Due) {
        self.counts.syncs.fetch_add(1, Relaxed);
        let Some(model) = &self.model else { return };
        let flushed = self.due(now.0, Duration::ZERO, 0).later(written);
        Due(flushed.0.map(|written| written + model.flush)).wait();
    }

    /// Names were changed, and are synced: behind what is on its way, by a write of the file system's own.
    pub(super) fn sync_names(&self, now: Moment) {
        let behind =
            self.model.as_ref().map(|model| self.due(self.writes.take(now.0, 0), model.write, 0));
        self.sync(now, behind.unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(text: &str) -> Device {
        Device::new(Some(text.parse().expect("model")))
    }

    fn ns(device: &Device, due: Due) -> u64 {
        due.0.map_or(0, |due| (due - device.began).as_nanos() as u64)
    }

    #[test]
    fn reads_at_the_same_time_share_latency_and_queue_for_bandwidth() {
        let device = device("nvme-tlc,read=100us,read_bandwidth=4096000000,read_iops=100000");
        let read = |now, at, len| ns(&device, device.read_from(Moment(now), at, len));
        assert_eq!(read(0, 0, 4096), 100_000, "latency, with the transfer of a block in it");
        assert_eq!(read(0, 4096, 4096), 110_000, "a read each 10 us");
        assert_eq!(read(0, 8192, 64 << 10), 120_000 + 15_000, "and the rest of its transfer");
        assert_eq!(read(1_000_000, 0, 10), 1_100_000, "long behind them");
        assert_eq!(device.figures().read_media_bytes, (64 << 10) + 3 * 4096);
    }

    #[test]
    fn blocks_hold_what_is_read_and_written() {
        let told = [block_bytes(0, 1), block_bytes(4095, 2), block_bytes(8192, 4096)];
        assert_eq!(told, [4096, 8192, 4096]);
        assert!(block_bytes(u64::MAX, 8) <= 4096);
        let own = Device::new(None);
        own.read(10, 100).wait();
        own.write(own.now(), 10, block_bytes(4090, 10)).wait();
        own.sync(own.now(), Due::default());
        let figures = own.figures();
        assert_eq!((figures.reads, figures.read_bytes, figures.read_media_bytes), (1, 100, 4096));
        assert_eq!((figures.written_bytes, figures.written_media_bytes), (10, 8192));
        assert_eq!((figures.writes, figures.syncs, figures.model), (1, 1, None));
    }

    #[test]
    fn writes_wait_only_when_the_device_is_full() {
        let device = device("nvme-tlc,write=1ms,write_bandwidth=1000000,buffer=1000000");
        let first = device.write(Moment(0), 500_000, 500_000);
        // A block alone takes four of the milliseconds that are said for it, so nothing comes on top.
        assert_eq!(ns(&device, first), 500_000_000, "it is taken in, and written in half a second");
        let began = device.now();
        device.write(began, 600_000, 600_000);
        assert!(device.now().0 >= 100_000_000, "a tenth is more than fits");
    }
}
