//! Data that outgrows memory: a pool and a block cache small against the records, which go to tables on SSD.

use std::ops::RangeInclusive;

use strandline::{PmSource, SsdSource};

use super::{Station, say_unless_json, survives, table, visit};
use crate::bench::Bench;
use crate::config::Config;
use crate::report::say;
use crate::scratch::Scratch;
use crate::words::length;

/// Bytes of the pool: as much as half of what the tour has put before, within these.
const POOL: RangeInclusive<u64> = 16 << 20..=64 << 20;
/// Bytes of keys and values for each byte of the pool.
const TIMES: u64 = 3;

const STATIONS: &[Station] = &[
    super::station("filluniquerandom", "put new", "Each key once; tables are merged meanwhile."),
    super::station(
        "readrandom",
        "get",
        "Random keys, most of them in tables; each value is compared.",
    ),
    super::station("overwrite", "put again", "New values of random keys."),
];

/// Fills, reads and overwrites a store of its own.
pub(super) fn run(tour: &Config) -> Result<(), String> {
    // Tables in memory would show nothing.
    let disk = match Scratch::within(&[std::env::temp_dir()], 3 * TIMES * POOL.end()) {
        Ok(disk) => disk,
        Err(why) => return skip(tour, &why),
    };
    let mut bench =
        Bench::new(config(tour, &disk)).map_err(|error| format!("outgrown memory: {error}"))?;
    let db = bench.store.db()?;
    let (survives, properties) = (survives(db.durability()), db.properties());
    let Some(ssd) = &properties.ssd else {
        return skip(tour, "this store has no tables on SSD");
    };
    let title = format!(
        "\n  Data larger than memory: {} of records, a pool of {}, a block cache of {};\n  tables on SSD ({}{}).\n\n{}",
        length(bench.config.raw_bytes()),
        length(properties.pm_capacity),
        length(ssd.cache.budget),
        ssd.fs,
        if bench.config.engine.ssd_direct {
            ", past the page cache"
        } else {
            ", through the page cache"
        },
        table::heads()
    );
    say_unless_json(&bench, &title)?;
    for station in STATIONS {
        visit(&mut bench, station, survives)?;
    }
    let properties = db.properties();
    let Some(ssd) = properties.ssd.filter(|_| !bench.config.json) else { return Ok(()) };
    let (written, user) = (ssd.compactions.written_bytes, bench.store.user_bytes());
    let about = format!(
        "In tables at the end; {:.1} bytes were written to SSD for each byte of a put.\n",
        written as f64 / user.max(1) as f64
    );
    say(&table::note("on SSD", &length(ssd.bytes), &about))
}

fn skip(tour: &Config, why: &str) -> Result<(), String> {
    match tour.json {
        true => Ok(()),
        false => say(&table::note("outgrown memory", "skipped", why)),
    }
}

/// The tour's flags, with memory small against the records.
fn config(tour: &Config, disk: &Scratch) -> Config {
    let mut config = tour.clone();
    config.db = None;
    config.pm_size_given = true;
    let engine = &mut config.engine;
    if matches!(engine.pm, PmSource::Path(_)) {
        // The pool of the store before is there.
        engine.pm = PmSource::Auto;
    }
    if engine.ssd == SsdSource::Auto && engine.pm != PmSource::Heap {
        engine.ssd = SsdSource::Path(disk.path().join("sst"));
    }
    let pool = (tour.raw_bytes() / 2).clamp(*POOL.start(), *POOL.end()).next_multiple_of(4 << 20);
    engine.pm_size = pool;
    engine.memtable_bytes = pool / 16;
    engine.dram_budget = pool / 2;
    engine.block_cache = pool / 8;
    engine.ssd_direct = true;
    let record = config.keys().mean_len(tour.num) + config.value_size as f64;
    config.num = ((TIMES * pool) as f64 / record.max(1.0)) as u64;
    config
}
