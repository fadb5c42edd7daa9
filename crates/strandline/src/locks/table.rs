//! Which locks are held, and which owners wait for which. Nothing here waits: it is all done under one mutex.
//!
//! - **I-LOCK-1** Two owners hold overlapping locks only if both are shared.
//! - **I-LOCK-2** An owner that waits is in one queue: that of a lock in its way. Where it has moved on to another, it is looked for
//!   deadlocks.
//! - **I-LOCK-3** The queue of a key is fair: none passes another, but for an owner that has the key shared and wants it
//!   exclusively. A range that waits lets no others lock keys in it; only those that asked before.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Instant;

use base::{Deadlock, LockMode};

use crate::keyspace::KeyspaceState;
use crate::locks::names::NamedOwner;
use crate::locks::queue::{LockQueue, LockTurn, Waiter};
use crate::locks::space::{
    Ask, HOLDER_BYTES, KeyHolders, KeyLock, LockPlace, RangeLock, RangeName, SpaceLocks, Wanted,
    What, key_bytes, range_bytes,
};
use crate::span::Span;

/// Who has locks: a transaction, or a write outside transactions that met locks. Later ones have greater numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OwnerId(pub u64);

/// What an owner is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnerKind {
    Transaction {
        /// The greater, the younger: of a deadlock the youngest is given up.
        age: u64,
        /// When others may take its locks.
        expires: Option<Instant>,
    },
    /// Given up before any transaction, since it can begin again by itself.
    Write,
}

/// How an owner stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Active,
    /// It keeps its locks until it ends, however long that takes.
    Committing,
    /// Too late: it has no locks any more.
    Expired,
    /// Given up; it has no locks any more.
    Victim(Arc<Deadlock>),
}

pub(crate) struct OwnerState {
    pub kind: OwnerKind,
    pub standing: Standing,
    /// Of a prepared transaction.
    pub name: Option<String>,
    /// The thread that asked last.
    pub thread: ThreadId,
    keys: Vec<(u32, Arc<[u8]>)>,
    ranges: Vec<RangeName>,
    pub waiting: Option<LockWaiting>,
}

/// What an owner waits for, and where.
pub(crate) struct LockWaiting {
    pub ask: Ask,
    pub at: LockPlace,
    /// Its turn there.
    turn: LockTurn,
    pub waiter: Arc<Waiter>,
}

/// How many locks are given back under the mutex at once: others want it, too.
const RELEASED_TOGETHER: usize = 256;

/// All locks of a store.
#[derive(Default)]
pub(crate) struct LockTable {
    pub(crate) spaces: BTreeMap<u32, SpaceLocks>,
    pub(crate) owners: BTreeMap<OwnerId, OwnerState>,
    /// What locks and queues take, about.
    pub(crate) bytes: u64,
    /// Prepared transactions, and those that are about to be.
    pub(super) names: BTreeMap<String, NamedOwner>,
    last_owner: u64,
    last_turn: u64,
    last_range: u64,
    /// Owners whose locks others may take at some time.
    expiring: usize,
    /// Those that wait at a new place, and may have closed a cycle.
    pub(crate) parked: Vec<OwnerId>,
    /// The latest, oldest first.
    pub(crate) deadlocks: VecDeque<Arc<Deadlock>>,
    pub(crate) deadlocks_found: u64,
    pub(crate) expired: u64,
}

/// What became of an ask.
pub(crate) enum Asked {
    Granted,
    Waits(Arc<Waiter>),
}

impl LockTable {
    /// The number that the next owner will have.
    pub(crate) fn next_owner(&self) -> u64 {
        self.last_owner + 1
    }

    pub(crate) fn age(&self, owner: OwnerId) -> Option<u64> {
        match self.owners.get(&owner)?.kind {
            OwnerKind::Transaction { age, .. } => Some(age),
            OwnerKind::Write => None,
        }
    }

    pub(crate) fn begin(&mut self, kind: OwnerKind) -> OwnerId {
        self.last_owner += 1;
        let id = OwnerId(self.last_owner);
        let thread = std::thread::current().id();
        let (standing, keys, ranges) = (Standing::Active, Vec::new(), Vec::new());
        self.expiring += usize::from(expires(kind).is_some());
        let (name, waiting) = (None, None);
        let owner = OwnerState { kind, standing, name, thread, keys, ranges, waiting };
        self.owners.insert(id, owner);
        id
    }

