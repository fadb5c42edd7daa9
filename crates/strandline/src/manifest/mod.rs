//! The manifest: which keyspaces, runs and zones exist. Its state in memory, and the log that makes it
//! durable. The manifest alone says what a zone is.

pub(crate) mod edit;
pub(crate) mod file;
mod keyspace_desc;
mod keyspace_options;
pub(crate) mod streams;
mod text;
mod value_fields;

use std::collections::{BTreeMap, BTreeSet};

use base::planted::{self, Bug};
use base::{Error, Result, Seq};
use pmem::Durable;
use pool::Pool;

use crate::tree::desc::{Broken, TableDesc, ValueFileState};
use crate::tree::names::FilePlace;
use edit::{Edit, Fate, VersionEdit};
pub(crate) use keyspace_desc::{KeyspaceDesc, RunState, creation};
pub(crate) use keyspace_options::StoredOptions;
use streams::StreamsState;

/// What replaying the log yields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ManifestState {
    pub epoch: u32,
    pub floor: Seq,
    /// The highest time seen, in milliseconds since 1970; 0 where no keyspace had a time to live.
    pub clock: u64,
    pub next_keyspace: u32,
    pub next_run: u64,
    pub next_table: u64,
    pub keyspaces: BTreeMap<u32, KeyspaceDesc>,
    pub zones: BTreeMap<u32, (u64, Fate)>,
    pub streams: StreamsState,
}

const NO_KEYSPACE: Broken = "a change is about a keyspace that exists";

impl ManifestState {
    /// Applies a change, or names the rule that it breaks, which a sound log never does.
    fn apply(&mut self, change: &VersionEdit) -> Result<(), Broken> {
        match change {
            VersionEdit::Epoch(epoch) => self.epoch = *epoch,
            VersionEdit::Clock(time) => self.clock = self.clock.max(*time),
            VersionEdit::CreateKeyspace { id, name } => {
                let fresh = KeyspaceDesc::new(name, &StoredOptions::default());
                if self.keyspaces.insert(*id, fresh).is_some() {
                    return Err("identifiers of keyspaces are used once");
                }
                self.next_keyspace = self.next_keyspace.max(id.saturating_add(1));
            }
            VersionEdit::SetOptions { keyspace, options } => {
                self.keyspace(*keyspace)?.options = (**options).clone();
            }
            VersionEdit::DropKeyspace { id } => {
                self.keyspaces.remove(id).ok_or(NO_KEYSPACE)?;
            }
            VersionEdit::Subranges { keyspace, old, new } => {
                self.keyspace(*keyspace)?.replace_subranges(old, new)?;
            }
            VersionEdit::AddRun { run, subranges } => {
                let keyspace = self.keyspace(run.keyspace)?;
                let known = |id: &u32| keyspace.subranges.values().any(|known| known == id);
                if subranges.is_empty() || !subranges.iter().all(known) {
                    return Err("a run belongs to subranges that exist");
                }
                let subranges = subranges.iter().copied().collect();
                let fresh = RunState { desc: (**run).clone(), subranges };
                if keyspace.runs.insert(run.id, fresh).is_some() {
                    return Err("identifiers of runs are used once");
                }
                self.next_run = self.next_run.max(run.id.saturating_add(1));
            }
            VersionEdit::LeaveRun { keyspace, id, subrange } => {
                self.keyspace(*keyspace)?.leave_run(*id, *subrange)?;
            }
            VersionEdit::AddValueFile { keyspace, file } => {
                self.keyspace(*keyspace)?.levels.add_value_file(file)?;
                self.next_table = self.next_table.max(file.id.saturating_add(1));
            }
            VersionEdit::MoveValueFile { keyspace, id, tier } => {
                self.keyspace(*keyspace)?.levels.move_value_file(*id, *tier)?;
            }
            VersionEdit::AddTable(desc) => {
                self.keyspace(desc.keyspace)?.levels.add(desc)?;
                self.next_table = self.next_table.max(desc.id.saturating_add(1));
            }
            VersionEdit::RemoveTable { keyspace, level, id, smallest } => {
                self.keyspace(*keyspace)?.levels.remove(*level, smallest, *id)?;
            }
            VersionEdit::Zone { no, incarnation, fate } => {
                self.zones.insert(*no, (*incarnation, *fate));
            }
            VersionEdit::ForgetZone { no, incarnation } => {
                if self.zones.get(no).is_some_and(|(known, _)| known == incarnation) {
                    self.zones.remove(no);
                }
            }
            VersionEdit::NextIds { keyspace, run, table } => {
                self.next_keyspace = self.next_keyspace.max(*keyspace);
                self.next_run = self.next_run.max(*run);
                self.next_table = self.next_table.max(*table);
            }
            VersionEdit::Stream(edit) => self.streams.apply(edit)?,
        }
        Ok(())
    }

