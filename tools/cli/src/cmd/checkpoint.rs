//! `checkpoint DIR`: a copy of the store as of one moment.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::context::Context;
use crate::failure::{OK, Outcome};

#[derive(Args)]
pub struct CheckpointArgs {
    /// The new directory, best on the device that holds the tables: they are linked then
    dir: PathBuf,
}

pub fn run(context: &Context, args: &CheckpointArgs) -> Outcome {
    let seq = context.read()?.checkpoint(&args.dir)?;
    let dir = args.dir.display();
    context.report(
        format_args!("{dir} holds everything up to sequence number {seq}"),
        &json!({ "dir": dir.to_string(), "seq": seq.get() }),
    )?;
    Ok(OK)
}
