//! `intel-priority`: gets of a store with half of its data on an SSD and half as files in persistent memory, where the block cache makes no
//! difference between the two, where blocks of the memory have low priority, and where they are not kept.
//!
//! Two keyspaces of equal size lie in a tier each; keys are drawn from both alike.

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use strandline::{
    CacheFigures, Db, FastBlocks, Keyspace, KeyspaceOptions, KeyspaceTiers, Options, TierSource,
    TierSpec,
};

use super::super::request::{Request, say};
use super::devices::{DELTA, RATIO, host_read, our_part, pm_files};
use super::stores::{rest, rocksdb_form};
use super::{in_turns, median};
use crate::data::draw::{Draw, Draws};
use crate::data::keys::{Form, Keys};
use crate::data::rng::Rng;
use crate::data::values::{Marking, Source};
use crate::words::{length, told};

const SSD: &str = "nvme-tlc";
const KEYS: Keys = Keys { form: Form::Number, size: 16 };
const VALUE: usize = 1000;
const RUNS: u32 = 3;
/// Bytes of keys and values, and quickly.
const SIZE: u64 = 128 << 20;
const QUICK: u64 = 2 << 20;
/// Gets that are measured, and quickly.
const GETS: u64 = 40_000;
const QUICK_GETS: u64 = 500;
/// Throughput is the median of so many slices: others on the machine disturb a few.
const SLICES: u64 = 100;
/// Gets before that for each block that the cache has room for, and a few more.
const WARM: f64 = 8.0;
const WARM_MORE: u64 = 5000;
const BLOCK: u64 = 4096;
/// What a block takes in the cache beside its bytes of the file, about.
const BLOCK_MORE: f64 = 0.08;
/// Parts of the data that the cache has room for: with them the deck's least and most gain can be reached.
const SHARES: [f64; 2] = [0.083, 0.27];
const DRAWS: [Draw; 2] = [Draw::Uniform, Draw::Zipf];
const SETTINGS: [FastBlocks; 3] = [FastBlocks::Equal, FastBlocks::Low, FastBlocks::Bypass];
/// Percent of the predicted gain.
const BAR: f64 = 90.0;
/// Names of the keyspaces, that on persistent memory first.
const SPACES: [&str; 2] = ["memory", "ssd"];

const DECK: &str = "\
The deck (Intel, RocksDB on persistent memory): 10 to 60 percent on both random and skewed reads, without a word on how large its cache is.
With half of the data on each device, a cache for a share c of all and nothing to pay for persistent memory, uniform reads gain
(1-c)/(1-2c): 10 percent at 0.083, 59 at 0.27. `predicted` is the same from
the times that were measured. By the reads: each device's, at these times; the clock also tells what else the machine does.";

/// A filled store.
struct Halves<'p> {
    path: &'p Path,
    count: u64,
    /// Bytes of tables, and of what of them is held in the cache beside blocks.
    bytes: u64,
    held: u64,
}

/// What gets are made on.
#[derive(Clone)]
struct TwoDevices {
    ssd: String,
    memory: String,
}

/// Nanoseconds of a get: whose block is in DRAM, or is read from each device.
#[derive(Clone, Copy)]
struct GetTimes {
    cached: f64,
    read: [f64; 2],
}

/// What a run found.
#[derive(Clone, Copy)]
struct PriorityRun {
    rate: f64,
    /// Percent of look-ups that the cache had.
    hits: f64,
    /// Percent of it that blocks of persistent memory have.
    low: f64,
    /// Reads of persistent memory and of the SSD for each get.
    reads: [f64; 2],
}

pub(crate) fn run(request: &Request, out: &mut dyn Write) -> Result<(), String> {
    let size = request.size.unwrap_or(if request.quick { QUICK } else { SIZE });
    let runs = request.runs.unwrap_or(if request.quick { 1 } else { RUNS });
    let gets = if request.quick { QUICK_GETS } else { GETS };
    let host = host_read(request)?;
    say(
        out,
        &format!(
            "Thousand gets a second, one thread, {} of keys and values (1000 B), half of it on each device, blocks of {BLOCK} bytes, not\n\
             compressed; medians of {runs} alternating runs. c: the part of the data that the block cache has room for, beside indexes and\n\
             filters; single records are not cached. Emulated: {SSD}, and files in persistent memory, with the part of their bandwidth that our cores have. The host reads a\n\
             block of a file in {:.2} us.\n",
            length(size),
            host / 1e3
        ),
    )?;
    let scratch = request.memory(6 * size)?;
    let halves = Halves::fill(scratch.path(), size)?;
    for model in [DELTA, RATIO] {
        let devices = TwoDevices { ssd: our_part(SSD)?, memory: pm_files(model, host)? };
        let times = halves.times(&devices, gets)?;
        say(
            out,
            &format!(
                "{model}: a get takes {:.1} us from DRAM, {:.1} from persistent memory, {:.1} from the SSD",
                times.cached / 1e3,
                times.read[0] / 1e3,
                times.read[1] / 1e3
            ),
        )?;
        for draw in DRAWS {
            for share in SHARES {
                let found: [Vec<PriorityRun>; 3] = in_turns(runs, |at| {
                    halves.measured(&devices, SETTINGS[at], share, draw, gets)
                })?;
                say(out, &row(draw, share, found.map(middle), times))?;
            }
        }
    }
    say(out, &format!("\n{DECK}\nOur bar: {BAR:.0} % of the predicted gain."))
}

