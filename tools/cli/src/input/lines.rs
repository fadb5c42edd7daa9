//! Lines of an input of any length: one without line ends must not fill the memory.

use std::io::{BufRead, ErrorKind, Result};

use strandline::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

/// No record is longer as text: a byte takes up to six characters (`\u0000` in JSON).
const LINE_BYTES_MAX: usize = 6 * (KEY_BYTES_MAX + VALUE_BYTES_MAX) + 4096;

/// What [`Lines::next`] came upon.
pub enum Line<'l> {
    /// A line, without its end.
    Text(&'l [u8]),
    /// A line longer than any record, skipped.
    TooLong,
}

/// Lines of an input, numbered from 1.
pub struct Lines<R> {
    input: R,
    end: u8,
    line: Vec<u8>,
    number: u64,
    bytes: u64,
    max: usize,
}

impl<R: BufRead> Lines<R> {
    /// `end`: the byte that ends a line.
    pub fn new(input: R, end: u8) -> Lines<R> {
        Lines { input, end, line: Vec::new(), number: 0, bytes: 0, max: LINE_BYTES_MAX }
    }

    /// Number of the line that was read last.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Bytes read.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next line; `None` at the end of the input.
    pub fn next(&mut self) -> Result<Option<Line<'_>>> {
        self.line.clear();
        let mut begun = false;
        let mut too_long = false;
        loop {
            let buffer = match self.input.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if buffer.is_empty() {
                break;
            }
            begun = true;
            let end = buffer.iter().position(|byte| *byte == self.end);
            let taken = end.unwrap_or(buffer.len());
            too_long |= self.line.len() + taken > self.max;
            if !too_long {
                self.line.extend_from_slice(&buffer[..taken]);
            }
            let used = taken + usize::from(end.is_some());
            self.input.consume(used);
            self.bytes += used as u64;
            if end.is_some() {
                break;
            }
        }
        if !begun {
            return Ok(None);
        }
        self.number += 1;
        Ok(Some(if too_long { Line::TooLong } else { Line::Text(&self.line) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_lengths() {
        let input = std::io::BufReader::with_capacity(3, &b"\nab\nabcdefgh\nabcde\nend"[..]);
        let mut lines = Lines::new(input, b'\n');
        lines.max = 5;
        let mut seen = Vec::new();
        while let Some(line) = lines.next().expect("memory can be read") {
            seen.push(match line {
                Line::Text(text) => String::from_utf8_lossy(text).into_owned(),
                Line::TooLong => "(too long)".into(),
            });
        }
        assert_eq!(seen, ["", "ab", "(too long)", "abcde", "end"]);
        assert_eq!((lines.number(), lines.bytes()), (5, 22));
    }
}
