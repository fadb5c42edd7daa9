//! Options of keyspaces and merges, from the command line.

use serde_json::json;

use crate::store::Store;

#[test]
fn a_keyspace_keeps_its_options_and_merges_by_its_operator() {
    let store = Store::new();
    let create = |args: &[&str]| {
        let mut all = vec!["keyspace", "create", "--create", "--pm-size", "16M"];
        all.extend(args);
        store.run(&all)
    };
    let made = create(&["hits", "--merge-operator", "add", "--set", "filter_bits=0"]).ok().text();
    assert_eq!(made, "created keyspace hits\tfilter_bits=0 merge_operator=add\n");
    create(&["tags", "--merge-operator", "set-union"]).ok();
    create(&["lines", "--merge-operator", "append:; "]).ok();
    create(&["plain"]).ok();

    let listed = "default\nhits\tfilter_bits=0 merge_operator=add\ntags\tmerge_operator=set-union\n\
                  lines\tmerge_operator=append:; \nplain\n";
    assert_eq!(store.run(&["keyspace", "list"]).ok().text(), listed);
    let list = store.run(&["--json", "keyspace", "list"]).ok().json();
    assert_eq!(list["keyspaces"], json!(["default", "hits", "tags", "lines", "plain"]));
    assert_eq!(list["options"]["hits"], json!({ "filter_bits": "0", "merge_operator": "add" }));
    assert_eq!(list["options"]["plain"], json!({}));
    let stats = store.run(&["--json", "stats"]).ok().json();
    assert_eq!(stats["keyspaces"][2]["options"], json!({ "merge_operator": "set-union" }));
    assert!(store.run(&["stats"]).ok().text().contains("merge_operator=set-union"));
    let manifest = store.run(&["manifest"]).ok().text();
    assert!(manifest.contains("options: filter_bits=0 merge_operator=add"), "{manifest}");

    let merge = |keyspace: &str, operand: &str| {
        store.run(&["merge", "--keyspace", keyspace, "key", operand])
    };
    let get = |keyspace: &str| store.run(&["get", "--keyspace", keyspace, "key"]).ok().text();
    assert_eq!(merge("hits", "40").ok().text(), "merged 1 operand (8 bytes)\n");
    merge("hits", "-7").ok();
    store.run(&["flush"]).ok();
    merge("hits", "32").ok();
    assert_eq!(
        get("hits"),
        "A\\x00\\x00\\x00\\x00\\x00\\x00\\x00\n",
        "40 - 7 + 32 is the letter A"
    );
    merge("tags", "red").ok();
    merge("tags", "large").ok();
    merge("tags", "red").ok();
    assert_eq!(get("tags"), "\\x05large\\x03red\n");
    merge("lines", "one").ok();
    merge("lines", "two").ok();
    store.run(&["compact"]).ok();
    assert_eq!(get("lines"), "one; two\n");

    merge("hits", "many").failed(2, "no whole number");
    store.run(&["merge", "--keyspace", "hits", "--raw", "key", "123"]).failed(2, "a number has 8");
    merge("plain", "x").failed(2, "has no merge operator");
    create(&["other", "--merge-operator", "multiply"]).failed(2, "set-union");
    create(&["other", "--set", "filter_bits=many"]).failed(2, "bits per key");
    create(&["other", "--set", "colour=red"]).failed(2, "no option colour");
    create(&["other", "--set", "filter_bits"]).failed(2, "expected NAME=VALUE");
}

