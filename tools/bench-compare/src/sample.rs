//! What one engine did in one run of one benchmark.

use crate::data::Filling;
use crate::promise::Promise;
use crate::stages::{Case, Group, Place, Stage, Work};
use crate::work::Measured;
use bench::data::draw::Draw;

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
    /// Values and draws.
    pub load: Load,
    /// Keys.
    pub keys: u64,
    /// What a put survived.
    pub promise: Promise,
    /// The same in the engine's words.
    pub durability: String,
    /// The figures.
    pub measured: Measured,
}

/// What a command says of values and draws; with others a benchmark is another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Load {
    /// How values are filled.
    pub filling: Filling,
    /// How keys are drawn.
    pub draw: Draw,
}

impl Load {
    /// What of it counts in `case`: a fill has each key once, however others are drawn, and some say by themselves how they are.
    pub fn of(self, case: &Case) -> Load {
        let fixed = match case.work {
            // Rows are filled as the standard says, too.
            Work::Orders => return Load::default(),
            Work::Fill | Work::Insert | Work::Records(_) => true,
            _ => case.draw.is_some(),
        };
        let draw = if fixed { Draw::Uniform } else { self.draw };
        Load { draw, ..self }
    }
}

/// A benchmark among all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CaseKey {
    /// Its name.
    pub benchmark: &'static str,
    /// How many threads there are.
    pub threads: usize,
    /// Bytes of values.
    pub value_size: usize,
    /// Values and draws.
    pub load: Load,
}

impl CaseKey {
    /// The benchmark as a row says it, with the draw if that is not the usual one.
    pub fn shown(&self) -> String {
        match self.load.draw {
            Draw::Uniform => self.benchmark.into(),
            draw => format!("{} {}", self.benchmark, draw.name()),
        }
    }

    /// The values as a row says them, with the filling if that is not the usual one.
    pub fn values(&self) -> String {
        match self.load.filling {
            _ if self.value_size == 0 => "any".into(),
            Filling::Half => self.value_size.to_string(),
            filling => format!("{} {}", self.value_size, filling.name()),
        }
    }
}

impl Sample {
    /// Which benchmark it is of.
    pub fn key(&self) -> CaseKey {
        key(self.stage, self.case, self.load)
    }

    /// The group of its benchmark.
    pub fn group(&self) -> Group {
        self.stage.group
    }

    /// Where the store was.
    pub fn place(&self) -> Place {
        self.stage.place
    }
}

/// The key of a benchmark.
pub fn key(stage: &Stage, case: &Case, load: Load) -> CaseKey {
    let (benchmark, threads) = (case.name, case.threads);
    CaseKey { benchmark, threads, value_size: stage.value_size, load }
}
