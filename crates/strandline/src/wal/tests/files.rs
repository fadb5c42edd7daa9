//! The files of a log: what they are made of, what of them may be missing, and those of version 1.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use base::planted::{self, Bug};
use base::{ErrorKind, LINE};
use pmem::{JournalFigures, Region, Site};
use ssd::{Call, Device, Disk, Failure, Faulty, Fs, Heed, Memory, Metered, Rule, Watch};

use super::{LINES, disk, numbers, reopen, setting};
use crate::options::{WalIo, WalSync};
use crate::wal::frame::{self, Begin, Binding};
use crate::wal::segment::{HEADER_LEN, SegmentHeader, encode_version_1};
use crate::wal::{
    CHAIN, LogMedium, LogMode, LogOwner, Setting, most_bytes, open, read, segment_path,
};

const DIR: &str = "/wal";
/// A frame with one line.
const FRAME_LEN: usize = 32 + 16 + LINE;

fn path(number: u64) -> PathBuf {
    segment_path(Path::new(DIR), number)
}

fn bytes(fs: &Memory, path: &Path) -> Vec<u8> {
    let file = fs.open(path).expect("there");
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes).expect("read");
    bytes
}

fn put(fs: &Memory, path: &Path, bytes: &[u8]) {
    if fs.exists(path).expect("look") {
        fs.remove(path).expect("removed");
    }
    let mut file = fs.create(path).expect("created");
    file.append(bytes).and_then(|()| file.sync()).expect("written");
    fs.sync_dir(Path::new(DIR)).expect("synced");
}

fn change(fs: &Memory, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut all = bytes(fs, path);
    change(&mut all);
    put(fs, path, &all);
}

/// Writes a line and fences it.
fn line(region: &Region, number: u64, value: u8) {
    let flight = region.copy_nt(Site::Record, number % LINES * LINE as u64, &[value; LINE]);
    drop(region.try_fence(flight).expect("fence"));
}

fn value(region: &Region, number: u64) -> u8 {
    region.bytes(number * LINE as u64, 1)[0]
}

fn figures(region: &Region) -> JournalFigures {
    region.journal().expect("journaled").figures()
}

/// Lines 0 to `count` have a value each.
fn filled(fs: &Memory, sync: WalSync, count: u64) -> Arc<Region> {
    let region = reopen(fs, sync);
    (0..count).for_each(|number| line(&region, number, number as u8 + 1));
    region
}

fn assert_filled(region: &Region, count: u64, when: &str) {
    for number in 0..count {
        assert_eq!(value(region, number), number as u8 + 1, "{when}: line {number}");
    }
}

/// An open for writing is refused, and names this file; one for reading tells of it.
fn assert_damaged(fs: &Memory, file: &Path, when: &str) {
    let refused = open(setting(fs, WalSync::Always), || Ok(None)).expect_err(when);
    assert_eq!(refused.kind(), ErrorKind::Corruption, "{when}: {refused}");
    assert!(refused.context().contains(&file.display().to_string()), "{when}: {refused}");
    let (_, lost) = read(setting(fs, WalSync::Always)).expect(when).expect("a log");
    assert!(lost.iter().any(|lost| lost.file == file), "{when}: {lost:?}");
}

#[test]
fn the_loss_of_the_newest_segment_is_noticed() {
    let fs = disk();
    drop(filled(&fs, WalSync::Always, 60));
    let newest = numbers(&fs).pop().expect("segments");
    let (file, chain) = (path(newest), Path::new(DIR).join(CHAIN));
    let good = bytes(&fs, &file);
    fs.remove(&file).expect("removed");
    assert_damaged(&fs, &file, "gone");
    // Of this number, but of another time.
    let mut other = good.clone();
    let head = &good[..HEADER_LEN as usize];
    let word = |at: usize| u64::from_le_bytes(head[at * 8..at * 8 + 8].try_into().expect("eight"));
    let header = SegmentHeader {
        store: word(2),
        number: newest,
        region_len: word(4),
        salt: word(5) ^ 1,
        len: word(6),
    };
    other[..HEADER_LEN as usize].copy_from_slice(&header.encode());
    put(&fs, &file, &other);
    assert_damaged(&fs, &file, "another");
    put(&fs, &file, &good[..good.len() - 1]);
    assert_damaged(&fs, &file, "short");
    put(&fs, &file, &good);
    let named = bytes(&fs, &chain);
    fs.remove(&chain).expect("removed");
    assert_damaged(&fs, &chain, "nothing names it");
    put(&fs, &chain, &vec![0; named.len()]);
    assert_damaged(&fs, &chain, "neither slot");
    for slot in [0, 4096] {
        put(&fs, &chain, &named);
        change(&fs, &chain, |bytes| bytes[slot + 9] ^= 4);
        let other = Memory::new(fs.disk());
        assert_filled(&reopen(&other, WalSync::Always), 60, "one slot");
        assert_filled(&reopen(&other, WalSync::Always), 60, "one slot, again");
    }
    put(&fs, &chain, &named);
    assert_filled(&reopen(&fs, WalSync::Always), 60, "as it was");
}