    fn keyspace(&mut self, id: u32) -> Result<&mut KeyspaceDesc, Broken> {
        self.keyspaces.get_mut(&id).ok_or(NO_KEYSPACE)
    }

    /// All tables.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &TableDesc> {
        self.keyspaces.values().flat_map(|keyspace| keyspace.levels.tables())
    }

    /// All value files.
    pub(crate) fn value_files(&self) -> impl Iterator<Item = &ValueFileState> {
        self.keyspaces.values().flat_map(|keyspace| keyspace.levels.value_files())
    }

    /// The places of tables and value files that are files.
    pub(crate) fn files(&self) -> BTreeSet<FilePlace> {
        let tables = self.tables().filter_map(TableDesc::place);
        tables.chain(self.value_files().filter_map(|file| file.desc.place())).collect()
    }

    fn apply_edit(&mut self, edit: &Edit) -> Result<(), Broken> {
        self.floor = self.floor.max(edit.floor);
        edit.changes.iter().try_for_each(|change| self.apply(change))?;
        let concerns_values = |change: &VersionEdit| match change {
            VersionEdit::RemoveTable { keyspace, .. }
            | VersionEdit::AddValueFile { keyspace, .. } => Some(*keyspace),
            _ => None,
        };
        for id in edit.changes.iter().filter_map(concerns_values).collect::<BTreeSet<u32>>() {
            self.keyspaces.get_mut(&id).into_iter().for_each(|keyspace| keyspace.levels.settle());
        }
        if edit.concerns_streams() {
            self.streams.settle();
        }
        Ok(())
    }

    /// The one edit from which the whole state can be rebuilt.
    fn snapshot(&self) -> Edit {
        let mut changes = vec![
            VersionEdit::Epoch(self.epoch),
            VersionEdit::NextIds {
                keyspace: self.next_keyspace,
                run: self.next_run,
                table: self.next_table,
            },
        ];
        changes.extend((self.clock > 0).then_some(VersionEdit::Clock(self.clock)));
        changes.extend(self.keyspaces.iter().flat_map(|(id, keyspace)| keyspace.snapshot(*id)));
        changes.extend(self.zones.iter().map(|(no, (incarnation, fate))| VersionEdit::Zone {
            no: *no,
            incarnation: *incarnation,
            fate: *fate,
        }));
        changes.extend(self.streams.snapshot().map(|edit| VersionEdit::Stream(Box::new(edit))));
        Edit { floor: self.floor, changes }
    }

    /// The state that a fresh pool's log begins with: one keyspace, named `default`.
    pub(crate) fn fresh() -> ManifestState {
        let mut state = ManifestState { next_run: 1, next_table: 1, ..ManifestState::default() };
        state.keyspaces.insert(0, KeyspaceDesc::new("default", &StoredOptions::default()));
        state.next_keyspace = 1;
        state
    }

    pub(crate) fn encode_snapshot(&self) -> Vec<u8> {
        self.snapshot().encode()
    }

    /// Replays a log's payloads; the first is a snapshot.
    pub(crate) fn replay(payloads: &[Vec<u8>]) -> Result<ManifestState> {
        let mut state = ManifestState::default();
        for (number, payload) in payloads.iter().enumerate() {
            let applied = match Edit::decode(payload) {
                Some(edit) => state.apply_edit(&edit),
                None => Err("an edit is made of known changes"),
            };
            if let Err(broken) = applied {
                return Err(Error::corruption(
                    "open",
                    format!(
                        "manifest edit {number} breaks the rule that {broken}; use the release that wrote it, or restore a copy of \
                         the pool"
                    ),
                ));
            }
        }
        Ok(state)
    }
}

