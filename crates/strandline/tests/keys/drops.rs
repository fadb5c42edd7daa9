//! Keyspaces dropped while everything else goes on: what they had is freed once, and all of it.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{Place, assert_nothing_leaked, noise, scattered};
use ssd::Memory;
use strandline::{Db, ErrorKind, Keyspace, Options};

const MIB: u64 = 1 << 20;
const ROUNDS: u64 = 300;

/// A small store with tables in persistent memory and threads of its own.
fn options() -> Options {
    Options::preset("l0l1-pm")
        .expect("preset")
        .pm_size(8 * MIB)
        .zone_size(16 << 10)
        .memtable_bytes(16 << 10)
        .table_bytes(8 << 10)
        .block_cache(MIB)
        .background_threads(2)
        .recovery_threads(1)
}

/// What was asked of a keyspace that another thread drops: it is done, or the keyspace is gone.
#[track_caller]
fn done_or_gone(result: strandline::Result<()>) -> bool {
    match result {
        Ok(()) => true,
        Err(error) if error.kind() == ErrorKind::Closed => false,
        Err(error) => panic!("{error}"),
    }
}

/// Tells the other threads to end, even after a panic.
struct AtEnd<'a>(&'a AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn fill(space: &Keyspace, from: u64, count: u64) -> bool {
    (from..from + count).all(|i| done_or_gone(space.put(scattered(i), noise(i, 0))))
}

/// A compaction that had just put its tables into the tree was still listed as under way when the keyspace was dropped. So
/// they were released twice: as what a compaction that is given up had written, and as tables of the keyspace. The pool
/// noticed, unless another owner had the space by then: that one lost it.
#[test]
fn a_keyspace_dropped_while_it_is_compacted_gives_its_space_back_once() {
    let place = Place::new(8 * MIB, Memory::default());
    let db = place.open(options());
    for round in 0..ROUNDS {
        let space = db.create_keyspace("doomed").expect("create");
        assert!(fill(&space, 0, 40));
        space.delete_range(scattered(3), scattered(30)).expect("delete a range");
        let dropped = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _in_any_case = AtEnd(&dropped);
            scope.spawn(|| {
                let compact = || db.compact_range(&space, None, None);
                while !dropped.load(Ordering::Relaxed) && done_or_gone(compact()) {
                    fill(&space, round, 20);
                }
            });
            scope.spawn(|| fill(db.default_keyspace(), 100 * (round % 20), 100));
            std::thread::sleep(std::time::Duration::from_micros(37 * (round % 64)));
            db.drop_keyspace("doomed").expect("drop");
        });
    }
    quiet(&db);
}

#[track_caller]
fn quiet(db: &Db) {
    db.compact().expect("compact");
    assert_nothing_leaked(db, "quiet");
    assert!(db.check().expect("check").damage.is_empty());
}
