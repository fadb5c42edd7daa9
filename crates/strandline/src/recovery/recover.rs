//! The way back: from what persistent memory holds to an open store.
//!
//! - **O1** superblock, **O2** manifest: done by [`pool::Pool::open`] and [`ManifestState::replay`]
//! - **O3** scan the zones of live memtables in parallel, decide the cut, make what is accepted durable
//! - **O4** rebuild the indexes in parallel
//! - **O5** sweep what nothing reaches
//! - **O6** one edit: new epoch, the cut, the sealed length of every live zone
//!
//! Everything before O6 writes nothing but flushes, cleared words of unreachable zones, and whose the tables are, so a
//! crash on the way changes nothing about the result. A read-only open stops after O4 and writes nothing at all.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base::planted::{self, Bug};
use base::{Error, ErrorKind, LINE, Result, Seq};
use pool::{ZoneHeader, ZoneKind};

use crate::hooks::{Advance, RecoveryStep};
use crate::keyspace::plugged::StoreHooks;
use crate::keyspace::{KeyspaceMap, KeyspaceState, Keyspaces};
use crate::level0::run::RunDesc;
use crate::manifest::edit::Fate;
use crate::manifest::{KeyspaceDesc, Manifest, ManifestState, file};
use crate::memtable::Memtable;
use crate::record::store::Media;
use crate::record::zone::PendingFree;
use crate::recovery::decide::{RecoveryPlan, decide};
use crate::recovery::detect_loss::signs_of_loss;
use crate::recovery::open_runs::{
    FoundKeyspace, ZoneOwner, Zones, granted, open_runs, order, subranges,
};
use crate::recovery::rebuild::Rebuild;
use crate::recovery::scan_zone::{self, ZoneScan};
use crate::tree::Tree;
use crate::tree::table::Table;
use crate::tree::tables::Tables;

/// What an open found and did.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// Zones scanned for records of memtables.
    pub zones_scanned: u64,
    /// Bytes of these zones that were looked at.
    pub bytes_scanned: u64,
    /// How long scanning and verifying them took.
    pub scan: Duration,
    /// How long making what was accepted durable and rebuilding the indexes took.
    pub rebuild: Duration,
    /// Records put back into memtables.
    pub records: u64,
    /// Newer versions of their keys that these had to pass on the way to their places: none, since zones are taken in the
    /// order in which they were filled.
    pub versions_passed: u64,
    /// Zones in which whole commits were dropped because an older one was cut off.
    pub survivors_dropped: u64,
    /// Zones that nothing reached; an open for writing cleared their words.
    pub zones_swept: u64,
    /// Files of tables that the manifest does not name; an open for writing removed them.
    pub tables_swept: u64,
    /// Last sequence number that counts.
    pub cut: Seq,
    /// Records that were acknowledged and are damaged or lost.
    pub damage: Vec<Damage>,
    /// Zones show that the manifest is not the newest: keyspaces may be missing, and whatever is read may be stale.
    pub edits_lost: bool,
    /// How long the open took.
    pub elapsed: Duration,
}

/// A place where acknowledged bytes do not check out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// The file, if it is not the pool.
    pub file: Option<PathBuf>,
    /// Zone number, where it is known.
    pub zone: Option<u32>,
    /// Offset in the file or the pool.
    pub at: u64,
    /// Bytes affected.
    pub len: u64,
    /// What is wrong.
    pub what: String,
}

/// A zone that may hold records of a memtable.
pub(crate) struct CandidateZone {
    pub no: u32,
    pub header: ZoneHeader,
    /// Bytes that count at most.
    pub limit: u64,
    /// Whether an earlier open accepted everything up to the limit.
    pub sealed: bool,
}

impl CandidateZone {
    pub(crate) fn owner(&self) -> ZoneOwner {
        (self.header.keyspace, self.header.subrange)
    }
}

/// An open store's parts, ready to be put together.
pub(crate) struct Recovered {
    pub manifest: Manifest,
    pub keyspaces: Keyspaces,
    pub visible: Seq,
    pub pending_free: Arc<PendingFree>,
    pub tables: Option<Arc<Tables>>,
    pub report: Report,
}

