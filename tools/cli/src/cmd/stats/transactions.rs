//! What became of transactions and their locks.

use serde_json::{Value, json};
use strandline::{LockFigures, TransactionFigures};

pub fn in_words(of: &TransactionFigures) -> String {
    format!(
        "{} open, {} committed, {} lost; {} looks, {} that kept others out",
        of.open, of.committed, of.conflicts, of.looks, of.holds
    )
}

pub fn json(of: &TransactionFigures) -> Value {
    json!({
        "open": of.open,
        "committed": of.committed,
        "conflicts": of.conflicts,
        "looks": of.looks,
        "holds": of.holds,
    })
}

pub fn locks_in_words(of: &LockFigures) -> String {
    format!(
        "{} held, {} bytes; {} waited for, {:.3} s in all, {} too long; {} deadlocks, {} expired",
        of.held,
        of.bytes,
        of.waits,
        of.wait_micros as f64 / 1e6,
        of.timeouts,
        of.deadlocks,
        of.expired
    )
}

pub fn locks_json(of: &LockFigures) -> Value {
    json!({
        "held": of.held,
        "bytes": of.bytes,
        "waits": of.waits,
        "wait_micros": of.wait_micros,
        "timeouts": of.timeouts,
        "deadlocks": of.deadlocks,
        "expired": of.expired,
    })
}
