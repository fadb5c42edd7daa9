//! The versions of a key that survive a compaction, with their values: combined, filtered.

use base::planted::{self, Bug};
use base::{Result, Seq};
use sst::EntryKind;

use crate::compaction::merge::values::ValueOutput;
use crate::hooks::{self, Called, Decision};
use crate::iter::retention::{Judged, Retention};
use crate::record::store::Media;
use crate::tree::value_file::StoredValue;
use crate::ttl::STAMP_LEN;

/// The versions of one key that must be kept, newest first.
#[derive(Default)]
pub(crate) struct Versions {
    pub key: Vec<u8>,
    bytes: Vec<u8>,
    kept: Vec<Version>,
    judged: Judged,
}

struct Version {
    seq: Seq,
    kind: EntryKind,
    end: usize,
}

impl Versions {
    /// Begins the versions of `key`.
    pub(crate) fn begin(&mut self, key: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.bytes.clear();
        self.kept.clear();
        self.judged = Judged::default();
    }

    /// Whether the next older version, number `seq`, is to be pushed.
    #[inline]
    pub(crate) fn wants(&mut self, seq: Seq, kind: EntryKind, retention: &Retention) -> bool {
        retention.keeps(&mut self.judged, &self.key, seq, kind)
    }

    /// Takes a version that is wanted; one that has expired becomes a deletion.
    pub(crate) fn take(&mut self, seq: Seq, kind: EntryKind, stored: &[u8], retention: &Retention) {
        let drops_early = planted::is(Bug::ExpiredDropsEarly);
        match retention.says(kind, || Some(stored)) {
            EntryKind::Delete if kind.is_value() => {
                if !drops_early {
                    self.push(seq, EntryKind::Delete, &[]);
                }
            }
            _ => self.push(seq, kind, stored),
        }
    }

    pub(crate) fn push(&mut self, seq: Seq, kind: EntryKind, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.kept.push(Version { seq, kind, end: self.bytes.len() });
    }

    /// Combines operands that no reader tells apart, with the value below them if that is known. Operands that the operator
    /// refuses stay as they are: one key must not stop the compaction of all others.
    pub(crate) fn combine(
        &mut self,
        retention: &Retention,
        media: &Media,
        hooks: &Called,
        keyspace: &str,
        values: &mut ValueOutput,
    ) -> Result<()> {
        let without_base = planted::is(Bug::MergeWithoutBase);
        let ignores_apart = planted::is(Bug::MergeIgnoresApart);
        let merges = self.kept.iter().any(|version| version.kind == EntryKind::Merge);
        if !merges || !hooks.has_operator() {
            return Ok(());
        }
        // Rebuild the list group by group, from the newest.
        let before: Vec<(Seq, EntryKind, Vec<u8>)> =
            self.iter().map(|(seq, kind, value)| (seq, kind, value.to_vec())).collect();
        let bottom = !retention.older.may_hold(media, &self.key) || without_base;
        self.bytes.clear();
        self.kept.clear();
        let mut rest = &before[..];
        while let [(seq, _, _), ..] = rest {
            // A group: operands that no snapshot tells apart, and the version below them, their base.
            let tell =
                |(seq, kind, _): &(Seq, EntryKind, Vec<u8>)| (*seq, *kind == EntryKind::Merge);
            let (group, behind) = rest.split_at(retention.horizon.stretch(rest, tell));
            let base = group.last().filter(|(_, kind, _)| *kind != EntryKind::Merge);
            let known = base.is_some() || (behind.is_empty() && bottom);
            let operands = &group[..group.len() - usize::from(base.is_some())];
            let fetched = match base {
                Some((_, EntryKind::ValueRef, of)) if !operands.is_empty() && !ignores_apart => {
                    Some(values.fetch(&self.key, of)?)
                }
                _ => None,
            };
            let inline = base.filter(|(_, kind, _)| *kind == EntryKind::Value);
            let existing = inline.map(|(_, _, value)| &value[..]);
            let existing = fetched.as_ref().map(StoredValue::bytes).or(existing);
            // With a known base the result is a value, else one operand for all.
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
        Ok(())
    }

    /// Lets the compaction filter decide over the newest version, if all readers see that or a newer one.
    pub(crate) fn filter(
        &mut self,
        retention: &Retention,
        hooks: &Called,
        keyspace: &str,
        level: usize,
        values: &mut ValueOutput,
    ) -> Result<()> {
        if !hooks.has_filter() {
            return Ok(());
        }
        let Some((seq, kind, value)) = self.iter().next() else { return Ok(()) };
        if !kind.is_value() || !retention.horizon.is_below(seq) {
            return Ok(());
        }
        // The time stays before a value that expires.
        let stamp = if retention.now.is_some() { STAMP_LEN.min(value.len()) } else { 0 };
        let (stamp, value) = value.split_at(stamp);
        let decided = match kind {
            // A value that lies apart is read only if the filter asks for it.
            EntryKind::ValueRef => match hooks.decide_by_key(keyspace, level, &self.key) {
                Ok(None) => {
                    let value = values.fetch(&self.key, value)?;
                    hooks.decide(keyspace, level, &self.key, value.bytes())
                }
                Ok(Some(decided)) => Ok(decided),
                Err(error) => Err(error),
            },
            _ => hooks.decide(keyspace, level, &self.key, value),
        };
        let (kind, value) = match decided {
            Ok(Decision::Keep) => return Ok(()),
            Ok(Decision::Remove) => (EntryKind::Delete, Vec::new()),
            Ok(Decision::Change(value)) => (EntryKind::Value, [stamp, &value].concat()),
            Err(error) => {
                hooks.pass_over(error);
                return Ok(());
            }
        };
        // Nothing older is left: no reader could see it.
        self.bytes.clear();
        self.kept.clear();
        self.push(seq, kind, &value);
        Ok(())
    }

    /// Drops deletions that have nothing left to hide.
    pub(crate) fn drop_idle_deletions(&mut self, retention: &Retention, media: &Media) {
        let versions = self.kept.iter().rev().map(|version| (version.seq, version.kind));
        let idle = retention.idle_deletions(media, &self.key, versions);
        self.kept.truncate(self.kept.len() - idle);
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
