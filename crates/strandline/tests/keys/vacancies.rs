//! Scans jump over what is gone. The tests count the deleted entries that scans pass, never time.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use crate::common::{Place, heap, numbered, small_levels};
use ssd::Fs;
use strandline::{
    Db, Hooks, Keyspace, Level0Form, Options, PRESETS, PmSource, ReadOptions, Snapshot, SsdSource,
    steps,
};
use testkit::Rng;

/// What one scan may walk of what is gone: what it takes to make a vacancy known, and as much again.
const FEW: u64 = 80;

/// A store with these options, wherever they want their bytes.
fn store(options: &Options) -> Db {
    let fs: Arc<dyn Fs> = Arc::new(ssd::Memory::default());
    for dir in ["/sst", "/wal"] {
        fs.create_dir_all(Path::new(dir)).expect("directory");
    }
    let region = match options.pm {
        PmSource::Dram => {
            let (on, dir) = (Arc::clone(&fs), Path::new("/wal"));
            let region = steps::journaled(on, dir, options, Some((7, options.pm_size)));
            region.expect("log").expect("a region")
        }
        _ => heap(options.pm_size),
    };
    let tables = (options.ssd != SsdSource::None).then(|| (fs, Path::new("/sst")));
    steps::open(region, tables, options.clone(), Hooks::default()).expect("open")
}

/// Every preset with little memory, and one without SSD.
fn presets() -> Vec<(&'static str, Options)> {
    let small = |name: &'static str| {
        let Options { pm, level0, pm_tables, subranges, .. } = Options::preset(name).expect(name);
        (name, small_levels().pm(pm).level0(level0).pm_tables(pm_tables).subranges(subranges))
    };
    let without_ssd = small_levels().ssd(SsdSource::None).pm_size(8 << 20);
    let presets = PRESETS.iter().map(|preset| small(preset.name));
    presets.chain([("without ssd", without_ssd)]).collect()
}

fn passed(db: &Db) -> u64 {
    db.properties().scans_passed
}

/// The first key and the last, and how many deleted entries were walked to find each.
fn ends(db: &Db, snapshot: Option<&Snapshot>) -> [(Option<Vec<u8>>, u64); 2] {
    let space = db.default_keyspace();
    let options = ReadOptions::at(snapshot);
    [true, false].map(|first| {
        let before = passed(db);
        let mut iter = space.cursor(&options).expect("iter");
        if first { iter.seek_to_first() } else { iter.seek_to_last() }.expect("seek");
        (iter.key().map(<[u8]>::to_vec), passed(db) - before)
    })
}

#[track_caller]
fn assert_few(db: &Db, first: Option<Vec<u8>>, last: Option<Vec<u8>>, when: &str) {
    let [low, high] = ends(db, None);
    assert_eq!((low.0, high.0), (first, last), "{when}");
    assert!(low.1 <= FEW && high.1 <= FEW, "{when}: {} and {} entries walked", low.1, high.1);
}

fn work_all(db: &Db) {
    while !db.work(4096).expect("work").is_idle() {}
}

/// A queue is written at its tail, and its head is deleted: to find the head, each scan walked all deletions that no
/// merge had reached yet, 72 ms at worst with a thousand messages in the queue.
#[test]
fn the_head_of_a_queue_is_found_without_walking_what_was_deleted() {
    const DEPTH: u64 = 100;
    const MESSAGES: u64 = 6_000;
    for (name, options) in presets() {
        let db = store(&options);
        let (mut worst, mut walked) = (0, 0);
        for message in 0..MESSAGES {
            db.put(numbered(message), [7; 100]).expect("put");
            if message % 200 == 0 {
                db.work(100).expect("work");
            }
            let Some(head) = message.checked_sub(DEPTH) else { continue };
            let before = passed(&db);
            let mut iter = db.default_keyspace().cursor(&ReadOptions::default()).expect("iter");
            iter.seek_to_first().expect("seek");
            assert_eq!(iter.key(), Some(&numbered(head)[..]), "{name}");
            let now = passed(&db) - before;
            (worst, walked) = (now.max(worst), walked + now);
            db.delete(numbered(head)).expect("delete");
        }
        assert!(worst <= FEW, "{name}: one scan walked {worst} entries");
        let mean = walked / MESSAGES;
        assert!(mean <= FEW / 2, "{name}: {mean} entries a scan");
        // Drained, it is found empty as quickly.
        for message in MESSAGES - DEPTH..MESSAGES {
            db.delete(numbered(message)).expect("delete");
        }
        let _learnt = (ends(&db, None), ends(&db, None));
        assert_few(&db, None, None, name);
        work_all(&db);
        assert_few(&db, None, None, name);
        db.put(numbered(MESSAGES), b"more").expect("put");
        assert_few(&db, Some(numbered(MESSAGES)), Some(numbered(MESSAGES)), name);
    }
}

