//! Runs operations step by step, interleaved as a schedule says, and writes down the history.

use std::collections::VecDeque;

use crate::check::{Rule, Violation};
use crate::history::History;
use crate::notes::During;
use crate::op::Op;
use crate::pm::SimPm;
use crate::system::{Progress, System};

/// Which thread takes the next step: an index, modulo the number of threads that can. Past its end
/// the threads take long turns.
pub type Turns = [u8];

/// Steps per operation, on average, after which a run counts as one that gets nowhere.
const STEPS_PER_OP: usize = 10_000;

/// Steps of a long turn: enough for some operations, and no thread waits for ever.
const TURN: usize = 64;

struct Thread<'s, S: System + 's> {
    todo: VecDeque<usize>,
    doing: Option<Doing<'s, S>>,
    blocked: bool,
}

struct Doing<'s, S: System + 's> {
    op: usize,
    task: S::Task<'s>,
    /// The commit or read in the history.
    entry: usize,
    reserved: bool,
}

/// Runs `ops`, none of them a reopen, to completion. Returns how many schedule entries were used.
pub(crate) fn run_ops<S: System>(
    system: &S,
    store: &S::Store,
    pm: &SimPm,
    ops: &[Op],
    schedule: &Turns,
    history: &mut History,
) -> Result<usize, Violation> {
    let count = ops.iter().filter_map(Op::thread).max().map_or(0, |t| usize::from(t) + 1);
    let mut threads: Vec<Thread<'_, S>> =
        (0..count).map(|_| Thread { todo: VecDeque::new(), doing: None, blocked: false }).collect();
    for (i, op) in ops.iter().enumerate() {
        threads[usize::from(op.thread().expect("reopens are handled above"))].todo.push_back(i);
    }
    let mut used = 0;
    loop {
        let able: Vec<usize> = (0..count).filter(|&t| threads[t].able()).collect();
        if able.is_empty() {
            if threads.iter().all(|t| t.doing.is_none()) {
                return Ok(used);
            }
            return Err(Violation::new(Rule::N8, "every thread waits for another".into()));
        }
        if used > STEPS_PER_OP * ops.len() {
            return Err(Violation::new(Rule::N8, "threads step on and get nowhere".into()));
        }
        let pick = schedule.get(used).map_or(used / TURN, |&s| s.into()) % able.len();
        used += 1;
        let t = able[pick];
        pm.set_thread(t as u16);
        if threads[t].step(system, store, pm, ops, history)? {
            // The thread that got further may have been what others wait for.
            threads.iter_mut().for_each(|t| t.blocked = false);
        } else {
            threads[t].blocked = true;
        }
    }
}

impl<'s, S: System> Thread<'s, S> {
    fn able(&self) -> bool {
        !self.blocked && (self.doing.is_some() || !self.todo.is_empty())
    }

    /// Takes one step; false if the thread is blocked.
    fn step(
        &mut self,
        system: &'s S,
        store: &'s S::Store,
        pm: &SimPm,
        ops: &[Op],
        history: &mut History,
    ) -> Result<bool, Violation> {
        // What has no step under way begins its next operation.
        if self.doing.is_none() {
            let op = self.todo.pop_front().expect("asked only when able");
            let entry = history.invoke(&ops[op], pm.mark());
            let task = system.begin(store, &ops[op]).map_err(|e| broken(&ops[op], &e))?;
            self.doing = Some(Doing { op, task, entry, reserved: false });
        }
        let Some(doing) = &mut self.doing else { unreachable!("set above") };
        let op = &ops[doing.op];
        let begun = pm.events();
        let progress = system.step(store, &mut doing.task).map_err(|e| broken(op, &e))?;
        let commit = matches!(op, Op::Commit { .. });
        // Steps that end no operation return; the others leave the thread to its next one.
        match progress {
            Progress::More => return Ok(true),
            Progress::Blocked => return Ok(false),
            Progress::Fixed => {
                history.fixed(doing.entry, pm.mark());
                return Ok(true);
            }
            Progress::Reserved(number) => {
                doing.reserved = true;
                history.reserve(doing.entry, number, pm.mark())?;
                return Ok(true);
            }
            Progress::Made(shows) => {
                history.made(doing.entry, shows, pm.mark());
                return Ok(true);
            }
            Progress::At(number) => {
                let during = During { begun, done: pm.mark() };
                history.at(op, doing.entry, number, during)?;
            }
            Progress::Found(value) => history.found(doing.entry, value, pm.mark()),
            Progress::Done if commit => history.ack(doing.entry, pm.mark())?,
            Progress::Done => {}
            Progress::GaveUp => history.give_up(doing.entry, pm.mark()),
            Progress::Refused if doing.reserved => {
                return Err(Violation::new(Rule::N8, format!("refused after its reserve: {op}")));
            }
            Progress::Refused if commit => history.refuse(),
            Progress::Refused => {}
        }
        self.doing = None;
        Ok(true)
    }
}

fn broken(op: &Op, error: &base::Error) -> Violation {
    Violation::new(Rule::N8, format!("{op}: {error}"))
}
