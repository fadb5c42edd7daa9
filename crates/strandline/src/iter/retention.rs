//! Which versions of a key, and which range deletions, survive a flush, a merge of runs, or a compaction: the one rule.
//!
//! Of the versions between two readers the newest survives; an operand hides nothing, a range deletion hides what is older
//! beneath it. A deletion goes when nothing older is left for it to hide, among the inputs or beyond them, and no transaction looks
//! for it.

use std::sync::Arc;

use base::planted::{self, Bug};
use base::{Result, Seq};
use sst::EntryKind;

use crate::level0::run::Run;
use crate::ranges::{Piece, Ranges};
use crate::record::format::Kind;
use crate::record::store::{Entry, Media, hash};
use crate::snapshot::Horizon;
use crate::tree::Tree;
use crate::tree::level::Level;
use crate::ttl::{Now, STAMP_LEN};

/// What readers may need of the inputs, and what they hide of older sources.
#[derive(Clone)]
pub(crate) struct Retention {
    pub horizon: Horizon,
    /// When values are judged, where they expire.
    pub now: Option<Now>,
    /// Range deletions of the inputs.
    pub ranges: Ranges,
    /// The sources that are older than the inputs.
    pub older: Older,
}

/// Sources that are older than the inputs of a merge, and not among them. What comes to them later is newer: a key that
/// they do not hold at some time of the merge they will not hold in versions that inputs hide.
#[derive(Clone)]
pub(crate) enum Older {
    /// Not known at the moment, so that what they had may become free: each may hold any key.
    Unknown,
    /// These, if there are any.
    Known { runs: Vec<Arc<Run>>, levels: Vec<Arc<Level>> },
}

/// The versions of one key that were judged, from the newest on.
#[derive(Default)]
pub(crate) struct Judged {
    /// Number of the last.
    last: Option<Seq>,
    /// Number of the last that hides what is older.
    newer: Option<Seq>,
}

impl Older {
    /// Runs, and all levels of trees, below a flush or a merge of runs.
    pub(crate) fn below_level0<'t>(
        runs: impl Iterator<Item = Arc<Run>>,
        trees: impl Iterator<Item = &'t Arc<Tree>>,
    ) -> Older {
        if planted::is(Bug::DropTombstoneEarly) {
            return Older::nothing();
        }
        let forgets_tables = planted::is(Bug::DropTombstoneAboveTables);
        let levels = trees.flat_map(|tree| tree.levels()).filter(|_| !forgets_tables);
        let levels = levels.map(|(_, level)| Arc::clone(level)).collect();
        Older::Known { runs: runs.collect(), levels }
    }

    /// Levels below the output of a compaction.
    pub(crate) fn below_output(levels: Vec<Arc<Level>>) -> Older {
        if planted::is(Bug::DropTombstoneAboveLevel) {
            return Older::nothing();
        }
        Older::Known { runs: Vec::new(), levels }
    }

    fn nothing() -> Older {
        Older::Known { runs: Vec::new(), levels: Vec::new() }
    }

    /// Whether a version of `key` may be in one of them, as far as filters and bounds tell.
    pub(crate) fn may_hold(&self, media: &Media, key: &[u8]) -> bool {
        let Older::Known { runs, levels } = self else { return true };
        levels.iter().any(|level| level.table_of(key).is_some())
            || (!runs.is_empty() && {
                let hash = hash(key);
                runs.iter().any(|run| run.may_hold(media, hash))
            })
    }

    /// Whether some key of `piece` may be in one of them.
    fn may_hold_within(&self, piece: &Piece) -> bool {
        let Older::Known { runs, levels } = self else { return true };
        let overlaps = |level: &Arc<Level>| !level.overlapping(&piece.begin, &piece.end).is_empty();
        !runs.is_empty() || levels.iter().any(overlaps)
    }
}

impl Retention {
    /// Whether the next older version of `key` must be kept: its number is `seq`.
    #[inline]
    pub(crate) fn keeps(&self, judged: &mut Judged, key: &[u8], seq: Seq, kind: EntryKind) -> bool {
        let operand_hides = planted::is(Bug::OperandHides);
        // The same version twice is one: a table that was ingested again, say.
        let again = judged.last.replace(seq) == Some(seq);
        let newer = self.ranges.next_above(key, seq, judged.newer);
        // An operand hides nothing: it is combined with what is below it.
        if kind != EntryKind::Merge || operand_hides {
            judged.newer = Some(seq);
        }
        !again && self.horizon.keeps(seq, newer)
    }

