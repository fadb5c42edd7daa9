//! A server that is told to reload: it closes its store, and opens it again, while parts of it still have handles.

use std::path::Path;

use strandline::{Batch, Db, ErrorKind, Options, ReadOptions};

use crate::common::{TempDir, ends, kind_of, numbered};

fn open(path: &Path) -> strandline::Result<Db> {
    Db::open(path, Options::default().pm_size(16 << 20))
}

#[test]
fn what_is_in_use_is_named_and_nothing_is_closed() -> strandline::Result<()> {
    let dir = TempDir::new("reload");
    let db = open(dir.path())?;
    for no in 0..100 {
        db.put(numbered(no), [7; 100])?;
    }
    let (keyspace, mut batch) = (db.default_keyspace().clone(), Batch::new());
    batch.put(&keyspace, "key", "value");
    let (mut iter, keys) = (db.iter(), db.keys());
    let cursor = keyspace.cursor(&ReadOptions::default())?;
    let snapshot = db.snapshot();
    let value = db.get_pinned(numbered(1))?.expect("there");
    let refused = db.close().expect_err("in use");
    assert_eq!(refused.kind(), ErrorKind::Busy);
    let named = "2 iterators, 1 cursor, 1 snapshot, 1 pinned value in use";
    assert!(refused.context().contains(named), "{refused}");

    // The store goes on.
    db.write(&batch)?;
    assert_eq!(iter.next().expect("an item")?.1, [7; 100]);
    assert_eq!(snapshot.keys().count(), 100);
    assert_eq!(*value, [7; 100]);
    drop((iter, keys, cursor));
    let refused = db.close().expect_err("in use");
    assert!(refused.context().starts_with("1 snapshot, 1 pinned value in use"), "{refused}");
    drop((snapshot, value));

    // Handles may outlive it.
    db.close()?;
    let again = open(dir.path())?;
    assert_eq!(kind_of(db.put("key", "late")), ErrorKind::Closed);
    assert_eq!(kind_of(keyspace.get("key")), ErrorKind::Closed);
    assert_eq!(kind_of(db.write(&batch)), ErrorKind::Closed);
    assert_eq!(again.get("key")?.as_deref(), Some(&b"value"[..]));
    drop((db, keyspace, batch));
    assert_eq!(again.keys().count(), 101);
    Ok(())
}

/// Readers begin while the store is being closed: each reads all, or gets `Closed`, and the close succeeds between two of them.
#[test]
fn a_close_waits_for_nothing_and_tears_nothing() {
    ends(|| {
        let dir = TempDir::new("reload-threads");
        for _ in 0..20 {
            let db = open(dir.path()).expect("open");
            (0..50).for_each(|no| db.put(numbered(no), [7; 100]).expect("put"));
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    let db = db.clone();
                    scope.spawn(move || {
                        loop {
                            let read: strandline::Result<Vec<_>> = db.iter().collect();
                            match read {
                                Ok(all) => assert_eq!(all.len(), 50),
                                Err(error) => {
                                    assert_eq!(error.kind(), ErrorKind::Closed);
                                    return;
                                }
                            }
                            match db.get_pinned(numbered(7)) {
                                Ok(value) => assert_eq!(*value.expect("there"), [7; 100]),
                                Err(error) => assert_eq!(error.kind(), ErrorKind::Closed),
                            }
                        }
                    });
                }
                while let Err(error) = db.close() {
                    assert_eq!(error.kind(), ErrorKind::Busy);
                    std::thread::yield_now();
                }
            });
            drop(open(dir.path()).expect("nothing is in use"));
        }
    });
}

/// Without a word the last handle of any kind closes the store.
#[test]
fn the_last_handle_closes_a_store() -> strandline::Result<()> {
    let dir = TempDir::new("last-handle");
    let db = open(dir.path())?;
    db.put("key", "value")?;
    let value = db.get_pinned("key")?.expect("there");
    let iter = db.iter();
    drop(db);
    assert_eq!(kind_of(open(dir.path()).map(drop)), ErrorKind::Busy);
    assert_eq!(*value, *b"value");
    drop(value);
    assert_eq!(kind_of(open(dir.path()).map(drop)), ErrorKind::Busy);
    drop(iter);
    assert_eq!(open(dir.path())?.get("key")?.as_deref(), Some(&b"value"[..]));
    Ok(())
}
