//! What stores, flushes and fences do to bytes and counters, on the heap and on a mapped file.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use pmem::{Domain, Durability, OpenMode, PoolFile, Prefault, Region, Site, StoreMode};

const LEN: u64 = 64 * 1024;

fn mapped(folder: &tempfile::TempDir, prefault: Prefault) -> Region {
    PoolFile::create(&folder.path().join("pool"), LEN)
        .expect("created")
        .map(prefault)
        .expect("mapped")
}

#[test]
fn flush_counts_every_line_touched() {
    let folder = tempfile::tempdir().expect("a folder");
    for region in [Region::heap(LEN, None).expect("heap"), mapped(&folder, Prefault::Lazy)] {
        for (at, len, lines) in [
            (0, 0, 0),
            (0, 1, 1),
            (0, 64, 1),
            (0, 65, 2),
            (63, 1, 1),
            (63, 2, 2),
            (63, 66, 3),
            (64, 64, 1),
            (LEN - 1, 1, 1),
            (LEN - 65, 65, 2),
        ] {
            let before = region.stats().lines_flushed;
            let _ = region.fence(region.flush_range(Site::Record, at, len));
            assert_eq!(region.stats().lines_flushed - before, lines, "{len} bytes at {at}");
        }
    }
}

/// Everything around the range stays; everything in it is what an ordinary copy makes.
#[test]
fn copy_nt_equals_copy() {
    let folder = tempfile::tempdir().expect("a folder");
    let source: Vec<u8> = (0..512).map(|i| (i * 31 + 1) as u8).collect();
    for region in [Region::heap(LEN, None).expect("heap"), mapped(&folder, Prefault::Now)] {
        for at in (0..=256).step_by(64).chain([1, 8, 63, 65, 100, 127]) {
            for len in 0..=300 {
                let source = &source[len % 13..][..len];
                let blank = region.flush(region.copy(Site::Format, 0, &[0xEE; 1024]));
                let _ = region.fence(blank);
                let _ = region.fence(region.copy_nt(Site::Record, at, source));

                let mut expected = [0xEE; 1024];
                expected[at as usize..][..len].copy_from_slice(source);
                assert_eq!(region.bytes(0, 1024), expected, "{len} bytes at {at}");
            }
        }
    }
}

#[test]
fn media_bytes_are_whole_lines_by_site() {
    let region = Region::heap(LEN, None).expect("heap");
    let record = region.copy_nt(Site::Record, 128, &[1; 192]);
    let word = region.flush(region.store_u64(Site::ZoneClear, 8, 1));
    let ragged = region.copy_nt(Site::Run, 4096 + 60, &[2; 4 + 64 + 1]);
    let _ = region.fence(record.and(word).and(ragged));
    let stats = region.stats();
    assert_eq!(stats.site_bytes(Site::Record), 192);
    assert_eq!(stats.site_bytes(Site::ZoneClear), 64);
    assert_eq!(stats.site_bytes(Site::Run), 3 * 64);
    assert_eq!(stats.media_bytes(), 192 + 64 + 192);
    assert_eq!((stats.bytes_streamed, stats.bytes_stored), (192 + 64, 8 + 5));
    assert_eq!((stats.lines_flushed, stats.fences, stats.redundant_flushes), (3, 1, 0));
}

#[test]
fn words_and_bytes_survive_the_mapping() {
    let folder = tempfile::tempdir().expect("a folder");
    let region = mapped(&folder, Prefault::Now);
    let word = region.flush(region.store_u64(Site::Superblock, LEN - 8, 0xDEAD_BEEF));
    let _ = region.fence(word.and(region.copy_nt(Site::Record, 192, &[7; 128])));
    drop(region);
    for mode in [OpenMode::ReadOnly, OpenMode::ReadWrite] {
        let pool = PoolFile::open(&folder.path().join("pool"), mode).expect("opened");
        assert_eq!(pool.len(), LEN);
        let region = pool.map(Prefault::Lazy).expect("mapped");
        assert_eq!(region.load_u64(LEN - 8), 0xDEAD_BEEF);
        assert_eq!(region.bytes(192, 128), [7; 128]);
        assert_eq!(region.is_read_only(), mode == OpenMode::ReadOnly);
    }
}

