//! What is full takes writes again once data is deleted or dropped, without a reopen, whatever it was that filled.

mod common;

use common::{Place, ends, external, heap, noise, scattered, write_file};
use ssd::{Call, Disk, Failure, Faulty, Memory, Rule};
use strandline::{Batch, Db, ErrorKind, IngestOptions, Keyspace, Options, SsdSource};

const MIB: u64 = 1 << 20;
const POOL: u64 = 2 * MIB;
/// Less than the pool, so that either may be what fills.
const FILES: u64 = 3 * MIB / 2;
/// More than any of the stores below takes.
const PUTS_MAX: u64 = 100_000;
/// Times that the first of the presets is filled, and the others are.
const ROUNDS: [u64; 2] = [3, 2];
/// Of the puts of the first round, in percent, what each later one takes: what lies where differs.
const TAKEN_AGAIN: u64 = 90;

/// Presets whose level 0 is drained to SSD, with persistent memory that is given; `classic` makes its own.
const PRESETS: [&str; 5] = ["auto", "log-free", "wal-to-sst", "re-lsm", "l0l1-pm"];

/// What fills.
#[derive(Clone, Copy, Debug)]
enum Resource {
    Pool,
    Limit,
    Device,
}

/// How all data goes.
#[derive(Clone, Copy, Debug)]
enum Way {
    Keys,
    Range,
    Keyspace,
}

fn options(preset: &str, ssd_size: u64) -> Options {
    Options::preset(preset)
        .expect("preset")
        .pm_size(POOL)
        .ssd_size(ssd_size)
        .zone_size(16 << 10)
        .memtable_bytes(32 << 10)
        .block_cache(MIB)
        .background_threads(0)
        .recovery_threads(1)
}

fn open(preset: &str, resource: Resource) -> Db {
    match resource {
        Resource::Pool => {
            let without = options(preset, 0).ssd(SsdSource::None);
            Db::open_region(heap(POOL), without).expect("open")
        }
        Resource::Limit => Place::new(POOL, Memory::default()).open(options(preset, FILES)),
        Resource::Device => {
            let device = Memory::with_capacity(Disk::default(), FILES);
            Place::new(POOL, device).open(options(preset, 0))
        }
    }
}

/// Puts until one is refused; how many were not.
fn fill(space: &Keyspace, round: u64) -> u64 {
    for i in 0..PUTS_MAX {
        if let Err(error) = space.put(scattered(i), noise(i, round)) {
            let full = matches!(error.kind(), ErrorKind::NoSpace | ErrorKind::Io);
            assert!(full && error.context().len() > 10, "{error}");
            return i;
        }
    }
    panic!("{PUTS_MAX} puts do not fill the store");
}

fn delete_all(db: &Db, way: Way, count: u64) -> strandline::Result<()> {
    match way {
        Way::Keys => (0..count).try_for_each(|i| db.delete(scattered(i))),
        Way::Range => db.delete_range(b"", b"z"),
        Way::Keyspace => db.drop_keyspace("filled"),
    }
}

