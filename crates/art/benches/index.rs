//! Compares the tree with other ordered maps as a memtable's index.
//!
//! ```text
//! cargo bench -p strandline-art --bench index -- [keys in millions, default 2] [rounds, default 3] [ours]
//! ```
//!
//! Keys lie in one array of records, in insertion order, outside of every index; every index holds a 62-bit
//! or 64-bit location per key. A get compares the key with the record's, in every index. A scan seeks a
//! random key and reads 100 locations. Rates are in millions per second, the best of the rounds; 2T is two
//! writers with half of the keys each. Bytes are what the index holds per key, without the records.

use std::alloc::{GlobalAlloc, Layout, System};
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use art::{Art, Direction, Records, Versions};
use artmap::{ArenaVersionedArtMap, AsBytes};
use base::random::Rng;
use crossbeam_skiplist::SkipMap;

/// Counts what the maps without accounts of their own allocate.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged; counting touches no memory of its blocks.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: the caller's promises are passed on.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: by this function's contract.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: the caller's promises are passed on.
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: by this function's contract.
        unsafe { System.dealloc(memory, layout) }
    }

    // SAFETY: the caller's promises are passed on.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: by this function's contract.
        unsafe { System.alloc_zeroed(layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Records in insertion order: seq (8 bytes), key length (2), key.
struct Log {
    bytes: Vec<u8>,
    /// Where each record starts.
    starts: Vec<u64>,
}

impl Log {
    fn new(keys: impl Iterator<Item = Vec<u8>>) -> &'static Self {
        let (mut bytes, mut starts) = (Vec::new(), Vec::new());
        for (i, key) in keys.enumerate() {
            starts.push(bytes.len() as u64);
            bytes.extend_from_slice(&(i as u64 + 1).to_le_bytes());
            bytes.extend_from_slice(&(key.len() as u16).to_le_bytes());
            bytes.extend_from_slice(&key);
        }
        Box::leak(Box::new(Self { bytes, starts }))
    }

    fn len(&self) -> usize {
        self.starts.len()
    }
}

impl Log {
    #[inline]
    fn key(&self, leaf: u64) -> &[u8] {
        let record = &self.bytes[leaf as usize..];
        let len = u16::from_le_bytes([record[8], record[9]]);
        &record[10..10 + usize::from(len)]
    }
}

impl Records for Log {
    #[inline]
    fn key(&self, leaf: u64) -> Option<&[u8]> {
        Some(Log::key(self, leaf))
    }

    #[inline]
    fn seq(&self, leaf: u64) -> u64 {
        u64::from_le_bytes(self.bytes[leaf as usize..][..8].try_into().expect("8 bytes"))
    }
}

/// A key whose bytes stay in the log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Outside(&'static [u8]);

impl AsBytes for Outside {
    #[inline]
    fn as_bytes(&self) -> &[u8] {
        self.0
    }
}

impl Borrow<[u8]> for Outside {
    fn borrow(&self) -> &[u8] {
        self.0
    }
}

/// The numbers below `count` in random order.
fn order(rng: &mut Rng, count: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..count as u32).collect();
    for i in (1..count).rev() {
        order.swap(i, rng.index(i + 1));
    }
    order
}

/// An index under test.
trait Index: Sync {
    fn new(keys: usize) -> Self;
    /// Inserts some of the log's records.
    fn insert(&mut self, log: &'static Log, starts: &[u64]);
    /// The same from several threads; false if it cannot.
    fn insert_shared(&self, _: &'static Log, _: &[u64]) -> bool {
        false
    }
    fn get(&self, log: &'static Log, key: &'static [u8]) -> Option<u64>;
    /// The sum of the locations of up to 100 keys from `key` on.
    fn scan(&self, log: &'static Log, key: &'static [u8], out: &mut Vec<u64>) -> u64;
    /// Bytes held, if the index counts them.
    fn bytes(&self) -> Option<usize>;
}

struct Ours(Art);

impl Index for Ours {
    fn new(_: usize) -> Self {
        Self(Art::new())
    }

    fn insert(&mut self, log: &'static Log, starts: &[u64]) {
        self.insert_shared(log, starts);
    }

    fn insert_shared(&self, log: &'static Log, starts: &[u64]) -> bool {
        starts.iter().for_each(|leaf| {
            self.0.insert(log, log.key(*leaf), log.seq(*leaf), *leaf).expect("readable");
        });
        true
    }

    fn get(&self, log: &'static Log, key: &'static [u8]) -> Option<u64> {
        self.0.get(key, u64::MAX).filter(|leaf| log.key(*leaf) == key)
    }

