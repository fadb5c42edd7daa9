//! What blocks of fast devices are to the block cache: low, not kept, or as others; that the cache follows what is read, and files that move.

use crate::common::{Place, noise, numbered as key, small_levels};
use ssd::{Memory, SsdModel};
use strandline::{
    CacheFigures, CacheOutputs, Compression, Db, FastBlocks, Keyspace, KeyspaceOptions,
    KeyspaceTiers, Options, TierSource, TierSpec,
};

const FAST: &str = "/fast";
const OWN: &str = "/sst";
const KEYS: u64 = 4000;
const CACHE: u64 = 256 << 10;

/// A fast directory, and the store's own: by their models, so that no clock says which is fast.
fn options(fast: FastBlocks) -> Options {
    let model = |text: &str| text.parse::<SsdModel>().expect("model");
    let own = model("nvme-tlc,read=20us,read_bandwidth=0,read_iops=0");
    let dirs = vec![
        TierSpec::new(FAST, 0).model(model("optane-dax,read=1us,read_bandwidth=0")),
        TierSpec::new(OWN, 0).model(own),
    ];
    small_levels()
        .tiers(TierSource::Dirs(dirs))
        .compression(Compression::None)
        .block_bytes(512)
        .block_cache(CACHE)
        .cache_records(false)
        .fast_blocks(fast)
}

fn within(dir: &str) -> KeyspaceOptions {
    KeyspaceOptions::new().tiers(KeyspaceTiers::Dirs(vec![dir.into()]))
}

fn work(db: &Db) {
    while !db.work(1 << 20).expect("work").is_idle() {}
}

/// A store with a keyspace in each directory.
struct Two {
    db: Db,
    fast: Keyspace,
    slow: Keyspace,
}

impl Two {
    fn new(place: &Place, options: Options) -> Two {
        let db = place.open(options);
        let fast = db.create_keyspace_with("fast", within(FAST)).expect("create");
        let slow = db.create_keyspace_with("slow", within(OWN)).expect("create");
        for i in 0..KEYS {
            fast.put(key(i), noise(i, 1)).expect("put");
            slow.put(key(i), noise(i, 2)).expect("put");
            if i % 100 == 0 {
                work(&db);
            }
        }
        db.compact().expect("compact");
        work(&db);
        Two { db, fast, slow }
    }

    fn figures(&self) -> CacheFigures {
        self.db.properties().ssd.expect("tables").cache
    }

    /// Gets of each keyspace's numbers, all of them compared; how the figures changed.
    fn read(&self, fast: &[u64], slow: &[u64]) -> CacheFigures {
        let before = self.figures();
        let all = [(&self.fast, fast, 1), (&self.slow, slow, 2)];
        for at in 0..fast.len().max(slow.len()) {
            for (space, numbers, round) in all {
                let Some(i) = numbers.get(at) else { continue };
                let value = space.get(key(*i)).expect("get");
                assert_eq!(value.as_deref(), Some(&noise(*i, round)[..]), "{i}");
            }
        }
        let after = self.figures();
        assert!(after.charged <= after.budget, "{after:?}");
        assert_eq!(after.low_hits.min(after.hits), after.low_hits);
        let mut changed = after;
        changed.hits -= before.hits;
        changed.misses -= before.misses;
        changed.low_hits -= before.low_hits;
        changed.low_misses -= before.low_misses;
        changed.bypassed -= before.bypassed;
        changed
    }
}

