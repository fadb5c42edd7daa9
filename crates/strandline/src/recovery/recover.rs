//! The way back: from what persistent memory holds to an open store.
//!
//! - **O1** superblock, **O2** manifest: done by [`pool::Pool::open`] and [`ManifestState::replay`]
//! - **O3** scan the zones of live memtables in parallel, decide the cut, find what large commits left, make what is accepted durable
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

use crate::cache::pm::claim_zones;
use crate::hooks::{Advance, RecoveryStep};
use crate::keyspace::plugged::StoreHooks;
use crate::keyspace::subrange::SubrangeName;
use crate::keyspace::{KeyspaceMap, KeyspaceState, Keyspaces};
use crate::level0::run::{Run, RunDesc};
use crate::manifest::edit::Fate;
use crate::manifest::{KeyspaceDesc, Manifest, ManifestState, StoredOptions, file};
use crate::memtable::Memtable;
use crate::record::store::Media;
use crate::record::zone::{PendingFree, Zone};
use crate::recovery::adopt::{ScannedZone, adopt};
use crate::recovery::candidates::{candidates, scan_all};
use crate::recovery::decide::{RecoveryPlan, decide};
use crate::recovery::detect_loss::{LossSigns, signs_of_loss};
use crate::recovery::held_for_streams::{self, StreamSearch};
use crate::recovery::open_runs::{
    FoundKeyspace, OpenedRuns, Zones, granted, open_runs, order, subranges,
};
use crate::recovery::rebuild::{Rebuild, Rebuilt};
use crate::recovery::scan_zone::Salvage;
use crate::stream::kept::FoundStreams;
use crate::tree::Tree;
use crate::tree::table::Table;
use crate::tree::tables::Tables;
use crate::tree::tiers::OWN;

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

/// An open store's parts, ready to be put together.
pub(crate) struct Recovered {
    pub manifest: Manifest,
    pub keyspaces: Keyspaces,
    pub visible: Seq,
    pub pending_free: Arc<PendingFree>,
    pub tables: Option<Arc<Tables>>,
    /// Zones of the cache that an earlier open filled, oldest first.
    pub cache_zones: Vec<Arc<Zone>>,
    /// Change streams, and what is held for them.
    pub streams: FoundStreams,
    pub report: Report,
}

/// Whether a store may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Write,
    Read,
}

/// What recovery begins with.
pub(crate) struct RecoveryInput<'r> {
    pub media: &'r Arc<Media>,
    /// What the manifest log holds.
    pub payloads: &'r [Vec<u8>],
    /// Where dead space of the pool waits to become free.
    pub pending_free: Arc<PendingFree>,
    pub tables: Option<Arc<Tables>>,
    /// What the log of a store in DRAM did not give back to its memory.
    pub lost: Vec<Damage>,
    pub access: Access,
    pub threads: usize,
    pub hooks: &'r StoreHooks,
}

/// What was found of all keyspaces.
struct FoundSources {
    memtables: BTreeMap<SubrangeName, Arc<Memtable>>,
    /// By keyspace, newest first.
    runs: BTreeMap<u32, Vec<Arc<Run>>>,
    trees: BTreeMap<u32, Arc<Tree>>,
}

