//! I: tables from elsewhere become part of a keyspace, all of them or none.
//!
//! - **I1** copy them to files of the store, read and check all of each, sync the directory
//! - **I2** take a number like a commit does: a record that deletes nothing holds its place among the records. Nothing
//!   behind it becomes visible until the end
//! - **I3** bring older data of these keys out of persistent memory: there it would be taken for newer
//! - **I4** one edit that places each table in the deepest level that has room below everything that overlaps it,
//!   then a View with them
//! - **I5** publish the number
//!
//! All entries of the tables have that number. If it comes to nothing, the record is void and the files go.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError, Weak};

use art::{Direction, Versions};
use base::planted::{self, Bug};
use base::{Error, ErrorKind, Result, Seq};
use std::ops::Bound;

use crate::compaction::manual::Depth;
use crate::engine::Engine;
use crate::keyspace::KeyspaceState;
use crate::keyspace::write_head::{Lack, Permit, WriteHead};
use crate::locks::table::{LockTable, OwnerId};
use crate::manifest::edit::{self, VersionEdit};
use crate::memtable::{Memtable, is_skipped};
use crate::options::settings::settings;
use crate::quantum::Worked;
use crate::record::format::Kind;
use crate::record::store::Leaf;
use crate::ring::sequencer::SequencerGuard;
use crate::span::{KeyBounds, OptionalBounds, Span};
use crate::stream::event::{event_edit, ingested};
use crate::tree::Tree;
use crate::tree::copy::copy;
use crate::tree::desc::TableDesc;
use crate::tree::examine::{TableCopy, examine};
use crate::tree::names::{FileName, FilePlace};
use crate::tree::room::Writes;
use crate::tree::space::{NewTable, TableSpace};
use crate::tree::tables::Tables;
use crate::tree::tiers::FileSite;
use crate::write::among_locks::{InWay, LockingWrite, range_in_way};
use crate::write::commit::{Commit, NotAdmitted};
use crate::write::condition::Condition;
use crate::write::numbering::Numbering;
use crate::write::op::{Op, Ops};
use crate::write::way::WriteWay;

/// Times that a number is taken: older writes may come to the same keys in the moment before.
const ATTEMPTS: u32 = 16;
/// Keys of a memtable looked at together.
const BATCH_KEYS: usize = 256;

settings! {
    /// How [`Db::ingest`](crate::Db::ingest) takes files.
    ///
    /// ```
    /// use strandline::IngestOptions;
    ///
    /// let options = IngestOptions::default().move_files(true);
    /// assert!(options.move_files);
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct IngestOptions {
        /// Remove the files once the store has what is in them.
        move_files: bool = false,
    }
}

/// What stands above the place of tables although it is older.
enum InTheWay {
    Nothing,
    /// Runs, or memtables that wait to become runs or tables; the memtables are named.
    Older(Vec<(Arc<KeyspaceState>, Weak<Memtable>)>),
    /// A memtable that cannot be flushed before the tables are there: the ingest's own record or later commits are in it,
    /// or in one that must be flushed first.
    Unpublished,
}

/// The write heads of all keys of tables: that the tables' number is given is noted at each, for transactions (I-TXN-3). No
/// record of the ingest lies there.
struct CoveredHeads<'i> {
    space: &'i Arc<KeyspaceState>,
    descs: &'i [TableDesc],
    heads: Vec<Arc<WriteHead>>,
}

impl Condition for CoveredHeads<'_> {
    fn route(&mut self) -> Result<()> {
        let routes = self.space.routes.load();
        // The tables are disjoint, so only a subrange at the end of one is met again at the begin of the next.
        let covered = self.descs.iter().flat_map(|desc| {
            let positions = routes.position(&desc.smallest)..=routes.position(&desc.largest);
            routes.subranges[positions].iter()
        });
        self.heads = covered.map(|subrange| Arc::clone(&subrange.write_head)).collect();
        if planted::is(Bug::IngestNotedOnce) {
            self.heads.truncate(1);
        }
        Ok(())
    }

    fn holds(&mut self, _pass: &SequencerGuard<'_>, permit: Permit) -> Result<(), Lack> {
        if self.heads.iter().any(|head| head.is_closed()) {
            return Err(Lack::View);
        }
        let is_locked = self.heads.iter().any(|head| head.has_locks());
        if is_locked && permit == Permit::ToBeAsked { Err(Lack::Locked) } else { Ok(()) }
    }

    fn in_way(&self, table: &mut LockTable, writer: OwnerId) -> Option<InWay> {
        if planted::is(Bug::IngestPassesLocks) {
            return None;
        }
        self.descs.iter().find_map(|desc| {
            let upper = Some([&desc.largest[..], &[0]].concat());
            let span = Span { lower: desc.smallest.to_vec(), upper };
            range_in_way(self.space, span, table, writer)
        })
    }

    fn taken(&mut self, pass: &SequencerGuard<'_>, last_seq: Seq) {
        self.heads.iter().for_each(|head| head.note_seq(pass, last_seq));
    }
}

