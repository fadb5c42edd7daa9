//! A copy of a store, kept in step by a stream.

use std::collections::BTreeMap;
use std::time::Duration;

use strandline::{Changed, Db, ReadOptions, Seq, Stream, StreamBatch};

use crate::common::{Contents, dump};

/// Values of all keyspaces, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replica {
    pub spaces: BTreeMap<String, Contents>,
    /// The last number that it has.
    pub upto: Seq,
}

impl Replica {
    /// An empty one, of a store that has only its first keyspace.
    pub fn new() -> Replica {
        let spaces = BTreeMap::from([("default".to_owned(), Contents::new())]);
        Replica { spaces, upto: Seq::ZERO }
    }

    /// What the store has now.
    pub fn of(db: &Db) -> Replica {
        let snapshot = db.snapshot();
        let contents = |name: String| {
            let space = db.keyspace(&name).expect("keyspace");
            (name, dump(&space, &ReadOptions::at(&snapshot)))
        };
        let spaces = db.keyspaces().into_iter().map(contents).collect();
        Replica { spaces, upto: snapshot.seq() }
    }

    fn space(&mut self, name: &str) -> &mut Contents {
        self.spaces.get_mut(name).unwrap_or_else(|| panic!("keyspace {name} was never told of"))
    }

    /// Applies a batch; one that it has already changes nothing.
    pub fn apply(&mut self, batch: &StreamBatch) {
        assert!(batch.number <= batch.last, "{batch:?}");
        if batch.last <= self.upto {
            return;
        }
        assert!(batch.number > self.upto, "part of it is known: {batch:?}");
        let mut seq = batch.number.previous();
        for change in &batch.changes {
            assert!(seq < change.seq && change.seq <= batch.last, "{batch:?}");
            seq = change.seq;
            let name = &*change.keyspace;
            match &change.what {
                Changed::Put { key, value, .. } => {
                    self.space(name).insert(key.clone(), value.clone());
                }
                Changed::Delete { key } => {
                    self.space(name).remove(key);
                }
                Changed::DeleteRange { begin, end } => {
                    assert!(begin < end);
                    self.space(name).retain(|key, _| key < begin || key >= end);
                }
                Changed::Merge { key, operand } => {
                    self.space(name).entry(key.clone()).or_default().extend_from_slice(operand);
                }
                Changed::KeyspaceCreated => {
                    let before = self.spaces.insert(name.to_owned(), Contents::new());
                    assert_eq!(before, None, "{name} was there");
                }
                Changed::KeyspaceDropped => {
                    assert!(self.spaces.remove(name).is_some(), "{name} was not there");
                }
                other => panic!("{other:?}"),
            }
        }
        self.upto = batch.last;
    }

    /// Applies all that there is, without an acknowledgement. Tells how many batches that was.
    pub fn follow(&mut self, stream: &mut Stream) -> usize {
        let mut count = 0;
        while let Some(batch) = stream.wait(Duration::ZERO).expect("reads") {
            self.apply(&batch);
            count += 1;
        }
        count
    }

    /// Has the same keyspaces and values as the store.
    #[track_caller]
    pub fn assert_equals(&self, db: &Db) {
        let now = Replica::of(db);
        for (name, contents) in &now.spaces {
            assert_eq!(self.spaces.get(name), Some(contents), "keyspace {name}");
        }
        assert_eq!(self.spaces.len(), now.spaces.len());
    }
}
