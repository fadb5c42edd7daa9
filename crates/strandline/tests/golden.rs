//! Golden stores: stores that older builds wrote are read whole, checked, written to and opened again. What they hold is told
//! by the rules in `testkit::golden`; `golden/README.md` says how they came about.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::TempDir;
use strandline::{
    Compression, Db, ErrorKind, Hooks, Keyspace, MergeOperator, Options, PmSource, ReadOptions,
};
use testkit::golden::pack::{self, Entry};
use testkit::golden::{self, Contents, KEYSPACES, Rounds, STORES, Shape, Store};

/// Those that this build reads.
const GENERATIONS: [&str; 4] = [NOW, LOGS, VALUES, LARGE];
/// The generation before the newest, and the one before it, which this build does not read. Logs in the first have version 1.
const NOW: &str = "format-3";
const BEFORE: &str = "format-2";
/// Stores with a log of version 2.
const LOGS: &str = "format-3-log-2";
/// Stores with value files.
const VALUES: &str = "format-3-values";
/// Stores with large commits, whose pools have the newest format.
const LARGE: &str = "format-4";

/// Where the stores of a generation are.
fn folder(generation: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(generation)
}

/// The files of a golden store.
fn entries(generation: &str, store: &str) -> Vec<Entry> {
    let file = folder(generation).join(store);
    let packed = std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    pack::unpack(&packed).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The operator that the stores were written with.
struct Joined;

impl MergeOperator for Joined {
    fn merge(
        &self,
        _keyspace: &str,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>> {
        Some(golden::merged(existing, operands.iter().copied()))
    }
}

fn hooks() -> Hooks {
    Hooks::default().merge_operator(Arc::new(Joined))
}

fn options(store: &Store) -> Options {
    let mut options = Options::default().create_if_missing(false);
    for (name, text) in store.settings() {
        options.set(name, text).expect(name);
    }
    options
}

/// What is wrong with a store, in words.
type Verdict = Result<(), String>;

fn text(error: strandline::Error) -> String {
    error.to_string()
}

fn named(key: &[u8]) -> String {
    key[..key.len().min(40)].escape_ascii().to_string()
}

/// Holds everything in an open store against `wanted`, and every byte against its checksum.
fn judge(db: &Db, wanted: &Contents) -> Verdict {
    let names: Vec<&str> = wanted.keys().copied().collect();
    if db.keyspaces() != names {
        return Err(format!("keyspaces {:?} instead of {names:?}", db.keyspaces()));
    }
    for (name, wanted) in wanted {
        let keyspace = db.keyspace(name).map_err(text)?;
        judge_scans(&keyspace, wanted).map_err(|wrong| format!("keyspace {name}: {wrong}"))?;
        judge_gets(&keyspace, wanted).map_err(|wrong| format!("keyspace {name}: {wrong}"))?;
    }
    let damage = db.check().map_err(text)?.damage;
    if damage.is_empty() { Ok(()) } else { Err(format!("check finds damage: {damage:?}")) }
}

fn judge_scans(keyspace: &Keyspace, wanted: &BTreeMap<Vec<u8>, Vec<u8>>) -> Verdict {
    let mut iter = keyspace.cursor(&ReadOptions::default()).map_err(text)?;
    iter.seek_to_first().map_err(text)?;
    for record in wanted {
        judge_record(&iter, record).map_err(|wrong| format!("forwards, {wrong}"))?;
        iter.next().map_err(text)?;
    }
    judge_end(&iter)?;
    iter.seek_to_last().map_err(text)?;
    for record in wanted.iter().rev() {
        judge_record(&iter, record).map_err(|wrong| format!("backwards, {wrong}"))?;
        iter.prev().map_err(text)?;
    }
    judge_end(&iter)
}

fn judge_record(iter: &strandline::Cursor, (key, value): (&Vec<u8>, &Vec<u8>)) -> Verdict {
    let Some(found) = iter.key() else { return Err(format!("{} is missing", named(key))) };
    if found != key {
        return Err(format!("{} instead of {}", named(found), named(key)));
    }
    match iter.value().map_err(text)? {
        Some(found) if found == value => Ok(()),
        _ => Err(format!("{} has another value", named(key))),
    }
}

fn judge_end(iter: &strandline::Cursor) -> Verdict {
    match iter.key() {
        Some(key) => Err(format!("{} is too much", named(key))),
        None => Ok(()),
    }
}

/// Every key that is there, and every numbered key, there or not.
fn judge_gets(keyspace: &Keyspace, wanted: &BTreeMap<Vec<u8>, Vec<u8>>) -> Verdict {
    let numbered = (0..KEYSPACES[0].1 + 10).map(golden::key);
    for key in wanted.keys().cloned().chain(numbered) {
        if keyspace.get(&key).map_err(text)?.as_ref() != wanted.get(&key) {
            return Err(format!("a get of {} has another answer", named(&key)));
        }
    }
    Ok(())
}

/// Whether the store has the parts that it was written to show.
fn judge_shape(db: &Db, least: &Shape) -> Verdict {
    let properties = db.properties();
    let mut shape = Shape::default();
    for keyspace in &properties.keyspaces {
        shape.memtable |= keyspace.memtable_records > 0;
        shape.runs += keyspace.runs.len();
        shape.subranges = shape.subranges.max(keyspace.subranges.len());
        shape.value_files += keyspace.value_files.len();
        for table in keyspace.levels.iter().flat_map(|level| &level.tables) {
            match table.pm_at {
                Some(_) => shape.pm_tables += 1,
                None => shape.tables += 1,
            }
        }
    }
    let enough = (shape.memtable || !least.memtable)
        && shape.runs >= least.runs
        && shape.tables >= least.tables
        && shape.pm_tables >= least.pm_tables
        && shape.value_files >= least.value_files
        && shape.subranges >= least.subranges;
    if enough { Ok(()) } else { Err(format!("{shape:?} is less than {least:?}")) }
}

/// Unpacks a store to `home` and does with it what its owner would: reads it, writes to it, has it compacted, and opens it
/// again each time.
fn verify(store: &Store, entries: &[Entry], home: &Path) -> Verdict {
    let mut wanted = golden::contents(store);
    pack::write_dir(entries, home)?;
    let db = Db::open_read_only_with(home, options(store), hooks()).map_err(text)?;
    judge_shape(&db, &store.shape)?;
    judge(&db, &wanted)?;
    drop(db);
    if pack::read_dir(home)? != entries {
        return Err("an open for reading changed it".into());
    }
    let open = || Db::open_with(home, options(store), hooks()).map_err(text);
    let db = open()?;
    judge(&db, &wanted)?;
    for (name, records) in &mut wanted {
        let keyspace = db.keyspace(name).map_err(text)?;
        for i in (0..KEYSPACES[0].1).step_by(2) {
            let value = golden::value(name, i, golden::ROUNDS + 1);
            keyspace.put(golden::key(i), &value).map_err(text)?;
            records.insert(golden::key(i), value);
        }
    }
    drop(db);
    let db = open()?;
    judge(&db, &wanted)?;
    db.flush().map_err(text)?;
    db.compact().map_err(text)?;
    judge(&db, &wanted)?;
    if db.properties().ssd.is_some() {
        for name in wanted.keys() {
            let keyspace = db.keyspace(name).map_err(text)?;
            db.compact_range(&keyspace, None, None).map_err(text)?;
        }
    }
    judge(&db, &wanted)?;
    drop(db);
    judge(&open()?, &wanted)
}

/// The stores of a generation that this build reads.
fn stores_of(generation: &str) -> impl Iterator<Item = &'static Store> {
    STORES.iter().filter(move |store| match store.shape.value_files {
        _ if store.rounds == Rounds::Whole => generation == LARGE,
        0 => generation == NOW || generation == LOGS && options(store).pm == PmSource::Dram,
        _ => generation == VALUES,
    })
}

#[test]
fn every_store_is_read_whole_written_to_and_opened_again() {
    let mut wrong = Vec::new();
    let all = GENERATIONS.map(|generation| stores_of(generation).map(move |of| (generation, of)));
    let can_be_read = |store: &Store| options(store).compression.require("test").is_ok();
    for (generation, store) in all.into_iter().flatten().filter(|(_, store)| can_be_read(store)) {
        let dir = TempDir::new("golden");
        if let Err(text) = verify(store, &entries(generation, store.name), &dir.join("store")) {
            wrong.push(format!("{generation}/{} ({}): {text}", store.name, store.doc));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_store_is_without_rules_and_none_is_missing() {
    for generation in GENERATIONS {
        let files = std::fs::read_dir(folder(generation)).expect("folder");
        let names = files.map(|file| file.expect("entry").file_name().into_string().expect("text"));
        let wanted: BTreeSet<String> =
            stores_of(generation).map(|store| store.name.to_owned()).collect();
        assert_eq!(names.collect::<BTreeSet<_>>(), wanted, "{generation}");
    }
}

/// Whether a file is a segment of a log, with its name.
fn is_segment(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.ends_with(".wal") && !name.starts_with("new-")
}

/// Else they would not show that both are read.
#[test]
fn logs_have_the_version_that_they_are_kept_for() {
    for (generation, version) in [(NOW, 1_u64), (LOGS, 2)] {
        for store in stores_of(LOGS) {
            let files = entries(generation, store.name);
            let segments = files.iter().filter(|file| is_segment(&file.path));
            let heads = segments.map(|file| file.bytes.as_ref().expect("a file")[8..16].to_vec());
            let versions: BTreeSet<_> = heads.collect();
            let wanted = BTreeSet::from([version.to_le_bytes().to_vec()]);
            assert_eq!(versions, wanted, "{generation}/{}", store.name);
        }
    }
}

/// Puts until one is refused.
fn fill(db: &Db) -> Verdict {
    let mut numbers = 0..1_000_000_u64;
    numbers.try_for_each(|i| {
        let key = golden::key(i.wrapping_mul(7919) % 1_000_000);
        db.put(&key, golden::value("default", i, 3)).map_err(text)
    })
}

#[test]
fn a_build_without_zstandard_says_so() {
    let store = Store::named("tables-zstd").expect("a store");
    let dir = TempDir::new("golden-zstd");
    let home = dir.join("store");
    pack::write_dir(&entries(NOW, store.name), &home).expect("unpacked");
    let open = |options| Db::open_with(&home, options, hooks()).map_err(text);
    let lz4 = || options(store).compression(Compression::Lz4);
    let read = |db: Db| judge(&db, &golden::contents(store));
    let as_written = open(options(store)).and_then(read);
    let with_lz4 = open(lz4()).and_then(read);
    if cfg!(feature = "zstd") {
        assert_eq!((as_written, with_lz4), (Ok(()), Ok(())));
        return;
    }
    // What such a build may write must get past such tables at some point.
    let filled = open(lz4()).and_then(|db| fill(&db));
    for refused in [as_written, with_lz4, filled] {
        let error = refused.expect_err("a build without");
        assert!(error.contains("NotSupported") && error.contains("feature `zstd`"), "{error}");
    }
}

/// Tables and checkpoints outlive the formats of pools.
#[test]
fn a_checkpoint_of_format_2_opens() {
    let dir = TempDir::new("golden-checkpoint");
    let store = Store::named("auto-checkpoint").expect("a store");
    verify(store, &entries(BEFORE, store.name), &dir.join("store")).expect("sound");
}

#[test]
fn pools_and_logs_of_format_2_are_refused_by_number_and_left_as_they_are() {
    for name in ["auto", "classic"] {
        let dir = TempDir::new("golden-old");
        let home = dir.join("store");
        let (store, entries) = (Store::named(name).expect("a store"), entries(BEFORE, name));
        pack::write_dir(&entries, &home).expect("unpacked");
        for open in [Db::open_with, Db::open_read_only_with] {
            let error = open(home.clone(), options(store), hooks()).map(drop).expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::NotSupported, "{name}: {error}");
            let says = ["format 2", "reads 3"].iter().all(|text| error.context().contains(text));
            assert!(says, "{name}: {error}");
        }
        let files = pack::read_dir(&home).expect("files");
        assert!(files == entries, "{name} was changed");
    }
}

/// What is wrong with a store whose files were changed.
fn verdict_on_changed(name: &str, change: impl FnOnce(&mut Vec<Entry>)) -> Verdict {
    let dir = TempDir::new("golden-changed");
    let mut changed = entries(NOW, name);
    let before = changed.clone();
    change(&mut changed);
    assert!(changed != before, "nothing was changed");
    // By way of its packed form, as a damaged file of this folder would come.
    let changed = pack::unpack(&pack::pack(&changed)).expect("packed");
    verify(Store::named(name).expect("a store"), &changed, &dir.join("store"))
}

/// Flips a bit in the first file below `folder` that has `bytes`, in the midst of these.
fn flip(entries: &mut [Entry], folder: &str, bytes: &[u8]) {
    let below = entries.iter_mut().filter(|entry| entry.path.starts_with(folder));
    let flipped = below.filter_map(|entry| entry.bytes.as_mut()).any(|file| {
        let at = file.windows(bytes.len()).position(|window| window == bytes);
        at.map(|at| file[at + bytes.len() / 2] ^= 4).is_some()
    });
    assert!(flipped, "{folder} has no {}", bytes.escape_ascii());
}

#[test]
fn a_changed_bit_fails_the_test() {
    let value = golden::value("default", 2, 0);
    for (store, folder) in
        [("auto-memtables", "pool"), ("log-free", "pool"), ("classic-memtables", "wal")]
    {
        let verdict = verdict_on_changed(store, |entries| flip(entries, folder, &value));
        let wrong = verdict.expect_err(store);
        assert!(wrong.contains("Corruption") || wrong.contains("damage"), "{store}: {wrong}");
    }
}

/// Each table of a checkpoint counts.
#[test]
fn a_changed_or_lost_table_fails_the_test() {
    let is_table = |entry: &Entry| entry.path.starts_with("sst") && entry.bytes.is_some();
    let tables = entries(NOW, "auto-checkpoint").iter().filter(|entry| is_table(entry)).count();
    assert!(tables >= 3, "{tables} tables");
    for table in 0..tables {
        let changed = verdict_on_changed("auto-checkpoint", |entries| {
            let mut tables = entries.iter_mut().filter(|entry| is_table(entry));
            let bytes = tables.nth(table).and_then(|entry| entry.bytes.as_mut());
            let bytes = bytes.expect("a table");
            let middle = bytes.len() / 2;
            bytes[middle] ^= 4;
        });
        assert!(changed.is_err(), "table {table}");
        let lost = verdict_on_changed("auto-checkpoint", |entries| {
            let mut places = (0..entries.len()).filter(|place| is_table(&entries[*place]));
            let place = places.nth(table).expect("a table");
            entries.remove(place);
        });
        assert!(lost.is_err(), "table {table}");
    }
}

/// Damage may also be sound bytes that say something else.
#[test]
fn another_record_fails_the_test() {
    type Change = fn(&Db) -> strandline::Result<()>;
    let changes: [(&str, Change); 3] = [
        ("too much", |db| db.put([0xff; 17], b"")),
        ("instead of key00000", |db| db.delete(golden::key(0))),
        ("another value", |db| db.put(golden::key(0), b"another")),
    ];
    for (expected, change) in changes {
        let store = Store::named("no-tables").expect("a store");
        let verdict = verdict_on_changed(store.name, |entries| {
            let dir = TempDir::new("golden-written");
            pack::write_dir(entries, &dir.join("store")).expect("unpacked");
            let db = Db::open_with(dir.join("store"), options(store), hooks()).expect("open");
            change(&db).expect("changed");
            drop(db);
            *entries = pack::read_dir(&dir.join("store")).expect("files");
        });
        let wrong = verdict.expect_err(expected);
        assert!(wrong.contains(expected), "{wrong}");
    }
}
