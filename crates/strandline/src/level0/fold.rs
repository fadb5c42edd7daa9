//! Flushes (F2) and merges of runs (G2) combine operands of a key that no reader tells apart into one record.
//!
//! If the inputs have the value below the operands, or nothing older is left, the record is a value; else it is an operand
//! again, if the operator can make one. It has the number of the newest operand and lies in a zone of the new run, so nothing
//! changes before the run's edit.
//!
//! The record costs a write, and the first one of a run costs a zone. So short chains stay, and so do operands that are small
//! beside the value below them: each merge would write that value again.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::limits::VALUE_BYTES_MAX;
use base::planted::{self, Bug};
use base::{PmOffset, Result, Seq};
use pmem::Site;

use crate::engine::{Claim, Engine};
use crate::hooks;
use crate::iter::retention::Retention;
use crate::keyspace::KeyspaceState;
use crate::level0::copies::{Copies, NewRecord};
use crate::record::extent::ExtentHold;
use crate::record::format::Kind;
use crate::record::store::Entry;
use crate::snapshot::Horizon;

/// A chain of fewer operands is not combined: one record is to replace at least four.
pub(crate) const OPERANDS_MIN: usize = 4;
/// The versions that are replaced have at least this part of the bytes of the longest one, and of a zone opened for the
/// record.
const SHARE: u64 = 4;

/// Extents of long values, by their places.
pub(crate) type Extents = BTreeMap<PmOffset, Arc<ExtentHold>>;

/// Combines operands for one new run.
pub(crate) struct Folder<'j> {
    pub engine: &'j Engine,
    pub space: &'j KeyspaceState,
    pub retention: &'j Retention,
    pub copies: &'j mut Copies,
    pub extents: &'j mut Extents,
    /// Bytes of chains so far that did not pay for a zone.
    pub left: &'j mut u64,
}

/// Whether all that lies below some operands is known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OperandBase {
    /// A version that is combined with them, or nothing.
    Known,
    Unknown,
}

/// The record that operands are combined to.
struct Folded {
    kind: Kind,
    value: Vec<u8>,
}

