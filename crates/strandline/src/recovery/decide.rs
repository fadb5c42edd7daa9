//! O3, second half: which commits count, and what damage took.
//!
//! The cut is the last commit before the first gap above the floor. A gap at or below what some later commit saw
//! published is not a torn tail but damage: the store is then not opened for writing, and a read-only open keeps
//! everything that was published but what is lost.

use std::collections::{BTreeMap, BTreeSet};

use base::planted::{self, Bug};
use base::{LINE, Seq};

use crate::keyspace::lost::LostRecords;
use crate::record::format::{Kind, RecordHead};
use crate::record::segment::Void;
use crate::record::store::Media;
use crate::recovery::candidates::{CandidateZone, ZoneContent};
use crate::recovery::recover::Damage;
use crate::recovery::scan_zone::{Gap, ZoneScan};

/// Sequence numbers above the floor that some valid commit covers.
struct Present {
    floor: Seq,
    words: Vec<u64>,
}

impl Present {
    /// Room for `span` numbers: a contiguous stretch cannot be longer than the records that fit the zones,
    /// so numbers beyond are behind a gap anyway.
    fn new(floor: Seq, span: u64) -> Present {
        Present { floor, words: vec![0; (span / 64 + 1) as usize] }
    }

    fn mark(&mut self, first: Seq, count: u64) {
        for number in first.get()..first.get().saturating_add(count) {
            let Some(at) = Seq::new(number).checked_distance(self.floor.next()) else { continue };
            let Some(word) = self.words.get_mut((at / 64) as usize) else { return };
            *word |= 1 << (at % 64);
        }
    }

    fn unmark(&mut self, seq: Seq) {
        if let Some(at) = seq.checked_distance(self.floor.next())
            && let Some(word) = self.words.get_mut((at / 64) as usize)
        {
            *word &= !(1 << (at % 64));
        }
    }

    /// The last number before the first gap.
    fn contiguous(&self) -> Seq {
        let full = self.words.iter().take_while(|word| **word == u64::MAX).count();
        let rest = self.words.get(full).map_or(0, |word| word.trailing_ones());
        self.floor + full as u64 * 64 + u64::from(rest)
    }

    /// The highest number up to `limit` that is not marked.
    fn last_missing(&self, limit: Seq) -> Option<Seq> {
        let is_marked = |seq: Seq| {
            let at = seq - self.floor.next();
            self.words.get((at / 64) as usize).is_some_and(|word| word >> (at % 64) & 1 != 0)
        };
        let above = self.floor.get() + 1..=limit.get();
        above.rev().map(Seq::new).find(|seq| !is_marked(*seq))
    }

    /// The highest number marked.
    fn last(&self) -> Option<Seq> {
        let at = self.words.iter().rposition(|word| *word != 0)?;
        Some(self.floor + at as u64 * 64 + 64 - u64::from(self.words[at].leading_zeros()))
    }
}

/// What O3 decided.
#[derive(Default)]
pub(crate) struct RecoveryPlan {
    /// Last sequence number that counts.
    pub cut: Seq,
    /// Numbers of commits that count but are empty.
    pub voided: BTreeSet<Seq>,
    /// Zones with valid commits beyond the cut.
    pub survivors: u64,
    pub damage: Vec<Damage>,
    /// By keyspace.
    pub lost: BTreeMap<u32, LostRecords>,
    /// The newest record that was lost from some place that cannot be told.
    pub lost_anywhere: Option<Seq>,
    /// Zones show that the manifest is not the newest.
    pub edits_lost: bool,
}

impl RecoveryPlan {
    /// What the keyspace lost, if anything.
    pub(crate) fn lost_from(&self, keyspace: u32) -> Option<LostRecords> {
        let mut lost = self.lost.get(&keyspace).cloned();
        if let Some(upto) = self.lost_anywhere {
            lost.get_or_insert_default().add_unknown(upto);
        }
        lost
    }
}

/// Decides from what the scans found.
pub(crate) fn decide(
    media: &Media,
    floor: Seq,
    candidates: &[CandidateZone],
    scans: &[ZoneScan],
) -> RecoveryPlan {
    let span: u64 = candidates.iter().map(|c| c.limit / LINE as u64).sum();
    let mut present = Present::new(floor, span);
    let voided = mark_commits(&mut present, scans);
    let cut = recovered_seq(&present);
    let mut decision = RecoveryPlan { cut, voided, ..RecoveryPlan::default() };
    let beyond = |scan: &&ZoneScan| scan.newest.is_some_and(|newest| newest > cut);
    decision.survivors = scans.iter().filter(beyond).count() as u64;
    let published =
        scans.iter().filter_map(|scan| scan.published).max().unwrap_or(Seq::ZERO).max(floor);
    decision.note_gaps(media, candidates, scans, published, &mut present);
    if published > cut {
        decision.note_missing(media, candidates, scans, published, &present);
    }
    if !decision.damage.is_empty() {
        present.mark(floor + 1, published - floor);
        decision.cut = present.contiguous().max(published);
    }
    decision
}

/// The last commit up to which none is missing.
fn recovered_seq(present: &Present) -> Seq {
    if planted::is(Bug::AcceptOverHole) {
        return present.last().unwrap_or(present.floor);
    }
    present.contiguous()
}

/// What was found of a commit of several records.
#[derive(Default)]
struct Parts {
    records: u32,
    segments: u32,
    seen: BTreeSet<u32>,
    voids: Vec<Void>,
}

