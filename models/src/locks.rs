//! Locks of pessimistic transactions, beside writers that have none.
//!
//! A front says whether keys are locked there, in the word that writers compare anyway. The locks are in a table with a mutex:
//!
//! - Who is given a lock lets the front say so before the mutex is free again, and notes what the front gave last. Before it
//!   reads, it waits until that is visible.
//! - A writer that finds the front silent takes its number. Else it takes it under the mutex, where its key is not locked.
//! - A writer that finds no key locked lets the front be silent again, under the mutex.
//!
//! The promise: what a transaction reads of its key is what the commit before its own wrote there.

use crate::walk::{Step, World};

const PROCESSES: usize = 4;
/// The front of both keys until they are split; then that of the first, and that of the second.
const FRONTS: usize = 2;
const KEYS: usize = 2;

/// What runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockProcess {
    /// Locks a key, reads it and writes it.
    Locks {
        /// The key, 0 or 1.
        key: usize,
    },
    /// Writes a key without a lock.
    Put {
        /// The key, 0 or 1.
        key: usize,
    },
    /// The subrange is cut between the keys.
    Split,
}

/// A rule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockBug {
    /// A writer does not ask whether the front says that keys are locked.
    PassesLocks,
    /// It asks for locks, and takes its number when the mutex is free again.
    AskedTooEarly,
    /// Who is given a lock does not wait until what was given before is visible.
    LooksEarly,
    /// It notes what was given last before the front says that a key is locked.
    NotedTooEarly,
    /// The fronts of a split do not know of locks.
    SplitForgets,
    /// A writer lets the front be silent although another key is locked.
    SilentTooSoon,
}

impl LockBug {
    /// All of them.
    pub const ALL: [LockBug; 6] = [
        LockBug::PassesLocks,
        LockBug::AskedTooEarly,
        LockBug::LooksEarly,
        LockBug::NotedTooEarly,
        LockBug::SplitForgets,
        LockBug::SilentTooSoon,
    ];
}

