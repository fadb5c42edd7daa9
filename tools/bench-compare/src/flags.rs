//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use strandline::parse_size;

use crate::data::{Filling, Spread};
use crate::dram::Sizes;
use crate::engines::{self, Maker, RIVALS, Result};
use crate::sample::Load;
use crate::stages::{self, Case, Group, Holds, Place, Prepared, Stage};
use bench::data::draw::Draw;
use bench::tpcc::Scale;

/// Name, value and meaning of each flag.
const TABLE: &[(&str, &str, &str)] = &[
    (
        "only",
        "names",
        "benchmarks to run, by the begin of their names: --only=fill,readrandom-pm (default: all but disk-worn)",
    ),
    (
        "group",
        "names",
        "groups to run: disk, where all engines use the same disk and memory; hybrid, the same with persistent memory, for which \
         tmpfs stands, for a second cache; tmpfs, where all are in memory; split, which is not on equal terms; transaction, ycsb and \
         tpcc, on the same disk and, where names say pm, in the same tmpfs (default: all)",
    ),
    (
        "values",
        "bytes",
        "sizes of values to run, of 100,500,1024,16K,64K (default: 100,1024, and 500 of ycsb); tpcc has any, and runs without this flag",
    ),
    ("filling", "form", "values that compress to half (half, default) or not at all (random)"),
    (
        "draw",
        "form",
        "how keys of overwrites and reads are drawn: uniform (default), zipf, with an exponent of 0.99, or \
         hot-set, four fifths from a fifth of the keys; hot keys all over. Benchmarks with zipf in their names always draw so",
    ),
    (
        "rivals",
        "names",
        "engines to compare with (default: rocksdb,rocksdb-recycle,rocksdb-second,strandline-pessimistic,rocksdb-optimistic,rocksdb-pessimistic,fjall,redb,lmdb). With values apart from their \
         keys: strandline-apart, the same with another value_space (strandline-apart-130, -155, -200), rocksdb-blob and \
         rocksdb-blob-unforced. With a secondary cache that does not compress: rocksdb-second-unpacked",
    ),
    ("runs", "count", "runs of each benchmark on each engine, in turns (default: 3)"),
    (
        "memory",
        "bytes",
        "memory of a store on a disk (default: 64M). Data is eight times that in fills and ycsb, ten times in cold, mixed and \
         overwrite, four times in zipf, where persistent memory is as large, and twice that where all fits memory, which is \
         more then",
    ),
    (
        "data",
        "bytes",
        "keys and values of a store in tmpfs, or with its pool there (default: 256M). Where data spills, the pool is a \
         quarter of it. Of transaction it has at most a million keys",
    ),
    ("warehouses", "count", "warehouses of tpcc (default: 1, which has some 124 MB)"),
    (
        "seconds",
        "seconds",
        "length of benchmarks of reads, synced puts, transactions and mixes (default: 2)",
    ),
    ("duration", "seconds", "length of overwrites (default: 30)"),
    ("keys", "form", "dense, as db_bench makes them (default), or hashed"),
    (
        "disk",
        "folder",
        "where stores on disk go, all of them; refused if it is memory (default: where temporary files go)",
    ),
    (
        "cgroup",
        "folder",
        "a control group of memory, in which each run gets one of its own, so that the system tells its peak, pages of files \
         included; without it, memory that no file backs is told",
    ),
    ("seed", "number", "what random numbers begin from (default: 301)"),
    ("quick", "", "small sizes and one run, for a look whether all works; figures mean nothing"),
    (
        "into",
        "file",
        "add what is measured to this file, and tell all that is in it: parts that ran one after another become one report, \
         and what is measured again replaces what was",
    ),
    ("report", "", "measure nothing, only tell what is in the file that --into names"),
    (
        "counted",
        "",
        "RocksDB counts bytes and syncs, too, which costs it some time: a look whether its figures are those of the system",
    ),
    ("json", "", "one object: machine, settings, rows, and every run"),
    (
        "write-docs",
        "",
        "write docs/benchmarks.md as well: the groups that were measured, at least three runs of each",
    ),
    ("help", "", "this text"),
];

/// Sizes of values that run where none is asked for: those of the page.
const SIZES: [usize; 2] = [100, 1024];

/// Warehouses of TPC-C at most: of all of them a store takes some 120 GB.
const MOST_WAREHOUSES: u32 = 1000;
/// Rows of TPC-C where figures mean nothing, in percent of the standard's.
const QUICK_PERCENT: u32 = 10;

