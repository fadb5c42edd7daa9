//! What may be asked, as a line of JSON.

use base::{Error, ErrorKind, Result};
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
            _ => {
                let text =
                    "there is no such question; ask stats, lsm, pool, locks, explain or set option";
                Err(refused(text.into()))
            }
        }
    }
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
        let locks = Question::Locks { max: 7 };
        for question in [Question::Stats, Question::Lsm, Question::Pool, locks, explain, set] {
            let line = question.line();
            assert!(line.ends_with('\n') && line.matches('\n').count() == 1, "{line}");
            assert_eq!(Question::parse(line.as_bytes()).expect("parses"), question);
        }
    }

    #[test]
    fn what_is_no_question_is_refused() {
        let kind = |line: &str| Question::parse(line.as_bytes()).expect_err(line).kind();
        let deep = "[".repeat(100_000);
        for line in ["", "\0", "null", "{}", "[1", &deep, r#"{"strandline":11}"#] {
            assert_eq!(kind(line), ErrorKind::InvalidArgument);
        }
        assert_eq!(
            kind(r#"{"strandline":11,"ask":"explain","key":"a"}"#),
            ErrorKind::InvalidArgument
        );
        assert_eq!(kind(r#"{"strandline":1,"ask":"stats"}"#), ErrorKind::NotSupported);
    }
}
