//! The front certificate: how an optimistic transaction becomes a commit that is valid at its own number, beside writers that know
//! nothing of transactions.
//!
//! A *front* is where the writes of a subrange get their numbers. It remembers the newest that it gave. A transaction reads at its
//! snapshot. To commit it looks, in the step that gives numbers, at the fronts of all keys that it has to check:
//!
//! - Nothing newer than the snapshot was given there: it takes its number in the same step.
//! - Else it notes what was given last, waits until that is indexed, durable or not, and looks each key up. A version newer than the snapshot is a
//!   conflict. If there is none, it takes its number in a step that finds the fronts as it had noted them.
//! - If they have moved, it holds them, which keeps others from getting numbers there; then it waits and looks as before, and takes its number.
//!
//! The promise: between its snapshot and its own number no other commit has written what it checks. So commits are serial in the order
//! of their numbers.

use crate::walk::{Step, World};

/// Keys, a bit each.
pub type Keys = u8;

const PROCESSES: usize = 4;
/// The front of all keys until they are split; then that of the first key, and that of the others.
const FRONTS: usize = 3;

/// What a transaction is promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// No other commit wrote its written keys.
    Snapshot,
    /// None wrote what it read, either.
    Serializable,
}

/// What a writer outside transactions writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// Values.
    Values,
    /// Deletions, which a merge may forget.
    Deletions,
    /// Nothing in the end: it fails after it has its number.
    Void,
}

/// A process.
#[derive(Clone, Copy, Debug)]
pub enum Process {
    /// A transaction, which reads at its begin.
    Transaction {
        /// What it reads.
        reads: Keys,
        /// What it writes.
        writes: Keys,
        /// What it is promised.
        level: Level,
    },
    /// A writer that knows nothing of transactions.
    Put {
        /// Its keys.
        keys: Keys,
        /// What it writes there.
        written: Written,
    },
    /// Tables that get one number: its record is in no subrange of its keys.
    Ingest {
        /// Their keys.
        keys: Keys,
    },
    /// The memtable of a front is replaced.
    Switch,
    /// The only front is replaced by two.
    Split,
    /// A merge forgets deletions.
    Merge,
}

/// A rule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// It looks keys up before all that was given is indexed.
    LooksBeforeIndexed,
    /// It takes its number although fronts have moved.
    TakesWithoutLooking,
    /// A new memtable forgets what the front gave last.
    SwitchForgets,
    /// So do the two fronts of a split.
    SplitForgets,
    /// An ingest is noted at one front.
    IngestNotedOnce,
    /// A merge forgets deletions that are newer than a transaction's snapshot.
    MergeForgets,
    /// Fronts are held one after the other, in the order in which they are met.
    HeldOneByOne,
    /// Reads are not checked.
    ReadsUnchecked,
}

impl Bug {
    /// All of them.
    pub const ALL: [Bug; 8] = [
        Bug::LooksBeforeIndexed,
        Bug::TakesWithoutLooking,
        Bug::SwitchForgets,
        Bug::SplitForgets,
        Bug::IngestNotedOnce,
        Bug::MergeForgets,
        Bug::HeldOneByOne,
        Bug::ReadsUnchecked,
    ];
}

