//! checkpoint, ingest, repair: data that moves between stores.

use crate::store::Store;

#[test]
fn a_checkpoint_is_read_and_opened_like_a_store() {
    let store = Store::filled(100, &["--background-threads", "0"]);
    store.run(&["compact", "--to", "key00050"]).ok();
    store.run(&["put", "new", "value"]).ok();
    let text = store.run(&["checkpoint", "copy"]).ok().text();
    assert_eq!(text, "copy holds everything up to sequence number 101\n");
    store.run(&["checkpoint", "copy"]).failed(3, "is there already");
    store.run(&["checkpoint", "no/copy"]).failed(3, "make it first");
    std::fs::remove_dir_all(store.dir().join("db")).expect("removed");
    assert_eq!(store.run(&["--db", "copy", "get", "new"]).ok().text(), "value\n");
    assert_eq!(store.run(&["--db", "copy", "scan", "--count"]).ok().text(), "101\n");
    assert_eq!(store.run(&["--db", "copy", "check"]).ok().text().lines().last(), Some("no damage"));
    assert!(!store.dir().join("copy/pool").exists(), "reading leaves it as it is");
    store.run(&["--db", "copy", "put", "k", "v", "--pm-size", "32M"]).ok();
    assert_eq!(store.run(&["--db", "copy", "scan", "--count"]).ok().text(), "102\n");
}

#[test]
fn external_tables_are_ingested() {
    let store = Store::filled(3, &[]);
    let mut writer = sst::Writer::new(
        Vec::new(),
        sst::WriterOptions { external: true, ..sst::WriterOptions::default() },
    );
    writer
        .add(b"key00001", strandline::Seq::ZERO, sst::EntryKind::Value, b"ingested")
        .expect("add");
    writer.add(b"key00002", strandline::Seq::ZERO, sst::EntryKind::Delete, b"").expect("add");
    let file = store.dir().join("x.sst");
    std::fs::write(&file, writer.finish().expect("finish").0).expect("written");
    store.run(&["ingest", "x.sst", "x.sst"]).failed(2, "overlap");
    let text = store.run(&["ingest", "x.sst", "--move"]).ok().text();
    assert_eq!(text, "1 file ingested with sequence number 4\n");
    assert!(!file.exists());
    let all = store.run(&["scan"]).ok().text();
    assert_eq!(all, "key00000\tvalue 0\nkey00001\tingested\n");
    store.run(&["ingest", "x.sst"]).failed(3, "x.sst");
    store.run(&["ingest", "db/STORE"]).failed(3, "STORE");
}

#[test]
fn repair_tells_what_is_lost() {
    let store = Store::filled(500, &["--background-threads", "0", "--compression", "none"]);
    store.run(&["compact", "--compression", "none"]).ok();
    store.run(&["put", "new", "value"]).ok();
    let size = ["--pm-size", "32M"];
    let text = store.run(&[&["repair", "db", "--to", "whole"], &size[..]].concat()).ok().text();
    assert_eq!(text, "501 records in 1 keyspaces saved\nnothing lost\n");
    let table = store.dir().join("db/sst/000001.sst");
    let mut bytes = std::fs::read(&table).expect("table");
    bytes[5000] ^= 1;
    std::fs::write(&table, bytes).expect("written");
    let ran = store.run(&[&["repair", "db", "--to", "part", "--json"], &size[..]].concat());
    assert_eq!(ran.code, 1, "{}", ran.err);
    let json = ran.json();
    let lost = &json["lost"][0];
    assert_eq!(json["lost"].as_array().map(Vec::len), Some(1), "{json}");
    assert_eq!(lost["keyspace"], "default");
    let (from, to) = (lost["from"].as_str().expect("a key"), lost["to"].as_str().expect("a key"));
    let saved: u64 = json["records"].to_string().parse().expect("a number");
    let number = |key: &str| key[3..].parse::<u64>().expect("a number");
    assert_eq!(number(to) - number(from) - 1, 501 - saved, "{json}");
    let missing = format!("key{:05}", number(from) + 1);
    assert_eq!(store.run(&["--db", "part", "get", &missing]).code, 1);
    assert_eq!(
        store.run(&["--db", "part", "get", to]).ok().text().trim(),
        format!("value {}", number(to))
    );
    store.run(&[&["repair", "db", "--to", "part"], &size[..]].concat()).failed(3, "already");
    store.run(&[&["repair", "nothing", "--to", "x"], &size[..]].concat()).failed(3, "nothing");
}