/// A page is made of so many runs at least.
pub const LEAST_RUNS: usize = 3;

/// What to run and how.
#[derive(Debug)]
pub struct Flags {
    only: Vec<String>,
    groups: Vec<Group>,
    values: Vec<usize>,
    /// Engines to compare with.
    pub rivals: Vec<&'static Maker>,
    /// Runs of each benchmark.
    pub runs: usize,
    /// Memory and data.
    pub sizes: Sizes,
    /// How large the tables of TPC-C are.
    pub scale: Scale,
    /// Length of reads and synced puts.
    pub seconds: Duration,
    /// Length of overwrite.
    pub duration: Duration,
    /// How keys look.
    pub spread: Spread,
    /// How values are filled, and keys drawn.
    pub load: Load,
    /// Folder of stores on disk.
    pub disk: PathBuf,
    /// Control group for groups of runs; in the process of a run, its own.
    pub group: Option<PathBuf>,
    /// What random numbers begin from.
    pub seed: u64,
    /// File that figures are added to.
    pub into: Option<PathBuf>,
    /// Measure nothing.
    pub report: bool,
    /// RocksDB counts, too.
    pub counted: bool,
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
            groups: Group::ALL.to_vec(),
            values: Vec::new(),
            rivals: RIVALS.to_vec(),
            runs: 3,
            sizes: Sizes { memory: 64 << 20, data: 256 << 20, orders: Scale::default().bytes() },
            scale: Scale::default(),
            seconds: Duration::from_secs(2),
            duration: Duration::from_secs(30),
            spread: Spread::Dense,
            load: Load::default(),
            disk: std::env::temp_dir(),
            group: None,
            seed: 301,
            into: None,
            report: false,
            counted: false,
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
        flags.check()?;
        Ok(flags)
    }

    /// Refuses what would make a page of too little.
    fn check(&self) -> Result<()> {
        if self.report && self.into.is_none() {
            return Err("--report tells what is in a file: name it with --into=FILE".into());
        }
        let partial = !self.only.is_empty() || !self.values.is_empty();
        let runs = |rival: &&Maker| self.rivals.iter().any(|maker| maker.name == rival.name);
        let all = !partial && RIVALS.iter().all(runs);
        match self.docs {
            true if !self.report && self.runs < LEAST_RUNS => {
                Err(format!("--write-docs needs at least {LEAST_RUNS} runs: --runs={LEAST_RUNS}"))
            }
            true if !all && self.into.is_none() => Err(
                "--write-docs with a part of a group would drop the rows of the others: add parts to a file with --into=FILE"
                    .into(),
            ),
            _ => Ok(()),
        }
    }

    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        let seconds = || {
            let seconds: f64 = value.parse().ok()?;
            (seconds.is_finite() && seconds > 0.0).then(|| Duration::from_secs_f64(seconds))
        };
        match name {
            "only" => self.only = benchmarks(value)?,
            "group" => self.groups = value.split(',').map(group).collect::<Option<_>>()?,
            "values" => self.values = value.split(',').map(size).collect::<Option<_>>()?,
            "rivals" => self.rivals = value.split(',').map(rival).collect::<Option<_>>()?,
            "runs" => self.runs = value.parse().ok().filter(|runs| *runs > 0)?,
            "memory" => self.sizes.memory = parse_size(value).filter(|size| *size >= 8 << 20)?,
            "data" => self.sizes.data = parse_size(value).filter(|size| *size >= 1 << 20)?,
            "seconds" => self.seconds = seconds()?,
            "duration" => self.duration = seconds()?,
            "warehouses" => {
                let count =
                    value.parse().ok().filter(|count| (1..=MOST_WAREHOUSES).contains(count));
                self.set_scale(Scale { warehouses: count?, ..self.scale });
            }
            "keys" if value == "dense" => self.spread = Spread::Dense,
            "keys" if value == "hashed" => self.spread = Spread::Hashed,
            "filling" => self.load.filling = Filling::named(value)?,
            "draw" => self.load.draw = Draw::named(value)?,
            "disk" => self.disk = Some(PathBuf::from(value)).filter(|folder| folder.is_dir())?,
            "cgroup" => {
                self.group = Some(PathBuf::from(value)).filter(|group| group.is_dir()).map(Some)?
            }
            "seed" => self.seed = value.parse().ok()?,
            "into" => {
                self.into = Some(PathBuf::from(value)).filter(|_| !value.is_empty()).map(Some)?
            }
            "report" => self.report = true,
            "counted" => self.counted = true,
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
        self.sizes = Sizes { memory: 8 << 20, data: 16 << 20, ..self.sizes };
        self.set_scale(Scale { percent: QUICK_PERCENT, ..self.scale });
        self.seconds = Duration::from_millis(100);
        self.duration = Duration::from_millis(500);
    }

    fn set_scale(&mut self, scale: Scale) {
        (self.scale, self.sizes.orders) = (scale, scale.bytes());
    }

    /// The benchmarks of `stage` that were asked for.
    pub fn cases(&self, stage: &'static Stage) -> Vec<&'static Case> {
        let placed = self.groups.contains(&stage.group);
        let sized = match self.values.is_empty() {
            // Others have all sizes that are worth it.
            true => stage.group.holds() != Holds::Numbers || SIZES.contains(&stage.value_size),
            false => self.values.contains(&stage.value_size),
        };
        let named = |case: &&'static Case| match self.only.is_empty() {
            true => stage.prepared != Prepared::Worn,
            false => self.only.iter().any(|only| case.name.starts_with(only)),
        };
        stage.cases.iter().filter(|_| placed && sized).filter(named).collect()
    }

    /// Whether a benchmark that was asked for puts stores on the disk.
    pub fn uses_disk(&self) -> bool {
        stages::all().any(|stage| stage.place != Place::Tmpfs && !self.cases(stage).is_empty())
    }

    /// Whether one puts them in memory.
    pub fn uses_memory(&self) -> bool {
        stages::all().any(|stage| stage.place != Place::Disk && !self.cases(stage).is_empty())
    }

    /// What the flags are, in words.
    pub fn help() -> String {
        let flags = TABLE.iter().map(|(name, value, about)| {
            let equals = if value.is_empty() { "" } else { "=" };
            format!("  {:<20} {about}\n", format!("--{name}{equals}{value}"))
        });
        let about = stages::about().map(|(name, about)| format!("  {name:<20} {about}\n"));
        let (flags, about): (String, String) = (flags.collect(), about.collect());
        format!(
            "strandline-bench-compare: the same workloads on this engine and on others\n\n{flags}\nbenchmarks\n{about}"
        )
    }
}

