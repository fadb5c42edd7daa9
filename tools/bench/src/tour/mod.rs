//! The tour: a store from empty to killed and recovered, and one that outgrows memory, in a table that needs no prior
//! knowledge.

mod outgrow;
mod table;

use std::time::Duration;

use strandline::{Durability, PmSource};

use crate::bench::Bench;
use crate::child::writer::{Kills, Rounds};
use crate::config::{Config, Latency};
use crate::data::rng::Rng;
use crate::report::outcome::Outcome;
use crate::report::{self, say};
use crate::words::thousands;
use crate::work::done::Done;
use crate::work::{self, machine};

/// Seconds of each of the workloads after the fill.
const SECONDS: f64 = 1.5;
const KILLS: u64 = 5;
/// Longest that a child writes before it is killed.
const LIFE_MAX_MS: u64 = 900;

/// A station of the tour.
struct Station {
    benchmark: &'static str,
    title: &'static str,
    /// What it is about.
    about: &'static str,
}

const fn station(benchmark: &'static str, title: &'static str, about: &'static str) -> Station {
    Station { benchmark, title, about }
}

const STATIONS: &[Station] = &[
    station("filluniquerandom", "put new", "Each key once, in random order."),
    station("overwrite", "put again", "New values of random keys; old space is taken back."),
    station("readrandom", "get", "Random keys; each value is compared with what was put."),
    station("readmissing", "get missing", "Keys that are not there."),
    station("readwhilewriting", "get beside put", "The same gets while another thread puts."),
    station("readseq", "scan", "The whole store in key order, entry by entry."),
    station(
        "seekrandom",
        "seek + 10",
        "To a random key, then ten neighbours; an operation is all of that.",
    ),
];

/// Runs the tour. Everything is in a folder of its own, unless `--db` names one, and gone at the end.
pub(crate) fn run(mut config: Config) -> Result<(), String> {
    let given = |name: &str| config.given.iter().any(|(flag, _)| flag == name);
    if !given("seek_nexts") {
        config.seek_nexts = 10;
    }
    if !given("duration") {
        config.duration = Some(SECONDS);
    }
    config.verify = true;
    // A pause hides from samples.
    config.latency = Some(config.latency.unwrap_or(Latency::Every));
    config.timeline = true;
    let mut bench = Bench::new(config)?;
    let open = bench.store.db()?;
    let (properties, pages, survives) =
        (open.properties(), open.pages(), survives(open.durability()));
    drop(open);
    say_unless_json(&bench, &table::head(&bench, &properties, pages))?;
    let mut outcomes = Vec::new();
    for station in STATIONS {
        let outcome = visit(&mut bench, station, survives)?;
        outcomes.push(outcome);
    }
    recover(&mut bench)?;
    kill(&mut bench)?;
    outgrow::run(&bench.config)?;
    limit(&bench, outcomes.first())
}

fn say_unless_json(bench: &Bench, text: &str) -> Result<(), String> {
    if bench.config.json { Ok(()) } else { say(text) }
}

/// What a put survives, in a word or two.
fn survives(durability: Durability) -> &'static str {
    match durability {
        Durability::None => "nothing",
        Durability::ProcessCrash => "kill -9",
        Durability::Synced | Durability::PowerFailAdr | Durability::PowerFailEadr => {
            "power failure"
        }
        _ => "see above",
    }
}

fn visit(bench: &mut Bench, station: &Station, survives: &str) -> Result<Outcome, String> {
    let Station { benchmark, title, about } = *station;
    let benchmark = work::find(benchmark).ok_or("a station without a benchmark")?;
    let outcome = match (benchmark.run)(bench).map_err(|error| format!("{title}: {error}"))? {
        Done::Measured(outcome) => *outcome,
        Done::Rows(_) | Done::Told | Done::Skipped(_) => {
            return Err(format!("{title}: no figures"));
        }
    };
    if bench.config.json {
        report::tell(&bench.config, &outcome)?;
    } else {
        let puts = outcome.user_bytes_written > 0;
        let survives = if puts { format!(" A put survives {survives}.") } else { String::new() };
        say(&table::row(title, &outcome, &format!("{about}{survives}")))?;
    }
    Ok(outcome)
}