/// Some processes, and perhaps a bug.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// At most four.
    pub processes: Vec<Process>,
    /// Whether there are two fronts from the begin on.
    pub split: bool,
    /// What is left out.
    pub bug: Option<Bug>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum At {
    #[default]
    Begin,
    /// It has its snapshot, and asks for its number.
    Asks,
    /// Others had numbers there: it waits, and looks keys up.
    Looks,
    /// No key was newer.
    Looked,
    /// It holds some of its fronts, and wants the others.
    Holding,
    /// It holds them all, and looks once more.
    Holds,
    /// It has its number.
    Numbered,
    /// Look-ups find it; it waits for the device.
    Indexed,
    End,
    Aborted,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Moment {
    at: At,
    snapshot: u8,
    number: u8,
    /// What its fronts gave last when it noted that.
    noted: [u8; FRONTS],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Commit {
    whose: u8,
    is_indexed: bool,
    is_done: bool,
    /// A merge has forgotten it.
    is_forgotten: bool,
}

/// All that there is at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    moments: [Moment; PROCESSES],
    /// By number, from 1 on.
    commits: Vec<Commit>,
    visible: u8,
    newest: [u8; FRONTS],
    /// Who holds a front, from 1 on; 0: it is free.
    held: [u8; FRONTS],
    is_split: bool,
}

impl State {
    fn fronts(&self, keys: Keys) -> impl Iterator<Item = usize> + use<> {
        let met = if self.is_split {
            [false, keys & 1 != 0, keys & !1 != 0]
        } else {
            [keys != 0, false, false]
        };
        (0..FRONTS).filter(move |front| met[*front])
    }

    fn is_free(&self, keys: Keys, whose: usize) -> bool {
        let own = whose as u8 + 1;
        self.fronts(keys).all(|front| self.held[front] == 0 || self.held[front] == own)
    }

    /// Whether all commits up to this number are indexed.
    fn is_indexed(&self, number: u8) -> bool {
        self.commits[..number as usize].iter().all(|commit| commit.is_indexed)
    }

    fn free(&mut self, whose: usize) {
        let own = whose as u8 + 1;
        self.held.iter_mut().filter(|held| **held == own).for_each(|held| *held = 0);
    }
}

/// What a process does, and what comes of it.
type Done = (&'static str, Result<State, &'static str>);

impl Certificates {
    fn is(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// What a process writes, as others see it in the end.
    fn writes(&self, whose: u8) -> Keys {
        match self.processes[whose as usize] {
            Process::Transaction { writes, .. } => writes,
            Process::Put { written: Written::Void, .. } => 0,
            Process::Put { keys, .. } | Process::Ingest { keys } => keys,
            _ => 0,
        }
    }

    /// What a transaction has to check, by its promise.
    fn promised(&self, whose: usize) -> Keys {
        match self.processes[whose] {
            Process::Transaction { reads, writes, level: Level::Serializable } => reads | writes,
            Process::Transaction { writes, .. } => writes,
            _ => 0,
        }
    }

    /// What it does check.
    fn checked(&self, whose: usize) -> Keys {
        match self.processes[whose] {
            Process::Transaction { writes, .. } if self.is(Bug::ReadsUnchecked) => writes,
            _ => self.promised(whose),
        }
    }

    /// Whether some of these keys has a version above `snapshot`, among the commits up to `newest`, as a look-up finds it.
    fn finds_newer(&self, state: &State, keys: Keys, snapshot: u8, newest: u8) -> bool {
        let above = (1..).zip(&state.commits).skip(snapshot as usize);
        above
            .take_while(|(number, _)| *number <= newest)
            .filter(|(_, commit)| commit.is_indexed && !commit.is_forgotten)
            .any(|(_, commit)| self.writes(commit.whose) & keys != 0)
    }

    /// Takes the next number for a process that writes `keys`.
    fn take(&self, state: &State, whose: usize, keys: Keys) -> Result<State, &'static str> {
        let mut next = state.clone();
        let commit = Commit { whose: whose as u8, ..Commit::default() };
        next.commits.push(commit);
        let number = next.commits.len() as u8;
        let once = self.is(Bug::IngestNotedOnce);
        let is_ingest = matches!(self.processes[whose], Process::Ingest { .. });
        for front in state.fronts(keys).take(if is_ingest && once { 1 } else { FRONTS }) {
            next.newest[front] = number;
        }
        next.free(whose);
        next.moments[whose] = Moment { at: At::Numbered, number, ..state.moments[whose] };
        let snapshot = state.moments[whose].snapshot;
        let was_written = (1..).zip(&state.commits).any(|(earlier, commit): (u8, &Commit)| {
            earlier > snapshot && self.writes(commit.whose) & self.promised(whose) != 0
        });
        if was_written { Err("another wrote what it checks") } else { Ok(next) }
    }

    /// Gives up, after a look that found a newer version.
    fn abort(&self, state: &State, whose: usize) -> Result<State, &'static str> {
        let mut next = state.clone();
        next.free(whose);
        next.moments[whose].at = At::Aborted;
        let Moment { snapshot, .. } = state.moments[whose];
        let newest = state.commits.len() as u8;
        let is_right = self.finds_newer(state, self.promised(whose), snapshot, newest);
        if is_right { Ok(next) } else { Err("it gave up for nothing") }
    }

    /// Looks up what it checks, in what is visible and what was given up to `newest`: it gives up if some key is newer than its snapshot, and else does that.
    fn unless_newer(&self, state: &State, whose: usize, newest: u8, done: Done) -> Done {
        let (snapshot, upto) = (state.moments[whose].snapshot, newest.max(state.visible));
        if self.finds_newer(state, self.checked(whose), snapshot, upto) {
            ("finds a newer version", self.abort(state, whose))
        } else {
            done
        }
    }

    fn transaction(&self, state: &State, whose: usize) -> Option<Done> {
        let moment = state.moments[whose];
        let (checked, written) = (self.checked(whose), self.writes(whose as u8));
        let mut next = state.clone();
        let own = &mut next.moments[whose];
        match moment.at {
            At::Begin => {
                (own.at, own.snapshot) = (At::Asks, state.visible);
                Some(("begins", Ok(next)))
            }
            At::Asks => {
                if !state.is_free(checked, whose) {
                    return None;
                }
                if state.fronts(checked).all(|front| state.newest[front] <= moment.snapshot) {
                    return Some(("takes at once", self.take(state, whose, written)));
                }
                own.at = At::Looks;
                own.noted = state.newest;
                Some(("notes", Ok(next)))
            }
            At::Looks => {
                let newest = state.fronts(checked).map(|front| moment.noted[front]).max();
                // Of fronts that were split since it is what they gave later.
                let newest = newest.unwrap_or(0).max(moment.noted[0]);
                if !state.is_indexed(newest) && !self.is(Bug::LooksBeforeIndexed) {
                    return None;
                }
                own.at = At::Looked;
                Some(self.unless_newer(state, whose, newest, ("looks", Ok(next))))
            }
            At::Looked => {
                if self.is(Bug::TakesWithoutLooking) {
                    return Some(("takes unseen", self.take(state, whose, written)));
                }
                if !state.is_free(checked, whose) {
                    return None;
                }
                if state.fronts(checked).all(|front| state.newest[front] == moment.noted[front]) {
                    return Some(("takes", self.take(state, whose, written)));
                }
                if self.is(Bug::HeldOneByOne) {
                    own.at = At::Holding;
                    return Some(("goes to hold", Ok(next)));
                }
                (own.at, own.noted) = (At::Holds, state.newest);
                state.fronts(checked).for_each(|front| next.held[front] = whose as u8 + 1);
                Some(("holds", Ok(next)))
            }
            At::Holding => {
                // One after the other, and every second process the other way round.
                let mut fronts: Vec<usize> = state.fronts(checked).collect();
                if whose % 2 == 1 {
                    fronts.reverse();
                }
                match fronts.into_iter().find(|front| state.held[*front] != whose as u8 + 1) {
                    Some(front) if state.held[front] != 0 => None,
                    Some(front) => {
                        next.held[front] = whose as u8 + 1;
                        Some(("holds one", Ok(next)))
                    }
                    None => {
                        (own.at, own.noted) = (At::Holds, state.newest);
                        Some(("holds all", Ok(next)))
                    }
                }
            }
            At::Holds => {
                let newest =
                    state.fronts(checked).map(|front| state.newest[front]).max().unwrap_or(0);
                if !state.is_indexed(newest) {
                    return None;
                }
                let takes = ("takes what it holds", self.take(state, whose, written));
                Some(self.unless_newer(state, whose, newest, takes))
            }
            At::Numbered => Some(("indexes", Ok(index(next, whose)))),
            At::Indexed => Some(("publishes", Ok(publish(next, whose)))),
            At::End | At::Aborted => None,
        }
    }

    fn plain(&self, state: &State, whose: usize, keys: Keys) -> Option<Done> {
        match state.moments[whose].at {
            At::Begin if state.is_free(keys, whose) => {
                Some(("takes", self.take(state, whose, keys)))
            }
            At::Numbered => Some(("indexes", Ok(index(state.clone(), whose)))),
            At::Indexed => Some(("publishes", Ok(publish(state.clone(), whose)))),
            _ => None,
        }
    }

    /// A process that changes no key and has one step.
    fn once(&self, state: &State, whose: usize, change: impl FnOnce(&mut State)) -> Option<Done> {
        (state.moments[whose].at == At::Begin).then(|| {
            let mut next = state.clone();
            next.moments[whose].at = At::End;
            change(&mut next);
            ("works", Ok(next))
        })
    }

    fn merge(&self, state: &mut State) {
        let open = state
            .moments
            .iter()
            .filter(|moment| !matches!(moment.at, At::Begin | At::End | At::Aborted));
        let oldest = open.map(|moment| moment.snapshot).min().unwrap_or(u8::MAX);
        let until = state.visible.min(if self.is(Bug::MergeForgets) { u8::MAX } else { oldest });
        for commit in state.commits.iter_mut().take(until as usize) {
            let process = self.processes[commit.whose as usize];
            commit.is_forgotten |=
                matches!(process, Process::Put { written: Written::Deletions, .. });
        }
    }
}

