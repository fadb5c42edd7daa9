//! The move of a value file to another tier. Tables refer to it by its number, so that one edit, which says where it lies now, is all
//! there is to it: no table is written, no count changes, and no View.
//!
//! Merges go on meanwhile. One that writes references to it finds the same value file in memory, wherever that lies (I-VALUE-4);
//! one that drops the last reference may end first. The move looks for that under the lock that such a merge ends under, and
//! then gives its copy up.

use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

use base::Result;
use base::planted::{self, Bug};

use crate::compaction::under_way::value_move::ValueMove;
use crate::compaction::under_way::{Compaction, WrittenBytes};
use crate::engine::Engine;
use crate::hooks::events::CompactionOutput;
use crate::manifest::edit::VersionEdit;
use crate::tree::tables::Tables;

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
        if given_up || !moves.file.is_named() {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pmem::Region;
    use ssd::{Fs, Memory};

    use super::*;
    use crate::compaction::run::DueWork;
    use crate::options::{KeyspaceOptions, KeyspaceTiers, TierSource, TierSpec};
    use crate::{Db, Options};

    /// A store whose value files, in `/fast`, are to move to its own directory, and such a move that has begun.
    fn begun(fs: &Arc<dyn Fs>) -> (Db, Arc<Compaction>) {
        let region = Arc::new(Region::heap(8 << 20, None).expect("heap"));
        let fast = TierSource::Dirs(vec![TierSpec::new("/fast", 0)]);
        let options = Options { background_threads: 0, ..Options::default() };
        let options = options.tiers(fast).value_files_min(200);
        let db = Db::open_on(region, Arc::clone(fs), "/sst", options).expect("open");
        let space = db.create_keyspace("values").expect("create");
        write(&db, 1);
        db.compact().expect("compact");
        while !db.work(1 << 20).expect("work").is_idle() {}
        let own = KeyspaceTiers::Dirs(vec!["/sst".into()]);
        space.set_options(&KeyspaceOptions::new().tiers(own)).expect("set");
        let engine = db.engine();
        let mut plan = engine.plan_tiers(None);
        let moves = loop {
            let mut compactions = engine.background.compactions();
            match engine.begin_planned(&mut compactions, &mut plan) {
                DueWork::Begun(begun) if begun.moves.is_some() => {
                    compactions.under_way.push(Arc::clone(&begun));
                    break begun;
                }
                // Of a table: it is given up.
                DueWork::Begun(_) => {}
                DueWork::Nothing | DueWork::Failed => panic!("no value file moves"),
            }
        };
        (db, moves)
    }

    fn write(db: &Db, round: u8) {
        let space = db.keyspace("values").expect("keyspace");
        (0..40_u8).for_each(|key| space.put([key], [key ^ round; 300]).expect("put"));
    }

    fn assert_sound(db: &Db, fs: &Arc<dyn Fs>, round: u8) {
        while !db.work(1 << 20).expect("work").is_idle() {}
        for key in 0..40 {
            let space = db.keyspace("values").expect("keyspace");
            assert_eq!(space.get([key]).expect("get").as_deref(), Some(&[key ^ round; 300][..]));
        }
        assert!(db.check().expect("check").damage.is_empty());
        let tree = db.engine().keyspaces.all().remove(1).tree();
        let names = tree.values.iter().map(|live| live.file.site().place());
        let mut names: Vec<String> = names.map(|place| place.name.text()).collect();
        names.sort();
        for (dir, expected) in [("/sst", names), ("/fast", Vec::new())] {
            let there = fs.list(dir.as_ref()).expect("list").into_iter();
            let mut there: Vec<String> = there.filter(|name| name.ends_with(".blob")).collect();
            there.sort();
            assert_eq!(there, expected, "{dir}");
        }
    }

    /// The edit of the move would tell of a value file that is not there.
    #[test]
    fn a_value_file_that_ends_while_it_moves_stays_gone() {
        let fs: Arc<dyn Fs> = Arc::new(Memory::default());
        let (db, moves) = begun(&fs);
        let file = Arc::clone(&moves.moves.as_ref().expect("a move").file);
        write(&db, 2);
        db.compact().expect("compact");
        assert!(!file.is_named(), "nothing refers to it any more");
        assert_eq!(db.engine().compaction_figures().failed, 0);
        drop((file, moves));
        assert_sound(&db, &fs, 2);
    }

    /// New tables refer to what has moved since their merge began.
    #[test]
    fn a_value_file_moves_while_a_merge_refers_to_it() {
        let fs: Arc<dyn Fs> = Arc::new(Memory::default());
        let (db, moves) = begun(&fs);
        let file = Arc::clone(&moves.moves.as_ref().expect("a move").file);
        db.keyspace("values").expect("keyspace").put([20, 0], "short").expect("put");
        db.compact().expect("compact");
        assert!(file.is_named() && file.desc_now().tier == 0, "it moved, and keeps its tables");
        drop((file, moves));
        assert_sound(&db, &fs, 1);
    }

    #[test]
    fn a_keyspace_that_is_dropped_takes_its_moves_along() {
        let fs: Arc<dyn Fs> = Arc::new(Memory::default());
        let (db, moves) = begun(&fs);
        db.drop_keyspace("values").expect("drop");
        drop(moves);
        while !db.work(1 << 20).expect("work").is_idle() {}
        for dir in ["/sst", "/fast"] {
            let there = fs.list(dir.as_ref()).expect("list");
            assert!(!there.iter().any(|name| name.ends_with(".blob")), "{dir}: {there:?}");
        }
    }
}