/// What an edit changes, as it was before.
struct Before {
    /// All but keyspaces, zones and streams.
    rest: ManifestState,
    keyspaces: BTreeMap<u32, Option<KeyspaceDesc>>,
    zones: BTreeMap<u32, Option<(u64, Fate)>>,
    streams: Option<StreamsState>,
}

impl ManifestState {
    fn before(&self, edit: &Edit) -> Before {
        // Each is copied once, however many changes are about it.
        let keyspaces: BTreeSet<u32> =
            edit.changes.iter().filter_map(VersionEdit::keyspace).collect();
        let zones: BTreeSet<u32> = edit.changes.iter().filter_map(VersionEdit::zone).collect();
        let (epoch, floor, next_keyspace) = (self.epoch, self.floor, self.next_keyspace);
        let clock = self.clock;
        let (next_run, next_table) = (self.next_run, self.next_table);
        Before {
            rest: ManifestState {
                epoch,
                floor,
                clock,
                next_keyspace,
                next_run,
                next_table,
                ..ManifestState::default()
            },
            streams: edit.concerns_streams().then(|| self.streams.clone()),
            keyspaces: keyspaces.iter().map(|id| (*id, self.keyspaces.get(id).cloned())).collect(),
            zones: zones.iter().map(|no| (*no, self.zones.get(no).copied())).collect(),
        }
    }

    fn restore(&mut self, before: Before) {
        let keyspaces = std::mem::take(&mut self.keyspaces);
        let zones = std::mem::take(&mut self.zones);
        let streams = before.streams.unwrap_or_else(|| std::mem::take(&mut self.streams));
        *self = ManifestState { keyspaces, zones, streams, ..before.rest };
        for (id, keyspace) in before.keyspaces {
            match keyspace {
                Some(keyspace) => self.keyspaces.insert(id, keyspace),
                None => self.keyspaces.remove(&id),
            };
        }
        for (no, zone) in before.zones {
            match zone {
                Some(zone) => self.zones.insert(no, zone),
                None => self.zones.remove(&no),
            };
        }
    }
}

/// The manifest of a store that is open for writes. Its owner serialises access. What an edit costs does not depend on
/// keyspaces that it does not concern.
pub(crate) struct Manifest {
    pub state: ManifestState,
    /// Bytes that keyspaces take in a snapshot, as far as they are known, and of all of these.
    sizes: BTreeMap<u32, u64>,
    known_bytes: u64,
    /// Keyspaces whose size is not known.
    resized: BTreeSet<u32>,
}

impl Manifest {
    pub(crate) fn new(state: ManifestState) -> Manifest {
        let resized = state.keyspaces.keys().copied().collect();
        Manifest { state, sizes: BTreeMap::new(), known_bytes: 0, resized }
    }

    /// Makes `changes` durable under `floor` (the highest published sequence number), then applies them.
    ///
    /// An edit that does not fit the log area begins the other one, or a larger one, with a snapshot that includes it.
    pub(crate) fn commit(
        &mut self,
        pool: &Pool,
        floor: Seq,
        changes: Vec<VersionEdit>,
    ) -> Result<Durable> {
        let floor = if planted::is(Bug::FloorWithoutSequence) { floor.previous() } else { floor };
        let edit = Edit { floor, changes };
        let before = self.state.before(&edit);
        let concerned: Vec<u32> = before.keyspaces.keys().copied().collect();
        let committed = self.apply_and_log(pool, &edit);
        match &committed {
            Ok(_) => concerned.into_iter().for_each(|id| self.forget_size(id)),
            Err(_) => self.state.restore(before),
        }
        committed
    }

    fn apply_and_log(&mut self, pool: &Pool, edit: &Edit) -> Result<Durable> {
        self.state.apply_edit(edit).map_err(|broken| {
            Error::new(
                base::ErrorKind::Internal,
                "manifest",
                format!("an edit breaks the rule that {broken}; reopen the store and report this"),
            )
        })?;
        if planted::edits_are_refused() {
            return Err(Error::new(
                base::ErrorKind::LimitExceeded,
                "manifest",
                "a planted refusal",
            ));
        }
        let payload = edit.encode();
        if pool.log_fits(payload.len()) {
            pool.log_append(&payload)
        } else {
            pool.log_begin(&self.state.encode_snapshot())
        }
    }

