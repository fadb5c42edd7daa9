//! The program as its users meet it: run, read, and gone without a trace.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_strandline-bench");

/// A run that has ended.
struct Ran {
    pid: u32,
    output: Output,
}

impl Ran {
    fn out(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    fn err(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    /// Demands success; the lines of standard output.
    fn lines(&self) -> Vec<String> {
        assert!(self.output.status.success(), "{}\n{}", self.out(), self.err());
        self.out().lines().map(Into::into).collect()
    }

    /// Demands success; the objects that were printed.
    fn objects(&self) -> Vec<Value> {
        self.lines().iter().map(|line| serde_json::from_str(line).expect("a JSON object")).collect()
    }
}

fn start(args: &[&str]) -> Child {
    let mut command = Command::new(PROGRAM);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the program starts")
}

/// Runs to the end, and demands that nothing is left behind.
fn run(args: &[&str]) -> Ran {
    let child = start(args);
    let pid = child.id();
    let ran = Ran { pid, output: child.wait_with_output().expect("the program ends") };
    assert_eq!(left_behind(ran.pid), Vec::<PathBuf>::new(), "{args:?}");
    ran
}

/// A folder in memory, where there is some: stores in it have pools.
fn folder() -> tempfile::TempDir {
    let memory = PathBuf::from("/dev/shm");
    let parent = if memory.is_dir() { memory } else { env!("CARGO_TARGET_TMPDIR").into() };
    tempfile::tempdir_in(parent).expect("a folder")
}

/// Folders of the run with this process id.
fn left_behind(pid: u32) -> Vec<PathBuf> {
    let prefix = format!("strandline-bench-{pid}-");
    [PathBuf::from("/dev/shm"), std::env::temp_dir()]
        .iter()
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flatten()
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix))
        })
        .collect()
}

fn number(object: &Value, field: &str) -> f64 {
    object[field].as_f64().unwrap_or_else(|| panic!("{field} in {object}"))
}

const FIELDS: [&str; 16] = [
    "benchmark",
    "ops",
    "seconds",
    "ops_per_sec",
    "mb_per_sec",
    "p50_us",
    "p99_us",
    "p999_us",
    "max_us",
    "user_bytes_written",
    "pm_bytes_written",
    "ssd_bytes_written",
    "ssd_zeros_written",
    "dram_bytes",
    "pm_bytes",
    "durability",
];

/// What one benchmark must have counted, on 2000 keys of 16 bytes with values of 100.
fn check_counts(object: &Value) {
    for field in FIELDS {
        assert!(object.get(field).is_some(), "{field} in {object}");
    }
    let name = object["benchmark"].as_str().expect("a name");
    let counted = |field| number(object, field) as u64;
    assert!(number(object, "seconds") > 0.0, "{object}");
    match name {
        "fillseq" | "fillbatch" | "fillrandom" | "filluniquerandom" | "overwrite" => {
            assert_eq!(
                (counted("ops"), counted("user_bytes_written")),
                (2000, 2000 * 116),
                "{object}"
            );
            assert!(counted("pm_bytes_written") >= 2000 * 116, "{object}");
            // Two batches are fewer than are timed.
            assert!(
                name == "fillbatch" || number(object, "p50_us") <= number(object, "max_us"),
                "{object}"
            );
        }
        "deleteseq" | "deleterandom" | "deleterange" | "mergerandom" => {
            assert_eq!(counted("ops"), 2000);
        }
        "fillsync" => assert_eq!((counted("ops"), counted("user_bytes_written")), (2, 2 * 116)),
        "updaterandom" => {
            assert_eq!((counted("ops"), counted("found")), (2000, 2000), "{object}");
            assert_eq!(counted("user_bytes_written"), 2000 * 116, "{object}");
        }
        "readmissing" => assert_eq!((counted("ops"), counted("found")), (2000, 0)),
        "readrandom" | "multireadrandom" | "readwhilewriting" | "readwhilescanning"
        | "seekrandom" => {
            assert_eq!(
                (counted("ops"), counted("reads"), counted("found")),
                (2000, 2000, 2000),
                "{object}"
            );
        }
        "readseq" | "readreverse" => assert_eq!(counted("found"), 2000, "{object}"),
        "readrandomwriterandom" => {
            assert_eq!(counted("ops"), 2000);
            assert!((1..2000).contains(&counted("reads")), "{object}");
            assert_eq!(counted("found"), counted("reads"), "{object}");
        }
        "flush" | "compact" | "check" => assert_eq!(counted("ops"), 1),
        "recover" => assert_eq!(counted("damage"), 0),
        other => panic!("{other}"),
    }
}

const WORK: &str = "--benchmarks=fillrandom,overwrite,filluniquerandom,readrandom,multireadrandom,readmissing,readseq,\
                    readreverse,seekrandom,readwhilewriting,readrandomwriterandom,flush,readrandom,overwrite,\
                    compact,readseq,readrandom,fillseq,readreverse,recover,readrandom,check,deleterandom,deleteseq,\
                    fillsync,fillbatch,readrandom,updaterandom,readwhilescanning,readseq,mergerandom,mergerandom,\
                    deleterange,check";

