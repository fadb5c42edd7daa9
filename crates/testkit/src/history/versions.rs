//! The versions of each key: its elements in the order in which they came, and what each transaction saw of them.

use std::collections::HashMap;

use super::{Anomaly, Element, Finding, Key, Outcome, Step, Transaction};

/// What reads tell of the keys of a history.
pub(super) struct Versions {
    /// Of each key the elements, in order, each with the transaction that appended it.
    pub order: HashMap<Key, Vec<Appended>>,
    /// What transactions saw, not counting what they had appended themselves.
    pub reads: Vec<Read>,
}

/// An element of a key's list.
#[derive(Clone, Copy)]
pub(super) struct Appended {
    pub by: usize,
    /// The last that the transaction appended to the key.
    pub is_last: bool,
}

/// A read: the transaction saw so many elements of the key.
#[derive(Clone, Copy)]
pub(super) struct Read {
    pub by: usize,
    pub key: Key,
    pub len: usize,
}

impl Versions {
    pub(super) fn new(history: &[Transaction], findings: &mut Vec<Finding>) -> Versions {
        let appended = appended(history);
        let mut reads = Vec::new();
        // The longest list of each key is its order.
        let mut longest: HashMap<Key, &[Element]> = HashMap::new();
        let mut seen: Vec<(Read, &[Element])> = Vec::new();
        for (by, transaction) in history.iter().enumerate() {
            let mut own: HashMap<Key, Vec<Element>> = HashMap::new();
            for step in &transaction.steps {
                match step {
                    Step::Append(key, element) => own.entry(*key).or_default().push(*element),
                    Step::Read(key, list) => {
                        let own = own.get(key).map_or(&[][..], |own| own);
                        let Some(others) = list.strip_suffix(own) else {
                            findings.push(Finding::at(Anomaly::OwnLost, *key, [by]));
                            continue;
                        };
                        let before = longest.entry(*key).or_insert(others);
                        if others.len() > before.len() {
                            *before = others;
                        }
                        seen.push((Read { by, key: *key, len: others.len() }, others));
                    }
                }
            }
        }
        let mut order = HashMap::new();
        for (key, list) in &longest {
            order.insert(*key, ordered(*key, list, &appended, findings));
        }
        for (read, list) in seen {
            if !longest.get(&read.key).is_some_and(|longest| longest.starts_with(list)) {
                findings.push(Finding::at(Anomaly::Incompatible, read.key, [read.by]));
                continue;
            }
            reads.push(read);
        }
        let versions = Versions { order, reads };
        versions.check_reads(history, findings);
        versions.check_lost(history, findings);
        versions
    }

    /// Reads of what never was, or was not yet.
    fn check_reads(&self, history: &[Transaction], findings: &mut Vec<Finding>) {
        for Read { by, key, len } in &self.reads {
            let Some(last) = len.checked_sub(1).and_then(|last| self.order.get(key)?.get(last)) else {
                continue;
            };
            if history[last.by].outcome == Outcome::Aborted {
                findings.push(Finding::at(Anomaly::AbortedRead, *key, [last.by, *by]));
            } else if !last.is_last {
                findings.push(Finding::at(Anomaly::IntermediateRead, *key, [last.by, *by]));
            }
        }
    }

    /// Commits that nothing is left of.
    fn check_lost(&self, history: &[Transaction], findings: &mut Vec<Finding>) {
        let mut found: HashMap<(Key, usize), usize> = HashMap::new();
        for (key, list) in &self.order {
            list.iter().for_each(|element| *found.entry((*key, element.by)).or_default() += 1);
        }
        for (by, transaction) in history.iter().enumerate() {
            if !matches!(transaction.outcome, Outcome::Committed { .. }) {
                continue;
            }
            let mut counts: HashMap<Key, usize> = HashMap::new();
            for step in &transaction.steps {
                if let Step::Append(key, _) = step {
                    *counts.entry(*key).or_default() += 1;
                }
            }
            for (key, count) in counts {
                if found.get(&(key, by)).copied().unwrap_or(0) < count {
                    findings.push(Finding::at(Anomaly::LostUpdate, key, [by]));
                }
            }
        }
    }
}

/// Of each element the key, the transaction that appended it, and whether that appended no more to the key.
fn appended(history: &[Transaction]) -> HashMap<Element, (Key, Appended)> {
    let mut appended = HashMap::new();
    for (by, transaction) in history.iter().enumerate() {
        let mut last: HashMap<Key, Element> = HashMap::new();
        for step in &transaction.steps {
            if let Step::Append(key, element) = step {
                appended.insert(*element, (*key, Appended { by, is_last: true }));
                if let Some((_, before)) = last.insert(*key, *element).and_then(|before| appended.get_mut(&before)) {
                    before.is_last = false;
                }
            }
        }
    }
    appended
}

/// The elements of the longest list of a key, up to one that cannot be.
fn ordered(
    key: Key,
    list: &[Element],
    appended: &HashMap<Element, (Key, Appended)>,
    findings: &mut Vec<Finding>,
) -> Vec<Appended> {
    let mut ordered = Vec::with_capacity(list.len());
    let mut seen = std::collections::HashSet::new();
    for element in list {
        match appended.get(element) {
            Some((of, appended)) if *of == key && seen.insert(element) => ordered.push(*appended),
            _ => {
                findings.push(Finding::at(Anomaly::Invented, key, []));
                break;
            }
        }
    }
    ordered
}

impl Finding {
    pub(super) fn at<const N: usize>(anomaly: Anomaly, key: Key, by: [usize; N]) -> Finding {
        Finding { anomaly, transactions: by.to_vec(), key: Some(key) }
    }
}
