//! The devices of these experiments: an SSD and files in persistent memory, with the part of their bandwidth that our cores are of
//! those which shared it where it was published.

use std::time::Instant;

use ssd::{Fs, PageCache, Posix};
use strandline::{PmModel, SsdModel};

use super::super::request::Request;
use super::median;
use crate::data::rng::Rng;
use crate::words::told;

/// The persistent memory, as what the host takes and the published difference to DRAM, and as that times the published ratio.
pub(in super::super) const DELTA: &str = "optane-100x6-delta";
pub(in super::super) const RATIO: &str = "optane-100x6-ratio";
/// Files in it.
const FILES: &str = "optane-dax";
/// The SSD as fast as the host, for what is not measured.
pub(in super::super) const AT_ONCE: &str =
    "nvme-tlc,read=0us,write=0us,read_bandwidth=0,write_bandwidth=0,read_iops=0";
/// Bytes of files that are read at random, of a read, and how many reads there are.
const SPAN: usize = 64 << 20;
const BLOCK: usize = 4096;
const READS: usize = 4001;

/// Our cores, and those that shared the bandwidth of the memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cores {
    ours: u64,
    shared: u64,
}

impl Cores {
    /// Those of a machine with that memory.
    pub(super) fn here() -> Result<Cores, String> {
        let memory: PmModel = DELTA.parse().map_err(told)?;
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

/// The SSD with the part of what it does in a second, and takes in, that our cores are of those that share it.
pub(in super::super) fn our_part(ssd: &str) -> Result<String, String> {
    let whole: SsdModel = ssd.parse().map_err(told)?;
    Ok(format!("{ssd},{}", Cores::here()?.fields(&whole)))
}

/// Our part of files in `memory`, where the host takes `host` nanoseconds for a block.
pub(super) fn pm_files(memory: &str, host: f64) -> Result<String, String> {
    let whole: SsdModel = FILES.parse().map_err(told)?;
    let memory: PmModel = memory.parse().map_err(told)?;
    let read = memory.read.target(host);
    Ok(format!("{FILES},read={read:.0}ns,{}", Cores::here()?.fields(&whole)))
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
    Ok(median(took))
}
