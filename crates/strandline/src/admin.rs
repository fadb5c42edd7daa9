//! What is asked of the store as a whole: keyspaces made and dropped, memtables flushed, runs merged, several
//! keys read at one moment.

mod sites;

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError, Weak};

use std::collections::BTreeMap;

use base::limits::{NAME_BYTES_MAX, check_name};
use base::planted::{self, Bug};
use base::{Error, ErrorKind, Result, Seq};

use crate::caught::{caught, panicked};
use crate::engine::Engine;
use crate::engine::job::Job;
use crate::keyspace::subrange::{CleanTail, Subrange};
use crate::keyspace::view::View;
use crate::keyspace::{KeyspaceState, Routes};
use crate::level0::merge::RunMerge;
use crate::level0::run::Run;
use crate::manifest::edit::{Edit, Fate, VersionEdit};
use crate::manifest::streams::{EventDesc, EventKind};
use crate::manifest::{Manifest, StoredOptions, creation};
use crate::memtable::Memtable;
use crate::options::{KeyspaceOptions, Level0Form};
use crate::quantum::Worked;
use crate::record::zone::Zone;
use crate::span::{OptionalBounds, Span};
use crate::stream::event::{EventCommit, EventNumber, event_edit, event_of};
use crate::tree::Tree;
use crate::ttl::Expiry;

/// Bytes that a zone takes in the manifest at most.
pub(crate) const ZONE_CHANGE_BYTES: u64 = 32;
/// Times that a flush tries again when space is short.
const SHORT_MAX: u32 = 100;

impl Engine {
    /// Makes a keyspace: the edit is durable before any record can name it.
    pub(crate) fn create_space(
        &self,
        name: &str,
        options: &KeyspaceOptions,
    ) -> Result<Arc<KeyspaceState>> {
        self.check_writable("create keyspace")?;
        check_name(name, "create keyspace")?;
        let options = self.stored_options(options)?;
        let timed = options.options.ttl.is_some();
        let event = EventDesc { keyspace: 0, name: name.into(), timed, kind: EventKind::Created };
        let made = |commit: &mut EventCommit<'_, '_>| {
            let mut spaces = self.keyspaces.write();
            if spaces.named(name).is_some() {
                return Err(Error::new(
                    ErrorKind::Exists,
                    "create keyspace",
                    format!("there is a keyspace {name} already; open it"),
                ));
            }
            let made = NAME_BYTES_MAX as u64 + options_len(&options);
            let id = self.room_for_options("create keyspace", made)?;
            let mut changes = creation(id, name, &options);
            match commit.take()? {
                EventNumber::NotNow => return Ok(None),
                EventNumber::At(number) => {
                    changes
                        .extend(event_edit(number, &EventDesc { keyspace: id, ..event.clone() }));
                }
                EventNumber::Unneeded => {}
            }
            let view = View::first(Vec::new(), Vec::new(), Arc::new(Tree::default()));
            let whole = Arc::new(Subrange::new(0, Span::default(), view));
            // Before the edit, which then tells the time.
            let (own, tiers) = (&options.options, &options.tiers);
            let space = KeyspaceState::new(id, name, own, tiers, &self.hooks, vec![whole], None);
            let _told = space.expiry.as_ref().map(Expiry::now);
            let space = Arc::new(space);
            let edit = self.edit(changes)?;
            self.space.holders.count(1, 0);
            spaces.insert(Arc::clone(&space));
            edit.end();
            Ok(Some(space))
        };
        let space = self.with_event("create keyspace", &event, made)?;
        if space.expiry.is_some() {
            // From now on looks for expired values are due, to which nothing else may call a thread.
            self.background.member.wake();
        }
        Ok(space)
    }

