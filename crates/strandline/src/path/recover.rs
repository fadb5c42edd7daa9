//! The way back: from what persistent memory holds to an open store.
//!
//! - **O1** superblock, **O2** manifest: done by [`pool::Pool::open`] and [`State::replay`]
//! - **O3** scan the zones of live memtables in parallel, decide the cut, make what is accepted durable
//! - **O4** rebuild the indexes in parallel
//! - **O5** sweep what nothing reaches
//! - **O6** one edit: new epoch, the cut, the sealed length of every live zone
//!
//! Everything before O6 writes nothing but flushes and cleared words of unreachable zones, so a crash on
//! the way changes nothing about the result. A read-only open stops after O4 and writes nothing at all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base::planted::{self, Bug};
use base::{Error, LINE, Result, Seq};
use pmem::Site;
use pool::{HeaderState, ZoneHeader, ZoneKind};

use super::scan_zone::{self, Found, ZoneScan};
use crate::keyspace::Space;
use crate::level0::run::{Run, RunDesc, ZoneUse, load_meta};
use crate::manifest::edit::Fate;
use crate::manifest::{Manifest, State};
use crate::media::{Leaf, Media, hash};
use crate::memtable::Memtable;
use crate::memtable::record::{ExtentRef, Kind};
use crate::memtable::zone::{ExtentHold, Graveyard, Zone};
use crate::view::View;

/// What an open found and did.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Zones scanned for records of memtables.
    pub zones_scanned: u64,
    /// Records put back into memtables.
    pub records: u64,
    /// Valid commits that were dropped because an older one was lost.
    pub survivors_dropped: u64,
    /// Zones that nothing reached and whose words were cleared.
    pub zones_swept: u64,
    /// Last sequence number that counts.
    pub cut: Seq,
    /// Records that were acknowledged and are damaged or lost.
    pub damage: Vec<Damage>,
    /// How long the open took.
    pub elapsed: Duration,
}

/// A place where acknowledged bytes do not check out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Zone number, where it is known.
    pub zone: Option<u32>,
    /// Offset in the pool.
    pub at: u64,
    /// Bytes affected.
    pub len: u64,
    /// What is wrong.
    pub what: String,
}

/// A zone that may hold records of a memtable.
struct Candidate {
    no: u32,
    header: ZoneHeader,
    /// Bytes that count at most.
    limit: u64,
    /// Whether an earlier open accepted everything up to the limit.
    sealed: bool,
}

/// An open store's parts, ready to be put together.
pub(crate) struct Recovered {
    pub manifest: Manifest,
    pub spaces: BTreeMap<u32, Arc<Space>>,
    pub visible: Seq,
    pub graveyard: Arc<Graveyard>,
    pub report: Report,
}

/// Zones by number, each made once.
struct Zones<'m> {
    media: &'m Media,
    graveyard: Arc<Graveyard>,
    known: BTreeMap<u32, Arc<Zone>>,
}

impl Zones<'_> {
    /// Claims zone `no` under `incarnation`.
    fn claim(&mut self, no: u32, header: &ZoneHeader) -> Result<Arc<Zone>> {
        if let Some(zone) = self.known.get(&no) {
            return Ok(Arc::clone(zone));
        }
        let pool = &self.media.pool;
        pool.claim_zone(no)?;
        let start = pool.geometry().zone_at(no);
        let incarnation = header.incarnation();
        let _first = self.media.set_zone(no, incarnation, header.base_seq);
        let range = start..start + pool.geometry().zone_len();
        let zone = Zone::new(no, incarnation, range, header.base_seq, &self.graveyard);
        self.known.insert(no, Arc::clone(&zone));
        Ok(zone)
    }
}

