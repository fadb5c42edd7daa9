//! The child's side: opens the stores, compares what was left, writes and reads on several threads, closes, and begins again, until it is
//! killed.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use base::planted::{self, Bug};
use strandline::ErrorKind;
use testkit::Rng;

use super::failure::HitFailure;
use super::lane::HitLane;
use super::ledger::HitLedger;
use super::reader::HitReader;
use super::shape::{CacheShape, CachedForm, KEYS, LANES};
use super::tally::{HitCount, HitCounts, HitSums};
use super::world::{HitWorld, seat_slot};
use crate::kill9::child::announce;
use crate::kill9::message::{Message, tell};

/// From one look at the figures to the next.
const TOLD_EVERY: Duration = Duration::from_millis(20);
/// Sizes of the block cache that an open store may be given.
const SIZES: [&str; 3] = ["512K", "2M", "16M"];

/// What the parent asks of a child.
#[derive(Clone, Debug)]
pub struct HitOrder {
    /// Where the stores are.
    pub dir: PathBuf,
    pub form: CachedForm,
    pub seed: u64,
    pub readers: usize,
    /// From an open to the close, in ms.
    pub session_ms: u64,
    pub bug: Option<Bug>,
}

impl HitOrder {
    /// As arguments of the hidden subcommand.
    pub fn to_args(&self) -> Vec<String> {
        let form = CachedForm::ALL.iter().position(|one| *one == self.form).unwrap_or(0);
        let bug = Bug::ALL.iter().position(|one| Some(*one) == self.bug).map_or(0, |at| at + 1);
        let numbers = [form as u64, self.seed, self.readers as u64, self.session_ms, bug as u64];
        let dir = self.dir.display().to_string();
        [dir].into_iter().chain(numbers.map(|number| number.to_string())).collect()
    }

    fn from_args(args: &[String]) -> Option<HitOrder> {
        let (dir, numbers) = args.split_first()?;
        let numbers: Vec<u64> =
            numbers.iter().map(|text| text.parse().ok()).collect::<Option<_>>()?;
        let [form, seed, readers, session_ms, bug] = numbers[..] else { return None };
        Some(HitOrder {
            dir: dir.into(),
            form: *CachedForm::ALL.get(usize::try_from(form).ok()?)?,
            seed,
            readers: usize::try_from(readers).ok()?,
            session_ms,
            bug: bug.checked_sub(1).and_then(|at| Bug::ALL.get(at as usize).copied()),
        })
    }

    pub fn ledger(dir: &Path) -> PathBuf {
        dir.join("ledger")
    }

    pub fn counts(dir: &Path) -> PathBuf {
        dir.join("counts")
    }

    /// Where a child tells a violation.
    pub fn violation(dir: &Path) -> PathBuf {
        dir.join("violation")
    }
}

/// Runs as a child; comes back only if something is wrong.
pub fn run(args: &[String]) -> Result<(), String> {
    let order = HitOrder::from_args(args).ok_or("hits-child is started by hits")?;
    // Threads of the engine, and those below, take it over.
    planted::plant(order.bug);
    let out = announce()?;
    let slots = seat_slot(order.form.seats(), order.form.seats());
    let ledger = HitLedger::open(&HitOrder::ledger(&order.dir), slots)?;
    let told = File::create(HitOrder::counts(&order.dir));
    let told = told.map_err(|error| format!("the counts: {error}"))?;
    let life = HitLife { order: &order, ledger: &ledger, told, out, sums: HitCounts::default() };
    let outcome = (0..).try_for_each(|session| life.session(session));
    outcome.map_err(|failure: HitFailure| {
        failure.leave(&HitOrder::violation(&order.dir));
        failure.to_string()
    })
}

/// Where counters stood when readers began.
#[derive(Clone, Copy)]
struct HitStart {
    hits: u64,
    answers: u64,
}

struct HitLife<'o> {
    order: &'o HitOrder,
    ledger: &'o HitLedger,
    told: File,
    out: File,
    sums: HitCounts,
}