/// All that there is may be gone, too.
#[test]
fn a_log_whose_only_segment_is_gone_is_not_made_anew() {
    let fs = disk();
    drop(filled(&fs, WalSync::Always, 3));
    fs.remove(&path(1)).expect("removed");
    let owner = LogOwner { id: 7, region_len: 4096 };
    let refused = open(setting(&fs, WalSync::Always), || Ok(Some(owner))).expect_err("refused");
    assert_eq!(refused.kind(), ErrorKind::Corruption, "{refused}");
    assert!(refused.context().contains("0000000001.wal"), "{refused}");
    let chain = Path::new(DIR).join(CHAIN);
    change(&fs, &chain, |bytes| bytes.fill(0));
    let refused = open(setting(&fs, WalSync::Always), || Ok(Some(owner))).expect_err("refused");
    assert_eq!(refused.kind(), ErrorKind::Corruption, "{refused}");
    assert!(refused.context().contains(&chain.display().to_string()), "{refused}");
}

/// The first frames of a segment were not synced, and power took the very first: what is left of the others does not count, also
/// when the segment is made anew in the same file and grows up to them.
#[test]
fn frames_of_an_attempt_that_power_cut_off_do_not_count() {
    assert_eq!(unknown_lines(), 0);
    planted::plant(Some(Bug::WalSaltConstant));
    assert!(unknown_lines() > 0, "frames are told apart by the salt");
    planted::plant(None);
}

/// Lines that come back though no caller was told that they were written.
fn unknown_lines() -> usize {
    let (fs, mut back) = (disk(), 0);
    let region = reopen(&fs, WalSync::Never);
    let mut before = 0;
    while numbers(&fs) == [1] {
        line(&region, before, before as u8 + 1);
        before += 1;
    }
    // The last of them begins segment 2; as many as segment 1 has follow, and some more.
    before -= 1;
    (before + 1..2 * before + 4).for_each(|number| line(&region, number, number as u8 + 1));
    drop(region);
    assert_eq!(numbers(&fs), [1, 2]);
    change(&fs, &path(2), |bytes| {
        let start = HEADER_LEN as usize;
        bytes[start..start + frame::BEGIN_LEN + before as usize * FRAME_LEN].fill(0);
    });
    for round in 0..3 {
        let region = reopen(&fs, WalSync::Never);
        assert_eq!(figures(&region).recycled, u64::from(round == 0), "the same file");
        assert_filled(&region, before, "round");
        back += (before..2 * before + 4).filter(|number| value(&region, *number) != 0).count();
    }
    back
}

/// How the newest segment begins is not synced when an open takes all of it from there, and the next segment relies on it.
#[test]
fn an_open_keeps_how_the_newest_segment_begins() {
    let fs = disk();
    let region = reopen(&fs, WalSync::Never);
    let mut count = 0;
    while numbers(&fs).len() < 3 {
        line(&region, count, count as u8 + 1);
        count += 1;
    }
    drop(region);
    // Killed, and opened; then power fails.
    drop(reopen(&fs, WalSync::Never));
    for (number, survivor) in fs.disk().survivors(40, 3).enumerate() {
        let region = reopen(&Memory::new(survivor), WalSync::Never);
        assert_filled(&region, count, &format!("survivor {number}"));
    }
}

