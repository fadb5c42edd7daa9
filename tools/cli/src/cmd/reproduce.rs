//! `reproduce [NAME]`: experiments of papers, repeated on this machine. No store is needed.

use std::path::PathBuf;

use bench::reproduce::{EXPERIMENTS, Experiment, Request};
use clap::Args;

use crate::failure::{Failure, OK, Outcome};
use crate::output::Out;

#[derive(Args)]
pub struct ReproduceArgs {
    /// Which experiment; without it, all are listed
    name: Option<String>,
    /// A fraction of the operations: shows that it works, and little more
    #[arg(long, requires = "name")]
    quick: bool,
    /// So many keys, at most as many as memory has room for; for experiments that have keys
    #[arg(long, requires = "name", conflicts_with = "quick", value_parser = clap::value_parser!(u64).range(1..))]
    keys: Option<u64>,
    /// Bytes of keys and values, such as 2G; for experiments that fill stores, where there are several sizes the largest
    #[arg(long, requires = "name", value_name = "SIZE", value_parser = size)]
    size: Option<u64>,
    /// Runs of which the median is told
    #[arg(long, requires = "name", value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// Where persistent memory is, or what stands for it; otherwise /dev/shm
    #[arg(long, requires = "name", value_name = "DIR")]
    memory: Option<PathBuf>,
    /// Where files on SSD go while it runs; otherwise where temporary files go
    #[arg(long, requires = "name", value_name = "DIR")]
    disk: Option<PathBuf>,
}

fn size(text: &str) -> Result<u64, String> {
    strandline::parse_size(text)
        .filter(|size| *size > 0)
        .ok_or_else(|| "expected bytes, such as 2G".into())
}

pub fn run(args: &ReproduceArgs) -> Outcome {
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
    let request = Request {
        quick: args.quick,
        keys: args.keys,
        size: args.size,
        runs: args.runs,
        pm: args.memory.clone(),
        disk: args.disk.clone(),
    };
    // Line by line: it takes a while.
    experiment.run(&request, &mut std::io::stdout()).map_err(Failure::Other)?;
    Ok(OK)
}
