//! Segments that are written by stores, since syncs are rare.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::LINE;
use base::planted::{self, Bug};
use base::random::Rng;
use pmem::{Region, Site};
use ssd::{Call, Disk, Failure, Faulty, Fs, Memory, Rule};

use super::{LINES, disk, reopen, setting};
use crate::options::WalSync;
use crate::wal::{LogOwner, Setting, most_bytes, open};

pub(super) fn put(region: &Region, number: u64) {
    let line = region.copy_nt(Site::Record, number % LINES * LINE as u64, &[number as u8; LINE]);
    drop(region.try_fence(line).expect("fence"));
}

pub(super) fn assert_put(region: &Region, count: u64, when: &str) {
    for number in count.saturating_sub(LINES)..count {
        let byte = region.bytes(number % LINES * LINE as u64, 1)[0];
        assert_eq!(byte, number as u8, "{when}: line {number} of {count}");
    }
}

/// As a close does.
fn close(region: Arc<Region>) {
    region.journal().expect("journaled").let_go();
}

/// The files of all segments that are there, and their lengths.
fn segments(fs: &Memory) -> Vec<(PathBuf, u64)> {
    let dir = Path::new("/wal");
    let names = fs.list(dir).expect("list");
    let paths = names.iter().filter(|name| name.ends_with(".wal")).map(|name| dir.join(name));
    paths.map(|path| (path.clone(), fs.open(&path).expect("open").len())).collect()
}

#[test]
fn a_log_that_is_hardly_used_takes_little() {
    let fs = disk();
    let owner = LogOwner { id: 7, region_len: 16 << 20 };
    let region = open(setting(&fs, WalSync::Never), || Ok(Some(owner))).expect("open");
    let region = region.expect("a region");
    // 112 bytes each.
    (0..140).for_each(|number| put(&region, number));
    assert!(segments(&fs)[0].1 <= 16 << 10);
    (140..150).for_each(|number| put(&region, number));
    assert_eq!(segments(&fs)[0].1, 256 << 10, "the first is meant for that");
}

#[test]
fn a_mapped_segment_is_no_longer_than_its_frames_in_the_end() {
    let fs = disk();
    let region = reopen(&fs, WalSync::Never);
    // The first is a quarter of what later ones are.
    let first = LINES * LINE as u64 / 16 / 4;
    (0..6).for_each(|number| put(&region, number));
    assert_eq!(segments(&fs)[0].1, first);
    (6..3000).for_each(|number| put(&region, number));
    let figures = region.journal().expect("journaled").figures();
    assert_eq!(figures.zeroed_bytes, 0, "no zeros for the sake of syncs");
    assert!(figures.recycled > 3, "files of old segments are used again");
    let all = segments(&fs);
    let longest = all.last().expect("segments").1;
    assert_eq!(longest, 4 * first);
    assert!(all.iter().all(|(_, len)| *len <= longest), "{all:?}");
    close(region);
    assert_put(&reopen(&fs, WalSync::Never), 3000, "again");
    // A new file, not one of an old segment.
    let region = reopen(&fs, WalSync::Never);
    (0..6).for_each(|number| put(&region, 3000 + number));
    assert_eq!(segments(&fs).last().expect("segments").1, longest);
    close(region);
    let (newest, len) = segments(&fs).pop().expect("segments");
    assert!(len < longest, "{newest:?} is cut to its frames, {len}");
    assert_put(&reopen(&fs, WalSync::Never), 3006, "in the end");
}

/// What a close leaves, and what a killed process leaves, is all that was written; power failure leaves all that was synced.
#[test]
fn what_was_written_is_there() {
    for wal_sync in [WalSync::Never, WalSync::Interval(std::time::Duration::from_secs(3600))] {
        let (mut fs, mut count) = (disk(), 0);
        for round in 0..40 {
            let region = reopen(&fs, wal_sync);
            assert_put(&region, count, &format!("{wal_sync:?}, round {round}"));
            for _ in 0..round * 7 {
                put(&region, count);
                count += 1;
            }
            match round % 3 {
                // Closed.
                0 => close(region),
                // Killed.
                1 => fs = Memory::new(fs.disk()),
                // Without power, after a sync.
                _ => {
                    region.journal().expect("journaled").sync().expect("sync");
                    let lost: Disk = fs.disk().survivors(1, round).next().expect("one");
                    fs = Memory::new(lost);
                }
            }
        }
    }
}

