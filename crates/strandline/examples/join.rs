//! Two keyspaces that have keys in common, walked side by side: cursors lend keys and values where they lie, so nothing is
//! copied that is not wanted.

use std::cmp::Ordering;
use std::io;

use strandline::{Cursor, Db, Keyspace, Options, PmSource, ReadOptions, Snapshot};

/// A cursor on the first key of a keyspace at a moment.
fn first(keyspace: &Keyspace, at: &Snapshot) -> io::Result<Cursor> {
    let mut cursor = keyspace.cursor(&ReadOptions::at(at))?;
    cursor.seek_to_first()?;
    Ok(cursor)
}

/// What customers bought, for those who have an address. Both are read at one moment, whatever is written meanwhile.
fn labels(db: &Db, addresses: &Keyspace, orders: &Keyspace) -> io::Result<Vec<String>> {
    let now = db.snapshot();
    let (mut address, mut order) = (first(addresses, &now)?, first(orders, &now)?);
    let mut labels = Vec::new();
    while let (Some(here), Some(there)) = (address.key(), order.key()) {
        match here.cmp(there) {
            Ordering::Less => {
                // Who is far ahead is jumped to.
                let to = there.to_vec();
                address.seek(to)?;
            }
            Ordering::Greater => order.next()?,
            Ordering::Equal => {
                let (to, what) = (address.value()?, order.value()?);
                let lossy = |bytes: Option<&[u8]>| {
                    String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
                };
                labels.push(format!("{} to {}", lossy(what), lossy(to)));
                address.next()?;
                order.next()?;
            }
        }
    }
    Ok(labels)
}

/// Runs the example.
pub fn main() -> io::Result<()> {
    let db = Db::open("unused-for-heap", Options::default().pm(PmSource::Heap).pm_size(16 << 20))?;
    let (addresses, orders) = (db.create_keyspace("addresses")?, db.create_keyspace("orders")?);
    for customer in 0..1000_u32 {
        addresses.put(customer.to_be_bytes(), format!("street {customer}"))?;
    }
    for customer in [7_u32, 500, 999, 4000] {
        orders.put(customer.to_be_bytes(), "a lamp")?;
    }
    let labels = labels(&db, &addresses, &orders)?;
    assert_eq!(labels, ["a lamp to street 7", "a lamp to street 500", "a lamp to street 999"]);

    // The last order at or before a customer, and the one before it.
    let mut order = orders.cursor(&ReadOptions::default())?;
    order.seek_for_prev(998_u32.to_be_bytes())?;
    assert_eq!(order.key(), Some(&500_u32.to_be_bytes()[..]));
    order.prev()?;
    assert_eq!(order.key(), Some(&7_u32.to_be_bytes()[..]));
    order.prev()?;
    assert!(!order.valid());
    Ok(())
}
