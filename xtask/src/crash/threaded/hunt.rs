//! Hunts with real threads: a bug is planted on all threads of a world, and the campaigns must notice it.

use std::time::Instant;

use base::planted::Bug;

use super::plan::{BUGS, HUNTED_MOST, HUNTING, ThreadedCampaign, campaigns};
use super::tallies::Counts;
use crate::crash::args::CrashArgs;
use crate::crash::threads::in_two_threads;

/// Whether a bug is sought here, and not step by step.
pub fn is_sought(bug: Bug) -> bool {
    BUGS.iter().any(|(sought, _)| *sought == bug)
}

/// Hunts the bugs whose names begin as asked. Returns how many, and those that survived.
pub fn hunt(args: &CrashArgs) -> (u64, Vec<String>) {
    let named = |bug: &Bug| format!("{bug:?}").starts_with(&args.bug);
    let sought: Vec<_> = BUGS.iter().filter(|(bug, _)| named(bug)).collect();
    let campaigns = campaigns();
    let hunts = in_two_threads(&sought, |(bug, first)| {
        let begun = Instant::now();
        let found = seek(*bug, first, &campaigns, args);
        let word = if found.is_some() { "killed" } else { "SURVIVED" };
        let how = found.clone().unwrap_or_default();
        let took = begun.elapsed().as_secs_f64();
        println!("{word:<8} {:<30} {took:>5.1} s  {how}", format!("{bug:?}"));
        found.is_none().then(|| format!("{bug:?} SURVIVED"))
    });
    (sought.len() as u64, hunts.into_iter().flatten().collect())
}

/// The world that notices the bug, and how.
fn seek(
    bug: Bug,
    first: &[&str],
    campaigns: &[ThreadedCampaign],
    args: &CrashArgs,
) -> Option<String> {
    let worlds = args.seeds.unwrap_or(HUNTED_MOST);
    for seed in args.seed..args.seed + worlds {
        for name in first {
            let campaign = campaigns.iter().find(|campaign| campaign.name == *name)?;
            let mut world = campaign.world(seed, Some(bug));
            world.limits = HUNTING;
            if let Err(failure) = world.explore(&mut Counts::default()) {
                let text = failure.violation.to_string();
                let last = text.lines().next_back().unwrap_or_default().trim().to_owned();
                return Some(format!("--campaign {name} --seed {seed}: {last}"));
            }
        }
    }
    None
}
