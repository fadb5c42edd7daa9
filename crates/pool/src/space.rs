//! Handing out zones and extents, taking them back, and what is left.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use base::{Error, PmOffset, Result};

use crate::geometry::Geometry;
use crate::grains::{Content, Grains, Medium};
use crate::pool::Pool;
use crate::resident::Resident;

/// A run of bytes made of whole grains. Plain data: one that was read from media proves nothing until
/// [`Pool::claim_extent`] accepts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    /// Where it begins.
    pub at: PmOffset,
    /// Bytes.
    pub len: u64,
}

/// Space in the data of a pool. The counters are read one by one while others may change them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes in all zones.
    pub total: u64,
    /// Bytes that are free, in whole zones or not.
    pub free: u64,
    /// Number of zones.
    pub zones: u32,
    /// Zones that are wholly free.
    pub free_zones: u32,
}

/// The volatile half of a pool's space.
pub(crate) struct SpaceMap {
    state: Mutex<State>,
    // Copies of the counters under the lock, for readers that must not wait.
    free_grains: AtomicU64,
    free_zones: AtomicU64,
}

/// Whether the owner has said what is in use (I-POOL-1).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claims {
    ToCome,
    Complete,
}

pub(crate) struct State {
    pub grains: Grains,
    /// Where there is memory of this process to give back.
    resident: Option<Resident>,
    /// Claims are complete (I-POOL-1).
    pub hand_out: bool,
}

impl SpaceMap {
    /// All is free; zones are worn as `wear` says, in grains.
    pub fn new(geometry: &Geometry, medium: Medium, wear: Vec<u32>, claims: Claims) -> Self {
        let grains = Grains::new(medium, wear, geometry.grains_per_zone());
        let resident = (medium == Medium::Lasts).then(|| Resident::new(geometry.data()));
        Self {
            free_grains: AtomicU64::new(grains.free()),
            free_zones: AtomicU64::new(u64::from(grains.free_zones())),
            state: Mutex::new(State { grains, resident, hand_out: claims == Claims::Complete }),
        }
    }

    /// A panic under the lock cannot leave the state half changed: every check comes first.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let result = act(&mut state);
        self.free_grains.store(state.grains.free(), Relaxed);
        self.free_zones.store(u64::from(state.grains.free_zones()), Relaxed);
        result
    }

    /// Whether claims are complete (I-POOL-1).
    pub fn hands_out(&self) -> bool {
        self.lock().hand_out
    }

    pub fn claim_zone(&self, no: u32) -> bool {
        self.change(|state| state.grains.claim_zone(no))
    }
}

impl State {
    /// What lies in these bytes has an owner now.
    fn use_pages(&mut self, at: PmOffset, len: u64) {
        if let Some(resident) = &mut self.resident {
            resident.take(at.get()..at.get() + len);
        }
    }
}

impl Pool {
    /// Takes the lowest of the least worn zones that are wholly free. Volatile until [`Pool::grant`] makes its
    /// header durable.
    ///
    /// # Panics
    /// Before [`Pool::sweep`] of an opened pool (I-POOL-1).
    pub fn take_zone(&self) -> Option<u32> {
        self.space.change(|state| {
            assert!(state.hand_out, "a zone was asked for before the sweep");
            let no = state.grains.take_zone()?;
            state.use_pages(self.geometry().zone_at(no), self.geometry().zone_len());
            Some(no)
        })
    }

    /// Gives zone `no` back; its word must be cleared already. Volatile.
    ///
    /// # Panics
    /// If the zone is not taken (I-POOL-2).
    pub fn release_zone(&self, no: u32) {
        // Before another owner can get it and write there.
        self.region().discard(self.geometry().zone_at(no).get(), self.geometry().zone_len());
        let released = self.space.change(|state| state.grains.release_zone(no));
        assert!(released, "zone {no} was released, but is not taken");
    }

    /// Takes grains in a row that hold `len` bytes: in a zone that is broken already if one has room, else at the high
    /// end of the least worn zones. Volatile: the owner's edit names them. What is written to them is fenced by this
    /// thread; that covers the wear, too.
    ///
    /// # Panics
    /// Before [`Pool::sweep`] of an opened pool (I-POOL-1).
    pub fn take_extent(&self, len: u64) -> Option<Extent> {
        let len = self.geometry().extent_len(len)?;
        let grain_len = self.geometry().grain_len();
        let at = self.space.change(|state| {
            assert!(state.hand_out, "an extent was asked for before the sweep");
            let count = len / grain_len;
            let first = state.grains.take(count)?;
            let zones = state.grains.zones_of(&(first..first + count));
            let _fenced_with_the_content = self.save_wear(zones, |no| state.grains.wear(no));
            let at = self.geometry().data().start + first * grain_len;
            state.use_pages(at, len);
            Some(at)
        })?;
        Some(Extent { at, len })
    }

    /// Gives an extent back, or any whole grains of it. Volatile.
    ///
    /// # Panics
    /// If any of it is not taken as an extent (I-POOL-2).
    pub fn release_extent(&self, extent: Extent) {
        self.release(extent, Content::Written);
    }

