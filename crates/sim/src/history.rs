//! What was asked of a store, in which order it counts, and when the callers were told.

use std::collections::BTreeMap;

use crate::check::{Accepted, Expect, Fold, Rule, Violation};
use crate::hash;
use crate::op::{Op, Write};

/// Visible entries: by keyspace and key.
pub type State = BTreeMap<(u8, Vec<u8>), Vec<u8>>;

#[derive(Clone, Debug)]
struct Commit {
    writes: Vec<Write>,
    abandon: bool,
    number: u64,
    /// Event indices.
    reserved: usize,
    acked: usize,
    gave_up: usize,
}

/// Later than every event.
const NEVER: usize = usize::MAX;

#[derive(Clone, Debug)]
struct Read {
    keyspace: u8,
    key: Vec<u8>,
    invoked: usize,
    /// What was reserved later cannot be what it returned.
    fixed: usize,
    found: usize,
    value: Option<Vec<u8>>,
}

#[derive(Clone, Copy, Debug)]
struct Demand {
    event: usize,
    required: usize,
    because: Rule,
}

/// The history of one open store, from the state in which it was opened.
#[derive(Clone, Debug, Default)]
pub struct History {
    base: State,
    base_cut: u64,
    /// The event at which the store was open.
    born: usize,
    commits: Vec<Commit>,
    reads: Vec<Read>,
    /// Sorted by number: which commits count for a cut. Filled by [`finish`](Self::finish), as is what
    /// follows.
    numbers: Vec<u64>,
    folds: Vec<Vec<Fold>>,
    demands: Vec<Demand>,
    /// Commits that were abandoned and never acknowledged, by index.
    abandoned: Vec<usize>,
}

fn fold_of(state: &State) -> Fold {
    let sum = state.iter().fold(0u64, |s, ((ks, k), v)| s.wrapping_add(hash::entry(*ks, k, v)));
    Fold { sum, count: state.len() as u64 }
}

fn remove(state: &mut State, fold: &mut Fold, key: &(u8, Vec<u8>)) {
    if let Some(old) = state.remove(key) {
        fold.sum = fold.sum.wrapping_sub(hash::entry(key.0, &key.1, &old));
        fold.count -= 1;
    }
}

fn apply(state: &mut State, fold: &mut Fold, write: &Write) {
    match write {
        Write::Put { keyspace, key, value } => {
            let at = (*keyspace, key.clone());
            remove(state, fold, &at);
            let bytes = value.bytes();
            fold.sum = fold.sum.wrapping_add(hash::entry(*keyspace, key, &bytes));
            fold.count += 1;
            state.insert(at, bytes);
        }
        Write::Delete { keyspace, key } => remove(state, fold, &(*keyspace, key.clone())),
        Write::DeleteRange { keyspace, from, to } => {
            let range = (*keyspace, from.clone())..(*keyspace, to.clone().max(from.clone()));
            let keys: Vec<_> = state.range(range).map(|(k, _)| k.clone()).collect();
            keys.iter().for_each(|key| remove(state, fold, key));
        }
    }
}

fn touches(write: &Write, in_keyspace: u8, at_key: &[u8]) -> bool {
    match write {
        Write::Put { keyspace, key, .. } | Write::Delete { keyspace, key } => {
            *keyspace == in_keyspace && key == at_key
        }
        Write::DeleteRange { keyspace, from, to } => {
            *keyspace == in_keyspace && (from.as_slice()..to.as_slice()).contains(&at_key)
        }
    }
}

impl History {
    /// The history of a store that opens at event `born` with `base`, everything up to `base_cut`.
    pub fn new(base: State, base_cut: u64, born: usize) -> Self {
        Self { base, base_cut, born, ..Self::default() }
    }

    /// The history of the store that a recovery opened at event `born` of its own log, after accepting
    /// `accepted` of this one and reporting `cut`. Everything else never was.
    pub fn branch(&self, accepted: Accepted, cut: u64, born: usize) -> Self {
        Self::new(self.state(accepted), cut, born)
    }

    /// The event at which the store was open.
    pub fn born(&self) -> usize {
        self.born
    }

    /// The cut that was reported when the store was opened.
    pub fn base_cut(&self) -> u64 {
        self.base_cut
    }

