//! How runs end: closed pipes, other processes, directories, wrong usage.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use crate::store::{Store, is_durability};

#[test]
fn a_reader_that_leaves_is_no_error() {
    let store = Store::filled(30_000, &[]);
    for args in [&["scan"][..], &["dump", "--format", "jsonl"], &["scan", "--json"]] {
        let mut child = store
            .command(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command runs");
        let mut first = String::new();
        let mut reader = BufReader::new(child.stdout.take().expect("a pipe"));
        reader.read_line(&mut first).expect("a line");
        assert!(first.contains("key00000"), "{first}");
        drop(reader);
        let mut err = String::new();
        child.stderr.take().expect("a pipe").read_to_string(&mut err).expect("text");
        let err: Vec<&str> = err.lines().filter(|line| !is_durability(line)).collect();
        assert_eq!((child.wait().expect("ends").code(), err), (Some(0), vec![]), "{args:?}");
    }
}

#[test]
fn a_second_process_is_refused_by_pid() {
    let store = Store::new();
    store.run(&["put", "--create", "--pm-size", "16M", "a", "1"]).ok();
    let mut holder = store.spawn(&["load", "-"]);
    // It tells of a bad line as soon as it has the store open.
    let mut stdin = holder.stdin.take().expect("a pipe");
    stdin.write_all(b"bad\n").expect("it reads");
    let mut told = String::new();
    let mut stderr = BufReader::new(holder.stderr.take().expect("a pipe"));
    let mut first = String::new();
    stderr.read_line(&mut first).expect("text");
    assert!(is_durability(&first), "{first}");
    stderr.read_line(&mut told).expect("text");
    assert!(told.starts_with("line 1: "), "{told}");
    let pid = format!("pid {}", holder.id());
    store.run(&["put", "b", "2"]).failed(3, "Busy").failed(3, &pid);
    store.run(&["get", "a"]).failed(3, &pid);
    drop(stdin);
    assert!(holder.wait().expect("ends").success());
    assert_eq!(store.run(&["get", "a"]).ok().text(), "1\n");
}

#[test]
fn a_directory_that_cannot_be_written() {
    let store = Store::new();
    // No user can make a file there, not even root.
    store
        .run(&["put", "--create", "--db", "/proc/strandline", "a", "b"])
        .failed(3, "/proc/strandline");
    let closed = store.dir().join("closed");
    std::fs::create_dir(&closed).expect("a directory");
    let mut rights = std::fs::metadata(&closed).expect("there").permissions();
    rights.set_readonly(true);
    std::fs::set_permissions(&closed, rights).expect("ours");
    let is_root = std::fs::write(closed.join("probe"), "").is_ok();
    if !is_root {
        store.run(&["put", "--create", "--db", "closed/db", "a", "b"]).failed(3, "closed");
    }
    std::fs::write(store.dir().join("file"), "").expect("writable");
    store.run(&["put", "--create", "--db", "file", "a", "b"]).failed(3, "file");
}

#[test]
fn wrong_usage_is_2() {
    let store = Store::new();
    for args in [
        &["--option", "pm_size=much", "put", "a", "b"][..],
        &["--option", "nonsense=1", "put", "a", "b"],
        &["--option", "pm_size", "put", "a", "b"],
        &["--option", "create_if_missing=true", "put", "a", "b"],
        &["--pm-size", "10", "put", "--create", "a", "b"],
        &["--zone-size", "3K", "--pm-size", "16M", "put", "--create", "a", "b"],
        &["--pm", "heap", "put", "a", "b"],
        &["--pm", "heap", "scan"],
    ] {
        store.run(args).failed(2, "");
    }
    for args in [
        &[][..],
        &["nonsense"],
        &["get"],
        &["get", "a", "b"],
        &["scan", "--limit", "x"],
        &["scan", "--hex", "--literal"],
        &["load", "--batch", "0"],
        &["dump", "--format", "xml"],
        &["--hex", "bench"],
        &["--keyspace", "x", "bench"],
        &["-q", "bench"],
        &["sst", "x", "--pm-size", "1G"],
        &["help", "nonsense"],
        &["put", "a", "b", "--quiet", "--json"],
    ] {
        assert_eq!(store.run(args).code, 2, "{args:?}");
    }
    assert!(!store.pool().exists());
}

#[test]
fn an_open_shows_its_progress_to_whoever_asks() {
    let store = Store::filled(20_000, &[]);
    let ran = |progress: Option<&str>| {
        let mut command = store.command(&["get", "key00001"]);
        command.env_remove("STRANDLINE_PROGRESS");
        progress.map(|seconds| command.env("STRANDLINE_PROGRESS", seconds));
        let output = command.output().expect("the command runs");
        assert_eq!(output.stdout, b"value 1\n");
        let told = String::from_utf8(output.stderr).expect("text");
        told.split_inclusive('\n').filter(|line| !is_durability(line)).collect::<String>()
    };
    assert_eq!(ran(None), "");
    // Done before there is something to show.
    assert_eq!(ran(Some("3600")), "");
    let told = ran(Some("0"));
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines[0].starts_with("opening: verifying records, "), "{told}");
    let last = lines.last().expect("a line");
    assert!(
        last.starts_with("opening: rebuilding indexes, ") && last.ends_with("(100%)"),
        "{told}"
    );
}

