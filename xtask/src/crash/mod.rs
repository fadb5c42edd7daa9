//! `cargo xtask crash`: campaigns that cut the power, and mutants that they must notice.

mod args;
mod consumer;
mod engines;
mod explore;
mod hunt;
mod mutants;
mod plan;
mod shapes;
mod sites;
mod store;
mod system;
mod task;
mod threaded;
mod threads;
mod whole;

use std::time::Instant;

use sim::Counters;

use args::CrashArgs;

pub fn run(args: &[String]) -> Result<(), String> {
    let args = CrashArgs::parse(args)?;
    let plan = plan::plan();
    let begun = Instant::now();
    let mut total = Counters::default();
    let mut crowded = threaded::Counts::default();
    if args.campaigns {
        let found = explore::all(&plan, &args, &mut total)?;
        let also = threaded::all(&args, &mut crowded)?;
        if !found && !also {
            return Err(format!("no campaign is called {}", args.campaign));
        }
    }
    let mut wrong = Vec::new();
    if args.mutants {
        wrong = hunt::all(&plan, &args, &mut total);
        let (sought, survived) = threaded::hunt(&args);
        total.totals.mutants += sought;
        total.totals.killed += sought - survived.len() as u64;
        wrong.extend(survived);
        let known = mutants::mutants().iter().any(|mutant| mutant.name().starts_with(&args.bug));
        if sought == 0 && !known {
            return Err(format!("no mutant is called {}", args.bug));
        }
    }
    println!("{total}{crowded}");
    println!("{:>20} {:.1} s", "took", begun.elapsed().as_secs_f64());
    if !wrong.is_empty() {
        return Err(wrong.join("\n"));
    }
    if args.is_everything() {
        plan.floors
            .check(&total)
            .and_then(|()| threaded::check_floors(&crowded))
            .map_err(|low| format!("the campaign proves too little:\n{low}"))?;
    }
    println!("ok");
    Ok(())
}
