//! put, get, del, scan, dump, keyspace.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::store::Store;

#[test]
fn put_get_del() {
    let store = Store::new();
    store.run(&["put", "--create", "--pm-size", "16M", "apple", "red"]).ok();
    assert_eq!(store.run(&["get", "apple"]).ok().text(), "red\n");
    store.run(&["put", "apple", ""]).ok();
    assert_eq!(store.run(&["get", "apple"]).ok().text(), "\n");
    store.run(&["put", "apple", "-3"]).ok();
    assert_eq!(store.run(&["get", "--literal", "apple"]).ok().text(), "-3");
    assert_eq!(store.run(&["get", "--hex", "6170706c65"]).ok().text(), "2d33\n");
    let json = store.run(&["--json", "get", "apple"]).ok().json();
    assert_eq!(json, serde_json::json!({ "key": "apple", "value": "-3" }));
    store.run(&["del", "apple"]).ok();
    let gone = store.run(&["get", "apple"]);
    assert_eq!((gone.code, gone.text().as_str()), (1, ""));
    let gone = store.run(&["get", "apple", "--json"]);
    assert_eq!((gone.code, &gone.json()["value"]), (1, &serde_json::Value::Null));
    store.run(&["del", "apple"]).ok();
}

#[test]
fn a_write_may_depend_on_the_value() {
    let store = Store::new();
    let put = |args: &[&str]| store.run(&[&["put", "--create", "--pm-size", "16M"], args].concat());
    put(&["--if-absent", "door", "ada"]).ok();
    for refused in [&["--if-absent", "door", "bob"][..], &["--if", "cid", "door", "bob"]] {
        assert_eq!(put(refused).code, 1);
    }
    assert_eq!(store.run(&["get", "door"]).ok().text(), "ada\n");
    put(&["--if", "ada", "door", "bob"]).ok();
    let json = store.run(&["--json", "del", "--if", "ada", "door"]);
    assert_eq!((json.code, json.json()), (1, serde_json::json!({ "deleted": 0 })));
    store.run(&["del", "--if", "bob", "door"]).ok();
    assert_eq!(store.run(&["get", "door"]).code, 1);
    put(&["--if", "a", "--if-absent", "door", "b"]).failed(2, "choose one");
}

#[test]
fn odd_bytes_go_in_and_out() {
    let store = Store::new();
    let raw = OsStr::from_bytes(b"\xff\xfe");
    let put =
        store.command(&["put", "--create", "--pm-size", "16M", r"a\tb\x00\\"]).arg(raw).output();
    assert!(put.expect("the command runs").status.success());
    assert_eq!(store.run(&["get", r"a\tb\x00\\"]).ok().text(), "\\xff\\xfe\n");
    assert_eq!(store.run(&["get", "--hex", "610962005c"]).ok().text(), "fffe\n");
    assert_eq!(store.run(&["get", "--literal", r"a\tb"]).code, 1);
    let json = store.run(&["scan", "--json"]).ok().json();
    let expected = serde_json::json!({ "key": "a\tb\0\\", "value": { "hex": "fffe" } });
    assert_eq!(json, expected);
    store.run(&["get", r"a\q"]).failed(2, "is no escape");
    store.run(&["get", "--hex", "abc"]).failed(2, "hexadecimal");
}

