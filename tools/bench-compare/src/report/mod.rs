//! What was found, as rows: this engine beside one other.

pub mod docs;
pub mod json;
pub mod table;

use crate::engines::OURS;
use crate::limits::Limits;
use crate::session::Sample;

/// All that is told.
#[derive(Debug)]
pub struct Report {
    /// Facts about the machine.
    pub facts: Vec<(&'static str, String)>,
    /// The command.
    pub command: String,
    /// What the machine allows.
    pub limits: Limits,
    /// Every run.
    pub samples: Vec<Sample>,
    /// What failed.
    pub failures: Vec<String>,
}

/// A benchmark on this engine and on another.
#[derive(Clone, Debug)]
pub struct Row {
    /// The benchmark.
    pub benchmark: &'static str,
    /// The other engine.
    pub rival: &'static str,
    /// Threads.
    pub threads: usize,
    /// Bytes of values.
    pub value_size: usize,
    /// This engine's median of operations a second.
    pub ours: f64,
    /// The other's.
    pub theirs: f64,
    /// Ratios of the runs: median, least, greatest.
    pub ratio: [f64; 3],
    /// What puts survived on both.
    pub durability: [String; 2],
    /// This engine's part of what the machine allows.
    pub limit: Option<f64>,
    /// What else there is to say, such as write amplification.
    pub notes: [String; 2],
}

impl Report {
    /// The rows, in the order in which benchmarks ran.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        for sample in self.samples.iter().filter(|sample| sample.engine != OURS.name) {
            let known = |row: &Row| row.rival == sample.engine && same_row(row, sample);
            if !rows.iter().any(known) {
                rows.extend(self.row(sample));
            }
        }
        let place = |row: &Row| self.samples.iter().position(|sample| same_row(row, sample));
        rows.sort_by_key(place);
        rows
    }

    /// Medians of this engine, for benchmarks that ran on no other.
    pub fn alone(&self) -> Vec<&Sample> {
        let rows = self.rows();
        let ours = self.samples.iter().filter(|sample| sample.engine == OURS.name);
        ours.filter(|sample| !rows.iter().any(|row| same_row(row, sample))).collect()
    }

    fn runs_of(&self, engine: &str, like: &Sample) -> Vec<&Sample> {
        let mut runs: Vec<&Sample> = self
            .samples
            .iter()
            .filter(|sample| sample.engine == engine && same_case(sample, like))
            .collect();
        runs.sort_by_key(|sample| sample.run);
        runs
    }

    fn row(&self, sample: &Sample) -> Option<Row> {
        let (ours, theirs) = (self.runs_of(OURS.name, sample), self.runs_of(sample.engine, sample));
        let first = ours.first()?;
        let rate = |sample: &&Sample| sample.measured.rate.per_second;
        // A run is compared with the other engine's run of the same turn.
        let ratios = ours.iter().filter_map(|our| {
            let their = theirs.iter().find(|their| their.run == our.run)?;
            Some(rate(our) / rate(their))
        });
        let mut ratios: Vec<f64> = ratios.collect();
        ratios.sort_by(f64::total_cmp);
        let our_median = median(ours.iter().map(rate).collect());
        Some(Row {
            benchmark: sample.case.name,
            rival: sample.engine,
            threads: sample.case.threads,
            value_size: sample.value_size,
            ours: our_median,
            theirs: median(theirs.iter().map(rate).collect()),
            ratio: [median(ratios.clone()), *ratios.first()?, *ratios.last()?],
            durability: [first.durability.clone(), sample.durability.clone()],
            limit: self.limits.of(first).map(|limit| our_median / limit),
            notes: [notes(&ours), notes(&theirs)],
        })
    }
}

fn same_case(one: &Sample, other: &Sample) -> bool {
    one.case.name == other.case.name
        && one.case.threads == other.case.threads
        && one.value_size == other.value_size
}

fn same_row(row: &Row, sample: &Sample) -> bool {
    row.benchmark == sample.case.name
        && row.threads == sample.case.threads
        && row.value_size == sample.value_size
}

/// The middle one; the mean of two where there is none, and 0 of nothing.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.len().saturating_sub(1) / 2, values.len() / 2);
    match values.get(low..=high) {
        Some(middle) => middle.iter().sum::<f64>() / middle.len() as f64,
        None => 0.0,
    }
}

/// Bytes to files and to persistent memory per byte that was put, and puts beside gets: medians of the runs.
fn notes(runs: &[&Sample]) -> String {
    let of = |figure: &dyn Fn(&Sample) -> Option<f64>| {
        let figures: Vec<f64> = runs.iter().filter_map(|run| figure(run)).collect();
        (!figures.is_empty()).then(|| median(figures))
    };
    let mut notes = Vec::new();
    if let Some(aside) = of(&|run| run.measured.aside.map(|aside| aside.per_second)) {
        notes.push(format!("{} puts/s beside", count(aside)));
    }
    if let Some(files) = of(&|run| files_per_byte(run)) {
        notes.push(format!("{files:.2} bytes to files per byte put"));
    }
    if let Some(pm) = of(&|run| pm_per_byte(run)) {
        notes.push(format!("{pm:.2} to the pool"));
    }
    let latency = |quantile: f64| {
        move |run: &Sample| {
            Some(run.measured.latency.as_ref()?.value_at_quantile(quantile) as f64 / 1e3)
        }
    };
    if let (Some(p999), Some(longest)) = (of(&latency(0.999)), of(&latency(1.0))) {
        notes.push(format!("p99.9 {p999:.0} us, longest put {:.1} ms", longest / 1e3));
    }
    notes.join(", ")
}

/// Bytes to files per byte that was put, in [`crate::work::Work::Steady`]: as the engine counts, or else as the system
/// counts the process's writes.
pub fn files_per_byte(sample: &Sample) -> Option<f64> {
    let measured = &sample.measured;
    measured.latency.as_ref()?;
    let bytes = measured.written.map_or(measured.process_bytes, |written| written.files);
    Some(bytes as f64 / measured.user_bytes.max(1) as f64)
}

/// Bytes to persistent memory per byte that was put, there.
pub fn pm_per_byte(sample: &Sample) -> Option<f64> {
    let measured = &sample.measured;
    measured.latency.as_ref()?;
    let pm = measured.written?.pm;
    (pm > 0).then(|| pm as f64 / measured.user_bytes.max(1) as f64)
}

/// A number in thousands or millions.
pub fn count(number: f64) -> String {
    match number {
        n if n >= 1e6 => format!("{:.2} M", n / 1e6),
        n if n >= 1e4 => format!("{:.0} k", n / 1e3),
        n if n >= 1e3 => format!("{:.1} k", n / 1e3),
        n => format!("{n:.0}"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn medians() {
        assert_eq!(super::median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(super::median(vec![4.0, 1.0]), 2.5);
        assert_eq!(super::median(Vec::new()), 0.0);
    }
}
