//! The options of the store and the presets: as text and as JSON.

use serde_json::{Value, json};
use strandline::{PRESETS, Preset};

use crate::store_args::{flag_name, rows};

/// Columns of a line of text.
const WIDTH: usize = 100;
const INDENT: usize = 6;

/// Every option with its unit, its default and advice, then the presets.
pub fn text() -> String {
    let mut text = String::from(
        "Options of the store. Every command that opens a store takes them, as flags or as --option NAME=VALUE.\n\
         A store keeps what it was made with (pm, pm_size, zone_size); the others hold from one open to its close.\n\
         Sizes: 4096, 64K, 16M, 1.5G. [set-option]: can change while a store is open, by the command set-option.\n\n",
    );
    for row in rows() {
        let changes = if row.changes_while_open() { " [set-option]" } else { "" };
        let (flag, unit, default) = (flag_name(row), row.unit, row.default);
        text += &format!("  --{flag} <{unit}> [default: {default}]{changes}\n");
        text += &paragraph(row.doc);
    }
    text += "\nPresets: --preset NAME stands for the options of a system. Flags and --option override it.\n\n";
    for preset in PRESETS {
        let settings = settings(preset);
        let settings = if settings.is_empty() { String::new() } else { format!(" [{settings}]") };
        text += &format!("  {}\n", preset.name);
        text += &paragraph(&format!("{}{settings}", preset.doc));
    }
    text
}

/// The same as data.
pub fn to_json() -> Value {
    let option = rows().map(|row| {
        json!({
            "name": row.name,
            "flag": format!("--{}", flag_name(row)),
            "unit": row.unit,
            "default": row.default,
            "doc": row.doc,
            "changes_while_open": row.changes_while_open(),
        })
    });
    let preset = PRESETS.iter().map(|preset| {
        let settings = preset.settings.iter();
        let settings: serde_json::Map<String, Value> =
            settings.map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect();
        json!({ "name": preset.name, "doc": preset.doc, "settings": settings })
    });
    json!({ "options": option.collect::<Vec<Value>>(), "presets": preset.collect::<Vec<Value>>() })
}

fn settings(preset: &Preset) -> String {
    let settings = preset.settings.iter().map(|(name, value)| format!("{name}={value}"));
    settings.collect::<Vec<String>>().join(", ")
}

/// Words in indented lines.
fn paragraph(words: &str) -> String {
    let mut text = String::new();
    let mut column = 0;
    for word in words.split_whitespace() {
        let len = word.chars().count();
        if column == 0 || column + 1 + len > WIDTH {
            let end = if column == 0 { "" } else { "\n" };
            text += &format!("{end}{:INDENT$}{word}", "");
            column = INDENT + len;
        } else {
            text += &format!(" {word}");
            column += 1 + len;
        }
    }
    text + "\n"
}
