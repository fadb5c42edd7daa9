//! Which versions of a key survive a compaction.

use std::sync::Arc;

use base::Seq;
use base::planted::{self, Bug};
use sst::EntryKind;

use crate::snapshot::Horizon;
use crate::tree::level::Level;

/// The versions of one key that must be kept, newest first.
#[derive(Default)]
pub(crate) struct Versions {
    pub key: Vec<u8>,
    bytes: Vec<u8>,
    kept: Vec<Version>,
    /// Number of the version seen last, kept or not.
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
}

impl Versions {
    /// Begins the versions of `key`.
    pub(crate) fn begin(&mut self, key: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.bytes.clear();
        self.kept.clear();
        self.newer = None;
    }

    /// Whether the next older version, number `seq`, is to be pushed.
    #[inline]
    pub(crate) fn wants(&mut self, seq: Seq, retention: &Retention) -> bool {
        // The same version twice is one: a merge that was installed and whose inputs are merged again.
        let keep = self.newer != Some(seq) && retention.horizon.keeps(seq, self.newer);
        self.newer = Some(seq);
        keep
    }

    pub(crate) fn push(&mut self, seq: Seq, kind: EntryKind, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.kept.push(Version { seq, kind, end: self.bytes.len() });
    }

    /// Drops deletions that have nothing left to hide.
    pub(crate) fn drop_idle_deletions(&mut self, retention: &Retention) {
        while self.kept.last().is_some_and(|oldest| oldest.kind == EntryKind::Delete) {
            let hides = retention.deeper.iter().any(|level| level.table_of(&self.key).is_some());
            if hides && !planted::is(Bug::DropTombstoneAboveLevel) {
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
