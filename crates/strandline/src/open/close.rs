//! Closing a store while handles of it are left: background work stops, calls end, then others may open it.
//!
//! When the lock goes, others may write the memory of the store, so nothing of it may be in use then: no call, no View of a
//! get or put, no hold of an iterator or a pinned value, which lend that memory. Fronts are closed first, so that no View is found current any more; then
//! the last to leave lets go.

use std::collections::BTreeMap;
use std::sync::atomic::{Ordering::SeqCst, fence};
use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};

use base::{Error, ErrorKind, Result};

use crate::engine::wait::WAIT_STEP;
use crate::engine::{Access, Engine, closed};
use crate::keyspace::subrange::Subrange;
use crate::keyspace::usage::HoldKind;
use crate::keyspace::view::View;
use crate::keyspace::write_head::WriteHead;
use crate::options::PmSource;
use crate::runtime::MemoryShare;
use crate::tree::Tree;

/// How long a close waits for calls of other threads: each looks whether the store is closed as it goes on.
const CALLS_END: Duration = Duration::from_secs(10);
/// Holds of a write head whose subrange is there: that subrange's, and that of the View which the write head was closed with.
const OWN_HOLDS: usize = 2;

/// A write head that was closed, and its subrange, if that is there.
struct ClosedHead {
    write_head: Weak<WriteHead>,
    subrange: Option<Arc<Subrange>>,
}

impl ClosedHead {
    /// Whether no View is in use: each holds the write head. Where the subrange is gone, they are all that hold it.
    fn is_unused(&self) -> bool {
        self.write_head.strong_count() <= if self.subrange.is_some() { OWN_HOLDS } else { 0 }
    }
}

/// A call under way that may touch memory or files of the store without a View.
pub(crate) struct Call<'e>(&'e Engine);

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.lifetime.usage.calls.end();
        self.0.leave();
    }
}

/// Keeps the store from being closed: what has it shows memory of the store, or versions that are kept for it.
pub(crate) struct StoreHold {
    engine: Arc<Engine>,
    kind: HoldKind,
}

impl Drop for StoreHold {
    fn drop(&mut self) {
        self.engine.lifetime.usage.holds.end(self.kind);
        self.engine.leave();
    }
}