/// Recovers from a pool whose manifest log holds `payloads`, and whose dead space waits there to become free; `lost` is what its
/// memory was not given back.
pub(crate) fn recover(
    media: &Arc<Media>,
    (payloads, pending_free): (&[Vec<u8>], Arc<PendingFree>),
    (tables, lost): (Option<Arc<Tables>>, Vec<Damage>),
    read_only: bool,
    threads: usize,
    hooks: &StoreHooks,
) -> Result<Recovered> {
    let begun = Instant::now();
    let mut state = ManifestState::replay(payloads)?;
    let trees = open_trees(media, &state, tables.as_ref())?;
    #[cfg(feature = "planted")]
    let trees = plant_torn_tables(&state, tables.as_ref(), trees)?;
    if !read_only {
        let _durable = media.pool.flush_log()?;
    }
    let mut zones = Zones::new(media, &pending_free);
    let (mut runs, broken) = open_runs(media, &state, &mut zones)?;
    let candidates = candidates(media, &state, &zones);

    let bytes_scanned = candidates.iter().map(|candidate| candidate.limit).sum();
    let scanning = Instant::now();
    let progress = hooks.recovery_progress();
    let advance = Advance::new(progress, RecoveryStep::Scan, bytes_scanned);
    let scans = scan_all(media, &candidates, state.floor, threads, &advance);
    let scan = scanning.elapsed();
    advance.end()?;
    let mut decided = decide(media, state.floor, &candidates, &scans);
    note_lost_zones(media, &state, &mut decided);
    broken.iter().for_each(|(desc, error)| note_lost_run(desc, error, &mut decided));
    let (signs, edits_lost) = signs_of_loss(media, &state);
    let signs: Vec<Damage> = signs.into_iter().chain(lost).collect();
    if !signs.is_empty() {
        // The lost data may be of any age.
        decided.lost_anywhere = Some(Seq::MAX);
        decided.damage.extend(signs);
    }
    decided.damage.extend(broken_tables(&trees, read_only, threads)?);
    let mut report = Report {
        zones_scanned: candidates.len() as u64,
        bytes_scanned,
        scan,
        survivors_dropped: decided.survivors,
        damage: std::mem::take(&mut decided.damage),
        edits_lost,
        ..Report::default()
    };
    if !report.damage.is_empty() && !read_only {
        return Err(refuse(media, &report.damage));
    }

    // Of two subranges that a key was in, the later one has the greater identifier, and the newer versions.
    let owners: BTreeSet<ZoneOwner> = candidates.iter().map(CandidateZone::owner).collect();
    let memtables: BTreeMap<ZoneOwner, Arc<Memtable>> = owners
        .into_iter()
        .map(|owner| (owner, Arc::new(Memtable::new(order(&runs, owner)))))
        .collect();
    let salvage = !report.damage.is_empty();
    let rebuild = Rebuild {
        media,
        memtables: &memtables,
        decided: &decided,
        pending_free: &pending_free,
        read_only,
        salvage,
        threads,
    };
    let rebuilding = Instant::now();
    let advance = Advance::new(progress, RecoveryStep::Rebuild, bytes_scanned);
    let rebuilt = rebuild.all((&candidates, &scans), &mut zones, &advance)?;
    advance.end()?;
    (report.records, report.rebuild) = (rebuilt.records, rebuilding.elapsed());
    report.versions_passed = memtables.values().map(|memtable| memtable.index.passed()).sum();
    report.zones_swept = sweep(media);
    let before = state.clone();
    state.floor = decided.cut;
    state.epoch += 1;
    continue_clock(&mut state, hooks);
    state.zones.retain(|no, (_, fate)| *fate == Fate::Frozen && zones.known.contains_key(no));
    state.zones.extend(rebuilt.live);
    if !read_only {
        let closing = if planted::is(Bug::SkipRecoveryEdit) { &before } else { &state };
        report.tables_swept = close(media, closing, tables.as_deref())?;
    }
    let mut keyspaces = KeyspaceMap::default();
    for (id, keyspace) in &state.keyspaces {
        let own = memtables.range((*id, 0)..=(*id, u32::MAX));
        let memtables = own.filter(|(_, memtable)| !memtable.is_empty());
        let found = FoundKeyspace {
            memtables: memtables.map(|((_, id), memtable)| (*id, Arc::clone(memtable))).collect(),
            runs: runs.remove(id).unwrap_or_default(),
            tree: trees.get(id).cloned().unwrap_or_default(),
        };
        let subranges = subranges(media, keyspace, &found);
        let lost = decided.lost_from(*id);
        let plugged = (&keyspace.options, hooks);
        let space = KeyspaceState::new(*id, &keyspace.name, plugged, subranges, lost);
        keyspaces.insert(Arc::new(space));
    }
    report.cut = decided.cut;
    report.elapsed = begun.elapsed();
    let manifest = Manifest::new(state);
    let keyspaces = Keyspaces::new(keyspaces);
    Ok(Recovered { manifest, keyspaces, visible: decided.cut, pending_free, tables, report })
}

