use super::*;
use base::{Result, Seq};
use sst::{Blocks, EntryKind, Handle, Layout, Role, SEQ_MAX, Table, Writer, WriterOptions};

/// A table in memory that is read through a cache.
struct Through {
    user: CacheUser,
    table: u64,
    bytes: Arc<[u8]>,
    cache: Arc<BlockCache>,
}

impl Blocks for Through {
    fn get(&self, layout: &Layout, handle: Handle, role: Role) -> Result<Arc<Block>> {
        let key = BlockKey { user: self.user, table: self.table, offset: handle.offset };
        match self.cache.find(key) {
            Some(block) => Ok(block),
            None => Ok(self.cache.keep(key, role, layout.load(&self.bytes, handle, role)?)),
        }
    }
}

const KEYS: u64 = 5000;
const USER: CacheUser = CacheUser(0);

fn table(id: u64, cache: &Arc<BlockCache>) -> Arc<Table<Through>> {
    let cache = Arc::clone(cache);
    table_with(id as u8, |bytes| Through { user: USER, table: id, bytes, cache })
}

/// A table whose values are all of this byte.
fn table_with(filling: u8, through: impl FnOnce(Arc<[u8]>) -> Through) -> Arc<Table<Through>> {
    let mut writer = Writer::new(Vec::new(), WriterOptions::default());
    for i in 0..KEYS {
        let key = format!("{i:08}");
        writer.add(key.as_bytes(), Seq::new(1), EntryKind::Value, &[filling; 100]).expect("add");
    }
    let bytes: Arc<[u8]> = writer.finish().expect("finish").0.into();
    let layout = Layout::open(&bytes).expect("open");
    Arc::new(Table::new(Arc::new(layout), through(bytes)))
}

fn purge(cache: &BlockCache, table: u64) {
    cache.purge(USER, table);
}

fn get(table: &Table<Through>, i: u64) -> sst::Hit {
    table.get(format!("{i:08}").as_bytes(), SEQ_MAX).expect("get").expect("found")
}

#[test]
fn the_budget_is_kept_by_everybody_together() {
    let cache = Arc::new(BlockCache::new(300 << 10));
    let tables: Vec<_> = (0..3).map(|id| table(id, &cache)).collect();
    std::thread::scope(|scope| {
        for seed in 0..3_u64 {
            let (cache, tables) = (&cache, &tables);
            scope.spawn(move || {
                for i in 0..20_000_u64 {
                    let at = mix(seed, i);
                    let hit = get(&tables[(at % 3) as usize], at / 3 % KEYS);
                    assert_eq!(hit.value(), [(at % 3) as u8; 100]);
                    assert!(cache.figures().charged <= cache.budget() + (3 << 13));
                }
            });
        }
    });
    let figures = cache.figures();
    assert!(figures.charged <= figures.budget && figures.charged > figures.budget / 2);
    assert!(figures.evictions > 1000 && figures.hits > figures.misses / 10);
    assert_eq!(figures.inserts - figures.evictions, live(&cache));
    (0..3).for_each(|id| purge(&cache, id));
    assert_eq!((cache.figures().charged, live(&cache)), (0, 0));
    assert_eq!(cache.figures().purged, figures.inserts - figures.evictions);
}

fn live(cache: &BlockCache) -> u64 {
    cache.blocks.len()
}

#[test]
fn what_was_read_is_here_and_the_index_stays_longer() {
    let cache = Arc::new(BlockCache::new(200 << 10));
    let table = table(7, &cache);
    drop(get(&table, 17));
    let first = cache.figures();
    drop(get(&table, 17));
    let again = cache.figures();
    assert_eq!(again.misses, first.misses);
    assert!(again.hits >= first.hits + 2, "index and data");
    // All data passes through once; each needs the index, which is not read again.
    for i in (0..KEYS).step_by(30) {
        drop(get(&table, i));
    }
    let data_blocks = table.layout().properties().data_blocks;
    assert!(cache.figures().misses <= first.misses + data_blocks);
}

#[test]
fn blocks_that_readers_hold_are_charged_and_never_leave() {
    let cache = Arc::new(BlockCache::new(100 << 10));
    let table = table(1, &cache);
    let held: Vec<sst::Hit> = (0..KEYS).step_by(40).map(|i| get(&table, i)).collect();
    let figures = cache.figures();
    assert!(figures.refused > 0, "{figures:?}");
    assert!(figures.charged <= figures.budget);
    drop(held);
    let before = cache.figures().refused;
    drop(get(&table, KEYS - 1));
    assert_eq!(cache.figures().refused, before, "there is room again");
}