/// Recovers a store, in the steps above.
pub(crate) fn recover(input: RecoveryInput<'_>) -> Result<Recovered> {
    let begun = Instant::now();
    let RecoveryInput { media, payloads, pending_free, tables, lost, access, threads, hooks } =
        input;
    // O2: what the manifest names is claimed before anything else is looked at (I-POOL-1).
    let state = ManifestState::replay(payloads)?;
    let trees = open_trees(media, &state, tables.as_ref())?;
    if access == Access::Write {
        let _durable = media.pool.flush_log()?;
    }
    let mut zones = Zones::new(media, &pending_free);
    let OpenedRuns { runs, broken } = open_runs(media, &state, &mut zones)?;
    let candidates = candidates(media, &state, &zones);

    // O3: what counts is decided from all zones together. A damaged store is opened for reading only.
    let bytes_scanned = candidates.iter().map(|candidate| candidate.limit).sum();
    let scanning = Instant::now();
    let advance = Advance::new(hooks.recovery_progress(), RecoveryStep::Scan, bytes_scanned);
    let scans = scan_all(media, &candidates, state.floor, threads, &advance);
    let scan = scanning.elapsed();
    advance.end()?;
    let mut plan = decide(media, state.floor, &candidates, &scans);
    let zones_scanned = candidates.len() as u64;
    let scanned = adopt(media, candidates, scans, &mut plan);
    note_lost_zones(media, &state, &mut plan);
    broken.iter().for_each(|(desc, error)| note_lost_run(desc, error, &mut plan));
    note_signs_of_loss(media, &state, lost, &mut plan);
    plan.damage.extend(broken_tables(&trees, access, threads)?);
    if access == Access::Write {
        refuse_missing_values(&state, tables.as_deref())?;
    }
    let mut report = Report {
        zones_scanned,
        bytes_scanned,
        scan,
        survivors_dropped: plan.survivors,
        damage: std::mem::take(&mut plan.damage),
        edits_lost: plan.edits_lost,
        ..Report::default()
    };
    if !report.damage.is_empty() && access == Access::Write {
        return Err(refuse(media, &report.damage));
    }

    // O4: what counts becomes durable and goes back into memtables. Until O6 nothing relies on it.
    let found = FoundSources { memtables: empty_memtables(&scanned, &runs), runs, trees };
    let salvage = if report.damage.is_empty() { Salvage::Nothing } else { Salvage::WholeRecords };
    let rebuild = Rebuild {
        media,
        memtables: &found.memtables,
        decided: &plan,
        pending_free: &pending_free,
        access,
        salvage,
        threads,
    };
    let rebuilding = Instant::now();
    let bytes = scanned.iter().map(|zone| zone.candidate.limit).sum();
    let advance = Advance::new(hooks.recovery_progress(), RecoveryStep::Rebuild, bytes);
    let rebuilt = rebuild.all(&scanned, &mut zones, &advance)?;
    advance.end()?;
    (report.records, report.rebuild) = (rebuilt.records, rebuilding.elapsed());
    report.versions_passed = found.memtables.values().map(|memtable| memtable.index.passed()).sum();

    // What streams need is claimed, too.
    let memtables: Vec<Arc<Memtable>> = found.memtables.values().cloned().collect();
    let search = StreamSearch { media, state: &state, plan: &plan, memtables: &memtables, threads };
    let streams = search.find(&mut zones)?;

    // O5 and O6: space that nothing reaches is free, then one edit begins the new epoch. What the cache has is claimed last of all.
    let cache_zones = claim_cache_zones(media, &pending_free, tables.as_deref());
    report.zones_swept = sweep(media);
    let mut next = next_state(&state, plan.cut, rebuilt, &zones, hooks);
    held_for_streams::settle(&mut next, &streams, state.epoch, plan.cut);
    if access == Access::Write {
        report.tables_swept = close(media, &state, &next, tables.as_deref())?;
    }
    let keyspaces = found.into_keyspaces(media, &next, &plan, hooks);
    report.cut = plan.cut;
    report.elapsed = begun.elapsed();
    let manifest = Manifest::new(next);
    let visible = plan.cut;
    Ok(Recovered {
        manifest,
        keyspaces,
        visible,
        pending_free,
        tables,
        cache_zones,
        streams,
        report,
    })
}

/// Notes what shows that edits or lines of the zone table are gone, and what is `lost` besides: of any age and any keyspace.
fn note_signs_of_loss(
    media: &Media,
    state: &ManifestState,
    lost: Vec<Damage>,
    plan: &mut RecoveryPlan,
) {
    let LossSigns { damage, edits_lost } = signs_of_loss(media, state);
    plan.edits_lost = edits_lost;
    if !damage.is_empty() || !lost.is_empty() {
        plan.lost_anywhere = Some(Seq::MAX);
        plan.damage.extend(damage.into_iter().chain(lost));
    }
}

/// A memtable for each subrange that a candidate was granted for. Of two subranges that a key was in, the later one has the
/// greater identifier, and the newer versions.
fn empty_memtables(
    scanned: &[ScannedZone],
    runs: &BTreeMap<u32, Vec<Arc<Run>>>,
) -> BTreeMap<SubrangeName, Arc<Memtable>> {
    let owners: BTreeSet<SubrangeName> =
        scanned.iter().map(|zone| zone.candidate.owner()).collect();
    let memtable = |owner| (owner, Arc::new(Memtable::new(order(runs, owner))));
    owners.into_iter().map(memtable).collect()
}

/// What O6 makes durable: a new epoch that goes on behind `cut`, with the zones that are left.
fn next_state(
    state: &ManifestState,
    cut: Seq,
    rebuilt: Rebuilt,
    zones: &Zones<'_>,
    hooks: &StoreHooks,
) -> ManifestState {
    let mut next = state.clone();
    next.floor = cut;
    next.epoch += 1;
    continue_clock(&mut next, hooks);
    next.zones.retain(|no, (_, fate)| *fate == Fate::Frozen && zones.known.contains_key(no));
    next.zones.extend(rebuilt.live);
    next
}

