//! Stores in DRAM with a log: what comes back, what is refused, what failures leave, and how long the log gets.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::common::{Contents, TempDir, dump, kind_of, numbered, wait_until};
use ssd::{Append, Call, Disk, Failure, Faulty, Fs, Memory, Overwrite, Read, Rule};
use strandline::{
    Db, Durability, ErrorKind, Hooks, Options, PmSource, ReadOptions, Region, SsdSource, WalIo,
    WalSync, steps,
};
use testkit::Rng;

const POOL: u64 = 4 << 20;
const ID: u64 = 77;

fn options() -> Options {
    Options::default()
        .pm(PmSource::Dram)
        .pm_size(POOL)
        .zone_size(16 << 10)
        .memtable_bytes(64 << 10)
        .table_bytes(64 << 10)
        .background_threads(0)
        .recovery_threads(1)
}

fn contents(db: &Db) -> Contents {
    dump(db.default_keyspace(), &ReadOptions::default())
}

/// Files of the log in `dir`, oldest first.
fn segments(dir: &TempDir) -> Vec<PathBuf> {
    let files = std::fs::read_dir(dir.join("wal")).expect("wal").map(|file| file.expect("file"));
    let mut files: Vec<PathBuf> = files.map(|file| file.path()).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "wal"));
    files.sort();
    files
}

/// The bytes of a segment up to the last that is not zero: its file may be longer than what was written to it.
fn written(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1)
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).expect("read");
    change(&mut bytes);
    std::fs::write(path, bytes).expect("write");
}

#[test]
fn what_was_acknowledged_is_there_again() {
    let dir = TempDir::new("wal-reopen");
    let mut model = Contents::new();
    let mut rng = Rng::new(5);
    for round in 0..12_u64 {
        let sync = if round % 2 == 0 { WalSync::Always } else { WalSync::Never };
        let db = Db::open(dir.path(), options().wal_sync(sync)).expect("open");
        assert_eq!(contents(&db), model, "round {round}");
        for _ in 0..300 {
            let (key, value) =
                (numbered(rng.below(200)), vec![round as u8; rng.below(5000) as usize]);
            db.put(&key, &value).expect("put");
            model.insert(key, value);
        }
        let gone = numbered(rng.below(200));
        db.delete(&gone).expect("delete");
        model.remove(&gone);
        match round % 4 {
            1 => db.flush().expect("flush"),
            2 => db.compact().expect("compact"),
            _ => {}
        }
        assert_eq!(db.check().expect("check").damage, []);
    }
    // What the store is, it says itself; a reader writes nothing.
    let files = || {
        let of = |dir: &str| {
            let files = std::fs::read_dir(dir).expect("list").map(|file| file.expect("file"));
            files
                .map(|file| (file.path(), std::fs::read(file.path()).unwrap_or_default()))
                .collect()
        };
        let all: [BTreeMap<PathBuf, Vec<u8>>; 2] =
            [dir.path(), &dir.join("wal")].map(|dir| of(&dir.display().to_string()));
        all
    };
    let before = files();
    let reader = Db::open_read_only(dir.path(), Options::default()).expect("read");
    let other = Db::open_read_only(dir.path(), options()).expect("read beside it");
    assert_eq!((contents(&reader), contents(&other)), (model.clone(), model.clone()));
    assert_eq!(kind_of(reader.put(b"a", b"b")), ErrorKind::ReadOnly);
    assert_eq!(kind_of(Db::open(dir.path(), options())), ErrorKind::Busy);
    drop((reader, other));
    assert!(before == files());
    let db = Db::open(dir.path(), options().pm(PmSource::Auto)).expect("open");
    assert_eq!(contents(&db), model);
    let wal = db.properties().wal.expect("a log");
    assert!(wal.segments > 1 && wal.live_bytes > 0 && wal.bytes >= wal.live_bytes, "{wal:?}");
    for refused in [Db::open(dir.path(), options()), Db::open_read_only(dir.path(), options())] {
        let error = refused.err().expect("held");
        assert_eq!(error.kind(), ErrorKind::Busy);
        assert!(error.context().contains(&format!("pid {}", std::process::id())), "{error}");
    }
}