#[test]
fn every_workload_counts_what_it_did() {
    for pm in ["--pm=auto", "--pm=heap"] {
        // Zones that hold a batch of 1000.
        let store = [pm, "--pm_size=128M", "--zone_size=1M"];
        let args = ["--num=2000", "--json", "--verify", "--seek_nexts=3", WORK];
        let ran = run(&[&store[..], &args].concat());
        let objects = ran.objects();
        assert_eq!(objects.len(), 34, "{}", ran.err());
        // A store on the heap cannot be opened again; that is told, and what follows finds it as it was.
        let (skipped, done): (Vec<_>, Vec<_>) =
            objects.iter().partition(|object| object["skipped"].is_string());
        let skipped: Vec<&Value> = skipped.iter().map(|object| &object["benchmark"]).collect();
        assert_eq!(skipped, if pm == "--pm=heap" { vec!["recover"] } else { vec![] });
        done.into_iter().for_each(check_counts);
    }
}

#[test]
fn a_queue_tells_what_its_seeks_took() {
    let args = ["--num=3000", "--pm_size=48M", "--json", "--queue_depth=50", "--benchmarks=queue"];
    let object = run(&args).objects().remove(0);
    assert_eq!(number(&object, "ops") as u64, 2 * 3000, "{object}");
    assert_eq!(number(&object, "found") as u64, 3000, "{object}");
    for field in ["seek_mean_us", "seek_longest_us", "drained_first_us", "drained_seek_us"] {
        assert!(number(&object, field) > 0.0, "{field}: {object}");
    }
    // A look at the vacancies costs less than a walk: of each message at most a few dozen are passed again.
    assert!(number(&object, "scans_passed") < 3000.0 * 64.0, "{object}");
}

#[test]
fn many_stores_tell_what_each_takes() {
    let args = ["--pm=heap", "--pm_size=16M", "--json", "--stores=2", "--benchmarks=stores"];
    let object = run(&args).objects().remove(0);
    assert!(object["skipped"].is_string(), "they would not be there again: {object}");
    let args = ["--pm_size=16M", "--json", "--stores=40", "--benchmarks=stores"];
    let object = run(&args).objects().remove(0);
    assert_eq!(number(&object, "stores") as u64, 40, "{object}");
    for field in ["make_mean_ms", "first_put_mean_ms", "reopen_mean_ms", "memory_bytes_each"] {
        assert!(number(&object, field) > 0.0, "{field}: {object}");
    }
    assert!(number(&object, "disk_bytes_each") < 4e6, "{object}");
}

#[test]
fn ranges_and_keyspaces_tell_what_each_costs() {
    let args = ["--num=3000", "--pm_size=64M", "--json", "--benchmarks=rangedelete,keyspaces"];
    let objects = run(&args).objects();
    let ranges = ["seek_written_us", "seek_flushed_us", "seek_compacted_us", "apart_mean_us"];
    let more = ["around_mean_us", "within_mean_us", "within_longest_us"];
    for field in ranges.into_iter().chain(more) {
        assert!(number(&objects[0], field) > 0.0, "{field}: {}", objects[0]);
    }
    for field in ["make_mean_us", "make_longest_us", "drop_mean_us", "drop_longest_us"] {
        assert!(number(&objects[1], field) > 0.0, "{field}: {}", objects[1]);
    }
}

/// What the snapshot sees is kept beside what is written over it.
#[test]
fn a_snapshot_may_be_held_while_a_benchmark_runs() {
    let store = ["--pm=heap", "--ssd=none", "--memtable_bytes=256K", "--background_threads=0"];
    let work = ["--num=10000", "--writes=30000", "--json", "--benchmarks=fillseq,overwrite"];
    let kept = |more: &[&str]| {
        let objects = run(&[&store[..], &["--pm_size=64M"], &work, more].concat()).objects();
        assert_eq!(number(&objects[1], "ops") as u64, 30_000);
        number(&objects[1], "pm_bytes") as u64
    };
    let (with, without) = (kept(&["--snapshot"]), kept(&[]));
    assert!(with > without, "{with} bytes with a snapshot, {without} without");
}

#[test]
fn threads_batches_paths_and_durations() {
    let common = ["--num=2000", "--pm_size=64M", "--json", "--verify", "--keys=path", "--unique"];
    let work = "--benchmarks=fillrandom,readrandom,readwhilewriting,readrandomwriterandom";
    let many = run(&[&common[..], &[work, "--threads=16", "--batch_size=7"]].concat()).objects();
    for object in &many {
        assert_eq!(number(object, "ops") as u64, 16 * 2000, "{object}");
        assert_eq!(number(object, "threads") as u64, 16);
    }
    assert_eq!(number(&many[1], "found") as u64, 16 * 2000);
    assert!((40.0..=120.0).contains(&number(&many[0], "key_size")));
    let timed =
        run(&[&common[..], &["--benchmarks=fillrandom,readrandom", "--duration=0.2"]].concat())
            .objects();
    for object in &timed {
        assert!((0.2..5.0).contains(&number(object, "seconds")), "{object}");
        assert!(number(object, "ops") > 2000.0, "{object}");
    }
}

