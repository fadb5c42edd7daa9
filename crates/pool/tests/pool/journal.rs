//! A pool in DRAM, kept by a journal: what is of no use any more, and failures.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use base::{Error, ErrorKind, PmOffset, Result};
use pmem::{Durability, Journal, JournalFigures, Promise, Region, Site};
use pool::{Pool, ZoneHeader, ZoneKind};

use super::{ID, TINY, TINY_LEN};

/// The bytes that were written and not discarded since, and whether writing works.
#[derive(Default)]
struct Kept {
    lines: Mutex<std::collections::BTreeMap<u64, [u8; 64]>>,
    broken: AtomicBool,
}

impl Journal for Kept {
    fn submit(&self, ranges: &[(u64, &[u8])], _promise: Promise) -> u64 {
        let mut lines = self.lines.lock().unwrap();
        for (at, bytes) in ranges.iter().filter(|_| !self.broken.load(Relaxed)) {
            for (line, bytes) in (*at..).step_by(64).zip(bytes.chunks_exact(64)) {
                lines.insert(line, bytes.try_into().unwrap());
            }
        }
        0
    }

    fn submitted(&self) -> u64 {
        0
    }

    fn settle(&self, _position: u64, _promise: Promise, _settled: &dyn Fn()) {}

    fn reached(&self, _promise: Promise) -> u64 {
        0
    }

    fn promise(&self) -> Promise {
        Promise::Synced
    }

    fn discard(&self, at: u64, len: u64) {
        self.lines.lock().unwrap().retain(|line, _| !(at..at + len).contains(line));
    }

    fn failure(&self) -> Option<Error> {
        self.broken.load(Relaxed).then(|| Error::new(ErrorKind::Io, "write log", "broken"))
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn durability(&self) -> (Durability, String) {
        (Durability::Synced, "kept".into())
    }

    fn describe(&self) -> String {
        "kept".into()
    }

    fn figures(&self) -> JournalFigures {
        JournalFigures::default()
    }
}

impl Kept {
    fn region(self: &Arc<Self>) -> Arc<Region> {
        let region = Region::journaled(TINY_LEN, Arc::clone(self) as _).unwrap();
        for (line, bytes) in self.lines.lock().unwrap().iter() {
            let _as_it_was = region.copy(Site::Format, *line, bytes);
        }
        Arc::new(region)
    }

