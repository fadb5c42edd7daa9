//! A benchmark in slices, in turn with bare loops: a disk that is slower for a while is so for all of them.

use std::time::Duration;

use crate::engines::{BARE_LOOPS, Engine, Maker, Result, Setup};
use crate::measure::latency::Timing;
use crate::stages::{Case, Stage};
use crate::work::{Bench, Clocks, Length, Measured};

/// Slices of a benchmark.
pub const SLICES: u64 = 5;

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    /// How long it takes.
    pub time: Duration,
    /// How many there are.
    pub count: u64,
}

/// What a bare loop did beside.
pub struct Beside {
    /// Which one.
    pub maker: &'static Maker,
    /// What its puts survived, in words.
    pub durability: String,
    /// The figures.
    pub measured: Measured,
}

/// A bare loop at work.
struct Loop {
    maker: &'static Maker,
    engine: Box<dyn Engine>,
    clocks: Clocks,
    found: Vec<Measured>,
}

/// Runs `case` on `bench`; with `beside`, a slice of each bare loop follows each slice of it, first after the last in the
/// next round.
pub fn run(
    bench: &Bench<'_>,
    stage: &Stage,
    case: &Case,
    slice: Slice,
    clocks: &Clocks,
    beside: Option<&Setup<'_>>,
) -> Result<(Measured, Vec<Beside>)> {
    let mut loops = match beside {
        Some(setup) => open(setup, stage, case)?,
        None => Vec::new(),
    };
    let length = Length { time: slice.time, ops: u64::MAX };
    let mut found: Vec<Measured> = Vec::new();
    for number in 0..slice.count {
        // Each slice draws keys of its own.
        let of_slice = |engine| Bench { engine, seed: bench.seed + (number << 16), ..*bench };
        found.push(of_slice(bench.engine).run(case.work, case.threads, length, clocks)?);
        for one in &mut loops {
            // What loops put is in no store.
            let model = crate::data::Model::new(bench.model.len());
            let bench = Bench { model: &model, ..of_slice(&*one.engine) };
            one.found.push(bench.run(case.work, case.threads, length, &one.clocks)?);
        }
        if !loops.is_empty() {
            loops.rotate_left(1);
        }
    }
    let loops = loops.into_iter().map(|one| {
        let latency = one.clocks.main.latency();
        let measured = Measured { latency, ..together(one.found) };
        Ok(Beside { maker: one.maker, durability: one.engine.durability()?, measured })
    });
    Ok((together(found), loops.collect::<Result<_>>()?))
}

fn open(setup: &Setup<'_>, stage: &Stage, case: &Case) -> Result<Vec<Loop>> {
    let offering = BARE_LOOPS.into_iter().filter(|maker| (maker.offers)(stage, case));
    let one = |maker: &'static Maker| {
        let (engine, clocks) = ((maker.open)(setup)?, Clocks::new(Timing::Every(1)));
        Ok(Loop { maker, engine, clocks, found: Vec::new() })
    };
    offering.map(one).collect()
}

fn together(found: Vec<Measured>) -> Measured {
    found.into_iter().reduce(Measured::and).unwrap_or_default()
}
