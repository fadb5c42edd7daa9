//! What locks are in the way of a write outside transactions.

use std::sync::Arc;

use base::LockMode;

use crate::keyspace::KeyspaceState;
use crate::locks::intervals::Sought;
use crate::locks::queue::LockTurn;
use crate::locks::space::{KeyLock, What};
use crate::locks::table::{LockTable, OwnerId};
use crate::span::{Span, disjoint};

/// Keys and ranges of one keyspace that are about to be written.
pub(crate) struct WriteSet<'w> {
    /// In order, none twice.
    keys: Vec<&'w [u8]>,
    /// In order, and disjoint.
    ranges: Vec<Span>,
}

impl<'w> WriteSet<'w> {
    pub(crate) fn new(mut keys: Vec<&'w [u8]>, mut ranges: Vec<Span>) -> WriteSet<'w> {
        keys.sort_unstable();
        keys.dedup();
        ranges.retain(|range| !range.is_empty());
        WriteSet { keys, ranges: disjoint(ranges) }
    }

    /// That which has `key`: the key itself, or a range.
    fn of(&self, key: &[u8]) -> Option<Sought<'_>> {
        if let Ok(at) = self.keys.binary_search(&key) {
            return Some(Sought::Key(self.keys[at]));
        }
        let behind = self.ranges.partition_point(|range| &range.lower[..] <= key);
        let range = self.ranges.get(behind.checked_sub(1)?)?;
        range.holds(key).then_some(Sought::Range(range))
    }

    /// That which has keys of `span`.
    fn within(&self, span: &Span) -> impl Iterator<Item = Sought<'_>> {
        let first = self.keys.partition_point(|key| *key < &span.lower[..]);
        let keys = self.keys[first..].iter().take_while(|key| span.holds(key));
        let begins_before = |range: &Span| range.before().is_some_and(|end| end <= &span.lower[..]);
        let first = self.ranges.partition_point(begins_before);
        let is_met = |range: &&Span| span.before().is_none_or(|upper| &range.lower[..] < upper);
        let ranges = self.ranges[first..].iter().take_while(is_met);
        keys.map(|key| Sought::Key(key)).chain(ranges.map(Sought::Range))
    }
}

impl KeyLock {
    /// Whether others than `writer` hold it, or wait for it.
    fn keeps_out(&self, writer: OwnerId) -> bool {
        let is_held = self.holders.refuse(writer, LockMode::Exclusive);
        !self.is_own(writer) && (is_held || !self.queue.is_empty())
    }

    fn is_own(&self, writer: OwnerId) -> bool {
        self.holders.has(writer, LockMode::Exclusive)
    }
}

impl LockTable {
    /// Whether others hold what a write is about to write, or wait for it.
    pub(crate) fn is_in_way_of(
        &mut self,
        writer: OwnerId,
        space: &KeyspaceState,
        sought: Sought<'_>,
    ) -> bool {
        let Some(locks) = self.spaces.get_mut(&space.id) else { return false };
        // What it has waited for, it has.
        if locks.covers(writer, sought, LockMode::Exclusive) {
            return false;
        }
        let (is_own, is_key_in_way) = match sought {
            Sought::Key(key) => {
                let lock = locks.keys.get(key);
                let is_own = lock.is_some_and(|lock| lock.is_own(writer));
                (is_own, lock.is_some_and(|lock| lock.keeps_out(writer)))
            }
            Sought::Range(span) => {
                let mut keys = locks.keys_of(span, &span.lower);
                (false, keys.any(|(_, lock)| lock.keeps_out(writer)))
            }
        };
        let last = LockTurn { is_new: true, no: u64::MAX };
        let mut in_way = || locks.range_against(writer, sought, LockMode::Exclusive, last);
        !is_own && (is_key_in_way || in_way().is_some())
    }

    /// The first that others hold, or wait for, of what a write is about to write in `span`. It is looked for lock by lock: a write
    /// may have many more keys than there are locks.
    pub(crate) fn first_in_way_of(
        &mut self,
        writer: OwnerId,
        space: &KeyspaceState,
        span: &Span,
        written: &WriteSet<'_>,
    ) -> Option<What> {
        let mut from = span.lower.clone();
        while let Some(key) = self.next_locked(writer, space, span, &from, written) {
            if let Some(sought) = written.of(&key)
                && self.is_in_way_of(writer, space, sought)
            {
                return Some(What::from(sought));
            }
            from = [&key[..], &[0]].concat();
        }
        let locks = self.spaces.get_mut(&space.id)?;
        let mut of_others = Vec::new();
        for mode in [LockMode::Shared, LockMode::Exclusive] {
            locks.ranges(mode).find_overlapping(Sought::Range(span), |locked, _, lock| {
                if lock.owner != writer {
                    of_others.push(locked.within(span));
                }
                None::<()>
            });
        }
        let mut met = of_others.iter().flat_map(|locked| written.within(locked));
        met.find(|sought| self.is_in_way_of(writer, space, *sought)).map(What::from)
    }

    /// The next key of `span` from `from` on that is about to be written, and locked by others.
    fn next_locked(
        &self,
        writer: OwnerId,
        space: &KeyspaceState,
        span: &Span,
        from: &[u8],
        written: &WriteSet<'_>,
    ) -> Option<Arc<[u8]>> {
        let mut keys = self.spaces.get(&space.id)?.keys_of(span, from);
        let is_met = |(key, lock): &(&Arc<[u8]>, &KeyLock)| {
            lock.keeps_out(writer) && written.of(key).is_some()
        };
        keys.find(is_met).map(|(key, _)| Arc::clone(key))
    }
}

impl From<Sought<'_>> for What {
    fn from(sought: Sought<'_>) -> What {
        match sought {
            Sought::Key(key) => What::Key(Arc::from(key)),
            Sought::Range(span) => What::Range(Arc::new(span.clone())),
        }
    }
}
