//! A keyspace: a named, separately ordered set of keys. One subrange each for now.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use base::Seq;

use crate::lost::Lost;
use crate::memtable::Memtable;
use crate::memtable::zone::Zone;
use crate::ring::Pass;
use crate::view::View;

/// State of a keyspace that is open in this process.
pub(crate) struct Space {
    pub id: u32,
    pub name: String,
    pub view: ArcSwap<View>,
    pub front: Front,
    /// Serialises changes of the View and of the front's zones. Never taken between W2 and W5.
    pub admin: Mutex<()>,
    pub dropped: AtomicBool,
    /// A merge met damage here: merging on would spread it or lose the rest.
    pub unmergeable: AtomicBool,
    /// What damage took; only where the store is open read-only.
    pub lost: Option<Lost>,
    /// Everything was merged since the last freeze.
    pub reclaimed: AtomicBool,
    /// Where cleaning goes on.
    clean_tail: Mutex<CleanTail>,
    /// Memtables ever made here, for [`Memtable::order`].
    pub orders: AtomicU64,
}

/// Where the next record of a subrange goes. Written only inside the gate.
#[derive(Default)]
pub(crate) struct Front {
    /// Number of the View whose active memtable these zones belong to.
    number: AtomicU64,
    tail: AtomicU64,
    end: AtomicU64,
    base_seq: AtomicU64,
    spare_start: AtomicU64,
    spare_end: AtomicU64,
    spare_base_seq: AtomicU64,
    bytes: AtomicU64,
    /// The zone being filled, and the spare one, came out of the reserve for deletes.
    tail_reserved: AtomicBool,
    spare_reserved: AtomicBool,
}

/// The unfilled rest of a zone of moved records, which the next full merge fills on. The run that names the
/// zone is among the inputs of such a merge, and bytes behind its records are nobody's.
#[derive(Default)]
pub(crate) struct CleanTail {
    pub zone: Option<Arc<Zone>>,
    pub at: u64,
}

impl CleanTail {
    /// Bytes left in the zone.
    pub(crate) fn room(&self) -> u64 {
        self.zone.as_ref().map_or(0, |zone| zone.end - self.at)
    }
}

/// Space that W2 found for a segment, not yet taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub start: u64,
    pub wide: bool,
    pub base_seq: Seq,
    pub len: u64,
    switch: bool,
}

impl Room {
    /// Whether the segment begins a zone that was granted ahead.
    pub(crate) fn switched(&self) -> bool {
        self.switch
    }
}

/// Why W2 could not reserve; W1 mends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// The pinned View is not current any more.
    View,
    /// No zone with enough room was granted ahead.
    Zone,
    /// Too many commits are in flight.
    Slot,
}

/// Lengths of a segment in both record forms.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lengths {
    pub narrow: u64,
    pub wide: u64,
    /// Largest distance from the zone's base sequence that the narrow form holds.
    pub narrow_max: u64,
    /// The commit only deletes: it may use what is kept for that.
    pub deletes: bool,
}

impl Lengths {
    fn at(&self, base_seq: Seq, last_seq: Seq) -> (bool, u64) {
        if last_seq - base_seq <= self.narrow_max {
            (false, self.narrow)
        } else {
            (true, self.wide)
        }
    }
}

impl Front {
    /// Looks for room without taking it.
    #[inline]
    pub(crate) fn find(
        &self,
        _pass: &Pass<'_>,
        view_number: u64,
        lengths: &Lengths,
        last_seq: Seq,
    ) -> Result<Room, Lack> {
        if self.number.load(Relaxed) != view_number {
            return Err(Lack::View);
        }
        let (tail, end) = (self.tail.load(Relaxed), self.end.load(Relaxed));
        let base_seq = self.base_seq.load(Relaxed);
        let (wide, len) = lengths.at(base_seq, last_seq);
        if tail + len <= end && (lengths.deletes || !self.tail_reserved.load(Relaxed)) {
            return Ok(Room { start: tail, wide, base_seq, len, switch: false });
        }
        let (start, end) = (self.spare_start.load(Relaxed), self.spare_end.load(Relaxed));
        let base_seq = self.spare_base_seq.load(Relaxed);
        let (wide, len) = lengths.at(base_seq, last_seq);
        let allowed = lengths.deletes || !self.spare_reserved.load(Relaxed);
        if start != 0 && start + len <= end && allowed {
            return Ok(Room { start, wide, base_seq, len, switch: true });
        }
        Err(Lack::Zone)
    }

