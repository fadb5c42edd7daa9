//! `load [FILE|-]`: records from lines of text, in batches, with rejects by line number.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use serde_json::json;
use strandline::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use strandline::{Batch, Db, ErrorKind, Keyspace, KeyspaceOptions};

use crate::context::{Context, CreateArg};
use crate::failure::{Failure, NEGATIVE, OK, Outcome};
use crate::human;
use crate::input::{Columns, InputFormat, Line, Lines, ParsedLine, Ranges, RecordParser};
use crate::output::Out;
use crate::progress::Progress;
use crate::render::keyspace;
use crate::render::persisted::persisted_json;

const INPUT_BUFFER: usize = 1 << 20;
const REJECTS_SHOWN: u64 = 20;
/// What a record takes beside its key and value, at most.
const RECORD_OVERHEAD: u64 = 128;

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
    let mut loader = Loader {
        parser: RecordParser::new(args.format, columns, context.form),
        batch: Batch::new(),
        pending: Pending::default(),
        records_max: args.batch,
        bytes_max: db.properties().zone_bytes / 4,
        tally: Tally::default(),
        progress: Progress::new(context.stderr(), size),
        format: args.format,
        keyspaces: 0,
        end: None,
        db,
        keyspace,
    };
    let fed = loader.feed(input, if args.null { 0 } else { b'\n' });
    let fed = match args.format {
        InputFormat::Export => fed.and_then(|()| loader.is_whole()),
        InputFormat::Tsv | InputFormat::Jsonl => fed,
    };
    let seconds = loader.progress.elapsed();
    loader.progress.finish();
    summary(context, &loader, seconds, fed.as_ref().err())?;
    fed?;
    Ok(if args.strict && loader.tally.rejects > 0 { NEGATIVE } else { OK })
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
        return Err(Failure::Other(format!("reading {}: it is a directory", path.display())));
    }
    let size = meta.is_file().then_some(meta.len());
    Ok((BufReader::with_capacity(INPUT_BUFFER, file), size))
}

/// What was loaded so far.
#[derive(Default)]
struct Tally {
    records: u64,
    /// Bytes of keys and values.
    bytes: u64,
    rejects: u64,
}

/// Records that were read and not yet committed.
#[derive(Default)]
struct Pending {
    bytes: Vec<u8>,
    records: Vec<Record>,
    /// Bytes that the records may take in the store.
    stored: u64,
}

struct Record {
    line: u64,
    key: Range<usize>,
    value: Range<usize>,
}

/// What a line says, its record among the pending bytes.
enum FedLine {
    Record { key: Range<usize>, value: Range<usize> },
    Begin,
    Keyspace { name: String, options: KeyspaceOptions },
    End(ExportEnd),
}

/// What the last line of an export counts.
struct ExportEnd {
    keyspaces: u64,
    records: u64,
}

impl Pending {
    fn clear(&mut self) {
        self.bytes.clear();
        self.records.clear();
        self.stored = 0;
    }
}

struct Loader {
    db: Db,
    keyspace: Keyspace,
    parser: RecordParser,
    batch: Batch,
    pending: Pending,
    records_max: usize,
    /// Bytes of records that surely fit one commit.
    bytes_max: u64,
    tally: Tally,
    progress: Progress,
    format: InputFormat,
    /// Keyspaces of an export that were met.
    keyspaces: u64,
    /// The last line of an export.
    end: Option<ExportEnd>,
}

impl Loader {
    /// Loads all of `input`, whose lines end with `end`.
    fn feed(&mut self, input: impl BufRead, end: u8) -> Result<(), Failure> {
        let mut lines = Lines::new(input, end);
        loop {
            let next = lines
                .next()
                .map_err(|error| Failure::Other(format!("reading the input: {error}")))?;
            let Some(line) = next else { break };
            let parsed = match line {
                Line::Text(text) => self.parse(text),
                Line::TooLong => Err("longer than any record".into()),
            };
            let number = lines.number();
            match parsed {
                Ok(FedLine::Record { key, value }) => {
                    self.add(Record { line: number, key, value })?;
                }
                Ok(FedLine::Keyspace { name, options }) => {
                    // What is pending belongs to the keyspace before.
                    self.commit()?;
                    let made = self.keyspace_made(&name, options);
                    self.keyspace = made.map_err(|problem| ends_at(number, &problem))?;
                    self.keyspaces += 1;
                }
                Ok(FedLine::Begin) => (),
                Ok(FedLine::End(end)) => self.end = Some(end),
                // It may have named a keyspace: what follows is not to go to the one before.
                Err(problem) if self.format == InputFormat::Export => {
                    self.commit()?;
                    return Err(ends_at(number, &problem));
                }
                Err(problem) => self.reject(number, &problem),
            }
            self.progress.tick(self.tally.records, lines.bytes());
        }
        self.commit()
    }

    /// Puts the record in `text` behind the pending ones; tells where it is.
    fn parse(&mut self, text: &[u8]) -> Result<FedLine, String> {
        let bytes = &mut self.pending.bytes;
        let start = bytes.len();
        let parsed = self.parser.parse(text, bytes).and_then(|parsed| match parsed {
            ParsedLine::Record { key_len } => {
                let split = start + key_len;
                let (key, value) = (start..split, split..bytes.len());
                within("key", key.len(), KEY_BYTES_MAX)?;
                within("value", value.len(), VALUE_BYTES_MAX)?;
                Ok(FedLine::Record { key, value })
            }
            ParsedLine::Begin => Ok(FedLine::Begin),
            ParsedLine::Keyspace { name, options } => Ok(FedLine::Keyspace { name, options }),
            ParsedLine::End { keyspaces, records } => {
                Ok(FedLine::End(ExportEnd { keyspaces, records }))
            }
        });
        if parsed.is_err() {
            bytes.truncate(start);
        }
        parsed
    }

