//! The front certificate: what makes a transaction valid at its own number.
//!
//! A write head remembers the newest number that it gave (I-TXN-1). In W2's pass a transaction looks at the write heads of all
//! keys that it has to check:
//!
//! - Nothing newer than its snapshot was given there: it takes its number.
//! - Else it notes what was given last, waits until that is indexed, and looks its keys up. A newer version is a
//!   conflict, which it tells once that is visible. If there is none, it takes its number in a pass that finds the write heads as
//!   it had noted them. What it has looked at need not be durable: its own commit is not visible before that is.
//! - If they have moved again and again, it holds them, which keeps other writers out, and looks once more.
//!
//! **I-TXN-3** Between a transaction's snapshot and its number no other commit has written what it checks. So commits are
//! serial in the order of their numbers, and a transaction that only reads needs no certificate.
//!
//! The protocol is walked through in every order by `models/src/certificate.rs`.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use arc_swap::Guard;
use base::planted::{self, Bug};
use base::{Conflict, Error, Result, Seq};
use smallvec::SmallVec;

use crate::engine::Engine;
use crate::keyspace::subrange::Subrange;
use crate::keyspace::write_head::{Lack, Permit};
use crate::keyspace::{KeyspaceState, Routes, dropped};
use crate::ring::sequencer::SequencerGuard;
use crate::span::Span;
use crate::transaction::written_since::{Since, Written};
use crate::write::condition::Condition;

/// How often it looks its keys up before it keeps others out.
const LOOKS_MAX: u32 = 3;

/// A key that no other may have written.
#[derive(Clone, Copy)]
pub(crate) struct CheckedKey<'t> {
    pub space: &'t Arc<KeyspaceState>,
    pub key: &'t [u8],
}

/// Keys that no other may have written, none added to them.
pub(crate) struct CheckedRange<'t> {
    pub space: &'t Arc<KeyspaceState>,
    pub span: Span,
}

/// A write head, and what it is asked for.
struct Front {
    keyspace: u32,
    /// Of its subrange, when it was found.
    position: usize,
    subrange: Arc<Subrange>,
    /// Those of the checked keys that are there, and of the ranges.
    keys: Range<usize>,
    ranges: Range<usize>,
    /// The newest number given there when it was asked last.
    noted: Seq,
    /// Up to this number nothing of what is checked was written.
    clear_upto: Seq,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing was looked up yet.
    Asks,
    /// Nothing was written up to the numbers that were noted.
    Looked,
    /// As before, and others are kept out.
    Holds,
}

/// The condition of a transaction's commit.
pub(crate) struct Certificate<'t> {
    engine: &'t Engine,
    /// The number at which the transaction has read.
    since: Seq,
    /// By keyspace, then in key order; none twice.
    keys: Vec<CheckedKey<'t>>,
    /// By keyspace, then in key order; disjoint.
    ranges: Vec<CheckedRange<'t>>,
    fronts: Vec<Front>,
    stage: Stage,
    looks: u32,
}

impl<'t> Certificate<'t> {
    pub(crate) fn new(
        engine: &'t Engine,
        since: Seq,
        mut keys: Vec<CheckedKey<'t>>,
        ranges: Vec<CheckedRange<'t>>,
    ) -> Certificate<'t> {
        let order = |key: &CheckedKey<'t>| (key.space.id, key.key);
        keys.sort_unstable_by_key(order);
        keys.dedup_by_key(|key| order(key));
        debug_assert!(ranges.is_sorted_by_key(|range| (range.space.id, &range.span.lower[..])));
        let (fronts, stage) = (Vec::new(), Stage::Asks);
        Certificate { engine, since, keys, ranges, fronts, stage, looks: 0 }
    }

    /// The error of a conflict, or why what it lost to never becomes visible. A transaction that is tried again sees that.
    #[cold]
    fn lost(&self, space: &KeyspaceState, written: Written) -> Error {
        let Written { key, seq } = written;
        match self.engine.await_seq(seq) {
            Ok(()) => Error::lost("commit", Conflict { keyspace: space.name.clone(), key, seq }),
            Err(error) => error,
        }
    }

    /// Looks up what is checked at a front, in what was written up to `upto`. Tells the first that was written.
    fn look_at(&self, front: &Front, upto: Seq) -> Result<Option<(&'t KeyspaceState, Written)>> {
        let since = self.since.max(front.clear_upto);
        for CheckedKey { space, key } in &self.keys[front.keys.clone()] {
            if let Some(seq) = self.engine.key_written_since(space, key, since, upto)? {
                return Ok(Some((space, Written { key: key.to_vec(), seq })));
            }
        }
        for CheckedRange { space, span } in &self.ranges[front.ranges.clone()] {
            let span = span.within(&front.subrange.span);
            if let Some(written) = self.engine.range_written(space, &span, Since { since, upto })? {
                return Ok(Some((space, written)));
            }
        }
        Ok(None)
    }

    fn let_go(&mut self, pass: &SequencerGuard<'_>) {
        if self.stage == Stage::Holds {
            self.fronts.iter().for_each(|front| front.subrange.write_head.let_go(pass));
            self.stage = Stage::Looked;
        }
    }

    fn note(&mut self) {
        for front in &mut self.fronts {
            front.noted = front.subrange.write_head.last_seq();
        }
    }
}