/// Closes and opens the store as it stands.
fn recover(bench: &mut Bench) -> Result<(), String> {
    let benchmark = work::find("recover").ok_or("no benchmark recover")?;
    let outcome = match (benchmark.run)(bench)? {
        Done::Measured(outcome) => *outcome,
        Done::Rows(_) | Done::Told => return Ok(()),
        Done::Skipped(why) => {
            return say_unless_json(bench, &table::note("open again", "skipped", why));
        }
    };
    if bench.config.json {
        return report::tell(&bench.config, &outcome);
    }
    let records = outcome.extra.get("records").and_then(serde_json::Value::as_u64).unwrap_or(0);
    let figure = format!("{:.1} ms", outcome.seconds * 1e3);
    let about = format!(
        "Closed and opened: {} records were in no index and are found again.",
        thousands(records)
    );
    say(&table::note("open again", &figure, &about))
}

/// Kills a writing child a few times, and looks for everything that it was told.
fn kill(bench: &mut Bench) -> Result<(), String> {
    if bench.config.engine.pm == PmSource::Heap {
        return say_unless_json(
            bench,
            &table::note("kill -9", "skipped", "A store on the heap dies with its process."),
        );
    }
    bench.store.close();
    // So small that kills meet flushing and merging as well.
    let options = bench.store.options_mut();
    options.memtable_bytes = options.memtable_bytes.min(4 << 20);
    bench.store.fresh()?;
    let mut rounds = Rounds::new(&bench.config);
    let mut dice = Rng::new(u64::from(std::process::id()) ^ bench.config.seed);
    let life = (bench.config.duration.unwrap_or(SECONDS) * 300.0) as u64;
    for _ in 0..KILLS {
        let time = Duration::from_millis(50 + dice.below(life.clamp(1, LIFE_MAX_MS)));
        rounds.round(bench, time).map_err(|error| format!("kill -9: {error}"))?;
    }
    tell_kills(bench, &rounds.kills)
}

fn tell_kills(bench: &mut Bench, kills: &Kills) -> Result<(), String> {
    if bench.config.json {
        let mut outcome =
            Outcome { name: "kill".into(), ops: kills.acknowledged, ..Outcome::default() };
        outcome.note("kills", kills.kills);
        outcome.note("acknowledged", kills.acknowledged);
        outcome.note("lost", 0);
        outcome.note("torn", 0);
        outcome.note("unacknowledged_whole", kills.unacknowledged);
        outcome.note("longest_open_s", kills.reopened.as_secs_f64());
        let db = bench.store.db()?;
        bench.describe(&db, &mut outcome);
        return report::tell(&bench.config, &outcome);
    }
    let figure = format!("{} kills", kills.kills);
    let about = format!(
        "A writing process was killed at random moments; opened again in at most {:.1} ms:\n  \
         {:<15} of {} batches acknowledged, 0 were lost and 0 torn.",
        kills.reopened.as_secs_f64() * 1e3,
        "",
        thousands(kills.acknowledged),
    );
    say(&table::note("kill -9", &figure, &about))
}

/// What the machine allows, beside what the store made of it.
fn limit(bench: &Bench, fill: Option<&Outcome>) -> Result<(), String> {
    let limit = machine::persist_limit(&bench.store)?;
    let [small, large] = limit.ns;
    if bench.config.json {
        let mut outcome = Outcome {
            name: "persistlimit".into(),
            durability: limit.durability,
            ..Outcome::default()
        };
        outcome.note("persist_128_ns", small);
        outcome.note("persist_1024_ns", large);
        return report::tell(&bench.config, &outcome);
    }
    let share = fill.map_or(0.0, |fill| fill.ops_per_second() * small / 1e9 * 100.0);
    let about = format!(
        "To persist 128 bytes with no store around them ({large:.0} ns for 1 KiB):\n  \
         {:<15} {} a second at most; `put new` reached {share:.0} % of that, index included.",
        "",
        thousands((1e9 / small) as u64),
    );
    say(&table::note("machine's limit", &format!("{small:.0} ns"), &about))
}
