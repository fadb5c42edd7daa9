//! The move of a value file to another tier. Tables refer to it by its number, so that one edit, which says where it lies now, is all
//! there is to it: no table is written, no count changes, and no View.
//!
//! Merges go on meanwhile. One that writes references to it finds the same value file in memory, wherever that lies (I-VALUE-4);
//! one that drops the last reference may end first. The move looks for that under the lock that such a merge ends under, and
//! then gives its copy up.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use base::Result;
use base::planted::{self, Bug};

use crate::compaction::under_way::{Compaction, WrittenBytes};
use crate::engine::Engine;
use crate::hooks::events::CompactionOutput;
use crate::manifest::edit::VersionEdit;
use crate::tree::space::TableSpace;
use crate::tree::tables::Tables;
use crate::tree::value_file::ValueFile;
use crate::tree::value_site::ValueSite;

/// A value file that moves; no other job moves it as long as this is there.
pub(crate) struct ValueMove {
    pub file: Arc<ValueFile>,
    /// Its copy, once that is whole.
    copy: Mutex<Option<ValueSite>>,
}

impl ValueMove {
    /// Claims a value file, which lies in `tier`; `None` if it does not any more, or moves already.
    pub(crate) fn claim(file: &Arc<ValueFile>, tier: u32) -> Option<ValueMove> {
        if !file.busy.take() {
            return None;
        }
        // Its drop releases the mark.
        let moves = ValueMove { file: Arc::clone(file), copy: Mutex::default() };
        (file.site().place().tier == tier && file.is_named()).then_some(moves)
    }

    pub(crate) fn put(&self, copy: TableSpace) {
        *self.copy.lock().unwrap_or_else(PoisonError::into_inner) = Some(ValueSite::new(copy));
    }

    /// Takes the copy: what is taken and not named goes.
    pub(crate) fn take(&self) -> Option<ValueSite> {
        self.copy.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for ValueMove {
    fn drop(&mut self) {
        self.file.busy.release();
    }
}

impl Engine {
    /// C4 and C5: its name is durable, then an edit says where it lies, then readers find it there, and its old file goes with those
    /// that it still has.
    pub(crate) fn install_value_move(
        &self,
        tables: &Tables,
        compaction: &Compaction,
        moves: &ValueMove,
    ) -> Result<()> {
        let space = &compaction.space;
        let Some(copy) = moves.take() else { return Ok(()) };
        let tier = copy.place().tier;
        if !planted::is(Bug::MovedValuesUnnamed) {
            tables.sync_dirs(&BTreeSet::from([tier]))?;
        }
        // As the end of any compaction.
        let _admin = space.admin.lock().unwrap_or_else(PoisonError::into_inner);
        let given_up = space.dropped.load(Relaxed) || compaction.failure.get().is_some();
        let is_named = moves.file.is_named() || planted::is(Bug::MovesDroppedValues);
        if given_up || !is_named {
            return Ok(());
        }
        if planted::is(Bug::MovedValuesRemovedFirst) {
            moves.file.plant_remove();
        }
        planted::step("before the edit of a moved value file");
        let (keyspace, id) = (space.id, moves.file.desc.id);
        let edit = self.edit(vec![VersionEdit::MoveValueFile { keyspace, id, tier }])?;
        planted::step("after the edit of a moved value file");
        moves.file.move_to(copy);
        edit.end();
        let written = WrittenBytes::of(&[], &[moves.file.desc_now()]);
        self.count(compaction, written, 0);
        let output = CompactionOutput { tables: 0, bytes: written.all() };
        compaction.tell_end(|| Ok(output));
        Ok(())
    }
}