    /// Ends an owner: its locks go to those that wait.
    pub(crate) fn end(&mut self, owner: OwnerId) {
        self.withdraw(owner);
        self.release(owner);
        if let Some(gone) = self.owners.remove(&owner) {
            self.expiring -= usize::from(expires(gone.kind).is_some());
        }
        self.untangle();
    }

    /// A lock as it is asked for now.
    pub(crate) fn ask_for(
        &mut self,
        owner: OwnerId,
        space: &Arc<KeyspaceState>,
        what: What,
        mode: LockMode,
    ) -> Ask {
        self.last_turn += 1;
        let holds_shared = match &what {
            What::Key(key) => self.lock_of(space.id, key).is_some_and(|lock| {
                mode == LockMode::Exclusive && lock.holders.has(owner, LockMode::Shared)
            }),
            What::Range(_) => false,
        };
        let turn = LockTurn { is_new: !holds_shared, no: self.last_turn };
        Ask { space: Arc::clone(space), what, mode, turn, entered: None }
    }

    /// What a lock would add to [`LockTable::bytes`].
    pub(crate) fn cost(&self, ask: &Ask) -> u64 {
        match &ask.what {
            What::Key(key) if self.lock_of(ask.space.id, key).is_some() => HOLDER_BYTES,
            what => what.bytes(),
        }
    }

    fn lock_of(&self, keyspace: u32, key: &[u8]) -> Option<&KeyLock> {
        self.spaces.get(&keyspace)?.keys.get(key)
    }

    /// Grants the lock, or lets the owner wait for it.
    pub(crate) fn ask(&mut self, owner: OwnerId, mut ask: Ask) -> Asked {
        loop {
            match self.grant(owner, &mut ask) {
                None => return Asked::Granted,
                Some(place) if self.expire_at(&place, owner) => {}
                Some(place) => {
                    let waiter = Arc::new(Waiter::new());
                    let turn = self.join_queue(&place, owner, ask.turn);
                    let waiting = LockWaiting { ask, at: place, turn, waiter: Arc::clone(&waiter) };
                    if let Some(owner) = self.owners.get_mut(&owner) {
                        owner.waiting = Some(waiting);
                    }
                    self.parked.push(owner);
                    self.untangle();
                    return Asked::Waits(waiter);
                }
            }
        }
    }

    /// Grants the lock, or tells what is in the way.
    fn grant(&mut self, owner: OwnerId, ask: &mut Ask) -> Option<LockPlace> {
        let keyspace = ask.space.id;
        let locks = self.spaces.entry(keyspace).or_insert_with(|| SpaceLocks::new(&ask.space));
        match ask.what.clone() {
            What::Key(key) => {
                if locks.covers(owner, ask.what.sought(), ask.mode) {
                    return None;
                }
                if let Some(lock) = locks.keys.get(&key) {
                    if lock.holders.has(owner, ask.mode) {
                        return None;
                    }
                    if lock.holders.refuse(owner, ask.mode) || lock.queue.has_before(ask.turn) {
                        return Some(LockPlace::Key(keyspace, key));
                    }
                }
                let in_way = locks.range_against(owner, ask.what.sought(), ask.mode, ask.turn);
                if in_way.is_some() {
                    return in_way;
                }
                let new = key_bytes(&key);
                let lock = locks.keys.entry(Arc::clone(&key)).or_insert_with(|| {
                    self.bytes += new;
                    KeyLock::default()
                });
                let is_first = !lock.holders.has(owner, LockMode::Shared);
                lock.holders.add(owner, ask.mode);
                if is_first && let Some(owner) = self.owners.get_mut(&owner) {
                    owner.keys.push((keyspace, key));
                    self.bytes += HOLDER_BYTES;
                }
                None
            }
            What::Range(span) => self.grant_range(owner, ask, &span),
        }
    }

