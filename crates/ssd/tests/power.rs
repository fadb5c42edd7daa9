//! What a power cut leaves of a disk in memory.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use ssd::{Call, Disk, Fs, Heed, Memory, Watch, durable_dir, durable_install};

/// Everything on a disk, as text: paths with contents, directories with a slash.
fn show(disk: &Disk) -> String {
    let mut lines = Vec::new();
    disk.visit(&mut |path, bytes| {
        lines.push(match bytes {
            Some(bytes) => format!("{path}={}", String::from_utf8_lossy(bytes).replace('\0', ".")),
            None => format!("{path}/"),
        });
    });
    lines.join(" ")
}

/// All that may survive.
fn all(disk: &Disk) -> BTreeSet<String> {
    let survivors = disk.survivors(100_000, 1);
    assert!(survivors.are_all());
    survivors.map(|disk| show(&disk)).collect()
}

fn set(lines: &[&str]) -> BTreeSet<String> {
    lines.iter().map(|line| line.to_string()).collect()
}

fn write(fs: &Memory, path: &str, text: &str) {
    let mut file = fs.create(path.as_ref()).unwrap();
    file.append(text.as_bytes()).unwrap();
    file.sync().unwrap();
}

/// A disk with this file on it for good.
fn durable(path: &str, text: &str) -> Memory {
    let fs = Memory::new(Disk::new(4));
    write(&fs, path, text);
    fs.sync_dir("/".as_ref()).unwrap();
    fs
}

fn fs() -> Memory {
    Memory::new(Disk::new(4))
}

#[test]
fn sectors_and_length_are_decided_one_by_one() {
    let fs = durable("f", "");
    let mut file = fs.create("g".as_ref()).unwrap();
    fs.sync_dir("/".as_ref()).unwrap();
    file.append(b"aaaabb").unwrap();
    let wanted = ["/f= /g=", "/f= /g=......", "/f= /g=aaaa..", "/f= /g=....bb", "/f= /g=aaaabb"];
    assert_eq!(all(&fs.disk()), set(&wanted));
    file.sync().unwrap();
    assert_eq!(all(&fs.disk()), set(&["/f= /g=aaaabb"]));
    // The second sector is written again: as it was synced, or as it is now; never without its "bb".
    file.append(b"BB").unwrap();
    let wanted = ["/f= /g=aaaabb", "/f= /g=aaaabb..", "/f= /g=aaaabbBB"];
    assert_eq!(all(&fs.disk()), set(&wanted));
}

#[test]
fn a_sector_may_hold_any_version_it_had() {
    let fs = fs();
    let mut file = fs.create("f".as_ref()).unwrap();
    fs.sync_dir("/".as_ref()).unwrap();
    for part in ["1", "2", "3"] {
        file.append(part.as_bytes()).unwrap();
    }
    let wanted =
        ["/f=", "/f=.", "/f=1", "/f=..", "/f=1.", "/f=12", "/f=...", "/f=1..", "/f=12.", "/f=123"];
    assert_eq!(all(&fs.disk()), set(&wanted));
}

#[test]
fn overwritten_sectors_are_old_or_new() {
    let fs = durable("f", "aaaabbbbcccc");
    let mut file = fs.overwrite("f".as_ref()).unwrap();
    file.write_at(2, b"XXXX").unwrap();
    let wanted = ["/f=aaaabbbbcccc", "/f=aaXXbbbbcccc", "/f=aaaaXXbbcccc", "/f=aaXXXXbbcccc"];
    assert_eq!(all(&fs.disk()), set(&wanted));
    file.sync().unwrap();
    assert_eq!(all(&fs.disk()), set(&["/f=aaXXXXbbcccc"]));
    // Any of the versions since the sync, and never a part of one.
    file.write_at(0, b"1").unwrap();
    file.write_at(1, b"2").unwrap();
    let wanted = ["/f=aaXXXXbbcccc", "/f=1aXXXXbbcccc", "/f=12XXXXbbcccc"];
    assert_eq!(all(&fs.disk()), set(&wanted));
    // The same bytes again change nothing.
    file.sync().unwrap();
    file.write_at(0, b"12").unwrap();
    assert_eq!(all(&fs.disk()).len(), 1);
}

