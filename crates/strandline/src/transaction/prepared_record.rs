//! What is kept of a prepared transaction: its changes, and what it relies on that it does not change. See docs/format/prepared.md.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::LockMode;
use base::codec::{Reader, put_varint};
use base::planted::{self, Bug};

use crate::locks::space::What;
use crate::record::format::Kind;
use crate::span::Span;

const VERSION: u64 = 1;
/// Bytes of a record beside its key and value, at most.
const HEAD: u64 = 128;

/// A change of a prepared transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PreparedChange<'r> {
    /// The keyspace's place in the record.
    pub keyspace: u32,
    pub kind: Kind,
    pub key: &'r [u8],
    pub value: &'r [u8],
}

/// What no other may write until the transaction has ended, besides what it changes.
#[derive(Clone, Debug)]
pub(crate) struct ReliedOn {
    /// The keyspace's place in the record.
    pub keyspace: u32,
    pub what: What,
}

/// A prepared transaction as its record has it.
#[derive(Debug)]
pub(crate) struct PreparedRecord<'r> {
    /// Names: a repaired store gives keyspaces other numbers.
    pub keyspaces: Vec<&'r str>,
    /// In their order.
    pub changes: Vec<PreparedChange<'r>>,
    pub relied_on: Vec<ReliedOn>,
}

impl PreparedChange<'_> {
    /// What it locks.
    pub(crate) fn what(&self) -> What {
        match self.kind {
            Kind::RangeDelete => What::Range(Arc::new(Span {
                lower: self.key.to_vec(),
                upper: Some(self.value.to_vec()),
            })),
            _ => What::Key(Arc::from(self.key)),
        }
    }
}

impl<'r> PreparedRecord<'r> {
    /// A record of these changes. Of what is relied on it keeps what they do not lock anyway.
    pub(crate) fn new(
        keyspaces: Vec<&'r str>,
        changes: Vec<PreparedChange<'r>>,
        relied_on: impl Iterator<Item = ReliedOn>,
    ) -> PreparedRecord<'r> {
        let is_key = |change: &&PreparedChange<'_>| change.kind != Kind::RangeDelete;
        let changed = changes.iter().filter(is_key).map(|change| (change.keyspace, change.key));
        let changed: BTreeSet<(u32, &[u8])> = changed.collect();
        let relied_on = relied_on.filter(|on| match &on.what {
            What::Key(key) => !changed.contains(&(on.keyspace, &key[..])),
            What::Range(_) => true,
        });
        let relied_on = relied_on.collect();
        PreparedRecord { keyspaces, changes, relied_on }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, VERSION);
        put_varint(&mut out, self.keyspaces.len() as u64);
        self.keyspaces.iter().for_each(|name| put_bytes(&mut out, name.as_bytes()));
        put_varint(&mut out, self.changes.len() as u64);
        for change in &self.changes {
            put_varint(&mut out, change.keyspace.into());
            out.push(code(change.kind));
            put_bytes(&mut out, change.key);
            put_bytes(&mut out, change.value);
        }
        put_varint(&mut out, self.relied_on.len() as u64);
        for ReliedOn { keyspace, what } in &self.relied_on {
            put_varint(&mut out, (*keyspace).into());
            match what {
                What::Key(key) => {
                    out.push(0);
                    put_bytes(&mut out, key);
                }
                What::Range(span) => {
                    out.push(if span.upper.is_some() { 2 } else { 1 });
                    put_bytes(&mut out, &span.lower);
                    span.upper.iter().for_each(|upper| put_bytes(&mut out, upper));
                }
            }
        }
        out
    }

    /// `None` if it is no such record, or one of a later release.
    pub(crate) fn decode(bytes: &'r [u8]) -> Option<PreparedRecord<'r>> {
        let mut reader = Reader::new(bytes);
        if reader.varint()? != VERSION {
            return None;
        }
        let mut keyspaces = Vec::new();
        for _ in 0..reader.varint()? {
            keyspaces.push(std::str::from_utf8(take_bytes(&mut reader)?).ok()?);
        }
        let place = |reader: &mut Reader<'_>| {
            let place: u32 = reader.varint()?.try_into().ok()?;
            ((place as usize) < keyspaces.len()).then_some(place)
        };
        let mut changes = Vec::new();
        for _ in 0..reader.varint()? {
            let keyspace = place(&mut reader)?;
            let kind = kind(reader.u8()?)?;
            let (key, value) = (take_bytes(&mut reader)?, take_bytes(&mut reader)?);
            changes.push(PreparedChange { keyspace, kind, key, value });
        }
        let mut relied_on = Vec::new();
        for _ in 0..reader.varint()? {
            let keyspace = place(&mut reader)?;
            let form = reader.u8()?;
            let first = take_bytes(&mut reader)?;
            let what = match form {
                0 => What::Key(Arc::from(first)),
                1 | 2 => {
                    let upper =
                        if form == 2 { Some(take_bytes(&mut reader)?.to_vec()) } else { None };
                    What::Range(Arc::new(Span { lower: first.to_vec(), upper }))
                }
                _ => return None,
            };
            relied_on.push(ReliedOn { keyspace, what });
        }
        (reader.remaining() == 0).then_some(PreparedRecord { keyspaces, changes, relied_on })
    }

    /// Bytes of space that its changes take when they are committed.
    pub(crate) fn space_needed(&self) -> u64 {
        if planted::is(Bug::PreparedSpaceTaken) {
            return 0;
        }
        let bytes = self.changes.iter().map(|change| change.key.len() + change.value.len());
        bytes.map(|bytes| bytes as u64 + HEAD).sum()
    }

    /// All that it locks, and how.
    pub(crate) fn locks(&self) -> impl Iterator<Item = (u32, What, LockMode)> {
        let changed =
            self.changes.iter().map(|change| (change.keyspace, change.what(), LockMode::Exclusive));
        let relied_on = self.relied_on.iter();
        changed.chain(relied_on.map(|on| (on.keyspace, on.what.clone(), LockMode::Shared)))
    }
}

