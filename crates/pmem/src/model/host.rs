//! [`HostMemory`]: what the host takes itself for what a model makes slower.

use std::hint::black_box;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::backing::Heap;
use crate::cacheline::{Flusher, LINE};
use crate::durability::Durability;
use crate::region::Region;
use crate::site::Site;

/// Bytes that are read at random: more than the caches hold.
pub(super) const SPAN: u64 = 64 << 20;
/// The shortest stretch for which the latency is asked.
const SPAN_MIN: u64 = 256 << 10;
const PAGE: u64 = 4096;
const STEPS: u64 = 16 << 10;
/// Lines of a block that are read behind its first.
const NEAR: u64 = 3;

/// Latencies of the host in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct HostMemory {
    /// Of a line that no cache holds, read by an address that the read before gave.
    pub read: f64,
    /// Of the lines behind it.
    pub near: f64,
    /// Of a line streamed or flushed, and fenced.
    pub write: f64,
    /// Bytes that can be read at random before the latency grows towards that of memory: what the caches hold.
    pub knee: u64,
}

/// What a measurement is good for: memory that is flushed in one way, and of one kind.
type Key = (&'static str, bool);

impl HostMemory {
    /// Measures it, the first time that a process asks for memory of this kind: on `region` itself, whose pages count, if it is a
    /// file and long enough; else on memory of this process. Without a region, for files.
    pub(super) fn find(region: Option<&Region>) -> HostMemory {
        static FOUND: Mutex<Vec<(Key, HostMemory)>> = Mutex::new(Vec::new());
        let flusher = match region {
            Some(region) => region.flusher(),
            None => Flusher::detect(Durability::ProcessCrash),
        };
        // Fresh memory of this process has no pages that could be read.
        let of_file =
            region.filter(|region| region.durability() != Durability::None && region.len() >= SPAN);
        let key = (flusher.name(), of_file.is_some());
        let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = found.iter().find(|(known, _)| *known == key) {
            return *known;
        }
        let measured = HostMemory::measure(of_file, flusher);
        found.push((key, measured));
        measured
    }

    /// Nothing is known, and nothing emulated by it.
    pub(super) fn unknown() -> HostMemory {
        HostMemory { read: f64::MAX, near: f64::MAX, write: f64::MAX, knee: SPAN_MIN }
    }

    fn measure(of_file: Option<&Region>, flusher: Flusher) -> HostMemory {
        let Ok(heap) = Heap::new(SPAN) else {
            // There is no memory to spare.
            return HostMemory::unknown();
        };
        let own = Region::assemble(Box::new(heap), flusher, Durability::None, None, None);
        // This gives it its pages, too.
        let write = least(|_| write_latency(&own));
        let memory = of_file.unwrap_or(&own);
        // The first pass meets page faults, the others read other lines of the same pages.
        let _faults = chase(memory, SPAN, Chase { seed: 1, near: 0 });
        let read = least(|seed| chase(memory, SPAN, Chase { seed, near: 0 }));
        let all = least(|seed| chase(memory, SPAN, Chase { seed, near: NEAR }));
        let near = (all - read).max(0.0) / NEAR as f64;
        HostMemory { read, near, write, knee: knee(memory, read) }
    }
}

/// The least of several measurements: what else goes on only makes them longer.
pub(super) fn least(measure: impl Fn(u64) -> f64) -> f64 {
    (2..5).map(measure).fold(f64::MAX, f64::min)
}

/// Which lines are read.
#[derive(Clone, Copy)]
pub(super) struct Chase {
    pub seed: u64,
    /// Lines of a block that are read behind its first.
    pub near: u64,
}

/// Nanoseconds for each of [`STEPS`] lines of a stretch, in random order, each address known when the one before was read. What of
/// its block is read follows in the same way.
pub(super) fn chase(region: &Region, span: u64, Chase { seed, near }: Chase) -> f64 {
    let nothing = black_box(0_u64);
    let line = LINE as u64;
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let began = Instant::now();
    for _ in 0..STEPS {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let block = (state >> 24) % (span / (line * (NEAR + 1))) * (NEAR + 1);
        for behind in 0..=near {
            let at = (block + behind) * line + (state & nothing);
            // What is read is nothing, but only the processor knows it.
            let read = u64::from(region.bytes(at, 1)[0]);
            state = state.wrapping_add(read & nothing);
        }
    }
    black_box(state);
    began.elapsed().as_nanos() as f64 / STEPS as f64
}

/// Nanoseconds of a line that is streamed and fenced.
pub(super) fn write_latency(region: &Region) -> f64 {
    let record = [7; LINE];
    let step = PAGE + LINE as u64;
    let began = Instant::now();
    for i in 0..STEPS {
        let at = i * step % (SPAN - PAGE) / LINE as u64 * LINE as u64;
        let _durable = region.fence(region.copy_nt(Site::Record, at, &record));
    }
    began.elapsed().as_nanos() as f64 / STEPS as f64
}

/// The longest stretch whose reads take less than half way, by their ratio, from the fastest to `slowest`.
fn knee(region: &Region, slowest: f64) -> u64 {
    let took = |stretch: u64| {
        // All of it, so that what fits the caches is there.
        for at in (0..stretch).step_by(LINE) {
            black_box(region.bytes(at, 1)[0]);
        }
        least(|seed| chase(region, stretch, Chase { seed, near: 0 }))
    };
    let fastest = took(SPAN_MIN);
    let is_within = |stretch: &u64| took(*stretch) <= (fastest * slowest).sqrt();
    let stretches = std::iter::successors(Some(SPAN_MIN), |stretch| Some(2 * stretch));
    stretches
        .take_while(|stretch| *stretch <= SPAN)
        .take_while(is_within)
        .last()
        .unwrap_or(SPAN_MIN)
}
