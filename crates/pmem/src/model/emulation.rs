//! [`Emulation`]: a modelled device, as the domain of a region.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::asked::{self, Asked, FETCHES, NEAR_BLOCKS};
use super::bandwidth::Bandwidth;
use super::clock::{look_ns, now};
use super::host::HostMemory;
use super::open_blocks::{Moved, OpenBlocks};
use super::tags::{Held, Tags};
use super::{Latency, PmModel};
use crate::cacheline::LINE;
use crate::domain::{Domain, StoreMode};
use crate::region::Region;
use crate::site::Site;
use crate::stats::Shards;

/// Regions begin at multiples of this.
const SEAT: u64 = 4096;
/// A wait of less than this many nanoseconds looks at the clock without a pause.
const PAUSE_NS: u64 = 200;

/// What a model does to a region, and what it counted.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ModelFigures {
    /// The model's name.
    pub name: String,
    /// Its parameters, as they take effect.
    pub fields: Vec<Field>,
    /// Bytes of a block of the media.
    pub block: u64,
    /// Nanoseconds of a line that no cache holds; 0: the host's own.
    pub read_ns: u64,
    /// Nanoseconds of the lines of a block behind its first; 0: the host's own.
    pub near_ns: u64,
    /// Nanoseconds from the first line flushed to the end of the fence; 0: the host's own.
    pub write_ns: u64,
    /// Bytes per second read; 0: as many as the host.
    pub read_bandwidth: u64,
    /// Bytes per second written; 0: as many as the host.
    pub write_bandwidth: u64,
    /// Bytes that were asked for.
    pub read_bytes: u64,
    /// Bytes that the media read: whole blocks, those included that a write needs.
    pub read_media_bytes: u64,
    /// Bytes that were flushed or streamed, in whole lines.
    pub written_bytes: u64,
    /// Bytes that the media wrote: whole blocks.
    pub written_media_bytes: u64,
    /// Lines that no cache held.
    pub lines_read: u64,
    /// Nanoseconds that threads waited, all together.
    pub waited_ns: u64,
}

/// A parameter of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// What was asked for.
    pub wanted: String,
    /// What it comes to on this host; `not emulated`, and why, if to nothing.
    pub effect: String,
}

/// Counters, in the order of [`Shards`].
#[derive(Clone, Copy)]
enum Count {
    Read,
    ReadMedia,
    Written,
    WrittenMedia,
    LinesRead,
    Waited,
}

/// A modelled device, on which several regions may be.
#[derive(Clone)]
pub struct PmDevice(pub(crate) Arc<Emulation>);

impl PmDevice {
    /// A device like `model`; what the host takes itself is measured on memory of this process, if it is not known.
    pub fn new(model: &PmModel) -> PmDevice {
        PmDevice(Arc::new(Emulation::new(model, None)))
    }

    /// The same, measured on `region` if that is long enough.
    pub(crate) fn measured_on(model: &PmModel, region: &Region) -> PmDevice {
        PmDevice(Arc::new(Emulation::new(model, Some(region))))
    }

    /// Takes a place for a region of `len` bytes: no other has its lines.
    pub(crate) fn seat(&self, len: u64) -> Arc<dyn Domain> {
        let len = len.next_multiple_of(SEAT);
        let base = self.0.end.fetch_add(len, Ordering::Relaxed);
        Arc::new(Seat { device: Arc::clone(&self.0), base })
    }

    /// What went through it.
    pub fn figures(&self) -> ModelFigures {
        self.0.told()
    }

    /// `write` puts `len` bytes there by a call, in whole blocks of a file that no region has yet.
    pub(crate) fn fill<T>(&self, len: u64, write: impl FnOnce() -> T) -> T {
        let began = now();
        let done = write();
        let due = self.0.take_in(began, len, Moved { read: 0, written: len });
        self.0.wait(due);
        done
    }
}

/// A region's place on a device.
struct Seat {
    device: Arc<Emulation>,
    /// Where the region begins there.
    base: u64,
}

impl Domain for Seat {
    fn store(&self, _: &Region, _: Site, at: u64, len: usize, mode: StoreMode) {
        self.device.store(self.base + at, len, mode);
    }

