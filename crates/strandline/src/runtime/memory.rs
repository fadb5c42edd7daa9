//! One budget for the memory of several stores: what one does not take, the others may.
//!
//! A store tells what it holds when it computes its debt, and takes for its budget what the others leave. So a store
//! that is written to flushes early while others hold much. Those that hold most are asked to flush, too: nothing
//! else would ever make one give memory back that is not written to any more.
//!
//! **I-SHARE-1** A store is asked for what writers fill. What waits for its flush comes back by itself, so it is neither asked
//! for nor counted as too much; and one that was asked is not asked again until it has answered.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pmem::SameProcess;

use crate::cache::BlockCache;
use crate::runtime::thread_pool::Waker;

/// From this part of the budget on stores are asked to flush, in quarters.
const FULL_QUARTERS: u64 = 3;
/// A memtable that holds less is not flushed for the others' sake, as its run would not be worth the work; less of that where
/// many stores share little, since all of them may hold as much.
const FLOOR: std::ops::RangeInclusive<u64> = 4 << 10..=64 << 10;

/// What a store holds, in bytes of DRAM, the block cache apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeldDram {
    /// In all.
    pub all: u64,
    /// Of it, in memtables that writers fill and that are worth a flush ([`MemoryShare::floor`]).
    pub active: u64,
    /// Of it, in memtables that wait for their flush.
    pub waiting: u64,
}

/// The memory of several stores.
pub(crate) struct SharedMemory {
    budget: u64,
    pub cache: Arc<BlockCache>,
    process: SameProcess,
    /// What all stores hold, and how many are open: as in the accounts, without their lock.
    held: AtomicU64,
    stores: AtomicUsize,
    accounts: Mutex<Accounts>,
}

#[derive(Default)]
struct Accounts {
    open: BTreeMap<u64, Account>,
    next: u64,
    /// Stores that may be asked, by what they would give back; of those that would give back as much the oldest last.
    largest: BTreeSet<(u64, Reverse<u64>)>,
    /// Sums of all accounts.
    all: u64,
    waiting: u64,
    /// What those would give back that were asked and have not answered.
    asked: u64,
    /// Accounts that were looked at for relief.
    #[cfg(test)]
    looked_at: u64,
}

struct Account {
    held: HeldDram,
    /// The store was asked, and has not answered.
    is_asked: bool,
    /// The store has yet to see that.
    unseen: Arc<AtomicBool>,
    /// Wakes the store.
    waker: Option<Waker>,
}

/// A store's part in the memory; what it holds counts until it is closed, or dropped.
pub(crate) struct MemoryShare {
    memory: Arc<SharedMemory>,
    number: u64,
    /// As last told.
    held: AtomicU64,
    unseen: Arc<AtomicBool>,
}

impl Accounts {
    /// Notes what an account holds now; nothing where it is closed.
    fn note(&mut self, number: u64, held: HeldDram) -> bool {
        let Some(account) = self.open.get_mut(&number) else { return false };
        let before = std::mem::replace(&mut account.held, held);
        self.all = self.all - before.all + held.all;
        self.waiting = self.waiting - before.waiting + held.waiting;
        if account.is_asked {
            self.asked = self.asked - before.active + held.active;
        } else if before.active != held.active {
            self.largest.remove(&(before.active, Reverse(number)));
            self.largest.insert((held.active, Reverse(number)));
        }
        true
    }

    /// The store has answered.
    fn end_asking(&mut self, number: u64) {
        let Some(account) = self.open.get_mut(&number) else { return };
        if std::mem::replace(&mut account.is_asked, false) {
            self.asked -= account.held.active;
            self.largest.insert((account.held.active, Reverse(number)));
        }
    }

    fn close(&mut self, number: u64) {
        self.note(number, HeldDram::default());
        self.end_asking(number);
        self.largest.remove(&(0, Reverse(number)));
        self.open.remove(&number);
    }

    /// Asks stores to flush, those that hold most first, until enough have been asked. Returns what wakes them.
    fn relieve(&mut self, limit: u64, floor: u64) -> Vec<Waker> {
        let excess = (self.all - self.waiting).saturating_sub(limit);
        let mut asked = Vec::new();
        while self.asked < excess
            && let Some(&(active, Reverse(number))) = self.largest.last()
            && active >= floor
        {
            #[cfg(test)]
            (self.looked_at += 1);
            self.largest.remove(&(active, Reverse(number)));
            let Some(account) = self.open.get_mut(&number) else { continue };
            account.is_asked = true;
            account.unseen.store(true, Relaxed);
            self.asked += active;
            asked.extend(account.waker.clone());
        }
        asked
    }
}

