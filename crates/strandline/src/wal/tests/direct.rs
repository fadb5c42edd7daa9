//! Segments that are written past the page cache, in whole blocks.

use std::path::Path;
use std::sync::Arc;

use base::LINE;
use base::planted::{self, Bug};
use base::random::Rng;
use pmem::{Region, Site};
use ssd::{Call, Disk, Failure, Faulty, Fs, Memory, Rule};

use super::{LINES, Lines, assert_same, change, disk, reopen, setting};
use crate::options::{WalIo, WalSync};
use crate::wal::{LogMode, LogOwner, Setting, most_bytes, open};

const DIRECT: LogMode = LogMode { sync: WalSync::Always, io: WalIo::Direct };

fn owner() -> LogOwner {
    LogOwner { id: 7, region_len: LINES * LINE as u64 }
}

fn reopen_on(fs: Arc<dyn Fs>) -> base::Result<Arc<Region>> {
    let with = Setting { fs, mode: DIRECT, ..setting(&Memory::default(), WalSync::Always) };
    open(with, || Ok(Some(owner()))).map(|region| region.expect("a region"))
}

fn reopen_direct(fs: &Memory) -> Arc<Region> {
    reopen_on(Arc::new(fs.clone())).expect("open")
}

/// Blocks of all sizes, from ones that a frame fills to one that is longer than the log's segments; and power failures.
#[test]
fn a_region_comes_back_as_it_was_fenced() {
    for (seed, sector) in (0..12).zip([2, 16, 64, 512].into_iter().cycle()) {
        let mut fs = Memory::new(Disk::new(sector));
        fs.create_dir_all(Path::new("/wal")).expect("directory");
        fs.sync_dir(Path::new("/")).expect("sync");
        let (mut random, mut lines, mut number) = (Rng::new(seed), Lines::new(), 0);
        let mut direct = 0;
        for round in 0..20 {
            let region = reopen_direct(&fs);
            let when = format!("sectors of {sector}, seed {seed}, round {round}");
            assert_same(&region, &lines, &when);
            for _ in 0..random.below(300) {
                number += 1;
                change(&region, &mut lines, &mut random, number);
            }
            let figures = region.journal().expect("journaled").figures();
            direct += figures.direct;
            // Files end with a block of eight sectors, those that are kept, too.
            let most = most_bytes(region.len()) + (figures.segments + 3) * 8 * sector as u64;
            assert!(figures.bytes <= most, "{when}: {figures:?}");
            let at = fs.disk();
            let survivors: Vec<Disk> = at.survivors(8, random.below(1000)).collect();
            let chosen = random.below(survivors.len() as u64) as usize;
            fs = Memory::new(survivors[chosen].clone());
        }
        assert_same(&reopen(&fs, WalSync::Always), &lines, "the other way at the end");
        assert!(direct > 20, "{direct}");
    }
}

fn put(region: &Region, number: u64) -> bool {
    let line = region.copy_nt(Site::Record, number % LINES * LINE as u64, &[number as u8; LINE]);
    region.try_fence(line).is_ok()
}

/// Of a file system without it, or one whose answer to the first attempt is an error.
#[test]
fn where_the_page_cache_cannot_be_passed_by_it_is_used() {
    let fs = Arc::new(Faulty::new(disk()));
    fs.set_rules(vec![Rule::new(1, Failure::Unsupported).of(Call::Bypass)]);
    let region = reopen_on(Arc::clone(&fs) as Arc<dyn Fs>).expect("open");
    assert!((0..500).all(|number| put(&region, number)));
    assert_eq!(region.journal().expect("journaled").figures().direct, 0);
    assert_eq!(fs.calls(Call::Bypass), 1, "it is asked once");

    let fs = Arc::new(Faulty::new(disk()));
    fs.set_rules(vec![Rule::new(1, Failure::Io).of(Call::Bypass)]);
    let region = reopen_on(Arc::clone(&fs) as Arc<dyn Fs>).expect("open");
    let put_before = (0..500).take_while(|number| put(&region, *number)).count() as u64;
    assert!(put_before < 500);
    assert!(region.journal().expect("journaled").failure().is_some());
    let region = reopen_direct(fs.inner());
    for number in 0..put_before {
        assert_eq!(region.bytes(number * LINE as u64, 1)[0], number as u8);
    }
}

/// Any call that writes or syncs may fail, once or from then on.
#[test]
fn what_was_acknowledged_outlives_any_failure() {
    for at in 1..400 {
        let fs = Arc::new(Faulty::new(disk()));
        let call = [Call::Write, Call::Sync][at % 2];
        let failure = [Failure::Io, Failure::NoSpace, Failure::Short][at % 3];
        fs.set_rules(vec![Rule::new(at as u64, failure).of(call)]);
        let Ok(region) = reopen_on(Arc::clone(&fs) as Arc<dyn Fs>) else { continue };
        let count = (0..250).take_while(|number| put(&region, *number)).count() as u64;
        for survivor in fs.inner().disk().survivors(4, at as u64) {
            let region = reopen_direct(&Memory::new(survivor));
            for number in 0..count {
                let byte = region.bytes(number * LINE as u64, 1)[0];
                assert_eq!(byte, number as u8, "{call:?} {at} fails as {failure:?}");
            }
        }
    }
}

#[test]
fn planted_bugs_lose_what_was_acknowledged() {
    for bug in [None, Some(Bug::WalDirectUnsynced), Some(Bug::WalBlockForgotten)] {
        let fs = disk();
        let region = reopen_direct(&fs);
        planted::plant(bug);
        assert!((0..100).all(|number| put(&region, number)));
        planted::plant(None);
        assert!(region.journal().expect("journaled").figures().direct > 0);
        let is_whole = |disk| {
            let fs = Memory::new(disk);
            let Ok(region) = reopen_on(Arc::new(fs)) else { return false };
            (0..100).all(|number| region.bytes(number * LINE as u64, 1)[0] == number as u8)
        };
        assert_eq!(fs.disk().survivors(20, 1).all(is_whole), bug.is_none(), "{bug:?}");
    }
}

/// By itself the log tries both, and keeps to what it has as long as neither is clearly better.
#[test]
fn ways_change_from_segment_to_segment() {
    let auto = LogMode { sync: WalSync::Always, io: WalIo::Auto };
    let fs = disk();
    let open_it = || {
        let with = Setting { mode: auto, ..setting(&fs, WalSync::Always) };
        open(with, || Ok(Some(owner()))).expect("open").expect("a region")
    };
    let region = open_it();
    assert!((0..8000).all(|number| put(&region, number)));
    let figures = region.journal().expect("journaled").figures();
    assert!(figures.direct > 0, "{figures:?}");
    let region = open_it();
    for number in 8000 - LINES..8000 {
        assert_eq!(region.bytes(number % LINES * LINE as u64, 1)[0], number as u8);
    }
}
