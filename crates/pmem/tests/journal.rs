//! Journaled regions: what a journal is told, and when.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use base::{Error, ErrorKind, Result};
use pmem::{Durability, Journal, JournalFigures, Promise, Region, Site};

/// Notes what it is told; fails when it is told to.
#[derive(Default)]
struct Notes {
    written: Mutex<Vec<(u64, Vec<u8>)>>,
    discarded: Mutex<Vec<(u64, u64)>>,
    broken: AtomicBool,
    /// What was submitted last, and what of it was settled, by promise.
    position: AtomicU64,
    reached: [AtomicU64; 2],
}

impl Journal for Notes {
    fn submit(&self, ranges: &[(u64, &[u8])], _promise: Promise) -> u64 {
        let ranges = ranges.iter().map(|(at, bytes)| (*at, bytes.to_vec()));
        self.written.lock().expect("notes").extend(ranges);
        self.position.fetch_add(1, Relaxed) + 1
    }

    fn submitted(&self) -> u64 {
        self.position.load(Relaxed)
    }

    fn settle(&self, position: u64, promise: Promise, settled: &dyn Fn()) {
        if !self.broken.load(Relaxed) {
            self.reached[promise as usize].fetch_max(position, Relaxed);
            settled();
        }
    }

    fn reached(&self, promise: Promise) -> u64 {
        self.reached[promise as usize].load(Relaxed)
    }

    fn promise(&self) -> Promise {
        Promise::Synced
    }

    fn discard(&self, at: u64, len: u64) {
        self.discarded.lock().expect("notes").push((at, len));
    }

    fn failure(&self) -> Option<Error> {
        self.broken.load(Relaxed).then(|| Error::new(ErrorKind::NoSpace, "write log", "full"))
    }

    fn sync(&self) -> Result<()> {
        self.failure().map_or(Ok(()), Err)
    }

    fn durability(&self) -> (Durability, String) {
        (Durability::Synced, "notes".into())
    }

    fn describe(&self) -> String {
        "DRAM with notes".into()
    }

    fn figures(&self) -> JournalFigures {
        JournalFigures { segments: 3, ..JournalFigures::default() }
    }
}

impl Notes {
    /// Offsets and lengths of what was written since the last call.
    fn take(&self) -> Vec<(u64, usize)> {
        let written = std::mem::take(&mut *self.written.lock().expect("notes"));
        written.iter().map(|(at, bytes)| (*at, bytes.len())).collect()
    }
}

const LEN: u64 = 64 * 64 + 10;

fn region() -> (Arc<Notes>, Region) {
    let notes = Arc::new(Notes::default());
    let region = Region::journaled(LEN, Arc::clone(&notes) as _).expect("region");
    (notes, region)
}

#[test]
fn a_fence_writes_what_was_flushed_in_whole_lines_and_once() {
    let (notes, region) = region();
    let _only_stored = region.copy(Site::Record, 3000, &[9; 10]);
    let word = region.flush(region.store_u64(Site::Void, 72, 1));
    let again = region.flush(region.store_u64(Site::Void, 80, 2));
    let streamed = region.copy_nt(Site::Record, 640, &[3; 128]);
    let behind = region.copy_nt(Site::Record, 768, &[4; 64]);
    let ragged = region.copy_nt(Site::Run, 1290, &[5; 200]);
    let last = region.flush(region.copy(Site::Record, LEN - 1, &[6]));
    assert_eq!(notes.take(), [], "nothing before the fence");
    let flight = word.and(again).and(streamed).and(behind).and(ragged).and(last);
    drop(region.try_fence(flight).expect("fence"));
    let expected = [(64, 64), (640, 192), (1280, 256), (4096, 10)];
    assert_eq!(notes.take(), expected, "in order, joined, up to the end of the region");
    drop(region.fence(region.nothing_in_flight(Site::Record)));
    assert_eq!(notes.take(), [], "nothing twice");
}

#[test]
fn the_bytes_are_those_at_the_fence() {
    let (notes, region) = region();
    let first = region.flush(region.store_u64(Site::Void, 128, 1));
    let _stored_later = region.store_u64(Site::Void, 136, 2);
    drop(region.fence(first));
    let written = notes.written.lock().expect("notes");
    assert_eq!(written[0].1[..16], [[1, 0, 0, 0, 0, 0, 0, 0], [2, 0, 0, 0, 0, 0, 0, 0]].concat());
}

