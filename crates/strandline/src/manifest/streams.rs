//! What the manifest knows of change streams: their slots, which records of earlier opens count for them, and what stands
//! between commits and is no record.

use std::collections::BTreeMap;

use base::Seq;
use base::codec::{Reader, put_varint};
use sst::SEQ_MAX;

use super::edit::{VersionEdit, bytes, id32, put_bytes};
use crate::tree::desc::Broken;

/// A slot: what a stream is yet to give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotDesc {
    /// Everything up to this number was acknowledged.
    pub acked: Seq,
    /// Everything up to this number was given up: what held it is free, or will be.
    pub lost: Seq,
    /// Bytes that may be kept for it.
    pub max_bytes: u64,
}

impl SlotDesc {
    /// What is behind this number is kept.
    pub(crate) fn passed(&self) -> Seq {
        self.acked.max(self.lost)
    }
}

/// Something that is no record, at a number of its own among the commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventDesc {
    pub keyspace: u32,
    pub name: String,
    /// Its values have a time before them.
    pub timed: bool,
    pub kind: EventKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    Created,
    Dropped,
    /// Tables were taken in, whose keys are within these, both included.
    Ingested {
        tables: u64,
        entries: u64,
        smallest: Vec<u8>,
        largest: Vec<u8>,
    },
}

/// A change that is about streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StreamEdit {
    /// Makes a slot, or changes it.
    Slot {
        name: String,
        slot: SlotDesc,
    },
    Drop {
        name: String,
    },
    /// Of the records that the open of this epoch wrote those up to `cut` count.
    End {
        epoch: u32,
        cut: Seq,
    },
    Event {
        number: Seq,
        event: EventDesc,
    },
}

/// The change that makes a slot, or sets it.
pub(crate) fn slot_edit(name: &str, slot: SlotDesc) -> VersionEdit {
    VersionEdit::Stream(Box::new(StreamEdit::Slot { name: name.to_owned(), slot }))
}

/// The state of all streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamsState {
    pub slots: BTreeMap<String, SlotDesc>,
    /// By epoch of earlier opens: the last number that counts of what each wrote. A zone that lives on longer than its memtable
    /// may have records behind that, which no stream gives. An epoch that is not here wrote nothing that any is yet to give.
    pub ends: BTreeMap<u32, Seq>,
    /// By number.
    pub events: BTreeMap<Seq, EventDesc>,
}

impl StreamsState {
    /// What is behind this number is kept; `None` if there are no streams.
    pub(crate) fn passed(&self) -> Option<Seq> {
        self.slots.values().map(SlotDesc::passed).min()
    }

    /// Applies a change, or names the rule that it breaks.
    pub(super) fn apply(&mut self, edit: &StreamEdit) -> Result<(), Broken> {
        match edit {
            StreamEdit::Slot { name, slot } => {
                self.slots.insert(name.clone(), *slot);
            }
            StreamEdit::Drop { name } => {
                self.slots.remove(name).ok_or("a stream that is dropped exists")?;
            }
            StreamEdit::End { epoch, cut } => {
                self.ends.insert(*epoch, *cut);
            }
            StreamEdit::Event { number, event } => {
                self.events.insert(*number, event.clone());
            }
        }
        Ok(())
    }

    /// Forgets what no slot is to give any more. At the end of an edit.
    pub(crate) fn settle(&mut self) {
        let passed = self.passed().unwrap_or(Seq::MAX);
        self.ends.retain(|_, cut| *cut > passed);
        self.events.retain(|number, _| *number > passed);
    }

    /// The changes that make it.
    pub(super) fn snapshot(&self) -> impl Iterator<Item = StreamEdit> {
        let slots = self.slots.iter();
        let slots = slots.map(|(name, slot)| StreamEdit::Slot { name: name.clone(), slot: *slot });
        let ends =
            self.ends.iter().map(|(epoch, cut)| StreamEdit::End { epoch: *epoch, cut: *cut });
        let events = self.events.iter();
        let events = events
            .map(|(number, event)| StreamEdit::Event { number: *number, event: event.clone() });
        slots.chain(ends).chain(events)
    }

    /// Bytes that it takes in a snapshot.
    pub(crate) fn bytes(&self) -> u64 {
        let mut out = Vec::new();
        self.snapshot().for_each(|edit| edit.encode(&mut out));
        out.len() as u64
    }
}

/// Codes of changes that are about streams.
pub(super) const CODES: std::ops::RangeInclusive<u8> = 22..=25;

impl StreamEdit {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            StreamEdit::Slot { name, slot } => {
                out.push(22);
                put_bytes(out, name.as_bytes());
                [slot.acked.get(), slot.lost.get(), slot.max_bytes]
                    .into_iter()
                    .for_each(|word| put_varint(out, word));
            }
            StreamEdit::Drop { name } => {
                out.push(23);
                put_bytes(out, name.as_bytes());
            }
            StreamEdit::End { epoch, cut } => {
                out.push(24);
                put_varint(out, u64::from(*epoch));
                put_varint(out, cut.get());
            }
            StreamEdit::Event { number, event } => {
                out.push(25);
                put_varint(out, number.get());
                event.encode(out);
            }
        }
    }

    /// The change of this code.
    pub(super) fn decode(code: u8, reader: &mut Reader<'_>) -> Option<StreamEdit> {
        Some(match code {
            22 => {
                let name = text(reader)?;
                let (acked, lost) = (seq(reader)?, seq(reader)?);
                let slot = SlotDesc { acked, lost, max_bytes: reader.varint()? };
                StreamEdit::Slot { name, slot }
            }
            23 => StreamEdit::Drop { name: text(reader)? },
            24 => StreamEdit::End { epoch: id32(reader)?, cut: seq(reader)? },
            25 => StreamEdit::Event { number: seq(reader)?, event: EventDesc::decode(reader)? },
            _ => return None,
        })
    }
}

