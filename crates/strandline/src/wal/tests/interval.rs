//! A log that is synced as time passes: what power failure takes, and what a device that stalls holds up.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};

use base::LINE;
use base::planted::{self, Bug};
use pmem::{Journal, Promise, Region, Site};
use ssd::{Call, Disk, Failure, Faulty, Fs, Heed, Memory, Rule, Watch};

use super::{LINES, disk, reopen, setting};
use crate::options::WalSync;
use crate::wal::{LogOwner, Setting, open};

const EVERY: Duration = Duration::from_millis(4);

/// Writes a line and fences it as a commit does, that relies on what the log promises by itself.
fn line(region: &Region, number: u64) {
    let flight = region.copy_nt(Site::Record, number * LINE as u64, &[number as u8 + 1; LINE]);
    drop(region.try_fence(flight).expect("fence"));
}

/// How many of the first lines are there, after a power failure that keeps least.
fn kept(disk: &Disk, seed: u64) -> u64 {
    let survivors = disk.survivors(3, seed).map(Memory::new);
    let lines = survivors.map(|fs| {
        let region = reopen(&fs, WalSync::Never);
        let is_there = |number: &u64| region.bytes(number * LINE as u64, 1)[0] == *number as u8 + 1;
        (0..LINES).take_while(is_there).count() as u64
    });
    lines.min().expect("survivors")
}

/// Writes that were told longer than two intervals before another was told, and that power failure would take.
fn lost_too_late() -> usize {
    let fs = disk();
    let region = reopen(&fs, WalSync::Interval(EVERY));
    let (mut told, mut lost) = (Vec::new(), 0);
    for number in 0..100 {
        std::thread::sleep(Duration::from_micros(number % 7 * 500));
        if number % 10 == 9 {
            // A thread that comes by now and then.
            region.journal().expect("journaled").sync_if_due();
        }
        let begun = Instant::now();
        line(&region, number);
        let kept = kept(&fs.disk(), number);
        let old = told.iter().filter(|at| **at + 2 * EVERY < begun).count();
        lost += old.saturating_sub(kept as usize);
        told.push(Instant::now());
    }
    lost
}

#[test]
fn power_failure_takes_the_writes_of_two_intervals_at_most() {
    assert_eq!(lost_too_late(), 0);
    planted::plant(Some(Bug::WalOverdueGoesOn));
    assert!(lost_too_late() > 0, "writes wait for a sync that is overdue");
    planted::plant(None);
}

/// Writes a line as soon as a sync has taken what there was.
#[derive(Default)]
struct WritesBehind {
    region: OnceLock<Weak<Region>>,
    syncs: AtomicU64,
}

impl Watch for WritesBehind {
    fn before(&self, _: Call, _: &Path) -> Heed {
        Heed::Whole
    }

    fn after(&self, call: Call, _: &Path) {
        let region = self.region.get().and_then(Weak::upgrade);
        if let Some(region) = region.filter(|_| call == Call::Sync) {
            line(&region, 1);
            self.syncs.fetch_add(1, Relaxed);
        }
    }
}

/// A region whose log is synced on demand, and written to behind each sync.
fn written_behind() -> (Arc<Region>, Memory, Arc<WritesBehind>) {
    let writes = Arc::new(WritesBehind::default());
    let fs = Memory::watched(disk().disk(), Arc::clone(&writes) as Arc<dyn Watch>);
    let region = reopen(&fs, WalSync::Never);
    line(&region, 0);
    writes.region.set(Arc::downgrade(&region)).expect("once");
    (region, fs, writes)
}

/// The position up to which the log says that it is synced, and the lines that power failure leaves.
fn synced_and_kept() -> (u64, u64) {
    let (region, fs, _writes) = written_behind();
    region.sync_journal().expect("synced");
    let reached = region.journal().expect("journaled").reached(Promise::Synced);
    (reached, kept(&fs.disk(), 1))
}

#[test]
fn what_is_written_while_a_sync_is_under_way_is_not_synced_by_it() {
    assert_eq!(synced_and_kept(), (1, 1));
    planted::plant(Some(Bug::WalSyncedTooFar));
    assert_eq!(synced_and_kept(), (2, 1), "it says that the second line is synced, too");
    planted::plant(None);
}

