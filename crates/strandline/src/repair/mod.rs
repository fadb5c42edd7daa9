//! Repair: what can still be read of a damaged store goes to a new one; what cannot is listed.
//!
//! - **S1** open what is left for reading, as the manifest knows it; or else take the tables and zones as they lie there
//! - **S2** walk every source past what is damaged, and note between which keys that was
//! - **S3** the newest version of each key, if it is no deletion, goes to the new store
//!
//! The old store is not changed. The new one is made in a directory beside its own, and gets its name when all is in it: it is
//! whole or not there.

mod losses;
mod orphan_zones;
mod salvage;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Error, ErrorKind, Result, Seq};
use ssd::Fs;
use sst::{EntryKind, RangeDelete};

use crate::cache::StoreCache;
use crate::engine::{Access, Engine};
use crate::hooks::Hooks;
use crate::iter::merging::MergingIterator;
use crate::keyspace::{KeyspaceState, is_own_name};
use crate::open::ground::{Ground, Machine};
use crate::open::open_dram::WAL;
use crate::open::store_file::{IDENTITY, IDENTITY_STAGED};
use crate::open::{self, POOL, Places, SST};
use crate::options::{KeyspaceOptions, Options, PmSource, SsdSource, TierSource, WalDir};
use crate::ranges::{Ranges, stretch};
use crate::record::format::Kind;
use crate::recovery::recover::Damage;
use crate::repair::losses::{Losses, SalvageCursor};
use crate::repair::orphan_zones::OrphanZones;
use crate::repair::salvage::{SalvagedEntries, SalvagedEntry, Stamps};
use crate::snapshot::Horizon;
use crate::tree::ahead::Probing;
use crate::tree::names::FileName;
use crate::tree::room::FileRoom;
use crate::tree::tables::Tables;
use crate::tree::tiers::{TierDir, same_file};
use crate::write::op::Op;
use crate::write::way::WriteWay;

const REPAIR: &str = "repair";

/// What a repair saved and what it could not.
///
/// ```
/// use strandline::{Db, Options, repair};
///
/// # fn main() -> strandline::Result<()> {
/// # let folder = std::env::temp_dir().join(format!("strandline-doc-repair-{}", std::process::id()));
/// let options = Options::default().pm_size(16 << 20);
/// let db = Db::open(folder.join("store"), options.clone())?;
/// db.put("apple", "red")?;
/// drop(db);
/// let report = repair(folder.join("store"), folder.join("repaired"), options.clone())?;
/// assert_eq!((report.records, report.lost.len()), (1, 0));
/// assert!(Db::open(folder.join("repaired"), options)?.contains_key("apple")?);
/// # std::fs::remove_dir_all(&folder).expect("gone");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairReport {
    /// Keyspaces of the new store.
    pub keyspaces: Vec<String>,
    /// Keys with their values in it.
    pub records: u64,
    /// What was lost. Keys within such a range may be missing, have an older value, or be there although they were
    /// deleted.
    pub lost: Vec<LostRange>,
}

/// Keys that damage affected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostRange {
    /// Name of the keyspace, where it is known.
    pub keyspace: Option<String>,
    /// The last key before, or the first of them; `None`: unknown, or from the first key on.
    pub from: Option<Vec<u8>>,
    /// The first key behind, or the last of them; `None`: unknown, or up to the last key.
    pub to: Option<Vec<u8>>,
    /// What is wrong, and where.
    pub reason: String,
}

/// Copies what can be read of the store, or checkpoint, at `path` to a new store at `to`. A lost `STORE` file, a damaged
/// pool, missing and damaged tables are no obstacle: what they had is listed as lost. `options` are those of the new
/// store; where `STORE` is lost, `pm` and `ssd` also say where the old one's pool and tables are, if they are paths.
///
/// # Errors
/// `Exists` if there is something at `to`; `Busy` if the store is open for writing; `NotFound` if there is nothing to
/// save; those of writing the new store.
pub fn repair(
    path: impl AsRef<Path>,
    to: impl AsRef<Path>,
    options: Options,
) -> Result<RepairReport> {
    repair_at(&Machine::here(), path.as_ref(), to.as_ref(), options)
}

