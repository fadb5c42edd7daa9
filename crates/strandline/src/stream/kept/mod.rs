//! What an open store holds for its change streams: the slots, and the zones and extents whose changes they are yet to give.
//!
//! **I-STREAM-1** A zone or extent with a record of a commit behind the lowest number that a slot has passed is held.
//!
//! **I-STREAM-2** What a slot has passed is in a durable edit before anything is let go for it. So whatever power failure leaves of
//! a zone behind that number is whole.
//!
//! A zone that only streams need is *retired* as any other: an edit says that nothing names it, and its word is cleared once it is
//! let go. An open finds those whose words are not cleared, and holds those on that its slots need.

mod slot;
mod staged;
mod zones;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use base::Seq;
use base::planted::{self, Bug};

use crate::keyspace::write_head::WriteHead;
use crate::record::extent::ExtentHold;
use crate::record::zone::Zone;
use crate::ring::sequencer::Sequencer;
pub(crate) use slot::Slot;
pub(crate) use staged::{CommitNumbers, KeptLarge, StagedSegment, ZoneReading};
pub(crate) use zones::{KeptZone, KeptZones, LetGo, ZonePart};

/// What an open found of streams.
#[derive(Default)]
pub(crate) struct FoundStreams {
    pub slots: Vec<Arc<Slot>>,
    pub zones: KeptZones,
}

/// The streams of an open store.
pub(crate) struct Streams {
    /// Whether there are any, or one is being made: then what commits fill is held.
    keeps: AtomicBool,
    kept: Mutex<StreamsNow>,
    /// Serialises edits about streams with what follows from them in memory. Never taken between W2 and W5.
    changing: Mutex<()>,
}

#[derive(Default)]
struct StreamsNow {
    slots: BTreeMap<String, Arc<Slot>>,
    zones: KeptZones,
}

impl StreamsNow {
    fn passed(&self) -> Option<Seq> {
        self.slots.values().map(|slot| slot.passed()).min()
    }
}

/// A part of the store's commits that does not change any more.
pub(crate) struct StreamWindow {
    /// Every commit up to this number is in the parts.
    pub upto: Seq,
    /// What is in the parts does not change once this number is visible.
    pub frozen_at: Seq,
    pub parts: Vec<ZonePart>,
}

impl Streams {
    pub(crate) fn new(found: FoundStreams) -> Streams {
        let FoundStreams { slots, zones } = found;
        Streams {
            keeps: AtomicBool::new(!slots.is_empty()),
            kept: Mutex::new(StreamsNow {
                slots: slots.into_iter().map(|slot| (slot.name.clone(), slot)).collect(),
                zones,
            }),
            changing: Mutex::default(),
        }
    }

    fn kept(&self) -> MutexGuard<'_, StreamsNow> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether what commits fill is held.
    #[inline]
    pub(crate) fn are_there(&self) -> bool {
        self.keeps.load(Ordering::Acquire)
    }

    /// From now on what commits fill is held, though there may be no slot yet.
    pub(crate) fn begin(&self) {
        self.keeps.store(true, Ordering::Release);
    }

    /// Nothing is held if there is no slot.
    pub(crate) fn end_if_none(&self) -> LetGo {
        let mut kept = self.kept();
        if !kept.slots.is_empty() {
            return LetGo::default();
        }
        self.keeps.store(false, Ordering::Release);
        kept.zones.let_all_go()
    }

