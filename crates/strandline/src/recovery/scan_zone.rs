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
        at = found.end;
    }
    if let Some(from) = gap {
        scan.gaps.push(Gap { at: from, len: end - from, before: None });
    }
    scan
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
