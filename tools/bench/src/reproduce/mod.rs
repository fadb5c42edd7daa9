//! `strandline reproduce NAME`: what papers claim of their engines, measured on this one. Each experiment prints its
//! figures with the paper's beside them.

mod fill;
mod halloc;
mod indexes;
pub(crate) mod malloc;
mod memtable;
mod pairs;
mod records;

use std::io::Write;

/// An experiment: what it is called, what it shows, and how it is run.
pub struct Experiment {
    /// The word behind `reproduce`.
    pub name: &'static str,
    /// What it shows, in one line.
    pub what: &'static str,
    run: fn(Effort, &mut dyn Write) -> Result<(), String>,
}

/// How much an experiment does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// What takes some minutes.
    Usual,
    /// A fraction of the operations, which shows that it works and little more.
    Quick,
    /// As usual with so many keys, or as many as memory has room for; for experiments that have keys.
    Keys(u64),
}

/// Every experiment.
pub const EXPERIMENTS: [Experiment; 2] = [
    Experiment {
        name: "halloc",
        what: "what taking space in persistent memory costs, by length and by how full the pool is",
        run: halloc::run,
    },
    Experiment {
        name: "xengine-memtable",
        what: "the memtable's index beside a skip list and a B-tree: inserts, look-ups, scans",
        run: memtable::run,
    },
];

impl Experiment {
    /// The experiment of that name.
    pub fn find(name: &str) -> Option<&'static Experiment> {
        EXPERIMENTS.iter().find(|experiment| experiment.name == name)
    }

    /// Runs it and writes what it found as text, line by line.
    ///
    /// # Errors
    /// It could not be run, or `out` takes no more; in words.
    pub fn run(&self, effort: Effort, out: &mut dyn Write) -> Result<(), String> {
        (self.run)(effort, out)
    }
}

/// What to say when a report cannot be written.
fn unwritten(error: std::io::Error) -> String {
    format!("writing the report: {error}")
}
