//! Values apart from their keys: what lsm, check and sst show of them.

use crate::store::Store;

const OPTIONS: [&str; 6] =
    ["--background-threads", "0", "--compression", "none", "--value-files-min", "1000"];

/// Three long values and a short one, in one table and one value file.
fn store() -> Store {
    let store = Store::new();
    let line = |no: u32| format!("key{no}\t{}\n", no.to_string().repeat(1500));
    let lines: String = (0..3).map(line).chain(["short\tvalue\n".to_owned()]).collect();
    let load = [&["load", "--create", "--pm-size", "32M"][..], &OPTIONS].concat();
    store.run_with(&load, lines).ok();
    store.run(&[&["compact"][..], &OPTIONS].concat()).ok();
    store
}

#[test]
fn lsm_and_check_show_value_files() {
    let store = store();
    let json = store.run(&["lsm", "--json"]).ok().json()["keyspaces"][0]["value_files"].clone();
    let files = json.as_array().expect("files");
    assert_eq!((files.len(), &files[0]["values"]), (1, &3.into()), "{json}");
    assert_eq!((&files[0]["live_values"], &files[0]["tables"]), (&3.into(), &1.into()), "{json}");
    // Records: 32 bytes, a key of 4 and a value of 1500.
    assert_eq!(files[0]["live_bytes"], 3 * 1536);
    assert_eq!(files[0]["bytes"], 3 * 1536 + 62);
    let path = files[0]["path"].as_str().expect("a path");
    assert!(path.ends_with(".blob") && std::path::Path::new(path).exists(), "{path}");
    let text = store.run(&["lsm"]).ok().text();
    assert!(text.contains("values") && text.contains("1 value file, 4.50 KiB live"), "{text}");
    let text = store.run(&["lsm", "--files"]).ok().text();
    assert!(
        text.contains("value file  PM offset  bytes  live bytes  values  live values  tables"),
        "{text}"
    );
    let text = store.run(&["check"]).ok().text();
    assert!(text.contains("1 value file with 3 values that tables refer to verified"), "{text}");
    let json = store.run(&["check", "--json"]).ok().json();
    assert_eq!((&json["value_files"], &json["values"]), (&1.into(), &3.into()), "{json}");
    let mut bytes = std::fs::read(path).expect("bytes");
    bytes[100] ^= 1;
    std::fs::write(path, bytes).expect("written");
    let ran = store.run(&["check"]);
    assert!(ran.code != 0 && ran.text().contains(".blob"), "{}", ran.text());
    store.run(&["get", "key0"]).failed(3, ".blob");
    assert_eq!(store.run(&["get", "key1"]).ok().text().trim_end().len(), 1500);
}

#[test]
fn values_in_the_pool_are_shown_and_read() {
    let store = Store::new();
    let sizes = ["--pm-size", "8M", "--zone-size", "32K"];
    let options = [&OPTIONS[..], &sizes[..], &["--pm-values", "40"]].concat();
    let lines: String = (0..300).map(|no| format!("key{no:03}\t{}\n", "v".repeat(1500))).collect();
    store.run_with(&[&["load", "--create"][..], &options].concat(), lines).ok();
    store.run(&[&["compact"][..], &options].concat()).ok();
    let json = store.run(&["lsm", "--json"]).ok().json()["keyspaces"][0]["value_files"].clone();
    let files = json.as_array().expect("files");
    assert!(files.len() > 10 && files.iter().all(|file| !file["pm_at"].is_null()), "{json}");
    assert!(files[0]["path"].as_str().is_some_and(|path| path.ends_with("pool")), "{json}");
    let at = files[0]["pm_at"].to_string();
    let text = store.run(&["lsm", "--files"]).ok().text();
    assert!(text.contains("KiB live, in PM") && text.contains(&at), "{text}");
    let text = store.run(&["manifest"]).ok().text();
    assert!(text.contains(&format!("tables in persistent memory at {at}\n")), "{text}");
    let stats = store.run(&["stats", "--json"]).ok().json();
    assert!(stats["ssd"]["pm_value_bytes"].as_u64() > Some(300 * 1500), "{stats}");
    assert_eq!(stats["ssd"]["pm_bytes"], 0);
    assert!(store.run(&["stats"]).ok().text().contains("  values in PM"));
    let text = store.run(&["check"]).ok().text();
    assert!(text.contains("300 values that tables refer to verified"), "{text}");
    assert_eq!(store.run(&["get", "key007"]).ok().text().trim_end().len(), 1500);
    store.run(&["get", "key007", "--pm-values", "50", "--pm-tables", "50"]).failed(2, "together");
}

#[test]
fn sst_shows_where_a_value_lies() {
    let store = store();
    let json = store.run(&["lsm", "--json"]).ok().json()["keyspaces"][0].clone();
    let blob = json["value_files"][0]["id"].as_u64().expect("a number");
    let table = json["levels"][0]["tables"][0]["path"].as_str().expect("a path").to_owned();
    let text = store.run(&["sst", &table, "--scan"]).ok().text();
    let first = format!("key0\t1\tvalue in a file\t1500 bytes at 66 of {blob:06}.blob\n");
    assert!(text.starts_with(&first), "{text}");
    assert!(text.ends_with("short\t4\tvalue\tvalue\n"), "{text}");
}
