//! `cargo xtask kill9`: a process that writes is killed, again and again, and what it leaves behind is
//! compared with what it was told.
//!
//! This is the crash of a process, not of a machine: whatever was stored is still there. What is tested is
//! that every moment at which the stores may end leaves a state from which recovery finds all that was
//! acknowledged and nothing else. `cargo xtask crash` is about what a power failure takes away.

pub(crate) mod child;
pub(crate) mod inspect;
pub(crate) mod message;
pub(crate) mod oracle;
pub(crate) mod plan;
pub(crate) mod running;
pub(crate) mod scratch;
pub(crate) mod tally;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use testkit::Rng;

use child::{Form, Order, Settings};
use message::Message;
use oracle::Oracle;
use plan::KillPlan;
use running::{When, run_and_kill};
use scratch::Scratch;
use tally::KillTally;

pub use child::run as child;
pub use running::CHILD;
pub use scratch::{JANITOR, janitor};

const USAGE: &str = "usage: cargo xtask kill9 [--cycles N] [--seed N] [--threads N] [--dir PATH] [--form FORM]
  --cycles N    writers to kill, 2000 if not given; up to three times as many where too little was seen
  --seed N      what is written; the moments of the kills are real time
  --threads N   writer threads, 1 to 8; 3 if not given
  --dir PATH    where to make the store; /dev/shm if not given
  --form FORM   what stores are: levels or pool, in /dev/shm only, or log, on a disk, too; all in turn if not given";

/// Cycles between two times that everything is deleted.
const EMPTY_EVERY: u64 = 40;
/// Times the cycles asked for that a campaign may take to see all it has to: real time decides what a kill meets.
const ROUNDS: u64 = 3;

struct KillArgs {
    cycles: u64,
    seed: u64,
    threads: usize,
    dir: PathBuf,
    forms: Vec<Form>,
}

fn parse(args: &[String]) -> Result<KillArgs, String> {
    let mut parsed = KillArgs {
        cycles: 2000,
        seed: 1,
        threads: 3,
        dir: "/dev/shm".into(),
        forms: Form::ALL.into(),
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let text = args.next().ok_or(USAGE)?;
        let number =
            || text.parse::<u64>().map_err(|_| format!("{arg} {text}: not a number\n{USAGE}"));
        match arg.as_str() {
            "--cycles" => parsed.cycles = number()?,
            "--seed" => parsed.seed = number()?,
            "--threads" => parsed.threads = number()?.clamp(1, 8) as usize,
            "--dir" => parsed.dir = text.into(),
            "--form" => {
                let named = Form::ALL.into_iter().filter(|form| form.name() == text);
                parsed.forms = named.collect();
                if parsed.forms.is_empty() {
                    return Err(format!("--form {text}: no such form\n{USAGE}"));
                }
            }
            _ => return Err(USAGE.into()),
        }
    }
    Ok(parsed)
}

pub fn run(args: &[String]) -> Result<(), String> {
    let args = parse(args)?;
    let begun = Instant::now();
    let scratch = Scratch::new(&args.dir)?;
    let mut campaign = KillCampaign::new(&args, scratch.path())?;
    let outcome = campaign.run_until_proven(args.cycles);
    campaign.tally.violations = u64::from(outcome.is_err());
    println!("{}", campaign.tally);
    println!("{:>12.1} s", begun.elapsed().as_secs_f64());
    outcome.map_err(|violation| {
        let kept = match campaign.keep_evidence(&violation) {
            Ok(path) => format!("the store as the kill left it: {}", path.display()),
            Err(error) => format!("the store could not be kept: {error}"),
        };
        format!("seed {}, cycle {}: {violation}\n{kept}", args.seed, campaign.tally.cycles)
    })?;
    campaign.tally.check_floors(&args.forms)
}

struct KillCampaign {
    store: PathBuf,
    /// The store as the last kill left it.
    left: PathBuf,
    plan: KillPlan,
    oracle: Oracle,
    rng: Rng,
    /// What stores are, in turn.
    forms: Vec<Form>,
    /// What this one is.
    form: Form,
    /// Bytes free in a store of each form that never held anything.
    free: Vec<(Form, u64)>,
    tally: KillTally,
}

impl KillCampaign {
    fn new(args: &KillArgs, scratch: &Path) -> Result<KillCampaign, String> {
        let plan = KillPlan { seed: args.seed, lanes: args.threads };
        let mut free = Vec::new();
        for form in args.forms.iter().copied() {
            let new = scratch.join(format!("new-{form:?}"));
            free.push((form, inspect::free_when_new(&new, Settings::quiet(form))?));
        }
        Ok(KillCampaign {
            store: scratch.join("store"),
            left: scratch.join("left"),
            plan,
            oracle: Oracle::new(plan),
            rng: Rng::new(args.seed),
            forms: args.forms.clone(),
            form: args.forms[0],
            free,
            tally: KillTally { stores: 1, ..KillTally::default() },
        })
    }

    fn run_until_proven(&mut self, cycles: u64) -> Result<(), String> {
        for _ in 0..ROUNDS {
            self.run(cycles)?;
            if self.tally.check_floors(&self.forms).is_ok() {
                break;
            }
        }
        Ok(())
    }

