//! Bytes as text, and text as bytes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use serde_json::{Value, json};

use crate::failure::Failure;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// How keys and values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `\t \n \r \\` and `\xNN`; everything else stands for itself.
    Escaped,
    /// Two hexadecimal digits for each byte.
    Hex,
    /// As they are.
    Literal,
}

impl Form {
    /// Appends the bytes that `text` stands for; the error tells what is wrong with it.
    pub fn parse(self, text: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        match self {
            Form::Escaped => unescape(text, out),
            Form::Hex => from_hex(text, out),
            Form::Literal => {
                out.extend_from_slice(text);
                Ok(())
            }
        }
    }

    /// The bytes that the argument `what` stands for.
    pub fn argument(self, what: &str, text: &OsStr) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        self.parse(text.as_bytes(), &mut bytes)
            .map_err(|problem| Failure::Usage(format!("{what}: {problem}")))?;
        Ok(bytes)
    }

    /// Appends `bytes` as text.
    pub fn print(self, bytes: &[u8], out: &mut Vec<u8>) {
        match self {
            Form::Escaped => escape(bytes, out),
            Form::Hex => out.extend(bytes.iter().flat_map(|byte| digits(*byte))),
            Form::Literal => out.extend_from_slice(bytes),
        }
    }

    /// `bytes` as text; in literal form bytes that are no UTF-8 are replaced.
    pub fn text(self, bytes: &[u8]) -> String {
        let mut text = Vec::new();
        self.print(bytes, &mut text);
        String::from_utf8_lossy(&text).into_owned()
    }

    /// `bytes` as JSON: a string if they are UTF-8, else `{"hex": "…"}`.
    pub fn json(self, bytes: &[u8]) -> Value {
        match std::str::from_utf8(bytes) {
            Ok(text) if self != Form::Hex => Value::from(text),
            _ => {
                let text: String =
                    bytes.iter().flat_map(|byte| digits(*byte)).map(char::from).collect();
                json!({ "hex": text })
            }
        }
    }
}

/// The bytes that a JSON value stands for in a record: a string its text, `{"hex": "…"}` those bytes.
/// `None`: it is neither.
pub fn from_json(value: &Value, out: &mut Vec<u8>) -> Option<Result<(), String>> {
    match value {
        Value::String(text) => {
            out.extend_from_slice(text.as_bytes());
            Some(Ok(()))
        }
        Value::Object(members) if members.len() == 1 => {
            let text = members.get("hex")?.as_str()?;
            Some(from_hex(text.as_bytes(), out))
        }
        _ => None,
    }
}

fn digits(byte: u8) -> [u8; 2] {
    [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
}

fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    for chunk in bytes.utf8_chunks() {
        let text = chunk.valid();
        let mut done = 0;
        for (at, special) in text.char_indices().filter(|(_, c)| *c == '\\' || c.is_control()) {
            out.extend_from_slice(&text.as_bytes()[done..at]);
            done = at + special.len_utf8();
            match special {
                '\t' => out.extend_from_slice(b"\\t"),
                '\n' => out.extend_from_slice(b"\\n"),
                '\r' => out.extend_from_slice(b"\\r"),
                '\\' => out.extend_from_slice(b"\\\\"),
                // Control characters would act on the reader's terminal.
                _ => text.as_bytes()[at..done].iter().for_each(|byte| escape_byte(*byte, out)),
            }
        }
        out.extend_from_slice(&text.as_bytes()[done..]);
        chunk.invalid().iter().for_each(|byte| escape_byte(*byte, out));
    }
}

fn escape_byte(byte: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\\x");
    out.extend_from_slice(&digits(byte));
}

fn unescape(mut text: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    while let Some(at) = text.iter().position(|byte| *byte == b'\\') {
        out.extend_from_slice(&text[..at]);
        let (byte, len) = match text.get(at + 1) {
            Some(b't') => (b'\t', 2),
            Some(b'n') => (b'\n', 2),
            Some(b'r') => (b'\r', 2),
            Some(b'\\') => (b'\\', 2),
            Some(b'x') => match text.get(at + 2..at + 4).and_then(pair_value) {
                Some(byte) => (byte, 4),
                None => return Err("\\x needs two hexadecimal digits".into()),
            },
            Some(other) => {
                return Err(format!(
                    "\\{} is no escape; write \\\\ for a backslash, or use --literal",
                    other.escape_ascii()
                ));
            }
            None => {
                return Err(
                    "a lone \\ at the end; write \\\\ for a backslash, or use --literal".into()
                );
            }
        };
        out.push(byte);
        text = &text[at + len..];
    }
    out.extend_from_slice(text);
    Ok(())
}

fn from_hex(text: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    if !text.len().is_multiple_of(2) {
        return Err(format!("{} hexadecimal digits; each byte takes two", text.len()));
    }
    for pair in text.chunks_exact(2) {
        out.push(
            pair_value(pair)
                .ok_or_else(|| format!("{}: not two hexadecimal digits", pair.escape_ascii()))?,
        );
    }
    Ok(())
}

fn pair_value(pair: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (high, low) = (digit(*pair.first()?)?, digit(*pair.get(1)?)?);
    u8::try_from(high << 4 | low).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(form: Form, bytes: &[u8]) -> String {
        let mut out = Vec::new();
        form.print(bytes, &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn every_byte_string_comes_back() {
        let mut samples: Vec<Vec<u8>> = (0..=255_u8).map(|byte| vec![byte]).collect();
        samples.push((0..=255).collect());
        samples.push("a\\tb\t\u{85}é\u{1f600}\r\n".as_bytes().to_vec());
        samples.push(Vec::new());
        for bytes in samples {
            for form in [Form::Escaped, Form::Hex] {
                let text = printed(form, &bytes);
                assert!(!text.chars().any(char::is_control), "{text:?}");
                let mut back = Vec::new();
                form.parse(text.as_bytes(), &mut back).expect("parses");
                assert_eq!(back, bytes);
            }
            let mut back = Vec::new();
            assert_eq!(from_json(&Form::Escaped.json(&bytes), &mut back), Some(Ok(())));
            assert_eq!(back, bytes);
        }
    }

    #[test]
    fn text_is_readable() {
        assert_eq!(printed(Form::Escaped, b"a\tb\\\xff\x00"), r"a\tb\\\xff\x00");
        assert_eq!(printed(Form::Escaped, "grün".as_bytes()), "grün");
        assert_eq!(printed(Form::Hex, b"\x00\xAf"), "00af");
    }

    #[test]
    fn what_is_no_text_is_refused() {
        let refused = |form: Form, text: &[u8]| form.parse(text, &mut Vec::new()).is_err();
        for text in [r"\q", r"\", r"a\x", r"\x1", r"\xg0", r"\x+1"] {
            assert!(refused(Form::Escaped, text.as_bytes()), "{text}");
        }
        for text in ["1", "zz", "+1"] {
            assert!(refused(Form::Hex, text.as_bytes()), "{text}");
        }
    }
}
