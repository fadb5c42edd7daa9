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

/// What a script of completion knows: commands, their own options, those of the store and of bench, values.
#[test]
fn completions_name_commands_and_options() {
    let store = Store::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = store.run(&["completions", shell]).ok().text();
        for word in ["delete-range", "keys-only", "memtable-bytes", "compression_type", "jsonl"] {
            assert!(script.contains(word), "{word} in {shell}");
        }
    }
    // Bash itself reads the script and completes by it.
    let script = store.dir().join("completions.bash");
    std::fs::write(&script, store.run(&["completions", "bash"]).ok().out).expect("written");
    let complete = "source completions.bash; COMP_WORDS=(strandline dele); COMP_CWORD=1; \
                    _strandline strandline dele strandline; echo ${COMPREPLY[@]}";
    let bash =
        std::process::Command::new("bash").args(["-c", complete]).current_dir(store.dir()).output();
    if let Ok(output) = bash {
        let (out, err) = (output.stdout, String::from_utf8_lossy(&output.stderr).into_owned());
        assert_eq!(String::from_utf8_lossy(&out).trim(), "delete-range", "{err}");
    }
}

/// The page of each command, and that of the options of the store.
#[test]
fn manual_pages_are_there_for_each_command() {
    let store = Store::new();
    let whole = store.run(&["man"]).ok().text();
    assert!(whole.contains(".TH strandline 1") && whole.contains("Exit codes"), "{whole}");
    let written = store.run(&["man", "--dir", "pages", "--json"]).ok().json();
    let pages = written["pages"].as_array().expect("pages");
    assert!(pages.len() > 30, "{written}");
    let page =
        |name: &str| std::fs::read_to_string(store.dir().join("pages").join(name)).expect(name);
    assert_eq!(page("strandline.1"), whole);
    let scan = page("strandline-scan.1");
    assert!(scan.contains("strandline scan") && scan.contains("keys\\-only"), "{scan}");
    assert!(!scan.contains("memtable"), "{scan}");
    let create = page("strandline-keyspace-create.1");
    assert!(create.contains("strandline keyspace create"), "{create}");
    let bench = page("strandline-bench.1");
    assert!(bench.contains("compression_type") && bench.contains("readwhilescanning"), "{bench}");
    // One page is printed, and a word that is no command makes no directory.
    assert_eq!(store.run(&["man", "scan"]).ok().text(), scan);
    assert_eq!(store.run(&["man", "keyspace", "create"]).ok().text(), create);
    store.run(&["man", "putt"]).failed(2, "no command putt");
    assert!(!store.dir().join("putt").exists());
    let options = page("strandline-options.1");
    for row in OPTIONS.iter().filter(|row| row.name != "create_if_missing") {
        assert!(options.contains(&row.name.replace('_', "\\-")), "{}", row.name);
    }
}
