//! Change streams that lag: what they may not keep, or keep from writers, is lost to them. An edit says so before any of it is free
//! (I-STREAM-2).
//!
//! No writer waits for a stream. So what is held for streams alone counts as free, as far as writers are slowed by what is not, and is
//! given up where a writer would find no space.

use std::sync::Arc;

use base::Seq;
use base::planted::{self, Bug};

use crate::engine::Engine;
use crate::manifest::streams::{SlotDesc, slot_edit};
use crate::stream::kept::Slot;

impl Engine {
    /// Has streams give up that are behind with more than they may keep. Part of W1, behind the grant of a zone.
    pub(crate) fn trim_streams(&self) {
        if !self.streams.are_there() || !self.streams.is_look_due() {
            return;
        }
        // Who has it will be here again, and what is kept meanwhile is a zone more.
        let Some(_changing) = self.streams.try_change() else { return };
        drop(self.streams.let_go(&self.sequence.sequencer));
        let overdue = self.streams.overdue(self.sequence.ring.visible());
        self.lose_changes(&overdue);
    }

    /// Lets go of what all streams have passed; if there is nothing of that, has them give up what holds `bytes` that nothing else
    /// needs, or as much as there is. Tells whether anything was let go.
    pub(super) fn give_changes_back(&self, bytes: u64) -> bool {
        if !self.streams.are_there() {
            return false;
        }
        let Some(_changing) = self.streams.try_change() else { return false };
        // A zone that was filled behind the last acknowledgement may hold nothing behind it.
        if !self.streams.let_go(&self.sequence.sequencer).is_empty() {
            return true;
        }
        let in_the_way = self.streams.in_the_way(bytes, self.sequence.ring.visible());
        self.lose_changes(&in_the_way)
    }

    /// Has streams give up everything up to `upto`.
    pub(crate) fn lose_changes_up_to(&self, upto: Seq) {
        let _changing = self.streams.change();
        let behind = self.streams.slots().into_iter().filter(|slot| slot.passed() < upto);
        let lost: Vec<(Arc<Slot>, Seq)> = behind.map(|slot| (slot, upto)).collect();
        self.lose_changes(&lost);
    }

    /// Each of these slots gives up what is not behind the number beside it. The caller may change slots.
    fn lose_changes(&self, lost: &[(Arc<Slot>, Seq)]) -> bool {
        if lost.is_empty() {
            return false;
        }
        let descs = lost.iter().map(|(slot, upto)| (slot, SlotDesc { lost: *upto, ..slot.desc() }));
        let unsaid = planted::is(Bug::StreamLossUnsaid);
        if unsaid {
            descs.clone().for_each(|(slot, desc)| slot.set(desc));
        } else {
            let changes = descs.clone().map(|(slot, desc)| slot_edit(&slot.name, desc));
            // An edit that is refused leaves everything as it is.
            let Ok(edit) = self.edit(changes.collect()) else { return false };
            descs.for_each(|(slot, desc)| slot.set(desc));
            edit.end();
        }
        drop(self.streams.let_go(&self.sequence.sequencer));
        true
    }
}
