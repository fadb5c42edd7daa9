//! What the back ends do a second: run with `--release --ignored --nocapture`.

use std::time::Instant;

use base::random::Rng;
use ssd::{Fs, PageCache, Posix, Uring};

const BLOCK: usize = 4096;
const BLOCKS: u64 = 32 << 10;
const BATCH: usize = 64;

fn back_ends() -> Vec<Box<dyn Fs>> {
    let mut all: Vec<Box<dyn Fs>> = Vec::new();
    for page_cache in [PageCache::Used, PageCache::Bypassed] {
        all.push(Box::new(Posix::new(page_cache)));
        match Uring::new(page_cache) {
            Ok(uring) => all.push(Box::new(uring)),
            Err(error) => eprintln!("SKIPPED: {error}"),
        }
    }
    all
}

#[test]
#[ignore = "a measurement, not a check"]
fn figures() {
    let scratch = tempfile::tempdir().unwrap();
    for fs in back_ends() {
        let path = scratch.path().join("f");
        let begun = Instant::now();
        let mut file = fs.create(&path).unwrap();
        for i in 0..BLOCKS {
            file.append(&[i as u8; BLOCK]).unwrap();
        }
        file.sync().unwrap();
        let written = (BLOCKS * BLOCK as u64 / (1 << 20)) as f64 / begun.elapsed().as_secs_f64();
        drop(file);
        let file = fs.open(&path).unwrap();
        let (mut rng, mut reads) = (Rng::new(1), 0);
        let mut buffers = vec![[0; BLOCK]; BATCH];
        let begun = Instant::now();
        while begun.elapsed().as_secs() < 2 {
            let mut next = || rng.below(BLOCKS) * BLOCK as u64;
            let ranges = buffers.iter_mut().map(|b| (next(), b.as_mut_slice()));
            file.read_many(&mut ranges.collect::<Vec<_>>()).unwrap();
            reads += BATCH;
        }
        let read = reads as f64 / begun.elapsed().as_secs_f64();
        println!(
            "{:>17}: {written:>6.0} MiB/s written and synced, {read:>9.0} reads of 4 KiB a second in batches of 64",
            fs.describe()
        );
        fs.remove(&path).unwrap();
    }
}
