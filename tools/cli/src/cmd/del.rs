//! `del KEY [--to END]`.

use std::ffi::OsString;

use clap::Args;

use crate::context::{Context, IfMissing};
use crate::failure::{OK, Outcome};

#[derive(Args)]
pub struct DelArgs {
    /// The key
    key: OsString,
    /// Delete all keys from KEY up to before this one, by one record
    #[arg(long, value_name = "END")]
    to: Option<OsString>,
}

pub fn run(context: &Context, args: &DelArgs) -> Outcome {
    let key = context.form.argument("KEY", &args.key)?;
    let db = context.write(IfMissing::Fail)?;
    let keyspace = context.keyspace(&db)?;
    match &args.to {
        Some(end) => keyspace.delete_range(&key, &context.form.argument("END", end)?)?,
        None => keyspace.delete(&key)?,
    }
    Ok(OK)
}
