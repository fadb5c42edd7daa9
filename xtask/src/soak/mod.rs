//! `cargo xtask soak`: everything at once, for as long as asked. A process writes with random options on several
//! threads, among keyspaces that come and go, range deletions, files taken in, snapshots, checkpoints, compactions by hand,
//! application code that panics and a device that refuses calls. It is killed, again and again. What it leaves is
//! compared with what it was told, damaged, read, repaired, and emptied.
//!
//! ```text
//! lanes ──── the writers and the oracle of kill9
//! company ── guests, copies, compactions, panics, faults      child.rs, guest.rs
//!    │ kill
//! verify ─── the lanes by the oracle, guests by themselves    here
//! damage ─── a copy of what was found                         damage.rs
//! ```

pub mod child;
mod damage;
mod guest;
mod hooks;
pub mod storm;
mod tally;
mod told;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub use child::run as child;
use strandline::Db;
use testkit::Rng;

use crate::kill9::child::{Form, Order, Settings};
use crate::kill9::message::Message;
use crate::kill9::oracle::{Contents, Oracle};
use crate::kill9::plan::{KillPlan, SPACES};
use crate::kill9::running::{When, run_and_kill};
use crate::kill9::scratch::Scratch;
use crate::kill9::{copy, inspect};
use damage::Victim;
use hooks::{Fuse, hooks};
use tally::SoakTally;

/// The subcommand of a child.
pub const CHILD: &str = "soak-child";

const USAGE: &str = "usage: cargo xtask soak [--minutes N] [--seed N] [--dir PATH]
  --minutes N   how long, 10 if not given
  --seed N      what is written, and with which options; the moments of the kills are real time
  --dir PATH    where to make the stores; /dev/shm if not given";

/// Cycles between two times that everything is deleted.
const EMPTY_EVERY: u64 = 15;
/// Writer threads.
const LANES: usize = 2;

struct SoakArgs {
    minutes: u64,
    seed: u64,
    dir: PathBuf,
}

fn parse(args: &[String]) -> Result<SoakArgs, String> {
    let mut parsed = SoakArgs { minutes: 10, seed: 1, dir: "/dev/shm".into() };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let text = args.next().ok_or(USAGE)?;
        let number =
            || text.parse::<u64>().map_err(|_| format!("{arg} {text}: not a number\n{USAGE}"));
        match arg.as_str() {
            "--minutes" => parsed.minutes = number()?,
            "--seed" => parsed.seed = number()?,
            "--dir" => parsed.dir = text.into(),
            _ => return Err(USAGE.into()),
        }
    }
    Ok(parsed)
}

pub fn run(args: &[String]) -> Result<(), String> {
    let args = parse(args)?;
    let begun = Instant::now();
    let scratch = Scratch::new(&args.dir)?;
    let mut soak = Soak::new(&args, scratch.path())?;
    let outcome = soak.run(begun + Duration::from_secs(60 * args.minutes));
    soak.tally.kills.violations = u64::from(outcome.is_err());
    soak.tally.elapsed = begun.elapsed();
    println!("{}", soak.tally);
    outcome.map_err(|violation| {
        let kept = match soak.keep_evidence(&violation) {
            Ok(path) => format!("the store as the kill left it: {}", path.display()),
            Err(error) => format!("the store could not be kept: {error}"),
        };
        format!("seed {}, cycle {}: {violation}\n{kept}", args.seed, soak.tally.kills.cycles)
    })?;
    soak.tally.check_floors()
}

struct Soak {
    store: PathBuf,
    /// What children put beside the store.
    beside: PathBuf,
    /// The store as the last kill left it.
    left: PathBuf,
    plan: KillPlan,
    oracle: Oracle,
    rng: Rng,
    form: Form,
    /// What all stores have in common, whatever else varies.
    settings: Settings,
    tally: SoakTally,
}

impl Soak {
    fn new(args: &SoakArgs, scratch: &Path) -> Result<Soak, String> {
        let plan = KillPlan { seed: args.seed, lanes: LANES };
        let form = Form::ALL[0];
        let mut tally = SoakTally::default();
        tally.kills.stores = 1;
        Ok(Soak {
            store: scratch.join("store"),
            beside: scratch.join("store.beside"),
            left: scratch.join("left"),
            plan,
            oracle: Oracle::new(plan),
            rng: Rng::new(args.seed),
            form,
            settings: Settings::quiet(form),
            tally,
        })
    }

    fn run(&mut self, end: Instant) -> Result<(), String> {
        while Instant::now() < end {
            self.tally.kills.cycles += 1;
            self.write_and_kill()?;
            // Recovery, too, is killed, and begun again.
            while self.rng.chance(1, 4) {
                let when = When::Opening(Duration::from_micros(self.rng.below(3_000)));
                self.kill(Vec::new(), when)?;
            }
            let contents = self.verify()?;
            if self.rng.chance(1, 3) && !self.form.has_log() {
                self.damage(&contents)?;
            }
            if self.tally.kills.cycles.is_multiple_of(EMPTY_EVERY) {
                self.empty()?;
            }
        }
        Ok(())
    }

