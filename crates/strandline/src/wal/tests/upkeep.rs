//! What a background thread does for those who write the log.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use base::LINE;
use base::planted::{self, Bug};
use pmem::{Journal, Region, Site};
use ssd::{Call, Failure, Faulty, Fs, Heed, Memory, Rule, Watch};

use super::interval::{Stalls, faulty};
use super::mapped::{assert_put, put};
use super::{LINES, disk, numbers, reopen, setting};
use crate::options::WalSync;
use crate::wal::{LogOwner, most_bytes, open};

fn journal(region: &Region) -> &dyn Journal {
    region.journal().expect("journaled")
}

/// Bytes of all files of the log.
fn bytes(fs: &Memory) -> u64 {
    let dir = Path::new("/wal");
    let names = fs.list(dir).expect("list");
    names.iter().map(|name| fs.open(&dir.join(name)).expect("open").len()).sum()
}

/// Writes lines until there is something to do beside; tells how many.
fn until_upkeep(region: &Region) -> u64 {
    let mut count = 0;
    while !journal(region).has_upkeep() {
        put(region, count);
        count += 1;
    }
    count
}

/// Calls that give names to files, or take them.
#[derive(Default)]
struct NameCalls(AtomicU64);

impl Watch for NameCalls {
    fn before(&self, call: Call, _: &Path) -> Heed {
        let names = matches!(call, Call::Create | Call::Rename | Call::Remove | Call::SyncDir);
        self.0.fetch_add(u64::from(names), Relaxed);
        Heed::Whole
    }
}

#[test]
fn those_who_write_find_the_next_segment_made() {
    for sync in [WalSync::Always, WalSync::Never] {
        let calls = Arc::new(NameCalls::default());
        let fs = Memory::watched(disk().disk(), Arc::clone(&calls) as Arc<dyn Watch>);
        let region = reopen(&fs, sync);
        let mut by_writes = 0;
        for round in 0..8 * LINES {
            let before = calls.0.load(Relaxed);
            // Not all of it: the heads of such small frames are nearly as long as what they hold.
            put(&region, round % (LINES / 2));
            by_writes += calls.0.load(Relaxed) - before;
            journal(&region).keep_up();
            let (figures, bytes) = (journal(&region).figures(), bytes(&fs));
            assert!(bytes <= most_bytes(region.len()), "{sync:?}: {bytes}, {figures:?}");
            // But for the file that names the newest.
            assert!(bytes.abs_diff(figures.bytes) <= 2 * 4096, "{sync:?}: {bytes}, {figures:?}");
        }
        let (figures, begun) = (journal(&region).figures(), *numbers(&fs).last().expect("some"));
        assert!(figures.recycled > 100, "{figures:?}");
        // The newest may be made and not begun.
        assert!((begun - 2..begun).contains(&figures.made_ahead), "{sync:?}: {begun}, {figures:?}");
        // At first, and for a file that is made ready with zeros.
        assert!(by_writes < begun / 4, "{sync:?}: {by_writes} calls, {begun} segments");
        drop(region);
        assert_put(&reopen(&fs, sync), LINES / 2, "again");
    }
}

#[test]
fn writes_go_on_while_a_device_stalls_what_is_made_ahead() {
    for (call, sync) in [(Call::Sync, WalSync::Never), (Call::SyncDir, WalSync::Always)] {
        let stalls = Stalls::on(call);
        let fs = Memory::watched(disk().disk(), Arc::clone(&stalls) as Arc<dyn Watch>);
        // The segment has room for many more.
        let owner = LogOwner { id: 7, region_len: 1 << 20 };
        let region = open(setting(&fs, sync), || Ok(Some(owner))).expect("open");
        let region = region.expect("a region");
        let mut count = until_upkeep(&region);
        stalls.set(true);
        std::thread::scope(|scope| {
            let beside = scope.spawn(|| journal(&region).keep_up());
            stalls.wait_for_call();
            for _ in 0..3 {
                put(&region, count);
                count += 1;
            }
            assert!(!beside.is_finished());
            let region = &region;
            scope.spawn(move || (count..count + 200).for_each(|number| put(region, number)));
            stalls.set(false);
        });
        count += 200;
        assert_eq!(numbers(&fs), [1, 2]);
        // While the other thread syncs, the one that writes may come first.
        let made_ahead = journal(&region).figures().made_ahead;
        assert!(made_ahead == 1 || call == Call::Sync, "{made_ahead}");
        drop(region);
        assert_put(&reopen(&fs, sync), count, "again");
    }
}

