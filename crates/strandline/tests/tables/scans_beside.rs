//! A long scan beside gets: it leaves a full block cache as it is, also where the memory of that is full before all of its budget is taken.

use crate::common::{TempDir, noise, numbered as key};
use strandline::{
    CacheFigures, Compression, Db, MemorySource, Options, PmSource, ReadOptions, WalSync,
};
use testkit::Rng;

const KEYS: u64 = 20_000;
const GETS: u64 = 8_000;
/// Entries that a scan goes on by for each get.
const STEPS: u64 = 12;

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

/// Gets of a thousand that find their block in the cache, alone or beside a scan of everything. Three of four are of `hot` keys, each in a
/// block of its own.
fn hits(db: &Db, hot: u64, steps: u64) -> u64 {
    let (mut rng, mut hits) = (Rng::new(7), 0);
    let mut scan = db.default_keyspace().cursor(&ReadOptions::default()).expect("cursor");
    for round in 0..2 * GETS {
        let i = if rng.below(4) == 0 { rng.below(KEYS) } else { rng.below(hot) * (KEYS / hot) };
        let before = figures(db).misses;
        assert_eq!(db.get(key(i)).expect("get"), Some(value(i)));
        hits += u64::from(round >= GETS && figures(db).misses == before);
        for _ in 0..steps {
            match scan.valid() {
                true => scan.next().expect("next"),
                false => scan.seek_to_first().expect("seek"),
            }
        }
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
        (of_one_length, 2 << 20, 260),
    ];
    for (memory, cache, hot) in memories {
        let options = options().block_cache(cache).block_cache_memory(memory.clone());
        let db = Db::open(dir.join("store"), options).expect("open");
        (0..KEYS).for_each(|i| db.put(key(i), value(i)).expect("put"));
        db.compact().expect("compact");
        let alone = hits(&db, hot, 0);
        let beside = hits(&db, hot, STEPS);
        let told = figures(&db);
        assert!(alone > 700 && told.evictions > 1000, "{told:?}");
        // The first blocks of each table are taken in: nothing says then that the scan is long.
        assert!(beside + 35 > alone, "{memory:?}, {cache}: {beside} of 1000, {alone} alone");
        drop(db);
        std::fs::remove_dir_all(dir.join("store")).expect("remove");
    }
}