#[test]
fn scan_goes_where_it_is_told() {
    let store = Store::filled(100, &[]);
    let scan = |args: &[&str]| {
        let mut all = vec!["scan", "--keys-only"];
        all.extend(args);
        let text = store.run(&all).ok().text();
        text.lines().map(|line| line.trim_start_matches("key000").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(scan(&[]).len(), 100);
    assert_eq!(scan(&["--from", "key00097"]), ["97", "98", "99"]);
    assert_eq!(scan(&["--to", "key00002"]), ["00", "01"]);
    assert_eq!(scan(&["--prefix", "key0001"]).len(), 10);
    assert_eq!(scan(&["--prefix", "key0001", "--from", "key00018"]), ["18", "19"]);
    assert_eq!(scan(&["--prefix", "key0001", "--to", "key00011"]), ["10"]);
    assert_eq!(scan(&["--prefix", "key0001", "--from", "key00030"]), [""; 0]);
    assert_eq!(scan(&["--reverse", "--limit", "2"]), ["99", "98"]);
    assert_eq!(scan(&["--reverse", "--to", "key00098", "--limit", "1"]), ["97"]);
    assert_eq!(scan(&["--limit", "0"]), [""; 0]);
    assert_eq!(scan(&["--count", "--prefix", "key0002"]), ["10"]);
    let count = store.run(&["scan", "--count", "--json"]).ok().json();
    assert_eq!(count["records"], 100);
    let first = store.run(&["scan", "--limit", "1"]).ok().text();
    assert_eq!(first, "key00000\tvalue 0\n");
}

#[test]
fn keyspaces_are_apart() {
    let store = Store::new();
    store.run(&["keyspace", "create", "stock", "--create", "--pm-size", "16M"]).ok();
    store.run(&["put", "pear", "green"]).ok();
    store.run(&["put", "--keyspace", "stock", "pear", "12"]).ok();
    assert_eq!(store.run(&["get", "pear"]).ok().text(), "green\n");
    assert_eq!(store.run(&["--keyspace", "stock", "get", "pear"]).ok().text(), "12\n");
    assert_eq!(store.run(&["keyspace", "list"]).ok().text(), "default\nstock\n");
    let json = store.run(&["keyspace", "list", "--json"]).ok().json();
    assert_eq!(json["keyspaces"], serde_json::json!(["default", "stock"]));
    let zones = store.run(&["zone"]).ok().text();
    assert!(zones.contains("stock"), "{zones}");
    store.run(&["keyspace", "create", "stock"]).failed(3, "Exists");
    store.run(&["keyspace", "drop", "stock"]).ok();
    store.run(&["--keyspace", "stock", "get", "pear"]).failed(3, "NotFound");
    store.run(&["keyspace", "drop", "default"]).failed(2, "default");
}

#[test]
fn ranges_are_deleted() {
    let store = Store::new();
    let lines: String = (0..100).map(|i| format!("key{i:03}\tvalue\n")).collect();
    store.run_with(&["load", "--create", "--pm-size", "16M"], &lines).ok();
    let text = store.run(&["delete-range", "key010", "key090"]).ok().text();
    assert_eq!(text, "deleted the keys from 'key010' to before 'key090'\n");
    assert_eq!(store.run(&["scan", "--count"]).ok().text(), "20\n");
    assert_eq!(store.run(&["get", "key010"]).code, 1);
    store.run(&["get", "key090"]).ok();
    store.run(&["delete-range", "key9", "key0"]).failed(2, "InvalidArgument");
    for key in ["", "key0"] {
        let text = store.run(&["delete-range", key, key]).ok().text();
        assert_eq!(
            text,
            format!("deleted nothing: the range from '{key}' to before '{key}' is empty\n")
        );
    }
    let json = store.run(&["delete-range", "", "", "--json"]).ok().json();
    assert_eq!(json["deleted_range"]["empty"], true);
    assert_eq!(store.run(&["scan", "--count"]).ok().text(), "20\n");
}

/// A dump holds everything, in either format, and through any bytes.
#[test]
fn a_dump_comes_back() {
    let store = Store::new();
    let mut lines = String::new();
    for high in 0..=255_u32 {
        let (odd, other) = (format!("{high:02x}09{high:02x}"), format!("0a{high:02x}5c0d"));
        lines.push_str(&format!("{odd}\t{other}\n{other}\t{odd}\n"));
    }
    lines.push_str("\t\n");
    store.run_with(&["load", "--create", "--hex", "--strict", "--pm-size", "16M"], &lines).ok();
    let everything = store.run(&["scan", "--hex"]).ok().out;
    for format in ["tsv", "jsonl"] {
        let dump = store.run(&["dump", "--format", format]).ok();
        assert_eq!(dump.text().lines().count(), 513);
        let copy = Store::new();
        copy.run_with(
            &["load", "--format", format, "--create", "--strict", "--pm-size", "16M"],
            &dump.out,
        )
        .ok();
        assert_eq!(copy.run(&["dump", "--format", format]).ok().out, dump.out);
        assert_eq!(copy.run(&["scan", "--hex"]).ok().out, everything);
    }
    store.run(&["dump", "--literal"]).failed(2, "--literal");
}

#[test]
fn a_write_says_what_it_is_to_survive() {
    let store = Store::new();
    store.run(&["create", "--pm", "dram", "--pm-size", "16M", "--wal-sync", "never"]).ok();
    for durability in ["store", "buffered", "synced"] {
        store.run(&["put", "--durability", durability, durability, "there"]).ok();
        assert_eq!(store.run(&["get", durability]).ok().text(), "there\n");
        store.run(&["del", "--durability", durability, durability]).ok();
        assert_eq!(store.run(&["get", durability]).code, 1);
    }
    let refused = store.run(&["put", "--durability", "sometimes", "key", "value"]);
    assert!(refused.code == 2 && refused.err.contains("synced"), "{}", refused.err);
}
