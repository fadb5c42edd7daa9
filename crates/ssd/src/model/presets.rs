//! Devices that were published, as models.

use std::time::Duration;

use super::SsdModel;

/// A device whose figures were published.
pub struct SsdPreset {
    /// Its name.
    pub name: &'static str,
    /// What it is, and who published the figures.
    pub source: &'static str,
    /// Microseconds of a random read of 4 KiB, and of a write.
    latency: [f64; 2],
    /// Bytes per second, read and written.
    bandwidth: [u64; 2],
    /// 0: as many as come.
    read_iops: u64,
    /// Bytes that it takes in before it has written them.
    buffer: u64,
}

/// Bytes that a device of these takes in before it has written them, with capacitors for as many.
const BUFFER: u64 = 16 << 20;

/// Every preset, but for `none`.
pub const SSD_PRESETS: &[SsdPreset] = &[
    SsdPreset {
        name: "nvme-tlc",
        source: "Intel P4500 of 2 TB, TLC, PCIe 3: product guide (85 and 20 us, 490,000 reads a second, 3.2 and 1.05 GB/s); \
                 caches survive power failure",
        latency: [85.0, 20.0],
        bandwidth: [3_200_000_000, 1_050_000_000],
        read_iops: 490_000,
        buffer: BUFFER,
    },
    SsdPreset {
        name: "optane-ssd",
        source: "Intel Optane P4800X of 375 GB: product brief and AnandTech, 2017 (8.9 us measured; below 10 us, 550,000 reads a \
                 second, 2.4 and 2.0 GB/s)",
        latency: [8.9, 10.0],
        bandwidth: [2_400_000_000, 2_000_000_000],
        read_iops: 550_000,
        buffer: BUFFER,
    },
    SsdPreset {
        name: "sata-ssd",
        source: "Intel S4500, TLC, SATA: product specification (110 and 52 us, 72,000 reads a second, 500 and 490 MB/s); caches \
                 survive power failure",
        latency: [110.0, 52.0],
        bandwidth: [500_000_000, 490_000_000],
        read_iops: 72_000,
        buffer: BUFFER,
    },
    SsdPreset {
        name: "optane-dax",
        source: "files on six modules of Optane DC 100, by DAX: Yang et al., FAST 2020 (305 ns of a random read, 90 ns of a write and \
                 fence, 39.4 and 13.9 GB/s, 64 blocks of 256 bytes open in each); a block of 4 KiB from and to one module (6.6 and \
                 2.3 GB/s)",
        latency: [0.93, 1.87],
        bandwidth: [39_400_000_000, 13_900_000_000],
        read_iops: 0,
        buffer: 6 * 64 * 256,
    },
];

impl SsdPreset {
    pub(super) fn model(&self) -> SsdModel {
        let [read, write] = self.latency.map(|us| Duration::from_secs_f64(us * 1e-6));
        SsdModel {
            name: self.name.to_owned(),
            read,
            write,
            flush: Duration::ZERO,
            read_bandwidth: self.bandwidth[0],
            write_bandwidth: self.bandwidth[1],
            read_iops: self.read_iops,
            buffer: self.buffer,
        }
    }
}