    /// As [`Pool::release_extent`], of grains to which nothing was written: they wore nothing.
    ///
    /// # Panics
    /// As [`Pool::release_extent`].
    pub fn release_unwritten(&self, extent: Extent) {
        self.release(extent, Content::Unwritten);
    }

    fn release(&self, extent: Extent, content: Content) {
        self.region().discard(extent.at.get(), extent.len);
        let released = grains_of(self.geometry(), extent).is_some_and(|grains| {
            self.space.change(|state| {
                let released = state.grains.release(grains.clone(), content);
                if released && content == Content::Unwritten {
                    let zones = state.grains.zones_of(&grains);
                    let _fenced_with_the_next = self.save_wear(zones, |no| state.grains.wear(no));
                }
                released
            })
        });
        assert!(released, "{extent:?} was released, but is not taken");
    }

    /// Says, after an open, that zone `no` is in use.
    pub fn claim_zone(&self, no: u32) -> Result<()> {
        if self.space.claim_zone(no) {
            return Ok(());
        }
        let zones = self.geometry().zones();
        let why = if no < zones {
            "is claimed already, whole or in part".into()
        } else {
            format!("lies beyond the last of {zones} zones")
        };
        Err(self.bad_claim(format!("zone {no} {why}")))
    }

    /// Says, after an open, that `extent` is in use.
    pub fn claim_extent(&self, extent: Extent) -> Result<()> {
        let Extent { at, len } = extent;
        let Some(grains) = grains_of(self.geometry(), extent) else {
            return Err(
                self.bad_claim(format!("extent of {len} bytes at {at} is not made of grains"))
            );
        };
        if self.space.change(|state| state.grains.claim(grains)) {
            return Ok(());
        }
        let end = self.geometry().data().end;
        let why = if at.checked_add(len).is_none_or(|extent_end| extent_end > end) {
            format!("ends beyond the data at {end}")
        } else {
            "is claimed already, whole or in part".into()
        };
        Err(self.bad_claim(format!("extent of {len} bytes at {at} {why}")))
    }

    /// Tells a journal what no claim covers.
    pub(crate) fn discard_free(&self) {
        if self.region().journal().is_none() {
            return;
        }
        let (start, grain_len) = (self.geometry().data().start, self.geometry().grain_len());
        for grains in self.space.lock().grains.free_runs() {
            let len = (grains.end - grains.start) * grain_len;
            self.region().discard((start + grains.start * grain_len).get(), len);
        }
    }

    /// All that is free, in order; neighbours are one.
    pub fn free_extents(&self) -> Vec<Extent> {
        let (start, grain_len) = (self.geometry().data().start, self.geometry().grain_len());
        let extent = |grains: std::ops::Range<u64>| Extent {
            at: start + grains.start * grain_len,
            len: (grains.end - grains.start) * grain_len,
        };
        self.space.lock().grains.free_runs().map(extent).collect()
    }

    /// Gives memory of this process that has been free for two calls, and was not taken between them, back to the system. Of
    /// other pools it keeps all. Others wait for it no longer than it takes to give back 2 MiB.
    pub fn give_back(&self) {
        for no in 0.. {
            let mut state = self.space.lock();
            let State { grains, resident: Some(resident), hand_out } = &mut *state else { return };
            // Before the claims are complete what looks free may hold records (I-POOL-1).
            if !*hand_out || no == resident.len() {
                return;
            }
            let bytes = resident.bytes(no);
            let is_free = grains.are_free(self.geometry().grains_over(&bytes));
            if resident.look(no, is_free) {
                // Under the lock: nothing of it gets an owner meanwhile.
                let _kept_at_worst = self.region().give_back(bytes.start, bytes.end - bytes.start);
            }
        }
    }

    /// Whether memory that is free has pages, as far as is known, which later calls of [`Pool::give_back`] give back.
    pub fn has_pages_to_give(&self) -> bool {
        let state = self.space.lock();
        let State { grains, resident: Some(resident), .. } = &*state else { return false };
        let is_free = |no| grains.are_free(self.geometry().grains_over(&resident.bytes(no)));
        (0..resident.len()).any(|no| resident.has_pages(no) && is_free(no))
    }

    /// Total and free bytes and zones; takes no lock.
    pub fn space(&self) -> Space {
        Space {
            total: self.geometry().capacity(),
            free: self.space.free_grains.load(Relaxed) * self.geometry().grain_len(),
            zones: self.geometry().zones(),
            free_zones: self.space.free_zones.load(Relaxed) as u32,
        }
    }

    #[cold]
    fn bad_claim(&self, what: String) -> Error {
        Error::corruption(
            "open pool",
            format!("manifest of {}: {what}; restore a copy of the pool", self.region().describe()),
        )
    }
}

/// The grains of an extent, if it consists of whole ones; the last may lie beyond the data.
fn grains_of(geometry: &Geometry, extent: Extent) -> Option<std::ops::Range<u64>> {
    let grain_len = geometry.grain_len();
    let start = extent.at.checked_distance(geometry.data().start)?;
    let end = start.checked_add(extent.len)?;
    let whole = extent.len > 0 && start.is_multiple_of(grain_len) && end.is_multiple_of(grain_len);
    whole.then(|| start / grain_len..end / grain_len)
}