    /// The keyspace `name`, which has `options` or is made with them.
    fn keyspace_made(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace, String> {
        let shown = keyspace::name(name);
        let found = match self.db.keyspace(name) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.db.create_keyspace_with(name, options.clone())
            }
            found => found,
        };
        let found = found.map_err(|error| format!("keyspace {shown}: {error}"))?;
        if *found.options() != options {
            let said = |options: &KeyspaceOptions| match options.is_empty() {
                true => "none".into(),
                false => options.to_string(),
            };
            return Err(format!(
                "keyspace {shown} is there with other options ({}, in the export {}); load into a new store, or drop \
                 that keyspace first",
                said(found.options()),
                said(&options)
            ));
        }
        Ok(found)
    }

    /// An export must have its last line, and as many keyspaces and records as that tells.
    fn is_whole(&self) -> Result<(), Failure> {
        let records = self.tally.records + self.tally.rejects;
        let problem = match &self.end {
            Some(end) if (end.keyspaces, end.records) == (self.keyspaces, records) => return Ok(()),
            Some(end) => format!(
                "lines of the export are missing: its last line counts {} in {}, and {} in {} came before it",
                human::plural(end.records, "record"),
                human::plural(end.keyspaces, "keyspace"),
                human::plural(records, "record"),
                human::plural(self.keyspaces, "keyspace"),
            ),
            None => format!(
                "the export was cut short: it ends after {} without its last line",
                human::plural(records, "record")
            ),
        };
        let remedy = "what came is loaded; export the store again and load all of it";
        Err(Failure::Other(format!("load: {problem}; {remedy}")))
    }

    fn add(&mut self, record: Record) -> Result<(), Failure> {
        let stored = (record.key.len() + record.value.len()) as u64 + RECORD_OVERHEAD;
        // The record's bytes are behind the others already, so the batch it does not fit goes first and
        // leaves those bytes to the next one.
        if self.pending.stored + stored > self.bytes_max && !self.pending.records.is_empty() {
            let key_len = record.key.len();
            let bytes = self.pending.bytes.split_off(record.key.start);
            self.commit()?;
            self.pending.bytes = bytes;
            let end = self.pending.bytes.len();
            self.pending.records.push(Record { key: 0..key_len, value: key_len..end, ..record });
        } else {
            self.pending.records.push(record);
        }
        self.pending.stored += stored;
        if self.pending.records.len() >= self.records_max || self.pending.stored > self.bytes_max {
            self.commit()?;
        }
        Ok(())
    }

    /// Commits the pending records as one; if they are refused as such, one by one.
    fn commit(&mut self) -> Result<(), Failure> {
        let records = std::mem::take(&mut self.pending.records);
        if let Err(error) = self.write(&records) {
            if !refused(&error) {
                return Err(self.stopped(error, &records));
            }
            for record in records.chunks(1) {
                match self.write(record) {
                    Ok(()) => {}
                    Err(error) if refused(&error) => self.reject(record[0].line, error.context()),
                    Err(error) => return Err(self.stopped(error, record)),
                }
            }
        }
        self.pending.records = records;
        self.pending.clear();
        Ok(())
    }

    fn write(&mut self, records: &[Record]) -> strandline::Result<()> {
        self.batch.clear();
        for Record { key, value, .. } in records {
            let bytes = &self.pending.bytes;
            self.batch.put(&self.keyspace, &bytes[key.clone()], &bytes[value.clone()]);
        }
        self.db.write(&self.batch)?;
        self.tally.records += records.len() as u64;
        self.tally.bytes += self.batch.bytes() as u64;
        Ok(())
    }

    fn stopped(&self, error: strandline::Error, records: &[Record]) -> Failure {
        if let Some(first) = records.first() {
            let (line, note) = (first.line, "not loaded from here on");
            let json = json!({ "line": line, "note": note });
            self.progress.note(&format!("line {line}: {note}"), &json);
        }
        Failure::Engine(error)
    }

    fn reject(&mut self, line: u64, problem: &str) {
        self.tally.rejects += 1;
        if self.tally.rejects <= REJECTS_SHOWN {
            let json = json!({ "line": line, "rejected": problem });
            self.progress.note(&format!("line {line}: {problem}"), &json);
        } else if self.tally.rejects == REJECTS_SHOWN + 1 {
            let note = "more rejects: only counted from here on";
            self.progress.note(note, &json!({ "note": note }));
        }
    }
}

/// The load ends at a line that is no part of an export, or that the store refuses.
fn ends_at(line: u64, problem: &str) -> Failure {
    Failure::Other(format!("load: line {line}: {problem}; nothing from this line on is loaded"))
}

fn within(what: &str, len: usize, max: usize) -> Result<(), String> {
    if len > max { Err(format!("a {what} of {len} bytes, at most {max}")) } else { Ok(()) }
}

/// Whether the records themselves are at fault, rather than the store.
fn refused(error: &strandline::Error) -> bool {
    matches!(error.kind(), ErrorKind::LimitExceeded | ErrorKind::InvalidArgument)
}

fn summary(
    context: &Context,
    loader: &Loader,
    elapsed: Duration,
    stopped: Option<&Failure>,
) -> Result<(), Failure> {
    let Tally { records, bytes, rejects } = loader.tally;
    let seconds = elapsed.as_secs_f64();
    let rate = if seconds > 0.0 { records as f64 / seconds } else { 0.0 };
    let durability = loader.db.durability().to_string();
    let persisted = loader.db.region().stats();
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