    fn scan(&self, log: &'static Log, key: &'static [u8], out: &mut Vec<u64>) -> u64 {
        out.clear();
        let at = Versions::At(u64::MAX);
        self.0.scan(log, Bound::Included(key), Direction::Forward, at, 100, out);
        out.iter().fold(0, |sum, leaf| sum ^ leaf)
    }

    fn bytes(&self) -> Option<usize> {
        Some(self.0.used_bytes())
    }
}

/// Ours, warmed for batches of 100 keys before they are inserted.
struct Warmed(Ours);

impl Index for Warmed {
    fn new(keys: usize) -> Self {
        Self(Ours::new(keys))
    }

    fn insert(&mut self, log: &'static Log, starts: &[u64]) {
        self.insert_shared(log, starts);
    }

    fn insert_shared(&self, log: &'static Log, starts: &[u64]) -> bool {
        for batch in starts.chunks(100) {
            let keys: Vec<&[u8]> = batch.iter().map(|leaf| log.key(*leaf)).collect();
            self.0.0.warm(&keys);
            self.0.insert_shared(log, batch);
        }
        true
    }

    fn get(&self, log: &'static Log, key: &'static [u8]) -> Option<u64> {
        self.0.get(log, key)
    }

    fn scan(&self, log: &'static Log, key: &'static [u8], out: &mut Vec<u64>) -> u64 {
        self.0.scan(log, key, out)
    }

    fn bytes(&self) -> Option<usize> {
        self.0.bytes()
    }
}

struct Artmap(ArenaVersionedArtMap<Outside, u64>);

impl Index for Artmap {
    fn new(keys: usize) -> Self {
        Self(ArenaVersionedArtMap::with_capacity((keys * 400).max(64 << 20)))
    }

    fn insert(&mut self, log: &'static Log, starts: &[u64]) {
        self.insert_shared(log, starts);
    }

    fn insert_shared(&self, log: &'static Log, starts: &[u64]) -> bool {
        for leaf in starts {
            self.0.insert(Outside(log.key(*leaf)), log.seq(*leaf), *leaf);
        }
        true
    }

    fn get(&self, _: &'static Log, key: &'static [u8]) -> Option<u64> {
        self.0.get_version_le(key, u64::MAX).map(|(_, leaf)| leaf)
    }

    fn scan(&self, _: &'static Log, key: &'static [u8], _: &mut Vec<u64>) -> u64 {
        let (mut sum, mut count) = (0, 0);
        self.0.scan::<_, [u8], _>((Bound::Included(key), Bound::Unbounded), |_, leaf, _| {
            sum ^= leaf;
            count += 1;
            count < 100
        });
        sum
    }

    fn bytes(&self) -> Option<usize> {
        Some(self.0.arena().size())
    }
}

struct Skip(SkipMap<Outside, u64>);

impl Index for Skip {
    fn new(_: usize) -> Self {
        Self(SkipMap::new())
    }

    fn insert(&mut self, log: &'static Log, starts: &[u64]) {
        self.insert_shared(log, starts);
    }

    fn insert_shared(&self, log: &'static Log, starts: &[u64]) -> bool {
        for leaf in starts {
            self.0.insert(Outside(log.key(*leaf)), *leaf);
        }
        true
    }

    fn get(&self, _: &'static Log, key: &'static [u8]) -> Option<u64> {
        self.0.get(key).map(|entry| *entry.value())
    }

    fn scan(&self, _: &'static Log, key: &'static [u8], _: &mut Vec<u64>) -> u64 {
        let range = self.0.range(Outside(key)..).take(100);
        range.fold(0, |sum, entry| sum ^ entry.value())
    }

    fn bytes(&self) -> Option<usize> {
        None
    }
}

struct Tree(BTreeMap<Outside, u64>);

impl Index for Tree {
    fn new(_: usize) -> Self {
        Self(BTreeMap::new())
    }

    fn insert(&mut self, log: &'static Log, starts: &[u64]) {
        for leaf in starts {
            self.0.insert(Outside(log.key(*leaf)), *leaf);
        }
    }

    fn get(&self, _: &'static Log, key: &'static [u8]) -> Option<u64> {
        self.0.get(key).copied()
    }

    fn scan(&self, _: &'static Log, key: &'static [u8], _: &mut Vec<u64>) -> u64 {
        self.0.range(Outside(key)..).take(100).fold(0, |sum, (_, leaf)| sum ^ leaf)
    }