impl Engine {
    /// Adds the tables at `paths` to `space`; returns the number that their entries have.
    pub(crate) fn ingest(
        &self,
        space: &Arc<KeyspaceState>,
        paths: &[PathBuf],
        options: IngestOptions,
    ) -> Result<Seq> {
        let removes_first = planted::is(Bug::IngestRemovesSourceFirst);
        self.check_writable("ingest")?;
        space.refuse_ttl("ingest", "values in files have no time of their own; put them")?;
        let Some(tables) = &self.tables else {
            let text = "the store keeps all data in persistent memory; open it with ssd";
            return Err(Error::new(ErrorKind::InvalidArgument, "ingest", text));
        };
        self.check_file_room(tables, paths)?;
        let taken = take_in(tables, space, paths).and_then(|made| {
            if removes_first && options.move_files {
                paths.iter().for_each(|path| drop(tables.table_dir.fs.remove(path)));
            }
            self.place(space, made)
        });
        match taken {
            Ok(seq) => {
                if options.move_files {
                    // The store has them; one that cannot be removed is the caller's as before.
                    paths.iter().for_each(|path| drop(tables.table_dir.fs.remove(path)));
                }
                Ok(seq)
            }
            Err(error) => {
                // The copies went with their owners.
                let _told_below = self.remove_dead_tables(tables);
                Err(error)
            }
        }
    }

    /// Refuses files that would leave no room for what is in persistent memory: deletions could not reach the files then.
    fn check_file_room(&self, tables: &Tables, paths: &[PathBuf]) -> Result<()> {
        let fs = &*tables.table_dir.fs;
        let each = |sum: u64, path: &PathBuf| Ok(sum.saturating_add(fs.open(path)?.len()));
        let len = paths.iter().try_fold(0, each)?;
        if len <= self.budget().file_room { Ok(()) } else { Err(self.no_space("ingest", len)) }
    }

    /// I2 to I5, as often as it takes.
    fn place(&self, space: &Arc<KeyspaceState>, mut made: Vec<NewTable>) -> Result<Seq> {
        let descs: Vec<TableDesc> = made.iter().map(|new| new.desc.clone()).collect();
        let descs = &descs;
        // Locks that it has waited for are its own until it has its number, however many attempts that takes.
        let mut writer = None;
        for _ in 0..ATTEMPTS {
            // Ahead of time, so that writers need not wait for it.
            if !matches!(self.in_the_way(space, descs, Seq::MAX)?, InTheWay::Nothing) {
                self.flush()?;
                self.compact_down(space, enclosing(descs), Depth::Level0)?;
            } else if placement(&space.tree(), descs).is_none() {
                self.compact_down(space, enclosing(descs), Depth::Deepest)?;
            }
            self.await_compactions(space)?;
            if let Some(seq) = self.try_place(space, descs, &mut made, &mut writer)? {
                return Ok(seq);
            }
        }
        Err(Error::new(
            ErrorKind::Busy,
            "ingest",
            format!("keyspace {} has too many writes to the same keys; try again", space.name),
        ))
    }

    /// Waits until no compaction of `space` is under way; one that began with a number taken would keep all writers
    /// waiting for its end.
    fn await_compactions(&self, space: &Arc<KeyspaceState>) -> Result<()> {
        while self.hold_compactions(space).is_none() {
            self.check_writable("ingest")?;
            if self.work(usize::MAX)? != Worked::Did {
                self.pause("ingest")?;
            }
        }
        Ok(())
    }

