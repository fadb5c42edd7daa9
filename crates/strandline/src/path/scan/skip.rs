//! How a scan gets over what is gone: a vacancy in one go, all else key by key, which it tells the scans that come.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::Result;

use super::{Scan, as_slice};
use crate::path::stretch::LOOK_EVERY;
use crate::vacancies::{Known, WORTH_A_VACANCY};

impl Scan {
    /// What is known to be vacant, if anything is. Where records were lost each key is looked at.
    pub(super) fn vacancies(&self) -> Option<Arc<Known>> {
        let walks_all = self.space.lost.is_some() || self.space.dropped.load(Relaxed);
        if walks_all { None } else { self.space.vacancies.known() }
    }

    /// Passes the current key, which is deleted, and the vacancy that it is in.
    pub(super) fn pass_deleted(&mut self) -> Result<()> {
        let mut stretch = std::mem::take(&mut self.stretch);
        stretch.pass(self.key().unwrap_or_default(), self.way);
        self.stretch = stretch;
        if !self.stretch.entries.is_multiple_of(LOOK_EVERY) {
            return self.pass();
        }
        if let Some(known) = self.vacancies()
            && let Some(from) = self.stretch.jump(&known, self.way, self.at)
        {
            return self.position(from);
        }
        self.pass()
    }

    /// The scan shows a key, leaves the subrange or ends: what it has passed may be known as vacant.
    #[inline]
    pub(super) fn end_stretch(&mut self) {
        if self.stretch.entries > 0 {
            self.tell_stretch();
        }
    }

    #[cold]
    fn tell_stretch(&mut self) {
        let (engine, entries) = (&*self.engine, self.stretch.entries);
        engine.scans_passed.fetch_add(entries, Relaxed);
        if entries >= WORTH_A_VACANCY && self.space.lost.is_none() {
            let edge = match as_slice(&self.far) {
                Bound::Included(key) | Bound::Excluded(key) if !self.valid() && self.goes_on => {
                    Some(key)
                }
                _ => None,
            };
            let oldest = engine.snapshots.oldest(&engine.ring);
            self.stretch.tell(edge, self.way, self.at, |walked| {
                let next_seq = || engine.gate.enter_to_switch().next_seq();
                self.space.vacancies.walked(walked, oldest, next_seq);
            });
        }
        self.stretch.end();
    }
}