    /// Notes that an operation begins; returns its entry for the other notes.
    pub fn invoke(&mut self, op: &Op, event: usize) -> usize {
        match op {
            Op::Commit { writes, abandon, .. } => {
                self.commits.push(Commit {
                    writes: writes.clone(),
                    abandon: *abandon,
                    number: 0,
                    reserved: NEVER,
                    acked: NEVER,
                    gave_up: NEVER,
                });
                self.commits.len() - 1
            }
            Op::Read { keyspace, key, .. } => {
                self.reads.push(Read {
                    keyspace: *keyspace,
                    key: key.clone(),
                    invoked: event,
                    fixed: NEVER,
                    found: NEVER,
                    value: None,
                });
                self.reads.len() - 1
            }
            Op::Background { .. } | Op::Reopen => 0,
        }
    }

    /// Notes a commit's number.
    pub fn reserve(&mut self, entry: usize, number: u64, event: usize) -> Result<(), Violation> {
        if number <= self.base_cut || self.commits.iter().any(|c| c.number == number) {
            let what = format!("commit number {number} is given out again");
            return Err(Violation::new(Rule::N2, what));
        }
        (self.commits[entry].number, self.commits[entry].reserved) = (number, event);
        Ok(())
    }

    /// Notes an acknowledgement.
    pub fn ack(&mut self, entry: usize, event: usize) -> Result<(), Violation> {
        if self.commits[entry].reserved == NEVER {
            let what = "a commit is acknowledged that has no number".to_string();
            return Err(Violation::new(Rule::N2, what));
        }
        self.commits[entry].acked = event;
        Ok(())
    }

    /// Notes that a commit's failure was reported.
    pub fn give_up(&mut self, entry: usize, event: usize) {
        self.commits[entry].gave_up = event;
    }

    /// Notes that a read has settled which moment it shows.
    pub fn fixed(&mut self, entry: usize, event: usize) {
        self.reads[entry].fixed = event;
    }

    /// Notes what a read returned.
    pub fn found(&mut self, entry: usize, value: Option<Vec<u8>>, event: usize) {
        (self.reads[entry].found, self.reads[entry].value) = (event, value);
    }

    /// Puts the commits in order and works out what each moment demands. Fails if a read returned what
    /// no moment explains.
    pub fn finish(&mut self) -> Result<(), Violation> {
        self.commits.retain(|c| c.reserved != NEVER);
        self.commits.sort_by_key(|c| c.number);
        self.numbers = self.commits.iter().map(|c| c.number).collect();
        let failed = |c: &Commit| c.acked == NEVER && (c.abandon || c.gave_up != NEVER);
        self.abandoned = (0..self.commits.len()).filter(|&i| failed(&self.commits[i])).collect();
        assert!(self.abandoned.len() <= 7, "each abandoned commit doubles what is possible");
        self.folds = (0..self.variants()).map(|variant| self.folds_of(variant)).collect();
        self.demand()
    }

    fn folds_of(&self, variant: u8) -> Vec<Fold> {
        let mut state = self.base.clone();
        let mut fold = fold_of(&state);
        let mut folds = vec![fold];
        for i in 0..self.commits.len() {
            self.apply(i, variant, &mut state, &mut fold);
            folds.push(fold);
        }
        folds
    }

    fn apply(&self, i: usize, variant: u8, state: &mut State, fold: &mut Fold) {
        let bit = self.abandoned.iter().position(|&a| a == i);
        if bit.is_none_or(|bit| variant >> bit & 1 == 1) {
            self.commits[i].writes.iter().for_each(|w| apply(state, fold, w));
        }
    }

    fn demand(&mut self) -> Result<(), Violation> {
        enum Note {
            Ack(usize),
            Read(usize),
        }
        let acks = self.commits.iter().enumerate().map(|(i, c)| (c.acked, Note::Ack(i)));
        let reads = self.reads.iter().enumerate().map(|(i, r)| (r.found, Note::Read(i)));
        let mut notes: Vec<_> = acks.chain(reads).filter(|n| n.0 != NEVER).collect();
        notes.sort_by_key(|n| n.0);
        self.demands.clear();
        let mut now = 0;
        for (event, note) in notes {
            let (required, because) = match note {
                Note::Ack(i) => (i + 1, Rule::N1),
                Note::Read(i) => (self.explained_by(&self.reads[i])?, Rule::N5),
            };
            if required > now {
                now = required;
                self.demands.push(Demand { event, required, because });
            }
        }
        Ok(())
    }

