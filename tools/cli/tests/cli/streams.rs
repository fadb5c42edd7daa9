//! `watch` and `streams`: closed stores, running ones, and processes that come and go.

use std::io::{BufRead, BufReader, Write};
use std::process::Child;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::store::Store;

/// A command that goes on, and the lines that it prints.
struct Going {
    child: Child,
    lines: Receiver<String>,
}

impl Going {
    fn new(mut child: Child) -> Going {
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        let (gives, lines) = channel();
        std::thread::spawn(move || {
            out.lines().map_while(Result::ok).try_for_each(|line| gives.send(line))
        });
        Going { child, lines }
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(Duration::from_secs(60)).expect("a line")
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn watched(args: &[&str]) -> Store {
    let store = Store::filled(10, args);
    assert_eq!(store.run(&["watch", "copy", "--create", "--once"]).ok().text(), "");
    store
}

/// The lines of `text` without the numbers that they begin with.
fn unnumbered(text: &str) -> Vec<&str> {
    text.lines().map(|line| line.split_once('\t').expect("a number").1).collect()
}

#[test]
fn a_closed_store_gives_what_has_gathered() {
    for args in [&[][..], &["--pm", "dram"]] {
        let store = watched(args);
        store.run(&["put", "a\\tb", "1"]).ok();
        store.run(&["del", "key00003"]).ok();
        store.run(&["delete-range", "key00005", "key00007"]).ok();
        store.run(&["keyspace", "create", "other"]).ok();
        store.run(&["put", "--keyspace", "other", "k", "\\xff"]).ok();
        store.run(&["keyspace", "drop", "other"]).ok();
        let expected = [
            "default\tput\ta\\tb\t1",
            "default\tdelete\tkey00003",
            "default\tdelete-range\tkey00005\tkey00007",
            "other\tkeyspace-created",
            "other\tput\tk\t\\xff",
            "other\tkeyspace-dropped",
        ];
        let kept = store.run(&["watch", "copy", "--keep", "--once"]).ok().text();
        assert_eq!(unnumbered(&kept), expected);
        let streams = store.run(&["streams", "--json"]).ok().json();
        assert_eq!(streams["streams"][0]["behind"], 6, "{streams}");
        assert_eq!(store.run(&["watch", "copy", "--once"]).ok().text(), kept, "it comes again");
        assert_eq!(store.run(&["watch", "copy", "--once"]).ok().text(), "", "acknowledged");

        let many: String = (0..700).map(|at| format!("many{at:04}\t{at}\n")).collect();
        store.run_with(&["load"], many).ok();
        let text = store.run(&["watch", "copy", "--once", "--json"]).ok().text();
        let batches: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let count = |batch: &Value| batch["changes"].as_array().map_or(0, Vec::len);
        assert_eq!(batches.iter().map(count).sum::<usize>(), 700);
        let first = &batches[0]["changes"][0];
        let number = batches[0]["number"].clone();
        assert_eq!(
            first,
            &json!({ "seq": number, "keyspace": "default", "is": "put", "key": "many0000", "value": "0" })
        );

        let streams = store.run(&["streams"]).ok().text();
        assert!(streams.contains("acknowledged") && streams.contains("copy"), "{streams}");
        assert!(store.run(&["stats"]).ok().text().contains("\nstreams\n"));
        assert_eq!(store.run(&["stats", "--json"]).ok().json()["streams"][0]["name"], "copy");
        store.run(&["streams", "--drop", "none"]).failed(3, "none");
        store.run(&["streams", "--drop", "copy"]).ok();
        assert_eq!(store.run(&["streams"]).ok().text(), "no streams\n");
        store.run(&["watch", "copy", "--once"]).failed(3, "--create");
        store.run(&["watch", "", "--create", "--once"]).failed(2, "name");
        assert_eq!(store.run(&["watch", "x", "--create", "--max-bytes", "much"]).code, 2);
        assert_eq!(store.run(&["watch", "x", "--max-bytes", "1M"]).code, 2);
    }
}

/// What a stream has lost it says, and goes on behind it only if it is told to.
#[test]
fn lost_changes_are_an_error_or_a_note() {
    let store = Store::filled(10, &["--zone-size", "64K", "--memtable-bytes", "256K"]);
    let create = ["watch", "copy", "--create", "--once", "--max-bytes", "256K"];
    assert_eq!(store.run(&create).ok().text(), "");
    let much: String = (0..4000).map(|at| format!("key{:05}\t{at:0500}\n", at % 300)).collect();
    store.run_with(&["load"], much).ok();
    store.run(&["watch", "copy", "--once"]).failed(3, "lagged too far");
    let ran = store.run(&["watch", "copy", "--once", "--skip-lost"]).ok();
    assert!(ran.err.starts_with("strandline: lost: changes before "), "{}", ran.err);
    let text = ran.text();
    let first = text.lines().next().and_then(|line| line.split('\t').next()).expect("a number");
    assert!(ran.err.trim_end().ends_with(first), "{} and {first}", ran.err);
    assert!(text.lines().count() > 50 && text.lines().count() < 4000);
    assert!(text.ends_with(&format!("{:0500}\n", 3999)));
}

/// Runs it until no other process has the store.
fn run_in_turn(store: &Store, args: &[&str]) {
    while store.run(args).err.contains("Busy") {}
}

/// One that loads what it is given, and has the store by now.
fn loader(store: &Store) -> Child {
    loop {
        let mut load = store.spawn(&["load"]);
        let until = Instant::now() + Duration::from_secs(1);
        // It ends before its input does only where another process has the store.
        while Instant::now() < until && load.try_wait().expect("a process").is_none() {
            std::thread::sleep(Duration::from_millis(10));
        }
        if load.try_wait().expect("a process").is_none() {
            return load;
        }
    }
}

/// It goes on with each process that has the store: one that loads, its end, and some that come for a moment.
#[test]
fn it_follows_processes_that_come_and_go() {
    let store = watched(&[]);
    let going = Going::new(store.spawn(&["watch", "copy"]));
    run_in_turn(&store, &["put", "first", "1"]);
    assert_eq!(unnumbered(&going.line()), ["default\tput\tfirst\t1"]);
    for round in 0..3 {
        let mut load = loader(&store);
        let mut input = load.stdin.take().expect("a pipe");
        for at in 0..500 {
            writeln!(input, "round{round}\t{at}").expect("taken");
        }
        input.flush().expect("taken");
        if round == 0 {
            // The loader has not ended: it is asked.
            for _ in 0..20 {
                writeln!(input, "more\t{}", "9".repeat(50_000)).expect("taken");
            }
            let until = Instant::now() + Duration::from_secs(60);
            let acked =
                || store.run(&["streams", "--json"]).ok().json()["streams"][0]["acked"].as_u64();
            while acked() <= Some(11) {
                assert!(Instant::now() < until, "nothing was acknowledged");
            }
        }
        drop(input);
        assert!(load.wait().expect("ends").success());
        for at in 0..500 {
            assert_eq!(unnumbered(&going.line()), [format!("default\tput\tround{round}\t{at}")]);
        }
        if round == 0 {
            (0..20).for_each(|_| {
                assert!(unnumbered(&going.line())[0].starts_with("default\tput\tmore"))
            });
        }
    }
    run_in_turn(&store, &["put", "last", "1"]);
    assert_eq!(unnumbered(&going.line()), ["default\tput\tlast\t1"]);
}
