//! Edits: what the manifest log stores. An edit is a list of changes with the floor it was written under.
//! `docs/format/manifest.md` is the format.

use base::bytes::common_prefix;
use base::codec::{Reader, put_varint};
use base::limits::KEY_BYTES_MAX;
use base::{PmOffset, Seq};
use pool::Extent;
use sst::SEQ_MAX;

use crate::level0::run::RunDesc;
use crate::level0::run::pieces::Pieces;
use crate::manifest::keyspace_options::{self, StoredOptions};
use crate::manifest::streams::{self, StreamEdit};
use crate::manifest::value_fields::{put_shares, put_value_file, shares, value_file};
use crate::tree::desc::{TableDesc, ValueFileDesc};
use crate::tree::tiers::OWN;

/// What the manifest knows of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Part of a memtable that an open recovered; bytes behind `sealed` never count again.
    Live { keyspace: u32, sealed: u64 },
    /// Named by a run; never scanned as a memtable again.
    Frozen,
    /// Named by nothing; its word is being cleared.
    Retired,
}

/// One change of the manifest's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum VersionEdit {
    /// A new open of the pool: incarnations of zones begin with this number.
    Epoch(u32),
    CreateKeyspace {
        id: u32,
        name: String,
    },
    /// Options of a keyspace, all of them; right behind its creation if any is set, and where they change.
    SetOptions {
        keyspace: u32,
        options: Box<StoredOptions>,
    },
    /// The highest time that the store has seen, in milliseconds since 1970; only where a keyspace has a time to live.
    Clock(u64),
    DropKeyspace {
        id: u32,
    },
    /// Neighbouring subranges give way to others that cover the same keys: `new` has the identifiers of these, in key
    /// order, with the lowest key of each. They take over all runs of the old ones.
    Subranges {
        keyspace: u32,
        old: Vec<u32>,
        new: Vec<(u32, Vec<u8>)>,
    },
    /// A run, and the subranges that read it.
    AddRun {
        run: Box<RunDesc>,
        subranges: Vec<u32>,
    },
    /// A subrange needs the run no more; when none does, the run is gone.
    LeaveRun {
        keyspace: u32,
        id: u64,
        subrange: u32,
    },
    Zone {
        no: u32,
        incarnation: u64,
        fate: Fate,
    },
    /// The zone's word is cleared: the incarnation need not be remembered.
    ForgetZone {
        no: u32,
        incarnation: u64,
    },
    /// Identifiers below these were used.
    NextIds {
        keyspace: u32,
        run: u64,
        table: u64,
    },
    /// A value file, which tables of the same edit refer to. It goes with the last of them.
    AddValueFile {
        keyspace: u32,
        file: ValueFileDesc,
    },
    /// A value file lies in another tier from now on.
    MoveValueFile {
        keyspace: u32,
        id: u64,
        tier: u32,
    },
    AddTable(Box<TableDesc>),
    RemoveTable {
        keyspace: u32,
        level: u8,
        id: u64,
        smallest: Vec<u8>,
    },
    /// About change streams.
    Stream(Box<StreamEdit>),
}

/// Bytes that so many tables take in an edit, as neighbours.
pub(crate) fn tables_len<'t>(tables: impl Iterator<Item = &'t TableDesc>) -> u64 {
    let (mut out, mut keys) = (Vec::new(), BoundKeys::default());
    tables.for_each(|table| {
        put_varint(&mut out, u64::from(table.tier));
        put_table(&mut out, table, &mut keys);
        put_shares(&mut out, &table.values);
    });
    out.len() as u64
}

/// Bytes that a value file takes in an edit, about.
pub(crate) const VALUE_FILE_LEN: u64 = 32;

/// A durable step of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    /// Last sequence number of the highest published commit: numbering continues behind it, and
    /// recovery demands contiguity only above it.
    pub floor: Seq,
    pub changes: Vec<VersionEdit>,
}

fn put_pieces(out: &mut Vec<u8>, pieces: &Pieces) {
    put_varint(out, pieces.len);
    put_varint(out, pieces.extents.len() as u64);
    pieces.extents.iter().for_each(|extent| put_extent(out, *extent));
}

