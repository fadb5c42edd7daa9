//! `strandline reproduce NAME`: what papers claim of their engines, measured on this one. Each experiment prints its
//! figures with the paper's beside them.

mod caches;
mod fill;
mod halloc;
mod hybrid;
mod indexes;
mod intel;
mod level0;
pub(crate) mod malloc;
mod mcgill;
mod memtable;
mod pairs;
mod puts;
mod records;
mod relsm;
mod request;
mod ror;
mod ycsb;

use std::io::Write;
use std::path::Path;

use pmem::{Probe, Storage};

pub use request::Request;

use crate::BenchError;

/// An experiment: what it is called, what it shows, and how it is run.
pub struct Experiment {
    /// The word behind `reproduce`.
    pub name: &'static str,
    /// What it shows, in one line.
    pub what: &'static str,
    /// The fields of [`Request`] that it heeds, `quick` and `pm` aside, which all do.
    takes: &'static [&'static str],
    /// Keys below which figures would mean nothing, if it has keys.
    keys_min: u64,
    basis: Basis,
    run: fn(&Request, &mut dyn Write) -> Result<(), String>,
}

/// What the figures of an experiment rest on; each report begins with it.
#[derive(Clone, Copy)]
enum Basis {
    /// This machine alone.
    Measured,
    /// This machine, and its persistent memory, or what stands for that.
    InPersistentMemory,
    /// Models of devices, too, which rows or columns name.
    OnModels,
}

impl Basis {
    fn text(self, request: &Request) -> String {
        match self {
            Basis::Measured => "Figures: measured.".into(),
            Basis::InPersistentMemory => in_memory(&request.pm_folder()),
            Basis::OnModels => {
                "Figures: emulated where a row, a column or the text above it names a model, else measured.".into()
            }
        }
    }
}

/// What stands for persistent memory, if there is none in `folder`.
fn in_memory(folder: &Path) -> String {
    match Probe::of(folder, Path::new("/sys")).storage {
        Storage::Persistent(_) => "Figures: measured.".into(),
        Storage::Volatile | Storage::Device => format!(
            "Figures: emulated (pm: DRAM) where they are of persistent memory, for which {} stands; else measured.",
            folder.display()
        ),
    }
}

/// Bytes of keys and values below which figures would be zeros.
const SIZE_MIN: u64 = 1 << 20;

