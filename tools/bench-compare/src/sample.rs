//! What one engine did in one run of one benchmark.

use crate::promise::Promise;
use crate::stages::{Case, Place, Stage};
use crate::work::Measured;

/// What one engine did in one run of one benchmark.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The engine's name.
    pub engine: &'static str,
    /// Which run.
    pub run: usize,
    /// The stage, with its values and place.
    pub stage: &'static Stage,
    /// The benchmark.
    pub case: &'static Case,
    /// Keys.
    pub keys: u64,
    /// What a put survived.
    pub promise: Promise,
    /// The same in the engine's words.
    pub durability: String,
    /// The figures.
    pub measured: Measured,
}

/// A benchmark among all: its name, threads and size of values.
pub type CaseKey = (&'static str, usize, usize);

impl Sample {
    /// Which benchmark it is of.
    pub fn key(&self) -> CaseKey {
        key(self.stage, self.case)
    }

    /// Where the store was.
    pub fn place(&self) -> Place {
        self.stage.place
    }
}

/// The key of a benchmark.
pub fn key(stage: &Stage, case: &Case) -> CaseKey {
    (case.name, case.threads, stage.value_size)
}
