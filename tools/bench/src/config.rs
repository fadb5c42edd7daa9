//! What to measure and on what: the flags, parsed.

use std::path::PathBuf;

use strandline::{Options, TraceOptions, WalSync};

use crate::data::draw::{Draw, Draws, Skew};
use crate::data::keys::{Form, Keys};
use crate::data::rng::Rng;
use crate::data::values::{Marking, check_len};
use crate::mix::Mix;
use crate::pace::{Steps, Wave};
use crate::tpcc::Scale;
use crate::ycsb::{self, Ycsb};

/// The benchmark that asks for what a trace has.
pub(crate) const REPLAY: &str = "replay";

/// When latencies are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Latency {
    /// Never.
    Off,
    /// Of every 16th operation: two looks at the clock each, some 3 ns per operation.
    Sampled,
    /// Of every operation: one look at the clock each, some 25 ns per operation.
    Every,
}

/// How fast a trace is asked again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ReplaySpeed {
    /// As fast as the store answers.
    Max,
    /// So many times as fast as it was traced, if the store is quick enough.
    Times(f64),
}

/// Threads for compactions and flushes, as older versions of db_bench tell them apart.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BackgroundJobs {
    pub compactions: Option<u32>,
    pub flushes: Option<u32>,
}

impl BackgroundJobs {
    /// Threads for both, if either is given.
    pub(crate) fn threads(self) -> Option<u32> {
        let either = self.compactions.or(self.flushes);
        either.map(|_| self.compactions.unwrap_or(1).saturating_add(self.flushes.unwrap_or(1)))
    }
}

/// Everything that the flags say.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub benchmarks: Vec<String>,
    pub num: u64,
    pub reads: Option<u64>,
    pub writes: Option<u64>,
    pub key_size: usize,
    pub value_size: usize,
    pub threads: usize,
    /// Seconds; replaces the number of operations.
    pub duration: Option<f64>,
    pub readwritepercent: u32,
    pub batch_size: usize,
    /// Bytes of the batches that a thread aside commits while others write; 0: there is none.
    pub large_batch: u64,
    pub seed: u64,
    pub seek_nexts: u64,
    pub queue_depth: u64,
    /// Stores that `stores` opens.
    pub stores: u64,
    /// Keys in a range that `deleterange` deletes.
    pub range_width: u64,
    /// Keys that `mergerandom` merges into, if not `num`.
    pub merge_keys: Option<u64>,
    /// Keys of a transaction.
    pub transaction_sets: u16,
    /// Whether others must not write what a transaction has read.
    pub transaction_serializable: bool,
    /// Whether transactions lock what they change before they read it.
    pub transaction_locks: bool,
    /// How large the tables of tpcc are.
    pub tpcc: Scale,
    /// What part of its size a value compresses to.
    pub compression_ratio: f64,
    /// Whether each write is synced, if `--sync` says.
    pub sync: Option<bool>,
    pub disable_wal: bool,
    pub jobs: BackgroundJobs,
    pub ignore_unknown_flags: bool,
    /// Whether throughput is taken over time. No flag: the tour shows it.
    pub timeline: bool,
    /// Whether a snapshot from before a benchmark is held while it runs.
    pub snapshot: bool,
    pub db: Option<PathBuf>,
    pub use_existing_db: bool,
    /// Whether a store at `db` may be emptied that no bench made.
    pub overwrite_existing: bool,
    pub statistics: bool,
    /// Seconds between two rows about throughput and devices.
    pub stats_interval: Option<f64>,
    /// Where such rows go as CSV.
    pub series: Option<PathBuf>,
    /// Seconds between two of them, where `stats_interval` says nothing. No flag: experiments set it.
    pub series_every: f64,
    /// Whether huge pages may be used.
    pub huge_pages: bool,
    /// Whether events of the store are printed.
    pub events: bool,
    pub histogram: bool,
    pub latency: Option<Latency>,
    pub json: bool,
    pub key_form: Form,
    /// How keys of reads and overwrites are drawn.
    pub draw: Draw,
    pub skew: Skew,
    /// What mixgraph does.
    pub mix: Mix,
    /// What YCSB's workloads do.
    pub ycsb: Ycsb,
    /// Where the last benchmark is traced; with the benchmark replay, the trace that is asked again.
    pub trace: Option<PathBuf>,
    pub trace_options: TraceOptions,
    /// How fast the benchmark replay goes.
    pub replay_speed: ReplaySpeed,
    /// The rate of `--sine_mix_rate` and `--sine_write_rate`.
    pub wave: Wave,
    /// Whether fills and overwrites follow it, and how.
    pub write_paced: bool,
    pub write_steps: Steps,
    pub unique: bool,
    pub verify: bool,
    /// Seconds of the spin loop that looks for pauses of the machine, before and after.
    pub pause_probe: f64,
    pub fill_bytes: u64,
    pub preset_report: Option<String>,
    pub help: bool,
    pub engine: Options,
    /// Whether `pm_size` was given; it is chosen otherwise.
    pub pm_size_given: bool,
    /// Name and value of every flag that was given and known, for child processes.
    pub given: Vec<(String, String)>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            benchmarks: Vec::new(),
            num: 1_000_000,
            reads: None,
            writes: None,
            key_size: 16,
            value_size: 100,
            threads: 1,
            duration: None,
            readwritepercent: 90,
            batch_size: 1,
            large_batch: 0,
            seed: 301,
            seek_nexts: 0,
            queue_depth: 1000,
            stores: 2000,
            range_width: 100,
            merge_keys: None,
            transaction_sets: 2,
            transaction_serializable: false,
            transaction_locks: false,
            tpcc: Scale::default(),
            compression_ratio: 0.5,
            sync: None,
            disable_wal: false,
            jobs: BackgroundJobs::default(),
            ignore_unknown_flags: false,
            timeline: false,
            snapshot: false,
            db: None,
            use_existing_db: false,
            overwrite_existing: false,
            statistics: false,
            stats_interval: None,
            series: None,
            series_every: 1.0,
            huge_pages: true,
            events: false,
            histogram: false,
            latency: None,
            json: false,
            key_form: Form::Number,
            draw: Draw::Uniform,
            skew: Skew::default(),
            mix: Mix::default(),
            ycsb: Ycsb::default(),
            trace: None,
            trace_options: TraceOptions::default(),
            replay_speed: ReplaySpeed::Max,
            wave: Wave::default(),
            write_paced: false,
            write_steps: Steps::default(),
            unique: false,
            verify: false,
            pause_probe: 0.0,
            fill_bytes: 256 << 20,
            preset_report: None,
            help: false,
            // As db_bench does, which does not sync unless it is asked to.
            engine: Options::default().inspect(true).wal_sync(WalSync::Never),
            pm_size_given: false,
            given: Vec::new(),
        }
    }
}