    fn lines_in(&self, range: std::ops::Range<PmOffset>) -> usize {
        self.lines.lock().unwrap().range(range.start.get()..range.end.get()).count()
    }
}

const HEADER: ZoneHeader = ZoneHeader {
    kind: ZoneKind::Memtable,
    epoch: 1,
    grant: 1,
    keyspace: 0,
    subrange: 0,
    base_seq: base::Seq::new(1),
};

#[test]
fn what_is_kept_is_a_pool_and_free_space_is_not_kept() {
    let kept = Arc::new(Kept::default());
    let pool = Pool::create(kept.region(), TINY, ID, b"snapshot").unwrap();
    let areas = pool.geometry().data().start - 2 * TINY.manifest_len..pool.geometry().data().start;
    assert!(kept.lines_in(areas.clone()) <= 3, "zeroes of the areas are not kept");
    let (zone, other) = (pool.take_zone().unwrap(), pool.take_zone().unwrap());
    let extent = pool.take_extent(300).unwrap();
    for (no, grant) in [(zone, 1), (other, 2)] {
        drop(pool.grant(no, &ZoneHeader { grant, ..HEADER }));
        let at = pool.geometry().zone_at(no);
        drop(pool.region().fence(pool.region().copy_nt(Site::Record, at.get(), &[7; 1024])));
    }
    drop(pool.region().fence(pool.region().copy_nt(Site::Extent, extent.at.get(), &[8; 512])));
    pool.log_append(b"edit").map(drop).unwrap();
    let data = pool.geometry().data();
    assert_eq!(kept.lines_in(data.clone()), 16 + 16 + 8);
    drop(pool.clear_zone(other));
    pool.release_zone(other);
    pool.release_extent(extent);
    assert_eq!(kept.lines_in(data.clone()), 16);

    // Opened again, what no claim covers is free.
    let (pool, replay) = Pool::open(kept.region()).unwrap();
    assert_eq!(replay.payloads, [b"snapshot".to_vec(), b"edit".to_vec()]);
    pool.claim_zone(zone).unwrap();
    pool.sweep();
    assert_eq!(kept.lines_in(data.clone()), 16);
    assert_eq!(pool.region().bytes(pool.geometry().zone_at(zone).get(), 1024), [7; 1024]);
    pool.flush_log().map(drop).unwrap();
    pool.log_begin(b"next").map(drop).unwrap();
    assert!(kept.lines_in(areas) <= 3, "the area before is not kept");
    let (pool, replay) = Pool::open(kept.region()).unwrap();
    assert_eq!(replay.payloads, [b"next".to_vec()]);
    pool.sweep();
    assert_eq!(kept.lines_in(data), 0, "a zone without an owner");
}

#[test]
fn an_edit_that_the_journal_did_not_take_is_an_error() {
    let kept = Arc::new(Kept::default());
    let pool = Pool::create(kept.region(), TINY, ID, b"snapshot").unwrap();
    pool.log_append(b"one").map(drop).unwrap();
    kept.broken.store(true, Relaxed);
    assert_eq!(pool.log_append(b"two").unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(pool.log_begin(b"new").unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(pool.flush_log().unwrap_err().kind(), ErrorKind::Io);
    kept.broken.store(false, Relaxed);
    let (_, replay) = Pool::open(kept.region()).unwrap();
    assert_eq!(replay.payloads, [b"snapshot".to_vec(), b"one".to_vec()]);
    kept.broken.store(true, Relaxed);
    let made = Pool::create(kept.region(), TINY, ID + 1, b"snapshot");
    assert_eq!(made.unwrap_err().kind(), ErrorKind::Io);
}

/// Memory that does not wear is used from the low end again and again, and what is free for two looks goes back.
#[test]
fn memory_that_nothing_uses_goes_back_and_what_is_in_use_stays() {
    const MIB: u64 = 1 << 20;
    let kept = Arc::new(Kept::default());
    let region = Arc::new(Region::journaled(32 * MIB, Arc::clone(&kept) as _).unwrap());
    let format = pool::Format { zone_len: 512 << 10, manifest_len: 64 << 10 };
    let pool = Pool::create(Arc::clone(&region), format, ID, b"snapshot").unwrap();
    let zone_len = pool.geometry().zone_len();
    let fill = |zone: u32| {
        let at = pool.geometry().zone_at(zone).get();
        let bytes = vec![zone as u8 + 1; zone_len as usize];
        drop(pool.region().copy_nt(Site::Record, at, &bytes));
    };
    for _ in 0..100 {
        let zone = pool.take_zone().unwrap();
        drop(pool.grant(zone, &HEADER));
        drop(pool.clear_zone(zone));
        pool.release_zone(zone);
        assert_eq!(zone, 0);
    }
    assert_eq!(pool.wear().most, 0.0, "nothing wears");
    let zones: Vec<u32> = std::iter::from_fn(|| pool.take_zone()).collect();
    zones.iter().for_each(|zone| fill(*zone));
    let resident = || region.pages().expect("told").resident;
    assert!(resident() > 30 * MIB);
    assert!(!pool.has_pages_to_give(), "all is in use");
    // All but the first zone and one in the middle go.
    let stays = [0, zones.len() as u32 / 2];
    zones.iter().filter(|zone| !stays.contains(zone)).for_each(|zone| pool.release_zone(*zone));
    assert!(pool.has_pages_to_give());
    pool.give_back();
    assert!(resident() > 30 * MIB, "it may be needed again soon");
    let taken = pool.take_zone().unwrap();
    pool.release_zone(taken);
    pool.give_back();
    let after = resident();
    assert!((2 * MIB..=8 * MIB).contains(&after), "{after}");
    for zone in stays {
        let bytes = region.bytes(pool.geometry().zone_at(zone).get(), zone_len as usize);
        assert!(bytes.iter().all(|byte| *byte == zone as u8 + 1), "zone {zone}");
    }
    pool.give_back();
    assert!(!pool.has_pages_to_give());
    // What went is there again when it is needed.
    let again: Vec<u32> = std::iter::from_fn(|| pool.take_zone()).collect();
    assert_eq!(again.len() + stays.len(), zones.len());
    again.iter().for_each(|zone| fill(*zone));
    assert!(resident() > 30 * MIB);
}
