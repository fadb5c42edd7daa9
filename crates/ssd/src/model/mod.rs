//! Models of slower devices than the host has, and counters of any.
//!
//! [`Metered`](crate::Metered) wraps a file system. It counts what goes through, and with a model takes as long as the device
//! would: threads sleep meanwhile, as they do for a real one. What the host takes itself counts inside, so the files of a modelled
//! device belong on tmpfs.
//!
//! ```text
//! read      due = when the queue is free + latency + transfer; several ranges at once: the last of them
//! announced due time goes with the range; the read waits for what is left
//! append    takes its place in the queue; waits only when more is on its way than the device buffers
//! sync      until what was written is through + latency
//! ```
//!
//! There is no page cache in the model: each read goes to the device. Of writes in place that are synced later, each block goes there
//! once, as with a page cache.
//!
//! What is not modelled: garbage collection in the device, thermal limits, reads and writes that slow each other down.

mod device;
mod metered;
mod presets;
mod sleep;

use std::fmt;
use std::time::Duration;

use base::{Error, ErrorKind, Result};

pub use device::{Device, DeviceFigures};
pub use metered::Metered;
pub use presets::{SSD_PRESETS, SsdPreset};

/// What a modelled device is like.
///
/// Its text form is a preset and, behind commas, the fields that are to be otherwise:
///
/// ```
/// use ssd::SsdModel;
///
/// let model: SsdModel = "nvme-tlc,read=100us,write_bandwidth=500000000".parse().unwrap();
/// assert_eq!(model.read.as_micros(), 100);
/// assert_eq!(model.to_string(), "nvme-tlc,read=100us,write_bandwidth=500000000");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SsdModel {
    name: String,
    /// Of a block of 4 KiB, with nothing else to do.
    pub read: Duration,
    /// From the last byte handed over until it is durable.
    pub write: Duration,
    /// Of a flush of the device's cache, behind that; zero where that survives power failure.
    pub flush: Duration,
    /// Bytes per second read; 0: as many as the host.
    pub read_bandwidth: u64,
    /// Bytes per second written; 0: as many as the host.
    pub write_bandwidth: u64,
    /// Reads of a block per second at most; 0: as many as come.
    pub read_iops: u64,
    /// Bytes that may be on their way before a write waits.
    pub buffer: u64,
}

const FIELDS: &str = "read, write, flush, read_bandwidth, write_bandwidth, read_iops, buffer";

impl SsdModel {
    /// The name: the preset, and fields that were set beside it.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn set(&mut self, field: &str, text: &str) -> Option<()> {
        match field {
            "read" => self.read = time(text)?,
            "write" => self.write = time(text)?,
            "flush" => self.flush = time(text)?,
            "read_bandwidth" => self.read_bandwidth = text.parse().ok()?,
            "write_bandwidth" => self.write_bandwidth = text.parse().ok()?,
            "read_iops" => self.read_iops = text.parse().ok()?,
            "buffer" => self.buffer = text.parse().ok()?,
            _ => return None,
        }
        Some(())
    }
}

/// Such as `85us`, `1.5ms` or `800ns`; at most ten seconds.
fn time(text: &str) -> Option<Duration> {
    let units = [("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    let (number, scale) =
        units.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale)))?;
    let seconds = number.parse::<f64>().ok()? * scale;
    (0.0..=10.0).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}

impl std::str::FromStr for SsdModel {
    type Err = Error;

    fn from_str(text: &str) -> Result<SsdModel> {
        let refused = |text| Error::new(ErrorKind::InvalidArgument, "options", text);
        let mut parts = text.split(',');
        let preset = parts.next().unwrap_or_default();
        let known = SSD_PRESETS.iter().find(|known| known.name == preset).ok_or_else(|| {
            let names: Vec<&str> = SSD_PRESETS.iter().map(|preset| preset.name).collect();
            refused(format!("no model {preset} of an SSD; there are none, {}", names.join(", ")))
        })?;
        let mut model = known.model();
        for part in parts {
            let set = part.split_once('=').and_then(|(field, value)| model.set(field, value));
            set.ok_or_else(|| {
                refused(format!(
                    "{part} in {text}: a field and its value, such as read=85us or read_iops=500000; fields are {FIELDS}"
                ))
            })?;
        }
        model.name = text.to_owned();
        Ok(model)
    }
}

impl fmt::Display for SsdModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_and_fields() {
        for preset in SSD_PRESETS {
            assert_eq!(preset.name.parse::<SsdModel>().expect("preset").name(), preset.name);
        }
        let model: SsdModel = "sata-ssd,flush=1.5ms,buffer=1048576,read_iops=7".parse().unwrap();
        assert_eq!((model.flush.as_micros(), model.buffer, model.read_iops), (1500, 1 << 20, 7));
        for wrong in
            ["", "nvme", "nvme-tlc,", "nvme-tlc,read=85", "nvme-tlc,read=11s", "nvme-tlc,speed=1"]
        {
            let error = wrong.parse::<SsdModel>().expect_err(wrong);
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{wrong}: {error}");
        }
    }
}