impl FoundSources {
    /// The keyspaces of `state`, each with its part.
    fn into_keyspaces(
        mut self,
        media: &Media,
        state: &ManifestState,
        plan: &RecoveryPlan,
        hooks: &StoreHooks,
    ) -> Keyspaces {
        let mut keyspaces = KeyspaceMap::default();
        for (id, keyspace) in &state.keyspaces {
            let owner = |subrange| SubrangeName { keyspace: *id, subrange };
            let own = self.memtables.range(owner(0)..=owner(u32::MAX));
            let own = own.filter(|(_, memtable)| !memtable.is_empty());
            let found = FoundKeyspace {
                memtables: own
                    .map(|(owner, memtable)| (owner.subrange, Arc::clone(memtable)))
                    .collect(),
                runs: self.runs.remove(id).unwrap_or_default(),
                tree: self.trees.get(id).cloned().unwrap_or_default(),
            };
            let subranges = subranges(media, keyspace, &found);
            let (name, lost) = (&keyspace.name, plan.lost_from(*id));
            let StoredOptions { options, tiers } = &keyspace.options;
            let space = KeyspaceState::new(*id, name, options, tiers, hooks, subranges, lost);
            keyspaces.insert(Arc::new(space));
        }
        Keyspaces::new(keyspaces)
    }
}

/// The store's clock goes on from where an edit left it (I-TTL-1). So it does where no keyspace has a time to live any more:
/// one that is created later judges by it, and so does the next open.
fn continue_clock(state: &mut ManifestState, hooks: &StoreHooks) {
    let left_at = if planted::is(Bug::ClockFallsAtOpen) { 0 } else { state.clock };
    hooks.clock().raise(left_at);
    if state.keyspaces.values().any(|keyspace| keyspace.options.options.ttl.is_some()) {
        state.clock = hooks.clock().now().millis();
    }
}

/// Refuses an open for writing where value files of a tier are not there: it would be taken for empty, and made anew.
fn refuse_missing_values(state: &ManifestState, tables: Option<&Tables>) -> Result<()> {
    let Some(tables) = tables else { return Ok(()) };
    let descs = state.value_files().map(|file| &file.desc).filter(|desc| desc.tier != OWN);
    for desc in descs {
        let len = tables.open_file(desc.file_place()).map(|file| file.len());
        match len {
            Ok(len) if len == desc.len => {}
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {
                let text = format!(
                    "{} is missing, or has another length; restore it, or open read-only to save the rest with `strandline repair`",
                    tables.path(desc.file_place()).display()
                );
                return Err(Error::corruption("open", text));
            }
        }
    }
    Ok(())
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
        let files = keyspace.levels.value_files();
        let values: BTreeMap<u64, _> = files
            .map(|file| Ok((file.desc.id, tables.claim_values(&file.desc)?)))
            .collect::<Result<_>>()?;
        let claimed = keyspace.levels.tables().map(|table| tables.claim(table, &values));
        let claimed = claimed.collect::<Result<Vec<_>>>()?;
        Ok((*id, Arc::new(Tree::new(&keyspace.levels, &Tree::default(), claimed))))
    };
    let trees = state.keyspaces.iter().map(tree).collect::<Result<_>>()?;
    #[cfg(feature = "planted")]
    let trees = plant_torn_tables(state, trees)?;
    Ok(trees)
}

/// A planted bug: tables that cannot be opened are left out.
#[cfg(feature = "planted")]
fn plant_torn_tables(
    state: &ManifestState,
    mut trees: BTreeMap<u32, Arc<Tree>>,
) -> Result<BTreeMap<u32, Arc<Tree>>> {
    if !planted::is(Bug::AcceptTornTable) {
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
    access: Access,
    threads: usize,
) -> Result<Vec<Damage>> {
    let tables: Vec<&Arc<Table>> =
        trees.values().flat_map(|tree| tree.tables().map(|(_, table)| table)).collect();
    let opened = in_parallel(&tables, threads, |table| table.open().map(drop));
    let mut broken = Vec::new();
    for (table, opened) in tables.iter().zip(opened) {
        let Err(error) = opened else { continue };
        if error.kind() != ErrorKind::Corruption && access == Access::Write {
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

/// O6: one edit makes `next` follow `before`; then tables that it does not name go. Returns how many these were.
fn close(
    media: &Media,
    before: &ManifestState,
    next: &ManifestState,
    tables: Option<&Tables>,
) -> Result<u64> {
    let closing = if planted::is(Bug::SkipRecoveryEdit) { before } else { next };
    if let Some(tables) = tables {
        // Whatever the manifest names is there, so a directory that is gone had nothing in it.
        tables.claim_dirs(media.pool.id())?;
    }
    let _durable = media.pool.log_begin(&closing.encode_snapshot())?;
    let Some(tables) = tables else { return Ok(0) };
    tables.number_from(closing.next_table);
    file::remove(&*tables.table_dir.fs, tables.dir());
    tables.sweep(&closing.files())
}

/// Takes over zones of the cache, as many as it may have; a store that is only read has none, and leaves them as they are.
fn claim_cache_zones(
    media: &Media,
    pending_free: &Arc<PendingFree>,
    tables: Option<&Tables>,
) -> Vec<Arc<Zone>> {
    let share = tables.and_then(|tables| tables.cache.below()).map_or(0, |cache| cache.share());
    claim_zones(media, pending_free, share / media.pool.geometry().zone_len())
}

/// O5.
fn sweep(media: &Media) -> u64 {
    let swept = media.pool.sweep();
    u64::from(swept.granted + swept.torn)
}
