//! The forms of level 0: what becomes of a memtable, and that no answer depends on it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::{
    Contents, TempDir, assert_nothing_leaked, dump, kind_of, noise, numbered as key, small_levels,
};
use strandline::{
    Batch, Db, ErrorKind, Level0Form, Options, PmSource, ReadOptions, SsdSource, steps,
};
use testkit::Rng;

fn options(level0: Level0Form) -> Options {
    small_levels().level0(level0).subranges(1)
}

/// Runs and tables of the default keyspace.
fn shape(db: &Db) -> (usize, usize) {
    let keyspace = &db.properties().keyspaces[0];
    (keyspace.runs.len(), keyspace.levels.iter().map(|level| level.tables.len()).sum())
}

/// Overwrites, deletions and range deletions of a few thousand keys, many memtables long.
fn churn(db: &Db, model: &mut Contents, rounds: u64, seed: u64) {
    let mut rng = Rng::new(seed);
    for round in 0..rounds {
        let at = rng.below(4000);
        match rng.below(20) {
            0 => {
                let (from, to) = (key(at), key(at + 20));
                db.delete_range(&from, &to).expect("delete range");
                model.retain(|key, _| *key < from || *key >= to);
            }
            1..4 => {
                db.delete(key(at)).expect("delete");
                model.remove(&key(at));
            }
            4 => {
                let mut batch = Batch::new();
                for each in [at, at + 1000, at + 2000] {
                    batch.put(
                        db.default_keyspace(),
                        key(each),
                        format!("batch {round}").as_bytes(),
                    );
                    model.insert(key(each), format!("batch {round}").into_bytes());
                }
                db.write(&batch).expect("write");
            }
            _ => {
                let value = vec![b'a' + (round % 26) as u8; 100 + rng.below(200) as usize];
                db.put(key(at), &value).expect("put");
                model.insert(key(at), value);
            }
        }
    }
}

fn all(db: &Db) -> Contents {
    dump(db.default_keyspace(), &ReadOptions::default())
}

#[test]
fn no_answer_depends_on_the_form() {
    let forms = [Level0Form::GlobalIndex, Level0Form::IndexRuns, Level0Form::Sst];
    for (at, form) in forms.into_iter().enumerate() {
        let dir = TempDir::new(&format!("level0-{at}"));
        let mut model = BTreeMap::new();
        for round in 0..3 {
            // Each open continues what the one before has made, in another form.
            let form = if round == 1 { forms[(at + 1) % 3] } else { form };
            let db = Db::open(dir.join("db"), options(form)).expect("open");
            churn(&db, &mut model, 12_000, round);
            let snapshot = db.snapshot();
            let before = model.clone();
            churn(&db, &mut model, 2000, 100 + round);
            let then = ReadOptions::at(&snapshot);
            assert!(dump(db.default_keyspace(), &then) == before, "{form:?} {round}");
            assert!(all(&db) == model, "{form:?} {round}");
            for at in 0..4000 {
                let found = db.get(key(at)).expect("get");
                assert_eq!(found.as_deref(), model.get(&key(at)).map(|value| &value[..]));
            }
            while !db.work(usize::MAX).expect("work").is_idle() {}
            assert!(db.check().expect("check").damage.is_empty());
            assert_nothing_leaked(&db, "quiet");
        }
    }
}

#[test]
fn a_flush_makes_what_the_form_says() {
    for (form, runs, tables) in
        [(Level0Form::GlobalIndex, 1, 0), (Level0Form::IndexRuns, 1, 0), (Level0Form::Sst, 0, 1)]
    {
        let dir = TempDir::new(&format!("level0-flush-{form:?}"));
        let db = Db::open(dir.join("db"), options(form)).expect("open");
        db.put(b"key", b"value").expect("put");
        db.delete_range(b"a", b"b").expect("delete range");
        db.flush().expect("flush");
        assert_eq!(shape(&db), (runs, tables), "{form:?}");
        // Nothing is left in persistent memory but the zone that stands ready.
        let free = db.properties().pm_free;
        db.compact().expect("compact");
        assert_eq!(db.get(b"key").expect("get").as_deref(), Some(&b"value"[..]));
        assert!(form != Level0Form::Sst || db.properties().pm_free >= free);
    }
}

#[test]
fn runs_stay_apart_until_there_are_too_many() {
    let dir = TempDir::new("level0-runs");
    let big = options(Level0Form::IndexRuns).pm_size(32 << 20);
    let db = Db::open(dir.join("db"), big).expect("open");
    let mut most = 0;
    for round in 0..60 {
        for at in 0..200 {
            db.put(key(at * 7), [round; 100]).expect("put");
        }
        db.flush().expect("flush");
        most = most.max(shape(&db).0);
        while !db.work(usize::MAX).expect("work").is_idle() {}
        assert!(shape(&db).0 <= 8, "{:?} after {round}", shape(&db));
    }
    assert!(most >= 8 && shape(&db).1 > 0, "{most} runs at most, {:?} now", shape(&db));
}

