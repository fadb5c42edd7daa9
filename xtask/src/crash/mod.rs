//! `cargo xtask crash`: campaigns that cut the power, and mutants that they must notice.

mod plan;
mod system;

use std::time::Instant;

use base::planted::Bug;
use pmem::Site;
use sim::{Counters, Fault, Sabotage, Verdict};

use plan::{Campaign, Plan};

const USAGE: &str = "usage: cargo xtask crash [--scale N] [--seed N] [--campaign NAME] [--only-mutants] [--no-mutants]
  --scale N     hundredths of the plan's seeds; 100 is what CI runs
  --seed N      first seed; every seed is an independent case
  --campaign    only campaigns whose name begins so";

struct Args {
    scale: u64,
    seed: u64,
    campaign: String,
    campaigns: bool,
    mutants: bool,
}

fn parse(args: &[String]) -> Result<Args, String> {
    let mut parsed =
        Args { scale: 100, seed: 0, campaign: String::new(), campaigns: true, mutants: true };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut number = || {
            let text = args.next().ok_or(USAGE)?;
            text.parse::<u64>().map_err(|_| format!("{arg} {text}: not a number\n{USAGE}"))
        };
        match arg.as_str() {
            "--scale" => parsed.scale = number()?,
            "--seed" => parsed.seed = number()?,
            "--campaign" => parsed.campaign = args.next().ok_or(USAGE)?.clone(),
            "--only-mutants" => parsed.campaigns = false,
            "--no-mutants" => parsed.mutants = false,
            _ => return Err(USAGE.into()),
        }
    }
    Ok(parsed)
}

pub fn run(args: &[String]) -> Result<(), String> {
    let args = parse(args)?;
    let plan = plan::plan();
    let begun = Instant::now();
    let mut total = Counters::default();
    if args.campaigns {
        let chosen: Vec<&Campaign> =
            plan.campaigns.iter().filter(|c| c.name.starts_with(&args.campaign)).collect();
        for counters in explore(&chosen, &args)? {
            total.add(&counters);
        }
    }
    let mut survivors = Vec::new();
    if args.mutants {
        survivors = hunt_all(&plan, &mut total);
    }
    println!("{total}");
    println!("{:>20} {:.1} s", "took", begun.elapsed().as_secs_f64());
    if !survivors.is_empty() {
        return Err(format!("mutants survived: {}", survivors.join(", ")));
    }
    if args.campaigns && args.mutants && args.campaign.is_empty() && args.scale >= 100 {
        plan.floors
            .check(&total)
            .map_err(|low| format!("the campaign proves too little:\n{low}"))?;
    }
    println!("ok: no rule was broken, every mutant was noticed");
    Ok(())
}

/// Runs each campaign, two at a time: worlds are independent, one a thread.
fn explore(campaigns: &[&Campaign], args: &Args) -> Result<Vec<Counters>, String> {
    in_two_threads(campaigns, |campaign| {
        let begun = Instant::now();
        let seeds = (campaign.seeds * args.scale / 100).max(1);
        let counters = sim::campaign(
            &campaign.engine,
            &campaign.shape,
            campaign.mode,
            args.seed..args.seed + seeds,
            &campaign.limits,
        )
        .map_err(|failure| format!("campaign {}: {failure}", campaign.name))?;
        let totals = counters.totals;
        println!(
            "campaign {:<12} {:>9} images {:>8} recoveries {:>7} kills {:>6} regrants {:>6.1} s",
            campaign.name,
            totals.images,
            totals.recoveries,
            totals.kills,
            counters.probe.regrants,
            begun.elapsed().as_secs_f64()
        );
        Ok(counters)
    })
    .into_iter()
    .collect()
}

/// A fault that must be noticed.
enum Mutant {
    Logic(Bug),
    Persist(Sabotage),
}

impl std::fmt::Display for Mutant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Mutant::Logic(bug) => write!(f, "{bug:?}"),
            Mutant::Persist(sabotage) => write!(f, "{sabotage}"),
        }
    }
}

fn hunt_all(plan: &Plan, total: &mut Counters) -> Vec<String> {
    let logic = Bug::ALL.iter().map(|bug| Mutant::Logic(*bug));
    let persist = Site::ALL.iter().flat_map(|site| {
        Fault::ALL.iter().map(|what| Mutant::Persist(Sabotage { site: *site, what: *what }))
    });
    let mutants: Vec<Mutant> = logic
        .chain(persist)
        .filter(|mutant| match mutant {
            Mutant::Logic(_) => true,
            Mutant::Persist(sabotage) => plan::equivalent(*sabotage).is_none(),
        })
        .collect();
    let hunts = in_two_threads(&mutants, |mutant| {
        let mut counters = Counters::default();
        let killed = hunt(plan, mutant, &mut counters);
        (mutant.to_string(), killed, counters)
    });
    let mut survivors = Vec::new();
    for (name, killed, counters) in hunts {
        match killed {
            Ok(how) => println!("killed   {name:<40} {how}"),
            Err(how) => {
                println!("SURVIVED {name:<40} {how}");
                survivors.push(name);
            }
        }
        total.totals.mutants += 1;
        total.totals.killed += u64::from(counters.totals.killed > 0);
    }
    survivors
}

/// Tries the campaigns one after the other until the mutant is noticed.
fn hunt(plan: &Plan, mutant: &Mutant, counters: &mut Counters) -> Result<String, String> {
    let mut struck = false;
    for campaign in &plan.campaigns {
        let mut engine = campaign.engine;
        let mut sabotage = None;
        match mutant {
            Mutant::Logic(bug) => engine.planted = Some(*bug),
            Mutant::Persist(planted) => sabotage = Some(*planted),
        }
        let verdict = sim::hunt(
            &engine,
            &campaign.shape,
            campaign.mode,
            0..campaign.hunt_seeds,
            &campaign.limits,
            sabotage,
            counters,
        );
        match verdict {
            Verdict::Killed(failure) => {
                let text = failure.violation.to_string();
                let last = text.lines().next_back().unwrap_or_default().trim();
                return Ok(format!("{}, seed {:#x}: {last}", campaign.name, failure.case.seed));
            }
            Verdict::Survived => struck = true,
            Verdict::NeverStruck => {}
        }
    }
    Err(if struck { "struck, not noticed".into() } else { "never struck".into() })
}

/// Calls `work` for every item on two threads; results in the order of the items.
fn in_two_threads<I: Sync, O: Send>(items: &[I], work: impl Fn(&I) -> O + Sync) -> Vec<O> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let results = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some(item) = items.get(at) else { return };
                    let result = work(item);
                    results.lock().unwrap_or_else(|p| p.into_inner()).push((at, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(|p| p.into_inner());
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}
