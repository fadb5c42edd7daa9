//! Writes of one key that depend on its value.

use strandline::{Db, Keyspace, Transaction, TransactionOptions};

use crate::context::DurabilityArg;
use crate::failure::Failure;

/// Does `write` if `key` has the value `expected`, or none, in one step with the look. Tells whether it has.
pub fn write_if(
    db: &Db,
    keyspace: &Keyspace,
    key: &[u8],
    expected: Option<&[u8]>,
    durability: &DurabilityArg,
    write: impl Fn(&mut Transaction) -> strandline::Result<()>,
) -> Result<bool, Failure> {
    let options = TransactionOptions::new().write(durability.options());
    let written = db.transact(options, |transaction| {
        let holds = transaction.get_for_update(keyspace, key)?.as_deref() == expected;
        if holds {
            write(transaction)?;
        }
        Ok(holds)
    });
    Ok(written?)
}
