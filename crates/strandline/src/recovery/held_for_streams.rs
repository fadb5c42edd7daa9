//! What change streams are yet to give: zones that an open holds on for them, and values in extents.
//!
//! A zone that is retired, and whose word is not cleared, may be held for streams alone, or be on its way to be free. What it has
//! behind the number that all slots have passed tells: nothing is let go before an edit says that it is passed (I-STREAM-2).

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use base::planted::{self, Bug};
use base::{Error, PmOffset, Result, Seq};
use pool::{Extent, ZoneHeader, ZoneKind, granted_in};

use crate::manifest::ManifestState;
use crate::manifest::edit::Fate;
use crate::memtable::Memtable;
use crate::record::extent::ExtentHold;
use crate::record::format::{ExtentRef, Kind, RecordHead};
use crate::record::segment::{checked, segment};
use crate::record::store::Media;
use crate::recovery::decide::RecoveryPlan;
use crate::recovery::open_runs::{Zones, granted};
use crate::recovery::recover::in_parallel;
use crate::stream::kept::{FoundStreams, KeptZone, Slot};

/// What recovery looks for streams with.
pub(crate) struct StreamSearch<'s, 'm> {
    pub media: &'m Media,
    pub state: &'s ManifestState,
    pub plan: &'s RecoveryPlan,
    /// Those that were rebuilt; they hold extents of their own.
    pub memtables: &'s [Arc<Memtable>],
    pub threads: usize,
}

/// A zone that may have something for streams.
pub(super) struct Candidate {
    pub no: u32,
    pub header: ZoneHeader,
    /// Commits up to this number count.
    pub cut: Seq,
    pub end: PmOffset,
}

/// What one has.
#[derive(Default)]
struct FoundPart {
    /// Where what counts ends, and the newest number before that.
    end: PmOffset,
    upto: Seq,
    /// By the numbers of the records that name them.
    extents: Vec<FoundExtent>,
}

/// The value of record `seq` of a commit that ends with `end`.
pub(super) struct FoundExtent {
    pub seq: Seq,
    pub end: Seq,
    pub reference: ExtentRef,
}

impl StreamSearch<'_, '_> {
    /// Finds what slots need, and claims what nothing else has claimed. Nothing is taken of the pool before that.
    pub(crate) fn find(&self, zones: &mut Zones<'_>) -> Result<FoundStreams> {
        let mut found = FoundStreams::default();
        let streams = &self.state.streams;
        let Some(passed) = streams.passed() else { return Ok(found) };
        let slots = streams.slots.iter();
        found.slots = slots.map(|(name, desc)| Arc::new(Slot::new(name, *desc))).collect();
        let candidates = self.candidates(zones, ZoneKind::Memtable);
        let parts = in_parallel(&candidates, self.threads, |each| self.read(each, passed));
        let mut parts: Vec<_> = candidates.iter().zip(parts).collect();
        parts.retain(|(candidate, part)| part.upto > passed && !self.plant_forgotten(candidate));
        parts.sort_by_key(|(_, part)| part.upto);
        let mut extents = self.find_staged(zones, passed, &mut found.zones)?;
        let held = self.memtables.iter().flat_map(|memtable| memtable.extents());
        let held: HashMap<PmOffset, Arc<ExtentHold>> =
            held.map(|hold| (hold.extent().at, hold)).collect();
        for (candidate, part) in parts {
            let known = zones.known.contains_key(&candidate.no);
            let zone = zones.claim(candidate.no, &candidate.header)?;
            if !known {
                zone.retire();
            }
            let keyspace = candidate.header.keyspace;
            let kept = KeptZone::new(&zone, keyspace, part.end);
            found.zones.full(Arc::new(kept), part.upto);
            extents.extend(part.extents);
        }
        for FoundExtent { seq, end, reference } in extents {
            // A memtable's, or a run's, if one has it.
            let hold = match held.get(&reference.at) {
                Some(hold) => Arc::clone(hold),
                None => zones.hold(self.extent(reference)?)?,
            };
            found.zones.extent(seq, end, &hold);
        }
        Ok(found)
    }

