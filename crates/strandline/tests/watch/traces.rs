//! Traces of what a store is asked for.

use std::fs::File;
use std::path::Path;

use crate::common::{TempDir, small_store};
use strandline::operators::BuiltInOperator;
use strandline::{Batch, Db, ErrorKind, KeyspaceOptions, ReadOptions, TraceOptions, WriteOptions};
use trace::{Sample, TraceEnd, TraceReader};

/// What a trace has, a line each: number of the keyspace less that of `default`, key, operation. Times do not fall.
fn shown(path: &Path, db: &Db) -> Vec<String> {
    let default = db.default_keyspace().id();
    let mut reader =
        TraceReader::begin(File::open(path).expect("it is there"), "it").expect("begin");
    let (mut lines, mut before) = (Vec::new(), 0);
    while let Some(record) = reader.next().expect("read") {
        assert!(record.at_us >= before);
        before = record.at_us;
        let key = String::from_utf8_lossy(record.key);
        lines.push(format!("{} {key} {:?}", record.keyspace - default, record.operation));
    }
    assert_eq!(reader.end(), Some(TraceEnd::Whole));
    lines
}

#[test]
fn a_trace_has_what_was_asked_in_its_order() {
    let dir = TempDir::new("trace");
    let path = dir.join("trace");
    let db = Db::open(dir.join("db"), small_store()).expect("open");
    db.put("before", "it").expect("put");
    db.start_trace(&path, TraceOptions::new()).expect("begun");
    let counts = KeyspaceOptions::new().merge_operator(BuiltInOperator::Add.name());
    let counts = db.create_keyspace_with("counts", counts).expect("create");
    let default = db.default_keyspace();
    db.put("a", "12345").expect("put");
    db.get("a").expect("get");
    db.get("b").expect("get");
    assert!(db.contains_key("a").expect("get"));
    db.get_pinned("a").expect("get").expect("found");
    db.multi_get(["a", "before"]).expect("get");
    counts.merge("c", 1_u64.to_le_bytes()).expect("merge");
    let mut batch = Batch::new();
    batch.put(&counts, "d", [0; 8]);
    batch.delete(default, "a");
    db.write(&batch).expect("write");
    batch.clear();
    batch.put(default, "b", "");
    db.write_with(&batch, &WriteOptions::new()).expect("write");
    default.put_with("c", "3", &WriteOptions::new()).expect("put");
    db.delete_range("x", "y").expect("delete");
    let mut cursor = default.cursor(&ReadOptions::default()).expect("cursor");
    cursor.seek("b").expect("seek");
    cursor.next().expect("next");
    cursor.seek_for_prev("c").expect("seek");
    cursor.prev().expect("prev");
    cursor.prev().expect("prev");
    cursor.seek_to_last().expect("seek");
    drop(cursor);
    assert_eq!(db.range("b"..).count(), 3);
    assert_eq!(db.keys().rev().count(), 3);
    // What fails was not done.
    db.put(vec![0; 1 << 17], "").expect_err("too long");
    let summary = db.end_trace().expect("ended");
    db.put("behind", "it").expect("put");
    let wanted = [
        "0 a Put { bytes: 5 }",
        "0 a Get { found: Some(5) }",
        "0 b Get { found: None }",
        "0 a Get { found: Some(0) }",
        "0 a Get { found: Some(5) }",
        "0 a Get { found: Some(5) }",
        "0 before Get { found: Some(2) }",
        "1 c Merge { bytes: 8 }",
        "1 d Put { bytes: 8 }",
        "0 a Delete",
        "0 b Put { bytes: 0 }",
        "0 c Put { bytes: 1 }",
        "0 x DeleteRange { end: [121] }",
        "0 b Seek { steps: 1 }",
        "0 c SeekForPrev { steps: 2 }",
        "0  SeekForPrev { steps: 0 }",
        "0 b Seek { steps: 2 }",
        "0  SeekForPrev { steps: 2 }",
    ];
    assert_eq!(shown(&path, &db), wanted);
    assert_eq!((summary.records, summary.ended), (wanted.len() as u64, None));
    assert_eq!(summary.bytes, std::fs::metadata(&path).expect("it is there").len());
}

