//! RocksDB itself: 9.8.4 by rocksdict, 7.8.3 by Debian's `ldb`. Needs `scripts/install-oracles`; without the tools these tests
//! say so and prove nothing.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use strandline::RocksdbImportOptions;

use crate::common::{Contents, TempDir};
use crate::sample::{Everything, assert_same, everything, imported, store};

fn skipped(tool: &str) {
    eprintln!("SKIPPED: {tool} is missing; run scripts/install-oracles");
}

/// The interpreter that has rocksdict.
fn python() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let python = target.join("oracles/bin/python");
    let has = Command::new(&python).args(["-c", "import rocksdict"]).output();
    has.is_ok_and(|output| output.status.success()).then_some(python)
}

fn run(python: &Path, script: &str, args: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rocksdb").join(script);
    let output = Command::new(python).arg(script).args(args).output().expect("python");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).expect("text")
}

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("digits");
    (0..hex.len()).step_by(2).map(digit).collect()
}

/// What a script printed: column family, key, value.
fn shown(text: &str) -> Everything {
    let mut all = Everything::new();
    for line in text.lines() {
        let mut fields = line.split('\t').map(bytes);
        let mut field = || fields.next().expect("three fields");
        let family = String::from_utf8(field()).expect("a name");
        all.entry(family).or_default().insert(field(), field());
    }
    all
}

/// Operands need their operators, which rocksdict does not give: these have none.
fn without_operators(mut all: Everything) -> Everything {
    ["sums", "lists", "tops"].iter().for_each(|name| drop(all.remove(*name)));
    all
}

#[test]
fn rocksdb_shows_what_the_store_shows_before_and_after_a_full_compaction() {
    let Some(python) = python() else { return skipped("rocksdict") };
    for seed in 1..4 {
        let dir = TempDir::new("rocksdb-oracle");
        let db = store(&dir, seed);
        let expected = without_operators(everything(&db));
        for name in ["sums", "lists", "tops"] {
            db.drop_keyspace(name).expect("drop");
        }
        db.export_rocksdb(dir.join("rdb")).expect("export");
        let rdb = dir.join("rdb").display().to_string();
        assert_same(&shown(&run(&python, "read.py", &[&rdb])), &expected, "opened");
        assert_same(&shown(&run(&python, "read.py", &[&rdb, "compact"])), &expected, "compacted");
        // What RocksDB made of it comes back.
        let back = imported(&dir.join("rdb"), dir.join("back"), &RocksdbImportOptions::new());
        assert_same(&everything(&back), &expected, "imported");
        assert!(db.check().expect("check").damage.is_empty());
    }
}

#[test]
fn what_rocksdb_wrote_is_imported() {
    let Some(python) = python() else { return skipped("rocksdict") };
    for seed in ["1", "2", "3"] {
        let dir = TempDir::new("rocksdb-import");
        let rdb = dir.join("rdb");
        let expected = shown(&run(&python, "write.py", &[&rdb.display().to_string(), seed]));
        assert!(expected.len() == 3 && expected.values().all(|all| all.len() > 100));
        let back = imported(&rdb, dir.join("back"), &RocksdbImportOptions::new());
        assert_same(&everything(&back), &expected, "imported");
        back.compact_range(back.default_keyspace(), None, None).expect("compact");
        assert_same(&everything(&back), &expected, "compacted");
        back.export_rocksdb(dir.join("again")).expect("export");
        let again = dir.join("again").display().to_string();
        assert_same(&shown(&run(&python, "read.py", &[&again, "compact"])), &expected, "again");
    }
}

fn ldb(dir: &Path, args: &[&str]) -> Option<Output> {
    let db = format!("--db={}", dir.display());
    Command::new("ldb").arg(db).args(args).output().ok()
}

/// Operators come from the OPTIONS file.
#[test]
fn an_older_rocksdb_combines_operands_by_the_operators_that_the_export_names() {
    let dir = TempDir::new("rocksdb-ldb");
    let db = store(&dir, 7);
    let expected = everything(&db);
    db.export_rocksdb(dir.join("rdb")).expect("export");
    let rdb = dir.join("rdb");
    for pass in ["as it is", "compacted"] {
        for (name, contents) in &expected {
            let family = format!("--column_family={name}");
            let options = ["--try_load_options", &family, "--hex"];
            if pass == "compacted" {
                let done = ldb(&rdb, &[&options[..2], &["compact"]].concat()).expect("ldb");
                assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
            }
            let Some(scan) = ldb(&rdb, &[&options[..], &["scan"]].concat()) else {
                return skipped("ldb");
            };
            let text = String::from_utf8_lossy(&scan.stdout).into_owned();
            let entry = |line: &str| {
                let (key, value) = line.split_once(" : ")?;
                Some((bytes(key.strip_prefix("0x")?), bytes(value.strip_prefix("0x")?)))
            };
            let found: Contents = text.lines().filter_map(entry).collect();
            let (found, wanted) = ([(name.clone(), found)], [(name.clone(), contents.clone())]);
            assert_same(&found.into(), &wanted.into(), pass);
        }
    }
}
