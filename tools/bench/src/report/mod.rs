//! What a benchmark found, and how it is told.

pub(crate) mod counters;
pub(crate) mod distribution;
pub(crate) mod json;
pub(crate) mod line;
pub(crate) mod outcome;
pub(crate) mod sparkline;

use std::io::Write;

use crate::config::Config;
use outcome::Outcome;

/// Writes a line to standard output.
///
/// # Errors
/// No process reads it any more.
pub(crate) fn say(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")
        .and_then(|()| out.flush())
        .map_err(|error| format!("standard output: {error}"))
}

/// Tells a row of a table in the form that the flags ask for.
pub(crate) fn tell_row(
    config: &Config,
    text: &str,
    value: &serde_json::Value,
) -> Result<(), String> {
    if config.json { say(&value.to_string()) } else { say(text) }
}

/// Writes what is worth knowing beside the figures to standard error.
pub(crate) fn note(config: &Config, text: &str) {
    let mut err = std::io::stderr().lock();
    let _unheard = match config.json {
        true => writeln!(err, "{}", serde_json::json!({ "note": text })),
        false => writeln!(err, "bench: {text}"),
    };
}

/// Tells an outcome in the form that the flags ask for.
pub(crate) fn tell(config: &Config, outcome: &Outcome) -> Result<(), String> {
    if config.json {
        return say(&json::object(config, outcome).to_string());
    }
    say(&line::line(outcome))?;
    if !outcome.operations.is_empty() {
        say(&line::operations(outcome))?;
    }
    match &outcome.histogram {
        Some(histogram) if config.histogram => say(&distribution::table(histogram)),
        _ => Ok(()),
    }
}
