//! A keyspace: a named, separately ordered set of keys. One subrange each for now.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;

use crate::front::Front;
use crate::lost::Lost;
use crate::memtable::Memtable;
use crate::memtable::zone::Zone;
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

impl Space {
    pub(crate) fn new(id: u32, name: &str, view: View, orders: u64, lost: Option<Lost>) -> Space {
        Space {
            id,
            name: name.to_owned(),
            front: Front::new(view.number),
            view: ArcSwap::from_pointee(view),
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
