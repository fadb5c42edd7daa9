//! The oracle: is what a recovery shows what the history allows?
//!
//! After a crash there must be **one cut** S such that the visible state is the fold, in commit order, of
//! exactly the commits up to S:
//!
//! - **N1** S covers every acknowledged commit.
//! - **N2** No hole, no partial commit: the state *is* that fold.
//! - **N3** Only commits that were invoked count, with exactly their bytes.
//! - **N4** What a counted commit removed stays removed.
//! - **N5** S covers every value that was returned by a read.
//! - **N6** After a further crash S has not fallen, and nothing shown is missing.
//! - **N7** No space is leaked.
//! - **N8** Recovery ends, and the store works on: it does not turn every write away.
//!
//! States are compared by sums of entry hashes, so that the check of one image costs a walk over what it
//! shows; only a failed check looks at the bytes, to say what is wrong.

use std::fmt;

use crate::history::History;
use crate::op::Value;
use crate::state::State;

/// The rule that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// An acknowledged commit is lost.
    N1,
    /// A hole in the order of commits, or part of a commit.
    N2,
    /// Something no one wrote.
    N3,
    /// Something removed came back.
    N4,
    /// Something read before the crash is lost.
    N5,
    /// A further crash took away what a recovery had accepted.
    N6,
    /// Leaked space.
    N7,
    /// Recovery fails or does not end, or the store does not work.
    N8,
}

/// A broken rule, with what shows it.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// What was found.
    pub what: String,
    /// How the world got there: crashes, outermost first.
    pub trail: Vec<String>,
    /// The system says that there is no store.
    no_store: bool,
}

impl Violation {
    /// A violation without a trail yet.
    #[cold]
    pub fn new(rule: Rule, what: String) -> Self {
        Self { rule, what, trail: Vec::new(), no_store: false }
    }

    /// The system panicked.
    #[cold]
    pub(crate) fn panicked(text: &str) -> Self {
        Self::new(Rule::N8, format!("panicked: {text}"))
    }

    /// A recovery ended with an error.
    #[cold]
    pub(crate) fn refused(error: &base::Error) -> Self {
        let no_store = error.kind() == base::ErrorKind::NotFound;
        Self { no_store, ..Self::new(Rule::N8, format!("recovery fails: {error}")) }
    }

    /// Whether this is what a recovery says where the store was never completely made. Any other error
    /// there would leave someone with a store that can neither be opened nor made again.
    pub(crate) fn says_unmade(&self) -> bool {
        self.no_store
    }

    /// The same, seen from one crash further out.
    #[must_use]
    pub fn after(mut self, crash: String) -> Self {
        self.trail.insert(0, crash);
        self
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for crash in &self.trail {
            writeln!(f, "  {crash}")?;
        }
        write!(f, "  {:?} broken: {}", self.rule, self.what)
    }
}

/// Number of entries and sum of their hashes: two states are equal if these are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fold {
    /// Sum of the entries' hashes.
    pub sum: u64,
    /// Number of entries.
    pub count: u64,
}

/// What a recovery showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The cut it reports.
    pub cut: u64,
    /// The state it shows.
    pub fold: Fold,
    /// Objects leaked.
    pub leaks: u64,
}

/// The part of history that was accepted: so many commits in order, and which of the loose ones (by bit) are
/// in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Number of commits.
    pub commits: usize,
    /// Of the commits that the cut does not decide, those that are in.
    pub loose: u8,
}

/// What history allows and demands at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Expect<'h> {
    pub(crate) history: &'h History,
    /// The moment, as an event index of that history's log.
    pub(crate) at: usize,
    /// Commits that must count.
    pub(crate) required: usize,
    /// Commits that may count.
    pub(crate) allowed: usize,
    /// Loose commits that must be in.
    pub(crate) must: u8,
    /// Loose commits that must be out.
    pub(crate) must_not: u8,
    /// The rule that is broken if they do not.
    pub(crate) because: Rule,
    /// Whether the store was completely made.
    pub(crate) created: bool,
}

impl<'h> Expect<'h> {
    /// Whether a store must be there at all.
    pub fn created(&self) -> bool {
        self.created
    }

