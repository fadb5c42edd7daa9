//! L4: adopt records make the commit count.

use std::sync::Arc;

use base::{PmOffset, Seq};
use pmem::{InFlight, Site, Submitted};

use crate::engine::Engine;
use crate::record::adopt::{self, StagedPart};
use crate::record::format::{self, Kind, SeqForm, Shape, ZoneBinding};
use crate::stream::kept::{KeptZone, StagedSegment};
use crate::write::acknowledge::Published;
use crate::write::large::layout::adopt_shape;
use crate::write::large::{LargeCommit, LargePhase, StagedGroup, StagedZone};
use crate::write::op::Stored;

impl<'e> LargeCommit<'e, '_> {
    /// W3, first half: writes the adopt records.
    pub(crate) fn copy(&mut self) -> InFlight<'e> {
        debug_assert_eq!(self.phase, LargePhase::Reserved);
        self.hold_values_for_streams();
        let region = &*self.engine.media.region;
        let mut flight = region.nothing_in_flight(Site::Adopt);
        let mut stage = Vec::new();
        for group in &self.groups {
            stage.clear();
            group.encode(self.engine, &mut stage, Kind::Adopt, self.number, self.published);
            flight.join(region.copy_nt(Site::Adopt, group.adopt_at().get(), &stage));
        }
        self.phase = LargePhase::Copied;
        flight
    }

    /// Change streams hold its long values before it is visible.
    fn hold_values_for_streams(&self) {
        if self.kept.is_none() {
            return;
        }
        let changes_from = self.number + self.groups.len() as u64;
        for op in self.ops.iter() {
            if let Stored::Extent(hold, _) = &op.stored {
                let seq = changes_from + u64::from(op.place);
                self.engine.streams.hold_extent(seq, self.last_seq(), hold);
            }
        }
    }

    /// W3, second half: the fence by which the commit counts, or its place in the queue of the log.
    pub(crate) fn submit(&mut self, copied: InFlight<'e>) -> Submitted {
        self.engine.media.region.submit(copied, self.way.promise)
    }

    /// W4: the records are indexed already; their keys are taken out of the vacancies.
    pub(crate) fn index(&mut self) {
        for group in &self.groups {
            if let Some((low, high)) = group.live {
                let (low, high) = (self.ops[low].key, self.ops[high].key);
                group.space.vacancies.fill_range(low, high);
            }
        }
    }

    /// W5: hands the commit to the ring, and publishes what is durable.
    pub(crate) fn publish(mut self, submitted: Submitted) -> Published {
        self.phase = LargePhase::Closed;
        let (engine, last_seq, needs) = (self.engine, self.last_seq(), submitted.needs());
        if let Some(vacating) = &mut self.vacating {
            vacating.vacate(engine, &self.ops, last_seq);
        }
        if let Some(ticket) = self.ticket {
            engine.complete(ticket, submitted);
        }
        let zones = self.groups.iter().map(|group| group.zones.len()).sum();
        self.turn.note(self.groups.iter().map(StagedGroup::bytes).sum(), zones);
        drop(self);
        // The memtables wait to be flushed.
        engine.update_debt();
        engine.background.member.wake();
        Published { last_seq, needs }
    }

    /// Gives the commit up behind W2: its adopt records become void, durably, and its records as far as this process goes,
    /// before its number is published.
    fn void(&mut self) {
        self.vacating = None;
        let region = &*self.engine.media.region;
        let mut flight = region.nothing_in_flight(Site::Void);
        for group in &self.groups {
            let at = group.adopt_at().get();
            if self.phase == LargePhase::Copied {
                let word = format::voided(region.load_u64(at));
                flight.join(region.flush(region.store_u64(Site::Void, at, word)));
            } else {
                let mut blank = Vec::new();
                let (number, published) = (self.number, self.published);
                group.encode(self.engine, &mut blank, Kind::Blank, number, published);
                let mut first = [0; 8];
                first.copy_from_slice(&blank[..8]);
                let word = format::voided(u64::from_le_bytes(first));
                blank[..8].copy_from_slice(&word.to_le_bytes());
                flight.join(region.copy_nt(Site::Void, at, &blank));
            }
        }
        let submitted = region.submit(flight, None);
        let settled = region.settle(submitted.needs(), &|_| {});
        // An open does not look at records that no adopt record names, so these words need not last.
        for op in self.ops.iter() {
            let word = format::voided(region.load_u64(op.record.at.get()));
            let _need_not_last = region.store_u64(Site::Void, op.record.at.get(), word);
        }
        for group in self.groups.iter().filter(|group| !group.memtable.deletes.is_empty()) {
            group.memtable.deletes.remove(self.number..=self.last_seq());
        }
        match (settled, self.ticket) {
            (Ok(_), Some(ticket)) => self.engine.complete(ticket, submitted),
            (Ok(_), None) => {}
            // Its fate is unknown: it is never passed.
            (Err(error), _) => self.engine.poison.set(error),
        }
        if self.engine.poison.is_set() {
            self.engine.events.tell();
        }
    }
}

impl Drop for LargeCommit<'_, '_> {
    fn drop(&mut self) {
        match self.phase {
            LargePhase::Staging => {
                if let Some(kept) = self.kept.take() {
                    drop(self.engine.streams.let_staged_go(&kept));
                }
                let zones = self.groups.iter().flat_map(|group| &group.zones);
                zones.for_each(|staged| staged.zone.retire());
            }
            LargePhase::Reserved | LargePhase::Copied => self.void(),
            LargePhase::Closed => {}
        }
    }
}

impl StagedGroup<'_> {
    /// Bytes of its records.
    pub(super) fn bytes(&self) -> u64 {
        self.zones.iter().map(|staged| staged.plan.len).sum()
    }

    /// Its zones as change streams hold them.
    pub(super) fn segment_for_streams(&self) -> StagedSegment {
        let kept = |staged: &StagedZone| {
            Arc::new(KeptZone::new(&staged.zone, self.space.id, staged.zone.end))
        };
        StagedSegment { zones: self.zones.iter().map(kept).collect(), adopt_at: self.adopt_at() }
    }

    /// Where its adopt record goes.
    fn adopt_at(&self) -> PmOffset {
        self.zones.last().map_or(PmOffset::ZERO, |last| last.zone.start + last.plan.len)
    }

    /// Appends its adopt record to `out`, or a blank one in its place.
    fn encode(&self, engine: &Engine, out: &mut Vec<u8>, kind: Kind, number: Seq, published: Seq) {
        let part = |staged: &StagedZone| StagedPart {
            zone: staged.zone.no,
            records: staged.plan.ops.len() as u32,
            incarnation: staged.zone.incarnation,
            len: staged.plan.len,
        };
        let parts: Vec<StagedPart> = self.zones.iter().map(part).collect();
        let shape = Shape { kind, ..adopt_shape(self.segment, parts.len()) };
        let seed = engine.media.place(self.adopt_at()).map_or(0, |(seed, _)| seed);
        let binding = ZoneBinding { seed, base_seq: Seq::ZERO, form: SeqForm::Wide };
        let seq = number + u64::from(self.segment.place);
        format::encode(out, &shape, binding, seq, published, b"", &adopt::encode(&parts));
    }
}