#[test]
fn latencies_are_taken_as_asked() {
    let base = ["--num=2000", "--pm=heap", "--pm_size=32M", "--json", "--benchmarks=fillrandom"];
    for (flag, every) in
        [("--latency=false", None), ("--latency=sampled", Some(16)), ("--histogram", Some(1))]
    {
        let object = run(&[&base[..], &[flag]].concat()).objects().remove(0);
        assert_eq!(object["latency_of_every"].as_u64(), every, "{object}");
        assert_eq!(object["max_us"].is_null(), every.is_none(), "{object}");
    }
    let probed = run(&[&base[..], &["--pause_probe=0.05"]].concat()).objects().remove(0);
    assert!(number(&probed, "machine_pause_us") > 0.0);
}

/// `name : N micros/op N ops/sec N seconds N operations;` and what follows.
fn parse_line(line: &str) -> (String, u64, String) {
    let (name, rest) = line.split_once(" : ").unwrap_or_else(|| panic!("{line}"));
    assert!(name.len() >= 12, "{line}");
    let (figures, extra) = rest.split_once(';').unwrap_or_else(|| panic!("{line}"));
    let words: Vec<&str> = figures.split_whitespace().collect();
    let [micros, "micros/op", rate, "ops/sec", seconds, "seconds", ops, "operations"] = words[..]
    else {
        panic!("{line}")
    };
    assert!(micros.parse::<f64>().is_ok() && rate.parse::<u64>().is_ok(), "{line}");
    assert!(seconds.parse::<f64>().is_ok(), "{line}");
    (name.trim().into(), ops.parse().expect("operations"), extra.into())
}

#[test]
fn lines_have_the_form_of_db_bench() {
    let work = "-benchmarks=fillrandom,readrandom,readseq,readrandomwriterandom,stats";
    let ran = run(&[work, "-num", "1000", "--pm=heap", "--pm_size=32M", "--statistics"]);
    let lines = ran.lines();
    let line = |name: &str| {
        let line = lines
            .iter()
            .find(|line| line.starts_with(&format!("{name} ")))
            .unwrap_or_else(|| panic!("{name}"));
        parse_line(line)
    };
    let (_, ops, extra) = line("fillrandom");
    assert_eq!(ops, 1000);
    assert!(extra.starts_with(' ') && extra.ends_with(" MB/s"), "{extra}");
    let (_, _, extra) = line("readrandom");
    assert!(extra.contains(" MB/s (") && extra.ends_with(" of 1000 found)"), "{extra}");
    let (_, _, extra) = line("readrandomwriterandom");
    assert!(extra.contains("( reads:") && extra.contains(" total:1000 found:"), "{extra}");
    assert!(lines.iter().any(|line| line.starts_with("keyspace default")));
    for (row, part) in [
        ("written to pm ", " per user byte"),
        ("written to ssd ", " per user byte"),
        ("zeros of these ", " per user byte"),
        ("level 0 ", " % in dram"),
        ("wear of zones ", "; ratio "),
    ] {
        let line = lines.iter().find(|line| line.starts_with(row));
        assert!(line.is_some_and(|line| line.contains(part)), "{row} in {lines:?}");
    }
    assert!(lines.iter().any(|line| line.starts_with("strandline.pm.fences COUNT : ")));
}

#[test]
fn unknown_flags_are_an_error_or_one_warning_and_wrong_values_an_error() {
    let work = ["--benchmarks=fillseq", "--num=100", "--pm=heap", "--pm_size=32M"];
    let unknown = ["--mmap_read=1", "--prefix_size", "10", "--use_blob_db"];
    let ran = run(&[&work[..], &unknown].concat());
    assert_eq!((ran.output.status.code(), ran.out().as_str()), (Some(2), ""), "{}", ran.err());
    assert!(ran.err().contains("--ignore_unknown_flags"), "{}", ran.err());
    let ignored = run(&[&work[..], &unknown, &["--ignore_unknown_flags"]].concat());
    ignored.lines();
    for ran in [ran, ignored] {
        assert_eq!(ran.err().lines().count(), 1, "{}", ran.err());
        for flag in ["--mmap_read", "--prefix_size", "--use_blob_db"] {
            assert!(ran.err().contains(flag), "{}", ran.err());
        }
    }
    for wrong in ["--num=many", "--pm_size=huge", "--benchmarks=fill", "fillseq", "--threads=0"] {
        let ran = run(&[wrong]);
        assert_eq!(ran.output.status.code(), Some(2), "{wrong}");
        assert!(ran.err().contains(wrong), "{}", ran.err());
        assert!(ran.out().is_empty());
    }
}

