//! What is answered, as a line of JSON.

use base::{Error, ErrorKind, Result, Seq};
use serde_json::Value;

use super::question::Question;
use super::streams::Readers;
use super::wire::{Sink, Wire, wire};
use super::{ANSWER_BYTES_MAX, VERSION};
use crate::caught::caught;
use crate::engine::Engine;
use crate::observe::pages::MemoryPages;
use crate::observe::properties::Properties;
use crate::probe::Explained;
use crate::stream::slots::StreamOptions;

wire! {
    Explained { value_bytes, probes }
}

/// The answer to a line that came over the socket, ended. It is an error in JSON whatever goes wrong.
pub(super) fn answer(engine: &Engine, line: &[u8], readers: &mut Readers) -> String {
    // Nothing is left half done by a panic: an option is changed behind all that could, and so is a stream.
    let answered =
        caught(|| Question::parse(line).and_then(|question| told(engine, &question, readers)));
    let answered = answered.unwrap_or_else(|said| {
        let text = format!("the question ended in a panic; please report this: {said}");
        Err(Error::new(ErrorKind::Internal, "inspect", text))
    });
    answered.unwrap_or_else(|error| refusal(&error))
}

fn told(engine: &Engine, question: &Question, readers: &mut Readers) -> Result<String> {
    let _call = engine.call("inspect")?;
    let mut out = Sink::new(ANSWER_BYTES_MAX);
    begin(&mut out);
    out.member("ok");
    out.raw("{");
    match question {
        Question::Stats => {
            member(&mut out, "properties", &Properties::gather(engine));
            member(&mut out, "pages", &MemoryPages::gather(engine));
            member(&mut out, "recovery", &engine.lifetime.recovered);
        }
        Question::Lsm => member(&mut out, "properties", &Properties::gather(engine)),
        Question::Pool => {
            let pool = &engine.media.pool;
            member(&mut out, "properties", &Properties::gather(engine));
            member(&mut out, "wear", &pool.wear());
            member(&mut out, "view", &pool.view().to_string());
        }
        Question::Locks { max } => {
            let max = usize::try_from(*max).unwrap_or(usize::MAX);
            member(&mut out, "locks", &engine.locks.report(max));
        }
        Question::Explain { keyspace, key } => {
            let space = engine.keyspaces.named(keyspace).ok_or_else(|| {
                let text = format!("no keyspace {keyspace}; see `strandline keyspace list`");
                Error::new(ErrorKind::NotFound, "inspect", text)
            })?;
            member(&mut out, "lookup", &engine.explain_get(&space, key)?);
        }
        Question::SetOption { name, text } => engine.set_option(name, text)?,
        Question::CreateStream { name, max_bytes } => {
            let options = StreamOptions::new().max_bytes(*max_bytes);
            member(&mut out, "acked", &engine.create_stream(name, &options)?.acked());
        }
        Question::ReadStream { name, given } => {
            member(&mut out, "batches", &readers.read(engine, name, *given)?);
        }
        Question::AckStream { name, seq } => {
            engine.ack_stream(&engine.slot(name, "acknowledge")?, *seq)?;
        }
        Question::DropStream { name } => engine.drop_stream(name)?,
    }
    out.raw("}}\n");
    if out.is_over() {
        let text = format!(
            "the answer is longer than {ANSWER_BYTES_MAX} bytes; close the store and look at it then"
        );
        return Err(Error::new(ErrorKind::LimitExceeded, "inspect", text));
    }
    Ok(out.into_text())
}

/// The line that says what went wrong, ended.
pub(super) fn refusal(error: &Error) -> String {
    let mut out = Sink::new(usize::MAX);
    begin(&mut out);
    out.member("error");
    out.raw("{");
    member(&mut out, "kind", &error.kind());
    member(&mut out, "message", &message(error));
    if let Some(oldest) = error.oldest() {
        member(&mut out, "oldest", &oldest);
    }
    out.raw("}}\n");
    out.into_text()
}

fn message(error: &Error) -> String {
    use std::error::Error as _;
    match error.source() {
        Some(source) => format!("{} ({source})", error.context()),
        None => error.context().to_owned(),
    }
}

fn begin(out: &mut Sink) {
    out.raw("{");
    member(out, "strandline", &VERSION);
}

fn member(out: &mut Sink, name: &str, value: &impl Wire) {
    out.member(name);
    value.put(out);
}

/// What stands behind `ok` in the line of an answer.
///
/// # Errors
/// What the store answered; `NotSupported` if the line is of another version, or no answer.
pub(super) fn read(line: &[u8]) -> Result<Value> {
    let value: Value = serde_json::from_slice(line).map_err(|_| not_understood())?;
    if let Some(error) = value.get("error") {
        let kind = error.get("kind").and_then(ErrorKind::take).unwrap_or(ErrorKind::Internal);
        let message = error.get("message").and_then(Value::as_str).unwrap_or("no message");
        let told = Error::new(kind, "inspect", message);
        return Err(match error.get("oldest").and_then(Seq::take) {
            Some(oldest) => told.with_oldest(oldest),
            None => told,
        });
    }
    let is_ours = value.get("strandline").and_then(Value::as_u64) == Some(VERSION);
    value.get("ok").filter(|_| is_ours).cloned().ok_or_else(not_understood)
}

/// The member `name` of an answer.
///
/// # Errors
/// As [`read`].
pub(super) fn part<T: Wire>(answer: &Value, name: &str) -> Result<T> {
    answer.get(name).and_then(T::take).ok_or_else(not_understood)
}

fn not_understood() -> Error {
    let text =
        "the answer is not understood; use the release of the program that has the store open";
    Error::new(ErrorKind::NotSupported, "inspect", text)
}
