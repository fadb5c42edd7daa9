//! What recovery reaches from the manifest: zones and extents are claimed, runs opened, and subranges put together
//! from what was found. Nothing is rebuilt here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::planted::{self, Bug};
use base::{Error, ErrorKind, PmOffset, Result};
use pool::{HeaderState, ZoneHeader};

use crate::keyspace::subrange::{Subrange, SubrangeName};
use crate::keyspace::view::View;
use crate::level0::run::{Run, RunDesc, ZoneUse, load_meta};
use crate::manifest::{KeyspaceDesc, ManifestState, RunState};
use crate::memtable::Memtable;
use crate::record::extent::ExtentHold;
use crate::record::store::Media;
use crate::record::zone::{PendingFree, Zone};
use crate::span::Span;
use crate::tree::Tree;

/// Zones by number, and extents of values by place, each claimed once: several runs may name one.
pub(crate) struct Zones<'m> {
    media: &'m Media,
    pending_free: Arc<PendingFree>,
    pub(crate) known: BTreeMap<u32, Arc<Zone>>,
    extents: BTreeMap<PmOffset, Arc<ExtentHold>>,
}

impl Zones<'_> {
    pub(crate) fn new<'m>(media: &'m Media, pending_free: &Arc<PendingFree>) -> Zones<'m> {
        let pending_free = Arc::clone(pending_free);
        Zones { media, pending_free, known: BTreeMap::new(), extents: BTreeMap::new() }
    }

    /// Claims the extent of a value.
    pub(crate) fn hold(&mut self, extent: pool::Extent) -> Result<Arc<ExtentHold>> {
        if let Some(hold) = self.extents.get(&extent.at).filter(|hold| hold.extent() == extent) {
            return Ok(Arc::clone(hold));
        }
        let hold = Arc::new(ExtentHold::claim(&self.media.pool, &self.pending_free, extent)?);
        self.extents.insert(extent.at, Arc::clone(&hold));
        Ok(hold)
    }

    /// Claims zone `no` under `incarnation`.
    pub(crate) fn claim(&mut self, no: u32, header: &ZoneHeader) -> Result<Arc<Zone>> {
        if let Some(zone) = self.known.get(&no) {
            return Ok(Arc::clone(zone));
        }
        let pool = &self.media.pool;
        pool.claim_zone(no)?;
        let start = pool.geometry().zone_at(no);
        let incarnation = header.incarnation();
        let _first = self.media.set_zone(no, incarnation, header.base_seq);
        let range = start..start + pool.geometry().zone_len();
        let zone =
            Zone::new(header.kind, no, incarnation, range, header.base_seq, &self.pending_free);
        self.known.insert(no, Arc::clone(&zone));
        Ok(zone)
    }
}

/// The runs that the manifest names.
#[derive(Default)]
pub(crate) struct OpenedRuns<'s> {
    /// By keyspace, newest first.
    pub runs: BTreeMap<u32, Vec<Arc<Run>>>,
    /// Those that cannot be opened.
    pub broken: Vec<(&'s RunDesc, Error)>,
}

/// O2, second half: opens the runs that the manifest names; nothing is rebuilt.
pub(crate) fn open_runs<'s>(
    media: &Media,
    state: &'s ManifestState,
    zones: &mut Zones<'_>,
) -> Result<OpenedRuns<'s>> {
    let mut opened = OpenedRuns::default();
    for (id, keyspace) in &state.keyspaces {
        let mut runs: Vec<Arc<Run>> = Vec::new();
        for RunState { desc, .. } in keyspace.runs.values() {
            match open_run(media, desc, zones) {
                Ok(run) => runs.push(Arc::new(run)),
                Err(error) if error.kind() == ErrorKind::Corruption => {
                    opened.broken.push((desc, error));
                }
                Err(error) => return Err(error),
            }
        }
        runs.sort_by_key(|run| std::cmp::Reverse(run.desc.order));
        opened.runs.insert(*id, runs);
    }
    Ok(opened)
}