#[test]
fn a_store_is_opened_as_what_it_is() {
    let dir = TempDir::new("wal-other");
    let refused = |path: &Path, pm: PmSource, names: &str| {
        let error = Db::open(path, options().pm(pm)).err().expect("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.context().contains(names), "{error}");
    };
    let (dram, pool) = (dir.join("dram"), dir.join("pool"));
    assert_eq!(kind_of(Db::open_read_only(&dram, options())), ErrorKind::NotFound);
    drop(Db::open(&dram, options()).expect("made"));
    drop(Db::open(&pool, options().pm(PmSource::Auto)).expect("made"));
    refused(&dram, PmSource::Path(pool.join("pool")), "pm=dram");
    refused(&pool, PmSource::Dram, "pm=dram");
    // Without its log there is nothing to open.
    std::fs::rename(dram.join("wal"), dir.join("elsewhere")).expect("rename");
    assert_eq!(kind_of(Db::open(&dram, options())), ErrorKind::NotFound);
    let small = options().pm_size(1000);
    assert_eq!(kind_of(Db::open(dir.join("small"), small)), ErrorKind::InvalidArgument);
}

#[test]
fn it_says_what_a_write_survives() {
    let dir = TempDir::new("wal-class");
    let disk = tempfile::tempdir().expect("temporary directory");
    for (sync, on_disk) in
        [(WalSync::Always, Durability::Synced), (WalSync::Never, Durability::ProcessCrash)]
    {
        let with = options().wal_sync(sync);
        let db = Db::open(disk.path(), with.clone()).expect("open");
        assert!([on_disk, Durability::ProcessCrash].contains(&db.durability()));
        assert!(!db.properties().durability_note.is_empty());
        db.sync_wal().expect("sync");
        // Nothing needs to say that memory was synced.
        let db = Db::open(dir.path(), with).expect("open");
        let note = db.properties().durability_note;
        assert!(!note.contains("tmpfs") || db.durability() == Durability::ProcessCrash);
    }
    assert_eq!(Durability::Synced.to_string(), "synced to SSD");
    assert!(Durability::ProcessCrash < Durability::Synced);
    assert!(Durability::Synced < Durability::PowerFailAdr);
}

/// A store with so many puts that its log has several segments; no background work.
fn filled(dir: &TempDir) -> Contents {
    let db = Db::open(dir.path(), options()).expect("open");
    for i in 0..400_u64 {
        db.put(numbered(i), [i as u8; 2000]).expect("put");
    }
    contents(&db)
}

#[test]
fn a_torn_end_ends_the_log() {
    for cut in [1, 40, 2000] {
        let dir = TempDir::new("wal-torn");
        let mut model = filled(&dir);
        let newest = segments(&dir).pop().expect("segments");
        change(&newest, |bytes| {
            let end = written(bytes);
            bytes[end - cut..].fill(0);
        });
        model.remove(&numbered(399));
        let reader = Db::open_read_only(dir.path(), options()).expect("read");
        assert_eq!((contents(&reader), reader.recovery().damage.len()), (model.clone(), 0));
        drop(reader);
        for round in 0..3 {
            let db = Db::open(dir.path(), options()).expect("open");
            assert_eq!(contents(&db), model, "cut {cut}, round {round}");
            db.put(numbered(1000 + round), b"more").expect("put");
            model.insert(numbered(1000 + round), b"more".to_vec());
        }
    }
}

#[test]
fn garbage_behind_the_end_is_passed_over() {
    let dir = TempDir::new("wal-garbage");
    let model = filled(&dir);
    let files = segments(&dir);
    let newest = files.last().expect("segments");
    // Zeroes, and frames of another segment.
    let strange = std::fs::read(&files[0]).expect("read")[64..4096].to_vec();
    change(newest, |bytes| {
        let at = written(bytes) + 100;
        bytes.resize(bytes.len().max(at + strange.len()), 0);
        bytes[at..at + strange.len()].copy_from_slice(&strange);
    });
    assert_eq!(contents(&Db::open(dir.path(), options()).expect("open")), model);
    assert_eq!(contents(&Db::open(dir.path(), options()).expect("again")), model);
}

#[test]
fn damage_is_told_by_file_and_offset() {
    let dir = TempDir::new("wal-damage");
    let model = filled(&dir);
    let files = segments(&dir);
    assert!(files.len() > 2, "{files:?}");
    let mut told = 0;
    for (number, file) in files.iter().enumerate() {
        let good = std::fs::read(file).expect("read");
        let newest = number + 1 == files.len();
        // The last frames of the newest could be a torn end.
        let end = if newest { written(&good) - 6000 } else { written(&good) };
        for at in (0..end).step_by(end / 9).chain([end - 1, 3, 30, 62, 70, 100]) {
            change(file, |bytes| bytes[at] ^= 0x40);
            let error = Db::open(dir.path(), options()).err().expect("damage is refused");
            assert!(
                matches!(error.kind(), ErrorKind::Corruption | ErrorKind::NotSupported),
                "{at}: {error}"
            );
            assert!(error.context().contains(&file.display().to_string()), "{at}: {error}");
            assert!(error.context().contains("restore") || error.context().contains("release"));
            // What is left is read, and nothing of it is wrong.
            let Ok(reader) = Db::open_read_only(dir.path(), options()) else { continue };
            told += 1;
            let damage = &reader.recovery().damage;
            assert!(damage.iter().any(|one| one.file.as_ref() == Some(file)), "{at}: {damage:?}");
            for (key, value) in &model {
                match reader.get(key) {
                    Ok(found) => assert_eq!(found.as_ref(), Some(value), "{file:?}, byte {at}"),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption),
                }
            }
            drop(reader);
            std::fs::write(file, &good).expect("mended");
        }
        std::fs::write(file, &good).expect("mended");
    }
    assert!(told > 10, "{told} readers");
    assert_eq!(contents(&Db::open(dir.path(), options()).expect("mended")), model);
}