impl SharedMemory {
    /// `budget` bytes; `cache` of them are for blocks of tables.
    pub fn new(budget: u64, cache: u64, process: SameProcess) -> SharedMemory {
        SharedMemory {
            budget,
            cache: Arc::new(BlockCache::new(cache)),
            process,
            held: AtomicU64::new(0),
            stores: AtomicUsize::new(0),
            accounts: Mutex::default(),
        }
    }

    /// Bytes that everything may take, the cache included.
    pub fn budget(&self) -> u64 {
        self.budget
    }

    /// Bytes that stores hold, the cache apart.
    pub fn held(&self) -> u64 {
        self.held.load(Relaxed)
    }

    /// Stores that have an account.
    pub fn stores(&self) -> usize {
        self.stores.load(Relaxed)
    }

    fn accounts(&self) -> MutexGuard<'_, Accounts> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens an account for a store.
    pub fn share(self: &Arc<Self>) -> MemoryShare {
        let unseen = Arc::<AtomicBool>::default();
        let mut accounts = self.accounts();
        let number = accounts.next;
        accounts.next += 1;
        let (held, unseen_too) = (HeldDram::default(), Arc::clone(&unseen));
        let account = Account { held, is_asked: false, unseen: unseen_too, waker: None };
        accounts.open.insert(number, account);
        accounts.largest.insert((0, Reverse(number)));
        self.stores.store(accounts.open.len(), Relaxed);
        drop(accounts);
        MemoryShare { memory: Arc::clone(self), number, held: AtomicU64::new(0), unseen }
    }

    fn for_stores(&self) -> u64 {
        self.budget - self.cache.budget()
    }

    /// Changes accounts, and asks stores to flush if too much is held then.
    fn change(&self, change: impl FnOnce(&mut Accounts)) {
        let mut accounts = self.accounts();
        change(&mut accounts);
        self.held.store(accounts.all, Relaxed);
        let asked = accounts.relieve(self.for_stores() / 4 * FULL_QUARTERS, self.floor());
        drop(accounts);
        asked.iter().for_each(Waker::wake);
    }

    fn floor(&self) -> u64 {
        let each = self.for_stores() / 2 / self.stores().max(1) as u64;
        each.clamp(*FLOOR.start(), *FLOOR.end())
    }
}

impl MemoryShare {
    /// The store is woken by this when it is asked to flush.
    pub fn wake_by(&self, waker: Waker) {
        if let Some(account) = self.memory.accounts().open.get_mut(&self.number) {
            account.waker = Some(waker);
        }
    }

    /// Notes what the store holds, unless it is closed.
    pub fn report(&self, held: HeldDram) {
        self.memory.change(|accounts| {
            let is_open = accounts.note(self.number, held);
            self.held.store(if is_open { held.all } else { 0 }, Relaxed);
        });
    }

    /// Bytes from which on a memtable is worth a flush for the others' sake.
    pub fn floor(&self) -> u64 {
        self.memory.floor()
    }

    /// What the other stores leave to this one, the cache apart.
    pub fn budget(&self) -> u64 {
        let others = self.memory.held().saturating_sub(self.held.load(Relaxed));
        self.memory.for_stores().saturating_sub(others)
    }

    /// Whether the store was asked to flush: the thread that is told so does it, and then calls [`MemoryShare::answer`].
    pub fn take_asked(&self) -> bool {
        self.unseen.load(Relaxed) && self.unseen.swap(false, Relaxed)
    }

    /// The store has flushed what it was asked for, as far as it could, and reported that. It may be asked again.
    pub fn answer(&self) {
        self.memory.change(|accounts| accounts.end_asking(self.number));
    }

