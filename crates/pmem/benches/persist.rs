//! What one persisted record costs, by size and by way of persisting it.
//!
//! ```text
//! cargo bench -p strandline-pmem --bench persist [-- FOLDER]
//! ```
//!
//! Records are written one behind the other through 1 GiB of a pool file in FOLDER (`/dev/shm` unless
//! told); each figure is the median of five rounds, in processor time. The file is removed at the end.

use std::path::PathBuf;

use pmem::{PoolFile, Prefault, Region, Site};

const ROUNDS: usize = 5;
const SIZES: [usize; 9] = [64, 100, 128, 192, 256, 512, 1024, 2048, 4096];

/// Removes the file however the program ends.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Nanoseconds that this thread has been on a processor, so that a busy machine does not count.
fn clock() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds per record when `persist` writes one behind the other, each at the start of a line.
fn measure(region: &Region, size: usize, persist: impl Fn(u64, &[u8])) -> f64 {
    let source: Vec<u8> = (0..size + 7).map(|i| i as u8).collect();
    let record = &source[7..];
    let step = size.next_multiple_of(64) as u64;
    let count = (region.len() / step).min(400_000);
    let mut rounds: Vec<f64> = (0..ROUNDS as u64)
        .map(|round| {
            // Another part of the file each time, as far as there is one.
            let start = round * count * step % (region.len() - count * step + 1) / 64 * 64;
            let began = clock();
            for i in 0..count {
                persist(start + i * step, record);
            }
            (clock() - began) as f64 / count as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

/// The same on two threads at once, each in its own half; nanoseconds per record.
fn measure_pair(region: &Region, size: usize) -> f64 {
    let (record, count) = (vec![1; size], region.len() / 2 / size as u64);
    let run = |half: u64| {
        let began = clock();
        for i in 0..count {
            let at = half * (region.len() / 2) + i * size as u64;
            let _durable = region.fence(region.copy_nt(Site::Record, at, &record));
        }
        (clock() - began) as f64 / count as f64
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| run(1));
        let own = run(0);
        (own + other.join().expect("no panic")) / 2.0
    })
}

fn main() -> base::Result<()> {
    // `cargo test --all-targets` runs benches without the flag: a short look that all of it works.
    let full = std::env::args().any(|arg| arg == "--bench");
    let folder = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let folder = PathBuf::from(folder.unwrap_or_else(|| "/dev/shm".into()));
    let file = Removed(folder.join(format!("pmem-bench-{}", std::process::id())));
    let len = if full { 1 << 30 } else { 1 << 20 };
    let region = PoolFile::create(&file.0, len)?.map(Prefault::Now)?;
    println!(
        "{}: {}\n{}; flush {}, stream {}\n",
        region.describe(),
        region.durability(),
        region.durability_note(),
        region.flush_instruction(),
        region.stream_instruction(),
    );
    println!("ns per record   store   store+flush+fence   stream+fence   stream");
    for size in SIZES {
        let store = measure(&region, size, |at, record| {
            let _lost = region.copy(Site::Record, at, record);
        });
        let flushed = measure(&region, size, |at, record| {
            let _durable = region.fence(region.flush(region.copy(Site::Record, at, record)));
        });
        let streamed = measure(&region, size, |at, record| {
            let _durable = region.fence(region.copy_nt(Site::Record, at, record));
        });
        let unfenced = measure(&region, size, |at, record| {
            let _lost = region.copy_nt(Site::Record, at, record);
        });
        println!("{size:>10} B {store:>9.1} {flushed:>19.1} {streamed:>14.1} {unfenced:>8.1}");
    }
    let word = measure(&region, 64, |at, _| {
        let _durable = region.fence(region.flush(region.store_u64(Site::Superblock, 0, at)));
    });
    println!();
    for size in [128, 1024] {
        let each = measure_pair(&region, size);
        println!("two threads, stream+fence of {size} B: {each:.1} each");
    }
    println!("the same word again and again, flush and fence: {word:.1}");
    Ok(())
}
