//! Circles of transactions that depend on each other, found without any number: strongly connected components (Tarjan 1972).

use super::versions::{Read, Versions};
use super::{Anomaly, Finding, Level, Outcome, Transaction};

/// How many transactions of a circle are told.
const TOLD_MAX: usize = 10;

/// For each transaction those that come behind it.
type Edges = Vec<Vec<usize>>;

pub(super) fn check(
    history: &[Transaction],
    versions: &Versions,
    level: Level,
    findings: &mut Vec<Finding>,
) {
    let mut edges: Edges = vec![Vec::new(); history.len()];
    write_edges(versions, &mut edges);
    find(history, &edges, Anomaly::Circular, findings);
    if level == Level::Serializable {
        anti_edges(versions, &mut edges);
        find(history, &edges, Anomaly::AntiDependency, findings);
    }
}

fn add(edges: &mut Edges, from: usize, to: usize) {
    if from != to {
        edges[from].push(to);
    }
}

/// Who appended behind another, and who read what another appended.
fn write_edges(versions: &Versions, edges: &mut Edges) {
    for list in versions.order.values() {
        list.windows(2).for_each(|pair| add(edges, pair[0].by, pair[1].by));
    }
    for Read { by, key, len } in &versions.reads {
        let last = len.checked_sub(1).and_then(|last| versions.order.get(key)?.get(last));
        last.into_iter().for_each(|last| add(edges, last.by, *by));
    }
}

/// Who did not see what another appended then.
fn anti_edges(versions: &Versions, edges: &mut Edges) {
    for Read { by, key, len } in &versions.reads {
        // What it appended itself comes next, if nothing came between.
        let next = versions.order.get(key).and_then(|list| list.get(*len));
        next.into_iter().for_each(|next| add(edges, *by, next.by));
    }
}

/// Tells each component of several transactions, of those that did not end without a trace.
fn find(history: &[Transaction], edges: &Edges, anomaly: Anomaly, findings: &mut Vec<Finding>) {
    let counts = |at: &usize| history[*at].outcome != Outcome::Aborted;
    for component in components(edges) {
        if component.iter().filter(|at| counts(at)).count() > 1 {
            let mut transactions = component;
            transactions.sort_unstable();
            transactions.truncate(TOLD_MAX);
            findings.push(Finding { anomaly, transactions, key: None });
        }
    }
}

/// What Tarjan's search knows of a transaction.
#[derive(Clone, Copy, Default)]
struct Visit {
    /// In which order it was come to, from 1 on; 0: not yet.
    order: usize,
    /// The first that it leads to, of those that are on the stack.
    lowest: usize,
    on_stack: bool,
}

/// The strongly connected components of more than one, without recursion.
fn components(edges: &Edges) -> Vec<Vec<usize>> {
    let mut visits = vec![Visit::default(); edges.len()];
    let (mut order, mut stack, mut found) = (0, Vec::new(), Vec::new());
    for root in 0..edges.len() {
        if visits[root].order != 0 {
            continue;
        }
        // A transaction, and how many of its edges were followed.
        let mut path = vec![(root, 0)];
        while let Some((at, followed)) = path.last_mut() {
            let at = *at;
            if *followed == 0 && visits[at].order == 0 {
                order += 1;
                visits[at] = Visit { order, lowest: order, on_stack: true };
                stack.push(at);
            }
            if let Some(&next) = edges[at].get(*followed) {
                *followed += 1;
                if visits[next].order == 0 {
                    path.push((next, 0));
                } else if visits[next].on_stack {
                    visits[at].lowest = visits[at].lowest.min(visits[next].order);
                }
                continue;
            }
            path.pop();
            if let Some((before, _)) = path.last() {
                visits[*before].lowest = visits[*before].lowest.min(visits[at].lowest);
            }
            if visits[at].lowest == visits[at].order {
                let first = stack.iter().rposition(|on| *on == at).unwrap_or(0);
                let component = stack.split_off(first);
                component.iter().for_each(|on| visits[*on].on_stack = false);
                if component.len() > 1 {
                    found.push(component);
                }
            }
        }
    }
    found
}
