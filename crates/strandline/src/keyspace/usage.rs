//! Who uses an open store at this moment: what must end before a store that is closed lets others in.
//!
//! Gets and puts hold a View as long as they touch its memory, and every View holds its write head, so that write heads are counted
//! for them and they count nothing themselves. Other calls are counted here, and so is what lends memory of the store, or keeps
//! versions of it, beyond a call.

use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::count::Count;
use crate::keyspace::subrange::Subrange;
use crate::keyspace::write_head::WriteHead;

/// What keeps a store from being closed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum HoldKind {
    Iterator,
    Cursor,
    Snapshot,
    Transaction,
    Value,
}

/// Each kind, with its name for one and for several.
const KINDS: [(HoldKind, &str, &str); 5] = [
    (HoldKind::Iterator, "iterator", "iterators"),
    (HoldKind::Cursor, "cursor", "cursors"),
    (HoldKind::Snapshot, "snapshot", "snapshots"),
    (HoldKind::Transaction, "transaction", "transactions"),
    (HoldKind::Value, "pinned value", "pinned values"),
];

/// The bit of [`Holds::all`] that says that there will be no others.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// How many there are of what keeps a store from being closed. One word tells it for all of them together, so that a close and
/// a new one cannot both succeed.
#[derive(Default)]
pub(crate) struct Holds {
    all: AtomicUsize,
    /// Never less than in `all`.
    kinds: [Count; KINDS.len()],
}

impl Holds {
    /// One more; `false` if the store was closed. What is refused never counts: a close that saw it would leave the lock to its
    /// end.
    pub(crate) fn begin(&self, kind: HoldKind) -> bool {
        self.kinds[kind as usize].begin();
        let more = |all: usize| (all & CLOSED == 0).then_some(all + 1);
        let open = self.all.fetch_update(SeqCst, SeqCst, more).is_ok();
        if !open {
            self.kinds[kind as usize].end();
        }
        open
    }

    pub(crate) fn end(&self, kind: HoldKind) {
        self.all.fetch_sub(1, SeqCst);
        self.kinds[kind as usize].end();
    }

    /// Whether there are none.
    pub(crate) fn is_zero(&self) -> bool {
        self.all.load(SeqCst) & !CLOSED == 0
    }

    /// Transactions that are open.
    pub(crate) fn transactions(&self) -> usize {
        self.kinds[HoldKind::Transaction as usize].get()
    }

    /// Whether any of them may hold zones, extents or tables.
    pub(crate) fn hold_space(&self) -> bool {
        let versions = [HoldKind::Snapshot, HoldKind::Transaction];
        let mut others = KINDS.iter().filter(|(kind, ..)| !versions.contains(kind));
        others.any(|(kind, ..)| !self.kinds[*kind as usize].is_zero())
    }

    /// Lets none begin from now on, unless there are some; else names them.
    pub(crate) fn close(&self) -> Result<(), String> {
        match self.all.compare_exchange(0, CLOSED, SeqCst, SeqCst) {
            Ok(_) => Ok(()),
            Err(all) if all & CLOSED != 0 => Ok(()),
            Err(_) => Err(self.named()),
        }
    }

    /// Such as `2 iterators, 1 snapshot`.
    fn named(&self) -> String {
        let mut named = String::new();
        for (kind, one, several) in KINDS {
            let count = self.kinds[kind as usize].get();
            if count > 0 {
                let comma = if named.is_empty() { "" } else { ", " };
                let noun = if count == 1 { one } else { several };
                let _written = write!(named, "{comma}{count} {noun}");
            }
        }
        named
    }
}

/// Calls, what outlasts them, and Views of subranges that nothing leads to any more.
#[derive(Default)]
pub(crate) struct Usage {
    pub calls: Count,
    pub holds: Holds,
    replaced: Mutex<Replacements>,
}

/// A subrange that was cut, joined or dropped. Views of it may outlive it.
pub(crate) struct Replaced {
    pub subrange: Weak<Subrange>,
    pub write_head: Weak<WriteHead>,
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
        let write_head = Arc::downgrade(&subrange.write_head);
        let replaced = Replaced { subrange: Arc::downgrade(subrange), write_head };
        let mut replacements = self.replaced.lock().unwrap_or_else(PoisonError::into_inner);
        let Replacements { all, forget_at } = &mut *replacements;
        all.push(replaced);
        if all.len() > *forget_at {
            all.retain(|each| each.write_head.strong_count() > 0);
            *forget_at = 2 * all.len();
        }
    }

    /// Calls `each` for the replaced subranges that may still have a View.
    pub(crate) fn each_replaced(&self, each: impl FnMut(&Replaced)) {
        let replacements = self.replaced.lock().unwrap_or_else(PoisonError::into_inner);
        replacements.all.iter().for_each(each);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where refused holds counted for a moment, a close that looked then kept the lock.
    #[test]
    fn a_hold_that_is_refused_is_never_seen() {
        let holds = Holds::default();
        holds.close().expect("none is there");
        std::thread::scope(|scope| {
            scope.spawn(|| (0..200_000).for_each(|_| assert!(!holds.begin(HoldKind::Iterator))));
            (0..200_000).for_each(|_| assert!(holds.is_zero()));
        });
        assert!(!holds.hold_space() && holds.is_zero());
    }
}
