//! `reproduce [NAME]`: experiments of papers, repeated on this machine. No store is needed.

use bench::reproduce::{EXPERIMENTS, Effort, Experiment};
use clap::Args;

use crate::failure::{Failure, OK, Outcome};
use crate::output::Out;

#[derive(Args)]
pub struct Reproduce {
    /// Which experiment; without it, all are listed
    name: Option<String>,
    /// A fraction of the operations: shows that it works, and little more
    #[arg(long, requires = "name")]
    quick: bool,
    /// So many keys, at most as many as memory has room for; for experiments that have keys
    #[arg(long, requires = "name", conflicts_with = "quick", value_parser = clap::value_parser!(u64).range(1..))]
    keys: Option<u64>,
}

pub fn run(args: &Reproduce) -> Outcome {
    let Some(name) = &args.name else {
        let mut out = Out::new();
        let rows = EXPERIMENTS.map(|experiment| (experiment.name, experiment.what.to_owned()));
        out.rows(&rows)?;
        out.finish()?;
        return Ok(OK);
    };
    let Some(experiment) = Experiment::find(name) else {
        return Err(Failure::Usage(format!(
            "{name} is no experiment; strandline reproduce lists them"
        )));
    };
    let effort = match args.keys {
        Some(keys) => Effort::Keys(keys),
        None if args.quick => Effort::Quick,
        None => Effort::Usual,
    };
    // Line by line: it takes a while.
    experiment.run(effort, &mut std::io::stdout()).map_err(Failure::Other)?;
    Ok(OK)
}
