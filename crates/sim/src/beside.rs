//! What lies beside the store on its disk and has a life of its own: copies of the store, and files that it takes in.

use std::fmt;

use crate::check::{Accepted, Expect, Fold, Rule, Violation};

/// What something beside the store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A copy, under the name that was asked for.
    Copy,
    /// A copy that can be opened where it is made, under a name that no caller was told.
    Staged,
    /// A file to be taken in.
    Source,
}

/// How the process before a recovery ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    PowerCut,
    Kill,
}

/// Something beside the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beside {
    /// What it is.
    pub kind: Kind,
    /// The number that its operation gave it.
    pub id: u32,
    /// The entries that a copy shows; of a file, whatever tells its bytes from others.
    pub shows: Fold,
}

/// Later than every event.
const NEVER: usize = usize::MAX;

/// What is known of something beside the store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fact {
    pub(crate) is: Beside,
    /// From this event on it may be there, and then it is whole.
    pub(crate) from: usize,
    /// From this event on it must be there.
    pub(crate) must: usize,
    /// Unless this commit counts.
    pub(crate) unless: Option<usize>,
}

impl Fact {
    fn is_demanded(&self, expect: &Expect<'_>, accepted: Accepted) -> bool {
        let counts = |commit| expect.history.counts(commit, accepted);
        self.must < expect.at && !self.unless.is_some_and(counts)
    }

    fn is_of(&self, it: &Beside) -> bool {
        self.is.kind == it.kind && self.is.id == it.id
    }
}

impl fmt::Display for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, id, .. } = self;
        match kind {
            Kind::Copy => write!(f, "checkpoint {id}"),
            Kind::Staged => write!(f, "checkpoint {id}, where it is made,"),
            Kind::Source => write!(f, "file {id}"),
        }
    }
}

