//! How far the child is, as files tell it: it waits until the reader of its trace has come as far.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The pool is at these addresses.
    Begins { pool: Range<u64> },
    /// The caches are filled.
    Counts,
    /// The model charged so many lines since.
    Ended { lines: u64 },
}

impl Phase {
    fn text(&self) -> String {
        match self {
            Phase::Begins { pool } => format!("begins {} {}", pool.start, pool.end),
            Phase::Counts => "counts".into(),
            Phase::Ended { lines } => format!("ended {lines}"),
        }
    }

    fn parse(text: &str) -> Option<Phase> {
        let mut words = text.split(' ');
        let name = words.next()?;
        let mut number = || words.next()?.parse::<u64>().ok();
        Some(match name {
            "begins" => Phase::Begins { pool: number()?..number()? },
            "counts" => Phase::Counts,
            "ended" => Phase::Ended { lines: number()? },
            _ => return None,
        })
    }
}

pub(super) struct Phases {
    said: PathBuf,
    heard: PathBuf,
}

impl Phases {
    pub fn new(dir: &Path) -> Phases {
        Phases { said: dir.join("said"), heard: dir.join("heard") }
    }

    /// What the child said last.
    pub fn phase(&self) -> Option<Phase> {
        Phase::parse(&std::fs::read_to_string(&self.said).ok()?)
    }

    /// For the reader: it has come as far.
    pub fn acknowledge(&self) {
        let said = std::fs::read_to_string(&self.said).unwrap_or_default();
        std::fs::write(&self.heard, said).expect("the directory is ours");
    }

    /// For the child.
    pub fn say(&self, phase: &Phase) {
        let whole = self.said.with_extension("new");
        std::fs::write(&whole, phase.text()).expect("the directory is ours");
        std::fs::rename(whole, &self.said).expect("the directory is ours");
    }

    /// For the child: until the reader has heard that. One that is gone hears nothing.
    pub fn await_heard(&self, phase: &Phase) {
        while self.said.exists()
            && std::fs::read_to_string(&self.heard).ok().as_deref() != Some(&phase.text())
        {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