/// Recovers from a pool whose manifest log holds `payloads`.
pub(crate) fn recover(
    media: &Arc<Media>,
    payloads: &[Vec<u8>],
    read_only: bool,
    threads: usize,
) -> Result<Recovered> {
    let begun = Instant::now();
    let mut state = State::replay(payloads)?;
    if !read_only {
        let _durable = media.pool.flush_log()?;
    }
    let graveyard = Arc::new(Graveyard::default());
    let mut zones = Zones { media, graveyard: Arc::clone(&graveyard), known: BTreeMap::new() };
    let mut runs = open_runs(media, &state, &mut zones)?;
    let candidates = candidates(media, &state, &zones);

    let scans = scan_all(media, &candidates, state.floor, threads);
    let (decided, mut report) = decide(media, &state, &candidates, &scans);
    report.zones_scanned = candidates.len() as u64;

    let memtables: BTreeMap<u32, Arc<Memtable>> = candidates
        .iter()
        .map(|candidate| candidate.header.keyspace)
        .collect::<BTreeSet<u32>>()
        .into_iter()
        .map(|keyspace| (keyspace, Arc::new(Memtable::new(order(&runs, keyspace), Vec::new()))))
        .collect();
    let rebuild = Rebuild { media, memtables: &memtables, decided: &decided, read_only };
    let rebuilt = in_parallel(&candidates, threads, |candidate| rebuild.zone(candidate, &graveyard));
    let mut live = BTreeMap::new();
    for (candidate, rebuilt) in candidates.iter().zip(rebuilt) {
        let (records, sealed) = rebuilt?;
        report.records += records;
        if sealed == 0 && !candidate.sealed {
            continue;
        }
        let zone = zones.claim(candidate.no, &candidate.header)?;
        let keyspace = candidate.header.keyspace;
        live.insert(candidate.no, (zone.incarnation, Fate::Live { keyspace, sealed }));
        if let Some(memtable) = memtables.get(&keyspace) {
            memtable.bytes.fetch_add(sealed, Relaxed);
            memtable.last_seq.store(decided.cut, Relaxed);
            memtable.push_zone(zone);
        }
    }
    if !read_only {
        if !report.damage.is_empty() {
            return Err(refuse(media, &report.damage));
        }
    }
    report.zones_swept = sweep(media);
    state.floor = decided.cut;
    let frozen = |(no, (_, fate)): &(&u32, &(u64, Fate))| {
        *fate == Fate::Frozen && zones.known.contains_key(no)
    };
    let kept: BTreeMap<u32, (u64, Fate)> =
        state.zones.iter().filter(frozen).map(|(no, fate)| (*no, *fate)).collect();
    let before = state.clone();
    state.zones = kept;
    state.zones.extend(live);
    state.epoch += 1;
    if !read_only {
        let closing = if planted::is(Bug::SkipRecoveryEdit) { &before } else { &state };
        let _durable = media.pool.log_begin(&closing.encode_snapshot())?;
    }
    let damaged = !report.damage.is_empty();
    let spaces = state
        .keyspaces
        .iter()
        .map(|(id, keyspace)| {
            let memtable = memtables.get(id).filter(|memtable| !memtable.is_empty()).cloned();
            let runs = runs.remove(id).unwrap_or_default();
            (*id, open_space(*id, &keyspace.name, memtable, runs, damaged))
        })
        .collect();
    report.cut = decided.cut;
    report.elapsed = begun.elapsed();
    let manifest = Manifest { state };
    Ok(Recovered { manifest, spaces, visible: decided.cut, graveyard, report })
}

fn refuse(media: &Media, damage: &[Damage]) -> Error {
    let first = &damage[0];
    Error::corruption(
        "open",
        format!(
            "{} places of {} are damaged; first: zone {:?}, offset {}, {} bytes: {}; open read-only to \
             save what is left, `strandline check` lists all",
            damage.len(),
            media.region.describe(),
            first.zone,
            first.at,
            first.len,
            first.what
        ),
    )
}

/// Age of a memtable that is newer than every run of the keyspace.
fn order(runs: &BTreeMap<u32, Vec<Arc<Run>>>, keyspace: u32) -> u64 {
    let newest = runs.get(&keyspace).and_then(|runs| runs.iter().map(|run| run.desc.order).max());
    newest.unwrap_or(0) + 1
}

fn open_space(
    id: u32,
    name: &str,
    memtable: Option<Arc<Memtable>>,
    runs: Vec<Arc<Run>>,
    damaged: bool,
) -> Arc<Space> {
    let newest = memtable.iter().map(|memtable| memtable.order);
    let order = newest.chain(runs.iter().map(|run| run.desc.order)).max().unwrap_or(0);
    let active = Arc::new(Memtable::new(order + 1, Vec::new()));
    let memtables = std::iter::once(active).chain(memtable).collect();
    let space = Space::new(id, name, View { number: 1, memtables, runs }, order + 1);
    space.damaged.store(damaged, Relaxed);
    Arc::new(space)
}

/// O2, second half: opens the runs that the manifest names; nothing is rebuilt.
fn open_runs(
    media: &Media,
    state: &State,
    zones: &mut Zones<'_>,
) -> Result<BTreeMap<u32, Vec<Arc<Run>>>> {
    let mut opened = BTreeMap::new();
    for (id, keyspace) in &state.keyspaces {
        let mut runs: Vec<Arc<Run>> = Vec::new();
        for desc in keyspace.runs.values() {
            runs.push(Arc::new(open_run(media, desc, zones)?));
        }
        runs.sort_by_key(|run| std::cmp::Reverse(run.desc.order));
        opened.insert(*id, runs);
    }
    Ok(opened)
}