/// The store's clock goes on from where an edit left it (I-TTL-1). So it does where no keyspace has a time to live any more:
/// one that is created later judges by it, and so does the next open.
fn continue_clock(state: &mut ManifestState, hooks: &StoreHooks) {
    let left_at = if planted::is(Bug::ClockFallsAtOpen) { 0 } else { state.clock };
    hooks.clock().raise(left_at);
    if state.keyspaces.values().any(|keyspace| keyspace.options.ttl.is_some()) {
        state.clock = hooks.clock().now().millis();
    }
}

fn refuse(media: &Media, damage: &[Damage]) -> Error {
    let first = &damage[0];
    Error::corruption(
        "open",
        format!(
            "{} is damaged: {} at offset {}{}, {} bytes: {}; open read-only to save what is left, `strandline \
             check` lists all",
            media.region.describe(),
            if damage.len() == 1 { "one place," } else { "several places, the first" },
            first.at,
            first.zone.map_or(String::new(), |zone| format!(" in zone {zone}")),
            first.len,
            first.what
        ),
    )
}

/// The tables that the manifest names, by keyspace; none of them is read yet.
fn open_trees(
    media: &Media,
    state: &ManifestState,
    tables: Option<&Arc<Tables>>,
) -> Result<BTreeMap<u32, Arc<Tree>>> {
    let Some(tables) = tables else {
        return match state.tables().count() {
            0 => Ok(BTreeMap::new()),
            count => Err(Error::new(
                ErrorKind::InvalidArgument,
                "open",
                format!(
                    "the store of {} has {count} tables on SSD, but neither its file STORE nor ssd says where; leave \
                     ssd out, or name their directory",
                    media.region.describe()
                ),
            )),
        };
    };
    let tree = |(id, keyspace): (&u32, &KeyspaceDesc)| {
        let claimed = keyspace.levels.tables().map(|table| tables.claim(table));
        let claimed = claimed.collect::<Result<Vec<_>>>()?;
        Ok((*id, Arc::new(Tree::new(&keyspace.levels, &Tree::default(), claimed))))
    };
    state.keyspaces.iter().map(tree).collect()
}

/// A planted bug: tables that cannot be opened are left out.
#[cfg(feature = "planted")]
fn plant_torn_tables(
    state: &ManifestState,
    tables: Option<&Arc<Tables>>,
    mut trees: BTreeMap<u32, Arc<Tree>>,
) -> Result<BTreeMap<u32, Arc<Tree>>> {
    if tables.is_none() || !planted::is(Bug::AcceptTornTable) {
        return Ok(trees);
    }
    let internal = |broken: &str| Error::new(ErrorKind::Internal, "open", broken);
    for (id, tree) in &mut trees {
        let mut levels = state.keyspaces[id].levels.clone();
        for (level, table) in tree.tables().filter(|(_, table)| table.open().is_err()) {
            levels.remove(level as u8, &table.desc.smallest, table.desc.id).map_err(internal)?;
        }
        *tree = Arc::new(Tree::new(&levels, tree, Vec::new()));
    }
    Ok(trees)
}

/// Tables that are missing, have another length, or whose ends do not decode. Reads that need them fail, others go on.
/// A device that does not answer is no damage: an open for writing returns what it said, an open for reading shows the
/// rest.
fn broken_tables(
    trees: &BTreeMap<u32, Arc<Tree>>,
    read_only: bool,
    threads: usize,
) -> Result<Vec<Damage>> {
    let tables: Vec<&Arc<Table>> =
        trees.values().flat_map(|tree| tree.tables().map(|(_, table)| table)).collect();
    let opened = in_parallel(&tables, threads, |table| table.open().map(drop));
    let mut broken = Vec::new();
    for (table, opened) in tables.iter().zip(opened) {
        let Err(error) = opened else { continue };
        if error.kind() != ErrorKind::Corruption && !read_only {
            return Err(error);
        }
        let what = error.context().to_owned();
        broken.push(Damage {
            file: table.path(),
            zone: None,
            at: table.start(),
            len: table.desc.len,
            what,
        });
    }
    Ok(broken)
}

