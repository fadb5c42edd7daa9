//! How a command ends: exit codes, and errors as text or as JSON.

use std::io::{self, Write};

use serde_json::{Value, json};
use strandline::ErrorKind;

use crate::stderr::Stderr;

/// All went well.
pub const OK: u8 = 0;
/// The key is not there, or has another value than was asked for, the store is damaged, `--strict` met a reject, or no split of a cache reaches the goal.
pub const NEGATIVE: u8 = 1;
/// The arguments are wrong.
pub const USAGE: u8 = 2;
/// Anything else.
pub const FAILED: u8 = 3;

/// An exit code, or why there is none.
pub type Outcome = Result<u8, Failure>;

/// Why a command did not come to its end.
#[derive(Debug)]
pub enum Failure {
    /// The store refused.
    Engine(strandline::Error),
    /// The parser of the command line refused, or was asked for help or the version.
    Arguments(clap::Error),
    /// The arguments are wrong in a way that only the command sees.
    Usage(String),
    /// A file, the output or a part of the system failed.
    Other(String),
    /// The reader of our output left: nothing is wrong, and no more output is wanted.
    ClosedPipe,
}

impl From<strandline::Error> for Failure {
    fn from(error: strandline::Error) -> Failure {
        Failure::Engine(error)
    }
}

impl Failure {
    /// A failed write to standard output.
    pub fn output(error: &io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::ClosedPipe,
            _ => Failure::Other(format!("writing standard output: {error}")),
        }
    }

    /// Tells what went wrong; the exit code.
    pub fn report(&self, form: Stderr) -> u8 {
        let (code, kind, text) = match self {
            Failure::ClosedPipe => return OK,
            Failure::Arguments(error) => match (form, error.use_stderr()) {
                (Stderr::Text, _) => return print(error),
                (Stderr::Json, false) => return print_json(error),
                (Stderr::Json, true) => (USAGE, "Usage".into(), message(error)),
            },
            Failure::Engine(error) if error.kind() == ErrorKind::InvalidArgument => {
                (USAGE, error.kind().to_string(), error.to_string())
            }
            Failure::Engine(error) => (FAILED, error.kind().to_string(), error.to_string()),
            Failure::Usage(text) => (USAGE, "Usage".into(), text.clone()),
            Failure::Other(text) => (FAILED, "Other".into(), text.clone()),
        };
        let error = json!({ "kind": kind, "message": text, "exit_code": code });
        // Names in it may have control characters, which would act on the reader's terminal.
        let text = plain(&text);
        form.note(format_args!("strandline: {text}"), &json!({ "error": error }));
        code
    }
}

/// `text` with escapes in place of control characters.
pub(crate) fn plain(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut plain, c| {
        if c.is_control() {
            plain.extend(c.escape_default());
        } else {
            plain.push(c);
        }
        plain
    })
}

/// Prints what clap has to say: help, the version, or what is wrong with the arguments.
fn print(error: &clap::Error) -> u8 {
    match error.print() {
        Err(failed) if failed.kind() == io::ErrorKind::BrokenPipe => OK,
        _ => u8::try_from(error.exit_code()).unwrap_or(USAGE),
    }
}

/// Help or the version, as one object.
fn print_json(error: &clap::Error) -> u8 {
    let name = match error.kind() {
        clap::error::ErrorKind::DisplayVersion => "version",
        _ => "help",
    };
    let mut object = serde_json::Map::new();
    object.insert(name.into(), error.render().to_string().trim_end().into());
    let _unheard = writeln!(io::stdout(), "{}", Value::Object(object));
    OK
}

/// What is wrong with the arguments, without the usage that follows.
fn message(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or(&text);
    first.trim_start_matches("error: ").trim_end().to_owned()
}
