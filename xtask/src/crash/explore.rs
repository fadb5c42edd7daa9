//! Campaigns: right code, every image that the plan affords, no rule broken.

use std::time::Instant;

use sim::Counters;

use super::args::CrashArgs;
use super::plan::{Campaign, Plan};
use super::threads::in_two_threads;

/// Runs the campaigns, two at a time; tells whether any is called as asked.
pub fn all(plan: &Plan, args: &CrashArgs, total: &mut Counters) -> Result<bool, String> {
    let chosen: Vec<&Campaign> =
        plan.campaigns.iter().filter(|c| c.name.starts_with(&args.campaign)).collect();
    for counters in in_two_threads(&chosen, |campaign| one(campaign, args)) {
        total.add(&counters?);
    }
    Ok(!chosen.is_empty())
}

fn one(campaign: &Campaign, args: &CrashArgs) -> Result<Counters, String> {
    let begun = Instant::now();
    let Campaign { name, engine, shape, mode, limits, .. } = campaign;
    let seeds = args.seeds_of(campaign.seeds);
    let counters = sim::campaign(engine, shape, *mode, seeds, limits).map_err(|failure| {
        let seed = failure.case.seed;
        format!(
            "{failure}\nto see it again: cargo xtask crash --campaign {name} --seed {seed} --seeds 1 --no-mutants"
        )
    })?;
    let totals = counters.totals;
    println!(
        "campaign {name:<10} {:>9} images, {:>9} with commits in flight, {:>8} double crashes, {:>6} kills, {:>6.1} s",
        totals.images,
        totals.images_in_flight,
        totals.double_crashes,
        totals.kills,
        begun.elapsed().as_secs_f64()
    );
    Ok(counters)
}
