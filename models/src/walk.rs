//! Walks through all states that a world can reach.

use std::collections::HashSet;
use std::hash::Hash;

/// Processes that move one at a time.
pub trait World {
    /// All that there is at a moment.
    type State: Clone + Eq + Hash;

    /// Where it begins.
    fn begin(&self) -> Self::State;

    /// The states that one step leads to, each with what was done. `Err` says what a step broke.
    fn steps(&self, state: &Self::State) -> Vec<Step<Self::State>>;

    /// Whether all processes have come to their ends.
    fn has_ended(&self, state: &Self::State) -> bool;
}

/// A step of a process.
pub struct Step<S> {
    /// What it does, and which process.
    pub name: String,
    /// The state after it, or what it broke.
    pub to: Result<S, &'static str>,
}

/// What a walk has found.
#[derive(Debug, Default)]
pub struct Walked {
    /// States.
    pub states: usize,
    /// Those in which all processes have ended.
    pub ends: usize,
    /// What was broken, and the steps that led there.
    pub broken: Option<Broken>,
}

/// A promise that does not hold.
#[derive(Debug)]
pub struct Broken {
    /// Which.
    pub what: &'static str,
    /// What was done, from the begin on.
    pub steps: Vec<String>,
}

/// A state on the way, and how it was reached.
struct Reached<S> {
    state: S,
    from: usize,
    by: String,
}

/// Walks through all states, until something breaks. A state without a step in which some process has not ended is broken, too.
pub fn walk<W: World>(world: &W) -> Walked {
    let begin = world.begin();
    let mut seen = HashSet::from([begin.clone()]);
    let mut reached = vec![Reached { state: begin, from: 0, by: String::new() }];
    let (mut at, mut ends) = (0, 0);
    while at < reached.len() {
        let steps = world.steps(&reached[at].state);
        let has_ended = world.has_ended(&reached[at].state);
        ends += usize::from(has_ended);
        if steps.is_empty() && !has_ended {
            let broken = Some(broken(&reached, at, "all processes wait", None));
            return Walked { states: reached.len(), ends, broken };
        }
        for Step { name, to } in steps {
            match to {
                Err(what) => {
                    let broken = Some(broken(&reached, at, what, Some(name)));
                    return Walked { states: reached.len(), ends, broken };
                }
                Ok(state) if seen.insert(state.clone()) => {
                    reached.push(Reached { state, from: at, by: name });
                }
                Ok(_) => {}
            }
        }
        at += 1;
    }
    Walked { states: reached.len(), ends, broken: None }
}

fn broken<S>(
    reached: &[Reached<S>],
    mut at: usize,
    what: &'static str,
    last: Option<String>,
) -> Broken {
    let mut steps: Vec<String> = last.into_iter().collect();
    while at != 0 {
        steps.push(reached[at].by.clone());
        at = reached[at].from;
    }
    steps.reverse();
    Broken { what, steps }
}