/// Look-ups find the commit of a process.
fn index(mut state: State, whose: usize) -> State {
    let moment = &mut state.moments[whose];
    moment.at = At::Indexed;
    state.commits[moment.number as usize - 1].is_indexed = true;
    state
}

/// The commit of a process is done; what is done behind it without a gap is visible.
fn publish(mut state: State, whose: usize) -> State {
    let moment = &mut state.moments[whose];
    moment.at = At::End;
    state.commits[moment.number as usize - 1].is_done = true;
    while state.commits.get(state.visible as usize).is_some_and(|commit| commit.is_done) {
        state.visible += 1;
    }
    state
}

impl World for Certificates {
    type State = State;

    fn begin(&self) -> State {
        assert!(self.processes.len() <= PROCESSES);
        State { is_split: self.split, ..State::default() }
    }

    fn steps(&self, state: &State) -> Vec<Step<State>> {
        let step = |(whose, process): (usize, &Process)| {
            let done = match *process {
                Process::Transaction { .. } => self.transaction(state, whose),
                Process::Put { keys, .. } | Process::Ingest { keys } => {
                    self.plain(state, whose, keys)
                }
                Process::Switch => self.once(state, whose, |next| {
                    if self.is(Bug::SwitchForgets) {
                        next.newest = [0; FRONTS];
                    }
                }),
                // Who holds a front is asked to wait with it.
                Process::Split if state.held[0] != 0 => None,
                Process::Split => self.once(state, whose, |next| {
                    next.is_split = true;
                    if !self.is(Bug::SplitForgets) {
                        next.newest = [next.newest[0]; FRONTS];
                    }
                }),
                Process::Merge => self.once(state, whose, |next| self.merge(next)),
            };
            done.map(|(name, to)| Step { name: format!("{whose} {name}"), to })
        };
        self.processes.iter().enumerate().filter_map(step).collect()
    }

    fn has_ended(&self, state: &State) -> bool {
        let moments = &state.moments[..self.processes.len()];
        moments.iter().all(|moment| matches!(moment.at, At::End | At::Aborted))
    }
}

#[cfg(test)]
mod tests;