#[test]
fn missing_and_foreign_segments_are_told() {
    let (dir, other) = (TempDir::new("wal-missing"), TempDir::new("wal-foreign"));
    let model = filled(&dir);
    filled(&other);
    let (files, others) = (segments(&dir), segments(&other));
    for file in &files {
        let away = dir.join("away");
        std::fs::rename(file, &away).expect("away");
        let error = Db::open(dir.path(), options()).err().expect("missing");
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.context().contains(&file.display().to_string()), "{error}");
        std::fs::copy(&others[0], file).expect("foreign");
        let kind = kind_of(Db::open(dir.path(), options()));
        assert!(matches!(kind, ErrorKind::Corruption | ErrorKind::InvalidArgument), "{kind:?}");
        std::fs::rename(&away, file).expect("back");
    }
    // What a killed process left half made is in no one's way.
    std::fs::write(dir.join("wal/new-0000000099.wal"), b"half").expect("left");
    assert_eq!(contents(&Db::open(dir.path(), options()).expect("open")), model);
    assert!(!dir.join("wal/new-0000000099.wal").exists());
}

/// Nothing is behind the newest segment: `CHAIN` names it.
#[test]
fn a_log_without_its_newest_segment_is_refused() {
    let dir = TempDir::new("wal-newest");
    let model = filled(&dir);
    let (newest, chain) = (segments(&dir).pop().expect("segments"), dir.join("wal/CHAIN"));
    for file in [&newest, &chain] {
        let away = dir.join("away");
        std::fs::rename(file, &away).expect("away");
        let error = Db::open(dir.path(), options()).err().expect("missing");
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.context().contains(&file.display().to_string()), "{error}");
        let reader = Db::open_read_only(dir.path(), options()).expect("what is left is read");
        let damage = &reader.recovery().damage;
        assert!(damage.iter().any(|one| one.file.as_ref() == Some(file)), "{damage:?}");
        drop(reader);
        std::fs::rename(&away, file).expect("back");
    }
    // Either slot may be torn; without both, nothing says which segment is the newest.
    let good = std::fs::read(&chain).expect("read");
    for slot in [0, 4096] {
        change(&chain, |bytes| bytes[slot + 20] ^= 1);
        let reader = Db::open_read_only(dir.path(), options()).expect("read");
        assert_eq!((contents(&reader), reader.recovery().damage.len()), (model.clone(), 0));
        drop(reader);
        std::fs::write(&chain, &good).expect("mended");
    }
    change(&chain, |bytes| [20, 4116].into_iter().for_each(|at| bytes[at] ^= 1));
    let error = Db::open(dir.path(), options()).err().expect("both slots");
    assert!(error.context().contains(&chain.display().to_string()), "{error}");
    change(&chain, |bytes| bytes[20] ^= 1);
    assert_eq!(contents(&Db::open(dir.path(), options()).expect("one slot")), model);
    assert_eq!(contents(&Db::open(dir.path(), options()).expect("again")), model);
}

#[test]
fn what_damage_left_is_saved() {
    let dir = TempDir::new("wal-repair");
    let model = filled(&dir);
    let files = segments(&dir);
    change(&files[1], |bytes| bytes[5000] ^= 1);
    let to = dir.join("saved");
    let report = strandline::repair(dir.path(), &to, options()).expect("repair");
    assert!(!report.lost.is_empty());
    let saved = contents(&Db::open(&to, options()).expect("open"));
    assert!(saved.len() > model.len() / 2, "{} of {}", saved.len(), model.len());
    assert!(saved.iter().all(|(key, value)| model.get(key) == Some(value)));
}

/// The oldest segment was copied over the newest. `check` named the file, but `repair` left out what was said of files,
/// for it took all of them for tables, saved 19,737 of 20,000 records and said that nothing was lost.
#[test]
fn repair_tells_of_every_segment_that_is_not_what_it_was() {
    let dir = TempDir::new("wal-segments");
    let model = filled(&dir);
    let files = segments(&dir);
    assert!(files.len() > 3, "{files:?}");
    let good: Vec<Vec<u8>> = files.iter().map(|file| std::fs::read(file).expect("read")).collect();
    let saved = dir.join("saved");
    let (incomplete, refused) = (Cell::new(0), Cell::new(0));
    let judge = |story: &str| {
        let report = match strandline::repair(dir.path(), &saved, options()) {
            Ok(report) => report,
            // Without the superblock, which the first segment has, nothing can be read, and that is said.
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption, "{story}: {error}");
                return refused.set(refused.get() + 1);
            }
        };
        let found = contents(&Db::open(&saved, options()).expect(story));
        std::fs::remove_dir_all(&saved).expect("remove");
        assert_eq!(report.records, found.len() as u64, "{story}");
        // Nothing says which keys a segment had, so what is lost may be anywhere.
        let anywhere = report.lost.iter().any(|lost| lost.from.is_none() && lost.to.is_none());
        assert!(anywhere || found == model, "{story}: {} of {}", found.len(), model.len());
        incomplete.set(incomplete.get() + u32::from(found != model));
    };
    let newest = files.len() - 1;
    for (at, file) in files.iter().enumerate() {
        for (from, bytes) in good.iter().enumerate().filter(|(from, _)| *from != at) {
            std::fs::write(file, bytes).expect("copied over");
            judge(&format!("segment {from} over {at}"));
        }
        change(file, |bytes| *bytes = good[at][..good[at].len() / 2].to_vec());
        if at != newest {
            judge(&format!("half of segment {at}"));
        }
        std::fs::remove_file(file).expect("removed");
        judge(&format!("without segment {at}"));
        for place in [8, 70, good[at].len() / 2] {
            std::fs::write(file, &good[at]).expect("as it was");
            change(file, |bytes| bytes[place] ^= 1);
            judge(&format!("segment {at} changed at {place}"));
        }
        std::fs::write(file, &good[at]).expect("as it was");
    }
    judge("a sound log");
    assert!(incomplete.get() > 10, "{incomplete:?} cases lost something");
    assert!(refused.get() < 12, "{refused:?} cases in which nothing was saved");
}

