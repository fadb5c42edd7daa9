//! `compact`: keys down to the level where they stay.

use std::ffi::OsString;

use clap::Args;
use serde_json::json;

use crate::context::{Context, IfMissing};
use crate::failure::{OK, Outcome};
use crate::human;
use crate::render;

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
    let properties = db.properties();
    let done = properties.ssd.map(|ssd| ssd.compactions).unwrap_or_default();
    let written = done.written_bytes + done.pm_written_bytes;
    context.report(
        format_args!(
            "compacted keyspace {}: {}, {} written",
            render::keyspace::name(keyspace.name()),
            human::plural(done.entries, "record"),
            human::bytes(written)
        ),
        &json!({
            "compacted": keyspace.name(),
            "entries": done.entries,
            "moves": done.moves,
            "written_bytes": written,
        }),
    )?;
    Ok(OK)
}
