//! Who owns the space of a store: every grain of the pool, and every file of a table, has one owner.
//!
//! Owners are found from what is reachable: Views, memtables and runs in them, tables, and what waits to be freed. What the
//! pool has handed out and none of them has is leaked; what two of them have is owned twice.
//!
//! **I-OWNER-1** Owners in memory are counted, and so are threads that carry space from or to its owner. Where more are alive
//! than are found, a get reads what nothing else leads to, or a job lets go of it: then nothing is said of leaks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base::{PmOffset, Result, Seq};
use pool::Extent;

use crate::engine::Engine;
use crate::keyspace::{KeyspaceState, ViewSources};
use crate::tree::Tree;
use crate::tree::desc::{TableDesc, ValueFileDesc};
use crate::tree::names::FilePlace;

/// Who owns a piece of space.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "keyspaces by name, the rest by number")]
#[non_exhaustive]
pub enum Owner {
    /// A zone with records.
    Zone { keyspace: String, no: u32 },
    /// A value outside its record.
    Value { keyspace: String },
    /// The index of a run.
    Run { keyspace: String, id: u64 },
    /// A table.
    Table { keyspace: String, id: u64 },
    /// A value file.
    Values { keyspace: String, id: u64 },
    /// A zone of the cache (`pm_cache`): it goes where others need it.
    Cache { no: u32 },
    /// A zone or value that only change streams need: it goes once they have passed what is in it, or where others need it.
    Streams,
    /// Areas of the manifest's log that are beyond the first.
    Manifest,
    /// Nothing names it any more; it is free when space is asked for next.
    Going,
    /// No owner, and the pool knows: it is handed out next.
    Free,
}

/// Where a piece of space is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Bytes of the pool.
    Pool(Extent),
    /// The file of a table or of values.
    File {
        /// The tier that it lies in; 0: the store's own directory of tables.
        tier: u32,
        /// Its number.
        id: u64,
    },
}

/// A piece of space that has an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    /// Where it is.
    pub place: Place,
    /// Whose it is.
    pub owner: Owner,
}

/// A piece of space that two have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubled {
    /// Where it is.
    pub place: Place,
    /// Who has it.
    pub owners: [Owner; 2],
}

/// Who owns what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpaceReport {
    /// All that is taken and has an owner.
    pub owned: Vec<Owned>,
    /// What is taken and has no owner. Empty unless the report is `whole`.
    pub leaked: Vec<Place>,
    /// What two have. Empty unless the report is `whole`.
    pub doubled: Vec<Doubled>,
    /// No call, iterator or background work had space in hand while this was found out; else nothing is said of leaks.
    pub whole: bool,
}

/// What sources and tables hold.
enum Holding<'t> {
    Zone(u32),
    Value(Extent),
    /// Of a run by its number, a piece of its index.
    Run(u64, Extent),
    Table(&'t TableDesc),
    Values(&'t ValueFileDesc),
}

/// Calls `each` once for all that `sources` and `trees` hold. Memtables and runs share zones and values: what has the same hold
/// of one is the same owner.
fn held<'t>(
    sources: &ViewSources,
    trees: impl IntoIterator<Item = &'t Tree>,
    mut each: impl FnMut(Holding<'_>),
) {
    let ViewSources { memtables, runs } = sources;
    let in_memtables = memtables.iter().flat_map(|memtable| memtable.zones());
    let in_runs = runs.iter().flat_map(|run| run.zones.iter().map(|used| Arc::clone(&used.zone)));
    let zones: BTreeMap<usize, u32> =
        in_memtables.chain(in_runs).map(|zone| (Arc::as_ptr(&zone).addr(), zone.no)).collect();
    zones.into_values().for_each(|no| each(Holding::Zone(no)));
    let in_memtables = memtables.iter().flat_map(|memtable| memtable.extents());
    let in_runs = runs.iter().flat_map(|run| run.extents.iter().cloned());
    let values = in_memtables.chain(in_runs);
    let values: BTreeMap<usize, Extent> =
        values.map(|hold| (Arc::as_ptr(&hold).addr(), hold.extent())).collect();
    values.into_values().for_each(|extent| each(Holding::Value(extent)));
    for run in runs {
        run.desc.extents().for_each(|extent| each(Holding::Run(run.desc.id, *extent)));
    }
    for tree in trees {
        tree.tables().for_each(|(_, table)| each(Holding::Table(&table.desc)));
        tree.values.iter().for_each(|live| each(Holding::Values(&live.file.desc_now())));
    }
}

/// Owners of space: values in memory whose end frees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Owners {
    /// Of zones and extents.
    pool: usize,
    /// Of tables, wherever they lie, and of value files.
    tables: usize,
}

