//! Blocks of outputs are put in the cache for those of the inputs that were there (`cache_outputs`), so that readers of hot keys do not
//! miss them all at once.
//!
//! A merge notes which blocks it writes from cached ones ([`crate::compaction::merge`]). Once an edit and a View name the tables, these blocks
//! wait in a queue, and the background reads them, a few in a turn, with no lock held. What a reader has read by then is not read again.
//!
//! **I-WARM-1** A block is put in under its own table and offset, after an edit and a View named the table, by one who holds the table: so it goes
//! with the table's file, as all of its blocks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::planted::{self, Bug};
use base::{Error, Result};
use sst::{Handle, Layout, Role};

use crate::caught::{caught, panicked};
use crate::compaction::under_way::warm::{WarmQueue, WarmTable};
use crate::engine::Engine;
use crate::hooks::events::queue::WritesAfter;
use crate::keyspace::KeyspaceState;
use crate::options::CacheOutputs;
use crate::tree::blocks::File;
use crate::tree::space::NewTable;

/// What is warm of new tables, by their numbers.
pub(crate) type WarmOutputs = BTreeMap<u64, Vec<Handle>>;

/// Takes out what is warm of new tables.
pub(crate) fn take_warm(made: &mut [NewTable]) -> WarmOutputs {
    let all = made.iter_mut().map(|new| (new.desc.id, std::mem::take(&mut new.warm)));
    all.filter(|(_, blocks)| !blocks.is_empty()).collect()
}

impl Engine {
    /// Bytes of blocks that may wait to be put in the cache, and that the parts of a compaction note together.
    pub(crate) fn warm_most(&self) -> u64 {
        match (self.options().cache_outputs, &self.tables) {
            (CacheOutputs::Warm, Some(tables)) => tables.cache.cache.budget() / 2,
            (CacheOutputs::Warm | CacheOutputs::Off, _) => 0,
        }
    }

    /// Has these blocks put in the cache by and by; all of the tables are installed.
    pub(crate) fn warm_later(&self, space: &KeyspaceState, mut warm: WarmOutputs) {
        if warm.is_empty() {
            return;
        }
        let (most, tree) = (self.warm_most(), Arc::clone(&space.subranges()[0].view.load().tree));
        for (_, table) in tree.tables() {
            if let Some(blocks) = warm.remove(&table.desc.id) {
                self.background.warm.push(WarmTable::new(table, blocks), most);
            }
        }
        self.background.member.wake();
    }

    /// As [`Engine::warm_outputs`], in every other turn.
    pub(crate) fn warm_outputs_in_turn(&self) -> bool {
        self.background.warms_outputs.fetch_not(Relaxed) && self.warm_outputs()
    }

    /// Puts some blocks of outputs in the cache; `false` if none wait, or while a writer waits for space: it must not wait for this, too.
    /// What cannot be read is not put in: a reader that needs it is told why.
    pub(crate) fn warm_outputs(&self) -> bool {
        let queue = &self.background.warm;
        if self.background.throttle.has_waiters() {
            return false;
        }
        let Some(next) = queue.take() else { return false };
        if self.options().cache_outputs == CacheOutputs::Off {
            queue.clear();
            return true;
        }
        let done = caught(|| self.warm_some(next, queue));
        if let Err(error) = done.unwrap_or_else(|said| Err(panicked("warm", &said))) {
            self.note_cold(&error);
        }
        true
    }

    fn warm_some(&self, mut next: WarmTable, queue: &WarmQueue) -> Result<()> {
        planted::step("warm an output");
        // Held until its blocks are there (I-WARM-1).
        let Some(table) = next.table() else { return Ok(()) };
        table.warm(&next.next_blocks())?;
        queue.take_back(next);
        Ok(())
    }

    /// Notes that blocks of a table could not be read; the rest of them is left out.
    fn note_cold(&self, error: &Error) {
        self.tables.iter().for_each(|tables| tables.cache.cache.note_warm_failed());
        self.events.note_error(error, WritesAfter::GoOn);
    }

    /// A planted bug: blocks are put in the cache although no edit names their tables.
    pub(crate) fn plant_warm(&self, made: &[NewTable]) {
        let Some(tables) = self.tables.as_ref().filter(|_| planted::is(Bug::WarmBeforeInstall))
        else {
            return;
        };
        for new in made {
            let Ok(file) = tables.open(&new.desc, None).map(File) else { continue };
            let Ok(layout) = Layout::open(&file) else { continue };
            for handle in &new.warm {
                if let Ok(block) = layout.load(&file, *handle, Role::Data) {
                    let key = tables.cache.key(new.desc.id, handle.offset);
                    tables.cache.keep_output(key, block, Default::default());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pmem::Region;
    use ssd::Memory;

    use super::*;
    use crate::quantum::Worked;
    use crate::{Db, Options};

    #[test]
    fn none_are_read_while_a_writer_waits_for_space() {
        let region = Arc::new(Region::heap(4 << 20, None).expect("heap"));
        let options = Options::default().background_threads(0).cache_outputs(CacheOutputs::Warm);
        let db = Db::open_on(region, Arc::new(Memory::default()), "/sst", options).expect("open");
        let put = |value: &[u8]| {
            (0..100_u8).for_each(|key| db.put([key], value).expect("put"));
            db.compact().expect("compact");
        };
        put(&[1; 500]);
        (0..100_u8).for_each(|key| assert!(db.get([key]).expect("get").is_some()));
        put(&[2; 500]);
        let engine = db.engine();
        let warmed = || db.properties().ssd.expect("levels").cache.warmed;
        let writer = engine.background.throttle.wait(1);
        for _ in 0..20 {
            assert_ne!(engine.work_on_levels(1 << 20).expect("work"), Worked::Did);
        }
        assert_eq!((warmed(), engine.background.warm.are_some()), (0, true));
        drop(writer);
        while !db.work(1 << 20).expect("work").is_idle() {}
        assert!(warmed() > 5 && !engine.background.warm.are_some(), "{}", warmed());
    }
}