fn middle(runs: Vec<PriorityRun>) -> PriorityRun {
    let of = |get: fn(&PriorityRun) -> f64| median(runs.iter().map(get).collect());
    PriorityRun {
        rate: of(|run| run.rate),
        hits: of(|run| run.hits),
        low: of(|run| run.low),
        reads: [of(|run| run.reads[0]), of(|run| run.reads[1])],
    }
}

fn row(draw: Draw, share: f64, [equal, low, bypass]: [PriorityRun; 3], times: GetTimes) -> String {
    let gain = |it: PriorityRun| it.rate / equal.rate;
    let cell = |it: PriorityRun| format!("{:>6.1} ({:.2}x)", it.rate / 1e3, gain(it));
    let predicted = match draw {
        Draw::Uniform => {
            let predicted = times.predicted(share);
            let reached = |gain: f64| 100.0 * (gain - 1.0) / (predicted - 1.0);
            let by_reads = reached(times.of(equal) / times.of(low));
            let is_met = if by_reads >= BAR { "reached" } else { "not reached" };
            format!(
                "; predicted {predicted:.2}, (1-c)/(1-2c) {:.2}: {by_reads:.0} % of the gain by the reads, {is_met}; {:.0} % by the clock",
                (1.0 - share) / (1.0 - 2.0 * share),
                reached(gain(low))
            )
        }
        _ => String::new(),
    };
    format!(
        "  {:<8} c {share:<5}  equal {:>6.1} ({:.0} % hits)  low {} ({:.0} % hits, {:.1} % of the cache)  bypass {} ({:.0} % hits){predicted}",
        draw.name(),
        equal.rate / 1e3,
        equal.hits,
        cell(low),
        low.hits,
        low.low,
        cell(bypass),
        bypass.hits
    )
}

impl GetTimes {
    /// Nanoseconds of a get with so many reads of each device, whatever else the machine did meanwhile.
    fn of(self, it: PriorityRun) -> f64 {
        let each = it.reads.iter().zip(self.read).map(|(reads, read)| reads * (read - self.cached));
        self.cached + each.sum::<f64>()
    }

    /// How many times as quick gets are where the SSD has all of a cache for this share of all, instead of half.
    fn predicted(self, share: f64) -> f64 {
        let GetTimes { cached, read: [memory, ssd] } = self;
        let alike = share * cached + (1.0 - share) * (memory + ssd) / 2.0;
        let first = (memory + 2.0 * share * cached + (1.0 - 2.0 * share) * ssd) / 2.0;
        alike / first
    }
}

/// Reads of files in persistent memory, and of the SSD.
fn reads_of(db: &Db) -> [u64; 2] {
    let told = db.properties();
    let tiers = told.ssd.iter().flat_map(|ssd| &ssd.tiers);
    let memory = tiers.filter_map(|tier| Some(tier.device.as_ref()?.reads)).sum();
    [memory, told.ssd_device.reads]
}

fn cache_of(db: &Db) -> CacheFigures {
    db.properties().ssd.map(|ssd| ssd.cache).unwrap_or_default()
}

