//! The locks of one keyspace: those of keys in their order, and those of ranges.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use base::{LockMode, LockTarget};

use crate::keyspace::KeyspaceState;
use crate::locks::intervals::{Intervals, Sought};
use crate::locks::queue::{LockQueue, LockTurn};
use crate::locks::table::OwnerId;
use crate::span::Span;

/// What is locked.
#[derive(Clone, Debug)]
pub(crate) enum What {
    Key(Arc<[u8]>),
    Range(Arc<Span>),
}

/// A lock that is asked for.
#[derive(Clone)]
pub(crate) struct Ask {
    pub space: Arc<KeyspaceState>,
    pub what: What,
    pub mode: LockMode,
    pub turn: LockTurn,
    /// Of a range: it was entered, as wanted.
    pub entered: Option<RangeName>,
}

/// A lock with a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LockPlace {
    Key(u32, Arc<[u8]>),
    Range(RangeName),
}

/// How a range lock is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RangeName {
    pub keyspace: u32,
    pub mode: LockMode,
    pub lower: Arc<[u8]>,
    pub no: u64,
}

/// The locks of a keyspace.
pub(crate) struct SpaceLocks {
    pub space: Arc<KeyspaceState>,
    pub keys: BTreeMap<Arc<[u8]>, KeyLock>,
    pub shared_ranges: Intervals<RangeLock>,
    pub exclusive_ranges: Intervals<RangeLock>,
}

#[derive(Default)]
pub(crate) struct KeyLock {
    pub holders: KeyHolders,
    pub queue: LockQueue,
}

#[derive(Default)]
pub(crate) enum KeyHolders {
    #[default]
    None,
    Exclusive(OwnerId),
    Shared(BTreeSet<OwnerId>),
}

pub(crate) struct RangeLock {
    pub owner: OwnerId,
    /// Of one that waits: keys before that are free of other locks, while it keeps others from them.
    pub wanted: Option<Wanted>,
    pub queue: LockQueue,
}

pub(crate) struct Wanted {
    pub turn: LockTurn,
    pub clear_before: Vec<u8>,
}

/// About what the entry of a lock takes besides its key, in the table and its owner.
pub(crate) const HOLDER_BYTES: u64 = 60;
const KEY_BYTES: u64 = 110;

const RANGE_BYTES: u64 = 320;

impl KeyHolders {
    pub(crate) fn has(&self, owner: OwnerId, mode: LockMode) -> bool {
        match self {
            KeyHolders::None => false,
            KeyHolders::Exclusive(holder) => *holder == owner,
            KeyHolders::Shared(all) => mode == LockMode::Shared && all.contains(&owner),
        }
    }

    /// Whether another holds it in a way that does not go with `mode`.
    pub(crate) fn refuse(&self, owner: OwnerId, mode: LockMode) -> bool {
        match self {
            KeyHolders::None => false,
            KeyHolders::Exclusive(holder) => *holder != owner,
            KeyHolders::Shared(all) => {
                mode == LockMode::Exclusive && all.len() > usize::from(all.contains(&owner))
            }
        }
    }

    pub(crate) fn add(&mut self, owner: OwnerId, mode: LockMode) {
        match (mode, &mut *self) {
            (LockMode::Exclusive, _) => *self = KeyHolders::Exclusive(owner),
            (LockMode::Shared, KeyHolders::Shared(all)) => drop(all.insert(owner)),
            (LockMode::Shared, _) => *self = KeyHolders::Shared([owner].into()),
        }
    }

    pub(crate) fn remove(&mut self, owner: OwnerId) {
        match self {
            KeyHolders::Shared(all) if all.len() > 1 => drop(all.remove(&owner)),
            _ => *self = KeyHolders::None,
        }
    }

    pub(crate) fn mode(&self) -> LockMode {
        match self {
            KeyHolders::Shared(_) => LockMode::Shared,
            KeyHolders::None | KeyHolders::Exclusive(_) => LockMode::Exclusive,
        }
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = OwnerId> {
        let (one, all) = match self {
            KeyHolders::None => (None, None),
            KeyHolders::Exclusive(owner) => (Some(*owner), None),
            KeyHolders::Shared(all) => (None, Some(all.iter().copied())),
        };
        one.into_iter().chain(all.into_iter().flatten())
    }
}

impl What {
    pub(crate) fn sought(&self) -> Sought<'_> {
        match self {
            What::Key(key) => Sought::Key(key),
            What::Range(span) => Sought::Range(span),
        }
    }

