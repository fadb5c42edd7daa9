//! W1's routing of commits with several changes.

use std::ops::Range;
use std::sync::Arc;

use arc_swap::Guard;
use base::planted::{self, Bug};
use smallvec::SmallVec;

use crate::keyspace::subrange::Subrange;
use crate::keyspace::{KeyspaceState, Routes};
use crate::record::format::Kind;
use crate::write::op::{Op, Ops};

/// Routes the changes as they are routed now and sorts them by subranges, those of one in the order of the commit. Calls `each` for
/// each subrange with its changes. Range deletions are cut at the bounds of subranges: each part is a change of its own.
pub(super) fn groups<'a>(ops: &mut Ops<'a>, mut each: impl FnMut(Range<usize>, &Arc<Subrange>)) {
    let mut spaces: SmallVec<[(u32, Guard<Arc<Routes>>); 1]> = SmallVec::new();
    for op in ops.iter() {
        if !spaces.iter().any(|(id, _)| *id == op.space.id) {
            spaces.push((op.space.id, op.space.routes.load()));
        }
    }
    let at = |space: &KeyspaceState| spaces.iter().position(|(id, _)| *id == space.id).unwrap_or(0);
    if ops.iter().any(|op| op.kind == Kind::RangeDelete) {
        part(ops, |space| &**spaces[at(space)].1);
    }
    for op in ops.iter_mut() {
        op.position = spaces[at(op.space)].1.position(op.stored_key()) as u32;
    }
    // Numbers ascend within a segment, whatever the order was that an earlier routing left.
    let order = |op: &Op<'_>| (op.space.id, op.position, op.place);
    if !ops.is_sorted_by_key(order) {
        ops.sort_by_key(order);
    }
    let mut start = 0;
    while start < ops.len() {
        let first = &ops[start];
        let same = |op: &&Op<'_>| (op.space.id, op.position) == (first.space.id, first.position);
        let len = ops[start..].iter().take_while(same).count();
        let routes = &spaces[at(first.space)].1;
        each(start..start + len, &routes.subranges[first.position as usize]);
        start += len;
    }
}

/// Cuts range deletions at the bounds of subranges: each part is a change of its own.
fn part<'a, 'r>(ops: &mut Ops<'a>, routes: impl Fn(&KeyspaceState) -> &'r Routes) {
    if planted::is(Bug::RangeDeleteUncut) {
        return;
    }
    let crosses = |op: &Op<'_>| {
        let upper = routes(op.space).of(op.stored_key()).span.before();
        op.kind == Kind::RangeDelete && upper.is_some_and(|upper| op.stored_value() > upper)
    };
    if !ops.iter().any(crosses) {
        return;
    }
    let mut all = ops.to_vec();
    all.sort_by_key(|op| op.place);
    let parted = all.into_iter().flat_map(|op| match op.kind {
        Kind::RangeDelete => op.parts(routes(op.space)),
        _ => vec![op],
    });
    let mut parted: Vec<Op<'a>> = parted.collect();
    (0..).zip(&mut parted).for_each(|(place, op)| op.place = place);
    *ops = Ops::Owned(parted);
}
