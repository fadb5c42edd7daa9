//! `del KEY`.

use std::ffi::OsString;

use clap::Args;

use crate::context::Context;
use crate::failure::{OK, Outcome};

#[derive(Args)]
pub struct Del {
    /// The key
    key: OsString,
}

pub fn run(context: &Context, args: &Del) -> Outcome {
    let key = context.form.argument("KEY", &args.key)?;
    let db = context.write_existing()?;
    db.keyspace(&context.keyspace)?.delete(&key)?;
    Ok(OK)
}
