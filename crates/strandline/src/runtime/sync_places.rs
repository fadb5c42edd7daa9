//! [`SyncPlaces`]: how many threads of a pool may wait for devices at a time, so that one that stalls does not stop the work of
//! all stores.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::thread_pool::Waker;

/// Places for all threads but one; a pool of one thread has one.
pub(crate) struct SyncPlaces {
    most: u32,
    state: Mutex<Syncers>,
}

#[derive(Default)]
struct Syncers {
    taken: u32,
    /// Those that found no place, oldest first.
    refused: VecDeque<Waker>,
}

/// The right to wait for a device, until it is dropped.
pub(crate) struct SyncPlace<'p>(&'p SyncPlaces);

impl SyncPlaces {
    pub fn of(threads: u32) -> SyncPlaces {
        SyncPlaces { most: threads.saturating_sub(1).max(1), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, Syncers> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place, if there is one. Else `waker` is called when it is its turn to ask again; it may have left by then, so those that
    /// are refused ask again after a while, too.
    pub fn take(&self, waker: &Waker) -> Option<SyncPlace<'_>> {
        let mut state = self.state();
        if state.taken < self.most {
            state.taken += 1;
            return Some(SyncPlace(self));
        }
        if !state.refused.iter().any(|other| other.wakes_same(waker)) {
            state.refused.push_back(waker.clone());
        }
        None
    }
}

impl Drop for SyncPlace<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.taken -= 1;
        let next = state.refused.pop_front();
        drop(state);
        next.iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    use super::*;
    use crate::runtime::{InTurns, Membership, NextTurn, ThreadPool};

    /// Waits for a device that stalls.
    struct Stalled {
        places: Arc<SyncPlaces>,
        waker: Mutex<Option<Waker>>,
        device: Mutex<Receiver<()>>,
        done: Mutex<Sender<()>>,
    }

    impl InTurns for Stalled {
        fn turn(&self) -> NextTurn {
            let waker = self.waker.lock().expect("alone").clone();
            let Some(waker) = waker else { return NextTurn::WhenWoken };
            let Some(_place) = self.places.take(&waker) else { return NextTurn::WhenWoken };
            let _goes_on = self.device.lock().expect("alone").recv();
            let _heard = self.done.lock().expect("alone").send(());
            NextTurn::Never
        }
    }

    struct Works(Mutex<Sender<()>>);

    impl InTurns for Works {
        fn turn(&self) -> NextTurn {
            let _heard = self.0.lock().expect("alone").send(());
            NextTurn::WhenWoken
        }
    }

    #[test]
    fn a_thread_is_left_for_others_while_devices_stall_and_those_refused_have_their_turn() {
        for threads in [2, 3] {
            let pool = Arc::new(ThreadPool::start(threads).expect("threads"));
            let (done, all_done) = channel();
            let stalled = (0..4).map(|_| {
                let (goes_on, device) = channel();
                let member = Arc::new(Stalled {
                    places: Arc::clone(&pool.sync_places),
                    waker: Mutex::default(),
                    device: Mutex::new(device),
                    done: Mutex::new(done.clone()),
                });
                let place = pool.join(Arc::clone(&member) as Arc<dyn InTurns>);
                *member.waker.lock().expect("alone") = Some(place.waker());
                place.waker().wake();
                (place, goes_on)
            });
            let stalled: Vec<(Membership, Sender<()>)> = stalled.collect();
            let (worked, works) = channel();
            let other = pool.join(Arc::new(Works(Mutex::new(worked))));
            let minute = Duration::from_secs(60);
            for _ in 0..3 {
                works.recv_timeout(minute).expect("a thread is left");
                other.waker().wake();
            }
            assert!(all_done.try_recv().is_err());
            stalled.iter().for_each(|(_, goes_on)| goes_on.send(()).expect("is there"));
            for _ in &stalled {
                all_done.recv_timeout(minute).expect("all have their turn");
            }
        }
    }

    #[test]
    fn the_only_thread_has_a_place() {
        let pool = Arc::new(ThreadPool::start(1).expect("a thread"));
        let member = pool.join(Arc::new(Works(Mutex::new(channel().0))));
        let place = pool.sync_places.take(&member.waker());
        assert!(place.is_some() && pool.sync_places.take(&member.waker()).is_none());
        drop(place);
        assert!(pool.sync_places.take(&member.waker()).is_some());
    }
}
