//! The subranges that hold persistent memory beside tables: zones that are filled, memtables, runs. What depends on all
//! that there is looks at these only, so that keyspaces without data cost nothing, however many there are.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::keyspace::Space;
use crate::subrange::Subrange;

type Holder = (Arc<Space>, Arc<Subrange>);

#[derive(Default)]
pub(crate) struct Holders {
    /// By identifiers of keyspace and subrange. Some may hold nothing any more.
    all: Mutex<BTreeMap<(u32, u32), Holder>>,
    /// How many subranges there are, those that hold nothing included.
    subranges: AtomicU64,
    looked_at: AtomicU64,
}

impl Holders {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(u32, u32), Holder>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a subrange that holds something, or is about to.
    pub(crate) fn add(&self, space: &Arc<Space>, subrange: &Arc<Subrange>) {
        let holder = (Arc::clone(space), Arc::clone(subrange));
        self.lock().insert((space.id, subrange.id), holder);
    }

    /// Those that hold something now, in the order of keyspaces.
    pub(crate) fn now(&self) -> Vec<Holder> {
        let mut all = self.lock();
        self.looked_at.fetch_add(all.len() as u64, Relaxed);
        all.retain(|_, (_, subrange)| subrange.holds_something());
        all.values().cloned().collect()
    }

    /// Keyspaces of which a subrange holds something now.
    pub(crate) fn spaces(&self) -> Vec<Arc<Space>> {
        let mut spaces: Vec<Arc<Space>> = self.now().into_iter().map(|(space, _)| space).collect();
        spaces.dedup_by_key(|space| space.id);
        spaces
    }

    /// Notes that `fresh` subranges have come and `gone` went.
    pub(crate) fn count(&self, fresh: usize, gone: usize) {
        self.subranges.fetch_add(fresh as u64, Relaxed);
        self.subranges.fetch_sub(gone as u64, Relaxed);
    }

    /// How many subranges there are, those that hold nothing included.
    pub(crate) fn subranges(&self) -> u64 {
        self.subranges.load(Relaxed)
    }

    /// Subranges that were looked at since the store was opened: what the upkeep of all of them costs.
    pub(crate) fn looked_at(&self) -> u64 {
        self.looked_at.load(Relaxed)
    }
}