    /// The next keyspace's number, if a manifest with `made` bytes more leaves room for the runs of all keyspaces.
    fn room_for_options(&self, operation: &'static str, made: u64) -> Result<u32> {
        let mut manifest = self.manifest.lock();
        // Twice its size: half is for runs.
        let wanted = |used| 2 * (used + made);
        let (used, area) = self.manifest_room(&mut manifest, wanted)?;
        if wanted(used) > area {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                operation,
                format!(
                    "{} keyspaces and their runs take {used} of {area} bytes in the manifest, and persistent memory has \
                     no room for a larger one; delete data, drop some, or make a larger pool (pm_size)",
                    manifest.state.keyspaces.len()
                ),
            ));
        }
        Ok(manifest.state.next_keyspace)
    }

    /// Bytes that keyspaces, runs and tables take in a snapshot of the manifest, and how many there are beside what it
    /// says of zones: as many as are `wanted`, which it computes from the first, if the pool has room for them.
    ///
    /// # Errors
    /// Those of a journal, which poison the store.
    pub(crate) fn manifest_room(
        &self,
        manifest: &mut Manifest,
        wanted: impl Fn(u64) -> u64,
    ) -> Result<(u64, u64)> {
        let pool = &self.media.pool;
        let zones = u64::from(pool.geometry().zones()) * ZONE_CHANGE_BYTES;
        let used = manifest.keyspace_bytes();
        let room = || pool.log_area_len().saturating_sub(zones);
        if wanted(used) > room() {
            match manifest.make_room(pool, wanted(used) + zones) {
                Ok(_durable) => {}
                // It stays as it is.
                Err(error) if error.kind() == ErrorKind::LimitExceeded => {}
                Err(error) => {
                    self.poison.set(&error);
                    return Err(error);
                }
            }
        }
        Ok((used, room()))
    }

    /// Drops a keyspace: later reservations are refused, everything reserved before is published, then one
    /// edit removes it and retires all its zones.
    pub(crate) fn drop_space(&self, name: &str) -> Result<()> {
        self.check_writable("drop keyspace")?;
        if name == "default" {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "drop keyspace",
                "keyspace default belongs to every store; delete its keys instead",
            ));
        }
        let missing =
            || Error::new(ErrorKind::NotFound, "drop keyspace", format!("no keyspace {name}"));
        let space = self.keyspaces.named(name).ok_or_else(missing)?;
        self.refuse_prepared(&space)?;
        // No lock is held while what was reserved before is awaited: an ingest among that wants them.
        let last_seq = self.close_space(&space).ok_or_else(missing)?;
        self.await_seq(last_seq)?;
        let mut tried = false;
        let dropped =
            self.with_event("drop keyspace", &event_of(&space, EventKind::Dropped), |commit| {
                // No flush or merge of this keyspace may be under way while its zones are retired.
                let mut jobs = self.background.jobs();
                let _admin = space.admin.lock().unwrap_or_else(PoisonError::into_inner);
                jobs.abandon(self, &space);
                self.abandon_compactions(&space);
                let event = match commit.take()? {
                    EventNumber::NotNow => return Ok(None),
                    EventNumber::At(number) => {
                        event_edit(number, &event_of(&space, EventKind::Dropped))
                    }
                    EventNumber::Unneeded => None,
                };
                tried = true;
                self.remove_space(&space, event).map(Some)
            });
        if dropped.is_err() && !tried {
            let _admin = space.admin.lock().unwrap_or_else(PoisonError::into_inner);
            self.take_back(&space, &space.subranges());
        }
        dropped?;
        self.reclaim();
        // Its tables are removed.
        self.background.member.wake();
        Ok(())
    }

    /// Closes a keyspace to writers. Returns the last number that was reserved before, or `None` if the keyspace is being
    /// dropped already.
    fn close_space(&self, space: &KeyspaceState) -> Option<Seq> {
        let _admin = space.admin.lock().unwrap_or_else(PoisonError::into_inner);
        if space.dropped.swap(true, Relaxed) {
            return None;
        }
        let pass = self.sequence.sequencer.enter_to_switch();
        for subrange in space.subranges() {
            let (bytes, last_seq) = subrange.write_head.close(&pass);
            let active = Arc::clone(subrange.view.load().active());
            active.bytes.store(bytes, Relaxed);
            active.last_seq.store(last_seq, Relaxed);
        }
        Some(pass.next_seq() - 1)
    }

    /// The edit that drops a closed keyspace, with the `event` for streams, and what follows from it. The caller holds `admin` and the jobs.
    fn remove_space(&self, space: &Arc<KeyspaceState>, event: Option<VersionEdit>) -> Result<()> {
        let subranges = space.subranges();
        let views: Vec<_> = subranges.iter().map(|subrange| subrange.view.load_full()).collect();
        let sources = DroppedSources::of(&views);
        self.plant_before_drop(&sources);
        let mut changes = sources.changes(space.id);
        changes.extend(event);
        // One that was prepared meanwhile has seen that the keyspace is open, or sees that it is not.
        self.refuse_prepared(space).inspect_err(|_| self.take_back(space, &subranges))?;
        let edit = self.edit(changes).inspect_err(|_| self.take_back(space, &subranges))?;
        sources.release();
        self.keyspaces.write().remove(space);
        self.space.holders.count(0, subranges.len());
        // Handles may keep the keyspace; they must not keep its zones.
        for subrange in &subranges {
            *subrange.clean_tail() = CleanTail::default();
            self.lifetime.usage.note_replaced(subrange);
            self.empty(subrange);
        }
        self.tables.iter().for_each(|tables| tables.cache.drop_records(space.id));
        edit.end();
        Ok(())
    }

    /// Refuses to drop what a prepared transaction will change.
    fn refuse_prepared(&self, space: &KeyspaceState) -> Result<()> {
        match self.locks.open().named_in(space.id) {
            None => Ok(()),
            Some(name) => {
                let text = format!(
                    "prepared transaction {name} changes keyspace {}; commit it or roll it back, then drop the keyspace",
                    space.name
                );
                Err(Error::new(ErrorKind::Busy, "drop keyspace", text))
            }
        }
    }

    /// Does too early what belongs behind the edit, where that is planted.
    fn plant_before_drop(&self, sources: &DroppedSources) {
        if planted::is(Bug::DropFreesZonesFirst) {
            sources.zones.keys().for_each(|no| drop(self.media.pool.clear_zone(*no)));
        }
        if planted::is(Bug::DropRemovesTablesFirst) {
            let files = sources.tree.tables().filter_map(|(_, table)| table.desc.place());
            if let Some(tables) = &self.tables {
                files.for_each(|place| drop(tables.remove(place)));
            }
        }
    }

    /// Gives a keyspace whose drop was refused write heads that take writes: the memtables that took them until then wait to become
    /// runs. Where it is not known whether the drop was written, the store is poisoned: the keyspace can be read, and that is
    /// all. The caller holds `admin`.
    fn take_back(&self, space: &Arc<KeyspaceState>, dropped: &[Arc<Subrange>]) {
        let again = |subrange: &Arc<Subrange>| {
            let view = subrange.view.load_full();
            let filled = |memtable: &&Arc<Memtable>| memtable.bytes.load(Relaxed) > 0;
            let memtables: Vec<_> = view.memtables.iter().filter(filled).cloned().collect();
            // Zones that stood ready and hold nothing.
            let unused = view.memtables.iter().filter(|memtable| !filled(memtable));
            unused.flat_map(|memtable| memtable.zones()).for_each(|zone| zone.retire());
            let sources = View::first(memtables, view.runs.clone(), Arc::clone(&view.tree));
            Arc::new(Subrange::new(subrange.id, subrange.span.clone(), sources))
        };
        let routes = Arc::new(Routes::new(dropped.iter().map(again).collect()));
        let pass = self.sequence.sequencer.enter_to_switch();
        for (fresh, old) in routes.subranges.iter().zip(dropped) {
            fresh.write_head.follow(&pass, &old.write_head);
        }
        let before = space.routes.swap(Arc::clone(&routes));
        drop(pass);
        dropped.iter().for_each(|subrange| self.lifetime.usage.note_replaced(subrange));
        drop(before);
        routes.subranges.iter().for_each(|subrange| self.space.holders.add(space, subrange));
        space.dropped.store(false, Relaxed);
    }

    /// Flushes every memtable and waits until it has become a run or tables.
    pub(crate) fn flush(&self) -> Result<()> {
        self.check_writable("flush")?;
        // What is flushed later need not be waited for.
        let mut newest = Vec::new();
        for space in self.keyspaces.all() {
            let _admin = space.admin.lock().unwrap_or_else(PoisonError::into_inner);
            for subrange in space.subranges() {
                if subrange.write_head.bytes() > 0 {
                    self.switch_memtable(&subrange);
                }
                let view = subrange.view.load();
                let immutable = view.memtables[1..].iter().map(Arc::downgrade);
                newest.extend(immutable.map(|memtable| (Arc::clone(&space), memtable)));
            }
        }
        self.update_reserve();
        self.update_debt();
        self.await_flushed(&newest)
    }

    /// Waits until each of these memtables of a keyspace has become a run or tables, or the keyspace is dropped.
    pub(crate) fn await_flushed(
        &self,
        memtables: &[(Arc<KeyspaceState>, Weak<Memtable>)],
    ) -> Result<()> {
        let mut short = 0;
        let waits = |(space, memtable): &(Arc<KeyspaceState>, Weak<Memtable>)| {
            let is_it = |each: &Arc<Memtable>| std::ptr::eq(Arc::as_ptr(each), memtable.as_ptr());
            let reads = |subrange: &Arc<Subrange>| subrange.view.load().memtables.iter().any(is_it);
            !space.dropped.load(Relaxed) && space.subranges().iter().any(reads)
        };
        let mut left = memtables;
        loop {
            // What was flushed stays so.
            let Some(next) = left.iter().position(waits) else { return Ok(()) };
            left = &left[next..];
            self.check_writable("flush")?;
            let indexes = self.work_on_indexes(usize::MAX)?;
            let worked = match indexes {
                Worked::Did => Worked::Did,
                Worked::Short => {
                    self.background.throttle.press();
                    // Records that leave for SSD make room.
                    self.work_on_levels(usize::MAX)?
                }
                _ if self.options().level0 == Level0Form::Sst => self.work_on_levels(usize::MAX)?,
                Worked::Idle | Worked::Busy | Worked::Blocked => indexes,
            };
            self.events.tell();
            if worked == Worked::Did {
                continue;
            }
            let trouble = self.background.errors.any();
            let refused = indexes == Worked::Short && worked != Worked::Busy;
            // What waits behind an ingest that waits here does not keep it from failing.
            let no_index = matches!(indexes, Worked::Idle | Worked::Blocked);
            let flushes = self.options().level0 == Level0Form::Sst && no_index;
            short += u32::from(refused || flushes && trouble.is_some());
            if short > SHORT_MAX {
                return Err(trouble.filter(|_| !refused).unwrap_or_else(no_room));
            }
            self.pause("flush")?;
        }
    }

    /// Brings all data of each keyspace down to one place: the deepest level on SSD that has any, or, where there is no
    /// SSD, one run for each subrange.
    pub(crate) fn compact(&self) -> Result<()> {
        self.check_writable("compact")?;
        let mut damage = None;
        for space in self.keyspaces.all() {
            // What is damaged is left alone; the others go on, and it is told at the end.
            if space.damage.get().is_none() {
                match self.compact_space(&space) {
                    Err(error) if error.kind() == ErrorKind::Corruption => {
                        damage.get_or_insert(error);
                    }
                    compacted => compacted?,
                }
            }
            damage = damage.or_else(|| space.damage.get().cloned());
        }
        self.update_reserve();
        self.update_debt();
        damage.map_or(Ok(()), Err)
    }

    fn compact_space(&self, space: &Arc<KeyspaceState>) -> Result<()> {
        if self.tables.is_some() {
            return self.compact_by_hand(space, OptionalBounds::default());
        }
        // The jobs are held throughout, so that no other thread changes the runs.
        let mut jobs = self.background.jobs();
        jobs.finish(self)?;
        // Of one run alone there is something to merge away where values expire.
        let least = if space.expiry.is_some() { 1 } else { 2 };
        for subrange in space.subranges() {
            let view = subrange.view.load_full();
            if view.runs.len() >= least {
                // No other thread marks runs while the jobs are held. A merge that panics goes like one that fails.
                let all = 0..view.runs.len();
                let merge = RunMerge::begin(self, space, &subrange, &view, all);
                drop(view);
                let merged = merge.map(|mut merge| caught(move || merge.step(self, usize::MAX)));
                let merged = merged.transpose().map_err(|said| panicked("compact", &said))?;
                let _whole = merged.transpose()?;
            }
        }
        drop(jobs);
        self.reclaim();
        Ok(())
    }

    /// As [`Engine::compact`], of the keys from `from` to `to` of one keyspace, with what is in memtables. Without
    /// levels there are only whole runs to merge.
    pub(crate) fn compact_range(
        &self,
        space: &Arc<KeyspaceState>,
        range: OptionalBounds<'_>,
    ) -> Result<()> {
        self.flush()?;
        if space.dropped.load(Relaxed) {
            return Err(crate::keyspace::dropped(space));
        }
        if let Some(damage) = space.damage.get() {
            return Err(damage.clone());
        }
        match &self.tables {
            Some(_) => self.compact_by_hand(space, range),
            None => self.compact_space(space),
        }
    }
}

