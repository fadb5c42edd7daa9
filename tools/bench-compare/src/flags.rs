//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use strandline::parse_size;

use crate::data::Spread;
use crate::engines::{Maker, RIVALS, Result};
use crate::stages::{ABOUT, STAGES};

/// Name, value and meaning of each flag.
const TABLE: &[(&str, &str, &str)] = &[
    ("only", "names", "benchmarks to run, by the begin of their names: --only=fill,readrandom-pm"),
    ("values", "bytes", "sizes of values to run: 100, 1024 or both, which is the default"),
    ("rivals", "names", "engines to compare with: rocksdb,fjall,redb,lmdb (default: all)"),
    ("runs", "count", "runs of each benchmark on each engine, in turns (default: 3)"),
    (
        "data",
        "bytes",
        "keys and values of a store (default: 1G); the pool is a quarter where data spills",
    ),
    ("seconds", "seconds", "length of benchmarks of reads and synced puts (default: 10)"),
    ("duration", "seconds", "length of overwrite (default: 120)"),
    ("keys", "form", "dense, as db_bench makes them (default), or hashed"),
    ("disk", "folder", "where stores on disk go (default: where temporary files go)"),
    ("seed", "number", "what random numbers begin from (default: 301)"),
    ("quick", "", "small sizes and one run, for a look whether all works; figures mean nothing"),
    ("json", "", "one object: machine, settings, rows, and every run"),
    ("write-docs", "", "write docs/benchmarks.md as well"),
    ("help", "", "this text"),
];

/// What to run and how.
#[derive(Debug)]
pub struct Flags {
    only: Vec<String>,
    values: Vec<usize>,
    /// Engines to compare with.
    pub rivals: Vec<&'static Maker>,
    /// Runs of each benchmark.
    pub runs: usize,
    /// Bytes of keys and values.
    pub data: u64,
    /// Length of reads and synced puts.
    pub seconds: Duration,
    /// Length of overwrite.
    pub duration: Duration,
    /// How keys look.
    pub spread: Spread,
    /// Folder of stores on disk.
    pub disk: PathBuf,
    /// What random numbers begin from.
    pub seed: u64,
    /// As JSON.
    pub json: bool,
    /// Write the page as well.
    pub docs: bool,
    /// Only tell the flags.
    pub help: bool,
}

impl Default for Flags {
    fn default() -> Flags {
        Flags {
            only: Vec::new(),
            values: Vec::new(),
            rivals: RIVALS.to_vec(),
            runs: 3,
            data: 1 << 30,
            seconds: Duration::from_secs(10),
            duration: Duration::from_secs(120),
            spread: Spread::Dense,
            disk: std::env::temp_dir(),
            seed: 301,
            json: false,
            docs: false,
            help: false,
        }
    }
}

impl Flags {
    /// Reads `args`; later ones win.
    ///
    /// # Errors
    /// A flag is unknown or its value does not parse; in words.
    pub fn parse(args: &[String]) -> Result<Flags> {
        let mut flags = Flags::default();
        for arg in args {
            let (name, value) = arg.split_once('=').unwrap_or((arg, ""));
            let name =
                name.strip_prefix("--").ok_or_else(|| format!("{arg}: no flag; see --help"))?;
            flags.set(name, value).ok_or_else(|| format!("{arg}: not understood; see --help"))?;
        }
        Ok(flags)
    }

    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        let seconds = || {
            let seconds: f64 = value.parse().ok()?;
            (seconds.is_finite() && seconds > 0.0).then(|| Duration::from_secs_f64(seconds))
        };
        match name {
            "only" => self.only = benchmarks(value)?,
            "values" => {
                self.values =
                    value.split(',').map(|size| size.parse().ok()).collect::<Option<_>>()?
            }
            "rivals" => self.rivals = value.split(',').map(rival).collect::<Option<_>>()?,
            "runs" => self.runs = value.parse().ok().filter(|runs| *runs > 0)?,
            "data" => self.data = parse_size(value).filter(|data| *data >= 1 << 20)?,
            "seconds" => self.seconds = seconds()?,
            "duration" => self.duration = seconds()?,
            "keys" if value == "dense" => self.spread = Spread::Dense,
            "keys" if value == "hashed" => self.spread = Spread::Hashed,
            "disk" => self.disk = Some(PathBuf::from(value)).filter(|folder| folder.is_dir())?,
            "seed" => self.seed = value.parse().ok()?,
            "quick" => self.quick(),
            "json" => self.json = true,
            "write-docs" => self.docs = true,
            "help" => self.help = true,
            _ => return None,
        }
        Some(())
    }

    fn quick(&mut self) {
        self.runs = 1;
        self.data = 16 << 20;
        self.seconds = Duration::from_millis(100);
        self.duration = Duration::from_millis(500);
    }

    /// Whether the benchmark was asked for.
    pub fn wants(&self, name: &str, value_size: usize) -> bool {
        let named = self.only.is_empty() || self.only.iter().any(|only| name.starts_with(only));
        named && (self.values.is_empty() || self.values.contains(&value_size))
    }

    /// What the flags are, in words.
    pub fn help() -> String {
        let flags = TABLE.iter().map(|(name, value, about)| {
            let equals = if value.is_empty() { "" } else { "=" };
            format!("  {:<20} {about}\n", format!("--{name}{equals}{value}"))
        });
        let about = ABOUT.iter().map(|(name, about)| format!("  {name:<20} {about}\n"));
        let (flags, about): (String, String) = (flags.collect(), about.collect());
        format!(
            "strandline-bench-compare: the same workloads on this engine and on others\n\n{flags}\nbenchmarks\n{about}"
        )
    }
}

fn rival(name: &str) -> Option<&'static Maker> {
    RIVALS.iter().copied().find(|maker| maker.name == name)
}

/// Begins of names, each of which some benchmark has.
fn benchmarks(value: &str) -> Option<Vec<String>> {
    let known = |only: &&str| {
        !only.is_empty()
            && STAGES.iter().flat_map(|stage| stage.cases).any(|case| case.name.starts_with(only))
    };
    value.split(',').map(|only| Some(only).filter(known).map(String::from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Flags> {
        Flags::parse(&args.iter().map(|arg| arg.to_string()).collect::<Vec<_>>())
    }

    #[test]
    fn flags() {
        let flags = parse(&["--quick", "--runs=2", "--rivals=redb", "--only=read", "--values=100"])
            .unwrap();
        assert_eq!((flags.runs, flags.data, flags.rivals.len()), (2, 16 << 20, 1));
        assert!(flags.wants("readrandom-pm", 100) && !flags.wants("readrandom-pm", 1024));
        assert!(!flags.wants("fillrandom", 100));
        for wrong in [
            "--runs=0",
            "--rivals=sled",
            "--only=writerandom",
            "--keys=sparse",
            "runs",
            "--nonsense",
        ] {
            assert!(parse(&[wrong]).is_err(), "{wrong}");
        }
        for (name, value, _) in TABLE {
            assert!(value.is_empty() == parse(&[&format!("--{name}")]).is_ok(), "{name}");
        }
    }
}
