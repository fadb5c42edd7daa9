//! What stores of benchmarks merge with.

use std::sync::Arc;

use strandline::{Hooks, MergeOperator};

/// Bytes of a counter.
pub(crate) const WIDTH: usize = 8;

/// Adds counters of eight bytes each, one behind the other, those of operands too. A value keeps bytes behind its last counter.
struct Sum;

/// The number that up to eight bytes are.
pub(crate) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Adds to each counter of `sum`, which becomes as long as `bytes`.
fn add(sum: &mut Vec<u8>, bytes: &[u8]) {
    sum.resize(sum.len().max(bytes.len()), 0);
    for (counter, addend) in sum.chunks_mut(WIDTH).zip(bytes.chunks(WIDTH)) {
        let total = number(counter).wrapping_add(number(addend));
        counter.copy_from_slice(&total.to_le_bytes()[..counter.len()]);
    }
}

impl MergeOperator for Sum {
    fn merge(
        &self,
        _keyspace: &str,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>> {
        let mut sum = existing.unwrap_or_default().to_vec();
        operands.iter().for_each(|operand| add(&mut sum, operand));
        Some(sum)
    }

    fn merge_operands(&self, keyspace: &str, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.merge(keyspace, key, None, operands)
    }
}

/// Hooks with the operator.
pub(crate) fn hooks() -> Hooks {
    Hooks::default().merge_operator(Arc::new(Sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However operands are grouped: partial merges combine some before the others.
    #[test]
    fn counters_are_added_one_by_one() {
        let counters = |numbers: &[u64]| -> Vec<u8> {
            numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
        };
        let [one, two] = [counters(&[1, u64::MAX]), counters(&[40, 3, 5])];
        let merged = |existing: Option<&[u8]>, operands: &[&[u8]]| {
            Sum.merge("", b"", existing, operands).expect("a sum")
        };
        assert_eq!(merged(None, &[&one, &two]), counters(&[41, 2, 5]));
        let partial = Sum.merge_operands("", b"", &[&one, &two]).expect("a sum");
        let value = [&counters(&[7, 7, 7])[..], &[9; 3]].concat();
        let whole = [&counters(&[48, 9, 12])[..], &[9; 3]].concat();
        assert_eq!(merged(Some(&value), &[&one, &two]), whole);
        assert_eq!(merged(Some(&value), &[&partial]), whole);
    }
}
