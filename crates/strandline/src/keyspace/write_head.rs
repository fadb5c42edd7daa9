//! W2's place: where the next record of a subrange goes, and whether it fits.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, fence};

use base::planted::{self, Bug};
use base::{AtomicSeq, PmOffset, Seq};

use crate::padded::Padded;
use crate::record::format::SeqForm;
use crate::record::zone::Zone;
use crate::ring::sequencer::SequencerGuard;

/// The commits that a zone is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeptFor {
    All,
    /// Those that only delete: it came out of their reserve.
    Deletes,
}

/// Where the next record of a subrange goes. Written only inside the gate.
pub(crate) struct WriteHead {
    /// Number of the View whose active memtable these zones belong to.
    number: AtomicU64,
    /// The memtable has reached its size, or no spare zone stands ready: W1 is to look.
    wanting: AtomicBool,
    /// Every commit writes here; readers and W1 must not meet it.
    fill: Padded<Fill>,
}

/// What W2 reads and moves. The first line is what it needs while a zone has room.
#[derive(Default)]
#[repr(C)]
struct Fill {
    tail: AtomicU64,
    end: AtomicU64,
    base_seq: AtomicSeq,
    bytes: AtomicU64,
    /// Number of the View that writers must have pinned, with [`LOCKED`] where keys are locked; [`HELD`] while a transaction
    /// keeps them out.
    takes: AtomicU64,
    /// The newest number reserved here since the store was opened; 0 if none was. It never falls (I-TXN-1).
    last_seq: AtomicSeq,
    spare_start: AtomicU64,
    /// The zone being filled, and the spare one, came out of the reserve for deletes.
    tail_reserved: AtomicBool,
    spare_reserved: AtomicBool,
    /// Keys are locked here (I-LOCK-4).
    locked: AtomicBool,
    spare_end: AtomicU64,
    spare_base_seq: AtomicSeq,
}

/// Space that W2 found for a segment, not yet taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentRoom {
    pub start: PmOffset,
    pub form: SeqForm,
    pub base_seq: Seq,
    pub len: u64,
    switch: bool,
}

impl SegmentRoom {
    /// Whether the segment begins a zone that was granted ahead.
    #[cfg(feature = "steps")]
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
    /// A transaction holds a write head, and is about to take its number.
    Held,
    /// Keys of the subrange are locked, perhaps the commit's.
    Locked,
    /// What the commit depends on is to be looked at, outside the pass.
    Look,
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
    pub permit: Permit,
}

/// Whether a commit may pass where keys are locked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Permit {
    /// Its keys may be locked by others.
    #[default]
    ToBeAsked,
    /// It has their locks, or they are known to be free in this pass.
    Given,
}

impl Lengths {
    fn at(&self, base_seq: Seq, last_seq: Seq) -> (SeqForm, u64) {
        if last_seq - base_seq <= self.narrow_max {
            (SeqForm::Narrow, self.narrow)
        } else {
            (SeqForm::Wide, self.wide)
        }
    }
}

/// How far a zone is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    /// It stands ready, and nothing is reserved in it.
    Nothing,
    /// It is being filled: what is reserved ends there.
    Upto(PmOffset),
    /// Nothing more is reserved in it, and nothing in it is newer than this number.
    Wholly(Seq),
}

/// The number of a write head that takes no more writes.
const CLOSED: u64 = u64::MAX;
/// What a write head takes that is held: no View has that number.
const HELD: u64 = u64::MAX - 1;
/// Added to the number of the View where keys are locked. Views are not that many.
const LOCKED: u64 = 1 << 62;

impl WriteHead {
    pub(crate) fn new(view_number: u64) -> WriteHead {
        let fill = Fill { takes: AtomicU64::new(view_number), ..Fill::default() };
        WriteHead {
            number: AtomicU64::new(view_number),
            wanting: AtomicBool::new(true),
            fill: Padded(fill),
        }
    }

