//! O3's scan of one zone: which commits left valid segments in it.
//!
//! A zone holds records in commit order, back to back. What fails its checks is stepped over a line at a time:
//! behind a commit that was lost in a crash, others may have survived.

use std::ops::Range;

use base::{LINE, PmOffset, Result, Seq};

use crate::record::format::{Kind, RecordHead, Role};
use crate::record::segment::{Void, checked, known, segment};
use crate::record::store::Media;

/// Records that O4 inserts at a time.
pub(crate) const BATCH: usize = 16;

/// What a zone holds.
#[derive(Debug, Default)]
pub(crate) struct ZoneScan {
    /// Single-record commits above the floor, as stretches of consecutive numbers.
    pub solos: Vec<(Seq, u64)>,
    /// Those of them that are void.
    pub void_solos: Vec<Seq>,
    /// Segments of larger commits above the floor.
    pub parts: Vec<CommitPart>,
    /// Highest number that some valid record saw published.
    pub published: Option<Seq>,
    /// Stretches that failed their checks with a valid record behind them, or inside a sealed zone.
    pub gaps: Vec<Gap>,
    /// Last number of the newest valid segment.
    pub newest: Option<Seq>,
    /// Number of the first commit in it.
    pub first: Option<Seq>,
    /// Of a staged zone, what its front holds without a gap.
    pub front: StagedFront,
    /// The adopt records in it.
    pub adopts: Vec<AdoptAt>,
}

/// Records of a large commit, back to back from the start of a staged zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StagedFront {
    pub records: u32,
    pub len: u64,
}

/// An adopt record that checks out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdoptAt {
    pub at: PmOffset,
    pub end: PmOffset,
    /// Number of its commit.
    pub number: Seq,
    /// The commit's last.
    pub last_seq: Seq,
    pub void: bool,
}

/// A segment of a commit of several records.
#[derive(Debug)]
pub(crate) struct CommitPart {
    pub number: Seq,
    pub commit_records: u32,
    pub segments: u32,
    pub index: u32,
    pub void: Void,
}

/// Bytes that do not check out.
#[derive(Debug)]
pub(crate) struct Gap {
    pub at: PmOffset,
    pub len: u64,
    /// Number of the next valid record's commit.
    pub before: Option<Seq>,
}

impl ZoneScan {
    fn solo(&mut self, seq: Seq) {
        match self.solos.last_mut() {
            Some((first, count)) if *first + *count == seq => *count += 1,
            _ => self.solos.push((seq, 1)),
        }
    }
}

/// A record that O4 puts back.
pub(crate) struct FoundRecord {
    pub at: PmOffset,
    pub len: u64,
    pub seq: Seq,
    /// Number of its commit.
    pub number: Seq,
    pub kind: Kind,
    pub void: bool,
    key_at: u32,
    key_len: u32,
    value_len: u32,
}

impl FoundRecord {
    /// The record at `at`, of the commit with this number.
    fn new(at: PmOffset, head: &RecordHead, number: Seq) -> FoundRecord {
        FoundRecord {
            at,
            len: head.len() as u64,
            seq: head.seq,
            number,
            kind: head.kind,
            void: head.void,
            key_at: head.key_at as u32,
            key_len: head.key_len as u32,
            value_len: head.value_len as u32,
        }
    }

    pub(crate) fn key<'m>(&self, media: &'m Media) -> &'m [u8] {
        let at = self.at + u64::from(self.key_at);
        media.region.bytes(at.get(), self.key_len as usize)
    }

    pub(crate) fn value<'m>(&self, media: &'m Media) -> &'m [u8] {
        let at = self.at + u64::from(self.key_at + self.key_len);
        media.region.bytes(at.get(), self.value_len as usize)
    }
}

/// Scans what counts of a zone for segments; commits at or below `floor` need not be reported one by one.
pub(crate) fn scan(media: &Media, zone: Range<PmOffset>, floor: Seq) -> ZoneScan {
    let Range { start, end } = zone;
    let mut scan = ZoneScan::default();
    let mut at = start;
    let mut gap: Option<PmOffset> = None;
    while at < end {
        // What is no segment is a gap, up to the next one that is.
        let Some((first, found)) = segment(media, at, end, checked, |_, _| {}) else {
            gap.get_or_insert(at);
            at += LINE as u64;
            continue;
        };
        if let Some(from) = gap.take() {
            scan.gaps.push(Gap { at: from, len: at - from, before: Some(found.number) });
        }
        // Commits above the floor are reported one by one; of others it is enough that they are there.
        scan.published = scan.published.max(first.published);
        match first.role {
            Role::First(segment) => {
                if found.number > floor {
                    scan.parts.push(CommitPart {
                        number: found.number,
                        commit_records: segment.commit_records,
                        segments: segment.segments,
                        index: segment.index,
                        void: found.void,
                    });
                }
            }
            _ => {
                if found.number > floor {
                    scan.solo(found.number);
                    if found.void == Void::All {
                        scan.void_solos.push(found.number);
                    }
                }
            }
        }
        scan.newest = Some(first.commit_end());
        scan.first.get_or_insert(found.number);
        at = found.end;
    }
    if let Some(from) = gap {
        scan.gaps.push(Gap { at: from, len: end - from, before: None });
    }
    scan
}

