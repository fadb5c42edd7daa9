//! What lies beside the store on its disk and has a life of its own: copies of the store, and files that it takes in.

use std::fmt;

use crate::check::{Accepted, Expect, Fold, Rule, Violation};

/// What something beside the store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A copy, under the name that was asked for.
    Copy,
    /// A copy that can be opened where it is made, under a name that nobody was told.
    Staged,
    /// A file to be taken in.
    Source,
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
                None => (Rule::N3, "is there, and nobody asked for it".to_string()),
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

    /// What is known of `found` once a recovery accepted so much. What `survived` a power cut is there for good.
    pub(crate) fn facts_after(
        &self,
        accepted: Accepted,
        found: &[Beside],
        survived: bool,
    ) -> Vec<Fact> {
        let known = self.history.facts().iter().filter(|fact| fact.from < self.at);
        let there = known.filter(|fact| found.contains(&fact.is));
        let after = |fact: &Fact| {
            // Where a copy is made the next one is, too.
            let stays =
                fact.is.kind != Kind::Staged && (survived || fact.is_demanded(self, accepted));
            Fact { is: fact.is, from: 0, must: if stays { 0 } else { NEVER }, unless: None }
        };
        there.map(after).collect()
    }
}
