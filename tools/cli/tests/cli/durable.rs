//! What a write survives, in the first line of every command that opens a store, and how `pm=auto` chose.

use strandline::{ChosenBy, Db, Options};

use crate::store::Store;

/// The line about durability that a run said.
fn said(store: &Store, args: &[&str]) -> String {
    store.run(args).ok().durability.unwrap_or_else(|| panic!("{args:?}: nothing"))
}

#[test]
fn every_command_that_opens_a_store_says_what_a_write_survives() {
    let store = Store::filled(100, &[]);
    for args in [
        &["get", "key00001"][..],
        &["scan", "--count"],
        &["put", "a", "1"],
        &["del", "a"],
        &["delete-range", "a", "b"],
        &["flush"],
        &["compact"],
        &["stats"],
        &["stats", "--prometheus"],
        &["top", "--once"],
        &["lsm"],
        &["pool"],
        &["zone"],
        &["manifest"],
        &["check"],
        &["dump"],
        &["export"],
        &["explain", "get", "key00001"],
        &["keyspace", "list"],
        &["checkpoint", "copy"],
    ] {
        let line = said(&store, args);
        assert!(line.starts_with("durability: process crash only"), "{args:?}: {line}");
        assert!(line.contains("emulated: tmpfs"), "{args:?}: {line}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&said(&store, &["get", "key00001", "--json"])).expect("JSON");
    for name in ["durability", "durability_note", "pm_choice"] {
        assert!(json[name].is_string(), "{json}");
    }
    assert_eq!(store.run(&["put", "--quiet", "a", "1"]).ok().durability, None);
}

/// The default is as durable as the directory can be, and says by what it was chosen.
#[test]
fn a_store_on_a_disk_survives_power_failure() {
    let store = Store::on_disk();
    let ran = store.run(&["put", "--create", "key", "value"]).ok();
    let line = ran.durability.expect("said");
    let db = Db::open(store.dir().join("lib"), Options::default()).expect("made");
    let (durability, choice) = (db.durability().to_string(), db.pm_choice().clone());
    assert_eq!(choice.by, ChosenBy::Directory);
    assert!(line.starts_with(&format!("durability: {durability}; ")), "{line}");
    assert!(line.ends_with(&format!("; {choice}")), "{line}");
    drop(db);
    let stats = store.run(&["stats"]).ok().text();
    assert!(stats.contains(&durability) && stats.contains("as the store was made"), "{stats}");
    let json = store.run(&["stats", "--json"]).ok().json();
    assert_eq!(json["pm"]["durability"], durability);
    assert_eq!(json["pm"]["choice"], "as the store was made");
    assert!(json["pm"]["durability_note"].is_string());
    let created = store.run(&["create", "--db", "new", "--json"]).ok().json();
    assert_eq!(created["durability"], durability);
    assert!(created["pm_choice"].as_str().is_some_and(|text| text.starts_with("pm=auto: ")));
    assert_eq!(store.run(&["get", "key"]).ok().text(), "value\n");
}