fn put_extent(out: &mut Vec<u8>, extent: Extent) {
    put_varint(out, extent.at.get());
    put_varint(out, extent.len);
}

fn extent(reader: &mut Reader<'_>) -> Option<Extent> {
    let at = PmOffset::new(reader.varint()?);
    Some(Extent { at, len: reader.varint()? })
}

fn pieces(reader: &mut Reader<'_>) -> Option<Pieces> {
    let len = reader.varint()?;
    let count = reader.varint()?;
    let mut extents = Vec::new();
    for _ in 0..count {
        extents.push(extent(reader)?);
    }
    Some(Pieces { extents, len })
}

fn put_run(out: &mut Vec<u8>, run: &RunDesc) {
    for word in [
        run.id,
        u64::from(run.keyspace),
        run.order,
        run.entries,
        run.min_seq.get(),
        run.max_seq.get(),
    ] {
        put_varint(out, word);
    }
    put_pieces(out, &run.blocks);
    put_pieces(out, &run.filter);
    put_pieces(out, &run.meta);
    out.extend_from_slice(&run.meta_sum.to_le_bytes());
}

fn run(reader: &mut Reader<'_>) -> Option<RunDesc> {
    Some(RunDesc {
        id: reader.varint()?,
        keyspace: id32(reader)?,
        order: reader.varint()?,
        entries: reader.varint()?,
        min_seq: Seq::new(reader.varint()?),
        max_seq: Seq::new(reader.varint()?),
        blocks: pieces(reader)?,
        filter: pieces(reader)?,
        meta: pieces(reader)?,
        meta_sum: reader.u64()?,
    })
}

pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub(super) fn bytes(reader: &mut Reader<'_>) -> Option<Vec<u8>> {
    let len = usize::try_from(reader.varint()?).ok()?;
    Some(reader.take(len)?.to_vec())
}

/// Bounds of tables in an edit. Each is stored as what it does not share with the one before it: neighbours share much.
#[derive(Default)]
struct BoundKeys {
    last: Vec<u8>,
}

impl BoundKeys {
    fn put(&mut self, out: &mut Vec<u8>, key: &[u8]) {
        let shared = common_prefix(&self.last, key);
        put_varint(out, shared as u64);
        put_bytes(out, &key[shared..]);
        self.last.clear();
        self.last.extend_from_slice(key);
    }

    fn take(&mut self, reader: &mut Reader<'_>) -> Option<Vec<u8>> {
        let shared = usize::try_from(reader.varint()?).ok()?;
        let mut key = self.last.get(..shared)?.to_vec();
        let len = usize::try_from(reader.varint()?).ok()?;
        key.extend_from_slice(reader.take(len)?);
        if key.len() > KEY_BYTES_MAX {
            return None;
        }
        self.last.clone_from(&key);
        Some(key)
    }
}

fn put_table(out: &mut Vec<u8>, table: &TableDesc, keys: &mut BoundKeys) {
    put_varint(out, table.id);
    put_varint(out, u64::from(table.keyspace));
    out.push(table.level);
    for word in [
        table.len,
        table.entries,
        table.deletions,
        table.range_deletes,
        table.min_seq.get(),
        table.max_seq.get(),
        table.global_seq.get(),
    ] {
        put_varint(out, word);
    }
    keys.put(out, &table.smallest);
    keys.put(out, &table.largest);
    out.push(u8::from(table.ends_before));
    out.extend_from_slice(&table.sum.to_le_bytes());
}

/// A table whose bounds `key` reads.
fn table<'r>(
    reader: &mut Reader<'r>,
    mut key: impl FnMut(&mut Reader<'r>) -> Option<Vec<u8>>,
) -> Option<TableDesc> {
    Some(TableDesc {
        id: reader.varint()?,
        extent: None,
        tier: OWN,
        keyspace: id32(reader)?,
        level: reader.u8()?,
        len: reader.varint()?,
        entries: reader.varint()?,
        deletions: reader.varint()?,
        range_deletes: reader.varint()?,
        min_seq: Seq::new(reader.varint()?),
        max_seq: Seq::new(reader.varint()?),
        global_seq: Seq::new(reader.varint()?),
        smallest: key(reader)?,
        largest: key(reader)?,
        ends_before: match reader.u8()? {
            0 => false,
            1 => true,
            _ => return None,
        },
        sum: reader.u64()?,
        values: Vec::new(),
    })
}

