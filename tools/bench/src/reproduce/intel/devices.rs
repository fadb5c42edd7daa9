//! The devices of these experiments: an SSD and files in persistent memory, with the part of their bandwidth that our cores are of
//! those which shared it where it was published.

use std::time::Instant;

use ssd::{Fs, PageCache, Posix};
use strandline::{PmModel, SsdModel};

use super::super::request::Request;
use crate::data::rng::Rng;
use crate::words::told;

/// Files in persistent memory, and the memory that they are in.
const FILES: &str = "optane-dax";
const MEMORY: &str = "optane-100x6-delta";
/// Nanoseconds of a random read: of the memory, and of the DRAM that was measured with it.
const READ: (f64, f64) = (305.0, 101.0);
/// Bytes of files that are read at random, of a read, and how many reads there are.
const SPAN: usize = 64 << 20;
const BLOCK: usize = 4096;
const READS: usize = 4001;

/// How a model of persistent memory comes by its latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PmForm {
    /// What the host takes itself, and the published difference to DRAM.
    Delta,
    /// What the host takes itself, times the published ratio.
    Ratio,
}

/// Our cores, and those that shared the bandwidth of the memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cores {
    ours: u64,
    shared: u64,
}

impl Cores {
    pub(super) fn of(memory: &str) -> Result<Cores, String> {
        let memory: PmModel = memory.parse().map_err(told)?;
        let ours = std::thread::available_parallelism().map_or(1, |ours| ours.get() as u64);
        Ok(Cores { ours, shared: u64::from(memory.cores).max(ours) })
    }

    /// In words.
    pub(super) fn text(self) -> String {
        format!("{} of {} cores", self.ours, self.shared)
    }

    fn part(self, amount: u64) -> u64 {
        amount * self.ours / self.shared
    }

    /// The fields of a device with our part of what it does in a second, and takes in.
    fn fields(self, whole: &SsdModel) -> String {
        format!(
            "read_bandwidth={},write_bandwidth={},read_iops={},buffer={}",
            self.part(whole.read_bandwidth),
            self.part(whole.write_bandwidth),
            self.part(whole.read_iops),
            self.part(whole.buffer)
        )
    }
}

/// The SSD with the part of what it does in a second, and takes in, that our cores are of those of `memory`.
pub(super) fn our_part(ssd: &str, memory: &str) -> Result<String, String> {
    let whole: SsdModel = ssd.parse().map_err(told)?;
    Ok(format!("{ssd},{}", Cores::of(memory)?.fields(&whole)))
}

/// Our part of `ssd`, if it shares a machine with the memory of [`pm_files`].
pub(super) fn our_ssd(ssd: &str) -> Result<String, String> {
    our_part(ssd, MEMORY)
}

/// The cores of the machine with that memory, and ours.
pub(super) fn our_cores() -> Result<Cores, String> {
    Cores::of(MEMORY)
}

/// Our part of files in persistent memory, where the host takes `host` nanoseconds for a block.
pub(super) fn pm_files(form: PmForm, host: f64) -> Result<String, String> {
    let whole: SsdModel = FILES.parse().map_err(told)?;
    let (device, dram) = READ;
    let read = match form {
        PmForm::Delta => host + device - dram,
        PmForm::Ratio => host * device / dram,
    };
    Ok(format!("{FILES},read={read:.0}ns,{}", our_cores()?.fields(&whole)))
}

/// Nanoseconds in which the host reads a random block of a file in memory: the median.
pub(super) fn host_read(request: &Request) -> Result<f64, String> {
    let scratch = request.memory(SPAN as u64)?;
    let (fs, path) = (Posix::new(PageCache::Used), scratch.path().join("blocks"));
    let mut file = fs.create(&path).map_err(told)?;
    file.append(&vec![7; SPAN]).map_err(told)?;
    file.sync().map_err(told)?;
    let file = fs.open(&path).map_err(told)?;
    let (mut rng, mut block) = (Rng::new(1), vec![0; BLOCK]);
    let mut took = Vec::with_capacity(READS);
    for _ in 0..READS {
        let at = rng.below((SPAN / BLOCK) as u64) * BLOCK as u64;
        let began = Instant::now();
        file.read_at(at, &mut block).map_err(told)?;
        took.push(began.elapsed().as_nanos() as f64);
    }
    took.sort_by(f64::total_cmp);
    Ok(took[READS / 2])
}
