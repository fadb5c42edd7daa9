//! Hunts: a fault is planted, and the campaigns must notice it.

use std::ops::Range;
use std::time::Instant;

use sim::{Counters, Failure, Limits, Verdict};

use super::args::CrashArgs;
use super::mutants::{Equivalent, Mutant, mutants};
use super::plan::{Campaign, Plan};
use super::threads::in_two_threads;

/// Hunts every mutant. Returns what went wrong: mutants that survived, and mutants said to be equivalent that
/// were noticed.
pub fn all(plan: &Plan, args: &CrashArgs, total: &mut Counters) -> Vec<String> {
    let mutants: Vec<Mutant> =
        mutants().into_iter().filter(|mutant| mutant.name().starts_with(&args.bug)).collect();
    let hunts = in_two_threads(&mutants, |mutant| {
        let begun = Instant::now();
        let hunt = Hunt { plan, args, mutant }.run();
        println!(
            "{:<8} {:<30} {:>5.1} s  {}",
            hunt.word,
            mutant.name(),
            begun.elapsed().as_secs_f64(),
            hunt.how
        );
        hunt
    });
    let mut wrong = Vec::new();
    for (mutant, hunt) in mutants.iter().zip(hunts) {
        if mutant.equivalent().is_none() {
            total.totals.mutants += 1;
            total.totals.killed += u64::from(hunt.word == KILLED);
        }
        if hunt.wrong {
            wrong.push(format!("{} {}: {}", mutant.name(), hunt.word, hunt.how));
        }
    }
    wrong
}

const KILLED: &str = "killed";

struct Outcome {
    word: &'static str,
    how: String,
    wrong: bool,
}

/// Some cases of some campaigns, explored so far.
struct Round<'a> {
    /// Which of the campaigns, in the order of the hunt.
    places: Range<usize>,
    seeds: Range<u64>,
    limits: &'a Limits,
}

struct Hunt<'a> {
    plan: &'a Plan,
    args: &'a CrashArgs,
    mutant: &'a Mutant,
}

/// Cases that each campaign gets before the next one has its turn: a mutant that one of them does not reach is
/// not sought there for long.
const FIRST_ROUND: u64 = 4;
/// Cases of each campaign after which a mutant counts as a survivor.
const MOST: u64 = 60;
/// The same without crashes, in the campaigns that reach a mutant soonest: such cases cost little.
const MOST_RUNS: u64 = 200;
/// Images of all of them together after which it does: several minutes.
const MOST_IMAGES: u64 = 2_000_000;

impl Hunt<'_> {
    fn run(&self) -> Outcome {
        let campaigns = self.campaigns();
        if let Some(equivalent) = self.mutant.equivalent() {
            return self.look(&campaigns, equivalent);
        }
        let (mut struck, mut counters) = (false, Counters::default());
        for Round { places, seeds, limits } in self.rounds(&campaigns) {
            for campaign in &campaigns[places] {
                if counters.totals.images > MOST_IMAGES {
                    break;
                }
                match self.explore(campaign, seeds.clone(), limits, &mut counters) {
                    Verdict::Killed(failure) => {
                        return Outcome {
                            word: KILLED,
                            how: how(campaign, &failure),
                            wrong: false,
                        };
                    }
                    Verdict::Survived => struck = true,
                    Verdict::NeverStruck => {}
                }
            }
        }
        let how = if struck { "struck, not noticed" } else { "never struck" };
        Outcome { word: "SURVIVED", how: how.into(), wrong: true }
    }

    /// Where the mutant is sought, in order: for some cases in the campaigns that reach it soonest, then everywhere,
    /// ever more cases of each in its turn. Faults of the engine may show without any crash, which costs little to find
    /// out, so that is tried first in either place.
    fn rounds(&self, campaigns: &[&Campaign]) -> Vec<Round<'_>> {
        let Plan { running, hunting, .. } = self.plan;
        let most = self.args.seeds.unwrap_or(MOST);
        let first = self.mutant.sought_first();
        let soonest = campaigns.iter().take_while(|each| first.contains(&each.name)).count();
        let campaigns = campaigns.len();
        let mut rounds = Vec::new();
        let mut add = |places: Range<usize>, seeds: Range<u64>, limits| {
            let seeds = seeds.start..seeds.end.min(self.args.seeds.unwrap_or(seeds.end));
            rounds.push(Round { places, seeds, limits });
        };
        let runs = matches!(self.mutant, Mutant::Logic(_));
        if runs {
            add(0..soonest, 0..MOST_RUNS, running);
        }
        add(0..soonest, 0..FIRST_ROUND, hunting);
        if runs {
            add(soonest..campaigns, 0..most, running);
        }
        add(soonest..campaigns, 0..FIRST_ROUND, hunting);
        let (mut from, mut len) = (FIRST_ROUND, 2 * FIRST_ROUND);
        while from < most {
            add(0..campaigns, from..most.min(from + len), hunting);
            (from, len) = (from + len, len * 2);
        }
        rounds
    }

    /// Sees that a mutant which is said to change nothing does not.
    fn look(&self, campaigns: &[&Campaign], equivalent: Equivalent) -> Outcome {
        let limits = match equivalent {
            Equivalent::CannotStrike(_) => &self.plan.glancing,
            Equivalent::ChangesNothing(_) => &self.plan.looking,
        };
        let mut counters = Counters::default();
        for campaign in campaigns {
            match (self.explore(campaign, 0..1, limits, &mut counters), equivalent) {
                (Verdict::Killed(failure), _) => {
                    return Outcome { word: "NOTICED", how: how(campaign, &failure), wrong: true };
                }
                (Verdict::Survived, Equivalent::CannotStrike(_)) => {
                    return Outcome { word: "STRUCK", how: campaign.name.into(), wrong: true };
                }
                _ => {}
            }
        }
        let (Equivalent::CannotStrike(why) | Equivalent::ChangesNothing(why)) = equivalent;
        Outcome { word: "same", how: why.into(), wrong: false }
    }

    /// Those that reach the mutant soonest first.
    fn campaigns(&self) -> Vec<&Campaign> {
        let first = self.mutant.sought_first();
        let mut campaigns: Vec<&Campaign> = self
            .plan
            .campaigns
            .iter()
            .filter(|c| c.name.starts_with(&self.args.campaign))
            .filter(|c| self.mutant.can_strike(&c.engine))
            .collect();
        campaigns
            .sort_by_key(|c| first.iter().position(|name| *name == c.name).unwrap_or(first.len()));
        campaigns
    }

    fn explore(
        &self,
        campaign: &Campaign,
        seeds: Range<u64>,
        limits: &Limits,
        counters: &mut Counters,
    ) -> Verdict {
        let mut engine = campaign.engine;
        let mut sabotage = None;
        match self.mutant {
            Mutant::Logic(bug) => engine.planted = Some(*bug),
            Mutant::Persist(planted) => sabotage = Some(*planted),
        }
        let seeds = self.args.seed + seeds.start..self.args.seed + seeds.end;
        sim::hunt(&engine, &campaign.shape, campaign.mode, seeds, limits, sabotage, counters)
    }
}

/// The case to look at, and the last line of what is wrong with it.
fn how(campaign: &Campaign, failure: &Failure) -> String {
    let text = failure.violation.to_string();
    let last = text.lines().next_back().unwrap_or_default().trim();
    format!("--campaign {} --seed {}: {last}", campaign.name, failure.case.seed)
}