#[test]
fn a_file_that_was_cut_short_may_be_as_it_was() {
    let fs = durable("f", "aaaabb");
    let mut file = fs.overwrite("f".as_ref()).unwrap();
    file.truncate(4).unwrap();
    let wanted = ["/f=aaaa", "/f=aaaabb", "/f=aaaa.."];
    assert_eq!(all(&fs.disk()), set(&wanted));
    file.sync().unwrap();
    // It grows again where it is written behind its end.
    file.write_at(6, b"cc").unwrap();
    let wanted = ["/f=aaaa", "/f=aaaa....", "/f=aaaa..cc"];
    assert_eq!(all(&fs.disk()), set(&wanted));
}

#[test]
fn a_synced_file_may_still_have_no_name() {
    let fs = fs();
    write(&fs, "f", "abcd");
    assert_eq!(all(&fs.disk()), set(&["", "/f=abcd"]));
    fs.sync_dir("/".as_ref()).unwrap();
    assert_eq!(all(&fs.disk()), set(&["/f=abcd"]));
    fs.remove("f".as_ref()).unwrap();
    assert_eq!(all(&fs.disk()), set(&["", "/f=abcd"]));
}

#[test]
fn a_directory_s_own_name_is_needed_too() {
    let fs = fs();
    fs.create_dir_all("d/e".as_ref()).unwrap();
    write(&fs, "d/e/f", "x");
    fs.sync_dir("d/e".as_ref()).unwrap();
    assert_eq!(all(&fs.disk()), set(&["", "/d/", "/d/ /d/e/ /d/e/f=x"]));
    fs.sync_dir("d".as_ref()).unwrap();
    fs.sync_dir("/".as_ref()).unwrap();
    assert_eq!(all(&fs.disk()), set(&["/d/ /d/e/ /d/e/f=x"]));
}

#[test]
fn a_rename_is_kept_or_lost_whole() {
    let fs = durable("old", "o");
    write(&fs, "new", "n");
    fs.sync_dir("/".as_ref()).unwrap();
    fs.rename("new".as_ref(), "old".as_ref()).unwrap();
    assert_eq!(all(&fs.disk()), set(&["/new=n /old=o", "/old=n"]));
    fs.sync_dir("/".as_ref()).unwrap();
    assert_eq!(all(&fs.disk()), set(&["/old=n"]));
}

#[test]
fn changes_of_one_name_are_kept_in_order_and_others_in_any() {
    let fs = durable("a", "1");
    fs.remove("a".as_ref()).unwrap();
    write(&fs, "a", "2");
    write(&fs, "b", "3");
    let wanted = ["/a=1", "", "/a=2", "/a=1 /b=3", "/b=3", "/a=2 /b=3"];
    assert_eq!(all(&fs.disk()), set(&wanted));
}

#[test]
fn a_rename_between_directories_takes_two_syncs() {
    let moved = || {
        let fs = fs();
        fs.create_dir_all("d".as_ref()).unwrap();
        fs.create_dir_all("e".as_ref()).unwrap();
        write(&fs, "d/f", "x");
        fs.sync_dir("d".as_ref()).unwrap();
        fs.sync_dir("/".as_ref()).unwrap();
        fs.rename("d/f".as_ref(), "e/f".as_ref()).unwrap();
        fs
    };
    let (before, after, both) = ("/d/ /d/f=x /e/", "/d/ /e/ /e/f=x", "/d/ /d/f=x /e/ /e/f=x");
    let fs = moved();
    assert_eq!(all(&fs.disk()), set(&[before, after]));
    fs.sync_dir("e".as_ref()).unwrap();
    assert_eq!(all(&fs.disk()), set(&[both, after]));
    fs.sync_dir("d".as_ref()).unwrap();
    assert_eq!(all(&fs.disk()), set(&[after]));
    // Where only the old directory is synced the file has its new name: it is never without one.
    let fs = moved();
    fs.sync_dir("d".as_ref()).unwrap();
    assert_eq!(all(&fs.disk()), set(&[after]));
}

#[test]
fn a_killed_process_leaves_everything_and_nothing_durable() {
    let fs = fs();
    let mut file = fs.create("f".as_ref()).unwrap();
    file.append(b"x").unwrap();
    let left = Memory::new(fs.disk());
    assert_eq!(show(&left.disk()), "/f=x");
    assert_eq!(all(&left.disk()), set(&["", "/f=", "/f=.", "/f=x"]));
    // The next process makes it durable without having written it.
    drop(file);
    left.sync_dir("/".as_ref()).unwrap();
    assert_eq!(all(&left.disk()), set(&["/f=", "/f=.", "/f=x"]));
}

