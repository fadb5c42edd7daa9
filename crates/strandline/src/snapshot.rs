//! Snapshots: sequence numbers that merges must keep readable.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use base::Seq;
use base::planted::{self, Bug};

use crate::ring::Ring;

/// The snapshots that are open.
///
/// **I-SNAP-1** A snapshot and a merge's drop horizon are taken under one lock, and neither is above what
/// was visible at that moment.
#[derive(Default)]
pub(crate) struct Snapshots {
    open: Mutex<OpenSnapshots>,
}

/// Who keeps a moment readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    Snapshot,
    /// It also needs to find what was written since.
    Transaction,
}

/// How many there are of each number.
#[derive(Default)]
struct OpenSnapshots {
    all: BTreeMap<Seq, usize>,
    transactions: BTreeMap<Seq, usize>,
}

impl OpenSnapshots {
    fn add(&mut self, seq: Seq, reader: Reader) {
        *self.all.entry(seq).or_default() += 1;
        if reader == Reader::Transaction {
            *self.transactions.entry(seq).or_default() += 1;
        }
    }

    fn remove(&mut self, seq: Seq, reader: Reader) {
        take_one(&mut self.all, seq);
        if reader == Reader::Transaction {
            take_one(&mut self.transactions, seq);
        }
    }
}

fn take_one(counts: &mut BTreeMap<Seq, usize>, seq: Seq) {
    if let Some(count) = counts.get_mut(&seq) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&seq);
        }
    }
}

/// What a merge may not drop: the newest version at or below each stamp, and everything above the first.
#[derive(Clone, Debug)]
pub(crate) struct Horizon {
    /// Descending; the first is what was visible when the horizon was taken.
    stamps: Vec<Seq>,
    /// The oldest moment of a transaction that is open or may begin.
    oldest_transaction: Seq,
}

impl Snapshots {
    pub(crate) fn take(&self, ring: &Ring, reader: Reader) -> Seq {
        let mut open = self.open();
        let seq = ring.visible();
        open.add(seq, reader);
        seq
    }

    fn open(&self) -> MutexGuard<'_, OpenSnapshots> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a snapshot that is open already once more.
    pub(crate) fn again(&self, seq: Seq) -> Seq {
        self.open().add(seq, Reader::Snapshot);
        seq
    }

    pub(crate) fn release(&self, seq: Seq, reader: Reader) {
        self.open().remove(seq, reader);
    }

    pub(crate) fn len(&self) -> usize {
        self.open().all.values().sum()
    }

    /// The oldest snapshot that a reader has, or may take from now on.
    pub(crate) fn oldest(&self, ring: &Ring) -> Seq {
        let open = self.open();
        let visible = ring.visible();
        open.all.keys().next().map_or(visible, |oldest| visible.min(*oldest))
    }

    pub(crate) fn horizon(&self, ring: &Ring) -> Horizon {
        if planted::is(Bug::IgnoreSnapshots) {
            return Horizon::only(ring.visible());
        }
        let open = self.open();
        let visible = ring.visible();
        let mut stamps = vec![visible];
        stamps.extend(open.all.keys().rev().filter(|seq| **seq < visible));
        let oldest_transaction =
            open.transactions.keys().next().map_or(visible, |oldest| visible.min(*oldest));
        Horizon { stamps, oldest_transaction }
    }
}

impl Horizon {
    /// One reader, at `seq`, and none later.
    pub(crate) fn only(seq: Seq) -> Horizon {
        Horizon { stamps: vec![seq], oldest_transaction: seq }
    }

    /// Readers at `stamps`, which descend, and later ones.
    #[cfg(test)]
    pub(crate) fn at(stamps: Vec<Seq>) -> Horizon {
        Horizon { oldest_transaction: stamps[0], stamps }
    }

    /// The same, where the oldest reader is a transaction.
    #[cfg(test)]
    pub(crate) fn of_transaction(self) -> Horizon {
        let oldest_transaction = self.stamps.last().copied().unwrap_or_default();
        Horizon { oldest_transaction, ..self }
    }

    /// What was visible when the horizon was taken.
    pub(crate) fn newest(&self) -> Seq {
        self.stamps[0]
    }

    /// Where the next reader stands that does not see version `seq`, of those up to the horizon.
    pub(crate) fn reader_below(&self, seq: Seq) -> Option<Seq> {
        let below = self.stamps.partition_point(|stamp| *stamp >= seq);
        self.stamps.get(below).copied()
    }

    /// Whether no transaction, now or later, looks whether something of number `seq` was written.
    pub(crate) fn is_below_transactions(&self, seq: Seq) -> bool {
        seq <= self.oldest_transaction
    }

    /// Whether every reader, now and later, sees version `seq` and all before it.
    pub(crate) fn is_below(&self, seq: Seq) -> bool {
        self.stamps.last().is_some_and(|oldest| seq <= *oldest)
    }

    /// Whether some reader, now or later, may see version `older` of a key without `newer`.
    pub(crate) fn separates(&self, older: Seq, newer: Seq) -> bool {
        self.keeps(older, Some(newer))
    }

    /// How many of `versions` of a key, newest first, come to one: operands that no reader tells apart, with the version
    /// below them. `tell` says a version's number, and whether it is an operand.
    pub(crate) fn stretch<V>(&self, versions: &[V], tell: impl Fn(&V) -> (Seq, bool)) -> usize {
        let joined = versions.windows(2).take_while(|pair| {
            let ((newer, is_operand), (older, _)) = (tell(&pair[0]), tell(&pair[1]));
            is_operand && !self.separates(older, newer)
        });
        1 + joined.count()
    }

    /// Whether a version must be kept, given the next newer version of the same key.
    pub(crate) fn keeps(&self, seq: Seq, newer: Option<Seq>) -> bool {
        let Some(newer) = newer else { return true };
        // Some reader may stand at a stamp in seq..newer, or between stamps above the horizon. Stamps may be as many as
        // versions, so they are not looked at one by one.
        newer > self.stamps[0] || self.reader_below(newer).is_some_and(|stamp| seq <= stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_horizon_keeps_what_some_reader_may_need() {
        let horizon = Horizon::at([100, 50, 20].map(Seq::new).to_vec());
        let keeps = |seq, newer: Option<u64>| horizon.keeps(Seq::new(seq), newer.map(Seq::new));
        assert!(keeps(7, None));
        assert!(keeps(90, Some(101)), "a reader may stand at 100");
        assert!(keeps(101, Some(102)), "later readers may stand anywhere");
        assert!(!keeps(60, Some(100)));
        assert!(keeps(40, Some(60)));
        assert!(!keeps(21, Some(49)));
        assert!(keeps(20, Some(50)));
        assert!(!keeps(5, Some(20)));
    }

    #[test]
    fn operands_come_to_one_between_snapshots() {
        let horizon = Horizon::at([100, 50, 20].map(Seq::new).to_vec());
        let stretch = |versions: &[(u64, bool)]| {
            horizon.stretch(versions, |(seq, operand)| (Seq::new(*seq), *operand))
        };
        assert_eq!(stretch(&[(90, true), (80, true), (51, true), (50, true)]), 3);
        assert_eq!(stretch(&[(50, true), (40, false), (30, true)]), 2, "a value ends it");
        assert_eq!(stretch(&[(102, true), (101, true)]), 1, "later readers may stand anywhere");
        assert_eq!(stretch(&[(50, false), (49, true)]), 1);
    }
}
