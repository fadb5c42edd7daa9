//! Cells of persistent memory: reads and writes through a region.

use std::hint::black_box;
use std::path::PathBuf;

use pmem::{ModelFigures, PmModel, PoolFile, Prefault, Region, Site};

use super::{Cell, Expected, Modelled, Tell, timed, transfer};
use crate::store::Store;
use crate::words::told;

/// Bytes of a region: more than the caches hold.
const LEN: u64 = 256 << 20;
const LINE: u64 = 64;
const SIZES: [u64; 6] = [64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10];

/// A region on a file of its own, which is gone afterwards.
struct TestedRegion {
    region: Region,
    file: Option<PathBuf>,
}

impl Drop for TestedRegion {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            let _best_effort = std::fs::remove_file(file);
        }
    }
}

impl TestedRegion {
    fn new(store: &Store, name: &str, model: Option<&PmModel>) -> Result<TestedRegion, String> {
        let on_model = |region: Region| match model {
            Some(model) => region.modelled(model),
            None => region,
        };
        if store.is_heap() {
            let region = Region::heap(LEN, None).map_err(told)?;
            lay_chain(&region);
            return Ok(TestedRegion { region: on_model(region), file: None });
        }
        std::fs::create_dir_all(store.path())
            .map_err(|error| format!("making {}: {error}", store.path().display()))?;
        let file = store.path().join(format!("device-{name}-{}", std::process::id()));
        let region = PoolFile::create(&file, LEN).and_then(|pool| pool.map(Prefault::Now));
        let region = region.map_err(told)?;
        lay_chain(&region);
        Ok(TestedRegion { region: on_model(region), file: Some(file) })
    }
}

