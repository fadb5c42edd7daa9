//! `cargo xtask guide`: pages that follow from tables in the code.

use pmem::PM_PRESETS;
use ssd::SSD_PRESETS;
use strandline::{KEYSPACE_OPTIONS, OPTIONS, PRESETS, Preset, Row};

/// The page of options and presets.
pub const PAGE: &str = "docs/guide/options.md";

pub fn run(args: &[String]) -> Result<(), String> {
    if !args.is_empty() {
        return Err("usage: cargo xtask guide".into());
    }
    std::fs::write(PAGE, page()).map_err(|error| format!("{PAGE}: {error}"))
}

/// The page as it should be.
pub fn page() -> String {
    let options: String = OPTIONS.iter().map(store_option).collect();
    let of_keyspaces: String = KEYSPACE_OPTIONS.iter().map(option).collect();
    let presets: String = PRESETS.iter().map(preset).collect();
    let model = |name: String, source: &str| format!("| {name} | {} |\n", cell(source));
    let memories = PM_PRESETS
        .iter()
        .map(|preset| model(format!("`{0}-delta`, `{0}-ratio`", preset.name), preset.source));
    let files = SSD_PRESETS.iter().map(|preset| model(format!("`{}`", preset.name), preset.source));
    let models: String = memories.chain(files).collect();
    format!(
        "# Options and presets\n\n\
         Written by `cargo xtask guide` from the tables in the code; `strandline help options` shows the same.\n\n\
         ## Options\n\n\
         On the command line `pm_size` is `--pm-size` or `--option pm_size=VALUE`; in the library a field of `Options`, or \
         `Options::set`.\nSizes: 4096, 64K, 16M, 1.5G. A store keeps what it was made with (`pm`, `pm_size`, `zone_size`); the \
         others hold from one open to its\nclose. Those that change while a store is open are changed by \
         `Db::set_option`, or `strandline set-option` if it is open with `inspect`, until it is closed.\n\n\
         | option | values | default | while open | meaning |\n|---|---|---|---|---|\n{options}\n\
         ## Options of a keyspace\n\n\
         Kept in the manifest. What is not set is the store's.\n\n\
         | option | values | default | meaning |\n|---|---|---|---|\n{of_keyspaces}\n\
         ## Presets\n\n\
         A preset stands for the options of a system that a paper describes. `--preset NAME` is overridden by other options; in \
         the library it\nis `Options::preset`. A store does not know its preset: it opens with another one, and new data follows \
         that. Only `pm` cannot\nchange, and a store with a log takes no preset with tables in persistent memory.\n\n\
         | preset | options | what it stands for |\n|---|---|---|\n{presets}\n\
         `strandline reproduce` measures them beside each other: `xengine-l0`, `xengine-ycsb`, `relsm-ladder`, `relsm-values`, \
         `relsm-sizes`, `relsm-ycsb`.\n`--memory=DIR` names persistent memory that you have, instead of `/dev/shm`.\n\n\
         ## Models of devices\n\n\
         `pm_model` takes the first ones, and `zero`, which counts and waits for nothing; `ssd_model` takes the others. What they \
         do:\n[devices](devices.md).\n\n\
         | model | what it stands for |\n|---|---|\n{models}"
    )
}

fn option(row: &Row) -> String {
    format!("| `{}` | {} | {} | {} |\n", row.name, cell(row.unit), default(row), cell(row.doc))
}

fn store_option(row: &Row) -> String {
    let (unit, default, doc) = (cell(row.unit), default(row), cell(row.doc));
    let changes = if row.changes_while_open() { "changes" } else { "stays" };
    format!("| `{}` | {unit} | {default} | {changes} | {doc} |\n", row.name)
}

fn default(row: &Row) -> String {
    match row.default {
        "" => "none".into(),
        words if words.contains(' ') => words.into(),
        value => format!("`{value}`"),
    }
}

fn preset(preset: &Preset) -> String {
    let settings = preset.settings.iter().map(|(name, value)| format!("`{name}={value}`"));
    let settings = settings.collect::<Vec<String>>().join(", ");
    format!("| `{}` | {settings} | {} |\n", preset.name, cell(preset.doc))
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_says_what_the_tables_say() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../");
        let page = std::fs::read_to_string(format!("{root}{}", super::PAGE)).expect("a page");
        assert!(
            page == super::page(),
            "{} is not what the tables say; cargo xtask guide",
            super::PAGE
        );
    }
}