/// Two segments, as version 1 wrote them: each begins as its header says.
fn write_version_1(fs: &Memory) {
    let header = |number| SegmentHeader {
        store: 7,
        number,
        region_len: LINES * LINE as u64,
        salt: 0,
        len: 0,
    };
    let mut previous = 0;
    for number in 1..=2_u64 {
        let mut segment = encode_version_1(&header(number), Begin { previous, first: 1 }).to_vec();
        for at in 0..10 {
            let (mut one, line) = (Vec::new(), (number - 1) * 10 + at);
            frame::encode(&mut one, &[(line * LINE as u64, &[line as u8 + 1; LINE])]);
            let place = segment.len() as u64;
            frame::seal(&mut one, Binding::unsalted(7, number), place, place);
            segment.extend(one);
        }
        previous = segment.len() as u64;
        put(fs, &path(number), &segment);
    }
}

#[test]
fn a_log_of_version_1_is_gone_on_with() {
    let fs = disk();
    write_version_1(&fs);
    let (reader, lost) = read(setting(&fs, WalSync::Always)).expect("read").expect("a log");
    assert_filled(&reader, 20, "read");
    assert_eq!(lost, []);
    for round in 0..3 {
        let region = reopen(&fs, WalSync::Always);
        assert_filled(&region, 20 + round, "opened");
        line(&region, 20 + round, 20 + round as u8 + 1);
    }
    // The whole log turns over, and no segment of version 1 is left.
    let region = reopen(&fs, WalSync::Always);
    (0..3000).for_each(|number| line(&region, 100 + number % 900, number as u8));
    assert_filled(&region, 23, "much later");
    assert!(numbers(&fs)[0] > 2, "{:?}", numbers(&fs));
    drop(region);
    assert_filled(&reopen(&fs, WalSync::Always), 23, "and again");
}

/// Power fails at any moment of the open that goes on with a log of version 1.
#[test]
fn a_log_of_version_1_survives_power_failure_of_its_first_open() {
    let fs = disk();
    write_version_1(&fs);
    let moments = Arc::new(Moments::default());
    let watched = Memory::watched(fs.disk(), Arc::clone(&moments) as Arc<dyn Watch>);
    drop(reopen(&watched, WalSync::Always));
    let disks = std::mem::take(&mut *moments.disks.lock().expect("alone"));
    assert!(disks.len() > 8, "{} calls", disks.len());
    for (call, disk) in disks.iter().enumerate() {
        for survivor in disk.survivors(12, 1) {
            let region = reopen(&Memory::new(survivor), WalSync::Always);
            assert_filled(&region, 20, &format!("call {call}"));
        }
    }
}

/// Counts what is made, and keeps the disk behind each call.
#[derive(Default)]
struct Moments {
    created: AtomicU64,
    disks: std::sync::Mutex<Vec<Disk>>,
}

impl Watch for Moments {
    fn before(&self, call: Call, path: &Path) -> Heed {
        let is_segment = path.to_string_lossy().ends_with(".wal");
        self.created.fetch_add(u64::from(call == Call::Create && is_segment), Relaxed);
        Heed::Whole
    }

    fn changed(&self, _: Call, _: &Path, disk: &Disk) {
        self.disks.lock().expect("alone").push(disk.clone());
    }
}

#[test]
fn files_of_old_segments_are_used_again() {
    let moments = Arc::new(Moments::default());
    let fs = Memory::watched(disk().disk(), Arc::clone(&moments) as Arc<dyn Watch>);
    let region = reopen(&fs, WalSync::Always);
    let turn_over = |rounds: u64| {
        for number in 0..rounds {
            line(&region, number % 64, number as u8);
            moments.disks.lock().expect("alone").clear();
        }
    };
    turn_over(4 * LINES);
    let (made, before) = (moments.created.load(Relaxed), figures(&region));
    assert!(before.recycled > 0 && made >= 4, "{made} files, {before:?}");
    turn_over(8 * LINES);
    let after = figures(&region);
    assert!(after.recycled > before.recycled + 100, "{after:?}");
    assert_eq!(moments.created.load(Relaxed), made, "no file is made any more");
    let most = most_bytes(region.len());
    assert!(after.bytes <= most, "{after:?}");
    let names = fs.list(Path::new(DIR)).expect("list");
    assert!(names.len() as u64 <= after.segments + 3, "{names:?}");
}

