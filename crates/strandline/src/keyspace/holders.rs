//! The subranges that hold persistent memory beside tables: zones that are filled, memtables, runs. What depends on all
//! that there is looks at these only, so that keyspaces without data cost nothing, however many there are.
//!
//! **I-HOLDER-1** Every holder is listed: a thread that waits for a flush waits for ever where no background
//! work sees it. A subrange is added once it has a zone. What it holds goes from its write head over memtables to runs under
//! `admin` of its keyspace, and while it goes may be seen at neither end; so a subrange is taken off only where no
//! thread has `admin`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use crate::keyspace::KeyspaceState;
use crate::keyspace::subrange::{Subrange, SubrangeName};

type Holder = (Arc<KeyspaceState>, Arc<Subrange>);

#[derive(Default)]
pub(crate) struct Holders {
    /// Some may hold nothing any more.
    all: Mutex<BTreeMap<SubrangeName, Holder>>,
    /// How many subranges there are, those that hold nothing included.
    subranges: AtomicU64,
    looked_at: AtomicU64,
}

impl Holders {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<SubrangeName, Holder>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a subrange that holds something, or is about to.
    pub(crate) fn add(&self, space: &Arc<KeyspaceState>, subrange: &Arc<Subrange>) {
        let holder = (Arc::clone(space), Arc::clone(subrange));
        let name = SubrangeName { keyspace: space.id, subrange: subrange.id };
        self.lock().insert(name, holder);
    }

    /// Those that hold something now, in the order of keyspaces, and some that may be about to hold nothing.
    pub(crate) fn now(&self) -> Vec<Holder> {
        let mut all = self.lock();
        self.looked_at.fetch_add(all.len() as u64, Relaxed);
        all.retain(|_, (space, subrange)| {
            subrange.holds_something()
                || match space.admin.try_lock() {
                    Err(TryLockError::WouldBlock) => true,
                    Ok(_) | Err(TryLockError::Poisoned(_)) => subrange.holds_something(),
                }
        });
        all.values().cloned().collect()
    }

    /// Keyspaces with a subrange that holds something now.
    pub(crate) fn spaces(&self) -> Vec<Arc<KeyspaceState>> {
        let mut spaces: Vec<Arc<KeyspaceState>> =
            self.now().into_iter().map(|(space, _)| space).collect();
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

#[cfg(test)]
mod tests {
    use base::Seq;
    use pmem::Region;

    use crate::options::Options;
    use crate::{Db, SsdSource};

    /// Between the switch of the write head and that of the View an immutable memtable was in neither. Who looked then took the
    /// subrange off the list, no background work found the memtable, and a flush waited for it for ever.
    #[test]
    fn a_subrange_whose_memtable_is_being_flushed_stays_listed() {
        let region = std::sync::Arc::new(Region::heap(4 << 20, None).expect("heap"));
        let options = Options { background_threads: 0, ssd: SsdSource::None, ..Options::default() };
        let db = Db::open_region(region, options).expect("open");
        let space = db.create_keyspace("other").expect("create");
        space.put(b"key", b"value").expect("put");
        let (engine, space) = (db.engine(), space.space());
        let listed = || engine.space.holders.spaces().iter().any(|each| each.id == space.id);
        assert!(listed());
        // A rotation, cut off in the middle.
        let admin = space.admin.lock().expect("free");
        let subrange = &space.subranges()[0];
        let number = subrange.view.load().number;
        let (bytes, last_seq) = {
            let pass = engine.sequence.sequencer.enter_to_switch();
            assert!(subrange.write_head.spare(&pass).is_none());
            subrange.write_head.switch_memtable(&pass, number)
        };
        assert!(bytes > 0 && last_seq > Seq::ZERO);
        assert!(!subrange.holds_something() && listed());
        drop(admin);
        assert!(!listed());
    }
}
