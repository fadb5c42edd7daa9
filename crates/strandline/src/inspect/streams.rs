//! Change streams over the socket: batches as JSON and back, and the readers between two questions.

use std::sync::Arc;

use base::{Result, Seq};
use serde_json::Value;

use super::wire::{Sink, Wire, wire};
use crate::engine::Engine;
use crate::stream::batch::{Changed, StreamBatch, StreamedChange};
use crate::stream::reader::StreamReader;

/// Readers that are kept for a next question.
const READERS_MAX: usize = 8;
/// Bytes of keys and values after which an answer has enough.
const ENOUGH: usize = 256 << 10;

wire! {
    StreamBatch { number, last, changes }
    StreamedChange { seq, keyspace, what }
}

impl Wire for Arc<str> {
    fn put(&self, out: &mut Sink) {
        out.string(self);
    }

    fn take(value: &Value) -> Option<Self> {
        value.as_str().map(Arc::from)
    }
}

impl Wire for Changed {
    fn put(&self, out: &mut Sink) {
        out.raw("{");
        let mut named = |name: &str| {
            out.member("is");
            out.string(name);
        };
        match self {
            Changed::Put { key, value, expires } => {
                named("put");
                out.member("key");
                key.put(out);
                out.member("value");
                value.put(out);
                out.member("expires");
                expires.put(out);
            }
            Changed::Delete { key } => {
                named("delete");
                out.member("key");
                key.put(out);
            }
            Changed::DeleteRange { begin, end } => {
                named("delete range");
                out.member("begin");
                begin.put(out);
                out.member("end");
                end.put(out);
            }
            Changed::Merge { key, operand } => {
                named("merge");
                out.member("key");
                key.put(out);
                out.member("operand");
                operand.put(out);
            }
            Changed::KeyspaceCreated => named("keyspace created"),
            Changed::KeyspaceDropped => named("keyspace dropped"),
            Changed::Ingested { tables, entries, smallest, largest } => {
                named("ingested");
                out.member("tables");
                tables.put(out);
                out.member("entries");
                entries.put(out);
                out.member("smallest");
                smallest.put(out);
                out.member("largest");
                largest.put(out);
            }
        }
        out.raw("}");
    }

    fn take(value: &Value) -> Option<Self> {
        let bytes = |name: &str| Vec::<u8>::take(value.get(name)?);
        let count = |name: &str| u64::take(value.get(name)?);
        Some(match value.get("is")?.as_str()? {
            "put" => Changed::Put {
                key: bytes("key")?,
                value: bytes("value")?,
                expires: Wire::take(value.get("expires")?)?,
            },
            "delete" => Changed::Delete { key: bytes("key")? },
            "delete range" => Changed::DeleteRange { begin: bytes("begin")?, end: bytes("end")? },
            "merge" => Changed::Merge { key: bytes("key")?, operand: bytes("operand")? },
            "keyspace created" => Changed::KeyspaceCreated,
            "keyspace dropped" => Changed::KeyspaceDropped,
            "ingested" => Changed::Ingested {
                tables: count("tables")?,
                entries: count("entries")?,
                smallest: bytes("smallest")?,
                largest: bytes("largest")?,
            },
            _ => return None,
        })
    }
}

/// Readers of streams between two questions: each would else find its place anew.
#[derive(Default)]
pub(super) struct Readers(Vec<StreamReader>);

impl Readers {
    /// Some batches behind `given`, or behind what was acknowledged.
    pub(super) fn read(
        &mut self,
        engine: &Engine,
        name: &str,
        given: Seq,
    ) -> Result<Vec<StreamBatch>> {
        let slot = engine.slot(name, "read stream")?;
        let is_it =
            |reader: &StreamReader| Arc::ptr_eq(reader.slot(), &slot) && reader.given() == given;
        let mut reader = match self.0.iter().position(is_it) {
            Some(at) => self.0.remove(at),
            None => StreamReader::behind(given, slot),
        };
        let (mut batches, mut bytes) = (Vec::new(), 0);
        while bytes < ENOUGH {
            let batch = match reader.poll(engine) {
                Ok(Some(batch)) => batch,
                Ok(None) => break,
                // What comes before it is given first; it is met again.
                Err(_) if !batches.is_empty() => break,
                Err(error) => return Err(error),
            };
            bytes += batch.changes.iter().map(bytes_of).sum::<usize>();
            batches.push(batch);
        }
        if self.0.len() == READERS_MAX {
            self.0.remove(0);
        }
        self.0.push(reader);
        Ok(batches)
    }
}

/// Bytes of a change, about.
fn bytes_of(change: &StreamedChange) -> usize {
    const HEAD: usize = 64;
    HEAD + match &change.what {
        Changed::Put { key, value, .. } => key.len() + value.len(),
        Changed::Delete { key } => key.len(),
        Changed::DeleteRange { begin, end } => begin.len() + end.len(),
        Changed::Merge { key, operand } => key.len() + operand.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn batches_come_back() {
        let what = [
            Changed::Put { key: vec![0, 255], value: b"v".to_vec(), expires: None },
            Changed::Put {
                key: b"k".to_vec(),
                value: Vec::new(),
                expires: Some(Duration::from_millis(5)),
            },
            Changed::Delete { key: b"\"\n".to_vec() },
            Changed::DeleteRange { begin: b"a".to_vec(), end: b"b".to_vec() },
            Changed::Merge { key: b"k".to_vec(), operand: b"+1".to_vec() },
            Changed::KeyspaceCreated,
            Changed::KeyspaceDropped,
            Changed::Ingested {
                tables: 1,
                entries: 2,
                smallest: b"a".to_vec(),
                largest: vec![255],
            },
        ];
        let changes = (7..).map(Seq::new).zip(what);
        let changes =
            changes.map(|(seq, what)| StreamedChange { seq, keyspace: "ä".into(), what });
        let batch =
            StreamBatch { number: Seq::new(7), last: Seq::new(14), changes: changes.collect() };
        let mut out = Sink::new(usize::MAX);
        batch.put(&mut out);
        let text = out.into_text();
        let value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(StreamBatch::take(&value), Some(batch));
    }
}