pub(super) fn id32(reader: &mut Reader<'_>) -> Option<u32> {
    u32::try_from(reader.varint()?).ok()
}

fn put_ids(out: &mut Vec<u8>, ids: &[u32]) {
    put_varint(out, ids.len() as u64);
    ids.iter().for_each(|id| put_varint(out, u64::from(*id)));
}

fn ids(reader: &mut Reader<'_>) -> Option<Vec<u32>> {
    let mut ids = Vec::new();
    for _ in 0..reader.varint()? {
        ids.push(id32(reader)?);
    }
    Some(ids)
}

fn put_fate(out: &mut Vec<u8>, fate: Fate) {
    match fate {
        Fate::Live { keyspace, sealed } => {
            out.push(1);
            put_varint(out, u64::from(keyspace));
            put_varint(out, sealed);
        }
        Fate::Frozen => out.push(2),
        Fate::Retired => out.push(3),
    }
}

fn fate(reader: &mut Reader<'_>) -> Option<Fate> {
    Some(match reader.u8()? {
        1 => Fate::Live { keyspace: id32(reader)?, sealed: reader.varint()? },
        2 => Fate::Frozen,
        3 => Fate::Retired,
        _ => return None,
    })
}

/// Subranges by identifier and lowest key.
fn put_new_subranges(out: &mut Vec<u8>, subranges: &[(u32, Vec<u8>)]) {
    put_varint(out, subranges.len() as u64);
    for (id, lower) in subranges {
        put_varint(out, u64::from(*id));
        put_bytes(out, lower);
    }
}

fn new_subranges(reader: &mut Reader<'_>) -> Option<Vec<(u32, Vec<u8>)>> {
    let mut subranges = Vec::new();
    for _ in 0..reader.varint()? {
        subranges.push((id32(reader)?, bytes(reader)?));
    }
    Some(subranges)
}

impl VersionEdit {
    /// The keyspace that it is about.
    pub(crate) fn keyspace(&self) -> Option<u32> {
        match self {
            VersionEdit::CreateKeyspace { id, .. } | VersionEdit::DropKeyspace { id } => Some(*id),
            VersionEdit::SetOptions { keyspace, .. }
            | VersionEdit::Subranges { keyspace, .. }
            | VersionEdit::LeaveRun { keyspace, .. }
            | VersionEdit::AddValueFile { keyspace, .. }
            | VersionEdit::MoveValueFile { keyspace, .. }
            | VersionEdit::RemoveTable { keyspace, .. } => Some(*keyspace),
            VersionEdit::AddRun { run, .. } => Some(run.keyspace),
            VersionEdit::AddTable(table) => Some(table.keyspace),
            VersionEdit::Epoch(_)
            | VersionEdit::Clock(_)
            | VersionEdit::Zone { .. }
            | VersionEdit::ForgetZone { .. }
            | VersionEdit::Stream(_)
            | VersionEdit::NextIds { .. } => None,
        }
    }

    /// The zone that it is about.
    pub(crate) fn zone(&self) -> Option<u32> {
        match self {
            VersionEdit::Zone { no, .. } | VersionEdit::ForgetZone { no, .. } => Some(*no),
            _ => None,
        }
    }

    /// Whether files may go, or come from elsewhere, because of this.
    pub(crate) fn names_files(&self) -> bool {
        matches!(
            self,
            VersionEdit::AddTable(_)
                | VersionEdit::AddValueFile { .. }
                | VersionEdit::MoveValueFile { .. }
                | VersionEdit::RemoveTable { .. }
                | VersionEdit::DropKeyspace { .. }
        )
    }