    /// I2 to I5, of `made`, whose descriptors are `descs`; `None` if others were quicker.
    fn try_place<'e>(
        &'e self,
        space: &Arc<KeyspaceState>,
        descs: &[TableDesc],
        made: &mut Vec<NewTable>,
        writer: &mut Option<LockingWrite<'e>>,
    ) -> Result<Option<Seq>> {
        let publishes_first = planted::is(Bug::IngestPublishedFirst);
        if self.streams.are_there() {
            self.room_for_event(&ingested(space, descs));
        }
        // I2: an empty commit takes the number. Active memtables with keys of the files are switched, so that later writes to
        // these keys are newer than the number.
        let mut nothing = [Op::new(space, Kind::RangeDelete, b"", b"")];
        // A listener that writes would wait for this commit, which waits for flushes and compactions.
        let _quiet = self.events.quiet();
        let admitted = Commit::admit(self, Ops::Borrowed(&mut nothing), WriteWay::default());
        let mut commit = admitted.map_err(NotAdmitted::into_error)?;
        {
            let _admin = space.admin.lock().unwrap_or_else(PoisonError::into_inner);
            for subrange in space.subranges() {
                if self.touches(subrange.view.load().active(), descs, Seq::MAX)? {
                    self.switch_memtable(&subrange);
                    self.update_reserve();
                }
            }
        }
        let mut covered = CoveredHeads { space, descs, heads: Vec::new() };
        commit.take_number_among(&mut covered, writer)?;
        let copied = commit.copy();
        let submitted = commit.submit(copied);
        self.settle(submitted.needs())?;
        commit.index()?;
        for desc in descs {
            space.vacancies.fill_range(&desc.smallest, &desc.largest);
        }
        // I3 and I4, then I5: the tables are installed before their number is visible.
        let seq = commit.number();
        self.await_seq(seq - 1)?;
        if publishes_first {
            self.await_visible(commit.publish(submitted))?;
            return Ok(self.install_tables(space, descs, made, seq)?.then_some(seq));
        }
        if !self.install_tables(space, descs, made, seq)? {
            return Ok(None);
        }
        self.await_visible(commit.publish(submitted))?;
        self.background.member.wake();
        Ok(Some(seq))
    }

    /// I3 and I4; `false` if there is no level for some table, or older data in a memtable that may not be waited for.
    fn install_tables(
        &self,
        space: &Arc<KeyspaceState>,
        descs: &[TableDesc],
        made: &mut Vec<NewTable>,
        seq: Seq,
    ) -> Result<bool> {
        loop {
            self.check_writable("ingest")?;
            if space.dropped.load(Relaxed) {
                return Err(crate::keyspace::dropped(space));
            }
            match self.in_the_way(space, descs, seq)? {
                InTheWay::Nothing => {}
                InTheWay::Unpublished => return Ok(false),
                InTheWay::Older(memtables) => {
                    self.await_flushed(&memtables)?;
                    self.compact_down(space, enclosing(descs), Depth::Level0)?;
                    continue;
                }
            }
            // Under these locks no drop and no compaction changes the levels between the choice and the edit (I-TREE-1).
            let admin = space.admin.lock().unwrap_or_else(PoisonError::into_inner);
            if space.dropped.load(Relaxed) {
                continue;
            }
            let Some(_held) = self.hold_compactions(space) else {
                drop(admin);
                self.await_compactions(space)?;
                continue;
            };
            let Some(levels) = placement(&space.tree(), descs) else { return Ok(false) };
            self.check_manifest_room(descs.len(), edit::tables_len(descs.iter()), 0)?;
            for (NewTable { desc, .. }, level) in made.iter_mut().zip(levels) {
                (desc.level, desc.global_seq, desc.min_seq, desc.max_seq) = (level, seq, seq, seq);
            }
            let changes = made.iter().map(|new| VersionEdit::AddTable(Box::new(new.desc.clone())));
            let streams = self.streams.are_there();
            let event = streams.then(|| event_edit(seq, &ingested(space, descs))).flatten();
            let edit = self.edit(changes.chain(event).collect())?;
            let subranges = space.subranges();
            let gates: Vec<_> =
                subranges.iter().map(|each| each.view.load().gate.close()).collect();
            if let (false, Some(tables)) = (planted::is(Bug::RecordsKeptOverIngest), &self.tables) {
                tables.cache.drop_records(space.id);
            }
            self.swap_trees(space, std::mem::take(made), None);
            drop(gates);
            edit.end();
            return Ok(true);
        }
    }

    /// What persistent memory has of these keys that is older than `seq`.
    fn in_the_way(
        &self,
        space: &Arc<KeyspaceState>,
        descs: &[TableDesc],
        seq: Seq,
    ) -> Result<InTheWay> {
        if planted::is(Bug::IngestBelowOlder) {
            return Ok(InTheWay::Nothing);
        }
        let (mut older, mut runs) = (Vec::new(), false);
        for subrange in space.subranges() {
            let view = subrange.view.load();
            for (position, memtable) in view.memtables.iter().enumerate() {
                if !self.touches(memtable, descs, seq)? {
                    continue;
                }
                // Older memtables must be flushed before it.
                let mut first = view.memtables[position..].iter();
                let waits = |each: &Arc<Memtable>| each.last_seq.load(Relaxed) >= seq;
                if position == 0 || first.any(waits) {
                    return Ok(InTheWay::Unpublished);
                }
                older.push((Arc::clone(space), Arc::downgrade(memtable)));
            }
            for run in &view.runs {
                let Some(bounds) = run.bounds_within(&self.media, &subrange.span)? else {
                    continue;
                };
                let KeyBounds { smallest: low, largest: high } = bounds;
                runs |= descs.iter().any(|desc| desc.smallest <= high && !desc.is_below(&low));
            }
        }
        let nothing = older.is_empty() && !runs;
        Ok(if nothing { InTheWay::Nothing } else { InTheWay::Older(older) })
    }

    /// Whether a memtable has records, older than `below`, of keys that are within one of the tables.
    fn touches(&self, memtable: &Memtable, descs: &[TableDesc], below: Seq) -> Result<bool> {
        for desc in descs {
            if memtable.deletes.touches(&desc.smallest, &desc.largest, below)
                || self.touches_one(memtable, desc, below)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn touches_one(&self, memtable: &Memtable, desc: &TableDesc, below: Seq) -> Result<bool> {
        let media = &*self.media;
        let (mut from, forward) = (Bound::Included(desc.smallest.clone()), Direction::Forward);
        loop {
            let mut leaves = Vec::with_capacity(BATCH_KEYS);
            let start = from.as_ref().map(|key| &key[..]);
            let end =
                memtable.index.scan(media, start, forward, Versions::All, BATCH_KEYS, &mut leaves);
            for leaf in &leaves {
                let entry = media.entry(Leaf(*leaf))?;
                let key = media.key(&entry);
                if desc.is_below(key) {
                    return Ok(false);
                }
                if entry.seq < below && !is_skipped(&entry) {
                    return Ok(true);
                }
                from = Bound::Excluded(key.to_vec());
            }
            if end {
                return Ok(false);
            }
        }
    }
}

/// I1: copies and checks. What was copied goes if anything fails.
fn take_in(
    tables: &Arc<Tables>,
    space: &KeyspaceState,
    paths: &[PathBuf],
) -> Result<Vec<NewTable>> {
    let unsynced = planted::is(Bug::IngestBeforeDirectorySync);
    if paths.is_empty() {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            "ingest",
            "no files; name at least one",
        ));
    }
    let made = paths.iter().map(|path| take_in_one(tables, space, path));
    let made = made.collect::<Result<Vec<NewTable>>>()?;
    let mut order: Vec<usize> = (0..made.len()).collect();
    order.sort_by(|a, b| made[*a].desc.smallest.cmp(&made[*b].desc.smallest));
    for pair in order.windows(2) {
        let (a, b) = (&made[pair[0]].desc, &made[pair[1]].desc);
        if !a.is_below(&b.smallest) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "ingest",
                format!(
                    "{} and {} overlap at key {}; ingest one after the other",
                    paths[pair[0]].display(),
                    paths[pair[1]].display(),
                    b.smallest.escape_ascii()
                ),
            ));
        }
    }
    if !unsynced {
        let tiers = made.iter().filter_map(|new| new.desc.place()).map(|place| place.tier);
        tables.sync_dirs(&tiers.collect())?;
    }
    Ok(made)
}

