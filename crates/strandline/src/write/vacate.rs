//! What a commit tells scans: which keys are gone once it is visible, and which are not any more (I-VAC-1).

use std::sync::Arc;

use base::Seq;
use base::planted::{self, Bug};

use crate::engine::Engine;
use crate::keyspace::KeyspaceState;
use crate::keyspace::vacancies::Token;
use crate::record::format::Kind;
use crate::write::op::Op;

/// Ranges that a commit has announced, with their keyspaces. When it is dropped they are withdrawn.
#[derive(Default)]
pub(crate) struct Vacating<'a>(Vec<(&'a Arc<KeyspaceState>, Token)>);

impl<'a> Vacating<'a> {
    /// W1: announces the ranges that `ops` delete, if any does.
    #[inline]
    pub(crate) fn announce(ops: &[Op<'a>]) -> Option<Vacating<'a>> {
        let late = planted::is(Bug::VacancyAnnouncedLate);
        if !ops.iter().any(|op| op.kind == Kind::RangeDelete) {
            return None;
        }
        Some(if late { Vacating::default() } else { Vacating::announce_all(ops) })
    }

    fn announce_all(ops: &[Op<'a>]) -> Vacating<'a> {
        let deletes = || ops.iter().filter(|op| op.kind == Kind::RangeDelete);
        let mut spaces: Vec<&Arc<KeyspaceState>> = deletes().map(|op| op.space).collect();
        spaces.sort_by_key(|space| space.id);
        spaces.dedup_by_key(|space| space.id);
        let announced = spaces.into_iter().filter_map(|space| {
            let own = deletes().filter(|op| op.space.id == space.id);
            let ranges = own.map(|op| (op.stored_key(), op.stored_value()));
            Some((space, space.vacancies.announce(ranges)?))
        });
        Vacating(announced.collect())
    }

    /// W5: of what `ops` deleted nothing is live as of number `last_seq`, which is not published yet.
    #[inline]
    pub(crate) fn vacate(&mut self, engine: &Engine, ops: &[Op<'a>], last_seq: Seq) {
        if planted::is(Bug::VacancyAnnouncedLate) {
            *self = Vacating::announce_all(ops);
        }
        let oldest = engine.sequence.snapshots.oldest(&engine.sequence.ring);
        for (space, token) in self.0.drain(..) {
            space.vacancies.vacate(token, last_seq, oldest);
        }
    }
}

/// W4: takes the key that `op` makes live out of the vacancies.
#[inline]
pub(crate) fn fill_vacancy(op: &Op<'_>) {
    if !op.deletes() && !op.space.vacancies.is_empty() {
        op.space.vacancies.fill(op.key);
    }
}

impl Drop for Vacating<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.drain(..).for_each(|(space, token)| space.vacancies.withdraw(token));
    }
}
