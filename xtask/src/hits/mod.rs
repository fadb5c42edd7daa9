//! `cargo xtask hits`: a great many answers of the caches, each compared. Values tell their keyspace, its birth, their key and the change
//! that wrote them; readers know between which changes an answer has to lie. Meanwhile everything is compacted, deleted, taken in,
//! dropped, closed and opened again, and the process is killed.
//!
//! ```text
//! imprint ─── what a value tells
//! ledger ──── between which changes an answer lies; outlives the process
//! shape ───── what a store is, and with which options a life opens it
//! world ───── open stores; what a kill left, compared
//! failure ─── a wrong answer, or what else ended a life
//! lane, reader, life ─── the child: threads that write, read and keep up
//!    │ kill
//! tally ───── what was counted, and what has to be                      here
//! ```

mod failure;
mod imprint;
mod lane;
mod ledger;
mod life;
mod reader;
mod shape;
mod tally;
mod world;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base::planted::Bug;
use testkit::Rng;

use crate::kill9::copy;
use crate::kill9::running::{When, run_and_kill};
use crate::kill9::scratch::Scratch;
use failure::HitFailure;
use life::HitOrder;
pub use life::run as child;
use shape::{CacheShape, CachedForm};
use tally::{HitSums, HitTally, progress};

/// The subcommand of a child.
pub const CHILD: &str = "hits-child";

const USAGE: &str = "usage: cargo xtask hits [--hits N] [--minutes N] [--seed N] [--readers N] [--dir PATH] [--bug NAME]
  --hits N      until caches had so many hits beside answers that were compared; 10,000,000 if neither this nor --minutes is given. If
                --minutes are over before, the run has failed. Where a session had more hits than answers, the answers are counted;
                still not each is the answer of a cache: memtables answer too, a get may hit several blocks, and what compacts hits some
  --minutes N   no longer than that, parts of one too; ten days if not given
  --seed N      what is written, and with which options; the moments of the kills are real time
  --readers N   threads that read, 2 if not given
  --dir PATH    where to make the stores; /dev/shm if not given
  --bug NAME    a bug to be planted, which has to be found by a wrong answer, or by damage. On two busy cores each of RecordOfAnyNumber,
                RecordKept, RecordPastGate, RecordBelowTables, RecordsKeptOverRanges, RecordsKeptOverIngest and IgnoreSnapshots was found
                within 70 seconds by some seed of 1 to 3; RecordOfOldView by one run of four, its race is rare. Not found in a minute:
                SequenceBeforeView, and CacheBytesUnverified, which takes a torn entry and so a power failure (cargo xtask crash
                --campaign cached). CacheZonesKept makes no answer wrong";

/// Lives of a store.
const LIVES: u64 = 3;
/// From one line about the progress to the next.
const TOLD_EVERY: Duration = Duration::from_secs(30);
/// Lives of a campaign that is to take no longer than so are short.
const SHORT: Duration = Duration::from_secs(180);

struct HitArgs {
    hits: Option<u64>,
    limit: Option<Duration>,
    seed: u64,
    readers: usize,
    dir: PathBuf,
    bug: Option<Bug>,
}

fn parse(args: &[String]) -> Result<HitArgs, String> {
    let mut parsed =
        HitArgs { hits: None, limit: None, seed: 1, readers: 2, dir: "/dev/shm".into(), bug: None };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let text = args.next().ok_or(USAGE)?;
        let wrong = || format!("{arg} {text}: not a number\n{USAGE}");
        let number = || text.parse::<u64>().map_err(|_| wrong());
        match arg.as_str() {
            "--hits" => parsed.hits = Some(number()?),
            "--minutes" => {
                let minutes: f64 = text.parse().map_err(|_| wrong())?;
                let limit = Duration::try_from_secs_f64(60.0 * minutes);
                parsed.limit = Some(limit.map_err(|_| wrong())?);
            }
            "--seed" => parsed.seed = number()?,
            "--readers" => parsed.readers = number()?.clamp(1, 64) as usize,
            "--dir" => parsed.dir = text.into(),
            "--bug" => {
                let named = Bug::ALL.iter().find(|bug| format!("{bug:?}") == *text);
                parsed.bug = Some(*named.ok_or(format!("no planted bug is called {text}"))?);
            }
            _ => return Err(USAGE.into()),
        }
    }
    Ok(parsed)
}