    /// Zones of this kind with records of commits that an open accepted which slots may not have passed.
    pub(super) fn candidates(&self, zones: &Zones<'_>, kind: ZoneKind) -> Vec<Candidate> {
        let geometry = self.media.pool.geometry();
        let ignores_ends = planted::is(Bug::StreamIgnoresCut);
        let mut found = Vec::new();
        for no in 0..geometry.zones() {
            let Some(header) = granted(self.media, no) else { continue };
            let cut = match self.state.streams.ends.get(&header.epoch) {
                _ if header.epoch == self.state.epoch => self.plan.cut,
                Some(_) if ignores_ends => Seq::MAX,
                Some(cut) => *cut,
                None => continue,
            };
            if header.kind != kind {
                continue;
            }
            let fate = self.state.zones.get(&no);
            let fate = fate.filter(|(incarnation, _)| *incarnation == header.incarnation());
            let start = geometry.zone_at(no);
            let end = match fate {
                Some((_, Fate::Live { sealed, .. })) => start + *sealed,
                _ => start + geometry.zone_len(),
            };
            if !zones.known.contains_key(&no) {
                let _held = self.media.set_zone(no, header.incarnation(), header.base_seq);
            }
            found.push(Candidate { no, header, cut, end });
        }
        found
    }

    /// Reads a zone up to the first commit that does not count.
    fn read(&self, candidate: &Candidate, passed: Seq) -> FoundPart {
        let start = self.media.pool.geometry().zone_at(candidate.no);
        let mut part = FoundPart { end: start, ..FoundPart::default() };
        let mut named = Vec::new();
        while part.end < candidate.end {
            named.clear();
            let found = segment(self.media, part.end, candidate.end, checked, |at, head| {
                if names_value(head) {
                    named.push((at, *head));
                }
            });
            // What is damaged, and what stands behind it, is missing when a stream comes to it.
            let Some((first, found)) = found else { break };
            if first.commit_end() > candidate.cut {
                break;
            }
            (part.end, part.upto) = (found.end, first.commit_end());
            if part.upto > passed {
                let end = first.commit_end();
                let extents = named.iter().filter_map(|(at, head)| self.value_of(*at, head, end));
                part.extents.extend(extents);
            }
        }
        part
    }

    /// The value that the record at `at` names, of a commit that ends with `end`.
    pub(super) fn value_of(
        &self,
        at: PmOffset,
        head: &RecordHead,
        end: Seq,
    ) -> Option<FoundExtent> {
        let at = (at + (head.key_at + head.key_len) as u64).get();
        let reference = ExtentRef::decode(self.media.region.bytes(at, head.value_len))?;
        Some(FoundExtent { seq: head.seq, end, reference })
    }

    /// The extent of a value.
    fn extent(&self, reference: ExtentRef) -> Result<Extent> {
        let geometry = self.media.pool.geometry();
        let len = geometry.extent_len(reference.len).ok_or_else(|| too_long(reference))?;
        Ok(Extent { at: reference.at, len })
    }

    /// A planted bug: zones that only streams hold are not looked for.
    fn plant_forgotten(&self, candidate: &Candidate) -> bool {
        let retired = matches!(self.state.zones.get(&candidate.no), Some((_, Fate::Retired)));
        planted::is(Bug::StreamZoneForgotten) && retired
    }
}

/// Whether a record counts and its value is in an extent.
pub(super) fn names_value(head: &RecordHead) -> bool {
    head.kind == Kind::PutExtent && !head.void
}

fn too_long(reference: ExtentRef) -> Error {
    let text = format!(
        "the value at offset {} that a change stream is to give is longer than an extent; restore a copy of the pool",
        reference.at
    );
    Error::corruption("open", text)
}

/// The state that the open makes durable: what of the last open's records counts, and zones that are held for streams.
pub(crate) fn settle(next: &mut ManifestState, found: &FoundStreams, last_epoch: u32, cut: Seq) {
    if found.slots.is_empty() {
        return;
    }
    next.streams.ends.insert(last_epoch, cut);
    next.streams.settle();
    let zones = found.zones.all().0;
    // However often the store is opened while a stream lags, there are no more of them than zones that are held.
    let epochs: BTreeSet<u32> =
        zones.iter().map(|kept| granted_in(kept.zone().incarnation)).collect();
    next.streams.ends.retain(|epoch, _| epochs.contains(epoch));
    for zone in zones {
        let zone = zone.zone();
        // What is not named by a run, and not rebuilt, is named by nothing.
        if zone.is_retired() {
            next.zones.insert(zone.no, (zone.incarnation, Fate::Retired));
        }
    }
}