    fn bytes(&self) -> Option<usize> {
        None
    }
}

/// Millions per second.
fn rate(count: usize, work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    count as f64 / start.elapsed().as_secs_f64() / 1e6
}

/// One line of the table: insert 1T, insert 2T, get, scan, bytes per key.
fn measure<I: Index>(name: &str, log: &'static Log, rounds: usize) {
    let mut random = Rng::new(0x9e37_79b9);
    let probes: Vec<&'static [u8]> = order(&mut random, log.len())
        .into_iter()
        .map(|i| log.key(log.starts[i as usize]))
        .collect();
    let mut best = [0f64; 4];
    let mut bytes = 0;
    let mut keep = |slot: usize, rate: f64| best[slot] = best[slot].max(rate);
    for _ in 0..rounds {
        let before = ALLOCATED.load(Ordering::Relaxed);
        let mut index = I::new(log.len());
        keep(0, rate(log.len(), || index.insert(log, &log.starts)));
        let allocated = ALLOCATED.load(Ordering::Relaxed) - before;
        bytes = index.bytes().unwrap_or(allocated);
        let mut missing = 0;
        keep(
            2,
            rate(log.len(), || {
                missing = probes.iter().filter(|key| index.get(log, key).is_none()).count();
            }),
        );
        assert_eq!(missing, 0);
        let scans = &probes[..probes.len().min(200_000)];
        let mut out = Vec::with_capacity(100);
        keep(
            3,
            rate(scans.len(), || {
                scans.iter().for_each(|key| _ = black_box(index.scan(log, key, &mut out)));
            }),
        );
        drop(index);

        let index = I::new(log.len());
        let (left, right) = log.starts.split_at(log.len() / 2);
        let mut shared = false;
        let both = rate(log.len(), || {
            std::thread::scope(|scope| {
                scope.spawn(|| index.insert_shared(log, left));
                shared = index.insert_shared(log, right);
            });
        });
        keep(1, if shared { both } else { f64::NAN });
    }
    let per_key = bytes as f64 / log.len() as f64;
    let two = if best[1] > 0.0 { format!("{:.1}", best[1]) } else { "-".into() };
    println!(
        "| {name:<20} | {:>9.1} | {two:>9} | {:>5.1} | {:>8.3} | {per_key:>9.1} |",
        best[0], best[2], best[3]
    );
}

/// Gets of ours that leave the comparison with the record to later: one by one, and in batches.
fn candidates(log: &'static Log, rounds: usize) {
    let mut index = Ours::new(log.len());
    index.insert(log, &log.starts);
    let probes: Vec<&'static [u8]> = order(&mut Rng::new(77), log.len())
        .into_iter()
        .map(|i| log.key(log.starts[i as usize]))
        .collect();
    let (mut single, mut many) = (0f64, 0f64);
    let mut out = Vec::new();
    for _ in 0..rounds {
        single = single.max(rate(probes.len(), || {
            probes.iter().for_each(|key| _ = black_box(index.0.get(key, u64::MAX)));
        }));
        many = many.max(rate(probes.len(), || {
            for keys in probes.chunks(100) {
                out.clear();
                index.0.get_many(keys, u64::MAX, &mut out);
                black_box(&out);
            }
        }));
    }
    let held = index.0.bytes() as f64 / log.len() as f64;
    println!("ours: candidates one by one {single:.1} M/s, in batches of 100 {many:.1} M/s;");
    println!("      {held:.1} bytes per key in chunks");
}

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|arg| arg.parse::<f64>().ok());
    let count = (numbers.next().unwrap_or(2.0) * 1e6) as usize;
    let rounds = numbers.next().unwrap_or(3.0) as usize;
    let mut random = Rng::new(42);
    type MakeKey = fn(&mut Rng, u64) -> Vec<u8>;
    let kinds: [(&str, MakeKey); 3] = [
        ("dense: 8-byte number + 8 x '0'", |_, i| [&i.to_be_bytes()[..], &[b'0'; 8]].concat()),
        ("sparse: 8 random bytes", |random, _| random.next().to_be_bytes().to_vec()),
        ("paths: /tenant/NNN/objects/<mixed hex>/meta", |_, i| {
            let mixed = (i / 100).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            format!("/tenant/{:03}/objects/{mixed:016x}/meta", i % 100).into_bytes()
        }),
    ];
    for (name, make) in kinds {
        let order = order(&mut random, count);
        let log = Log::new(order.into_iter().map(|i| make(&mut random, i.into())));
        println!("\n{name}, {:.1} M keys\n", count as f64 / 1e6);
        println!("| index                | insert 1T | insert 2T |   get | scan 100 | bytes/key |");
        println!("|----------------------|----------:|----------:|------:|---------:|----------:|");
        measure::<Ours>("art (ours)", log, rounds);
        measure::<Warmed>("art, warm 100 + ins.", log, rounds);
        if !std::env::args().any(|arg| arg == "ours") {
            measure::<Artmap>("artmap 0.8 arena", log, rounds);
            measure::<Skip>("crossbeam skiplist", log, rounds);
            measure::<Tree>("BTreeMap", log, rounds);
        }
        candidates(log, rounds);
    }
}
