//! Which versions of a key, and which range deletions, survive a flush or a merge.

use std::sync::Arc;

use base::Result;
use base::planted::{self, Bug};

use crate::keyspace::view::View;
use crate::level0::run::Run;
use crate::ranges::Ranges;
use crate::record::format::Kind;
use crate::record::store::{Entry, Media, hash};
use crate::snapshot::Horizon;
use crate::tree::Tree;

/// Drops what no reader can need.
pub(crate) struct RunRetention {
    pub horizon: Horizon,
    /// Every older source of these keys is part of the merge, so a tombstone hides nothing else.
    pub bottom: bool,
    /// The older sources that are not, if it is known of each key whether they may have it.
    pub older: Option<Older>,
    /// Range deletions of the inputs.
    pub ranges: Ranges,
}

/// Runs and tables that are older than what is merged. What comes to them later is newer.
pub(crate) struct Older {
    runs: Vec<Arc<Run>>,
    trees: Vec<Arc<Tree>>,
}

impl Older {
    /// All runs and tables of `views`.
    pub(crate) fn than_memtables(views: &[Arc<View>]) -> Older {
        Older {
            runs: views.iter().flat_map(|view| view.runs.iter().cloned()).collect(),
            trees: views.iter().map(|view| Arc::clone(&view.tree)).collect(),
        }
    }

    /// Whether a version of `key` may be in one of them.
    fn may_hold(&self, media: &Media, key: &[u8]) -> bool {
        let hash = hash(key);
        let levels = || self.trees.iter().flat_map(|tree| tree.levels());
        self.runs.iter().any(|run| run.may_hold(media, hash))
            || levels().any(|(_, level)| level.table_of(key).is_some())
    }
}

impl RunRetention {
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
        let is_delete = |oldest: &Entry| oldest.kind == Kind::Delete;
        if let Some(oldest) = versions.last().filter(|oldest| is_delete(oldest))
            && (self.is_bottom() || self.lies_alone(media, oldest))
        {
            // Nothing older is left for it to hide.
            while versions.last().is_some_and(is_delete) {
                versions.pop();
            }
        }
        Ok(())
    }

    /// Whether no older source has a version of the key of `oldest`.
    fn lies_alone(&self, media: &Media, oldest: &Entry) -> bool {
        self.older.as_ref().is_some_and(|older| !older.may_hold(media, media.key(oldest)))
    }

    fn is_bottom(&self) -> bool {
        self.bottom || planted::is(Bug::DropTombstoneEarly)
    }

    /// The range deletions that must be kept.
    pub(crate) fn ranges(&self) -> Ranges {
        let bottom = self.is_bottom();
        self.ranges.retain(|_, seq, newer| {
            let hides = !(bottom && self.horizon.is_below(seq));
            hides && self.horizon.keeps(seq, newer)
        })
    }
}
