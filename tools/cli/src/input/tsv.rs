//! Tab-separated values: one column is the key, others make up the value.

use std::ops::Range;
use std::str::FromStr;

use crate::text::Form;

/// Which columns are the key and the value; counted from 1.
#[derive(Clone, Debug)]
pub struct Columns {
    pub key: usize,
    pub value: Ranges,
}

/// Columns such as `2`, `2-4,7` or `3-`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranges(Vec<(usize, Option<usize>)>);

impl Columns {
    /// The value columns, unless given, are all but the key's.
    pub fn new(key: usize, value: Option<Ranges>) -> Columns {
        let value = value.unwrap_or_else(|| {
            let before = (key > 1).then(|| (1, Some(key - 1)));
            Ranges(before.into_iter().chain([(key + 1, None)]).collect())
        });
        Columns { key, value }
    }
}

impl FromStr for Ranges {
    type Err = String;

    fn from_str(text: &str) -> Result<Ranges, String> {
        let column = |text: &str| text.parse().ok().filter(|column| *column > 0);
        let range = |text: &str| match text.split_once('-') {
            None => column(text).map(|one| (one, Some(one))),
            Some((first, "")) => column(first).map(|first| (first, None)),
            Some((first, last)) => {
                let (first, last) = (column(first)?, column(last)?);
                (first <= last).then_some((first, Some(last)))
            }
        };
        let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
        ranges.map(Ranges).ok_or_else(|| "expected columns such as 2, 2-4,7 or 3-".into())
    }
}

/// Splits lines into keys and values.
pub struct TsvParser {
    columns: Columns,
    form: Form,
    /// Places of the fields of the line at hand.
    fields: Vec<Range<usize>>,
}

impl TsvParser {
    pub fn new(columns: Columns, form: Form) -> TsvParser {
        TsvParser { columns, form, fields: Vec::new() }
    }

    pub fn parse(&mut self, line: &[u8], out: &mut Vec<u8>) -> Result<usize, String> {
        // A carriage return that belongs to the record is written \r.
        let line = match self.form {
            Form::Literal => line,
            _ => line.strip_suffix(b"\r").unwrap_or(line),
        };
        self.split(line);
        let start = out.len();
        self.append(line, self.columns.key, out)?;
        let key_len = out.len() - start;
        let mut first = true;
        for (from, to) in &self.columns.value.0 {
            // `3-` after `1-2` may be nothing; a value of no column at all is a missing tab.
            let to =
                to.unwrap_or(if first { self.fields.len().max(*from) } else { self.fields.len() });
            for column in *from..=to {
                if !std::mem::take(&mut first) {
                    out.push(b'\t');
                }
                self.append(line, column, out)?;
            }
        }
        Ok(key_len)
    }

    fn split(&mut self, line: &[u8]) {
        self.fields.clear();
        let mut start = 0;
        for (at, _) in line.iter().enumerate().filter(|(_, byte)| **byte == b'\t') {
            self.fields.push(start..at);
            start = at + 1;
        }
        self.fields.push(start..line.len());
    }

    fn append(&self, line: &[u8], column: usize, out: &mut Vec<u8>) -> Result<(), String> {
        let field = self.fields.get(column - 1).ok_or_else(|| {
            let plural = if self.fields.len() == 1 { "" } else { "s" };
            format!("no column {column}, only {} column{plural}", self.fields.len())
        })?;
        self.form
            .parse(&line[field.clone()], out)
            .map_err(|problem| format!("column {column}: {problem}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(key: usize, value: Option<&str>, line: &str) -> Result<(String, String), String> {
        let value = value.map(|text| text.parse().expect("columns"));
        let mut parser = TsvParser::new(Columns::new(key, value), Form::Escaped);
        let mut out = Vec::new();
        let key_len = parser.parse(line.as_bytes(), &mut out)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((text(&out[..key_len]), text(&out[key_len..])))
    }

    fn pair(key: &str, value: &str) -> Result<(String, String), String> {
        Ok((key.into(), value.into()))
    }

    #[test]
    fn columns_are_chosen() {
        assert_eq!(parse(1, None, "k\tv"), pair("k", "v"));
        assert_eq!(parse(1, None, "k\t1\t2\t3\r"), pair("k", "1\t2\t3"));
        assert_eq!(parse(2, None, "1\tk"), pair("k", "1"));
        assert_eq!(parse(2, None, "1\tk\t3"), pair("k", "1\t3"));
        assert_eq!(parse(3, Some("2,1"), "1\t2\tk\t4"), pair("k", "2\t1"));
        assert_eq!(parse(1, Some("2-3"), "k\t2\t3\t4"), pair("k", "2\t3"));
        assert_eq!(parse(1, None, "\t"), pair("", ""));
        assert_eq!(parse(1, None, "a\\tb\tc\\nd"), pair("a\tb", "c\nd"));
    }

    #[test]
    fn what_is_missing_is_told() {
        let reason = |key, value, line| parse(key, value, line).expect_err(line);
        assert_eq!(reason(1, None, "k"), "no column 2, only 1 column");
        assert_eq!(reason(1, None, ""), "no column 2, only 1 column");
        assert_eq!(reason(5, None, "a\tb"), "no column 5, only 2 columns");
        assert_eq!(reason(1, Some("2-3"), "a\tb"), "no column 3, only 2 columns");
        assert!(reason(1, None, "a\t\\q").starts_with("column 2: "));
        for text in ["", "0", "2-1", "-", "a", "1,,2"] {
            assert!(text.parse::<Ranges>().is_err(), "{text}");
        }
    }
}
