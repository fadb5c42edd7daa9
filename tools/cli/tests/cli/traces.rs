//! Traces: recorded by bench, replayed.

use serde_json::Value;

use crate::store::{Ran, Store};

const SMALL: [&str; 5] = ["bench", "--num=3000", "--pm=heap", "--pm_size=64M", "--json"];

fn bench(store: &Store, args: &[&str]) -> Ran {
    store.run(&[&SMALL[..], args].concat())
}

fn objects(ran: Ran) -> Vec<Value> {
    let text = ran.ok().text();
    text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

const MIX: [&str; 6] = [
    "--benchmarks=fillseq,mixgraph",
    "--mix_get_ratio=0.6",
    "--mix_put_ratio=0.2",
    "--mix_seek_ratio=0.1",
    "--mix_delete_ratio=0.05",
    "--mix_merge_ratio=0.05",
];

/// The last benchmark is traced. A store that was filled alike answers alike, on any number of threads.
#[test]
fn a_trace_is_replayed() {
    let store = Store::new();
    let recorded = bench(&store, &[&MIX[..], &["--trace=mix.trace"]].concat());
    assert!(recorded.err.contains("mix.trace: 3000 operations in "), "{}", recorded.err);
    let mix = &objects(recorded)[1];
    for threads in ["1", "2"] {
        let work = ["--benchmarks=fillseq,replay", "--trace", "mix.trace", "--threads", threads];
        let replayed = &objects(bench(&store, &work))[1];
        assert_eq!((&replayed["benchmark"], &replayed["ops"]), (&"replay".into(), &3000.into()));
        for field in ["reads", "found", "user_bytes_written"] {
            assert_eq!(replayed[field], mix[field], "{field} of {replayed} and {mix}");
        }
        assert_eq!(replayed["gets_found"], replayed["gets_found_traced"], "{replayed}");
        assert!(replayed["p99_us"].is_f64() && replayed["cache_hits"].is_u64(), "{replayed}");
    }
    let text = store.run(&[
        "bench",
        "--pm=heap",
        "--pm_size=64M",
        "--benchmarks=replay",
        "--trace=mix.trace",
    ]);
    let text = text.ok().text();
    let line = text.lines().find(|line| line.starts_with("replay ")).expect("a line");
    assert!(line.contains(" 3000 operations;") && line.contains("block cache: "), "{line}");
}

#[test]
fn a_trace_is_a_sample_or_ends_early_where_that_is_asked() {
    let store = Store::new();
    let work = ["--benchmarks=fillseq,readrandom", "--trace=sample", "--trace-one-of=10"];
    let recorded = bench(&store, &work).ok();
    let count: u64 = recorded
        .err
        .split("sample: ")
        .nth(1)
        .expect("a note")
        .split(' ')
        .next()
        .expect("a count")
        .parse()
        .expect("a number");
    assert!((150..600).contains(&count), "{}", recorded.err);
    let short = ["--benchmarks=fillseq", "--trace=short", "--trace_max_size=10K"];
    let recorded = bench(&store, &short).ok();
    assert!(recorded.err.contains("it ended early"), "{}", recorded.err);
    // What is before the place where a file ends is replayed.
    let whole = std::fs::read(store.dir().join("sample")).expect("it is there");
    std::fs::write(store.dir().join("cut"), &whole[..whole.len() - 1]).expect("written");
    let replayed = bench(&store, &["--benchmarks=replay", "--trace=cut"]).ok();
    assert!(replayed.err.contains("cut is cut off at "), "{}", replayed.err);
    assert_eq!(replayed.json()["ops"], count);
}

/// Each error names the flag or file, and what to do.
#[test]
fn traces_that_make_no_sense_are_refused() {
    let store = Store::new();
    std::fs::write(store.dir().join("text"), "no trace").expect("written");
    let plain = |args: &[&str]| {
        store.run(&[&["bench", "--num=100", "--pm=heap", "--pm_size=64M"][..], args].concat())
    };
    plain(&["--trace=x"]).failed(2, "--trace: the tour is not traced; name");
    plain(&["--benchmarks=replay"]).failed(2, "no trace; name one with --trace");
    let replay = ["--benchmarks=replay", "--trace=text"];
    plain(&[&replay[..], &["--verify"]].concat()).failed(2, "--verify: values that replay puts");
    plain(&[&replay[..], &["--replay_speed=0"]].concat())
        .failed(2, "--replay_speed=0: expected max");
    plain(&replay).failed(3, "text is no trace; name a file of bench --trace");
    plain(&["--benchmarks=replay", "--trace=none"]).failed(3, "none: ");
    plain(&["--benchmarks=fillseq", "--trace=text"]).failed(3, "remove it, or name another file");
}
