//! The log by itself: a region that is written at random, opened again and again, and held against plain memory.

mod direct;
mod files;
mod interval;
mod mapped;
mod upkeep;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use base::LINE;
use base::random::Rng;
use pmem::{Region, Site};
use ssd::{Disk, Fs, Memory};

use crate::options::{WalIo, WalSync};
use crate::wal::{LogMedium, LogMode, LogOwner, Setting, most_bytes, open, read, segment};

const LINES: u64 = 1024;

fn setting(fs: &Memory, sync: WalSync) -> Setting {
    Setting {
        fs: Arc::new(fs.clone()),
        dir: "/wal".into(),
        medium: LogMedium::Device,
        mode: LogMode { sync, io: WalIo::Cached },
        memory: None,
        entropy: 0,
        accepts: |_| Ok(()),
        lock: None,
    }
}

fn disk() -> Memory {
    let fs = Memory::new(Disk::new(512));
    fs.create_dir_all(Path::new("/wal")).expect("directory");
    fs.sync_dir(Path::new("/")).expect("sync");
    fs
}

fn reopen(fs: &Memory, sync: WalSync) -> Arc<Region> {
    let fresh = || Ok(Some(LogOwner { id: 7, region_len: LINES * LINE as u64 }));
    open(setting(fs, sync), fresh).expect("open").expect("a region")
}

/// Numbers of the segments, oldest first.
fn numbers(fs: &Memory) -> Vec<u64> {
    let names = fs.list(Path::new("/wal")).expect("list");
    names.iter().filter_map(|name| segment::number(name)).collect()
}

/// What each line holds, as a number; none if it was discarded.
type Lines = BTreeMap<u64, Option<u64>>;

fn assert_same(region: &Region, lines: &Lines, when: &str) {
    for (line, content) in lines {
        let found = region.bytes(line * LINE as u64, LINE);
        if let Some(content) = content {
            assert_eq!(found, content.to_le_bytes().repeat(8), "{when}: line {line}");
        }
    }
}

/// Writes, some to few lines again and again, and discards; each fenced.
fn change(region: &Region, lines: &mut Lines, random: &mut Rng, number: u64) {
    if random.below(6) == 0 {
        let (start, len) = (16 + random.below(LINES - 48), 1 + random.below(32));
        region.discard(start * LINE as u64, len * LINE as u64);
        lines.extend((start..start + len).map(|line| (line, None)));
        return;
    }
    let mut flight = region.nothing_in_flight(Site::Record);
    for _ in 0..1 + random.below(3) {
        let (start, len) = match random.below(3) {
            0 => (random.below(16), 1),
            1 => (random.below(64), 1 + random.below(4)),
            _ => (random.below(LINES - 32), 1 + random.below(32)),
        };
        for line in start..start + len {
            let bytes = number.to_le_bytes().repeat(8);
            let at = line * LINE as u64;
            flight.join(match random.below(2) {
                0 => region.copy_nt(Site::Record, at, &bytes),
                _ => region.flush(region.copy(Site::Record, at, &bytes)),
            });
            lines.insert(line, Some(number));
        }
    }
    let _durable = region.try_fence(flight).expect("fence");
}

#[test]
fn a_region_comes_back_as_it_was_fenced() {
    for (seed, sync) in (0..12).zip([WalSync::Always, WalSync::Never].into_iter().cycle()) {
        let (mut random, mut lines, mut fs) = (Rng::new(seed), Lines::new(), disk());
        let mut number = 0;
        for round in 0..30 {
            let region = reopen(&fs, sync);
            let when = format!("seed {seed}, round {round}");
            assert_same(&region, &lines, &when);
            for _ in 0..random.below(300) {
                number += 1;
                change(&region, &mut lines, &mut random, number);
                if random.below(8) == 0 {
                    // A thread that comes by now and then.
                    region.journal().expect("journaled").keep_up();
                }
            }
            let figures = region.journal().expect("journaled").figures();
            let most = most_bytes(region.len());
            assert!(figures.bytes <= most, "{when}: {figures:?}");
            let at = fs.disk();
            let reading = read(setting(&Memory::new(at.clone()), sync)).expect("read");
            let (reader, lost) = reading.expect("a log");
            assert_same(&reader, &lines, &when);
            assert_eq!(lost, [], "{when}");
            if sync == WalSync::Always && random.below(3) == 0 {
                // Power fails, in one of the ways that it may.
                let survivors: Vec<Disk> = at.survivors(8, random.below(1000)).collect();
                let chosen = random.below(survivors.len() as u64) as usize;
                fs = Memory::new(survivors[chosen].clone());
            }
        }
        let region = reopen(&fs, sync);
        assert_same(&region, &lines, "at the end");
    }
}

#[test]
fn a_fence_covers_its_own_thread_only() {
    let fs = disk();
    let region = reopen(&fs, WalSync::Always);
    let own = region.copy_nt(Site::Record, 0, &[1; LINE]);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let flight = region.copy_nt(Site::Record, 640, &[2; LINE]);
            drop(region.try_fence(flight).expect("fence"));
        });
        other.join().expect("the other");
    });
    let again = |at: u64| reopen(&Memory::new(fs.disk()), WalSync::Always).bytes(at, 1)[0];
    assert_eq!((again(0), again(640)), (0, 2));
    drop(region.try_fence(own).expect("fence"));
    assert_eq!((again(0), again(640)), (1, 2));
}

#[test]
fn regions_of_one_thread_are_told_apart() {
    let (one, other) = (disk(), disk());
    let regions = [&one, &other].map(|fs| reopen(fs, WalSync::Always));
    let first = regions[0].copy_nt(Site::Record, 0, &[1; LINE]);
    let second = regions[1].copy_nt(Site::Record, 64, &[2; LINE]);
    drop(regions[1].try_fence(second).expect("fence"));
    let again =
        |fs: &Memory| reopen(&Memory::new(fs.disk()), WalSync::Always).bytes(0, 128).to_vec();
    assert_eq!(again(&one), [0; 128]);
    assert_eq!(again(&other), [[0; 64], [2; 64]].concat());
    drop(regions[0].try_fence(first).expect("fence"));
    assert_eq!(again(&one), [[1; 64], [0; 64]].concat());
}
