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
mod ycsb;

use std::io::Write;

pub use request::Request;

/// An experiment: what it is called, what it shows, and how it is run.
pub struct Experiment {
    /// The word behind `reproduce`.
    pub name: &'static str,
    /// What it shows, in one line.
    pub what: &'static str,
    /// The fields of [`Request`] that it heeds, `quick` and `pm` aside, which all do.
    takes: &'static [&'static str],
    basis: Basis,
    run: fn(&Request, &mut dyn Write) -> Result<(), String>,
}

/// What the figures of an experiment rest on; each report begins with it.
#[derive(Clone, Copy)]
enum Basis {
    /// This machine alone.
    Measured,
    /// Models of devices, too, which rows or columns name.
    OnModels,
}

impl Basis {
    const fn text(self) -> &'static str {
        match self {
            Basis::Measured => "Figures: measured.",
            Basis::OnModels => {
                "Figures: emulated where a row, a column or the text above it names a model, else measured."
            }
        }
    }
}

/// Bytes of keys and values below which figures would be zeros.
const SIZE_MIN: u64 = 1 << 20;

/// Every experiment.
pub const EXPERIMENTS: [Experiment; 18] = [
    Experiment {
        name: "halloc",
        what: "what taking space in persistent memory costs, by length and by how full the pool is",
        takes: &[],
        basis: Basis::Measured,
        run: halloc::run,
    },
    Experiment {
        name: "xengine-memtable",
        what: "the memtable's index beside a skip list and a B-tree: inserts, look-ups, scans",
        takes: &["keys"],
        basis: Basis::Measured,
        run: memtable::run,
    },
    Experiment {
        name: "caches",
        what: "the block cache's rule of replacement beside others: skewed reads, scans, loops; what a hit costs",
        takes: &["keys"],
        basis: Basis::Measured,
        run: caches::run,
    },
    Experiment {
        name: "xengine-l0",
        what: "level 0 as it grows: a Global Index beside tables in persistent memory and on SSD",
        takes: &["size", "disk"],
        basis: Basis::Measured,
        run: level0::run,
    },
    Experiment {
        name: "xengine-ycsb",
        what: "YCSB's workloads with X-Engine's records in 16 keyspaces, on its way and on stock RocksDB's",
        takes: &["size", "runs", "disk"],
        basis: Basis::Measured,
        run: ycsb::xengine,
    },
    Experiment {
        name: "intel-wal",
        what: "the log of a store in DRAM on SSD and in persistent memory, on models of both",
        takes: &["size", "runs"],
        basis: Basis::OnModels,
        run: intel::wal,
    },
    Experiment {
        name: "intel-paths",
        what: "writes and reads with the upper levels in persistent memory, and with all tables on SSD, on models of both",
        takes: &["size", "runs"],
        basis: Basis::OnModels,
        run: intel::paths,
    },
    Experiment {
        name: "intel-values",
        what: "values apart from their keys and with them, by their length, on a model of an SSD",
        takes: &["size", "runs"],
        basis: Basis::OnModels,
        run: intel::values,
    },
    Experiment {
        name: "intel-fine-reads",
        what: "gets from tables in persistent memory, in place, beside a block cache of a tenth of the data",
        takes: &["size", "runs"],
        basis: Basis::OnModels,
        run: intel::fine_reads,
    },
    Experiment {
        name: "intel-priority",
        what: "gets with half of the data in persistent memory, whose blocks have low priority in the block cache, on models",
        takes: &["size", "runs"],
        basis: Basis::OnModels,
        run: intel::priority,
    },
    Experiment {
        name: "intel-cache",
        what: "gets through a block cache in DRAM and in volatile persistent memory, of all data and of parts of it, on models",
        takes: &["size", "runs"],
        basis: Basis::OnModels,
        run: intel::cache,
    },
    Experiment {
        name: "mcgill",
        what: "block cache and memtables in DRAM and in volatile persistent memory, over time, beside a cache below DRAM, on models",
        takes: &["size", "runs", "out"],
        basis: Basis::OnModels,
        run: mcgill::run,
    },
    Experiment {
        name: "intel-persistent-cache",
        what: "gets after a restart, with what persistent memory kept of the cache, and without it, on models",
        takes: &["size"],
        basis: Basis::OnModels,
        run: hybrid::restart,
    },
    Experiment {
        name: "kassa",
        what: "a little DRAM, the same and persistent memory by each policy, and much DRAM, on mixes of three services",
        takes: &["size", "runs"],
        basis: Basis::OnModels,
        run: hybrid::kassa,
    },
    Experiment {
        name: "relsm-ladder",
        what: "random writes of 1 KiB, from stock RocksDB's way to Re-LSM's, step by step",
        takes: &["size", "runs", "disk"],
        basis: Basis::Measured,
        run: relsm::ladder,
    },
    Experiment {
        name: "relsm-values",
        what: "random writes of values of 8 B to 64 KiB, at three steps of the ladder",
        takes: &["size", "runs", "disk"],
        basis: Basis::Measured,
        run: relsm::values,
    },
    Experiment {
        name: "relsm-sizes",
        what: "random writes of 1 KiB as data grows, at three steps of the ladder",
        takes: &["size", "runs", "disk"],
        basis: Basis::Measured,
        run: relsm::sizes,
    },
    Experiment {
        name: "relsm-ycsb",
        what: "YCSB's workloads with records of 1 KiB, on Re-LSM's way and on stock RocksDB's",
        takes: &["size", "runs", "disk"],
        basis: Basis::Measured,
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
    /// It could not be run, or `out` takes no more; in words.
    pub fn run(&self, request: &Request, out: &mut dyn Write) -> Result<(), String> {
        let given = [
            ("keys", request.keys.is_some()),
            ("size", request.size.is_some()),
            ("runs", request.runs.is_some()),
            ("disk", request.disk.is_some()),
            ("out", request.out.is_some()),
        ];
        match given.iter().find(|(flag, given)| *given && !self.takes.contains(flag)) {
            Some((flag, _)) => Err(format!("{} has no {flag}; leave --{flag} out", self.name)),
            None => {
                if let Some(size) = request.size.filter(|size| *size < SIZE_MIN) {
                    return Err(format!(
                        "--size {size}: at least {SIZE_MIN}, or it would measure nothing"
                    ));
                }
                request::say(out, self.basis.text())?;
                (self.run)(request, out)
            }
        }
    }
}
