//! `checkpoint DIR`: a copy of the store as of one moment.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::context::Context;
use crate::failure::{OK, Outcome};
use crate::output::Out;

#[derive(Args)]
pub struct CheckpointArgs {
    /// The new directory, best on the device that holds the tables: they are linked then
    dir: PathBuf,
}

pub fn run(context: &Context, args: &CheckpointArgs) -> Outcome {
    let seq = context.read()?.checkpoint(&args.dir)?;
    let mut out = Out::new();
    if context.json {
        out.json(&json!({ "dir": args.dir.display().to_string(), "seq": seq }))?;
    } else {
        out.line(format_args!(
            "{} holds everything up to sequence number {seq}",
            args.dir.display()
        ))?;
    }
    out.finish()?;
    Ok(OK)
}