impl Parts {
    fn are_all(&self) -> bool {
        planted::is(Bug::AcceptPartialCommit) || self.seen.len() as u32 == self.segments
    }
}

/// Marks the numbers of all whole commits, none torn: every segment was found; returns those that are void.
fn mark_commits(present: &mut Present, scans: &[ZoneScan]) -> BTreeSet<Seq> {
    let mut voided = BTreeSet::new();
    let mut commits: BTreeMap<Seq, Parts> = BTreeMap::new();
    for scan in scans {
        scan.solos.iter().for_each(|(first, count)| present.mark(*first, *count));
        voided.extend(&scan.void_solos);
        for part in &scan.parts {
            let parts = commits.entry(part.number).or_default();
            (parts.records, parts.segments) = (part.commit_records, part.segments);
            parts.seen.insert(part.index);
            parts.voids.push(part.void);
        }
    }
    for (number, parts) in &commits {
        let is = |void: Void| parts.voids.iter().all(|part| *part == void);
        // One that is void in part was being given up: it was never published, and may be cut off.
        if parts.are_all() && (is(Void::None) || is(Void::All)) {
            present.mark(*number, u64::from(parts.records));
            if is(Void::All) {
                voided.insert(*number);
            }
        }
    }
    plant_void_holes(present, &voided);
    voided
}

/// A planted bug: the number of a commit that was given up is missing.
fn plant_void_holes(present: &mut Present, voided: &BTreeSet<Seq>) {
    if planted::is(Bug::VoidIsHole) {
        voided.iter().for_each(|number| present.unmark(*number));
    }
}

impl RecoveryPlan {
    /// Reports gaps where acknowledged records must have been.
    fn note_gaps(
        &mut self,
        media: &Media,
        candidates: &[CandidateZone],
        scans: &[ZoneScan],
        published: Seq,
        present: &mut Present,
    ) {
        let mut tries = IDENTIFY_MAX;
        // What is missing of a large commit its adopt record tells.
        let both = candidates.iter().zip(scans);
        let of_segments = both.filter(|(zone, _)| zone.content == ZoneContent::Segments);
        for (candidate, scan) in of_segments {
            for gap in &scan.gaps {
                // Records of a zone lie in commit order: what lies before an acknowledged record, or inside
                // a sealed zone, was acknowledged too.
                let acknowledged =
                    gap.before.is_some_and(|next| next <= published) || candidate.sealed;
                if !acknowledged {
                    continue;
                }
                self.damage.push(Damage {
                    file: None,
                    zone: Some(candidate.no),
                    at: gap.at.get(),
                    len: gap.len,
                    what: "records fail their checksum".into(),
                });
                let lost = self.lost.entry(candidate.header.keyspace).or_default();
                let known = if tries > 0 { identify(media, gap) } else { None };
                tries = tries.saturating_sub(1);
                match known {
                    Some((seq, key)) => {
                        present.mark(seq, 1);
                        lost.add_key(key, seq);
                    }
                    None => lost.add_unknown(gap.before.map_or(published, |next| next - 1)),
                }
            }
        }
    }

    /// Reports published commits that no zone holds, with the places where they may have been.
    fn note_missing(
        &mut self,
        media: &Media,
        candidates: &[CandidateZone],
        scans: &[ZoneScan],
        published: Seq,
        present: &Present,
    ) {
        let Some(newest) = present.last_missing(published) else { return };
        self.lost_anywhere = Some(newest);
        let what = format!(
            "commits {}..={newest} were published and are missing in part; they may have been here",
            present.contiguous() + 1
        );
        let named = self.damage.len();
        for (candidate, scan) in candidates.iter().zip(scans) {
            let torn = scan
                .gaps
                .iter()
                .filter(|gap| !candidate.sealed && gap.before.is_none_or(|next| next > published));
            self.damage.extend(torn.map(|gap| Damage {
                file: None,
                zone: Some(candidate.no),
                at: gap.at.get(),
                len: gap.len,
                what: what.clone(),
            }));
        }
        if self.damage.len() == named {
            let at = media.pool.geometry().zone_at(0).get();
            self.damage.push(Damage { file: None, zone: None, at, len: 0, what });
        }
    }
}

/// Gaps in which a damaged record is looked for at most: each may take a millisecond.
const IDENTIFY_MAX: u32 = 256;
/// Longest gap in which it is looked for.
const IDENTIFY_BYTES_MAX: u64 = 4 * LINE as u64;

/// The record that a gap held, if it is one record and one byte of it was changed: its checksum tells which.
/// It is not given to readers; but knowing its key, they can be given all others.
fn identify(media: &Media, gap: &Gap) -> Option<(Seq, Vec<u8>)> {
    if gap.len > IDENTIFY_BYTES_MAX {
        return None;
    }
    let (seed, base_seq) = media.place(gap.at)?;
    let mut bytes = media.region.bytes(gap.at.get(), gap.len as usize).to_vec();
    for at in 0..bytes.len() {
        let damaged = bytes[at];
        for change in 1..=u8::MAX {
            bytes[at] = damaged ^ change;
            let head = RecordHead::decode(&bytes[..LINE], seed, base_seq);
            let fits = head.filter(|head| head.len() == bytes.len() && head.verify(&bytes, seed));
            if let Some(head) = fits {
                // A range deletion is about more keys than its own.
                let single = head.kind != Kind::RangeDelete;
                return single.then(|| (head.seq, head.key(&bytes).to_vec()));
            }
        }
        bytes[at] = damaged;
    }
    None
}