/// What went to the log of a store in DRAM says whether it was synced.
#[test]
fn sync_is_what_db_bench_means_by_it() {
    let work = ["--benchmarks=fillrandom", "--num=2000", "--pm_size=48M", "--json"];
    let durability = |more: &[&str]| {
        let ran = run(&[&work[..], more].concat());
        (ran.objects()[0]["durability"].as_str().expect("text").to_owned(), ran.err())
    };
    let (synced, _) = durability(&["--pm=dram", "--sync=1"]);
    let (unsynced, note) = durability(&["--pm=dram", "--sync=0"]);
    assert_ne!(synced, unsynced);
    assert_eq!(note, "");
    // There is no log in persistent memory: a note says so, and figures are the same.
    let (plain, note) = durability(&[]);
    assert_eq!(note, "");
    for flag in ["--sync=0", "--disable_wal"] {
        let (same, note) = durability(&[flag]);
        assert_eq!(same, plain);
        let note: Value = serde_json::from_str(&note).expect("one JSON object");
        assert!(note["note"].as_str().is_some_and(|text| text.contains("no log")), "{note}");
    }
    // One that is kept by its log does not sync it.
    let (same, note) = durability(&["--pm=dram", "--disable_wal"]);
    assert_eq!(same, unsynced);
    assert!(note.contains("wal_sync=never"), "{note}");
    let refused = run(&["--benchmarks=fillseq", "--pm=dram", "--disable_wal", "--sync=1"]);
    assert_eq!(refused.output.status.code(), Some(2));
    assert!(refused.err().contains("leave out --sync"), "{}", refused.err());
}

/// Every benchmark tells the pages of its store's memory; a process that is forbidden huge ones has none.
#[test]
fn pages_are_told_and_huge_ones_can_be_forbidden() {
    let told = |more: &[&str]| {
        let work = ["--benchmarks=fillseq", "--num=1000", "--pm_size=16M", "--json"];
        let object = run(&[&work, more].concat()).objects().remove(0);
        let figure = |name| number(&object, name) as u64;
        (figure("page_size"), figure("resident_bytes"), figure("huge_page_bytes"))
    };
    let (size, resident, huge) = told(&[]);
    assert!(size >= 4096 && huge <= resident, "{size} {resident} {huge}");
    for pm in ["--pm=auto", "--pm=heap"] {
        let (small, resident, huge) = told(&["--huge_pages=false", pm]);
        assert_eq!((small, huge), (size, 0), "{resident} bytes by {pm}");
    }
    let text = run(&["--benchmarks=fillseq", "--num=1000", "--pm_size=16M"]).out();
    assert!(text.contains("Pages:  "), "{text}");
}

/// `fillsync` waits for each sync, also where other benchmarks of the run do not, and leaves those as they were.
#[test]
fn fillsync_syncs_whatever_else_is_asked_for() {
    let work = "--benchmarks=fillsync,fillbatch,readrandom,fillrandom";
    let store = ["--pm=dram", "--pm_size=128M", "--zone_size=1M", "--sync=0"];
    let args = [work, "--num=20000", "--json", "--verify"];
    let objects = run(&[&store[..], &args].concat()).objects();
    let durability: Vec<&Value> = objects.iter().map(|object| &object["durability"]).collect();
    assert_ne!(durability[0], durability[1]);
    assert_eq!((durability[1], durability[2]), (durability[2], durability[3]));
    let ops: Vec<u64> = objects.iter().map(|object| number(object, "ops") as u64).collect();
    assert_eq!(ops, [20, 20_000, 20_000, 20_000]);
    assert_eq!(number(&objects[2], "found") as u64, 20_000, "batches of 1000 hold every key");
}

/// Flags of db_bench reach the store: tables without a filter, of other compression and block size.
#[test]
fn mapped_flags_change_the_tables() {
    let folder = folder();
    let size = |name: &str, more: &[&str]| {
        let db = format!("--db={}", folder.path().join(name).display());
        let base = ["--benchmarks=fillrandom,compact", "--num=20000", "--pm_size=32M"];
        let shape = ["--level0=sst", "--memtable_bytes=512K", &db];
        run(&[&base[..], &shape, more].concat()).lines();
        let files = std::fs::read_dir(folder.path().join(name).join("sst")).expect("tables");
        files.map(|file| file.expect("a file").metadata().expect("its size").len()).sum::<u64>()
    };
    let plain = size("plain", &[]);
    let loose = size("loose", &["--compression_type=none"]);
    assert!(loose * 4 > plain * 5, "{loose} bytes without compression, {plain} with");
    let unfiltered = size("unfiltered", &["--bloom_bits=0"]);
    assert!(unfiltered < plain, "{unfiltered} bytes without filters, {plain} with");
    let dense = size("dense", &["--compression_ratio=0.1"]);
    assert!(dense * 5 < plain * 4, "{dense} bytes of dense values, {plain} of others");
}

