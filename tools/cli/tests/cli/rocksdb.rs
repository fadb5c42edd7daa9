//! export --rocksdb and import --rocksdb: the way to RocksDB and back.

use crate::store::Store;

const SPACES: [(&str, &str); 3] =
    [("counts", "merge_operator=add"), ("lows", "merge_operator=min"), ("soon", "ttl=1h")];

/// A store with tables, value files, deleted ranges, operands and a time to live.
fn filled() -> Store {
    let apart = ["--value-files-min", "200", "--background-threads", "0"];
    let store = Store::filled(300, &apart);
    let with = |args: &[&str]| store.run(&[args, &apart[..]].concat()).ok();
    for at in 0..20 {
        with(&["put", &format!("long{at:02}"), &format!("{at} ").repeat(200)]);
    }
    for (name, option) in SPACES {
        with(&["keyspace", "create", name, "--set", option]);
    }
    with(&["compact"]);
    with(&["delete-range", "key00100", "key00200"]);
    with(&["put", "key00000", "new"]);
    with(&["del", "long03"]);
    for (name, operand) in [("counts", "5"), ("counts", "7"), ("lows", "b"), ("lows", "a")] {
        with(&["merge", "--keyspace", name, "k", operand]);
    }
    with(&["put", "--keyspace", "soon", "session", "here"]);
    store
}

fn scan(store: &Store, db: &str, keyspace: &str) -> String {
    store.run(&["--db", db, "scan", "--keyspace", keyspace]).ok().text()
}

#[test]
fn a_store_goes_to_rocksdb_and_comes_back() {
    let store = filled();
    let text = store.run(&["export", "--rocksdb", "rdb"]).ok().text();
    let mut lines = text.lines();
    let first = lines.next().expect("a line");
    assert!(
        first.starts_with("rdb holds 4 keyspaces, everything up to sequence number "),
        "{first}"
    );
    let lost = "keyspace soon was written anew: its values live on without a time to live";
    let without = "keyspace lows goes without its merge operator min, which RocksDB lacks; give it again where the family \
                   comes back: import --merge-operator lows=min";
    assert_eq!(lines.collect::<Vec<_>>(), [without, lost]);
    let names = std::fs::read_dir(store.dir().join("rdb")).expect("a directory");
    let names: Vec<String> =
        names.map(|entry| entry.expect("entry").file_name().to_string_lossy().into()).collect();
    for part in ["CURRENT", "IDENTITY", "MANIFEST-", "OPTIONS-", ".sst", ".blob"] {
        assert!(names.iter().any(|name| name.contains(part)), "{part} in {names:?}");
    }
    store.run(&["export", "--rocksdb", "rdb"]).failed(3, "is there already");
    store
        .run(&["export", "--rocksdb", "x", "--keyspace", "counts"])
        .failed(2, "leave --keyspace out");
    let import = ["import", "--rocksdb", "rdb", "--db", "back", "--pm-size", "32M"];
    let text = store.run(&import).ok().text();
    for part in ["back holds everything", "keyspace default: 219 keys", "keyspace counts: 1 key"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    for keyspace in ["default", "counts", "lows", "soon"] {
        assert_eq!(scan(&store, "back", keyspace), scan(&store, "db", keyspace), "{keyspace}");
    }
    assert_eq!(store.run(&["--db", "back", "check"]).ok().text().lines().last(), Some("no damage"));
    store.run(&["--db", "back", "merge", "--keyspace", "counts", "k", "1"]).ok();
    let count = store.run(&["--db", "back", "get", "--keyspace", "counts", "6b", "--hex"]).ok();
    assert!(count.text().starts_with("0d00"), "{}", count.text());
    store.run(&import).failed(3, "is there already");
}

#[test]
fn figures_are_json_and_what_is_no_database_is_refused() {
    let store = filled();
    let export = store.run(&["export", "--rocksdb", "rdb", "--json"]).ok().json();
    assert_eq!(export["families"][0]["name"], "default");
    assert!(export["families"][0]["value_files"].as_u64() > Some(0), "{export}");
    assert!(export["families"][3]["rewritten"].is_string(), "{export}");
    assert_eq!(export["families"][2]["operator_left_out"], "min");
    let import = ["import", "--rocksdb", "rdb", "--db", "back", "--pm-size", "32M", "--json"];
    let import = store.run(&import).ok().json();
    assert_eq!(import["seq"], export["seq"]);
    assert_eq!(import["keyspaces"][0]["keys"], 219);
    store.run(&["import", "--rocksdb", "db", "--db", "other"]).failed(3, "no database of RocksDB");
    assert_eq!(store.run(&["import", "--db", "other"]).code, 2);
    let wrong = ["import", "--rocksdb", "rdb", "--db", "other", "--merge-operator", "add"];
    store.run(&wrong).failed(2, "FAMILY=OPERATOR");
    let wrong = ["import", "--rocksdb", "rdb", "--db", "other", "--merge-operator", "typo=add"];
    store.run(&wrong).failed(2, "typo, which the database lacks");
    let hinted = ["import", "--rocksdb", "rdb", "--db", "hinted", "--pm-size", "32M"];
    store
        .run(
            &[&hinted[..], &["--merge-operator", "lows=min", "--merge-operator", "counts=add"]]
                .concat(),
        )
        .ok();
    store.run(&["--db", "hinted", "merge", "--keyspace", "lows", "k", "0"]).ok();
    std::fs::write(store.dir().join("rdb/000999.log"), "writes").expect("written");
    store.run(&["import", "--rocksdb", "rdb", "--db", "other"]).failed(3, "flush and close");
    assert!(!store.dir().join("other").exists());
}
