//! Values that expire in a store to which nothing is written: no flush, merge or compaction comes by itself to drop them.
//!
//! Where there is nothing else to do, a look now and then finds sources that hold nothing else. A memtable is flushed; runs are
//! merged, or leave for SSD; a table below which nothing overlaps it is merged alone, in its place. All of them come to
//! nothing, so a look costs no more than reading what goes. What has expired in part waits for what the rest waits for.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError, TryLockError};
use std::time::Duration;

use base::Seq;

use crate::engine::Engine;
use crate::keyspace::KeyspaceState;
use crate::keyspace::subrange::Subrange;

/// Looks in the shortest time to live.
const LOOKS: u64 = 8;
/// Milliseconds between two looks: at least, so that they cost little, and at most, so that ages are known well.
const PAUSE: (u64, u64) = (1, 10_000);

impl Engine {
    /// Begins to give back what holds expired values only. Tells whether there is work now.
    pub(crate) fn look_for_expired(&self) -> bool {
        let clock = self.hooks.clock();
        if clock.highest().is_none() {
            return false;
        }
        let mut looks = match self.background.expiry_looks.try_lock() {
            Ok(looks) => looks,
            // Whole after a panic too: a sample is noted and a time set at once.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Another thread is at it.
            Err(TryLockError::WouldBlock) => return false,
        };
        // In this order: what has been published has its time already (I-TTL-2).
        let upto = self.sequence.ring.visible();
        let now = clock.now();
        if now.millis() < looks.next {
            return false;
        }
        // What went since the last look waits for a thread that needs space.
        self.reclaim();
        looks.ages.note(upto, now);
        // What a reader may see without what is newer stays, range deletions too: a merge would not get rid of it.
        let horizon = self.sequence.horizon();
        let (mut begun, mut shortest) = (false, u64::MAX);
        for space in self.keyspaces.all() {
            let Some(expiry) = &space.expiry else { continue };
            if space.dropped.load(Relaxed) || space.damage.get().is_some() {
                continue;
            }
            let ttl = expiry.ttl_millis();
            shortest = shortest.min(ttl);
            let ages = &looks.ages;
            let expired =
                |newest: Seq| horizon.is_below(newest) && ages.have_expired(newest, ttl, now);
            for subrange in space.subranges() {
                begun |= self.end_expired_level0(&space, &subrange, &expired);
            }
            begun |= self.begin_expired(&space, &expired);
        }
        let pause = (shortest / LOOKS).clamp(PAUSE.0, PAUSE.1);
        looks.next = now.millis().saturating_add(pause);
        begun
    }

    /// In which time the next look for expired values is due, if a keyspace has any.
    pub(crate) fn next_look_for_expired(&self) -> Option<Duration> {
        let clock = self.hooks.clock();
        clock.highest()?;
        let next = match self.background.expiry_looks.try_lock() {
            Ok(looks) => looks.next,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().next,
            // Another thread is at it.
            Err(TryLockError::WouldBlock) => 0,
        };
        Some(Duration::from_millis(next.saturating_sub(clock.now().millis()).min(PAUSE.1)))
    }

    /// Sees to it that level 0 of a subrange goes, if all of it has `expired`. Tells whether there is work now.
    fn end_expired_level0(
        &self,
        space: &Arc<KeyspaceState>,
        subrange: &Subrange,
        expired: &impl Fn(Seq) -> bool,
    ) -> bool {
        let view = subrange.view.load_full();
        let (is_written, waiting) = (subrange.write_head.bytes() > 0, &view.memtables[1..]);
        if !is_written && waiting.is_empty() && view.runs.is_empty() {
            subrange.expired.store(false, Relaxed);
            return false;
        }
        let memtables = waiting.iter().map(|memtable| memtable.last_seq.load(Relaxed));
        let runs = view.runs.iter().map(|run| run.desc.max_seq);
        let active = if is_written { subrange.write_head.last_seq() } else { Seq::ZERO };
        let newest = memtables.chain(runs).fold(active, Seq::max);
        if newest <= subrange.expired_upto.load(Relaxed) || !expired(newest) {
            return false;
        }
        if is_written {
            let _admin = space.admin.lock().unwrap_or_else(PoisonError::into_inner);
            self.switch_memtable(subrange);
            self.update_reserve();
            return true;
        }
        // What waits is flushed first.
        if !waiting.is_empty() {
            return false;
        }
        subrange.expired_upto.store(newest, Relaxed);
        subrange.expired.store(true, Relaxed);
        true
    }
}