    /// Commits in flight at that moment.
    pub fn in_flight(&self) -> usize {
        self.history.in_flight(self.at)
    }

    /// Demands that what a recovery accepted stays accepted.
    #[must_use]
    pub fn raised(mut self, accepted: Accepted) -> Self {
        if accepted.commits > self.required {
            (self.required, self.because) = (accepted.commits, Rule::N6);
        }
        let decided = self.history.by_edit();
        self.must |= accepted.loose & decided;
        self.must_not |= !accepted.loose & decided;
        self
    }

    /// The part of history that `outcome` shows, if it shows one that is allowed.
    #[inline]
    pub fn check(&self, outcome: &Outcome) -> Option<Accepted> {
        let history = self.history;
        let commits = history.commits_up_to(outcome.cut, self.allowed)?;
        if outcome.leaks != 0 || commits < self.required || commits > self.allowed {
            return None;
        }
        // Where an effect shows nowhere it may have happened: what follows from it is then allowed, too.
        (0..history.variants())
            .rev()
            .filter(|variant| variant & self.must_not == 0 && variant & self.must == self.must)
            .find(|&variant| history.fold(variant, commits) == outcome.fold)
            .map(|loose| Accepted { commits, loose })
    }

    /// Says which rule an outcome breaks that failed the check; `state` is what it showed.
    pub fn explain(&self, outcome: &Outcome, state: &State) -> Violation {
        let history = self.history;
        if outcome.leaks != 0 {
            return Violation::new(Rule::N7, format!("{} objects are leaked", outcome.leaks));
        }
        if let Some(invention) = self.invention(state) {
            return Violation::new(Rule::N3, invention);
        }
        let Some(commits) = history.commits_up_to(outcome.cut, self.allowed) else {
            let what = format!("the cut fell from {} to {}", history.base_cut(), outcome.cut);
            return Violation::new(Rule::N6, what);
        };
        if commits < self.required {
            let what = format!(
                "the cut is {}: {commits} commits count, {} must: commit {} is lost",
                outcome.cut,
                self.required,
                history.number(commits)
            );
            return Violation::new(self.because, what);
        }
        if commits > self.allowed {
            let what = format!("the cut is {}, which no commit had reached", outcome.cut);
            return Violation::new(Rule::N3, what);
        }
        self.difference(outcome.cut, commits, state)
    }

    fn invention(&self, state: &State) -> Option<String> {
        let found = state
            .iter()
            .find(|(at, value)| !self.history.was_written(self.at, at.keyspace, &at.key, value));
        found.map(|(at, value)| {
            let key = String::from_utf8_lossy(&at.key);
            format!("{}/{key} = {}, which was never written there", at.keyspace, show(value))
        })
    }

    fn difference(&self, cut: u64, commits: usize, state: &State) -> Violation {
        let wanted = self.history.state(Accepted { commits, loose: self.must });
        let mut rule = Rule::N2;
        let mut lines = Vec::new();
        let keys: std::collections::BTreeSet<_> = state.keys().chain(wanted.keys()).collect();
        for at in keys {
            let (is, should) = (state.get(at), wanted.get(at));
            if is == should {
                continue;
            }
            if should.is_none() && self.history.was_removed(commits, at.keyspace, &at.key) {
                rule = Rule::N4;
            }
            let text = |v: Option<&Vec<u8>>| v.map_or("absent".to_string(), |v| show(v));
            let name = String::from_utf8_lossy(&at.key);
            lines.push(format!("{}/{name} is {}, not {}", at.keyspace, text(is), text(should)));
        }
        lines.truncate(4);
        if lines.is_empty() {
            lines.push(
                "an entry is shown more than once, or a commit in flight counts in part".into(),
            );
        }
        Violation::new(rule, format!("at cut {cut} ({commits} commits): {}", lines.join("; ")))
    }
}

fn show(value: &[u8]) -> String {
    match Value::identify(value) {
        Some(v) => format!("v{}[{}]", v.id, v.len),
        None => format!("{} unknown bytes {:02x?}", value.len(), &value[..value.len().min(12)]),
    }
}