/// What a keyspace was read from, when it is dropped.
struct DroppedSources {
    /// By number: several subranges may share one.
    runs: BTreeMap<u64, Arc<Run>>,
    /// Those of memtables and runs.
    zones: BTreeMap<u32, Arc<Zone>>,
    tree: Arc<Tree>,
}

impl DroppedSources {
    /// Those of all subranges of a keyspace.
    fn of(views: &[Arc<View>]) -> DroppedSources {
        let memtables = views.iter().flat_map(|view| &view.memtables).flat_map(|each| each.zones());
        let runs: BTreeMap<u64, Arc<Run>> = views
            .iter()
            .flat_map(|view| &view.runs)
            .map(|run| (run.desc.id, Arc::clone(run)))
            .collect();
        let named = runs.values().flat_map(|run| run.zones.iter().map(|used| &used.zone));
        let zones = memtables.chain(named.cloned()).map(|zone| (zone.no, zone)).collect();
        DroppedSources { zones, runs, tree: Arc::clone(&views[0].tree) }
    }

    /// The changes that drop keyspace `id`.
    fn changes(&self, id: u32) -> Vec<VersionEdit> {
        let keeps_zones = planted::is(Bug::DropKeepsZones);
        let mut changes = vec![VersionEdit::DropKeyspace { id }];
        let retired = self.zones.values().filter(|_| !keeps_zones);
        changes.extend(retired.map(|zone| VersionEdit::Zone {
            no: zone.no,
            incarnation: zone.incarnation,
            fate: Fate::Retired,
        }));
        changes
    }

    /// No edit names them any more: each goes with its last reader.
    fn release(&self) {
        self.zones.values().for_each(|zone| zone.retire());
        self.runs.values().for_each(|run| run.set_replaced());
        self.tree.tables().for_each(|(_, table)| table.set_dropped());
    }
}

/// Bytes that options of a keyspace take in the manifest.
fn options_len(options: &StoredOptions) -> u64 {
    if options.is_empty() {
        return 0;
    }
    let options = Box::new(options.clone());
    let changes = vec![VersionEdit::SetOptions { keyspace: u32::MAX, options }];
    Edit { floor: Seq::ZERO, changes }.encode().len() as u64
}

fn no_room() -> Error {
    Error::new(
        ErrorKind::NoSpace,
        "flush",
        "an index run does not fit; what is written stays in memtables and is safe; delete keys or make a larger pool \
         (pm_size)",
    )
}