fn open_run(media: &Media, desc: &RunDesc, zones: &mut Zones<'_>) -> Result<Run> {
    for extent in desc.extents() {
        media.pool.claim_extent(*extent)?;
    }
    let (fences, meta) = load_meta(media, desc)?;
    let mut uses = Vec::with_capacity(meta.zones.len());
    for (no, incarnation, live_bytes) in &meta.zones {
        let header = granted(media, *no).filter(|header| header.incarnation() == *incarnation);
        let Some(header) = header else {
            return Err(Error::corruption(
                "open",
                format!(
                    "zone {no} of {}, which index run {} names, has another header; restore a checkpoint",
                    media.region.describe(),
                    desc.id
                ),
            ));
        };
        uses.push(ZoneUse { zone: zones.claim(*no, &header)?, live_bytes: *live_bytes });
    }
    let mut holds = Vec::with_capacity(meta.extents.len());
    for extent in meta.extents {
        media.pool.claim_extent(extent)?;
        holds.push(ExtentHold::new(extent, &zones.graveyard));
    }
    let run = Run::new(media, desc.clone(), fences, uses, holds, &zones.graveyard);
    run.set_installed(true);
    Ok(run)
}

fn granted(media: &Media, no: u32) -> Option<ZoneHeader> {
    if no >= media.pool.geometry().zones() {
        return None;
    }
    match media.pool.header(no) {
        HeaderState::Granted(header) => Some(header),
        _ => None,
    }
}

/// Zones that belong to memtables: the manifest alone says what a zone is, so one that it froze or retired
/// under this incarnation is not among them, whatever its word says.
fn candidates(media: &Media, state: &State, zones: &Zones<'_>) -> Vec<Candidate> {
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
            found.push(Candidate { no, header, limit, sealed });
        }
    }
    found
}

