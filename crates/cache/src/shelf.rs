//! Values at positions that their reader knows by itself, as that of a block in the index of its table: they are reached without
//! a look-up. Each position has a lock of its own, held for a copy of a pointer: a reader that waits for it would wait for the
//! value's count of holders as well.
//!
//! **I-CACHE-1** What stands on a shelf is in the cache: it is put there, and taken from it, under the lock of its shard, and is
//! charged once. So a shelf holds nothing that the cache has dropped.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::low::Priority;
use crate::shard::USES_MAX;

/// Positions for values of one group.
pub struct Shelf<V> {
    places: Box<[Mutex<Standing<V>>]>,
    /// Later ones have greater numbers.
    pub(crate) number: u64,
}

struct Standing<V> {
    value: Option<Arc<V>>,
    /// Since it was put here, or since the cache looked.
    uses: u8,
    priority: Priority,
}

static SHELVES: AtomicU64 = AtomicU64::new(1);

impl<V> Shelf<V> {
    /// Bytes that each position takes.
    pub const PLACE_BYTES: usize = size_of::<Mutex<Standing<V>>>();

    /// Positions below `len`, all free.
    pub fn new(len: usize) -> Self {
        let free = || Mutex::new(Standing { value: None, uses: 0, priority: Priority::Usual });
        Self { places: (0..len).map(|_| free()).collect(), number: SHELVES.fetch_add(1, Relaxed) }
    }

    /// Positions.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// What stands at `position`, and its priority; it is used by that.
    #[inline]
    pub(crate) fn get(&self, position: usize) -> Option<(Arc<V>, Priority)> {
        let mut place = self.place(position)?;
        let value = place.value.clone()?;
        if place.uses < USES_MAX {
            place.uses += 1;
        }
        Some((value, place.priority))
    }

    pub(crate) fn put(&self, position: usize, value: Arc<V>, priority: Priority) {
        if let Some(mut place) = self.place(position) {
            *place = Standing { value: Some(value), uses: 0, priority };
        }
    }

    /// Frees a position.
    pub(crate) fn take(&self, position: usize) {
        if let Some(mut place) = self.place(position) {
            place.value = None;
        }
    }

    /// How often the value at `position` was used since the last look.
    pub(crate) fn uses(&self, position: usize) -> u8 {
        self.place(position).map_or(0, |mut place| std::mem::take(&mut place.uses))
    }

    #[inline]
    fn place(&self, position: usize) -> Option<MutexGuard<'_, Standing<V>>> {
        let place = self.places.get(position)?;
        Some(place.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
