//! [`HostMemory`]: what the host takes itself for what a model makes slower.

use std::hint::black_box;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::emulation::{Emulation, PmDevice};
use super::{Latency, PmModel};
use crate::backing::{Heap, HeapPages};
use crate::cacheline::{Flusher, LINE};
use crate::durability::Durability;
use crate::region::Region;
use crate::site::Site;

/// Bytes that are read at random: more than the caches hold.
const SPAN: u64 = 64 << 20;
/// The shortest stretch for which the latency is asked.
const SPAN_MIN: u64 = 256 << 10;
const PAGE: u64 = 4096;
const STEPS: u64 = 16 << 10;
/// Nanoseconds of a wait that takes longer than what a model does itself; how often, and how many accesses have it.
const LONG: f64 = 800.0;
const LOTS: u64 = 9;
const LOT: u64 = 4096;
/// Bytes of simulated caches that hold few of the lines that are read.
const FEW: u64 = 64 << 10;
/// Nanoseconds of an overhead at most: what is more comes from something else that went on.
const OVERHEAD_MAX: f64 = 100.0;
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
    /// What a modelled access takes beside its wait: before the first look at the clock, and behind the last.
    pub overhead: Overhead,
}

/// Nanoseconds by which waits are made shorter.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Overhead {
    /// Of a read.
    pub read: u64,
    /// Of a write with its fence.
    pub write: u64,
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
        let (never, overhead) = (f64::MAX, Overhead::default());
        HostMemory { read: never, near: never, write: never, knee: SPAN_MIN, overhead }
    }

    fn measure(of_file: Option<&Region>, flusher: Flusher) -> HostMemory {
        let Ok(heap) = Heap::new(SPAN, HeapPages::Huge) else {
            // There is no memory to spare.
            return HostMemory::unknown();
        };
        let own = Region::assemble(Box::new(heap), flusher, Durability::None, None, None);
        // This gives it its pages, too.
        let write = least(|_| write_latency(&own, STEPS));
        let memory = of_file.unwrap_or(&own);
        // The first pass meets page faults, the others read other lines of the same pages.
        let _faults = chase(memory, SPAN, Chase { seed: 1, near: 0, steps: STEPS });
        let read = least(|seed| chase(memory, SPAN, Chase { seed, near: 0, steps: STEPS }));
        let all = least(|seed| chase(memory, SPAN, Chase { seed, near: NEAR, steps: STEPS }));
        let near = (all - read).max(0.0) / NEAR as f64;
        let (knee, overhead) = (knee(memory, read), Overhead::default());
        let host = HostMemory { read, near, write, knee, overhead };
        HostMemory { overhead: Overhead::measure(own, host), ..host }
    }
}

impl Overhead {
    /// Measures it by waits so long that all else that a model does goes on meanwhile.
    fn measure(memory: Region, host: HostMemory) -> Overhead {
        let wait = Latency::Total(LONG);
        let slow = PmModel { read: wait, near: wait, write: wait, cache: FEW, ..PmModel::zero() };
        let memory = memory.on(&PmDevice(Arc::new(Emulation::on_host(&slow, host))));
        // Most lots meet nothing else that goes on.
        let beside = |lot: &dyn Fn(u64) -> f64| {
            let mut all: Vec<f64> = (1..=LOTS).map(lot).collect();
            all.sort_by(f64::total_cmp);
            (all[all.len() / 2] - LONG).clamp(0.0, OVERHEAD_MAX) as u64
        };
        Overhead {
            read: beside(&|seed| chase(&memory, SPAN, Chase { seed, near: 0, steps: LOT })),
            write: beside(&|_| write_latency(&memory, LOT)),
        }
    }
}

/// The least of several measurements: what else goes on only makes them longer.
fn least(measure: impl Fn(u64) -> f64) -> f64 {
    (2..5).map(measure).fold(f64::MAX, f64::min)
}

/// Which lines are read.
#[derive(Clone, Copy)]
struct Chase {
    seed: u64,
    /// Lines of a block that are read behind its first.
    near: u64,
    steps: u64,
}

/// Nanoseconds for each of so many lines of a stretch, in random order, each address known when the one before was read. What of
/// its block is read follows in the same way.
fn chase(region: &Region, span: u64, Chase { seed, near, steps }: Chase) -> f64 {
    let nothing = black_box(0_u64);
    let line = LINE as u64;
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let began = Instant::now();
    for _ in 0..steps {
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
    began.elapsed().as_nanos() as f64 / steps as f64
}

/// Nanoseconds of a line that is streamed and fenced.
fn write_latency(region: &Region, steps: u64) -> f64 {
    let record = [7; LINE];
    let step = PAGE + LINE as u64;
    let began = Instant::now();
    for i in 0..steps {
        let at = i * step % (SPAN - PAGE) / LINE as u64 * LINE as u64;
        let _durable = region.fence(region.copy_nt(Site::Record, at, &record));
    }
    began.elapsed().as_nanos() as f64 / steps as f64
}

/// The longest stretch whose reads take less than half way, by their ratio, from the fastest to `slowest`.
fn knee(region: &Region, slowest: f64) -> u64 {
    let took = |stretch: u64| {
        // All of it, so that what fits the caches is there.
        for at in (0..stretch).step_by(LINE) {
            black_box(region.bytes(at, 1)[0]);
        }
        least(|seed| chase(region, stretch, Chase { seed, near: 0, steps: STEPS }))
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
