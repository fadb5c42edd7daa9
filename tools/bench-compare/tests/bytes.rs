//! The bytes that are compared are those of the system. The engines that count their own must come to about the same.

use std::process::Command;

use serde_json::Value;

/// What else a process writes, such as messages, is far less.
const APART: f64 = 0.05;

#[test]
fn the_systems_bytes_are_those_that_engines_count() {
    let folder = tempfile::tempdir().expect("folder");
    let output = Command::new(env!("CARGO_BIN_EXE_strandline-bench-compare"))
        .arg(format!("--disk={}", folder.path().display()))
        .args(["--quick", "--counted", "--json", "--only=disk-overwrite", "--values=100"])
        .args(["--rivals=rocksdb", "--duration=3"])
        .output()
        .expect("run");
    let told = String::from_utf8_lossy(&output.stderr);
    if told.contains("which is memory") {
        eprintln!("not tested: temporary files are in memory");
        return;
    }
    assert!(output.status.success(), "{told}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let runs = report["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 2, "{report}");
    for run in runs {
        let times = run["system_by_engine"].as_f64().expect("both counts");
        assert!((times - 1.0).abs() < APART, "{}: {times}", run["engine"]);
    }
}
