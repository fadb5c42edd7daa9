//! What the machine allows with no engine around it.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bench::data::rng::Rng;
use bench::scratch::{MEMORY, Scratch};
use bench::{PERSIST_SIZES, persist_limit};
use rustix::fs::OFlags;

use crate::data::KEY;
use crate::engines::Result;
use crate::flags::Flags;
use crate::sample::Sample;
use crate::stages::{PageCache, Place, Work};

/// Bytes of the file that is read.
const FILE: u64 = 256 << 20;
const BLOCK: usize = 4096;
const TIME: Duration = Duration::from_secs(1);

/// The machine's limits: none of what no benchmark needs that was asked for, or what is not had.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Nanoseconds to persist a record of 128 bytes and one of 1 KiB in memory.
    pub persist_ns: Option<[f64; 2]>,
    /// Microseconds to read a random block of 4 KiB from the disk, past the page cache.
    pub read_us: Option<f64>,
}

/// Measures them.
pub fn measure(flags: &Flags) -> Result<Limits> {
    let mut limits = Limits::default();
    if flags.uses_memory() {
        let memory = Scratch::within(&[PathBuf::from(MEMORY)], FILE)?;
        limits.persist_ns = Some(persist_limit(memory.path())?.ns);
    }
    if flags.uses_disk() {
        let disk = Scratch::within(std::slice::from_ref(&flags.disk), FILE)?;
        limits.read_us = random_read(disk.path().join("blocks"));
    }
    Ok(limits)
}

fn random_read(path: PathBuf) -> Option<f64> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(&path).ok()?;
    let piece: Vec<u8> = (0..1 << 20).map(|at: u32| at as u8).collect();
    (0..FILE >> 20).try_for_each(|_| file.write_all(&piece)).and_then(|()| file.sync_all()).ok()?;
    let direct = OFlags::DIRECT.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(direct).open(&path).ok()?;
    let mut buffer = vec![0; 2 * BLOCK];
    let aligned = buffer.as_ptr().align_offset(BLOCK);
    let block = &mut buffer[aligned..aligned + BLOCK];
    let (mut rng, mut reads, began) = (Rng::new(1), 0_u32, Instant::now());
    while began.elapsed() < TIME {
        file.read_exact_at(block, rng.below(FILE / BLOCK as u64) * BLOCK as u64).ok()?;
        reads += 1;
    }
    Some(began.elapsed().as_secs_f64() * 1e6 / f64::from(reads))
}

impl Limits {
    /// Operations a second that the machine allows where each needs the device once: a record persisted in memory for
    /// each put to a pool, a block read for each get past the page cache. An engine's own cache can do better.
    pub fn of(&self, sample: &Sample) -> Option<f64> {
        let threads = sample.case.threads as f64;
        let larger = KEY + sample.stage.value_size > PERSIST_SIZES[0];
        match sample.case.work {
            Work::Fill | Work::Commit(_) | Work::Steady if sample.place() != Place::Disk => {
                Some(threads * 1e9 / self.persist_ns?[usize::from(larger)])
            }
            Work::Get if sample.case.cache == PageCache::Past => {
                self.read_us.map(|us| threads * 1e6 / us)
            }
            _ => None,
        }
    }
}