    /// Takes the room that [`Front::find`] found under the same pass.
    #[inline]
    pub(crate) fn take(&self, _pass: &Pass<'_>, room: &Room) {
        if room.switch {
            self.end.store(self.spare_end.load(Relaxed), Relaxed);
            self.base_seq.store(room.base_seq, Relaxed);
            self.tail_reserved.store(self.spare_reserved.load(Relaxed), Relaxed);
            self.spare_start.store(0, Relaxed);
        }
        self.tail.store(room.start + room.len, Relaxed);
        self.bytes.store(self.bytes.load(Relaxed) + room.len, Relaxed);
    }

    /// Whether a spare zone stands ready.
    #[inline]
    pub(crate) fn has_spare(&self) -> bool {
        self.spare_start.load(Relaxed) != 0
    }

    /// Whether the spare zone is kept for deletes.
    pub(crate) fn spare_is_reserved(&self) -> bool {
        self.has_spare() && self.spare_reserved.load(Relaxed)
    }

    /// Lets every commit use what was kept for deletes.
    pub(crate) fn release_reserved(&self, _pass: &Pass<'_>) {
        self.spare_reserved.store(false, Relaxed);
        self.tail_reserved.store(false, Relaxed);
    }

    /// Makes a granted zone the spare one; `reserved`: for deletes.
    pub(crate) fn set_spare(&self, pass: &Pass<'_>, zone: &Zone, reserved: bool) {
        self.set_spare_from(pass, zone, zone.start);
        self.spare_reserved.store(reserved, Relaxed);
    }

    /// As [`Front::set_spare`], beginning at `start`.
    pub(crate) fn set_spare_from(&self, _pass: &Pass<'_>, zone: &Zone, start: u64) {
        debug_assert!(!self.has_spare());
        self.spare_base_seq.store(zone.base_seq, Relaxed);
        self.spare_end.store(zone.end, Relaxed);
        self.spare_start.store(start, Relaxed);
    }

    /// Offset of the spare zone, if there is one.
    pub(crate) fn spare(&self, _pass: &Pass<'_>) -> Option<u64> {
        Some(self.spare_start.load(Relaxed)).filter(|start| *start != 0)
    }

    /// Bytes left in the zones that stand ready. Read without a pass, so a little off at times.
    pub(crate) fn room(&self) -> u64 {
        let left =
            |end: &AtomicU64, at: &AtomicU64| end.load(Relaxed).saturating_sub(at.load(Relaxed));
        let spare = if self.has_spare() { left(&self.spare_end, &self.spare_start) } else { 0 };
        left(&self.end, &self.tail) + spare
    }

    /// Bytes reserved in the active memtable.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Points the front at a new active memtable that begins in the spare zone, if there is one. Returns
    /// the bytes reserved in the old one.
    pub(crate) fn switch_memtable(&self, _pass: &Pass<'_>, view_number: u64) -> u64 {
        self.tail.store(0, Relaxed);
        self.end.store(0, Relaxed);
        self.tail_reserved.store(false, Relaxed);
        self.number.store(view_number, std::sync::atomic::Ordering::Release);
        self.bytes.swap(0, Relaxed)
    }

    /// Number of the current View, for readers (R1).
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.number.load(std::sync::atomic::Ordering::Acquire)
    }

    /// Announces a View that changes nothing for writers.
    pub(crate) fn set_number(&self, _pass: &Pass<'_>, view_number: u64) {
        self.number.store(view_number, std::sync::atomic::Ordering::Release);
    }
}

impl Space {
    pub(crate) fn new(id: u32, name: &str, view: View, orders: u64, lost: Option<Lost>) -> Space {
        let front = Front::default();
        front.number.store(view.number, Relaxed);
        Space {
            id,
            name: name.to_owned(),
            view: ArcSwap::from_pointee(view),
            front,
            admin: Mutex::new(()),
            dropped: AtomicBool::new(false),
            unmergeable: AtomicBool::new(false),
            lost,
            reclaimed: AtomicBool::new(false),
            clean_tail: Mutex::default(),
            orders: AtomicU64::new(orders),
        }
    }

    /// The zone that cleaning was filling when the last full merge ended.
    pub(crate) fn clean_tail(&self) -> MutexGuard<'_, CleanTail> {
        self.clean_tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A memtable newer than every other of this keyspace.
    pub(crate) fn new_memtable(&self, zones: Vec<Arc<Zone>>) -> Memtable {
        Memtable::new(self.orders.fetch_add(1, Relaxed) + 1, zones)
    }
}