    /// Begins the log anew in areas that have room for a snapshot of `coming` bytes, if the pool has.
    pub(crate) fn make_room(&self, pool: &Pool, coming: u64) -> Result<Durable> {
        pool.log_begin_for(&self.state.encode_snapshot(), coming)
    }

    fn forget_size(&mut self, id: u32) {
        self.known_bytes -= self.sizes.remove(&id).unwrap_or(0);
        self.resized.insert(id);
    }

    /// Bytes that keyspaces, with their runs and tables, and streams take in a snapshot.
    pub(crate) fn keyspace_bytes(&mut self) -> u64 {
        for id in std::mem::take(&mut self.resized) {
            let Some(keyspace) = self.state.keyspaces.get(&id) else { continue };
            let changes = keyspace.snapshot(id);
            let bytes = Edit { floor: Seq::ZERO, changes }.encode().len() as u64;
            self.sizes.insert(id, bytes);
            self.known_bytes += bytes;
        }
        self.known_bytes + self.state.streams.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level0::run::RunDesc;
    use crate::level0::run::pieces::Pieces;
    use crate::options::KeyspaceOptions;
    use crate::tree::desc::{ValueFileDesc, ValueShare};
    use crate::tree::tiers::OWN;
    use base::PmOffset;
    use pool::Extent;

    fn desc(id: u64) -> RunDesc {
        let pieces =
            |at| Pieces { extents: vec![Extent { at: PmOffset::new(at), len: 4096 }], len: 4000 };
        RunDesc {
            id,
            keyspace: 0,
            order: id,
            entries: 7,
            min_seq: Seq::new(1),
            max_seq: Seq::new(9),
            blocks: pieces(4096),
            filter: pieces(8192),
            meta: pieces(12_288),
            meta_sum: 99,
        }
    }

    fn table(id: u64, smallest: &[u8], largest: &[u8]) -> TableDesc {
        TableDesc {
            id,
            extent: None,
            tier: OWN,
            keyspace: 0,
            level: 3,
            len: 1000,
            sum: 7,
            entries: 10,
            deletions: 1,
            min_seq: Seq::new(2),
            max_seq: Seq::new(20),
            global_seq: Seq::ZERO,
            smallest: smallest.to_vec(),
            largest: largest.to_vec(),
            range_deletes: 0,
            ends_before: false,
            values: Vec::new(),
        }
    }

    #[test]
    fn a_snapshot_rebuilds_the_state() {
        let mut state = ManifestState::fresh();
        let edit = Edit {
            floor: Seq::new(42),
            changes: vec![
                VersionEdit::Epoch(3),
                VersionEdit::CreateKeyspace { id: 1, name: "other".into() },
                VersionEdit::SetOptions {
                    keyspace: 1,
                    options: Box::new(StoredOptions::without_tiers(
                        &KeyspaceOptions::new().filter_bits(9),
                    )),
                },
                VersionEdit::Clock(1_700_000_000_000),
                VersionEdit::AddRun { run: Box::new(desc(5)), subranges: vec![0] },
                VersionEdit::Subranges {
                    keyspace: 0,
                    old: vec![0],
                    new: vec![(1, Vec::new()), (2, b"m".to_vec())],
                },
                VersionEdit::AddRun { run: Box::new(desc(6)), subranges: vec![2] },
                VersionEdit::LeaveRun { keyspace: 0, id: 5, subrange: 1 },
                VersionEdit::AddTable(Box::new(table(8, b"a", b"c"))),
                VersionEdit::AddTable(Box::new(table(9, b"d", b"f"))),
                VersionEdit::AddTable(Box::new(TableDesc {
                    extent: Some(Extent { at: PmOffset::new(65_536), len: 1024 }),
                    ..table(10, b"g", b"h")
                })),
                VersionEdit::AddValueFile {
                    keyspace: 0,
                    file: ValueFileDesc {
                        id: 11,
                        extent: Some(Extent { at: PmOffset::new(66_560), len: 768 }),
                        tier: OWN,
                        len: 700,
                        sum: 9,
                        values: 2,
                    },
                },
                VersionEdit::AddTable(Box::new(TableDesc {
                    values: vec![ValueShare { file: 11, values: 1, bytes: 300 }],
                    ..table(12, b"i", b"k")
                })),
                VersionEdit::RemoveTable { keyspace: 0, level: 3, id: 8, smallest: b"a".to_vec() },
                VersionEdit::Zone { no: 2, incarnation: 77, fate: Fate::Frozen },
                VersionEdit::Zone {
                    no: 3,
                    incarnation: 78,
                    fate: Fate::Live { keyspace: 1, sealed: 640 },
                },
                VersionEdit::Zone { no: 4, incarnation: 79, fate: Fate::Retired },
            ],
        };
        assert_eq!(Edit::decode(&edit.encode()).as_ref(), Some(&edit));
        state.apply_edit(&edit).expect("applies");
        let again = ManifestState::replay(&[state.encode_snapshot()]).expect("replays");
        assert_eq!(again, state);
        assert_eq!((again.next_run, again.next_keyspace, again.floor), (7, 2, Seq::new(42)));
        let keyspace = &again.keyspaces[&0];
        assert_eq!(keyspace.next_subrange(), 3);
        assert_eq!(keyspace.runs[&5].subranges, BTreeSet::from([2]));
        assert_eq!((again.next_table, again.tables().count()), (13, 3));
        let files: Vec<u64> = again.files().iter().map(|place| place.name.id()).collect();
        assert_eq!(files, [9, 12], "the others lie in the pool");
        let longer =
            ValueFileDesc { len: 769, ..again.value_files().next().expect("one").desc.clone() };
        let add =
            VersionEdit::AddValueFile { keyspace: 0, file: ValueFileDesc { id: 20, ..longer } };
        let refused = state.apply_edit(&Edit { floor: Seq::ZERO, changes: vec![add] });
        assert_eq!(refused, Err("a value file in persistent memory fits its extent"));
    }

    #[test]
    fn a_value_file_moves_and_keeps_what_refers_to_it() {
        let mut state = ManifestState::fresh();
        let of = |id, extent| ValueFileDesc { id, extent, tier: OWN, len: 700, sum: 9, values: 2 };
        let refers = |id, file, smallest: &[u8]| {
            let values = vec![ValueShare { file, values: 1, bytes: 300 }];
            VersionEdit::AddTable(Box::new(TableDesc { values, ..table(id, smallest, smallest) }))
        };
        let extent = Some(Extent { at: PmOffset::new(66_560), len: 768 });
        let changes = vec![
            VersionEdit::AddValueFile { keyspace: 0, file: of(11, None) },
            VersionEdit::AddValueFile { keyspace: 0, file: of(12, extent) },
            refers(13, 11, b"a"),
            refers(14, 12, b"b"),
        ];
        state.apply_edit(&Edit { floor: Seq::ZERO, changes }).expect("applies");
        let moves = |id, tier| {
            let changes = vec![VersionEdit::MoveValueFile { keyspace: 0, id, tier }];
            let edit = Edit { floor: Seq::ZERO, changes };
            assert_eq!(Edit::decode(&edit.encode()).as_ref(), Some(&edit));
            edit
        };
        for tier in [2, 300, OWN, 1] {
            state.apply_edit(&moves(11, tier)).expect("applies");
            let again = ManifestState::replay(&[state.encode_snapshot()]).expect("replays");
            assert_eq!(again, state);
            let moved = again.value_files().next().expect("the first");
            assert_eq!((moved.desc.tier, moved.tables, moved.live_bytes), (tier, 1, 300));
            assert!(again.files().contains(&moved.desc.file_place()));
        }
        assert!(state.apply_edit(&moves(12, 1)).is_err(), "it lies in persistent memory");
        assert!(state.apply_edit(&moves(15, 1)).is_err(), "it is not there");
    }

    #[test]
    fn what_an_edit_changed_can_be_taken_back() {
        let mut state = ManifestState::fresh();
        let create = |id| VersionEdit::CreateKeyspace { id, name: format!("keyspace {id}") };
        let edit = Edit { floor: Seq::new(1), changes: vec![create(1), create(2)] };
        state.apply_edit(&edit).expect("applies");
        let as_it_was = state.clone();
        let edit = Edit {
            floor: Seq::new(9),
            changes: vec![
                create(3),
                VersionEdit::DropKeyspace { id: 1 },
                VersionEdit::AddTable(Box::new(table(8, b"a", b"c"))),
                VersionEdit::AddRun { run: Box::new(desc(5)), subranges: vec![0] },
                VersionEdit::Zone { no: 2, incarnation: 77, fate: Fate::Frozen },
                VersionEdit::ForgetZone { no: 2, incarnation: 77 },
                VersionEdit::DropKeyspace { id: 1 },
            ],
        };
        let before = state.before(&edit);
        assert_eq!(state.apply_edit(&edit), Err(NO_KEYSPACE));
        assert_ne!(state, as_it_was);
        state.restore(before);
        assert_eq!(state, as_it_was);
    }

    #[test]
    fn sizes_add_up_to_a_snapshot() {
        let mut manifest = Manifest::new(ManifestState::fresh());
        for id in 1..100 {
            let create = VersionEdit::CreateKeyspace { id, name: format!("keyspace {id}") };
            manifest
                .state
                .apply_edit(&Edit { floor: Seq::ZERO, changes: vec![create] })
                .expect("applies");
            manifest.forget_size(id);
            let whole = manifest.state.encode_snapshot().len() as u64;
            let keyspaces = u64::from(id) + 1;
            // Each is encoded with a floor and a count of its own.
            assert!((manifest.keyspace_bytes() - 2 * keyspaces).abs_diff(whole) < 16);
        }
    }

    #[test]
    fn the_bytes_are_those_of_format_version_3() {
        let fresh = b"\x00\x03\x01\x00\x08\x01\x01\x01\x02\x00\x07default";
        assert_eq!(ManifestState::fresh().encode_snapshot(), fresh);
    }

    #[test]
    fn contradictions_and_random_bytes_are_refused() {
        let mut state = ManifestState::fresh();
        let leave = VersionEdit::LeaveRun { keyspace: 0, id: 9, subrange: 0 };
        let leave = Edit { floor: Seq::ZERO, changes: vec![leave] };
        assert_eq!(state.apply_edit(&leave), Err("a subrange leaves a run that it has"));
        let replace = |state: &mut ManifestState, old: &[u32], new: &[(u32, &[u8])]| {
            let new = new.iter().map(|(id, lower)| (*id, lower.to_vec())).collect();
            let change = VersionEdit::Subranges { keyspace: 0, old: old.to_vec(), new };
            state.clone().apply_edit(&Edit { floor: Seq::ZERO, changes: vec![change.clone()] })?;
            state.apply(&change)
        };
        assert_eq!(replace(&mut state, &[0], &[(1, b""), (2, b"d"), (3, b"m")]), Ok(()));
        for (old, new) in [
            (&[0][..], &[(4, &b""[..])][..]),
            (&[1, 3], &[(4, b"")]),
            (&[2, 1], &[(4, b"")]),
            (&[2], &[(4, b"e")]),
            (&[2], &[(4, b"d"), (5, b"m")]),
            (&[2], &[(4, b"d"), (5, b"d")]),
            (&[2], &[(3, b"d")]),
            (&[2], &[(4, b"d"), (4, b"e")]),
            (&[2], &[]),
            (&[], &[(4, b"")]),
        ] {
            assert!(replace(&mut state, old, new).is_err(), "{old:?} {new:?}");
        }
        assert_eq!(replace(&mut state, &[2, 3], &[(4, b"d")]), Ok(()));
        let lowers: Vec<_> = state.keyspaces[&0].subranges.iter().collect();
        assert_eq!(lowers, [(&b""[..].to_vec(), &1), (&b"d"[..].to_vec(), &4)]);
        let twice = [table(1, b"a", b"c"), table(2, b"c", b"c")];
        let changes = twice.map(|table| VersionEdit::AddTable(Box::new(table))).to_vec();
        let overlap = state.apply_edit(&Edit { floor: Seq::ZERO, changes });
        assert_eq!(overlap, Err("tables of a level are disjoint"));
        let good = ManifestState::fresh().encode_snapshot();
        for at in 0..good.len() {
            for cut in [&good[..at], &[&good[..at], &[0xff; 12]].concat()] {
                let _ = ManifestState::replay(&[cut.to_vec()]);
            }
        }
    }
}
