use base::random::Rng;
use pmem::Region;
use pool::{Format, Pool};

use super::*;
use crate::record::grants::Grants;

const ZONE: u64 = 16 << 10;

fn media(region: &Arc<Region>) -> Arc<Media> {
    let format = Format { zone_len: ZONE, manifest_len: 512 };
    let pool = Pool::create(Arc::clone(region), format, 7, b"").expect("pool");
    Arc::new(Media::new(pool, Arc::clone(region), None))
}

/// A cache of so many zones, which takes in all that it is offered.
fn started(media: &Arc<Media>, zones: u64, epoch: u32, found: Vec<Arc<Zone>>) -> PmCache {
    started_by(media, CachePolicy::BothWays, zones, epoch, found)
}

fn started_by(
    media: &Arc<Media>,
    policy: CachePolicy,
    zones: u64,
    epoch: u32,
    found: Vec<Arc<Zone>>,
) -> PmCache {
    let pending_free = Arc::new(PendingFree::default());
    let mut cache = PmCache::new(media, &pending_free, 75, policy, 1 << 20).expect("cache");
    cache.share = zones * ZONE;
    cache.restrict(2);
    cache.start(Arc::new(Grants::new(epoch)), found);
    cache
}

fn bytes(table: u64, offset: u64) -> Vec<u8> {
    // They save nothing when compressed, so that lengths are as given.
    let mut rng = Rng::new(table << 32 | offset);
    (0..900 + offset % 300).map(|_| rng.below(256) as u8).collect()
}

fn offer(cache: &PmCache, table: u64, offset: u64) {
    cache.offer_victim(table, offset, &bytes(table, offset), Place::Main);
}

fn has(cache: &PmCache, table: u64, offset: u64) -> bool {
    let found = cache.find(table, offset);
    assert!(found.as_ref().is_none_or(|found| found.bytes == bytes(table, offset)));
    found.is_some()
}

/// Numbers of tables come again after a crash: what the table was with this number before says nothing of it.
#[test]
fn an_open_finds_entries_of_tables_with_the_same_number_and_checksum() {
    let region = Arc::new(Region::heap(64 * ZONE, None).expect("region"));
    let media = media(&region);
    let cache = started(&media, 20, 1, Vec::new());
    let known: Vec<_> = (1..=3).map(|table| cache.know(table, 100 + table, || false)).collect();
    (1..=3).for_each(|table| (0..40).for_each(|offset| offer(&cache, table, offset)));
    assert_eq!(cache.figures().entries, 120);
    drop((cache, known));
    drop(media);
    let (pool, _) = Pool::open(Arc::clone(&region)).expect("open");
    let media = Arc::new(Media::new(pool, Arc::clone(&region), None));
    let pending_free = Arc::new(PendingFree::default());
    let found = claim_zones(&media, &pending_free, 20);
    assert_eq!(media.pool.sweep().granted, 0);
    let cache = started(&media, 20, 2, found);
    // One is as it was, one has its number from a table that is gone, one is not there.
    let _known = [cache.know(1, 101, || false), cache.know(2, 999, || false)];
    while cache.warm_one() {}
    assert_eq!((cache.figures().warm, cache.figures().entries), (40, 40));
    assert!((0..40).all(|offset| has(&cache, 1, offset) && !has(&cache, 2, offset)));
    assert!((0..40).all(|offset| !has(&cache, 3, offset)));
    // What comes now goes to zones of this open.
    offer(&cache, 2, 7);
    assert!(has(&cache, 2, 7) && cache.figures().failed == 0);
}

#[test]
fn what_is_found_stays_and_the_rest_goes_in_its_turn() {
    let region = Arc::new(Region::heap(64 * ZONE, None).expect("region"));
    let media = media(&region);
    let cache = started(&media, 5, 1, Vec::new());
    let _known = cache.know(1, 1, || false);
    for offset in 0..2000 {
        offer(&cache, 1, offset);
        if offset >= 40 {
            assert!((0..40).step_by(2).all(|hot| has(&cache, 1, hot)), "{offset}");
        }
    }
    let figures = cache.figures();
    assert_eq!(figures.taken, 5 * ZONE);
    assert!(figures.carried_over > 100 && figures.inserts == 2000, "{figures:?}");
    assert!(!has(&cache, 1, 1000), "it came long ago, and was never found");
    assert!(has(&cache, 1, 1999));
}

/// Blocks that compress take less, and come back as they were.
#[test]
fn what_compresses_takes_less_room() {
    let region = Arc::new(Region::heap(64 * ZONE, None).expect("region"));
    let media = media(&region);
    let cache = started(&media, 5, 1, Vec::new());
    let _known = cache.know(1, 1, || false);
    let block = |offset: u64| [vec![offset as u8; 3000], bytes(1, offset)].concat();
    (0..60).for_each(|offset| cache.offer_victim(1, offset, &block(offset), Place::Main));
    let figures = cache.figures();
    assert_eq!((figures.entries, figures.failed), (60, 0));
    assert!(figures.bytes < 60 * 1300, "{figures:?}");
    for offset in 0..60 {
        let found = cache.find(1, offset).expect("an entry");
        assert!(found.bytes == block(offset), "{offset}");
    }
}

