//! `export`: the whole store as lines of JSON that `load --format export` takes, or as a database of RocksDB.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use strandline::{ExportedFamily, Keyspace, ReadOptions, Rewritten};

use crate::context::Context;
use crate::failure::{Failure, OK, Outcome};
use crate::human;
use crate::input::{EXPORT_VERSION, Format};
use crate::output::Out;
use crate::render::keyspace::{self, options_json};
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

RocksDB:
  With --rocksdb tables and value files are linked into DIR where that works, else copied, beside a manifest that RocksDB
  6.27 and later opens. Each keyspace is the column family of its name. Values with a time to live go without one, and
  operands of operators that RocksDB lacks are combined; a line says so. The way back is import.

Examples:
  strandline export --db a | strandline load --db b --create --format export
  strandline export --db a --rocksdb a.rocksdb")]
pub struct ExportArgs {
    /// Make a database of RocksDB in this new directory instead, best on the device that holds the tables
    #[arg(long, value_name = "DIR")]
    rocksdb: Option<PathBuf>,
}

pub fn run(context: &Context, args: &ExportArgs) -> Outcome {
    match &args.rocksdb {
        Some(dir) => write_rocksdb(context, dir),
        None => write_lines(context),
    }
}

fn write_rocksdb(context: &Context, dir: &Path) -> Outcome {
    if context.named_keyspace().is_some() {
        let text = "export --rocksdb takes all keyspaces; leave --keyspace out";
        return Err(Failure::Usage(text.into()));
    }
    let export = context.read()?.export_rocksdb(dir)?;
    let rewritten = |family: &ExportedFamily| family.rewritten.as_ref().map(why);
    let rows = export.families.iter().map(|family| {
        json!({
            "name": family.name,
            "tables": family.tables,
            "value_files": family.value_files,
            "rewritten": rewritten(family),
            "operator_left_out": family.operator_left_out,
        })
    });
    let json = json!({
        "dir": dir.display().to_string(),
        "seq": export.seq.get(),
        "families": rows.collect::<Vec<Value>>(),
    });
    let keyspaces = human::plural(export.families.len() as u64, "keyspace");
    let mut text = format!(
        "{} holds {keyspaces}, everything up to sequence number {}",
        dir.display(),
        export.seq
    );
    for family in &export.families {
        if let Some(why) = rewritten(family) {
            text += &format!("\nkeyspace {} was written anew: {why}", keyspace::name(&family.name));
        }
        if let Some(operator) = &family.operator_left_out {
            text += &format!(
                "\nkeyspace {} goes without its merge operator {operator}, which RocksDB lacks; give it again where the family \
                 comes back: import --merge-operator {}={operator}",
                keyspace::name(&family.name),
                family.name
            );
        }
    }
    context.report(text, &json)?;
    Ok(OK)
}

fn why(rewritten: &Rewritten) -> String {
    match rewritten {
        Rewritten::TimeToLive => "its values live on without a time to live".into(),
        Rewritten::Operands { operator: Some(name) } => {
            format!("operands of {name}, which RocksDB lacks, are combined")
        }
        Rewritten::Operands { operator: None } => {
            "operands of the store's merge operator are combined".into()
        }
        _ => "its tables had a form that RocksDB would misread".into(),
    }
}

fn write_lines(context: &Context) -> Outcome {
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
        // Where files lie is a matter of this store alone.
        let mut options = keyspace.options();
        (options.placement, options.tiers) = (None, None);
        let options = options_json(&options);
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
