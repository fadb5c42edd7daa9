//! An event store with an index: events by their numbers, and for each subject the numbers of its events. Both change in one
//! batch, so that no reader finds one without the other.

use std::error::Error;

use strandline::{Batch, Db, Keyspace, Options, Snapshot};

struct EventStore {
    db: Db,
    /// Number, big-endian, to `subject: what happened`.
    events: Keyspace,
    /// `subject/`, and a number, big-endian, to nothing.
    by_subject: Keyspace,
}

impl EventStore {
    fn open(path: &std::path::Path) -> strandline::Result<EventStore> {
        let db = Db::open(path, Options::default().pm_size(16 << 20))?;
        let keyspace = |name| match db.keyspaces().iter().any(|known| known == name) {
            true => db.keyspace(name),
            false => db.create_keyspace(name),
        };
        let (events, by_subject) = (keyspace("events")?, keyspace("by-subject")?);
        Ok(EventStore { db, events, by_subject })
    }

    /// Appends events, all or none; returns the number of the last.
    fn append(&self, events: &[(&str, &str)]) -> strandline::Result<u64> {
        let last = self.events.keys().next_back().transpose()?;
        let mut no = last.map_or(0, |key| number(&key));
        let mut batch = Batch::with_capacity(2 * events.len(), 128 * events.len());
        for (subject, what) in events {
            no += 1;
            batch.put(&self.events, no.to_be_bytes(), format!("{subject}: {what}"));
            batch.put(&self.by_subject, index_key(subject, no), "");
        }
        self.db.write(&batch)?;
        Ok(no)
    }

    /// The events of `subject` as of a moment, oldest first.
    fn history(&self, subject: &str, at: &Snapshot) -> strandline::Result<Vec<String>> {
        let then = strandline::ReadOptions::at(at);
        let index = then.clone().prefix(format!("{subject}/"));
        let numbers = self.by_subject.keys_with(&index).collect::<Result<Vec<_>, _>>()?;
        let keys = numbers.iter().map(|key| &key[subject.len() + 1..]);
        let found = self.events.multi_get_with(keys, &then)?;
        Ok(found.into_iter().flatten().map(|text| String::from_utf8_lossy(&text).into()).collect())
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_be_bytes)
}

fn index_key(subject: &str, no: u64) -> Vec<u8> {
    [subject.as_bytes(), b"/", &no.to_be_bytes()].concat()
}

/// Runs the example.
pub fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let store = EventStore::open(dir.path())?;
    store.append(&[("order 7", "placed"), ("order 8", "placed"), ("order 7", "paid")])?;
    let before = store.db.snapshot();
    let last = store.append(&[("order 7", "sent")])?;
    assert_eq!(last, 4);
    assert_eq!(store.history("order 7", &before)?, ["order 7: placed", "order 7: paid"]);
    assert_eq!(store.history("order 7", &store.db.snapshot())?.len(), 3);
    drop(before);
    store.db.close()?;
    // All of it is there after a restart, and numbers go on.
    let store = EventStore::open(dir.path())?;
    assert_eq!(store.append(&[("order 8", "paid")])?, 5);
    assert_eq!(store.history("order 8", &store.db.snapshot())?.len(), 2);
    Ok(())
}