/// A segment of another store beside the others kept `repair` from all of them.
#[test]
fn a_foreign_segment_takes_nothing_but_itself() {
    let (dir, other) = (TempDir::new("wal-own"), TempDir::new("wal-foreign-repair"));
    let model = filled(&dir);
    filled(&other);
    let (files, others) = (segments(&dir), segments(&other));
    let saved = dir.join("saved");
    // Not among the first, which have the superblock.
    for at in [files.len() - 1, files.len() / 2] {
        let good = std::fs::read(&files[at]).expect("read");
        std::fs::copy(&others[at], &files[at]).expect("copied");
        let report = strandline::repair(dir.path(), &saved, options()).expect("repair");
        std::fs::remove_dir_all(&saved).expect("remove");
        assert!(report.lost.iter().any(|lost| lost.reason.contains("another store")), "{report:?}");
        let share = report.records * 100 / model.len() as u64;
        assert!((50..100).contains(&share), "{share} percent saved");
        std::fs::write(&files[at], good).expect("as it was");
    }
}

/// A store whose log and tables are on `fs`.
struct Place {
    fs: Arc<dyn Fs>,
    sync: WalSync,
}

impl Place {
    fn make(fs: Arc<dyn Fs>, sync: WalSync) -> Place {
        for dir in ["/wal", "/sst"] {
            fs.create_dir_all(dir.as_ref()).expect("directory");
        }
        fs.sync_dir("/".as_ref()).expect("sync");
        Place { fs, sync }
    }

    fn region(&self) -> strandline::Result<Arc<Region>> {
        let (fs, dir) = (Arc::clone(&self.fs), Path::new("/wal"));
        let region = steps::journaled(
            fs,
            dir,
            &Options::default().wal_sync(self.sync).wal_io(WalIo::Cached),
            Some((ID, 256 << 10)),
        )?;
        let region = region.expect("a region");
        if let Err(error) = steps::formatted(&region) {
            if error.kind() != ErrorKind::NotFound {
                return Err(error);
            }
            let format = pool::Format { zone_len: 4 << 10, manifest_len: 16 << 10 };
            steps::format(&region, format, ID)?;
        }
        Ok(region)
    }

    fn open(&self, background_threads: u32) -> strandline::Result<Db> {
        let with = options()
            .memtable_bytes(8 << 10)
            .table_bytes(8 << 10)
            .block_cache(16 << 10)
            .background_threads(background_threads);
        let tables = Some((Arc::clone(&self.fs), Path::new("/sst")));
        steps::open(self.region()?, tables, with, Hooks::default())
    }
}

/// Writes until something fails or all is written; the model is what was acknowledged, and what was tried last.
fn load(db: &Db, model: &mut Contents, count: u64) -> (strandline::Result<()>, Vec<u8>) {
    for i in 0..count {
        let (key, value) = (numbered(i * 7919 % 120), format!("{i}").into_bytes().repeat(30));
        let written = match i % 7 {
            3 => db.delete(&key),
            _ => db.put(&key, &value),
        };
        if written.is_err() {
            return (written, key);
        }
        match i % 7 {
            3 => drop(model.remove(&key)),
            _ => drop(model.insert(key, value)),
        }
    }
    (Ok(()), Vec::new())
}

const REFUSALS: [Failure; 3] = [Failure::Io, Failure::NoSpace, Failure::Quota];