/// The same, wherever the stores are.
pub(crate) fn repair_at(
    ground: &dyn Ground,
    path: &Path,
    to: &Path,
    options: Options,
) -> Result<RepairReport> {
    if ground.names().exists(to)? {
        let text = format!("{} is there already; name a new directory", to.display());
        return Err(Error::new(ErrorKind::Exists, REPAIR, text));
    }
    let places = open::places_left(ground, path, &options)?;
    let mut report = RepairReport::default();
    let mut left = Left::default();
    match open::open_what_is_left(ground, path, &places, &options) {
        Ok(engine) => left.gather(&engine, &mut report.lost)?,
        Err(error) if error.kind() == ErrorKind::Busy => return Err(error),
        Err(error) => left.gather_pieces(ground, &places, &options, error, &mut report.lost)?,
    }
    // The places of the old store are not those of the new one.
    let fresh = Options {
        pm: if options.pm == PmSource::Dram { PmSource::Dram } else { PmSource::Auto },
        tiers: TierSource::Auto,
        ssd: if options.ssd == SsdSource::None { SsdSource::None } else { SsdSource::Auto },
        wal_dir: WalDir::Auto,
        create_if_missing: true,
        ..options
    };
    let names = ground.names();
    let staging = staging(to)?;
    remove_staging(&*names, &staging)?;
    let written = left.make(ground, &staging, fresh, &mut report).and_then(|()| {
        names.rename(&staging, to)?;
        names.sync_dir(parent(to))
    });
    written.map(|()| report).inspect_err(|_| {
        // What cannot be removed now, the next repair to the same place removes.
        let _first_counts = remove_staging(&*names, &staging);
    })
}