const CODES: [(u8, Kind); 4] =
    [(1, Kind::Put), (2, Kind::Delete), (3, Kind::Merge), (4, Kind::RangeDelete)];

fn code(kind: Kind) -> u8 {
    CODES.iter().find(|(_, of)| *of == kind).map_or(0, |(code, _)| *code)
}

fn kind(code: u8) -> Option<Kind> {
    CODES.iter().find(|(of, _)| *of == code).map(|(_, kind)| *kind)
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn take_bytes<'r>(reader: &mut Reader<'r>) -> Option<&'r [u8]> {
    let len = reader.varint()?.try_into().ok()?;
    reader.take(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_and_no_other_bytes_do() {
        let change = |keyspace, kind, key, value| PreparedChange { keyspace, kind, key, value };
        let changes = vec![
            change(0, Kind::Put, &b"a"[..], &b"1"[..]),
            change(2, Kind::Delete, b"", b""),
            change(1, Kind::Merge, b"\xff\0", &[7; 300]),
            change(1, Kind::RangeDelete, b"b", b"c"),
        ];
        let range = |lower: &str, upper: Option<&str>| {
            let upper = upper.map(|upper| upper.as_bytes().to_vec());
            What::Range(Arc::new(Span { lower: lower.into(), upper }))
        };
        let relied_on = [What::Key(Arc::from(&b"k"[..])), range("", None), range("a", Some("b"))];
        let relied_on = relied_on.map(|what| ReliedOn { keyspace: 2, what });
        let changed = ReliedOn { keyspace: 0, what: What::Key(Arc::from(&b"a"[..])) };
        let keyspaces = vec!["default", "other", "third"];
        let all = relied_on.into_iter().chain([changed]);
        let record = PreparedRecord::new(keyspaces.clone(), changes.clone(), all);
        assert_eq!(record.relied_on.len(), 3, "what is changed is locked anyway");
        let bytes = record.encode();
        let back = PreparedRecord::decode(&bytes).expect("it is one");
        assert_eq!((&back.changes, &back.keyspaces), (&changes, &keyspaces));
        let told =
            |record: &PreparedRecord<'_>| format!("{:?}", record.locks().collect::<Vec<_>>());
        assert_eq!(told(&back), told(&record));
        for len in 0..bytes.len() {
            assert!(PreparedRecord::decode(&bytes[..len]).is_none(), "{len}");
        }
        assert!(PreparedRecord::decode(&[&bytes[..], &[0]].concat()).is_none());
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 0x80;
            // It may be another one, but takes no more than there is.
            let _decoded = PreparedRecord::decode(&other);
        }
    }
}
