//! Each engine, small, behind the trait.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bench::data::rng::Rng;
use bench::scratch::Scratch;
use bench::tpcc::Scale;

use super::{BARE_LOOPS, Change, Engine, Maker, OURS, RIVALS, Result, Setup, all};
use crate::data::{Data, Filling, Spread};
use crate::dram::{Dram, Sizes};
use crate::flags::Flags;
use crate::ground;
use crate::measure::bytes::ProcessBytes;
use crate::promise::Promise;
use crate::stages::{self, Fit, Group, Place, Prepared, Survives, Work};
use crate::work::orders::{TablesJob, Task};
use crate::work::{Length, OfKind};

/// Puts, batches, deletes, gets and scans; again after a compaction.
fn exercise(engine: &dyn Engine, durable: Survives) {
    let key = |number: u32| format!("key {number:05}").into_bytes();
    let batch: Vec<(Vec<u8>, Vec<u8>)> = (0..500).map(|n| (key(n), vec![n as u8; 40])).collect();
    let entries = (engine.batch_bytes() / 49) as usize;
    batch.chunks(entries).for_each(|batch| engine.put_batch(batch).unwrap());
    for number in 500..600 {
        engine.put(&key(number), &[7; 40]).unwrap();
    }
    engine.put(&key(3), b"anew").unwrap();
    engine.delete(&key(4)).unwrap();
    for round in 0..2 {
        let get = |number: u32| {
            let mut value = Vec::new();
            engine.get(&key(number), &mut value).unwrap().then_some(value)
        };
        assert_eq!(get(2), Some(vec![2; 40]), "{durable:?} {round}");
        assert_eq!(get(3), Some(b"anew".to_vec()), "{durable:?} {round}");
        assert_eq!(get(4), None, "{durable:?} {round}");
        assert_eq!(get(599), Some(vec![7; 40]), "{durable:?} {round}");
        assert_eq!(get(600), None, "{durable:?} {round}");
        let mut keys = Vec::new();
        engine.scan(&key(3), 3, &mut |key, _| keys.push(key.to_vec())).unwrap();
        assert_eq!(keys, [key(3), key(5), key(6)], "{durable:?} {round}");
        let mut count = 0;
        engine.scan(&[], usize::MAX, &mut |_, _| count += 1).unwrap();
        assert_eq!(count, 599, "{durable:?} {round}");
        engine.compact().unwrap();
    }
}

fn setup(dir: &Path, place: Place, survives: Survives) -> Setup<'_> {
    let sizes = Sizes { memory: 8 << 20, data: 64 << 20, orders: 16 << 20 };
    Setup {
        dir,
        memory: (place != Place::Disk).then_some(dir),
        place,
        fit: Fit::Spill,
        keyspaces: &[],
        survives,
        direct: false,
        dram: sizes.dram(place, Fit::Spill),
        counted: true,
    }
}

/// A folder on a disk; none where temporary files go to memory: a store there is another one.
fn on_disk() -> Option<Scratch> {
    let folder = std::env::temp_dir();
    match ground::check(&folder) {
        Ok(()) => Some(Scratch::within(&[folder], 64 << 20).unwrap()),
        Err(reason) => {
            eprintln!("not tested: {reason}");
            None
        }
    }
}

fn smoke(maker: &Maker, place: Place) {
    for survives in [Survives::Nothing, Survives::Kill, Survives::Power] {
        // With page stores and on disks, a store without a log is no case.
        if survives == Survives::Nothing && (!maker.has_log || place == Place::Disk) {
            continue;
        }
        let scratch = match place {
            Place::Disk | Place::Hybrid => on_disk(),
            Place::Tmpfs | Place::Split => {
                let folders = [PathBuf::from(bench::scratch::MEMORY), std::env::temp_dir()];
                Some(Scratch::within(&folders, 64 << 20).unwrap())
            }
        };
        let Some(scratch) = scratch else { return };
        let setup = setup(scratch.path(), place, survives);
        let engine = (maker.open)(&setup).unwrap();
        exercise(&*engine, survives);
        engine.close().unwrap();
        // What was put is there at the next open.
        let engine = (maker.open)(&setup).unwrap();
        let mut count = 0;
        engine.scan(&[], usize::MAX, &mut |_, _| count += 1).unwrap();
        assert_eq!(count, 599, "{survives:?}");
        engine.close().unwrap();
    }
}

fn named(name: &str) -> &'static Maker {
    all().find(|maker| maker.name == name).unwrap()
}

#[test]
fn strandline() {
    smoke(OURS, Place::Tmpfs);
    smoke(OURS, Place::Disk);
    smoke(OURS, Place::Hybrid);
}

#[test]
fn rocksdb() {
    smoke(named("rocksdb"), Place::Tmpfs);
    smoke(named("rocksdb"), Place::Disk);
}

