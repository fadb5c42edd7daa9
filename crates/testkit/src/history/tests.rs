use std::collections::BTreeMap;

use super::*;
use crate::Rng;

fn at(snapshot: u64, number: u64, steps: &[Step]) -> Transaction {
    Transaction { snapshot, steps: steps.to_vec(), outcome: Outcome::Committed { number } }
}

fn append(key: Key, element: Element) -> Step {
    Step::Append(key, element)
}

fn read(key: Key, list: &[Element]) -> Step {
    Step::Read(key, list.to_vec())
}

fn anomalies(history: &[Transaction], level: Level) -> Vec<Anomaly> {
    let mut found: Vec<Anomaly> =
        check(history, level).iter().map(|finding| finding.anomaly).collect();
    found.sort_unstable();
    found.dedup();
    found
}

const BOTH: [Level; 2] = [Level::Snapshot, Level::Serializable];

#[test]
fn a_serial_history_has_no_anomalies() {
    let history = [
        at(0, 1, &[read(1, &[]), append(1, 10), read(1, &[10])]),
        at(1, 2, &[read(1, &[10]), append(1, 11), append(2, 20)]),
        at(2, 2, &[read(1, &[10, 11]), read(2, &[20])]),
    ];
    BOTH.iter().for_each(|level| assert_eq!(check(&history, *level), []));
}

#[test]
fn write_skew_is_an_anomaly_of_serial_order_only() {
    let history = [
        at(0, 1, &[read(1, &[]), append(2, 20)]),
        at(0, 2, &[read(2, &[]), append(1, 10)]),
        at(2, 2, &[read(1, &[10]), read(2, &[20])]),
    ];
    assert_eq!(anomalies(&history, Level::Snapshot), []);
    let found = anomalies(&history, Level::Serializable);
    assert_eq!(found, [Anomaly::AntiDependency, Anomaly::StaleRead]);
}

#[test]
fn each_anomaly_is_found() {
    let aborted = Transaction { outcome: Outcome::Aborted, ..at(0, 0, &[append(1, 10)]) };
    for (anomaly, history) in [
        (Anomaly::AbortedRead, vec![aborted, at(1, 1, &[read(1, &[10])])]),
        (
            Anomaly::LostUpdate,
            vec![
                at(0, 1, &[read(1, &[]), append(1, 10)]),
                at(0, 2, &[read(1, &[]), append(1, 11)]),
                at(2, 2, &[read(1, &[11])]),
            ],
        ),
        (
            Anomaly::Overlap,
            vec![
                at(0, 1, &[append(1, 10)]),
                at(0, 2, &[append(1, 11)]),
                at(2, 2, &[read(1, &[10, 11])]),
            ],
        ),
        (
            Anomaly::IntermediateRead,
            vec![
                at(0, 2, &[append(1, 10), append(1, 11)]),
                at(0, 0, &[read(1, &[10])]),
                at(2, 2, &[read(1, &[10, 11])]),
            ],
        ),
        (Anomaly::Invented, vec![at(0, 0, &[read(1, &[7])])]),
        (Anomaly::Invented, vec![at(0, 1, &[append(1, 10)]), at(1, 1, &[read(1, &[10, 10])])]),
        (
            Anomaly::Incompatible,
            vec![
                at(0, 1, &[append(1, 10)]),
                at(0, 2, &[append(1, 11)]),
                at(2, 2, &[read(1, &[10, 11])]),
                at(2, 2, &[read(1, &[11])]),
            ],
        ),
        (Anomaly::OwnLost, vec![at(0, 1, &[append(1, 10), read(1, &[])])]),
        (
            Anomaly::Circular,
            vec![
                at(0, 1, &[append(1, 10), append(2, 20)]),
                at(0, 2, &[append(1, 11), append(2, 21)]),
                at(2, 2, &[read(1, &[10, 11]), read(2, &[21, 20])]),
            ],
        ),
        (
            Anomaly::WrongSnapshot,
            vec![at(0, 1, &[append(1, 10)]), at(1, 1, &[read(1, &[])]), at(1, 1, &[read(1, &[10])])],
        ),
        (
            Anomaly::WrongSnapshot,
            vec![at(0, 5, &[append(1, 10)]), at(4, 4, &[read(1, &[10])])],
        ),
    ] {
        for level in BOTH {
            let found = anomalies(&history, level);
            assert!(found.contains(&anomaly), "{anomaly:?}: {found:?}");
        }
    }
}