/// Fails each call of a kind on the log, one after the other, once or for ever. The write under way is refused, and so
/// are all others; reads go on; opened again on a device that works, the store holds what was acknowledged.
fn fail_everywhere(call: Call, failures: &[Failure], step: usize) {
    let mut struck = 0;
    for (failure, for_ever) in failures.iter().flat_map(|one| [(*one, false), (*one, true)]) {
        for number in (1..).step_by(step) {
            let what = format!("{call} {number} {failure:?} {for_ever}");
            let fs = Arc::new(Faulty::new(Memory::default()));
            let place = Place::make(Arc::clone(&fs) as Arc<dyn Fs>, WalSync::Always);
            let rule = Rule::new(number, failure).of(call).on("wal");
            fs.set_rules(vec![if for_ever { rule.for_ever() } else { rule }]);
            let mut model = Contents::new();
            let mut tried = Vec::new();
            if let Ok(db) = place.open(0) {
                let written;
                (written, tried) = load(&db, &mut model, 500);
                if let Err(error) = &written {
                    let kinds = [ErrorKind::Io, ErrorKind::NoSpace, ErrorKind::Closed];
                    assert!(kinds.contains(&error.kind()), "{what}: {error}");
                    let named = error.context().contains("/wal");
                    assert!(named, "{what}: {error}");
                    assert_eq!(kind_of(db.put(b"more", b"")), ErrorKind::Closed, "{what}");
                    assert_eq!(kind_of(db.flush()), ErrorKind::Closed, "{what}");
                    assert_eq!(kind_of(db.create_keyspace("more")), ErrorKind::Closed, "{what}");
                    for (key, value) in model.iter().filter(|(key, _)| **key != tried) {
                        assert_eq!(db.get(key).expect("reads go on").as_ref(), Some(value));
                    }
                }
            }
            let ended = fs.struck() == 0;
            struck += u64::from(!ended);
            fs.set_rules(Vec::new());
            let db = place.open(0).unwrap_or_else(|error| panic!("{what}: {error}"));
            let mut found = contents(&db);
            found.remove(&tried);
            model.remove(&tried);
            assert!(found == model, "{what}");
            assert_eq!(db.check().expect("check").damage, [], "{what}");
            if ended {
                break;
            }
        }
    }
    assert!(struck > 0, "{call} was never refused");
}

#[test]
fn writing_the_log_fails() {
    fail_everywhere(Call::Write, &[&REFUSALS[..], &[Failure::Short]].concat(), 23);
    // `CHAIN`, as it is made.
    fail_everywhere(Call::Append, &REFUSALS, 1);
}

#[test]
fn syncing_the_log_fails() {
    fail_everywhere(Call::Sync, &REFUSALS, 23);
}

#[test]
fn changing_the_directory_of_the_log_fails() {
    let all =
        [Call::Create, Call::SyncDir, Call::Rename, Call::Exists, Call::Overwrite, Call::Remove];
    for call in all {
        fail_everywhere(call, &REFUSALS, 1);
    }
}

/// An open gives back what the file of the newest segment has behind its frames.
#[test]
fn cutting_the_newest_segment_short_fails() {
    for failure in REFUSALS {
        let fs = Arc::new(Faulty::new(Memory::default()));
        let place = Place::make(Arc::clone(&fs) as Arc<dyn Fs>, WalSync::Always);
        let mut model = Contents::new();
        load(&place.open(0).expect("open"), &mut model, 500).0.expect("loaded");
        fs.set_rules(vec![Rule::new(1, failure).of(Call::Truncate).on("wal")]);
        let refused = place.open(0).err().expect("refused");
        assert!(refused.context().contains("/wal"), "{refused}");
        assert_eq!(fs.struck(), 1);
        fs.set_rules(Vec::new());
        assert!(contents(&place.open(0).expect("open")) == model, "{failure:?}");
    }
}

#[test]
fn reading_the_log_fails() {
    for call in [Call::List, Call::Open, Call::Read] {
        fail_everywhere(call, &[Failure::Io], 1);
    }
}

#[test]
fn of_several_writers_none_hangs_when_the_log_fails() {
    for seed in 0..8 {
        let fs = Arc::new(Faulty::new(Memory::default()));
        let place = Place::make(Arc::clone(&fs) as Arc<dyn Fs>, WalSync::Always);
        let db = place.open(1).expect("open");
        let failure = Rule::new(200 + 37 * seed, Failure::NoSpace).of(Call::Write).on("wal");
        fs.set_rules(vec![failure.for_ever()]);
        let write = |lane: u64| {
            for i in 0.. {
                let key = format!("{lane} {:04}", i % 50);
                if let Err(error) = db.put(key.as_bytes(), u64::to_le_bytes(i).repeat(20)) {
                    assert!(matches!(error.kind(), ErrorKind::NoSpace | ErrorKind::Closed));
                    return i;
                }
            }
            unreachable!("the log fails");
        };
        let acknowledged: Vec<u64> = std::thread::scope(|scope| {
            let lanes: Vec<_> = (0..4).map(|lane| scope.spawn(move || write(lane))).collect();
            lanes.into_iter().map(|lane| lane.join().expect("a lane")).collect()
        });
        drop(db);
        fs.set_rules(Vec::new());
        let db = place.open(0).expect("open");
        for (lane, next) in acknowledged.into_iter().enumerate() {
            for i in next.saturating_sub(50)..next {
                let key = format!("{lane} {:04}", i % 50);
                let value = db.get(key.as_bytes()).expect("get").expect("there");
                let found = u64::from_le_bytes(value[..8].try_into().expect("eight"));
                // The write that failed may be there or not.
                assert!(found == i || found == next, "{key}: {found}, not told {next}");
            }
        }
    }
}

