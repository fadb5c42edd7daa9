//! Keys with many versions: operands of merges, and overwrites that a snapshot keeps. Steps are counted, not timed: what a
//! look-up walks is what `explain_get` tells of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::common::{Combines, Joined, dump, heap};
use pmem::{Domain, StoreMode};
use strandline::steps::{self, Step, Stepped};
use strandline::{
    Cursor, Db, Hooks, MergeOperator, Options, ReadOptions, Region, Site, Snapshot, SsdSource,
    TimedProbe,
};
use testkit::Rng;

/// Adds numbers, and operands, if it is `partial`.
#[derive(Default)]
struct Sum {
    partial: bool,
    refuses: AtomicBool,
}

fn number(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

impl MergeOperator for Sum {
    fn merge(
        &self,
        _keyspace: &str,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>> {
        if self.refuses.load(Relaxed) {
            return None;
        }
        let mut sum = existing.map_or(Some(0), number)?;
        for operand in operands {
            sum += number(operand)?;
        }
        Some(sum.to_le_bytes().to_vec())
    }

    fn merge_operands(&self, keyspace: &str, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        if self.partial { self.merge(keyspace, key, None, operands) } else { None }
    }
}

fn with(operator: impl MergeOperator + 'static) -> Hooks {
    Hooks::default().merge_operator(Arc::new(operator))
}

/// Counts what is read of persistent memory.
#[derive(Default)]
struct Reads(AtomicU64);

impl Domain for Reads {
    fn store(&self, _: &Region, _: Site, _: u64, _: usize, _: StoreMode) {}
    fn flush(&self, _: &Region, _: Site, _: u64, _: usize) {}
    fn fence(&self, _: &Region, _: Site) {}
    fn load(&self, _: &Region, _: u64, _: usize) {
        self.0.fetch_add(1, Relaxed);
    }
}

fn options() -> Options {
    Options::default()
        .pm_size(32 << 20)
        .zone_size(64 << 10)
        .memtable_bytes(16 << 20)
        .background_threads(0)
        .ssd(SsdSource::None)
}

fn store(partial: bool) -> Db {
    on(&heap(32 << 20), with(Sum { partial, ..Sum::default() }))
}

fn on(region: &Arc<Region>, hooks: Hooks) -> Db {
    steps::open(Arc::clone(region), None, options(), hooks).expect("open")
}

/// A store whose records go on to tables.
fn with_tables(hooks: Hooks) -> Db {
    let fs: Arc<dyn ssd::Fs> = Arc::new(ssd::Memory::default());
    fs.create_dir_all(Path::new("/sst")).expect("directory");
    let options = options().ssd(SsdSource::Auto);
    let table_dir = Some((fs, Path::new("/sst")));
    steps::open(heap(32 << 20), table_dir, options, hooks).expect("open")
}

fn merge_ones(db: &Db, key: &[u8], count: u64) {
    for _ in 0..count {
        db.merge(key, 1_u64.to_le_bytes()).expect("merge");
    }
}

fn sum(value: Option<&[u8]>) -> Option<u64> {
    value.and_then(number)
}

fn probes(db: &Db, key: &[u8]) -> Vec<TimedProbe> {
    db.default_keyspace().explain_get(key).expect("explain").probes
}

fn versions(probes: &[TimedProbe]) -> u64 {
    probes.iter().map(|timed| timed.probe.versions).sum()
}

fn iter(db: &Db, snapshot: Option<&Snapshot>) -> Cursor {
    let at = ReadOptions::at(snapshot);
    db.default_keyspace().cursor(&at).expect("iter")
}

/// What all keys come to, both ways.
fn all(db: &Db, snapshot: Option<&Snapshot>) -> Vec<(Vec<u8>, u64)> {
    let mut iter = iter(db, snapshot);
    let mut found = Vec::new();
    let mut take = |iter: &Cursor| {
        let value = sum(iter.value().expect("value")).expect("a number");
        found.push((iter.key().expect("key").to_vec(), value));
    };
    iter.seek_to_first().expect("seek");
    while iter.valid() {
        take(&iter);
        iter.next().expect("next");
    }
    iter.seek_to_last().expect("seek");
    while iter.valid() {
        take(&iter);
        iter.prev().expect("prev");
    }
    let behind = found.split_off(found.len() / 2);
    assert!(found.iter().eq(behind.iter().rev()), "both ways see the same");
    found
}

/// The versions of a key below an operand were looked up one by one, each by a search of its own through all sources, and
/// each search passed what the ones before had passed: a key with 65,000 operands took nine seconds to read, an iterator two
/// minutes.
#[test]
fn operands_of_a_key_are_walked_once_wherever_they_lie() {
    for (db, place) in [(store(true), "pool"), (with_tables(with(Sum::default())), "tables")] {
        db.put(b"a", 7_u64.to_le_bytes()).expect("put");
        db.put(b"z", 8_u64.to_le_bytes()).expect("put");
        let held = db.snapshot();
        // A snapshot behind each operand: none of them may be combined.
        let mut snapshots = Vec::new();
        for _ in 0..1000 {
            merge_ones(&db, b"m", 1);
            snapshots.push(db.snapshot());
        }
        for stage in ["memtable", "run", "merged"] {
            let probes = probes(&db, b"m");
            assert!(probes.len() <= 4, "{place}, {stage}: {} searches", probes.len());
            assert!(versions(&probes) <= 1001, "{place}, {stage}: {} versions", versions(&probes));
            assert_eq!(sum(db.get(b"m").expect("get").as_deref()), Some(1000));
            let all = all(&db, None);
            let expected = [(&b"a"[..], 7), (b"m", 1000), (b"z", 8)];
            assert!(all.iter().map(|(key, sum)| (&key[..], *sum)).eq(expected), "{all:?}");
            for (count, snapshot) in (1..).zip(&snapshots).step_by(97) {
                let at = ReadOptions::at(snapshot);
                let found = db.default_keyspace().get_with(b"m", &at).expect("get");
                assert_eq!(sum(found.as_deref()), Some(count), "{place}, {stage}");
                let seen = self::all(&db, Some(snapshot));
                assert_eq!(seen[1], (b"m".to_vec(), count), "{place}, {stage}");
            }
            assert_eq!(all_keys(&db, &held), ["a", "z"], "{place}, {stage}");
            match stage {
                "memtable" => db.flush().expect("flush"),
                _ => db.compact().expect("compact"),
            }
        }
    }
}

fn all_keys(db: &Db, snapshot: &Snapshot) -> Vec<String> {
    let found = all(db, Some(snapshot)).into_iter();
    found.map(|(key, _)| String::from_utf8(key).expect("text")).collect()
}

/// As above; and an iterator that stepped over a key in a run passed all its versions, forward and backward.
#[test]
fn what_is_read_of_a_key_grows_with_its_operands_and_no_more() {
    let counted = |count: u64| {
        let reads = Arc::new(Reads::default());
        let region = Region::heap(32 << 20, Some(Arc::clone(&reads) as Arc<dyn Domain>));
        let db = on(&Arc::new(region.expect("region")), with(Sum::default()));
        for key in ["a", "m", "z"] {
            db.put(key.as_bytes(), 1_u64.to_le_bytes()).expect("put");
        }
        // Without what is below them, these operands stay as they are.
        db.flush().expect("flush");
        merge_ones(&db, b"m", count);
        let mut seen: Vec<u64> = Vec::new();
        for _place in ["memtable", "run"] {
            let mut walk = iter(&db, None);
            let mut step = |act: &mut dyn FnMut(&mut Cursor)| {
                let before = reads.0.load(Relaxed);
                act(&mut walk);
                seen.push(reads.0.load(Relaxed) - before);
            };
            step(&mut |_| assert_eq!(sum(db.get(b"m").expect("get").as_deref()), Some(count + 1)));
            step(&mut |iter| iter.seek(b"m").expect("seek"));
            step(&mut |iter| assert_eq!(sum(iter.value().expect("value")), Some(count + 1)));
            step(&mut |iter| iter.next().expect("next"));
            step(&mut |iter| assert_eq!(iter.key(), Some(&b"z"[..])));
            step(&mut |iter| iter.prev().expect("prev"));
            step(&mut |iter| assert_eq!(iter.key(), Some(&b"m"[..])));
            step(&mut |iter| iter.prev().expect("prev"));
            step(&mut |iter| assert_eq!(iter.key(), Some(&b"a"[..])));
            db.flush().expect("flush");
        }
        seen
    };
    let (few, many) = (counted(4_000), counted(16_000));
    for (no, (few, many)) in few.iter().zip(&many).enumerate() {
        assert!(*many <= 5 * few + 100, "step {no}: {few} reads, of four times as many {many}");
    }
    // Over the key in the run, and to the one before it.
    for no in [12, 16] {
        assert!(many[no] < 4_000, "step {no}: {} reads", many[no]);
    }
}

/// Where all data stays in persistent memory, operands were never combined: each read walked all that was ever merged.
#[test]
fn long_chains_are_combined_in_persistent_memory() {
    for partial in [false, true] {
        let db = store(partial);
        merge_ones(&db, b"m", 5000);
        assert!(versions(&probes(&db, b"m")) > 5000);
        db.flush().expect("flush");
        assert_eq!(versions(&probes(&db, b"m")), 1, "nothing is older: a value");
        merge_ones(&db, b"m", 5000);
        db.flush().expect("flush");
        let walked = versions(&probes(&db, b"m"));
        if partial {
            assert_eq!(walked, 3, "an operand, looked at twice, above a value");
        } else {
            assert!(walked > 5000, "the value below is in another run");
        }
        assert_eq!(sum(db.get(b"m").expect("get").as_deref()), Some(10_000));
        // Another key, without an older version.
        merge_ones(&db, b"n", 5000);
        db.flush().expect("flush");
        assert_eq!(versions(&probes(&db, b"n")), 1);
        db.compact().expect("compact");
        assert!(versions(&probes(&db, b"m")) <= 3, "two versions are few");
        assert_eq!(all(&db, None), [(b"m".to_vec(), 10_000), (b"n".to_vec(), 5000)]);
    }
}

#[test]
fn what_snapshots_tell_apart_is_not_combined() {
    for partial in [false, true] {
        let region = heap(32 << 20);
        let db = on(&region, with(Sum { partial, ..Sum::default() }));
        let mut snapshots = Vec::new();
        let mut moment = |expected| snapshots.push((db.snapshot(), expected));
        merge_ones(&db, b"m", 1000);
        moment(Some(1000));
        merge_ones(&db, b"m", 1000);
        db.delete(b"m").expect("delete");
        moment(None);
        merge_ones(&db, b"m", 1000);
        moment(Some(1000));
        merge_ones(&db, b"m", 1000);
        db.delete_range(b"a", b"z").expect("delete range");
        merge_ones(&db, b"m", 500);
        moment(Some(500));
        for stage in ["flush", "compact", "compact again"] {
            match stage {
                "flush" => db.flush().expect("flush"),
                _ => db.compact().expect("compact"),
            }
            assert!(versions(&probes(&db, b"m")) <= 3, "{stage}");
            for (snapshot, expected) in &snapshots {
                let at = ReadOptions::at(snapshot);
                let found = db.default_keyspace().get_with(b"m", &at).expect("get");
                assert_eq!(sum(found.as_deref()), *expected, "{stage}");
                let scanned = all(&db, Some(snapshot));
                assert_eq!(scanned.first().map(|(_, sum)| *sum), *expected, "{stage}");
            }
            merge_ones(&db, b"n", 1);
            db.flush().expect("flush");
        }
        drop(snapshots);
        drop(db);
        let db = on(&region, with(Sum::default()));
        assert_eq!(sum(db.get(b"m").expect("get").as_deref()), Some(500));
        assert!(db.check().expect("check").damage.is_empty());
    }
}

/// Commits that were given up between operands: their records are void, and stay out of every walk.
#[test]
fn void_operands_are_passed_over() {
    let db = store(true);
    let space = db.default_keyspace();
    let one = 1_u64.to_le_bytes();
    for _ in 0..500 {
        merge_ones(&db, b"m", 2);
        let change = steps::Change::Merge { key: b"m", operand: &one };
        let mut write = steps::Write::admit(&[(space, change)]).expect("admit");
        while write.step().expect("step") != Stepped::Did(Step::Index) {}
        write.abandon();
    }
    assert_eq!(sum(db.get(b"m").expect("get").as_deref()), Some(1000));
    assert_eq!(all(&db, None), [(b"m".to_vec(), 1000)]);
    db.flush().expect("flush");
    assert_eq!(versions(&probes(&db, b"m")), 1);
    assert_eq!(sum(db.get(b"m").expect("get").as_deref()), Some(1000));
}

/// An operator that refuses does not stop a flush or a merge: its operands stay.
#[test]
fn operands_that_are_refused_stay() {
    let sum_of = Arc::new(Sum { partial: true, ..Sum::default() });
    let operator = Arc::clone(&sum_of) as Arc<dyn MergeOperator>;
    let region = heap(32 << 20);
    let db = on(&region, Hooks::default().merge_operator(operator));
    merge_ones(&db, b"m", 3000);
    sum_of.refuses.store(true, Relaxed);
    db.flush().expect("flush");
    db.compact().expect("compact");
    assert!(db.properties().hook_failures > 0);
    assert!(db.get(b"m").is_err());
    sum_of.refuses.store(false, Relaxed);
    assert_eq!(sum(db.get(b"m").expect("get").as_deref()), Some(3000));
    assert!(versions(&probes(&db, b"m")) > 3000);
    db.put(b"a", b"another run").expect("put");
    db.flush().expect("flush");
    db.compact().expect("compact");
    assert_eq!(versions(&probes(&db, b"m")), 1);
    assert_eq!(sum(db.get(b"m").expect("get").as_deref()), Some(3000));
}

/// What operands come to may be too long for a zone.
#[test]
fn long_values_come_of_operands() {
    let region = heap(32 << 20);
    let db = on(&region, with(Joined(Combines::Operands)));
    for i in 0..4000 {
        db.merge(b"m", format!("{i:0100}").as_bytes()).expect("merge");
    }
    let before = db.get(b"m").expect("get").expect("a value");
    assert_eq!(before.len(), 400_000);
    db.flush().expect("flush");
    assert_eq!(versions(&probes(&db, b"m")), 1);
    assert_eq!(db.get(b"m").expect("get").as_deref(), Some(&before[..]));
    // Little is added: the long value is not written again for that.
    for _ in 0..8 {
        db.merge(b"m", b"+").expect("merge");
    }
    db.flush().expect("flush");
    let written = db.properties().persisted.site_bytes(Site::Extent);
    db.compact().expect("compact");
    assert_eq!(db.properties().persisted.site_bytes(Site::Extent), written);
    drop(db);
    let db = on(&region, with(Joined(Combines::Operands)));
    let after = db.get(b"m").expect("get").expect("a value");
    assert_eq!(after, [&before[..], b"++++++++"].concat());
    assert!(db.check().expect("check").damage.is_empty());
}

/// Every key's value at a moment.
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// One change of a few keys, to the store and to the model.
fn change(db: &Db, model: &mut Model, rng: &mut Rng, round: u64) {
    let key = format!("key{}", rng.below(6)).into_bytes();
    match rng.below(30) {
        0 => {
            db.delete(&key).expect("delete");
            model.remove(&key);
        }
        1 => {
            db.delete_range(b"key1", b"key3").expect("delete range");
            model.retain(|key, _| key[..] < b"key1"[..] || key[..] >= b"key3"[..]);
        }
        2 | 3 => {
            db.put(&key, b"put").expect("put");
            model.insert(key, b"put".to_vec());
        }
        _ => {
            let operand = format!(",{round}").into_bytes();
            db.merge(&key, &operand).expect("merge");
            model.entry(key).or_default().extend_from_slice(&operand);
        }
    }
}

fn is_as(db: &Db, at: &ReadOptions<'_>, model: &Model) {
    assert!(dump(db.default_keyspace(), at) == *model);
    for (key, value) in model {
        let found = db.default_keyspace().get_with(key, at).expect("get");
        assert_eq!(found.as_ref(), Some(value));
    }
}

#[test]
fn operands_mean_the_same_in_any_order_of_events() {
    use Combines::{Nothing, Operands};
    for (seed, combines) in [(1, Nothing), (2, Operands), (3, Nothing), (4, Operands)] {
        let tables = seed > 2;
        let region = heap(32 << 20);
        let hooks = || with(Joined(combines));
        // Few operands pay for a zone.
        let small = options().zone_size(4 << 10);
        let open = || steps::open(Arc::clone(&region), None, small.clone(), hooks()).expect("open");
        let mut db = if tables { with_tables(hooks()) } else { open() };
        let mut rng = Rng::new(seed);
        let mut model = Model::new();
        for round in 0..40 {
            let mut moments = Vec::new();
            for step in 0..300 {
                change(&db, &mut model, &mut rng, round * 300 + step);
                if rng.chance(1, 60) {
                    moments.push((db.snapshot(), model.clone()));
                }
                if rng.chance(1, 100) {
                    db.flush().expect("flush");
                }
            }
            if rng.chance(1, 3) {
                db.compact().expect("compact");
            }
            for (snapshot, model) in &moments {
                let at = ReadOptions::at(snapshot);
                is_as(&db, &at, model);
            }
            is_as(&db, &ReadOptions::default(), &model);
            drop(moments);
            if !tables && rng.chance(1, 5) {
                drop(db);
                db = open();
                is_as(&db, &ReadOptions::default(), &model);
            }
        }
        if !tables {
            let combined = db.properties().persisted.site_bytes(Site::Fold);
            assert!(combined > 0, "seed {seed}");
        }
        assert!(db.check().expect("check").damage.is_empty());
    }
}