#[test]
fn a_checkpoint_and_a_repaired_copy_keep_options() {
    let store = Store::new();
    let create = ["keyspace", "create", "--create", "--pm-size", "16M", "hits"];
    store
        .run(&[&create[..], &["--merge-operator", "add", "--set", "compression=none"]].concat())
        .ok();
    store.run(&["merge", "--keyspace", "hits", "home", "3"]).ok();
    store.run(&["merge", "--keyspace", "hits", "home", "4"]).ok();
    store.run(&["checkpoint", "copy"]).ok();
    store.run(&["repair", "db", "--to", "fixed", "--pm-size", "16M"]).ok();
    for db in ["copy", "fixed"] {
        let list = store.run(&["--db", db, "--pm-size", "16M", "keyspace", "list"]).ok().text();
        assert_eq!(list, "default\nhits\tcompression=none merge_operator=add\n", "{db}");
        store
            .run(&["--db", db, "--pm-size", "16M", "merge", "--keyspace", "hits", "home", "1"])
            .ok();
        let got = store.run(&["--db", db, "get", "--hex", "--keyspace", "hits", "686f6d65"]).ok();
        assert_eq!(got.text(), "0800000000000000\n", "{db}");
    }
}

#[test]
fn values_of_a_keyspace_with_a_time_to_live_expire() {
    let store = Store::new();
    let create = |name: &str, ttl: &str| {
        store.run(&["keyspace", "create", "--create", "--pm-size", "16M", name, "--ttl", ttl])
    };
    assert_eq!(create("day", "24h").ok().text(), "created keyspace day\tttl=86400s\n");
    create("moment", "0.001").ok();
    create("none", "0").failed(2, "ttl");
    create("none", "soon").failed(2, "seconds");
    for keyspace in ["day", "moment"] {
        store.run(&["put", "--keyspace", keyspace, "key", "value"]).ok();
    }
    // A command takes longer than a millisecond.
    assert_eq!(store.run(&["get", "--keyspace", "day", "key"]).ok().text(), "value\n");
    assert_eq!(store.run(&["get", "--keyspace", "moment", "key"]).code, 1);
    assert_eq!(store.run(&["scan", "--keyspace", "day"]).ok().text(), "key\tvalue\n");
    assert_eq!(store.run(&["scan", "--keyspace", "moment"]).ok().text(), "");
    store.run(&["merge", "--keyspace", "day", "key", "more"]).failed(2, "time to live");
    assert!(store.run(&["manifest"]).ok().text().contains("ttl=86400s"));
}

/// One key whose operands cannot be combined ended `scan`, `dump` and `export`, and `check` said nothing.
#[test]
fn a_key_that_cannot_be_read_is_left_out_and_counted() {
    let store = Store::new();
    let made = ["keyspace", "create", "--create", "--pm-size", "16M"];
    store.run(&[&made[..], &["hits", "--merge-operator", "add"]].concat()).ok();
    let on = |command: &[&str]| {
        let (name, rest) = command.split_first().expect("a name");
        store.run(&[&[*name, "--keyspace", "hits"], rest].concat())
    };
    for key in ["apples", "berries", "cherries"] {
        on(&["merge", key, "1"]).ok();
    }
    on(&["put", "berries", "many"]).ok();
    on(&["merge", "berries", "1"]).ok();
    on(&["get", "berries"]).failed(3, "put the key anew or delete it");
    for command in [&["dump"][..], &["scan"], &["export"]] {
        let ended = on(command);
        let lines = ended.text();
        assert!(
            ["apples", "cherries"].iter().all(|key| lines.contains(key)),
            "{command:?}: {lines}"
        );
        assert!(!lines.contains("berries"), "{command:?}: {lines}");
        let notes: Vec<&str> = ended.err.lines().collect();
        assert_eq!((ended.code, notes.len()), (3, 2), "{notes:?}");
        assert!(notes[0].contains("left out") && notes[0].contains("key berries"), "{notes:?}");
        assert!(notes[1].contains("cannot be combined: 1;"), "{notes:?}");
    }
    assert!(on(&["export"]).text().contains("\"records\":2"));
    assert_eq!(on(&["scan", "--keys-only"]).ok().text(), "apples\nberries\ncherries\n");
    let checked = store.run(&["check"]);
    assert!(checked.text().contains("cannot be read") && checked.text().contains("key berries"));
    on(&["del", "berries"]).ok();
    store.run(&["check"]).ok();
    on(&["dump"]).ok();
}
