//! Every back end does the same.

mod suite;

use ssd::{Disk, Faulty, Memory, PageCache, Posix, Uring};
use suite::conform;

#[test]
fn posix() {
    let scratch = tempfile::tempdir().unwrap();
    conform(&Posix::new(PageCache::Used), scratch.path());
}

#[test]
fn posix_past_the_page_cache() {
    let scratch = tempfile::tempdir().unwrap();
    conform(&Posix::new(PageCache::Bypassed), scratch.path());
}

#[test]
fn io_uring() {
    for page_cache in [PageCache::Used, PageCache::Bypassed] {
        match Uring::new(page_cache) {
            Ok(fs) => {
                let scratch = tempfile::tempdir().unwrap();
                conform(&fs, scratch.path());
            }
            Err(error) => eprintln!("SKIPPED, and io_uring is NOT TESTED here: {error}"),
        }
    }
}

#[test]
fn the_best_there_is() {
    let scratch = tempfile::tempdir().unwrap();
    let fs = ssd::best(PageCache::Used);
    conform(fs.as_ref(), scratch.path());
    println!("{}", fs.describe());
}

#[test]
fn memory() {
    conform(&Memory::default(), "/m".as_ref());
    conform(&Memory::new(Disk::new(64)), "m".as_ref());
}

#[test]
fn faulty_without_rules() {
    let fs = Faulty::new(Memory::default());
    conform(&fs, "/m".as_ref());
    assert_eq!(fs.struck(), 0);
    assert!(fs.all_calls() > 100);
}

/// On a file system whose page cache can be asked.
#[test]
fn what_was_just_read_is_in_the_page_cache() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("file");
    std::fs::write(&path, [7; 9000]).unwrap();
    let mut out = [0; 5000];
    let cached = |page_cache: PageCache, out: &mut [u8]| {
        let fs = Posix::new(page_cache);
        let file = ssd::Fs::open(&fs, &path).unwrap();
        file.read_at(10, out).unwrap();
        out.fill(0);
        file.read_cached(10, out)
    };
    if !cached(PageCache::Used, &mut out) {
        eprintln!("SKIPPED: the page cache of {} cannot be asked", scratch.path().display());
        return;
    }
    assert_eq!(out, [7; 5000]);
    // In a directory whose file system knows no other way it is used all the same.
    assert!(!cached(PageCache::Bypassed, &mut out) || out == [7; 5000]);
}
