//! Small histories of lists, with all their explanations: the checker finds an anomaly if and only if there is none.
//!
//! A history is explained by an order of begins and commits. A transaction sees what was committed before its begin, and its
//! own appends; between its begin and its commit no other may have appended to its lists. Serializable means that each commit
//! follows its begin. That cycles tell exactly this is what Cerone and Gotsman proved of snapshots (Analysing Snapshot
//! Isolation, 2016).

use std::collections::{BTreeMap, BTreeSet};

use crate::made::{append, committed, list};
use testkit::Rng;
use testkit::history::{Element, Key, Level, Operation, Transaction, check};

const TRANSACTIONS: usize = 3;
const KEYS: u64 = 2;
const CASES: u64 = 60_000;

type Lists = BTreeMap<Key, Vec<Element>>;

/// Transactions that append and read beginnings of lists that are made up beforehand, and one that reads all of them.
fn history(rng: &mut Rng) -> Vec<Transaction> {
    let mut plans: Vec<Vec<Operation>> = vec![Vec::new(); TRANSACTIONS];
    let mut lists: Vec<Vec<u64>> = vec![Vec::new(); KEYS as usize];
    for element in 1..=rng.below(5) {
        let key = rng.below(KEYS);
        plans[rng.index(TRANSACTIONS)].push(append(key, element));
        let list = &mut lists[key as usize];
        // Mostly in an order that they could have come in.
        let at = if rng.chance(1, 4) { rng.index(list.len() + 1) } else { list.len() };
        list.insert(at, element);
    }
    for _ in 0..1 + rng.below(4) {
        let key = rng.below(KEYS);
        let elements = &lists[key as usize];
        let seen = list(key, &elements[..rng.index(elements.len() + 1)]);
        let plan = &mut plans[rng.index(TRANSACTIONS)];
        let at = rng.index(plan.len() + 1);
        plan.insert(at, seen);
    }
    plans.push((0..KEYS).map(|key| list(key, &lists[key as usize])).collect());
    let transaction = |operations| Transaction { operations, ..committed([]) };
    plans.into_iter().map(transaction).collect()
}

/// Whether a transaction sees what it says at a snapshot.
fn sees(transaction: &Transaction, mut snapshot: Lists) -> bool {
    transaction.operations.iter().all(|operation| match operation {
        Operation::Append { key, element } => {
            snapshot.entry(*key).or_default().push(*element);
            true
        }
        Operation::ReadList { key, elements } => {
            snapshot.get(key).map_or(&[][..], |list| list) == elements
        }
        _ => unreachable!("lists only"),
    })
}

/// A begin or a commit follows another until all is done.
#[derive(Clone, Default)]
struct Schedule {
    lists: Lists,
    /// Transactions that have begun and are not committed.
    open: BTreeSet<usize>,
    done: BTreeSet<usize>,
}

impl Schedule {
    /// Whether what may come from here explains the history.
    fn explains(&self, history: &[Transaction], level: Level) -> bool {
        if self.done.len() == TRANSACTIONS {
            return sees(&history[TRANSACTIONS], self.lists.clone());
        }
        (0..TRANSACTIONS).any(|at| {
            let mut next = self.clone();
            if next.open.remove(&at) {
                next.done.insert(at);
                let appended = |at: usize| {
                    history[at].operations.iter().filter_map(|operation| match operation {
                        Operation::Append { key, element } => Some((*key, *element)),
                        _ => None,
                    })
                };
                let keys: BTreeSet<Key> = appended(at).map(|(key, _)| key).collect();
                // One that is open and appends to such a list cannot commit any more.
                let conflicts =
                    |other: &usize| appended(*other).any(|(key, _)| keys.contains(&key));
                if next.open.iter().any(conflicts) {
                    return false;
                }
                for (key, element) in appended(at) {
                    next.lists.entry(key).or_default().push(element);
                }
                return next.explains(history, level);
            }
            let may_begin = level == Level::Snapshot || next.open.is_empty();
            if next.done.contains(&at) || !may_begin || !sees(&history[at], next.lists.clone()) {
                return false;
            }
            next.open.insert(at);
            next.explains(history, level)
        })
    }
}

#[test]
fn an_anomaly_is_found_if_and_only_if_nothing_explains_the_history() {
    let mut rng = Rng::new(11);
    let mut times: BTreeMap<(bool, bool), u64> = BTreeMap::new();
    for case in 0..CASES {
        let history = history(&mut rng);
        let explained = [Level::Snapshot, Level::Serializable].map(|level| {
            let report = check(&history, level);
            let explained = Schedule::default().explains(&history, level);
            assert_eq!(report.is_clean(), explained, "{case}, {level:?}: {history:#?}\n{report}");
            explained
        });
        *times.entry(explained.into()).or_default() += 1;
    }
    // Enough of each: of both levels, of snapshots only, of none.
    let enough = [(true, true), (true, false), (false, false)].map(|what| times.get(&what));
    assert!(enough.iter().all(|times| times.is_some_and(|times| *times > 100)), "{times:?}");
    assert_eq!(times.get(&(false, true)), None);
}
