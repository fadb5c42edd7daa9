//! `cargo xtask storm`: keyspaces, ranges, snapshots and iterators are dropped, on several threads, while a store of each
//! preset writes, flushes and compacts. Between the rounds it comes to rest, and each piece of its space must have one owner;
//! at the end all of it must be free again.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use strandline::{Db, Options, PRESETS, ReadOptions};
use testkit::Rng;

use super::guest::{self, End, Guest};
use super::hooks::{Fuse, hooks};
use super::told::Told;
use crate::kill9::message::Count;
use crate::kill9::scratch::Scratch;

const USAGE: &str = "usage: cargo xtask storm [--minutes N] [--preset NAME] [--seed N] [--dir PATH]
  --minutes N     for each preset, 10 if not given
  --preset NAME   only this one
  --seed N        what is written; threads take turns as they do
  --dir PATH      where to make the stores; /dev/shm if not given";

const MIB: u64 = 1 << 20;
const KIB: u64 = 1 << 10;
/// Threads with guests, one after the other.
const GUESTS: u64 = 3;
/// From one look at the owners to the next.
const ROUND: Duration = Duration::from_secs(2);
/// For how long a store without writers may go on working.
const REST_WITHIN: Duration = Duration::from_secs(20);
/// Keys of the default keyspace.
const KEYS: u64 = 4_000;

struct StormArgs {
    minutes: u64,
    preset: Option<String>,
    seed: u64,
    dir: String,
}

fn parse(args: &[String]) -> Result<StormArgs, String> {
    let mut parsed = StormArgs { minutes: 10, preset: None, seed: 1, dir: "/dev/shm".into() };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let text = args.next().ok_or(USAGE)?;
        let number = || text.parse().map_err(|_| format!("{arg} {text}: not a number\n{USAGE}"));
        match arg.as_str() {
            "--minutes" => parsed.minutes = number()?,
            "--preset" => parsed.preset = Some(text.clone()),
            "--seed" => parsed.seed = number()?,
            "--dir" => parsed.dir.clone_from(text),
            _ => return Err(USAGE.into()),
        }
    }
    Ok(parsed)
}

pub fn run(args: &[String]) -> Result<(), String> {
    let args = parse(args)?;
    let scratch = Scratch::new(Path::new(&args.dir))?;
    println!(
        "{:<12} {:>8} {:>7} {:>10} {:>10} {:>10} {:>8} {:>8}",
        "preset", "seconds", "checks", "keyspaces", "ranges", "iterators", "looks", "ingests"
    );
    let names = PRESETS.iter().map(|preset| preset.name);
    let asked = names.filter(|name| args.preset.as_ref().is_none_or(|only| only == name));
    let mut ran = 0;
    for name in asked {
        let begun = Instant::now();
        let end = begun + Duration::from_secs(60 * args.minutes);
        let dir = scratch.path().join(name);
        let mut storm = Storm::new(name, &dir, args.seed)?;
        storm.run(end).map_err(|text| format!("{name}, seed {}: {text}", args.seed))?;
        let (seconds, told) = (begun.elapsed().as_secs(), &storm.told);
        let (checks, iterators) = (storm.checks, storm.iterators.load(Relaxed));
        let (dropped, ranges) = (told.count(Count::Dropped), told.count(Count::RangesDeleted));
        let looks = told.count(Count::SnapshotsCompared);
        let ingests = told.count(Count::Ingested);
        println!(
            "{name:<12} {seconds:>8} {checks:>7} {dropped:>10} {ranges:>10} {iterators:>10} {looks:>8} {ingests:>8}"
        );
        ran += 1;
    }
    if ran == 0 { Err("there is no such preset".into()) } else { Ok(()) }
}

struct Storm<'s> {
    preset: &'s str,
    dir: &'s Path,
    seed: u64,
    told: Told,
    /// Iterators that were dropped in the middle.
    iterators: AtomicU64,
    checks: u64,
}