#[test]
fn pages_are_mapped_ahead_and_hints_go_anywhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let region = mapped(&folder, Prefault::Lazy);
    let before = region.bytes(0, LEN as usize).to_vec();
    assert!(region.populate(5000, 1), "a byte within a page");
    assert!(region.populate(LEN, 10) && region.populate(u64::MAX, u64::MAX), "nothing to do");
    assert!(region.populate(0, u64::MAX), "cut at the end");
    region.prefetch(0, 4);
    region.prefetch(LEN - 1, 100);
    region.prefetch(u64::MAX, 1);
    assert_eq!(region.bytes(0, LEN as usize), before);

    let reader = PoolFile::open(&folder.path().join("pool"), OpenMode::ReadOnly);
    assert!(reader.is_err(), "the writer is still there");
    drop(region);
    let reader = PoolFile::open(&folder.path().join("pool"), OpenMode::ReadOnly).expect("opened");
    let reader = reader.map(Prefault::Now).expect("prefaulted for reading");
    assert!(reader.populate(0, LEN));
}

#[test]
#[cfg_attr(any(miri, sanitized), ignore = "heap regions are allocated there, not mapped")]
fn huge_pages_fit_every_large_region_and_memory_on_tmpfs_has_them() {
    const HUGE: usize = 2 << 20;
    let len = 16 * HUGE as u64 + 8192;
    let heap = Region::heap(len, None).expect("heap");
    assert!(heap.bytes(0, 1).as_ptr().addr().is_multiple_of(HUGE));
    let _ = heap.fence(heap.copy_nt(Site::Record, 0, &vec![1; len as usize]));
    let of_heap = heap.pages().expect("told");
    assert!(of_heap.resident <= len && of_heap.huge <= of_heap.resident);
    let parents = [std::env::temp_dir(), "/dev/shm".into()];
    for parent in parents.iter().filter(|parent| parent.is_dir()) {
        let folder = tempfile::tempdir_in(parent).expect("a folder");
        let pool = PoolFile::create(&folder.path().join("pool"), len).expect("created");
        let region = pool.map(Prefault::Now).expect("mapped");
        assert!(region.bytes(0, 1).as_ptr().addr().is_multiple_of(HUGE), "{}", parent.display());
        assert!(region.bytes(0, len as usize).iter().all(|byte| *byte == 0));
        let pages = region.pages().expect("told");
        assert_eq!(pages.resident, len);
        // Where memory of the process gets huge pages, the kernel has some left; those before 6.1 have no call that gives
        // them to a file.
        if parent.starts_with("/dev/shm") && of_heap.huge > 0 && collapses() {
            assert!(pages.huge > 0, "{}: {pages}", parent.display());
        }
        assert!(pages.huge.is_multiple_of(HUGE as u64));
    }
}

/// Whether the kernel is Linux 6.1 or later.
fn collapses() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(6), Some(1))
}

#[test]
fn heap_of_any_size_is_zero_and_not_durable() {
    for len in [1, 64, 4097, 2 << 20, (5 << 20) + 3] {
        let region = Region::heap(len, None).expect("heap");
        assert_eq!(region.len(), len);
        assert!(region.bytes(0, len as usize).iter().all(|&b| b == 0));
        let _ = region.fence(region.copy_nt(Site::Record, len - 1, &[1]));
        assert_eq!(region.bytes(len - 1, 1), [1]);
        assert_eq!(region.durability(), Durability::None);
        assert_eq!(region.durability_note(), "heap memory");
        assert_eq!(region.flush_instruction(), "none");
        assert!(!region.populate(0, len));
    }
    assert!(Region::heap(0, None).is_err());
    assert!(Region::heap(u64::MAX, None).is_err());
    assert!(Region::heap(1 << 60, None).is_err(), "more than an address space");
}

