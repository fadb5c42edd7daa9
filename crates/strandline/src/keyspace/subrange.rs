//! A subrange: neighbouring keys of a keyspace, with zones, memtables and runs of their own.
//!
//! Subranges are replaced, never changed; what they had, those that come after them share.
//!
//! **I-CUT-1** Numbers are never reused, and of two subranges that a key was ever in, the later one has the greater.
//! **I-CUT-2** Where a run is shared, each subrange leaves it when it has merged or compacted its own keys of it, and is
//! never shown it again: it may have dropped what hides them.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use base::{AtomicSeq, PmOffset};
use pool::Geometry;

use crate::keyspace::view::View;
use crate::keyspace::write_head::WriteHead;
use crate::level0::run::Run;
use crate::memtable::Memtable;
use crate::record::zone::Zone;
use crate::ring::sequencer::SequencerGuard;
use crate::span::Span;

/// What zones call a subrange by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SubrangeName {
    pub keyspace: u32,
    pub subrange: u32,
}

/// State of a subrange that is open in this process.
pub(crate) struct Subrange {
    /// Its number in the keyspace (I-CUT-1).
    pub id: u32,
    pub span: Span,
    pub view: ArcSwap<View>,
    pub write_head: Arc<WriteHead>,
    /// Everything was merged since the last flush.
    pub reclaimed: AtomicBool,
    /// All values in its level 0 have expired, so its runs are to go.
    pub expired: AtomicBool,
    /// The newest number in level 0 when that was said last: of what is still there then it is not said again.
    pub expired_upto: AtomicSeq,
    /// Where cleaning goes on.
    clean_tail: Mutex<CleanTail>,
    /// Order of the newest memtable.
    orders: AtomicU64,
    /// Its share of what was written to the store lately, in thousandths.
    pub heat: AtomicU32,
    /// Bytes reserved in memtables that take no more, less those that the heat knows of.
    immutable_bytes: AtomicU64,
}

/// The unfilled rest of a zone of moved records, which the next full merge fills on. The run that names the
/// zone is among the inputs of such a merge, and bytes behind its records have no owner.
#[derive(Default)]
pub(crate) struct CleanTail {
    pub zone: Option<Arc<Zone>>,
    pub at: PmOffset,
}

impl CleanTail {
    /// Bytes left in the zone.
    pub(crate) fn room(&self) -> u64 {
        self.zone.as_ref().map_or(0, |zone| zone.end - self.at)
    }
}

impl Subrange {
    /// A subrange with these sources, older than which every new memtable will be.
    pub(crate) fn new(id: u32, span: Span, sources: View) -> Subrange {
        let newest = sources.memtables.iter().map(|memtable| memtable.order).max();
        let newest = newest.into_iter().chain(sources.runs.iter().map(|run| run.desc.order)).max();
        Subrange {
            id,
            span,
            write_head: Arc::clone(&sources.write_head),
            orders: AtomicU64::new(newest.unwrap_or(0)),
            view: ArcSwap::from_pointee(sources),
            reclaimed: AtomicBool::new(false),
            expired: AtomicBool::new(false),
            expired_upto: AtomicSeq::default(),
            clean_tail: Mutex::default(),
            heat: AtomicU32::new(0),
            immutable_bytes: AtomicU64::new(0),
        }
    }

    /// Whether it holds persistent memory beside tables, or has a zone to fill.
    pub(crate) fn holds_something(&self) -> bool {
        let view = self.view.load();
        let waits = view.memtables.len() > 1 || !view.runs.is_empty();
        !self.write_head.is_closed() && (waits || self.write_head.holds_something())
    }

    /// Bytes written since the heat was last noted.
    pub(crate) fn written(&self) -> u64 {
        // What was noted of the active memtable is more than what it holds once another is active.
        let immutable = self.immutable_bytes.load(Relaxed) as i64;
        (immutable + self.write_head.bytes() as i64).max(0) as u64
    }

    /// Notes that a memtable of `bytes` takes no more.
    pub(crate) fn note_switched(&self, bytes: u64) {
        self.immutable_bytes.fetch_add(bytes, Relaxed);
    }

    /// Notes that `written` bytes were `heat` thousandths of what the store got; old times count half.
    pub(crate) fn note_heat(&self, heat: u32, written: u64) {
        self.immutable_bytes.fetch_sub(written, Relaxed);
        let before = self.heat.load(Relaxed);
        self.heat.store(if before == 0 { heat } else { before.midpoint(heat) }, Relaxed);
    }

    /// The zone that cleaning was filling when the last full merge ended.
    pub(crate) fn clean_tail(&self) -> MutexGuard<'_, CleanTail> {
        self.clean_tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of records that the runs of `view`, one of this subrange, name for it; about.
    pub(crate) fn level0_bytes(&self, view: &View) -> u64 {
        view.runs.iter().map(|run| run.record_bytes_within(&self.span)).sum()
    }

    /// Whether the current View has all these sources.
    pub(crate) fn reads(&self, memtable: Option<&Arc<Memtable>>, runs: &[Arc<Run>]) -> bool {
        let view = self.view.load();
        let has = |memtable| view.memtables.iter().any(|each| Arc::ptr_eq(each, memtable));
        !self.write_head.is_closed()
            && memtable.is_none_or(has)
            && runs.iter().all(|run| view.has(run))
    }

    /// The age of a memtable newer than every other source of these keys.
    pub(crate) fn next_order(&self) -> u64 {
        self.orders.fetch_add(1, Relaxed) + 1
    }

    /// A memtable newer than every other source of these keys.
    pub(crate) fn new_memtable(&self) -> Memtable {
        Memtable::new(self.next_order())
    }

    /// Puts View `next`, with another active memtable, in the place of `before`. The caller holds `admin` of the keyspace.
    ///
    /// Commits that find the new number put their records into the new memtable, so a reader that sees such a commit sees
    /// a number that its old View does not have (R1).
    pub(crate) fn switch_to(
        &self,
        pass: &SequencerGuard<'_>,
        geometry: &Geometry,
        before: &View,
        next: &Arc<View>,
    ) {
        let old = before.active();
        if let Some(start) = self.write_head.spare(pass)
            && let Some(zone) = geometry.zone_of(start).and_then(|no| old.pop_zone(no))
        {
            next.active().push_zone(zone);
        }
        let (bytes, last_seq) = self.write_head.switch_memtable(pass, next.number);
        old.bytes.store(bytes, Relaxed);
        old.last_seq.store(last_seq, Relaxed);
        self.note_switched(bytes);
        self.view.store(Arc::clone(next));
    }
}