#[test]
fn a_store_of_ones_own_is_kept_and_found_again() {
    // Under the build's own folder, which may be on a disk.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let db = format!("--db={}", folder.path().join("db").display());
    let args = |work| [db.as_str(), "--num=1000", "--pm_size=32M", "--verify", "--unique", work];
    run(&args("--benchmarks=fillrandom")).lines();
    let again = args("--benchmarks=fillrandom,readrandom");
    let lines = run(&[&again[..], &["--use_existing_db"]].concat()).lines();
    assert!(
        lines.iter().any(|line| line == "fillrandom   : skipped (--use_existing_db is true)"),
        "{lines:?}"
    );
    assert!(lines.iter().any(|line| line.ends_with("(1000 of 1000 found)")), "{lines:?}");
    // What is read is looked at.
    let ran = run(&[&again[..], &["--use_existing_db", "--value_size=99"]].concat());
    assert_eq!(ran.output.status.code(), Some(1));
    assert!(ran.err().contains("a value of 100 bytes, not 99"), "{}", ran.err());
    let lines = run(&args("--benchmarks=readrandom")).lines();
    assert!(lines.iter().any(|line| line.ends_with("(0 of 1000 found)")), "{lines:?}");
}

/// A store that bench did not make is kept, unless its loss is asked for, and a mistyped folder does not become one.
#[test]
fn a_store_of_others_is_not_emptied() {
    let folder = folder();
    let path = folder.path().join("db");
    let db = format!("--db={}", path.display());
    let options = || strandline::Options::default().pm_size(32 << 20);
    let value = || {
        let store = strandline::Db::open(&path, options()).expect("the store opens");
        store.get("mine").expect("it is read").map(|value| value.to_vec())
    };
    strandline::Db::open(&path, options()).expect("a store").put("mine", "kept").expect("a put");
    let args = [&db[..], "--num=1000", "--pm_size=32M", "--benchmarks=fillrandom,readrandom"];
    for work in ["--benchmarks=fillrandom", "--benchmarks=readrandom"] {
        let refused = run(&[&args[..3], &[work]].concat());
        assert_eq!(refused.output.status.code(), Some(1), "{}", refused.out());
        for part in ["bench did not make", "--use_existing_db", "--overwrite_existing"] {
            assert!(refused.err().contains(part), "{part}: {}", refused.err());
        }
        assert_eq!(value().as_deref(), Some(&b"kept"[..]));
    }
    // Nor what is left of one.
    std::fs::rename(path.join("STORE"), path.join("other")).expect("renamed");
    assert_eq!(run(&args).output.status.code(), Some(1));
    std::fs::rename(path.join("other"), path.join("STORE")).expect("renamed");
    let lines = run(&[&args[..], &["--use_existing_db"]].concat()).lines();
    assert!(lines.iter().any(|line| line.contains("skipped")), "{lines:?}");
    assert_eq!(value().as_deref(), Some(&b"kept"[..]));
    run(&[&args[..], &["--overwrite_existing"]].concat()).lines();
    assert_eq!(value(), None);
    // Now it is one of bench.
    run(&args).lines();
    // Until another is made there by hand.
    std::fs::remove_dir_all(path.join("sst")).expect("removed");
    for part in ["STORE", "pool"] {
        std::fs::remove_file(path.join(part)).expect("removed");
    }
    strandline::Db::open(&path, options()).expect("a store").put("mine", "new").expect("a put");
    assert_eq!(run(&args).output.status.code(), Some(1));
    assert_eq!(value().as_deref(), Some(&b"new"[..]));
    // Nor is a pool, or a folder of tables, that is named beside a store of bench.
    let own = format!("--db={}", folder.path().join("own").display());
    run(&[&[&own[..]], &args[1..]].concat()).lines();
    for part in [
        format!("--pm={}", path.join("pool").display()),
        format!("--ssd={}", path.join("sst").display()),
    ] {
        let refused = run(&[&[&own[..], &part], &args[1..]].concat());
        assert_eq!(refused.output.status.code(), Some(1), "{part}: {}", refused.out());
        assert!(refused.err().contains("bench did not make"), "{part}: {}", refused.err());
    }
    assert_eq!(value().as_deref(), Some(&b"new"[..]));
    // One that bench was given empty is its own.
    let pool = format!("--pm={}", folder.path().join("its pool").display());
    for _ in 0..2 {
        run(&[&[&own[..], &pool], &args[1..]].concat()).lines();
    }

    let mistyped = folder.path().join("mistyped");
    let ran = run(&[&format!("--db={}", mistyped.display()), "--use_existing_db", args[3]]);
    assert_eq!(ran.output.status.code(), Some(1));
    assert!(ran.err().contains("no store at") && ran.err().contains("--db"), "{}", ran.err());
    assert!(!mistyped.exists());
}

