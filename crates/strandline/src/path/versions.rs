//! Which versions of a key survive a freeze or a merge.

use base::planted::{self, Bug};

use crate::media::Entry;
use crate::memtable::record::Kind;
use crate::snapshot::Horizon;

/// Drops what no reader can need.
pub(crate) struct Retention {
    pub horizon: Horizon,
    /// Every older source of these keys is part of the merge, so a tombstone hides nothing else.
    pub bottom: bool,
}

impl Retention {
    /// Reduces `versions` of one key, newest first, to those that must be kept.
    pub(crate) fn reduce(&self, versions: &mut Vec<Entry>) {
        let mut newer = None;
        versions.retain(|version| {
            let keep = self.horizon.keeps(version.seq, newer);
            newer = Some(version.seq);
            keep
        });
        let bottom = self.bottom || planted::is(Bug::DropTombstoneEarly);
        while bottom && versions.last().is_some_and(|oldest| oldest.kind == Kind::Delete) {
            // Nothing older is left for it to hide.
            versions.pop();
        }
    }
}