    fn grant_range(
        &mut self,
        owner: OwnerId,
        ask: &mut Ask,
        span: &Arc<Span>,
    ) -> Option<LockPlace> {
        let keyspace = ask.space.id;
        let locks = self.spaces.get_mut(&keyspace)?;
        if ask.entered.is_none() && locks.covers(owner, ask.what.sought(), ask.mode) {
            return None;
        }
        // From where no key was looked at, or may have been locked by those that asked before.
        let entered = ask.entered.as_ref().and_then(|name| locks.range(name));
        let from = entered.and_then(|lock| lock.wanted.as_ref().map(|w| w.clear_before.clone()));
        let from = from.unwrap_or_else(|| span.lower.clone());
        let in_way = locks
            .range_against(owner, ask.what.sought(), ask.mode, ask.turn)
            .map(|place| (place, from.clone()));
        let in_way = in_way.or_else(|| {
            let mut keys = locks.keys_of(span, &from);
            // Those that wait for a key of its own wait for it, not it for them.
            let blocked = |lock: &KeyLock| {
                let is_own = lock.holders.has(owner, LockMode::Shared);
                lock.holders.refuse(owner, ask.mode) || !is_own && lock.queue.has_before(ask.turn)
            };
            let (key, _) = keys.find(|(_, lock)| blocked(lock))?;
            Some((LockPlace::Key(keyspace, Arc::clone(key)), key.to_vec()))
        });
        let wanted = in_way
            .as_ref()
            .map(|(_, clear_before)| Wanted { turn: ask.turn, clear_before: clear_before.clone() });
        match &ask.entered {
            Some(name) => {
                if let Some(lock) = locks.range(name) {
                    lock.wanted = wanted;
                }
            }
            None => {
                self.last_range += 1;
                let (no, lower) = (self.last_range, Arc::from(&span.lower[..]));
                let lock = RangeLock { owner, wanted, queue: LockQueue::default() };
                locks.ranges(ask.mode).insert(Span::clone(span), no, lock);
                let name = RangeName { keyspace, mode: ask.mode, lower, no };
                self.bytes += ask.what.bytes();
                if let Some(owner) = self.owners.get_mut(&owner) {
                    owner.ranges.push(name.clone());
                }
                ask.entered = Some(name);
            }
        }
        in_way.map(|(place, _)| place)
    }

    /// Whether the owner has `what` locked so.
    pub(crate) fn has(
        &mut self,
        owner: OwnerId,
        space: &KeyspaceState,
        what: &What,
        mode: LockMode,
    ) -> bool {
        let Some(locks) = self.spaces.get_mut(&space.id) else { return false };
        let of_key = match what {
            What::Key(key) => locks.keys.get(key).is_some_and(|lock| lock.holders.has(owner, mode)),
            What::Range(_) => false,
        };
        of_key || locks.covers(owner, what.sought(), mode)
    }

    /// Whether anything in `span` is locked or waited for.
    pub(crate) fn has_any(&mut self, keyspace: u32, span: &Span) -> bool {
        self.spaces.get_mut(&keyspace).is_some_and(|locks| locks.has_any(span))
    }

    /// Who holds, or wants, what has the queue at `place`.
    pub(crate) fn holders(&mut self, place: &LockPlace) -> Vec<OwnerId> {
        match place {
            LockPlace::Key(keyspace, key) => self
                .lock_of(*keyspace, key)
                .map_or_else(Vec::new, |lock| lock.holders.each().collect()),
            LockPlace::Range(name) => {
                let locks = self.spaces.get_mut(&name.keyspace);
                let lock = locks.and_then(|locks| locks.range(name));
                lock.map(|lock| lock.owner).into_iter().collect()
            }
        }
    }

    /// Lets the owner wait at `place`. It comes before those that wait for a lock of its own, who would wait for it.
    fn join_queue(&mut self, place: &LockPlace, owner: OwnerId, turn: LockTurn) -> LockTurn {
        let is_own = match place {
            LockPlace::Key(keyspace, key) => self
                .lock_of(*keyspace, key)
                .is_some_and(|lock| lock.holders.has(owner, LockMode::Shared)),
            LockPlace::Range(_) => false,
        };
        let turn = LockTurn { is_new: turn.is_new && !is_own, ..turn };
        self.queue_at(place, |queue| queue.add(turn, owner));
        turn
    }

    fn queue_at<R>(
        &mut self,
        place: &LockPlace,
        change: impl FnOnce(&mut LockQueue) -> R,
    ) -> Option<R> {
        let queue = match place {
            LockPlace::Key(keyspace, key) => {
                let locks = self.spaces.get_mut(keyspace)?;
                &mut locks.keys.get_mut(key)?.queue
            }
            LockPlace::Range(name) => &mut self.spaces.get_mut(&name.keyspace)?.range(name)?.queue,
        };
        Some(change(queue))
    }

    /// Takes all locks from an owner.
    pub(crate) fn release(&mut self, owner: OwnerId) {
        while self.release_some(owner) {}
    }