/// Some processes, and perhaps a bug.
#[derive(Clone, Debug)]
pub struct Locks {
    /// At most four.
    pub processes: Vec<LockProcess>,
    /// What is left out.
    pub bug: Option<LockBug>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum LockStep {
    #[default]
    Begin,
    /// It has the lock; the front may not say so yet.
    Granted,
    /// The front says so, and it has noted what that gave last.
    Said,
    /// It has read its key.
    Read,
    /// The front said that keys are locked: it goes by the table.
    Among,
    /// It has asked the table, and has no number (a bug).
    Asked,
    Numbered,
    /// What it wrote is written; it may not be visible.
    Done,
    End,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct LockMoment {
    at: LockStep,
    noted: u8,
    /// Number of the version that it has read.
    seen: u8,
    number: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct LockCommit {
    key: u8,
    is_done: bool,
}

/// All that there is at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LockState {
    moments: [LockMoment; PROCESSES],
    /// By number, from 1 on.
    commits: Vec<LockCommit>,
    visible: u8,
    newest: [u8; FRONTS],
    /// Whether the front says that keys are locked.
    says: [bool; FRONTS],
    /// Who has the lock of a key, from 1 on; 0: it is free.
    locked: [u8; KEYS],
    /// Who has the mutex of the table between its steps, from 1 on.
    mutex: u8,
    is_split: bool,
}

type LockDone = (&'static str, Result<LockState, &'static str>);

impl LockState {
    fn front(&self, key: usize) -> usize {
        if self.is_split { key } else { 0 }
    }

    /// Number of the newest version of `key` up to `upto`.
    fn version(&self, key: usize, upto: u8) -> u8 {
        let all = self.commits.iter().zip(1..).take(upto.into());
        all.filter(|(commit, _)| usize::from(commit.key) == key)
            .map(|(_, no)| no)
            .last()
            .unwrap_or(0)
    }

    fn take(&mut self, whose: usize, key: usize) {
        self.commits.push(LockCommit { key: key as u8, is_done: false });
        let number = self.commits.len() as u8;
        let front = self.front(key);
        self.newest[front] = number;
        self.moments[whose] = LockMoment { at: LockStep::Numbered, number, ..self.moments[whose] };
    }

    fn publish(&mut self, whose: usize) {
        self.commits[self.moments[whose].number as usize - 1].is_done = true;
        while self.commits.get(self.visible as usize).is_some_and(|commit| commit.is_done) {
            self.visible += 1;
        }
        self.moments[whose].at = LockStep::Done;
    }
}

impl Locks {
    fn is(&self, bug: LockBug) -> bool {
        self.bug == Some(bug)
    }

    fn locker(&self, state: &LockState, whose: usize, key: usize) -> Option<LockDone> {
        let moment = state.moments[whose];
        let (me, mut next) = (whose as u8 + 1, state.clone());
        let name = match moment.at {
            LockStep::Begin if state.mutex == 0 && state.locked[key] == 0 => {
                next.locked[key] = me;
                next.mutex = me;
                let noted = state.newest[state.front(key)];
                next.moments[whose] = LockMoment { at: LockStep::Granted, noted, ..moment };
                "is given the lock"
            }
            LockStep::Granted => {
                let front = state.front(key);
                next.says[front] = true;
                next.moments[whose].at = LockStep::Said;
                if !self.is(LockBug::NotedTooEarly) {
                    next.moments[whose].noted = state.newest[front];
                }
                next.mutex = 0;
                "lets the front say so"
            }
            LockStep::Said if state.visible >= moment.noted || self.is(LockBug::LooksEarly) => {
                let seen = state.version(key, state.visible);
                next.moments[whose] = LockMoment { at: LockStep::Read, seen, ..moment };
                "reads"
            }
            LockStep::Read => {
                if state.version(key, state.commits.len() as u8) != moment.seen {
                    return Some(("takes its number", Err("an update is lost")));
                }
                next.take(whose, key);
                "takes its number"
            }
            LockStep::Numbered => {
                next.publish(whose);
                "is done"
            }
            LockStep::Done if state.visible >= moment.number && state.mutex == 0 => {
                next.locked[key] = 0;
                next.moments[whose].at = LockStep::End;
                "gives the lock back"
            }
            _ => return None,
        };
        Some((name, Ok(next)))
    }

    fn writer(&self, state: &LockState, whose: usize, key: usize) -> Option<LockDone> {
        let moment = state.moments[whose];
        let front = state.front(key);
        let mut next = state.clone();
        let name = match moment.at {
            LockStep::Begin if state.says[front] && !self.is(LockBug::PassesLocks) => {
                next.moments[whose].at = LockStep::Among;
                "finds that keys are locked"
            }
            LockStep::Begin => {
                next.take(whose, key);
                "takes its number"
            }
            LockStep::Among if state.mutex == 0 && state.locked[key] == 0 => {
                let mut of_front = (0..KEYS).filter(|key| state.front(*key) == front);
                let is_silent = of_front.all(|key| state.locked[key] == 0);
                if is_silent || self.is(LockBug::SilentTooSoon) {
                    next.says[front] = false;
                }
                if self.is(LockBug::AskedTooEarly) {
                    next.moments[whose].at = LockStep::Asked;
                } else {
                    next.take(whose, key);
                }
                "finds its key free"
            }
            LockStep::Asked => {
                next.take(whose, key);
                "takes its number"
            }
            LockStep::Numbered => {
                next.publish(whose);
                next.moments[whose].at = LockStep::End;
                "is done"
            }
            _ => return None,
        };
        Some((name, Ok(next)))
    }

    fn split(&self, state: &LockState, whose: usize) -> Option<LockDone> {
        if state.moments[whose].at != LockStep::Begin {
            return None;
        }
        let mut next = state.clone();
        next.moments[whose].at = LockStep::End;
        next.is_split = true;
        next.newest = [state.newest[0]; FRONTS];
        next.says = [state.says[0] && !self.is(LockBug::SplitForgets); FRONTS];
        Some(("cuts", Ok(next)))
    }
}

impl World for Locks {
    type State = LockState;

    fn begin(&self) -> LockState {
        assert!(self.processes.len() <= PROCESSES);
        LockState::default()
    }

    fn steps(&self, state: &LockState) -> Vec<Step<LockState>> {
        let step = |(whose, process): (usize, &LockProcess)| {
            let done = match *process {
                LockProcess::Locks { key } => self.locker(state, whose, key),
                LockProcess::Put { key } => self.writer(state, whose, key),
                LockProcess::Split => self.split(state, whose),
            };
            done.map(|(name, to)| Step { name: format!("{whose} {name}"), to })
        };
        self.processes.iter().enumerate().filter_map(step).collect()
    }

    fn has_ended(&self, state: &LockState) -> bool {
        state.moments[..self.processes.len()].iter().all(|moment| moment.at == LockStep::End)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::walk::walk;

    /// What runs beside each other.
    fn worlds(bug: Option<LockBug>) -> Vec<Locks> {
        let lock = |key| LockProcess::Locks { key };
        let put = |key| LockProcess::Put { key };
        let all = [
            vec![lock(0), lock(0), put(0), put(0)],
            vec![lock(0), lock(0), lock(0), put(0)],
            vec![lock(0), lock(1), put(0), put(1)],
            vec![lock(0), put(0), put(1), LockProcess::Split],
            vec![lock(0), lock(1), put(0), LockProcess::Split],
            vec![lock(0), put(0), put(0), put(1)],
        ];
        all.into_iter().map(|processes| Locks { processes, bug }).collect()
    }

    #[test]
    fn no_update_is_lost_in_any_order() {
        for world in worlds(None) {
            let walked = walk(&world);
            assert!(walked.broken.is_none(), "{world:?}: {:?}", walked.broken);
            assert!(walked.ends > 0 && walked.states > 100, "{world:?}: {walked:?}");
        }
    }

    #[test]
    fn each_rule_is_needed() {
        for bug in LockBug::ALL {
            let is_broken = |world: &Locks| walk(world).broken.is_some();
            assert!(worlds(Some(bug)).iter().any(is_broken), "{bug:?} breaks nothing");
        }
    }
}