/// What changes when space is taken or given back.
#[derive(PartialEq, Eq)]
struct Moment {
    next: Seq,
    space: pool::Space,
    /// All there are, whatever holds them: a get that reads an old View does, and nothing else leads there.
    owners: Owners,
    /// A commit, a call, an iterator or a compaction is under way, or space is between its owner and what is free.
    busy: bool,
}

/// How often is looked again where something is under way or seems to be leaked.
const LOOKS: u32 = 5;
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

impl Engine {
    /// Finds the owner of everything. The caller has begun a call.
    ///
    /// # Errors
    /// Those of the device that holds the tables.
    pub(crate) fn owners(&self) -> Result<SpaceReport> {
        let mut looks = 1;
        loop {
            let report = self.look_for_owners()?;
            let sound = report.whole && report.leaked.is_empty() && report.doubled.is_empty();
            if sound || looks == LOOKS {
                return Ok(report);
            }
            looks += 1;
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }

    /// Zones whose words say that they are granted but which neither a memtable nor a run holds, nor a stream: those that a merge
    /// under way moves records to are among them.
    #[cfg(feature = "steps")]
    pub(crate) fn leaked_zones(&self) -> u64 {
        self.reclaim();
        let mut held = BTreeSet::new();
        for (_, subrange) in self.keyspaces.subranges() {
            let view = subrange.view.load();
            held.extend(view.memtables.iter().flat_map(|m| m.zones()).map(|zone| zone.no));
            held.extend(view.runs.iter().flat_map(|run| &run.zones).map(|used| used.zone.no));
        }
        held.extend(self.cache_zones());
        held.extend(self.streams.all_held().0.iter().map(|kept| kept.zone().no));
        let geometry = self.media.pool.geometry();
        let granted = (0..geometry.zones())
            .filter(|no| !matches!(self.media.pool.header(*no), pool::HeaderState::Free));
        granted.filter(|no| !held.contains(no)).count() as u64
    }

    /// Tables and value files that the manifest does not name, those that are being written or whose file or extent has yet to go among
    /// them.
    #[cfg(feature = "steps")]
    pub(crate) fn leaked_tables(&self) -> Result<u64> {
        let Some(tables) = &self.tables else { return Ok(0) };
        // What stays counts as a leak.
        let _left = tables.remove_dead();
        let present = tables.present()?;
        let manifest = self.manifest.lock();
        let named = manifest.state.files();
        let in_memory = manifest.state.tables().filter(|table| table.extent.is_some()).count()
            + manifest.state.value_files().filter(|file| file.desc.extent.is_some()).count();
        let held = self.pm_rooms().map_or(0, |rooms| rooms.tables.count() + rooms.values.count());
        let files = present.iter().filter(|place| !named.contains(place)).count();
        Ok(files as u64 + held.saturating_sub(in_memory as u64))
    }

    fn look_for_owners(&self) -> Result<SpaceReport> {
        // What is flushed or merged meanwhile has space that no View shows yet.
        let jobs = self.background.jobs();
        let before = self.moment();
        let (owned, reached) = self.owned();
        let mut report = SpaceReport { owned, ..SpaceReport::default() };
        self.find_in_pool(&mut report);
        self.find_files(&mut report)?;
        let unreached = before.owners.pool > reached.pool || before.owners.tables > reached.tables;
        report.whole = !before.busy && !unreached && before == self.moment() && jobs.is_idle();
        if !report.whole {
            report.leaked.clear();
            report.doubled.clear();
        }
        Ok(report)
    }

    fn moment(&self) -> Moment {
        let compactions = self.background.compactions();
        let next = self.sequence.sequencer.next_seq();
        let in_flight = self.sequence.ring.visible() + 1 != next;
        // One call is the one that asks.
        let used = self.lifetime.usage.calls.get() > 1 || self.lifetime.usage.holds.hold_space();
        let tables = self.tables.as_ref();
        let moving = !self.space.pending_free.moving.is_zero()
            || tables.is_some_and(|tables| !tables.moving.is_zero());
        let busy = in_flight || used || moving || !compactions.under_way.is_empty();
        let owners = Owners {
            pool: self.space.pending_free.owners.get(),
            tables: tables.map_or(0, |tables| tables.owners.get()),
        };
        Moment { next, space: self.media.pool.space(), owners, busy }
    }

    /// What is reachable, and by how many owners.
    fn owned(&self) -> (Vec<Owned>, Owners) {
        let mut owned = Vec::new();
        for space in self.keyspaces.all() {
            self.owned_by(&space, &mut |place, owner| owned.push(Owned { place, owner }));
        }
        self.add_held(&mut owned);
        self.add_held_for_streams(&mut owned);
        let cached = self.cache_zones().into_iter();
        owned.extend(
            cached.map(|no| Owned { place: self.zone_place(no), owner: Owner::Cache { no } }),
        );
        let count = |is: fn(&Owned) -> bool| owned.iter().filter(|owned| is(owned)).count();
        let owners = Owners {
            pool: count(|owned| matches!(owned.place, Place::Pool(_))),
            tables: count(|owned| {
                matches!(owned.owner, Owner::Table { .. } | Owner::Values { .. })
            }),
        };
        let mut own = |place, owner| owned.push(Owned { place, owner });
        let areas = self.media.pool.log_extents();
        areas.into_iter().flatten().for_each(|area| own(Place::Pool(area), Owner::Manifest));
        let dead = self.space.pending_free.waiting();
        let zones = dead.zones.iter().map(|(no, _)| no).chain(&dead.cache_zones);
        let zones = zones.map(|no| self.zone_place(*no));
        zones.for_each(|place| own(place, Owner::Going));
        dead.extents.iter().for_each(|extent| own(Place::Pool(*extent), Owner::Going));
        (owned, owners)
    }

    /// Adds the zones that cleaning goes on filling, where no View shows them yet.
    fn add_held(&self, owned: &mut Vec<Owned>) {
        let known: BTreeSet<Place> = owned.iter().map(|owned| owned.place).collect();
        for (_, subrange) in self.keyspaces.subranges() {
            let zone = subrange.clean_tail().zone.as_ref().map(|zone| self.zone_place(zone.no));
            let beside = zone.filter(|place| !known.contains(place));
            owned.extend(beside.map(|place| Owned { place, owner: Owner::Going }));
        }
    }

    /// Adds what only change streams hold.
    fn add_held_for_streams(&self, owned: &mut Vec<Owned>) {
        let known: BTreeSet<Place> = owned.iter().map(|owned| owned.place).collect();
        let (zones, extents) = self.streams.all_held();
        let zones = zones.iter().map(|kept| self.zone_place(kept.zone().no));
        let extents = extents.iter().map(|hold| Place::Pool(hold.extent()));
        let alone = zones.chain(extents).filter(|place| !known.contains(place));
        owned.extend(alone.map(|place| Owned { place, owner: Owner::Streams }));
    }

    fn owned_by(&self, space: &KeyspaceState, own: &mut impl FnMut(Place, Owner)) {
        let keyspace = || space.name.clone();
        held(&ViewSources::of(space), [&*space.tree()], |held| {
            let owner = match &held {
                Holding::Zone(no) => Owner::Zone { keyspace: keyspace(), no: *no },
                Holding::Value(_) => Owner::Value { keyspace: keyspace() },
                Holding::Run(id, _) => Owner::Run { keyspace: keyspace(), id: *id },
                Holding::Table(desc) => Owner::Table { keyspace: keyspace(), id: desc.id },
                Holding::Values(desc) => Owner::Values { keyspace: keyspace(), id: desc.id },
            };
            own(self.place_held(&held), owner);
        });
    }

    fn place_held(&self, held: &Holding<'_>) -> Place {
        match held {
            Holding::Zone(no) => self.zone_place(*no),
            Holding::Value(extent) | Holding::Run(_, extent) => Place::Pool(*extent),
            Holding::Table(TableDesc { extent: Some(extent), .. }) => Place::Pool(*extent),
            Holding::Table(TableDesc { tier, id, .. }) => Place::File { tier: *tier, id: *id },
            Holding::Values(ValueFileDesc { extent: Some(extent), .. }) => Place::Pool(*extent),
            Holding::Values(ValueFileDesc { tier, id, .. }) => Place::File { tier: *tier, id: *id },
        }
    }

    /// Zones that the cache has.
    fn cache_zones(&self) -> Vec<u32> {
        self.pm_cache().map_or_else(Vec::new, |cache| cache.zone_numbers())
    }

    fn zone_place(&self, no: u32) -> Place {
        let geometry = self.media.pool.geometry();
        Place::Pool(Extent { at: geometry.zone_at(no), len: geometry.zone_len() })
    }

    /// Goes through the pool from its start: each byte is free or has one owner.
    fn find_in_pool(&self, report: &mut SpaceReport) {
        let pool = &self.media.pool;
        let in_pool = |owned: &Owned| match owned.place {
            Place::Pool(extent) => Some((extent, owned.owner.clone())),
            Place::File { .. } => None,
        };
        let free = pool.free_extents().into_iter().map(|extent| (extent, Owner::Free));
        let mut all: Vec<(Extent, Owner)> =
            report.owned.iter().filter_map(in_pool).chain(free).collect();
        all.sort();
        let data = pool.geometry().data();
        let piece = |from: PmOffset, to: PmOffset| Place::Pool(Extent { at: from, len: to - from });
        let (mut upto, mut last) = (data.start, Owner::Free);
        for (extent, owner) in all {
            let end = extent.at + extent.len;
            if extent.at > upto {
                report.leaked.push(piece(upto, extent.at));
            } else if extent.at < upto {
                let owners = [last.clone(), owner.clone()];
                report.doubled.push(Doubled { place: piece(extent.at, upto.min(end)), owners });
            }
            if end > upto {
                (upto, last) = (end, owner);
            }
        }
        if upto < data.end {
            report.leaked.push(piece(upto, data.end));
        }
    }

    /// Each file of a table belongs to one that some keyspace has, or waits to be removed.
    fn find_files(&self, report: &mut SpaceReport) -> Result<()> {
        let Some(tables) = &self.tables else { return Ok(()) };
        let mut owners: BTreeMap<Place, Vec<Owner>> = BTreeMap::new();
        let files = report.owned.iter().filter(|owned| matches!(owned.place, Place::File { .. }));
        files.for_each(|owned| owners.entry(owned.place).or_default().push(owned.owner.clone()));
        let dead = tables.dead_places();
        for file in tables.present()?.into_iter().collect::<BTreeSet<FilePlace>>() {
            let place = Place::File { tier: file.tier, id: file.name.id() };
            match owners.get(&place).map_or(&[][..], Vec::as_slice) {
                [] if dead.contains(&file) => {
                    report.owned.push(Owned { place, owner: Owner::Going });
                }
                [] => report.leaked.push(place),
                [_] => {}
                [one, other, ..] => {
                    report.doubled.push(Doubled { place, owners: [one.clone(), other.clone()] });
                }
            }
        }
        Ok(())
    }
}