impl<'s> Storm<'s> {
    fn new(preset: &'s str, dir: &'s Path, seed: u64) -> Result<Storm<'s>, String> {
        std::fs::create_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        let (told, iterators) = (Told::new(None), AtomicU64::new(0));
        Ok(Storm { preset, dir, seed, told, iterators, checks: 0 })
    }

    /// Small parts, so that everything happens often.
    fn open(&self, name: &str) -> strandline::Result<Db> {
        let options = Options::preset(self.preset)?
            .pm_size(128 * MIB)
            .zone_size(64 * KIB)
            .memtable_bytes(512 * KIB)
            .table_bytes(128 * KIB)
            .block_cache(4 * MIB)
            .background_threads(2);
        Db::open_with(self.dir.join(name), options, hooks(&Fuse::new(0)))
    }

    fn run(&mut self, end: Instant) -> Result<(), String> {
        let failed = |error: strandline::Error| error.to_string();
        let new = self.open("new").map_err(failed)?.properties().pm_free;
        let db = self.open("store").map_err(failed)?;
        while Instant::now() < end {
            let over = Instant::now() + ROUND;
            self.seed += 1;
            self.round(&db, over)?;
            self.check(&db)?;
        }
        // All goes, and what it took comes back.
        db.delete_range(b"", b"\xff").map_err(failed)?;
        db.compact().map_err(failed)?;
        self.check(&db)?;
        drop(db);
        let properties = self.open("store").map_err(failed)?.properties();
        let files = properties.ssd.map_or(0, |ssd| ssd.bytes);
        if properties.pm_free + properties.pm_capacity / 1000 < new || files > 0 {
            let free = properties.pm_free;
            return Err(format!(
                "of an emptied store {free} bytes are free, of a new one {new}; {files} bytes of tables are left"
            ));
        }
        Ok(())
    }

    fn round(&self, db: &Db, over: Instant) -> Result<(), String> {
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for number in 0..GUESTS {
                threads.push(scope.spawn(move || self.guests(db, number, over)));
            }
            threads.push(scope.spawn(|| self.write(db, over)));
            threads.push(scope.spawn(|| self.iterate(db, over)));
            let mut ended = threads.into_iter().map(|thread| thread.join());
            ended.try_for_each(|ended| ended.map_err(|_| "a thread panicked".to_string())?)
        })
    }

    fn rng(&self, of: u64) -> Rng {
        Rng::new(self.seed.wrapping_mul(31) + of)
    }

    /// Has one guest after the other: a keyspace that is written, compared and dropped with iterators and snapshots open.
    fn guests(&self, db: &Db, number: u64, over: Instant) -> Result<(), String> {
        let mut rng = self.rng(number);
        let name = format!("{}{number}", guest::PREFIX);
        while Instant::now() < over {
            let files = (self.preset != "log-free").then_some(self.dir);
            let ended = Guest::new(db, &name, files, rng.below(1 << 30), &self.told)
                .map_err(End::from)
                .and_then(Guest::live);
            match ended {
                Ok(()) => {}
                Err(End::Violation(text)) => return Err(text),
                Err(End::Refused) => return Err(format!("{name}: there was no space for it")),
            }
        }
        Ok(())
    }

    /// Writes the default keyspace, long values too, and deletes from it, keys and ranges.
    fn write(&self, db: &Db, over: Instant) -> Result<(), String> {
        let mut rng = self.rng(100);
        while Instant::now() < over {
            let key = |no: u64| format!("{no:08}").into_bytes();
            let from = rng.below(KEYS);
            let done = match rng.below(100) {
                0..70 => db.put(key(from), vec![7; rng.below(600) as usize]),
                70..73 => db.put(key(from), vec![7; 20_000]),
                73..98 => db.delete(key(from)),
                _ => {
                    let end = key(from + 1 + rng.below(KEYS / 8));
                    db.delete_range(key(from), &end).inspect(|()| self.told.range_deleted())
                }
            };
            done.map_err(|error| format!("the default keyspace: {error}"))?;
        }
        Ok(())
    }

    /// Drops iterators and snapshots in the middle of what they show, and compacts.
    fn iterate(&self, db: &Db, over: Instant) -> Result<(), String> {
        let mut rng = self.rng(200);
        let failed = |error: strandline::Error| error.to_string();
        while Instant::now() < over {
            let snapshot = db.snapshot();
            let options = ReadOptions::at(&snapshot);
            let mut iter = db.default_keyspace().cursor(&options).map_err(failed)?;
            let from = format!("{:08}", rng.below(KEYS));
            iter.seek(from.as_bytes()).map_err(failed)?;
            for _ in 0..rng.below(200) {
                iter.next().map_err(failed)?;
            }
            match rng.below(30) {
                0 => db.flush().map_err(failed)?,
                1 => db.compact().map_err(failed)?,
                _ => std::thread::sleep(Duration::from_millis(rng.below(4))),
            }
            drop(iter);
            self.iterators.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    /// Waits until the store has come to rest, and looks whose everything is.
    fn check(&mut self, db: &Db) -> Result<(), String> {
        let until = Instant::now() + REST_WITHIN;
        let report = loop {
            let report = db.check().map_err(|error| error.to_string())?;
            if report.space.whole {
                break report;
            }
            if Instant::now() > until {
                return Err(format!("the store does not come to rest within {REST_WITHIN:?}"));
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        self.checks += 1;
        let space = &report.space;
        if !(report.damage.is_empty() && space.leaked.is_empty() && space.doubled.is_empty()) {
            return Err(format!(
                "damaged: {:?}; leaked: {:?}; owned twice: {:?}",
                report.damage, space.leaked, space.doubled
            ));
        }
        Ok(())
    }
}
