//! What is no record, and stands among the commits all the same.

use std::path::Path;
use std::time::Duration;

use ssd::{Fs, Memory};
use sst::{EntryKind, Writer, WriterOptions};
use strandline::{
    Changed, Db, ErrorKind, IngestOptions, KeyspaceOptions, Stream, StreamBatch, StreamOptions,
};

use crate::common::{Place, kind_of, noise, numbered, small_levels};
use crate::replica::Replica;

const MIB: u64 = 1 << 20;

fn all(stream: &mut Stream) -> Vec<StreamBatch> {
    std::iter::from_fn(|| stream.wait(Duration::ZERO).expect("reads")).collect()
}

/// Keyspaces as they come and go, and what is done in them between that.
#[test]
fn keyspaces_come_and_go_in_their_order() {
    let place = Place::new(8 * MIB, Memory::default());
    let options = || small_levels().pm_size(0);
    let mut db = place.open(options());
    drop(db.create_stream("copy", StreamOptions::new()).expect("create"));
    let (mut first, mut second) = (Replica::new(), Replica::new());
    for round in 0..6_u64 {
        let ttl = KeyspaceOptions::new().ttl(Duration::from_secs(3600));
        let options_of = if round % 2 == 0 { KeyspaceOptions::new() } else { ttl };
        let space = db.create_keyspace_with("spare", options_of).expect("create");
        assert_eq!(kind_of(db.create_keyspace("spare")), ErrorKind::Exists);
        for no in 0..150 {
            space.put(numbered(no), noise(no, round)).expect("put");
            db.put(numbered(no), noise(no, round + 100)).expect("put");
        }
        db.flush().expect("flush");
        db.compact().expect("compact");
        db.drop_keyspace("spare").expect("drop");
        drop(space);
        db.put("behind", "it").expect("put");
        if round % 2 == 0 {
            drop(db);
            db = place.open(options());
        }
        if round == 3 {
            first.follow(&mut db.stream("copy").expect("stream"));
            first.assert_equals(&db);
        }
    }
    let mut stream = db.stream("copy").expect("stream");
    second.follow(&mut stream);
    second.assert_equals(&db);
    first.follow(&mut stream);
    let batches = all(&mut db.stream("copy").expect("stream"));
    let told = |what: &Changed| {
        let is = |batch: &&StreamBatch| batch.changes.iter().any(|change| change.what == *what);
        batches.iter().filter(is).count()
    };
    assert_eq!((told(&Changed::KeyspaceCreated), told(&Changed::KeyspaceDropped)), (6, 6));
    batches.iter().for_each(|batch| first.apply(batch));
    assert_eq!(first, second);
    // What was passed is forgotten.
    stream.ack(second.upto).expect("ack");
    let text = db.manifest_view();
    assert!(!text.contains("was dropped"), "{text}");
    db.create_keyspace("spare").expect("create");
    assert!(db.manifest_view().contains("was created"));
}

#[test]
fn files_that_are_taken_in_are_told_of() {
    let memory = Memory::default();
    let place = Place::new(8 * MIB, memory.clone());
    let db = place.open(small_levels().pm_size(0));
    let mut stream = db.create_stream("copy", StreamOptions::new()).expect("create");
    let options = WriterOptions { external: true, ..WriterOptions::default() };
    let mut writer = Writer::new(Vec::new(), options);
    for no in 10..20 {
        writer.add(&numbered(no), strandline::Seq::ZERO, EntryKind::Value, b"v").expect("add");
    }
    let bytes = writer.finish().expect("table").0;
    let mut file = memory.create(Path::new("/taken")).expect("file");
    file.append(&bytes).expect("append");
    file.sync().expect("sync");
    db.put("before", "it").expect("put");
    let seq = db
        .ingest(db.default_keyspace(), &["/taken".into()], IngestOptions::default())
        .expect("ingest");
    db.put("behind", "it").expect("put");
    let batches = all(&mut stream);
    assert_eq!(batches.len(), 3);
    assert_eq!((batches[1].number, batches[1].changes.len()), (seq, 1));
    assert_eq!(&*batches[1].changes[0].keyspace, "default");
    let Changed::Ingested { tables, entries, smallest, largest } = &batches[1].changes[0].what
    else {
        panic!("{:?}", batches[1]);
    };
    assert_eq!((*tables, *entries), (1, 10));
    assert_eq!((smallest, largest), (&numbered(10), &numbered(19)));
}

/// Without streams nothing has a number but commits.
#[test]
fn without_streams_keyspaces_take_no_numbers() {
    let place = Place::new(4 * MIB, Memory::default());
    let db: Db = place.open(small_levels().pm_size(0));
    let seq = || db.properties().visible_seq.get();
    db.create_keyspace("other").expect("create");
    db.drop_keyspace("other").expect("drop");
    assert_eq!(seq(), 0);
    drop(db.create_stream("copy", StreamOptions::new()).expect("create"));
    db.create_keyspace("other").expect("create");
    db.drop_keyspace("other").expect("drop");
    assert_eq!(seq(), 2);
    db.drop_stream("copy").expect("drop");
    db.create_keyspace("other").expect("create");
    assert_eq!(seq(), 2);
}
