//! Zones that may hold records of memtables, and O3's scan of them all.

use base::Seq;
use base::planted::{self, Bug};
use pool::{ZoneHeader, ZoneKind};

use crate::hooks::Advance;
use crate::keyspace::subrange::SubrangeName;
use crate::manifest::ManifestState;
use crate::manifest::edit::Fate;
use crate::record::store::Media;
use crate::recovery::open_runs::{Zones, granted};
use crate::recovery::recover::in_parallel;
use crate::recovery::scan_zone::{self, ZoneScan};

/// A zone that may hold records of a memtable.
pub(crate) struct CandidateZone {
    pub no: u32,
    pub header: ZoneHeader,
    /// Bytes that count at most.
    pub limit: u64,
    /// Whether an earlier open accepted everything up to the limit.
    pub sealed: bool,
    pub content: ZoneContent,
}

/// What a zone holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ZoneContent {
    /// Segments of commits. Which of them count, their numbers tell.
    Segments,
    /// Records of a large commit up to some length, and perhaps its adopt record behind them. What counts is known once the
    /// adopt records are: see [`crate::recovery::adopt`].
    Staged { records_to: u64, sealed: u64 },
}

impl CandidateZone {
    /// The subrange that it was granted for.
    pub(crate) fn owner(&self) -> SubrangeName {
        SubrangeName { keyspace: self.header.keyspace, subrange: self.header.subrange }
    }
}

/// Zones that belong to memtables: the manifest alone says what a zone is, so one that it froze or retired
/// under this incarnation is not among them, whatever its word says.
pub(crate) fn candidates(
    media: &Media,
    state: &ManifestState,
    zones: &Zones<'_>,
) -> Vec<CandidateZone> {
    let zone_len = media.pool.geometry().zone_len();
    let mut found = Vec::new();
    for no in 0..media.pool.geometry().zones() {
        let Some(header) = granted(media, no) else { continue };
        let (limit, sealed) = match fate_of(state, no, &header) {
            Some(Fate::Live { sealed, .. }) => (*sealed, true),
            Some(Fate::Frozen | Fate::Retired) => continue,
            None => (zone_len, false),
        };
        let content = match header.kind {
            ZoneKind::Memtable => ZoneContent::Segments,
            ZoneKind::Staged => ZoneContent::Staged { records_to: 0, sealed: 0 },
            ZoneKind::Clean | ZoneKind::Cache => continue,
        };
        let usable = state.keyspaces.contains_key(&header.keyspace)
            && limit <= zone_len
            && !is_named_by_run(zones, no);
        if usable {
            let _first = media.set_zone(no, header.incarnation(), header.base_seq);
            found.push(CandidateZone { no, header, limit, sealed, content });
        }
    }
    found
}

/// What an edit made of zone `no` under this incarnation, if one did.
fn fate_of<'s>(state: &'s ManifestState, no: u32, header: &ZoneHeader) -> Option<&'s Fate> {
    let ignores_sealed = planted::is(Bug::IgnoreSealedLength);
    let rescans_retired = planted::is(Bug::RescanRetiredZone);
    let (incarnation, fate) = state.zones.get(&no)?;
    let forgotten = match fate {
        Fate::Live { .. } => ignores_sealed,
        Fate::Frozen | Fate::Retired => rescans_retired,
    };
    (*incarnation == header.incarnation() && !forgotten).then_some(fate)
}

fn is_named_by_run(zones: &Zones<'_>, no: u32) -> bool {
    !planted::is(Bug::RescanRetiredZone) && zones.known.contains_key(&no)
}

/// O3, first half.
pub(crate) fn scan_all(
    media: &Media,
    candidates: &[CandidateZone],
    floor: Seq,
    threads: usize,
    advance: &Advance<'_>,
) -> Vec<ZoneScan> {
    in_parallel(candidates, threads, |candidate| {
        let start = media.pool.geometry().zone_at(candidate.no);
        let zone = start..start + candidate.limit;
        let scan = match candidate.content {
            ZoneContent::Segments => scan_zone::scan(media, zone, floor),
            ZoneContent::Staged { .. } => scan_zone::scan_staged(media, zone, floor),
        };
        advance.by(candidate.limit);
        scan
    })
}