fn parent(to: &Path) -> &Path {
    to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Where the store is made that goes to `to`.
fn staging(to: &Path) -> Result<PathBuf> {
    let Some(name) = to.file_name() else {
        let text = format!("{} names no new directory; give one a name", to.display());
        return Err(Error::new(ErrorKind::InvalidArgument, REPAIR, text));
    };
    let mut staging = name.to_owned();
    staging.push(".repairing");
    Ok(parent(to).join(staging))
}

/// Removes what a repair that was killed left at `staging`, if nothing else is there.
fn remove_staging(fs: &dyn Fs, staging: &Path) -> Result<()> {
    if !fs.exists(staging)? {
        return Ok(());
    }
    let names = fs.list(staging)?;
    let known = [POOL, IDENTITY, IDENTITY_STAGED, WAL, SST];
    if !names.iter().all(|name| known.contains(&name.as_str())) {
        let text =
            format!("{} is in the way and no repair left it; move it elsewhere", staging.display());
        return Err(Error::new(ErrorKind::Exists, REPAIR, text));
    }
    for name in names {
        let at = staging.join(&name);
        if name == WAL || name == SST {
            fs.list(&at)?.iter().try_for_each(|file| fs.remove(&at.join(file)))?;
            fs.remove_dir(&at)?;
        } else {
            fs.remove(&at)?;
        }
    }
    fs.remove_dir(staging)
}

/// Damage that took unknown keys.
fn lost_anywhere(damage: &Damage) -> LostRange {
    let place = match &damage.file {
        Some(file) => format!("offset {} of {}", damage.at, file.display()),
        None => format!("offset {} of the pool", damage.at),
    };
    let reason = format!("{place}: {}", damage.what);
    LostRange { keyspace: None, from: None, to: None, reason }
}

/// What is left of a store, by the name of the keyspace.
#[derive(Default)]
struct Left {
    keyspaces: BTreeMap<String, SalvageSources>,
}

/// Only the manifest had them.
const OPTIONS_LOST: &str = "the options of keyspaces, their merge operators among them; values of those with a time to live \
    expire no more, and begin with 8 bytes that said when";

/// What is left of a keyspace, from whatever place.
#[derive(Default)]
struct SalvageSources {
    /// Of the keyspace, where the manifest is known.
    options: KeyspaceOptions,
    entries: Vec<SalvagedEntries>,
    deletes: Vec<RangeDelete>,
}

impl Left {
    /// S1, as the manifest knows it.
    fn gather(&mut self, engine: &Arc<Engine>, lost: &mut Vec<LostRange>) -> Result<()> {
        // What is said of tables, the walk over them finds again. Nothing walks over segments of a log any more: what
        // they had is not in the memory that was made of them.
        let tables = engine.tables.as_ref().map(|tables| tables.dir());
        let is_table = |file: &Path| tables.is_some_and(|dir| file.parent() == Some(dir));
        let damage = engine.lifetime.recovered.damage.iter();
        let elsewhere = damage.filter(|damage| !damage.file.as_deref().is_some_and(is_table));
        lost.extend(elsewhere.map(lost_anywhere));
        for space in engine.keyspaces.all() {
            let sources = self.keyspaces.entry(space.name.clone()).or_default();
            sources.options = space.options_now(None);
            for subrange in space.subranges() {
                // Beyond its keys a shared source may hold what other subranges have dropped since.
                let (span, view) = (&subrange.span, subrange.view.load_full());
                let clip = |ranges: &Ranges| ranges.clip(span.from(), span.before());
                let newest = Horizon::only(Seq::MAX);
                for memtable in &view.memtables {
                    sources.deletes.extend(clip(&memtable.deletes.needed(&newest)).deletes());
                    let entries = salvage::memtable(&engine.media, memtable);
                    sources.entries.push(salvage::within(span, entries));
                }
                for run in &view.runs {
                    sources.deletes.extend(clip(&run.ranges).deletes());
                    sources.entries.push(salvage::within(span, salvage::run(&engine.media, run)));
                }
            }
            for (_, level) in space.tree().levels() {
                let mut tables = Vec::new();
                for table in &level.tables {
                    match table
                        .ranges()
                        .and_then(|ranges| Ok((ranges, table.uncached(Probing::Nothing)?)))
                    {
                        Ok((ranges, open)) => {
                            sources.deletes.extend(ranges.deletes());
                            let entries = salvage::table(open);
                            let values = Arc::clone(&space.tree().values);
                            tables.push(salvage::fetched(
                                values,
                                Stamps::Known(space.stamp_len()),
                                entries,
                            ));
                        }
                        Err(error) => lost.push(LostRange {
                            keyspace: Some(space.name.clone()),
                            from: Some(table.desc.smallest.clone()),
                            to: Some(table.desc.largest.clone()),
                            reason: error.context().to_owned(),
                        }),
                    }
                }
                sources.entries.push(Box::new(tables.into_iter().flatten()));
            }
        }
        Ok(())
    }

    /// S1 without a manifest: every table in the directory counts, also one that the store had done with, and every
    /// record in a zone.
    fn gather_pieces(
        &mut self,
        ground: &dyn Ground,
        places: &Places,
        options: &Options,
        error: Error,
        lost: &mut Vec<LostRange>,
    ) -> Result<()> {
        let own = open::present_table_dir(ground, places.tables.clone());
        // Which tier is which matters to the manifest only.
        let more = places.tiers.iter().zip(1..).map(|(dir, no)| {
            let at = open::present_table_dir(ground, dir.clone());
            TierDir { no, at, ..TierDir::own(own.clone()) }
        });
        let dirs = more.filter(|tier| !same_file(&tier.at.dir, &own.dir));
        let dirs = dirs.chain([TierDir::own(own.clone())]).collect();
        let tables = Tables::new(own, FileRoom::unlimited(), StoreCache::own(0)).with_tiers(dirs);
        let tables = Arc::new(tables);
        let ids = tables.present()?;
        let values = Arc::new(tables.loose_values()?);
        let memory = places.memory(ground, options).ok();
        let damage = memory.iter().flat_map(|(_, damage)| damage);
        let damage: Vec<LostRange> = damage.map(lost_anywhere).collect();
        let zones = memory.and_then(|(region, _)| OrphanZones::find(&region));
        let has_zones = zones.is_some();
        if ids.is_empty() && !has_zones {
            return Err(match error.kind() {
                ErrorKind::NotFound => places.nothing_left(error),
                _ => error,
            });
        }
        // Without a manifest nothing tells what was there, so the doubt is reported whatever is found.
        let unknown = |reason: String| LostRange { keyspace: None, from: None, to: None, reason };
        lost.push(unknown(match has_zones {
            true => format!(
                "tables and value files in the pool, if there were any, and which files and records of the pool counted: {error}"
            ),
            false => format!("what only the pool had, and which tables counted: {error}"),
        }));
        lost.push(unknown(OPTIONS_LOST.into()));
        lost.extend(damage);
        // Tables carry the names of their keyspaces; an ingested one knows neither its keyspace's number nor its age.
        let mut names = BTreeMap::from([(0, "default".to_owned())]);
        for place in ids.into_iter().filter(|at| matches!(at.name, FileName::Table(_))) {
            let path = tables.path(place);
            match salvage::lone_table(&tables, place) {
                Ok(found) => {
                    if found.ingested {
                        lost.push(unknown(format!(
                            "{} was ingested: its age is unknown, so it counts as the oldest",
                            path.display()
                        )));
                    } else if let Ok(id) = u32::try_from(found.keyspace_id) {
                        names.insert(id, found.keyspace.clone());
                    }
                    let sources = self.keyspaces.entry(found.keyspace).or_default();
                    sources.deletes.extend(found.deletes);
                    let values = Arc::clone(&values);
                    let entries = salvage::fetched(values, Stamps::Unknown, found.entries);
                    sources.entries.push(entries);
                }
                Err(error) => lost.push(unknown(error.to_string())),
            }
        }
        // Zones know numbers only: the tables' names first, a new name for the rest.
        for (id, deletes, entries) in zones.into_iter().flat_map(OrphanZones::spaces) {
            let name = names.get(&id).cloned().unwrap_or_else(|| {
                let name = format!("keyspace-{id}");
                lost.push(unknown(format!(
                    "the name of keyspace {id}, which is called {name} now"
                )));
                name
            });
            let sources = self.keyspaces.entry(name).or_default();
            sources.deletes.extend(deletes);
            sources.entries.push(entries);
        }
        // Their entries may be old ones, of transactions that were committed or rolled back long ago.
        self.keyspaces.retain(|name, _| {
            let own = is_own_name(name);
            if own {
                lost.push(unknown(format!("prepared transactions, and which had ended ({name})")));
            }
            !own
        });
        Ok(())
    }

    /// S2 and S3, to a new store at `staging`, durably.
    fn make(
        self,
        ground: &dyn Ground,
        staging: &Path,
        options: Options,
        report: &mut RepairReport,
    ) -> Result<()> {
        let engine = open::open_at(ground, staging, options, Hooks::default(), Access::Write)?;
        let written = self.write_to(&engine, report).and_then(|()| engine.sync_wal());
        written.and(engine.close())
    }

    fn write_to(self, engine: &Engine, report: &mut RepairReport) -> Result<()> {
        for (name, sources) in self.keyspaces {
            let space = match engine.keyspaces.named(&name) {
                // The store has `default`, without what was said of the places of its files.
                Some(space) => {
                    let places = KeyspaceOptions::new();
                    let placement = sources.options.placement;
                    engine.set_options(&space, &KeyspaceOptions { placement, ..places })?;
                    space
                }
                None => engine.create_space(&name, &sources.options)?,
            };
            report.keyspaces.push(name);
            sources.write_to(engine, &space, report)?;
        }
        Ok(())
    }
}

impl SalvageSources {
    fn write_to(
        self,
        engine: &Engine,
        space: &Arc<KeyspaceState>,
        report: &mut RepairReport,
    ) -> Result<()> {
        let deletes = self.deletes.iter().map(stretch);
        let ranges = Ranges::needed(deletes, &Horizon::only(Seq::MAX));
        let losses = Losses::new(&space.name);
        let cursors = self.entries.into_iter().map(|entries| SalvageCursor::new(entries, &losses));
        let mut merging = MergingIterator::new(&losses, cursors.collect());
        let mut batch = Pending::new(engine, space);
        // What counts of the key under way, newest first: operands, and the value that they belong to.
        let mut counts: Vec<SalvagedEntry> = Vec::new();
        let mut key: Option<Vec<u8>> = None;
        let mut settled = false;
        while let Some(entry) = merging.source().and_then(SalvageCursor::entry) {
            if key.as_ref() != Some(&entry.key) {
                report.records += batch.put_all(&mut counts)?;
                key = Some(entry.key.clone());
                settled = false;
            }
            if !settled {
                let deleted = ranges.newest(&entry.key, Seq::MAX) > entry.seq;
                settled = deleted || entry.kind != EntryKind::Merge;
                if !deleted && matches!(entry.kind, EntryKind::Merge | EntryKind::Value) {
                    counts.push(entry.clone());
                }
            }
            merging.advance(&losses)?;
        }
        report.lost.extend(losses.into_ranges());
        report.records += batch.put_all(&mut counts)?;
        batch.commit()
    }
}

/// Records on their way to the new store.
struct Pending<'e> {
    engine: &'e Engine,
    space: &'e Arc<KeyspaceState>,
    entries: Vec<SalvagedEntry>,
    bytes: u64,
}