/// A long merge is under way, a few entries at a time; what is flushed meanwhile does not gather behind it.
#[test]
fn runs_that_come_during_a_merge_are_merged_beside_it() {
    let dir = TempDir::new("level0-beside");
    let with = options(Level0Form::GlobalIndex)
        .ssd(SsdSource::None)
        .pm_size(64 << 20)
        .zone_size(0)
        .memtable_bytes(4 << 20);
    let open = || Db::open(dir.join("db"), with.clone()).expect("open");
    let (db, mut model) = (open(), BTreeMap::new());
    for seed in 0..9 {
        churn(&db, &mut model, 3000, seed);
        db.flush().expect("flush");
    }
    let ids = |db: &Db| -> Vec<u64> {
        db.properties().keyspaces[0].runs.iter().map(|run| run.id).collect()
    };
    let long = ids(&db);
    assert_eq!(long.len(), 9);
    let is_merged = |db: &Db| long.iter().any(|id| !ids(db).contains(id));
    let (mut most, mut snapshot) = (0, None);
    for round in 0..60 {
        churn(&db, &mut model, 30, 100 + round);
        if round == 20 {
            snapshot = Some((db.snapshot(), model.clone()));
        }
        db.flush().expect("flush");
        assert!(!db.work(100).expect("work").is_idle());
        most = most.max(shape(&db).0);
        assert!(all(&db) == model, "after {round}");
    }
    assert!(!is_merged(&db), "60 rounds of 100 entries do not end it");
    assert!((13..30).contains(&most), "{most} runs at most");
    let (snapshot, before) = snapshot.expect("one was taken");
    let then = ReadOptions::at(&snapshot);
    while !db.work(1000).expect("work").is_idle() {
        assert!(dump(db.default_keyspace(), &then) == before && all(&db) == model);
    }
    assert!(is_merged(&db) && shape(&db).0 <= 4, "{:?}", shape(&db));
    assert_nothing_leaked(&db, "quiet");
    drop((snapshot, db));
    let db = open();
    assert!(all(&db) == model);
    assert!(db.check().expect("check").damage.is_empty());
}

#[test]
fn a_memtable_that_is_cut_becomes_a_run_first() {
    let dir = TempDir::new("level0-cut");
    let db = Db::open(dir.join("db"), options(Level0Form::Sst)).expect("open");
    let mut model = BTreeMap::new();
    churn(&db, &mut model, 60, 1);
    let space = db.default_keyspace();
    assert!(steps::split(space, &key(2000)).expect("split"));
    db.flush().expect("flush");
    assert_eq!(shape(&db).0, 1, "both subranges read the run");
    churn(&db, &mut model, 3000, 2);
    while !db.work(usize::MAX).expect("work").is_idle() {}
    db.flush().expect("flush");
    assert_eq!(shape(&db).0, 0);
    assert!(shape(&db).1 > 1 && steps::subranges(space) == 2);
    assert!(all(&db) == model);
    assert!(db.check().expect("check").damage.is_empty());
}

/// It stayed with the other half for ever, and memtables of it behind it.
#[test]
fn a_run_is_given_to_those_who_have_keys_of_it() {
    let dir = TempDir::new("level0-half");
    let db = Db::open(dir.join("db"), options(Level0Form::Sst)).expect("open");
    let space = db.default_keyspace();
    for at in 0..100 {
        db.put(key(at), b"lower half").expect("put");
    }
    assert!(steps::split(space, &key(2000)).expect("split"));
    db.put(key(3000), b"upper half").expect("put");
    db.flush().expect("flush");
    while !db.work(usize::MAX).expect("work").is_idle() {}
    db.flush().expect("flush");
    assert_eq!(shape(&db).0, 0);
    assert_eq!(all(&db).len(), 101);
}

#[test]
fn a_number_of_subranges_is_kept_in_every_form() {
    for form in [Level0Form::IndexRuns, Level0Form::Sst] {
        let dir = TempDir::new(&format!("level0-subranges-{form:?}"));
        let with = options(form).subranges(3).memtable_bytes(128 << 10);
        let db = Db::open(dir.join("db"), with).expect("open");
        let mut model = BTreeMap::new();
        churn(&db, &mut model, 12_000, 1);
        while !db.work(usize::MAX).expect("work").is_idle() {}
        assert_eq!(steps::subranges(db.default_keyspace()), 3, "{form:?}");
        assert!(all(&db) == model);
        drop(db);
        let db = Db::open(dir.join("db"), options(form)).expect("open");
        assert!(all(&db) == model);
    }
}