impl Condition for Certificate<'_> {
    fn route(&mut self) -> Result<()> {
        debug_assert!(self.stage != Stage::Holds);
        let keys = self.keys.iter().map(|key| key.space);
        let mut spaces = keys.chain(self.ranges.iter().map(|range| range.space));
        if let Some(gone) = spaces.find(|space| space.dropped.load(Relaxed)) {
            return Err(dropped(gone));
        }
        // A View alone was replaced: what was looked up counts.
        let is_open = |front: &Front| !front.subrange.write_head.is_closed();
        if !self.fronts.is_empty() && self.fronts.iter().all(is_open) {
            return Ok(());
        }
        self.stage = Stage::Asks;
        let (mut fronts, mut routes) = (Vec::<Front>::new(), RoutesNow::default());
        for (no, key) in self.keys.iter().enumerate() {
            let routes = routes.of(key.space);
            let position = routes.position(key.key);
            match fronts.last_mut() {
                Some(last) if last.is(key.space, position) => last.keys.end = no + 1,
                _ => {
                    let subrange = Arc::clone(&routes.subranges[position]);
                    fronts.push(Front::new(key.space, position, subrange, no..no + 1, 0..0));
                }
            }
        }
        let of_keys = fronts.len();
        for (no, range) in self.ranges.iter().enumerate() {
            let routes = routes.of(range.space);
            for position in routes.met_by(&range.span) {
                match fronts[of_keys..].last_mut() {
                    Some(last) if last.is(range.space, position) => last.ranges.end = no + 1,
                    _ => {
                        let subrange = Arc::clone(&routes.subranges[position]);
                        let front = Front::new(range.space, position, subrange, 0..0, no..no + 1);
                        fronts.push(front);
                    }
                }
            }
        }
        if of_keys < fronts.len() {
            // Each front once: it is held once.
            fronts.sort_by_key(|front| (front.keyspace, front.position));
            fronts.dedup_by(|next, front| {
                let same = Arc::ptr_eq(&next.subrange, &front.subrange);
                if same && front.ranges.is_empty() {
                    front.ranges = next.ranges.clone();
                }
                same
            });
        }
        self.fronts = fronts;
        Ok(())
    }

    fn look(&mut self) -> Result<()> {
        self.looks += 1;
        let counts = &self.engine.transactions;
        counts.looks.fetch_add(1, Relaxed);
        counts.holds.fetch_add(u64::from(self.stage == Stage::Holds), Relaxed);
        let newest = self.fronts.iter().map(|front| front.noted).max().unwrap_or_default();
        if !planted::is(Bug::CertificateLooksEarly) {
            self.engine.await_indexed(newest)?;
        }
        planted::step("look keys of a transaction up");
        let moved = |front: &Front| front.noted > self.since && front.noted > front.clear_upto;
        let fronts = self.fronts.iter().filter(|front| moved(front));
        let first = fronts.map(|front| self.look_at(front, newest)).find_map(Result::transpose);
        if let Some((space, written)) = first.transpose()? {
            // Others go on while it waits for what it lost to.
            self.give_way();
            return Err(self.lost(space, written));
        }
        self.fronts.iter_mut().for_each(|front| front.clear_upto = front.noted);
        planted::step("keys of a transaction were looked up");
        Ok(())
    }

    fn give_way(&mut self) {
        if self.stage == Stage::Holds {
            let pass = self.engine.sequence.sequencer.enter_to_switch();
            self.let_go(&pass);
        }
    }

    fn holds(&mut self, pass: &SequencerGuard<'_>, _permit: Permit) -> Result<(), Lack> {
        if planted::is(Bug::CertificateSkipped) {
            return Ok(());
        }
        self.let_go(pass);
        if self.fronts.iter().any(|front| front.subrange.write_head.is_closed()) {
            return Err(Lack::View);
        }
        let given = |front: &Front| front.subrange.write_head.last_seq();
        let valid = match self.stage {
            Stage::Asks => self.fronts.iter().all(|front| given(front) <= self.since),
            _ => self.fronts.iter().all(|front| given(front) == front.noted),
        };
        if valid || (self.stage != Stage::Asks && planted::is(Bug::CertificateNotAskedAgain)) {
            return Ok(());
        }
        if self.looks >= LOOKS_MAX {
            // All or none, so that no two wait for each other.
            if self.fronts.iter().any(|front| front.subrange.write_head.is_held(pass)) {
                return Err(Lack::Held);
            }
            self.fronts.iter().for_each(|front| front.subrange.write_head.hold(pass));
            self.stage = Stage::Holds;
        } else {
            self.stage = Stage::Looked;
        }
        self.note();
        Err(Lack::Look)
    }
}

impl Drop for Certificate<'_> {
    /// An error while it held: others go on.
    fn drop(&mut self) {
        self.give_way();
    }
}

/// The routes of each keyspace, loaded once: so no subrange stands at two positions.
#[derive(Default)]
struct RoutesNow {
    /// By the keyspace's identifier.
    loaded: SmallVec<[(u32, Guard<Arc<Routes>>); 1]>,
}

impl RoutesNow {
    fn of(&mut self, space: &KeyspaceState) -> &Routes {
        let at = match self.loaded.binary_search_by_key(&space.id, |(id, _)| *id) {
            Ok(at) => at,
            Err(at) => {
                self.loaded.insert(at, (space.id, space.routes.load()));
                at
            }
        };
        &self.loaded[at].1
    }
}

impl Front {
    fn new(
        space: &KeyspaceState,
        position: usize,
        subrange: Arc<Subrange>,
        keys: Range<usize>,
        ranges: Range<usize>,
    ) -> Front {
        let (noted, clear_upto) = (Seq::ZERO, Seq::ZERO);
        Front { keyspace: space.id, position, subrange, keys, ranges, noted, clear_upto }
    }

    fn is(&self, space: &KeyspaceState, position: usize) -> bool {
        self.keyspace == space.id && self.position == position
    }
}