impl Config {
    /// The file of `--series`, for messages.
    pub(crate) fn series_shown(&self) -> String {
        self.series.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
    }

    /// The keys that the flags describe.
    pub(crate) fn keys(&self) -> Keys {
        Keys { form: self.key_form, size: self.key_size }
    }

    /// How keys of reads and overwrites are drawn, in words.
    pub(crate) fn draw_shown(&self) -> String {
        Draws::skewed(self.draw, self.skew, self.num, Rng::new(self.seed)).to_string()
    }

    /// Reads per thread.
    pub(crate) fn reads(&self) -> u64 {
        self.reads.unwrap_or(self.num)
    }

    /// Writes per thread.
    pub(crate) fn writes(&self) -> u64 {
        self.writes.unwrap_or(self.num)
    }

    /// Whether `name` is among the benchmarks.
    pub(crate) fn runs(&self, name: &str) -> bool {
        self.benchmarks.iter().any(|benchmark| benchmark == name)
    }

    /// Whether YCSB's are among the benchmarks.
    pub(crate) fn runs_ycsb(&self) -> bool {
        self.benchmarks.iter().any(|benchmark| benchmark.starts_with(ycsb::PREFIX))
    }

    /// Whether values may have this length. Those that mixgraph and replay put have any.
    #[inline]
    pub(crate) fn fits(&self, value_len: usize) -> bool {
        value_len == self.value_size || self.runs("mixgraph") || self.runs(REPLAY)
    }

    /// Refuses a value of a length that it cannot have.
    #[inline]
    pub(crate) fn check_len(&self, value: &[u8]) -> Result<(), String> {
        if self.fits(value.len()) { Ok(()) } else { check_len(value, self.value_size) }
    }

    /// What values are like: with `--verify` they tell their key.
    pub(crate) fn marking(&self) -> Marking {
        if self.verify { Marking::Telling } else { Marking::Plain }
    }

    /// When latencies are taken.
    pub(crate) fn latency(&self) -> Latency {
        match self.latency {
            Some(latency) => latency,
            None if self.histogram => Latency::Every,
            None => Latency::Sampled,
        }
    }

    /// Bytes of keys and values when each key is there once.
    pub(crate) fn raw_bytes(&self) -> u64 {
        (self.num as f64 * (self.keys().mean_len(self.num) + self.value_size as f64)) as u64
    }
}
