//! Large commits that change streams are yet to give: the staged zones that an open holds on for them.
//!
//! An adopt record names the zones of its segment, so these are held together. Their records have numbers from the commit's on, which
//! the zones' lines may not say yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::planted::{self, Bug};
use base::{PmOffset, Result, Seq};
use pool::ZoneKind;

use crate::record::adopt;
use crate::record::format::Role;
use crate::record::segment::checked;
use crate::recovery::held_for_streams::{Candidate, FoundExtent, StreamSearch, names_value};
use crate::recovery::open_runs::Zones;
use crate::recovery::recover::in_parallel;
use crate::stream::kept::{CommitNumbers, KeptZone, KeptZones, StagedSegment};

/// The adopt record of a segment.
struct FoundAdopt {
    at: PmOffset,
    numbers: CommitNumbers,
    /// Its commit was given up.
    is_void: bool,
}

impl StreamSearch<'_, '_> {
    /// Finds the segments of large commits that slots have not passed. Tells the values that they name.
    pub(super) fn find_staged(
        &self,
        zones: &mut Zones<'_>,
        passed: Seq,
        found: &mut KeptZones,
    ) -> Result<Vec<FoundExtent>> {
        if planted::is(Bug::StreamStagedForgotten) {
            return Ok(Vec::new());
        }
        let candidates = self.candidates(zones, ZoneKind::Staged);
        let adopts = in_parallel(&candidates, self.threads, |each| self.adopt_in(each));
        let by_no: BTreeMap<u32, &Candidate> =
            candidates.iter().map(|candidate| (candidate.no, candidate)).collect();
        let mut extents = Vec::new();
        for (candidate, adopt) in candidates.iter().zip(adopts) {
            let counts = |adopt: &FoundAdopt| {
                adopt.numbers.last <= candidate.cut && adopt.numbers.last > passed
            };
            let Some(adopt) = adopt.filter(counts) else { continue };
            // What is not there is missing when a stream comes to it.
            let Some(named) = self.named(candidate, &adopt, &by_no) else { continue };
            let mut segment = StagedSegment { zones: Vec::new(), adopt_at: adopt.at };
            for (no, len) in named {
                let candidate = by_no[&no];
                self.media.rebase(no, adopt.numbers.first);
                let known = zones.known.contains_key(&no);
                let zone = zones.claim(no, &candidate.header)?;
                if !known {
                    zone.retire();
                }
                self.values_in(zone.start..zone.start + len, adopt.numbers.last, &mut extents);
                let kept = KeptZone::new(&zone, candidate.header.keyspace, zone.end);
                segment.zones.push(Arc::new(kept));
            }
            found.adopted(&segment, adopt.numbers);
        }
        Ok(extents)
    }

    /// The adopt record in a staged zone, behind the records there.
    fn adopt_in(&self, candidate: &Candidate) -> Option<FoundAdopt> {
        let mut at = self.media.pool.geometry().zone_at(candidate.no);
        loop {
            let head = checked(self.media, at, candidate.end)?;
            if let Role::First(_) = head.role {
                let numbers = CommitNumbers { first: head.number(), last: head.commit_end() };
                return Some(FoundAdopt { at, numbers, is_void: head.void });
            }
            at += head.len() as u64;
        }
    }

    /// The zones of a segment, and how long its records are in each. Of one that was given up that with the adopt record alone.
    fn named(
        &self,
        candidate: &Candidate,
        adopt: &FoundAdopt,
        by_no: &BTreeMap<u32, &Candidate>,
    ) -> Option<Vec<(u32, u64)>> {
        if adopt.is_void {
            return Some(vec![(candidate.no, 0)]);
        }
        let parts = adopt::parts(self.media, adopt.at)?;
        let is_there = |part: &adopt::StagedPart| {
            let there = by_no.get(&part.zone);
            there.is_some_and(|there| there.header.incarnation() == part.incarnation)
        };
        let whole = parts.iter().all(is_there);
        whole.then(|| parts.iter().map(|part| (part.zone, part.len)).collect())
    }

    /// Adds the values that records in this stretch name.
    fn values_in(
        &self,
        stretch: std::ops::Range<PmOffset>,
        end: Seq,
        extents: &mut Vec<FoundExtent>,
    ) {
        let mut at = stretch.start;
        while let Some(head) = checked(self.media, at, stretch.end) {
            if names_value(&head) {
                extents.extend(self.value_of(at, &head, end));
            }
            at += head.len() as u64;
        }
    }
}
