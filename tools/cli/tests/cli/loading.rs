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
    // Within the engine's limits, but more than one commit holds in zones of this size.
    let wide = "w".repeat(60 << 10);
    let input = format!("a\t1\n{over}\t2\nb\t3\n{wide}\t4\nc\t5\n");
    let ran = load(&store, &["--zone-size", "64K"], input).ok();
    assert_eq!(rejected(&ran), [2, 4], "{}", ran.err);
    assert_eq!(store.run(&["scan"]).ok().text(), "a\t1\nb\t3\nc\t5\n");
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
    assert!(ran.code == 3 && ran.err.contains("has 100 records, 48 were read"), "{}", ran.err);
    let ran = load(&copy, &["--format", "export", "--keyspace", "x"], "");
    assert_eq!(ran.code, 2, "{}", ran.err);
}