    fn flush(&self, _: &Region, _: Site, at: u64, len: usize) {
        if len > 0 {
            self.device.wait(self.device.written(self.base + at, len));
        }
    }

    fn fence(&self, _: &Region, _: Site) {
        self.device.fence();
    }

    fn load(&self, region: &Region, at: u64, len: usize) {
        self.device.load(self.base, region, at, len);
    }

    fn prefetch(&self, region: &Region, at: u64, lines: usize) {
        let line = LINE as u64;
        let end = (at + lines as u64 * line).min(region.len());
        self.device.prefetch((self.base + at) / line..(self.base + end).div_ceil(line));
    }

    fn figures(&self) -> Option<ModelFigures> {
        Some(self.device.told())
    }
}

pub(crate) struct Emulation {
    /// Bytes of the regions that are on it.
    end: AtomicU64,
    /// Tells it from others of this process, also from those that are gone.
    id: u64,
    model: PmModel,
    host: HostMemory,
    /// Nanoseconds; 0 where the host takes as long.
    read_ns: u64,
    near_ns: u64,
    write_ns: u64,
    /// Whether any read may take longer than the host's.
    waits_for_reads: bool,
    /// Nanoseconds that what the open blocks hold takes to be written.
    buffered_ns: u64,
    read: Bandwidth,
    write: Bandwidth,
    tags: Tags,
    open_blocks: OpenBlocks,
    counts: Shards<6>,
}

/// Nanoseconds of a latency that is not the host's own.
fn target(latency: Latency, host: f64) -> u64 {
    if latency.takes_effect(host) { latency.target(host) as u64 } else { 0 }
}

impl Emulation {
    fn new(model: &PmModel, region: Option<&Region>) -> Emulation {
        let host = if model.waits_for_nothing() {
            HostMemory::unknown()
        } else {
            HostMemory::find(region)
        };
        Emulation::on_host(model, host)
    }

    /// The same on a host that is known.
    pub(super) fn on_host(model: &PmModel, host: HostMemory) -> Emulation {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let share = share(model.cores);
        let write = Bandwidth::new(model.write_bandwidth as f64 * share);
        let open_blocks = OpenBlocks::new(model);
        let (read_ns, near_ns) = (target(model.read, host.read), target(model.near, host.near));
        Emulation {
            waits_for_reads: read_ns + near_ns + model.read_bandwidth > 0,
            end: AtomicU64::new(0),
            id: COUNT.fetch_add(1, Ordering::Relaxed),
            host,
            read_ns,
            near_ns,
            write_ns: target(model.write, host.write),
            buffered_ns: write.ns(open_blocks.capacity()),
            read: Bandwidth::new(model.read_bandwidth as f64 * share),
            write,
            tags: Tags::new(if model.cache > 0 { model.cache } else { host.knee / 2 }),
            open_blocks,
            counts: Shards::default(),
            model: model.clone(),
        }
    }

    /// What this thread has asked for.
    fn with_own<T: Default>(&self, act: impl FnOnce(&mut Asked) -> T) -> T {
        asked::with_own(self.id, act)
    }

    fn count(&self, count: Count, amount: u64) {
        self.counts.add(count as usize, amount);
    }

    /// Spins until then: a load or fence that stalls holds its core.
    fn wait(&self, until: u64) {
        let began = now();
        if until <= began {
            return;
        }
        self.count(Count::Waited, until - began);
        // The last look takes its time, too.
        let until = until - look_ns().min(until);
        loop {
            let left = until.saturating_sub(now());
            if left == 0 {
                return;
            }
            // A pause may take longer than what is left.
            if left > PAUSE_NS {
                std::hint::spin_loop();
            }
        }
    }

    /// Notes a line that was not held as read; tells whether its block was read just now.
    fn read_line(&self, state: &mut Asked, line: u64) -> bool {
        // A power of two, and this is asked for each line.
        let block = (line * LINE as u64) >> self.model.block.trailing_zeros();
        if state.near.contains(&block) {
            return true;
        }
        state.near[state.blocks_read % NEAR_BLOCKS] = block;
        state.blocks_read += 1;
        false
    }

    /// Bytes that the media reads for a line.
    fn media(&self, near: bool) -> u64 {
        if near { 0 } else { self.model.block.into() }
    }

