//! The ordered merge: several sources as one, for merges of runs, compactions, checks and repairs.

use base::Result;

use crate::iter::source::Source;

/// Sources merged in the order of [`InternalKey`](crate::iter::source::InternalKey); the same version of several sources
/// comes from the first of them first.
pub(crate) struct MergingIterator<S> {
    /// As they were given, those that have ended too.
    sources: Vec<S>,
    /// A binary heap of the places of those that have not: the one with the next entry on top.
    heap: Vec<usize>,
}

impl<S: Source> MergingIterator<S> {
    /// Merges `sources`, the newest first, each positioned on its first entry.
    pub(crate) fn new(context: &S::Context, sources: Vec<S>) -> MergingIterator<S> {
        let stands = |at: &usize| sources[*at].head(context).is_some();
        let heap = (0..sources.len()).filter(stands).collect();
        let mut merging = MergingIterator { sources, heap };
        for at in (0..merging.heap.len() / 2).rev() {
            merging.sift_down(context, at);
        }
        merging
    }

    /// The source that stands on the next entry.
    #[inline]
    pub(crate) fn source(&self) -> Option<&S> {
        self.heap.first().map(|at| &self.sources[*at])
    }

    /// Which of the sources that is.
    pub(crate) fn rank(&self) -> Option<usize> {
        self.heap.first().copied()
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
        let Some(top) = self.heap.first() else { return Ok(()) };
        let source = &mut self.sources[*top];
        source.advance(context)?;
        if source.head(context).is_none() {
            self.heap.swap_remove(0);
        }
        self.sift_down(context, 0);
        Ok(())
    }

    /// Moves what is `at` a place of the heap down to where it belongs.
    fn sift_down(&mut self, context: &S::Context, mut at: usize) {
        loop {
            let mut least = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.heap.len() && self.precedes(context, child, least) {
                    least = child;
                }
            }
            if least == at {
                return;
            }
            self.heap.swap(at, least);
            at = least;
        }
    }

    #[inline]
    fn precedes(&self, context: &S::Context, a: usize, b: usize) -> bool {
        let (a, b) = (self.heap[a], self.heap[b]);
        // None in the heap has ended.
        let heads = self.sources[a].head(context).zip(self.sources[b].head(context));
        heads.is_some_and(|(head, other)| head.cmp(&other).then(a.cmp(&b)).is_lt())
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
