//! What real threads asked of a store and when they were told: each keeps notes of its own, and the diary of all of them
//! says what any moment demands.
//!
//! The order of commits is that of their numbers, which the store tells. A commit is *in the prefix up to n* if its number
//! is not above n. A prefix is possible at a moment if all commits in it had been asked for by then, and it is demanded up
//! to the greatest number that a caller had been told: by an acknowledgement, or by a read that cannot be explained
//! without it. What an edit decides over (keyspaces made and dropped, files taken in) is there or not while its call lasts,
//! whatever the prefix; before that it is not, and afterwards it is.
//!
//! A note says between which events of the tape something happened: both are marks, the first made before the call, the
//! second after it. So a demand comes rather too late than too early, and never without reason.

use std::collections::BTreeMap;

use crate::check::{Fold, Rule, Violation};
pub use crate::notes::{Commit, Copy, During, Edit, Notes, Read, Walk};
use crate::op::{Value, Write};
use crate::state::{self, EntryKey, State};

/// Keyspaces that a diary knows, by number.
pub const KEYSPACES: usize = 3;

/// What an acknowledgement is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// What was acknowledged survives.
    Each,
    /// A prefix survives: all that was acknowledged before a sync that has returned, all up to each commit that was
    /// acknowledged as synced, and perhaps more.
    Prefix,
}

/// What a store begins with.
#[derive(Clone, Debug, Default)]
pub struct Base {
    /// Its entries.
    pub state: State,
    /// The last number that counts.
    pub cut: u64,
}

/// What all threads of one open store did.
#[derive(Clone, Debug)]
pub struct Diary {
    promise: Promise,
    base: Base,
    /// By number.
    commits: Vec<Commit>,
    /// By commit: when the last of those up to it was asked for.
    asked: Vec<usize>,
    edits: Vec<Edit>,
    copies: Vec<(Copy, Fold)>,
    /// From which event on which number is demanded, and why; both ascend.
    demands: Vec<(usize, u64, Rule)>,
}

/// What a recovered store showed.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The last number that it says to count.
    pub cut: u64,
    /// Its entries.
    pub state: State,
    /// Objects that nothing reaches.
    pub leaks: u64,
}

impl Diary {
    /// Puts the notes of all threads together; the store began with `base`. Fails if what was read cannot be
    /// explained.
    pub fn new(base: Base, promise: Promise, notes: Vec<Notes>) -> Result<Diary, Violation> {
        let mut all = Notes::default();
        for notes in notes {
            all.commits.extend(notes.commits);
            all.edits.extend(notes.edits);
            all.reads.extend(notes.reads);
            all.walks.extend(notes.walks);
            all.copies.extend(notes.copies);
            all.syncs.extend(notes.syncs);
        }
        all.commits.sort_by_key(|commit| commit.number);
        all.edits.sort_by_key(|edit| (edit.number, edit.during.begun));
        let numbers = all.commits.iter().map(|commit| commit.number);
        let mut before = base.cut;
        for number in numbers {
            if number <= before {
                let what = format!("commit number {number} is given out again");
                return Err(Violation::new(Rule::N2, what));
            }
            before = number;
        }
        let asked = all.commits.iter().scan(0, |last, commit| {
            *last = commit.during.begun.max(*last);
            Some(*last)
        });
        let asked = asked.collect();
        let Notes { commits, edits, reads, walks, copies, syncs, .. } = all;
        let mut diary =
            Diary { promise, base, commits, asked, edits, copies: Vec::new(), demands: Vec::new() };
        diary.demand(&syncs, &reads, &walks)?;
        for copy in copies {
            let lowest = diary.told_before(copy.during.begun);
            let commits = diary.up_to(copy.number);
            if copy.number < lowest || diary.asked_by(commits) >= copy.during.done {
                let what =
                    format!("checkpoint {} goes up to {}, which it must not", copy.id, copy.number);
                return Err(Violation::new(Rule::N5, what));
            }
            // Keyspaces that were made or dropped later may have the same number.
            let state = diary.state(copy.number, |edit| edit.during.done < copy.during.begun);
            diary.copies.push((copy, state::fold_of(&state)));
        }
        Ok(diary)
    }

    /// The diary of a store with which nothing was done.
    pub fn empty(base: Base, promise: Promise) -> Diary {
        Diary {
            promise,
            base,
            commits: Vec::new(),
            asked: Vec::new(),
            edits: Vec::new(),
            copies: Vec::new(),
            demands: Vec::new(),
        }
    }

