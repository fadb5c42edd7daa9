//! `destroy DIR`: a store is removed.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use strandline::Db;

use crate::context::Context;
use crate::failure::{OK, Outcome};

#[derive(Args)]
pub struct DestroyArgs {
    /// The store; it must be named here
    dir: PathBuf,
}

pub fn run(context: &Context, args: &DestroyArgs) -> Outcome {
    Db::destroy(&args.dir, &context.options)?;
    let dir = args.dir.display().to_string();
    context.report(format_args!("destroyed the store at {dir}"), &json!({ "destroyed": dir }))?;
    Ok(OK)
}