fn take_in_one(tables: &Arc<Tables>, space: &KeyspaceState, path: &Path) -> Result<NewTable> {
    let id = tables.take_id();
    // If anything fails from here on, its drop removes the copy.
    let source = tables.table_dir.fs.open(path)?;
    let (keyspace, among) = (space.id, space.siting.load().tiers.clone());
    let site = FileSite { rank: tables.tiers.iter().len() - 1, among };
    let tier = tables.tiers.place(&site, source.len());
    let place = FilePlace { tier: tier.no(), name: FileName::Table(id) };
    let mut space = TableSpace::file(tables, place);
    let fs = &*tier.dir.at.fs;
    space.take(source.len(), Writes::Levels)?;
    let to = tables.path(place);
    let (_, sum) = copy(fs, &*source, &to)?;
    // Examine the copy, since the original may change at any time.
    let copy = TableCopy { file: fs.open(&to)?, name: path.display().to_string() };
    let desc = TableDesc { id, tier: place.tier, keyspace, sum, ..examine(copy)? };
    Ok(NewTable { desc, space, values: Vec::new(), reads: 0, warm: Vec::new() })
}

/// For each table the deepest level such that neither it nor any above it overlaps the table.
fn placement(tree: &Tree, descs: &[TableDesc]) -> Option<Vec<u8>> {
    let level = |desc: &TableDesc| {
        let free = tree
            .levels()
            .take_while(|(_, level)| level.overlapping(&desc.smallest, &desc.largest).is_empty());
        free.last().map(|(number, _)| number as u8)
    };
    descs.iter().map(level).collect()
}

/// The keys of all tables, and those in between.
fn enclosing(descs: &[TableDesc]) -> OptionalBounds<'_> {
    OptionalBounds {
        smallest: descs.iter().map(|desc| &desc.smallest[..]).min(),
        largest: descs.iter().map(|desc| &desc.largest[..]).max(),
    }
}