    /// Lines were flushed or streamed. Tells what is to be waited for.
    fn written(&self, at: u64, len: usize) -> u64 {
        let (began, line) = (now(), LINE as u64);
        let (first, end) = (at / line, (at + len as u64).div_ceil(line));
        let moved = self.open_blocks.write(first, end);
        self.with_own(|state| {
            if state.flushed_at == 0 {
                state.flushed_at = began;
            }
        });
        self.take_in(began, (end - first) * line, moved)
    }

    /// The media has `moved` to do, for `len` bytes that came from `began` on. Tells what is to be waited for.
    fn take_in(&self, began: u64, len: u64, moved: Moved) -> u64 {
        self.count(Count::Written, len);
        self.count(Count::WrittenMedia, moved.written);
        self.count(Count::ReadMedia, moved.read);
        self.with_own(|state| {
            state.reads.add(moved.read, began);
            state.writes.add(moved.written, began);
            let read = state.reads.settle(&self.read);
            let written = state.writes.settle(&self.write).max(read);
            written.saturating_sub(self.buffered_ns)
        })
    }

    fn fields(&self) -> Vec<Field> {
        let (model, host) = (&self.model, &self.host);
        let latency = |name: &str, latency: Latency, host: f64| Field {
            name: name.into(),
            wanted: latency.to_string(),
            effect: match latency.takes_effect(host) {
                true => format!("{:.0} ns; the host takes {host:.0}", latency.target(host)),
                false => format!("not emulated: the host takes {host:.0} ns"),
            },
        };
        let share = share(model.cores);
        let bandwidth = |name: &str, bytes: u64| Field {
            name: name.into(),
            wanted: bytes.to_string(),
            effect: match bytes {
                0 => "not emulated: as the host".into(),
                _ if share < 1.0 => {
                    format!("{:.0}, the part of our cores of {}", bytes as f64 * share, model.cores)
                }
                _ => bytes.to_string(),
            },
        };
        let open = self.open_blocks.capacity();
        vec![
            latency("read", model.read, host.read),
            latency("near", model.near, host.near),
            latency("write", model.write, host.write),
            bandwidth("read_bandwidth", model.read_bandwidth),
            bandwidth("write_bandwidth", model.write_bandwidth),
            Field {
                name: "block".into(),
                wanted: model.block.to_string(),
                effect: match open {
                    0 => "lines are written one by one".into(),
                    open => format!("{open} bytes of blocks gather lines"),
                },
            },
            Field {
                name: "cache".into(),
                wanted: model.cache.to_string(),
                effect: format!(
                    "{} bytes; the host's latency grows from {}",
                    self.tags.bytes(),
                    host.knee
                ),
            },
        ]
    }
}

/// The part of a device's bandwidth that the cores of this machine have.
fn share(cores: u32) -> f64 {
    if cores == 0 {
        return 1.0;
    }
    let ours = std::thread::available_parallelism().map_or(1, |ours| ours.get());
    (ours as f64 / f64::from(cores)).min(1.0)
}

impl Emulation {
    fn store(&self, at: u64, len: usize, mode: StoreMode) {
        if len == 0 {
            return;
        }
        let line = LINE as u64;
        let lines = at / line..(at + len as u64).div_ceil(line);
        match mode {
            StoreMode::Cached => self.with_own(|state| {
                for line in lines {
                    let _held = self.tags.take(line, state.random(), now);
                }
            }),
            StoreMode::Streamed => {
                self.tags.forget(lines);
                self.wait(self.written(at, len));
            }
        }
    }

    fn fence(&self) {
        let until = self.with_own(|state| {
            let since = std::mem::take(&mut state.flushed_at);
            let latency = self.write_ns.saturating_sub(self.host.overhead.write);
            if since > 0 && latency > 0 { since + latency } else { 0 }
        });
        if until > 0 {
            self.wait(until);
        }
    }