    fn encode(&self, out: &mut Vec<u8>, keys: &mut BoundKeys) {
        match self {
            VersionEdit::Epoch(epoch) => {
                out.push(1);
                put_varint(out, u64::from(*epoch));
            }
            VersionEdit::CreateKeyspace { id, name } => {
                out.push(2);
                put_varint(out, u64::from(*id));
                put_bytes(out, name.as_bytes());
            }
            VersionEdit::Clock(time) => {
                out.push(15);
                put_varint(out, *time);
            }
            VersionEdit::SetOptions { keyspace, options } => {
                out.push(14);
                put_varint(out, u64::from(*keyspace));
                keyspace_options::put(out, options);
            }
            VersionEdit::DropKeyspace { id } => {
                out.push(3);
                put_varint(out, u64::from(*id));
            }
            VersionEdit::AddRun { run, subranges } => {
                out.push(4);
                put_run(out, run);
                put_ids(out, subranges);
            }
            VersionEdit::LeaveRun { keyspace, id, subrange } => {
                out.push(5);
                put_varint(out, u64::from(*keyspace));
                put_varint(out, *id);
                put_varint(out, u64::from(*subrange));
            }
            VersionEdit::Zone { no, incarnation, fate } => {
                out.push(6);
                put_varint(out, u64::from(*no));
                put_varint(out, *incarnation);
                put_fate(out, *fate);
            }
            VersionEdit::ForgetZone { no, incarnation } => {
                out.push(7);
                put_varint(out, u64::from(*no));
                put_varint(out, *incarnation);
            }
            VersionEdit::NextIds { keyspace, run, table } => {
                out.push(8);
                put_varint(out, u64::from(*keyspace));
                put_varint(out, *run);
                put_varint(out, *table);
            }
            VersionEdit::AddValueFile { keyspace, file } if file.tier != OWN => {
                out.push(19);
                put_varint(out, u64::from(file.tier));
                put_varint(out, u64::from(*keyspace));
                put_value_file(out, file);
            }
            VersionEdit::AddValueFile { keyspace, file } => {
                out.push(if file.extent.is_some() { 20 } else { 16 });
                put_varint(out, u64::from(*keyspace));
                put_value_file(out, file);
                file.extent.iter().for_each(|extent| put_extent(out, *extent));
            }
            VersionEdit::MoveValueFile { keyspace, id, tier } => {
                out.push(21);
                put_varint(out, u64::from(*keyspace));
                put_varint(out, *id);
                put_varint(out, u64::from(*tier));
            }
            VersionEdit::AddTable(desc) if desc.tier != OWN => {
                out.push(18);
                put_varint(out, u64::from(desc.tier));
                put_table(out, desc, keys);
                put_shares(out, &desc.values);
            }
            VersionEdit::AddTable(desc) if !desc.values.is_empty() => {
                out.push(17);
                put_table(out, desc, keys);
                put_shares(out, &desc.values);
                out.push(u8::from(desc.extent.is_some()));
                desc.extent.iter().for_each(|extent| put_extent(out, *extent));
            }
            VersionEdit::AddTable(desc) => match desc.extent {
                None => {
                    out.push(13);
                    put_table(out, desc, keys);
                }
                Some(extent) => {
                    out.push(12);
                    put_table(out, desc, keys);
                    put_extent(out, extent);
                }
            },
            VersionEdit::RemoveTable { keyspace, level, id, smallest } => {
                out.push(10);
                put_varint(out, u64::from(*keyspace));
                out.push(*level);
                put_varint(out, *id);
                put_bytes(out, smallest);
            }
            VersionEdit::Subranges { keyspace, old, new } => {
                out.push(11);
                put_varint(out, u64::from(*keyspace));
                put_ids(out, old);
                put_new_subranges(out, new);
            }
            VersionEdit::Stream(edit) => edit.encode(out),
        }
    }