/// A store of bench that is open, or whose parts were exchanged for those of another store, is not emptied.
#[test]
fn what_others_use_is_not_emptied_where_a_store_of_bench_was() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let refused = |args: &[String], why: &str| {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let ran = run(&args);
        assert_eq!(ran.output.status.code(), Some(1), "{}", ran.out());
        assert!(ran.err().contains(why), "{}", ran.err());
    };
    let bench = |name: &str, more: &[String]| {
        let own = [format!("--db={}", at(name).display())];
        let rest = ["--num=1000", "--pm_size=32M", "--benchmarks=fillrandom"].map(str::to_owned);
        [&own[..], &rest, more].concat()
    };
    let works = |args: &[String]| {
        run(&args.iter().map(String::as_str).collect::<Vec<_>>()).lines();
    };
    let options = || strandline::Options::default().pm_size(32 << 20);
    let open = |name: &str, options| strandline::Db::open(at(name), options).expect("opens");

    // Open in another process, here in this one; by its pool, or by its log.
    for (name, dram) in [("held", false), ("held-log", true)] {
        let more = if dram { vec!["--pm=dram".to_owned()] } else { Vec::new() };
        works(&bench(name, &more));
        let db = open(name, options().background_threads(0));
        db.put("mine", "kept").expect("a put");
        refused(&bench(name, &more), "held by");
        refused(
            &bench(name, &[&more[..], &["--overwrite_existing".to_owned()]].concat()),
            "held by",
        );
        assert_eq!(db.get("mine").expect("a get").as_deref(), Some(&b"kept"[..]));
    }

    // Its pool is elsewhere, and only the store says where.
    let pool = vec![format!("--pm={}", at("P").display())];
    works(&bench("b", &pool));
    let db = open("b", options().background_threads(0));
    refused(&bench("b", &[]), "held by");
    drop(db);
    // What bench made elsewhere it knows again, also when a run in between did not name it.
    works(&bench("b", &[]));
    works(&bench("b", &pool));

    // Another store's pool lies where the one of bench was; the same with tables.
    std::fs::remove_file(at("P")).expect("removed");
    let theirs = || options().pm(strandline::PmSource::Path(at("P")));
    open("u", theirs()).put("mine", "kept").expect("a put");
    refused(&bench("b", &pool), "bench did not make");
    assert!(open("u", theirs()).get("mine").expect("a get").is_some());
    let tables = vec![format!("--ssd={}", at("T").display())];
    works(&bench("b2", &tables));
    std::fs::remove_dir_all(at("T")).expect("removed");
    let db = open("u2", options().ssd(strandline::SsdSource::Path(at("T"))));
    db.put("mine", "kept").expect("a put");
    db.compact().expect("tables");
    drop(db);
    refused(&bench("b2", &tables), "bench did not make");
    let overwrite = [&tables[..], &["--overwrite_existing".to_owned()]].concat();
    refused(&bench("b2", &overwrite), "a store in another folder");
    let db = open("u2", options().ssd(strandline::SsdSource::Path(at("T"))));
    assert!(db.get("mine").expect("a get").is_some());
    drop(db);

    // Links within the folder lead to what is another's.
    works(&bench("c", &[]));
    open("v", options()).put("mine", "kept").expect("a put");
    std::fs::remove_dir_all(at("c").join("sst")).expect("removed");
    std::os::unix::fs::symlink(at("v").join("sst"), at("c").join("sst")).expect("a link");
    refused(&bench("c", &[]), "remove that link");

    // A creation that was cut, by hand here, is gone on with.
    works(&bench("cut", &[]));
    std::fs::remove_file(at("cut").join("STORE")).expect("removed");
    works(&bench("cut", &[]));
    works(&bench("cut", &["--ssd=none".to_owned()]));
    works(&bench("cut", &[]));

    // What only looks like a table stays, and empty remains of a creation are no store.
    works(&bench("d", &[]));
    let like_a_table = at("d").join("sst/mine.sst");
    std::fs::write(&like_a_table, "mine").expect("written");
    works(&bench("d", &[]));
    assert!(like_a_table.exists());
    std::fs::create_dir_all(at("e").join("sst")).expect("a folder");
    works(&bench("e", &[]));
}

/// Benchmarks that look at values run behind those that write others.
#[test]
fn merges_leave_the_values_of_other_benchmarks_alone() {
    let store = ["--num=2000", "--pm_size=128M", "--zone_size=1M", "--json"];
    let work = "--benchmarks=fillsync,fillbatch,updaterandom,mergerandom,readwhilescanning,deleterange,mergechain,\
                fillseq,mergerandom,readseq,readrandom,check";
    let objects = run(&[&store[..], &[work]].concat()).objects();
    assert_eq!(objects.len(), 12, "{objects:?}");
}

/// The other commands write dashes, and set options by name.
#[test]
fn flags_may_be_written_as_those_of_other_commands() {
    let object = |flags: &[&str]| {
        let args = ["--benchmarks=fillseq", "--json", "--num=100", "--pm=heap", "--pm_size=32M"];
        run(&[&args[..], flags].concat()).objects().remove(0)
    };
    let written = |flags: &[&str]| number(&object(flags), "user_bytes_written") as u64;
    for flags in [&["--value-size=1000"][..], &["-value-size", "1000"]] {
        assert_eq!(written(flags), 100 * 1016, "{flags:?}");
    }
    let taken = |flags: &[&str]| number(&object(flags), "pm_bytes") as u64;
    let zones = taken(&["--zone_size=1M"]);
    assert_ne!(taken(&[]), zones);
    for flags in [&["--zone-size=1M"][..], &["--option", "zone_size=1M"]] {
        assert_eq!(taken(flags), zones, "{flags:?}");
    }
    for wrong in ["--option=num=5", "--option=pm_size"] {
        assert_eq!(run(&[wrong]).output.status.code(), Some(2), "{wrong}");
    }
    let help = run(&["--json", "--help"]).objects().remove(0);
    assert!(help["help"].as_str().is_some_and(|text| text.contains("--benchmarks")), "{help}");
}