    fn load(&self, base: u64, region: &Region, at: u64, len: usize) {
        if len == 0 {
            return;
        }
        let began = now();
        self.count(Count::Read, len as u64);
        let line = LINE as u64;
        let until = self.with_own(|state| {
            let (mut until, mut absent, mut media, mut first_near) = (0, 0_u64, 0, false);
            let (first, end) = ((base + at) / line, (base + at + len as u64).div_ceil(line));
            // Lines and tags that are read one after the other would take longer than the model.
            let fetch = |each: u64| {
                self.tags.fetch(each);
                if self.waits_for_reads {
                    region.fetch(each * line - base);
                }
            };
            (first + 1..end.min(first + FETCHES as u64)).for_each(fetch);
            for each in first..end {
                if each + (FETCHES as u64) < end {
                    fetch(each + FETCHES as u64);
                }
                match self.tags.take(each, state.random(), now) {
                    Held::Yes => (),
                    Held::From(due) => until = until.max(due),
                    Held::No => {
                        let near = self.read_line(state, each);
                        first_near |= near && absent == 0;
                        absent += 1;
                        media += self.media(near);
                        if self.waits_for_reads {
                            region.touch((each * line).max(base + at) - base, at, len);
                        }
                    }
                }
            }
            if absent > 0 {
                self.count(Count::LinesRead, absent);
                self.count(Count::ReadMedia, media);
                let latency = if first_near { self.near_ns } else { self.read_ns };
                let rest = self.read.ns((absent - 1) * line);
                let wait = (latency + rest).saturating_sub(self.host.overhead.read);
                let through = if wait > 0 { began + wait } else { 0 };
                state.reads.add(media, began);
                until = until.max(through);
            }
            until.max(state.reads.settle(&self.read))
        });
        if until > 0 {
            self.wait(until);
        }
    }

    fn prefetch(&self, lines: Range<u64>) {
        if !self.waits_for_reads {
            return;
        }
        self.with_own(|state| {
            for each in lines {
                if !matches!(self.tags.look(each, now), Held::No) {
                    continue;
                }
                // As many as a core has on their way; the next takes the place of the first that comes.
                let place = state.lines_fetched % FETCHES;
                state.lines_fetched += 1;
                let near = self.read_line(state, each);
                let latency = if near { self.near_ns } else { self.read_ns };
                let now = now();
                let due = state.fetches[place].max(now) + latency;
                state.fetches[place] = due;
                let media = self.media(near);
                self.count(Count::LinesRead, 1);
                self.count(Count::ReadMedia, media);
                state.reads.add(media, now);
                let due = due.max(state.reads.settle(&self.read));
                self.tags.insert(each, due, state.random());
            }
        });
    }

