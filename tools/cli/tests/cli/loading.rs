//! load: formats, rejects, batches, limits.

use crate::store::Store;

fn load(store: &Store, args: &[&str], input: impl AsRef<[u8]>) -> crate::store::Ran {
    let mut all = vec!["load", "--create", "--pm-size", "16M", "--json"];
    all.extend(args);
    store.run_with(&all, input)
}

/// Numbers of the lines that were rejected.
fn rejected(ran: &crate::store::Ran) -> Vec<u64> {
    let line =
        |line| serde_json::from_str::<serde_json::Value>(line).expect("JSON")["line"].as_u64();
    ran.err.lines().map(line).map(|line| line.expect("a line")).collect()
}

#[test]
fn rejects_are_told_by_line() {
    let store = Store::new();
    let input = "a\t1\nbad\nb\t2\\q\nc\t3\n\nd\t4";
    let ran = load(&store, &[], input).ok();
    assert_eq!(rejected(&ran), [2, 3, 5], "{}", ran.err);
    let summary = ran.json();
    assert_eq!((&summary["records"], &summary["rejects"]), (&3.into(), &3.into()));
    assert_eq!((&summary["bytes"], &summary["complete"]), (&6.into(), &true.into()));
    for figure in ["seconds", "records_per_second", "durability", "persisted"] {
        assert!(!summary[figure].is_null(), "{figure}");
    }
    assert_eq!(store.run(&["scan"]).ok().text(), "a\t1\nc\t3\nd\t4\n");
    let text = store.run_with(&["load"], input).ok().err;
    let told: Vec<&str> = text.lines().map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(told, ["line 2", "line 3", "line 5"], "{text}");
    assert_eq!(load(&store, &["--strict"], input).code, 1);
    assert_eq!(load(&store, &["--strict"], "a\t1\n").code, 0);
}

#[test]
fn only_the_first_rejects_are_shown() {
    let store = Store::new();
    let ran = load(&store, &[], "x\n".repeat(1000)).ok();
    assert_eq!(ran.err.lines().count(), 21, "{}", ran.err);
    assert_eq!(ran.json()["rejects"], 1000);
}

#[test]
fn long_keys_are_rejects_and_their_neighbours_are_not() {
    let store = Store::new();
    let over = "k".repeat((64 << 10) + 1);
    // Within the engine's limits, but no zone of this size holds its record; the next one is a large commit.
    let (wide, fitting) = ("w".repeat(64 << 10), "x".repeat(60 << 10));
    let input = format!("a\t1\n{over}\t2\nb\t3\n{wide}\t4\nc\t5\n{fitting}\t6\n");
    let ran = load(&store, &["--zone-size", "64K"], input).ok();
    assert_eq!(rejected(&ran), [2, 4], "{}", ran.err);
    assert_eq!(store.run(&["scan"]).ok().text(), format!("a\t1\nb\t3\nc\t5\n{fitting}\t6\n"));
}

#[test]
fn batches_are_split_where_bytes_fill_them() {
    let store = Store::new();
    let value = "v".repeat(700);
    let input: String = (0..3000).map(|at| format!("k{at:04}\t{value}\n")).collect();
    let ran = load(&store, &["--zone-size", "64K", "--batch", "1000"], input).ok();
    assert_eq!(ran.err, "");
    assert_eq!(store.run(&["scan", "--count"]).ok().text(), "3000\n");
    let big = format!("big\t{}\n", "b".repeat(1 << 20));
    load(&store, &["--strict"], big).ok();
    assert_eq!(store.run(&["get", "big"]).ok().out.len(), (1 << 20) + 1);
}

