//! Range deletions of a memtable, held apart from its index.
//!
//! For a read the newest deletion counts that covers its key, of those that its snapshot shows. There is a tree that
//! tells which is the newest where, for the moment after each deletion ([`tree`]): a read searches for its moment, then
//! in that tree. A deletion adds at most two edges to the tree and removes those between them, so that it costs a few
//! steps down the tree whatever it overlaps.
//!
//! Writers take a lock, readers none. A reader looks at no moment behind its snapshot, and those before never change: a
//! moment is taken back only before its number is visible.

mod chunks;
#[cfg(test)]
mod tests;
mod tree;

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use base::{AtomicSeq, Seq};
use sst::RangeDelete;

use crate::ranges::{Ranges, Stretch};
use crate::snapshot::Horizon;
use crate::span::Span;
use chunks::Chunks;
use tree::{Boundary, KeysByNumber, Root, TreeEdit, Trees};

#[derive(Default)]
pub(crate) struct Deletes {
    /// None while there are no range deletions: all that most reads look at.
    history: OnceLock<Box<History>>,
    /// How many there are.
    len: AtomicU32,
    /// DRAM held.
    bytes: AtomicU64,
    /// Bytes of keys.
    key_bytes: AtomicU64,
    writing: Mutex<Writing>,
}

/// What only writers look at.
#[derive(Default)]
struct Writing {
    /// Deletions whose bounds were taken down, given up or not.
    bounds: u32,
    /// Nodes of trees.
    nodes: u32,
}

#[derive(Default)]
struct History {
    /// What numbers count from; 0, but of a staged memtable.
    base: AtomicSeq,
    /// In the order of their numbers.
    moments: Chunks<TreeVersion>,
    bounds: Chunks<OnceLock<DeleteKeys>>,
    trees: Trees,
}

/// The moment after a deletion.
#[derive(Default)]
struct TreeVersion {
    /// Counted from the base.
    distance: AtomicU64,
    /// Which tree it has.
    root: AtomicU32,
    /// Number of the deletion's bounds.
    bounds: AtomicU32,
}

/// Both keys of a deletion.
struct DeleteKeys {
    keys: Box<[u8]>,
    begin_len: usize,
}

/// A deletion whose bounds were taken down.
#[derive(Clone, Copy)]
struct Placed {
    seq: Seq,
    bounds: u32,
}

impl KeysByNumber for History {
    /// Keys are numbered in pairs, begin and end.
    fn key(&self, no: u32) -> &[u8] {
        let Some(bounds) = self.bounds.at(no / 2).get() else { return &[] };
        let (begin, end) = bounds.keys.split_at(bounds.begin_len);
        if no.is_multiple_of(2) { begin } else { end }
    }
}

impl History {
    fn seq(&self, position: u32) -> Seq {
        let distance = self.moments.at(position).distance.load(Ordering::Relaxed);
        self.base.load(Ordering::Relaxed) + distance
    }

    /// The deletion that stands there, as it was given.
    fn given(&self, position: u32) -> Stretch<'_> {
        let begin = 2 * self.moments.at(position).bounds.load(Ordering::Relaxed);
        Stretch { begin: self.key(begin), end: self.key(begin + 1), seq: self.seq(position) }
    }

    /// The tree after so many deletions.
    fn root(&self, count: u32) -> Root {
        match count.checked_sub(1) {
            Some(last) => self.moments.at(last).root.load(Ordering::Relaxed),
            None => 0,
        }
    }

    /// What is between two edges, if a deletion covers it.
    fn stretch(&self, from: Option<Boundary>, to: Option<Boundary>) -> Option<Stretch<'_>> {
        let from = from.filter(|edge| edge.newest != 0)?;
        let seq = self.seq(from.newest - 1);
        Some(Stretch { begin: self.key(from.key), end: self.key(to?.key), seq })
    }
}

impl Deletes {
    /// Adds the deletions of a commit, in any order. They are not visible yet.
    pub(crate) fn add(&self, deletes: Vec<RangeDelete>) {
        let mut writing = self.lock();
        let covers = |delete: &RangeDelete| delete.begin < delete.end;
        let place = |delete| self.place(&mut writing, delete);
        let mut fresh: Vec<Placed> = deletes.into_iter().filter(covers).map(place).collect();
        let Some(first) = fresh.iter().map(|delete| delete.seq).min() else { return };
        // Those of commits in flight that are newer and came earlier: at most one commit of each other writer.
        fresh.extend(self.take_back(first));
        fresh.sort_unstable_by_key(|delete| delete.seq);
        self.append(&mut writing, &fresh);
    }

    /// Takes back what a commit with these numbers added. It was given up before it became visible.
    pub(crate) fn remove(&self, seqs: RangeInclusive<Seq>) {
        let mut writing = self.lock();
        let mut newer = self.take_back(*seqs.start());
        newer.retain(|delete| !seqs.contains(&delete.seq));
        self.append(&mut writing, &newer);
    }

