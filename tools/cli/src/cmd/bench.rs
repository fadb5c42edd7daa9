//! `bench`: db_bench workloads. Their flags are not ours, so nothing here reads them.

use std::ffi::OsString;

use clap::Args;

use crate::failure::{FAILED, Failure, Outcome};

#[derive(Args)]
pub struct BenchArgs {
    /// Options of bench
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

pub fn run(args: impl Iterator<Item = OsString>) -> Outcome {
    let args: Vec<String> = args
        .map(|arg| {
            let text = arg.into_string();
            text.map_err(|arg| Failure::Usage(format!("bench: {} is no UTF-8", arg.display())))
        })
        .collect::<Result<_, _>>()?;
    match bench::run(&args) {
        Ok(code) => Ok(u8::try_from(code).unwrap_or(FAILED)),
        Err(problem) => Err(Failure::Other(problem)),
    }
}
