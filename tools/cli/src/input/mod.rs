//! Records from lines of text: TSV, JSON lines, or what `export` writes.

mod export;
mod jsonl;
mod lines;
mod tsv;

pub use lines::{Line, Lines};
pub use tsv::{Columns, Ranges};

use clap::ValueEnum;
use strandline::KeyspaceOptions;

use crate::text::Form;
use export::ExportParser;
use tsv::TsvParser;

/// Version of what `export` writes.
pub const EXPORT_VERSION: u64 = 1;

/// A text format of records, one a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Key and value between tabs, with escapes
    Tsv,
    /// {"key": …, "value": …}
    Jsonl,
}

/// A text format that `load` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InputFormat {
    /// Key and value between tabs, with escapes
    Tsv,
    /// {"key": …, "value": …}
    Jsonl,
    /// What `strandline export` writes: keyspaces, which are made with their options if they are not there, and records
    Export,
}

/// What a line of input says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParsedLine {
    /// A record, whose key has so many bytes.
    Record { key_len: usize },
    /// Nothing but that an export begins.
    Begin,
    /// The keyspace of the records that follow.
    Keyspace { name: String, options: KeyspaceOptions },
    /// The last line of an export, with its counts.
    End { keyspaces: u64, records: u64 },
}

/// Reads the records of one input.
pub enum RecordParser {
    Tsv(TsvParser),
    Jsonl,
    Export(ExportParser),
}

impl RecordParser {
    pub fn new(format: InputFormat, columns: Columns, form: Form) -> RecordParser {
        match format {
            InputFormat::Tsv => RecordParser::Tsv(TsvParser::new(columns, form)),
            InputFormat::Jsonl => RecordParser::Jsonl,
            InputFormat::Export => RecordParser::Export(ExportParser::default()),
        }
    }

    /// Parses `line`; the key and the value of a record are appended to `out`. After an error `out` may hold a part of
    /// the record.
    pub fn parse(&mut self, line: &[u8], out: &mut Vec<u8>) -> Result<ParsedLine, String> {
        let key_len = match self {
            RecordParser::Tsv(tsv) => tsv.parse(line, out)?,
            RecordParser::Jsonl => jsonl::parse(line, out)?,
            RecordParser::Export(export) => return export.parse(line, out),
        };
        Ok(ParsedLine::Record { key_len })
    }
}