fn rival(name: &str) -> Option<&'static Maker> {
    engines::rivals().find(|maker| maker.name == name)
}

/// A size of values that some benchmark has.
fn size(value: &str) -> Option<usize> {
    let size = usize::try_from(parse_size(value)?).ok().filter(|size| *size > 0)?;
    stages::all().any(|stage| stage.value_size == size).then_some(size)
}

fn group(name: &str) -> Option<Group> {
    Group::ALL.into_iter().find(|group| group.name() == name)
}

/// Begins of names, each of which some benchmark has.
fn benchmarks(value: &str) -> Option<Vec<String>> {
    let known = |only: &&str| {
        !only.is_empty()
            && stages::all().flat_map(|stage| stage.cases).any(|case| case.name.starts_with(only))
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
        assert_eq!((flags.runs, flags.sizes.data, flags.rivals.len()), (2, 16 << 20, 1));
        let wants = |flags: &Flags, name: &str, value_size: usize| {
            let mut stages = stages::all().filter(|stage| stage.value_size == value_size);
            stages.any(|stage| flags.cases(stage).iter().any(|case| case.name == name))
        };
        assert!(wants(&flags, "readrandom-pm", 100) && !wants(&flags, "readrandom-pm", 1024));
        assert!(!wants(&flags, "fillrandom", 100));
        let tmpfs = parse(&["--group=tmpfs"]).unwrap();
        assert!(wants(&tmpfs, "fillrandom", 100) && !wants(&tmpfs, "disk-sync", 100));
        assert!(!tmpfs.uses_disk() && parse(&["--group=disk"]).unwrap().uses_disk());
        for wrong in [
            "--runs=0",
            "--rivals=sled",
            "--only=writerandom",
            "--keys=sparse",
            "--values=77",
            "--filling=zeros",
            "--draw=latest",
            "--group=network",
            "--warehouses=0",
            "--warehouses=many",
            "--values=0",
            "--cgroup=/nowhere/at/all",
            "runs",
            "--nonsense",
        ] {
            assert!(parse(&[wrong]).is_err(), "{wrong}");
        }
        for (name, value, _) in TABLE {
            let with_file = parse(&[&format!("--{name}"), "--into=file"]);
            assert!(value.is_empty() == with_file.is_ok() || *name == "into", "{name}");
        }
    }

    #[test]
    fn groups_of_transactions_and_records_run_by_name_and_as_large_as_asked_for() {
        let runs = |flags: &Flags| {
            let cases = stages::all().flat_map(|stage| {
                flags.cases(stage).into_iter().map(|case| (case.name, stage.value_size))
            });
            cases.collect::<Vec<_>>()
        };
        let flags = parse(&["--group=transaction,ycsb,tpcc"]).unwrap();
        let names = runs(&flags);
        for wanted in
            [("transaction-rmw", 100), ("ycsb-e", 500), ("ycsb-pm-a", 1024), ("tpcc-pm", 0)]
        {
            assert!(names.contains(&wanted), "{wanted:?} in {names:?}");
        }
        assert!(names.iter().all(|(name, _)| !name.starts_with("disk")));
        assert!(flags.uses_disk() && flags.uses_memory());
        let some = parse(&["--group=ycsb", "--only=ycsb-load,ycsb-c", "--values=500"]).unwrap();
        assert_eq!(runs(&some), [("ycsb-load", 500), ("ycsb-c", 500)]);
        assert!(some.uses_disk() && !some.uses_memory());
        let three = parse(&["--quick", "--warehouses=3"]).unwrap();
        assert_eq!(three.scale, Scale { warehouses: 3, percent: QUICK_PERCENT });
        assert_eq!(three.sizes.orders, three.scale.bytes());
        assert_eq!(parse(&["--warehouses=3", "--quick"]).unwrap().scale, three.scale);
    }

    #[test]
    fn what_takes_long_runs_where_it_is_asked_for() {
        let runs = |args: &[&str], name: &str, value_size: usize| {
            let flags = parse(args).unwrap();
            let mut stages = stages::all().filter(|stage| stage.value_size == value_size);
            stages.any(|stage| flags.cases(stage).iter().any(|case| case.name == name))
        };
        assert!(runs(&[], "disk-fill", 1024) && !runs(&[], "disk-fill", 16 << 10));
        assert!(runs(&["--values=16K,64K"], "disk-fill", 16 << 10));
        assert!(!runs(&["--only=disk-fill"], "disk-fill", 64 << 10));
        assert!(!runs(&[], "disk-worn-scan", 1024));
        assert!(!runs(&["--values=1024"], "disk-worn-scan", 1024));
        assert!(runs(&["--only=disk-worn"], "disk-worn-scan", 100));
        assert!(runs(&["--only=disk-worn", "--values=65536"], "disk-worn-get", 64 << 10));
    }

    #[test]
    fn values_and_draws_are_as_asked_for() {
        let load = |args: &[&str]| parse(args).unwrap().load;
        assert_eq!(load(&[]), Load { filling: Filling::Half, draw: Draw::Uniform });
        let other = Load { filling: Filling::Random, draw: Draw::Zipf };
        assert_eq!(load(&["--filling=random", "--draw=zipf"]), other);
        let (_, fill) = stages::find("disk-fill", 1, 100).unwrap();
        assert_eq!(other.of(fill), Load { filling: Filling::Random, draw: Draw::Uniform });
        let (_, overwrite) = stages::find("disk-overwrite", 1, 100).unwrap();
        assert_eq!(other.of(overwrite), other);
        // One that is about a draw has no row for each of them.
        for name in ["disk-get-zipf", "disk-get-zipf-scan", "hybrid-get-zipf"] {
            let (_, zipf) = stages::find(name, 1, 100).unwrap();
            assert_eq!(other.of(zipf), load(&["--filling=random"]));
            assert_eq!(zipf.draw, Some(Draw::Zipf));
        }
        let apart = parse(&["--rivals=strandline-apart-130,rocksdb-blob-unforced"]).unwrap();
        assert_eq!(apart.rivals.len(), 2);
        // A number of rivals makes no page.
        let others = "--rivals=strandline-apart,strandline-apart-200,rocksdb,rocksdb-blob,fjall";
        assert!(parse(&["--write-docs", others]).is_err());
    }

    #[test]
    fn a_page_is_made_of_enough() {
        assert!(parse(&["--write-docs"]).is_ok());
        assert!(parse(&["--write-docs", "--quick"]).unwrap_err().contains("at least 3 runs"));
        assert!(parse(&["--write-docs", "--only=disk-sync"]).unwrap_err().contains("--into"));
        assert!(parse(&["--write-docs", "--only=disk-sync", "--into=file"]).is_ok());
        assert!(parse(&["--report"]).unwrap_err().contains("--into"));
        assert!(parse(&["--report", "--write-docs", "--into=file"]).is_ok());
    }
}
