//! Objects in the order of their last use, with the bytes of all that were used since.
//!
//! That is the stack of Mattson, Gecsei, Slutz and Traiger ("Evaluation techniques for storage hierarchies", IBM Systems Journal,
//! 1970): a cache that replaces the least recently used has an object if it has room for it and for what was used since.

use std::collections::BTreeMap;

use super::fenwick::FenwickTree;

/// Room for uses at first.
const USES_AT_FIRST: usize = 1024;

/// An object.
#[derive(Clone, Copy)]
struct Object {
    /// The position of its last use.
    used: usize,
    bytes: u64,
}

/// Objects by the order of their last use.
pub(super) struct Recency {
    /// By hash.
    objects: BTreeMap<u64, Object>,
    /// Bytes of each object at the position of its last use.
    bytes: FenwickTree,
    total: u64,
    next: usize,
}

impl Recency {
    pub(super) fn new() -> Recency {
        Recency {
            objects: BTreeMap::new(),
            bytes: FenwickTree::zeros(USES_AT_FIRST),
            total: 0,
            next: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    /// Bytes of all objects.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// The bytes of object `hash`.
    pub(super) fn bytes_of(&self, hash: u64) -> Option<u64> {
        self.objects.get(&hash).map(|object| object.bytes)
    }

    /// Uses object `hash`, which has so many bytes from now on. Returns the bytes of a cache that would have had it.
    pub(super) fn touch(&mut self, hash: u64, bytes: u64) -> Option<u64> {
        let distance = self.objects.get(&hash).map(|object| {
            let before = self.bytes.sum(object.used);
            self.total - before
        });
        self.remove(hash);
        if self.next == self.bytes.len() {
            self.renumber();
        }
        self.objects.insert(hash, Object { used: self.next, bytes });
        self.bytes.add(self.next, bytes);
        self.total += bytes;
        self.next += 1;
        distance
    }

    /// Forgets object `hash`.
    pub(super) fn remove(&mut self, hash: u64) {
        if let Some(object) = self.objects.remove(&hash) {
            self.bytes.take(object.used, object.bytes);
            self.total -= object.bytes;
        }
    }

    /// Forgets the object with the greatest hash, and returns that.
    pub(super) fn remove_greatest(&mut self) -> Option<u64> {
        let (hash, _) = self.objects.last_key_value()?;
        let hash = *hash;
        self.remove(hash);
        Some(hash)
    }

    /// Closes the gaps that objects left which were used again; as many positions are free then as are taken.
    fn renumber(&mut self) {
        let mut order: Vec<&mut Object> = self.objects.values_mut().collect();
        order.sort_unstable_by_key(|object| object.used);
        self.bytes = FenwickTree::zeros((2 * order.len()).max(USES_AT_FIRST));
        self.next = order.len();
        for (at, object) in order.into_iter().enumerate() {
            object.used = at;
            self.bytes.add(at, object.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::rng::Rng;

    /// The same, with a list.
    #[derive(Default)]
    struct Stack(Vec<(u64, u64)>);

    impl Stack {
        fn touch(&mut self, hash: u64, bytes: u64) -> Option<u64> {
            let at = self.0.iter().position(|(each, _)| *each == hash);
            let distance = at.map(|at| self.0[at..].iter().map(|(_, bytes)| bytes).sum());
            self.0.retain(|(each, _)| *each != hash);
            self.0.push((hash, bytes));
            distance
        }
    }

    #[test]
    fn distances_are_those_of_a_list() {
        let (mut recency, mut stack, mut rng) = (Recency::new(), Stack::default(), Rng::new(1));
        for step in 0..20_000 {
            let (hash, bytes) = (rng.below(1 + step / 20), 1 + rng.below(100));
            match rng.below(10) {
                0 => {
                    recency.remove(hash);
                    stack.0.retain(|(each, _)| *each != hash);
                }
                1 if step % 50 == 0 => {
                    let greatest = stack.0.iter().map(|(hash, _)| *hash).max();
                    assert_eq!(recency.remove_greatest(), greatest);
                    stack.0.retain(|(each, _)| Some(*each) != greatest);
                }
                _ => assert_eq!(recency.touch(hash, bytes), stack.touch(hash, bytes), "{step}"),
            }
            assert_eq!(recency.total(), stack.0.iter().map(|(_, bytes)| bytes).sum::<u64>());
        }
        assert_eq!(recency.len(), stack.0.len());
    }
}