/// One range deletion over many keys: every scan walked them all.
#[test]
fn a_scan_jumps_over_what_one_range_deletion_covers_wherever_it_lies() {
    const KEYS: u64 = 5_000;
    let key = |i: u64| numbered(10 + i);
    for (name, options) in presets() {
        let options = options.pm_size(16 << 20).memtable_bytes(4 << 20);
        for station in ["memtable", "run", "table"] {
            let db = store(&options);
            for i in 0..KEYS {
                db.put(key(i), [1; 40]).expect("put");
            }
            let all = db.snapshot();
            match station {
                "run" => db.flush().expect("flush"),
                "table" => db.compact().expect("compact"),
                _ => {}
            }
            db.delete_range(key(0), key(KEYS)).expect("delete range");
            let when = format!("{name}, {station}");
            assert_few(&db, None, None, &when);
            // What comes later is shown, and what is around it still jumped over.
            db.put(key(KEYS / 2), b"later").expect("put");
            db.merge(key(3), b"x").expect_err("no operator");
            let later = Some(key(KEYS / 2));
            assert_few(&db, later.clone(), later.clone(), &when);
            // An older snapshot sees what it saw.
            let seen = ends(&db, Some(&all)).map(|end| end.0);
            assert_eq!(seen, [Some(key(0)), Some(key(KEYS - 1))], "{when}");
            db.flush().expect("flush");
            assert_few(&db, later.clone(), later.clone(), &when);
            assert_eq!(ends(&db, Some(&all)).map(|end| end.0), seen, "{when}");
            drop(all);
            db.compact().expect("compact");
            assert_few(&db, later.clone(), later, &when);
        }
    }
}

/// What is known to be vacant goes with the process: the first scan after an open walked all that a range deletion covers,
/// although it lies in older runs and tables.
#[test]
fn after_an_open_a_range_deletion_is_enough_to_jump_over_what_is_older() {
    for down in [false, true] {
        let options = small_levels().memtable_bytes(4 << 20);
        let place = Place::new(16 << 20, ssd::Memory::default());
        let db = place.open(options.clone());
        for i in 0..4_000 {
            db.put(numbered(i), [1; 40]).expect("put");
        }
        if down {
            db.compact().expect("compact")
        } else {
            db.flush().expect("flush")
        }
        db.delete_range(numbered(500), numbered(3_500)).expect("delete range");
        db.put(numbered(2_000), b"later").expect("put");
        drop(db);
        let db = place.open(options);
        let before = passed(&db);
        let mut iter = db.default_keyspace().cursor(&ReadOptions::default()).expect("iter");
        for (from, next) in [(500, 2_000), (2_001, 3_500)] {
            iter.seek(numbered(from)).expect("seek");
            assert_eq!(iter.key(), Some(&numbered(next)[..]));
        }
        for (from, next) in [(3_499, 2_000), (1_999, 499)] {
            iter.seek_for_prev(numbered(from)).expect("seek");
            assert_eq!(iter.key(), Some(&numbered(next)[..]));
        }
        let walked = passed(&db) - before;
        assert!(walked <= FEW, "down: {down}, {walked} entries walked");
    }
}

