//! Records as lines of text or of JSON.

use serde_json::json;
use strandline::{Cursor, ErrorKind};

use crate::context::Context;
use crate::failure::{Failure, OK, Outcome, plain};
use crate::input::Format;
use crate::output::Out;
use crate::stderr::Stderr;
use crate::text::Form;

/// Prints records as lines of text or JSON.
pub struct RecordPrinter {
    form: Form,
    notes: Stderr,
    format: Format,
    keys_only: bool,
    line: Vec<u8>,
    left_out: u64,
}

impl RecordPrinter {
    /// A printer of keys with their values.
    pub fn new(context: &Context, format: Format) -> RecordPrinter {
        let (form, notes) = (context.form, context.stderr());
        RecordPrinter { form, notes, format, keys_only: false, line: Vec::new(), left_out: 0 }
    }

    /// Of keys alone.
    pub fn keys_only(self) -> RecordPrinter {
        RecordPrinter { keys_only: true, ..self }
    }

    /// Prints the record on which `cursor` stands. Where the merge operator refuses its operands it is left out with a note, so
    /// that all others can be printed.
    pub fn record(&mut self, cursor: &Cursor, out: &mut Out) -> Result<(), Failure> {
        let form = self.form;
        let Some(key) = cursor.key() else { return Ok(()) };
        let value = match cursor.value() {
            _ if self.keys_only => None,
            Err(error) if error.kind() == ErrorKind::Hook => {
                self.left_out += 1;
                let left_out = json!({ "key": form.json(key), "message": error.to_string() });
                self.notes.note(
                    format_args!("strandline: left out: {}", plain(&error.to_string())),
                    &json!({ "left_out": left_out }),
                );
                return Ok(());
            }
            value => value?,
        };
        if self.format == Format::Jsonl {
            let key = form.json(key);
            return out.json(&match value {
                Some(value) => json!({ "key": key, "value": form.json(value) }),
                None => json!({ "key": key }),
            });
        }
        self.line.clear();
        form.print(key, &mut self.line);
        if let Some(value) = value {
            self.line.push(b'\t');
            form.print(value, &mut self.line);
        }
        self.line.push(b'\n');
        out.bytes(&self.line)
    }

    /// How many records were left out.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The end of a command that prints records: it fails if some were left out.
    pub fn end(&self) -> Outcome {
        match self.left_out {
            0 => Ok(OK),
            count => Err(Failure::Other(format!(
                "records left out, since their operands cannot be combined: {count}; all others were written"
            ))),
        }
    }
}