    fn write_and_kill(&mut self) -> Result<(), String> {
        let next = self.oracle.next();
        let micros = match self.rng.below(3) {
            0 => self.rng.below(10_000),
            1 => self.rng.below(100_000),
            _ => self.rng.below(800_000),
        };
        self.kill(next, When::Open(Duration::from_micros(micros)))
    }

    fn kill(&mut self, next: Vec<u64>, when: When) -> Result<(), String> {
        let variety = self.rng.next() | 1;
        let background_threads = 1 + self.rng.below(3) as u32;
        self.settings =
            Settings { variety, background_threads, ..Settings::random(&mut self.rng, self.form) };
        std::fs::create_dir_all(&self.beside).map_err(|error| error.to_string())?;
        let order =
            Order { dir: self.store.clone(), plan: self.plan, settings: self.settings, next };
        let told = run_and_kill(CHILD, &order.to_args(), when)
            .map_err(|error| format!("{error}\n{when:?}, {:?}", order.settings))?;
        self.tally.kills.add(&told);
        told.iter().try_for_each(|message: &Message| self.oracle.hear(*message))
    }

    fn open(&self, dir: &Path) -> Result<Db, String> {
        let quiet = Settings { variety: self.settings.variety, ..Settings::quiet(self.form) };
        let options = quiet.options(&self.store).map_err(|error| error.to_string())?;
        Db::open_with(dir, options, hooks(&Fuse::new(0))).map_err(|error| error.to_string())
    }

    /// Opens the store and compares.
    fn verify(&mut self) -> Result<Contents, String> {
        copy(&self.store, &self.left).map_err(|error| format!("copying the store: {error}"))?;
        let begun = Instant::now();
        let db = self.open(&self.store)?;
        let kills = &mut self.tally.kills;
        kills.longest_open = kills.longest_open.max(begun.elapsed());
        kills.recovered += db.recovery().records;
        self.look_at_guests(&db)?;
        let contents = inspect::read_all(&db, &self.plan)?;
        drop(db);
        self.oracle.opened = true;
        let verdict = self.oracle.judge(contents.clone())?;
        self.oracle.accept(&verdict);
        let kills = &mut self.tally.kills;
        kills.acknowledged = self.oracle.acknowledged;
        kills.beyond = self.oracle.beyond;
        kills.seen = self.oracle.seen;
        Ok(contents)
    }

    /// Guests that the kill left hold what guests write, and can be dropped.
    fn look_at_guests(&mut self, db: &Db) -> Result<(), String> {
        for name in db.keyspaces() {
            if SPACES.contains(&&name[..]) {
                continue;
            }
            if !name.starts_with(guest::PREFIX) {
                return Err(format!("a keyspace {name} that was never made"));
            }
            let space = db.keyspace(&name).map_err(|error| error.to_string())?;
            guest::is_plausible(&space)?;
            db.drop_keyspace(&name).map_err(|error| error.to_string())?;
            self.tally.guests_left += 1;
        }
        Ok(())
    }

    fn damage(&mut self, contents: &Contents) -> Result<(), String> {
        let dir = self.left.with_extension("damaged");
        copy(&self.store, &dir).map_err(|error| format!("copying the store: {error}"))?;
        let quiet = Settings { variety: self.settings.variety, ..Settings::quiet(self.form) };
        let options = quiet.options(&self.store).map_err(|error| error.to_string())?;
        let hooks = hooks(&Fuse::new(0));
        let victim = Victim { dir: &dir, options, hooks, plan: &self.plan, contents };
        let outcome = victim.suffer(&mut self.rng)?;
        self.tally.add_damage(outcome);
        std::fs::remove_dir_all(&dir).map_err(|error| error.to_string())
    }

    /// Deletes everything: its space must be free again. Every other time the store is begun anew.
    fn empty(&mut self) -> Result<(), String> {
        let new = self.left.with_extension("new");
        let quiet = Settings { variety: self.settings.variety, ..Settings::quiet(self.form) };
        let free_when_new = inspect::free_when_new(&new, quiet)?;
        std::fs::remove_dir_all(&new).map_err(|error| error.to_string())?;
        inspect::empty(self.open(&self.store)?)?;
        let (free, allowed) = inspect::free(&self.store, quiet)?;
        if free + allowed < free_when_new {
            return Err(format!("{} bytes did not come free again", free_when_new - free));
        }
        self.oracle.emptied();
        self.tally.kills.emptied += 1;
        if self.rng.chance(1, 2) {
            std::fs::remove_dir_all(&self.store).map_err(|error| error.to_string())?;
            self.oracle.opened = false;
            self.tally.kills.stores += 1;
            self.form = self.form.next(&Form::ALL);
        }
        Ok(())
    }

    /// Keeps what the violation was seen in.
    fn keep_evidence(&self, violation: &str) -> std::io::Result<PathBuf> {
        let name = format!("soak-seed{}-cycle{}", self.plan.seed, self.tally.kills.cycles);
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path)?;
        let settings = format!("{violation}\n{:?}\n{}\n", self.settings, self.tally);
        std::fs::write(path.join("violation"), settings)?;
        copy(&self.left, &path.join("left"))?;
        copy(&self.store, &path.join("store"))?;
        Ok(path)
    }
}