impl<'e> Pending<'e> {
    fn new(engine: &'e Engine, space: &'e Arc<KeyspaceState>) -> Pending<'e> {
        Pending { engine, space, entries: Vec::new(), bytes: 0 }
    }

    /// Takes what counts of a key, oldest last; returns how many keys that were.
    fn put_all(&mut self, counts: &mut Vec<SalvagedEntry>) -> Result<u64> {
        let keys = u64::from(!counts.is_empty());
        counts.drain(..).rev().try_for_each(|entry| self.put(entry))?;
        Ok(keys)
    }

    fn put(&mut self, entry: SalvagedEntry) -> Result<()> {
        // With room for what is stored beside keys and values.
        let bytes = (entry.key.len() + entry.value.len() + 192) as u64;
        if self.bytes + bytes > self.engine.commit_bytes_max() {
            self.commit()?;
        }
        self.bytes += bytes;
        self.entries.push(entry);
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        let entries = std::mem::take(&mut self.entries);
        self.bytes = 0;
        if entries.is_empty() {
            return Ok(());
        }
        let op = |entry: &'_ SalvagedEntry| match entry.kind {
            EntryKind::Merge => Kind::Merge,
            _ => Kind::Put,
        };
        let ops =
            entries.iter().map(|entry| Op::new(self.space, op(entry), &entry.key, &entry.value));
        let mut ops: Vec<Op<'_>> = ops.collect();
        self.engine.commit(&mut ops, WriteWay::default()).map(|_seq| ())
    }
}
