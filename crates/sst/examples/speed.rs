//! How quick tables are: `cargo run --release -p strandline-sst --example speed [entries]`.
//!
//! Writes, reads at random, iterates both ways, with all blocks in a hash map as a warm cache would have
//! them. Prints medians of five runs.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::hint::black_box;
use std::sync::{Arc, RwLock};
use std::time::Instant;

use base::random::Rng;
use base::{Result, Seq};
use sst::{
    Block, Blocks, Compression, EntryKind, Handle, Layout, Role, SEQ_MAX, Table, Writer,
    WriterOptions,
};

/// The simplest cache: it keeps everything.
struct Everything {
    file: Vec<u8>,
    blocks: RwLock<HashMap<u64, Arc<Block>, BuildHasherDefault<Offset>>>,
}

/// Hashes offsets quickly.
#[derive(Default)]
struct Offset(u64);

impl Hasher for Offset {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }
    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

impl Blocks for Everything {
    fn get(&self, table: &Layout, handle: Handle, role: Role) -> Result<Arc<Block>> {
        if let Some(block) = self.blocks.read().unwrap().get(&handle.offset) {
            return Ok(block.clone());
        }
        let block = Arc::new(table.load(&self.file, handle, role)?);
        self.blocks.write().unwrap().insert(handle.offset, block.clone());
        Ok(block)
    }
}

const VALUE: [u8; 100] = [b'v'; 100];

fn key(i: u64) -> [u8; 16] {
    let mut key = *b"user000000000000";
    for (at, digit) in key[4..].iter_mut().rev().zip(0..12) {
        *at = b'0' + (i / 10_u64.pow(digit) % 10) as u8;
    }
    key
}

/// Entries a second, in millions; the median of five.
fn rate(entries: u64, mut run: impl FnMut()) -> f64 {
    let mut rates: Vec<f64> = (0..5)
        .map(|_| {
            let start = Instant::now();
            run();
            entries as f64 / start.elapsed().as_secs_f64() / 1e6
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    rates[2]
}

fn write(entries: u64, options: &WriterOptions) -> Vec<u8> {
    let mut writer = Writer::new(Vec::with_capacity(140 * entries as usize), options.clone());
    for i in 0..entries {
        writer.add(&key(2 * i), Seq::new(i), EntryKind::Value, &VALUE).expect("in order");
    }
    writer.finish().expect("memory takes everything").0
}

fn measure(name: &str, entries: u64, options: WriterOptions) -> Result<()> {
    let write_rate = rate(entries, || _ = black_box(write(entries, &options)));
    let file = write(entries, &options);
    let bytes = file.len();
    let layout = Arc::new(Layout::open(&file)?);
    let blocks = Everything { file, blocks: RwLock::default() };
    let table = Arc::new(Table::new(layout, blocks));
    let mut cursor = table.cursor();
    let mut forward = || {
        cursor.first().expect("sound");
        let mut seen = 0;
        while cursor.valid() {
            seen += cursor.key().len() + cursor.value().len();
            cursor.next().expect("sound");
        }
        assert_eq!(seen as u64, 116 * entries);
    };
    forward();
    let forward = rate(entries, forward);
    let mut cursor = table.cursor();
    let backward = rate(entries, || {
        cursor.last().expect("sound");
        while cursor.valid() {
            black_box(cursor.value());
            cursor.prev().expect("sound");
        }
    });
    let reads = 1_000_000;
    let mut rng = Rng::new(1);
    let hit = rate(reads, || {
        for _ in 0..reads {
            let i = rng.below(entries);
            let hit = table.get(&key(2 * i), SEQ_MAX).expect("sound").expect("there");
            black_box(hit.value());
        }
    });
    let miss = rate(reads, || {
        for _ in 0..reads {
            let i = rng.below(entries);
            assert!(table.get(&key(2 * i + 1), SEQ_MAX).expect("sound").is_none());
        }
    });
    let mut cursor = table.cursor();
    let seek = rate(reads, || {
        for _ in 0..reads {
            let i = rng.below(entries);
            cursor.seek(&key(2 * i), SEQ_MAX).expect("sound");
            black_box(cursor.value());
        }
    });
    println!(
        "{name:<16} {:>6.1} {write_rate:>8.2} {forward:>9.1} {backward:>9.1} {:>9.0} {:>9.0} {:>9.0}",
        bytes as f64 / entries as f64,
        1000.0 / hit,
        1000.0 / miss,
        1000.0 / seek
    );
    Ok(())
}

fn main() -> Result<()> {
    let entries = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    println!("{entries} entries, keys of 16 bytes, values of 100; millions a second, nanoseconds");
    println!("                 B/entry   write   forward  backward    get ns    no ns    seek ns");
    let base = WriterOptions::default;
    measure("plain", entries, base())?;
    measure("restarts of 4", entries, WriterOptions { restart_interval: 4, ..base() })?;
    measure("hash index", entries, WriterOptions { hash_index: true, ..base() })?;
    measure("crc32c", entries, WriterOptions { checksum: sst::Checksum::Crc32c, ..base() })?;
    measure("two levels", entries, WriterOptions { index: sst::IndexKind::TwoLevel, ..base() })?;
    measure("lz4", entries, WriterOptions { compression: Compression::Lz4, ..base() })?;
    if Compression::AVAILABLE.contains(&Compression::Zstd) {
        measure("zstd", entries, WriterOptions { compression: Compression::Zstd, ..base() })?;
    }
    Ok(())
}
