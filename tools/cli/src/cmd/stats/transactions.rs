//! What became of transactions.

use serde_json::{Value, json};
use strandline::TransactionFigures;

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