    /// The greatest number that a caller had been told at `event`: what survives if only the process dies.
    pub fn told(&self, event: usize) -> u64 {
        self.told_of_read(event)
    }

    /// The last number that counted when the store was opened.
    pub fn base_cut(&self) -> u64 {
        self.base.cut
    }

    /// Number of commits.
    pub fn len(&self) -> usize {
        self.commits.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.commits.is_empty()
    }

    /// Number of edits.
    pub fn edits(&self) -> usize {
        self.edits.len()
    }

    /// Commits whose callers had not been told at `event`, though they had asked.
    pub fn in_flight(&self, event: usize) -> usize {
        let open = |each: &&Commit| each.during.begun < event && each.during.done >= event;
        self.commits.iter().filter(open).count()
    }

    /// Commits in the prefix up to `number`.
    fn up_to(&self, number: u64) -> usize {
        self.commits.partition_point(|commit| commit.number <= number)
    }

    /// When the last of the first `commits` was asked for; 0 if there are none.
    fn asked_by(&self, commits: usize) -> usize {
        commits.checked_sub(1).map_or(0, |last| self.asked[last])
    }

    /// The greatest number that a caller had been told before `event`, whatever that is worth.
    fn told_before(&self, event: usize) -> u64 {
        let told = self.commits.iter().filter(|commit| commit.during.done < event);
        told.map(|commit| commit.number).max().unwrap_or(self.base.cut)
    }

    /// Works out what each moment demands; every read must be explained by a prefix that was possible.
    fn demand(
        &mut self,
        syncs: &[During],
        reads: &[Read],
        walks: &[Walk],
    ) -> Result<(), Violation> {
        let mut told: Vec<(usize, u64, Rule)> = Vec::new();
        let chains = self.chains(reads);
        for read in reads {
            let chain = &chains[&EntryKey::new(read.keyspace, &read.key)];
            told.push((read.during.done, self.explains(read, chain)?, Rule::N5));
        }
        if !walks.is_empty() {
            let folds = self.folds();
            for walk in walks {
                let number = self.explains_walk(walk, &folds)?;
                told.push((walk.during.done, number, Rule::N5));
            }
        }
        match self.promise {
            Promise::Each => {
                let acks = self.commits.iter().map(|c| (c.during.done, c.number, Rule::N1));
                told.extend(acks);
            }
            Promise::Prefix => {
                let synced = |sync: &During| (sync.done, self.told_before(sync.begun), Rule::N1);
                let acks = self.commits.iter().filter(|commit| commit.synced);
                told = acks.map(|c| (c.during.done, c.number, Rule::N1)).collect();
                told.extend(syncs.iter().map(synced));
            }
        }
        told.sort_by_key(|(event, ..)| *event);
        let mut most = self.base.cut;
        for demand in told {
            if demand.1 > most {
                most = demand.1;
                self.demands.push(demand);
            }
        }
        Ok(())
    }

    /// Of each key that was read, the numbers at which it changed and what it was from then on.
    fn chains(&self, reads: &[Read]) -> Chains {
        let mut chains = Chains::new();
        for read in reads {
            let at = EntryKey::new(read.keyspace, &read.key);
            let first = (self.base.cut, self.base.state.get(&at).cloned());
            chains.entry(at).or_insert_with(|| vec![first]);
        }
        let mut state = self.base.state.clone();
        let mut fold = state::fold_of(&state);
        for (number, writes) in self.in_order() {
            for write in writes {
                state::apply(&mut state, &mut fold, write);
                for (at, chain) in state::touched(&mut chains, write) {
                    let now = state.get(at);
                    if chain.last().is_some_and(|(_, before)| before.as_ref() != now) {
                        chain.push((number, now.cloned()));
                    }
                }
            }
        }
        chains
    }

    /// Everything that was changed, in the order of numbers.
    fn in_order(&self) -> impl Iterator<Item = (u64, &[Write])> {
        let commits = self.commits.iter().map(|commit| (commit.number, 0, &commit.writes[..]));
        let edits = self.edits.iter().map(|edit| (edit.number, 1, &edit.writes[..]));
        let mut all: Vec<_> = commits.chain(edits).collect();
        all.sort_by_key(|(number, order, _)| (*number, *order));
        all.into_iter().map(|(number, _, writes)| (number, writes))
    }

