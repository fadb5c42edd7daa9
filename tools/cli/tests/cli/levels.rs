//! lsm, manifest, sst, compact: the levels and the tables in them.

use crate::store::Store;

/// Three keys in one table at the bottom, one of them deleted in a memtable.
fn store() -> Store {
    let store = Store::filled(3, &["--background-threads", "0", "--compression", "none"]);
    store.run(&["compact", "--background-threads", "0", "--compression", "none"]).ok();
    store.run(&["del", "key00001", "--background-threads", "0"]).ok();
    store
}

#[test]
fn lsm_draws_where_data_is() {
    let store = store();
    let text = store.run(&["lsm", "--files"]).ok().text();
    let golden = "\
keyspace default
  place    what         bytes   entries  deletions  target
  PM       2 memtables  64 B          1          -  -
  PM       0 runs       0 B           0          -  10.31 MiB
  level 6  1 table      1005 B        3          0  no limit
  level  table  PM offset  bytes  entries  seqs    first key  last key
      6      1          -   1005        3  1 to 3  key00000   key00002
";
    assert_eq!(text, golden, "{text}");
    let json = store.run(&["lsm", "--json"]).ok().json();
    let level = &json["keyspaces"][0]["levels"][0];
    assert_eq!((&level["level"], &level["tables"][0]["largest"]), (&6.into(), &"key00002".into()));
}

#[test]
fn manifest_names_everything() {
    let store = store();
    let text = store.run(&["manifest"]).ok().text();
    let golden = "\
epoch 4, floor 4
next: keyspace 1, run 8589934593, table 2
keyspace 0 default
  subrange 0: keys from \"\"
  level 6, table 1: 3 entries, 0 deletions, 0 range deletions, seqs 1 to 3, 1005 bytes, keys key00000 to key00002
zone 0, incarnation 3.0: live in keyspace 0, sealed at 64
";
    assert_eq!(text, golden, "{text}");
    let json = store.run(&["manifest", "--json"]).ok().json();
    assert_eq!(json["view"].as_array().map(Vec::len), Some(golden.lines().count()));
}

#[test]
fn sst_needs_no_store() {
    let store = store();
    let file = store.dir().join("db/sst/000001.sst");
    let lone = store.dir().join("lone.sst");
    std::fs::copy(&file, &lone).expect("a copy");
    let lone = lone.to_str().expect("text");
    std::fs::remove_dir_all(store.dir().join("db")).expect("removed");
    let text = store.run(&["sst", lone, "--verify"]).ok().text();
    for part in ["format            5", "entries           3", "column family     0 default"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let scan = store.run(&["sst", lone, "--scan"]).ok().text();
    assert_eq!(
        scan,
        "key00000\t1\tvalue\tvalue 0\nkey00001\t2\tvalue\tvalue 1\nkey00002\t3\tvalue\tvalue 2\n"
    );
    let json = store.run(&["sst", lone, "--json", "--verify"]).ok().json();
    assert_eq!((&json["entries"], &json["findings"]), (&3.into(), &serde_json::json!([])));
    let mut bytes = std::fs::read(lone).expect("bytes");
    bytes[9] ^= 1;
    std::fs::write(lone, &bytes).expect("written");
    let ran = store.run(&["sst", lone, "--verify"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.text().contains("offset 0"), "{}", ran.text());
    store.run(&["sst", lone, "--scan"]).failed(3, "checksum");
    store.run(&["sst", "nothing"]).failed(3, "nothing");
    std::fs::write(lone, b"foreign").expect("written");
    store.run(&["sst", lone]).failed(3, "too few for a table");
}

#[test]
fn tables_in_the_pool_are_shown_and_read() {
    let options = ["--pm-size", "2M", "--zone-size", "16K", "--memtable-bytes", "32K"];
    let more = ["--table-bytes", "16K", "--pm-tables", "40", "--background-threads", "0"];
    let options = [&options[..], &more[..]].concat();
    let store = Store::new();
    let lines: String = (0..20_000).map(|at| format!("key{at:05}\tvalue {at}\n")).collect();
    // The second time it lies above what the first brought.
    for _ in 0..2 {
        store.run_with(&[&["load", "--create"][..], &options[..]].concat(), &lines).ok();
    }
    let levels = store.run(&["lsm", "--json"]).ok().json()["keyspaces"][0]["levels"].clone();
    let tables = levels
        .as_array()
        .expect("levels")
        .iter()
        .flat_map(|level| level["tables"].as_array().expect("tables").clone());
    let table = tables.into_iter().find(|table| !table["pm_at"].is_null()).expect("one in PM");
    let (at, len) = (table["pm_at"].to_string(), table["bytes"].to_string());
    let text = store.run(&["lsm", "--files"]).ok().text();
    assert!(text.contains(" in PM") && text.contains(&at), "{text}");
    let text = store.run(&["manifest"]).ok().text();
    assert!(text.contains(&format!("bytes in persistent memory at {at}, keys")), "{text}");
    let stats = store.run(&["stats", "--json"]).ok().json();
    assert!(stats["ssd"]["pm_bytes"].as_u64() > Some(0), "{stats}");
    assert!(store.run(&["stats"]).ok().text().contains("  in PM"));
    store.run(&["check"]).ok();

    let pool = store.pool();
    let pool = pool.to_str().expect("text");
    let json =
        store.run(&["sst", pool, "--at", &at, "--len", &len, "--verify", "--json"]).ok().json();
    assert_eq!((&json["entries"], &json["findings"]), (&table["entries"], &serde_json::json!([])));
    store.run(&["sst", pool]).failed(2, "--at");
    store.run(&["sst", pool, "--at", &at, "--len", "9000000000"]).failed(2, "lsm --files");
    store.run(&["get", "key00000", "--pm-tables", "80"]).failed(2, "75");
}

#[test]
fn compact_takes_a_range() {
    let store = Store::filled(100, &["--background-threads", "0"]);
    store.run(&["compact", "--from", "x"]).ok();
    let runs = |store: &Store| {
        let json = store.run(&["lsm", "--json"]).ok().json();
        json["keyspaces"][0]["runs"].as_array().map(Vec::len)
    };
    assert_eq!(runs(&store), Some(1), "no key is there");
    store.run(&["compact", "--from", "key00050", "--to", "key00051"]).ok();
    assert_eq!(runs(&store), Some(0));
    assert_eq!(store.run(&["scan", "--count"]).ok().text(), "100\n");
}
