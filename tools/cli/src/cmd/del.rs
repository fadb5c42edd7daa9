//! `del KEY`.

use std::ffi::OsString;

use clap::Args;
use serde_json::json;
use strandline::Transaction;

use crate::cmd::condition::write_if;
use crate::context::{Context, DurabilityArg, IfMissing};
use crate::failure::{NEGATIVE, OK, Outcome};

#[derive(Args)]
pub struct DelArgs {
    /// The key
    key: OsString,
    /// Delete only if the key has this value; else nothing is deleted, and the exit code is 1
    #[arg(long = "if", value_name = "OLD", allow_hyphen_values = true)]
    expected: Option<OsString>,
    #[command(flatten)]
    durability: DurabilityArg,
}

pub fn run(context: &Context, args: &DelArgs) -> Outcome {
    let key = context.form.argument("KEY", &args.key)?;
    let db = context.write(IfMissing::Fail)?;
    let keyspace = context.keyspace(&db)?;
    if let Some(old) = &args.expected {
        let old = context.form.argument("--if", old)?;
        let delete = |transaction: &mut Transaction| transaction.delete(&keyspace, &key);
        if !write_if(&db, &keyspace, &key, Some(&old), &args.durability, delete)? {
            context.report(
                "deleted nothing: the key has not the value asked for",
                &json!({ "deleted": 0 }),
            )?;
            return Ok(NEGATIVE);
        }
    } else {
        keyspace.delete_with(&key, &args.durability.options())?;
    }
    context.report("deleted 1 key", &json!({ "deleted": 1 }))?;
    Ok(OK)
}
