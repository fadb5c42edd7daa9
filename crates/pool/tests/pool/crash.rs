//! Power cuts. A tiny domain keeps what is durable (stored → dirty, flushed → queued, fenced → durable),
//! and at every event collects that image and a few in which some 8-byte atoms got through early.
//! Opening any of them must give the state before the operation or the one after it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use base::ErrorKind;
use base::planted::{self, Bug};
use pmem::{Domain, StoreMode};
use pool::HeaderState;

use super::*;

const EARLY_IMAGES: usize = 6;

struct Power {
    state: Mutex<State>,
    /// Flushes at this site are lost.
    deaf: Option<Site>,
}

struct State {
    durable: Vec<u8>,
    queued: BTreeMap<usize, Vec<u8>>,
    images: Vec<Vec<u8>>,
    rng: Rng,
}

impl Power {
    fn new(durable: &[u8], deaf: Option<Site>) -> Arc<Power> {
        let (queued, images) = (BTreeMap::new(), Vec::new());
        let state = State { durable: durable.to_vec(), queued, images, rng: Rng::new(3) };
        Arc::new(Power { state: Mutex::new(state), deaf })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// The images collected since the last call, and the durable one at this moment.
    fn take(&self) -> (Vec<Vec<u8>>, Vec<u8>) {
        let mut state = self.lock();
        let mut images = std::mem::take(&mut state.images);
        images.sort();
        images.dedup();
        (images, state.durable.clone())
    }

    fn queue(&self, live: &[u8], at: u64, len: usize) {
        let first = at as usize / 64 * 64;
        let mut state = self.lock();
        for line in (first..at as usize + len).step_by(64) {
            state.queued.insert(line, live[line..line + 64].to_vec());
        }
    }
}

impl State {
    fn collect(&mut self, live: &[u8]) {
        self.images.push(self.durable.clone());
        let open: Vec<usize> = (0..live.len())
            .step_by(8)
            .filter(|at| live[*at..at + 8] != self.durable[*at..at + 8])
            .collect();
        for _ in 0..if open.is_empty() { 0 } else { EARLY_IMAGES } {
            let mut image = self.durable.clone();
            let odds = 1 + self.rng.below(8);
            for at in &open {
                if self.rng.below(9) < odds {
                    image[*at..at + 8].copy_from_slice(&live[*at..at + 8]);
                }
            }
            self.images.push(image);
        }
    }
}

impl Domain for Power {
    fn store(&self, region: &Region, site: Site, at: u64, len: usize, mode: StoreMode) {
        let live = image(region);
        if mode == StoreMode::Streamed && self.deaf != Some(site) {
            self.queue(&live, at, len);
        }
        self.lock().collect(&live);
    }

    fn flush(&self, region: &Region, site: Site, at: u64, len: usize) {
        let live = image(region);
        if self.deaf != Some(site) {
            self.queue(&live, at, len);
        }
        self.lock().collect(&live);
    }

    fn fence(&self, region: &Region, _site: Site) {
        let live = image(region);
        let mut state = self.lock();
        for (line, bytes) in std::mem::take(&mut state.queued) {
            state.durable[line..line + 64].copy_from_slice(&bytes);
        }
        state.collect(&live);
    }