    /// Whether commits are let in that have pinned View `view_number`.
    #[inline]
    pub(crate) fn admits(
        &self,
        _pass: &SequencerGuard<'_>,
        view_number: u64,
        permit: Permit,
    ) -> Result<(), Lack> {
        let takes = self.fill.takes.load(Relaxed);
        if takes != view_number
            && let Some(lack) = refusal(takes, view_number, permit)
        {
            return Err(lack);
        }
        Ok(())
    }

    /// Looks for room without taking it.
    #[inline]
    pub(crate) fn find(
        &self,
        pass: &SequencerGuard<'_>,
        view_number: u64,
        lengths: &Lengths,
        last_seq: Seq,
    ) -> Result<SegmentRoom, Lack> {
        self.admits(pass, view_number, lengths.permit)?;
        let fill = &*self.fill;
        let (tail, end) = (fill.tail.load(Relaxed), fill.end.load(Relaxed));
        let base_seq = fill.base_seq.load(Relaxed);
        let (form, len) = lengths.at(base_seq, last_seq);
        if tail + len <= end && (lengths.deletes || !fill.tail_reserved.load(Relaxed)) {
            let start = PmOffset::new(tail);
            return Ok(SegmentRoom { start, form, base_seq, len, switch: false });
        }
        let (start, end) = (fill.spare_start.load(Relaxed), fill.spare_end.load(Relaxed));
        let base_seq = fill.spare_base_seq.load(Relaxed);
        let (form, len) = lengths.at(base_seq, last_seq);
        let allowed = lengths.deletes || !fill.spare_reserved.load(Relaxed);
        if start != 0 && start + len <= end && allowed {
            let start = PmOffset::new(start);
            return Ok(SegmentRoom { start, form, base_seq, len, switch: true });
        }
        Err(Lack::Zone)
    }

    /// Takes the room that [`WriteHead::find`] found under the same pass, for a commit that ends with `last_seq`.
    /// The memtable is wanted no larger than `memtable_bytes`.
    #[inline]
    pub(crate) fn take(
        &self,
        _pass: &SequencerGuard<'_>,
        room: &SegmentRoom,
        last_seq: Seq,
        memtable_bytes: u64,
    ) {
        let fill = &*self.fill;
        // First of all: see `holds_something`.
        let bytes = fill.bytes.load(Relaxed) + room.len;
        fill.bytes.store(bytes, Relaxed);
        if room.switch {
            fill.end.store(fill.spare_end.load(Relaxed), Relaxed);
            fill.base_seq.store(room.base_seq, Relaxed);
            fill.tail_reserved.store(fill.spare_reserved.load(Relaxed), Relaxed);
            fill.spare_start.store(0, Release);
        }
        fill.tail.store((room.start + room.len).get(), Release);
        fill.last_seq.store(last_seq, Relaxed);
        if bytes >= memtable_bytes || fill.spare_start.load(Relaxed) == 0 {
            self.wanting.store(true, Relaxed);
        }
    }

    /// Whether W1 must look after the memtable's size or the spare zone. True as long as either is wanting.
    #[inline]
    pub(crate) fn is_wanting(&self) -> bool {
        self.wanting.load(Relaxed)
    }

    /// Looks anew whether anything is wanting.
    pub(crate) fn look(&self, _pass: &SequencerGuard<'_>, memtable_bytes: u64) {
        self.wanting.store(self.bytes() >= memtable_bytes || !self.has_spare(), Relaxed);
    }

    /// Whether a spare zone stands ready.
    #[inline]
    pub(crate) fn has_spare(&self) -> bool {
        self.fill.spare_start.load(Relaxed) != 0
    }

    /// Whether the spare zone is kept for deletes.
    pub(crate) fn spare_is_reserved(&self) -> bool {
        self.has_spare() && self.fill.spare_reserved.load(Relaxed)
    }

    /// Lets every commit use what was kept for deletes.
    pub(crate) fn release_reserved(&self, _pass: &SequencerGuard<'_>) {
        self.fill.spare_reserved.store(false, Relaxed);
        self.fill.tail_reserved.store(false, Relaxed);
    }

