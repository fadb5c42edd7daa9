//! `delete-range BEGIN END`.

use std::ffi::OsString;

use clap::Args;
use serde_json::json;

use crate::context::{Context, IfMissing};
use crate::failure::{OK, Outcome};

#[derive(Args)]
pub struct DeleteRangeArgs {
    /// The first key
    begin: OsString,
    /// The key before which the range ends
    end: OsString,
}

pub fn run(context: &Context, args: &DeleteRangeArgs) -> Outcome {
    let form = context.form;
    let (begin, end) = (form.argument("BEGIN", &args.begin)?, form.argument("END", &args.end)?);
    let db = context.write(IfMissing::Fail)?;
    context.keyspace(&db)?.delete_range(&begin, &end)?;
    context.report(
        format_args!("deleted the keys from {} to before {}", form.text(&begin), form.text(&end)),
        &json!({ "deleted_range": { "begin": form.json(&begin), "end": form.json(&end) } }),
    )?;
    Ok(OK)
}
