//! One case: a workload, a schedule and a world; all of it follows from a seed.

use std::fmt;

use crate::check::Violation;
use crate::media::Mode;
use crate::op::{Op, Shape};
use crate::sabotage::Planted;
use base::random::Rng;

/// What is run before the power goes.
#[derive(Clone, Debug)]
pub struct Case {
    /// Everything follows from it, the choice of images included.
    pub seed: u64,
    /// What a power cut takes.
    pub mode: Mode,
    /// The fault planted, if any.
    pub sabotage: Option<Planted>,
    /// The operations, in the order in which each thread takes its own.
    pub ops: Vec<Op>,
    /// Which thread takes the next step; see [`Turns`](crate::run::Turns).
    pub schedule: Vec<u8>,
    /// Whether what is usually sampled (crashes inside crashes, work after recovery) is done at every
    /// other chance. Failures are shrunk so, since what a sample hits changes with every operation.
    pub eager: bool,
    /// What is done after a recovery is drawn from this.
    pub afterwards: Shape,
}

impl Case {
    /// The case of `seed`.
    pub fn new(seed: u64, shape: &Shape, mode: Mode) -> Self {
        let ops = shape.generate(&mut Rng::fork(seed, 1), 1);
        let mut rng = Rng::fork(seed, 2);
        let schedule = (0..ops.len() * 24).map(|_| rng.next() as u8).collect();
        let afterwards = Shape { ops: 3, reopens: 0, ..shape.clone() };
        Self { seed, mode, sabotage: None, ops, schedule, eager: false, afterwards }
    }

    /// A case with these operations, interleaved by `seed`.
    pub fn with_ops(seed: u64, ops: Vec<Op>, mode: Mode) -> Self {
        let case = Self::new(seed, &Shape { ops: ops.len(), ..Shape::default() }, mode);
        Self { ops, ..case }
    }

    /// The same with a fault planted.
    #[must_use]
    pub fn sabotaged(mut self, sabotage: Option<impl Into<Planted>>) -> Self {
        self.sabotage = sabotage.map(Into::into);
        self
    }
}

/// A case that failed, and how.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The case; running it again fails again.
    pub case: Case,
    /// What was broken.
    pub violation: Violation,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { seed, mode, sabotage, ops, schedule, .. } = &self.case;
        write!(f, "seed {seed:#x}, {mode:?}")?;
        if let Some(sabotage) = sabotage {
            write!(f, ", {sabotage}")?;
        }
        writeln!(f, "{}", if self.case.eager { ", eager" } else { "" })?;
        ops.iter().try_for_each(|op| writeln!(f, "  {op}"))?;
        if !schedule.is_empty() {
            writeln!(f, "  schedule {schedule:?}")?;
        }
        write!(f, "{}", self.violation)
    }
}