    /// Makes a granted zone the spare one.
    pub(crate) fn set_spare(&self, pass: &SequencerGuard<'_>, zone: &Zone, kept_for: KeptFor) {
        self.set_spare_from(pass, zone, zone.start);
        self.fill.spare_reserved.store(kept_for == KeptFor::Deletes, Relaxed);
    }

    /// As [`WriteHead::set_spare`], beginning at `start`.
    pub(crate) fn set_spare_from(&self, _pass: &SequencerGuard<'_>, zone: &Zone, start: PmOffset) {
        debug_assert!(!self.has_spare());
        self.fill.spare_base_seq.store(zone.base_seq, Relaxed);
        self.fill.spare_end.store(zone.end.get(), Relaxed);
        self.fill.spare_start.store(start.get(), Relaxed);
    }

    /// Where the spare zone begins, if there is one.
    pub(crate) fn spare(&self, _pass: &SequencerGuard<'_>) -> Option<PmOffset> {
        let start = self.fill.spare_start.load(Relaxed);
        (start != 0).then(|| PmOffset::new(start))
    }

    /// How far `zone` is filled, which stood ready here once.
    pub(crate) fn filled(&self, _pass: &SequencerGuard<'_>, zone: &Zone) -> Filled {
        let fill = &*self.fill;
        if fill.spare_start.load(Relaxed) == zone.start.get() {
            return Filled::Nothing;
        }
        let tail = PmOffset::new(fill.tail.load(Relaxed));
        // In the zone being filled something is reserved, so no tail is where a zone begins.
        if zone.start < tail && tail <= zone.end {
            return Filled::Upto(tail);
        }
        Filled::Wholly(self.last_seq())
    }

    /// Takes the spare zone away, if nothing is reserved in the active memtable. Tells where it begins.
    pub(crate) fn take_spare(&self, pass: &SequencerGuard<'_>) -> Option<PmOffset> {
        let start = self.spare(pass).filter(|_| self.bytes() == 0)?;
        self.fill.spare_start.store(0, Relaxed);
        self.wanting.store(true, Relaxed);
        Some(start)
    }

    /// Bytes left in the zones that stand ready. Read without a pass, so a little off at times.
    pub(crate) fn room(&self) -> u64 {
        let left =
            |end: &AtomicU64, at: &AtomicU64| end.load(Relaxed).saturating_sub(at.load(Relaxed));
        let spare =
            if self.has_spare() { left(&self.fill.spare_end, &self.fill.spare_start) } else { 0 };
        left(&self.fill.end, &self.fill.tail) + spare
    }

    /// Whether a zone stands ready, or something is reserved in the active memtable. Read without a pass: what is taken from
    /// a zone counts as reserved before it is missing there, and so it is looked for afterwards.
    pub(crate) fn holds_something(&self) -> bool {
        if self.room() > 0 {
            return true;
        }
        fence(Acquire);
        self.bytes() > 0
    }

