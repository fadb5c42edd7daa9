//! The tables of a store, read by RocksDB's own tool. Needs `sst_dump` (`scripts/install-oracles`); without it the test
//! says so and proves nothing.

mod common;

use std::process::Command;

use common::TempDir;
use strandline::{Checksum, Compression, Db, Hooks, IndexKind, MergeOperator, Options};
use testkit::Rng;

struct Last;

impl MergeOperator for Last {
    fn merge(&self, _: &str, _: &[u8], _: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        operands.last().map(|last| last.to_vec())
    }
}

/// The tool's exit status says nothing: its error output and its counts do.
#[test]
fn rocksdb_reads_every_table_of_a_store() {
    for (number, compression) in Compression::AVAILABLE.iter().copied().enumerate() {
        // Every other setting of tables, each both ways.
        let (first, second) = (number / 2 == 0, number % 2 == 0);
        let dir = TempDir::new("oracle");
        let options = Options::default()
            .pm_size(2 << 20)
            .zone_size(16 << 10)
            .memtable_bytes(64 << 10)
            .table_bytes(64 << 10)
            .background_threads(0)
            .compression(compression)
            .index(if first { IndexKind::TwoLevel } else { IndexKind::Binary })
            .checksum(if second { Checksum::Crc32c } else { Checksum::Xxh3 })
            .hash_index(first == second);
        let hooks = Hooks::default().merge_operator(std::sync::Arc::new(Last));
        let db = Db::open_with(dir.path(), options, hooks).expect("open");
        let mut rng = Rng::new(9);
        let mut snapshots = Vec::new();
        for round in 0..60_000_u64 {
            let key = format!("key{:06}", rng.below(20_000));
            match rng.below(100) {
                0..80 => db.put(key.as_bytes(), rng.next().to_le_bytes().repeat(12)).expect("put"),
                80..90 => db.delete(key.as_bytes()).expect("delete"),
                90..98 => db.merge(key.as_bytes(), b"operand").expect("merge"),
                _ => {
                    let end = format!("{key}~");
                    db.delete_range(key.as_bytes(), end.as_bytes()).expect("delete range");
                }
            }
            if round % 9000 == 0 {
                snapshots.push(db.snapshot());
            }
        }
        let levels = db.properties().keyspaces[0].levels.clone();
        let tables: Vec<_> = levels.iter().flat_map(|level| &level.tables).collect();
        assert!(tables.len() > 8, "{} tables", tables.len());
        for table in tables {
            let run = |arguments: &[&str]| {
                let file = format!("--file={}", table.path.display());
                Command::new("sst_dump").arg(file).args(arguments).output()
            };
            let Ok(checked) = run(&["--command=check", "--verify_checksum"]) else {
                eprintln!("SKIPPED: no sst_dump; run scripts/install-oracles");
                return;
            };
            assert_sound(&checked, &table.path);
            let scanned = run(&["--command=scan", "--output_hex"]).expect("sst_dump");
            assert_sound(&scanned, &table.path);
            let text = String::from_utf8_lossy(&scanned.stdout);
            let entries = text.lines().filter(|line| line.starts_with('\'')).count() as u64;
            assert_eq!(entries, table.entries, "{}", table.path.display());
        }
    }
}

fn assert_sound(output: &std::process::Output, path: &std::path::Path) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!errors.contains("orrupt") && errors.trim().is_empty(), "{}: {errors}", path.display());
}
