//! [`Basis`]: what figures about a store rest on.

use std::fmt;
use std::path::Path;

use pmem::{Durability, Probe, Storage};

use crate::engine::{Access, Engine};
use crate::observe::places::MemoryPlaces;
use crate::observe::properties::model_figures;

/// Whether what is there instead of in DRAM is in persistent memory.
fn is_persistent(places: &MemoryPlaces) -> bool {
    let dirs = [&places.memtables.dir, &places.block_cache.dir];
    let storages = dirs.into_iter().flatten().map(|dir| Probe::of(dir, Path::new("/sys")).storage);
    storages.into_iter().all(|storage| matches!(storage, Storage::Persistent(_)))
}

/// What figures about a store rest on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Basis {
    /// The devices that the store is meant for.
    Measured,
    /// Something else stands for these: what, in words such as `pm: DRAM` or `ssd: nvme-tlc`.
    Emulated(String),
}

impl Basis {
    pub(crate) fn of(engine: &Engine) -> Basis {
        let mut parts = Vec::new();
        let region = &engine.media.region;
        // What is in DRAM by intention is no persistent memory, nor is that of a checkpoint which is only read.
        let is_streamed = region.journal().is_some_and(|journal| journal.is_streamed());
        let is_read_only = engine.lifetime.access == Access::Read;
        let is_own = region.durability() == Durability::None && is_read_only;
        let has_pm = (region.journal().is_none() && !is_own) || is_streamed;
        let places = MemoryPlaces::of(engine, 0);
        let has_place = places.memtables.dir.is_some() || places.block_cache.dir.is_some();
        match model_figures(engine) {
            Some(model) => parts.push(format!("pm: {}", model.name)),
            None if has_place && !is_persistent(&places) => parts.push("pm: DRAM".to_owned()),
            None if has_pm && region.durability() < Durability::PowerFailAdr => {
                parts.push("pm: DRAM".to_owned());
            }
            None => {}
        }
        let has_log = region.journal().is_some() && !is_streamed;
        let has_files = engine.tables.is_some() || has_log;
        match engine.surroundings.device.figures().model {
            Some(model) if has_files => parts.push(format!("ssd: {model}")),
            None if engine.surroundings.has_files_in_memory => parts.push("ssd: DRAM".to_owned()),
            _ => {}
        }
        let tiers = engine.tables.iter().flat_map(|tables| tables.tiers.iter());
        parts.extend(tiers.filter_map(|tier| {
            let model = tier.dir.device.as_ref()?.figures().model?;
            Some(format!("{}: {model}", tier.dir.at.dir.display()))
        }));
        if parts.is_empty() { Basis::Measured } else { Basis::Emulated(parts.join(", ")) }
    }

    /// From its text form.
    pub(crate) fn parse(text: &str) -> Option<Basis> {
        match text {
            "measured" => Some(Basis::Measured),
            _ => {
                let what = text.strip_prefix("emulated (")?.strip_suffix(')')?;
                Some(Basis::Emulated(what.to_owned()))
            }
        }
    }
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Basis::Measured => f.write_str("measured"),
            Basis::Emulated(what) => write!(f, "emulated ({what})"),
        }
    }
}