    pub(crate) fn target(&self) -> LockTarget {
        match self {
            What::Key(key) => LockTarget::Key(key.to_vec()),
            What::Range(span) => {
                LockTarget::Range { lower: span.lower.clone(), upper: span.upper.clone() }
            }
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        match self {
            What::Key(key) => key_bytes(key) + HOLDER_BYTES,
            What::Range(span) => range_bytes(span),
        }
    }
}

pub(crate) fn key_bytes(key: &[u8]) -> u64 {
    KEY_BYTES + key.len() as u64
}

pub(crate) fn range_bytes(span: &Span) -> u64 {
    RANGE_BYTES + 2 * (span.lower.len() + span.before().map_or(0, <[u8]>::len)) as u64
}

impl RangeLock {
    pub(crate) fn is_held(&self) -> bool {
        self.wanted.is_none()
    }
}

impl SpaceLocks {
    pub(crate) fn new(space: &Arc<KeyspaceState>) -> SpaceLocks {
        SpaceLocks {
            space: Arc::clone(space),
            keys: BTreeMap::new(),
            shared_ranges: Intervals::default(),
            exclusive_ranges: Intervals::default(),
        }
    }

    pub(crate) fn ranges(&mut self, mode: LockMode) -> &mut Intervals<RangeLock> {
        match mode {
            LockMode::Shared => &mut self.shared_ranges,
            LockMode::Exclusive => &mut self.exclusive_ranges,
        }
    }

    /// The range locks of each mode.
    pub(crate) fn all_ranges(&self) -> [(LockMode, &Intervals<RangeLock>); 2] {
        let (shared, exclusive) = (&self.shared_ranges, &self.exclusive_ranges);
        [(LockMode::Shared, shared), (LockMode::Exclusive, exclusive)]
    }

    pub(crate) fn ranges_len(&self) -> usize {
        self.all_ranges().into_iter().map(|(_, ranges)| ranges.len()).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.shared_ranges.is_empty() && self.exclusive_ranges.is_empty()
    }

    pub(crate) fn range(&mut self, name: &RangeName) -> Option<&mut RangeLock> {
        self.ranges(name.mode).get_mut(&name.lower, name.no)
    }

    pub(crate) fn span_of(&self, name: &RangeName) -> Option<&Span> {
        let ranges = match name.mode {
            LockMode::Shared => &self.shared_ranges,
            LockMode::Exclusive => &self.exclusive_ranges,
        };
        ranges.span_of(&name.lower, name.no)
    }

    /// The keys of `span` that are locked or waited for, from `from` on.
    pub(crate) fn keys_of<'l>(
        &'l self,
        span: &'l Span,
        from: &'l [u8],
    ) -> impl Iterator<Item = (&'l Arc<[u8]>, &'l KeyLock)> {
        let from = from.max(&span.lower);
        let keys = self.keys.range::<[u8], _>((Bound::Included(from), Bound::Unbounded));
        keys.take_while(|(key, _)| span.holds(key))
    }

    /// Whether anything in `span` is locked or waited for.
    pub(crate) fn has_any(&mut self, span: &Span) -> bool {
        self.keys_of(span, &span.lower).next().is_some()
            || [LockMode::Shared, LockMode::Exclusive].into_iter().any(|mode| {
                self.ranges(mode)
                    .find_overlapping(Sought::Range(span), |_, _, _| Some(()))
                    .is_some()
            })
    }

    /// Whether the owner has all of it, as a range lock.
    pub(crate) fn covers(&mut self, owner: OwnerId, sought: Sought<'_>, mode: LockMode) -> bool {
        let enough = [LockMode::Shared, LockMode::Exclusive].into_iter().filter(|has| *has >= mode);
        enough.into_iter().any(|has| {
            let own = |span: &Span, _: u64, lock: &mut RangeLock| {
                let all = lock.owner == owner && lock.is_held() && covers(span, sought);
                all.then_some(())
            };
            self.ranges(has).find_overlapping(sought, own).is_some()
        })
    }

    /// The range lock of another that does not go with `mode` and came before `turn`.
    pub(crate) fn range_against(
        &mut self,
        owner: OwnerId,
        sought: Sought<'_>,
        mode: LockMode,
        turn: LockTurn,
    ) -> Option<LockPlace> {
        let keyspace = self.space.id;
        let modes = match mode {
            LockMode::Shared => &[LockMode::Exclusive][..],
            LockMode::Exclusive => &[LockMode::Exclusive, LockMode::Shared],
        };
        modes.iter().find_map(|mode| {
            self.ranges(*mode).find_overlapping(sought, |span, no, lock| {
                if lock.owner == owner {
                    return None;
                }
                match &mut lock.wanted {
                    Some(wanted) if wanted.turn > turn => {
                        // It is passed, so what it has looked at may be locked again.
                        if sought.first() < &wanted.clear_before[..] {
                            wanted.clear_before = sought.first().to_vec();
                        }
                        None
                    }
                    _ => {
                        let lower = Arc::from(&span.lower[..]);
                        Some(LockPlace::Range(RangeName { keyspace, mode: *mode, lower, no }))
                    }
                }
            })
        })
    }
}

fn covers(span: &Span, sought: Sought<'_>) -> bool {
    match sought {
        Sought::Key(key) => span.holds(key),
        Sought::Range(other) => {
            span.lower <= other.lower
                && match (span.before(), other.before()) {
                    (None, _) => true,
                    (Some(_), None) => false,
                    (Some(upper), Some(other)) => upper >= other,
                }
        }
    }
}