/// What a store leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    /// It commits whatever others wrote.
    NothingChecked,
    /// It shows what is not committed.
    Dirty,
}

/// Transactions that overlap, on lists in memory.
fn run(seed: u64, level: Level, flaw: Flaw) -> Vec<Transaction> {
    struct Open {
        transaction: Transaction,
        own: BTreeMap<Key, Vec<Element>>,
        wanted: u64,
    }
    let (mut rng, mut element) = (Rng::new(seed), 0);
    // Each key's elements with the numbers of their commits.
    let mut lists: BTreeMap<Key, Vec<(u64, Element)>> = BTreeMap::new();
    let (mut number, mut open, mut history) = (0, Vec::<Open>::new(), Vec::new());
    for _ in 0..2000 {
        if open.len() < 4 {
            let begun = at(number, 0, &[]);
            open.push(Open { transaction: begun, own: BTreeMap::new(), wanted: 1 + rng.below(4) });
        }
        let at = rng.below(open.len() as u64) as usize;
        let Open { transaction, own, wanted } = &mut open[at];
        if transaction.steps.len() < *wanted as usize {
            let key = rng.below(5);
            if rng.below(2) == 0 {
                element += 1;
                transaction.steps.push(append(key, element));
                own.entry(key).or_default().push(element);
                if flaw == Flaw::Dirty {
                    lists.entry(key).or_default().push((transaction.snapshot, element));
                }
            } else {
                let list = lists.get(&key).into_iter().flatten();
                let seen = list.filter(|(number, _)| *number <= transaction.snapshot);
                let mut seen: Vec<Element> = seen.map(|(_, element)| *element).collect();
                let own = own.get(&key).map_or(&[][..], |own| own);
                seen.retain(|element| !own.contains(element));
                seen.extend(own);
                transaction.steps.push(Step::Read(key, seen));
            }
            continue;
        }
        let Open { mut transaction, own, .. } = open.swap_remove(at);
        let changed = |key: &Key| {
            lists.get(key).and_then(|list| list.last()).is_some_and(|(n, _)| *n > transaction.snapshot)
        };
        let reads = transaction.steps.iter().filter_map(|step| match step {
            Step::Read(key, _) if level == Level::Serializable => Some(key),
            _ => None,
        });
        let lost = own.keys().chain(reads).any(changed) && !own.is_empty();
        let given_up = flaw == Flaw::Dirty && rng.below(2) == 0;
        if given_up || (lost && flaw == Flaw::None) {
            transaction.outcome = Outcome::Aborted;
        } else {
            if !own.is_empty() {
                number += 1;
            }
            let committed = if own.is_empty() { transaction.snapshot } else { number };
            transaction.outcome = Outcome::Committed { number: committed };
            if flaw != Flaw::Dirty {
                for (key, own) in own {
                    let own = own.into_iter().map(|element| (number, element));
                    lists.entry(key).or_default().extend(own);
                }
            }
        }
        history.push(transaction);
    }
    let all = |key: &Key| {
        let list = lists.get(key).into_iter().flatten().map(|(_, element)| *element);
        Step::Read(*key, list.collect())
    };
    let steps: Vec<Step> = (0..5).map(|key| all(&key)).collect();
    history.push(at(number, number, &steps));
    history
}

#[test]
fn histories_of_a_store_are_as_it_promises() {
    let mut skewed = 0;
    for seed in 0..20 {
        for level in BOTH {
            let history = run(seed, level, Flaw::None);
            let found = check(&history, level);
            assert!(found.is_empty(), "{level:?}, seed {seed}: {}", found[0]);
        }
        let loose = run(seed, Level::Snapshot, Flaw::None);
        let found = anomalies(&loose, Level::Serializable);
        skewed += usize::from(found.contains(&Anomaly::AntiDependency));
        let found = anomalies(&run(seed, Level::Snapshot, Flaw::NothingChecked), Level::Snapshot);
        assert!(found.contains(&Anomaly::Overlap), "seed {seed}: {found:?}");
        let found = anomalies(&run(seed, Level::Snapshot, Flaw::Dirty), Level::Snapshot);
        assert!(found.contains(&Anomaly::AbortedRead), "seed {seed}: {found:?}");
    }
    assert!(skewed > 0);
}
