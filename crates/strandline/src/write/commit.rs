//! The way of a write.
//!
//! - **W1** [`Commit::admit`]: limits, back-pressure, zones granted ahead. All waiting happens here.
//! - **W2** [`Commit::reserve`]: sequence numbers, a ticket and zone space, inside the gate.
//! - **W3** [`Commit::copy`], [`Commit::submit`]: records go to persistent memory, or to the queue of the log; parallel between
//!   writers.
//! - **W4** [`Commit::index`]: into the memtables' indexes, not yet visible.
//! - **W5** [`Commit::publish`]: visible in commit order; [`Engine::await_visible`] waits for the log, or writes it for all that
//!   wait, and acknowledges.
//!
//! A commit that ends between W2 and W5 in any other way is made void when it is dropped, so that the
//! commits behind it are not held up.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use arc_swap::Guard;
#[cfg(feature = "planted")]
use base::planted::{self, Bug};
use base::{Error, ErrorKind, Result, Seq};
use pmem::{InFlight, Site, Submitted};
use smallvec::SmallVec;
use sst::RangeDelete;

use crate::engine::{Claim, Engine};
use crate::keyspace::view::View;
use crate::keyspace::write_head::{Lack, Lengths, Permit, SegmentRoom};
use crate::locks::table::{LockTable, OwnerId};
use crate::record::format::{self, Kind, Role, Segment, SeqForm, ZoneBinding};
use crate::record::store::Leaf;
use crate::ring::Ticket;
use crate::write::acknowledge::Published;
use crate::write::admission::Owed;
use crate::write::among_locks::{InWay, in_way_of};
use crate::write::condition::Condition;
use crate::write::numbering::Numbering;
use crate::write::op::{OpRecord, Ops, Stored, check_limits, claim_of};
use crate::write::route;
use crate::write::slowdown::Slowdown;
use crate::write::vacate::{Vacating, fill_vacancy};
use crate::write::way::WriteWay;

/// Why [`Commit::admit`] gave no commit.
pub(crate) enum NotAdmitted<'a> {
    Failed(Error),
    /// It is large: see [`crate::write::large`]. Long values are out already.
    Large(Ops<'a>),
}

impl NotAdmitted<'_> {
    /// Of one that cannot be large.
    pub(crate) fn into_error(self) -> Error {
        match self {
            NotAdmitted::Failed(error) => error,
            NotAdmitted::Large(_) => Error::new(ErrorKind::Internal, "write", "a long record"),
        }
    }
}

impl From<Error> for NotAdmitted<'_> {
    fn from(error: Error) -> Self {
        NotAdmitted::Failed(error)
    }
}

/// The part of a commit that goes to one subrange.
struct Group {
    view: Guard<Arc<View>>,
    ops: Range<usize>,
    lengths: Lengths,
    room: Option<SegmentRoom>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Admitted,
    Reserved,
    Copied,
    Closed,
}

/// How often a commit of several subranges waits for zones: where there is room for those of some, they go from one to
/// the other in turn, and it would never have all.
const ZONE_WAITS_MAX: u32 = 100;

/// How often a commit lets others go on, before it sleeps, where a transaction holds a write head.
pub(super) const HELD_YIELDS: u32 = 1000;

/// A commit on its way. Tokens of `pmem` keep W3 to W5 in order.
pub(crate) struct Commit<'e, 'a> {
    pub(crate) engine: &'e Engine,
    pub(crate) ops: Ops<'a>,
    groups: SmallVec<[Group; 1]>,
    phase: Phase,
    ticket: Option<Ticket>,
    number: Seq,
    published: Seq,
    indexed: bool,
    /// Of a commit that deletes ranges.
    vacating: Option<Vacating<'a>>,
    /// How often it waited for zones.
    zone_waits: u32,
    /// How often it waited for a transaction that held a write head.
    held_waits: u32,
    pub(crate) way: WriteWay,
}