impl HitLife<'_> {
    /// From an open to the close.
    fn session(&self, session: u64) -> Result<(), HitFailure> {
        let order = self.order;
        // Whatever an open may change is of the life: what is counted is then of one kind.
        let shape = CacheShape::new(order.form, order.seed);
        let world = HitWorld::open(shape, &order.dir, self.ledger, &self.sums)?;
        if world.settle()? < world.seats.len() * KEYS / 2 {
            world.fill()?;
        }
        if session == 0 {
            tell(&self.out, &[Message::Opened])?;
        }
        let mut rng = Rng::fork(order.seed, session);
        let over = Instant::now() + Duration::from_millis(1 + rng.below(2 * order.session_ms));
        let answers = self.sums.get(HitCount::Answers);
        let start = HitStart { hits: world.figures().hits(), answers };
        let figures = || self.figures(&world, start);
        self.work(&world, &mut rng, over, figures)?;
        let figures = figures();
        HitCount::ALL.iter().for_each(|of| self.sums.add(*of, figures.get(*of)));
        world.close()?;
        self.sums.add(HitCount::Reopens, 1);
        Ok(self.sums.tell(&self.told, &HitSums::default())?)
    }

    /// Figures of this session, with the hits since `start` that count: as many as answers were compared meanwhile, at most. How many of
    /// these answers came from a cache no counter tells.
    fn figures(&self, world: &HitWorld<'_>, start: HitStart) -> HitSums {
        let mut figures = world.figures();
        let answers = self.sums.get(HitCount::Answers) - start.answers;
        figures.set(HitCount::Hits, figures.hits().saturating_sub(start.hits).min(answers));
        figures
    }

    /// Writes, reads and keeps up until it is over, or something is wrong.
    fn work(
        &self,
        world: &HitWorld<'_>,
        rng: &mut Rng,
        over: Instant,
        figures: impl Fn() -> HitSums,
    ) -> Result<(), HitFailure> {
        let wrong: Mutex<Option<HitFailure>> = Mutex::new(None);
        let ended = |outcome: Result<(), HitFailure>| {
            if let Err(failure) = outcome {
                wrong.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
                world.stop.store(true, SeqCst);
            }
        };
        let heritage = planted::heritage();
        std::thread::scope(|scope| {
            for number in 0..LANES {
                let lane = HitLane::new(world, number, rng.next());
                let ended = &ended;
                scope.spawn(move || {
                    heritage.accept();
                    ended(lane.run());
                });
            }
            for _ in 0..self.order.readers {
                let reader = HitReader::new(world, rng.next());
                let ended = &ended;
                scope.spawn(move || {
                    heritage.accept();
                    ended(reader.run());
                });
            }
            let (seed, ended) = (rng.next(), &ended);
            scope.spawn(move || {
                heritage.accept();
                ended(upkeep(world, Rng::new(seed)));
            });
            while !world.is_over() && Instant::now() < over {
                std::thread::sleep(TOLD_EVERY);
                // The parent may be gone.
                ended(tell(&self.out, &[Message::Opened]).map_err(HitFailure::from));
                ended(self.sums.tell(&self.told, &figures()).map_err(HitFailure::from));
            }
            world.stop.store(true, SeqCst);
        });
        let wrong = wrong.into_inner().unwrap_or_else(PoisonError::into_inner);
        wrong.map_or(Ok(()), Err)
    }
}

/// Compacts, flushes, and changes options, so that what is cached is replaced all the time.
fn upkeep(world: &HitWorld<'_>, mut rng: Rng) -> Result<(), HitFailure> {
    while !world.is_over() {
        std::thread::sleep(Duration::from_millis(1 + rng.below(world.shape.upkeep_ms)));
        let seat = rng.pick(&world.seats);
        let db = &world.dbs[seat.store];
        let done = match rng.weighted(&[5, 2, 2, 3]) {
            0 => db.compact(),
            1 => db.flush(),
            2 => {
                let from = rng.index(KEYS);
                let to = from + rng.index(KEYS - from + 1);
                let generation = seat.generation.load(SeqCst);
                let space = seat.handle();
                let done = db.compact_range(&space, Some(&world.keys[from]), Some(&world.keys[to]));
                let is_same = seat.generation.load(SeqCst) == generation;
                if is_same && generation.is_multiple_of(2) { done } else { Ok(()) }
            }
            _ if world.shape.restless => change_option(world, seat.store, &mut rng),
            _ => Ok(()),
        };
        done.map_err(|error| HitFailure::from(error).met_by("upkeep"))?;
    }
    Ok(())
}

fn change_option(world: &HitWorld<'_>, store: usize, rng: &mut Rng) -> strandline::Result<()> {
    let policies = ["dram-first", "pm-first", "both-ways", "auto"];
    let size = world.shape.cache.bytes().to_string();
    let (name, text) = match rng.below(6) {
        0 => ("block_cache", *rng.pick(&SIZES)),
        1 => ("block_cache", &size[..]),
        2 => ("cache_records", *rng.pick(&["true", "false"])),
        3 => ("pm_cache_policy", *rng.pick(&policies)),
        4 => ("cache_outputs", *rng.pick(&["off", "warm"])),
        _ => ("value_files_min", *rng.pick(&["0", "500", "900"])),
    };
    match world.dbs[store].set_option(name, text) {
        // A cache that has a Runtime, or a file, keeps its size, and what tables hold stays.
        Err(error) if name == "block_cache" && error.kind() == ErrorKind::InvalidArgument => Ok(()),
        done => {
            done?;
            world.counts.add(HitCount::Options, 1);
            Ok(())
        }
    }
}
