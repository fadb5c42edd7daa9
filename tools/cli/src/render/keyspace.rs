//! Keyspaces: names without control characters, and options.

use serde_json::Value;
use strandline::KeyspaceOptions;

use crate::text::Form;

/// A name as text: control characters would act on the reader's terminal.
pub fn name(name: &str) -> String {
    Form::Escaped.text(name.as_bytes())
}

/// The name, and behind a tab the options, if there are any.
pub fn described(keyspace: &str, options: &KeyspaceOptions) -> String {
    let name = name(keyspace);
    if options.is_empty() { name } else { format!("{name}\t{options}") }
}

/// Options that are set, in text form.
pub fn options_json(options: &KeyspaceOptions) -> Value {
    options.entries().into_iter().map(|(name, text)| (name.to_owned(), Value::from(text))).collect()
}
