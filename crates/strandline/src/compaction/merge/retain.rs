//! Which versions of a key survive a compaction.

use std::sync::Arc;

use base::Seq;
use base::planted::{self, Bug};
use sst::EntryKind;

use crate::hooks::{self, Called, Decision};
use crate::ranges::Ranges;
use crate::snapshot::Horizon;
use crate::tree::level::Level;

/// The versions of one key that must be kept, newest first.
#[derive(Default)]
pub(crate) struct Versions {
    pub key: Vec<u8>,
    bytes: Vec<u8>,
    kept: Vec<Version>,
    /// Number of the version seen last, kept or not.
    last: Option<Seq>,
    /// The same, of the last that hides what is older.
    newer: Option<Seq>,
}

struct Version {
    seq: Seq,
    kind: EntryKind,
    end: usize,
}

/// What readers may need, and what lies deeper.
#[derive(Clone)]
pub(crate) struct Retention {
    pub horizon: Horizon,
    /// The levels below the output: a deletion of a key that may be there hides something.
    pub deeper: Vec<Arc<Level>>,
    /// Range deletions of the inputs.
    pub ranges: Ranges,
}

impl Retention {
    /// Whether an older version of `key` may lie below the output.
    fn lies_deeper(&self, key: &[u8]) -> bool {
        self.deeper.iter().any(|level| level.table_of(key).is_some())
    }

    /// The range deletions that must be kept.
    pub(crate) fn ranges(&self) -> Ranges {
        self.ranges.retain(|piece, seq, newer| {
            let overlaps =
                |level: &Arc<Level>| !level.overlapping(&piece.begin, &piece.end).is_empty();
            let deeper =
                self.deeper.iter().any(overlaps) && !planted::is(Bug::DropTombstoneAboveLevel);
            let hides = deeper || !self.horizon.is_below(seq);
            hides && self.horizon.keeps(seq, newer)
        })
    }
}

impl Versions {
    /// Begins the versions of `key`.
    pub(crate) fn begin(&mut self, key: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.bytes.clear();
        self.kept.clear();
        self.last = None;
        self.newer = None;
    }

    /// Whether the next older version, number `seq`, is to be pushed.
    #[inline]
    pub(crate) fn wants(&mut self, seq: Seq, kind: EntryKind, retention: &Retention) -> bool {
        // The same version twice is one: a table that was ingested again, say.
        let again = self.last == Some(seq);
        let newer = retention.ranges.next_above(&self.key, seq, self.newer);
        self.last = Some(seq);
        // An operand hides nothing: it is combined with what is below it.
        if kind != EntryKind::Merge {
            self.newer = Some(seq);
        }
        !again && retention.horizon.keeps(seq, newer)
    }

    pub(crate) fn push(&mut self, seq: Seq, kind: EntryKind, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.kept.push(Version { seq, kind, end: self.bytes.len() });
    }

    /// Combines operands that no reader tells apart, each with what is below it, if that is known. What the operator
    /// refuses stays as it is, so that one key does not keep all others where they are.
    pub(crate) fn combine(&mut self, retention: &Retention, hooks: &Called, keyspace: &str) {
        let merges = self.kept.iter().any(|version| version.kind == EntryKind::Merge);
        if !merges || !hooks.has_operator() {
            return;
        }
        let before: Vec<(Seq, EntryKind, Vec<u8>)> =
            self.iter().map(|(seq, kind, value)| (seq, kind, value.to_vec())).collect();
        let bottom = !retention.lies_deeper(&self.key);
        self.bytes.clear();
        self.kept.clear();
        let mut rest = &before[..];
        while let [(seq, _, _), ..] = rest {
            let tell =
                |(seq, kind, _): &(Seq, EntryKind, Vec<u8>)| (*seq, *kind == EntryKind::Merge);
            let (group, behind) = rest.split_at(retention.horizon.stretch(rest, tell));
            let base = group.last().filter(|(_, kind, _)| *kind != EntryKind::Merge);
            let bottom = bottom || planted::is(Bug::MergeWithoutBase);
            let known = base.is_some() || (behind.is_empty() && bottom);
            let operands = &group[..group.len() - usize::from(base.is_some())];
            let existing = base.filter(|(_, kind, _)| *kind == EntryKind::Value);
            let existing = existing.map(|(_, _, value)| &value[..]);
            let operands: Vec<&[u8]> =
                operands.iter().rev().map(|(_, _, operand)| &operand[..]).collect();
            let merged = match operands.len() {
                0 => Ok(None),
                _ if known => hooks::merge(hooks, keyspace, &self.key, existing, &operands)
                    .map(|value| Some((EntryKind::Value, value))),
                1 => Ok(None),
                _ => hooks::merge_operands(hooks, keyspace, &self.key, &operands)
                    .map(|operand| operand.map(|operand| (EntryKind::Merge, operand))),
            };
            match merged {
                Ok(Some((kind, merged))) => self.push(*seq, kind, &merged),
                unmerged => {
                    unmerged.err().into_iter().for_each(|error| hooks.pass_over(error));
                    group.iter().for_each(|(seq, kind, value)| self.push(*seq, *kind, value));
                }
            }
            rest = behind;
        }
    }

    /// Lets the compaction filter decide over the newest version, if all readers see that or a newer one.
    pub(crate) fn filter(
        &mut self,
        retention: &Retention,
        hooks: &Called,
        keyspace: &str,
        level: usize,
    ) {
        if !hooks.has_filter() {
            return;
        }
        let Some((seq, EntryKind::Value, value)) = self.iter().next() else { return };
        if !retention.horizon.is_below(seq) {
            return;
        }
        let (kind, value) = match hooks.decide(keyspace, level, &self.key, value) {
            Ok(Decision::Keep) => return,
            Ok(Decision::Remove) => (EntryKind::Delete, Vec::new()),
            Ok(Decision::Change(value)) => (EntryKind::Value, value),
            Err(error) => return hooks.pass_over(error),
        };
        // Nothing older is left: no reader could see it.
        self.bytes.clear();
        self.kept.clear();
        self.push(seq, kind, &value);
    }

    /// Drops deletions that have nothing left to hide.
    pub(crate) fn drop_idle_deletions(&mut self, retention: &Retention) {
        let deletes = |kind| matches!(kind, EntryKind::Delete | EntryKind::SingleDelete);
        while self.kept.last().is_some_and(|oldest| deletes(oldest.kind)) {
            if retention.lies_deeper(&self.key) && !planted::is(Bug::DropTombstoneAboveLevel) {
                return;
            }
            self.kept.pop();
        }
    }

    /// The versions: number, kind, value.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Seq, EntryKind, &[u8])> {
        let starts = std::iter::once(0).chain(self.kept.iter().map(|version| version.end));
        self.kept
            .iter()
            .zip(starts)
            .map(|(version, start)| (version.seq, version.kind, &self.bytes[start..version.end]))
    }
}