    fn told(&self) -> ModelFigures {
        let [read, read_media, written, written_media, lines, waited] = self.counts.sums();
        ModelFigures {
            name: self.model.to_string(),
            fields: self.fields(),
            block: self.model.block.into(),
            read_ns: self.read_ns,
            near_ns: self.near_ns,
            write_ns: self.write_ns,
            read_bandwidth: self.read.per_second(),
            write_bandwidth: self.write.per_second(),
            read_bytes: read,
            read_media_bytes: read_media,
            written_bytes: written,
            written_media_bytes: written_media,
            lines_read: lines,
            waited_ns: waited,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::host::Overhead;
    use super::*;

    const LEN: u64 = 1 << 20;

    fn region(model: &str) -> Region {
        let region = Region::heap(LEN, None).expect("memory");
        region.modelled(&model.parse().expect("model"))
    }

    fn figures(region: &Region) -> ModelFigures {
        region.model_figures().expect("a model")
    }

    #[test]
    fn a_line_is_read_from_the_media_once_and_with_its_block() {
        let region = region("zero,cache=65536");
        for at in [0, 8, 64, 100, 255] {
            std::hint::black_box(region.bytes(at, 1));
        }
        let told = figures(&region);
        assert_eq!((told.read_bytes, told.lines_read, told.read_media_bytes), (5, 3, 256));
        std::hint::black_box(region.bytes(0, 1024));
        let told = figures(&region);
        assert_eq!((told.read_bytes, told.lines_read, told.read_media_bytes), (1029, 16, 1024));
        std::hint::black_box(region.load_u64(4096));
        assert_eq!(figures(&region).lines_read, 17);
        assert_eq!(figures(&region).waited_ns, 0);
    }

    #[test]
    fn what_is_streamed_is_read_again_and_what_is_stored_is_not() {
        let region = region("zero,cache=65536");
        let streamed = region.copy_nt(Site::Record, 0, &[1; 64]);
        let stored = region.copy(Site::Record, 512, &[1; 64]);
        let _durable = region.fence(streamed.and(region.flush(stored)));
        assert_eq!(figures(&region).written_bytes, 128);
        std::hint::black_box((region.bytes(0, 64), region.bytes(512, 64)));
        assert_eq!(figures(&region).lines_read, 1);
    }

    #[test]
    fn reads_fences_and_bandwidth_are_waited_for() {
        let slow = region("zero,cache=65536,read=200000ns,near=100000ns,write=300000ns");
        let began = now();
        std::hint::black_box(slow.bytes(0, 8));
        assert!(now() - began >= 199_000, "{}", now() - began);
        std::hint::black_box(slow.bytes(0, 8));
        let waited = figures(&slow).waited_ns;
        assert!(waited <= 200_000, "for one line, less what the host took: {waited}");
        let began = now();
        let _durable = slow.fence(slow.copy_nt(Site::Record, 4096, &[1; 64]));
        assert!(now() - began >= 299_000, "{}", now() - began);
        let _durable = slow.fence(slow.nothing_in_flight(Site::Record));
        let more = figures(&slow).waited_ns - waited;
        assert!(more <= 300_000, "for the fence with a line: {more}");
        // A hundredth of a second for 1 MiB, behind what the device takes in.
        let narrow = region("zero,write_bandwidth=104857600,modules=1,open_blocks=1");
        let began = now();
        let _durable = narrow.fence(narrow.copy_nt(Site::Record, 0, &vec![1; LEN as usize]));
        assert!(now() - began >= 9_900_000, "{}", now() - began);
    }

    /// A region on a model that waits 200 us for a line and a fence, on a host where a call takes so much beside.
    fn with_overhead(ns: u64) -> Region {
        let model = "zero,cache=65536,read=200000ns,near=200000ns,write=200000ns";
        let model: PmModel = model.parse().expect("model");
        let overhead = Overhead { read: ns, write: ns };
        let quick = HostMemory { read: 1.0, near: 1.0, write: 1.0, ..HostMemory::unknown() };
        let host = HostMemory { overhead, ..quick };
        let device = PmDevice(Arc::new(Emulation::on_host(&model, host)));
        Region::heap(LEN, None).expect("memory").on(&device)
    }

    #[test]
    fn waits_are_shorter_by_what_a_call_takes_beside() {
        let waited = |overhead: u64| {
            let region = with_overhead(overhead);
            std::hint::black_box(region.bytes(0, 8));
            let read = figures(&region).waited_ns;
            let _durable = region.fence(region.copy_nt(Site::Record, 4096, &[1; 64]));
            [read, figures(&region).waited_ns - read]
        };
        assert!(waited(150_000).iter().all(|ns| *ns <= 50_000), "{:?}", waited(150_000));
        assert_eq!(waited(200_000), [0, 0]);
        assert_eq!(waited(300_000), [0, 0]);
    }

    #[test]
    fn what_is_fetched_ahead_is_waited_for_once() {
        let region = region("zero,cache=65536,read=200000ns,near=200000ns");
        let began = now();
        (0..8).for_each(|line| region.prefetch(line * 256, 1));
        (0..8).for_each(|line| _ = std::hint::black_box(region.bytes(line * 256, 8)));
        let (told, took) = (figures(&region), now() - began);
        assert_eq!((told.lines_read, told.read_media_bytes), (8, 2048));
        assert!(took >= 190_000, "{took}");
        // One behind the other they would take eight times that.
        assert!(told.waited_ns < 800_000, "at the same time: {}", told.waited_ns);
    }

    #[test]
    fn fields_without_effect_say_so() {
        let told = figures(&region("nvdimm-ratio"));
        let of = |name: &str| told.fields.iter().find(|field| field.name == name).expect("field");
        assert!(of("read").effect.starts_with("not emulated"), "{:?}", of("read"));
        assert_eq!(of("read_bandwidth").effect, "not emulated: as the host");
        assert_eq!((told.read_ns, told.write_bandwidth), (0, 0));
    }

    #[test]
    #[should_panic(expected = "one domain")]
    fn a_region_has_one_domain() {
        let _twice = region("zero").modelled(&"zero".parse().expect("model"));
    }
}