#[test]
fn a_sample_has_all_operations_on_its_keys() {
    let dir = TempDir::new("trace-sample");
    let path = dir.join("trace");
    let db = Db::open(dir.join("db"), small_store()).expect("open");
    db.start_trace(&path, TraceOptions::new().one_of(4)).expect("begun");
    let keys: Vec<String> = (0..1000).map(|at| format!("key{at}")).collect();
    for key in &keys {
        db.put(key, "value").expect("put");
        db.get(key).expect("get");
    }
    db.end_trace().expect("ended");
    let (sample, id) = (Sample::one_of(4), db.default_keyspace().id());
    let taken = keys.iter().filter(|key| sample.takes(id, key.as_bytes()));
    let wanted: Vec<String> = taken
        .flat_map(|key| {
            [format!("0 {key} Put {{ bytes: 5 }}"), format!("0 {key} Get {{ found: Some(5) }}")]
        })
        .collect();
    assert!((300..700).contains(&wanted.len()), "{}", wanted.len());
    assert_eq!(shown(&path, &db), wanted);
    let file = File::open(&path).expect("it is there");
    let mut reader = TraceReader::begin(file, "it").expect("begin");
    while reader.next().expect("read").is_some() {}
    assert_eq!(reader.reads(), 1000, "of all keys");
}

#[test]
fn a_trace_ends_at_its_length_and_the_store_goes_on() {
    let dir = TempDir::new("trace-full");
    let path = dir.join("trace");
    let db = Db::open(dir.join("db"), small_store()).expect("open");
    db.start_trace(&path, TraceOptions::new().max_bytes(1000)).expect("begun");
    for at in 0..500_u32 {
        db.put(at.to_be_bytes(), "value").expect("put");
    }
    let told = db.properties().trace.expect("a trace");
    assert!(told.ended.is_some_and(|why| why.contains("allow it more bytes")));
    let summary = db.end_trace().expect("ended");
    assert!((50..500).contains(&summary.records) && summary.bytes <= 1048, "{summary:?}");
    assert_eq!(shown(&path, &db).len() as u64, summary.records);
    assert_eq!(db.properties().trace, None);
}

#[test]
fn traces_are_refused_with_a_remedy() {
    let dir = TempDir::new("trace-refused");
    let (path, other) = (dir.join("trace"), dir.join("other"));
    let db = Db::open(dir.join("db"), small_store()).expect("open");
    let kind = |refused: strandline::Result<()>| refused.expect_err("refused").kind();
    assert_eq!(db.end_trace().expect_err("none").kind(), ErrorKind::InvalidArgument);
    let none = TraceOptions::new().one_of(0);
    assert_eq!(kind(db.start_trace(&path, none)), ErrorKind::InvalidArgument);
    db.start_trace(&path, TraceOptions::new()).expect("begun");
    assert_eq!(kind(db.start_trace(&other, TraceOptions::new())), ErrorKind::Busy);
    db.end_trace().expect("ended");
    assert_eq!(kind(db.start_trace(&path, TraceOptions::new())), ErrorKind::Exists);
    let nowhere = dir.join("no/such/trace");
    assert_eq!(kind(db.start_trace(nowhere, TraceOptions::new())), ErrorKind::Io);
    // A close ends a trace.
    db.start_trace(&other, TraceOptions::new()).expect("begun");
    db.put("key", "value").expect("put");
    db.close().expect("closed");
    assert_eq!(kind(db.start_trace(&other, TraceOptions::new())), ErrorKind::Closed);
    assert_eq!(shown(&other, &db).len(), 1);
}
