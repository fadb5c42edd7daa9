//! --json: every command, from the list that the command line itself gives, on success and on error.

use std::collections::BTreeMap;

use serde_json::Value;
use strandline::{Db, Options, TransactionOptions};

use crate::store::{Ran, Store};

/// How a command is called so that it succeeds, and so that it fails.
struct Calls {
    good: &'static [&'static str],
    /// Kind of the error, exit code, arguments.
    bad: (&'static str, i32, &'static [&'static str]),
}

const fn calls(
    good: &'static [&'static str],
    bad: (&'static str, i32, &'static [&'static str]),
) -> Calls {
    Calls { good, bad }
}

const NO_STORE: &str = "nowhere";

/// Calls of the command at `path`; a new command needs a row here.
fn calls_of(path: &str) -> Calls {
    match path {
        "create" => {
            calls(&["create", "--db", "new", "--pm-size", "16M"], ("Exists", 3, &["create"]))
        }
        "put" => calls(&["put", "k", "v"], ("NotFound", 3, &["put", "k", "v", "--db", NO_STORE])),
        "get" => calls(&["get", "key00001"], ("NotFound", 3, &["get", "k", "--db", NO_STORE])),
        "merge" => calls(
            &["merge", "--keyspace", "sums", "k", "5"],
            ("InvalidArgument", 2, &["merge", "k", "v"]),
        ),
        "del" => calls(&["del", "key00002"], ("Usage", 2, &["del"])),
        "delete-range" => {
            calls(&["delete-range", "x", "y"], ("InvalidArgument", 2, &["delete-range", "y", "x"]))
        }
        "scan" => calls(&["scan"], ("Usage", 2, &["scan", "--limit", "x"])),
        "load" => calls(&["load", "in.tsv"], ("Other", 3, &["load", "nothing.tsv"])),
        "dump" => calls(&["dump"], ("NotFound", 3, &["dump", "--keyspace", "none"])),
        "export" => calls(&["export"], ("NotFound", 3, &["export", "--keyspace", "none"])),
        "stats" => calls(&["stats"], ("Usage", 2, &["stats", "--hex"])),
        "top" => calls(&["top"], ("Usage", 2, &["top", "--interval", "0"])),
        "locks" => calls(&["locks"], ("Usage", 2, &["locks", "--limit", "x"])),
        "watch" => calls(
            &["watch", "--db", "watched", "copy", "--once"],
            ("NotFound", 3, &["watch", "none", "--once"]),
        ),
        "streams" => calls(&["streams"], ("NotFound", 3, &["streams", "--drop", "none"])),
        "pool" => calls(&["pool"], ("NotFound", 3, &["pool", "--db", NO_STORE])),
        "lsm" => calls(&["lsm", "--files"], ("NotFound", 3, &["lsm", "--db", NO_STORE])),
        "manifest" => calls(&["manifest"], ("NotFound", 3, &["manifest", "--db", NO_STORE])),
        "sst" => calls(
            &["sst", "table.sst", "--scan", "--verify"],
            ("Corruption", 3, &["sst", "in.tsv"]),
        ),
        "flush" => calls(&["flush"], ("NotFound", 3, &["flush", "--db", NO_STORE])),
        "compact" => calls(&["compact"], ("NotFound", 3, &["compact", "--keyspace", "none"])),
        "checkpoint" => calls(&["checkpoint", "copy"], ("Exists", 3, &["checkpoint", "db"])),
        "ingest" => calls(&["ingest", "table.sst"], ("Corruption", 3, &["ingest", "in.tsv"])),
        "import" => calls(
            &["import", "--rocksdb", "rdb", "--db", "imported", "--pm-size", "16M"],
            ("NotFound", 3, &["import", "--rocksdb", NO_STORE, "--db", "x"]),
        ),
        "repair" => calls(
            &["repair", "db", "--to", "repaired", "--pm-size", "16M"],
            ("NotFound", 3, &["repair", NO_STORE, "--to", "x"]),
        ),
        "convert" => calls(
            &["convert", "--pm", "dram", "--pm-size", "16M"],
            ("NotFound", 3, &["convert", "--db", NO_STORE]),
        ),
        "destroy" => calls(&["destroy", "doomed"], ("NotFound", 3, &["destroy", NO_STORE])),
        "zone" => calls(&["zone"], ("Usage", 2, &["zone", "100000"])),
        "check" => calls(&["check"], ("NotFound", 3, &["check", "--db", NO_STORE])),
        "explain get" => {
            calls(&["explain", "get", "key00001"], ("Usage", 2, &["explain", "get", r"\q"]))
        }
        "set-option" => calls(
            &["set-option", "--db", "running", "compaction_rate=1M"],
            ("NotFound", 3, &["set-option", "compaction_rate=1M"]),
        ),
        "prepared list" => {
            calls(&["prepared", "list"], ("NotFound", 3, &["prepared", "list", "--db", NO_STORE]))
        }
        "prepared commit" => {
            calls(&["prepared", "commit", "one"], ("NotFound", 3, &["prepared", "commit", "none"]))
        }
        "prepared rollback" => calls(
            &["prepared", "rollback", "other"],
            ("NotFound", 3, &["prepared", "rollback", "none"]),
        ),
        "keyspace list" => {
            calls(&["keyspace", "list"], ("NotFound", 3, &["keyspace", "list", "--db", NO_STORE]))
        }
        "keyspace create" => calls(
            &["keyspace", "create", "made"],
            ("Exists", 3, &["keyspace", "create", "default"]),
        ),
        "keyspace set" => calls(
            &["keyspace", "set", "default", "placement=level"],
            ("NotFound", 3, &["keyspace", "set", "none", "tiers=all"]),
        ),
        "keyspace drop" => {
            calls(&["keyspace", "drop", "spare"], ("NotFound", 3, &["keyspace", "drop", "none"]))
        }
        "reproduce" => calls(
            &["reproduce", "xengine-memtable", "--keys", "100"],
            ("Usage", 2, &["reproduce", "nothing"]),
        ),
        "advise" => calls(
            &["advise", "--trace=reads", "--prices=dram=4,pm=2,ssd=0.1"],
            ("Usage", 2, &["advise", "--trace=reads"]),
        ),
        "bench" => calls(
            &[
                "bench",
                "--benchmarks=fillseq,recover,stats",
                "--num=100",
                "--pm=heap",
                "--pm_size=32M",
                "--statistics",
            ],
            ("Usage", 2, &["bench", "--num=many"]),
        ),
        "completions" => calls(&["completions", "bash"], ("Usage", 2, &["completions", "nothing"])),
        "man" => calls(&["man", "--dir", "pages"], ("Other", 3, &["man", "--dir", "in.tsv"])),
        "help" => calls(&["help", "options"], ("Usage", 2, &["help", "nonsense"])),
        other => panic!("{other}: say in tests/cli/json.rs how it is called"),
    }
}

/// Paths of all commands that do something, as the command line tells them.
fn paths(command: &Value, before: &str, found: &mut Vec<String>) {
    for sub in command["commands"].as_array().expect("commands") {
        let name = sub["name"].as_str().expect("a name");
        let path = format!("{before} {name}").trim().to_owned();
        match sub["commands"].as_array().expect("commands").is_empty() {
            true => found.push(path),
            false => paths(sub, &path, found),
        }
    }
}

/// Leaves transactions of these names behind.
fn prepare(store: &Store, names: &[&str]) {
    let db = Db::open(store.dir().join("db"), Options::default()).expect("open");
    for name in names {
        let mut transaction = db.begin(TransactionOptions::new()).expect("begin");
        let key = format!("prepared {name}");
        transaction.put(db.default_keyspace(), key, "1").expect("put");
        transaction.prepare(name).expect("prepared");
    }
}

fn store() -> Store {
    let store = Store::filled(100, &[]);
    store.run(&["keyspace", "create", "spare"]).ok();
    store.run(&["keyspace", "create", "sums", "--merge-operator", "add"]).ok();
    store.run(&["create", "--db", "doomed", "--pm-size", "16M"]).ok();
    prepare(&store, &["one", "other"]);
    store.run(&["create", "--db", "watched", "--pm-size", "16M"]).ok();
    store.run(&["watch", "--db", "watched", "copy", "--once", "--create"]).ok();
    store.run(&["put", "--db", "watched", "k", "v"]).ok();
    std::fs::write(store.dir().join("in.tsv"), "a\t1\nrejected\n").expect("written");
    let mut writer = sst::Writer::new(
        Vec::new(),
        sst::WriterOptions { external: true, ..sst::WriterOptions::default() },
    );
    writer.add(b"t", strandline::Seq::ZERO, sst::EntryKind::Value, b"1").expect("add");
    std::fs::write(store.dir().join("table.sst"), writer.finish().expect("finish").0)
        .expect("written");
    store
}

/// Each line is a JSON value.
fn values(path: &str, text: &str) -> Vec<Value> {
    let parse =
        |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{path}: {error}: {line}"));
    text.lines().map(parse).collect()
}

#[test]
fn every_command_prints_json_on_success_and_on_error() {
    let store = store();
    store.run(&["export", "--rocksdb", "rdb"]).ok();
    let work = "--benchmarks=fillseq,readrandom";
    let traced = ["bench", work, "--trace=reads", "--num=100", "--pm=heap", "--pm_size=32M"];
    store.run(&traced).ok();
    let options = strandline::Options::default().pm_size(16 << 20).inspect(true);
    let _running = strandline::Db::open(store.dir().join("running"), options).expect("open");
    let help = store.run(&["help", "--json"]).ok().json();
    let mut all = Vec::new();
    paths(&help, "", &mut all);
    assert!(all.len() > 20, "{all:?}");
    for path in &all {
        let calls = calls_of(path);
        let with_json = |args: &[&str]| -> Ran { store.run(&[args, &["--json"]].concat()) };
        let ran = with_json(calls.good);
        assert_eq!(ran.code, 0, "{path}: {}{}", ran.text(), ran.err);
        assert!(!values(path, &ran.text()).is_empty(), "{path}: nothing on standard output");
        values(path, &ran.err);

        let (kind, code, args) = calls.bad;
        let ran = with_json(args);
        assert_eq!((ran.code, ran.text().as_str()), (code, ""), "{path}: {}", ran.err);
        let [error] = &values(path, &ran.err)[..] else { panic!("{path}: {}", ran.err) };
        let error = &error["error"];
        assert_eq!(
            (error["kind"].as_str(), error["exit_code"].as_i64()),
            (Some(kind), Some(code.into())),
            "{path}"
        );
        assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{path}: {error}");
    }
}

#[test]
fn json_may_stand_before_the_command() {
    let store = Store::new();
    for args in [
        &["--json", "reproduce"][..],
        &["--json", "bench", "--benchmarks=fillseq", "--num=10", "--pm=heap", "--pm_size=32M"],
    ] {
        store.run(args).ok().json();
    }
    for help in [&["bench", "--json", "--help"], &["--json", "bench", "--help"]] {
        assert!(store.run(help).ok().json()["help"].is_string());
    }
    let help = store.run(&["get", "--help", "--json"]).ok().json();
    assert!(help["help"].as_str().is_some_and(|text| text.contains("--keyspace")), "{help}");
    assert!(store.run(&["--version", "--json"]).ok().json()["version"].is_string());
    // Behind -- it is a key.
    let ran = store.run(&["get", "--", "--json"]);
    assert!(ran.err.starts_with("strandline: NotFound"), "{}", ran.err);
}

/// What a script reads of a load: notes, the summary, the error.
#[test]
fn a_load_tells_rejects_as_json() {
    let store = Store::new();
    let load = ["load", "--create", "--pm-size", "16M", "--json", "--strict"];
    let ran = store.run_with(&load, "a\t1\nbad\n");
    assert_eq!((ran.code, &ran.json()["rejects"]), (1, &1.into()));
    let [note] = &values("load", &ran.err)[..] else { panic!("{}", ran.err) };
    assert_eq!(note["line"], 2);
    assert!(note["rejected"].is_string(), "{note}");
}

/// Without --json each command that changes something says what in one line, and nothing with --quiet.
#[test]
fn commands_say_what_they_did() {
    let expected = BTreeMap::from([
        ("create", "created a store of "),
        ("put", "put 1 key (2 bytes)"),
        ("merge", "merged 1 operand (8 bytes)"),
        ("del", "deleted 1 key"),
        ("delete-range", "deleted the keys from 'x' to before 'y'"),
        ("flush", "flushed "),
        ("compact", "compacted keyspace default: "),
        ("checkpoint", "copy holds everything up to sequence number "),
        ("ingest", "1 file ingested with sequence number "),
        ("keyspace create", "created keyspace made"),
        ("keyspace set", "set keyspace default\tplacement=level"),
        ("keyspace drop", "dropped keyspace spare"),
        ("prepared commit", "committed one"),
        ("prepared rollback", "rolled back other"),
        ("convert", "moved from "),
        ("destroy", "destroyed the store at doomed"),
    ]);
    let (loud, quiet) = (store(), store());
    for (path, line) in expected {
        let args = calls_of(path).good;
        let text = loud.run(args).ok().text();
        assert!(text.starts_with(line) && text.lines().count() == 1, "{path}: {text}");
        assert_eq!(quiet.run(&[args, &["--quiet"]].concat()).ok().text(), "", "{path}");
    }
}
