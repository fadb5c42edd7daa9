//! Transactions that wait for each other.
//!
//! From an owner that waits, paths lead to those that hold what it waits for. Those that wait before it in the queue are passed over: such
//! an owner waits for the same holders. Each owner waits for one lock, so that a search takes as many steps as there are
//! locks held in its way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use base::{Deadlock, LockWait};

use crate::locks::table::{LockTable, OwnerId, OwnerKind, Standing};

/// How many deadlocks are remembered.
const REMEMBERED: usize = 16;

impl LockTable {
    /// Gives owners up until none of those that have come to wait is in a cycle.
    pub(super) fn untangle(&mut self) {
        while let Some(owner) = self.parked.pop() {
            while let Some(cycle) = self.cycle_through(owner) {
                let victim = self.victim_of(&cycle);
                self.give_up(victim, cycle);
            }
        }
    }

    /// The waits that lead from `owner` back to it.
    fn cycle_through(&mut self, owner: OwnerId) -> Option<Vec<LockWait>> {
        let mut came_from: BTreeMap<OwnerId, OwnerId> = BTreeMap::new();
        let mut open = vec![owner];
        while let Some(waiter) = open.pop() {
            let waiting = self.owners.get(&waiter).and_then(|waiter| waiter.waiting.as_ref());
            let Some(place) = waiting.map(|waiting| waiting.at.clone()) else { continue };
            for holder in self.holders(&place) {
                if holder == waiter {
                    continue;
                }
                if holder == owner {
                    let mut path = vec![owner, waiter];
                    while let Some(before) = path.last().and_then(|last| came_from.get(last)) {
                        path.push(*before);
                    }
                    path.reverse();
                    return Some(path.windows(2).filter_map(|pair| self.wait(pair)).collect());
                }
                if let std::collections::btree_map::Entry::Vacant(unseen) = came_from.entry(holder)
                {
                    unseen.insert(waiter);
                    open.push(holder);
                }
            }
        }
        None
    }

    fn wait(&self, pair: &[OwnerId]) -> Option<LockWait> {
        let [waiter, holder] = pair else { return None };
        let ask = &self.owners.get(waiter)?.waiting.as_ref()?.ask;
        Some(LockWait {
            transaction: waiter.0,
            keyspace: ask.space.name.clone(),
            target: ask.what.target(),
            mode: ask.mode,
            held_by: holder.0,
        })
    }

    /// A write begins again by itself, unseen. Else the youngest transaction has the least to lose.
    fn victim_of(&self, cycle: &[LockWait]) -> OwnerId {
        let age = |id: OwnerId| match self.owners.get(&id).map(|owner| owner.kind) {
            Some(OwnerKind::Transaction { age, .. }) => age,
            _ => u64::MAX,
        };
        let owners = cycle.iter().map(|wait| OwnerId(wait.transaction));
        owners.max_by_key(|id| (age(*id), *id)).unwrap_or(OwnerId(0))
    }

    fn give_up(&mut self, victim: OwnerId, cycle: Vec<LockWait>) {
        let deadlock = Arc::new(Deadlock { at: SystemTime::now(), cycle, victim: victim.0 });
        if let Some(owner) = self.owners.get_mut(&victim) {
            owner.standing = Standing::Victim(Arc::clone(&deadlock));
        }
        self.deadlocks_found += 1;
        if self.deadlocks.len() == REMEMBERED {
            self.deadlocks.pop_front();
        }
        self.deadlocks.push_back(deadlock);
        self.withdraw(victim);
        self.release(victim);
    }
}