/// Zones that belong to memtables: the manifest alone says what a zone is, so one that it froze or retired
/// under this incarnation is not among them, whatever its word says.
fn candidates(media: &Media, state: &ManifestState, zones: &Zones<'_>) -> Vec<CandidateZone> {
    let zone_len = media.pool.geometry().zone_len();
    let mut found = Vec::new();
    for no in 0..media.pool.geometry().zones() {
        let Some(header) = granted(media, no) else { continue };
        let fate = state.zones.get(&no).filter(|(known, _)| *known == header.incarnation());
        let (limit, sealed) = match fate.map(|(_, fate)| fate) {
            Some(Fate::Live { sealed, .. }) if !planted::is(Bug::IgnoreSealedLength) => {
                (*sealed, true)
            }
            Some(Fate::Frozen | Fate::Retired) if !planted::is(Bug::RescanRetiredZone) => continue,
            _ => (zone_len, false),
        };
        let usable = header.kind == ZoneKind::Memtable
            && state.keyspaces.contains_key(&header.keyspace)
            && limit <= zone_len
            && (!zones.known.contains_key(&no) || planted::is(Bug::RescanRetiredZone));
        if usable {
            let _first = media.set_zone(no, header.incarnation(), header.base_seq);
            found.push(CandidateZone { no, header, limit, sealed });
        }
    }
    found
}

/// Zones that an earlier open sealed and whose headers are gone: every record in them is lost.
fn note_lost_zones(media: &Media, state: &ManifestState, decided: &mut RecoveryPlan) {
    for (no, (incarnation, fate)) in &state.zones {
        let Fate::Live { keyspace, sealed } = *fate else { continue };
        let sound = granted(media, *no).is_some_and(|header| header.incarnation() == *incarnation);
        if sound || sealed == 0 || *no >= media.pool.geometry().zones() {
            continue;
        }
        decided.damage.push(Damage {
            file: None,
            zone: Some(*no),
            at: media.pool.geometry().line_at(*no).get(),
            len: LINE as u64,
            what: format!(
                "the zone's header fails its checksum; {sealed} bytes of records are lost"
            ),
        });
        decided.lost.entry(keyspace).or_default().add_unknown(state.floor);
    }
}

/// A run that cannot be opened: every record that it names is lost.
fn note_lost_run(desc: &RunDesc, error: &Error, decided: &mut RecoveryPlan) {
    let place = desc.meta.extents.first();
    decided.damage.push(Damage {
        file: None,
        zone: None,
        at: place.map_or(0, |extent| extent.at.get()),
        len: desc.meta.len,
        what: error.context().to_owned(),
    });
    decided.lost.entry(desc.keyspace).or_default().add_unknown(desc.max_seq);
}

/// Runs `work` over `items` on up to `threads` threads; results in the order of the items.
pub(crate) fn in_parallel<I: Sync, O: Send>(
    items: &[I],
    threads: usize,
    work: impl Fn(&I) -> O + Sync,
) -> Vec<O> {
    if threads <= 1 || items.len() <= 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicU64::new(0);
    let done: Mutex<Vec<(usize, O)>> = Mutex::new(Vec::with_capacity(items.len()));
    let heritage = planted::heritage();
    std::thread::scope(|scope| {
        for _ in 0..threads.min(items.len()) {
            scope.spawn(|| {
                heritage.accept();
                loop {
                    let at = next.fetch_add(1, Relaxed) as usize;
                    let Some(item) = items.get(at) else { return };
                    let result = work(item);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((at, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// O3, first half.
fn scan_all(
    media: &Media,
    candidates: &[CandidateZone],
    floor: Seq,
    threads: usize,
    advance: &Advance<'_>,
) -> Vec<ZoneScan> {
    in_parallel(candidates, threads, |candidate| {
        let start = media.pool.geometry().zone_at(candidate.no);
        let scan = scan_zone::scan(media, start..start + candidate.limit, floor);
        advance.by(candidate.limit);
        scan
    })
}

/// O6; then tables that it does not name go. Returns how many these were.
fn close(media: &Media, closing: &ManifestState, tables: Option<&Tables>) -> Result<u64> {
    if let Some(tables) = tables {
        // Whatever the manifest names is there, so a directory that is gone had nothing in it.
        tables.shelf.claim(media.pool.id())?;
    }
    let _durable = media.pool.log_begin(&closing.encode_snapshot())?;
    let Some(tables) = tables else { return Ok(0) };
    tables.number_from(closing.next_table);
    file::remove(&*tables.shelf.fs, tables.dir());
    tables.sweep(&closing.files())
}

/// O5.
fn sweep(media: &Media) -> u64 {
    let swept = media.pool.sweep();
    u64::from(swept.granted + swept.torn)
}
