//! `intel-fine-reads`: gets from tables in persistent memory, read where they lie, beside gets from the same tables as files on
//! tmpfs, through a block cache of a tenth of the data.
//!
//! The files are what a file system on persistent memory would have: no model slows their reads, so that what is gained on
//! modelled memory is told too low.

use std::io::Write;

use strandline::{Compression, Db, Level0Form, Options, PmSource};

use super::super::request::{Request, say};
use super::stores::rest;
use crate::clock::thread_cpu;
use crate::data::keys::{Form, Keys};
use crate::data::rng::Rng;
use crate::data::values::{Marking, Source};
use crate::scratch::Scratch;
use crate::words::told;

const VALUES: [usize; 4] = [64, 256, 1024, 4096];
const BLOCKS: [u32; 4] = [256, 512, 1024, 4096];
const MODELS: [&str; 3] = ["none", "optane-100x6-delta", "optane-100x6-ratio"];
const KEYS: Keys = Keys { form: Form::Number, size: 16 };
const RUNS: u32 = 3;
/// Bytes of keys and values, and quickly.
const SIZE: u64 = 128 << 20;
const QUICK: u64 = 2 << 20;
/// Gets of a run at most.
const GETS: u64 = 300_000;
/// The pool and the memtable, for each byte of keys and values: a store gives a memtable a sixteenth of such a pool, and one takes all.
const ROOM: u64 = 28;
const MEMTABLE: u64 = 2;
/// Blocks of files, and the part of the data that their cache takes.
const FILE_BLOCK: u32 = 4096;
const CACHED: u64 = 10;

const DECK: &str = "\
The deck (Intel, RocksDB on persistent memory): more than 2 times the throughput, less than a tenth of the DRAM, and less than
a 2.5th of the read bandwidth of persistent memory for fine reads. Our bar: 3 times for values up to 256 bytes, and no loss for
4 KiB.";

/// Where the tables are.
#[derive(Clone, Copy)]
enum Tables {
    Files,
    Placed { block: u32 },
}

/// What a run measured.
#[derive(Clone, Copy, Default)]
struct GetFigures {
    rate: f64,
    /// Bytes of DRAM for tables: cached, and held with them.
    dram: u64,
    /// Bytes that the tables' device read for a get: asked for, and moved by the media.
    read: Option<[f64; 2]>,
}

pub(crate) fn run(request: &Request, out: &mut dyn Write) -> Result<(), String> {
    let size = request.size.unwrap_or(if request.quick { QUICK } else { SIZE });
    let runs = request.runs.unwrap_or(if request.quick { 1 } else { RUNS });
    let values = &VALUES[..if request.quick { 2 } else { VALUES.len() }];
    say(
        out,
        &format!(
            "Gets a second of random keys of 16 bytes, one thread, {} MiB of keys and values in one level, not compressed; medians of\n\
             {runs} runs. Rates go by the thread's processor time, to which waits of models belong, as they spin.\n\
             Files: tables in {}, blocks of {FILE_BLOCK} bytes, a warm block cache of a tenth of the data; no model slows them. In place: the\n\
             same tables in persistent memory, by length of blocks. DRAM: the block cache, where indexes and filters count, in percent\n\
             of keys and values. Read for a get: bytes asked of the device, and those that its media moved.\n",
            size >> 20,
            request.pm_folder().display(),
        ),
    )?;
    for value in values {
        say(out, &format!("values of {value} bytes"))?;
        let files = measured(Tables::Files, *value, size, runs, request)?;
        let files = files.first().map(|(_, figures)| *figures).unwrap_or_default();
        say(out, &row("files", "none", &files, &files, size))?;
        for block in BLOCKS {
            for (model, placed) in measured(Tables::Placed { block }, *value, size, runs, request)?
            {
                say(out, &row(&format!("in place, {block}"), model, &placed, &files, size))?;
            }
        }
    }
    say(out, &format!("\n{DECK}"))
}

fn row(name: &str, model: &str, it: &GetFigures, files: &GetFigures, size: u64) -> String {
    let read = match it.read {
        Some([asked, media]) => format!("{asked:>6.0} {media:>6.0}"),
        None => format!("{:>6} {:>6}", "-", "-"),
    };
    format!(
        "  {name:<15} {model:<19} {:>9.0} ({:>5.2}x)  DRAM {:>5.1} % ({:>4.1}x less)  read {read}",
        it.rate,
        it.rate / files.rate,
        100.0 * it.dram as f64 / size as f64,
        files.dram as f64 / it.dram.max(1) as f64,
    )
}