    /// The store holds nothing any more, whatever it reports.
    pub fn close(&self) {
        // A fork may have the lock as another thread of its parent held it.
        if !self.memory.process.holds() {
            return;
        }
        self.memory.change(|accounts| {
            accounts.close(self.number);
            self.memory.stores.store(accounts.open.len(), Relaxed);
            self.held.store(0, Relaxed);
        });
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn shares(count: usize) -> Vec<MemoryShare> {
        let process = SameProcess::begin().expect("a page");
        let memory = Arc::new(SharedMemory::new(100 * MIB, 20 * MIB, process));
        (0..count).map(|_| memory.share()).collect()
    }

    impl MemoryShare {
        /// All that it holds is in active memtables.
        fn fill(&self, active: u64) {
            self.report(HeldDram { all: active, active, waiting: 0 });
        }
    }

    fn asked(shares: &[MemoryShare]) -> Vec<usize> {
        (0..shares.len()).filter(|at| shares[*at].take_asked()).collect()
    }

    #[test]
    fn what_one_store_holds_the_others_lack() {
        let mut shares = shares(3);
        let report =
            |share: &MemoryShare, all| share.report(HeldDram { all, ..HeldDram::default() });
        report(&shares[0], 30 * MIB);
        report(&shares[1], 10 * MIB);
        let budgets: Vec<u64> = shares.iter().map(|share| share.budget() / MIB).collect();
        assert_eq!(budgets, [70, 50, 40]);
        report(&shares[0], 10 * MIB);
        drop(shares.pop());
        drop(shares.pop());
        let memory = &shares[0].memory;
        assert_eq!((shares[0].budget() / MIB, memory.held() / MIB, memory.stores()), (80, 10, 1));
    }

    #[test]
    fn the_largest_are_asked_to_flush_and_no_more_than_is_needed() {
        let shares = shares(4);
        for (share, mib) in shares.iter().zip([5, 20, 15, 15]) {
            share.fill(mib * MIB);
        }
        assert_eq!(asked(&shares), [0; 0], "55 of 60");
        shares[0].fill(10 * MIB);
        assert_eq!(asked(&shares), [0; 0], "just full");
        shares[0].fill(11 * MIB);
        assert_eq!(asked(&shares), [1]);
        shares[0].report(HeldDram { all: 70 * MIB, active: 10 * MIB, waiting: 0 });
        assert_eq!(asked(&shares), [0, 2, 3], "60 are too much, and all memtables have as many");
        let report = |share: &MemoryShare, all| {
            share.report(HeldDram { all, active: share.floor() - 1, waiting: 0 });
        };
        shares.iter().for_each(|share| report(share, 0));
        shares.iter().for_each(MemoryShare::answer);
        shares.iter().for_each(|share| report(share, 20 * MIB));
        assert_eq!(asked(&shares), [0; 0], "nothing to be gained");
    }

    #[test]
    fn one_that_was_asked_is_not_asked_again_while_its_answer_is_under_way() {
        let shares = shares(2);
        shares[0].fill(70 * MIB);
        assert_eq!(asked(&shares), [0]);
        // It is about to switch its memtables, and reports meanwhile.
        shares[0].fill(71 * MIB);
        shares[1].fill(MIB);
        assert_eq!(asked(&shares), [0; 0]);
        // It has switched them: what waits comes back.
        shares[0].report(HeldDram { all: 71 * MIB, active: MIB, waiting: 70 * MIB });
        shares[0].answer();
        assert_eq!(asked(&shares), [0; 0]);
        // However long the flush takes, and whatever else the store reports.
        shares[0].report(HeldDram { all: 100 * MIB, active: 2 * MIB, waiting: 70 * MIB });
        assert_eq!(asked(&shares), [0; 0]);
        shares[0].report(HeldDram { all: 140 * MIB, active: 70 * MIB, waiting: 70 * MIB });
        assert_eq!(asked(&shares), [0], "more has come");
    }

    #[test]
    fn a_store_that_is_closed_or_takes_no_more_writes_keeps_no_other_from_being_asked() {
        let shares = shares(3);
        shares[0].fill(70 * MIB);
        shares[1].fill(5 * MIB);
        assert_eq!(asked(&shares), [0]);
        // It does not flush, but says so.
        shares[0].report(HeldDram { all: 70 * MIB, ..HeldDram::default() });
        assert_eq!(asked(&shares), [1]);
        shares[0].close();
        shares[0].fill(70 * MIB);
        let memory = &shares[0].memory;
        assert_eq!((memory.held(), memory.stores()), (5 * MIB, 2));
        shares[2].fill(50 * MIB);
        assert_eq!(asked(&shares), [0; 0], "55 of 60");
    }

    #[test]
    fn what_is_worth_a_flush_goes_by_how_many_share() {
        let shares = shares(2000);
        let floor = shares[0].floor();
        assert!(floor * 2000 <= 80 * MIB / 2, "{floor}");
        shares[..1000].iter().for_each(|share| share.fill(2 * floor));
        shares[1000..].iter().for_each(|share| share.fill(floor));
        let asked = asked(&shares).len();
        assert_eq!(asked, 0, "60 MiB at most, and no more");
        shares.iter().for_each(|share| share.fill(2 * floor));
        assert!((400..1500).contains(&self::asked(&shares).len()));
    }

    #[test]
    fn a_report_looks_at_those_that_it_asks_however_many_there_are() {
        let shares = shares(2000);
        shares[0].report(HeldDram { all: 90 * MIB, ..HeldDram::default() });
        for round in 1..4 {
            shares.iter().skip(1).for_each(|share| share.fill(round * (40 << 10)));
        }
        let looked_at = shares[0].memory.accounts().looked_at;
        assert_eq!(looked_at, 1999, "each was asked once");
    }
}
