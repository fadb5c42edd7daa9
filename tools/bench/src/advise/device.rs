//! How long a read takes in each place, by the models of devices.

use pmem::PmModel;
use ssd::SsdModel;

/// Nanoseconds of a line of DRAM, at random and behind another: Yang et al., FAST 2020, as what models of persistent memory add to.
const DRAM_LINE_NS: f64 = 101.0;
const DRAM_NEXT_LINE_NS: f64 = 81.0;
const LINE: f64 = 64.0;
/// What an SSD reads at least.
const BLOCK: f64 = 4096.0;

/// Seconds of a read of an object, without the processor's own work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadTimes {
    /// From DRAM.
    pub dram: f64,
    /// From persistent memory.
    pub pm: f64,
    /// From SSD.
    pub ssd: f64,
}

impl ReadTimes {
    /// Of an object of so many bytes.
    pub(super) fn of(bytes: f64, pm: &PmModel, ssd: &SsdModel) -> ReadTimes {
        let lines = (bytes / LINE).ceil().max(1.0);
        let dram = DRAM_LINE_NS + (lines - 1.0) * DRAM_NEXT_LINE_NS;
        // A block of the media is read as a whole; its further lines are near.
        let block = f64::from(pm.block.max(64));
        let blocks = (bytes / block).ceil().max(1.0);
        let near = (lines - blocks).max(0.0);
        let latency =
            blocks * pm.read.target(DRAM_LINE_NS) + near * pm.near.target(DRAM_NEXT_LINE_NS);
        let in_pm = (latency * 1e-9).max(transfer(blocks * block, pm.read_bandwidth));
        let blocks = (bytes / BLOCK).ceil().max(1.0);
        let in_ssd = ssd.read.as_secs_f64() + transfer(blocks * BLOCK, ssd.read_bandwidth);
        ReadTimes { dram: dram * 1e-9, pm: in_pm, ssd: in_ssd }
    }
}

/// Seconds of so many bytes; 0 where the bandwidth is that of the host.
fn transfer(bytes: f64, bandwidth: u64) -> f64 {
    if bandwidth == 0 { 0.0 } else { bytes / bandwidth as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_models() {
        let pm: PmModel = "optane-100x6-delta".parse().expect("a model");
        let ssd: SsdModel = "nvme-tlc".parse().expect("a model");
        let line = ReadTimes::of(40.0, &pm, &ssd);
        assert!((line.dram - 101e-9).abs() < 1e-12 && (line.pm - 305e-9).abs() < 1e-12);
        assert!((line.ssd - (85e-6 + 4096.0 / 3.2e9)).abs() < 1e-12);
        // Four lines of a block: the published time of lines in sequence.
        let block = ReadTimes::of(256.0, &pm, &ssd);
        assert!((block.pm - (305.0 + 3.0 * 130.3) * 1e-9).abs() < 1e-12, "{block:?}");
        let long = ReadTimes::of(1e6, &pm, &ssd);
        assert!(long.dram < long.pm && long.ssd > 3.0 * line.ssd);
    }
}
