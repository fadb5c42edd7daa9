//! `export`: the whole store as lines of JSON that `load --format export` takes.

use clap::Args;
use serde_json::json;
use strandline::{Keyspace, ReadOptions};

use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::input::{EXPORT_VERSION, Format};
use crate::output::Out;
use crate::render::keyspace::options_json;
use crate::render::record::RecordPrinter;

#[derive(Args)]
#[command(after_help = "\
Lines:
  {\"export\": 1}                                first: the version of this format
  {\"keyspace\": \"NAME\", \"options\": {...}}      before the records of a keyspace; its options are those of
                                               keyspace create
  {\"key\": ..., \"value\": ...}                 a record; bytes that are not UTF-8 are {\"hex\": \"...\"}
  {\"end\": {\"keyspaces\": N, \"records\": N}}    last: without it the export is not whole

Values of a keyspace with a time to live begin it anew when they are loaded. Options of the store, such as
--pm-size, are not exported. A keyspace with an operator or a filter of the application is loaded by that alone.

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
    let mut printer = RecordPrinter::new(context, Format::Jsonl);
    out.json(&json!({ "export": EXPORT_VERSION }))?;
    let mut records = 0;
    for keyspace in &keyspaces {
        let options = options_json(keyspace.options());
        out.json(&json!({ "keyspace": keyspace.name(), "options": options }))?;
        records += write_records(keyspace, &mut printer, &mut out)?;
    }
    out.json(&json!({ "end": { "keyspaces": keyspaces.len(), "records": records } }))?;
    out.finish()?;
    printer.end()
}

fn write_records(
    keyspace: &Keyspace,
    printer: &mut RecordPrinter,
    out: &mut Out,
) -> Result<u64, Failure> {
    let mut cursor = keyspace.cursor(&ReadOptions::default())?;
    let (mut records, left_out) = (0, printer.left_out());
    cursor.seek_to_first()?;
    while cursor.valid() {
        printer.record(&cursor, out)?;
        records += 1;
        cursor.next()?;
    }
    Ok(records - (printer.left_out() - left_out))
}
