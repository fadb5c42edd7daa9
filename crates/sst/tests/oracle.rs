//! RocksDB reads what we write. Needs what `scripts/install-oracles` installs, and says so where it is
//! missing.

mod common;

use std::cmp::Reverse;
use std::path::PathBuf;
use std::process::{Command, Output};

use base::Seq;
use base::random::Rng;
use common::{Model, options, write};
use sst::{EntryKind, FileSink, Writer, WriterOptions};

fn skipped(tool: &str) {
    eprintln!("SKIPPED: {tool} is missing; run scripts/install-oracles");
}

fn sst_dump(args: &[&str], file: &str) -> Option<Output> {
    let path = format!("--file={file}");
    Command::new("sst_dump").arg(path).args(args).output().ok()
}

/// Its exit status lies: a table that it finds corrupt still ends with 0.
fn complaint(output: &Output) -> Option<String> {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    let words = ["Corruption", "corrupt", "mismatch", "not supported", "ssertion", "rror:"];
    let bad = !output.status.success() || words.iter().any(|word| text.contains(word));
    bad.then(|| text.lines().take(20).collect::<Vec<_>>().join("\n"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

fn model(seed: u64) -> Model {
    let mut random = Rng::new(seed);
    let mut model = Model::new();
    for _ in 0..1500 {
        let len = [3, 8, 40, 300][random.below(4) as usize];
        let mut key = format!("{:06}", random.below(3000)).into_bytes();
        key.resize(len.max(6), b'k');
        let kind = match random.below(10) {
            0 => EntryKind::Delete,
            1 => EntryKind::SingleDelete,
            2 => EntryKind::Merge,
            _ => EntryKind::Value,
        };
        let deletes = matches!(kind, EntryKind::Delete | EntryKind::SingleDelete);
        let len = if deletes { 0 } else { random.below(200) as usize };
        let value = (0..len).map(|i| (i as u64 * random.below(3)) as u8).collect();
        model.insert((key, Reverse(Seq::new(random.below(1 << 20)))), (kind, value));
    }
    model
}

#[test]
fn sst_dump_reads_our_tables() {
    let place = tempfile::tempdir().unwrap();
    for seed in 0..24_u64 {
        let model = model(seed);
        let pick = seed | Rng::new(seed).next() << 4;
        let (bytes, _) = write(&model, options(pick));
        let path = place.path().join(format!("{seed:06}.sst"));
        std::fs::write(&path, &bytes).unwrap();
        let file = path.to_str().unwrap();
        let Some(output) = sst_dump(&["--command=check", "--verify_checksum"], file) else {
            return skipped("sst_dump");
        };
        assert_eq!(complaint(&output), None, "{:?}", options(pick));
        let output = sst_dump(&["--command=verify"], file).unwrap();
        assert_eq!(complaint(&output), None, "{:?}", options(pick));
        let output = sst_dump(&["--command=scan", "--output_hex"], file).unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let found: Vec<&str> = text.lines().filter(|line| line.starts_with('\'')).collect();
        let wanted = model.iter().map(|((key, seq), (kind, value))| {
            format!("'{}' seq:{}, type:{} => {}", hex(key), seq.0, *kind as u8, hex(value))
        });
        assert_eq!(found, wanted.collect::<Vec<_>>(), "{:?}", options(pick));
    }
}

/// So that the test above would notice.
#[test]
fn sst_dump_notices_damage() {
    let place = tempfile::tempdir().unwrap();
    let (mut bytes, _) = write(&model(1), WriterOptions::default());
    bytes[100] ^= 1;
    let path = place.path().join("000001.sst");
    std::fs::write(&path, &bytes).unwrap();
    let args = ["--command=check", "--verify_checksum"];
    let Some(output) = sst_dump(&args, path.to_str().unwrap()) else {
        return skipped("sst_dump");
    };
    assert!(complaint(&output).is_some());
}

#[test]
fn sst_dump_sees_range_deletions() {
    let place = tempfile::tempdir().unwrap();
    let mut writer = Writer::new(Vec::new(), WriterOptions::default());
    writer.add(b"m", Seq::new(9), EntryKind::Value, b"v").unwrap();
    for (begin, end, seq) in [("p", "q", 3), ("a", "c", 5), ("a", "z", 8)] {
        writer.add_range_delete(begin.as_bytes(), end.as_bytes(), Seq::new(seq)).unwrap();
    }
    let path = place.path().join("000001.sst");
    std::fs::write(&path, writer.finish().unwrap().0).unwrap();
    let args = ["--command=check", "--verify_checksum", "--show_properties"];
    let Some(output) = sst_dump(&args, path.to_str().unwrap()) else {
        return skipped("sst_dump");
    };
    assert_eq!(complaint(&output), None);
    let text = String::from_utf8_lossy(&output.stdout);
    for wanted in ["# entries: 4", "# range deletions: 3", "# data blocks: 1"] {
        assert!(text.contains(wanted), "{wanted} is not in\n{text}");
    }
}

#[test]
fn sst_dump_reads_range_deletions_alone() {
    let place = tempfile::tempdir().unwrap();
    let mut writer = Writer::new(Vec::new(), WriterOptions::default());
    writer.add_range_delete(b"a", b"c", Seq::new(5)).unwrap();
    let path = place.path().join("000001.sst");
    std::fs::write(&path, writer.finish().unwrap().0).unwrap();
    let args = ["--command=check", "--verify_checksum"];
    let Some(output) = sst_dump(&args, path.to_str().unwrap()) else {
        return skipped("sst_dump");
    };
    assert_eq!(complaint(&output), None);
}

/// A folder with nothing but our table becomes a store: with numbers, a column family and range deletions.
#[test]
fn ldb_repairs_a_folder() {
    let place = tempfile::tempdir().unwrap();
    let options = WriterOptions {
        file_number: 12,
        db_id: "store".into(),
        session_id: "0123456789ABCDEFGHIJ".into(),
        compression: *sst::Compression::AVAILABLE.last().unwrap(),
        index: sst::IndexKind::TwoLevel,
        hash_index: true,
        ..WriterOptions::default()
    };
    let mut writer = Writer::new(Vec::new(), options);
    for i in 0..1000 {
        writer
            .add(format!("k{i:05}").as_bytes(), Seq::new(7 + i), EntryKind::Value, b"value")
            .unwrap();
    }
    writer.add_range_delete(b"k00100", b"k00200", Seq::new(5000)).unwrap();
    std::fs::write(place.path().join("000012.sst"), writer.finish().unwrap().0).unwrap();
    let db = format!("--db={}", place.path().display());
    let ldb = |command: &str| Command::new("ldb").arg(&db).arg(command).output().ok();
    let Some(repaired) = ldb("repair") else { return skipped("ldb") };
    assert!(repaired.status.success(), "{repaired:?}");
    let scanned = ldb("scan").unwrap();
    let text = String::from_utf8_lossy(&scanned.stdout);
    assert_eq!(text.lines().count(), 900, "{scanned:?}");
    assert!(text.contains("k00099 : value\nk00200 : value"), "{scanned:?}");
}

fn python() -> Option<PathBuf> {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| here.join("../../target"));
    let path = target.join("oracles/bin/python");
    path.exists().then_some(path)
}

fn ingest(table: &std::path::Path, count: u64) -> Option<serde_json::Value> {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/ingest.py");
    let output =
        Command::new(python()?).arg(script).arg(table).arg(count.to_string()).output().ok()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// RocksDB 9.8.4 ingests a table of a million keys and finds each of them through our filter.
#[test]
fn million_keys() {
    if python().is_none() {
        return skipped("rocksdict");
    }
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("table.sst");
    let options = WriterOptions {
        external: true,
        compression: sst::Compression::Lz4,
        ..WriterOptions::default()
    };
    let mut writer = Writer::new(FileSink::create(&path).unwrap(), options);
    let count = 1_000_000;
    for i in 0..count {
        let tail = if i % 50 == 0 { i as usize * 37 % 300 } else { 0 };
        let key = format!("{i:09}{}", "x".repeat(tail));
        writer
            .add(key.as_bytes(), Seq::ZERO, EntryKind::Value, format!("v{i}").as_bytes())
            .unwrap();
    }
    let (sink, summary) = writer.finish().unwrap();
    sink.sync().unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), summary.len);

    let told = ingest(&path, count).unwrap();
    println!("{told}");
    let number = |name: &str| told[name].as_u64().unwrap();
    assert_eq!((number("missing"), number("wrong"), number("surplus")), (0, 0, 0));
    assert_eq!(number("scanned"), count);
    // Each key that is there passed the filter; of the others nearly all were stopped by it.
    assert_eq!(number("true_positive"), count);
    assert!(number("useful") > number("asked") * 98 / 100);
}

/// The same for other ways to lay out a table.
#[test]
fn ingested_in_every_shape() {
    if python().is_none() {
        return skipped("rocksdict");
    }
    let place = tempfile::tempdir().unwrap();
    for pick in 0..12 {
        let seed = Rng::new(pick).next();
        let options = WriterOptions { external: true, ..options(pick | seed << 4) };
        let mut writer = Writer::new(Vec::new(), options.clone());
        let count = 3000;
        for i in 0..count {
            let tail = if i % 50 == 0 { i as usize * 37 % 300 } else { 0 };
            let key = format!("{i:09}{}", "x".repeat(tail));
            writer
                .add(key.as_bytes(), Seq::ZERO, EntryKind::Value, format!("v{i}").as_bytes())
                .unwrap();
        }
        let path = place.path().join("table.sst");
        std::fs::write(&path, writer.finish().unwrap().0).unwrap();
        let told = ingest(&path, count).unwrap();
        let number = |name: &str| told[name].as_u64().unwrap();
        let counts = ["missing", "wrong", "surplus", "scanned"].map(number);
        assert_eq!(counts, [0, 0, 0, count], "{options:?}");
    }
}
