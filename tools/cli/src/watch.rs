//! A store that is looked at again and again, while processes open and close it.

use std::path::PathBuf;

use strandline::{ErrorKind, Inspector, Properties, Result};

use crate::context::Context;
use crate::failure::Failure;
use crate::look::{self, Look};

/// What a watched store does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// No process had it open when it was first looked at.
    Closed,
    /// A process has it open, and answers.
    Running,
    /// The process that had it open has closed it, or has ended.
    Gone,
    /// The process that has it open gave no figures; why.
    Silent(String),
}

/// A store that is watched. It is held open only to look at it first, so that others may open it.
pub struct Watch {
    dir: PathBuf,
    state: State,
}

/// A watch, and the first figures.
pub struct Begun {
    pub watch: Watch,
    pub figures: Properties,
}

impl Watch {
    /// Begins with the store as it stands: the figures of the process that has it open, or of the store itself.
    pub fn begin(context: &Context) -> std::result::Result<Begun, Failure> {
        look::ask(context, |look| {
            let state = match look {
                Look::Opened(_) => State::Closed,
                Look::Running(_) => State::Running,
            };
            let figures = look.properties()?;
            Ok(Begun { watch: Watch { dir: context.db.clone(), state }, figures })
        })
    }

    pub fn state(&self) -> State {
        self.state.clone()
    }

    pub fn is_running(&self) -> bool {
        self.state == State::Running
    }

    /// Figures as they are now, if a process has the store open and answers.
    pub fn next(&mut self) -> Option<Properties> {
        let asked = Inspector::connect(&self.dir).and_then(|inspector| inspector.properties());
        self.state = self.follows(&asked);
        asked.ok()
    }

    /// What the store does, by what the process that has it open answered.
    fn follows(&self, asked: &Result<Properties>) -> State {
        match asked {
            Ok(_) => State::Running,
            Err(error) => match error.kind() {
                ErrorKind::NotFound if self.state == State::Closed => State::Closed,
                ErrorKind::NotFound | ErrorKind::Closed => State::Gone,
                _ => State::Silent(error.to_string()),
            },
        }
    }
}