#[test]
fn access_outside_panics() {
    let region = &Region::heap(LEN, None).expect("heap");
    let panics = |what: &str, act: &dyn Fn()| {
        let act = std::panic::AssertUnwindSafe(act);
        assert!(std::panic::catch_unwind(act).is_err(), "{what} did not panic");
    };
    panics("bytes", &|| {
        region.bytes(LEN - 1, 2);
    });
    panics("overflow", &|| {
        region.bytes(u64::MAX, 2);
    });
    panics("load", &|| {
        region.load_u64(LEN);
    });
    panics("unaligned load", &|| {
        region.load_u64(4);
    });
    panics("copy", &|| {
        let _ = region.copy(Site::Record, LEN - 3, &[0; 4]);
    });
    panics("copy_nt", &|| {
        let _ = region.copy_nt(Site::Record, LEN - 64, &[0; 128]);
    });
    panics("ragged copy_nt", &|| {
        let _ = region.copy_nt(Site::Record, LEN - 63, &[0; 128]);
    });
    panics("flush", &|| {
        let _ = region.flush_range(Site::Record, LEN, 1);
    });
    assert!(region.bytes(LEN, 0).is_empty());
}

/// A store to a read-only mapping is a panic, not a dead process.
#[test]
fn store_to_a_read_only_region_panics() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(mapped(&folder, Prefault::Lazy));
    let pool = PoolFile::open(&folder.path().join("pool"), OpenMode::ReadOnly).expect("opened");
    let region = &pool.map(Prefault::Lazy).expect("mapped");
    for act in [
        &(|| drop(region.copy(Site::Record, 0, &[1]))) as &dyn Fn(),
        &|| drop(region.copy_nt(Site::Record, 0, &[1; 64])),
        &|| drop(region.store_u64(Site::Record, 0, 1)),
    ] {
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).expect_err("panic");
        let text = panic.downcast_ref::<String>().expect("a message");
        assert!(text.contains("read-only"), "{text}");
    }
    assert_eq!(region.bytes(0, 1), [0]);
}

/// Notes what a simulator is told.
#[derive(Default)]
struct Recorder {
    calls: Mutex<Vec<String>>,
    armed: AtomicBool,
}

impl Recorder {
    fn note(&self, text: String) {
        if self.armed.load(Ordering::Relaxed) {
            self.calls.lock().expect("not poisoned").push(text);
        }
    }
}

impl Domain for Recorder {
    fn store(&self, _: &Region, site: Site, at: u64, len: usize, mode: StoreMode) {
        let how = if mode == StoreMode::Streamed { "stream" } else { "store" };
        self.note(format!("{how} {site:?} {at}+{len}"));
    }
    fn flush(&self, _: &Region, site: Site, at: u64, len: usize) {
        self.note(format!("flush {site:?} {at}+{len}"));
    }
    fn fence(&self, _: &Region, site: Site) {
        self.note(format!("fence {site:?}"));
    }
    fn load(&self, _: &Region, at: u64, len: usize) {
        self.note(format!("load {at}+{len}"));
    }
}

/// A simulator sees the partial lines of a streamed copy as what they are: stored and flushed.
#[test]
fn a_domain_sees_every_step() {
    let recorder = Arc::new(Recorder::default());
    let region = Region::heap(LEN, Some(recorder.clone())).expect("heap");
    recorder.armed.store(true, Ordering::Relaxed);
    let _ = region.fence(region.copy_nt(Site::Record, 64, &[1; 128]));
    let _ = region.fence(region.copy_nt(Site::Run, 60, &[1; 70]));
    let _ = region.fence(region.flush(region.store_u64(Site::Superblock, 8, 1)));
    region.load_u64(8);
    let calls = recorder.calls.lock().expect("not poisoned");
    assert_eq!(
        *calls,
        [
            "stream Record 64+128",
            "fence Record",
            "store Run 60+4",
            "flush Run 60+4",
            "stream Run 64+64",
            "store Run 128+2",
            "flush Run 128+2",
            "fence Run",
            "store Superblock 8+8",
            "flush Superblock 8+8",
            "fence Superblock",
            "load 8+8",
        ]
    );
}
