//! Damage that an open or a check found.

use serde_json::{Value, json};
use strandline::Damage;

/// A damaged place as JSON.
pub fn damage_json(damage: &Damage) -> Value {
    let file = damage.file.as_ref().map(|file| file.display().to_string());
    json!({ "file": file, "zone": damage.zone, "offset": damage.at, "bytes": damage.len, "what": what(damage) })
}

/// What is wrong, without the advice to run this very command.
pub fn what(damage: &Damage) -> &str {
    damage.what.split("; `strandline check`").next().unwrap_or(&damage.what)
}