impl<'e, 'a> Commit<'e, 'a> {
    /// W1: checks limits and moves long values out; pays back-pressure.
    #[inline]
    pub(crate) fn admit(
        engine: &'e Engine,
        mut ops: Ops<'a>,
        way: WriteWay,
    ) -> Result<Commit<'e, 'a>, NotAdmitted<'a>> {
        engine.check_writable("write")?;
        // Limits first. A value that would take too much of a zone goes to an extent, on its way before W2 names it.
        let value_max = engine.media.pool.geometry().zone_len() / 8;
        for (place, op) in ops.iter_mut().enumerate() {
            check_limits(op, value_max)?;
            op.place = place as u32;
            if op.stored_value().len() as u64 > value_max && op.kind != Kind::RangeDelete {
                engine.move_value_out(op, way)?;
            }
        }
        let mut commit = Commit {
            engine,
            ops,
            groups: SmallVec::new(),
            phase: Phase::Admitted,
            ticket: None,
            number: Seq::ZERO,
            published: Seq::ZERO,
            zone_waits: 0,
            held_waits: 0,
            way,
            indexed: false,
            vacating: None,
        };
        // Routed and measured in the longer form: whatever zone W2 takes, the records fit.
        commit.group();
        let bytes: u64 = commit.groups.iter().map(|group| group.lengths.wide).sum();
        if bytes > engine.commit_bytes_max() {
            return Err(NotAdmitted::Large(std::mem::replace(
                &mut commit.ops,
                Ops::Owned(Vec::new()),
            )));
        }
        // All waiting is over before ranges are announced: scans of others walk them until W5.
        commit.prepare(bytes)?;
        commit.vacating = Vacating::announce(&commit.ops);
        Ok(commit)
    }

    /// Routes the ops to their subranges and pins the Views of these: one group each, measured in both record forms.
    /// W2 finds out whether that still holds.
    #[inline]
    fn group(&mut self) {
        self.groups.clear();
        if let [only] = &self.ops[..]
            && only.kind != Kind::RangeDelete
        {
            let view = only.space.routes.load().of(only.key).view.load();
            self.groups.push(Group { view, ops: 0..1, lengths: Lengths::default(), room: None });
        } else {
            self.group_several();
        }
        self.measure();
    }

    fn group_several(&mut self) {
        let Commit { ops, groups, .. } = self;
        route::groups(ops, |ops, subrange| {
            let view = subrange.view.load();
            groups.push(Group { view, ops, lengths: Lengths::default(), room: None });
        });
    }

    /// The shape of each record, and what the records of each group take.
    #[inline]
    fn measure(&mut self) {
        let deletes = self.claim() == Claim::Delete;
        for index in 0..self.groups.len() {
            let permit = self.way.permit;
            let mut lengths = Lengths { narrow: 0, wide: 0, narrow_max: u64::MAX, deletes, permit };
            for at in self.groups[index].ops.clone() {
                let shape = self.ops[at].shape(self.role(index, at));
                self.ops[at].record.shape = shape;
                lengths.narrow += shape.len(SeqForm::Narrow);
                lengths.wide += shape.len(SeqForm::Wide);
                lengths.narrow_max = lengths.narrow_max.min(shape.narrow_max());
            }
            self.groups[index].lengths = lengths;
        }
    }

    #[inline]
    fn role(&self, group: usize, at: usize) -> Role {
        let ops = &self.groups[group].ops;
        if self.ops.len() == 1 {
            Role::Solo
        } else if at == ops.start {
            Role::First(Segment {
                place: self.ops[at].place,
                commit_records: self.ops.len() as u32,
                records: ops.len() as u32,
                index: group as u32,
                segments: self.groups.len() as u32,
            })
        } else {
            Role::Follower
        }
    }

    /// The rest of W1: back-pressure, full memtables, zones granted ahead.
    #[inline]
    fn prepare(&mut self, bytes: u64) -> Result<()> {
        let engine = self.engine;
        if engine.background.throttle.debt() != 0
            && engine.pay(bytes, self.way.slowdown)? == Owed::Work
        {
            self.work_off()?;
        }
        for group in &self.groups {
            let op = &self.ops[group.ops.start];
            if op.space.dropped.load(Relaxed) {
                return Err(crate::keyspace::dropped(op.space));
            }
            if group.view.write_head.is_wanting() || engine.wants_a_look(group.view.active()) {
                engine.look_after(op.space, op.stored_key())?;
            }
        }
        Ok(())
    }

    /// Pays by background work. No View is pinned meanwhile: the work tells listeners, which may take their time, and it frees
    /// what no View holds.
    #[cold]
    fn work_off(&mut self) -> Result<()> {
        self.groups.clear();
        self.engine.work_off()?;
        self.group();
        Ok(())
    }

    #[inline]
    fn claim(&self) -> Claim {
        self.way.claim(claim_of(&self.ops))
    }

    /// Says that room in all subranges of the commit was not to be had at once.
    fn too_wide(&self) -> Error {
        let text = format!(
            "a batch over {} subranges needs room in a zone of {} bytes in each at once, and has waited {ZONE_WAITS_MAX} \
             times for that; split it, delete keys, or give more room (pm_size, ssd_size)",
            self.groups.len(),
            self.engine.media.pool.geometry().zone_len()
        );
        Error::new(ErrorKind::NoSpace, "write", text)
    }

    /// W2: the serial step. Takes everything or nothing, and only if `condition` holds. Its place is in the way of each write, where
    /// a call would cost 40 instructions.
    #[inline(always)]
    pub(crate) fn reserve(&mut self, condition: &mut impl Condition) -> Result<(), Lack> {
        debug_assert_eq!(self.phase, Phase::Admitted);
        let engine = self.engine;
        // A moment early: other writers keep its line busy, and it is waited for together with the gate's.
        self.published = engine.sequence.ring.visible();
        let mut pass = engine.sequence.sequencer.enter(&engine.sequence.ring).ok_or(Lack::Slot)?;
        let count = self.ops.len() as u64;
        let last_seq = pass.next_seq() + count - 1;
        condition.holds(&pass, self.way.permit)?;
        for group in &mut self.groups {
            let Group { view, lengths, .. } = &*group;
            group.room = Some(view.write_head.find(&pass, view.number, lengths, last_seq)?);
        }
        for group in &self.groups {
            if let Some(room) = &group.room {
                let memtable_bytes = engine.memtable_bytes(self.ops[group.ops.start].space);
                group.view.write_head.take(&pass, room, last_seq, memtable_bytes);
            }
        }
        condition.taken(&pass, last_seq);
        let (ticket, number) = pass.take(count);
        drop(pass);
        self.ticket = Some(ticket);
        self.number = number;
        self.lay_out();
        self.phase = Phase::Reserved;
        Ok(())
    }

    /// Gives each record its place in what W2 took, one directly behind the other. Outside the gate.
    #[inline(always)]
    fn lay_out(&mut self) {
        for group in &self.groups {
            let Some(SegmentRoom { start, form, base_seq, .. }) = group.room else { continue };
            let mut at = start;
            for op in &mut self.ops[group.ops.clone()] {
                let seed = self.engine.media.place(at).map_or(0, |(seed, _)| seed);
                let (shape, len) = (op.record.shape, op.record.shape.len(form));
                op.record = OpRecord { shape, at, len, zone: ZoneBinding { seed, base_seq, form } };
                at += len;
            }
        }
    }

    /// W3, first half: encodes the records and streams them to their places.
    #[inline]
    pub(crate) fn copy(&mut self) -> InFlight<'e> {
        debug_assert_eq!(self.phase, Phase::Reserved);
        let region = &*self.engine.media.region;
        let mut flight = region.nothing_in_flight(Site::Record);
        STAGE.with_borrow_mut(|stage| {
            for op in self.ops.iter() {
                let OpRecord { shape, at, zone, .. } = &op.record;
                let seq = self.number + u64::from(op.place);
                let (key, value) = (op.stored_key(), op.stored_value());
                stage.clear();
                format::encode(stage, shape, *zone, seq, self.published, key, value);
                flight.join(region.copy_nt(Site::Record, at.get(), stage));
            }
        });
        self.phase = Phase::Copied;
        // Not at the head of the fence: a scheduler acts between the two steps, and is to find the commit visible.
        #[cfg(feature = "planted")]
        if planted::is(Bug::PublishBeforeFence) {
            let _indexed = self.index();
            self.engine.sequence.ring.leap(self.last_seq());
        }
        flight
    }

    /// W3, second half: the commit's only fence, or its place in the queue of the log.
    #[inline]
    pub(crate) fn submit(&mut self, copied: InFlight<'e>) -> Submitted {
        self.engine.media.region.submit(copied, self.way.promise)
    }

    /// W4: names the records in the memtables' indexes. Not visible: readers stop at the visible number.
    /// Damage to a record whose key must be set apart gives the commit up.
    #[inline]
    pub(crate) fn index(&mut self) -> Result<()> {
        debug_assert_eq!(self.phase, Phase::Copied);
        if std::mem::replace(&mut self.indexed, true) {
            return Ok(());
        }
        let media = &*self.engine.media;
        if self.ops.len() > 1 {
            for group in &self.groups {
                for chunk in self.ops[group.ops.clone()].chunks(WARM_KEYS) {
                    let keys: SmallVec<[&[u8]; WARM_KEYS]> =
                        chunk.iter().map(|op| op.key).collect();
                    group.view.active().index.warm(&keys);
                }
            }
        }
        let mut indexed = Ok(());
        if self.vacating.is_some() {
            self.add_range_deletes();
        }
        for group in &self.groups {
            let memtable = group.view.active();
            for op in &self.ops[group.ops.clone()] {
                fill_vacancy(op);
                let leaf = Leaf::new(op.record.at, op.record.len, op.hash);
                let seq = self.number + u64::from(op.place);
                if let Stored::Extent(hold, _) = &op.stored {
                    memtable.hold_extent(Arc::clone(hold));
                    self.engine.streams.hold_extent(seq, self.last_seq(), hold);
                }
                if op.kind != Kind::RangeDelete && indexed.is_ok() {
                    indexed = memtable.index.insert(media, op.key, seq.get(), leaf.0);
                }
            }
        }
        indexed.map_err(|unreadable| media.damaged(Leaf(unreadable.leaf).at()))
    }

    /// Adds the commit's range deletions to the memtables, those of one memtable together.
    fn add_range_deletes(&self) {
        for group in &self.groups {
            let of_group = self.ops[group.ops.clone()].iter();
            let mut deletes = of_group.filter(|op| op.kind == Kind::RangeDelete).peekable();
            if deletes.peek().is_some() {
                let deletes = deletes.map(|op| RangeDelete {
                    begin: op.stored_key().to_vec(),
                    end: op.stored_value().to_vec(),
                    seq: self.number + u64::from(op.place),
                });
                group.view.active().deletes.add(deletes.collect());
            }
        }
    }

    /// W5: hands the commit to the ring with what it needs to be durable, and publishes what is.
    #[inline]
    pub(crate) fn publish(mut self, submitted: Submitted) -> Published {
        self.phase = Phase::Closed;
        let last_seq = self.number + self.ops.len() as u64 - 1;
        let needs = submitted.needs();
        if let Some(vacating) = &mut self.vacating {
            vacating.vacate(self.engine, &self.ops, last_seq);
        }
        if let Some(ticket) = self.ticket {
            self.engine.complete(ticket, submitted);
        }
        // Not at the head of W5: all of it is done for this commit, and only the older ones are passed over.
        #[cfg(feature = "planted")]
        if planted::is(Bug::PublishOutOfOrder) {
            self.engine.sequence.ring.leap(last_seq);
        }
        Published { last_seq, needs }
    }

    /// Number of the commit, once reserved.
    pub(crate) fn number(&self) -> Seq {
        self.number
    }

    /// Last sequence number of the commit, once reserved.
    pub(crate) fn last_seq(&self) -> Seq {
        self.number + self.ops.len() as u64 - 1
    }

    /// Whether all of the commit's segments began in a zone granted ahead.
    #[cfg(feature = "steps")]
    pub(crate) fn switched_zone(&self) -> bool {
        self.groups.iter().any(|group| group.room.is_some_and(|room| room.switched()))
    }

    /// Gives the commit up: its records become void, durably, before its number is published.
    fn void(&mut self) {
        self.vacating = None;
        let region = &*self.engine.media.region;
        let mut flight = region.nothing_in_flight(Site::Void);
        let filled = self.phase == Phase::Copied;
        if self.indexed {
            let deletes = self.groups.iter().map(|group| &group.view.active().deletes);
            let some = deletes.filter(|deletes| !deletes.is_empty());
            some.for_each(|deletes| deletes.remove(self.number..=self.last_seq()));
        }
        for op in self.ops.iter() {
            let at = op.record.at;
            if filled {
                let word = format::voided(region.load_u64(at.get()));
                flight.join(region.flush(region.store_u64(Site::Void, at.get(), word)));
            } else {
                let seq = self.number + u64::from(op.place);
                let blank = op.record.blank(seq, self.published);
                flight.join(region.copy_nt(Site::Void, at.get(), &blank));
            }
        }
        // If not even that is durable, the commit's fate is unknown: it is never passed.
        let submitted = region.submit(flight, None);
        match (region.settle(submitted.needs(), &|_| {}), self.ticket) {
            (Ok(_), Some(ticket)) => self.engine.complete(ticket, submitted),
            (Ok(_), None) => {}
            (Err(error), _) => self.engine.poison.set(error),
        }
        if self.engine.poison.is_set() {
            self.groups.clear();
            // A listener that writes is refused, and waits for nothing.
            self.engine.events.tell();
        }
    }
}

