//! A short cycle of each kind in each part of the graph that has some.

use std::collections::VecDeque;

use super::components::{self, AntiDependencies, Components, Part, State, node};
use super::graph::{Dependencies, Dependency, Edge, Graph};
use super::report::Findings;
use super::{Kind, Level};

use AntiDependencies::{Any, Apart};
use Dependency::{Number, PredicateRw, RealTime, Rw, Wr, Ww};

/// Edges of a component from which a cycle is tried, at least; the shortest cycle counts. Each try may walk the whole component.
const TRIES_MIN: usize = 8;
/// Tries times edges of a component, if that comes to more tries: in small ones all are tried.
const TRIED_EDGES: usize = 1 << 18;

/// A look for cycles of some edges.
struct Search {
    /// The lowest level that forbids what it finds.
    from: Level,
    takes: Dependencies,
    anti: AntiDependencies,
    /// A cycle has one of these. Clock and numbers alone make none.
    through: Dependencies,
    asks: Asks,
}

/// Which components a search looks at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asks {
    /// All.
    All,
    /// Those without a transaction of an anomaly that an earlier search found: what clock and numbers say adds nothing to
    /// that. A cycle in any other has some of them in it, or it would have been found.
    Unsuspected,
}

/// From the plainest cycles to those that take most to explain.
const SEARCHES: [Search; 7] = [
    Search {
        from: Level::ReadCommitted,
        takes: Dependencies::of(&[Ww]),
        anti: Any,
        through: Dependencies::of(&[Ww]),
        asks: Asks::All,
    },
    Search {
        from: Level::ReadCommitted,
        takes: Dependencies::of(&[Ww, Wr]),
        anti: Any,
        through: Dependencies::of(&[Wr]),
        asks: Asks::All,
    },
    Search {
        from: Level::ReadCommitted,
        takes: Dependencies::of(&[Ww, Wr, Number]),
        anti: Any,
        through: Dependencies::of(&[Ww, Wr]),
        asks: Asks::Unsuspected,
    },
    Search {
        from: Level::Snapshot,
        takes: Dependencies::of(&[Ww, Wr, Rw, PredicateRw]),
        anti: Apart,
        through: Dependencies::of(&[Rw, PredicateRw]),
        asks: Asks::All,
    },
    Search {
        from: Level::Snapshot,
        takes: Dependencies::of(&[Ww, Wr, Rw, PredicateRw, RealTime]),
        anti: Apart,
        through: Dependencies::of(&[Ww, Wr, Rw, PredicateRw]),
        asks: Asks::Unsuspected,
    },
    Search {
        from: Level::Serializable,
        takes: Dependencies::of(&[Ww, Wr, Rw, PredicateRw]),
        anti: Any,
        through: Dependencies::of(&[Rw, PredicateRw]),
        asks: Asks::All,
    },
    Search {
        from: Level::Serializable,
        takes: Dependencies::of(&[Ww, Wr, Rw, PredicateRw, RealTime, Number]),
        anti: Any,
        through: Dependencies::of(&[Ww, Wr, Rw, PredicateRw]),
        asks: Asks::Unsuspected,
    },
];

/// Adds the cycles that `level` forbids to what was found.
pub(super) fn find(graph: &Graph, level: Level, findings: &mut Findings<'_>) {
    // Most histories end here, after one pass.
    if components::is_acyclic(graph) {
        return;
    }
    let mut suspected = vec![false; graph.nodes() as usize];
    for search in SEARCHES.iter().filter(|search| search.from <= level) {
        let part = Part { graph, takes: search.takes, anti: search.anti };
        let components = Components::new(&part);
        let mut walker = Walker::new(&part, &components);
        for (at, states) in components.members.iter().enumerate() {
            let is_suspect = |state: &State| suspected[node(*state) as usize];
            if search.asks == Asks::Unsuspected && states.iter().any(is_suspect) {
                continue;
            }
            let Some(cycle) = walker.shortest_cycle(at, states, search) else { continue };
            let transactions: Vec<u32> = cycle.iter().map(|edge| edge.from).collect();
            transactions.iter().for_each(|at| suspected[*at as usize] = true);
            findings.add(kind(&cycle), &transactions, || {
                let edges: Vec<String> = cycle.iter().map(|edge| format!("  {edge}")).collect();
                edges.join("\n")
            });
        }
    }
}

/// The edges of a cycle with moments of the clock left out: what leads through some is one edge.
fn between_transactions(graph: &Graph, cycle: &[u32]) -> Vec<Edge> {
    let mut edges: Vec<Edge> = cycle.iter().map(|edge| *graph.edge(*edge)).collect();
    let first = edges.iter().position(|edge| graph.is_transaction(edge.from)).unwrap_or(0);
    edges.rotate_left(first);
    let mut joined: Vec<Edge> = Vec::new();
    for edge in edges {
        match joined.last_mut() {
            Some(before) if !graph.is_transaction(edge.from) => before.to = edge.to,
            _ => joined.push(edge),
        }
    }
    joined
}

