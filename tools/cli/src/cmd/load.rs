//! `load [FILE|-]`: records from lines of text.

mod loader;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use serde_json::json;

use crate::context::{Context, CreateArg};
use crate::failure::{Failure, NEGATIVE, OK, Outcome};
use crate::human;
use crate::input::{Columns, InputFormat, Ranges, RecordParser};
use crate::output::Out;
use crate::progress::Progress;
use crate::render::persisted::persisted_json;
use loader::{Loader, Settings, Tally};

const INPUT_BUFFER: usize = 1 << 20;

#[derive(Args)]
pub struct LoadArgs {
    /// File to read; - or nothing: standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// Format of the lines
    #[arg(long, value_enum, default_value = "tsv")]
    format: InputFormat,
    /// Records that are committed as one; fewer where their bytes fill a batch
    #[arg(long, value_name = "N", default_value = "100", value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    batch: usize,
    /// TSV: column of the key, counted from 1
    #[arg(long, value_name = "N", default_value = "1", value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    key_column: usize,
    /// TSV: columns of the value, joined by tabs, such as 2, 2-4,7 or 3- [default: all but the key]
    #[arg(long, value_name = "COLUMNS")]
    value_columns: Option<Ranges>,
    /// Lines end with a zero byte instead of a newline (with --literal: find -printf '%p\t%s\0')
    #[arg(long)]
    null: bool,
    /// End with exit code 1 if any line was rejected
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    store: CreateArg,
}

pub fn run(context: &Context, args: LoadArgs) -> Outcome {
    if args.format == InputFormat::Export && context.named_keyspace().is_some() {
        let text = "load --format export: the export names its keyspaces; leave --keyspace out";
        return Err(Failure::Usage(text.into()));
    }
    let (input, size) = open_input(&args.file)?;
    let db = context.write_or_heap(args.store.if_missing())?;
    let keyspace = context.keyspace(&db)?;
    let columns = Columns::new(args.key_column, args.value_columns);
    let settings = Settings {
        format: args.format,
        parser: RecordParser::new(args.format, columns, context.form),
        records_max: args.batch,
    };
    let progress = Progress::new(context.stderr(), size);
    let mut loader = Loader::new(settings, db, keyspace, progress);
    let fed = loader.feed(input, if args.null { 0 } else { b'\n' });
    let fed = match args.format {
        InputFormat::Export => fed.and_then(|()| loader.is_whole()),
        InputFormat::Tsv | InputFormat::Jsonl => fed,
    };
    let elapsed = loader.finish();
    summary(context, &loader, elapsed, fed.as_ref().err())?;
    fed?;
    Ok(if args.strict && loader.tally().rejects > 0 { NEGATIVE } else { OK })
}

/// The input and its size, where that is known.
fn open_input(path: &Path) -> Result<(impl BufRead, Option<u64>), Failure> {
    let failed = |error| Failure::Other(format!("reading {}: {error}", path.display()));
    let file = if path.as_os_str() == "-" {
        // Standard input as a file: unlike `stdin`, it tells its size where a file was redirected to it.
        File::from(std::io::stdin().as_fd().try_clone_to_owned().map_err(failed)?)
    } else {
        File::open(path).map_err(failed)?
    };
    let meta = file.metadata().map_err(failed)?;
    if meta.is_dir() {
        return Err(Failure::Other(format!(
            "reading {}: it is a directory; name a file",
            path.display()
        )));
    }
    let size = meta.is_file().then_some(meta.len());
    Ok((BufReader::with_capacity(INPUT_BUFFER, file), size))
}

fn summary(
    context: &Context,
    loader: &Loader,
    elapsed: Duration,
    stopped: Option<&Failure>,
) -> Result<(), Failure> {
    let Tally { records, bytes, rejects } = loader.tally();
    let seconds = elapsed.as_secs_f64();
    let rate = if seconds > 0.0 { records as f64 / seconds } else { 0.0 };
    let durability = loader.db().durability().to_string();
    let persisted = loader.db().region().stats();
    let mut out = Out::new();
    if context.json {
        out.json(&json!({
            "records": records,
            "bytes": bytes,
            "rejects": rejects,
            "seconds": seconds,
            "records_per_second": rate.round(),
            "durability": durability,
            "persisted": persisted_json(&persisted),
            "complete": stopped.is_none(),
        }))?;
    } else {
        let complete = if stopped.is_none() { "" } else { " (stopped before the end)" };
        out.rows(&[
            ("records", format!("{}{complete}", human::count(records))),
            ("bytes", format!("{bytes} ({})", human::bytes(bytes))),
            ("rejects", human::count(rejects)),
            ("seconds", format!("{seconds:.3}")),
            ("records/s", human::count(rate as u64)),
            ("durability", durability),
            ("to the media", human::bytes(persisted.media_bytes())),
            ("fences", human::count(persisted.fences)),
        ])?;
    }
    out.finish()
}
