//! Records from lines of text: TSV or JSON lines.

mod jsonl;
mod lines;
mod tsv;

pub use lines::{Line, Lines};
pub use tsv::{Columns, Ranges};

use clap::ValueEnum;

use crate::text::Form;
use tsv::TsvParser;

/// A text format of records, one a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Key and value between tabs, with escapes
    Tsv,
    /// {"key": …, "value": …}
    Jsonl,
}

/// Reads the records of one input.
pub enum RecordParser {
    Tsv(TsvParser),
    Jsonl,
}

impl RecordParser {
    pub fn new(format: Format, columns: Columns, form: Form) -> RecordParser {
        match format {
            Format::Tsv => RecordParser::Tsv(TsvParser::new(columns, form)),
            Format::Jsonl => RecordParser::Jsonl,
        }
    }

    /// Appends the key and the value of the record in `line` to `out` and returns the key's length. After
    /// an error `out` may hold a part of the record.
    pub fn parse(&mut self, line: &[u8], out: &mut Vec<u8>) -> Result<usize, String> {
        match self {
            RecordParser::Tsv(tsv) => tsv.parse(line, out),
            RecordParser::Jsonl => jsonl::parse(line, out),
        }
    }
}