/// Where the operation of that number is, in sequence or at random; each thread has places of its own.
fn place(order: Walk, thread: u64, number: u64, bytes: u64) -> u64 {
    let places = LEN / bytes;
    let number = number + thread * (places / 2);
    let number = match order {
        Walk::Sequence => number,
        Walk::Random => (number ^ (number >> 7)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20,
    };
    number % places * bytes
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Walk {
    Sequence,
    Random,
}

fn read(region: &Region, at: u64, bytes: u64) {
    let bytes = region.bytes(at, bytes as usize);
    let words = bytes.as_chunks::<8>().0;
    black_box(words.iter().fold(0, |sum, word| sum ^ u64::from_le_bytes(*word)));
}

fn write(region: &Region, at: u64, bytes: &[u8]) {
    let _durable = region.fence(region.copy_nt(Site::Record, at, bytes));
}

/// Puts one cycle through all lines of a region, in random order: each begins with the place of the next.
fn lay_chain(region: &Region) {
    let lines = LEN / LINE;
    let mut order: Vec<u32> = (0..lines as u32).collect();
    let mut random = base::random::Rng::new(7);
    // Sattolo: a shuffle that is one cycle.
    for last in (1..order.len()).rev() {
        order.swap(last, random.index(last));
    }
    for (line, next) in order.iter().enumerate() {
        let mut bytes = [0; LINE as usize];
        bytes[..8].copy_from_slice(&(u64::from(*next) * LINE).to_le_bytes());
        let _visible = region.copy_nt(Site::Record, line as u64 * LINE, &bytes);
    }
}

/// Nanoseconds of a step along the chain.
fn chase(region: &Region) -> f64 {
    let at = std::sync::atomic::AtomicU64::new(0);
    timed(1, &|_, _| {
        use std::sync::atomic::Ordering::Relaxed;
        let here = at.load(Relaxed);
        let next = region.bytes(here, 8).first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        at.store(next, Relaxed);
    })
}

/// Bytes of media that an access moves: alone at its place, whole blocks.
fn moved(model: &ModelFigures, order: Walk, bytes: u64) -> u64 {
    match order {
        Walk::Random => bytes.max(model.block),
        Walk::Sequence => bytes,
    }
}

/// What is expected of a read.
fn expected_read(
    model: &ModelFigures,
    order: Walk,
    bytes: u64,
    threads: u64,
    host: f64,
) -> Expected {
    // In sequence the lines of a block behind its first are near.
    let lines = (model.block / LINE) as f64;
    let first = match order {
        Walk::Sequence if bytes < model.block => {
            (model.read_ns as f64 + (lines - 1.0) * model.near_ns as f64) / lines
        }
        _ => model.read_ns as f64,
    };
    let alone = first + transfer(bytes - LINE, model.read_bandwidth);
    Expected::of(alone, transfer(moved(model, order, bytes) * threads, model.read_bandwidth), host)
}

/// What is expected of a write; of one that does not fill blocks, each is written for it.
fn expected_write(
    model: &ModelFigures,
    order: Walk,
    bytes: u64,
    threads: u64,
    host: f64,
) -> Expected {
    let shared = transfer(moved(model, order, bytes) * threads, model.write_bandwidth);
    Expected::of(model.write_ns as f64, shared, host)
}

pub(super) fn measure(
    store: &Store,
    model: Option<&PmModel>,
    tell: &mut Tell<'_>,
) -> Result<(), String> {
    let host = TestedRegion::new(store, "host", None)?;
    let modelled = model.map(|model| TestedRegion::new(store, "model", Some(model))).transpose()?;
    let basis = model.map_or_else(|| "measured".into(), |model| format!("emulated (pm: {model})"));
    let figures = modelled.as_ref().and_then(|place| place.region.model_figures());
    let cell = |operation, bytes, threads, host, modelled| Cell {
        device: "pm",
        operation,
        bytes,
        threads,
        host,
        modelled,
    };
    let own = chase(&host.region);
    // Of one line the model says itself what it adds to what the host takes.
    let of_model = modelled.as_ref().zip(model).map(|(place, model)| {
        let expected = Expected::of(model.read.target(own), 0.0, own);
        Modelled { ns: chase(&place.region), expected }
    });
    tell(cell("chase", LINE, 1, own, of_model), &basis)?;
    if model.is_some() {
        tell_overhead(store, &host.region, tell)?;
    }
    for (operation, order) in [("read random", Walk::Random), ("read sequence", Walk::Sequence)] {
        for bytes in SIZES {
            for threads in [1, 2] {
                let on = |region: &Region| {
                    timed(threads, &|thread, number| {
                        read(region, place(order, thread, number, bytes), bytes);
                    })
                };
                let own = on(&host.region);
                let of_model = modelled.as_ref().zip(figures.as_ref()).map(|(place, figures)| {
                    let expected = expected_read(figures, order, bytes, threads, own);
                    Modelled { ns: on(&place.region), expected }
                });
                tell(cell(operation, bytes, threads, own, of_model), &basis)?;
            }
        }
    }
    for (operation, order) in [("write random", Walk::Random), ("write sequence", Walk::Sequence)] {
        for bytes in SIZES {
            let value = vec![7; bytes as usize];
            for threads in [1, 2] {
                let on = |region: &Region| {
                    timed(threads, &|thread, number| {
                        write(region, place(order, thread, number, bytes), &value);
                    })
                };
                let own = on(&host.region);
                let of_model = modelled.as_ref().zip(figures.as_ref()).map(|(place, figures)| {
                    let expected = expected_write(figures, order, bytes, threads, own);
                    Modelled { ns: on(&place.region), expected }
                });
                tell(cell(operation, bytes, threads, own, of_model), &basis)?;
            }
        }
    }
    Ok(())
}

/// Nanoseconds of an operation on a region.
type OperationTime = dyn Fn(&Region) -> f64;

/// What a model takes that waits for nothing: for a line that no cache holds, for one that a cache holds, and for one that is
/// written and fenced.
fn tell_overhead(store: &Store, own: &Region, tell: &mut Tell<'_>) -> Result<(), String> {
    let zero: PmModel = "zero".parse().map_err(told)?;
    let place = TestedRegion::new(store, "zero", Some(&zero))?;
    let held = |region: &Region| timed(1, &|_, number| read(region, number % 16 * LINE, 8));
    let writes = |region: &Region| {
        timed(1, &|_, number| write(region, number % 16 * LINE, &[7; LINE as usize]))
    };
    let measures: [(&'static str, &OperationTime); 3] =
        [("zero: chase", &chase), ("zero: held", &held), ("zero: write", &writes)];
    for (operation, measure) in measures {
        let host = measure(own);
        let modelled =
            Modelled { ns: measure(&place.region), expected: Expected::of(0.0, 0.0, host) };
        let (device, bytes, threads) = ("pm", LINE, 1);
        let cell = Cell { device, operation, bytes, threads, host, modelled: Some(modelled) };
        tell(cell, "emulated (pm: zero)")?;
    }
    Ok(())
}
