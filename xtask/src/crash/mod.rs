//! `cargo xtask crash`: campaigns that cut the power, and mutants that they must notice.

mod args;
mod explore;
mod hunt;
mod mutants;
mod plan;
mod system;
mod threads;
mod whole;

use std::time::Instant;

use sim::Counters;

use args::Args;

pub fn run(args: &[String]) -> Result<(), String> {
    let args = Args::parse(args)?;
    let plan = plan::plan();
    let begun = Instant::now();
    let mut total = Counters::default();
    if args.campaigns {
        explore::all(&plan, &args, &mut total)?;
    }
    let mut wrong = Vec::new();
    if args.mutants {
        wrong = hunt::all(&plan, &args, &mut total);
    }
    println!("{total}");
    println!("{:>20} {:.1} s", "took", begun.elapsed().as_secs_f64());
    if !wrong.is_empty() {
        return Err(wrong.join("\n"));
    }
    if args.is_everything() {
        plan.floors
            .check(&total)
            .map_err(|low| format!("the campaign proves too little:\n{low}"))?;
    }
    println!("ok");
    Ok(())
}