/// Counts how often a thread is called to sync in time.
fn counted_wakes(journal: &dyn Journal) -> Arc<AtomicU64> {
    let woken = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&woken);
    journal.wake_by(Box::new(move || {
        count.fetch_add(1, Relaxed);
    }));
    woken
}

#[test]
fn a_thread_is_woken_for_the_first_write_and_told_when_to_sync() {
    let fs = disk();
    let every = Duration::from_secs(3600);
    // So long that no segment is to be made soon.
    let owner = LogOwner { id: 7, region_len: 16 << 20 };
    let region = open(setting(&fs, WalSync::Interval(every)), || Ok(Some(owner)));
    let region = region.expect("open").expect("a region");
    let journal = region.journal().expect("journaled");
    let woken = counted_wakes(journal);
    let woken = || woken.load(Relaxed);
    assert_eq!(journal.sync_if_due(), None);
    (0..5).for_each(|number| line(&region, number));
    assert_eq!(woken(), 1);
    assert!(journal.sync_if_due().is_some_and(|due| due > every / 2));
    assert_eq!(kept(&fs.disk(), 7), 0);
    region.sync_journal().expect("synced");
    assert_eq!(kept(&fs.disk(), 7), 5);
    assert_eq!(journal.sync_if_due(), None);
    line(&region, 5);
    assert_eq!(woken(), 2);
}

/// Calls of one kind wait while it is stalled.
pub(super) struct Stalls {
    call: Call,
    state: Mutex<(bool, u64)>,
    changed: Condvar,
}

impl Stalls {
    pub(super) fn on(call: Call) -> Arc<Stalls> {
        Arc::new(Stalls { call, state: Mutex::default(), changed: Condvar::new() })
    }

    pub(super) fn set(&self, stalled: bool) {
        self.state.lock().expect("alone").0 = stalled;
        self.changed.notify_all();
    }

    pub(super) fn wait_for_call(&self) {
        let state = self.state.lock().expect("alone");
        drop(self.changed.wait_while(state, |(_, waiting)| *waiting == 0).expect("alone"));
    }
}

impl Watch for Stalls {
    fn before(&self, call: Call, _: &Path) -> Heed {
        if call == self.call {
            let mut state = self.state.lock().expect("alone");
            state.1 += 1;
            self.changed.notify_all();
            state = self.changed.wait_while(state, |(stalled, _)| *stalled).expect("alone");
            state.1 -= 1;
        }
        Heed::Whole
    }
}

/// One sync is under way when they come, and the next is for all of them.
#[test]
fn those_who_ask_for_a_sync_together_share_it() {
    const ASKING: usize = 5;
    let stalls = Stalls::on(Call::Sync);
    let fs = Memory::watched(disk().disk(), Arc::clone(&stalls) as Arc<dyn Watch>);
    let region = reopen(&fs, WalSync::Never);
    let syncs = || region.journal().expect("journaled").figures().syncs;
    // That they have come is not to be seen; there is time for it.
    let shared = [1, 10, 100, 1000].into_iter().any(|millis| {
        line(&region, 0);
        let before = syncs();
        stalls.set(true);
        std::thread::scope(|scope| {
            scope.spawn(|| region.sync_journal().expect("synced"));
            stalls.wait_for_call();
            line(&region, 1);
            for _ in 1..ASKING {
                scope.spawn(|| region.sync_journal().expect("synced"));
            }
            std::thread::sleep(Duration::from_millis(millis));
            stalls.set(false);
        });
        syncs() - before <= 2
    });
    assert!(shared, "each made a sync of its own");
}

/// A thread that is to sync in time finds another at it, and goes: it must be called again for what was written meanwhile.
#[test]
fn what_is_written_while_a_sync_was_asked_for_is_synced_in_time_too() {
    let stalls = Stalls::on(Call::Sync);
    let fs = Memory::watched(disk().disk(), Arc::clone(&stalls) as Arc<dyn Watch>);
    let every = Duration::from_millis(20);
    let region = reopen(&fs, WalSync::Interval(every));
    let journal = region.journal().expect("journaled");
    let woken = counted_wakes(journal);
    line(&region, 0);
    stalls.set(true);
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| region.sync_journal());
        stalls.wait_for_call();
        line(&region, 1);
        std::thread::sleep(every);
        assert_eq!(journal.sync_if_due(), None, "another thread is at it");
        let before = woken.load(Relaxed);
        stalls.set(false);
        asked.join().expect("no panic").expect("synced");
        assert!(woken.load(Relaxed) > before);
    });
    journal.sync_if_due();
    assert_eq!(kept(&fs.disk(), 3), 2);
}