#[test]
fn what_the_machine_allows() {
    let work = "--benchmarks=persistlimit,spingap,steps,recovery";
    let args =
        [work, "--num=20000", "--pm_size=128M", "--duration=0.2", "--fill_bytes=4M", "--json"];
    let objects = run(&args).objects();
    let names: Vec<&str> =
        objects.iter().filter_map(|object| object["benchmark"].as_str()).collect();
    assert_eq!(names, ["persistlimit", "spingap", "steps", "recovery"]);
    assert!(number(&objects[0], "persist_128_ns") > 0.0);
    assert!(number(&objects[1], "longest_gap_us") > 0.0);
    let steps = &objects[2];
    assert!(number(&steps["put_steps_ns"], "W4 index") > 0.0, "{steps}");
    assert!(number(steps, "get_ns") > 0.0 && number(steps, "put_ns") > 0.0, "{steps}");
    let recovery = &objects[3];
    assert_eq!(number(recovery, "records") as u64, (4 << 20) / 116, "{recovery}");
    assert!(number(recovery, "open_unflushed_s") > 0.0 && number(recovery, "open_flushed_s") > 0.0);
    let steps = number(recovery, "scan_s") + number(recovery, "rebuild_s");
    assert!(steps > 0.0 && steps <= number(recovery, "open_unflushed_s"), "{recovery}");
    assert!(number(recovery, "bytes_scanned") >= (4 << 20) as f64, "{recovery}");
    for rate in [
        "scan_bytes_per_sec",
        "first_read_bytes_per_sec",
        "mapped_read_bytes_per_sec",
        "rebuild_records_per_sec",
        "puts_per_sec",
    ] {
        assert!(number(recovery, rate) > 0.0, "{rate}: {recovery}");
    }
}

#[test]
fn a_nearly_full_pool_can_be_overwritten() {
    let args = [
        "--benchmarks=overwrite_full",
        "--pm_size=64M",
        "--memtable_bytes=512K",
        "--background_threads=0",
        "--duration=0.5",
        "--json",
    ];
    let object = run(&args).objects().remove(0);
    assert!((0.75..0.95).contains(&number(&object, "full_share")), "{object}");
    assert!(number(&object, "ops") > 0.0 && number(&object, "longest_put_us") > 0.0, "{object}");
    assert!(number(&object, "spin_gap_before_us") > 0.0, "{object}");
}

#[test]
fn what_a_store_holds_is_compared_with_what_the_process_has() {
    let pool = folder();
    let pm = format!("--pm={}", pool.path().join("pool").display());
    let args = [
        "--benchmarks=budget",
        &pm,
        "--pm_size=32M",
        "--num=100000",
        "--reads=50000",
        "--value_size=100",
        "--block_cache=4M",
        "--dram_budget=16M",
    ];
    let lines = run(&args).lines();
    let row = |name: &str| {
        let line = lines.iter().rfind(|line| line.starts_with(name));
        let line = line.unwrap_or_else(|| panic!("{name}: {lines:#?}"));
        let words: Vec<&str> = line.split([' ', ',', ';']).collect();
        let before = |word: &str| {
            let at = words.iter().position(|other| *other == word).expect("the word");
            words[at - 1].parse::<u64>().expect("bytes")
        };
        (before("held"), before("resident"))
    };
    let (held, resident) = row("readrandom");
    assert!((3 << 20..16 << 20).contains(&held), "{held}: the cache is full");
    assert!(resident >= held, "{resident}");
    assert!(row("fillrandom").0 < 16 << 20);
    let skipped = run(&["--benchmarks=budget", "--pm=heap", "--num=1000"]).lines();
    assert!(skipped.iter().any(|line| line.contains("give --pm")), "{skipped:#?}");
}

