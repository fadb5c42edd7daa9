//! Dependencies by lists. The longest list that was read of a key tells the order of its versions, as each element makes
//! one; all others have to be beginnings of it.
//!
//! Own appends at the end of a read are left out of it: they say nothing of what others did. What is left is the version
//! that the transaction saw.

use std::collections::{HashMap, HashSet};

use super::graph::{Dependency, Edge};
use super::report::Findings;
use super::{Element, Key, Kind, Operation, Outcome, Transaction};

/// An append.
#[derive(Clone, Copy)]
struct Appended {
    key: Key,
    element: Element,
    transaction: u32,
    /// How many appends of the transaction to this key were before it.
    turn: u32,
    /// Whether it is the transaction's last one to this key.
    is_last: bool,
}

/// A list that a committed transaction read, without its own appends at the end.
#[derive(Clone, Copy)]
struct ListRead<'h> {
    key: Key,
    transaction: u32,
    list: &'h [Element],
}

/// Adds the dependencies that lists show, and what no list may show.
pub(super) fn find(history: &[Transaction], edges: &mut Vec<Edge>, findings: &mut Findings<'_>) {
    let (mut appends, mut reads) = (Vec::new(), Vec::new());
    for (at, transaction) in history.iter().enumerate() {
        gather(at as u32, transaction, &mut appends, &mut reads, findings);
    }
    appends.sort_by_key(|append| append.key);
    reads.sort_by_key(|read| read.key);
    let (mut appends, mut reads) = (&appends[..], &reads[..]);
    while let Some(key) = [appends.first().map(|it| it.key), reads.first().map(|it| it.key)]
        .into_iter()
        .flatten()
        .min()
    {
        let (its_appends, its_reads);
        (its_appends, appends) = appends.split_at(appends.partition_point(|it| it.key == key));
        (its_reads, reads) = reads.split_at(reads.partition_point(|it| it.key == key));
        let mut list = KeyList { history, key, appends: its_appends, reads: its_reads, edges };
        list.examine(findings);
    }
}

/// Notes what a transaction appended and read.
fn gather<'h>(
    at: u32,
    transaction: &'h Transaction,
    appends: &mut Vec<Appended>,
    reads: &mut Vec<ListRead<'h>>,
    findings: &mut Findings<'_>,
) {
    // Own elements of each key so far, and where in `appends` the last is.
    let mut own: HashMap<Key, (Vec<Element>, usize)> = HashMap::new();
    for operation in &transaction.operations {
        match operation {
            Operation::Append { key, element } => {
                let (elements, last) = own.entry(*key).or_default();
                if !elements.is_empty() {
                    appends[*last].is_last = false;
                }
                let turn = elements.len() as u32;
                elements.push(*element);
                *last = appends.len();
                appends.push(Appended {
                    key: *key,
                    element: *element,
                    transaction: at,
                    turn,
                    is_last: true,
                });
            }
            Operation::ReadList { key, elements } if transaction.is_committed() => {
                let own: &[Element] = own.get(key).map_or(&[], |(elements, _)| elements);
                match elements.strip_suffix(own) {
                    Some(list) => reads.push(ListRead { key: *key, transaction: at, list }),
                    None => findings.add(Kind::Internal, &[at], || {
                        format!("T{at} reads {key} without its own appends at the end")
                    }),
                }
            }
            _ => {}
        }
    }
}

/// What happened to one list.
struct KeyList<'h, 'a> {
    history: &'h [Transaction],
    key: Key,
    appends: &'a [Appended],
    reads: &'a [ListRead<'h>],
    edges: &'a mut Vec<Edge>,
}

impl<'h, 'a> KeyList<'h, 'a> {
    fn examine(&mut self, findings: &mut Findings<'_>) {
        let of = self.by_element();
        let longest = self.reads.iter().rev().max_by_key(|read| read.list.len());
        let order: &'h [Element] = longest.map_or(&[], |read| read.list);
        let mut seen: HashSet<Element> = HashSet::new();
        // Each version with its append, if it was committed.
        let mut versions: Vec<Option<&'a Appended>> = Vec::with_capacity(order.len());
        for element in order {
            let reader = longest.map_or(0, |read| read.transaction);
            if !seen.insert(*element) {
                self.found_twice(*element, reader, findings);
            }
            versions.push(self.committed(*element, reader, &of, findings));
        }
        // Those that do not fit are reported here and left out below.
        for read in self.reads.iter().filter(|read| !order.starts_with(read.list)) {
            let longest = longest.map_or(0, |longest| longest.transaction);
            self.misfit(read, longest, &of, findings);
            seen.extend(read.list);
        }
        let unseen = self.unseen(&seen);
        self.find_lost(&unseen, findings);
        let loose = self.put_unseen_in_order(unseen, &mut versions);
        self.depend(order, &versions, &loose, findings);
    }