/// Where the log failed under the edit of a drop, the keyspace could not be read any more, though nothing says that it is gone.
#[test]
fn a_keyspace_whose_drop_poisons_the_store_can_be_read() {
    let fs = Arc::new(Faulty::new(Memory::default()));
    let place = Place::make(Arc::clone(&fs) as Arc<dyn Fs>, WalSync::Always);
    let db = place.open(0).expect("open");
    let other = db.create_keyspace("other").expect("create");
    other.put(b"key", b"value").expect("put");
    fs.set_rules(vec![Rule::new(1, Failure::Io).of(Call::Write).on("wal").for_ever()]);
    assert_eq!(kind_of(db.drop_keyspace("other")), ErrorKind::Io);
    assert_eq!(other.get(b"key").expect("get"), Some(b"value".to_vec()));
    let mut iter = other.cursor(&ReadOptions::default()).expect("iter");
    iter.seek_to_first().expect("seek");
    assert_eq!(iter.key(), Some(&b"key"[..]));
    assert_eq!(kind_of(other.put(b"key", b"other")), ErrorKind::Closed);
    assert_eq!(kind_of(db.drop_keyspace("other")), ErrorKind::Closed);
    drop((iter, other, db));
    fs.set_rules(Vec::new());
    let db = place.open(0).expect("open");
    let found = db.keyspace("other").ok().map(|other| other.get(b"key").expect("get"));
    assert!(found.is_none_or(|value| value == Some(b"value".to_vec())));
}

/// A disk whose syncs are counted, and take a while or as long as it stalls.
struct Slow {
    fs: Memory,
    pace: Arc<Pace>,
}

#[derive(Default)]
struct Pace {
    syncs: AtomicU64,
    slow: AtomicBool,
    stalled: Mutex<bool>,
    goes_on: Condvar,
}

impl Pace {
    fn sync(&self) {
        self.syncs.fetch_add(1, Relaxed);
        if self.slow.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(3));
        }
        let stalled = self.stalled.lock().expect("alone");
        drop(self.goes_on.wait_while(stalled, |stalled| *stalled).expect("alone"));
    }

    fn stall(&self) {
        *self.stalled.lock().expect("alone") = true;
    }

    fn go_on(&self) {
        *self.stalled.lock().expect("alone") = false;
        self.goes_on.notify_all();
    }
}

struct SlowFile(Box<dyn Overwrite>, Arc<Pace>);

impl Overwrite for SlowFile {
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> strandline::Result<()> {
        self.0.write_at(at, bytes)
    }

    fn map(&mut self, len: u64) -> bool {
        self.0.map(len)
    }

    fn truncate(&mut self, len: u64) -> strandline::Result<()> {
        self.0.truncate(len)
    }