impl Engine {
    /// Begins a call, if the store is not closed.
    pub(crate) fn call(&self, operation: &'static str) -> Result<Call<'_>> {
        self.lifetime.usage.calls.begin();
        let call = Call(self);
        self.check_open_in_order(operation)?;
        Ok(call)
    }

    /// Keeps the store from being closed, if it is not.
    pub(crate) fn hold(self: &Arc<Self>, kind: HoldKind) -> Result<StoreHold> {
        self.check_open("read")?;
        if self.lifetime.usage.holds.begin(kind) {
            return Ok(StoreHold { engine: Arc::clone(self), kind });
        }
        Err(closed("read"))
    }

    /// As [`Engine::check_open`], behind a count: who closes the store looks at the count behind the mark, so that one of the
    /// two sees the other.
    fn check_open_in_order(&self, operation: &'static str) -> Result<()> {
        fence(SeqCst);
        self.check_open(operation)
    }

    /// As [`Engine::close`], unless something shows the store's memory or has versions kept.
    ///
    /// # Errors
    /// `Busy`: it names what does. Nothing is closed.
    pub(crate) fn close_unless_held(&self) -> Result<()> {
        let refused = |named: String| {
            let text = format!("{named} in use; drop what is in use, then close the store again");
            Error::new(ErrorKind::Busy, "close", text)
        };
        if self.events.are_told_here() {
            // It would wait for the call in which it is told.
            let text =
                "a listener cannot close the store that it is told of; close it on another thread";
            return Err(Error::new(ErrorKind::Busy, "close", text));
        }
        if self.lifetime.process.holds() {
            self.lifetime.usage.holds.close().map_err(refused)?;
        }
        self.close()
    }

    /// Stops background work and refuses everything from now on; then lets others open the store, as soon as nothing of
    /// it is in use. What is durable stays so; nothing needs to be written, but where the log is synced as time passes.
    ///
    /// # Errors
    /// Where it is: those of the last sync. The store is closed all the same.
    pub(crate) fn close(&self) -> Result<()> {
        if !self.lifetime.process.holds() {
            return Ok(());
        }
        let is_first = !self.lifetime.closed.swap(true, SeqCst);
        if is_first {
            self.stop();
            self.lifetime.stopped.store(true, SeqCst);
            // What holds the store may do so for long, and no thread syncs in time any more. Told below.
            let _synced = self.sync_wal_at_end();
        }
        self.let_go_soon();
        // A call that was under way may have begun a job meanwhile, or kept the jobs from being given up.
        self.end_told();
        let synced = if is_first { self.sync_wal_at_end() } else { Ok(()) };
        self.events.tell();
        synced
    }

    /// Lets others open the store once nothing of it is in use, or leaves that to the call or hold that lasts longest.
    fn let_go_soon(&self) {
        let until = Instant::now() + CALLS_END;
        while !self.leave_to_others() && Instant::now() < until {
            if self.lifetime.usage.calls.is_zero() && !self.lifetime.usage.holds.is_zero() {
                return;
            }
            std::thread::sleep(WAIT_STEP);
        }
    }

    fn stop(&self) {
        self.window.shut();
        // The last handle may be gone: an error has no one to go to.
        let _told_to_none = self.tracer.end();
        // A listener may drop the last handle on a thread that works for the store: that one goes on when this returns.
        self.background.member.leave();
        // Handles may keep its memory. That is not for the others to make up for.
        self.share.iter().for_each(MemoryShare::close);
        self.pm_cache().into_iter().for_each(|cache| cache.shut());
        let answering =
            self.background.answering.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(answering) = answering
            && answering.thread().id() != std::thread::current().id()
        {
            let _ended = answering.join();
        }
        self.end_told();
        if let Some(tables) = &self.tables
            && self.lifetime.access == Access::Write
        {
            // What stays is removed by the next open.
            let _left = self.remove_dead_tables(tables);
            if self.options().pm == PmSource::Heap {
                let dirs = tables.tiers.iter().map(|tier| &tier.dir.at);
                dirs.for_each(|at| at.give_up(self.media.pool.id()));
            }
        }
    }

    /// Notes the ends of all that was told to have begun.
    fn end_told(&self) {
        if !self.events.are_heard() {
            return;
        }
        // Who is at a job looks at the mark before it takes up another, and gives that one up in the end.
        if let Some(mut jobs) = self.background.try_jobs() {
            jobs.give_up();
        }
        for compaction in &self.background.compactions().under_way {
            compaction.tell_end(|| Err(closed("compact")));
        }
        if let Some(event) = self.background.throttle.end_stall() {
            self.events.note(|| event);
        }
    }

    /// The last to leave a closed store lets others in.
    fn leave(&self) {
        if self.lifetime.closed.load(SeqCst) && self.is_idle() {
            let _in_use_elsewhere = self.leave_to_others();
            self.events.tell();
        }
    }

    /// Lets others open the store if nothing of it is in use; tells whether they may.
    fn leave_to_others(&self) -> bool {
        if !self.lifetime.process.holds() {
            // The lock is the parent's: given up here, it would be given up there.
            return true;
        }
        let mut released = self.lifetime.released();
        if !*released && self.is_idle() && self.leave_views() {
            // Of calls that were under way at the close. Listeners are told if it fails, and the close if it waits still.
            let _synced = self.sync_wal_at_end();
            self.media.let_go();
            *released = true;
        }
        *released
    }

    /// Whether background work has ended, no call or hold is left, and no thread of another store writes to the cache.
    fn is_idle(&self) -> bool {
        self.lifetime.stopped.load(SeqCst)
            && self.lifetime.usage.calls.is_zero()
            && self.lifetime.usage.holds.is_zero()
            && self.pm_cache().is_none_or(|cache| cache.is_unused())
    }

    /// Closes all write heads and puts empty Views behind them; tells whether no other View is in use. No call is under way that
    /// would put others there.
    fn leave_views(&self) -> bool {
        // By address, as subranges may share one. A subrange that is left stays until its write head has been looked at.
        let mut write_heads: BTreeMap<usize, ClosedHead> = BTreeMap::new();
        let mut add = |write_head: Weak<WriteHead>, subrange: Option<Arc<Subrange>>| {
            let held = write_heads
                .entry(write_head.as_ptr().addr())
                .or_insert(ClosedHead { write_head, subrange: None });
            held.subrange = held.subrange.take().or(subrange);
        };
        for space in self.keyspaces.all() {
            let _admin = space.admin.lock().unwrap_or_else(PoisonError::into_inner);
            for subrange in space.subranges() {
                self.empty(&subrange);
                add(Arc::downgrade(&subrange.write_head), Some(subrange));
            }
        }
        self.lifetime.usage.each_replaced(|replaced| {
            let subrange = replaced.subrange.upgrade();
            subrange.iter().for_each(|subrange| self.empty(subrange));
            add(replaced.write_head.clone(), subrange);
        });
        write_heads.values().all(ClosedHead::is_unused)
    }

    /// Readers and writers find no View of a subrange current from now on.
    pub(crate) fn empty(&self, subrange: &Subrange) {
        let pass = self.sequence.sequencer.enter_to_switch();
        let _unused = subrange.write_head.close(&pass);
        drop(pass);
        let view = View::first(Vec::new(), Vec::new(), Arc::new(Tree::default()));
        subrange.view.store(Arc::new(View {
            number: 0,
            write_head: Arc::clone(&subrange.write_head),
            ..view
        }));
    }
}
