//! `--events`: what happens in the store, a line each on standard error.

use std::io::Write;

use serde_json::{Map, Value, json};
use strandline::events::FieldValue;
use strandline::{Event, Listener};

/// How an event is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventForm {
    /// `event: ` and its fields.
    Text,
    /// An object.
    Json,
}

/// Writes each event to standard error.
pub struct EventPrinter(pub EventForm);

impl Listener for EventPrinter {
    fn on_event(&self, event: &Event) {
        let mut err = std::io::stderr().lock();
        // A closed standard error is no reason to fail.
        let _unheard = match self.0 {
            EventForm::Text => writeln!(err, "event: {event}"),
            EventForm::Json => writeln!(err, "{}", object(event)),
        };
    }
}

fn object(event: &Event) -> Value {
    let mut fields = Map::new();
    fields.insert("event".into(), event.name().into());
    fields.extend(event.fields().into_iter().map(|(name, value)| (name.into(), json_of(value))));
    Value::Object(fields)
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
