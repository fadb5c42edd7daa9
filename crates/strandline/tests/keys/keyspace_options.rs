//! Options of keyspaces: kept in the store, heeded, and shown.

use std::sync::Arc;

use crate::common::{Longest, TempDir, kind_of};
use strandline::{
    CompactionFilter, Compression, Db, Decision, ErrorKind, Hooks, KeyspaceOptions, Options,
};

fn options() -> Options {
    Options::default()
        .pm_size(8 << 20)
        .zone_size(16 << 10)
        .memtable_bytes(1 << 20)
        .background_threads(0)
}

/// Removes values that begin with `old`.
struct NoOld;

impl CompactionFilter for NoOld {
    fn decide(&self, _keyspace: &str, _level: usize, _key: &[u8], value: &[u8]) -> Decision {
        if value.starts_with(b"old") { Decision::Remove } else { Decision::Keep }
    }
}

fn hooks() -> Hooks {
    Hooks::default()
        .named_merge_operator("longest", Arc::new(Longest))
        .named_compaction_filter("no-old", Arc::new(NoOld))
}

#[test]
fn options_are_those_of_the_making_at_every_open() {
    let dir = TempDir::new("keyspace-options");
    let all = KeyspaceOptions::new()
        .compression(Compression::Snappy)
        .compression_level(4)
        .filter_bits(0)
        .memtable_bytes(4096)
        .merge_operator("longest")
        .compaction_filter("no-old");
    let db = Db::open_with(dir.path(), options(), hooks()).expect("open");
    let made = db.create_keyspace_with("all", all.clone()).expect("create");
    assert_eq!(made.options(), all);
    db.create_keyspace("none").expect("create");
    db.close().expect("close");
    for round in 0..3 {
        let db = Db::open_with(dir.path(), options(), hooks()).expect("open");
        assert_eq!(db.keyspace("all").expect("keyspace").options(), all, "open {round}");
        assert!(db.keyspace("none").expect("keyspace").options().is_empty());
        assert!(db.default_keyspace().options().is_empty());
        let again = db.create_keyspace_with("all", KeyspaceOptions::new());
        assert_eq!(kind_of(again), ErrorKind::Exists);
        db.close().expect("close");
        let db = Db::open_read_only_with(dir.path(), options(), hooks()).expect("open");
        assert_eq!(db.keyspace("all").expect("keyspace").options(), all, "read only");
    }
    // A dropped keyspace takes its options with it.
    let db = Db::open_with(dir.path(), options(), hooks()).expect("open");
    db.drop_keyspace("all").expect("drop");
    assert!(db.create_keyspace("all").expect("create").options().is_empty());
}

#[test]
fn tables_memtables_and_filters_are_as_each_keyspace_wants_them() {
    let dir = TempDir::new("keyspace-tables");
    let db = Db::open_with(dir.path(), options(), hooks()).expect("open");
    let loose = KeyspaceOptions::new().compression(Compression::None).filter_bits(0);
    let loose = db.create_keyspace_with("loose", loose).expect("create");
    let small = KeyspaceOptions::new().memtable_bytes(4096);
    let small = db.create_keyspace_with("small", small).expect("create");
    let filtered = KeyspaceOptions::new().compaction_filter("no-old");
    let filtered = db.create_keyspace_with("filtered", filtered).expect("create");
    let plain = db.create_keyspace("plain").expect("create");
    for no in 0..2000_u32 {
        let value = format!("{}{:0>60}", if no % 2 == 0 { "old" } else { "new" }, 0);
        for keyspace in [&loose, &small, &filtered, &plain] {
            keyspace.put(no.to_be_bytes(), &value).expect("put");
        }
    }
    let memtables = |name: &str| {
        let figures = db.properties();
        let of = figures.keyspaces.iter().find(|each| each.name == name).expect("figures");
        of.memtables + of.runs.len() + of.levels.len()
    };
    assert!(memtables("small") > memtables("plain"), "4 KiB are flushed soon");
    db.flush().expect("flush");
    db.compact().expect("compact");
    let bytes = |name: &str| {
        let figures = db.properties();
        let of = figures.keyspaces.iter().find(|each| each.name == name).expect("figures").clone();
        of.levels.iter().map(|level| level.bytes()).sum::<u64>()
    };
    assert!(bytes("loose") > 3 * bytes("plain"), "{} and {}", bytes("loose"), bytes("plain"));
    assert_eq!(filtered.iter().count(), 1000);
    assert_eq!(plain.iter().count(), 2000);
    assert_eq!(loose.get(7_u32.to_be_bytes()).expect("get").expect("there").len(), 63);
}

/// Stores go from application to application: one that lacks an operator reads all that needs none.
#[test]
fn an_operator_that_an_open_does_not_know_fails_reads_of_operands_and_says_so() {
    let dir = TempDir::new("keyspace-unknown");
    let db = Db::open_with(dir.path(), options(), hooks()).expect("open");
    let names = KeyspaceOptions::new().merge_operator("longest");
    let words = db.create_keyspace_with("words", names.clone()).expect("create");
    words.put("plain", "value").expect("put");
    words.merge("merged", "a").expect("merge");
    words.merge("merged", "abc").expect("merge");
    db.close().expect("close");

    let db = Db::open(dir.path(), options()).expect("it opens");
    let words = db.keyspace("words").expect("keyspace");
    assert_eq!(words.get("plain").expect("get").as_deref(), Some(&b"value"[..]));
    let refused = words.get("merged").expect_err("no operator");
    assert_eq!(refused.kind(), ErrorKind::NotSupported);
    let said = refused.to_string();
    let told = ["merged", "words", "operator longest", "register it (Hooks::named_merge_operator)"];
    assert!(told.iter().all(|part| said.contains(part)), "{said}");
    assert_eq!(kind_of(words.merge("merged", "b")), ErrorKind::InvalidArgument);
    db.flush().expect("flush");
    db.compact().expect("operands stay as they are");
    let unknown = db.create_keyspace_with("more", names).err().expect("a name that is not known");
    assert_eq!(unknown.kind(), ErrorKind::InvalidArgument);
    assert!(unknown.to_string().contains("set-union"), "{unknown}");
    db.close().expect("close");

    let db = Db::open_with(dir.path(), options(), hooks()).expect("open");
    let words = db.keyspace("words").expect("keyspace");
    assert_eq!(words.get("merged").expect("get").as_deref(), Some(&b"abc"[..]));
}

#[test]
fn a_checkpoint_keeps_options() {
    let dir = TempDir::new("keyspace-checkpoint");
    let db = Db::open_with(dir.path().join("db"), options(), hooks()).expect("open");
    let adds = KeyspaceOptions::new().merge_operator("add");
    let hits = db.create_keyspace_with("hits", adds.clone()).expect("create");
    hits.merge("home", 5_u64.to_le_bytes()).expect("merge");
    db.checkpoint(dir.path().join("copy")).expect("checkpoint");
    let copy = Db::open(dir.path().join("copy"), options()).expect("open");
    let hits = copy.keyspace("hits").expect("keyspace");
    assert_eq!(hits.options(), adds);
    hits.merge("home", 2_u64.to_le_bytes()).expect("merge");
    assert_eq!(hits.get("home").expect("get").as_deref(), Some(&7_u64.to_le_bytes()[..]));
}