    fn run(&mut self, cycles: u64) -> Result<(), String> {
        for cycle in 1..=cycles {
            self.tally.cycles += 1;
            self.write_and_kill()?;
            // Recovery, too, is killed, and begun again.
            while self.rng.chance(1, 3) {
                self.open_and_kill()?;
            }
            self.verify()?;
            if cycle % EMPTY_EVERY == 0 || cycle == cycles {
                self.empty()?;
            }
        }
        Ok(())
    }

    fn write_and_kill(&mut self) -> Result<(), String> {
        let next = self.oracle.next();
        let micros = |rng: &mut Rng, limit| Duration::from_micros(rng.below(limit));
        // On a slow disk only a long life compacts tables.
        let when = match self.rng.weighted(&[3, 3, 3, 1, 1]) {
            0 => When::Open(micros(&mut self.rng, 1_000)),
            1 => When::Open(micros(&mut self.rng, 10_000)),
            2 => When::Open(micros(&mut self.rng, 30_000)),
            3 => When::Open(micros(&mut self.rng, 300_000)),
            _ => When::Opening(micros(&mut self.rng, 1_500)),
        };
        self.kill(next, when)
    }

    fn open_and_kill(&mut self) -> Result<(), String> {
        let when = When::Opening(Duration::from_micros(self.rng.below(1_500)));
        self.kill(Vec::new(), when)
    }

    fn kill(&mut self, next: Vec<u64>, when: When) -> Result<(), String> {
        let settings = Settings::random(&mut self.rng, self.form);
        let order = Order { dir: self.store.clone(), plan: self.plan, settings, next };
        let told = run_and_kill(CHILD, &order.to_args(), when)
            .map_err(|error| format!("{error}\n{when:?}, {:?}", order.settings))?;
        self.tally.add(&told);
        told.iter().try_for_each(|message: &Message| self.oracle.hear(*message))
    }

    /// Opens the store and compares.
    fn verify(&mut self) -> Result<(), String> {
        copy(&self.store, &self.left).map_err(|error| format!("copying the store: {error}"))?;
        let begun = Instant::now();
        let quiet = Settings::quiet(self.form);
        let db = inspect::open(&self.store, quiet)?;
        self.tally.longest_open = self.tally.longest_open.max(begun.elapsed());
        self.tally.recovered += db.recovery().records;
        if self.oracle.opened && db.keyspaces() != plan::SPACES {
            return Err(format!("there are keyspaces {:?}", db.keyspaces()));
        }
        let contents = inspect::read_all(&db, &self.plan)?;
        drop(db);
        // Every open recovers the same, for writing or for reading, and however often.
        if self.rng.chance(1, 8) && self.left.join("STORE").exists() {
            let again = inspect::read_all(&inspect::open(&self.store, quiet)?, &self.plan)?;
            if again != contents || inspect::read_only(&self.left, quiet)? != contents {
                return Err("three recoveries of one state differ".into());
            }
        }
        self.oracle.opened = true;
        let verdict = self.oracle.judge(contents)?;
        self.oracle.accept(&verdict);
        self.tally.acknowledged = self.oracle.acknowledged;
        self.tally.beyond = self.oracle.beyond;
        self.tally.seen = self.oracle.seen;
        Ok(())
    }

    /// Deletes everything: its space must be free again. Every other time the store is begun anew.
    fn empty(&mut self) -> Result<(), String> {
        let quiet = Settings::quiet(self.form);
        inspect::empty(inspect::open(&self.store, quiet)?)?;
        let (free, allowed) = inspect::free(&self.store, quiet)?;
        let new = self.free.iter().find(|(form, _)| *form == self.form).map_or(0, |(_, new)| *new);
        if free + allowed < new {
            return Err(format!("{} bytes did not come free again", new - free));
        }
        self.oracle.emptied();
        self.tally.emptied += 1;
        if self.rng.chance(1, 2) {
            std::fs::remove_dir_all(&self.store).map_err(|error| error.to_string())?;
            self.oracle.opened = false;
            self.tally.stores += 1;
            self.form = self.form.next(&self.forms);
            // Making a store is killed as well.
            while self.rng.chance(3, 4) {
                self.open_and_kill()?;
            }
        }
        Ok(())
    }

    /// Keeps what the violation was seen in.
    fn keep_evidence(&self, violation: &str) -> std::io::Result<PathBuf> {
        let name = format!("kill9-seed{}-cycle{}", self.plan.seed, self.tally.cycles);
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path)?;
        std::fs::write(path.join("violation"), format!("{violation}\n{}\n", self.tally))?;
        copy(&self.left, &path.join("left"))?;
        copy(&self.store, &path.join("store"))?;
        Ok(path)
    }
}

/// Copies the files of a store with those in its directories, replacing what is there.
pub(crate) fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(to) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => std::fs::create_dir_all(to)?,
    }
    if !from.exists() {
        return Ok(());
    }
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy(&entry.path(), &to)?,
            false => drop(std::fs::copy(entry.path(), to)?),
        }
    }
    Ok(())
}
