//! `del KEY`.

use std::ffi::OsString;

use clap::Args;
use serde_json::json;

use crate::context::{Context, DurabilityArg, IfMissing};
use crate::failure::{OK, Outcome};

#[derive(Args)]
pub struct DelArgs {
    /// The key
    key: OsString,
    #[command(flatten)]
    durability: DurabilityArg,
}

pub fn run(context: &Context, args: &DelArgs) -> Outcome {
    let key = context.form.argument("KEY", &args.key)?;
    let db = context.write(IfMissing::Fail)?;
    context.keyspace(&db)?.delete_with(&key, &args.durability.options())?;
    context.report("deleted 1 key", &json!({ "deleted": 1 }))?;
    Ok(OK)
}