#[test]
fn survivors_are_sampled_where_they_are_many() {
    let fs = fs();
    for i in 0..40 {
        write(&fs, &format!("f{i:02}"), "");
    }
    let disk = fs.disk();
    let sample = || disk.survivors(300, 7).map(|disk| show(&disk)).collect::<Vec<_>>();
    let lines = sample();
    assert_eq!(lines.len(), 300);
    assert_eq!(lines[0], "");
    assert_eq!(lines[1], show(&disk));
    assert!(lines.contains(&"/f17=".to_string()));
    assert!(lines.contains(&show(&disk).replace("/f17= ", "")));
    assert!(lines.iter().collect::<BTreeSet<_>>().len() > 250);
    assert_eq!(lines, sample());
}

/// Looks at the disk before every call, and may leave out a sync.
struct Tap {
    seen: Mutex<Vec<Disk>>,
    ignore: Option<Call>,
    heed: Heed,
}

impl Watch for Tap {
    fn before(&self, call: Call, _path: &Path) -> Heed {
        if self.ignore == Some(call) { self.heed } else { Heed::Whole }
    }

    fn changed(&self, _call: Call, _path: &Path, disk: &Disk) {
        self.seen.lock().unwrap().push(disk.clone());
    }
}

/// Whether an install over an old file leaves, at every moment, the old one or the new one whole, and once
/// it has returned the new one.
fn install_lasts(ignore: Option<Call>, heed: Heed) -> bool {
    let fs = durable("CURRENT", "old content");
    let tap = Arc::new(Tap { seen: Mutex::default(), ignore, heed });
    let fs = Memory::watched(fs.disk(), tap.clone());
    let new = "a new and longer content";
    durable_install(&fs, "CURRENT.tmp".as_ref(), "CURRENT".as_ref(), |file| {
        new.as_bytes().chunks(9).try_for_each(|part| file.append(part))
    })
    .unwrap();
    let current = |disk: &Disk| {
        let mut found = None;
        disk.visit(&mut |path, bytes| {
            if path == "/CURRENT" {
                found = bytes.map(|b| String::from_utf8_lossy(b).into_owned());
            }
        });
        found
    };
    let seen = tap.seen.lock().unwrap();
    let before = seen.iter().flat_map(|disk| disk.survivors(100_000, 3));
    let whole = before
        .map(|disk| current(&disk))
        .all(|text| text.as_deref() == Some("old content") || text.as_deref() == Some(new));
    let done = fs.disk();
    let lasts = done.survivors(100_000, 3).all(|disk| current(&disk).as_deref() == Some(new));
    whole && lasts
}

#[test]
fn an_install_is_old_or_new_at_every_moment_and_new_for_good_in_the_end() {
    assert!(install_lasts(None, Heed::Whole));
    let syncs = [Heed::Ignored, Heed::AllButFirst, Heed::AllButLast, Heed::AllButLength];
    for heed in syncs {
        assert!(!install_lasts(Some(Call::Sync), heed), "{heed:?}");
    }
    assert!(!install_lasts(Some(Call::SyncDir), Heed::Ignored));
}

/// A directory that was made has a name that lasts, and so have those above it, also if the call that made some of them was
/// killed anywhere.
#[test]
fn a_directory_that_was_made_is_there_after_power_failure() {
    let deep = Path::new("/a/b/c");
    let seen = Arc::new(Seen::default());
    let watched = Memory::watched(Disk::new(4), Arc::clone(&seen) as Arc<dyn Watch>);
    durable_dir(&watched, deep).unwrap();
    let mut disks = std::mem::take(&mut *seen.0.lock().unwrap());
    assert_eq!(disks.len(), 6, "three are made, three are synced");
    disks.push(Disk::new(4));
    for disk in disks {
        let fs = Memory::new(disk);
        durable_dir(&fs, deep).unwrap();
        assert_eq!(all(&fs.disk()), set(&["/a/ /a/b/ /a/b/c/"]));
        durable_dir(&fs, deep).unwrap();
    }
    // In the working directory, and at the top.
    for dir in ["d", "/"] {
        durable_dir(&watched, dir.as_ref()).unwrap();
    }
    assert_eq!(all(&watched.disk()), set(&["/a/ /a/b/ /a/b/c/ /d/"]));
}

/// The disk after each call that changed it.
#[derive(Default)]
struct Seen(Mutex<Vec<Disk>>);

impl Watch for Seen {
    fn before(&self, _: Call, _: &Path) -> Heed {
        Heed::Whole
    }

    fn changed(&self, _: Call, _: &Path, disk: &Disk) {
        self.0.lock().unwrap().push(disk.clone());
    }
}
