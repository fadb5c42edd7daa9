//! `compact`: keys down to where they will stay.

use std::ffi::OsString;

use clap::Args;

use crate::context::{Context, IfMissing};
use crate::failure::{OK, Outcome};

#[derive(Args)]
pub struct CompactArgs {
    /// Begin at this key
    #[arg(long, value_name = "KEY")]
    from: Option<OsString>,
    /// End at this key
    #[arg(long, value_name = "KEY")]
    to: Option<OsString>,
}

pub fn run(context: &Context, args: &CompactArgs) -> Outcome {
    let bytes = |what, text: &Option<OsString>| {
        text.as_ref().map(|text| context.form.argument(what, text)).transpose()
    };
    let (from, to) = (bytes("--from", &args.from)?, bytes("--to", &args.to)?);
    let db = context.write(IfMissing::Fail)?;
    let keyspace = context.keyspace(&db)?;
    db.compact_range(&keyspace, from.as_deref(), to.as_deref())?;
    Ok(OK)
}
