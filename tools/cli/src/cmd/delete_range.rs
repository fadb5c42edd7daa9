//! `delete-range BEGIN END`.

use std::ffi::OsString;

use clap::Args;
use serde_json::json;

use crate::context::{Context, IfMissing};
use crate::failure::{OK, Outcome};

#[derive(Args)]
pub struct DeleteRangeArgs {
    /// The first key that goes
    begin: OsString,
    /// The key before which the range ends; it stays. One that is BEGIN makes an empty range
    end: OsString,
}

pub fn run(context: &Context, args: &DeleteRangeArgs) -> Outcome {
    let form = context.form;
    let (begin, end) = (form.argument("BEGIN", &args.begin)?, form.argument("END", &args.end)?);
    let db = context.write(IfMissing::Fail)?;
    context.keyspace(&db)?.delete_range(&begin, &end)?;
    let (from, before, is_empty) = (form.text(&begin), form.text(&end), begin == end);
    let line = if is_empty {
        format!("deleted nothing: the range from '{from}' to before '{before}' is empty")
    } else {
        format!("deleted the keys from '{from}' to before '{before}'")
    };
    let range = json!({ "begin": form.json(&begin), "end": form.json(&end), "empty": is_empty });
    context.report(line, &json!({ "deleted_range": range }))?;
    Ok(OK)
}
