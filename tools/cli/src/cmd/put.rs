//! `put KEY VALUE`.

use std::ffi::OsString;

use clap::Args;

use crate::context::{Context, CreateArg};
use crate::failure::{OK, Outcome};

#[derive(Args)]
pub struct PutArgs {
    /// The key
    key: OsString,
    /// The value; write `--` before the key if it begins with a dash
    #[arg(allow_negative_numbers = true)]
    value: OsString,
    #[command(flatten)]
    store: CreateArg,
}

pub fn run(context: &Context, args: &PutArgs) -> Outcome {
    let key = context.form.argument("KEY", &args.key)?;
    let value = context.form.argument("VALUE", &args.value)?;
    let db = context.write(args.store.if_missing())?;
    context.keyspace(&db)?.put(&key, &value)?;
    Ok(OK)
}