/// Little counts of each segment that is to go: no more is read than the parts that have it.
#[test]
fn cleaning_reads_what_counts_and_little_else() {
    const BLOCK: u64 = 32 << 10;
    const OVERWRITTEN: u64 = 2 << 20;
    let (fs, device) = (disk(), Arc::new(Device::new(None)));
    let metered = Arc::new(Metered::new(Arc::new(fs.clone()), Arc::clone(&device)));
    let setting = || Setting { fs: Arc::clone(&metered) as _, ..setting(&fs, WalSync::Never) };
    let owner = LogOwner { id: 7, region_len: 24 << 20 };
    let region = open(setting(), || Ok(Some(owner))).expect("open").expect("a region");
    let put = |at: u64, bytes: &[u8]| {
        let flight = region.copy_nt(Site::Record, at, bytes);
        drop(region.try_fence(flight).expect("fence"));
    };
    let kept = |no: u64| OVERWRITTEN + no * 4096;
    let blocks = 6 * owner.region_len / BLOCK;
    for no in 0..blocks {
        put(no * BLOCK % OVERWRITTEN, &vec![no as u8; BLOCK as usize]);
        if no % 64 == 0 {
            put(kept(no / 64), &[no as u8 / 2 + 1; LINE]);
        }
    }
    let figures = figures(&region);
    assert!(figures.recycled >= 10 && figures.kept_bytes > 0, "{figures:?}");
    let read = device.figures().read_bytes;
    assert!(read > 0 && read < figures.written_bytes / 8, "{read} bytes read: {figures:?}");
    drop(region);
    let region = open(setting(), || Ok(None)).expect("open").expect("a region");
    for no in 0..blocks.div_ceil(64) {
        assert_eq!(region.bytes(kept(no), 1)[0], (64 * no) as u8 / 2 + 1, "line {no}");
    }
}

#[test]
fn many_opens_leave_little() {
    let fs = disk();
    for round in 0..100 {
        let region = reopen(&fs, WalSync::Always);
        line(&region, round, 1);
    }
    let len = |number: &u64| fs.open(&path(*number)).expect("there").len();
    let bytes: u64 = numbers(&fs).iter().map(len).sum();
    assert!(bytes < 100 * 400 + 4096, "{bytes} bytes in {:?}", numbers(&fs));
    // An open has each of them open.
    assert!(numbers(&fs).len() < 50, "{:?}", numbers(&fs));
}

/// The oldest segments are long and in use, so that no open gets through one by the way.
#[test]
fn many_opens_of_a_store_with_data_leave_few_segments() {
    let fs = disk();
    let region = reopen(&fs, WalSync::Never);
    (0..LINES).for_each(|number| line(&region, number, number as u8));
    drop(region);
    for _ in 0..500 {
        drop(reopen(&fs, WalSync::Never));
        assert!(numbers(&fs).len() < 80, "{:?}", numbers(&fs));
    }
    let region = reopen(&fs, WalSync::Never);
    (0..LINES).for_each(|number| assert_eq!(value(&region, number), number as u8));
}

/// The same, where an open cleans more than a segment has room for, and each store that is opened is written to.
#[test]
fn opens_that_clean_and_write_lose_nothing() {
    let fs = disk();
    let region = reopen(&fs, WalSync::Never);
    let mut newest: Vec<u8> = (0..LINES).map(|number| number as u8).collect();
    (0..LINES).for_each(|number| line(&region, number, number as u8));
    drop(region);
    for round in 0..300 {
        let region = reopen(&fs, WalSync::Never);
        for number in 3 * round..3 * round + 3 {
            let number = number * 7 % LINES;
            newest[number as usize] = round as u8;
            line(&region, number, round as u8);
        }
        for number in 0..LINES {
            assert_eq!(value(&region, number), newest[number as usize], "round {round}, {number}");
        }
        assert!(numbers(&fs).len() < 80, "{:?}", numbers(&fs));
    }
}

