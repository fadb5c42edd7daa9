//! What lies beside the store on its disk and has a life of its own: copies of the store, and files that it takes in.

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

    fn of<'f>(&self, found: &'f [Beside]) -> Option<&'f Beside> {
        found.iter().find(|it| it.kind == self.is.kind && it.id == self.is.id)
    }

    fn name(&self) -> String {
        match self.is.kind {
            Kind::Copy => format!("checkpoint {}", self.is.id),
            Kind::Staged => format!("checkpoint {}, where it is made,", self.is.id),
            Kind::Source => format!("file {}", self.is.id),
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
        for fact in self.history.facts() {
            let (name, is) = (fact.name(), fact.of(found));
            let violation = match is {
                None if fact.is_demanded(self, accepted) => {
                    Some((Rule::N1, format!("{name} is gone")))
                }
                Some(_) if fact.from >= self.at && fact.is.kind != Kind::Source => {
                    Some((Rule::N3, format!("{name} is there, and nobody asked for it")))
                }
                Some(is) if fact.from < self.at && is.shows != fact.is.shows => {
                    let (is, should) = (is.shows, fact.is.shows);
                    Some((Rule::N2, format!("{name} shows {is:?}, not {should:?}")))
                }
                _ => None,
            };
            if let Some((rule, what)) = violation {
                return Err(Violation::new(rule, what));
            }
        }
        Ok(())
    }

    /// What is known of `found` once a recovery accepted so much. What `survived` a power cut is there for good.
    pub(crate) fn facts_after(
        &self,
        accepted: Accepted,
        found: &[Beside],
        survived: bool,
    ) -> Vec<Fact> {
        let known = self.history.facts().iter().filter(|fact| fact.from < self.at);
        let there = known.filter(|fact| fact.of(found).is_some());
        let after = |fact: &Fact| {
            let stays = survived || fact.is_demanded(self, accepted);
            Fact { is: fact.is, from: 0, must: if stays { 0 } else { NEVER }, unless: None }
        };
        there.map(after).collect()
    }
}
