//! Presets: systems that papers describe, as settings of this engine.

use base::{Error, ErrorKind, Result};

use super::Options;

/// A system that a paper describes, as settings of this engine.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Preset {
    /// Its name, for [`Options::preset`].
    pub name: &'static str,
    /// What it stands for.
    pub doc: &'static str,
    /// Names and text forms of the options that are not the defaults.
    pub settings: &'static [(&'static str, &'static str)],
}

/// Where Linux has a tmpfs.
const TMPFS: &str = "/dev/shm";

/// Every preset.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "auto",
        doc: "The defaults: a Global Index, in as many subranges as suit.",
        settings: &[],
    },
    Preset {
        name: "classic",
        doc: "What stock RocksDB does: memtables in DRAM, the log and all tables on SSD. Each write is synced; with \
              wal_sync=never when asked to, which is RocksDB's default.",
        settings: &[
            ("pm", "dram"),
            ("level0", "sst"),
            ("subranges", "1"),
            ("value_files_min", "0"),
        ],
    },
    Preset {
        name: "l0l1-pm",
        doc: "The upper levels in persistent memory, as tables, and the others on SSD: RocksDB-L0L1-NVM of the Re-LSM \
              paper (ICCAD 2022).",
        settings: &[
            ("level0", "sst"),
            ("pm_tables", "75"),
            ("subranges", "1"),
            ("value_files_min", "0"),
        ],
    },
    Preset {
        name: "wal-to-sst",
        doc: "The step behind it in the same paper: of a full memtable only an index is written, and its log becomes a \
              part of level 0.",
        settings: &[
            ("level0", "index-runs"),
            ("pm_tables", "40"),
            ("subranges", "1"),
            ("value_files_min", "0"),
        ],
    },
    Preset {
        name: "re-lsm",
        doc: "The software half of Re-LSM (ICCAD 2022): besides, five subranges that are compacted by themselves. Its \
              processing in memory is not here.",
        settings: &[
            ("level0", "index-runs"),
            ("pm_tables", "40"),
            ("subranges", "5"),
            ("value_files_min", "0"),
        ],
    },
    Preset {
        name: "log-free",
        doc: "X-Engine with persistent memory (VLDB 2021): commits without a log, indexes in DRAM over records in \
              persistent memory, and one Global Index as level 0.",
        settings: &[("subranges", "1"), ("value_files_min", "0")],
    },
    Preset {
        name: "tiered",
        doc: "RocksDB with persistent memory for some of its files, as Intel configures it: memtables in DRAM, upper levels in the \
              first directories of tiers, long values apart from their keys. Directories are given beside it: tiers, and wal_dir \
              for a log in persistent memory.",
        settings: &[
            ("pm", "dram"),
            ("level0", "sst"),
            ("subranges", "1"),
            ("placement", "level"),
            ("value_files_min", "1024"),
        ],
    },
    Preset {
        name: "mcgill-dram",
        doc: "RocksDB as Zhou measured it at McGill (2021): small memtables, a block cache, no filters, and a log that is not synced, where \
              theirs had none. Both in DRAM: scenario 1.",
        settings: &[
            ("pm", "dram"),
            ("level0", "sst"),
            ("subranges", "1"),
            ("value_files_min", "0"),
            ("wal_sync", "never"),
            ("memtable_bytes", "10M"),
            ("immutable_memtables_max", "1"),
            ("block_cache", "8M"),
            ("filter_bits", "0"),
        ],
    },
    Preset {
        name: "mcgill-cache",
        doc: "The same with the block cache in volatile persistent memory: scenario 2. It is on tmpfs, which stands for that, unless \
              block_cache_memory beside it says where such memory is; pm_model says how slow.",
        settings: &[
            ("pm", "dram"),
            ("level0", "sst"),
            ("subranges", "1"),
            ("value_files_min", "0"),
            ("wal_sync", "never"),
            ("memtable_bytes", "10M"),
            ("immutable_memtables_max", "1"),
            ("block_cache", "8M"),
            ("filter_bits", "0"),
            ("block_cache_memory", TMPFS),
        ],
    },
    Preset {
        name: "mcgill-both",
        doc: "The same with the memtables' records there, too: scenario 3. See memtable_memory.",
        settings: &[
            ("pm", "dram"),
            ("level0", "sst"),
            ("subranges", "1"),
            ("value_files_min", "0"),
            ("wal_sync", "never"),
            ("memtable_bytes", "10M"),
            ("immutable_memtables_max", "1"),
            ("block_cache", "8M"),
            ("filter_bits", "0"),
            ("block_cache_memory", TMPFS),
            ("memtable_memory", TMPFS),
        ],
    },
];

impl Options {
    /// The options of the preset called `name`, one of [`PRESETS`].
    ///
    /// A store does not know its preset. It opens with another one, and what is written from then on follows that; only
    /// where its records are (`pm`) cannot change, and a store with a log takes no preset with tables in persistent memory.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if there is none of that name; the message names those that there are.
    pub fn preset(name: &str) -> Result<Options> {
        let preset = PRESETS.iter().find(|preset| preset.name == name).ok_or_else(|| {
            let known: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
            let text = format!("no preset {name}; there are {}", known.join(", "));
            Error::new(ErrorKind::InvalidArgument, "options", text)
        })?;
        let mut options = Options::default();
        preset.settings.iter().try_for_each(|(name, text)| options.set(name, text))?;
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::TABLE;

    #[test]
    fn every_preset_sets_options_to_what_is_not_their_default() {
        for preset in PRESETS {
            Options::preset(preset.name).expect(preset.name);
            for (name, text) in preset.settings {
                let row = TABLE.iter().find(|row| row.name == *name).expect(name);
                assert_ne!(row.default, *text, "{} {name}", preset.name);
            }
        }
        assert_eq!(Options::preset("auto").expect("auto"), Options::default());
        let error = Options::preset("fast").expect_err("unknown");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("auto, classic, "), "{error}");
    }
}
