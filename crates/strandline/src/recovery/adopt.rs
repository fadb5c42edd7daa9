//! O3, for large commits: which staged zones count, and under which numbers.
//!
//! A staged zone counts if an adopt record names it that counts as a segment of its commit. It was durable before that record was
//! written (I-LARGE-1), so a zone that is not as the record says is damage, whether or not the commit was published.

use base::Seq;
use base::planted::{self, Bug};

use crate::record::adopt::{self, StagedPart};
use crate::record::store::Media;
use crate::recovery::candidates::{CandidateZone, ZoneContent};
use crate::recovery::decide::RecoveryPlan;
use crate::recovery::recover::Damage;
use crate::recovery::scan_zone::{AdoptAt, StagedFront, ZoneScan};

/// A candidate and what was found in it.
pub(crate) struct ScannedZone {
    pub candidate: CandidateZone,
    pub scan: ZoneScan,
}

/// Gives staged zones that count their base, and leaves out those that do not. What is damaged goes to the plan.
pub(crate) fn adopt(
    media: &Media,
    candidates: Vec<CandidateZone>,
    scans: Vec<ZoneScan>,
    plan: &mut RecoveryPlan,
) -> Vec<ScannedZone> {
    debug_assert!(candidates.is_sorted_by_key(|candidate| candidate.no));
    let both = candidates.into_iter().zip(scans);
    let mut zones: Vec<ScannedZone> =
        both.map(|(candidate, scan)| ScannedZone { candidate, scan }).collect();
    let adopts: Vec<(usize, AdoptAt)> = zones
        .iter()
        .enumerate()
        .flat_map(|(place, zone)| zone.scan.adopts.iter().map(move |found| (place, *found)))
        .filter(|(_, found)| found.last_seq <= plan.cut)
        .collect();
    for (place, found) in adopts {
        let is_void = found.void || plan.voided.contains(&found.number);
        if !is_void || planted::is(Bug::AdoptThoughVoid) {
            for part in adopt::parts(media, found.at).unwrap_or_default() {
                take_over(media, &mut zones, place, found, part, plan);
            }
        }
        // Its number counts until an edit says so, also if the commit was given up: the zone stays until then.
        let start = media.pool.geometry().zone_at(zones[place].candidate.no);
        let content = &mut zones[place].candidate.content;
        if let ZoneContent::Staged { sealed, .. } = content
            && !(is_void && planted::is(Bug::SweepVoidAdopt))
        {
            *sealed = found.end - start;
        }
    }
    for zone in &zones {
        note_forsaken(media, zone, plan);
    }
    let unused = ZoneContent::Staged { records_to: 0, sealed: 0 };
    zones.retain(|zone| zone.candidate.content != unused);
    zones
}

/// Makes the records of a part count, if all of them are there.
fn take_over(
    media: &Media,
    zones: &mut [ScannedZone],
    named_in: usize,
    found: AdoptAt,
    part: StagedPart,
    plan: &mut RecoveryPlan,
) {
    let keyspace = zones[named_in].candidate.header.keyspace;
    let is_it = |zone: &&mut ScannedZone| {
        let CandidateZone { header, content, .. } = &zone.candidate;
        header.incarnation() == part.incarnation && *content != ZoneContent::Segments
    };
    let forgotten = planted::is(Bug::SweepAdoptedZone) && part.zone % 2 == 1;
    let place = zones.binary_search_by_key(&part.zone, |zone| zone.candidate.no);
    let zone = place.ok().map(|place| &mut zones[place]).filter(is_it).filter(|_| !forgotten);
    let whole = StagedFront { records: part.records, len: part.len };
    let is_whole = zone.as_ref().is_some_and(|zone| zone.scan.front == whole);
    if !is_whole && !forgotten {
        let what = match zone.is_some() {
            true => "records of a large commit fail their checksum",
            false => "a zone of a large commit is not there any more",
        };
        let front = zone.as_ref().map_or(0, |zone| zone.scan.front.len.min(part.len));
        plan.damage.push(Damage {
            file: None,
            zone: Some(part.zone),
            at: media.pool.geometry().zone_at(part.zone).get() + front,
            len: part.len - front,
            what: what.into(),
        });
        plan.lost.entry(keyspace).or_default().add_unknown(found.last_seq);
    }
    if let Some(zone) = zone {
        let base = if planted::is(Bug::StagedNotRebased) { Seq::ZERO } else { found.number };
        media.rebase(part.zone, base);
        zone.candidate.header.base_seq = base;
        zone.scan.first = Some(found.number);
        let records_to = part.len.min(zone.candidate.limit);
        zone.candidate.content = ZoneContent::Staged { records_to, sealed: records_to };
    }
}

/// Reports a staged zone that an earlier open accepted, and that no adopt record names now.
fn note_forsaken(media: &Media, zone: &ScannedZone, plan: &mut RecoveryPlan) {
    let ScannedZone { candidate, .. } = zone;
    let unused = ZoneContent::Staged { records_to: 0, sealed: 0 };
    if candidate.content != unused || !candidate.sealed || candidate.limit == 0 {
        return;
    }
    plan.damage.push(Damage {
        file: None,
        zone: Some(candidate.no),
        at: media.pool.geometry().zone_at(candidate.no).get(),
        len: candidate.limit,
        what: "the record that names the records of a large commit here is damaged".into(),
    });
    // Which numbers they have is not known.
    plan.lost.entry(candidate.header.keyspace).or_default().add_unknown(plan.cut);
}
