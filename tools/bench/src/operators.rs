//! What stores of benchmarks merge with.

use std::sync::Arc;

use strandline::{Hooks, MergeOperator};

/// Adds numbers of eight bytes, operands too. Like RocksDB's uint64add it takes other bytes for 0.
struct Sum;

/// The number that `bytes` are.
pub(crate) fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

impl MergeOperator for Sum {
    fn merge(
        &self,
        _keyspace: &str,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>> {
        let mut sum = existing.map_or(0, number);
        for operand in operands {
            sum = sum.wrapping_add(number(operand));
        }
        Some(sum.to_le_bytes().to_vec())
    }

    fn merge_operands(&self, keyspace: &str, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.merge(keyspace, key, None, operands)
    }
}

/// Hooks with the operator.
pub(crate) fn hooks() -> Hooks {
    Hooks::default().merge_operator(Arc::new(Sum))
}
