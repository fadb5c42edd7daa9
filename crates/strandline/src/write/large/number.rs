//! L3: the staged memtables get their numbers and their place in the Views.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard, PoisonError};

use base::planted::{self, Bug};
use base::{Result, Seq};

use crate::engine::Engine;
use crate::keyspace::view::View;
use crate::keyspace::write_head::{Lack, Permit};
use crate::locks::in_way::WriteSet;
use crate::locks::table::{LockTable, OwnerId};
use crate::record::format::Kind;
use crate::ring::sequencer::SequencerGuard;
use crate::span::Span;
use crate::stream::kept::CommitNumbers;
use crate::write::among_locks::InWay;
use crate::write::commit::HELD_YIELDS;
use crate::write::condition::Condition;
use crate::write::large::{LargeCommit, LargePhase, StagedGroup};
use crate::write::numbering::Numbering;
use crate::write::slowdown::Slowdown;
use crate::write::vacate::Vacating;

/// What a subrange changes to.
struct Switch {
    before: Arc<View>,
    next: Arc<View>,
    /// The active memtable had nothing when the next View was built, which leaves it out.
    was_empty: bool,
}

/// The next Views of all subranges. `admin` of their keyspaces is held, under which alone Views change.
pub(crate) struct NextViews<'a> {
    admins: Vec<MutexGuard<'a, ()>>,
    switches: Vec<Switch>,
}

impl<'a> LargeCommit<'_, 'a> {
    /// Asks `condition` before anything is written: one that fails by now is known before that is in vain.
    ///
    /// # Errors
    /// Those of `condition`.
    pub(super) fn ask_early(&self, condition: &mut impl Condition) -> Result<()> {
        condition.route()?;
        let pass = self.engine.sequence.sequencer.enter_to_switch();
        let asked = condition.holds(&pass, self.way.permit);
        drop(pass);
        if asked == Err(Lack::Look) { condition.look() } else { Ok(()) }
    }

    /// L3 once: takes the numbers of all changes and shows the staged memtables, or does nothing.
    #[cfg(feature = "steps")]
    pub(crate) fn reserve(&mut self, condition: &mut impl Condition) -> Result<(), Lack> {
        let ready = self.next_views();
        self.reserve_ready(ready, condition)
    }

    /// Has a zone stand ready for those who write to the fresh memtables, where others write at all.
    fn prepare_heads(&self) -> Result<()> {
        for group in &self.groups {
            let write_head = &group.subrange.write_head;
            if write_head.bytes() > 0 && !write_head.has_spare() {
                self.engine.look_after(group.space, self.ops[group.ops.start].stored_key())?;
            }
        }
        Ok(())
    }

    fn next_views(&mut self) -> NextViews<'a> {
        // In the order of identifiers, as the groups are.
        let mut spaces: Vec<_> = self.groups.iter().map(|group| group.space).collect();
        spaces.dedup_by_key(|space| space.id);
        let admins = spaces
            .iter()
            .map(|space| space.admin.lock().unwrap_or_else(PoisonError::into_inner))
            .collect();
        let switches = self.groups.iter_mut().map(StagedGroup::next_view).collect();
        for group in &self.groups {
            // What it holds is listed before it does (I-HOLDER-1).
            self.engine.space.holders.add(group.space, &group.subrange);
        }
        NextViews { admins, switches }
    }
}