/// No more is taken than there is room for: it stays, is read, and goes on once there is more. It was taken until the pool
/// was full, and could not be flushed.
#[test]
fn what_is_taken_can_be_flushed() {
    let dir = TempDir::new("level0-full");
    let with = options(Level0Form::Sst).ssd_size(400 << 10);
    let db = Db::open(dir.join("db"), with.clone()).expect("open");
    let mut model = BTreeMap::new();
    let refused = (0..20_000).find_map(|at| {
        let refused = db.put(key(at), noise(at, 0)).err();
        if refused.is_none() {
            model.insert(key(at), noise(at, 0));
        }
        refused
    });
    let refused = refused.expect("there is little room");
    assert_eq!(refused.kind(), ErrorKind::NoSpace);
    assert!(refused.context().contains("ssd_size"), "{refused}");
    assert!(model.len() > 1000, "{} taken", model.len());
    assert!(all(&db) == model);
    db.flush().expect("what was taken has room");
    assert!(all(&db) == model);
    drop(db);
    let db = Db::open(dir.join("db"), with.ssd_size(0)).expect("open");
    assert!(all(&db) == model);
    for at in 20_000..30_000 {
        db.put(key(at), noise(at, 1)).expect("put");
        model.insert(key(at), noise(at, 1));
    }
    db.flush().expect("flush");
    assert_eq!(shape(&db).0, 0);
    assert!(all(&db) == model);
}

/// A subrange may come with a run that has none of its keys: memtables waited behind it for ever.
#[test]
fn a_store_without_tables_gets_some() {
    let dir = TempDir::new("level0-later");
    let without = options(Level0Form::GlobalIndex).ssd(SsdSource::None);
    let db = Db::open(dir.join("db"), without).expect("open");
    for at in 0..100 {
        db.put(key(at), b"lower half").expect("put");
    }
    assert!(steps::split(db.default_keyspace(), &key(2000)).expect("split"));
    db.flush().expect("flush");
    drop(db);
    let tables = SsdSource::Path(dir.join("sst"));
    let with = options(Level0Form::Sst).ssd(tables);
    let db = Db::open(dir.join("db"), with).expect("open");
    db.put(key(3000), b"upper half").expect("put");
    db.flush().expect("flush");
    while !db.work(usize::MAX).expect("work").is_idle() {}
    assert_eq!(shape(&db).0, 0);
    assert_eq!(all(&db).len(), 101);
    assert_eq!(steps::leaked_zones(db.default_keyspace()), 0);
}

/// What is damaged is merged no more; its memtables become runs, and no caller waits for them.
#[test]
fn a_damaged_keyspace_is_still_flushed() {
    let dir = TempDir::new("level0-damaged");
    let db = Db::open(dir.join("db"), options(Level0Form::Sst)).expect("open");
    let other = db.create_keyspace("other").expect("keyspace");
    let fill = |value: &[u8]| {
        for at in 0..300 {
            db.put(key(at), value.repeat(100)).expect("put");
            other.put(key(at), value).expect("put");
        }
    };
    fill(b"a");
    db.compact().expect("compact");
    for level in &db.properties().keyspaces[0].levels {
        for table in &level.tables {
            let mut bytes = std::fs::read(&table.path).expect("table");
            bytes[100] ^= 1;
            std::fs::write(&table.path, bytes).expect("damaged");
        }
    }
    for round in 0..20_u8 {
        fill(&[b'b' + round]);
        // The first compaction that meets the damage may say so.
        let _told = db.flush();
    }
    db.flush().expect("flush");
    assert!(db.properties().damage_met.is_some());
    assert!(shape(&db).0 > 0, "runs");
    for at in 0..300 {
        assert_eq!(db.get(key(at)).expect("get"), Some(b"u".repeat(100)));
        assert_eq!(other.get(key(at)).expect("get"), Some(b"u".to_vec()));
    }
}

#[test]
fn without_tables_there_is_one_form() {
    for (level0, name) in [(Level0Form::IndexRuns, "index-runs"), (Level0Form::Sst, "sst")] {
        let with = Options::default()
            .level0(level0)
            .pm(PmSource::Heap)
            .pm_size(16 << 20)
            .ssd(SsdSource::None);
        let dir = TempDir::new("level0-none");
        let refused = Db::open(dir.join("db"), with.clone()).map(drop);
        let text = refused.as_ref().expect_err("refused").to_string();
        assert!(text.contains(&format!("level0={name}")), "{text}");
        assert_eq!(kind_of(refused), ErrorKind::InvalidArgument);
    }
}

/// Writers on two threads, background work on two: every form keeps up, and what was written is there.
#[test]
fn with_threads() {
    for level0 in [Level0Form::IndexRuns, Level0Form::Sst] {
        let dir = TempDir::new(&format!("level0-threads-{level0:?}"));
        let with = options(level0).background_threads(2).subranges(0);
        let db = Arc::new(Db::open(dir.join("db"), with).expect("open"));
        std::thread::scope(|scope| {
            for writer in 0..2_u64 {
                let db = &db;
                scope.spawn(move || {
                    for at in 0..20_000 {
                        let value = [writer as u8 + 1; 120];
                        db.put(key(2 * (at * 7919 % 20_000) + writer), value).expect("put");
                    }
                });
            }
        });
        db.flush().expect("flush");
        let all = all(&db);
        assert_eq!(all.len(), 40_000);
        let is_right = |(at, value): (usize, &Vec<u8>)| value[..] == [at as u8 % 2 + 1; 120];
        assert!(all.values().enumerate().all(is_right));
        assert!(db.check().expect("check").damage.is_empty());
    }
}