/// As [`reopen`], of a disk that refuses calls.
pub(super) fn faulty(fs: &Arc<Faulty<Memory>>, sync: WalSync) -> base::Result<Arc<Region>> {
    let with = Setting { fs: Arc::clone(fs) as Arc<dyn Fs>, ..setting(fs.inner(), sync) };
    let fresh = || Ok(Some(LogOwner { id: 7, region_len: LINES * LINE as u64 }));
    open(with, fresh).map(|region| region.expect("a region"))
}

#[test]
fn after_a_failure_no_sync_is_due() {
    let fs = Arc::new(Faulty::new(disk()));
    let region = faulty(&fs, WalSync::Interval(Duration::from_millis(1))).expect("open");
    let journal = region.journal().expect("journaled");
    line(&region, 0);
    std::thread::sleep(Duration::from_millis(2));
    fs.set_rules(vec![Rule::new(1, Failure::Io).of(Call::Sync)]);
    assert_eq!((journal.sync_if_due(), journal.sync_due_in()), (None, None));
    assert_eq!((journal.sync_if_due(), fs.struck()), (None, 1));
    assert!(journal.failure().is_some() && !journal.syncs_in_time());
    assert!(journal.sync_at_end().is_err() && journal.sync_at_end().is_err());
    // What was written, and not synced, before writing failed.
    let fs = Arc::new(Faulty::new(disk()));
    let region = faulty(&fs, WalSync::Interval(EVERY)).expect("open");
    let journal = region.journal().expect("journaled");
    line(&region, 0);
    fs.set_rules(vec![Rule::new(1, Failure::Io).of(Call::Write)]);
    assert!(region.try_fence(region.copy_nt(Site::Record, 0, &[1; LINE])).is_err());
    std::thread::sleep(EVERY);
    assert_eq!((journal.sync_if_due(), journal.sync_due_in()), (None, None));
}

/// The second handle of a segment is refused, as the process has no descriptor left, or it is there and none is left later.
#[test]
fn without_descriptors_the_log_is_synced_all_the_same() {
    let mut without = 0;
    for number in 1..20 {
        let fs = Arc::new(Faulty::new(disk()));
        fs.set_rules(vec![Rule::new(number, Failure::NoDescriptors).of(Call::Overwrite)]);
        let Ok(region) = faulty(&fs, WalSync::Never) else { continue };
        without += fs.struck();
        fs.set_rules(vec![Rule::new(1, Failure::NoDescriptors).of(Call::Overwrite).for_ever()]);
        for count in 1..4 {
            line(&region, count - 1);
            region.sync_journal().expect("synced");
            assert_eq!(kept(&fs.inner().disk(), count), count);
        }
    }
    assert_eq!(without, 1, "one handle of those that an open makes can be done without");
}

/// Some wait for a sync, some do not, and one asks for syncs until one fails: all of them come back.
#[test]
fn none_hangs_beside_syncs_that_fail_in_the_end() {
    for fails in 1..40 {
        let fs = Arc::new(Faulty::new(disk()));
        let region = faulty(&fs, WalSync::Interval(Duration::from_millis(1))).expect("open");
        let journal = region.journal().expect("journaled");
        fs.set_rules(vec![Rule::new(fails, Failure::Io).of(Call::Sync).for_ever()]);
        std::thread::scope(|scope| {
            for promise in [Promise::Written, Promise::Synced, Promise::Synced] {
                scope.spawn(move || {
                    while journal.failure().is_none() {
                        let position = journal.submit(&[(0, &[1; LINE])], Promise::Written);
                        journal.settle(position, promise, &|| {});
                    }
                });
            }
            while journal.failure().is_none() {
                let _until_it_fails = journal.sync();
            }
        });
    }
}