/// An open that is killed leaves the next one segments as long as before.
#[test]
fn segments_stay_long_after_a_kill() {
    let fs = disk();
    let region = reopen(&fs, WalSync::Always);
    (0..4 * LINES).for_each(|number| line(&region, number % 64, number as u8));
    drop(region);
    let planned = |fs: &Memory| {
        let header = bytes(fs, &path(numbers(fs).pop().expect("segments")));
        u64::from_le_bytes(header[48..56].try_into().expect("eight"))
    };
    let before = planned(&fs);
    assert_eq!(before, LINES * LINE as u64 / 16, "the longest");
    for (call, killed) in moments_of_open(fs.disk()).into_iter().enumerate() {
        let fs = Memory::new(killed);
        drop(reopen(&fs, WalSync::Always));
        assert_eq!(planned(&fs), before, "call {call}");
    }
}

/// Each fence takes a file of its own, and little more than half of it.
#[test]
fn files_that_are_half_full_keep_the_log_within_its_bound() {
    let fs = disk();
    let region = reopen(&fs, WalSync::Never);
    let most = most_bytes(region.len());
    for round in 0..2000_u64 {
        let mut flight = region.copy_nt(Site::Record, 0, &[round as u8; 32 * LINE]);
        let new = 64 + round * 3 % 900;
        flight.join(region.copy_nt(Site::Record, new * LINE as u64, &[round as u8; 3 * LINE]));
        drop(region.try_fence(flight).expect("fence"));
        let figures = figures(&region);
        assert!(figures.bytes <= most, "round {round}: {figures:?}");
    }
    drop(region);
    let region = reopen(&fs, WalSync::Never);
    for round in 1700..2000_u64 {
        assert_eq!(value(&region, 64 + round * 3 % 900), round as u8);
    }
}

/// Files of old segments are kept for their blocks: what becomes of their bytes is all the same.
#[test]
fn damage_to_a_file_that_does_not_count_is_no_damage() {
    let fs = disk();
    let region = reopen(&fs, WalSync::Always);
    for number in 0..8 * LINES {
        line(&region, number % 64, number as u8);
    }
    (0..64).for_each(|number| line(&region, number, number as u8 + 1));
    drop(region);
    let (mut spared, mut refused) = (0, 0);
    for number in numbers(&fs) {
        let fs = Memory::new(fs.disk());
        change(&fs, &path(number), |bytes| bytes[17] ^= 8);
        match open(setting(&fs, WalSync::Always), || Ok(None)) {
            Ok(region) => {
                assert_filled(&region.expect("a log"), 64, "a spare");
                assert!(!numbers(&fs).contains(&number), "it goes");
                assert_filled(&reopen(&fs, WalSync::Always), 64, "again");
                spared += 1;
            }
            Err(_) => {
                assert_damaged(&fs, &path(number), "a segment");
                refused += 1;
            }
        }
    }
    assert!(spared > 0 && refused > 0, "{spared} {refused}");
    // Nor does it matter that one cannot be read at all.
    let mut opened = 0;
    for number in numbers(&fs) {
        let faulty = Arc::new(Faulty::new(Memory::new(fs.disk())));
        let name = path(number).display().to_string();
        faulty.set_rules(vec![Rule::new(1, Failure::Io).of(Call::Read).on(&name).for_ever()]);
        let fs = Arc::clone(&faulty) as Arc<dyn Fs>;
        let region =
            open(Setting { fs, ..setting(&Memory::default(), WalSync::Always) }, || Ok(None));
        if let Ok(region) = region {
            assert_filled(&region.expect("a log"), 64, "an unreadable spare");
            opened += 1;
        }
    }
    assert_eq!(opened, spared);
}

/// What an open copies to the newest segment stays where it was, until that is known to last.
#[test]
fn how_the_newest_begins_may_be_lost_right_after_an_open() {
    let fs = disk();
    drop(filled(&fs, WalSync::Never, 20));
    drop(reopen(&fs, WalSync::Never));
    let newest = numbers(&fs).pop().expect("segments");
    change(&fs, &path(newest), |bytes| bytes[HEADER_LEN as usize + 6] ^= 1);
    assert_filled(&reopen(&fs, WalSync::Never), 20, "opened");
    assert_filled(&reopen(&fs, WalSync::Never), 20, "and again");
}