/// Paths in JSON were taken for text, and `--json stats` panicked on one that is not.
#[test]
fn json_tells_of_a_store_whose_path_is_no_text() {
    let store = Store::new();
    let db = store.dir().join(OsStr::from_bytes(b"od\xffd"));
    let run = |args: &[&str]| {
        let ended = store.command(args).env("STRANDLINE_DB", &db).output().expect("it runs");
        let err = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(0), "{args:?}: {err}");
        ended.stdout
    };
    run(&["put", "--create", "--pm-size", "16M", "key", "value"]);
    run(&["compact"]);
    for args in [&["stats"][..], &["lsm"], &["check"], &["pool"], &["manifest"], &["zone"]] {
        let out = run(&[&["--json"], args].concat());
        serde_json::from_slice::<serde_json::Value>(&out).expect("JSON");
    }
    let copy = store.dir().join(OsStr::from_bytes(b"co\xffy"));
    let copied =
        store.command(&["--json", "checkpoint"]).arg(&copy).env("STRANDLINE_DB", &db).output();
    assert_eq!(copied.expect("it runs").status.code(), Some(0));
}

/// Options that commands have in common, and those of the store, stand before or behind `bench`.
#[test]
fn bench_takes_the_options_of_all_commands() {
    let store = Store::new();
    let bench = ["bench", "--benchmarks=fillseq", "--num=10"];
    let options = ["--json", "--db", "here", "--pm-size", "32M", "--option", "zone_size=256K"];
    let (before, after) = ([&options[..], &bench].concat(), [&bench[..], &options].concat());
    for args in [before, after] {
        assert_eq!(store.run(&args).ok().json()["benchmark"], "fillseq");
        let stats = store.run(&["stats", "--db", "here", "--json"]).ok().json();
        assert_eq!(stats["pm"]["zone_bytes"], 256 << 10, "{args:?}");
        std::fs::remove_dir_all(store.dir().join("here")).expect("removed");
    }
    let preset = ["--preset=classic", "bench", "--json", "--benchmarks=fillseq", "--num=10"];
    let json = store.run(&[&preset[..], &["--pm_size=32M"]].concat()).ok().json();
    assert_eq!(json["durability"], "synced to SSD");
    let wrong = store.run(&["--json", "bench", "--num=many"]);
    assert!(wrong.code == 2 && wrong.err.starts_with("{\"error\""), "{}", wrong.err);
    assert!(!store.pool().exists(), "STRANDLINE_DB is not for bench");
}