#[test]
fn what_recovery_found_is_not_written_again() {
    let (notes, region) = region();
    let _found = region.copy(Site::RecoverAccepted, 0, &[1; 640]);
    let accepted = region.flush_range(Site::RecoverAccepted, 0, 640);
    let manifest = region.flush_range(Site::RecoverManifest, 640, 64);
    drop(region.fence(accepted.and(manifest)));
    assert_eq!(notes.take(), []);
}

#[test]
fn a_fence_covers_its_own_thread_and_its_own_region() {
    let (notes, one) = region();
    let (others, other) = region();
    let own = one.copy_nt(Site::Record, 0, &[1; 64]);
    let beside = other.copy_nt(Site::Record, 64, &[1; 64]);
    std::thread::scope(|scope| {
        scope.spawn(|| drop(one.fence(one.copy_nt(Site::Record, 640, &[2; 64]))));
    });
    assert_eq!(notes.take(), [(640, 64)]);
    drop(one.fence(own));
    assert_eq!((notes.take(), others.take()), (vec![(0, 64)], vec![]));
    drop(other.fence(beside));
    assert_eq!((notes.take(), others.take()), (vec![], vec![(64, 64)]));
}

#[test]
fn a_failure_is_told_by_fences_that_ask() {
    let (notes, region) = region();
    region.check_journal().expect("sound");
    region.sync_journal().expect("sound");
    notes.broken.store(true, Relaxed);
    let flight = region.copy_nt(Site::Record, 0, &[1; 64]);
    assert_eq!(region.try_fence(flight).expect_err("full").kind(), ErrorKind::NoSpace);
    assert!(region.check_journal().is_err() && region.sync_journal().is_err());
    // Others of the same process have nothing to do with it.
    let heap = Region::heap(64, None).expect("heap");
    drop(heap.try_fence(heap.copy_nt(Site::Record, 0, &[1; 64])).expect("no journal"));
    heap.discard(0, 64);
    heap.sync_journal().expect("nothing to sync");
}

#[test]
fn the_journal_says_what_the_region_is() {
    let (notes, region) = region();
    assert_eq!(region.durability(), Durability::Synced);
    assert_eq!(
        (region.durability_note(), region.describe()),
        ("notes".into(), "DRAM with notes".into())
    );
    assert_eq!((region.flush_instruction(), region.is_read_only()), ("none", false));
    assert_eq!(region.journal().expect("journaled").figures().segments, 3);
    region.discard(128, 256);
    assert_eq!(*notes.discarded.lock().expect("notes"), [(128, 256)]);
}

#[test]
fn what_is_submitted_is_durable_once_it_is_settled_as_it_was_promised() {
    let (notes, region) = region();
    let first = region.submit(region.copy_nt(Site::Record, 0, &[1; 64]), Some(Promise::Written));
    let second = region.submit(region.copy_nt(Site::Record, 64, &[2; 64]), None);
    assert_eq!(notes.take(), [(0, 64), (64, 64)], "handed over at once");
    let needs = [first.needs(), second.needs()];
    assert_eq!(needs.map(|needs| needs.promise), [Promise::Written, Promise::Synced]);
    assert!(!needs.iter().any(|needs| region.durable().covers(*needs)));
    let told = AtomicU64::new(0);
    let settled = region.settle(needs[0], &|durable| {
        assert!(durable.covers(needs[0]));
        told.fetch_add(1, Relaxed);
    });
    assert!(settled.expect("sound").covers(needs[0]));
    assert_eq!(told.load(Relaxed), 1);
    assert!(!region.durable().covers(needs[1]));
    notes.broken.store(true, Relaxed);
    assert!(region.settle(needs[0], &|_| {}).is_ok(), "it was durable before");
    assert_eq!(region.settle(needs[1], &|_| {}).expect_err("full").kind(), ErrorKind::NoSpace);
}

#[test]
fn without_a_journal_what_is_submitted_is_fenced() {
    let heap = Region::heap(4096, None).expect("heap");
    let flight = heap.copy_nt(Site::Record, 0, &[1; 64]);
    let submitted = heap.submit(flight, Some(Promise::Written));
    assert!(heap.durable().covers(submitted.needs()));
    assert!(heap.settle(submitted.needs(), &|_| {}).is_ok());
}
