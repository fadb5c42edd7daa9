//! Standard output: buffered, and with a closed pipe as an end rather than a panic.

use std::fmt::Display;
use std::io::{BufWriter, StdoutLock, Write};

use serde_json::Value;

use crate::failure::Failure;

const BUFFER: usize = 64 << 10;

/// Standard output.
pub struct Out {
    writer: BufWriter<StdoutLock<'static>>,
}

impl Out {
    pub fn new() -> Out {
        Out { writer: BufWriter::with_capacity(BUFFER, std::io::stdout().lock()) }
    }

    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.writer.write_all(bytes).map_err(|error| Failure::output(&error))
    }

    pub fn line(&mut self, text: impl Display) -> Result<(), Failure> {
        writeln!(self.writer, "{text}").map_err(|error| Failure::output(&error))
    }

    /// One line of JSON.
    pub fn json(&mut self, value: &Value) -> Result<(), Failure> {
        self.line(value)
    }

    /// Lines of a name and a value each.
    pub fn rows(&mut self, rows: &[(&str, String)]) -> Result<(), Failure> {
        let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        rows.iter().try_for_each(|(name, value)| self.line(format_args!("{name:width$}  {value}")))
    }

    /// A table: its first row names the columns; columns of numbers stand to the right.
    pub fn table(&mut self, rows: &[Vec<String>]) -> Result<(), Failure> {
        let columns = rows.first().map_or(0, Vec::len);
        let cell =
            |row: &Vec<String>, at: usize| row.get(at).map_or(0, |text| text.chars().count());
        let widths: Vec<usize> = (0..columns)
            .map(|at| rows.iter().map(|row| cell(row, at)).max().unwrap_or(0))
            .collect();
        let is_number = |text: &String| text.parse::<f64>().is_ok() || text == "-";
        let right: Vec<bool> = (0..columns)
            .map(|at| rows.iter().skip(1).all(|row| row.get(at).is_some_and(is_number)))
            .collect();
        for row in rows {
            let mut line = String::new();
            for (at, text) in row.iter().enumerate() {
                let width = widths.get(at).copied().unwrap_or(0);
                let text = match right.get(at) {
                    Some(true) => format!("{text:>width$}"),
                    _ => format!("{text:<width$}"),
                };
                line.push_str(&text);
                line.push_str("  ");
            }
            self.line(line.trim_end())?;
        }
        Ok(())
    }

    /// Writes what is buffered. What is not finished may not be seen.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.writer.flush().map_err(|error| Failure::output(&error))
    }
}