/// As soon as there was one run, a flush kept the tombstone of every message, although each had come and gone between two
/// flushes: the first scan after an open walked them all.
#[test]
fn a_flush_drops_tombstones_of_keys_that_nothing_older_holds() {
    const DEPTH: u64 = 50;
    for ssd in [SsdSource::Auto, SsdSource::None] {
        let options = small_levels().memtable_bytes(8 << 20).ssd(ssd.clone());
        let place = Place::new(16 << 20, ssd::Memory::default());
        let open = || match ssd {
            SsdSource::None => Db::open_region(Arc::clone(&place.region), options.clone()),
            _ => place.try_open(options.clone()),
        };
        let db = open().expect("open");
        for message in 0..3_000 {
            db.put(numbered(message), [7; 20]).expect("put");
            if let Some(head) = message.checked_sub(DEPTH) {
                db.delete(numbered(head)).expect("delete");
            }
            if message % 1_000 == 999 {
                db.flush().expect("flush");
            }
        }
        drop(db);
        let db = open().expect("open");
        let [low, _] = ends(&db, None);
        assert_eq!(low.0, Some(numbered(3_000 - DEPTH)));
        // At each flush so many were there whose tombstones came with the next.
        assert!(low.1 <= 3 * DEPTH, "{} entries walked", low.1);
    }
}

/// What a store should hold.
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A store and what it should hold, with snapshots of both.
struct Pair {
    db: Db,
    model: Model,
    held: Vec<(Snapshot, Model)>,
    rng: Rng,
}

const KEYS: u64 = 600;

impl Pair {
    fn space(&self) -> &Keyspace {
        self.db.default_keyspace()
    }

    fn act(&mut self) {
        let (low, len) = (self.rng.below(KEYS), 1 + self.rng.below(KEYS / 2));
        match self.rng.below(14) {
            0 | 1 => {
                for i in low..low + len / 4 {
                    self.db.put(numbered(i), i.to_le_bytes()).expect("put");
                    self.model.insert(numbered(i), i.to_le_bytes().to_vec());
                }
            }
            2 | 3 => {
                let value = self.rng.next().to_le_bytes();
                self.db.put(numbered(low), value).expect("put");
                self.model.insert(numbered(low), value.to_vec());
            }
            4 | 5 => {
                for i in low..low + len {
                    self.db.delete(numbered(i)).expect("delete");
                    self.model.remove(&numbered(i));
                }
            }
            6 => {
                let (begin, end) = (numbered(low), numbered(low + len));
                self.db.delete_range(&begin, &end).expect("delete range");
                self.model.retain(|key, _| !(&begin..&end).contains(&key));
            }
            7 => self.held.push((self.db.snapshot(), self.model.clone())),
            8 if !self.held.is_empty() => {
                let which = self.rng.below(self.held.len() as u64) as usize;
                self.held.swap_remove(which);
            }
            9 => steps::switch_memtable(self.space()),
            10 => drop(self.db.work(500).expect("work")),
            11 if steps::subranges(self.space()) < 4 => {
                let _busy = steps::split(self.space(), &numbered(low)).expect("split");
            }
            12 => drop(steps::join(self.space(), &numbered(low)).expect("join")),
            _ => {}
        }
    }

