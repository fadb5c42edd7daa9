//! check, and the other commands on what it finds.

use crate::store::Store;

#[test]
fn a_sound_store_has_none() {
    let store = Store::filled(500, &[]);
    let text = store.run(&["check"]).ok().text();
    assert_eq!(text, "500 records and 0 index blocks verified\nno damage\n");
    let json = store.run(&["check", "--json"]).ok().json();
    assert_eq!((&json["readable"], &json["records"]), (&true.into(), &500.into()));
    let space = &json["space"];
    assert_eq!(
        (&space["whole"], &space["owned"][0]["owner"]["kind"]),
        (&true.into(), &"zone".into())
    );
    assert_eq!(
        (space["leaked"].as_array(), space["doubled"].as_array()),
        (Some(&vec![]), Some(&vec![]))
    );
}

/// As a process leaves it that is killed after it has written a table, and before the manifest names that.
#[test]
fn a_file_without_an_owner_is_told_and_is_no_damage() {
    let store = Store::with_runs(20_000);
    store.run(&["compact"]).ok();
    let tables = store.dir().join("db/sst");
    std::fs::write(tables.join("000777.sst"), b"half a table").expect("written");
    let text = store.run(&["check"]).ok().text();
    assert!(text.contains("leaked: file 777 of tables or values"), "{text}");
    assert!(text.ends_with("no damage\n"), "{text}");
    let json = store.run(&["check", "--json"]).ok().json();
    assert_eq!(json["space"]["leaked"].as_array().map(Vec::len), Some(1), "{json}");
    store.run(&["put", "a", "b"]).ok();
    assert!(!store.run(&["check"]).ok().text().contains("leaked"));
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
    let ran = store.run(&["check"]);
    assert_eq!(ran.code, 1, "one of two will do, but not for ever");
    assert!(ran.text().contains("superblock slot"), "{}", ran.text());
    store.run(&["put", "a", "b"]).ok();
    assert_eq!(store.run(&["check"]).ok().text().lines().last(), Some("no damage"), "it is mended");
    store.flip(&[16, 2048 + 16]);
    let ran = store.run(&["check"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.text().starts_with("the store cannot be read:\nCorruption"), "{}", ran.text());
    assert!(ran.text().contains("db/pool"), "{}", ran.text());
    let ran = store.run(&["check", "--json"]);
    assert_eq!((ran.code, &ran.json()["readable"]), (1, &false.into()));
    store.run(&["get", "key00001"]).failed(3, "Corruption");
    // The identity of the pool went with them.
    store.run(&["repair", "db", "--to", "new"]).failed(3, "pool");
}

/// Everything is in the pool, and its superblock and manifest are gone.
#[test]
fn records_are_saved_without_superblock_and_manifest() {
    let store = Store::filled(500, &[]);
    store.flip(&[100, 2048 + 100]);
    store.run(&["get", "key00001"]).failed(3, "db/pool");
    let ran = store.run(&["repair", "db", "--to", "new", "--pm-size", "32M"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(
        ran.text().starts_with("500 records in 1 keyspaces saved\n2 ranges lost"),
        "{}",
        ran.text()
    );
    assert!(ran.text().contains("db/pool"), "{}", ran.text());
    assert_eq!(store.run(&["--db", "new", "get", "key00250"]).ok().text(), "value 250\n");
    assert_eq!(store.run(&["--db", "new", "check"]).ok().text().lines().last(), Some("no damage"));
}

#[test]
fn a_damaged_table_is_named() {
    let store = Store::filled(500, &["--background-threads", "0", "--compression", "none"]);
    store.run(&["compact", "--compression", "none"]).ok();
    let table = store.dir().join("db/sst/000001.sst");
    let good = std::fs::read(&table).expect("table");
    let checked = |what: &str| {
        let ran = store.run(&["check"]);
        assert_eq!(ran.code, 1, "{what}: {}", ran.err);
        assert!(ran.text().contains("000001.sst"), "{what}: {}", ran.text());
        let ran = store.run(&["repair", "db", "--to", "new", "--pm-size", "32M"]);
        assert_eq!(ran.code, 1, "{what}: {}", ran.err);
        assert!(ran.text().contains("000001.sst"), "{what}: {}", ran.text());
        std::fs::remove_dir_all(store.dir().join("new")).expect("removed");
    };
    for at in [300, good.len() / 2, good.len() - 1, good.len() - 20] {
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        std::fs::write(&table, &bytes).expect("written");
        let ran = store.run(&["check"]);
        assert_eq!(ran.code, 1, "at {at}: {}", ran.err);
        assert!(ran.text().contains("000001.sst"), "at {at}: {}", ran.text());
    }
    std::fs::write(&table, &good[..good.len() - 1]).expect("written");
    checked("cut");
    store.run(&["put", "a", "b"]).failed(3, "000001.sst");
    std::fs::remove_file(&table).expect("removed");
    checked("gone");
    store.run(&["get", "key00001"]).failed(3, "000001.sst");
}

#[test]
fn a_damaged_identity_is_named_and_repair_goes_without() {
    let store = Store::filled(10, &[]);
    let file = store.dir().join("db/STORE");
    for bytes in [
        &b"strandline store 1\npool \xffool\nssd sst\n"[..],
        b"strandline store 1\npool pool\nssd s",
    ] {
        std::fs::write(&file, bytes).expect("written");
        let ran = store.run(&["check"]);
        assert_eq!(ran.code, 1, "{}", ran.err);
        assert!(ran.text().contains("db/STORE"), "{}", ran.text());
        store.run(&["put", "a", "b"]).failed(3, "db/STORE");
        let text = store.run(&["repair", "db", "--to", "new", "--pm-size", "32M"]).ok().text();
        assert_eq!(text, "10 records in 1 keyspaces saved\nnothing lost\n");
        std::fs::remove_dir_all(store.dir().join("new")).expect("removed");
    }
}

/// Tables without a manifest are not a place for a new store, which would remove them.
#[test]
fn a_checkpoint_without_its_manifest_is_left_alone() {
    let store = Store::filled(100, &[]);
    store.run(&["checkpoint", "copy"]).ok();
    let dir = store.dir().join("copy");
    std::fs::remove_file(dir.join("sst/MANIFEST")).expect("removed");
    let put = ["--db", "copy", "put", "a", "b", "--pm-size", "32M"];
    store.run(&put).failed(3, "no store at copy");
    store.run(&[&put[..], &["--create"]].concat()).failed(3, "MANIFEST");
    assert!(!dir.join("pool").exists() && dir.join("sst").read_dir().expect("tables").count() > 0);
    let ran = store.run(&["repair", "copy", "--to", "new", "--pm-size", "32M"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.text().starts_with("100 records in 1 keyspaces saved\n"), "{}", ran.text());
}
