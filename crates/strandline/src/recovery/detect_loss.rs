//! Signs, in the zone table and the zones, that an edit of the manifest or a line of the table is lost: nothing else
//! would miss what went with it.

use base::LINE;
use pool::{ZoneHeader, ZoneKind};

use crate::manifest::ManifestState;
use crate::record::format::Role;
use crate::record::store::Media;
use crate::recovery::recover::Damage;

/// Incarnations tried at most, in one open, for zones whose lines are odd.
const TRIES_MAX: u64 = 1 << 22;

/// Where zones know more than the manifest in force, or than their own lines.
pub(crate) struct LossSigns {
    pub damage: Vec<Damage>,
    /// It is the manifest that is not whole.
    pub edits_lost: bool,
}

/// Looks for them.
pub(crate) fn signs_of_loss(media: &Media, state: &ManifestState) -> LossSigns {
    let zones = 0..media.pool.geometry().zones();
    let granted: Vec<(u32, ZoneHeader)> = zones
        .filter_map(|no| crate::recovery::open_runs::granted(media, no).map(|header| (no, header)))
        .collect();
    let mut signs: Vec<Damage> = Vec::new();
    for (no, header) in &granted {
        if let Some(what) = unknown_grant(header, state) {
            signs.push(at_line(media, *no, what.into()));
        }
    }
    let edits_lost = !signs.is_empty();
    // Grants of an open are counted from 0. Zones of earlier opens are in the manifest.
    let counts =
        |header: &ZoneHeader| header.epoch == state.epoch && header.kind != ZoneKind::Cache;
    let grants = granted.iter().filter(|(_, header)| counts(header));
    let last = grants.map(|(_, header)| u64::from(header.grant)).max().unwrap_or(0);
    let likely = last + 1 + u64::from(media.pool.geometry().zones());
    let mut tries = TRIES_MAX;
    for (no, named) in media.pool.odd_lines(state.epoch) {
        let first = u64::from(state.epoch) << 32;
        let tried = likely.min(tries);
        let Some(incarnation) = first_record(media, no, first..first + tried, &mut tries) else {
            continue;
        };
        let known = state.zones.get(&no).is_some_and(|(known, _)| *known == incarnation);
        // What a freed zone held stays in it.
        if !known && !named.contains(&incarnation) {
            let what = "the zone's header is lost, and there are records behind it";
            signs.push(at_line(media, no, what.into()));
        }
    }
    LossSigns { damage: signs, edits_lost }
}

fn at_line(media: &Media, no: u32, what: String) -> Damage {
    let at = media.pool.geometry().line_at(no);
    Damage { file: None, zone: Some(no), at: at.get(), len: LINE as u64, what }
}

/// An epoch, a keyspace and a subrange stand in a durable edit before the first zone is granted for them.
fn unknown_grant(header: &ZoneHeader, state: &ManifestState) -> Option<&'static str> {
    if header.epoch > state.epoch {
        return Some(
            "the zone was granted by a later open than the manifest knows of, which has lost edits",
        );
    }
    if header.kind == ZoneKind::Cache {
        return None;
    }
    if header.keyspace >= state.next_keyspace {
        return Some(
            "the zone was granted to a keyspace that the manifest does not know: it has lost edits",
        );
    }
    let keyspace = state.keyspaces.get(&header.keyspace)?;
    (header.subrange >= keyspace.next_subrange()).then_some(
        "the zone was granted to a subrange that the manifest does not know: it has lost edits",
    )
}

/// The incarnation, of those in the range, under which zone `no` begins with a record of a memtable.
fn first_record(
    media: &Media,
    no: u32,
    incarnations: std::ops::Range<u64>,
    tries: &mut u64,
) -> Option<u64> {
    let at = media.pool.geometry().zone_at(no);
    if media.region.bytes(at.get(), LINE).iter().all(|byte| *byte == 0) {
        return None;
    }
    *tries -= incarnations.end - incarnations.start;
    incarnations.into_iter().find(|incarnation| {
        let found = media.verified_under(at, *incarnation);
        found.is_some_and(|(head, _)| head.role != Role::Moved)
    })
}
