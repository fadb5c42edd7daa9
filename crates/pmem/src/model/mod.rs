//! Models of slower memory than the host has: what stands in for persistent memory takes as long as that would.
//!
//! A region with a model ([`Region::modelled`](crate::Region::modelled)) makes the thread that reads or fences wait, spinning, since
//! a load that stalls holds its core. What the host itself takes counts inside, and waits for a latency are shorter by what a call
//! takes before and behind them.
//!
//! ```text
//! read      line in the simulated cache ► no wait; else t0, touch it, wait until t0 + latency; further lines by bandwidth
//! prefetch  the line's due time goes with it into the simulated cache; the load waits for what is left
//! flush     lines gather in the open blocks of their module; a block that leaves half full costs a read and a write
//!           a writer waits as long as more is on its way than the open blocks hold
//! fill      zeros by which a file grows: whole blocks, by a call
//! fence     until the first flushed line + latency
//! ```
//!
//! | part | file |
//! |---|---|
//! | parameters, text form | here, `latency`, `presets` |
//! | what the host and a call of the model take themselves | `host` |
//! | lines that the processor's caches hold | `tags` |
//! | blocks open for writing | `open_blocks` |
//! | what a thread has asked for | `asked` |
//! | bandwidth that threads share | `bandwidth` |
//! | the time | `clock` |
//! | the device, as the domain of a region | `emulation` |
//!
//! What is not modelled: that reads and writes slow each other down, thermal limits, wear, queues of the memory controller.

mod asked;
mod bandwidth;
mod clock;
mod emulation;
mod host;
mod latency;
mod open_blocks;
mod presets;
mod tags;

use std::fmt;

use base::{Error, ErrorKind, Result};

pub use emulation::{Field, ModelFigures, PmDevice};
pub use latency::Latency;
pub use presets::{PM_PRESETS, PmPreset};

/// What a modelled memory is like.
///
/// Its text form is a preset and, behind commas, the fields that are to be otherwise:
///
/// ```
/// use pmem::{Latency, PmModel};
///
/// let model: PmModel = "optane-100x6-ratio,read=4x,write_bandwidth=1000000000".parse().unwrap();
/// assert_eq!(model.read, Latency::Times(4.0));
/// assert_eq!(model.to_string(), "optane-100x6-ratio,read=4x,write_bandwidth=1000000000");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PmModel {
    /// The text that it came from.
    name: String,
    /// Of a line that no cache holds.
    pub read: Latency,
    /// Of a line in a block of the media that the thread has just read.
    pub near: Latency,
    /// From the first line flushed to the end of the fence.
    pub write: Latency,
    /// Bytes per second that the device reads; 0: as many as the host.
    pub read_bandwidth: u64,
    /// Bytes per second that it writes; 0: as many as the host.
    pub write_bandwidth: u64,
    /// Cores that share the bandwidth: ours get their part of it. 0: they get all of it.
    pub cores: u32,
    /// Bytes of a block of the media, in which it is read and written; a power of two from 64 to 4096.
    pub block: u32,
    /// Modules, in turns of 4 KiB; 0: writes are not gathered.
    pub modules: u32,
    /// Blocks of a module that may be open for writing at a time.
    pub open_blocks: u32,
    /// Bytes of the region that the processor's caches are taken to hold. 0: half of the length at which the host's latency grows.
    pub cache: u64,
}

/// Bytes of simulated caches at most.
const CACHE_MOST: u64 = 1 << 30;
/// Fields that a text may set.
const FIELDS: &str =
    "read, near, write, read_bandwidth, write_bandwidth, cores, block, modules, open_blocks, cache";

impl PmModel {
    /// The name: the preset, and fields that were set beside it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it only counts, and needs to know nothing of the host for that.
    fn waits_for_nothing(&self) -> bool {
        let adds_nothing = |latency| latency == Latency::Added(0.0);
        let [read, near, write] = [self.read, self.near, self.write].map(adds_nothing);
        read && near && write && self.cache > 0
    }

