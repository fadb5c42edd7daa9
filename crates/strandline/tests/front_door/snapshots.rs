//! A report over a moment while orders go on: the reads of a snapshot.

use strandline::{Db, ErrorKind, Options, ReadOptions, Slice};

use crate::common::{TempDir, kind_of, small_levels};

/// Cents of all orders of a customer, by the keys `customer/order`.
fn total(
    items: impl Iterator<Item = strandline::Result<(Slice, Slice)>>,
) -> strandline::Result<u64> {
    let mut total = 0;
    for item in items {
        let (_, cents) = item?;
        total += u64::from_be_bytes(cents[..].try_into().expect("eight bytes"));
    }
    Ok(total)
}

#[test]
fn a_report_is_of_one_moment() -> strandline::Result<()> {
    let dir = TempDir::new("report");
    let db = Db::open(dir.path(), small_levels())?;
    let stock = db.create_keyspace("stock")?;
    for order in 0..500_u64 {
        let customer = if order % 2 == 0 { "ada" } else { "bob" };
        db.put(format!("{customer}/{order:04}"), (100 + order).to_be_bytes())?;
        stock.put(order.to_be_bytes(), [1])?;
    }
    let evening = db.snapshot();
    let expected = total(db.prefix("ada/"))?;
    // The next day: all is written over, and goes down to tables.
    for order in 0..500_u64 {
        let customer = if order % 2 == 0 { "ada" } else { "bob" };
        let key = format!("{customer}/{order:04}");
        if order % 3 == 0 { db.delete(key)? } else { db.put(key, 0_u64.to_be_bytes())? }
    }
    db.put("cid/0000", 1_u64.to_be_bytes())?;
    stock.delete_range(0_u64.to_be_bytes(), 400_u64.to_be_bytes())?;
    db.compact_range(db.default_keyspace(), None, None)?;

    assert_eq!(total(evening.prefix("ada/"))?, expected);
    assert_ne!(total(db.prefix("ada/"))?, expected);
    assert_eq!(evening.get("ada/0000")?.as_deref(), Some(&100_u64.to_be_bytes()[..]));
    assert_eq!((evening.get("cid/0000")?, db.get("ada/0000")?), (None, None));
    assert!(evening.contains_key("ada/0000")? && !db.contains_key("ada/0000")?);
    assert!(!evening.contains_key("cid/0000")? && db.contains_key("cid/0000")?);
    let both = ["bob/0003", "cid/0000"];
    let then = evening.multi_get(both)?;
    assert_eq!(then, [Some(103_u64.to_be_bytes().to_vec()), None]);
    assert_eq!(db.multi_get(both)?, [None, Some(1_u64.to_be_bytes().to_vec())]);
    assert_eq!((evening.keys().count(), evening.iter().rev().count()), (500, 500));
    assert_eq!(evening.range("bob/".."bob/0100").count(), 50);

    // The same moment of another keyspace.
    let then = ReadOptions::at(&evening);
    assert_eq!((stock.iter_with(&then).count(), stock.iter().count()), (500, 100));
    let some = then.clone().range(10_u64.to_be_bytes()..20_u64.to_be_bytes());
    assert_eq!(stock.keys_with(&some).count(), 10);
    assert_eq!(stock.multi_get_with([7_u64.to_be_bytes()], &then)?, [Some(vec![1])]);
    assert_eq!(stock.multi_get([7_u64.to_be_bytes()])?, [None]);
    assert!(stock.contains_key_with(7_u64.to_be_bytes(), &then)?);

    // An iterator keeps the moment for itself.
    let mut late = evening.iter();
    drop(evening);
    db.compact_range(db.default_keyspace(), None, None)?;
    assert_eq!(late.by_ref().count(), 500);
    Ok(())
}

#[test]
fn a_snapshot_of_another_store_is_refused() -> strandline::Result<()> {
    let (one, two) = (TempDir::new("one"), TempDir::new("two"));
    let open = |dir: &TempDir| Db::open(dir.path(), Options::default().pm_size(16 << 20));
    let (one, two) = (open(&one)?, open(&two)?);
    let foreign = two.snapshot();
    let at = ReadOptions::at(&foreign);
    let space = one.default_keyspace();
    assert_eq!(kind_of(space.contains_key_with("key", &at)), ErrorKind::InvalidArgument);
    assert_eq!(kind_of(space.multi_get_with(["key"], &at)), ErrorKind::InvalidArgument);
    let first = space.iter_with(&at).next().expect("an item");
    assert_eq!(kind_of(first), ErrorKind::InvalidArgument);
    Ok(())
}