/// Fills a store, and reads it as on each model.
fn measured(
    tables: Tables,
    value: usize,
    size: u64,
    runs: u32,
    request: &Request,
) -> Result<Vec<(&'static str, GetFigures)>, String> {
    let scratch = request.memory((ROOM + 4) * size)?;
    let count = (size / (KEYS.size + value) as u64).max(1);
    let options = options(&scratch, tables, size)?;
    fill(&scratch, &options, tables, value, count)?;
    let models = match tables {
        Tables::Files => &MODELS[..1],
        Tables::Placed { .. } => &MODELS[..],
    };
    let each = models.iter().map(|model| {
        let mut options = options.clone();
        options.set("pm_model", model).map_err(told)?;
        let db = Db::open(scratch.path().join("db"), options).map_err(told)?;
        let mut rng = Rng::new(1);
        gets(&db, tables, value, count, &mut rng)?;
        let mut all = Vec::new();
        for _ in 0..runs {
            all.push(gets(&db, tables, value, count, &mut rng)?);
        }
        all.sort_by(|a, b| a.rate.total_cmp(&b.rate));
        Ok((*model, all[all.len() / 2]))
    });
    each.collect()
}

fn options(scratch: &Scratch, tables: Tables, size: u64) -> Result<Options, String> {
    let mut options = Options::default()
        .pm(PmSource::Path(scratch.path().join("pool")))
        .pm_size((ROOM * size).max(64 << 20))
        .memtable_bytes(MEMTABLE * size)
        .immutable_memtables_max(1)
        .level0(Level0Form::Sst)
        .subranges(1)
        .compression(Compression::None)
        .value_files_min(0)
        .block_bytes(FILE_BLOCK)
        .cache_records(false)
        .dram_budget(2 << 30)
        .background_threads(0);
    match tables {
        Tables::Files => options = options.block_cache(size / CACHED),
        // All that it has to take are indexes and filters.
        Tables::Placed { block } => {
            options = options.pm_tables(75).block_cache(1 << 30);
            options.set("pm_block_bytes", &block.to_string()).map_err(told)?;
        }
    }
    Ok(options)
}

/// Fills a store with `count` keys. Others lie below them, so that they stay above the deepest level, which is on SSD.
fn fill(
    scratch: &Scratch,
    options: &Options,
    tables: Tables,
    value: usize,
    count: u64,
) -> Result<(), String> {
    let db = Db::open(scratch.path().join("db"), options.clone()).map_err(told)?;
    let source = Source::new(value);
    let mut values = source.values(0, Marking::Plain);
    let mut key = Vec::new();
    let mut put = |numbers: &mut dyn Iterator<Item = u64>| {
        for number in numbers {
            KEYS.write(number, &mut key);
            db.put(&key, values.next(number)).map_err(told)?;
        }
        db.flush().map_err(told)?;
        rest(&db)
    };
    put(&mut (0..count / 2 + 1).map(|number| 4 * number + 1))?;
    db.compact().map_err(told)?;
    put(&mut (0..count).map(|number| 2 * number))?;
    let levels = db.properties().keyspaces.swap_remove(0).levels;
    let placed: u64 = levels
        .iter()
        .flat_map(|level| &level.tables)
        .filter(|table| table.pm_at.is_some())
        .map(|table| table.entries)
        .sum();
    let expected = if matches!(tables, Tables::Files) { 0 } else { count };
    if placed != expected {
        let ssd = db.properties().ssd;
        let [taken, limit] = ssd.map_or([0; 2], |ssd| [ssd.pm_bytes, ssd.pm_limit]);
        return Err(format!(
            "{placed} of {expected} keys are in persistent memory; tables take {taken} of {limit} bytes there"
        ));
    }
    db.close().map_err(told)
}

/// Gets random keys.
fn gets(
    db: &Db,
    tables: Tables,
    value: usize,
    count: u64,
    rng: &mut Rng,
) -> Result<GetFigures, String> {
    let traffic = |db: &Db| {
        let properties = db.properties();
        match (tables, &properties.pm_model) {
            (Tables::Files, _) => Some([properties.ssd_device.read_bytes; 2]),
            (_, Some(model)) => Some([model.read_bytes, model.read_media_bytes]),
            _ => None,
        }
    };
    let (before, began) = (traffic(db), thread_cpu());
    let (space, mut key, mut found) = (db.default_keyspace(), Vec::new(), Vec::new());
    for _ in 0..GETS {
        let number = rng.below(count);
        KEYS.write(2 * number, &mut key);
        found.clear();
        if !space.get_into(&key, &mut found).map_err(told)? || found.len() != value {
            return Err(format!("key {number} is lost"));
        }
    }
    let rate = GETS as f64 / (thread_cpu() - began).max(1e-9);
    let read = before
        .zip(traffic(db))
        .map(|(before, after)| [0, 1].map(|at| (after[at] - before[at]) as f64 / GETS as f64));
    let dram = db.properties().ssd.map_or(0, |ssd| ssd.cache.charged);
    Ok(GetFigures { rate, dram, read })
}