    /// How many of the kept versions of `key` are deletions that have nothing left to hide. Their numbers and kinds come from the
    /// oldest on. One that is newer than the snapshot of a transaction stays: it tells that its key was written (I-TXN-2).
    pub(crate) fn idle_deletions(
        &self,
        media: &Media,
        key: &[u8],
        versions: impl Iterator<Item = (Seq, EntryKind)>,
    ) -> usize {
        let is_idle = |(seq, kind): &(Seq, EntryKind)| {
            kind.is_deletion() && self.horizon.is_below_transactions(*seq)
        };
        let oldest = versions.take_while(is_idle).count();
        if oldest > 0 && !self.older.may_hold(media, key) { oldest } else { 0 }
    }

    /// Reduces `versions` of one key, newest first, to those that must be kept.
    ///
    /// # Errors
    /// `Corruption`: a record that decides what is kept is damaged. A put that is the only version is kept, whatever its
    /// value is.
    pub(crate) fn reduce(&self, media: &Media, versions: &mut Vec<Entry>) -> Result<()> {
        if versions.len() > 1 || !self.ranges.is_empty() {
            // They were read by their headers: who drops a version reads all of it first.
            versions.iter().for_each(|version| media.prefetch(version.leaf()));
            for version in &mut *versions {
                *version = media.recheck(version)?;
            }
            let mut judged = Judged::default();
            versions.retain(|version| {
                let kind = version.kind.of_entry();
                self.keeps(&mut judged, media.key(version), version.seq, kind)
            });
        }
        if let Some(oldest) = versions.last() {
            let says = versions
                .iter()
                .rev()
                .map(|version| (version.seq, self.says_record(media, version)));
            let idle = self.idle_deletions(media, media.key(oldest), says);
            versions.truncate(versions.len() - idle);
        }
        self.plant_early_expiry(media, versions);
        Ok(())
    }

    /// A planted bug: a value that has expired goes, whatever it hides.
    fn plant_early_expiry(&self, media: &Media, versions: &mut Vec<Entry>) {
        if planted::is(Bug::ExpiredDropsEarly) {
            versions.retain(|version| {
                version.kind == Kind::Delete
                    || self.says_record(media, version) != EntryKind::Delete
            });
        }
    }

    /// What a version says of its key as of now: a value that has expired is a deletion. One that cannot be read stays, and
    /// is met by those who read it.
    #[inline]
    pub(crate) fn says<'v>(
        &self,
        kind: EntryKind,
        stored: impl FnOnce() -> Option<&'v [u8]>,
    ) -> EntryKind {
        let has_passed = |now: Now| stored().is_some_and(|stored| now.has_passed(stored));
        if kind.is_value() && self.now.is_some_and(has_passed) {
            return EntryKind::Delete;
        }
        kind
    }

    /// The same of a record. No checksum speaks for its time alone, so one that seems to have expired is read whole.
    fn says_record(&self, media: &Media, version: &Entry) -> EntryKind {
        let kind = version.kind.of_entry();
        let seems = self.says(kind, || media.value_front::<STAMP_LEN>(version));
        if seems == kind {
            return kind;
        }
        self.says(kind, || media.recheck(version).and_then(|whole| media.value(&whole)).ok())
    }

    /// The range deletions that must be kept.
    pub(crate) fn ranges(&self) -> Ranges {
        self.ranges.retain(|piece, seq, newer| {
            let idle = self.horizon.is_below(seq) && !self.older.may_hold_within(piece);
            !idle && self.horizon.keeps(seq, newer)
        })
    }
}

#[cfg(test)]
mod tests {
    use pmem::Region;
    use pool::{Format, Pool};
    use sst::RangeDelete;

    use super::*;

    fn media() -> Media {
        let region = Arc::new(Region::heap(16 * 4096, None).expect("region"));
        let format = Format { zone_len: 4096, manifest_len: 512 };
        let pool = Pool::create(Arc::clone(&region), format, 7, b"").expect("pool");
        Media::new(pool, region, None)
    }

