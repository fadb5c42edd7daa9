//! Which commands make a store, and what a mistyped path does.

use crate::store::Store;

const SIZE: [&str; 2] = ["--pm-size", "16M"];

#[test]
fn a_mistyped_path_makes_no_store() {
    let store = Store::new();
    for args in [
        &["get", "a"][..],
        &["scan"],
        &["stats"],
        &["check"],
        &["put", "a", "b"],
        &["load", "-"],
        &["del", "a"],
        &["compact"],
        &["ingest", "x.sst"],
        &["keyspace", "list"],
        &["keyspace", "create", "a"],
        &["keyspace", "drop", "a"],
        &["checkpoint", "copy"],
    ] {
        let args = [args, &["--db", "mistyped"]].concat();
        store.run(&args).failed(3, "NotFound: open: no store at mistyped").failed(3, "--create");
        assert!(!store.dir().join("mistyped").exists(), "{args:?}");
    }
}

#[test]
fn create_makes_an_empty_store_once() {
    let store = Store::new();
    let text = store.run(&[&["create"], &SIZE[..]].concat()).ok().text();
    assert!(
        text.starts_with("created a store of ") && text.contains("a write survives: "),
        "{text}"
    );
    assert_eq!(store.run(&["scan", "--count"]).ok().text(), "0\n");
    store.run(&["put", "a", "b"]).ok();
    store.run(&["create"]).failed(3, "Exists: create: a store is at ");
    assert_eq!(store.run(&["get", "a"]).ok().text(), "b\n", "it is as it was");
    store.run(&["create", "--pm", "heap", "--db", "other"]).failed(2, "heap");
}

/// Of several processes that make the same store at once one says that it has made it.
#[test]
fn one_of_several_creates_makes_the_store() {
    for _ in 0..5 {
        let store = Store::new();
        let args = [&["create"], &SIZE[..]].concat();
        let running: Vec<_> = (0..6).map(|_| store.spawn(&args)).collect();
        let mut made = 0;
        for child in running {
            let ended = child.wait_with_output().expect("it ends");
            let err = String::from_utf8_lossy(&ended.stderr).into_owned();
            match ended.status.code() {
                Some(0) => made += 1,
                Some(3) => assert!(err.contains("Exists: ") || err.contains("Busy: "), "{err}"),
                other => panic!("{other:?}: {err}"),
            }
        }
        assert_eq!(made, 1);
        assert_eq!(store.run(&["scan", "--count"]).ok().text(), "0\n");
    }
    // What is refused leaves no directory behind.
    let store = Store::new();
    store.run(&["create", "--pm-size", "10"]).failed(2, "pm_size");
    assert!(!store.dir().join("db").exists());
}

#[test]
fn a_store_with_a_lost_pool_is_not_made_again() {
    let store = Store::filled(3, &[]);
    std::fs::remove_file(store.pool()).expect("removed");
    for args in [&["create"][..], &["put", "a", "b"], &["put", "--create", "a", "b"], &["get", "a"]]
    {
        store.run(args).failed(3, "names a pool that is not there");
        assert!(!store.pool().exists(), "{args:?}");
    }
}

#[test]
fn commands_that_bring_records_make_a_store_where_they_are_told() {
    let table = {
        let mut writer = sst::Writer::new(
            Vec::new(),
            sst::WriterOptions { external: true, ..sst::WriterOptions::default() },
        );
        writer.add(b"a", strandline::Seq::ZERO, sst::EntryKind::Value, b"1").expect("add");
        writer.finish().expect("finish").0
    };
    for args in [
        &["put", "a", "1"][..],
        &["load", "a.tsv"],
        &["ingest", "a.sst"],
        &["keyspace", "create", "other"],
    ] {
        let store = Store::new();
        std::fs::write(store.dir().join("a.tsv"), "a\t1\n").expect("written");
        std::fs::write(store.dir().join("a.sst"), &table).expect("written");
        store.run(&[args, &["--create"], &SIZE].concat()).ok();
        let records = if args[0] == "keyspace" { "0\n" } else { "1\n" };
        assert_eq!(store.run(&["scan", "--count"]).ok().text(), records, "{args:?}");
        // Where there is one, it is used.
        store.run(&["put", "--create", "b", "2"]).ok();
        assert_eq!(store.run(&["get", "b"]).ok().text(), "2\n", "{args:?}");
    }
}
