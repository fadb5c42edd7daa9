//! Records from lines of text: TSV or JSON lines.

mod jsonl;
mod lines;
mod tsv;

pub use lines::{Line, Lines};
pub use tsv::{Columns, Ranges};

use clap::ValueEnum;

use crate::text::Form;

/// A text format of records, one a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Key and value between tabs, with escapes
    Tsv,
    /// {"key": …, "value": …}
    Jsonl,
}

/// Reads the records of one input.
pub enum Parser {
    Tsv(tsv::Parser),
    Jsonl,
}

impl Parser {
    pub fn new(format: Format, columns: Columns, form: Form) -> Parser {
        match format {
            Format::Tsv => Parser::Tsv(tsv::Parser::new(columns, form)),
            Format::Jsonl => Parser::Jsonl,
        }
    }

    /// Appends the key and the value of the record in `line` to `out` and returns the key's length. After
    /// an error `out` may hold a part of the record.
    pub fn parse(&mut self, line: &[u8], out: &mut Vec<u8>) -> Result<usize, String> {
        match self {
            Parser::Tsv(tsv) => tsv.parse(line, out),
            Parser::Jsonl => jsonl::parse(line, out),
        }
    }
}