#[test]
fn engines_with_transactions() {
    for name in ["rocksdb-optimistic", "rocksdb-pessimistic", "strandline-pessimistic"] {
        smoke(named(name), Place::Tmpfs);
        smoke(named(name), Place::Disk);
    }
}

#[test]
fn keyspaces_are_apart_and_are_there_at_the_next_open() {
    const NAMES: &[&str] = &["first", "second", "third"];
    for maker in [OURS, named("rocksdb"), named("fjall"), named("redb"), named("lmdb")] {
        for names in [NAMES, &[]] {
            let Some(scratch) = on_disk() else { return };
            let mut setup = setup(scratch.path(), Place::Disk, Survives::Kill);
            setup.keyspaces = names;
            let count = names.len().max(1);
            let value = |keyspace: usize, number: u8| vec![number; 10 + keyspace];
            let engine = (maker.open)(&setup).unwrap();
            let keyspaces = engine.keyspaces().unwrap();
            for keyspace in 0..count {
                for number in 0..50_u8 {
                    keyspaces.put_in(keyspace, &[number], &value(keyspace, number)).unwrap();
                }
            }
            drop(keyspaces);
            engine.close().unwrap();
            let engine = (maker.open)(&setup).unwrap();
            let keyspaces = engine.keyspaces().unwrap();
            for keyspace in 0..count {
                let mut found = Vec::new();
                assert!(keyspaces.get_in(keyspace, &[7], &mut found).unwrap(), "{}", maker.name);
                assert_eq!(found, value(keyspace, 7), "{}", maker.name);
                found.clear();
                assert!(!keyspaces.get_in(keyspace, b"none", &mut found).unwrap());
                let mut entries = Vec::new();
                let mut each =
                    |key: &[u8], value: &[u8]| entries.push((key.to_vec(), value.to_vec()));
                keyspaces.scan_in(keyspace, &[48], 5, &mut each).unwrap();
                let wanted = [48, 49].map(|number| (vec![number], value(keyspace, number)));
                assert_eq!(entries, wanted, "{} {keyspace} of {names:?}", maker.name);
            }
            drop(keyspaces);
            engine.close().unwrap();
        }
    }
}

/// Makes the next number, again and again.
struct Next([u8; 8]);

impl Change for Next {
    fn of(&mut self, old: Option<&[u8]>) -> Result<&[u8]> {
        let old = old.and_then(|old| old.try_into().ok()).map(u64::from_le_bytes);
        self.0 = (old.ok_or("no number")? + 1).to_le_bytes();
        Ok(&self.0)
    }
}

/// Engines that run transactions, this one first.
fn transactional() -> impl Iterator<Item = &'static Maker> {
    let (stage, case) = stages::find("transaction-rmw", 1, 100).unwrap();
    std::iter::once(OURS).chain(RIVALS).filter(move |maker| (maker.offers)(stage, case))
}

#[test]
fn updates_of_threads_lose_none() {
    assert_eq!(transactional().count(), 4);
    for maker in transactional() {
        let Some(scratch) = on_disk() else { return };
        let engine = (maker.open)(&setup(scratch.path(), Place::Disk, Survives::Kill)).unwrap();
        engine.put(b"key", &0_u64.to_le_bytes()).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut change = Next([0; 8]);
                    for _ in 0..500 {
                        engine.update(b"key", &mut change).unwrap();
                    }
                });
            }
        });
        let mut value = Vec::new();
        assert!(engine.get(b"key", &mut value).unwrap());
        assert_eq!(value, 2000_u64.to_le_bytes(), "{}", maker.name);
        // A change that refuses ends the transaction, and nothing is put.
        let refused = engine.update(b"none", &mut Next([0; 8])).unwrap_err();
        assert!(refused.contains("no number"), "{refused}");
        value.clear();
        assert!(!engine.get(b"none", &mut value).unwrap());
        engine.close().unwrap();
    }
}

