//! `bench`: db_bench workloads. Their flags are not ours, so nothing here reads them.

use std::ffi::OsString;

use bench::BenchError;
use clap::Args;

use crate::failure::{FAILED, Failure, Outcome};

#[derive(Args)]
pub struct BenchArgs {
    /// Options of bench
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub args: Vec<OsString>,
}

pub fn run(args: impl IntoIterator<Item = OsString>) -> Outcome {
    let text = |arg: OsString| {
        let text = arg.into_string();
        text.map_err(|arg| Failure::Usage(format!("bench: {} is not UTF-8", arg.display())))
    };
    let args: Vec<String> = args.into_iter().map(text).collect::<Result<_, _>>()?;
    match bench::run(&args) {
        Ok(code) => Ok(u8::try_from(code).unwrap_or(FAILED)),
        Err(BenchError::Usage(text)) => Err(Failure::Usage(format!("bench: {text}"))),
        Err(BenchError::Failed(text)) => Err(Failure::Other(format!("bench: {text}"))),
    }
}