/// Every experiment.
pub const EXPERIMENTS: [Experiment; 19] = [
    Experiment {
        name: "halloc",
        what: "what taking space in persistent memory costs, by length and by how full the pool is",
        takes: &[],
        keys_min: 0,
        basis: Basis::InPersistentMemory,
        run: halloc::run,
    },
    Experiment {
        name: "xengine-memtable",
        what: "the memtable's index beside a skip list and a B-tree: inserts, look-ups, scans",
        takes: &["keys"],
        keys_min: 1,
        basis: Basis::InPersistentMemory,
        run: memtable::run,
    },
    Experiment {
        name: "caches",
        what: "the block cache's rule of replacement beside others: skewed reads, scans, loops; what a hit costs",
        takes: &["keys"],
        keys_min: caches::KEYS_MIN,
        basis: Basis::Measured,
        run: caches::run,
    },
    Experiment {
        name: "xengine-l0",
        what: "level 0 as it grows: a Global Index beside tables in persistent memory and on SSD",
        takes: &["size", "disk"],
        keys_min: 0,
        basis: Basis::InPersistentMemory,
        run: level0::run,
    },
    Experiment {
        name: "xengine-ycsb",
        what: "YCSB's workloads with X-Engine's records in 16 keyspaces, on its way and on stock RocksDB's",
        takes: &["size", "runs", "disk"],
        keys_min: 0,
        basis: Basis::InPersistentMemory,
        run: ycsb::xengine,
    },
    Experiment {
        name: "xengine-ror",
        what: "commits in batches from many threads without a log: throughput and p99 of each pair",
        takes: &["keys", "runs"],
        keys_min: 0,
        basis: Basis::InPersistentMemory,
        run: ror::run,
    },
    Experiment {
        name: "intel-wal",
        what: "the log of a store in DRAM on SSD and in persistent memory, on models of both",
        takes: &["size", "runs"],
        keys_min: 0,
        basis: Basis::OnModels,
        run: intel::wal,
    },
    Experiment {
        name: "intel-paths",
        what: "writes and reads with the upper levels in persistent memory, and with all tables on SSD, on models of both",
        takes: &["size", "runs"],
        keys_min: 0,
        basis: Basis::OnModels,
        run: intel::paths,
    },
    Experiment {
        name: "intel-values",
        what: "values apart from their keys and with them, by their length, on a model of an SSD",
        takes: &["size", "runs"],
        keys_min: 0,
        basis: Basis::OnModels,
        run: intel::values,
    },
    Experiment {
        name: "intel-fine-reads",
        what: "gets from tables in persistent memory, in place, beside a block cache of a tenth of the data",
        takes: &["size", "runs"],
        keys_min: 0,
        basis: Basis::OnModels,
        run: intel::fine_reads,
    },
    Experiment {
        name: "intel-priority",
        what: "gets with half of the data in persistent memory, whose blocks have low priority in the block cache, on models",
        takes: &["size", "runs"],
        keys_min: 0,
        basis: Basis::OnModels,
        run: intel::priority,
    },
    Experiment {
        name: "intel-cache",
        what: "gets through a block cache in DRAM and in volatile persistent memory, of all data and of parts of it, on models",
        takes: &["size", "runs"],
        keys_min: 0,
        basis: Basis::OnModels,
        run: intel::cache,
    },
    Experiment {
        name: "mcgill",
        what: "block cache and memtables in DRAM and in volatile persistent memory, over time, beside a cache below DRAM, on models",
        takes: &["size", "runs", "out"],
        keys_min: 0,
        basis: Basis::OnModels,
        run: mcgill::run,
    },
    Experiment {
        name: "intel-persistent-cache",
        what: "gets after a restart, with what persistent memory kept of the cache, and without it, on models",
        takes: &["size"],
        keys_min: 0,
        basis: Basis::OnModels,
        run: hybrid::restart,
    },
    Experiment {
        name: "kassa",
        what: "a little DRAM, the same and persistent memory by each policy, and much DRAM, on mixes of three services",
        takes: &["size", "runs"],
        keys_min: 0,
        basis: Basis::OnModels,
        run: hybrid::kassa,
    },
    Experiment {
        name: "relsm-ladder",
        what: "random writes of 1 KiB, from stock RocksDB's way to Re-LSM's, step by step",
        takes: &["size", "runs", "disk"],
        keys_min: 0,
        basis: Basis::InPersistentMemory,
        run: relsm::ladder,
    },
    Experiment {
        name: "relsm-values",
        what: "random writes of values of 8 B to 64 KiB, at three steps of the ladder",
        takes: &["size", "runs", "disk"],
        keys_min: 0,
        basis: Basis::InPersistentMemory,
        run: relsm::values,
    },
    Experiment {
        name: "relsm-sizes",
        what: "random writes of 1 KiB as data grows, at three steps of the ladder",
        takes: &["size", "runs", "disk"],
        keys_min: 0,
        basis: Basis::InPersistentMemory,
        run: relsm::sizes,
    },
    Experiment {
        name: "relsm-ycsb",
        what: "YCSB's workloads with records of 1 KiB, on Re-LSM's way and on stock RocksDB's",
        takes: &["size", "runs", "disk"],
        keys_min: 0,
        basis: Basis::InPersistentMemory,
        run: ycsb::relsm,
    },
];

impl Experiment {
    /// The experiment of that name.
    pub fn find(name: &str) -> Option<&'static Experiment> {
        EXPERIMENTS.iter().find(|experiment| experiment.name == name)
    }

    /// Runs it and writes what it found as text, line by line.
    ///
    /// # Errors
    /// [`BenchError::Usage`] if it does not heed what was asked, or that would measure nothing; [`BenchError::Failed`] if it could not be
    /// run, or `out` takes no more.
    pub fn run(&self, request: &Request, out: &mut dyn Write) -> Result<(), BenchError> {
        self.check(request).map_err(BenchError::Usage)?;
        request::say(out, &self.basis.text(request))?;
        Ok((self.run)(request, out)?)
    }

    /// Refuses what it does not heed, and what is too little.
    fn check(&self, request: &Request) -> Result<(), String> {
        let given = [
            ("keys", request.keys.is_some()),
            ("size", request.size.is_some()),
            ("runs", request.runs.is_some()),
            ("disk", request.disk.is_some()),
            ("out", request.out.is_some()),
        ];
        if let Some((flag, _)) =
            given.iter().find(|(flag, given)| *given && !self.takes.contains(flag))
        {
            return Err(format!("{} has no {flag}; leave --{flag} out", self.name));
        }
        let least = [("keys", request.keys, self.keys_min), ("size", request.size, SIZE_MIN)];
        let few = least.iter().find_map(|(flag, given, least)| {
            let given = given.filter(|given| given < least)?;
            Some(format!("--{flag} {given}: at least {least}, or it would measure nothing"))
        });
        few.map_or(Ok(()), Err)
    }
}
