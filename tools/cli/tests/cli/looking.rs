//! Commands that look at a store which another process has open.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStderr, ChildStdin};
use std::time::{Duration, Instant};

use crate::store::Store;

/// A process that has the store open until its input ends.
struct Running {
    child: Child,
    input: Option<ChildStdin>,
    _stderr: BufReader<ChildStderr>,
}

impl Running {
    /// Loads 3,000 records more than the store has, and stays.
    fn load(store: &Store, args: &[&str]) -> Running {
        let mut all = vec!["load", "--hex"];
        all.extend(args);
        let mut child = store.spawn(&all);
        let mut input = child.stdin.take().expect("a pipe");
        // It tells of a bad line as soon as it has the store open.
        writeln!(input, "bad").expect("taken");
        let mut told = String::new();
        let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        stderr.read_line(&mut told).expect("text");
        assert!(told.starts_with("line 1: "), "{told}");
        for at in 0..3000_u32 {
            writeln!(input, "ff{at:06x}\t{at:064x}").expect("taken");
        }
        input.flush().expect("taken");
        Running { child, input: Some(input), _stderr: stderr }
    }

    fn end(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().expect("ends").success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Waits until the store answers that a key of the running process is there.
fn await_key(store: &Store) {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let ran = store.run(&["explain", "--json", "--hex", "get", "ff000001"]);
        if ran.code == 0 {
            return assert_eq!(ran.json()["value_bytes"], 32);
        }
        assert!(Instant::now() < until, "{}{}", ran.text(), ran.err);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The headings of what a command prints: what stands at the begin of its lines.
fn headings(text: &str) -> Vec<&str> {
    let begins = |line: &&str| line.starts_with(|first: char| first.is_alphabetic());
    text.lines().filter(begins).filter_map(|line| line.split(' ').next()).collect()
}

#[test]
fn a_running_store_answers_like_a_closed_one() {
    let store = Store::filled(2000, &[]);
    let closed = ["stats", "lsm", "pool"].map(|command| store.run(&[command]).ok().text());
    let running = Running::load(&store, &[]);
    await_key(&store);

    let looked = ["stats", "lsm", "pool"].map(|command| store.run(&[command]).ok().text());
    for (closed, looked) in closed.iter().zip(&looked) {
        assert_eq!(headings(closed), headings(looked));
    }
    assert!(looked[0].contains("through ") && looked[0].contains("inspect.sock"), "{}", looked[0]);
    let stats = store.run(&["stats", "--json"]).ok().json();
    assert!(stats["visible_seq"].as_u64() > Some(2000), "it is the store as it runs");
    assert!(stats["persisted"]["fences"].as_u64() > Some(0), "{stats}");
    let lsm = store.run(&["lsm", "--json", "--hex"]).ok().json();
    assert_eq!(lsm["keyspaces"][0]["name"], "default");
    assert!(store.run(&["pool", "--json"]).ok().json()["wear"]["most"].as_f64() > Some(0.0));

    assert_eq!(store.run(&["explain", "get", "absent"]).code, 1);
    store.run(&["explain", "--keyspace", "nope", "get", "k"]).failed(3, "no keyspace nope");
    // What is not asked over the socket says how to look.
    store.run(&["get", "k"]).failed(3, "look at it while it runs: strandline stats");
    running.end();
    // Closed again, the store itself is opened.
    let stats = store.run(&["stats", "--json"]).ok().json();
    assert!(stats["inspected_at"].is_null() && stats["persisted"]["fences"] == 0, "{stats}");
}

#[test]
fn a_store_without_the_option_says_so() {
    let store = Store::filled(10, &[]);
    let running = Running::load(&store, &["--inspect", "false"]);
    store.run(&["stats"]).failed(3, "with the option inspect");
    running.end();
}
