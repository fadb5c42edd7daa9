//! Records as lines of text or of JSON.

use serde_json::json;
use strandline::Cursor;

use crate::failure::Failure;
use crate::output::Out;
use crate::text::Form;

/// Prints records as lines of text or JSON.
pub struct RecordPrinter {
    pub form: Form,
    pub json: bool,
    pub keys_only: bool,
    pub line: Vec<u8>,
}

impl RecordPrinter {
    /// Prints the record on which `cursor` stands.
    pub fn record(&mut self, cursor: &Cursor, out: &mut Out) -> Result<(), Failure> {
        let form = self.form;
        let Some(key) = cursor.key() else { return Ok(()) };
        let value = if self.keys_only { None } else { cursor.value()? };
        if self.json {
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
}