    /// Bytes reserved in the active memtable.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.fill.bytes.load(Relaxed)
    }

    /// The newest number reserved here, in this memtable or one before it.
    pub(crate) fn last_seq(&self) -> Seq {
        self.fill.last_seq.load(Relaxed)
    }

    /// Points the write head at a new active memtable that begins in the spare zone, if there is one. Returns
    /// the bytes and the last sequence number reserved in the old one.
    pub(crate) fn switch_memtable(
        &self,
        pass: &SequencerGuard<'_>,
        view_number: u64,
    ) -> (u64, Seq) {
        self.fill.tail.store(0, Relaxed);
        self.fill.end.store(0, Relaxed);
        self.fill.tail_reserved.store(false, Relaxed);
        self.set_number(pass, view_number);
        let bytes = self.fill.bytes.swap(0, Relaxed);
        let last_seq = self.last_seq();
        if planted::is(Bug::WriteHeadForgets) {
            self.fill.last_seq.store(Seq::ZERO, Relaxed);
        }
        (bytes, if bytes > 0 { last_seq } else { Seq::ZERO })
    }

    /// Notes that a number was reserved for keys that it has, without a record here: of tables that are ingested.
    pub(crate) fn note_seq(&self, _pass: &SequencerGuard<'_>, last_seq: Seq) {
        self.fill.last_seq.store(self.last_seq().max(last_seq), Relaxed);
    }

    /// Takes over from one that had some of its keys before: what was reserved there, and that keys are locked.
    pub(crate) fn follow(&self, pass: &SequencerGuard<'_>, before: &WriteHead) {
        if !planted::is(Bug::CutForgetsNewest) {
            self.note_seq(pass, before.last_seq());
        }
        if before.has_locks() && !planted::is(Bug::CutForgetsLocks) {
            self.set_locks(pass);
        }
    }

    /// Whether keys are locked here. Set and cleared under the mutex of the locks.
    pub(crate) fn has_locks(&self) -> bool {
        self.fill.locked.load(Relaxed)
    }

    /// Keys are locked here: writers without a permit are refused from now on.
    pub(crate) fn set_locks(&self, pass: &SequencerGuard<'_>) {
        self.fill.locked.store(true, Relaxed);
        self.say_what_it_takes(pass);
    }

    /// None is any more.
    pub(crate) fn forget_locks(&self, pass: &SequencerGuard<'_>) {
        self.fill.locked.store(false, Relaxed);
        self.say_what_it_takes(pass);
    }

    fn say_what_it_takes(&self, pass: &SequencerGuard<'_>) {
        if !self.is_held(pass) && !self.is_closed() {
            self.fill.takes.store(self.number_taken(), Relaxed);
        }
    }

    /// What writers are compared with while nothing holds it.
    fn number_taken(&self) -> u64 {
        let locked = if self.has_locks() { LOCKED } else { 0 };
        self.number.load(Relaxed) | locked
    }

    /// Refuses writers and readers from now on: their keys are in other subranges now, or in none. Returns the bytes
    /// and the last sequence number reserved in the active memtable.
    pub(crate) fn close(&self, pass: &SequencerGuard<'_>) -> (u64, Seq) {
        self.fill.spare_start.store(0, Relaxed);
        let reserved = self.switch_memtable(pass, CLOSED);
        self.fill.takes.store(CLOSED, Relaxed);
        reserved
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.number() == CLOSED
    }

    /// Number of the current View, for readers (R1).
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.number.load(std::sync::atomic::Ordering::Acquire)
    }

    /// Announces a View. Writers that have it pinned are taken, unless the write head is held.
    pub(crate) fn set_number(&self, pass: &SequencerGuard<'_>, view_number: u64) {
        self.number.store(view_number, Release);
        self.say_what_it_takes(pass);
    }

    /// Whether a transaction keeps writers out.
    pub(crate) fn is_held(&self, _pass: &SequencerGuard<'_>) -> bool {
        self.fill.takes.load(Relaxed) == HELD
    }

    /// Keeps writers out, but not readers, until [`WriteHead::let_go`]. It is neither held nor closed.
    pub(crate) fn hold(&self, pass: &SequencerGuard<'_>) {
        debug_assert!(!self.is_held(pass) && !self.is_closed());
        self.fill.takes.store(HELD, Relaxed);
    }

    /// Takes writers again, if it was not closed meanwhile.
    pub(crate) fn let_go(&self, _pass: &SequencerGuard<'_>) {
        // All ones stays all ones.
        self.fill.takes.store(self.number_taken(), Relaxed);
    }
}

/// Why a write head that takes `takes` refuses a writer that has pinned another View, if it does.
#[cold]
fn refusal(takes: u64, view_number: u64, permit: Permit) -> Option<Lack> {
    if takes == HELD {
        return Some(Lack::Held);
    }
    if takes != view_number | LOCKED {
        return Some(Lack::View);
    }
    let passes = permit == Permit::Given || planted::is(Bug::PutPassesLocks);
    (!passes).then_some(Lack::Locked)
}
