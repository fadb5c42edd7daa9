//! --preset: stores of every preset, drawn, checked, and opened with another one.

use strandline::{Options, PRESETS, PmSource};

use crate::store::Store;

const LINES: u32 = 5000;

/// Whether records are in DRAM, with a log.
fn in_dram(preset: &str) -> bool {
    Options::preset(preset).expect(preset).pm == PmSource::Dram
}

/// A store of a preset, with less in memtables than in level 0 or below.
fn store(preset: &str) -> Store {
    let store = Store::new();
    let lines: String = (0..LINES).map(|at| format!("key{at:05}\tvalue {at}\n")).collect();
    let small = ["--pm-size", "32M", "--memtable-bytes", "64K", "--immutable-memtables-max", "1"];
    let all = [&["load", "--create", "--preset", preset, "--background-threads", "0"][..], &small]
        .concat();
    store.run_with(&all, lines).ok();
    store
}

#[test]
fn every_preset_makes_a_store_that_can_be_drawn_and_checked() {
    for preset in PRESETS {
        let (name, store) = (preset.name, store(preset.name));
        let text = store.run(&["lsm"]).ok().text();
        let memory = if in_dram(name) { "DRAM" } else { "PM" };
        assert!(text.lines().any(|line| line.trim_start().starts_with(memory)), "{name}: {text}");
        let stats = store.run(&["stats"]).ok().text();
        assert_eq!(stats.starts_with("persistent memory\n"), !in_dram(name), "{stats}");
        if in_dram(name) {
            let explained = store.run(&["explain", "get", "key00001"]).ok().text();
            for text in [text, stats, explained, store.run(&["top", "--once"]).ok().text()] {
                assert!(!text.contains("PM") && !text.contains("persistent memory"), "{text}");
            }
        }
        let json = store.run(&["lsm", "--json", "--preset", name]).ok().json();
        let keyspace = &json["keyspaces"][0];
        let sum = |list: &serde_json::Value| {
            let list = list.as_array().expect("a list");
            list.iter().map(|each| each["entries"].as_u64().expect("entries")).sum::<u64>()
        };
        let deeper = sum(&keyspace["runs"]) + sum(&keyspace["levels"]);
        assert!(deeper > 0, "{name}: {json}");
        let memtables = keyspace["memtable_records"].as_u64().expect("records");
        assert_eq!(memtables + deeper, u64::from(LINES), "{name}: {json}");
        store.run(&["check"]).ok();
        assert!(store.run(&["stats"]).ok().text().contains("durability"), "{name}");
    }
}

#[test]
fn a_store_opens_with_another_preset() {
    for first in PRESETS {
        for second in PRESETS {
            let (first, second) = (first.name, second.name);
            let store = store(first);
            let put = store.run(&["put", "key00007", "again", "--preset", second]);
            if in_dram(second) && !in_dram(first) {
                put.failed(2, "pm=dram was asked for; leave pm out");
                continue;
            }
            let pm_tables = Options::preset(second).expect(second).pm_tables;
            if in_dram(first) && pm_tables > 0 {
                put.failed(2, "leave pm_tables out");
                continue;
            }
            put.ok();
            assert_eq!(store.run(&["get", "key00007"]).ok().text(), "again\n", "{first} {second}");
            assert_eq!(store.run(&["scan", "--count"]).ok().text(), format!("{LINES}\n"));
            store.run(&["check"]).ok();
        }
    }
}

#[test]
fn presets_are_listed_and_overridden() {
    let store = Store::new();
    let help = store.run(&["help", "options"]).ok().text();
    let bench = store.run(&["bench", "--help"]).ok().text();
    for preset in PRESETS {
        assert!(help.contains(&format!("\n  {}\n", preset.name)), "{help}");
        assert!(bench.contains(&format!("{}: ", preset.name)), "{bench}");
    }
    store
        .run(&["put", "--create", "k", "v", "--preset", "fast"])
        .failed(2, "there are auto, classic");
    store
        .run(&[
            "put",
            "--create",
            "k",
            "v",
            "--preset",
            "classic",
            "--pm",
            "auto",
            "--pm-size",
            "32M",
        ])
        .ok();
    assert!(store.pool().exists());
}