fn open_run(media: &Media, desc: &RunDesc, zones: &mut Zones<'_>) -> Result<Run> {
    let claim =
        |extent: &pool::Extent| ExtentHold::claim(&media.pool, &zones.pending_free, *extent);
    let space: Vec<ExtentHold> = desc.extents().map(claim).collect::<Result<_>>()?;
    let (fences, meta) = load_meta(media, desc)?;
    let mut uses = Vec::with_capacity(meta.zones.len());
    for (no, incarnation, live_bytes) in &meta.zones {
        let header = granted(media, *no).filter(|header| header.incarnation() == *incarnation);
        let Some(header) = header else {
            return Err(Error::corruption(
                "open",
                format!(
                    "zone {no} of {}, which index run {} names, has another header; restore a copy of the pool",
                    media.region.describe(),
                    desc.id
                ),
            ));
        };
        uses.push(ZoneUse { zone: zones.claim(*no, &header)?, live_bytes: *live_bytes });
    }
    let mut holds = Vec::with_capacity(meta.extents.len());
    for extent in meta.extents {
        holds.push(zones.hold(extent)?);
    }
    let run = Run::new(media, desc.clone(), fences, uses, holds, meta.ranges, space);
    run.set_installed();
    Ok(run)
}

pub(crate) fn granted(media: &Media, no: u32) -> Option<ZoneHeader> {
    if no >= media.pool.geometry().zones() {
        return None;
    }
    match media.pool.header(no) {
        HeaderState::Granted(header) => Some(header),
        _ => None,
    }
}

/// Age of a recovered memtable: newer than every run of the keyspace, and than memtables of older subranges.
pub(crate) fn order(runs: &BTreeMap<u32, Vec<Arc<Run>>>, owner: SubrangeName) -> u64 {
    let SubrangeName { keyspace, subrange } = owner;
    let within = if planted::is(Bug::RecoverInReverse) { u32::MAX - subrange } else { subrange };
    let newest = runs.get(&keyspace).and_then(|runs| runs.iter().map(|run| run.desc.order).max());
    newest.unwrap_or(0) + 1 + u64::from(within)
}

/// What was found of a keyspace.
pub(crate) struct FoundKeyspace {
    /// With the subranges that their zones were granted for.
    pub memtables: Vec<(u32, Arc<Memtable>)>,
    /// Newest first.
    pub runs: Vec<Arc<Run>>,
    pub tree: Arc<Tree>,
}

/// The subranges of a keyspace, each with what it reads. Records of a subrange that was replaced since are routed by
/// their keys.
pub(crate) fn subranges(
    media: &Media,
    keyspace: &KeyspaceDesc,
    found: &FoundKeyspace,
) -> Vec<Arc<Subrange>> {
    let exists = |id: &u32| keyspace.subranges.values().any(|known| known == id);
    let mut uppers = keyspace.subranges.keys().skip(1).cloned();
    let mut all = Vec::new();
    for (lower, id) in &keyspace.subranges {
        let span = Span { lower: lower.clone(), upper: uppers.next() };
        let reads = |(owner, memtable): &&(u32, Arc<Memtable>)| {
            if exists(owner) { owner == id } else { shares(media, memtable, &span) }
        };
        let memtables = found.memtables.iter().filter(reads);
        let mut memtables: Vec<Arc<Memtable>> =
            memtables.map(|(_, memtable)| Arc::clone(memtable)).collect();
        memtables.sort_by_key(|memtable| std::cmp::Reverse(memtable.order));
        let named = |run: &&Arc<Run>| {
            keyspace.runs.get(&run.desc.id).is_some_and(|run| run.subranges.contains(id))
        };
        let runs = found.runs.iter().filter(named).cloned().collect();
        let sources = View::first(memtables, runs, Arc::clone(&found.tree));
        all.push(Arc::new(Subrange::new(*id, span, sources)));
    }
    all
}

/// Whether the subrange of `span` reads a memtable whose own subrange was replaced. From now on that is shared.
fn shares(media: &Media, memtable: &Memtable, span: &Span) -> bool {
    let for_one = planted::is(Bug::RecoverForOne);
    let again = memtable.shared.swap(true, Relaxed);
    if again && for_one {
        return false;
    }
    // One without keys has zones all the same: the first holds them until it is flushed. Of one that is damaged, a read
    // meets the damage.
    let bounds = memtable.bounds(media).map(Option::unwrap_or_default);
    bounds.map_or(true, |bounds| span.overlaps(bounds.as_ref()))
}
