//! What `export` writes: JSON lines of records, and lines that say which keyspace they belong to and where they end.

use serde_json::Value;
use strandline::KeyspaceOptions;

use super::{EXPORT_VERSION, ParsedLine, jsonl};

/// Reads an export from its first line to its last.
#[derive(Default)]
pub struct ExportParser {
    place: Place,
}

/// How far an export was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// Before the first line.
    #[default]
    Head,
    /// Between the first line and the first keyspace.
    Keyspaces,
    /// Within a keyspace.
    Records,
    /// Behind the last line.
    End,
}

impl ExportParser {
    /// Parses a line; a record's bytes are appended to `out`.
    pub fn parse(&mut self, line: &[u8], out: &mut Vec<u8>) -> Result<ParsedLine, String> {
        let parsed = line_alone(line, out);
        let (parsed, next) = match (self.place, parsed?) {
            (Place::Head, parsed @ ParsedLine::Begin) => (parsed, Place::Keyspaces),
            (Place::Head, _) => {
                let head = format!("{{\"export\": {EXPORT_VERSION}}}");
                return Err(format!("this is no export: its first line is not {head}"));
            }
            (Place::End, _) => return Err("a line behind the end of the export".into()),
            (_, ParsedLine::Begin) => return Err("a second export begins".into()),
            (Place::Keyspaces, ParsedLine::Record { .. }) => {
                return Err("a record before the first keyspace".into());
            }
            (_, parsed @ ParsedLine::Keyspace { .. }) => (parsed, Place::Records),
            (_, parsed @ ParsedLine::End { .. }) => (parsed, Place::End),
            (Place::Records, parsed @ ParsedLine::Record { .. }) => (parsed, Place::Records),
        };
        self.place = next;
        Ok(parsed)
    }
}

/// What a line says, wherever it stands.
fn line_alone(line: &[u8], out: &mut Vec<u8>) -> Result<ParsedLine, String> {
    let value: Value = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    if let Some(version) = value.get("export") {
        return match version.as_u64() == Some(EXPORT_VERSION) {
            true => Ok(ParsedLine::Begin),
            false => {
                Err(format!("an export of version {version}; this command reads {EXPORT_VERSION}"))
            }
        };
    }
    if let Some(name) = value.get("keyspace") {
        let name = name.as_str().ok_or("the name of a keyspace is no string")?.to_owned();
        return Ok(ParsedLine::Keyspace { name, options: options(value.get("options"))? });
    }
    if let Some(end) = value.get("end") {
        let count = |what| {
            let count = end.get(what).and_then(Value::as_u64);
            count.ok_or_else(|| format!("the last line has no count of {what}"))
        };
        return Ok(ParsedLine::End { keyspaces: count("keyspaces")?, records: count("records")? });
    }
    Ok(ParsedLine::Record { key_len: jsonl::record(&value, out)? })
}

/// Options of a keyspace: none where the line has none.
fn options(value: Option<&Value>) -> Result<KeyspaceOptions, String> {
    let mut options = KeyspaceOptions::new();
    let Some(value) = value else { return Ok(options) };
    let members = value.as_object().ok_or("the options of a keyspace are no object")?;
    for (name, value) in members {
        let text = value.as_str().ok_or_else(|| format!("the option {name} is no string"))?;
        options.set(name, text).map_err(|error| error.context().to_owned())?;
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = r#"{"export": 1}"#;
    const KEYSPACE: &str = r#"{"keyspace": "a", "options": {"filter_bits": "0"}}"#;
    const RECORD: &str = r#"{"key": "ab", "value": "c"}"#;
    const END: &str = r#"{"end": {"keyspaces": 1, "records": 1}}"#;

    /// What the last of `lines` says.
    fn last(lines: &[&str]) -> Result<ParsedLine, String> {
        let mut parser = ExportParser::default();
        let (last, front) = lines.split_last().expect("lines");
        front.iter().for_each(|line| {
            parser.parse(line.as_bytes(), &mut Vec::new()).expect("in order");
        });
        parser.parse(last.as_bytes(), &mut Vec::new())
    }

    #[test]
    fn lines_of_all_kinds() {
        assert_eq!(last(&[HEAD]), Ok(ParsedLine::Begin));
        let options = KeyspaceOptions::new().filter_bits(0);
        let keyspace = ParsedLine::Keyspace { name: "a".into(), options };
        assert_eq!(last(&[HEAD, KEYSPACE]), Ok(keyspace));
        assert_eq!(last(&[HEAD, KEYSPACE, RECORD]), Ok(ParsedLine::Record { key_len: 2 }));
        let end = ParsedLine::End { keyspaces: 1, records: 1 };
        assert_eq!(last(&[HEAD, KEYSPACE, RECORD, END]), Ok(end));
    }

    #[test]
    fn lines_out_of_order_are_refused() {
        for lines in [
            &[RECORD][..],
            &[KEYSPACE],
            &[END],
            &[HEAD, HEAD],
            &[HEAD, RECORD],
            &[HEAD, KEYSPACE, HEAD],
            &[HEAD, KEYSPACE, END, RECORD],
            &[HEAD, KEYSPACE, END, KEYSPACE],
            &[HEAD, KEYSPACE, END, END],
        ] {
            assert!(last(lines).is_err(), "{lines:?}");
        }
    }

    #[test]
    fn what_is_no_line_of_an_export_is_refused() {
        assert!(last(&[r#"{"export": 2}"#]).is_err());
        for wrong in [
            r#"{"keyspace": 1}"#,
            r#"{"keyspace": "a", "options": {"colour": "red"}}"#,
            r#"{"keyspace": "a", "options": {"filter_bits": 0}}"#,
            r#"{"keyspace": "a", "options": 1}"#,
            r#"{"end": {}}"#,
            r#"{"key": "a"}"#,
            "x",
        ] {
            assert!(last(&[HEAD, KEYSPACE, wrong]).is_err(), "{wrong}");
        }
    }
}