#[test]
fn a_full_pool_stops_the_load() {
    let store = Store::new();
    let value = "v".repeat(4000);
    let input: String = (0..2000).map(|at| format!("k{at:04}\t{value}\n")).collect();
    let ran =
        store.run_with(&["load", "--create", "--pm-size", "4M", "--ssd", "none", "--json"], &input);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains(r#"{"error":{"kind":"NoSpace""#), "{}", ran.err);
    assert!(ran.err.contains("not loaded from here on"), "{}", ran.err);
    let summary = ran.json();
    assert_eq!(summary["complete"], false);
    let count = store.run(&["scan", "--count"]).ok().text();
    assert_eq!(count.trim_end(), summary["records"].to_string(), "what it says is in");
    // With levels on SSD all of it fits.
    let store = Store::new();
    store.run_with(&["load", "--create", "--pm-size", "4M"], &input).ok();
    assert_eq!(store.run(&["scan", "--count"]).ok().text(), "2000\n");
    let stats = store.run(&["stats", "--json"]).ok().json();
    assert!(stats["ssd"]["bytes"].as_u64().expect("bytes") > 0);
    store.run(&["check"]).ok();
}

#[test]
fn columns_and_literal_lines() {
    let store = Store::new();
    let input = "1\tk\\x\t3\t4\r\n";
    load(&store, &["--literal", "--key-column", "2", "--value-columns", "4,1"], input).ok();
    assert_eq!(store.run(&["scan", "--json"]).ok().json()["value"], "4\r\t1");
    assert_eq!(store.run(&["scan", "--json"]).ok().json()["key"], "k\\x");
    let ran = load(&store, &["--key-column", "0"], "");
    assert_eq!(ran.code, 2);
    let ran = load(&store, &["--value-columns", "2,x"], "");
    assert_eq!(ran.code, 2);
}

/// Paths as `find -printf '%p\\t%s\\0'` prints them, whatever is in them.
#[test]
fn lines_that_end_with_zero() {
    let store = Store::new();
    load(&store, &["--null", "--literal", "--strict"], b"/a\nb\t1\0/\\q\xff\t2\0").ok();
    assert_eq!(store.run(&["scan"]).ok().text(), "/\\\\q\\xff\t2\n/a\\nb\t1\n");
}

#[test]
fn json_lines() {
    let store = Store::new();
    let input = concat!(
        "{\"key\": \"a\", \"value\": \"text\"}\n",
        "{\"key\": {\"hex\": \"ff\"}, \"value\": {\"hex\": \"00ff\"}}\n",
        "{\"key\": \"b\", \"value\": {\"n\": [1, 2.50, null]}}\n",
        "{\"key\": \"c\", \"val\": 1}\n",
        "nonsense\n",
    );
    let ran = load(&store, &["--format", "jsonl"], input).ok();
    assert_eq!(ran.json()["rejects"], 2);
    assert_eq!(rejected(&ran), [4, 5], "{}", ran.err);
    assert!(ran.err.contains(r#"unknown member \"val\""#), "{}", ran.err);
    let text = store.run(&["scan"]).ok().text();
    assert_eq!(text, "a\ttext\nb\t{\"n\":[1,2.50,null]}\n\\xff\t\\x00\\xff\n");
}

#[test]
fn input_from_a_file_and_a_store_in_the_heap() {
    let store = Store::new();
    let file = store.dir().join("records.tsv");
    std::fs::write(&file, "a\t1\nb\t2\n").expect("writable");
    let ran =
        store.run(&["load", "records.tsv", "--pm", "heap", "--pm-size", "16M", "--json"]).ok();
    assert_eq!(ran.json()["records"], 2);
    assert!(!store.pool().exists());
    store.run(&["load", "nothing.tsv"]).failed(3, "nothing.tsv");
    assert!(!store.pool().exists(), "a missing input makes no store");
}

/// What is exported and loaded is the same store: names, keys and values of any bytes.
#[test]
fn an_export_is_loaded_whole() {
    let store = Store::new();
    let records =
        "\tempty key\nempty value\t\n\\x00\\xff\\t\\n\t\\xfe\\r\\\\\n\u{e9}\t{\"hex\": \"00\"}\n";
    load(&store, &["--strict"], records).ok();
    for name in ["many", "none", "with space \u{e9}"] {
        store.run(&["keyspace", "create", name]).ok();
    }
    let many: String = (0..5000).map(|at| format!("{at:05}\tvalue {at}\n")).collect();
    load(&store, &["--keyspace", "many"], many).ok();
    load(&store, &["--keyspace", "with space \u{e9}"], "00001\tof another keyspace\n").ok();
    let export = store.run(&["export"]).ok();
    assert!(
        export.text().lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok())
    );

    let copy = Store::new();
    let summary = load(&copy, &["--format", "export", "--strict"], &export.out).ok().json();
    assert_eq!(summary["records"], 5005);
    assert_eq!(copy.run(&["export"]).ok().out, export.out);
    assert_eq!(copy.run(&["scan"]).ok().out, store.run(&["scan"]).ok().out);
    // Again, over what is there; and with digits in place of text.
    load(&copy, &["--format", "export", "--strict"], store.run(&["export", "--hex"]).ok().out).ok();
    assert_eq!(copy.run(&["export"]).ok().out, export.out);
    let one = copy.run(&["export", "--keyspace", "none"]).ok().text();
    assert_eq!(one.lines().count(), 3, "{one}");
}

#[test]
fn an_export_that_is_not_whole_is_an_error() {
    let store = Store::filled(100, &[]);
    let text = store.run(&["export"]).ok().text();
    let lines: Vec<&str> = text.lines().collect();
    let (last, front) = lines.split_last().expect("lines");
    let (copy, without_end) = (Store::new(), front.join("\n"));
    let ran = load(&copy, &["--format", "export"], &without_end);
    assert!(ran.code == 3 && ran.err.contains("cut short"), "{}", ran.err);
    let fewer = [&lines[..50], &[*last]].concat().join("\n");
    let ran = load(&copy, &["--format", "export"], fewer);
    let counts = "counts 100 records in 1 keyspace, and 48 records in 1 keyspace came before it";
    assert!(ran.code == 3 && ran.err.contains(counts), "{}", ran.err);
    let ran = load(&copy, &["--format", "export", "--keyspace", "x"], "");
    assert_eq!(ran.code, 2, "{}", ran.err);
}

const HEAD: &str = r#"{"export": 1}"#;

/// An export ends at what is no line of it, or out of order: no record goes to a keyspace that is not its own.
#[test]
fn an_export_ends_at_what_does_not_belong() {
    let keyspace = |name: &str| format!(r#"{{"keyspace": "{name}"}}"#);
    let record = |key: &str| format!(r#"{{"key": "{key}", "value": "v"}}"#);
    let end = |keyspaces: u64, records: u64| {
        format!(r#"{{"end": {{"keyspaces": {keyspaces}, "records": {records}}}}}"#)
    };
    let (default, long) = (keyspace("default"), keyspace(&"n".repeat(300)));
    let ends = |lines: &[&str], part: &str, loaded: &str| {
        let store = Store::new();
        let ran = load(&store, &["--format", "export"], lines.join("\n"));
        assert!(ran.code == 3 && ran.err.contains(part), "{part}: {}", ran.err);
        assert_eq!(ran.json()["complete"], false);
        assert_eq!(store.run(&["scan", "--keys-only"]).ok().text(), loaded, "{part}");
    };
    let (a, b) = (record("a"), record("b"));
    ends(&[], "cut short", "");
    ends(&[&default, &a, &end(1, 1)], "line 1: this is no export", "");
    ends(&[&a, HEAD, &default], "line 1: this is no export", "");
    ends(&[HEAD, &a], "line 2: a record before the first keyspace", "");
    ends(&[HEAD, &default, &a, HEAD], "line 4: a second export", "a\n");
    ends(&[HEAD, &default, &a, &long, &b, &end(2, 2)], "line 4: keyspace nnn", "a\n");
    ends(&[HEAD, &default, &a, r#"{"keyspace": 7}"#, &b], "line 4: the name", "a\n");
    ends(&[HEAD, &default, &a, "{", &b, &end(1, 2)], "line 4: ", "a\n");
    let odd = r#"{"keyspace": "odd", "options": {"merge_operator": "multiply"}}"#;
    ends(&[HEAD, &default, &a, odd, &b, &end(2, 2)], "set-union", "a\n");
    ends(&[HEAD, &default, &a, &end(1, 1), &b], "line 5: a line behind the end", "a\n");
    ends(&[HEAD, &default, &a, &end(2, 1)], "export the store again", "a\n");
}

/// Keyspaces are made with the options that they had, and keep what those did.
#[test]
fn an_export_has_the_options_of_keyspaces() {
    let store = Store::new();
    let create = |args: &[&str]| {
        let mut all = vec!["keyspace", "create", "--create", "--pm-size", "16M"];
        all.extend(args);
        store.run(&all).ok();
    };
    create(&["hits", "--merge-operator", "add", "--set", "filter_bits=0"]);
    create(&["lines", "--merge-operator", "append:; ", "--set", "memtable_bytes=65536"]);
    create(&["day", "--ttl", "1d", "--set", "compression=none"]);
    create(&["moment", "--ttl", "0.05"]);
    create(&["plain"]);
    store.run(&["merge", "--keyspace", "hits", "home", "40"]).ok();
    store.run(&["merge", "--keyspace", "lines", "log", "one"]).ok();
    for keyspace in ["day", "moment", "plain"] {
        store.run(&["put", "--keyspace", keyspace, "key", "value"]).ok();
    }
    std::thread::sleep(std::time::Duration::from_millis(60));
    let export = store.run(&["export"]).ok();
    let options = r#"{"keyspace":"hits","options":{"filter_bits":"0","merge_operator":"add"}}"#;
    assert!(export.text().contains(options), "{}", export.text());

    let copy = Store::new();
    let summary = load(&copy, &["--format", "export", "--strict"], &export.out).ok().json();
    assert_eq!(summary["records"], 4, "the value that has expired is not exported");
    let list = |store: &Store| store.run(&["keyspace", "list"]).ok().text();
    assert_eq!(list(&copy), list(&store));
    assert!(list(&copy).contains("day\tcompression=none ttl=86400s"), "{}", list(&copy));
    copy.run(&["merge", "--keyspace", "hits", "home", "2"]).ok();
    let sum = copy.run(&["get", "--hex", "--keyspace", "hits", "686f6d65"]).ok().text();
    assert_eq!(sum, "2a00000000000000\n");
    copy.run(&["merge", "--keyspace", "lines", "log", "two"]).ok();
    assert_eq!(copy.run(&["get", "--keyspace", "lines", "log"]).ok().text(), "one; two\n");
    copy.run(&["put", "--keyspace", "moment", "key", "value"]).ok();
    std::thread::sleep(std::time::Duration::from_millis(60));
    assert_eq!(copy.run(&["scan", "--count", "--keyspace", "moment"]).ok().text(), "0\n");
    assert_eq!(copy.run(&["get", "--keyspace", "day", "key"]).ok().text(), "value\n");

    // A keyspace that has other options is left as it is.
    let other = Store::new();
    let hits = ["keyspace", "create", "--create", "--pm-size", "16M", "hits"];
    other.run(&hits).ok();
    let ran = load(&other, &["--format", "export"], &export.out);
    assert!(ran.code == 3 && ran.err.contains("other options (none, in the export"), "{}", ran.err);
    assert_eq!(other.run(&["scan", "--count", "--keyspace", "hits"]).ok().text(), "0\n");
}