#[test]
fn the_tour_goes_all_the_way() {
    let args = ["--num=5000", "--pm_size=256M", "--duration=0.2"];
    let lines = run(&args).lines();
    for title in ["put new", "put again", "get", "scan", "open again", "kill -9", "machine's limit"]
    {
        assert!(
            lines.iter().any(|line| line.trim_start().starts_with(title)),
            "{title}: {lines:#?}"
        );
    }
    assert!(lines.iter().any(|line| line.contains("0 were lost and 0 torn")), "{lines:#?}");
    // What figures depend on comes first: durability, pages, machine.
    let place = |begin: &str| lines.iter().position(|line| line.trim_start().starts_with(begin));
    let first = ["a put survives", "pages of pool", "machine", "what"].map(place);
    assert!(first.is_sorted() && first[0] == Some(2), "{first:?}: {lines:#?}");
    let heads = lines.iter().filter(|line| line.contains("p99.9    longest  ops/s over time"));
    assert_eq!(heads.count(), 2, "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("bytes were written to SSD")), "{lines:#?}");
    let drawn =
        lines.iter().filter(|line| line.ends_with(['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█', '·']));
    assert!(drawn.count() >= 5, "{lines:#?}");
    // The note on durability may be a sentence; nothing else is wider than a terminal.
    let wide = lines.iter().filter(|line| line.chars().count() > 100);
    assert!(wide.count() <= 1, "{lines:#?}");
    let objects = run(&[&args[..], &["--json"]].concat()).objects();
    let puts = objects.iter().filter(|object| object["benchmark"] == "filluniquerandom");
    let outgrown = puts.map(|object| number(object, "ssd_bytes_written")).collect::<Vec<_>>();
    assert!(outgrown.len() == 2 && outgrown[1] > 16e6, "{outgrown:?}");
    let kill = objects.iter().find(|object| object["benchmark"] == "kill").expect("a kill");
    assert!(number(kill, "acknowledged") > 0.0, "{kill}");
    assert_eq!(number(kill, "kills") as u64, 5);
}

#[test]
fn a_run_that_is_killed_leaves_nothing_behind() {
    let mut child = start(&["--benchmarks=spingap", "--duration=30", "--pm_size=32M"]);
    let pid = child.id();
    let began = Instant::now();
    let wait = |there: bool| {
        while left_behind(pid).is_empty() == there {
            assert!(began.elapsed() < Duration::from_secs(20), "{:?}", left_behind(pid));
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    wait(true);
    // Long enough for the janitor to stand by.
    std::thread::sleep(Duration::from_millis(500));
    child.kill().expect("killed");
    child.wait().expect("gone");
    wait(false);
}

/// Models, what they say of a device, and what goes through one, over time.
#[test]
fn models_of_devices_are_told_with_every_figure() {
    let dir = tempfile::tempdir().expect("folder");
    let series = dir.path().join("series.csv");
    let shown = format!("--series={}", series.display());
    let told = run(&[
        "--pm=heap",
        "--pm_model=zero,cache=65536",
        "--benchmarks=fillrandom",
        "--num=20000",
        &shown,
        "--stats_interval=0.1",
        "--json",
    ])
    .objects();
    assert_eq!(told[0]["basis"], "emulated (pm: zero,cache=65536)");
    let rows = std::fs::read_to_string(&series).expect("a file");
    let mut rows = rows.lines();
    let head: Vec<&str> = rows.next().expect("a head").split(',').collect();
    assert_eq!((head[0], head[5]), ("benchmark", "pm_written"));
    let field = |row: &str| row.split(',').nth(5)?.parse::<f64>().ok();
    assert!(rows.map(|row| field(row).expect("a number")).sum::<f64>() > 0.0);
    let model = "zero,read=+2000ns,near=+2000ns";
    let shown = format!("--pm_model={model}");
    let cells = run(&["--pm=heap", &shown, "--benchmarks=device", "--json"]).objects();
    let chase = cells.iter().find(|cell| cell["operation"] == "chase").expect("a cell");
    assert!(chase["model_ns"].as_f64() > chase["host_ns"].as_f64(), "{chase}");
    assert_eq!(chase["basis"], format!("emulated (pm: {model})"));
}

/// A fresh store has its tiers to itself, again and again, and takes none from another store.
#[test]
fn a_fresh_store_takes_its_tiers_anew() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let bench = |db: &str, tables: &str| {
        let places = [
            format!("--db={}", at(db)),
            format!("--tiers={}:1G", at("fast")),
            format!("--ssd={}", at(tables)),
        ];
        let mut args = vec![
            "--benchmarks=fillrandom,fillseq,compact,check",
            "--num=2000",
            "--value_size=1000",
        ];
        args.extend(["--pm=dram", "--value_files_min=500"]);
        args.extend(places.iter().map(String::as_str));
        run(&args)
    };
    bench("one", "slow").lines();
    bench("one", "slow").lines();
    let there = || std::fs::read_dir(at("fast")).expect("a tier").count();
    let before = there();
    assert!(before > 1, "tables and their owner");
    let other = bench("other", "slower");
    assert!(
        !other.output.status.success() && other.err().contains("another store"),
        "{}",
        other.err()
    );
    assert_eq!(there(), before, "what another store has there stays");
    // A kept store takes other tiers, and is one of bench all the same; one that is emptied leaves those that it has.
    let (db, slow) = (format!("--db={}", at("one")), format!("--ssd={}", at("slow")));
    let more = format!("--tiers={}:1G,{}:1G", at("fast"), at("more"));
    let small = ["--num=2000", "--value_size=1000", "--pm=dram", &db, &slow];
    let small = |more: &[&str]| run(&[&small[..], more].concat());
    small(&["--benchmarks=readrandom", "--use_existing_db=true", &more]).lines();
    assert!(std::fs::read_dir(at("more")).expect("a tier").count() > 0);
    small(&["--benchmarks=fillrandom"]).lines();
    for name in ["fast", "more"] {
        assert_eq!(std::fs::read_dir(at(name)).expect("a tier").count(), 0, "{name}");
    }
}