    /// Takes some locks from an owner. Tells whether it has more.
    pub(crate) fn release_some(&mut self, owner: OwnerId) -> bool {
        let Some(of_owner) = self.owners.get_mut(&owner) else { return false };
        let left = of_owner.keys.len().saturating_sub(RELEASED_TOGETHER);
        let keys = of_owner.keys.split_off(left);
        let ranges = match left {
            0 => {
                let left = of_owner.ranges.len().saturating_sub(RELEASED_TOGETHER);
                of_owner.ranges.split_off(left)
            }
            _ => Vec::new(),
        };
        let has_more = !(of_owner.keys.is_empty() && of_owner.ranges.is_empty());
        self.bytes -= keys.len() as u64 * HOLDER_BYTES;
        for (keyspace, key) in keys {
            let locks = self.spaces.get_mut(&keyspace);
            if let Some(lock) = locks.and_then(|locks| locks.keys.get_mut(&key)) {
                lock.holders.remove(owner);
            }
            self.settle(&LockPlace::Key(keyspace, key));
        }
        for name in ranges {
            self.leave_range(&name);
        }
        has_more
    }

    /// The owner waits no more.
    pub(crate) fn withdraw(&mut self, owner: OwnerId) {
        let Some(of_owner) = self.owners.get_mut(&owner) else { return };
        let Some(waiting) = of_owner.waiting.take() else { return };
        waiting.waiter.give_up();
        self.queue_at(&waiting.at, |queue| queue.remove(waiting.turn));
        if let Some(name) = &waiting.ask.entered {
            if let Some(of_owner) = self.owners.get_mut(&owner) {
                of_owner.ranges.retain(|range| range != name);
            }
            self.leave_range(name);
        }
        // Those behind it may go with the holders.
        self.settle(&waiting.at);
    }

    /// Removes a range lock. Those that waited for it go on, or wait for something else.
    fn leave_range(&mut self, name: &RangeName) {
        let Some(locks) = self.spaces.get_mut(&name.keyspace) else { return };
        let removed = locks.ranges(name.mode).remove(&name.lower, name.no);
        let Some((span, mut lock)) = removed else { return };
        self.bytes -= range_bytes(&span);
        while let Some((_, owner)) = lock.queue.take_first() {
            self.retry(owner);
        }
        self.forget_if_empty(name.keyspace);
    }

    /// Grants what waits at a key, in order, until one has to wait on.
    fn settle(&mut self, place: &LockPlace) {
        let LockPlace::Key(keyspace, key) = place else { return };
        while let Some((_, owner)) = self.queue_at(place, |queue| queue.first()).flatten() {
            if self.retry(owner).as_ref() == Some(place) {
                return;
            }
        }
        let Some(locks) = self.spaces.get_mut(keyspace) else { return };
        let is_free =
            |lock: &KeyLock| matches!(lock.holders, KeyHolders::None) && lock.queue.is_empty();
        if locks.keys.get(key).is_some_and(is_free) {
            locks.keys.remove(key);
            self.bytes -= key_bytes(key);
            self.forget_if_empty(*keyspace);
        }
    }

    fn forget_if_empty(&mut self, keyspace: u32) {
        if self.spaces.get(&keyspace).is_some_and(SpaceLocks::is_empty) {
            self.spaces.remove(&keyspace);
        }
    }

    /// Grants what the owner waits for, or lets it wait where something else is in its way. Tells where it waits.
    fn retry(&mut self, owner: OwnerId) -> Option<LockPlace> {
        let mut waiting = self.owners.get_mut(&owner)?.waiting.take()?;
        let place = self.grant(owner, &mut waiting.ask);
        if place.as_ref() != Some(&waiting.at) {
            self.queue_at(&waiting.at, |queue| queue.remove(waiting.turn));
        }
        match &place {
            None => waiting.waiter.grant(),
            Some(place) => {
                if *place != waiting.at {
                    waiting.turn = self.join_queue(place, owner, waiting.ask.turn);
                    waiting.at = place.clone();
                    self.parked.push(owner);
                }
                if let Some(owner) = self.owners.get_mut(&owner) {
                    owner.waiting = Some(waiting);
                }
            }
        }
        place
    }