#[test]
fn tables_hold_half_of_the_budget_at_most() {
    let cache = Arc::new(BlockCache::new(100 << 10));
    let block = get(&table(1, &cache), 0).block;
    let mut held = Vec::new();
    while let Some(hold) = cache.hold(&block) {
        held.push(hold);
    }
    let figures = cache.figures();
    assert!((40 << 10..=50 << 10).contains(&figures.held), "{figures:?}");
    assert!(figures.charged >= figures.held && figures.charged <= figures.budget);
    held.clear();
    assert_eq!(cache.figures().held, 0);
    drop(block);
    purge(&cache, 1);
    assert_eq!(cache.figures().charged, 0);
}

#[test]
fn stores_that_share_a_cache_get_and_drop_their_own_blocks_only() {
    let cache = Arc::new(BlockCache::new(16 << 20));
    let [one, other] = [StoreCache::of(&cache), StoreCache::of(&cache)];
    // The same numbers, as each store counts its tables from 1 on.
    let number = 1;
    let tables = [(&one, 3), (&other, 4)].map(|(store, filling)| {
        let through =
            |bytes| Through { user: store.user, table: number, bytes, cache: Arc::clone(&cache) };
        table_with(filling, through)
    });
    for i in (0..KEYS).step_by(7) {
        assert_eq!(get(&tables[0], i).value(), [3; 100]);
        assert_eq!(get(&tables[1], i).value(), [4; 100]);
    }
    let both = live(&cache);
    one.purge(number);
    assert_eq!(live(&cache), both / 2);
    one.purge(number);
    StoreCache::of(&cache).purge(number);
    assert_eq!(live(&cache), both / 2);
    // Those of a store that is closed are evicted as others are read.
    let closed = other.user;
    drop(other);
    assert_ne!(StoreCache::of(&cache).user, closed);
    assert_eq!(live(&cache), both / 2);
}

/// What the cache has of the system, and what it may have.
fn had_and_allowed(cache: &BlockCache) -> (u64, u64) {
    let had = cache.memory.mapped() + cache.elsewhere();
    (had, cache.budget() + cache.memory.tolerance())
}

#[test]
fn memory_follows_a_budget_that_changes_while_threads_read() {
    const TABLES: u64 = 16;
    let cache = Arc::new(BlockCache::new(8 << 20));
    let tables: Vec<_> = (0..TABLES).map(|id| table(id, &cache)).collect();
    std::thread::scope(|scope| {
        for seed in 0..3_u64 {
            let tables = &tables;
            scope.spawn(move || {
                for i in 0..30_000_u64 {
                    let at = mix(seed, i);
                    let hit = get(&tables[(at % TABLES) as usize], at / TABLES % KEYS);
                    assert_eq!(hit.value(), [(at % TABLES) as u8; 100]);
                }
            });
        }
        for round in 0..300 {
            cache.set_budget([1 << 20, 4 << 20, 300 << 10, 8 << 20][round % 4]);
        }
    });
    cache.set_budget(8 << 20);
    (0..KEYS).step_by(20).for_each(|i| tables.iter().for_each(|table| drop(get(table, i))));
    let (full, _) = had_and_allowed(&cache);
    assert!(full > 7 << 20, "{full}");
    cache.set_budget(2 << 20);
    let (had, allowed) = had_and_allowed(&cache);
    assert!(had <= allowed, "{had} of {allowed}");
    assert!(cache.figures().charged > 1 << 20, "what stays is most of what may");
    for (id, table) in tables.iter().enumerate() {
        assert_eq!(get(table, 77).value(), [id as u8; 100]);
    }
    (0..TABLES).for_each(|id| purge(&cache, id));
    assert_eq!((cache.figures().charged, cache.memory.mapped()), (0, 0));
}

#[test]
fn memory_gives_way_to_what_is_on_the_heap() {
    let cache = Arc::new(BlockCache::new(4 << 20));
    let tables: Vec<_> = (0..10).map(|id| table(id, &cache)).collect();
    (0..KEYS).step_by(20).for_each(|i| tables.iter().for_each(|table| drop(get(table, i))));
    assert!(cache.memory.mapped() > 3 << 20, "full");
    let held: Vec<Hold> = (0..100).map_while(|_| cache.hold_bytes(32 << 10, 2 << 20)).collect();
    assert_eq!(held.len(), 64);
    let (had, allowed) = had_and_allowed(&cache);
    assert!(had <= allowed, "{had} of {allowed}");
    // Long ones are there, too, and leave room for others.
    let long = vec![7; 1 << 20];
    let key = BlockKey { user: USER, table: 99, offset: 0 };
    cache.keep(key, Role::Value, Block::of_value(long, 0));
    let (had, allowed) = had_and_allowed(&cache);
    assert!(had <= allowed + (1 << 20), "{had} of {allowed}: by one of them at most");
    assert_eq!(cache.find(key).map(|block| block.bytes().len()), Some(1 << 20));
}
