//! L2: records go to their zones and into the index of a memtable that no View has, a piece at a time. Each piece is durable
//! before the next one begins; where there is a log, others get their turns in between.

use std::sync::Arc;

use base::planted::{self, Bug};
use base::{Result, Seq};
use pmem::Site;
use smallvec::SmallVec;
use sst::RangeDelete;

use crate::record::format::{self, Kind, Role, SeqForm, Shape, ZoneBinding};
use crate::record::store::Leaf;
use crate::write::commit::{STAGE, WARM_KEYS};
use crate::write::large::{LargeCommit, NextRecord, StagedGroup, StagedSoFar};
use crate::write::op::{Op, OpRecord, Stored};
use crate::write::vacate::Vacating;

/// Bytes of a piece: about what a device writes in a millisecond.
const PIECE: u64 = 256 << 10;
/// The form of staged records: their numbers count from 0.
pub(super) const FORM: SeqForm = SeqForm::Narrow;

/// The shape of a staged record.
pub(super) fn shape(op: &Op<'_>) -> Shape {
    op.shape(Role::Follower)
}

impl LargeCommit<'_, '_> {
    /// Stages the next piece.
    ///
    /// # Errors
    /// Those of the log; `Corruption` if a key cannot be set apart from one that is damaged.
    pub(crate) fn stage(&mut self) -> Result<StagedSoFar> {
        self.engine.check_writable("write")?;
        planted::step("stage a large commit");
        let Some(group) = self.groups.get(self.next.group) else { return Ok(StagedSoFar::All) };
        let engine = self.engine;
        let (media, region) = (&*engine.media, &*engine.media.region);
        // The piece ends with its zone at the latest.
        let zone = &group.zones[self.next.zone];
        let (begin, end) = (group.ops.start + self.next.op, group.ops.start + zone.plan.ops.end);
        let places = self.groups.len() as u64;
        let (mut at, mut written) = (zone.zone.start + self.next.at, 0);
        let mut flight = region.nothing_in_flight(Site::Staged);
        let mut done = begin;
        STAGE.with_borrow_mut(|stage| {
            while done < end && written < PIECE {
                let op = &mut self.ops[done];
                let seed = media.place(at).map_or(0, |(seed, _)| seed);
                let binding = ZoneBinding { seed, base_seq: Seq::ZERO, form: FORM };
                let shape = shape(op);
                let len = shape.len(FORM);
                op.record = OpRecord { shape, at, len, zone: binding };
                let seq = Seq::new(places + u64::from(op.place));
                stage.clear();
                let (key, value) = (op.stored_key(), op.stored_value());
                format::encode(stage, &shape, binding, seq, Seq::ZERO, key, value);
                flight.join(region.copy_nt(Site::Staged, at.get(), stage));
                (at, written, done) = (at + len, written + len, done + 1);
            }
        });
        if !planted::is(Bug::AdoptBeforeFence) {
            let submitted = region.submit(flight, self.way.promise);
            engine.settle(submitted.needs())?;
        }
        self.index_piece(begin..done)?;
        self.next = self.next.behind(&self.groups[self.next.group], done, written);
        if self.next.group < self.groups.len() {
            return Ok(StagedSoFar::Part);
        }
        let segments = || self.groups.iter().map(StagedGroup::segment_for_streams).collect();
        self.kept = engine.streams.hold_staged(segments);
        // Scans of others walk these ranges until W5.
        self.vacating = Vacating::announce(&self.ops);
        Ok(StagedSoFar::All)
    }

    /// Names records in the index of their memtable. Numbers count from 0 there, too: all of a commit become visible at once,
    /// so that they only have to order the versions of a key.
    fn index_piece(&self, range: std::ops::Range<usize>) -> Result<()> {
        let media = &*self.engine.media;
        let (memtable, places) = (&self.groups[self.next.group].memtable, self.groups.len() as u64);
        let ops = &self.ops[range];
        for chunk in ops.chunks(WARM_KEYS) {
            let keys: SmallVec<[&[u8]; WARM_KEYS]> = chunk.iter().map(|op| op.key).collect();
            memtable.index.warm(&keys);
            for op in chunk.iter().filter(|op| op.kind != Kind::RangeDelete) {
                let leaf = Leaf::new(op.record.at, op.record.len, op.hash);
                let seq = places + u64::from(op.place);
                let indexed = memtable.index.insert(media, op.key, seq, leaf.0);
                indexed.map_err(|unreadable| media.damaged(Leaf(unreadable.leaf).at()))?;
                if let Stored::Extent(hold, _) = &op.stored {
                    memtable.hold_extent(Arc::clone(hold));
                }
            }
        }
        let deletes = ops.iter().filter(|op| op.kind == Kind::RangeDelete);
        let deletes: Vec<RangeDelete> = deletes
            .map(|op| RangeDelete {
                begin: op.stored_key().to_vec(),
                end: op.stored_value().to_vec(),
                seq: Seq::new(places + u64::from(op.place)),
            })
            .collect();
        if !deletes.is_empty() {
            memtable.deletes.add(deletes);
        }
        Ok(())
    }
}

impl NextRecord {
    /// What follows when the changes up to `done` are staged, `written` bytes more.
    fn behind(self, group: &StagedGroup<'_>, done: usize, written: u64) -> NextRecord {
        let (op, at) = (done - group.ops.start, self.at + written);
        if op < group.zones[self.zone].plan.ops.end {
            return NextRecord { op, at, ..self };
        }
        // The last zone may have nothing but the adopt record.
        if op < group.ops.len() {
            return NextRecord { op, at: 0, zone: self.zone + 1, ..self };
        }
        NextRecord { group: self.group + 1, ..NextRecord::default() }
    }
}