impl<'e, 'a> Numbering<'e> for LargeCommit<'e, 'a> {
    type Ready = NextViews<'a>;

    fn engine(&self) -> &'e Engine {
        self.engine
    }

    fn slowdown(&self) -> Slowdown {
        self.way.slowdown
    }

    fn set_permit(&mut self, permit: Permit) {
        self.way.permit = permit;
    }

    fn make_ready(&mut self) -> Result<NextViews<'a>> {
        self.prepare_heads()?;
        Ok(self.next_views())
    }

    fn reserve_ready(
        &mut self,
        ready: NextViews<'a>,
        condition: &mut impl Condition,
    ) -> Result<(), Lack> {
        debug_assert_eq!(self.phase, LargePhase::Staging);
        let engine = self.engine;
        let NextViews { admins, switches } = ready;
        self.published = engine.sequence.ring.visible();
        let mut pass = engine.sequence.sequencer.enter(&engine.sequence.ring).ok_or(Lack::Slot)?;
        condition.holds(&pass, self.way.permit)?;
        for (group, switch) in self.groups.iter().zip(&switches) {
            group.look(&pass, switch, self.way.permit)?;
        }
        // From here on nothing fails, waits or allocates.
        let number = pass.next_seq();
        let count = if planted::is(Bug::AdoptCountsOne) { 1 } else { self.count() };
        let last_seq = number + self.count() - 1;
        for (group, switch) in self.groups.iter().zip(&switches) {
            group.switch(&pass, engine, switch, number, last_seq);
        }
        if let Some(kept) = &self.kept {
            kept.take(CommitNumbers { first: number, last: last_seq });
        }
        condition.taken(&pass, last_seq);
        let (ticket, _) = pass.take(count);
        drop(pass);
        (self.ticket, self.number, self.phase) = (Some(ticket), number, LargePhase::Reserved);
        drop(admins);
        // Old Views may hold the last references to what they lead to.
        drop(switches);
        Ok(())
    }

    fn mend(&mut self, lack: Lack) -> Result<()> {
        self.engine.check_writable("write")?;
        match lack {
            Lack::Held if self.held_waits >= HELD_YIELDS => self.engine.pause("write")?,
            Lack::Slot | Lack::Held => {
                self.held_waits += u32::from(lack == Lack::Held);
                std::thread::yield_now();
            }
            Lack::View => self.groups.iter_mut().try_for_each(StagedGroup::route_again)?,
            // It takes no zone here, and the others are not mended here.
            Lack::Zone | Lack::Look | Lack::Locked => {}
        }
        Ok(())
    }

    fn begin_among_locks(&mut self) {
        if !self.write_sets.is_empty() {
            return;
        }
        let write_set = |group: &StagedGroup<'a>| {
            let of_group = || self.ops[group.ops.clone()].iter();
            let deletes = of_group().filter(|op| op.kind == Kind::RangeDelete);
            let ranges = deletes.map(|op| Span {
                lower: op.stored_key().to_vec(),
                upper: Some(op.stored_value().to_vec()),
            });
            let keys = of_group().filter(|op| op.kind != Kind::RangeDelete).map(|op| op.key);
            WriteSet::new(keys.collect(), ranges.collect())
        };
        self.write_sets = self.groups.iter().map(write_set).collect();
    }

    fn in_way(&self, table: &mut LockTable, writer: OwnerId) -> Option<InWay> {
        let groups = self.groups.iter().zip(&self.write_sets);
        let mut locked = groups.filter(|(group, _)| group.subrange.write_head.has_locks());
        locked.find_map(|(group, written)| {
            let (space, span) = (group.space, &group.subrange.span);
            self.engine.let_writers_in(table, space, self.ops[group.ops.start].stored_key());
            let what = table.first_in_way_of(writer, space, span, written)?;
            Some(InWay { space: Arc::clone(space), what })
        })
    }

    fn leave_views(&mut self) {
        self.vacating = None;
        self.turn.lend();
    }

    fn return_to_views(&mut self) {
        self.turn.take_back();
        self.vacating = Vacating::announce(&self.ops);
    }
}

impl StagedGroup<'_> {
    /// Finds its subrange, which is not cut meanwhile; but a drop of the keyspace that failed leaves another with its number.
    fn route_again(&mut self) -> Result<()> {
        let mut subranges = self.space.subranges().into_iter();
        let found = subranges.find(|subrange| subrange.id == self.subrange.id);
        match found.filter(|_| !self.space.dropped.load(Relaxed)) {
            Some(subrange) => self.subrange = subrange,
            None => return Err(crate::keyspace::dropped(self.space)),
        }
        Ok(())
    }

    /// The View with the staged memtable above all that there is, and a fresh one above that. The caller holds `admin`.
    fn next_view(&mut self) -> Switch {
        let before = self.subrange.view.load_full();
        let order = self.subrange.next_order();
        // The Views of earlier attempts are gone.
        if let Some(memtable) = Arc::get_mut(&mut self.memtable) {
            memtable.order = order;
        }
        let goes_on = planted::is(Bug::StagedBelowActive);
        let fresh = || Arc::new(self.subrange.new_memtable());
        let active = if goes_on { Arc::clone(before.active()) } else { fresh() };
        let was_empty = self.subrange.write_head.bytes() == 0;
        let waiting = if was_empty || goes_on { &before.memtables[1..] } else { &before.memtables };
        let mut memtables = vec![active, Arc::clone(&self.memtable)];
        memtables.extend(waiting.iter().cloned());
        let next = View { number: before.number + 1, memtables, ..(*before).clone() };
        Switch { before, next: Arc::new(next), was_empty }
    }

    /// Whether the subrange is as it was when `switch` was made, and the commit may pass.
    fn look(&self, pass: &SequencerGuard<'_>, switch: &Switch, permit: Permit) -> Result<(), Lack> {
        let write_head = &self.subrange.write_head;
        write_head.admits(pass, switch.before.number, permit)?;
        if switch.was_empty && write_head.bytes() > 0 { Err(Lack::View) } else { Ok(()) }
    }

    /// Numbers its records from `number` on and shows them, not visible yet.
    fn switch(
        &self,
        pass: &SequencerGuard<'_>,
        engine: &Engine,
        switch: &Switch,
        number: Seq,
        last_seq: Seq,
    ) {
        let (memtable, bytes) = (&self.memtable, self.bytes());
        memtable.bytes.store(bytes, Relaxed);
        memtable.last_seq.store(last_seq, Relaxed);
        if !planted::is(Bug::StagedDeletesNotRebased) {
            memtable.deletes.rebase(number);
        }
        self.zones.iter().for_each(|staged| engine.media.rebase(staged.zone.no, number));
        let geometry = engine.media.pool.geometry();
        self.subrange.switch_to(pass, geometry, &switch.before, &switch.next);
        self.subrange.note_switched(bytes);
        self.subrange.write_head.note_seq(pass, last_seq);
    }
}