fn assert_comes_back(preset: &str, resource: Resource, way: Way) {
    let db = open(preset, resource);
    let mut first = 0;
    for round in 0..ROUNDS[usize::from(preset != PRESETS[0])] {
        let what = format!("{preset}, {resource:?}, {way:?}, round {round}");
        let space = match way {
            Way::Keyspace => db.create_keyspace("filled").expect("create"),
            Way::Keys | Way::Range => db.default_keyspace().clone(),
        };
        let count = fill(&space, round);
        first = if round == 0 { count } else { first };
        assert!(count * 100 >= first * TAKEN_AGAIN, "{what}: {first} puts, then {count}");
        for i in (0..count).step_by(101) {
            let found = space.get(scattered(i)).expect("get");
            assert_eq!(found, Some(noise(i, round)), "{what}: key {i}");
        }
        delete_all(&db, way, count).unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    let files = db.properties().ssd.map_or(0, |ssd| ssd.bytes);
    assert!(files <= FILES, "{preset}: {files} bytes of files");
    assert!(db.check().expect("check").damage.is_empty());
}

fn assert_all_come_back(way: Way) {
    ends(move || {
        for preset in PRESETS {
            assert_comes_back(preset, Resource::Limit, way);
            assert_comes_back(preset, Resource::Device, way);
        }
        // The others have tables.
        for preset in &PRESETS[..2] {
            assert_comes_back(preset, Resource::Pool, way);
        }
    });
}

/// The error of a full store says to delete keys. But a compaction writes its output before its inputs go: files that had
/// taken all they may left no room for any, and each delete, compaction and put was refused for ever.
#[test]
fn a_full_store_of_which_all_keys_are_deleted_is_filled_again() {
    assert_all_come_back(Way::Keys);
}

/// Where level 0 held next to nothing but the deletion of the range, it was not due to leave, so that the deletion never
/// met what it deletes.
#[test]
fn a_full_store_of_which_all_is_deleted_as_a_range_is_filled_again() {
    assert_all_come_back(Way::Range);
}

/// Files that are removed may take room until their directory is synced, which nothing did.
#[test]
fn a_full_store_whose_keyspace_is_dropped_is_filled_again() {
    assert_all_come_back(Way::Keyspace);
}

/// Without descriptors nothing leaves persistent memory. Once there are some, everything goes on by itself.
#[test]
fn a_store_that_ran_out_of_descriptors_is_filled_when_it_has_some() {
    ends(|| {
        for preset in PRESETS {
            let fs = std::sync::Arc::new(Faulty::new(Memory::default()));
            let place = Place { region: heap(POOL), fs: std::sync::Arc::clone(&fs) as _ };
            place.fs.create_dir_all("/sst".as_ref()).expect("directory");
            let db = place.open(options(preset, FILES));
            let space = db.default_keyspace();
            let whole = fill(space, 0);
            db.delete_range(b"", b"z").expect("delete");
            let none = |call| Rule::new(1, Failure::NoDescriptors).of(call).on(".sst").for_ever();
            fs.set_rules(vec![none(Call::Create), none(Call::Open)]);
            let few = fill(space, 1);
            assert!(few < whole, "{preset}: {few} puts without descriptors, {whole} with some");
            fs.set_rules(Vec::new());
            let rest = (few..PUTS_MAX).find(|i| space.put(scattered(*i), noise(*i, 1)).is_err());
            let again = rest.expect("the store fills");
            assert!(again * 100 >= whole * TAKEN_AGAIN, "{preset}: {whole} puts, then {again}");
            for i in (0..again).step_by(101) {
                assert_eq!(space.get(scattered(i)).expect("get"), Some(noise(i, 1)));
            }
        }
    });
}

/// What memtables take did not count in files, though it comes there, nor what a table has beside its entries; and level 0 took
/// what merges of one table need.
#[test]
fn however_large_the_files_are_to_the_pool_what_is_deleted_is_filled_again() {
    ends(|| {
        for (pool, files) in [(1024, 768), (2048, 640), (4096, 1024)] {
            for preset in PRESETS {
                let options = options(preset, files << 10).pm_size(pool << 10);
                let db = Place::new(pool << 10, Memory::default()).open(options);
                let space = db.default_keyspace();
                let mut first = 0;
                for round in 0..3 {
                    let what = format!("{preset}, {files} of {pool} KiB, round {round}");
                    let count = fill(space, round);
                    first = if round == 0 { count } else { first };
                    assert!(
                        count * 100 >= first * TAKEN_AGAIN,
                        "{what}: {first} puts, then {count}"
                    );
                    delete_all(&db, Way::Keys, count)
                        .unwrap_or_else(|error| panic!("{what}: {error}"));
                }
            }
        }
    });
}

/// Empty zones of keyspaces that were written to once counted as if they were about to come to files: a store without data took
/// no more.
#[test]
fn zones_that_stand_ready_for_idle_keyspaces_do_not_fill_files() {
    ends(|| {
        let options = options("auto", MIB).pm_size(8 * MIB).zone_size(64 << 10);
        let open = || Place::new(8 * MIB, Memory::default()).open(options.clone());
        let alone = fill(open().default_keyspace(), 0);
        let db = open();
        let idle: Vec<Keyspace> =
            (0..16).map(|no| db.create_keyspace(&format!("idle {no}")).expect("create")).collect();
        for space in &idle {
            // The second finds that no zone stands ready.
            space.put(b"key", b"value").expect("put");
            space.put(b"key", b"value").expect("put");
        }
        db.flush().expect("flush");
        let beside = fill(db.default_keyspace(), 0);
        assert!(beside * 100 >= alone * 80, "{alone} puts alone, {beside} beside idle keyspaces");
    });
}

/// Files that are ingested took the room that level 0 needs to leave: what was in persistent memory, and each deletion, stayed
/// there for ever.
#[test]
fn a_store_filled_by_ingests_takes_writes_again_when_all_is_deleted() {
    const ENTRIES: u64 = 100;
    ends(|| {
        for preset in PRESETS {
            let place = Place::new(POOL, Memory::default());
            let db = place.open(options(preset, FILES));
            let space = db.default_keyspace();
            let first = fill(space, 0);
            delete_all(&db, Way::Keys, first).expect("delete");
            // Some for persistent memory, then files until one is refused.
            for i in 0..first / 4 {
                space.put(scattered(i), noise(i, 1)).expect("put");
            }
            let refused = (0..PUTS_MAX).find_map(|no| {
                let key = |i| format!("z{:010}", no * ENTRIES + i).into_bytes();
                let entries: Vec<_> = (0..ENTRIES).map(|i| (key(i), Some(noise(i, no)))).collect();
                let path = write_file(&*place.fs, &format!("/{no}.sst"), &external(&entries, &[]));
                db.ingest(space, &[path], IngestOptions::default()).err()
            });
            let refused = refused.expect("files fill the store");
            assert_eq!(refused.kind(), ErrorKind::NoSpace, "{preset}: {refused}");
            db.delete_range(b"z", b"zz").unwrap_or_else(|error| panic!("{preset}: {error}"));
            delete_all(&db, Way::Keys, first / 4)
                .unwrap_or_else(|error| panic!("{preset}: {error}"));
            let again = fill(space, 2);
            assert!(again * 100 >= first * TAKEN_AGAIN, "{preset}: {first} puts, then {again}");
        }
    });
}

/// Values that have extents of their own were refused at once where there was a little room, and what was deleted stayed.
#[test]
fn long_values_that_are_deleted_as_a_range_make_room_for_as_many() {
    let long = |i: u64| noise(i, 0).repeat(230);
    ends(move || {
        for preset in PRESETS {
            let options = options(preset, 2 * MIB).zone_size(0);
            let options = options.pm_size(4 * MIB).memtable_bytes(1 << 20);
            let db = Place::new(4 * MIB, Memory::default()).open(options);
            let fill = || {
                let refused = |i: &u64| db.put(scattered(*i), long(*i)).is_err();
                (0..PUTS_MAX).find(refused).expect("the store fills")
            };
            let first = fill();
            for round in 1..3 {
                db.delete_range(b"", b"z").expect("delete");
                let again = fill();
                assert!(
                    again * 100 >= first * TAKEN_AGAIN,
                    "{preset}, round {round}: {first} puts, then {again}"
                );
            }
        }
    });
}

/// Each open takes a zone for what is deleted then. The last one went the same way, and nothing had room for an index run.
#[test]
fn deletions_one_to_an_open_leave_room_to_flush_them() {
    ends(|| {
        for preset in PRESETS {
            let place = Place::new(MIB, Memory::default());
            let options = options(preset, MIB / 2).pm_size(MIB).zone_size(64 << 10);
            let open = || place.open(options.clone());
            let first = fill(open().default_keyspace(), 0);
            for i in 0..first.min(300) {
                let deleted = open().delete(scattered(i));
                deleted.unwrap_or_else(|error| panic!("{preset}, delete {i}: {error}"));
            }
            let db = open();
            delete_all(&db, Way::Keys, first).unwrap_or_else(|error| panic!("{preset}: {error}"));
            let again = fill(db.default_keyspace(), 1);
            assert!(again * 100 >= first * TAKEN_AGAIN, "{preset}: {first} puts, then {again}");
        }
    });
}

/// Where there is room for the zones of a few subranges, those of a batch over many are taken from each other in turn.
#[test]
fn a_batch_over_many_keyspaces_ends_in_a_full_store() {
    ends(|| {
        let options = options("auto", MIB).pm_size(8 * MIB).zone_size(64 << 10);
        let db = Place::new(8 * MIB, Memory::default()).open(options);
        // The zones of all are more than all room in files, those of some more than half of it.
        let many: Vec<Keyspace> = (0..24)
            .map(|no| db.create_keyspace(&format!("one of many {no}")).expect("create"))
            .collect();
        let write = |spaces: &[Keyspace]| {
            let mut batch = Batch::new();
            spaces.iter().for_each(|space| batch.put(space, b"key", b"value"));
            db.write(&batch)
        };
        let refused = write(&many).expect_err("there is never room for as many zones");
        let split =
            refused.context().contains("24 subranges") && refused.context().contains("split");
        assert!(refused.kind() == ErrorKind::NoSpace && split, "{refused}");
        let count = fill(db.default_keyspace(), 0);
        if let Err(error) = write(&many[..10]) {
            assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        }
        delete_all(&db, Way::Keys, count).expect("delete");
        write(&many[..10]).expect("there is room");
        for space in &many[..10] {
            assert_eq!(space.get(b"key").expect("get").as_deref(), Some(&b"value"[..]));
        }
    });
}

/// Where files took more than a smaller limit allows, there was no room for any merge, and what was deleted stayed for ever.
/// Opens stores of twice and four times the limit, deletes so many percent, and fills them again.
fn comes_back_by_deleting(percent: u64, way: Way) {
    ends(move || {
        for preset in PRESETS {
            let fresh = fill(
                Place::new(POOL, Memory::default()).open(options(preset, FILES)).default_keyspace(),
                0,
            );
            let times = if preset == PRESETS[0] { 4 } else { 2 };
            let place = Place::new(POOL, Memory::default());
            let open = |limit| place.open(options(preset, limit));
            let count = fill(open(times * FILES).default_keyspace(), 0);
            let what = format!("{preset}, {way:?}, {times} times the limit, {percent} percent");
            let db = open(FILES);
            let refused = db.put(b"key", b"value").expect_err("the files take too much");
            assert_eq!(refused.kind(), ErrorKind::NoSpace, "{what}");
            let deleted = count * percent / 100;
            delete_all(&db, way, deleted).unwrap_or_else(|error| panic!("{what}: {error}"));
            for round in 1..3 {
                let again = fill(db.default_keyspace(), round);
                let kept = count - deleted;
                assert!(
                    (again + kept) * 100 >= fresh * TAKEN_AGAIN,
                    "{what}: {fresh} puts in a new one, then {again}"
                );
                let files = db.properties().ssd.map_or(0, |ssd| ssd.bytes);
                assert!(files <= FILES, "{what}: {files} bytes of files");
                delete_all(&db, Way::Keys, again).unwrap_or_else(|error| panic!("{what}: {error}"));
            }
        }
    });
}

#[test]
fn a_store_opened_with_a_limit_below_what_it_takes_comes_back_by_deleting() {
    comes_back_by_deleting(100, Way::Keys);
}

#[test]
fn it_comes_back_by_deleting_a_range() {
    comes_back_by_deleting(100, Way::Range);
}

/// What is left takes the way below the limit in small steps.
#[test]
fn it_comes_back_by_deleting_some() {
    comes_back_by_deleting(80, Way::Keys);
}

/// A table that is larger than the limit is rewritten once enough of it is deleted.
#[test]
fn a_large_table_of_a_store_opened_with_a_small_limit_shrinks() {
    const COUNT: u64 = 25_000;
    ends(|| {
        for preset in PRESETS {
            let place = Place::new(POOL, Memory::default());
            let open = |limit| place.open(options(preset, limit));
            let large = open(0);
            (0..COUNT).for_each(|i| large.put(scattered(i), noise(i, 0)).expect("put"));
            large.compact().expect("compact");
            drop(large);
            let db = open(FILES / 2);
            let files = || db.properties().ssd.map_or(0, |ssd| ssd.bytes);
            let whole = files();
            let deleted = COUNT * 9 / 10;
            for i in 0..deleted {
                db.delete(scattered(i)).unwrap_or_else(|error| panic!("{preset}: {error}"));
                // Half way, as figures take long.
                if i == COUNT / 2 {
                    let now = files();
                    assert!(now <= whole * 3 / 4, "{preset}: {now} of {whole} bytes left");
                }
            }
            db.put(b"key", b"value").unwrap_or_else(|error| panic!("{preset}: {error}"));
            assert!(files() <= FILES / 2, "{preset}: {} bytes of files", files());
            for i in (deleted..COUNT).step_by(101) {
                assert_eq!(db.get(scattered(i)).expect("get"), Some(noise(i, 0)), "{preset}");
            }
        }
    });
}