    /// The fewest commits that explain a read, given what was demanded when it began.
    fn explained_by(&self, read: &Read) -> Result<usize, Violation> {
        let least = self.required_at(read.invoked).0;
        let mut state = self.base.clone();
        let mut fold = fold_of(&state);
        for k in 0..=self.commits.len() {
            if k > 0 {
                self.apply(k - 1, 0, &mut state, &mut fold);
            }
            let value = state.get(&(read.keyspace, read.key.clone()));
            if k >= least && value == read.value.as_ref() {
                return Ok(k);
            }
            if k < self.commits.len() && self.commits[k].reserved > read.found.min(read.fixed) {
                break;
            }
        }
        let key = String::from_utf8_lossy(&read.key);
        let value = read.value.as_deref().map(crate::op::Value::identify);
        let what =
            format!("a read of {}/{key} returned {value:?}, which it must not", read.keyspace);
        Err(Violation::new(Rule::N5, what))
    }

    fn required_at(&self, event: usize) -> (usize, Rule) {
        let past = self.demands.partition_point(|d| d.event < event);
        past.checked_sub(1)
            .map_or((0, Rule::N1), |i| (self.demands[i].required, self.demands[i].because))
    }

    /// What must hold at `event`: after the events before it, before it itself.
    pub fn expect(&self, event: usize) -> Expect<'_> {
        let (required, because) = self.required_at(event);
        Expect {
            history: self,
            at: event,
            required,
            allowed: self.reserved_by(event),
            given_up: self.given_up_by(event),
            because,
            created: event > self.born,
        }
    }

    /// Commits in flight at `event`: in the order of commits, their caller not told.
    pub fn in_flight(&self, event: usize) -> usize {
        let open = |c: &&Commit| c.reserved < event && c.acked >= event && c.gave_up >= event;
        self.commits.iter().filter(open).count()
    }

    /// Number of commits that count up to `cut`; none if the cut is below that of the open.
    pub(crate) fn commits_up_to(&self, cut: u64) -> Option<usize> {
        (cut >= self.base_cut).then(|| self.numbers.partition_point(|&n| n <= cut))
    }

    pub(crate) fn number(&self, commit: usize) -> u64 {
        self.numbers.get(commit).copied().unwrap_or(0)
    }

    fn reserved_by(&self, event: usize) -> usize {
        self.commits.iter().rposition(|c| c.reserved < event).map_or(0, |i| i + 1)
    }

    /// The abandoned commits, as bits, whose failure had been reported: they must be out.
    fn given_up_by(&self, event: usize) -> u8 {
        let gone = |i: &usize| self.commits[*i].gave_up < event;
        let bits = self.abandoned.iter().enumerate().filter(|(_, i)| gone(i));
        bits.fold(0, |set, (bit, _)| set | 1 << bit)
    }

    pub(crate) fn variants(&self) -> u8 {
        1 << self.abandoned.len()
    }

    pub(crate) fn fold(&self, variant: u8, commits: usize) -> Fold {
        self.folds[usize::from(variant)][commits]
    }

    /// The fold of everything, once no operation is under way.
    pub fn final_fold(&self) -> Fold {
        self.fold(0, self.commits.len())
    }

    /// The state after the accepted commits.
    pub fn state(&self, accepted: Accepted) -> State {
        let mut state = self.base.clone();
        let mut fold = fold_of(&state);
        (0..accepted.commits).for_each(|i| {
            self.apply(i, accepted.abandoned, &mut state, &mut fold);
        });
        state
    }

    /// Whether a commit invoked before `event`, or the base, wrote this very value.
    pub(crate) fn was_written(&self, event: usize, keyspace: u8, key: &[u8], value: &[u8]) -> bool {
        let is = |w: &Write| matches!(w, Write::Put { value: v, .. } if v.bytes() == value);
        self.base.get(&(keyspace, key.to_vec())).is_some_and(|v| v == value)
            || self
                .commits
                .iter()
                .filter(|c| c.reserved < event)
                .any(|c| c.writes.iter().any(|w| touches(w, keyspace, key) && is(w)))
    }

    /// Whether the newest change of a key among the first `commits` removes it.
    pub(crate) fn was_removed(&self, commits: usize, keyspace: u8, key: &[u8]) -> bool {
        let writes = self.commits[..commits].iter().rev().flat_map(|c| c.writes.iter().rev());
        writes
            .into_iter()
            .find(|w| touches(w, keyspace, key))
            .is_some_and(|w| !matches!(w, Write::Put { .. }))
    }
}
