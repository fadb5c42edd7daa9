//! The groups of transactions, YCSB and TPC-C, small, by the program: what they tell of each engine, and that they fail where
//! something is wrong. What a store holds at the end is compared by the program itself.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn program(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_strandline-bench-compare"))
        .arg(format!("--disk={}", folder.display()))
        .args(args)
        .output()
        .expect("run")
}

/// The report of a small run; none where there is no disk.
fn report(folder: &Path, args: &[&str]) -> Option<Value> {
    let output = program(folder, &[&["--quick", "--json"], args].concat());
    let told = String::from_utf8_lossy(&output.stderr);
    if told.contains("which is memory") {
        eprintln!("not tested: temporary files are in memory");
        return None;
    }
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stdout));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["failures"], Value::Array(Vec::new()));
    Some(report)
}

/// The runs of a benchmark with so many threads.
fn runs<'r>(report: &'r Value, benchmark: &str, threads: u64) -> Vec<&'r Value> {
    let runs = report["runs"].as_array().expect("runs").iter();
    let of = |run: &&Value| run["benchmark"] == benchmark && run["threads"] == threads;
    runs.filter(of).collect()
}

fn engines<'r>(runs: &[&'r Value]) -> Vec<&'r str> {
    runs.iter().map(|run| run["engine"].as_str().expect("a name")).collect()
}

/// The row of a benchmark beside a rival.
fn row<'r>(report: &'r Value, benchmark: &str, rival: &str) -> &'r Value {
    let mut rows = report["rows"].as_array().expect("rows").iter();
    rows.find(|row| row["benchmark"] == benchmark && row["rival"] == rival)
        .unwrap_or_else(|| panic!("{benchmark} beside {rival}"))
}

fn number(value: &Value, field: &str) -> f64 {
    value[field].as_f64().unwrap_or_else(|| panic!("{field} in {value}"))
}

const TRANSACTIONAL: [&str; 4] =
    ["strandline", "strandline-pessimistic", "rocksdb-optimistic", "rocksdb-pessimistic"];

#[test]
fn transactions_of_one_key_tell_commits_conflicts_and_the_last_of_ten_thousand() {
    let folder = tempfile::tempdir().expect("folder");
    // Short, but long enough that there are a hundred thousand.
    let args = ["--group=transaction", "--only=transaction-pm-rmw", "--seconds=1"];
    let Some(report) = report(folder.path(), &args) else { return };
    for (benchmark, threads) in [("transaction-pm-rmw", 1), ("transaction-pm-rmw-zipf", 16)] {
        let runs = runs(&report, benchmark, threads);
        assert_eq!(engines(&runs), TRANSACTIONAL, "{benchmark}");
        for run in runs {
            let (ops, conflicts) = (number(run, "ops"), number(run, "conflicts"));
            assert!(ops > 1000.0 && (threads == 16 || conflicts == 0.0), "{run}");
            assert!(number(run, "retried") <= conflicts, "{run}");
            // Keys of 16 B and values of 100 B.
            assert_eq!(number(run, "user_bytes"), ops * 116.0, "{run}");
            assert_eq!(number(run, "timed"), ops, "{run}");
            let times = ["p50_us", "p99_us", "p999_us", "p9999_us", "longest_us"];
            let times: Vec<f64> = times.iter().filter_map(|time| run[time].as_f64()).collect();
            assert!(times.is_sorted() && times.len() >= 3, "{run}");
            assert!(number(run, "memory_bytes") > 0.0 && run["group"] == "transaction");
        }
        for rival in &TRANSACTIONAL[1..] {
            let row = row(&report, benchmark, rival);
            assert_eq!(row["terms_equal"], true, "{row}");
            assert!(row["costs_rival"].as_str().is_some_and(|costs| costs.contains("p99.9 ")));
        }
    }
}

