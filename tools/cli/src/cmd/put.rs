//! `put KEY VALUE`.

use std::ffi::OsString;

use clap::Args;
use serde_json::json;
use strandline::Transaction;

use crate::cmd::condition::write_if;
use crate::context::{Context, CreateArg, DurabilityArg};
use crate::failure::{Failure, NEGATIVE, OK, Outcome};
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
    /// Write only if the key has this value; else nothing is written, and the exit code is 1
    #[arg(long = "if", value_name = "OLD", allow_hyphen_values = true)]
    expected: Option<OsString>,
    /// Write only if the key is not there; else nothing is written, and the exit code is 1
    #[arg(long)]
    if_absent: bool,
    #[command(flatten)]
    durability: DurabilityArg,
}

pub fn run(context: &Context, args: &PutArgs) -> Outcome {
    let key = context.form.argument("KEY", &args.key)?;
    let value = context.form.argument("VALUE", &args.value)?;
    if args.expected.is_some() && args.if_absent {
        let text = "--if and --if-absent contradict each other; choose one";
        return Err(Failure::Usage(text.into()));
    }
    let expected =
        args.expected.as_ref().map(|old| context.form.argument("--if", old)).transpose()?;
    let db = context.write(args.store.if_missing())?;
    let keyspace = context.keyspace(&db)?;
    if expected.is_some() || args.if_absent {
        let put = |transaction: &mut Transaction| transaction.put(&keyspace, &key, &value);
        if !write_if(&db, &keyspace, &key, expected.as_deref(), &args.durability, put)? {
            context
                .report("put nothing: the key has not the value asked for", &json!({ "put": 0 }))?;
            return Ok(NEGATIVE);
        }
    } else {
        keyspace.put_with(&key, &value, &args.durability.options())?;
    }
    let bytes = (key.len() + value.len()) as u64;
    context.report(
        format_args!("put 1 key ({})", human::plural(bytes, "byte")),
        &json!({ "put": 1, "bytes": bytes }),
    )?;
    Ok(OK)
}
