//! TPC-C on small tables: what it tells, what it keeps, and what a kill leaves.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

/// Tables of a hundredth of the size.
fn tpcc(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strandline-bench"));
    command.args(["--tpcc_scale=1", "--pm_size=128M"]).args(args).stdin(Stdio::null());
    command
}

fn output(args: &[&str]) -> Output {
    tpcc(args).output().expect("the program ends")
}

/// Demands success; what was printed.
fn text(args: &[&str]) -> String {
    let Output { status, stdout, stderr } = output(args);
    let text = String::from_utf8(stdout).expect("text");
    assert!(status.success(), "{text}\n{}", String::from_utf8_lossy(&stderr));
    text
}

fn objects(args: &[&str]) -> Vec<Value> {
    let text = text(&[&["--json"], args].concat());
    text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

/// Demands that it fails; the message.
fn refusal(args: &[&str]) -> String {
    let Output { status, stderr, .. } = output(args);
    assert_eq!(status.code(), Some(1), "{args:?}");
    String::from_utf8(stderr).expect("text")
}

fn count(object: &Value, field: &str) -> u64 {
    object[field].as_u64().unwrap_or_else(|| panic!("{field} in {object}"))
}

const KINDS: [(&str, f64); 5] = [
    ("new_order", 0.45),
    ("payment", 0.43),
    ("order_status", 0.04),
    ("delivery", 0.04),
    ("stock_level", 0.04),
];

#[test]
fn two_terminals_run_all_kinds_and_leave_all_consistent() {
    for (warehouses, serializable) in [("1", "false"), ("1", "true"), ("2", "true")] {
        let told = objects(&[
            "--benchmarks=tpcc,tpcc-check",
            "--pm=heap",
            "--threads=2",
            "--num=3000",
            &format!("--tpcc_warehouses={warehouses}"),
            &format!("--transaction_serializable={serializable}"),
        ]);
        let names: Vec<&Value> = told.iter().map(|object| &object["benchmark"]).collect();
        assert_eq!(names, ["tpcc-load", "tpcc", "tpcc-check"]);
        let run = &told[1];
        assert_eq!(count(run, "ops"), 6000);
        let (mut all, mut conflicts) = (0, 0);
        for (name, share) in KINDS {
            let kind = &run["transactions"][name];
            let ended = count(kind, "committed") + count(kind, "rolled_back");
            assert!((ended as f64 / 6000.0 - share).abs() < 0.03, "{name}: {ended}");
            let times = ["p50_us", "p95_us", "p99_us", "max_us"].map(|time| kind[time].as_f64());
            assert!(times.is_sorted() && times[0] > Some(0.0), "{name}: {times:?}");
            assert!(count(kind, "retried") <= count(kind, "conflicts"));
            all += ended;
            conflicts += count(kind, "conflicts");
        }
        assert_eq!((all, conflicts), (6000, count(run, "conflicts")));
        let new_orders = &run["transactions"]["new_order"];
        let rolled_back = count(new_orders, "rolled_back");
        assert!((5..80).contains(&rolled_back), "one in a hundred is: {rolled_back}");
        let a_minute =
            count(new_orders, "committed") as f64 * 60.0 / run["seconds"].as_f64().expect("a time");
        let tpmc = run["tpmc"].as_f64().expect("a rate");
        assert!((tpmc / a_minute - 1.0).abs() < 0.01, "{tpmc}, {a_minute}");
        assert_eq!(run["audited"], false);
        assert_eq!(count(&told[2], "rows_checked"), count(run, "rows_checked"));
    }
}

#[test]
fn the_line_has_the_rate_and_a_row_for_each_kind() {
    let told = text(&["--benchmarks=tpcc", "--pm=heap", "--num=500"]);
    let line = told.lines().find(|line| line.starts_with("tpcc  ")).expect("a line");
    assert!(line.contains("( tpmC:") && line.contains("not audited"), "{line}");
    for (name, _) in KINDS {
        assert!(told.lines().any(|line| line.starts_with(name)), "{name}: {told}");
    }
}

#[test]
fn tables_are_kept_and_those_of_another_scale_refused() {
    let folder = folder();
    let db = format!("--db={}", folder.path().join("db").display());
    let again = ["--use_existing_db", "--benchmarks=tpcc", "--num=200", &db];
    assert_eq!(objects(&["--benchmarks=tpcc", "--num=200", &db]).len(), 2);
    assert_eq!(objects(&again).len(), 1, "loaded once");
    let other = refusal(&[&again[..], &["--warehouses=3"]].concat());
    assert!(other.contains("--tpcc_warehouses=1") && other.contains("3 warehouses"), "{other}");
    let nothing = refusal(&["--benchmarks=tpcc-check", "--pm=heap"]);
    assert!(nothing.contains("run the benchmark tpcc"), "{nothing}");
}

/// Stores in persistent memory, which is emulated, and with a log.
#[test]
fn what_a_kill_leaves_is_consistent() {
    for pm in ["--pm=auto", "--pm=dram"] {
        let folder = folder();
        let db = format!("--db={}", folder.path().join("db").display());
        let work = ["--benchmarks=tpcc", "--threads=2", "--duration=60", "--json", pm, &db];
        run_and_kill(&work);
        for _ in 0..3 {
            check(&db, pm);
            run_and_kill(&[&work[..], &["--use_existing_db"]].concat());
        }
        let told = check(&db, pm);
        assert!(told > 7000, "more rows than at first: {told}");
        let last = ["--use_existing_db", "--benchmarks=tpcc", "--num=200", pm, &db];
        objects(&last);
    }
}

/// Rows that were checked.
fn check(db: &str, pm: &str) -> u64 {
    let told = objects(&["--use_existing_db", "--benchmarks=tpcc-check", db, pm]);
    count(&told[0], "rows_checked")
}

/// Kills it while transactions run: behind the line about the load, if it is to load.
fn run_and_kill(args: &[&str]) {
    let mut child = tpcc(args).stdout(Stdio::piped()).spawn().expect("the program starts");
    if !args.contains(&"--use_existing_db") {
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        assert!(line.contains("tpcc-load"), "{line}");
    }
    std::thread::sleep(Duration::from_millis(700));
    assert!(child.try_wait().expect("a child").is_none(), "it runs until it is killed");
    child.kill().expect("killed");
    child.wait().expect("gone");
}

/// A folder in memory, where there is some: stores in it have pools.
fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory } else { Path::new(env!("CARGO_TARGET_TMPDIR")) };
    tempfile::tempdir_in(parent).expect("a folder")
}
