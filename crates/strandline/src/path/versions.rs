//! Which versions of a key, and which range deletions, survive a freeze or a merge.

use base::Result;
use base::planted::{self, Bug};

use crate::media::{Entry, Media};
use crate::memtable::record::Kind;
use crate::ranges::Ranges;
use crate::snapshot::Horizon;

/// Drops what no reader can need.
pub(crate) struct Retention {
    pub horizon: Horizon,
    /// Every older source of these keys is part of the merge, so a tombstone hides nothing else.
    pub bottom: bool,
    /// Range deletions of the inputs.
    pub ranges: Ranges,
}

impl Retention {
    /// Reduces `versions` of one key, newest first, to those that must be kept.
    ///
    /// # Errors
    /// `Corruption`: a record that decides what is kept is damaged. A put that is the only version is kept, whatever its
    /// value is.
    pub(crate) fn reduce(&self, media: &Media, versions: &mut Vec<Entry>) -> Result<()> {
        if versions.len() > 1 || !self.ranges.is_empty() {
            versions.iter().for_each(|version| media.prefetch(version.leaf()));
            for version in &mut *versions {
                *version = media.recheck(version)?;
            }
        }
        let mut newer = None;
        versions.retain(|version| {
            let next = if self.ranges.is_empty() {
                newer
            } else {
                self.ranges.next_above(media.key(version), version.seq, newer)
            };
            // An operand hides nothing: it is combined with what is below it.
            if version.kind != Kind::Merge || planted::is(Bug::OperandHides) {
                newer = Some(version.seq);
            }
            self.horizon.keeps(version.seq, next)
        });
        let bottom = self.bottom || planted::is(Bug::DropTombstoneEarly);
        while bottom && versions.last().is_some_and(|oldest| oldest.kind == Kind::Delete) {
            // Nothing older is left for it to hide.
            versions.pop();
        }
        Ok(())
    }

    /// The range deletions that must be kept.
    pub(crate) fn ranges(&self) -> Ranges {
        let bottom = self.bottom || planted::is(Bug::DropTombstoneEarly);
        self.ranges.retain(|_, seq, newer| {
            let hides = !(bottom && self.horizon.is_below(seq));
            hides && self.horizon.keeps(seq, newer)
        })
    }
}
