//! Files that are written by stores to memory: what reads see is what calls would have written.

mod whole;

use std::path::Path;

use base::random::Rng;
use ssd::{Call, Disk, Failure, Faulty, Fs, Memory, PageCache, Posix, Rule};
use whole::{made, read};

const MIB: u64 = 1 << 20;

/// Writes of all lengths, over the end of windows and of what is mapped, with syncs and hints between them. Tells whether stores are
/// to be had.
fn write_at_random(fs: &dyn Fs, path: &Path) -> bool {
    let (mut file, mut model) = (made(fs, path), Vec::new());
    let limit = 5 << 19;
    let is_mapped = file.map(limit);
    let mut random = Rng::new(1);
    for turn in 0..2000 {
        let len = [1, 100, 5000, 300_000, 2 << 20][random.index(5)];
        // Mostly one behind the other, as a log is written.
        let at = match random.below(3) {
            0 => random.below(3 * MIB) as usize,
            _ => model.len() % limit as usize,
        };
        let byte = turn as u8;
        file.write_at(at as u64, &vec![byte; len]).unwrap();
        model.resize(model.len().max(at + len), 0);
        model[at..at + len].fill(byte);
        match random.below(20) {
            0 => file.sync().unwrap(),
            1 => file.advise_written(0..model.len() as u64),
            _ => {}
        }
        assert!((model.len() as u64..=limit.max(model.len() as u64)).contains(&file.len()));
    }
    let bytes = read(fs, path);
    assert_eq!(bytes.len() as u64, file.len());
    assert!(bytes[..model.len()] == model, "mapped: {is_mapped}");
    assert!(bytes[model.len()..].iter().all(|byte| *byte == 0));
    file.truncate(MIB).unwrap();
    file.write_at(MIB + 3, b"behind").unwrap();
    let bytes = read(fs, path);
    assert_eq!(bytes.len() as u64, MIB + 9);
    assert_eq!(&bytes[MIB as usize..], b"\0\0\0behind");
    assert!(bytes[..MIB as usize] == model[..MIB as usize]);
    is_mapped
}

/// Whether a directory is on ext4.
fn is_ext4(dir: &Path) -> bool {
    rustix::fs::statfs(dir).unwrap().f_type as u32 == 0xef53
}

#[test]
fn stores_are_what_calls_would_have_written() {
    assert!(write_at_random(&Memory::default(), "/f".as_ref()));
    let shared = Path::new("/dev/shm");
    let scratches =
        [Some(tempfile::tempdir()), shared.is_dir().then(|| tempfile::tempdir_in(shared))];
    for scratch in scratches.into_iter().flatten() {
        let scratch = scratch.unwrap();
        let is_mapped = write_at_random(&Posix::new(PageCache::Used), &scratch.path().join("f"));
        assert_eq!(is_mapped, is_ext4(scratch.path()), "{}", scratch.path().display());
    }
}

/// A rule makes the system refuse.
#[test]
fn a_file_that_cannot_be_mapped_is_written_by_calls() {
    let fs = Faulty::new(Memory::default());
    let mut file = made(&fs, "/f".as_ref());
    fs.set_rules(vec![Rule::new(1, Failure::NoSpace).of(Call::Map)]);
    assert!(!file.map(100));
    assert_eq!(file.len(), 0);
    file.write_at(0, b"abc").unwrap();
    file.sync().unwrap();
    assert_eq!(read(&fs, "/f".as_ref()), b"abc");
    assert!(file.map(100), "the rule struck once");
}

#[test]
fn a_longer_file_keeps_its_length_and_what_is_in_it() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("f");
    let fs = Posix::new(PageCache::Used);
    let mut file = made(&fs, &path);
    file.write_at(0, &[7; 10_000]).unwrap();
    file.map(5000);
    file.write_at(4990, &[8; 20]).unwrap();
    assert_eq!(file.len(), 10_000);
    let bytes = read(&fs, &path);
    assert!(bytes[4990..5010].iter().all(|byte| *byte == 8));
    assert!(bytes[5010..].iter().chain(&bytes[..4990]).all(|byte| *byte == 7));
}

#[test]
fn no_room_to_map_is_no_failure() {
    let fs = Memory::with_capacity(Disk::new(512), 1000);
    let mut file = made(&fs, "/f".as_ref());
    assert!(!file.map(2000));
    assert_eq!(file.len(), 0);
    file.write_at(0, &[1; 500]).unwrap();
    assert!(file.map(800));
    assert_eq!(file.len(), 800);
}

/// As with any write, nothing of it lasts before a sync.
#[test]
fn room_that_is_not_synced_may_be_gone() {
    let fs = Memory::new(Disk::new(4));
    let mut file = made(&fs, "/f".as_ref());
    file.write_at(0, b"ab").unwrap();
    file.sync().unwrap();
    fs.sync_dir("/".as_ref()).unwrap();
    assert!(file.map(8));
    file.write_at(2, b"cd").unwrap();
    let mut lengths: Vec<usize> = Vec::new();
    for disk in fs.disk().survivors(100, 0) {
        let bytes = read(&Memory::new(disk), "/f".as_ref());
        assert_eq!(&bytes[..2], b"ab");
        lengths.push(bytes.len());
    }
    lengths.sort_unstable();
    lengths.dedup();
    assert_eq!(lengths, [2, 8]);
    file.sync().unwrap();
    assert_eq!(read(&Memory::new(fs.disk()), "/f".as_ref()), b"abcd\0\0\0\0");
}
