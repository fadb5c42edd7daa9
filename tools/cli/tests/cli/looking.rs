//! Commands that look at a store which another process has open.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStderr, ChildStdin, Command};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use strandline::{Db, ErrorKind, LockMode, Options, TransactionOptions};

use crate::store::{Store, is_durability};

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
        let mut first = String::new();
        stderr.read_line(&mut first).expect("text");
        assert!(is_durability(&first), "{first}");
        stderr.read_line(&mut told).expect("text");
        assert!(told.starts_with("line 1: "), "{told}");
        let mut running = Running { child, input: Some(input), _stderr: stderr };
        running.write(3000);
        running
    }

    /// Gives it `records` records to write.
    fn write(&mut self, records: u32) {
        let input = self.input.as_mut().expect("it runs");
        for at in 0..records {
            writeln!(input, "ff{at:06x}\t{at:064x}").expect("taken");
        }
        input.flush().expect("taken");
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

    let metrics = store.run(&["stats", "--prometheus"]).ok().text();
    assert!(metrics.contains("\nstrandline_pm_capacity_bytes ") && metrics.ends_with("# EOF\n"));
    let fences = metrics.lines().find_map(|line| line.strip_prefix("strandline_pm_fences_total "));
    let fences = fences.and_then(|fences| fences.parse::<u64>().ok());
    assert!(
        fences >= stats["persisted"]["fences"].as_u64(),
        "of the process that runs: {fences:?}"
    );
    assert_eq!(store.run(&["stats", "--prometheus", "--json"]).code, 2);

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

/// A running store is drawn with the rates of an interval, and a closed one without.
#[test]
fn top_draws_a_running_store_and_a_closed_one() {
    let store = Store::filled(2000, &[]);
    let top = ["top", "--once", "--interval", "0.2"];
    let closed = store.run(&top).ok().text();
    assert!(closed.lines().next().is_some_and(|line| line.ends_with("no process has it open")));
    assert!(!closed.contains("refused"), "{closed}");
    let mut running = Running::load(&store, &[]);
    await_key(&store);

    let drawn = store.run(&top).ok().text();
    assert!(drawn.lines().next().is_some_and(|line| line.ends_with("  running")), "{drawn}");
    let drops_name = |text: &str| headings(text)[1..].iter().map(|head| head.to_string()).collect();
    let (drawn_heads, closed_heads): (Vec<String>, Vec<String>) =
        (drops_name(&drawn), drops_name(&closed));
    assert_eq!(drawn_heads, closed_heads);
    assert!(!drawn.contains('\x1b'), "plain text: {drawn}");

    // While `top` waits for its interval, records are written: it counts them.
    let watching = store.spawn(&["top", "--json", "--interval", "2"]);
    std::thread::sleep(Duration::from_millis(700));
    running.write(5000);
    let ended = watching.wait_with_output().expect("ends");
    let json: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    assert_eq!(json["running"], true, "{json}");
    assert!(json["per_second"]["writes"].as_f64() > Some(0.0), "{json}");
    assert!(json["per_second"]["pm_bytes"].as_f64() > Some(0.0), "{json}");
    assert!(json["seconds"].as_f64() >= Some(2.0), "{json}");

    // The process ends meanwhile.
    let watching = store.spawn(&["top", "--once", "--interval", "3"]);
    std::thread::sleep(Duration::from_millis(700));
    running.end();
    let ended = watching.wait_with_output().expect("ends");
    let text = String::from_utf8_lossy(&ended.stdout);
    assert!(text.contains("the process that had it open is gone"), "{text}");
}

#[test]
fn top_needs_a_terminal_or_draws_once() {
    let store = Store::filled(10, &[]);
    store.run(&["top"]).failed(2, "--once");
    assert_eq!(store.run(&["top", "--once", "--interval", "0"]).code, 2);
    // It holds no store that no process has open: one picture, and it is free.
    store.run(&["top", "--once"]).ok();
    store.run(&["put", "k", "v"]).ok();
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(sent.expect("there is kill").success());
}

/// The command failed with what the socket said.
#[test]
fn a_holder_that_is_killed_amid_a_question_is_as_none() {
    let store = Store::filled(2000, &[]);
    let running = Running::load(&store, &[]);
    await_key(&store);
    signal(&running.child, "-STOP");
    let asking = store.spawn(&["stats", "--json"]);
    // It waits for an answer by then.
    std::thread::sleep(Duration::from_millis(700));
    signal(&running.child, "-KILL");
    let ended = asking.wait_with_output().expect("ends");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let stats: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    assert!(stats["visible_seq"].as_u64() > Some(2000), "{stats}");
}

/// A writer was refused where another process had the store open to look at it, for a moment only.
#[test]
fn looks_keep_no_writer_out() {
    let store = Store::filled(2000, &[]);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                store.run(&["stats"]);
            }
        });
        for _ in 0..10 {
            store.run(&["put", "k", "v"]).ok();
        }
        done.store(true, Relaxed);
    });
}

