//! Accounts: transfers are batches, and the last part of a batch can be taken back; an auditor reads at a snapshot while they go on.

use std::io;

use strandline::{Batch, Db, Options, Snapshot, WriteDurability, WriteOptions};

const ACCOUNTS: u64 = 20;
const BEGIN: i64 = 100;

fn account(no: u64) -> String {
    format!("account/{no:03}")
}

fn amount(bytes: Option<Vec<u8>>) -> io::Result<i64> {
    let bytes = bytes.ok_or(io::ErrorKind::NotFound)?;
    Ok(i64::from_le_bytes(bytes.as_slice().try_into().map_err(io::Error::other)?))
}

/// Moves `sum` to each of `to`, as long as the account has it. One batch: all of that, or nothing.
fn pay(db: &Db, from: u64, to: &[u64], sum: i64) -> io::Result<usize> {
    let mut batch = Batch::with_capacity(2 * to.len(), 64 * to.len());
    let ledger = db.default_keyspace();
    let mut left = amount(db.get(account(from))?)?;
    let mut paid = 0;
    for payee in to {
        batch.set_savepoint();
        let has = amount(db.get(account(*payee))?)?;
        left -= sum;
        batch.put(ledger, account(*payee), (has + sum).to_le_bytes());
        batch.put(ledger, account(from), left.to_le_bytes());
        if left < 0 {
            // This one not; those before it stay in the batch.
            batch.rollback_to_savepoint()?;
            break;
        }
        batch.pop_savepoint()?;
        paid += 1;
    }
    // The machine may fail once this has returned, also where the store does not sync each commit.
    db.write_with(&batch, &WriteOptions::new().durability(WriteDurability::Synced))?;
    Ok(paid)
}

/// What all have together.
fn audit(moment: &Snapshot) -> io::Result<i64> {
    let mut all = 0;
    for entry in moment.prefix("account/") {
        let (_, has) = entry?;
        all += amount(Some(has.to_vec()))?;
    }
    Ok(all)
}

/// Runs the example.
pub fn main() -> io::Result<()> {
    let dir = tempfile::tempdir()?;
    let db = Db::open(dir.path(), Options::default().pm_size(16 << 20))?;
    for no in 0..ACCOUNTS {
        db.put(account(no), BEGIN.to_le_bytes())?;
    }
    assert_eq!(pay(&db, 0, &[1, 2, 3], 40)?, 2, "there is not enough for the third");
    assert_eq!(amount(db.get(account(0))?)?, 20);

    let morning = db.snapshot();
    std::thread::scope(|scope| -> io::Result<()> {
        let busy = scope.spawn(|| -> io::Result<()> {
            for round in 0..200 {
                pay(&db, round % ACCOUNTS, &[(round * 7 + 1) % ACCOUNTS], 3)?;
            }
            Ok(())
        });
        for _ in 0..20 {
            assert_eq!(
                audit(&db.snapshot())?,
                BEGIN * ACCOUNTS as i64,
                "no transfer is seen in part"
            );
        }
        busy.join().expect("no panic")
    })?;
    // The morning is still as it was.
    let then = morning.multi_get([account(0), account(1), "account/none".into()])?;
    assert_eq!(then.iter().flatten().count(), 2);
    assert_eq!(amount(morning.get(account(0))?)?, 20);
    assert_eq!(morning.iter().count() as u64, ACCOUNTS);
    assert_eq!(audit(&morning)?, BEGIN * ACCOUNTS as i64);
    Ok(())
}
