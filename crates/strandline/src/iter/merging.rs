//! The ordered merge: several sources as one, for merges of runs, compactions, checks and repairs.

use base::Result;

use crate::iter::source::Source;

/// Sources merged in the order of [`InternalKey`](crate::iter::source::InternalKey); the same version of several sources
/// comes from the first of them first.
pub(crate) struct MergingIterator<S> {
    /// As they were given, those that have ended too.
    sources: Vec<S>,
    heap: SourceHeap,
}

/// A binary heap of the places of sources that have not ended: the one with the next entry on top. Whether one source's entry
/// precedes another's is told at each call, because the entries change.
#[derive(Default)]
pub(crate) struct SourceHeap {
    places: Vec<usize>,
}

impl<S: Source> MergingIterator<S> {
    /// Merges `sources`, the newest first, each positioned on its first entry.
    pub(crate) fn new(context: &S::Context, sources: Vec<S>) -> MergingIterator<S> {
        let mut heap = SourceHeap::default();
        let stands = |place: &usize| sources[*place].head(context).is_some();
        let all = 0..sources.len();
        heap.fill(all.filter(stands), |a, b| precedes(&sources, context, a, b));
        MergingIterator { sources, heap }
    }

    /// The source that stands on the next entry.
    #[inline]
    pub(crate) fn source(&self) -> Option<&S> {
        self.heap.top().map(|place| &self.sources[place])
    }

    /// Which of the sources that is.
    pub(crate) fn rank(&self) -> Option<usize> {
        self.heap.top()
    }

    /// All sources, as they were given.
    pub(crate) fn sources(&self) -> &[S] {
        &self.sources
    }

    /// Passes the next entry.
    ///
    /// # Errors
    /// Those of reading the one behind it.
    pub(crate) fn advance(&mut self, context: &S::Context) -> Result<()> {
        let MergingIterator { sources, heap } = self;
        let Some(place) = heap.top() else { return Ok(()) };
        sources[place].advance(context)?;
        if sources[place].head(context).is_none() {
            heap.remove_top();
        }
        heap.sift_top(|a, b| precedes(sources, context, a, b));
        Ok(())
    }
}

/// Whether the entry of one source comes before that of another; neither has ended.
#[inline]
fn precedes<S: Source>(sources: &[S], context: &S::Context, a: usize, b: usize) -> bool {
    let heads = sources[a].head(context).zip(sources[b].head(context));
    heads.is_some_and(|(head, other)| head.cmp(&other).then(a.cmp(&b)).is_lt())
}

impl SourceHeap {
    /// Holds these places instead of those that it has.
    pub(crate) fn fill(
        &mut self,
        places: impl Iterator<Item = usize>,
        precedes: impl Fn(usize, usize) -> bool,
    ) {
        self.places.clear();
        self.places.extend(places);
        for at in (0..self.places.len() / 2).rev() {
            self.sift_down(at, &precedes);
        }
    }

    /// The source with the next entry.
    #[inline]
    pub(crate) fn top(&self) -> Option<usize> {
        self.places.first().copied()
    }

    /// The source on top has ended; any other takes its place, until [`SourceHeap::sift_top`].
    #[inline]
    pub(crate) fn remove_top(&mut self) {
        self.places.swap_remove(0);
    }

    /// Brings the source with the next entry to the top, after the one there has changed.
    #[inline]
    pub(crate) fn sift_top(&mut self, precedes: impl Fn(usize, usize) -> bool) {
        self.sift_down(0, &precedes);
    }

    /// Moves what is `at` a place of the heap down to where it belongs.
    #[inline]
    fn sift_down(&mut self, mut at: usize, precedes: &impl Fn(usize, usize) -> bool) {
        let places = &mut self.places[..];
        while let Some(left) = places.get(2 * at + 1) {
            let right = places.get(2 * at + 2);
            let goes_right = right.is_some_and(|right| precedes(*right, *left));
            let child = 2 * at + 1 + usize::from(goes_right);
            if !precedes(places[child], places[at]) {
                return;
            }
            places.swap(at, child);
            at = child;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use base::Seq;

    use super::*;
    use crate::iter::source::InternalKey;

    /// Versions in order; the context counts how often one is looked at.
    struct Listed(Vec<(Vec<u8>, u64)>);

    impl Source for Listed {
        type Context = Cell<usize>;

        fn head<'s>(&'s self, looks: &'s Cell<usize>) -> Option<InternalKey<'s>> {
            looks.set(looks.get() + 1);
            self.0.last().map(|(key, seq)| InternalKey { key, seq: Seq::new(*seq) })
        }

        fn advance(&mut self, _: &Cell<usize>) -> Result<()> {
            self.0.pop();
            Ok(())
        }
    }

    fn listed(versions: impl IntoIterator<Item = (Vec<u8>, u64)>) -> Listed {
        let mut versions: Vec<_> = versions.into_iter().collect();
        versions.reverse();
        Listed(versions)
    }

    /// What comes out: keys, numbers, and the sources' places.
    fn merged(looks: &Cell<usize>, sources: Vec<Listed>) -> Vec<(Vec<u8>, u64, usize)> {
        let mut merging = MergingIterator::new(looks, sources);
        let mut passed = Vec::new();
        while let (Some(source), Some(rank)) = (merging.source(), merging.rank()) {
            let head = source.head(looks).expect("it stands on an entry");
            passed.push((head.key.to_vec(), head.seq.get(), rank));
            merging.advance(looks).expect("nothing fails");
        }
        passed
    }

    #[test]
    fn keys_ascend_versions_descend_and_of_one_version_the_first_source_comes_first() {
        let source = |versions: &[(&str, u64)]| {
            listed(versions.iter().map(|(key, seq)| (key.as_bytes().to_vec(), *seq)))
        };
        let sources = vec![
            source(&[("b", 9), ("c", 4)]),
            source(&[]),
            source(&[("a", 7), ("b", 9), ("b", 2)]),
            source(&[("b", 12), ("d", 1)]),
        ];
        let shown: Vec<String> = merged(&Cell::new(0), sources)
            .into_iter()
            .map(|(key, seq, rank)| format!("{}{seq}@{rank}", key.escape_ascii()))
            .collect();
        assert_eq!(shown, ["a7@2", "b12@3", "b9@0", "b9@2", "b2@2", "c4@0", "d1@3"]);
    }

    /// Looks at heads for each entry, merging `count` sources whose keys alternate.
    fn looks_per_entry(count: usize) -> f64 {
        const ENTRIES: usize = 64;
        let keys = |no: usize| (0..ENTRIES).map(move |i| i * count + (i * 7 + no * 13) % count);
        let source = |no| {
            let mut keys: Vec<_> = keys(no).map(|key| (key.to_be_bytes().to_vec(), 1)).collect();
            keys.sort();
            listed(keys)
        };
        let looks = Cell::new(0);
        let passed = merged(&looks, (0..count).map(source).collect());
        assert!(passed.is_sorted() && passed.len() == ENTRIES * count);
        looks.get() as f64 / passed.len() as f64
    }

    #[test]
    fn an_entry_costs_the_logarithm_of_the_number_of_sources() {
        for (count, log2) in [(1, 0), (2, 1), (16, 4), (256, 8), (1024, 10)] {
            // Two comparisons of two heads on each level of the heap, and some around them.
            let (looks, most) = (looks_per_entry(count), f64::from(4 * log2 + 6));
            assert!(looks <= most, "{count} sources: {looks} for each entry");
        }
    }
}
