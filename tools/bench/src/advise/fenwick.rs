//! A row of numbers whose sums are found, and whose members change, in logarithmic time.
//!
//! P. M. Fenwick, "A New Data Structure for Cumulative Frequency Tables", Software: Practice and Experience, 1994.

/// Numbers by position.
pub(super) struct FenwickTree {
    /// The sum of so many numbers, ending at each position, as its lowest bit says; position 0 is at 1.
    sums: Vec<u64>,
}

impl FenwickTree {
    /// So many zeros.
    pub(super) fn zeros(len: usize) -> FenwickTree {
        FenwickTree { sums: vec![0; len + 1] }
    }

    pub(super) fn len(&self) -> usize {
        self.sums.len() - 1
    }

    /// Adds to the number at `at`.
    pub(super) fn add(&mut self, at: usize, number: u64) {
        self.change(at, |sum| sum + number);
    }

    /// Takes from the number at `at`, which is as large.
    pub(super) fn take(&mut self, at: usize, number: u64) {
        self.change(at, |sum| sum - number);
    }

    fn change(&mut self, at: usize, change: impl Fn(u64) -> u64) {
        let mut at = at + 1;
        while let Some(sum) = self.sums.get_mut(at) {
            *sum = change(*sum);
            at += at & at.wrapping_neg();
        }
    }

    /// The sum of the first `count` numbers.
    pub(super) fn sum(&self, count: usize) -> u64 {
        let (mut at, mut sum) = (count.min(self.len()), 0);
        while at > 0 {
            sum += self.sums[at];
            at &= at - 1;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::rng::Rng;

    #[test]
    fn sums_are_those_of_a_list() {
        for len in [1, 2, 7, 64, 100] {
            let (mut tree, mut list) = (FenwickTree::zeros(len), vec![0_u64; len]);
            let mut rng = Rng::new(len as u64);
            for _ in 0..1000 {
                let (at, number) = (rng.index(len), rng.below(100));
                if rng.one_in(3) {
                    tree.take(at, number.min(list[at]));
                    list[at] -= number.min(list[at]);
                } else {
                    tree.add(at, number);
                    list[at] += number;
                }
                let count = rng.index(len + 1);
                assert_eq!(tree.sum(count), list[..count].iter().sum::<u64>());
            }
            assert_eq!((tree.len(), tree.sum(len + 9)), (len, list.iter().sum()));
        }
    }
}