impl HitArgs {
    /// Hits after which a run is over.
    fn goal(&self) -> u64 {
        match (self.hits, self.limit) {
            (Some(hits), _) => hits,
            (None, Some(_)) => u64::MAX,
            (None, None) => 10_000_000,
        }
    }

    fn limit(&self) -> Duration {
        self.limit.unwrap_or(Duration::from_secs(10 * 86_400))
    }

    /// Whether a run with `hits` did what `--hits` asked for.
    fn check_goal(&self, hits: u64) -> Result<(), String> {
        match self.hits {
            Some(goal) if hits < goal => Err(format!(
                "no violation, but {hits} of the {goal} hits of --hits when --minutes were over; give more minutes or fewer hits"
            )),
            _ => Ok(()),
        }
    }
}

pub fn run(args: &[String]) -> Result<(), String> {
    let args = parse(args)?;
    let scratch = Scratch::new(&args.dir)?;
    let mut campaign = HitCampaign::new(&args, scratch.path());
    let outcome = campaign.run();
    campaign.tally.violations = u64::from(matches!(outcome, Err(HitFailure::Violation(_))));
    campaign.tally.elapsed = campaign.begun.elapsed();
    println!("{}", campaign.tally);
    if let Some(bug) = args.bug {
        let (seconds, hits) = (campaign.begun.elapsed().as_secs_f64(), campaign.tally.hits());
        println!("{}", found(bug, outcome)?);
        println!("{bug:?} was found after {seconds:.1} s and {hits} hits beside answers");
        return Ok(());
    }
    outcome.map_err(|failure| {
        let kept = match campaign.keep_evidence() {
            Ok(path) => format!("the stores as they were left: {}", path.display()),
            Err(error) => format!("the stores could not be kept: {error}"),
        };
        format!("seed {}, life {}: {failure}\n{kept}", args.seed, campaign.tally.lives)
    })?;
    campaign.tally.check_floors()?;
    args.check_goal(campaign.tally.hits())
}

/// The violation by which a planted bug was found.
fn found(bug: Bug, outcome: Result<(), HitFailure>) -> Result<String, String> {
    match outcome {
        Err(HitFailure::Violation(text)) => Ok(text),
        Err(HitFailure::Other(text)) => {
            Err(format!("{bug:?} was planted, and what ended the run is no violation: {text}"))
        }
        Ok(()) => Err(format!("{bug:?} was planted, and not found")),
    }
}

struct HitCampaign<'a> {
    args: &'a HitArgs,
    /// Where the stores are, and what outlives a child.
    dir: PathBuf,
    rng: Rng,
    begun: Instant,
    tally: HitTally,
}

impl<'a> HitCampaign<'a> {
    fn new(args: &'a HitArgs, scratch: &Path) -> HitCampaign<'a> {
        HitCampaign {
            args,
            dir: scratch.join("hits"),
            rng: Rng::new(args.seed),
            begun: Instant::now(),
            tally: HitTally::default(),
        }
    }

    fn is_over(&self) -> bool {
        self.tally.hits() >= self.args.goal() || self.begun.elapsed() >= self.args.limit()
    }

    fn run(&mut self) -> Result<(), HitFailure> {
        let mut told = Instant::now();
        for store in 0.. {
            let form = CachedForm::ALL[store % CachedForm::ALL.len()];
            self.begin_store()?;
            for _ in 0..LIVES {
                if self.is_over() {
                    return Ok(());
                }
                self.life(form)?;
                if told.elapsed() >= TOLD_EVERY {
                    told = Instant::now();
                    self.tally.elapsed = self.begun.elapsed();
                    println!("{}", progress(&self.tally));
                }
            }
        }
        Ok(())
    }

    /// Nothing is left of the stores before.
    fn begin_store(&mut self) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("{}: {error}", self.dir.display());
        if self.dir.exists() {
            std::fs::remove_dir_all(&self.dir).map_err(failed)?;
        }
        std::fs::create_dir(&self.dir).map_err(failed)?;
        self.tally.stores += 1;
        Ok(())
    }