    fn decode(reader: &mut Reader<'_>, keys: &mut BoundKeys) -> Option<VersionEdit> {
        Some(match reader.u8()? {
            1 => VersionEdit::Epoch(id32(reader)?),
            2 => {
                let id = id32(reader)?;
                let name = String::from_utf8(bytes(reader)?).ok()?;
                VersionEdit::CreateKeyspace { id, name }
            }
            3 => VersionEdit::DropKeyspace { id: id32(reader)? },
            4 => VersionEdit::AddRun { run: Box::new(run(reader)?), subranges: ids(reader)? },
            5 => VersionEdit::LeaveRun {
                keyspace: id32(reader)?,
                id: reader.varint()?,
                subrange: id32(reader)?,
            },
            6 => {
                let (no, incarnation) = (id32(reader)?, reader.varint()?);
                VersionEdit::Zone { no, incarnation, fate: fate(reader)? }
            }
            7 => VersionEdit::ForgetZone { no: id32(reader)?, incarnation: reader.varint()? },
            8 => VersionEdit::NextIds {
                keyspace: id32(reader)?,
                run: reader.varint()?,
                table: reader.varint()?,
            },
            9 => VersionEdit::AddTable(Box::new(table(reader, bytes)?)),
            10 => VersionEdit::RemoveTable {
                keyspace: id32(reader)?,
                level: reader.u8()?,
                id: reader.varint()?,
                smallest: bytes(reader)?,
            },
            11 => {
                let (keyspace, old) = (id32(reader)?, ids(reader)?);
                VersionEdit::Subranges { keyspace, old, new: new_subranges(reader)? }
            }
            12 => {
                let desc = table(reader, |reader| keys.take(reader))?;
                let extent = Some(extent(reader)?);
                VersionEdit::AddTable(Box::new(TableDesc { extent, ..desc }))
            }
            13 => VersionEdit::AddTable(Box::new(table(reader, |reader| keys.take(reader))?)),
            14 => VersionEdit::SetOptions {
                keyspace: id32(reader)?,
                options: Box::new(keyspace_options::take(reader)?),
            },
            15 => VersionEdit::Clock(reader.varint()?),
            16 => VersionEdit::AddValueFile { keyspace: id32(reader)?, file: value_file(reader)? },
            17 => {
                let desc = table(reader, |reader| keys.take(reader))?;
                let values = shares(reader).filter(|values| !values.is_empty())?;
                let extent = match reader.u8()? {
                    0 => None,
                    1 => Some(extent(reader)?),
                    _ => return None,
                };
                VersionEdit::AddTable(Box::new(TableDesc { values, extent, ..desc }))
            }
            18 => {
                let tier = id32(reader).filter(|tier| *tier != OWN)?;
                let desc = table(reader, |reader| keys.take(reader))?;
                VersionEdit::AddTable(Box::new(TableDesc { tier, values: shares(reader)?, ..desc }))
            }
            19 => {
                let tier = id32(reader).filter(|tier| *tier != OWN)?;
                let keyspace = id32(reader)?;
                let file = ValueFileDesc { tier, ..value_file(reader)? };
                VersionEdit::AddValueFile { keyspace, file }
            }
            20 => {
                let (keyspace, file) = (id32(reader)?, value_file(reader)?);
                let file = ValueFileDesc { extent: Some(extent(reader)?), ..file };
                VersionEdit::AddValueFile { keyspace, file }
            }
            21 => VersionEdit::MoveValueFile {
                keyspace: id32(reader)?,
                id: reader.varint()?,
                tier: id32(reader)?,
            },
            code if streams::CODES.contains(&code) => {
                VersionEdit::Stream(Box::new(StreamEdit::decode(code, reader)?))
            }
            _ => return None,
        })
    }
}

impl Edit {
    /// Whether it is about change streams.
    pub(super) fn concerns_streams(&self) -> bool {
        self.changes.iter().any(|change| matches!(change, VersionEdit::Stream(_)))
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.floor.get());
        put_varint(&mut out, self.changes.len() as u64);
        let mut keys = BoundKeys::default();
        for change in &self.changes {
            change.encode(&mut out, &mut keys);
        }
        out
    }

    /// Decodes an edit; total, and nothing may follow it.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Edit> {
        let mut reader = Reader::new(bytes);
        let floor = reader.varint().map(Seq::new).filter(|floor| *floor <= SEQ_MAX)?;
        let count = reader.varint()?;
        let (mut changes, mut keys) = (Vec::new(), BoundKeys::default());
        for _ in 0..count {
            changes.push(VersionEdit::decode(&mut reader, &mut keys)?);
        }
        (reader.remaining() == 0).then_some(Edit { floor, changes })
    }
}