impl<'p> Halves<'p> {
    /// Fills a store below `path`, each half in its tier.
    fn fill(path: &'p Path, size: u64) -> Result<Halves<'p>, String> {
        let count = (size / (KEYS.size + VALUE) as u64).max(2) / 2 * 2;
        let mut halves = Halves { path, count, bytes: 0, held: 0 };
        let cache = size + (16 << 20);
        let db = halves.open(None, FastBlocks::Equal, cache)?;
        let dirs = [path.join("memory"), path.join("db/sst")];
        let spaces = SPACES.iter().zip(&dirs).map(|(name, dir)| {
            let options = KeyspaceOptions::new().tiers(KeyspaceTiers::Dirs(vec![dir.clone()]));
            db.create_keyspace_with(name, options).map_err(told)
        });
        let spaces = spaces.collect::<Result<Vec<Keyspace>, String>>()?;
        let source = Source::new(VALUE);
        let (mut values, mut key) = (source.values(0, Marking::Plain), Vec::new());
        for number in 0..count {
            KEYS.write(number, &mut key);
            spaces[(number % 2) as usize].put(&key, values.next(number)).map_err(told)?;
            if number % 1024 == 0 {
                rest(&db)?;
            }
        }
        db.compact().map_err(told)?;
        rest(&db)?;
        let ssd = db.properties().ssd.ok_or("the store has no tables")?;
        let parts: Vec<u64> = ssd.tiers.iter().map(|tier| tier.bytes).collect();
        halves.bytes = parts.iter().sum();
        if parts.len() != 2 || parts[0].abs_diff(parts[1]) > halves.bytes / 50 {
            return Err(format!(
                "tables of {parts:?} bytes lie in the tiers; half should be in each"
            ));
        }
        // Twice, as what is read once has no shelf.
        for number in (0..count).chain(0..count) {
            get(&spaces, number, &mut key, &mut Vec::new())?;
        }
        halves.held = cache_of(&db).held;
        db.close().map_err(told)?;
        Ok(halves)
    }

    fn open(
        &self,
        devices: Option<&TwoDevices>,
        fast: FastBlocks,
        cache: u64,
    ) -> Result<Db, String> {
        let size = self.count * (KEYS.size + VALUE) as u64;
        let mut options: Options =
            rocksdb_form((size / 64).max(64 << 10), cache).background_threads(0).fast_blocks(fast);
        // The deck's cache has blocks; what is foretold is of these.
        options.cache_records = false;
        let mut tier = TierSpec::new(self.path.join("memory"), 0);
        if let Some(TwoDevices { ssd, memory }) = devices {
            options.set("ssd_model", ssd).map_err(told)?;
            tier = tier.model(memory.parse().map_err(told)?);
        }
        options.tiers = TierSource::Dirs(vec![tier]);
        Db::open(self.path.join("db"), options).map_err(told)
    }

    fn spaces(db: &Db) -> Result<Vec<Keyspace>, String> {
        SPACES.iter().map(|name| db.keyspace(name).map_err(told)).collect()
    }

    /// Blocks that a cache for this share of the data has room for.
    fn blocks(&self, share: f64) -> f64 {
        share * (self.bytes / BLOCK) as f64
    }

    fn measured(
        &self,
        devices: &TwoDevices,
        fast: FastBlocks,
        share: f64,
        draw: Draw,
        gets: u64,
    ) -> Result<PriorityRun, String> {
        let cache = self.held as f64 + share * self.bytes as f64 * (1.0 + BLOCK_MORE);
        let db = self.open(Some(devices), fast, cache as u64)?;
        let spaces = Halves::spaces(&db)?;
        let mut draws = Draws::new(draw, self.count, Rng::new(1));
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let warm =
            if gets == QUICK_GETS { gets } else { (WARM * self.blocks(share)) as u64 + WARM_MORE };
        for _ in 0..warm {
            get(&spaces, draws.draw(), &mut key, &mut value)?;
        }
        let (before, reads) = (cache_of(&db), reads_of(&db));
        let mut rates = Vec::new();
        for _ in 0..SLICES {
            let began = Instant::now();
            for _ in 0..gets / SLICES {
                get(&spaces, draws.draw(), &mut key, &mut value)?;
            }
            rates.push((gets / SLICES) as f64 / began.elapsed().as_secs_f64().max(1e-9));
        }
        let after = cache_of(&db);
        let until = reads_of(&db);
        let reads = [0, 1].map(|at| (until[at] - reads[at]) as f64 / gets as f64);
        db.close().map_err(told)?;
        let [hits, misses] = [after.hits - before.hits, after.misses - before.misses];
        Ok(PriorityRun {
            rate: median(rates),
            hits: 100.0 * hits as f64 / (hits + misses).max(1) as f64,
            low: 100.0 * after.low as f64 / after.budget.max(1) as f64,
            reads,
        })
    }

    /// What gets take, in turns as they come, with room for little else than indexes and filters.
    fn times(&self, devices: &TwoDevices, gets: u64) -> Result<GetTimes, String> {
        let db = self.open(Some(devices), FastBlocks::Equal, 2 * self.held + 64 * BLOCK)?;
        let spaces = Halves::spaces(&db)?;
        let (mut key, mut value, mut rng) = (Vec::new(), Vec::new(), Rng::new(1));
        let mut read = [Vec::new(), Vec::new()];
        let mut cached = Vec::new();
        for _ in 0..gets {
            let number = rng.below(self.count);
            let began = Instant::now();
            get(&spaces, number, &mut key, &mut value)?;
            read[(number % 2) as usize].push(began.elapsed().as_nanos() as f64);
            // This one is asked for so often that it stays.
            let began = Instant::now();
            get(&spaces, number % 2, &mut key, &mut value)?;
            cached.push(began.elapsed().as_nanos() as f64);
        }
        db.close().map_err(told)?;
        Ok(GetTimes { cached: median(cached), read: read.map(median) })
    }
}

/// Gets a key of its half.
fn get(
    spaces: &[Keyspace],
    number: u64,
    key: &mut Vec<u8>,
    value: &mut Vec<u8>,
) -> Result<(), String> {
    KEYS.write(number, key);
    value.clear();
    let is_found = spaces[(number % 2) as usize].get_into(&*key, value).map_err(told)?;
    if is_found && value.len() == VALUE {
        return Ok(());
    }
    Err(format!("key {number} is lost"))
}
