//! bench: keys and operations as services have them.

use serde_json::Value;

use crate::store::Store;

/// What the benchmarks of one run told.
fn run(args: &[&str]) -> Vec<Value> {
    let small = ["bench", "--num=5000", "--pm=heap", "--pm_size=128M", "--json"];
    let text = Store::new().run(&[&small[..], args].concat()).ok().text();
    text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

fn number(object: &Value, field: &str) -> f64 {
    object[field].as_f64().unwrap_or_else(|| panic!("{field} in {object}"))
}

#[test]
fn bench_draws_keys_as_asked_and_says_how() {
    let work = "--benchmarks=filluniquerandom,readrandom,readmissing,multireadrandom,seekrandom,readwhilewriting,\
                readrandomwriterandom,updaterandom,mergerandom,overwrite,deleterandom";
    for (flags, name) in [
        (&["--draw=uniform"][..], "uniform"),
        (&["--draw", "zipf", "--zipf-exponent", "1.2"], "zipf 1.2"),
        (&["--draw=hot-set", "--hot_keys=0.01"], "hot set, 0.8 of draws from 0.01 of keys"),
    ] {
        let objects = run(&[&[work, "--verify"][..], flags].concat());
        assert_eq!(objects.len(), 11);
        for object in &objects {
            let wanted = match object["benchmark"].as_str().expect("a name") {
                "filluniquerandom" => Value::Null,
                "deleterandom" => "uniform".into(),
                _ => name.into(),
            };
            assert_eq!(object["draw"], wanted, "{object}");
            assert_eq!(object["ops"], 5000, "{object}");
        }
        assert_eq!(objects[1]["found"], 5000, "all keys are there: {}", objects[1]);
    }
}

/// Mixes have values of their own, which later benchmarks take as they are.
#[test]
fn bench_mixes_operations_as_services_do() {
    // Shares of all operations; the draws of a seed are always the same.
    for (mix, draw, shares) in [
        ("udb", "keys by 0.002312*x^0.3467", [0.75, 0.2, 0.05, 0.0, 0.0]),
        (
            "zippydb",
            "30 ranges by 14.18*exp(-2.917*x)+0.0164*exp(-0.08082*x), keys by 0.002312*x^0.3467",
            [0.78, 0.13, 0.03, 0.06, 0.0],
        ),
        ("up2x", "keys by 0.002312*x^0.3467", [0.0746, 0.0, 0.0, 0.0, 0.9253]),
    ] {
        let verify = if mix == "up2x" { "--verify=false" } else { "--verify" };
        let work = "--benchmarks=fillseq,mixgraph,readrandom,readseq,check";
        let objects = run(&[work, "--mix", mix, verify]);
        assert_eq!(objects.len(), 5, "{objects:?}");
        let object = &objects[1];
        assert_eq!((object["mix"].as_str(), object["draw"].as_str()), (Some(mix), Some(draw)));
        let kinds = ["gets", "puts", "seeks", "deletes", "merges"];
        let counts = kinds.map(|kind| number(object, kind));
        assert_eq!(counts.iter().sum::<f64>(), 5000.0);
        for (count, share) in counts.iter().zip(shares) {
            assert!((count / 5000.0 - share).abs() < 0.02, "{mix}: {counts:?}");
        }
        let written = if mix == "up2x" { 48.0..=48.0 } else { 10.0..=1024.0 };
        assert!(written.contains(&number(object, "put_value_mean")), "{object}");
        // Hot keys are deleted and put again: of these a third is not there.
        assert!(number(object, "found") > 0.6 * number(object, "reads"), "{object}");
    }
}

#[test]
fn bench_tells_of_mixes_in_the_words_of_db_bench() {
    let work =
        ["bench", "--num=1000", "--pm=heap", "--pm_size=32M", "--benchmarks=fillseq,mixgraph"];
    let rate = ["--sine_mix_rate", "--sine_a=0", "--sine_d=10000000", "--sine_write_rate"];
    let mix = ["-mix_get_ratio=0.5", "-mix_put_ratio=0.3", "-mix_seek_ratio=0.2", "--threads=2"];
    let drawn = ["--draw=hot-set", "--hot_reads=0.9"];
    let text = Store::new().run(&[&work[..], &rate, &mix, &drawn].concat()).ok().text();
    let name = "hot set, 0.9 of draws from 0.2 of keys";
    assert!(text.lines().any(|line| line == format!("Draw:       {name}")), "{text}");
    let line = text.lines().find(|line| line.starts_with("mixgraph ")).expect("a line");
    for part in [
        " 2000 operations;",
        " MB/s ( Gets:",
        " Puts:",
        " Seek:",
        ", reads ",
        " found, avg size: ",
        " value, ",
        " scan) [",
    ] {
        assert!(line.contains(part), "{part} in {line}");
    }
    assert!(line.ends_with(&format!("[{name}]")) && !line.contains("Deletes"), "{line}");
    let line = text.lines().find(|line| line.starts_with("fillseq ")).expect("a line");
    assert!(line.ends_with(" MB/s"), "as db_bench has it: {line}");
}

/// Each error names the flag, and what to do.
#[test]
fn bench_refuses_workloads_that_make_no_sense() {
    let store = Store::new();
    for (args, error) in [
        (&["--draw=latest"][..], "--draw=latest: expected uniform, zipf or hot-set"),
        (&["--zipf_exponent=0", "--draw=zipf"], "--zipf_exponent=0: expected a number above 0"),
        (&["--zipf_exponent=2"], "--zipf_exponent: only with --draw=zipf; add that"),
        (&["--draw=hot-set", "--hot_keys=20"], "--hot_keys=20: expected a share"),
        (&["--mix=tao"], "--mix=tao: no such mix; there are udb, zippydb, up2x"),
        (&["--mix_put_ratio=-1"], "--mix_put_ratio=-1: expected a number, 0 or above"),
        (&["--key_dist_b=-0.7094"], "--key_dist_b=-0.7094: expected 0 or above"),
        (&["--benchmarks=mixgraph", "--mix_get_ratio=0"], "give one of them"),
        (&["--benchmarks=mixgraph", "--keyrange_num=9", "--num=5"], "lower it or raise --num"),
        (&["--benchmarks=mixgraph", "--mix=up2x", "--verify"], "--mix_merge_ratio=0"),
        (&["--benchmarks=mixgraph", "--mix_accesses=9"], "--mix_accesses: no meaning here; leave"),
    ] {
        store.run(&[&["bench"][..], args].concat()).failed(2, error);
    }
}
