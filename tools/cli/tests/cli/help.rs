//! help: of the whole, of commands, of the options of the store.

use strandline::OPTIONS;

use crate::store::Store;

#[test]
fn help_of_the_whole_names_commands_and_exit_codes() {
    let store = Store::new();
    let help = store.run(&["--help"]).ok().text();
    for part in ["STRANDLINE_DB", "Exit codes", "explain", "delete-range", "help options", "--json"]
    {
        assert!(help.contains(part), "{part}");
    }
    assert_eq!(store.run(&["help"]).ok().text(), help);
    assert!(!help.contains("--memtable-bytes"), "{help}");
    assert!(store.run(&["bench", "--help"]).ok().text().contains("--benchmarks"));
}

#[test]
fn help_of_a_command_shows_its_own_options_and_the_common_ones_that_it_takes() {
    let store = Store::new();
    let get = store.run(&["get", "--help"]).ok().text();
    for part in ["--keyspace", "--hex", "--json", "help options"] {
        assert!(get.contains(part), "{part} in {get}");
    }
    for part in ["--memtable-bytes", "--preset", "--option", "--quiet"] {
        assert!(!get.contains(part), "{part} in {get}");
    }
    let sst = store.run(&["sst", "-h"]).ok().text();
    assert!(
        sst.contains("--verify") && !sst.contains("--db") && !sst.contains("--keyspace"),
        "{sst}"
    );
    let create = store.run(&["help", "keyspace", "create"]).ok().text();
    assert!(create.contains("--create") && create.contains("<NAME>"), "{create}");
}

/// Each option that the help names is taken by a command that opens a store.
#[test]
fn options_of_the_store_are_shown_together_and_taken_everywhere() {
    let store = Store::new();
    let text = store.run(&["help", "options"]).ok().text();
    let rows = OPTIONS.iter().filter(|row| row.name != "create_if_missing");
    for row in rows {
        let flag = format!("--{}", row.name.replace('_', "-"));
        assert!(text.contains(&format!("\n  {flag} <")), "{flag} in {text}");
        let value = if row.name == "pm_size" { "16M" } else { row.default };
        store.run(&["put", "--create", "--pm-size", "16M", "k", "v"]).ok();
        store.run(&["get", "k", &format!("{flag}={value}")]).ok();
    }
    assert!(!text.contains("create-if-missing"), "{text}");
}
