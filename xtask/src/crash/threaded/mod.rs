//! Campaigns with real threads. A world is a store in memory and on a disk that are watched, with background threads,
//! writers, readers and one thread for the whole store; it runs to its end while every event is written down with the
//! thread that made it. Then the tape is cut at random events: what power failure may leave there is recovered on several
//! threads, compared with what everybody had been told, and perhaps used and cut again.
//!
//! Nothing here is deterministic: the same seed gives the same operations and another order of threads. What fails is told
//! with its seed, the event of the cut and the turns of the threads before it, and is met again by running many worlds.

mod crowd;
mod hunt;
mod judge;
mod life;
mod plan;
mod setup;
mod shape;
mod tallies;

use std::time::Instant;

pub use self::hunt::{hunt, is_sought};
use self::judge::Failure;
use self::plan::ThreadedCampaign;
pub use self::tallies::Counts;
use super::args::CrashArgs;
use super::threads::in_two_threads;

/// Runs the campaigns whose names begin as asked, two worlds at a time; tells whether there are any.
pub fn all(args: &CrashArgs, total: &mut Counts) -> Result<bool, String> {
    let mut campaigns = plan::campaigns();
    campaigns.retain(|campaign| campaign.name.starts_with(&args.campaign));
    for counts in in_two_threads(&campaigns, |campaign| one(campaign, args)) {
        total.add(counts?);
    }
    Ok(!campaigns.is_empty())
}

fn one(campaign: &ThreadedCampaign, args: &CrashArgs) -> Result<Counts, String> {
    let begun = Instant::now();
    let mut counts = Counts::default();
    for seed in args.seeds_of(campaign.worlds) {
        let world = campaign.world(seed, None);
        world.explore(&mut counts).map_err(|failure| tell(campaign, seed, &failure))?;
    }
    println!(
        "campaign {:<20} {:>4} worlds, {:>6} images, {:>5.1} s",
        campaign.name,
        counts.worlds,
        counts.images,
        begun.elapsed().as_secs_f64()
    );
    Ok(counts)
}

/// Fails with one line per count that is too low.
pub fn check_floors(counts: &Counts) -> Result<(), String> {
    let all = counts.all();
    let is = |name: &str| all.iter().find(|count| count.0 == name).map_or(0, |count| count.1);
    let low = plan::FLOORS.iter().filter(|(name, least)| is(name) < *least);
    let low: Vec<String> =
        low.map(|(name, least)| format!("{name} is {}, the floor is {least}", is(name))).collect();
    if low.is_empty() { Ok(()) } else { Err(low.join("\n")) }
}

fn tell(campaign: &ThreadedCampaign, seed: u64, failure: &Failure) -> String {
    let Failure { violation, schedule, turns, diary } = failure;
    let names: Vec<String> = schedule
        .names
        .iter()
        .enumerate()
        .map(|(number, name)| format!("T{number} {name}"))
        .collect();
    let diary: String = diary.iter().map(|line| format!("\n    {line}")).collect();
    format!(
        "campaign {name}, seed {seed}\n{violation}\n  threads: {}; {:?}\n  last turns: {turns}\n  last commits:{diary}\nto look \
         for it again: cargo xtask crash --campaign {name} --seed {seed} --no-mutants",
        names.join(", "),
        schedule.nudges,
        name = campaign.name
    )
}
