//! What `export` writes: JSON lines of records, and lines that say which keyspace they belong to and where they end.

use serde_json::Value;

use super::{EXPORT_VERSION, ParsedLine, jsonl};

/// Parses a line; a record's bytes are appended to `out`.
pub fn parse(line: &[u8], out: &mut Vec<u8>) -> Result<ParsedLine, String> {
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
        let name = name.as_str().ok_or("the name of a keyspace is no string")?;
        return Ok(ParsedLine::Keyspace(name.to_owned()));
    }
    if let Some(end) = value.get("end") {
        let records = end.get("records").and_then(Value::as_u64);
        return Ok(ParsedLine::End {
            records: records.ok_or("the end tells no count of records")?,
        });
    }
    Ok(ParsedLine::Record { key_len: jsonl::record(&value, out)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_kinds() {
        let parsed = |line: &str| parse(line.as_bytes(), &mut Vec::new());
        assert_eq!(parsed(r#"{"export": 1}"#), Ok(ParsedLine::Begin));
        assert_eq!(parsed(r#"{"keyspace": "a"}"#), Ok(ParsedLine::Keyspace("a".into())));
        assert_eq!(parsed(r#"{"end": {"records": 7}}"#), Ok(ParsedLine::End { records: 7 }));
        assert_eq!(parsed(r#"{"key": "ab", "value": "c"}"#), Ok(ParsedLine::Record { key_len: 2 }));
        for wrong in
            [r#"{"export": 2}"#, r#"{"keyspace": 1}"#, r#"{"end": {}}"#, r#"{"key": "a"}"#, "x"]
        {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
