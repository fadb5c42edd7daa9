//! Devices that were published, as models.
//!
//! Each memory comes in two forms, since hosts differ more among themselves than DRAM and PM do on one: `-delta` adds the
//! published difference to DRAM, `-ratio` multiplies the host's own time by the published quotient. What is claimed of DRAM
//! against persistent memory should hold in both.

use super::PmModel;
use super::latency::Latency::{Added, Times};

/// What was measured of DRAM where the device was measured, and of the device: nanoseconds of a random read, of a read
/// in sequence, and of a persisted write.
#[derive(Clone, Copy)]
struct Published {
    dram: [f64; 3],
    device: [f64; 3],
}

/// Nanoseconds of the lines of a block behind its first, so that a read in sequence takes on average what was published.
fn near([random, sequence, _]: [f64; 3], block: u32) -> f64 {
    let lines = f64::from(block / 64);
    if lines > 1.0 { (lines * sequence - random) / (lines - 1.0) } else { sequence }
}

/// A preset that is no form of a published device.
const ZERO: &str = "zero";

/// A device whose figures were published.
pub struct PmPreset {
    /// Its name, without the form.
    pub name: &'static str,
    /// What it is, and who published the figures.
    pub source: &'static str,
    published: Published,
    /// Bytes per second, read and written; 0: as many as the host moves.
    bandwidth: [u64; 2],
    /// Cores that shared that bandwidth; 0: no part of it is taken.
    cores: u32,
    /// Bytes of a block of the media; 64: it has none.
    block: u32,
    /// Modules, each with so many blocks open for writing.
    modules: u32,
    open_blocks: u32,
}

/// Yang et al., FAST 2020: idle latencies of Optane DC and DDR4 (random read, sequential read, streamed write and fence).
const OPTANE: Published = Published { dram: [101.0, 81.0, 86.0], device: [305.0, 169.0, 90.0] };

/// Every preset, but for `none` and `zero`.
pub const PM_PRESETS: &[PmPreset] = &[
    PmPreset {
        name: "optane-100x1",
        source: "one module of Optane DC 100: Yang et al., An Empirical Guide to the Behavior and Use of Scalable Persistent \
                 Memory, FAST 2020",
        published: OPTANE,
        bandwidth: [6_600_000_000, 2_300_000_000],
        cores: 18,
        block: 256,
        modules: 1,
        open_blocks: 64,
    },
    PmPreset {
        name: "optane-100x6",
        source: "six interleaved modules of Optane DC 100: the same",
        published: OPTANE,
        bandwidth: [39_400_000_000, 13_900_000_000],
        cores: 18,
        block: 256,
        modules: 6,
        open_blocks: 64,
    },
    PmPreset {
        name: "cxl-dram",
        source: "DRAM behind CXL: Al Maruf et al., TPP, ASPLOS 2023 (100 ns of DRAM, 170 to 250 ns; 64 GB/s each way)",
        published: Published { dram: [100.0, 100.0, 100.0], device: [210.0, 210.0, 210.0] },
        bandwidth: [64_000_000_000, 64_000_000_000],
        cores: 0,
        block: 64,
        modules: 0,
        open_blocks: 0,
    },
    PmPreset {
        name: "nvdimm",
        source: "NVDIMM-N: DRAM that is saved to flash when power fails, as fast as DRAM (JEDEC JESD245)",
        published: Published { dram: [100.0, 100.0, 100.0], device: [100.0, 100.0, 100.0] },
        bandwidth: [0, 0],
        cores: 0,
        block: 64,
        modules: 0,
        open_blocks: 0,
    },
    PmPreset {
        name: "reram",
        source: "ReRAM of Re-LSM, ICCAD 2022: 19.31 ns to read a row of cells, 50.88 ns to write one, in the place of 13.75 ns of \
                 a row of DRAM (DDR4, JEDEC JESD79-4); its bandwidth was not published",
        published: Published { dram: [101.0, 81.0, 86.0], device: [106.6, 86.6, 123.1] },
        bandwidth: [0, 0],
        cores: 0,
        block: 64,
        modules: 0,
        open_blocks: 0,
    },
];

impl PmModel {
    /// The preset of that name, its form included: `optane-100x6-delta`.
    pub(super) fn preset(name: &str) -> Option<PmModel> {
        if name == ZERO {
            return Some(PmModel::zero());
        }
        let (device, form) = name.rsplit_once('-')?;
        let preset = PM_PRESETS.iter().find(|preset| preset.name == device)?;
        let Published { dram, device } = preset.published;
        let rounded = |value: f64, digits: f64| (value * digits).round() / digits;
        let latency = |device: f64, dram: f64| match form {
            "delta" => Some(Added(rounded(device - dram, 10.0))),
            "ratio" => Some(Times(rounded(device / dram, 1000.0))),
            _ => None,
        };
        Some(PmModel {
            name: name.to_owned(),
            read: latency(device[0], dram[0])?,
            near: latency(near(device, preset.block), near(dram, preset.block))?,
            write: latency(device[2], dram[2])?,
            read_bandwidth: preset.bandwidth[0],
            write_bandwidth: preset.bandwidth[1],
            cores: preset.cores,
            block: preset.block,
            modules: preset.modules,
            open_blocks: preset.open_blocks,
            cache: 0,
        })
    }

    /// Names of all presets, their forms included.
    pub fn preset_names() -> Vec<String> {
        let forms = PM_PRESETS
            .iter()
            .flat_map(|preset| ["delta", "ratio"].map(|form| format!("{}-{form}", preset.name)));
        std::iter::once(ZERO.to_owned()).chain(forms).collect()
    }

    /// A device that takes no time of its own: counts what is read and written, and shows what the counting costs.
    pub(super) fn zero() -> PmModel {
        PmModel {
            name: ZERO.to_owned(),
            read: Added(0.0),
            near: Added(0.0),
            write: Added(0.0),
            read_bandwidth: 0,
            write_bandwidth: 0,
            cores: 0,
            block: 256,
            modules: 1,
            open_blocks: 64,
            cache: 0,
        }
    }
}