    fn sync(&mut self) -> strandline::Result<()> {
        self.1.sync();
        self.0.sync()
    }

    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl Fs for Slow {
    fn create_dir_all(&self, dir: &Path) -> strandline::Result<()> {
        self.fs.create_dir_all(dir)
    }

    fn list(&self, dir: &Path) -> strandline::Result<Vec<String>> {
        self.fs.list(dir)
    }

    fn exists(&self, path: &Path) -> strandline::Result<bool> {
        self.fs.exists(path)
    }

    fn create(&self, path: &Path) -> strandline::Result<Box<dyn Append>> {
        self.fs.create(path)
    }

    fn overwrite(&self, path: &Path) -> strandline::Result<Box<dyn Overwrite>> {
        Ok(Box::new(SlowFile(self.fs.overwrite(path)?, Arc::clone(&self.pace))))
    }

    fn open(&self, path: &Path) -> strandline::Result<Arc<dyn Read>> {
        self.fs.open(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> strandline::Result<()> {
        self.fs.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> strandline::Result<()> {
        self.fs.link(from, to)
    }

    fn remove(&self, path: &Path) -> strandline::Result<()> {
        self.fs.remove(path)
    }

    fn remove_dir(&self, path: &Path) -> strandline::Result<()> {
        self.fs.remove_dir(path)
    }

    fn sync_dir(&self, dir: &Path) -> strandline::Result<()> {
        self.fs.sync_dir(dir)
    }

    fn free_bytes(&self, dir: &Path) -> strandline::Result<u64> {
        self.fs.free_bytes(dir)
    }

    fn describe(&self) -> String {
        "slow".into()
    }
}

#[test]
fn writers_who_wait_share_a_sync() {
    const WRITERS: u64 = 4;
    const WRITES: u64 = 25;
    let pace = Arc::new(Pace::default());
    let fs = Slow { fs: Memory::default(), pace: Arc::clone(&pace) };
    let disk = fs.fs.clone();
    let place = Place::make(Arc::new(fs), WalSync::Always);
    let db = place.open(0).expect("open");
    for lane in 0..WRITERS {
        db.put(numbered(lane), b"first").expect("put");
    }
    let before = pace.syncs.load(Relaxed);
    pace.slow.store(true, Relaxed);
    let start = Barrier::new(WRITERS as usize);
    std::thread::scope(|scope| {
        for lane in 0..WRITERS {
            let (db, start) = (&db, &start);
            scope.spawn(move || {
                start.wait();
                for i in 0..WRITES {
                    db.put(numbered(lane), i.to_le_bytes()).expect("put");
                }
            });
        }
    });
    let shared = pace.syncs.load(Relaxed) - before;
    // One each would be 100; two at a time 50.
    assert!((WRITES..=WRITERS * WRITES * 3 / 4).contains(&shared), "{shared} syncs");
    drop(db);
    // Power fails: everything acknowledged was synced.
    for survivor in disk.disk().survivors(4, 1) {
        let place = Place { fs: Arc::new(Memory::new(survivor)), sync: WalSync::Always };
        let found = contents(&place.open(0).expect("open"));
        assert!(found.values().all(|value| *value == (WRITES - 1).to_le_bytes()), "{found:?}");
    }
}

/// Puts one key after the other until `until` says so or a minute is over; tells how many were acknowledged.
fn put_until(db: &Db, acknowledged: &AtomicU64, until: impl Fn(u64) -> bool) {
    let began = Instant::now();
    while !until(acknowledged.load(Relaxed)) && began.elapsed() < Duration::from_secs(60) {
        db.put(numbered(acknowledged.load(Relaxed) % 50), b"value").expect("put");
        acknowledged.fetch_add(1, Relaxed);
    }
}

fn stalling(sync: WalSync) -> (Arc<Pace>, Place) {
    let pace = Arc::new(Pace::default());
    let fs = Slow { fs: Memory::default(), pace: Arc::clone(&pace) };
    (pace, Place::make(Arc::new(fs), sync))
}

/// The device stalls in a sync that was asked for: who asked waits, writers go on.
#[test]
fn without_syncs_writers_go_on_while_the_device_stalls() {
    let (pace, place) = stalling(WalSync::Never);
    let db = place.open(0).expect("open");
    db.put(b"key", b"value").expect("put");
    pace.stall();
    let (acknowledged, synced) = (AtomicU64::new(0), AtomicBool::new(false));
    let before = pace.syncs.load(Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            db.sync_wal().expect("in the end");
            synced.store(true, Relaxed);
        });
        wait_until("a sync", || pace.syncs.load(Relaxed) > before);
        // Few enough for the segment: the next one is named by a sync.
        put_until(&db, &acknowledged, |count| count == 20);
        assert!(!synced.load(Relaxed));
        pace.go_on();
    });
    assert_eq!((acknowledged.load(Relaxed), synced.load(Relaxed)), (20, true));
}

/// With an interval writers go on for two of them, then they wait; when the device goes on, so do they.
#[test]
fn with_an_interval_writers_wait_for_a_device_that_stalls_when_two_have_passed() {
    let (pace, place) = stalling(WalSync::Interval(Duration::from_millis(40)));
    let db = place.open(1).expect("open");
    let (acknowledged, done) = (AtomicU64::new(0), AtomicBool::new(false));
    pace.stall();
    let before = pace.syncs.load(Relaxed);
    let slowly = |_: u64| {
        std::thread::sleep(Duration::from_millis(2));
        done.load(Relaxed)
    };
    std::thread::scope(|scope| {
        scope.spawn(|| put_until(&db, &acknowledged, slowly));
        // A background thread is at it, and then the writer is.
        wait_until("a sync beside", || pace.syncs.load(Relaxed) > before);
        wait_until("a sync of the writer", || pace.syncs.load(Relaxed) > before + 1);
        let count = acknowledged.load(Relaxed);
        assert!(count > 0, "they go on at first");
        std::thread::sleep(Duration::from_millis(100));
        assert!(acknowledged.load(Relaxed) <= count + 1, "they wait");
        pace.go_on();
        wait_until("puts again", || acknowledged.load(Relaxed) > count + 30);
        done.store(true, Relaxed);
    });
}

/// Synced writes wait for the device, all of them come back, and are there.
#[test]
fn synced_writers_wait_for_a_device_that_stalls() {
    let (pace, place) = stalling(WalSync::Always);
    let db = place.open(0).expect("open");
    pace.stall();
    let back = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for lane in 0..4 {
            let (db, back) = (&db, &back);
            scope.spawn(move || {
                db.put(numbered(lane), b"value").expect("put");
                back.fetch_add(1, Relaxed);
            });
        }
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(back.load(Relaxed), 0);
        pace.go_on();
    });
    assert_eq!(contents(&db).len(), 4);
}

