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
    create("none", "0").failed(2, "ttl=0s: whole milliseconds, from 1 ms");
    create("none", "soon").failed(2, "ttl=soon: expected seconds");
    let twice = ["keyspace", "create", "none", "--ttl", "5", "--set", "ttl=7"];
    store.run(&twice).failed(2, "ttl is given twice");
    let both = ["keyspace", "create", "none", "--ttl", "5", "--merge-operator", "add"];
    store.run(&both).failed(2, "leave one of them out");
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

#[test]
fn a_keyspace_is_told_where_its_files_go() {
    let store = Store::filled(100, &[]);
    let fast = store.dir().join("fast").display().to_string();
    store.run(&["compact", "--tiers", &format!("{fast}:64M")]).ok();
    let set = |settings: &[&str]| store.run(&[&["keyspace", "set", "default"], settings].concat());
    let own = store.dir().join("db/sst");
    let own = format!("tiers={}", own.display());
    set(&[&own]).ok();
    store.run(&["compact"]).ok();
    let lies_in = |dir: &str| {
        let lsm = store.run(&["lsm", "--json"]).ok().text();
        assert!(lsm.contains(&format!("{dir}/0")), "{lsm}");
    };
    lies_in("db/sst");
    let tiers = format!("tiers={fast}");
    let done = set(&[&tiers, "placement=level"]).ok().text();
    assert_eq!(done, format!("set keyspace default\tplacement=level {tiers}\n"));
    store.run(&["put", "another", "key"]).ok();
    store.run(&["compact"]).ok();
    lies_in(&fast);
    let made = ["keyspace", "create", "hot", "--set", &tiers];
    assert_eq!(store.run(&made).ok().text(), format!("created keyspace hot\t{tiers}\n"));
    let list = store.run(&["keyspace", "list"]).ok().text();
    assert_eq!(list, format!("default\tplacement=level {tiers}\nhot\t{tiers}\n"));
    assert!(store.run(&["manifest"]).ok().text().contains("files in tiers 1"));
    // Directories are those of this store alone.
    let export = store.run(&["export"]).ok().text();
    assert!(!export.contains(&fast), "{export}");
    let other = ["--db", "other", "--pm-size", "16M"];
    store
        .run_with(&[&other[..], &["load", "--format", "export", "--create"]].concat(), &export)
        .ok();
    store.run_with(&["load", "--format", "export"], &export).ok();
    let list = store.run(&[&other[..], &["keyspace", "list"]].concat()).ok().text();
    assert_eq!(list, "default\nhot\n", "an export says nothing of the places of files");
    set(&["tiers=all"]).ok();
    assert!(!store.run(&["manifest"]).ok().text().contains("tiers 2"));

    let done = set(&["placement=store"]).ok().text();
    assert_eq!(done, "set keyspace default\n", "as the store's");
    set(&["placement=level"]).ok();
    let list = store.run(&["keyspace", "list"]).ok().text();
    assert!(list.starts_with("default\tplacement=level\n"), "{list}");
    set(&["placement=store"]).ok();
    let list = store.run(&["keyspace", "list"]).ok().text();
    assert!(list.starts_with("default\nhot"), "{list}");

    set(&["tiers=/nowhere"]).failed(2, "tiers=/nowhere: the store has no such directory");
    set(&[&format!("{tiers}:1G")]).failed(2, "name the directory alone");
    set(&["tiers="]).failed(2, "tiers=: no directory");
    set(&["filter_bits=3"]).failed(2, "filter_bits of a keyspace stays");
    set(&["placement=fast"]).failed(2, "expected benefit, level or store");
    set(&["placement"]).failed(2, "expected NAME=VALUE");
    store.run(&["keyspace", "set", "none", "tiers=all"]).failed(3, "no keyspace none");
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

/// Where an operand is the newest, the same places are asked again for those below it.
#[test]
fn explain_tells_apart_what_is_asked_twice() {
    let store = Store::new();
    let create = ["keyspace", "create", "--create", "--pm-size", "16M", "hits"];
    store.run(&[&create[..], &["--merge-operator", "add"]].concat()).ok();
    for _ in 0..2 {
        store.run(&["merge", "--keyspace", "hits", "home", "1"]).ok();
    }
    let probes = store.run(&["explain", "get", "--keyspace", "hits", "home", "--json"]).ok().json();
    let probes = probes["probes"].as_array().expect("probes");
    let sources: Vec<&str> =
        probes.iter().map(|probe| probe["source"].as_str().expect("text")).collect();
    assert!(sources.iter().any(|source| source.ends_with(", operands")), "{sources:?}");
    let mut apart = sources.clone();
    apart.sort_unstable();
    apart.dedup();
    assert_eq!(apart.len(), sources.len(), "{sources:?}");
}

/// Names, values and operators with control characters reach no terminal as they are.
#[test]
fn no_command_prints_control_characters() {
    let store = Store::new();
    let name = "red\u{1b}[31m";
    let make = ["keyspace", "create", "--create", "--pm-size", "16M", name];
    let operator = ["--merge-operator", "append:\u{1b}[1m"];
    let mut printed = store.run(&[&make[..], &operator].concat()).ok().out;
    for operand in ["a\u{7}", "b"] {
        let merge = ["merge", "--literal", "--keyspace", name, "k\u{1b}c", operand];
        printed.extend(store.run(&merge).ok().out);
    }
    store.run(&["flush"]).ok();
    let missing = store.run(&["get", "--keyspace", "x\u{1b}[31m", "key"]);
    assert_eq!(missing.code, 3);
    printed.extend(missing.err.into_bytes());
    for args in [
        &["get", "--keyspace", name, "k\\x1bc"][..],
        &["scan", "--keyspace", name],
        &["dump", "--keyspace", name],
        &["explain", "get", "--keyspace", name, "k\\x1bc"],
        &["export"],
        &["keyspace", "list"],
        &["stats"],
        &["stats", "--json"],
        &["top", "--once"],
        &["lsm"],
        &["manifest"],
        &["pool"],
        &["zone"],
        &["check"],
        &["compact", "--keyspace", name],
        &["lsm", "--files"],
        &["repair", "db", "--to", "fixed", "--pm-size", "16M"],
        &["delete-range", "--keyspace", name, "a\\x1b", "b"],
        &["keyspace", "drop", name],
    ] {
        let ran = store.run(args).ok();
        let raw = |byte: &u8| *byte < 32 && !b"\t\n".contains(byte);
        assert!(!ran.out.iter().any(raw), "{args:?}: {:?}", ran.text());
        printed.extend(ran.out);
    }
    assert!(!printed.contains(&0x1b), "{:?}", String::from_utf8_lossy(&printed));
}
