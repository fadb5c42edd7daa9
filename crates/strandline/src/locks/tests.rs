//! The table of locks beside what its rules say, worked out anew after each step.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::LockMode;
use testkit::Rng;

use crate::hooks::Hooks;
use crate::keyspace::KeyspaceState;
use crate::keyspace::plugged::StoreHooks;
use crate::locks::queue::{LockTurn, Waited, Waiter};
use crate::locks::space::What;
use crate::locks::table::{Asked, LockTable, OwnerId, OwnerKind};
use crate::options::KeyspaceOptions;
use crate::span::Span;
use crate::tree::tiers::TierSet;

fn space(id: u32) -> Arc<KeyspaceState> {
    let (options, hooks) = (KeyspaceOptions::default(), StoreHooks::new(Hooks::default()));
    let tiers = TierSet::default();
    Arc::new(KeyspaceState::new(id, "space", &options, &tiers, &hooks, Vec::new(), None))
}

fn key(no: u64) -> Vec<u8> {
    format!("{no:03}").into_bytes()
}

fn one(no: u64) -> What {
    What::Key(Arc::from(key(no)))
}

fn range(from: u64, before: u64) -> What {
    What::Range(Arc::new(Span { lower: key(from), upper: Some(key(before)) }))
}

fn transaction(table: &mut LockTable) -> OwnerId {
    let age = table.next_owner();
    table.begin(OwnerKind::Transaction { age, expires: None })
}

/// What an owner has, or waits for.
#[derive(Clone, Debug)]
struct Wish {
    space: u32,
    from: u64,
    before: u64,
    is_range: bool,
    mode: LockMode,
}

impl Wish {
    fn overlaps(&self, other: &Wish) -> bool {
        self.space == other.space && self.from < other.before && other.from < self.before
    }

    fn refuses(&self, other: &Wish) -> bool {
        let both_shared = self.mode == LockMode::Shared && other.mode == LockMode::Shared;
        self.overlaps(other) && !both_shared
    }

    fn what(&self) -> What {
        if self.is_range { range(self.from, self.before) } else { one(self.from) }
    }
}

/// An owner, as the rules see it.
#[derive(Default)]
struct Party {
    has: Vec<Wish>,
    wants: Option<(Wish, LockTurn, Arc<Waiter>)>,
}

type Parties = BTreeMap<OwnerId, Party>;

/// Takes over what became of those that wait. Tells whether some were given up, so that others may have got their locks since.
fn follow(parties: &mut Parties, table: &mut LockTable) -> bool {
    let mut gone = Vec::new();
    for (id, party) in parties.iter_mut() {
        let Some((claim, _, waiter)) = &party.wants else { continue };
        match waiter.waited() {
            Waited::Still => {}
            Waited::Granted => {
                party.has.push(claim.clone());
                party.wants = None;
            }
            Waited::GivenUp => gone.push(*id),
        }
    }
    for id in &gone {
        assert!(table.check(*id).is_err(), "it was given up for a reason");
        parties.remove(id);
        table.end(*id);
    }
    !gone.is_empty()
}

/// Whether what `before` waits for comes before a claim, of another, that has the turn `turn`.
fn comes_before(before: &Party, claim: &Wish, turn: LockTurn) -> bool {
    let Some((wants, first, _)) = &before.wants else { return false };
    // Behind another in the queue of the same key one waits whatever it wants.
    let same_key = !wants.is_range && !claim.is_range && wants.from == claim.from;
    let is_in_way = wants.space == claim.space && (same_key || wants.refuses(claim));
    // Who has some of it already comes first.
    is_in_way && (*first < turn || before.has.iter().any(|has| has.overlaps(claim)))
}

/// Those for whom a claim of `id` may wait.
fn in_way_of<'p>(
    parties: &'p Parties,
    id: OwnerId,
    claim: &'p Wish,
    turn: Option<LockTurn>,
) -> impl Iterator<Item = OwnerId> + 'p {
    let is_in_way = move |party: &Party| {
        party.has.iter().any(|has| has.refuses(claim))
            || turn.is_some_and(|turn| comes_before(party, claim, turn))
    };
    let others = parties.iter().filter(move |(other, party)| **other != id && is_in_way(party));
    others.map(|(other, _)| *other)
}

fn check(parties: &Parties) {
    for (id, party) in parties {
        for claim in &party.has {
            let others = in_way_of(parties, *id, claim, None).count();
            assert_eq!(others, 0, "{claim:?} of {id:?} is not alone");
        }
        let Some((claim, turn, _)) = &party.wants else { continue };
        let waits_for = in_way_of(parties, *id, claim, Some(*turn)).count();
        assert!(waits_for > 0, "{claim:?} of {id:?} waits for nothing");
        // At the end of the way there is one that does not wait: so no cycle is left that it could not get out of.
        let (mut seen, mut open) = (vec![*id], vec![*id]);
        let mut goes_on = false;
        while let Some(waiter) = open.pop() {
            let Some((claim, turn, _)) = &parties[&waiter].wants else {
                goes_on = true;
                break;
            };
            for next in in_way_of(parties, waiter, claim, Some(*turn)) {
                if !seen.contains(&next) {
                    seen.push(next);
                    open.push(next);
                }
            }
        }
        assert!(goes_on, "{id:?} waits for ever");
    }
}

#[test]
fn whatever_is_asked_for_the_rules_hold() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let (mut table, spaces) = (LockTable::default(), [space(1), space(2)]);
        let mut parties = Parties::new();
        let keys = 2 + rng.below(12);
        let ranges = rng.below(4);
        for _ in 0..600 {
            let waiting = |party: &Party| party.wants.is_some();
            let free: Vec<OwnerId> =
                parties.iter().filter(|(_, party)| !waiting(party)).map(|(id, _)| *id).collect();
            match rng.below(10) {
                0 | 1 if parties.len() < 12 => {
                    parties.insert(transaction(&mut table), Party::default());
                }
                2 if !free.is_empty() => {
                    let id = free[rng.below(free.len() as u64) as usize];
                    parties.remove(&id);
                    table.end(id);
                }
                3 if !parties.is_empty() => {
                    // Its time is over, or its thread gives up.
                    let at = rng.below(parties.len() as u64) as usize;
                    let id = *parties.keys().nth(at).expect("there");
                    if parties[&id].wants.is_some() && table.stop_waiting(id) {
                        parties.get_mut(&id).expect("there").wants = None;
                    }
                }
                _ if !free.is_empty() => {
                    let id = free[rng.below(free.len() as u64) as usize];
                    let from = rng.below(keys);
                    let is_range = rng.below(6) < ranges;
                    let before = if is_range { from + 1 + rng.below(keys) } else { from + 1 };
                    let mode = [LockMode::Shared, LockMode::Exclusive][rng.below(2) as usize];
                    let at = rng.below(2) as usize;
                    let space = spaces[at].id;
                    let claim = Wish { space, from, before, is_range, mode };
                    let ask = table.ask_for(id, &spaces[at], claim.what(), mode);
                    let (turn, party) = (ask.turn, parties.get_mut(&id).expect("there"));
                    match table.ask(id, ask) {
                        Asked::Granted => party.has.push(claim),
                        Asked::Waits(waiter) => party.wants = Some((claim, turn, waiter)),
                    }
                }
                _ => {}
            }
            while follow(&mut parties, &mut table) {}
            check(&parties);
        }
        let ids: Vec<OwnerId> = parties.keys().copied().collect();
        ids.into_iter().for_each(|id| table.end(id));
        assert_eq!((table.bytes, table.spaces.len(), table.owners.len()), (0, 0, 0));
    }
}
