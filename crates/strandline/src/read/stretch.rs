//! The deleted keys that a scan passes between two that it shows, and what it may jump over.

use std::ops::Bound;

use base::Seq;
use smallvec::SmallVec;

use crate::keyspace::vacancies::{Known, Walked, after};
use art::Direction;

/// How many deleted keys a scan passes between two looks at the vacancies. They cost about as much as a jump.
pub(crate) const LOOK_EVERY: u64 = if cfg!(feature = "planted") { 1 } else { 8 };

/// Keys that a scan has passed since it stood on one that it shows: none of them is live at its snapshot.
#[derive(Default)]
pub(crate) struct DeadStretch {
    pub entries: u64,
    /// Where the stretch begins, if that is known: going forward its first key, going backward the first behind it. Every
    /// seek sets it, so a short one is not on the heap.
    near: SmallVec<[u8; 32]>,
    has_near: bool,
    /// The key passed last.
    last: Vec<u8>,
}

impl DeadStretch {
    /// The scan enters at `from`: all that it passes from there on belongs to one stretch.
    pub(crate) fn begin(&mut self, from: Bound<&[u8]>, direction: Direction) {
        self.end();
        self.has_near = (from, direction) != (Bound::Unbounded, Direction::Backward);
        self.near = match from {
            Bound::Included(key) | Bound::Excluded(key) => SmallVec::from_slice(key),
            Bound::Unbounded => SmallVec::new(),
        };
        let behind = matches!(
            (from, direction),
            (Bound::Excluded(_), Direction::Forward) | (Bound::Included(_), Direction::Backward)
        );
        if behind {
            self.near.push(0);
        }
    }

    /// The scan stands on a key that it shows, or on none.
    #[inline]
    pub(crate) fn end(&mut self) {
        self.entries = 0;
        self.has_near = false;
    }

    /// The scan passes `key`, which is deleted.
    pub(crate) fn pass(&mut self, key: &[u8], direction: Direction) {
        self.entries += 1;
        self.last.clear();
        self.last.extend_from_slice(key);
        if !std::mem::replace(&mut self.has_near, true) {
            self.near.clear();
            self.near.extend_from_slice(key);
            if direction == Direction::Backward {
                self.near.push(0);
            }
        }
    }

    /// Where the scan may go on that has just passed a key, if that is in a vacancy.
    pub(crate) fn jump<'k>(
        &self,
        known: &'k Known,
        direction: Direction,
        snapshot: Seq,
    ) -> Option<Bound<&'k [u8]>> {
        match direction {
            Direction::Forward => known.behind(&self.last, snapshot).map(Bound::Included),
            Direction::Backward => known.before(&after(&self.last), snapshot).map(Bound::Excluded),
        }
    }

    /// Calls `each` with the stretch. It reaches up to `edge`, where the scan leaves a subrange, or to the key passed last.
    pub(crate) fn tell(
        &self,
        edge: Option<&[u8]>,
        direction: Direction,
        snapshot: Seq,
        each: impl FnOnce(&Walked<'_>),
    ) {
        let entries = self.entries;
        match direction {
            Direction::Forward => {
                let end = edge.map_or_else(|| after(&self.last), <[u8]>::to_vec);
                each(&Walked { begin: &self.near, end: &end, snapshot, entries });
            }
            Direction::Backward => {
                let begin = edge.unwrap_or(&self.last);
                each(&Walked { begin, end: &self.near, snapshot, entries });
            }
        }
    }
}

/// Where a scan at `snapshot` may begin instead of at `from`.
pub(crate) fn jump<'k>(
    known: &'k Known,
    from: Bound<&'k [u8]>,
    direction: Direction,
    snapshot: Seq,
) -> Bound<&'k [u8]> {
    let jumped = match (from, direction) {
        (Bound::Unbounded, Direction::Forward) => known.behind(&[], snapshot).map(Bound::Included),
        (Bound::Included(key), Direction::Forward) => {
            known.behind(key, snapshot).map(Bound::Included)
        }
        (Bound::Excluded(key), Direction::Forward) => {
            known.behind(&after(key), snapshot).map(Bound::Included)
        }
        (Bound::Unbounded, Direction::Backward) => None,
        (Bound::Included(key), Direction::Backward) => {
            known.before(&after(key), snapshot).map(Bound::Excluded)
        }
        (Bound::Excluded(key), Direction::Backward) => {
            known.before(key, snapshot).map(Bound::Excluded)
        }
    };
    jumped.unwrap_or(from)
}