/// What is locked in a store that a program has open, and what a deadlock was.
#[test]
fn locks_are_told_by_the_process_that_has_the_store() {
    let store = Store::new();
    store.run(&["create", "--pm-size", "16M"]).ok();
    let none = store.run(&["locks"]).ok().text();
    assert!(none.starts_with("0 locks"), "{none}");
    let options = Options::default().inspect(true);
    let db = Db::open(store.dir().join("db"), options).expect("open");
    let space = db.default_keyspace();
    let pessimistic = || TransactionOptions::pessimistic().lock_timeout(Duration::from_secs(60));
    let (mut old, mut young) =
        (db.begin(pessimistic()).expect("begin"), db.begin(pessimistic()).expect("begin"));
    let (old_no, young_no) = (old.number().expect("locks"), young.number().expect("locks"));
    old.put(space, "a\n", "1").expect("put");
    young.put(space, "b", "1").expect("put");
    young.lock_range(space, "m".., LockMode::Shared).expect("lock");
    std::thread::scope(|scope| {
        let waits = scope.spawn(move || {
            let error = young.put(space, "a\n", "1").expect_err("a cycle");
            assert_eq!(error.kind(), ErrorKind::Deadlock);
        });
        let until = Instant::now() + Duration::from_secs(60);
        while db.properties().locks.waits == 0 {
            assert!(Instant::now() < until, "it does not wait");
            std::thread::sleep(Duration::from_millis(5));
        }
        let text = store.run(&["locks"]).ok().text();
        let line = |what: &str| {
            let found = text.lines().find(|line| line.contains(what));
            found.unwrap_or_else(|| panic!("{what} in {text}")).to_owned()
        };
        let waited = line("a\\n");
        assert!(waited.contains("exclusive") && waited.ends_with(&young_no.to_string()), "{text}");
        assert!(line("m..").contains("shared") && line("3 locks").contains("bytes"), "{text}");
        let json = store.run(&["locks", "--json", "--limit", "1"]).ok().json();
        assert_eq!((&json["count"], json["locks"].as_array().map(Vec::len)), (&3.into(), Some(1)));
        let lock = &json["locks"][0];
        assert_eq!((&lock["target"]["key"], &lock["mode"]), (&"a\n".into(), &"exclusive".into()));
        assert_eq!(lock["holders"][0]["number"], old_no);
        assert_eq!(lock["waiting"][0]["number"], young_no);
        old.put(space, "b", "2").expect("the other was given up");
        waits.join().expect("no panic");
    });
    let text = store.run(&["locks"]).ok().text();
    let told = format!("{young_no} was given up");
    assert!(text.contains("deadlock: ") && text.contains(&told), "{text}");
    let json = store.run(&["locks", "--json"]).ok().json();
    assert_eq!(json["deadlocks"][0]["victim"], young_no);
    assert_eq!(json["deadlocks"][0]["cycle"].as_array().map(Vec::len), Some(2));
    let stats = store.run(&["stats", "--json"]).ok().json();
    assert_eq!((&stats["locks"]["deadlocks"], &stats["locks"]["held"]), (&1.into(), &2.into()));
    old.commit().expect("commit");
}
