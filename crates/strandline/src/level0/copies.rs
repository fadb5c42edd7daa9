//! Records that a flush or a merge writes anew: those that cleaning moves, and combined operands. They lie in zones that only
//! the new run names. Before its edit nothing leads to them, and without it the zones are freed with their last holder.

use std::sync::Arc;

use base::planted::{self, Bug};
use base::{Result, Seq};
use pmem::{InFlight, Site};
use pool::ZoneKind;

use crate::engine::{Claim, Engine};
use crate::keyspace::subrange::{CleanTail, SubrangeName};
use crate::record::format::{self, Kind, Role, SeqForm, Shape, ZoneBinding};
use crate::record::store::{Entry, Leaf, Media, hash};
use crate::record::zone::Zone;

/// Writes the copies.
pub(crate) struct Copies {
    base_seq: Seq,
    whose: SubrangeName,
    /// Zones granted.
    pub targets: Vec<Arc<Zone>>,
    /// Where the next copy goes.
    pub tail: CleanTail,
    /// Bytes written.
    pub written: u64,
    stage: Vec<u8>,
}

/// A record to be written.
pub(crate) struct NewRecord<'c> {
    pub kind: Kind,
    pub seq: Seq,
    pub key: &'c [u8],
    /// Its value, or where that is.
    pub stored: &'c [u8],
}

impl NewRecord<'_> {
    fn shape(&self) -> Shape {
        let (key_len, value_len) = (self.key.len(), self.stored.len());
        Shape { kind: self.kind, role: Role::Moved, key_len, value_len }
    }
}

impl Copies {
    /// Nothing is written yet. Copies go to the zone of `tail`, one of the caller's inputs, from there on. Sequence numbers
    /// begin at `base_seq`.
    pub(crate) fn new(whose: SubrangeName, base_seq: Seq, tail: CleanTail) -> Copies {
        Copies { base_seq, whose, targets: Vec::new(), tail, written: 0, stage: Vec::new() }
    }

    /// Makes room for `copy`: in the last zone, or in a new one if `claim` may have one. Tells whether there is room.
    pub(crate) fn make_room(
        &mut self,
        engine: &Engine,
        claim: Claim,
        copy: &NewRecord<'_>,
    ) -> bool {
        // The longer of both forms, since the form depends on the zone.
        if self.tail.room() >= copy.shape().len(SeqForm::Wide) {
            return true;
        }
        let Some(zone) = engine.grant(ZoneKind::Clean, claim, self.whose, self.base_seq) else {
            return false;
        };
        zone.retire();
        self.tail = CleanTail { at: zone.start, zone: Some(Arc::clone(&zone)) };
        self.targets.push(zone);
        true
    }

    /// Writes `copy`, for which there is room, and tells where it is. To be fenced by this thread.
    pub(crate) fn write<'r>(
        &mut self,
        media: &'r Media,
        site: Site,
        copy: &NewRecord<'_>,
    ) -> Result<(Entry, InFlight<'r>)> {
        let renumbers = planted::is(Bug::CleanRenumbers);
        let (at, shape) = (self.tail.at, copy.shape());
        let Some((seed, base_seq)) = media.place(at) else { return Err(media.damaged(at)) };
        let distance = copy.seq.wrapping_distance(base_seq);
        let form = if distance > shape.narrow_max() { SeqForm::Wide } else { SeqForm::Narrow };
        let len = shape.len(form);
        let seq = if renumbers { base_seq } else { copy.seq };
        self.stage.clear();
        let binding = ZoneBinding { seed, base_seq, form };
        format::encode(&mut self.stage, &shape, binding, seq, seq, copy.key, copy.stored);
        let written = media.region.copy_nt(site, at.get(), &self.stage);
        self.tail.at += len;
        self.written += len;
        Ok((media.entry(Leaf::new(at, len, hash(copy.key)))?, written))
    }
}
