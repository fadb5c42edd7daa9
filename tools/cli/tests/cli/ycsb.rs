//! bench: YCSB's core workloads, end to end.

use serde_json::Value;

use crate::store::Store;

const RECORDS: u64 = 2000;
const WORK: &str = "--benchmarks=ycsb-load,ycsb-a,ycsb-b,ycsb-c,ycsb-d,ycsb-e,ycsb-f";

/// What each benchmark told.
fn run(args: &[&str]) -> Vec<Value> {
    let small = ["bench", "--num=2000", "--pm=heap", "--pm_size=128M", "--json"];
    let text = Store::new().run(&[&small[..], args].concat()).ok().text();
    text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

fn number(object: &Value, field: &str) -> u64 {
    object[field].as_u64().unwrap_or_else(|| panic!("{field} in {object}"))
}

/// All seven, with the shares of operations that they are to have, and nothing missing.
fn check(objects: &[Value], threads: u64) {
    assert_eq!(objects.len(), 7, "{objects:?}");
    for (object, (name, shares)) in objects.iter().zip([
        ("ycsb-load", &[("insert", 1.0)][..]),
        ("ycsb-a", &[("read", 0.5), ("update", 0.5)]),
        ("ycsb-b", &[("read", 0.95), ("update", 0.05)]),
        ("ycsb-c", &[("read", 1.0)]),
        ("ycsb-d", &[("read", 0.95), ("insert", 0.05)]),
        ("ycsb-e", &[("scan", 0.95), ("insert", 0.05)]),
        ("ycsb-f", &[("read", 0.5), ("read-modify-write", 0.5)]),
    ]) {
        assert_eq!(object["benchmark"], name);
        let ops = if name == "ycsb-load" { RECORDS } else { threads * RECORDS };
        assert_eq!((number(object, "ops"), number(object, "errors")), (ops, 0), "{object}");
        assert_eq!(number(object, "reads"), number(object, "found"), "{object}");
        let kinds = object["operations"].as_object().expect("kinds");
        assert_eq!(kinds.len(), shares.len(), "{object}");
        let counts = kinds.values().map(|kind| number(kind, "count"));
        assert_eq!(counts.sum::<u64>(), ops, "{object}");
        for (kind, share) in shares {
            let kind = &kinds[*kind];
            let found = number(kind, "count") as f64 / ops as f64;
            assert!((found - share).abs() < 0.04, "{found}, not {share}: {object}");
            let fields = ["p50_us", "p95_us", "p99_us", "p999_us", "max_us"];
            let latencies = fields.map(|field| kind[field].as_f64().expect("a latency"));
            assert!(latencies[0] > 0.0 && latencies.is_sorted(), "{object}");
        }
    }
}

#[test]
fn bench_runs_the_workloads_of_ycsb() {
    let objects = run(&[WORK, "--latency=true", "--verify"]);
    check(&objects, 1);
    for object in &objects {
        assert_eq!((number(object, "value_size"), object["key_size"].as_f64()), (1000, Some(23.0)));
        let draw = match object["benchmark"].as_str() {
            Some("ycsb-load") => Value::Null,
            Some("ycsb-d") => "latest 0.99".into(),
            _ => "zipfian 0.99".into(),
        };
        assert_eq!(object["draw"], draw, "{object}");
    }
    assert_eq!(number(&objects[0], "user_bytes_written"), RECORDS * (23 + 1000));
    let reads = |object: &Value| number(object, "reads");
    assert!(reads(&objects[6]) == RECORDS && reads(&objects[1]) < RECORDS, "updates read nothing");
}

/// X-Engine's setting, with threads that insert at the same time.
#[test]
fn bench_spreads_records_of_ycsb_over_keyspaces() {
    let records = ["--key_size=8", "--value_size=500", "--ycsb_keyspaces=16", "--threads=3"];
    let newest = ["--ycsb_request_distribution=latest", "--ycsb_zipfian_constant=1.2"];
    let objects = run(&[&[WORK, "--latency=true", "--verify"], &records[..], &newest].concat());
    check(&objects, 3);
    assert_eq!(number(&objects[0], "user_bytes_written"), RECORDS * (8 + 500));
    assert!(objects[1..].iter().all(|object| object["draw"] == "latest 1.2"), "{objects:?}");
}

#[test]
fn bench_changes_single_fields_of_ycsb() {
    let fields = ["--ycsb_write_all_fields=false", "--ycsb_fields=3", "--ycsb_field_bytes=33"];
    let order = ["--ycsb_order=ordered", "--ycsb_request_distribution=uniform"];
    let more = [WORK, "--latency=true", "--verify", "--ycsb_scan_max=7"];
    let objects = run(&[&more[..], &fields, &order].concat());
    check(&objects, 1);
    assert_eq!(number(&objects[1], "reads"), RECORDS, "an update reads the record: {}", objects[1]);
    assert_eq!(number(&objects[1], "value_size"), 99);
}

/// A row for each kind, below the line of db_bench.
#[test]
fn bench_tells_of_ycsb_as_text() {
    let small = ["bench", "--num=1000", "--pm=heap", "--pm_size=64M"];
    let run = Store::new().run(&[&small[..], &["--benchmarks=ycsb-load,ycsb-a"]].concat()).ok();
    let text = run.text();
    let line = text.lines().find(|line| line.starts_with("ycsb-a ")).expect("a line");
    assert!(line.contains(" 1000 operations; ") && line.ends_with("[zipfian 0.99]"), "{line}");
    assert!(line.contains(" found) "), "{line}");
    for kind in ["  insert ", "  read ", "  update "] {
        let rows = text.lines().filter(|line| line.starts_with(kind));
        let cells: Vec<usize> = rows.map(|row| row.split_whitespace().count()).collect();
        assert_eq!(cells, [7], "{kind} in {text}");
    }
}

/// A row for each workload, with both engines' figures and the paper's.
#[test]
fn reproduce_runs_ycsb_as_papers_do() {
    for (name, engine) in [("xengine-ycsb", "log-free/s"), ("relsm-ycsb", "re-lsm/s")] {
        let report = Store::new().run(&["reproduce", name, "--quick"]).ok().text();
        assert!(report.contains(engine) && report.contains("The paper"), "{report}");
        for workload in ["load", "a", "b", "c", "d", "e", "f"] {
            let begin = format!("ycsb-{workload} ");
            let rows: Vec<&str> = report.lines().filter(|line| line.starts_with(&begin)).collect();
            let [row] = rows[..] else { panic!("{begin} in {report}") };
            let cells = row.split_whitespace().skip(1).take(3);
            let rates: Vec<f64> = cells.map(|cell| cell.parse().expect("a rate")).collect();
            assert!(rates.len() == 3 && rates.iter().all(|rate| *rate > 0.0), "{row}");
        }
    }
}

#[test]
fn bench_finds_what_is_wrong_with_records_of_ycsb() {
    let objects = run(&["--benchmarks=ycsb-c,ycsb-f"]);
    for object in &objects {
        assert_eq!(number(object, "errors"), RECORDS, "no record is there: {object}");
        assert_eq!(number(object, "user_bytes_written"), 0, "{object}");
    }
    let store = Store::new();
    let others = ["bench", "--num=1000", "--pm=heap", "--pm_size=64M", "--key_size=8"];
    let work = ["--benchmarks=fillseq,ycsb-c", "--ycsb_order=ordered"];
    let ran = store.run(&[&others[..], &work].concat());
    ran.failed(3, "the value is not one of its own");
    for (args, error) in [
        (["--ycsb_request_distribution=hot", "--num=9"], "expected zipfian, latest or uniform"),
        (["--ycsb_zipfian_constant=0", "--num=9"], "expected a number above 0"),
        (["--ycsb_fields=0", "--num=9"], "expected count, 1 or more"),
        (["--benchmarks=ycsb-load", "--keys=path"], "--keys=path: keys of YCSB are numbers"),
        (["--benchmarks=ycsb-load", "--key_size=4"], "--key_size=4: keys of YCSB hold a hash"),
    ] {
        store.run(&[&["bench"][..], &args].concat()).failed(2, error);
    }
}
