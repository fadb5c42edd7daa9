//! `scan`: keys in order, from and to where one likes.

use std::ffi::OsString;
use std::ops::Bound;

use clap::Args;
use serde_json::json;
use strandline::ReadOptions;

use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::output::Out;
use crate::render::record::RecordPrinter;

#[derive(Args)]
pub struct ScanArgs {
    /// Begin at this key
    #[arg(long, value_name = "KEY")]
    from: Option<OsString>,
    /// End before this key
    #[arg(long, value_name = "KEY")]
    to: Option<OsString>,
    /// Only keys that begin so
    #[arg(long)]
    prefix: Option<OsString>,
    /// At most so many records
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// From the last key to the first
    #[arg(long)]
    reverse: bool,
    /// Print no values, and do not read them
    #[arg(long)]
    keys_only: bool,
    /// Print the number of records only
    #[arg(long)]
    count: bool,
}

pub fn run(context: &Context, args: &ScanArgs) -> Outcome {
    let options = bounds(context, args)?;
    let (_db, keyspace) = context.read_keyspace()?;
    let mut iter = keyspace.cursor(&options)?;
    if args.reverse {
        iter.seek_to_last()?
    } else {
        iter.seek_to_first()?
    }
    let limit = args.limit.unwrap_or(u64::MAX);
    let mut out = Out::new();
    let printer = RecordPrinter::new(context, context.record_format());
    let mut printer = if args.keys_only { printer.keys_only() } else { printer };
    let mut count = 0;
    while count < limit && iter.valid() {
        if !args.count {
            printer.record(&iter, &mut out)?;
        }
        count += 1;
        if args.reverse { iter.prev()? } else { iter.next()? }
    }
    match (args.count, context.json) {
        (true, true) => out.json(&json!({ "records": count }))?,
        (true, false) => out.line(count)?,
        (false, _) => {}
    }
    out.finish()?;
    printer.end()
}

/// What all of `--from`, `--to` and `--prefix` admit.
fn bounds(context: &Context, args: &ScanArgs) -> Result<ReadOptions<'static>, Failure> {
    let bytes = |what, text: &Option<OsString>| {
        text.as_ref().map(|text| context.form.argument(what, text)).transpose()
    };
    let from = bytes("--from", &args.from)?.map(Bound::Included);
    let to = bytes("--to", &args.to)?.map(Bound::Excluded);
    let prefix = bytes("--prefix", &args.prefix)?;
    let within =
        prefix.map_or_else(ReadOptions::default, |prefix| ReadOptions::default().prefix(prefix));
    // Lower bounds are all included and upper ones all excluded: their keys alone decide.
    let key = |bound: &Bound<Vec<u8>>| match bound {
        Bound::Included(key) | Bound::Excluded(key) => key.clone(),
        Bound::Unbounded => Vec::new(),
    };
    let lower = within.lower.into_iter().chain(from).max_by_key(key);
    let upper = within.upper.into_iter().chain(to).min_by_key(key);
    let mut within = ReadOptions::default();
    (within.lower, within.upper) = (lower, upper);
    Ok(within)
}
