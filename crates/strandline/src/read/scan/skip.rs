//! How a scan gets over what is gone: by vacancies, by range deletions, and key by key.
//!
//! A vacancy is left behind in one go, by all sources. Where none is known, as after an open, the keys that a range deletion
//! covers are left behind by the sources that are older than the one that has it; newer ones may have newer versions.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::Result;

use art::Direction;

use crate::iter::SourceCursor;
use crate::keyspace::vacancies::{Known, WORTH_A_VACANCY};
use crate::ranges::Stretch as Covered;
use crate::read::scan::{Scan, as_slice};
use crate::read::stretch::LOOK_EVERY;
use crate::tree::walk::LevelIterator;

impl Scan {
    /// What is known to be vacant, if anything is. Where records were lost each key is looked at.
    pub(crate) fn vacancies(&self) -> Option<Arc<Known>> {
        let walks_all = self.space.lost.is_some() || self.space.dropped.load(Relaxed);
        if walks_all { None } else { self.space.vacancies.known() }
    }

    /// Passes the current key, which is deleted, and more that is.
    pub(crate) fn pass_deleted(&mut self) -> Result<()> {
        let mut stretch = std::mem::take(&mut self.stretch);
        stretch.pass(self.key().unwrap_or_default(), self.direction);
        self.stretch = stretch;
        if !self.stretch.entries.is_multiple_of(LOOK_EVERY) {
            return self.pass();
        }
        if let Some(known) = self.vacancies()
            && let Some(from) = self.stretch.jump(&known, self.direction, self.snapshot)
        {
            return self.position(from);
        }
        if self.deletes_ranges { self.pass_covered() } else { self.pass() }
    }

    /// Passes the current key, and in the sources below the newest range deletion of it all that this covers.
    fn pass_covered(&mut self) -> Result<()> {
        let (view, direction, snapshot) = (Arc::clone(&self.view), self.direction, self.snapshot);
        // What the newest covering deletion hides of older sources. Where none covers the key, only that is passed.
        let here = self.key().unwrap_or_default().to_vec();
        let Some((rank, covered)) = view.covering(&here, snapshot)? else { return self.pass() };
        let from = match direction {
            Direction::Forward => Bound::Included(covered.end),
            Direction::Backward => Bound::Excluded(covered.begin),
        };
        let is_within = |key: &[u8], Covered { begin, end, .. }: &Covered<'_>| match direction {
            Direction::Forward => key < *end,
            Direction::Backward => key >= *begin,
        };
        // Memtables and runs: those older than the deletion seek behind it, others pass the key alone.
        let media = &*self.media;
        for cursor in &mut self.cursors {
            let Some(key) = cursor.head.as_ref().map(|head| media.key(head)) else { continue };
            if cursor.rank > rank && is_within(key, &covered) {
                let rank = cursor.rank;
                *cursor = match rank.checked_sub(view.first_run()) {
                    None => {
                        let memtable = &view.memtables[rank];
                        SourceCursor::memtable(media, memtable, from, direction, snapshot)?
                    }
                    Some(run) => {
                        SourceCursor::run(media, &view.runs[run], from, direction, snapshot)?
                    }
                };
                cursor.rank = rank;
            } else if key == here {
                cursor.advance(media)?;
            }
        }
        // The same for levels.
        for walk in &mut self.walks {
            if walk.head().is_none() {
                continue;
            }
            if walk.rank > rank && is_within(walk.key(), &covered) {
                let rank = walk.rank;
                let level = view.tree.level(1 + rank - view.first_level());
                let within = level.within(&self.subrange.span);
                *walk = LevelIterator::new(rank, level, within, direction, snapshot, self.reading);
                walk.seek(from)?;
            } else if walk.key() == here {
                walk.advance()?;
            }
        }
        self.fill_heap();
        Ok(())
    }

    /// The scan shows a key, leaves the subrange or ends: what it has passed may be known as vacant.
    #[inline]
    pub(crate) fn end_stretch(&mut self) {
        if self.stretch.entries > 0 {
            self.tell_stretch();
        }
    }

    #[cold]
    fn tell_stretch(&mut self) {
        let (engine, entries) = (&*self.engine, self.stretch.entries);
        engine.keyspaces.scans_passed.fetch_add(entries, Relaxed);
        // What has expired is gone for this scan, not yet for one that began before.
        if entries >= WORTH_A_VACANCY && self.space.lost.is_none() && self.now.is_none() {
            let edge = match as_slice(&self.far) {
                Bound::Included(key) | Bound::Excluded(key) if !self.valid() && self.goes_on => {
                    Some(key)
                }
                _ => None,
            };
            let oldest = engine.sequence.snapshots.oldest(&engine.sequence.ring);
            self.stretch.tell(edge, self.direction, self.snapshot, |walked| {
                let next_seq = || engine.sequence.sequencer.enter_to_switch().next_seq();
                self.space.vacancies.walked(walked, oldest, next_seq);
            });
        }
        self.stretch.end();
    }
}
