//! Records on their way from an input to the store: in batches, with rejects by line number.

use std::io::BufRead;
use std::ops::Range;
use std::time::Duration;

use serde_json::json;
use strandline::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use strandline::{Batch, Db, ErrorKind, Keyspace, KeyspaceOptions};

use crate::failure::Failure;
use crate::human;
use crate::input::{InputFormat, Line, Lines, ParsedLine, RecordParser};
use crate::progress::Progress;
use crate::render::keyspace;

const REJECTS_SHOWN: u64 = 20;
/// What a record takes beside its key and value, at most.
const RECORD_OVERHEAD: u64 = 128;

/// What was loaded so far.
#[derive(Clone, Copy, Default)]
pub struct Tally {
    pub records: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
    pub rejects: u64,
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

/// What is read, and how much of it is committed as one.
pub struct Settings {
    pub format: InputFormat,
    pub parser: RecordParser,
    pub records_max: usize,
}

/// Loads records into a store.
pub struct Loader {
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
    /// A loader into `keyspace`, or into those that an export names.
    pub fn new(settings: Settings, db: Db, keyspace: Keyspace, progress: Progress) -> Loader {
        Loader {
            parser: settings.parser,
            batch: Batch::new(),
            pending: Pending::default(),
            records_max: settings.records_max,
            bytes_max: db.properties().zone_bytes / 4,
            tally: Tally::default(),
            progress,
            format: settings.format,
            keyspaces: 0,
            end: None,
            db,
            keyspace,
        }
    }

    pub fn tally(&self) -> Tally {
        self.tally
    }

    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Takes the progress away; how long the load took.
    pub fn finish(&self) -> Duration {
        let elapsed = self.progress.elapsed();
        self.progress.finish();
        elapsed
    }

    /// Loads all of `input`, whose lines end with `end`.
    pub fn feed(&mut self, input: impl BufRead, end: u8) -> Result<(), Failure> {
        let mut lines = Lines::new(input, end);
        loop {
            let next = lines
                .next()
                .map_err(|error| Failure::Other(format!("reading the input: {error}")))?;
            let Some(line) = next else { break };
            let parsed = match line {
                Line::Text(text) => self.parse(text),
                Line::TooLong => Err("the line is longer than any record".into()),
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
        // Where files go matters to no record, and may have been set since.
        let meant = |options: &KeyspaceOptions| {
            let mut options = options.clone();
            (options.placement, options.tiers) = (None, None);
            options
        };
        if meant(&found.options()) != meant(&options) {
            let said = |options: &KeyspaceOptions| match options.is_empty() {
                true => "none".into(),
                false => options.to_string(),
            };
            return Err(format!(
                "keyspace {shown} is there with other options ({}, in the export {}); load into a new store, or drop \
                 that keyspace first",
                said(&found.options()),
                said(&options)
            ));
        }
        Ok(found)
    }

    /// An export must have its last line, and as many keyspaces and records as that tells.
    pub fn is_whole(&self) -> Result<(), Failure> {
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
    if len > max { Err(format!("a {what} of {len} bytes; it has at most {max}")) } else { Ok(()) }
}

/// Whether the records themselves are at fault, rather than the store.
fn refused(error: &strandline::Error) -> bool {
    matches!(error.kind(), ErrorKind::LimitExceeded | ErrorKind::InvalidArgument)
}