    /// Compares a scan between two keys, at a snapshot or now, with the model; background work goes on meanwhile.
    fn compare(&mut self) {
        let which = self.rng.below(self.held.len() as u64 + 1) as usize;
        let (snapshot, model) = match self.held.get(which) {
            Some((snapshot, model)) => (Some(snapshot), model),
            None => (None, &self.model),
        };
        let low = numbered(self.rng.below(KEYS / 2));
        let high = numbered(KEYS / 2 + self.rng.below(KEYS));
        let bound = |chance: bool, key: &[u8]| match chance {
            true => Bound::Included(key.to_vec()),
            false => Bound::Unbounded,
        };
        let (lower, upper) =
            (bound(self.rng.chance(1, 2), &low), bound(self.rng.chance(1, 2), &high));
        let expected: Vec<(&Vec<u8>, &Vec<u8>)> =
            model.range((lower.clone(), upper.clone())).collect();
        let options = ReadOptions::at(snapshot).range((lower, upper));
        let mut iter = self.db.default_keyspace().cursor(&options).expect("iter");
        let forward = self.rng.chance(1, 2);
        if forward { iter.seek_to_first() } else { iter.seek_to_last() }.expect("seek");
        let mut shown = Vec::new();
        while let Some(key) = iter.key() {
            shown.push((key.to_vec(), iter.value().expect("value").unwrap_or_default().to_vec()));
            if shown.len() % 50 == 7 {
                steps::switch_memtable(self.db.default_keyspace());
                self.db.work(300).expect("work");
            }
            if forward { iter.next() } else { iter.prev() }.expect("step");
        }
        if !forward {
            shown.reverse();
        }
        let shown: Vec<(&Vec<u8>, &Vec<u8>)> =
            shown.iter().map(|(key, value)| (key, value)).collect();
        assert_eq!(shown, expected, "forward: {forward}, of {} snapshots {which}", self.held.len());
    }
}

#[test]
fn scans_over_stretches_of_deleted_keys_show_what_the_model_holds() {
    let sets = presets()
        .into_iter()
        .chain([("runs in subranges", small_levels().level0(Level0Form::IndexRuns).subranges(3))]);
    for (seed, (name, options)) in (1..).zip(sets) {
        let options = options.pm_size(12 << 20);
        let db = store(&options);
        let mut pair = Pair { db, model: BTreeMap::new(), held: Vec::new(), rng: Rng::new(seed) };
        for _ in 0..500 {
            pair.act();
            pair.compare();
            if pair.held.len() > 6 {
                pair.held.remove(0);
            }
        }
        assert!(passed(&pair.db) > 0, "{name}");
    }
}

/// Writers put into ranges that others have just emptied, and look at once: what a writer was told to be there, or gone,
/// it finds so.
#[test]
fn writers_find_what_they_put_into_ranges_that_others_have_emptied() {
    const WRITERS: u64 = 3;
    const ROUNDS: u64 = 800;
    let options = small_levels().background_threads(1).memtable_bytes(64 << 10).pm_size(16 << 20);
    let db = store(&options);
    let own = |writer: u64, i: u64| numbered(i * WRITERS + writer);
    let one = |writer: u64| {
        let mut rng = Rng::new(writer + 1);
        let mut there: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
        for round in 0..ROUNDS {
            let (from, len) = (rng.below(200), rng.below(60));
            match rng.below(4) {
                0 => {
                    for i in from..from + len {
                        db.delete(own(writer, i)).expect("delete");
                        there.remove(&own(writer, i));
                    }
                }
                // Below all keys of the writers: announced, never theirs.
                1 => db.delete_range(b"a", numbered(0)).expect("delete range"),
                _ => {
                    db.put(own(writer, from), round.to_le_bytes()).expect("put");
                    there.insert(own(writer, from), round);
                }
            }
            let mut iter = db.default_keyspace().cursor(&ReadOptions::default()).expect("iter");
            let forward = rng.chance(1, 2);
            if forward { iter.seek_to_first() } else { iter.seek_to_last() }.expect("seek");
            let mut found = BTreeMap::new();
            while let Some(key) = iter.key() {
                let number: u64 =
                    std::str::from_utf8(&key[3..]).expect("text").parse().expect("key");
                if number % WRITERS == writer {
                    let value = iter.value().expect("value").unwrap_or_default();
                    found.insert(key.to_vec(), u64::from_le_bytes(value.try_into().expect("8")));
                }
                if forward { iter.next() } else { iter.prev() }.expect("step");
            }
            assert_eq!(found, there, "writer {writer}, round {round}");
        }
    };
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || one(writer));
        }
    });
}
