//! Who uses an open store at this moment: what must end before a store that is closed lets others in.
//!
//! Gets and puts hold a View as long as they touch its memory, and every View holds its front, so that fronts are counted
//! for them and they count nothing themselves. Other calls are counted here. An iterator holds a View as long as the
//! application likes, so it says when it touches what it holds: each has a [`Visit`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::front::Front;
use crate::subrange::Subrange;
use crate::view::View;

/// Calls, iterators, and Views of subranges that nothing leads to any more.
#[derive(Default)]
pub(crate) struct Usage {
    calls: AtomicUsize,
    visits: Mutex<Visits>,
    replaced: Mutex<Replacements>,
}

#[derive(Default)]
struct Visits {
    begun: u64,
    open: BTreeMap<u64, Arc<Visit>>,
}

/// What an iterator has to do with the store.
#[derive(Default)]
pub(crate) struct Visit {
    /// A call of it is under way: only then it touches the memory or the files of the store.
    pub moving: AtomicBool,
    /// The View that it holds.
    view: Mutex<Weak<View>>,
}

impl Visit {
    /// Notes which View the iterator holds.
    pub(crate) fn hold(&self, view: &Arc<View>) {
        *self.view.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(view);
    }
}

/// A subrange that was cut, joined or dropped. Views of it may outlive it.
pub(crate) struct Replaced {
    pub subrange: Weak<Subrange>,
    pub front: Weak<Front>,
}

#[derive(Default)]
struct Replacements {
    all: Vec<Replaced>,
    /// As many as there are when those are forgotten of which no View is left.
    forget_at: usize,
}

/// A View that iterators hold, and how many of them.
pub(crate) struct Visited {
    pub view: Arc<View>,
    pub visits: usize,
}

impl Usage {
    pub(crate) fn begin(&self) {
        self.calls.fetch_add(1, SeqCst);
    }

    pub(crate) fn end(&self) {
        self.calls.fetch_sub(1, SeqCst);
    }

    fn visits(&self) -> MutexGuard<'_, Visits> {
        self.visits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an iterator, which a call of its own makes; returns its number.
    pub(crate) fn begin_visit(&self, visit: &Arc<Visit>) -> u64 {
        let mut visits = self.visits();
        visits.begun += 1;
        let no = visits.begun;
        visits.open.insert(no, Arc::clone(visit));
        no
    }

    pub(crate) fn end_visit(&self, no: u64) {
        self.visits().open.remove(&no);
    }

    /// Whether no call is under way, iterators' included.
    pub(crate) fn is_idle(&self) -> bool {
        let moves = |visits: MutexGuard<'_, Visits>| {
            visits.open.values().any(|visit| visit.moving.load(SeqCst))
        };
        self.calls.load(SeqCst) == 0 && !moves(self.visits())
    }

    /// The Views that iterators hold.
    pub(crate) fn visited(&self) -> Vec<Visited> {
        let mut views: BTreeMap<usize, Visited> = BTreeMap::new();
        for visit in self.visits().open.values() {
            let view = visit.view.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
            if let Some(view) = view {
                let fresh = || Visited { view: Arc::clone(&view), visits: 0 };
                views.entry(Arc::as_ptr(&view).addr()).or_insert_with(fresh).visits += 1;
            }
        }
        views.into_values().collect()
    }

    /// Notes that nothing leads to a subrange any more.
    pub(crate) fn note_replaced(&self, subrange: &Arc<Subrange>) {
        let front = Arc::downgrade(&subrange.front);
        let replaced = Replaced { subrange: Arc::downgrade(subrange), front };
        let mut replacements = self.replaced.lock().unwrap_or_else(PoisonError::into_inner);
        let Replacements { all, forget_at } = &mut *replacements;
        all.push(replaced);
        if all.len() > *forget_at {
            all.retain(|each| each.front.strong_count() > 0);
            *forget_at = 2 * all.len();
        }
    }

    /// Calls `each` for the subranges that were replaced, of which a View may be left.
    pub(crate) fn each_replaced(&self, each: impl FnMut(&Replaced)) {
        let replacements = self.replaced.lock().unwrap_or_else(PoisonError::into_inner);
        replacements.all.iter().for_each(each);
    }
}
