//! The benchmarks of a stage on each engine in turn, forward and backward, so that what changes on the machine
//! meanwhile changes for all.

use std::path::PathBuf;
use std::time::Duration;

use bench::scratch::{MEMORY, Scratch};

use crate::data::{Data, Model};
use crate::engines::{Maker, OURS, Result, Setup};
use crate::flags::Flags;
use crate::report::count;
use crate::stages::{Case, Fit, Place, Stage, sizes};
use crate::verify::{self, Digest};
use crate::work::{Bench, Measured, Work};

/// Longest that a fill may take; what it reached by then counts.
const PATIENCE: Duration = Duration::from_secs(60);

/// What one engine did in one run of one benchmark.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The engine's name.
    pub engine: &'static str,
    /// Which run.
    pub run: usize,
    /// The benchmark.
    pub case: Case,
    /// Bytes of values.
    pub value_size: usize,
    /// Keys.
    pub keys: u64,
    /// What a put survived, in the engine's words.
    pub durability: String,
    /// The figures.
    pub measured: Measured,
}

/// What became of a stage.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What was measured.
    pub samples: Vec<Sample>,
    /// What failed: engine and reason.
    pub failures: Vec<String>,
}

/// Runs the stage's benchmarks that were asked for, on all engines that offer what it needs.
pub fn run(flags: &Flags, stage: &Stage, tell: &dyn Fn(&str)) -> Outcome {
    let cases: Vec<Case> = stage
        .cases
        .iter()
        .copied()
        .filter(|case| flags.wants(case.name, stage.value_size))
        .collect();
    let mut outcome = Outcome::default();
    if cases.is_empty() {
        return outcome;
    }
    let direct = stage.fit == Fit::Cold;
    let mut makers = vec![OURS];
    makers.extend(flags.rivals.iter().filter(|maker| (maker.offers)(stage.survives, direct)));
    let data = Data::new(flags.spread, stage.value_size);
    let mut digests: Vec<(&str, Digest)> = Vec::new();
    for run in 0..flags.runs {
        for maker in &makers {
            let what = format!("{} in run {} of {} B", maker.name, run + 1, stage.value_size);
            match one(flags, stage, &cases, maker, &data, run) {
                Ok((samples, digest)) => {
                    samples.iter().for_each(|sample| tell(&line(&what, sample)));
                    outcome.samples.extend(samples);
                    digests.extend(digest.map(|digest| (maker.name, digest)));
                }
                Err(error) => {
                    let failure = format!("{}, {what}: {error}", cases[0].name);
                    tell(&failure);
                    outcome.failures.push(failure);
                }
            }
        }
        makers.reverse();
    }
    if let Some(((first, one), (other, two))) =
        digests.first().and_then(|one| Some((*one, *digests.iter().find(|two| two.1 != one.1)?)))
    {
        let what = format!(
            "{first} and {other} hold different data after {}: {one:?}, {two:?}",
            cases[0].name
        );
        outcome.failures.push(what);
    }
    outcome
}

/// What is told while others are still to come.
fn line(what: &str, sample: &Sample) -> String {
    let rate = count(sample.measured.rate.per_second);
    format!("{} {}, {} threads: {rate}/s", what, sample.case.name, sample.case.threads)
}

/// One engine, one run: a store from empty to verified and gone.
fn one(
    flags: &Flags,
    stage: &Stage,
    cases: &[Case],
    maker: &Maker,
    data: &Data,
    run: usize,
) -> Result<(Vec<Sample>, Option<Digest>)> {
    let (pool, cache) = sizes(stage.fit, flags.data);
    let memory = Scratch::within(&[PathBuf::from(MEMORY)], pool + 2 * flags.data)?;
    let disk = match stage.place {
        Place::Memory => None,
        Place::Disk => Some(Scratch::within(std::slice::from_ref(&flags.disk), 3 * flags.data)?),
    };
    let setup = Setup {
        dir: disk.as_ref().unwrap_or(&memory).path(),
        memory: memory.path(),
        pool,
        tables: stage.fit != Fit::Pool,
        cache,
        survives: stage.survives,
        direct: stage.fit == Fit::Cold,
        counted: cases.iter().any(|case| case.work == Work::Steady),
    };
    let model = Model::new((flags.data / data.entry()).max(1));
    let engine = (maker.open)(&setup)?;
    let bench = Bench {
        engine: &*engine,
        data,
        model: &model,
        time: flags.seconds,
        steady: flags.duration,
        patience: PATIENCE,
        seed: flags.seed + run as u64,
    };
    let done = benchmarks(&bench, stage, cases);
    let durability = engine.durability();
    engine.close()?;
    let (measured, digest) = done?;
    let sample = |(case, measured): (&Case, Measured)| Sample {
        engine: maker.name,
        run,
        case: *case,
        value_size: stage.value_size,
        keys: model.len(),
        durability: durability.clone(),
        measured,
    };
    Ok((cases.iter().zip(measured).map(sample).collect(), digest))
}

/// All benchmarks on one open store, and a look at all of it before and after.
fn benchmarks(
    bench: &Bench<'_>,
    stage: &Stage,
    cases: &[Case],
) -> Result<(Vec<Measured>, Option<Digest>)> {
    if stage.loaded {
        bench.load()?;
        if !matches!(stage.fit, Fit::Spill | Fit::Long) {
            bench.engine.compact()?;
        }
        // Fills caches, too.
        verify::whole(bench.engine, bench.data, bench.model)?;
    }
    let measured: Result<Vec<Measured>> =
        cases.iter().map(|case| bench.run(case.work, case.threads)).collect();
    let measured = measured?;
    let digest = verify::whole(bench.engine, bench.data, bench.model)?;
    spot_check(bench)?;
    delete_some(bench)?;
    // What was put for a time differs from engine to engine.
    let alike = |work| matches!(work, Work::Fill | Work::Get | Work::GetAbsent | Work::Scan);
    let same = cases.iter().all(|case| alike(case.work)) && digest.count == bench.model.len();
    Ok((measured, same.then_some(digest)))
}

/// Gets of keys all over the store, since the whole scan went another way.
fn spot_check(bench: &Bench<'_>) -> Result<()> {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let count = bench.model.len();
    for number in (0..count).step_by((count / 10_000).max(1) as usize) {
        bench.data.key(number, &mut key);
        value.clear();
        let found = bench.engine.get(&key, &mut value)?;
        let got = bench.data.generation(number, &value).filter(|_| found);
        let wanted = Some(bench.model.get(number)).filter(|generation| *generation > 0);
        if got != wanted {
            return Err(format!("get {number} at the end: generation {got:?}, not {wanted:?}"));
        }
    }
    Ok(())
}

/// Deletes a few keys, the last thing that is done to a store: they must be gone, and only they.
fn delete_some(bench: &Bench<'_>) -> Result<()> {
    let count = bench.model.len();
    for number in (0..count).step_by((count / 100).max(1) as usize) {
        let mut key = Vec::new();
        bench.data.key(number, &mut key);
        bench.engine.delete(&key)?;
        bench.model.set(number, 0);
    }
    spot_check(bench)
}