    /// Finds appends by their elements.
    fn by_element(&self) -> HashMap<Element, &'a Appended> {
        let mut of = HashMap::with_capacity(self.appends.len());
        for append in self.appends {
            if let Some(Appended { transaction, .. }) = of.insert(append.element, append) {
                let (key, element) = (self.key, append.element.0);
                panic!("T{transaction} and T{} append {element} to {key}", append.transaction);
            }
        }
        of
    }

    fn outcome(&self, append: &Appended) -> Outcome {
        self.history[append.transaction as usize].outcome
    }

    /// The append of an element that `reader` saw, if it may be seen: one of an unknown outcome is committed, then.
    fn committed(
        &self,
        element: Element,
        reader: u32,
        of: &HashMap<Element, &'a Appended>,
        findings: &mut Findings<'_>,
    ) -> Option<&'a Appended> {
        let key = self.key;
        let Some(append) = of.get(&element) else {
            let what = || format!("T{reader} sees {} in {key}; it was never appended", element.0);
            findings.add(Kind::Corrupt, &[reader], what);
            return None;
        };
        let is_aborted = self.outcome(append) == Outcome::Aborted;
        if is_aborted {
            let writer = append.transaction;
            findings.add(Kind::G1a, &[reader, writer], || {
                format!("T{reader} sees {} in {key}, by T{writer}, which aborted", element.0)
            });
        }
        (!is_aborted).then_some(append)
    }

    fn found_twice(&self, element: Element, reader: u32, findings: &mut Findings<'_>) {
        findings.add(Kind::DuplicateElement, &[reader], || {
            format!("T{reader} sees {} twice in {}", element.0, self.key)
        });
    }

    /// Reports a list that is no beginning of the longest: for what it holds, if that says why.
    fn misfit(
        &self,
        read: &ListRead<'_>,
        longest: u32,
        of: &HashMap<Element, &'a Appended>,
        findings: &mut Findings<'_>,
    ) {
        let reader = read.transaction;
        let mut is_explained = false;
        let mut seen = HashSet::new();
        for element in read.list {
            if !seen.insert(*element) {
                self.found_twice(*element, reader, findings);
                is_explained = true;
            }
            is_explained |= self.committed(*element, reader, of, findings).is_none();
        }
        if !is_explained {
            findings.add(Kind::IncompatibleOrder, &[reader, longest], || {
                format!("T{reader} and T{longest} see {} in different orders", self.key)
            });
        }
    }

    /// Committed appends that are in no list.
    fn unseen(&self, seen: &HashSet<Element>) -> Vec<&'a Appended> {
        let is_unseen = |append: &&Appended| {
            let is_committed = matches!(self.outcome(append), Outcome::Committed { .. });
            is_committed && !seen.contains(&append.element)
        };
        self.appends.iter().filter(is_unseen).collect()
    }

    /// Reports what was committed before the last read began, and was not seen by any.
    fn find_lost(&self, unseen: &[&Appended], findings: &mut Findings<'_>) {
        let began = |read: &&ListRead<'_>| self.history[read.transaction as usize].began;
        let Some(last) = self.reads.iter().max_by_key(began) else { return };
        for append in unseen.iter().filter(|append| append.is_last) {
            let (writer, reader) = (append.transaction, last.transaction);
            if self.history[writer as usize].ended < began(&last) {
                findings.add(Kind::LostAppend, &[writer, reader], || {
                    let (key, element) = (self.key, append.element.0);
                    format!(
                        "T{writer} appends {element} to {key}, and T{reader} and all others miss it"
                    )
                });
            }
        }
    }

    /// What no read saw comes behind what was seen: in the order of commit numbers, if there are such. Else it has none, and
    /// is returned.
    fn put_unseen_in_order(
        &self,
        mut unseen: Vec<&'a Appended>,
        versions: &mut Vec<Option<&'a Appended>>,
    ) -> Vec<&'a Appended> {
        let number = |append: &Appended| self.history[append.transaction as usize].number();
        let is_of_one = unseen.windows(2).all(|pair| pair[0].transaction == pair[1].transaction);
        if is_of_one || unseen.iter().all(|append| number(append).is_some()) {
            unseen.sort_by_key(|append| (number(append), append.turn));
            versions.extend(unseen.drain(..).map(Some));
        }
        unseen
    }

    /// Adds the dependencies: `versions` in their order, which begins with `order`, `loose` ones behind them in none.
    fn depend(
        &mut self,
        order: &[Element],
        versions: &[Option<&Appended>],
        loose: &[&Appended],
        findings: &mut Findings<'_>,
    ) {
        let committed: Vec<&Appended> = versions.iter().copied().flatten().collect();
        for pair in committed.windows(2) {
            let [before, after] = [pair[0], pair[1]];
            let transaction = after.transaction;
            if before.transaction == transaction && before.turn > after.turn {
                findings.add(Kind::IncompatibleOrder, &[transaction], || {
                    format!("T{transaction} appends to {} in another order than is seen", self.key)
                });
            }
            self.edge(before.transaction, Dependency::Ww, transaction);
        }
        if let Some(last) = committed.last() {
            loose
                .iter()
                .for_each(|next| self.edge(last.transaction, Dependency::Ww, next.transaction));
        }
        // The first committed version from each place on.
        let mut next = vec![None; versions.len() + 1];
        for at in (0..versions.len()).rev() {
            next[at] = versions[at].or(next[at + 1]);
        }
        for read in self.reads.iter().filter(|read| order.starts_with(read.list)) {
            let (reader, len) = (read.transaction, read.list.len());
            if let Some(append) = len.checked_sub(1).and_then(|last| versions[last]) {
                self.see(append, reader, findings);
            }
            if let Some(next) = next[len] {
                self.edge(reader, Dependency::Rw, next.transaction);
            }
        }
    }

    /// Notes that a reader's version is that of an append.
    fn see(&mut self, append: &Appended, reader: u32, findings: &mut Findings<'_>) {
        let (key, element, writer) = (self.key, append.element.0, append.transaction);
        if writer == reader {
            findings.add(Kind::Internal, &[reader], || {
                format!("T{reader} sees {element} in {key} before it appends it, or without what it appends next")
            });
        } else if !append.is_last {
            findings.add(Kind::G1b, &[reader, writer], || {
                format!(
                    "T{reader} sees {element} in {key} as the last; T{writer} appends more to it"
                )
            });
        }
        self.edge(writer, Dependency::Wr, reader);
    }

    fn edge(&mut self, from: u32, dependency: Dependency, to: u32) {
        if from != to {
            self.edges.push(Edge { from, to, dependency, key: self.key });
        }
    }
}
