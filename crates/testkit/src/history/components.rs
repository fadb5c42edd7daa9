//! Strongly connected components: within one each node is reached from each, so all cycles are in these.
//!
//! Which cycles count is for a [`Part`] of the graph to say. It takes some edges, and may ask that no two anti-dependencies
//! follow each other: snapshots explain a cycle only if two do (Fekete et al., Making Snapshot Isolation Serializable, 2005).
//! For that a walk remembers whether its last edge was one. What is walked are therefore states: a node, and that.

use super::graph::{Dependencies, Dependency, Graph};

/// A node and what the last edge was: the node's double, and 1 more behind an anti-dependency that matters.
pub(super) type State = u32;

/// Which anti-dependencies a walk may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AntiDependencies {
    /// All.
    Any,
    /// None behind another one.
    Apart,
}

/// The part of a graph where cycles are looked for.
pub(super) struct Part<'g> {
    pub graph: &'g Graph,
    pub takes: Dependencies,
    pub anti: AntiDependencies,
}

impl Part<'_> {
    pub fn states(&self) -> usize {
        2 * self.graph.nodes() as usize
    }

    /// The state that an edge leads to, if a walk in `state` may take it.
    pub fn step(&self, state: State, edge: u32) -> Option<State> {
        let edge = self.graph.edge(edge);
        let matters = self.anti == AntiDependencies::Apart && edge.dependency.is_anti();
        let allowed = self.takes.contain(edge.dependency) && !(matters && state & 1 == 1);
        allowed.then_some(2 * edge.to + State::from(matters))
    }
}

pub(super) fn node(state: State) -> u32 {
    state / 2
}

/// The components of a part that have cycles in them.
pub(super) struct Components {
    /// The states of each.
    pub members: Vec<Vec<State>>,
    /// Where in `members` each state is; [`ALONE`] where it is on no cycle.
    of: Vec<u32>,
}

const UNKNOWN: u32 = u32::MAX;
const ALONE: u32 = u32::MAX - 1;

impl Components {
    /// Finds them as Tarjan does, with a stack of its own: histories are longer than the thread's is deep.
    pub fn new(part: &Part<'_>) -> Components {
        let mut of = vec![UNKNOWN; part.states()];
        let mut members = Vec::new();
        // When each state was met, from 1 on; and the earliest of those not yet in a component that it leads back to.
        let mut met = vec![0_u32; part.states()];
        let mut back = vec![0_u32; part.states()];
        let mut clock = 0;
        let mut path: Vec<(State, u32)> = Vec::new();
        let mut open: Vec<State> = Vec::new();
        // A cycle has a state that no anti-dependency leads to: two do not follow each other where that matters.
        for root in (0..part.graph.nodes()).map(|node| 2 * node) {
            let mut entered = (met[root as usize] == 0).then_some(root);
            loop {
                if let Some(state) = entered.take() {
                    clock += 1;
                    (met[state as usize], back[state as usize]) = (clock, clock);
                    open.push(state);
                    path.push((state, part.graph.edges_of(node(state)).start));
                }
                let Some((state, edge)) = path.last_mut() else { break };
                let at = *state as usize;
                if *edge < part.graph.edges_of(node(*state)).end {
                    let next = part.step(*state, *edge);
                    *edge += 1;
                    match next {
                        Some(next) if met[next as usize] == 0 => entered = Some(next),
                        Some(next) if of[next as usize] == UNKNOWN => {
                            back[at] = back[at].min(met[next as usize]);
                        }
                        _ => {}
                    }
                    continue;
                }
                path.pop();
                if let Some((before, _)) = path.last() {
                    back[*before as usize] = back[*before as usize].min(back[at]);
                }
                if back[at] == met[at] {
                    close(at as State, &mut open, &mut of, &mut members);
                }
            }
        }
        Components { members, of }
    }

    /// Which of the components a state is in.
    pub fn of(&self, state: State) -> Option<usize> {
        let at = self.of[state as usize] as usize;
        (at < self.members.len()).then_some(at)
    }
}

