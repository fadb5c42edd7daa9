//! A long scan beside gets: it leaves a full block cache as it is, also where the memory of that is full before all of its budget is taken.

use crate::common::{TempDir, noise, numbered as key};
use strandline::{
    CacheFigures, Compression, Db, MemorySource, Options, PmSource, ReadOptions, WalSync,
};
use testkit::Rng;

const KEYS: u64 = 20_000;
const GETS: u64 = 8_000;
/// Entries that a scan goes on by for each get.
const STEPS: usize = 12;

fn options() -> Options {
    Options::default()
        .pm(PmSource::Dram)
        .pm_size(8 << 20)
        .dram_budget(16 << 20)
        .wal_sync(WalSync::Never)
        .memtable_bytes(1 << 20)
        .table_bytes(32 << 20)
        .subranges(1)
        .compression(Compression::None)
        .cache_records(false)
        .background_threads(0)
        .recovery_threads(1)
}

/// Of many lengths, so that blocks have, too, and what is free in the memory of the cache is scattered.
fn value(i: u64) -> Vec<u8> {
    let len = 30 + i.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 1500;
    noise(i, 1).into_iter().cycle().take(len as usize).collect()
}

fn figures(db: &Db) -> CacheFigures {
    db.properties().ssd.expect("tables").cache
}

/// What goes on beside gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Nothing,
    Cursor,
    Iterator,
}

/// A scan of everything that goes on by a few entries for each get, and begins again at its end.
fn scan(db: &Db, beside: Beside) -> Box<dyn FnMut() + '_> {
    match beside {
        Beside::Nothing => Box::new(|| ()),
        Beside::Cursor => {
            let mut cursor = db.default_keyspace().cursor(&ReadOptions::default()).expect("cursor");
            Box::new(move || {
                for _ in 0..STEPS {
                    match cursor.valid() {
                        true => cursor.next().expect("next"),
                        false => cursor.seek_to_first().expect("seek"),
                    }
                }
            })
        }
        Beside::Iterator => {
            let mut all = std::iter::repeat_with(|| db.iter()).flatten();
            Box::new(move || {
                all.by_ref().take(STEPS).for_each(|entry| drop(entry.expect("entry")));
            })
        }
    }
}

/// Gets of a thousand that find their block in the cache. Three of four are of `hot` keys, each in a block of its own.
fn hits(db: &Db, hot: u64, beside: Beside) -> u64 {
    let (mut rng, mut hits) = (Rng::new(7), 0);
    let mut goes_on = scan(db, beside);
    for round in 0..2 * GETS {
        let i = if rng.below(4) == 0 { rng.below(KEYS) } else { rng.below(hot) * (KEYS / hot) };
        let before = figures(db).misses;
        assert_eq!(db.get(key(i)).expect("get"), Some(value(i)));
        hits += u64::from(round >= GETS && figures(db).misses == before);
        goes_on();
    }
    hits * 1000 / GETS
}

#[test]
fn a_long_scan_leaves_a_full_cache_as_it_is() {
    let dir = TempDir::new("scans-beside");
    let of_one_length = MemorySource::Dir(dir.path().to_owned());
    // In DRAM, parts are mapped as long as they and what is on the heap are within the budget: the last bytes of it are never charged.
    let memories = [
        (MemorySource::Dram, 2 << 20, 260),
        (MemorySource::Dram, 4 << 20, 600),
        // Of less, the first 128 KiB of each scan are a larger part.
        (of_one_length, 4 << 20, 600),
    ];
    for (memory, cache, hot) in memories {
        let options = options().block_cache(cache).block_cache_memory(memory.clone());
        let db = Db::open(dir.join("store"), options).expect("open");
        (0..KEYS).for_each(|i| db.put(key(i), value(i)).expect("put"));
        db.compact().expect("compact");
        let alone = hits(&db, hot, Beside::Nothing);
        for beside in [Beside::Cursor, Beside::Iterator] {
            let hits = hits(&db, hot, beside);
            // The first blocks are taken in, of a cursor those of each table: nothing says then that the scan is long.
            assert!(hits + 35 > alone, "{memory:?}, {cache}, {beside:?}: {hits}, {alone} alone");
        }
        let told = figures(&db);
        assert!(alone > 700 && told.evictions > 1000, "{told:?}");
        drop(db);
        std::fs::remove_dir_all(dir.join("store")).expect("remove");
    }
}