    /// Whether the prefix up to `number` was possible when something was `done`: nothing in it was asked for only later.
    fn was_possible(&self, number: u64, done: usize) -> bool {
        let edits = self.edits.iter().filter(|edit| edit.numbered && edit.number <= number);
        self.asked_by(self.up_to(number)) < done && edits.map(|e| e.during.begun).all(|b| b < done)
    }

    /// The least number by which a read is explained.
    fn explains(&self, read: &Read, chain: &Chain) -> Result<u64, Violation> {
        let least = self.told_of_read(read.during.begun);
        for (i, (from, value)) in chain.iter().enumerate() {
            let until = chain.get(i + 1).map_or(u64::MAX, |next| next.0);
            let from = (*from).max(least);
            if until <= least || *value != read.value {
                continue;
            }
            if self.was_possible(from, read.during.done) {
                return Ok(from);
            }
        }
        let key = String::from_utf8_lossy(&read.key);
        let value = read.value.as_deref().map(Value::identify);
        let chain = chain.iter().map(|(number, value)| (number, value.as_deref().map(tell)));
        let chain: Vec<_> = chain.filter(|(number, _)| **number + 8 >= least).take(8).collect();
        let what = format!(
            "a read of {}/{key} at events {:?} returned {value:?}, which no moment explains: {least} was told; {chain:?}",
            read.keyspace, read.during
        );
        Err(Violation::new(Rule::N5, what))
    }

    /// As [`told_before`](Self::told_before), of commits and of what was taken in.
    fn told_of_read(&self, event: usize) -> u64 {
        let edits = self.edits.iter().filter(|edit| edit.numbered && edit.during.done < event);
        let edits = edits.map(|edit| edit.number).max().unwrap_or(0);
        self.told_before(event).max(edits)
    }

    fn explains_walk(&self, walk: &Walk, folds: &Folds) -> Result<u64, Violation> {
        let least = self.told_of_read(walk.during.begun);
        let shows = |folds: &[Fold; KEYSPACES]| {
            walk.folds.iter().all(|(keyspace, fold)| folds[usize::from(*keyspace)] == *fold)
        };
        let ends = folds.0.iter().skip(1).map(|next| next.0).chain([u64::MAX]);
        let fits = folds.0.iter().zip(ends).find(|((from, state), until)| {
            *until > least
                && shows(state)
                && self.was_possible((*from).max(least), walk.during.done)
        });
        fits.map(|((from, _), _)| (*from).max(least)).ok_or_else(|| {
            let what = format!(
                "a walk as of events {:?} shows {:?}, which no moment explains: {least} was told",
                walk.during, walk.folds
            );
            Violation::new(Rule::N5, what)
        })
    }

    /// The folds of all prefixes, edits included.
    fn folds(&self) -> Folds {
        let mut states: [(State, Fold); KEYSPACES] = Default::default();
        for (at, value) in &self.base.state {
            let (state, fold) = &mut states[usize::from(at.keyspace)];
            state::set(state, fold, at.clone(), value.clone());
        }
        let now = |states: &[(State, Fold); KEYSPACES]| std::array::from_fn(|i| states[i].1);
        let mut folds = vec![(self.base.cut, now(&states))];
        for (number, writes) in self.in_order() {
            for write in writes {
                let (state, fold) = &mut states[usize::from(write.keyspace())];
                state::apply(state, fold, write);
            }
            folds.push((number, now(&states)));
        }
        Folds(folds)
    }

    /// What must be there at `event`, and why.
    fn demanded(&self, event: usize) -> (u64, Rule) {
        let past = self.demands.partition_point(|(when, ..)| *when < event);
        past.checked_sub(1).map_or((self.base.cut, Rule::N6), |last| {
            let (_, number, rule) = self.demands[last];
            (number, rule)
        })
    }

    /// The state of the prefix up to `cut`, with those edits that are `in_`.
    pub fn state(&self, cut: u64, in_: impl Fn(&Edit) -> bool) -> State {
        let mut state = self.base.state.clone();
        let mut edits = self.edits.iter().filter(|edit| in_(edit)).peekable();
        let mut fold = state::fold_of(&state);
        for commit in &self.commits[..self.up_to(cut)] {
            while let Some(edit) = edits.next_if(|edit| edit.number < commit.number) {
                edit.writes.iter().for_each(|w| state::apply(&mut state, &mut fold, w));
            }
            commit.writes.iter().for_each(|w| state::apply(&mut state, &mut fold, w));
        }
        for edit in edits {
            edit.writes.iter().for_each(|w| state::apply(&mut state, &mut fold, w));
        }
        state
    }