impl EventDesc {
    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.keyspace));
        put_bytes(out, self.name.as_bytes());
        out.push(u8::from(self.timed));
        match &self.kind {
            EventKind::Created => out.push(1),
            EventKind::Dropped => out.push(2),
            EventKind::Ingested { tables, entries, smallest, largest } => {
                out.push(3);
                put_varint(out, *tables);
                put_varint(out, *entries);
                put_bytes(out, smallest);
                put_bytes(out, largest);
            }
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Option<EventDesc> {
        let (keyspace, name) = (id32(reader)?, text(reader)?);
        let timed = match reader.u8()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let kind = match reader.u8()? {
            1 => EventKind::Created,
            2 => EventKind::Dropped,
            3 => EventKind::Ingested {
                tables: reader.varint()?,
                entries: reader.varint()?,
                smallest: bytes(reader)?,
                largest: bytes(reader)?,
            },
            _ => return None,
        };
        Some(EventDesc { keyspace, name, timed, kind })
    }

    /// Bytes that it takes in the manifest, about.
    pub(crate) fn bytes(&self) -> u64 {
        let mut out = Vec::new();
        self.encode(&mut out);
        out.len() as u64 + 12
    }
}

fn text(reader: &mut Reader<'_>) -> Option<String> {
    String::from_utf8(bytes(reader)?).ok()
}

fn seq(reader: &mut Reader<'_>) -> Option<Seq> {
    reader.varint().map(Seq::new).filter(|seq| *seq <= SEQ_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(acked: u64, lost: u64) -> SlotDesc {
        SlotDesc { acked: Seq::new(acked), lost: Seq::new(lost), max_bytes: 1 << 20 }
    }

    fn apply(state: &mut StreamsState, edits: &[StreamEdit]) {
        edits.iter().for_each(|edit| state.apply(edit).expect("applies"));
        state.settle();
    }

    fn set(name: &str, slot: SlotDesc) -> StreamEdit {
        StreamEdit::Slot { name: name.into(), slot }
    }

    fn event(number: u64, kind: EventKind) -> StreamEdit {
        let event = EventDesc { keyspace: 3, name: "stock".into(), timed: true, kind };
        StreamEdit::Event { number: Seq::new(number), event }
    }

    fn all() -> Vec<StreamEdit> {
        let ingested = EventKind::Ingested {
            tables: 2,
            entries: 300,
            smallest: b"a".to_vec(),
            largest: b"\xff\0".to_vec(),
        };
        vec![
            set("index", slot(10, 0)),
            set("copy", slot(20, 30)),
            StreamEdit::End { epoch: 4, cut: Seq::new(15) },
            StreamEdit::End { epoch: 5, cut: Seq::new(40) },
            event(12, EventKind::Created),
            event(35, EventKind::Dropped),
            event(36, ingested),
        ]
    }

    #[test]
    fn what_no_slot_needs_is_forgotten() {
        let mut state = StreamsState::default();
        apply(&mut state, &all());
        assert_eq!(state.passed(), Some(Seq::new(10)));
        assert_eq!((state.ends.len(), state.events.len()), (2, 3));
        apply(&mut state, &[set("index", slot(34, 0))]);
        assert_eq!(state.passed(), Some(Seq::new(30)), "the other one is behind");
        assert_eq!(state.ends.keys().copied().collect::<Vec<_>>(), [5]);
        assert_eq!(state.events.len(), 2);
        apply(&mut state, &[set("copy", slot(40, 30)), set("index", slot(40, 0))]);
        assert!(state.ends.is_empty() && state.events.is_empty(), "{state:?}");
        assert!(state.apply(&StreamEdit::Drop { name: "none".into() }).is_err());
        apply(&mut state, &["index", "copy"].map(|name| StreamEdit::Drop { name: name.into() }));
        assert_eq!(state, StreamsState::default());
    }

    #[test]
    fn changes_and_snapshots_come_back() {
        let mut state = StreamsState::default();
        apply(&mut state, &all());
        let mut again = StreamsState::default();
        apply(&mut again, &state.snapshot().collect::<Vec<_>>());
        assert_eq!(again, state);
        for edit in all().into_iter().chain([StreamEdit::Drop { name: "index".into() }]) {
            let mut out = Vec::new();
            edit.encode(&mut out);
            let decode = |bytes: &[u8]| {
                let mut reader = Reader::new(bytes);
                let code = reader.u8().filter(|code| CODES.contains(code))?;
                StreamEdit::decode(code, &mut reader)
            };
            assert_eq!(decode(&out), Some(edit));
            assert!((0..out.len()).all(|len| decode(&out[..len]).is_none()), "cut short");
        }
    }

    /// docs/format/manifest.md describes them.
    #[test]
    fn the_bytes_are_those_that_are_described() {
        let mut out = Vec::new();
        set("ix", SlotDesc { acked: Seq::new(5), lost: Seq::new(300), max_bytes: 64 })
            .encode(&mut out);
        assert_eq!(out, b"\x16\x02ix\x05\xac\x02\x40");
        out.clear();
        event(7, EventKind::Dropped).encode(&mut out);
        assert_eq!(out, b"\x19\x07\x03\x05stock\x01\x02");
    }
}
