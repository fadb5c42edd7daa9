//! Commits of more than a quarter of a zone: their records are written, fenced and indexed before they have a number, in zones
//! and memtables that nothing leads to. Then one pass of W2 takes all numbers and shows the memtables, and one short adopt record
//! for each subrange makes the commit count.
//!
//! - **L1** [`LargeCommit::admit`], after [`Engine::try_large_turn`]: limits, routing, zones and memory, all or nothing.
//! - **L2** [`LargeCommit::stage`]: records, a piece at a time.
//! - **L3** [`Numbering::take_number_among`]: W2.
//! - **L4** [`LargeCommit::copy`], [`LargeCommit::submit`], [`LargeCommit::index`], [`LargeCommit::publish`]: W3 to W5.
//!
//! - **I-LARGE-1** An adopt record is stored after the records, headers and extents that it leads to are durable.
//! - **I-LARGE-2** No View leads to a staged memtable before its numbers are taken; in the pass that takes them each touched
//!   subrange gets a View with its staged memtable above all older sources and below its active memtable.
//! - **I-LARGE-3** A staged zone and the adopt record that names it leave in one edit. A run names records of it only after its
//!   base is durable in its line (`level0/flush.rs`).
//! - **I-LARGE-4** What was taken for a large commit that never got a number goes as a zone does that nothing names.

mod adopt;
mod layout;
mod number;
mod room;
mod stage;

use std::ops::Range;
use std::sync::Arc;

use base::{Error, ErrorKind, Result, Seq};

use crate::engine::large_turn::LargeTurn;
use crate::engine::{Claim, Engine};
use crate::keyspace::KeyspaceState;
use crate::keyspace::subrange::Subrange;
use crate::locks::in_way::WriteSet;
use crate::memtable::Memtable;
use crate::record::format::Segment;
use crate::record::zone::Zone;
use crate::ring::Ticket;
use crate::runtime::is_in_turn;
use crate::stream::kept::KeptLarge;
use crate::write::condition::Condition;
use crate::write::numbering::Numbering;
use crate::write::op::Ops;
use crate::write::route;
use crate::write::slowdown::Slowdown;
use crate::write::vacate::Vacating;
use crate::write::way::WriteWay;
use layout::{TooLong, ZonePlan, lay_out};

/// The part of a large commit that goes to one subrange.
struct StagedGroup<'a> {
    space: &'a Arc<KeyspaceState>,
    subrange: Arc<Subrange>,
    /// Its changes.
    ops: Range<usize>,
    /// Of these those with the lowest and the highest key that is live then.
    live: Option<(usize, usize)>,
    memtable: Arc<Memtable>,
    zones: Vec<StagedZone>,
    segment: Segment,
}

/// A staged zone, and the changes whose records are in it.
struct StagedZone {
    zone: Arc<Zone>,
    plan: ZonePlan,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LargePhase {
    Staging,
    Reserved,
    Copied,
    Closed,
}

/// A large commit on its way.
pub(crate) struct LargeCommit<'e, 'a> {
    engine: &'e Engine,
    ops: Ops<'a>,
    groups: Vec<StagedGroup<'a>>,
    /// The next record that is staged: the zone that it goes to, by group and place, and its change.
    next: NextRecord,
    phase: LargePhase,
    ticket: Option<Ticket>,
    number: Seq,
    published: Seq,
    /// Of a commit that deletes ranges.
    vacating: Option<Vacating<'a>>,
    held_waits: u32,
    way: WriteWay,
    turn: LargeTurn<'e>,
    /// What each group writes, once it has met locks.
    write_sets: Vec<WriteSet<'a>>,
    /// Its zones as change streams hold them, once it is staged.
    kept: Option<Arc<KeptLarge>>,
}

#[derive(Clone, Copy, Default)]
struct NextRecord {
    group: usize,
    zone: usize,
    op: usize,
    /// Bytes of the zone that are filled.
    at: u64,
}

/// How many of its records a large commit has staged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StagedSoFar {
    Part,
    All,
}

impl Engine {
    /// Commits `ops`, too many for a zone, as one if `condition` holds. Tells the number of the last.
    #[cold]
    pub(crate) fn commit_large<'a>(
        &self,
        ops: Ops<'a>,
        way: WriteWay,
        condition: &mut impl Condition,
    ) -> Result<Seq> {
        let _call = self.call("write")?;
        let turn = self.await_large_turn(&way)?;
        let mut commit = LargeCommit::admit(turn, ops, way)?;
        commit.ask_early(condition)?;
        while commit.stage()? == StagedSoFar::Part {}
        commit.take_number_among(condition, &mut None)?;
        let copied = commit.copy();
        let submitted = commit.submit(copied);
        commit.index();
        let published = commit.publish(submitted);
        self.await_visible(published).map(|()| published.last_seq)
    }

    /// Waits until no other large commit is on its way.
    ///
    /// # Errors
    /// `Busy` if the caller cannot wait; `Closed`.
    pub(crate) fn await_large_turn(&self, way: &WriteWay) -> Result<LargeTurn<'_>> {
        loop {
            if let Some(turn) = self.try_large_turn(way.permit) {
                return Ok(turn);
            }
            if way.slowdown == Slowdown::Refused {
                return Err(self.busy("another large batch is on its way"));
            }
            // The other may be told of by this very thread, or wait for it.
            if self.events.are_told_here() || is_in_turn() {
                let text = "another large batch is on its way, and a listener waits for none; write it on a thread of its own";
                return Err(Error::new(ErrorKind::Busy, "write", text));
            }
            self.pause("write")?;
        }
    }
}

