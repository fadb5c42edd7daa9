//! Standard error: notes, progress and the error, as text or as JSON.

use std::fmt::Display;
use std::io::{IsTerminal, Write, stderr};

use serde_json::Value;

/// The form of what is written to standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stderr {
    Text,
    /// One object a line.
    Json,
}

impl Stderr {
    /// Writes a line. A closed standard error is no reason to fail.
    pub fn note(self, text: impl Display, json: &Value) {
        let _unheard = match self {
            Stderr::Text => writeln!(stderr(), "{text}"),
            Stderr::Json => writeln!(stderr(), "{json}"),
        };
    }

    /// Whether progress is shown as a bar.
    pub fn shows_bars(self) -> bool {
        self == Stderr::Text && stderr().is_terminal()
    }
}