    /// Takes the locks of those that hold `place` and have lasted too long, but for `asker`. Tells whether there were any.
    pub(crate) fn expire_at(&mut self, place: &LockPlace, asker: OwnerId) -> bool {
        if self.expiring == 0 {
            return false;
        }
        let now = Instant::now();
        let late = |id: &OwnerId, table: &LockTable| {
            table.owners.get(id).is_some_and(|owner| {
                owner.standing == Standing::Active
                    && expires(owner.kind).is_some_and(|expires| expires <= now)
            })
        };
        let late: Vec<OwnerId> =
            self.holders(place).into_iter().filter(|id| *id != asker && late(id, self)).collect();
        for owner in &late {
            self.expire(*owner);
        }
        !late.is_empty()
    }

    /// As [`LockTable::expire_at`], of what the owner waits for.
    pub(crate) fn expire_in_way_of(&mut self, owner: OwnerId) -> bool {
        if self.expiring == 0 {
            return false;
        }
        let waiting = self.owners.get(&owner).and_then(|owner| owner.waiting.as_ref());
        let place = waiting.map(|waiting| waiting.at.clone());
        place.is_some_and(|place| self.expire_at(&place, owner))
    }

    /// Takes the owner's locks if its time is over.
    pub(crate) fn expire_if_late(&mut self, owner: OwnerId) {
        let kind = self.owners.get(&owner).map(|owner| (owner.kind, &owner.standing));
        if let Some((kind, Standing::Active)) = kind
            && expires(kind).is_some_and(|expires| expires <= Instant::now())
        {
            self.expire(owner);
        }
    }

    /// Ends the owner's wait, if it waits.
    pub(crate) fn stop_waiting(&mut self, owner: OwnerId) -> bool {
        let waits = self.owners.get(&owner).is_some_and(|owner| owner.waiting.is_some());
        self.withdraw(owner);
        self.untangle();
        waits
    }

    /// The owner is used by this thread.
    pub(crate) fn used_here(&mut self, owner: OwnerId) {
        if let Some(owner) = self.owners.get_mut(&owner) {
            owner.thread = std::thread::current().id();
        }
    }

    /// Which of `owners` this thread has used last.
    pub(crate) fn of_this_thread(&self, owners: &[OwnerId]) -> Option<OwnerId> {
        let here = std::thread::current().id();
        let is_here = |owner: &OwnerState| {
            let may_end_elsewhere = owner.standing != Standing::Active;
            owner.thread == here && !may_end_elsewhere && owner.kind != OwnerKind::Write
        };
        owners.iter().find(|id| self.owners.get(id).is_some_and(is_here)).copied()
    }

    /// The owner has lasted too long.
    pub(crate) fn expire(&mut self, owner: OwnerId) {
        if let Some(owner) = self.owners.get_mut(&owner) {
            owner.standing = Standing::Expired;
        }
        self.expired += 1;
        self.withdraw(owner);
        self.release(owner);
        self.untangle();
    }

    /// What `owner` has locked.
    pub(crate) fn held_by(&self, owner: OwnerId) -> Vec<(Arc<KeyspaceState>, What)> {
        let Some(owner) = self.owners.get(&owner) else { return Vec::new() };
        let space = |id: u32| Some(Arc::clone(&self.spaces.get(&id)?.space));
        let key = |(id, key): &(u32, Arc<[u8]>)| Some((space(*id)?, What::Key(Arc::clone(key))));
        let range = |name: &RangeName| {
            let span = self.spaces.get(&name.keyspace)?.span_of(name)?;
            Some((space(name.keyspace)?, What::Range(Arc::new(span.clone()))))
        };
        let keys = owner.keys.iter().filter_map(key);
        keys.chain(owner.ranges.iter().filter_map(range)).collect()
    }

    /// The earliest time at which a lock in the way of a waiting owner may be taken from its holder.
    pub(crate) fn next_expiry(&mut self, owner: OwnerId) -> Option<Instant> {
        if self.expiring == 0 {
            return None;
        }
        let place = self.owners.get(&owner)?.waiting.as_ref()?.at.clone();
        let holders = self.holders(&place);
        // One that commits or is prepared keeps its locks, however long that takes.
        let active = |owner: &&OwnerState| owner.standing == Standing::Active;
        let of = |id: &OwnerId| expires(self.owners.get(id).filter(active)?.kind);
        holders.iter().filter_map(of).min()
    }
}

pub(crate) fn expires(kind: OwnerKind) -> Option<Instant> {
    match kind {
        OwnerKind::Transaction { expires, .. } => expires,
        OwnerKind::Write => None,
    }
}
