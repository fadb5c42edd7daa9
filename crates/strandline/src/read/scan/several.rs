//! How a scan moves among several sources: a heap tells which has the next key, so that a step costs the logarithm of their
//! number. A scan of one source does without.

use art::Direction;
use base::Result;
use base::bytes::compare;

use crate::iter::SourceCursor;
use crate::read::scan::{Scan, ScanPosition};
use crate::record::store::Media;
use crate::tree::walk::LevelIterator;

/// The sources of a scan by their places: cursors, then walks. From new to old.
struct Sources<'s> {
    cursors: &'s [SourceCursor],
    walks: &'s [LevelIterator],
    media: &'s Media,
}

impl<'s> Sources<'s> {
    /// The key that a source stands on; `None` at its end.
    #[inline]
    fn key(&self, place: usize) -> Option<&'s [u8]> {
        match place.checked_sub(self.cursors.len()) {
            None => self.cursors[place].head.as_ref().map(|entry| self.media.key(entry)),
            Some(walk) => self.walks[walk].head().map(|_| self.walks[walk].key()),
        }
    }

    /// Whether the key of one source comes before that of another going `direction`; of equal keys, the newer one. Neither
    /// has ended.
    #[inline]
    fn precedes(&self, a: usize, b: usize, direction: Direction) -> bool {
        #[cfg(test)]
        tests::COMPARED.set(tests::COMPARED.get() + 1);
        let Some((key, other)) = self.key(a).zip(self.key(b)) else { return false };
        let keys = compare(key, other);
        let keys = if direction == Direction::Backward { keys.reverse() } else { keys };
        keys.then(a.cmp(&b)).is_lt()
    }
}

impl Scan {
    /// Orders all sources anew.
    pub(super) fn fill_heap(&mut self) {
        let sources = Sources { cursors: &self.cursors, walks: &self.walks, media: &self.media };
        let all = 0..self.cursors.len() + self.walks.len();
        let stand = all.filter(|place| sources.key(*place).is_some());
        self.heap.fill(stand, |a, b| sources.precedes(a, b, self.direction));
    }

    /// As [`Scan::pass`], of several sources.
    pub(super) fn pass_among(&mut self) -> Result<()> {
        // A walk's key goes as it moves.
        let mut here = std::mem::take(&mut self.passed);
        here.clear();
        here.extend_from_slice(self.key().unwrap_or_default());
        let Scan { cursors, walks, media, heap, direction, .. } = self;
        while let Some(place) = heap.top() {
            let sources = Sources { cursors, walks, media };
            if sources.key(place) != Some(&here) {
                break;
            }
            let advanced = match place.checked_sub(cursors.len()) {
                None => cursors[place].advance(media),
                Some(walk) => walks[walk].advance(),
            };
            // The heap is in order even where a source fails.
            let sources = Sources { cursors, walks, media };
            if sources.key(place).is_none() {
                heap.remove_top();
            }
            heap.sift_top(|a, b| sources.precedes(a, b, *direction));
            advanced?;
        }
        self.passed = here;
        Ok(())
    }

    /// What comes next going the scan's direction.
    pub(super) fn nearest(&self) -> ScanPosition {
        match (&self.cursors[..], &self.walks[..]) {
            ([only], []) if only.head.is_some() => ScanPosition::Record(0),
            ([], [only]) if only.head().is_some() => ScanPosition::Table(0),
            ([] | [_], []) | ([], [_]) => ScanPosition::Nowhere,
            (cursors, _) => match self.heap.top() {
                None => ScanPosition::Nowhere,
                Some(place) => match place.checked_sub(cursors.len()) {
                    None => ScanPosition::Record(place),
                    Some(walk) => ScanPosition::Table(walk),
                },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::ops::Bound;
    use std::sync::Arc;

    use pmem::Region;

    use super::*;
    use crate::{Db, Options};

    thread_local! {
        /// Pairs of keys that this thread has compared.
        pub(super) static COMPARED: Cell<usize> = const { Cell::new(0) };
    }

    const KEYS: usize = 256;

    /// Comparisons for each key of a scan over this many memtables and runs, whose keys alternate.
    fn compared_per_key(sources: usize, direction: Direction) -> f64 {
        let region = Arc::new(Region::heap(32 << 20, None).expect("memory"));
        let mut options = Options::default();
        options.set("background_threads", "0").expect("an option");
        let db = Db::open_region(region, options).expect("open");
        for source in 0..sources {
            for no in (0..KEYS).filter(|no| no * 7 % sources == source) {
                db.put(format!("{no:05}"), "value").expect("put");
            }
            if source + 1 < sources {
                db.flush().expect("flush");
            }
        }
        let (engine, space) =
            (db.engine(), &db.engine().keyspaces.named("default").expect("there"));
        let visible = engine.sequence.ring.visible();
        let (lower, upper) = (Bound::Unbounded, Bound::Unbounded);
        let mut scan = Scan::new(engine, space, visible, None, lower, upper).expect("open");
        scan.seek(Bound::Unbounded, direction).expect("seek");
        assert_eq!(scan.cursors.len(), sources, "nothing was merged");
        let (before, mut keys) = (COMPARED.get(), 0);
        while scan.valid() {
            keys += 1;
            scan.step(direction).expect("step");
        }
        assert_eq!(keys, KEYS);
        (COMPARED.get() - before) as f64 / keys as f64
    }

    #[test]
    fn a_step_costs_the_logarithm_of_the_number_of_sources() {
        for direction in [Direction::Forward, Direction::Backward] {
            for (sources, log2) in [(1, 0), (2, 1), (4, 2), (16, 4)] {
                let compared = compared_per_key(sources, direction);
                // Two on each level of the heap.
                assert!(compared <= f64::from(2 * log2), "{sources} sources: {compared}");
            }
        }
    }
}
