//! check, and the other commands on what it finds.

use crate::store::Store;

#[test]
fn a_sound_store_has_none() {
    let store = Store::filled(500, &[]);
    let text = store.run(&["check"]).ok().text();
    assert_eq!(text, "500 records and 0 index blocks verified\nno damage\n");
    let json = store.run(&["check", "--json"]).ok().json();
    assert_eq!((&json["readable"], &json["records"]), (&true.into(), &500.into()));
}

#[test]
fn a_flipped_byte_in_a_memtable_is_found() {
    let store = Store::filled(500, &["--batch", "1"]);
    let at = store.find(b"key00250");
    store.flip(&[at]);
    let ran = store.run(&["check", "--json"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    let found = &ran.json()["damage"][0];
    let (start, len) = (found["offset"].as_u64(), found["bytes"].as_u64());
    let covers = |start: u64, len: u64| start <= at as u64 && (at as u64) < start + len;
    assert!(start.zip(len).is_some_and(|(start, len)| covers(start, len)), "{found} and {at}");
    let text = store.run(&["check"]).text();
    assert!(text.contains("1 place damaged"), "{text}");
    // What a writer would make worse it does not open; what can be read is printed.
    store.run(&["put", "a", "b"]).failed(3, "Corruption");
    store.run(&["get", "key00250"]).failed(3, "Corruption");
    assert_eq!(store.run(&["get", "key00001"]).ok().text(), "value 1\n");
    let dump = store.run(&["dump"]).failed(3, "Corruption");
    assert!(dump.text().starts_with("key00000\tvalue 0\n"));
}

#[test]
fn a_flipped_byte_under_a_run_is_found() {
    let store = Store::with_runs(20_000);
    store.flip(&[store.find(b"key00250")]);
    let ran = store.run(&["check", "--json"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    let json = ran.json();
    assert_eq!(json["damage"].as_array().map(Vec::len), Some(1), "{json}");
    store.run(&["get", "key00250"]).failed(3, "Corruption");
    assert_eq!(store.run(&["get", "key00500"]).ok().text(), "value 500\n");
}

#[test]
fn a_lost_superblock_is_a_finding() {
    let store = Store::filled(10, &[]);
    store.flip(&[16]);
    assert_eq!(store.run(&["check"]).ok().text().lines().count(), 2, "one of two will do");
    store.flip(&[2048 + 16]);
    let ran = store.run(&["check"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.text().starts_with("the store cannot be read:\nCorruption"), "{}", ran.text());
    let ran = store.run(&["check", "--json"]);
    assert_eq!((ran.code, &ran.json()["readable"]), (1, &false.into()));
    store.run(&["get", "key00001"]).failed(3, "Corruption");
}