/// An open is killed, then the next one, and in the third power fails: each at any of its calls.
#[test]
fn opens_that_are_killed_and_power_failure_lose_nothing() {
    assert_eq!(refused_after_kills(), 0);
    planted::plant(Some(Bug::WalChainTrusted));
    assert!(refused_after_kills() > 0, "what a killed open said in CHAIN is not durable");
    planted::plant(None);
}

/// Survivors that an open refuses.
fn refused_after_kills() -> usize {
    let fs = disk();
    drop(filled(&fs, WalSync::Always, 8));
    let mut refused = 0;
    for killed in moments_of_open(fs.disk()) {
        for killed in moments_of_open(killed) {
            for cut in moments_of_open(killed) {
                for survivor in cut.survivors(2, 5) {
                    let fs = Memory::new(survivor);
                    match open(setting(&fs, WalSync::Always), || Ok(None)) {
                        Ok(region) => assert_filled(&region.expect("a log"), 8, "a survivor"),
                        Err(_) => refused += 1,
                    }
                }
            }
        }
    }
    refused
}

/// The disk behind each call of an open for writing.
fn moments_of_open(disk: Disk) -> Vec<Disk> {
    let moments = Arc::new(Moments::default());
    let watched = Memory::watched(disk, Arc::clone(&moments) as Arc<dyn Watch>);
    drop(reopen(&watched, WalSync::Always));
    let mut disks = moments.disks.lock().expect("alone");
    std::mem::take(&mut *disks)
}

/// No cut leaves two of them; a copy of a store may.
#[test]
fn a_segment_never_takes_the_file_that_a_later_one_names() {
    let fs = disk();
    drop(filled(&fs, WalSync::Always, 8));
    let before = numbers(&fs).pop().expect("segments");
    let killed = moments_of_open(fs.disk()).into_iter().map(Memory::new);
    let unbegun = |fs: &Memory| numbers(fs).contains(&(before + 1));
    let fs = killed.into_iter().find(unbegun).expect("a name");
    let mut next = bytes(&fs, &path(before + 1));
    let word = |at: usize| u64::from_le_bytes(next[at * 8..at * 8 + 8].try_into().expect("eight"));
    let header = SegmentHeader {
        store: word(2),
        number: before + 2,
        region_len: word(4),
        salt: word(5),
        len: word(6),
    };
    next[..HEADER_LEN as usize].copy_from_slice(&header.encode());
    put(&fs, &path(before + 2), &next);
    let region = reopen(&fs, WalSync::Always);
    (0..500).for_each(|number| line(&region, 100 + number % 100, number as u8));
    assert_filled(&region, 8, "opened");
    drop(region);
    assert_filled(&reopen(&fs, WalSync::Always), 8, "again");
}

/// There is no room for files ahead of need; the log itself has some.
#[test]
fn no_space_for_what_comes_next_is_no_failure() {
    let fs = Arc::new(Faulty::new(disk()));
    let setting = || Setting {
        fs: Arc::clone(&fs) as Arc<dyn Fs>,
        dir: DIR.into(),
        medium: LogMedium::Device,
        mode: LogMode { sync: WalSync::Always, io: WalIo::Cached },
        memory: None,
        entropy: 0,
        accepts: |_| Ok(()),
        lock: None,
    };
    let owner = LogOwner { id: 7, region_len: LINES * LINE as u64 };
    let region = open(setting(), || Ok(Some(owner))).expect("open").expect("a region");
    let segments = || numbers(fs.inner()).len();
    // Writes to files that have no name yet. In the midst of a segment those are zeros, and no header.
    let rule = Rule::new(1, Failure::NoSpace).of(Call::Write).on("new-").for_ever();
    let (mut struck, mut since) = (0, 0);
    for number in 0..200 {
        let before = segments();
        let in_midst = before > 3 && since < 20;
        fs.set_rules(if in_midst { vec![rule.clone()] } else { Vec::new() });
        line(&region, number, 7);
        struck += fs.struck();
        since = if segments() == before { since + 1 } else { 0 };
    }
    assert!(struck > 2, "{struck} times");
    fs.set_rules(Vec::new());
    drop(region);
    let region = open(setting(), || Ok(None)).expect("open").expect("a region");
    assert!((0..200).all(|number| value(&region, number) == 7));
}