#[test]
fn tables_are_checked_on_every_engine() {
    for maker in transactional() {
        let Some(scratch) = on_disk() else { return };
        let mut setup = setup(scratch.path(), Place::Disk, Survives::Kill);
        (setup.keyspaces, setup.dram) = (&bench::tpcc::TABLES, roomy(&setup));
        let engine = (maker.open)(&setup).unwrap();
        let job =
            |task| engine.tables(&TablesJob::new(Scale { warehouses: 1, percent: 1 }, 7, task));
        let empty = job(Task::Check).unwrap_err();
        assert!(empty.contains("warehouse 1 is not there"), "{}: {empty}", maker.name);
        job(Task::Load).unwrap();
        job(Task::Check).unwrap();
        let length = Length { time: Duration::from_secs(60), ops: 300 };
        let measured = job(Task::Run(3, length)).unwrap().measured();
        let ended = |kind: &OfKind| kind.count + kind.rolled_back;
        assert_eq!(measured.kinds.iter().map(ended).sum::<u64>(), 900, "{}", maker.name);
        assert_eq!(measured.rate.ops, measured.kinds[0].count, "{}", maker.name);
        assert!(measured.kinds.iter().all(|kind| kind.count > 0), "{}", maker.name);
        assert!(measured.user_bytes > 100_000, "{}", maker.name);
        job(Task::Check).unwrap();
        // Another load puts orders in place of those that were made, and some of theirs stay.
        job(Task::Load).unwrap();
        let mixed = job(Task::Check).unwrap_err();
        assert!(mixed.contains("consistency condition"), "{}: {mixed}", maker.name);
        engine.close().unwrap();
    }
}

/// As much memory as a Delivery takes.
fn roomy(setup: &Setup<'_>) -> Dram {
    let sizes = Sizes { memory: 8 << 20, data: 64 << 20, orders: 16 << 20 };
    sizes.dram(setup.place, Fit::Orders)
}

#[test]
fn engines_without_transactions_run_no_benchmark_of_them() {
    for stage in stages::all() {
        for case in stage.cases {
            let offering: Vec<&str> =
                all().filter(|maker| (maker.offers)(stage, case)).map(|maker| maker.name).collect();
            let wanted: Option<&[&str]> = match stage.group {
                Group::Transaction | Group::Tpcc => Some(&[
                    "strandline",
                    "strandline-pessimistic",
                    "rocksdb-optimistic",
                    "rocksdb-pessimistic",
                ]),
                Group::Ycsb => Some(&["strandline", "rocksdb", "fjall", "redb", "lmdb"]),
                _ => None,
            };
            assert!(wanted.is_none_or(|wanted| offering == wanted), "{case:?}: {offering:?}");
            let own = offering.iter().any(|name| name.ends_with("mistic"));
            assert_eq!(own, stage.group.wants_transactions(), "{case:?}");
        }
    }
    let Some(scratch) = on_disk() else { return };
    let engine = (named("redb").open)(&setup(scratch.path(), Place::Disk, Survives::Kill)).unwrap();
    assert!(engine.update(b"key", &mut Next([0; 8])).unwrap_err().contains("transactions"));
    engine.close().unwrap();
}

#[test]
fn rocksdb_recycles_its_log() {
    smoke(named("rocksdb-recycle"), Place::Disk);
    let Some(scratch) = on_disk() else { return };
    let setup = setup(scratch.path(), Place::Disk, Survives::Kill);
    let engine = (named("rocksdb-recycle").open)(&setup).unwrap();
    // Nothing was put: the option alone is no recycling.
    assert!(engine.durability().unwrap_err().contains("no log that was used again"));
    for number in 0..6 * setup.dram.buffer / 1000 {
        engine.put(format!("key {number:010}").as_bytes(), &[7; 1000]).unwrap();
    }
    let told = engine.durability().unwrap();
    assert!(told.contains("recycle_log_file_num 4") && told.contains("used again"), "{told}");
    engine.close().unwrap();
}

#[test]
fn rocksdb_has_a_second_cache() {
    for name in ["rocksdb-second", "rocksdb-second-unpacked"] {
        smoke(named(name), Place::Hybrid);
        let Some(scratch) = on_disk() else { return };
        let setup = setup(scratch.path(), Place::Hybrid, Survives::Kill);
        let engine = (named(name).open)(&setup).unwrap();
        let data = Data::new(Spread::Dense, Filling::Random, 1024);
        let (mut key, mut value, keys) = (Vec::new(), Vec::new(), 2 * setup.dram.cache / 1024);
        for number in 0..keys {
            data.key(number, &mut key);
            data.value(number, 1, &mut value);
            engine.put(&key, &value).unwrap();
        }
        engine.compact().unwrap();
        // Twice what the first holds, and less than both do: what comes again is in the second.
        for number in (0..4 * keys).map(|turn| turn % keys) {
            data.key(number, &mut key);
            value.clear();
            assert!(engine.get(&key, &mut value).unwrap(), "{name} {number}");
            assert_eq!(data.generation(number, &value), Some(1), "{name} {number}");
        }
        let told = engine.durability().unwrap();
        let hits = told.rsplit_once(", ").and_then(|(_, told)| told.split_once(' '));
        let hits = hits.and_then(|(hits, _)| hits.parse::<u64>().ok());
        assert!(hits.is_some_and(|hits| hits > keys / 8), "{name}: {told}");
        engine.close().unwrap();
    }
}

