//! What may be asked, as a line of JSON.

use base::{Error, ErrorKind, Result, Seq};
use serde_json::Value;

use super::VERSION;
use super::wire::{Sink, Wire};

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// Figures, and what the open found.
    Stats,
    /// Figures only.
    Lsm,
    /// Figures, and what the pool says of itself.
    Pool,
    /// Locks of transactions.
    Locks { max: u64 },
    /// The way of a look-up.
    Explain { keyspace: String, key: Vec<u8> },
    /// That an option changes.
    SetOption { name: String, text: String },
    /// That a change stream is made.
    CreateStream { name: String, max_bytes: u64 },
    /// What it has behind a number.
    ReadStream { name: String, given: Seq },
    /// That it is acknowledged up to a number.
    AckStream { name: String, seq: Seq },
    /// That it is dropped.
    DropStream { name: String },
}

impl Question {
    /// The line, ended.
    pub(super) fn line(&self) -> String {
        let name = match self {
            Question::Stats => "stats",
            Question::Lsm => "lsm",
            Question::Pool => "pool",
            Question::Locks { .. } => "locks",
            Question::Explain { .. } => "explain",
            Question::SetOption { .. } => "set option",
            Question::CreateStream { .. } => "create stream",
            Question::ReadStream { .. } => "read stream",
            Question::AckStream { .. } => "acknowledge",
            Question::DropStream { .. } => "drop stream",
        };
        let mut out = Sink::new(usize::MAX);
        out.raw("{");
        out.member("strandline");
        VERSION.put(&mut out);
        out.member("ask");
        out.string(name);
        if let Question::Locks { max } = self {
            out.member("max");
            max.put(&mut out);
        }
        if let Question::Explain { keyspace, key } = self {
            out.member("keyspace");
            out.string(keyspace);
            out.member("key");
            key.put(&mut out);
        }
        if let Question::SetOption { name, text } = self {
            out.member("name");
            out.string(name);
            out.member("text");
            out.string(text);
        }
        let stream = match self {
            Question::CreateStream { name, max_bytes } => Some((name, *max_bytes)),
            Question::ReadStream { name, given } => Some((name, given.get())),
            Question::AckStream { name, seq } => Some((name, seq.get())),
            Question::DropStream { name } => Some((name, 0)),
            _ => None,
        };
        if let Some((name, number)) = stream {
            out.member("name");
            out.string(name);
            out.member("number");
            number.put(&mut out);
        }
        out.raw("}\n");
        out.into_text()
    }

    /// The question in a line that came over the socket.
    ///
    /// # Errors
    /// `InvalidArgument` if it is none; `NotSupported` for another version.
    pub(super) fn parse(line: &[u8]) -> Result<Question> {
        let value: Value = serde_json::from_slice(line)
            .map_err(|error| refused(format!("the question is no line of JSON: {error}")))?;
        match value.get("strandline").map(u64::take) {
            Some(Some(VERSION)) => {}
            Some(Some(other)) => {
                let text = format!(
                    "version {other} of the protocol was asked for, and this store speaks {VERSION}; use the release of \
                     the program that has it open"
                );
                return Err(Error::new(ErrorKind::NotSupported, "inspect", text));
            }
            _ => return Err(refused("the question names no version of the protocol".into())),
        }
        match value.get("ask").and_then(Value::as_str) {
            Some("stats") => Ok(Question::Stats),
            Some("lsm") => Ok(Question::Lsm),
            Some("pool") => Ok(Question::Pool),
            Some("locks") => {
                let max = value.get("max").and_then(u64::take);
                max.map(|max| Question::Locks { max })
                    .ok_or_else(|| refused("locks needs max".into()))
            }
            Some("explain") => {
                let keyspace = value.get("keyspace").and_then(String::take);
                let key = value.get("key").and_then(Vec::take);
                let (Some(keyspace), Some(key)) = (keyspace, key) else {
                    return Err(refused("explain needs keyspace and key".into()));
                };
                Ok(Question::Explain { keyspace, key })
            }
            Some("set option") => {
                let name = value.get("name").and_then(String::take);
                let text = value.get("text").and_then(String::take);
                let (Some(name), Some(text)) = (name, text) else {
                    return Err(refused("set option needs name and text".into()));
                };
                Ok(Question::SetOption { name, text })
            }
            Some(ask) => match of_stream(ask, &value) {
                Some(question) => question,
                None => Err(no_such_question()),
            },
            None => Err(no_such_question()),
        }
    }
}

/// A question about a change stream, if `ask` is one.
fn of_stream(ask: &str, value: &Value) -> Option<Result<Question>> {
    let name = value.get("name").and_then(String::take);
    let number = value.get("number").and_then(u64::take);
    let (Some(name), Some(number)) = (name, number) else {
        let asked = ["create stream", "read stream", "acknowledge", "drop stream"].contains(&ask);
        return asked.then(|| Err(refused(format!("{ask} needs name and number"))));
    };
    Some(Ok(match ask {
        "create stream" => Question::CreateStream { name, max_bytes: number },
        "read stream" => Question::ReadStream { name, given: Seq::new(number) },
        "acknowledge" => Question::AckStream { name, seq: Seq::new(number) },
        "drop stream" => Question::DropStream { name },
        _ => return None,
    }))
}

fn no_such_question() -> Error {
    refused(
        "there is no such question; ask stats, lsm, pool, locks, explain, set option, create stream, read stream, acknowledge \
         or drop stream"
            .into(),
    )
}

fn refused(text: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, "inspect", text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_come_back() {
        let explain = Question::Explain { keyspace: "ä\"".into(), key: vec![0, 255, b'\n'] };
        let set = Question::SetOption { name: "index".into(), text: "\"ü\n".into() };
        let name = || "in\\dex".to_owned();
        let streams = [
            Question::CreateStream { name: name(), max_bytes: 1 << 40 },
            Question::ReadStream { name: name(), given: Seq::new(9) },
            Question::AckStream { name: name(), seq: Seq::new(9) },
            Question::DropStream { name: name() },
        ];
        let locks = Question::Locks { max: 7 };
        let others = [Question::Stats, Question::Lsm, Question::Pool, locks, explain, set];
        for question in others.into_iter().chain(streams) {
            let line = question.line();
            assert!(line.ends_with('\n') && line.matches('\n').count() == 1, "{line}");
            assert_eq!(Question::parse(line.as_bytes()).expect("parses"), question);
        }
    }

    #[test]
    fn what_is_no_question_is_refused() {
        let kind = |line: &str| Question::parse(line.as_bytes()).expect_err(line).kind();
        let deep = "[".repeat(100_000);
        for line in ["", "\0", "null", "{}", "[1", &deep, r#"{"strandline":12}"#] {
            assert_eq!(kind(line), ErrorKind::InvalidArgument);
        }
        assert_eq!(
            kind(r#"{"strandline":12,"ask":"explain","key":"a"}"#),
            ErrorKind::InvalidArgument
        );
        assert_eq!(
            kind(r#"{"strandline":12,"ask":"acknowledge","name":"a"}"#),
            ErrorKind::InvalidArgument
        );
        assert_eq!(kind(r#"{"strandline":1,"ask":"stats"}"#), ErrorKind::NotSupported);
    }
}