    fn load(&self, _region: &Region, _at: u64, _len: usize) {}
}

/// A region that now reads as `live`; `durable` survives.
fn watched(live: &[u8], durable: &[u8], deaf: Option<Site>) -> (Arc<Region>, Arc<Power>) {
    let power = Power::new(durable, deaf);
    let region = Region::heap(live.len() as u64, Some(power.clone())).unwrap();
    let _stored = region.copy(Site::Format, 0, live);
    let _events = power.take();
    (Arc::new(region), power)
}

type Payloads = Vec<Vec<u8>>;

fn payloads(image: &[u8]) -> Result<Payloads, ErrorKind> {
    Pool::open(region_of(image)).map(|(_, replay)| replay.payloads).map_err(|error| error.kind())
}

fn list(payloads: &[&[u8]]) -> Payloads {
    payloads.iter().map(|payload| payload.to_vec()).collect()
}

/// Runs appends and begins; the first image that is neither before nor after an operation, in words.
fn live_through(deaf: Option<Site>) -> Result<usize, String> {
    let format = Format { manifest_len: 1024, ..TINY };
    let base = image(Pool::create(heap(3 * TINY_LEN), format, ID, b"s0").unwrap().region());
    let (region, power) = watched(&base, &base, deaf);
    let pool = recover_in(region);
    // No more than longer areas need beside those that they follow.
    let _taken = pool.take_extent(pool.space().free - (12 << 10));
    let (_, durable) = power.take();
    let mut expected = list(&[b"recovered"]);
    if payloads(&durable).as_ref() != Ok(&expected) {
        return Err("recovery did not last".into());
    }
    let mut rng = Rng::new(21);
    let mut images_seen = 0;
    for round in 0..120 {
        // Now and then too long for its area, so that the log moves to larger ones, and back.
        let long = round % 4 == 3 && round % 16 != 15;
        let len = rng.below(if long { 2500 } else { 400 }) as usize;
        let payload = rng.bytes(len);
        let mut after = expected.clone();
        if round % 4 == 3 || !pool.log_fits(len) {
            begin(&pool, &payload);
            after = vec![payload];
        } else {
            append(&pool, &payload);
            after.push(payload);
        }
        let (images, durable) = power.take();
        images_seen += images.len();
        for image in images {
            let found = payloads(&image);
            if found.as_ref() != Ok(&expected) && found.as_ref() != Ok(&after) {
                return Err(format!("round {round}: {found:?}"));
            }
        }
        if payloads(&durable).as_ref() != Ok(&after) {
            return Err(format!("round {round}: lost"));
        }
        expected = after;
    }
    Ok(images_seen)
}

fn recover_in(region: Arc<Region>) -> Pool {
    let (pool, _) = Pool::open(region).unwrap();
    pool.flush_log().map(drop).unwrap();
    pool.sweep();
    begin(&pool, b"recovered");
    pool
}

#[test]
fn appends_and_begins_are_all_or_nothing() {
    let images = live_through(None).unwrap();
    assert!(images > 2000, "{images}");
}

#[test]
fn a_lost_flush_at_any_site_of_the_log_is_noticed() {
    for site in [Site::ManifestEdit, Site::ManifestSnapshot, Site::Superblock] {
        assert!(live_through(Some(site)).is_err(), "{site:?}");
    }
}

#[test]
fn a_superblock_kept_once_or_a_log_that_moves_too_early_is_noticed() {
    for bug in [Bug::OneSuperblockSlot, Bug::SuperblockBeforeLog, Bug::LogAreasFreedEarly] {
        planted::plant(Some(bug));
        let outcome = live_through(None);
        planted::plant(None);
        assert!(outcome.is_err(), "{bug:?}");
    }
}

#[test]
fn recovery_may_lose_power_itself_again_and_again() {
    let old = tiny(b"old");
    append(&old, b"edit");
    let (region, power) = watched(&image(old.region()), &image(old.region()), None);
    let pool = recover_in(region);
    append(&pool, b"new");
    let (images, _) = power.take();
    let outcomes = [list(&[b"old", b"edit"]), list(&[b"recovered"]), list(&[b"recovered", b"new"])];
    for image in images.iter().step_by(5) {
        let before = payloads(image).unwrap();
        assert!(outcomes.contains(&before), "{before:?}");
        let (region, power) = watched(image, image, None);
        let pool = recover_in(region);
        let recovered = list(&[b"recovered"]);
        let (images, durable) = power.take();
        for image in images {
            let found = payloads(&image).unwrap();
            assert!(found == before || found == recovered, "{found:?}");
        }
        assert_eq!(payloads(&durable).unwrap(), recovered);
        assert!(!pool.view().to_string().contains("behind"));
    }
}

/// Overwriting the only good slot would be the end of the pool.
#[test]
fn a_log_begun_on_one_good_slot_repairs_the_other_first() {
    let pool = tiny(b"old");
    let old_slot = image(pool.region())[..128].to_vec();
    begin(&pool, b"new");
    for slot in [0, 2048] {
        for wound in [&[0; 128][..], &old_slot] {
            let mut base = image(pool.region());
            base[slot..slot + 128].copy_from_slice(wound);
            let (region, power) = watched(&base, &base, None);
            let (opened, _) = Pool::open(region).unwrap();
            begin(&opened, b"newer");
            let (images, durable) = power.take();
            for image in images {
                let found = payloads(&image).unwrap();
                assert!([list(&[b"new"]), list(&[b"newer"])].contains(&found), "{found:?}");
            }
            assert_eq!(payloads(&durable).unwrap(), list(&[b"newer"]));
        }
    }
}

/// The process dies with its stores in the caches; a later power cut must not take back what the
/// next process read.
#[test]
fn what_an_open_has_read_stays_after_flush_log() {
    let base = image(recover(&image(tiny(b"s").region()), b"base").region());
    let (region, power) = watched(&base, &base, None);
    let (pool, _) = Pool::open(region).unwrap();
    pool.sweep();
    begin(&pool, b"begun");
    append(&pool, b"edit");
    pool.claim_zone(2).unwrap();
    let _durable = pool.grant(2, &zones::header(2));
    let (images, _) = power.take();
    for live in images.iter().step_by(3) {
        let (region, power) = watched(live, &base, None);
        let (pool, replay) = Pool::open(region).unwrap();
        let header = pool.header(2);
        pool.flush_log().map(drop).unwrap();
        let (images, durable) = power.take();
        assert!(!images.is_empty());
        assert_eq!(payloads(&durable).unwrap(), replay.payloads);
        assert_eq!(Pool::open(region_of(&durable)).unwrap().0.header(2), header);
        let view = Pool::open(region_of(&durable)).unwrap().0.view().to_string();
        assert_eq!(view.matches(" valid\n").count(), 2, "{view}");
    }
}

#[test]
fn a_creation_that_is_cut_short_left_no_pool() {
    let blank = vec![0; TINY_LEN as usize];
    let (region, power) = watched(&blank, &blank, None);
    let _pool = Pool::create(region, TINY, ID, b"snapshot").unwrap();
    let (images, durable) = power.take();
    let whole = list(&[b"snapshot"]);
    assert_eq!(payloads(&durable).unwrap(), whole);
    let mut unfinished = 0;
    for image in images {
        match payloads(&image) {
            Ok(found) => assert_eq!(found, whole),
            Err(kind) => {
                assert_eq!(kind, ErrorKind::NotFound);
                unfinished += 1;
            }
        }
    }
    assert!(unfinished > 10);
}

#[test]
fn a_creation_over_a_pool_leaves_the_old_one_none_or_the_new_one() {
    let old = image(tiny(b"old").region());
    let (region, power) = watched(&old, &old, None);
    let _pool = Pool::create(region, TINY, ID + 1, b"new").unwrap();
    let outcomes = [Ok(list(&[b"old"])), Err(ErrorKind::NotFound), Ok(list(&[b"new"]))];
    let (images, durable) = power.take();
    for image in images {
        let found = payloads(&image);
        assert!(outcomes.contains(&found), "{found:?}");
    }
    assert_eq!(payloads(&durable), outcomes[2]);
}

/// What was granted in each zone, as an open of `image` reads it.
fn wear_in(image: &[u8]) -> (Vec<f64>, u32) {
    let (pool, _) = Pool::open(region_of(image)).unwrap();
    ((0..16).map(|no| pool.zone_wear(no)).collect(), pool.wear().unknown)
}

/// Zones granted and extents filled, counted by hand; the first image whose count is neither that before a grant nor that
/// after it, in words.
fn wear_through(deaf: Option<Site>) -> Result<usize, String> {
    let base = image(tiny(b"s").region());
    let (region, power) = watched(&base, &base, deaf);
    let pool = recover_in(region);
    let _events = power.take();
    let mut rng = Rng::new(8);
    let mut expected = vec![0.0; 16];
    let mut images_seen = 0;
    for round in 0..90 {
        let mut after = expected.clone();
        let data = pool.geometry().data().start;
        if round % 3 == 0 {
            let no = pool.take_zone().unwrap();
            let _durable = pool.grant(no, &zones::header(no));
            let _durable = pool.clear_zone(no);
            pool.release_zone(no);
            after[no as usize] += 1.0;
        } else {
            let extent = pool.take_extent(256 * (1 + rng.below(9))).unwrap();
            for grain in (0..extent.len).step_by(256) {
                after[((extent.at + grain - data) / 1024) as usize] += 0.25;
            }
            let content = pool.region().copy_nt(Site::Run, extent.at.get(), &[7; 64]);
            let _durable = pool.region().fence(content);
            pool.release_extent(extent);
        }
        let (images, durable) = power.take();
        images_seen += images.len();
        for image in images {
            let (found, unknown) = wear_in(&image);
            let counted = |no: usize| found[no] == expected[no] || found[no] == after[no];
            if unknown > 0 || !(0..16).all(counted) {
                return Err(format!("round {round}: {found:?}, {unknown} unknown"));
            }
        }
        if wear_in(&durable) != (after.clone(), 0) {
            return Err(format!("round {round}: lost"));
        }
        expected = after;
    }
    Ok(images_seen)
}

#[test]
fn wear_is_that_before_a_grant_or_that_after_it() {
    let images = wear_through(None).unwrap();
    assert!(images > 500, "{images}");
}

#[test]
fn a_lost_flush_of_the_wear_is_noticed() {
    let outcome = wear_through(Some(Site::ZoneGrant));
    assert_eq!(outcome, Err("round 0: lost".into()));
}

#[test]
fn zone_words_change_at_once() {
    let base = image(tiny(b"s").region());
    let (region, power) = watched(&base, &base, None);
    let (pool, _) = Pool::open(region).unwrap();
    pool.sweep();
    let no = pool.take_zone().unwrap();
    let header_in = |image: &[u8]| Pool::open(region_of(image)).unwrap().0.header(no);
    for life in 0..3 {
        let granted = HeaderState::Granted(zones::header(life));
        let _durable = pool.grant(no, &zones::header(life));
        let (images, durable) = power.take();
        assert_eq!(header_in(&durable), granted);
        for image in images {
            let found = header_in(&image);
            assert!([HeaderState::Free, HeaderState::Torn, granted].contains(&found), "{found:?}");
        }
        let _durable = pool.clear_zone(no);
        let (images, durable) = power.take();
        assert_eq!(header_in(&durable), HeaderState::Free);
        for image in images {
            let found = header_in(&image);
            assert!([HeaderState::Free, granted].contains(&found), "{found:?}");
        }
    }
}
