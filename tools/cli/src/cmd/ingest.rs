//! `ingest FILE…`: tables from elsewhere.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use strandline::IngestOptions;

use crate::context::{Context, CreateArg};
use crate::failure::{OK, Outcome};
use crate::human;

#[derive(Args)]
pub struct IngestArgs {
    /// Tables that RocksDB's SstFileWriter wrote, or external tables; no key in two of them
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Remove the files once the store has what is in them
    #[arg(long = "move")]
    move_files: bool,
    #[command(flatten)]
    store: CreateArg,
}

pub fn run(context: &Context, args: &IngestArgs) -> Outcome {
    let db = context.write(args.store.if_missing())?;
    let keyspace = context.keyspace(&db)?;
    let options = IngestOptions::default().move_files(args.move_files);
    let seq = db.ingest(&keyspace, &args.files, options)?;
    let files = args.files.len() as u64;
    context.report(
        format_args!("{} ingested with sequence number {seq}", human::plural(files, "file")),
        &json!({ "files": files, "seq": seq.get() }),
    )?;
    Ok(OK)
}