/// Whether a staged zone may hold such a record: a follower, or the one that makes its commit count.
fn is_staged(head: &RecordHead) -> bool {
    match head.role {
        Role::Follower => !head.void && !matches!(head.kind, Kind::Adopt | Kind::Blank),
        // One that was given up before it was written is blank.
        Role::First(segment) => {
            segment.records == 1
                && (head.kind == Kind::Adopt || head.kind == Kind::Blank && head.void)
        }
        Role::Solo | Role::Moved => false,
    }
}

/// Scans what counts of a staged zone. Numbers of its followers count from 0.
pub(crate) fn scan_staged(media: &Media, zone: Range<PmOffset>, floor: Seq) -> ZoneScan {
    let Range { start, end } = zone;
    let mut scan = ZoneScan::default();
    let mut at = start;
    let mut gap: Option<PmOffset> = None;
    while at < end {
        let Some(head) = checked(media, at, end).filter(is_staged) else {
            gap.get_or_insert(at);
            at += LINE as u64;
            continue;
        };
        let next = at + head.len() as u64;
        let before = match head.role {
            Role::First(_) => Some(head.number()),
            _ => None,
        };
        if let Some(from) = gap.take() {
            scan.gaps.push(Gap { at: from, len: at - from, before });
        }
        if let Role::First(segment) = head.role {
            let number = head.number();
            let last_seq = number + u64::from(segment.commit_records) - 1;
            if number > floor {
                scan.parts.push(CommitPart {
                    number,
                    commit_records: segment.commit_records,
                    segments: segment.segments,
                    index: segment.index,
                    void: if head.void { Void::All } else { Void::None },
                });
            }
            scan.published = scan.published.max(head.published);
            scan.newest = Some(last_seq);
            scan.first.get_or_insert(number);
            scan.adopts.push(AdoptAt { at, end: next, number, last_seq, void: head.void });
        } else if scan.front.len == at - start {
            scan.front = StagedFront { records: scan.front.records + 1, len: next - start };
        }
        at = next;
    }
    if let Some(from) = gap {
        scan.gaps.push(Gap { at: from, len: end - from, before: None });
    }
    scan
}

/// Calls `each` for the records of a staged zone up to `end`, which are those of commit `number`. Of what `scan` found damaged,
/// what `salvage` says counts too.
pub(crate) fn replay_staged(
    media: &Media,
    Range { start, end }: Range<PmOffset>,
    scan: &ZoneScan,
    number: Seq,
    salvage: Salvage,
    mut each: impl FnMut(FoundRecord) -> Result<()>,
) -> Result<()> {
    let mut at = start;
    let mut gaps = scan.gaps.iter().peekable();
    while at < end {
        if let Some(gap) = gaps.next_if(|gap| gap.at == at) {
            if salvage == Salvage::Nothing {
                return Err(media.damaged(at));
            }
            // Each record is found by itself, so a gap has none.
            at += gap.len;
            continue;
        }
        let head = known(media, at, end).ok_or_else(|| media.damaged(at))?;
        if head.role == Role::Follower {
            each(FoundRecord::new(at, &head, number))?;
        }
        at += head.len() as u64;
    }
    Ok(())
}

/// What counts of a stretch that a scan found damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Salvage {
    Nothing,
    /// Records that are whole by themselves.
    WholeRecords,
}

/// Calls `each` for every record of every segment that counts under `cut`; returns the length up to the
/// last of them. Of what `scan` found damaged, what `salvage` says counts too. All else
/// passed its checks in the scan, and no thread writes meanwhile, so it is not verified again.
pub(crate) fn replay(
    media: &Media,
    Range { start, end }: Range<PmOffset>,
    scan: &ZoneScan,
    cut: Seq,
    salvage: Salvage,
    mut each: impl FnMut(FoundRecord) -> Result<()>,
) -> Result<u64> {
    let mut sealed = 0;
    let mut at = start;
    let mut heads: Vec<(PmOffset, RecordHead)> = Vec::new();
    let mut gaps = scan.gaps.iter().peekable();
    while at < end {
        if let Some(gap) = gaps.next_if(|gap| gap.at == at) {
            at += gap.len;
            if salvage == Salvage::WholeRecords {
                single(media, gap, cut, &mut each)?;
            }
            continue;
        }
        heads.clear();
        let found = segment(media, at, end, known, |at, head| heads.push((at, *head)));
        let (first, found) = found.ok_or_else(|| media.damaged(at))?;
        if first.commit_end() <= cut {
            for (at, head) in &heads {
                each(FoundRecord::new(*at, head, found.number))?;
            }
            sealed = found.end - start;
        }
        at = found.end;
    }
    Ok(sealed)
}

/// Calls `each` for the whole records of segments that are not whole.
fn single(
    media: &Media,
    gap: &Gap,
    cut: Seq,
    mut each: impl FnMut(FoundRecord) -> Result<()>,
) -> Result<()> {
    let (mut at, end) = (gap.at, gap.at + gap.len);
    while at < end {
        let Some(head) = checked(media, at, end) else {
            at += LINE as u64;
            continue;
        };
        if head.seq <= cut && head.role != Role::Moved {
            each(FoundRecord::new(at, &head, head.number()))?;
        }
        at += head.len() as u64;
    }
    Ok(())
}