    /// The right to change slots. The caller holds nothing that comes behind it.
    pub(crate) fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, unless another thread has it.
    pub(crate) fn try_change(&self) -> Option<MutexGuard<'_, ()>> {
        match self.changing.try_lock() {
            Ok(right) => Some(right),
            Err(TryLockError::Poisoned(right)) => Some(right.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// By name.
    pub(crate) fn slots(&self) -> Vec<Arc<Slot>> {
        self.kept().slots.values().cloned().collect()
    }

    pub(crate) fn slot(&self, name: &str) -> Option<Arc<Slot>> {
        self.kept().slots.get(name).cloned()
    }

    pub(crate) fn add(&self, slot: &Arc<Slot>) {
        self.kept().slots.insert(slot.name.clone(), Arc::clone(slot));
    }

    pub(crate) fn remove(&self, name: &str) {
        if let Some(slot) = self.kept().slots.remove(name) {
            slot.drop_stream();
        }
    }

    /// The lowest number that a slot has passed.
    pub(crate) fn passed(&self) -> Option<Seq> {
        self.kept().passed()
    }

    /// Bytes that the stream may keep which may keep most.
    pub(crate) fn most_bytes(&self) -> u64 {
        self.kept().slots.values().map(|slot| slot.max_bytes).max().unwrap_or(0)
    }

    /// Holds a zone that `ready` makes ready for records at `head`. No window is taken in between: it would take the zone for filled.
    pub(crate) fn hold_zone(
        &self,
        keyspace: u32,
        zone: &Arc<Zone>,
        head: &Arc<WriteHead>,
        ready: impl FnOnce(),
    ) {
        if !self.are_there() {
            return ready();
        }
        let mut kept = self.kept();
        ready();
        if self.are_there() {
            kept.zones.open(KeptZone::new(zone, keyspace, zone.end), head);
        }
    }

    /// Holds zones that were made ready at `head` before. Those that were made ready since [`Streams::begin`] are held already.
    pub(crate) fn hold_open(&self, keyspace: u32, zones: &[Arc<Zone>], head: &Arc<WriteHead>) {
        let mut kept = self.kept();
        for zone in zones.iter().filter(|zone| !zone.is_kept()) {
            kept.zones.open(KeptZone::new(zone, keyspace, zone.end), head);
        }
    }

    /// Holds the extent of the value of record `seq`, whose commit ends with `end`.
    pub(crate) fn hold_extent(&self, seq: Seq, end: Seq, hold: &Arc<ExtentHold>) {
        if self.are_there() && !planted::is(Bug::StreamValueFreed) {
            let mut kept = self.kept();
            if self.are_there() {
                kept.zones.extent(seq, end, hold);
            }
        }
    }

    /// Holds the zones of a large commit that has no number yet, if anything is held. No stream is made meanwhile.
    pub(crate) fn hold_staged(
        &self,
        segments: impl FnOnce() -> Vec<StagedSegment>,
    ) -> Option<Arc<KeptLarge>> {
        if !self.are_there() || planted::is(Bug::StreamStagedUnheld) {
            return None;
        }
        let large = Arc::new(KeptLarge::new(segments()));
        let mut kept = self.kept();
        self.are_there().then(|| {
            kept.zones.stage(&large);
            large
        })
    }

    /// Lets go of a large commit that never got a number.
    pub(crate) fn let_staged_go(&self, large: &Arc<KeptLarge>) -> LetGo {
        self.kept().zones.let_staged_go(large)
    }

    /// Lets go of a zone that was taken away from its write head before anything was reserved in it.
    pub(crate) fn let_unfilled_go(&self, zone: &Zone) -> LetGo {
        if self.are_there() { self.kept().zones.let_unfilled_go(zone.no) } else { LetGo::default() }
    }

    /// The extent of the value of record `seq`, if it is held.
    pub(crate) fn extent_of(&self, seq: Seq) -> Option<Arc<ExtentHold>> {
        self.kept().zones.extent_of(seq)
    }

    /// What there is to read behind `passed`.
    ///
    /// The order of these looks counts. Commits up to `upto` have all their room before the parts are looked at, and what is
    /// within the parts had its number before `frozen_at` was read.
    pub(crate) fn window(&self, sequencer: &Sequencer, passed: Seq) -> StreamWindow {
        let mut kept = self.kept();
        let upto = sequencer.enter_to_switch().next_seq() - 1;
        let parts = kept.zones.parts(sequencer, passed);
        let frozen_at = sequencer.enter_to_switch().next_seq() - 1;
        StreamWindow { upto, frozen_at, parts }
    }

    /// Whether so much was taken since the last look at what is held that it is due.
    pub(crate) fn is_look_due(&self) -> bool {
        self.kept().zones.is_look_due()
    }

    /// Lets go of what all slots have passed. To be dropped outside of locks.
    pub(crate) fn let_go(&self, sequencer: &Sequencer) -> LetGo {
        let mut kept = self.kept();
        kept.zones.look(sequencer);
        match kept.passed() {
            Some(passed) => kept.zones.let_go(passed),
            None => LetGo::default(),
        }
    }

    /// Slots that are behind with more than they may keep, and the number up to which each gives up. What all have passed was let go.
    pub(crate) fn overdue(&self, visible: Seq) -> Vec<(Arc<Slot>, Seq)> {
        let kept = self.kept();
        let StreamsNow { slots, zones } = &*kept;
        let all = zones.bytes();
        let over = |slot: &Arc<Slot>| {
            let (passed, most) = (slot.passed(), slot.max_bytes);
            // Nearly always that answers it.
            if all <= most || zones.bytes_behind(passed) <= most {
                return None;
            }
            // A quarter at once, so that few edits are needed.
            let upto = zones.give_up(passed, most - most / 4, visible)?;
            Some((Arc::clone(slot), upto))
        };
        slots.values().filter_map(over).collect()
    }

    /// Slots that have to give up, and the number up to which, so that `bytes` become free, or as much as there is. What all have
    /// passed was let go.
    pub(crate) fn in_the_way(&self, bytes: u64, visible: Seq) -> Vec<(Arc<Slot>, Seq)> {
        let kept = self.kept();
        let Some(upto) = kept.zones.give_back(bytes, visible) else { return Vec::new() };
        let behind = kept.slots.values().filter(|slot| slot.passed() < upto);
        behind.map(|slot| (Arc::clone(slot), upto)).collect()
    }

    /// Bytes of what a slot is behind with, and of what is held for it that nothing else in the store needs.
    pub(crate) fn behind(&self, sequencer: &Sequencer, slot: &Slot) -> (u64, u64) {
        let mut kept = self.kept();
        kept.zones.look(sequencer);
        let passed = slot.passed();
        (kept.zones.bytes_behind(passed), kept.zones.held_behind(passed))
    }

    /// Bytes of what is held behind `passed` that nothing else in the store needs.
    pub(crate) fn held_behind(&self, passed: Seq) -> u64 {
        self.kept().zones.held_behind(passed)
    }

    /// All zones and extents that are held.
    pub(crate) fn all_held(&self) -> (Vec<Arc<KeptZone>>, Vec<Arc<ExtentHold>>) {
        self.kept().zones.all()
    }
}