impl Expect<'_> {
    /// Whether what was found beside a store that accepted so much is what must be there.
    pub(crate) fn check_beside(
        &self,
        accepted: Accepted,
        found: &[Beside],
    ) -> Result<(), Violation> {
        let facts = self.history.facts();
        for it in found {
            let mut known =
                facts.iter().filter(|fact| fact.is_of(it) && fact.from < self.at).peekable();
            if known.peek().is_none() && it.kind == Kind::Source {
                continue; // It is being made.
            }
            let (rule, what) = match known.peek() {
                None => (Rule::N3, "is there, but was never asked for".to_string()),
                Some(fact) => (Rule::N2, format!("shows {:?}, not {:?}", it.shows, fact.is.shows)),
            };
            if !known.any(|fact| fact.is.shows == it.shows) {
                return Err(Violation::new(rule, format!("{it} {what}")));
            }
        }
        let is_there = |fact: &&Fact| found.iter().any(|it| fact.is_of(it));
        match facts.iter().filter(|fact| fact.is_demanded(self, accepted)).find(|f| !is_there(f)) {
            Some(fact) => Err(Violation::new(Rule::N1, format!("{} is gone", fact.is))),
            None => Ok(()),
        }
    }

    /// What is known once a recovery accepted so much and this was `found`. What survived a power cut is there for
    /// good; what a killed process left may yet be undone.
    pub(crate) fn facts_after(&self, accepted: Accepted, found: &[Beside], end: End) -> Vec<Fact> {
        let survived = end == End::PowerCut;
        let known = self.history.facts().iter().filter(|fact| fact.from < self.at);
        let there = known.filter(|fact| !survived || found.contains(&fact.is));
        let after = |fact: &Fact| {
            // Where a copy is made the next one is, too.
            let stays =
                fact.is.kind != Kind::Staged && (survived || fact.is_demanded(self, accepted));
            Fact { is: fact.is, from: 0, must: if stays { 0 } else { NEVER }, unless: None }
        };
        there.map(after).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome;
    use crate::history::History;
    use crate::notes::During;
    use crate::op::{Op, Value, Write};
    use crate::state::State;

    fn put(keyspace: u8, id: u32) -> Write {
        Write::Put { keyspace, key: b"k".to_vec(), value: Value { id, len: 8 } }
    }

    /// Put 1 with number 1 at events 1 to 5, then `op` from event 6 to event 10.
    fn history(op: &Op) -> History {
        let mut history = History::new(State::new(), 0, 0);
        let first = Op::Commit { thread: 0, writes: vec![put(0, 1)], abandon: false };
        let entry = history.invoke(&first, 1);
        history.reserve(entry, 1, 2).expect("reserved");
        history.ack(entry, 5).expect("acknowledged");
        let entry = history.invoke(op, 6);
        history.made(entry, Fold { sum: 7, count: 7 }, 7);
        let number = if matches!(op, Op::Checkpoint { .. }) { 1 } else { 2 };
        history.at(op, entry, number, During { begun: 8, done: 10 }).expect("done");
        history.finish().expect("explained");
        history
    }

    fn rule(history: &History, event: usize, accepted: Accepted, found: &[Beside]) -> Option<Rule> {
        history.expect(event).check_beside(accepted, found).err().map(|violation| violation.rule)
    }

    #[test]
    fn a_copy_is_whole_and_of_its_moment() {
        let history = history(&Op::Checkpoint { thread: 1, copy: 3 });
        let all = history.everything();
        let copy = Beside { kind: Kind::Copy, id: 3, shows: history.final_fold() };
        let staged = Beside { kind: Kind::Staged, ..copy };
        let other = Beside { shows: Fold::default(), ..copy };
        for (event, found, broken) in [
            (8, &[][..], None),
            (8, &[copy], Some(Rule::N3)),
            (9, &[], None),
            (9, &[copy], None),
            (9, &[other], Some(Rule::N2)),
            (9, &[staged], None),
            (9, &[Beside { kind: Kind::Staged, ..other }], Some(Rule::N2)),
            (11, &[copy, staged], None),
            (11, &[], Some(Rule::N1)),
        ] {
            assert_eq!(rule(&history, event, all, found), broken, "{event} {found:?}");
        }
        let after = history.expect(9).facts_after(all, &[copy, staged], End::PowerCut);
        let must: Vec<bool> = after.iter().map(|fact| fact.must == 0).collect();
        assert_eq!(must, [true, false]);
        assert!(history.expect(9).facts_after(all, &[], End::Kill)[1].must == NEVER);
    }

    #[test]
    fn a_file_goes_only_once_the_store_has_what_is_in_it() {
        let writes = vec![put(0, 2)];
        let history = history(&Op::Ingest { thread: 1, writes, source: 9, moves: true });
        let file = Beside { kind: Kind::Source, id: 9, shows: Fold { sum: 7, count: 7 } };
        let (all, without) = (history.everything(), Accepted { commits: 2, loose: 0 });
        let torn = Beside { shows: Fold::default(), ..file };
        for (event, accepted, found, broken) in [
            (7, without, &[torn][..], None),
            (8, without, &[torn], Some(Rule::N2)),
            (9, without, &[], Some(Rule::N1)),
            (9, without, &[file], None),
            (9, all, &[], None),
        ] {
            assert_eq!(rule(&history, event, accepted, found), broken, "{event} {found:?}");
        }
        // In flight it is taken in or is not, whatever the cut says; acknowledged it is.
        let with = Outcome { cut: 2, fold: history.final_fold(), leaks: 0 };
        let none = Outcome { fold: history.fold(0, 1), ..with };
        let is_allowed = |event, outcome| history.expect(event).check(outcome).is_some();
        assert!(is_allowed(9, &with) && is_allowed(9, &none));
        assert!(is_allowed(11, &with) && !is_allowed(11, &none));
        assert!(!is_allowed(8, &with));
    }

    #[test]
    fn what_has_no_number_of_its_own_is_in_or_is_not() {
        let make = Op::Keyspace { thread: 1, write: Write::Make { keyspace: 2 } };
        let history = history(&make);
        let with = Outcome { cut: 1, fold: history.final_fold(), leaks: 0 };
        let none = Outcome { fold: history.fold(0, 1), ..with };
        let is_allowed = |event, outcome| history.expect(event).check(outcome).is_some();
        assert!(is_allowed(8, &none) && !is_allowed(8, &with));
        assert!(is_allowed(9, &with) && is_allowed(9, &none));
        assert!(is_allowed(11, &with) && !is_allowed(11, &none));
        assert!(history.expect(9).check(&Outcome { cut: 0, ..with }).is_none());
        // Found once, it stays found, also if the recovery is cut off.
        let found = history.expect(9).check(&with).expect("allowed");
        assert!(history.expect(9).raised(found).check(&none).is_none());
    }
}