impl<'e> Numbering<'e> for Commit<'e, '_> {
    type Ready = ();

    fn engine(&self) -> &'e Engine {
        self.engine
    }

    fn slowdown(&self) -> Slowdown {
        self.way.slowdown
    }

    fn set_permit(&mut self, permit: Permit) {
        self.way.permit = permit;
        self.groups.iter_mut().for_each(|group| group.lengths.permit = permit);
    }

    fn make_ready(&mut self) -> Result<()> {
        Ok(())
    }

    #[cold]
    fn reserve_ready(&mut self, (): (), condition: &mut impl Condition) -> Result<(), Lack> {
        self.reserve(condition)
    }

    /// Part of W1: nothing is reserved yet.
    #[cold]
    fn mend(&mut self, lack: Lack) -> Result<()> {
        match lack {
            Lack::Slot => {
                self.engine.check_writable("write")?;
                std::thread::yield_now();
            }
            // It is soon done, unless it waits for the device that has the log.
            Lack::Held if self.held_waits >= HELD_YIELDS => self.engine.pause("write")?,
            Lack::Held => {
                self.held_waits += 1;
                std::thread::yield_now();
            }
            // Not mended here, but where the number is taken.
            Lack::Look | Lack::Locked => {}
            Lack::View => {
                self.engine.check_writable("write")?;
                for group in &self.groups {
                    let space = self.ops[group.ops.start].space;
                    if space.dropped.load(Relaxed) {
                        return Err(crate::keyspace::dropped(space));
                    }
                }
                self.group();
            }
            Lack::Zone => {
                let claim = self.claim();
                self.zone_waits += 1;
                if self.groups.len() > 1 && self.zone_waits > ZONE_WAITS_MAX {
                    return Err(self.too_wide());
                }
                // No View is held meanwhile, which would hold on to what is to be reclaimed.
                let wanted: SmallVec<[(usize, u64); 1]> = self
                    .groups
                    .drain(..)
                    .map(|group| (group.ops.start, group.lengths.wide))
                    .collect();
                for (first, len) in wanted {
                    let op = &self.ops[first];
                    self.engine.await_zone(op, claim, len, self.way.slowdown)?;
                }
                self.group();
            }
        }
        Ok(())
    }

    fn in_way(&self, table: &mut LockTable, writer: OwnerId) -> Option<InWay> {
        // As far as the Views are still current.
        let mut locked = self.groups.iter().filter(|group| group.view.write_head.has_locks());
        locked.find_map(|group| {
            let ops = &self.ops[group.ops.clone()];
            self.engine.let_writers_in(table, ops[0].space, ops[0].stored_key());
            ops.iter().find_map(|op| in_way_of(op, table, writer))
        })
    }

    fn leave_views(&mut self) {
        self.groups.clear();
        self.vacating = None;
    }

    fn return_to_views(&mut self) {
        self.group();
        self.vacating = Vacating::announce(&self.ops);
    }
}

impl Drop for Commit<'_, '_> {
    #[inline]
    fn drop(&mut self) {
        if matches!(self.phase, Phase::Reserved | Phase::Copied) {
            self.void();
        }
    }
}

/// Keys whose way through the index is walked ahead together.
pub(super) const WARM_KEYS: usize = 16;

thread_local! {
    /// Records are put together here, whole lines, before they are streamed out.
    pub(super) static STAGE: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
}