    fn retention(stamps: &[u64], deleted: &[u64], older: Older) -> Retention {
        let delete =
            |seq: &u64| RangeDelete { begin: "a".into(), end: "m".into(), seq: Seq::new(*seq) };
        let deletes: Vec<RangeDelete> = deleted.iter().map(delete).collect();
        let horizon = Horizon::at(stamps.iter().copied().map(Seq::new).collect());
        Retention { horizon, now: None, ranges: Ranges::new(&deletes), older }
    }

    /// What is kept of `versions` of key `b`: numbers, the newest first, each a put, a deletion or an operand.
    fn kept(retention: &Retention, versions: &str) -> String {
        let mut judged = Judged::default();
        let parsed = versions.split_whitespace().map(|version| {
            let (seq, kind) = version.split_at(version.len() - 1);
            let kind = match kind {
                "p" => EntryKind::Value,
                "d" => EntryKind::Delete,
                _ => EntryKind::Merge,
            };
            (version, Seq::new(seq.parse().expect("a number")), kind)
        });
        let mut left: Vec<_> = parsed
            .filter(|(_, seq, kind)| retention.keeps(&mut judged, b"b", *seq, *kind))
            .collect();
        let versions = left.iter().rev().map(|(_, seq, kind)| (*seq, *kind));
        let idle = retention.idle_deletions(&media(), b"b", versions);
        left.truncate(left.len() - idle);
        left.iter().map(|(version, ..)| *version).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_version_survives_while_some_reader_may_need_it() {
        let table: &[(&[u64], &[u64], &str, &str)] = &[
            // One reader; readers at snapshots; later readers.
            (&[100], &[], "9p 7p 3d", "9p"),
            (&[100, 8, 5], &[], "9p 7p 6p 4p 3p", "9p 7p 4p"),
            (&[6], &[], "9p 8p 5p 4p", "9p 8p 5p"),
            // An operand hides nothing; what it is combined with hides the rest.
            (&[100], &[], "9m 7m 5p 4m 3p", "9m 7m 5p"),
            (&[100], &[], "9p 7m 5p", "9p"),
            // A range deletion hides what is older, but for readers from before it.
            (&[100], &[8], "9p 7p", "9p"),
            (&[100], &[8], "9m 7m 5p", "9m"),
            (&[100, 7], &[8], "9p 7p 5p", "9p 7p"),
            // The same version twice is one, also an operand, and above the horizon.
            (&[100], &[], "9m 9m 7p 7p", "9m 7p"),
            (&[5], &[], "9p 9p 8p", "9p 8p"),
        ];
        for (stamps, deleted, versions, expected) in table {
            let retention = retention(stamps, deleted, Older::Unknown);
            assert_eq!(kept(&retention, versions), *expected, "{versions} {stamps:?} {deleted:?}");
        }
    }

    #[test]
    fn deletions_go_where_nothing_is_left_to_hide() {
        let bottom = retention(&[100, 5], &[], Older::nothing());
        assert_eq!(kept(&bottom, "9d 4d 2p"), "");
        let asked =
            Retention { horizon: bottom.horizon.clone().of_transaction(), ..bottom.clone() };
        assert_eq!(kept(&asked, "9d 4d 2p"), "9d", "a transaction looks for it");
        assert_eq!(kept(&bottom, "9d 6p 4p"), "9d 4p");
        assert_eq!(kept(&bottom, "9p 4d"), "9p");
        let above = retention(&[100, 5], &[], Older::Unknown);
        assert_eq!(kept(&above, "9d 4d 2p"), "9d 4d");

        let seqs = |older, stamps: &[u64]| -> Vec<u64> {
            let kept = retention(stamps, &[9, 7, 4], older).ranges();
            kept.deletes().map(|delete| delete.seq.get()).collect()
        };
        assert_eq!(seqs(Older::Unknown, &[100]), [9]);
        assert_eq!(seqs(Older::Unknown, &[100, 8]), [9, 7]);
        assert_eq!(seqs(Older::nothing(), &[100]), [0; 0]);
        assert_eq!(
            seqs(Older::nothing(), &[100, 8]),
            [9],
            "some reader sees it, and some does not"
        );
    }
}