/// Values of 1 KiB that do not compress, each put ten times, and the bytes of the store's files then.
fn worn_out(maker: &Maker) -> Option<u64> {
    let scratch = on_disk()?;
    let engine = (maker.open)(&setup(scratch.path(), Place::Disk, Survives::Kill)).unwrap();
    let data = Data::new(Spread::Dense, Filling::Random, 1024);
    let (mut key, mut value, mut draws) = (Vec::new(), Vec::new(), Rng::new(7));
    for turn in 0..10 * WORN_KEYS {
        let number = draws.below(WORN_KEYS);
        data.key(number, &mut key);
        data.value(number, turn as u32, &mut value);
        engine.put(&key, &value).unwrap();
    }
    ProcessBytes::settle();
    let taken = ground::taken(scratch.path()).unwrap();
    engine.close().unwrap();
    Some(taken)
}

const WORN_KEYS: u64 = 16 << 10;

#[test]
fn values_apart_take_the_space_that_their_setting_allows() {
    let space = |name: &str| worn_out(named(name));
    let Some(least) = space("strandline-apart-130") else { return };
    let (middle, most) =
        (space("strandline-apart-155").unwrap(), space("strandline-apart-200").unwrap());
    assert!(least < middle && middle < most, "{least} {middle} {most}");
    let (forced, unforced) =
        (space("rocksdb-blob").unwrap(), space("rocksdb-blob-unforced").unwrap());
    assert!(forced < unforced, "{forced} {unforced}");
}

#[test]
fn what_runs_by_itself_are_engines_and_not_their_settings() {
    let usual = Flags::default().rivals;
    assert!(usual.iter().all(|maker| !maker.settings.contains("value_space")));
    let mut names: Vec<&str> = all().map(|maker| maker.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    // Long values go apart at all sizes from 1 KiB on, and short ones nowhere.
    for (name, sizes) in [("strandline-apart-130", 3), ("rocksdb-blob-unforced", 3), ("rocksdb", 4)]
    {
        let mut offered: Vec<usize> = stages::all()
            .filter(|stage| stage.prepared == Prepared::Worn)
            .filter(|stage| stage.cases.iter().all(|case| (named(name).offers)(stage, case)))
            .map(|stage| stage.value_size)
            .collect();
        offered.dedup();
        assert_eq!(offered.len(), sizes, "{name}: {offered:?}");
    }
}

#[test]
fn fjall() {
    smoke(named("fjall"), Place::Disk);
}

#[test]
fn redb() {
    smoke(named("redb"), Place::Disk);
}

#[test]
fn lmdb() {
    smoke(named("lmdb"), Place::Disk);
}

#[test]
fn promises_are_told_apart() {
    let promise = |name: &str, survives| {
        let scratch = on_disk()?;
        let engine = (named(name).open)(&setup(scratch.path(), Place::Disk, survives)).unwrap();
        let promise = engine.promise();
        engine.close().unwrap();
        Some(promise)
    };
    for maker in all() {
        let synced = promise(maker.name, Survives::Power);
        assert!(matches!(synced, None | Some(Promise::Synced)), "{}", maker.name);
    }
    for (name, unsynced) in [
        ("strandline", Promise::ProcessCrash),
        ("rocksdb", Promise::ProcessCrash),
        ("fjall", Promise::ProcessCrash),
        ("redb", Promise::Nothing),
        ("lmdb", Promise::ProcessCrashOrStore),
    ] {
        assert!(promise(name, Survives::Kill).is_none_or(|told| told == unsynced), "{name}");
    }
}

#[test]
fn bare_loops_stand_beside_synced_commits_of_one_thread_on_a_disk_only() {
    for stage in stages::all() {
        for case in stage.cases {
            let beside = stage.place == Place::Disk
                && case.survives == Survives::Power
                && case.threads == 1
                && matches!(case.work, Work::Commit(_));
            for maker in BARE_LOOPS {
                assert_eq!((maker.offers)(stage, case), beside, "{} {case:?}", maker.name);
            }
        }
    }
}

#[test]
fn bare_loops_write_what_they_are_given() {
    let Some(scratch) = on_disk() else { return };
    let setup = setup(scratch.path(), Place::Disk, Survives::Power);
    for (maker, file) in BARE_LOOPS.iter().zip(["Append", "Overwrite", "Direct"]) {
        let engine = (maker.open)(&setup).unwrap();
        let mut put = Vec::new();
        for number in 0..100_u8 {
            let (key, value) = ([number; 16], vec![number; 100 + 40 * usize::from(number)]);
            engine.put(&key, &value).unwrap();
            put.extend_from_slice(&key);
            put.extend_from_slice(&value);
        }
        engine.close().unwrap();
        let written = std::fs::read(scratch.path().join(format!("bare-{file}"))).unwrap();
        assert!(written.starts_with(&put), "{file}");
    }
}