/// What a cycle is called.
fn kind(cycle: &[Edge]) -> Kind {
    let has = |dependency| cycle.iter().any(|edge| edge.dependency == dependency);
    let anti = cycle.iter().filter(|edge| edge.dependency.is_anti()).count();
    if has(Number) {
        Kind::NumberOrder
    } else if has(RealTime) {
        if is_apart(cycle) { Kind::StaleSnapshot } else { Kind::RealTime }
    } else if anti == 0 {
        if has(Wr) { Kind::G1c } else { Kind::G0 }
    } else if is_apart(cycle) {
        let of_one_key = cycle.iter().all(|edge| edge.key == cycle[0].key);
        match anti {
            1 if of_one_key && !has(Wr) && !has(PredicateRw) => Kind::LostUpdate,
            1 => Kind::GSingle,
            _ => Kind::GNonadjacent,
        }
    } else if has(PredicateRw) {
        Kind::Phantom
    } else {
        Kind::G2Item
    }
}

/// Whether no two anti-dependencies follow each other.
fn is_apart(cycle: &[Edge]) -> bool {
    let next = cycle.iter().cycle().skip(1);
    !cycle.iter().zip(next).any(|(a, b)| a.dependency.is_anti() && b.dependency.is_anti())
}

/// How a state was reached.
#[derive(Clone, Copy, Default)]
struct Reached {
    /// In which walk; what is of another one does not count.
    walk: u32,
    /// Transactions on the way.
    len: u32,
    before: State,
    edge: u32,
    /// Whether no shorter way is to come.
    is_final: bool,
}

/// Walks within components.
struct Walker<'a> {
    part: &'a Part<'a>,
    components: &'a Components,
    reached: Vec<Reached>,
    walk: u32,
}

impl<'a> Walker<'a> {
    fn new(part: &'a Part<'a>, components: &'a Components) -> Walker<'a> {
        let states = if components.members.is_empty() { 0 } else { part.states() };
        Walker { part, components, reached: vec![Reached::default(); states], walk: 0 }
    }

    /// The shortest cycle found in a component that has an edge as the search wants it. Where anti-dependencies may be in a
    /// row the cycle has some that are: any other was found before.
    fn shortest_cycle(
        &mut self,
        component: usize,
        states: &[State],
        search: &Search,
    ) -> Option<Vec<Edge>> {
        let graph = self.part.graph;
        let mut through: Vec<(State, u32, State)> = Vec::new();
        let mut inside = 0;
        for &state in states {
            for edge in graph.edges_of(node(state)) {
                let Some(next) = self.part.step(state, edge) else { continue };
                let wanted = search.through.contain(graph.edge(edge).dependency);
                if self.is_in(component, next) {
                    inside += 1;
                    through.extend(wanted.then_some((state, edge, next)));
                }
            }
        }
        let tries = through.len().min(TRIES_MIN.max(TRIED_EDGES / inside.max(1)));
        let spread = (0..tries).map(|at| through[at * through.len() / tries]);
        let cycles = spread.filter_map(|(state, edge, next)| {
            let mut cycle = vec![edge];
            cycle.extend(self.path(component, next, state)?);
            Some(between_transactions(graph, &cycle))
        });
        let is_new = |cycle: &Vec<Edge>| {
            let kind = kind(cycle);
            kind.forbidden_from() == search.from || kind == Kind::NumberOrder
        };
        cycles.filter(is_new).min_by_key(Vec::len)
    }

    fn is_in(&self, component: usize, state: State) -> bool {
        self.components.of(state) == Some(component)
    }

    /// The edges of a way within a component that has the fewest transactions.
    fn path(&mut self, component: usize, from: State, to: State) -> Option<Vec<u32>> {
        self.walk += 1;
        let walk = self.walk;
        self.reached[from as usize] = Reached { walk, ..Reached::default() };
        let mut next_in_turn = VecDeque::from([from]);
        while let Some(state) = next_in_turn.pop_front() {
            if state == to {
                return Some(self.edges_back(from, to));
            }
            let here = &mut self.reached[state as usize];
            if std::mem::replace(&mut here.is_final, true) {
                continue;
            }
            let len = here.len;
            for edge in self.part.graph.edges_of(node(state)) {
                let Some(next) = self.part.step(state, edge) else { continue };
                if !self.is_in(component, next) {
                    continue;
                }
                // Moments cost nothing, so they go first.
                let is_moment = !self.part.graph.is_transaction(node(next));
                let len = len + u32::from(!is_moment);
                let there = &mut self.reached[next as usize];
                if there.walk == walk && (there.is_final || there.len <= len) {
                    continue;
                }
                *there = Reached { walk, len, before: state, edge, is_final: false };
                if is_moment {
                    next_in_turn.push_front(next);
                } else {
                    next_in_turn.push_back(next);
                }
            }
        }
        None
    }

    fn edges_back(&self, from: State, to: State) -> Vec<u32> {
        let mut edges = Vec::new();
        let mut state = to;
        while state != from {
            edges.push(self.reached[state as usize].edge);
            state = self.reached[state as usize].before;
        }
        edges.reverse();
        edges
    }
}
