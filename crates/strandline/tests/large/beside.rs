//! Large commits beside other writers and readers: readers see all or nothing, others are not lost, and all get through.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::common::{Contents, TempDir, dump, numbered, small_levels};
use strandline::{Batch, Db, Level0Form, Options, PmSource, ReadOptions, SsdSource, WalSync};

fn all_or_nothing(name: &str, options: Options) {
    let dir = TempDir::new(name);
    let db = Db::open(dir.path(), options.clone()).expect("open");
    let (space, done, counted) = (db.default_keyspace(), AtomicBool::new(false), AtomicU64::new(0));
    let write = |round: u64, writer: u64| {
        let mut batch = Batch::new();
        (0..1200).for_each(|i| batch.put(space, numbered(i), (round << 8 | writer).to_le_bytes()));
        db.write(&batch).expect("a large batch");
    };
    write(0, 0);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (db, done, counted) = (&db, &done, &counted);
            scope.spawn(move || {
                let mut i = 0_u64;
                while !done.load(Relaxed) {
                    let key = [&b"small"[..], &[writer], &i.to_be_bytes()].concat();
                    db.put(&key, i.to_le_bytes()).expect("a small put");
                    counted.fetch_add(1, Relaxed);
                    i += 1;
                    if i.is_multiple_of(512) {
                        // It keeps within what fits.
                        let from = [&b"small"[..], &[writer]].concat();
                        db.delete_range(&from, [&b"small"[..], &[writer, 0xff]].concat())
                            .expect("delete");
                        i = 0;
                    }
                }
            });
        }
        for reader in 0..2 {
            let (db, done) = (&db, &done);
            scope.spawn(move || {
                while !done.load(Relaxed) {
                    let snapshot = db.snapshot();
                    let at = ReadOptions::at(&snapshot);
                    let get = |i| space.get_with(numbered(i), &at).expect("get").expect("there");
                    let first = get(0);
                    for i in [1, 17, 600, 1199] {
                        assert_eq!(get(i), first, "{reader}: a part of a commit");
                    }
                    let scanned: Contents = dump(space, &at);
                    let keys = scanned.range(numbered(0)..numbered(1200));
                    assert!(keys.clone().count() == 1200);
                    assert!(keys.map(|(_, value)| value).all(|value| *value == first));
                }
            });
        }
        let writers: Vec<_> = (1..3)
            .map(|writer| scope.spawn(move || (1..25).for_each(|round| write(round, writer))))
            .collect();
        let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Relaxed);
        assert!(ended.iter().all(Result::is_ok));
    });
    assert!(counted.load(Relaxed) > 100, "small writers got through");
    assert_eq!(db.properties().large_commits.committed, 49);
    let last = dump(space, &ReadOptions::default());
    assert!(db.check().expect("check").damage.is_empty());
    drop(db);
    let db = Db::open(dir.path(), options).expect("open");
    assert!(dump(db.default_keyspace(), &ReadOptions::default()) == last);
}

#[test]
fn readers_see_all_or_nothing() {
    let options = small_levels().pm_size(16 << 20).background_threads(2);
    all_or_nothing("large-beside", options.clone());
    all_or_nothing("large-beside-cuts", options.clone().subranges(4));
    all_or_nothing("large-beside-sst", options.clone().level0(Level0Form::Sst));
    all_or_nothing("large-beside-runs", options.clone().ssd(SsdSource::None));
}

#[test]
fn readers_see_all_or_nothing_with_a_log() {
    let options = small_levels().pm_size(16 << 20).background_threads(2).pm(PmSource::Dram);
    all_or_nothing("large-beside-wal", options.clone().wal_sync(WalSync::Always));
    all_or_nothing("large-beside-wal-never", options.wal_sync(WalSync::Never));
}
