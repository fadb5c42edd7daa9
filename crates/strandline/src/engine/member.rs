//! The store's place in a pool of threads, if it has one. Waking them is never done between W2 and W5: a wake-up costs
//! more than a commit.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::runtime::{InTurns, Membership, ThreadPool, Waker};

/// A place that is taken at the end of an open, and left at the close.
#[derive(Default)]
pub(crate) struct Member(Mutex<Option<TakenPlace>>);

struct TakenPlace {
    membership: Membership,
    waker: Waker,
}

impl Member {
    fn place(&self) -> MutexGuard<'_, Option<TakenPlace>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `work` done by the threads of `pool`. What is returned wakes them, too.
    pub fn join(&self, pool: &Arc<ThreadPool>, work: Arc<dyn InTurns>) -> Waker {
        // Under the lock: the first turn may want to wake others.
        let mut place = self.place();
        let membership = pool.join(work);
        let waker = membership.waker();
        *place = Some(TakenPlace { membership, waker: waker.clone() });
        waker
    }

    /// There is work.
    pub fn wake(&self) {
        if let Some(place) = &*self.place() {
            place.waker.wake();
        }
    }

    /// What wakes the threads, while the store has a place.
    pub fn waker(&self) -> Option<Waker> {
        self.place().as_ref().map(|place| place.waker.clone())
    }

    /// No thread works for the store any more when this returns, but for this one, which may do so now. Threads that were
    /// the store's own have ended.
    pub fn leave(&self) {
        let left = self.place().take();
        left.iter().for_each(|place| place.membership.leave());
    }
}
