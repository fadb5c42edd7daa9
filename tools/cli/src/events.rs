//! `--events`: what happens in the store, a line each on standard error.

use serde_json::{Map, Value, json};
use strandline::events::FieldValue;
use strandline::{Event, Listener};

use crate::stderr::Stderr;

/// Writes events there.
pub struct Told(pub Stderr);

impl Listener for Told {
    fn on_event(&self, event: &Event) {
        let mut fields = Map::new();
        fields.insert("event".into(), event.name().into());
        fields
            .extend(event.fields().into_iter().map(|(name, value)| (name.into(), json_of(value))));
        self.0.note(format!("event: {event}"), &Value::Object(fields));
    }
}

fn json_of(value: FieldValue) -> Value {
    match value {
        FieldValue::Number(number) => json!(number),
        FieldValue::Seconds(seconds) => json!(seconds),
        FieldValue::Flag(flag) => json!(flag),
        FieldValue::Text(text) => Value::String(text),
        value => Value::String(value.to_string()),
    }
}