/// Makes a component of the states that were opened since `first`.
fn close(first: State, open: &mut Vec<State>, of: &mut [u32], members: &mut Vec<Vec<State>>) {
    if open.last() == Some(&first) {
        open.pop();
        of[first as usize] = ALONE;
        return;
    }
    let at = open.iter().rposition(|state| *state == first).unwrap_or(0);
    let states = open.split_off(at);
    states.iter().for_each(|state| of[*state as usize] = members.len() as u32);
    members.push(states);
}

/// Whether a graph has cycles of all its edges at all.
pub(super) fn is_acyclic(graph: &Graph) -> bool {
    const ALL: Dependencies = Dependencies::of(&[
        Dependency::Ww,
        Dependency::Wr,
        Dependency::Rw,
        Dependency::PredicateRw,
        Dependency::RealTime,
        Dependency::Number,
    ]);
    let part = Part { graph, takes: ALL, anti: AntiDependencies::Any };
    Components::new(&part).members.is_empty()
}

#[cfg(test)]
mod tests {
    use super::super::Key;
    use super::super::graph::Edge;
    use super::*;

    fn graph(nodes: usize, edges: &[(u32, Dependency, u32)]) -> Graph {
        let edge =
            |&(from, dependency, to): &(u32, _, u32)| Edge { from, to, dependency, key: Key(0) };
        Graph::new(nodes, 0, edges.iter().map(edge).collect())
    }

    fn components(graph: &Graph, anti: AntiDependencies) -> Vec<Vec<u32>> {
        let takes = Dependencies::of(&[Dependency::Ww, Dependency::Rw]);
        let found = Components::new(&Part { graph, takes, anti });
        let nodes = |states: &Vec<State>| {
            let mut nodes: Vec<u32> = states.iter().map(|state| node(*state)).collect();
            nodes.sort_unstable();
            nodes.dedup();
            nodes
        };
        let mut all: Vec<Vec<u32>> = found.members.iter().map(nodes).collect();
        all.sort();
        all
    }

    #[test]
    fn components_of_two_rings_and_a_bridge() {
        use Dependency::{Wr, Ww};
        let edges = [(0, Ww, 1), (1, Ww, 2), (2, Ww, 0), (2, Ww, 3), (3, Ww, 4), (4, Ww, 3)];
        let rings = graph(7, &[&edges[..], &[(4, Wr, 0), (5, Ww, 6)]].concat());
        assert_eq!(components(&rings, AntiDependencies::Any), [vec![0, 1, 2], vec![3, 4]]);
        assert!(!is_acyclic(&rings) && is_acyclic(&graph(2, &[(0, Ww, 1)])));
    }

    #[test]
    fn anti_dependencies_in_a_row_are_no_cycle_where_they_must_be_apart() {
        use Dependency::{Rw, Ww};
        let skew = graph(2, &[(0, Rw, 1), (1, Rw, 0)]);
        assert_eq!(components(&skew, AntiDependencies::Any), [[0, 1]]);
        assert!(components(&skew, AntiDependencies::Apart).is_empty());
        let apart = graph(4, &[(0, Rw, 1), (1, Ww, 2), (2, Rw, 3), (3, Ww, 0)]);
        assert_eq!(components(&apart, AntiDependencies::Apart), [[0, 1, 2, 3]]);
        let three = graph(3, &[(0, Rw, 1), (1, Rw, 2), (2, Ww, 0)]);
        assert!(components(&three, AntiDependencies::Apart).is_empty());
    }

    #[test]
    fn a_million_nodes_in_a_row_need_no_deep_stack() {
        let nodes = 1_000_000;
        let ring = |node| (node, Dependency::Ww, (node + 1) % nodes);
        let ring: Vec<_> = (0..nodes).map(ring).collect();
        let found = components(&graph(nodes as usize, &ring), AntiDependencies::Any);
        assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [nodes as usize]);
        assert!(is_acyclic(&graph(nodes as usize, &ring[1..])));
    }
}