    /// The state once all is done.
    pub fn last(&self) -> State {
        self.state(u64::MAX, |_| true)
    }

    /// Whether what a recovery showed of a crash at `event` is allowed; `raised` is a number that must count besides.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn check(&self, event: usize, raised: u64, shown: &Shown) -> Result<(), Violation> {
        let broken = |rule, what| Err(Violation::new(rule, what));
        if shown.leaks != 0 {
            return broken(Rule::N7, format!("{} objects are leaked", shown.leaks));
        }
        let (number, rule) = self.demanded(event);
        if shown.cut < number {
            return broken(rule, format!("the cut is {}, and {number} was told", shown.cut));
        }
        if shown.cut < raised {
            return broken(Rule::N6, format!("the cut fell from {raised} to {}", shown.cut));
        }
        let commits = self.up_to(shown.cut);
        if self.asked_by(commits) >= event {
            let what = format!("the cut is {}, which was not asked for yet", shown.cut);
            return broken(Rule::N3, what);
        }
        // What was under way may be in or not.
        let open: Vec<&Edit> = self
            .edits
            .iter()
            .filter(|edit| edit.during.begun < event && edit.during.done >= event)
            .filter(|edit| !edit.numbered || edit.number <= shown.cut)
            .collect();
        let variants = 1_u32 << open.len().min(8);
        let state_of = |variant: u32| {
            self.state(shown.cut, |edit| {
                let at = open.iter().position(|each| std::ptr::eq(*each, edit));
                at.map_or(edit.during.done < event, |at| variant >> at & 1 == 1)
            })
        };
        if (0..variants).any(|variant| state_of(variant) == shown.state) {
            return Ok(());
        }
        broken(Rule::N2, difference(shown, &state_of(0)))
    }

    /// The last `most` commits that had been asked for by `event`, in words, in the order of their numbers.
    pub fn tell(&self, event: usize, most: usize) -> Vec<String> {
        let asked: Vec<&Commit> =
            self.commits.iter().filter(|each| each.during.begun < event).collect();
        let last = asked.len().saturating_sub(most);
        let word = |commit: &&Commit| {
            let During { begun, done } = commit.during;
            let writes: Vec<String> = commit.writes.iter().map(Write::to_string).collect();
            format!("{} at events {begun} to {done}: {}", commit.number, writes.join(", "))
        };
        asked[last..].iter().map(word).collect()
    }

    /// Copies that may be there at `event`, whether they must be, and what they show.
    pub fn copies(&self, event: usize) -> impl Iterator<Item = (u32, bool, Fold)> {
        let begun = self.copies.iter().filter(move |(copy, _)| copy.during.begun < event);
        begun.map(move |(copy, shows)| (copy.id, copy.during.done < event, *shows))
    }
}

/// What a key was, and from which number on.
type Chain = Vec<(u64, Option<Vec<u8>>)>;
type Chains = BTreeMap<EntryKey, Chain>;

/// The folds of keyspaces from a number on.
struct Folds(Vec<(u64, [Fold; KEYSPACES])>);

fn tell(value: &[u8]) -> String {
    match Value::identify(value) {
        Some(value) => format!("v{}[{}]", value.id, value.len),
        None => format!("{} bytes {:02x?}", value.len(), &value[..value.len().min(8)]),
    }
}

/// In which entries what was shown differs, in some words.
pub fn difference(shown: &Shown, wanted: &State) -> String {
    let keys: std::collections::BTreeSet<_> = shown.state.keys().chain(wanted.keys()).collect();
    let differ = keys.into_iter().filter(|key| shown.state.get(*key) != wanted.get(*key));
    let tell = |value: Option<&Vec<u8>>| value.map_or("absent".to_owned(), |value| tell(value));
    let lines: Vec<String> = differ
        .map(|at| {
            let name = String::from_utf8_lossy(&at.key);
            let (is, should) = (tell(shown.state.get(at)), tell(wanted.get(at)));
            format!("{}/{name} is {is}, not {should}", at.keyspace)
        })
        .collect();
    let some = lines.iter().take(4).cloned().collect::<Vec<_>>().join("; ");
    format!("at cut {}: {} entries differ: {some}", shown.cut, lines.len())
}