impl Folder<'_> {
    /// Combines what it can of `versions` of one key, newest first; some reader may need each of them.
    pub(crate) fn fold(&mut self, versions: &mut Vec<Entry>) -> Result<()> {
        let across_snapshots = planted::is(Bug::FoldAcrossSnapshot);
        let is_operand = |version: &Entry| version.kind == Kind::Merge;
        let operands = versions.iter().filter(|version| is_operand(version)).count();
        if operands < OPERANDS_MIN || !self.space.hooks.has_operator() {
            return Ok(());
        }
        let horizon = &self.retention.horizon;
        let blind = Horizon::only(horizon.newest());
        let horizon = if across_snapshots { &blind } else { horizon };
        let mut kept = Vec::new();
        let mut rest = &versions[..];
        // Group by group: operands that no snapshot tells apart, and the version below them.
        while !rest.is_empty() {
            let together = horizon.stretch(rest, |version| (version.seq, is_operand(version)));
            let (group, behind) = rest.split_at(together);
            let based = group.last().is_some_and(|last| !is_operand(last));
            let (operands, below) = group.split_at(group.len() - usize::from(based));
            match self.combine(operands, below.first(), behind.first())? {
                Some(folded) => kept.push(folded),
                None => kept.extend_from_slice(group),
            }
            rest = behind;
        }
        *versions = kept;
        Ok(())
    }

    /// Combines `operands`, the newest first, and the version `below` them, if no reader tells it apart from them; `behind` is
    /// the next older version, which stays.
    fn combine(
        &mut self,
        operands: &[Entry],
        below: Option<&Entry>,
        behind: Option<&Entry>,
    ) -> Result<Option<Entry>> {
        let without_base = planted::is(Bug::FoldWithoutBase);
        let media = &*self.engine.media;
        if operands.len() < OPERANDS_MIN || !self.is_worth(operands, below) {
            return Ok(None);
        }
        let (key, seq) = (media.key(&operands[0]), operands[0].seq);
        let oldest = operands.last().map_or(seq, |oldest| oldest.seq);
        // The base is known if it is among the versions, a range deletion hides it, or no older source has the key.
        let deleted = self.retention.ranges.newest(key, oldest);
        let known = below.is_some()
            || deleted > behind.map_or(Seq::ZERO, |behind| behind.seq)
            || (behind.is_none() && !self.retention.older.may_hold(media, key))
            || without_base;
        let base = if known { OperandBase::Known } else { OperandBase::Unknown };
        let Some(folded) = self.ask(key, operands, below, base) else { return Ok(None) };
        // A long value needs an extent of its own, which an operand cannot have. Without one the operands stay.
        let long = folded.value.len() as u64 > media.pool.geometry().zone_len() / 8;
        let (mut kind, mut hold) = (folded.kind, None);
        if long {
            let wanted = (kind == Kind::Put).then_some(folded.value.len() as u64);
            let extent = wanted.and_then(|len| self.engine.take_value_extent(len, Claim::Put));
            let Some(extent) = extent else { return Ok(None) };
            kind = Kind::PutExtent;
            hold = Some(self.engine.fill_extent(extent, &folded.value)?);
        }
        // The record itself, durable before the run's edit can name it.
        let stored = hold.as_ref().map_or(&folded.value[..], |(_, reference)| reference);
        let copy = NewRecord { kind, seq, key, stored };
        if !self.copies.make_room(self.engine, Claim::Put, &copy) {
            return Ok(None);
        }
        let (entry, written) = self.copies.write(media, Site::Fold, &copy)?;
        // The fence is here because another thread may carry the job on, whose fence would not cover this copy (I-PM-3).
        let _durable = media.region.fence(written);
        self.extents.extend(hold.map(|(hold, _)| (hold.extent().at, hold)));
        Ok(Some(entry))
    }

    /// Whether the bytes that are saved pay for those that are written.
    fn is_worth(&mut self, operands: &[Entry], below: Option<&Entry>) -> bool {
        let media = &self.engine.media;
        let len = |version: &Entry| {
            let extent = media.extent_of(version).map_or(0, |extent| extent.len);
            u64::from(version.len) + extent
        };
        let all: u64 = operands.iter().chain(below).map(len).sum();
        let longest = operands.iter().chain(below).map(len).max().unwrap_or(0);
        if (all - longest) * SHARE < longest {
            return false;
        }
        if self.copies.tail.zone.is_some() {
            return true;
        }
        *self.left += all;
        let zone_len = media.pool.geometry().zone_len();
        *self.left * SHARE >= zone_len && self.engine.may_grant(Claim::Put)
    }

    /// Has the operator combine `operands` and the version `below` them; `None` if it does not.
    fn ask(
        &self,
        key: &[u8],
        operands: &[Entry],
        below: Option<&Entry>,
        base: OperandBase,
    ) -> Option<Folded> {
        let (media, hooks, name) = (&*self.engine.media, &self.space.hooks, &self.space.name);
        let operands: Vec<&[u8]> =
            operands.iter().rev().map(|operand| media.stored_value(operand)).collect();
        let below = below.filter(|below| below.kind != Kind::Delete);
        // A damaged value stays, and reads report it.
        let existing = below.map(|below| media.value(below)).transpose().ok()?;
        let made = match base {
            OperandBase::Known => hooks::merge(hooks, name, key, existing, &operands)
                .map(|value| Some(Folded { kind: Kind::Put, value })),
            OperandBase::Unknown => hooks::merge_operands(hooks, name, key, &operands)
                .map(|value| value.map(|value| Folded { kind: Kind::Merge, value })),
        };
        let folded = made.unwrap_or_else(|error| {
            hooks.pass_over(error);
            None
        });
        folded.filter(|folded| folded.value.len() <= VALUE_BYTES_MAX)
    }
}