/// Runs `work` over `items` on up to `threads` threads; results in the order of the items.
fn in_parallel<I: Sync, O: Send>(
    items: &[I],
    threads: usize,
    work: impl Fn(&I) -> O + Sync,
) -> Vec<O> {
    if threads <= 1 || items.len() <= 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicU64::new(0);
    let done: Mutex<Vec<(usize, O)>> = Mutex::new(Vec::with_capacity(items.len()));
    std::thread::scope(|scope| {
        for _ in 0..threads.min(items.len()) {
            scope.spawn(|| {
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
    candidates: &[Candidate],
    floor: Seq,
    threads: usize,
) -> Vec<ZoneScan> {
    in_parallel(candidates, threads, |candidate| {
        let start = media.pool.geometry().zone_at(candidate.no);
        scan_zone::scan(media, start, start + candidate.limit, floor)
    })
}

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
        for seq in first..first.saturating_add(count) {
            let Some(at) = seq.checked_sub(self.floor + 1) else { continue };
            let Some(word) = self.words.get_mut((at / 64) as usize) else { return };
            *word |= 1 << (at % 64);
        }
    }

    fn unmark(&mut self, seq: Seq) {
        if let Some(at) = seq.checked_sub(self.floor + 1) {
            if let Some(word) = self.words.get_mut((at / 64) as usize) {
                *word &= !(1 << (at % 64));
            }
        }
    }

    /// The last number before the first gap.
    fn contiguous(&self) -> Seq {
        let full = self.words.iter().take_while(|word| **word == u64::MAX).count();
        let rest = self.words.get(full).map_or(0, |word| word.trailing_ones());
        self.floor + full as u64 * 64 + u64::from(rest)
    }

    /// The highest number marked.
    fn last(&self) -> Option<Seq> {
        let at = self.words.iter().rposition(|word| *word != 0)?;
        Some(self.floor + at as u64 * 64 + 64 - u64::from(self.words[at].leading_zeros()))
    }
}

/// What O3 decided.
struct Decision {
    cut: Seq,
    /// Numbers of commits that count but are empty.
    voided: BTreeSet<Seq>,
}

/// O3, second half: the cut is the last commit before the first gap above the floor. A gap at or below
/// what some later commit saw published is not a torn tail but damage.
fn decide(
    media: &Media,
    state: &State,
    candidates: &[Candidate],
    scans: &[ZoneScan],
) -> (Decision, Report) {
    let floor = state.floor;
    // A contiguous stretch cannot be longer than the records that fit the zones.
    let span: u64 = candidates.iter().map(|c| c.limit / LINE as u64).sum();
    let mut present = Present::new(floor, span);
    let mut voided = BTreeSet::new();
    let mut parts: BTreeMap<Seq, (u32, u32, BTreeSet<u32>)> = BTreeMap::new();
    for scan in scans {
        scan.solos.iter().for_each(|(first, count)| present.mark(*first, *count));
        voided.extend(&scan.void_solos);
        for part in &scan.parts {
            let entry = parts
                .entry(part.number)
                .or_insert_with(|| (part.commit_records, part.segments, BTreeSet::new()));
            entry.2.insert(part.index);
            if part.void {
                voided.insert(part.number);
            }
        }
    }
    if planted::is(Bug::VoidIsHole) {
        voided.iter().for_each(|number| {
            parts.remove(number);
            present.unmark(*number);
        });
    }
    for (number, (records, segments, seen)) in &parts {
        let whole = seen.len() as u32 == *segments
            || voided.contains(number)
            || planted::is(Bug::AcceptPartialCommit);
        if whole {
            present.mark(*number, u64::from(*records));
        }
    }
    let cut = if planted::is(Bug::AcceptOverHole) {
        present.last().unwrap_or(floor)
    } else {
        present.contiguous()
    };
    let mut report = Report::default();
    for scan in scans {
        report.survivors_dropped += scan.newest.iter().filter(|newest| **newest > cut).count() as u64;
    }
    report.damage = damage(media, candidates, scans, cut, floor);
    (Decision { cut, voided }, report)
}

fn damage(
    media: &Media,
    candidates: &[Candidate],
    scans: &[ZoneScan],
    cut: Seq,
    floor: Seq,
) -> Vec<Damage> {
    let mut damage = Vec::new();
    let published = scans.iter().filter_map(|scan| scan.published).max().unwrap_or(0).max(floor);
    for (candidate, scan) in candidates.iter().zip(scans) {
        for gap in &scan.gaps {
            // Records of a zone lie in commit order: what lies before an acknowledged record, or inside
            // a sealed zone, was acknowledged too.
            let acknowledged = gap.before.is_some_and(|next| next <= published) || candidate.sealed;
            if acknowledged {
                damage.push(Damage {
                    zone: Some(candidate.no),
                    at: gap.at,
                    len: gap.len,
                    what: "records fail their checksum".into(),
                });
            }
        }
    }
    if published > cut && damage.is_empty() {
        damage.push(Damage {
            zone: None,
            at: media.pool.geometry().zone_at(0),
            len: 0,
            what: format!("commits {}..={published} were published and are missing", cut + 1),
        });
    }
    damage
}

/// O3's flushes and O4, a zone at a time.
struct Rebuild<'r> {
    media: &'r Media,
    memtables: &'r BTreeMap<u32, Arc<Memtable>>,
    decided: &'r Decision,
    read_only: bool,
}

impl Rebuild<'_> {
    /// Puts the records of one zone back; returns their number and the length up to the last that counts.
    fn zone(&self, candidate: &Candidate, graveyard: &Arc<Graveyard>) -> Result<(u64, u64)> {
        let media = self.media;
        let Some(memtable) = self.memtables.get(&candidate.header.keyspace) else {
            return Ok((0, 0));
        };
        let start = media.pool.geometry().zone_at(candidate.no);
        let mut batch: Vec<Found> = Vec::with_capacity(scan_zone::BATCH);
        let mut count = 0;
        let sealed =
            scan_zone::replay(media, start, start + candidate.limit, self.decided.cut, |found| {
                if !self.decided.voided.contains(&found.number) && !found.void {
                    batch.push(found);
                    count += 1;
                }
                if batch.len() == scan_zone::BATCH {
                    insert(media, memtable, &mut batch, graveyard)?;
                }
                Ok(())
            })?;
        insert(media, memtable, &mut batch, graveyard)?;
        if !self.read_only && sealed > 0 && !planted::is(Bug::SkipAcceptedFlush) {
            let flushed = media.region.flush_range(Site::RecoverAccepted, start, sealed as usize);
            let _durable = media.region.fence(flushed);
        }
        Ok((count, sealed))
    }
}

fn insert(
    media: &Media,
    memtable: &Memtable,
    batch: &mut Vec<Found>,
    graveyard: &Arc<Graveyard>,
) -> Result<()> {
    let keys: Vec<&[u8]> = batch.iter().map(|found| found.key(media)).collect();
    memtable.index.warm(&keys);
    for (found, key) in batch.iter().zip(&keys) {
        let leaf = Leaf::new(found.at, found.len, hash(key));
        memtable.index.insert(media, key, found.seq, leaf.0);
        if found.kind == Kind::PutExtent {
            let extent = ExtentRef::decode(found.value(media))
                .and_then(|reference| media.pool.geometry().extent_len(reference.len).map(|len| (reference, len)))
                .map(|(reference, len)| pool::Extent { at: reference.at, len })
                .ok_or_else(|| media.damaged(found.at))?;
            media.pool.claim_extent(extent)?;
            memtable.hold_extent(ExtentHold::new(extent, graveyard));
        }
    }
    batch.clear();
    Ok(())
}

/// O5.
fn sweep(media: &Media) -> u64 {
    let swept = media.pool.sweep();
    u64::from(swept.granted + swept.torn)
}