    /// The numbers of all deletions that there are were counted from 0; from now on they count from `base`. No reader has them yet.
    pub(crate) fn rebase(&self, base: Seq) {
        if let Some(history) = self.history.get() {
            history.base.store(base, Ordering::Relaxed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Writing> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn history(&self) -> &History {
        self.history.get_or_init(Box::default)
    }

    /// Takes the keys of a deletion down.
    fn place(&self, writing: &mut Writing, delete: RangeDelete) -> Placed {
        let bounds = writing.bounds;
        writing.bounds += 1;
        let begin_len = delete.begin.len();
        let keys = [delete.begin, delete.end].concat().into_boxed_slice();
        self.key_bytes.fetch_add(keys.len() as u64, Ordering::Relaxed);
        self.history().bounds.at(bounds).get_or_init(|| DeleteKeys { keys, begin_len });
        Placed { seq: delete.seq, bounds }
    }

    /// Takes all moments from number `from` on back, which no reader looks at.
    fn take_back(&self, from: Seq) -> Vec<Placed> {
        let (stays, len) = (self.count(from.previous()), self.count(Seq::MAX));
        let taken = (stays..len).map(|position| {
            let moment = self.history().moments.at(position);
            Placed {
                seq: self.history().seq(position),
                bounds: moment.bounds.load(Ordering::Relaxed),
            }
        });
        let taken = taken.collect();
        self.len.store(stays, Ordering::Release);
        taken
    }

    /// Adds moments behind all others.
    fn append(&self, writing: &mut Writing, deletes: &[Placed]) {
        let history = self.history();
        let mut len = self.len.load(Ordering::Relaxed);
        for delete in deletes {
            let mut change = TreeEdit {
                trees: &history.trees,
                keys: history,
                shared: writing.nodes,
                nodes: writing.nodes,
            };
            let begin = 2 * delete.bounds;
            let root = change.cover(history.root(len), begin, begin + 1, len + 1);
            writing.nodes = change.nodes;
            let moment = history.moments.at(len);
            moment.root.store(root, Ordering::Relaxed);
            moment.bounds.store(delete.bounds, Ordering::Relaxed);
            let distance = delete.seq - history.base.load(Ordering::Relaxed);
            moment.distance.store(distance, Ordering::Relaxed);
            len += 1;
            // With it all that was made is there for a reader that sees the length.
            self.len.store(len, Ordering::Release);
        }
        let bytes = Trees::bytes(writing.nodes)
            + Chunks::<TreeVersion>::bytes(len)
            + Chunks::<OnceLock<DeleteKeys>>::bytes(writing.bounds)
            + self.key_bytes.load(Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// How many deletions are not younger than `snapshot`.
    fn count(&self, snapshot: Seq) -> u32 {
        let len = self.len.load(Ordering::Acquire);
        let history = self.history();
        // Most readers see all of them.
        if len == 0 || history.seq(len - 1) <= snapshot {
            return len;
        }
        let (mut low, mut high) = (0, len - 1);
        while low < high {
            let middle = low.midpoint(high);
            if history.seq(middle) <= snapshot {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Number of the newest deletion that covers `key` and is not younger than `snapshot`; 0 if there is none.
    #[inline]
    pub(crate) fn newest(&self, key: &[u8], snapshot: Seq) -> Seq {
        if self.history.get().is_none() {
            return Seq::ZERO;
        }
        self.covering(key, snapshot).map_or(Seq::ZERO, |stretch| stretch.seq)
    }

    /// The keys around `key` that the newest deletion of it covers that is not younger than `snapshot`. It may cover others
    /// beside them too.
    pub(crate) fn covering(&self, key: &[u8], snapshot: Seq) -> Option<Stretch<'_>> {
        let history = self.history.get()?;
        let (last, next) =
            history.trees.around(&**history, history.root(self.count(snapshot)), key);
        history.stretch(last, next)
    }

    /// Whether a deletion that is older than `below` covers a key from `from` to `to`, both included.
    pub(crate) fn touches(&self, from: &[u8], to: &[u8], below: Seq) -> bool {
        let Some(history) = self.history.get() else { return false };
        // Those up to `below` need not be visible yet.
        let _writing = self.lock();
        let root = history.root(self.count(below.previous()));
        let (last, next) = history.trees.around(&**history, root, from);
        // Of two neighbouring stretches one at least is covered.
        last.is_some_and(|edge| edge.newest != 0)
            || next.is_some_and(|edge| edge.newest != 0 && history.key(edge.key) <= to)
    }

    /// One that covers a key of `span`, of those after `after` and up to `upto`, which is visible. It looks at each of these.
    pub(crate) fn any_within(&self, span: &Span, after: Seq, upto: Seq) -> Option<Stretch<'_>> {
        let history = self.history.get()?;
        let since = self.count(after)..self.count(upto);
        since.map(|position| history.given(position)).find(|delete| delete.meets(span))
    }

    /// The pieces of them that some reader needs, of those up to the horizon. A memtable that is being written has
    /// others, which are for later.
    pub(crate) fn needed(&self, horizon: &Horizon) -> Ranges {
        let Some(history) = self.history.get() else { return Ranges::default() };
        let stretches = (0..self.count(horizon.newest())).map(|position| history.given(position));
        Ranges::needed(stretches, horizon)
    }

    /// The first key that is covered, and the first behind all that are.
    pub(crate) fn bounds(&self) -> Option<(&[u8], &[u8])> {
        let history = self.history.get()?;
        // Of all there are the newest may be taken back meanwhile.
        let _writing = self.lock();
        let (first, last) = history.trees.ends(history.root(self.count(Seq::MAX)))?;
        Some((history.key(first.key), history.key(last.key)))
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire) as usize
    }

    /// DRAM held.
    #[inline]
    pub(crate) fn dram_bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes that they take in a run at most, for each reader that tells them apart: every key ends a piece and begins
    /// one.
    pub(crate) fn run_bytes_max(&self) -> u64 {
        2 * self.key_bytes.load(Ordering::Relaxed) + 32 * self.len() as u64
    }
}