/// Numbers below `below`, in no order.
fn scattered(count: u64, below: u64, seed: u64) -> Vec<u64> {
    let mixed = |i: u64| (i + seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    (0..count).map(|i| mixed(i) % below).collect()
}

fn place() -> Place {
    Place::new(small_levels().pm_size, Memory::default())
}

#[test]
fn the_slow_device_has_the_cache_until_only_the_fast_one_is_read() {
    for value_files_min in [0, 100] {
        let place = place();
        let two = Two::new(&place, options(FastBlocks::Low).value_files_min(value_files_min));
        two.read(&[0], &[0]);
        let both = two.read(&scattered(4000, KEYS, 1), &scattered(4000, KEYS, 2));
        assert!(both.low < both.charged / 8 && both.low_share < both.budget / 8, "{both:?}");
        assert!(both.low_misses > 2000 && both.bypassed == 0, "{both:?}");
        let [slow_hits, fast_hits] = [both.hits - both.low_hits, both.low_hits];
        assert!(slow_hits > 4 * fast_hits, "{both:?}");
        // What is read on the fast device alone, again and again, gets room in time.
        let few = scattered(4000, 400, 3);
        let (mut last, mut rounds) = (both, 0);
        while last.low_share < last.budget / 2 {
            last = two.read(&few, &[]);
            rounds += 1;
            assert!(rounds < 400, "{last:?}");
        }
        let share = |it: &CacheFigures| it.low_hits as f64 / (it.low_hits + it.low_misses) as f64;
        assert!(share(&last) > 0.5 && share(&both) < 0.2, "{both:?} {last:?}");
        assert!(last.low > 2 * both.low, "{both:?} {last:?}");
        // And loses it again.
        let slow = two.read(&[], &scattered(20_000, KEYS, 4));
        assert!(slow.low_share < last.low_share, "{slow:?} {last:?}");
    }
}

#[test]
fn other_settings_keep_them_not_at_all_or_like_others() {
    let numbers = [scattered(4000, KEYS, 1), scattered(4000, KEYS, 2)];
    let place_of = |fast| {
        let place = place();
        let two = Two::new(&place, options(fast));
        two.read(&[0], &[0]);
        let some = two.read(&scattered(100, 60, 1), &[]);
        (two.read(&numbers[0], &numbers[1]), some)
    };
    let (bypass, some) = place_of(FastBlocks::Bypass);
    assert!(some.low > 0 && some.low_hits >= 30 && some.bypassed == 0, "there is room: {some:?}");
    assert!(bypass.bypassed > 2000 && bypass.bypassed <= bypass.low_misses, "{bypass:?}");
    assert!(bypass.low < bypass.charged / 8, "{bypass:?}");
    let (equal, _) = place_of(FastBlocks::Equal);
    let low = [equal.low, equal.low_share, equal.low_hits, equal.low_misses, equal.bypassed];
    assert_eq!(low, [0; 5]);
    assert!(bypass.misses >= equal.misses - equal.misses / 8, "uniform: {bypass:?} {equal:?}");
    let mut options = Options::default();
    assert_eq!(options.fast_blocks, FastBlocks::Low);
    for fast in FastBlocks::ALL {
        options.set("fast_blocks", fast.name()).expect("set");
        assert_eq!(options.fast_blocks, fast);
    }
    assert!(options.set("fast_blocks", "never").is_err());
}

#[test]
fn blocks_follow_files_that_move() {
    for value_files_min in [0, 100] {
        let place = place();
        // All have room.
        let options = options(FastBlocks::Low).value_files_min(value_files_min);
        let two = Two::new(&place, options.block_cache(8 << 20));
        two.read(&[0], &[0]);
        let all: Vec<u64> = (0..KEYS).collect();
        let there = two.read(&all, &all);
        assert!(there.low_misses > 10 && there.low > CACHE, "{there:?}");
        two.fast.set_options(&within(OWN)).expect("set");
        two.db.compact().expect("compact");
        work(&two.db);
        assert_eq!(two.figures().low, 0, "what was read at the old place went with it");
        let moved = two.read(&all, &all);
        assert_eq!((moved.low, moved.low_misses, moved.low_hits), (0, 0, 0));
        assert!(moved.misses > 10, "they are read again");
        two.slow.set_options(&within(FAST)).expect("set");
        two.db.compact().expect("compact");
        work(&two.db);
        let back = two.read(&all, &all);
        assert!(back.low > CACHE && back.low_misses > 10, "{back:?}");
    }
}

#[test]
fn outputs_that_are_put_in_have_the_priority_of_their_device() {
    let place = place();
    let given = options(FastBlocks::Low).block_cache(8 << 20).cache_outputs(CacheOutputs::Warm);
    let two = Two::new(&place, given);
    two.read(&[0], &[0]);
    let hot: Vec<u64> = (1000..1200).collect();
    two.read(&hot, &hot);
    let before = two.figures();
    for i in (0..KEYS).step_by(40) {
        two.fast.put(key(i), noise(i, 1)).expect("put");
        two.slow.put(key(i), noise(i, 2)).expect("put");
    }
    two.db.compact().expect("compact");
    work(&two.db);
    let warm = two.figures();
    assert!(warm.warmed > before.low / 1000, "{before:?} {warm:?}");
    assert!(warm.low > before.low / 2 && warm.low < warm.charged, "{before:?} {warm:?}");
    assert_eq!(warm.low_misses, before.low_misses, "no reader missed them");
    let read = two.read(&hot, &hot);
    assert_eq!((read.low_misses, read.misses), (0, 0), "{read:?}");
    assert!(read.low_hits >= 200, "{read:?}");
}

/// A device that only gets of several keys at once read was not known to be read, so no other was fast beside it.
#[test]
fn gets_of_several_keys_tell_which_device_is_slow() {
    for value_files_min in [0, 100] {
        let place = place();
        let two = Two::new(&place, options(FastBlocks::Low).value_files_min(value_files_min));
        let keys: Vec<_> = (0..KEYS).step_by(20).map(key).collect();
        for space in [&two.slow, &two.fast] {
            for keys in keys.chunks(25) {
                let found = space.multi_get(keys).expect("get");
                assert!(found.iter().all(Option::is_some));
            }
        }
        let figures = two.figures();
        assert!(figures.low > 0 && figures.low_misses > 40, "{figures:?}");
    }
}
