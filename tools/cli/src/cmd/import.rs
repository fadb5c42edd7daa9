//! `import --rocksdb DIR`: a database of RocksDB as a new store.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use strandline::{RocksdbImportOptions, import_rocksdb};

use crate::context::{Context, IfMissing};
use crate::failure::{Failure, OK, Outcome};
use crate::human;
use crate::render::keyspace;

#[derive(Args)]
#[command(after_help = "\
What comes:
  What RocksDB shows at its last sequence number: each column family as the keyspace of its name. Tables are written anew,
  value files (blob files) are linked where that works, else copied. Operands of uint64add, stringappend and max are those
  of add, append and max.

What is refused, before there is a store:
  A database with a log whose writes are in no table yet: open it with RocksDB, flush and close it.
  Other orders of keys than by bytes, user-defined timestamps, wide columns, operands of other merge operators,
  several paths of tables, zlib and bzip2.

Example:
  strandline import --rocksdb old.rocksdb --db new")]
pub struct ImportArgs {
    /// Directory of the database, which no process has open; it is not changed
    #[arg(long, value_name = "DIR", required = true)]
    rocksdb: PathBuf,
    /// What combines the operands of a column family, whatever the database says of it, such as default=add
    #[arg(long, value_name = "FAMILY=OPERATOR")]
    merge_operator: Vec<String>,
}

pub fn run(context: &Context, args: &ImportArgs) -> Outcome {
    let mut options = RocksdbImportOptions::new();
    for text in &args.merge_operator {
        let Some((family, operator)) = text.split_once('=') else {
            let text = format!("--merge-operator {text}: expected FAMILY=OPERATOR");
            return Err(Failure::Usage(text));
        };
        options = options.merge_operator(family, operator);
    }
    let import = import_rocksdb(&args.rocksdb, &context.db, &context.options, &options)?;
    // The checkpoint becomes a store.
    context.write(IfMissing::Fail)?.close()?;
    let rows = import.keyspaces.iter().map(|keyspace| {
        json!({
            "name": keyspace.name,
            "keys": keyspace.keys,
            "value_files": keyspace.value_files,
        })
    });
    let json = json!({
        "db": context.db.display().to_string(),
        "seq": import.seq.get(),
        "keyspaces": rows.collect::<Vec<Value>>(),
    });
    let db = context.db.display();
    let mut text = format!("{db} holds everything up to sequence number {}", import.seq);
    for each in &import.keyspaces {
        let keys = human::plural(each.keys, "key");
        text += &format!("\nkeyspace {}: {keys}", keyspace::name(&each.name));
    }
    context.report(text, &json)?;
    Ok(OK)
}
