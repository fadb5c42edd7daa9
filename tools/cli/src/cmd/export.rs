//! `export`: the whole store as lines of JSON that `load --format export` takes.

use clap::Args;
use serde_json::json;
use strandline::{Keyspace, ReadOptions};

use crate::context::Context;
use crate::failure::{Failure, OK, Outcome};
use crate::input::EXPORT_VERSION;
use crate::output::Out;
use crate::render::record::RecordPrinter;

#[derive(Args)]
#[command(after_help = "\
Lines:
  {\"export\": 1}                              first: the version of this format
  {\"keyspace\": \"NAME\"}                     before the records of a keyspace
  {\"key\": ..., \"value\": ...}               a record; bytes that are not UTF-8 are {\"hex\": \"...\"}
  {\"end\": {\"keyspaces\": N, \"records\": N}}  last: without it the export is not whole

Example:
  strandline export --db a | strandline load --db b --create --format export")]
pub struct ExportArgs {}

pub fn run(context: &Context, _args: &ExportArgs) -> Outcome {
    let db = context.read()?;
    let names = match context.named_keyspace() {
        Some(name) => vec![name.to_owned()],
        None => db.keyspaces(),
    };
    // Found before the first line is written, so that a wrong name writes nothing.
    let keyspaces = names.iter().map(|name| db.keyspace(name)).collect::<Result<Vec<_>, _>>()?;
    let mut out = Out::new();
    let mut printer =
        RecordPrinter { form: context.form, json: true, keys_only: false, line: Vec::new() };
    out.json(&json!({ "export": EXPORT_VERSION }))?;
    let mut records = 0;
    for keyspace in &keyspaces {
        out.json(&json!({ "keyspace": keyspace.name() }))?;
        records += write_records(keyspace, &mut printer, &mut out)?;
    }
    out.json(&json!({ "end": { "keyspaces": keyspaces.len(), "records": records } }))?;
    out.finish()?;
    Ok(OK)
}

fn write_records(
    keyspace: &Keyspace,
    printer: &mut RecordPrinter,
    out: &mut Out,
) -> Result<u64, Failure> {
    let mut cursor = keyspace.cursor(&ReadOptions::default())?;
    let mut records = 0;
    cursor.seek_to_first()?;
    while cursor.valid() {
        printer.record(&cursor, out)?;
        records += 1;
        cursor.next()?;
    }
    Ok(records)
}