#[test]
fn a_segment_that_is_cut_too_short_is_noticed() {
    let fs = disk();
    let region = reopen(&fs, WalSync::Never);
    (0..40).for_each(|number| put(&region, number));
    planted::plant(Some(Bug::WalCutTooShort));
    close(region);
    planted::plant(None);
    let region = reopen(&fs, WalSync::Never);
    let lost = |number: &u64| region.bytes(number * LINE as u64, 1)[0] != *number as u8;
    assert!((0..40).any(|number| lost(&number)));
}

/// A handle that was closed may be kept for long. Others have the files then.
#[test]
fn a_closed_log_leaves_the_files_alone() {
    let fs = disk();
    let closed = reopen(&fs, WalSync::Never);
    (0..40).for_each(|number| put(&closed, number));
    closed.journal().expect("journaled").let_go();
    let region = reopen(&fs, WalSync::Never);
    (0..3000).for_each(|number| put(&region, number));
    let before = segments(&fs);
    drop(closed);
    assert_eq!(segments(&fs), before);
    (3000..4000).for_each(|number| put(&region, number));
    close(region);
    assert_put(&reopen(&fs, WalSync::Never), 4000, "again");
}

/// The file system may refuse to map any file, or each other one.
#[test]
fn a_log_that_cannot_be_mapped_goes_on() {
    for refused in [1, 2] {
        let fs = Arc::new(Faulty::new(disk()));
        let open = || {
            let fs = Arc::clone(&fs) as Arc<dyn Fs>;
            let setting = Setting { fs, ..setting(&disk(), WalSync::Never) };
            let owner = LogOwner { id: 7, region_len: LINES * LINE as u64 };
            open(setting, || Ok(Some(owner))).expect("open").expect("a region")
        };
        let rule = Rule::new(1, Failure::Quota).of(Call::Map);
        let rule = if refused == 1 { rule.for_ever() } else { rule };
        let region = open();
        for number in 0..3000 {
            if number % 50 == 0 {
                fs.set_rules(vec![rule.clone()]);
            }
            put(&region, number);
        }
        close(region);
        assert_put(&open(), 3000, "again");
    }
}

/// The log of a region whose segments are longer than a sixteenth of it keeps to its bound.
#[test]
fn long_segments_keep_the_log_within_its_bound() {
    for wal_sync in [WalSync::Always, WalSync::Never] {
        keeps_within_its_bound(wal_sync, 24 << 20);
        keeps_within_its_bound(wal_sync, 32 << 20);
    }
}

fn keeps_within_its_bound(wal_sync: WalSync, region_len: u64) {
    let (fs, mut random) = (disk(), Rng::new(5));
    let owner = LogOwner { id: 7, region_len };
    let region = open(setting(&fs, wal_sync), || Ok(Some(owner))).expect("open");
    let region = region.expect("a region");
    let len = 64_u64 << 10;
    let block = vec![1; len as usize];
    let mut longest = 0;
    // All of it counts, so that cleaning has most to do.
    for turn in 0..3 * region_len / len {
        let at = match turn < region_len / len {
            true => turn * len,
            false => random.below(region_len / len) * len,
        };
        let flight = region.copy_nt(Site::Record, at, &block);
        drop(region.try_fence(flight).expect("fence"));
        let figures = region.journal().expect("journaled").figures();
        longest = longest.max(figures.bytes);
    }
    let longest_segment = segments(&fs).iter().map(|(_, len)| *len).max();
    assert!(longest_segment > Some(15 << 19), "{longest_segment:?}");
    let most = most_bytes(region_len);
    assert!(longest > region_len && longest <= most, "{wal_sync:?}: {longest}, {most}");
}

/// A device that is nearly full has its room for the log itself.
#[test]
fn a_log_without_room_to_map_goes_on() {
    let fs = Memory::with_capacity(disk().disk(), 3 * LINES * LINE as u64 / 16);
    let region = reopen(&fs, WalSync::Never);
    (0..20).for_each(|number| put(&region, number));
    assert!(segments(&fs).iter().all(|(_, len)| *len < 20 * 200));
    assert_put(&region, 20, "without room");
}
