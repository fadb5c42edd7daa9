//! `reproduce [NAME]`: experiments of papers, repeated on this machine. No store is needed.

use std::io::{self, Write};
use std::path::PathBuf;

use bench::BenchError;
use bench::reproduce::{EXPERIMENTS, Experiment, Request};
use clap::Args;
use serde_json::{Value, json};

use crate::context::Context;
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
    /// Runs; figures are their medians
    #[arg(long, requires = "name", value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// Where persistent memory is, or what stands for it; otherwise /dev/shm
    #[arg(long, requires = "name", value_name = "DIR")]
    memory: Option<PathBuf>,
    /// Where files on SSD go while it runs; otherwise where temporary files go
    #[arg(long, requires = "name", value_name = "DIR")]
    disk: Option<PathBuf>,
    /// Where figures over time go, as CSV and SVG; otherwise they are not kept. For `mcgill`
    #[arg(long, requires = "name", value_name = "DIR")]
    out: Option<PathBuf>,
}

fn size(text: &str) -> Result<u64, String> {
    strandline::parse_size(text)
        .filter(|size| *size > 0)
        .ok_or_else(|| "expected bytes, such as 2G".into())
}

pub fn run(context: &Context, args: &ReproduceArgs) -> Outcome {
    let Some(name) = &args.name else { return list(context) };
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
        out: args.out.clone(),
    };
    // Line by line: it takes a while.
    let mut out = std::io::stdout();
    let run = if context.json {
        experiment.run(&request, &mut JsonLines { name, line: Vec::new(), out: &mut out })
    } else {
        experiment.run(&request, &mut out)
    };
    match run {
        Ok(()) => Ok(OK),
        Err(BenchError::Usage(text)) => Err(Failure::Usage(text)),
        Err(BenchError::Failed(text)) => Err(Failure::Other(text)),
    }
}

fn list(context: &Context) -> Outcome {
    let mut out = Out::new();
    if context.json {
        let experiments =
            EXPERIMENTS.iter().map(|each| json!({ "name": each.name, "what": each.what }));
        out.json(&json!({ "experiments": experiments.collect::<Vec<Value>>() }))?;
    } else {
        let rows = EXPERIMENTS.map(|experiment| (experiment.name, experiment.what.to_owned()));
        out.rows(&rows)?;
    }
    out.finish()?;
    Ok(OK)
}

/// Each line of a report as an object.
struct JsonLines<'r> {
    name: &'r str,
    line: Vec<u8>,
    out: &'r mut dyn Write,
}

impl Write for JsonLines<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if let Some(line) = self.line.strip_suffix(b"\n") {
                let text = String::from_utf8_lossy(line);
                writeln!(self.out, "{}", json!({ "experiment": self.name, "text": text }))?;
                self.line.clear();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
