//! Files that are written in place past the page cache: what reads see is what was written, by whichever way.

mod whole;

use std::path::Path;

use base::ErrorKind;
use base::random::Rng;
use ssd::{Call, Disk, Failure, Faulty, Fs, Memory, PageCache, Posix, Rule};
use whole::{made, read};

/// Whole blocks, one behind the other and anywhere, over what was written by calls before. Tells how long a block is.
fn write_at_random(fs: &dyn Fs, path: &Path) -> Option<u64> {
    let (mut file, mut random) = (made(fs, path), Rng::new(1));
    file.write_at(0, &[7; 50_000]).unwrap();
    let block = file.bypass().unwrap()?.get();
    let mut model = vec![7; 50_000];
    for turn in 0..300 {
        let blocks = [1, 2, 7, 300][random.index(4)];
        let (at, len) = ((random.below(40) * block) as usize, (blocks * block) as usize);
        file.write_at(at as u64, &vec![turn as u8; len]).unwrap();
        model.resize(model.len().max(at + len), 0);
        model[at..at + len].fill(turn as u8);
        if random.below(20) == 0 {
            file.sync().unwrap();
            assert!(read(fs, path) == model, "turn {turn}");
        }
    }
    assert!(read(fs, path) == model);
    assert_eq!(file.len(), model.len() as u64);
    // Cut, and used by another handle: both ways see the same.
    file.truncate(100).unwrap();
    let mut other = fs.overwrite(path).unwrap();
    other.write_at(90, &[9; 20]).unwrap();
    file.write_at(block, &vec![8; block as usize]).unwrap();
    let bytes = read(fs, path);
    assert!(bytes[..90] == model[..90] && bytes[90..110] == [9; 20]);
    assert!(bytes[110..block as usize].iter().all(|byte| *byte == 0));
    assert_eq!(bytes[block as usize..], vec![8; block as usize]);
    Some(block)
}

#[test]
fn what_goes_past_the_page_cache_is_read_through_it() {
    assert_eq!(write_at_random(&Memory::new(Disk::new(512)), "/f".as_ref()), Some(4096));
    let scratch = tempfile::tempdir().unwrap();
    let fs = Posix::new(PageCache::Used);
    let is_ext4 = rustix::fs::statfs(scratch.path()).unwrap().f_type as u32 == 0xef53;
    let block = write_at_random(&fs, &scratch.path().join("f"));
    assert!(block == Some(4096) || !is_ext4, "{block:?}");
}

#[test]
fn a_file_that_is_shorter_than_a_block_grows_to_one() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("f");
    let fs = Posix::new(PageCache::Used);
    let mut file = made(&fs, &path);
    file.write_at(0, b"header").unwrap();
    let Some(block) = file.bypass().unwrap() else { return };
    assert_eq!(file.len(), block.get());
    let bytes = read(&fs, &path);
    assert_eq!(&bytes[..6], b"header");
    assert!(bytes[6..].iter().all(|byte| *byte == 0));
}

/// As a device does.
#[test]
fn parts_of_blocks_are_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let stores: [(&dyn Fs, _); 2] = [
        (&Memory::new(Disk::new(512)), "/f".into()),
        (&Posix::new(PageCache::Used), scratch.path().join("f")),
    ];
    for (fs, path) in stores {
        for (at, len) in [(1, 4096), (0, 100)] {
            let _gone = fs.remove(&path);
            let mut file = made(fs, &path);
            if file.bypass().unwrap().is_none() {
                continue;
            }
            let refused = file.write_at(at, &vec![1; len]);
            // Some devices take less than a block.
            assert!(refused.is_err() || fs.describe() == "posix", "{at}, {len}");
        }
    }
}

#[test]
fn a_device_that_cannot_is_told_from_one_that_fails() {
    let fs = Faulty::new(Memory::default());
    let mut file = made(&fs, "/f".as_ref());
    fs.set_rules(vec![Rule::new(1, Failure::Unsupported).of(Call::Bypass)]);
    assert_eq!(file.bypass().unwrap(), None);
    file.write_at(3, b"abc").unwrap();
    fs.set_rules(vec![Rule::new(1, Failure::Io).of(Call::Bypass)]);
    assert_eq!(file.bypass().unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(file.write_at(0, b"abc").unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(file.bypass().unwrap_err().kind(), ErrorKind::Closed);
}

/// Past the page cache is not on the medium.
#[test]
fn nothing_lasts_before_a_sync() {
    let fs = Memory::new(Disk::new(1));
    let mut file = made(&fs, "/f".as_ref());
    file.write_at(0, b"old.old.").unwrap();
    file.sync().unwrap();
    fs.sync_dir("/".as_ref()).unwrap();
    assert_eq!(file.bypass().unwrap().map(|block| block.get()), Some(8));
    file.write_at(0, b"new.new.").unwrap();
    let mut found: Vec<Vec<u8>> =
        fs.disk().survivors(9, 0).map(|disk| read(&Memory::new(disk), "/f".as_ref())).collect();
    found.sort();
    found.dedup();
    assert!(found.iter().any(|bytes| bytes == b"old.old."), "{found:?}");
    assert!(
        found.iter().any(
            |bytes| ![b"old.old.", b"new.new."].contains(&bytes.as_slice().try_into().unwrap())
        )
    );
}
