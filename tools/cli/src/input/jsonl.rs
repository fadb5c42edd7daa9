//! JSON lines: `{"key": "…", "value": …}`.

use serde_json::Value;

use crate::text::from_json;

/// Strings stand for their text and `{"hex": "…"}` for those bytes; a value of any other kind is stored as
/// its compact text.
pub fn parse(line: &[u8], out: &mut Vec<u8>) -> Result<usize, String> {
    let line: Value = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    record(&line, out)
}

/// The record that `line` is; see [`parse`].
pub fn record(line: &Value, out: &mut Vec<u8>) -> Result<usize, String> {
    let Value::Object(members) = line else {
        return Err("no object; expected {\"key\": …, \"value\": …}".into());
    };
    if let Some(other) = members.keys().find(|name| *name != "key" && *name != "value") {
        return Err(format!("unknown member {other:?}; expected key and value"));
    }
    let key = members.get("key").ok_or("no member \"key\"")?;
    let value = members.get("value").ok_or("no member \"value\"")?;
    let start = out.len();
    from_json(key, out)
        .ok_or("the key is neither a string nor {\"hex\": \"…\"}")?
        .map_err(|problem| format!("key: {problem}"))?;
    let key_len = out.len() - start;
    match from_json(value, out) {
        Some(done) => done.map_err(|problem| format!("value: {problem}"))?,
        None => out.extend_from_slice(value.to_string().as_bytes()),
    }
    Ok(key_len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<String, String> {
        let mut out = Vec::new();
        let key_len = parse(format!(r#"{{"key": "k", "value": {text}}}"#).as_bytes(), &mut out)?;
        assert_eq!(key_len, 1);
        Ok(String::from_utf8_lossy(&out[1..]).into_owned())
    }

    #[test]
    fn values_of_every_kind() {
        for (given, stored) in [
            (r#""a\tb""#, "a\tb"),
            (r#"{"hex": "414243"}"#, "ABC"),
            (r#"{"hex": 1}"#, r#"{"hex":1}"#),
            (r#"{ "b": [1, 2], "a": null }"#, r#"{"b":[1,2],"a":null}"#),
            ("true", "true"),
            ("1.50", "1.50"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
        ] {
            assert_eq!(value(given).as_deref(), Ok(stored));
        }
        assert!(value(r#"{"hex": "4"}"#).is_err());
    }

    #[test]
    fn what_is_no_record_is_refused() {
        for line in [
            "",
            "[]",
            r#"{"key": "a"}"#,
            r#"{"value": "a"}"#,
            r#"{"key": 1, "value": 2}"#,
            r#"{"key": "a", "value": "b", "more": 1}"#,
            r#"{"key": "a", "value": "b"} x"#,
        ] {
            assert!(parse(line.as_bytes(), &mut Vec::new()).is_err(), "{line}");
        }
    }
}
