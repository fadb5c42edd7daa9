//! What was found, as rows: this engine beside one other.

pub mod costs;
pub mod docs;
pub mod json;
pub mod table;

use crate::engines::{BARE_LOOPS, OURS};
use crate::figures::median;
use crate::flags::LEAST_RUNS;
use crate::kept::{Command, Kept};
use crate::promise::{BesideReads, Mark, Ratio, UNLIKE_SCANS, UNLIKE_WRITERS};
use crate::sample::{self, CaseKey, Load, Sample};
use crate::stages::{self, Group};

/// What the best bare loop of each run is called.
pub const BEST: &str = "bare-best";

/// All that is told.
#[derive(Debug)]
pub struct Report {
    /// What was run.
    pub commands: Vec<Command>,
    /// Every run, with the number of its command.
    pub samples: Vec<(usize, Sample)>,
    /// What failed.
    pub failures: Vec<String>,
}

/// A benchmark on this engine and on another.
#[derive(Clone, Debug)]
pub struct Row {
    /// The benchmark.
    pub case: CaseKey,
    /// The group of the benchmark.
    pub group: Group,
    /// The other engine.
    pub rival: &'static str,
    /// This engine's median of operations a second.
    pub ours: f64,
    /// The other's.
    pub theirs: f64,
    /// Of the runs, with what puts survived on both.
    pub ratio: Ratio,
    /// The promises in the engines' words.
    pub durability: [String; 2],
    /// This engine's part of what the machine allows.
    pub limit: Option<f64>,
    /// What it cost: times, bytes, memory.
    pub costs: [String; 2],
}

impl Report {
    /// Of what was kept.
    pub fn of(kept: Kept) -> Report {
        let failures = kept.failures.into_iter().map(|(_, _, text)| text).collect();
        let best = best_loops(&kept.samples);
        let samples = kept.samples.into_iter().chain(best).collect();
        Report { commands: kept.commands, samples, failures }
    }

    /// The rows, in the order of the benchmarks.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        for (command, sample) in self.samples.iter().filter(|(_, one)| one.engine != OURS.name) {
            let known = |row: &Row| row.rival == sample.engine && row.case == sample.key();
            if !rows.iter().any(known) {
                rows.extend(self.row(*command, sample));
            }
        }
        let usual = Load::default();
        let order: Vec<CaseKey> = stages::all()
            .flat_map(|stage| stage.cases.iter().map(|case| sample::key(stage, case, usual)))
            .collect();
        rows.sort_by_key(|row| {
            let case = CaseKey { load: usual, ..row.case };
            (order.iter().position(|other| *other == case), row.case.load)
        });
        rows
    }

    /// Runs of this engine of benchmarks that ran on no other.
    pub fn alone(&self) -> Vec<&Sample> {
        let rows = self.rows();
        let ours = self.samples.iter().map(|(_, sample)| sample);
        let ours = ours.filter(|sample| sample.engine == OURS.name);
        ours.filter(|sample| !rows.iter().any(|row| row.case == sample.key())).collect()
    }

    fn runs_of(&self, engine: &str, case: CaseKey) -> Vec<&Sample> {
        let samples = self.samples.iter().map(|(_, sample)| sample);
        let mut runs: Vec<&Sample> =
            samples.filter(|sample| sample.engine == engine && sample.key() == case).collect();
        runs.sort_by_key(|sample| sample.run);
        runs
    }

    fn row(&self, command: usize, sample: &Sample) -> Option<Row> {
        let case = sample.key();
        let (ours, theirs) = (self.runs_of(OURS.name, case), self.runs_of(sample.engine, case));
        let first = ours.first()?;
        let rate = |sample: &&Sample| sample.measured.rate.per_second();
        // A run is compared with the other engine's run of the same turn.
        let ratios: Vec<f64> = ours
            .iter()
            .filter_map(|our| {
                let their = theirs.iter().find(|their| their.run == our.run)?;
                Some(rate(our) / rate(their))
            })
            .collect();
        let aside = |runs: &[&Sample]| {
            let rates: Vec<f64> =
                runs.iter().filter_map(|run| Some(run.measured.aside?.per_second())).collect();
            (!rates.is_empty()).then(|| median(rates))
        };
        let few = (ratios.len() < LEAST_RUNS).then_some(Mark::Few(ratios.len()));
        let cut = ours.iter().chain(&theirs).find_map(|run| run.measured.cut);
        let marks = cut.map(|[put, of]| Mark::Cut(put, of)).into_iter().chain(few).collect();
        let note = match first.case.work.is_beside_a_scan() {
            true => UNLIKE_SCANS,
            false => UNLIKE_WRITERS,
        };
        let beside = BesideReads::of([aside(&ours), aside(&theirs)], note);
        let limits = self.commands.get(command).map(|command| command.limits);
        let our_median = median(ours.iter().map(rate).collect());
        Some(Row {
            case,
            group: sample.group(),
            rival: sample.engine,
            ours: our_median,
            theirs: median(theirs.iter().map(rate).collect()),
            ratio: Ratio::of(ratios, [first.promise, sample.promise], beside, marks)?,
            durability: [first.durability.clone(), sample.durability.clone()],
            limit: limits.and_then(|limits| limits.of(first)).map(|limit| our_median / limit),
            costs: [costs::of(&ours), costs::of(&theirs)],
        })
    }
}

/// For each run beside which bare loops ran, the fastest of them.
fn best_loops(samples: &[(usize, Sample)]) -> Vec<(usize, Sample)> {
    let mut best: Vec<(usize, Sample)> = Vec::new();
    let is_loop = |sample: &Sample| BARE_LOOPS.iter().any(|maker| maker.name == sample.engine);
    for (command, sample) in samples.iter().filter(|(_, sample)| is_loop(sample)) {
        let same = |other: &Sample| other.key() == sample.key() && other.run == sample.run;
        match best.iter_mut().find(|(_, other)| same(other)) {
            None => {
                let durability = format!("{}: {}", sample.engine, sample.durability);
                best.push((*command, Sample { engine: BEST, durability, ..sample.clone() }));
            }
            Some((_, other))
                if other.measured.rate.per_second() < sample.measured.rate.per_second() =>
            {
                let durability = format!("{}: {}", sample.engine, sample.durability);
                *other = Sample { engine: BEST, durability, ..sample.clone() };
            }
            Some(_) => {}
        }
    }
    best
}

#[cfg(test)]
mod tests;
