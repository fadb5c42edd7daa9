//! An import that takes each order whole or not at all: batches, their savepoints and their errors.

use std::io;

use strandline::{Batch, Db, ErrorKind, Options};

use crate::common::{TempDir, kind_of};

/// Adds an order to the batch: its lines, and what each takes from the stock. `false` if something is sold out; then nothing
/// of it is in the batch.
fn add_order(db: &Db, batch: &mut Batch, order: u32, lines: &[(&str, u32)]) -> io::Result<bool> {
    let space = db.default_keyspace();
    batch.set_savepoint();
    for (no, (what, count)) in lines.iter().enumerate() {
        let stock = db.get(format!("stock/{what}"))?.unwrap_or_default();
        let left = stock.first().map_or(0, |left| u32::from(*left)).checked_sub(*count);
        let Some(left) = left else {
            batch.rollback_to_savepoint()?;
            return Ok(false);
        };
        batch.put(space, format!("order/{order:06}/{no}"), format!("{count} {what}"));
        batch.put(space, format!("stock/{what}"), [left as u8]);
    }
    batch.pop_savepoint()?;
    Ok(true)
}

#[test]
fn an_order_is_taken_whole_or_not_at_all() -> io::Result<()> {
    let dir = TempDir::new("orders");
    let db = Db::open(dir.path(), Options::default().pm_size(16 << 20))?;
    for (what, count) in [("apple", 10), ("pear", 2)] {
        db.put(format!("stock/{what}"), [count])?;
    }
    let mut batch = Batch::with_capacity(8, 256);
    assert!(add_order(&db, &mut batch, 1, &[("apple", 3)])?);
    let (len, bytes) = (batch.len(), batch.bytes());
    assert!(!add_order(&db, &mut batch, 2, &[("apple", 1), ("pear", 3)])?);
    assert_eq!((batch.len(), batch.bytes()), (len, bytes));
    assert!(add_order(&db, &mut batch, 3, &[("pear", 2)])?);
    db.write(&batch)?;
    assert_eq!(db.prefix("order/").count(), 2);
    assert_eq!(db.get("stock/apple")?, Some(vec![7]));
    assert_eq!(db.get("stock/pear")?, Some(vec![0]));
    Ok(())
}

#[test]
fn savepoints_are_a_stack() {
    let dir = TempDir::new("savepoints");
    let db = Db::open(dir.path(), Options::default().pm_size(16 << 20)).expect("open");
    let space = db.default_keyspace();
    let mut batch = Batch::new();
    assert_eq!(kind_of(batch.rollback_to_savepoint()), ErrorKind::NotFound);
    assert_eq!(kind_of(batch.pop_savepoint()), ErrorKind::NotFound);
    for key in ["a", "b", "c"] {
        batch.put(space, key, "value");
        batch.set_savepoint();
    }
    batch.delete(space, "a");
    batch.rollback_to_savepoint().expect("behind c");
    assert_eq!(batch.len(), 3);
    batch.pop_savepoint().expect("behind b");
    batch.rollback_to_savepoint().expect("behind a");
    assert_eq!(batch.len(), 1);
    assert_eq!(kind_of(batch.rollback_to_savepoint()), ErrorKind::NotFound);
    db.write(&batch).expect("write");
    assert_eq!(db.keys().count(), 1);
    batch.set_savepoint();
    batch.clear();
    assert_eq!(kind_of(batch.pop_savepoint()), ErrorKind::NotFound);
}

/// `?` in a function that returns `io::Result` keeps the kind, and the error itself.
#[test]
fn errors_become_io_errors() {
    let dir = TempDir::new("io-errors");
    let never = || Options::default().pm_size(16 << 20).create_if_missing(false);
    let missing = |path| -> io::Result<Db> { Ok(Db::open(path, never())?) };
    let error = missing(dir.join("nothing")).err().expect("there is none");
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    let own = error.get_ref().and_then(|error| error.downcast_ref::<strandline::Error>());
    assert_eq!(own.map(strandline::Error::kind), Some(ErrorKind::NotFound));
    let db = Db::open(dir.join("db"), Options::default().pm_size(16 << 20)).expect("open");
    let error = missing(dir.join("db")).err().expect("it is open");
    assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
    let long = vec![0; 1 << 20];
    let error = io::Error::from(db.put(&long, "value").expect_err("too long"));
    assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    let refused = strandline::Error::io("read", "a file", io::ErrorKind::PermissionDenied);
    assert_eq!(io::Error::from(refused).kind(), io::ErrorKind::PermissionDenied);
}