#[test]
fn records_of_ycsb_are_the_same_in_keyspaces_of_all_engines() {
    let folder = tempfile::tempdir().expect("folder");
    let work = "--only=ycsb-load,ycsb-a,ycsb-c,ycsb-f,ycsb-d,ycsb-e";
    let Some(report) = report(folder.path(), &["--group=ycsb", "--values=500", work]) else {
        return;
    };
    let all = ["strandline", "rocksdb", "fjall", "redb", "lmdb"];
    for (benchmark, kinds) in [
        ("ycsb-load", &["insert"][..]),
        ("ycsb-a", &["read", "update"]),
        ("ycsb-c", &["read"]),
        ("ycsb-f", &["read", "read-modify-write"]),
        ("ycsb-d", &["read", "insert"]),
        ("ycsb-e", &["insert", "scan"]),
    ] {
        let runs = runs(&report, benchmark, 2);
        assert_eq!(engines(&runs), all, "{benchmark}");
        for run in runs {
            let of = run["kinds"].as_object().expect("kinds");
            assert!(of.keys().eq(kinds), "{run}");
            let counted: f64 = of.values().map(|kind| number(kind, "count")).sum();
            let ops = number(run, "ops");
            assert!(counted <= ops && counted + 16.0 > ops && ops > 0.0, "{run}");
            let puts = kinds.iter().any(|kind| *kind != "read" && *kind != "scan");
            assert_eq!(number(run, "user_bytes") > 0.0, puts, "{run}");
            assert!(number(run, "timed") <= ops && number(run, "p50_us") > 0.0, "{run}");
        }
    }
    // Eight times the memory, in records of 508 B, each once.
    for run in runs(&report, "ycsb-load", 2) {
        let records = (8_u64 * (8 << 20) / 508) as f64;
        let put = run["keys_put_of"][0].as_f64().unwrap_or(records);
        assert_eq!(number(run, "user_bytes"), put * 508.0, "{run}");
    }
    // What promises less has no ratio, but for reads of what is synced.
    assert_eq!(row(&report, "ycsb-a", "redb")["ratio_median"], Value::Null);
    assert_eq!(row(&report, "ycsb-a", "rocksdb")["terms_equal"], true);
    assert!(number(row(&report, "ycsb-c", "redb"), "ratio_median") > 0.0);
}

#[test]
fn a_workload_of_ycsb_loads_what_it_needs() {
    let folder = tempfile::tempdir().expect("folder");
    let args = ["--group=ycsb", "--values=1024", "--only=ycsb-d", "--rivals=lmdb"];
    let Some(report) = report(folder.path(), &args) else { return };
    let runs = runs(&report, "ycsb-d", 2);
    assert_eq!(engines(&runs), ["strandline", "lmdb"]);
    assert_eq!(report["runs"].as_array().map(Vec::len), Some(2));
    for run in runs {
        // It has inserted some more.
        assert!(number(run, "keys") > 8.0 * f64::from(8 << 20) / 1033.0, "{run}");
    }
}

#[test]
fn tpcc_is_told_of_each_kind_and_kept_in_a_file() {
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("figures");
    let into = format!("--into={}", file.display());
    let args = ["--group=tpcc", "--only=tpcc-disk", "--seconds=0.5", &into];
    let Some(first) = report(folder.path(), &args) else { return };
    for threads in [1, 2, 16] {
        let runs = runs(&first, "tpcc-disk", threads);
        assert_eq!(engines(&runs), TRANSACTIONAL);
        for run in runs {
            let kinds = run["kinds"].as_object().expect("kinds");
            let names = ["new_order", "payment", "order_status", "delivery", "stock_level"];
            assert!(kinds.keys().eq(&names), "{run}");
            let sum = |field: &str| kinds.values().map(|kind| number(kind, field)).sum::<f64>();
            assert_eq!(sum("conflicts"), number(run, "conflicts"), "{run}");
            assert_eq!(number(&kinds["new_order"], "count"), number(run, "ops"), "{run}");
            let a_minute = 60.0 * number(run, "ops_per_sec");
            assert!((number(run, "tpmc") / a_minute - 1.0).abs() < 1e-9, "{run}");
            assert_eq!((&run["audited"], &run["value_size"]), (&false.into(), &0.into()));
            assert!(threads > 1 || number(run, "conflicts") == 0.0, "{run}");
        }
    }
    // What is told again from the file is the same.
    let Some(again) = report(folder.path(), &["--report", &into]) else { return };
    assert_eq!(again["runs"], first["runs"]);
    assert_eq!(again["rows"], first["rows"]);
}