#[test]
fn zones_that_are_given_back_are_free_once_reclaimed_and_nothing_leads_there() {
    let region = Arc::new(Region::heap(64 * ZONE, None).expect("region"));
    let media = media(&region);
    let cache = started(&media, 8, 1, Vec::new());
    let _known = cache.know(1, 1, || false);
    (0..80).for_each(|offset| offer(&cache, 1, offset));
    let taken = cache.figures().taken / ZONE;
    assert!(taken > 4);
    let reader = cache.located(EntryKey { table: 1, offset: 0 }).expect("an entry");
    assert_eq!(cache.give_back(3), 3);
    let waiting = |cache: &PmCache| cache.pending_free.waiting().cache_zones.len();
    assert_eq!((waiting(&cache), cache.pending_free.awaits_readers()), (2, true));
    assert!(!has(&cache, 1, 0) && has(&cache, 1, 79));
    drop(reader);
    assert_eq!(waiting(&cache), 3);
    assert_eq!(cache.give_back(100), taken - 3);
    assert_eq!((cache.figures().entries, cache.figures().bytes), (0, 0));
    assert_eq!(cache.give_back(1), 0);
    offer(&cache, 1, 5);
    assert!(has(&cache, 1, 5), "it begins anew");
}

#[test]
fn a_full_cache_takes_what_finds_pay_for_and_one_of_sixteen_besides() {
    let region = Arc::new(Region::heap(64 * ZONE, None).expect("region"));
    let media = media(&region);
    let cache = started_by(&media, CachePolicy::Auto, 6, 1, Vec::new());
    let _known = [cache.know(1, 1, || false), cache.know(2, 2, || true)];
    (0..200).for_each(|offset| offer(&cache, 1, offset));
    let full = cache.figures();
    assert_eq!(full.taken, 6 * ZONE);
    // All were used in DRAM, and none is found here.
    (1000..2600).for_each(|offset| offer(&cache, 1, offset));
    let strays = cache.figures().inserts - full.inserts;
    assert!((90..=110).contains(&strays), "{strays} of 1600");
    // What is found pays for as many bytes.
    for _ in 0..40 {
        let last = (1000..2600).rev().find(|offset| cache.has(1, *offset)).expect("an entry");
        assert!(has(&cache, 1, last));
    }
    let before = cache.figures().inserts;
    (3000..3400).for_each(|offset| offer(&cache, 1, offset));
    let paid = cache.figures().inserts - before;
    assert!((40..=90).contains(&paid), "{paid} of 400");
    // What was not used comes for the second time; what is about to be replaced never does.
    let first = |cache: &PmCache, table, offset| {
        cache.offer_victim(table, offset, &bytes(table, offset), Place::Probation);
    };
    let before = cache.figures().inserts;
    (5000..5040).for_each(|offset| first(&cache, 1, offset));
    (0..400).for_each(|offset| offer(&cache, 2, offset));
    assert_eq!(cache.figures().inserts, before);
}

#[test]
fn zones_of_an_earlier_open_are_given_back_before_they_were_walked_through() {
    let region = Arc::new(Region::heap(64 * ZONE, None).expect("region"));
    let first = media(&region);
    let cache = started(&first, 20, 1, Vec::new());
    let known = cache.know(1, 1, || false);
    (0..150).for_each(|offset| offer(&cache, 1, offset));
    let zones = cache.figures().taken / ZONE;
    drop((known, cache, first));
    let (pool, _) = Pool::open(Arc::clone(&region)).expect("open");
    let media = Arc::new(Media::new(pool, Arc::clone(&region), None));
    let found = claim_zones(&media, &Arc::new(PendingFree::default()), 20);
    media.pool.sweep();
    let cache = started(&media, 20, 2, found);
    let _known = cache.know(1, 1, || false);
    assert!(cache.warm_one());
    assert_eq!(cache.give_back(zones), zones);
    let waiting = |cache: &PmCache| cache.pending_free.awaits_readers();
    assert!(!waiting(&cache) && !cache.warm_one() && cache.figures().entries == 0);
}

/// Blocks come from threads of other stores after the store is closed.
#[test]
fn nothing_is_written_once_the_store_is_closed() {
    let region = Arc::new(Region::heap(64 * ZONE, None).expect("region"));
    let cache = started(&media(&region), 8, 1, Vec::new());
    let _known = cache.know(1, 1, || false);
    offer(&cache, 1, 1);
    cache.shut();
    let before = region.bytes(0, region.len() as usize).to_vec();
    (2..100).for_each(|offset| offer(&cache, 1, offset));
    assert!(cache.is_unused() && region.bytes(0, before.len()) == before);
    assert!(has(&cache, 1, 1) && !has(&cache, 1, 2));
}