/// A background thread syncs what was written, though nothing is written any more; a close does, too.
#[test]
fn with_an_interval_what_was_written_is_synced_in_time() {
    for closes in [false, true] {
        let every = Duration::from_millis(if closes { 3_600_000 } else { 20 });
        let disk = Memory::default();
        let place = Place::make(Arc::new(disk.clone()), WalSync::Interval(every));
        let db = place.open(1).expect("open");
        for i in 0..20 {
            db.put(numbered(i), b"value").expect("put");
        }
        let is_kept = || {
            disk.disk().survivors(3, 1).all(|survivor| {
                let fs = Arc::new(Memory::new(survivor));
                let place = Place { fs, sync: WalSync::Always };
                contents(&place.open(0).expect("open")).len() == 20
            })
        };
        if closes {
            assert!(!is_kept());
            db.close().expect("close");
        }
        wait_until("synced", is_kept);
    }
}

/// Without syncs a kill costs nothing, and power failure what came after the last `sync_wal`; what is left is what
/// was there at some moment.
#[test]
fn without_syncs_a_kill_costs_nothing_and_power_failure_a_tail() {
    for seed in 0..6 {
        let memory = Memory::new(Disk::new(512));
        let place = Place::make(Arc::new(memory.clone()), WalSync::Never);
        let db = place.open(0).expect("open");
        let mut rng = Rng::new(seed);
        let (mut model, mut moments) = (Contents::new(), Vec::new());
        let mut synced = 0;
        for i in 0..220_u64 {
            let key = numbered(rng.below(40));
            let value = i.to_le_bytes().repeat(1 + rng.below(60) as usize);
            db.put(&key, &value).expect("put");
            model.insert(key, value);
            moments.push(model.clone());
            if i % 50 == 30 + seed {
                db.sync_wal().expect("sync");
                synced = moments.len() - 1;
            }
        }
        let disk = memory.disk();
        drop(db);
        let open = |disk: Disk| {
            let place = Place { fs: Arc::new(Memory::new(disk)), sync: WalSync::Never };
            contents(&place.open(0).expect("open"))
        };
        assert_eq!(open(disk.clone()), model, "killed");
        for survivor in disk.survivors(60, seed) {
            let found = open(survivor);
            let moment = moments.iter().rposition(|moment| *moment == found);
            assert!(
                moment.is_some_and(|moment| moment >= synced),
                "seed {seed}: {moment:?}, synced {synced}"
            );
        }
    }
}

#[test]
fn the_log_stays_within_twice_the_pool() {
    for ssd in [SsdSource::Auto, SsdSource::None] {
        let dir = TempDir::new("wal-bound");
        let with = options().ssd(ssd.clone()).background_threads(1).wal_sync(WalSync::Never);
        let db = Db::open(dir.path(), with.clone()).expect("open");
        // Some that stay for ever, so that old segments are pinned by a little each.
        let mut model = Contents::new();
        let mut rng = Rng::new(3);
        let mut longest = 0;
        for i in 0..20_000_u64 {
            let (key, len) = match i % 100 {
                0 => (format!("stays{i:08}").into_bytes(), 300),
                _ => (numbered(rng.below(600)), 1000),
            };
            let value = vec![i as u8; len];
            db.put(&key, &value).expect("put");
            model.insert(key, value);
            if i % 50 == 0 {
                longest = longest.max(db.properties().wal.expect("log").bytes);
            }
        }
        let wal = db.properties().wal.expect("log");
        let most = 2 * POOL + 3 * POOL / 16;
        assert!(wal.written_bytes > 4 * POOL, "{wal:?}");
        assert!(longest <= most, "{longest} bytes, at most {most}: {wal:?}");
        let files: u64 =
            segments(&dir).iter().map(|file| file.metadata().expect("file").len()).sum();
        assert!(files <= most, "{files} bytes in files");
        drop(db);
        let db = Db::open(dir.path(), with).expect("open");
        assert!(contents(&db) == model, "{ssd:?}");
        assert_eq!(db.recovery().damage, []);
    }
}

#[test]
fn long_values_and_large_batches_go_through_the_log() {
    let dir = TempDir::new("wal-long");
    let with = options().pm_size(64 << 20).zone_size(1 << 20);
    let db = Db::open(dir.path(), with.clone()).expect("open");
    let long: Vec<u8> = (0..3_000_001_u32).map(|i| (i * 7) as u8).collect();
    db.put(b"long", &long).expect("put");
    let mut batch = strandline::Batch::new();
    for i in 0..200 {
        batch.put(db.default_keyspace(), numbered(i), [i as u8; 700]);
    }
    db.write(&batch).expect("write");
    drop(batch);
    db.flush().expect("flush");
    let model = contents(&db);
    assert_eq!(model.len(), 201);
    drop(db);
    let db = Db::open(dir.path(), with).expect("open");
    assert!(contents(&db) == model);
    let copy = dir.join("copy");
    db.checkpoint(&copy).expect("checkpoint");
    // A checkpoint becomes a store in DRAM as well as any other.
    let copied = Db::open(&copy, options().pm_size(64 << 20)).expect("open");
    assert!(contents(&copied) == model);
    copied.put(b"more", b"here").expect("put");
    drop(copied);
    assert_eq!(contents(&Db::open(&copy, Options::default()).expect("again")).len(), 202);
}
