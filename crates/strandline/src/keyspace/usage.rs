//! Who uses an open store at this moment: what must end before a store that is closed lets others in.
//!
//! Gets and puts hold a View as long as they touch its memory, and every View holds its front, so that fronts are counted
//! for them and they count nothing themselves. Other calls are counted here, and iterators, which lend memory of the store.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::count::Count;
use crate::keyspace::subrange::Subrange;
use crate::keyspace::write_head::WriteHead;

/// Calls, iterators, and Views of subranges that nothing leads to any more.
#[derive(Default)]
pub(crate) struct Usage {
    pub calls: Count,
    pub iterators: Count,
    replaced: Mutex<Replacements>,
}

/// A subrange that was cut, joined or dropped. Views of it may outlive it.
pub(crate) struct Replaced {
    pub subrange: Weak<Subrange>,
    pub front: Weak<WriteHead>,
}

#[derive(Default)]
struct Replacements {
    all: Vec<Replaced>,
    /// How many there are when those without a View are forgotten.
    forget_at: usize,
}

impl Usage {
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

    /// Calls `each` for the replaced subranges that may still have a View.
    pub(crate) fn each_replaced(&self, each: impl FnMut(&Replaced)) {
        let replacements = self.replaced.lock().unwrap_or_else(PoisonError::into_inner);
        replacements.all.iter().for_each(each);
    }
}
