//! The order of transactions that clock and commit numbers give.

use super::graph::{Dependency, Edge};
use super::report::Findings;
use super::{Key, Kind, Outcome, Transaction};

/// Clock and numbers have no key.
const NO_KEY: Key = Key(0);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    // At equal stamps nothing is said to be over: beginnings come first.
    Began,
    Ended,
}

/// Adds that each transaction comes after all that were committed before it began.
///
/// An edge for each such pair would be a square of edges. Instead there are moments, one after the other: transactions that
/// ended lead to the next moment, and a moment to those that began before the one after it. Answers how many there are.
pub(super) fn by_clock(history: &[Transaction], edges: &mut Vec<Edge>) -> usize {
    let mut happenings = Vec::with_capacity(2 * history.len());
    for (at, transaction) in history.iter().enumerate() {
        // What is seen of an unknown one may have been committed after its client gave up.
        if transaction.is_committed() {
            happenings.push((transaction.ended, Happening::Ended, at as u32));
        }
        if transaction.outcome != Outcome::Aborted {
            happenings.push((transaction.began, Happening::Began, at as u32));
        }
    }
    happenings.sort_unstable();
    let mut edge = |from, to| {
        edges.push(Edge { from, to, dependency: Dependency::RealTime, key: NO_KEY });
    };
    let first = history.len() as u32;
    let mut moments = 0;
    let mut before = Happening::Began;
    for (_, happening, transaction) in happenings {
        match happening {
            Happening::Ended => {
                if before == Happening::Began {
                    if moments > 0 {
                        edge(first + moments - 1, first + moments);
                    }
                    moments += 1;
                }
                edge(transaction, first + moments - 1);
            }
            Happening::Began if moments > 0 => edge(first + moments - 1, transaction),
            Happening::Began => {}
        }
        before = happening;
    }
    moments as usize
}

/// Adds that commits come in the order of their numbers, each after the one before it.
pub(super) fn by_number(
    history: &[Transaction],
    edges: &mut Vec<Edge>,
    findings: &mut Findings<'_>,
) {
    let mut commits: Vec<(u64, u32)> = history
        .iter()
        .enumerate()
        .filter_map(|(at, transaction)| Some((transaction.number()?, at as u32)))
        .collect();
    commits.sort_unstable();
    for pair in commits.windows(2) {
        let [(number, from), (next, to)] = [pair[0], pair[1]];
        if number == next {
            let what = || format!("T{from} and T{to} both have the number {number}");
            findings.add(Kind::NumberOrder, &[from, to], what);
        } else {
            edges.push(Edge { from, to, dependency: Dependency::Number, key: NO_KEY });
        }
    }
}
