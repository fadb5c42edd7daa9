//! `put KEY VALUE`.

use std::ffi::OsString;

use clap::Args;
use serde_json::json;

use crate::context::{Context, CreateArg, DurabilityArg};
use crate::failure::{OK, Outcome};
use crate::human;

#[derive(Args)]
pub struct PutArgs {
    /// The key
    key: OsString,
    /// The value; write `--` before the key if it begins with a dash
    #[arg(allow_negative_numbers = true)]
    value: OsString,
    #[command(flatten)]
    store: CreateArg,
    #[command(flatten)]
    durability: DurabilityArg,
}

pub fn run(context: &Context, args: &PutArgs) -> Outcome {
    let key = context.form.argument("KEY", &args.key)?;
    let value = context.form.argument("VALUE", &args.value)?;
    let db = context.write(args.store.if_missing())?;
    context.keyspace(&db)?.put_with(&key, &value, &args.durability.options())?;
    let bytes = (key.len() + value.len()) as u64;
    context.report(
        format_args!("put 1 key ({})", human::plural(bytes, "byte")),
        &json!({ "put": 1, "bytes": bytes }),
    )?;
    Ok(OK)
}