    /// Lets a child live, and kills it.
    fn life(&mut self, form: CachedForm) -> Result<(), HitFailure> {
        let (seed, when) = (self.rng.next(), self.when(form));
        let HitArgs { readers, bug, .. } = *self.args;
        let session_ms = if self.args.limit() <= SHORT { 300 } else { 2_000 };
        let order = HitOrder { dir: self.dir.clone(), form, seed, readers, session_ms, bug };
        let counts = HitOrder::counts(&self.dir);
        if counts.exists() {
            std::fs::remove_file(&counts).map_err(|error| format!("the counts: {error}"))?;
        }
        let outcome = run_and_kill(CHILD, &order.to_args(), when);
        let (shape, sums) = (CacheShape::new(form, seed), HitSums::told(&counts));
        self.tally.add(&shape, &sums);
        if let Some(violation) = HitFailure::left(&HitOrder::violation(&self.dir)) {
            return Err(violation);
        }
        let told = outcome.map_err(|error| format!("{error}\n{shape:?}"))?;
        let is_open = told.contains(&crate::kill9::message::Message::Opened);
        self.tally.killed_in_open += u64::from(!is_open);
        Ok(())
    }

    fn when(&mut self, form: CachedForm) -> When {
        let mut millis = |from: u64, to: u64| Duration::from_millis(from + self.rng.below(to));
        // Where devices are slow on purpose there are few hits in a second.
        let is_short = self.args.limit() <= SHORT || form == CachedForm::Tiered;
        let (early, open, long) = (millis(0, 60), millis(100, 900), millis(1_000, 14_000));
        match self.rng.below(8) {
            0 => When::Opening(early),
            1 | 2 => When::Open(open),
            _ if is_short => When::Open(open),
            _ => When::Open(long),
        }
    }

    /// Keeps what the violation was seen in.
    fn keep_evidence(&self) -> std::io::Result<PathBuf> {
        let name = format!("hits-seed{}-life{}", self.args.seed, self.tally.lives);
        let path = std::env::temp_dir().join(name);
        copy(&self.dir, &path)?;
        std::fs::write(path.join("tally"), format!("{}\n", self.tally))?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> HitArgs {
        let args: Vec<String> = text.split_whitespace().map(String::from).collect();
        parse(&args).expect("arguments")
    }

    #[test]
    fn hits_that_were_asked_for_and_missed_are_a_failure() {
        assert!(
            parsed("--hits 1000 --minutes 1")
                .check_goal(999)
                .is_err_and(|text| { text.contains("999 of the 1000 hits") })
        );
        assert_eq!(parsed("--hits 1000 --minutes 1").check_goal(1_000), Ok(()));
        let timed = parsed("--minutes 0.5");
        assert_eq!((timed.check_goal(0), timed.goal()), (Ok(()), u64::MAX));
        assert_eq!(timed.limit(), Duration::from_secs(30));
        assert_eq!(parsed("").goal(), 10_000_000);
    }

    #[test]
    fn only_a_violation_finds_a_planted_bug() {
        let bug = Bug::RecordKept;
        let violation = Err(HitFailure::Violation("an old record".into()));
        assert_eq!(found(bug, violation), Ok("an old record".into()));
        let full = found(bug, Err(HitFailure::Other("no space".into())));
        assert!(full.is_err_and(|text| text.contains("no violation: no space")));
        assert!(found(bug, Ok(())).is_err_and(|text| text.contains("not found")));
    }
}