#[test]
fn a_failure_is_told_when_the_segment_is_needed() {
    for (failure, of_file) in [(Failure::Io, true), (Failure::NoSpace, false)] {
        let calls = [Call::Create, Call::Write, Call::Sync, Call::Rename, Call::SyncDir];
        let of_chain = [(Call::Write, "CHAIN", true), (Call::Sync, "CHAIN", true)];
        let of_file = calls.map(|call| match call {
            Call::SyncDir => (call, "wal", of_file),
            _ => (call, "new-", of_file),
        });
        for (call, on, is_told) in of_file.into_iter().chain(of_chain) {
            let fs = Arc::new(Faulty::new(disk()));
            let region = faulty(&fs, WalSync::Always).expect("open");
            let mut count = until_upkeep(&region);
            // Of what is written already nothing is in question.
            fs.set_rules(vec![Rule::new(1, failure).of(call).on(on)]);
            journal(&region).keep_up();
            assert_eq!(fs.struck(), 1, "{failure:?} of {call:?} on {on}");
            assert!(journal(&region).failure().is_none());
            let mut failed = false;
            for _ in 0..200 {
                let flight =
                    region.copy_nt(Site::Record, count % LINES * LINE as u64, &[count as u8; LINE]);
                failed = region.try_fence(flight).is_err();
                if failed {
                    break;
                }
                count += 1;
            }
            assert_eq!(failed, is_told, "{failure:?} of {call:?} on {on}");
            drop(region);
            fs.set_rules(Vec::new());
            let region = faulty(&fs, WalSync::Always).expect("open");
            assert_put(&region, count, "again");
        }
    }
}

/// Others may have the files of a log that was let go: what a thread is at ends before, and nothing is begun.
#[test]
fn nothing_is_made_once_a_log_is_let_go() {
    let stalls = Stalls::on(Call::SyncDir);
    let fs = Memory::watched(disk().disk(), Arc::clone(&stalls) as Arc<dyn Watch>);
    let region = reopen(&fs, WalSync::Always);
    let count = until_upkeep(&region);
    stalls.set(true);
    std::thread::scope(|scope| {
        scope.spawn(|| journal(&region).keep_up());
        stalls.wait_for_call();
        let let_go = scope.spawn(|| journal(&region).let_go());
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!let_go.is_finished(), "it waits for what is under way");
        stalls.set(false);
    });
    let others = reopen(&fs, WalSync::Always);
    (count..count + 500).for_each(|number| put(&others, number));
    drop(others);
    // One that has something to do when the log is let go.
    let region = reopen(&fs, WalSync::Always);
    assert_put(&region, count + 500, "again");
    until_upkeep(&region);
    journal(&region).let_go();
    let names = numbers(&fs);
    journal(&region).keep_up();
    assert_eq!(numbers(&fs), names);
}

/// A store that rests holds no file that is of no use, and one that is closed leaves none.
#[test]
fn files_that_do_not_count_go_soon() {
    for sync in [WalSync::Always, WalSync::Never] {
        let fs = disk();
        let region = reopen(&fs, sync);
        (0..3 * LINES).for_each(|number| put(&region, number));
        let before = bytes(&fs);
        // Nothing is needed of what is full then.
        region.discard(0, LINES * LINE as u64);
        let mut writes = 0;
        while bytes(&fs) > before / 4 {
            put(&region, writes);
            journal(&region).keep_up();
            writes += 1;
            assert!(writes < 60, "{sync:?}: {} of {before} bytes", bytes(&fs));
        }
        drop(region);
        assert_put(&reopen(&fs, sync), writes, "again");
    }
}

/// Opens that are refused after power failure, of a log that is written without syncs and has its next segment made ahead.
fn refused() -> usize {
    let fs = disk();
    let region = reopen(&fs, WalSync::Never);
    let mut refused = 0;
    for number in 0..200 {
        put(&region, number);
        journal(&region).keep_up();
        let disk = fs.disk();
        let survivors = disk.survivors(3, number).map(Memory::new);
        refused +=
            survivors.filter(|fs| open(setting(fs, WalSync::Never), || Ok(None)).is_err()).count();
    }
    refused
}

#[test]
fn power_failure_leaves_a_log_that_opens() {
    assert_eq!(refused(), 0);
    planted::plant(Some(Bug::WalNextNamedEarly));
    assert!(refused() > 0, "two segments have names and no first frame");
    planted::plant(None);
}
