//! A store with everything that an export has to carry over, and what of it readers see.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use strandline::{
    Compression, Db, Hooks, IngestOptions, KeyspaceOptions, Options, ReadOptions,
    RocksdbImportOptions, SsdSource, import_rocksdb,
};
use testkit::Rng;

use crate::common::{Contents, Longest, TempDir, dump, external, numbered, write_file};

/// Few keys, so that they are written again and again.
const KEYS: u64 = 3_000;

/// All keyspaces of a store, by their names.
pub type Everything = BTreeMap<String, Contents>;

pub fn options() -> Options {
    Options::default()
        .pm_size(2 << 20)
        .zone_size(16 << 10)
        .memtable_bytes(32 << 10)
        .table_bytes(32 << 10)
        .value_files_min(200)
        .block_cache(1 << 20)
        .compression(Compression::Lz4)
        .background_threads(0)
        .recovery_threads(1)
}

/// With an operator that only the application has.
pub fn hooks() -> Hooks {
    Hooks::default().named_merge_operator("longest", Arc::new(Longest))
}

/// Keyspaces beside the default one, with the name of the operator whose operands each gets.
const SPACES: [(&str, Option<&str>); 6] = [
    ("plain", None),
    ("sums", Some("add")),
    ("lists", Some("append:/")),
    ("tops", Some("max")),
    ("lows", Some("min")),
    ("long", Some("longest")),
];

/// A store with several levels, value files with garbage, range deletions, ingested tables, operands, and a keyspace with a
/// time to live; some of it in memtables and runs.
pub fn store(dir: &TempDir, seed: u64) -> Db {
    let db = Db::open_with(dir.join("db"), options(), hooks()).expect("open");
    for (name, operator) in SPACES {
        let made = KeyspaceOptions::new();
        let made = operator.map_or(made.clone(), |operator| made.merge_operator(operator));
        db.create_keyspace_with(name, made).expect("create");
    }
    let hour = KeyspaceOptions::new().ttl(Duration::from_secs(3600));
    let expiring = db.create_keyspace_with("expiring", hour).expect("create");
    let mut rng = Rng::new(seed);
    for round in 0..20_000_u64 {
        let (key, name) = (numbered(rng.below(KEYS)), SPACES[rng.below(6) as usize].0);
        let space = match rng.below(3) {
            0 => db.keyspace(name).expect("keyspace"),
            _ => db.default_keyspace().clone(),
        };
        let operator = SPACES.iter().find(|(named, _)| *named == space.name());
        let operator = operator.and_then(|(_, operator)| *operator);
        let value = value(&mut rng, operator == Some("add"));
        match rng.below(100) {
            0..60 => space.put(&key, &value).expect("put"),
            60..75 => space.delete(&key).expect("delete"),
            75..97 if operator.is_some() => {
                space.merge(&key, &value[..value.len().min(8)]).expect("merge")
            }
            75..97 => space.put(&key, value.repeat(2)).expect("put"),
            _ => {
                let end = numbered(rng.below(KEYS));
                if key < end && rng.below(4) == 0 {
                    space.delete_range(&key, &end[..key.len()]).expect("delete range");
                }
            }
        }
        if round % 40 == 0 {
            expiring.put(&key, value).expect("put");
        }
        if round % 3_000 == 1_500 {
            ingest(&db, dir, &mut rng, round);
        }
    }
    db
}

fn value(rng: &mut Rng, number: bool) -> Vec<u8> {
    if number {
        return rng.below(1 << 30).to_le_bytes().to_vec();
    }
    let len = [8, 40, 150, 400][rng.below(4) as usize];
    format!("{:08x}", rng.below(1 << 30)).into_bytes().into_iter().cycle().take(len).collect()
}

/// Some keys beside each other, and a range deletion.
fn ingest(db: &Db, dir: &TempDir, rng: &mut Rng, round: u64) {
    let from = rng.below(KEYS);
    let changes: Vec<_> = (from..from + 60)
        .map(|i| (numbered(i), (i % 5 != 0).then(|| format!("ingested {round}").into_bytes())))
        .collect();
    let ranges = [(numbered(from + 70), numbered(from + 80))];
    let path = dir.join(&format!("{round}.sst")).display().to_string();
    let path = write_file(&*ssd::best(ssd::PageCache::Used), &path, &external(&changes, &ranges));
    db.ingest(db.default_keyspace(), &[path], IngestOptions::default()).expect("ingest");
}

/// What readers see.
pub fn everything(db: &Db) -> Everything {
    let all = db.keyspaces().into_iter().map(|name| {
        let keyspace = db.keyspace(&name).expect("keyspace");
        let contents = dump(&keyspace, &ReadOptions::default());
        (name, contents)
    });
    all.collect()
}

#[track_caller]
pub fn assert_same(found: &Everything, expected: &Everything, what: &str) {
    let names = |all: &Everything| all.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(found), names(expected), "{what}");
    for (name, contents) in expected {
        let found = &found[name];
        for (key, value) in contents {
            let shown = key.escape_ascii();
            assert_eq!(found.get(key), Some(value), "{what}: key {shown} of keyspace {name}");
        }
        assert_eq!(found.len(), contents.len(), "{what}: keyspace {name} has more");
    }
}

/// Imports the database at `from` and opens the new store, which must be whole.
pub fn imported(from: &Path, to: PathBuf, hints: &RocksdbImportOptions) -> Db {
    import_rocksdb(from, &to, &options(), hints).expect("import");
    let db = Db::open_with(to, options().ssd(SsdSource::Auto), hooks()).expect("open");
    let report = db.check().expect("check");
    assert!(report.damage.is_empty(), "{:?}", report.damage);
    db
}
