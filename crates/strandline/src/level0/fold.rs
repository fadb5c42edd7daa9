//! Operands of a key that no reader tells apart become one record, at flushes (F2) and at merges of runs (G2).
//!
//! With what they are merged into among the inputs, or where nothing older is left, that is a value; else it is an operand
//! again, if the operator can make one. The record has the number of the newest operand and stands in a zone of the new
//! run, so that until the run's edit everything is as before.
//!
//! That costs a write, and the first such record of a run costs a zone. So short chains stay, and so do operands that are
//! little beside the value below them: they would have it written again at every merge.

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

/// Operands that are combined at least: a record is written for four that go.
pub(crate) const OPERANDS_MIN: usize = 4;
/// What goes is at least this part of the longest version, and of a zone that is opened for it.
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

/// What operands came to.
struct Folded {
    kind: Kind,
    value: Vec<u8>,
}

impl Folder<'_> {
    /// Combines what it can of `versions` of one key, newest first; some reader may need each of them.
    pub(crate) fn fold(&mut self, versions: &mut Vec<Entry>) -> Result<()> {
        let is_operand = |version: &Entry| version.kind == Kind::Merge;
        let operands = versions.iter().filter(|version| is_operand(version)).count();
        if operands < OPERANDS_MIN || !self.space.hooks.has_operator() {
            return Ok(());
        }
        let horizon = &self.retention.horizon;
        let blind = Horizon::only(horizon.newest());
        let horizon = if planted::is(Bug::FoldAcrossSnapshot) { &blind } else { horizon };
        let mut kept = Vec::new();
        let mut rest = &versions[..];
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

    /// One record for `operands`, the newest first, and the version `below` them, if that goes with them; `behind` is the next
    /// version that stays.
    fn combine(
        &mut self,
        operands: &[Entry],
        below: Option<&Entry>,
        behind: Option<&Entry>,
    ) -> Result<Option<Entry>> {
        let media = &*self.engine.media;
        if operands.len() < OPERANDS_MIN || !self.is_worth(operands, below) {
            return Ok(None);
        }
        let (key, seq) = (media.key(&operands[0]), operands[0].seq);
        let oldest = operands.last().map_or(seq, |oldest| oldest.seq);
        let deleted = self.retention.ranges.newest(key, oldest);
        let known = below.is_some()
            || deleted > behind.map_or(Seq::ZERO, |behind| behind.seq)
            || (behind.is_none() && !self.retention.older.may_hold(media, key))
            || planted::is(Bug::FoldWithoutBase);
        let Some(folded) = self.ask(key, operands, below, known) else { return Ok(None) };
        let long = folded.value.len() as u64 > media.pool.geometry().zone_len() / 8;
        let (mut kind, mut hold) = (folded.kind, None);
        if long {
            // An operand has no extent.
            let wanted = (kind == Kind::Put).then_some(folded.value.len() as u64);
            let extent = wanted.and_then(|len| self.engine.take_value_extent(len));
            let Some(extent) = extent else { return Ok(None) };
            kind = Kind::PutExtent;
            hold = Some(self.engine.fill_extent(extent, &folded.value));
        }
        let stored = hold.as_ref().map_or(&folded.value[..], |(_, reference)| reference);
        let copy = NewRecord { kind, seq, key, stored };
        if !self.copies.make_room(self.engine, Claim::Put, &copy) {
            return Ok(None);
        }
        let (entry, written) = self.copies.write(media, Site::Fold, &copy)?;
        // Another thread may carry the job on, and its fence would not cover this copy (I-PM-3).
        let _durable = media.region.fence(written);
        self.extents.extend(hold.map(|(hold, _)| (hold.extent().at, hold)));
        Ok(Some(entry))
    }

    /// Whether what goes pays for what is written.
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

    /// What the operator makes of `operands` and the version `below` them, which is all there is if that is `known`; `None`
    /// if it makes nothing of them.
    fn ask(
        &self,
        key: &[u8],
        operands: &[Entry],
        below: Option<&Entry>,
        known: bool,
    ) -> Option<Folded> {
        let (media, hooks, name) = (&*self.engine.media, &self.space.hooks, &self.space.name);
        let operands: Vec<&[u8]> =
            operands.iter().rev().map(|operand| media.stored_value(operand)).collect();
        let below = below.filter(|below| below.kind != Kind::Delete);
        // A damaged value is met by those who read it.
        let existing = below.map(|below| media.value(below)).transpose().ok()?;
        let made = if known {
            let merged = hooks::merge(hooks, name, key, existing, &operands);
            merged.map(|value| Some(Folded { kind: Kind::Put, value }))
        } else {
            let merged = hooks::merge_operands(hooks, name, key, &operands);
            merged.map(|value| value.map(|value| Folded { kind: Kind::Merge, value }))
        };
        let folded = made.unwrap_or_else(|error| {
            hooks.pass_over(error);
            None
        });
        folded.filter(|folded| folded.value.len() <= VALUE_BYTES_MAX)
    }
}