impl<'e, 'a> LargeCommit<'e, 'a> {
    /// L1: routes the changes, which keep their subranges from now on, and takes zones and memory for all of them.
    ///
    /// # Errors
    /// `LimitExceeded` for a record that no zone holds; `NoSpace`, `Busy`, `Closed`.
    pub(crate) fn admit(
        mut turn: LargeTurn<'e>,
        mut ops: Ops<'a>,
        way: WriteWay,
    ) -> Result<LargeCommit<'e, 'a>> {
        let engine = turn.engine();
        turn.keep_uncut(spaces(&ops));
        let mut routed: Vec<(Range<usize>, Arc<Subrange>)> = Vec::new();
        route::groups(&mut ops, |ops, subrange| routed.push((ops, Arc::clone(subrange))));
        let segments = routed.len() as u32;
        let commit_records = u32::try_from(ops.len() + routed.len()).map_err(|_| too_many())?;
        let mut groups = Vec::with_capacity(routed.len());
        for (index, (range, subrange)) in (0..).zip(routed) {
            let space = ops[range.start].space;
            if space.dropped.load(std::sync::atomic::Ordering::Relaxed) {
                return Err(crate::keyspace::dropped(space));
            }
            let place = index;
            let segment = Segment { place, commit_records, records: 1, index, segments };
            let memtable = Arc::new(subrange.new_memtable());
            let live = live_bounds(&ops, range.clone());
            let zones = Vec::new();
            groups.push(StagedGroup {
                space,
                subrange,
                ops: range,
                live,
                memtable,
                zones,
                segment,
            });
        }
        let mut commit = LargeCommit {
            engine,
            ops,
            groups,
            next: NextRecord::default(),
            phase: LargePhase::Staging,
            ticket: None,
            number: Seq::ZERO,
            published: Seq::ZERO,
            vacating: None,
            held_waits: 0,
            way,
            turn,
            write_sets: Vec::new(),
            kept: None,
        };
        commit.take_room()?;
        Ok(commit)
    }

    /// Where each record of a group goes.
    fn plan(&self, group: &StagedGroup<'_>) -> Result<Vec<ZonePlan>> {
        let zone_len = self.engine.media.pool.geometry().zone_len();
        let ops = &self.ops[group.ops.clone()];
        let lens = ops.iter().map(|op| stage::shape(op).len(stage::FORM));
        lay_out(lens, zone_len, group.segment).map_err(|too_long| {
            let what = match too_long {
                TooLong::Record(at) => {
                    let len = stage::shape(&ops[at]).len(stage::FORM);
                    format!(
                        "a record of {len} bytes; at most {zone_len} fit a zone: shorten its key"
                    )
                }
                TooLong::List(zones)
                    if zones > self.engine.media.pool.geometry().zones() as usize =>
                {
                    return self.engine.too_many_zones(zones, Claim::Put, 0);
                }
                TooLong::List(zones) => {
                    format!(
                        "a batch over {zones} zones of {zone_len} bytes in one subrange: split it"
                    )
                }
            };
            Error::new(ErrorKind::LimitExceeded, "write", what)
        })
    }

    /// Last number of the commit, once it is reserved.
    pub(crate) fn last_seq(&self) -> Seq {
        self.number + self.count() - 1
    }

    /// Numbers that it takes: one for each adopt record, then one for each change.
    fn count(&self) -> u64 {
        (self.groups.len() + self.ops.len()) as u64
    }

    /// Number of the commit, once it is reserved.
    #[cfg(feature = "steps")]
    pub(crate) fn number(&self) -> Seq {
        self.number
    }
}

/// The keyspaces that are written, in the order of identifiers.
fn spaces(ops: &Ops<'_>) -> Vec<Arc<KeyspaceState>> {
    let mut spaces: Vec<&Arc<KeyspaceState>> = ops.iter().map(|op| op.space).collect();
    spaces.sort_by_key(|space| space.id);
    spaces.dedup_by_key(|space| space.id);
    spaces.into_iter().cloned().collect()
}

/// The changes of a range with the lowest and the highest key of those that make theirs live.
fn live_bounds(ops: &Ops<'_>, range: Range<usize>) -> Option<(usize, usize)> {
    let mut live = range.filter(|at| !ops[*at].deletes());
    let first = live.next()?;
    Some(live.fold((first, first), |(low, high), at| {
        let key = ops[at].key;
        (if key < ops[low].key { at } else { low }, if key > ops[high].key { at } else { high })
    }))
}

#[cold]
fn too_many() -> Error {
    let text = "a batch of more than 4,294,967,295 changes: split it";
    Error::new(ErrorKind::LimitExceeded, "write", text)
}