    fn set(&mut self, field: &str, text: &str) -> Option<()> {
        match field {
            "read" => self.read = Latency::parse(text)?,
            "near" => self.near = Latency::parse(text)?,
            "write" => self.write = Latency::parse(text)?,
            "read_bandwidth" => self.read_bandwidth = text.parse().ok()?,
            "write_bandwidth" => self.write_bandwidth = text.parse().ok()?,
            "cores" => self.cores = text.parse().ok()?,
            "block" => {
                let block: u32 = text.parse().ok()?;
                let fits = block.is_power_of_two() && (64..=4096).contains(&block);
                self.block = fits.then_some(block)?;
            }
            "modules" => self.modules = text.parse().ok().filter(|count| *count <= 64)?,
            "open_blocks" => {
                self.open_blocks = text.parse().ok().filter(|count| *count <= 4096)?;
            }
            "cache" => self.cache = text.parse().ok().filter(|bytes| *bytes <= CACHE_MOST)?,
            _ => return None,
        }
        Some(())
    }
}

impl std::str::FromStr for PmModel {
    type Err = Error;

    fn from_str(text: &str) -> Result<PmModel> {
        let mut parts = text.split(',');
        let preset = parts.next().unwrap_or_default();
        let mut model = PmModel::preset(preset).ok_or_else(|| {
            let known = PmModel::preset_names().join(", ");
            refused(format!("no model {preset} of persistent memory; there are none, {known}"))
        })?;
        for part in parts {
            let set = part.split_once('=').and_then(|(field, value)| model.set(field, value));
            set.ok_or_else(|| {
                refused(format!(
                    "{part} in {text}: a field and its value, such as read=305ns, read=+204ns, read=3x or block=256; fields are \
                     {FIELDS}"
                ))
            })?;
        }
        model.name = text.to_owned();
        Ok(model)
    }
}

fn refused(text: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, "options", text)
}

impl fmt::Display for PmModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Texts have no NaN.
impl Eq for PmModel {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_stand_for_what_was_published() {
        let delta: PmModel = "optane-100x6-delta".parse().expect("preset");
        assert_eq!(
            (delta.read, delta.near, delta.write),
            (Latency::Added(204.0), Latency::Added(49.3), Latency::Added(4.0))
        );
        let ratio: PmModel = "optane-100x1-ratio".parse().expect("preset");
        assert_eq!((ratio.read, ratio.near), (Latency::Times(3.02), Latency::Times(1.664)));
        let dram: PmModel = "nvdimm-ratio".parse().expect("preset");
        assert!(!dram.read.takes_effect(100.0) && delta.read.takes_effect(400.0));
        for name in PmModel::preset_names() {
            assert_eq!(name.parse::<PmModel>().expect(&name).to_string(), name);
        }
    }

    #[test]
    fn fields_are_set_by_name_and_refused_by_name() {
        let model: PmModel =
            "zero,read=305ns,near=2x,write=+50ns,cores=4,block=512,cache=1048576".parse().unwrap();
        assert_eq!((model.read, model.near), (Latency::Total(305.0), Latency::Times(2.0)));
        assert_eq!((model.cores, model.block, model.cache), (4, 512, 1 << 20));
        for wrong in
            ["", "optane", "zero,", "zero,read", "zero,read=-1ns", "zero,block=100", "zero,speed=1"]
        {
            let error = wrong.parse::<PmModel>().expect_err(wrong);
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{wrong}: {error}");
        }
    }

    #[test]
    fn what_a_host_takes_counts_inside() {
        assert_eq!(Latency::Total(305.0).target(400.0), 305.0);
        assert!(!Latency::Total(305.0).takes_effect(400.0));
        assert_eq!(Latency::Added(204.0).target(400.0), 604.0);
        assert_eq!(Latency::Times(3.0).target(400.0), 1200.0);
    }
}
